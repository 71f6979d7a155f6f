"""What is particular about training detectors: pages of one size with their boxes, and how many are found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from ...datasets import MediaDataset, Sample, Skipped
from ...errors import InvalidArgumentError
from ..models import detection_predictor
from ..models._lines import straight_boxes
from ..models._pages import Placement, PreProcessor
from ..utils import LocalizationConfusion
from ._learning import first_rows, random_number, with_changes

__all__ = ["Detection", "changed_page"]

_IOU = 0.5
Boxes = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class BoxBatch:
    """Pages that go through a detector together.

    Attributes:
        data: (N, 3, H, W), as the network takes them.
        boxes: For each page the boxes of each class, relative to ``data``, (K, 4) or (K, 4, 2).
    """

    data: Tensor
    boxes: list[Boxes]


@dataclass(frozen=True)
class _BoxBatches:
    """Makes batches of pages of one size: scaled, and padded on all sides."""

    pre_processor: PreProcessor
    flips_channels: bool
    class_names: tuple[str, ...]

    def __call__(self, samples: list[Sample | Skipped]) -> list[BoxBatch]:
        rows = [sample for sample in samples if isinstance(sample, Sample) and sample.image is not None]
        batches = []
        for batch in self.pre_processor.batches([sample.image for sample in rows if sample.image is not None]):
            boxes = []
            for index, place in zip(batch.indices, batch.placements, strict=True):
                true = boxes_of(rows[index], self.class_names)
                boxes.append({name: _placed(own, place) for name, own in true.items()})
            batches.append(BoxBatch(batch.data.flip(1) if self.flips_channels else batch.data, boxes))
        return batches


def _placed(boxes: NDArray[np.float64], place: Placement) -> NDArray[np.float64]:
    """Boxes relative to a picture, relative to the input that it is a part of."""
    points = boxes.reshape(len(boxes), -1, 2) * (place.width, place.height) + (place.left, place.top)
    return points.reshape(boxes.shape)


def boxes_of(sample: Sample, class_names: Iterable[str]) -> Boxes:
    """The boxes of a page by class, (K, 4) or (K, 4, 2), relative; classes without boxes are left out.

    Raises:
        InvalidArgumentError: if the page has none, or they are not of that shape, or of a class that is not known.
    """
    names = tuple(class_names)
    given = sample.extra.get("boxes")
    if given is None:
        raise InvalidArgumentError(
            f"Row {sample.row}, {sample.source!r}, has no boxes: Sample.extra['boxes'] must have them (PageDataset)."
        )
    by_class = given if isinstance(given, Mapping) else {names[0]: given}
    if unknown := sorted(set(by_class) - set(names)):
        raise InvalidArgumentError(
            f"Row {sample.row}, {sample.source!r}, has boxes of {', '.join(unknown)}; the detector knows "
            f"{', '.join(names)}."
        )
    found = {}
    for name, own in by_class.items():
        boxes = np.asarray(own, dtype=np.float64)
        if boxes.size and boxes.shape[1:] not in ((4,), (4, 2)):
            raise InvalidArgumentError(
                f"Row {sample.row}, {sample.source!r}: boxes must be (N, 4) or (N, 4, 2) (got {boxes.shape})."
            )
        if len(boxes):
            found[name] = boxes.clip(0, 1)
    return found


def _changed(sample: Sample) -> Sample:
    """A page with boxes of one class, changed at random; see `changed_page`. Others stay."""
    boxes = sample.extra.get("boxes")
    if sample.image is None or not isinstance(boxes, np.ndarray):
        return sample
    image, left = changed_page(sample.image, boxes)
    return replace(sample, image=image, extra={**sample.extra, "boxes": left})


def changed_page(image: Tensor, boxes: NDArray[np.float64]) -> tuple[Tensor, NDArray[np.float64]]:
    """A part of a page, as it might have been scanned otherwise, with the boxes that lie in it.

    All of it is drawn from torch's global generator.

    Args:
        image: uint8 (3, H, W).
        boxes: (K, 4) or (K, 4, 2), relative.

    Returns:
        uint8 (3, h, w), and the boxes relative to that.

    Example:
        >>> import numpy as np, torch
        >>> from mediatensor.ocr.training import changed_page
        >>> page = torch.full((3, 80, 60), 255, dtype=torch.uint8)
        >>> page, boxes = changed_page(page, np.array([[0.4, 0.4, 0.6, 0.6]]))
        >>> page.dtype, boxes.shape[1]
        (torch.uint8, 4)
    """
    height, width = image.shape[1:]
    if random_number() < 0.7:
        share = random_number(0.45, 1.0)
        rows, columns = max(8, round(height * share)), max(8, round(width * share))
        top = int(random_number(0, max(0, height - rows) + 1))
        left = int(random_number(0, max(0, width - columns) + 1))
        image = image[:, top : top + rows, left : left + columns]
        rows, columns = image.shape[1:]
        points = boxes.reshape(len(boxes), -1, 2) * [width, height]
        points = (points - [left, top]) / [columns, rows]
        centres = points.mean(axis=1)
        inside = ((centres > 0) & (centres < 1)).all(axis=1)
        boxes = points[inside].clip(0, 1).reshape(-1, *boxes.shape[1:])
    picture = image.float() / 255
    if random_number() < 0.1:
        picture = 1 - picture
    if random_number() < 0.5:
        mean = picture.mean()
        picture = ((picture - mean) * random_number(0.5, 1.2) + mean + random_number(-0.15, 0.15)).clamp(0, 1)
    if random_number() < 0.3:
        small = F.interpolate(picture[None], scale_factor=random_number(0.5, 0.9), mode="area")
        picture = F.interpolate(small, picture.shape[1:], mode="bilinear", align_corners=False)[0]
    if random_number() < 0.3:
        picture = picture + random_number(0.01, 0.08) * torch.randn_like(picture[:1])
    return (picture * 255).round().clamp(0, 255).to(torch.uint8), boxes


@dataclass(frozen=True)
class DetectionScores:
    """How well text is found.

    Attributes:
        num_boxes: How many true boxes there are.
        recall: The share of them that was found.
        precision: The share of what was found that is true.
    """

    num_boxes: int
    recall: float
    precision: float

    @property
    def score(self) -> float:
        """The harmonic mean of both."""
        return 2 * self.recall * self.precision / max(self.recall + self.precision, 1e-9)

    def as_dict(self) -> dict[str, float]:
        """The scores by name."""
        return {"num_boxes": self.num_boxes, "recall": self.recall, "precision": self.precision, "score": self.score}


class Detection:
    """A detector in training; see `Learner`."""

    task = "detection"

    def __init__(self, model: Any) -> None:
        self.model = model

    def check(self, datasets: Iterable[MediaDataset]) -> None:
        """Rows show what boxes they have when they are read."""

    def prepared(self, dataset: MediaDataset, augment: bool) -> MediaDataset:
        """The rows as they are learnt."""
        return with_changes(dataset, _changed) if augment else dataset

    def collator(self, batch_size: int) -> _BoxBatches:
        """Makes batches of samples."""
        cfg = self.model.cfg
        size, mean, std = cfg["input_shape"][-1], cfg["mean"], cfg["std"]
        pre_processor = PreProcessor(size, batch_size, mean, std, preserve_aspect_ratio=True, symmetric_pad=True)
        return _BoxBatches(pre_processor, cfg.get("color_order") == "BGR", tuple(self.model.class_names))

    def loss(self, model: Any, batch: BoxBatch) -> Tensor:
        """The loss of a network like this one for a batch."""
        device = next(model.parameters()).device
        loss: Tensor = model(batch.data.to(device), batch.boxes)["loss"]
        return loss

    def keeping_loss(self, batch: BoxBatch) -> Tensor:
        """The same for pages that were known."""
        return self.loss(self.model, batch)

    @torch.no_grad()
    def scores(self, model: Any, dataset: MediaDataset, num_rows: int | None = None) -> DetectionScores:
        """Search the pages of a dataset, or the first of them, with a network like this one, and compare."""
        predictor, confusion = detection_predictor(model), LocalizationConfusion(_IOU)
        for samples in first_rows(dataset, num_rows, at_once=1):
            for sample in samples:
                true_by_class = boxes_of(sample, model.class_names)
                (found_by_class,) = predictor([sample.image])
                for name, found in found_by_class.items():
                    true = true_by_class.get(name, np.zeros((0, 4)))
                    confusion.update(straight_boxes(true) if true.ndim == 3 else true, found[:, :4])
        recall, precision, _ = confusion.summary()
        if recall is None:
            raise InvalidArgumentError(f"{dataset!r} has no page with a box: there is nothing to compare with.")
        return DetectionScores(confusion.num_gts, recall, precision or 0.0)
