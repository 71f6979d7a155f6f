"""Create predictors that determine how crops and pages are turned, from the name of a network architecture."""

from __future__ import annotations

import os
from typing import Any

from torch import nn

from ...._engine.common.checks import refuse_unknown
from ....errors import InvalidArgumentError
from .._networks.preprocessing import make_pre_processor
from .._networks.registry import list_models, make_predictor
from .._networks.weights import choose_network
from .ppocr import ppocr_mobile_v2_line_orientation
from .predictor import LinePageOrientation, OrientationPredictor

__all__ = ["ARCHS", "crop_orientation_predictor", "page_orientation_predictor"]

ARCHS: list[str] = list_models("cls_*")
"""Architectures of the predictors."""

TURNS = {0, -90, 90, 180}
"""The turns that a network may predict, in degrees."""

LINE_ARCH = "ppocr_mobile_v2_line_orientation"


def crop_orientation_predictor(
    arch: str | os.PathLike[str] | nn.Module = LINE_ARCH, pretrained: bool = False, batch_size: int = 128, **kwargs: Any
) -> OrientationPredictor:
    """Return a predictor that determines by how many degrees crops of words or lines are rotated.

    Args:
        arch: A name listed by ``list_models("cls_*")``, the path of a checkpoint (``.pt``), or a model. The default
            architecture classifies lines as upright or upside down, and a crop much taller than wide counts as rotated
            by 90 degrees. ``"mobilenet_v3_small_crop_orientation"`` predicts 0, -90, 180 or 90 degrees for a word.
        pretrained: Load weights from a file on this machine; see `find_weights`.
        batch_size: Maximum number of crops in a batch.
        **kwargs: ``mean`` and ``std`` replace those in the model's ``cfg``. If ``disabled`` is true, the predictor
            returns 0 degrees for all crops, and no model is created.

    Raises:
        InvalidArgumentError: The architecture is unknown.
        WeightsNotFoundError: ``pretrained`` is true, but the weights file is not on this machine.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.models import crop_orientation_predictor
        >>> crop_orientation_predictor(disabled=True)([np.zeros((20, 60, 3), np.uint8)])
        [[0], [0], [1.0]]
    """
    return _predictor("crop_orientation_predictor", arch, pretrained, batch_size, kwargs)


def page_orientation_predictor(
    arch: str | os.PathLike[str] | nn.Module | None = None, pretrained: bool = False, batch_size: int = 4, **kwargs: Any
) -> OrientationPredictor | LinePageOrientation:
    """Return a predictor that determines by how many degrees pages are rotated.

    By default, the predictor detects the text lines of a page, and derives the orientation from them.

    Args:
        arch: The name, the path of a checkpoint (``.pt``), or the model of a network that classifies whole pages, such
            as ``"mobilenet_v3_small_page_orientation"``. No package contains weights for such networks. ``None`` uses
            text lines.
        pretrained: Load weights from files on this machine; see `find_weights`.
        batch_size: Maximum number of pages in a batch.
        **kwargs: If ``disabled`` is true, the predictor returns 0 degrees for all pages. If ``arch`` is given, ``mean``
            and ``std`` replace those in the model's ``cfg``.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.models import page_orientation_predictor
        >>> page_orientation_predictor(disabled=True)([np.zeros((200, 100, 3), np.uint8)])
        [[0], [0], [1.0]]
    """
    if arch is not None or kwargs.get("disabled"):
        arch = LINE_ARCH if arch is None else arch
        return _predictor("page_orientation_predictor", arch, pretrained, batch_size, kwargs)
    refuse_unknown("page_orientation_predictor", kwargs, ("disabled",))
    detector = make_predictor("detection", pretrained=pretrained, assume_straight_pages=False, batch_size=batch_size)
    return LinePageOrientation(detector, ppocr_mobile_v2_line_orientation(pretrained=pretrained))


def _predictor(
    name: str, arch: str | os.PathLike[str] | nn.Module, pretrained: bool, batch_size: int, kwargs: dict[str, Any]
) -> OrientationPredictor:
    refuse_unknown(name, kwargs, ("mean", "std", "disabled"))
    if kwargs.get("disabled", False):
        return OrientationPredictor(None, None)
    model = choose_network(arch, pretrained, ARCHS)
    cfg: Any = getattr(model, "cfg", {})
    if not set(cfg.get("classes") or [None]) <= TURNS:
        raise InvalidArgumentError(
            f"unknown architecture: {type(model).__name__} does not predict turns; its cfg must have mean, std, "
            f"input_shape, and classes out of {sorted(TURNS)}."
        )
    return OrientationPredictor(make_pre_processor(cfg, batch_size, True, True, kwargs), model)
