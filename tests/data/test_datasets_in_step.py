"""Frames, audio and captions of the same time: flashes, beeps and captions, compared with FFmpeg's decode."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from media_step import Film, Truth, flashing, numbers_of, place_of, truth_of, write
from mediatensor import AudioSamples, FrameBatch
from mediatensor.datasets import Sample, VideoAudioClips
from real_files import TEST_DATA

SYNC_TEST = TEST_DATA / "media" / "megatron-energon__sync_test.mp4"

NTSC = Fraction(30_000, 1001)
UNEVEN = [Fraction(int(time), 1000) for time in np.random.default_rng(3).integers(12, 70, 80).cumsum()]
FILMS = {
    "b-frames, aac 44.1 kHz, 29.97 fps": Film("mp4", rate=44_100, fps=NTSC),
    "pictures that start late, by an edit list": Film(
        "mp4", frame_times=[Fraction(2, 5) + Fraction(number, 25) for number in range(75)], audio_end_seconds=3.4
    ),
    "sound that starts late, by an edit list": Film("mp4", rate=44_100, audio_begin_seconds=0.5),
    "sound that starts late and ends early": Film(
        "mkv", audio_codec="flac", rate=44_100, fps=NTSC, audio_begin_seconds=0.5, audio_end_seconds=2.5
    ),
    "variable frame rate, opus": Film(
        "webm", "libvpx", "libopus", frame_times=UNEVEN, options={"deadline": "realtime", "cpu-used": "8"}
    ),
    "a clock that starts at ten seconds": Film(
        "ts", fps=NTSC, frame_times=[10 + number / NTSC for number in range(90)], audio_begin_seconds=10.0,
        audio_end_seconds=13.2,
    ),
    "mp3 in matroska": Film("mkv", audio_codec="mp3", rate=44_100, fps=Fraction(24_000, 1001)),
}  # fmt: skip


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Film, Path, Truth]]:
    """Write each film into its own folder, next to its captions."""
    written = {}
    for name, film in FILMS.items():
        path = write(film, tmp_path_factory.mktemp("film") / f"film.{film.extension}")
        begin = film.times[0] if film.extension == "ts" else 0
        path.with_suffix(".srt").write_text(film.srt(begin))
        written[name] = (film, path, truth_of(film, path))
    return written


def parts(sample: Any) -> tuple[FrameBatch, AudioSamples, Any]:
    assert isinstance(sample, Sample)
    assert sample.frames is not None
    assert isinstance(sample.audio, AudioSamples)
    assert sample.captions is not None
    return sample.frames, sample.audio, sample.captions


def runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of each run of numbers."""
    for number in numbers:
        if number - 1 not in numbers:
            last = number
            while last + 1 in numbers:
                last += 1
            yield number, last


