"""Clips with packets without frames, and streams that change midway: packets do not determine frames."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av

from media_codecs import CODEC_CLIPS, mpeg, svt, x265
from media_containers import write_size_change
from media_surgery import empty_vop, with_data
from media_writing import ClipSpec, Packets, set_timestamps, write_clip, x264

_H264_END, _HEVC_END, _MPEG2_END, _MPEG4_END = b"\0\0\0\1\x0a", b"\0\0\0\1\x48\1", b"\0\0\1\xb7", b"\0\0\1\xb1"
_OPEN_GOP = "open-gop=1:b-adapt=0:repeat-headers=1"
_OBU_FRAMES = (3, 6)

# Two ticks a frame leave room for packets between pictures.
_SPACED: dict[str, Any] = {"time_base": Fraction(1, 50), "pts": range(0, 80, 2)}


def _insert(data: bytes, *behind: int) -> Callable[[Packets], Packets]:
    """Return a ``rewrite`` that inserts a packet after some packets; -1 is the last."""

    def rewrite(packets: Packets) -> Packets:
        out: Packets = []
        for number, packet in enumerate(packets):
            out.append(packet)
            if number in behind or (number == len(packets) - 1 and -1 in behind):
                own = av.Packet(data)
                own.pts, own.dts, own.time_base, own.duration = packet.pts + 1, packet.dts + 1, packet.time_base, 0
                out.append(own)
        return out

    return rewrite


def _append(data: bytes, number: int) -> Callable[[Packets], Packets]:
    """A ``rewrite`` that adds bytes at the end of a packet; of the last one before a key frame, if that is -1."""

    def rewrite(packets: Packets) -> Packets:
        at = _keys(packets)[1] - 1 if number == -1 else number
        return [
            with_data(packet, bytes(packet) + data) if n in (at, len(packets) - 1) else packet
            for n, packet in enumerate(packets)
        ]

    return rewrite


def _keys(packets: Packets) -> list[int]:
    return [number for number, packet in enumerate(packets) if packet.is_keyframe]


def _change_third_key(change: Callable[[bytes], bytes]) -> Callable[[Packets], Packets]:
    def rewrite(packets: Packets) -> Packets:
        at = _keys(packets)[2]
        return [*packets[:at], with_data(packets[at], change(bytes(packets[at]))), *packets[at + 1 :]]

    return rewrite


def _break_link(data: bytes) -> bytes:
    """Make a CRA picture of HEVC one of type BLA_W_LP, whose leading pictures are not to be decoded."""
    assert data.count(b"\0\0\1\x2a\1") == 1
    return data.replace(b"\0\0\1\x2a\1", b"\0\0\1\x20\1")


def _drop_prior(data: bytes) -> bytes:
    """Set no_output_of_prior_pics_flag of an IDR picture of HEVC, the second bit of its slice header."""
    match = re.search(rb"\x00\x00\x01[\x26\x28]\x01", data)
    assert match is not None
    at = match.end()
    return data[:at] + bytes([data[at] | 0x40]) + data[at + 1 :]


def _split_temporal_units(packets: Packets) -> Packets:
    """Give every AV1 frame, including hidden ones, its own packet."""
    out: Packets = []
    for packet in packets:
        parts = _parts_of_temporal_unit(bytes(packet))
        for number, data in enumerate(parts):
            own = av.Packet(data)
            own.pts = own.dts = packet.pts - (len(parts) - 1 - number)
            own.time_base, own.is_keyframe = packet.time_base, packet.is_keyframe and number == 0
            out.append(own)
    return out


def _parts_of_temporal_unit(data: bytes) -> list[bytes]:
    """Its units, which all state their size, up to each frame."""
    parts, start, at = [], 0, 0
    while at < len(data):
        kind = data[at] >> 3 & 15
        at += 2 if data[at] & 4 else 1
        size = shift = 0
        while True:
            size |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                break
        at += size
        if kind in _OBU_FRAMES:
            parts.append(data[start:at])
            start = at
    return parts


def _begin_at_second_key(packets: Packets) -> Packets:
    return packets[_keys(packets)[1] :]


def _write_joined(*codecs: str) -> Callable[[ClipSpec, Path], None]:
    """Files of several codecs end to end, with continuous time."""

    def build(spec: ClipSpec, path: Path) -> None:
        whole = b""
        for number, name in enumerate(codecs):
            part = path.with_stem(f"part{number}")
            start = 2 * number * spec.num_frames  # a gap, so that reordering does not reach over it
            shift = set_timestamps(lambda time, start=start: time + start)
            write_clip(replace(CODEC_CLIPS[name], container="mpegts", num_frames=spec.num_frames, rewrite=shift), part)
            whole += part.read_bytes()
        path.write_bytes(whole)

    return build


def _mkv(special: str, codec: str, options: dict[str, str], **changes: Any) -> ClipSpec:
    return ClipSpec(special, codec, "matroska", "mkv", options=options, **changes)


def _vc2(container: str, extension: str) -> ClipSpec:
    return ClipSpec(
        "a last packet that ends the sequence", "vc2", container, extension, options={"b": "5000000"},
        pix_fmt="yuv422p10le", num_frames=15,
    )  # fmt: skip


def _size_change(codec: str, container: str, extension: str) -> ClipSpec:
    return ClipSpec(
        "the size changes midway, and a frame is lost", codec, container, extension, options=mpeg(),
        num_frames=25, build=write_size_change, expect="sizes",
    )  # fmt: skip


WITHOUT_PICTURE = {
    "vc2_raw": _vc2("dirac", "drc"),
    "vc2_ts": _vc2("mpegts", "ts"),
    "h264_end_packets_mkv": _mkv(
        "ends of the sequence in packets", "libx264", x264("b-adapt=0"), rewrite=_insert(_H264_END, 11, -1), **_SPACED
    ),
    "h264_delimiter_packets_flv": ClipSpec(
        "delimiters in packets", "libx264", "flv", options=x264("open-gop=1:b-adapt=0"),
        rewrite=_insert(b"\0\0\0\1\x09\xf0", 11, -1), **_SPACED,
    ),
    "hevc_end_packets_mkv": _mkv(
        "ends of the sequence in packets", "libx265", x265("open-gop=0:repeat-headers=1"),
        rewrite=_insert(_HEVC_END, 11, -1), **_SPACED,
    ),
    "mpeg2_end_packets_mkv": _mkv(
        "ends of the sequence in packets", "mpeg2video", mpeg(), rewrite=_insert(_MPEG2_END, 11, 13, -1), **_SPACED
    ),
    "mpeg4_end_raw": ClipSpec(
        "an end of the sequence", "mpeg4", "m4v", options=mpeg(), rewrite=_append(_MPEG4_END, 39), **_SPACED
    ),
    "mpeg4_not_coded_avi": ClipSpec(
        "packets that say that nothing changes", "mpeg4", "avi", options=mpeg(bf="0"),
        rewrite=_insert(empty_vop(6), 13, 14, 30), **_SPACED,
    ),
    "mpeg4_not_coded_at_end_avi": ClipSpec(
        "a last packet that says that nothing changes, which repeats a frame", "mpeg4", "avi",
        options=mpeg(bf="0"), rewrite=_insert(empty_vop(6), 13, -1), **_SPACED,
    ),
    "mpeg4_not_coded_b_frames_mkv": _mkv(
        "packets that say that nothing changes", "mpeg4", mpeg(), rewrite=_insert(empty_vop(6), 13, 30),
        **_SPACED,
    ),
    "av1_delimiter_packets_ivf": ClipSpec(
        "temporal delimiters in packets", "libsvtav1", "ivf", options=svt(), rewrite=_insert(b"\x12\0", 11, -1),
        **_SPACED,
    ),
    "av1_hidden_frames_split": _mkv(
        "hidden frames in packets", "libsvtav1", svt(), rewrite=_split_temporal_units,
        time_base=Fraction(1, 200), pts=range(8, 328, 8),
    ),
}  # fmt: skip

DROPPED = {
    "hevc_end_before_cra_mkv": _mkv(
        "leading pictures after the end of a sequence", "libx265", x265(_OPEN_GOP),
        rewrite=_append(_HEVC_END, -1),
    ),
    "hevc_end_before_cra_ts": ClipSpec(
        "leading pictures after the end of a sequence", "libx265", "mpegts", "ts", options=x265(_OPEN_GOP),
        rewrite=_append(_HEVC_END, -1),
    ),
    "hevc_broken_link_mkv": _mkv(
        "leading pictures of a BLA picture", "libx265", x265(_OPEN_GOP), rewrite=_change_third_key(_break_link)
    ),
    "hevc_drops_prior_ts": ClipSpec(
        "a key frame that drops waiting frames", "libx265", "mpegts", "ts",
        options=x265("open-gop=0:b-adapt=0:repeat-headers=1"), rewrite=_change_third_key(_drop_prior),
    ),
    "hevc_intra_refresh_mkv": _mkv(
        "refreshed column by column", "libx265", x265("intra-refresh=1:bframes=0:repeat-headers=1")
    ),
    **{f"begins_in_refresh_{container.extension}": replace(
            container, special="begins where a refresh begins", options=x264("intra-refresh=1", bf="0"),
            rewrite=_begin_at_second_key)
        for container in (ClipSpec("", container="mpegts", extension="ts"), ClipSpec("", container="matroska",
            extension="mkv"), ClipSpec("", container="flv", extension="flv"))},
    "h264_then_mpeg2": ClipSpec("another codec midway", "several", "mpegts", "ts", num_frames=25,
        build=_write_joined("h264_open_gop", "mpeg2_ts")),
    "mpeg2_then_hevc": ClipSpec("another codec midway", "several", "mpegts", "ts", num_frames=25,
        build=_write_joined("mpeg2_ts", "hevc_open_gop_ts")),
    "mpeg4_then_mpeg2": ClipSpec("another codec midway", "several", "mpegts", "ts", num_frames=25,
        build=_write_joined("mpeg4_mp4", "mpeg2_ts")),
}  # fmt: skip

SIZES = {
    "size_change_mpeg2_raw": _size_change("mpeg2video", "mpeg2video", "m2v"),
    "size_change_mpeg2_mkv": _size_change("mpeg2video", "matroska", "mkv"),
    "size_change_mpeg1_mkv": _size_change("mpeg1video", "matroska", "mkv"),
    "size_change_mpeg4_ts": _size_change("mpeg4", "mpegts", "ts"),
}

BREAK_CLIPS = {**WITHOUT_PICTURE, **DROPPED, **SIZES}
