"""Metrics of text detection and recognition, named as in docTR, and error rates.

``update`` of a metric adds data, ``summary`` returns the scores, and ``reset`` discards all data.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._engine.common.checks import checked, items_of, number_array, real_number, shown, whole_number
from ...errors import InvalidArgumentError
from ._scores import (
    MATCHES,
    CharacterErrorRate,
    TextMatch,
    WordErrorRate,
    box_iou,
    check_threshold,
    edit_distance,
    match_boxes,
    nms,
    polygon_iou,
    string_match,
)

__all__ = [
    "CharacterErrorRate",
    "DetectionMetric",
    "LocalizationConfusion",
    "OCRMetric",
    "ObjectDetectionMetric",
    "TableCellMetric",
    "TextMatch",
    "WordErrorRate",
    "box_iou",
    "edit_distance",
    "hmean",
    "nms",
    "polygon_iou",
    "string_match",
]

# The recalls at which the curve of precision over recall is sampled.
_RECALLS = np.linspace(0, 1, 101)


def _series(name: str, value: Any) -> Any:
    if isinstance(value, str) or not isinstance(value, Collection) or getattr(value, "ndim", 1) == 0:
        raise InvalidArgumentError(
            f"{name} must be a list or an array, with one item for each box (got {shown(value)})."
        )
    return value


def _share(name: str, value: Any) -> float | None:
    return None if value is None else real_number(name, value)


@checked(recall=_share, precision=_share)
def hmean(recall: float | None, precision: float | None) -> float | None:
    """Return the harmonic mean of recall and precision (F1).

    Args:
        recall: The recall in [0, 1], or ``None`` if undefined.
        precision: The precision in [0, 1], or ``None`` if undefined.

    Returns:
        The mean in [0, 1]: 0.0 if both are 0, ``None`` if one of them is undefined.

    >>> from mediatensor.ocr.utils import hmean
    >>> hmean(0.5, 1.0), hmean(0.0, 0.0), hmean(None, 1.0)
    (0.6666666666666666, 0.0, None)
    """
    if recall is None or precision is None:
        return None
    return 2 * recall * precision / (recall + precision) if recall + precision > 0 else 0.0


class _BoxMetric:
    def __init__(self, iou_thresh: float = 0.5, use_polygons: bool = False) -> None:
        self.iou_thresh = check_threshold(iou_thresh)
        self.use_polygons = use_polygons
        self.reset()

    def reset(self) -> None:
        """Discard all pages counted so far."""
        self.num_gts = self.num_preds = 0
        self.tot_iou = 0.0

    def _pair(self, gts: NDArray[Any], preds: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Match the boxes of a page, and count them. Return the indices of matching true and predicted boxes."""
        matches = match_boxes(gts, preds, self.iou_thresh, self.use_polygons)
        self.tot_iou += matches.total_iou
        self.num_gts += len(gts)
        self.num_preds += len(preds)
        return matches.truth, matches.prediction

    def _recall(self, matches: int) -> float | None:
        return matches / self.num_gts if self.num_gts else None

    def _precision(self, matches: int) -> float | None:
        return matches / self.num_preds if self.num_preds else None

    def _mean_iou(self) -> float | None:
        return round(self.tot_iou / self.num_preds, 2) if self.num_preds else None


