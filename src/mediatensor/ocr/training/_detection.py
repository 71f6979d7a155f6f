"""Learners that train on page images, for text detectors and orientation classifiers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from ...datasets import MediaDataset, Sample, Skipped
from ...errors import InvalidArgumentError
from ..models import detection_predictor
from ..models._networks.preprocessing import Placement, PreProcessor
from ..utils._page_images import resized
from ..utils.geometry import boxes_around
from ..utils.metrics import LocalizationConfusion
from ._recognition import Learner
from ._rows import change_picture, first_rows, random_number, soften, with_changes

_IOU = 0.5
# Crops are scaled by a factor from 1 / 2 ** this to 2 ** this.
_MOST_ZOOM = 0.6
# Share of the crops that contain text.
_TEXT_SHARE = 0.9
# Candidates for the thresholds of pixels and boxes, and the number of pages on which they are compared.
_PIXEL_THRESHOLDS = (0.1, 0.2, 0.3, 0.5, 0.7)
_BOX_THRESHOLDS = (0.1, 0.3, 0.5, 0.6, 0.7)
_NUM_PAGES_TRIED = 20
_SCORED_AT_ONCE = 32
_NO_BOXES: NDArray[np.float64] = np.zeros((0, 4))
Boxes = dict[str, NDArray[np.float64]]
TruthFunction = Callable[[list[Sample], list[Placement]], Any]


@dataclass(frozen=True)
class PageBatch:
    """A batch of page images, (N, 3, H, W), and the boxes or classes that the network has to find.

    ``truth`` has the boxes of each page by class for a detector, and the class numbers for an orientation classifier.
    """

    data: Tensor
    truth: Any


@dataclass(frozen=True)
class _PageBatches:
    """Puts page images in batches. Pages are scaled, and padded on all sides, to the same size."""

    pre_processor: PreProcessor
    flips_channels: bool
    truth_of: TruthFunction

    def __call__(self, samples: list[Sample | Skipped]) -> list[PageBatch]:
        rows = [sample for sample in samples if isinstance(sample, Sample) and sample.image is not None]
        batches = []
        for batch in self.pre_processor.batches([sample.image for sample in rows if sample.image is not None]):
            truth = self.truth_of([rows[index] for index in batch.indices], batch.placements)
            batches.append(PageBatch(batch.data.flip(1) if self.flips_channels else batch.data, truth))
        return batches


def _collate_pages(cfg: Mapping[str, Any], batch_size: int, size: Any, truth_of: TruthFunction) -> _PageBatches:
    mean, std = cfg["mean"], cfg["std"]
    pre_processor = PreProcessor(size, batch_size, mean, std, preserve_aspect_ratio=True, symmetric_pad=True)
    return _PageBatches(pre_processor, cfg.get("color_order") == "BGR", truth_of)


def _placed_boxes(class_names: tuple[str, ...], rows: list[Sample], placements: list[Placement]) -> list[Boxes]:
    return [
        {name: _place_boxes(own, place) for name, own in boxes_of(row, class_names).items()}
        for row, place in zip(rows, placements, strict=True)
    ]


def _turn_numbers(rows: list[Sample], placements: list[Placement]) -> Tensor:
    return torch.tensor([row.extra["turn"] for row in rows])


def _place_boxes(boxes: NDArray[np.float64], place: Placement) -> NDArray[np.float64]:
    """Convert boxes relative to an image to boxes relative to the network input, in which the image is at ``place``."""
    points = _corners(boxes) * (place.width, place.height) + (place.left, place.top)
    return points.reshape(boxes.shape)


def _corners(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return two corners of each upright box (K, 4), as (K, 2, 2), or the four corners of quadrangles (K, 4, 2)."""
    return boxes.reshape(len(boxes), 4 if boxes.ndim == 3 else 2, 2)


