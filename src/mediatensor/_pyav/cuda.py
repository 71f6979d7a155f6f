"""FFmpeg's CUDA decoders (NVDEC), by way of PyAV."""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache
from typing import Any

import av
from av.codec.hwaccel import HWAccel, hwdevices_available

from .reading import MAX_PIXELS

__all__ = ["CUDA_DECODE_ERRORS", "create_cuda_context", "why_no_nvcuvid"]

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
        device_index: Of the CUDA device.

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
