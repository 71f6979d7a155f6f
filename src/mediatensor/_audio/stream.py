"""Decoding the samples of a plan: seek, demux, decode, and cut the frames to what is wanted."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate, chain
from typing import Any

from .._common import stages
from .._containers import begins_file, id3_end
from .._pyav import AudioReader, SampleForm, UndecodablePacketError
from ..errors import DecodeError, StreamError
from .plan import SamplePlan
from .pre_roll import (
    can_seek,
    can_use_long_prediction,
    has_long_prediction,
    has_timestamps,
    opus_pre_roll_length,
    pre_roll_length,
    reset_method,
    sums_durations,
)
from .reader import DecodedPacket, UnknownPositionError
from .sample_clock import NUM_FRAMES_TO_FIT, SampleClock, fit_clock, has_coarse_ticks

__all__ = ["MAX_JITTER_SECONDS", "AudioStream", "FrameSlice"]

#: (frame, position, first, last, section_start): samples ``first`` to ``last`` of a decoded frame; the first of them is
#: sample ``position`` of the stream. Frames of another sample rate than the stream's make a section: ``section_start``
#: is the sample of the stream with which it begins, and ``position`` counts from there at the section's own rate.
#: Elsewhere ``section_start`` is 0. A plain tuple, because there are 150,000 in an hour.
FrameSlice = tuple[Any, int, int, int, int]

# Time stamps that deviate by less than this from counting samples are jitter; those that leap further are followed.
MAX_JITTER_SECONDS = 0.05

# How much earlier to seek, in seconds, as long as the demuxer lands behind the packet that is wanted.
_STEPS_BACK_SECONDS = (0, 1, 4, 16, 64)

# The demuxer that gives the last packet a shorter duration where the encoder padded it.
_STATES_THE_END = "mov"

# The demuxer that takes the time of any packet it has read for that of the whole page; so it must not have read any.
_SEEKS_ONLY_WHEN_FRESH = "ogg"

# How many of the first frames show whether time stamps agree with counting samples.
_NUM_FRAMES_TO_CHECK = 8

# How much of a decode from the beginning is kept, so that the next range may begin that much before its end.
_KEPT_SECONDS = 10

# Formats in which FFmpeg takes tags and headers of further parts for packets.
_JOINED_BY_TAGS = frozenset(("aac", "flac", "mp3", "ogg"))


class AudioStream:
    """A stream that stands on an open reader.

    Args:
        reader: Nothing was read from it yet.
        is_sequential: Decode every range from the beginning, whatever the time stamps say.

    Attributes:
        codec: FFmpeg's name of the decoder.
        is_at_end: Whether the last range ended because the stream did.
    """

    def __init__(self, reader: AudioReader, *, is_sequential: bool = False) -> None:
        self.reader = reader
        self.codec = reader.codec_name
        self.is_at_end = False
        self._time_base = reader.stream_info().time_base or Fraction(1)
        formats = reader.format_name.split(",")
        self._can_seek = not is_sequential and can_seek(reader.format_name, self.codec)
        self._states_the_end = _STATES_THE_END in formats
        self._reset_method = reset_method(self.codec)
        self._reopens_to_seek = _SEEKS_ONLY_WHEN_FRESH in formats or self._reset_method == "reopen"
        # The profile that was last found to have no long prediction.
        self._fading_profile: str | None = None
        self._can_use_long_prediction = can_use_long_prediction(self.codec)
        self._form: SampleForm | None = None
        self._clock: SampleClock | None = None
        self._first_packet_pts = 0
        self._max_jitter = 0.0
        # The first packets, decoded, and what comes after them, as long as nothing else was read.
        self._beginning: list[DecodedPacket] = []
        self._after_beginning: Iterator[DecodedPacket] | None = None
        self._rewind: _RewindBuffer | None = None

    @property
    def form(self) -> SampleForm:
        """Rate and channels of the first frame.

        Raises:
            StreamError: if there is no frame.
        """
        if self._form is None:
            self._decode_beginning()
        assert self._form is not None
        return self._form

    @property
    def clock(self) -> SampleClock:
        """Which sample a frame begins with, by its time stamp."""
        if self._clock is None:
            self._decode_beginning()
        assert self._clock is not None
        return self._clock

    @property
    def begin_seconds(self) -> float:
        """Time of sample 0."""
        return self.clock.begin_pts * self._time_base.numerator / self._time_base.denominator

    @property
    def priming_seconds(self) -> float:
        """How much earlier than sample 0 the first packet begins: the encoder's delay, which is not played."""
        return float(max(0, self.clock.begin_pts - self._first_packet_pts) * self._time_base)

    def use_threads(self, num_threads: int) -> None:
        """From now on decode with another number of threads."""
        if self.reader.use_threads(num_threads):
            self._beginning, self._after_beginning, self._rewind = [], None, None

    def slices(self, plan: SamplePlan) -> Iterator[FrameSlice]:
        """The samples [plan.start, plan.stop) of the stream, in order.

        Raises:
            DecodeError: if a packet that holds wanted samples cannot be decoded.
            ReadError: if the source cannot be read.
            UnknownPositionError: if the range has to be decoded from the beginning, by a sequential stream.
            SeekMissedError: if a seek led elsewhere; ask again.
        """
        start, stop = plan.start, plan.stop
        stream_rate = self.form.sample_rate
        decoded, end = self._decoded_from(start)
        is_counted = end is not None
        clock = self.clock
        begin_pts, (numerator, denominator), max_jitter = clock.begin_pts, clock.ratio, self._max_jitter
        last_packet: Any = None
        # The last slice, which is cut where the stream ends.
        held_back: FrameSlice | None = None
        is_complete = self.is_at_end = False
        section: _Section | None = None
        between_files = _BetweenFiles() if self.reader.format_name in _JOINED_BY_TAGS else None
        rewind = None if self._can_seek else _RewindBuffer(decoded, stream_rate)
        for item in decoded:
            packet, frames, error = item
            if rewind is not None:
                rewind.append(end or 0, item)
            if is_complete and packet is not None:
                break
            if error is not None and not self._holds_wanted(packet, start, end):
                error = None
            if between_files is not None and (error is not None or between_files.is_active):
                error = between_files.damage(packet, error)
            if error is not None:
                raise DecodeError(
                    f"The audio after sample {end or 0} could not be decoded ({error}). The data is damaged; ranges "
                    "before and behind the damage can still be decoded."
                ) from error
            last_packet = packet or last_packet
            for frame in frames:
                num_samples = frame.samples
                if frame.sample_rate != stream_rate:
                    if not is_counted:
                        raise UnknownPositionError
                    rewind = None  # it does not know where in a section it begins
                    if section is None or section.rate != frame.sample_rate:
                        wanted = plan.section_range(end or 0, frame.sample_rate)
                        section = _Section(end or 0, frame.sample_rate, *wanted)
                    found = section.take(frame)
                    end = section.end(stream_rate)
                    is_complete = section.is_complete
                    if found[2] < found[3]:
                        if held_back is not None:
                            yield held_back
                        held_back = found
                    continue
                section = None
                pts = frame.pts
                if not is_counted:
                    position = self._position_after_seek(clock, pts, end, start)
                else:
                    # Counted, unless time leaps.
                    position = end or 0
                    if end and pts is not None and (pts - begin_pts) * numerator > (end + max_jitter) * denominator:
                        position = max(end, clock.position(pts))
                end = position + num_samples
                first = 0 if start is None or start <= position else start - position
                last = num_samples if stop is None or stop >= end else stop - position
                if first < last:
                    if held_back is not None:
                        yield held_back
                    held_back = frame, position + first, first, last, 0
            if is_complete or (section is None and stop is not None and end is not None and end >= stop):
                # One packet more: if there is none, this one may be longer than the sound.
                is_complete = True
                if not self._states_the_end:
                    break
        else:
            self.is_at_end = True
            limit = self._stated_end(last_packet)
            if held_back is not None and limit is not None and not held_back[4]:
                frame, position, first, last, _ = held_back
                held_back = frame, position, first, min(last, limit - position + first), 0
        self._rewind = rewind
        if held_back is not None and held_back[2] < held_back[3]:
            yield held_back

    def _position_after_seek(self, clock: SampleClock, pts: int | None, end: int | None, start: int | None) -> int:
        """The sample that a frame begins with: what its time stamp says, if that agrees with counting from ``end``."""
        # A stream may change its profile midway.
        if self._can_use_long_prediction and (profile := self.reader.profile) != self._fading_profile:
            if has_long_prediction(self.codec, profile):
                raise UnknownPositionError
            self._fading_profile = profile
        if pts is None:
            if end is None:
                raise UnknownPositionError
            return end
        position, is_certain = clock.certain_position(pts)
        if not is_certain:
            raise UnknownPositionError
        if end is not None and position != end:
            # A leap within the pre-roll does not count: the codec would start cold behind it.
            is_leap = position - end > self._max_jitter and start is not None and end >= start
            if not is_leap:
                raise UnknownPositionError
        return position

    def _holds_wanted(self, packet: Any, start: int | None, end: int | None) -> bool:
        """Whether a packet that cannot be decoded belongs to the range, and not only to its pre-roll."""
        if start is None or packet is None or packet.pts is None:
            return start is None or end is not None
        length = round((packet.duration or 0) * self.clock.samples_per_tick)
        return self.clock.position(packet.pts) + length > start

    def _stated_end(self, last_packet: Any | None) -> int | None:
        """The sample with which the stream ends, if the duration of its last packet says so."""
        if not self._states_the_end or last_packet is None or last_packet.pts is None or not last_packet.duration:
            return None
        if has_coarse_ticks(self.clock.samples_per_tick):
            return None
        return self.clock.position(last_packet.pts + last_packet.duration)

    # Where to begin

    def _decoded_from(self, start: int | None) -> tuple[Iterator[DecodedPacket], int | None]:
        """The frames to decode for a range that begins with sample ``start``, and their first sample, if known."""
        rewind, self._rewind = self._rewind, None
        if start is not None:
            if rewind is not None and start >= rewind.begin:
                return rewind.replay(), rewind.begin
            pre_roll = pre_roll_length(self.codec, self.form.sample_rate)
            while self._can_seek and start > pre_roll:
                with stages.SEEK:
                    packets = self._seek(self.clock.pts_before(start - pre_roll))
                if packets is None:
                    break
                needed = pre_roll
                if self.codec == "opus":
                    needed = opus_pre_roll_length(bytes(packets[0]), self.reader.extradata)
                if needed <= pre_roll:
                    return self.reader.decoded(packets), None
                pre_roll = needed
        return self._from_beginning(), 0

    def _seek(self, pts: int) -> list[Any] | None:
        """The last packet at or before a time stamp, and the one after it; ``None`` if the demuxer cannot go there."""
        self._beginning, self._after_beginning = [], None
        reader = self.reader
        for seconds in _STEPS_BACK_SECONDS:
            timestamp = pts - int(seconds / self._time_base) if seconds else pts
            if timestamp <= self.clock.begin_pts:
                continue
            if self._reopens_to_seek:
                reader.reopen()
            if not reader.seek(timestamp):
                continue
            packet = reader.read_packet()
            if packet is None or packet.pts is None or packet.pts > pts:
                continue
            if self._reset_method == "new_codec":
                reader.renew_codec()
            while (following := reader.read_packet()) is not None:
                if following.pts is None or following.pts > pts:
                    return [packet, following]
                packet = following
            return [packet]
        return None

    def _from_beginning(self) -> Iterator[DecodedPacket]:
        if self._form is None:
            self._decode_beginning()
        beginning, rest = self._beginning, self._after_beginning
        self._beginning, self._after_beginning = [], None
        if rest is None:
            self.reader.reopen()
            return self.reader.decoded(())
        return chain(beginning, rest)

    def _decode_beginning(self) -> None:
        """Decode the first frames, to learn their form and their time stamps, and keep them."""
        reader = self.reader
        if not reader.is_fresh:
            reader.reopen()
        decoded = reader.decoded(())
        beginning: list[DecodedPacket] = []
        frames: list[Any] = []
        samples_per_tick = Fraction(1)
        num_wanted = 1
        for item in decoded:
            beginning.append(item)
            frames += item[1]
            if frames and self._form is None:
                self._form = SampleForm.of_frame(frames[0])
                samples_per_tick = self._form.sample_rate * self._time_base
                num_wanted = NUM_FRAMES_TO_FIT if has_coarse_ticks(samples_per_tick) else _NUM_FRAMES_TO_CHECK
            if len(frames) >= num_wanted:
                break
        if self._form is None:
            reasons = [str(error) for _, _, error in beginning if error is not None]
            raise StreamError(
                f"The audio stream has no frames that can be decoded ({reasons[0] if reasons else 'it is empty'})."
            )
        packet, pts = beginning[0][0], frames[0].pts
        self._first_packet_pts = (pts or 0) if packet is None or packet.pts is None else packet.pts
        self._clock = clock = _clock_of(
            frames, samples_per_tick, self._first_packet_pts if pts is None else pts, reader.format_name
        )
        # Where the first frame has no time stamp, those that have one got it from another packet.
        follows_leaps = pts is not None and has_timestamps(reader.format_name) and not reader.time_restarts
        self._max_jitter = MAX_JITTER_SECONDS * self._form.sample_rate if follows_leaps else math.inf
        self._can_seek = (
            self._can_seek
            and pts is not None
            and not reader.time_restarts
            and not has_long_prediction(self.codec, reader.profile)
            and _agrees_with_counting(frames, clock)
        )
        self._beginning, self._after_beginning = beginning, decoded


