"""Clips that something happened to: bits flipped, packets lost, cut without care, files that end too early."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from damaging import flipped
from media_codecs import CODEC_CLIPS
from media_containers import CONTAINER_CLIPS
from media_surgery import with_data
from media_writing import ClipSpec, Packets

# One clip for every way of predicting frames, and of finding them in a file.
_BASES = (
    "mp4", "mkv", "ts", "flv", "mp4_fragmented", "mp4_faststart", "raw_h264", "mkv_open_gop",
    "hevc_open_gop_mkv", "hevc_open_gop_ts", "hevc_raw", "vp8", "vp8_ivf", "vp9", "av1", "av1_low_delay", "av1_obu",
    "mpeg2_mkv", "mpeg2_ts", "mpeg4_mp4", "mpeg4_b_frames_avi", "mjpeg_avi", "ffv1_gop", "gif",
)  # fmt: skip


def _flip_bits(packets: Packets, number: int) -> Packets:
    """Bits flipped in the second half of a packet."""
    changed = with_data(packets[number], flipped(bytes(packets[number])))
    return [*packets[:number], changed, *packets[number + 1 :]]


def _lose_after_key(packets: Packets) -> Packets:
    key = _second_key(packets)
    return packets[: key + 2] + packets[key + 6 :]


def _second_key(packets: Packets) -> int:
    keys = [number for number, packet in enumerate(packets) if packet.is_keyframe]
    return keys[1] if len(keys) > 1 else 12


def _lose_key_frame(packets: Packets) -> Packets:
    return [packet for number, packet in enumerate(packets) if number != _second_key(packets)]


_DAMAGES: dict[str, dict[str, Any]] = {
    "damaged_packet": {"rewrite": lambda packets: _flip_bits(packets, 17)},
    # In an open GOP, that is a picture shown before the key frame.
    "damage_after_key": {"rewrite": lambda packets: _flip_bits(packets, _second_key(packets) + 1)},
    "lost_after_key": {"rewrite": _lose_after_key},
    "lost_packets": {"rewrite": lambda packets: packets[:17] + packets[20:]},
    "lost_key_frame": {"rewrite": _lose_key_frame},
    "begins_in_gop": {"rewrite": lambda packets: packets[5:]},
    # As recorders and splitters do; leading pictures of open GOPs then lack a reference.
    "begins_at_second_key": {"rewrite": lambda packets: packets[_second_key(packets) :]},
    "truncated": {"patch": lambda data: data[: int(len(data) * 0.7)]},
}


def _damaged(base: str, damage: str) -> ClipSpec:
    spec = {**CODEC_CLIPS, **CONTAINER_CLIPS}[base]
    words = damage.replace("_", " ")
    return replace(spec, special=f"{spec.special}; {words}", **_DAMAGES[damage])


# Not openable (no index, or nothing that decodes), or the same as another.
_LEFT_OUT = {
    "truncated_mp4", "truncated_av1", "truncated_mpeg4_mp4", "damaged_packet_av1", "damage_after_key_av1",
    "begins_in_gop_vp9", "begins_in_gop_av1_obu", "begins_in_gop_gif", "begins_at_second_key_gif",
    *(f"{damage}_mp4_faststart" for damage in _DAMAGES if damage != "truncated"),
}  # fmt: skip

# Intact FFV1 and VP8 packets whose predecessors are missing: the codec silently decodes them in part, and the rest of
# the frame shows old memory. No packet reveals this.
LEFT_TO_MEMORY = frozenset({"lost_after_key_ffv1_gop", "lost_key_frame_ffv1_gop", "lost_key_frame_vp8_large"})

DAMAGED_CLIPS = (
    {
        f"{damage}_{base}": _damaged(base, damage)
        for base in _BASES
        for damage in _DAMAGES
        if f"{damage}_{base}" not in _LEFT_OUT
    }
    | {
        # Codecs that leave old memory in a frame; its contents depend on all earlier frames.
        f"damaged_twice_{base}": replace(
            _damaged(base, "damaged_packet"), rewrite=lambda packets: _flip_bits(_flip_bits(packets, 14), 25)
        )
        for base in ("ffv1_gop", "mjpeg_avi")
    }
    | {
        # Of the smaller pictures of "vp8_ivf" the data are seldom at an end before all blocks are filled.
        "lost_key_frame_vp8_large": replace(_damaged("vp8_ivf", "lost_key_frame"), size=(160, 96)),
    }
)
