"""Running a plan: seek, feed packets, and hand out exactly the frames that were asked for.

The index says which frames must come out, and every frame that does is checked against it::

    index from packets   frame by frame, the pts must be the next one of the index; if not, `IndexMismatchError`
    made by decoding     the frame's pts and fingerprint must be those of a frame of the linear decode
    the user's table     the frame's pts must be in the table; others are passed over
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from .._bitstreams import (
    BreakDetector,
    Disposable,
    FrameNumberCheck,
    PacketContent,
    break_detector,
    content_parser,
    disposable_parser,
    slices_are_sound,
)
from .._common import stages
from .._containers import NO_PTS
from .._index import FrameIndex, has_header_table
from .._pyav import UndecodablePacketError, VideoReader, fingerprint, is_key_frame
from ..errors import DeviceError
from .plan import Segment, byte_range, make_plan
from .seeking import KeyFramePackets

__all__ = ["FrameStream", "IndexMismatchError", "MissingFrameError"]

# A frame that did not come out this many packets after its time will not come. Codecs hold back far fewer.
_HORIZON = 64

_UNKNOWN = int(Disposable.UNKNOWN)


class IndexMismatchError(Exception):
    """What came out of the codec is not what the packets promised."""


class TelltalePacketError(IndexMismatchError):
    """Packets say themselves that they are damaged or others missing: no other way of reading them will do."""


class MissingFrameError(Exception):
    """A frame did not come out of the codec; carries its place in the codec's order."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