def _clock_of(frames: list[Any], samples_per_tick: Fraction, begin_pts: int, format_name: str) -> SampleClock:
    """The clock of a stream by its first frames, which begin at ``begin_pts``."""
    pts, lengths = [frame.pts for frame in frames], [frame.samples for frame in frames]
    if None in pts:
        return SampleClock(begin_pts, samples_per_tick)
    return fit_clock(pts, lengths, samples_per_tick, sums_durations=sums_durations(format_name))


def _agrees_with_counting(frames: list[Any], clock: SampleClock) -> bool:
    """Whether the time stamps of the first frames mean the same samples as counting their samples."""
    starts = accumulate((frame.samples for frame in frames), initial=0)
    stamped = [(start, frame.pts) for start, frame in zip(starts, frames, strict=False) if frame.pts is not None]
    return all(clock.position(pts) == start for start, pts in stamped[1:])


class _RewindBuffer:
    """The last seconds of a decode from the beginning, so that a later range goes on there instead of starting over.

    Args:
        rest: What was not decoded yet.
        sample_rate: Of the stream.
    """

    def __init__(self, rest: Iterator[DecodedPacket], sample_rate: int) -> None:
        self._rest = rest
        self._length = _KEPT_SECONDS * sample_rate
        self._items: deque[tuple[int, DecodedPacket]] = deque()

    @property
    def begin(self) -> int:
        """The first sample that `replay` has."""
        return self._items[0][0] if self._items else 0

    def append(self, position: int, item: DecodedPacket) -> None:
        """Keep what was decoded next; its frames begin at a sample."""
        self._items.append((position, item))
        while position - self._items[0][0] > self._length:
            self._items.popleft()

    def replay(self) -> Iterator[DecodedPacket]:
        """The frames that are kept, and then the rest."""
        return chain([item for _, item in self._items], self._rest)


