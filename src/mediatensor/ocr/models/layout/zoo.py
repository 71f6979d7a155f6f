"""Create layout predictors from the name of a network architecture."""

from __future__ import annotations

import os
from typing import Any

from torch import nn

from ...._engine.common.checks import refuse_unknown
from .._networks.preprocessing import make_pre_processor
from .._networks.registry import list_models
from .._networks.transfers import uncompiled_module
from .._networks.weights import choose_network
from .lw_detr import LWDETR
from .predictor import LayoutPredictor

__all__ = ["ARCHS", "layout_predictor"]

ARCHS: list[str] = list_models("layout_*")
"""Architectures of `layout_predictor`."""


def layout_predictor(
    arch: str | os.PathLike[str] | nn.Module = "lw_detr_s",
    pretrained: bool = False,
    assume_straight_pages: bool = True,
    preserve_aspect_ratio: bool = True,
    symmetric_pad: bool = True,
    batch_size: int = 2,
    **kwargs: Any,
) -> LayoutPredictor:
    """Return a predictor that finds the regions of pages, such as titles and tables, with one of docTR's networks.

    Args:
        arch: ``"lw_detr_s"``, ``"lw_detr_m"``, the path of a checkpoint (``.pt``), or a model. A file that contains
            only a state dict, as docTR publishes it, is also accepted if it has docTR's eleven classes.
        pretrained: Load weights from a file on this machine; see `find_weights`. No package contains the weights, but
            docTR publishes those of ``lw_detr_s``.
        assume_straight_pages: Return axis-aligned boxes; otherwise return the four corners of oriented boxes.
        preserve_aspect_ratio: Scale both sides of a page equally, and pad it; otherwise stretch it.
        symmetric_pad: Pad pages equally on opposite sides; otherwise only on the right and below.
        batch_size: Maximum number of pages in a batch.
        **kwargs: ``mean`` and ``std`` replace those in the model's ``cfg``. ``pretrained_backbone`` is accepted, but
            has no effect, as in docTR.

    Raises:
        InvalidArgumentError: The architecture is unknown.
        WeightsNotFoundError: ``pretrained`` is true, but the weights file is not on this machine.
        WeightsError: The checkpoint is damaged, or is made for another network.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.models import layout_predictor
        >>> predictor = layout_predictor("lw_detr_s")
        >>> [region["class_names"] for region in predictor([np.zeros((64, 96, 3), np.uint8)])]
        [[]]
    """
    refuse_unknown("layout_predictor", kwargs, ("mean", "std", "pretrained_backbone"))
    model = choose_network(arch, pretrained, ARCHS, LWDETR)
    uncompiled_module(model).assume_straight_pages = assume_straight_pages
    cfg = uncompiled_module(model).cfg
    pre_processor = make_pre_processor(cfg, batch_size, preserve_aspect_ratio, symmetric_pad, kwargs)
    return LayoutPredictor(pre_processor, model)
