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
from .resampling import MAX_CHANNELS, Resampler
from .sound import AudioReader, SampleForm, SampleQueue, has_frame_threads, set_trimming
from .subtitles import READABLE_PACKETS, SubtitlePacket, read_subtitle_facts, read_subtitle_packets

__all__ = [
    "DISCARD_ENTRY",
    "KEY_ENTRY",
    "MAX_CHANNELS",
    "READABLE_PACKETS",
    "AudioReader",
    "ContainerFacts",
    "FrameConverter",
    "LinearFrame",
    "Orientation",
    "PacketFacts",
    "Resampler",
    "SampleForm",
    "SampleQueue",
    "StreamFacts",
    "SubtitlePacket",
    "UndecodablePacketError",
    "VideoReader",
    "fingerprint",
    "has_frame_threads",
    "is_key_frame",
    "linear_decode",
    "packet_facts",
    "read_container_facts",
    "read_subtitle_facts",
    "read_subtitle_packets",
    "set_trimming",
]
