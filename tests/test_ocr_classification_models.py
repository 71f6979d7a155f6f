"""Classifiers against docTR's, with the same weights: ``record_ocr_detection.py`` recorded what those give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from mediatensor.errors import WeightsError
from mediatensor.ocr.models import classification
from mediatensor.ocr.models.classification import mobilenet, resnet, textnet
from ocr_weights import assert_summary, describe_state, fill, formula_input

RECORDS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "ocr" / "classification_models.json").read_text(encoding="utf-8")
)
CFGS = {**mobilenet.default_cfgs, **resnet.default_cfgs, **textnet.default_cfgs}
LARGE = {"resnet34", "resnet50", "textnet_base"}
NETWORKS = [pytest.param(name, marks=pytest.mark.slow if name in LARGE else ()) for name in RECORDS]


@pytest.mark.parametrize("name", NETWORKS)
def test_same_weights_give_the_same_scores_as_in_doctr(name: str) -> None:
    record = RECORDS[name]
    model = fill(getattr(classification, name)(), record["gain"])
    assert describe_state(model) == record["state"]
    with torch.no_grad():
        scores = model(formula_input((2, 3, 64, 96)))
    assert_summary(scores, record["scores"])


@pytest.mark.parametrize("name", list(RECORDS))
def test_configuration_is_that_of_doctr(name: str) -> None:
    cfg, expected = CFGS[name], RECORDS[name]["cfg"]
    assert [list(cfg[key]) for key in ("mean", "std", "input_shape")] == [
        expected[key] for key in ("mean", "std", "input_shape")
    ]
    classes = cfg["classes"]
    assert (classes if isinstance(expected["classes"], list) else "".join(classes)) == expected["classes"]
    assert cfg["url"].endswith(expected["file"])


def test_rectangular_variants_keep_the_width_of_words() -> None:
    words = torch.zeros(1, 3, 32, 128)
    square = classification.mobilenet_v3_small().eval().features(words)
    rectangular = classification.mobilenet_v3_small_r().eval().features(words)
    assert square.shape[-2:] == (1, 4)
    assert rectangular.shape[-2:] == (1, 32)


def test_other_classes_change_head_and_configuration_but_not_the_defaults() -> None:
    model = classification.mobilenet_v3_small_crop_orientation(num_classes=2, classes=[0, 180])
    assert model.eval()(torch.zeros(1, 3, 64, 64)).shape == (1, 2)
    assert model.cfg["classes"] == [0, 180]
    assert model.cfg["num_classes"] == 2
    assert mobilenet.default_cfgs["mobilenet_v3_small_crop_orientation"]["classes"] == [0, -90, 180, 90]


def test_configuration_of_a_model_is_its_own() -> None:
    classification.mobilenet_v3_small_crop_orientation().cfg["classes"].append(45)
    assert classification.mobilenet_v3_small_crop_orientation().cfg["classes"] == [0, -90, 180, 90]


def test_checkpoint_loads_by_path(tmp_path: Path) -> None:
    saved = fill(classification.resnet18(num_classes=3))
    torch.save(saved.state_dict(), tmp_path / "mine.pt")
    model = classification.resnet18(num_classes=3).eval()
    model.from_pretrained(str(tmp_path / "mine.pt"))
    images = formula_input((1, 3, 32, 32))
    torch.testing.assert_close(model(images), saved(images))


def test_checkpoint_of_another_network_is_refused(tmp_path: Path) -> None:
    torch.save(classification.resnet18(num_classes=3).state_dict(), tmp_path / "other.pt")
    with pytest.raises(WeightsError):
        classification.mobilenet_v3_small().from_pretrained(str(tmp_path / "other.pt"))


def test_published_weights_of_other_classes_leave_the_head_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arch = "mobilenet_v3_small_crop_orientation"
    published = fill(classification.mobilenet_v3_small_crop_orientation())
    torch.save(published.state_dict(), tmp_path / f"{arch}.pt")
    monkeypatch.setenv("MEDIATENSOR_MODELS", str(tmp_path))
    model = classification.mobilenet_v3_small_crop_orientation(pretrained=True, num_classes=2)
    assert model.classifier[3].out_features == 2
    torch.testing.assert_close(model.features.state_dict(), published.features.state_dict())


def test_absent_weights_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDIATENSOR_MODELS", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="mobilenet_v3_small_page_orientation-8e60325c"):
        classification.mobilenet_v3_small_page_orientation(pretrained=True)
