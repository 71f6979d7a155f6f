"""Real files: each way to reach a frame gives the frame of a plain decode, bit for bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exactness import CHECKS, Truth, find_truth
from oracles import linear_decode_planes

# (file, index of the video stream): all that decode.
STREAMS = [
    ("accv-lab__moving_shape_open_gop_h265.mp4", 0),
    ("androidx-media__bbb_800x640_768kbps_30fps_avc_non_reference_3b.mp4", 0),
    ("androidx-media__bear-vp9-odd-dimensions.webm", 0),
    ("androidx-media__sample.avi", 0),
    ("androidx-media__sample.flv", 0),
    ("androidx-media__sample_av1.mkv", 0),
    ("androidx-media__sample_edit_list_only_preroll_sync_sample.mp4", 0),
    ("decord__corrupted.mp4", 0),
    ("decord__video_90.mov", 0),
    ("exoplayer__video_desks.3gp", 0),
    ("file-type__fixture.flv", 0),
    ("file-type__fixture2.3gp", 1),
    ("file-type__fixture2.mpg", 0),
    ("gpmf-parser__karma.mp4", 0),
    ("jcodec__precise_clip.mp4", 0),
    ("mdn__flower-fragmented.mp4", 0),
    ("mediabunny__frames.webm", 0),
    ("megatron-energon__sync_test.mp4", 0),
    ("metadata-extractor-images__100_0306.AVI", 0),
    ("moviepy__transparent.webm", 0),
    ("mp4ff__stereo_spatial.mp4", 0),
    ("mux.js__sintel-captions.ts", 0),
    ("ogv.js__3seconds.ogv", 1),
    ("openh264__Cisco_Men_whisper_640x320_CABAC_Bframe_9.264", 0),
    ("pims__bulk-water.mov", 0),
    ("rails__rotated_hdr_video.mov", 0),
    ("rails__video_with_undefined_display_aspect_ratio.mp4", 1),
    ("serenity__animated_loop_variable_delay.gif", 0),
    ("streamio-ffmpeg__awesome-movie.mov", 1),
    ("vali__test_hevc10.mkv", 0),
    ("vali__test_multires.mkv", 0),
    ("vali__test_multires.mkv", 2),
    ("winui-gallery__ladybug.wmv", 1),
]


@pytest.fixture(scope="module", params=[f"{name}:{stream_index}" for name, stream_index in STREAMS])
def truth(request: pytest.FixtureRequest, media_data: Callable[[str], Path]) -> Truth:
    name, stream_index = request.param.rsplit(":", 1)
    return find_truth(media_data(name), int(stream_index))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.every_clip
def test_frames_match_plain_decode(truth: Truth, check: Callable[[Truth], None]) -> None:
    check(truth)


def test_plain_decode_matches_reference(truth: Truth, reference_frames: dict[str, dict[str, Any]]) -> None:
    reference = reference_frames[truth.path.name][str(truth.stream_index)]
    decoded = linear_decode_planes(truth.path, truth.stream_index)
    assert decoded == [tuple(frame) for frame in reference["frames"]]
    times = [pts for pts, _ in decoded]
    if truth.pts != times:
        known = [pts for pts in times if pts is not None]
        assert known != sorted(known), "only decreasing times are replaced"


def test_no_file_is_left_out(media_data: Callable[[str], Path], reference_frames: dict[str, dict[str, Any]]) -> None:
    manifest = json.loads(media_data("manifest.json").read_text())
    with_frames = {
        (entry["file"], int(index))
        for entry in manifest["files"]
        if entry["expect"].startswith("decodes")
        for index, stream in reference_frames[entry["file"]].items()
        if stream["type"] == "video"
    }
    assert with_frames == set(STREAMS)
