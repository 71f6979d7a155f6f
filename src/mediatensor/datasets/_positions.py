"""Where in a video a sampler is going to read, without decoding anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Never

import numpy as np
import torch

from ..decoders import VideoDecoder
from ..errors import MediaTensorError

__all__ = ["first_wanted_frame"]


class _Wanted(Exception):
    """Carries out of a sampler what it asked its decoder for."""

    def __init__(self, frame: int) -> None:
        self.frame = frame


class _Listener:
    """A decoder that does not decode: asked for frames, it says which they are."""

    def __init__(self, decoder: VideoDecoder) -> None:
        self._decoder = decoder
        self.metadata = decoder.metadata

    def __len__(self) -> int:
        return len(self._decoder)

    def get_frames_at(self, indices: Any) -> Never:
        raise _Wanted(int(np.min(np.asarray(indices))))

    def get_frames_played_at(self, seconds: Any) -> Never:
        first = torch.as_tensor(np.min(np.asarray(seconds)), dtype=torch.float64)
        frames = self._decoder._frames_shown_at(first)
        raise _Wanted(0 if frames is None else int(frames))


def first_wanted_frame(decoder: VideoDecoder, sampler: Callable[[Any], Any]) -> int:
    """The first frame that a sampler is going to ask for; 0 if that does not show.

    Samplers ask once for all that they want, so they need not be run to the end. A function of the user's own may use
    its decoder in other ways; then the order of reading is any.
    """
    try:
        sampler(_Listener(decoder))
    except _Wanted as wanted:
        return wanted.frame
    except (AttributeError, TypeError, MediaTensorError):
        return 0
    return 0
