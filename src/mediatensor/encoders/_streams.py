"""`VideoStream` and `AudioStream`: the streams of an `Encoder` that receive data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._engine.common import limits
from .._engine.common.devices import check_has_values
from .._engine.pyav.encoding_tracks import AudioSettings, VideoSettings
from ..errors import InvalidArgumentError
from ..frames import AudioSamples, FrameBatch
from ._session import MAX_SECONDS, Session, batch_times, ticks_of

__all__ = ["AudioStream", "VideoStream", "channels_and_samples", "check_frames"]

# Audio chunks count as consecutive if their times differ by less, because containers round times to milliseconds.
_TOLERANCE_SECONDS = 1e-3
_MAX_GAP_SECONDS = 24 * 3600
# Number of samples to encode before packets are written, which bounds memory for long tensors and silences.
_SAMPLES_AT_A_TIME = 1 << 16


class VideoStream:
    """A video stream of an `Encoder`, made by `Encoder.add_video`."""

    def __init__(self, session: Session, settings: VideoSettings, *, follows_rate: bool) -> None:
        self._session = session
        self._settings = settings
        self._number = session.add(settings)
        self._follows_rate = follows_rate
        self._next_tick = 0

    def add_frames(self, frames: Tensor | FrameBatch) -> None:
        """Encode the next frames.

        Frames are encoded one by one and not kept. Packets are written as soon as they are encoded.

        Args:
            frames: (N, 3, H, W) uint8, RGB, on any device, of the stream's height and width. Any memory layout works;
                channels-last, as decoders return it, is the fastest. The times of a `FrameBatch` are kept if the stream
                has no ``frame_rate``. Otherwise only the time of the first frame is used, as the start of the stream in
                the file.

        Raises:
            InvalidArgumentError: if the frames or their times do not fit the stream.
            EncodeError: if the encoder is not open, or has failed.
            ClosedError: if the encoder is closed.
            WriteError: if the file cannot be written.
        """
        with self._session.lock:
            self._session.check_can_add("frames")
            data = check_frames(frames, self._settings.height, self._settings.width)
            if len(data) == 0:
                return
            ticks, durations = self._ticks(frames, len(data))
            for picture, tick, duration in zip(_pictures(data), ticks, durations, strict=True):
                self._session.encode(self._number, picture, tick, duration)

    def _ticks(self, frames: Tensor | FrameBatch, num_frames: int) -> tuple[list[int], list[int]]:
        """Return (times, durations) of frames in units of the time base, relative to the stream's first frame."""
        times = batch_times(frames) if isinstance(frames, FrameBatch) else None
        if not self._follows_rate:
            if times is None:
                raise InvalidArgumentError(
                    "This stream has no frame_rate, so every frame must come with its time: add a FrameBatch, or pass "
                    "frame_rate to add_video()."
                )
            return self._own_ticks(*times)
        self._session.begin(self._number, None if times is None else float(times[0][0]))
        first = self._next_tick
        self._next_tick += num_frames
        return list(range(first, self._next_tick)), [1] * num_frames

    def _own_ticks(self, pts: NDArray[np.float64], durations: NDArray[np.float64]) -> tuple[list[int], list[int]]:
        start = self._session.start_of(self._number)
        start = float(pts[0]) if start is None else start
        time_base = self._settings.time_base
        ticks = ticks_of(pts, start, time_base)
        if ticks[0] < self._next_tick or any(later <= sooner for sooner, later in pairwise(ticks)):
            raise InvalidArgumentError(
                f"Frames must be added in the order of their times, and at least {float(time_base):.1e} seconds apart; "
                f"this batch begins at {float(pts[0])}."
            )
        self._session.begin(self._number, start)
        self._next_tick = ticks[-1] + 1
        return ticks, [max(1, tick) for tick in ticks_of(durations, 0.0, time_base)]

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A VideoStream cannot be pickled: it writes to an open file. Make encoders where they are used."
        )


