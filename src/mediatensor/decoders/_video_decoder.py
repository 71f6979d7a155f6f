"""`VideoDecoder`: a video as a sequence of tensors."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, SupportsIndex, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._engine.common import checks
from .._engine.common.checks import real_number, shown
from .._engine.common.devices import resolve_device
from .._engine.common.locks import Closing
from .._engine.containers.endings import breaks_off
from .._engine.index.building import parse_frame_mappings
from .._engine.index.frame_clock import FrameClock
from .._engine.index.frame_index import FrameIndex, check_index_belongs, note_source
from .._engine.metadata import VideoStreamMetadata, video_stream_metadata
from .._engine.sources.ranges import MIN_REQUEST_BYTES
from .._engine.sources.source import make_source
from .._engine.video.approximate import ApproximateFrames
from .._engine.video.batch import DecodedPicture, ErrorPolicy, SizeChangePolicy
from .._engine.video.exact import ExactFrames
from .._engine.video.handles import HandleSpec
from .._engine.video.stream import CpuFallbackStatus, OpenVideo, OutputOptions
from ..backends import choose_backend
from ..errors import InvalidArgumentError, MediaTensorError
from ..frames import Frame, FrameBatch
from ..transforms import resolve_transforms

__all__ = ["SimpleVideoDecoder", "VideoDecoder"]

# What iterating decodes in one call.
_BYTES_AT_A_TIME = 1 << 22
_MAX_AT_A_TIME = 16
# Pictures before they are RGB, which the codec's memory holds.
_PICTURES_AT_A_TIME = 8


class VideoDecoder(Closing):
    """Decodes frames of a video by index or by time: exactly those, and as tensors.

    **Frame i is the i-th frame that a full linear decode returns**; random access gives the same bits. To know that,
    the header of an mp4 or mov file, or the packets of the stream, are read once, without decoding, when a frame or a
    count is first asked for; for the first frames, only as many packets as it takes. Where packets and frames turn out
    to differ (field pictures, damage, spliced files, wrong time stamps or none) the stream is decoded once to learn
    which frames there are. Frames that a codec drops without a packet showing it (lost
    packets) are noticed when decoding meets them; from then on the length and the indices behind them are right.

    Pictures that were not asked for and that no other picture refers to are not decoded. Frames decoded lately are kept
    (`mediatensor.set_frame_cache_bytes`), and a call that spans several groups of pictures decodes them side by side.

    Times: the frame *played at* t is the last one with pts <= t, to half a nanosecond. In a gap that is the frame
    before the gap, for every method.

    A decoder can be pickled and copied, used after a fork and in spawned workers, and used from several threads
    at a time: every call works on a handle of its own, opened when it is needed. It keeps the file open; `close` it
    or use it in a ``with`` statement to release the file early.

    Args:
        source: A path or URL (``str``), a ``pathlib.Path``, the ``bytes`` of a file, the same as a 1-D uint8
            tensor, or a binary file object with ``read(size)`` and ``seek(offset, whence)``, which stays open and
            yours. URLs of other file systems (``s3://...``) are read through fsspec, if it is installed.
        stream_index: Index of the video stream among all streams; by default the one FFmpeg thinks best.
        dimension_order: ``"NCHW"`` or ``"NHWC"``. NCHW tensors are views of channels-last memory.
        num_ffmpeg_threads: Codec threads. ``None`` takes what the process's budget (`mediatensor.set_num_threads`) has
            left, and 1 inside a DataLoader worker; 0 lets FFmpeg decide. With a number, a call has one codec.
        device: Where frames come out: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, or another device of torch; ``None`` is
            torch's default device. Times stay on the CPU. On a CUDA device NVDEC decodes, if it can; if not, the CPU
            does, and the device converts (`cpu_fallback`). Colours, rotation and transforms are computed on the device,
            within 2 levels of 255 of what the CPU gives.
        seek_mode: ``"exact"``, or ``"approximate"``: no scan; frame i is taken to be shown at begin + i / average fps
            of the header, and the nearest frame is returned. With a variable frame rate, or a header that is wrong,
            indices name other frames than in exact mode, and the number of frames is an estimate. Access by time is
            not affected.
        transforms: `mediatensor.transforms.DecoderTransform` objects, or torchvision's v2 ``Resize``, ``CenterCrop``
            and ``RandomCrop``, applied to every frame after rotation. Random ones draw once, here.
        output_dtype: ``torch.uint8`` (0 to 255), ``torch.float32`` (0 to 1, from 16 bits a component), or ``"auto"``:
            float32 if the video has more than 8 bits a component.
        custom_frame_mappings: Frames as ``ffprobe -show_frames -of json`` lists them, as JSON text or a file object;
            replaces the scan. What the table says is believed.
        frame_index: The index of this source and stream that another decoder made (`frame_index`), or the path of a
            file that `FrameIndex.save` wrote: nothing is read to make one. It is checked that it belongs to the
            source: the size and the first and last 64 KiB must be the same (of a URL that FFmpeg opens, the header).
            `mediatensor.set_index_cache` does the same without an argument, for all files.
        on_error: What to do about damage: frames that the codec flags as damaged, frames that do not decode, and holes
            (`FrameIndex.holes`). Frames have the numbers of a plain decode in any case.

            ``"keep"`` gives frames as a plain decode does; ``is_damaged`` of the result flags damaged ones, and a
            `DamageWarning` is issued once for each file. A frame that is not there is a `DecodeError`.
            ``"raise"`` is a `DecodeError` for each call that asks for a damaged frame, or reaches over a hole.
            ``"skip"`` leaves damaged frames out, ``"nearest"`` puts the nearest good frame in their place; ``replaced``
            of the result lists these frames, and the holes that the call reaches over.

            A device's decoder does not report damage: with all but ``"keep"`` the CPU decodes. In approximate mode
            holes are not known.
        on_size_change: What to do when frames of a batch have different sizes. ``"raise"``: `SizeChangeError` that
            names the frame. ``"scale"``: all frames are scaled to the size of the first frame of the stream.
        decode_backend: What decodes: a name of `mediatensor.backends.available_backends`; ``None`` for what belongs to
            the device. ``"cpu"`` together with a CUDA device decodes on the CPU, uploads the planes and converts them
            on the device, which for a few small frames is quicker than NVDEC.
        strict_device: Raise `DeviceError` if the backend cannot decode the stream, instead of decoding on the CPU.

    Attributes:
        stream_index: Index of the stream that is decoded.
        metadata: `VideoStreamMetadata`.
        frame_index: `FrameIndex`, the list of frames.
        cpu_fallback: `CpuFallbackStatus`.

    Raises:
        SourceTypeError, SourceNotFoundError, OpenError, ReadError: if the source cannot be opened.
        StreamError: if there is no such video stream, or nothing in it can be decoded.
        InvalidArgumentError: if an argument is not among the accepted ones.
        FrameIndexError: if ``frame_index`` cannot be read, or belongs to another source or stream.
        DeviceError: if the device cannot be used in a forked process, or with ``strict_device`` cannot decode.

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
        decode_backend: str | None = None,
        strict_device: bool = False,
    ) -> None:
        checks.check_choice("seek mode", seek_mode, ("exact", "approximate"))
        is_approximate = seek_mode == "approximate"
        mappings = _checked_mappings(custom_frame_mappings, is_approximate)
        given_index = _given_index(frame_index, is_approximate, has_mappings=mappings is not None)
        checks.check_choice("dimension order", dimension_order, ("NCHW", "NHWC"))
        checks.check_num_threads(num_ffmpeg_threads)
        checks.check_choice("output_dtype", output_dtype, (torch.uint8, torch.float32, "auto"))
        checks.check_choice("on_error", on_error, ("keep", "raise", "skip", "nearest"))
        checks.check_choice("on_size_change", on_size_change, ("raise", "scale"))
        resolved = resolve_device(device)
        backend = choose_backend(decode_backend, resolved).name
        self._video = OpenVideo(
            HandleSpec(make_source(source), stream_index, num_ffmpeg_threads, is_approximate, resolved, backend),
            OutputOptions(dimension_order == "NCHW", on_error, on_size_change, strict_device),
        )
        if given_index is not None:
            video = self._video
            check_index_belongs(given_index, video.identify(), video.time_base, video.name)
        self._frames = (
            ApproximateFrames(self._video) if is_approximate else ExactFrames(self._video, mappings, given_index)
        )
        self._metadata: tuple[FrameIndex | None, VideoStreamMetadata] | None = None
        self.stream_index: int = self._video.stream_info.index
        is_deep = (self._video.stream_info.bits_per_component or 8) > 8
        self._is_float = output_dtype is torch.float32 or (output_dtype == "auto" and is_deep)
        self._luma_bits: int | None = None
        self._transform_with(transforms)

    def _transform_with(self, transforms: Sequence[object] | None) -> None:
        """Apply other transforms, or new draws of random ones, from now on; no call may be running."""
        steps = resolve_transforms(transforms, *self._video.upright_size()) if transforms is not None else ()
        self._video.convert_with(steps, is_float=self._is_float, luma_bits=self._luma_bits)

    def _decode_luma(self, num_bits: int) -> None:
        """Give luma as it is stored, uint16 (1, H, W) a frame, from the next `_transform_with` on; only on the CPU.

        A frame of other than so many bits a sample cannot be decoded.
        """
        self._luma_bits = num_bits

    # What there is

    def __len__(self) -> int:
        """Number of frames: exact, or in approximate mode what the header suggests."""
        return self._frames.num_frames

    @property
    def frame_index(self) -> FrameIndex:
        """The frames of the stream; reading it scans the stream if that was not done yet.

        It is the index as it is now: if decoding shows that there are other frames than the packets promised, another
        one takes its place.

        Raises:
            InvalidArgumentError: in approximate mode, which has no index.
            StreamError: if there is no frame at all.
        """
        if isinstance(self._frames, ApproximateFrames):
            raise InvalidArgumentError("There is no frame index with seek_mode='approximate'; use seek_mode='exact'.")
        index = self._frames.index
        if index.made_from is None:
            note_source(index, self._video.identify())
        return index

    @property
    def metadata(self) -> VideoStreamMetadata:
        """The properties of the stream. Reading them decodes one frame, for the rotation, and in exact mode scans."""
        index = None if isinstance(self._frames, ApproximateFrames) else self._frames.index
        if self._metadata is None or self._metadata[0] is not index:  # the index may have been made anew, by decoding
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
        """Whether frames had to be decoded on the CPU although another device was asked for, and why."""
        return self._video.cpu_fallback

    def _make_index(self) -> None:
        """Make the index now: of a file that was just opened it needs no second opening; approximate mode has none."""
        if isinstance(self._frames, ExactFrames):
            _ = self._frames.index

    def _forget_damage(self) -> None:
        """Be as if just opened: what was decoded before shall not show in how many frames there are."""
        if isinstance(self._frames, ExactFrames):
            self._frames.restore_packet_index()

    def _prepare_for_rows(self, *, raises_damage: bool) -> None:
        """Have a request by index keep its times if decoding shows that frames have other indices.

        Args:
            raises_damage: Whether damage is an error from now on, of a device's decoder as far as it reports any.
        """
        if raises_damage:
            self._video.options = replace(self._video.options, on_error="raise")
        if isinstance(self._frames, ExactFrames):
            self._frames.keeps_times = True

    def _check_no_hole_at(self, seconds: float) -> None:
        """Raise `DecodeError` under ``on_error="raise"`` if no frame came out for a time."""
        if isinstance(self._frames, ExactFrames):
            self._frames.check_no_hole_at(seconds)

    def _frames_of(self, batch: FrameBatch) -> Tensor | None:
        """Return the indices of the frames of a batch, in the shape of its times; ``None`` in approximate mode.

        The batch has the times of its frames, or times on a grid whose step is the duration of the frames.
        """
        if isinstance(self._frames, ApproximateFrames):
            return None
        pts, step = batch.pts_seconds.numpy(), float(batch.duration_seconds.max()) if len(batch) else 0.0
        index, clock = self._frames.index, self._clock.for_steps(step)
        frames = index.played_at(pts)
        if clock.step is not None:
            first = pts[..., :1]
            starts = np.vectorize(clock.exact_start, [np.float64])(first)
            on_grid = clock.played_at(starts + (pts - first) * (clock.exact_step(step) / step))
            is_of_frame = pts - clock.times[frames] <= checks.TIME_TOLERANCE
            frames = np.where(is_of_frame, frames, on_grid)
        return torch.from_numpy(frames)

    def _frames_nearest_to(self, seconds: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Indices of the frames whose times are nearest, and these times; of two frames as near, the first.

        Raises:
            InvalidArgumentError: in approximate mode, which knows no times.
            StreamError: if there is no frame at all.
        """
        if isinstance(self._frames, ApproximateFrames):
            raise InvalidArgumentError("The times of frames are known with seek_mode='exact' only.")
        index = self._frames.index
        before = index.played_at(seconds)
        after = np.minimum(before + 1, len(index) - 1)
        times_before, times_after = (index.times_of(frames)[0].numpy() for frames in (before, after))
        is_after = times_after - seconds < seconds - times_before
        return np.where(is_after, after, before), np.where(is_after, times_after, times_before)

    def _pictures(
        self, start: int = 0, stop: int | None = None, *, obeys_policy: bool = False
    ) -> Iterator[DecodedPicture]:
        """Every picture of a range of frames, before it is RGB, decoded on the CPU.

        The pictures are those of the stream, without transforms. A few are decoded in one call: who keeps a picture
        keeps its memory. Damaged frames are left out; with ``obeys_policy`` the decoder's ``on_error`` decides whether
        they are kept, left out, or an error.
        """
        previous = None
        with self._lend_pictures(obeys_policy=obeys_policy) as frames:
            while (stop is None or start < stop) and frames.has_frame(start):
                end = start + _PICTURES_AT_A_TIME
                yield from frames.pictures(range(start, end if stop is None else min(end, stop)), previous)
                start, previous = end, end - 1

    def _pictures_at(self, indices: Sequence[int], *, obeys_policy: bool = False) -> Iterator[DecodedPicture]:
        """The pictures of certain frames, ascending, as `_pictures` gives them."""
        previous = None
        with self._lend_pictures(obeys_policy=obeys_policy) as frames:
            for start in range(0, len(indices), _PICTURES_AT_A_TIME):
                wanted = indices[start : start + _PICTURES_AT_A_TIME]
                yield from frames.pictures(wanted, previous)
                previous = wanted[-1]

    @contextmanager
    def _lend_pictures(self, *, obeys_policy: bool) -> Iterator[ExactFrames]:
        """What decodes pictures before they are RGB, see `_pictures`, for the time of a ``with`` block.

        Raises:
            ClosedError: if the decoder is closed.
        """
        with self._video.lend_reader(is_moved=False):
            pass
        on_error: ErrorPolicy = self._video.options.on_error if obeys_policy else "skip"
        if on_error == "nearest":
            on_error = "skip"  # a picture comes out with its own number, or not at all
        spec = replace(
            self._video.spec, steps=(), is_float=False, backend="cpu", device=torch.device("cpu"), is_approximate=False
        )
        video = OpenVideo(spec, OutputOptions(False, on_error, "scale"))
        try:
            yield ExactFrames(video, None, None if isinstance(self._frames, ApproximateFrames) else self._frames.index)
        finally:
            video.pool.close()

    def _breaks_off(self) -> bool:
        """Whether the end of the file is missing, by what its container says; ``False`` where looking is costly."""
        with self._video.lend_reader(is_moved=False) as reader:
            # On a web server every part of the file would cost a request.
            is_near = reader.small_read_bytes < MIN_REQUEST_BYTES
            return is_near and bool(reader.look_at_bytes(breaks_off))

    def _get_key_frame_indices(self) -> Tensor:
        """Indices of the key frames, int64 (K,)."""
        return self.frame_index.key_frame_indices

    # By index

    @overload
    def __getitem__(self, key: SupportsIndex) -> Tensor: ...
    @overload
    def __getitem__(self, key: slice) -> Tensor: ...
    def __getitem__(self, key: Any) -> Tensor:
        """One frame (C, H, W) for an index, a batch (N, C, H, W) for a slice.

        Raises:
            OutOfRangeError: if an index is out of range.
            InvalidArgumentError: if a slice is not one of whole numbers, or its step is not positive.
            TypeError: if the key is neither a whole number nor a slice.
        """
        if type(key) is int:
            return self._frames.frame_at(key).data
        if isinstance(key, slice):
            return self.get_frames_in_range(key.start, key.stop, key.step).data
        if hasattr(key, "__index__"):
            return self.get_frame_at(key).data
        raise TypeError(f"Unsupported key type: {type(key)}. Supported types are int and slice.")

    def get_frame_at(self, index: SupportsIndex) -> Frame:
        """The frame of an index.

        Args:
            index: From -len to len - 1.

        Raises:
            OutOfRangeError: if there is no such frame.
            InvalidArgumentError: if it is not a whole number.
            DecodeError: if it cannot be decoded; see ``on_error``.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> decoder = VideoDecoder("video.mp4")
            >>> decoder.get_frame_at(0)
            Frame:
              data (shape): torch.Size([3, 360, 640])
              pts_seconds: 0.0
              duration_seconds: 0.03333333333333333
        """
        return self._frames.frame_at(checks.index_of(index))

    def get_frames_at(self, indices: Tensor | Sequence[SupportsIndex] | NDArray[Any]) -> FrameBatch:
        """The frames of several indices, in the order asked for; each is decoded once.

        Args:
            indices: Whole numbers, in any order, with duplicates if need be; negative ones count from the end.

        Raises:
            OutOfRangeError: if one of them is out of range.
            InvalidArgumentError: if they are not whole numbers.
            DecodeError: if one cannot be decoded; see ``on_error``.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> decoder = VideoDecoder("video.mp4")
            >>> decoder.get_frames_at([0, -1, 5, 5]).data.shape
            torch.Size([4, 3, 360, 640])
        """
        return self._frames.frames_at(checks.indices_of(indices))

    def get_frames_in_range(self, start: int | None, stop: int | None, step: int | None = 1) -> FrameBatch:
        """The frames that the Python slice ``start:stop:step`` selects; an empty or reversed range is an empty batch.

        Raises:
            InvalidArgumentError: if ``step`` is not positive, or one of them is neither a whole number nor ``None``.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> decoder = VideoDecoder("video.mp4")
            >>> len(decoder.get_frames_in_range(10, 20, 3))
            4
        """
        return self._frames.frames_in_range(*checks.bounds_of(start, stop, step))

    def __iter__(self) -> Iterator[Tensor]:
        """Every frame in turn; small ones are decoded a few at a time."""
        start, step, fails = 0, 1, False
        while self._frames.has_frame(start):
            try:
                # A range and not an index: the stream may turn out to end earlier than its packets promise.
                previous = start - 1 if start else None
                frames = self._frames.frames_in_range(
                    start, start + step, 1, previous=previous, is_sequential=True
                ).data
            except MediaTensorError:
                if step == 1:
                    raise
                step, fails = 1, True  # the good frames before the bad one are to come out
                continue
            # A frame that is kept must not keep its neighbours.
            yield from (_copied(frame) for frame in frames) if step > 1 else frames
            start += step
            if len(frames) and not fails:
                step = _num_frames_at_a_time(frames[0])

    def __reversed__(self) -> Iterator[Tensor]:
        """Every frame from the last to the first. A group of pictures that fits in the frame cache is decoded once."""
        for i in reversed(range(len(self))):
            yield self[i]

    # By time

    def get_frame_played_at(self, seconds: float) -> Frame:
        """The frame that is shown at a time: the last one with pts <= ``seconds``.

        Args:
            seconds: In [begin_stream_seconds, end_stream_seconds).

        Raises:
            OutOfRangeError: if the time lies outside.
            InvalidArgumentError: if it is not one number.
            DecodeError: if the frame cannot be decoded; see ``on_error``.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> decoder = VideoDecoder("video.mp4")
            >>> decoder.get_frame_played_at(1.51).pts_seconds
            1.5
        """
        return self._frames.frame_played_at(checks.one_time(seconds))

    def get_frames_played_at(self, seconds: Tensor | Sequence[float] | NDArray[Any]) -> FrameBatch:
        """The frames that are shown at several times, in the order asked for; each is decoded once.

        Args:
            seconds: Times in [begin_stream_seconds, end_stream_seconds).

        Raises:
            OutOfRangeError: if one of them lies outside.
            InvalidArgumentError: if they are not numbers.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> decoder = VideoDecoder("video.mp4")
            >>> decoder.get_frames_played_at([0.0, 2.5]).pts_seconds
            tensor([0.0000, 2.5000], dtype=torch.float64)
        """
        return self._frames.frames_played_at(checks.seconds_of(seconds))

    def get_frames_played_in_range(
        self, start_seconds: float, stop_seconds: float, fps: float | None = None
    ) -> FrameBatch:
        """The frames that are shown within [start_seconds, stop_seconds).

        The first is the one shown at ``start_seconds``, even if it started before; the last is the last one that
        starts before ``stop_seconds``. With ``fps``, the frames shown at ``start_seconds + k / fps``; their pts are
        those times and their durations 1 / fps. At the rate of the file, every frame comes once.

        Args:
            start_seconds: In [begin_stream_seconds, end_stream_seconds).
            stop_seconds: From ``start_seconds`` (an empty batch) to end_stream_seconds.
            fps: Frames per second to resample to.

        Raises:
            OutOfRangeError: if a time lies outside.
            InvalidArgumentError: if start > stop, ``fps`` is not positive, or one of them is not a number.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> decoder = VideoDecoder("video.mp4")
            >>> decoder.get_frames_played_in_range(0.0, 1.0, fps=10).data.shape
            torch.Size([10, 3, 360, 640])
        """
        start_seconds = real_number("start_seconds", start_seconds)
        stop_seconds = real_number("stop_seconds", stop_seconds)
        if fps is None:
            return self._frames.frames_played_in_range(start_seconds, stop_seconds)
        checks.check_seconds_range(start_seconds, stop_seconds, *self._frames.span_seconds)
        return self._resampled(start_seconds, stop_seconds, fps)

    def get_all_frames(self, fps: float | None = None) -> FrameBatch:
        """Every frame, or with ``fps`` the whole stream resampled to that rate.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> VideoDecoder("video.mp4").get_all_frames(fps=2).data.shape
            torch.Size([20, 3, 360, 640])
        """
        if fps is None:
            return self.get_frames_in_range(None, None)
        return self.get_frames_played_in_range(*self._frames.span_seconds, fps=fps)

    def _resampled(
        self, start_seconds: float, stop_seconds: float, fps: float, within: tuple[int, int] | None = None
    ) -> FrameBatch:
        """Return the frames shown at ``start_seconds + k / fps``, with these times; none outside of ``within``."""
        times = checks.frame_rate_times(start_seconds, stop_seconds, fps)
        clock = self._clock.for_steps(1 / float(fps))
        meant = clock.grid(start_seconds, 1 / float(fps), len(times))
        batch = self._frames.frames_played_at(meant, is_grid=clock.step is not None, within=within)
        return _with_times(batch, times, float(fps))

    @property
    def _clock(self) -> FrameClock:
        return self._frames.clock

    def _frames_on_grid(self, seconds: NDArray[np.float64]) -> FrameBatch:
        """Return the frames shown at times that a sampler made with `_clock`."""
        return self._frames.frames_played_at(seconds, is_grid=True)

    # Life of the object

    def close(self) -> None:
        """Release the files. Decoding afterwards raises `ClosedError`; what is known of the stream stays readable.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> decoder = VideoDecoder("video.mp4")
            >>> decoder.close()
            >>> with VideoDecoder("video.mp4") as decoder:  # closes it, too
            ...     frame = decoder[0]
        """
        self._video.pool.close()

    def __copy__(self) -> VideoDecoder:
        """A decoder of the same source, with handles of its own."""
        source = self._video.spec.source
        return copy.deepcopy(self, {id(source): source})

    def __repr__(self) -> str:
        return f"VideoDecoder({self._video.name!r}, stream_index={self.stream_index})"


#: torchcodec's older name.
SimpleVideoDecoder = VideoDecoder


def _checked_mappings(mappings: Any, is_approximate: bool) -> tuple[list[int], list[int], list[bool]] | None:
    if mappings is None:
        return None
    if is_approximate:
        raise InvalidArgumentError(
            "custom_frame_mappings is incompatible with seek_mode='approximate'. Use seek_mode='exact' or no mappings."
        )
    return parse_frame_mappings(mappings)


def _given_index(
    frame_index: FrameIndex | str | os.PathLike[str] | None, is_approximate: bool, *, has_mappings: bool
) -> FrameIndex | None:
    if frame_index is None:
        return None
    if is_approximate:
        raise InvalidArgumentError(
            "frame_index is incompatible with seek_mode='approximate'. Use seek_mode='exact' or no index."
        )
    if has_mappings:
        raise InvalidArgumentError("frame_index is incompatible with custom_frame_mappings. Pass one of them.")
    if isinstance(frame_index, FrameIndex):
        return frame_index
    if isinstance(frame_index, (str, os.PathLike)):
        return FrameIndex.load(frame_index)
    raise InvalidArgumentError(
        f"frame_index must be a FrameIndex or the path of a saved one (got {shown(frame_index)})."
    )


def _num_frames_at_a_time(frame: Tensor) -> int:
    """How many frames to decode for one call while iterating: calls cost too much only where frames are small."""
    return max(1, min(_MAX_AT_A_TIME, _BYTES_AT_A_TIME // frame.nbytes))


def _copied(frame: Tensor) -> Tensor:
    """The frame in memory of its own; NumPy copies with one thread."""
    return torch.from_numpy(frame.numpy().copy(order="K")) if frame.device.type == "cpu" else frame.clone()


def _with_times(batch: FrameBatch, times: NDArray[np.float64], fps: float) -> FrameBatch:
    """The batch with the times of a resampled range; where frames were left out, the others keep theirs."""
    left_out = {report.position for report in batch.replaced if report.used_index is None}
    kept = [k for k in range(len(times)) if k not in left_out]
    pts = torch.from_numpy(times)[kept]
    return replace(batch, pts_seconds=pts, duration_seconds=torch.full_like(pts, 1 / fps))
