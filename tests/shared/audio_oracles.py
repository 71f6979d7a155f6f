"""The samples of a file, found without mediatensor: a plain decode with PyAV, and the ``ffmpeg`` program."""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from media_audio_writing import as_float
from oracles import opened_stream, readable_packets

__all__ = ["LinearSound", "ffmpeg_samples", "linear_decode_samples"]

Sound = NDArray[np.float32]
# Without it FFmpeg's AC-3 decoder draws the noise of empty bands from a generator that runs on from frame to frame.
_DECODER_OPTIONS = {"ac3": {"cons_noisegen": "1"}, "eac3": {"cons_noisegen": "1"}}
_DTYPES: dict[str, Any] = {"u8": np.uint8, "s16": np.int16, "s32": np.int32, "flt": np.float32, "dbl": np.float64}


@dataclass(frozen=True)
class LinearSound:
    """A stream of sound, decoded from its first packet to its last, in one thread, without a seek.

    The data are float32 (channels, samples): the frames as the codec gave them, one after the other.
    """

    data: Sound
    rate: int
    begin_seconds: float
    frame_starts: list[int]  # the number of the first sample of each
    frame_seconds: list[float | None]
    num_failed: int  # packets that the codec refused

    @property
    def num_samples(self) -> int:
        return int(self.data.shape[1])


def linear_decode_samples(path: Path, stream_index: int | None = None) -> LinearSound:
    """Decode a stream of sound plainly; ``None`` is FFmpeg's choice.

    Packets that the codec refuses are passed over; an error in reading ends the stream. Every frame must have the
    rate and the number of channels of the first.
    """
    frames: list[Any] = []
    num_failed = 0
    with opened_stream(path, "audio", stream_index) as (container, stream):
        context = stream.codec_context
        context.options = dict(_DECODER_OPTIONS.get(context.codec.canonical_name, {}))
        context.thread_type, context.thread_count = "NONE", 1
        for packet in readable_packets(container, stream):
            try:
                frames += stream.decode(packet)
            except av.FFmpegError:
                num_failed += packet is not None
        times = [None if f.pts is None else float(f.pts * stream.time_base) for f in frames]
    starts = np.cumsum([0, *(frame.samples for frame in frames)]).tolist()[:-1]
    data = np.concatenate([frame_samples(frame) for frame in frames], axis=1)
    return LinearSound(data, frames[0].sample_rate, times[0] or 0.0, starts, times, num_failed)


def frame_samples(frame: Any) -> Sound:
    """The samples of a frame as float32 in [-1, 1], scaled by its format.

    ``to_ndarray`` of PyAV 18 is of no use: for planar 7.1 it reads a ninth plane that is not there.
    """
    name = frame.format.name.removesuffix("p")
    num_channels = len(frame.layout.channels)
    if frame.format.is_planar:
        planes = frame.planes[:num_channels]
        raw = np.stack([np.frombuffer(plane, _DTYPES[name])[: frame.samples] for plane in planes])
    else:
        flat = np.frombuffer(frame.planes[0], _DTYPES[name])[: frame.samples * num_channels]
        raw = flat.reshape(-1, num_channels).T
    return as_float(raw)


def ffmpeg_samples(
    program: str, path: Path, *, rate: int | None = None, num_channels: int | None = None, decoder: str = ""
) -> tuple[Sound, int]:
    """(samples float32 (channels, samples), rate) that ``ffmpeg`` writes of the first stream, at will resampled."""
    command = [program, "-v", "error", "-nostdin", "-threads", "1", "-cons_noisegen", "1"]
    command += ["-c:a", decoder] if decoder else []
    command += ["-i", str(path), "-map", "0:a:0"]
    command += [] if rate is None else ["-ar", str(rate)]
    command += [] if num_channels is None else ["-ac", str(num_channels)]
    # A WAV header states channels and rate, so no second program has to be asked for them.
    command += ["-f", "wav", "-c:a", "pcm_f32le", "-bitexact", "pipe:1"]
    output = subprocess.run(command, capture_output=True, check=False, timeout=120).stdout
    return _streamed_wav(output)


def _streamed_wav(data: bytes) -> tuple[Sound, int]:
    """A WAV of 32-bit float whose sizes are unknown, because it went through a pipe."""
    assert data[:4] == b"RIFF", "not the WAV that ffmpeg writes"
    at, num_channels, rate = 12, 0, 0
    while data[at : at + 4] != b"data":
        (size,) = struct.unpack_from("<I", data, at + 4)
        if data[at : at + 4] == b"fmt ":
            _, num_channels, rate = struct.unpack_from("<HHI", data, at + 8)
        at += 8 + size + size % 2
    samples = np.frombuffer(data, "<f4", (len(data) - at - 8) // (4 * num_channels) * num_channels, at + 8)
    return samples.reshape(-1, num_channels).T.astype(np.float32), rate
