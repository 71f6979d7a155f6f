"""Where in its file a row begins: the first frame or sample that its sampler asks for.

Rows of one file are read in the order of these positions, so that its decoder goes forward. A sampler is therefore
called twice: first with a decoder that only listens, then with the real one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Never

import numpy as np
import torch

from ...decoders import AudioDecoder, AudioVideoDecoder, VideoDecoder
from ...errors import MediaTensorError
from ...frames import AudioSamples
from .segments import AudioSegment, AudioVideoSegment, VideoSegment

__all__ = ["first_request"]

AnyDecoder = VideoDecoder | AudioDecoder | AudioVideoDecoder | VideoSegment | AudioSegment | AudioVideoSegment


class _FirstRequest(Exception):
    """Carries the first request of a sampler out of it."""

    def __init__(self, position: float) -> None:
        self.position = position


class _VideoListener:
    """A video decoder that does not decode: it raises with the first frame that is requested."""

    def __init__(self, decoder: VideoDecoder | VideoSegment) -> None:
        self._decoder = decoder
        self.metadata = decoder.metadata

    def __len__(self) -> int:
        return len(self._decoder)

    def get_frames_at(self, indices: Any) -> Never:
        # Segments of one file are read in the order in which they lie in it.
        raise _FirstRequest(int(np.min(np.asarray(indices))) + getattr(self._decoder, "first_frame", 0))

    def get_frames_played_at(self, seconds: Any) -> Never:
        first = torch.tensor([float(np.min(np.asarray(seconds)))], dtype=torch.float64)
        frames = self._decoder._frames_shown_at(first)
        raise _FirstRequest(0 if frames is None else int(frames))

    def get_frames_played_in_range(self, start_seconds: float, *others: Any, **options: Any) -> Never:
        self.get_frames_played_at([start_seconds])


class _AudioListener:
    """An audio decoder that does not decode: it raises with the first time that is requested."""

    def __init__(self, decoder: AudioDecoder | AudioSegment) -> None:
        self._decoder = decoder
        self.metadata = decoder.metadata

    def get_all_samples(self) -> Never:
        raise _FirstRequest(0.0)

    def get_samples_played_in_range(self, start_seconds: float = 0.0, stop_seconds: float | None = None) -> Never:
        raise _FirstRequest(start_seconds)

    def get_samples_played_in_ranges(self, ranges: Sequence[tuple[float, float | None]]) -> list[AudioSamples]:
        if all(start == stop for start, stop in ranges):  # asks for the rate and the channels alone
            return self._decoder.get_samples_played_in_ranges(ranges)
        raise _FirstRequest(min(start for start, _ in ranges))


class _AudioVideoListener:
    """A decoder of pictures and sound that does not decode: it raises with the begin of the range that is requested."""

    def __init__(self, decoder: AudioVideoDecoder | AudioVideoSegment) -> None:
        self.video = _VideoListener(decoder.video)
        self.audio = _AudioListener(decoder.audio)

    def get_played_in_range(self, start_seconds: float | None = None, *others: Any, **options: Any) -> Never:
        raise _FirstRequest(start_seconds or 0.0)

    def get_played_in_ranges(self, ranges: Sequence[tuple[float | None, float | None]], fps: Any = None) -> Never:
        raise _FirstRequest(min(start or 0.0 for start, _ in ranges))


def first_request(decoder: AnyDecoder, sampler: Callable[[Any], Any]) -> float:
    """The index or time of the first frame or sample that a sampler requests; 0 if that cannot be told.

    Samplers make one request for everything, so they need not run to the end. A user's own function may use its decoder
    in other ways; then the rows are read in any order.
    """
    try:
        sampler(_listener(decoder))
    except _FirstRequest as request:
        return request.position
    except (AttributeError, TypeError, MediaTensorError):
        return 0
    return 0


def _listener(decoder: AnyDecoder) -> Any:
    if isinstance(decoder, VideoDecoder | VideoSegment):
        return _VideoListener(decoder)
    if isinstance(decoder, AudioDecoder | AudioSegment):
        return _AudioListener(decoder)
    return _AudioVideoListener(decoder)
