"""``mediatensor demo``: run the library on a video and check each result."""

from __future__ import annotations

import argparse
import pickle
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch.utils.data
from PIL import Image
from torch import Tensor

from .._engine.common.messages import counted
from .._engine.pyav.encoding import write_test_pattern
from .._engine.sources.atomic_files import writing
from .._engine.sources.output_files import check_outputs
from ..decoders import VideoDecoder
from ..errors import MissingDependencyError, WeightsNotFoundError
from ..samplers import clips_at_random_indices, clips_at_regular_timestamps
from ..transforms import Resize
from . import _text
from ._console import emit, write_picture
from ._demo_files import FILE_NAMES, WrittenWord, draw_page, write_files
from ._sheet import SheetOptions, write_sheet
from ._verify import compare

T = TypeVar("T")


def row(call: str, result: str, elapsed_seconds: float) -> str:
    """Format a line of the demo: the call, its result and its duration."""
    return f"  {call:<42} {result:<38} {_text.duration(elapsed_seconds):>8}"


def check_line(is_right: bool, sentence: str) -> str:
    """Format the result of one check as a line."""
    return f"  {'ok    ' if is_right else 'FAILED'} {sentence}"


def measure_time(function: Callable[[], T]) -> tuple[T, float]:
    """Call a function; return its result and duration in seconds."""
    begin = time.perf_counter()
    result = function()
    return result, time.perf_counter() - begin


def read_texts(file: str, folder: Path) -> list[tuple[bool, str]]:
    """Run OCR on a page, a frame of ``file`` and all of ``file``; print results, and write pictures to ``folder``.

    ``file`` is the test pattern video. The pictures show the results.

    Returns:
        A (passed, sentence) pair for each check; an empty list if the models are not installed.
    """
    from ..ocr.models import ocr_predictor, video_text_predictor

    try:
        predictor, elapsed = measure_time(lambda: ocr_predictor(pretrained=True))
        emit(row("ocr_predictor(pretrained=True)", "", elapsed))
        checks = [_check_page(predictor, folder), _check_frame(predictor, file, folder)]
        return [*checks, _check_video_text(video_text_predictor(pretrained=True), file, folder)]
    except (WeightsNotFoundError, MissingDependencyError) as error:
        emit(f"  no text was read: {error}")
        return []


def _check_page(predictor: Any, folder: Path) -> tuple[bool, str]:
    page, written = draw_page()
    write_picture(folder / "page.png", page)
    pixels = np.array(page)
    document, elapsed = measure_time(lambda: predictor([pixels]))
    words = _words(document)
    emit(row("predictor([page])", counted(len(words), "word"), elapsed))
    write_picture(folder / "page-read.png", _overlay(document))
    is_right = are_read(written, words, page.size) and len(words) == len(written)
    return is_right, f"{len(written)} words of a page, read as they were written and where they were written"


def _check_frame(predictor: Any, file: str, folder: Path) -> tuple[bool, str]:
    """Check that OCR reads the time and the frame number, which the test pattern shows."""
    with VideoDecoder(file) as decoder:
        number = 2 * len(decoder) // 5 + 3
        frame = decoder.get_frame_at(number)
    document, elapsed = measure_time(lambda: predictor([frame.data]))
    words = _words(document)
    shown = [_shown_time(frame.pts_seconds), str(number)]
    found = [word.value for word in words]
    emit(row(f"predictor([decoder[{number}]])", _text.shorten(" ".join(found), 38), elapsed))
    write_picture(folder / "frame-read.png", _overlay(document))
    return set(shown) <= set(found), f"time and number, {' and '.join(shown)}, read in the picture of a frame"


def _check_video_text(predictor: Any, file: str, folder: Path) -> tuple[bool, str]:
    """Check that the time and the frame number, which change in every frame, are found as texts of kind "overlay"."""
    reading, elapsed = measure_time(lambda: predictor(file))
    overlays = reading.of_kind("overlay")
    emit(row("video_text_predictor(...)(video)", counted(len(reading.tracks), "text"), elapsed))
    write_picture(folder / "timeline.png", Image.fromarray(reading.synthesize_timeline(width=960)))
    lasts = any(track.num_frames > 0.9 * reading.num_frames for track in overlays)
    is_right = lasts and len(overlays) == len(reading.tracks)
    return is_right, "in the video, both are overlays, one of them from start to end, and no captions"


def _overlay(document: Any) -> Image.Image:
    from ..ocr.utils.visualization import overlay

    return Image.fromarray(overlay(document.pages[0]))


