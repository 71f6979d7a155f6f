"""`VideoAudioClips`: frames and audio of the same time, compared with the contents of the files."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from torch import Tensor

from dataset_samples import check_rows_anywhere, sample_of
from mediatensor import AudioSamples, AudioSamplesBatch, AudioVideoClip, FrameBatch
from mediatensor.datasets import Sample, Skipped, VideoAudioClips, VideoClips, pad, stack
from mediatensor.datasets._rows.recipe import OpenFiles
from mediatensor.decoders import AudioVideoDecoder
from mediatensor.errors import InvalidArgumentError, StreamError
from mediatensor.samplers import clips_at_random_timestamps
from mediatensor.transforms import LogMelSpectrogram, RandomCrop

FPS, RATE = 25, 8000
NUM_FRAMES = 50
HEIGHT, WIDTH = 32, 64


def write(path: Path, *, num_samples: int | None = 2 * RATE, num_frames: int = NUM_FRAMES) -> Path:
    """Pictures whose grey is four times their number, and sound that counts samples."""
    with av.open(str(path), "w") as container:
        video: Any = container.add_stream("ffv1", rate=FPS)
        video.width, video.height, video.pix_fmt = WIDTH, HEIGHT, "gray"
        audio = None if num_samples is None else container.add_stream("pcm_s16le", rate=RATE, layout="mono")
        for number in range(num_frames):
            picture = av.VideoFrame.from_ndarray(np.full((HEIGHT, WIDTH), 4 * number, np.uint8), format="gray")
            picture.pts, picture.time_base = number, Fraction(1, FPS)
            container.mux(video.encode(picture))
        container.mux(video.encode(None))
        if audio is not None and num_samples is not None:
            counting = np.arange(num_samples, dtype=np.int16)[None]
            for first in range(0, counting.shape[1], 400):
                sound = av.AudioFrame.from_ndarray(counting[:, first : first + 400], format="s16", layout="mono")
                sound.sample_rate, sound.pts, sound.time_base = RATE, first, Fraction(1, RATE)
                container.mux(audio.encode(sound))
            container.mux(audio.encode(None))
    return path


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("videos")
    return [write(folder / f"{number}.mkv") for number in range(3)]


@pytest.fixture(scope="module")
def early_end(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sound that ends after one second of two."""
    return write(tmp_path_factory.mktemp("early") / "early.mkv", num_samples=RATE)


def parts(sample: Sample) -> tuple[FrameBatch, AudioSamples]:
    assert sample.frames is not None
    assert isinstance(sample.audio, AudioSamples)
    return sample.frames, sample.audio


def numbers_of(frames: FrameBatch) -> list[int]:
    """Which pictures these are, by their grey."""
    greys = frames.data.float().mean(dim=(-3, -2, -1))
    return (greys / 4).round().int().flatten().tolist()


def counted(first: int, length: int) -> Tensor:
    return torch.arange(first, first + length)[None] / 32768


# One row


