"""Packets from the headers of MP4 and QuickTime files equal a scan's, or are refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import media
from header_tables import assert_equal, assert_right_or_none, mutated, tables_of
from media_surgery import box
from mediatensor._engine.containers.boxes import MalformedBoxError, find_all, top_level_boxes
from mediatensor._engine.containers.sample_tables import (
    DemuxedSamples,
    PacketTable,
    find_track,
    packets_of_samples,
    read_samples,
)

CLIPS = [
    name for name, spec in media.CLIPS.items() if spec.container in ("mp4", "mov", "3gp") and spec.expect == "frames"
]

# Clips without a header table, and why. All other clips must have one, or the comparison would be empty.
NOT_FROM_HEADER = {
    **{
        name: "MPEG-4 with B pictures may have wrong times"
        for name in CLIPS
        if "mpeg4_mp4" in name or name == "odd_size"
    },
    "cover_art_alone": "the picture is not a track",
    "edit_list_backwards": "decoding times start again at an edit",
    "edit_list_repeats": "decoding times start again at an edit",
    "edit_list_two_parts": "decoding times start again at an edit",
    "edit_list_two_parts_with_pause": "decoding times start again at an edit",
    "h264_fake_interlaced": "packets might be single fields",
    "h264_field_pairs_mp4": "packets are single fields",
    "h264_field_pairs_in_packets": "packets might be single fields",
    "h264_mbaff": "packets might be single fields",
    "h264_temporal_direct": "packets might be single fields",
    **dict.fromkeys(("cineform", "qtrle", "rpza", "smc"), "the codec is not one whose packets headers describe"),
    "truncated_mp4_faststart": "samples are missing",
    "truncated_mp4_fragmented": "samples are missing",
    "vp9_mp4": "packets might show nothing",
}

REAL_FILES = {
    ("accv-lab__moving_shape_open_gop_h265.mp4", 0): True,
    ("androidx-media__bbb_800x640_768kbps_30fps_avc_non_reference_3b.mp4", 0): True,
    ("androidx-media__sample_edit_list_only_preroll_sync_sample.mp4", 0): True,
    ("decord__video_90.mov", 0): True,
    ("exoplayer__video_desks.3gp", 0): True,
    ("file-type__fixture2.3gp", 1): True,
    ("gpmf-parser__karma.mp4", 0): True,
    ("jcodec__precise_clip.mp4", 0): False,  # the first two packets are not in the order of their times
    ("mdn__flower-fragmented.mp4", 0): True,
    ("megatron-energon__sync_test.mp4", 0): True,
    ("mp4ff__init-video.mp4", 0): False,  # a header without any sample
    ("mp4ff__stereo_spatial.mp4", 0): True,
    ("mp4parse-rust__short-cenc.mp4", 0): False,  # encrypted
    ("pims__bulk-water.mov", 0): True,
    ("rails__rotated_hdr_video.mov", 0): True,
    ("rails__video_with_undefined_display_aspect_ratio.mp4", 1): True,
    ("streamio-ffmpeg__awesome-movie.mov", 1): True,
}


@pytest.mark.parametrize("name", CLIPS)
def test_header_table_matches_packet_scan(name: str, folder: Path) -> None:
    from_header, scanned = tables_of(media.make(name, folder))
    assert (from_header is None) == (name in NOT_FROM_HEADER)
    if from_header is not None:
        # A header cannot show damage in the media.
        assert_equal(from_header, scanned, besides=["is_broken"] if name in media.DAMAGED_CLIPS else [])


@pytest.mark.parametrize(("file", "stream_index"), list(REAL_FILES))
def test_header_table_matches_packet_scan_of_real_files(
    file: str, stream_index: int, media_data: Callable[[str], Path]
) -> None:
    from_header, scanned = tables_of(media_data(file), stream_index)
    assert (from_header is not None) == REAL_FILES[file, stream_index]
    if from_header is not None:
        assert_equal(from_header, scanned)


def test_header_tables_serve_all_real_files(media_data: Callable[[str], Path]) -> None:
    names = {
        path.name for path in media_data("manifest.json").parent.iterdir() if path.suffix in (".mp4", ".mov", ".3gp")
    }
    assert names - {file for file, _ in REAL_FILES} == {
        "decord__corrupted.mp4",  # damage inside the media, which no header shows
        "rails__video_without_video_stream.mp4",
    }


def test_every_kind_of_source_has_header_table(folder: Path) -> None:
    path = media.make("mp4", folder)
    with path.open("rb") as file:
        for source in (path, str(path), path.read_bytes(), file):
            from_header, scanned = tables_of(source)
            assert_equal(from_header, scanned)


def test_each_of_two_streams_has_its_own_packets(folder: Path) -> None:
    path = media.make("two_video_streams", folder)
    counts = []
    for stream_index in (0, 1):
        from_header, scanned = tables_of(path, stream_index)
        assert_equal(from_header, scanned)
        counts.append(len(from_header))
    assert counts == [30, 40]


def test_small_files_are_scanned(folder: Path) -> None:
    path = media.make("mp4", folder)
    num_bytes = path.stat().st_size
    assert tables_of(path, small_file_bytes=num_bytes)[0] is None
    assert tables_of(path, small_file_bytes=num_bytes - 1)[0] is not None


# Mutated headers


@pytest.mark.parametrize("name", ["mp4", "edit_list_both_ends", "mp4_fragmented", "mp4_negative_composition_offsets"])
def test_mutated_headers_give_right_table_or_none(name: str, folder: Path) -> None:
    """With changed bytes in the header, opening fails, or the header is refused, or its table is right.

    The places and presentation times of packets must be right. With changed sizes, packets are cut in wrong places,
    which only decoding can detect.
    """
    data = media.make(name, folder).read_bytes()
    copies = mutated(data, header_bytes(data), [0, 1, 0x7F, 0x80, 0xFF], seed=5, num_copies=150)
    assert_right_or_none(copies, besides=("is_key", "is_broken"))


def header_bytes(data: bytes) -> list[int]:
    boxes = [box for box in top_level_boxes(reading(data), len(data)) if box.kind in (b"moov", b"moof", b"sidx")]
    return [at for box in boxes for at in range(box.start, box.end)]


def reading(data: bytes) -> Callable[[int, int], bytes]:
    return lambda position, size: data[position : position + size]


def table_box(kind: bytes, *numbers: int, version: int = 0) -> bytes:
    return box(kind, struct.pack(f">{len(numbers) + 1}I", version << 24, *(number & 0xFFFFFFFF for number in numbers)))


def moov(
    *, entry: bytes = b"avc1", entries: int = 1, self_contained: bool = True, table: bytes = b"", track_id: int = 7
) -> memoryview:
    description = box(b"stsd", struct.pack(">II", 0, entries), box(entry, bytes(78)) * entries)
    reference = box(b"dref", struct.pack(">II", 0, 1), table_box(b"url ") if not self_contained else
                    box(b"url ", struct.pack(">I", 1)))  # fmt: skip
    media_box = box(b"mdia", table_box(b"mdhd", 0, 0, 12800, 0, 0),
                    box(b"minf", box(b"dinf", reference), box(b"stbl", description, table or TABLE)))  # fmt: skip
    track = box(b"trak", table_box(b"tkhd", 0, 0, track_id, 0), media_box)
    return memoryview(table_box(b"mvhd", 0, 0, 1000, 0) + track)


# Hand-made: six samples of 10, 20, ... 60 bytes in four chunks of two, two, one and one.
SIZES = table_box(b"stsz", 0, 6, 10, 20, 30, 40, 50, 60)
CHUNKS = table_box(b"stsc", 2, 1, 2, 1, 3, 1, 1)  # two samples each from chunk 1, one from chunk 3
OFFSETS = table_box(b"stco", 4, 100, 200, 500, 700)
DURATIONS = table_box(b"stts", 2, 5, 512, 1, 100)
DELAYS = table_box(b"ctts", 3, 1, 1024, 4, 512, 1, 0)
TABLE = SIZES + CHUNKS + OFFSETS + DURATIONS + DELAYS
POSITIONS, STEPS = [100, 110, 200, 230, 500, 700], [512, 512, 512, 512, 512, 100]


def demuxed(**changes: list[int]) -> DemuxedSamples:
    columns = {
        "position": POSITIONS,
        "dts": [0, 512, 1024, 1536, 2048, 2560],
        "size": [10, 20, 30, 40, 50, 60],
        "is_key": [1, 0, 0, 0, 0, 0],
        "is_discard": [0] * 6,
        **changes,
    }
    return DemuxedSamples(
        **{name: np.array(values, bool if name.startswith("is_") else np.int64) for name, values in columns.items()}
    )


def packets(table: bytes = TABLE, file_size: int = 1000, **changes: list[int]) -> PacketTable:
    track = find_track(moov(table=table), 7)
    return packets_of_samples(track, read_samples(track, file_size), demuxed(**changes))


def test_hand_made_tables_are_parsed() -> None:
    found = packets()
    assert found.position.tolist() == POSITIONS
    assert found.size.tolist() == [10, 20, 30, 40, 50, 60]
    assert found.duration.tolist() == STEPS
    assert found.pts.tolist() == [1024, 1024, 1536, 2048, 2560, 2560]


def test_other_forms_of_tables_are_equal() -> None:
    small_sizes = box(b"stz2", struct.pack(">III6B", 0, 8, 6, 10, 20, 30, 40, 50, 60))
    far_offsets = box(b"co64", struct.pack(">II4Q", 0, 4, 100, 200, 500, 700))
    other = packets(small_sizes + CHUNKS + far_offsets + DURATIONS + DELAYS)
    for spec in fields(PacketTable):
        assert np.array_equal(getattr(other, spec.name), getattr(packets(), spec.name)), spec.name


def test_negative_delays_shift_decoding_times_back() -> None:
    delays = table_box(
        b"ctts", 4, 2, 0, 2, -512, 1, 256, 1, -4096
    )  # Writers put meaningless values into the last two runs.
    found = packets(SIZES + CHUNKS + OFFSETS + DURATIONS + delays, dts=[-512, 0, 512, 1024, 1536, 2048])
    assert found.pts.tolist() == [0, 512, 512, 1024, 2304, -1536]


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (TABLE.replace(SIZES, table_box(b"stsz", 10, 1 << 31)), "samples in 1000 bytes"),
        (TABLE.replace(SIZES, table_box(b"stsz", 900, 6)), "beyond the end"),
        (TABLE.replace(SIZES, table_box(b"stsz", 0, 6, 10, 20, 30, 0, 50, 60)), "invalid sample sizes"),
        (TABLE.replace(SIZES, table_box(b"stsz", 0, 6, 10, 20)), "ends before"),
        (TABLE.replace(SIZES, b""), "tables of sample sizes"),
        (TABLE.replace(OFFSETS, table_box(b"stco", 4, 100, 200, 500, 950)), "beyond the end"),
        (TABLE.replace(OFFSETS, table_box(b"stco", 4, 100, 110, 500, 700)), "overlap"),
        (TABLE.replace(OFFSETS, box(b"co64", struct.pack(">II4Q", 0, 4, 1, 2, 3, 2**63 - 1))), "beyond the end"),
        (TABLE.replace(CHUNKS, table_box(b"stsc", 1, 1, 3, 1)), "without the samples"),
        (TABLE.replace(CHUNKS, table_box(b"stsc", 2, 1, 2, 1, 9, 1, 1)), "do not exist"),
        (TABLE.replace(CHUNKS, table_box(b"stsc", 1, 1, 0xFFFFFFFF, 1)), "without the samples"),
        (TABLE.replace(CHUNKS, table_box(b"stsc", 2, 2, 2, 1, 1, 1, 1)), "out of order"),
        (TABLE.replace(DURATIONS, table_box(b"stts", 1, 5, 512)), "do not match the samples"),
        (TABLE.replace(DURATIONS, table_box(b"stts", 1, 6, 0)), "durations"),
        (TABLE.replace(DURATIONS, table_box(b"stts", 1, 6, 0xFFFFFFFF)), "durations"),
        (TABLE.replace(DELAYS, table_box(b"ctts", 1, 9, 0)), "do not match the samples"),
        (TABLE.replace(DELAYS, table_box(b"ctts", 1, 6, 0x7FFFFFFF)), "invalid composition times"),
    ],
)
def test_find_track_refuses_invalid_tables(table: bytes, reason: str) -> None:
    assert table != TABLE
    with pytest.raises(MalformedBoxError, match=reason):
        packets(table)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"position": [100, 110, 200, 230, 500, 701]}, "elsewhere"),
        ({"size": [10, 20, 30, 40, 50, 61]}, "elsewhere"),
        ({"dts": [0, 512, 1024, 1536, 2048, 2561]}, "other times"),
        ({"dts": [1, 513, 1025, 1537, 2049, 2561]}, "other times"),
        ({name: column[:5] for name, column in {"position": POSITIONS, "dts": [0, 512, 1024, 1536, 2048],
          "size": [10, 20, 30, 40, 50], "is_key": [1, 0, 0, 0, 0], "is_discard": [0] * 5}.items()}, "finds 5"),
    ],
)  # fmt: skip
def test_contradicting_demuxer_is_refused(changes: dict[str, list[int]], reason: str) -> None:
    with pytest.raises(MalformedBoxError, match=reason):
        packets(**changes)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (moov(entry=b"encv"), "samples of kind"),
        (moov(entries=2), "more than one sample description"),
        (moov(self_contained=False), "in another file"),
        (moov(track_id=8), "0 tracks"),
        (memoryview(moov().tobytes() + moov().tobytes()), "2 tracks"),
    ],
)
def test_unusual_tracks_are_refused(header: memoryview, reason: str) -> None:
    with pytest.raises(MalformedBoxError, match=reason):
        find_track(header, 7)


def test_box_larger_than_its_parent_is_refused() -> None:
    with pytest.raises(MalformedBoxError, match="does not fit"):
        find_all(memoryview(struct.pack(">I4s", 9, b"free")), b"free")
    with pytest.raises(MalformedBoxError, match="does not fit"):
        list(top_level_boxes(reading(struct.pack(">I4sQ", 1, b"mdat", 2**64 - 1)), 16))
