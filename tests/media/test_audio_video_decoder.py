"""`AudioVideoDecoder`: frames of the video decoder with the audio of the same time."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from file_sources import SOURCES
from mediatensor import AudioVideoClip
from mediatensor._engine.audio.batch import AudioHandle
from mediatensor.decoders import AudioVideoDecoder, VideoDecoder
from mediatensor.decoders._access import AudioAccess
from mediatensor.errors import ClosedError, InvalidArgumentError, OutOfRangeError, SourceNotFoundError, StreamError
from mediatensor.transforms import Resize
from samplers_formula_sound import FormulaSound, exact_offset, numbers_of

FPS, RATE = 25, 8000
NUM_FRAMES = 50


def write(
    path: Path,
    pictures: list[int],
    *tracks: NDArray[np.int16],
    codecs: tuple[str, str] = ("ffv1", "pcm_s16le"),
    begin: Fraction = Fraction(0),
    gap: tuple[int, Fraction] = (0, Fraction(0)),
) -> Path:
    """A file of grey pictures and of tracks of sound, each (samples,), that begin at ``begin`` seconds.

    Samples from number ``gap[0]`` are ``gap[1]`` seconds later.
    """
    with av.open(str(path), "w") as container:
        video = container.add_stream(codecs[0], rate=FPS)
        video.width, video.height, video.pix_fmt = 64, 32, "yuv420p"
        streams = [container.add_stream(codecs[1], rate=RATE, layout="mono") for _ in tracks]
        for number, grey in enumerate(pictures):
            picture = av.VideoFrame.from_ndarray(np.full((32, 64, 3), grey, np.uint8), format="rgb24")
            picture.pts, picture.time_base = number, Fraction(1, FPS)
            container.mux(video.encode(picture))
        container.mux(video.encode(None))
        for audio, sound in zip(streams, tracks, strict=True):
            for first in range(0, len(sound), 800):
                piece = av.AudioFrame.from_ndarray(sound[None, first : first + 800], format="s16", layout="mono")
                piece.sample_rate, piece.time_base = RATE, Fraction(1, RATE)
                piece.pts = first + int((begin + gap[1] * (first >= gap[0])) * RATE)
                container.mux(audio.encode(piece))
            container.mux(audio.encode(None))
    return path


def numbered(count: int) -> NDArray[np.int16]:
    """Audio whose samples contain their number. No sample is silent."""
    return (2 * np.arange(count) + 1 - 16384).astype(np.int16)


def heard(clip: AudioVideoClip) -> list[int | None]:
    """Return the number of each sample of a clip; ``None`` for silence."""
    (channel,) = (clip.samples.data.double() * 32768).tolist()
    return [None if value == 0 else int((value + 16384 - 1) / 2) for value in channel]


def assert_silence_is_told(clip: AudioVideoClip) -> None:
    """Check that the silent spans are exactly the samples with the value 0."""
    is_silent = (clip.samples.data == 0).all(0).tolist()
    told = [False] * len(is_silent)
    for first, last in clip.silent_spans:
        told[first:last] = [True] * (last - first)
    assert told == is_silent
    assert all(a[1] < b[0] for a, b in pairwise(clip.silent_spans))


# Frames from 0 s to 2 s; the audio of the second file only from 0.2 s to 1.5 s.
SOUNDS = {"whole": (Fraction(0), 2 * RATE), "part": (Fraction(1, 5), RATE * 13 // 10)}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("both")
    pictures = [4 * number + 20 for number in range(NUM_FRAMES)]
    made = {
        name: write(folder / f"{name}.mkv", pictures, numbered(count), begin=begin)
        for name, (begin, count) in SOUNDS.items()
    }
    return {**made, "silent": write(folder / "silent.mkv", pictures)}


RANGES = [
    (0.0, 2.0),
    (0.0, 0.1),
    (0.1, 0.3),
    (0.1875, 0.200625),
    (0.5, 1.0),
    (1 / 3, 1.1),
    (1.4, 1.9),
    (1.6, 2.0),
    (1.0, 1.0),
    (0.12345, 1.98765),
]


@pytest.mark.parametrize("name", list(SOUNDS))
def test_a_clip_has_the_frames_and_the_samples_of_its_range(files: dict[str, Path], name: str) -> None:
    begin, count = SOUNDS[name]
    video = VideoDecoder(files[name])
    with AudioVideoDecoder(files[name]) as decoder:
        clips = decoder.get_played_in_ranges(RANGES)
    for (start, stop), clip in zip(RANGES, clips, strict=True):
        expected_frames = video.get_frames_played_in_range(start, stop)
        assert torch.equal(clip.frames.data, expected_frames.data)
        assert torch.equal(clip.frames.pts_seconds, expected_frames.pts_seconds)
        wanted = range(exact_offset(start, begin, RATE), exact_offset(stop, begin, RATE))
        assert heard(clip) == [number if 0 <= number < count else None for number in wanted]
        assert_silence_is_told(clip)
        assert clip.samples.pts_seconds == start
        assert clip.samples.sample_rate == RATE
        assert clip.samples.duration_seconds == len(wanted) / RATE == pytest.approx(stop - start, abs=1 / RATE)


@pytest.mark.parametrize(("codecs", "extension"), [(("ffv1", "pcm_s16le"), "mkv"), (("libx264", "aac"), "mp4")])
def test_a_flash_and_a_beep_at_the_same_time_stay_together(
    tmp_path: Path, codecs: tuple[str, str], extension: str
) -> None:
    at = 30  # the frame with the flash, at 1.2 s
    pictures = [235 if number == at else 20 for number in range(NUM_FRAMES)]
    sound = np.zeros(2 * RATE, np.int16)
    beep = slice(at * RATE // FPS, (at + 1) * RATE // FPS)
    sound[beep] = 12_000 * np.sin(2 * np.pi * 1000 * (np.arange(RATE // FPS) + 0.5) / RATE)
    path = write(tmp_path / f"flash.{extension}", pictures, sound, codecs=codecs)
    tolerance = 1 / RATE if codecs[1] == "pcm_s16le" else 0.5 / FPS
    with AudioVideoDecoder(path) as decoder:
        for start in (0.0, 0.51, 1.0, 1.19):
            frames, samples = decoder.get_played_in_range(start, 1.5)
            flash = frames.pts_seconds[(frames.data.float().mean((1, 2, 3)) > 128).nonzero().item()].item()
            loud = (samples.data[0].abs() > 0.1).nonzero().flatten().tolist()
            first, last = (samples.pts_seconds + loud[i] / samples.sample_rate for i in (0, -1))
            assert flash == pytest.approx(at / FPS)
            assert abs(first - flash) <= tolerance
            assert abs(last + 1 / RATE - (flash + 1 / FPS)) <= tolerance


@pytest.mark.parametrize("name", list(SOUNDS))
def test_ranges_that_meet_join_without_a_gap(files: dict[str, Path], name: str) -> None:
    cuts = [0.0, 0.01, 0.0333, 0.1, 0.19999, 0.25, 1 / 3, 0.77777, 1.49995, 1.6, 1.99, 2.0]
    decoder = AudioVideoDecoder(files[name])
    parts = decoder.get_played_in_ranges(list(pairwise(cuts)))
    whole = decoder.get_played_in_range()
    assert torch.equal(torch.cat([part.samples.data for part in parts], 1), whole.samples.data)
    assert len(whole.frames) == NUM_FRAMES


def test_frames_can_be_resampled(files: dict[str, Path]) -> None:
    clip = AudioVideoDecoder(files["whole"]).get_played_in_range(0.5, 1.5, fps=10)
    expected = VideoDecoder(files["whole"]).get_frames_played_in_range(0.5, 1.5, fps=10)
    assert torch.equal(clip.frames.data, expected.data)
    assert clip.frames.pts_seconds.tolist() == pytest.approx([0.5 + k / 10 for k in range(10)])


def test_the_stream_of_sound_can_be_chosen(tmp_path: Path) -> None:
    path = write(tmp_path / "two.mkv", [20] * 10, numbered(4000), numbered(4000)[::-1].copy())
    for index, expected in [(1, range(800, 1600)), (2, range(3199, 2399, -1))]:
        decoder = AudioVideoDecoder(path, audio_stream_index=index)
        assert decoder.audio.stream_index == index
        assert heard(decoder.get_played_in_range(0.1, 0.2)) == list(expected)


def test_options_reach_the_decoders(files: dict[str, Path]) -> None:
    decoder = AudioVideoDecoder(
        files["part"],
        sample_rate=16_000,
        num_channels=2,
        transforms=[Resize((8, 16))],
        dimension_order="NHWC",
        output_dtype=torch.float32,
        video_stream_index=0,
        audio_stream_index=1,
        num_ffmpeg_threads=1,
    )
    clip = decoder.get_played_in_range(0.0, 0.5)
    assert clip.frames.data.shape == (13, 8, 16, 3)
    assert clip.frames.data.dtype == torch.float32
    assert clip.samples.data.shape == (2, 8000)
    assert clip.samples.sample_rate == 16_000
    assert clip.silent_spans == ((0, 3200),)
    assert (decoder.video.stream_index, decoder.audio.stream_index) == (0, 1)
    with pytest.raises(TypeError, match="colour"):
        AudioVideoDecoder(files["part"], colour=True)  # type: ignore[call-arg]


@settings(max_examples=60)
@given(
    begin=st.floats(-3, 3),
    rate=st.sampled_from([10, 8000, 44_100]),
    num_samples=st.integers(1, 500),
    promised=st.integers(0, 500),
    cut=st.tuples(st.floats(0, 2, exclude_max=True), st.floats(0, 2)),
)
def test_audio_of_range_is_complete_despite_wrong_header(
    both: AudioVideoDecoder,
    begin: float,
    rate: int,
    num_samples: int,
    promised: int,
    cut: tuple[float, float],
) -> None:
    start, stop = min(cut), min(max(cut), min(cut) + 500 / rate)
    # Midway between two samples, floats can round differently than exact arithmetic.
    assume(all(abs((Fraction(t) - Fraction(begin)) * rate % 1 - Fraction(1, 2)) > 1e-6 for t in (start, stop)))
    audio: Any = FormulaSound(num_samples, rate, begin=begin, header_end=begin + (num_samples + promised) / rate)
    both._access = AudioAccess(audio)
    clip = both.get_played_in_range(start, stop)
    wanted = range(exact_offset(start, begin, rate), exact_offset(stop, begin, rate))
    assert numbers_of(clip.samples.data) == [number if 0 <= number < num_samples else None for number in wanted]
    assert_silence_is_told(clip)


@settings(max_examples=60)
@given(
    gaps=st.lists(st.tuples(st.integers(0, 1999), st.integers(2, 900)), min_size=1, max_size=3),
    cut=st.tuples(st.integers(0, 1999), st.integers(1, 2000)).map(sorted),
    behind=st.integers(0, 400),
)
def test_audio_after_a_gap_stays_at_its_time(
    both: AudioVideoDecoder, gaps: list[tuple[int, int]], cut: list[int], behind: int
) -> None:
    missing = {number for first, length in gaps for number in range(first, first + length)}
    audio: Any = FormulaSound(2000 - behind, 1000, header_end=2.0, gaps=missing)
    both._access = AudioAccess(audio)
    clip = both.get_played_in_range(cut[0] / 1000, cut[1] / 1000)
    there = [number if number < 2000 - behind and number not in missing else None for number in range(*cut)]
    assert numbers_of(clip.samples.data) == there
    assert_silence_is_told(clip)


def test_a_gap_in_a_file_is_silence(tmp_path: Path) -> None:
    path = write(tmp_path / "gap.mkv", [20] * NUM_FRAMES, numbered(12_000), gap=(4000, Fraction(1, 2)))
    with AudioVideoDecoder(path) as decoder:
        clip = decoder.get_played_in_range(0.1, 1.9)
        assert heard(clip) == [*range(800, 4000), *[None] * 4000, *range(4000, 11_200)]
        assert clip.silent_spans == ((3200, 7200),)
        assert heard(decoder.get_played_in_range(0.6, 0.9)) == [None] * 2400
        for first, last in ((5603, 9601), (4001, 12_001), (3999, 8003)):
            clip = decoder.get_played_in_range(first / RATE, last / RATE)
            before = range(first, min(4000, last))
            assert heard(clip) == [*before, *[None] * (8000 - max(first, 4000)), *range(4000, last - 4000)]
            assert clip.silent_spans == ((len(before), 8000 - first),)


@pytest.fixture(scope="module")
def both(files: dict[str, Path]) -> AudioVideoDecoder:
    """A decoder whose audio decoder tests can replace."""
    return AudioVideoDecoder(files["whole"])


@pytest.mark.parametrize(
    ("start", "stop", "error", "message"),
    [
        (-0.1, 1.0, OutOfRangeError, "Invalid start seconds: -0.1"),
        (2.0, 2.0, OutOfRangeError, "Invalid start seconds: 2.0"),
        (1.0, 2.1, OutOfRangeError, "Invalid stop seconds: 2.1"),
        (1.0, 0.5, InvalidArgumentError, "less than or equal to stop seconds"),
        (math.nan, 1.0, InvalidArgumentError, "Invalid start seconds: nan"),
        ("early", 1.0, InvalidArgumentError, r"pair of seconds.*'early'"),
    ],
)
def test_ranges_are_those_of_the_video(
    files: dict[str, Path], start: Any, stop: float, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        AudioVideoDecoder(files["whole"]).get_played_in_range(start, stop)


def test_only_pairs_are_accepted(files: dict[str, Path]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"A range must be a pair of seconds.*got 1\.0"):
        AudioVideoDecoder(files["whole"]).get_played_in_ranges([1.0])  # type: ignore[list-item]
    assert AudioVideoDecoder(files["whole"]).get_played_in_ranges([]) == []


def test_video_without_frames_is_not_a_range_error(tmp_path: Path) -> None:
    tone = (1000 * np.sin(np.arange(RATE))).astype(np.int16)
    path = write(tmp_path / "empty.mkv", [], tone)
    with pytest.raises(StreamError, match="no frame"):
        AudioVideoDecoder(path).get_played_in_range(0.0, 0.1)


def test_a_missing_stream_is_an_error_and_leaves_nothing_open(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[VideoDecoder] = []
    monkeypatch.setattr(VideoDecoder, "close", lambda decoder: closed.append(decoder))
    for number, index in enumerate([None, 0, 7]):
        with pytest.raises(StreamError):
            AudioVideoDecoder(files["silent"], audio_stream_index=index)
        assert len(closed) == number + 1
    with pytest.raises(StreamError, match="video"):
        AudioVideoDecoder(files["whole"], video_stream_index=1)
    with pytest.raises(SourceNotFoundError):
        AudioVideoDecoder(tmp_path / "nothing.mp4")


@pytest.mark.parametrize("kind", list(SOURCES))
def test_both_decoders_read_one_source_from_several_threads(files: dict[str, Path], kind: str) -> None:
    expected = AudioVideoDecoder(files["part"]).get_played_in_ranges(RANGES)
    source = SOURCES[kind](files["part"])
    with AudioVideoDecoder(source) as decoder, ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(decoder.get_played_in_range, *pair) for pair in RANGES * 3]
        for call, clip in zip(calls, expected * 3, strict=True):
            assert torch.equal(call.result().samples.data, clip.samples.data)
            assert torch.equal(call.result().frames.data, clip.frames.data)
    if kind.endswith(" file"):
        assert not source.closed
        source.close()


@pytest.mark.parametrize("other", [lambda decoder: pickle.loads(pickle.dumps(decoder)), copy.copy, copy.deepcopy])
def test_a_decoder_can_be_pickled_and_copied(
    files: dict[str, Path], other: Callable[[AudioVideoDecoder], AudioVideoDecoder]
) -> None:
    decoder = AudioVideoDecoder(files["part"], sample_rate=4000)
    expected = decoder.get_played_in_range(0.1, 0.7)
    twin = other(decoder)
    decoder.close()
    clip = twin.get_played_in_range(0.1, 0.7)
    assert torch.equal(clip.samples.data, expected.samples.data)
    assert torch.equal(clip.frames.data, expected.frames.data)
    assert clip.silent_spans == expected.silent_spans == ((0, 400),)


def test_closing_closes_both(files: dict[str, Path]) -> None:
    with AudioVideoDecoder(files["whole"]) as decoder:
        decoder.get_played_in_range(0.0, 0.1)
    for call in (
        lambda: decoder.get_played_in_range(0.0, 0.1),
        lambda: decoder.video.get_frame_played_at(0.0),
        lambda: decoder.audio.get_samples_played_in_range(0.0, 0.1),
    ):
        with pytest.raises(ClosedError):
            call()


def test_printing_names_the_source_and_the_streams(files: dict[str, Path]) -> None:
    decoder = AudioVideoDecoder(files["whole"])
    name = repr(str(files["whole"]))
    assert repr(decoder) == f"AudioVideoDecoder({name}, video_stream_index=0, audio_stream_index=1)"


def test_audio_of_a_call_is_read_at_once(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    read = AudioHandle.read

    def counted(handle: AudioHandle, plan: Any, duration: float | None) -> Any:
        reads.append(plan.last - plan.first)
        return read(handle, plan, duration)

    monkeypatch.setattr(AudioHandle, "read", counted)
    decoder = AudioVideoDecoder(files["part"])
    decoder.get_played_in_ranges([(0.0, 0.5), (1.0, 1.5), (0.25, 0.5)])
    assert reads == [2400, 4000]
    decoder.get_played_in_range(0.0, 2.0)  # beyond both ends
    assert reads == [2400, 4000, 14_400]
