"""The packets of a Matroska or WebM stream from the headers of its blocks, whose payloads stay unread.

A payload's first bytes come with its header. They say of VP8, VP9 and most AV1 packets whether a picture is shown.
What else packets show (damage, losses, splices) is found when they are fed, as with the tables of an mp4.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..bitstreams.content import content_parser, has_valid_start, is_shown_at_once
from ..bitstreams.order import picture_order
from ..bitstreams.units import PacketContent
from ..containers.boxes import MalformedBoxError, ReadAt
from ..containers.matroska import Blocks, blocks_of_track
from ..containers.packet_table import NO_PTS, Int64Array, PacketTable, unread_packets
from ..pyav.reading import VideoReader

__all__ = ["BLOCK_CODECS", "packets_of_blocks"]

#: In these a block is a packet, and what is no picture can be told. libavformat gives it as it is.
BLOCK_CODECS = frozenset((
    "av1", "ffv1", "h264", "hevc", "mjpeg", "mpeg2video", "mpeg4", "rawvideo", "vp8", "vp9",
))  # fmt: skip
_NANOSECONDS = 1_000_000_000
_PICTURE_STARTS = {"mpeg2video": b"\0\0\1\0", "mpeg4": b"\0\0\1\xb6"}


def packets_of_blocks(reader: VideoReader, read_at: ReadAt, file_size: int) -> tuple[PacketTable, Int64Array]:
    """(all packets of the stream, where the payload of each begins).

    Args:
        reader: The demuxer of the stream.
        read_at: Reads the file.
        file_size: In bytes.

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
        is_hidden=_hidden(info.codec, reader.extradata, blocks, read_at),
    )
    return table, blocks.start


def _check_order(codec: str | None, reader: VideoReader, blocks: Blocks) -> None:
    """Compare the times of MPEG pictures with their kinds, which the first bytes show; ``MalformedBoxError`` if wrong.

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
    """Decoding times as libavformat makes them up: the lowest of the latest times, one more than are held back.

    Of the first packets there are none.
    """
    latest = pts
    for _ in range(reorder_depth):
        highest = np.maximum.accumulate(latest)
        # What a new highest time displaces, or is itself too low, competes for the next place.
        latest = np.minimum(latest, np.concatenate([[NO_PTS], highest[:-1]]))
    return np.maximum.accumulate(latest)


def _hidden(codec: str | None, extradata: bytes, blocks: Blocks, read_at: ReadAt) -> NDArray[np.bool_]:
    """Whether nothing is shown of each packet."""
    hidden = ~is_shown_at_once(codec, blocks.payload, blocks.size)
    content_of = content_parser(codec, extradata)
    for number in np.flatnonzero(hidden).tolist():
        num_bytes = int(blocks.size[number]) - len(blocks.stripped)
        packet = memoryview(blocks.stripped + read_at(int(blocks.start[number]), num_bytes))
        # A damaged packet may look like one without a picture.
        hidden[number] = content_of(packet) is PacketContent.NO_PICTURE and has_valid_start(codec, packet)
    return hidden
