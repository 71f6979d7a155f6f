"""How a stream comes to its index: from the header of its file, from its packets, or from its decoded frames."""

from __future__ import annotations

from contextlib import AbstractContextManager
from fractions import Fraction
from typing import Protocol

from .._containers import PacketTable
from .._pyav import ContainerInfo, StreamInfo, VideoReader
from .._sources import Source
from ..errors import StreamError
from .building import from_frames, from_packets
from .frame_index import FrameIndex
from .header_table import has_header_table, header_table
from .scan import PacketScan, certain_frames, packet_counts, runs_on, scan_frames, scan_packets

__all__ = ["IndexableStream", "index_by_decoding", "index_first_frames", "index_stream"]


class IndexableStream(Protocol):
    """A video stream as indexing sees it: what the headers say, and a reader of its packets."""

    container_facts: ContainerInfo
    facts: StreamInfo

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def source(self) -> Source: ...

    @property
    def time_base(self) -> Fraction: ...

    def lend_reader(self, *, is_moved: bool) -> AbstractContextManager[VideoReader]:
        """A reader for the time of a ``with`` block; ``is_moved`` says that it will stand elsewhere afterwards."""

    def decode_on_cpu(self, reason: str) -> None:
        """Decode in software from now on."""


def index_stream(video: IndexableStream) -> FrameIndex:
    """The frames of the stream.

    Raises:
        StreamError: if there is no frame at all.
    """
    table = _read_packets(video, header_will_do=True)
    if len(table) == 0:
        raise StreamError(f"{video.name}: the video stream has no packets, so there is no frame.")
    index, reasons = from_packets(table, video.time_base, video.facts.frame_rate)
    return _index_from_frames(video, table, reasons) if reasons else index


def index_first_frames(video: IndexableStream, num_frames: int) -> tuple[FrameIndex | None, bool]:
    """The first frames of the stream, at least ``num_frames``, with the same places and times as in the whole index.

    Returns:
        (index, is_whole): of less than the stream, unless it is so short that it was read to its end; ``None`` if the
        whole index has to be made, or costs no more.
    """
    counts = packet_counts(num_frames)
    with video.lend_reader(is_moved=True) as reader:
        if not reader.is_fresh:
            reader.reopen()
        if not counts or has_header_table(reader):
            return None, False
        scan = PacketScan(reader)
        for num_packets in counts:
            scan.read(num_packets)
            table = scan.table()
            if scan.is_complete:
                whole, reasons = from_packets(table, video.time_base, video.facts.frame_rate)
                return (whole, True) if len(whole) and not reasons else (None, False)
            first = certain_frames(table, video.time_base, video.facts.frame_rate)
            if first is None or len(first) >= num_frames:
                break
        if first is None or len(first) < num_frames or (reader.times_may_restart and not runs_on(reader, table)):
            return None, False
    return first, False


def index_by_decoding(video: IndexableStream, reason: str) -> FrameIndex:
    """The frames of a stream whose packets turned out to promise the wrong ones.

    Raises:
        StreamError: if there is no frame at all.
    """
    return _index_from_frames(video, _read_packets(video), (reason,))


def _read_packets(video: IndexableStream, *, header_will_do: bool = False) -> PacketTable:
    with video.lend_reader(is_moved=True) as reader:
        if not reader.is_fresh:
            reader.reopen()
        table = header_table(reader, video.source) if header_will_do else None
        return scan_packets(reader) if table is None else table


def _index_from_frames(video: IndexableStream, table: PacketTable, reasons: tuple[str, ...]) -> FrameIndex:
    """Decode the stream once, in software, and list the frames that come out."""
    video.decode_on_cpu(f"The packets do not show which frames there are ({'; '.join(reasons)})")
    with video.lend_reader(is_moved=True) as reader:
        records, num_undecodable = scan_frames(reader)
    if not records:
        raise StreamError(
            f"{video.name}: none of the {len(table)} packets of the video stream can be decoded "
            "(damaged or encrypted), so there is no frame."
        )
    return from_frames(
        records,
        table,
        video.time_base,
        video.facts.frame_rate,
        reasons_to_decode=reasons,
        num_undecodable=num_undecodable,
    )
