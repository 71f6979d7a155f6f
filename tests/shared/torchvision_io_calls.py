"""Calls of `torchvision.io`, for torchvision itself (`record_torchvision_io.py`) and for its replacement."""

from __future__ import annotations

import builtins
import itertools
import tempfile
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

from decord_calls import CLIP, FOLDER, LATE, UNEVEN

_STEP = 499


def described(value: Any) -> Any:
    """A result as JSON; of a tensor its shape, its type, and about every five hundredth value."""
    if isinstance(value, torch.Tensor):
        flat = value.flatten()[:: _STEP if value.numel() > 3000 else 7].double()
        return {"shape": list(value.shape), "dtype": str(value.dtype), "values": np.round(flat.numpy(), 4).tolist()}
    if isinstance(value, dict):
        return {str(key): described(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [described(item) for item in value]
    return value if isinstance(value, (int, float, str, type(None))) else repr(value)


def outcome(io: Any, call: Callable[[Any], Any]) -> Any:
    """Return the result of a call, or the built-in type that it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return described(call(io))
    except Exception as error:
        return {"raises": next(kind.__name__ for kind in type(error).__mro__ if hasattr(builtins, kind.__name__))}


def _frames(path: str = CLIP, *arguments: Any, **options: Any) -> Callable[[Any], Any]:
    def call(io: Any) -> Any:
        frames, _, info = io.read_video(path, *arguments, **options)
        return [frames, info]

    return call


def _reader(*steps: Callable[[Any], Any], stream: str = "video", path: str = CLIP) -> Callable[[Any], Any]:
    def call(io: Any) -> Any:
        reader = io.VideoReader(path, stream)
        return [step(reader) for step in steps]

    return call


def _of_bytes(function: str, name: str, *arguments: Any, **options: Any) -> Callable[[Any], Any]:
    def call(io: Any) -> Any:
        data = torch.frombuffer(bytearray((FOLDER / name).read_bytes()), dtype=torch.uint8)
        return getattr(io, function)(data, *arguments, **options)

    return call


def _written(io: Any, **options: Any) -> Any:
    frames = torch.arange(10, dtype=torch.uint8)[:, None, None, None].expand(10, 48, 64, 3) * 20
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "frames.mp4")
        io.write_video(path, frames, **options)
        times, fps = io.read_video_timestamps(path, "sec")
        return [io.read_video(path, pts_unit="sec")[0].float().mean((1, 2, 3)), times, fps]


def _image_written(io: Any, kind: str, **options: Any) -> Any:
    picture = torch.arange(3 * 16 * 24, dtype=torch.uint8).reshape(3, 16, 24)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / f"picture.{kind}")
        getattr(io, f"write_{kind}")(picture, path, **options)
        return [io.read_image(path).shape, io.read_file(path)[:3]]


def _next(reader: Any) -> Any:
    return next(reader)


CALLS: dict[str, Callable[[Any], Any]] = {
    "video": _frames(),
    "TCHW": _frames(output_format="TCHW"),
    "tchw": _frames(output_format="tchw"),
    "wrong format": _frames(output_format="HWC"),
    "range in units": _frames(CLIP, 1024, 2048),
    "range between units": _frames(CLIP, 1100, 2000),
    "range in seconds": _frames(CLIP, 0.2, 0.4, pts_unit="sec"),
    "range between frames": _frames(CLIP, 0.21, 0.43, "sec"),
    "range in fractions": _frames(CLIP, Fraction(1, 5), Fraction(2, 5), pts_unit="sec"),
    "from a time on": _frames(CLIP, 1.1, pts_unit="sec"),
    "one moment": _frames(CLIP, 0.5, 0.5, pts_unit="sec"),
    "behind the end": _frames(CLIP, 9.0, 10.0, pts_unit="sec"),
    "before the beginning": _frames(CLIP, -1.0, 0.1, pts_unit="sec"),
    "end before start": _frames(CLIP, 2, 1, pts_unit="sec"),
    "uneven": _frames(UNEVEN, 0.1, 0.55, pts_unit="sec"),
    "uneven in units": _frames(UNEVEN, 200, 310),
    "late": _frames(LATE, 0.2, 0.4, pts_unit="sec"),
    "sound": lambda io: list(io.read_video(CLIP, pts_unit="sec")[1:]),
    "no sound": lambda io: list(io.read_video(UNEVEN, pts_unit="sec")[1:]),
    "times in units": lambda io: io.read_video_timestamps(CLIP),
    "times in seconds": lambda io: io.read_video_timestamps(CLIP, pts_unit="sec"),
    "uneven times": lambda io: io.read_video_timestamps(UNEVEN, "sec"),
    "reader": _reader(_next, _next),
    "reader counts": _reader(lambda reader: sum(1 for _ in reader)),
    "reader ends": _reader(lambda reader: list(reader)[-1], _next),
    "reader at a key frame": _reader(lambda reader: next(reader.seek(0.7, keyframes_only=True))),
    "reader at the beginning": _reader(_next, lambda reader: next(reader.seek(-1.0, keyframes_only=True))),
    "reader by range": _reader(
        lambda reader: [
            frame["pts"]
            for frame in itertools.takewhile(lambda frame: frame["pts"] <= 0.4, reader.seek(0.32, keyframes_only=True))
        ]
    ),
    "reader metadata": _reader(lambda reader: reader.get_metadata()),
    "reader of sound": _reader(_next, _next, stream="audio"),
    "reader changes": _reader(_next, lambda reader: reader.set_current_stream("audio:0"), _next),
    "reader changes back": _reader(
        _next,
        lambda reader: reader.set_current_stream("audio"),
        lambda reader: reader.set_current_stream("video:0"),
        _next,
    ),
    "reader of bytes": lambda io: next(io.VideoReader(Path(CLIP).read_bytes())),
    "reader of nothing": lambda io: io.VideoReader(""),
    "reader of a number": lambda io: io.VideoReader(3),
    "written": lambda io: _written(io, fps=25),
    "written with options": lambda io: _written(io, fps=10, video_codec="libx264", options={"crf": "5", "g": "2"}),
    "png": _of_bytes("decode_png", "rgba.png"),
    "png to gray": _of_bytes("decode_png", "rgba.png", "GRAY"),
    "png of 16 bits": _of_bytes("decode_image", "deep.png"),
    "gray png": _of_bytes("decode_image", "gray.png"),
    "gray png to RGB": _of_bytes("decode_image", "gray.png", mode="RGB"),
    "gray with alpha": _of_bytes("decode_image", "gray.png", mode="GRAY_ALPHA"),
    "turned jpeg": _of_bytes("decode_jpeg", "turned.jpg"),
    "turned jpeg, upright": _of_bytes("decode_jpeg", "turned.jpg", apply_exif_orientation=True),
    "turned image": _of_bytes("decode_image", "turned.jpg", "RGB", True),
    "gif": _of_bytes("decode_gif", "moving.gif"),
    "gif as image": _of_bytes("decode_image", "moving.gif"),
    "webp": _of_bytes("decode_webp", "lossless.webp"),
    "webp to RGB": _of_bytes("decode_webp", "lossless.webp", "RGB"),
    "read_image": lambda io: io.read_image(str(FOLDER / "rgba.png")),
    "read_image of a path": lambda io: io.read_image(FOLDER / "rgba.png", io.ImageReadMode.RGB),
    "decode_image of a path": lambda io: io.decode_image(str(FOLDER / "gray.png")),
    "read_file": lambda io: io.read_file(str(FOLDER / "gray.png")),
    "jpeg as png": _of_bytes("decode_png", "turned.jpg"),
    "no image": _of_bytes("decode_image", "uneven.mkv"),
    "no file": lambda io: io.read_image("nothing.png"),
    "image of a list": lambda io: io.decode_image([1, 2, 3]),
    "wrong mode": _of_bytes("decode_png", "gray.png", "CMYK"),
    "jpeg written": lambda io: _image_written(io, "jpeg", quality=90),
    "png written": lambda io: _image_written(io, "png"),
    "jpeg of a wrong quality": lambda io: io.encode_jpeg(torch.zeros(3, 8, 8, dtype=torch.uint8), quality=101),
    "jpeg of two channels": lambda io: io.encode_jpeg(torch.zeros(2, 8, 8, dtype=torch.uint8)),
    "jpegs": lambda io: io.decode_jpeg([io.encode_jpeg(torch.full((3, 8, 8), 9, dtype=torch.uint8))] * 2),
}
