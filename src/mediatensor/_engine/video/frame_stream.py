"""Execute a plan: seek, feed packets, drain the codec, and yield exactly the wanted pictures.

Decoding all packets in order, from the first to the last, is called a linear decode. The place of a frame is its
position in the output of a linear decode. After a seek, a `_FrameMatcher` finds the place of each picture that comes
out of the codec. How it does so depends on how the index was made::

    from packets             the pts of each picture must be the next pts in the index, else `IndexMismatchError`
    by a linear decode       pts and fingerprint must equal those of a frame that the linear decode recorded
    from the user's table    the pts must be in the table; other pictures are dropped

If this fails for an index made by a linear decode, decoding restarts at the first packet, and pictures are counted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from ...errors import DecodeError, DeviceError
from ..common import stages
from ..containers.sample_tables import NO_PTS
from ..index.frame_index import MAX_DELAY_PACKETS, FrameIndex
from ..pyav.pixels import fingerprint
from ..pyav.reading import UndecodablePacketError, VideoReader, is_key_frame
from .packet_feed import DamagedPacketError, IndexMismatchError, PacketFeed
from .plan import Segment, make_plan

# Several small frames are decoded before the first of them is converted. The interpreter is then faster, because less
# of its code and data has left the processor's caches. At 320x180, 100 frames in one call take 13.9 ms of CPU time if
# they are decoded one at a time, 12.6 ms with up to 4 at a time, and 12.5 ms with up to 8 or 16. Read frame by frame, a
# frame takes 198 us if one is decoded at a time, 191 us with up to 4, and 189 us with up to 8 or 16. At 960x540 there
# is no gain. A caller that reads frame by frame gets one more frame at a time after each _STEPS_PER_FRAME steps, so
# that little is decoded in vain if the caller then jumps.
_MAX_AHEAD, _MAX_AHEAD_PIXELS, _STEPS_PER_FRAME = 8, 1 << 20, 4

# Decoding up to this many seconds of unwanted frames is assumed to be cheaper than a seek.
_MAX_SKIPPED_SECONDS = 1.0
# Distances before the target to seek to, tried in turn until a seek ends at or before the target.
_BACK_OFF_SECONDS = (0.0, 1.0, 4.0, 16.0)


class MissingFrameError(Exception):
    """The codec did not return an expected frame. ``place`` is the number of this frame in the index."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


