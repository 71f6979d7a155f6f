"""Test half precision: it reads the same words as float32, and scores are computed in float32."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

import ocr_small_networks
from mediatensor.ocr.io.elements import Document
from mediatensor.ocr.models import classification, detection, recognition
from ocr_pages import render_page
from ocr_reading import geometries, reader, text_page, words_of
from ocr_weights import fill, formula_input
from real_files import TEST_DATA

HALF_TYPES = torch.bfloat16, torch.float16
HALVES = pytest.mark.parametrize("dtype", HALF_TYPES, ids=["bfloat16", "float16"])
OCR_DATA = TEST_DATA / "ocr"
DETECTORS = {"db_mobilenet_v3_large": 1.3, "linknet_resnet18": 1.0, "fast_tiny": 0.4, "ppocr_v6_small_det": 1.0}
"""One of each kind, with the gain of weights by formula that neither die out nor explode."""
RECOGNISERS = {
    "crnn_mobilenet_v3_small": 2.0,
    "sar_resnet31": 0.8,
    "master": 1.0,
    "vitstr_small": 1.0,
    "parseq": 2.0,
    "viptr_tiny": 1.0,
    "ppocr_v6_small_reco": 1.0,
}
CLASSIFIERS = {
    "mobilenet_v3_small_crop_orientation": 2.4,
    "mobilenet_v3_small_page_orientation": 2.4,
    "ppocr_mobile_v2_line_orientation": 1.0,
}
SHORT = {
    "master": {"max_length": 10, "num_layers": 1, "dff": 512},
    "sar_resnet31": {"max_length": 8},
    "parseq": {"max_length": 8},
}
WIDTHS = {"master": 32, "sar_resnet31": 32}
"""Convolutions in float16 take a CPU seconds; these backbones have the most of them, and take pictures of any width."""
THAT_WRITE = ["small_master", "small_parseq", "small_sar"]
"""Networks that decode character by character."""


@cache
def drawn_pages() -> tuple[NDArray[np.uint8], ...]:
    """Return pages like those of scanners and phones: with noise, blur, compression and low contrast."""
    return (
        render_page("letter", seed=3, dpi=75, size=(4.5, 3.5), noise=6).image,
        render_page("form", seed=3, dpi=75, size=(4.5, 3.5), contrast=0.5, noise=3).image,
        render_page("receipt", seed=3, dpi=80, size=(3.5, 4), jpeg=30, blur=0.4).image,
    )


@cache
def scans() -> tuple[NDArray[np.uint8], ...]:
    """Return the upper halves of the first form and the first receipt."""
    files = [min((OCR_DATA / name / "images").iterdir()) for name in ("funsd", "sroie")]
    pages = [np.asarray(Image.open(file).convert("RGB")) for file in files]
    return tuple(page[: len(page) // 2] for page in pages)


# For float16, which is slow on a CPU.
FIRST_PAGE, FIRST_SCAN = (lambda: drawn_pages()[:1]), (lambda: scans()[:1])


@cache
def in_float32(make: Callable[[], tuple[NDArray[np.uint8], ...]]) -> list[Document]:
    return [reader()([page]) for page in make()]


def same_words(expected: Document, read: Document) -> tuple[int, int, list[float]]:
    """Return the number of equal words at the same place, the larger number of words, and confidence differences."""
    left = words_of(read)
    total, differences = max(len(words_of(expected)), len(left)), []
    for word in words_of(expected):
        for other in left:
            if other.value == word.value and np.abs(np.subtract(other.geometry, word.geometry)).max() < 0.01:
                differences.append(abs(other.confidence - word.confidence))
                left.remove(other)
                break
    return len(differences), total, differences


def agreement(
    predictor: Any, make: Callable[[], tuple[NDArray[np.uint8], ...]], context: AbstractContextManager[Any]
) -> tuple[float, float, float]:
    """Return the share of words that equal float32, and the mean and greatest difference of confidences."""
    same, total, differences = 0, 0, []
    for page, expected in zip(make(), in_float32(make), strict=True):
        with context:
            read = predictor([page])
        counts = same_words(expected, read)
        same, total, differences = same + counts[0], total + counts[1], differences + counts[2]
    assert total > 20
    return same / total, float(np.mean(differences)), max(differences)


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the root mean square error in standard deviations."""
    return float((found - expected).square().mean().sqrt() / expected.std())


@pytest.mark.parametrize(
    ("dtype", "least", "make"),
    [
        (torch.bfloat16, 0.99, FIRST_PAGE),
        # Processors with matrix instructions for bfloat16 (AMX) round otherwise: one of 60 words differs there.
        pytest.param(torch.bfloat16, 0.98, drawn_pages, marks=pytest.mark.slow),
        pytest.param(torch.float16, 0.99, FIRST_PAGE, marks=pytest.mark.slow),
    ],
)
def test_words_on_drawn_pages_equal_float32(dtype: torch.dtype, least: float, make: Any) -> None:
    predictor = copy.deepcopy(reader()).to("cpu", dtype)
    rate, mean, greatest = agreement(predictor, make, nullcontext())
    assert rate >= least
    # Fitted confidences of small print fall from 0.99 to 0.94 where the raw ones fall from 1 to 0.996.
    assert mean < 0.02
    assert greatest < 0.15


