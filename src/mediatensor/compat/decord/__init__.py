"""The readers of decord: ``import mediatensor.compat.decord as decord``.

Names, arguments, defaults and results are the same as in decord 0.6. The page "Coming from decord" lists the
differences. Readers return an `NDArray`, unless `bridge.set_bridge` selects another type.

>>> from mediatensor.compat import decord
>>> reader = decord.VideoReader("video.mp4", ctx=decord.cpu(0))
>>> len(reader), reader[7].shape
(300, (360, 640, 3))
>>> reader.get_batch([0, 100, -1]).asnumpy().shape
(3, 360, 640, 3)
"""

from __future__ import annotations

from ...errors import MediaTensorError as DECORDError
from . import bridge, logging
from ._audio_reader import AudioReader, AVReader
from ._video_reader import DECORDLimitReachedError, VideoLoader, VideoReader
from .bridge import DECORDContext, NDArray, cpu, gpu

__version__ = "0.6.0"  # the release of decord whose names are here

__all__ = [
    "AVReader",
    "AudioReader",
    "DECORDContext",
    "DECORDError",
    "DECORDLimitReachedError",
    "NDArray",
    "VideoLoader",
    "VideoReader",
    "__version__",
    "bridge",
    "cpu",
    "gpu",
    "logging",
]
