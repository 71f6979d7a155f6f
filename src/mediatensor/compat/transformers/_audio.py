"""`load_audio`."""

from __future__ import annotations

import base64
import binascii
import os
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..._engine.common.checks import check_choice, shown, whole_number
from ...decoders import AudioDecoder
from ...errors import InvalidArgumentError, SourceNotFoundError
from .. import run_bounded

__all__ = ["load_audio"]

#: By name of a backend, whether its one channel is the mean of all; FFmpeg's is, of stereo, 0.707 times the sum.
_IS_MEAN = {
    "mediatensor": False,
    "auto": False,
    "torchcodec": False,
    "soundfile": True,
    "librosa": True,
    "torchaudio": True,
}
_URLS = ("http://", "https://")


def load_audio(
    audio: Any, sampling_rate: int = 16_000, timeout: float | None = None, backend: str = "mediatensor"
) -> NDArray[np.float32]:
    """Read the sound of a file as one channel, as ``transformers.audio_utils.load_audio`` does.

    Args:
        audio: A path or URL of sound or video, a file in base64, also as a ``data:`` URI, or the bytes of a file. An
            array is returned as it is.
        sampling_rate: Samples per second.
        timeout: Most seconds of the whole call, which is then made in a process of its own; ``None`` for no limit.
        backend: ``"mediatensor"``, or the name of a backend of transformers that mixes channels in the way wanted:
            ``"torchcodec"`` and ``"auto"`` as FFmpeg does, to 0.707 times the sum of left and right; ``"soundfile"``,
            ``"librosa"`` and ``"torchaudio"`` to the mean. This library decodes in any case.

    Returns:
        Samples (N,) of float32.

    Raises:
        InvalidArgumentError: if an argument is not accepted, or ``audio`` is neither a file nor base64.
        OpenError, ReadError, StreamError: if the source cannot be read, or has no sound.
        DecodeError: if the sound cannot be decoded.
        IsolatedWorkerError: if it took longer than ``timeout``.

    Example:
        >>> from mediatensor.compat.transformers import load_audio
        >>> samples = load_audio("video.mp4", sampling_rate=16_000)
        >>> samples.shape, samples.dtype
        ((160000,), dtype('float32'))
    """
    check_choice("backend", backend, tuple(_IS_MEAN))
    sampling_rate = whole_number("sampling_rate", sampling_rate, at_least=1)
    if isinstance(audio, np.ndarray):
        return audio
    samples = run_bounded(partial(_mono, _source_of(audio), sampling_rate, _IS_MEAN[backend]), timeout)
    found: NDArray[np.float32] = samples.numpy()
    return found


def _source_of(audio: Any) -> Any:
    if isinstance(audio, bytes | bytearray):
        return bytes(audio)
    if isinstance(audio, os.PathLike):
        return os.fspath(audio)
    if not isinstance(audio, str):
        raise InvalidArgumentError(
            f"audio must be a path, a URL, base64, bytes or an array (got {shown(audio)} of {type(audio).__name__})."
        )
    if audio.startswith(_URLS) or os.path.exists(audio):
        return audio
    coded = audio.partition(",")[2] if audio.startswith("data:") else audio
    try:
        data = base64.b64decode(coded, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if not data:
        raise SourceNotFoundError(f"{shown(audio)} is no file on this machine, no URL of http(s), and no base64.")
    return data


def _mono(source: Any, sampling_rate: int, is_mean: bool) -> Tensor:
    if is_mean:
        return AudioDecoder(source, sample_rate=sampling_rate).get_all_samples().data.mean(0)
    return AudioDecoder(source, sample_rate=sampling_rate, num_channels=1).get_all_samples().data[0]
