"""The arrays that readers return, and their type: `NDArray`, tensors of torch, or arrays of numpy.

>>> from mediatensor.compat import decord
>>> with decord.bridge.use_torch():
...     print(decord.VideoReader("video.mp4").get_batch([0, 5]).shape)
torch.Size([2, 360, 640, 3])
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray as NumpyArray
from torch import Tensor

from ..._engine.common.checks import check_choice, whole_number

__all__ = ["bridge_out", "reset_bridge", "set_bridge", "use_numpy", "use_torch"]

_CPU, _GPU = 1, 2


@dataclass(frozen=True)
class DECORDContext:
    """A device: the CPU or a GPU. The functions `cpu` and `gpu` return such objects.

    Attributes:
        device_type: 1 for the CPU, 2 for a GPU.
        device_id: Index of the device, from 0.

    Example:
        >>> from mediatensor.compat.decord import DECORDContext, gpu
        >>> gpu(1), gpu(1) == DECORDContext(2, 1)
        (gpu(1), True)
    """

    device_type: int
    device_id: int

    @property
    def device(self) -> str:
        """The device's name in torch, such as ``"cuda:1"``."""
        return "cpu" if self.device_type == _CPU else f"cuda:{self.device_id}"

    def __repr__(self) -> str:
        return f"{'cpu' if self.device_type == _CPU else 'gpu'}({self.device_id})"


def cpu(dev_id: int = 0) -> DECORDContext:
    """Return the context (decord's name for a device) of the CPU. ``dev_id`` has no effect on readers.

    Example:
        >>> from mediatensor.compat.decord import cpu
        >>> cpu(0)
        cpu(0)
    """
    return DECORDContext(_CPU, whole_number("dev_id", dev_id, at_least=0))


def gpu(dev_id: int = 0) -> DECORDContext:
    """Return the context (decord's name for a device) of the CUDA GPU with the index ``dev_id``.

    Readers with this context return frames on the GPU. NVDEC decodes the video if it can; if not, the CPU decodes.

    Example:
        >>> from mediatensor.compat.decord import gpu
        >>> gpu(0)
        gpu(0)
    """
    return DECORDContext(_GPU, whole_number("dev_id", dev_id, at_least=0))


class NDArray:
    """The type of array that the readers return by default. Its values are on the CPU or a GPU.

    As in decord, ``len`` is the total number of values, and the array cannot be indexed. To use the values, convert the
    array with `asnumpy` or `to_dlpack`. Unlike in decord, ``numpy.asarray(array)`` and ``torch.from_dlpack(array)``
    also work.

    Args:
        tensor: Tensor with the values, which are not copied.

    Example:
        >>> import torch
        >>> from mediatensor.compat.decord import NDArray
        >>> array = NDArray(torch.zeros(4, 6, 3, dtype=torch.uint8))
        >>> array.shape, array.dtype, len(array), array.ctx
        ((4, 6, 3), 'uint8', 72, cpu(0))
        >>> torch.from_dlpack(array).shape
        torch.Size([4, 6, 3])
    """

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension, as a tuple."""
        return tuple(self._tensor.shape)

    @property
    def dtype(self) -> str:
        """Name of the dtype of the values, such as ``"uint8"``."""
        return str(self._tensor.dtype).removeprefix("torch.")

    @property
    def ctx(self) -> DECORDContext:
        """The device that holds the values, as a `DECORDContext`."""
        device = self._tensor.device
        return cpu(0) if device.type == "cpu" else gpu(device.index or 0)

    context = ctx

    def asnumpy(self) -> NumpyArray[Any]:
        """Return the values as a numpy array, which shares memory with this array if the values are on the CPU.

        Example:
            >>> from mediatensor.compat.decord import VideoReader
            >>> VideoReader("video.mp4")[0].asnumpy().shape
            (360, 640, 3)
        """
        values: NumpyArray[Any] = self._tensor.cpu().numpy()
        return values

    def to_dlpack(self) -> Any:
        """Return the values as a DLPack capsule, which only one consumer can use.

        Example:
            >>> import torch
            >>> from mediatensor.compat.decord import NDArray
            >>> torch.utils.dlpack.from_dlpack(NDArray(torch.zeros(2, 3)).to_dlpack()).shape
            torch.Size([2, 3])
        """
        return self._tensor.__dlpack__()

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._tensor.__dlpack_device__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NumpyArray[Any]:
        return np.array(self.asnumpy(), dtype=dtype) if copy else np.asarray(self.asnumpy(), dtype=dtype)

    def __len__(self) -> int:
        return math.prod(self.shape)

    def __repr__(self) -> str:
        return f"<decord.NDArray shape={self.shape}, {self.ctx}>\n{self.asnumpy()!r}"


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
