"""Compare detectors with docTR's results for the same weights, recorded by ``record_ocr_detection.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.models import detection
from mediatensor.ocr.models.detection import differentiable_binarization, fast, linknet
from ocr_records import read_record
from ocr_weights import assert_summary, describe_state, fill, formula_input

RECORDS: dict[str, dict[str, Any]] = read_record("detection_models")
CFGS = {**differentiable_binarization.default_cfgs, **fast.default_cfgs, **linknet.default_cfgs}
QUICK = {"db_mobilenet_v3_large", "fast_tiny", "linknet_resnet18"}
STRAIGHT_BOXES = [[0.1, 0.1, 0.5, 0.3], [0.5, 0.5, 0.52, 0.9], [0.2, 0.6, 0.4, 0.8]]
QUADRANGLES = [[[0.1, 0.3], [0.5, 0.1], [0.55, 0.3], [0.15, 0.5]], [[0.6, 0.6], [0.9, 0.7], [0.85, 0.9], [0.55, 0.8]]]


def boxes(values: list[Any]) -> np.ndarray:
    return np.array(values, dtype=np.float32)


@pytest.mark.parametrize("name", RECORDS)
def test_same_weights_give_the_same_maps_and_losses_as_in_doctr(name: str) -> None:
    record = RECORDS[name]
    model = fill(getattr(detection, name)(), record["gain"])
    assert describe_state(model) == record["state"]
    images = formula_input((2, 3, 64, 96))
    with torch.no_grad():
        out = model(images, return_model_output=True)
        straight = model(images, [{"words": boxes(STRAIGHT_BOXES)}] * 2)["loss"]
        rotated = model(images, [{"words": boxes(QUADRANGLES)}] * 2)["loss"]
        model.exportable = True
        only = model(images)
    assert_summary(out["out_map"], record["out_map"])
    assert list(only) == ["logits"]
    assert_summary(only["logits"], record["logits"])
    expected = model.postprocessor(out["out_map"].permute(0, 2, 3, 1).numpy())
    for preds, arrays in zip(out["preds"], expected, strict=True):
        np.testing.assert_array_equal(preds["words"], arrays[0])
    # docTR draws outlines on whole pixels, so rotated outlines differ by fractions of a pixel.
    assert abs(float(straight) - record["losses"]["straight"]) < 1e-3
    assert abs(float(rotated) - record["losses"]["rotated"]) < 5e-3


@pytest.mark.parametrize("name", [name for name in RECORDS if name in QUICK])
def test_loss_of_two_classes_matches_doctr_in_any_order(name: str) -> None:
    record = RECORDS[name]
    model = fill(getattr(detection, name)(class_names=["total", "date"]), record["gain"])
    assert model.class_names == ["date", "total"]
    assert describe_state(model) == record["state_of_two_classes"]
    date, total = boxes(STRAIGHT_BOXES[:1]), boxes(STRAIGHT_BOXES[2:])
    images = formula_input((2, 3, 64, 96))[:1]
    with torch.no_grad():
        in_order = model(images, [{"date": date, "total": total}])["loss"]
        reversed_order = model(images, [{"total": total, "date": date}])["loss"]
    assert abs(float(in_order) - record["losses"]["classes"]) < 1e-3
    assert reversed_order == in_order


@pytest.mark.parametrize("name", [name for name in RECORDS if name.startswith("fast") and name in QUICK])
def test_folding_gives_the_same_maps_and_the_state_dict_of_doctr(name: str) -> None:
    record = RECORDS[name]
    model = fill(getattr(detection, name)(exportable=True), record["gain"])
    images = formula_input((2, 3, 64, 96))
    random_state = torch.get_rng_state()
    folded = detection.reparameterize(model)
    assert folded is model
    assert torch.equal(torch.get_rng_state(), random_state)
    assert describe_state(folded) == record["folded"]["state"]
    with torch.no_grad():
        assert_summary(folded(images)["logits"], record["folded"]["logits"])
        again = detection.reparameterize(folded)(images)["logits"]
        assert_summary(again, record["logits"])


@pytest.mark.parametrize("name", list(RECORDS))
def test_configuration_equals_doctr(name: str) -> None:
    cfg, expected = CFGS[name], RECORDS[name]["cfg"]
    for key in ("mean", "std", "input_shape"):
        assert list(cfg[key]) == expected[key]
    assert cfg["url"].endswith(expected["file"])


@pytest.mark.parametrize("name", sorted(QUICK))
def test_arguments_reach_the_postprocessor(name: str) -> None:
    factory = getattr(detection, name)
    model = factory(bin_thresh=0.25, box_thresh=0.35, assume_straight_pages=False)
    assert repr(model.postprocessor).endswith("PostProcessor(bin_thresh=0.25, box_thresh=0.35)")
    assert not model.postprocessor.assume_straight_pages
    model.assume_straight_pages = True
    assert model.postprocessor.assume_straight_pages
    defaults = factory().postprocessor
    expected = {"db": (0.3, 0.1, 1.5), "linknet": (0.1, 0.1, 1.5), "fast": (0.1, 0.1, 1.0)}[name.partition("_")[0]]
    assert (defaults.bin_thresh, defaults.box_thresh, defaults.unclip_ratio) == expected


def test_only_requested_entries_are_returned() -> None:
    model = detection.linknet_resnet18().eval()
    images, target = torch.zeros(1, 3, 64, 64), [{"words": boxes(STRAIGHT_BOXES)}]
    with torch.no_grad():
        assert set(model(images)) == {"preds"}
        assert set(model(images, return_model_output=True)) == {"out_map", "preds"}
        assert set(model(images, target)) == {"loss"}
        assert set(model(images, target, return_model_output=True, return_preds=True)) == {"loss", "out_map", "preds"}


def test_building_a_model_keeps_running_statistics() -> None:
    model = detection.fast_tiny()
    assert model.training
    assert all(module.training for module in model.feat_extractor.modules())
    assert int(model.feat_extractor["1"].num_batches_tracked) == 0


def test_published_weights_of_other_classes_keep_the_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = fill(detection.db_mobilenet_v3_large())
    torch.save(published.state_dict(), tmp_path / "db_mobilenet_v3_large.pt")
    monkeypatch.setenv("MEDIATENSOR_MODELS", str(tmp_path))
    model = detection.db_mobilenet_v3_large(pretrained=True, class_names=["a", "b", "c"])
    torch.testing.assert_close(model.fpn.state_dict(), published.fpn.state_dict())
    torch.testing.assert_close(model.prob_head[0].weight, published.prob_head[0].weight)
    assert model.prob_head[6].out_channels == 3


def test_deformable_convolutions_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="deform_conv"):
        detection.db_mobilenet_v3_large(deform_conv=True)
