"""The clips of the device's checks: every codec, colour and structure that can differ between a GPU and a CPU."""

from __future__ import annotations

import hashlib
import io
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from .records import NotRun

# Changed when the way of encoding changes, so that files of older versions are not taken for new ones.
_RECIPE = 1
_RATE = 25
_FOUR_LETTERS = {"libx264": "h264", "libx265": "hevc", "libsvtav1": "av1", "libvpx": "vp8", "libvpx-vp9": "vp9"}


@dataclass(frozen=True)
class GpuClip:
    """A clip to be encoded.

    Attributes:
        name: Unique name, also of the file.
        encoder: FFmpeg's encoder.
        pix_fmt: Pixel format.
        options: Encoder options.
        extension: File extension, which selects the container.
        add: Added to the common width and height of the clips.
        size: (width, height) instead of those.
        colour: (matrix, range) by the numbers of ITU-T H.273 and of FFmpeg.
        pts: In milliseconds, instead of a constant rate.
        rotation: In degrees, in the container.
        num_cut: How many frames an edit list cuts off at the beginning.
        then: Pixel format of a second half of equal length, with its own parameter sets.
    """

    name: str
    encoder: str = "libx264"
    pix_fmt: str = "yuv420p"
    options: dict[str, str] = field(default_factory=dict)
    extension: str = "mp4"
    add: tuple[int, int] = (0, 0)
    size: tuple[int, int] | None = None
    colour: tuple[int, int] = (2, 0)
    pts: tuple[int, ...] = ()
    rotation: float = 0
    num_cut: int = 0
    then: str = ""

    @property
    def codec(self) -> str:
        """FFmpeg's name of the format."""
        return _FOUR_LETTERS.get(self.encoder, self.encoder.removesuffix("video"))

    @property
    def bits(self) -> int:
        return 10 if "10" in self.pix_fmt else 8


def _x264(extra: str = "", **options: str) -> dict[str, str]:
    # No mbtree: with frames this small it reads uninitialised memory, so that files would differ every time.
    fixed = {"preset": "veryfast", "mbtree": "0", "sc_threshold": "0"}
    return {**fixed, "g": "12", "bf": "3", "x264-params": extra, **options}


def _x265(extra: str = "") -> dict[str, str]:
    fixed = "log-level=none:keyint=12:min-keyint=12:scenecut=0:bframes=3"
    return {"preset": "ultrafast", "x265-params": f"{fixed}:{extra}".rstrip(":")}


_VPX = {"deadline": "realtime", "cpu-used": "8", "b": "600k", "g": "12"}
_SVT = {"preset": "12", "g": "16"}
_MPEG = {"g": "12", "bf": "2", "b": "1500k"}
_MATRICES = {"BT.601": 6, "BT.709": 1, "BT.2020": 9}
_RANGES = {"limited": 1, "full": 2}


def _colours() -> list[GpuClip]:
    return [
        GpuClip(f"{matrix} {range_} {bits} bit", *codec, colour=(_MATRICES[matrix], _RANGES[range_]))
        for bits, codec in (
            (8, ("libx264", "yuv420p", _x264(bf="0"))),
            (10, ("libx265", "yuv420p10le", _x265())),
        )
        for matrix in _MATRICES
        for range_ in _RANGES
    ]


