"""Read and decode the packets that contain the samples of a plan, and cut the decoded frames to the plan's range."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, chain, islice
from typing import Any

from ...errors import DecodeError, StreamError
from ..common import stages
from ..containers.joined_files import begins_file, flac_num_samples, id3_end
from ..pyav.audio import AudioReader, SampleForm
from ..pyav.reading import UndecodablePacketError
from .plan import NUM_FRAMES_TO_FIT, SampleClock, SamplePlan, fit_clock, has_coarse_ticks
from .pre_roll import (
    AAC_CODECS,
    OPUS_STEPS_SECONDS,
    SUMMED_FORMATS,
    OpusMemory,
    begins_with_narrow_band,
    can_seek,
    has_unbounded_memory,
    is_exact_after_pre_roll,
    is_late_by_a_frame,
    needs_new_codec,
    pre_roll_length,
    stores_timestamps,
)
from .reader import DecodedPacket, UnknownPositionError

#: (frame, position, first, last, section_start): samples [first, last) of a decoded frame. Sample ``first`` of the
#: frame is sample ``position`` of the stream. Frames with another sample rate than the stream form a section. Sample
#: ``section_start`` of the stream is the first sample of the section, and ``position`` then counts samples of the
#: section. Outside sections, ``section_start`` is 0. This is a plain tuple for speed: an hour has 150,000 of them.
FrameSlice = tuple[Any, int, int, int, int]

# Smaller differences between time stamps and the sample count are jitter, larger ones are leaps in time.
MAX_JITTER_SECONDS = 0.05

# If a seek ends after the wanted packet, repeat it with a time that is earlier by this many seconds.
_STEPS_BACK_SECONDS = (0, 1, 4, 16, 64)

# This demuxer shortens the duration of the last packet to exclude the encoder's padding.
_STATES_THE_END = "mov"

# Once this demuxer has read a packet, it uses the packet's time for the whole page, so a seek needs a new demuxer.
_SEEKS_ONLY_WHEN_FRESH = "ogg"

# Number of first frames whose time stamps are compared with a count of samples.
_NUM_FRAMES_TO_CHECK = 8

# Largest size of the decoded frames that are kept when decoding from the beginning, so that the next range may start at
# one of them. A frame takes about `_FRAME_BYTES` for lists and objects, in addition to its samples.
_MAX_KEPT_BYTES = 8 << 20
_FRAME_BYTES = 1 << 11
_BYTES_PER_SAMPLE = 4

# In these formats, FFmpeg returns tags and the headers of joined files as packets.
_JOINED_BY_TAGS = frozenset(("aac", "flac", "mp3", "ogg"))


class AudioStream:
    """Decodes ranges of samples. ``reader`` must be new: nothing has been read from it yet.

    If ``is_sequential``, every range is decoded from the beginning, even if the format and codec allow seeking.
    """

    def __init__(self, reader: AudioReader, *, is_sequential: bool = False) -> None:
        self.reader = reader
        self.codec = reader.codec_name
        self.is_at_end = False
        self._time_base = reader.stream_info().time_base or Fraction(1)
        formats = reader.format_name.split(",")
        self._is_sequential = is_sequential
        self._can_seek = False  # known after the first frames
        self._states_the_end = _STATES_THE_END in formats
        self._needs_new_codec = needs_new_codec(self.codec)
        self._reopens_to_seek = _SEEKS_ONLY_WHEN_FRESH in formats
        # The last profile for which `has_unbounded_memory` returned False.
        self._bounded_profile: str | None = None
        self._has_profiles = self.codec in AAC_CODECS
        self._is_exact = is_exact_after_pre_roll(self.codec)
        # Lengths of pre-roll to try, in samples, in ascending order.
        self._pre_rolls: list[int] = []
        self._form: SampleForm | None = None
        self._clock: SampleClock | None = None
        self._first_packet_pts = 0
        self._max_jitter = 0.0
        self._is_gapless = False
        # The first decoded packets, and an iterator over the packets after them. Any other read discards both.
        self._beginning: list[DecodedPacket] = []
        self._after_beginning: Iterator[DecodedPacket] | None = None
        self._rewind: _RewindBuffer | None = None

    @property
    def form(self) -> SampleForm:
        """Sample rate and channels of the stream's first frame. Raises `StreamError` if no frame can be decoded."""
        if self._form is None:
            self._decode_beginning()
        assert self._form is not None
        return self._form

    @property
    def clock(self) -> SampleClock:
        if self._clock is None:
            self._decode_beginning()
        assert self._clock is not None
        return self._clock

    @property
    def begin_seconds(self) -> float:
        return self.clock.begin_pts * self._time_base.numerator / self._time_base.denominator

    @property
    def priming_seconds(self) -> float:
        """The encoder's delay: seconds from the start of the first packet to sample 0. This part is not played."""
        return float(max(0, self.clock.begin_pts - self._first_packet_pts) * self._time_base)

    def use_threads(self, num_threads: int) -> None:
        if self.reader.use_threads(num_threads):
            self._beginning, self._after_beginning, self._rewind = [], None, None

    def slices(self, plan: SamplePlan) -> Iterator[FrameSlice]:
        """Decode samples [plan.start, plan.stop) of the stream, and yield them as slices of decoded frames, in order.

        Raises `DecodeError` if a packet that contains samples of the range cannot be decoded. Raises
        `UnknownPositionError` if the range can only be found by decoding from the beginning, and `SeekMissedError` if a
        seek reached a different packet than expected.
        """
        start, stop = plan.start, plan.stop
        stream_rate = self.form.sample_rate
        decoded, end = self._decoded_from(start)
        is_counted = end is not None
        clock = self.clock
        begin_pts, (numerator, denominator), max_jitter = clock.begin_pts, clock.ratio, self._max_jitter
        last_packet: Any = None
        # The latest slice is held back, because the end of the stream may shorten it.
        held_back: FrameSlice | None = None
        is_complete = self.is_at_end = False
        section: _Section | None = None
        between_files = _BetweenFiles() if self.reader.format_name in _JOINED_BY_TAGS else None
        rewind, self._rewind = self._rewind, None
        for item in decoded:
            packet, frames, error = item
            if rewind is not None:
                rewind.note(end or 0, item)
            if is_complete and packet is not None:
                break
            if error is not None and not self._holds_wanted(packet, start, end):
                error = None
            if between_files is not None and (error is not None or between_files.is_active):
                error = between_files.damage(packet, error)
            if error is not None:
                # The codec may lack state from packets before the seek.
                if not is_counted and not self._is_exact:
                    raise UnknownPositionError
                raise DecodeError(_damage_after(end or 0, error)) from error
            last_packet = packet or last_packet
            for frame in frames:
                num_samples = frame.samples
                if frame.sample_rate != stream_rate:
                    if not is_counted:
                        raise UnknownPositionError
                    rewind = None  # its positions do not count the samples of sections
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
                    # Count samples, unless the time stamp shows a leap in time.
                    position = end or 0
                    if (
                        (position or self._is_gapless)
                        and pts is not None
                        and (pts - begin_pts) * numerator > (position + max_jitter) * denominator
                    ):
                        position = max(position, clock.position(pts))
                if self._is_gapless and end is None and start is not None and position > start:
                    raise UnknownPositionError  # the frame before may be missing
                if self._is_gapless and end is not None and pts not in self.reader.splices:
                    stated = position
                    if self.reader.numbers_frames:
                        stated = -1 if pts is None else clock.position(pts)
                    damage_end = position if position > end else position + num_samples
                    if stated != end and (start is None or start < damage_end):
                        raise DecodeError(_damage_after(end, "the number of a frame does not follow"))
                end = position + num_samples
                first = 0 if start is None or start <= position else start - position
                last = num_samples if stop is None or stop >= end else stop - position
                if first < last:
                    if held_back is not None:
                        yield held_back
                    held_back = frame, position + first, first, last, 0
            if is_complete or (section is None and stop is not None and end is not None and end >= stop):
                # Read one more packet. If there is none, the last packet may contain padding.
                is_complete = True
                if not self._states_the_end:
                    break
        else:
            self.is_at_end = True
            if self._is_gapless:
                if end is None:
                    raise UnknownPositionError
                if (stop is None or stop > end) and self._lacks_last_frame(end, last_packet):
                    raise DecodeError(_damage_after(end, "the last frame is damaged"))
            limit = self._stated_end(last_packet)
            if held_back is not None and limit is not None and not held_back[4]:
                frame, position, first, last, _ = held_back
                held_back = frame, position, first, min(last, limit - position + first), 0
        self._rewind = rewind
        if held_back is not None and held_back[2] < held_back[3]:
            yield held_back

    def _position_after_seek(self, clock: SampleClock, pts: int | None, end: int | None, start: int | None) -> int:
        """Return the number of a frame's first sample when samples have not been counted from the beginning.

        ``pts`` is the time stamp of the frame. ``end`` is the sample at which the previous frame ended, or ``None`` for
        the first frame after the seek. ``start`` is the first wanted sample. Raises `UnknownPositionError` if ``pts``
        and ``end`` contradict each other, or if neither determines the sample.
        """
        # The profile may change within a stream.
        if self._has_profiles and (profile := self.reader.profile) != self._bounded_profile:
            if has_unbounded_memory(self.codec, profile):
                raise UnknownPositionError
            self._bounded_profile = profile
        if pts is None:
            if end is None:
                raise UnknownPositionError
            return end
        position, is_certain = clock.certain_position(pts)
        if not is_certain:
            raise UnknownPositionError
        if end is not None and position != end:
            # A gap within the pre-roll is not accepted, because decoding would resume after it without pre-roll.
            is_leap = position - end > self._max_jitter and start is not None and end >= start
            if not is_leap:
                raise UnknownPositionError
        return position

    def _holds_wanted(self, packet: Any, start: int | None, end: int | None) -> bool:
        """Return whether an undecodable packet has samples of the range from ``start``, and not only of the pre-roll.

        ``end`` is the sample at which the last decoded frame ended.
        """
        if start is None or packet is None or packet.pts is None:
            return start is None or end is not None
        length = round((packet.duration or 0) * self.clock.samples_per_tick)
        return self.clock.position(packet.pts) + length > start

    def _lacks_last_frame(self, end: int, last_packet: Any | None) -> bool:
        """Return whether a FLAC file is damaged at its end, sample ``end``. A file that was cut off is not damaged."""
        if not self.reader.numbers_frames or last_packet is None or end >= flac_num_samples(self.reader.extradata):
            return False
        pts = last_packet.pts
        return self.reader.ends_within_frame or pts is None or self.clock.position(pts) >= end

    def _stated_end(self, last_packet: Any | None) -> int | None:
        """Return the sample at which the stream ends according to the duration of its last packet, if this is exact."""
        if not self._states_the_end or last_packet is None or last_packet.pts is None or not last_packet.duration:
            return None
        if has_coarse_ticks(self.clock.samples_per_tick):
            return None
        return self.clock.position(last_packet.pts + last_packet.duration)

    # Where to begin

    def _decoded_from(self, start: int | None) -> tuple[Iterator[DecodedPacket], int | None]:
        """Start decoding for a range that starts at sample ``start``. Return decoded packets, and their first sample.

        After a seek, this sample is ``None``, and the caller must derive it from time stamps.
        """
        if self._can_seek:
            packets = None if start is None else self._packets_before(start)
            if packets is not None:
                return self.reader.decoded(packets), None
            # A sequential stream reaches late ranges faster, because it keeps decoded frames.
            if start is not None and start > self._pre_rolls[0] + self.form.sample_rate:
                raise UnknownPositionError
            return self._from_beginning(), 0
        if self._rewind is None or start is None or start < self._rewind.begin:
            self._rewind = _RewindBuffer(self._from_beginning(), self.form.num_channels)
        return self._rewind.replay(start or 0)

    def _packets_before(self, start: int) -> Iterable[Any] | None:
        """Seek to the pre-roll of a range. Return the packets read while seeking, to be fed to the decoder first.

        Return ``None`` if seeking fails or the range starts too early for a pre-roll.
        """
        for pre_roll in self._pre_rolls:
            if start <= pre_roll:
                break
            with stages.SEEK:
                packets = self._seek(self.clock.pts_before(start - pre_roll))
            if packets is None:
                break
            if self.codec != "opus":
                return packets
            memory = OpusMemory(self.reader.extradata)
            if self._fills_memory(memory, packets, self.clock.pts_before(start)):
                return self._opus_packets(packets, memory)
        return None

    def _seek(self, pts: int) -> list[Any] | None:
        """Seek to the last packet whose time stamp is at most ``pts``. Return it and the next packet, if there is one.

        Return ``None`` if seeking fails.
        """
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
            if self._needs_new_codec:
                reader.renew_codec()
            while (following := reader.read_packet()) is not None:
                if following.pts is None or following.pts > pts:
                    return [packet, following]
                packet = following
            return [packet]
        return None

    def _fills_memory(self, memory: OpusMemory, packets: list[Any], pts: int) -> bool:
        """Append further Opus packets, up to time stamp ``pts``. Return whether a new decoder decodes the last one."""
        is_right = True
        for packet in packets:
            is_right = memory.take(bytes(packet))
        while packets[-1].pts is not None and packets[-1].pts < pts:
            packet = self.reader.read_packet()
            if packet is None:
                break
            packets.append(packet)
            is_right = memory.take(bytes(packet))
        return is_right

    def _opus_packets(self, packets: list[Any], memory: OpusMemory) -> Iterator[Any]:
        """Yield ``packets``, then read and yield more, until ``memory`` shows that a new decoder decodes correctly.

        Raises `UnknownPositionError` if the decoder would decode one of these further packets wrongly.
        """
        yield from packets
        while not memory.is_complete and (packet := self.reader.read_packet()) is not None:
            if not memory.take(bytes(packet)):
                raise UnknownPositionError
            yield packet

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
        """Decode and keep the first frames, which determine the sample form, the clock and the pre-rolls."""
        reader = self.reader
        reader.rewind()
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
        stamps, lengths = [frame.pts for frame in frames], [frame.samples for frame in frames]
        if reader.numbers_frames:
            clock = SampleClock(pts if pts in reader.splices else 0, samples_per_tick)
        elif None in stamps:
            clock = SampleClock(self._first_packet_pts if pts is None else pts, samples_per_tick)
        else:
            clock = fit_clock(stamps, lengths, samples_per_tick, sums_durations=reader.format_name in SUMMED_FORMATS)
        self._clock = clock
        # If the first frame has no time stamp, FFmpeg derived later time stamps from another packet.
        follows_leaps = pts is not None and stores_timestamps(reader.format_name) and not reader.time_restarts
        self._max_jitter = MAX_JITTER_SECONDS * self._form.sample_rate if follows_leaps else math.inf
        if is_late_by_a_frame(reader.format_name, self.codec):
            self._max_jitter += max(lengths)
        # After a seek, frames are placed by their time stamps, which must agree with a count of the first samples.
        has_places = (
            can_seek(reader.format_name, self.codec)
            and pts is not None
            and not reader.time_restarts
            and not has_unbounded_memory(self.codec, reader.profile)
            and not (self.codec == "opus" and packet is not None and begins_with_narrow_band(bytes(packet)))
            and all(
                clock.position(stamp) == start
                for start, stamp in zip(accumulate(lengths), stamps[1:], strict=False)
                if stamp is not None
            )
        )
        self._is_gapless = pts is not None and (reader.numbers_frames or (has_places and reader.format_name == "flac"))
        if (has_places and follows_leaps) or self._is_gapless:
            # Without a seek, do not count over lost packets either, so that both ways place samples alike.
            self._max_jitter = min(self._max_jitter, max(lengths) / 2 + clock.tolerance)
        self._can_seek = has_places and not self._is_sequential
        rate = self._form.sample_rate
        self._pre_rolls = [pre_roll_length(self.codec, rate)]
        if self.codec == "opus":
            self._pre_rolls = [round(seconds * rate) for seconds in OPUS_STEPS_SECONDS]
        self._beginning, self._after_beginning = beginning, decoded


