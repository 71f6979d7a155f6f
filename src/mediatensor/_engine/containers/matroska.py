"""List the frames of a track of a Matroska or WebM file from the headers in its clusters. Pure functions.

::

    EBML  Segment [Info  Tracks  Cluster [Timestamp  SimpleBlock  BlockGroup [Block  BlockDuration ...] ...]  Cues ...]

A block has one frame, or a few. Only the headers of blocks and the first bytes of their payloads are read. For files
with elements that it does not handle, this module raises `MalformedBoxError`. The caller must then read all packets
with the demuxer. References are to RFC 8794 (EBML) and RFC 9559 (Matroska).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .boxes import MalformedBoxError, ReadAt
from .sample_tables import Int64Array

_TIMESTAMP_SCALE = 0x2AD7B1
_TRACK_ENTRY, _TRACK_NUMBER, _DEFAULT_DURATION, _TRACK_TIMESTAMP_SCALE = 0xAE, 0xD7, 0x23E383, 0x23314F
_TRACK_TYPE, _CODEC_DELAY, _CONTENT_ENCODINGS, _CONTENT_ENCODING = 0x83, 0x56AA, 0x6D80, 0x6240
_ENCODING_SCOPE, _ENCODING_TYPE, _COMPRESSION, _COMPRESSION_ALGORITHM = 0x5032, 0x5033, 0x5034, 0x4254
_COMPRESSION_SETTINGS = 0x4255

DEFAULT_TIMESTAMP_SCALE = 1_000_000
_MAX_CHILDREN = 1 << 12
_MAX_TRACK_NUMBER = 126  # one byte
# The demuxer makes a stream for each track with video, audio, subtitles or metadata (5.1.4.1.3).
_VIDEO, _TYPES_OF_STREAMS = 1, frozenset((1, 2, 0x11, 0x21))
_MAX_NANOSECONDS = 1 << 60


class TrackEntry(NamedTuple):
    """The fields of a track's header that are needed to parse its blocks."""

    number: int  # the track's number
    octets: tuple[int, ...]  # first bytes of the blocks of all tracks
    default_duration: int  # in nanoseconds
    codec_delay: int  # in nanoseconds
    stripped: bytes  # bytes at the start of every frame that the file omits


#: Pairs (ID, content) of elements.
_Elements = list[tuple[int, bytes]]


def _parse_header(data: bytes, at: int) -> tuple[int, int | None, int]:
    """Parse the header of the element at offset ``at`` (RFC 8794, 4 to 6).

    Return (its ID, the size of its content or ``None`` if it is not stated, the offset of its content).
    """
    size_at = at + 9 - data[at].bit_length()
    if size_at > at + 4 or size_at >= len(data):
        raise MalformedBoxError("no element")
    size_bytes = 9 - data[size_at].bit_length()
    if size_bytes > 8:
        raise MalformedBoxError("an element without a size")
    ones = (1 << 7 * size_bytes) - 1
    body = size_at + size_bytes
    size = int.from_bytes(data[size_at:body], "big") & ones
    return int.from_bytes(data[at:size_at], "big"), None if size == ones else size, body


def _split_elements(data: bytes) -> _Elements:
    elements: _Elements = []
    at = 0
    while at < len(data):
        kind, size, at = _parse_header(data, at)
        if size is None or size > len(data) - at or len(elements) >= _MAX_CHILDREN:
            raise MalformedBoxError("an element that does not fit into its parent")
        elements.append((kind, data[at : at + size]))
        at += size
    return elements


def _contents_of(elements: _Elements, kind: int) -> list[bytes]:
    return [content for each, content in elements if each == kind]


def _unsigned(elements: _Elements, kind: int, default: int) -> int:
    """Return the number in the only element of type ``kind``, or ``default`` if the element is missing or empty."""
    contents = _contents_of(elements, kind)
    if len(contents) > 1 or any(len(content) > 8 for content in contents):
        raise MalformedBoxError(f"more than one number {kind:X}")
    return int.from_bytes(contents[0], "big") if contents and contents[0] else default