@pytest.mark.parametrize("rate", [None, 16_000])
@pytest.mark.parametrize("fps", [None, 12.5])
@pytest.mark.parametrize("name", FILMS)
def test_flash_beep_and_caption_come_together(
    films: dict[str, tuple[Film, Path, Truth]], name: str, fps: float | None, rate: int | None
) -> None:
    film, path, truth = films[name]
    # As it was written: a clock of milliseconds is the coarsest of these.
    assert all(
        beep is None or abs(beep - flash) < 0.0011 for beep, (flash, _) in zip(truth.beeps, truth.flashes, strict=True)
    )
    rows = VideoAudioClips(
        path.parent.as_posix(), seconds_per_clip=1.25, fps=fps, sample_rate=rate, captions="sidecar", rows_per_file=5
    )
    num_beeps = num_flashes = 0
    for row in range(5):
        sample = rows[row]
        frames, audio, captions = parts(sample)
        begin, length = audio.pts_seconds, audio.data.shape[1]
        end = begin + length / audio.sample_rate
        step = 0.0 if fps is None else 1 / fps
        assert length == round(1.25 * audio.sample_rate)

        # Frames match their times, by burnt-in numbers.
        numbers = numbers_of(frames)
        assert sample.frame_indices.tolist() == numbers
        for number, pts in zip(numbers, frames.pts_seconds.tolist(), strict=True):
            assert pts >= truth.times[number] - 1e-6
            assert number + 1 == len(truth.times) or pts < truth.times[number + 1]
            assert fps is not None or pts == pytest.approx(truth.times[number], abs=1e-6)

        # Flashes begin with the frame that they begin with; where frames are resampled, with the next of them.
        flashes = [(first, last) for first, last in runs(flashing(frames))]
        for first, last in flashes:
            number = next(n for n, (_, stop) in enumerate(film.flashes) if numbers[first] < stop)
            num_flashes += 1
            if first:
                assert -1e-6 <= float(frames.pts_seconds[first]) - truth.flashes[number][0] <= step + 1e-6
            # The caption of a flash has its very frames.
            caption = next(one for one in captions if one.text == f"flash {number}")
            assert (caption.first_frame, caption.last_frame) == (first, last)

        # Beeps begin at their sample, and with their flash.
        for number, beep in enumerate(truth.beeps):
            if beep is None or not begin + 0.001 < beep < end:
                continue
            place = place_of(film.beep(number, audio.sample_rate), audio.data[0].numpy())
            if place is None:  # its end is cut off
                continue
            num_beeps += 1
            assert abs(place - (beep - begin) * audio.sample_rate) <= 1
            caption = next(one for one in captions if one.text == f"flash {number}")
            # Subtitle files have whole milliseconds, and so have sound in Matroska and edit lists of mp4.
            assert abs(caption.start_sample - place) <= 0.0021 * audio.sample_rate + 1
            assert caption.start_seconds == pytest.approx(begin + caption.start_sample / audio.sample_rate, abs=1e-4)

        # Silence is where the file has no sound, and the mask says so.
        times = begin + (np.arange(length) + 0.5) / audio.sample_rate
        is_sound = (times > truth.sound[0]) & (times < truth.sound[1])
        assert abs(is_sound.sum() - int(sample.sample_mask.sum())) <= 2
        assert not audio.data[:, ~sample.sample_mask].any()
        for caption in captions:
            assert begin <= caption.start_seconds < caption.end_seconds <= end
            assert 0 <= caption.start_sample <= caption.stop_sample <= length
    assert num_beeps
    assert num_flashes


def onsets(wave: NDArray[np.float32], rate: int) -> NDArray[np.int64]:
    """Where sound begins after a quarter of a second of silence, or at the first sample."""
    loud = np.flatnonzero(np.abs(wave) > 0.05)
    return loud[np.diff(loud, prepend=-rate) > rate // 4]


@pytest.mark.slow
@pytest.mark.skipif(not SYNC_TEST.is_file(), reason=f"{SYNC_TEST} is not there")
def test_a_sync_test_film_gives_matching_frames_and_audio() -> None:
    """It has a flash a second, and a beep a little later: measured over the whole file by FFmpeg, and in rows."""
    with av.open(str(SYNC_TEST)) as file:
        lights = [
            (float(one.pts * one.time_base), one.to_ndarray(format="gray").mean()) for one in file.decode(video=0)
        ]
    flashes = np.array([after[0] for before, after in pairwise(lights) if after[1] - before[1] > 6])
    with av.open(str(SYNC_TEST)) as file:
        decoded = list(file.decode(audio=0))
    rate, begin = decoded[0].sample_rate, float(decoded[0].pts * decoded[0].time_base)
    beeps = begin + onsets(np.concatenate([frame.to_ndarray()[0] for frame in decoded]), rate) / rate
    assert len(flashes) > 50
    assert len(beeps) > 50
    num_found = 0
    for sample in VideoAudioClips([SYNC_TEST], seconds_per_clip=2.5, rows_per_file=4, missing="skip").__getitems__(
        range(4)
    ):
        assert isinstance(sample, Sample)
        frames, audio = sample.frames, sample.audio
        assert frames is not None
        assert isinstance(audio, AudioSamples)
        heard = onsets(audio.data[0].numpy(), rate)
        light = frames.data.float().mean(dim=(1, 2, 3))
        seen = frames.pts_seconds[1:][light.diff() > 5].tolist()
        num_found += len(seen)
        for place in heard[heard > 100].tolist():  # a clip may begin within a beep
            assert np.abs(beeps - (audio.pts_seconds + place / rate)).min() * rate <= 1
        for seconds in seen:
            assert np.abs(flashes - seconds).min() < 1e-6
    assert num_found >= 6
