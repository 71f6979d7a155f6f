"""List the packets of a stream from headers in the file, so that the packets themselves need not be read.

The header of an mp4 file lists its samples. In mkv and webm files, each block has a header before its payload, and only
the first bytes of the payload are read. For VP8 and VP9, and in most cases for AV1, these bytes show whether the packet
decodes to a frame. The list is used only if the headers are complete and match the first packets of the stream. Damage,
losses and splices are detected later, when packets are fed to the codec.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...errors import ReadError
from ..bitstreams.content import VP9_INDEX_MARKERS, break_detector, content_parser, has_valid_start, is_shown_at_once
from ..bitstreams.order import GUARDED_CODECS, picture_order
from ..bitstreams.units import PacketContent
from ..containers.boxes import Box, MalformedBoxError, ReadAt, find_all, read_box, top_level_boxes
from ..containers.matroska import Blocks, blocks_of_track
from ..containers.sample_tables import (
    NO_PTS,
    DemuxedSamples,
    Int64Array,
    PacketTable,
    Samples,
    Track,
    entries_to_compare,
    expected_packets,
    find_track,
    packets_of_fragments,
    packets_of_samples,
    read_samples,
    unread_packets,
)
from ..pyav.reading import DISCARD_ENTRY, KEY_ENTRY, VideoReader
from .scan import PacketScan, has_packets_too_small, spread

_FORMATS, _BLOCK_FORMATS = frozenset(("mov", "mp4")), frozenset(("matroska", "webm"))

# Codecs in which each sample in the header is one packet and one frame, as confirmed by measurements. VP8 and VP9 are
# missing: some of their samples show nothing, and the demuxer's parser splits some samples.
_CODECS = frozenset((
    "av1", "dnxhd", "ffv1", "h263", "h264", "hevc", "jpeg2000", "mjpeg", "mpeg2video", "mpeg4", "png", "prores",
    "rawvideo", "svq1", "v210",
))  # fmt: skip

# Codecs in which a block is a packet, packets without a frame can be recognised, and libavformat does not change
# blocks.
_BLOCK_CODECS = frozenset((
    "av1", "ffv1", "h264", "hevc", "mjpeg", "mpeg2video", "mpeg4", "rawvideo", "vp8", "vp9",
))  # fmt: skip
_NANOSECONDS = 1_000_000_000
_PICTURE_STARTS = {"mpeg2video": b"\0\0\1\0", "mpeg4": b"\0\0\1\xb6"}
# In these codecs, a sample of up to this many bytes may be the end of a sequence, or a frame that is not coded.
_CODECS_WITH_OTHER_UNITS, _NO_PICTURE_BYTES = frozenset(("h264", "hevc", "mpeg2video", "mpeg4")), 8
# In some packets, headers that need not change are compared: MPEG-2 repeats the frame size in the first bytes of key
# frames, and VP9 lists the frames of a packet at its end.
_HEADER_BYTES = 256
# Number of packets that are compared with the headers. The second one shows whether all frames are key frames.
_NUM_COMPARED = 2
# Number to compare if times never decrease although the codec can reorder, to find B frames with wrong times. Later B
# frames are checked by `order_guard` when they are fed.
_NUM_COMPARED_FOR_ORDER = 32
# Opening has already read this many bytes, so headers save nothing in smaller files, and packets show more.
_SMALL_FILE_BYTES = 1 << 16


def has_header_table(reader: VideoReader) -> bool:
    """Return whether files of this format list all packets in one header."""
    return not _FORMATS.isdisjoint(reader.format_name.split(","))


def may_leave_packets_unread(reader: VideoReader) -> bool:
    """Return whether `header_table` supports this format. If not, all packets must be read."""
    return not (_FORMATS | _BLOCK_FORMATS).isdisjoint(reader.format_name.split(","))


def header_table(reader: VideoReader, *, small_file_bytes: int = _SMALL_FILE_BYTES) -> PacketTable | None:
    """List the packets of a stream from headers. Return ``None`` unless reading the file would give the same list.

    In an mp4 file, the header must agree with the demuxer's own list of packets. In all formats, the first packets must
    match the headers. Only damage inside the media data can remain undetected until decoding. Also return ``None`` for
    files of up to ``small_file_bytes``.

    Call this before any packet is read. Afterwards, the reader is at the start of the stream again.
    """
    has_blocks = not _BLOCK_FORMATS.isdisjoint(reader.format_name.split(","))
    codec = reader.stream_info().codec
    if not (has_blocks or has_header_table(reader)) or codec not in (_BLOCK_CODECS if has_blocks else _CODECS):
        return None

    def look(read_at: ReadAt, file_size: int) -> PacketTable | None:
        if file_size <= small_file_bytes:
            return None
        try:
            if has_blocks:
                table, payloads = _packets_of_blocks(reader, read_at, file_size)
            else:
                table = _read_packet_table(reader, read_at, file_size)
                payloads = table.position
        except MalformedBoxError:
            return None
        if codec == "mpeg4" and reader.reorder_depth and not has_blocks:
            return None  # files converted from XviD in AVI, among other sources, have wrong times
        return table if _are_pictures_of_one_format(codec, table, payloads, read_at) else None

    table = reader.look_at_bytes(look)
    if table is None:
        return None
    may_time_decoding = bool(reader.reorder_depth) and table.times_only_grow and not table.is_key.all()
    if may_time_decoding and codec not in GUARDED_CODECS:
        return None
    num_compared = _NUM_COMPARED_FOR_ORDER if may_time_decoding else _NUM_COMPARED
    return _prove(reader, table, num_compared, makes_up_dts=has_blocks)


def _read_packet_table(reader: VideoReader, read_at: ReadAt, file_size: int) -> PacketTable:
    moov, fragments = _header_boxes(read_at, file_size)
    track = find_track(moov, reader.track_id)
    time_base = reader.stream_info().time_base
    if time_base is None or (time_base.numerator, time_base.denominator) != (1, track.time_scale):
        raise MalformedBoxError("the demuxer counts in another time base")
    if not fragments and track.num_samples:
        samples = read_samples(track, file_size)
        table = _expected_packets(reader, track, samples)
        return packets_of_samples(track, samples, _demuxed_samples(reader)) if table is None else table
    if track.num_samples:
        raise MalformedBoxError("samples in the header and in fragments")
    table = packets_of_fragments(track, reader.track_id, moov, fragments, read_at, file_size)
    entries = reader.index_entries()  # so far only the first fragments
    numbers = np.searchsorted(table.position, entries[0]).clip(max=len(table) - 1)
    if not len(numbers) or not _are_entries_equal(table, numbers, entries):
        raise MalformedBoxError("the demuxer reads the fragments differently")
    return table


def _are_pictures_of_one_format(codec: str | None, table: PacketTable, payloads: Int64Array, read_at: ReadAt) -> bool:
    """Return whether each packet seems to be a frame, and sequence headers never seem to change.

    This is judged by the sizes of packets and a few of their bytes. ``payloads`` has the position of each packet's data
    in the file.
    """
    if codec in _CODECS_WITH_OTHER_UNITS and (table.size <= _NO_PICTURE_BYTES).any():
        return False
    if has_packets_too_small(codec, table.size):
        return False
    if codec != "mpeg2video":
        return True
    detector = break_detector(codec, b"")
    keys = np.flatnonzero(table.is_key)
    headers = (read_at(int(payloads[key]), int(min(table.size[key], _HEADER_BYTES))) for key in spread(keys))
    return detector is None or all(detector.find(memoryview(header)) is None for header in headers)


def _header_boxes(read_at: ReadAt, file_size: int) -> tuple[memoryview, list[Box]]:
    """Return the content of the ``moov`` box, and a list of the ``moof`` boxes."""
    movie: list[Box] = []
    fragments: list[Box] = []
    try:
        for box in top_level_boxes(read_at, file_size):
            if box.kind in (b"moov", b"moof"):
                (movie if box.kind == b"moov" else fragments).append(box)
    except MalformedBoxError:
        # Without fragments, the header describes all samples. Malformed boxes after it do not matter then.
        if fragments:
            raise
    if len(movie) != 1:
        raise MalformedBoxError(f"{len(movie)} headers")
    moov = read_box(read_at, movie[0])
    if find_all(moov, b"cmov"):
        raise MalformedBoxError("a compressed header")
    return moov, fragments


def _demuxed_samples(reader: VideoReader) -> DemuxedSamples:
    position, dts, size, flags = np.array(reader.index_entries(), np.int64)
    if not len(position):
        raise MalformedBoxError("the demuxer has no list")
    return DemuxedSamples(position, dts, size, (flags & KEY_ENTRY) != 0, (flags & DISCARD_ENTRY) != 0)


def _expected_packets(reader: VideoReader, track: Track, samples: Samples) -> PacketTable | None:
    """Compute the packets that the demuxer should return; return ``None`` unless some entries match its list."""
    if reader.num_index_entries != len(samples.position):
        return None
    [[_], [first_dts], _, _] = reader.index_entries([0])
    table = expected_packets(track, samples, first_dts)
    if table is None:
        return None
    if reader.is_intra_only:
        table.is_key[:] = True
    numbers = entries_to_compare(table.is_key)
    return table if _are_entries_equal(table, numbers, reader.index_entries(numbers.tolist())) else None


def _are_entries_equal(table: PacketTable, numbers: Int64Array, entries: list[list[int]]) -> bool:
    """Return whether the packets with these numbers, none of which is discarded, are ``entries`` of the demuxer."""
    columns = (table.position, table.dts, table.size, table.is_key * KEY_ENTRY)
    return entries == [column[numbers].tolist() for column in columns]


def _prove(reader: VideoReader, table: PacketTable, num_compared: int, *, makes_up_dts: bool) -> PacketTable | None:
    """Read the first packets, and compare them with ``table``. Return the table if they match, otherwise ``None``.

    Also return ``None`` if one of these packets is damaged, or if the stream can contain single fields. Compare
    ``num_compared`` packets, or one if all packets are key frames. ``makes_up_dts`` means that the format stores no
    decoding times. In this case, the returned table has the demuxer's decoding times for the first packets.
    """
    scan = PacketScan(reader)
    num_delayed = reader.reorder_depth if makes_up_dts else 0
    count = min(max(1 if reader.is_intra_only else num_compared, num_delayed + 1), len(table))
    try:
        packets = reader.peek_packets(count)
    except ReadError:
        reader.reopen()
        return None
    scan.take(packets)
    read = scan.table()
    if makes_up_dts:
        table = replace(table, dts=np.concatenate([read.dts[:num_delayed], table.dts[num_delayed:]]))
    are_equal = all(
        getattr(read, name).tolist() == getattr(table, name)[:count].tolist()
        for name in ("pts", "dts", "duration", "size", "position", "is_key", "is_discard", "is_hidden", "is_broken")
    )
    return table if are_equal and not (scan.may_be_fields or read.reasons_to_decode) else None


# Matroska and WebM: block headers, without reading whole payloads


def _packets_of_blocks(reader: VideoReader, read_at: ReadAt, file_size: int) -> tuple[PacketTable, Int64Array]:
    """List the packets of a Matroska or WebM stream. Return the table, and the position of each packet's payload.

    Raises `MalformedBoxError` if the demuxer's packets could differ from the listed ones.
    """
    info = reader.stream_info()
    blocks = blocks_of_track(read_at, file_size, reader.stream_index, window_bytes=reader.small_read_bytes)
    time_base = info.time_base
    if time_base is None or time_base * _NANOSECONDS != blocks.nanoseconds:
        raise MalformedBoxError("the demuxer counts in another time base")
    is_key = blocks.is_key | reader.is_intra_only
    if info.codec == "vp8":  # the demuxer's parser uses this bit as well (RFC 6386, 9.1)
        is_key = blocks.payload[:, 0] & 1 == 0
    if not is_key[0]:
        raise MalformedBoxError("a stream that does not begin with a key frame")
    if (blocks.duration <= 0).any():
        raise MalformedBoxError("blocks without a duration, which the demuxer guesses")
    _check_order(info.codec, reader, blocks)
    table = unread_packets(
        pts=blocks.time,
        dts=_decoding_times(blocks.time, reader.reorder_depth),
        duration=blocks.duration,
        size=blocks.size,
        position=blocks.position,
        is_key=is_key,
        is_hidden=_find_hidden(info.codec, reader.extradata, blocks, read_at),
    )
    return table, blocks.start


def _check_order(codec: str | None, reader: VideoReader, blocks: Blocks) -> None:
    """Raise `MalformedBoxError` if the times of MPEG frames contradict their order, which follows from their types.

    The type of a frame is read from its first bytes, except for key frames, which often begin with other headers. Key
    frames are known from the container's flag.
    """
    start = _PICTURE_STARTS.get(codec or "")
    order = None if start is None else picture_order(codec, reader.extradata, reader.reorder_depth)
    if order is None or start is None:
        return
    for payload, pts, is_key in zip(blocks.payload, blocks.time.tolist(), blocks.is_key.tolist(), strict=True):
        head = start + b"\0\x08" if is_key else payload.tobytes()
        if not head.startswith(start) or not order.take(memoryview(head), head, pts):
            raise MalformedBoxError("pictures that are not in the order of their times")


def _decoding_times(pts: Int64Array, reorder_depth: int) -> Int64Array:
    """Compute decoding times as libavformat does for a format that stores none.

    The decoding time of a packet is the (``reorder_depth`` + 1)-th highest presentation time up to this packet. The
    first ``reorder_depth`` packets have no decoding time.
    """
    latest = pts
    for _ in range(reorder_depth):
        highest = np.maximum.accumulate(latest)
        # The previous highest time, or a time below the highest, is a candidate for the next rank.
        latest = np.minimum(latest, np.concatenate([[NO_PTS], highest[:-1]]))
    return np.maximum.accumulate(latest)


def _find_hidden(codec: str | None, extradata: bytes, blocks: Blocks, read_at: ReadAt) -> NDArray[np.bool_]:
    """Return for each packet whether it shows no frame. Read whole packets only if their first bytes do not show it.

    Raises `MalformedBoxError` if a packet shows several frames.
    """
    hidden = ~is_shown_at_once(codec, blocks.payload, blocks.size)
    num_bytes = blocks.size - len(blocks.stripped)
    if codec == "vp9":
        for number in spread(np.flatnonzero(~hidden)):
            last_byte = read_at(int(blocks.start[number] + num_bytes[number]) - 1, 1)
            hidden[number] = not VP9_INDEX_MARKERS.isdisjoint(last_byte)
    if not hidden.any():
        return hidden
    content_of = content_parser(codec, extradata)
    for number in np.flatnonzero(hidden).tolist():
        packet = memoryview(blocks.stripped + read_at(int(blocks.start[number]), int(num_bytes[number])))
        content = content_of(packet)
        if content is PacketContent.UNCERTAIN:
            raise MalformedBoxError("packets that show several frames")
        # A damaged packet may look like a packet without a picture, so also check how it starts.
        hidden[number] = content is PacketContent.NO_PICTURE and has_valid_start(codec, packet)
    return hidden
