"""``mediatensor demo``: run the library on a video and check the results, or generate files for the documentation."""

from __future__ import annotations

import argparse
import json
import pickle
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch.utils.data
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from .._engine.common.messages import counted, duration, timestamp
from .._engine.pyav.encoding import write_test_pattern
from .._engine.sources.output_files import check_outputs, write_file, writing
from ..decoders import VideoDecoder
from ..encoders import VideoEncoder
from ..errors import MissingDependencyError, WeightsNotFoundError
from ..samplers import clips_at_random_indices, clips_at_regular_timestamps
from ..transforms import Resize
from . import _text
from ._console import emit, emit_lines, write_picture
from ._sheet import SheetOptions, write_sheet
from ._verify import compare

T = TypeVar("T")

#: Outputs that are added if the demo generates its video.
_OUTPUTS_WITHOUT_FILE = ("clip.mp4", "page.png", "page-read.png", "frame-read.png", "timeline.png")
_NUM_WORKERS = 2
_BATCH_SIZE = 2
_FRAMES_PER_CLIP = 8
_NUM_CLIPS = 12
# Small frames are typical for training, and batches of them fit into the shared memory of workers.
_SHORT_SIDE = 144
_NUM_FRAMES_COMPARED = 60

_ROBOT_FPS = 10
_ROBOT_EPISODES = (20, 13, 17)
_ROBOT_TASKS = ("Push the block.", "Open the drawer.")
_ROBOT_CAMERAS = ("observation.images.top", "observation.images.wrist")
_ROBOT_SIZE = (96, 128)
#: Scene lengths of the generated film, in frames at 25 fps.
_FILM_SCENES = (48, 60, 42)
_FILM_SIZE = (96, 160)

#: The files that `write_files` writes, relative to their folder. The LeRobot dataset needs pyarrow.
FILE_NAMES = (
    "video.mp4",
    "film.mp4",
    "damaged.mp4",
    *(f"videos/{name}.mp4" for name in "abc"),
    "page.png",
    "report.pdf",
    *(f"robot/meta/{name}" for name in ("info.json", "tasks.jsonl", "episodes.jsonl", "episodes_stats.jsonl")),
    *(f"robot/data/chunk-000/episode_{episode:06d}.parquet" for episode in range(len(_ROBOT_EPISODES))),
    *(
        f"robot/videos/chunk-000/{camera}/episode_{episode:06d}.mp4"
        for camera in _ROBOT_CAMERAS
        for episode in range(len(_ROBOT_EPISODES))
    ),
)

#: The lines of the page: (left margin in pixels, font size in pixels, text).
PAGE_LINES: tuple[tuple[tuple[int, int, str], ...], ...] = (
    ((60, 44, "Delivery note 2048"),),
    ((60, 24, "Video, audio, images and documents become tensors,"),),
    ((60, 24, "and the text in their pixels becomes data."),),
    ((60, 26, "Article"), (420, 26, "Pieces"), (620, 26, "Price")),
    ((60, 26, "Frames, exact to the bit"), (420, 26, "300"), (620, 26, "$12.50")),
    ((60, 26, "Pages of any length"), (420, 26, "17"), (620, 26, "$8.99")),
    ((60, 26, "Total"), (620, 26, "$21.49")),
)
_PAGE_SIZE = (800, 560)
_MARGIN, _LINE_STEP = 40, 70


def row(call: str, result: str, elapsed_seconds: float) -> str:
    return f"  {call:<42} {result:<38} {duration(elapsed_seconds):>8}"


def measure_time(function: Callable[[], T]) -> tuple[T, float]:
    begin = time.perf_counter()
    result = function()
    return result, time.perf_counter() - begin