@pytest.mark.parametrize("fps", [5, 7.5, 30])
def test_frames_and_audio_have_the_same_times(videos: list[Path], fps: float) -> None:
    rows = VideoAudioClips(videos, seconds_per_clip=0.8, fps=fps, rows_per_file=5)
    num_frames = round(0.8 * fps)
    starts = set()
    for row in range(len(rows)):
        sample = sample_of(rows, row)
        frames, audio = parts(sample)
        starts.add(audio.pts_seconds)
        times = audio.pts_seconds + np.arange(num_frames) / fps
        # Matroska has whole milliseconds, which times of 25 frames a second are.
        shown = np.floor(np.round(times * FPS, 6)).astype(int).tolist()
        assert numbers_of(frames) == shown
        assert sample.frame_indices is not None
        assert sample.frame_indices.tolist() == shown
        assert frames.pts_seconds.tolist() == pytest.approx(times.tolist())
        assert frames.duration_seconds.tolist() == pytest.approx([1 / fps] * num_frames)
        assert sample.effective_fps == pytest.approx(fps)
        assert torch.equal(audio.data, counted(round(audio.pts_seconds * RATE), 6400))
        assert (sample.num_valid_samples, sample.extra) == (6400, {"silent_spans": ()})
        assert sample.source == str(videos[row // 5])
    assert len(starts) == len(rows)


@pytest.mark.parametrize("rate", [8000, 11_025, 44_100])
def test_all_clips_of_a_rate_have_one_shape(videos: list[Path], rate: int) -> None:
    rows = VideoAudioClips(videos, seconds_per_clip=0.333, fps=9, sample_rate=rate, num_channels=2, rows_per_file=20)
    shapes = {
        (tuple(sample.frames.data.shape), tuple(sample.audio.data.shape))  # type: ignore[union-attr]
        for sample in rows.__getitems__(range(60))
    }
    assert shapes == {((3, 3, HEIGHT, WIDTH), (2, round(0.333 * rate)))}


def test_without_a_rate_clips_have_the_frames_of_the_file(videos: list[Path]) -> None:
    for row in range(5):
        sample = sample_of(VideoAudioClips(videos, seconds_per_clip=0.5, rows_per_file=5), row)
        frames, audio = parts(sample)
        first = int(np.floor(np.round(audio.pts_seconds * FPS, 6)))
        last = int(np.ceil(np.round((audio.pts_seconds + 0.5) * FPS, 6)))
        assert numbers_of(frames) == list(range(first, last))
        assert frames.pts_seconds.tolist() == pytest.approx([number / FPS for number in range(first, last)])
        assert sample.effective_fps == pytest.approx(FPS)


# Short files


def test_a_short_video_is_filled_up(videos: list[Path]) -> None:
    sample = sample_of(VideoAudioClips(videos, seconds_per_clip=3.0, fps=5), 0)
    frames, audio = parts(sample)
    assert numbers_of(frames) == [5 * min(number, 9) for number in range(15)]
    assert frames.pts_seconds.tolist() == pytest.approx([min(number, 9) / 5 for number in range(15)])
    assert sample.effective_fps == pytest.approx(5)
    assert torch.equal(audio.data[:, : 2 * RATE], counted(0, 2 * RATE))
    assert not audio.data[:, 2 * RATE :].any()
    assert sample.extra == {"silent_spans": ((2 * RATE, 3 * RATE),)}
    assert sample.num_valid_samples == 2 * RATE


def test_a_short_video_can_be_an_error(videos: list[Path]) -> None:
    with pytest.raises(InvalidArgumentError, match="'error' policy"):
        VideoAudioClips(videos, seconds_per_clip=2.1, policy="error")[0]
    frames, _ = parts(sample_of(VideoAudioClips(videos, seconds_per_clip=2.0, policy="error"), 0))
    assert numbers_of(frames) == list(range(NUM_FRAMES))


def test_silence_follows_the_end_of_the_audio(early_end: Path) -> None:
    rows = VideoAudioClips([early_end], seconds_per_clip=1.0, fps=5, rows_per_file=10)
    for row in range(10):
        sample = sample_of(rows, row)
        _, audio = parts(sample)
        first = round(audio.pts_seconds * RATE)
        num_valid = RATE - first
        assert torch.equal(audio.data[:, :num_valid], counted(first, num_valid))
        assert not audio.data[:, num_valid:].any()
        assert sample.num_valid_samples == num_valid
        assert sample.extra["silent_spans"] == ((num_valid, RATE),)


# Several clips, samplers, transforms


def test_a_sample_has_several_clips(early_end: Path) -> None:
    rows = VideoAudioClips([early_end], seconds_per_clip=1.0, fps=5, num_clips=3, keep_clip_dimension=True)
    sample = sample_of(rows, 0)
    assert sample.frames is not None
    assert isinstance(sample.audio, AudioSamplesBatch)
    assert sample.frames.data.shape == (3, 5, 3, HEIGHT, WIDTH)
    assert len(set(sample.audio.pts_seconds.tolist())) == 3
    assert sample.frames.pts_seconds[:, 0].tolist() == pytest.approx(sample.audio.pts_seconds.tolist())
    for clip, spans, num_valid in zip(
        sample.audio, sample.extra["silent_spans"], sample.audio.num_valid_samples.tolist(), strict=True
    ):
        first = round(clip.pts_seconds * RATE)
        assert spans == ((RATE - first, RATE),)
        assert num_valid == RATE - first
        assert torch.equal(clip.data[:, :num_valid], counted(first, num_valid))
    with pytest.raises(InvalidArgumentError, match="3 clips"):
        VideoAudioClips([early_end], seconds_per_clip=1.0, fps=5, num_clips=3)[0]


def last_half_second(decoder: AudioVideoDecoder) -> AudioVideoClip:
    return decoder.get_played_in_range(1.5, 2.0, fps=10)


def test_a_users_sampler_is_called(videos: list[Path]) -> None:
    frames, audio = parts(sample_of(VideoAudioClips(videos, last_half_second), 1))
    assert numbers_of(frames) == [37, 40, 42, 45, 47]
    assert torch.equal(audio.data, counted(12_000, 4000))
    with pytest.raises(InvalidArgumentError, match="must return an AudioVideoClip"):
        VideoAudioClips(videos, lambda decoder: decoder.video[0])[0]


def test_different_numbers_of_frames_are_explained(videos: list[Path]) -> None:
    """A clip that begins in the middle of a frame shows one more; the message says what to give for equal ones."""
    starts = (1.0, 1.02)
    rows = [VideoAudioClips(videos, lambda decoder, at=at: decoder.get_played_in_range(at, at + 0.4)) for at in starts]
    samples = [sample_of(dataset, 0) for dataset in rows]
    assert [numbers_of(parts(sample)[0]) for sample in samples] == [list(range(25, 35)), list(range(25, 36))]
    with pytest.raises(InvalidArgumentError, match=r"The number of frames differs\. Pass fps=.*`pad` or `ragged`"):
        stack(samples)
    assert pad(samples).num_valid_frames.tolist() == [10, 11]


def two_of_different_length(decoder: AudioVideoDecoder) -> list[AudioVideoClip]:
    return decoder.get_played_in_ranges([(0.0, 0.4), (0.0, 0.8)], fps=5)


def test_clips_of_different_length_cannot_lie_side_by_side(videos: list[Path]) -> None:
    with pytest.raises(InvalidArgumentError, match="different shapes"):
        VideoAudioClips(videos, two_of_different_length, keep_clip_dimension=True)[0]


def darker(frames: FrameBatch) -> Tensor:
    return frames.data // 2


def test_transforms_of_frames_and_of_audio_are_applied(videos: list[Path]) -> None:
    options: dict[str, Any] = {
        "seconds_per_clip": 0.5,
        "fps": 4,
        "decoder_options": {"transforms": [RandomCrop((8, 8))]},
    }
    plain = sample_of(VideoAudioClips(videos, **options), 0)
    mels = LogMelSpectrogram(sample_rate=RATE)
    changed = sample_of(VideoAudioClips(videos, transform=darker, audio_transform=mels, **options), 0)
    frames, audio = parts(plain)
    assert frames.data.shape == (2, 3, 8, 8)
    assert changed.frames is not None
    assert torch.equal(changed.frames.data, frames.data // 2)
    assert changed.features is not None
    assert torch.equal(changed.features, mels(audio))
    assert changed.audio is None
    assert changed.extra["audio_pts_seconds"] == audio.pts_seconds
    assert changed.extra["silent_spans"] == ()


# Rows


def test_rows_do_not_depend_on_their_reader(videos: list[Path]) -> None:
    options: dict[str, Any] = {"transforms": [RandomCrop((16, 16))]}
    rows = VideoAudioClips(videos, seconds_per_clip=0.4, fps=5, rows_per_file=4, seed=5, decoder_options=options)
    check_rows_anywhere(rows, 12)


@pytest.mark.parametrize("fps", [None, 5])
def test_position_of_a_row_is_the_time_of_its_clip(videos: list[Path], fps: float | None) -> None:
    options: dict[str, Any] = {"transforms": [RandomCrop((16, 16))]}
    rows = VideoAudioClips(videos[:1], seconds_per_clip=0.4, fps=fps, rows_per_file=5, decoder_options=options)
    with OpenFiles(1) as files:
        positions = [rows.spec(row).position(files) for row in range(5)]
    assert positions == pytest.approx([parts(sample_of(rows, row))[1].pts_seconds for row in range(5)], abs=1e-3)


def test_position_of_a_clip_by_time_is_a_time_of_its_first_frame(videos: list[Path]) -> None:
    sampler = partial(clips_at_random_timestamps, num_frames_per_clip=2)
    rows = VideoClips(videos[:1], sampler, rows_per_file=5)
    with OpenFiles(1) as files:
        positions = [rows.spec(row).position(files) for row in range(5)]
    frames = [sample_of(rows, row).frames for row in range(5)]
    for position, batch in zip(positions, frames, strict=True):
        assert batch is not None
        begin = float(batch.pts_seconds[0])
        assert begin <= position < begin + float(batch.duration_seconds[0])


def test_files_without_sound_or_content_are_skipped_or_replaced(videos: list[Path], tmp_path: Path) -> None:
    mute = write(tmp_path / "mute.mkv", num_samples=None, num_frames=5)
    (tmp_path / "text.mkv").write_text("not a video")
    paths = [mute, tmp_path / "text.mkv", *videos]
    with pytest.raises(StreamError):
        VideoAudioClips(paths, seconds_per_clip=0.4)[0]
    skipping = VideoAudioClips(paths, seconds_per_clip=0.4, fps=5, on_error="skip")
    assert [isinstance(skipping[row], Skipped) for row in range(5)] == [True, True, False, False, False]
    replaced = sample_of(VideoAudioClips(paths, seconds_per_clip=0.4, fps=5, on_error="replace"), 1)
    assert replaced.failures[0].source == str(paths[1])
    assert parts(replaced)[0].data.shape == (2, 3, HEIGHT, WIDTH)


@pytest.mark.parametrize(
    "options", [{"seconds_per_clip": 0.0}, {"fps": 0.5}, {"num_clips": 0}, {"policy": "wrap"}], ids=str
)
def test_wrong_arguments_are_refused(videos: list[Path], options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        VideoAudioClips(videos, **{"seconds_per_clip": 0.5, "fps": 5, **options})[0]
