"""``mediatensor verify``: it accepts right frames, and finds every kind of wrong frame."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import pytest

import media
from mediatensor._engine.common.messages import forget_warnings
from mediatensor.cli import main
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import DecodeError
from mediatensor.frames import Frame
from oracles import undetermined_frames


def verify_json(path: Path, capsys: pytest.CaptureFixture[str], *options: str, code: int) -> dict[str, Any]:
    assert main(["verify", str(path), "--json", *options]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    ("name", "num_frames"),
    [
        ("h264_b_pyramid", 40),
        ("vp9_hidden_frames", 60),
        ("raw_h264", 40),
        ("size_change_ts", 80),
        ("one_frame", 1),
        ("lost_packets_mpeg4_b_frames_avi", 35),  # two more packets, which do not decode
    ],
)
def test_random_access_is_identical(
    name: str, num_frames: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = verify_json(media.make(name, tmp_path), capsys, "--all", code=0)
    assert found["identical"] is True
    assert found["num_frames"] == found["num_frames_linear"] == num_frames
    assert found["checks"][0] == {
        "kind": "one by one", "num_requests": num_frames, "num_frames": num_frames, "num_mismatches": 0,
        "num_undetermined": 0,
    }  # fmt: skip


@pytest.mark.parametrize(("name", "has_times"), [("raw_h264", False), ("one_frame", True)])
def test_times_are_claimed_only_where_the_file_has_them(
    name: str, has_times: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(media.make(name, tmp_path))]) == 0
    assert ("each at its time" in capsys.readouterr().out) == has_times


def test_bounds_and_seed_are_taken(clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = verify_json(clip, capsys, "--frames", "7", "--seed", "11", code=0)
    assert (found["checks"][0]["num_frames"], found["seed"]) == (7, 11)


@pytest.mark.parametrize("name", sorted(media.LEFT_TO_MEMORY))
def test_frames_that_show_old_memory_are_undetermined(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = media.make(name, tmp_path)
    found = verify_json(path, capsys, "--all", code=0)
    assert (found["identical"], found["num_mismatches"], found["mismatches"]) == (True, 0, [])
    assert 0 < found["num_undetermined"] == sum(check["num_undetermined"] for check in found["checks"])
    assert found["checks"][0]["num_undetermined"] <= len(undetermined_frames(path))
    assert main(["verify", str(path), "--all"]) == 0
    assert f"undetermined: {found['num_undetermined']} fetched frames" in capsys.readouterr().out


# A faulty replacement of `VideoDecoder.get_frame_at`.
Wrong = Callable[[VideoDecoder, int], Frame]
get_frame_at = VideoDecoder.get_frame_at


def neighbour(self: VideoDecoder, index: int) -> Frame:
    """The frame after the one asked for."""
    return get_frame_at(self, min(index + 1, len(self) - 1))


def noisy(self: VideoDecoder, index: int) -> Frame:
    """One value of one frame is off by three."""
    frame = get_frame_at(self, index)
    if index == 5:
        value = int(frame.data[0, 0, 0])
        frame.data[0, 0, 0] = value + 3 if value < 128 else value - 3
    return frame


def late(self: VideoDecoder, index: int) -> Frame:
    """The pixels are right and the time is not."""
    frame = get_frame_at(self, index)
    return Frame(frame.data, frame.pts_seconds + 0.001, frame.duration_seconds)


def failing(self: VideoDecoder, index: int) -> Frame:
    """One frame cannot be had."""
    if index == 5:
        raise DecodeError("Frame 5 is lost.")
    return get_frame_at(self, index)


def mismatches_of(
    wrong: Wrong, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[dict[str, Any]]:
    monkeypatch.setattr(VideoDecoder, "get_frame_at", wrong)
    found = verify_json(path, capsys, "--all", code=1)
    assert found["identical"] is False
    shown: list[dict[str, Any]] = found["mismatches"]
    assert found["num_mismatches"] == sum(check["num_mismatches"] for check in found["checks"]) >= len(shown)
    return shown


def test_neighbour_is_found(clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    shown = mismatches_of(neighbour, clip, monkeypatch, capsys)
    assert len(shown) == 5
    for mismatch in shown:
        assert mismatch["kind"] == "one by one"
        assert mismatch["is_frame"] == mismatch["frame_index"] + 1
        assert mismatch["pts_seconds"] == pytest.approx(mismatch["expected_pts_seconds"] + 0.04)
        assert mismatch["max_abs_difference"] > 0


@pytest.mark.parametrize("name", ["mp4", "lost_key_frame_vp8_large"])  # in the other, some frames are undetermined
def test_one_wrong_value_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = mismatches_of(noisy, media.make(name, tmp_path), monkeypatch, capsys)
    assert {mismatch["frame_index"] for mismatch in shown} == {5}
    assert shown[0]["reason"] == "other pixels"
    assert (shown[0]["max_abs_difference"], shown[0]["is_frame"]) == (3, None)


def test_wrong_time_is_found(clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    shown = mismatches_of(late, clip, monkeypatch, capsys)
    assert {mismatch["reason"] for mismatch in shown} == {"another time"}
    assert {mismatch["max_abs_difference"] for mismatch in shown} == {0}


def test_frame_that_cannot_be_had_is_found(
    clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = mismatches_of(failing, clip, monkeypatch, capsys)
    assert shown[0] == {
        "kind": "one by one", "frame_index": 5, "expected_pts_seconds": pytest.approx(0.2), "pts_seconds": None,
        "max_abs_difference": None, "is_frame": None, "reason": "Frame 5 is lost.",
    }  # fmt: skip


def test_missing_frame_is_found(
    clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(VideoDecoder, "__len__", lambda self: 39)  # the last one is missing
    found = verify_json(clip, capsys, code=1)
    assert (found["num_frames"], found["num_frames_linear"], found["num_mismatches"]) == (39, 40, 0)


@pytest.mark.filterwarnings("error:.* is an HDR video")
@pytest.mark.parametrize("command", ["verify", "scenes"])
def test_commands_that_show_no_frames_do_not_warn_of_hdr(command: str, tmp_path: Path) -> None:
    forget_warnings()
    path = tmp_path / "hdr.mkv"
    with av.open(path, "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p10le"
        stream.codec_context.color_trc = 16  # PQ
        for _ in range(5):
            container.mux(stream.encode(av.VideoFrame(64, 48, "yuv420p10le")))
        container.mux(stream.encode(None))
    with VideoDecoder(path) as decoder:
        assert decoder.metadata.color_transfer_characteristic == "smpte2084"
    assert main([command, str(path)]) == 0


def test_video_that_does_not_decode_is_an_error(media_data: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(media_data("mp4parse-rust__short-cenc.mp4"))]) == 2
    assert capsys.readouterr().err.startswith("mediatensor: error: ")
