"""Decode backends that run the device path of the decoders without a device.

`PlaneBackend` is like third-party code: it uses only the interface of the library.
`StandInCudaBackend` is the CUDA backend itself, over a software codec whose frames claim to be on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import av
import torch
from torch import Tensor

from mediatensor.backends import (
    CudaBackend,
    DecodeBackend,
    DecoderCache,
    Picture,
    PictureDecoder,
    StreamParameters,
    Surface,
    UndecodablePacketError,
    register_backend,
    scoped_registry,
)
from mediatensor.errors import DeviceError

__all__ = ["ClumsyBackend", "PlaneBackend", "RecordingCuda", "StandInContext", "StandInCudaBackend", "registered"]


@contextmanager
def registered(backend: DecodeBackend) -> Iterator[None]:
    """A backend that is known for the time of a ``with`` block."""
    with scoped_registry():
        register_backend(backend)
        yield


@dataclass(eq=False)
class PlaneBackend(DecodeBackend):
    """Decodes with its own software codec and returns planes of nv12 or p010le on the device."""

    name = "planes"

    refusal: str | None = None  # what `why_not` says
    num_packets: int | None = None  # that a decoder takes before it fails
    fails_to_open: bool = False
    leaves_out: int | None = None  # the picture of this pts never comes out
    rejects: int | None = None  # the packet of this pts is rejected
    makes_surfaces_late: bool = False  # decoders return pictures whose surfaces are created on demand
    packets: list[int | None] = field(default_factory=list)
    num_open: int = 0
    num_opened: int = 0

    def why_not(self, stream: StreamParameters, device: torch.device) -> str | None:
        return self.refusal

    def open(self, stream: StreamParameters, device: torch.device) -> PictureDecoder:
        if self.fails_to_open:
            raise DeviceError("No engine is free.")
        self.num_open += 1
        self.num_opened += 1
        return _PlaneDecoder(self, stream, device)

    def surface(self, picture: Any, device: torch.device) -> Surface:
        return super().surface(picture.hidden if self.makes_surfaces_late else picture, device)


class ClumsyBackend(PlaneBackend):
    """Breaks its contract in one method, "why_not", "open", "decode", "flush", "close" or "surface"."""

    name = "clumsy"

    def __init__(self, place: str, does: Callable[[], Any]) -> None:
        super().__init__()
        self._place, self._does = place, does

    def why_not(self, stream: StreamParameters, device: torch.device) -> str | None:
        return self._does() if self._place == "why_not" else None  # type: ignore[no-any-return]

    def open(self, stream: StreamParameters, device: torch.device) -> PictureDecoder:
        if self._place == "open":
            return self._does()  # type: ignore[no-any-return]
        decoder = super().open(stream, device)
        if self._place in ("decode", "flush", "close"):
            setattr(decoder, self._place, lambda *_: self._does())
        return decoder

    def surface(self, picture: Any, device: torch.device) -> Surface:
        return self._does() if self._place == "surface" else super().surface(picture, device)


class _LatePicture:
    """A picture with what `Picture` asks for, and no more."""

    def __init__(self, surface: Surface) -> None:
        self.pts, self.duration = surface.pts, surface.duration
        self.width, self.height = surface.width, surface.height
        self.key_frame, self.is_corrupt = surface.key_frame, surface.is_corrupt
        self.hidden = surface


class _PlaneDecoder(PictureDecoder):
    def __init__(self, backend: PlaneBackend, stream: StreamParameters, device: torch.device) -> None:
        self._backend = backend
        self._device = device
        self._context = _software_context(stream.codec, stream.extradata, (stream.height, stream.width))
        self._num_left = backend.num_packets

    def decode(self, packet: Any | None) -> Sequence[Picture]:
        self._backend.packets.append(None if packet is None else packet.pts)
        if self._num_left is not None:
            if self._num_left == 0:
                raise DeviceError("The engine has stopped.")
            self._num_left -= 1
        if packet is not None and packet.pts == self._backend.rejects:
            raise UndecodablePacketError("bad slice header")
        frames = [frame for frame in self._context.decode(packet) if frame.pts != self._backend.leaves_out]
        surfaces = [self._surface(frame) for frame in frames]
        return [_LatePicture(surface) for surface in surfaces] if self._backend.makes_surfaces_late else surfaces

    def _surface(self, frame: Any) -> Surface:
        stored = _interleaved(frame)
        planes = tuple(torch.from_dlpack(plane.__dlpack__()).clone().to(self._device) for plane in stored.planes)
        return Surface(
            planes,
            stored.format.name,
            frame.width,
            frame.height,
            pts=frame.pts,
            duration=frame.duration,
            key_frame=bool(frame.key_frame),
            is_corrupt=frame.is_corrupt,
            matrix=int(frame.colorspace),
            color_range=int(frame.color_range),
        )

    def flush(self) -> None:
        self._context.flush_buffers()

    def close(self) -> None:
        self._backend.num_open -= 1


def _software_context(codec: str, extradata: bytes, size: tuple[int, int]) -> Any:
    context: Any = av.CodecContext.create({"av1": "libdav1d"}.get(codec, codec), "r")
    if extradata:
        context.extradata = extradata
    context.height, context.width = size
    context.thread_count = 1
    return context


def _interleaved(frame: Any) -> Any:
    """The frame as NVDEC stores it: the same samples, chroma interleaved; of 10 bits, in the high ones of 16."""
    deep = max(component.bits for component in frame.format.components) > 8
    return frame.reformat(format="p010le" if deep else "nv12")


class StandInContext:
    """A software codec that looks like PyAV's context with NVDEC; ``size`` is (height, width)."""

    def __init__(self, codec: str, extradata: bytes, size: tuple[int, int]) -> None:
        self._context = _software_context(codec, extradata, size)
        self.num_flushes = 0
        self.error: BaseException | None = None
        self.falls_back = False
        self.crops = False

    def decode(self, packet: Any | None) -> list[Any]:
        if self.error is not None:
            raise self.error
        return [_StandInFrame(frame, self) for frame in self._context.decode(packet)]

    def flush_buffers(self) -> None:
        self.num_flushes += 1
        self._context.flush_buffers()


