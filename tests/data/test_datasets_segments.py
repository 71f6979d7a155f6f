"""Rows that are parts of their files: clips lie within them, whatever the sampler."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from manifests import write_manifest
from mediatensor.datasets import AudioClips, DataLoader, Item, Skipped, VideoAudioClips, VideoClips, as_items
from mediatensor.decoders import AudioDecoder, VideoDecoder
from mediatensor.encoders import AudioEncoder, Encoder, VideoEncoder
from mediatensor.errors import InvalidArgumentError, OutOfRangeError
from mediatensor.samplers import (
    audio_clips_at_random_timestamps,
    audio_clips_at_regular_timestamps,
    clips_at_random_indices,
    clips_at_random_timestamps,
    clips_at_regular_indices,
    clips_at_regular_timestamps,
)
from training_set import FPS, NUM_FRAMES, linear_decode, make_videos

RATE = 8000

SAMPLERS = {
    "random indices": partial(clips_at_random_indices, num_frames_per_clip=4, num_clips=3),
    "regular indices": partial(clips_at_regular_indices, num_frames_per_clip=4, num_clips=3),
    "random times": partial(clips_at_random_timestamps, num_frames_per_clip=4, num_clips=3),
    "regular times": partial(
        clips_at_regular_timestamps, num_frames_per_clip=4, seconds_between_clip_starts=0.2, policy="wrap"
    ),
    "all": lambda decoder: decoder.get_all_frames(),
    "slice": lambda decoder: decoder.get_frames_in_range(0, None, 2),
    "backwards": lambda decoder: decoder.get_frames_at([-1, -2]),
    "by time": lambda decoder: decoder.get_frames_played_in_range(
        decoder.metadata.begin_stream_seconds, decoder.metadata.end_stream_seconds
    ),
}


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_videos(tmp_path_factory.mktemp("videos"), 2)[1]


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seconds of sound in which sample k is k."""
    path = tmp_path_factory.mktemp("sound") / "counting.wav"
    AudioEncoder(torch.arange(2 * RATE)[None] / 32768, sample_rate=RATE).to_file(path)
    return path


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize("seek_mode", ["exact", "approximate"])
@pytest.mark.parametrize(
    ("start", "end"),
    [
        (0.5, 1.3), (None, 0.8), (1.6, None), (0.5, 99.0),
        # No frame of a neighbouring shot is in them, however the times are rounded.
        (0.5333, 0.9), (0.4999996, 0.9000004), (0.45, 0.85),
    ],
)  # fmt: skip
def test_clips_lie_within_the_segment(
    sampler: Any, seek_mode: Any, start: float | None, end: float | None, video: Path
) -> None:
    linear = linear_decode(video)
    first, stop = (min(NUM_FRAMES, math.ceil(seconds * FPS - 0.01)) for seconds in (start or 0.0, end or 99.0))
    dataset = VideoClips(
        [Item(video, start_seconds=start, end_seconds=end)], sampler, keep_clip_dimension=True,
        rows_per_file=1 if "regular" in getattr(sampler, "func", sampler).__name__ else 4,
        decoder_options={"seek_mode": seek_mode},
    )  # fmt: skip
    for row in range(len(dataset)):
        frames = dataset[row].frames
        indices = (frames.pts_seconds * FPS).round().long().flatten()
        assert ((indices >= first) & (indices < stop)).all()
        assert torch.equal(frames.data.flatten(0, -4), linear[indices])
        if seek_mode == "exact":
            assert torch.equal(dataset[row].frame_indices.flatten(), indices)


def test_random_clips_reach_both_ends_of_the_segment(video: Path) -> None:
    sampler = partial(clips_at_random_indices, num_frames_per_clip=2, num_clips=200)
    dataset = VideoClips([Item(video, start_seconds=0.5, end_seconds=1.3)], sampler, keep_clip_dimension=True)
    assert dataset[0].frame_indices.unique().tolist() == list(range(5, 13))


def test_a_segment_shorter_than_a_clip_follows_the_policy(video: Path) -> None:
    item = Item(video, start_seconds=1.0, end_seconds=1.3)
    for sampler in (clips_at_random_indices, clips_at_random_timestamps):
        repeated = VideoClips([item], partial(sampler, num_frames_per_clip=6))[0].frame_indices
        assert repeated.tolist() == [10, 11, 12, 12, 12, 12]
        wrapped = VideoClips([item], partial(sampler, num_frames_per_clip=6, policy="wrap"))[0].frame_indices
        assert wrapped.tolist() == [10, 11, 12, 10, 11, 12]
        with pytest.raises(InvalidArgumentError, match="policy"):
            VideoClips([item], partial(sampler, num_frames_per_clip=6, policy="error"))[0]


def manifest_of(folder: Path, rows: list[dict[str, Any]], form: str) -> Any:
    if form == "media in parquet":
        rows = [{**row, "path": None, "video": Path(row["path"]).read_bytes()} for row in rows]
    return write_manifest(folder / f"rows.{form.rpartition(' ')[2]}", rows)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "rows", "parquet"])
