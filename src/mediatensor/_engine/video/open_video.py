"""An opened video stream: its handles, its header, the size of its frames, and the layout of its output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from ...backends import PQ, ToneCurve, ToneMapping, get_backend
from ...errors import DeviceError, MediaTensorError
from ...frames import Frame, FrameBatch, ReplacedFrame
from ..common import stages
from ..common.devices import check_process
from ..common.handle_pool import HandlePool
from ..common.locks import ForkSafeLock
from ..common.messages import warn_once
from ..common.pictures import Orientation, PixelStep
from ..index.index_file import SourceIdentity, identify
from ..index.scan import first_picture
from ..pyav.exports import ExportKind
from ..pyav.opening import FORMATS_THAT_TURN
from ..pyav.pixels import orientation_of, peak_luminance_of
from ..pyav.reading import VideoReader
from ..pyav.stated_colours import container_colours, states_colours
from ..sources.source import Source
from .batch import DecodedRows, ErrorPolicy, PixelWriter, SizeChangePolicy
from .handles import Handle, HandleSpec, stream_parameters, why_not

_HDR_TRANSFERS = {"smpte2084": "PQ, smpte2084", "arib-std-b67": "HLG, arib-std-b67"}


@dataclass(frozen=True)
class OutputOptions:
    """The layout of the output, and what to do about errors and changes of size; see `VideoDecoder`."""

    is_channels_first: bool
    on_error: ErrorPolicy
    on_size_change: SizeChangePolicy
    is_strict_device: bool = False


class OpenVideo:
    """The state of one decoder, shared by exact and approximate access. Pickling leaves out the open handles."""

    def __init__(self, spec: HandleSpec, options: OutputOptions) -> None:
        self.options = options
        self._size: tuple[int, int] | None = None
        self._orientation: Orientation | None = None
        self._peak_luminance: float | None = None
        self._fallback_reason: str | None = None
        self._has_decoded = False
        self._make_pool(spec)
        with self.pool.borrow() as handle:
            self.container_info = handle.stream.reader.container_info()
            self.stream_info = handle.stream.reader.stream_info()
            formats = set(handle.stream.reader.format_name.split(","))
            self._may_turn = not formats.isdisjoint(FORMATS_THAT_TURN)
            parameters = stream_parameters(self.stream_info, handle.stream.reader.codec_context)
        #: A description of the transfer characteristic of HDR frames that are not tone-mapped; ``None`` for all others.
        self.hdr_transfer: str | None = None
        if spec.tone_mapping is None:
            self.hdr_transfer = _HDR_TRANSFERS.get(self.stream_info.color_transfer_characteristic or "")
        self.spec = replace(spec, stream_index=self.stream_info.index)
        reason = why_not(get_backend(spec.backend), parameters, spec.device, options.on_error)
        if reason is not None:
            self.decode_on_cpu(reason)

    pool: HandlePool[Handle]
    spec: HandleSpec

    def _make_pool(self, spec: HandleSpec) -> None:
        self.spec = spec
        self._lock = ForkSafeLock()
        self.pool = HandlePool(spec.open)
        self._export_pools: dict[ExportKind, HandlePool[Handle]] = {}

    def convert_with(self, steps: tuple[PixelStep, ...], *, is_float: bool, luma_bits: int | None = None) -> None:
        """Change how frames are converted from now on. Cached frames stay valid: they are cached before conversion."""
        spec = replace(self.spec, steps=steps, is_float=is_float, luma_bits=luma_bits)
        if spec != self.spec:
            self.spec = spec
            self.pool.change(spec.open, lambda handle: handle.convert_with(spec.converter))

    def map_tones(self, curve: ToneCurve) -> None:
        """Map HDR frames to SDR from now on.

        The peak luminance of the first frame of PQ video applies to all coded sequences that state none.
        """
        info = self.stream_info
        if info.color_transfer_characteristic == PQ:
            self.upright_size()
        mapping = ToneMapping(curve, info.color_transfer_characteristic, info.color_primaries)
        if info.color_transfer_characteristic in _HDR_TRANSFERS and states_colours(info.codec):
            with suppress(MediaTensorError), self.lend_reader(is_moved=True) as reader:
                reader.rewind()
                mapping = replace(mapping, maps_untagged=container_colours(reader).has_transfer)
        if info.bits_per_component is not None:
            mapping = replace(mapping, bits=info.bits_per_component)
        if self._peak_luminance is not None:
            mapping = replace(mapping, peak=self._peak_luminance)
        self.spec = spec = replace(self.spec, tone_mapping=mapping)
        self.hdr_transfer = None
        self.pool.change(spec.open, lambda handle: handle.change_spec(spec))

    # Decoding

    @property
    def cpu_fallback(self) -> CpuFallbackStatus:
        is_known = self.spec.decodes_in_software or self._has_decoded
        return CpuFallbackStatus(is_known, self.spec.device.type, self._fallback_reason)

    def check_ready(self) -> None:
        """Raise an error if a forked process cannot use the device. Warn that HDR frames are not tone-mapped."""
        if self.spec.device.type != "cpu":
            check_process(self.spec.device)
        if self.hdr_transfer is not None:
            warn_once(
                f"{self.name} is an HDR video ({self.hdr_transfer}), and its frames are not tone-mapped: as RGB for "
                "screens they look gray. (VideoDecoder converts them to SDR with tone_mapping='bt2390'; "
                "metadata.color_transfer_characteristic identifies such files; the ffmpeg program converts them with "
                "its filters zscale and tonemap.)",
                subject=f"HDR {self.hdr_transfer}",
            )

    def decode_on_cpu(self, reason: str) -> None:
        """Decode on the CPU from now on, and copy the frames to the device; with ``strict_device``, raise an error."""
        reason = reason.rstrip(".") or f"the backend {self.spec.backend!r} gives no reason"
        with self._lock:
            if self.spec.decodes_in_software:
                return  # another thread may have called this already
            if self.options.is_strict_device:
                raise DeviceError(
                    f"{self.name} cannot be decoded on {str(self.spec.device)!r}: {reason}. Without strict_device=True "
                    "it is decoded on the CPU and converted on the device."
                )
            self._fallback_reason = reason
            self.spec = replace(self.spec, backend="cpu")
            self.pool.replace(self.spec.open)
        warn_of_fallback(self.cpu_fallback)

    def export_pool(self, kind: ExportKind) -> HandlePool[Handle]:
        """Return the handles whose codecs export data about blocks; see `ExportKind`. They decode on the CPU.

        The first call makes them, so that decoding is not slower if nobody requests such data. Raises `ClosedError` if
        the decoder is closed.
        """
        with self.lend_reader(is_moved=False), self._lock:
            if kind not in self._export_pools:
                spec = replace(
                    self.spec, exports=kind, steps=(), luma_bits=None, backend="cpu", device=torch.device("cpu")
                )
                self._export_pools[kind] = HandlePool(spec.open)
            return self._export_pools[kind]

    def replace_handles(self) -> None:
        self.pool.replace(self.spec.open)
        for pool in self._export_pools.values():
            pool.close()
        self._export_pools = {}

    def close(self) -> None:
        for pool in (self.pool, *self._export_pools.values()):
            pool.close()

    @property
    def source(self) -> Source:
        return self.spec.source

    @property
    def name(self) -> str:
        return self.source.describe()

    @contextmanager
    def lend_reader(self, *, is_moved: bool) -> Iterator[VideoReader]:
        """Lend a handle's reader for a ``with`` block. ``is_moved`` means that the block reads packets or seeks."""
        with self.pool.borrow() as handle:
            self.source.check_unchanged()
            if is_moved:
                handle.stream.reset()
            yield handle.stream.reader

    def identify(self) -> SourceIdentity:
        return identify(self.source, self.container_info, self.stream_info, lambda: self.lend_reader(is_moved=False))

    @property
    def time_base(self) -> Fraction:
        return self.stream_info.time_base or Fraction(1, 1)

    # Properties of the first frame. Its orientation is known only after decoding it

    @property
    def rotation(self) -> float | None:
        """The counter-clockwise rotation in degrees that the display matrix states; ``None`` if there is no matrix."""
        self.upright_size()
        return None if self._orientation is None else self._orientation.rotation

    def _stated_orientation(self) -> Orientation | None:
        """Return the orientation that the container states, for backends whose frames do not state it.

        If needed, decode a frame in software, because FFmpeg's decoders attach the orientation to decoded frames.
        """
        if not self._may_turn:
            return None
        self.upright_size()
        return self._orientation

    def upright_size(self) -> tuple[int, int]:
        """Return the (height, width) of the first frame, upright and before transforms.

        If the first frame cannot be decoded, return the size in the header.
        """
        with self._lock:
            if self._size is None:
                with stages.DECODE:
                    self._look_at_first_frame()
        return self._size or (self.stream_info.height or 0, self.stream_info.width or 0)

    def _look_at_first_frame(self) -> None:
        is_borrowed = False
        try:
            with self.pool.borrow() as handle, ExitStack() as stack:
                is_borrowed = True
                handle.stream.reset()
                reader = handle.stream.reader
                if not self.spec.decodes_in_software:
                    reader = VideoReader(self.spec.source, self.spec.stream_index, num_threads=1)
                    stack.callback(reader.close)
                picture = first_picture(reader)
        except MediaTensorError:  # the pool has closed the handle
            if is_borrowed:
                return
            raise
        if picture is not None:
            self._orientation = orientation_of(picture)
            self._size = self._orientation.size(picture.height, picture.width)
            if self.stream_info.color_transfer_characteristic == PQ:
                self._peak_luminance = peak_luminance_of(picture)

    # Batches

    def output_size(self) -> tuple[int, int]:
        """Return the (height, width) of the first frame after transforms."""
        if not self.spec.steps:
            return self.upright_size()
        last = self.spec.steps[-1]
        return last.height, last.width

    def pixel_writer(self, num_rows: int) -> PixelWriter:
        size = self.output_size() if self.options.on_size_change == "scale" else None
        return PixelWriter(num_rows, size, None if self.spec.decodes_in_software else self._stated_orientation())

    def batch(self, decoded: DecodedRows, pts_seconds: Tensor, duration_seconds: Tensor) -> FrameBatch:
        pixels = decoded.pixels
        if pixels is None:
            pixels = self.spec.converter().empty(0, *self.output_size())
        else:
            self._has_decoded = True
        data = pixels if isinstance(pixels, Tensor) else torch.from_numpy(pixels)
        if self.options.is_channels_first:
            data = data.permute(0, 3, 1, 2)
        if not decoded.damaged:
            return FrameBatch(data, pts_seconds, duration_seconds, replaced=decoded.replaced)
        is_damaged = torch.tensor([frame in decoded.damaged for frame in decoded.frames], device="cpu")
        return FrameBatch(data, pts_seconds, duration_seconds, replaced=decoded.replaced, is_damaged=is_damaged)

    def frame(
        self,
        pixels: NDArray[Any] | Tensor,
        pts_seconds: float,
        duration_seconds: float,
        replaced: tuple[ReplacedFrame, ...] = (),
        *,
        is_damaged: bool = False,
    ) -> Frame:
        """Make the `Frame` for decoded pixels (H, W, 3), in the layout that the user chose."""
        self._has_decoded = True
        if isinstance(pixels, Tensor):
            data = pixels.permute(2, 0, 1) if self.options.is_channels_first else pixels
        else:  # NumPy permutes in a tenth of the time
            data = torch.from_numpy(pixels.transpose(2, 0, 1) if self.options.is_channels_first else pixels)
        return Frame(data, pts_seconds, duration_seconds, replaced=replaced, is_damaged=is_damaged)

    def __getstate__(self) -> dict[str, Any]:
        # Handles and locks belong to one process.
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "pool", "_export_pools")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_pool(self.spec)


