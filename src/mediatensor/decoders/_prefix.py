"""The first frames of a stream from its first packets, before the rest was read. Pure functions, but for `runs_on`.

::

    packets, decode order    I0 P4 B2 b1 b3 P8 B6 ...  ...  B42 b41 b43 │ not read yet
                             └───── certain ─────┘└── the last 32 ─────┘
    frames, by time          0 1 2 3 4 ... m                             m: the least time among the last 32

A packet that comes 32 packets later is not shown earlier: no codec reorders that far. So the frames before ``m`` have
their places for good, provided that time does not start again further on, as it does in files that were joined end to
end. Of formats in which that is usual, `runs_on` looks at packets all over the file.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from .._pyav import VideoReader
from ..errors import ReadError
from ._frame_index_answers import FrameIndex
from ._frame_index_building import from_packets
from ._packet_table import NO_PTS, PacketTable

__all__ = ["certain_frames", "packet_counts", "runs_on"]

# More packets than any codec reorders over.
_REORDERED = 32
# Who asks for more later makes a reader start again, so each step is several times as long as the one before.
_FIRST_FRAMES, _GROWTH, _NUM_STEPS = 8, 4, 5

# Of a probe of the time at some byte of the file.
_NUM_EVEN_PROBES = 16
_MAX_PACKETS_WITHOUT_TIME = 64


def packet_counts(num_frames: int) -> list[int]:
    """How many packets to read for the first ``num_frames`` frames, and how many if that is not enough, and so on.

    Empty if it takes so many that all may be read as well.

    >>> packet_counts(1), packet_counts(1000), packet_counts(10**6)
    ([40, 64, 160, 544, 2080], [2080], [])
    """
    frames = [_FIRST_FRAMES * _GROWTH**step for step in range(_NUM_STEPS)]
    return [count + _REORDERED for count in frames if count >= num_frames]


def certain_frames(table: PacketTable, time_base: Fraction, frame_rate: Fraction | None) -> FrameIndex | None:
    """The index of the frames whose place the first packets decide; ``None`` if they leave any doubt.

    Args:
        table: The first packets of a stream, not all.
        time_base: Seconds per tick.
        frame_rate: For the duration of a single frame of unknown duration.
    """
    index, doubts = from_packets(table, time_base, frame_rate)
    if doubts or len(table) <= _REORDERED:
        return None
    count = int((index.pts < table.pts[-_REORDERED:].min()).sum())
    return replace(
        index,
        pts=index.pts[:count],
        duration=index.duration[:count],
        is_key=index.is_key[:count],
        is_damaged=index.is_damaged[:count],
        packet=index.packet[:count],
        disposable=index.disposable[:count],
    )


def runs_on(reader: VideoReader, table: PacketTable) -> bool:
    """Whether the times of packets further on in the file only grow, as far as a few of them show.

    Two files joined end to end, the second of which starts at the time of the first, differ by that at any point of the
    second if their rates are alike. So probes lie at twice, four times, ... the distance of the last packet of
    ``table``, and evenly spread over the file.

    Args:
        reader: Is left anywhere.
        table: The first packets of the stream.
    """
    read_up_to, file_size = int(table.position.max()), reader.file_size
    if read_up_to <= 0 or file_size <= 0:
        return False
    doubling = [read_up_to << shift for shift in range(1, 64) if read_up_to << shift < file_size]
    even = [file_size * k // _NUM_EVEN_PROBES for k in range(1, _NUM_EVEN_PROBES)]
    times: list[int | None] = [int(table.pts.max())]
    times += [_time_at(reader, place) for place in sorted({*doubling, *even}) if place > read_up_to]
    known = [time for time in times if time is not None]
    return len(known) == len(times) and all(before <= after for before, after in pairwise(known))


def _time_at(reader: VideoReader, position: int) -> int | None:
    """Time of the first packet with one after some byte; ``None`` if there is none."""
    if not reader.seek_bytes(position):
        return None
    for _ in range(_MAX_PACKETS_WITHOUT_TIME):
        try:
            packet = reader.read_packet()
        except ReadError:
            return None
        if packet is None:
            return None
        if packet.pts is not None and packet.pts != NO_PTS:
            return int(packet.pts)
    return None
