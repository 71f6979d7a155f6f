"""Contents of files, found without mediatensor: plain decodes with PyAV, and the ``ffmpeg`` program."""

from __future__ import annotations

import functools
import struct
import subprocess
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import av.filter
import numpy as np
from av.sidedata.sidedata import SideDataContainer
from numpy.typing import NDArray

__all__ = [
    "ffmpeg_rgb",
    "ffmpeg_rgb_of_several",
    "linear_decode_frames",
    "linear_decode_planes",
    "linear_decode_rgb",
    "opened_stream",
    "readable_packets",
    "times_shown",
    "undetermined_frames",
    "upright_frames",
]

Pixels = NDArray[np.uint8]
# YCgCo and BT.2020 constant luminance: swscale has neither; older versions took BT.601 and BT.2020 for them.
_REPLACED_MATRICES = {8: 5, 10: 9}


@contextmanager
def opened_stream(path: Path, kind: str, stream_index: int | None) -> Iterator[tuple[Any, Any]]:
    """Open a file; yield it, and its stream with an index among all streams, or FFmpeg's choice of a kind."""
    options = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
    with av.open(str(path), **options) as container:
        yield container, container.streams.best(kind) if stream_index is None else container.streams[stream_index]


def readable_packets(container: Any, stream: Any) -> Iterator[Any]:
    """The packets of a stream up to the one that flushes the codec, which is ``None`` after an error in reading."""
    with suppress(av.FFmpegError):
        for packet in container.demux(stream):
            yield packet
            if packet.size == 0:
                return
    yield None


def _plain_decode(path: Path, stream_index: int | None) -> Iterator[Any]:
    """Every frame, in the order in which the codec gives them: first packet to last, one thread, no seek.

    Packets that the codec refuses are passed over; an error in reading ends the stream.
    """
    with opened_stream(path, "video", stream_index) as (container, stream):
        stream.thread_type, stream.thread_count = "NONE", 1
        for packet in readable_packets(container, stream):
            with suppress(av.FFmpegError):
                yield from stream.decode(packet)


def undetermined_frames(path: Path, stream_index: int | None = None) -> set[int]:
    """Frames, counted as decoded, whose pixels are not decided by the file.

    Where data is missing, some codecs leave in a picture whatever was in its memory. That shows when the pictures
    decoded before are kept, all or every other one, so that their memory is not used again.
    """
    plain = [crc for _, crc in linear_decode_planes(path, stream_index)]
    found: set[int] = set()
    for distance in (1, 2):
        kept = []
        for number, frame in enumerate(_plain_decode(path, stream_index)):
            if _crc_of_planes(frame) != plain[number]:
                found.add(number)
            if number % distance == 0:
                kept.append(frame)
    return found


def linear_decode_planes(path: Path, stream_index: int | None = None) -> list[tuple[int | None, int]]:
    """(pts, CRC-32 of the decoded planes as they are) of every frame, in decoding order.

    Rows are cut to the visible width; planes follow each other in order. The definition is the same as in
    ``reference_frames.json.gz`` next to the real media files.
    """
    return [(frame.pts, _crc_of_planes(frame)) for frame in _plain_decode(path, stream_index)]


