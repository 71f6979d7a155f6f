"""The clips have their stated properties; otherwise the tests that use them would prove nothing."""

from __future__ import annotations

import contextlib
import zlib
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import av
import pytest

import media
from oracles import linear_decode_frames, linear_decode_planes, undetermined_frames

# These are equal on purpose.
_SHOW_A_PICTURE_TWICE = {
    "vp9_show_existing_frame", "edit_list_repeats", "edit_list_two_parts_with_pause", "mpeg4_not_coded_at_end_avi",
}  # fmt: skip


class Counts(NamedTuple):
    """The number of packets of a stream, and of packets with each flag."""

    packets: int
    keys: int
    discarded: int


def count_packets(path: Path) -> Counts:
    """Count packets of the best video stream, up to a broken tail."""
    packets = []
    with av.open(str(path)) as container, contextlib.suppress(av.FFmpegError):
        packets += [p for p in container.demux(container.streams.best("video")) if p.size]
    return Counts(len(packets), sum(p.is_keyframe for p in packets), sum(p.is_discard for p in packets))


@pytest.mark.parametrize("name", media.VIDEO_CLIPS)
@pytest.mark.slow
def test_no_two_frames_look_the_same(name: str, folder: Path) -> None:
    path = media.make(name, folder)
    _, pictures = linear_decode_frames(path)
    assert pictures
    checksums = {zlib.crc32(picture) for picture in pictures}
    assert (len(checksums) < len(pictures)) == (name in _SHOW_A_PICTURE_TWICE)


def test_clips_are_cached(folder: Path) -> None:
    path = media.make("mp4", folder)
    written = path.stat().st_mtime_ns
    assert media.make("mp4", folder) == path
    assert path.stat().st_mtime_ns == written


@pytest.mark.parametrize("name", ["vp8", "vp8_ivf", "vp9_hidden_frames_ivf"])
def test_encoders_with_a_deadline_take_the_same_ways_however_long_they_take(name: str, tmp_path: Path) -> None:
    written = set()
    for number in range(3):
        path = tmp_path / f"{number}_{name}"
        media.write(name, path)
        written.add(path.read_bytes())
    assert len(written) == 1


def test_pictures_that_are_left_to_memory_are_noticed(folder: Path) -> None:
    found = undetermined_frames(media.make("lost_key_frame_vp8_large", folder))
    assert found
    assert found <= set(range(20, 39))
    assert undetermined_frames(media.make("lost_key_frame_vp8_ivf", folder)) == set()


@pytest.mark.parametrize(
    ("name", "num_packets", "num_frames"),
    [
        ("h264_field_pairs_mkv", 80, 40),
        ("h264_field_pairs_raw", 80, 40),
        ("h264_lone_fields_mkv", 78, 38),
        ("begins_at_second_key_mkv_open_gop", 31, 28),
        ("begins_at_second_key_hevc_open_gop_mkv", 31, 28),
        ("begins_at_second_key_mpeg2_ts", 30, 28),
        ("begins_in_gop_mkv", 35, 28),
        ("vp8_hidden_frames", 60, 51),
        ("vp9_show_existing_frame", 46, 46),
        ("mpeg4_packed_b_frames", 40, 40),
        ("edit_list_two_parts", 41, 22),
        ("h264_one_gop", 600, 600),
    ],
)
def test_packets_and_frames(name: str, num_packets: int, num_frames: int, folder: Path) -> None:
    path = media.make(name, folder)
    assert count_packets(path).packets == num_packets
    assert len(linear_decode_planes(path)) == num_frames


def test_hidden_frames_have_packets(folder: Path) -> None:
    path = media.make("vp9_hidden_frames_split", folder)
    num_frames = len(linear_decode_planes(path))
    assert num_frames == media.CLIPS["vp9_hidden_frames_split"].num_frames
    assert count_packets(path).packets > num_frames


@pytest.mark.parametrize("name", [name for name in media.CLIPS if name.startswith("edit_list_")])
def test_edit_lists_trim(name: str, folder: Path) -> None:
    assert count_packets(media.make(name, folder)).discarded > 0


@pytest.mark.parametrize("name", ["raw_h264", "missing_pts_ts", "mpg", "hevc_raw"])
def test_presentation_times_are_missing(name: str, folder: Path) -> None:
    path = media.make(name, folder)
    assert any(pts is None for pts, _ in linear_decode_planes(path))


@pytest.mark.parametrize("name", ["equal_pts_mkv", "equal_pts_b_frames_mkv", "equal_pts_flv", "all_equal_pts_mkv"])
def test_presentation_times_are_equal(name: str, folder: Path) -> None:
    times = [pts for pts, _ in linear_decode_planes(media.make(name, folder))]
    assert len(set(times)) < len(times)


@pytest.mark.parametrize("name", ["vfr_mp4", "vfr_mkv", "vfr_ts", "vfr_gif", "vfr_apng"])
def test_frame_rate_varies(name: str, folder: Path) -> None:
    times = [pts for pts, _ in linear_decode_planes(media.make(name, folder))]
    assert len({after - before for before, after in pairwise(times)}) > 5


def test_times_are_negative(folder: Path) -> None:
    times = [pts for pts, _ in linear_decode_planes(media.make("negative_pts_ts", folder))]
    assert times[0] == -20 * 3600
    assert times == sorted(times)


@pytest.mark.parametrize(
    "name", ["h264_open_gop", "mkv_open_gop", "ts_open_gop", "hevc_open_gop", "hevc_open_gop_mkv", "mpeg2_ts"]
)
def test_open_gops_have_leading_pictures(name: str, folder: Path) -> None:
    """At least one key frame is followed, in decoding order, by pictures that are shown before it."""
    with av.open(str(media.make(name, folder))) as container:
        packets = [p for p in container.demux(video=0) if p.size]
    keys = [number for number, packet in enumerate(packets) if packet.is_keyframe]
    assert len(keys) >= 3
    assert all(packets[key + 1].pts < packets[key].pts for key in keys[1:-1])


@pytest.mark.parametrize("name", ["live_webm", "live_mkv", "ts", "raw_h264"])
def test_headers_state_no_duration(name: str, folder: Path) -> None:
    with av.open(str(media.make(name, folder))) as container:
        assert container.streams.video[0].frames == 0
        if name.startswith("live"):
            assert container.duration is None


@pytest.mark.parametrize(("name", "degrees"), [("rotated_90", 90), ("rotated_180", 180), ("rotated_270", -90)])
def test_rotation_is_written(name: str, degrees: int, folder: Path) -> None:
    with av.open(str(media.make(name, folder))) as container:
        rotation = next(container.decode(video=0)).rotation
    assert (rotation - degrees) % 360 == 0


@pytest.mark.parametrize("name", ["h264_mbaff", "h264_field_pairs_mkv", "mpeg2_interlaced"])
def test_interlaced_frames_are_flagged(name: str, folder: Path) -> None:
    with av.open(str(media.make(name, folder))) as container:
        assert next(container.decode(video=0)).interlaced_frame


@pytest.mark.parametrize("name", [name for name in media.CLIPS if name.startswith("colour_")])
def test_colour_tags_are_written(name: str, folder: Path) -> None:
    with av.open(str(media.make(name, folder))) as container:
        frame = next(container.decode(video=0))
    matrices = {"bt601": 6, "bt709": 1, "bt2020": 9, "smpte240m": 7, "fcc": 4, "ycgco": 8}
    matrix = 10 if "constant" in name else matrices[name.split("_")[1]]
    assert frame.colorspace == matrix
    assert (frame.format.name == "yuvj420p") == name.endswith("full")
