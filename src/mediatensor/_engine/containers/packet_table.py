"""The packets of a stream as columns of numbers, from a scan of the file or from the tables in its header."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..bitstreams.units import Disposable

NO_PTS = np.iinfo(np.int64).min

BoolArray = NDArray[np.bool_]
Int8Array = NDArray[np.int8]
Int64Array = NDArray[np.int64]


@dataclass(frozen=True)
class PacketTable:
    """The packets of one stream in decode order."""

    pts: Int64Array  # presentation time in the stream's time base; `NO_PTS` if missing
    dts: Int64Array  # decode time in the stream's time base; `NO_PTS` if missing
    duration: Int64Array  # in the stream's time base; 0 if unknown
    size: Int64Array  # in bytes
    position: Int64Array  # byte offset in the file, -1 if unknown
    is_key: BoolArray  # key frame flag of the container (or parser)
    is_discard: BoolArray  # whether to decode but not show it (edit lists)
    is_hidden: BoolArray  # whether it decodes to no frame: only updates references, or has no picture
    is_broken: BoolArray  # flagged corrupt by the demuxer, encrypted, invalid, of another codec, or after a loss
    is_field: BoolArray  # whether it is one field of a frame
    disposable: Int8Array  # whether no other picture refers to it: a `Disposable`, int8
    reasons_to_decode: tuple[str, ...] = ()  # breaks in the stream, after which there may be fewer frames than pictures
    read_error: str | None = None  # why reading stopped before the end of the file; `None` if it did not
    changes_palette: bool = False  # whether packets have palettes, which apply to the packets after them

    def __len__(self) -> int:
        return len(self.pts)

    @property
    def times_only_grow(self) -> bool:
        """Return whether presentation times never decrease in file order."""
        return bool((self.pts[1:] >= self.pts[:-1]).all())


def unread_packets(
    *,
    pts: Int64Array,
    dts: Int64Array,
    duration: Int64Array,
    size: Int64Array,
    position: Int64Array,
    is_key: BoolArray,
    is_discard: BoolArray | None = None,
    is_hidden: BoolArray | None = None,
) -> PacketTable:
    """Return the table of packets whose content has not been read."""
    nothing = np.zeros(len(pts), bool)
    return PacketTable(
        pts=pts,
        dts=dts,
        duration=duration,
        size=size,
        position=position,
        is_key=is_key,
        is_discard=nothing if is_discard is None else is_discard,
        is_hidden=nothing if is_hidden is None else is_hidden,
        is_broken=nothing,
        is_field=nothing,
        disposable=np.full(len(pts), Disposable.UNKNOWN, np.int8),
    )
