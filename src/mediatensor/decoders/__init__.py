"""Decoders: from media files to tensors."""

from __future__ import annotations

from ..backends._cuda import get_nvdec_cache_capacity, set_nvdec_cache_capacity
from ._audio_decoder import AudioDecoder
from ._audio_metadata import AudioStreamMetadata
from ._audio_video_decoder import AudioVideoDecoder
from ._container_metadata import Chapter, ContainerMetadata, get_container_metadata
from ._cpu_fallback import CpuFallbackStatus
from ._devices import set_cuda_backend
from ._frame_index import FrameIndex
from ._image_decoders import (
    decode_avif,
    decode_gif,
    decode_heic,
    decode_image,
    decode_jpeg,
    decode_png,
    decode_webp,
)
from ._image_modes import ImageReadMode
from ._metadata import (
    AudioStreamHeaderMetadata,
    StreamMetadata,
    SubtitleStreamHeaderMetadata,
    VideoStreamHeaderMetadata,
    VideoStreamMetadata,
)
from ._subtitle_decoder import Subtitle, SubtitleDecoder
from ._video_decoder import VideoDecoder
from ._wav_decoder import WavDecoder

SimpleVideoDecoder = VideoDecoder

__all__ = [
    "AudioDecoder",
    "AudioStreamHeaderMetadata",
    "AudioStreamMetadata",
    "AudioVideoDecoder",
    "Chapter",
    "ContainerMetadata",
    "CpuFallbackStatus",
    "FrameIndex",
    "ImageReadMode",
    "SimpleVideoDecoder",
    "StreamMetadata",
    "Subtitle",
    "SubtitleDecoder",
    "SubtitleStreamHeaderMetadata",
    "VideoDecoder",
    "VideoStreamHeaderMetadata",
    "VideoStreamMetadata",
    "WavDecoder",
    "decode_avif",
    "decode_gif",
    "decode_heic",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "decode_webp",
    "get_container_metadata",
    "get_nvdec_cache_capacity",
    "set_cuda_backend",
    "set_nvdec_cache_capacity",
]