#: Clips that a GPU must decode like a CPU, if it supports the codec.
CLIPS: tuple[GpuClip, ...] = (
    GpuClip("h264", options=_x264()),
    GpuClip("hevc", "libx265", options=_x265("open-gop=0")),
    GpuClip("hevc 10 bit", "libx265", "yuv420p10le", _x265()),
    GpuClip("vp9", "libvpx-vp9", options=_VPX, extension="webm"),
    GpuClip("vp9 10 bit", "libvpx-vp9", "yuv420p10le", _VPX, "webm"),
    GpuClip("av1", "libsvtav1", options=_SVT),
    GpuClip("av1 10 bit", "libsvtav1", "yuv420p10le", _SVT),
    GpuClip("mpeg4", "mpeg4", options=_MPEG),
    GpuClip("mpeg2", "mpeg2video", options=_MPEG, extension="mkv"),
    GpuClip("vp8", "libvpx", options=_VPX, extension="webm"),
    *_colours(),
    GpuClip("odd size vp9", "libvpx-vp9", options=_VPX, extension="webm", add=(1, 1)),
    GpuClip("odd size av1", "libsvtav1", options=_SVT, add=(3, 1)),
    GpuClip("odd size mpeg4", "mpeg4", options=_MPEG, add=(1, 3)),
    GpuClip("cropped h264", options=_x264(), add=(6, 10)),
    GpuClip("cropped hevc", "libx265", options=_x265(), add=(2, 6)),
    GpuClip("deep B-frames h264", options=_x264("b-pyramid=normal:b-adapt=0", bf="7", g="30")),
    GpuClip("open GOP h264", options=_x264("open-gop=1:b-adapt=0")),
    GpuClip("open GOP hevc", "libx265", options=_x265("open-gop=1:b-adapt=0")),
    GpuClip("variable rate", options=_x264(), pts=(7, 250, 40, 33, 90)),
    GpuClip("edit list", options=_x264(bf="2"), num_cut=5),
    GpuClip("rotated", options=_x264(), rotation=90),
)

#: Streams that NVDEC, or its path to torch, refuses, so that the CPU decodes.
REFUSED: tuple[GpuClip, ...] = (
    GpuClip("h264 10 bit", pix_fmt="yuv420p10le", options=_x264()),
    GpuClip("h264 4:2:2", pix_fmt="yuv422p", options=_x264()),
    GpuClip("h264 4:4:4", pix_fmt="yuv444p", options=_x264()),
    GpuClip("tiny hevc", "libx265", options=_x265(), size=(64, 64)),
    # According to the header NVDEC decodes it; it fails midway.
    GpuClip("h264 4:2:2 from the middle on", options=_x264(), extension="ts", then="yuv422p"),
)


def make_clip(clip: GpuClip, folder: Path, size: tuple[int, int], num_frames: int) -> Path:
    """Return the file of a clip; encode it if it is missing.

    Args:
        clip: The clip.
        folder: Output folder.
        size: (width, height) of clips without their own size.
        num_frames: Number of encoded frames.

    Raises:
        NotRun: if the encoder is missing, or refuses the clip.
    """
    os.environ.setdefault("SVT_LOG", "0")  # silence the AV1 encoder
    width, height = clip.size or (size[0] + clip.add[0], size[1] + clip.add[1])
    stem = "".join(letter if letter.isalnum() else "-" for letter in clip.name)
    digest = hashlib.sha256(
        f"{_RECIPE} {av.library_versions} {clip!r} {width} {height} {num_frames}".encode()
    ).hexdigest()
    path = folder / f"check-{stem}-{digest[:12]}.{clip.extension}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        draft = path.with_stem(f"{path.stem}-{os.getpid()}")
        try:
            _write(replace(clip, size=(width, height)), draft, num_frames)
        except (av.FFmpegError, ValueError, OSError, struct.error) as error:
            draft.unlink(missing_ok=True)
            raise NotRun(f"{clip.encoder} of this PyAV does not encode it: {error}") from None
        draft.replace(path)
    return path


def _write(clip: GpuClip, path: Path, num_frames: int) -> None:
    if clip.then:
        _write_joined([replace(clip, then=""), replace(clip, then="", pix_fmt=clip.then)], path, num_frames)
        return
    with av.open(str(path), "w") as output:
        _encode(clip, output, num_frames)
    if clip.num_cut:
        path.write_bytes(_with_later_edit(path.read_bytes(), clip.num_cut, num_frames))


def _write_joined(clips: Sequence[GpuClip], path: Path, num_frames: int) -> None:
    """Concatenate packets of clips with in-band parameter sets; the container only describes the first clip."""
    parts = [io.BytesIO() for _ in clips]
    for clip, part in zip(clips, parts, strict=True):
        with av.open(part, "w", format="mpegts") as output:
            _encode(clip, output, num_frames)
        part.seek(0)
    with av.open(str(path), "w") as output, av.open(parts[0], "r") as first:
        stream = output.add_stream_from_template(first.streams.video[0])
        for number, part in enumerate(parts):
            part.seek(0)
            with av.open(part, "r") as source:
                for packet in source.demux(video=0):
                    if packet.pts is not None and packet.dts is not None:
                        shift = round(Fraction(number * num_frames, _RATE) / packet.time_base)
                        packet.pts, packet.dts = packet.pts + shift, packet.dts + shift
                        packet.stream = stream
                        output.mux(packet)


