"""`check_dataset` finds parts that two videos share after common changes, and does not join different videos."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from checked_files import write
from manifests import write_manifest
from mediatensor.datasets import Finding, check_dataset

HEIGHT, WIDTH, RATE = 72, 128, 25
NUM_FRAMES = 200


@functools.cache
def film(seed: int, num_frames: int = NUM_FRAMES) -> Tensor:
    """Frames (N, 3, H, W) of a camera that wanders over a random picture."""
    generator = torch.Generator().manual_seed(seed)
    texture = torch.rand(1, 3, 9, 16, generator=generator)
    large = torch.nn.functional.interpolate(texture, (3 * HEIGHT, 3 * WIDTH), mode="bicubic")[0].clamp(0, 1) * 180 + 40
    goals = torch.rand(num_frames // RATE + 2, 2, generator=generator)
    at = torch.arange(num_frames) / RATE
    left = at.long()
    share = (1 - torch.cos(torch.pi * (at - left)))[:, None] / 2
    places = (goals[left] * (1 - share) + goals[left + 1] * share) * torch.tensor([2 * HEIGHT - 1, 2 * WIDTH - 1])
    frames = torch.stack([large[:, y : y + HEIGHT, x : x + WIDTH] for y, x in places.long().tolist()])
    return frames.to(torch.uint8)


def copies_of(path: Path, *paths: Path, state: Path | None = None) -> list[Finding]:
    """The findings on near copies in the last of some files; those of the state are not read again."""
    report = check_dataset([*paths, path], num_workers=0, state_file=state)
    for file in report.files[:-1]:
        assert "near-duplicate" not in [finding.kind for finding in file.findings]
    return [finding for finding in report.files[-1].findings if finding.kind == "near-duplicate"]


def resize(frames: Tensor, height: int, width: int) -> Tensor:
    return torch.nn.functional.interpolate(frames.float(), (height, width), mode="area").to(torch.uint8)


def draw_caption(frames: Tensor) -> Tensor:
    """White bars in place of letters at the bottom, in the second and the last quarter."""
    frames = frames.clone()
    for part in (slice(50, 100), slice(150, 200)):
        for column in range(30, 98, 4):
            frames[part, :, 62:68, column : column + 2] = 255
    return frames


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "encoded again": lambda frames: frames,
    "half the size": lambda frames: resize(frames, HEIGHT // 2, WIDTH // 2),
    "bars": lambda frames: torch.nn.functional.pad(frames, (0, 0, 12, 12)),
    "pillars": lambda frames: torch.nn.functional.pad(frames, (20, 20, 0, 0)),
    "brighter": lambda frames: (frames.float() * 1.3).clamp(0, 255).to(torch.uint8),
    "less contrast": lambda frames: ((frames.float() - 128) * 0.7 + 128).to(torch.uint8),
    "gamma": lambda frames: (255 * (frames.float() / 255) ** 1.4).to(torch.uint8),
    "caption": draw_caption,
    "cropped": lambda frames: resize(frames[:, :, 4:-4, 6:-6], HEIGHT, WIDTH),
}


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("others")
    return [write(folder / f"{seed}.mp4", film(seed)) for seed in (1, 2)]


@pytest.mark.parametrize("change", CHANGES)
def test_changed_copies_are_found(change: str, others: list[Path], tmp_path: Path) -> None:
    changed = write(tmp_path / "changed.mp4", CHANGES[change](film(1)), crf=32)
    (found,) = copies_of(changed, *others, state=others[0].with_name("state"))
    assert found.other_name == str(others[0])
    assert found.message.startswith(f"copy of {others[0]} from 0.")
    assert "mirrored" not in found.message
    assert found.start_seconds == pytest.approx(0, abs=0.5)
    assert found.end_seconds == pytest.approx(8, abs=0.5)
    assert found.other_end_seconds == pytest.approx(8, abs=0.5)


def test_parts_are_found_with_their_places(tmp_path: Path) -> None:
    frames = film(1)
    original = write(tmp_path / "original.mp4", frames)
    trimmed = write(tmp_path / "trimmed.mp4", frames[75:])
    (found,) = copies_of(trimmed, original)
    places = found.start_seconds, found.end_seconds, found.other_start_seconds, found.other_end_seconds
    assert places == pytest.approx((0, 5, 3, 8), abs=0.5)
    slower = frames[torch.arange(0, NUM_FRAMES * 4 // 5) * 5 // 4]
    mirrored = write(tmp_path / "mirrored.mp4", slower.flip(3), rate=20)
    (found,) = copies_of(mirrored, original)
    assert found.message.endswith(", mirrored")
    assert found.end_seconds == pytest.approx(8, abs=0.5)
    # A film that has the first and the last part of one film, and then another film.
    joined = write(tmp_path / "joined.mp4", torch.cat([frames[:80], frames[120:], film(2, 100)]))
    other = write(tmp_path / "other.mp4", film(2, 100))
    found_parts = sorted(copies_of(joined, original, other), key=lambda one: one.start_seconds or 0)
    assert [Path(one.other_name or "").name for one in found_parts] == ["original.mp4", "original.mp4", "other.mp4"]
    starts = [(one.start_seconds, one.other_start_seconds) for one in found_parts]
    assert np.ravel(starts) == pytest.approx([0, 0, 3.2, 4.8, 6.4, 0], abs=0.9)


def set_up(seed: int) -> Tensor:
    """A light square that wanders in front of a fixed background, which is the same for every seed."""
    generator = torch.Generator().manual_seed(seed)
    frames = film(9, 1).repeat(NUM_FRAMES, 1, 1, 1)
    goals = torch.rand(NUM_FRAMES // 20 + 2, 2, generator=generator)
    for number in range(NUM_FRAMES):
        left, share = divmod(number / 20, 1)
        place = goals[int(left)] * (1 - share) + goals[int(left) + 1] * share
        y, x = (place * torch.tensor([52, 108])).int().tolist()
        frames[number, :, y : y + 20, x : x + 20] = 230
    return frames


def cards(seed: int) -> Tensor:
    """White boxes on black that fade in and out, at the same times and in much the same place for every seed."""
    generator = torch.Generator().manual_seed(seed)
    frames = torch.zeros(NUM_FRAMES, 3, HEIGHT, WIDTH)
    for start in range(0, NUM_FRAMES, 50):
        left, width = torch.randint(20, 50, (2,), generator=generator).tolist()
        fade = (torch.minimum(torch.arange(50), 49 - torch.arange(50)) / 10).clamp(max=1)
        frames[start : start + 50, :, 28:42, left : left + width] = 240 * fade[:, None, None, None]
    return frames.to(torch.uint8)


@pytest.mark.parametrize(
    "make",
    [
        film,
        set_up,
        cards,
        lambda seed: torch.full((NUM_FRAMES, 3, HEIGHT, WIDTH), 16, dtype=torch.uint8),
        lambda seed: film(seed, 4).repeat_interleave(50, 0),
        lambda seed: film(seed, 1),
    ],
    ids=["camera", "set-up", "title cards", "black", "slides", "one frame"],
)
def test_different_films_are_not_joined(make: Callable[[int], Tensor], tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{seed}.mp4", make(seed), crf=20 + seed) for seed in range(1, 5)]
    report = check_dataset(paths, num_workers=0)
    assert "near-duplicate" not in report.counts()


def test_shared_titles_do_not_join_films(tmp_path: Path) -> None:
    titles = film(5, 50)
    paths = [write(tmp_path / f"{seed}.mp4", torch.cat([titles, film(seed, 250)])) for seed in (1, 2)]
    assert copies_of(paths[1], paths[0]) == []


def test_rows_that_are_segments_have_their_own_copies(tmp_path: Path) -> None:
    frames = film(1, 400)
    write(tmp_path / "long.mp4", frames)
    write(tmp_path / "part.mp4", frames[200:])
    rows = [
        {"path": "long.mp4", "start": 0.0, "end": 8.0},
        {"path": "long.mp4", "start": 8.0, "end": 16.0},
        {"path": "part.mp4", "start": 0.0, "end": 4.0},
        {"path": "part.mp4", "start": 4.0, "end": 8.0},
    ]
    write_manifest(tmp_path / "rows.csv", rows)
    report = check_dataset(tmp_path / "rows.csv", num_workers=0)
    found = [[one for one in file.findings if one.kind == "near-duplicate"] for file in report.files]
    assert [len(findings) for findings in found] == [0, 0, 1, 1]
    for (finding,), start in zip(found[2:], (0.0, 4.0), strict=True):
        assert finding.start_seconds == pytest.approx(start, abs=0.5)
        assert finding.end_seconds == pytest.approx(start + 4, abs=0.5)
        assert finding.other_start_seconds == pytest.approx(8 + start, abs=0.5)


def test_copies_are_found_in_a_stored_state_and_past_damage(tmp_path: Path) -> None:
    original = write(tmp_path / "original.mp4", film(1))
    damaged = write(tmp_path / "damaged.mkv", film(1), crf=30)
    data = bytearray(damaged.read_bytes())
    data[-len(data) // 4 :] = bytes(len(data) // 4)
    damaged.write_bytes(data)
    state = tmp_path / "state"
    first = check_dataset([original, damaged], num_workers=0, state_file=state)
    again = check_dataset([original, damaged], num_workers=0, state_file=state)
    assert first == again
    assert "near-duplicate" in [finding.kind for finding in again.files[1].findings]
    (facts,) = [file["facts"] for file in again.to_json()["files"][:1]]
    assert "picture_signature" not in facts
