"""Sound to WAV files of 16 bits."""

from __future__ import annotations

import wave
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

import torch
from torch import Tensor

from .._atomic_files import writing
from ..decoders import AudioDecoder
from ..errors import InvalidArgumentError, OutOfRangeError
from ..frames import AudioSamples
from . import _text
from ._console import progress
from ._extract_files import Job, TimeRange

__all__ = ["SoundJob", "SoundOptions", "pcm16"]

# How much sound is in memory at a time, as floats; ranges decode a lead-in each, so that they should not be short.
_PIECE_BYTES = 64 << 20
_FLOAT_BYTES = 4

# How many pieces without sound may lie in a hole of the stream.
_MAX_EMPTY_PIECES = 20

_SAMPLE_BYTES = 2
# Lengths in a WAV file are 32 bit; this many bytes are its headers.
_MAX_DATA_BYTES = (1 << 32) - 1 - 36


@dataclass(frozen=True)
class SoundOptions:
    """What becomes of the sound; ``None`` leaves it as it is."""

    sample_rate: int | None = None
    num_channels: int | None = None
    stream_index: int | None = None


class SoundJob(Job):
    """The sound of a file, to be written as WAV beside ``target``, under its name.

    Raises:
        MediaTensorError: if there is no sound that can be read.
    """

    def __init__(self, file: str, target: Path, options: SoundOptions, span: TimeRange) -> None:
        self._path = target.with_name(f"{target.name}.wav")
        self._options = options
        self._span = span
        self._decoder = AudioDecoder(
            file,
            stream_index=options.stream_index,
            sample_rate=options.sample_rate,
            num_channels=options.num_channels,
        )

    def outputs(self) -> Sequence[Path]:
        return [self._path]

    def write(self) -> str:
        pieces = self._pieces()
        first = next(pieces)  # an empty range is found before there is a file
        num_channels, num_samples = first.data.shape[0], 0
        with writing(self._path) as output:
            file = wave.open(output, "wb")  # noqa: SIM115 - closing it without parameters hides why they are missing
            file.setparams((num_channels, _SAMPLE_BYTES, first.sample_rate, 0, "NONE", "not compressed"))
            with file:
                for samples in progress(chain([first], pieces), "sound", unit="piece"):
                    num_samples += samples.data.shape[1]
                    if num_samples * num_channels * _SAMPLE_BYTES > _MAX_DATA_BYTES:
                        raise InvalidArgumentError(
                            "The sound does not fit in a WAV file, which holds 4 GiB; take a part with --start and "
                            "--stop, or less with --sample-rate and --num-channels."
                        )
                    file.writeframesraw(pcm16(samples.data).numpy().tobytes())
        seconds = _text.seconds(num_samples / first.sample_rate)
        begin = f" from {_text.seconds(first.pts_seconds)} on" if first.pts_seconds else ""
        channels = _text.count(num_channels, "channel")
        return f"wrote {self._path}: {seconds}{begin}, {first.sample_rate} Hz, {channels}"

    def _pieces(self) -> Iterator[AudioSamples]:
        """The sound in pieces that meet; the first may be empty.

        Raises:
            OutOfRangeError: if the first piece lies behind the end.
        """
        metadata = self._decoder.metadata
        start = metadata.begin_stream_seconds
        if self._span.start is not None:
            start = max(self._span.start, start)
        seconds, num_empty = self._piece_seconds(), 0
        for number in count():
            piece_start, piece_stop = start + number * seconds, start + (number + 1) * seconds
            if self._span.stop is not None:
                piece_stop = min(piece_stop, self._span.stop)
                if number and piece_start >= piece_stop:
                    return
            try:
                samples = self._decoder.get_samples_played_in_range(piece_start, piece_stop)
            except OutOfRangeError:
                num_empty += 1
                is_hole = metadata.end_stream_seconds is not None and piece_stop < metadata.end_stream_seconds
                if number == 0:
                    raise
                if not is_hole or num_empty > _MAX_EMPTY_PIECES:
                    return
                continue
            num_empty = 0
            yield samples

    def _piece_seconds(self) -> float:
        metadata = self._decoder.metadata
        rate = self._options.sample_rate or metadata.sample_rate or 48_000
        num_channels = self._options.num_channels or metadata.num_channels or 2
        return float(max(1, _PIECE_BYTES // (rate * num_channels * _FLOAT_BYTES)))

    def close(self) -> None:
        self._decoder.close()


def pcm16(data: Tensor) -> Tensor:
    """Float samples (C, N) as interleaved 16 bits (N, C): rounded to the nearest step, halves to even, and clipped.

    >>> import torch
    >>> pcm16(torch.tensor([[0.0, 0.5, 1.0, -1.0, 2.5 / 32768]])).flatten().tolist()
    [0, 16384, 32767, -32768, 2]
    """
    steps = torch.nan_to_num(data * 32768.0, nan=0.0).round_().clamp_(-32768, 32767)
    return steps.to(torch.int16).t().contiguous()
