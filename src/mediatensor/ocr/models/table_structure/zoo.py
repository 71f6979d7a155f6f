"""Table predictors by the name of their architecture."""

from __future__ import annotations

import os
from typing import Any

from torch import nn

from ....errors import InvalidArgumentError
from .._networks import is_checkpoint, list_models, load_checkpoint, network_factory, plain, refuse_unknown
from .._pages import PreProcessor
from .predictor import TablePredictor
from .tablecenternet import TableCenterNet

__all__ = ["ARCHS", "table_predictor"]

ARCHS: list[str] = list_models("table_*")
"""The architectures that :func:`table_predictor` knows."""


def table_predictor(
    arch: str | os.PathLike[str] | nn.Module = "tablecenternet",
    pretrained: bool = False,
    assume_straight_pages: bool = False,
    preserve_aspect_ratio: bool = True,
    symmetric_pad: bool = True,
    batch_size: int = 2,
    **kwargs: Any,
) -> TablePredictor:
    """A predictor that finds the cells of tables with docTR's network.

    Args:
        arch: A name of :data:`ARCHS`; the path of a checkpoint (``.pt``), also of docTR's state dicts; or a model.
        pretrained: Load weights from this machine, see :func:`~mediatensor.ocr.models.find_weights`. No package brings
            any.
        assume_straight_pages: Straight boxes; else corners.
        preserve_aspect_ratio: Scale both sides of a picture alike, and pad.
        symmetric_pad: Pad on all sides; else on the right and below.
        batch_size: Pictures that go through the network together.
        **kwargs: ``mean`` and ``std``; ``pretrained_backbone`` is accepted and has no effect, as in docTR.

    Returns:
        The predictor.

    Raises:
        InvalidArgumentError: The architecture is unknown.
        WeightsNotFoundError: There are no weights for it on this machine.
        WeightsError: The checkpoint is damaged, or of another network.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.models import table_predictor
        >>> predictor = table_predictor("tablecenternet")
        >>> predictor([np.zeros((64, 96, 3), np.uint8)])
        [{'cells': [], 'num_rows': 0, 'num_cols': 0}]
    """
    if isinstance(arch, nn.Module):
        if not isinstance(plain(arch), TableCenterNet):
            raise InvalidArgumentError(f"unknown architecture: {type(arch)} is no model of tables.")
        model: Any = arch
    elif is_checkpoint(arch):
        model = load_checkpoint(arch, "table_structure", ARCHS)
    elif arch in ARCHS:
        model = network_factory(os.fspath(arch))(pretrained=pretrained)
    else:
        raise InvalidArgumentError(f"unknown architecture {arch!r}: choose one of {', '.join(ARCHS)}, or a .pt file.")
    plain(model).assume_straight_pages = assume_straight_pages
    kwargs.pop("pretrained_backbone", None)
    cfg = plain(model).cfg
    scales = {name: kwargs.pop(name, cfg[name]) for name in ("mean", "std")}
    refuse_unknown(kwargs)
    pre_processor = PreProcessor(
        cfg["input_shape"][1:],
        batch_size,
        preserve_aspect_ratio=preserve_aspect_ratio,
        symmetric_pad=symmetric_pad,
        **scales,
    )
    return TablePredictor(pre_processor, model)
