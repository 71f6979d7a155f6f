"""Decode on NVIDIA GPUs with FFmpeg's NVDEC decoders, which PyAV provides. torch uses the pictures without a copy."""

from __future__ import annotations

import atexit
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import torch

from .._engine.common.checks import whole_number
from .._engine.common.locks import ForkSafeLock
from .._engine.common.pictures import Surface
from .._engine.pyav.pixels import CUDA_DECODE_ERRORS, create_cuda_context, cuda_surface_of, why_no_nvcuvid
from ..errors import DeviceError, InvalidArgumentError
from ._interface import DecodeBackend, Picture, PictureDecoder, StreamParameters

DecoderT = TypeVar("DecoderT")


class DecoderCache(Generic[DecoderT]):
    """Keeps idle decoders, so that they can be used for other streams. Decoders of the same kind are interchangeable.

    If a device has more than ``capacity`` idle decoders, the least recently used ones are freed.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = ForkSafeLock()
        self._idle: OrderedDict[int, tuple[Hashable, Hashable, DecoderT]] = OrderedDict()
        self._num_put = 0
        self._of_the_parent: list[object] = []

    @property
    def capacity(self) -> int:
        return self._capacity

    @capacity.setter
    def capacity(self, capacity: int) -> None:
        with self._lock:
            self._capacity = capacity
            for device in {device for device, _, _ in list(self._idle.values())}:
                self._shrink(device)

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, device: Hashable, kind: Hashable) -> DecoderT | None:
        """Remove and return the most recently used decoder of this device and kind; ``None`` if there is none."""
        with self._lock:
            # Iterate over a copy, because garbage collection may close a decoder, which puts its context here.
            for number, (its_device, its_kind, decoder) in reversed(list(self._idle.items())):
                if (its_device, its_kind) == (device, kind):
                    del self._idle[number]
                    return decoder
        return None

    def put(self, device: Hashable, kind: Hashable, decoder: DecoderT) -> None:
        """Store a decoder that can decode another stream of its kind. The caller must not keep a reference."""
        with self._lock:
            self._num_put += 1
            self._idle[self._num_put] = device, kind, decoder
            self._shrink(device)

    def _shrink(self, device: Hashable) -> None:
        numbers = [number for number, (its_device, _, _) in list(self._idle.items()) if its_device == device]
        for number in numbers[: max(0, len(numbers) - self._capacity)]:
            self._idle.pop(number, None)

    def clear(self) -> None:
        with self._lock:
            self._idle = OrderedDict()

    def forget(self) -> None:
        """Drop the decoders without freeing them. In a forked child, a device must not be used, even to free memory."""
        self._of_the_parent.append(self._idle)
        self._idle = OrderedDict()


@contextmanager
def reading_surface(device: torch.device, cuda: Any) -> Iterator[None]:
    """Make it safe to read a picture of FFmpeg's CUDA decoder in the current CUDA stream, during a ``with`` block.

    The two CUDA streams wait for each other where the vertical lines of this drawing connect them::

        default stream   ─ decode, copy to a picture ─┐            ┌─ the picture's memory is used again ─►
        current stream                                └─ convert ──┘

    FFmpeg uses the legacy default stream, which is also torch's default stream. Another current stream must first wait
    until the default stream has decoded the picture. FFmpeg reuses the memory of dropped pictures, so the default
    stream must then wait until the current stream has read the picture. ``record_stream`` would not help, because
    torch's allocator does not own this memory. ``cuda`` is ``torch.cuda``, or a replacement in tests.
    """
    current, default = cuda.current_stream(device), cuda.default_stream(device)
    if current == default:
        yield
        return
    current.wait_stream(default)
    try:
        yield
    finally:
        default.wait_stream(current)


# Only some generations of NVDEC decode these codecs. The first picture shows whether this GPU does.
_CODECS = frozenset(("av1", "h264", "hevc", "mjpeg", "mpeg1video", "mpeg2video", "mpeg4", "vc1", "vp8", "vp9", "wmv3"))

# PyAV can export only 4:2:0 pictures from NVDEC.
_LAYOUTS = frozenset(("yuv420p", "yuvj420p", "nv12", "yuv420p10le", "yuv420p12le", "p010le", "p012le", "p016le"))

# Key frames of these codecs are self-contained. Contexts of other codecs are only reused if their parameter sets are
# known, because otherwise they would use the parameter sets of the previous stream.
_CODECS_WITHOUT_PARAMETER_SETS = frozenset(("mjpeg", "vp8", "vp9"))

# The default of torchcodec.
_DEFAULT_CAPACITY = 20

_cache: DecoderCache[Any] = DecoderCache(_DEFAULT_CAPACITY)
# Free decoders at exit. Later, the device's library may be unloaded before them.
atexit.register(_cache.clear)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_cache.forget)


def set_nvdec_cache_capacity(capacity: int) -> None:
    """Set how many idle NVDEC decoders this process keeps for each GPU, so that later streams can use them.

    Reusing a decoder saves tens of milliseconds. A decoder can be reused if the new stream has the same codec, size,
    pixel format and parameter sets. Each idle decoder holds GPU memory for about ten frames.

    Args:
        capacity: Largest number of idle decoders for each GPU (default 20). If there are more, the least recently used
            ones are freed.

    Raises:
        InvalidArgumentError: if the number is negative or not whole.

    Example:
        >>> from mediatensor.decoders import get_nvdec_cache_capacity, set_nvdec_cache_capacity
        >>> set_nvdec_cache_capacity(4)
        >>> get_nvdec_cache_capacity()
        4
        >>> set_nvdec_cache_capacity(20)
    """
    try:
        _cache.capacity = whole_number("capacity", capacity, at_least=0)
    except InvalidArgumentError:
        raise InvalidArgumentError(f"NVDEC cache capacity must be non-negative, got {capacity!r}.") from None


def get_nvdec_cache_capacity() -> int:
    """Return the largest number of idle NVDEC decoders kept for each GPU, as set by `set_nvdec_cache_capacity`.

    Example:
        >>> from mediatensor.decoders import get_nvdec_cache_capacity
        >>> get_nvdec_cache_capacity() >= 0
        True
    """
    return _cache.capacity


class CudaBackend(DecodeBackend):
    """The backend that decodes with NVDEC on NVIDIA GPUs.

    NVDEC conceals damage within a picture and does not report it. To detect damage, decode on the CPU. Only tests pass
    arguments to the constructor.
    """

    name = "cuda"
    device_types: ClassVar[tuple[str, ...]] = ("cuda",)

    def __init__(
        self,
        cuda: Any = torch.cuda,
        create_context: Callable[[str, bytes, tuple[int, int], int], Any] = create_cuda_context,
        why_unavailable: Callable[[], str | None] = why_no_nvcuvid,
        cache: DecoderCache[Any] = _cache,
    ) -> None:
        self._cuda = cuda
        self._create_context = create_context
        self._why_unavailable = why_unavailable
        self._cache = cache

    def why_not(self, stream: StreamParameters, device: torch.device) -> str | None:
        if device.type != "cuda":
            return f"NVDEC outputs pictures on a CUDA device, not on {str(device)!r}"
        if (reason := self._why_unavailable()) is not None:
            return f"NVcuvid unavailable: {reason}"
        if (reason := _why_unsupported(stream)) is not None:
            return f"Video not supported: {reason}"
        return None

    def open(self, stream: StreamParameters, device: torch.device) -> PictureDecoder:
        kind = (stream.codec, stream.width, stream.height, stream.pixel_format, stream.extradata)
        context = self._cache.take(device.index, kind)
        if context is None:
            try:
                with self._cuda.device(device):
                    self._cuda.current_stream(device).query()  # makes the device's context current in this thread
                    size = stream.height, stream.width
                    context = self._create_context(stream.codec, stream.extradata, size, device.index)
            except CUDA_DECODE_ERRORS as error:
                raise DeviceError(f"NVDEC cannot be opened for {stream.codec}: {error}.") from error
        can_be_reused = bool(stream.extradata) or stream.codec in _CODECS_WITHOUT_PARAMETER_SETS
        give_back = partial(self._cache.put, device.index, kind) if can_be_reused else None
        return _CudaDecoder(context, stream, give_back)

    def surface(self, picture: Any, device: torch.device) -> Surface:
        try:
            return cuda_surface_of(picture, partial(reading_surface, device, self._cuda))
        except ValueError as error:
            raise DeviceError(f"Video not supported: {error}.") from error


class _CudaDecoder(PictureDecoder):
    """A decoder with an FFmpeg codec context for NVDEC, which ``give_back`` gets for reuse when it is closed."""

    def __init__(self, context: Any, stream: StreamParameters, give_back: Callable[[Any], object] | None) -> None:
        self._context = context
        self._stream = stream
        self._give_back = give_back
        self._has_failed = False

    def decode(self, packet: Any | None) -> Sequence[Picture]:
        try:
            pictures = self._context.decode(packet)
        except EOFError:
            return []
        except CUDA_DECODE_ERRORS as error:
            raise self._failure(f"NVDEC rejected a packet of {self._stream.codec}: {error}.") from error
        except BaseException:  # for example an interrupt, which leaves the codec in an unknown state
            self._has_failed = True
            raise
        stream = self._stream
        for picture in pictures:
            if picture.format.name != "cuda":  # decoded in software
                raise self._failure(
                    f"Video not supported: NVDEC cannot decode this {stream.codec} stream (profile {stream.profile}, "
                    f"{stream.pixel_format}, {stream.width}x{stream.height})."
                )
            if (picture.width, picture.height) != (stream.width, stream.height):
                raise self._failure(
                    f"Video not supported: a picture of {picture.width}x{picture.height} (width x height) in a stream "
                    f"of {stream.width}x{stream.height}, which is cropped at the top or left, or changes its size."
                )
        return pictures  # type: ignore[no-any-return]

    def _failure(self, message: str) -> DeviceError:
        self._has_failed = True
        return DeviceError(message)

    def flush(self) -> None:
        self._context.flush_buffers()

    def close(self) -> None:
        context, self._context = self._context, None
        if context is not None and self._give_back is not None and not self._has_failed:
            context.flush_buffers()
            self._give_back(context)


def _why_unsupported(stream: StreamParameters) -> str | None:
    """Return a reason in the header why NVDEC cannot decode a stream; ``None`` if it shows none.

    NVDEC can still reject the first frame.
    """
    if stream.codec not in _CODECS:
        return f"NVDEC has no decoder for {stream.codec}"
    if stream.pixel_format is not None and stream.pixel_format not in _LAYOUTS:
        return f"PyAV exports only 4:2:0 pictures of NVDEC, but this stream is {stream.pixel_format}"
    if stream.codec == "h264" and (stream.bits_per_component or 8) > 8:
        return f"NVDEC decodes H.264 with 8 bits only, but this stream has {stream.bits_per_component}"
    if stream.width % 2 or stream.height % 2:
        return f"PyAV drops the last chroma samples of pictures with an odd size ({stream.width}x{stream.height})"
    return None
