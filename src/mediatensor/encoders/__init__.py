"""Encoding tensors: videos, sounds, or both in one file; images.

>>> from mediatensor.encoders import VideoEncoder
>>> VideoEncoder(frames, frame_rate=30).to_file("video.mp4", crf=20)  # doctest: +SKIP
"""

from __future__ import annotations

from ._audio_encoder import AudioEncoder
from ._encoder import Encoder
from ._image_encoders import JpegEncoder, PngEncoder
from ._streams import AudioStream, VideoStream
from ._video_encoder import VideoEncoder

__all__ = [
    "AudioEncoder",
    "AudioStream",
    "Encoder",
    "JpegEncoder",
    "PngEncoder",
    "VideoEncoder",
    "VideoStream",
]
