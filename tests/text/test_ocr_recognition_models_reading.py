"""Test the decoding of scores into words, and the joining of texts of overlapping pieces."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest
import torch

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.models._lines.characters import ctc_best_path
from mediatensor.ocr.models.recognition import CTCPostProcessor, ViTSTRPostProcessor
from mediatensor.ocr.models.recognition.utils import (
    merge_multi_strings,
    merge_strings,
    remap_preds,
    split_crops,
)
from ocr_records import read_record

RECORDED: dict[str, Any] = read_record("recognition_merging")


def slowly(best: torch.Tensor, labels: torch.Tensor, blank: int) -> list[list[tuple[int, int, int, float]]]:
    """Return label, start, stop and greatest probability of each run, computed step by step."""
    sequences = []
    for probabilities, row in zip(best.tolist(), labels.tolist(), strict=True):
        characters, step = [], 0
        for label, run in groupby(row):
            stop = step + len(list(run))
            if label != blank:
                characters.append((label, step, stop, max(probabilities[step:stop])))
            step = stop
        sequences.append(characters)
    return sequences


def test_best_path_equals_a_slow_one() -> None:
    # With few classes, runs are long and also reach the end of a row.
    probabilities = torch.rand(40, 23, 4, generator=torch.Generator().manual_seed(1)).softmax(dim=-1)
    expected = slowly(*probabilities.max(dim=-1), blank=2)
    for given in (probabilities, tuple(probabilities.max(dim=-1))):
        decoded = ctc_best_path(given, blank=2)
        assert len(decoded) == 40
        for index, characters in enumerate(expected):
            own = decoded.sequence(index)
            found = zip(own.labels, own.start_steps, own.stop_steps, own.confidences.tolist(), strict=True)
            assert [(int(a), int(b), int(c), d) for a, b, c, d in found] == characters
            peaks = probabilities[index, own.peak_steps, own.labels]
            assert peaks.tolist() == own.confidences.tolist()


@pytest.mark.parametrize("shape", [(0, 5, 3), (2, 0, 3), (0, 0, 3)])
def test_best_path_of_no_steps_has_no_labels(shape: tuple[int, ...]) -> None:
    decoded = ctc_best_path(torch.zeros(shape), blank=0)
    assert len(decoded) == shape[0]
    assert decoded.labels.size == 0
    assert decoded.lowest.tolist() == [0.0] * shape[0]


def test_best_path_takes_any_floating_type_and_survives_nan() -> None:
    probabilities = torch.tensor([[[0.25, 0.75], [0.5, 0.125]]])
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        assert ctc_best_path(probabilities.to(dtype), blank=1).confidences.tolist() == [0.5]
    decoded = ctc_best_path(torch.full((1, 3, 2), float("nan")), blank=1)
    assert (decoded.peak_steps < decoded.stop_steps).all()


@pytest.mark.parametrize(
    "wrong", [torch.zeros(3, 4), torch.zeros(2, 3, 0), (torch.zeros(2, 3), torch.zeros(2, 4, dtype=torch.int64))]
)
def test_best_path_names_wrong_shapes(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="shape"):
        ctc_best_path(wrong, blank=0)


def log_scores(rows: list[list[float]]) -> torch.Tensor:
    """Return scores whose softmax is the given probabilities."""
    return torch.tensor([rows]).log()


def test_ctc_confidence_is_the_least_certain_step_blanks_included() -> None:
    scores = log_scores([[0.75, 0.125, 0.125], [0.25, 0.25, 0.5], [0.125, 0.625, 0.25]])
    [(word, confidence)] = CTCPostProcessor("ab")(scores)
    assert word == "ab"
    assert confidence == pytest.approx(0.5)


def test_confidence_of_a_sequence_is_the_mean_before_its_end() -> None:
    read = ViTSTRPostProcessor("ab")
    scores = log_scores([[0.75, 0.125, 0.125], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5], [0.9, 0.05, 0.05]])
    [(word, confidence)] = read(scores)
    assert word == "ab"
    assert confidence == pytest.approx(0.625)
    assert read(scores[:, 2:]) == [("", 0.0)]


def test_texts_are_joined_as_docTR_joins_them() -> None:
    for left, right, ratio, joined in RECORDED["merged"]:
        assert merge_strings(left, right, ratio) == joined, (left, right, ratio)
    assert merge_multi_strings([], 0.5, 0.5) == ""
    assert merge_multi_strings(["only"], 0.5, 0.5) == "only"


def test_crops_are_cut_where_docTR_cuts_them() -> None:
    for height, width, columns, last_overlap in RECORDED["splits"]:
        crop = torch.arange(width).expand(3, height, width)
        pieces, ((number, overlap),) = split_crops([crop], max_ratio=8, target_ratio=6, split_overlap_ratio=0.5)
        assert [[int(piece[0, 0, 0]), int(piece[0, 0, -1])] for piece in pieces] == columns
        assert (number, overlap) == (len(columns), pytest.approx(last_overlap))
        assert pieces[0].data_ptr() == crop.data_ptr()


def test_pieces_of_several_crops_come_back_in_order() -> None:
    crops = [torch.zeros(3, 8, 20), torch.zeros(3, 8, 100), torch.zeros(3, 8, 30)]
    pieces, of_crop = split_crops(crops, 8, 6, 0.5)
    assert [number for number, _ in of_crop] == [1, 4, 1]
    assert len(pieces) == 6
    preds = [("Donau", 0.75), ("naudampf", 0.5), ("ampfschiff", 0.25)]
    remapped = remap_preds([*preds, preds[1]], [(3, 0.5), (1, 0.0)], 0.5)
    assert remapped == [tuple(pair) for pair in RECORDED["remapped"]]


@pytest.mark.parametrize("ratio", [0.0, 1.0, -0.5])
def test_overlap_is_a_share(ratio: float) -> None:
    with pytest.raises(InvalidArgumentError, match="split_overlap_ratio"):
        split_crops([], 8, 6, ratio)
