"""The videos of a LeRobot dataset, and how many frames its table has for each."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .._sources import EpisodeFiles, Item, open_lerobot
from .findings import CheckedFile, Finding

__all__ = ["compared_with_table", "is_lerobot", "videos_of"]


def is_lerobot(source: Any) -> bool:
    """Whether a source is the folder of such a dataset."""
    return isinstance(source, (str, os.PathLike)) and os.path.isfile(
        os.path.join(os.fsdecode(source), "meta/info.json")
    )


def videos_of(source: Any) -> tuple[list[Item], list[int]]:
    """Each video, with its camera and its episodes in ``extra``, and how many frames the table has for it.

    Raises:
        InvalidArgumentError, ReadError, MissingDependencyError: as `open_lerobot`.
    """
    _, episodes = open_lerobot(source)
    num_frames: dict[tuple[str, str], int] = defaultdict(int)
    numbers: dict[tuple[str, str], list[int]] = defaultdict(list)
    for item in episodes:
        assert isinstance(item.source, EpisodeFiles)
        for camera, path in item.source.videos:
            num_frames[camera, path] += item.extra["episode"].num_frames
            numbers[camera, path].append(item.extra["episode"].index)
    items = [Item(path, extra={"camera": camera, "episodes": numbers[camera, path]}) for camera, path in num_frames]
    return items, list(num_frames.values())


def compared_with_table(files: Sequence[CheckedFile], num_frames: Sequence[int]) -> list[CheckedFile]:
    """The files, with a finding where the table has another number of frames."""
    compared = []
    for file, promised in zip(files, num_frames, strict=True):
        count = file.facts.num_frames
        if count is not None and count != promised:
            finding = Finding("frame-count", f"the table has {promised} frames of its episodes, and there are {count}")
            file = replace(file, findings=(*file.findings, finding))
        compared.append(file)
    return compared