def _with_later_edit(data: bytes, num_cut: int, num_frames: int) -> bytes:
    """Write an mp4 file whose edit list (ISO/IEC 14496-12, 8.6.6) hides the first frames, which are still needed."""
    with av.open(io.BytesIO(data), "r") as container:
        time_base = container.streams.video[0].time_base
    if time_base is None:
        raise ValueError("it has no time base")
    at = data.index(b"elst") + 12  # after type, version, flags and number of entries
    _, media_time = struct.unpack(">Ii", data[at : at + 8])
    ticks = round(Fraction(num_cut, _RATE) / time_base)
    entry = struct.pack(">Ii", 1000 * (num_frames - num_cut) // _RATE, media_time + ticks)
    return data[:at] + entry + data[at + 8 :]


def _encode(clip: GpuClip, output: Any, num_frames: int) -> None:
    assert clip.size is not None
    stream: Any = output.add_stream(clip.encoder, rate=_RATE, options=dict(clip.options))
    stream.width, stream.height = clip.size
    if clip.pix_fmt not in [known.name for known in stream.codec_context.codec.video_formats or ()]:
        raise ValueError(f"it has no {clip.pix_fmt}")
    stream.pix_fmt = clip.pix_fmt
    context = stream.codec_context
    time_base = Fraction(1, 1000 if clip.pts else _RATE)
    context.time_base, context.colorspace, context.color_range = time_base, *clip.colour
    if clip.rotation:
        stream.set_display_rotation(clip.rotation)
    for pts, frame in zip(_times(clip.pts, num_frames), _frames(clip, num_frames), strict=True):
        frame.pts, frame.time_base, frame.pict_type = pts, time_base, 0
        output.mux(stream.encode(frame))
    output.mux(stream.encode(None))


def _times(steps: Sequence[int], num_frames: int) -> list[int]:
    if not steps:
        return list(range(num_frames))
    return [sum(steps[k % len(steps)] for k in range(number)) for number in range(num_frames)]


def _frames(clip: GpuClip, num_frames: int) -> Any:
    reformatter = VideoReformatter()
    matrix, range_ = clip.colour
    assert clip.size is not None
    for number in range(num_frames):
        frame = av.VideoFrame.from_ndarray(paint(number, *clip.size), format="rgb24")
        tags: dict[str, Any] = {} if matrix == 2 else {"dst_colorspace": matrix, "dst_color_range": range_}
        frame = reformatter.reformat(frame, format=clip.pix_fmt, threads=1, **tags)
        frame.colorspace, frame.color_range = clip.colour
        yield frame


def paint(number: int, width: int, height: int) -> NDArray[np.uint8]:
    """Return frame ``number`` as RGB (height, width, 3): moving gradients, a sharp block of colour, one of noise."""
    y, x = np.mgrid[:height, :width]
    rgb = np.stack([255 * x / width + 3 * number, 255 * y / height + 2 * number, x + y + 5 * number], axis=-1) % 256
    rows, columns = max(2, height // 4), max(2, width // 4)
    top, left = (3 * number) % (height - rows), (5 * number) % (width - columns)
    rgb[top : top + rows, left : left + columns] = (250, 10 + number, 20)
    noise = np.random.default_rng(number).integers(0, 256, (rows, columns, 3))
    rgb[height - rows - top // 2 :, width - columns - left // 2 :][:rows, :columns] = noise
    return rgb.astype(np.uint8)


def open_damaged(path: Path) -> bytes:
    """Return an MP4 file with noise in 400 bytes of frames in the middle, and an intact header."""
    data = bytearray(path.read_bytes())
    begin = data.index(b"mdat") + 4
    end = data.find(b"moov", begin)
    end = len(data) if end < 0 else end - 4
    at = (begin + end) // 2
    stop = min(end, at + 400)
    data[at:stop] = np.random.default_rng(0).integers(0, 256, stop - at, np.uint8).tobytes()
    return bytes(data)
