"""Video and audio reading for Hugging Face transformers.

`register` makes processors and chat templates read video and audio with this library. `load_video` and `load_audio`
have transformers' arguments and results. The page "Coming from transformers and vLLM" lists the differences.

>>> from mediatensor.compat import transformers
>>> frames, metadata = transformers.load_video("video.mp4", fps=2)
>>> frames.shape, metadata["fps"], metadata["frames_indices"][:3].tolist()
(torch.Size([20, 3, 360, 640]), 30.0, [0, 15, 30])
"""

from __future__ import annotations

from ._loading import VideoMetadata, load_audio, load_video, read_video
from ._register import register, unregister

__all__ = ["VideoMetadata", "load_audio", "load_video", "read_video", "register", "unregister"]
