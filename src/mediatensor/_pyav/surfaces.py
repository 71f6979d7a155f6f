"""Decoded frames as planes of tensors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import av

from .._surface import Surface
from .pixels import orientation_of

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["cuda_surface_of", "is_frame", "surface_of"]

_EXPORT_ERRORS = (NotImplementedError, TypeError, ValueError)


def is_frame(picture: object) -> bool:
    """Whether a picture is one of PyAV's, wherever its pixels are."""
    return isinstance(picture, av.VideoFrame)


def surface_of(frame: Any) -> Surface:
    """A frame in the memory of the CPU as tensors, without a copy: they must not be written to.

    Of formats that DLPack has no words for (palettes, bits packed into bytes, pictures stored upside down) there are no
    planes.
    """
    try:
        planes = _planes(frame)
    except _EXPORT_ERRORS:
        planes = ()
    return _surface(frame, frame.format.name, planes, nullcontext)


def cuda_surface_of(frame: Any, reading: Callable[[], AbstractContextManager[object]]) -> Surface:
    """A frame of a CUDA decoder as tensors on its device, without a copy.

    Raises:
        ValueError: if the planes are not those of nv12, p010le or p016le, or chroma samples are missing: PyAV leaves
            out the last ones where a size is odd.
    """
    try:
        planes = _planes(frame)
    except _EXPORT_ERRORS as error:
        raise ValueError(f"the decoder's pictures cannot be handed over ({error})") from error
    expected = ((frame.height, frame.width), (-(-frame.height // 2), -(-frame.width // 2), 2))
    if tuple(tuple(plane.shape) for plane in planes) != expected:
        raise ValueError(f"the decoder's pictures have planes of {[tuple(plane.shape) for plane in planes]}")
    # 10, 12 and 16 bits lie in the high bits alike: one name serves for all.
    return _surface(frame, "nv12" if planes[0].element_size() == 1 else "p016le", planes, reading)


def _planes(frame: Any) -> tuple[Tensor, ...]:
    from torch.utils.dlpack import from_dlpack

    # The capsule, and not the plane: torch would ask for a stream, which PyAV does not know.
    return tuple(from_dlpack(plane.__dlpack__()) for plane in frame.planes)


def _surface(
    frame: Any,
    pixel_format: str,
    planes: tuple[Tensor, ...],
    reading: Callable[[], AbstractContextManager[object]],
) -> Surface:
    return Surface(
        planes,
        pixel_format,
        frame.width,
        frame.height,
        pts=frame.pts,
        duration=frame.duration,
        key_frame=bool(frame.key_frame),
        is_corrupt=frame.is_corrupt,
        matrix=int(frame.colorspace),
        color_range=int(frame.color_range),
        is_interlaced=bool(frame.interlaced_frame),
        chroma_location=int(getattr(frame, "chroma_location", 0)),  # from PyAV 19 on
        orientation=orientation_of(frame),
        reading=reading,
    )