@pytest.mark.parametrize("names", [("start", "end"), ("start_seconds", "end_seconds")], ids="_".join)
def test_a_manifest_says_where_segments_are(kind: str, names: tuple[str, str], video: Path, tmp_path: Path) -> None:
    spans = [(0.5, 1.0), (1.5, 2.0), (None, 0.3)]
    rows = [{"path": str(video), "label": i, names[0]: a, names[1]: b} for i, (a, b) in enumerate(spans)]
    source = rows if kind == "rows" else manifest_of(tmp_path, rows, kind)
    assert [(item.start_seconds, item.end_seconds) for item in as_items(source, kind="video")] == spans
    dataset = VideoClips(source, VideoDecoder.get_all_frames)
    assert [dataset[row].frame_indices.tolist() for row in range(3)] == [
        [5, 6, 7, 8, 9],
        [15, 16, 17, 18, 19],
        [0, 1, 2],
    ]


def test_times_are_read_as_people_write_them() -> None:
    rows = [
        {"path": "a.mp4", "start": "1:02.5", "end": "0:01:03"},
        {"path": "b.mp4", "start": np.float32(2), "end": ""},
    ]
    items = as_items(rows, kind="video")
    assert [(item.start_seconds, item.end_seconds) for item in items] == [(62.5, 63.0), (2.0, None)]
    assert as_items([{"path": "a.png", "start": "north"}], kind="image")[0].extra == {"start": "north"}
    assert as_items([{"path": "a.mp4", "start": float("nan")}], kind="video")[0].start_seconds is None


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"start": "soon"}, r"source\[0\] has 'soon' in the column 'start'.*83\.5"),
        ({"end": float("inf")}, "inf"),
        ({"end": 10**400}, "in the column 'end'"),
        ({"start_seconds": 3.0, "end_seconds": 3.0}, r"source\[0\] has a segment from 3\.0 s to 3\.0 s"),
        ({"start": [1]}, r"\[1\]"),
        ({"start": True}, "True"),
        ({"start": np.True_}, "True"),
    ],
)
def test_an_invalid_segment_is_an_error_of_the_manifest(row: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        as_items([{"path": "a.mp4", **row}], kind="video")


def test_items_check_their_times() -> None:
    with pytest.raises(InvalidArgumentError, match="end_seconds"):
        Item("a.mp4", start_seconds=2.0, end_seconds=1.0)
    with pytest.raises(InvalidArgumentError, match="start_seconds"):
        Item("a.mp4", start_seconds=float("nan"))


def test_a_segment_behind_the_end_is_the_fault_of_its_row(video: Path, counting: Path) -> None:
    items = [Item(video, start_seconds=50.0, end_seconds=51.0), Item(video)]
    with pytest.raises(OutOfRangeError, match="segment from 50"):
        VideoClips(items, num_frames_per_clip=2)[0]
    dataset = VideoClips(items, num_frames_per_clip=2, on_error="skip")
    assert isinstance(dataset[0], Skipped)
    assert len(dataset[1].frames) == 2
    with pytest.raises(OutOfRangeError, match="segment from 50"):
        AudioClips([Item(counting, start_seconds=50.0)])[0]


def test_workers_and_order_change_nothing(video: Path) -> None:
    rows = [{"path": str(video), "start": i / 10, "end": i / 10 + 1} for i in range(12)]
    dataset = VideoClips(rows, num_frames_per_clip=4)
    alone = [dataset[row].frame_indices.tolist() for row in range(12)]
    for num_workers in (0, 2):
        loader = DataLoader(dataset, batch_size=6, num_workers=num_workers)
        assert [row for batch in loader for row in batch.frame_indices.tolist()] == alone


@pytest.mark.parametrize("sample_rate", [None, RATE // 2])
def test_sound_lies_within_the_segment(sample_rate: int | None, counting: Path) -> None:
    samplers = [
        partial(audio_clips_at_random_timestamps, seconds_per_clip=0.1, num_clips=50),
        partial(audio_clips_at_regular_timestamps, seconds_per_clip=0.1, seconds_between_clip_starts=0.05),
    ]
    item = Item(counting, start_seconds=0.5, end_seconds=1.25)
    for sampler in samplers:
        dataset = AudioClips([item], sampler, sample_rate=sample_rate, keep_clip_dimension=True)
        numbers = dataset[0].audio.data.flatten() * 32768
        slack = 0 if sample_rate is None else 100  # resampling includes neighbouring samples
        assert numbers.min() >= 0.5 * RATE - slack
        assert numbers.max() < 1.25 * RATE + slack
    whole = AudioClips([item], AudioDecoder.get_all_samples)[0].audio
    expected = AudioDecoder(counting).get_samples_played_in_range(0.5, 1.25)
    assert torch.equal(whole.data, expected.data)
    assert whole.pts_seconds == 0.5


def test_sound_shorter_than_a_clip_ends_with_silence(counting: Path) -> None:
    sample = AudioClips([Item(counting, start_seconds=0.5, end_seconds=0.75)], seconds_per_clip=1.0)[0]
    assert sample.num_valid_samples == RATE // 4
    assert sample.audio.data.shape == (1, RATE)
    assert sample.audio.data[0, : RATE // 4].min() * 32768 == RATE // 2
    assert not sample.audio.data[0, RATE // 4 :].any()


def test_pictures_and_sound_lie_within_the_segment(tmp_path: Path) -> None:
    encoder = Encoder()
    pictures = encoder.add_video(height=32, width=48, frame_rate=FPS)
    sound = encoder.add_audio(sample_rate=RATE, num_channels=1)
    path = tmp_path / "both.mkv"
    with encoder.open_file(path):
        frames = torch.zeros(30, 3, 32, 48, dtype=torch.uint8)
        frames[:] = 8 * torch.arange(30, dtype=torch.uint8)[:, None, None, None]
        pictures.add_frames(frames)
        sound.add_samples(torch.full((1, 3 * RATE), 0.5))
    item = Item(path, start_seconds=1.0, end_seconds=1.5)
    dataset = VideoAudioClips([item], seconds_per_clip=0.2, fps=FPS, num_clips=20, keep_clip_dimension=True)
    times = dataset[0].frames.pts_seconds
    assert ((times >= 1.0) & (times < 1.5)).all()
    sample = VideoAudioClips([item], seconds_per_clip=1.0, fps=FPS)[0]
    with VideoDecoder(path) as decoder:
        shown = decoder.get_frames_played_at([1.0, 1.1, 1.2, 1.3, 1.4, 1.4, 1.4, 1.4, 1.4, 1.4])
    assert torch.equal(sample.frames.data, shown.data)
    heard = sample.audio.data[0].abs() > 0.1
    assert heard[: RATE // 2].float().mean() > 0.95
    assert not heard[RATE // 2 :].any()
    assert sample.extra["silent_spans"] == ((RATE // 2, RATE),)


@pytest.mark.parametrize("seek_mode", ["exact", "approximate"])
def test_rounded_times_do_not_show_the_frame_before_the_segment(seek_mode: Any, tmp_path: Path) -> None:
    path = tmp_path / "milliseconds.mkv"
    VideoEncoder(torch.zeros(12, 3, 64, 64, dtype=torch.uint8), frame_rate=30).to_file(path)  # 0, 33, 67 ms, ...

    def shown(decoder: Any) -> Any:
        begin = decoder.metadata.begin_stream_seconds
        assert decoder.get_frame_played_at(begin).pts_seconds == pytest.approx(2 / 30, abs=0.001)
        return decoder.get_frames_played_at([begin, begin + 0.03])

    item, options = Item(path, start_seconds=0.0667, end_seconds=0.2), {"seek_mode": seek_mode}
    frames = VideoClips([item], shown, decoder_options=options)[0].frames
    assert (frames.pts_seconds * 30).round().tolist() == [2, 2]


def test_a_segment_in_which_no_frame_begins_is_the_frame_shown_at_its_start(video: Path) -> None:
    dataset = VideoClips([Item(video, start_seconds=0.52, end_seconds=0.58)], num_frames_per_clip=2)
    assert dataset[0].frame_indices.tolist() == [5, 5]


# --- columns that are not meant as segments


FORMS = ["csv", "jsonl", "parquet", "media in parquet"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({"start": "dusk"}, r"'dusk' in the column 'start'.*If 'start' means something else"),
        (
            {"start": 0.25, "end": 0.1},
            r"from the columns 'start' and 'end': the end must be after the start",
        ),
        ({"start_seconds": 0.25, "end": 0.1}, r"columns 'start_seconds' and 'end'"),
    ],
)
def test_errors_of_segments_name_the_columns(
    columns: dict[str, Any], named: str, form: str, tmp_path: Path, video: Path
) -> None:
    """When the dataset is made, and not when a training comes to the row."""
    source = manifest_of(tmp_path, [{"path": str(video), **columns}], form)
    with pytest.raises(InvalidArgumentError, match=rf"(row 0|line \d) of .*{named}.*rename.*segments=False"):
        VideoClips(source)


@pytest.mark.parametrize("form", FORMS)
def test_a_segment_that_does_not_fit_names_its_columns(form: str, tmp_path: Path, video: Path) -> None:
    source = manifest_of(tmp_path, [{"path": str(video), "start": 1_700_000_000}], form)
    with pytest.raises(OutOfRangeError, match=r"is empty.*from 'start'.*rename.*segments=False"):
        VideoClips(source, num_frames_per_clip=2)[0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("start", ["dusk", 1_700_000_000])
def test_columns_of_segments_can_be_ignored(start: Any, form: str, tmp_path: Path, video: Path) -> None:
    source = manifest_of(tmp_path, [{"path": str(video), "start": start}], form)
    (item,) = as_items(source, kind="video", segments=False)
    assert (item.start_seconds, item.end_seconds) == (None, None)
    sample = VideoClips(as_items(source, kind="video", segments=False), num_frames_per_clip=NUM_FRAMES)[0]
    assert sample.frame_indices.tolist() == list(range(NUM_FRAMES))
    assert sample.extra["start"] == (str(start) if form == "csv" else start)