class FrameStream:
    """A reader and the state of its codec: which frame comes out next.

    Args:
        reader: Stands at the beginning.
        num_threads: Of its codec.
        decodes_in_software: Whether FFmpeg's own decoder decodes, and not that of a device.
    """

    def __init__(self, reader: VideoReader, num_threads: int, *, decodes_in_software: bool = True) -> None:
        self.reader = reader
        self.decodes_in_software = decodes_in_software
        self._num_threads = num_threads
        codec = reader.stream_info().codec
        self._codec = codec
        self._is_h264, self._is_ffv1 = codec == "h264", codec == "ffv1"
        self._continuity: FrameNumberCheck | None = None
        self._breaks: BreakDetector | None = None
        self._disposable_of = disposable_parser(codec, reader.extradata)
        self._packets = KeyFramePackets(reader)
        self._frames: Iterator[Any] = iter(())
        self._at_end = False
        self._num_fed = 0
        #: Place of the frame that comes out next; ``None`` before the first start and after a failure.
        self.position: int | None = None
        #: Whether the frame that was handed out last may be held while the next ones are decoded.
        self.may_keep = True
        self._started_at_pts = NO_PTS
        self._segment: Segment | None = None
        self._left_out: set[int] = set()
        self._not_fed: set[int] = set()
        self._has_left_out = False
        self._leaves_out = True
        self._is_drained_early = False
        self._index: FrameIndex | None = None
        self._lookup: dict[tuple[int, int], list[int]] = {}
        self._useless_key_frames: set[int] = set()

    def plan(self, index: FrameIndex, places: Sequence[int], *, is_left: bool = False) -> list[Segment]:
        """How frames would be decoded from where the codec stands.

        Args:
            index: The frames of the stream.
            places: Ascending, without duplicates.
            is_left: Whether the codec is not needed any more after the last one.
        """
        self._use(index)
        patience = self.reader.reorder_depth + max(0, self._num_threads - 1)
        return make_plan(index, places, self.position, patience, is_left=is_left)

    def run(self, index: FrameIndex, segments: Iterable[Segment]) -> Iterator[tuple[int, Any]]:
        """The frames of segments as (place, frame), each before the next one is decoded.

        Raises:
            IndexMismatchError: if an index made from packets turns out not to hold.
            DeviceError: the same of a device's decoder, whose doings a software decoder has to confirm.
            MissingFrameError: if a frame of an index made by decoding, or of the user's table, does not come out.
            ReadError: if the source cannot be read.
        """
        self._use(index)
        try:
            for segment in segments:
                yield from self._run(index, segment)
        except IndexMismatchError as mismatch:
            if self.decodes_in_software:
                raise
            raise DeviceError(f"The device's decoder does not give what the packets promise: {mismatch}.") from mismatch

    def use_threads(self, num_threads: int) -> None:
        """Decode with another number of codec threads from now on."""
        if num_threads == self._num_threads or not self.reader.is_strict:
            return  # a lenient codec has one thread, because concealment depends on that
        self._num_threads = num_threads
        if self.reader.use_threads(num_threads):
            self.reset()

    @property
    def num_codec_threads(self) -> int | None:
        """Threads of the codec, ``None`` if none is open."""
        return self._num_threads if self.reader.is_codec_open else None

    def reset(self) -> None:
        """Forget where the codec stands, because somebody else reads from the reader."""
        self.position = None
        self._frames = iter(())

    def _use(self, index: FrameIndex) -> None:
        if index is self._index:
            return
        self._index = index
        self.position = None
        self._lookup = _lookup_table(index)
        self._useless_key_frames = set()
        self._leaves_out = True
        if not self.decodes_in_software:
            if index.settled:
                raise DeviceError(
                    f"The packets do not show which frames there are ({'; '.join(index.anomalies)}), so that decoded "
                    "pictures must be compared with those that a software decoder gives."
                )
        elif index.settled or index.is_authoritative:
            self.reader.decode_leniently()

    def _run(self, index: FrameIndex, segment: Segment) -> Iterator[tuple[int, Any]]:
        wanted = set(segment.places)
        self._segment = segment
        key_frame = index.key_frame_for(index.frame_of(segment.places[0]))
        planned = None if segment.key_frame is None else key_frame
        if index.settled:
            yield from self._run_decoded(index, wanted, dict.fromkeys((planned, key_frame)))
        elif index.is_authoritative:
            yield from self._run_from(index, wanted, planned)
        else:
            yield from self._run_promised(index, wanted, planned, key_frame)
        if self._at_end:
            self.position = None
        if wanted:
            self.position = None
            raise MissingFrameError(min(wanted))

    def _run_from(self, index: FrameIndex, wanted: set[int], key_frame: int | None) -> Iterator[tuple[int, Any]]:
        self._not_fed = set(wanted)
        if key_frame is not None:
            self._start(index, key_frame)
        yield from self._collect(index, wanted)

    def _run_promised(
        self, index: FrameIndex, wanted: set[int], planned: int | None, key_frame: int
    ) -> Iterator[tuple[int, Any]]:
        """Run on an index made from packets.

        What goes wrong is tried again with every picture, in case one that seemed disposable was not; then from the
        key frame before, because the codec may need pictures before a key frame after all: at some ends of open GOPs it
        refuses packets for lack of them.
        """
        while planned in self._useless_key_frames:
            planned -= 1
        try:
            yield from self._run_from(index, wanted, planned)
            return
        except TelltalePacketError:
            raise
        except IndexMismatchError:
            if key_frame == 0 and not self._has_left_out:
                raise
        if self._has_left_out:
            self._leaves_out = False
            try:
                yield from self._run_from(index, wanted, key_frame)
                return
            except TelltalePacketError:
                raise
            except IndexMismatchError:
                self._leaves_out = True
                if key_frame == 0:
                    raise
        self._useless_key_frames.add(key_frame)
        yield from self._run_from(index, wanted, key_frame - 1)

    def _run_decoded(
        self, index: FrameIndex, wanted: set[int], key_frames: Iterable[int | None]
    ) -> Iterator[tuple[int, Any]]:
        """Run on an index made by decoding.

        Splices and damage can make key frames useless. From the beginning of the stream every frame comes out.
        """
        for key_frame in key_frames:
            yield from self._run_from(index, wanted, key_frame)
            if not wanted:
                return
        self.reader.reopen()  # what a codec has seen before can show in how it conceals damage
        self._start(index, 0)
        yield from self._collect_by_count(wanted)

    def _collect(self, index: FrameIndex, wanted: set[int]) -> Iterator[tuple[int, Any]]:
        """Decode until every wanted frame came out or none is to be expected any more; empties ``wanted``."""
        while wanted:
            frame = self._next_frame()
            if frame is None:
                self._check_end(index)
                return
            place = self._identify(index, frame)
            if place is not None:
                self.position = place + 1
                if place in wanted:
                    wanted.discard(place)
                    yield place, frame
            if wanted and self._is_past(index, min(wanted)):
                return

    def _collect_by_count(self, wanted: set[int]) -> Iterator[tuple[int, Any]]:
        """From the beginning, every frame is what a linear decode gives, even if codecs conceal damage at random.

        Where data is missing, some codecs leave in a picture what was in its memory: an older picture's. Which one that
        is depends on the pictures that are held; a linear decode holds none but the last.
        """
        for place in range(max(wanted) + 1):
            frame = self._next_frame()
            if frame is None:
                return
            self.position = place + 1
            if place in wanted:
                wanted.discard(place)
                self.may_keep = not wanted
                yield place, frame
                self.may_keep = True

    def _identify(self, index: FrameIndex, frame: Any) -> int | None:
        """The place of a frame, or ``None`` for one that is to be passed over."""
        pts = NO_PTS if frame.pts is None else frame.pts
        if index.settled:
            candidates = self._lookup.get((pts, fingerprint(frame)), [])
            later = [place for place in candidates if self.position is None or place >= self.position]
            return next(iter(later or candidates), None)
        if index.is_authoritative:
            return next(iter(self._lookup.get((pts, 0), ())), None)
        return self._identify_next(index, frame, pts)

    def _identify_next(self, index: FrameIndex, frame: Any, pts: int) -> int | None:
        if pts == self._started_at_pts and not is_key_frame(frame):
            raise IndexMismatchError("packets flagged as key frames that are none")
        expected = self.position
        assert expected is not None
        if frame.is_corrupt:
            raise IndexMismatchError("frames that the codec flags as damaged")
        while expected in self._left_out:
            self._left_out.discard(expected)
            expected += 1
        if self._is_drained_early:  # pictures shown before this one had not been read yet
            expected = max(expected, int(np.searchsorted(index.pts, pts)))
        if expected >= len(index) or pts != index.pts[expected]:
            raise IndexMismatchError("frames that do not come out in the order of the packets' times")
        return expected

    def _check_end(self, index: FrameIndex) -> None:
        if not (index.settled or index.is_authoritative):
            raise IndexMismatchError("packets that give no frame")
        self.position = None

    def _is_past(self, index: FrameIndex, place: int) -> bool:
        if index.num_packets is None:
            return False
        return self._num_fed > int(index.num_packets[index.frame_of(place)]) + _HORIZON

    def _next_frame(self) -> Any | None:
        """The next frame of the codec, ``None`` at the end of the stream."""
        while True:
            frame = next(self._frames, None)
            if frame is not None:
                return frame
            if self._at_end:
                return None
            self._feed()

    def _feed(self) -> None:
        index = self._index
        assert index is not None
        self._is_drained_early = self._is_done()
        packet = None if self._is_drained_early else self._packets.take(index)
        if packet is None:
            self._at_end = True
        else:
            number, self._num_fed = self._num_fed, self._num_fed + 1
            self._check_packet(index, packet)
            if self._is_leading(index, packet) or not self._is_needed(index, packet, number):
                return
        try:
            self._frames = iter(self.reader.decode(packet))
        except UndecodablePacketError:
            is_promised = not (index.settled or index.is_authoritative)
            if is_promised and not (packet is not None and self._holds_no_picture(packet)):
                raise IndexMismatchError("packets that the codec cannot decode") from None

    def _holds_no_picture(self, packet: Any) -> bool:
        """Whether no frame was to come of a packet, so that nothing is amiss if the codec refuses it."""
        content_of = content_parser(self._codec, self.reader.extradata)
        return content_of(memoryview(packet)) in (PacketContent.NO_PICTURE, PacketContent.NOT_CODED)

    def _check_packet(self, index: FrameIndex, packet: Any) -> None:
        """Notice what the codec does not complain of, or not where pictures are left out."""
        if self._continuity is not None and not self._continuity.follows(memoryview(packet)):
            raise TelltalePacketError("packets that were lost")
        is_promised = not (index.settled or index.is_authoritative)
        if is_promised and self._is_ffv1 and not slices_are_sound(memoryview(packet)):
            raise TelltalePacketError("packets that differ from their checksums")
        if self._breaks is not None and (reason := self._breaks.find(memoryview(packet))) is not None:
            raise TelltalePacketError(reason)

    def _is_done(self) -> bool:
        """Whether the codec has got all that it needs, and is to be left: draining it is the cheapest way on."""
        assert self._segment is not None
        return self._segment.is_left and not self._not_fed

    def _is_needed(self, index: FrameIndex, packet: Any, number: int) -> bool:
        """Whether the codec must see the packet; where the index knows the packet, the plan says."""
        if index.settled or index.is_authoritative or packet.pts is None:
            return True
        frame = index.frame_of_packet(number, packet.pts)
        if frame is None:
            return True
        disposable = int(index.disposable[frame])
        if disposable == _UNKNOWN:
            disposable = int(self._disposable_of(memoryview(packet)))
            index.disposable[frame] = disposable
        assert self._segment is not None
        if self._leaves_out and not self._segment.needs(frame, disposable):
            self._left_out.add(frame)
            self._has_left_out = True
            return False
        self._not_fed.discard(frame)
        return True

    def _is_leading(self, index: FrameIndex, packet: Any) -> bool:
        """Whether a picture is shown before the key frame that decoding started at, and follows it in the file.

        It may refer to pictures before the key frame, which the codec does not have. Pictures that are shown after the
        key frame do not refer to it.
        """
        if index.settled or index.is_authoritative or packet.pts is None:
            return False
        return bool(packet.pts < self._started_at_pts)

    def _start(self, index: FrameIndex, key_frame: int) -> None:
        """Make the packet of ``key_frame`` the next one to be fed."""
        self._frames = iter(())
        self._at_end = False
        self._left_out, self._has_left_out, self._is_drained_early = set(), False, False
        self._announce(index, key_frame)
        with stages.SEEK:
            self._packets.go_to(index, key_frame)
        is_promised = not (index.settled or index.is_authoritative)
        self._continuity = FrameNumberCheck(self.reader.extradata) if self._is_h264 and is_promised else None
        self._breaks = self._break_detector(key_frame) if is_promised else None
        self._num_fed = max(0, int(index.key_frame_packet[key_frame]))
        self._started_at_pts = int(index.key_frame_pts[key_frame])
        first = int(np.searchsorted(index.pts, self._started_at_pts))
        self.position = None if index.settled or index.is_authoritative else first

    def _break_detector(self, key_frame: int) -> BreakDetector | None:
        """Finds breaks from ``key_frame`` on; of packets that nobody has read, also those before it that it shows."""
        headers = self.reader.extradata
        is_read = not has_header_table(self.reader)
        return break_detector(self._codec, headers, is_at_start=is_read or key_frame == 0)

    def _announce(self, index: FrameIndex, key_frame: int) -> None:
        """Let a remote source fetch at once what the segment is going to read."""
        assert self._segment is not None
        expected = byte_range(index, key_frame, self._segment.places[-1])
        if expected is not None:
            self.reader.will_need(*expected)


def _lookup_table(index: FrameIndex) -> dict[tuple[int, int], list[int]]:
    """Places by what identifies a frame: pts and fingerprint, or pts alone in a user's table."""
    table: dict[tuple[int, int], list[int]] = {}
    if index.settled:
        assert index.codec_pts is not None
        assert index.fingerprint is not None
        keys = zip(index.codec_pts.tolist(), index.fingerprint.tolist(), strict=True)
    elif index.is_authoritative:
        keys = zip(index.pts.tolist(), [0] * len(index), strict=True)
    else:
        return table
    for key, place in sorted(zip(keys, index.output_order.tolist(), strict=True), key=lambda item: item[1]):
        table.setdefault(key, []).append(place)
    return table
