"""The functions of `torchvision.io`: ``import mediatensor.compat.torchvision_io as io``.

These include the video functions that later versions of torchvision have dropped. Names, arguments, defaults and
results are the same as in torchvision 0.22 with its default backend. The page "Coming from torchvision.io" lists the
differences. Functions that decode or encode also accept a time limit, ``timeout_seconds``.

>>> from mediatensor.compat import torchvision_io as io
>>> frames, samples, info = io.read_video("video.mp4", start_pts=2, end_pts=3, pts_unit="sec")
>>> frames.shape, samples.shape, info
(torch.Size([31, 360, 640, 3]), torch.Size([1, 48000]), {'video_fps': 30.0, 'audio_fps': 48000})
"""

from __future__ import annotations

from ...decoders import ImageReadMode
from ._images import (
    decode_avif,
    decode_gif,
    decode_heic,
    decode_image,
    decode_jpeg,
    decode_png,
    decode_webp,
    encode_jpeg,
    encode_png,
    read_file,
    read_image,
    write_file,
    write_jpeg,
    write_png,
)
from ._videos import VideoReader, read_video, read_video_timestamps, write_video

__all__ = [
    "ImageReadMode",
    "VideoReader",
    "decode_avif",
    "decode_gif",
    "decode_heic",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "decode_webp",
    "encode_jpeg",
    "encode_png",
    "read_file",
    "read_image",
    "read_video",
    "read_video_timestamps",
    "write_file",
    "write_jpeg",
    "write_png",
    "write_video",
]
