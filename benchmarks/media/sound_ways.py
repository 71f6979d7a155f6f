"""How each library decodes all samples of a file, or some seconds of it."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import av
import torch
from torch import Tensor

from mediatensor.decoders import AudioDecoder, WavDecoder

from .sounds import SoundClip

OURS = "mediatensor"
TORCHCODEC = "torchcodec"

#: Number of ranges for torchcodec, which decodes from the last range or the start of the file to each. They are spread
#: over the file, because their cost grows with the time.
NUM_SLOW_RANGES = 5


@dataclass(frozen=True)
class Way:
    """A library in a scenario.

    Attributes:
        begin: Prepares a run, untimed, and returns it.
        starts: Starts of the ranges that a run returns, in seconds; empty for the whole file.
    """

    begin: Callable[[], Callable[[], list[Tensor]]]
    starts: Sequence[float] = ()


def always(run: Callable[[], list[Tensor]]) -> Callable[[], Callable[[], list[Tensor]]]:
    """Prepare nothing."""
    return lambda: run


def whole_by_decoder(decoder_class: Any, path: str, **options: Any) -> list[Tensor]:
    return [decoder_class(path, **options).get_all_samples().data]


def whole_by_soundfile(soundfile: Any, path: str) -> list[Tensor]:
    return [torch.from_numpy(soundfile.read(path, dtype="float32", always_2d=True)[0]).T.contiguous()]


def whole_thrown_away(path: str) -> list[Tensor]:
    """Decode all frames without extracting their samples."""
    with av.open(path) as container:
        for _ in container.decode(audio=0):
            pass
    return []


def seconds_by_decoder(decoder: Any, starts: Sequence[float]) -> list[Tensor]:
    return [decoder.get_samples_played_in_range(start, start + 1).data for start in starts]


def seconds_in_one_call(decoder: Any, starts: Sequence[float]) -> list[Tensor]:
    return [found.data for found in decoder.get_samples_played_in_ranges([(start, start + 1) for start in starts])]


def seconds_by_soundfile(begin: float, file: Any, starts: Sequence[float]) -> list[Tensor]:
    """Read ranges with soundfile, which counts samples from the first one and has no times."""
    found = []
    for start in starts:
        file.seek(round((start - begin) * file.samplerate))
        samples = file.read(file.samplerate, dtype="float32", always_2d=True)
        found.append(torch.from_numpy(samples).T.contiguous())
    return found


def ways_to_get_all(clip: SoundClip, path: str) -> dict[str, Way]:
    """Return ways to decode a whole file, opening included, by library."""
    found = {
        OURS: Way(always(partial(whole_by_decoder, AudioDecoder, path))),
        f"{OURS}, 1 thread": Way(always(partial(whole_by_decoder, AudioDecoder, path, num_ffmpeg_threads=1))),
    }
    if clip.extension == "wav":
        found[f"{OURS}, WavDecoder"] = Way(always(partial(whole_by_decoder, WavDecoder, path)))
    if (torchcodec := imported("torchcodec.decoders")) is not None:
        found[TORCHCODEC] = Way(always(partial(whole_by_decoder, torchcodec.AudioDecoder, path)))
    if (soundfile := imported("soundfile")) is not None and can_read(soundfile, path):
        found["soundfile"] = Way(always(partial(whole_by_soundfile, soundfile, path)))
    found["PyAV, samples thrown away"] = Way(always(partial(whole_thrown_away, path)))
    return found


def ways_to_get_seconds(
    clip: SoundClip, path: str, starts: Sequence[float], begin: float, *, is_open: bool
) -> dict[str, Way]:
    """Return ways to decode the seconds that begin at ``starts``, by library.

    Args:
        clip: Description of the file.
        path: The file.
        starts: Times in seconds.
        begin: The time of the first sample.
        is_open: Whether the decoder is already open; otherwise the run includes opening.
    """

    def way(get: Any, make: Any, few: Sequence[float] = starts) -> Way:
        if not is_open:
            return Way(always(lambda: get(make(path), few)), few)
        return Way(lambda: partial(get, make(path), few), few)

    found = {OURS: way(seconds_by_decoder, AudioDecoder)}
    if is_open:
        found[f"{OURS}, ranges in one call"] = way(seconds_in_one_call, AudioDecoder)
    if clip.extension == "wav":
        found[f"{OURS}, WavDecoder"] = way(seconds_by_decoder, WavDecoder)
    if (torchcodec := imported("torchcodec.decoders")) is not None:
        share = max(1, len(starts) // NUM_SLOW_RANGES)
        spread = sorted(starts)[share // 2 :: share]
        # In the same order as the other libraries: in time order it would decode the file only once.
        few = [start for start in starts if start in spread]
        found[TORCHCODEC] = way(seconds_by_decoder, torchcodec.AudioDecoder, few)
    if (soundfile := imported("soundfile")) is not None and can_read(soundfile, path):
        found["soundfile"] = way(partial(seconds_by_soundfile, begin), soundfile.SoundFile)
    return found


def imported(name: str) -> Any:
    """Import a module, or return ``None`` if it or its FFmpeg is missing."""
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError, OSError):
        return None


def can_read(soundfile: Any, path: str) -> bool:
    with contextlib.suppress(soundfile.LibsndfileError):
        return bool(soundfile.info(path).frames)
    return False
