"""Distinguishable frames, and how `media` writes them into files with PyAV."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import av
import numpy as np
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from media_surgery import with_data

Packets = list[Any]
_BAR_CODE_BITS = 10


@dataclass(frozen=True)
class ClipSpec:
    """Description of a clip: its format, its properties, and how it is written.

    Attributes:
        special: Why the clip is there, in words.
        size: (width, height).
        rate: Nominal frames per second; its inverse is the encoder's time base unless ``time_base`` is given.
        time_base: Unit of ``pts``.
        pts: Presentation time of each picture; by default 0, 1, 2...
        configure: Sets attributes of the stream before encoding.
        paint: Draws picture ``number`` as RGB.
        pictures_per_palette: How many pictures in pal8 share a palette; 0 for all.
        rewrite: Changes, drops or joins packets before they are muxed.
        patch: Changes the bytes of the finished file.
        build: Writes the file instead of `write_clip`, if it is not one encoded stream.
        expect: ``"frames"``; ``"sizes"`` if the frames are of different sizes; ``"no video"``.
    """

    special: str
    codec: str = "libx264"
    container: str = "mp4"
    extension: str = ""
    options: dict[str, str] = field(default_factory=dict)
    muxer_options: dict[str, str] = field(default_factory=dict)
    pix_fmt: str = "yuv420p"
    size: tuple[int, int] = (96, 64)
    num_frames: int = 40
    rate: int = 25
    time_base: Fraction | None = None
    pts: Sequence[int] | None = None
    configure: Callable[[Any], None] | None = None
    paint: Callable[[int, int, int], NDArray[np.uint8]] | None = None
    pictures_per_palette: int = 0
    rewrite: Callable[[Packets], Packets] | None = None
    patch: Callable[[bytes], bytes] | None = None
    build: Callable[[ClipSpec, Path], None] | None = None
    expect: str = "frames"


def paint_picture(number: int, width: int, height: int) -> NDArray[np.uint8]:
    """Picture ``number`` as RGB (height, width, 3): a moving gradient, a moving block of noise, and a bar code on top.

    The bar code is ``number`` in ten binary digits, most significant first, in the top eighth of the picture.
    """
    # Most clips have the same pictures.
    for num_pixels, paint in _PAINT_ONCE.items():
        if width * height <= num_pixels:
            return paint(number, width, height).copy()
    return _paint_picture(number, width, height)


def _paint_picture(number: int, width: int, height: int) -> NDArray[np.uint8]:
    y, x = np.mgrid[:height, :width]
    rgb = np.stack([x * 2 + number * 5, y * 3 + number * 3, x + y + number * 7], axis=-1) % 256
    block = np.random.default_rng(number).integers(0, 256, (height // 4, width // 6, 3))
    top = height // 8 + number * 3 % (height - height // 8 - block.shape[0])
    left = number * 5 % (width - block.shape[1])
    rgb[top : top + block.shape[0], left : left + block.shape[1]] = block
    for bit in range(_BAR_CODE_BITS):
        is_set = number >> (_BAR_CODE_BITS - 1 - bit) & 1
        rgb[: height // 8, bit * width // _BAR_CODE_BITS : (bit + 1) * width // _BAR_CODE_BITS] = 235 if is_set else 16
    return rgb.astype(np.uint8)


#: By the largest number of pixels: at most about 12 MB of small pictures, and as much of larger ones.
_PAINT_ONCE = {
    8_000: functools.lru_cache(maxsize=640)(_paint_picture),
    80_000: functools.lru_cache(maxsize=48)(_paint_picture),
}


def paint_fade(number: int, width: int, height: int) -> NDArray[np.uint8]:
    """As `paint_picture`, getting darker and lighter: what weighted prediction is for."""
    gain = 0.2 + 0.8 * abs(np.cos(number / 6))
    return (paint_picture(number, width, height) * gain).astype(np.uint8)


def _palette(seed: int) -> NDArray[np.uint8]:
    """256 opaque colours as ARGB."""
    colours = np.random.default_rng(seed).integers(0, 256, (256, 4), np.uint8)
    colours[:, 0] = 255
    return colours


def x264(extra: str = "", **options: str) -> dict[str, str]:
    """Options of libx264 for GOPs of 12 with 3 B pictures at a time; ``extra`` for its own syntax."""
    # No mbtree: with pictures this small it reads uninitialised memory, and files would not be the same every time.
    fixed = {"preset": "veryfast", "mbtree": "0", "sc_threshold": "0"}
    return {**fixed, "g": "12", "bf": "3", "x264-params": extra, **options}


def drawn_frames(spec: ClipSpec) -> Iterator[Any]:
    """The pictures of a clip as frames for its encoder."""
    reformatter = VideoReformatter()
    time_base = spec.time_base or Fraction(1, spec.rate)
    for number in range(spec.num_frames):
        rgb = (spec.paint or paint_picture)(number, *spec.size)
        if spec.pix_fmt == "pal8":  # to which swscale does not convert
            palette = _palette(number // spec.pictures_per_palette if spec.pictures_per_palette else 0)
            frame = av.VideoFrame.from_ndarray((rgb[..., 1], palette), format="pal8")
        else:
            frame = av.VideoFrame.from_ndarray(rgb, format="rgb24")
            frame = reformatter.reformat(frame, format=spec.pix_fmt, threads=1)
        frame.pts = number if spec.pts is None else spec.pts[number]
        frame.time_base = time_base
        frame.pict_type = 0  # else encoders take the type of the source picture
        yield frame


def prepare_encoder(target: Any, spec: ClipSpec) -> None:
    """Set up a video stream, or a codec context, as ``spec`` says."""
    target.width, target.height = spec.size
    target.pix_fmt = spec.pix_fmt
    context = getattr(target, "codec_context", target)
    context.time_base = spec.time_base or Fraction(1, spec.rate)
    context.thread_count = 1
    if spec.configure is not None:
        spec.configure(target)


def encode(target: Any, spec: ClipSpec, frames: Iterable[Any] | None = None) -> Packets:
    """All packets of a clip, from a stream or a codec context."""
    packets: Packets = []
    for frame in drawn_frames(spec) if frames is None else frames:
        frame.colorspace, frame.color_range = _colour(target)
        packets += target.encode(frame)
    packets += target.encode(None)
    return packets if spec.rewrite is None else spec.rewrite(packets)


def _colour(target: Any) -> tuple[int, int]:
    context = getattr(target, "codec_context", target)
    return context.colorspace, context.color_range


def encode_alone(spec: ClipSpec) -> Packets:
    """Return the packets of a clip from a separate encoder, with parameter sets in the stream."""
    context: Any = av.CodecContext.create(spec.codec, "w")
    context.options = dict(spec.options)
    prepare_encoder(context, spec)
    context.framerate = Fraction(spec.rate)
    return encode(context, spec)


def add_stream(container: Any, spec: ClipSpec) -> Any:
    stream = container.add_stream(spec.codec, rate=spec.rate, options=dict(spec.options))
    prepare_encoder(stream, spec)
    return stream


def mux_in_order(container: Any, packets: Packets) -> None:
    """Write packets of several streams in the order of their decoding times."""
    container.mux(sorted(packets, key=lambda p: p.dts * p.time_base))


def assign(packets: Iterable[Any], stream: Any) -> Packets:
    """Make packets those of a stream, and return them."""
    packets = list(packets)
    for packet in packets:
        packet.stream = stream
    return packets


def copy_stream(stream: Any, output: Any) -> Packets:
    """Add a copy of a stream of an open file to an output, and return its packets, which are not yet written."""
    copy = output.add_stream_from_template(stream)
    return assign((packet for packet in stream.container.demux(stream) if packet.size), copy)


def remux(
    source: Path,
    target: Path,
    *,
    keep: Callable[[Any], bool] = lambda packet: True,
    metadata: Mapping[str, str] = MappingProxyType({}),
    degrees: float = 0,
    **options: str,
) -> Path:
    """Copy packets of a video to another container; return ``target``.

    ``metadata`` and the rotation by ``degrees`` are added to the stream; ``options`` are those of the muxer.
    """
    with av.open(str(source)) as read, av.open(str(target), "w", options=options) as written:
        packets = copy_stream(read.streams.video[0], written)
        stream = packets[0].stream
        stream.metadata.update(metadata)
        if degrees:
            stream.set_display_rotation(degrees)
        written.mux(list(filter(keep, packets)))
    return target


def subtitle_packets(text: str, output: Any) -> Packets:
    """The packets of a subtitle file, in a new stream."""
    with av.open(io.BytesIO(text.encode())) as source:
        return copy_stream(source.streams[0], output)


def open_output(spec: Any, target: Path | io.IOBase) -> Any:
    """Open the file of a `ClipSpec`, or of a `SoundSpec`, for writing."""
    place = str(target) if isinstance(target, Path) else target
    # bitexact: no random identifiers, no dates.
    return av.open(place, "w", format=spec.container, options={"fflags": "bitexact", **spec.muxer_options})


def write_clip(spec: ClipSpec, path: Path) -> Path:
    """Write a clip of one video stream, and return its path."""
    with open_output(spec, path) as output:
        stream = add_stream(output, spec)
        packets = _encode_once(stream, replace(spec, special="", rewrite=None, patch=None))
        output.mux(assign(packets if spec.rewrite is None else spec.rewrite(packets), stream))
    if spec.patch is not None:
        path.write_bytes(spec.patch(path.read_bytes()))
    return path


# The last clip that was encoded: clips that differ only in their damage are written one after the other.
_last: list[tuple[ClipSpec, Packets]] = []


def _encode_once(stream: Any, spec: ClipSpec) -> Packets:
    # The encoder of AV1 also gives the muxer of MP4 what is not in its packets.
    if spec.codec == "libsvtav1" or not _last or _last[0][0] != spec:
        packets = encode(stream, spec)
        _last[:] = [(spec, [with_data(packet, bytes(packet)) for packet in packets])]
        return packets
    return [with_data(packet, bytes(packet)) for packet in _last[0][1]]


class Pipe(io.RawIOBase):
    """An output that cannot seek, so that muxers can fill in neither durations nor indices afterwards."""

    def __init__(self) -> None:
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.data += bytes(data)
        return len(data)


def set_timestamps(time_of: Callable[[int], int]) -> Callable[[Packets], Packets]:
    """A ``rewrite`` that maps every pts and dts."""

    def rewrite(packets: Packets) -> Packets:
        for packet in packets:
            packet.pts, packet.dts = time_of(packet.pts), time_of(packet.dts)
        return packets

    return rewrite
