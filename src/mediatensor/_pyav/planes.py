"""Decoded frames as planes of tensors."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import av
from av.codec.hwaccel import HWAccel, hwdevices_available

from .._common.decoded_picture import Surface
from .packet_decoder import MAX_PIXELS
from .pixels import orientation_of

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "CUDA_DECODE_ERRORS",
    "component_planes",
    "create_cuda_context",
    "cuda_surface_of",
    "is_frame",
    "surface_of",
    "why_no_nvcuvid",
]

_EXPORT_ERRORS = (NotImplementedError, TypeError, ValueError)


def is_frame(picture: object) -> bool:
    """Whether a picture is one of PyAV's, wherever its pixels are."""
    return isinstance(picture, av.VideoFrame)


def surface_of(frame: Any) -> Surface:
    """A frame in the memory of the CPU as tensors, without a copy: they must not be written to.

    There are no planes where DLPack cannot describe the format: palettes, bits packed into bytes, pictures stored
    upside down.
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


# Components that share a plane, in the order in which formats list components: (first sample, step between samples).
_UV, _VU = ((0, 1), (0, 2), (1, 2)), ((0, 1), (1, 2), (0, 2))
_SHARED_PLANES = {
    **dict.fromkeys(
        ("nv12", "nv16", "nv24", "p010", "p012", "p016", "p210", "p212", "p216", "p410", "p412", "p416"), _UV
    ),
    **dict.fromkeys(("nv21", "nv42"), _VU),
    "yuyv422": ((0, 2), (1, 4), (3, 4)),
    "uyvy422": ((1, 2), (0, 4), (2, 4)),
    "yvyu422": ((0, 2), (3, 4), (1, 4)),
}
_PACKED = re.compile(r"(?P<letters>[0abgrxy]{2,4})(?:8|16|24|32|48|64)?")


def component_planes(frame: Any) -> tuple[Tensor, ...]:
    """One 2-D view (height, width) of each component of a frame in the memory of the CPU, uint8 or uint16.

    The views have the order in which FFmpeg describes the pixel format, and are the codec's own memory. Samples of big
    endian are copied.

    Raises:
        ValueError: if the components are no whole bytes (palettes, packed bits, floats), or the frame is stored upside
            down.
    """
    import torch

    pixel_format = frame.format
    name = pixel_format.name
    components = pixel_format.components
    places = _places(name, [component.plane for component in components])
    bits = max(component.bits for component in components)
    if places is None or not 8 <= bits <= 16 or min(component.bits for component in components) < 8 or "f16" in name:
        raise ValueError(f"{name} has components that are not whole bytes, or are floats or indices into a palette")
    size = 1 if bits == 8 else 2
    planes, views = frame.planes, []
    for component, (first, step) in zip(components, places, strict=True):
        plane = planes[component.plane]
        if plane.line_size < 0:
            raise ValueError("the frame is stored upside down")
        samples = torch.frombuffer(plane, dtype=torch.uint8 if size == 1 else torch.uint16)
        shape, strides = (component.height, component.width), (plane.line_size // size, step)
        view = samples.as_strided(shape, strides, first)
        views.append(torch.from_numpy(view.numpy().byteswap()) if size == 2 and name.endswith("be") else view)
    return tuple(views)


def _places(name: str, planes: list[int]) -> Sequence[tuple[int, int]] | None:
    """Where the samples of each component begin in their plane, and how far they lie apart; ``None`` if unknown."""
    if len(set(planes)) == len(planes) and not name.startswith(("pal8", "mono")):
        return [(0, 1)] * len(planes)
    stem = name.removesuffix("le").removesuffix("be")
    if stem in _SHARED_PLANES:
        return _SHARED_PLANES[stem]
    packed = _PACKED.fullmatch(stem)
    if packed is None or set(planes) != {0}:
        return None
    letters = packed["letters"]
    order = [letter for letter in ("ya" if "y" in letters else "rgba") if letter in letters]
    if len(order) != len(planes):
        return None
    return [(letters.index(letter), len(letters)) for letter in order]


#: What making and running such a decoder raises.
CUDA_DECODE_ERRORS = (av.FFmpegError, OSError, ValueError, NotImplementedError)


@lru_cache(maxsize=1)
def why_no_nvcuvid() -> str | None:
    """Why FFmpeg cannot decode with NVDEC on this machine; ``None`` if it can try."""
    if "cuda" not in hwdevices_available():
        return "the FFmpeg that PyAV brings was built without CUDA"
    library = "nvcuvid.dll" if sys.platform == "win32" else "libnvcuvid.so.1"
    try:
        ctypes.CDLL(library)
    except OSError:
        return (
            f"the driver's video library {library} cannot be loaded (in containers, NVIDIA_DRIVER_CAPABILITIES must "
            "include 'video')"
        )
    return None


def create_cuda_context(codec: str, extradata: bytes, size: tuple[int, int], device_index: int) -> Any:
    """A codec context whose pictures stay on a CUDA device, for a stream that begins anew.

    The device's primary context, torch's, must be current in the calling thread: FFmpeg refuses to take it by itself
    where torch has made it. The codec is chosen by FFmpeg's name of the format, for AV1 too: what a container's stream
    has is libdav1d there, which knows no devices.

    Args:
        codec: FFmpeg's name of the format.
        extradata: Its configuration record.
        size: (height, width) that the container states: what the stream itself says is often a multiple of 16.
        device_index: Number of the CUDA device.

    Raises:
        CUDA_DECODE_ERRORS: if there is no such decoder, or no device.
    """
    accelerator = HWAccel(
        "cuda",
        device=str(device_index),
        is_hw_owned=True,
        allow_software_fallback=False,
        options={"primary_ctx": "0", "current_ctx": "1"},
    )
    context: Any = av.CodecContext.create(codec, "r", hwaccel=accelerator)
    if not context.is_hwaccel:
        raise NotImplementedError(f"FFmpeg has no CUDA decoder of {codec}")
    if extradata:
        context.extradata = extradata
    context.height, context.width = size
    context.thread_count = 1  # each further one takes surfaces, of which NVDEC has 32
    context.options = {"max_pixels": str(MAX_PIXELS)}
    return context