@dataclass(frozen=True)
class CpuFallbackStatus:
    """Status of the CPU fallback: ``bool(status)`` is true if the CPU decodes although another device was requested.

    Attributes:
        status_known: Whether the status is final. It is always final after the first frame has been decoded.
        device_type: Type of the torch device that holds the output frames, such as ``"cuda"``.
        reason: Why the decoder has fallen back to the CPU; ``None`` if it has not.

    Example:
        >>> from mediatensor.decoders import CpuFallbackStatus
        >>> status = CpuFallbackStatus(status_known=True)
        >>> bool(status), str(status)
        (False, '[CPU] Fallback status: No fallback required')
        >>> str(CpuFallbackStatus(True, "cuda", "NVcuvid unavailable: there is no driver"))
        '[CUDA] Fallback status: Falling back due to: NVcuvid unavailable: there is no driver'
    """

    status_known: bool = False
    device_type: str = "cpu"
    reason: str | None = None

    def __bool__(self) -> bool:
        return self.reason is not None

    def __str__(self) -> str:
        if self.reason is not None:
            status = f"Falling back due to: {self.reason}"
        else:
            status = "No fallback required" if self.status_known else "Unknown"
        return f"[{self.device_type.upper()}] Fallback status: {status}"


def warn_of_fallback(status: CpuFallbackStatus) -> None:
    """Warn that the CPU decodes instead of the requested device. Each process warns only once per reason."""
    warn_once(
        f"Frames for the device {status.device_type!r} are decoded in software, on the CPU: {status.reason}. "
        "(strict_device=True makes this an error, decode_backend='cpu' asks for it.)"
    )