class LocalizationConfusion(_BoxMetric):
    """Metric: recall, precision and mean IoU (intersection over union) of boxes.

    Call `update` for each page, and `summary` at the end.

    Each true box is paired with at most one predicted box, and vice versa, so that the sum of the IoU of all pairs is
    as large as possible. A pair is a match if its IoU is at least ``iou_thresh``.

    Args:
        iou_thresh: The minimum IoU of a match, in (0, 1].
        use_polygons: Whether boxes are given as corners (N, 4, 2), and can be rotated. By default, they are
            axis-aligned: (N, 4), each (xmin, ymin, xmax, ymax).

    Raises:
        InvalidArgumentError: if ``iou_thresh`` is out of range.

    >>> import numpy as np
    >>> from mediatensor.ocr.utils import LocalizationConfusion
    >>> metric = LocalizationConfusion(iou_thresh=0.45)
    >>> metric.update(np.array([[0, 0, 100, 100]]), np.array([[0, 0, 70, 70], [110, 95, 200, 150]]))
    >>> metric.summary()
    (1.0, 0.5, 0.24)
    >>> metric.reset()
    """

    @checked(gts=number_array, preds=number_array)
    def update(self, gts: NDArray[Any], preds: NDArray[Any]) -> None:
        """Add the boxes of one page to the counts.

        Args:
            gts: True boxes, (N, 4), or (N, 4, 2) with ``use_polygons``.
            preds: Predicted boxes in the same form and unit, (M, 4) or (M, 4, 2).

        Raises:
            InvalidArgumentError: if the boxes have a wrong shape.
            MissingDependencyError: if a box overlaps several other boxes, and SciPy is not installed.
        """
        self.matches += len(self._pair(gts, preds)[0])

    def summary(self) -> tuple[float | None, float | None, float | None]:
        """Return the scores of all pages counted so far. A score is ``None`` if it is undefined.

        Returns:
            A tuple (recall, precision, mean IoU). Recall is the number of matches divided by the number of true boxes.
            Precision is the number of matches divided by the number of predicted boxes. The mean IoU is the average of
            the largest IoU that each predicted box has with any true box, rounded to two digits.
        """
        return self._recall(self.matches), self._precision(self.matches), self._mean_iou()

    def reset(self) -> None:
        super().reset()
        self.matches = 0


class OCRMetric(_BoxMetric):
    """Metric: recall and precision of words that are both detected and recognised.

    The arguments are ``iou_thresh`` and ``use_polygons``, as for `LocalizationConfusion`, and boxes are paired in the
    same way. A pair is a match only if, in addition, both boxes have the same text. Texts are compared in the four ways
    of `string_match`.

    >>> import numpy as np
    >>> from mediatensor.ocr.utils import OCRMetric
    >>> metric = OCRMetric(iou_thresh=0.45)
    >>> boxes = np.array([[0, 0, 70, 70], [110, 95, 200, 150]])
    >>> metric.update(np.array([[0, 0, 100, 100]]), boxes, ["hello"], ["hello", "world"])
    >>> recall, precision, mean_iou = metric.summary()
    >>> recall["raw"], precision["raw"], mean_iou
    (1.0, 0.5, 0.24)
    """

    @checked(gt_boxes=number_array, pred_boxes=number_array, gt_labels=_series, pred_labels=_series)
    def update(
        self,
        gt_boxes: NDArray[Any],
        pred_boxes: NDArray[Any],
        gt_labels: Sequence[str],
        pred_labels: Sequence[str],
    ) -> None:
        """Add the boxes of one page to the counts.

        Args:
            gt_boxes, pred_boxes: True boxes, (N, 4), or (N, 4, 2) with ``use_polygons``, and M predicted boxes in the
                same form and unit.
            gt_labels: The N true words, one for each true box.
            pred_labels: The M recognised words, one for each predicted box.

        Raises:
            InvalidArgumentError: if the numbers of boxes and words differ, or the boxes have a wrong shape.
            MissingDependencyError: if SciPy or anyascii is needed and not installed.
        """
        _check_labels(gt_boxes, pred_boxes, gt_labels, pred_labels)
        truth, prediction = self._pair(gt_boxes, pred_boxes)
        for true, read in zip(truth.tolist(), prediction.tolist(), strict=True):
            raw, caseless, anyascii, unicase = string_match(gt_labels[true], pred_labels[read])
            self.raw_matches += raw
            self.caseless_matches += caseless
            self.anyascii_matches += anyascii
            self.unicase_matches += unicase

    def summary(self) -> tuple[dict[str, float | None], dict[str, float | None], float | None]:
        """Return the scores of all pages counted so far. A score is ``None`` if it is undefined.

        Returns:
            A tuple (recall, precision, mean IoU). Recall and precision are dicts with a value for each way of comparing
            texts: ``raw`` (unchanged), ``caseless`` (lower case), ``anyascii`` (ASCII) and ``unicase`` (ASCII in lower
            case). The mean IoU is a number, as in `LocalizationConfusion`.
        """
        counts = (self.raw_matches, self.caseless_matches, self.anyascii_matches, self.unicase_matches)
        recall = {name: self._recall(count) for name, count in zip(MATCHES, counts, strict=True)}
        precision = {name: self._precision(count) for name, count in zip(MATCHES, counts, strict=True)}
        return recall, precision, self._mean_iou()

    def reset(self) -> None:
        super().reset()
        self.raw_matches = self.caseless_matches = self.anyascii_matches = self.unicase_matches = 0


