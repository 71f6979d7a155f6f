"""Record the results of docTR's recognition networks, vocabularies and joining of words.

Run it by hand where ``doctr`` 1.1.0 imports, from its folder, when a network is added:

    python record_ocr_recognition.py

It rewrites ``tests/records/ocr/recognition_*.json``. Weights and inputs come from ``ocr_weights.py``, so nothing large
is stored.
"""

from __future__ import annotations

import hashlib
import random
from typing import Any

import torch
from doctr.datasets import VOCABS
from doctr.models import classification, recognition
from doctr.models.recognition.predictor._utils import remap_preds, split_crops
from doctr.models.recognition.utils import merge_strings
from doctr.models.utils.pytorch import _vocab_projections

from ocr_records import write_record
from ocr_weights import describe_state, fill, formula_input, summarize

TARGET = ["Total:", "x-42,50€"]
SHORT_TARGET = ["ab", "7"]
"""With at most two characters PARSeq's orders are not random."""
FED_BACK = ("parseq", "sar_resnet31")
"""These networks compute different results in training mode and in evaluation mode."""
NETWORKS: dict[str, dict[str, Any]] = {
    "crnn_vgg16_bn": {"gain": 2.0, "end_bias": -0.4},
    "crnn_mobilenet_v3_small": {"gain": 3.0, "end_bias": 0.0},
    "crnn_mobilenet_v3_large": {"gain": 3.0, "end_bias": 0.0},
    "vitstr_small": {"gain": 1.0, "end_bias": 4.0},
    "vitstr_base": {"gain": 1.0, "end_bias": 2.0},
    "parseq": {"gain": 2.0, "end_bias": 2.2},
    "viptr_tiny": {"gain": 1.0, "end_bias": 0.0},
    "sar_resnet31": {"gain": 0.8, "end_bias": 0.0},
    "master": {"gain": 2.0, "end_bias": 2.5},
}
"""Added to the class of the blank or the end mark, so that words have some length but do not fill all steps."""


IN_FLOAT64 = ("crnn_mobilenet_v3_large", "master")
"""With these weights, differences of float32 sums between processors grow to 5e-4."""


BACKBONES = {
    "vgg16_bn_r": 2.0,
    "vit_s": 1.0,
    "vit_b": 1.0,
    "vip_tiny": 1.0,
    "vip_base": 1.0,
    "resnet31": 1.0,
    "magc_resnet31": 1.0,
}
"""The gain of each."""


def record_network(name: str, gain: float, end_bias: float) -> dict[str, Any]:
    """Record the results of one network for two images."""
    model = fill(getattr(recognition, name)(pretrained=False, pretrained_backbone=False), gain)
    _vocab_projections(model, len(model.vocab))[0].bias.data[len(model.vocab)] += end_bias
    images = formula_input((2, 3, 32, 128))
    state = describe_state(model)
    if name in IN_FLOAT64:
        model, images = model.double(), images.double()
    with torch.no_grad():
        out = model(images, return_model_output=True, return_preds=True)
        loss = model(images, target=TARGET)["loss"]
    record = {
        "gain": gain,
        "end_bias": end_bias,
        "state": state,
        "float64": name in IN_FLOAT64,
        "out_map": summarize(out["out_map"]),
        "preds": out["preds"],
        "target": TARGET,
        "loss": float(loss),
    }
    if name in FED_BACK:
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        model.train()
        # The statistics of a batch of two are noise.
        model.feat_extractor.eval()
        record["short_target"] = SHORT_TARGET
        record["training_loss"] = float(model(images, target=SHORT_TARGET)["loss"].detach())
    return record


def record_backbone(name: str, gain: float) -> dict[str, Any]:
    """Record the results of one backbone with its head for two characters."""
    model = fill(getattr(classification, name)(pretrained=False), gain)
    with torch.no_grad():
        return {"gain": gain, "state": describe_state(model), "scores": summarize(model(formula_input((2, 3, 32, 32))))}


def record_merging() -> dict[str, Any]:
    """Joined texts: drawn pairs over few letters, so that overlaps are frequent and ambiguous."""
    draw = random.Random(5)
    cases = []
    for _ in range(150):
        left, right = ("".join(draw.choice("abcd") for _ in range(draw.randrange(9))) for _ in range(2))
        if draw.random() < 0.5:
            right = left[-draw.randrange(1, 6) :] + right
        ratio = round(draw.random(), 2)
        cases.append([left, right, ratio, merge_strings(left, right, ratio)])
    splits = []
    for height, width in [(10, 20), (10, 80), (10, 81), (32, 700), (7, 100), (3, 1000), (1, 9), (32, 257)]:
        crop = torch.arange(width).expand(height, width).unsqueeze(-1).numpy()
        pieces, crop_map, _ = split_crops([crop], 8, 6, 0.5)
        own = crop_map[0]
        last_overlap = 0.0 if isinstance(own, int) else own[2]
        splits.append([height, width, [[int(p[0, 0, 0]), int(p[0, -1, 0])] for p in pieces], last_overlap])
    pieces = [("Donau", 0.75), ("naudampf", 0.5), ("ampfschiff", 0.25)]
    return {"merged": cases, "splits": splits, "remapped": remap_preds(pieces, [(0, 3, 0.5), 1], 0.5)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    write_record("recognition_networks", {name: record_network(name, **how) for name, how in NETWORKS.items()})
    write_record("recognition_backbones", {name: record_backbone(name, gain) for name, gain in BACKBONES.items()})
    write_record("recognition_merging", record_merging())
    write_record(
        "recognition_vocabs",
        {name: [len(vocab), hashlib.sha256(vocab.encode()).hexdigest()[:16]] for name, vocab in VOCABS.items()},
    )
