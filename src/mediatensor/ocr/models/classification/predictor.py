"""Predict by how many degrees crops and pages are turned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from .._lines.cutting import WHOLE_CROP, lines_are_tall, page_quads, signed_turn
from .._lines.turning import page_turn, upside_down_crops
from .._networks.preprocessing import Image, PreProcessor, as_images
from .._networks.transfers import compile_network, download, mark_open_sizes, uncompiled_module, upload_images
from .._networks.weights import NetworkPredictor
from .ppocr import LineOrientationClassifier

__all__ = ["CLASSES", "LinePageOrientation", "OrientationPredictor"]

CLASSES = (0, -90, 180, 90)
"""Clockwise degrees of the classes, in docTR's order."""

DEFAULT_BATCH_SIZE = 128

Orientations = list[list[int] | list[float]]


class OrientationPredictor(NetworkPredictor):
    """Predicts by how many degrees crops or pages are rotated clockwise: 0, -90, 180 or 90.

    Args:
        pre_processor: Resizes, normalises and batches images for a model with four classes. Not used if ``model`` is a
            `LineOrientationClassifier` or ``None``.
        model: The classifier. With ``None``, the predictor returns 0 degrees for all images.
    """

    def __init__(self, pre_processor: PreProcessor | None, model: nn.Module | None) -> None:
        super().__init__(model)
        self.pre_processor = pre_processor

    @torch.inference_mode()
    def forward(self, inputs: Iterable[Image]) -> Orientations:
        """Predict the orientation of each image.

        Args:
            inputs: A list or batch of images: arrays (H, W, 3), or tensors (3, H, W) or (H, W, 3), as uint8 or as
                floats in [0, 1].

        Returns:
            A list of three lists, each with one item for each image: the class (an index into 0, -90, 180, 90), the
            clockwise rotation in degrees, and the confidence in [0, 1], rounded to two decimals.

        Raises:
            InvalidArgumentError: An item is not an image.
        """
        images = as_images(inputs)
        if not images:
            return [[], [], []]
        if self.model is None:
            return [[0] * len(images), [0] * len(images), [1.0] * len(images)]
        if isinstance(uncompiled_module(self.model), LineOrientationClassifier):
            return _make_result(_line_turns(self.model, images, self._batch_size))
        parameter = next(self.model.parameters())
        pre_processor = self.pre_processor or PreProcessor(self.model.cfg["input_shape"][1:], self._batch_size)
        found = []
        for batch in pre_processor.batches(images, parameter.device, parameter.dtype):
            found.append(self.model(mark_open_sizes(self.model, batch.data, 0)).float().softmax(1).max(1))
        # One download for all batches, so that the host waits only once.
        confidences, classes = download(*(torch.cat(values) for values in zip(*found, strict=True)))
        degrees = [int(self.model.cfg["classes"][index]) for index in classes.tolist()]
        return _make_result(list(zip(degrees, confidences.tolist(), strict=True)))

    @property
    def _batch_size(self) -> int:
        return DEFAULT_BATCH_SIZE if self.pre_processor is None else self.pre_processor.batch_size


class _FoundOnPage(Protocol):
    @property
    def boxes(self) -> Mapping[str, npt.NDArray[np.floating]]: ...


class LineFinder(Protocol):
    """A predictor that finds the lines of pages, such as `DetectionPredictor`."""

    def locate(self, images: Sequence[Tensor], *, rotated: bool) -> Iterable[_FoundOnPage]: ...

    def compile(self, *args: Any, **kwargs: Any) -> None: ...


class LinePageOrientation(nn.Module):
    """Predicts by how many degrees pages are rotated, from their text lines.

    A network that classifies whole pages is not needed.

    Args:
        detector: Finds the text lines of pages, for example a `DetectionPredictor`.
        classifier: Classifies each line as upright or upside down.
    """

    def __init__(self, detector: LineFinder, classifier: LineOrientationClassifier) -> None:
        super().__init__()
        self.detector, self.classifier = detector, classifier.eval()

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the detector and the line classifier in place. Takes the arguments of ``torch.compile``."""
        self.detector.compile(*args, **kwargs)
        compile_network(self.classifier, *args, **kwargs)

    @torch.inference_mode()
    def forward(self, inputs: Iterable[Image]) -> Orientations:
        """Predict the orientation of each page; images and the result are as in `OrientationPredictor.forward`."""
        images = upload_images(as_images(inputs), next(self.classifier.parameters()).device)
        located = self.detector.locate(images, rotated=True)
        turns = [
            page_turn(None, self.classifier, image, page_quads(found.boxes))
            for image, found in zip(images, located, strict=True)
        ]
        return _make_result([(signed_turn(turn), confidence) for turn, confidence in turns])


def _line_turns(
    classifier: LineOrientationClassifier, images: Sequence[Tensor], batch_size: int
) -> list[tuple[int, float]]:
    """Return the turn of the line in each image, and its probability. Tall images count as turned by a quarter."""
    crops = upload_images(images, next(classifier.parameters()).device)
    probabilities = upside_down_crops(classifier, crops, batch_size)
    uprights = [90 if lines_are_tall(WHOLE_CROP, (image.shape[1], image.shape[2]))[0] else 0 for image in images]
    return [
        (signed_turn((upright + 180 * (probability > 0.5)) % 360), max(probability, 1 - probability))
        for upright, probability in zip(uprights, probabilities.tolist(), strict=True)
    ]


def _make_result(found: Sequence[tuple[int, float]]) -> Orientations:
    degrees = [value for value, _ in found]
    return [[CLASSES.index(value) for value in degrees], degrees, [round(confidence, 2) for _, confidence in found]]
