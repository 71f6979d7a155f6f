"""The text of pages equals, to the letter, the text with onnxruntime's networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mediatensor.ocr.models import ocr_predictor
from ocr_onnx_sessions import by_onnxruntime, published_recogniser, require_weights
from ocr_pages import render_page
from ocr_reading import words_of
from real_files import TEST_DATA

REAL_PAGES = sorted((TEST_DATA / "ocr").glob("*/images/*"))
ALL_PAGES: list[Any] = REAL_PAGES or [
    pytest.param(Path("none"), marks=pytest.mark.skip(reason=f"needs real pages in {TEST_DATA / 'ocr'}"))
]


def published_predictor(**options: Any) -> Any:
    """The default predictor without our weights of accents: onnxruntime runs the published file."""
    require_weights()
    return ocr_predictor(pretrained=True, reco_arch=published_recogniser(), **options)


@pytest.fixture(scope="module")
def predictor() -> Any:
    """Scripts are classified by features of our network, which onnxruntime does not give."""
    return published_predictor(unreadable_scripts="read")


def assert_same(predictor: Any, page: np.ndarray) -> None:
    ours = predictor([page])
    with by_onnxruntime(predictor) as asked:
        theirs = predictor([page])
    assert {"detector", "recogniser"} == set(asked)
    assert ours.render() == theirs.render()
    assert len(ours.render()) > 50, "an empty page would agree with anything"
    # Confidences as well; boxes are cut at pixels of the detector's map, of which one may tip over.
    for word, other in zip(words_of(ours), words_of(theirs), strict=True):
        assert abs(word.confidence - other.confidence) < 5e-3
        np.testing.assert_allclose(np.array(word.geometry), np.array(other.geometry), atol=2e-3)


@pytest.mark.slow
def test_a_drawn_page_reads_as_with_onnxruntime() -> None:
    # It looks at small pages as they are.
    assert_same(
        published_predictor(shorter_side=352),
        render_page("receipt", seed=1, dpi=100, size=(3.5, 4), noise=6).image,
    )


@pytest.mark.slow
def test_rotated_text_reads_as_with_onnxruntime() -> None:
    turned = published_predictor(assume_straight_pages=False, shorter_side=352)
    page = render_page("receipt", seed=2, dpi=100, size=(3.5, 4), rotation=7).image
    ours = turned([page]).render()
    assert len(ours) > 50
    with by_onnxruntime(turned):
        assert turned([page]).render() == ours


@pytest.mark.slow
@pytest.mark.parametrize("path", ALL_PAGES[::15], ids=lambda path: path.stem)  # one of each set; each takes seconds
def test_real_pages_read_as_with_onnxruntime(predictor: Any, path: Path) -> None:
    assert_same(predictor, np.array(Image.open(path).convert("RGB")))
