"""Base classes of detectors, which compute probability maps, and postprocessors, which convert them to boxes.

For training, boxes are drawn on maps, which are the targets, and losses are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from ....errors import InvalidArgumentError
from ...file_utils import CLASS_NAME
from .._networks.blocks import BoxNetwork, FeatureExtractor, initialize_convolutions
from .._networks.registry import make_network
from .._networks.transfers import not_compiled, widen_floats
from .._networks.weights import StateDictNetwork, load_weights
from ._boxes import boxes_from_bitmap, open_bitmap

__all__ = ["DetectionPostProcessor"]

Targets = Sequence[dict[str, NDArray[np.floating[Any]]]]
"""For each image, the relative boxes of each class: straight (K, 4) or quadrangles (K, 4, 2)."""
RESNET_LAYERS = ("layer1", "layer2", "layer3", "layer4")
DetectorT = TypeVar("DetectorT", bound="SegmentationDetector")

# Smaller boxes, in pixels of the map, are ignored in training because the network cannot resolve them.
_MIN_BOX_SIZE = 3
# Coordinates of pixel centers are offset by half a pixel.
_HALF_PIXEL = 0.5
_EPSILON = 1e-6


class DetectionPostProcessor:
    """Converts probability maps of text to boxes. Its attributes may be changed at any time.

    Args:
        box_thresh: Boxes with a lower score, in [0, 1], are dropped.
        bin_thresh: Pixels of at least this probability, in [0, 1], are text.
        assume_straight_pages: Return axis-aligned boxes; otherwise return rectangles at any angle.

    Attributes:
        unclip_ratio: Determines how much boxes are enlarged: all sides move outwards by
            ``unclip_ratio * area / perimeter``.

    >>> from mediatensor.ocr.models.detection.core import DetectionPostProcessor
    >>> DetectionPostProcessor(bin_thresh=0.3)
    DetectionPostProcessor(bin_thresh=0.3, box_thresh=0.5)
    """

    unclip_ratio: float = 1.5

    def __init__(self, box_thresh: float = 0.5, bin_thresh: float = 0.5, assume_straight_pages: bool = True) -> None:
        self.box_thresh = box_thresh
        self.bin_thresh = bin_thresh
        self.assume_straight_pages = assume_straight_pages

    def __repr__(self) -> str:
        return f"{type(self).__name__}(bin_thresh={self.bin_thresh}, box_thresh={self.box_thresh})"

    def bitmap_to_boxes(self, pred: NDArray[np.floating[Any]], bitmap: NDArray[np.generic]) -> NDArray[np.float64]:
        """Return a box for each connected region of text in a bitmap.

        Args:
            pred: The probability of text at each pixel, (H, W), from which the scores of boxes are computed.
            bitmap: True at the pixels of text, (H, W).

        Returns:
            Boxes relative to the map, float64. If ``assume_straight_pages`` is true, they are (N, 5): xmin, ymin, xmax,
            ymax, score. Otherwise they are (N, 5, 2): four corners clockwise from the top left, then (0, score).
        """
        return boxes_from_bitmap(
            pred,
            bitmap.astype(bool, copy=False),
            self.box_thresh,
            self.unclip_ratio,
            straight=self.assume_straight_pages,
        )

    def __call__(self, proba_map: NDArray[np.floating[Any]]) -> list[list[NDArray[np.float64]]]:
        """Return the boxes of text in each image, by class.

        Args:
            proba_map: Probabilities of C classes in N images, in [0, 1], float (N, H, W, C).

        Returns:
            For each image, a list with the boxes of each class, relative to the image, float64. Straight boxes are
            (K, 5): xmin, ymin, xmax, ymax, score. Rotated boxes are (K, 5, 2): four corners clockwise from the top
            left, then (0, score).

        Raises:
            InvalidArgumentError: ``proba_map`` does not have four dimensions.
        """
        if proba_map.ndim != 4:
            raise InvalidArgumentError(f"proba_map has shape {proba_map.shape}; probabilities (N, H, W, C) are needed.")
        return [[self._boxes(image[..., index]) for index in range(image.shape[-1])] for image in proba_map]

    def _boxes(self, prob_map: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        # NaN is not text. Opening removes shapes and bridges thinner than 3 pixels.
        return self.bitmap_to_boxes(prob_map, open_bitmap(prob_map >= self.bin_thresh))


class Detector(BoxNetwork):
    """Base class of networks that compute the probability of text for every pixel.

    Subclasses implement ``_score`` and ``loss``.

    Args:
        postprocessor: Converts probability maps to boxes.
        exportable: Whether ``forward`` returns only the logits, as required for export.
        cfg: The configuration of the model: ``mean``, ``std``, ``input_shape``, ``url``.
        class_names: Names of the classes; each class has one probability map.
    """

    def __init__(
        self,
        postprocessor: DetectionPostProcessor,
        exportable: bool = False,
        cfg: dict[str, Any] | None = None,
        class_names: Sequence[str] = (CLASS_NAME,),
    ) -> None:
        super().__init__()
        self.postprocessor = postprocessor
        self.exportable = exportable
        self.cfg = cfg
        self.class_names = list(class_names)

    def _score(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return features of images (N, 3, H, W) for `loss`, and scores before the sigmoid (N, classes, H, W)."""
        raise NotImplementedError

    def loss(self, features: torch.Tensor, logits: torch.Tensor, target: Targets) -> torch.Tensor:
        """Compute the loss, a scalar, from the results of `_score` and the annotated boxes of each image."""
        raise NotImplementedError

    def probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """Convert logits to probabilities (N, classes, H, W); half-precision logits give float32 probabilities."""
        return widen_floats(logits).sigmoid()

    def forward(
        self,
        x: torch.Tensor,
        target: Targets | None = None,
        return_model_output: bool = False,
        return_preds: bool = False,
        maps_only: bool = False,
    ) -> dict[str, Any]:
        """Find text in images.

        Args:
            x: Images (N, 3, H, W), normalized with the mean and std in ``cfg``; H and W must be multiples of 32.
            target: The annotated text, to compute the loss: for each image, a dictionary with the boxes of each class
                relative to the image, (K, 4) or (K, 4, 2). If the array of a class is empty, the class was not
                annotated, and is ignored in that image. If a class is not in the dictionary, it does not occur in the
                image.
            return_model_output: Also return ``out_map``, the probabilities (N, classes, H, W).
            return_preds: Return ``preds`` even if there is a target.
            maps_only: Return only ``out_map``, and do not compute boxes.

        Returns:
            A dictionary. ``preds`` has, for each image, the boxes of each class, in the format of
            `DetectionPostProcessor`. ``out_map`` is present if requested, and ``loss`` if there is a target. An
            exportable model returns only ``logits``.

        Raises:
            InvalidArgumentError: ``target`` does not have one dictionary for each image, has an unknown class, or has
                boxes of a wrong shape or outside [0, 1].
        """
        if target is not None and len(target) != len(x):
            raise InvalidArgumentError(f"target has {len(target)} items for {len(x)} images; give one for each.")
        features, logits = self._score(x)
        if self.exportable:
            return {"logits": logits}
        if maps_only:
            return {"out_map": self.probabilities(logits)}
        out: dict[str, Any] = {}
        if return_model_output or return_preds or target is None:
            prob_map = self.probabilities(logits)
            if return_model_output:
                out["out_map"] = prob_map
            if return_preds or target is None:
                out["preds"] = self._predictions(prob_map)
        if target is not None:
            out["loss"] = self.loss(features, logits, target)
        return out

    # Boxes are computed with NumPy, which torch.compile must not trace.
    @not_compiled
    def _predictions(self, prob_map: torch.Tensor) -> list[dict[str, NDArray[np.float64]]]:
        maps = prob_map.detach().permute(0, 2, 3, 1).cpu().numpy()
        return [dict(zip(self.class_names, boxes, strict=True)) for boxes in self.postprocessor(maps)]


