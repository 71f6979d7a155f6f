"""Implements `evaluate`: score a text recogniser on a dataset of lines, or a text detector on a dataset of pages."""

from __future__ import annotations

import heapq
import os
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..._engine.common.checks import path_text, shown, whole_number
from ..._engine.common.devices import checked_device
from ..._engine.common.messages import progress
from ...datasets import Failure, Skipped
from ...errors import InvalidArgumentError
from ..models import detection_predictor, list_models, load_checkpoint, load_line_recognizer, recognition_predictor
from ..models._networks.weights import is_checkpoint
from ..models.detection.predictor import DetectionPredictor
from ..models.recognition.predictor import RecognitionPredictor
from ..utils._drawing import as_picture
from ..utils._scores import WordErrorRate, aligned, match_boxes
from ..utils.geometry import boxes_around, boxes_to_polygons
from ._scores import (
    DetectionEvaluation,
    Evaluation,
    Latency,
    LineScore,
    PageScore,
    RecognitionEvaluation,
    character_scores,
)
from ._worst_cases import WorstLine, WorstPage

# Calls before the first timed call. The first calls load kernels and fill caches.
NUM_WARM_UP = 3
# A box is part of another box if at least this share of its area is inside the other.
_WITHIN = 0.7

_Worst = TypeVar("_Worst", WorstLine, WorstPage)
_Predictor = RecognitionPredictor | DetectionPredictor


def evaluate(
    model: str | os.PathLike[str] | nn.Module,
    dataset: Any,
    *,
    iou_threshold: float = 0.5,
    num_worst: int = 20,
    name: str | None = None,
    device: str | torch.device | None = None,
    task: Literal["recognition", "detection"] | None = None,
    batch_size: int = 1,
) -> Evaluation:
    """Score a text recogniser or a text detector on a dataset.

    Args:
        model: Name of an architecture whose weights are on this machine (see `list_models`), path of a model file, a
            network, or a predictor.
        dataset: Any object with ``len()`` and rows by index. A row is one line or page: either a `Sample` with
            ``image``, uint8 (3, H, W), and the truth, or a pair of an image and its truth. For a recogniser, the truth
            is the text, in ``label`` or ``extra["text"]``. For a detector, it is the boxes relative to the page, in
            ``extra["boxes"]``: (N, 4) as (xmin, ymin, xmax, ymax), (N, 4, 2) with four points each, or a dict of such
            arrays by class. docTR's `Sample` objects, with the truth in ``target``, are also accepted. A row that the
            dataset cannot read, and therefore skips or replaces by another, counts as failed in the result.
        iou_threshold: A true box counts as found if its intersection over union with a box from the detector is at
            least this value.
        num_worst: Number of rows whose images the result keeps in ``worst``: the rows with the most errors.
        name: Name of the model in reports; by default ``model`` if it is a name or path, else the class of the network.
        device: Device to move the model to. By default, it is not moved.
        task: Task that the model must have, ``"recognition"`` or ``"detection"``. By default, both are accepted.
        batch_size: Number of rows per call of the model. More rows are faster, especially on a GPU. But
            only with 1 does the result have a ``latency``, which is the time of a call with a single row.

    Returns:
        A `RecognitionEvaluation` for a recogniser, or a `DetectionEvaluation` for a detector.

    Raises:
        InvalidArgumentError: The model has another task, or a row has no text or no boxes.
        DeviceError: The device is not available.
        WeightsNotFoundError: The weights of the architecture are not on this machine.
        MediaTensorError, OSError: The dataset raised this error for a row that cannot be read.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.training import evaluate
        >>> found = evaluate("ppocr_v6_small_reco", [(torch.full((3, 48, 200), 255, dtype=torch.uint8), "")])
        >>> found.exact, found.num_edits, found.cer
        (1.0, 0, None)
    """
    whole_number("num_worst", num_worst, at_least=0)
    whole_number("batch_size", batch_size, at_least=1)
    if not 0 < iou_threshold <= 1:
        raise InvalidArgumentError(f"iou_threshold must be above 0 and at most 1 (got {iou_threshold!r}).")
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise InvalidArgumentError(f"dataset must have a length and rows by index (got {shown(dataset)}).")
    predictor = _predictor(model)
    if name is None:
        name = type(getattr(model, "model", model)).__name__ if isinstance(model, nn.Module) else os.fspath(model)
    found = "recognition" if isinstance(predictor, RecognitionPredictor) else "detection"
    if task not in (None, found):
        raise InvalidArgumentError(f"{name} is a model for {found}, and task is {task!r}.")
    if device is not None:
        predictor.to(checked_device(device))
    if isinstance(predictor, RecognitionPredictor):
        return _evaluate_recognition(_Rows(dataset, "text", predictor, batch_size), name, num_worst)
    return _evaluate_detection(_Rows(dataset, "boxes", predictor, batch_size), name, num_worst, iou_threshold)