def _shown_time(seconds: float) -> str:
    """Format a time as FFmpeg's test pattern does.

    >>> _shown_time(4.1)
    '00:00:04.100'
    """
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}.{rest % 1000:03d}"


def _words(document: Any) -> list[Any]:
    return [word for page in document.pages for block in page.blocks for line in block.lines for word in line.words]


def are_read(written: Sequence[WrittenWord], words: Sequence[Any], size: tuple[int, int]) -> bool:
    """Return whether each written word was read, with the centre of its detected box inside the true box.

    Args:
        written: The words on the page.
        words: The words that OCR read, with ``value`` and ``geometry``.
        size: (width, height) of the page.
    """
    middles = [(word.value, np.asarray(word.geometry, np.float64).mean(axis=0) * size) for word in words]
    return all(
        any(text == value and x0 <= x <= x1 and y0 <= y <= y1 for value, (x, y) in middles)
        for text, (x0, y0, x1, y1) in written
    )


#: Additional outputs if the demo generates its video.
_OUTPUTS_WITHOUT_FILE = ("clip.mp4", "page.png", "page-read.png", "frame-read.png", "timeline.png")
_NUM_WORKERS = 2
_BATCH_SIZE = 2
_FRAMES_PER_CLIP = 8
_NUM_CLIPS = 12
# Small frames are typical of training, and their batches fit into the workers' shared memory.
_SHORT_SIDE = 144
_NUM_FRAMES_COMPARED = 60


class ClipDataset(torch.utils.data.Dataset[tuple[int, Tensor, Tensor]]):
    """Clips of one video. Row ``k`` has ``num_frames`` consecutive frames from index ``starts[k]``.

    Each worker gets a pickled decoder, which has only the source and the options, and opens the source again.
    """

    def __init__(self, decoder: VideoDecoder, starts: Sequence[int], num_frames: int) -> None:
        self.decoder = decoder
        self.starts = starts
        self.num_frames = num_frames

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> tuple[int, Tensor, Tensor]:
        start = self.starts[row]
        clip = self.decoder.get_frames_in_range(start, start + self.num_frames)
        return row, clip.data, clip.pts_seconds


def run(args: argparse.Namespace) -> int:
    if args.files is not None:
        return _write_files(args.files, overwrite=args.overwrite)
    file = args.file or str(args.output / "clip.mp4")
    names = ["sheet.png", *(_OUTPUTS_WITHOUT_FILE if args.file is None else ())]
    outputs = [args.output / name for name in names]
    check_outputs(outputs, [args.file], overwrite=args.overwrite, makes_folders=True)
    if args.file is None:
        args.output.mkdir(parents=True, exist_ok=True)
        _, elapsed = measure_time(lambda: _make_clip(Path(file)))
        emit(f"made {file} in {_text.duration(elapsed)}: H.264 with B-frames\n")
    with _show_access(file) as decoder:
        checks = [_check_linear(file), _check_pickle(decoder), _check_loader(file)]
    if args.file is None:
        checks += read_texts(file, args.output)
    args.output.mkdir(parents=True, exist_ok=True)  # late, so that an unreadable file leaves no empty folder
    emit("\nchecked")
    for is_right, sentence in checks:
        emit(check_line(is_right, sentence))
    emit("\n" + write_sheet(file, args.output / "sheet.png", SheetOptions()))
    return 0 if all(is_right for is_right, _ in checks) else 1


def _write_files(folder: Path, *, overwrite: bool) -> int:
    written = write_files(folder, overwrite=overwrite)
    emit("\n".join(str(folder / name) for name in written))
    if len(written) < len(FILE_NAMES):
        emit("without the LeRobot dataset in robot, which needs the extra `parquet`")
    return 0


def _make_clip(path: Path) -> None:
    with writing(path) as file:
        write_test_pattern(Path(file.name))