class SegmentationDetector(Detector, StateDictNetwork):
    """Base class of docTR's detectors.

    The backbone computes feature maps of several resolutions, `features` merges them, and `logits` computes scores.
    """

    feat_extractor: FeatureExtractor

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Return the merged features of images (N, 3, H, W), from which ``logits`` and ``loss`` are computed."""
        raise NotImplementedError

    def logits(self, features: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
        """Return scores before the sigmoid, (N, classes, H, W), from features. ``size`` is (H, W)."""
        raise NotImplementedError

    def _score(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.features(x)
        return features, self.logits(features, (x.shape[-2], x.shape[-1]))

    def loss(self, features: torch.Tensor, logits: torch.Tensor, target: Targets) -> torch.Tensor:
        """Return the result of `compute_loss`, a scalar. ``features`` are not used."""
        loss: torch.Tensor = cast(Any, self).compute_loss(logits, target)
        return loss

    def _initialize_all_but_backbone(self) -> None:
        """Initialise the convolutions of all parts but the backbone; the transposed convolutions stay as they are."""
        for name, part in self.named_children():
            if name != "feat_extractor":
                initialize_convolutions(part, zero_bias=True)


def detector_cfg(
    url: str, funsd_recall: float, funsd_precision: float, cord_recall: float, cord_precision: float
) -> dict[str, Any]:
    """Return the configuration of a docTR detector, including the scores in percent that docTR publishes for it."""
    return {
        "input_shape": (3, 1024, 1024),
        "mean": (0.798, 0.785, 0.772),
        "std": (0.264, 0.2749, 0.287),
        "url": f"https://doctr-static.mindee.com/models?id={url}",
        "accuracy": {
            "FUNSD recall": funsd_recall,
            "FUNSD precision": funsd_precision,
            "CORD recall": cord_recall,
            "CORD precision": cord_precision,
        },
    }


def build_detector(
    network: Callable[..., DetectorT],
    cfgs: dict[str, dict[str, Any]],
    layers: Sequence[str],
    head: Sequence[str],
    arch: str,
    make_backbone: Callable[[bool], nn.Module],
    pretrained: bool,
    pretrained_backbone: bool,
    kwargs: dict[str, Any],
) -> DetectorT:
    """Create a detector of the architecture ``arch``, and load its weights if ``pretrained`` is true.

    ``make_backbone`` creates the backbone, with published weights if its argument is true. ``network`` gets the outputs
    of the backbone's ``layers``. ``cfgs`` has the configuration of the architecture, and ``kwargs`` are the options of
    the user. This function sorts the option ``class_names``; the default is a single class, words. With other classes,
    the parameters named in ``head`` are not loaded.
    """
    class_names = sorted(kwargs.pop("class_names", None) or [CLASS_NAME])
    backbone = FeatureExtractor(make_backbone(pretrained_backbone and not pretrained), layers)
    settings = {"class_names": class_names, "cfg": cfgs[arch]}
    model = make_network(arch, network, backbone, options=kwargs, other_options=("class_names",), **settings)
    if pretrained:
        load_weights(model, arch, ignore_keys=() if class_names == [CLASS_NAME] else head)
    return model


@dataclass(frozen=True)
class TargetMaps:
    """The training targets for a batch of N images. Each field is a map (N, classes, H, W)."""

    text: NDArray[np.bool_]  # true inside boxes
    kernel: NDArray[np.bool_]  # true inside shrunken boxes
    # True for the pixels that count in the loss. It is false in boxes that are too small to learn, and in the whole
    # image if the class was not annotated in it.
    known: NDArray[np.bool_]
    # 1 on the outlines of boxes, and less inside and outside, down to 0 at the distance by which boxes are shrunken.
    border: NDArray[np.float32]
    border_known: NDArray[np.bool_]  # true inside boxes and up to this distance outside them


def draw_targets(
    target: Sequence[dict[str, NDArray[np.floating[Any]]]],
    class_names: Sequence[str],
    size: tuple[int, int],
    shrink_ratio: float,
) -> TargetMaps:
    """Draw the boxes of a batch of images on maps of ``size`` (height, width).

    ``target`` contains, for each image, the boxes of each class relative to the image, (K, 4) or (K, 4, 2). In some
    maps boxes are shrunken: their sides are moved inwards by ``(1 - shrink_ratio ** 2) * area / perimeter``, as in Liao
    et al., "Real-time Scene Text Detection with Differentiable Binarization", 2019.
    """
    shape = (len(target), len(class_names), *size)
    maps = TargetMaps(
        text=np.zeros(shape, dtype=bool),
        kernel=np.zeros(shape, dtype=bool),
        known=np.ones(shape, dtype=bool),
        border=np.zeros(shape, dtype=np.float32),
        border_known=np.zeros(shape, dtype=bool),
    )
    for image, boxes_by_class in enumerate(target):
        for name, boxes in boxes_by_class.items():
            if name not in class_names:
                raise InvalidArgumentError(f"target has the class {name!r}; the model knows {', '.join(class_names)}.")
            _check_boxes(name, boxes)
            where = (image, list(class_names).index(name))
            layers = TargetMaps(*(getattr(maps, field)[where] for field in TargetMaps.__dataclass_fields__))
            if len(boxes) == 0:
                layers.known[:] = False
            for corners, extent in zip(*_scale_boxes(boxes, size), strict=True):
                _draw(layers, corners, extent, shrink_ratio)
    return maps


def signed_distance(
    corners: NDArray[np.floating[Any]], columns: NDArray[np.floating[Any]], rows: NDArray[np.floating[Any]]
) -> NDArray[np.float64]:
    """Return the distance of points to the outline of a polygon, positive inside and negative outside, float64 (H, W).

    The points form a grid: ``columns`` (W,) are their x and ``rows`` (H,) their y coordinates. ``corners`` (K, 2) are
    the corners of the polygon in order. The polygon can be concave. If it crosses itself, the even-odd rule applies.

    >>> import numpy as np
    >>> square = np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0]])
    >>> signed_distance(square, np.array([2.0, 7.0]), np.array([2.0])).tolist()
    [[2.0, -3.0]]
    """
    x, y = columns[None, :], rows[:, None]
    squared = np.full((len(rows), len(columns)), np.inf)
    inside = np.zeros(squared.shape, dtype=bool)
    for (ax, ay), (bx, by) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        dx, dy = bx - ax, by - ay
        length = dx * dx + dy * dy
        # Position of the nearest point along the side, from 0 to 1.
        along = np.clip(((x - ax) * dx + (y - ay) * dy) / length, 0, 1) if length else 0.0
        np.minimum(squared, (x - ax - along * dx) ** 2 + (y - ay - along * dy) ** 2, out=squared)
        if dy:
            inside ^= ((ay > y) != (by > y)) & (x < ax + (y - ay) * dx / dy)
    distance: NDArray[np.float64] = np.where(inside, 1.0, -1.0) * np.sqrt(squared)
    return distance


def _check_boxes(name: str, boxes: NDArray[np.floating[Any]]) -> None:
    if boxes.shape[1:] not in ((4,), (4, 2)):
        raise InvalidArgumentError(f"Boxes of {name!r} have shape {boxes.shape}; (K, 4) or (K, 4, 2) is needed.")
    # The condition also rejects NaN.
    if not ((boxes >= 0) & (boxes <= 1)).all():
        raise InvalidArgumentError(f"Boxes of {name!r} are expected to take values between 0 and 1.")


def _scale_boxes(
    boxes: NDArray[np.floating[Any]], size: tuple[int, int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Convert relative boxes to corners in pixels, (K, 4, 2), and extents (K,): a shorter side or a diagonal."""
    height, width = size
    if boxes.ndim == 3:
        corners = boxes.astype(np.float64) * (width, height)
        extent: NDArray[np.float64] = np.linalg.norm(corners[:, 2] - corners[:, 0], axis=1)
        return corners, extent
    whole = (boxes.astype(np.float64) * (width, height, width, height)).round()
    corners = whole[:, [[0, 1], [2, 1], [2, 3], [0, 3]]]
    return corners, np.minimum(whole[:, 2] - whole[:, 0], whole[:, 3] - whole[:, 1])