def _crc_of_planes(frame: Any) -> int:
    crc = 0
    for number, plane in enumerate(frame.planes):
        # A palette plane, as of pal8, has no components: it counts as a whole.
        row = sum(-(-c.bits // 8) for c in frame.format.components if c.plane == number) * plane.width
        data = np.frombuffer(plane, np.uint8)
        if row and len(frame.planes) == 1:
            row = -(-plane.width * frame.format.padded_bits_per_pixel // 8)
        if row:
            data = data.reshape(-1, abs(plane.line_size))[: plane.height, :row]
        crc = zlib.crc32(np.ascontiguousarray(data), crc)
    return crc


def upright_frames(path: Path, stream_index: int | None = None) -> Iterator[tuple[int | None, Pixels]]:
    """(pts, upright RGB picture (H, W, 3)) of every frame, in decoding order."""
    to_rgb = _RgbFilter()
    for frame in _plain_decode(path, stream_index):
        yield frame.pts, _upright(to_rgb.convert(frame), _display_matrix(frame))


def times_shown(path: Path, stream_index: int | None, pts: Sequence[int | None]) -> list[int | None]:
    """When the frames of a plain decode are shown, in the order in which the codec gives them, which is never changed.

    If their times never fall, those are it. If they do although packet times only increase, the file states when
    pictures are decoded: the times belong to the frames in ascending order. Otherwise none is known.
    """
    known = [time for time in pts if time is not None]
    if known == sorted(known):
        return list(pts)
    with opened_stream(path, "video", stream_index) as (container, stream):
        packets = []
        with suppress(av.FFmpegError):  # a broken tail
            packets.extend(packet.pts for packet in container.demux(stream) if packet.size)
    only_grow = None not in packets and all(earlier <= later for earlier, later in pairwise(packets))
    return sorted(known) if only_grow and len(known) == len(pts) else [None] * len(pts)


def linear_decode_frames(path: Path) -> tuple[list[int | None], list[Pixels]]:
    """Times by `times_shown` and upright RGB pictures (H, W, 3) of every frame in the codec's order."""
    decoded = list(upright_frames(path))
    return times_shown(path, None, [pts for pts, _ in decoded]), [picture for _, picture in decoded]


def linear_decode_rgb(path: Path) -> tuple[list[int | None], Pixels]:
    """As `linear_decode_frames`, with the pictures, all of one size, as one array (N, H, W, 3)."""
    pts, pictures = linear_decode_frames(path)
    return pts, np.stack(pictures)


class _RgbFilter:
    """The filters ``scale=flags=bicubic,format=rgb24``, rebuilt when size or format change."""

    def __init__(self) -> None:
        self._graph = av.filter.Graph()
        self._configured_for: tuple[object, ...] | None = None

    def convert(self, frame: Any) -> Pixels:
        frame.colorspace = _REPLACED_MATRICES.get(frame.colorspace, frame.colorspace)
        kind = frame.width, frame.height, frame.format.name
        if kind != self._configured_for:
            self._configure(frame)
            self._configured_for = kind
        self._graph.push(frame)
        picture: Any = self._graph.pull()
        plane = picture.planes[0]
        rows = np.frombuffer(plane, np.uint8).reshape(frame.height, plane.line_size)
        return rows[:, : 3 * frame.width].reshape(frame.height, frame.width, 3).copy()

    def _configure(self, frame: Any) -> None:
        self._graph = av.filter.Graph()
        source = self._graph.add_buffer(
            width=frame.width, height=frame.height, format=frame.format.name, time_base=Fraction(1, 1000)
        )
        chain = [source, *map(self._graph.add, ("scale", "format", "buffersink"), ("flags=bicubic", "rgb24", None))]
        for one, other in pairwise(chain):
            one.link_to(other)
        self._graph.configure()


def _display_matrix(frame: Any) -> bytes | None:
    try:
        matrix = SideDataContainer(frame).get("DISPLAYMATRIX")  # ``frame.side_data`` makes a cycle: the frame lives on
    except ValueError:  # PyAV 18 cannot list side data of a type it does not know
        assert frame.rotation == 0
        return None
    return None if matrix is None else bytes(matrix)


def _upright(rgb: Pixels, matrix: bytes | None) -> Pixels:
    """Move every pixel to where the display matrix, rounded to quarter turns, sends it."""
    if matrix is None:
        return rgb
    height, width, places = _places(matrix, *rgb.shape[:2])
    out = np.zeros((height * width, 3), np.uint8)
    out[places] = rgb.reshape(-1, 3)
    return out.reshape(height, width, 3)


@functools.lru_cache(maxsize=2)
def _places(matrix: bytes, height: int, width: int) -> tuple[int, int, NDArray[np.int64]]:
    """Height and width of the upright picture, and where in it, counted row by row, each stored pixel goes."""
    a, b, _, c, d, *_ = struct.unpack("=9i", matrix[:36])
    largest = max(map(abs, (a, b, c, d)))
    a, b, c, d = (round(value / largest) for value in (a, b, c, d))
    y, x = np.mgrid[:height, :width]
    to_x, to_y = a * x + c * y, b * x + d * y
    to_x, to_y = to_x - to_x.min(), to_y - to_y.min()
    upright_height, upright_width = int(to_y.max()) + 1, int(to_x.max()) + 1
    return upright_height, upright_width, (to_y * upright_width + to_x).ravel()


def ffmpeg_rgb(
    program: str,
    path: Path,
    *,
    num_frames: int | None = None,
    stream: str = "0:v:0",
    is_upright: bool = True,
    is_deep: bool = False,
) -> NDArray[Any]:
    """The frames (N, H, W, 3), all of one size, that the ``ffmpeg`` program writes as RGB, in decoding order.

    If they are to be ``is_upright``, it applies the display matrix; ``is_deep`` is 16 bits a component instead of 8.
    """
    command = [program, "-v", "error", "-nostdin", "-threads", "1"]
    command += ["-i", str(path)] if is_upright else ["-noautorotate", "-i", str(path)]
    command += ["-map", stream]
    if num_frames is not None:
        command += ["-frames:v", str(num_frames)]
    command += [*_as_ppm("rgb48be" if is_deep else "rgb24"), "pipe:1"]
    output = subprocess.run(command, capture_output=True, check=False, timeout=120).stdout
    return np.stack(list(_ppm_pictures(output)))


def ffmpeg_rgb_of_several(program: str, streams: Sequence[tuple[Path, int]], folder: Path) -> list[Pixels]:
    """As `ffmpeg_rgb`, for several files and stream indices: to start it takes longer than to decode a small clip."""
    command = [program, "-v", "error", "-nostdin", "-y"]
    targets = [folder / f"{number}.ppm" for number in range(len(streams))]
    for path, _ in streams:
        command += ["-threads", "1", "-i", str(path)]
    for number, ((_, stream_index), target) in enumerate(zip(streams, targets, strict=True)):
        command += ["-map", f"{number}:{stream_index}", *_as_ppm("rgb24"), str(target)]
    subprocess.run(command, capture_output=True, check=False, timeout=120)
    return [np.stack(list(_ppm_pictures(target.read_bytes()))) for target in targets]


def _as_ppm(pix_fmt: str) -> list[str]:
    # A PPM states its size, so no second program has to be asked for it.
    return ["-vsync", "0", "-f", "image2pipe", "-c:v", "ppm", "-pix_fmt", pix_fmt, "-threads", "1"]


def _ppm_pictures(data: bytes) -> Iterator[NDArray[Any]]:
    at = 0
    while at < len(data):
        magic, size, largest = data[at : at + 64].split(b"\n", 3)[:3]
        assert magic == b"P6", "not the PPM that ffmpeg writes"
        width, height = map(int, size.split())
        dtype = np.dtype(np.uint8 if int(largest) < 256 else ">u2")
        at += len(magic) + len(size) + len(largest) + 3
        yield np.frombuffer(data, dtype, width * height * 3, at).reshape(height, width, 3)
        at += width * height * 3 * dtype.itemsize