def _show_access(file: str) -> VideoDecoder:
    """Open the video, fetch frames and clips, and print results and times."""
    decoder, elapsed = measure_time(lambda: VideoDecoder(file))
    metadata = decoder.metadata
    num_frames = len(decoder)
    fps = f", {_text.decimal(metadata.average_fps)} fps" if metadata.average_fps else ""
    emit(row(f"VideoDecoder({_quote_name(file)})", f"{metadata.width}x{metadata.height}{fps}", elapsed))

    middle = num_frames // 2
    frame, elapsed = measure_time(lambda: decoder.get_frame_at(middle))
    emit(row(f"decoder.get_frame_at({middle})", f"{_shape(frame.data)} at {_text.seconds(frame.pts_seconds)}", elapsed))

    when = round(metadata.begin_stream_seconds + 0.7 * (metadata.duration_seconds or 0.0), 3)
    when = max(when, metadata.begin_stream_seconds)
    frame, elapsed = measure_time(lambda: decoder.get_frame_played_at(when))
    call = f"decoder.get_frame_played_at({_text.decimal(when)})"
    emit(row(call, f"{_shape(frame.data)} at {_text.seconds(frame.pts_seconds)}", elapsed))

    step = max(num_frames // 10, 1)
    spread, elapsed = measure_time(lambda: decoder[::step])
    emit(row(f"decoder[::{step}]", f"{_shape(spread)} {spread.dtype}", elapsed))

    length = min(_FRAMES_PER_CLIP, num_frames)
    clips, elapsed = measure_time(lambda: clips_at_random_indices(decoder, num_clips=4, num_frames_per_clip=length))
    emit(row("clips_at_random_indices(decoder, ...)", _shape(clips.data), elapsed))

    every = max((metadata.duration_seconds or 0.0) / 4, 1e-3)
    clips, elapsed = measure_time(
        lambda: clips_at_regular_timestamps(decoder, seconds_between_clip_starts=every, num_frames_per_clip=length)
    )
    emit(row("clips_at_regular_timestamps(decoder, ...)", _shape(clips.data), elapsed))
    return decoder


def _check_linear(file: str) -> tuple[bool, str]:
    comparison = compare(file, None, num_singles=_NUM_FRAMES_COMPARED, seed=0)
    fetched = sum(check.num_frames for check in comparison.checks)
    ways = ", ".join(check.kind for check in comparison.checks)
    verdict = "equal" if comparison.identical else f"{comparison.num_mismatches} of them do not equal"
    return comparison.identical, f"{fetched} frames, fetched {ways}, {verdict} a linear decode, bit for bit"


def _check_pickle(decoder: VideoDecoder) -> tuple[bool, str]:
    pickled = pickle.dumps(decoder)
    last = len(decoder) - 1
    with pickle.loads(pickled) as copy:
        is_right = len(copy) == len(decoder) and torch.equal(copy[last], decoder[last])
    return is_right, f"a pickled decoder ({_text.byte_size(len(pickled))}) opens again and gives the same frames"


def _check_loader(file: str) -> tuple[bool, str]:
    """Check that batches from worker processes equal the same clips decoded in this process."""
    with VideoDecoder(file) as decoder:
        size = small_size(decoder.metadata.height or 1, decoder.metadata.width or 1)
        num_frames = len(decoder)
    length = min(_FRAMES_PER_CLIP, num_frames)
    starts = torch.linspace(0, num_frames - length, _NUM_CLIPS).long().tolist()
    dataset = ClipDataset(VideoDecoder(file, transforms=[Resize(size)]), starts, length)
    # Spawned workers share no memory with this process, so that the decoder is pickled on every system.
    loader = torch.utils.data.DataLoader(
        dataset, _BATCH_SIZE, shuffle=True, num_workers=_NUM_WORKERS, multiprocessing_context="spawn"
    )
    begin = time.perf_counter()
    batches = [(time.perf_counter() - begin, *batch) for batch in loader]
    first, total, shape = batches[0][0], batches[-1][0], _shape(batches[0][2])
    emit(row(f"DataLoader(dataset, num_workers={_NUM_WORKERS})", f"{len(batches)} x {shape}", total))
    emit(row("  until the first batch", "", first))
    rows = [number for _, numbers, _, _ in batches for number in numbers.tolist()]
    is_right = sorted(rows) == list(range(len(dataset))) and all(
        torch.equal(clip, dataset[number][1]) and torch.equal(pts_seconds, dataset[number][2])
        for _, numbers, clips, times in batches
        for number, clip, pts_seconds in zip(numbers.tolist(), clips, times, strict=True)
    )
    return is_right, f"{len(rows)} clips from {_NUM_WORKERS} worker processes equal those decoded in this one"


def small_size(height: int, width: int) -> tuple[int, int]:
    """Return (height, width) reduced to a short side of 144 pixels, with the same aspect ratio; never enlarge.

    >>> small_size(360, 640), small_size(100, 50)
    ((144, 256), (100, 50))
    """
    scale = min(_SHORT_SIDE / min(height, width), 1.0)
    return round(height * scale), round(width * scale)


def _shape(tensor: Tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))})"


def _quote_name(file: str) -> str:
    return repr(_text.shorten(file.rsplit("/", 1)[-1], 24))
