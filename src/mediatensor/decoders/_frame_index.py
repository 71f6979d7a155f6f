"""Which frames a stream has, in presentation order: pure data, built from packets, from decoded frames or from a table.

::

    packets of one scan ──► from_packets ──► FrameIndex + doubts ──► (no doubt) use it
                                                   │
                                             doubt │ a decoding scan, once
                                                   ▼
                                              from_frames ──► FrameIndex, settled

`_frame_index_building` makes them, `_frame_index_answers` says what they know, `_index_file` keeps them in files.
"""

from __future__ import annotations

from ._frame_index_answers import NO_PTS, FrameIndex
from ._frame_index_building import Disposable, FrameRecord, PacketTable, from_frames, from_packets, from_table

__all__ = [
    "NO_PTS",
    "Disposable",
    "FrameIndex",
    "FrameRecord",
    "PacketTable",
    "from_frames",
    "from_packets",
    "from_table",
]
