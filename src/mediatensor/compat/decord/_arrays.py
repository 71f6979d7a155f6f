"""What all readers of decord share: devices, arrays, sources and indices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray as NumpyArray
from torch import Tensor

from ..._engine.common.checks import shown, whole_number
from ...errors import InvalidArgumentError, OutOfRangeError

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


def source_of(uri: Any) -> Any:
    """Return a path or URL unchanged. Read a file object to its end, as in decord, and return the bytes."""
    return bytes(uri.read()) if hasattr(uri, "read") else uri


def check_context(ctx: Any) -> DECORDContext:
    if not isinstance(ctx, DECORDContext):
        raise InvalidArgumentError(f"ctx must be cpu(0) or gpu(0) (got {shown(ctx)}).")
    return ctx


def whole_indices(indices: Any, count: int) -> list[int]:
    """Convert indices to a flat list of non-negative ints. As in decord, floats are truncated.

    Raises:
        OutOfRangeError: if an index is not between -count and count - 1.
        InvalidArgumentError: if ``indices`` is a single number, or contains values that are not numbers.
    """
    try:
        wanted = np.array(indices, dtype=np.int64)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        wanted = None
    if wanted is None or wanted.ndim == 0:
        raise InvalidArgumentError(f"Indices must be a list of whole numbers (got {shown(indices)}).")
    for index in wanted.flat:
        if not -count <= index < count:
            raise OutOfRangeError(
                f"Index {index} is out of bounds: it must be from {-count} to {count - 1} (the length is {count})."
            )
    return [int(index) % count for index in wanted.flat]