class DetectionMetric(_BoxMetric):
    """Metric: recall and precision of boxes with a class.

    The arguments are ``iou_thresh`` and ``use_polygons``, as for `LocalizationConfusion`, and boxes are paired in the
    same way. A pair is a match only if, in addition, both boxes have the same class.

    >>> import numpy as np
    >>> from mediatensor.ocr.utils import DetectionMetric
    >>> metric = DetectionMetric(iou_thresh=0.45)
    >>> boxes = np.array([[0, 0, 70, 70], [110, 95, 200, 150]])
    >>> metric.update(np.array([[0, 0, 100, 100]]), boxes, np.array([1]), np.array([1, 0]))
    >>> metric.summary()
    (1.0, 0.5, 0.24)
    """

    @checked(gt_boxes=number_array, pred_boxes=number_array, gt_labels=_series, pred_labels=_series)
    def update(
        self,
        gt_boxes: NDArray[Any],
        pred_boxes: NDArray[Any],
        gt_labels: NDArray[Any],
        pred_labels: NDArray[Any],
    ) -> None:
        """Add the boxes of one page to the counts.

        Args:
            gt_boxes, pred_boxes: True boxes, (N, 4), or (N, 4, 2) with ``use_polygons``, and M predicted boxes in the
                same form and unit.
            gt_labels: Array (N,) of the class indices of the true boxes.
            pred_labels: Array (M,) of the class indices of the predicted boxes.

        Raises:
            InvalidArgumentError: if the numbers of boxes and classes differ, or the boxes have a wrong shape.
        """
        _check_labels(gt_boxes, pred_boxes, gt_labels, pred_labels)
        truth, prediction = self._pair(gt_boxes, pred_boxes)
        self.num_matches += int((np.asarray(gt_labels)[truth] == np.asarray(pred_labels)[prediction]).sum())

    def summary(self) -> tuple[float | None, float | None, float | None]:
        """Return a tuple (recall, precision, mean IoU) of all pages counted so far, as in `LocalizationConfusion`.

        Each score is ``None`` if it is undefined.
        """
        return self._recall(self.num_matches), self._precision(self.num_matches), self._mean_iou()

    def reset(self) -> None:
        super().reset()
        self.num_matches = 0


class TableCellMetric(_BoxMetric):
    """Metric: recall and precision of table cells, and the share of cells with the right rows and columns.

    The arguments are ``iou_thresh`` and ``use_polygons``, as for `LocalizationConfusion`, and boxes are paired in the
    same way.

    >>> import numpy as np
    >>> from mediatensor.ocr.utils import TableCellMetric
    >>> metric = TableCellMetric()
    >>> cells, found = np.array([[0, 0, 50, 20], [50, 0, 100, 20]]), np.array([[0, 0, 50, 18], [50, 2, 100, 20]])
    >>> metric.update(cells, np.array([[0, 0, 0, 0], [1, 1, 0, 0]]), found, np.array([[0, 0, 0, 0], [2, 2, 0, 0]]))
    >>> metric.summary()
    {'recall': 1.0, 'precision': 1.0, 'f1': 1.0, 'structure_acc': 0.5}
    """

    @checked(gt_cells=number_array, gt_logic=number_array, pred_cells=number_array, pred_logic=number_array)
    def update(
        self, gt_cells: NDArray[Any], gt_logic: NDArray[Any], pred_cells: NDArray[Any], pred_logic: NDArray[Any]
    ) -> None:
        """Add the cells of one table to the counts.

        Args:
            gt_cells: True boxes of the cells, (N, 4), or (N, 4, 2) with ``use_polygons``.
            gt_logic: Array (N, 4): first column, last column, first row and last row of each true cell.
            pred_cells: Predicted boxes of the cells in the same form and unit, (M, 4) or (M, 4, 2).
            pred_logic: Array (M, 4): first column, last column, first row and last row of each predicted cell.

        Raises:
            InvalidArgumentError: if a box array and its ``logic`` array differ in length, or the boxes have a wrong
                shape.
        """
        _check_labels(gt_cells, pred_cells, gt_logic, pred_logic)
        truth, prediction = self._pair(gt_cells, pred_cells)
        self.matches += len(truth)
        pairs = zip(truth.tolist(), prediction.tolist(), strict=True)
        self.struct_matches += sum(np.array_equal(gt_logic[true], pred_logic[found]) for true, found in pairs)

    def summary(self) -> dict[str, float | None]:
        """Return the scores of all tables counted so far. A score is ``None`` if it is undefined.

        Returns:
            A dict with the keys ``"recall"``, ``"precision"``, ``"f1"`` and ``"structure_acc"``. The last is the share
            of matched cells for which the predicted rows and columns equal the true ones.
        """
        recall, precision = self._recall(self.matches), self._precision(self.matches)
        return {
            "recall": recall,
            "precision": precision,
            "f1": hmean(recall, precision) if self.matches else None,
            "structure_acc": self.struct_matches / self.matches if self.matches else None,
        }

    def reset(self) -> None:
        super().reset()
        self.matches = self.struct_matches = 0


