"""Decoding the samples of a range: seek, feed, and say of each frame which samples of the stream it holds."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import accumulate, chain
from typing import Any

from .._common import stages
from .._containers import begins_file, id3_end
from .._pyav import AudioReader, SampleForm, UndecodablePacketError
from ..errors import DecodeError, StreamError
from .positions import (
    NUM_FRAMES_TO_FIT,
    PositionRule,
    adds_durations,
    fit_positions,
    has_clock,
    needs_fit,
    opus_pre_roll_length,
    pre_roll_length,
    predicts_without_end,
    renewal,
    seeks_exactly,
)

__all__ = ["MAX_JITTER_SECONDS", "AudioStream", "CountingNeededError", "Piece", "UnsteadyTimesError"]

# How much earlier to seek, in seconds, while the demuxer lands behind the packet that is wanted.
_STEPS_BACK_SECONDS = (0, 1, 4, 16, 64)

# The format that gives the last packet a shorter duration where the encoder filled it up.
_STATES_THE_END = "mov"

# Frames of the beginning by which to see whether time stamps tell samples.
_NUM_FRAMES_TO_CHECK = 8

# How far back a range may begin and still go on where the one before it ended.
_TRAIL_SECONDS = 10

# Formats of which FFmpeg takes tags and headers of further parts for packets.
_JOINED_BY_TAGS = frozenset(("aac", "flac", "mp3", "ogg"))

# The demuxer that takes the time of any packet it has read for that of the whole page; so it must not have read any.
_SEEKS_ONLY_WHEN_FRESH = "ogg"


# Time stamps that deviate by less than this from counting samples only jitter; those that leap further are followed.
MAX_JITTER_SECONDS = 0.05


class UnsteadyTimesError(Exception):
    """What was read lies elsewhere than was reckoned; asked for again, it is found another way."""


class CountingNeededError(UnsteadyTimesError):
    """Time stamps do not tell which samples these are; counting from the beginning of the stream does."""


#: (frame, position, first, last, origin): samples ``first`` to ``last`` of a decoded frame, of which the first is
#: sample ``position`` of the stream. Frames of another rate than the first one's make a section: it begins with sample
#: ``origin`` of the stream, and positions count from there at its own rate; elsewhere, ``origin`` is 0. A plain tuple,
#: because there are 150,000 in an hour.
Piece = tuple[Any, int, int, int, int]

#: Which samples of a section are wanted, given its origin and its rate.
SectionRange = Callable[[int, int], tuple[int, int | None]]


# A packet (``None`` at the end), its frames, and why it could not be decoded.
_Decoded = tuple[Any | None, list[Any], UndecodablePacketError | None]


class _Trail:
    """The last seconds of a decode from the beginning, so that a later range of a stream without seeking goes on there.

    Args:
        rest: What was not decoded yet.
        sample_rate: Of the stream.
    """

    def __init__(self, rest: Iterator[_Decoded], sample_rate: int) -> None:
        self._rest = rest
        self._length = _TRAIL_SECONDS * sample_rate
        self._items: deque[tuple[int, _Decoded]] = deque()

    @property
    def begin(self) -> int:
        """The sample from which on `again` has them."""
        return self._items[0][0] if self._items else 0

    def append(self, position: int, item: _Decoded) -> None:
        """Keep what was decoded next; its frames begin at a sample."""
        self._items.append((position, item))
        while position - self._items[0][0] > self._length:
            self._items.popleft()

    def again(self) -> Iterator[_Decoded]:
        """What is kept, and then the rest."""
        return chain([item for _, item in self._items], self._rest)


class _Section:
    """Frames of a rate that is not the stream's, see `Piece`.

    Args:
        origin: The sample of the stream with which it begins.
        rate: Samples per second.
        start: The first sample that is wanted.
        stop: One past the last; ``None`` for all.
    """

    def __init__(self, origin: int, rate: int, start: int, stop: int | None) -> None:
        self._origin = origin
        self.rate = rate
        self._start = start
        self._stop = stop
        self._length = 0

    def take(self, frame: Any) -> Piece:
        """What is wanted of the next frame."""
        position, num_samples = self._length, frame.samples
        self._length += num_samples
        first = max(0, self._start - position)
        last = num_samples if self._stop is None else max(first, min(num_samples, self._stop - position))
        return frame, position + first, first, last, self._origin

    def end(self, stream_rate: int) -> int:
        """The sample of the stream with which it ends."""
        return self._origin - (-self._length * stream_rate // self.rate)

    @property
    def is_complete(self) -> bool:
        return self._stop is not None and self._length >= self._stop


class _Border:
    """Tells what stands between joined files, and cannot be decoded, from damage.

    Tags are no sound. Neither is what cannot be decoded right in front of a tag or of a file's first frame, nor behind
    a tag up to the next frame: where a tag has a picture, FFmpeg finds frames in it.

    Args:
        format_name: FFmpeg's name of the demuxer.
    """

    def __init__(self, format_name: str) -> None:
        self._may_be = format_name in _JOINED_BY_TAGS
        self._kept: UndecodablePacketError | None = None
        self._is_behind_tag = False
        self._tag_end = 0

    def damage(self, packet: Any | None, error: UndecodablePacketError | None) -> UndecodablePacketError | None:
        """The error to raise, now that this packet came and met this error or none; ``None`` is the last packet."""
        if not self._may_be or (error is None and self._kept is None and not self._is_behind_tag):
            return error
        kept, self._kept = self._kept or error, None
        if packet is None:
            return None if self._is_behind_tag else kept
        data, position = bytes(packet), packet.pos or 0
        if begins_file(data):
            self._is_behind_tag, self._tag_end = True, max(self._tag_end, position + id3_end(data))
            return None
        if self._is_behind_tag:
            self._is_behind_tag = error is not None or position < self._tag_end
            return None
        if error is not None:
            self._kept = kept
            return None
        return kept


class AudioStream:
    """A stream that stands on an open reader.

    Args:
        reader: Nothing was read from it yet.
        counts: Decode every range from the beginning, whatever the time stamps say.
    """

    def __init__(self, reader: AudioReader, *, counts: bool = False) -> None:
        self.reader = reader
        self.codec = reader.codec_name
        self._time_base = reader.stream_info().time_base or Fraction(1)
        self._seeks_exactly = not counts and seeks_exactly(reader.format_name, self.codec)
        formats = reader.format_name.split(",")
        self._states_the_end = _STATES_THE_END in formats
        self._reopens_to_seek = _SEEKS_ONLY_WHEN_FRESH in formats or renewal(self.codec) == "reopen"
        self._form: SampleForm | None = None
        self._known_rule: PositionRule | None = None
        self._first_packet_pts = 0
        self._max_jitter = 0.0
        #: Whether the last range ended because the stream did.
        self.is_at_end = False
        # The first packets, decoded, and what comes after them, as long as nothing else was read.
        self._beginning: list[_Decoded] = []
        self._after_beginning: Iterator[_Decoded] | None = None
        self._trail: _Trail | None = None

    @property
    def form(self) -> SampleForm:
        """Rate and channels of the first frame.

        Raises:
            StreamError: if there is no frame.
        """
        self._look_at_beginning()
        assert self._form is not None
        return self._form

    @property
    def rule(self) -> PositionRule:
        """Which sample a frame begins with, by its time stamp."""
        self._look_at_beginning()
        return self._rule

    @property
    def _rule(self) -> PositionRule:
        assert self._known_rule is not None
        return self._known_rule

    @property
    def begin_seconds(self) -> float:
        """Time of sample 0."""
        return self.rule.begin_pts * self._time_base.numerator / self._time_base.denominator

    @property
    def delay_seconds(self) -> float:
        """How much earlier than sample 0 the first packet begins: what the encoder put in front of the sound."""
        return float(max(0, self.rule.begin_pts - self._first_packet_pts) * self._time_base)

    def pieces(self, start: int | None, stop: int | None, section_range: SectionRange) -> Iterator[Piece]:
        """The samples [start, stop) of the stream, in order.

        Args:
            start: The first sample; ``None`` for the beginning, with whatever time stamps it has.
            stop: One past the last; ``None`` for the end.
            section_range: Which samples those are where the rate is another.

        Raises:
            DecodeError: if a packet that holds wanted samples cannot be decoded.
            ReadError: if the source cannot be read.
            CountingNeededError: if the range has to be decoded from the beginning, by a stream that counts.
            UnsteadyTimesError: if a seek led elsewhere; ask again.
        """
        decoded, end = self._decoded_from(start)
        is_counted = end is not None
        rule = self._rule
        begin_pts, denominator = rule.begin_pts, rule.samples_per_tick.denominator
        numerator, max_jitter = rule.samples_per_tick.numerator, self._max_jitter
        last_packet: Any = None
        held_back: Piece | None = None
        is_complete = self.is_at_end = False
        stream_rate = self.form.sample_rate
        section: _Section | None = None
        border = _Border(self.reader.format_name)
        trail = None if self._seeks_exactly else _Trail(decoded, stream_rate)
        for packet, frames, error in decoded:
            if trail is not None:
                trail.append(end or 0, (packet, frames, error))
            if is_complete and packet is not None:
                break
            damage = border.damage(packet, error if self._is_wanted(packet, start, end) else None)
            if damage is not None:
                raise DecodeError(
                    f"The audio after sample {end or 0} could not be decoded ({damage}). The data is damaged; ranges "
                    "before and behind the damage can still be decoded."
                ) from damage
            last_packet = packet or last_packet
            for frame in frames:
                num_samples = frame.samples
                if frame.sample_rate != stream_rate:
                    if not is_counted:
                        raise CountingNeededError
                    trail = None  # it does not know where in a section it begins
                    if section is None or section.rate != frame.sample_rate:
                        section = _Section(end or 0, frame.sample_rate, *section_range(end or 0, frame.sample_rate))
                    piece = section.take(frame)
                    end = section.end(stream_rate)
                    is_complete = section.is_complete
                    if piece[2] < piece[3]:
                        if held_back is not None:
                            yield held_back
                        held_back = piece
                    continue
                section = None
                if end is None or not is_counted:
                    position = self._sought_position(frame, end, start)
                else:
                    position, pts = end, frame.pts
                    # Counted, unless time leaps.
                    if end and pts is not None and (pts - begin_pts) * numerator > (end + max_jitter) * denominator:
                        position = max(end, rule.position(pts))
                end = position + num_samples
                first = 0 if start is None or start <= position else start - position
                last = num_samples if stop is None or stop >= end else stop - position
                if first < last:
                    if held_back is not None:
                        yield held_back
                    held_back = frame, position + first, first, last, 0
            if is_complete or (section is None and stop is not None and end is not None and end >= stop):
                # The next packet is still looked for: if there is none, this one may be longer than the sound.
                is_complete = True
                if not self._states_the_end:
                    break
        else:
            self.is_at_end = True
            if held_back is not None:
                held_back = self._cut(held_back, self._end_stated_by(last_packet))
        self._trail = trail
        if held_back is not None and held_back[2] < held_back[3]:
            yield held_back

    def _sought_position(self, frame: Any, end: int | None, start: int | None) -> int:
        """The sample that a frame begins with, after a seek: what its time stamp says, if counting agrees."""
        if predicts_without_end(self.codec, self.reader.profile):
            raise CountingNeededError  # a stream may change its kind midway
        if frame.pts is None:
            if end is None:
                raise CountingNeededError
            return end or 0
        position, is_certain = self._rule.certain_position(frame.pts)
        if not is_certain:
            raise CountingNeededError
        if end is not None and position != end:
            # A leap in what only leads up to the range would have the codec start cold behind it.
            is_leap = position - end > self._max_jitter and start is not None and end >= start
            if not is_leap:
                raise CountingNeededError
        return position

    @staticmethod
    def _cut(piece: Piece, limit: int | None) -> Piece:
        """A piece up to a sample of the stream."""
        frame, position, first, last, origin = piece
        if limit is None or origin:
            return piece
        return frame, position, first, max(first, min(last, limit - position + first)), origin

    def _is_wanted(self, packet: Any, start: int | None, end: int | None) -> bool:
        """Whether a packet that cannot be decoded has to do with the range, and not only with what leads up to it."""
        if start is None or packet is None or packet.pts is None:
            return start is None or end is not None
        length = round((packet.duration or 0) * self._rule.samples_per_tick)
        return self._rule.position(packet.pts) + length > start

    def _end_stated_by(self, last_packet: Any | None) -> int | None:
        if not self._states_the_end or last_packet is None or last_packet.pts is None or not last_packet.duration:
            return None
        if needs_fit(self._rule.samples_per_tick):
            return None
        return self._rule.position(last_packet.pts + last_packet.duration)

    def use_threads(self, num_threads: int) -> None:
        """From now on decode with another number of threads."""
        if self.reader.use_threads(num_threads):
            self._beginning, self._after_beginning, self._trail = [], None, None

    # Where to begin

    def _decoded_from(self, start: int | None) -> tuple[Iterator[_Decoded], int | None]:
        """What is decoded for a range that begins with sample ``start``, and the sample it begins with, if known."""
        trail, self._trail = self._trail, None
        if start is None:
            return self._from_beginning(), 0
        if trail is not None and start >= trail.begin:
            return trail.again(), trail.begin
        lead_in = pre_roll_length(self.codec, self.form.sample_rate)
        while start > lead_in and self._seeks_exactly:
            with stages.SEEK:
                landed = self._seek(self.rule.pts_before(start - lead_in))
            if landed is None:
                break
            needed = opus_pre_roll_length(bytes(landed[0]), self.reader.extradata) if self.codec == "opus" else lead_in
            if needed <= lead_in:
                return self.reader.decoded(landed), None
            lead_in = needed
        return self._from_beginning(), 0

    def _seek(self, pts: int) -> list[Any] | None:
        """Two packets, the last one at or before a time stamp first; ``None`` if the demuxer cannot go there."""
        self._beginning, self._after_beginning = [], None
        for seconds in _STEPS_BACK_SECONDS:
            timestamp = pts - int(seconds / self._time_base)
            if timestamp <= self.rule.begin_pts:
                continue
            if self._reopens_to_seek:
                self.reader.reopen()
            if not self.reader.seek(timestamp):
                continue
            packet = self.reader.read_packet()
            if packet is not None and packet.pts is not None and packet.pts <= pts:
                if renewal(self.codec) == "codec":
                    self.reader.renew_codec()
                return self._skip_to(pts, packet)
        return None

    def _from_beginning(self) -> Iterator[_Decoded]:
        self._look_at_beginning()
        beginning, rest = self._beginning, self._after_beginning
        self._beginning, self._after_beginning = [], None
        if rest is None:
            self.reader.reopen()
            return self.reader.decoded(())
        return chain(beginning, rest)

    def _look_at_beginning(self) -> None:
        """Decode the first frames, to learn what they are and where they lie, and keep them."""
        if self._form is not None:
            return
        if not self.reader.is_fresh:
            self.reader.reopen()
        decoded = self.reader.decoded(())
        beginning: list[_Decoded] = []
        frames: list[Any] = []
        samples_per_tick = Fraction(1)
        num_wanted = 1
        for item in decoded:
            beginning.append(item)
            frames += item[1]
            if frames and self._form is None:
                self._form = SampleForm.of_frame(frames[0])
                samples_per_tick = self._form.sample_rate * self._time_base
                num_wanted = NUM_FRAMES_TO_FIT if needs_fit(samples_per_tick) else _NUM_FRAMES_TO_CHECK
            if len(frames) >= num_wanted:
                break
        if self._form is None:
            reasons = [str(error) for _, _, error in beginning if error is not None]
            raise StreamError(
                f"The audio stream has no frames that can be decoded ({reasons[0] if reasons else 'it is empty'})."
            )
        first_packet = beginning[0][0]
        first_pts = frames[0].pts
        if first_packet is not None and first_packet.pts is not None:
            self._first_packet_pts = first_packet.pts
        else:
            self._first_packet_pts = first_pts or 0
        has_times = first_pts is not None
        begin_pts = first_pts if has_times else self._first_packet_pts
        self._known_rule = _rule_of(frames, samples_per_tick, begin_pts, self.reader.format_name)
        # Where frames come without times, those that have one got it from some other packet.
        self._max_jitter = MAX_JITTER_SECONDS * self._form.sample_rate if has_times else math.inf
        self._seeks_exactly &= has_times and _are_counted_so(frames, self._known_rule)
        if not has_clock(self.reader.format_name) or self.reader.time_restarts:
            self._max_jitter = math.inf
        self._seeks_exactly &= not self.reader.time_restarts
        self._seeks_exactly &= not predicts_without_end(self.codec, self.reader.profile)
        self._beginning, self._after_beginning = beginning, decoded

    def _skip_to(self, pts: int, packet: Any) -> list[Any]:
        """The last packet, from ``packet`` on, that begins at or before a time stamp, and the one after it."""
        while (following := self.reader.read_packet()) is not None:
            if following.pts is None or following.pts > pts:
                return [packet, following]
            packet = following
        return [packet]


def _are_counted_so(frames: list[Any], rule: PositionRule) -> bool:
    """Whether the time stamps of the first frames say what counting their samples says."""
    starts = accumulate((frame.samples for frame in frames), initial=0)
    stamped = [(start, frame.pts) for start, frame in zip(starts, frames, strict=False) if frame.pts is not None]
    return all(rule.position(pts) == start for start, pts in stamped[1:])


def _rule_of(frames: list[Any], samples_per_tick: Fraction, begin_pts: int, format_name: str) -> PositionRule:
    """The rule that explains the first frames; ``begin_pts`` counts where they have no time stamps."""
    if any(frame.pts is None for frame in frames):
        return PositionRule(begin_pts, samples_per_tick)
    pts, lengths = [frame.pts for frame in frames], [frame.samples for frame in frames]
    return fit_positions(pts, lengths, samples_per_tick, adds_durations=adds_durations(format_name))