def timestamp_scale(info: bytes) -> int:
    """Parse the length of a tick in nanoseconds (5.1.2.9). ``info`` is the content of the Info element."""
    nanoseconds = _unsigned(_split_elements(info), _TIMESTAMP_SCALE, DEFAULT_TIMESTAMP_SCALE)
    if not 0 < nanoseconds <= _MAX_NANOSECONDS:
        raise MalformedBoxError(f"ticks of {nanoseconds} nanoseconds")
    return nanoseconds


def track_entry(tracks: bytes, track_index: int) -> TrackEntry:
    """Parse the header of a video track. ``tracks`` is the content of the Tracks element.

    ``track_index`` is FFmpeg's stream index, which does not count tracks that FFmpeg ignores.
    """
    entries = [_split_elements(content) for content in _contents_of(_split_elements(tracks), _TRACK_ENTRY)]
    numbers = [_unsigned(entry, _TRACK_NUMBER, 0) for entry in entries]
    streams = [entry for entry in entries if _unsigned(entry, _TRACK_TYPE, 0) in _TYPES_OF_STREAMS]
    if track_index >= len(streams) or len(set(numbers)) != len(numbers):
        raise MalformedBoxError(f"no track {track_index}, or several with one number")
    entry = streams[track_index]
    number = _unsigned(entry, _TRACK_NUMBER, 0)
    if not 0 < number <= _MAX_TRACK_NUMBER or _unsigned(entry, _TRACK_TYPE, 0) != _VIDEO:
        raise MalformedBoxError(f"a track with the number {number}, or without pictures")
    if _contents_of(entry, _TRACK_TIMESTAMP_SCALE) not in ([], [b"\x3f\x80\0\0"], [b"\x3f\xf0" + bytes(6)]):
        raise MalformedBoxError("a track with its own time scale")
    return TrackEntry(
        number=number,
        octets=tuple(other | 0x80 for other in numbers if 0 < other <= _MAX_TRACK_NUMBER),
        default_duration=_unsigned(entry, _DEFAULT_DURATION, 0),
        codec_delay=_unsigned(entry, _CODEC_DELAY, 0),
        stripped=_stripped_header(entry),
    )


def _stripped_header(entry: _Elements) -> bytes:
    """Return the bytes with which every frame of a track starts, and which the file stores only once (5.1.4.1.31)."""
    encodings = [
        _split_elements(content)
        for container in _contents_of(entry, _CONTENT_ENCODINGS)
        for content in _contents_of(_split_elements(container), _CONTENT_ENCODING)
    ]
    if not encodings:
        return b""
    compressions = _contents_of(encodings[0], _COMPRESSION)
    if len(encodings) > 1 or len(compressions) != 1:
        raise MalformedBoxError("frames that are encrypted, or encoded twice")
    compression = _split_elements(compressions[0])
    settings = _contents_of(compression, _COMPRESSION_SETTINGS)
    is_stripped = _unsigned(compression, _COMPRESSION_ALGORITHM, 0) == 3 and len(settings) == 1
    if (
        not is_stripped
        or _unsigned(encodings[0], _ENCODING_TYPE, 0)
        or _unsigned(encodings[0], _ENCODING_SCOPE, 1) != 1
    ):
        raise MalformedBoxError("frames that are compressed")
    return settings[0]


#: Number of payload bytes that are read together with a block's header.
PAYLOAD_BYTES = 16

_EBML, _SEGMENT, _INFO, _TRACKS, _CLUSTER = 0x1A45DFA3, 0x18538067, 0x1549A966, 0x1654AE6B, 0x1F43B675
_SEEK_HEAD, _CUES, _TAGS, _ATTACHMENTS, _CHAPTERS = 0x114D9B74, 0x1C53BB6B, 0x1254C367, 0x1941A469, 0x1043A770
_VOID, _CRC_32 = 0xEC, 0xBF
_TIMESTAMP, _SIMPLE_BLOCK, _BLOCK_GROUP, _POSITION, _PREVIOUS_SIZE = 0xE7, 0xA3, 0xA0, 0xA7, 0xAB
_BLOCK, _BLOCK_DURATION, _REFERENCE_BLOCK, _REFERENCE_PRIORITY = 0xA1, 0x9B, 0xFB, 0xFA
_BLOCK_ADDITIONS, _BLOCK_MORE, _BLOCK_ADD_ID, _BLOCK_ADDITIONAL, _DISCARD_PADDING = 0x75A1, 0xA6, 0xEE, 0xA5, 0x75A2

