"""Where encoders write: files, links, devices, pipes, URLs, and file objects of all kinds."""

from __future__ import annotations

import gc
import io
import os
import socket
import stat
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from encoder_oracles import moving_pictures
from mediatensor.decoders import VideoDecoder
from mediatensor.encoders import AudioEncoder, Encoder, VideoEncoder
from mediatensor.errors import EncodeError, WriteError
from places import needs_unix, read_pipe

FRAMES = moving_pictures(10, 64, 64)


def test_a_file_appears_whole_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "video.mp4"
    path.write_bytes(b"before")
    path.chmod(0o640)
    encoder = Encoder()
    video = encoder.add_video(height=64, width=64, frame_rate=25)
    encoder.open_file(path)
    video.add_frames(FRAMES)
    assert path.read_bytes() == b"before"
    encoder.close()
    assert len(VideoDecoder(path)) == 10
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("encoder", "format", "options"),
    [
        (VideoEncoder(FRAMES, frame_rate=25), "mp4", {"codec": "mpeg4"}),
        (AudioEncoder(torch.linspace(-1, 1, 16_000).repeat(2, 1), sample_rate=16_000), "wav", {}),
    ],
)
def test_file_tensor_and_file_object_have_equal_bytes(
    encoder: Any, format: str, options: dict[str, Any], tmp_path: Path
) -> None:
    encoder.to_file(tmp_path / f"file.{format}", **options)
    file = io.BytesIO()
    encoder.to_file_like(file, format, **options)
    tensor = encoder.to_tensor(format, **options)
    assert (tensor.dtype, tensor.ndim) == (torch.uint8, 1)
    assert (tmp_path / f"file.{format}").read_bytes() == file.getvalue() == bytes(tensor.numpy())


def test_writes_that_take_a_part_or_return_nothing() -> None:
    class Part(io.BytesIO):
        def write(self, data: Any) -> int:
            return super().write(data[:1000])

    class Silent:
        def __init__(self) -> None:
            self.file = io.BytesIO()

        def write(self, data: bytes) -> None:
            self.file.write(data)

        def seek(self, offset: int, whence: int = 0) -> None:
            self.file.seek(offset, whence)

    class OfNumPy(Silent):
        def write(self, data: bytes) -> Any:
            return np.int64(self.file.write(data[:1000]))

        def seek(self, offset: int, whence: int = 0) -> Any:
            return np.int64(self.file.seek(offset, whence))

    encoder = VideoEncoder(FRAMES, frame_rate=25)
    expected = bytes(encoder.to_tensor("mp4", codec="mpeg4").numpy())
    part, silent, of_numpy = Part(), Silent(), OfNumPy()
    of_numpy.file.write(b"before")
    encoder.to_file_like(part, "mp4", codec="mpeg4")
    encoder.to_file_like(silent, "mp4", codec="mpeg4")
    encoder.to_file_like(of_numpy, "mp4", codec="mpeg4")
    assert part.getvalue() == silent.file.getvalue() == expected
    assert of_numpy.file.getvalue() == b"before" + expected


def test_a_file_object_keeps_its_earlier_bytes() -> None:
    encoder = VideoEncoder(FRAMES, frame_rate=25)
    file = io.BytesIO()
    file.write(b"before")
    encoder.to_file_like(file, "mp4", codec="mpeg4")
    assert file.getvalue() == b"before" + bytes(encoder.to_tensor("mp4", codec="mpeg4").numpy())


def test_a_file_object_that_fails_before_the_first_write_is_a_write_error() -> None:
    class Untold(io.BytesIO):
        def tell(self) -> int:
            raise OSError("no position")

    detached = io.BufferedWriter(io.BytesIO())
    detached.detach()
    for file, reason in ((Untold(), "Untold object: no position"), (detached, "raw stream has been detached")):
        with pytest.raises(WriteError, match=reason):
            VideoEncoder(FRAMES, frame_rate=25).to_file_like(file, "mp4")


def test_destinations_that_cannot_seek() -> None:
    class Pipe:
        def __init__(self) -> None:
            self.data = b""

        def write(self, data: bytes) -> int:
            self.data += data
            return len(data)

    encoder, pipe = VideoEncoder(FRAMES, frame_rate=25), Pipe()
    encoder.to_file_like(pipe, "mkv")
    assert len(VideoDecoder(pipe.data)) == 10
    with pytest.raises(EncodeError, match="cannot seek"):
        encoder.to_file_like(Pipe(), "mp4")
    fragmented = Pipe()
    encoder.to_file_like(fragmented, "mp4", extra_options={"movflags": "frag_keyframe+empty_moov"})
    assert len(VideoDecoder(fragmented.data)) == 10


@needs_unix
def test_a_named_pipe_is_written_directly(tmp_path: Path) -> None:
    path = tmp_path / "pipe.mkv"
    with read_pipe(path) as received:
        VideoEncoder(FRAMES, frame_rate=25).to_file(path)
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert len(VideoDecoder(received[0])) == 10


@needs_unix
def test_standard_output(tmp_path: Path) -> None:
    """A buffered file object of a pipe, such as ``sys.stdout.buffer``."""
    with read_pipe(tmp_path / "pipe") as received, open(tmp_path / "pipe", "wb") as output:
        VideoEncoder(FRAMES, frame_rate=25).to_file_like(output, "mkv")
    assert len(VideoDecoder(received[0])) == 10


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_link_to_a_device_is_written_directly(tmp_path: Path) -> None:
    link = tmp_path / "video.mkv"
    link.symlink_to("/dev/full")
    with pytest.raises(WriteError, match="No space left"):
        VideoEncoder(FRAMES, frame_rate=25).to_file(link)
    assert os.readlink(link) == "/dev/full"
    assert list(tmp_path.iterdir()) == [link]


def test_ffmpeg_opens_urls(tmp_path: Path) -> None:
    received = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def receive() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as file:
                received.append(file.read())

        thread = threading.Thread(target=receive)
        thread.start()
        encoder = Encoder()
        video = encoder.add_video(height=64, width=64, frame_rate=25)
        with encoder.open_file(f"tcp://127.0.0.1:{server.getsockname()[1]}/video.mkv"):
            video.add_frames(FRAMES)
        del encoder, video
        gc.collect()
        thread.join()
    assert len(VideoDecoder(received[0])) == 10


def test_file_urls_are_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in (f"file:{tmp_path}/a.mkv", f"file://{tmp_path}/b.mkv", "file:c.mkv"):
        VideoEncoder(FRAMES, frame_rate=25).to_file(url)
        assert len(VideoDecoder(url)) == 10
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mkv", "b.mkv", "c.mkv"]


def test_a_url_without_a_server_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(WriteError, match="header could not be written"):
        VideoEncoder(FRAMES, frame_rate=25).to_file(f"tcp://127.0.0.1:{port}/video.mkv")
