"""Create recognition predictors by the name of their architecture."""

from __future__ import annotations

import os
from typing import Any

from torch import nn

from ...._engine.common.checks import refuse_unknown, whole_number
from ....errors import InvalidArgumentError
from .._networks.preprocessing import make_pre_processor
from .._networks.registry import list_models, network_factory
from .._networks.transfers import uncompiled_module
from .._networks.weights import is_checkpoint, load_checkpoint
from .predictor import RecognitionPredictor

__all__ = ["ARCHS", "recognition_predictor"]

ARCHS: list[str] = list_models("reco_*")
"""Architectures of `recognition_predictor`."""


def recognition_predictor(
    arch: str | os.PathLike[str] | nn.Module = "ppocr_v6_small_reco_tuned",
    pretrained: bool = False,
    symmetric_pad: bool = False,
    batch_size: int = 128,
    **kwargs: Any,
) -> RecognitionPredictor:
    """Return a predictor that recognises the text of image crops.

    Args:
        arch: A name listed by ``list_models("reco_*")``, the path of a checkpoint (``.pt``) written by a training
            command, or a model. The default architecture recognises whole lines of any width; docTR's architectures
            recognise words.
        pretrained: Load weights from a file on this machine; see `find_weights`.
        symmetric_pad: Pad crops equally on opposite sides; otherwise only on the right and below. This has no effect on
            the default architecture.
        batch_size: Maximum number of crops in a batch.
        **kwargs: ``mean`` and ``std`` replace those in the model's ``cfg``. ``split_wide_crops`` (True by default) cuts
            wide crops into overlapping parts. These three have no effect on the default architecture. If ``arch`` is a
            name, arguments of the network are also accepted, such as ``vocab`` and ``pretrained_backbone``.

    Raises:
        InvalidArgumentError: The architecture is unknown.
        WeightsNotFoundError: ``pretrained`` is true, but the weights file is not on this machine.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.models import recognition_predictor
        >>> predictor = recognition_predictor("crnn_mobilenet_v3_small")
        >>> len(predictor([np.zeros((32, 100, 3), np.uint8)] * 3))
        3
    """
    split_wide_crops = kwargs.pop("split_wide_crops", True)
    scales: dict[str, Any] = {name: kwargs.pop(name) for name in ("mean", "std") if name in kwargs}
    model = _model(arch, pretrained, kwargs)
    if getattr(uncompiled_module(model), "text_unit", "word") == "line":
        return RecognitionPredictor(None, model, split_wide_crops, whole_number("batch_size", batch_size, at_least=1))
    pre_processor = make_pre_processor(model.cfg, batch_size, True, symmetric_pad, scales)
    return RecognitionPredictor(pre_processor, model, split_wide_crops)


def _model(arch: str | os.PathLike[str] | nn.Module, pretrained: bool, kwargs: dict[str, Any]) -> Any:
    if isinstance(arch, nn.Module):
        if not hasattr(uncompiled_module(arch), "vocab"):
            raise InvalidArgumentError(f"unknown architecture: {type(arch)} is not a recognition model.")
        if kwargs:
            raise InvalidArgumentError(
                f"{', '.join(sorted(kwargs))}: a model cannot be changed here; give the name of its architecture."
            )
        return arch
    if is_checkpoint(arch):
        model = load_checkpoint(arch, "recognition")
        own_options = ("vocab",) if hasattr(model, "restrict_vocab") else ()
        accepted = (*own_options, "mean", "std", "split_wide_crops", "pretrained_backbone")
        refuse_unknown("recognition_predictor", kwargs, accepted)
        if "vocab" in kwargs:
            model.restrict_vocab(kwargs["vocab"])
        return model
    if arch not in ARCHS:
        raise InvalidArgumentError(f"unknown architecture {arch!r}: choose one of {', '.join(ARCHS)}, or a .pt file.")
    if arch.startswith("ppocr"):
        kwargs.pop("pretrained_backbone", None)
    return network_factory(arch)(pretrained=pretrained, **kwargs)
