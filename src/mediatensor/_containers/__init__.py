"""What containers say: bytes in, tables out.

MP4 and its relatives, Matroska, MP3, WAV, Vorbis in Ogg, files that were joined end to end, and files that break off.
Everything here is pure: it parses bytes that somebody else has read, and never trusts a number in them.
"""

from __future__ import annotations

from .boxes import Box, MalformedBoxError, ReadAt, find_all, read_box, top_level_boxes
from .endings import breaks_off
from .fragments import packets_of_fragments
from .joined_files import FrameWalk, begins_file, flac_seconds, id3_end, ogg_links, time_restarts, wavpack_parts
from .matroska import PAYLOAD_BYTES, Blocks, blocks_of_track
from .mp3 import ConstantFrames, constant_frames, find_frame, has_stated_size
from .packet_table import NO_PTS, Int8Array, Int64Array, PacketTable, unread_packets
from .sample_tables import (
    DemuxedSamples,
    Samples,
    Track,
    entries_to_compare,
    expected_entries,
    find_track,
    packets_of_samples,
    read_samples,
)
from .vorbis import VorbisModes, first_packet_end, vorbis_modes
from .wav import SampleEncoding, WavHeader, layout_name, parse_wav_header

__all__ = [
    "NO_PTS",
    "PAYLOAD_BYTES",
    "Blocks",
    "Box",
    "ConstantFrames",
    "DemuxedSamples",
    "FrameWalk",
    "Int8Array",
    "Int64Array",
    "MalformedBoxError",
    "PacketTable",
    "ReadAt",
    "SampleEncoding",
    "Samples",
    "Track",
    "VorbisModes",
    "WavHeader",
    "begins_file",
    "blocks_of_track",
    "breaks_off",
    "constant_frames",
    "entries_to_compare",
    "expected_entries",
    "find_all",
    "find_frame",
    "find_track",
    "first_packet_end",
    "flac_seconds",
    "has_stated_size",
    "id3_end",
    "layout_name",
    "ogg_links",
    "packets_of_fragments",
    "packets_of_samples",
    "parse_wav_header",
    "read_box",
    "read_samples",
    "time_restarts",
    "top_level_boxes",
    "unread_packets",
    "vorbis_modes",
    "wavpack_parts",
]