def _predictor(model: Any) -> _Predictor:
    if isinstance(model, _Predictor):
        return model
    if isinstance(model, nn.Module):
        return detection_predictor(model) if hasattr(model, "class_names") else recognition_predictor(model)
    name = path_text("model", model)
    if name in list_models("det_*"):
        return detection_predictor(name, pretrained=True)
    if is_checkpoint(name):
        return _predictor(load_checkpoint(name))
    if name.lower().endswith(".onnx"):
        return recognition_predictor(load_line_recognizer(name))
    return recognition_predictor(name, pretrained=True)


def _evaluate_recognition(rows: _Rows, name: str, num_worst: int) -> RecognitionEvaluation:
    lines: list[LineScore] = []
    pairs: Counter[tuple[str, str]] = Counter()
    words = WordErrorRate()
    worst: _WorstRows[WorstLine] = _WorstRows(num_worst)
    for number, sample, image, text, (found, confidence) in rows:
        if not isinstance(text, str):
            raise InvalidArgumentError(f"row {number}: the text of a line must be a string (got {shown(text)}).")
        true, read = unicodedata.normalize("NFC", text), unicodedata.normalize("NFC", found)
        both = aligned(true, read)
        num_edits = sum(one != other for one, other in both)
        source = _source_of(sample, number)
        lines.append(LineScore(source, number, true, read, confidence, num_edits))
        pairs.update(both)
        words.update([true], [read])
        if num_edits:
            worst.offer(num_edits, number, lambda: WorstLine(source, as_picture(image).copy(), true, read, num_edits))  # noqa: B023
    return RecognitionEvaluation(
        name,
        rows.latency(),
        tuple(rows.failures),
        lines=tuple(lines),
        characters=character_scores(pairs),
        wer=words.summary(),
        worst=worst.ranked(),
    )


def _evaluate_detection(rows: _Rows, name: str, num_worst: int, iou_threshold: float) -> DetectionEvaluation:
    pages: list[PageScore] = []
    total_iou = 0.0
    worst: _WorstRows[WorstPage] = _WorstRows(num_worst)
    for number, sample, image, boxes, by_class in rows:
        found_by_class = {key: np.asarray(value)[:, :4] for key, value in by_class.items()}
        if isinstance(boxes, dict) and set(boxes) == {"boxes", "labels"}:
            boxes = boxes["boxes"]  # as in docTR's datasets of words, whose labels are texts
        true_by_class = boxes if isinstance(boxes, dict) else {"": boxes}
        if set(true_by_class) != set(found_by_class):
            # Different classes are not comparable, so all boxes are counted as text.
            found_by_class = {"": np.concatenate(list(found_by_class.values()))}
            true_by_class = {"": np.concatenate([_check_boxes(own, number) for own in true_by_class.values()])}
        trues, founds, true_matched, found_matched = [], [], [], []
        for key, found in found_by_class.items():
            is_rotated = found.ndim == 3
            true = _check_boxes(true_by_class[key], number)
            matches = match_boxes(true if is_rotated else boxes_around(true), found, iou_threshold, is_rotated)
            total_iou += matches.total_iou
            trues.append(true)
            founds.append(_quads(found))
            true_matched.append(np.isin(np.arange(len(true)), matches.truth))
            found_matched.append(np.isin(np.arange(len(found)), matches.prediction))
        is_hit, is_true = np.concatenate(true_matched), np.concatenate(found_matched)
        source = _source_of(sample, number)
        num_within = int(_are_within(np.concatenate(trues)[~is_hit], np.concatenate(founds)).sum())
        pages.append(PageScore(source, number, len(is_hit), len(is_true), int(is_hit.sum()), num_within))
        num_wrong = int((~is_hit).sum() + (~is_true).sum())
        if num_wrong:

            def make() -> WorstPage:
                picture = as_picture(image).copy()  # noqa: B023
                size = np.array([picture.shape[1], picture.shape[0]])
                corners = np.concatenate(trues) * size, np.concatenate(founds) * size  # noqa: B023
                return WorstPage(source, picture, *corners, is_hit, is_true)  # noqa: B023

            worst.offer(num_wrong, number, make)
    num_found = sum(page.num_found for page in pages)
    return DetectionEvaluation(
        name,
        rows.latency(),
        tuple(rows.failures),
        pages=tuple(pages),
        iou_threshold=iou_threshold,
        mean_iou=total_iou / num_found if num_found else None,
        worst=worst.ranked(),
    )


