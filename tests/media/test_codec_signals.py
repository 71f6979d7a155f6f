"""Sizes of compressed frames, compared with ffprobe."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

import media
from mediatensor.decoders import FrameIndex, VideoDecoder
from mediatensor.errors import InvalidArgumentError

# Sizes


def probe_packets(path: Path, *entries: str) -> list[dict[str, Any]]:
    """All packets of the video stream in file order, by the ``ffprobe`` program."""
    program = shutil.which("ffprobe")
    if program is None:
        pytest.skip("needs the ffprobe program (on Debian: apt-get install ffmpeg)")
    command = [program, "-v", "error", "-select_streams", "v:0", *entries, "-of", "json", str(path)]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, text=True, timeout=60).stdout)
    return found.get("packets") or found["frames"]


@pytest.mark.parametrize(
    "name", ["h264_b_pyramid", "h264_open_gop", "hevc_open_gop_mkv", "mp4_fragmented", "one_frame"]
)
def test_sizes_are_those_of_ffprobe(name: str, folder: Path) -> None:
    path = media.make(name, folder)
    frames = probe_packets(path, "-show_frames", "-show_entries", "frame=pkt_size,key_frame")
    decoder = VideoDecoder(path)
    sizes = decoder.get_frame_bytes()
    assert sizes.dtype == torch.int64
    assert sizes.tolist() == [int(frame["pkt_size"]) for frame in frames]
    assert decoder.frame_index.is_key_frame.tolist() == [frame["key_frame"] == 1 for frame in frames]
    assert sizes.sum() == decoder.frame_index.gop_bytes.sum()


@pytest.mark.parametrize("name", ["av1_hierarchical", "vp9_mp4", "hevc_radl", "vfr_mkv"])
def test_packets_with_hidden_frames_count_whole(name: str, folder: Path) -> None:
    path = media.make(name, folder)
    packets = sorted((int(packet["pts"]), int(packet["size"])) for packet in probe_packets(path, "-show_packets"))
    assert VideoDecoder(path).get_frame_bytes().tolist() == [size for _, size in packets]


def test_hidden_packets_and_second_fields_count_for_their_frames(folder: Path) -> None:
    for name in ("vp8_hidden_frames", "vp9_hidden_frames_split", "h264_field_pairs_ts"):
        path = media.make(name, folder)
        packets = [int(packet["size"]) for packet in probe_packets(path, "-show_packets")]
        sizes = VideoDecoder(path).get_frame_bytes()
        assert len(packets) > len(sizes), f"{name} has packets without a frame"
        assert sizes.sum() == sum(packets)
    pairs = sorted(one + other for one, other in zip(packets[::2], packets[1::2], strict=True))
    assert sorted(sizes.tolist()) == pairs


def test_trimmed_packets_do_not_count(folder: Path) -> None:
    path = media.make("edit_list_both_ends", folder)
    packets = probe_packets(path, "-show_packets")
    shown = sorted((int(packet["pts"]), int(packet["size"])) for packet in packets if "D" not in packet["flags"])
    assert 0 < len(shown) < len(packets)
    assert VideoDecoder(path).get_frame_bytes().tolist() == [size for _, size in shown]


def test_sizes_of_loaded_and_foreign_indexes(clip: Path, folder: Path) -> None:
    decoder = VideoDecoder(clip)
    decoder.frame_index.save(folder / "sizes.index")
    loaded = VideoDecoder(clip, frame_index=FrameIndex.load(folder / "sizes.index"))
    assert torch.equal(loaded.get_frame_bytes(), decoder.get_frame_bytes())
    decoder.get_frame_bytes()[:] = 0
    assert decoder.get_frame_bytes().min() > 0, "a result is a copy"
    frames = [{"pts": 512 * n, "duration": 512, "key_frame": int(n == 0)} for n in range(5)]
    table = VideoDecoder(clip, custom_frame_mappings=json.dumps({"frames": frames}))
    assert table.get_frame_bytes().tolist() == [-1] * 5
    with pytest.raises(InvalidArgumentError, match="approximate"):
        VideoDecoder(clip, seek_mode="approximate").get_frame_bytes()
