"""Everything that writes reports a full disk, and leaves nothing that looks like a finished file."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import mediatensor
from mediatensor.cli import main
from mediatensor.datasets import DataLoader, VideoClips
from mediatensor.decoders import VideoDecoder
from mediatensor.encoders import AudioEncoder, JpegEncoder, PngEncoder, VideoEncoder
from mediatensor.errors import FrameIndexError, WriteError
from mediatensor.ocr.io import Document, Page
from places import file_size_limit, in_child, needs_fork

pytestmark = needs_fork

ROOM = 4096
GENERATOR = torch.Generator().manual_seed(0)
FRAMES = torch.randint(0, 256, (10, 3, 64, 64), dtype=torch.uint8, generator=GENERATOR)
SOUND = torch.rand(2, 20_000, generator=GENERATOR) - 0.5

WRITERS: dict[str, Callable[[Path], object]] = {
    **{
        f"video.{kind}": lambda path: VideoEncoder(FRAMES, frame_rate=25).to_file(path)
        for kind in ("mp4", "mkv", "webm", "avi", "ts")
    },
    **{
        f"sound.{kind}": lambda path: AudioEncoder(SOUND, sample_rate=8000).to_file(path)
        for kind in ("wav", "mp3", "flac")
    },
    "image.png": lambda path: PngEncoder(FRAMES[0]).to_file(path),
    "image.jpg": lambda path: JpegEncoder(torch.cat(list(FRAMES), 2)).to_file(path),
}


def full(folder: Path, work: Callable[[], object], room: int = ROOM) -> Any:
    """Return (type, message) of the error of a call while files cannot grow beyond a size."""

    def limited() -> tuple[str, str] | None:
        with file_size_limit(room):
            try:
                work()
            except Exception as error:
                return type(error).__name__, str(error)
        return None

    return in_child(folder, limited)


def assert_file_stays(
    path: Path, write: Callable[[Path], object], folder: Path, error: type[Exception] = WriteError, room: int = ROOM
) -> None:
    """Check that a file is the only one in its folder, and as before, after it could not be written again."""
    path.write_bytes(b"before")
    kind, message = full(folder, lambda: write(path), room)
    assert kind == error.__name__
    assert "File too large" in message
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == {path.name: b"before"}


@pytest.fixture
def output(tmp_path: Path) -> Path:
    (tmp_path / "output").mkdir()
    return tmp_path / "output"


@pytest.mark.parametrize("name", WRITERS)
def test_encoders(name: str, output: Path, tmp_path: Path) -> None:
    assert_file_stays(output / name, WRITERS[name], tmp_path)


def test_indexes(clip: Path, output: Path, tmp_path: Path) -> None:
    index = VideoDecoder(clip).frame_index
    assert_file_stays(output / "saved.index", index.save, tmp_path, FrameIndexError, room=100)


def test_the_cache_of_indexes(clip: Path, clip_rgb: torch.Tensor, output: Path, tmp_path: Path) -> None:
    def decode() -> bool:
        mediatensor.set_index_cache(output)
        with file_size_limit(100), warnings.catch_warnings(record=True) as caught:
            frame = VideoDecoder(clip)[7]
        return torch.equal(frame, clip_rgb[7]) and len(caught) == 1

    assert in_child(tmp_path, decode)
    assert list(output.iterdir()) == []


@pytest.mark.parametrize("command", ["extract", "sheet"])
def test_commands(command: str, clip: Path, output: Path, tmp_path: Path, capfd: Any) -> None:
    place = output / "sheet.png" if command == "sheet" else output

    def run() -> int:
        with file_size_limit(ROOM):
            return main([command, str(clip), "-o", str(place)])

    assert in_child(tmp_path, run) == 2
    assert str(output) in capfd.readouterr().err
    assert all(path.stat().st_size < ROOM and path.suffix == ".png" for path in output.iterdir())
    assert [path.name for path in output.iterdir() if path.name.startswith(".")] == []


def test_what_extract_replaces(output: Path, tmp_path: Path, capfd: Any) -> None:
    AudioEncoder(SOUND, sample_rate=8000).to_file(tmp_path / "sound.wav")
    lines = [f"{number}\n00:00:{number:02},000 --> 00:00:{number:02},500\n{'Hello ' * 30}\n" for number in range(60)]
    (tmp_path / "text.srt").write_text("\n".join(lines))
    for option, name in (("--audio", "sound.wav"), ("--subtitles", "text.srt")):
        (output / name).write_bytes(b"before")

        def run(option: str = option, name: str = name) -> int:
            with file_size_limit(ROOM):
                return main(["extract", str(tmp_path / name), "-o", str(output), option, "--overwrite"])

        assert in_child(tmp_path, run) == 2
        assert "File too large" in capfd.readouterr().err
    assert {path.name: path.read_bytes() for path in output.iterdir()} == dict.fromkeys(
        ("sound.wav", "text.srt"), b"before"
    )


def test_searchable_pdf(output: Path, tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    page = Page(torch.cat(list(FRAMES), 2).permute(1, 2, 0).numpy(), [], 0, (64, 640))
    assert_file_stays(output / "page.pdf", page.save_pdf, tmp_path)


def test_a_searchable_pdf(output: Path, tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    image = FRAMES[0].permute(1, 2, 0).contiguous().numpy()
    document = Document([Page(image, [], number, (64, 64)) for number in range(3)])
    kind, _ = full(tmp_path, lambda: document.save_pdf(output / "all.pdf"))
    assert (kind, list(output.iterdir())) == (WriteError.__name__, [])
    document.save_pdf(output / "all.pdf")
    assert (output / "all.pdf").stat().st_size > ROOM


# Shared memory


@pytest.mark.parametrize("num_bytes", [0, 100_000])
def test_no_shared_memory(num_bytes: int, clip: Path, tmp_path: Path) -> None:
    """Without shared memory there are no semaphores, so no workers; in little shared memory, batches do not fit."""

    def train() -> tuple[list[torch.Tensor], int]:
        with file_size_limit(num_bytes), warnings.catch_warnings(record=True) as caught:
            dataset = VideoClips([clip] * 6, num_frames_per_clip=8, seed=3)
            loader = DataLoader(
                dataset, 3, shuffle=True, num_workers=2, persistent_workers=True, prefetch_factor=1, timeout=30
            )
            batches = [batch.frames.data.clone() for _ in range(2) for batch in loader]
        # Lance, which another test may have loaded, warns of every fork.
        own = [warning for warning in caught if "lance" not in str(warning.message)]
        return [batch.numpy() for batch in batches], len(own)

    expected = [
        batch.frames.data
        for loader in [DataLoader(VideoClips([clip] * 6, num_frames_per_clip=8, seed=3), 3, shuffle=True)]
        for _ in range(2)
        for batch in loader
    ]
    found, num_warnings = in_child(tmp_path, train)
    assert len(found) == len(expected) == 4
    assert all(torch.equal(torch.from_numpy(one), other) for one, other in zip(found, expected, strict=True))
    assert num_warnings == (1 if num_bytes == 0 else 0), "workers warn by themselves"


def test_numbers_are_shared_without_shared_memory(clip: Path, tmp_path: Path) -> None:
    def share() -> int:
        with file_size_limit(0):
            dataset = VideoClips([clip], num_frames_per_clip=2)
        if os.fork() == 0:
            dataset.set_epoch(5)
            os._exit(0)
        os.wait()
        return dataset.epoch

    assert in_child(tmp_path, share) == 5