def read_texts(file: str, folder: Path) -> list[tuple[bool, str]]:
    """Run OCR on a page, a frame, and the whole video ``file``, which shows the test pattern. Print the results.

    Pictures of the results are written to ``folder``. Return for each check whether it passed, with a sentence that
    describes it; or an empty list if the models are not installed.
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
    """Check that OCR reads the time and the frame number that the test pattern shows in a frame."""
    with VideoDecoder(file) as decoder:
        number = 2 * len(decoder) // 5 + 3
        frame = decoder.get_frame_at(number)
    document, elapsed = measure_time(lambda: predictor([frame.data]))
    words = _words(document)
    shown = [timestamp(round(frame.pts_seconds * 1000), "."), str(number)]
    found = [word.value for word in words]
    emit(row(f"predictor([decoder[{number}]])", _text.shorten(" ".join(found), 38), elapsed))
    write_picture(folder / "frame-read.png", _overlay(document))
    return set(shown) <= set(found), f"time and number, {' and '.join(shown)}, read in the picture of a frame"


def _check_video_text(predictor: Any, file: str, folder: Path) -> tuple[bool, str]:
    """Check that the time and the frame number, which change in each frame, are found as texts of kind "overlay"."""
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


def _words(document: Any) -> list[Any]:
    return [word for page in document.pages for block in page.blocks for line in block.lines for word in line.words]


def are_read(written: Sequence[WrittenWord], words: Sequence[Any], size: tuple[int, int]) -> bool:
    """Return whether the centre of each word was read inside its box. ``size`` is (width, height) of the page."""
    middles = [(word.value, np.asarray(word.geometry, np.float64).mean(axis=0) * size) for word in words]
    return all(
        any(text == value and x0 <= x <= x1 and y0 <= y <= y1 for value, (x, y) in middles)
        for text, (x0, y0, x1, y1) in written
    )


class ClipDataset(torch.utils.data.Dataset[tuple[int, Tensor, Tensor]]):
    """Clips of one video. Each worker process unpickles the decoder, which opens the source again."""

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
        written = write_files(args.files, overwrite=args.overwrite)
        emit_lines(str(args.files / name) for name in written)
        if len(written) < len(FILE_NAMES):
            emit("without the LeRobot dataset in robot, which needs the extra `parquet`")
        return 0
    file = args.file or str(args.output / "clip.mp4")
    names = ["sheet.png", *(_OUTPUTS_WITHOUT_FILE if args.file is None else ())]
    outputs = [args.output / name for name in names]
    check_outputs(outputs, [args.file], overwrite=args.overwrite, makes_folders=True)
    if args.file is None:
        args.output.mkdir(parents=True, exist_ok=True)
        _, elapsed = measure_time(lambda: _write_pattern(Path(file)))
        emit_lines([f"made {file} in {duration(elapsed)}: H.264 with B-frames", ""])
    with _show_access(file) as decoder:
        checks = [_check_linear(file), _check_pickle(decoder), _check_loader(file)]
    if args.file is None:
        checks += read_texts(file, args.output)
    args.output.mkdir(parents=True, exist_ok=True)  # late, so that an unreadable file leaves no empty folder
    emit_lines(["", "checked"])
    for is_right, sentence in checks:
        emit(f"  {'ok    ' if is_right else 'FAILED'} {sentence}")
    emit_lines(["", write_sheet(file, args.output / "sheet.png", SheetOptions())])
    return 0 if all(is_right for is_right, _ in checks) else 1


def _show_access(file: str) -> VideoDecoder:
    decoder, elapsed = measure_time(lambda: VideoDecoder(file))
    metadata = decoder.metadata
    num_frames = len(decoder)
    fps = f", {_text.decimal(metadata.average_fps)} fps" if metadata.average_fps else ""
    name = _text.shorten(file.rsplit("/", 1)[-1], 24)
    emit(row(f"VideoDecoder({name!r})", f"{metadata.width}x{metadata.height}{fps}", elapsed))

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
    with VideoDecoder(file) as decoder:
        size = small_size(decoder.metadata.height or 1, decoder.metadata.width or 1)
        num_frames = len(decoder)
    length = min(_FRAMES_PER_CLIP, num_frames)
    starts = torch.linspace(0, num_frames - length, _NUM_CLIPS).long().tolist()
    dataset = ClipDataset(VideoDecoder(file, transforms=[Resize(size)]), starts, length)
    # Spawned workers do not inherit memory, so the decoder is pickled on every system.
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
    """Return (height, width) after reducing the short side to 144 pixels. Smaller sizes stay unchanged."""
    scale = min(_SHORT_SIDE / min(height, width), 1.0)
    return round(height * scale), round(width * scale)


def _shape(tensor: Tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))})"


class WrittenWord(NamedTuple):
    """A word that is written on the example page, and its box (x0, y0, x1, y1) in pixels.

    Boxes are as high as the font, as in the text layers that OCR programs write. Tables are recognised by the distance
    of their rows, in heights of words.
    """

    text: str
    box: tuple[float, float, float, float]


def draw_page() -> tuple[Image.Image, list[WrittenWord]]:
    page = Image.new("RGB", _PAGE_SIZE, "white")
    draw = ImageDraw.Draw(page)
    words = []
    for number, line in enumerate(PAGE_LINES):
        baseline = _MARGIN + _LINE_STEP * (number + 0.7)
        for left, size, text in line:
            font: Any = ImageFont.load_default(size)
            ascent, descent = font.getmetrics()
            written = ""
            for word in text.split():
                place = (left + font.getlength(written), baseline)
                draw.text(place, word, font=font, fill="black", anchor="ls")
                x0, _, x1, _ = draw.textbbox(place, word, font=font, anchor="ls")
                words.append(WrittenWord(word, (x0, baseline - ascent, x1, baseline + descent)))
                written += f"{word} "
    table = _MARGIN + 3 * _LINE_STEP
    draw.line((_MARGIN, table, _PAGE_SIZE[0] - _MARGIN, table), fill="gray", width=2)
    return page, words


def write_files(folder: Path, *, overwrite: bool = False) -> list[str]:
    """Write the files of `FILE_NAMES`; return their names, without the LeRobot dataset if pyarrow is missing."""
    check_outputs([folder / name for name in FILE_NAMES], overwrite=overwrite, makes_folders=True)
    (folder / "videos").mkdir(parents=True, exist_ok=True)
    _write_pattern(folder / "video.mp4")
    for name in "abc":
        _write_pattern(folder / "videos" / f"{name}.mp4", width=160, height=120, num_frames=30)
    VideoEncoder(_film(), frame_rate=25).to_file(folder / "film.mp4")
    damaged = bytearray((folder / "video.mp4").read_bytes())
    middle = len(damaged) // 2
    damaged[middle : middle + 3000] = bytes(3000)
    write_file(folder / "damaged.mp4", bytes(damaged))
    image, words = draw_page()
    write_picture(folder / "page.png", image)
    write_pdf(folder / "report.pdf", image, words, num_pages=3)
    try:
        _write_robot(folder / "robot")
    except ImportError:
        return [name for name in FILE_NAMES if not name.startswith("robot/")]
    return list(FILE_NAMES)


def _write_pattern(path: Path, **options: int) -> None:
    with writing(path) as file:
        write_test_pattern(Path(file.name), **options)


def _film() -> torch.Tensor:
    """Return the frames (N, 3, H, W) of a short film: three scenes in different colours, in which the camera pans."""
    height, width = _FILM_SIZE
    frames = []
    for scene, num_frames in enumerate(_FILM_SCENES):
        random = np.random.default_rng(scene)
        cells = np.clip((60, 200, 130)[scene] + random.normal(0, 40, (3, height // 8, width // 8 + 20)), 0, 255)
        world = np.kron(cells, np.ones((1, 8, 8))).astype(np.uint8)
        frames += [world[..., number : number + width] for number in range(num_frames)]
    return torch.from_numpy(np.stack(frames))


def write_pdf(path: Path, image: Image.Image, written: Sequence[tuple[str, Any]], num_pages: int) -> None:
    """Write a PDF file whose pages show ``image``, with the words ``written`` (text, box in pixels) as a text layer."""
    from ..ocr.io import Block, Document, Line, Page, Word

    upright = {"value": 0, "confidence": None}
    width, height = image.size
    words = [
        Word(text, 1.0, ((x0 / width, y0 / height), (x1 / width, y1 / height)), 1.0, upright)
        for text, (x0, y0, x1, y1) in written
    ]
    pages = [Page(np.array(image), [Block([Line(words)])], number, (height, width)) for number in range(num_pages)]
    Document(pages).save_pdf(path)


def _write_robot(folder: Path) -> None:
    """Write a LeRobot dataset (version 2.1): three episodes of a moving square, each recorded by two cameras."""
    import pyarrow as pa
    from pyarrow import parquet

    for name in ("meta", "data/chunk-000", *(f"videos/chunk-000/{camera}" for camera in _ROBOT_CAMERAS)):
        (folder / name).mkdir(parents=True, exist_ok=True)
    index = 0
    stats: list[dict[str, Any]] = []
    for episode, length in enumerate(_ROBOT_EPISODES):
        rows = [
            {
                "observation.state": [float(episode), frame / length, 0.0],
                "action": [frame / length, 1.0 - frame / length],
                "timestamp": frame / _ROBOT_FPS,
                "frame_index": frame,
                "episode_index": episode,
                "index": index + frame,
                "task_index": episode % 2,
            }
            for frame in range(length)
        ]
        index += length
        numbers_of = {name: np.array([row[name] for row in rows], float).reshape(length, -1) for name in rows[0]}
        stats.append({"episode_index": episode, "stats": {name: _stats_of(one) for name, one in numbers_of.items()}})
        vectors = [pa.field("observation.state", pa.list_(pa.float32())), pa.field("action", pa.list_(pa.float32()))]
        numbers = [pa.field(name, pa.int64()) for name in ("frame_index", "episode_index", "index", "task_index")]
        schema = pa.schema([*vectors, pa.field("timestamp", pa.float32()), *numbers])
        table = pa.Table.from_pylist(rows, schema)
        parquet.write_table(table, folder / f"data/chunk-000/episode_{episode:06d}.parquet")
        for camera in _ROBOT_CAMERAS:
            frames = _robot_frames(length, is_mirrored=camera == _ROBOT_CAMERAS[1])
            path = folder / f"videos/chunk-000/{camera}/episode_{episode:06d}.mp4"
            VideoEncoder(frames, frame_rate=_ROBOT_FPS).to_file(path, crf=12, extra_options={"g": 4})
            stats[-1]["stats"][camera] = _stats_of(frames.numpy() / 255.0)
    height, width = _ROBOT_SIZE
    video = {"dtype": "video", "shape": [height, width, 3], "names": ["height", "width", "channels"]}
    number = {"dtype": "int64", "shape": [1], "names": None}
    info = {
        "codebase_version": "v2.1",
        "robot_type": "square",
        "total_episodes": len(_ROBOT_EPISODES),
        "total_frames": index,
        "total_tasks": len(_ROBOT_TASKS),
        "total_videos": len(_ROBOT_CAMERAS) * len(_ROBOT_EPISODES),
        "total_chunks": 1,
        "chunks_size": 1000,
        "fps": _ROBOT_FPS,
        "splits": {"train": f"0:{len(_ROBOT_EPISODES)}"},
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
        "features": {
            "observation.state": {"dtype": "float32", "shape": [3], "names": None},
            "action": {"dtype": "float32", "shape": [2], "names": None},
            "timestamp": {"dtype": "float32", "shape": [1], "names": None},
            **dict.fromkeys(("frame_index", "episode_index", "index", "task_index"), number),
            **dict.fromkeys(_ROBOT_CAMERAS, video),
        },
    }
    tasks = [{"task_index": index, "task": task} for index, task in enumerate(_ROBOT_TASKS)]
    episodes = [
        {"episode_index": episode, "tasks": [_ROBOT_TASKS[episode % 2]], "length": length}
        for episode, length in enumerate(_ROBOT_EPISODES)
    ]
    files = {"info.json": [info], "tasks.jsonl": tasks, "episodes.jsonl": episodes, "episodes_stats.jsonl": stats}
    for name, lines in files.items():
        write_file(folder / "meta" / name, "".join(f"{json.dumps(line)}\n" for line in lines).encode())


def _stats_of(values: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return LeRobot's statistics for the values of an episode: numbers (N, M), or images (N, C, H, W)."""
    axes, shape = (0, *range(2, values.ndim)), (-1,) if values.ndim == 2 else (-1, 1, 1)
    found = {
        "min": values.min(axes),
        "max": values.max(axes),
        "mean": values.mean(axes),
        "std": values.std(axes),
    }
    return {**{name: value.reshape(shape).tolist() for name, value in found.items()}, "count": [len(values)]}


def _robot_frames(num_frames: int, *, is_mirrored: bool) -> torch.Tensor:
    height, width = _ROBOT_SIZE
    frames = torch.full((num_frames, 3, height, width), 40, dtype=torch.uint8)
    for number in range(num_frames):
        left = 4 + number * (width - 40) // num_frames
        frames[number, :, 30:60, left : left + 30] = torch.tensor([200, 160, 90], dtype=torch.uint8)[:, None, None]
    return frames.flip(-1) if is_mirrored else frames
