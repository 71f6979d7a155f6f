"""`Demuxer`, which reads packets of a container, lists its streams, and makes decoders for their packets."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from fractions import Fraction
from functools import partial
from typing import Any, Self

import torch

from .._engine.common.checks import check_num_threads, finite_number, is_integer, shown
from .._engine.common.devices import resolve_device
from .._engine.common.interrupts import interrupts_kept
from .._engine.common.locks import Closing, ForkSafeLock
from .._engine.common.pictures import Orientation
from .._engine.index.frame_index import FrameIndex, note_source
from .._engine.index.scan import first_picture
from .._engine.metadata import (
    AudioStreamHeaderMetadata,
    DemuxerMetadata,
    VideoStreamHeaderMetadata,
    demuxer_metadata,
    stream_header_metadata,
)
from .._engine.pyav.demuxer import Demuxer as PacketSource
from .._engine.pyav.opening import StreamInfo, choose_streams, with_orientation
from .._engine.pyav.pixels import orientation_of
from .._engine.pyav.reading import PacketDecoder, VideoReader, configure_audio_codec, configure_video_codec
from .._engine.pyav.stated_colours import open_frame_colours
from .._engine.sources.source import Source, make_source
from .._engine.video.handles import stream_parameters, why_not
from .._engine.video.open_video import CpuFallbackStatus, warn_of_fallback
from ..backends import choose_backend, get_backend, open_guarded
from ..errors import ClosedError, InvalidArgumentError, StreamError
from ._media_info import IndexedStream
from ._packet_decoders import AudioPacketDecoder, NotPickled, Packet, ProcessBound, VideoPacketDecoder

# Seconds to subtract from the target of a seek, tried in turn as long as the seek ends after the target.
_STEPS_BACK_SECONDS = (0, 1, 4, 16)

_generations = itertools.count()


class _OpenContainer:
    """The open container that a demuxer and its streams share. A lock lets only one call at a time read from it.

    Attributes:
        generation: A unique number, which each seek replaces by a new one. Each packet stores the number at the time
            of reading. If two packets have the same number, no seek happened between them.
    """

    def __init__(self, source: Source, selectors: Sequence[int | str]) -> None:
        self.source = source
        self.generation = next(_generations)
        self._lock = ForkSafeLock()
        self._process = os.getpid()
        self._packets: PacketSource | None = PacketSource(source, partial(choose_streams, selectors=selectors))
        # If FFmpeg reads a Python file object, it may swallow an exception that a signal raises there.
        self._keeps_interrupts = self._packets.byte_reader is not None
        self.container_info = self._packets.container_info()
        self.stream_infos = [
            with_orientation(self.container_info.streams[stream.index], stream) for stream in self._packets.streams
        ]

    @contextmanager
    def use(self) -> Iterator[PacketSource]:
        """Lock the container for a ``with`` block, and yield the object that reads its packets.

        Raises:
            ClosedError: if the container is closed, or in a forked process, which would share the file position with
                its parent.
        """
        with self._lock, interrupts_kept() if self._keeps_interrupts else nullcontext():
            if self._packets is None:
                raise ClosedError("The demuxer is closed; make a new one to read more.")
            if self._process != os.getpid():
                raise ClosedError("The demuxer belongs to the process that made it; make one in this process.")
            yield self._packets

    def close(self) -> None:
        with self._lock:
            packets, self._packets = self._packets, None
        if packets is not None:
            packets.close()


class _Stream(ProcessBound):
    _how_to_make = "Get the streams of a Demuxer from demuxer.streams."
    _how_to_send = "Make a Demuxer of the same source in each process."

    index: int
    _container: _OpenContainer
    _number: int

    @property
    def _info(self) -> StreamInfo:
        return self._container.stream_infos[self._number]

    @property
    def _time_base(self) -> Fraction:
        return self._info.time_base or Fraction(1)

    def _take_codec(self) -> Any:
        with self._container.use() as packets:
            return packets.take_codec(self._number)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(index={self.index})"


class VideoStream(_Stream):
    """A video stream that was selected in a `Demuxer`. Get it from ``Demuxer.streams``.

    Attributes:
        index: Index of the stream among all streams of the container.

    Example:
        >>> from mediatensor.decoders import Demuxer
        >>> stream = Demuxer("video.mp4").streams[0]
        >>> stream, stream.metadata.codec, len(stream.scan())
        (VideoStream(index=0), 'h264', 300)
    """

    _frame_index: FrameIndex | None = None

    @property
    def metadata(self) -> VideoStreamHeaderMetadata:
        """Codec, size, frame rate and other properties of the stream according to its header."""
        header = stream_header_metadata(self._info)
        assert isinstance(header, VideoStreamHeaderMetadata)
        return header

    def scan(self) -> FrameIndex:
        """Return the `FrameIndex` of the stream: the times of all frames and which of them are key frames.

        It is the same index that `VideoDecoder` builds. You can save it, and pass it to ``VideoDecoder(source,
        frame_index=...)``. The scan opens the source a second time, so the demuxer keeps its position. In an mp4 or mov
        file, the scan reads only the header; in other containers, it reads all packets. If the packets are not enough
        to list the frames, for example in a damaged file, the scan decodes the whole stream once.

        Raises:
            StreamError: if the stream has no frames.
            OpenError, ReadError: if the source cannot be read again.
        """
        if self._frame_index is None:
            with self._container.use():  # raises `ClosedError` if the container is closed
                source = self._container.source
            with closing(IndexedStream(source, self.index)) as stream:
                self._frame_index = stream.make_index()
                if self._frame_index.made_from is None:
                    note_source(self._frame_index, stream.identify())
        return self._frame_index

    def make_decoder(
        self, device: str | torch.device | None = None, *, num_ffmpeg_threads: int = 1
    ) -> VideoPacketDecoder:
        """Return a `VideoPacketDecoder`, which decodes the packets of this stream.

        Args:
            device: Device of the frames; ``None`` is torch's default device. If the device cannot decode the stream,
                the CPU decodes it, and a warning is issued. Even then, `RawFrame.planes` and the frames from a
                `ColorConverter` are on ``device``.
            num_ffmpeg_threads: Number of threads of a codec that runs on the CPU; 0 lets FFmpeg decide.

        Raises:
            InvalidArgumentError: if an argument is not accepted.
            DeviceError: if the device cannot be used.
            ClosedError: after `Demuxer.close`, and in a forked process.
        """
        if num_ffmpeg_threads is None:
            raise InvalidArgumentError("num_ffmpeg_threads = None must be an int; 0 lets FFmpeg decide.")
        check_num_threads(num_ffmpeg_threads)
        resolved = resolve_device(device)
        context = self._take_codec()
        configure_video_codec(context, num_ffmpeg_threads, is_strict=False)
        backend, parameters = choose_backend(None, resolved), stream_parameters(self._info, context)
        if (reason := why_not(backend, parameters, resolved, "raise")) is not None:
            warn_of_fallback(CpuFallbackStatus(True, resolved.type, reason))
            backend = get_backend("cpu")
        is_software = backend.name == "cpu"
        decoder = backend.open(parameters, resolved) if is_software else open_guarded(backend, parameters, resolved)
        if isinstance(decoder, PacketDecoder):
            decoder.tags = open_frame_colours(self._info.codec, context, self._container.source, self.index)
        return VideoPacketDecoder._of_codec(
            decoder,
            self.index,
            self._time_base,
            _backend=backend.name,
            _device=resolved,
            _stated_orientation=None if is_software else _stated_orientation(self._container.source, self.index),
        )


class AudioStream(_Stream):
    """An audio stream that was selected in a `Demuxer`. Get it from ``Demuxer.streams``.

    Attributes:
        index: Index of the stream among all streams of the container.

    Example:
        >>> from mediatensor.decoders import Demuxer
        >>> stream = Demuxer("video.mp4", streams="audio").streams[0]
        >>> stream, stream.metadata.sample_rate
        (AudioStream(index=1), 48000)
    """

    @property
    def metadata(self) -> AudioStreamHeaderMetadata:
        """Codec, sample rate, channels and other properties of the stream according to its header."""
        header = stream_header_metadata(self._info)
        assert isinstance(header, AudioStreamHeaderMetadata)
        return header

    def make_decoder(self) -> AudioPacketDecoder:
        """Return an `AudioPacketDecoder`, which decodes the packets of this stream on the CPU.

        Raises:
            ClosedError: after `Demuxer.close`, and in a forked process.
        """
        context = self._take_codec()
        configure_audio_codec(context, 1)
        return AudioPacketDecoder._of_codec(PacketDecoder(context), self.index, self._time_base)


class Demuxer(NotPickled, Closing):
    """Reads compressed packets from one or more streams of a container.

    Iteration yields `Packet` objects of all selected streams in file order; ``packet.stream_index`` identifies the
    stream. To decode packets, call ``make_decoder`` of their stream. To get frames or samples by index or time, use
    `VideoDecoder` or `AudioDecoder`.

    A demuxer, its streams, its packets and their decoders can be used from any thread, but only in the process that
    made them. The demuxer keeps the file open until you `close` it or leave its ``with`` block.

    Args:
        source: A path, URL, ``bytes``, 1-D uint8 tensor or binary file object, as for `VideoDecoder`.
        streams: Streams to read. ``"video"`` or ``"audio"`` selects the stream of this kind that FFmpeg prefers. An int
            selects the stream with this index among all streams of the container. A tuple or list selects several
            streams, and ``"all"`` selects all video and audio streams.

    Attributes:
        streams: Tuple of the selected `VideoStream` and `AudioStream` objects, in the order of the argument.

    Raises:
        SourceTypeError, SourceNotFoundError, OpenError, ReadError: if the source cannot be opened.
        StreamError: if a stream does not exist or is selected twice.
        InvalidArgumentError: if ``streams`` is not accepted.

    Example:
        >>> from mediatensor.decoders import Demuxer
        >>> demuxer = Demuxer("video.mp4", streams=("video", "audio"))
        >>> demuxer.streams
        (VideoStream(index=0), AudioStream(index=1))
        >>> decoders = {stream.index: stream.make_decoder() for stream in demuxer.streams}
        >>> for packet in demuxer:
        ...     frames = decoders[packet.stream_index].decode(packet)
    """

    _how_to_send = "Make one of the same source in each process."

    def __init__(self, source: object, *, streams: str | int | Sequence[str | int] = "video") -> None:
        selectors = _checked_selectors(streams)
        self._container = _OpenContainer(make_source(source), selectors)
        self.streams: tuple[VideoStream | AudioStream, ...] = tuple(
            (VideoStream if info.media_type == "video" else AudioStream)._with(
                index=info.index, _container=self._container, _number=number
            )
            for number, info in enumerate(self._container.stream_infos)
        )
        self._time_bases = {stream.index: stream._time_base for stream in self.streams}

    @property
    def metadata(self) -> DemuxerMetadata:
        """Duration, bit rate and default streams of the file according to its header."""
        return demuxer_metadata(self._container.container_info)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Packet:
        """Return the next packet.

        Raises:
            ReadError: if the source cannot be read.
            ClosedError: after `close`, and in a forked process.
        """
        with self._container.use() as packets:
            packet = packets.read_packet()
            generation = self._container.generation
        if packet is None:
            raise StopIteration
        index = packet.stream_index
        return Packet._with(
            stream_index=index, _packet=packet, _time_base=self._time_bases[index], _generation=generation
        )

    def seek(self, seconds: float, *, stream: VideoStream | AudioStream | None = None) -> None:
        """Move to a key frame at or before ``seconds``. Reading continues there for all streams.

        After a seek, call ``reset()`` on all packet decoders and `AudioConverter` objects before you feed them again.
        The key frame is usually the last one at or before ``seconds``, but can be an earlier one. To decode frame
        ``i``, call ``index = stream.scan()``, and seek to ``index.key_frame_seconds_for(index.pts_seconds[i])``.

        Args:
            seconds: The target time in seconds. If it is before the first key frame, reading continues at the
                beginning of the file.
            stream: The stream in which to find the key frame, by default the first of ``streams``. The other streams
                continue at the same position in the file, even if they have no key frame there.

        Raises:
            InvalidArgumentError: if ``seconds`` is not a number, or ``stream`` is not one of ``streams``.
            ReadError: if the source cannot be read.
            ClosedError: after `close`, and in a forked process.
        """
        seconds = finite_number("seconds", seconds)
        number = 0 if stream is None else next((k for k, own in enumerate(self.streams) if own is stream), None)
        if number is None:
            raise InvalidArgumentError(
                f"stream must be one of this demuxer's streams, {self.streams}, or None (got {shown(stream)})."
            )
        with self._container.use() as packets:
            self._container.generation = next(_generations)
            _go_to(packets, number, self._container.stream_infos[number], seconds)

    def close(self) -> None:
        """Close the file. Reading then raises `ClosedError`, but decoders can still decode packets read earlier."""
        self._container.close()

    def __repr__(self) -> str:
        return f"Demuxer({self._container.source.describe()!r}, streams={self.streams})"


def _checked_selectors(streams: Any) -> list[int | str]:
    if isinstance(streams, str) and streams == "all":
        return ["all"]
    several = isinstance(streams, Iterable) and not isinstance(streams, str | bytes)
    selectors = list(streams) if several else [streams]
    if not selectors:
        raise InvalidArgumentError("streams is empty, so there is nothing to demux. Pass 'video', for example.")
    for selector in selectors:
        if selector == "all":
            raise InvalidArgumentError(f"streams='all' can only be used on its own (got {shown(streams)}).")
        if selector not in ("video", "audio") and not is_integer(selector):
            raise InvalidArgumentError(
                f"Invalid stream selector {shown(selector)}. Expected 'video', 'audio', or an int stream index."
            )
    return [selector if isinstance(selector, str) else int(selector) for selector in selectors]


def _go_to(packets: PacketSource, number: int, info: StreamInfo, seconds: float) -> None:
    """Seek to a key frame of stream ``info`` at or before ``seconds``; if there is none, seek to the beginning."""
    time_base = info.time_base or Fraction(1)
    target = round(seconds / time_base)
    for step in _STEPS_BACK_SECONDS:
        # FFmpeg makes up the time stamps of some formats, and they differ after a seek.
        if packets.has_no_timestamps or not packets.seek(round((seconds - step) / time_base), number):
            break
        if _is_before_target(packets, info.index, target):
            return
    packets.reopen()


def _is_before_target(packets: PacketSource, stream_index: int, target: int) -> bool:
    """Return whether the next key frame after a seek is shown at or before ``target``, a time in ticks of the stream.

    In a container without an index, a seek usually ends between key frames, so this function reads packets up to the
    next key frame. If the result is true, it puts back this key frame and the packets of other streams, and drops the
    earlier packets of the stream itself.
    """
    read: list[Any] = []
    while (packet := packets.read_packet()) is not None:
        if packet.stream_index != stream_index:
            read.append(packet)
        elif packet.is_keyframe:
            time = packet.dts if packet.pts is None else packet.pts
            if time is not None and time > target:
                return False
            packets.push_back([*read, packet])
            return True
    return False


@contextmanager
def packets_from(source: object, stream_index: int, seconds: float) -> Iterator[tuple[Any, Iterator[Any]]]:
    """Open one stream at a key frame at or before a time, and yield PyAV's stream and an iterator of its packets."""
    container = _OpenContainer(make_source(source), [stream_index])
    try:
        with container.use() as packets:
            _go_to(packets, 0, container.stream_infos[0], seconds)
            yield packets.streams[0], iter(packets.read_packet, None)
    finally:
        container.close()


def _stated_orientation(source: Source, stream_index: int) -> Orientation | None:
    """Decode the first frame on the CPU, and return its orientation; ``None`` if there is no frame.

    Frames that another device decodes lack the orientation that the container states.
    """
    with closing(VideoReader(source, stream_index, 1)) as reader, suppress(StreamError):
        if (picture := first_picture(reader)) is not None:
            return orientation_of(picture)
    return None
