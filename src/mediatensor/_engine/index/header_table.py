"""The packets of a stream from headers in its file, where those are complete and proven right.

The header of an mp4 lists its samples. In mkv and webm each block has a header, followed by its payload, of which only
the first bytes are read: for VP8, VP9 and most AV1 packets they show whether the packet has a frame. Damage, losses and
splices are found when packets are fed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...errors import ReadError
from ..bitstreams.content import break_detector, content_parser, has_valid_start, is_shown_at_once
from ..bitstreams.order import GUARDED_CODECS, picture_order
from ..bitstreams.units import PacketContent
from ..containers.boxes import Box, MalformedBoxError, ReadAt, find_all, read_box, top_level_boxes
from ..containers.matroska import Blocks, blocks_of_track
from ..containers.packet_table import NO_PTS, Int64Array, PacketTable, unread_packets
from ..containers.sample_tables import (
    DemuxedSamples,
    Samples,
    Track,
    entries_to_compare,
    expected_entries,
    find_track,
    packets_of_fragments,
    packets_of_samples,
    read_samples,
)
from ..pyav.reading import DISCARD_ENTRY, KEY_ENTRY, VideoReader
from .proven_codecs import has_packets_too_small
from .scan import PacketScan

_FORMATS, _BLOCK_FORMATS = frozenset(("mov", "mp4")), frozenset(("matroska", "webm"))

# In these, all of which are proven, a sample of the header is a packet and a frame. Some samples of VP8 and VP9 show
# nothing, and the demuxer's parser splits some again.
_CODECS = frozenset((
    "av1", "dnxhd", "ffv1", "h263", "h264", "hevc", "jpeg2000", "mjpeg", "mpeg2video", "mpeg4", "png", "prores",
    "rawvideo", "svq1", "v210",
))  # fmt: skip

# In these a block is a packet, packets without a frame can be recognised, and libavformat gives blocks as they are.
_BLOCK_CODECS = frozenset((
    "av1", "ffv1", "h264", "hevc", "mjpeg", "mpeg2video", "mpeg4", "rawvideo", "vp8", "vp9",
))  # fmt: skip
_NANOSECONDS = 1_000_000_000
_PICTURE_STARTS = {"mpeg2video": b"\0\0\1\0", "mpeg4": b"\0\0\1\xb6"}
# In these, the end of a sequence, and a frame that is not coded, can be separate samples of this many bytes.
_CODECS_WITH_OTHER_UNITS, _NO_PICTURE_BYTES = frozenset(("h264", "hevc", "mpeg2video", "mpeg4")), 8
# MPEG-2 repeats its sizes before key frames: this many of these are looked at, all over the file.
_NUM_SEQUENCE_HEADERS, _HEADER_BYTES = 16, 256
# Packets that are compared: the second shows whether there are frames other than key frames.
_NUM_COMPARED = 2
# More of them where times only grow although the codec can reorder: B frames would show here. If they come later,
# `order_guard` finds them when they are fed.
_NUM_COMPARED_FOR_ORDER = 32
# Opening has read this much already, so nothing is saved, and reading the packets themselves shows more.
_SMALL_FILE_BYTES = 1 << 16


def has_header_table(reader: VideoReader) -> bool:
    """Return whether the format has a table of all packets in its header, good or bad."""
    return not _FORMATS.isdisjoint(reader.format_name.split(","))


def may_leave_packets_unread(reader: VideoReader) -> bool:
    """Return whether an index of the format may have been made by `header_table`, without a look into its packets."""
    return has_header_table(reader) or _has_blocks(reader)


def _has_blocks(reader: VideoReader) -> bool:
    return not _BLOCK_FORMATS.isdisjoint(reader.format_name.split(","))


def header_table(reader: VideoReader, *, small_file_bytes: int = _SMALL_FILE_BYTES) -> PacketTable | None:
    """Return the packets that reading the whole file would give, from its headers; ``None`` if that cannot be proven.

    The tables of an mp4's header must agree with the demuxer's own list, and in all formats the first packets must be
    as the headers describe them. Then only damage inside the media data stays unseen; decoding meets it. ``disposable``
    is not known then.

    Args:
        reader: A fresh reader, which stays so.
        small_file_bytes: Up to this size, the packets themselves are to be read.
    """
    has_blocks, codec = _has_blocks(reader), reader.stream_info().codec
    if not (has_blocks or has_header_table(reader)) or codec not in (_BLOCK_CODECS if has_blocks else _CODECS):
        return None

    def look(read_at: ReadAt, file_size: int) -> PacketTable | None:
        if file_size <= small_file_bytes:
            return None
        try:
            if has_blocks:
                table, payloads = _packets_of_blocks(reader, read_at, file_size)
            else:
                table = _table(reader, read_at, file_size)
                payloads = table.position
        except MalformedBoxError:
            return None
        if codec == "mpeg4" and reader.reorder_depth and not has_blocks:
            return None  # files of many sources, XviD in AVI among them, have wrong times
        return table if _are_pictures_of_one_format(codec, table, payloads, read_at) else None

    table = reader.look_at_bytes(look)
    if table is None:
        return None
    may_time_decoding = bool(reader.reorder_depth) and table.times_only_grow and not table.is_key.all()
    if may_time_decoding and codec not in GUARDED_CODECS:
        return None
    num_compared = _NUM_COMPARED_FOR_ORDER if may_time_decoding else _NUM_COMPARED
    return _prove(reader, table, num_compared, makes_up_dts=has_blocks)


def _table(reader: VideoReader, read_at: ReadAt, file_size: int) -> PacketTable:
    moov, fragments = _header_boxes(read_at, file_size)
    track = find_track(moov, reader.track_id)
    time_base = reader.stream_info().time_base
    if time_base is None or (time_base.numerator, time_base.denominator) != (1, track.time_scale):
        raise MalformedBoxError("the demuxer counts in another time base")
    if not fragments and track.num_samples:
        samples = read_samples(track, file_size)
        return packets_of_samples(track, samples, _check_demuxed(reader, track, samples) or _demuxed_samples(reader))
    if track.num_samples:
        raise MalformedBoxError("samples in the header and in fragments")
    table = packets_of_fragments(track, reader.track_id, moov, fragments, read_at, file_size)
    _check_fragments(table, _demuxed_samples(reader))
    return table


def _are_pictures_of_one_format(codec: str | None, table: PacketTable, payloads: Int64Array, read_at: ReadAt) -> bool:
    """Return whether a few bytes show that each sample is a frame, and that sequence headers do not change.

    The bytes of each packet begin at ``payloads``.
    """
    if codec in _CODECS_WITH_OTHER_UNITS and (table.size <= _NO_PICTURE_BYTES).any():
        return False
    if has_packets_too_small(codec, table.size):
        return False
    if codec != "mpeg2video":
        return True
    detector = break_detector(codec, b"")
    keys = np.flatnonzero(table.is_key)
    chosen = (
        keys[np.unique(np.linspace(0, len(keys) - 1, _NUM_SEQUENCE_HEADERS).astype(np.int64))] if len(keys) else keys
    )
    headers = (read_at(int(payloads[key]), int(min(table.size[key], _HEADER_BYTES))) for key in chosen)
    return detector is None or all(detector.find(memoryview(header)) is None for header in headers)


def _header_boxes(read_at: ReadAt, file_size: int) -> tuple[memoryview, list[Box]]:
    """Return (content of the header, the fragments)."""
    movie: list[Box] = []
    fragments: list[Box] = []
    collectors: dict[bytes, Callable[[Box], None]] = {b"moov": movie.append, b"moof": fragments.append}
    try:
        for box in top_level_boxes(read_at, file_size):
            if box.kind in collectors:
                collectors[box.kind](box)
    except MalformedBoxError:
        # A header that describes all samples does not depend on the boxes after it.
        if fragments:
            raise
    if len(movie) != 1:
        raise MalformedBoxError(f"{len(movie)} headers")
    moov = read_box(read_at, movie[0])
    if find_all(moov, b"cmov"):
        raise MalformedBoxError("a compressed header")
    return moov, fragments


def _demuxed_samples(reader: VideoReader, numbers: list[int] | None = None) -> DemuxedSamples:
    """Return the demuxer's list, or some of its entries."""
    entries = reader.index_entries(numbers)
    if not entries:
        raise MalformedBoxError("the demuxer has no list")
    position, dts, size, flags = np.array(entries, np.int64).T
    return DemuxedSamples(
        position, dts, size, ((flags & KEY_ENTRY) != 0) | reader.is_intra_only, (flags & DISCARD_ENTRY) != 0
    )


