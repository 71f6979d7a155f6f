"""Boxes on their way through the hooks of users, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ....errors import InvalidArgumentError
from ._word_reading import box_quads

__all__ = ["checked_boxes", "revised_boxes"]


def checked_boxes(changed: Any, offered: Any) -> Any:
    """What a hook returned, if it can be boxes of these pages."""
    problem = InvalidArgumentError(
        f"a hook returned {_described(changed)}: it must return the boxes of all {len(offered)} pages, finite arrays "
        "of shape (N, 4) or (N, 4, 2) as it got them."
    )
    if not isinstance(changed, Sequence) or isinstance(changed, str) or len(changed) != len(offered):
        raise problem
    for page, before in zip(changed, offered, strict=True):
        if isinstance(before, dict) != isinstance(page, dict) or (isinstance(page, dict) and set(page) != set(before)):
            raise problem
        pairs = [(page[name], before[name]) for name in before] if isinstance(before, dict) else [(page, before)]
        for boxes, old in pairs:
            fits = isinstance(boxes, np.ndarray) and np.issubdtype(boxes.dtype, np.number)
            if not fits or boxes.shape[1:] != old.shape[1:] or not np.isfinite(boxes).all():
                raise problem
    return changed


def _described(changed: Any) -> str:
    if isinstance(changed, (list, tuple)):
        kinds = [str(getattr(item, "shape", type(item).__name__)) for item in changed[:3]]
        return f"{len(changed)} items ({', '.join(kinds)})"
    return type(changed).__name__


def revised_boxes(
    changed: npt.NDArray[np.floating],
    offered: npt.NDArray[np.floating],
    boxes: npt.NDArray[np.floating],
    scores: npt.NDArray[np.floating],
) -> npt.NDArray[np.floating]:
    """What a hook made of boxes, with scores: a box that it left as it was stays the rotated one that it stands for."""
    known = {offered[index].tobytes(): index for index in range(len(offered))}
    rotated = boxes.ndim == 3
    rows = []
    for place in changed.astype(offered.dtype):
        index = known.get(place.tobytes())
        if index is not None:
            rows.append(boxes[index])
        elif rotated:
            quad = place if place.ndim == 2 else box_quads(place[None])[0]
            rows.append(np.concatenate([quad, [[0.0, 1.0]]]))
        else:
            rows.append(np.concatenate([place, [1.0]]))
    return np.array(rows).reshape(-1, 5, 2) if rotated else np.array(rows).reshape(-1, 5)
