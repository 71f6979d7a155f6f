"""Every container that PyAV can write, with every codec that it takes, in every structure that changes the order.

The lists come from PyAV itself, so that no combination can be left out::

    containers()  x  encoders()  x  STRUCTURES   ->  write_cell(...)

A clip is encoded once for each structure; its packets are then copied into every container that accepts them.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import av

from media_codecs import svt
from media_writing import ClipSpec, Packets, add_stream, assign, encode, prepare_encoder

__all__ = ["STRUCTURES", "Cell", "containers", "encoders", "structures_of", "write_cell"]

# Smallest first: most encoders take any size, some only the sizes of their standard.
_SIZES = ((64, 48), (176, 144), (256, 144), (320, 200), (720, 576), (48, 48))
_NUM_FRAMES = 18
_GOP = 8
# Of a format, and of a codec.
_GLOBAL_HEADER, _GLOBAL_HEADER_FLAG = 0x40, 1 << 22
# These write checksums, times or packets of a network protocol, and not a file of video.
_NOT_FILES = frozenset((
    "asf_stream", "crc", "framecrc", "framehash", "framemd5", "hash", "md5", "mkvtimestamp_v2", "rtp", "rtp_mpegts",
    "streamhash", "uncodedframecrc",
))  # fmt: skip
# The muxer reads what only its own encoder gives it.
_CRASHES = frozenset((("apng", "cut"),))
_INTERLACED_FLAGS = "+ildct+ilme"

# Options of an encoder for each structure of frames. "cut" and "joined" work on finished streams.
_GENERIC: dict[str, dict[str, str]] = {
    "plain": {"bf": "0"},
    "b_frames": {"bf": "2", "flags": "+cgop", "sc_threshold": "1000000000"},
    "open_gop": {"bf": "2"},
    "interlaced": {"bf": "2", "flags": _INTERLACED_FLAGS},
}
_X264 = {
    "plain": "bframes=0",
    "b_frames": "bframes=3:b-adapt=0:open-gop=0",
    "open_gop": "bframes=3:b-adapt=0:open-gop=1",
    "interlaced": "bframes=3:b-adapt=0:tff=1",
}
_X265 = {**_X264, "interlaced": "bframes=3:b-adapt=0:open-gop=0:interlace=tff"}
STRUCTURES = (*_GENERIC, "uneven", "cut", "cut_open", "joined", "joined_twin")


@dataclass(frozen=True)
class Stream:
    """An encoded stream: (data, pts, dts, duration, is_key) of each packet, in ticks of ``time_base``."""

    spec: ClipSpec
    packets: tuple[tuple[bytes, int, int, int, bool], ...]
    time_base: Fraction

    def to_packets(self) -> Packets:
        copies = []
        for data, pts, dts, duration, is_key in self.packets:
            packet = av.Packet(data)
            packet.pts, packet.dts, packet.duration, packet.is_keyframe = pts, dts, duration, is_key
            packet.time_base = self.time_base
            copies.append(packet)
        return copies


@dataclass(frozen=True)
class Cell:
    """One combination of the grid."""

    container: str
    encoder: str
    structure: str

    def __str__(self) -> str:
        return f"{self.container}-{self.encoder}-{self.structure}"

    @property
    def extension(self) -> str:
        """One that belongs to the container."""
        extensions = av.format.ContainerFormat(self.container, "w").extensions
        return min(extensions).strip() if extensions else self.container


@cache
def containers() -> tuple[str, ...]:
    """The muxers that write a file of video, by their own account."""
    names = []
    for name in sorted(av.formats_available - _NOT_FILES):
        with suppress(ValueError):
            container = av.format.ContainerFormat(name, "w")
            if container.is_output and not container.no_file and _default_video_codec(name) != "none":
                names.append(name)
    return tuple(names)


def _default_video_codec(name: str) -> str:
    with suppress(av.FFmpegError, ValueError), av.open(io.BytesIO(), "w", format=name) as output:
        return str(output.default_video_codec)
    return "none"


@cache
def encoders() -> tuple[str, ...]:
    """The video encoders that work on this machine."""
    names = []
    for name in sorted(av.codecs_available):
        with suppress(ValueError):
            codec = av.Codec(name, "w")  # a codec name is also accepted as the name of its default encoder
            if codec.name == name and codec.type == "video" and _encode(name, "plain", is_global=False) is not None:
                names.append(name)
    return tuple(names)


def structures_of(encoder: str, among: Iterable[str] = STRUCTURES) -> Iterator[str]:
    """Yield the structures in which the streams of an encoder differ."""
    seen = []
    for structure in among:
        stream = stream_of(encoder, structure, is_global=False)
        if stream is None:
            continue
        packets = stream.packets
        if structure.startswith("joined") or packets not in seen:
            seen.append(packets)
            yield structure


@cache
def stream_of(encoder: str, structure: str, *, is_global: bool) -> Stream | None:
    """A stream of one of `STRUCTURES`; ``None`` if the encoder has none of it.

    If it ``is_global``, parameter sets are in the header of the file, and not in the packets.
    """
    if structure.startswith("joined"):
        return stream_of(encoder, "b_frames", is_global=is_global) or stream_of(encoder, "plain", is_global=is_global)
    if not structure.startswith("cut"):
        return _encode(encoder, structure, is_global=is_global)
    whole = stream_of(encoder, "open_gop" if structure == "cut_open" else "b_frames", is_global=is_global)
    if whole is None:
        return None
    keys = [number for number, packet in enumerate(whole.packets) if packet[4]]
    if len(keys) < 2:
        return None
    kept = whole.packets[keys[1] :]
    shift = kept[0][2]
    moved = tuple((data, pts - shift, dts - shift, duration, is_key) for data, pts, dts, duration, is_key in kept)
    return replace(whole, packets=moved)


@cache
def _encode(encoder: str, structure: str, *, is_global: bool) -> Stream | None:
    for size in _SIZES:
        spec = _spec(encoder, structure, size)
        context: Any = av.CodecContext.create(encoder, "w")
        context.options = dict(spec.options)
        if is_global:
            context.flags |= _GLOBAL_HEADER_FLAG
        try:
            prepare_encoder(context, spec)
            context.framerate = Fraction(spec.rate)
            packets = encode(context, spec)
        except (av.FFmpegError, ValueError, NotImplementedError, TypeError):
            continue
        if packets and all(packet.pts is not None and packet.dts is not None for packet in packets):
            return Stream(
                spec,
                tuple((bytes(p), p.pts, p.dts, p.duration or 0, p.is_keyframe) for p in packets),
                spec.time_base or Fraction(1, spec.rate),
            )
    return None


def _spec(encoder: str, structure: str, size: tuple[int, int]) -> ClipSpec:
    codec = av.Codec(encoder, "w")
    formats = [video_format.name for video_format in codec.video_formats or ()]
    pix_fmt = "yuv420p" if "yuv420p" in formats or not formats else formats[0]
    kind = "open_gop" if structure == "uneven" else structure
    options = {"g": str(_GOP), "strict": "-2", **_GENERIC[kind]}
    if not codec.reorder and not encoder.startswith("libx26"):
        options = {"g": str(_GOP), "strict": "-2"}
    if encoder.startswith("libx264"):
        options = {
            "preset": "ultrafast", "g": str(_GOP), "bf": "0" if kind == "plain" else "3",
            "x264-params": f"mbtree=0:scenecut=0:keyint={_GOP}:{_X264[kind]}",
        }  # fmt: skip
    elif encoder == "libx265":
        fixed = f"log-level=none:pools=none:frame-threads=1:keyint={_GOP}:min-keyint={_GOP}:scenecut=0"
        options = {"preset": "ultrafast", "x265-params": f"{fixed}:{_X265[kind]}"}
    elif encoder == "libsvtav1":
        options = {**svt(), "g": str(_GOP)}
    elif encoder.startswith("libvpx"):
        options = {"deadline": "realtime", "cpu-used": "-5", "b": "200k", "g": str(_GOP)}
    elif encoder == "dnxhd":
        options = {"profile": "dnxhr_sq"}
    is_uneven = structure == "uneven"
    return ClipSpec(
        structure, encoder, options=options, pix_fmt=pix_fmt, size=size, num_frames=_NUM_FRAMES,
        time_base=Fraction(1, 1000) if is_uneven else None,
        pts=[40 * number + number * number % 17 for number in range(_NUM_FRAMES)] if is_uneven else None,
    )  # fmt: skip


def write_cell(cell: Cell, path: Path) -> bool:
    """Write the file of a cell; whether its container takes its codec."""
    if not cell.structure.startswith("joined"):
        return _mux(cell.container, cell.encoder, cell.structure, path)
    second = "b_frames" if cell.structure == "joined_twin" else "open_gop"
    parts = [path.with_suffix(f".{number}{path.suffix}") for number in range(2)]
    try:
        for part, structure in zip(parts, ("b_frames", second), strict=True):
            if not _mux(cell.container, cell.encoder, structure, part) and not _mux(
                cell.container, cell.encoder, "plain", part
            ):
                return False
        path.write_bytes(b"".join(part.read_bytes() for part in parts))
        return True
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


def _mux(container: str, encoder: str, structure: str, path: Path) -> bool:
    is_global = bool(av.format.ContainerFormat(container, "w").flags & _GLOBAL_HEADER)
    stream = stream_of(encoder, structure, is_global=is_global)
    if stream is None or (container, structure) in _CRASHES:
        return False
    try:
        with av.open(str(path), "w", format=container, options={"fflags": "bitexact", "strict": "-2"}) as output:
            track = add_stream(output, stream.spec)
            # Some encoders pass more to their muxer than packets contain, so only cut streams are copied.
            packets = stream.to_packets() if structure.startswith("cut") else encode(track, stream.spec)
            output.mux(assign(packets, track))
    except (av.FFmpegError, ValueError, NotImplementedError, TypeError):
        path.unlink(missing_ok=True)
        return False
    return path.exists() and path.stat().st_size > 0
