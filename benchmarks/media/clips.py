"""The measured videos: described, encoded once with PyAV, and stored in a folder under the description's hash.

::

    Encoded   lavfi graphs ──► pictures ──► encoder ──► file
    Joined    files of one kind ──► their packets, one file after the other, several times over ──► file

Joining makes long files without encoding them. The parts begin with closed GOPs, so that decoders do the same work as
in a file encoded in one go.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

# Changed when the way of encoding changes, so that files of older versions are not taken for new ones.
_RECIPE = 2

_QUICK_SIZE = (64, 48)
# Size of the picture that a camera pans over, and its size in small clips.
_DETAILED, _SMALL = "1920x1080", "480x270"
_QUICK_SECONDS = 1
_SOUND_RATE = 44_100


@dataclass(frozen=True)
class Encoded:
    """A clip of one run of an encoder.

    Attributes:
        name: Name in reports, unique within a suite.
        scenes: lavfi graphs with ``{w}``, ``{h}`` and ``{r}`` for width, height and rate, and with ``{detail}`` for the
            size of a detailed picture; each has an equal share of the clip.
        size: (width, height).
        rate: Frames per second.
        seconds: Length.
        codec: Name of the encoder.
        options: Encoder options other than the defaults.
        extension: File extension, which selects the container.
        has_variable_rate: Whether frames are shown for 1 to 4 ticks of ``rate`` in turn instead of one.
        has_sound: Whether a stereo AAC stream is interleaved.
    """

    name: str
    scenes: tuple[str, ...]
    size: tuple[int, int]
    rate: Fraction
    seconds: float
    codec: str = "libx264"
    options: tuple[tuple[str, str], ...] = ()
    extension: str = "mp4"
    has_variable_rate: bool = False
    has_sound: bool = False

    @property
    def num_frames(self) -> int:
        return max(1, round(self.seconds * self.rate))

    @property
    def description(self) -> str:
        """One line for reports."""
        options = " ".join(f"{key}={value}" for key, value in self.options) or "defaults"
        timing = "variable, up to " if self.has_variable_rate else ""
        fps = f"{float(self.rate):.4g}"
        width, height = self.size
        sound = ", with AAC" if self.has_sound else ""
        return f"{width}x{height}, {timing}{fps} fps, {self.num_frames} frames, {self.codec} ({options}){sound}"


@dataclass(frozen=True)
class Joined:
    """A clip made of the packets of other clips.

    Attributes:
        name: Name in reports, unique within a suite.
        parts: Clips of the same size, rate and encoder settings.
        times: How many times all parts are written.
        extension: File extension, which selects the container.
    """

    name: str
    parts: tuple[Encoded, ...]
    times: int
    extension: str = "mp4"

    @property
    def num_frames(self) -> int:
        return self.times * sum(part.num_frames for part in self.parts)

    @property
    def description(self) -> str:
        """One line for reports."""
        parts = "; ".join(dict.fromkeys(part.description for part in self.parts))
        count = f"{len(self.parts)} such parts" if len(self.parts) > 1 else "such a part"
        return f"{self.extension}, {self.num_frames} frames: the packets of {count}, {self.times} times over ({parts})"


Clip = Encoded | Joined


def mandelbrot(rate: str = "", filters: str = "", *, begin_seconds: int = 0) -> str:
    """The zoom of FFmpeg's ``mandelbrot`` source as a lavfi graph.

    Args:
        rate: Pictures per second; the source's default is 25.
        filters: Filters appended to the graph.
        begin_seconds: Where in the zoom to begin, at the default rate.
    """
    # The source's own law of zooming: from 3 to 0.3 within 400 pictures.
    begin_scale = 3 * 0.1 ** (begin_seconds * 25 / 400)
    options = [f"r={rate}"] if rate else []
    if begin_seconds:
        options += [f"start_scale={begin_scale:.12g}", f"end_scale={begin_scale / 10:.12g}"]
    return ":".join(["mandelbrot=s={w}x{h}", *options]) + filters


def film(num_scenes: int) -> tuple[str, ...]:
    """Return scenes like an edited film: a camera pans over a detailed picture, with grain, and cuts between scenes.

    Every other scene is a zoom.
    """
    return tuple(_pan(number) if number % 2 == 0 else _zoom(number) for number in range(num_scenes))


def _pan(number: int) -> str:
    scale = 0.4 * 0.6**number
    return (
        f"mandelbrot=s={{detail}}:r={{r}}:start_scale={scale:.6g},trim=end_frame=1,loop=loop=-1:size=1,"
        "setpts=N/({r}*TB),scale=2*{w}:2*{h},"
        f"crop={{w}}:{{h}}:x='(0.5+0.4*sin(t/{2 + number % 5}))*{{w}}':y='(0.5+0.4*cos(t/{3 + number % 4}))*{{h}}',"
        f"noise=alls=4:allf=t:all_seed={number}"
    )


def _zoom(number: int) -> str:
    scale = 2 * 0.7**number
    return (
        f"mandelbrot=s={{w}}x{{h}}:r={{r}}:start_scale={scale:.6g}:end_scale={scale / 10:.6g},"
        f"noise=alls=4:allf=t:all_seed={number}"
    )


def kinetics_like(count: int) -> tuple[Encoded, ...]:
    """Return up to 20 different clips of 10 s with sound, of the size and codec of many copies of Kinetics."""
    return tuple(
        Encoded(f"Kinetics-like {i}", film(22)[i : i + 2], (340, 256), Fraction(30), 10, has_sound=True)
        for i in range(count)
    )


def something_like(count: int) -> tuple[Encoded, ...]:
    """Return up to 20 different clips of 4 s, of the size and codec of Something-Something v2."""
    vp9 = (("deadline", "realtime"), ("cpu-used", "6"), ("crf", "32"), ("b", "0"))
    return tuple(
        Encoded(f"SSv2-like {i}", film(20)[i : i + 1], (427, 240), Fraction(12), 4, "libvpx-vp9", vp9, "webm")
        for i in range(count)
    )


def quick(clip: Clip) -> Clip:
    """Return the same kind of clip, so small and short that a whole suite takes seconds."""
    if isinstance(clip, Joined):
        parts = tuple(_quick_encoded(part) for part in clip.parts[:2])
        return replace(clip, parts=parts, times=min(clip.times, 2))
    return _quick_encoded(clip)


def _quick_encoded(clip: Encoded) -> Encoded:
    return replace(clip, scenes=clip.scenes[:2], size=_QUICK_SIZE, seconds=_QUICK_SECONDS)


def make_clips(clips: Iterable[Clip], folder: Path) -> dict[str, Path]:
    """Return paths of clips by name; make the missing ones in ``folder``, several at a time."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    wanted = list(clips)
    encoded = [part for clip in wanted for part in (clip.parts if isinstance(clip, Joined) else (clip,))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda clip: _make_once(clip, folder), dict.fromkeys(_nameless(clip) for clip in encoded)))
    return {clip.name: _make_once(_nameless(clip), folder) for clip in wanted}


