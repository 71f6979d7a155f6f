"""`Encoder`: several streams in one file, piece by piece; times; the order of calls."""

from __future__ import annotations

import gc
import io
import pickle
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from audio_oracles import ffmpeg_samples
from encoder_oracles import moving_pictures, probe
from mediatensor import AudioSamples, FrameBatch
from mediatensor.decoders import AudioDecoder, VideoDecoder
from mediatensor.encoders import AudioEncoder, AudioStream, Encoder, VideoEncoder, VideoStream
from mediatensor.errors import ClosedError, EncodeError, InvalidArgumentError, OpenError, StreamError
from oracles import ffmpeg_rgb

RATE = 48_000
FRAMES = moving_pictures(10, 64, 64)


def batch(begin: float, num_frames: int = 10, rate: float = 25) -> FrameBatch:
    frames = FRAMES.repeat(-(-num_frames // 10), 1, 1, 1)[:num_frames]
    pts = begin + torch.arange(num_frames, dtype=torch.float64) / rate
    return FrameBatch(frames, pts, torch.full((num_frames,), 1 / rate))


def samples(begin: float, num_samples: int = RATE // 2) -> AudioSamples:
    return AudioSamples(torch.zeros(1, num_samples), begin, num_samples / RATE, RATE)


def flash_and_tone(folder: Path, extension: str, program: str) -> tuple[float, float]:
    """Return the times of the first bright frame and of the first loud sample, which are both 1.2 s in the input."""
    path = folder / f"video.{extension}"
    encoder = Encoder()
    video = encoder.add_video(height=64, width=64, frame_rate=25)
    audio = encoder.add_audio(sample_rate=RATE, num_channels=1)
    frames = torch.zeros(50, 3, 64, 64, dtype=torch.uint8)
    frames[30:] = 255
    sound = torch.sin(torch.arange(2 * RATE) * 0.2)
    sound[: round(1.2 * RATE)] = 0
    with encoder.open_file(path):
        for at in range(0, 50, 10):  # in step, like real data
            video.add_frames(frames[at : at + 10])
            audio.add_samples(sound[at * RATE // 25 : (at + 10) * RATE // 25])
    pixels = ffmpeg_rgb(program, path).transpose(0, 3, 1, 2)
    assert len(pixels) == 50
    _, packets = probe(path, packets=["duration_time"])
    bright = int(np.argmax(pixels.mean((1, 2, 3)) > 128))
    loud = int(np.argmax(np.abs(ffmpeg_samples(program, path)[0][0]) > 0.3))
    start = max(0.0, -float(probe(path, "a:0")[0]["start_time"])) if extension == "mkv" else 0.0
    return float(packets[bright]["pts_time"]), loud / RATE - start


def count_calls_of_frames_before_audio(num_frames: int) -> int:
    """Return the number of Python calls to encode frames that wait for the start of the audio."""
    encoder, calls = Encoder(), Counter[str]()
    video = encoder.add_video(height=64, width=64, frame_rate=25, codec="mpeg4")
    audio = encoder.add_audio(sample_rate=RATE, num_channels=1)
    with encoder.open_file_like(io.BytesIO(), format="mp4"):
        sys.setprofile(lambda frame, event, argument: calls.update([event]))
        try:
            video.add_frames(batch(5.0, num_frames))
        finally:
            sys.setprofile(None)
        audio.add_samples(samples(5.1))
    return calls["call"]


def test_work_grows_linearly_with_the_frames_before_the_audio() -> None:
    assert count_calls_of_frames_before_audio(400) < 3 * count_calls_of_frames_before_audio(200)


@pytest.mark.parametrize("extension", ["mp4", "mov", "mkv", "webm"])
def test_audio_and_video_stay_in_sync(extension: str, tmp_path: Path, ffmpeg_program: str) -> None:
    flash, tone = flash_and_tone(tmp_path, extension, ffmpeg_program)
    assert flash == pytest.approx(1.2, abs=1e-3)
    assert tone == pytest.approx(1.2, abs=2e-3)


@pytest.mark.parametrize("video_first", [True, False])
@pytest.mark.parametrize(("video_begin", "audio_begin"), [(5.0, 5.02), (5.0, 5.0), (5.02, 5.0), (0.0, 0.5)])
@pytest.mark.parametrize("frame_rate", [25, None])
def test_streams_that_were_decoded_together_stay_in_sync(
    video_begin: float, audio_begin: float, video_first: bool, frame_rate: int | None, tmp_path: Path
) -> None:
    path = tmp_path / "video.mov"
    encoder = Encoder()
    video = encoder.add_video(height=64, width=64, frame_rate=frame_rate)
    audio = encoder.add_audio(sample_rate=RATE, num_channels=1, codec="pcm_s16le")
    with encoder.open_file(path):
        steps = [lambda: video.add_frames(batch(video_begin)), lambda: audio.add_samples(samples(audio_begin))]
        for step in steps if video_first else reversed(steps):
            step()
    begin = min(video_begin, audio_begin)
    found = [float(probe(path, kind)[0]["start_time"]) for kind in ("v:0", "a:0")]
    assert found[0] == pytest.approx(video_begin - begin, abs=1e-3)
    assert found[1] == pytest.approx(audio_begin - begin, abs=1e-3)


@pytest.mark.parametrize("extension", ["mov", "mkv"])
def test_video_that_starts_within_a_frame_keeps_its_offset(extension: str, tmp_path: Path) -> None:
    path = tmp_path / f"video.{extension}"
    encoder = Encoder()
    video = encoder.add_video(height=64, width=64, frame_rate=2, codec="mpeg4")
    audio = encoder.add_audio(sample_rate=RATE, num_channels=1, codec="pcm_s16le")
    with encoder.open_file(path):
        video.add_frames(batch(5.2, num_frames=3, rate=2))
        audio.add_samples(samples(5.0))
    assert VideoDecoder(path).frame_index.pts_seconds.tolist() == pytest.approx([0.2, 0.7, 1.2], abs=1e-3)
    assert AudioDecoder(path).metadata.begin_stream_seconds == 0.0


def test_offset_that_the_container_cannot_store_is_a_warning(tmp_path: Path) -> None:
    encoder = Encoder()
    video = encoder.add_video(height=64, width=64, frame_rate=25, codec="mpeg4")
    audio = encoder.add_audio(sample_rate=RATE, num_channels=1, codec="pcm_s16le")
    path = tmp_path / "video.avi"
    with encoder.open_file(path):
        video.add_frames(batch(5.5))  # 12.5 frames later
        with pytest.warns(UserWarning, match=r"Stream 0 starts 0\.500 seconds after the others, but avi"):
            audio.add_samples(samples(5.0))
    steps = VideoDecoder(path).frame_index.pts_seconds.diff()
    assert steps[1:].tolist() == pytest.approx([0.04] * 8)


def test_data_without_times_starts_at_time_zero(tmp_path: Path) -> None:
    path = tmp_path / "video.mov"
    encoder = Encoder()
    video = encoder.add_video(height=64, width=64, frame_rate=25)
    audio = encoder.add_audio(sample_rate=RATE, num_channels=1, codec="pcm_s16le")
    with encoder.open_file(path):
        video.add_frames(FRAMES)
        audio.add_samples(samples(7.0))
    assert [float(probe(path, kind)[0]["start_time"]) for kind in ("v:0", "a:0")] == [0.0, 0.0]


def test_gaps_in_sound_are_silent(tmp_path: Path, ffmpeg_program: str) -> None:
    path = tmp_path / "sound.wav"
    loud = torch.full((1, 1000), 0.5)
    encoder = Encoder()
    audio = encoder.add_audio(sample_rate=RATE, num_channels=1)
    with encoder.open_file(path):
        for begin in (3.0, 3.0 + 1000 / RATE + 0.0004, 5.0):  # the second is off by less than a millisecond
            audio.add_samples(AudioSamples(loud, begin, 1000 / RATE, RATE))
        with pytest.raises(InvalidArgumentError, match="before the end of the earlier samples"):
            audio.add_samples(AudioSamples(loud, 5.0, 1000 / RATE, RATE))
        audio.add_samples(loud)
    found = ffmpeg_samples(ffmpeg_program, path)[0][0]
    expected = np.zeros(2 * RATE + 2000)
    expected[:2000] = expected[2 * RATE :] = 0.5
    assert np.array_equal(found, expected)


def test_variable_times_over_several_batches(tmp_path: Path) -> None:
    path = tmp_path / "video.mp4"
    encoder = Encoder()
    video = encoder.add_video(height=64, width=64)
    times = torch.tensor([2.0, 2.25, 2.3, 3.0, 3.5], dtype=torch.float64)
    whole = FrameBatch(FRAMES[:5], times, torch.full((5,), 0.125))
    with encoder.open_file(path):
        video.add_frames(whole[:2])
        with pytest.raises(InvalidArgumentError, match="order of their times"):
            video.add_frames(whole[:2])
        with pytest.raises(InvalidArgumentError, match="no frame_rate"):
            video.add_frames(FRAMES)
        video.add_frames(whole[2:])
    decoded = VideoDecoder(path).get_all_frames()
    assert torch.allclose(decoded.pts_seconds, times - 2, atol=1e-5)
    assert decoded.duration_seconds[-1].item() == pytest.approx(0.125, abs=1e-5)


def test_chunks_do_not_change_the_video() -> None:
    files = []
    for sizes in ([10], [1, 4, 5], [1] * 10):
        encoder, file = Encoder(), io.BytesIO()
        video = encoder.add_video(height=64, width=64, frame_rate=25, codec="mpeg4")
        with encoder.open_file_like(file, format="mp4"):
            for piece in FRAMES.split(sizes):
                video.add_frames(piece)
            video.add_frames(FRAMES[:0])
        files.append(file.getvalue())
    assert files[0] == files[1] == files[2]
    one_shot = VideoEncoder(FRAMES, frame_rate=25).to_tensor("mp4", codec="mpeg4")
    assert files[0] == bytes(one_shot.numpy())


def test_many_streams_of_different_kinds(tmp_path: Path, ffmpeg_program: str) -> None:
    path = tmp_path / "video.mkv"
    encoder = Encoder()
    large = encoder.add_video(height=64, width=64, frame_rate=25, codec="ffv1", pixel_format="bgr0")
    small = encoder.add_video(height=32, width=48, frame_rate=10, codec="libx264rgb", crf=0)
    stereo = encoder.add_audio(sample_rate=RATE, num_channels=2, codec="flac")
    mono = encoder.add_audio(sample_rate=8000, num_channels=1, codec="pcm_s16le")
    sound = torch.rand(2, 9600, generator=torch.Generator().manual_seed(0)) - 0.5
    with encoder.open_file(path):
        large.add_frames(FRAMES)
        small.add_frames(FRAMES[:4, :, :32, :48])
        stereo.add_samples(sound)
        mono.add_samples(sound[0, :3200])
    assert torch.equal(VideoDecoder(path, stream_index=0)[:], FRAMES)
    assert torch.equal(VideoDecoder(path, stream_index=1)[:], FRAMES[:4, :, :32, :48])
    found = ffmpeg_samples(ffmpeg_program, path)[0]
    assert np.abs(found - sound.numpy()).max() <= 0.51 / 32768
    assert probe(path, "a:1")[0]["sample_rate"] == "8000"


def test_order_of_calls() -> None:
    encoder = Encoder()
    with pytest.raises(EncodeError, match=r"add_video.*before open"):
        encoder.open_file_like(io.BytesIO(), format="mp4")
    video = encoder.add_video(height=64, width=64, frame_rate=25, codec="mpeg4")
    audio = encoder.add_audio(sample_rate=RATE, num_channels=1)
    assert isinstance(video, VideoStream)
    assert isinstance(audio, AudioStream)
    with pytest.raises(EncodeError, match=r"open_file.* before adding frames"):
        video.add_frames(FRAMES)
    with pytest.raises(EncodeError, match=r"open_file.* before adding samples"):
        audio.add_samples(torch.zeros(1, 10))
    assert encoder.open_file_like(io.BytesIO(), format="mp4") is encoder
    for name, call in (
        ("already called", lambda: encoder.open_file_like(io.BytesIO(), format="mp4")),
        ("already called", lambda: encoder.open_file("x.mp4")),
        ("after open", lambda: encoder.add_video(height=64, width=64, frame_rate=25)),
        ("after open", lambda: encoder.add_audio(sample_rate=RATE, num_channels=1)),
    ):
        with pytest.raises(EncodeError, match=name):
            call()
    video.add_frames(FRAMES)
    audio.add_samples(torch.zeros(1, 10))
    encoder.close()
    encoder.close()
    for name, call in (
        ("Cannot add frames after close", lambda: video.add_frames(FRAMES)),
        ("Cannot add samples after close", lambda: audio.add_samples(torch.zeros(1, 10))),
        ("Cannot open after close", lambda: encoder.open_file_like(io.BytesIO(), format="mp4")),
        ("after close", lambda: encoder.add_audio(sample_rate=RATE, num_channels=1)),
    ):
        with pytest.raises(ClosedError, match=name) as caught:
            call()
        assert isinstance(caught.value, RuntimeError)


def test_opening_again_after_a_refusal() -> None:
    encoder, file = Encoder(), io.BytesIO()
    video = encoder.add_video(height=64, width=64, frame_rate=25, codec="mpeg4")
    with pytest.raises(InvalidArgumentError):
        encoder.open_file_like(file, format="nosuch")
    with pytest.raises(InvalidArgumentError, match="does not go with the container"):
        encoder.open_file_like(io.BytesIO(), format="webm")
    with encoder.open_file_like(file, format="mp4"):
        video.add_frames(FRAMES)
    assert len(VideoDecoder(file.getvalue())) == 10


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (FRAMES[0], "Expected 4D frames"),
        (FRAMES.float(), "uint8"),
        (FRAMES[:, :2], "3 channels"),
        (FRAMES[:, :, :32], "same dimensions: height 64 and width 64, got 32 and 64"),
        (FRAMES.to("meta"), "no values"),
        (FRAMES.numpy(), "Tensor or a FrameBatch"),
    ],
)
def test_frames_that_do_not_fit_change_nothing(data: Any, words: str) -> None:
    encoder, file = Encoder(), io.BytesIO()
    video = encoder.add_video(height=64, width=64, frame_rate=25, codec="mpeg4")
    with encoder.open_file_like(file, format="mp4"):
        video.add_frames(FRAMES[:5])
        with pytest.raises(InvalidArgumentError, match=words):
            video.add_frames(data)
        video.add_frames(FRAMES[5:])
    assert file.getvalue() == bytes(VideoEncoder(FRAMES, frame_rate=25).to_tensor("mp4", codec="mpeg4").numpy())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (torch.zeros(3, 10), "Expected 2 channels, got 3"),
        (torch.zeros(10), "Expected 2 channels, got 1"),
        (torch.zeros(2, 10, dtype=torch.int16), "float32"),
        (AudioSamples(torch.zeros(2, 10), 0.0, 1.0, 8000), "takes 48000 samples a second"),
        (AudioSamples(torch.zeros(2, 10), float("nan"), 1.0, RATE), "must be finite"),
        (AudioSamples(torch.zeros(2, 10), 1e30, 1.0, RATE), "must be finite"),
        (AudioSamples(torch.zeros(2, 10), 1e8, 1.0, RATE), "filled with silence"),
    ],
)
def test_samples_that_do_not_fit(data: Any, words: str) -> None:
    encoder = Encoder()
    audio = encoder.add_audio(sample_rate=RATE, num_channels=2)
    with encoder.open_file_like(io.BytesIO(), format="wav"):
        audio.add_samples(AudioSamples(torch.zeros(2, 10), 0.0, 1.0, RATE))
        with pytest.raises(InvalidArgumentError, match=words):
            audio.add_samples(data)


@pytest.mark.parametrize("extension", ["mp4", "mov", "mkv", "webm", "avi", "ts"])
def test_a_video_stream_without_frames_is_empty(extension: str, tmp_path: Path) -> None:
    encoder, path = Encoder(), tmp_path / f"video.{extension}"
    video = encoder.add_video(height=64, width=64, frame_rate=25)
    encoder.open_file(path)
    video.add_frames(FRAMES[:0])
    with pytest.warns(UserWarning, match="Video stream 0 has no frames") as caught:
        encoder.close()
    assert [warning.filename for warning in caught] == [__file__]
    assert list(tmp_path.iterdir()) == [path]
    with suppress(OpenError, StreamError):  # but for avi, whose header describes the stream
        assert len(VideoDecoder(path)) == 0


def test_audio_next_to_a_video_without_frames(tmp_path: Path) -> None:
    encoder, path = Encoder(), tmp_path / "video.mkv"
    encoder.add_video(height=64, width=64, frame_rate=25)
    audio = encoder.add_audio(sample_rate=RATE, num_channels=1, codec="flac")
    with pytest.warns(UserWarning, match="no frames"), encoder.open_file(path):
        audio.add_samples(torch.zeros(1, 1000))
    assert AudioDecoder(path).get_all_samples().data.shape == (1, 1000)


def test_an_invalid_bit_rate_is_an_error_when_the_file_is_opened(tmp_path: Path) -> None:
    encoder = Encoder()
    encoder.add_audio(sample_rate=RATE, num_channels=1, bit_rate=-1)
    with pytest.raises(InvalidArgumentError, match="bit_rate=-1 must be >= 0"):
        encoder.open_file(tmp_path / "sound.wav")
    assert list(tmp_path.iterdir()) == []


def test_threads_take_turns() -> None:
    encoder, file = Encoder(), io.BytesIO()
    video = encoder.add_video(height=64, width=64, frame_rate=25, codec="mpeg4")
    with encoder.open_file_like(file, format="mp4"), ThreadPoolExecutor(8) as threads:
        list(threads.map(video.add_frames, [FRAMES] * 8))
    assert len(VideoDecoder(file.getvalue())) == 80


def test_no_pickle() -> None:
    encoder = Encoder()
    video = encoder.add_video(height=64, width=64, frame_rate=25)
    audio = encoder.add_audio(sample_rate=RATE, num_channels=1)
    one_shot = VideoEncoder(FRAMES, frame_rate=25), AudioEncoder(torch.zeros(1, 10), sample_rate=RATE)
    for thing in (encoder, video, audio, *one_shot):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(thing)


def test_streams_work_without_the_encoder_object() -> None:
    encoder, file = Encoder(), io.BytesIO()
    video = encoder.add_video(height=64, width=64, frame_rate=25)
    encoder.open_file_like(file, format="mkv")
    del encoder
    gc.collect()
    video.add_frames(FRAMES)
