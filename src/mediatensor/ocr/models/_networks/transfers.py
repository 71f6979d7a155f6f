"""Copy data between host and device in few large transfers, and distribute work over threads.

The host can queue work for the device without waiting, until it reads a value from the device. Then it has to wait
until the device has done all its work, and the device is idle until it gets new work. Therefore every stage of a
predictor uploads its whole input first, computes everything on the device, and finally downloads all its small results
in one transfer:

===================  ==============================================  ================================================
stage                uploaded                                        downloaded, in one transfer
===================  ==============================================  ================================================
pages                pages that are on the CPU, in one transfer      least and greatest value of floating-point pages
detection            nothing                                         probability maps and grey pages of a batch; then,
                                                                     once for each page with letters outside all
                                                                     boxes, the maps of windows around these letters
turns of lines       corners of lines                                a probability for each line
reading lines        corners of lines                                for each step of each line the class and its
                                                                     probability, the probability of a space, and
                                                                     alternative classes; for each line the scores of
                                                                     scripts, and the ink, one bit per pixel
reading words        corners of rotated words; crops on the CPU      for each step of each word the class and its
                                                                     probability, batch by batch
===================  ==============================================  ================================================

There are a few more transfers. If a page was given as an array and is straightened, the result contains the
straightened page, which is downloaded once. If the user has added hooks (functions that change boxes), pages on the CPU
are uploaded twice, because hooks get the boxes of all pages before the first page is read. Networks that decode
character by character check every few characters whether all words have ended (`have_all_ended`). If the device is the
CPU, nothing is copied.

On the CPU, `spread` processes pages and batches of lines in parallel Python threads. Without it, PyTorch would divide
each single call among the cores, and cores that finish early would spin until the call ends. Each page needs hundreds
of small calls. If other programs use the cores, spinning therefore takes ten times as long as the work itself.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, wraps
from itertools import accumulate
from typing import Any, ParamSpec, TypeVar

import numpy.typing as npt
import torch
from torch import Tensor, nn

from ...._engine.common.devices import on_device, pinned_for
from ...._engine.common.locks import ForkSafeLock
from ...._engine.common.threads import map_ahead

STEPS_BETWEEN_QUESTIONS = 8
"""Steps between two checks whether all words have ended. Decoding a few unnecessary characters is faster than waiting
after each character.
"""
ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
ParametersT = ParamSpec("ParametersT")
_starting = ForkSafeLock()


def upload(values: npt.NDArray[Any], device: torch.device) -> Tensor:
    """Copy an array to a device. If this is a CUDA device, the host does not wait for the copy."""
    return on_device(pinned_for(device, torch.from_numpy(values)), device)


def upload_images(images: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Copy images of any shapes to a device. Images on the CPU that have the same dtype share one transfer."""
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
    """Return tensors of one device as NumPy arrays, with one transfer and one wait; those on the CPU are not copied."""
    tensors = tuple(tensor.detach() for tensor in tensors)
    if all(tensor.device.type == "cpu" for tensor in tensors):
        return [tensor.numpy() for tensor in tensors]
    # Types with larger elements come first, so that each tensor starts at a multiple of its element size.
    order = sorted(range(len(tensors)), key=lambda index: -tensors[index].element_size())
    pieces = [tensors[index].contiguous().reshape(-1).view(torch.uint8) for index in order]
    together = torch.cat(pieces) if len(pieces) > 1 else pieces[0]
    # CUDA copies to page-locked memory several times as fast.
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
    """Return numbers as a float32 tensor on a device. The tensor is cached, so callers must not modify it."""
    # An inference tensor could not be used in a computation with gradients.
    with torch.inference_mode(False):
        return torch.tensor(values, dtype=torch.float32, device=device)


def have_all_ended(ended: Tensor, step: int) -> bool:
    """Return whether all words of a batch have ended; on a GPU, most steps return False, because to ask is to wait."""
    if ended.device.type != "cpu" and (step + 1) % STEPS_BETWEEN_QUESTIONS:
        return False
    return bool(ended.all())


