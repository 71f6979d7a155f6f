"""The results of decoding: `Frame`, `FrameBatch`, `AudioSamples`, `AudioSamplesBatch` and `AudioVideoClip`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, overload

import torch
from torch import Tensor

from ._engine.common.checks import real_number, shown, whole_number
from ._engine.common.devices import pinned
from .errors import InvalidArgumentError

__all__ = ["AudioSamples", "AudioSamplesBatch", "AudioVideoClip", "Frame", "FrameBatch", "ReplacedFrame"]


# Shared value that means ``False`` for every frame.
_NOT_DAMAGED = torch.tensor(False, device="cpu")


class _Result:
    """Base class of dataclasses whose repr has one line for each field, with only the shape of ``data``."""

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__}:"]
        for spec in fields(self):  # type: ignore[arg-type]
            value = getattr(self, spec.name)
            if spec.name == "data":
                lines.append(f"  data (shape): {value.shape}")
                continue
            is_empty = not (value.any() if isinstance(value, Tensor) else value)
            if spec.name not in ("replaced", "is_damaged") or not is_empty:
                text = f"{value}"  # of a tensor with one number: the number
                lines.append(f"  {spec.name}: {text.replace(chr(10), chr(10) + '  ') if is_dataclass(value) else text}")
        return "\n".join(lines)


def _check_dimensions(data: Tensor, accepted: str, least: int, most: int | None = None) -> None:
    if not isinstance(data, Tensor):
        raise InvalidArgumentError(f"data must be a tensor, {accepted} (got {shown(data)}).")
    if data.ndim < least or (most is not None and data.ndim > most):
        raise InvalidArgumentError(f"data must be {accepted}, got {data.ndim} dimensions: {tuple(data.shape)}.")


def _numbers(name: str, values: Any, dtype: torch.dtype = torch.float64) -> Tensor:
    try:
        return torch.as_tensor(values, dtype=dtype, device="cpu")
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise InvalidArgumentError(f"{name} must be numbers, one for each row of data (got {shown(values)}).") from None


def _sample_rate(sample_rate: Any) -> int:
    if real_number("sample_rate", sample_rate).is_integer():
        sample_rate = int(sample_rate)
    return whole_number("sample_rate", sample_rate, at_least=1)


def _on_cpu(key: Any) -> Any:
    """Move the tensors in the index ``key`` to the CPU, because it must also index the times, which are on the CPU."""
    if isinstance(key, Tensor):
        return key.cpu()
    return type(key)(_on_cpu(part) for part in key) if type(key) in (list, tuple) else key


def _rows(data: Tensor, key: Any, key_on_cpu: Any) -> Tensor:
    """Return ``data[key]``; for ``data`` on the CPU, use ``key_on_cpu``, because ``key`` can be on another device."""
    return data[key_on_cpu if data.device.type == "cpu" else key]


@dataclass(frozen=True)
class ReplacedFrame:
    """Describes damage that affects a `Frame` or `FrameBatch`: a damaged frame, or a hole where frames are missing.

    There is one object for each frame that was left out or replaced because it is damaged or cannot be decoded, and one
    for each hole. In a hole, the codec returned no frames. The missing frames are not counted, so they have no index.
    The object of a hole refers to the first frame after the hole. This frame is returned as usual, so ``used_index``
    equals ``index``.

    Attributes:
        index: Index of the damaged frame in the stream; for a hole, of the first frame after the hole.
        reason: A sentence with the reason why the frame could not be decoded, or a description of the hole.
        position: Position of the frame in the batch, from 0. If ``data`` has several dimensions before those of a
            frame, such as (clips, frames), the position counts through all of them. With
            ``on_error="skip"``, it is the position among all requested frames, including the frames left out.
        used_index: Index of the frame that was returned instead; ``None`` if the frame was left out.
        num_missing: For a hole, the number of packets for which the codec returned no frame; otherwise 0.

    Example:
        >>> from mediatensor.decoders import VideoDecoder
        >>> batch = VideoDecoder("damaged.mp4", on_error="nearest").get_all_frames()
        >>> damaged = [frame for frame in batch.replaced if not frame.num_missing]
        >>> damaged[0].used_index != damaged[0].index
        True
    """

    index: int
    reason: str
    position: int
    used_index: int | None = None
    num_missing: int = 0


@dataclass(repr=False)
class Frame(_Result):
    """One decoded video frame.

    Unpacks as ``data, pts_seconds, duration_seconds = frame``.

    Attributes:
        data: 3-D tensor, (C, H, W) or (H, W, C). Decoders return uint8 (0 to 255) or float32 (0 to 1).
        pts_seconds: Time in seconds at which the frame is shown (presentation time stamp).
        duration_seconds: Time for which the frame is shown, in seconds.
        replaced: A tuple of `ReplacedFrame` reports: one if the frame was replaced (``on_error="nearest"``), and one
            for each hole.
        is_damaged: Whether the codec flags the frame as damaged.

    Raises:
        InvalidArgumentError: if ``data`` is not 3-dimensional.

    Example:
        >>> import torch
        >>> from mediatensor import Frame
        >>> frame = Frame(torch.zeros(3, 4, 6, dtype=torch.uint8), 0.5, 0.04)
        >>> frame
        Frame:
          data (shape): torch.Size([3, 4, 6])
          pts_seconds: 0.5
          duration_seconds: 0.04
    """

    data: Tensor
    pts_seconds: float
    duration_seconds: float
    replaced: tuple[ReplacedFrame, ...] = field(default=(), kw_only=True)
    is_damaged: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if type(self.data) is not Tensor or self.data.ndim != 3:  # most frames come from a decoder and are valid
            _check_dimensions(self.data, "3-dimensional", 3, 3)
        if type(self.pts_seconds) is not float:
            self.pts_seconds = real_number("pts_seconds", self.pts_seconds)
        if type(self.duration_seconds) is not float:
            self.duration_seconds = real_number("duration_seconds", self.duration_seconds)

    def __iter__(self) -> Iterator[Tensor | float]:
        return iter((self.data, self.pts_seconds, self.duration_seconds))

    def to(self, *args: Any, **kwargs: Any) -> Frame:
        """Return a copy of the frame with ``data.to(*args, **kwargs)`` as its data.

        Example:
            >>> import torch
            >>> from mediatensor.decoders import VideoDecoder
            >>> VideoDecoder("video.mp4").get_frame_at(0).to("cpu", torch.float32).data.dtype
            torch.float32
        """
        return replace(self, data=self.data.to(*args, **kwargs))

    def pin_memory(self) -> Frame:
        """Return a copy of the frame with CPU data in page-locked memory, for ``DataLoader(pin_memory=True)``."""
        return replace(self, data=pinned(self.data))

    def show(self) -> None:
        """Show the frame in a window or, in a notebook, below the cell. Needs matplotlib (the extra ``plot``).

        Raises:
            MissingDependencyError: if matplotlib is not installed.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> VideoDecoder("video.mp4").get_frame_at(0).show()  # doctest: +SKIP
        """
        from ._engine.common.display import frame_picture, show_picture

        show_picture(frame_picture(self.data), f"{self.pts_seconds:.3f} s")

    def _repr_png_(self) -> bytes | None:
        from ._engine.common.display import frame_picture, png_or_none

        return png_or_none(lambda: frame_picture(self.data))


@dataclass(repr=False)
class FrameBatch(_Result):
    """Decoded video frames with their times.

    ``len(batch)`` is the size of the first dimension. Iteration and indexing return `FrameBatch` objects, even for a
    single frame. An index applies to the data and to the times. Tensors in an index can be on any device.

    Attributes:
        data: Tensor of at least 3 dimensions, (..., C, H, W) or (..., H, W, C). Decoders return uint8 (0 to 255) or
            float32 (0 to 1).
        pts_seconds: Times in seconds at which the frames are shown, float64 on the CPU, of shape ``data.shape[:-3]``.
        duration_seconds: Durations of the frames in seconds, with the same dtype, device and shape as ``pts_seconds``.
        replaced: A tuple of `ReplacedFrame` reports: one for each frame that was left out (``on_error="skip"``) or
            replaced (``"nearest"``), and one for each hole.
        is_damaged: Whether the codec flags each frame as damaged, bool on the CPU, of the same shape as the times.

    Raises:
        InvalidArgumentError: if ``data`` has fewer than 3 dimensions or the times are not of shape ``data.shape[:-3]``.

    Example:
        >>> import torch
        >>> from mediatensor import FrameBatch
        >>> batch = FrameBatch(torch.zeros(2, 3, 4, 6), torch.tensor([0.0, 0.5]), torch.tensor([0.5, 0.5]))
        >>> len(batch), batch[1].pts_seconds.item(), batch[:1].data.shape
        (2, 0.5, torch.Size([1, 3, 4, 6]))
    """

    data: Tensor
    pts_seconds: Tensor
    duration_seconds: Tensor
    replaced: tuple[ReplacedFrame, ...] = field(default=(), kw_only=True)
    is_damaged: Tensor = field(default=_NOT_DAMAGED, kw_only=True)

    def __post_init__(self) -> None:
        _check_dimensions(self.data, "at least 3-dimensional", 3)
        self.pts_seconds = _numbers("pts_seconds", self.pts_seconds)
        self.duration_seconds = _numbers("duration_seconds", self.duration_seconds)
        leading = self.data.shape[:-3]
        if not (leading == self.pts_seconds.shape == self.duration_seconds.shape):
            raise InvalidArgumentError(
                "Tried to create a FrameBatch but the leading dimensions of the inputs do not match. "
                f"data.shape[:-3] is {tuple(leading)}, pts_seconds.shape is {tuple(self.pts_seconds.shape)}, "
                f"duration_seconds.shape is {tuple(self.duration_seconds.shape)}."
            )
        if self.is_damaged is _NOT_DAMAGED:
            self.is_damaged = torch.zeros(leading, dtype=torch.bool, device="cpu")
            return
        self.is_damaged = _numbers("is_damaged", self.is_damaged, torch.bool)
        if self.is_damaged.shape != leading:
            raise InvalidArgumentError(
                f"is_damaged must have the shape of the times, {tuple(leading)} (got {tuple(self.is_damaged.shape)})."
            )

    def __getstate__(self) -> dict[str, Any]:
        # Each tensor that is sent between processes needs a handle of shared memory, so send as few as possible.
        state = dict(vars(self))
        if not self.is_damaged.any():
            del state["is_damaged"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "is_damaged" not in state:
            self.is_damaged = torch.zeros(self.pts_seconds.shape, dtype=torch.bool, device="cpu")

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[FrameBatch]:
        for i in range(len(self)):
            yield self[i]

    def __getitem__(self, key: Any) -> FrameBatch:
        on_cpu = _on_cpu(key)
        return FrameBatch(
            _rows(self.data, key, on_cpu),
            self.pts_seconds[on_cpu],
            self.duration_seconds[on_cpu],
            replaced=self._replaced_at(on_cpu) if self.replaced else (),
            is_damaged=self.is_damaged[on_cpu],
        )

    def _replaced_at(self, key: Any) -> tuple[ReplacedFrame, ...]:
        count = self.pts_seconds.numel()
        kept = torch.arange(count, device="cpu").reshape(self.pts_seconds.shape)[key].flatten().tolist()
        # Positions also count the frames that were left out of a decoder's batch. They have no row.
        left_out = sorted(report.position for report in self.replaced if report.used_index is None)
        if self.pts_seconds.ndim > 1:  # the frames of several rows of a dataset, which count their own
            left_out = []
        return tuple(
            replace(report, position=position)
            for position, old in enumerate(kept)
            for report in self.replaced
            if report.used_index is not None and report.position - bisect_left(left_out, report.position) == old
        )

    def to(self, *args: Any, **kwargs: Any) -> FrameBatch:
        """Return a copy of the batch with ``data.to(*args, **kwargs)`` as its data. Times stay float64 on the CPU.

        Example:
            >>> import torch
            >>> from mediatensor.decoders import VideoDecoder
            >>> batch = VideoDecoder("video.mp4").get_frames_at([0, 1]).to("cpu", torch.float32)
            >>> batch.data.dtype, batch.pts_seconds.dtype
            (torch.float32, torch.float64)
        """
        return replace(self, data=self.data.to(*args, **kwargs))

    def pin_memory(self) -> FrameBatch:
        """Return a copy of the batch with CPU data in page-locked memory, for ``DataLoader(pin_memory=True)``."""
        return replace(self, data=pinned(self.data))

    def show(self) -> None:
        """Show up to sixteen frames, evenly spread over the batch, with their times. Needs matplotlib (extra ``plot``).

        They are shown in a window or, in a notebook, below the cell.

        Raises:
            InvalidArgumentError: if the batch is empty.
            MissingDependencyError: if matplotlib is not installed.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> VideoDecoder("video.mp4").get_frames_in_range(0, 9).show()  # doctest: +SKIP
        """
        from ._engine.common.display import frames_picture, show_picture

        show_picture(frames_picture(self.data, self.pts_seconds), f"{self.pts_seconds.numel()} frames")

    def _repr_png_(self) -> bytes | None:
        from ._engine.common.display import frames_picture, png_or_none

        return png_or_none(lambda: frames_picture(self.data, self.pts_seconds))


@dataclass(repr=False)
class AudioSamples(_Result):
    """Decoded audio samples.

    Attributes:
        data: 2-D float tensor (channels, samples) in [-1, 1]; decoders return float32. Lossy codecs and mixing can
            exceed this range; see `AudioDecoder`.
        pts_seconds: Time of the first sample in seconds.
        duration_seconds: Length of the audio in seconds.
        sample_rate: Samples per second.

    Raises:
        InvalidArgumentError: if ``data`` is not 2-dimensional.

    Example:
        >>> import torch
        >>> from mediatensor import AudioSamples
        >>> AudioSamples(torch.zeros(2, 8000), 0.0, 0.5, 16_000)
        AudioSamples:
          data (shape): torch.Size([2, 8000])
          pts_seconds: 0.0
          duration_seconds: 0.5
          sample_rate: 16000
    """

    data: Tensor
    pts_seconds: float
    duration_seconds: float
    sample_rate: int

    def __post_init__(self) -> None:
        _check_dimensions(self.data, "2-dimensional", 2, 2)
        self.pts_seconds = real_number("pts_seconds", self.pts_seconds)
        self.duration_seconds = real_number("duration_seconds", self.duration_seconds)
        self.sample_rate = _sample_rate(self.sample_rate)

    def __iter__(self) -> Iterator[Tensor | float | int]:
        return iter((self.data, self.pts_seconds, self.duration_seconds, self.sample_rate))

    def to(self, *args: Any, **kwargs: Any) -> AudioSamples:
        """Return a copy of the samples with ``data.to(*args, **kwargs)`` as their data.

        Example:
            >>> import torch
            >>> from mediatensor.decoders import AudioDecoder
            >>> AudioDecoder("video.mp4").get_all_samples().to("cpu", torch.float16).data.dtype
            torch.float16
        """
        return replace(self, data=self.data.to(*args, **kwargs))

    def pin_memory(self) -> AudioSamples:
        """Return a copy of the samples with CPU data in page-locked memory, for ``DataLoader(pin_memory=True)``."""
        return replace(self, data=pinned(self.data))

    def show(self) -> None:
        """Plot the waveform of each channel over time. Needs matplotlib (the extra ``plot``).

        It is shown in a window or, in a notebook, below the cell.

        Raises:
            MissingDependencyError: if matplotlib is not installed.

        Example:
            >>> from mediatensor.decoders import AudioDecoder
            >>> AudioDecoder("video.mp4").get_samples_played_in_range(0.0, 2.0).show()  # doctest: +SKIP
        """
        from ._engine.common.display import show_sound

        show_sound(list(self.data), self.sample_rate, self.pts_seconds, f"{self.sample_rate} Hz")

    def _repr_html_(self) -> str:
        from ._engine.common.display import html_player

        return html_player(self.data, self.sample_rate)


@dataclass(repr=False)
class AudioSamplesBatch(_Result):
    """Audio clips of equal length.

    ``len(batch)`` is the number of clips. Iteration and integer indices return `AudioSamples`. All other indices
    (slice, list, tensor) return an `AudioSamplesBatch`.

    Attributes:
        data: 3-D float tensor (clips, channels, samples) in [-1, 1], as in `AudioSamples`.
        pts_seconds: Time of the first sample of each clip in seconds, float64 on the CPU, (clips,).
        duration_seconds: Lengths of the clips in seconds, with the same dtype, device and shape as ``pts_seconds``.
        sample_rate: Samples per second of all clips.
        num_valid_samples: Number of samples of each clip that come from the stream, int64 on the CPU, (clips,). They
            are at the start of the clip; the rest of the clip is padding.

    Raises:
        InvalidArgumentError: if ``data`` is not 3-dimensional or another field is not of shape (clips,).

    Example:
        >>> import torch
        >>> from mediatensor import AudioSamplesBatch
        >>> clips = AudioSamplesBatch(torch.zeros(2, 1, 4), [0.0, 0.5], [0.25, 0.25], 16, [4, 3])
        >>> len(clips), clips[1].pts_seconds, clips[:1].data.shape
        (2, 0.5, torch.Size([1, 1, 4]))
        >>> torch.arange(4) < clips.num_valid_samples[:, None]  # a mask (clips, samples)
        tensor([[ True,  True,  True,  True],
                [ True,  True,  True, False]])
    """

    data: Tensor
    pts_seconds: Tensor
    duration_seconds: Tensor
    sample_rate: int
    num_valid_samples: Tensor

    def __post_init__(self) -> None:
        _check_dimensions(self.data, "3-dimensional", 3, 3)
        self.pts_seconds = _numbers("pts_seconds", self.pts_seconds)
        self.duration_seconds = _numbers("duration_seconds", self.duration_seconds)
        self.num_valid_samples = _numbers("num_valid_samples", self.num_valid_samples, torch.int64)
        self.sample_rate = _sample_rate(self.sample_rate)
        for name in ("pts_seconds", "duration_seconds", "num_valid_samples"):
            shape = getattr(self, name).shape
            if shape != self.data.shape[:1]:
                raise InvalidArgumentError(
                    f"{name} must be of shape ({len(self.data)},), with one value for each clip; got {tuple(shape)}."
                )

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[AudioSamples]:
        for i in range(len(self)):
            yield self[i]

    @overload
    def __getitem__(self, key: int) -> AudioSamples: ...
    @overload
    def __getitem__(self, key: slice | Sequence[int]) -> AudioSamplesBatch: ...
    @overload
    def __getitem__(self, key: Tensor) -> AudioSamples | AudioSamplesBatch: ...
    def __getitem__(self, key: Any) -> AudioSamples | AudioSamplesBatch:
        on_cpu = _on_cpu(key)
        data = _rows(self.data, key, on_cpu)
        pts_seconds, duration_seconds = self.pts_seconds[on_cpu], self.duration_seconds[on_cpu]
        if pts_seconds.ndim == 0:
            return AudioSamples(data, pts_seconds.item(), duration_seconds.item(), self.sample_rate)
        return AudioSamplesBatch(data, pts_seconds, duration_seconds, self.sample_rate, self.num_valid_samples[on_cpu])

    def to(self, *args: Any, **kwargs: Any) -> AudioSamplesBatch:
        """Return a copy of the batch with ``data.to(*args, **kwargs)`` as its data. Other fields stay on the CPU.

        Example:
            >>> import torch
            >>> from mediatensor.decoders import AudioDecoder
            >>> from mediatensor.samplers import audio_clips_at_random_timestamps
            >>> clips = audio_clips_at_random_timestamps(AudioDecoder("video.mp4"), num_clips=2, seconds_per_clip=1.0)
            >>> clips.to("cpu", torch.float16).data.dtype
            torch.float16
        """
        return replace(self, data=self.data.to(*args, **kwargs))

    def pin_memory(self) -> AudioSamplesBatch:
        """Return a copy of the batch with CPU data in page-locked memory, for ``DataLoader(pin_memory=True)``."""
        return replace(self, data=pinned(self.data))


@dataclass(repr=False)
class AudioVideoClip(_Result):
    """The frames and the audio samples of a time range.

    Unpacks as ``frames, samples = clip``.

    Attributes:
        frames: `FrameBatch` of the frames that are shown in the range.
        samples: `AudioSamples` of the whole range. The time of sample k is ``samples.pts_seconds + k /
            samples.sample_rate``.
        silent_spans: Pairs (start, stop) of sample indices. The samples from start up to, but not including, stop are
            silent because the audio stream has not started, has ended, or has a gap. Empty if the audio is complete.

    Example:
        >>> import torch
        >>> from mediatensor import AudioVideoClip
        >>> from mediatensor.frames import AudioSamples, FrameBatch
        >>> frames = FrameBatch(torch.zeros(2, 3, 4, 6), torch.tensor([0.0, 0.5]), torch.tensor([0.5, 0.5]))
        >>> AudioVideoClip(frames, AudioSamples(torch.zeros(1, 8000), 0.0, 1.0, 8000), ((7975, 8000),))
        AudioVideoClip:
          frames: FrameBatch:
            data (shape): torch.Size([2, 3, 4, 6])
            pts_seconds: tensor([0.0000, 0.5000], dtype=torch.float64)
            duration_seconds: tensor([0.5000, 0.5000], dtype=torch.float64)
          samples: AudioSamples:
            data (shape): torch.Size([1, 8000])
            pts_seconds: 0.0
            duration_seconds: 1.0
            sample_rate: 8000
          silent_spans: ((7975, 8000),)
    """

    frames: FrameBatch
    samples: AudioSamples
    silent_spans: tuple[tuple[int, int], ...] = ()

    def __iter__(self) -> Iterator[FrameBatch | AudioSamples]:
        return iter((self.frames, self.samples))

    def to(self, *args: Any, **kwargs: Any) -> AudioVideoClip:
        """Return a copy of the clip with ``frames.to(*args, **kwargs)`` and ``samples.to(*args, **kwargs)``.

        Example:
            >>> import torch
            >>> from mediatensor.decoders import AudioVideoDecoder
            >>> clip = AudioVideoDecoder("video.mp4").get_played_in_range(0.0, 0.5).to(torch.float16)
            >>> clip.frames.data.dtype, clip.frames.pts_seconds.dtype
            (torch.float16, torch.float64)
        """
        return replace(self, frames=self.frames.to(*args, **kwargs), samples=self.samples.to(*args, **kwargs))

    def pin_memory(self) -> AudioVideoClip:
        """Return a copy of the clip with CPU data in page-locked memory, for ``DataLoader(pin_memory=True)``."""
        return replace(self, frames=self.frames.pin_memory(), samples=self.samples.pin_memory())
