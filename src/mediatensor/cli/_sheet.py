"""``mediatensor sheet``: frames spread over a video, in one picture."""

from __future__ import annotations

import argparse
import os
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from .._sources import writing
from ..decoders import VideoDecoder
from ..errors import DecodeError, InvalidArgumentError, OutOfRangeError
from . import _text
from ._console import STANDARD, emit, emit_bytes, for_each_file, output_stems, progress, shown_name
from ._drawing import Tile, check_size, choose_grid, display_size, draw_sheet, tile_size

__all__ = ["SheetOptions", "check_range", "choose_frames", "run", "write_sheet"]

# Suffix: largest side in pixels that the format can store.
_SIDE_LIMITS = {".png": 1 << 16, ".jpg": 65_500, ".jpeg": 65_500, ".webp": 16_383}


def run(args: argparse.Namespace) -> int:
    options = SheetOptions(args.frames, args.columns, args.width, args.start, args.stop)
    outputs = sheet_outputs(args.files, args.output)

    def sheet(path: str, file: str) -> int:
        output, name = outputs[file], shown_name(file)
        if str(output) != STANDARD:
            emit(write_sheet(path, output, options, args.stream, name))
            return 0
        with tempfile.TemporaryDirectory(prefix="mediatensor-") as folder:
            write_sheet(path, Path(folder) / "sheet.png", options, args.stream, name)
            emit_bytes((Path(folder) / "sheet.png").read_bytes())
        return 0

    return for_each_file(list(outputs), sheet)


def sheet_outputs(files: Sequence[str], output: Path | None) -> dict[str, Path]:
    """Where the sheet of each file goes: one is the picture that ``output`` names, several go into a folder.

    >>> from pathlib import Path
    >>> sheet_outputs(["talk.mp4"], None)["talk.mp4"].name
    'sheet.png'
    >>> [path.as_posix() for path in sheet_outputs(["a/talk.mp4", "b/talk.mp4"], Path("out")).values()]
    ['out/talk.png', 'out/talk.2.png']

    Raises:
        InvalidArgumentError: if ``output`` is one picture for several files, or a sheet would replace a file.
        OSError: if the folder cannot be made.
    """
    if len(files) == 1:
        return {files[0]: output or Path("sheet.png")}
    folder = output or Path("sheets")
    if str(folder) == STANDARD or folder.suffix.lower() in _SIDE_LIMITS:
        raise InvalidArgumentError(f"{len(files)} files need a folder for their sheets; -o {folder} is one picture.")
    files = list(dict.fromkeys(files))
    outputs = {file: folder / f"{stem}.png" for file, stem in zip(files, output_stems(files), strict=True)}
    for file, path in outputs.items():
        _check_output(file, path, needs_folder=False)
    folder.mkdir(parents=True, exist_ok=True)
    return outputs


def choose_frames(
    pts_seconds: Sequence[float], start_seconds: float, stop_seconds: float, num_frames: int
) -> list[int]:
    """Indices of frames spread evenly over the time from ``start_seconds`` to ``stop_seconds``.

    The time is cut into ``num_frames`` equal parts, and the frame shown in the middle of each is taken, once if it
    is shown in several: ::

        start |---x---|---x---|---x---|---x---| stop

    Where there are no more frames than asked for, all are taken.

    Args:
        pts_seconds: Ascending presentation times.
        start_seconds: Begin of the range.
        stop_seconds: End of the range, not included.
        num_frames: How many frames at most.

    Example:
        >>> choose_frames([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], 0.0, 6.0, 3)
        [1, 3, 5]
    """
    first = bisect_left(pts_seconds, start_seconds)
    if first == len(pts_seconds) or pts_seconds[first] > start_seconds:
        first = max(first - 1, 0)  # it is still shown at the start
    last = bisect_left(pts_seconds, stop_seconds)
    if last - first <= num_frames:
        return list(range(first, last))
    part = (stop_seconds - start_seconds) / num_frames
    shown = (bisect_right(pts_seconds, start_seconds + (k + 0.5) * part) - 1 for k in range(num_frames))
    return list(dict.fromkeys(max(index, 0) for index in shown))


@dataclass(frozen=True)
class SheetOptions:
    """The contents of a sheet; ``None`` means the default.

    Attributes:
        num_frames: How many frames at most.
        num_columns: Frames in a row.
        tile_width: Width of a frame in pixels.
        start_seconds: Begin of the range from which frames are taken.
        stop_seconds: End of the range, not included.
    """

    num_frames: int = 16
    num_columns: int | None = None
    tile_width: int | None = None
    start_seconds: float | None = None
    stop_seconds: float | None = None


