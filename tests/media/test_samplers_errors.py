"""All samplers of frames: errors, the default device, and frames that could not be decoded."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch

from mediatensor import FrameBatch
from mediatensor.errors import DecodeError, InvalidArgumentError
from mediatensor.frames import ReplacedFrame
from mediatensor.samplers import (
    clips_at_random_indices,
    clips_at_random_timestamps,
    clips_at_regular_indices,
    clips_at_regular_timestamps,
    sample_frames,
)
from samplers_recording_decoder import RecordingDecoder, each_sampler, positions_of, span

BY_INDEX = [clips_at_random_indices, clips_at_regular_indices]
BY_TIME = [clips_at_random_timestamps, clips_at_regular_timestamps]

ERROR = {"policy": "error"}
TOO_LONG = "You set the 'error' policy, and the sampler tried to decode a frame that is beyond the number of frames in "

# (samplers, arguments, text of the message), for a video of 20 frames from 0 s to 2 s.
CASES = [
    (BY_INDEX + BY_TIME, {"num_frames_per_clip": 0}, "num_frames_per_clip (0) must be strictly positive"),
    (BY_INDEX + BY_TIME, {"num_frames_per_clip": -3}, "num_frames_per_clip (-3) must be strictly positive"),
    (BY_INDEX + BY_TIME, {"num_frames_per_clip": 1.5}, "num_frames_per_clip (1.5) must be an integer"),
    (BY_INDEX + BY_TIME, {"num_frames_per_clip": None}, "num_frames_per_clip (None) must be an integer"),
    (BY_INDEX + BY_TIME, {"policy": "x"}, "Invalid policy (x). Supported values are 'repeat_last', 'wrap', 'error'."),
    (BY_INDEX + BY_TIME, {"policy": None}, "Invalid policy (None). Supported values are"),
    (BY_INDEX + BY_TIME, {"policy": ["wrap"]}, "Invalid policy (['wrap']). Supported values are"),
    ([*BY_INDEX, clips_at_random_timestamps], {"num_clips": 0}, "num_clips (0) must be > 0"),
    ([*BY_INDEX, clips_at_random_timestamps], {"num_clips": -1}, "num_clips (-1) must be > 0"),
    ([*BY_INDEX, clips_at_random_timestamps], {"num_clips": 2.0}, "num_clips (2.0) must be an integer"),
    ([*BY_INDEX, clips_at_random_timestamps], {"num_clips": True}, "num_clips (True) must be an integer"),
    (BY_INDEX, {"num_indices_between_frames": 0}, "num_indices_between_frames (0) must be strictly positive"),
    (BY_INDEX, {"num_indices_between_frames": "2"}, "num_indices_between_frames ('2') must be an integer"),
    (
        BY_INDEX,
        {"sampling_range_start": 20},
        "sampling_range_start (20) must be smaller than the number of frames (20).",
    ),
    (BY_INDEX, {"sampling_range_start": -21}, "sampling_range_start (-21) must be at least -20"),
    (BY_INDEX, {"sampling_range_start": None}, "sampling_range_start (None) must be an integer"),
    (BY_INDEX, {"sampling_range_end": 3.5}, "sampling_range_end (3.5) must be an integer"),
    (BY_INDEX, span(5, 5), "sampling_range_start (5) must be smaller than sampling_range_end (5)"),
    (BY_INDEX, span(-2, -5), "sampling_range_start (18) must be smaller than sampling_range_end (15)"),
    (BY_INDEX, {"sampling_range_end": 0}, "sampling_range_start (0) must be smaller than sampling_range_end (0)"),
    (BY_INDEX, {"sampling_range_end": -30}, "sampling_range_start (0) must be smaller than sampling_range_end (-10)"),
    (
        BY_INDEX,
        {"sampling_range_start": 18, "num_frames_per_clip": 5},
        "We determined that sampling_range_end should be 16, but it is smaller than or equal to sampling",
    ),
    (BY_INDEX, {"num_frames_per_clip": 21, **ERROR}, TOO_LONG),
    (BY_INDEX, {"num_frames_per_clip": 3, **span(19, 20), **ERROR}, TOO_LONG),
    (BY_TIME, {"num_frames_per_clip": 3, **span(1.9, 2), **ERROR}, TOO_LONG),
    (BY_TIME, {"seconds_between_frames": 0}, "seconds_between_frames (0) must be > 0"),
    (BY_TIME, {"seconds_between_frames": -0.5}, "seconds_between_frames (-0.5) must be > 0"),
    (BY_TIME, {"seconds_between_frames": float("nan")}, "seconds_between_frames (nan) must be > 0"),
    (BY_TIME, {"seconds_between_frames": float("inf")}, "seconds_between_frames (inf) must be > 0 and finite"),
    (BY_TIME, {"seconds_between_frames": "fast"}, "seconds_between_frames ('fast') must be a number of seconds"),
    (BY_TIME[1:], {"seconds_between_clip_starts": 0}, "seconds_between_clip_starts (0) must be > 0"),
    (BY_TIME[1:], {"seconds_between_clip_starts": -1}, "seconds_between_clip_starts (-1) must be > 0"),
    (BY_TIME[1:], {"seconds_between_clip_starts": float("inf")}, "seconds_between_clip_starts (inf) must be > 0 and"),
    (BY_TIME[1:], {"seconds_between_clip_starts": None}, "seconds_between_clip_starts (None) must be a number"),
    (BY_TIME, {"sampling_range_start": -1}, "sampling_range_start (-1.0) must be at least 0.0"),
    (BY_TIME, {"sampling_range_start": float("nan")}, "sampling_range_start (nan) must be at least 0.0"),
    (BY_TIME, {"sampling_range_start": 2.0}, "sampling_range_start (2.0) must be smaller than 2.0"),
    (BY_TIME, {"sampling_range_start": float("inf")}, "sampling_range_start (inf) must be smaller than 2.0"),
    (BY_TIME, {"sampling_range_start": []}, "sampling_range_start ([]) must be a number of seconds"),
    (BY_TIME, {"sampling_range_end": -0.5}, "sampling_range_end (-0.5) must be at least 0.0"),
    (BY_TIME, {"sampling_range_end": float("nan")}, "sampling_range_end (nan) must be at least 0.0"),
    (BY_TIME, {"sampling_range_end": 0.0}, "sampling_range_start (0.0) must be smaller than sampling_range_end (0.0)"),
    (BY_TIME, span(1.5, 1.5), "sampling_range_start (1.5) must be smaller than sampling_range_end (1.5)"),
    (
        BY_TIME,
        {"num_frames_per_clip": 2, "seconds_between_frames": 1.0, "sampling_range_start": 1.5},
        "sampling_range_start (1.5) must be smaller than sampling_range_end (1.0), the default: a clip takes 1.0 s",
    ),
]


def required(sampler: Callable[..., FrameBatch]) -> dict[str, float]:
    """Return the required arguments of a sampler."""
    return {"seconds_between_clip_starts": 0.5} if sampler is clips_at_regular_timestamps else {}


@pytest.mark.parametrize(
    ("sampler", "arguments", "message"),
    each_sampler(CASES),
)
def test_a_bad_argument_is_named_and_nothing_is_decoded(
    sampler: Callable[..., FrameBatch], arguments: dict[str, Any], message: str
) -> None:
    decoder = RecordingDecoder()
    with pytest.raises(InvalidArgumentError, match=re.escape(message)) as error:
        sampler(decoder, **{**required(sampler), **arguments})
    assert isinstance(error.value, ValueError)
    assert decoder.calls == []


@pytest.mark.parametrize("sampler", BY_INDEX + BY_TIME)
def test_a_call_is_one_batched_decode_of_five_dimensions(sampler: Callable[..., FrameBatch]) -> None:
    decoder = RecordingDecoder()
    clips = sampler(decoder, num_frames_per_clip=3, **(required(sampler) or {"num_clips": 4}))
    [(method, positions)] = decoder.calls
    assert method == ("get_frames_at" if sampler in BY_INDEX else "get_frames_played_at")
    assert {type(position) for position in positions} == {int if sampler in BY_INDEX else float}
    assert clips.data.shape == (4, 3, 3, 4, 5)
    assert clips.data[:, :, 0, 0, 0].flatten().tolist() == positions
    # The result has the decoder's times, not the requested times.
    assert torch.equal(clips.pts_seconds, clips.data[:, :, 0, 0, 0] + 1000)
    assert torch.equal(clips.duration_seconds, clips.data[:, :, 0, 0, 0] + 2000)


@pytest.mark.parametrize("sampler", BY_INDEX + BY_TIME)
def test_a_video_without_frames_is_refused(sampler: Callable[..., FrameBatch]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"Decoder must have at least one frame, found 0 frames\."):
        sampler(RecordingDecoder(0), **required(sampler))


@pytest.mark.parametrize("sampler", BY_TIME)
@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"average_fps": None}, "Could not infer average fps from video metadata. Try using an index-based sampler "),
        ({"average_fps": 0.0}, "average fps of the video metadata (0.0) must be > 0"),
        ({"begin": None}, "Could not infer stream begin from video metadata. Try using an index-based sampler "),
        ({"end": None}, "Could not infer stream end from video metadata. Try using an index-based sampler instead."),
    ],
)
def test_missing_metadata_is_named(sampler: Callable[..., FrameBatch], metadata: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        sampler(RecordingDecoder(**metadata), **required(sampler))


class OtherDecoder(RecordingDecoder):
    """A decoder of another library, whose batches have fewer fields."""

    def _batch(self, method: str, positions: list[float]) -> Any:
        batch = super()._batch(method, positions)
        return OtherBatch(batch.data, batch.pts_seconds, batch.duration_seconds)


class OtherBatch(NamedTuple):
    data: torch.Tensor
    pts_seconds: torch.Tensor
    duration_seconds: torch.Tensor


@pytest.mark.parametrize("sampler", [*BY_INDEX, *BY_TIME, partial(sample_frames, max_frames=4)])
def test_decoders_of_other_libraries_give_the_same_clips(sampler: Callable[..., FrameBatch]) -> None:
    torch.manual_seed(3)
    expected = sampler(RecordingDecoder(), **required(sampler))
    torch.manual_seed(3)
    clips = sampler(OtherDecoder(), **required(sampler))
    assert type(clips) is FrameBatch
    assert torch.equal(clips.data, expected.data)
    assert torch.equal(clips.pts_seconds, expected.pts_seconds)


@pytest.mark.parametrize("sampler", BY_INDEX + BY_TIME)
def test_the_default_device_does_not_change_the_clips(sampler: Callable[..., FrameBatch]) -> None:
    arguments = required(sampler) or {"num_clips": 4}
    torch.manual_seed(3)
    expected = positions_of(sampler(RecordingDecoder(), **arguments))
    torch.manual_seed(3)
    with torch.device("meta"):  # A device whose tensors hold no values.
        clips = sampler(RecordingDecoder(), **arguments)
    assert positions_of(clips) == expected


@pytest.mark.parametrize("sampler", BY_INDEX + BY_TIME)
def test_arguments_after_the_decoder_are_keyword_only(sampler: Callable[..., FrameBatch]) -> None:
    with pytest.raises(TypeError, match="positional argument"):
        sampler(RecordingDecoder(), 1)


class DamagedDecoder(RecordingDecoder):
    """The third requested frame cannot be decoded."""

    def __init__(self, on_error: str):
        super().__init__()
        self._on_error = on_error

    def _batch(self, method: str, positions: list[float]) -> FrameBatch:
        batch = super()._batch(method, positions)
        kept = torch.arange(len(batch)) != 2
        used = 6 if self._on_error == "nearest" else None
        report = ReplacedFrame(index=7, reason="corrupt slice", position=2, used_index=used)
        if self._on_error == "nearest":
            return FrameBatch(batch.data, batch.pts_seconds, batch.duration_seconds, replaced=(report,))
        return FrameBatch(batch.data[kept], batch.pts_seconds[kept], batch.duration_seconds[kept], replaced=(report,))


@pytest.mark.parametrize("sampler", BY_INDEX + BY_TIME)
def test_a_replaced_frame_is_reported_in_its_clip(sampler: Callable[..., FrameBatch]) -> None:
    arguments = required(sampler) or {"num_clips": 4}
    clips = sampler(DamagedDecoder("nearest"), num_frames_per_clip=2, **arguments)
    [report] = clips.replaced
    assert (report.index, report.used_index, report.reason) == (7, 6, "corrupt slice")
    assert divmod(report.position, 2) == (1, 0)
    assert [len(clip.replaced) for clip in clips] == [0, 1, 0, 0]
    assert clips[1].replaced[0].position == 0


@pytest.mark.parametrize("sampler", BY_INDEX + BY_TIME)
def test_a_skipped_frame_is_an_error_with_advice(sampler: Callable[..., FrameBatch]) -> None:
    message = r"1 of the \d+ frames of the clips .* on_error='nearest', .* Frame 7: corrupt slice"
    with pytest.raises(DecodeError, match=message):
        sampler(DamagedDecoder("skip"), num_frames_per_clip=3, **required(sampler))


def test_frames_within_a_budget_stay_a_multiple_if_some_are_left_out() -> None:
    frames = sample_frames(DamagedDecoder("skip"), max_frames=8, multiple_of=4)
    assert frames.data[:, 0, 0, 0].tolist() == [0, 2, 8, 10]  # 5 is left out
    assert [report.position for report in frames.replaced] == [2]
    assert len(sample_frames(DamagedDecoder("skip"), max_frames=8)) == 7
    with pytest.raises(DecodeError, match=r"1 of the 4 frames .* at least 4 .* Frame 7: corrupt slice"):
        sample_frames(DamagedDecoder("skip"), max_frames=4, multiple_of=4)