def boxes_of(sample: Sample, class_names: Iterable[str]) -> Boxes:
    """Return the boxes of a page by class, (K, 4) or (K, 4, 2), relative to the page.

    Classes without boxes are left out.
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


def _change_page(sample: Sample) -> Sample:
    """Change a page image at random; see `changed_page`. Pages with a dict of boxes by class stay unchanged."""
    boxes = sample.extra.get("boxes")
    if sample.image is None or not isinstance(boxes, np.ndarray):
        return sample
    image, left = changed_page(sample.image, boxes)
    return replace(sample, image=image, extra={**sample.extra, "boxes": left})


def changed_page(image: Tensor, boxes: NDArray[np.float64]) -> tuple[Tensor, NDArray[np.float64]]:
    """Change the image of a page at random, to augment training data.

    Usually the page is cropped to a random part. Colours, contrast, sharpness and noise change. Random numbers come
    from torch's global generator.

    Args:
        image: The page, a tensor uint8 (3, H, W).
        boxes: The boxes of the texts on the page, relative to it: (K, 4) as (xmin, ymin, xmax, ymax), or (K, 4, 2) with
            four points each.

    Returns:
        A pair. The first item is the changed page, or the changed part, uint8 (3, h, w). The second item has the boxes
        whose centre is in this image, in the same form, relative to this image and clipped to it.

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
    return _change_colors(image), boxes


def _change_colors(image: Tensor) -> Tensor:
    picture = image.float() / 255
    if random_number() < 0.1:
        picture = 1 - picture
    if random_number() < 0.5:
        mean = picture.mean()
        picture = ((picture - mean) * random_number(0.5, 1.2) + mean + random_number(-0.15, 0.15)).clamp(0, 1)
    if random_number() < 0.3:
        picture = soften(picture[None], random_number(0.5, 0.9))[0]
    if random_number() < 0.3:
        picture = picture + random_number(0.01, 0.08) * torch.randn_like(picture[:1])
    return (picture * 255).round().clamp(0, 255).to(torch.uint8)


@dataclass(frozen=True)
class _Cropping:
    """Cuts a random square out of a page; see `cropped_page`. ``augment`` also randomises its scale and colours."""

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
            image = _change_colors(image)
        return replace(sample, image=image, extra={**sample.extra, "boxes": left if by_class is given else left[""]})


def cropped_page(
    image: Tensor, boxes: Mapping[str, NDArray[np.float64]], page_size: int, crop_size: int
) -> tuple[Tensor, dict[str, NDArray[np.float64]]]:
    """Cut a random square out of a page, usually around text.

    Random numbers come from torch's global generator.

    Args:
        image: The page, a tensor uint8 (3, H, W).
        boxes: Dict that maps each class, such as ``"words"``, to the boxes of the texts on the page, relative to it:
            (K, 4) as (xmin, ymin, xmax, ymax), or (K, 4, 2) with four points each.
        page_size: Length in pixels to which the longer side of the page is scaled before the crop is cut out. As in
            predictors, the scaled page is centred in a black square with this side.
        crop_size: Side of the crop in pixels.

    Returns:
        A pair. The first item is the crop, uint8 (3, crop_size, crop_size). The second item is a dict of the boxes in
        the crop, with the same keys. They have the same form, are relative to the crop, and are clipped to it. Boxes
        that are less than one pixel wide or high in the crop are left out.

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
    # The crop contains the centre of a text, or sometimes any point of the page.
    point = np.array([random_number(), random_number()])
    if len(centres) and random_number() < _TEXT_SHARE:
        point = centres[int(random_number(0, len(centres)))].clip(0, 1)
    # Coordinates are pixels of the scaled page from its top left corner. The square around it starts at -before.
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


class Detection(Learner):
    task = "detection"

    def __init__(self, model: Any, crop_size: int | None = None) -> None:
        super().__init__(model)
        self._crop_size = crop_size

    def prepared(self, dataset: MediaDataset, augment: bool) -> MediaDataset:
        if self._crop_size is not None:
            page_size = self.model.cfg["input_shape"][-1]
            return with_changes(dataset, _Cropping(page_size, self._crop_size, augment))
        return with_changes(dataset, _change_page) if augment else dataset

    def collator(self, batch_size: int) -> _PageBatches:
        size = self._crop_size or self.model.cfg["input_shape"][-1]
        truth_of = partial(_placed_boxes, tuple(self.model.class_names))
        return _collate_pages(self.model.cfg, batch_size, size, truth_of)

    def loss(self, model: Any, batch: PageBatch, share: float = 1.0) -> Tensor:
        # Convolutions are 25 % faster with channels last.
        data = batch.data.to(next(model.parameters()).device).contiguous(memory_format=torch.channels_last)
        loss: Tensor = model(data, batch.truth)["loss"]
        return loss

    @torch.no_grad()
    def chosen_options(self, model: Any, dataset: MediaDataset) -> dict[str, Any]:
        """Set the thresholds that convert probability maps to boxes to those with the best score on the first pages.

        The defaults of an architecture suit networks that were trained for days. After a short training, probabilities
        fall slowly at the edges of text, so the defaults would give boxes that are too large.
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
                    _to_upright(_place_boxes(true_by_class.get(name, _NO_BOXES), *batch.placements))
                    for name in model.class_names
                ]
                for pixel in _PIXEL_THRESHOLDS:
                    post.bin_thresh = pixel
                    for true, found in zip(trues, post(maps)[0], strict=True):
                        for box in _BOX_THRESHOLDS:
                            confusions[pixel, box].update(true, found[found[:, 4] >= box, :4])
        scores = {choice: _scores_of(confusion)["score"] for choice, confusion in confusions.items()}
        best = max(scores, key=scores.__getitem__)
        post.bin_thresh, post.box_thresh = best if scores[best] else before
        return {"bin_thresh": post.bin_thresh, "box_thresh": post.box_thresh}

    @torch.no_grad()
    def scores(self, model: Any, dataset: MediaDataset, num_rows: int | None = None) -> dict[str, float]:
        predictor, confusion = detection_predictor(model), LocalizationConfusion(_IOU)
        for samples in first_rows(dataset, num_rows, at_once=1):
            for sample in samples:
                true_by_class = boxes_of(sample, model.class_names)
                (found_by_class,) = predictor([sample.image])
                for name, found in found_by_class.items():
                    confusion.update(_to_upright(true_by_class.get(name, _NO_BOXES)), found[:, :4])
        if not confusion.num_gts:
            raise InvalidArgumentError(f"{dataset!r} has no page with a box to compare with.")
        return _scores_of(confusion)