class _StandInFrame:
    """A frame that claims to be on a GPU, with the planes that PyAV exports for NVDEC."""

    def __init__(self, frame: Any, context: StandInContext) -> None:
        self.frame = frame
        self._stored = _interleaved(frame)
        self.format = frame.format if context.falls_back else SimpleNamespace(name="cuda")
        self.width = frame.width + 2 * context.crops

    @property
    def planes(self) -> tuple[Any, ...]:
        return self._stored.planes  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.frame, name)


class RecordingCuda:
    """The part of ``torch.cuda`` that the backend uses; records which stream waits for which."""

    def __init__(self, current: str = "default") -> None:
        self.current = current  # the stream that the caller works on
        self.waits: list[tuple[str, str]] = []

    def device(self, device: torch.device) -> Any:
        return nullcontext()

    def current_stream(self, device: torch.device) -> _Stream:
        return _Stream(self.current, self)

    def default_stream(self, device: torch.device) -> _Stream:
        return _Stream("default", self)


class _Stream(NamedTuple):
    name: str
    cuda: RecordingCuda

    def query(self) -> bool:
        return True

    def wait_stream(self, other: _Stream) -> None:
        self.cuda.waits.append((self.name, other.name))


class StandInCudaBackend(CudaBackend):
    """The CUDA backend, over `StandInContext` and `RecordingCuda`; for any device."""

    name = "replacement"
    device_types = ()

    def __init__(self, capacity: int = 20, unavailable: str | None = None) -> None:
        self.recording = RecordingCuda()
        self.contexts: list[StandInContext] = []
        self.failure: BaseException | None = None
        self.cache: DecoderCache[Any] = DecoderCache(capacity)
        super().__init__(self.recording, self._make, lambda: unavailable, self.cache)

    def _make(self, codec: str, extradata: bytes, size: tuple[int, int], device_index: int) -> StandInContext:
        if self.failure is not None:
            raise self.failure
        self.contexts.append(StandInContext(codec, extradata, size))
        return self.contexts[-1]

    def why_not(self, stream: StreamParameters, device: torch.device) -> str | None:
        return super().why_not(stream, torch.device("cuda", 0))


def largest_difference(one: Tensor, other: Tensor) -> int:
    """Of two uint8 tensors of one shape, in levels."""
    assert one.shape == other.shape
    return int((one.cpu().to(torch.int16) - other.cpu().to(torch.int16)).abs().max())
