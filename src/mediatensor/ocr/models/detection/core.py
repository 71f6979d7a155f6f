"""Base classes of detectors, which compute probability maps, and postprocessors, which convert them to boxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ....errors import InvalidArgumentError
from ...file_utils import CLASS_NAME
from .._networks.blocks import FeatureExtractor, initialize_convolutions
from .._networks.registry import make_network
from .._networks.transfers import not_compiled, widen_floats
from .._networks.weights import load_pretrained_params, load_weights
from ._boxes import boxes_from_bitmap, open_bitmap

__all__ = ["DetectionPostProcessor"]

Targets = Sequence[dict[str, NDArray[np.floating[Any]]]]
"""For each image, the relative boxes of each class: straight (K, 4) or quadrangles (K, 4, 2)."""
RESNET_LAYERS = ("layer1", "layer2", "layer3", "layer4")
DetectorT = TypeVar("DetectorT", bound="SegmentationDetector")


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


class Detector(nn.Module):
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

    @property
    def assume_straight_pages(self) -> bool:
        """Whether the boxes in the result ``preds`` are straight; otherwise they are rotated."""
        return self.postprocessor.assume_straight_pages

    @assume_straight_pages.setter
    def assume_straight_pages(self, straight: bool) -> None:
        self.postprocessor.assume_straight_pages = straight

    def _score(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the features of images (N, 3, H, W) and their scores before the sigmoid, (N, classes, H, W).

        `loss` needs the features in addition to the scores.
        """
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
        """
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


class SegmentationDetector(Detector):
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

    def from_pretrained(self, path_or_url: str, **kwargs: Any) -> None:
        """Load the parameters of this network from a file, with `load_pretrained_params`."""
        load_pretrained_params(self, path_or_url, **kwargs)

    def _initialize_all_but_backbone(self) -> None:
        """Initialise all parts except the backbone: weights as in He et al. (2015) for ReLU, biases with zero."""
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
    settings = {"class_names": class_names, "cfg": dict(cfgs[arch])}
    model = make_network(arch, network, backbone, options=kwargs, other_options=("class_names",), **settings)
    if pretrained:
        load_weights(model, arch, ignore_keys=() if class_names == [CLASS_NAME] else head)
    return model
