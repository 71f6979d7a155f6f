"""Helpers around networks: loading checkpoints, exporting to ONNX, restricting what a recogniser may read."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Collection, Sequence
from typing import Any, TypeVar

import torch
from torch import nn

from ..._atomic_files import writing
from ...errors import MissingDependencyError
from ._weights import checksum_in_name, compare_checksum, given_file, load_state_dict_file
from ._whitelist import WhitelistHandle, add_whitelist

__all__ = [
    "WhitelistHandle",
    "add_whitelist",
    "conv_sequence_pt",
    "export_model_to_onnx",
    "load_pretrained_params",
    "set_device_and_dtype",
]

Module = TypeVar("Module", bound=nn.Module)


def load_pretrained_params(
    model: nn.Module,
    path_or_url: str | os.PathLike[str],
    hash_prefix: str | None = None,
    ignore_keys: Collection[str] | None = None,
) -> None:
    """Fill a model from a checkpoint file: a state dict as :func:`torch.save` writes it, docTR's own among them.

    The file is read without running code from it. If its name carries a checksum, as docTR's do
    (``crnn_vgg16_bn-0417f351.pt``), the content is compared with it first.

    Args:
        model: what to fill, on any device.
        path_or_url: the path of the file. Nothing is downloaded: a URL is refused.
        hash_prefix: how the file's SHA-256 begins, in hexadecimal; by default what its name says, if it does.
        ignore_keys: names of the state dict that the model keeps as they are, such as those of a new head.

    Raises:
        InvalidArgumentError: a URL is given.
        WeightsNotFoundError: there is no such file.
        WeightsError: the file is damaged or another one, holds no state dict, or does not fit the model.

    Example::

        model = crnn_vgg16_bn()
        load_pretrained_params(model, "models/crnn_vgg16_bn-0417f351.pt")

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models.utils import load_pretrained_params
        >>> model = torch.nn.Linear(2, 1)
        >>> torch.save(model.state_dict(), "linear.pt")
        >>> load_pretrained_params(model, "linear.pt")
    """
    file = given_file(path_or_url)
    compare_checksum(file, checksum_in_name(file) if hash_prefix is None else hash_prefix)
    load_state_dict_file(model, file, ignore_keys or ())


def conv_sequence_pt(
    in_channels: int,
    out_channels: int,
    act: bool = False,
    bn: bool = False,
    activation: nn.Module | None = None,
    **kwargs: Any,
) -> list[nn.Module]:
    """The layers of a convolution with what usually follows it.

    Args:
        in_channels: channels that come in.
        out_channels: channels that go out.
        act: end with an activation.
        bn: follow the convolution with a batch normalization, and leave its bias out unless asked for.
        activation: the activation; by default a new ReLU in place.
        **kwargs: of :class:`torch.nn.Conv2d`, such as ``kernel_size``.

    Returns:
        The layers, in order.

    >>> from mediatensor.ocr.models.utils import conv_sequence_pt
    >>> len(conv_sequence_pt(3, 8, act=True, bn=True, kernel_size=3))
    3
    """
    kwargs.setdefault("bias", not bn)
    layers: list[nn.Module] = [nn.Conv2d(in_channels, out_channels, **kwargs)]
    if bn:
        layers.append(nn.BatchNorm2d(out_channels))
    if act:
        layers.append(nn.ReLU(inplace=True) if activation is None else activation)
    return layers


def set_device_and_dtype(
    model: Module, batches: Sequence[torch.Tensor], device: str | torch.device, dtype: torch.dtype
) -> tuple[Module, list[torch.Tensor]]:
    """Bring a model and its input to one device and one floating type.

    Args:
        model: the model; touched only if it is elsewhere or of another type.
        batches: tensors of any shape.
        device: where to.
        dtype: which type.

    Returns:
        The model and the batches.

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
    return model, [batch.to(device=device, dtype=dtype) for batch in batches]


def export_model_to_onnx(
    model: nn.Module,
    model_name: str | os.PathLike[str],
    dummy_input: torch.Tensor,
    input_names: Sequence[str] = ("input",),
    output_names: Sequence[str] = ("logits",),
    dynamic_axes: dict[str, dict[int, str]] | None = None,
    **kwargs: Any,
) -> str:
    """Write a model as an ONNX file, by torch's exporter. The file appears, or replaces another, when it is complete.

    Args:
        model: built with ``exportable=True``, so that it returns its scores alone, and in evaluation mode.
        model_name: path of the file, without ``.onnx``.
        dummy_input: an input of the size that the exported model is to take.
        input_names: names of the inputs in the file.
        output_names: names of the outputs in the file.
        dynamic_axes: which axes of which input or output may have any size; by default the first of each.
        **kwargs: of :func:`torch.onnx.export`.

    Returns:
        The path of the file.

    Raises:
        MissingDependencyError: the package ``onnx``, which torch's exporter wants, is not installed.
        WriteError: the file cannot be written.

    Example::

        model = crnn_mobilenet_v3_small(exportable=True).eval()
        export_model_to_onnx(model, "crnn", torch.rand(1, 3, 32, 128))
    """
    path = f"{os.fspath(model_name)}.onnx"
    axes = dynamic_axes
    if axes is None:
        axes = {name: {0: "batch_size"} for name in (*input_names, *output_names)}
    if importlib.util.find_spec("onnx") is None:
        raise MissingDependencyError("Exporting to ONNX needs another package: pip install onnx.")
    with writing(path) as file:
        torch.onnx.export(
            model,
            (dummy_input,),
            file.name,
            input_names=list(input_names),
            output_names=list(output_names),
            dynamic_axes=axes,
            dynamo=False,
            **kwargs,
        )
    return path
