"""Test predictors on a device: the same words as on the CPU, no copies of pages, one wait for each stage."""

from __future__ import annotations

import copy
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from device_crossings import Crossing, Crossings
from fake_device import crossings
from mediatensor import FrameBatch
from mediatensor.decoders import VideoDecoder
from mediatensor.encoders import VideoEncoder
from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.models import detection_predictor, kie_predictor, recognition_predictor
from mediatensor.ocr.models._lines.cutting import padded_width
from ocr_onnx_sessions import needs_weights
from ocr_pages import RenderedPage
from ocr_reading import geometries, reader, text_page, words_of

pytestmark = needs_weights

LINES = ("Invoice 2041 of the firm", "Total due: 1,250.00 EUR", "7", "Thank you very much!")
SPAN_BYTES = 44
"""Uploaded bytes for each cropped line: its corners, its width and the size of its page."""

# The steps between the networks, by the function of the library that waits.
DETECTION, READING, LINE_TURNS = "_locate_batch", "readings_of", "upside_down_probabilities"
SIGNS = "_grey_page"  # check boxes and colons are searched in the page in grey


@cache
def page() -> RenderedPage:
    return text_page(*LINES)


@cache
def pages() -> Tensor:
    """Return two different pages, (2, 3, H, W) uint8."""
    return torch.from_numpy(np.stack([page().image, 255 - page().image])).permute(0, 3, 1, 2)


@cache
def on_cpu(kind: str = "bytes", quarters: int = 0, options: tuple[tuple[str, Any], ...] = ()) -> Any:
    """Read the pages on the CPU, as bytes or floats, after a number of quarter turns."""
    given = pages() if kind == "bytes" else pages().float() / 255
    return reader(**dict(options))(torch.rot90(given, quarters, (2, 3)))


@cache
def moved(device: Any, **options: Any) -> Any:
    """Return a copy of the shared predictor, which must stay on the CPU for other tests."""
    return copy.deepcopy(reader(**options)).to(device)


def waits(seen: Crossings) -> Counter[str]:
    """Count waits by stage. A wait outside all stages has its own name."""
    found: Counter[str] = Counter()
    for wait in seen.waits:
        functions = [place.split()[1] for place in wait.where.split(" < ")]
        found[next((name for name in functions if name in (DETECTION, READING, LINE_TURNS, SIGNS)), wait.where)] += 1
    return found


def sent(seen: Crossings) -> list[Crossing]:
    """Return uploads without constants of the networks, which are uploaded once per process."""
    return [crossing for crossing in seen.uploads if " constant" not in crossing.where]


def assert_same(read: Any, expected: Any, exact: bool = False) -> None:
    """Check that the words are the same. ``exact`` is false for bytes, which the CPU resizes by other kernels.

    Even of floats, the CPU rounds otherwise: it computes a convolution and the next layer together.
    """
    words, others = words_of(read), words_of(expected)
    assert [word.value for word in words] == [word.value for word in others]
    assert len(words) > 8
    np.testing.assert_allclose(geometries(words), geometries(others), rtol=0, atol=0 if exact else 6e-3)
    confidences = [[word.confidence for word in found] for found in (words, others)]
    np.testing.assert_allclose(*confidences, rtol=0, atol=1e-5 if exact else 6e-3)
    degrees = [[page.orientation["value"] for page in document.pages] for document in (read, expected)]
    assert degrees[0] == degrees[1]


