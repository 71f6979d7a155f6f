"""The packets of a stream as columns of numbers: what a scan of a file and the tables in its header both give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..bitstreams.units import Disposable

__all__ = ["NO_PTS", "Int8Array", "Int64Array", "PacketTable", "unread_packets"]

NO_PTS = np.iinfo(np.int64).min

BoolArray = NDArray[np.bool_]
Int8Array = NDArray[np.int8]
Int64Array = NDArray[np.int64]


@dataclass(frozen=True)
class PacketTable:
    """The packets of one stream in decode order.

    Attributes:
        pts, dts: In the stream's time base; `NO_PTS` where there is none.
        duration: In the stream's time base; 0 where unknown.
        size: In bytes.
        position: Byte offset in the file, -1 where unknown.
        is_key: The container's (or parser's) key frame flag.
        is_discard: The decoder is to decode it and not show it (edit lists).
        is_hidden: No frame comes out of it: it only updates references, or holds no picture.
        is_broken: Flagged corrupt by the demuxer, encrypted, its structure does not add up or is of another codec, or
            it follows a loss.
        is_field: It is one field of a frame.
        disposable: Whether no other picture refers to it: a `Disposable`, int8.
        reasons_to_decode: Where the stream does not simply go on, so that frames may be fewer than pictures.
        read_error: Why reading stopped before the end of the file, if it did.
        changes_palette: Palettes come with some packets, and hold for those behind them.
    """

    pts: Int64Array
    dts: Int64Array
    duration: Int64Array
    size: Int64Array
    position: Int64Array
    is_key: BoolArray
    is_discard: BoolArray
    is_hidden: BoolArray
    is_broken: BoolArray
    is_field: BoolArray
    disposable: Int8Array
    reasons_to_decode: tuple[str, ...] = ()
    read_error: str | None = None
    changes_palette: bool = False

    def __len__(self) -> int:
        return len(self.pts)

    @property
    def times_only_grow(self) -> bool:
        """Whether no packet has an earlier time of presentation than the one before it in the file."""
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
    """The table of packets of which nobody has seen the content."""
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
