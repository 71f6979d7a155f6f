"""Compare TableCenterNet with docTR's results, recorded by ``record_ocr_layout_models.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mediatensor.errors import InvalidArgumentError, WeightsNotFoundError
from mediatensor.ocr.models import TableCenterNet, list_models, model_card, table_predictor, tablecenternet
from ocr_layouts import (
    TABLE_GAIN,
    TABLE_LEARNT,
    TABLE_PAGE_SCORE,
    TABLE_SCORE,
    TABLE_SHAPE,
    noisy_page,
    table_maps,
    table_target,
)
from ocr_onnx_sessions import exported_session
from ocr_records import read_record
from ocr_weights import assert_summary, describe_state, fill, formula_input

RECORD: dict[str, Any] = read_record("table_models")


@pytest.fixture
def model() -> Any:
    """Return the network with weights from a formula, in float64, because rounding errors of float32 would grow."""
    filled: Any = fill(tablecenternet(), TABLE_GAIN).double()
    filled.postprocessor.center_thresh = filled.postprocessor.corner_thresh = TABLE_SCORE
    return filled


def assert_cells(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    for page, record in zip(found, expected, strict=True):
        for name, atol in (("polygons", 1e-4), ("scores", 1e-4), ("logical", 0)):
            np.testing.assert_allclose(page[name], np.reshape(record[name], page[name].shape), rtol=0, atol=atol)


def test_same_weights_give_the_same_cells_as_in_doctr(model: TableCenterNet) -> None:
    assert describe_state(tablecenternet()) == RECORD["state"]
    images = formula_input(TABLE_SHAPE).double()
    with torch.no_grad():
        out = model(images, return_model_output=True)
        model.exportable = True
        only = model(images)
    assert set(out) == {"out_map", "preds"}
    assert set(only) == set(out["out_map"]) == set(RECORD["maps"])
    for name, expected in RECORD["maps"].items():
        assert_summary(only[name], expected)
    assert_cells(out["preds"], RECORD["preds"])


def test_losses_and_gradients_match_doctr(model: TableCenterNet) -> None:
    images = formula_input(TABLE_SHAPE).double()
    empty = [{"cells": np.zeros((0, 4), np.float32), "logic": np.zeros((0, 4), np.int64)}] * 2
    with torch.no_grad():
        losses = {"straight": model(images, table_target(False))["loss"].item()}
        losses["nothing"] = model(images, empty)["loss"].item()
    loss = model(images, table_target(True))["loss"]
    loss.backward()
    assert {**losses, "corners": loss.item()} == pytest.approx(RECORD["losses"], rel=1e-5)
    for name in TABLE_LEARNT:
        assert_summary(model.get_parameter(name).grad, RECORD["gradients"][name])


@pytest.mark.parametrize("straight", [True, False])
@pytest.mark.parametrize("way", ["relocated", "left"])
def test_maps_give_the_cells_of_doctr(way: str, straight: bool) -> None:
    model = tablecenternet(not_relocate=way == "left", assume_straight_pages=straight)
    found = model.postprocessor(table_maps())
    assert_cells(found, RECORD[f"{way} {straight}"])
    assert found[0]["polygons"].shape[1:] == ((4,) if straight else (4, 2))


def test_predictor_gives_the_cells_of_the_picture_as_doctr_does(model: TableCenterNet) -> None:
    # Smaller weights, because bytes become float32.
    fill(model, 1.0)
    model.cfg = {**(model.cfg or {}), "input_shape": (3, 192, 192)}
    model.postprocessor.center_thresh, model.postprocessor.not_relocate = TABLE_PAGE_SCORE, True
    (found,) = table_predictor(model)([noisy_page()])
    expected = RECORD["predictor"]
    assert not model.assume_straight_pages
    assert (found["num_rows"], found["num_cols"]) == (expected["num_rows"], expected["num_cols"])
    assert len(found["cells"]) == len(expected["cells"]) > 0
    scores = [cell["score"] for cell in found["cells"]]
    assert scores == sorted(scores, reverse=True)
    # Nearly equal scores may be in another order.
    pairs = (sorted(cells, key=lambda cell: cell["geometry"]) for cells in (found["cells"], expected["cells"]))
    for cell, record in zip(*pairs, strict=True):
        assert list(cell) == list(record)
        np.testing.assert_allclose(cell.pop("geometry"), record.pop("geometry"), atol=1e-4)
        assert cell == pytest.approx(record, abs=1e-4)


def test_configuration_equals_doctr() -> None:
    cfg, expected = tablecenternet().cfg or {}, RECORD["cfg"]
    for key in ("mean", "std", "input_shape"):
        assert list(cfg[key]) == expected[key]
    assert cfg["url"].endswith(expected["file"])
    assert list_models("table_*") == ["tablecenternet"]
    assert model_card("tablecenternet").task == "table_structure"


@pytest.mark.slow
def test_a_state_dict_loads_by_path(model: TableCenterNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDIATENSOR_MODELS", str(tmp_path))
    with pytest.raises(WeightsNotFoundError, match=r"tablecenternet-ea5b30a3\.pt.*by rules"):
        table_predictor(pretrained=True)
    torch.save(model.float().state_dict(), tmp_path / "tablecenternet.pt")
    for predictor in (table_predictor(tmp_path / "tablecenternet.pt"), table_predictor(pretrained=True)):
        torch.testing.assert_close(predictor.model.state_dict(), model.state_dict())


def test_other_networks_and_targets_are_rejected(model: TableCenterNet) -> None:
    images, boxes = torch.zeros(1, 3, 64, 64, dtype=torch.float64), np.array([[0.1, 0.1, 0.4, 0.2]], np.float32)
    with pytest.raises(InvalidArgumentError, match="choose one of tablecenternet"):
        table_predictor("tablenet")
    with pytest.raises(InvalidArgumentError, match="is not of class TableCenterNet"):
        table_predictor(torch.nn.Linear(2, 2))
    for cells, logic, message in (
        (10 * boxes, [[0, 0, 0, 0]], r"relative, in \[0, 1\]"),
        (boxes, [[0, 0, 0]], r"\(1, 3\)"),
        (boxes[:, :3], [[0, 0, 0, 0]], r"\(1, 3\)"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            model(images, [{"cells": cells, "logic": np.array(logic)}])
    with pytest.raises(InvalidArgumentError, match="1 items for 2 images"):
        model(images.expand(2, -1, -1, -1), [{"cells": boxes, "logic": np.zeros((1, 4), np.int64)}])


def test_half_precision_gives_cells(model: TableCenterNet) -> None:
    with torch.no_grad():
        out = model.bfloat16()(formula_input(TABLE_SHAPE).bfloat16(), return_model_output=True)
    assert out["out_map"]["hm"].dtype == torch.float32
    assert out["preds"][0]["polygons"].dtype == np.float32


@pytest.mark.slow
def test_the_exported_network_gives_the_same(model: TableCenterNet, tmp_path: Path) -> None:
    images = formula_input((1, 3, 64, 96))
    names = list(fill(model.float(), gain=1.0).heads)  # type: ignore[arg-type]
    session = exported_session(model, tmp_path / "table", images, output_names=names)
    found = session.run(None, {"input": images.numpy()})
    model.exportable = True
    with torch.no_grad():
        expected = model(images)
    for name, values in zip(names, found, strict=True):
        np.testing.assert_allclose(values, expected[name], atol=1e-3)
