"""Steps of a predictor on a device: copies in one piece, and the results of the CPU."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fake_device import crossings
from mediatensor.ocr.models import (
    crop_orientation_predictor,
    ocr_predictor,
    page_orientation_predictor,
    recognition,
    recognition_predictor,
)
from mediatensor.ocr.models._lines.cutting import cut_words
from mediatensor.ocr.models._lines.ink import ink_map, ink_of_line, inks_of_lines
from mediatensor.ocr.models._networks.transfers import constant, download, have_all_ended, upload_images
from mediatensor.ocr.models.recognition import ppocr_v6_small_reco
from mediatensor.ocr.models.utils import add_whitelist
from ocr_onnx_sessions import require_weights
from ocr_reading import reader, text_page, words_of

ARCHITECTURES = ["crnn_mobilenet_v3_small", "sar_resnet31", "master", "vitstr_small", "parseq", "viptr_tiny"]
MAX_LENGTH = 24
WRITING = {"sar_resnet31", "master", "parseq"}
"""These write one character after the other, up to :data:`MAX_LENGTH`."""


@pytest.fixture
def crops() -> list[Tensor]:
    """Three of 16 by 40 pixels up to 16 by 80, uint8."""
    draw = torch.Generator().manual_seed(1)
    return [torch.randint(0, 256, (3, 16, width), generator=draw, dtype=torch.uint8) for width in (40, 80, 60)]


def test_tensors_are_downloaded_together_unchanged(fake_device: torch.device) -> None:
    tensors = [
        torch.rand(2, 3).T,
        torch.arange(5) > 2,
        torch.tensor(7),
        torch.zeros(0, 4),
        torch.arange(6, dtype=torch.int32).view(2, 3)[:, 1:],
        torch.rand(3, dtype=torch.float16),
        torch.rand(3, dtype=torch.float64, requires_grad=True),
        torch.arange(3, dtype=torch.uint8),
    ]
    with crossings() as seen:
        arrays = download(*(tensor.to(fake_device) for tensor in tensors))
    assert (seen.num_waits, len(seen.downloads)) == (1, 1), seen
    assert seen.downloaded_bytes == sum(tensor.nbytes for tensor in tensors)
    for array, tensor in zip(arrays, tensors, strict=True):
        expected = tensor.detach().numpy()
        assert (array.dtype, array.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(array, expected)
    assert download() == []


def test_on_the_cpu_nothing_is_copied() -> None:
    data = torch.zeros(3)
    (array,) = download(data)
    array[1] = 5
    assert data.tolist() == [0, 5, 0]
    assert upload_images([data], torch.device("cpu"))[0] is data


def test_images_of_each_type_share_one_upload(fake_device: torch.device, crops: list[Tensor]) -> None:
    there = torch.ones(3, 4, 4, device=fake_device)
    given = [crops[0], crops[1].float() / 255, there, crops[2].permute(0, 2, 1), torch.ones(1, device="fake:1")]
    with crossings() as seen:
        placed = upload_images(given, fake_device)
    assert len([crossing for crossing in seen.uploads if crossing.num_bytes]) == 2, seen
    assert placed[2] is there
    assert all(image.device == fake_device for image in placed)
    assert all(torch.equal(image.cpu(), other.cpu()) for image, other in zip(placed, given, strict=True))


def test_constants_are_uploaded_once(fake_device: torch.device) -> None:
    constant((0.25, 0.125), fake_device)
    with crossings() as seen:
        values = constant((0.25, 0.125), fake_device)
    assert not seen.uploads
    assert values.tolist() == [0.25, 0.125]


def test_end_of_words_is_checked_rarely(fake_device: torch.device) -> None:
    ended = torch.tensor([True, True])
    assert have_all_ended(ended, 0)
    assert not have_all_ended(ended & torch.tensor([True, False]), 0)
    placed = ended.to(fake_device)
    with crossings() as seen:
        answers = [have_all_ended(placed, step) for step in range(16)]
    assert seen.num_waits == sum(answers) == 2
    assert not have_all_ended(placed & ~placed, 15)


@pytest.mark.parametrize("kind", ["noise", "print", "plain"])
def test_ink_of_lines_equals_the_cpu(fake_device: torch.device, kind: str) -> None:
    draw = torch.Generator().manual_seed(3)
    lines = torch.rand(6, 3, 48, 96, generator=draw)
    if kind == "print":
        lines = torch.where(lines < 0.2, 0.1, 0.9) + 0.05 * torch.rand(6, 3, 48, 96, generator=draw)
    elif kind == "plain":
        lines = torch.full_like(lines, 0.5)
    # Odd numbers of pixels do not occur; 8 and 95 columns give middles of an even number that differ.
    widths = [96, 95, 8, 33, 64, 1]
    for line, width in zip(lines, widths, strict=True):
        line[..., width:] = torch.nan
    packed = inks_of_lines(lines.to(fake_device))
    assert (packed.device, packed.dtype, tuple(packed.shape)) == (fake_device, torch.uint8, (6, 48, 12))
    (inks,), on_cpu = download(packed), inks_of_lines(lines).numpy()
    for position, width in enumerate(widths):
        expected = ink_map(lines[position].mean(0)[:, :width].numpy())
        np.testing.assert_array_equal(ink_of_line(on_cpu, position, width), expected)
        # A threshold may round apart in its last bit; where it does a pixel in a thousand is on it.
        assert (ink_of_line(inks, position, width) == expected).mean() >= 0.999
        assert expected.any() == (kind != "plain")


def test_look_alikes_are_separated_without_a_wait(fake_device: torch.device) -> None:
    torch.manual_seed(2)
    model = ppocr_v6_small_reco(vocab="ab :\N{FULLWIDTH COLON}\N{CJK UNIFIED IDEOGRAPH-4E2D}").eval()
    # Lines of all kinds: with only look-alikes, with letters that go with them, and with neither.
    features = 3 * torch.randn(64, 3, 120)
    with torch.inference_mode():
        expected = model.best_of_steps(features)
        placed = features.to(fake_device)
        model.to(fake_device)
        with crossings() as seen:
            found = model.best_of_steps(placed)
    assert seen.num_waits == 0, seen
    first = torch.nn.functional.linear(features, model.head.weight.cpu(), model.head.bias.cpu()).argmax(-1)
    assert (first != expected[1]).any()
    assert torch.equal(found[1].cpu(), expected[1])
    assert torch.allclose(found[0].cpu(), expected[0], atol=1e-6)
    assert torch.allclose(found[2].cpu(), expected[2], atol=1e-6)


@pytest.mark.parametrize(
    "arch", [ARCHITECTURES[0], *(pytest.param(arch, marks=pytest.mark.slow) for arch in ARCHITECTURES[1:])]
)
def test_networks_of_words_wait_once_a_batch(fake_device: torch.device, crops: list[Tensor], arch: str) -> None:
    torch.manual_seed(0)
    options = {"max_length": MAX_LENGTH} if arch in WRITING else {}
    predictor = recognition_predictor(getattr(recognition, arch)(**options), batch_size=2)
    # Floats, because the CPU resizes bytes by separate kernels.
    crops = [crop.float() / 255 for crop in crops]
    expected = predictor(crops)
    predictor.to(fake_device)
    with crossings() as seen:
        read = predictor([crop.to(fake_device) for crop in crops])
    assert [text for text, _ in read] == [text for text, _ in expected]
    waits = [wait for wait in seen.waits if "check_values" not in wait.where]
    questions = [wait for wait in waits if "have_all_ended" in wait.where]
    assert len(waits) - len(questions) == 2, seen
    assert len(questions) <= 2 * MAX_LENGTH / 8


def test_crops_are_classified_together(fake_device: torch.device, crops: list[Tensor]) -> None:
    require_weights()
    predictor = crop_orientation_predictor(pretrained=True)
    given = [*crops, crops[0].transpose(1, 2)]
    expected = predictor(given)
    predictor.to(fake_device)
    with crossings() as seen:
        assert predictor([crop.to(fake_device) for crop in given]) == expected
    assert seen.num_waits == 1, seen


@pytest.mark.slow
def test_the_lines_of_pages_vote_on_the_device(fake_device: torch.device) -> None:
    require_weights()
    predictor = page_orientation_predictor(pretrained=True)
    predictor.detector.pre_processor.shorter_side = 192
    upright = torch.from_numpy(text_page().image).permute(2, 0, 1)
    given = [upright, torch.rot90(upright, -1, (1, 2)), torch.rot90(upright, 2, (1, 2))]
    expected = predictor(given)
    assert expected[1] == [0, 90, 180]
    predictor.to(fake_device)
    with crossings() as seen:
        assert predictor(given)[:2] == expected[:2]
    large = [crossing.num_bytes for crossing in seen.uploads if crossing.num_bytes > 1000]
    assert large == [3 * upright.nbytes], seen
    # Pages of two shapes are searched in two batches; then the lines of each page are classified.
    assert seen.num_waits == 2 + 3, seen


def test_rotated_words_are_cut_without_a_wait(fake_device: torch.device) -> None:
    page = torch.from_numpy(text_page().image).permute(2, 0, 1)
    quads = text_page().relative_quads()
    expected = cut_words(page, quads)
    placed = page.to(fake_device)
    with crossings() as seen:
        found = cut_words(placed, quads)
    assert seen.num_waits == 0, seen
    assert [crossing.num_bytes for crossing in seen.uploads] == [44 * len(quads)]
    for crop, other in zip(found, expected, strict=True):
        assert torch.equal(crop.cpu(), other)
    assert cut_words(placed, np.zeros((1, 4, 2))) == [None]


def test_a_recogniser_of_words_works_with_a_detector_of_lines(fake_device: torch.device) -> None:
    require_weights()
    torch.manual_seed(0)
    words = recognition_predictor("crnn_mobilenet_v3_small").model
    predictor = ocr_predictor(copy.deepcopy(reader().det_predictor.model), words, assume_straight_pages=False)
    predictor.line_classifier = copy.deepcopy(reader(assume_straight_pages=False).line_classifier)
    pages = torch.from_numpy(text_page().image).permute(2, 0, 1)[None].float() / 255
    expected = predictor(pages)
    with crossings() as seen:
        read = predictor.to(fake_device)(pages.to(fake_device))
    assert [word.value for word in words_of(read)] == [word.value for word in words_of(expected)]
    assert len(words_of(read)) >= 6
    # The range of floats, detection, the turn of the page, gaps of lines, the turns of words, and the words.
    assert seen.num_waits <= 6, seen


@pytest.mark.parametrize("strategy", ["mask", "nearest"])
def test_a_whitelist_goes_to_the_device_once(fake_device: torch.device, crops: list[Tensor], strategy: str) -> None:
    torch.manual_seed(0)
    predictor = recognition_predictor("crnn_mobilenet_v3_small")
    with add_whitelist(predictor, "0123456789", strategy=strategy):
        expected = predictor(crops)
        predictor.to(fake_device)
        given = [crop.to(fake_device) for crop in crops]
        read: Any = predictor(given)
        with crossings() as seen:
            again = predictor(given)
    assert not seen.uploads, seen
    assert [text for text, _ in read] == [text for text, _ in again] == [text for text, _ in expected]
    assert "".join(text for text, _ in read).strip("0123456789") == ""
