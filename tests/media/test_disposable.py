"""Leaving out disposable packets changes no other frame, and decoders discard the same packets."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import av
import pytest

import media
from mediatensor._engine.bitstreams.content import disposable_parser
from mediatensor._engine.bitstreams.units import Disposable

_CODEC_NAMES = {"libdav1d": "av1"}

# Clips with disposable pictures.
_HAVE_SOME = [
    "h264_b_pyramid", "h264_open_gop", "h264_16_b_frames", "h264_mbaff", "h264_temporal_direct", "h264_weighted",
    "h264_hidden_reordering", "h264_slices", "h264_nal_hrd", "ts_open_gop", "raw_h264", "mpg", "flv",
    "hevc_closed_gop", "hevc_open_gop", "hevc_open_gop_ts", "hevc_radl", "hevc_weighted", "hevc_raw",
    "hevc_temporal_layers", "hevc_temporal_layers_ts", "hevc_five_temporal_layers",
    "av1", "av1_10bit", "av1_low_delay", "av1_hierarchical", "av1_film_grain", "av1_obu", "av1_ivf",
    "mpeg1_program_stream", "mpeg1_raw", "mpeg2_open_gop", "mpeg2_closed_gop", "mpeg2_ts", "mpeg2_interlaced",
    "mpeg4_mp4", "mpeg4_b_frames_avi", "mpeg4_raw", "mpeg4_qpel_gmc",
]  # fmt: skip

# Clips in which every frame is needed, or packets do not show which ones are needed.
_HAVE_NONE = [
    "h264_no_b_frames", "h264_all_intra", "h264_field_pairs_ts", "h264_lone_fields_mkv",
    "h264_field_pairs_unreferenced", "h264_field_pairs_in_packets", "vp8", "vp9", "vp9_hidden_frames",
    "vp9_temporal_layers", "vp9_show_existing_frame", "mpeg2_422", "mpeg4_avi", "mpeg4_packed_b_frames",
    "mpeg4_interlaced", "wmv2_asf", "ffv1_gop",
]  # fmt: skip


def judge(path: Path, extradata: bytes | None = None) -> list[bool]:
    """Return for each packet in decode order whether the library classifies it as disposable."""
    with av.open(str(path)) as container:
        context = container.streams.video[0].codec_context
        extradata = bytes(context.extradata or b"") if extradata is None else extradata
        parse = disposable_parser(_CODEC_NAMES.get(context.name, context.name), extradata)
        packets = [packet for packet in container.demux(video=0) if packet.size]
        return [parse(memoryview(packet)) == Disposable.YES for packet in packets]


def decode(path: Path, left_out: list[bool] | None = None, skip_frame: str = "DEFAULT") -> list[tuple[Any, int]]:
    """Return (pts, checksum) of the frames of a linear decode, perhaps without some packets."""
    frames = []
    with av.open(str(path)) as container:
        context = container.streams.video[0].codec_context
        context.thread_count = 1
        context.skip_frame = skip_frame
        packets = [packet for packet in container.demux(video=0) if packet.size]
        for number, packet in enumerate([*packets, None]):
            if packet is None or left_out is None or not left_out[number]:
                for frame in context.decode(packet):
                    frames.append((frame.pts, zlib.crc32(frame.to_ndarray(format="rgb24"))))
    return frames


def sub_sequence(some: list[Any], all_: list[Any]) -> bool:
    remaining = iter(all_)
    return all(item in remaining for item in some)


def by_pts(frames: list[tuple[Any, int]]) -> list[tuple[Any, int]]:
    return sorted(frames, key=lambda frame: (frame[0] is not None, frame[0] or 0))


@pytest.mark.parametrize("name", _HAVE_SOME)
def test_skipping_disposable_pictures_changes_no_other(name: str, folder: Path) -> None:
    path = media.make(name, folder)
    disposable = judge(path)
    assert any(disposable)
    complete, remaining = decode(path), decode(path, left_out=disposable)
    assert len(remaining) == len(complete) - sum(disposable)
    assert sub_sequence(by_pts(remaining), by_pts(complete))


def test_field_pairs_in_one_packet_are_disposable(folder: Path) -> None:
    """The clip's own record describes a progressive sequence, so this test uses a right one."""
    path = media.make("h264_field_pairs_in_packets", folder)
    with av.open(str(path)) as container:
        key_packet = bytes(next(container.demux(video=0)))
    parameters = key_packet[10 : 10 + key_packet[9]]  # after the length and two bytes of the delimiter, and a length
    assert parameters[0] == 0x67
    disposable = judge(path, b"\1" + parameters[1:4] + b"\xff\xe1\0" + bytes([len(parameters)]) + parameters + b"\0")
    assert disposable == [False, True] * 20
    assert decode(path, left_out=disposable) == decode(path)[::2]


