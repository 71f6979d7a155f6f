"""Select the type of arrays that readers return: `NDArray`, tensors of torch, or arrays of numpy.

>>> from mediatensor.compat import decord
>>> with decord.bridge.use_torch():
...     print(decord.VideoReader("video.mp4").get_batch([0, 5]).shape)
torch.Size([2, 360, 640, 3])
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from ..._engine.common.checks import check_choice
from ._arrays import NDArray

__all__ = ["bridge_out", "reset_bridge", "set_bridge", "use_numpy", "use_torch"]

_BRIDGES: dict[str, Callable[[Tensor], Any]] = {
    "native": NDArray,
    "torch": lambda tensor: tensor,
    "numpy": lambda tensor: tensor.cpu().numpy(),
}
_thread_bridge = threading.local()
# Threads that have not set a bridge use the bridge of the main thread.
_main_bridge = ["native"]


def set_bridge(new_bridge: str) -> None:
    """Select the type of arrays that readers return in this thread.

    A thread that has not selected a type uses the type that the main thread has selected.

    Args:
        new_bridge: ``"native"`` for `NDArray`, ``"torch"`` for a tensor on the reader's device, or ``"numpy"`` for a
            numpy array.

    Raises:
        InvalidArgumentError: if ``new_bridge`` has another value. decord also has the bridges ``"mxnet"``,
            ``"tensorflow"`` and ``"tvm"``. These libraries can import an `NDArray` through DLPack.

    Example:
        >>> from mediatensor.compat import decord
        >>> decord.bridge.set_bridge("torch")
        >>> decord.VideoReader("video.mp4")[0].shape
        torch.Size([360, 640, 3])
        >>> decord.bridge.set_bridge("native")
    """
    check_choice("bridge", new_bridge, tuple(_BRIDGES))
    _thread_bridge.name = new_bridge
    if threading.current_thread() is threading.main_thread():
        _main_bridge[0] = new_bridge


def reset_bridge() -> None:
    """Make readers in this thread return `NDArray` objects, the default.

    Example:
        >>> from mediatensor.compat import decord
        >>> decord.bridge.reset_bridge()
    """
    set_bridge("native")


def bridge_out(tensor: Tensor) -> Any:
    """Convert a tensor to the type that readers return in this thread: an `NDArray`, a tensor or a numpy array.

    Example:
        >>> import torch
        >>> from mediatensor.compat import decord
        >>> decord.bridge.bridge_out(torch.zeros(2, 3)).shape
        (2, 3)
    """
    return _BRIDGES[_name()](tensor)


@contextmanager
def use_torch() -> Iterator[None]:
    """Make readers in this thread return torch tensors during a ``with`` block.

    Example:
        >>> from mediatensor.compat import decord
        >>> with decord.bridge.use_torch():
        ...     print(decord.VideoReader("video.mp4")[0].dtype)
        torch.uint8
    """
    with _using("torch"):
        yield


@contextmanager
def use_numpy() -> Iterator[None]:
    """Make readers in this thread return numpy arrays during a ``with`` block.

    Example:
        >>> from mediatensor.compat import decord
        >>> with decord.bridge.use_numpy():
        ...     print(decord.VideoReader("video.mp4")[0].dtype)
        uint8
    """
    with _using("numpy"):
        yield


@contextmanager
def _using(name: str) -> Iterator[None]:
    before = _name()
    set_bridge(name)
    try:
        yield
    finally:
        set_bridge(before)


def _name() -> str:
    name: str = getattr(_thread_bridge, "name", _main_bridge[0])
    return name
