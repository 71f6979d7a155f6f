"""Damage files by a seed: arbitrary bytes, or bytes that store lengths. Pure functions."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from .arguments import odd_arguments
from .containers import EXTREMES, lie_in_structure
from .packets import rearrange_packets
from .sealed import change_sealed

__all__ = ["mutated"]

Mutate = Callable[[random.Random, bytes, bytes], bytes]


def mutated(kind: str, rng: random.Random, data: bytes, other: bytes) -> tuple[bytes, list[str]]:
    """Return a damaged file and the changes; the other file is for splices."""
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        mutate = rng.choice(_mutations_of("parquet" if data[:4] == b"PAR1" else kind))
        data = mutate(rng, data, other)
        done.append(mutate.__name__)
    return data, done


def _mutations_of(kind: str) -> Sequence[Mutate]:
    if kind == "calls":
        return (*(odd_arguments,) * 9, change_sealed)
    if kind in ("exports", "state"):  # from a program that could read them
        return (change_text, *(change_sealed,) * 12)
    if kind == "mappings":
        return (flip_bits, cut, change_text, change_text, *(change_sealed,) * 8)
    if kind == "parquet":
        return (flip_bits, set_bytes, cut, *(change_sealed,) * 9)
    if kind == "rows":
        return (flip_bits, cut, repeat, exchange, splice, *(change_text,) * 8, *(change_sealed,) * 8)
    if kind in ("index", "weights", "tar"):  # files with checksums: more code is reached after the check
        return (*_ANYWHERE, *(change_sealed,) * len(_ANYWHERE))
    if kind in ("video", "audio", "command"):
        return (*_ANYWHERE, *(lie_in_structure,) * 8, *(rearrange_packets,) * 5)
    if kind in ("wav", "image", "document", "still"):
        return (*_ANYWHERE, *(lie_in_structure,) * 8)
    return (*_ANYWHERE, *(change_text,) * 8)


def _place(rng: random.Random, size: int) -> int:
    """Somewhere, and often near the beginning, where headers are."""
    if size == 0:
        return 0
    return rng.randrange(min(size, 400)) if rng.random() < 0.3 else rng.randrange(size)


def _stretch(rng: random.Random, size: int) -> slice:
    start = _place(rng, size)
    longest = rng.choice((4, 64, 1024, max(1, size // 3)))
    return slice(start, min(size, start + rng.randint(1, longest)))


def flip_bits(rng: random.Random, data: bytes, other: bytes) -> bytes:
    spoiled = bytearray(data)
    for _ in range(rng.choice((1, 1, 4, 32)) if spoiled else 0):
        spoiled[_place(rng, len(data))] ^= 1 << rng.randrange(8)
    return bytes(spoiled)


def set_bytes(rng: random.Random, data: bytes, other: bytes) -> bytes:
    spoiled, where = bytearray(data), _stretch(rng, len(data))
    count = len(spoiled[where])
    spoiled[where] = rng.choice((bytes(count), b"\xff" * count, rng.randbytes(count)))
    return bytes(spoiled)


def set_number(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """A number of 1 to 8 bytes, at the ends of its range or near them."""
    spoiled, size = bytearray(data), rng.choice((1, 2, 4, 8))
    at = _place(rng, len(data))
    number = rng.choice(EXTREMES) % (1 << 8 * size)
    spoiled[at : at + size] = number.to_bytes(size, rng.choice(("little", "big")))[: len(data) - at]
    return bytes(spoiled)


def cut(rng: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: _place(rng, len(data))]


def remove(rng: random.Random, data: bytes, other: bytes) -> bytes:
    where = _stretch(rng, len(data))
    return data[: where.start] + data[where.stop :]


def repeat(rng: random.Random, data: bytes, other: bytes) -> bytes:
    where = _stretch(rng, len(data))
    return data[: where.stop] + data[where] * rng.choice((1, 2, 20)) + data[where.stop :]


def exchange(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Two stretches change places."""
    one, two = sorted((_stretch(rng, len(data)), _stretch(rng, len(data))), key=lambda where: where.start)
    if one.stop > two.start:
        one = slice(one.start, two.start)
    return data[: one.start] + data[two] + data[one.stop : two.start] + data[one] + data[two.stop :]


def splice(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """The beginning of one file, the end of another, or one after the other."""
    if rng.random() < 0.3:
        return data + other
    return data[: _place(rng, len(data))] + other[_place(rng, len(other)) :]


_TOKEN = re.compile(rb'-?\d+(\.\d+)?|"[^"\n]*"|[A-Za-z]+|[^\w\s]+')
_WORDS = (
    b"-1", b"0", b"1e999", b"1e308", b"NaN", b"99999999999999999999", b"9" * 5000, b"null", b"true", b"[]", b"{}", b'"',
    b"\\", b"\\ud83d", b"[" * 3000, b"{\\p1}", b"<" * 200, b"-->", b"\0", b"\r", b"\xff\xfe", b"\xe2\x80\xae",
)  # fmt: skip


def change_text(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """A number or a word of a text file takes the place of another, or of something no one expects."""
    found = list(_TOKEN.finditer(data))
    if not found:
        return data
    for match in sorted(rng.sample(found, min(len(found), rng.choice((1, 1, 3)))), key=re.Match.start, reverse=True):
        data = data[: match.start()] + rng.choice((*_WORDS, rng.choice(found)[0])) + data[match.end() :]
    return data


_ANYWHERE: tuple[Mutate, ...] = (
    flip_bits, flip_bits, flip_bits, set_bytes, set_bytes, set_number, set_number, cut, remove, repeat, exchange, splice
)  # fmt: skip
