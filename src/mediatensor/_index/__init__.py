"""Which frames a stream has: the index, how it is made, and where it is kept.

`frame_index` is the data type, `frame_clock` compares times on a grid with the times of its frames. `scan` reads
packets, `header_table` reads the tables of a header and `block_table` the headers of blocks, `building` makes an
index of either, `index_file` and `cache` keep it. `indexing` chooses between them. `proven_codecs` lists the codecs
whose packets can be trusted.

This room knows readers and sources, and no opened video. Decoding for users is the video room's work.
"""

from __future__ import annotations

from .building import FrameRecord, from_frames, from_packets, from_table, parse_frame_mappings
from .cache import cached_index, get_index_cache, set_index_cache, store_index
from .frame_clock import FrameClock, frame_clock
from .frame_index import MAX_DELAY_PACKETS, FrameIndex, check_index_belongs, frame_times, note_source
from .header_table import has_header_table, header_table, may_leave_packets_unread
from .holes import FrameHole, describe_hole, describe_holes
from .identity import SourceIdentity, identify
from .indexing import certain_frames, index_by_decoding, index_first_frames, index_stream, packet_counts
from .proven_codecs import PROVEN_CODECS
from .scan import first_frame, scan_packets

__all__ = [
    "MAX_DELAY_PACKETS",
    "PROVEN_CODECS",
    "FrameClock",
    "FrameHole",
    "FrameIndex",
    "FrameRecord",
    "SourceIdentity",
    "cached_index",
    "certain_frames",
    "check_index_belongs",
    "describe_hole",
    "describe_holes",
    "first_frame",
    "frame_clock",
    "frame_times",
    "from_frames",
    "from_packets",
    "from_table",
    "get_index_cache",
    "has_header_table",
    "header_table",
    "identify",
    "index_by_decoding",
    "index_first_frames",
    "index_stream",
    "may_leave_packets_unread",
    "note_source",
    "packet_counts",
    "parse_frame_mappings",
    "scan_packets",
    "set_index_cache",
    "store_index",
]
