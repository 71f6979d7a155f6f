"""Theora without an encoder, of which PyAV's wheels have none: flat blocks, with several quantizers a picture."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from media_audio_surgery import ogg_page
from media_surgery import BitWriter

__all__ = ["write_theora"]

_NUM_QUANTIZERS, _NUM_HUFFMAN_TABLES, _NUM_TOKENS = 64, 80, 32
_GOP_LENGTH, _GRANULE_SHIFT = 12, 6
_EOB_RUN = 6  # a token: this number of blocks (twelve bits) has no more coefficients
_ONES_AND_TWOS = (9, 10, 11, 12)  # tokens for the coefficients 1, -1, 2 and -2


def _identification(width: int, height: int, rate: int) -> bytes:
    bits = BitWriter()
    for number, num_bits in (
        (0x030201, 24), (width // 16, 16), (height // 16, 16), (width, 24), (height, 24), (0, 16), (rate, 32), (1, 32),
        (0, 24), (0, 24), (0, 8), (0, 24), (0, 6), (_GRANULE_SHIFT, 5), (0, 2), (0, 3),
    ):  # fmt: skip
        bits.bits(number, num_bits)
    return b"\x80theora" + bits.to_bytes()


def _setup() -> bytes:
    bits = BitWriter()
    bits.bits(0, 3)  # no loop filter
    for _ in ("AC", "DC"):
        bits.bits(9, 4)
        for quantizer in range(_NUM_QUANTIZERS):
            bits.bits(40 + 12 * quantizer, 10)  # hundredths of the matrix
    bits.bits(2 - 1, 9)  # matrices
    for _ in range(2 * 64):
        bits.bits(16, 8)
    for kind in range(6):  # intra and inter of each plane
        if kind:
            bits.bits(0, 1)  # as the one before
            if kind >= 3:
                bits.bits(0, 1)
            continue
        bits.bits(0, 1)  # from this matrix
        bits.bits(62, 6)  # over all quantizers
        bits.bits(1, 1)  # to that one
    for _ in range(_NUM_HUFFMAN_TABLES):
        _flat_tree(bits, 0, _NUM_TOKENS)
    return b"\x82theora" + bits.to_bytes()


def _flat_tree(bits: BitWriter, first: int, count: int) -> None:
    """All tokens have codes of five bits, which are their numbers."""
    if count == 1:
        bits.bits(1, 1)
        bits.bits(first, 5)
        return
    bits.bits(0, 1)
    _flat_tree(bits, first, count // 2)
    _flat_tree(bits, first + count // 2, count // 2)


def _put_run(bits: BitWriter, flag: int, length: int) -> None:
    """That many flags of one value."""
    bits.bits(flag, 1)
    for shortest, prefix, num_prefix_bits, num_bits in (
        (34, 0b111111, 6, 12), (18, 0b111110, 6, 4), (10, 0b11110, 5, 3), (6, 0b1110, 4, 2), (4, 0b110, 3, 1),
        (2, 0b10, 2, 1), (1, 0b0, 1, 0),
    ):  # fmt: skip
        if length >= shortest:
            bits.bits(prefix, num_prefix_bits)
            bits.bits(length - shortest, num_bits)
            return


def _picture(width: int, height: int, quantizers: Sequence[int], chance: random.Random, *, is_key: bool) -> bytes:
    """A picture of which every block is coded, with the first quantizer, and is flat or adds something flat."""
    num_blocks = width * height * 3 // 2 // 64
    superblocks = [-(-width // 32) * -(-height // 32), *[-(-width // 64) * -(-height // 64)] * 2]
    bits = BitWriter()
    bits.bits(0, 1)
    bits.bits(0 if is_key else 1, 1)
    for number, quantizer in enumerate(quantizers):
        bits.bits(quantizer, 6)
        bits.bits(number + 1 < len(quantizers), 1)
    if is_key:
        bits.bits(0, 3)
    else:
        _put_run(bits, 0, sum(superblocks))  # none coded in part
        _put_run(bits, 1, sum(superblocks))  # but wholly
        bits.bits(7, 3)  # modes as numbers
        for _ in range(width * height // 256):
            bits.bits(0, 3)  # from the picture before, without motion
        bits.bits(0, 1)
    if len(quantizers) > 1:
        _put_run(bits, 0, num_blocks)  # the first quantizer
    bits.bits(0, 8)  # tables of the constant coefficients
    for _ in range(num_blocks):
        bits.bits(chance.choice(_ONES_AND_TWOS), 5)
    bits.bits(0, 8)  # and of the remaining blocks
    bits.bits(_EOB_RUN, 5)
    bits.bits(num_blocks, 12)
    return bits.to_bytes()


def write_theora(path: Path, quantizers: Sequence[Sequence[int]], *, size: tuple[int, int]) -> None:
    """Write a clip in Ogg of 25 frames a second, of which every twelfth is a key frame; sizes are multiples of 16.

    Each frame states one or two quantizers, and uses the first.
    """
    chance = random.Random(0)
    packets = [(_identification(*size, rate=25), 0), (b"\x81theora" + bytes(8), 0), (_setup(), 0)]
    for number, chosen in enumerate(quantizers):
        since_key = number % _GOP_LENGTH
        granule = (number - since_key + 1 << _GRANULE_SHIFT) + since_key
        packets.append((_picture(*size, chosen, chance, is_key=since_key == 0), granule))
    last = len(packets) - 1
    flags = {0: 2, last: 4}
    pages = [ogg_page([packet], at, 1, n, flags.get(n, 0)) for n, (packet, at) in enumerate(packets)]
    path.write_bytes(b"".join(pages))
