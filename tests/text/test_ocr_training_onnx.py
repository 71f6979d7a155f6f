"""What `fit` trained, exported: another runtime computes the same of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from mediatensor.ocr.models import (
    crop_orientation_predictor,
    detection_predictor,
    load_checkpoint,
    mobilenet_v3_small_crop_orientation,
    recognition_predictor,
)
from mediatensor.ocr.models._networks.weights import Checkpoint, save_checkpoint
from mediatensor.ocr.training import drawn_lines, drawn_pages, fit
from ocr_onnx_sessions import exported_session
from ocr_weights import fill

pytest.importorskip("matplotlib", reason="has the fonts to draw in")

DIGITS = "0123456789"
NETWORKS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "recognition": (
        "crnn_mobilenet_v3_small",
        lambda count, seed: drawn_lines(count, characters=DIGITS, seed=seed),
        {"pretrained": False, "vocab": DIGITS + " "},
    ),
    "detection": (
        "linknet_resnet18",
        lambda count, seed: drawn_pages(count, size=(96, 96), seed=seed),
        {"pretrained": False, "page_size": 128, "crop_size": 64},
    ),
    "orientation": (
        "mobilenet_v3_small_crop_orientation",
        lambda count, seed: drawn_lines(count, seed=seed),
        {"page_size": 64},
    ),
}


@pytest.mark.parametrize(
    "task", ["recognition", *(pytest.param(task, marks=pytest.mark.slow) for task in ("orientation", "detection"))]
)
def test_onnxruntime_matches_a_trained_network(task: str, tmp_path: Path, training_seed: int) -> None:
    arch, drawn, options = NETWORKS[task]
    settings: dict[str, Any] = {"batch_size": 4, "epochs": 1, "learning_rate": 1e-2, "seed": training_seed, **options}
    start: str | Path = arch
    if task == "orientation":
        # All outputs of this network are zero with random weights, and the first epoch need not be a better one.
        network = fill(mobilenet_v3_small_crop_orientation(pretrained=False), gain=2.4)
        start = tmp_path / "start.pt"
        save_checkpoint(start, Checkpoint(arch, network.state_dict()))
    done = fit(start, drawn(8, 0), validation=drawn(4, 1), out=tmp_path / "trained.pt", **settings)
    assert done.epochs[-1]["steps"] == 2
    model = load_checkpoint(done.path)
    session = exported_session(model, tmp_path / "trained")
    # Pictures as predictors give them to the network, one and several at once.
    make: Any = {"detection": detection_predictor, "orientation": crop_orientation_predictor}
    predictor = make.get(task, recognition_predictor)(done.path)
    rows = drawn(3, 2)
    batch = torch.cat(predictor.pre_processor([rows[number].image for number in range(3)]))
    if hasattr(model, "exportable"):
        model.exportable = True
    for pictures in (batch[:1], batch):
        [found] = session.run(["logits"], {"input": pictures.numpy()})
        with torch.no_grad():
            expected = model(pictures)
        expected = expected if isinstance(expected, torch.Tensor) else expected["logits"]
        torch.testing.assert_close(torch.from_numpy(found), expected, rtol=1e-3, atol=1e-4)
    assert expected.std() > 1e-3  # not one number everywhere
