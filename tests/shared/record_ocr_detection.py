"""Record the results of docTR's detectors, classifiers and post-processing.

Run it by hand where ``doctr`` 1.1.0 imports, from its folder, when a network is added:

    python record_ocr_detection.py

It rewrites ``tests/records/ocr/detection_models.json``, ``classification_models.json`` and ``detection_boxes.json``.
Weights, inputs and maps are formulas (``ocr_weights.py``, ``ocr_maps.py``), so nothing large is stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from doctr.models import classification, detection
from doctr.models.detection.differentiable_binarization.base import DBPostProcessor
from doctr.models.detection.fast.base import FASTPostProcessor
from doctr.models.detection.linknet.base import LinkNetPostProcessor
from torch import nn

from ocr_maps import formula_map
from ocr_records import write_record
from ocr_weights import describe_state, fill, formula_input, summarize

DETECTORS = {
    "db_mobilenet_v3_large": 1.3,
    "db_resnet34": 1.0,
    "db_resnet50": 1.0,
    "fast_base": 0.2,
    "fast_small": 0.3,
    "fast_tiny": 0.4,
    "linknet_resnet18": 1.0,
    "linknet_resnet34": 1.0,
    "linknet_resnet50": 1.0,
}
CLASSIFIERS = {
    "mobilenet_v3_large": 1.85,
    "mobilenet_v3_large_r": 1.85,
    "mobilenet_v3_small": 2.4,
    "mobilenet_v3_small_crop_orientation": 2.4,
    "mobilenet_v3_small_page_orientation": 2.4,
    "mobilenet_v3_small_r": 2.4,
    "resnet18": 1.0,
    "resnet34": 1.0,
    "resnet34_wide": 1.0,
    "resnet50": 1.0,
    "starnet_s3": 1.0,
    "textnet_base": 0.2,
    "textnet_small": 0.3,
    "textnet_tiny": 0.4,
    "vit_det_m": 1.0,
    "vit_det_s": 1.0,
}
"""The gain of each network's weights, such that its outputs are neither constant nor saturated."""
INPUT_SHAPE = (2, 3, 64, 96)
STRAIGHT_BOXES = [[0.1, 0.1, 0.5, 0.3], [0.5, 0.5, 0.52, 0.9], [0.2, 0.6, 0.4, 0.8]]
QUADRANGLES = [[[0.1, 0.3], [0.5, 0.1], [0.55, 0.3], [0.15, 0.5]], [[0.6, 0.6], [0.9, 0.7], [0.85, 0.9], [0.55, 0.8]]]
POSTPROCESSORS = {"db": DBPostProcessor, "linknet": LinkNetPostProcessor, "fast": FASTPostProcessor}


def configuration(cfg: dict[str, Any]) -> dict[str, Any]:
    """Return the comparable part of a configuration; of the address only the file name."""
    kept: dict[str, Any] = {key: list(cfg[key]) for key in ("mean", "std", "input_shape")}
    url = cfg["url"]
    kept["file"] = url.partition("id=")[2].partition("&")[0] or url.partition("/download/")[2]
    if "classes" in cfg:
        kept["classes"] = cfg["classes"] if len(cfg["classes"]) < 10 else "".join(cfg["classes"])
    return kept


def logits_of(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """Scores before the sigmoid."""
    model.exportable = True
    with torch.no_grad():
        logits: torch.Tensor = model(images)["logits"]
    model.exportable = False
    return logits


def record_detector(name: str, gain: float) -> dict[str, Any]:
    """Record the results of one detector for two images, its losses, and its folded form."""
    factory = getattr(detection, name)
    model = fill(factory(pretrained=False, pretrained_backbone=False), gain)
    images = formula_input(INPUT_SHAPE)
    straight = [{"words": np.array(STRAIGHT_BOXES, np.float32)}] * 2
    rotated = [{"words": np.array(QUADRANGLES, np.float32)}] * 2
    two = fill(factory(pretrained=False, pretrained_backbone=False, class_names=["total", "date"]), gain)
    by_class = [{"date": np.array(STRAIGHT_BOXES[:1], np.float32), "total": np.array(STRAIGHT_BOXES[2:], np.float32)}]
    with torch.no_grad():
        out = model(images, return_model_output=True)
        losses = {
            "straight": round(float(model(images, straight)["loss"]), 7),
            "rotated": round(float(model(images, rotated)["loss"]), 7),
            "classes": round(float(two(images[:1], by_class)["loss"]), 7),
        }
    record = {
        "gain": gain,
        "cfg": configuration(model.cfg),
        "state": describe_state(model),
        "state_of_two_classes": describe_state(two),
        "logits": summarize(logits_of(model, images)),
        "out_map": summarize(out["out_map"]),
        "losses": losses,
    }
    if name.startswith("fast"):
        folded = detection.reparameterize(model)
        record["folded"] = {"state": describe_state(folded), "logits": summarize(logits_of(folded, images))}
    return record


def record_classifier(name: str, gain: float) -> dict[str, Any]:
    """Record the results of one classifier for two images."""
    model = fill(getattr(classification, name)(pretrained=False), gain)
    with torch.no_grad():
        scores = model(formula_input(INPUT_SHAPE))
    return {
        "gain": gain,
        "cfg": configuration(model.cfg),
        "state": describe_state(model),
        "scores": summarize(scores),
    }


def record_boxes() -> list[dict[str, Any]]:
    """What each post-processor finds in the maps, straight and rotated, in pixels and in any order."""
    records = []
    for tilt in (0.0, 0.6):
        probabilities = formula_map(tilt)
        height, width = probabilities.shape
        for name, postprocessor in POSTPROCESSORS.items():
            for straight in (True, False):
                boxes = postprocessor(assume_straight_pages=straight)(probabilities[None, :, :, None])[0][0]
                scale = (width, height, width, height, 1) if straight else (width, height)
                boxes = boxes * scale
                if not straight:
                    boxes[:, 4] /= scale
                rounded = sorted(np.round(boxes, 4).tolist())
                records.append({"tilt": tilt, "model": name, "straight": straight, "boxes": rounded})
    return records


if __name__ == "__main__":
    torch.set_num_threads(1)
    write_record("detection_models", {name: record_detector(name, gain) for name, gain in DETECTORS.items()})
    write_record("classification_models", {name: record_classifier(name, gain) for name, gain in CLASSIFIERS.items()})
    write_record("detection_boxes", record_boxes())
