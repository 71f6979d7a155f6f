"""The packets of a stream from headers in its file, where those say all there is to say and are proven right.

An mp4 lists its samples in its header. In mkv and webm each block has a header, see `block_table`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...errors import ReadError
from ..bitstreams.content import break_detector
from ..bitstreams.order import GUARDED_CODECS
from ..containers.boxes import Box, MalformedBoxError, ReadAt, find_all, read_box, top_level_boxes
from ..containers.packet_table import Int64Array, PacketTable
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
from .block_table import BLOCK_CODECS, packets_of_blocks
from .proven_codecs import has_packets_too_small
from .scan import PacketScan

__all__ = ["has_header_table", "header_table", "may_leave_packets_unread"]

_FORMATS, _BLOCK_FORMATS = frozenset(("mov", "mp4")), frozenset(("matroska", "webm"))

# In these, all of which are proven, what the header calls a sample is a packet and a picture. Of VP8 and VP9 some
# samples may show nothing, and others are cut into packets anew by the demuxer's parser.
_CODECS = frozenset((
    "av1", "dnxhd", "ffv1", "h263", "h264", "hevc", "jpeg2000", "mjpeg", "mpeg2video", "mpeg4", "png", "prores",
    "rawvideo", "svq1", "v210",
))  # fmt: skip

# In these, the end of a sequence, and a picture that is not coded, can be samples of their own, of so few bytes.
_CODECS_WITH_OTHER_UNITS, _NO_PICTURE_BYTES = frozenset(("h264", "hevc", "mpeg2video", "mpeg4")), 8
# MPEG-2 has its sizes in front of key frames, too: so many of these are looked at, all over the file.
_NUM_SEQUENCE_HEADERS, _HEADER_BYTES = 16, 256
# Packets that are compared: the second shows whether there are others than key frames, of codecs that have others.
_NUM_COMPARED = 2
# More of them where times only grow although the codec can reorder: B pictures would show here. If they come later,
# `order_guard` finds them when they are fed.
_NUM_COMPARED_FOR_ORDER = 32
# Opening has read that much already, so nothing is spared, and reading the packets themselves shows more.
_SMALL_FILE_BYTES = 1 << 16


def has_header_table(reader: VideoReader) -> bool:
    """Whether the format has a table of all packets in its header, good or bad."""
    return not _FORMATS.isdisjoint(reader.format_name.split(","))


def may_leave_packets_unread(reader: VideoReader) -> bool:
    """Whether an index of the format may have been made by `header_table`, without a look into its packets."""
    return has_header_table(reader) or _has_blocks(reader)


def _has_blocks(reader: VideoReader) -> bool:
    return not _BLOCK_FORMATS.isdisjoint(reader.format_name.split(","))


def header_table(reader: VideoReader, *, small_file_bytes: int = _SMALL_FILE_BYTES) -> PacketTable | None:
    """The packets that reading the whole file would give, from its headers; ``None`` if that cannot be proven.

    The tables of an mp4's header must agree with the demuxer's own list, and in all formats the first packets must be
    what the headers say. Then only damage inside the media data is not seen; decoding meets it. Whether other pictures
    refer to a picture (``disposable``) is not known then.

    Args:
        reader: A fresh reader, which stays so.
        small_file_bytes: Of files up to this size the packets themselves are to be read.
    """
    has_blocks, codec = _has_blocks(reader), reader.stream_info().codec
    if not (has_blocks or has_header_table(reader)) or codec not in (BLOCK_CODECS if has_blocks else _CODECS):
        return None

    def look(read_at: ReadAt, file_size: int) -> PacketTable | None:
        if file_size <= small_file_bytes:
            return None
        try:
            if has_blocks:
                table, payloads = packets_of_blocks(reader, read_at, file_size)
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
    return _proven(reader, table, num_compared, makes_up_dts=has_blocks)


def _table(reader: VideoReader, read_at: ReadAt, file_size: int) -> PacketTable:
    moov, fragments = _header_boxes(read_at, file_size)
    track = find_track(moov, reader.track_id)
    time_base = reader.stream_info().time_base
    if time_base is None or (time_base.numerator, time_base.denominator) != (1, track.time_scale):
        raise MalformedBoxError("the demuxer counts in another time base")
    if not fragments and track.num_samples:
        samples = read_samples(track, file_size)
        return packets_of_samples(track, samples, _demuxed_in_order(reader, track, samples) or _demuxed(reader))
    if track.num_samples:
        raise MalformedBoxError("samples in the header and in fragments")
    table = packets_of_fragments(track, reader.track_id, moov, fragments, read_at, file_size)
    _check_fragments(table, _demuxed(reader))
    return table


def _are_pictures_of_one_format(codec: str | None, table: PacketTable, payloads: Int64Array, read_at: ReadAt) -> bool:
    """Whether, as far as a few bytes show, each sample is a picture, and sequence headers do not change.

    Args:
        codec: FFmpeg's name of the codec.
        table: The packets.
        payloads: Where the bytes of each begin.
        read_at: Reads them.
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
    """(content of the header, the fragments)."""
    movie: list[Box] = []
    fragments: list[Box] = []
    collectors: dict[bytes, Callable[[Box], None]] = {b"moov": movie.append, b"moof": fragments.append}
    try:
        for box in top_level_boxes(read_at, file_size):
            if box.kind in collectors:
                collectors[box.kind](box)
    except MalformedBoxError:
        # What follows the header is no concern of a header that describes all samples, if those are there.
        if fragments:
            raise
    if len(movie) != 1:
        raise MalformedBoxError(f"{len(movie)} headers")
    moov = read_box(read_at, movie[0])
    if find_all(moov, b"cmov"):
        raise MalformedBoxError("a compressed header")
    return moov, fragments


