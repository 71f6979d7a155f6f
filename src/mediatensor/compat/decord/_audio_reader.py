"""decord's `AudioReader`."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..._engine.common.checks import index_of, whole_number
from ...decoders import AudioDecoder
from ...frames import AudioSamples
from .. import run_bounded
from ._arrays import DECORDContext, cpu
from ._sources import check_context, source_of, whole_indices
from .bridge import bridge_out

__all__ = ["AudioReader"]

_CPU = cpu(0)


class AudioReader:
    """The sound of a file, as an array (channels, samples) of float32 in [-1, 1].

    The whole of it is decoded into memory at once, as decord does it. An encoder's delay and padding are not part of
    it.

    Args:
        uri: A path or URL, or a file object, which is read to its end.
        ctx: Any device: sound is decoded on the CPU.
        sample_rate: Samples per second; that of the file if it is not positive.
        mono: Mix all channels to one.
        timeout_seconds: Most seconds that decoding may take, in a process of its own; ``None`` for no limit. decord has
            no such argument.

    Attributes:
        sample_rate: Samples per second.

    Raises:
        DECORDError: if the source cannot be read or decoded, or has no sound.

    Example:
        >>> from mediatensor.compat.decord import AudioReader
        >>> reader = AudioReader("video.mp4", sample_rate=16_000)
        >>> reader.shape, reader[:8000].shape, reader.duration()
        ((1, 160000), (1, 8000), 10.0)
    """

    def __init__(
        self,
        uri: Any,
        ctx: DECORDContext = _CPU,
        sample_rate: int = -1,
        mono: bool = True,
        *,
        timeout_seconds: float | None = None,
    ) -> None:
        check_context(ctx)
        sample_rate = whole_number("sample_rate", sample_rate)
        work = partial(_all_samples, source_of(uri), sample_rate if sample_rate > 0 else None, bool(mono))
        samples = run_bounded(work, timeout_seconds)
        self.sample_rate: int = samples.sample_rate
        self._data: Tensor = samples.data
        self._missing = max(round(samples.pts_seconds * samples.sample_rate), 0)
        self._is_padded = False

    def __len__(self) -> int:
        """The number of channels, as of decord."""
        return self.shape[0]

    def __getitem__(self, idx: Any) -> Any:
        """The samples of a slice (channels, N), or of one index (channels,).

        Raises:
            OutOfRangeError: if there is no such sample.
            InvalidArgumentError: if it is neither a whole number nor a slice.
        """
        if isinstance(idx, slice):
            return bridge_out(self._samples(range(*idx.indices(self.shape[1]))))
        (index,) = whole_indices([index_of(idx)], self.shape[1])
        return bridge_out(self._data[:, index].clone())

    def get_batch(self, indices: Any) -> Any:
        """The samples of any indices (channels, N), in the order asked for.

        Raises:
            OutOfRangeError: if one is out of bounds.
            InvalidArgumentError: if they are not a list of numbers.

        Example:
            >>> from mediatensor.compat.decord import AudioReader
            >>> AudioReader("video.mp4").get_batch([0, 1, -1]).shape
            (1, 3)
        """
        return bridge_out(self._data[:, whole_indices(indices, self.shape[1])])

    @property
    def shape(self) -> tuple[int, int]:
        """The number of channels, and of the samples in each."""
        return self._data.shape[0], self._data.shape[1]

    def duration(self) -> float:
        """How many seconds the samples last.

        Example:
            >>> from mediatensor.compat.decord import AudioReader
            >>> AudioReader("video.mp4").duration()
            10.0
        """
        return self.shape[1] / self.sample_rate

    def add_padding(self) -> int:
        """Put silence in front of sound that begins late, once, so that sample 0 is that of time 0.

        Returns:
            How many samples that takes.

        Example:
            >>> from mediatensor.compat.decord import AudioReader
            >>> AudioReader("video.mp4").add_padding()
            0
        """
        if not self._is_padded:
            self._data = torch.nn.functional.pad(self._data, (self._missing, 0))
            self._is_padded = True
        return self._missing

    def get_info(self) -> None:
        """Print the number of channels and samples, the sample rate, and when the sound begins.

        Example:
            >>> from mediatensor.compat.decord import AudioReader
            >>> AudioReader("video.mp4", sample_rate=8000).get_info()
            1 channels, 80000 samples at 8000 Hz, from 0.0 s
        """
        channels, num_samples = self.shape
        begin = 0.0 if self._is_padded else self._missing / self.sample_rate
        print(f"{channels} channels, {num_samples} samples at {self.sample_rate} Hz, from {begin} s")

    def _samples(self, wanted: range) -> Tensor:
        if wanted.step > 0:
            return self._data[:, wanted.start : wanted.stop : wanted.step].clone()
        return self._data[:, list(wanted)]

    def __repr__(self) -> str:
        return f"AudioReader of {self.shape[0]} channels, {self.shape[1]} samples"


def _all_samples(source: Any, sample_rate: int | None, mono: bool) -> AudioSamples:
    with AudioDecoder(source, sample_rate=sample_rate, num_channels=1 if mono else None) as decoder:
        return decoder.get_all_samples()
