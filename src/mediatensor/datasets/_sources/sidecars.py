"""Subtitle files beside media: of the same name, with or without a language (``talk.srt``, ``talk.en.vtt``)."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from ..._engine.sources.source import Source, url_scheme
from .items import Item

__all__ = ["CAPTIONS_COLUMN", "SUBTITLE_EXTENSIONS", "is_captions_path", "sidecars_of"]

#: The column of a row that has its captions, or says where they are.
CAPTIONS_COLUMN = "captions"

#: The extensions of subtitle files, in lower case; of several beside a file the first one is taken.
SUBTITLE_EXTENSIONS = (".srt", ".vtt", ".ass", ".ssa")

# "en", "eng", "en-US", "zh_Hans"; then words such as "forced".
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*(\.[A-Za-z]+)*|forced")


def is_captions_path(text: str) -> bool:
    """Whether text in the column of captions is the path or URL of a file.

    >>> is_captions_path("talk.en.srt"), is_captions_path("A caption."), is_captions_path("WEBVTT\\n\\n00:01.srt")
    (True, False, False)
    """
    return "\n" not in text and os.path.splitext(text)[1].lower() in (*SUBTITLE_EXTENSIONS, ".json")


def sidecars_of(item: Item) -> Mapping[str, str | bytes | Source]:
    """The subtitle files beside a file, by suffix (``"srt"``, ``"en.vtt"``): those without a language first.

    Those of a file on this machine are looked for in its folder. Others have the ones that their source found.
    """
    found = dict(item.sidecars)
    if not found and isinstance(item.source, str | os.PathLike):
        path = os.fspath(item.source)
        if isinstance(path, str) and (url_scheme(path) is None or os.path.exists(path)):
            found = dict(_beside(path))
    return {suffix: found[suffix] for suffix in sorted(found, key=_rank)}


def _rank(suffix: str) -> tuple[int, int, str]:
    extension = f".{suffix.rpartition('.')[2].lower()}"
    known = SUBTITLE_EXTENSIONS.index(extension) if extension in SUBTITLE_EXTENSIONS else len(SUBTITLE_EXTENSIONS)
    return suffix.count("."), known, suffix


class _Listing(NamedTuple):
    """What a folder has: the names of its subtitle files, sorted, and the stems of all others."""

    subtitles: list[str]
    stems: frozenset[str]


def _beside(path: str) -> dict[str, str]:
    folder, name = os.path.split(path)
    stem = os.path.splitext(name)[0]
    try:
        listing = _listing(folder or os.curdir, os.stat(folder or os.curdir).st_mtime_ns)
    except OSError:  # opening the file itself tells what is wrong
        return {}
    found = {}
    for number in range(bisect_left(listing.subtitles, f"{stem}."), len(listing.subtitles)):
        other = listing.subtitles[number]
        if not other.startswith(f"{stem}."):
            break
        own_stem = os.path.splitext(other)[0]
        language = own_stem[len(stem) + 1 :]
        # "a.b.srt" belongs to "a.b.mp4", if there is such a file.
        if not language or (_LANGUAGE.fullmatch(language) and own_stem not in listing.stems):
            found[other[len(stem) + 1 :]] = os.path.join(folder, other)
    return found


@lru_cache(maxsize=16)
def _listing(folder: str, modified_ns: int) -> _Listing:
    """The names in a folder, kept until it changes: every row of a file asks for them."""
    subtitles, stems = [], set()
    with os.scandir(folder) as entries:
        for entry in entries:
            stem, extension = os.path.splitext(entry.name)
            if extension.lower() not in SUBTITLE_EXTENSIONS:
                stems.add(stem)
            elif entry.is_file():  # reading a pipe would block
                subtitles.append(entry.name)
    return _Listing(sorted(subtitles), frozenset(stems))