class _Section:
    """Consecutive frames whose sample rate is not the stream's, see `FrameSlice`.

    Args:
        section_start: The sample of the stream with which it begins.
        rate: Samples per second.
        start: The first sample that is wanted, counted in the section.
        stop: One past the last; ``None`` for all.
    """

    def __init__(self, section_start: int, rate: int, start: int, stop: int | None) -> None:
        self._section_start = section_start
        self.rate = rate
        self._start = start
        self._stop = stop
        self._length = 0

    def take(self, frame: Any) -> FrameSlice:
        """The part of the next frame that is wanted."""
        position, num_samples = self._length, frame.samples
        self._length += num_samples
        first = max(0, self._start - position)
        last = num_samples if self._stop is None else max(first, min(num_samples, self._stop - position))
        return frame, position + first, first, last, self._section_start

    def end(self, stream_rate: int) -> int:
        """The sample of the stream with which it ends."""
        return self._section_start - (-self._length * stream_rate // self.rate)

    @property
    def is_complete(self) -> bool:
        return self._stop is not None and self._length >= self._stop


class _BetweenFiles:
    """Tells damage from what stands between joined files and cannot be decoded either.

    Tags are no sound. Neither is what cannot be decoded right before a tag or before the first frame of a file, nor
    what comes between a tag and the next frame: FFmpeg finds frames in a picture that a tag holds.
    """

    def __init__(self) -> None:
        self._kept: UndecodablePacketError | None = None
        self._is_behind_tag = False
        self._tag_end = 0
        #: Whether packets without an error matter, too.
        self.is_active = False

    def damage(self, packet: Any | None, error: UndecodablePacketError | None) -> UndecodablePacketError | None:
        """The error to raise after a packet (``None`` at the end), which met this error or none."""
        found = self._kept or error
        self._kept = None
        data = b"" if packet is None else bytes(packet)
        position = 0 if packet is None else packet.pos or 0
        if packet is None:
            found = None if self._is_behind_tag else found
        elif begins_file(data):
            self._is_behind_tag, self._tag_end = True, max(self._tag_end, position + id3_end(data))
            found = None
        elif self._is_behind_tag:
            self._is_behind_tag = error is not None or position < self._tag_end
            found = None
        elif error is not None:
            # Only the next packet tells whether a tag or a file begins there.
            self._kept, found = found, None
        self.is_active = self._kept is not None or self._is_behind_tag
        return found
