"""Cache decoded frames, with one memory limit for the whole process.

Frames are cached in the codec's own format. That takes half the memory of RGB, and storing a frame needs no copy. Each
handle has its own cache, so that two threads never convert the same frame. All caches share the limit. When they reach
it, frames of the least recently used handle are dropped first.
"""

from __future__ import annotations

import os
import weakref
from collections import OrderedDict
from typing import Any

from ...errors import InvalidArgumentError
from ..common.checks import whole_number
from ..common.locks import ForkSafeLock
from ..pyav.pixels import is_frame

ENVIRONMENT_VARIABLE = "MEDIATENSOR_FRAME_CACHE_BYTES"

# About forty 1080p frames of 8 bits.
_DEFAULT_BYTES = 1 << 27


def get_frame_cache_bytes() -> int:
    """Return the size limit in bytes of the cache of decoded frames, which all decoders of this process share.

    Cached frames need no decoding when you request the same frames again, step backwards or read overlapping clips. Set
    the limit with `set_frame_cache_bytes` or the environment variable ``MEDIATENSOR_FRAME_CACHE_BYTES``; the default is
    128 MiB. When a frame is dropped from the cache, its memory is not freed: the codec reuses it until the decoder is
    closed.

    Raises:
        InvalidArgumentError: if the environment variable is not a whole number.

    Example:
        >>> from mediatensor import get_frame_cache_bytes, set_frame_cache_bytes
        >>> set_frame_cache_bytes(1 << 26)
        >>> get_frame_cache_bytes()
        67108864
        >>> set_frame_cache_bytes(None)
    """
    if _cache.limit is not None:
        return _cache.limit
    text = os.environ.get(ENVIRONMENT_VARIABLE)
    if text is None:
        return _DEFAULT_BYTES
    if not text.isdecimal():
        raise InvalidArgumentError(
            f"The environment variable {ENVIRONMENT_VARIABLE} must be a number of bytes, 0 for no cache (got {text!r})."
        )
    return int(text)


def set_frame_cache_bytes(num_bytes: int | None) -> None:
    """Set the size limit of the cache of decoded frames, which all decoders of this process share.

    Args:
        num_bytes: The limit in bytes. 0 turns the cache off. ``None`` restores the default: the value of the
            environment variable ``MEDIATENSOR_FRAME_CACHE_BYTES``, or 128 MiB. For comparison, a 1080p frame of 8 bits
            takes 3.1 MB.

    Raises:
        InvalidArgumentError: if the number is negative or not whole.

    Example:
        >>> from mediatensor import get_frame_cache_bytes, set_frame_cache_bytes
        >>> set_frame_cache_bytes(0)
        >>> get_frame_cache_bytes()
        0
        >>> set_frame_cache_bytes(None)
    """
    _cache.limit = None if num_bytes is None else whole_number("num_bytes", num_bytes, at_least=0, or_none=True)
    _cache.shrink(get_frame_cache_bytes())


def kept_bytes() -> int:
    """Return the number of bytes that all frame caches of this process hold now."""
    return _cache.num_bytes


class FrameCache:
    """The decoded frames that one handle keeps, by frame number."""

    def __init__(self) -> None:
        self._pictures: OrderedDict[int, tuple[Any, int]] = OrderedDict()
        #: The frame index that numbers the kept frames.
        self.index: object = None
        self._key, self._reference = id(self), weakref.ref(self)
        self._kind: tuple[int, int, str] | None = None
        #: Size in bytes of the last frame; ``None`` before the first frame.
        self.bytes_per_picture: int | None = None

    def use(self, index: object) -> None:
        """Drop the frames that were cached with another index: ``index`` numbers frames in another way."""
        if index is not self.index:
            self.clear()
            self.index = index

    def get(self, frame: int) -> Any | None:
        with _cache.lock:
            if frame not in self._pictures:
                return None
            self._pictures.move_to_end(frame)
            return self._pictures[frame][0]

    def put(self, frame: int, picture: Any) -> None:
        if not is_frame(picture):  # a backend's own type; if its size is unknown, assume RGB
            self.bytes_per_picture = int(getattr(picture, "num_bytes", picture.width * picture.height * 3))
        else:
            kind = (picture.width, picture.height, picture.format.name)
            if kind != self._kind or self.bytes_per_picture is None:
                self._kind = kind
                self.bytes_per_picture = sum([plane.buffer_size for plane in picture.planes])
        size, limit = self.bytes_per_picture, get_frame_cache_bytes()
        with _cache.lock:
            if frame not in self._pictures and size <= limit:
                self._pictures[frame] = picture, size
                _cache.num_bytes += size
                _cache.owners[self._key] = self._reference
                _cache.owners.move_to_end(self._key)
                if _cache.num_bytes > limit:
                    _cache.shrink(limit)

    def keep_only(self, frame: int, picture: Any) -> None:
        """Keep ``picture`` under the number ``frame``, and drop all other frames."""
        with _cache.lock:
            pictures = self._pictures
            if len(pictures) == 1 and self._kind == (picture.width, picture.height, picture.format.name):
                _, (_, size) = pictures.popitem()  # the total stays
                pictures[frame] = picture, size
            else:
                self.clear()
                self.put(frame, picture)

    def capacity(self) -> int:
        """Return how many frames of the size of the last cached frame fit into the memory limit."""
        return get_frame_cache_bytes() // self.bytes_per_picture if self.bytes_per_picture else 0

    def can_hold(self, num_pictures: int, num_pixels: int) -> bool:
        """Return whether ``num_pictures`` frames of ``num_pixels`` pixels fit into the memory limit.

        The frames are assumed to be as large as the last cached frame or, if there is none, to be 8-bit 4:2:0.
        """
        size = self.bytes_per_picture or num_pixels * 3 // 2
        return num_pictures * size <= get_frame_cache_bytes()

    def clear(self) -> None:
        with _cache.lock:
            while self._pictures:
                _cache.num_bytes -= self._pictures.popitem()[1][1]

    def close(self) -> None:
        """Drop all frames, and remove this cache from the list of caches that share the memory limit."""
        self.clear()
        with _cache.lock:
            _cache.owners.pop(self._key, None)

    def drop_oldest(self) -> None:
        _, (_, size) = self._pictures.popitem(last=False)
        _cache.num_bytes -= size

    def __bool__(self) -> bool:
        return bool(self._pictures)


class _Cache:
    """The record of all frame caches of the process, which share one memory limit."""

    def __init__(self) -> None:
        self.lock = ForkSafeLock()
        self.limit: int | None = None
        self.num_bytes = 0
        self.owners: OrderedDict[int, weakref.ref[FrameCache]] = OrderedDict()

    def shrink(self, limit: int) -> None:
        """Drop frames until the rest fits into ``limit``: first the oldest ones of the least recently used handle."""
        with self.lock:
            while self.num_bytes > limit and self.owners:
                key, reference = next(iter(self.owners.items()))
                owner = reference()
                if owner:
                    owner.drop_oldest()
                else:
                    del self.owners[key]

    def start_empty(self) -> None:
        """Start with an empty record in a forked child, which never uses its parent's handles."""
        self.num_bytes = 0
        self.owners = OrderedDict()


_cache = _Cache()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_cache.start_empty)
