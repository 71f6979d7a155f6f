"""Video and sound for the processors of Hugging Face's transformers.

`register` makes this library what its processors and chat templates read videos and sound with; `load_video` and
`load_audio` do so by themselves, with transformers' arguments and results. What is different is on the page "Coming
from transformers and vLLM".

>>> from mediatensor.compat import transformers
>>> frames, metadata = transformers.load_video("video.mp4", fps=2)
>>> frames.shape, metadata["fps"], metadata["frames_indices"][:3].tolist()
(torch.Size([20, 3, 360, 640]), 30.0, [0, 15, 30])
"""

from __future__ import annotations

from ._audio import load_audio
from ._metadata import VideoMetadata
from ._register import register, unregister
from ._video import load_video, read_video

__all__ = ["VideoMetadata", "load_audio", "load_video", "read_video", "register", "unregister"]