def _damage_after(end: int, reason: object) -> str:
    return (
        f"The audio after sample {end} could not be decoded ({reason}). The data is damaged; ranges before and after "
        "the damage can still be decoded."
    )


class _RewindBuffer:
    """Keeps the latest frames of a stream that is decoded from the beginning, in case the next range starts there."""

    def __init__(self, decoded: Iterator[DecodedPacket], num_channels: int) -> None:
        self._decoded = decoded
        self._sample_bytes = _BYTES_PER_SAMPLE * num_channels
        # (first sample, size in bytes, decoded packet)
        self._items: deque[tuple[int, int, DecodedPacket]] = deque()
        self._num_bytes = 0
        self._num_replayed = 0

    @property
    def begin(self) -> int:
        return self._items[0][0] if self._items else 0

    def replay(self, start: int) -> tuple[Iterator[DecodedPacket], int]:
        """Return the decoded packets from sample ``start`` on, each to be passed to `note`, and their first sample."""
        first, self._num_replayed = self.begin, 0
        for position, _, _ in reversed(self._items):
            self._num_replayed += 1
            if position <= start:
                first = position
                break
        kept = islice(self._items, len(self._items) - self._num_replayed, None)
        return chain([item for _, _, item in kept], self._decoded), first

    def note(self, position: int, item: DecodedPacket) -> None:
        """Store a decoded packet whose first sample is ``position``, unless `replay` took it from this buffer."""
        if self._num_replayed:
            self._num_replayed -= 1
            return
        num_bytes = sum(frame.samples * self._sample_bytes + _FRAME_BYTES for frame in item[1])
        self._items.append((position, num_bytes, item))
        self._num_bytes += num_bytes
        while self._num_bytes > _MAX_KEPT_BYTES and len(self._items) > 1:
            self._num_bytes -= self._items.popleft()[1]


