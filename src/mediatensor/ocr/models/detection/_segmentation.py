"""The networks that score every pixel: from images to what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...file_utils import CLASS_NAME
from .._networks.blocks import FeatureExtractor
from .._networks.transfers import at_least_float32
from .._networks.weights import load_pretrained_params, load_weights
from .core import DetectionPostProcessor

__all__ = [
    "SegmentationDetector",
    "Targets",
    "class_names_of",
    "detector_cfg",
    "load_detector_weights",
]


Targets = Sequence[dict[str, NDArray[np.floating[Any]]]]
"""Per image the relative boxes of each class: straight (K, 4) or quadrangles (K, 4, 2)."""


class SegmentationDetector(nn.Module):
    """A network that scores every pixel, and the steps around it.

    A subclass has ``feat_extractor``, computes features and logits, and a loss.

    Args:
        postprocessor: Makes boxes of the probabilities.
        exportable: Return the logits and nothing else, as exporters need.
        cfg: The configuration that the model was made for: ``mean``, ``std``, ``input_shape``, ``url``.
        class_names: A map of probabilities is computed for each of them.
    """

    feat_extractor: FeatureExtractor

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
        """Whether ``preds`` are straight boxes; that of the post-processor."""
        return self.postprocessor.assume_straight_pages

    @assume_straight_pages.setter
    def assume_straight_pages(self, straight: bool) -> None:
        self.postprocessor.assume_straight_pages = straight

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """The features from which logits and loss are computed, for images (N, 3, H, W)."""
        raise NotImplementedError

    def logits(self, features: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
        """Scores before the sigmoid, (N, classes, H, W); ``size`` is that of the images."""
        raise NotImplementedError

    def loss(self, features: torch.Tensor, logits: torch.Tensor, target: Targets) -> torch.Tensor:
        """The loss; a number."""
        raise NotImplementedError

    def probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """The probabilities from which boxes are made, (N, classes, H, W), float32 or better."""
        return at_least_float32(logits).sigmoid()

    def from_pretrained(self, path_or_url: str, **kwargs: Any) -> None:
        """Load a checkpoint from a file; see :func:`~mediatensor.ocr.models.utils.load_pretrained_params`."""
        load_pretrained_params(self, path_or_url, **kwargs)

    def forward(
        self,
        x: torch.Tensor,
        target: Targets | None = None,
        return_model_output: bool = False,
        return_preds: bool = False,
        maps_only: bool = False,
    ) -> dict[str, Any]:
        """Where text is.

        Args:
            x: Images (N, 3, H, W), normalized as ``cfg`` says; H and W multiples of 32.
            target: For the loss: per image the relative boxes of each class, (K, 4) or (K, 4, 2). A class with an
                empty array is unknown in that image and ignored; one that is not named does not occur.
            return_model_output: Return ``out_map``, the probabilities (N, classes, H, W).
            return_preds: Return ``preds`` although there is a target.
            maps_only: Return ``out_map`` and make no boxes, for who makes them of the map.

        Returns:
            ``preds``: per image the boxes of each class, see :class:`DetectionPostProcessor`; ``out_map`` if asked
            for; ``loss`` where there is a target. An exportable model: ``logits`` alone.
        """
        features = self.features(x)
        logits = self.logits(features, (x.shape[-2], x.shape[-1]))
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

    # The boxes are made with numpy: a compiler of graphs must not look inside.
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _predictions(self, prob_map: torch.Tensor) -> list[dict[str, NDArray[np.float64]]]:
        maps = prob_map.detach().permute(0, 2, 3, 1).cpu().numpy()
        return [dict(zip(self.class_names, boxes, strict=True)) for boxes in self.postprocessor(maps)]

    def _initialize_all_but_backbone(self) -> None:
        """Kaiming initialization of convolutions and zero biases; the backbone has its own."""
        for name, module in self.named_modules():
            if isinstance(module, nn.Conv2d) and not name.startswith("feat_extractor."):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)


def detector_cfg(
    url: str, funsd_recall: float, funsd_precision: float, cord_recall: float, cord_precision: float
) -> dict[str, Any]:
    """The configuration of docTR's detectors, with where the weights were published, and what for, in percent."""
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


def class_names_of(kwargs: dict[str, Any]) -> list[str]:
    """Take ``class_names`` out of the arguments of a factory: sorted, the one class of words unless given."""
    return sorted(kwargs.pop("class_names", None) or [CLASS_NAME])


def load_detector_weights(model: SegmentationDetector, arch: str, head: Sequence[str]) -> None:
    """Load the published weights of ``arch``, all but those of ``head`` where the classes are others."""
    load_weights(model, arch, ignore_keys=() if model.class_names == [CLASS_NAME] else head)
