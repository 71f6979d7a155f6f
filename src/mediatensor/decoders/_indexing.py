"""How a stream comes to its index: from the header of its file, from its packets, or, in doubt, from its frames."""

from __future__ import annotations

from .._pyav import VideoReader
from ..errors import StreamError
from ._frame_index import FrameIndex, PacketTable, from_frames, from_packets
from ._handles import Handle
from ._header_table import has_header_table, header_table
from ._open_video import OpenVideo
from ._prefix import certain_frames, packet_counts, runs_on
from ._scan import PacketScan, scan_frames, scan_packets

__all__ = ["index_first_frames", "index_stream", "settle_stream"]


def index_stream(video: OpenVideo) -> FrameIndex:
    """The frames of the stream.

    Raises:
        StreamError: if there is no frame at all.
    """
    table = _read_packets(video, header_will_do=True)
    if len(table) == 0:
        raise StreamError(f"{video.name}: the video stream has no packets, so there is no frame.")
    index, doubts = from_packets(table, video.time_base, video.facts.frame_rate)
    return _index_from_frames(video, table, doubts) if doubts else index


def index_first_frames(video: OpenVideo, num_frames: int) -> tuple[FrameIndex | None, bool]:
    """The first frames of the stream, at least ``num_frames``, with the same places and times as in the whole index.

    Returns:
        (index, is_whole): of less than the stream, unless it is so short that it was read to its end; ``None`` if the
        whole index has to be made, or costs no more.
    """
    counts = packet_counts(num_frames)
    with video.pool.borrow() as handle:
        reader = _fresh_reader(handle)
        if not counts or has_header_table(reader):
            return None, False
        scan = PacketScan(reader)
        for num_packets in counts:
            scan.read(num_packets)
            table = scan.table()
            if scan.is_complete:
                whole, doubts = from_packets(table, video.time_base, video.facts.frame_rate)
                return (whole, True) if len(whole) and not doubts else (None, False)
            first = certain_frames(table, video.time_base, video.facts.frame_rate)
            if first is None or len(first) >= num_frames:
                break
        if first is None or len(first) < num_frames or (reader.times_may_restart and not runs_on(reader, table)):
            return None, False
    return first, False


def settle_stream(video: OpenVideo, doubt: str) -> FrameIndex:
    """The frames of a stream whose packets turned out to promise the wrong ones.

    Raises:
        StreamError: if there is no frame at all.
    """
    return _index_from_frames(video, _read_packets(video), (doubt,))


def _read_packets(video: OpenVideo, *, header_will_do: bool = False) -> PacketTable:
    with video.pool.borrow() as handle:
        reader = _fresh_reader(handle)
        table = header_table(reader, video.spec.source) if header_will_do else None
        return scan_packets(reader) if table is None else table


def _fresh_reader(handle: Handle) -> VideoReader:
    handle.stream.reset()
    if not handle.stream.reader.is_fresh:
        handle.stream.reader.reopen()
    return handle.stream.reader


def _index_from_frames(video: OpenVideo, table: PacketTable, doubts: tuple[str, ...]) -> FrameIndex:
    """Decode the stream once, in software, and list the frames that come out."""
    video.decode_on_cpu(f"The packets do not show which frames there are ({'; '.join(doubts)})")
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
