"""Calls of transformers' `load_video` and `load_audio`, for these (`record_transformers.py`) and for ours."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np

import wav_files
from decord_calls import CLIP, LATE, UNEVEN

SAMPLE_RATE = 8000
_FILES = {"clip": CLIP, "late": LATE, "uneven": UNEVEN}
_AMOUNTS: dict[str, dict[str, Any]] = {
    "all": {},
    "four": {"num_frames": 4},
    "five a second": {"fps": 5},
    "a third a second": {"fps": 1 / 3},
    "chosen": {"sample_indices_fn": lambda metadata, **_: np.array([2, 3, metadata.total_num_frames - 1])},
    "too many": {"num_frames": 31},
    "contradicting": {"num_frames": 4, "fps": 5},
}


def tone() -> bytes:
    """A WAV file of a fifth of a second, in which the channels differ."""
    seconds = np.arange(SAMPLE_RATE // 5) / SAMPLE_RATE
    channels = [0.5 * np.sin(2 * np.pi * 440 * seconds), 0.25 * np.sin(2 * np.pi * 660 * seconds)]
    return wav_files.wav("pcm_s16le", np.round(np.stack(channels, 1) * 32767) / 32768, SAMPLE_RATE)


def outcome(call: Callable[[Any], Any], module: Any) -> Any:
    """Return the result of a call as JSON, or its exception."""
    try:
        found = call(module)
    except Exception as error:
        return {"raises": next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")}
    if isinstance(found, np.ndarray):
        return {"count": len(found), "samples": [round(float(value), 5) for value in found[::8]]}
    frames, metadata = found
    fields = {name: metadata[name] for name in sorted(metadata)}
    fields["frames_indices"] = [int(index) for index in metadata.frames_indices]
    fields["timestamps"] = [round(seconds, 6) for seconds in metadata.timestamps]
    fields["sampled_fps"] = round(metadata.sampled_fps, 6)
    halves = frames.reshape(*frames.shape[:2], 2, -1, 3).mean((1, 3))
    return {
        "frames": {"shape": list(frames.shape), "dtype": str(frames.dtype), "means": np.round(halves, 1).tolist()},
        "metadata": fields,
    }


def _video(path: str, **arguments: Any) -> Callable[[Any], Any]:
    return lambda module: module.load_video(path, **arguments)


CALLS: dict[str, Callable[[Any], Any]] = {
    f"{backend}: {amount} of {name}": _video(path, backend=backend, **arguments)
    for backend in ("pyav", "decord", "opencv")
    for name, path in _FILES.items()
    for amount, arguments in _AMOUNTS.items()
    if amount != "all" or (backend, name) == ("pyav", "clip")
} | {
    f"sound: {rate} Hz": lambda module, rate=rate: module.load_audio(  # type: ignore[misc]
        "data:audio/wav;base64," + base64.b64encode(tone()).decode(), sampling_rate=rate, backend="soundfile"
    )
    for rate in (SAMPLE_RATE, 16_000)
}
