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
from ..models._pages.preprocessing import Placement, PreProcessor
from ..utils._page_images import resized
from ..utils.geometry import boxes_around
from ..utils.metrics import LocalizationConfusion
from ._learning import first_rows, random_number, with_changes

__all__ = ["Detection", "changed_page", "cropped_page"]

_IOU = 0.5
#: Pages are cropped at scales from 1 / 2 ** this to 2 ** this.
_MOST_ZOOM = 0.6
#: How many of the crops are around text.
_TEXT_SHARE = 0.9
#: Thresholds that are tried, of pixels and of boxes, and on how many pages.
_PIXEL_THRESHOLDS = (0.1, 0.2, 0.3, 0.5, 0.7)
_BOX_THRESHOLDS = (0.1, 0.3, 0.5, 0.6, 0.7)
_NUM_PAGES_TRIED = 20
_NO_BOXES: NDArray[np.float64] = np.zeros((0, 4))
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
    points = _corners(boxes) * (place.width, place.height) + (place.left, place.top)
    return points.reshape(boxes.shape)


def _corners(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Two corners of straight boxes, (K, 2, 2), four of others, (K, 4, 2)."""
    return boxes.reshape(len(boxes), 4 if boxes.ndim == 3 else 2, 2)


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
        points = _corners(boxes) * [width, height]
        points = (points - [left, top]) / [columns, rows]
        centres = points.mean(axis=1)
        inside = ((centres > 0) & (centres < 1)).all(axis=1)
        boxes = points[inside].clip(0, 1).reshape(inside.sum(), *boxes.shape[1:])
    return _recoloured(image), boxes


def _recoloured(image: Tensor) -> Tensor:
    """A picture with other colours, contrast, sharpness and noise; uint8 (3, H, W)."""
    picture = image.float() / 255
    if random_number() < 0.1:
        picture = 1 - picture
    if random_number() < 0.5:
        mean = picture.mean()
        picture = ((picture - mean) * random_number(0.5, 1.2) + mean + random_number(-0.15, 0.15)).clamp(0, 1)
    if random_number() < 0.3:
        factor, (height, width) = random_number(0.5, 0.9), picture.shape[1:]
        small = F.interpolate(picture[None], (max(1, int(height * factor)), max(1, int(width * factor))), mode="area")
        picture = F.interpolate(small, (height, width), mode="bilinear", align_corners=False)[0]
    if random_number() < 0.3:
        picture = picture + random_number(0.01, 0.08) * torch.randn_like(picture[:1])
    return (picture * 255).round().clamp(0, 255).to(torch.uint8)


@dataclass(frozen=True)
class _Cropping:
    """Cuts a square out of a page, see `cropped_page`; with ``augment`` changed at random."""

    page_size: int
    crop_size: int
    augment: bool

    def __call__(self, sample: Sample) -> Sample:
        if sample.image is None:
            return sample
        zoom = 2 ** random_number(-_MOST_ZOOM, _MOST_ZOOM) if self.augment else 1.0
        given = sample.extra.get("boxes", np.zeros((0, 4)))
        by_class = given if isinstance(given, Mapping) else {"": given}
        image, left = cropped_page(sample.image, by_class, round(zoom * self.page_size), self.crop_size)
        if self.augment:
            image = _recoloured(image)
        return replace(sample, image=image, extra={**sample.extra, "boxes": left if by_class is given else left[""]})


def cropped_page(
    image: Tensor, boxes: Mapping[str, NDArray[np.float64]], page_size: int, crop_size: int
) -> tuple[Tensor, dict[str, NDArray[np.float64]]]:
    """A square that is cut out of a page, mostly around text, with the parts of boxes that lie in it.

    Where it is cut is drawn from torch's global generator.

    Args:
        image: uint8 (3, H, W).
        boxes: By class, (K, 4) or (K, 4, 2), relative.
        page_size: The page is brought into the middle of a square of so many pixels, as predictors do, before it is
            cut. Beside it is black.
        crop_size: The side of what is cut out, in pixels.

    Returns:
        uint8 (3, crop_size, crop_size), and the boxes relative to that.

    Example:
        >>> import numpy as np, torch
        >>> from mediatensor.ocr.training import cropped_page
        >>> page = torch.full((3, 80, 60), 255, dtype=torch.uint8)
        >>> crop, boxes = cropped_page(page, {"words": np.array([[0.4, 0.4, 0.6, 0.6]])}, page_size=160, crop_size=64)
        >>> crop.shape, boxes["words"].shape[1]
        (torch.Size([3, 64, 64]), 4)
    """
    size = np.array([image.shape[2], image.shape[1]])
    zoom = page_size / size.max()
    corners = [_corners(np.asarray(own, np.float64)) for own in boxes.values()]
    centres = np.concatenate([np.zeros((0, 2)), *(own.mean(axis=1) for own in corners)])
    # Somewhere in the crop is the middle of some text, or now and then any point of the page.
    point = np.array([random_number(), random_number()])
    if len(centres) and random_number() < _TEXT_SHARE:
        point = centres[int(random_number(0, len(centres)))].clip(0, 1)
    # Pixels of the enlarged page, of which (0, 0) is the top left corner; the square around it begins before.
    whole = max(page_size, crop_size)
    before = (whole - size * zoom) / 2
    start = point * size * zoom - [random_number(0, crop_size), random_number(0, crop_size)]
    start = start.clip(-before, whole - crop_size - before)
    low = np.floor(start / zoom).clip(0, size - 1).astype(int)
    high = np.ceil((start + crop_size) / zoom).clip(low + 1, size).astype(int)
    place = np.round(low * zoom - start).clip(0, crop_size - 1).astype(int)
    extent = np.round((high - low) * zoom).clip(1, crop_size - place).astype(int)
    crop = torch.zeros((3, crop_size, crop_size), dtype=image.dtype)
    crop[:, place[1] : place[1] + extent[1], place[0] : place[0] + extent[0]] = resized(
        image[:, low[1] : high[1], low[0] : high[0]], (int(extent[1]), int(extent[0]))
    )
    left = {}
    for (name, old), own in zip(boxes.items(), corners, strict=True):
        points = ((own * size - low) * (extent / (high - low)) + place).clip(0, crop_size)
        is_seen = (np.ptp(points, axis=1) >= 1).all(axis=1)
        left[name] = (points[is_seen] / crop_size).reshape(is_seen.sum(), *np.shape(old)[1:])
    return crop, left


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

    def __init__(self, model: Any, crop_size: int | None = None) -> None:
        self.model, self._crop_size = model, crop_size

    def check(self, datasets: Iterable[MediaDataset]) -> None:
        """Rows show what boxes they have when they are read."""

    def prepared(self, dataset: MediaDataset, augment: bool) -> MediaDataset:
        """The rows as they are learnt."""
        if self._crop_size is not None:
            page_size = self.model.cfg["input_shape"][-1]
            return with_changes(dataset, _Cropping(page_size, self._crop_size, augment))
        return with_changes(dataset, _changed) if augment else dataset

    def collator(self, batch_size: int) -> _BoxBatches:
        """Makes batches of samples."""
        cfg = self.model.cfg
        size, mean, std = self._crop_size or cfg["input_shape"][-1], cfg["mean"], cfg["std"]
        pre_processor = PreProcessor(size, batch_size, mean, std, preserve_aspect_ratio=True, symmetric_pad=True)
        return _BoxBatches(pre_processor, cfg.get("color_order") == "BGR", tuple(self.model.class_names))

    def loss(self, model: Any, batch: BoxBatch, share: float = 1.0) -> Tensor:
        """The loss of a network like this one for a batch."""
        # Channels last, convolutions take a quarter less time.
        data = batch.data.to(next(model.parameters()).device).contiguous(memory_format=torch.channels_last)
        loss: Tensor = model(data, batch.boxes)["loss"]
        return loss

    def keeping_loss(self, batch: BoxBatch) -> Tensor:
        """The same for pages that were known."""
        return self.loss(self.model, batch)

    @torch.no_grad()
    def chosen_options(self, model: Any, dataset: MediaDataset) -> dict[str, Any]:
        """Choose the thresholds of pixels and boxes.

        Those of an architecture are for networks that learnt for days. Before, probabilities fall slowly at the edges
        of text: boxes are too large, and few of them are right.
        """
        predictor, post = detection_predictor(model), model.postprocessor
        device = next(model.parameters()).device
        confusions = {
            (pixel, box): LocalizationConfusion(_IOU) for pixel in _PIXEL_THRESHOLDS for box in _BOX_THRESHOLDS
        }
        before, post.box_thresh = (post.bin_thresh, post.box_thresh), _BOX_THRESHOLDS[0]
        for samples in first_rows(dataset, _NUM_PAGES_TRIED, at_once=1):
            for sample in samples:
                true_by_class = boxes_of(sample, model.class_names)
                (batch,) = predictor.pre_processor.batches([] if sample.image is None else [sample.image])
                data = batch.data.flip(1) if model.cfg.get("color_order") == "BGR" else batch.data
                maps = model(data.to(device), maps_only=True)["out_map"].float().cpu().permute(0, 2, 3, 1).numpy()
                trues = [
                    _straight(_placed(true_by_class.get(name, _NO_BOXES), *batch.placements))
                    for name in model.class_names
                ]
                for pixel in _PIXEL_THRESHOLDS:
                    post.bin_thresh = pixel
                    for true, found in zip(trues, post(maps)[0], strict=True):
                        for box in _BOX_THRESHOLDS:
                            confusions[pixel, box].update(true, found[found[:, 4] >= box, :4])
        scores = {choice: _scores_of(confusion).score for choice, confusion in confusions.items()}
        best = max(scores, key=scores.__getitem__)
        post.bin_thresh, post.box_thresh = best if scores[best] else before
        return {"bin_thresh": post.bin_thresh, "box_thresh": post.box_thresh}

    @torch.no_grad()
    def scores(self, model: Any, dataset: MediaDataset, num_rows: int | None = None) -> DetectionScores:
        """Search the pages of a dataset, or the first of them, with a network like this one, and compare."""
        predictor, confusion = detection_predictor(model), LocalizationConfusion(_IOU)
        for samples in first_rows(dataset, num_rows, at_once=1):
            for sample in samples:
                true_by_class = boxes_of(sample, model.class_names)
                (found_by_class,) = predictor([sample.image])
                for name, found in found_by_class.items():
                    confusion.update(_straight(true_by_class.get(name, _NO_BOXES)), found[:, :4])
        if not confusion.num_gts:
            raise InvalidArgumentError(f"{dataset!r} has no page with a box: there is nothing to compare with.")
        return _scores_of(confusion)


def _straight(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The upright boxes, (K, 4), of quadrangles; others stay as they are."""
    return boxes_around(boxes).astype(np.float64) if boxes.ndim == 3 else boxes


def _scores_of(confusion: LocalizationConfusion) -> DetectionScores:
    recall, precision, _ = confusion.summary()
    return DetectionScores(confusion.num_gts, recall or 0.0, precision or 0.0)
