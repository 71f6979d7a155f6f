"""Call encoders with odd arguments: the outcome is a file, or an error that names the problem."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mediatensor import FrameBatch
from mediatensor.decoders import AudioDecoder, VideoDecoder, decode_image
from mediatensor.encoders import AudioEncoder, JpegEncoder, PngEncoder, VideoEncoder

from .answers import Answers, WrongAnswerError

__all__ = ["read_calls"]

# Larger data are one repeated value: an impossible size must be refused before any work.
_MAX_VALUES = 1 << 22
# With this many values of smaller frames, or many frames, the cost is accepted.
_TOO_MANY_VALUES = 1 << 33
_MAX_FRAMES = 100
_OPTIONS = {
    "png": {"compression_level"},
    "jpeg": {"quality"},
    "audio": {"bit_rate", "num_channels", "sample_rate"},
    "video": {"codec", "pixel_format", "crf", "preset", "extra_options"},
}


def read_calls(answers: Answers, rng: random.Random, path: Path, folder: Path) -> None:
    try:
        call = json.loads(path.read_bytes())
        name = call["call"]
        data = _tensor(name, call["data"], random.Random(0))
        options = {key: value for key, value in call["options"].items() if key in _OPTIONS[name]}
        rate, times, container = call.get("rate"), call.get("times"), call.get("format")
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError, RuntimeError, OverflowError):
        answers.errors["no call"] += 1  # not for the library to read
        return
    if name in ("png", "jpeg"):
        _image(answers, PngEncoder if name == "png" else JpegEncoder, data, options)
    elif name == "audio":
        _sound(answers, rng, data, rate, container, options)
    elif name == "video":
        _video(answers, rng, data, rate, times, container, options)


def _tensor(name: str, description: Any, rng: random.Random) -> Tensor:
    shape = [int(side) for side in description["shape"]]
    dtype = getattr(torch, description["dtype"])
    count = prod(shape)
    if not isinstance(dtype, torch.dtype) or any(side < 0 for side in shape):
        raise ValueError("no tensor")
    if count > _MAX_VALUES:
        if count < _TOO_MANY_VALUES or not _is_refused(name, shape):
            raise ValueError("no tensor for a test")
        return torch.zeros(1, dtype=dtype).expand(shape)
    fill = description["fill"]
    if fill in ("nan", "inf") and dtype.is_floating_point:
        return torch.full(shape, float(fill), dtype=dtype)
    if fill == "largest" and dtype.is_floating_point:
        return torch.full(shape, torch.finfo(dtype).max, dtype=dtype)
    noise = torch.frombuffer(bytearray(rng.randbytes(max(1, count))), dtype=torch.uint8)[:count].reshape(shape)
    return noise.to(dtype) / 255 if dtype.is_floating_point else noise.to(dtype)


def _is_refused(name: str, shape: list[int]) -> bool:
    """Whether sides are beyond what files of a kind can have; PNG images and audio may have any size."""
    return name == "jpeg" or (name == "video" and (len(shape) != 4 or shape[0] <= _MAX_FRAMES))


def _image(answers: Answers, kind: Any, data: Tensor, options: dict[str, Any]) -> None:
    encoder = answers.ask("image", lambda: kind(data))
    if encoder is None:
        return
    file = answers.ask("encoded", partial(encoder.to_tensor, **options))
    if file is not None and kind is PngEncoder and not _is_same(file, data):
        raise WrongAnswerError("a PNG file has other pixels than were given")


def _is_same(file: Tensor, data: Tensor) -> bool:
    return torch.equal(decode_image(file, mode="UNCHANGED", output_dtype="auto"), data)


def _sound(
    answers: Answers, rng: random.Random, data: Tensor, rate: Any, container: Any, options: dict[str, Any]
) -> None:
    encoder = answers.ask("sound", lambda: AudioEncoder(data, sample_rate=rate))
    file = None if encoder is None else _encoded(answers, rng, encoder, container, options)
    if file is not None:
        answers.ask("decoded", lambda: tuple(AudioDecoder(file).get_all_samples().data.shape))


def _video(
    answers: Answers, rng: random.Random, data: Tensor, rate: Any, times: Any, container: Any, options: dict[str, Any]
) -> None:
    frames: Any = data
    if isinstance(times, dict):
        try:
            pts, durations = (torch.tensor(times[key], dtype=torch.float64) for key in ("pts", "duration"))
        except (KeyError, ValueError, TypeError, RuntimeError, OverflowError):
            return
        # A digest of it would need memory for values that are one, shown as many.
        frames = _only_made(answers, "batch", lambda: FrameBatch(data, pts, durations))
    encoder = None if frames is None else answers.ask("video", lambda: VideoEncoder(frames, frame_rate=rate))
    file = None if encoder is None else _encoded(answers, rng, encoder, container, options)
    if file is None:
        return
    decoder = answers.ask("open", lambda: VideoDecoder(file))
    if decoder is not None:
        with decoder:
            count = answers.ask("count", lambda: len(decoder))
            answers.ask("last", lambda: tuple(decoder[-1].shape))
        if count is not None and count > len(data):
            raise WrongAnswerError(f"{len(data)} frames were encoded, and {count} are there")


def _only_made(answers: Answers, name: str, make: Callable[[], Any]) -> Any:
    """Return the made object without a digest in the answers; ``None`` for an error."""
    made: list[Any] = []
    answers.ask(name, lambda: made.append(make()))
    return made[0] if made else None


def _encoded(answers: Answers, rng: random.Random, encoder: Any, container: Any, options: dict[str, Any]) -> Any:
    """The bytes of a file, which is written to memory or to a file object.

    Of pictures as small as these x264 reads memory that it has not written, and makes something else each time.
    """
    if rng.random() < 0.5:
        return _only_made(answers, "tensor", lambda: encoder.to_tensor(container, **options))
    file = io.BytesIO()
    answers.ask("file", lambda: encoder.to_file_like(file, container, **options))
    return file.getvalue() or None