def test_words_under_autocast_equal_float32() -> None:
    rate, mean, greatest = agreement(reader(), FIRST_PAGE, torch.autocast("cpu", torch.bfloat16))
    assert rate >= 0.99
    assert mean < 0.01
    assert greatest < 0.15


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "least", "make"), [(torch.bfloat16, 0.95, scans), (torch.float16, 0.99, FIRST_SCAN)])
def test_words_on_scans_equal_float32(dtype: torch.dtype, least: float, make: Any) -> None:
    """On four of each 98.6 % in bfloat16 and 99.8 % in float16; most of the rest have a doubtful character."""
    if not OCR_DATA.is_dir():
        pytest.skip(f"needs scanned pages in {OCR_DATA} (set MEDIATENSOR_TEST_DATA to the folder above)")
    rate, mean, _ = agreement(copy.deepcopy(reader()).to("cpu", dtype), make, nullcontext())
    assert rate >= least
    # Fitted confidences fall from 0.98 to 0.5 within one unit of the log of the odds: more than the raw ones.
    assert mean < 0.02


def test_stages_may_differ_in_type() -> None:
    predictor = copy.deepcopy(reader(assume_straight_pages=False))
    predictor.det_predictor.half()
    predictor.reco_predictor.bfloat16()
    predictor.line_classifier.half()
    page = text_page().image
    expected, read = reader(assume_straight_pages=False)([page]), predictor([page])
    assert read.render() == expected.render()
    assert np.abs(np.subtract(geometries(words_of(read)), geometries(words_of(expected)))).max() < 0.01


@HALVES
@pytest.mark.parametrize("name", DETECTORS)
def test_maps_of_detectors_are_computed_in_float32(name: str, dtype: torch.dtype) -> None:
    model = fill(getattr(detection, name)(), DETECTORS[name])
    images = formula_input((1, 3, 64, 96))
    with torch.inference_mode():
        expected = model(images, return_model_output=True)["out_map"]
        half = copy.deepcopy(model).to(dtype)
        found = half(images.to(dtype), return_model_output=True, return_preds=True)
    assert found["out_map"].dtype == torch.float32
    assert float((found["out_map"] - expected).abs().max()) < (0.1 if dtype == torch.bfloat16 else 0.02)
    # These are all results of a sigmoid that is rounded to half precision.
    assert (found["out_map"] != found["out_map"].to(dtype).float()).any()
    assert found["preds"][0]["words"].dtype == np.float64


@pytest.mark.parametrize(
    ("name", "dtypes"),
    [
        # In float16, the large backbones take seconds.
        *((name, HALF_TYPES[: 1 if name in WIDTHS else 2]) for name in RECOGNISERS),
        *(pytest.param(name, HALF_TYPES[1:], marks=pytest.mark.slow) for name in WIDTHS),
    ],
)
def test_recognisers_score_as_in_float32(name: str, dtypes: tuple[torch.dtype, ...]) -> None:
    model = fill(getattr(recognition, name)(vocab="Total12,50", **SHORT.get(name, {})), RECOGNISERS[name])
    images = formula_input((1, 3, model.cfg["input_shape"][1], WIDTHS.get(name, 128)))
    with torch.inference_mode():
        # The word is fed to the networks that read one character after the other, lest one slip decide the rest.
        expected = model(images, target=["Total"], return_model_output=True)["out_map"]
        for dtype in dtypes:
            # Copies of the largest networks take 220 MB.
            half = (model if dtype == dtypes[-1] else copy.deepcopy(model)).to(dtype)
            found = half(images.to(dtype), target=["Total"], return_model_output=True, return_preds=True)
            error = relative_error(found["out_map"].float(), expected)
            assert error < (0.03 if dtype == torch.bfloat16 else 0.005)
            assert all(0 <= confidence <= 1 for _, confidence in found["preds"])


@HALVES
@pytest.mark.parametrize("name", THAT_WRITE)
def test_recognisers_write_in_half_precision(name: str, dtype: torch.dtype) -> None:
    model = fill(getattr(ocr_small_networks, name)())
    images = formula_input((3, 3, 16, 64))
    with torch.inference_mode():
        expected = model(images)["preds"]
        found = copy.deepcopy(model).to(dtype)(images.to(dtype))["preds"]
    assert [len(word) for word, _ in found] == [len(word) for word, _ in expected]
    assert [confidence for _, confidence in found] == pytest.approx(
        [confidence for _, confidence in expected], abs=0.05
    )


@HALVES
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_decide_as_in_float32(name: str, dtype: torch.dtype) -> None:
    model = fill(getattr(classification, name)(), CLASSIFIERS[name])
    images = formula_input((3, 3, 48, 192))
    with torch.inference_mode():
        expected = model(images)
        found = copy.deepcopy(model).to(dtype)(images.to(dtype)).float()
    assert relative_error(found, expected) < (0.06 if dtype == torch.bfloat16 else 0.01)
