"""Create table predictors by the name of their architecture."""

from __future__ import annotations

import os
from typing import Any

from torch import nn

from ...._engine.common.checks import refuse_unknown
from .._networks.preprocessing import make_pre_processor
from .._networks.registry import list_models
from .._networks.transfers import uncompiled_module
from .._networks.weights import choose_network
from .predictor import TablePredictor
from .tablecenternet import TableCenterNet

__all__ = ["ARCHS", "table_predictor"]

ARCHS: list[str] = list_models("table_*")
"""Architectures of `table_predictor`."""


def table_predictor(
    arch: str | os.PathLike[str] | nn.Module = "tablecenternet",
    pretrained: bool = False,
    assume_straight_pages: bool = False,
    preserve_aspect_ratio: bool = True,
    symmetric_pad: bool = True,
    batch_size: int = 2,
    **kwargs: Any,
) -> TablePredictor:
    """Return a predictor that finds the cells of tables with docTR's network.

    Args:
        arch: ``"tablecenternet"``, the path of a checkpoint (``.pt``), or a model. A file that contains only a state
            dict, as docTR publishes it, is also accepted.
        pretrained: Load weights from a file on this machine; see `find_weights`. You must download them yourself,
            because no package contains them.
        assume_straight_pages: Return axis-aligned boxes; otherwise return the four corners of each cell.
        preserve_aspect_ratio, symmetric_pad, batch_size, **kwargs: As for `layout_predictor`, which
            raises the same errors.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.models import table_predictor
        >>> predictor = table_predictor("tablecenternet")
        >>> predictor([np.zeros((64, 96, 3), np.uint8)])
        [{'cells': [], 'num_rows': 0, 'num_cols': 0}]
    """
    refuse_unknown("table_predictor", kwargs, ("mean", "std", "pretrained_backbone"))
    model = choose_network(arch, pretrained, ARCHS, TableCenterNet)
    uncompiled_module(model).assume_straight_pages = assume_straight_pages
    cfg = uncompiled_module(model).cfg
    pre_processor = make_pre_processor(cfg, batch_size, preserve_aspect_ratio, symmetric_pad, kwargs)
    return TablePredictor(pre_processor, model)
