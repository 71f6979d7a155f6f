"""Video, audio, images and documents as PyTorch tensors.

>>> from mediatensor.decoders import VideoDecoder
>>> decoder = VideoDecoder("video.mp4")
>>> decoder[0].shape
torch.Size([3, 360, 640])
"""

from __future__ import annotations

from . import decoders, encoders, errors, samplers, transforms
from ._threads import get_num_threads, set_num_threads
from .decoders._index_cache import get_index_cache, set_index_cache
from .decoders._recent import get_frame_cache_bytes, set_frame_cache_bytes
from .frames import AudioSamples, AudioSamplesBatch, AudioVideoClip, Frame, FrameBatch, ReplacedFrame

__version__ = "0.1.0"

__all__ = [
    "AudioSamples",
    "AudioSamplesBatch",
    "AudioVideoClip",
    "Frame",
    "FrameBatch",
    "ReplacedFrame",
    "__version__",
    "decoders",
    "encoders",
    "errors",
    "get_frame_cache_bytes",
    "get_index_cache",
    "get_num_threads",
    "samplers",
    "set_frame_cache_bytes",
    "set_index_cache",
    "set_num_threads",
    "transforms",
]
