"""Compare LW-DETR with docTR's results for the same weights, recorded by ``record_ocr_layout_models.py``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mediatensor.errors import InvalidArgumentError, WeightsError, WeightsNotFoundError
from mediatensor.ocr.models import LWDETR, layout, layout_predictor, list_models, lw_detr_m, lw_detr_s, model_card
from ocr_layouts import (
    LAYOUT_GAINS,
    LAYOUT_LEARNT,
    LAYOUT_SCORE,
    LAYOUT_SHAPE,
    drawn_page,
    layout_masks,
    layout_target,
    overlapping_boxes,
)
from ocr_onnx_sessions import exported_session
from ocr_records import read_record
from ocr_weights import assert_summary, describe_state, fill, formula_input

RECORDS: dict[str, Any] = read_record("layout_models")
NETWORKS = ["lw_detr_s", pytest.param("lw_detr_m", marks=pytest.mark.slow)]  # differ in sizes only


@pytest.fixture(scope="module")
def small() -> LWDETR:
    """Return the small network with weights from a formula."""
    return filled("lw_detr_s")


def filled(name: str, **kwargs: Any) -> Any:
    return fill(getattr(layout, name)(**kwargs), LAYOUT_GAINS[name])


def assert_regions(found: list[Any], expected: list[Any]) -> None:
    for (labels, boxes, scores), record in zip(found, expected, strict=True):
        assert labels == record[0]
        np.testing.assert_allclose(boxes, np.reshape(record[1], boxes.shape), atol=1e-4)
        np.testing.assert_allclose(scores, record[2], atol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_same_weights_give_the_same_regions_as_in_doctr(name: str) -> None:
    record, images, masks = RECORDS[name], formula_input(LAYOUT_SHAPE), layout_masks()
    model = filled(name)
    assert describe_state(model) == record["state"]
    model.postprocessor.score_thresh = LAYOUT_SCORE
    with torch.no_grad():
        out = model(images, masks)
        model.exportable = True
        raw, unmasked = model(images, masks), model(images)
    assert set(raw) == {"logits", "pred_boxes"}
    for key in raw:
        assert_summary(raw[key], record["raw"][key])
        assert_summary(unmasked[key], record["without_masks"][key])
    assert_regions(out["preds"], record["preds"])


def test_losses_match_doctr(small: LWDETR) -> None:
    images, masks, expected = formula_input(LAYOUT_SHAPE), layout_masks(), RECORDS["lw_detr_s"]["losses"]
    targets = {"straight": layout_target(False), "corners": layout_target(True), "nothing": [{}, {}]}
    with torch.no_grad():
        losses = {key: small(images, masks, target)["loss"].item() for key, target in targets.items()}
    assert losses == pytest.approx({key: expected[key] for key in targets}, rel=1e-5)


@pytest.mark.slow  # it takes 1.7 GB
def test_gradients_of_all_groups_match_doctr() -> None:
    record = RECORDS["lw_detr_s"]
    model = filled("lw_detr_s").double().train()
    model.feat_extractor.eval()  # the groups of training; not its random depth
    loss = model(formula_input(LAYOUT_SHAPE).double(), layout_masks(), layout_target(True))["loss"]
    loss.backward()
    assert loss.item() == pytest.approx(record["losses"]["groups"], rel=1e-5)
    for parameter in LAYOUT_LEARNT:
        gradient = model.get_parameter(parameter).grad
        assert_summary(gradient / gradient.std(), record["gradients"][parameter], atol=1e-3)


@pytest.mark.parametrize("straight", [True, False])
def test_of_regions_that_overlap_the_same_are_kept_as_in_doctr(straight: bool) -> None:
    model = LWDETR(torch.nn.Identity(), ["a", "b", "c"], 0.5, 0.3, d_model=16, assume_straight_pages=straight)
    model.postprocessor.topk = 90
    found = model.postprocessor(*overlapping_boxes())
    assert_regions(found, RECORDS["regions"][0 if straight else 1])
    assert found[0][1].shape[1:] == ((4,) if straight else (4, 2))


@pytest.mark.parametrize("name", LAYOUT_GAINS)
def test_configuration_equals_doctr(name: str) -> None:
    cfg, expected = layout.lw_detr.default_cfgs[name], RECORDS[name]["cfg"]
    for key in ("mean", "std", "input_shape", "class_names"):
        assert list(cfg[key]) == expected[key]
    assert (cfg["url"] or "").endswith(expected["file"])
    assert name in list_models("layout_*")
    assert model_card(name).task == "layout"


def test_predictor_gives_the_regions_of_the_page_as_doctr_does(small: LWDETR) -> None:
    small.cfg, kept = {**small.cfg, "input_shape": (3, 320, 320)}, small.cfg
    small.postprocessor.score_thresh = LAYOUT_SCORE
    predictor = layout_predictor(small, assume_straight_pages=False)
    page = drawn_page()
    found, *others = predictor([page, torch.from_numpy(page), page])
    small.cfg = kept
    (expected,) = RECORDS["lw_detr_s"]["predictor"]
    assert set(found) == set(expected)
    assert found["class_names"] == expected["class_names"]
    np.testing.assert_allclose(found["boxes"], expected["boxes"], atol=1e-4)
    np.testing.assert_allclose(found["scores"], expected["scores"], atol=1e-4)
    for other in others:
        np.testing.assert_allclose(other["boxes"], found["boxes"], atol=1e-5)


@pytest.mark.slow
def test_checkpoints_load_by_path(small: LWDETR, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.pt"
    torch.save(small.state_dict(), path)
    monkeypatch.setenv("MEDIATENSOR_MODELS", str(tmp_path))
    shutil.copyfile(path, tmp_path / "lw_detr_s.pt")
    expected = small.state_dict()["class_embed.weight"]
    by_path = layout_predictor(str(path), assume_straight_pages=False).model
    assert not by_path.assume_straight_pages
    own = lw_detr_s(class_names=["b", "a"], pretrained=True)
    torch.testing.assert_close(by_path.state_dict()["class_embed.weight"], expected)
    torch.testing.assert_close(own.query_feat.weight, small.query_feat.weight)
    assert own.class_names == ["a", "b"]
    assert own.class_embed.out_features == 2
    torch.save({"weight": torch.zeros(2)}, path)
    with pytest.raises(WeightsError, match="fits none of lw_detr_m, lw_detr_s"):
        layout_predictor(path)


def test_absent_weights_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDIATENSOR_MODELS", str(tmp_path))
    with pytest.raises(WeightsNotFoundError, match=r"lw_detr_s-ebbd6ab9.*by rules"):
        layout_predictor(pretrained=True)
    with pytest.raises(WeightsNotFoundError, match="publish none"):
        lw_detr_m(pretrained=True)


def test_other_networks_and_targets_are_rejected(small: LWDETR) -> None:
    page, boxes = torch.zeros(1, 3, 256, 256), np.zeros((1, 4), np.float32)
    with pytest.raises(InvalidArgumentError, match="choose one of lw_detr_m, lw_detr_s"):
        layout_predictor("lw_detr_l")
    with pytest.raises(InvalidArgumentError, match="is not of class LWDETR"):
        layout_predictor(torch.nn.Linear(2, 2))
    with pytest.raises(InvalidArgumentError, match="threshold"):
        layout_predictor(small, threshold=0.3)
    with pytest.raises(InvalidArgumentError, match="64 places"):
        small(page[..., :128, :128])
    with pytest.raises(InvalidArgumentError, match="unknown class 'Poem'"):
        small(page, target=[{"Poem": boxes}])
    with pytest.raises(InvalidArgumentError, match=r"shape \(2, 3\)"):
        small(page, target=[{"Text": np.zeros((2, 3))}])
    with pytest.raises(InvalidArgumentError, match="1 items for 2 pages"):
        small(page.expand(2, -1, -1, -1), target=[{"Text": boxes}])


def test_half_precision_gives_regions() -> None:
    model = lw_detr_s(num_queries=50, group_detr=2).bfloat16().eval()
    with torch.no_grad():
        out = model(torch.zeros(1, 3, 128, 128, dtype=torch.bfloat16), return_preds=True)
    assert out["logits"].dtype == torch.float32
    assert out["preds"][0][1].shape == (0, 4)


@pytest.mark.slow
def test_the_exported_network_gives_the_same(small: LWDETR, tmp_path: Path) -> None:
    images, masks = formula_input(LAYOUT_SHAPE)[1:], layout_masks()[1:]
    session = exported_session(small, tmp_path / "layout", (images, masks))
    logits, boxes = session.run(None, {"input": images.numpy(), "masks": masks.numpy()})
    small.exportable = True
    with torch.no_grad():
        expected = small(images, masks)
    small.exportable = False
    np.testing.assert_allclose(logits, expected["logits"], atol=1e-3)
    np.testing.assert_allclose(boxes, expected["pred_boxes"], atol=1e-3)