@dataclass
class _Section:
    """Consecutive frames whose sample rate differs from the stream's; see `FrameSlice`."""

    section_start: int  # the sample of the stream at which the section starts
    rate: int  # samples per second
    start: int  # the first wanted sample, counted from the section's start
    stop: int | None  # one past the last wanted sample
    length: int = 0

    def take(self, frame: Any) -> FrameSlice:
        """Count the samples of the section's next frame. Return the wanted ones as a slice, which can be empty."""
        position, num_samples = self.length, frame.samples
        self.length += num_samples
        first = max(0, self.start - position)
        last = num_samples if self.stop is None else max(first, min(num_samples, self.stop - position))
        return frame, position + first, first, last, self.section_start

    def end(self, stream_rate: int) -> int:
        return self.section_start - (-self.length * stream_rate // self.rate)

    @property
    def is_complete(self) -> bool:
        return self.stop is not None and self.length >= self.stop


class _BetweenFiles:
    """Decides, in a joined file, whether undecodable data between two audio frames are damage.

    FFmpeg returns the tags and file headers between joined files as packets. These packets are not damage. Undecodable
    data are not damage either if they are directly before a tag or a file header, or between a tag and the next frame.
    For example, FFmpeg finds such data in images within tags.
    """

    def __init__(self) -> None:
        self._kept: UndecodablePacketError | None = None
        self._is_behind_tag = False
        self._tag_end = 0
        #: Whether `damage` must also be called for packets without an error.
        self.is_active = False

    def damage(self, packet: Any | None, error: UndecodablePacketError | None) -> UndecodablePacketError | None:
        """Take the next packet and its decoding error. Return the error to raise, or ``None``.

        Only the next packet shows whether an error is damage, so the returned error can be the previous packet's.
        ``packet`` is ``None`` at the end of the file.
        """
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
            # Whether this is damage depends on the next packet, which may start a tag or a file.
            self._kept, found = found, None
        self.is_active = self._kept is not None or self._is_behind_tag
        return found