class _Rows:
    """Yields the rows of a dataset with the model's predictions. Records the latency, and the rows that failed.

    ``wanted`` is ``"text"`` or ``"boxes"``, the kind of truth in each row.
    """

    def __init__(self, dataset: Any, wanted: str, predictor: _Predictor, batch_size: int) -> None:
        self._dataset, self._wanted, self._predictor, self._batch_size = dataset, wanted, predictor, batch_size
        self._seconds: list[float] = []
        self.failures: list[Failure] = []

    def __iter__(self) -> Iterator[tuple[int, Any, Any, Any, Any]]:
        """Yield index, row, image, truth and prediction of each row that can be read."""
        unit = "line" if self._wanted == "text" else "page"
        waiting: list[tuple[int, Any, Any, Any]] = []
        for number in progress(range(len(self._dataset)), f"{unit}s", unit=unit):
            row = self._dataset[number]
            failures: tuple[Failure, ...] = getattr(row, "failures", ())
            if isinstance(row, Skipped) or failures:
                self.failures += failures[:1]  # the row itself; other failures are of its replacements
            else:
                waiting.append((number, row, *self._parts_of(row, number)))
            if len(waiting) == self._batch_size:
                yield from self._predict(waiting)
                waiting = []
        if waiting:
            yield from self._predict(waiting)

    def _predict(self, rows: list[tuple[int, Any, Any, Any]]) -> Iterator[tuple[int, Any, Any, Any, Any]]:
        images = [image for _, _, image, _ in rows]
        if self._batch_size == 1 and not self._seconds:
            for _ in range(NUM_WARM_UP):
                self._predictor(images)
        started = time.perf_counter()
        answers = self._predictor(images)
        if self._batch_size == 1:
            self._seconds.append(time.perf_counter() - started)
        for row, answer in zip(rows, answers, strict=True):
            yield *row, answer

    def _parts_of(self, row: Any, number: int) -> tuple[Any, Any]:
        if isinstance(row, tuple) and len(row) == 2:
            image, truth = row
        else:
            extra = getattr(row, "extra", {})
            image, truth = getattr(row, "image", None), extra.get(self._wanted, getattr(row, "target", None))
            if truth is None and self._wanted == "text":
                truth = getattr(row, "label", None)
        if image is None or truth is None:
            raise InvalidArgumentError(
                f"row {number}: a row must be a Sample with an image and extra[{self._wanted!r}], or a pair of both "
                f"(got {shown(row)})."
            )
        return image, truth

    def latency(self) -> Latency | None:
        if not self._seconds:
            return None
        low, median, high = np.quantile(self._seconds, [0.05, 0.5, 0.95]).tolist()
        return Latency(median, low, high, NUM_WARM_UP)


class _WorstRows(Generic[_Worst]):
    """Keeps the rows with the most errors. Among rows with equally many errors, the first ones are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[int, int, _Worst]] = []

    def offer(self, num_errors: int, number: int, make: Callable[[], _Worst]) -> None:
        """Keep a row if it is among the worst. Only then is ``make`` called to create the row with its image."""
        if len(self._heap) < self._most:
            heapq.heappush(self._heap, (num_errors, -number, make()))
        elif self._heap and (num_errors, -number) > self._heap[0][:2]:
            heapq.heapreplace(self._heap, (num_errors, -number, make()))

    def ranked(self) -> tuple[_Worst, ...]:
        return tuple(row for _, _, row in sorted(self._heap, key=lambda entry: entry[:2], reverse=True))


def _source_of(row: Any, number: int) -> str:
    return getattr(row, "source", "") or f"row {number}"


def _check_boxes(boxes: Any, number: int) -> NDArray[np.float64]:
    """Check the shape of the true boxes in row ``number`` of a dataset, and return their corners, (N, 4, 2)."""
    array = np.asarray(boxes.cpu() if isinstance(boxes, Tensor) else boxes, dtype=np.float64)
    if array.size and array.shape[1:] not in ((4,), (4, 2)):
        raise InvalidArgumentError(
            f"row {number}: boxes must be (N, 4) or (N, 4, 2), relative to the page (got {array.shape})."
        )
    return _quads(array) if array.size else np.zeros((0, 4, 2))


def _quads(boxes: NDArray[Any]) -> NDArray[np.float64]:
    return (boxes if boxes.ndim == 3 else boxes_to_polygons(boxes)).astype(np.float64)


def _are_within(quads: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which ``quads`` (N, 4, 2) are mostly inside one of the boxes ``others``: bool (N,)."""
    boxes = boxes_around(quads)
    needed = _WITHIN * (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    inside = np.zeros(len(boxes), dtype=bool)
    for other in boxes_around(others):  # in a loop, because there may be many true boxes
        shared = np.minimum(boxes[:, 2:], other[2:]) - np.maximum(boxes[:, :2], other[:2])
        inside |= shared.clip(0).prod(axis=1) > needed
    return inside
