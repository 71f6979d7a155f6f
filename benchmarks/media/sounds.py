"""The audio files that `benchmarks.media.audio` measures, encoded once with PyAV, and their plain decodes.

::

    tones, beeps and pink noise (lavfi) ──► encoder ──► file, under the hash of its description
    file ──► every frame in order (PyAV) ──► reference samples for the other libraries
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch

# Changed when the way of encoding changes, so that files of older versions are not taken for new ones.
_RECIPE = 1

#: A beep per second in each channel, a slow tremolo, and a different noise source per channel.
_GRAPH = """
    sine=f=220:b=4:r={r}:d={d},tremolo=f=0.3:d=0.8[a]; sine=f=330:b=5:r={r}:d={d},tremolo=f=0.7:d=0.6[b];
    [a][b]join=inputs=2:channel_layout=stereo,aformat=sample_fmts=fltp[tones];
    anoisesrc=c=pink:r={r}:d={d}:a=0.3:seed=1[c]; anoisesrc=c=pink:r={r}:d={d}:a=0.3:seed=2[d];
    [c][d]join=inputs=2:channel_layout=stereo,aformat=sample_fmts=fltp[noise];
    [tones][noise]amix=inputs=2:normalize=0,atrim=end_sample={n}
"""


@dataclass(frozen=True)
class SoundClip:
    """A stereo file to make.

    Attributes:
        name: Name of the format in reports.
        codec: FFmpeg's encoder.
        extension: File extension, which selects the container.
        rate: Samples per second.
        bit_rate: Bits per second; 0 for formats without a choice.
        seconds: Length.
    """

    name: str
    codec: str
    extension: str
    rate: int
    bit_rate: int = 0
    seconds: int = 0

    @property
    def num_samples(self) -> int:
        return self.seconds * self.rate

    @property
    def description(self) -> str:
        """For reports."""
        return f"{self.name}, {self.seconds} s"


FORMATS = {
    clip.name: clip
    for clip in (
        SoundClip("mp3", "libmp3lame", "mp3", 44_100, 128_000),
        SoundClip("aac", "aac", "m4a", 48_000, 128_000),
        SoundClip("opus", "libopus", "opus", 48_000, 96_000),
        SoundClip("flac", "flac", "flac", 44_100),
        SoundClip("wav", "pcm_s16le", "wav", 44_100),
    )
}


def make_sounds(clips: Iterable[SoundClip], folder: Path) -> dict[SoundClip, Path]:
    """Return the paths of the clips; make the missing ones in ``folder``, several at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = list(clips)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(wanted, pool.map(lambda clip: _make_once(clip, folder), wanted), strict=True))


def _make_once(clip: SoundClip, folder: Path) -> Path:
    digest = hashlib.sha256(f"{_RECIPE} {av.library_versions} {_GRAPH} {clip!r}".encode()).hexdigest()
    path = folder / f"{digest[:16]}.{clip.extension}"
    if not path.exists():
        unfinished = path.with_name(f"{path.stem}-{os.getpid()}.unfinished.{clip.extension}")
        _encode(clip, unfinished)
        unfinished.replace(path)
    return path


def _encode(clip: SoundClip, path: Path) -> None:
    # Some sources only stop at whole blocks, so a second more is generated than is kept.
    graph = "".join(_GRAPH.split()).format(r=clip.rate, d=clip.seconds + 1, n=clip.num_samples)
    with av.open(graph, format="lavfi") as source, av.open(str(path), "w") as output:
        stream: Any = output.add_stream(clip.codec, rate=clip.rate, layout="stereo")
        if clip.bit_rate:
            stream.bit_rate = clip.bit_rate
        for frame in source.decode(audio=0):
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))


def begin_seconds(path: Path) -> float:
    """Return the container's time of the first sample; in an mp3 file it reflects the encoder's delay."""
    with av.open(str(path)) as container:
        return float(next(container.decode(audio=0)).time or 0.0)


def linear_samples(path: Path, clip: SoundClip, spans: Sequence[tuple[int, int]]) -> list[torch.Tensor]:
    """Return spans of samples from a plain decode of the whole file.

    Args:
        path: The file.
        clip: Description of the file: further samples from a decoder are padding of the last packet.
        spans: Pairs of (first sample, exclusive end).

    Returns:
        A float32 tensor of shape (2, samples) for each span.
    """
    found = [torch.zeros(2, last - first) for first, last in spans]
    begin = 0
    with av.open(str(path)) as container:
        for frame in container.decode(audio=0):
            end = min(begin + frame.samples, clip.num_samples)
            touched = [number for number, (first, last) in enumerate(spans) if first < end and begin < last]
            samples = _as_floats(frame) if touched else None
            for number in touched:
                assert samples is not None
                first, last = spans[number]
                low, high = max(first, begin), min(last, end)
                found[number][:, low - first : high - first] = samples[:, low - begin : high - begin]
            begin = end
    if begin < clip.num_samples:
        raise ValueError(f"{path} has {begin} samples instead of {clip.num_samples}.")
    return found


def _as_floats(frame: Any) -> torch.Tensor:
    """Convert planar or packed floats or integers to (channels, samples) in [-1, 1]."""
    values = frame.to_ndarray()
    if not frame.format.is_planar:
        values = values.reshape(-1, len(frame.layout.channels)).T
    scale = 1.0 if values.dtype.kind == "f" else 2.0 ** (8 * values.itemsize - 1)
    return torch.from_numpy((values / scale).astype(np.float32))
