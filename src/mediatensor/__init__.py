"""Video, audio, images and documents as PyTorch tensors.

>>> from mediatensor.decoders import VideoDecoder
>>> decoder = VideoDecoder("video.mp4")
>>> decoder[0].shape
torch.Size([3, 360, 640])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._engine import lazy_names

if TYPE_CHECKING:
    from . import decoders, encoders, errors, samplers, transforms
    from ._engine.common.threads import get_num_threads, set_num_threads
    from ._engine.index.indexing import get_index_cache, set_index_cache
    from ._engine.pyav.opening import ffmpeg_major_version
    from ._engine.video.handles import get_frame_cache_bytes, set_frame_cache_bytes
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
    "ffmpeg_major_version",
    "get_frame_cache_bytes",
    "get_index_cache",
    "get_num_threads",
    "samplers",
    "set_frame_cache_bytes",
    "set_index_cache",
    "set_num_threads",
    "transforms",
]

# Torch takes a second to load, so the command answers `--help` without it.
__getattr__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("decoders", "encoders", "errors", "samplers", "transforms"), "."),
        **dict.fromkeys(("get_num_threads", "set_num_threads"), "._engine.common.threads"),
        **dict.fromkeys(("get_index_cache", "set_index_cache"), "._engine.index.indexing"),
        "ffmpeg_major_version": "._engine.pyav.opening",
        **dict.fromkeys(("get_frame_cache_bytes", "set_frame_cache_bytes"), "._engine.video.handles"),
        **dict.fromkeys(
            ("AudioSamples", "AudioSamplesBatch", "AudioVideoClip", "Frame", "FrameBatch", "ReplacedFrame"), ".frames"
        ),
    },
)


def __dir__() -> list[str]:
    return __all__
