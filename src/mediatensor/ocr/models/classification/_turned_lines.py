"""Lines that may lie on their side or on their head: what the line classifier says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from .._networks.devices import download, with_open_sizes
from .._pages.crops import cut_lines, network_input
from .._pages.orientation import lines_are_tall

if TYPE_CHECKING:
    from .ppocr import LineOrientationClassifier

__all__ = ["WHOLE", "longest", "page_quads", "turned", "upside_down_crops", "upside_down_probabilities"]

WHOLE = np.array([[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]])
"""The quad of a crop that is one line."""
LINES_IN_VOTE = 16
"""So many of a page's lines, the longest, say which way up it is."""


def page_quads(boxes: Mapping[str, npt.NDArray[np.floating]]) -> npt.NDArray[np.float64]:
    """The rotated boxes of all classes without their scores, (N, 4, 2)."""
    return np.concatenate([np.asarray(found, dtype=np.float64)[:, :4] for found in boxes.values()])


def longest(quads: npt.NDArray[np.float64], page_shape: tuple[int, int]) -> npt.NDArray[np.int64]:
    """Positions of the longest lines, (at most :data:`LINES_IN_VOTE`,)."""
    points = quads * (page_shape[1], page_shape[0])
    lengths = np.linalg.norm(points - np.roll(points, 1, axis=1), axis=2).max(axis=1, initial=0.0)
    chosen: npt.NDArray[np.int64] = np.sort(np.argsort(-lengths, kind="stable")[:LINES_IN_VOTE])
    return chosen


def turned(quads: npt.NDArray[np.float64], turns: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Corners from where the reading begins.

    Args:
        quads: (N, 4, 2), clockwise as they lie on the page.
        turns: (N,) by how many degrees each is turned clockwise: multiples of 90.

    Returns:
        (N, 4, 2): a line that is turned by 90 begins at its top right.
    """
    places = (np.arange(4)[None] + (turns // 90)[:, None]) % 4
    return np.take_along_axis(quads, places[..., None], axis=1)


def upside_down_probabilities(
    classifier: LineOrientationClassifier, page: Tensor, quads: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """How likely each line is upside down; tall lines are looked at as if they were turned by 90 degrees.

    Args:
        classifier: The network.
        page: (3, H, W), uint8 or floats in [0, 1].
        quads: Relative (N, 4, 2), clockwise as they lie on the page.

    Returns:
        (N,), in [0, 1].
    """
    height, width = page.shape[1:]
    tall = lines_are_tall(quads, (height, width))
    corners = turned(quads, np.where(tall, 90, 0)) * (width, height)
    rows, columns = classifier.cfg["input_shape"][1:]
    result = np.zeros(len(quads))
    order: list[int] = []
    found = []
    for batch in cut_lines(page, corners, rows, columns):
        order += batch.indices
        found.append(_upside_down(classifier, batch.data))
    if found:
        (result[order],) = download(torch.cat(found))
    return result


def upside_down_crops(
    classifier: LineOrientationClassifier, crops: Sequence[Tensor], batch_size: int
) -> npt.NDArray[np.float64]:
    """The same for crops that are lines, each on its own.

    Args:
        classifier: The network.
        crops: (3, H, W), uint8 or floats in [0, 1], on its device.
        batch_size: Crops that go through the network together.

    Returns:
        (N,), in [0, 1].
    """
    rows, columns = classifier.cfg["input_shape"][1:]
    found = []
    for start in range(0, len(crops), batch_size):
        lines = []
        for crop in crops[start : start + batch_size]:
            height, width = crop.shape[1:]
            corners = turned(WHOLE, np.where(lines_are_tall(WHOLE, (height, width)), 90, 0)) * (width, height)
            lines += [
                F.pad(line.data, (0, columns), value=torch.nan)[..., :columns]
                for line in cut_lines(crop, corners, rows, columns)
            ]
        found.append(_upside_down(classifier, torch.cat(lines)))
    (probabilities,) = download(torch.cat(found)) if found else (np.zeros(0),)
    return probabilities.astype(np.float64)


def _upside_down(classifier: LineOrientationClassifier, lines: Tensor) -> Tensor:
    """Probabilities (N,) on the device, float32, for lines (N, 3, H, W) of one padded width."""
    columns = classifier.cfg["input_shape"][2]
    parameter = next(classifier.parameters())
    data = network_input(lines, classifier.cfg["mean"], classifier.cfg["std"], parameter)[..., :columns]
    data = with_open_sizes(classifier, F.pad(data, (0, columns - data.shape[3])), 0)
    probabilities: Tensor = classifier(data).float().softmax(1)[:, 1]
    return probabilities
