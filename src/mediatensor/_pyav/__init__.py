"""Everything that touches PyAV: the only package here that imports ``av``.

The differences between PyAV's major versions (fractions or rationals, which arguments exist) end in these modules;
the rest of the library sees plain Python values, numpy arrays, and frames as opaque handles.
"""

from __future__ import annotations

from .demuxer import Demuxer
from .encoding import Muxer, format_of_name, format_of_path, write_test_pattern
from .encoding_audio import AudioSettings
from .encoding_video import Colour, RgbConverter, VideoSettings
from .linear import LinearFrame, linear_decode
from .opening import choose_streams, read_container_info
from .packet_decoder import PacketDecoder, UndecodablePacketError, configure_audio_codec, configure_video_codec
from .pixels import (
    CUDA_DECODE_ERRORS,
    FrameConverter,
    LumaConverter,
    component_planes,
    create_cuda_context,
    cuda_surface_of,
    fingerprint,
    is_frame,
    luma_of,
    orientation_of,
    surface_of,
    why_no_nvcuvid,
)
from .probe import ContainerInfo, FrameColors, StreamInfo, build_versions, frame_colors, has_codec, stream_info
from .reading import DISCARD_ENTRY, KEY_ENTRY, VideoReader, is_key_frame
from .sound import (
    MAX_CHANNELS,
    MAX_SAMPLE_RATE,
    AudioReader,
    Downmix,
    Resampler,
    SampleForm,
    SampleQueue,
    as_float,
    has_frame_threads,
    samples_of,
    set_trimming,
)
from .still_images import PlanarPicture, UndecodableImageError, avif_planes, decode_png_16, jpeg_is_damaged
from .subtitles import READABLE_PACKETS, SubtitlePacket, read_subtitle_info, read_subtitle_packets

__all__ = [
    "CUDA_DECODE_ERRORS",
    "DISCARD_ENTRY",
    "KEY_ENTRY",
    "MAX_CHANNELS",
    "MAX_SAMPLE_RATE",
    "READABLE_PACKETS",
    "AudioReader",
    "AudioSettings",
    "Colour",
    "ContainerInfo",
    "Demuxer",
    "Downmix",
    "FrameColors",
    "FrameConverter",
    "LinearFrame",
    "LumaConverter",
    "Muxer",
    "PacketDecoder",
    "PlanarPicture",
    "Resampler",
    "RgbConverter",
    "SampleForm",
    "SampleQueue",
    "StreamInfo",
    "SubtitlePacket",
    "UndecodableImageError",
    "UndecodablePacketError",
    "VideoReader",
    "VideoSettings",
    "as_float",
    "avif_planes",
    "build_versions",
    "choose_streams",
    "component_planes",
    "configure_audio_codec",
    "configure_video_codec",
    "create_cuda_context",
    "cuda_surface_of",
    "decode_png_16",
    "fingerprint",
    "format_of_name",
    "format_of_path",
    "frame_colors",
    "has_codec",
    "has_frame_threads",
    "is_frame",
    "is_key_frame",
    "jpeg_is_damaged",
    "linear_decode",
    "luma_of",
    "orientation_of",
    "read_container_info",
    "read_subtitle_info",
    "read_subtitle_packets",
    "samples_of",
    "set_trimming",
    "stream_info",
    "surface_of",
    "why_no_nvcuvid",
    "write_test_pattern",
]
