"""Encode tensors to video, audio and image files.

>>> from mediatensor.encoders import VideoEncoder
>>> import torch
>>> frames = torch.zeros(10, 3, 64, 96, dtype=torch.uint8)
>>> VideoEncoder(frames, frame_rate=30).to_file("black.mp4", crf=20)
"""

from __future__ import annotations

from ._encoder import AudioStream, Encoder, VideoStream
from ._image_encoders import JpegEncoder, PngEncoder
from ._video_encoder import AudioEncoder, VideoEncoder

__all__ = [
    "AudioEncoder",
    "AudioStream",
    "Encoder",
    "JpegEncoder",
    "PngEncoder",
    "VideoEncoder",
    "VideoStream",
]
