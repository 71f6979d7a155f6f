"""Create detection predictors by the name of their architecture."""

from __future__ import annotations

import os
from typing import Any

from torch import nn

from ....errors import InvalidArgumentError
from .._networks.registry import list_models, network_factory, refuse_unknown, register_predictor
from .._networks.transfers import uncompiled_module
from .._networks.weights import is_checkpoint, load_checkpoint
from .._pages.preprocessing import FlexiblePreProcessor, PreProcessor
from .fast import FAST, reparameterize
from .predictor import DetectionPredictor

__all__ = ["ARCHS", "detection_predictor"]

ARCHS: list[str] = list_models("det_*")
"""Architectures of `detection_predictor`."""

SHORTER_SIDE, LONGER_SIDE = 1152, 2400
"""Default size of pages for networks that accept any size; boxes become more exact up to this size."""


def detection_predictor(
    arch: str | os.PathLike[str] | nn.Module = "ppocr_v6_small_det",
    pretrained: bool = False,
    assume_straight_pages: bool = True,
    preserve_aspect_ratio: bool = True,
    symmetric_pad: bool = True,
    batch_size: int = 2,
    **kwargs: Any,
) -> DetectionPredictor:
    """Return a predictor that finds text on pages.

    Args:
        arch: A name of `ARCHS`, the path of a checkpoint (``.pt``) written by training, or a model. The default
            finds whole lines; docTR's architectures find words.
        pretrained: Load weights from this machine; see `find_weights`.
        assume_straight_pages: Return straight boxes; otherwise return rotated boxes.
        preserve_aspect_ratio: Scale both sides of a page equally. The default architecture always does.
        symmetric_pad: Pad on all sides; no effect on the default architecture, which needs no padding.
        batch_size: Pages in a batch.
        **kwargs: ``pretrained_backbone``, ``mean``, ``std``; ``shorter_side`` and ``longer_side`` in pixels for
            networks that accept any size.

    Raises:
        InvalidArgumentError: The architecture is unknown.
        WeightsNotFoundError: There are no weights for the architecture on this machine.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.models import detection_predictor
        >>> predictor = detection_predictor("fast_tiny")
        >>> [list(page) for page in predictor([np.zeros((64, 96, 3), np.uint8)])]
        [['words']]
    """
    model = _model(arch, pretrained, assume_straight_pages, kwargs.pop("pretrained_backbone", False))
    cfg = model.cfg
    options = {"batch_size": batch_size, "mean": kwargs.pop("mean", cfg["mean"]), "std": kwargs.pop("std", cfg["std"])}
    multiple = getattr(model, "size_multiple", None)
    if multiple is None:
        refuse_unknown(kwargs)
        size = cfg["input_shape"][1:]
        return DetectionPredictor(
            PreProcessor(size, preserve_aspect_ratio=preserve_aspect_ratio, symmetric_pad=symmetric_pad, **options),
            model,
        )
    sides = {
        "shorter_side": kwargs.pop("shorter_side", SHORTER_SIDE),
        "longer_side": kwargs.pop("longer_side", LONGER_SIDE),
    }
    refuse_unknown(kwargs)
    return DetectionPredictor(FlexiblePreProcessor(multiple=multiple, **sides, **options), model)


def _model(
    arch: str | os.PathLike[str] | nn.Module, pretrained: bool, assume_straight_pages: bool, pretrained_backbone: bool
) -> Any:
    if isinstance(arch, nn.Module):
        model = uncompiled_module(arch)
        if not (hasattr(model, "postprocessor") and hasattr(model, "class_names")):
            raise InvalidArgumentError(f"unknown architecture: {type(arch)} is not a detection model.")
        model.assume_straight_pages = assume_straight_pages
        return arch
    if is_checkpoint(arch):
        model = load_checkpoint(arch, "detection")
        model.assume_straight_pages = assume_straight_pages
        return reparameterize(model) if isinstance(model, FAST) else model
    if arch not in ARCHS:
        raise InvalidArgumentError(f"unknown architecture {arch!r}: choose one of {', '.join(ARCHS)}, or a .pt file.")
    kwargs = {} if arch.startswith("ppocr") else {"pretrained_backbone": pretrained_backbone}
    model = network_factory(arch)(pretrained=pretrained, assume_straight_pages=assume_straight_pages, **kwargs)
    return reparameterize(model) if isinstance(model, FAST) else model


register_predictor("detection", detection_predictor)
