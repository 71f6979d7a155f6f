"""Decoders: from media files to tensors."""

from __future__ import annotations

from ._cpu_fallback import CpuFallbackStatus
from ._frame_index import FrameIndex
from ._metadata import (
    AudioStreamHeaderMetadata,
    ContainerMetadata,
    StreamMetadata,
    VideoStreamHeaderMetadata,
    VideoStreamMetadata,
    get_container_metadata,
)
from ._video_decoder import VideoDecoder

SimpleVideoDecoder = VideoDecoder

__all__ = [
    "AudioStreamHeaderMetadata",
    "ContainerMetadata",
    "CpuFallbackStatus",
    "FrameIndex",
    "SimpleVideoDecoder",
    "StreamMetadata",
    "VideoDecoder",
    "VideoStreamHeaderMetadata",
    "VideoStreamMetadata",
    "get_container_metadata",
]
