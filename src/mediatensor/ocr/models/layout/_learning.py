"""Train LW-DETR: convert annotated regions to oriented boxes, match predictions to them, and compute the loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from ....errors import InvalidArgumentError, MissingDependencyError
from ...utils.geometry import boxes_to_polygons

LayoutTarget = Sequence[Mapping[str, NDArray[Any]]]
"""For each page, the relative boxes of each class: (K, 4), or corners (K, 4, 2) clockwise from the top left."""

_LEAST_SIDE = 1e-5  # narrower boxes, relative to the page, are ignored

_CLASS_COST, _PLACE_COST, _OVERLAP_COST = 2.0, 5.0, 2.0
_PLACE_WEIGHT, _OVERLAP_WEIGHT = 5.0, 2.0
_ALPHA, _GAMMA, _EPSILON = 0.25, 2.0, 1e-8


class Regions(NamedTuple):
    """The annotated regions of one page: K boxes and their classes."""

    boxes: Tensor  # float32 (K, 6), relative: center, width, height, and sine and cosine of the direction of the width
    labels: Tensor  # int64 (K,)


def oriented_regions(target: LayoutTarget, class_names: Sequence[str]) -> list[Regions]:
    """Convert annotated regions to oriented boxes, whose width is the longer side, and indices in ``class_names``."""
    pages = []
    for page in target:
        boxes, labels = [np.zeros((0, 6))], [np.zeros(0, np.int64)]
        for name, own in page.items():
            if name not in class_names:
                raise InvalidArgumentError(f"unknown class {name!r}: choose one of {', '.join(class_names)}.")
            found = _boxes_of_quads(_corners(name, own))
            boxes.append(found)
            labels.append(np.full(len(found), list(class_names).index(name)))
        joined = np.concatenate(boxes).astype(np.float32)
        pages.append(Regions(torch.from_numpy(joined), torch.from_numpy(np.concatenate(labels))))
    return pages


def _corners(name: str, boxes: NDArray[Any]) -> NDArray[np.float64]:
    array = np.asarray(boxes, dtype=np.float64)
    if array.size == 0:
        return np.zeros((0, 4, 2))
    if array.shape[-1] == 4 and array.ndim in (1, 2):
        array = boxes_to_polygons(array.reshape(-1, 4))
    if array.shape[-2:] != (4, 2) or array.ndim > 3:
        raise InvalidArgumentError(f"boxes of {name!r} have the shape {array.shape}; (K, 4) or (K, 4, 2) is needed.")
    return array.reshape(-1, 4, 2)


def _boxes_of_quads(quads: NDArray[np.float64]) -> NDArray[np.float64]:
    edges = np.roll(quads, -1, axis=1) - quads
    lengths = np.linalg.norm(edges, axis=2)
    every = np.arange(len(quads))
    longest = lengths.argmax(axis=1)
    direction = edges[every, longest] / lengths[every, longest, None].clip(1e-12)
    sides = (lengths + np.roll(lengths, -2, axis=1)) / 2
    width, height = sides[every, longest], sides[every, (longest + 1) % 4]
    boxes = np.column_stack([quads.mean(axis=1), width, height, direction[:, ::-1]])
    wide: NDArray[np.float64] = boxes[(width > _LEAST_SIDE) & (height > _LEAST_SIDE)]
    return wide


def _overlap_boxes(ones: Tensor, others: Tensor, scale: float) -> Tensor:
    """Return a measure of the overlap of oriented boxes (..., 6), in (0, 1).

    The measure is ProbIoU (Llerena et al., "Gaussian Bounding Boxes and Probabilistic Intersection-over-Union for
    Object Detection", 2021, https://arxiv.org/abs/2106.06072). Boxes are treated as normal distributions. The measure
    is one minus the Hellinger distance between them. Unlike an ordinary overlap, it has a gradient even if the boxes
    are far apart. ``scale`` converts boxes to pixels. In relative units, small boxes would be too small compared with
    the constants that keep roots and logarithms finite.
    """
    tiny = 1e-7
    gap = (ones[..., :2] - others[..., :2]) * scale
    first, second = _covariance(ones, scale), _covariance(others, scale)
    xx, yy, xy = (a + b for a, b in zip(first, second, strict=True))
    determinant = xx * yy - xy**2
    across, down = gap.unbind(-1)
    apart = (xx * down**2 + yy * across**2 - 2 * xy * across * down) / (4 * (determinant + tiny))
    own = [(a * b - c**2).clamp(min=tiny) for a, b, c in (first, second)]
    unlike = (determinant.clamp(min=tiny) / (4 * (own[0] * own[1]).sqrt() + tiny) + tiny).log() / 2
    distance = (apart + unlike).clamp(tiny, 100.0)
    return 1 - (1 - (-distance).exp() + tiny).sqrt()


def _covariance(boxes: Tensor, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the variance along x, the variance along y and the covariance of a uniform distribution over each box."""
    along, across = ((boxes[..., 2:4] * scale).clamp(min=1e-6) ** 2 / 12).unbind(-1)
    sine, cosine = F.normalize(boxes[..., 4:], dim=-1, eps=1e-6).unbind(-1)
    return (
        along * cosine**2 + across * sine**2,
        along * sine**2 + across * cosine**2,
        (along - across) * cosine * sine,
    )


def layout_loss(logits: Tensor, boxes: Tensor, pages: Sequence[Regions], scale: float) -> Tensor:
    """Return the loss of several sets of predictions. Each set should contain every region of ``pages`` once.

    First, the predictions of each set are matched to the regions. The loss has three terms. The first is a
    classification loss, in which the target for a matched prediction is higher if its box fits better (IA-BCE of Chen
    et al., "LW-DETR", 2024, https://arxiv.org/abs/2406.03459). The second is the absolute error of positions and sizes.
    The third is 1 - ProbIoU, and is the only one that trains the direction. The loss is summed over all sets, and
    divided by the number of regions.

    ``logits`` are scores before the sigmoid, (sets, N, Q, C), and ``boxes`` (sets, N, Q, 6). ``scale`` is the longer
    side of the pages in pixels.
    """
    logits, boxes = logits.float(), boxes.float()
    pages = [Regions(page.boxes.to(boxes), page.labels.to(boxes.device)) for page in pages]
    probabilities = logits.sigmoid()
    number = max(sum(len(page.labels) for page in pages), 1)
    matched = _match_regions(probabilities.detach(), boxes.detach(), pages, scale)
    sets, on_page, query, region = (torch.from_numpy(part).to(boxes.device) for part in matched)
    starts = np.cumsum([0, *(len(page.labels) for page in pages)])[:-1]
    offsets = torch.from_numpy(starts).to(boxes.device)[on_page]
    truth = torch.cat([page.boxes for page in pages])[region + offsets]
    labels = torch.cat([page.labels for page in pages])[region + offsets]
    found = boxes[sets, on_page, query]

    place = (sets, on_page, query, labels)
    overlap = _overlap_boxes(found, truth, scale)
    with torch.no_grad():
        wanted = (probabilities[place] ** _ALPHA * overlap.clamp(0, 1) ** (1 - _ALPHA)).clamp(min=0.01)
    for_it = torch.zeros_like(logits).index_put(place, wanted)
    against = (probabilities**_GAMMA).index_put(place, 1 - wanted)
    classes = for_it * (probabilities + _EPSILON).log() + against * (1 - probabilities + _EPSILON).log()
    places = (found[:, :4] - truth[:, :4]).abs().sum()
    return (_PLACE_WEIGHT * places + _OVERLAP_WEIGHT * (1 - overlap).sum() - classes.sum()) / number


@torch.no_grad()
def _match_regions(
    probabilities: Tensor, boxes: Tensor, pages: Sequence[Regions], scale: float
) -> tuple[NDArray[np.int64], ...]:
    """Match predictions to regions at minimum cost (Hungarian). Return set, page, query and region of each pair."""
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError:
        raise MissingDependencyError('Training for layouts needs SciPy: pip install "mediatensor[ocr]".') from None
    pairs = [np.zeros((4, 0), np.int64)]
    for index, page in enumerate(pages):
        if not len(page.labels):
            continue
        own, probability = boxes[:, index], probabilities[:, index]
        missed = _ALPHA * (1 - probability) ** _GAMMA * -(probability + _EPSILON).log()
        mistaken = (1 - _ALPHA) * probability**_GAMMA * -(1 - probability + _EPSILON).log()
        cost = _CLASS_COST * (missed - mistaken)[..., page.labels]
        cost += _PLACE_COST * torch.cdist(own[..., :4], page.boxes[:, :4], p=1)
        cost -= _OVERLAP_COST * _overlap_boxes(own[:, :, None], page.boxes, scale)
        for number, table in enumerate(cost.cpu().numpy()):
            query, region = linear_sum_assignment(table)
            pairs.append(np.stack([np.full_like(query, number), np.full_like(query, index), query, region]))
    joined: NDArray[np.int64] = np.concatenate(pairs, axis=1)
    return tuple(joined)