_OF_SEGMENT = frozenset((_SEEK_HEAD, _CUES, _TAGS, _ATTACHMENTS, _CHAPTERS, _VOID, _CRC_32))
_OF_CLUSTER = frozenset((_POSITION, _PREVIOUS_SIZE, _VOID, _CRC_32))
_OF_GROUP = frozenset((_REFERENCE_PRIORITY, _DISCARD_PADDING, _VOID, _CRC_32))
_OF_ADDITIONS = {
    _BLOCK_ADDITIONS: frozenset((_BLOCK_MORE, _VOID, _CRC_32)),
    _BLOCK_MORE: frozenset((_BLOCK_ADD_ID, _BLOCK_ADDITIONAL, _VOID, _CRC_32)),
}

# A day with 30 frames and 50 audio packets per second has 7 million elements.
_MAX_ELEMENTS = 1 << 23
# Headers contain the codecs' configuration records, which have a few kilobytes.
_MAX_HEADER_BYTES = 1 << 24
_MAX_TICKS = 1 << 60

# A block's first bytes, which are read: ID and size; header (track, time, flags) and start of the payload.
_MAX_SIZE_BYTES, _BLOCK_HEADER_BYTES = 8, 4
_HEAD_BYTES = _BLOCK_HEADER_BYTES + PAYLOAD_BYTES
_BLOCK_BYTES = 1 + _MAX_SIZE_BYTES + _HEAD_BYTES
_KEY, _LACING, _XIPH, _FIXED = 0x80, 0x06, 0x02, 0x04
# Lace headers can describe up to 256 frames.
_MAX_LACE_HEADER_BYTES = 1 << 16
# After this many blocks, the first bytes of the track's own blocks are packed into arrays; other blocks are discarded.
_PACKED_BLOCKS = 1 << 15
# Number of bytes of a size field, by its first byte (RFC 8794, 4).
_SIZE_BYTES = np.array([9 - octet.bit_length() for octet in range(256)])


@dataclass(frozen=True)
class Blocks:
    """The frames of one track in file order. The demuxer returns each frame as a packet."""

    nanoseconds: int  # length of a tick
    time: Int64Array  # in ticks
    duration: Int64Array  # in ticks; 0 is unknown
    size: Int64Array  # in bytes, including stripped bytes
    position: Int64Array  # where the frame's block starts, after its size field; laced frames have the same position
    is_key: NDArray[np.bool_]  # whether the container marks the frame as independent of other frames
    payload: NDArray[np.uint8]  # first bytes, (N, `PAYLOAD_BYTES`); undefined after the end of shorter frames
    start: Int64Array  # where the frame's payload starts in the file
    stripped: bytes  # bytes at the start of every frame that the file omits


class _Element(NamedTuple):
    kind: int  # its ID
    body: int  # where its content starts
    end: int | None  # where its content ends; `None` if the element does not state its size


def blocks_of_track(read_at: ReadAt, file_size: int, track_index: int, *, window_bytes: int) -> Blocks:
    """List all frames of a video track. Raise `MalformedBoxError` if the file has elements that are not handled here.

    ``track_index`` is FFmpeg's index of the stream. The file is read in windows of ``window_bytes``, which are then
    parsed in memory.
    """
    return _Walk(read_at, file_size, track_index, max(window_bytes, _BLOCK_BYTES)).blocks()