def _to_upright(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    return boxes_around(boxes).astype(np.float64) if boxes.ndim == 3 else boxes


def _scores_of(confusion: LocalizationConfusion) -> dict[str, float]:
    recall, precision = (value or 0.0 for value in confusion.summary()[:2])
    score = 2 * recall * precision / max(recall + precision, 1e-9)
    return {"num_boxes": confusion.num_gts, "recall": recall, "precision": precision, "score": score}


@dataclass(frozen=True)
class _Turning:
    """Rotates an image clockwise by a random choice from ``degrees``, whose index becomes ``extra["turn"]``."""

    degrees: tuple[int, ...]

    def __call__(self, sample: Sample) -> Sample:
        number = int(random_number(0, len(self.degrees)))
        image = None if sample.image is None else sample.image.rot90(-self.degrees[number] // 90, (1, 2)).contiguous()
        return replace(sample, image=image, extra={**sample.extra, "turn": number})


class Orientation(Learner):
    """Learner that trains an orientation classifier. It needs only upright images, which it rotates."""

    task = "classification"

    def prepared(self, dataset: MediaDataset, augment: bool) -> MediaDataset:
        changed = with_changes(dataset, change_picture) if augment else dataset
        return with_changes(changed, _Turning(tuple(int(degrees) for degrees in self.model.cfg["classes"])))

    def collator(self, batch_size: int) -> _PageBatches:
        return _collate_pages(self.model.cfg, batch_size, self.model.cfg["input_shape"][1:], _turn_numbers)

    def loss(self, model: Any, batch: PageBatch, share: float = 1.0) -> Tensor:
        device = next(model.parameters()).device
        return F.cross_entropy(model(batch.data.to(device)).float(), batch.truth.to(device))

    @torch.no_grad()
    def scores(self, model: Any, dataset: MediaDataset, num_rows: int | None = None) -> dict[str, float]:
        """Return the share of images that a network classifies correctly, after rotating them at random."""
        turned = self.prepared(dataset, augment=False)
        collate = self.collator(_SCORED_AT_ONCE)
        device = next(model.parameters()).device
        model.eval()
        num_pictures = num_right = 0
        for samples in first_rows(turned, num_rows, _SCORED_AT_ONCE):
            for batch in collate([*samples]):
                found = model(batch.data.to(device)).argmax(1).cpu()
                num_pictures, num_right = num_pictures + len(found), num_right + int((found == batch.truth).sum())
        return {"num_pictures": num_pictures, "score": num_right / max(num_pictures, 1)}