@pytest.mark.parametrize("name", _HAVE_NONE)
def test_uncertain_packets_are_not_disposable(name: str, folder: Path) -> None:
    assert not any(judge(media.make(name, folder)))


@pytest.mark.parametrize("name", [name for name in _HAVE_SOME if not name.startswith(("av1", "hevc"))])
def test_decoders_discard_the_same_pictures(name: str, folder: Path) -> None:
    path = media.make(name, folder)
    assert decode(path, left_out=judge(path)) == decode(path, skip_frame="NONREF")


@pytest.mark.parametrize("name", [name for name in _HAVE_SOME if name.startswith(("av1", "hevc"))])
def test_decoders_keep_no_disposable_picture(name: str, folder: Path) -> None:
    """Decoders discard more: frames in a packet with references, and frames of lower sub-layers with references."""
    path = media.make(name, folder)
    kept = decode(path, skip_frame="NONREF")
    remaining = {pts for pts, _ in decode(path, left_out=judge(path))}
    assert {pts for pts, _ in kept} <= remaining
    if name.startswith("hevc") and "layers" not in name:
        assert {pts for pts, _ in kept} == remaining


def test_vp9_frames_without_reference_updates_are_needed(folder: Path) -> None:
    path = media.make("vp9_temporal_layers", folder)
    with av.open(str(path)) as container:
        packets = [bytes(packet) for packet in container.demux(video=0) if packet.size]
    # Marker 10, profile 00, show_existing_frame 0, frame_type 1, show_frame 1, error_resilient_mode 0; then
    # reset_frame_context u(2) and refresh_frame_flags u(8).
    updates_nothing = [packet[0] == 0x86 and not packet[1] & 0x3F and not packet[2] & 0xC0 for packet in packets]
    assert sum(updates_nothing) == len(packets) // 2
    assert not sub_sequence(decode(path, left_out=updates_nothing), decode(path))


@pytest.mark.parametrize(
    ("name", "period"),
    [
        ("h264_b_pyramid", "NNYY"),
        ("h264_16_b_frames", "NN" + "Y" * 15),
        ("mpeg4_mp4", "NYY"),
        ("mpeg2_open_gop", "NYY"),
    ],
)
def test_disposable_pictures_match_encoder_structure(name: str, period: str, folder: Path) -> None:
    found = "".join("NY"[is_disposable] for is_disposable in judge(media.make(name, folder)))
    assert found[1 : 1 + len(period)] == period


@pytest.mark.parametrize("codec", [None, "", "vp8", "vp9", "vc1", "rv40", "h263"])
def test_other_codecs_have_no_disposable_packets(codec: str | None) -> None:
    for packet in (b"", bytes(20), b"\xff" * 20, b"\0\0\1\0\0\x1a\xff\xf8"):
        assert disposable_parser(codec, b"")(memoryview(packet)) == Disposable.NO


@pytest.mark.parametrize("codec", ["h264", "hevc", "av1", "mpeg2video", "mpeg4"])
def test_random_bytes_are_not_disposable_and_parse_fast(codec: str) -> None:
    for extradata in (b"\1" * 30, b"\xff" * 30, bytes(1000), b"\0\0\1\x67" + bytes(100_000), b"\x81", b"\x01\xff"):
        parse = disposable_parser(codec, extradata)
        for packet in (b"\xff" * 1000, b"\0\0\1" * 300, b"\0\0\1\x67" + bytes(1_000_000), bytes(1_000_000)):
            assert parse(memoryview(packet)) == Disposable.NO