class FrameStream:
    """Decodes pictures by the number (place) of their frame. ``reader`` must be at the beginning of the stream."""

    def __init__(self, reader: VideoReader, num_threads: int, *, decodes_in_software: bool = True) -> None:
        self.reader = reader
        self.decodes_in_software = decodes_in_software
        #: Place of the next picture that comes out; ``None`` before the first start and after a failure.
        self.position: int | None = None
        #: Whether the caller may keep the last picture while further ones are decoded.
        self.may_keep = True
        self._num_threads = num_threads
        self._feed = PacketFeed(reader)
        # `_start_at_key_frame` replaces it with the method of the current decoder, which saves a call per packet.
        self._decode: Callable[[Any | None], Sequence[Any]] = reader.decode
        # Pictures that have come out of the codec but have not been yielded, whether all packets have been fed, and the
        # error of the packets after these pictures.
        self._pictures: list[Any] = []
        self._is_at_end = False
        self._error: Exception | None = None
        # How many times in succession `next_picture` was called, and how many pictures it may decode at a time.
        self._num_steps = 0
        self._max_ahead = min(_MAX_AHEAD, _MAX_AHEAD_PIXELS // max(1, reader.num_pixels)) if decodes_in_software else 1
        self._index: FrameIndex | None = None
        # The check for the index, and the current check. They differ in segments that count pictures instead.
        self._index_matcher: _FrameMatcher = _CountingMatcher()
        self._checks_later_flags = False
        self._matcher: _FrameMatcher = self._index_matcher
        # Number of starts of the current segment, and key frames that decoding must not start from.
        self._num_starts = 0
        self._useless_key_frames: set[int] = set()

    # Interface for batches

    def plan(self, index: FrameIndex, places: Sequence[int], *, drains: bool = False) -> list[Segment]:
        """Return the segments to decode in order to get the frames at ``places`` (ascending, without duplicates).

        The plan takes the codec's current position into account. With ``drains``, the codec is drained after the last
        frame.
        """
        if index is not self._index:
            self._use_index(index)
        if len(places) == 1 and places[0] == self.position:
            return [Segment(None, (places[0],), drains and self.reader.exports is None)]
        max_skipped = self.reader.reorder_depth + max(0, self._num_threads - 1)
        segments = make_plan(index, places, self.position, max_skipped, drains=drains)
        if self.reader.exports is not None:
            # MPEG decoders export nothing about a picture that comes out because they are drained.
            for segment in segments:
                segment.drains = False
        return segments

    def run(self, index: FrameIndex, segments: Iterable[Segment]) -> Iterator[tuple[int, Any]]:
        """Decode ``segments``; yield (place, picture) for each wanted frame.

        At most `_MAX_AHEAD` pictures exist that have not been yielded. If the index was made from packets and the
        pictures contradict it, raises `IndexMismatchError`. If a device decodes, `DeviceError` is raised instead,
        because only a software decoder can prove the index wrong. For all other indexes, raises `MissingFrameError` if
        a wanted frame does not come out of the codec.
        """
        if index is not self._index:
            self._use_index(index)
        self.reader.source.check_unchanged()
        self._num_steps = 0
        for segment in segments:
            wanted = set(segment.places)
            self._begin_segment(segment, wanted)
            while wanted:
                mismatch = None
                try:
                    found = self._next(wanted, segment.places[-1])
                except IndexMismatchError as error:
                    found, mismatch = None, error
                if found is not None:
                    wanted.remove(found[0])
                    self.may_keep = not (self._matcher.counts_pictures and wanted)
                    yield found
                    del found  # release the codec's buffer before the next picture is decoded
                elif not self._start_elsewhere(index, segment, wanted, mismatch):
                    self.position = None
                    raise MissingFrameError(min(wanted))
            if self._checks_later_flags and segment.drains:
                self._decode_ahead(MAX_DELAY_PACKETS)  # drains the codec
                if any(picture.is_corrupt for picture in self._pictures):
                    raise IndexMismatchError("frames that the codec flags as damaged")
                self._pictures = []
            self.may_keep = True
            if self._matcher is not self._index_matcher:
                self._matcher = self._index_matcher  # this also releases the last picture
            if self._is_at_end:
                self.position = None

    def next_picture(self, index: FrameIndex, place: int) -> Any | None:
        """Return the picture at ``place`` if the codec returns it next. This is a fast path for frame-by-frame reading.

        Return ``None`` if the codec is at another position, or if its output contradicts the index. Then use `run`.
        """
        if self.position != place or index is not self._index or not self._matcher.is_of_packets:
            return None
        if not self._feed.returns_all:
            self._feed.continue_with(None)
        if not self._pictures:
            self.reader.source.check_unchanged()
        self._num_steps += 1
        try:
            found = self._next((place,), place - 1 + self._num_steps // _STEPS_PER_FRAME)
        except IndexMismatchError:
            found = None
        if found is None:
            self.position = None
            return None
        return found[1]

    def use_threads(self, num_threads: int) -> None:
        if num_threads == self._num_threads or not self.reader.is_strict:
            return  # a lenient codec has one thread, because concealment depends on that
        self._num_threads = num_threads
        if self.reader.use_threads(num_threads):
            self.reset()

    @property
    def num_codec_threads(self) -> int | None:
        """Number of threads of the codec; ``None`` if the codec is not open."""
        return self._num_threads if self.reader.is_codec_open else None

    def reset(self) -> None:
        """Discard the position of the codec, so that the next call seeks. Call this after moving the reader."""
        self.position = None
        self._pictures, self._error = [], None

    # Starting, and starting again after a failure

    def _use_index(self, index: FrameIndex) -> None:
        is_of_packets = not (index.settled or index.is_authoritative)
        self._index = index
        self._feed.choose_by(index, checks_packets=is_of_packets)
        self.position = None
        self._useless_key_frames = set()
        if is_of_packets:
            self._index_matcher = _PacketMatcher(index, self._feed)
        elif index.settled:
            self._index_matcher = _LinearMatcher(index)
        else:
            self._index_matcher = _TableMatcher(index)
        self._matcher = self._index_matcher
        # An H.264 frame can refer to a damaged picture that is shown later, and only that picture is flagged.
        self._checks_later_flags = is_of_packets and self.decodes_in_software and self._feed.codec == "h264"
        if self.decodes_in_software:
            if not is_of_packets:
                self.reader.decode_leniently()
        elif index.settled:
            raise DeviceError(
                f"The packets do not show which frames there are ({'; '.join(index.anomalies)}), so that decoded "
                "frames must be compared with the output of a software decoder."
            )

    def _begin_segment(self, segment: Segment, wanted: set[int]) -> None:
        self._matcher = self._index_matcher
        self._num_starts = 1
        key_frame = segment.key_frame
        if key_frame is None:
            self._feed.continue_with(segment)
            return
        while key_frame in self._useless_key_frames:
            key_frame -= 1
        self._start_at_key_frame(segment, key_frame, wanted)

    def _start_at_key_frame(self, segment: Segment, key_frame: int, wanted: set[int]) -> None:
        self.position = None
        self._feed.start(segment, key_frame, wanted)
        self._pictures, self._is_at_end, self._error = [], False, None
        self._decode = self.reader.decoder.decode
        self.position = self._matcher.start(self._feed)

    def _start_elsewhere(
        self, index: FrameIndex, segment: Segment, wanted: set[int], mismatch: IndexMismatchError | None
    ) -> bool:
        """Restart a segment after a failure, from another key frame or in another way.

        Return ``False`` if no way is left. Raises the same errors as `run`.
        """
        key_frame = index.key_frame_for(segment.places[0])
        if mismatch is not None:
            self._start_with_more_frames(segment, key_frame, wanted, mismatch)
            return True
        if index.is_authoritative or self._matcher.counts_pictures:
            return False
        # The index was made by decoding. After splices and damage, frames decoded from a key frame may not match it.
        # Decoding from the beginning of the stream gives every frame.
        self._num_starts += 1
        if segment.key_frame is None and self._num_starts == 2:
            self._start_at_key_frame(segment, key_frame, wanted)
        else:
            self.reader.reopen()  # frames decoded earlier can affect how a codec conceals damage
            self._matcher = _CountingMatcher()
            self._start_at_key_frame(segment, 0, wanted)
        return True

    def _start_with_more_frames(
        self, segment: Segment, key_frame: int, wanted: set[int], mismatch: IndexMismatchError
    ) -> None:
        """Restart a segment, and feed more packets to the codec, because it possibly needs their frames as references.

        The first time, feed the packets that were left out. The next time, start one key frame earlier, because frames
        of an open GOP can refer to frames before their key frame. After that, or if packets are damaged, raise
        ``mismatch``; if a device decodes, raise `DeviceError` instead.
        """
        feed = self._feed
        if not isinstance(mismatch, DamagedPacketError):
            if self._num_starts == 1 and feed.left_out:
                self._num_starts, feed.leaves_out = 2, False
                self._start_at_key_frame(segment, key_frame, wanted)
                return
            feed.leaves_out = True
            if self._num_starts < 3 and key_frame > 0:
                self._num_starts = 3
                self._useless_key_frames.add(key_frame)
                self._start_at_key_frame(segment, key_frame - 1, wanted)
                return
        if self.decodes_in_software:
            raise mismatch
        raise DeviceError(f"The device's decoder does not give the frames of the packets: {mismatch}.") from mismatch

    def _next(self, wanted: Collection[int], last: int) -> tuple[int, Any] | None:
        """Decode up to the next frame whose place is in ``wanted``, and return (place, picture).

        Return ``None`` if no such picture comes out of the codec. ``last`` is the last place for which it makes sense
        to decode ahead.
        """
        matcher = self._matcher
        max_packets = None if matcher.is_of_packets else matcher.max_packets(min(wanted))
        while True:
            while not self._pictures:
                if self._error is not None:
                    error, self._error = self._error, None
                    try:
                        raise error
                    finally:
                        del error  # this frame is in its traceback: the cycle would keep the stream open
                if self._is_at_end or (max_packets is not None and self._feed.num_read > max_packets):
                    if matcher.is_of_packets:
                        raise IndexMismatchError("packets that give no frame")
                    if self._is_at_end:
                        self.position = None
                    return None
                num_ahead = 1
                if self.position is not None and matcher.is_of_packets:
                    num_ahead = max(1, min(last + 1 - self.position, self._max_ahead))
                self._decode_ahead(num_ahead, max_packets)
            picture = self._pictures.pop(0)
            place = matcher.place_of(picture, self.position)
            if place is not None:
                self.position = place + 1
                if place in wanted:
                    return place, picture
            del picture

    def _decode_ahead(self, num_pictures: int, max_packets: int | None = None) -> None:
        """Decode packets until there are ``num_pictures`` pictures. An error waits until these have been yielded.

        ``max_packets`` is the number of packets of the stream after which no more are decoded.
        """
        feed = self._feed
        try:
            while len(self._pictures) < num_pictures and not (self._is_at_end or self._error):
                if max_packets is not None and feed.num_read > max_packets:
                    return
                packet = feed.take()
                self._is_at_end = packet is None
                try:
                    self._pictures += self._decode(packet)
                except UndecodablePacketError:
                    feed.check_refused(packet)
        except Exception as error:
            self._error = error


class _FrameMatcher(ABC):
    """Finds the place of each picture that comes out of the codec, and checks that it agrees with the index."""

    is_of_packets = False
    counts_pictures = False

    def start(self, feed: PacketFeed) -> int | None:
        """Return the place of the first picture that comes out of the codec after ``feed`` has started, if known."""
        return None

    def max_packets(self, place: int) -> int | None:
        """Return after how many packets of the stream the picture at ``place`` must have come out, if known."""
        return None

    @abstractmethod
    def place_of(self, picture: Any, position: int | None) -> int | None:
        """Return the place of a picture, or ``None`` if it must be dropped. ``position`` is the place expected next."""


class _PacketMatcher(_FrameMatcher):
    """Finds places with an index made from packets: expects one picture per packet, in order of presentation times."""

    is_of_packets = True

    def __init__(self, index: FrameIndex, feed: PacketFeed) -> None:
        self._pts = index.pts
        self._feed = feed

    def start(self, feed: PacketFeed) -> int | None:
        return int(self._pts.searchsorted(feed.started_at_pts))

    def place_of(self, picture: Any, position: int | None) -> int | None:
        feed, pts = self._feed, picture.pts
        if pts == feed.started_at_pts and not picture.key_frame and not is_key_frame(picture, feed.codec):
            raise IndexMismatchError("packets wrongly flagged as key frames")
        assert position is not None
        if picture.is_corrupt:
            raise IndexMismatchError("frames that the codec flags as damaged")
        if pts is None:
            return None  # an edit list hides this picture
        while position in feed.left_out:
            position += 1
        if feed.ended_early:  # packets of frames shown before this one were not read
            position = max(position, int(self._pts.searchsorted(pts)))
        if position >= len(self._pts) or pts != self._pts.item(position):
            raise IndexMismatchError("frames that do not come out in the order of the packets' times")
        return position


class _LinearMatcher(_FrameMatcher):
    """Finds places with an index made by a linear decode: identifies pictures by recorded pts and fingerprints."""

    def __init__(self, index: FrameIndex) -> None:
        assert index.codec_pts is not None
        assert index.fingerprint is not None
        assert index.num_packets is not None
        self._num_packets = index.num_packets
        # Decoding from the current start gives no pictures before this place.
        self._earliest = 0
        self._places: dict[tuple[int, int], list[int]] = {}
        keys = zip(index.codec_pts.tolist(), index.fingerprint.tolist(), strict=True)
        for place, key in enumerate(keys):
            self._places.setdefault(key, []).append(place)

    def start(self, feed: PacketFeed) -> int | None:
        self._earliest = int(self._num_packets.searchsorted(feed.num_read, side="right"))
        return None

    def max_packets(self, place: int) -> int | None:
        return int(self._num_packets[place]) + MAX_DELAY_PACKETS

    def place_of(self, picture: Any, position: int | None) -> int | None:
        pts = NO_PTS if picture.pts is None else picture.pts
        candidates = self._places.get((pts, fingerprint(picture)), [])
        earliest = self._earliest if position is None else position
        return next((place for place in candidates if place >= earliest), next(iter(candidates), None))


class _TableMatcher(_FrameMatcher):
    """Finds places with an index made from the user's table: identifies pictures by their pts."""

    def __init__(self, index: FrameIndex) -> None:
        self._places: dict[int, int] = {}
        for place, pts in enumerate(index.pts.tolist()):
            self._places.setdefault(pts, place)

    def place_of(self, picture: Any, position: int | None) -> int | None:
        return self._places.get(NO_PTS if picture.pts is None else picture.pts)


class _CountingMatcher(_FrameMatcher):
    """Finds the place of a picture by counting pictures from the beginning of the stream.

    If data are missing, some codecs leave old content of a reused buffer in a picture. The codec chooses a buffer that
    no picture in use occupies. A linear decode keeps only the last picture in use, so this class does the same.
    """

    counts_pictures = True

    def __init__(self) -> None:
        self._last_picture: Any = None

    def start(self, feed: PacketFeed) -> int | None:
        return 0

    def place_of(self, picture: Any, position: int | None) -> int | None:
        self._last_picture = picture
        return position


class ApproximateStream:
    """A stream without an index: it finds frames only by their times, because their numbers are unknown."""

    def __init__(self, reader: VideoReader) -> None:
        self.reader = reader
        time_base = reader.stream_info().time_base or Fraction(1, 1)
        self._ticks_per_second = time_base.denominator / time_base.numerator
        self._current: Any = None
        self._next: Any = None
        self._pictures: list[Any] = []
        self._at_end = False
        self._key_frame_pts: int | None = None

    def reset(self) -> None:
        """Discard the position of the codec, so that the next call seeks. Call this after moving the reader."""
        self._current = self._next = None

    def picture_at(self, seconds: float, *, nearest: bool) -> Any:
        """Return the picture shown at a time. With ``nearest``, return the one whose start is nearest to the time."""
        self.reader.source.check_unchanged()
        ticks = seconds * self._ticks_per_second
        max_skipped = _MAX_SKIPPED_SECONDS * self._ticks_per_second
        if self._current is None or not 0 <= ticks - self._current.pts <= max_skipped:
            self._go_to(ticks)
        while self._next is not None and self._next.pts <= ticks:
            self._advance()
        if self._current is None:
            raise DecodeError(f"No frame could be decoded at {seconds:.6f} s; the stream may end before.")
        if nearest and self._next is not None and self._next.pts - ticks < ticks - self._current.pts:
            return self._next
        return self._current

    def _go_to(self, ticks: float) -> None:
        for back_off in _BACK_OFF_SECONDS:
            with stages.SEEK:
                timestamp = round(ticks - back_off * self._ticks_per_second)
                is_there = not self.reader.has_no_timestamps and self.reader.seek(timestamp)
            if not is_there:
                break
            self._restart()
            if self._current is not None and self._current.pts <= ticks:
                return
        with stages.SEEK:
            self.reader.rewind()
        self._restart()

    def _restart(self) -> None:
        self._pictures, self._at_end, self._key_frame_pts = [], False, None
        self._current = self._next = None
        self._advance()  # fills ``_next``
        self._advance()

    def _advance(self) -> None:
        self._current, self._next = self._next, self._decode_next()

    def _decode_next(self) -> Any | None:
        while not self._pictures:
            if self._at_end:
                return None
            packet = self.reader.read_packet()
            self._at_end = packet is None
            if packet is not None and self._key_frame_pts is None:
                self._key_frame_pts = packet.pts
            try:
                self._pictures = [picture for picture in self.reader.decode(packet) if self._is_complete(picture)]
            except UndecodablePacketError:
                continue
        return self._pictures.pop(0)

    def _is_complete(self, picture: Any) -> bool:
        # Pictures that are shown before the first decoded packet may lack their references.
        return picture.pts is not None and (self._key_frame_pts is None or picture.pts >= self._key_frame_pts)
