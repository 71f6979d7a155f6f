"""Handles. A handle has the reader, codec, converter, threads and cached frames that one call uses to decode a video.

Frames are cached in the codec's own format. That takes half the memory of RGB, and storing a frame needs no copy. Each
handle has its own cache, so that two threads never convert the same frame. All caches share one memory limit for the
whole process. When they reach it, frames of the least recently used handle are dropped first.
"""

from __future__ import annotations

import os
import weakref
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from ...backends import (
    DecodeBackend,
    PictureConverter,
    PictureDecoder,
    StreamParameters,
    ToneMapping,
    ToneMappingConverter,
    get_backend,
    open_guarded,
    why_not_guarded,
)
from ...errors import InvalidArgumentError, MediaTensorError
from ..common import stages
from ..common.checks import whole_number
from ..common.handle_pool import reclaim_threads
from ..common.locks import ForkSafeLock
from ..common.pictures import PixelStep
from ..common.threads import ThreadLease, get_num_threads, lease_threads
from ..pyav.exports import ExportKind, export_converter
from ..pyav.opening import StreamInfo
from ..pyav.pixels import LumaConverter, is_frame
from ..pyav.reading import PacketDecoder, VideoReader
from ..pyav.stated_colours import open_frame_colours
from ..sources.source import Source
from .frame_stream import ApproximateStream, FrameStream


@dataclass(slots=True)
class Worker:
    """The objects that one thread needs to decode: a stream with its codec, and a converter with its scratch memory."""

    stream: FrameStream
    converter: PictureConverter


class Handle:
    """The objects that one call uses to decode. Later calls use them again.

    A handle has a stream, a converter, threads and a frame cache. ``stream`` must be at the beginning: its reader must
    not have read any packet. ``open_stream`` opens the source again with one codec thread. It is ``None`` if the user
    chose the number of codec threads.
    """

    def __init__(
        self,
        stream: FrameStream | ApproximateStream,
        make_converter: Callable[[], PictureConverter],
        open_stream: Callable[[], FrameStream] | None = None,
    ) -> None:
        self.stream = stream
        self.converter = make_converter()
        if isinstance(stream, FrameStream):
            #: The handle's own stream and converter. Approximate mode has no worker.
            self.worker = Worker(stream, self.converter)
        self.frame_cache = FrameCache()
        self.lease = ThreadLease(1)
        self.idle_since = 0.0
        self.keeps_interrupts = stream.reader.byte_reader is not None
        #: Whether the library chooses the number of threads; false if the user does.
        self.chooses_threads = open_stream is not None
        #: The frame that the last call requested; ``None`` if it requested several.
        self.last_single: int | None = None
        self._make_converter = make_converter
        self._open_stream = open_stream
        self._more_workers: list[Worker] = []

    def num_threads(self) -> int:
        """Return how many threads this handle has. If it has only one, try to get more from the process's budget."""
        if self.lease.num_threads == 1 and get_num_threads() > 1:
            self.lease = lease_threads(reclaim_threads)
        return self.lease.num_threads

    def workers(self, count: int) -> list[Worker]:
        """Return up to ``count`` workers with one thread each. The first one uses the handle's own stream."""
        first = self.worker
        assert self._open_stream is not None
        first.stream.use_threads(1)
        with stages.OPEN, suppress(MediaTensorError):  # use fewer workers, for example if too many files are open
            while len(self._more_workers) < count - 1:
                self._more_workers.append(Worker(self._open_stream(), self._make_converter()))
        return [first, *self._more_workers[: count - 1]]

    @property
    def num_open_workers(self) -> int:
        return 1 + len(self._more_workers)

    def convert_with(self, make_converter: Callable[[], PictureConverter]) -> None:
        self._make_converter, self.converter = make_converter, make_converter()
        if isinstance(self.stream, FrameStream):
            self.worker = Worker(self.stream, self.converter)
        for worker in self._more_workers:
            worker.converter = make_converter()

    def change_spec(self, spec: HandleSpec) -> None:
        """Decode and convert as ``spec`` describes from now on, for handles with one worker."""
        self.convert_with(spec.converter)
        self.stream.reset()
        self.stream.reader.decode_with(spec.open_decoder)
        if self._open_stream is not None:
            self._open_stream = spec.open_stream

    def close(self) -> None:
        self.frame_cache.close()
        for worker in self._more_workers:
            worker.stream.reader.close()
        self.stream.reader.close()
        self.lease.release()


