"""Restore the export of a document, and write it in other formats, which independent parsers read."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from mediatensor.decoders import SubtitleDecoder
from mediatensor.ocr.io import Document, DocumentFile, KIEDocument
from mediatensor.ocr.video import VideoReading

from .answers import Answers, WrongAnswerError

__all__ = ["read_exports"]

# A stored page may say that it is of any size; an image of it is given by whoever restores it.
_MAX_PIXELS = 1 << 20


def read_exports(answers: Answers, rng: random.Random, path: Path, folder: Path) -> None:
    try:
        export = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        answers.errors["no JSON"] += 1  # not for the library to read
        return
    if b"VideoReading" in path.read_bytes():
        _read_video_reading(answers, export)
        return
    is_kie = b'"predictions"' in path.read_bytes()
    document = answers.ask("document", lambda: (KIEDocument if is_kie else Document).from_dict(export))
    if document is None:
        return
    answers.ask("render", document.render)
    for kind in ("markdown", "html", "asciidoc", "tsv"):
        answers.ask(kind, partial(document.export_as, kind))
    files = {kind: answers.ask(kind, partial(_xml_files, document, kind)) for kind in ("xml", "alto")}
    again = answers.ask("json", lambda: json.dumps(document.export()))
    if again is not None:
        _check_json(document, again)
        for kind, data in files.items():
            if data is not None:
                _check_words(kind, data, _words_of_export(json.loads(again)))
    _write_pdf(answers, export, document)


def _read_video_reading(answers: Answers, export: Any) -> None:
    """Restore the reading of a video, write it as subtitles, and draw it."""
    reading = answers.ask("reading", lambda: VideoReading.from_dict(export))
    if reading is None:
        return
    if VideoReading.from_dict(json.loads(json.dumps(reading.export()))) != reading:
        raise WrongAnswerError("a reading that was stored and restored is another")
    every = reading.of_kind("caption", "overlay", "scene", "slide")
    for kind in ("srt", "vtt", "ass"):
        text = answers.ask(kind, partial(every.render, kind))
        found = None if text is None else answers.ask(f"{kind} read back", partial(_num_subtitles, text))
        # FFmpeg leaves out a subtitle of SubRip that is the same as the one before.
        texts = {track.text for track in every if re.search(r"\w", track.text)}
        if found is not None and found != len(every) and len(texts) == len(every):
            raise WrongAnswerError(f"{len(every)} pieces of text became {found} in {kind}")
    answers.ask("timeline", lambda: len(reading.synthesize_timeline(width=400)))


def _num_subtitles(text: str) -> int:
    with SubtitleDecoder(text.encode()) as decoder:
        return len(decoder)


def _xml_files(document: Document, kind: str) -> list[bytes]:
    """The files without their trees, which show their place in memory."""
    found = document.export_as(kind)
    return [page[0] for page in (found if isinstance(found, list) else [found])]


def _check_json(document: Document, text: str) -> None:
    """Restoring, exporting and restoring again gives the same document."""
    if json.dumps(type(document).from_dict(json.loads(text)).export()) != text:
        raise WrongAnswerError("a document that was stored and restored is another")


def _check_words(kind: str, files: list[bytes], expected: Counter[str]) -> None:
    """Files are valid XML, and have the words of the document."""
    found: Counter[str] = Counter()
    for data in files:
        try:
            root = ElementTree.fromstring(data)
        except ElementTree.ParseError as error:
            raise WrongAnswerError(f"{kind} is not XML: {error}") from None
        for element in root.iter():
            if element.get("class") == "ocrx_word" or element.tag.endswith("}String"):
                found[_bare(element.get("CONTENT") or element.text or "")] += 1
    del found[""]
    if found != expected:
        raise WrongAnswerError(f"{kind} lacks {list(expected - found)[:3]}, and has {list(found - expected)[:3]}")


def _words_of_export(export: Any) -> Counter[str]:
    words = Counter(_bare(text) for page in export["pages"] for text in _texts(page))
    del words[""]
    return words


def _texts(page: Any) -> Iterator[str]:
    for block in page.get("blocks", []):
        for line in block["lines"]:
            yield from (word["value"] for word in line["words"])
    for found in page.get("predictions", {}).values():
        yield from (word["value"] for word in found)


def _bare(text: str) -> str:
    """Return only letters and digits: spaces and characters that XML cannot contain may be lost."""
    return "".join(filter(str.isalnum, text))


def _undated_pdf(document: Document) -> bytes:
    """Without the time of day and the number that PDFium gives each file."""
    return re.sub(rb"CreationDate\(D:\d{14}|/ID\s*\[.*?\]", b"", document.export_as_pdf(), flags=re.DOTALL)


def _write_pdf(answers: Answers, export: Any, document: Document) -> None:
    """With images of the sizes that the export says."""
    sizes = [page.dimensions for page in document.pages]
    if find_spec("pypdfium2") is None or sum(height * width for height, width in sizes) > _MAX_PIXELS:
        return
    images = [np.full((max(1, height), max(1, width), 3), 255, np.uint8) for height, width in sizes]
    restored = answers.ask("with images", lambda: type(document).from_dict(export, pages=images))
    data = None if restored is None else answers.ask("pdf", partial(_undated_pdf, restored))
    if data is not None and images:
        pages = DocumentFile.from_pdf(data)
        if len(pages) != len(images):
            raise WrongAnswerError(f"a PDF of {len(images)} pages has {len(pages)}")
