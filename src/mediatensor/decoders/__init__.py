"""Decode media files to tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._engine import lazy_names

if TYPE_CHECKING:
    from .._engine.images.channels import ImageReadMode
    from .._engine.index.frame_index import FrameIndex
    from .._engine.index.holes import FrameHole
    from .._engine.metadata import (
        AudioStreamHeaderMetadata,
        AudioStreamMetadata,
        Chapter,
        ContainerMetadata,
        DemuxerMetadata,
        StreamMetadata,
        SubtitleStreamHeaderMetadata,
        VideoStreamHeaderMetadata,
        VideoStreamMetadata,
        get_container_metadata,
    )
    from .._engine.video.open_video import CpuFallbackStatus
    from ..backends import get_nvdec_cache_capacity, set_cuda_backend, set_nvdec_cache_capacity
    from ._audio_decoder import AudioDecoder, WavDecoder
    from ._audio_video_decoder import AudioVideoDecoder
    from ._converters import AudioConverter, ColorConverter
    from ._demuxer import AudioStream, Demuxer, VideoStream
    from ._image_decoders import (
        decode_avif,
        decode_gif,
        decode_heic,
        decode_image,
        decode_jpeg,
        decode_png,
        decode_webp,
    )
    from ._packet_decoders import AudioPacketDecoder, Packet, RawAudioSamples, RawFrame, VideoPacketDecoder
    from ._subtitle_decoder import Subtitle, SubtitleDecoder
    from ._video_decoder import MotionVectors, SimpleVideoDecoder, VideoDecoder

__all__ = [
    "AudioConverter",
    "AudioDecoder",
    "AudioPacketDecoder",
    "AudioStream",
    "AudioStreamHeaderMetadata",
    "AudioStreamMetadata",
    "AudioVideoDecoder",
    "Chapter",
    "ColorConverter",
    "ContainerMetadata",
    "CpuFallbackStatus",
    "Demuxer",
    "DemuxerMetadata",
    "FrameHole",
    "FrameIndex",
    "ImageReadMode",
    "MotionVectors",
    "Packet",
    "RawAudioSamples",
    "RawFrame",
    "SimpleVideoDecoder",
    "StreamMetadata",
    "Subtitle",
    "SubtitleDecoder",
    "SubtitleStreamHeaderMetadata",
    "VideoDecoder",
    "VideoPacketDecoder",
    "VideoStream",
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

# Reading packets and headers does not need torch, so torch is imported only for decoding.
__getattr__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("get_nvdec_cache_capacity", "set_cuda_backend", "set_nvdec_cache_capacity"), "..backends"),
        **dict.fromkeys(("AudioDecoder", "WavDecoder"), "._audio_decoder"),
        "AudioVideoDecoder": "._audio_video_decoder",
        **dict.fromkeys(("AudioConverter", "ColorConverter"), "._converters"),
        **dict.fromkeys(("AudioStream", "Demuxer", "VideoStream"), "._demuxer"),
        **dict.fromkeys(
            ("AudioPacketDecoder", "Packet", "RawAudioSamples", "RawFrame", "VideoPacketDecoder"), "._packet_decoders"
        ),
        "CpuFallbackStatus": ".._engine.video.open_video",
        "FrameHole": ".._engine.index.holes",
        "FrameIndex": ".._engine.index.frame_index",
        **dict.fromkeys((name for name in __all__ if name.startswith("decode_")), "._image_decoders"),
        "ImageReadMode": ".._engine.images.channels",
        **dict.fromkeys(
            ("Chapter", "get_container_metadata", *(name for name in __all__ if name.endswith("Metadata"))),
            ".._engine.metadata",
        ),
        **dict.fromkeys(("Subtitle", "SubtitleDecoder"), "._subtitle_decoder"),
        **dict.fromkeys(("MotionVectors", "SimpleVideoDecoder", "VideoDecoder"), "._video_decoder"),
    },
)


def __dir__() -> list[str]:
    return __all__
