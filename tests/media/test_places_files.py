"""Unusual files: pipes, links, odd names, too many open at once, and files that change while they are open."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import resource
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import media
from mediatensor.cli import main
from mediatensor.datasets import VideoClips, as_items
from mediatensor.decoders import AudioDecoder, SubtitleDecoder, VideoDecoder, WavDecoder, decode_image
from mediatensor.encoders import AudioEncoder, VideoEncoder
from mediatensor.errors import MediaTensorError, OpenError, ReadError, SourceNotFoundError
from mediatensor.ocr.io import DocumentFile
from ocr_onnx_sessions import require_weights
from ocr_reading import text_page
from places import in_child, needs_fork

OPENERS: dict[str, Callable[[Path], Any]] = {
    "video": VideoDecoder,
    "sound": AudioDecoder,
    "wav": WavDecoder,
    "subtitles": SubtitleDecoder,
    "image": decode_image,
    "page": DocumentFile.from_images,
    "pdf": DocumentFile.from_pdf,
}


@pytest.mark.timeout(30)  # opening a pipe would wait for a writer
@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_what_is_no_file_is_refused_at_once(opener: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # names of sockets must be short
    os.mkfifo("pipe")
    os.symlink("loop", "loop")
    os.symlink("nothing", "dangling")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        for name in ("pipe", "socket", "loop", ".", "/dev/null", "a" * 300, "x/" * 3000, "a\0b"):
            with pytest.raises(OpenError) as caught:
                OPENERS[opener](Path(name))
            assert not isinstance(caught.value, SourceNotFoundError), name
    with pytest.raises(SourceNotFoundError):
        OPENERS[opener](Path("dangling"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_among_the_files_of_a_dataset(clip: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mp4")
    dataset = VideoClips([clip, tmp_path / "pipe.mp4"], num_frames_per_clip=2, on_error="skip")
    assert "named pipe" in dataset[1].failures[0].message


@pytest.mark.skipif(os.name == "nt", reason="file names are Unicode here")
@pytest.mark.parametrize("name", [b"caf\xe9 \xff.mp4", "日本 🎞.mp4".encode(), b"new\nline 'and' \"quotes\" %d.mp4"])
def test_names_of_any_bytes(name: bytes, clip: Path, clip_rgb: torch.Tensor, tmp_path: Path) -> None:
    path = Path(os.fsdecode(name))
    shutil.copy(clip, tmp_path / path)
    os.symlink(tmp_path / path, tmp_path / "link")
    for source in (tmp_path / path, str(tmp_path / path), tmp_path / "link"):
        assert torch.equal(VideoDecoder(source)[7], clip_rgb[7])
    written = tmp_path / f"written {path}"
    VideoEncoder(clip_rgb[:3], frame_rate=25).to_file(written)
    assert len(VideoDecoder(written)) == 3


@pytest.mark.skipif(os.name == "nt", reason="file names are Unicode here")
def test_command_writes_results_of_files_whose_names_have_no_utf8(
    clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require_weights()
    name = os.fsdecode(b"caf\xe9")
    video, page, out = tmp_path / f"{name}.mp4", tmp_path / f"{name}.png", tmp_path / "out"
    shutil.copy(clip, video)
    Image.fromarray(text_page("Total 12.50").image).save(page)
    manifest = tmp_path / "lines.jsonl"
    manifest.write_text(json.dumps({"file": page.name, "text": "Total 12.50"}), encoding="utf-8")
    for arguments in (
        ["ocr", page, "-o", out, "--format", "html,json,alto"],
        ["ocr", page, "--export-lines", tmp_path / "lines"],
        ["check", video, "--no-decode", "--workers", "0", "--html", out / "report.html", "--fix", out / "good.jsonl"],
        ["scenes", video, "-o", out / "scenes.jsonl"],
        ["evaluate", "recognition", manifest, "--json", out / "scores.json", "--picture", out / "worst.png"],
    ):
        assert main([str(argument) for argument in arguments]) == 0, arguments
    assert [item.source for item in as_items(out / "good.jsonl", kind="video")] == [str(video)]
    assert [os.path.realpath(item.source) for item in as_items(out / "scenes.jsonl", kind="video")] == [str(video)]
    for text in [*out.glob("*.json*"), *out.glob("*.html"), *out.glob("*.xml")]:
        text.read_text(encoding="utf-8")
    # A .csv file cannot contain the name: both commands say so before they read the video.
    capsys.readouterr()
    assert main(["scenes", str(video), "-o", str(out / "scenes.csv")]) == 2
    assert main(["check", str(video), "--no-decode", "--workers", "0", "--fix", str(out / "good.csv")]) == 2
    printed = capsys.readouterr()
    assert printed.err.count("write a .jsonl") == 2
    assert printed.out == ""


def test_a_path_of_bytes_is_taken_for_the_bytes_of_a_file(clip: Path) -> None:
    with pytest.raises(OpenError, match="bytes of"):
        VideoDecoder(os.fsencode(clip))


@needs_fork
def test_more_decoders_than_files_may_be_open(clip: Path, clip_rgb: torch.Tensor, tmp_path: Path) -> None:
    def decode() -> int:
        limit = len(os.listdir("/proc/self/fd")) + 12 if os.path.isdir("/proc/self/fd") else 40
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        decoders = [VideoDecoder(clip) for _ in range(50)]
        return sum(torch.equal(decoder[17], clip_rgb[17]) for decoder in decoders)

    assert in_child(tmp_path, decode) == 50


@needs_fork
def test_no_file_may_be_open(clip: Path, tmp_path: Path) -> None:
    def decode() -> list[str]:
        taken = []
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard))
        try:
            while True:
                taken.append(os.dup(0))
        except OSError:
            pass
        messages = []
        for opener in OPENERS.values():
            try:
                opener(clip)
            except OpenError as error:
                messages.append(str(error))
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))  # other tests may have left 40 files open
        return messages

    for opener in OPENERS.values():  # the modules that they import on first use are files, too
        with contextlib.suppress(MediaTensorError):
            opener(clip)
    messages = in_child(tmp_path, decode)
    assert len(messages) == len(OPENERS)
    assert all("Too many open files" in message for message in messages), messages


# Files that change


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write another video of the same length."""
    path = tmp_path_factory.mktemp("other") / "other.mp4"
    frames = torch.randint(0, 256, (40, 3, 64, 96), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    VideoEncoder(frames, frame_rate=25).to_file(path)
    return path


def overwrite(path: Path, other: Path) -> None:
    path.write_bytes(other.read_bytes())


def replace(path: Path, other: Path) -> None:
    shutil.copy(other, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


def cut(path: Path, other: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.fixture
def path(clip: Path, tmp_path: Path) -> Path:
    """A copy of the clip, to be changed while it is open."""
    return shutil.copy(clip, tmp_path / "video.mp4")


@pytest.mark.parametrize("change", [overwrite, replace, cut])
def test_an_opened_video_that_becomes_another(
    change: Callable[[Path, Path], None], path: Path, clip_rgb: torch.Tensor, other: Path
) -> None:
    decoder = VideoDecoder(path)
    assert torch.equal(decoder[3], clip_rgb[3])
    copy = pickle.loads(pickle.dumps(decoder))
    change(path, other)
    with pytest.raises(ReadError, match=r"has changed since it was opened; make a new decoder"):
        copy[30]
    if change is replace:  # the open file is still the old one
        assert torch.equal(decoder[30], clip_rgb[30])
    else:
        with pytest.raises(ReadError, match="has changed"):
            decoder[30]


@pytest.mark.parametrize("change", [overwrite, cut])
def test_a_video_that_becomes_another_while_it_is_read_in_order(
    change: Callable[[Path, Path], None], path: Path, clip_rgb: torch.Tensor, other: Path
) -> None:
    decoder = VideoDecoder(path)
    for i in range(20):
        decoder[i]
    change(path, other)
    read: list[torch.Tensor] = []
    with pytest.raises(ReadError, match="has changed"):
        read.extend(decoder[i] for i in range(20, 40))
    # Some frames may have been decoded before the change.
    assert len(read) < 8
    assert all(torch.equal(frame, clip_rgb[i]) for i, frame in enumerate(read, 20))


@pytest.mark.parametrize("how", ["touched", "grown", "gone"])
def test_an_opened_video_that_stays_what_it_was(how: str, path: Path, clip_rgb: torch.Tensor) -> None:
    decoder = VideoDecoder(path)
    assert len(decoder) == 40
    copy = pickle.loads(pickle.dumps(decoder))
    if how == "touched":
        os.utime(path, (1, 1))
    elif how == "grown":
        with open(path, "ab") as file:
            file.write(bytes(5000))
    else:
        path.unlink()
    assert torch.equal(decoder[30], clip_rgb[30])
    if how == "gone":
        with pytest.raises(SourceNotFoundError):
            copy[30]
    else:
        assert torch.equal(copy[30], clip_rgb[30])


def test_opened_sound_that_becomes_other_sound(tmp_path: Path) -> None:
    path = tmp_path / "sound.wav"
    sound = torch.rand(1, 80_000, generator=torch.Generator().manual_seed(0)) - 0.5
    AudioEncoder(sound, sample_rate=8000).to_file(path)
    decoder = AudioDecoder(path)
    decoder.get_samples_played_in_range(1.0, 2.0)
    path.write_bytes(bytes([*path.read_bytes()[:100], *bytes(path.stat().st_size)]))
    with pytest.raises(ReadError, match="has changed"):
        decoder.get_samples_played_in_range(1.0, 2.0)


@pytest.mark.parametrize("name", ["h264_b_pyramid", "hevc_open_gop_mkv"])
def test_a_video_that_is_gone_before_its_first_frame(name: str, tmp_path: Path) -> None:
    path = media.make(name, tmp_path)
    decoder = VideoDecoder(path)
    assert len(decoder) > 3
    path.unlink()
    for _ in range(2):
        for ask in (lambda: decoder.metadata, lambda: decoder[3]):
            with pytest.raises(SourceNotFoundError):
                ask()
