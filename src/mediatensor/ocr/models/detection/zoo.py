"""Create detection predictors from the name of a network architecture."""

from __future__ import annotations

import os
from typing import Any

from torch import nn

from ...._engine.common.checks import refuse_unknown
from ....errors import InvalidArgumentError
from .._networks.preprocessing import FlexiblePreProcessor, make_pre_processor
from .._networks.registry import list_models, register_predictor
from .._networks.transfers import uncompiled_module
from .._networks.weights import choose_network
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
        arch: A name listed by ``list_models("det_*")``, the path of a checkpoint (``.pt``) written by a training
            command, or a model. The default architecture finds whole lines; docTR's architectures find words.
        pretrained: Load weights from a file on this machine; see `find_weights`.
        assume_straight_pages: Return axis-aligned boxes; otherwise return rectangles at any angle.
        preserve_aspect_ratio: Scale both sides of a page equally, and pad it; otherwise stretch it. This has no effect
            on the default architecture, which always scales both sides about equally, without padding.
        symmetric_pad: Pad pages equally on opposite sides; otherwise only on the right and below. This has no effect on
            the default architecture, which needs no padding.
        batch_size: Maximum number of pages in a batch.
        **kwargs: ``pretrained_backbone`` loads only the weights of the backbone. ``mean`` and ``std`` replace those in
            the model's ``cfg``. For networks that accept pages of any size, such as the default, ``shorter_side`` and
            ``longer_side`` limit the sides of scaled pages, in pixels (by default 1152 and 2400); see
            `FlexiblePreProcessor`.

    Raises:
        InvalidArgumentError: The architecture is unknown.
        WeightsNotFoundError: ``pretrained`` is true, but the weights file is not on this machine.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.models import detection_predictor
        >>> predictor = detection_predictor("fast_tiny")
        >>> [list(page) for page in predictor([np.zeros((64, 96, 3), np.uint8)])]
        [['words']]
    """
    network = uncompiled_module(arch)
    if isinstance(arch, nn.Module) and not (hasattr(network, "postprocessor") and hasattr(network, "class_names")):
        raise InvalidArgumentError(f"unknown architecture: {type(arch)} is not a detection model.")
    backbone = {"pretrained_backbone": kwargs.get("pretrained_backbone", False)}
    takes_backbone = isinstance(arch, str) and not arch.startswith("ppocr")
    model = choose_network(arch, pretrained, ARCHS, **(backbone if takes_backbone else {}))
    uncompiled_module(model).assume_straight_pages = assume_straight_pages
    if isinstance(model, FAST) and model is not arch:
        reparameterize(model)
    multiple = getattr(model, "size_multiple", None)
    accepted = ("mean", "std", *(() if multiple is None else ("shorter_side", "longer_side")), "pretrained_backbone")
    refuse_unknown("detection_predictor", kwargs, accepted)
    if multiple is None:
        pre_processor = make_pre_processor(model.cfg, batch_size, preserve_aspect_ratio, symmetric_pad, kwargs)
        return DetectionPredictor(pre_processor, model)
    defaults = {"shorter_side": SHORTER_SIDE, "longer_side": LONGER_SIDE, **model.cfg}
    options = {name: kwargs.get(name, defaults[name]) for name in ("shorter_side", "longer_side", "mean", "std")}
    return DetectionPredictor(FlexiblePreProcessor(batch_size=batch_size, multiple=multiple, **options), model)


register_predictor("detection", detection_predictor)