class ObjectDetectionMetric:
    """Metric: mean average precision (mAP) of boxes with classes and scores, averaged over several IoU thresholds.

    Average precision is computed for each class and threshold as follows. The predictions of the class on all pages are
    sorted by descending score. Each prediction is compared with the true box of its class that it overlaps most. It is
    correct if its IoU with this box reaches the threshold, unless a prediction with a higher score has already matched
    the same box. Each of the recalls 0, 0.01, ... 1 then gets the best precision that is reached at this recall or a
    higher one. The average precision is the mean of these 101 precisions.

    Args:
        iou_thresholds: The thresholds of the IoU (intersection over union); by default 0.5, 0.55, ... 0.95.
        num_classes: Number of classes, which are numbered from 0. By default, all classes that occur are used. Classes
            without true boxes are ignored.
        use_polygons: Whether boxes are given as corners (N, 4, 2), and can be rotated. By default, they are
            axis-aligned: (N, 4), each (xmin, ymin, xmax, ymax).

    >>> import numpy as np
    >>> from mediatensor.ocr.utils import ObjectDetectionMetric
    >>> metric = ObjectDetectionMetric()
    >>> boxes = np.array([[0, 0, 80, 80], [120, 120, 200, 200]])
    >>> metric.update(np.array([[0, 0, 100, 100]]), boxes, np.array([0]), np.array([0, 1]), np.array([0.9, 0.3]))
    >>> summary = metric.summary()
    >>> round(summary["mAP@[.5:.95]"], 2), summary["AP@[.5]"], summary["AP@[.75]"]
    (0.3, 1.0, 0.0)
    >>> metric.reset()
    """

    def __init__(
        self,
        iou_thresholds: Iterable[float] | None = None,
        num_classes: int | None = None,
        use_polygons: bool = False,
    ) -> None:
        self.iou_thresholds = (
            np.round(np.arange(10) * 0.05 + 0.5, 2)
            if iou_thresholds is None
            else [check_threshold(value) for value in items_of("iou_thresholds", iou_thresholds, of="numbers")]
        )
        self.num_classes = None if num_classes is None else whole_number("num_classes", num_classes, at_least=0)
        self.use_polygons = use_polygons
        self.reset()

    @checked(
        gt_boxes=number_array,
        pred_boxes=number_array,
        gt_labels=_series,
        pred_labels=_series,
        pred_scores=number_array,
    )
    def update(
        self,
        gt_boxes: NDArray[Any],
        pred_boxes: NDArray[Any],
        gt_labels: NDArray[Any],
        pred_labels: NDArray[Any],
        pred_scores: NDArray[Any],
    ) -> None:
        """Add the boxes of one page to the counts.

        Args:
            gt_boxes, pred_boxes, gt_labels, pred_labels: Boxes and class indices, as in `DetectionMetric.update`.
            pred_scores: Array (M,) of the scores of the predicted boxes. Higher scores mean more confidence.

        Raises:
            InvalidArgumentError: if the numbers of boxes, classes and scores differ, or the boxes have a wrong shape.

        Example:
            >>> import numpy as np
            >>> from mediatensor.ocr.utils import ObjectDetectionMetric
            >>> metric, box, label = ObjectDetectionMetric(), np.array([[0, 0, 10, 10]]), np.array([0])
            >>> metric.update(box, box, label, label, np.array([0.5]))
            >>> metric.summary()["mAP@[.5:.95]"]
            1.0
        """
        counts = [len(values) for values in (gt_boxes, gt_labels, pred_boxes, pred_labels, pred_scores)]
        if counts[0] != counts[1] or counts[2] != counts[3] or counts[2] != counts[4]:
            raise InvalidArgumentError(
                "every box needs one label, and every predicted one a score, got {} true boxes, {} labels, "
                "{} predicted boxes, {} labels, {} scores".format(*counts)
            )
        iou = (polygon_iou if self.use_polygons else box_iou)(np.asarray(gt_boxes), np.asarray(pred_boxes))
        self._pages.append((iou, np.asarray(gt_labels), np.asarray(pred_labels), np.asarray(pred_scores, dtype=float)))

    def summary(self) -> dict[str, Any]:
        """Return the scores of all pages counted so far.

        Returns:
            A dict with four entries. ``"AP_per_IoU"`` maps each IoU threshold to the mean of the average precisions
            of all classes. ``"mAP@[.5:.95]"`` is the mean over all thresholds. ``"AP@[.5]"`` and ``"AP@[.75]"`` are the
            values for the thresholds 0.5 and 0.75, or 0.0 if the threshold is not in ``iou_thresholds``.

        Raises:
            InvalidArgumentError: if no page was counted.
        """
        if not self._pages:
            raise InvalidArgumentError("ObjectDetectionMetric has no pages to summarise: call update() first")
        classes: Sequence[Any]
        if self.num_classes is None:
            classes = np.unique(np.concatenate([labels for page in self._pages for labels in page[1:3]])).tolist()
        else:
            classes = range(self.num_classes)
        by_class = [found for label in classes if (found := self._matches(label)) is not None]
        per_iou = {}
        for threshold in map(float, self.iou_thresholds):
            precisions = [_average_precision(iou >= threshold, truth, count) for iou, truth, count in by_class]
            per_iou[threshold] = float(np.mean(precisions)) if precisions else 0.0
        return {
            "mAP@[.5:.95]": float(np.mean(list(per_iou.values()))),
            "AP@[.5]": per_iou.get(0.5, 0.0),
            "AP@[.75]": per_iou.get(0.75, 0.0),
            "AP_per_IoU": per_iou,
        }

    def reset(self) -> None:
        """Discard all pages counted so far."""
        self._pages: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[np.float64]]] = []

    def _matches(self, label: Any) -> tuple[NDArray[Any], NDArray[np.intp], int] | None:
        """Collect the predictions of a class on all pages, by descending score, as the input of `_average_precision`.

        Return the largest IoU of each prediction with a true box of the class, the index of this true box for each
        prediction, and the number of true boxes. Return None if the class has no true boxes.
        """
        ious, truths, scores, count = [np.zeros(0)], [np.zeros(0, np.intp)], [np.zeros(0)], 0
        for iou, gt_labels, pred_labels, pred_scores in self._pages:
            class_iou = iou[gt_labels == label][:, pred_labels == label]
            truth = class_iou.argmax(axis=0) if len(class_iou) else np.zeros(class_iou.shape[1], np.intp)
            ious.append(class_iou.max(axis=0, initial=0))
            truths.append(truth + count)
            scores.append(pred_scores[pred_labels == label])
            count += len(class_iou)
        if count == 0:
            return None
        order = np.argsort(-np.concatenate(scores), kind="stable")
        return np.concatenate(ious)[order], np.concatenate(truths)[order], count


