"""How a stream comes to its index: from its packets, or, where they leave doubts, from its frames."""

from __future__ import annotations

from ..errors import StreamError
from ._frame_index import FrameIndex, PacketTable, from_frames, from_packets
from ._open_video import OpenVideo
from ._scan import scan_frames, scan_packets

__all__ = ["index_stream", "settle_stream"]


def index_stream(video: OpenVideo) -> FrameIndex:
    """The frames of the stream.

    Raises:
        StreamError: if there is no frame at all.
    """
    table = _read_packets(video)
    if len(table) == 0:
        raise StreamError(f"{video.name}: the video stream has no packets, so there is no frame.")
    index, doubts = from_packets(table, video.time_base, video.facts.frame_rate)
    return _index_from_frames(video, table, doubts) if doubts else index


def settle_stream(video: OpenVideo, doubt: str) -> FrameIndex:
    """The frames of a stream whose packets turned out to promise the wrong ones.

    Raises:
        StreamError: if there is no frame at all.
    """
    return _index_from_frames(video, _read_packets(video), (doubt,))


def _read_packets(video: OpenVideo) -> PacketTable:
    with video.pool.borrow() as handle:
        handle.stream.reset()
        if not handle.stream.reader.is_fresh:
            handle.stream.reader.reopen()
        return scan_packets(handle.stream.reader)


def _index_from_frames(video: OpenVideo, table: PacketTable, doubts: tuple[str, ...]) -> FrameIndex:
    """Decode the stream once and list the frames that come out."""
    with video.pool.borrow() as handle:
        handle.stream.reset()
        records, num_undecodable = scan_frames(handle.stream.reader)
    if not records:
        raise StreamError(
            f"{video.name}: none of the {len(table)} packets of the video stream can be decoded "
            "(damaged or encrypted), so there is no frame."
        )
    return from_frames(
        records, table, video.time_base, video.facts.frame_rate, doubts=doubts, num_undecodable=num_undecodable
    )
