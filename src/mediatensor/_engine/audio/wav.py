"""Read samples at any position of a WAV file, and convert them to float32.

Each read is an ordinary read at a file position; the file is not mapped into memory. If a mapped file is truncated
while it is in use, reading a page after its new end kills the process (SIGBUS), and Python code cannot catch that.
Ordinary reads take the same number of bytes from disk. They cost one more copy, into a block that is small enough for
the processor's cache.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import OpenError, ReadError
from ..common.threads import ThreadLease
from ..containers.wav import SampleEncoding
from ..sources.readers import Reader
from ..sources.source import MemorySource, PathSource, Source, make_readable_source

# Number of leading bytes that identify a file when it is opened again.
_NUM_IDENTITY_BYTES = 4096


@dataclass
class WavFile:
    """The file of a `WavDecoder`. It can be pickled. `open` stores its size and first bytes, to detect changes."""

    source: Source
    size: int | None = None  # of the file in bytes; `None` before the first opening
    beginning: bytes = b""  # first bytes of the file, which identify it

    @classmethod
    def of(cls, source: object) -> WavFile:
        return cls(make_readable_source(source))

    @property
    def name(self) -> str:
        return self.source.describe()

    def open(self) -> WavBytes:
        """Open the source and return a reader. Raise `ReadError` if the file has changed since it was first opened."""
        reader = _open_reader(self.source)
        try:
            if self.size is None:
                self.size = reader.seek(0, os.SEEK_END)
                self.beginning = reader.read_at(0, min(self.size, _NUM_IDENTITY_BYTES))
            elif reader.read_at(0, len(self.beginning)) != self.beginning:
                raise ReadError(f"{self.name} has changed since it was opened; make a new decoder.")
        except BaseException:
            reader.close()
            raise
        return WavBytes(reader, self)


class WavBytes:
    """An open WAV file from which `view` reads bytes. It is a handle of a `HandlePool`."""

    keeps_interrupts = False  # no C code calls the reader

    def __init__(self, reader: Reader, file: WavFile) -> None:
        self.reader = reader
        self.lease = ThreadLease(1)
        self.idle_since = 0.0
        self._file = file
        self._memory = file.source.view() if isinstance(file.source, MemorySource) else None

    def view(self, position: int, size: int) -> memoryview:
        """Return exactly ``size`` bytes from ``position``, without a copy if the source is in memory.

        All bytes must be within the size that the file had when it was opened. Raises `ReadError` if the file was
        truncated since.
        """
        if self._memory is not None:
            return self._memory[position : position + size]
        data = self.reader.read_at(position, size)
        if len(data) < size:
            raise ReadError(
                f"{self._file.name} was cut short after it was opened: {size} bytes were expected at {position}, "
                f"{len(data)} are there."
            )
        return memoryview(data)

    def close(self) -> None:
        self.reader.close()


def _open_reader(source: Source) -> Reader:
    target = source.open_bytes() if isinstance(source, PathSource) else source.open()
    if not isinstance(target, Reader):
        raise OpenError(
            f"Could not open {source.describe()}: WavDecoder needs a file that can be read at any position; "
            "use AudioDecoder, or give the bytes."
        )
    return target


def num_lead_bytes(encoding: SampleEncoding) -> int:
    """Return how many bytes must come before the first sample in the argument ``raw`` of `convert_samples`."""
    return 1 if encoding.num_bytes == 3 else 0


def convert_samples(raw: memoryview, encoding: SampleEncoding, samples: NDArray[np.float32]) -> None:
    """Convert the stored bytes ``raw`` to floats, and write them to ``samples``, an array (channels, samples).

    Integers are scaled to [-1, 1), and floats are rounded to float32. ``raw`` starts with `num_lead_bytes` bytes of any
    value, followed by the interleaved samples.
    """
    stored = _integers_of_24_bits(raw, encoding) if encoding.num_bytes == 3 else np.frombuffer(raw, _dtype(encoding))
    with np.errstate(over="ignore", invalid="ignore"):  # a double beyond float32 is infinite, as in C
        np.copyto(samples, stored.reshape(-1, len(samples)).T, casting="same_kind")
    if encoding.is_float:
        return
    # The factors are powers of two, so the conversion to float32 is the only rounding.
    samples *= np.float32(2.0 ** -(8 * stored.dtype.itemsize - 1))
    if encoding.num_bytes == 1:
        samples -= np.float32(1)


def _dtype(encoding: SampleEncoding) -> np.dtype[Any]:
    kind = "f" if encoding.is_float else "u" if encoding.num_bytes == 1 else "i"
    return np.dtype(f"{'>' if encoding.is_big_endian else '<'}{kind}{encoding.num_bytes}")


def _integers_of_24_bits(raw: memoryview, encoding: SampleEncoding) -> NDArray[np.int32]:
    """Read 24-bit integers, multiply them by 256, and return them as 32-bit integers.

    Each integer is read as 32 bits, together with the byte before it. This is three times as fast as moving single
    bytes. The additional byte is then removed::

        little-endian    [other, low, mid, high]    the other byte is the lowest: clear it
        big-endian       [other, high, mid, low]    the other byte is the highest: shift it out
    """
    count = (len(raw) - 1) // 3
    order = ">" if encoding.is_big_endian else "<"
    overlapping: NDArray[np.int32] = np.ndarray((count,), f"{order}i4", raw, strides=(3,))
    if encoding.is_big_endian:
        return np.left_shift(overlapping, 8, dtype=np.int32)
    return np.bitwise_and(overlapping, -256, dtype=np.int32)