def _pictures(frames: Tensor) -> Iterator[NDArray[np.uint8]]:
    """Yield each frame (3, H, W) as an array on the CPU. Slicing a tensor for every frame would take longer."""
    num_together = max(1, limits.MAX_COPY_BYTES // frames[0].nbytes)
    for at in range(0, len(frames), num_together):
        yield from frames[at : at + num_together].cpu().numpy()


class AudioStream:
    """An audio stream of an `Encoder`, made by `Encoder.add_audio`."""

    def __init__(self, session: Session, settings: AudioSettings) -> None:
        self._session = session
        self._settings = settings
        self._number = session.add(settings)
        self._num_samples = 0

    def add_samples(self, samples: Tensor | AudioSamples) -> None:
        """Encode the next samples. The result does not depend on how the samples are split into calls.

        Args:
            samples: (C, N) float32 in [-1, 1], or (N,) for one channel, on any device. The time of the first
                `AudioSamples` sets the start of the stream in the file. Gaps before later `AudioSamples` are filled
                with silence.

        Raises:
            InvalidArgumentError: if the samples, their rate or their time do not fit the stream.
            EncodeError: if the encoder is not open, or has failed.
            ClosedError: if the encoder is closed.
            WriteError: if the file cannot be written.
        """
        with self._session.lock:
            self._session.check_can_add("samples")
            data = channels_and_samples(samples, self._settings.num_channels).numpy()
            gap = self._gap(samples) if isinstance(samples, AudioSamples) else 0
            self._session.begin(self._number, samples.pts_seconds if isinstance(samples, AudioSamples) else None)
            silence = np.zeros((self._settings.num_channels, min(gap, _SAMPLES_AT_A_TIME)), np.float32)
            for at in range(0, gap, _SAMPLES_AT_A_TIME):
                self._encode(silence[:, : gap - at])
            for at in range(0, data.shape[1], _SAMPLES_AT_A_TIME):
                self._encode(data[:, at : at + _SAMPLES_AT_A_TIME])

    def _encode(self, data: NDArray[np.float32]) -> None:
        self._num_samples += data.shape[1]
        self._session.encode(self._number, data)

    def _gap(self, samples: AudioSamples) -> int:
        """Return the number of silent samples to insert before the given samples."""
        rate = self._settings.sample_rate
        if samples.sample_rate != rate:
            raise InvalidArgumentError(
                f"The stream takes {rate} samples a second, and these AudioSamples have {samples.sample_rate}. Decode "
                f"with sample_rate={rate}, or call add_audio() with sample_rate={samples.sample_rate} and "
                f"out_sample_rate={rate}."
            )
        if not abs(samples.pts_seconds) <= MAX_SECONDS:  # also false for NaN
            raise InvalidArgumentError(
                f"pts_seconds of AudioSamples must be finite and at most {MAX_SECONDS:g} (got {samples.pts_seconds})."
            )
        start = self._session.start_of(self._number)
        if start is None:
            return 0
        expected = start + self._num_samples / rate
        late = samples.pts_seconds - expected
        if late > _MAX_GAP_SECONDS:
            raise InvalidArgumentError(
                f"These AudioSamples begin at {samples.pts_seconds} seconds, {late:.0f} seconds after the last ones; "
                f"gaps of up to {_MAX_GAP_SECONDS} seconds are filled with silence. Add samples.data, without a time."
            )
        if late < -_TOLERANCE_SECONDS:
            raise InvalidArgumentError(
                f"These AudioSamples begin at {samples.pts_seconds} seconds, before the end of the earlier samples, "
                f"{expected}. Leave out the overlap, or add samples.data, which has no time."
            )
        return round(late * rate) if late > _TOLERANCE_SECONDS else 0

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "An AudioStream cannot be pickled: it writes to an open file. Make encoders where they are used."
        )


def check_frames(frames: object, height: int | None = None, width: int | None = None) -> Tensor:
    """Check the frames of a tensor or batch, uint8 on any device, and return them as (N, 3, H, W)."""
    data = frames.data if isinstance(frames, FrameBatch) else frames
    if not isinstance(data, Tensor):
        raise InvalidArgumentError(f"Expected frames to be a Tensor or a FrameBatch, got {type(data)}.")
    if data.ndim != 4:
        raise InvalidArgumentError(f"Expected 4D frames, (N, C, H, W), got {tuple(data.shape)}.")
    if data.dtype != torch.uint8:
        raise InvalidArgumentError(f"Expected uint8 frames: frames must have uint8 dtype, got {data.dtype}.")
    check_has_values("frames", data)
    if data.shape[1] != 3:
        raise InvalidArgumentError(
            f"Each frame must have 3 channels (R, G, B), got {data.shape[1]}: the shape is {tuple(data.shape)}, and "
            "(N, C, H, W) is expected."
        )
    if height is not None and tuple(data.shape[2:]) != (height, width):
        raise InvalidArgumentError(
            f"All frames must have the same dimensions: height {height} and width {width}, "
            f"got {data.shape[2]} and {data.shape[3]}."
        )
    return data.detach()


def channels_and_samples(samples: object, num_channels: int | None = None) -> Tensor:
    """Check samples, and return them as finite float32 (C, N) on the CPU."""
    data = samples.data if isinstance(samples, AudioSamples) else samples
    if not isinstance(data, Tensor):
        raise InvalidArgumentError(f"Expected samples to be a Tensor or AudioSamples, got {type(data)}.")
    if data.ndim not in (1, 2):
        raise InvalidArgumentError(f"Expected 1D or 2D samples, (N,) or (C, N), got {tuple(data.shape)}.")
    if data.dtype != torch.float32:
        raise InvalidArgumentError(
            f"Expected float32 samples between -1 and 1, got {data.dtype}. 16-bit ones become that by "
            "samples.float() / 32768."
        )
    check_has_values("samples", data)
    data = data.detach().reshape(1, -1) if data.ndim == 1 else data.detach()
    if num_channels is not None and data.shape[0] != num_channels:
        raise InvalidArgumentError(
            f"Expected {num_channels} channels, got {data.shape[0]}: the shape is {tuple(data.shape)}, and (C, N) is "
            "expected."
        )
    data = data.cpu()
    _check_is_finite(data)
    return data


def _check_is_finite(samples: Tensor) -> None:
    """Raise if samples (C, N) have NaN or infinity, which every codec encodes differently."""
    # The extremes need no tensor of the full size, and are NaN if any sample is NaN.
    if samples.numel() and not torch.isfinite(torch.stack(samples.aminmax())).all():
        channel, number = (~torch.isfinite(samples)).nonzero()[0].tolist()
        raise InvalidArgumentError(
            f"samples must be finite numbers, and sample {number} of channel {channel} is "
            f"{samples[channel, number].item()}; torch.nan_to_num makes silence of NaN."
        )