def _average_precision(near: NDArray[np.bool_], truth: NDArray[np.intp], count: int) -> float:
    """Return the average precision of one class at one IoU threshold; see `ObjectDetectionMetric`.

    The predictions are ordered by descending score. ``truth`` has the index of the true box that each prediction
    overlaps most. ``near`` is True for predictions whose IoU with this box reaches the threshold. ``count`` is the
    number of true boxes.
    """
    right = np.zeros(len(near))
    candidates = np.flatnonzero(near)
    right[candidates[np.unique(truth[candidates], return_index=True)[1]]] = 1
    num_right = right.cumsum()
    precision = num_right / np.arange(1, len(num_right) + 1)
    envelope = np.append(np.maximum.accumulate(precision[::-1])[::-1], 0.0)
    return float(envelope[np.searchsorted(num_right / count, _RECALLS)].mean())


def _check_labels(
    gt_boxes: NDArray[Any],
    pred_boxes: NDArray[Any],
    gt_labels: Sequence[str] | NDArray[Any],
    pred_labels: Sequence[str] | NDArray[Any],
) -> None:
    for name, boxes, labels in (("true", gt_boxes, gt_labels), ("predicted", pred_boxes, pred_labels)):
        if len(boxes) != len(labels):
            raise InvalidArgumentError(
                f"every {name} box needs one label, got {len(boxes)} boxes, {len(labels)} labels"
            )
