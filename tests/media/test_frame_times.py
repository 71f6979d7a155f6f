"""Grids of times at the rate of a file take each frame once, in any time base, from any start."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import media
import media_step
from media_step import numbers_of as numbers
from mediatensor._engine.index.building import from_table
from mediatensor._engine.index.frame_clock import FrameClock, frame_clock
from mediatensor.cli import main
from mediatensor.datasets import VideoAudioClips, VideoClips
from mediatensor.decoders import AudioVideoDecoder, VideoDecoder
from mediatensor.samplers import clips_at_random_timestamps, clips_at_regular_timestamps

RATES = [
    Fraction(15), Fraction(24000, 1001), Fraction(24), Fraction(25), Fraction(30000, 1001), Fraction(30),
    Fraction(50), Fraction(60000, 1001), Fraction(60), Fraction(120),
]  # fmt: skip
TIME_BASES = [
    *(Fraction(1, n) for n in (600, 1000, 12800, 15360, 24000, 30000, 60000, 90000, 1_000_000)),
    Fraction(1001, 1_000_000), Fraction(1001, 24_000_000), "a frame",
]  # fmt: skip
OFFSETS = [Fraction(0), Fraction(7, 5), Fraction(22, 15), Fraction(1, 3), Fraction(95_443), Fraction(-2, 7)]


def ticks_of(rate: Fraction, time_base: Fraction, offset: Fraction, count: int, *, cuts_off: bool) -> Any:
    times = [(offset + k / rate) / time_base for k in range(count)]
    return np.array([int(time // 1) if cuts_off else round(time) for time in times], np.int64)


def frames_at(clock: FrameClock, start: float, step: float, count: int) -> list[int]:
    clock = clock.for_steps(step)
    return clock.played_at(clock.grid(start, step, count)).tolist()


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("time_base", TIME_BASES, ids=str)
def test_grid_at_file_rate_takes_each_frame_once(rate: Fraction, time_base: Any) -> None:
    tick = 1 / rate if time_base == "a frame" else time_base
    choose = random.Random(str(rate))
    count = 360
    for offset in OFFSETS:
        offset = round(offset / tick) * tick if time_base == "a frame" else offset
        for cuts_off in (False, True):
            pts = ticks_of(rate, tick, offset, count, cuts_off=cuts_off)
            clock = frame_clock(pts, tick)
            seconds = [float(int(ticks) * tick) for ticks in pts]
            # Metadata compute the average rate from the last duration, which is rounded as well.
            average = count / (float((int(pts[-1]) + round(1 / rate / tick)) * tick) - seconds[0])
            for fps in (float(rate), average):
                assert frames_at(clock, seconds[0], 1 / fps, count) == list(range(count)), (offset, cuts_off, fps)
                for first in choose.sample(range(count - 20), 4):
                    assert frames_at(clock, seconds[first], 1 / fps, 20) == list(range(first, first + 20))
                    # From a time within a frame.
                    begin = seconds[first] + choose.random() / float(rate)
                    shown = frames_at(clock, begin, 1 / fps, 20)
                    assert [after - before for before, after in pairwise(shown)] == [1] * 19
            assert frames_at(clock, seconds[0], 2 / average, count // 2) == list(range(0, count, 2))
            assert frames_at(clock, seconds[0], 0.5 / average, 2 * count) == [k // 2 for k in range(2 * count)]
            # A frame starts at its time before rounding.
            assert np.abs(clock.starts - [float(offset + k / rate) for k in range(count)]).max() <= 1.1 * float(tick)


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_grids_at_other_rates_match_exact_arithmetic(rate: Fraction) -> None:
    tick = Fraction(1, 90_000)
    pts = ticks_of(rate, tick, Fraction(7, 5), 300, cuts_off=False)
    clock = frame_clock(pts, tick)
    for fps in (Fraction(5), Fraction(15), Fraction(24), Fraction(2997, 100), Fraction(301, 10), Fraction(60)):
        count = int(fps * 300 / rate)
        meant = [pts[0] * tick + k / fps for k in range(count)]
        frames = frames_at(clock, float(pts[0] * tick), float(1 / fps), count)
        for frame, time in zip(frames, meant, strict=True):
            # The frame has started by this time, with a tolerance of half a tick.
            assert pts[frame] * tick <= time + tick / 2 + Fraction(1, 10**9), fps
            assert frame == 299 or time < pts[frame + 1] * tick + tick / 2, fps


def test_grids_keep_rate_where_frames_are_missing_or_out_of_step() -> None:
    tick, rate = Fraction(1, 1000), Fraction(24000, 1001)
    whole = ticks_of(rate, tick, Fraction(0), 400, cuts_off=False)
    present = np.delete(whole, [17, 18, 90, 200, 201, 202])
    clock = frame_clock(present, tick)
    expected = [int(np.searchsorted(present, ticks, side="right")) - 1 for ticks in whole]
    assert clock.step == 1 / rate
    assert frames_at(clock, 0.0, float(1 / rate), 400) == expected
    # Two recordings one after the other, the second 13 ms off the grid of the first.
    joined = np.concatenate([whole, whole + whole[-1] + 55])
    clock = frame_clock(joined, tick)
    assert clock.step == 1 / rate
    assert frames_at(clock, float(joined[400] * tick), float(1 / rate), 400) == list(range(400, 800))


def test_usual_step_is_between_most_frames() -> None:
    tick, rate = Fraction(1, 1000), Fraction(30)
    whole = ticks_of(rate, tick, Fraction(0), 60, cuts_off=False)
    # The last frame has a duration of a tick, as in some FLV files. Then one frame is missing.
    assert frame_clock(whole, tick).usual_step(1.968 / 60) == 1 / 30
    assert frame_clock(np.delete(whole, 9), tick).usual_step(2 / 59) == 1 / 30
    # A still picture for the last ten seconds.
    assert frame_clock(whole, tick).usual_step(12 / 60) == 12 / 60
    # One gap is half as long as the rest.
    uneven = np.concatenate([np.arange(20) * 40, 780 + np.arange(20) * 40])
    assert frame_clock(uneven, tick).usual_step(1.58 / 40) == 0.04


def test_times_added_up_from_rounded_durations_are_steady() -> None:
    """MPEG program streams state the times of some frames; durations in ticks give the others."""
    rate, tick = Fraction(24000, 1001), Fraction(1, 90_000)
    pts = np.concatenate([round(12 * k / rate / tick) + 3753 * np.arange(12) for k in range(20)])
    clock = frame_clock(pts, tick)
    assert clock.step == 1 / rate
    assert frames_at(clock, 0.0, float(1 / rate), 240) == list(range(240))


def test_times_of_uneven_streams_are_exact() -> None:
    for seed in range(20):
        pts = np.random.default_rng(seed).integers(12, 70, 80).cumsum()
        clock = frame_clock(pts, Fraction(1, 1000))
        assert clock.step is None or int(np.gcd.reduce(np.diff(pts))) == int(np.diff(pts).min())
        assert np.array_equal(clock.starts, clock.times)
    # Times of a screen recording may be multiples of 10 ms without having been rounded.
    clock = frame_clock(np.array([0, 100, 230, 310, 450]), Fraction(1, 1000))
    assert np.array_equal(clock.starts, clock.times)


def test_steps_longer_than_any_stream_are_accepted(film: Path) -> None:
    with VideoDecoder(film) as decoder:
        for step in (1e300, 1e308):
            options = {"num_frames_per_clip": 2, "seconds_between_frames": step, "policy": "wrap"}
            pts = clips_at_regular_timestamps(decoder, seconds_between_clip_starts=step, **options).pts_seconds
            assert pts.tolist() == [[decoder.metadata.begin_stream_seconds] * 2]


def test_stream_of_one_frame_has_clock() -> None:
    for pts in ([5], [5, 5]):
        clock = frame_clock(np.array(pts), Fraction(1, 10))
        assert frames_at(clock, 0.5, 0.1, 3) == [len(pts) - 1] * 3


def test_stream_with_mostly_equal_times_has_clock() -> None:
    pts = np.array([0] * 30 + [100, 230])
    clock = frame_clock(pts, Fraction(1, 1000))
    assert clock.step is None
    assert frames_at(clock, 0.0, 0.115, 3) == [29, 30, 31]


def test_half_of_the_distances_may_be_much_longer(tmp_path: Path) -> None:
    """No distance is near their median, which is the mean of two of them."""
    path = tmp_path / "half.mkv"
    clip = replace(media.CLIPS["mkv"], num_frames=3, time_base=Fraction(1, 1000), pts=[0, 33, 133])
    media.write_spec(clip, path)
    with VideoDecoder(path) as decoder:
        frames = decoder.get_frames_played_in_range(0.0, 0.16, fps=30)
        assert torch.equal(frames.data, decoder.get_frames_at([0, 1, 1, 1, 2]).data)


# Files

FILMS = {
    f"{rate}, {extension}": media_step.Film(extension, fps=rate, audio_codec=codec)
    for extension, codec, rate in (
        ("mp4", "aac", Fraction(24000, 1001)),
        ("ts", "mp2", Fraction(24000, 1001)),
        ("ts", "mp2", Fraction(30)),
        ("mkv", "flac", Fraction(24000, 1001)),
        ("mkv", "flac", Fraction(30)),
    )
}


@pytest.fixture(scope="module", params=FILMS)
def film(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = FILMS[request.param]
    return media_step.write(made, tmp_path_factory.mktemp("film") / f"film.{made.extension}")


@pytest.mark.parametrize("seek_mode", ["exact", "approximate"])
def test_file_rate_gives_every_frame_once(film: Path, seek_mode: Any) -> None:
    with VideoDecoder(film, seek_mode=seek_mode) as decoder, VideoDecoder(film) as whole:
        everything = list(range(len(whole)))
        assert numbers(whole[:]) == everything
        metadata = decoder.metadata
        for fps in {metadata.average_fps, metadata.average_fps_from_header}:
            batch = decoder.get_all_frames(fps=fps)
            # The header of a Matroska file states the end of the audio as the end of the video.
            assert numbers(batch)[: len(everything)] == everything
            assert seek_mode == "approximate" or len(batch) == len(everything)
            begin = metadata.begin_stream_seconds
            assert batch.pts_seconds.tolist() == [begin + k / fps for k in range(len(batch))]


def test_default_clips_are_frames_in_a_row(film: Path) -> None:
    with VideoDecoder(film) as decoder:
        clips = clips_at_regular_timestamps(decoder, seconds_between_clip_starts=1.0, num_frames_per_clip=8)
        assert numbers(clips[0]) == list(range(8))
        rows = [numbers(clip) for clip in clips]
        every = clips_at_regular_timestamps(
            decoder, seconds_between_clip_starts=1 / decoder.metadata.average_fps, num_frames_per_clip=5, policy="error"
        )
        assert [numbers(clip) for clip in every] == [list(range(k, k + 5)) for k in range(len(decoder) - 4)]
        torch.manual_seed(0)
        rows += [numbers(clip) for clip in clips_at_random_timestamps(decoder, num_clips=30, num_frames_per_clip=16)]
        assert all(row == list(range(row[0], row[0] + len(row))) for row in rows)
        single = clips_at_regular_timestamps(decoder, seconds_between_clip_starts=1 / decoder.metadata.average_fps)
        assert numbers(single) == list(range(len(decoder)))


def test_training_rows_at_file_rate_are_consecutive_frames(film: Path) -> None:
    with VideoDecoder(film) as decoder:
        rates = {decoder.metadata.average_fps, decoder.metadata.average_fps_from_header}
    for fps in rates:
        rows = VideoAudioClips([film], seconds_per_clip=0.5, fps=fps, rows_per_file=8, sample_rate=8000)
        for row in range(8):
            sample = rows[row]
            shown = numbers(sample.frames)
            assert shown == list(range(shown[0], shown[0] + len(shown)))
            assert sample.frame_indices.tolist() == shown
    with AudioVideoDecoder(film) as both:
        fps = both.video.metadata.average_fps
        begin = both.video.metadata.begin_stream_seconds
        assert numbers(both.get_played_in_range(begin, begin + 1.0, fps=fps).frames) == list(range(round(fps)))


def test_segments_at_file_rate_have_each_frame_once(film: Path) -> None:
    with VideoDecoder(film) as decoder:
        pts, fps = decoder.frame_index.pts_seconds.tolist(), decoder.metadata.average_fps
    rows = [{"path": str(film), "start_seconds": pts[first], "end_seconds": pts[first + 12]} for first in (0, 7, 31)]
    dataset = VideoClips(rows, sampler=lambda segment: segment.get_all_frames(fps=fps))
    for row, first in enumerate((0, 7, 31)):
        assert numbers(dataset[row].frames) == list(range(first, first + 12))
        assert dataset[row].frame_indices.tolist() == list(range(first, first + 12))
        with_sound = VideoAudioClips(
            rows,
            seconds_per_clip=12 / fps,
            sample_rate=8000,
            sampler=lambda segment: segment.get_played_in_range(fps=fps),
        )
        assert numbers(with_sound[row].frames) == list(range(first, first + 12))
        drawn = VideoAudioClips(rows, seconds_per_clip=12 / fps, sample_rate=8000, fps=fps)
        assert set(numbers(drawn[row].frames)) <= set(range(first, first + 12))


def test_times_that_users_compute_meet_frames() -> None:
    """If frames have exact times, ``start + k / fps`` in any precision selects them."""
    for rate, tick in ((Fraction(30), Fraction(1, 90_000)), (Fraction(24000, 1001), Fraction(1, 24_000))):
        for offset in (Fraction(0), Fraction(7, 5), Fraction(22, 15), Fraction(3600)):
            index = _index_of(ticks_of(rate, tick, offset, 300, cuts_off=False), tick)
            begin, step = index.begin_seconds, float(1 / rate)
            times = [begin + k * step for k in range(300)]
            assert index.frames_played_at(times).tolist() == list(range(300))
            summed = np.cumsum([begin] + [step] * 299)
            assert index.frames_played_at(summed).tolist() == list(range(300))
            single = torch.tensor(times, dtype=torch.float32)
            assert index.frames_played_at(single).tolist() == list(range(300))
            for time, number in zip(single[::50], range(0, 300, 50), strict=True):
                for scalar in (time, time.numpy(), np.float32(time)):
                    assert index.frame_played_at(scalar) == number
            assert index.index_at(torch.tensor(times, dtype=torch.float64)).tolist() == list(range(300))
            assert [index.key_frame_seconds_for(time) for time in times] == index.pts_seconds.tolist()


def test_earlier_time_shows_frame_before() -> None:
    for tick in (Fraction(1, 1000), Fraction(1, 90_000), Fraction(1, 25)):
        pts = ticks_of(Fraction(25), tick, Fraction(2), 50, cuts_off=False)
        index = _index_of(pts, tick)
        starts = index.pts_seconds[1:]
        for earlier in (1e-9, 1e-6, float(tick) / 2):
            assert index.frames_played_at(starts - earlier).tolist() == list(range(49))


def _index_of(pts: Any, tick: Fraction) -> Any:
    durations = [*np.diff(pts), int(pts[-1] - pts[-2])]
    return from_table(pts.tolist(), durations, [True] * len(pts), tick)


def test_range_excludes_frame_that_starts_at_its_end(film: Path) -> None:
    with VideoDecoder(film) as decoder:
        pts = decoder.frame_index.pts_seconds.tolist()
        begin, step = pts[0], (pts[60] - pts[0]) / 60
        assert numbers(decoder.get_frames_played_in_range(begin, pts[5])) == list(range(5))
        assert numbers(decoder.get_frames_played_in_range(pts[5] - 1e-10, pts[9] + 1e-10)) == list(range(5, 9))
        assert numbers(decoder.get_frames_played_in_range(pts[5], pts[5] + 1e-10)) == [5]
        assert numbers(decoder.get_frames_played_in_range(begin + 60 * step, pts[70])) == list(range(60, 70))


# Segments that are shorter than a frame


@pytest.mark.parametrize("start", [0.985, 0.999, 0.9997])
@pytest.mark.parametrize("end", [1.0, 1.0 + 1e-10, 1.0003])
def test_segment_shorter_than_a_frame_is_one_frame(tmp_path: Path, start: float, end: float) -> None:
    path = media_step.write(media_step.Film("mp4", fps=Fraction(25), audio_codec=""), tmp_path / "film.mp4")
    samplers = {
        "time": lambda segment: segment.get_frames_played_at(
            np.linspace(segment.metadata.begin_stream_seconds, segment.metadata.end_stream_seconds, 50, endpoint=False)
        ),
        "end": lambda segment: segment.get_frames_played_at([np.nextafter(segment.metadata.end_stream_seconds, 0)]),
        "range": lambda segment: segment.get_frames_played_in_range(
            np.nextafter(segment.metadata.end_stream_seconds, 0), segment.metadata.end_stream_seconds
        ),
        "fps": lambda segment: segment.get_all_frames(fps=5000),
        "own fps": lambda segment: segment.get_all_frames(fps=25),
        "all": lambda segment: segment.get_all_frames(),
        "index": lambda segment: segment.get_frames_in_range(0, len(segment)),
        "clips": lambda segment: clips_at_random_timestamps(segment, num_clips=50),
    }
    for name, sampler in samplers.items():
        dataset = VideoClips(
            [{"path": str(path), "start_seconds": start, "end_seconds": end}], sampler=sampler, keep_clip_dimension=True
        )
        assert set(numbers(dataset[0].frames)) <= {24}, name


# Commands


def test_extracting_at_file_rate_takes_all_frames(film: Path, tmp_path: Path) -> None:
    with VideoDecoder(film) as decoder:
        count, fps = len(decoder), decoder.metadata.average_fps
    assert main(["extract", str(film), "-o", str(tmp_path / "out"), "--fps", repr(fps), "--size", "16x16"]) == 0
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert [int(name.split("_")[-2]) for name in names] == list(range(count))


def test_large_times_are_rounded_once(clip: Path) -> None:
    """Doubles do not represent all ticks above 2**53."""
    drawn = random.Random(0)
    ticks = sorted(drawn.randrange(1 << 54, 1 << 60) for _ in range(100))
    table = {"frames": [{"pts": tick, "duration": tick // 3, "key_frame": 1} for tick in ticks]}
    with VideoDecoder(clip, custom_frame_mappings=json.dumps(table)) as decoder:
        index = decoder.frame_index
        assert index.pts_seconds.tolist() == [float(tick * index.time_base) for tick in ticks]
        assert index.duration_seconds.tolist() == [float(tick // 3 * index.time_base) for tick in ticks]
