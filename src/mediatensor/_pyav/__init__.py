"""Everything that touches PyAV: the only package here that imports ``av``.

The differences between PyAV's major versions (fractions or rationals, which arguments exist) end in these modules;
the rest of the library sees plain Python values, numpy arrays, and frames as opaque handles.
"""

from __future__ import annotations

from .facts import ContainerFacts, StreamFacts
from .linear import LinearFrame, linear_decode
from .opening import read_container_facts
from .packets import UndecodablePacketError
from .pixels import FrameConverter, Orientation, fingerprint
from .reading import (
    DISCARD_ENTRY,
    KEY_ENTRY,
    PacketFacts,
    VideoReader,
    is_key_frame,
    packet_facts,
)

__all__ = [
    "DISCARD_ENTRY",
    "KEY_ENTRY",
    "ContainerFacts",
    "FrameConverter",
    "LinearFrame",
    "Orientation",
    "PacketFacts",
    "StreamFacts",
    "UndecodablePacketError",
    "VideoReader",
    "fingerprint",
    "is_key_frame",
    "linear_decode",
    "packet_facts",
    "read_container_facts",
]
