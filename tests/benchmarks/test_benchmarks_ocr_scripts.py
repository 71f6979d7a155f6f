"""Fitting and measuring the script classifier: the same lines give the same numbers, and tables agree."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("matplotlib", reason="lines are rendered in its fonts")
pytest.importorskip("fontTools", reason="finds the characters of fonts")

import matplotlib
from benchmarks.calibration.script_lines import READABLE, READABLE_KINDS, LinePainter
from benchmarks.calibration.scripts import Sample, fit

ROOT = Path(__file__).parents[2]
FACES = str(Path(matplotlib.get_data_path()) / "fonts" / "ttf")


def samples(number: int, seed: int) -> list[Sample]:
    """Lines of two scripts: one has a few steps of its own kind, the readable one has none."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for index in range(number):
        features = torch.randn(20 + index % 30, 120, generator=generator)
        script = ("Greek", READABLE)[index % 2]
        if script:
            features[5:8, :10] += 3
        found.append(Sample(features.half(), script, script or "Latin"))
    return found


@pytest.mark.slow
def test_a_fit_tells_its_lines_apart_and_comes_out_the_same_again(training_seed: int) -> None:
    first, again = (fit(samples(256, 0), 1 + training_seed) for _ in range(2))

    for name, values in first.named_buffers():
        assert torch.equal(values, again.get_buffer(name))
    assert first.names == (READABLE, "Greek")
    others = samples(64, 2)
    named = [
        first.names[int(first(own.features[None], torch.ones(1, len(own.features), dtype=torch.bool)).argmax())]
        for own in others
    ]
    assert sum(name == own.script for name, own in zip(named, others, strict=True)) >= 60


@pytest.mark.slow
@pytest.mark.parametrize("held_out", [True, False])
def test_the_same_seed_draws_the_same_lines(held_out: bool) -> None:
    kinds = dict.fromkeys(("Cyrillic", "Vietnamese", *READABLE_KINDS), 3)
    one, other = (list(LinePainter([FACES], held_out=held_out, seed=4).lines(kinds)) for _ in range(2))

    assert [(line.text, line.face) for line in one] == [(line.text, line.face) for line in other]
    assert all((a.picture == b.picture).all() for a, b in zip(one, other, strict=True))
    assert {line.kind for line in one if line.script == READABLE} >= {"Blots"}
    opposite = LinePainter([FACES], held_out=not held_out, seed=4).lines(kinds)
    assert not {line.face for line in one if line.face} & {line.face for line in opposite}
