"""One video stream, opened: its handles, its header, the size of its frames, and what the user wants of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._locks import ForkSafeLock
from .._pyav import FrameConverter, Orientation, UndecodablePacketError, VideoReader
from .._source import Source
from .._stages import stage
from ..errors import MediaTensorError
from ..frames import FrameBatch, ReplacedFrame
from ..transforms._steps import PixelStep, output_size
from ._approximate_stream import ApproximateStream
from ._call import ErrorPolicy
from ._frame_stream import FrameStream
from ._handle_pool import HandlePool
from ._handles import Handle
from ._pixel_writer import PixelWriter, SizeChangePolicy

__all__ = ["HandleSpec", "OpenVideo", "Wishes"]


@dataclass(frozen=True)
class HandleSpec:
    """All that opening a handle needs; picklable."""

    source: Source
    stream_index: int | None
    num_ffmpeg_threads: int | None
    is_approximate: bool
    is_float: bool = False
    steps: tuple[PixelStep, ...] = ()

    def open(self) -> Handle:
        # One thread, until a call finds that there are more for it.
        num_threads = 1 if self.num_ffmpeg_threads is None else self.num_ffmpeg_threads
        reader = self._open_reader(num_threads)
        open_stream = self._open_stream if self.num_ffmpeg_threads is None else None
        if self.is_approximate:
            return Handle(ApproximateStream(reader), self.converter, open_stream)
        return Handle(FrameStream(reader, num_threads), self.converter, open_stream)

    def _open_stream(self) -> FrameStream:
        return FrameStream(self._open_reader(1), 1)

    def _open_reader(self, num_threads: int) -> VideoReader:
        # Exact access takes refused packets as a reason to settle the index.
        return VideoReader(self.source, self.stream_index, num_threads, is_strict=not self.is_approximate)

    def converter(self) -> FrameConverter:
        return FrameConverter(self.steps, is_float=self.is_float)


@dataclass(frozen=True)
class Wishes:
    """How batches are to come out, see `VideoDecoder`."""

    is_channels_first: bool
    on_error: ErrorPolicy
    on_size_change: SizeChangePolicy


class OpenVideo:
    """What exact and approximate access share. Pickles without its handles.

    Args:
        spec: How to open handles.
        wishes: How batches are to come out.

    Raises:
        OpenError, ReadError, StreamError: if the source or the stream cannot be opened.
    """

    def __init__(self, spec: HandleSpec, wishes: Wishes) -> None:
        self.wishes = wishes
        self._size: tuple[int, int] | None = None
        self._orientation: Orientation | None = None
        self._use(spec)
        with self.pool.borrow() as handle:
            self.container_facts = handle.stream.reader.container_facts()
            self.facts = handle.stream.reader.facts()
        self.spec = replace(spec, stream_index=self.facts.index)

    pool: HandlePool[Handle]
    spec: HandleSpec

    def _use(self, spec: HandleSpec) -> None:
        self.spec = spec
        self._lock = ForkSafeLock()
        self.pool = HandlePool(spec.open)

    def convert_with(self, steps: tuple[PixelStep, ...], *, is_float: bool) -> None:
        """Set what is done to the pixels from now on; what was decoded before is kept."""
        spec = replace(self.spec, steps=steps, is_float=is_float)
        if spec != self.spec:
            self.spec = spec
            self.pool.change(spec.open, lambda handle: handle.convert_with(spec.converter))

    @property
    def name(self) -> str:
        return self.spec.source.describe()

    @property
    def time_base(self) -> Fraction:
        return self.facts.time_base or Fraction(1, 1)

    # The first frame: only decoding shows how the picture is turned

    @property
    def rotation(self) -> float | None:
        """Counter-clockwise angle in degrees of the display matrix, if it says one."""
        self.upright_size()
        return None if self._orientation is None else self._orientation.rotation

    def upright_size(self) -> tuple[int, int]:
        """(height, width) of the first frame as shown, before transforms; from the header if no frame decodes."""
        with self._lock:
            if self._size is None:
                with stage("decode"):
                    frame = self._first_frame()
                if frame is None:
                    return self.facts.height or 0, self.facts.width or 0
                self._orientation = Orientation.of_frame(frame)
                self._size = self._orientation.size(frame.height, frame.width)
            return self._size

    def _first_frame(self) -> Any | None:
        """The first frame: of the first packet alone if it gives one, which spares decoding those after it."""
        with self.pool.borrow() as handle:
            handle.stream.reset()
            try:
                return _first_frame(handle.stream.reader, max_packets=1) or _first_frame(handle.stream.reader)
            except MediaTensorError:
                return None

    # Batches

    def output_size(self) -> tuple[int, int]:
        """(height, width) after transforms of a frame of the first frame's size."""
        return output_size(self.spec.steps, *self.upright_size())

    def pixel_writer(self, num_rows: int) -> PixelWriter:
        return PixelWriter(num_rows, self.output_size() if self.wishes.on_size_change == "scale" else None)

    def batch(
        self,
        pixels: NDArray[Any] | None,
        pts_seconds: Tensor,
        duration_seconds: Tensor,
        replaced: tuple[ReplacedFrame, ...] = (),
    ) -> FrameBatch:
        """(N, H, W, 3) pixels as a batch in the user's layout; ``None`` stands for no frame at all."""
        if pixels is None:
            pixels = np.empty((0, *self.output_size(), 3), np.float32 if self.spec.is_float else np.uint8)
        data = torch.from_numpy(pixels)
        if self.wishes.is_channels_first:
            data = data.permute(0, 3, 1, 2)
        return FrameBatch(data, pts_seconds, duration_seconds, replaced=replaced)

    def __getstate__(self) -> dict[str, Any]:
        # Handles and locks belong to a process.
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "pool")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._use(self.spec)


def _first_frame(reader: VideoReader, max_packets: int | None = None) -> Any | None:
    """The first frame that comes of the first packets, of all by default."""
    if not reader.is_fresh:
        reader.reopen()
    for _ in itertools.count() if max_packets is None else range(max_packets):
        packet = reader.read_packet()
        if packet is None:
            break
        if frames := _decoded(reader, packet):
            return frames[0]
    frames = _decoded(reader, None)
    return frames[0] if frames else None


def _decoded(reader: VideoReader, packet: Any | None) -> list[Any]:
    try:
        return reader.decode(packet)
    except UndecodablePacketError:
        return []
