"""Films whose video, audio and captions show the time: flashes, beeps and captions at the same moments.

Every picture has its number as a bar code. In a flash the lower part of the picture is white, for as long as a beep
lasts and a caption says so. A beep is a sum of tones by a formula: it is known at any rate, and so unlike itself a
little later that its place is found to a sample in sound that went through any codec.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
import torch
from numpy.typing import NDArray

from media_writing import assign, mux_in_order, subtitle_packets
from mediatensor import FrameBatch

HEIGHT, WIDTH = 48, 80
_BITS = 10
_FLASH_ROWS = slice(16, HEIGHT)


@dataclass(frozen=True)
class Film:
    """A film to be written."""

    extension: str  # decides about the container
    video_codec: str = "libx264"
    audio_codec: str = "aac"  # "" for no sound
    rate: int = 48_000
    fps: Fraction = Fraction(25)  # nominal
    frame_times: Sequence[Fraction] = ()  # begin of each frame in seconds; by default `number / fps`, for 3 seconds
    audio_begin_seconds: float = 0.0
    audio_end_seconds: float = 3.2
    flashes: Sequence[tuple[int, int]] = ((20, 25), (50, 54))  # the first frame of each, and the first one after it
    options: dict[str, str] = field(default_factory=dict)  # of the video encoder

    @property
    def times(self) -> list[Fraction]:
        return list(self.frame_times) or [number / self.fps for number in range(int(3 * self.fps))]

    @property
    def spans(self) -> list[tuple[Fraction, Fraction]]:
        """The begin and the end of each flash in seconds."""
        return [(self.times[first], self.times[stop]) for first, stop in self.flashes]

    def beep(self, number: int, rate: int) -> NDArray[np.float32]:
        """A beep at any rate, from its first moment on."""
        start, end = self.spans[number]
        return tones(number, np.arange(int((end - start) * rate)) / rate)

    def captions(self) -> list[dict[str, Any]]:
        """A caption of each flash, as mappings."""
        return [
            {"start": float(start), "end": float(end), "text": f"flash {number}"}
            for number, (start, end) in enumerate(self.spans)
        ]

    def srt(self, begin: float = 0) -> str:
        """The captions as SubRip, with times that count from ``begin``."""
        return "\n".join(
            f"{number + 1}\n{_clock(start - begin)} --> {_clock(end - begin)}\nflash {number}\n"
            for number, (start, end) in enumerate(self.spans)
        )


def tones(number: int, seconds: NDArray[Any]) -> NDArray[np.float32]:
    """Return the samples of a beep at times since its start."""
    draw = np.random.default_rng(number)
    pitches, phases = draw.uniform(300, 4000, 40), draw.uniform(0, 2 * np.pi, 40)
    waves = np.sin(2 * np.pi * np.outer(seconds, pitches) + phases)
    return (waves.sum(axis=1) / 16).clip(-1, 1).astype(np.float32)


def picture_of(number: int, *, is_flash: bool) -> NDArray[np.uint8]:
    rgb = np.full((HEIGHT, WIDTH, 3), 255 if is_flash else 40, np.uint8)
    for bit in range(_BITS):
        is_set = number >> (_BITS - 1 - bit) & 1
        rgb[:16, bit * WIDTH // _BITS : (bit + 1) * WIDTH // _BITS] = 235 if is_set else 16
    return rgb


def write(film: Film, path: Path, subtitles: str | None = None) -> Path:
    """Write a film; with ``subtitles``, the text of a subtitle file, with a stream of them."""
    with av.open(str(path), "w", options={"fflags": "bitexact"}) as output:
        packets = _pictures(film, output)
        if film.audio_codec:
            packets += _sound(film, output)
        if subtitles is not None:
            packets += subtitle_packets(subtitles, output)
        mux_in_order(output, packets)
    return path


def _pictures(film: Film, output: Any) -> list[Any]:
    options = {"preset": "ultrafast", "bf": "2", "g": "12", "threads": "1"} if film.video_codec == "libx264" else {}
    stream = output.add_stream(film.video_codec, rate=film.fps, options={**options, **film.options})
    stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
    tick = Fraction(1, 90_000)
    stream.codec_context.time_base = tick
    in_flash = {number for first, stop in film.flashes for number in range(first, stop)}
    packets = []
    for number, seconds in enumerate(film.times):
        frame = av.VideoFrame.from_ndarray(picture_of(number, is_flash=number in in_flash), format="rgb24")
        frame.pts, frame.time_base, frame.pict_type = round(seconds / tick), tick, 0
        packets += stream.encode(frame)
    return assign([*packets, *stream.encode(None)], stream)


def _sound(film: Film, output: Any) -> list[Any]:
    stream = output.add_stream(film.audio_codec, rate=film.rate, layout="mono")
    first, stop = (round(seconds * film.rate) for seconds in (film.audio_begin_seconds, film.audio_end_seconds))
    wave = np.zeros(stop, np.float32)
    times = np.arange(stop) / film.rate
    for number, (start, end) in enumerate(film.spans):
        heard = (times >= float(start)) & (times < float(end))
        wave[heard] = tones(number, times[heard] - float(start))
    resampler = av.AudioResampler(format=stream.codec_context.format, layout="mono", rate=film.rate)
    packets = []
    for begin in range(first, stop, 1024):
        piece = wave[begin : min(stop, begin + 1024)]
        frame = av.AudioFrame.from_ndarray(piece[None], format="fltp", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = film.rate, begin, Fraction(1, film.rate)
        for one in resampler.resample(frame):
            packets += stream.encode(one)
    return assign([*packets, *stream.encode(None)], stream)


def _clock(seconds: Fraction) -> str:
    """Rounded down, as subtitles are written for frames."""
    total = int(1000 * seconds)
    return f"00:{total // 60_000:02}:{total // 1000 % 60:02},{total % 1000:03}"


# Contents of a row


def numbers_of(frames: FrameBatch) -> list[int]:
    """The numbers that pictures have as bar codes."""
    columns = [(2 * bit + 1) * WIDTH // (2 * _BITS) for bit in range(_BITS)]
    bits = frames.data[..., 8, columns].float().mean(dim=-2) > 128
    weights = 2 ** torch.arange(_BITS - 1, -1, -1)
    return (bits * weights).sum(dim=-1).flatten().tolist()


def flashing(frames: FrameBatch) -> list[int]:
    """Which frames are in a flash, by their pictures."""
    light = frames.data[..., _FLASH_ROWS, :].float().mean(dim=(-3, -2, -1)) > 128
    return light.nonzero().flatten().tolist()


def place_of(beep: NDArray[np.float32], wave: NDArray[np.float32]) -> float | None:
    """At which sample a beep begins, to a fraction of one; ``None`` if it is not there as a whole."""
    size = len(wave) + len(beep)
    found = np.fft.irfft(np.fft.rfft(wave, size) * np.conj(np.fft.rfft(beep, size)), size)[: len(wave)]
    best = int(found.argmax())
    power = np.linalg.norm(beep) * np.linalg.norm(wave[best : best + len(beep)])
    if best + len(beep) > len(wave) or found[best] < 0.8 * power or not 0 < best < len(wave) - 1:
        return None
    before, here, behind = found[best - 1 : best + 2].tolist()
    return best + (before - behind) / (2 * (before - 2 * here + behind))


class Truth(NamedTuple):
    """What FFmpeg finds in a film from its beginning to its end, in seconds."""

    flashes: list[tuple[float, float]]  # begin and end of each
    beeps: list[float | None]  # when each begins; `None` if the sound has not all of it
    sound: tuple[float, float]  # begin and end
    times: list[float]  # when each picture begins, by its bar code


def truth_of(film: Film, path: Path) -> Truth:
    """Decode a film with FFmpeg, frame by frame, without the library."""
    with av.open(str(path)) as file:
        times = sorted(float(frame.pts * frame.time_base) for frame in file.decode(video=0))
    flashes = [(times[first], times[stop]) for first, stop in film.flashes]
    with av.open(str(path)) as file:
        frames = list(file.decode(audio=0))
    rate = frames[0].sample_rate
    begin = float(frames[0].pts * frames[0].time_base)
    resampler = av.AudioResampler(format="fltp", layout="mono", rate=rate)
    wave = np.concatenate([one.to_ndarray()[0] for frame in frames for one in resampler.resample(frame)])
    places = [place_of(film.beep(number, rate), wave) for number in range(len(film.flashes))]
    beeps = [None if place is None else begin + place / rate for place in places]
    return Truth(flashes, beeps, (begin, begin + len(wave) / rate), times)
