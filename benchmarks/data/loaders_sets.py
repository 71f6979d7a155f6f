"""Data for training loaders: sets of videos, the order of their rows, and folders of frames."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from ..media.case import Size
from ..media.clips import Clip, Encoded, Joined, film, kinetics_like, mandelbrot, quick, something_like

_JPEG_QUALITY = 90


@dataclass(frozen=True)
class LoaderCase:
    """An epoch, as plain data that can be sent to another process.

    Attributes:
        paths: The videos.
        rows_per_file: Clips of each in the epoch; row r is of video r // rows_per_file.
        num_indices_between_frames: 1 for neighbours, 2 for every second frame.
        size: (height, width) to scale to, if any.
        rows_together: Rows of one video that stay side by side when rows are shuffled; 0 for rows in order.
        num_frames_per_clip: Frames of each clip.
        batch_size: Clips of a batch.
        num_workers: Workers of the DataLoader.
        starts: For each row the first frame of its clip.
        batches: The rows of each batch, in the order of reading.
    """

    paths: tuple[str, ...]
    rows_per_file: int
    num_indices_between_frames: int = 1
    size: Size | None = None
    rows_together: int = 1
    num_frames_per_clip: int = 16
    batch_size: int = 4
    num_workers: int = 2
    starts: tuple[int, ...] = ()
    batches: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> LoaderCase:
        """Restore a case from ``dataclasses.asdict`` and JSON."""
        batches = tuple(map(tuple, fields["batches"]))
        tuples = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
        return cls(**(tuples | {"batches": batches}))

    def indices(self, row: int) -> list[int]:
        """Return the frames of a row's clip."""
        step = self.num_indices_between_frames
        return list(range(self.starts[row], self.starts[row] + step * self.num_frames_per_clip, step))

    def path(self, row: int) -> str:
        """Return the video of a row."""
        return self.paths[row // self.rows_per_file]


@dataclass(frozen=True)
class TrainingSet:
    """Videos, and what is read from them.

    Attributes:
        make_clips: Returns the given number of different videos.
        num_files: How many of them are read.
        steps: For each scenario the step between the frames of a clip.
        num_workers: Numbers of workers that read the set, one after the other.
    """

    make_clips: Callable[[int], Sequence[Clip]]
    num_files: int
    steps: Sequence[int]
    num_workers: Sequence[int]

    def clips(self, num_files: int, *, is_quick: bool) -> list[Clip]:
        """Return ``num_files`` clips, made smaller and shorter with ``is_quick``."""
        return [quick(clip) if is_quick else clip for clip in self.make_clips(num_files)]


def _parts(name: str) -> list[Encoded]:
    """Return the parts of the long videos, as in the suite ``published``.

    They are 10 s of zoom in 1080p60 with one key frame, or 10 s of film.
    """
    if name == "mandelbrot":
        gop = (("g", "600"),)
        zooms = [mandelbrot(filters=",fps=60", begin_seconds=begin) for begin in (0, 4, 8, 12)]
        return [Encoded("", (zoom,), (1920, 1080), Fraction(60), 10, options=gop) for zoom in zooms]
    scenes = film(12)
    return [Encoded("", scenes[i : i + 2], (960, 540), Fraction(30000, 1001), 10) for i in range(0, 12, 2)]


def _pairs(name: str, num_files: int) -> list[Clip]:
    """Return different pairs of consecutive parts."""
    parts = _parts(name)
    # Ordered by distance, so that the first pairs use every part about equally often.
    pairs = [(i, (i + step) % len(parts)) for step in range(1, len(parts)) for i in range(len(parts))]
    return [
        Joined(f"{name} {number}", (parts[i], parts[j]), 1)
        for number, (i, j) in enumerate(itertools.islice(pairs, num_files))
    ]


TRAINING_SETS = {
    "mandelbrot": TrainingSet(partial(_pairs, "mandelbrot"), 6, (1, 2), (2,)),
    "film": TrainingSet(partial(_pairs, "film"), 6, (1, 2), (2,)),
    "340x256, 10 s, mp4 with sound": TrainingSet(kinetics_like, 20, (1,), (1, 2, 4)),
    "427x240, 4 s, VP9 webm": TrainingSet(something_like, 20, (1,), (1, 2, 4)),
}


def frame_folder(path: str, size: Size) -> Path:
    """Return the folder of a video's frames as JPEG files of this size."""
    return Path(path).with_suffix(f".frames-{size[0]}x{size[1]}")


def write_frames(path: str, size: Size) -> int:
    """Write all frames of a video as JPEG files unless they exist, and return their total bytes."""
    folder = frame_folder(path, size)
    if not folder.exists():
        unfinished = folder.with_suffix(".unfinished")
        unfinished.mkdir(exist_ok=True)
        _extract(path, size, unfinished)
        unfinished.replace(folder)
    return sum(file.stat().st_size for file in folder.iterdir())


def _extract(path: str, size: Size, folder: Path) -> None:
    import av  # workers of other libraries must not load a second FFmpeg

    with av.open(path) as container:
        container.streams.video[0].thread_type = "AUTO"
        for i, frame in enumerate[Any](container.decode(video=0)):
            image = frame.to_image(height=size[0], width=size[1], interpolation="BILINEAR")
            image.save(folder / f"{i:05}.jpg", quality=_JPEG_QUALITY)
