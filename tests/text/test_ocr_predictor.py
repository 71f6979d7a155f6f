"""Predictors as docTR's users write them: only the import differs. Their results and settings."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from mediatensor._engine.common.messages import forget_warnings
from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.io import Document, DocumentFile
from mediatensor.ocr.models import (
    crop_orientation_predictor,
    db_resnet50,
    detection_predictor,
    kie_predictor,
    layout_predictor,
    ocr_predictor,
    page_orientation_predictor,
    parseq,
    recognition_predictor,
    resnet18,
    video_text_predictor,
)
from mediatensor.ocr.utils.geometry import detach_scores
from mediatensor.ocr.utils.visualization import draw_boxes
from ocr_onnx_sessions import needs_weights
from ocr_reading import LINES, geometries, reader, text_page, words_of
from ocr_small_networks import small_crnn

pytestmark = [needs_weights, pytest.mark.usefixtures("features_remembered_in_module")]

TEXT = "\n".join(LINES)


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.png"
    Image.fromarray(text_page().image).save(path)
    return path


def test_snippet_recognition_of_a_word_crop(tmp_path: Path) -> None:
    word = text_page("magnificent").words[0]
    (left, top), (right, bottom) = word.quad[0] - 3, word.quad[2] + 3
    path = tmp_path / "word.png"
    Image.fromarray(text_page("magnificent").image).crop((left, top, right, bottom)).save(path)

    predictor = recognition_predictor(pretrained=True)
    out = predictor(DocumentFile.from_images(str(path)))

    ((value, confidence),) = out
    assert value == "magnificent"
    assert 0.9 < confidence <= 1


def test_snippet_detection_with_scores_and_drawing(picture: Path, plots: Any) -> None:
    predictor = detection_predictor(
        pretrained=True, assume_straight_pages=False, preserve_aspect_ratio=True, symmetric_pad=True, batch_size=1
    )
    doc = DocumentFile.from_images([str(picture)])
    out = predictor(doc)

    assert [list(page) for page in out] == [["words"]]
    boxes, scores = detach_scores([page["words"] for page in out])
    assert boxes[0].shape == (len(LINES), 4, 2)
    assert scores[0].shape == (len(LINES),)
    assert ((scores[0] > 0.5) & (scores[0] <= 1)).all()
    # Clockwise from the top left: lines of an upright page.
    for quad, line in zip(boxes[0], text_page().lines, strict=True):
        truth = line.quad / text_page().image.shape[1::-1]
        assert (quad[0] <= truth[0]).all()
        assert (quad[2] >= truth[2]).all()
        np.testing.assert_allclose(quad, truth, atol=0.08)
    draw_boxes(boxes[0], doc[0])
    assert plots.gca().get_images()
    assert plots.gca().get_lines()


def test_snippet_of_the_full_pipeline_runs(picture: Path, plots: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    monkeypatch.setattr(plots, "show", lambda **kwargs: shown.append(kwargs))

    doc = DocumentFile.from_images(str(picture))
    predictor = ocr_predictor(pretrained=True, assume_straight_pages=False)
    result = predictor(doc)
    result.show()
    synthetic_pages = result.synthesize()
    plots.imshow(synthetic_pages[0])
    plots.axis("off")
    plots.show()
    json_output = result.export()

    assert len(shown) == 2
    assert result.render() == TEXT
    assert synthetic_pages[0].shape == text_page().image.shape
    assert synthetic_pages[0].std() > 0, "something is drawn"
    assert np.array(json_output["pages"][0]["blocks"][0]["lines"][0]["words"][0]["geometry"]).shape == (4, 2)
    assert json.loads(json.dumps(json_output))["pages"][0]["dimensions"] == list(text_page().image.shape[:2])


def test_result_is_a_document_of_doctrs_kind() -> None:
    page = text_page()
    result = reader()([page.image, page.image])
    assert isinstance(result, Document)
    assert [one.page_idx for one in result.pages] == [0, 1]
    assert result.render() == f"{TEXT}\n\n\n\n{TEXT}"
    for one in result.pages:
        assert one.dimensions == page.image.shape[:2]
        assert one.orientation == one.language == {"value": None, "confidence": None}
        assert one.error is None
        np.testing.assert_array_equal(one.page, page.image)
        assert [line.render() for block in one.blocks for line in block.lines] == list(LINES)
    exported = result.export()
    word = exported["pages"][0]["blocks"][0]["lines"][0]["words"][0]
    assert list(word) == ["value", "confidence", "geometry", "objectness_score", "crop_orientation"]
    assert word["crop_orientation"] == {"value": 0, "confidence": None}
    restored = Document.from_dict(json.loads(json.dumps(exported)))
    assert restored.render() == result.render()


def test_every_word_has_a_box_scores_and_characters() -> None:
    page = text_page()
    height, width = page.image.shape[:2]
    words = words_of(reader()([page.image]))
    assert [word.value for word in words] == [word.text for word in page.words]
    for word, truth in zip(words, page.words, strict=True):
        (left, top), (right, bottom) = word.geometry
        assert 0 <= left < right <= 1
        assert 0 <= top < bottom <= 1
        assert 0.5 < word.confidence <= 1
        assert 0.5 < word.objectness_score <= 1
        # The ink of the word is inside, and its neighbours' is not.
        (x0, y0), (x1, y1) = truth.quad[0] / (width, height), truth.quad[2] / (width, height)
        slack = 1.5 / np.array([width, height])
        assert left <= x0 + slack[0]
        assert x1 - slack[0] <= right
        assert top <= y0 + slack[1]
        assert y1 - slack[1] <= bottom
        assert right - left <= (x1 - x0) + 8 / width
        assert "".join(character.value for character in word.characters) == word.value
        assert word.confidence <= min(character.confidence for character in word.characters)
        edges = [character.geometry for character in word.characters]
        assert [edge[0][0] for edge in edges] == sorted(edge[0][0] for edge in edges)
        assert edges[0][0][0] == pytest.approx(left)
        assert edges[-1][1][0] == pytest.approx(right)


def test_thresholds_are_where_doctrs_users_look_for_them() -> None:
    page = text_page().image
    predictor = copy.deepcopy(reader())
    assert predictor.reco_predictor is not None
    assert predictor.doc_builder is not None
    predictor.det_predictor.model.postprocessor.bin_thresh = 0.99999
    assert predictor([page]).render() != TEXT
    predictor.det_predictor.model.postprocessor.bin_thresh = 0.3
    assert predictor([page]).render() == TEXT
    predictor.det_predictor.model.postprocessor.box_thresh = 0.9999
    assert predictor([page]).render() == ""
    assert reader()([page]).render() == TEXT, "a copy is a copy"


def test_options_of_the_builder_reach_it() -> None:
    page = text_page().image
    whole = ocr_predictor(pretrained=True, resolve_lines=False, shorter_side=192)([page])
    (line,) = whole.pages[0].blocks[0].lines
    assert sorted(line.render().split()) == sorted(TEXT.split())
    blocks = ocr_predictor(pretrained=True, resolve_blocks=True, shorter_side=192)([page])
    assert {word.value for word in words_of(blocks)} == set(TEXT.split())
    builder = ocr_predictor(paragraph_break=0.2).doc_builder
    assert builder.paragraph_break == 0.2


def test_predictors_can_be_copied_and_pickled() -> None:
    page = text_page().image
    expected = reader()([page]).export()
    assert copy.deepcopy(reader())([page]).export() == expected
    assert pickle.loads(pickle.dumps(reader()))([page]).export() == expected
    assert copy.deepcopy(reader(assume_straight_pages=False))([page]).render() == TEXT


def test_the_state_dict_is_complete() -> None:
    blank, full = ocr_predictor(vocab=reader().reco_predictor.model.characters, shorter_side=192), reader()
    state = full.state_dict()
    assert sum(tensor.numel() for tensor in state.values()) > 7_000_000
    blank.load_state_dict(state)
    assert blank([text_page().image]).render() == TEXT


def test_results_do_not_depend_on_grad_mode_and_training_flags() -> None:
    page = text_page().image
    with torch.enable_grad():
        assert reader()([page]).render() == TEXT
    networks = [reader().det_predictor.model, reader().reco_predictor.model]
    assert not any(module.training for network in networks for module in network.modules())


def test_smaller_vocabulary_reads_only_its_characters() -> None:
    digits = ocr_predictor(pretrained=True, vocab="0123456789", min_confidence=0, shorter_side=192)
    read = digits([text_page().image]).render()
    assert set(read) <= set("0123456789 \n")
    assert "2041" in read


def test_ignored_regions_are_not_read() -> None:
    page = text_page()
    second = page.lines[1].quad / page.image.shape[1::-1]
    region = (*(second.min(0) - 0.02).tolist(), *(second.max(0) + 0.02).tolist())
    result = ocr_predictor(pretrained=True, ignore_regions=[region], shorter_side=192)([page.image])
    assert result.render().split() == f"{LINES[0]} {LINES[2]}".split()
    # The original page is shown.
    np.testing.assert_array_equal(result.pages[0].page, page.image)


@pytest.mark.parametrize("regions", [["tabel"], [(0, 0, 1)], [(0, 0, 2, 1)], [(-0.1, 0, 1, 1)], 3, [(0, 0, 1, np.nan)]])
def test_invalid_regions_raise(regions: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="ignore_regions"):
        ocr_predictor(ignore_regions=regions)


@pytest.mark.parametrize(
    ("make", "options", "match"),
    [
        (ocr_predictor, {"det_arch": "db_resnet51"}, "unknown architecture 'db_resnet51'.*db_resnet50"),
        (ocr_predictor, {"reco_arch": "crnn"}, "unknown architecture 'crnn'.*crnn_vgg16_bn"),
        (ocr_predictor, {"det_arch": "crnn_vgg16_bn"}, "unknown architecture"),
        (ocr_predictor, {"det_arch": torch.nn.Linear(1, 1)}, "not a detection model"),
        (ocr_predictor, {"reco_arch": torch.nn.Linear(1, 1)}, "not a recognition model"),
        (ocr_predictor, {"straighten": True}, r"^ocr_predictor\(\) .* 'straighten'; did you mean straighten_pages\?$"),
        (ocr_predictor, {"on_error": "ignore"}, "on_error"),
        (ocr_predictor, {"min_confidence": "high"}, "min_confidence"),
        (ocr_predictor, {"min_confidence": 2.0}, "min_confidence"),
        (ocr_predictor, {"min_confidence": float("nan")}, "min_confidence"),
        (ocr_predictor, {"det_bs": 0}, "batch_size"),
        (ocr_predictor, {"reco_bs": -1}, "batch_size"),
        (ocr_predictor, {"shorter_side": 0}, "shorter_side"),
        (kie_predictor, {"det_arch": "nothing"}, "unknown architecture"),
        (kie_predictor, {"some": 1}, r"^kie_predictor\(\) .* 'some'; it also takes .*detect_orientation"),
        (video_text_predictor, {"some": 1}, r"^video_text_predictor\(\) .* 'some'; it also takes .*languages"),
        (
            detection_predictor,
            {"short_side": 1},
            r"^detection_predictor\(\) .* did you mean shorter_side",
        ),
        (recognition_predictor, {"vocabs": "a"}, r"^ppocr_v6_small_reco_tuned\(\) .* 'vocabs'; did you mean vocab\?"),
        (partial(recognition_predictor, "crnn_vgg16_bn"), {"units": 1}, "'units'; did you mean rnn_units"),
        (layout_predictor, {"typo": 1}, "'typo'; it also takes mean, std, pretrained_backbone"),
        (crop_orientation_predictor, {"typo": 1}, "'typo'; it also takes mean, std, disabled"),
        (page_orientation_predictor, {"typo": 1}, "'typo'; it also takes disabled"),
        (db_resnet50, {"box_tresh": 0.1}, r"^db_resnet50\(\) .* 'box_tresh'; did you mean box_thresh"),
        (parseq, {"max_len": 8}, r"^parseq\(\) .* 'max_len'; did you mean max_length"),
        (resnet18, {"class_names": []}, "'class_names'; did you mean classes"),
        (detection_predictor, {"arch": None}, "unknown architecture"),
        (recognition_predictor, {"arch": None}, "unknown architecture"),
        (recognition_predictor, {"arch": small_crnn()}, "has no cfg: set it to a dict of input_shape, mean and std"),
        (partial(recognition_predictor, "crnn_mobilenet_v3_small"), {"std": (1, 0, 1)}, r"std=\(1, 0, 1\): give three"),
        (partial(detection_predictor, "fast_tiny"), {"mean": (1, 2)}, r"mean=\(1, 2\), .* give three numbers"),
        (detection_predictor, {"mean": 3}, "mean=3, .* give three numbers"),
    ],
)
def test_arguments_that_are_not_accepted(make: Any, options: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidArgumentError, match=match):
        make(**options)


@pytest.mark.parametrize("make", [ocr_predictor, kie_predictor, video_text_predictor])
def test_a_predictor_with_random_weights_warns_once(make: Any) -> None:
    forget_warnings()
    with pytest.warns(UserWarning, match=r"random weights for .*\. Give pretrained=True") as warned:
        make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make()
    assert [warning.filename for warning in warned] == [__file__]


@pytest.mark.parametrize("make", [ocr_predictor, kie_predictor, video_text_predictor])
def test_predictors_with_weights_of_the_user_do_not_warn(make: Any) -> None:
    forget_warnings()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(pretrained=True)
        make(reader().det_predictor.model, reader().reco_predictor.model)


def test_detection_returns_maps() -> None:
    predictor = detection_predictor(pretrained=True, shorter_side=192)
    page = text_page()
    boxes, maps = predictor([page.image, page.image], return_maps=True)
    assert len(boxes) == len(maps) == 2
    height, width = maps[0].shape[:2]
    assert maps[0].shape == (height, width, 1)
    assert 0 <= maps[0].min() <= maps[0].max() <= 1
    assert boxes[0]["words"].shape == (len(LINES), 5)
    # The middle of every line is marked on the map.
    for line in page.lines:
        x, y = line.quad.mean(0) / page.image.shape[1::-1]
        assert maps[0][int(y * height), int((x * width) // 4 * 4) :].max() > 0.5


def test_recognition_of_crops_of_many_sizes() -> None:
    predictor = recognition_predictor(pretrained=True, batch_size=2)
    page = text_page()
    crops = []
    for word in page.words:
        (left, top), (right, bottom) = word.quad[0].astype(int) - 3, word.quad[2].astype(int) + 4
        crops.append(page.image[top:bottom, left:right])
    read = predictor(crops)
    assert [value for value, _ in read] == [word.text for word in page.words]
    for again in (predictor(crops[::-1])[::-1], [predictor([crop])[0] for crop in crops]):
        assert [value for value, _ in again] == [value for value, _ in read]
        assert [one for _, one in again] == pytest.approx([one for _, one in read], abs=1e-4)


def test_key_information_groups_words_by_class() -> None:
    page = text_page().image
    document = kie_predictor(pretrained=True, shorter_side=192)([page, page])
    expected = words_of(reader()([page]))
    for one in document.pages:
        assert list(one.predictions) == ["words"]
        found = sorted(one.predictions["words"], key=lambda word: (round(word.geometry[0][1], 1), word.geometry[0][0]))
        assert {word.value for word in found} == {word.value for word in expected}
        assert {word.geometry for word in found} == {word.geometry for word in expected}
    assert json.loads(json.dumps(document.export()))["pages"][1]["predictions"]["words"]


def test_quads_of_an_upright_page_are_upright() -> None:
    page = text_page()
    quads = geometries(words_of(reader(assume_straight_pages=False)([page.image])))
    straight = geometries(words_of(reader()([page.image])))
    assert quads.shape == (len(page.words), 4, 2)
    np.testing.assert_allclose(np.stack([quads.min(1), quads.max(1)], 1), straight, atol=0.02)
    first = quads[:, 0]
    assert (quads[:, 1, 0] > first[:, 0]).all(), "the second corner is on the right"
    assert (quads[:, 3, 1] > first[:, 1]).all(), "the last corner is below"
