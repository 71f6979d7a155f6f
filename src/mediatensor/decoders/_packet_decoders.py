"""`VideoPacketDecoder` and `AudioPacketDecoder`: packets in, raw frames and raw samples out."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import torch

from .._engine.common.checks import shown
from .._engine.common.locks import Closing, ForkSafeLock
from .._engine.common.pictures import Orientation
from .._engine.pyav.audio import samples_of
from .._engine.pyav.reading import UndecodablePacketError
from ..errors import ClosedError, DecodeError, InvalidArgumentError
from ._raw import Packet, ProcessBound, RawAudioSamples, RawFrame, seconds_of_ticks

__all__ = ["AudioPacketDecoder", "VideoPacketDecoder"]

_Raw = TypeVar("_Raw")


class Codec(Protocol):
    """What decodes packets, see `mediatensor.backends.PictureDecoder`."""

    def decode(self, packet: Any | None) -> Sequence[Any]: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class _PacketDecoder(ProcessBound, Closing, Generic[_Raw]):
    """A codec that is fed by hand. Safe to be called from several threads, one at a time."""

    _how_to_make = "A stream of a Demuxer makes it: demuxer.streams[0].make_decoder()."
    _how_to_send = "Make a Demuxer of the same source, and a decoder, in each process."
    _kind: ClassVar[str]

    _codec: Codec | None
    _stream_index: int
    _time_base: Fraction
    _lock: ForkSafeLock
    _process: int
    # The position of the demuxer that packets come from, see `Demuxer.seek`; none before the first packet.
    _generation: int | None
    _is_drained: bool

    @classmethod
    def _of_codec(cls, codec: Codec, stream_index: int, time_base: Fraction, **more: Any) -> Any:
        state = {"_lock": ForkSafeLock(), "_process": os.getpid(), "_generation": None, "_is_drained": False}
        return cls._with(_codec=codec, _stream_index=stream_index, _time_base=time_base, **state, **more)

    def decode(self, packet: Packet) -> list[_Raw]:
        """Feed a packet, and take what comes out: nothing, one or several, in the order in which they are shown.

        Codecs hold pictures back to put them in order, so that what comes out need not be of this packet.

        Args:
            packet: The next one of this decoder's stream.

        Raises:
            InvalidArgumentError: if it is no packet of this stream, comes from behind a `Demuxer.seek` that no `reset`
                followed or from another demuxer than the ones before, or the decoder has been drained.
            DecodeError: if the codec refuses it; the next ones may still decode.
            ClosedError: after `close`, and in a forked process.
        """
        if not isinstance(packet, Packet):
            raise InvalidArgumentError(f"packet must be a Packet, which a Demuxer reads (got {shown(packet)}).")
        if packet.stream_index != self._stream_index:
            raise InvalidArgumentError(
                f"This decoder decodes packets of stream {self._stream_index} (got one of stream "
                f"{packet.stream_index}). packet.stream_index tells which decoder it is for."
            )
        with self._lock:
            self._open_codec()
            if self._is_drained:
                raise InvalidArgumentError(
                    "This decoder has been drained: its stream has ended. Call reset() to decode from another place."
                )
            if self._generation not in (None, packet._generation):
                raise InvalidArgumentError(
                    "The demuxer seeked since this decoder was last reset(), or the packet is of another demuxer: it "
                    "does not follow the ones before. Call reset() on every decoder of a demuxer after its seek()."
                )
            frames = self._feed(packet._packet)
            self._generation = packet._generation
        return [self._raw(frame) for frame in frames]

    def drain(self) -> list[_Raw]:
        """Say that the stream has ended, and take what the codec has held back.

        Raises:
            DecodeError: if the codec refuses to give it.
            ClosedError: after `close`, and in a forked process.
        """
        with self._lock:
            self._open_codec()
            frames = () if self._is_drained else self._feed(None)
            self._is_drained = True
        return [self._raw(frame) for frame in frames]

    def reset(self) -> None:
        """Forget what was fed: the next packet comes from another place of the stream, see `Demuxer.seek`.

        Raises:
            ClosedError: after `close`, and in a forked process.
        """
        with self._lock:
            self._open_codec().flush()
            self._is_drained, self._generation = False, None

    def close(self) -> None:
        """Give up the codec. Frames that it gave stay good."""
        with self._lock:
            codec, self._codec = self._codec, None
        if codec is not None:
            codec.close()

    def __del__(self) -> None:
        if "_codec" in self.__dict__:
            self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(stream_index={self._stream_index})"

    def _open_codec(self) -> Codec:
        if self._codec is None:
            raise ClosedError("The decoder is closed; make a new one with make_decoder().")
        if self._process != os.getpid():
            raise ClosedError("The decoder belongs to the process that made it; make a Demuxer in this one.")
        return self._codec

    def _feed(self, packet: Any | None) -> Sequence[Any]:
        codec = self._open_codec()
        try:
            return codec.decode(packet)
        except UndecodablePacketError as error:
            seconds = None if packet is None else seconds_of_ticks(packet.pts, self._time_base)
            what = "The end" if packet is None else f"The packet at {seconds} s"
            raise DecodeError(
                f"{what} of stream {self._stream_index} could not be decoded ({error}). The data is damaged, or no "
                f"{self._kind} of this stream; later packets may still decode."
            ) from error

    def _times(self, frame: Any) -> tuple[float, float]:
        """When a frame is shown, and for how long, in seconds."""
        pts = frame.pts if frame.pts is not None else getattr(frame, "dts", None)
        seconds = seconds_of_ticks(pts, self._time_base)
        return float("nan") if seconds is None else seconds, seconds_of_ticks(
            frame.duration or 0, self._time_base
        ) or 0.0

    @abstractmethod
    def _raw(self, frame: Any) -> _Raw:
        """A frame of the codec, as users get it."""


class VideoPacketDecoder(_PacketDecoder[RawFrame]):
    """The codec of a stream of video: `Packet` in, `RawFrame` out. `VideoStream.make_decoder` makes it.

    It decodes what it is fed, with the codec's own concealment of damage, and knows neither which frames were asked for
    nor where they are; `VideoDecoder` does. `Demuxer.seek` does not touch it: call `reset` before a packet from behind
    one.

    Example:
        >>> from mediatensor.decoders import Demuxer
        >>> with Demuxer("video.mp4") as demuxer:
        ...     decoder = demuxer.streams[0].make_decoder()
        ...     frames = [frame for packet in demuxer for frame in decoder.decode(packet)]
        ...     frames += decoder.drain()
        ...     demuxer.seek(5.0)
        ...     decoder.reset()
        ...     after = [frame.pts_seconds for packet in demuxer for frame in decoder.decode(packet)]
        >>> len(frames), after[0]
        (300, 4.8)
    """

    _kind = "picture"
    _backend: str
    _device: torch.device
    _stated_orientation: Orientation | None

    def _raw(self, frame: Any) -> RawFrame:
        pts_seconds, duration_seconds = self._times(frame)
        return RawFrame._with(
            pts_seconds=pts_seconds,
            duration_seconds=duration_seconds,
            _picture=frame,
            _backend=self._backend,
            _device=self._device,
            _stated_orientation=self._stated_orientation,
        )


class AudioPacketDecoder(_PacketDecoder[RawAudioSamples]):
    """The codec of a stream of sound: `Packet` in, `RawAudioSamples` out. `AudioStream.make_decoder` makes it.

    After `Demuxer.seek` and `reset`, the first samples of most codecs are not quite right: feed some packets from
    before the place that you want, and leave out what comes of them. `AudioDecoder` knows how many each codec needs.

    Example:
        >>> from mediatensor.decoders import Demuxer
        >>> with Demuxer("video.mp4", streams="audio") as demuxer:
        ...     decoder = demuxer.streams[0].make_decoder()
        ...     samples = [sample for packet in demuxer for sample in decoder.decode(packet)] + decoder.drain()
        >>> decoder.reset()
        >>> samples[0].num_channels, round(sum(sample.duration_seconds for sample in samples), 1)
        (1, 10.0)
    """

    _kind = "sound"

    def _raw(self, frame: Any) -> RawAudioSamples:
        pts_seconds, _ = self._times(frame)
        return RawAudioSamples(
            torch.from_numpy(samples_of(frame)),
            int(frame.sample_rate),
            pts_seconds,
            frame.samples / frame.sample_rate,
            self._generation or 0,
            str(frame.layout.name),
        )