def _draw(layers: TargetMaps, corners: NDArray[np.float64], extent: float, shrink_ratio: float) -> None:
    following = np.roll(corners, -1, axis=0)
    area = abs(np.sum(corners[:, 0] * following[:, 1] - corners[:, 1] * following[:, 0])) / 2
    perimeter = np.linalg.norm(following - corners, axis=1).sum()
    margin = area * (1 - shrink_ratio**2) / perimeter if perimeter else 0.0
    window, columns, rows = _window(corners, margin, layers.text.shape)
    distance = signed_distance(corners, columns, rows)
    kernel = distance >= margin - _HALF_PIXEL
    if extent < _MIN_BOX_SIZE or margin == 0 or not kernel.any():
        box, _, _ = _window(corners.round(), -_HALF_PIXEL, layers.text.shape)
        layers.known[box] = False
        return
    layers.kernel[window] |= kernel
    layers.text[window] |= distance >= -_HALF_PIXEL
    layers.border_known[window] |= distance >= -margin - _HALF_PIXEL
    border = (1 - np.abs(distance) / margin).clip(0, 1)
    np.maximum(layers.border[window], border, out=layers.border[window])


def _window(
    corners: NDArray[np.float64], margin: float, shape: tuple[int, ...]
) -> tuple[tuple[slice, slice], NDArray[np.float64], NDArray[np.float64]]:
    """Return a box with a ``margin`` as row and column slices of a map, and the coordinates of its columns and rows."""
    left, top = np.maximum(np.floor(corners.min(axis=0) - margin - _HALF_PIXEL), 0).astype(int)
    right, bottom = np.minimum(np.ceil(corners.max(axis=0) + margin + _HALF_PIXEL), (shape[1] - 1, shape[0] - 1))
    columns, rows = np.arange(left, right + 1), np.arange(top, bottom + 1)
    return (slice(top, top + len(rows)), slice(left, left + len(columns))), columns, rows


