"""Helpers around networks: loading checkpoints, exporting to ONNX, restricting what a recogniser may read."""

from __future__ import annotations

import copy
import importlib.util
import os
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import nn

from ..._engine.sources.atomic_files import writing
from ...errors import InvalidArgumentError, MissingDependencyError
from ._networks.blocks import conv_sequence_pt
from ._networks.transfers import plain
from ._networks.weights import load_pretrained_params
from ._networks.whitelist import WhitelistHandle, add_whitelist

__all__ = [
    "WhitelistHandle",
    "add_whitelist",
    "conv_sequence_pt",
    "export_model_to_onnx",
    "load_pretrained_params",
    "set_device_and_dtype",
]

Module = TypeVar("Module", bound=nn.Module)


def set_device_and_dtype(
    model: Module,
    batches: Sequence[torch.Tensor] | tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]],
    device: str | torch.device,
    dtype: torch.dtype,
) -> tuple[Module, list[torch.Tensor] | list[tuple[torch.Tensor, torch.Tensor]]]:
    """Bring a model and its input to one device and one floating type.

    Args:
        model: the model; touched only if it is elsewhere or of another type.
        batches: a list of tensors of any shape; or a tuple of such a list and one of masks, as many.
        device: where to.
        dtype: which type. Masks become bool.

    Returns:
        The model and the batches, with masks a list of pairs (batch, mask).

    Raises:
        InvalidArgumentError: there are not as many masks as batches.

    >>> from torch import nn
    >>> import torch
    >>> from mediatensor.ocr.models.utils import set_device_and_dtype
    >>> _, batches = set_device_and_dtype(nn.Linear(2, 2), [torch.zeros(1, 2)], "cpu", torch.float64)
    >>> batches[0].dtype
    torch.float64
    """
    first = next(model.parameters(), None)
    if first is None or first.device != torch.device(device) or first.dtype != dtype:
        model = model.to(device=device, dtype=dtype)
    if not isinstance(batches, tuple):
        return model, [batch.to(device=device, dtype=dtype) for batch in batches]
    if len(batches) != 2 or len(batches[0]) != len(batches[1]):
        raise InvalidArgumentError(
            "a tuple of batches holds a list of batches and one of masks, as many "
            f"(got {' and '.join(str(len(part)) for part in batches)})."
        )
    return model, [
        (batch.to(device=device, dtype=dtype), mask.to(device=device, dtype=torch.bool))
        for batch, mask in zip(*batches, strict=True)
    ]


def export_model_to_onnx(
    model: nn.Module,
    model_name: str | os.PathLike[str],
    dummy_input: torch.Tensor | tuple[torch.Tensor, ...] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: dict[str, dict[int, str]] | None = None,
    **kwargs: Any,
) -> str:
    """Write a model as an ONNX file, by torch's exporter. The file appears, or replaces another, when it is complete.

    The export is of a copy of the model in evaluation mode that returns its scores alone, with the type and the
    device of ``dummy_input``. The model itself stays as it is, and may be at work in other threads.

    Args:
        model: a detector, a recogniser, a classifier, that of a predictor or any other; compiled or not.
        model_name: path of the file, without ``.onnx``.
        dummy_input: an input of the size that the exported model is to take, or a tuple of several inputs; None, one
            picture of the size that the model was made for.
        input_names: names of the inputs in the file; None, ``"input"``, and ``"masks"`` for the second of two.
        output_names: names of the outputs in the file; None, ``"logits"``, and ``"pred_boxes"`` where there are two
            inputs.
        dynamic_axes: which axes of which input or output may have any size; None, the first of each, and those that
            the model leaves open: height and width of a page for the default detector, the width of a line for the
            default recogniser.
        **kwargs: of :func:`torch.onnx.export`.

    Returns:
        The path of the file.

    Raises:
        InvalidArgumentError: there is no ``dummy_input``, and the model does not say what it was made for.
        MissingDependencyError: the package ``onnx``, which torch's exporter wants, is not installed.
        WriteError: the file cannot be written.

    Example::

        predictor = ocr_predictor(pretrained=True)
        export_model_to_onnx(predictor.det_predictor.model, "detection")
        export_model_to_onnx(predictor.reco_predictor.model, "recognition")
    """
    network = plain(model)
    if dummy_input is None:
        if not getattr(network, "cfg", None):
            raise InvalidArgumentError(f"dummy_input: give an input, since {type(network).__name__} has no cfg.")
        dummy_input = torch.zeros(1, *network.cfg["input_shape"])
    inputs = dummy_input if isinstance(dummy_input, tuple) else (dummy_input,)
    in_names = list(input_names or ("input", "masks")[: len(inputs)])
    out_names = list(output_names or ("logits", "pred_boxes")[: len(inputs)])
    axes = dynamic_axes
    if axes is None:
        axes = {name: {0: "batch_size"} for name in (*in_names, *out_names)}
        open_input, open_output = getattr(network, "open_axes", ({}, {}))
        axes[in_names[0]] |= open_input
        axes[out_names[0]] |= open_output
    if importlib.util.find_spec("onnx") is None:
        raise MissingDependencyError("Exporting to ONNX needs another package: pip install onnx.")

    # A copy: to switch the model itself would be seen by who uses it meanwhile.
    exported = copy.deepcopy(network).eval()
    if hasattr(exported, "exportable"):
        exported.exportable = True
    if inputs[0].is_floating_point():
        exported.to(inputs[0])
    path = f"{os.fspath(model_name)}.onnx"
    with writing(path) as file:
        torch.onnx.export(
            exported,
            inputs,
            file.name,
            input_names=in_names,
            output_names=out_names,
            dynamic_axes=axes,
            dynamo=False,
            **kwargs,
        )
    return path
