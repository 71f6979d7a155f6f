"""What only shows between files: copies, cameras that grow apart, and those that are not like the others. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..._engine.common.messages import counted
from .findings import CheckedFile, Finding, MediaFacts
from .rows import Row, labelled, told

__all__ = ["compared"]

# Of fewer files, none is "odd"; of more, nearly all must agree.
_MIN_FILES, _MIN_SHARE = 10, 0.9
# Of 512 bits; encoding anew changes a few, and other videos have about half of them the same.
_MOST_BITS_APART = 40
_MOST_SHARE_APART = 0.02
_ROWS_AT_A_TIME = 256
# Cameras of an episode start and stop a frame or two apart.
_EPISODE_COLUMNS = ("episode", "episode_index", "episode_id")
_MIN_APART_SECONDS, _MOST_STEPS_APART = 0.1, 2.0


def compared(
    files: Sequence[CheckedFile], rows: Sequence[Row], num_classes: int | None = None
) -> tuple[list[CheckedFile], list[Finding]]:
    """The files, with what was found by comparing them and their rows, and what was found of all of them together."""
    added: dict[int, list[Finding]] = defaultdict(list)
    for number, (file, row) in enumerate(zip(files, rows, strict=True)):
        if found := told(row, file.facts):
            added[number] += found
    together = labelled(rows, files, num_classes, added)
    copies = _duplicates(files, rows, added)
    _near_duplicates(files, rows, copies, added)
    _cameras_apart(files, rows, added)
    _odd_ones_out(files, added)
    finished = [
        replace(file, findings=(*file.findings, *added[number])) if number in added else file
        for number, file in enumerate(files)
    ]
    return finished, together


def _duplicates(files: Sequence[CheckedFile], rows: Sequence[Row], added: dict[int, list[Finding]]) -> set[int]:
    """Note every file whose bytes an earlier one has, and return their numbers."""
    first: dict[str, int] = {}
    copies = set()
    for number, file in enumerate(files):
        digest = file.facts.digest
        if digest is None:
            continue
        original = first.setdefault(digest, number)
        # Rows that are parts of one file are no copies.
        if original != number and rows[original].key != rows[number].key:
            copies.add(number)
            added[number].append(Finding("duplicate", f"the same bytes as {files[original].name}"))
    return copies


def _near_duplicates(
    files: Sequence[CheckedFile], rows: Sequence[Row], copies: set[int], added: dict[int, list[Finding]]
) -> None:
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
            is_first = all(finding.kind != "near-duplicate" for finding in added.get(number, ()))
            if is_first and rows[number].key != rows[earlier].key:
                text = f"the same pictures as {files[earlier].name} ({int(apart[row, column])} of 512 bits differ)"
                added[number].append(Finding("near-duplicate", text))


def _cameras_apart(files: Sequence[CheckedFile], rows: Sequence[Row], added: dict[int, list[Finding]]) -> None:
    """Note files whose rows name a camera and an episode, and that are longer or shorter than the others of it."""
    episodes: dict[str, list[int]] = defaultdict(list)
    for number, (file, row) in enumerate(zip(files, rows, strict=True)):
        episode = next((text for name in _EPISODE_COLUMNS if (text := str(row.extra.get(name, "")))), "")
        if episode and row.extra.get("camera") and file.facts.num_frames and row.segment == (None, None):
            episodes[episode].append(number)
    for episode, numbers in episodes.items():
        lengths = {number: files[number].facts.duration_seconds or 0.0 for number in numbers}
        # Of two, the first.
        usual = sorted(lengths.values())[len(lengths) // 2] if len(lengths) > 2 else lengths[numbers[0]]
        other = next(number for number in numbers if lengths[number] == usual)
        for number in numbers:
            apart = lengths[number] - usual
            if abs(apart) <= max(_MIN_APART_SECONDS, _MOST_STEPS_APART / (files[other].facts.average_fps or np.inf)):
                continue
            own, theirs = (files[one].facts.num_frames for one in (number, other))
            text = (
                f"{abs(apart):.2f} s {'longer' if apart > 0 else 'shorter'} than {files[other].name} of episode "
                f"{episode} ({own} frames, and {theirs})"
            )
            added[number].append(
                Finding("camera-drift", text, min(usual, lengths[number]), max(usual, lengths[number]))
            )


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
    if facts.sample_rate is None:
        return None if facts.num_frames is None else "no sound"
    return f"{facts.sample_rate} Hz, {counted(facts.num_channels or 0, 'channel')}"


def _codecs(facts: MediaFacts) -> str | None:
    return " and ".join(codec for codec in (facts.video_codec, facts.audio_codec) if codec is not None) or None


_COMPARED = {
    "odd-size": _size,
    "odd-rotation": _rotation,
    "odd-rate": _rate,
    "odd-sound": _sound,
    "odd-codec": _codecs,
}