def _demuxed(reader: VideoReader, numbers: list[int] | None = None) -> DemuxedSamples:
    """The demuxer's list, or some of its entries."""
    entries = reader.index_entries(numbers)
    if not entries:
        raise MalformedBoxError("the demuxer has no list")
    position, dts, size, flags = np.array(entries, np.int64).T
    return DemuxedSamples(
        position, dts, size, ((flags & KEY_ENTRY) != 0) | reader.is_intra_only, (flags & DISCARD_ENTRY) != 0
    )


def _demuxed_in_order(reader: VideoReader, track: Track, samples: Samples) -> DemuxedSamples | None:
    """The demuxer's list without going over all of it, where some of it shows that it holds no surprise."""
    if reader.num_index_entries != len(samples.position):
        return None
    expected = expected_entries(track, samples, int(_demuxed(reader, [0]).dts[0]))
    if expected is None:
        return None
    if reader.is_intra_only:
        expected.is_key[:] = True
    numbers = entries_to_compare(expected.is_key)
    return expected if _agree(expected, numbers, _demuxed(reader, numbers.tolist())) else None


def _agree(ours: DemuxedSamples | PacketTable, at: NDArray[np.int64], theirs: DemuxedSamples) -> bool:
    """Whether some of our packets are those of a list."""
    return all(
        bool((getattr(ours, name)[at] == getattr(theirs, name)).all())
        for name in ("position", "dts", "size", "is_key", "is_discard")
    )


def _check_fragments(table: PacketTable, demuxed: DemuxedSamples) -> None:
    """What the demuxer knows already, which is the first fragments, must be the same."""
    at = np.searchsorted(table.position, demuxed.position).clip(max=len(table) - 1)
    if not _agree(table, at, demuxed):
        raise MalformedBoxError("the demuxer reads the fragments differently")


def _proven(reader: VideoReader, table: PacketTable, num_compared: int, *, makes_up_dts: bool) -> PacketTable | None:
    """The table, if the first packets are what it says, are sound, and do not belong to a stream of fields.

    Args:
        reader: A fresh reader, which stays so.
        table: The packets, as headers have them.
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
