"""``mediatensor demo --files``: generate the example files of the documentation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from .._engine.pyav.encoding import write_test_pattern
from .._engine.sources.atomic_files import writing
from .._engine.sources.output_files import check_outputs
from ..encoders import VideoEncoder
from ._console import write_picture

_ROBOT_FPS = 10
_ROBOT_EPISODES = (20, 13, 17)
_ROBOT_TASKS = ("Push the block.", "Open the drawer.")
_ROBOT_CAMERAS = ("observation.images.top", "observation.images.wrist")
_ROBOT_SIZE = (96, 128)
#: Scene lengths of the generated film, in frames at 25 fps.
_FILM_SCENES = (48, 60, 42)
_FILM_SIZE = (96, 160)

#: The files that `write_files` writes, relative to its folder. The LeRobot dataset needs pyarrow.
FILE_NAMES = (
    "video.mp4",
    "film.mp4",
    "damaged.mp4",
    *(f"videos/{name}.mp4" for name in "abc"),
    "page.png",
    "report.pdf",
    *(f"robot/meta/{name}" for name in ("info.json", "tasks.jsonl", "episodes.jsonl")),
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


class WrittenWord(NamedTuple):
    """A word and its box (x0, y0, x1, y1) in pixels."""

    text: str
    box: tuple[float, float, float, float]


def draw_page() -> tuple[Image.Image, list[WrittenWord]]:
    """Draw the example page; return it with its words."""
    page = Image.new("RGB", _PAGE_SIZE, "white")
    draw = ImageDraw.Draw(page)
    words = []
    for number, line in enumerate(PAGE_LINES):
        baseline = _MARGIN + _LINE_STEP * (number + 0.7)
        for left, size, text in line:
            font = ImageFont.load_default(size)
            written = ""
            for word in text.split():
                place = (left + font.getlength(written), baseline)
                draw.text(place, word, font=font, fill="black", anchor="ls")
                words.append(WrittenWord(word, draw.textbbox(place, word, font=font, anchor="ls")))
                written += f"{word} "
    table = _MARGIN + 3 * _LINE_STEP
    draw.line((_MARGIN, table, _PAGE_SIZE[0] - _MARGIN, table), fill="gray", width=2)
    return page, words


def write_files(folder: Path, *, overwrite: bool = False) -> list[str]:
    """Write the files of `FILE_NAMES`; return the names of the written files.

    Raises:
        InvalidArgumentError: if a file exists and ``overwrite`` is false. Then no file is written.
    """
    check_outputs([folder / name for name in FILE_NAMES], overwrite=overwrite, makes_folders=True)
    (folder / "videos").mkdir(parents=True, exist_ok=True)
    _write_pattern(folder / "video.mp4")
    for name in "abc":
        _write_pattern(folder / "videos" / f"{name}.mp4", width=160, height=120, num_frames=30)
    VideoEncoder(_film(), frame_rate=25).to_file(folder / "film.mp4")
    damaged = bytearray((folder / "video.mp4").read_bytes())
    middle = len(damaged) // 2
    damaged[middle : middle + 3000] = bytes(3000)
    with writing(folder / "damaged.mp4") as file:
        file.write(damaged)
    _write_documents(folder)
    try:
        _write_robot(folder / "robot")
    except ImportError:
        return [name for name in FILE_NAMES if not name.startswith("robot/")]
    return list(FILE_NAMES)


def _write_pattern(path: Path, **options: int) -> None:
    with writing(path) as file:
        write_test_pattern(Path(file.name), **options)


def _film() -> torch.Tensor:
    """Return frames (N, 3, H, W) of three differently coloured scenes with a camera pan."""
    height, width = _FILM_SIZE
    frames = []
    for scene, num_frames in enumerate(_FILM_SCENES):
        random = np.random.default_rng(scene)
        cells = np.clip((60, 200, 130)[scene] + random.normal(0, 40, (3, height // 8, width // 8 + 20)), 0, 255)
        world = np.kron(cells, np.ones((1, 8, 8))).astype(np.uint8)
        frames += [world[..., number : number + width] for number in range(num_frames)]
    return torch.from_numpy(np.stack(frames))


def _write_documents(folder: Path, num_pages: int = 3) -> None:
    """Write the example page as an image, and a PDF file that repeats the page and has its words as text."""
    image, written = draw_page()
    write_picture(folder / "page.png", image)
    write_pdf(folder / "report.pdf", image, [(word.text, word.box) for word in written], num_pages)


def write_pdf(path: Path, image: Image.Image, written: Sequence[tuple[str, Any]], num_pages: int) -> None:
    """Write a PDF file that repeats one page image, with a text layer of the words ``written`` (boxes in pixels)."""
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
    """Write a LeRobot dataset (version 2.1): three episodes of a moving square, recorded by two cameras."""
    import pyarrow as pa
    from pyarrow import parquet

    for name in ("meta", "data/chunk-000", *(f"videos/chunk-000/{camera}" for camera in _ROBOT_CAMERAS)):
        (folder / name).mkdir(parents=True, exist_ok=True)
    index = 0
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
        vectors = [pa.field("observation.state", pa.list_(pa.float32())), pa.field("action", pa.list_(pa.float32()))]
        numbers = [pa.field(name, pa.int64()) for name in ("frame_index", "episode_index", "index", "task_index")]
        schema = pa.schema([*vectors, pa.field("timestamp", pa.float32()), *numbers])
        table = pa.Table.from_pylist(rows, schema)
        parquet.write_table(table, folder / f"data/chunk-000/episode_{episode:06d}.parquet")
        for camera in _ROBOT_CAMERAS:
            frames = _robot_frames(length, is_mirrored=camera == _ROBOT_CAMERAS[1])
            path = folder / f"videos/chunk-000/{camera}/episode_{episode:06d}.mp4"
            VideoEncoder(frames, frame_rate=_ROBOT_FPS).to_file(path, crf=12, extra_options={"g": 4})
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
    for name, lines in (("info.json", [info]), ("tasks.jsonl", tasks), ("episodes.jsonl", episodes)):
        (folder / "meta" / name).write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def _robot_frames(num_frames: int, *, is_mirrored: bool) -> torch.Tensor:
    """Return frames (N, 3, H, W) of a bright square that moves across a dark background."""
    height, width = _ROBOT_SIZE
    frames = torch.full((num_frames, 3, height, width), 40, dtype=torch.uint8)
    for number in range(num_frames):
        left = 4 + number * (width - 40) // num_frames
        frames[number, :, 30:60, left : left + 30] = torch.tensor([200, 160, 90], dtype=torch.uint8)[:, None, None]
    return frames.flip(-1) if is_mirrored else frames
