"""Which way up crops and pages are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .._orientation import LineEvidence, line_evidence, lines_are_tall, signed_turn, vote_page_turn
from .._pages import Image, as_images
from .._turned_lines import longest, page_quads, upside_down_probabilities
from ..detection.predictor import DetectionPredictor
from ..preprocessor import PreProcessor
from .ppocr import LineOrientationClassifier

__all__ = ["CLASSES", "LinePageOrientation", "OrientationPredictor"]

CLASSES = (0, -90, 180, 90)
"""Degrees of the classes, clockwise, in docTR's order."""

Orientations = list[list[int] | list[float]]


class OrientationPredictor(nn.Module):
    """The direction in which crops or pages are read: 0, -90, 180 or 90 degrees.

    Args:
        pre_processor: Makes the batches of a model with four classes. None for one of lines, or none.
        model: A classifier; None finds everything upright.
    """

    def __init__(self, pre_processor: PreProcessor | None, model: nn.Module | None) -> None:
        super().__init__()
        self.pre_processor = pre_processor
        self.model: Any = None if model is None else model.eval()

    @torch.inference_mode()
    def forward(self, inputs: Iterable[Image]) -> Orientations:
        """Classify images.

        Args:
            inputs: Arrays (H, W, 3), tensors (3, H, W) or (H, W, 3), uint8 or floats in [0, 1].

        Returns:
            Three lists: positions in :data:`CLASSES`, degrees, and confidences in [0, 1] with two decimals.

        Raises:
            InvalidArgumentError: Something is no image.
        """
        images = as_images(inputs)
        if not images:
            return [[], [], []]
        if self.model is None:
            return [[0] * len(images), [0] * len(images), [1.0] * len(images)]
        if isinstance(self.model, LineOrientationClassifier):
            return _as_result([_line_turn(self.model, image) for image in images])
        parameter = next(self.model.parameters())
        pre_processor = self.pre_processor or PreProcessor(self.model.cfg["input_shape"][1:], 128)
        found: list[tuple[int, float]] = []
        for batch in pre_processor.batches(images, parameter.device, parameter.dtype):
            confidences, classes = self.model(batch.data).float().softmax(1).max(1)
            degrees = [int(self.model.cfg["classes"][index]) for index in classes.tolist()]
            found += zip(degrees, confidences.tolist(), strict=True)
        return _as_result(found)


class LinePageOrientation(nn.Module):
    """The direction of pages by a vote of their lines: no network sees the page as a whole.

    Args:
        detector: Finds the lines.
        classifier: Says of a line whether it is upside down.
    """

    def __init__(self, detector: DetectionPredictor, classifier: LineOrientationClassifier) -> None:
        super().__init__()
        self.detector, self.classifier = detector, classifier.eval()

    @torch.inference_mode()
    def forward(self, inputs: Iterable[Image]) -> Orientations:
        """Classify pages, see :class:`OrientationPredictor`."""
        images = as_images(inputs)
        located = self.detector.locate(images, rotated=True)
        turns = [
            vote_page_turn(_evidence(self.classifier, image, page_quads(found.boxes)))
            for image, found in zip(images, located, strict=True)
        ]
        return _as_result([(signed_turn(turn), confidence) for turn, confidence in turns])


def _evidence(classifier: LineOrientationClassifier, image: Tensor, quads: np.ndarray) -> list[LineEvidence]:
    shape = (image.shape[1], image.shape[2])
    sample = quads[longest(quads, shape)]
    return line_evidence(sample, shape, upside_down_probabilities(classifier, image, sample))


def _line_turn(classifier: LineOrientationClassifier, image: Tensor) -> tuple[int, float]:
    """The turn of a crop, which is a line: lying if it is much taller than wide."""
    whole = np.array([[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]])
    probability = float(upside_down_probabilities(classifier, image, whole)[0])
    upright = 90 if lines_are_tall(whole, (image.shape[1], image.shape[2]))[0] else 0
    if probability <= 0.5:
        return signed_turn(upright), 1 - probability
    return signed_turn((upright + 180) % 360), probability


def _as_result(found: Sequence[tuple[int, float]]) -> Orientations:
    degrees = [value for value, _ in found]
    return [[CLASSES.index(value) for value in degrees], degrees, [round(confidence, 2) for _, confidence in found]]
