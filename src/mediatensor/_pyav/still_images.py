"""Still images through FFmpeg's codecs: 16 bits a sample, which Pillow cuts to 8, and a second opinion on JPEG."""

from __future__ import annotations

from typing import Any

import av
import numpy as np
from av.video.codeccontext import VideoCodecContext
from numpy.typing import NDArray

from .opening import error_text

__all__ = ["UndecodableImageError", "decode_png_16", "jpeg_is_damaged"]

_CHANNELS = {"gray16be": 1, "ya16be": 2, "rgb48be": 3, "rgba64be": 4}


class UndecodableImageError(Exception):
    """The codec refused the data, or did not get a whole picture out of it."""


def decode_png_16(png: bytes) -> NDArray[np.uint16]:
    """The samples of a PNG file of 16 bits, (H, W, C) in native byte order, C being 1 to 4 as in the file.

    Args:
        png: A whole file whose checksums are right.

    Raises:
        UndecodableImageError: if the pixels cannot be decompressed.
    """
    try:
        frame = _decode("png", png)
    except av.FFmpegError as error:
        raise UndecodableImageError(error_text(error)) from error
    if frame is None or frame.format.name not in _CHANNELS:
        raise UndecodableImageError("the codec gave no picture of 16 bits")
    channels, plane = _CHANNELS[frame.format.name], frame.planes[0]
    stride = plane.line_size // 2
    lines = np.frombuffer(plane, ">u2", count=frame.height * stride).reshape(frame.height, stride)
    return lines[:, : frame.width * channels].reshape(frame.height, frame.width, channels).astype(np.uint16)


def jpeg_is_damaged(jpeg: bytes) -> bool:
    """Whether a JPEG decoder that does not conceal damage finds any; False if it does not know the kind of JPEG."""
    try:
        _decode("mjpeg", jpeg)
    except av.InvalidDataError:
        return True
    except av.FFmpegError:
        return False
    return False


def _decode(codec: str, data: bytes) -> Any:
    context = av.CodecContext.create(codec, "r")
    assert isinstance(context, VideoCodecContext)
    context.thread_type, context.thread_count = "NONE", 1
    context.options = {"err_detect": "explode"}
    packet = av.Packet(len(data))  # with the padding that codecs read beyond the end
    packet.update(data)
    frames = [*context.decode(packet), *context.decode(None)]
    return frames[0] if frames else None
