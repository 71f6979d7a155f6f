"""Decoding a few frames reads only a small part of a file, counted by a file object."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from mediatensor.decoders import VideoDecoder

_NUM_FRAMES, _MEGABYTE = 200, 1 << 20


class CountingFile(io.RawIOBase):
    """A file that counts the bytes that are read."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self.num_read = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.num_read += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        super().close()


def noise_picture() -> bytes:
    """Return a JPEG of 100 KB or more."""
    encoder: Any = av.CodecContext.create("mjpeg", "w")
    encoder.width, encoder.height, encoder.pix_fmt, encoder.time_base = 512, 384, "yuvj420p", Fraction(1, 25)
    encoder.options = {"qmin": "1", "qmax": "1"}
    rgb = np.random.default_rng(0).integers(0, 256, (384, 512, 3), np.uint8)
    frame = av.VideoFrame.from_ndarray(rgb, format="rgb24").reformat(format="yuvj420p")
    frame.pts, frame.time_base = 0, Fraction(1, 25)
    (packet,) = [*encoder.encode(frame), *encoder.encode(None)]
    return bytes(packet)


def write_large(path: Path, container: str, picture: bytes, **options: str) -> None:
    """Write a file with the same picture many times."""
    with av.open(str(path), "w", format=container, options={"fflags": "bitexact", **options}) as output:
        stream = output.add_stream("mjpeg", rate=25)
        stream.width, stream.height, stream.pix_fmt = 512, 384, "yuvj420p"
        for number in range(_NUM_FRAMES):
            packet = av.Packet(picture)
            packet.pts = packet.dts = number
            packet.duration, packet.time_base, packet.is_keyframe = 1, Fraction(1, 25), True
            packet.stream = stream
            output.mux(packet)


@pytest.fixture(scope="module")
def picture() -> bytes:
    return noise_picture()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, picture: bytes) -> Callable[..., Path]:
    folder = tmp_path_factory.mktemp("large")

    def make(name: str, container: str, **options: str) -> Path:
        path = folder / name
        if not path.exists():
            write_large(path, container, picture, **options)
        return path

    return make


# Options of the muxer, and the share of the file that opening may read. The demuxer reads the first pictures; if there
# are fragments, it reads 5 MB to find the frame rate.
LAYOUTS = {
    "header_last.mp4": ({}, 0.01),
    "header_first.mp4": ({"movflags": "faststart"}, 0.01),
    "fragments.mp4": ({"movflags": "frag_every_frame+empty_moov", "min_frag_duration": "200000"}, 0.15),
}


def costs(path: Path) -> tuple[int, int, int]:
    """Return how many bytes are read to open a file, to index it, and to decode a frame in its middle."""
    file = CountingFile(path)
    with VideoDecoder(file, num_ffmpeg_threads=1) as decoder:
        opening = file.num_read
        assert len(decoder) == _NUM_FRAMES
        indexing = file.num_read - opening
        decoder[_NUM_FRAMES // 2]
        decoding = file.num_read - opening - indexing
        assert decoder.frame_index.pts_seconds.tolist() == [n / 25 for n in range(_NUM_FRAMES)]
    return opening, indexing, decoding


@pytest.mark.parametrize("name", list(LAYOUTS))
def test_an_mp4_costs_its_header_and_the_frames(name: str, large: Callable[..., Path], picture: bytes) -> None:
    options, share_to_open = LAYOUTS[name]
    path = large(name, "mp4", **options)
    size = path.stat().st_size
    assert size > 40 * _MEGABYTE
    opening, indexing, decoding = costs(path)
    assert opening < share_to_open * size
    assert indexing < 16 * 1024
    assert len(picture) <= decoding < 2 * len(picture)


def test_an_mkv_costs_the_headers_of_its_blocks_and_the_frames(large: Callable[..., Path], picture: bytes) -> None:
    path = large("large.mkv", "matroska")
    _, indexing, decoding = costs(path)
    assert indexing < (_NUM_FRAMES + 20) * (1 << 13)
    assert indexing < path.stat().st_size / 20
    assert len(picture) <= decoding < 3 * len(picture)


@pytest.mark.parametrize(("name", "container"), [("large.mkv", "matroska"), ("large.avi", "avi")])
def test_first_frames_leave_the_rest_unread(name: str, container: str, large: Callable[..., Path]) -> None:
    path = large(name, container)
    file = CountingFile(path)
    with VideoDecoder(file, num_ffmpeg_threads=1) as decoder:
        decoder[0]
        for _, _ in zip(range(4), decoder, strict=False):
            pass
    assert file.num_read < path.stat().st_size / 2


def test_formats_without_headers_are_read_whole(large: Callable[..., Path]) -> None:
    path = large("large.avi", "avi")
    file = CountingFile(path)
    with VideoDecoder(file, num_ffmpeg_threads=1) as decoder:
        assert len(decoder) == _NUM_FRAMES
    assert file.num_read >= path.stat().st_size * 0.99, "otherwise the counts above would prove nothing"


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs the counters of Linux")
@pytest.mark.parametrize("opens", [os.fspath, lambda path: path.open("rb")], ids=["path", "file"])
def test_frames_cost_little_more_than_their_packets(opens: Callable[[Path], Any], tmp_path: Path) -> None:
    """FFmpeg does not read far ahead in local files, which matters for small groups of pictures."""

    def num_read() -> int:
        return int(Path("/proc/self/io").read_text().split("rchar:")[1].split()[0])

    path = tmp_path / "small.mp4"
    write_large(path, "mp4", noise_picture()[:20_000])  # truncated: their contents do not matter
    with VideoDecoder(opens(path), num_ffmpeg_threads=1, on_error="nearest") as decoder:
        sizes = decoder.frame_index.gop_bytes.tolist()
        chosen = np.random.default_rng(0).permutation(_NUM_FRAMES)[:60].tolist()
        decoder[0]
        before = num_read()
        for number in chosen:
            decoder[number]
        read = num_read() - before
    needed = sum(sizes[number] for number in chosen)
    assert 0.95 * needed < read < 1.3 * needed  # one of the frames may have been read already
