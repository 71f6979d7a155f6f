"""Stored samples as float32, one row for each channel: the numbers that FFmpeg's resampler gives. Pure; no I/O."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._wav_header import SampleEncoding

__all__ = ["convert_samples", "num_lead_bytes"]

_NATIVE_ORDER = "<" if sys.byteorder == "little" else ">"


def num_lead_bytes(encoding: SampleEncoding) -> int:
    """How many bytes in front of the first sample `convert_samples` wants to see."""
    return 1 if encoding.num_bytes == 3 else 0


def convert_samples(raw: memoryview, encoding: SampleEncoding, samples: NDArray[np.float32]) -> None:
    """Write stored samples as float32: integers as [-1, 1), floats as they are, rounded to float32.

    Args:
        raw: The bytes of the samples, those of one moment side by side, after `num_lead_bytes` others.
        encoding: Of them.
        samples: What is filled, (channels, samples).
    """
    stored = _integers_of_24_bits(raw, encoding) if encoding.num_bytes == 3 else np.frombuffer(raw, _dtype(encoding))
    with np.errstate(over="ignore", invalid="ignore"):  # a double beyond float32 is infinite, as in C
        np.copyto(samples, stored.reshape(-1, len(samples)).T, casting="same_kind")
    if encoding.is_float:
        return
    # Powers of two: nothing is rounded after the conversion to float32.
    samples *= np.float32(2.0 ** -(8 * stored.dtype.itemsize - 1))
    if encoding.num_bytes == 1:
        samples -= np.float32(1)


def _dtype(encoding: SampleEncoding) -> np.dtype[Any]:
    kind = "f" if encoding.is_float else "u" if encoding.num_bytes == 1 else "i"
    return np.dtype(f"{'>' if encoding.is_big_endian else '<'}{kind}{encoding.num_bytes}")


def _integers_of_24_bits(raw: memoryview, encoding: SampleEncoding) -> NDArray[np.int32]:
    """24-bit integers in the upper bits of 32.

    Each is read together with the byte in front of it, three times as fast as putting the bytes into place::

        little-endian    [other, low, mid, high]    the other byte is the lowest: clear it
        big-endian       [other, high, mid, low]    the other byte is the highest: shift it out
    """
    count = (len(raw) - 1) // 3
    order = ">" if encoding.is_big_endian else "<"
    overlapping: NDArray[np.int32] = np.ndarray((count,), f"{order}i4", raw, strides=(3,))
    if encoding.is_big_endian:
        return np.left_shift(overlapping, 8, dtype=f"{_NATIVE_ORDER}i4")
    return np.bitwise_and(overlapping, -256, dtype=f"{_NATIVE_ORDER}i4")