@dataclass(frozen=True)
class HandleSpec:
    """The arguments for opening a `Handle`. They can be pickled."""

    source: Source
    stream_index: int | None
    num_ffmpeg_threads: int | None
    is_approximate: bool
    device: torch.device
    backend: str
    is_float: bool = False
    steps: tuple[PixelStep, ...] = ()
    #: Number of bits of the stored luma to return; ``None`` for RGB.
    luma_bits: int | None = None
    #: How to map HDR frames to SDR; ``None`` to leave them as they are.
    tone_mapping: ToneMapping | None = None
    #: What to return about the blocks of frames; ``None`` for pixels.
    exports: ExportKind | None = None

    @property
    def decodes_in_software(self) -> bool:
        """Whether FFmpeg's own decoders are used. Only they report damage, and their frames can be compared exactly."""
        return self.backend == "cpu"

    def open(self) -> Handle:
        # Start with one thread. A call takes more threads if some are free.
        num_threads = 1 if self.num_ffmpeg_threads is None else self.num_ffmpeg_threads
        reader = self._open_reader(num_threads)
        chooses_threads = self.num_ffmpeg_threads is None and self.decodes_in_software
        open_stream = self.open_stream if chooses_threads else None
        if self.is_approximate:
            return Handle(ApproximateStream(reader), self.converter, open_stream)
        stream = FrameStream(reader, num_threads, decodes_in_software=self.decodes_in_software)
        return Handle(stream, self.converter, open_stream)

    def open_stream(self) -> FrameStream:
        return FrameStream(self._open_reader(1), 1)

    def _open_reader(self, num_threads: int) -> VideoReader:
        # In exact mode, a rejected packet is an error, and the index is then made by decoding.
        is_strict = not self.is_approximate
        return VideoReader(
            self.source,
            self.stream_index,
            num_threads,
            is_strict=is_strict,
            open_decoder=self.open_decoder,
            exports=self.exports,
        )

    def open_decoder(self, reader: VideoReader) -> PictureDecoder:
        """Open the decoder of a reader. In software, it tags frames with the colours that they state."""
        backend, parameters = get_backend(self.backend), stream_parameters(reader.stream_info(), reader.codec_context)
        if not self.decodes_in_software:
            return open_guarded(backend, parameters, self.device)
        decoder = backend.open(parameters, self.device)
        assert isinstance(decoder, PacketDecoder)
        context, maps_tones = reader.codec_context, self.tone_mapping is not None
        decoder.tags = open_frame_colours(
            parameters.codec, context, reader.source, reader.stream_index, states_peak=maps_tones
        )
        return decoder

    def converter(self) -> PictureConverter:
        if self.exports is not None:
            return export_converter(self.exports)
        if self.luma_bits is not None:
            return LumaConverter(self.steps, self.luma_bits)
        make_converter = get_backend(self.backend).converter
        plain = make_converter(self.device, self.steps, is_float=self.is_float)
        if self.tone_mapping is None:
            return plain
        make_exact = partial(make_converter, self.device, (), is_float=True)
        return ToneMappingConverter(
            plain, make_exact, self.tone_mapping, self.device, self.steps, is_float=self.is_float
        )


def stream_parameters(info: StreamInfo, codec_context: Any) -> StreamParameters:
    return StreamParameters(
        codec=info.codec or "unknown",
        profile=info.profile,
        width=info.width or 0,
        height=info.height or 0,
        pixel_format=info.pixel_format,
        bits_per_component=info.bits_per_component,
        extradata=bytes(codec_context.extradata or b""),
        codec_context=codec_context,
    )


def why_not(backend: DecodeBackend, stream: StreamParameters, device: torch.device, on_error: str) -> str | None:
    """Return the reason why a backend cannot decode a stream or must not be used; ``None`` if no reason is known."""
    if backend.name == "cpu":
        return None
    if on_error != "keep":
        return f"on_error={on_error!r} needs a codec that reports damaged frames, as the CPU's do"
    return why_not_guarded(backend, stream, device)


# The frame cache

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
    if _budget.limit is not None:
        return _budget.limit
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
    _budget.limit = None if num_bytes is None else whole_number("num_bytes", num_bytes, at_least=0, or_none=True)
    _budget.shrink(get_frame_cache_bytes())


def kept_bytes() -> int:
    """Return the number of bytes that all frame caches of this process hold now."""
    return _budget.num_bytes


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

    def number_by(self, index: object) -> None:
        """Number frames as ``index`` does. Drop the frames that were cached with another index."""
        if index is not self.index:
            self.clear()
            self.index = index

    def get(self, frame: int) -> Any | None:
        with _budget.lock:
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
        with _budget.lock:
            if frame not in self._pictures and size <= limit:
                self._pictures[frame] = picture, size
                _budget.num_bytes += size
                _budget.owners[self._key] = self._reference
                _budget.owners.move_to_end(self._key)
                if _budget.num_bytes > limit:
                    _budget.shrink(limit)

    def keep_only(self, frame: int, picture: Any) -> None:
        """Keep ``picture`` under the number ``frame``, and drop all other frames."""
        with _budget.lock:
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
        with _budget.lock:
            while self._pictures:
                _budget.num_bytes -= self._pictures.popitem()[1][1]

    def close(self) -> None:
        """Drop all frames, and remove this cache from those that share the memory limit."""
        self.clear()
        with _budget.lock:
            _budget.owners.pop(self._key, None)

    def drop_oldest(self) -> None:
        _, (_, size) = self._pictures.popitem(last=False)
        _budget.num_bytes -= size

    def __bool__(self) -> bool:
        return bool(self._pictures)


class _CacheBudget:
    """The memory limit that all frame caches of the process share, and how much of it they use."""

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
        """Start with no caches in a forked child, which never uses its parent's handles."""
        self.num_bytes = 0
        self.owners = OrderedDict()


_budget = _CacheBudget()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_budget.start_empty)
