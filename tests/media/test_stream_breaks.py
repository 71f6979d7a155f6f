"""Breaks in streams are detected where they are, even in files of which only the header is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import media
from exactness import Truth, assert_same, find_truth
from media_surgery import with_data
from media_writing import Packets
from mediatensor._engine.bitstreams.content import break_detector, refreshes_gradually
from mediatensor.decoders import VideoDecoder

# Intact clips, which must open without decoding: repeated headers, entry points that are not IDR pictures, and other
# features that could be mistaken for a break.
_SOUND = [
    "h264_open_gop", "h264_intra_refresh", "h264_slices", "h264_nal_hrd", "ts", "mkv", "ts_open_gop",
    "ts_intra_refresh",
    "hevc_closed_gop", "hevc_open_gop_mkv", "hevc_open_gop_ts", "hevc_radl", "hevc_temporal_layers_ts", "vp8", "vp9",
    "av1", "av1_low_delay", "av1_obu", "av1_ivf", "mpeg1_raw", "mpeg2_ts", "mpeg2_mkv", "mpeg2_interlaced", "mpeg4_avi",
    "mpeg4_mp4", "mpeg4_interlaced",
]  # fmt: skip


@pytest.mark.parametrize("name", _SOUND)
def test_intact_streams_are_counted_without_decoding(name: str, folder: Path) -> None:
    with VideoDecoder(media.make(name, folder)) as decoder:
        assert not decoder.frame_index.settled
        assert decoder.frame_index.anomalies == ()


def test_real_files_have_no_breaks(media_data: Callable[[str], Path]) -> None:
    for name in ("mux.js__sintel-captions.ts", "vali__test_hevc10.mkv", "file-type__fixture2.mpg"):
        with VideoDecoder(media_data(name)) as decoder:
            assert not decoder.frame_index.settled, decoder.frame_index.anomalies


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("size_change_mpeg2_mkv", "picture size that changes midway"),
        ("mpeg2_end_packets_mkv", "end of a sequence midway"),
        ("hevc_end_before_cra_ts", "end of a sequence midway"),
        ("hevc_broken_link_mkv", "leading pictures are dropped"),
        ("hevc_drops_prior_ts", "drop the pictures before them"),
        ("begins_in_refresh_ts", "not refreshed yet at the beginning"),
        ("h264_then_mpeg2", "another codec"),
        ("mpeg4_not_coded_b_frames_mkv", "do not show how many frames"),
    ],
)
def test_break_detector_names_the_break(name: str, reason: str, folder: Path) -> None:
    with VideoDecoder(media.make(name, folder)) as decoder:
        assert any(reason in anomaly for anomaly in decoder.frame_index.anomalies)


def _other_shape_of_pixels(packets: Packets) -> Packets:
    """Change the shape of pixels: broadcasts switch from 4:3 to 16:9 midway, and no frame is lost."""

    def change(data: bytes) -> bytes:
        at = data.index(b"\0\0\1\xb3") + 7
        return data[:at] + bytes([data[at] & 15 | 0x30]) + data[at + 1 :]

    return [
        with_data(packet, change(bytes(packet))) if number > 20 and packet.is_keyframe else packet
        for number, packet in enumerate(packets)
    ]


def test_pixel_aspect_ratio_change_is_not_a_break(tmp_path: Path) -> None:
    path = tmp_path / "shape.ts"
    media.write_spec(replace(media.CLIPS["mpeg2_ts"], rewrite=_other_shape_of_pixels), path)
    truth = find_truth(path)
    with truth.open() as decoder:
        assert len(decoder) == len(truth)
        assert not decoder.frame_index.settled


def truth_of_large_mp4(name: str, folder: Path) -> Truth:
    """Write a clip as mp4 with frames so large that only the header is read."""
    path = folder / "large.mp4"
    media.write_spec(replace(media.CLIPS[name], container="mp4", extension="", size=(320, 240)), path)
    assert path.stat().st_size > 1 << 16
    return find_truth(path)


@pytest.mark.parametrize("name", ["h264_end_packets_mkv", "mpeg4_not_coded_avi", "size_change_mpeg2_mkv"])
def test_header_packets_do_not_hide_breaks(name: str, tmp_path: Path) -> None:
    truth = truth_of_large_mp4(name, tmp_path)
    with truth.open() as decoder:
        assert len(decoder) == len(truth)


@pytest.mark.parametrize("name", ["hevc_broken_link_mkv", "hevc_end_before_cra_mkv"])
def test_decoding_detects_breaks_missing_from_headers(name: str, tmp_path: Path) -> None:
    """The break counts as damage, and later frames are right."""
    truth = truth_of_large_mp4(name, tmp_path)
    with truth.open() as decoder:
        decoder.get_frames_in_range(0, len(truth))
        assert len(decoder) == len(truth)
        for index in truth.some(8):
            assert_same(truth, index, decoder[index])


def _show_layers(packets: Packets) -> Packets:
    """Put two shown VP9 frames into packets after the first six, as encoders of spatial layers do (annex B)."""
    joined = packets[:6]
    for first, second, third in zip(packets[6::3], packets[7::3], packets[8::3], strict=True):
        sizes = b"".join(packet.size.to_bytes(4, "little") for packet in (first, second))
        joined += [with_data(first, bytes(first) + bytes(second) + b"\xd9" + sizes + b"\xd9"), third]
    return joined


@pytest.mark.parametrize("container", ["webm", "ivf"])
def test_vp9_packets_that_show_several_frames_are_counted_by_decoding(container: str, tmp_path: Path) -> None:
    path = tmp_path / f"layers.{container}"
    clip = media.CLIPS["vp9"]
    options = {**clip.options, "b": "12M"}
    clip = replace(clip, container=container, extension=container, size=(240, 180), num_frames=18, options=options)
    media.write_spec(replace(clip, rewrite=_show_layers), path)
    assert path.stat().st_size > 1 << 16, "otherwise headers are not used"
    truth = find_truth(path)
    assert len(truth) == 18
    with truth.open() as decoder:
        assert len(decoder) == len(truth)
        assert_same(truth, 17, decoder[17])


def test_start_of_file_may_differ_from_configuration() -> None:
    def begins_gradually(codec: str, *units: bytes) -> bool:
        return refreshes_gradually(codec, b"", memoryview(b"".join(b"\0\0\1" + unit for unit in units)))

    recovery_point = b"\x06\x06\x01"  # supplemental information of type 6, a byte long
    at_once, later = recovery_point + b"\xc4\x80", recovery_point + b"\x24\x80"  # recovery_frame_cnt of 0 and 3
    assert not begins_gradually("h264", b"\x67\x42", b"\x65\x88")
    assert not begins_gradually("h264", at_once, b"\x41\x9a")
    assert begins_gradually("h264", later, b"\x41\x9a")
    assert begins_gradually("h264", b"\x41\x9a"), "it does not say that it is complete"
    assert not begins_gradually("hevc", b"\x40\1\1", b"\x2a\1\xaf")
    assert begins_gradually("hevc", b"\x40\1\1", b"\x02\1\xd0")
    assert not begins_gradually("mpeg2video", b"\0\0\x0f")


def test_first_headers_may_differ_from_configuration() -> None:
    def header(width: int, *, extension: bytes = b"") -> memoryview:
        return memoryview(
            b"\0\0\1\xb3" + width.to_bytes(2, "big") + b"\x40\x13" + bytes(4) + extension + b"\0\0\1\0\0\x0f"
        )

    at_start = break_detector("mpeg2video", bytes(header(0x060)))
    in_middle = break_detector("mpeg2video", bytes(header(0x060)), is_at_start=False)
    assert at_start.find(header(0x0C0)) is None
    assert in_middle.find(header(0x0C0)) is not None
    assert at_start.find(header(0x0C0)) is None
    assert at_start.find(memoryview(b"\0\0\1\0\0\x17")) is None, "not every packet has headers"
    as_mpeg2 = b"\0\0\1\xb5\x14\x8a\0\1\0\0"
    assert at_start.find(header(0x0C0, extension=as_mpeg2)) is not None, "MPEG-1 continues as MPEG-2"
    assert break_detector("h264", b"") is None
