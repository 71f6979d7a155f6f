"""Decode backends: what turns the packets of a video into pictures, on the CPU, on a GPU, or wherever you can.

`mediatensor.decoders.VideoDecoder` takes the one that belongs to its device, or the one that ``decode_backend`` names.
"""

from __future__ import annotations

from .._pyav import UndecodablePacketError
from ._cpu import CpuBackend
from ._cuda import CudaBackend
from ._interface import DecodeBackend, Picture, PictureConverter, PictureDecoder, StreamParameters, Surface
from ._registry import available_backends, get_backend, register_backend

register_backend(CpuBackend())
register_backend(CudaBackend())

__all__ = [
    "DecodeBackend",
    "Picture",
    "PictureConverter",
    "PictureDecoder",
    "StreamParameters",
    "Surface",
    "UndecodablePacketError",
    "available_backends",
    "get_backend",
    "register_backend",
]
