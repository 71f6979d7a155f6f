"""Compare classifiers with docTR's results for the same weights, recorded by ``record_ocr_detection.py``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.models import classification
from mediatensor.ocr.models.classification import mobilenet, resnet, starnet, textnet, vit_det
from ocr_records import read_record
from ocr_weights import assert_summary, describe_state, fill, formula_input

RECORDS: dict[str, dict[str, Any]] = read_record("classification_models")
CFGS = {
    name: cfg for module in (mobilenet, resnet, starnet, textnet, vit_det) for name, cfg in module.default_cfgs.items()
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "resnet34_wide" else name for name in RECORDS]
)
def test_same_weights_give_the_same_scores_as_in_doctr(name: str) -> None:
    record = RECORDS[name]
    model = fill(getattr(classification, name)(), record["gain"])
    assert describe_state(model) == record["state"]
    with torch.no_grad():
        scores = model(formula_input((2, 3, 64, 96)))
    assert_summary(scores, record["scores"])


@pytest.mark.parametrize("name", list(RECORDS))
def test_configuration_equals_doctr(name: str) -> None:
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


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("mobilenet_v3_small_crop_orientation", [0, -90, 180, 90]),
        ("ppocr_mobile_v2_line_orientation", [0, 180]),
    ],
)
def test_configuration_of_a_model_is_its_own(name: str, classes: list[int]) -> None:
    make = getattr(classification, name)
    make().cfg["classes"].append(45)
    assert make().cfg["classes"] == classes


def test_orientation_networks_keep_the_size_that_they_are_for() -> None:
    for factory in (
        classification.mobilenet_v3_small_crop_orientation,
        classification.mobilenet_v3_small_page_orientation,
    ):
        model = factory(input_shape=(3, 96, 128)).eval()
        assert model.cfg["input_shape"] == (3, 96, 128)
        assert model(torch.zeros(2, 3, 96, 128)).shape == (2, 4)
        assert factory().cfg["input_shape"] != (3, 96, 128)


@pytest.mark.parametrize("name", [pytest.param("resnet31", marks=pytest.mark.slow), "starnet_s3", "vit_det_s"])
def test_networks_without_head_return_its_input(name: str) -> None:
    whole = fill(getattr(classification, name)(num_classes=5))
    features = fill(getattr(classification, name)(num_classes=5, include_top=False))
    images = formula_input((2, 3, 32, 64))
    seen = features(images)
    assert isinstance(seen, list) == (name == "vit_det_s")
    head = list(whole)[len(list(features)) :]
    torch.testing.assert_close(torch.nn.Sequential(*head)(seen), whole(images))


def test_detection_transformers_return_features_of_requested_layers() -> None:
    model = classification.VisionDetectionTransformer(
        24, 4, 2, input_shape=(3, 64, 32), window_block_indexes=[0, 2], out_feature_indexes=[1, -1], include_top=False
    )
    assert [tuple(features.shape) for features in model(torch.zeros(1, 3, 64, 32))] == [(1, 24, 16, 8)] * 2
    with pytest.raises(InvalidArgumentError, match="15 x 8 patches"):
        model(torch.zeros(1, 3, 60, 32))


def test_windows_do_not_see_each_other() -> None:
    def changed(windowed: list[int]) -> torch.Tensor:
        torch.manual_seed(0)
        model = classification.VisionDetectionTransformer(
            24, 2, 2, window_block_indexes=windowed, out_feature_indexes=[1], include_top=False
        ).eval()
        image = formula_input((1, 3, 64, 64))
        other = image.clone()
        other[..., :16, :16] += 1  # the first window of 4 x 4
        return (model(image)[0] != model(other)[0]).any(dim=1)[0]

    alone, together = changed([0, 1]), changed([0])
    assert alone.nonzero().amax() == 3
    assert together.all()


EMPTY_BATCHES: dict[str, Callable[[], torch.nn.Module]] = {
    "VIPNet": lambda: classification.VIPNet(16, (16, 32, 48), (1, 1, 1), (2, 4, 4), (2, 2, 2), num_classes=5),
    "VisionTransformer": lambda: classification.VisionTransformer(24, 1, 2, 2, num_classes=5),
    "VisionDetectionTransformer": lambda: classification.VisionDetectionTransformer(
        24, 2, 2, window_block_indexes=[0], out_feature_indexes=[1], num_classes=5
    ),
    "MAGC": lambda: classification.ResNet(
        [1], [16], [1], [False], [None], False, stem_channels=8, attn_module=classification.MAGC, num_classes=5
    ),
}


@pytest.mark.parametrize("name", EMPTY_BATCHES)
def test_attention_takes_batches_without_images(name: str) -> None:
    model = EMPTY_BATCHES[name]().eval()
    assert model(torch.zeros(0, 3, 32, 64)).shape == (0, 5)
    assert model(torch.zeros(2, 3, 32, 64)).shape == (2, 5)


def test_published_weights_of_other_classes_keep_the_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arch = "mobilenet_v3_small_crop_orientation"
    published = fill(classification.mobilenet_v3_small_crop_orientation())
    torch.save(published.state_dict(), tmp_path / f"{arch}.pt")
    monkeypatch.setenv("MEDIATENSOR_MODELS", str(tmp_path))
    model = classification.mobilenet_v3_small_crop_orientation(pretrained=True, num_classes=2)
    assert model.classifier[3].out_features == 2
    torch.testing.assert_close(model.features.state_dict(), published.features.state_dict())


def test_heads_of_several_layers_are_skipped_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save(fill(classification.vit_det_s()).state_dict(), tmp_path / "vit_det_s.pt")
    monkeypatch.setenv("MEDIATENSOR_MODELS", str(tmp_path))
    model = classification.vit_det_s(pretrained=True, num_classes=2)
    assert (model[4].norm.weight == 1).all()
    torch.testing.assert_close(model[2].state_dict(), fill(classification.vit_det_s())[2].state_dict())


def test_absent_weights_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDIATENSOR_MODELS", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="mobilenet_v3_small_page_orientation-8e60325c"):
        classification.mobilenet_v3_small_page_orientation(pretrained=True)