def _check_demuxed(reader: VideoReader, track: Track, samples: Samples) -> DemuxedSamples | None:
    """Return the demuxer's list without going over all of it, if some entries show that the rest are as expected."""
    if reader.num_index_entries != len(samples.position):
        return None
    expected = expected_entries(track, samples, int(_demuxed_samples(reader, [0]).dts[0]))
    if expected is None:
        return None
    if reader.is_intra_only:
        expected.is_key[:] = True
    numbers = entries_to_compare(expected.is_key)
    return expected if _agree(expected, numbers, _demuxed_samples(reader, numbers.tolist())) else None


def _agree(ours: DemuxedSamples | PacketTable, at: NDArray[np.int64], theirs: DemuxedSamples) -> bool:
    """Return whether our packets at some places are those of a list."""
    return all(
        bool((getattr(ours, name)[at] == getattr(theirs, name)).all())
        for name in ("position", "dts", "size", "is_key", "is_discard")
    )


def _check_fragments(table: PacketTable, demuxed: DemuxedSamples) -> None:
    """Raise unless the first fragments, which the demuxer knows already, are the same."""
    at = np.searchsorted(table.position, demuxed.position).clip(max=len(table) - 1)
    if not _agree(table, at, demuxed):
        raise MalformedBoxError("the demuxer reads the fragments differently")


