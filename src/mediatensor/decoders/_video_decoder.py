"""`VideoDecoder`, which returns frames of a video, and their `MotionVectors`, as tensors."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, SupportsIndex

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._engine.common import checks
from .._engine.common.checks import real_number, shown
from .._engine.common.devices import resolve_device
from .._engine.common.locks import Closing
from .._engine.index.building import parse_frame_mappings
from .._engine.index.frame_index import FrameIndex, check_index_belongs, note_source
from .._engine.metadata import VideoStreamMetadata, video_stream_metadata
from .._engine.pyav.exports import EXPORTING_CODECS, ExportKind
from .._engine.sources.source import make_source
from .._engine.video.approximate import ApproximateFrames
from .._engine.video.batch import ErrorPolicy, SizeChangePolicy
from .._engine.video.exact import ExactFrames
from .._engine.video.handles import HandleSpec
from .._engine.video.open_video import CpuFallbackStatus, OpenVideo, OutputOptions
from ..backends import ToneCurve, choose_backend
from ..errors import InvalidArgumentError, MediaTensorError, StreamError
from ..frames import Frame, FrameBatch
from ._access import VideoAccess

# Largest numbers of bytes and frames that iteration decodes in one call.
_BYTES_AT_A_TIME = 1 << 22
_MAX_AT_A_TIME = 16


class VideoDecoder(Closing):
    """Decodes frames of a video to tensors, by index or by time, with frame-exact access.

    **Frame i is the i-th frame of a full linear decode**, bit for bit, in whatever order you request frames. To find
    the frames, the first request scans the stream without decoding it. In most mp4, mov, mkv and webm files of more
    than 64 KiB, the scan reads only headers. In other files, it reads packets. If you request only the first frames, it
    reads only the packets needed for them. If the packets do not match the frames (field pictures, damage, spliced
    files, wrong or missing time stamps), the stream is decoded once to find its frames. Lost packets are noticed only
    when decoding reaches them. The length of the decoder and the indices of later frames are then corrected.

    Only requested frames and the frames that they refer to are decoded. Recently decoded frames are cached
    (`mediatensor.set_frame_cache_bytes`). If a call requests frames of several groups of pictures, the groups are
    decoded in parallel.

    The frame *played at* t is the last frame with pts <= t, with a tolerance of half a nanosecond. If there is a gap
    between two frames, every method returns the earlier frame for a time in the gap.

    A decoder can be pickled and copied, used after a fork and in spawned workers, and called from several threads at
    the same time. Concurrent calls open the source again when needed. The decoder keeps the file open. To release the
    file early, `close` the decoder or use it in a ``with`` statement.

    Args:
        source: A path or URL (``str``), a ``pathlib.Path``, the ``bytes`` of a file, these bytes as a 1-D uint8 tensor,
            or a binary file object with ``read(size)`` and ``seek(offset, whence)``, which the decoder does not close.
            URLs of other file systems (``s3://...``) are read through fsspec, if it is installed.
        stream_index: Index of the video stream among all streams; by default the one that FFmpeg prefers.
        dimension_order: ``"NCHW"`` or ``"NHWC"``. NCHW tensors are views of channels-last memory.
        num_ffmpeg_threads: Number of codec threads. The default is 1 in a DataLoader worker, and otherwise all free
            threads within the limit of `mediatensor.set_num_threads`. 0 lets FFmpeg decide. If you pass a number, each
            call uses a single codec, so groups of pictures are not decoded in parallel.
        device: Device of the frames: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, or another device of torch; ``None`` is
            torch's default device. Times stay on the CPU. For a CUDA device, NVDEC decodes if it can. Otherwise the CPU
            decodes (see `cpu_fallback`). In both cases, colours, rotation and transforms are computed on the device.
            Pixel values (0 to 255) differ by at most 2 from the values that the CPU computes.
        seek_mode: ``"exact"`` scans the stream to find all frames. ``"approximate"`` does not scan, and takes the start
            time and the average frame rate from the header. It assumes that frame i is shown at ``start + i /
            average_fps``, and returns the frame nearest to this time. If the frame rate varies or the header is wrong,
            indices differ from exact mode, and the number of frames is an estimate. Access by time is not affected.
        transforms: `mediatensor.transforms.DecoderTransform` objects, or torchvision's v2 ``Resize``, ``CenterCrop``
            and ``RandomCrop``. They are applied in this order to every frame after rotation. Random transforms draw
            their values once, when the decoder is made.
        output_dtype: ``torch.uint8`` (0 to 255), ``torch.float32`` (0 to 1, computed with 16-bit precision), or
            ``"auto"``: float32 if the video has more than 8 bits per component, otherwise uint8.
        custom_frame_mappings: Output of ``ffprobe -show_frames -of json``, as JSON text or a file object. It replaces
            the scan, and is not verified.
        frame_index: The `frame_index` of another decoder of this source and stream, or the path of a file written by
            `FrameIndex.save`. It replaces the scan. The source must not have changed since the index was made. To check
            this, the decoder compares the size and the first and last 64 KiB of the source. For a URL that FFmpeg
            opens, it compares only the header. To cache the indexes of all files, use `mediatensor.set_index_cache`
            instead.
        on_error: How to handle damage: frames that the codec flags as damaged or cannot decode, and holes. A hole is a
            place where the codec returned no frames for some packets (`FrameIndex.holes`). Whatever you choose, damaged
            frames keep their indices.

            ``"keep"`` returns damaged frames as the codec decodes them. ``is_damaged`` of the result flags these
            frames, and a `DamageWarning` is issued once for each file. A frame that cannot be decoded raises
            `DecodeError`. ``"raise"`` raises `DecodeError` if a call requests a damaged frame, frames on both sides of
            a hole, or a time in a hole. ``"skip"`` leaves damaged frames out, and ``"nearest"`` replaces them by the
            nearest good frame. In both cases, ``replaced`` of the result lists the damaged frames and the holes that
            the request covers.

            Hardware decoders do not report damage. For every value except ``"keep"``, the CPU therefore decodes, even
            if another ``device`` is requested. Approximate mode does not detect holes.
        on_size_change: How to handle frames of different sizes in a batch. ``"raise"`` raises `SizeChangeError`, whose
            message names the first frame that differs. ``"scale"`` scales all frames to the size of the stream's first
            frame. Frames that are too small for a crop in ``transforms`` raise `SizeChangeError` in both cases.
        tone_mapping: How to convert HDR frames (PQ or HLG) to SDR frames: RGB of BT.709 for displays of ITU-R BT.1886.
            ``None`` does not convert them, so they look gray. ``"bt2390"`` is the curve of Report ITU-R BT.2390: it
            keeps dark and medium tones, and compresses highlights into the range below 203 cd/m², the reference white
            of ITU-R BT.2408. ``"hable"`` is the filmic curve of FFmpeg's filter ``tonemap``, which darkens all tones.
            The peak luminance of PQ video is read from its metadata (MaxCLL, otherwise the mastering display). For HLG,
            or without metadata, the peak is 1,000 cd/m². Colours outside BT.709 are clipped. SDR frames do not change.
            The CPU uses a table, so results of CPU and GPU differ more than without tone mapping.
        decode_backend: A name from `mediatensor.backends.available_backends`; ``None`` for the device's default. With a
            CUDA device, ``"cpu"`` decodes on the CPU and converts to RGB on the device. For a few small frames, this is
            faster than NVDEC.
        strict_device: Whether to raise `DeviceError` if the backend of ``device`` cannot decode the stream, instead of
            decoding on the CPU.

    Attributes:
        stream_index: Index of the decoded stream among all streams.
        metadata: `VideoStreamMetadata`, such as size, duration and frame rate.
        frame_index: `FrameIndex`, the times of all frames and which of them are key frames.
        cpu_fallback: `CpuFallbackStatus`, whether and why the CPU decodes although another device was requested.

    Raises:
        SourceTypeError, SourceNotFoundError, OpenError, ReadError: if the source cannot be opened.
        StreamError: if there is no such video stream, or nothing in it can be decoded.
        InvalidArgumentError: if an argument is not accepted.
        FrameIndexError: if ``frame_index`` cannot be read, or belongs to another source or stream.
        DeviceError: if the device cannot be used in a forked process, or if it cannot decode the stream and
            ``strict_device`` is set.

    Example:
        >>> from mediatensor.decoders import VideoDecoder
        >>> decoder = VideoDecoder("video.mp4")
        >>> decoder[0].shape, decoder[-1].dtype
        (torch.Size([3, 360, 640]), torch.uint8)
        >>> decoder[10:20:2].shape
        torch.Size([5, 3, 360, 640])
        >>> decoder.get_frame_played_at(1.5).pts_seconds
        1.5
    """

    def __init__(
        self,
        source: object,
        *,
        stream_index: int | None = None,
        dimension_order: Literal["NCHW", "NHWC"] = "NCHW",
        num_ffmpeg_threads: int | None = None,
        device: str | torch.device | None = None,
        seek_mode: Literal["exact", "approximate"] = "exact",
        transforms: Sequence[object] | None = None,
        output_dtype: torch.dtype | Literal["auto"] = torch.uint8,
        custom_frame_mappings: Any = None,
        frame_index: FrameIndex | str | os.PathLike[str] | None = None,
        on_error: ErrorPolicy = "keep",
        on_size_change: SizeChangePolicy = "raise",
        tone_mapping: ToneCurve | None = None,
        decode_backend: str | None = None,
        strict_device: bool = False,
    ) -> None:
        checks.check_choice("seek mode", seek_mode, ("exact", "approximate"))
        is_approximate = seek_mode == "approximate"
        for name, value in (("custom_frame_mappings", custom_frame_mappings), ("frame_index", frame_index)):
            if is_approximate and value is not None:
                raise InvalidArgumentError(
                    f"{name} is incompatible with seek_mode='approximate'. Use seek_mode='exact' or no "
                    f"{name.rpartition('_')[2]}."
                )
        mappings = None if custom_frame_mappings is None else parse_frame_mappings(custom_frame_mappings)
        given_index = None if frame_index is None else _load_given_index(frame_index, has_mappings=mappings is not None)
        checks.check_choice("dimension order", dimension_order, ("NCHW", "NHWC"))
        checks.check_num_threads(num_ffmpeg_threads)
        checks.check_choice("output_dtype", output_dtype, (torch.uint8, torch.float32, "auto"))
        checks.check_choice("on_error", on_error, ("keep", "raise", "skip", "nearest"))
        checks.check_choice("on_size_change", on_size_change, ("raise", "scale"))
        checks.check_choice("tone_mapping", tone_mapping, (None, "bt2390", "hable"))
        resolved = resolve_device(device)
        backend = choose_backend(decode_backend, resolved).name
        self._video = OpenVideo(
            HandleSpec(make_source(source), stream_index, num_ffmpeg_threads, is_approximate, resolved, backend),
            OutputOptions(dimension_order == "NCHW", on_error, on_size_change, strict_device),
        )
        if tone_mapping is not None:
            self._video.map_tones(tone_mapping)
        if given_index is not None:
            video = self._video
            check_index_belongs(given_index, video.identify(), video.time_base, video.name)
        self._frames = (
            ApproximateFrames(self._video) if is_approximate else ExactFrames(self._video, mappings, given_index)
        )
        self._metadata: tuple[FrameIndex | None, VideoStreamMetadata] | None = None
        self.stream_index: int = self._video.stream_info.index
        is_deep = (self._video.stream_info.bits_per_component or 8) > 8
        is_float = output_dtype is torch.float32 or (output_dtype == "auto" and is_deep)
        self._access = VideoAccess(self._video, self._frames, is_float=is_float)
        if is_float or transforms is not None:
            self._access.set_transforms(transforms)

    # Contents

    def __len__(self) -> int:
        """Number of frames. In approximate mode, this is an estimate from the header."""
        return self._frames.num_frames

    @property
    def frame_index(self) -> FrameIndex:
        """The `FrameIndex` of the stream: times and key frames. The first access scans the stream if needed.

        If later decoding shows that packets and frames do not match, a corrected index replaces this one.

        Raises:
            InvalidArgumentError: in approximate mode, which has no index.
            StreamError: if the stream has no frames.
        """
        index = self._exact_frames.index
        if index.made_from is None:
            note_source(index, self._video.identify())
        return index

    @property
    def metadata(self) -> VideoStreamMetadata:
        """Size, duration, frame rate and other properties of the stream.

        The first access decodes one frame to determine the rotation. In exact mode, it also scans the stream.
        """
        index = None if isinstance(self._frames, ApproximateFrames) else self._frames.index
        if self._metadata is None or self._metadata[0] is not index:  # decoding may have replaced the index
            metadata = video_stream_metadata(
                self._video.stream_info,
                self._video.container_info.duration_seconds,
                rotation=self._video.rotation,
                size=self._video.upright_size(),
                index=index,
            )
            self._metadata = (index, metadata)
        return self._metadata[1]

    @property
    def cpu_fallback(self) -> CpuFallbackStatus:
        """A `CpuFallbackStatus`: whether the CPU decodes although another device was requested, and why."""
        return self._video.cpu_fallback

    @property
    def _exact_frames(self) -> ExactFrames:
        if isinstance(self._frames, ApproximateFrames):
            raise InvalidArgumentError("There is no frame index with seek_mode='approximate'; use seek_mode='exact'.")
        return self._frames

    # Private names of torchcodec that programs use.

    def _get_key_frame_indices(self) -> Tensor:
        """Return the indices of the key frames, int64 (K,)."""
        return self.frame_index.key_frame_indices

    @property
    def _num_frames(self) -> int:
        return len(self)

    # By index

    def __getitem__(self, key: SupportsIndex | slice) -> Tensor:
        """Return a frame (C, H, W) for an index, or a batch (N, C, H, W) for a slice.

        Raises:
            OutOfRangeError: if an index is out of range.
            InvalidArgumentError: if a slice has a bound that is not an integer, or a step that is not positive.
            TypeError: if the key is neither an integer nor a slice.
        """
        if type(key) is int:
            return self._frames.frame_at(key).data
        if isinstance(key, slice):
            return self.get_frames_in_range(key.start, key.stop, key.step).data
        if hasattr(key, "__index__"):
            return self.get_frame_at(key).data
        raise TypeError(f"Unsupported key type: {type(key)}. Supported types are int and slice.")

    def get_frame_at(self, index: SupportsIndex) -> Frame:
        """Return the frame at an index.

        Args:
            index: From ``-len(decoder)`` to ``len(decoder) - 1``. Negative indices count from the end.

        Returns:
            A `Frame`: ``data`` (3, H, W), or (H, W, 3) with ``dimension_order="NHWC"``, in the decoder's
            ``output_dtype``; its start time and duration in seconds.

        Raises:
            OutOfRangeError: if there is no such frame.
            InvalidArgumentError: if the index is not an integer.
            DecodeError: if the frame cannot be decoded; see ``on_error`` of the decoder.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> VideoDecoder("video.mp4").get_frame_at(0)
            Frame:
              data (shape): torch.Size([3, 360, 640])
              pts_seconds: 0.0
              duration_seconds: 0.03333333333333333
        """
        return self._frames.frame_at(checks.index_of(index))

    def get_frames_at(self, indices: Tensor | Sequence[SupportsIndex] | NDArray[Any]) -> FrameBatch:
        """Return the frames at several indices, in the given order. A repeated frame is decoded only once.

        Args:
            indices: Integers in any order, with or without duplicates. Negative indices count from the end. A single
                integer counts as a list of one.

        Returns:
            A `FrameBatch`: ``data`` (N, 3, H, W), or (N, H, W, 3) with ``dimension_order="NHWC"``, in the decoder's
            ``output_dtype``; ``pts_seconds`` and ``duration_seconds`` float64 (N,). N is the number of indices, or less
            if ``on_error="skip"`` leaves frames out.

        Raises:
            OutOfRangeError: if an index is out of range.
            InvalidArgumentError: if the indices are not integers.
            DecodeError: if a frame cannot be decoded; see ``on_error`` of the decoder.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> VideoDecoder("video.mp4").get_frames_at([0, -1, 5, 5]).data.shape
            torch.Size([4, 3, 360, 640])
        """
        return self._frames.frames_at(checks.indices_of(indices))

    def get_frames_in_range(self, start: int | None, stop: int | None, step: int | None = 1) -> FrameBatch:
        """Return the frames of the Python slice ``start:stop:step``. An empty or reversed range gives an empty batch.

        Args:
            start, stop: Frame indices. Negative ones count from the end; ``None`` is the start or end of the stream.
            step: Difference between the indices of successive frames, at least 1.

        Returns:
            A `FrameBatch`, as from `get_frames_at`.

        Raises:
            InvalidArgumentError: if ``step`` is not positive, or an argument is neither an integer nor ``None``.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> len(VideoDecoder("video.mp4").get_frames_in_range(10, 20, 3))
            4
        """
        return self._frames.frames_in_range(*checks.bounds_of(start, stop, step))

    def __iter__(self) -> Iterator[Tensor]:
        """Yield all frames in order. Small frames are decoded several at a time."""
        start, step, fails = 0, 1, False
        while self._frames.has_frame(start):
            try:
                # Count up instead of iterating over the length: the stream may end earlier than its packets suggest.
                previous = start - 1 if start else None
                frames = self._frames.frames_in_range(
                    start, start + step, 1, previous=previous, is_sequential=True
                ).data
            except MediaTensorError:
                if step == 1:
                    raise
                step, fails = 1, True  # decode one frame at a time, to yield the good frames before the bad frame
                continue
            for frame in frames:
                if step > 1:
                    # Copy each frame, because a view would keep the memory of its neighbours. NumPy copies with one
                    # thread.
                    is_on_cpu = frame.device.type == "cpu"
                    frame = torch.from_numpy(frame.numpy().copy(order="K")) if is_on_cpu else frame.clone()
                yield frame
            start += step
            if len(frames) and not fails:
                step = max(1, min(_MAX_AT_A_TIME, _BYTES_AT_A_TIME // frames[0].nbytes))

    def __reversed__(self) -> Iterator[Tensor]:
        """Yield all frames in reverse order. A group of pictures that fits in the cache is decoded only once."""
        start = len(self)
        while start > 0:
            start, num_frames = start - 1, len(self)
            frames = self._frames.frames_in_range(start, start + 1, 1).data
            if len(self) != num_frames:
                # Decoding has found that earlier frames are missing, so this frame has been yielded before.
                start -= num_frames - len(self)
                frames = self._frames.frames_in_range(max(0, start), max(0, start + 1), 1).data
            yield from frames

    # By time

    def get_frame_played_at(self, seconds: float) -> Frame:
        """Return the frame that is shown at a time: the last frame with pts <= ``seconds``.

        Args:
            seconds: Time in seconds, in [begin_stream_seconds, end_stream_seconds) of `metadata`.

        Returns:
            A `Frame`, as from `get_frame_at`.

        Raises:
            OutOfRangeError: if the time is outside [begin_stream_seconds, end_stream_seconds).
            InvalidArgumentError: if ``seconds`` is not a single number.
            DecodeError: if the frame cannot be decoded; see ``on_error`` of the decoder.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> VideoDecoder("video.mp4").get_frame_played_at(1.51).pts_seconds
            1.5
        """
        return self._frames.frame_played_at(checks.one_time(seconds))

    def get_frames_played_at(self, seconds: Tensor | Sequence[float] | NDArray[Any]) -> FrameBatch:
        """Return the frames that are shown at several times, in the given order. A repeated frame is decoded only once.

        Args:
            seconds: Times in seconds, in [begin_stream_seconds, end_stream_seconds) of `metadata`.

        Returns:
            A `FrameBatch` with one frame for each time, as from `get_frames_at`.

        Raises:
            OutOfRangeError: if a time is outside [begin_stream_seconds, end_stream_seconds).
            InvalidArgumentError: if the times are not numbers.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> VideoDecoder("video.mp4").get_frames_played_at([0.0, 2.5]).pts_seconds
            tensor([0.0000, 2.5000], dtype=torch.float64)
        """
        return self._frames.frames_played_at(checks.seconds_of(seconds))

    def get_frames_played_in_range(
        self, start_seconds: float, stop_seconds: float, fps: float | None = None
    ) -> FrameBatch:
        """Return the frames that are shown in [start_seconds, stop_seconds).

        The first frame is the one shown at ``start_seconds``, even if it started earlier. The last frame is the last
        one that starts before ``stop_seconds``. With ``fps``, the batch has ``(stop_seconds - start_seconds) * fps``
        frames, rounded. Frame k is the one shown at ``start_seconds + k / fps``. Its ``pts_seconds`` is this time, and
        its ``duration_seconds`` is 1 / fps. If ``fps`` is the frame rate of the file, every frame in the range is
        returned once.

        Args:
            start_seconds: Start of the range in seconds, in [begin_stream_seconds, end_stream_seconds) of `metadata`.
            stop_seconds: End of the range in seconds, at most end_stream_seconds. If it equals the start, the batch is
                empty.
            fps: Frames per second to resample to; ``None`` returns the frames of the file without resampling.

        Returns:
            A `FrameBatch`, as from `get_frames_at`.

        Raises:
            OutOfRangeError: if a time is outside the stream.
            InvalidArgumentError: if start is greater than stop, ``fps`` is not positive, or an argument is not a
                number.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> VideoDecoder("video.mp4").get_frames_played_in_range(0.0, 1.0, fps=10).data.shape
            torch.Size([10, 3, 360, 640])
        """
        start_seconds = real_number("start_seconds", start_seconds)
        stop_seconds = real_number("stop_seconds", stop_seconds)
        if fps is None:
            return self._frames.frames_played_in_range(start_seconds, stop_seconds)
        checks.check_seconds_range(start_seconds, stop_seconds, *self._frames.span_seconds)
        return self._access.resampled_frames(start_seconds, stop_seconds, fps)

    def get_all_frames(self, fps: float | None = None) -> FrameBatch:
        """Return all frames or, with ``fps``, the whole stream resampled as in `get_frames_played_in_range`.

        Returns:
            A `FrameBatch`, as from `get_frames_at`.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> VideoDecoder("video.mp4").get_all_frames(fps=2).data.shape
            torch.Size([20, 3, 360, 640])
        """
        if fps is None:
            return self.get_frames_in_range(None, None)
        return self.get_frames_played_in_range(*self._frames.span_seconds, fps=fps)

    # Data that the codec exports

    def get_frame_bytes(self) -> Tensor:
        """Return the size of each compressed frame in bytes without decoding, as an int64 tensor (number of frames,).

        The size of a frame is the size of its packet. If an interlaced frame has one packet for each field, it is the
        size of both packets together. A packet without a visible frame, such as a hidden frame of VP8, counts for the
        next frame in the file. Packets of frames that an edit list removes do not count. The size is -1 if the packet
        of a frame is unknown, because of ``custom_frame_mappings`` or lost time stamps.

        The first call reads the header or the packets, like the scan for the index. Later calls reuse the result.

        Raises:
            InvalidArgumentError: in approximate mode.
            ReadError: if the packets cannot be read.
            ClosedError: after `close`, if the sizes have not been read before.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> decoder = VideoDecoder("video.mp4")
            >>> num_bytes = decoder.get_frame_bytes()
            >>> num_bytes.shape, int(num_bytes.argmax()) in decoder.frame_index.key_frame_indices
            (torch.Size([300]), True)
        """
        return torch.from_numpy(self._exact_frames.frame_bytes().copy())

    def get_motion_vectors_at(self, indices: Tensor | Sequence[SupportsIndex] | NDArray[Any]) -> MotionVectors:
        """Return the codec's `MotionVectors` of the frames at ``indices``. H.264 and MPEG streams have them.

        The vectors refer to the upright frames before ``transforms``. The file is opened a second time, and the frames
        are decoded on the CPU. The result always has an entry for each index: if a frame cannot be decoded, the call
        raises an error, whatever ``on_error`` is. FFmpeg does not export the vectors of the last frame of MPEG-1 and
        MPEG-2 streams, or of MPEG-4 streams with B frames.

        Args:
            indices: Frame indices in any order; ``range(len(decoder))`` for all. Negative ones count from the end.

        Raises:
            StreamError: if FFmpeg does not export motion vectors of the codec.
            InvalidArgumentError: if the indices are not integers, and in approximate mode.
            OutOfRangeError, DecodeError, SizeChangeError, ClosedError: as in `get_frames_at`.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> VideoDecoder("video.mp4").get_motion_vectors_at([30, 31, -1]).past.shape
            torch.Size([3, 2, 45, 80])
        """
        return _motion_vectors(self._exports_at("mvs", "motion vectors", indices))

    def get_qp_at(self, indices: Tensor | Sequence[SupportsIndex] | NDArray[Any]) -> Tensor:
        """Return the quantisation parameters of the frames at ``indices``, float32 (N, rows, columns) on the CPU.

        There is one value for each cell of 8x8 pixels, as in `get_motion_vectors_at`. A greater value means coarser
        quantisation. The range depends on the codec: 0 to 51 in H.264, 0 to 255 in VP9, 1 to 31 in MPEG-4. A cell is
        NaN if the codec does not state its value.

        Args:
            indices: Frame indices in any order. Negative ones count from the end.

        Raises:
            StreamError: if FFmpeg does not export quantisation parameters of the codec.
            InvalidArgumentError, OutOfRangeError, DecodeError, SizeChangeError, ClosedError: as in
                `get_motion_vectors_at`.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> VideoDecoder("video.mp4").get_qp_at([30, 31]).shape
            torch.Size([2, 45, 80])
        """
        return torch.from_numpy(self._exports_at("venc_params", "quantisation parameters", indices)[..., 0])

    def _exports_at(self, kind: ExportKind, name: str, indices: Any) -> NDArray[np.float32]:
        frames, codec = self._exact_frames, self._video.stream_info.codec
        codecs = EXPORTING_CODECS[kind]
        if codec not in codecs:
            raise StreamError(
                f"FFmpeg does not export {name} of the codec {codec} (stream {self.stream_index} of "
                f"{self._video.name}). It exports {name} of {', '.join(sorted(codecs))}. get_frame_bytes() works for "
                "every codec."
            )
        return frames.exports_at(kind, checks.indices_of(indices))

    # Lifetime

    def close(self) -> None:
        """Release the files. Later decoding raises `ClosedError`. A frame index and metadata read earlier stay valid.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> with VideoDecoder("video.mp4") as decoder:  # closes it at the end
            ...     frame = decoder[0]
        """
        self._video.close()

    def __copy__(self) -> VideoDecoder:
        """Return an independent decoder of the same source, which opens the file again."""
        source = self._video.spec.source
        return copy.deepcopy(self, {id(source): source})

    def __repr__(self) -> str:
        return f"VideoDecoder({self._video.name!r}, stream_index={self.stream_index})"


#: torchcodec's older name for `VideoDecoder`.
SimpleVideoDecoder = VideoDecoder


@dataclass(frozen=True, eq=False)
class MotionVectors:
    """The motion vectors of some frames, on a grid of cells of 8x8 pixels; see `VideoDecoder.get_motion_vectors_at`.

    The codec predicts a block from a place in another frame, the reference. The motion vector leads from the block to
    this place. It has two components in pixels: x (to the right) and y (downwards). If a texture moves by (3, 1) pixels
    from one frame to the next, its vector to the earlier frame is (-3, -1). A block of a B frame can have two
    references. Blocks of 16 pixels fill several cells with the same vector.

    All tensors are on the CPU. N is the number of frames. The grid has H / 8 rows and W / 8 columns, rounded up.

    Attributes:
        past: Vectors to references that are shown earlier, float32 (N, 2, rows, columns), with x before y. Cells
            without such a vector are 0.
        future: Vectors to references that are shown later, float32 (N, 2, rows, columns), with x before y. Cells
            without such a vector are 0.
        has_past: Whether a cell has a vector to an earlier frame, bool (N, rows, columns).
        has_future: Whether a cell has a vector to a later frame, bool (N, rows, columns). If a cell has neither vector,
            it is coded without a reference. This applies to all cells of a key frame, and to new content in other
            frames.

    Example:
        >>> from mediatensor.decoders import VideoDecoder
        >>> vectors = VideoDecoder("video.mp4").get_motion_vectors_at([0, 10])
        >>> vectors.has_past.float().mean((1, 2)).tolist()[0]
        0.0
        >>> vectors.past.norm(dim=1).shape  # lengths in pixels
        torch.Size([2, 45, 80])
    """

    past: Tensor
    future: Tensor
    has_past: Tensor
    has_future: Tensor

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.past)

    def __repr__(self) -> str:
        return f"MotionVectors(past={tuple(self.past.shape)}, future={tuple(self.future.shape)})"


def _load_given_index(frame_index: FrameIndex | str | os.PathLike[str], *, has_mappings: bool) -> FrameIndex:
    if has_mappings:
        raise InvalidArgumentError("frame_index is incompatible with custom_frame_mappings. Pass one of them.")
    if isinstance(frame_index, FrameIndex):
        return frame_index
    if isinstance(frame_index, (str, os.PathLike)):
        return FrameIndex.load(frame_index)
    raise InvalidArgumentError(
        f"frame_index must be a FrameIndex or the path of a saved index (got {shown(frame_index)})."
    )


def _motion_vectors(cells: NDArray[Any]) -> MotionVectors:
    """Split cells (N, rows, columns, 4) into vectors of both directions. Cells without a vector are NaN."""
    values = torch.from_numpy(cells).permute(0, 3, 1, 2)
    is_missing = values.isnan()
    values = values.masked_fill(is_missing, 0.0)
    return MotionVectors(values[:, :2], values[:, 2:], ~is_missing[:, 0], ~is_missing[:, 2])
