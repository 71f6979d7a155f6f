# ruff: noqa: RUF001 - quotation marks
"""Test the PP-OCR networks: shapes, results of ``forward``, training, saving and loading."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont

from mediatensor.errors import InvalidArgumentError, WeightsError
from mediatensor.ocr.models import ocr_predictor, ppocr_v6_small_det, ppocr_v6_small_reco
from mediatensor.ocr.models._lines.characters import replace_zeros
from mediatensor.ocr.models._lines.cutting import cut_lines, padded_width
from mediatensor.ocr.models._lines.reading import read_lines
from mediatensor.ocr.models.classification import ppocr_mobile_v2_line_orientation
from ocr_onnx_sessions import require_weights
from ocr_reading import reader, text_page

BOXES = {"words": np.array([[0.1, 0.2, 0.9, 0.5]], np.float32)}


@pytest.fixture(scope="module")
def detector() -> Any:
    require_weights()
    return ppocr_v6_small_det(pretrained=True)


@pytest.fixture(scope="module")
def recogniser() -> Any:
    require_weights()
    return ppocr_v6_small_reco(pretrained=True)


@pytest.fixture(scope="module")
def page() -> torch.Tensor:
    """Return a page as input of the detector: BGR, normalised, with sides that are multiples of 32."""
    image = torch.from_numpy(text_page().image).permute(2, 0, 1).flip(0) / 127.5 - 1
    return torch.nn.functional.pad(image, (0, -image.shape[2] % 32, 0, -image.shape[1] % 32), value=1.0)[None]


def test_number_of_parameters_matches_the_card(detector: Any, recogniser: Any) -> None:
    for model, millions in ((detector, 2.5), (recogniser, 5.3), (ppocr_mobile_v2_line_orientation(), 0.13)):
        assert sum(parameter.numel() for parameter in model.parameters()) / 1e6 == pytest.approx(millions, rel=0.05)


@pytest.mark.parametrize(
    "text",
    [
        "„Gdzie są żółte łodzie?“",
        "¡Qué día tan largo!",
        "Ĉu vi aŭdas la ĵurnaliston?",
        "Őszintén szólva hűvös van.",
        "Țin minte și eu.",
        "Ďábel a ťuhýk",
        "Œuvres complètes et sœurs",
        "Er sagte: ‚Gut‘ und ging",
        "“‘Ďaleko,’ he said—and don’t look",
        "”Det är långt”, sa hon.",
        "Jack's and \"Jill's\" well-known 6-3 win",
    ],
)
def test_signs_and_accents_are_read(text: str) -> None:
    """The published weights misread each of these lines, except the last, whose signs must stay straight."""
    image = Image.new("RGB", (900, 90), "white")
    face = ImageFont.truetype(font_manager.findfont("DejaVu Sans"), 30)
    ImageDraw.Draw(image).text((30, 25), text, font=face, fill=0)
    assert reader()([np.array(image)]).render() == text


def test_boxes_of_the_detector_are_lines(detector: Any, page: torch.Tensor) -> None:
    with torch.inference_mode():
        ((found,),) = [out.values() for out in detector(page)["preds"]]
        rotated_model = copy.deepcopy(detector)
        rotated_model.assume_straight_pages = False
        ((rotated,),) = [out.values() for out in rotated_model(page)["preds"]]
    assert found.shape == (3, 5)
    assert rotated.shape == (3, 5, 2)
    assert ((found[:, :4] >= 0) & (found[:, :4] <= 1)).all()
    size = np.array([page.shape[3], page.shape[2]])
    order = found[:, 1].argsort()
    for box, line in zip(found[order], text_page().lines, strict=True):
        np.testing.assert_allclose(box[:4] * np.tile(size, 2), line.quad[[0, 2]].ravel(), atol=12)
    assert not detector.training


@pytest.mark.slow
@pytest.mark.parametrize("which", ["detector", "recogniser", "classifier"])
def test_training_step_lowers_the_loss(which: str, training_seed: int) -> None:
    torch.manual_seed(training_seed)
    inputs: dict[str, tuple[Any, torch.Tensor, Any]] = {
        "detector": (ppocr_v6_small_det(), torch.randn(2, 3, 64, 96), [BOXES, BOXES]),
        "recogniser": (ppocr_v6_small_reco(vocab="abc "), torch.randn(2, 3, 48, 64), ["ab c", "cab"]),
        "classifier": (ppocr_mobile_v2_line_orientation(), torch.randn(4, 3, 48, 192), torch.tensor([0, 1, 0, 1])),
    }
    model, x, target = inputs[which]
    assert model.training
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(12):
        out = model(x, target) if which != "classifier" else None
        loss = torch.nn.functional.cross_entropy(model(x), target) if out is None else out["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]
    unused = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert unused == []


def test_a_page_without_text_has_a_loss() -> None:
    torch.manual_seed(0)
    model = ppocr_v6_small_det()
    page = torch.randn(1, 3, 64, 64)
    out = model(page, [{"words": np.zeros((0, 4), np.float32)}])
    out["loss"].backward()
    assert torch.isfinite(out["loss"])
    # By the formulas, the focal loss of background with weight one half, and a dice loss of 1.
    with torch.no_grad():
        out = model(page, [{}], return_model_output=True)
    p = out["out_map"]
    torch.testing.assert_close(out["loss"], 10 * (-0.5 * p**2 * torch.log(1 - p)).mean() + 1)


def test_a_target_that_the_vocabulary_lacks_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="z"):
        ppocr_v6_small_reco(vocab="abc")(torch.zeros(1, 3, 48, 64), ["abz"])


def test_recogniser_output_has_the_requested_entries(recogniser: Any) -> None:
    lines = torch.zeros(2, 3, 48, 80)
    with torch.inference_mode():
        out = recogniser(lines, return_model_output=True, return_preds=True)
    assert out["out_map"].shape == (2, 10, 18_712)
    assert len(out["preds"]) == 2
    assert all(isinstance(text, str) and 0 <= confidence <= 1 for text, confidence in out["preds"])
    assert set(recogniser(lines, ["ab", "c"])) == {"loss"}


def test_saved_models_load(recogniser: Any, detector: Any, tmp_path: Path) -> None:
    torch.save(detector.state_dict(), tmp_path / "detector.pt")
    again = ppocr_v6_small_det().eval()
    again.from_pretrained(str(tmp_path / "detector.pt"))
    x = torch.randn(1, 3, 64, 64)
    with torch.inference_mode():
        out = {"return_model_output": True}
        torch.testing.assert_close(again(x, **out)["out_map"], detector(x, **out)["out_map"])
    torch.save(recogniser.state_dict(), tmp_path / "recogniser.pt")
    # A head with other classes does not fit.
    with pytest.raises(WeightsError, match="does not fit"):
        ppocr_v6_small_reco(vocab="abc").from_pretrained(str(tmp_path / "recogniser.pt"))
    full = ppocr_v6_small_reco(vocab=recogniser.characters).eval()
    full.from_pretrained(str(tmp_path / "recogniser.pt"))
    line = torch.randn(1, 3, 48, 64)
    with torch.inference_mode():
        torch.testing.assert_close(full.features(line), recogniser.features(line))


def test_line_reads_the_same_in_any_batch(recogniser: Any) -> None:
    page = text_page()
    image = torch.from_numpy(page.image).permute(2, 0, 1)
    quads = np.stack([line.quad + np.array([[-4, -5], [4, -5], [4, 5], [-4, 5]]) for line in page.lines])
    short = np.stack([word.quad + np.array([[-4, -5], [4, -5], [4, 5], [-4, 5]]) for word in page.words])
    every = np.concatenate([quads, short])
    with torch.inference_mode():
        together = read_lines(recogniser, image, every)
        alone = [read_lines(recogniser, image, every[[index]])[0] for index in range(len(every))]
        backwards = read_lines(recogniser, image, every[::-1])[::-1]
    for others in (alone, backwards):
        for one, other in zip(together, others, strict=True):
            assert [(word.value, word.box, word.boxes) for word in one.words] == [
                (word.value, word.box, word.boxes) for word in other.words
            ]
            # Rounding differs between a batch and a single line.
            assert one.confidence == pytest.approx(other.confidence, abs=1e-4)
    assert [" ".join(word.value for word in one.words) for one in together[:3]] == [line.text for line in page.lines]


@pytest.mark.parametrize("width", [1, 8, 31, 32, 33, 300, 320, 1000, 4096])
def test_padding_is_small_and_depends_only_on_the_width(width: int) -> None:
    padded = padded_width(width)
    assert padded >= width
    assert padded % 32 == 0
    assert padded - width < max(32, width / 4)
    assert len({padded_width(one) for one in range(1, 4097)}) < 50


def test_crops_are_the_pixels_of_the_page() -> None:
    generator = np.random.default_rng(0)
    page = torch.from_numpy(generator.integers(0, 256, (3, 100, 200), dtype=np.uint8))
    quad = np.array([[[40, 20], [140, 20], [140, 68], [40, 68]]], float)
    (batch,) = cut_lines(page, quad, 48, 4096)
    assert batch.widths == [100]
    torch.testing.assert_close(batch.data[0, :, :, :100], page[:, 20:68, 40:140] / 255, atol=1e-4, rtol=0)
    assert batch.data[..., 100:].isnan().all()
    # Read from its other side, it is upside down.
    (turned,) = cut_lines(page, np.roll(quad, 2, axis=1), 48, 4096)
    torch.testing.assert_close(turned.data[..., :100], batch.data[..., :100].flip(2, 3), atol=1e-4, rtol=0)
    (side,) = cut_lines(page, np.roll(quad, 1, axis=1), 100, 4096)
    torch.testing.assert_close(
        side.data[0, :, :, :48], torch.rot90(page[:, 20:68, 40:140], -1, (1, 2)) / 255, atol=1e-4, rtol=0
    )


def test_large_lines_are_averaged_and_not_sampled() -> None:
    # The mean of one-pixel stripes is gray, while single samples are black or white.
    page = torch.zeros(3, 400, 800, dtype=torch.uint8)
    page[:, :, ::2] = 255
    quad = np.array([[[100, 100], [700, 100], [700, 292], [100, 292]]], float)
    (batch,) = cut_lines(page, quad, 48, 4096)
    inside = batch.data[0, :, :, 5 : batch.widths[0] - 5]
    assert (inside - 0.5).abs().max() < 0.3
    assert inside.mean() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("shape", [(1, 1), (3, 4000), (4000, 3)])
def test_crops_of_quads_beyond_and_without_extent(shape: tuple[int, int]) -> None:
    page = torch.full((3, *shape), 200, dtype=torch.uint8)
    quads = np.array(
        [
            [[-50, -50], [500, -50], [500, 500], [-50, 500]],
            [[0, 0], [0, 0], [0, 0], [0, 0]],
            [[5, 5], [5, 5], [5, 9], [5, 9]],
            [[-100, -100], [-90, -100], [-90, -90], [-100, -90]],
        ],
        float,
    )
    seen = []
    for batch in cut_lines(page, quads, 48, 4096):
        for index, width in zip(batch.indices, batch.widths, strict=True):
            seen.append(index)
            assert 8 <= width <= 4096
    assert sorted(seen) == [0, 1, 2, 3]


def test_networks_get_bgr_from_minus_one_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the input as in PaddleOCR: BGR, and 0 (gray) in the padding of a line."""
    require_weights()
    predictor = ocr_predictor(pretrained=True, assume_straight_pages=False, shorter_side=320)
    page = text_page().image.copy()
    page[..., 0], page[..., 2] = 255, np.minimum(page[..., 2], 51)
    seen: dict[str, torch.Tensor] = {}

    def spying(name: str, function: Any) -> Any:
        def call(x: torch.Tensor, *args: Any) -> Any:
            seen.setdefault(name, x.clone())
            return function(x, *args)

        return call

    detector, recogniser = predictor.det_predictor.model, predictor.reco_predictor.model
    monkeypatch.setattr(detector, "logits", spying("detector", detector.logits))
    monkeypatch.setattr(recogniser, "features", spying("recogniser", recogniser.features))
    classifier = predictor.line_classifier
    monkeypatch.setattr(classifier, "forward", spying("classifier", classifier.forward))
    predictor([page])
    assert set(seen) == {"detector", "recogniser", "classifier"}
    for name, lines in seen.items():
        padding = (lines == 0).all(dim=1, keepdim=True).expand_as(lines)
        blue, green, red = lines.masked_fill(padding, torch.nan).transpose(0, 1)
        # The paper is (255, 255, 51) and the ink (255, 0, 0) in RGB.
        for channel, least, most in ((blue, -1, -0.6), (green, -1, 1), (red, 1, 1)):
            values = channel[~channel.isnan()]
            assert values.min() == pytest.approx(least, abs=0.15), name
            assert values.max() == pytest.approx(most, abs=0.02), name
    assert not (seen["detector"] == 0).all(dim=1).any(), "pages are not padded"
    assert (seen["recogniser"] == 0).all(dim=1)[..., -1].any(), "lines are"


@pytest.mark.parametrize(
    ("read", "meant"),
    [
        ("00O0", "0000"),
        ("10:O0:0O.5", "10:00:00.5"),
        ("OO0OO", "00000"),
        ("1,0OO.00 EUR", "1,000.00 EUR"),
        # These letters can be right.
        ("5O2 OO7 OSO 0", "5O2 OO7 OSO 0"),
        ("A0O1 B00O", "A0O1 B00O"),
        ("0o17 0D 0A 10日", "0o17 0D 0A 10日"),
        ("", ""),
    ],
)
def test_letters_like_zero_next_to_zero_become_zero(read: str, meant: str) -> None:
    assert "".join(replace_zeros(read)) == meant
