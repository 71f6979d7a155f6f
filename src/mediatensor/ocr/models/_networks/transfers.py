"""Transfers between the host and the device of a predictor: few, and large.

A program on the host runs ahead of its device until it asks for a value. Then it waits for all work of the device, and
the device is idle until there is new work. Every stage of a predictor therefore uploads its input at once, runs to its
end on the device, and downloads small results at once:

===================  ==============================================  ================================================
stage                up                                              down, at once
===================  ==============================================  ================================================
pages                pages on the CPU, in one piece                  of floating pages, the least and greatest value
detection            nothing                                         the maps of probabilities of a batch of pages and
                                                                     the pages in grey; then, once for each page where
                                                                     letters are left over, the maps of their windows
turns of lines       corners of lines                                a probability for each line
reading lines        corners of lines                                of each step of each line the class and its
                                                                     probability, that of a space, and alternatives;
                                                                     the scores of scripts of each line; which pixels
                                                                     are ink, a bit each
reading words        corners of rotated words; crops on the CPU      of each step of each word the class and its
                                                                     probability, batch by batch
===================  ==============================================  ================================================

A page that was given as an array and is straightened is part of the result and comes down as well, once. Hooks see the
boxes of all pages before any is read, so pages on the CPU go up twice.

Networks that read character by character also ask, every few characters, whether all words have ended
(:func:`have_all_ended`). On the CPU nothing is copied, and asking costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, nn

from ...._engine.common.devices import on_device, pinned_for

__all__ = [
    "at_least_float32",
    "compile_network",
    "constant",
    "download",
    "have_all_ended",
    "is_compiled",
    "plain",
    "upload",
    "upload_images",
    "with_open_sizes",
]

STEPS_BETWEEN_QUESTIONS = 8
"""Reading some characters too many is cheaper than waiting after each."""


def upload(values: npt.NDArray[Any], device: torch.device) -> Tensor:
    """An array on a device; the host does not wait for it on CUDA."""
    return on_device(pinned_for(device, torch.from_numpy(values)), device)


def upload_images(images: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Images on a device; those on the CPU that have one type go there in one piece.

    Args:
        images: Tensors of any shapes, on any devices.
        device: Where to.

    Returns:
        The same, in order; those that are there already as they are, the others contiguous.
    """
    placed = [image if image.device.type == "cpu" else image.to(device) for image in images]
    if device.type == "cpu":
        return placed
    for dtype in {image.dtype for image in placed if image.device.type == "cpu"}:
        chosen = [index for index, image in enumerate(placed) if image.device.type == "cpu" and image.dtype == dtype]
        sizes = [placed[index].numel() for index in chosen]
        together = torch.empty(sum(sizes), dtype=dtype, device="cpu", pin_memory=device.type == "cuda")
        for index, part in zip(chosen, torch.split(together, sizes), strict=True):
            part.view(placed[index].shape).copy_(placed[index])
        for index, part in zip(chosen, torch.split(on_device(together, device), sizes), strict=True):
            placed[index] = part.view(placed[index].shape)
    return placed


def download(*tensors: Tensor) -> list[npt.NDArray[Any]]:
    """Tensors of one device as arrays: one copy, for which the host waits once; on the CPU no copy.

    Args:
        *tensors: Tensors of types that numpy has.

    Returns:
        An array for each, of its shape and type.
    """
    tensors = tuple(tensor.detach() for tensor in tensors)
    if all(tensor.device.type == "cpu" for tensor in tensors):
        return [tensor.numpy() for tensor in tensors]
    # Wide types first, so that each begins at a multiple of its size.
    order = sorted(range(len(tensors)), key=lambda index: -tensors[index].element_size())
    pieces = [tensors[index].contiguous().reshape(-1).view(torch.uint8) for index in order]
    together = torch.cat(pieces) if len(pieces) > 1 else pieces[0]
    # To page-locked memory CUDA copies several times as fast.
    host = torch.empty(together.shape, dtype=torch.uint8, device="cpu", pin_memory=together.is_cuda)
    host.copy_(together)
    ends = accumulate(piece.numel() for piece in pieces)
    arrays: dict[int, npt.NDArray[Any]] = {}
    for index, piece, end in zip(order, pieces, ends, strict=True):
        own = host[end - piece.numel() : end]
        arrays[index] = own.view(tensors[index].dtype).view(tensors[index].shape).numpy()
    return [arrays[index] for index in range(len(tensors))]


@lru_cache(maxsize=256)
def constant(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Numbers on a device, float32, uploaded the first time that they are asked for; not to be changed."""
    # Not an inference tensor: those cannot be part of a computation that has gradients.
    with torch.inference_mode(False):
        return torch.tensor(values, dtype=torch.float32, device=device)


def have_all_ended(ended: Tensor, step: int) -> bool:
    """Whether all words of a batch have ended, as far as it is worth to know.

    Args:
        ended: Whether each word has ended, bool.
        step: How many characters were read before this one.

    Returns:
        True if all have; on a device other than the CPU False after most steps, without looking.
    """
    if ended.device.type != "cpu" and (step + 1) % STEPS_BETWEEN_QUESTIONS:
        return False
    return bool(ended.all())


def plain(model: Any) -> Any:
    """The module inside one that ``torch.compile`` made; any other as it is.

    Attributes that are not called on the way through the network, such as names of classes, are looked up and set
    on this one.
    """
    return getattr(model, "_orig_mod", model)


def is_compiled(model: Any) -> bool:
    """Whether calls go through a compiler: after ``torch.compile(model)`` as after ``model.compile()``."""
    return plain(model) is not model or getattr(model, "_compiled_call_impl", None) is not None


def compile_network(model: nn.Module | None, *args: Any, **kwargs: Any) -> None:
    """Compile a network in place, if there is one that is not compiled.

    Args:
        model: The network.
        *args: For ``torch.compile``.
        **kwargs: For ``torch.compile``.
    """
    if model is not None and not is_compiled(model):
        model.compile(*args, **kwargs)


def with_open_sizes(model: Any, data: Tensor, *dimensions: int) -> Tensor:
    """Tell the compiler which sizes of an input differ from call to call; for models that are not compiled, nothing.

    Args:
        model: The network that the input is for.
        data: The input.
        *dimensions: Those of other sizes the next time. A size of 1 is never left open: it has a graph of its own.

    Returns:
        The input.
    """
    if is_compiled(model):
        # Imported here, as it takes a second that only those who compile should wait.
        from torch import _dynamo

        for dimension in dimensions:
            if data.shape[dimension] > 1:
                _dynamo.maybe_mark_dynamic(data, dimension)
    return data


def at_least_float32(values: Tensor) -> Tensor:
    """bfloat16 and float16 as float32; any other type as it is."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values
