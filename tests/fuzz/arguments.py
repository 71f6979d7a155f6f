"""Generate odd arguments of encoders, as JSON files. Pure functions."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .containers import EXTREMES

__all__ = ["call_seeds", "fixed", "odd_arguments"]

_TEXTS = (
    "", " ", "\0", "a\0b", "=", ":", "a:b=c", "é", "\ud800", "x" * 10_000, "%s%n", "-1", "0x10", "1/0", "0/0", "nan",
    "inf", "-inf", "1e999", "99999999999999999999", "2M", "1k", "none", "auto", "../x", "\n", "yuv420p", "gray16le",
    "pal8", "vaapi", "rgb24", "libx264", "mpeg4", "aac", "flac", "libvpx", "ffv1", "mjpeg", "rawvideo", "mp4", "mkv",
    "wav", "webm", "gif", "avi", "mp3", "ogg", "flac", "null", "hls", "tee", "fast", "placebo",
)  # fmt: skip
_NUMBERS = (0, -1, 1, 2, 0.5, -0.5, 1e-300, 1e300, float("nan"), float("inf"), *EXTREMES)
_OTHERS = (None, True, False, [], {}, [1, 2], {"a": 1})
_OPTIONS = (
    "g", "bf", "b", "refs", "threads", "crf", "preset", "profile", "tune", "x264-params", "flags", "movflags", "r", "f",
    "color_range", "colorspace", "color_primaries", "color_trc", "time_base", "aspect", "qmin", "qmax", "level",
    "bogus", "pix_fmt", "video_size", "slices", "strict", "max_delay", "avoid_negative_ts", "cluster_time_limit", "",
    "=", "\0", "é",
)  # fmt: skip
_DTYPES = ("uint8", "float32", "float64", "float16", "bfloat16", "int64", "uint16", "bool", "complex64", "int8")
_FILLS = ("noise", "nan", "inf", "largest", "zeros")
_SIDES = (1, 2, 3, 4, 5, 7, 16, 17, 33, 64, 100, 257)
_EXTREME_SIDES = (0, 65_500, 65_501, 65_536, 70_000, 1 << 20, 1 << 31, 1 << 40)


def call_seeds() -> dict[str, Callable[[Path], bytes]]:
    """Calls that work, by name."""
    sound = {"shape": [2, 3000], "dtype": "float32", "fill": "noise"}
    frames = {"shape": [4, 3, 32, 48], "dtype": "uint8", "fill": "noise"}
    times: dict[str, Any] = {"pts": [0.0, 0.1, 0.2, 0.5], "duration": [0.1, 0.1, 0.3, 0.1]}
    video = {"codec": None, "pixel_format": None, "crf": None, "preset": None, "extra_options": {"threads": 1}}
    audio = {"bit_rate": None, "num_channels": None, "sample_rate": None}
    calls = {
        "video": {"call": "video", "data": frames, "rate": 25, "times": None, "format": "mp4", "options": video},
        "video_x264": {"call": "video", "data": frames, "rate": 12.5, "times": None, "format": "mkv",
                       "options": {**video, "codec": "libx264", "crf": 20, "preset": "ultrafast"}},
        "video_times": {"call": "video", "data": frames, "rate": None, "times": times, "format": "mov",
                        "options": video},
        "audio": {"call": "audio", "data": sound, "rate": 16_000, "format": "wav", "options": audio},
        "audio_aac": {"call": "audio", "data": sound, "rate": 44_100, "format": "mp4",
                      "options": {**audio, "bit_rate": 64_000, "num_channels": 1, "sample_rate": 48_000}},
        "png": {"call": "png", "data": {"shape": [3, 20, 30], "dtype": "uint8", "fill": "noise"}, "options": {}},
        "png_16": {"call": "png", "data": {"shape": [1, 20, 30], "dtype": "uint16", "fill": "noise"},
                   "options": {"compression_level": 6}},
        "jpeg": {"call": "jpeg", "data": {"shape": [3, 20, 30], "dtype": "uint8", "fill": "noise"},
                 "options": {"quality": 75}},
    }  # fmt: skip
    return {f"{name}_json": fixed(json.dumps(call).encode()) for name, call in calls.items()}


def fixed(data: bytes) -> Callable[[Path], bytes]:
    """Return a function that makes a sound file of these bytes."""
    return lambda folder: data


def odd_arguments(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Replace an argument by another value, of a kind that is a likely mistake."""
    try:
        call = json.loads(data)
        change = rng.choice((_change_data, _change_options, _change_options, _change_argument))
        change(rng, call)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return data  # an earlier change left no call
    return json.dumps(call).encode()


def _value(rng: random.Random) -> Any:
    return rng.choice((rng.choice(_TEXTS), rng.choice(_NUMBERS), rng.choice(_OTHERS)))


def _change_data(rng: random.Random, call: dict[str, Any]) -> None:
    """Change the shape, type or contents of the encoded data."""
    data = call["data"]
    name = rng.choice(("shape", "shape", "dtype", "fill", "rank"))
    if name == "shape":
        data["shape"][rng.randrange(len(data["shape"]))] = rng.choice(_EXTREME_SIDES if rng.random() < 0.2 else _SIDES)
    elif name == "rank":
        data["shape"] = rng.choice((data["shape"][1:], [1, *data["shape"]], []))
    else:
        data[name] = rng.choice(_DTYPES if name == "dtype" else _FILLS)


def _change_options(rng: random.Random, call: dict[str, Any]) -> None:
    options = call["options"]
    name = rng.choice([*options, *["extra_options"] * 2 * (call["call"] == "video")])
    if name == "extra_options" and isinstance(options.get(name), dict) and rng.random() < 0.8:
        options[name][rng.choice(_OPTIONS)] = _value(rng)
    else:
        options[name] = _value(rng)


def _change_argument(rng: random.Random, call: dict[str, Any]) -> None:
    """Rate, format, or one of the times."""
    name = rng.choice([key for key in call if key not in ("call", "data", "options")] or ["options"])
    if isinstance(call[name], dict) and name == "times":
        row = call[name][rng.choice(list(call[name]))]
        row[rng.randrange(len(row))] = rng.choice(_NUMBERS)
    else:
        call[name] = _value(rng)
