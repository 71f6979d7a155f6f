"""Write short media files in memory: from packets of other files, and from frames that are encoded without loss."""

from __future__ import annotations

import heapq
import io
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from ...errors import EncodeError
from ..common.pictures import Orientation
from ..containers.boxes import display_matrix
from .encoding_video import WITHOUT_LOG
from .opening import error_text
from .pixels import luminance_data
from .stated_colours import StatedColours

#: Extension of the files of each container. mp4 and mov store times exactly. Their edit lists also hide the audio
#: before the first frame, which decoders need in order to start.
EXTENSIONS = {"mp4": "mp4", "mov": "mov", "matroska": "mkv"}
#: Containers of copied packets, and containers with the encoder of frames, in order of preference.
COPIES = (("mp4", None), ("mov", None), ("matroska", None))
ENCODINGS = (("mp4", "libx264"), ("mp4", "libx264rgb"), ("mp4", "ffv1"), ("matroska", "ffv1"))
_WITH_EDIT_LISTS = frozenset(("mp4", "mov"))

# Options of the lossless encoders. With one thread, the result does not depend on the machine. Without
# B-frames, packets are in the order of frames. A key frame at least every 48 frames keeps random access fast.
_X264 = {"qp": "0", "preset": "veryfast", "bf": "0", "g": "48"}
_ENCODERS = {"libx264": _X264, "libx264rgb": _X264, "ffv1": {"level": "3", "slices": "4", "g": "1"}}
# Interleaved RGB formats. The encoders store RGB as planes.
_PACKED_RGB = frozenset(("rgb24", "bgr24", "rgb0", "bgr0", "0rgb", "0bgr"))
_PLANAR_RGB = "gbrp"
_NOMINAL_RATE = Fraction(30)
_ONE = 1 << 16  # in the fixed point of a display matrix


@dataclass(frozen=True)
class CopiedTrack:
    """Packets of a stream of another file. ``stream`` is PyAV's stream; the packets have their new times."""

    stream: Any
    packets: list[Any]


@dataclass(frozen=True)
class EncodedAudio:
    """Samples, float32 (C, N), that are stored as 32-bit PCM. ``start_seconds`` is the time of the first one."""

    samples: NDArray[np.float32]
    sample_rate: int
    layout: str
    start_seconds: float


@dataclass(frozen=True)
class EncodedTrack:
    """Frames to be encoded. ``frames`` are PyAV's frames; their new times, and ``durations``, are in ``time_base``."""

    frames: Iterable[Any]
    durations: list[int]
    time_base: Fraction
    orientation: Orientation
    pixel_aspect_ratio: Fraction | None


def write_clip(
    video: CopiedTrack | EncodedTrack | None,
    audio: CopiedTrack | EncodedAudio | None,
    container: str,
    encoder: str | None,
) -> bytes:
    """Return a file with a video track and an audio track, or with one of them.

    ``container`` and ``encoder`` are a pair in `COPIES` or `ENCODINGS`. In a container without edit lists, audio
    packets before time 0 are left out.

    Raises `EncodeError` if the container cannot hold a codec, or the encoder cannot store the frames.
    """
    file = io.BytesIO()
    # The option prevents random identifiers and dates, so equal clips give equal files.
    output = av.open(file, "w", format=container, options={"fflags": "+bitexact"})
    timed: Iterable[Any] = ()
    try:
        with output:
            if isinstance(video, EncodedTrack) and encoder is not None:
                frames = iter(video.frames)
                first = next(frames)
                stream = _add_encoder(output, first, video, encoder)
                timed = _encode(stream, first, frames, video.durations)
            elif isinstance(video, CopiedTrack):
                stream = _add_copy(output, video.stream)
                timed = _retarget(stream, video.packets)
            if isinstance(audio, EncodedAudio):
                timed = heapq.merge(timed, _encode_audio(output, audio), key=_seconds)
            elif audio is not None:
                sound = _add_copy(output, audio.stream)
                packets = [p for p in audio.packets if p.pts >= 0 or container in _WITH_EDIT_LISTS]
                timed = heapq.merge(timed, _retarget(sound, packets), key=_seconds)
            for packet in timed:
                output.mux(packet)
    except (av.FFmpegError, ValueError) as error:
        raise EncodeError(f"The clip could not be written as {EXTENSIONS[container]} ({error_text(error)}).") from error
    data = file.getvalue()
    if isinstance(video, EncodedTrack) and video.orientation.turns:
        if container not in _WITH_EDIT_LISTS:
            raise EncodeError(f"A {EXTENSIONS[container]} file cannot store the orientation of the frames.")
        data = _store_orientation(data, video.orientation)
    return data


