"""How well boxes with classes and scores fit, as COCO counts it: the mean average precision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidArgumentError
from ._overlaps import box_iou, polygon_iou

__all__ = ["ObjectDetectionMetric"]

_RECALLS = np.linspace(0, 1, 101)
"""Where the curve of precision over recall is read."""


class ObjectDetectionMetric:
    """Mean average precision of boxes that have a class and a score, over thresholds of IoU.

    For each class, the predictions of all pages are taken from the best score to the least. One is right if the true
    box of its class that it overlaps most reaches the threshold, and no better one had that box. The average precision
    is the mean, over 101 recalls from 0 to 1, of the best precision at that recall or a greater one.

    Args:
        iou_thresholds: The thresholds; by default 0.5, 0.55, ... 0.95.
        num_classes: Classes are the numbers below this; by default those that occur. Classes without true boxes do not
            count.
        use_polygons: Boxes are rotated, (N, 4, 2), rather than straight, (N, 4).

    >>> import numpy as np
    >>> from mediatensor.ocr.utils import ObjectDetectionMetric
    >>> metric = ObjectDetectionMetric()
    >>> boxes = np.array([[0, 0, 80, 80], [120, 120, 200, 200]])
    >>> metric.update(np.array([[0, 0, 100, 100]]), boxes, np.array([0]), np.array([0, 1]), np.array([0.9, 0.3]))
    >>> summary = metric.summary()
    >>> round(summary["mAP@[.5:.95]"], 2), summary["AP@[.5]"], summary["AP@[.75]"]
    (0.3, 1.0, 0.0)
    """

    def __init__(
        self,
        iou_thresholds: Iterable[float] | None = None,
        num_classes: int | None = None,
        use_polygons: bool = False,
    ) -> None:
        self.iou_thresholds = np.round(np.arange(10) * 0.05 + 0.5, 2) if iou_thresholds is None else iou_thresholds
        self.num_classes = num_classes
        self.use_polygons = use_polygons
        self.reset()

    def update(
        self,
        gt_boxes: NDArray[Any],
        pred_boxes: NDArray[Any],
        gt_labels: NDArray[Any],
        pred_labels: NDArray[Any],
        pred_scores: NDArray[Any],
    ) -> None:
        """Count one page.

        Args:
            gt_boxes: True boxes, (N, 4) or (N, 4, 2).
            pred_boxes: Predicted boxes, (M, 4) or (M, 4, 2), in the same unit.
            gt_labels: The N true classes.
            pred_labels: The M predicted classes.
            pred_scores: The M scores; the more, the surer.

        Raises:
            InvalidArgumentError: if the numbers differ, or the boxes have another shape.

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
        """The scores so far.

        Returns:
            ``"mAP@[.5:.95]"``, the mean over all thresholds; ``"AP@[.5]"`` and ``"AP@[.75]"``, 0.0 if that threshold
            was not asked for; ``"AP_per_IoU"``, each threshold with its average precision, the mean over the classes.

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
        """Forget all pages.

        Example:
            >>> from mediatensor.ocr.utils import ObjectDetectionMetric
            >>> ObjectDetectionMetric().reset()
        """
        self._pages: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[np.float64]]] = []

    def _matches(self, label: Any) -> tuple[NDArray[Any], NDArray[np.intp], int] | None:
        """Of a class, from the best score on: the greatest IoU of each prediction, and the number of the true box that
        it is with; and how many true boxes there are. None if there are none."""
        ious, truths, scores, count = [np.zeros(0)], [np.zeros(0, np.intp)], [np.zeros(0)], 0
        for iou, gt_labels, pred_labels, pred_scores in self._pages:
            own = iou[gt_labels == label][:, pred_labels == label]
            truth = own.argmax(axis=0) if len(own) else np.zeros(own.shape[1], np.intp)
            ious.append(own.max(axis=0, initial=0))
            truths.append(truth + count)
            scores.append(pred_scores[pred_labels == label])
            count += len(own)
        if count == 0:
            return None
        order = np.argsort(-np.concatenate(scores), kind="stable")
        return np.concatenate(ious)[order], np.concatenate(truths)[order], count


def _average_precision(near: NDArray[np.bool_], truth: NDArray[np.intp], count: int) -> float:
    """The mean over recalls of the best precision at that recall or a greater one.

    Args:
        near: Whether each prediction is near enough to a true box, the best score first.
        truth: Which.
        count: How many true boxes there are.
    """
    right = np.zeros(len(near))
    candidates = np.flatnonzero(near)
    right[candidates[np.unique(truth[candidates], return_index=True)[1]]] = 1
    found = right.cumsum()
    precision = found / np.arange(1, len(found) + 1)
    envelope = np.append(np.maximum.accumulate(precision[::-1])[::-1], 0.0)
    return float(envelope[np.searchsorted(found / count, _RECALLS)].mean())
