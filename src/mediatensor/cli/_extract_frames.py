"""Frames to images."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from ..decoders import FrameIndex, VideoDecoder
from ..encoders import JpegEncoder, PngEncoder
from ..errors import DecodeError, InvalidArgumentError, OutOfRangeError
from ..transforms import Resize
from . import _text
from ._console import progress
from ._extract_files import Job, TimeRange
from ._sheet import check_range, choose_frames

__all__ = ["FrameOptions", "FramesJob", "grid_times", "image_name"]

# Frames that are in memory at a time.
_BATCH_BYTES = 64 << 20
_MAX_BATCH = 32

# Compressing an image takes longer than decoding it, and does not hold the interpreter.
_NUM_WRITERS = min(4, os.cpu_count() or 1)

_JPEG_QUALITY = 95

_MAX_GRID_TIMES = 10_000_000


@dataclass(frozen=True)
class FrameOptions:
    """Which frames, and as what; ``None`` leaves the choice to us.

    Attributes:
        suffix: ``"png"`` or ``"jpg"``.
        every_seconds: The frame at each multiple of this time.
        fps: As many frames per second.
        indices: Frames by index.
        size: (width, height) in pixels.
        stream_index: The video stream.
    """

    suffix: str = "png"
    every_seconds: float | None = None
    fps: float | None = None
    indices: tuple[int, ...] | None = None
    size: tuple[int, int] | None = None
    stream_index: int | None = None


class FramesJob(Job):
    """Frames of a video, to be written as images beside ``target``: its name is what theirs begin with.

    Raises:
        MediaTensorError: if the video cannot be read, or there are no such frames.
    """

    def __init__(self, file: str, target: Path, options: FrameOptions, span: TimeRange) -> None:
        self._target = target
        self._options = options
        self._span = span
        resize = None if options.size is None else [Resize(options.size[::-1])]
        self._decoder = VideoDecoder(file, stream_index=options.stream_index, transforms=resize)
        try:
            self._plan(self._decoder.frame_index)
        except BaseException:
            self.close()
            raise

    def _plan(self, index: FrameIndex) -> None:
        """Choose the frames; all that follows refers to ``index``."""
        self._index = index
        chosen = _chosen_frames(index, self._options, self._span)
        pts_seconds = index.pts_seconds.tolist()
        self._paths = {
            number: self._target.with_name(
                image_name(self._target.name, number, pts_seconds[number], len(index), self._options.suffix)
            )
            for number in chosen
        }

    def outputs(self) -> Sequence[Path]:
        return list(self._paths.values())

    def write(self) -> str:
        self._damaged: list[int] = []
        num_written = sum(1 for _ in progress(self._write_all(), "images", total=len(self._paths)))
        if self._damaged:
            numbers = ", ".join(map(str, self._damaged[:10])) + (", ..." if len(self._damaged) > 10 else "")
            raise DecodeError(
                f"{_text.count(len(self._damaged), 'frame')} of {len(self._paths)} did not decode and "
                f"{'is' if len(self._damaged) == 1 else 'are'} missing in {str(self._target.parent)!r}: {numbers}."
            )
        return f"wrote {_text.count(num_written, 'image')} to {self._target.parent}{os.sep}"

    def _write_all(self) -> Iterator[Path]:
        """Write what is planned, and plan anew where decoding shows that there are other frames than packets tell."""
        written: dict[Path, None] = {}
        with ThreadPoolExecutor(_NUM_WRITERS) as pool:
            while True:
                left = [number for number, path in self._paths.items() if path not in written]
                left = [number for number in left if number not in self._damaged]
                if not left:
                    break
                batch = left[: self._batch_size()]
                pictures = self._decode(batch)
                if self._decoder.frame_index is not self._index:
                    self._damaged.clear()
                    self._plan(self._decoder.frame_index)
                    continue
                paths = [self._paths[number] for number in pictures]
                for path in pool.map(write_image, pictures.values(), paths):
                    written[path] = None
                    yield path
        planned = set(self._paths.values())
        for path in written:
            if path not in planned:
                path.unlink(missing_ok=True)

    def _decode(self, numbers: list[int]) -> dict[int, Tensor]:
        """The frames by number, without those that do not decode."""
        try:
            data = self._decoder.get_frames_at(numbers).data
            return dict(zip(numbers, data, strict=True))
        except (DecodeError, OutOfRangeError):
            if self._decoder.frame_index is not self._index:
                return {}
        pictures = {}
        for number in numbers:
            try:
                pictures[number] = self._decoder.get_frame_at(number).data
            except (DecodeError, OutOfRangeError):
                self._damaged.append(number)
        return pictures

    def _batch_size(self) -> int:
        width, height = self._options.size or (self._decoder.metadata.width or 1, self._decoder.metadata.height or 1)
        return max(1, min(_MAX_BATCH, _BATCH_BYTES // (width * height * 3)))

    def close(self) -> None:
        self._decoder.close()


def write_image(picture: Tensor, path: Path) -> Path:
    """Write (3, H, W) as the kind of image that the name says; the file is whole or it is not there."""
    if path.suffix == ".jpg":
        JpegEncoder(picture).to_file(path, quality=_JPEG_QUALITY)
    else:
        PngEncoder(picture).to_file(path)
    return path


def image_name(stem: str, number: int, pts_seconds: float, num_frames: int, suffix: str) -> str:
    """The name of an image; those of one video sort by name as by time.

    >>> image_name("talk", 225, 7.5, 300, "png")
    'talk_000225_7.500s.png'
    """
    width = max(6, len(str(num_frames - 1)))
    return f"{stem}_{number:0{width}d}_{pts_seconds:.3f}s.{suffix}"


def grid_times(start: float, stop: float, every_seconds: float | None, fps: float | None) -> list[float]:
    """Times in [start, stop), ``every_seconds`` apart or ``fps`` in a second.

    >>> grid_times(1.0, 2.0, 0.4, None), grid_times(0.0, 0.2, None, 10.0)
    ([1.0, 1.4, 1.8], [0.0, 0.1])
    """
    step = every_seconds if every_seconds is not None else 1 / (fps or 1.0)
    if step <= 0 or (stop - start) / step > _MAX_GRID_TIMES:
        raise InvalidArgumentError(
            f"That would be more than {_MAX_GRID_TIMES} times in the video; take frames less often."
        )
    count = int((stop - start) / step) + 1
    times = [start + (k / fps if fps else k * step) for k in range(count)]
    return [time for time in times if time < stop]


def _chosen_frames(index: FrameIndex, options: FrameOptions, span: TimeRange) -> list[int]:
    """Indices of the frames that are asked for, each once."""
    if options.indices is not None:
        return list(dict.fromkeys(_valid_index(number, len(index)) for number in options.indices))
    start = index.begin_seconds if span.start is None else span.start
    stop = index.end_seconds if span.stop is None else span.stop
    check_range(start, stop, index.begin_seconds, index.end_seconds)
    start, stop = max(start, index.begin_seconds), min(stop, index.end_seconds)
    if options.every_seconds is None and options.fps is None:
        return choose_frames(index.pts_seconds.tolist(), start, stop, len(index))
    times = grid_times(start, stop, options.every_seconds, options.fps)
    return list(dict.fromkeys(index.frames_played_at(times).tolist()))


def _valid_index(number: int, num_frames: int) -> int:
    if not -num_frames <= number < num_frames:
        raise OutOfRangeError(f"There is no frame {number}: the video has {_text.count(num_frames, 'frame')}.")
    return number % num_frames
