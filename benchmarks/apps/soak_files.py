"""Files for a soak: copies of good ones, a third of them broken in some way."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

_NUM_FLIPPED_BITS = 40


def _cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(1, len(content))]


def _flip_bits(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(_NUM_FLIPPED_BITS):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


#: Kinds of damage; ``None`` as a result means that the file is missing.
BREAKAGES: dict[str, Callable[[bytes, random.Random], bytes | None]] = {
    "truncated": _cut,
    "flipped bits": _flip_bits,
    "empty": lambda content, chance: b"",
    "not media": lambda content, chance: b"This is no video. " * 200,
    "missing": lambda content, chance: None,
}


def write_files(good: Sequence[Path], folder: Path, num_files: int) -> tuple[list[Path], dict[str, int]]:
    """Return (paths, number of files by kind); every third file is broken, each time in another way.

    Args:
        good: Files to copy.
        folder: Output folder.
        num_files: Number of files.
    """
    chance = random.Random(0)
    paths, kinds = [], []
    for number in range(num_files):
        content: bytes | None = good[number % len(good)].read_bytes()
        kind = "good"
        if number % 3 == 1 and content is not None:
            kind = list(BREAKAGES)[number // 3 % len(BREAKAGES)]
            content = BREAKAGES[kind](content, chance)
        path = folder / f"{number:04} {kind}.mp4"
        if content is not None:
            path.write_bytes(content)
        paths.append(path)
        kinds.append(kind)
    return paths, dict(Counter(kinds))
