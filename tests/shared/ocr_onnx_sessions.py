"""The networks of PP-OCR run by onnxruntime, from the same files: the reference for the native modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mediatensor.errors import WeightsNotFoundError
from mediatensor.ocr.models import find_weights, ppocr_v6_small_reco
from mediatensor.ocr.models.recognition import ppocr
from mediatensor.ocr.models.utils import export_model_to_onnx

__all__ = [
    "PPOCR",
    "by_onnxruntime",
    "exported_session",
    "line_network",
    "needs_weights",
    "published_recogniser",
    "require_weights",
    "session",
]

PPOCR = ("ppocr_v6_small_det", "ppocr_v6_small_reco", "ppocr_mobile_v2_line_orientation")


def _missing_weights() -> str:
    try:
        for name in PPOCR:
            find_weights(name)
    except WeightsNotFoundError as error:
        return str(error)
    return ""


needs_weights = pytest.mark.skipif(bool(_missing_weights()), reason=_missing_weights())


def require_weights() -> None:
    """Skip where no package and no folder brings the weights."""
    if missing := _missing_weights():
        pytest.skip(missing)


def published_recogniser() -> Any:
    """The default recogniser with the weights of its file only."""
    model = ppocr_v6_small_reco()
    model.from_pretrained(str(find_weights("ppocr_v6_small_reco")))
    return model.eval()


def exported_session(model: Any, path: Path, *arguments: Any, **options: Any) -> Any:
    """A network in onnxruntime, exported to a path with the further arguments of `export_model_to_onnx`."""
    pytest.importorskip("onnx", reason="torch's exporter needs it")
    runtime = pytest.importorskip("onnxruntime", reason="runs exported networks")
    file = export_model_to_onnx(model, path, *arguments, **options)
    return runtime.InferenceSession(file, providers=["CPUExecutionProvider"])


def line_network(nodes: Any, arrays: dict[str, Any], num_classes: int, characters: Iterable[str] | None) -> Any:
    """A network of lines "x" with the scores "out", as an ONNX model that may list its characters."""
    onnx = pytest.importorskip("onnx", reason="makes networks")
    helper = onnx.helper
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "line",
        [value("x", onnx.TensorProto.FLOAT, ["n", 3, 48, "w"])],
        [value("out", onnx.TensorProto.FLOAT, ["n", "t", num_classes])],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    if characters is not None:
        helper.set_model_props(model, {"character": "\n".join(characters)})
    return model


def session(arch: str) -> Callable[[Tensor], Tensor]:
    """What onnxruntime computes of a float tensor with the file of an architecture, on one thread."""
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime, to compare with")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    loaded = runtime.InferenceSession(str(find_weights(arch)), options, providers=["CPUExecutionProvider"])
    name = loaded.get_inputs()[0].name

    def run(x: Tensor) -> Tensor:
        return torch.from_numpy(loaded.run(None, {name: np.ascontiguousarray(x.numpy())})[0])

    return run


def best_of(
    probabilities: Tensor, head: Any, followed: int, excluded: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the likeliest class of each step, except excluded ones, and the probability of the followed one."""
    if excluded is not None:
        probabilities = probabilities.masked_fill(excluded, 0)
        probabilities = probabilities / probabilities.sum(-1, keepdim=True)
    best, classes = probabilities.max(-1)
    return best, classes, probabilities[..., followed]


def scores_of(probabilities: Tensor, head: Any, classes: Tensor) -> Tensor:
    return probabilities[..., classes].clamp(min=1e-12).log()


@contextmanager
def by_onnxruntime(predictor: Any) -> Iterator[list[str]]:
    """Run both networks of a default predictor in onnxruntime within the block; yield the names of called networks.

    The file of the recogniser ends in probabilities of all its classes: the greatest is chosen among them.
    """
    detect, read = session("ppocr_v6_small_det"), session("ppocr_v6_small_reco")
    detector, recogniser = predictor.det_predictor.model, predictor.reco_predictor.model
    asked: list[str] = []

    def logits(x: Tensor) -> Tensor:
        asked.append("detector")
        return torch.logit(detect(x).double(), eps=1e-12)

    def probabilities(x: Tensor) -> Tensor:
        asked.append("recogniser")
        return read(x)

    detector.logits, recogniser.features = logits, probabilities
    # Scripts are classified by features, which the file does not output.
    classifier, recogniser.script_classifier = recogniser.script_classifier, None
    own = ppocr.best_classes, ppocr.scores_of_classes
    ppocr.best_classes, ppocr.scores_of_classes = best_of, scores_of
    try:
        yield asked
    finally:
        del detector.logits, recogniser.features
        recogniser.script_classifier = classifier
        ppocr.best_classes, ppocr.scores_of_classes = own
