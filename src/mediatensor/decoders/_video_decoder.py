"""`VideoDecoder`: a video as a sequence of tensors."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from typing import Any, Literal, SupportsIndex, overload

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
from .._engine.sources.source import make_source
from .._engine.video.approximate import ApproximateFrames
from .._engine.video.batch import ErrorPolicy, SizeChangePolicy
from .._engine.video.exact import ExactFrames
from .._engine.video.handles import HandleSpec
from .._engine.video.stream import CpuFallbackStatus, OpenVideo, OutputOptions
from ..backends import choose_backend
from ..errors import InvalidArgumentError, MediaTensorError
from ..frames import Frame, FrameBatch
from ._access import VideoAccess

# Most bytes and frames that iterating decodes in one call.
_BYTES_AT_A_TIME = 1 << 22
_MAX_AT_A_TIME = 16


class VideoDecoder(Closing):
    """Decodes frames of a video by index or by time: exactly those, and as tensors.

    **Frame i is the i-th frame that a full linear decode returns**; random access gives the same bits. For this, the
    header of an mp4 or mov file, or the packets of the stream, are read once, without decoding, when a frame or a count
    is first asked for; for the first frames, only as many packets as needed. If packets and frames turn out to differ
    (field pictures, damage, spliced files, wrong or missing time stamps), the stream is decoded once to find its
    frames. Frames that a codec drops without any sign in the packets (lost packets) are noticed when decoding meets
    them; from then on the length and the later indices are right.

    Frames that were not asked for and that no other frame refers to are not decoded. Frames decoded recently are kept
    (`mediatensor.set_frame_cache_bytes`), and a call that spans several groups of pictures decodes them in parallel.

    Times: the frame *played at* t is the last one with pts <= t, to half a nanosecond. In a gap that is the frame
    before the gap, for every method.

    A decoder can be pickled and copied, used after a fork and in spawned workers, and used from several threads at a
    time: every call works on its own handle, opened when it is needed. It keeps the file open; `close` it or use it in
    a ``with`` statement to release the file early.

    Args:
        source: A path or URL (``str``), a ``pathlib.Path``, the ``bytes`` of a file, the same as a 1-D uint8 tensor, or
            a binary file object with ``read(size)`` and ``seek(offset, whence)``, which the decoder does not close.
            URLs of other file systems (``s3://...``) are read through fsspec, if it is installed.
        stream_index: Index of the video stream among all streams; by default FFmpeg's choice.
        dimension_order: ``"NCHW"`` or ``"NHWC"``. NCHW tensors are views of channels-last memory.
        num_ffmpeg_threads: Codec threads. ``None`` takes the free threads of the process's budget
            (`mediatensor.set_num_threads`), and 1 inside a DataLoader worker; 0 lets FFmpeg decide. With a number, a
            call has one codec.
        device: Where frames come out: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, or another device of torch; ``None`` is
            torch's default device. Times stay on the CPU. On a CUDA device NVDEC decodes, if it can; if not, the CPU
            does, and the device converts (`cpu_fallback`). Colours, rotation and transforms are computed on the device,
            within 2 levels of 255 of the CPU's result.
        seek_mode: ``"exact"``, or ``"approximate"``: no scan; frame i is taken to be shown at begin + i / average fps
            of the header, and the nearest frame is returned. With a variable frame rate, or a wrong header, indices
            name other frames than in exact mode, and the number of frames is an estimate. Access by time is not
            affected.
        transforms: `mediatensor.transforms.DecoderTransform` objects, or torchvision's v2 ``Resize``, ``CenterCrop``
            and ``RandomCrop``, applied to every frame after rotation. Random ones draw once, here.
        output_dtype: ``torch.uint8`` (0 to 255), ``torch.float32`` (0 to 1, from 16 bits a component), or ``"auto"``:
            float32 if the video has more than 8 bits a component.
        custom_frame_mappings: Frames as ``ffprobe -show_frames -of json`` lists them, as JSON text or a file object;
            replaces the scan. The table is trusted.
        frame_index: The index of this source and stream that another decoder made (`frame_index`), or the path of a
            file that `FrameIndex.save` wrote: nothing is read to make one. It must belong to the source: the size and
            the first and last 64 KiB must be the same (for a URL that FFmpeg opens, the header).
            `mediatensor.set_index_cache` does the same without an argument, for all files.
        on_error: What to do about damage: frames that the codec flags as damaged, frames that do not decode, and holes
            (`FrameIndex.holes`). Frames always have the numbers of a plain decode.

            ``"keep"`` gives frames as a plain decode does; ``is_damaged`` of the result flags damaged ones, and a
            `DamageWarning` is issued once for each file. A missing frame is a `DecodeError`.
            ``"raise"`` is a `DecodeError` for each call that asks for a damaged frame, or spans a hole.
            ``"skip"`` leaves damaged frames out, ``"nearest"`` puts the nearest good frame in their place; ``replaced``
            of the result lists these frames, and the holes that the call spans.

            A device's decoder does not report damage: with all but ``"keep"`` the CPU decodes. In approximate mode
            holes are not known.
        on_size_change: What to do when frames of a batch have different sizes. ``"raise"``: `SizeChangeError` that
            names the frame. ``"scale"``: all frames are scaled to the size of the first frame of the stream.
        decode_backend: A name of `mediatensor.backends.available_backends`; ``None`` for the device's own. ``"cpu"``
            together with a CUDA device decodes on the CPU, uploads the planes and converts them on the device, which
            for a few small frames is faster than NVDEC.
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
        mappings = _parse_mappings(custom_frame_mappings, is_approximate)
        given_index = _load_given_index(frame_index, is_approximate, has_mappings=mappings is not None)
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
        is_float = output_dtype is torch.float32 or (output_dtype == "auto" and is_deep)
        self._access = VideoAccess(self._video, self._frames, is_float=is_float)
        self._access.set_transforms(transforms)

    # Contents

    def __len__(self) -> int:
        """Number of frames: exact, or in approximate mode an estimate from the header."""
        return self._frames.num_frames

    @property
    def frame_index(self) -> FrameIndex:
        """The frames of the stream; reading it scans the stream if that was not done yet.

        It is the current index: if decoding shows that there are other frames than the packets promised, another one
        replaces it.

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
        """Whether frames had to be decoded on the CPU although another device was asked for, and why."""
        return self._video.cpu_fallback

    def _get_key_frame_indices(self) -> Tensor:
        """Return the indices of the key frames, int64 (K,)."""
        return self.frame_index.key_frame_indices

    # By index

    @overload
    def __getitem__(self, key: SupportsIndex) -> Tensor: ...
    @overload
    def __getitem__(self, key: slice) -> Tensor: ...
    def __getitem__(self, key: Any) -> Tensor:
        """Return one frame (C, H, W) for an index, a batch (N, C, H, W) for a slice.

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
        """Return the frame of an index.

        Args:
            index: From -len to len - 1.

        Returns:
            A `Frame`: ``data`` (3, H, W), or (H, W, 3) with ``dimension_order="NHWC"``, uint8 or float32, and its time
            seconds.

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
        """Return the frames of several indices, in the order asked for; each is decoded once.

        Args:
            indices: Whole numbers, in any order, with or without duplicates; negative ones count from the end.

        Returns:
            A `FrameBatch`: ``data`` (N, 3, H, W), or (N, H, W, 3) with ``dimension_order="NHWC"``, uint8 or float32;
            ``pts_seconds`` and ``duration_seconds`` float64 (N,). N is the number of indices.

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
        """Return the frames of the Python slice ``start:stop:step``; an empty or reversed range is an empty batch.

        Returns:
            A `FrameBatch`: ``data`` (N, 3, H, W), or (N, H, W, 3) with ``dimension_order="NHWC"``, uint8 or float32;
            ``pts_seconds`` and ``duration_seconds`` float64 (N,).

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
        """Yield every frame in turn; small ones are decoded a few at a time."""
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
                step, fails = 1, True  # so that the good frames before the bad one come out
                continue
            # A frame that is kept must not keep its neighbours.
            yield from (_copy(frame) for frame in frames) if step > 1 else frames
            start += step
            if len(frames) and not fails:
                step = _num_frames_at_a_time(frames[0])

    def __reversed__(self) -> Iterator[Tensor]:
        """Yield every frame from the last to the first; a group of pictures that fits in the cache is decoded once."""
        for i in reversed(range(len(self))):
            yield self[i]

    # By time

    def get_frame_played_at(self, seconds: float) -> Frame:
        """Return the frame that is shown at a time: the last one with pts <= ``seconds``.

        Args:
            seconds: In [begin_stream_seconds, end_stream_seconds).

        Returns:
            A `Frame`: ``data`` (3, H, W), or (H, W, 3) with ``dimension_order="NHWC"``, uint8 or float32, and its time
            seconds.

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
        """Return the frames that are shown at several times, in the order asked for; each is decoded once.

        Args:
            seconds: Times in [begin_stream_seconds, end_stream_seconds).

        Returns:
            A `FrameBatch`: ``data`` (N, 3, H, W), or (N, H, W, 3) with ``dimension_order="NHWC"``, uint8 or float32;
            ``pts_seconds`` and ``duration_seconds`` float64 (N,). N is the number of times.

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
        """Return the frames that are shown within [start_seconds, stop_seconds).

        The first is the one shown at ``start_seconds``, even if it started earlier; the last is the last one that
        starts before ``stop_seconds``. With ``fps``, the frames shown at ``start_seconds + k / fps``; their pts are
        those times and their durations 1 / fps. At the rate of the file, every frame comes once.

        Args:
            start_seconds: In [begin_stream_seconds, end_stream_seconds).
            stop_seconds: From ``start_seconds`` (an empty batch) to end_stream_seconds.
            fps: Frames per second to resample to.

        Returns:
            A `FrameBatch`: ``data`` (N, 3, H, W), or (N, H, W, 3) with ``dimension_order="NHWC"``, uint8 or float32;
            ``pts_seconds`` and ``duration_seconds`` float64 (N,).

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
        return self._access.resampled_frames(start_seconds, stop_seconds, fps)

    def get_all_frames(self, fps: float | None = None) -> FrameBatch:
        """Return every frame, or with ``fps`` the whole stream resampled to that rate.

        Returns:
            A `FrameBatch`: ``data`` (N, 3, H, W), or (N, H, W, 3) with ``dimension_order="NHWC"``, uint8 or float32;
            ``pts_seconds`` and ``duration_seconds`` float64 (N,).

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> VideoDecoder("video.mp4").get_all_frames(fps=2).data.shape
            torch.Size([20, 3, 360, 640])
        """
        if fps is None:
            return self.get_frames_in_range(None, None)
        return self.get_frames_played_in_range(*self._frames.span_seconds, fps=fps)

    # Life of the object

    def close(self) -> None:
        """Release the files. Decoding afterwards raises `ClosedError`; index and metadata that were read stay readable.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> decoder = VideoDecoder("video.mp4")
            >>> decoder.close()
            >>> with VideoDecoder("video.mp4") as decoder:  # also closes it
            ...     frame = decoder[0]
        """
        self._video.pool.close()

    def __copy__(self) -> VideoDecoder:
        """Return a decoder of the same source, with its own handles."""
        source = self._video.spec.source
        return copy.deepcopy(self, {id(source): source})

    def __repr__(self) -> str:
        return f"VideoDecoder({self._video.name!r}, stream_index={self.stream_index})"


#: torchcodec's older name.
SimpleVideoDecoder = VideoDecoder


def _parse_mappings(mappings: Any, is_approximate: bool) -> tuple[list[int], list[int], list[bool]] | None:
    if mappings is None:
        return None
    if is_approximate:
        raise InvalidArgumentError(
            "custom_frame_mappings is incompatible with seek_mode='approximate'. Use seek_mode='exact' or no mappings."
        )
    return parse_frame_mappings(mappings)


def _load_given_index(
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
    """Return how many frames to decode in one call while iterating: calls cost too much only where frames are small."""
    return max(1, min(_MAX_AT_A_TIME, _BYTES_AT_A_TIME // frame.nbytes))


def _copy(frame: Tensor) -> Tensor:
    """Copy the frame; NumPy copies with one thread."""
    return torch.from_numpy(frame.numpy().copy(order="K")) if frame.device.type == "cpu" else frame.clone()
