"""Which frames a stream has: the index, how it is made, and where it is kept.

`frame_index` is the data type. `scan` reads packets, `header_table` reads the tables of a header, `building` makes an
index of either, `index_file` and `cache` keep it. Nothing here decodes for a user: that is the video room's.
"""

from __future__ import annotations

from .building import from_table, parse_frame_mappings
from .cache import cached_index, get_index_cache, set_index_cache, store_index
from .frame_index import FrameIndex, check_index_belongs, frame_times, note_source
from .header_table import has_header_table
from .identity import SourceIdentity, identify
from .indexing import index_by_decoding, index_first_frames, index_stream
from .scan import first_frame

__all__ = [
    "FrameIndex",
    "SourceIdentity",
    "cached_index",
    "check_index_belongs",
    "first_frame",
    "frame_times",
    "from_table",
    "get_index_cache",
    "has_header_table",
    "identify",
    "index_by_decoding",
    "index_first_frames",
    "index_stream",
    "note_source",
    "parse_frame_mappings",
    "set_index_cache",
    "store_index",
]