def _prove(reader: VideoReader, table: PacketTable, num_compared: int, *, makes_up_dts: bool) -> PacketTable | None:
    """Return the table if the first packets are as it says and intact, and the stream is not one of fields.

    Args:
        reader: A fresh reader, which stays so.
        table: The packets according to headers.
        num_compared: How many packets to look at, unless all are key frames.
        makes_up_dts: The format has no decoding times. Those of the first packets are then the demuxer's guesses.
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
        np.array_equal(getattr(read, name), getattr(table, name)[:count])
        for name in ("pts", "dts", "duration", "size", "position", "is_key", "is_discard", "is_hidden", "is_broken")
    )
    return table if are_equal and not (scan.may_be_fields or read.reasons_to_decode) else None


# Matroska and WebM: the headers of blocks, whose payloads stay unread


def _packets_of_blocks(reader: VideoReader, read_at: ReadAt, file_size: int) -> tuple[PacketTable, Int64Array]:
    """Return all packets of the stream, and where the payload of each begins.

    Raises:
        MalformedBoxError: if anything is unusual.
    """
    info = reader.stream_info()
    blocks = blocks_of_track(read_at, file_size, reader.stream_index, window_bytes=reader.small_read_bytes)
    time_base = info.time_base
    if time_base is None or time_base * _NANOSECONDS != blocks.nanoseconds:
        raise MalformedBoxError("the demuxer counts in another time base")
    is_key = blocks.is_key | reader.is_intra_only
    if info.codec == "vp8":  # the demuxer's parser looks, too (RFC 6386, 9.1)
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
    """Raise `MalformedBoxError` if times of MPEG frames contradict their kinds, which the first bytes show.

    A key frame often begins with headers. Its kind is known all the same.
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
    """Return decoding times as libavformat makes them up: the lowest of the latest times, one more than are held back.

    The first packets have none.
    """
    latest = pts
    for _ in range(reorder_depth):
        highest = np.maximum.accumulate(latest)
        # A time that is displaced by a new highest one, or is too low itself, competes for the next place.
        latest = np.minimum(latest, np.concatenate([[NO_PTS], highest[:-1]]))
    return np.maximum.accumulate(latest)


def _find_hidden(codec: str | None, extradata: bytes, blocks: Blocks, read_at: ReadAt) -> NDArray[np.bool_]:
    """Return whether nothing is shown of each packet."""
    hidden = ~is_shown_at_once(codec, blocks.payload, blocks.size)
    content_of = content_parser(codec, extradata)
    for number in np.flatnonzero(hidden).tolist():
        num_bytes = int(blocks.size[number]) - len(blocks.stripped)
        packet = memoryview(blocks.stripped + read_at(int(blocks.start[number]), num_bytes))
        # A damaged packet may look like one without a picture.
        hidden[number] = content_of(packet) is PacketContent.NO_PICTURE and has_valid_start(codec, packet)
    return hidden