@dataclass
class _Walk:
    """Reads a file from start to end, and collects the blocks of a track; see `blocks_of_track` for the arguments."""

    read_at: ReadAt
    file_size: int
    track_index: int
    window_bytes: int
    data: bytes = b""  # bytes of the file from `start`, with zeros after its end
    start: int = 0
    nanoseconds: int = DEFAULT_TIMESTAMP_SCALE
    track: TrackEntry | None = None
    num_elements: int = 0
    # Starts, sizes and first bytes of the contents of blocks: lists for all tracks' blocks
    # that are not packed yet, and packed arrays for the track's own blocks.
    starts: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)
    packed: list[tuple[Int64Array, Int64Array, NDArray[np.uint8]]] = field(default_factory=list)
    clusters: list[tuple[int, int]] = field(default_factory=list)  # (start, time)
    # By start of the block's header, for blocks in groups: (duration, whether the block refers to no other block).
    groups: dict[int, tuple[int, bool]] = field(default_factory=dict)

    def blocks(self) -> Blocks:
        ebml = self._parse_element(0)
        if ebml.kind != _EBML or ebml.end is None:
            raise MalformedBoxError("no EBML header")
        segment = self._parse_element(ebml.end)
        if segment.kind != _SEGMENT:
            raise MalformedBoxError("no segment after the EBML header")
        end = self.file_size if segment.end is None else segment.end
        if end < self.file_size:
            raise MalformedBoxError("something after the segment")
        self._read_segment(segment.body)
        if self.track is None:
            raise MalformedBoxError("no tracks")
        return self._build_blocks(self.track)

    # Elements

    def _parse_element(self, position: int) -> _Element:
        at = self._look_at(position)
        kind, size, body = _parse_header(self.data, at)
        self.num_elements += 1
        if self.num_elements > _MAX_ELEMENTS:
            raise MalformedBoxError("too many elements")
        body += position - at
        return _Element(kind, body, None if size is None else body + size)

    def _look_at(self, position: int) -> int:
        """Make sure that `data` contains the header that starts at ``position``. Return its offset in `data`."""
        at = position - self.start
        if not 0 <= at <= len(self.data) - _BLOCK_BYTES:
            self.data = self.read_at(position, self.window_bytes)
            if len(self.data) < self.window_bytes:
                self.data += bytes(_BLOCK_BYTES)
            self.start, at = position, 0
        return at

    def _read_content(self, element: _Element) -> bytes:
        if element.end is None or element.end > self.file_size or element.end - element.body > _MAX_HEADER_BYTES:
            raise MalformedBoxError(f"a header {element.kind:X} of an impossible size")
        content = self.read_at(element.body, element.end - element.body)
        if len(content) != element.end - element.body:
            raise MalformedBoxError(f"a header {element.kind:X} that is cut off")
        return content

    def _read_number(self, element: _Element) -> int:
        content = self._read_content(element)
        if len(content) > 8:
            raise MalformedBoxError(f"a number {element.kind:X} of {len(content)} bytes")
        return int.from_bytes(content, "big")

    # Segment, track and cluster

    def _read_segment(self, position: int) -> None:
        while position < self.file_size:
            element = self._parse_element(position)
            kind = element.kind
            if kind == _CLUSTER:
                position = self._read_cluster(element)
                continue
            if kind == _INFO:
                self.nanoseconds = timestamp_scale(self._read_content(element))
            elif kind == _TRACKS:
                if self.track is not None or self.clusters:
                    raise MalformedBoxError("tracks in more than one place, or after clusters")
                self.track = track_entry(self._read_content(element), self.track_index)
            elif kind not in _OF_SEGMENT:
                raise MalformedBoxError(f"element {kind:X} in a segment")
            if element.end is None:
                raise MalformedBoxError(f"element {kind:X} of unknown size")
            position = element.end

    def _read_cluster(self, cluster: _Element) -> int:
        """Add the blocks of a cluster to the lists. Return the position of the next element of the segment."""
        if self.track is None:
            raise MalformedBoxError("clusters before tracks")
        end = self.file_size if cluster.end is None else min(cluster.end, self.file_size)
        position = cluster.body
        # Writers put the time first. Only a few small elements may come before it.
        while (element := self._parse_element(position)).kind != _TIMESTAMP:
            if element.kind not in _OF_CLUSTER or element.end is None or element.end >= end:
                raise MalformedBoxError("a cluster that does not begin with its time")
            position = element.end
        time = self._read_number(element)
        if time > _MAX_TICKS or element.end is None:
            raise MalformedBoxError(f"a cluster at the tick {time}")
        self.clusters.append((cluster.body, time))
        position = element.end
        while position < end:
            position = self._note_simple_blocks(position, end)
            if position >= end:
                break
            element = self._parse_element(position)
            if element.kind == _SIMPLE_BLOCK:
                continue
            if element.kind == _BLOCK_GROUP and element.end is not None and element.end <= end:
                self._read_group(element.body, element.end)
            elif element.kind in _OF_CLUSTER and element.end is not None and element.end <= end:
                pass
            elif cluster.end is None and (element.kind in (_CLUSTER, _INFO, _TRACKS) or element.kind in _OF_SEGMENT):
                return position
            else:
                raise MalformedBoxError(f"element {element.kind:X} in a cluster")
            position = element.end
        return position if cluster.end is None else cluster.end

    def _note_simple_blocks(self, position: int, end: int) -> int:
        """Add consecutive simple blocks to the lists, up to ``end``. Return the position of the next element.

        Nearly all time is spent in this loop, because files have many blocks.
        """
        read_at, window_bytes = self.read_at, self.window_bytes
        add_start, add_size, add_head = self.starts.append, self.sizes.append, self.heads.append
        num_before = len(self.heads)
        data, start = self.data, self.start
        last = len(data) - _BLOCK_BYTES if position >= start else -1
        at = before = 0
        for _ in range(_PACKED_BLOCKS):
            if position >= end:
                break
            at = position - start
            if at > last or at < 0:
                data, start, at = read_at(position, window_bytes), position, 0
                if len(data) < window_bytes:
                    data += bytes(_BLOCK_BYTES)
                last = len(data) - _BLOCK_BYTES
            if data[at] != _SIMPLE_BLOCK:
                break
            octet = data[at + 1]
            before = position
            # The highest octet of each length may mean that the size is unknown.
            if 0x80 <= octet < 0xFF:
                body, size = at + 2, octet & 0x7F
            elif 0x40 <= octet < 0x7F:
                body, size = at + 3, (octet & 0x3F) << 8 | data[at + 2]
            elif 0x20 <= octet < 0x3F:
                body, size = at + 4, (octet & 0x1F) << 16 | data[at + 2] << 8 | data[at + 3]
            else:
                _, stated_size, body = _parse_header(data, at)
                if stated_size is None:
                    raise MalformedBoxError("a block of unknown size")
                size = stated_size
            position = start + body
            add_start(position)
            add_size(size)
            add_head(data[body : body + _HEAD_BYTES])
            position += size
        self.data, self.start = data, start
        self.num_elements += len(self.heads) - num_before
        if position > end:
            if end < self.file_size:
                raise MalformedBoxError(f"a block that does not fit into its cluster at byte {before}")
            # The file ends inside this block, so the demuxer drops the block.
            for blocks in (self.starts, self.sizes, self.heads):
                blocks.pop()
        if self.num_elements > _MAX_ELEMENTS:
            raise MalformedBoxError("too many elements")
        if len(self.heads) >= _PACKED_BLOCKS:
            self._pack()
        return position

    def _read_group(self, position: int, end: int) -> None:
        body = -1
        duration, is_key, is_own = 0, True, False
        while position < end:
            element = self._parse_element(position)
            if element.end is None or element.end > end:
                raise MalformedBoxError("a group of a block that does not fit")
            if element.kind == _BLOCK:
                if body >= 0:
                    raise MalformedBoxError("a group of more than one block")
                body = element.body
                at = body - self.start
                self.starts.append(body)
                self.sizes.append(element.end - body)
                self.heads.append(self.data[at : at + _HEAD_BYTES])
                is_own = self.track is not None and self.data[at] == self.track.number | 0x80
            elif element.kind == _BLOCK_DURATION:
                duration = self._read_number(element)
            elif element.kind == _REFERENCE_BLOCK:
                is_key = False
            elif element.kind == _BLOCK_ADDITIONS:
                self._check_nesting(element, _BLOCK_ADDITIONS)
            elif element.kind not in _OF_GROUP:
                raise MalformedBoxError(f"element {element.kind:X} in a group of a block")
            position = element.end
        if body < 0 or duration > _MAX_TICKS:
            raise MalformedBoxError("a group without a block, or of an impossible duration")
        if is_own:
            self.groups[body] = duration, is_key

    def _check_nesting(self, parent: _Element, kind: int) -> None:
        """Raise `MalformedBoxError` if the additions to a block contain unknown elements.

        The demuxer drops such blocks. ``parent`` is the element to check, and ``kind`` is its ID.
        """
        position, end = parent.body, parent.end or 0
        while position < end:
            element = self._parse_element(position)
            if element.end is None or element.end > end or element.kind not in _OF_ADDITIONS[kind]:
                raise MalformedBoxError(f"element {element.kind:X} in additions to a block")
            if element.kind in _OF_ADDITIONS:
                self._check_nesting(element, element.kind)
            position = element.end

    def _pack(self) -> None:
        """Move the track's blocks from lists to arrays, and discard the blocks of other tracks."""
        heads = np.frombuffer(b"".join(self.heads), np.uint8)
        if len(heads) != len(self.heads) * _HEAD_BYTES:
            raise MalformedBoxError("a block that is cut off")
        heads = heads.reshape(len(self.heads), _HEAD_BYTES)
        assert self.track is not None
        is_octet = np.zeros(256, bool)
        is_octet[list(self.track.octets)] = True
        if not is_octet[heads[:, 0]].all():
            raise MalformedBoxError("a block without a track")
        is_own = heads[:, 0] == self.track.number | 0x80
        start, size = np.array(self.starts, np.int64)[is_own], np.array(self.sizes, np.int64)[is_own]
        if (size <= _BLOCK_HEADER_BYTES).any():
            raise MalformedBoxError("a block of an impossible size")
        self.packed.append((start, size, heads[is_own]))
        self.starts.clear()
        self.sizes.clear()
        self.heads.clear()

    # From blocks to frames

    def _build_blocks(self, track: TrackEntry) -> Blocks:
        self._pack()
        start, size, heads = map(np.concatenate, zip(*self.packed, strict=True))
        if not len(start):
            raise MalformedBoxError("a track without blocks")
        begin, cluster_time = np.array(self.clusters, np.int64).T
        relative = heads[:, 1:3].copy().view(">i2")[:, 0].astype(np.int64)
        time = cluster_time[np.searchsorted(begin, start) - 1] + relative
        if (time < 0).any():
            raise MalformedBoxError("blocks before time 0")
        flags = heads[:, 3]
        is_key = (flags & _KEY) != 0
        duration = np.full(len(start), track.default_duration // self.nanoseconds, np.int64)
        for number in np.flatnonzero(np.isin(start, list(self.groups))).tolist() if self.groups else []:
            own_duration, is_key[number] = self.groups[int(start[number])]
            if own_duration:
                duration[number] = own_duration
        blocks = Blocks(
            nanoseconds=self.nanoseconds,
            time=time - (track.codec_delay + self.nanoseconds // 2) // self.nanoseconds,
            duration=duration,
            size=size - _BLOCK_HEADER_BYTES + len(track.stripped),
            position=start,
            is_key=is_key,
            payload=heads[:, _BLOCK_HEADER_BYTES:],
            start=start + _BLOCK_HEADER_BYTES,
            stripped=track.stripped,
        )
        lacing = np.asarray(flags & _LACING, np.uint8)
        if lacing.any():
            blocks = self._split_laced_blocks(blocks, lacing, track.default_duration)
        if not track.stripped:
            return blocks
        stripped = np.frombuffer(track.stripped, np.uint8)[:PAYLOAD_BYTES]
        whole = np.concatenate([np.tile(stripped, (len(blocks.payload), 1)), blocks.payload], axis=1)
        return replace(blocks, payload=whole[:, :PAYLOAD_BYTES])

    def _split_laced_blocks(self, blocks: Blocks, lacing: NDArray[np.uint8], default_duration: int) -> Blocks:
        """Replace each block that contains several frames (10.3) by these frames."""
        laces: dict[int, list[tuple[int, int]]] = {}
        count = np.ones(len(lacing), np.int64)
        for number in np.flatnonzero(lacing).tolist():
            begin = int(blocks.start[number])
            end = begin + int(blocks.size[number]) - len(blocks.stripped)
            header = self.read_at(begin, min(end - begin, _MAX_LACE_HEADER_BYTES))
            laces[number] = _split_laces(header, int(lacing[number]), begin, end)
            count[number] = len(laces[number])
        if int(count.sum()) > _MAX_ELEMENTS:
            raise MalformedBoxError("too many frames")
        block = np.repeat(np.arange(len(count)), count)
        time, duration, payload = blocks.time[block], blocks.duration[block], blocks.payload[block]
        size, start = blocks.size[block], blocks.start[block]
        first = np.cumsum(count) - count
        for number, frames in laces.items():
            at, num_frames = int(first[number]), len(frames)
            own_duration, _ = self.groups.get(int(blocks.position[number]), (0, True))
            whole = own_duration or default_duration * num_frames // self.nanoseconds
            steps = np.array([whole * n // num_frames for n in range(num_frames + 1)])
            if not (np.diff(steps) > 0).all():
                raise MalformedBoxError("frames without times in a block")
            time[at : at + num_frames] += steps[:-1]
            duration[at : at + num_frames] = np.diff(steps)
            for i, (begin, length) in enumerate(frames):
                start[at + i], size[at + i] = begin, length + len(blocks.stripped)
                beginning = self.read_at(begin, min(length, PAYLOAD_BYTES)).ljust(PAYLOAD_BYTES, b"\0")
                payload[at + i] = np.frombuffer(beginning, np.uint8)
        return replace(
            blocks, time=time, duration=duration, payload=payload, size=size, start=start,
            position=blocks.position[block], is_key=blocks.is_key[block],
        )  # fmt: skip


def _split_laces(header: bytes, lacing: int, begin: int, end: int) -> list[tuple[int, int]]:
    """Return (position, size) of each frame in a laced block, which contains several frames.

    The payload of the block, which starts with ``header``, lies between the positions ``begin`` and ``end``.

    >>> _split_laces(bytes([1, 0x83]), 0x06, 100, 110)
    [(102, 3), (105, 5)]
    """
    num_frames, at = header[0] + 1, 1
    if lacing == _FIXED:
        each, rest = divmod(end - begin - 1, num_frames)
        sizes = [each] * num_frames
        if rest:
            raise MalformedBoxError("frames that do not fill their block")
    else:
        sizes = []
        try:
            for number in range(num_frames - 1):
                if lacing == _XIPH:
                    size = 0
                    while header[at] == 255:
                        size, at = size + 255, at + 1
                    size, at = size + header[at], at + 1
                else:
                    length = int(_SIZE_BYTES[header[at]])
                    if length > _MAX_SIZE_BYTES or at + length > len(header):
                        raise MalformedBoxError("a block that is cut off")
                    half = 1 << 7 * length
                    size = int.from_bytes(header[at : at + length], "big") & half - 1
                    if number:  # the stored value is a signed difference from the previous size
                        size += sizes[-1] - (half // 2 - 1)
                    at += length
                sizes.append(size)
        except IndexError:
            raise MalformedBoxError("a block that is cut off") from None
        sizes.append(end - begin - at - sum(sizes))
    if min(sizes) <= 0:
        raise MalformedBoxError("frames that do not fit into their block")
    ends = begin + at + np.cumsum(sizes)
    return [(int(stop) - size, size) for stop, size in zip(ends, sizes, strict=True)]
