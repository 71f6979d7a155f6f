"""decord's readers: ``import mediatensor.compat.decord as decord``.

Names, arguments, defaults and results are those of decord 0.6; what is different is on the page "Coming from decord".
Results are an `NDArray`, or what `bridge.set_bridge` says.

>>> from mediatensor.compat import decord
>>> reader = decord.VideoReader("video.mp4", ctx=decord.cpu(0))
>>> len(reader), reader[7].shape
(300, (360, 640, 3))
>>> reader.get_batch([0, 100, -1]).asnumpy().shape
(3, 360, 640, 3)
"""

from __future__ import annotations

# decord raises its own type for whatever goes wrong in it; so does every call here.
from ...errors import MediaTensorError as DECORDError
from . import bridge, logging
from ._arrays import DECORDContext, NDArray, cpu, gpu
from ._audio_reader import AudioReader
from ._av_reader import AVReader
from ._video_loader import VideoLoader
from ._video_reader import DECORDLimitReachedError, VideoReader

__all__ = [
    "AVReader",
    "AudioReader",
    "DECORDContext",
    "DECORDError",
    "DECORDLimitReachedError",
    "NDArray",
    "VideoLoader",
    "VideoReader",
    "bridge",
    "cpu",
    "gpu",
    "logging",
]