def write_sheet(
    file: str, output: Path, options: SheetOptions, stream_index: int | None = None, name: str | None = None
) -> str:
    """Draw a contact sheet of ``file`` into ``output``; its title is ``name``, by default that of the file.

    Returns:
        A sentence about what was written.

    Raises:
        InvalidArgumentError: if ``output`` is no kind of picture that can be written, or the sheet would be too large.
        OutOfRangeError: if the video shows nothing in the range.
        MediaTensorError: if the video cannot be read.
        WriteError: if ``output`` cannot be written.
    """
    _check_output(file, output)
    side_limit = _SIDE_LIMITS[output.suffix.lower()]
    title = os.path.basename(name or file) or file
    with VideoDecoder(file, stream_index=stream_index, dimension_order="NHWC") as decoder:
        sheet, num_frames = _draw_stable(decoder, title, options, side_limit)
    with writing(output) as picture:
        sheet.save(picture, Image.registered_extensions()[output.suffix.lower()])
    frames = _text.count(num_frames, "frame")
    if num_frames < options.num_frames:
        frames += f" (not {options.num_frames}: the others would be the same ones again)"
    return f"wrote {output}: {frames}, {sheet.width}x{sheet.height} pixels"


def _draw_stable(decoder: VideoDecoder, title: str, options: SheetOptions, side_limit: int) -> tuple[Image.Image, int]:
    """`_draw`, and once more if decoding shows that there are other frames than the packets say."""
    index = decoder.frame_index
    try:
        drawn = _draw(decoder, title, options, side_limit)
    except OutOfRangeError:
        if decoder.frame_index is index:
            raise
    else:
        if decoder.frame_index is index:
            return drawn
    return _draw(decoder, title, options, side_limit)


def _draw(decoder: VideoDecoder, title: str, options: SheetOptions, side_limit: int) -> tuple[Image.Image, int]:
    """The sheet and how many frames are on it."""
    metadata, index = decoder.metadata, decoder.frame_index
    begin = index.begin_seconds if options.start_seconds is None else options.start_seconds
    end = index.end_seconds if options.stop_seconds is None else options.stop_seconds
    check_range(begin, end, index.begin_seconds, index.end_seconds)
    pts_seconds, is_key_frame = index.pts_seconds.tolist(), index.is_key_frame.tolist()
    chosen = choose_frames(pts_seconds, begin, end, options.num_frames)
    size = tile_size(_displayed(decoder, (metadata.width or 1, metadata.height or 1)), options.tile_width)
    grid = choose_grid(len(chosen), size, options.num_columns)
    check_size(grid, side_limit)
    tiles = [
        Tile(_picture(decoder, number, size), number, pts_seconds[number], is_key_frame[number])
        for number in progress(chosen, "drawing")
    ]
    details = _details(decoder)
    if (begin, end) != (index.begin_seconds, index.end_seconds):
        details.append(f"from {_text.clock(begin)} to {_text.clock(end)}")
    key_frames = _text.count(sum(is_key_frame), "key frame")
    return draw_sheet(tiles, grid, title, details, key_frames), len(tiles)


def _check_output(file: str, output: Path, *, needs_folder: bool = True) -> None:
    if output.suffix.lower() not in _SIDE_LIMITS:
        accepted = ", ".join(_SIDE_LIMITS)
        raise InvalidArgumentError(f"The name of the sheet must end in one of {accepted} (got {str(output)!r}).")
    if output.exists() and os.path.exists(file) and output.samefile(file):
        raise InvalidArgumentError(f"The sheet would replace the video itself ({str(output)!r}); choose another -o.")
    if needs_folder and not output.parent.is_dir():
        raise InvalidArgumentError(f"The folder of the sheet does not exist: {str(output.parent)!r}.")


def check_range(start: float, stop: float, begin: float, end: float) -> None:
    """Raise unless something is shown in a range of a video that lasts from ``begin`` to ``end``."""
    if start >= end or stop <= begin:
        raise OutOfRangeError(
            f"Nothing is shown from {_text.seconds(start)} to {_text.seconds(stop)}: "
            f"the video lasts from {_text.seconds(begin)} to {_text.seconds(end)}."
        )
    if start >= stop:
        raise InvalidArgumentError(f"The start must be before the stop (got {start} and {stop} seconds).")


def _displayed(decoder: VideoDecoder, size: tuple[int, int]) -> tuple[int, int]:
    metadata = decoder.metadata
    return display_size(*size, metadata.pixel_aspect_ratio, metadata.rotation)


def _picture(decoder: VideoDecoder, frame_index: int, size: tuple[int, int]) -> Image.Image | None:
    """The frame, no larger than ``size`` and with square pixels; ``None`` if it does not decode."""
    try:
        data = decoder.get_frame_at(frame_index).data
    except DecodeError:
        return None
    picture = Image.fromarray(data.numpy())
    width, height = _displayed(decoder, picture.size)
    scale = min(size[0] / width, size[1] / height)
    target = (max(round(width * scale), 1), max(round(height * scale), 1))
    # Enlarged pixels stay pixels; a smooth blow-up of a tiny picture shows what is not there.
    return picture.resize(target, Image.Resampling.NEAREST if scale >= 2 else Image.Resampling.LANCZOS)


def _details(decoder: VideoDecoder) -> list[str]:
    metadata = decoder.metadata
    details = [f"{metadata.width}x{metadata.height}", metadata.codec or "unknown codec"]
    if metadata.average_fps:
        details.append(f"{_text.decimal(metadata.average_fps)} fps")
    details.append(_text.seconds(metadata.duration_seconds))
    details.append(_text.count(len(decoder), "frame"))
    return details
