"""A video loader for vLLM, with the protocol of its ``VIDEO_LOADER_REGISTRY``.

If this library is installed, vLLM calls `register`; ``VLLM_VIDEO_LOADER_BACKEND=mediatensor`` selects the loader.
Because videos are untrusted, separate processes with time and memory limits decode them.

>>> from pathlib import Path
>>> from mediatensor.compat.vllm import VideoLoader
>>> data = Path("video.mp4").read_bytes()
>>> frames, metadata = VideoLoader.load_bytes(data, num_frames=4, timeout_seconds=None)
>>> frames.shape, metadata["frames_indices"], metadata["do_sample_frames"]
((4, 360, 640, 3), [0, 99, 199, 299], False)
"""

from __future__ import annotations

from ._decoding import VideoSource
from ._loader import DEFAULT_TIMEOUT_SECONDS, VideoLoader, VideoTarget, register

__all__ = ["DEFAULT_TIMEOUT_SECONDS", "VideoLoader", "VideoSource", "VideoTarget", "register"]
