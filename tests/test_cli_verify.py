"""``mediatensor verify``: that it passes what is right, and finds every kind of wrong frame."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import media
from mediatensor._pyav import times_shown
from mediatensor.cli import _verify as _comparison
from mediatensor.cli import main
from mediatensor.cli._verify import CheckResult, Comparison, Mismatch, describe, plan_requests, presentation_order
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import DecodeError
from mediatensor.frames import Frame

KINDS = ["one by one", "by time", "pairs", "batches", "clips", "backwards"]

IDENTICAL = Comparison(
    file="talk.mp4",
    stream_index=1,
    seed=0,
    num_frames_at_open=40,
    num_frames=40,
    num_frames_linear=40,
    checks=(CheckResult("one by one", 40, 40, 0), CheckResult("pairs", 4, 8, 0)),
    mismatches=(),
)


def verify_json(path: Path, capsys: pytest.CaptureFixture[str], *options: str, code: int) -> dict[str, Any]:
    assert main(["verify", str(path), "--json", *options]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(("count", "singles"), [(1, None), (7, None), (40, None), (400, 30), (5, 300)])
def test_plan_covers_what_it_promises(count: int, singles: int | None) -> None:
    requests = plan_requests(count, singles, seed=3)
    by_kind = {kind: [r.indices for r in requests if r.kind == kind] for kind in KINDS}
    alone = [i for (i,) in by_kind["one by one"]]
    assert len(alone) == len(set(alone)) == (count if singles is None else min(count, singles))
    assert all(0 <= i < count for request in requests for i in request.indices)
    assert all(by_kind[kind] for kind in KINDS)
    assert all(len(pair) == 2 for pair in by_kind["pairs"])
    assert all(clip == tuple(range(clip[0], clip[-1] + 1)) for clip in by_kind["clips"])
    backwards = [i for (i,) in by_kind["backwards"]]
    assert count == 1 or any(after == before - 1 for before, after in pairwise(backwards))
    # Kinds do not interleave, for each is reported once.
    assert [r.kind for r in requests] == [kind for kind in KINDS for _ in by_kind[kind]]


def test_plan_depends_on_the_seed_alone() -> None:
    assert plan_requests(40, 10, seed=1) == plan_requests(40, 10, seed=1)
    assert plan_requests(40, 10, seed=1) != plan_requests(40, 10, seed=2)
    assert plan_requests(0, None, seed=1) == []


@pytest.mark.parametrize(
    ("pts", "order"),
    [
        ([], []),
        ([0, 2, 1, 3], [0, 2, 1, 3]),
        ([5, 5, 4], [2, 0, 1]),
        ([None, None, None], [0, 1, 2]),
        ([4, None, 0, None], [2, 3, 0, 1]),
    ],
)
def test_presentation_order(pts: list[int | None], order: list[int]) -> None:
    assert presentation_order(pts) == order


@pytest.mark.parametrize(
    ("pts", "packet_pts", "shown"),
    [
        ([0, 2, 1], [0, 1, 2], [0, 1, 2]),
        ([0, 2, 1], None, [0, 2, 1]),
        ([0, 2, 1], [0, 2, 1], [0, 2, 1]),
        ([0, None, 1], [0, 1, 2], [0, None, 1]),
        ([0, 2, 1], [0, None, 2], [0, 2, 1]),
    ],
)
def test_times_shown(pts: list[int | None], packet_pts: list[int | None] | None, shown: list[int | None]) -> None:
    assert times_shown(pts, packet_pts) == shown


@pytest.mark.parametrize(
    ("name", "num_frames"),
    [("h264_b_pyramid", 40), ("vp9_hidden_frames", 60), ("raw_h264", 40), ("size_change_ts", 80), ("one_frame", 1)],
)
def test_random_access_is_identical(
    name: str, num_frames: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = verify_json(media.make(name, tmp_path), capsys, "--all", code=0)
    assert found["identical"] is True
    assert found["num_frames"] == found["num_frames_linear"] == num_frames
    assert found["checks"][0] == {
        "kind": "one by one", "num_requests": num_frames, "num_frames": num_frames, "num_mismatches": 0,
    }  # fmt: skip


def test_bounds_and_seed_are_taken(clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = verify_json(clip, capsys, "--frames", "7", "--seed", "11", code=0)
    assert (found["checks"][0]["num_frames"], found["seed"]) == (7, 11)


class NeighbourDecoder(VideoDecoder):
    """Gives the frame after the one asked for."""

    def get_frame_at(self, index: int) -> Frame:
        return super().get_frame_at(min(index + 1, len(self) - 1))


class NoisyDecoder(VideoDecoder):
    """One value of one frame is off by three."""

    def get_frame_at(self, index: int) -> Frame:
        frame = super().get_frame_at(index)
        if index == 5:
            value = int(frame.data[0, 0, 0])
            frame.data[0, 0, 0] = value + 3 if value < 128 else value - 3
        return frame


class LateDecoder(VideoDecoder):
    """The pixels are right and the time is not."""

    def get_frame_at(self, index: int) -> Frame:
        frame = super().get_frame_at(index)
        return Frame(frame.data, frame.pts_seconds + 0.001, frame.duration_seconds)


class FailingDecoder(VideoDecoder):
    """One frame cannot be had."""

    def get_frame_at(self, index: int) -> Frame:
        if index == 5:
            raise DecodeError("Frame 5 is lost.")
        return super().get_frame_at(index)


class ShortDecoder(VideoDecoder):
    """The last frame is missing."""

    def __len__(self) -> int:
        return super().__len__() - 1


def mismatches_of(
    decoder: type[VideoDecoder], path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[dict[str, Any]]:
    monkeypatch.setattr(_comparison, "VideoDecoder", decoder)
    found = verify_json(path, capsys, "--all", code=1)
    assert found["identical"] is False
    shown: list[dict[str, Any]] = found["mismatches"]
    assert found["num_mismatches"] == sum(check["num_mismatches"] for check in found["checks"]) >= len(shown)
    return shown


def test_neighbour_is_found(clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    shown = mismatches_of(NeighbourDecoder, clip, monkeypatch, capsys)
    assert len(shown) == 5
    for mismatch in shown:
        assert mismatch["kind"] == "one by one"
        assert mismatch["is_frame"] == mismatch["frame_index"] + 1
        assert mismatch["pts_seconds"] == pytest.approx(mismatch["expected_pts_seconds"] + 0.04)
        assert mismatch["max_abs_difference"] > 0


def test_one_wrong_value_is_found(
    clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = mismatches_of(NoisyDecoder, clip, monkeypatch, capsys)
    assert shown[0]["frame_index"] == 5
    assert shown[0]["reason"] == "other pixels"
    assert (shown[0]["max_abs_difference"], shown[0]["is_frame"]) == (3, None)
    assert {mismatch["frame_index"] for mismatch in shown} == {5}


def test_wrong_time_is_found(clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    shown = mismatches_of(LateDecoder, clip, monkeypatch, capsys)
    assert {mismatch["reason"] for mismatch in shown} == {"another time"}
    assert {mismatch["max_abs_difference"] for mismatch in shown} == {0}


def test_frame_that_cannot_be_had_is_found(
    clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = mismatches_of(FailingDecoder, clip, monkeypatch, capsys)
    assert shown[0] == {
        "kind": "one by one", "frame_index": 5, "expected_pts_seconds": pytest.approx(0.2), "pts_seconds": None,
        "max_abs_difference": None, "is_frame": None, "reason": "Frame 5 is lost.",
    }  # fmt: skip


def test_missing_frame_is_found(
    clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_comparison, "VideoDecoder", ShortDecoder)
    found = verify_json(clip, capsys, code=1)
    assert (found["num_frames"], found["num_frames_linear"], found["num_mismatches"]) == (39, 40, 0)


def test_video_that_does_not_decode_is_an_error(media_data: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(media_data("mp4parse-rust__short-cenc.mp4"))]) == 2
    assert capsys.readouterr().err.startswith("mediatensor: error: ")


def test_text_of_identical_videos() -> None:
    assert describe(IDENTICAL) == "\n".join(
        [
            "talk.mp4, video stream 1",
            "  linear decode  40 frames",
            "  decoder        40 frames",
            "  one by one     40 frames, all identical",
            "  pairs          8 frames in 4 calls, all identical",
            "identical: 48 fetched frames, bit for bit, each at its time",
        ]
    )


def test_text_of_differences() -> None:
    mismatch = Mismatch("pairs", 7, 0.28, 0.32, 12, 8, "other pixels and another time")
    lost = Mismatch("pairs", 9, 0.36, None, None, None, "Frame 9 is lost.")
    comparison = replace(
        IDENTICAL,
        num_frames_at_open=42,
        num_frames=41,
        checks=(CheckResult("pairs", 4, 8, 2),),
        mismatches=(mismatch, lost),
    )
    assert describe(comparison).splitlines()[2:] == [
        "  decoder        41 frames (42 before it met what does not decode), DIFFERENT",
        "  pairs          8 frames in 4 calls, 2 DIFFERENT",
        "first mismatches (of 2)",
        (
            "  frame 7 (pairs): other pixels and another time, pts 0.32 s (linear 0.28 s), largest difference 12, "
            "these are the pixels of frame 8"
        ),
        "  frame 9 (pairs): Frame 9 is lost.",
        "NOT identical",
    ]