def _store_orientation(data: bytes, orientation: Orientation) -> bytes:
    """Return an mp4 or mov file whose first track has a display matrix; see `Orientation.from_display_matrix`."""
    file = bytearray(data)
    sign = {False: _ONE, True: -_ONE}
    along_row, along_column = sign[orientation.flipped_horizontally], sign[orientation.flipped_vertically]
    a, b, c, d = (0, along_column, along_row, 0) if orientation.transposed else (along_row, 0, 0, along_column)
    struct.pack_into(">9i", display_matrix(memoryview(file)), 0, a, b, 0, c, d, 0, 0, 0, 1 << 30)
    return bytes(file)


def _add_copy(output: Any, template: Any) -> Any:
    stream = output.add_stream_from_template(template, opaque=True)
    stream.time_base = template.time_base
    return stream


def _encode_audio(output: Any, audio: EncodedAudio) -> Iterator[Any]:
    rate = audio.sample_rate
    stream = output.add_stream("pcm_f32le", rate=rate, layout=audio.layout)
    step = max(1, rate // 10)

    def packets() -> Iterator[Any]:
        for first in range(0, audio.samples.shape[1], step):
            samples = audio.samples[:, first : first + step].T.reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples), format="flt", layout=audio.layout)
            frame.sample_rate, frame.time_base = rate, Fraction(1, rate)
            frame.pts = round(audio.start_seconds * rate) + first
            yield from stream.encode(frame)

    return packets()


def _retarget(stream: Any, packets: Iterable[Any]) -> Iterator[Any]:
    for packet in packets:
        packet.stream = stream
        yield packet


def _seconds(packet: Any) -> Fraction:
    return Fraction((packet.pts if packet.dts is None else packet.dts) * packet.time_base)


def in_storable_format(frame: Any) -> Any:
    """Convert interleaved RGB to planar RGB, which encoders store exactly. Return frames in other formats unchanged."""
    return frame.reformat(format=_PLANAR_RGB) if frame.format.name in _PACKED_RGB else frame


def _add_encoder(output: Any, frame: Any, track: EncodedTrack, name: str) -> Any:
    pixel_format = "rgb24" if name == "libx264rgb" and frame.format.name == _PLANAR_RGB else frame.format.name
    if name not in av.codecs_available:
        raise EncodeError(f"This build of FFmpeg has no encoder {name}.")
    if pixel_format not in [one.name for one in av.Codec(name, "w").video_formats or ()]:
        raise EncodeError(f"{name} does not store frames in the pixel format {frame.format.name}.")
    stream = output.add_stream(name, rate=_NOMINAL_RATE)
    context = stream.codec_context
    stream.time_base = context.time_base = track.time_base
    if track.pixel_aspect_ratio is not None:
        context.sample_aspect_ratio = track.pixel_aspect_ratio
    context.width, context.height, context.pix_fmt = frame.width, frame.height, pixel_format
    StatedColours.read(frame).write(context)
    context.thread_count = 1
    context.options = {**WITHOUT_LOG, **_ENCODERS[name]}
    if name != "ffv1" and (luminance := _x264_luminance_options(frame)):
        context.options |= {"x264-params": luminance}
    return stream


def _x264_luminance_options(picture: Any) -> str:
    """Return options of x264 that store a picture's content light level and mastering display, joined by colons."""
    options = []
    light_level, mastering_display = luminance_data(picture)
    if len(light_level) >= 8:
        options.append("cll={},{}".format(*struct.unpack("=2I", light_level[:8])))
    if len(mastering_display) >= 88 and all(struct.unpack("=2i", mastering_display[80:88])):  # all values are known
        pairs = struct.unpack("=20i", mastering_display[:80])
        values = [Fraction(pairs[i], pairs[i + 1] or 1) for i in range(0, 20, 2)]
        # In units of H.264: chromaticities in 1/50000, luminances in 1/10000 cd/m².
        red, green, blue, white = (
            f"({round(x * 50_000)},{round(y * 50_000)})" for x, y in zip(values[:8:2], values[1:8:2], strict=True)
        )
        lowest, highest = (round(value * 10_000) for value in values[8:])
        options.append(f"mastering-display=G{green}B{blue}R{red}WP{white}L({highest},{lowest})")
    return ":".join(options)


def _encode(stream: Any, first: Any, frames: Iterable[Any], durations: list[int]) -> Iterator[Any]:
    duration_of_next = iter(durations)
    for frame in chain([first], frames, [None]):
        for packet in stream.encode(frame):
            packet.duration = next(duration_of_next)
            yield packet