def line_bytes(page: RenderedPage) -> int:
    """Return an upper bound of the bytes copied back for the lines of a page: features and a bit per pixel."""
    total = 0
    for line in page.lines:
        width, height = np.ptp(line.quad, axis=0)
        # Detected lines are higher than their ink, so they are narrower at 48 pixels of height.
        columns = padded_width(int(48 * max(width / height, height / width)))
        # Tall boxes are read at three turns.
        # A class and two probabilities; four alternatives and their scores.
        total += (3 if height > width else 1) * (columns // 8 * (12 + 4 * 4) + 48 * columns // 8)
    return total


@pytest.mark.slow
def test_a_batch_of_frames_is_read_on_the_device(fake_device: torch.device) -> None:
    times = torch.tensor([0.0, 0.5], dtype=torch.float64)
    frames = FrameBatch(pages().to(fake_device), times, times + 0.5)
    predictor = moved(fake_device)
    with crossings() as seen:
        read = predictor(frames)
    assert_same(read, on_cpu())
    # Detection for both pages together, then each is read.
    assert waits(seen) == {DETECTION: 1, READING: 2, SIGNS: 2}, seen
    height, width = predictor.det_predictor.pre_processor.size_for(*page().image.shape[:2])
    maps = next(crossing for crossing in seen.downloads if DETECTION in crossing.where)
    # A float for the map, and a byte for the page in grey.
    assert maps.num_bytes == 2 * height * width * 5
    assert seen.downloaded_bytes - maps.num_bytes <= 2 * (line_bytes(page()) + page().image.nbytes // 3)
    assert line_bytes(page()) < page().image.nbytes / 8
    # Corners of lines, once a page.
    assert len(sent(seen)) == 2, seen
    assert sum(crossing.num_bytes for crossing in sent(seen)) <= 2 * 3 * len(LINES) * SPAN_BYTES


def test_a_video_is_decoded_and_read_on_the_device(fake_device: torch.device, tmp_path: Path) -> None:
    path = tmp_path / "page.mp4"
    VideoEncoder(pages()[:, :, :, : pages().shape[3] // 2 * 2], frame_rate=10).to_file(path, crf=5)
    frames = VideoDecoder(path, device=fake_device)[:2]
    assert frames.data.device == fake_device
    predictor = moved(fake_device)
    with crossings() as seen:
        words = words_of(predictor(frames))
    assert [word.value for word in words] == [word.value for word in words_of(on_cpu())]
    assert waits(seen) == {DETECTION: 1, READING: 2, SIGNS: 2}, seen
    assert len(sent(seen)) == 2, seen


def test_pages_on_the_host_are_uploaded_once(fake_device: torch.device) -> None:
    arrays = list(pages().permute(0, 2, 3, 1).numpy())
    predictor = moved(fake_device)
    predictor(arrays[:1])  # constants go up once
    with crossings() as seen:
        read = predictor(arrays)
    assert_same(read, on_cpu())
    # All pages in one transfer, and then the corners of lines, once per page.
    assert [crossing.num_bytes for crossing in sent(seen) if crossing.num_bytes > 1000] == [pages().nbytes], seen
    assert len(sent(seen)) == 3
    assert not any(crossing.blocking for crossing in sent(seen)), seen
    assert waits(seen) == {DETECTION: 1, READING: 2, SIGNS: 2}, seen


def test_float_pages_are_checked_once_together(fake_device: torch.device) -> None:
    given = (pages().float() / 255).to(fake_device)
    predictor = moved(fake_device)
    with crossings() as seen:
        read = predictor(given)
    assert_same(read, on_cpu("floats"), exact=True)
    looks = [wait for wait in seen.waits if "check_values" in wait.where]
    assert len(looks) == 1
    assert seen.num_waits == 6
    with pytest.raises(InvalidArgumentError, match=r"from 0\.0 to 255\.0"):
        predictor(given * 255)


TURNED = {"assume_straight_pages": False}
STRAIGHTENED = {**TURNED, "straighten_pages": True, "detect_orientation": True}


@pytest.mark.parametrize(
    ("options", "quarters", "stages"),
    [
        # First the turn of the page; text is detected again on the upright page.
        pytest.param(TURNED, 1, {DETECTION: 2, LINE_TURNS: 1, READING: 1, SIGNS: 1}, marks=pytest.mark.slow),
        (STRAIGHTENED, 1, {DETECTION: 2, LINE_TURNS: 1, READING: 1, SIGNS: 1}),
    ],
    ids=["turned", "straightened"],
)
def test_each_stage_waits_once(
    fake_device: torch.device, options: dict[str, Any], quarters: int, stages: dict[str, int]
) -> None:
    given = torch.rot90(pages()[:1], quarters, (2, 3))
    predictor = moved(fake_device, **options)
    with crossings() as seen:
        read = predictor(given.to(fake_device))
    assert_same(read, reader(**options)(given))
    found = waits(seen)
    # Lines across the page and lines with low confidence are read again together.
    again = {stage: found[stage] - number for stage, number in stages.items()}
    assert set(found) == set(stages), seen
    assert again.pop(DETECTION) == 0
    assert all(0 <= more <= len(given) for more in again.values()), seen


def test_pages_and_predictor_may_be_on_any_device(fake_device: torch.device) -> None:
    # Pages on another device are copied to the predictor's device, and a predictor can move back.
    predictor = copy.deepcopy(reader()).to("fake:1")
    assert_same(predictor(pages().to(fake_device)), on_cpu())
    one_page = [word.value for word in words_of(on_cpu().pages[0])]
    assert [word.value for word in words_of(predictor.to("cpu")(pages()[:1].to(fake_device)))] == one_page


@pytest.mark.slow
def test_hooks_and_ignored_regions_work_on_the_device(fake_device: torch.device) -> None:
    made = [copy.deepcopy(reader()) for _ in range(2)]
    for predictor in made:
        predictor.ignore_regions = np.array([[0.0, 0.0, 1.0, 0.35]])
        predictor.add_hook(lambda boxes: [page[:4] for page in boxes])
    given = pages()[:1].to(fake_device)
    read, expected = made[0].to(fake_device)(given), made[1](pages()[:1])
    assert [word.value for word in words_of(read)] == [word.value for word in words_of(expected)]
    assert 0 < len(words_of(read)) < len(words_of(on_cpu().pages[0]))
    assert torch.equal(given.cpu(), pages()[:1])


def test_key_information_waits_like_text(fake_device: torch.device) -> None:
    predictor = kie_predictor(pretrained=True, shorter_side=192)
    (expected,) = predictor(pages()[:1]).pages
    with crossings() as seen:
        (read,) = predictor.to(fake_device)(pages()[:1].to(fake_device)).pages
    assert waits(seen) == {DETECTION: 1, READING: 1, SIGNS: 1}, seen
    values = [[word.value for word in page.predictions["words"]] for page in (read, expected)]
    assert values[0] == values[1]
    assert len(values[0]) > 8


def test_detection_waits_once(fake_device: torch.device) -> None:
    predictor = detection_predictor(pretrained=True, shorter_side=192)
    expected, maps = predictor(pages(), return_maps=True)
    with crossings() as seen:
        found, own_maps = predictor.to(fake_device)(pages().to(fake_device), return_maps=True)
    assert waits(seen) == {DETECTION: 1}, seen
    for page in range(2):
        np.testing.assert_allclose(found[page]["words"], expected[page]["words"], atol=0.01)
        np.testing.assert_allclose(own_maps[page], maps[page], atol=0.05)


@pytest.mark.parametrize("device", ["cpu", "fake"])
def test_recognition_of_crops_waits_once(fake_device: torch.device, device: str) -> None:
    crops = []
    for line in page().lines:
        (left, top), (right, bottom) = line.quad[0].astype(int) - 4, line.quad[2].astype(int) + 4
        crops.append(pages()[0, :, top:bottom, left:right])
    predictor = recognition_predictor(pretrained=True)
    expected = predictor(crops)
    given = [crop.to(device) for crop in crops]
    predictor.to(fake_device)
    with crossings() as seen:
        read = predictor(given)
    assert [text for text, _ in read] == [text for text, _ in expected]
    assert waits(seen) == {READING: 1}, seen
    assert len(sent(seen)) <= (3 if device == "cpu" else 2)
