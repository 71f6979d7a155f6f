"""Damage within the files of a dataset: its error policy decides, only for the rows that touch it."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import media
from damaging import flipped, plain_decode, with_damage, with_sound, zeros
from mediatensor._engine.common.messages import forget_warnings
from mediatensor.datasets import (
    DataLoader,
    Item,
    MediaDataset,
    Recipe,
    Sample,
    Skipped,
    VideoAudioClips,
    VideoClips,
    VideoTextClips,
)
from mediatensor.decoders import VideoDecoder
from mediatensor.distributed import ClipDecoder
from mediatensor.errors import DamageWarning, DecodeError
from mediatensor.samplers import clips_at_random_indices, clips_at_random_timestamps

NUM_FRAMES, RATE, LENGTH = 100, 25, 6
SAMPLERS = {
    "by index": partial(clips_at_random_indices, num_frames_per_clip=LENGTH),
    "by time": partial(clips_at_random_timestamps, num_frames_per_clip=LENGTH, seconds_between_frames=1 / RATE),
}


@pytest.fixture(autouse=True)
def _warn_again() -> None:
    forget_warnings()


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("intact") / "intact.mp4"
    media.write_spec(replace(media.CLIPS["mp4"], num_frames=NUM_FRAMES, size=(160, 128)), path)
    return path


@pytest.fixture(scope="module", params=[zeros, flipped], ids=["hole", "flagged"])
def damaged(request: pytest.FixtureRequest, intact: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("damaged") / "damaged.mp4"
    path.write_bytes(with_damage(intact.read_bytes(), request.param, range(44, 54)))
    return path


def touched_and_good(path: Path) -> tuple[set[float], dict[float, np.ndarray]]:
    """The times (of a rate that is constant) that no good frame has, and the good frames by time."""
    frames = plain_decode(path.read_bytes())
    step = frames[1][0] - frames[0][0]
    good = {pts / step / RATE: rgb for pts, is_flagged, rgb in frames if not is_flagged}
    return {i / RATE for i in range(NUM_FRAMES)} - set(good), good


def check_good(sample: Sample, good: dict[float, np.ndarray]) -> None:
    """The frames are good ones of a plain decode, one directly after the other."""
    assert sample.frames is not None
    times = sample.frames.pts_seconds.tolist()
    assert np.allclose(np.diff(times), 1 / RATE)
    for seconds, frame in zip(times, sample.frames.data, strict=True):
        assert np.array_equal(frame.permute(1, 2, 0).numpy(), good[round(seconds * RATE) / RATE])


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_skip_leaves_out_the_rows_that_touch_damage(sampler: Any, damaged: Path) -> None:
    _, good = touched_and_good(damaged)
    dataset = VideoClips([damaged], sampler, rows_per_file=20, on_error="skip")
    rows = [dataset[row] for row in range(20)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", DamageWarning)
        again = [dataset[row] for row in reversed(range(20))][::-1]
    skipped = [row for row in rows if isinstance(row, Skipped)]
    assert 0 < len(skipped) < 15
    for row in skipped:
        assert row.failures[0].error == "DecodeError"
    for row in rows:
        if not isinstance(row, Skipped):
            check_good(row, good)
    assert [isinstance(row, Skipped) for row in again] == [isinstance(row, Skipped) for row in rows]


def test_raise_names_the_damage_and_replace_reads_another_file(damaged: Path, intact: Path) -> None:
    def rows(files: Sequence[Path], on_error: Any) -> VideoClips:
        return VideoClips(files, num_frames_per_clip=NUM_FRAMES - 15, on_error=on_error)

    with pytest.raises(DecodeError, match=r"is damaged|hole"):
        rows([damaged], "raise")[0]
    sample = rows([damaged, intact], "replace")[0]
    assert isinstance(sample, Sample)
    assert sample.source == str(intact)
    assert sample.failures[0].source == str(damaged)


def test_options_of_the_decoder_go_before(damaged: Path) -> None:
    def row(on_error: Any) -> Any:
        options = {"on_error": on_error}
        return VideoClips([damaged], num_frames_per_clip=80, decoder_options=options, on_error="skip")[0]

    with pytest.warns(DamageWarning):
        assert isinstance(row("keep"), Sample)
    nearest = row("nearest")
    assert isinstance(nearest, Sample)
    assert nearest.frames is not None
    assert nearest.frames.replaced
    assert isinstance(row("raise"), Skipped)


def test_flags_reach_the_batch(damaged: Path) -> None:
    clips = VideoClips([damaged] * 3, num_frames_per_clip=80, decoder_options={"on_error": "keep"})
    batch = next(iter(DataLoader(clips, 3, num_workers=1)))
    assert batch.frames.is_damaged.shape == (3, 80)
    whole = VideoDecoder(damaged, on_error="keep").get_all_frames()
    assert bool(batch.frames.is_damaged.any()) == bool(whole.is_damaged.any())


def test_clips_with_sound_and_with_captions_obey(damaged: Path, tmp_path: Path) -> None:
    rows = [
        {"path": str(damaged), "captions": [{"start": begin, "end": begin + 0.4, "text": "x"}]} for begin in (1.6, 3)
    ]
    captions = VideoTextClips(rows, num_frames_per_clip=8, on_error="skip")
    assert [isinstance(row, Skipped) for row in captions.__getitems__([0, 1])] == [True, False]
    muxed = with_sound(damaged, tmp_path / "sound.mkv")
    clips = VideoAudioClips([muxed], seconds_per_clip=3.2, sample_rate=8000, on_error="skip")
    assert isinstance(clips[0], Skipped)
    short = VideoAudioClips(
        [muxed], seconds_per_clip=0.2, fps=RATE, sample_rate=8000, on_error="skip", rows_per_file=20
    )
    kinds = {type(row) for row in short.__getitems__(range(20))}
    assert kinds == {Sample, Skipped}


def test_a_segment_never_has_frames_of_another(intact: Path, tmp_path: Path) -> None:
    """After a hole, frames have lower numbers than their packets."""
    path = tmp_path / "holed.mp4"
    path.write_bytes(with_damage(intact.read_bytes(), zeros, range(44, 54)))
    items = [Item(str(path), start_seconds=start / RATE, end_seconds=(start + 4) / RATE) for start in range(0, 96, 4)]
    dataset = VideoClips(items, num_frames_per_clip=4, on_error="skip")
    rows = [dataset[row] for row in range(len(items))]
    for item, row in zip(items, rows, strict=True):
        if isinstance(row, Sample) and row.frames is not None:
            assert item.start_seconds is not None
            assert item.end_seconds is not None
            assert (row.frames.pts_seconds >= item.start_seconds - 1e-6).all()
            assert (row.frames.pts_seconds < item.end_seconds).all()
    assert {type(row) for row in rows} == {Sample, Skipped}


class FirstFrames(Recipe):
    """A recipe that opens its decoder itself."""

    def open(self, item: Item) -> VideoDecoder:
        return VideoDecoder(item.source)

    def read(self, opened: VideoDecoder, item: Item, part: int) -> Sample:
        return Sample(frames=opened.get_frames_in_range(40, 60))


def test_a_recipe_of_the_users_own_decides_itself(damaged: Path) -> None:
    with pytest.warns(DamageWarning):
        assert isinstance(MediaDataset([Item(str(damaged))], FirstFrames())[0], Sample)


def test_a_mapper_of_rows_reports_damage_as_an_error(damaged: Path) -> None:
    columns = ClipDecoder(num_frames_per_clip=80)({"path": [str(damaged)]})
    assert columns["error"][0].startswith("DecodeError")
    options = {"on_error": "nearest"}
    columns = ClipDecoder(num_frames_per_clip=80, decoder_options=options)({"path": [str(damaged)]})
    flagged = sum(is_flagged for _, is_flagged, _ in plain_decode(damaged.read_bytes()))
    assert (columns["error"][0], columns["n_replaced"][0]) == ("", flagged)


def test_a_dataset_with_its_policy_can_be_pickled(damaged: Path) -> None:
    dataset = pickle.loads(pickle.dumps(VideoClips([damaged], num_frames_per_clip=80, on_error="skip")))
    assert isinstance(dataset[0], Skipped)
