"""Decode backends: each decodes video packets to pictures on one kind of hardware, such as the CPU or a GPU.

`mediatensor.decoders.VideoDecoder` uses the backend that ``decode_backend`` names, by default the backend of its
device.
"""

from __future__ import annotations

# Names that are imported "as" themselves are for other packages of this library. They are not public.
from .._engine.common.pictures import Surface
from .._engine.pyav.reading import UndecodablePacketError
from ._cuda import CudaBackend as CudaBackend
from ._cuda import DecoderCache as DecoderCache
from ._cuda import get_nvdec_cache_capacity as get_nvdec_cache_capacity
from ._cuda import set_nvdec_cache_capacity as set_nvdec_cache_capacity
from ._interface import (
    CpuBackend,
    DecodeBackend,
    Picture,
    PictureConverter,
    PictureDecoder,
    StreamParameters,
    available_backends,
    get_backend,
    register_backend,
)
from ._interface import choose_backend as choose_backend
from ._interface import open_guarded as open_guarded
from ._interface import scoped_registry as scoped_registry
from ._interface import set_cuda_backend as set_cuda_backend
from ._interface import why_not_guarded as why_not_guarded
from ._tone_mapping import PQ as PQ
from ._tone_mapping import ToneCurve as ToneCurve
from ._tone_mapping import ToneMapping as ToneMapping
from ._tone_mapping import ToneMappingConverter as ToneMappingConverter

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
