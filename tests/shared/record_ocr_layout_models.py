"""Record the results of docTR's networks for layouts and tables.

Run it by hand where ``doctr`` 1.1.0 imports, from its folder, when a network is added:

    python record_ocr_layout_models.py

It rewrites ``tests/records/ocr/layout_models.json`` and ``table_models.json``. Weights and inputs are formulas
(``ocr_weights.py``), so nothing large is stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from doctr.models import layout, layout_predictor, table_predictor, tablecenternet
from doctr.models.layout.lw_detr.base import LWDETRPostProcessor
from doctr.models.table_structure.tablecenternet.base import TableCenterNetPostProcessor
from torch import nn

from ocr_layouts import (
    LAYOUT_GAINS,
    LAYOUT_LEARNT,
    LAYOUT_SCORE,
    LAYOUT_SHAPE,
    TABLE_GAIN,
    TABLE_LEARNT,
    TABLE_PAGE_SCORE,
    TABLE_SCORE,
    TABLE_SHAPE,
    drawn_page,
    layout_masks,
    layout_target,
    noisy_page,
    overlapping_boxes,
    table_maps,
    table_target,
)
from ocr_records import write_record
from ocr_weights import describe_state, fill, formula_input, summarize


def layout_model(name: str, gain: float, **kwargs: Any) -> nn.Module:
    """The network with weights by formula."""
    return fill(getattr(layout, name)(pretrained=False, **kwargs), gain)


def regions(found: list[Any]) -> list[Any]:
    """Labels, boxes and scores of each page, rounded."""
    return [
        [labels, np.round(boxes.astype(float), 6).tolist(), np.round(np.array(scores, float), 6).tolist()]
        for labels, boxes, scores in found
    ]


def record_layout(name: str, gain: float) -> dict[str, Any]:
    """Record the results of a network for two pages, one of them padded, and its losses."""
    images, masks = formula_input(LAYOUT_SHAPE), layout_masks()
    model = layout_model(name, gain)
    cfg = {key: list(model.cfg[key]) for key in ("mean", "std", "input_shape", "class_names")}
    record = {"cfg": {**cfg, "file": (model.cfg["url"] or "").rpartition("/")[2]}, "state": describe_state(model)}
    with torch.no_grad():
        model.exportable = True
        raw, unmasked = model(images, masks), model(images)
        model.exportable = False
        record["raw"] = {key: summarize(value, 48) for key, value in raw.items()}
        record["without_masks"] = {key: summarize(value) for key, value in unmasked.items()}
        model.postprocessor.score_thresh = LAYOUT_SCORE
        record["preds"] = regions(model(images, masks)["preds"])
        losses = [float(model(images, masks, layout_target(corners))["loss"]) for corners in (False, True)]
        losses.append(float(model(images, masks, [{}, {}])["loss"]))
    # Gradients in float32 depend on the order of sums, which varies between builds of torch.
    model.double().train().feat_extractor.eval()
    loss = model(images.double(), masks, layout_target(True))["loss"]
    loss.backward()
    losses.append(loss.item())
    gradients = {name: model.get_parameter(name).grad for name in LAYOUT_LEARNT}
    record["gradients"] = {name: summarize(grad / grad.std(), 12) for name, grad in gradients.items()}
    record["losses"] = dict(zip(("straight", "corners", "nothing", "groups"), losses, strict=True))
    model.float().eval().cfg = {**model.cfg, "input_shape": (3, 320, 320)}
    record["predictor"] = [
        {**page, "boxes": np.round(page["boxes"].astype(float), 6).tolist()}
        for page in layout_predictor(model, assume_straight_pages=False)([drawn_page()])
    ]
    return record


def record_regions() -> list[Any]:
    """Record the post-processing of overlapping boxes, straight and with corners."""
    found = []
    for straight in (True, False):
        postprocessor = LWDETRPostProcessor(3, 0.5, 0.3, topk=90, assume_straight_pages=straight)
        found.append(regions(postprocessor(*overlapping_boxes())))
    return found


def cells(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Polygons, scores and places of each picture, rounded."""
    return [{name: np.round(values.astype(float), 6).tolist() for name, values in page.items()} for page in found]


def record_table() -> dict[str, Any]:
    """Record the results of TableCenterNet for two images, its losses, and its post-processing of better maps."""
    # Products of features make rounding of float32 grow, with these weights, beyond the compared precision.
    images = formula_input(TABLE_SHAPE).double()
    model = fill(tablecenternet(pretrained=False, pretrained_backbone=False), TABLE_GAIN)
    cfg = {key: list(model.cfg[key]) for key in ("mean", "std", "input_shape")}
    record = {"cfg": {**cfg, "file": model.cfg["url"].rpartition("/")[2]}, "state": describe_state(model)}
    model.double().postprocessor.center_thresh = model.postprocessor.corner_thresh = TABLE_SCORE
    with torch.no_grad():
        out = model(images, return_model_output=True, return_preds=True)
        record["maps"] = {name: summarize(values) for name, values in out["out_map"].items()}
        record["preds"] = cells(out["preds"])
    losses = {"straight": model(images, table_target(False))["loss"].item()}
    empty = [{"cells": np.zeros((0, 4), np.float32), "logic": np.zeros((0, 4), np.int64)}] * 2
    losses["nothing"] = model(images, empty)["loss"].item()
    loss = model(images, table_target(True))["loss"]
    loss.backward()
    record["losses"] = {**losses, "corners": loss.item()}
    gradients = {name: model.get_parameter(name).grad for name in TABLE_LEARNT}
    record["gradients"] = {name: summarize(grad, 12) for name, grad in gradients.items()}
    # With smaller weights, as the predictor makes floats of bytes in float32.
    model = fill(model, 1.0)
    model.cfg = {**model.cfg, "input_shape": (3, 192, 192)}
    model.postprocessor.center_thresh, model.postprocessor.not_relocate = TABLE_PAGE_SCORE, True
    model.postprocessor.assume_straight_pages = False  # which docTR's predictor forgets
    pages = table_predictor(model)([noisy_page()])
    rounded = [{**cell, "geometry": np.round(cell["geometry"], 6).tolist()} for cell in pages[0]["cells"]]
    record["predictor"] = {**pages[0], "cells": rounded}
    for name in ("relocated", "left"):
        for straight in (True, False):
            postprocessor = TableCenterNetPostProcessor(0.3, 0.3, name == "left", straight)
            model.postprocessor = postprocessor
            record[f"{name} {straight}"] = cells(postprocessor(model._decode(table_maps())))
    return record


if __name__ == "__main__":
    torch.set_num_threads(1)
    models = {name: record_layout(name, gain) for name, gain in LAYOUT_GAINS.items()}
    write_record("layout_models", {**models, "regions": record_regions()})
    write_record("table_models", record_table())