def uncompiled_module(model: Any) -> Any:
    """Return the original module if ``model`` is the result of ``torch.compile``; return other modules unchanged.

    Attributes that are not layers, such as class names, must be read and set on the original module.
    """
    return getattr(model, "_orig_mod", model)


def is_compiled(model: Any) -> bool:
    """Return whether a model was compiled, either by ``torch.compile(model)`` or by ``model.compile()``."""
    return uncompiled_module(model) is not model or getattr(model, "_compiled_call_impl", None) is not None


def compile_network(model: nn.Module | None, *args: Any, **kwargs: Any) -> None:
    """Compile a network in place. Do nothing if it is ``None`` or already compiled."""
    if model is not None and not is_compiled(model):
        model.compile(*args, **kwargs)


def not_compiled(method: Callable[ParametersT, ResultT]) -> Callable[ParametersT, ResultT]:
    """Decorate a method so that ``torch.compile`` does not compile it, like `torch.compiler.disable`.

    `torch.compiler.disable` imports the compiler immediately, which takes more than a second. This decorator uses the
    compiler only if it was already imported, which is the case when a model is compiled.
    """

    @wraps(method)
    def call(*args: ParametersT.args, **kwargs: ParametersT.kwargs) -> ResultT:
        if "torch._dynamo" in sys.modules:
            disable: Any = torch.compiler.disable  # untyped
            disabled: Callable[ParametersT, ResultT] = disable(method)
            return disabled(*args, **kwargs)
        return method(*args, **kwargs)

    # The compiler does not trace functions with this attribute.
    call._torchdynamo_disable = True  # type: ignore[attr-defined]
    return call


def mark_open_sizes(model: Any, data: Tensor, *dimensions: int) -> Tensor:
    """If ``model`` is compiled, mark ``dimensions`` of its input ``data`` as dynamic. Return ``data``.

    The sizes of these dimensions differ between calls. Without the mark, each new size could cause a compilation. A
    dimension of size 1 is never marked: a separate graph is compiled for it.
    """
    if is_compiled(model):
        # Imported here because the import takes a second.
        from torch import _dynamo

        for dimension in dimensions:
            if data.shape[dimension] > 1:
                _dynamo.maybe_mark_dynamic(data, dimension)
    return data


def widen_floats(values: Tensor) -> Tensor:
    """Convert bfloat16 and float16 to float32; return other types unchanged."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


def spreads(*models: Any) -> bool:
    """Return whether `spread` can run these networks: on the CPU, not compiled, without gradients or autocast."""
    return (
        torch.get_num_threads() > 1
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not any(is_compiled(model) for model in models)
        and all(parameter.device.type == "cpu" for model in models for parameter in model.parameters())
    )


def spread(work: Callable[[ItemT], ResultT], items: Iterable[ItemT], num_workers: int) -> Iterator[ResultT]:
    """Call ``work`` for each item in ``num_workers`` threads, and yield the results in the order of the items.

    Each worker gets an equal share of PyTorch's threads, and runs in inference mode. The calling thread iterates over
    ``items``, and takes at most two items per worker in advance.
    """
    with _workers(num_workers) as pool:
        yield from map_ahead(pool, torch.inference_mode()(work), items, 2 * num_workers)


@contextmanager
def _workers(number: int) -> Iterator[ThreadPoolExecutor]:
    all_there = threading.Barrier(number)

    def prepare(num_threads: int) -> None:
        torch.get_num_threads()  # the first call in a thread adopts the number that was set last
        torch.set_num_threads(num_threads)
        all_there.wait()

    with ThreadPoolExecutor(number, "mediatensor-ocr") as pool:
        # The number of threads is a thread-local setting, and new threads adopt the number that was set last. Restore
        # the caller's number before other threads start.
        with _starting:
            num_threads = torch.get_num_threads()
            ready = [pool.submit(prepare, max(1, num_threads // number)) for _ in range(number)]
            for worker in ready:
                worker.result()
            torch.set_num_threads(num_threads)
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)