def _nameless(clip: Any) -> Any:
    """Return the clip without names, which do not affect its bytes."""
    if isinstance(clip, Joined):
        return replace(clip, name="", parts=tuple(_nameless(part) for part in clip.parts))
    return replace(clip, name="")


def _make_once(clip: Clip, folder: Path) -> Path:
    digest = hashlib.sha256(f"{_RECIPE} {av.library_versions} {clip!r}".encode()).hexdigest()
    path = folder / f"{digest[:16]}.{clip.extension}"
    if not path.exists():
        unfinished = path.with_name(f"{path.stem}-{os.getpid()}.unfinished.{clip.extension}")
        if isinstance(clip, Joined):
            _join([_make_once(part, folder) for part in clip.parts], clip, unfinished)
        else:
            _encode(clip, unfinished)
        unfinished.replace(path)
    return path


def _encode(clip: Encoded, path: Path) -> None:
    tick = 1 / clip.rate
    with av.open(str(path), "w") as output:
        stream: Any = output.add_stream(clip.codec, rate=clip.rate, options=dict(clip.options))
        stream.width, stream.height, stream.pix_fmt = *clip.size, "yuv420p"
        stream.codec_context.time_base = tick
        # As the ffmpeg program does. By default, PyAV's threads share frames, and x264 writes a slice for each thread.
        stream.codec_context.thread_count = 0
        stream.codec_context.thread_type = "FRAME"
        add_sound = _sound_track(output) if clip.has_sound else lambda seconds: None
        pts = 0
        for number, frame in enumerate(_pictures(clip)):
            frame.pts, frame.time_base = pts, tick
            frame.pict_type = 0  # left to the encoder
            pts += 1 + number % 4 if clip.has_variable_rate else 1
            output.mux(stream.encode(frame))
            add_sound(float((number + 1) * tick))
        output.mux(stream.encode(None))
        add_sound(None)


def _sound_track(output: Any) -> Callable[[float | None], None]:
    """Return a function that adds tones and noise up to a time, or ends the audio for ``None``."""
    stream: Any = output.add_stream("aac", rate=_SOUND_RATE)
    stream.bit_rate = 128_000
    chance = np.random.default_rng(0)
    num_samples = 0

    def add(seconds: float | None) -> None:
        nonlocal num_samples
        while seconds is not None and num_samples < seconds * _SOUND_RATE:
            times = np.arange(num_samples, num_samples + 1024) / _SOUND_RATE
            tones = [np.sin(2 * np.pi * hertz * times) for hertz in (220, 330)]
            samples = 0.2 * np.stack(tones) + 0.02 * chance.standard_normal((2, 1024))
            frame = av.AudioFrame.from_ndarray(samples.astype(np.float32), "fltp", "stereo")
            frame.sample_rate, frame.pts = _SOUND_RATE, num_samples
            output.mux(stream.encode(frame))
            num_samples += 1024
        if seconds is None:
            output.mux(stream.encode(None))

    return add


def _pictures(clip: Encoded) -> Iterator[Any]:
    width, height = clip.size
    shares = [clip.num_frames * i // len(clip.scenes) for i in range(len(clip.scenes) + 1)]
    detail = _DETAILED if width > 160 else _SMALL
    for scene, begin, end in zip(clip.scenes, shares[:-1], shares[1:], strict=True):
        graph = scene.format(w=width, h=height, r=str(clip.rate), detail=detail) + ",format=yuv420p"
        with av.open(graph, format="lavfi") as container:
            frames = container.decode(video=0)
            for _ in range(end - begin):
                yield next(frames)


def _join(paths: list[Path], clip: Joined, path: Path) -> None:
    with av.open(str(path), "w") as output, av.open(str(paths[0])) as first:
        stream = output.add_stream_from_template(first.streams.video[0])
        begin = Fraction(0)
        for part, part_path in [*zip(clip.parts, paths, strict=True)] * clip.times:
            with av.open(str(part_path)) as container:
                for packet in container.demux(video=0):
                    if packet.dts is None or packet.pts is None:
                        continue  # the end of the file
                    shift = round(begin / packet.time_base)
                    packet.pts, packet.dts = packet.pts + shift, packet.dts + shift
                    packet.stream = stream
                    output.mux(packet)
            begin += part.num_frames / part.rate
