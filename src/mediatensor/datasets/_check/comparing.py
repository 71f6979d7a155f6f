"""What only shows between files: copies, and those that are not like the others. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .findings import CheckedFile, Finding, MediaFacts

__all__ = ["compared"]

# Of fewer files, none is "odd"; of more, nearly all must agree.
_MIN_FILES, _MIN_SHARE = 10, 0.9
# Of 512 bits; encoding anew changes a few, and other videos have about half of them the same.
_MOST_BITS_APART = 40
_MOST_SHARE_APART = 0.02
_ROWS_AT_A_TIME = 256


def compared(files: Sequence[CheckedFile]) -> list[CheckedFile]:
    """The files, with what was found by comparing them added to their findings."""
    added: dict[int, list[Finding]] = defaultdict(list)
    copies = _duplicates(files, added)
    _near_duplicates(files, copies, added)
    _odd_ones_out(files, added)
    return [
        replace(file, findings=(*file.findings, *added[number])) if number in added else file
        for number, file in enumerate(files)
    ]


def _duplicates(files: Sequence[CheckedFile], added: dict[int, list[Finding]]) -> set[int]:
    """Note every file whose bytes an earlier one has, and return their numbers."""
    first: dict[str, int] = {}
    copies = set()
    for number, file in enumerate(files):
        digest = file.facts.digest
        if digest is None:
            continue
        original = first.setdefault(digest, number)
        # Rows that are parts of one file are no copies.
        if original != number and files[original].name != file.name:
            copies.add(number)
            added[number].append(Finding("duplicate", f"the same bytes as {files[original].name}"))
    return copies


def _near_duplicates(files: Sequence[CheckedFile], copies: set[int], added: dict[int, list[Finding]]) -> None:
    numbers = [number for number, file in enumerate(files) if file.facts.picture_hash and number not in copies]
    if len(numbers) < 2:
        return
    hashes = [bytes.fromhex(files[number].facts.picture_hash or "") for number in numbers]
    bits = np.unpackbits(np.frombuffer(b"".join(hashes), np.uint8).reshape(len(numbers), -1), axis=1)
    signs = bits.astype(np.float32) * 2 - 1
    seconds = np.array([files[number].facts.duration_seconds or 0.0 for number in numbers])
    for top in range(0, len(numbers), _ROWS_AT_A_TIME):
        part = slice(top, top + _ROWS_AT_A_TIME)
        apart = (signs.shape[1] - signs[part] @ signs.T) / 2
        longer = np.maximum(seconds[part, None], seconds[None])
        is_as_long = np.abs(seconds[part, None] - seconds[None]) <= _MOST_SHARE_APART * longer
        is_near = (apart <= _MOST_BITS_APART) & is_as_long
        for row, column in zip(*np.nonzero(np.tril(is_near, top - 1)), strict=True):
            number, earlier = numbers[top + row], numbers[column]
            is_first = not any(finding.kind == "near-duplicate" for finding in added[number])
            if is_first and files[number].name != files[earlier].name:
                text = f"the same pictures as {files[earlier].name} ({int(apart[row, column])} of 512 bits differ)"
                added[number].append(Finding("near-duplicate", text))
    for number in numbers:
        if not added[number]:
            del added[number]


def _odd_ones_out(files: Sequence[CheckedFile], added: dict[int, list[Finding]]) -> None:
    for kind, describe in _COMPARED.items():
        texts = {number: text for number, file in enumerate(files) if (text := describe(file.facts)) is not None}
        if len(texts) < _MIN_FILES:
            continue
        usual, count = Counter(texts.values()).most_common(1)[0]
        if count < _MIN_SHARE * len(texts):
            continue
        for number, text in texts.items():
            if text != usual:
                words = f"{text}, where {count} of {len(texts)} files have {usual}"
                added[number].append(Finding(kind, words))


def _size(facts: MediaFacts) -> str | None:
    return None if facts.width is None else f"{facts.width}x{facts.height}"


def _rotation(facts: MediaFacts) -> str | None:
    return None if facts.num_frames is None else f"a rotation of {facts.rotation or 0.0:g} degrees"


def _rate(facts: MediaFacts) -> str | None:
    return None if facts.average_fps is None else f"{facts.average_fps:.1f} frames/s"


def _sound(facts: MediaFacts) -> str | None:
    return None if facts.sample_rate is None else f"{facts.sample_rate} Hz, {facts.num_channels} channels"


_COMPARED = {"odd-size": _size, "odd-rotation": _rotation, "odd-rate": _rate, "odd-sound": _sound}