def focal_loss(
    logits: torch.Tensor, target: torch.Tensor, mask: torch.Tensor, gamma: float = 2.0, alpha: float = 0.5
) -> torch.Tensor:
    """Return the mean focal loss of the pixels in a mask (Lin et al., "Focal Loss for Dense Object Detection", 2017).

    ``logits`` are scores before the sigmoid, ``target`` is 1 for text and 0 for background, and ``mask`` is bool; all
    are (N, C, H, W). Greater values of ``gamma`` reduce the weight of pixels that are already classified with
    confidence. Text has the weight ``alpha`` and background ``1 - alpha``. The loss is 0 if the mask is empty.
    """
    if gamma < 0:
        raise InvalidArgumentError(f"gamma={gamma}: a number of at least 0 is needed.")
    entropy = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    # The cross-entropy is minus the logarithm of the probability of the correct class.
    unsure = (1 - torch.exp(-entropy)) ** gamma
    weight = alpha * target + (1 - alpha) * (1 - target)
    return (weight * unsure * entropy * mask).sum() / mask.sum().clamp(min=1)


def dice_loss(probabilities: torch.Tensor, target: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return one minus the overlap of ``probabilities`` and ``target``, in [0, 1].

    See Milletari et al., "V-Net", 2016. The loss is the mean over the classes that have pixels in ``mask``.
    ``probabilities``, ``target`` (0 or 1) and ``mask`` (bool) are (N, C, H, W).
    """
    overlap = (mask * probabilities * target).sum((0, 2, 3))
    total = (mask * (probabilities + target)).sum((0, 2, 3))
    counts = mask.any(3).any(2).any(0)
    return ((1 - 2 * overlap / (total + _EPSILON)) * counts).sum() / counts.sum().clamp(min=1)


def masked_l1_loss(values: torch.Tensor, target: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the mean absolute difference over the pixels for which ``mask`` is true, or 0 if there are none."""
    return ((values - target).abs() * mask).sum() / mask.sum().clamp(min=1)


def hard_negative_mask(probabilities: torch.Tensor, target: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Reduce ``mask`` to the pixels of text and the background pixels with the highest probability of text.

    The number of background pixels is at most three times the number of text pixels.

    If an image has no text of a class, the mask of that class is not reduced. See Shrivastava et al., "Training
    Region-based Object Detectors with Online Hard Example Mining", 2016.
    """
    chosen = mask.clone()
    for image, label in torch.nonzero((target & mask).flatten(2).any(2)).tolist():
        text, scores = target[image, label], probabilities[image, label].detach()
        background = scores[~text]
        count = min(3 * int((text & mask[image, label]).sum()), background.numel())
        if count:
            hardest = background.topk(count).values[-1]
            chosen[image, label] &= text | (scores >= hardest)
    return chosen
