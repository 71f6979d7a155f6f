"""`speech_segments`: probabilities of the original network, known pauses, and odd audio."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

from mediatensor import AudioSamples
from mediatensor.datasets import AudioClips
from mediatensor.decoders import AudioDecoder, VideoDecoder
from mediatensor.encoders import AudioEncoder
from mediatensor.errors import ClosedError, DecodeError, InvalidArgumentError, SourceTypeError, WeightsError
from mediatensor.samplers import SpeechSegment, _speech, speech_segments
from mediatensor.samplers._speech import SpeechWindows
from real_files import TEST_DATA
from spoken_formulas import RATE, vowels

RECORD = Path(__file__).parents[1] / "records" / "speech_probabilities.json"
# The network detects a start within three windows of 32 ms, and an end within five. Both are padded by 30 ms.
TOLERANCE = 0.2

Spans = list[tuple[float, float]]


def as_samples(sound: Any, rate: int = RATE, pts_seconds: float = 0.0) -> AudioSamples:
    data = torch.from_numpy(np.atleast_2d(sound))
    return AudioSamples(data, pts_seconds, data.shape[1] / rate, rate)


def spans_of(segments: list[SpeechSegment]) -> Spans:
    return [(segment.start_seconds, segment.end_seconds) for segment in segments]


def assert_are_near(segments: list[SpeechSegment], expected: Spans) -> None:
    assert len(segments) == len(expected), segments
    assert np.array(spans_of(segments)) == pytest.approx(np.array(expected), abs=TOLERANCE)


def write_pieces(path: Path, sound: Any, pieces: list[tuple[float, float, float]]) -> Path:
    """Write pieces (start in the file, start and stop in ``sound``, in seconds) as PCM with time stamps."""
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("pcm_s16le", rate=RATE, layout="mono")
        for place, start, stop in pieces:
            for first in range(round(start * RATE), round(stop * RATE), 1600):
                part = np.round(sound[None, first : min(first + 1600, round(stop * RATE))] * 32767).astype(np.int16)
                frame = av.AudioFrame.from_ndarray(part, "s16", "mono")
                frame.sample_rate, frame.pts = RATE, round(place * RATE) + first - round(start * RATE)
                container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def test_probabilities_match_the_original_network() -> None:
    record = json.loads(RECORD.read_text())
    sound = torch.from_numpy(vowels([tuple(span) for span in record["spans"]], record["seconds"]))
    expected = np.array(record["probabilities"])
    assert expected.min() < 0.01 < 0.99 < expected.max()
    for num_windows in (1, 7, 960):
        windows = SpeechWindows()
        for block in sound.split(512 * num_windows):
            windows.add(block)
        assert np.array(windows.probabilities()) == pytest.approx(expected, abs=1e-4)


SPANS = [(1.0, 2.5), (3.0, 5.0), (5.3, 6.0), (8.0, 9.5)]


def to_file(name: str, **options: Any) -> Callable[[Path], AudioDecoder]:
    def write(folder: Path) -> AudioDecoder:
        sound = torch.from_numpy(vowels(SPANS, 11.0, rate=48_000)).expand(2, -1)
        AudioEncoder(sound, sample_rate=48_000).to_file(folder / name, **options)
        return AudioDecoder(folder / name, sample_rate=11_025)  # has no effect

    return write


def six_channels(folder: Path) -> AudioSamples:
    """Return speech in one of six channels, and a hum in another channel."""
    voice = vowels(SPANS, 11.0, rate=96_000)
    others = np.zeros((5, len(voice)), np.float32)
    others[0] = 0.002 * np.sin(2 * np.pi * 50 * np.arange(len(voice)) / 96_000)
    return as_samples(np.vstack([others, voice]), 96_000)


@pytest.mark.parametrize(
    ("make", "begin"),
    [
        pytest.param(lambda folder: as_samples(vowels(SPANS, 11.0)), 0.0, id="samples"),
        pytest.param(lambda folder: as_samples(vowels(SPANS, 11.0, rate=8_000), 8_000, 100.0), 100.0, id="late 8 kHz"),
        pytest.param(lambda folder: as_samples(vowels(SPANS, 11.0).astype(np.float16)), 0.0, id="half precision"),
        pytest.param(six_channels, 0.0, id="six channels"),
        pytest.param(to_file("talk.flac"), 0.0, id="flac"),
        pytest.param(to_file("talk.mp3", sample_rate=44_100), 0.0, id="mp3"),
        pytest.param(
            lambda folder: AudioDecoder(write_pieces(folder / "late.mka", vowels(SPANS, 11.0), [(7.5, 0, 11)])),
            7.5,
            id="late file",
        ),
    ],
)
def test_segments_have_the_known_pauses(make: Callable[[Path], Any], begin: float, tmp_path: Path) -> None:
    audio = make(tmp_path)
    segments = speech_segments(audio)
    assert_are_near(segments, [(start + begin, stop + begin) for start, stop in SPANS])
    assert all(0.5 < segment.probability <= 1 for segment in segments)
    assert segments == speech_segments(audio)


def test_segments_continue_across_blocks(tmp_path: Path) -> None:
    """A decoder reads blocks of 30.72 s. Silence and speech extend beyond the ends of blocks."""
    spans = [(1.0, 3.0), (29.9, 31.6), (45.0, 46.0), (60.0, 61.3), (62.0, 63.0)]
    sound = vowels(spans, 64.0)
    path = write_pieces(tmp_path / "long.wav", sound, [(0, 0, 64)])
    segments = speech_segments(AudioDecoder(path))
    assert_are_near(segments, spans)
    whole = SpeechWindows()
    whole.add(AudioDecoder(path).get_all_samples().data[0])
    for segment in segments:
        first, last = round(segment.start_seconds / 0.032 + 1), round(segment.end_seconds / 0.032 - 1)
        mean = float(np.mean(whole.probabilities()[first:last]))
        assert segment.probability == pytest.approx(mean, abs=1e-4)


@pytest.mark.parametrize("gap", [0.5, 20.0, 100.0])
def test_gaps_in_time_stamps_count_as_silence(gap: float, tmp_path: Path) -> None:
    sound = vowels([(1.0, 3.0), (5.0, 7.0)], 8.0)
    path = write_pieces(tmp_path / "gap.mka", sound, [(0, 0, 4), (4 + gap, 4, 8)])
    assert_are_near(speech_segments(AudioDecoder(path)), [(1.0, 3.0), (5.0 + gap, 7.0 + gap)])


def test_options_change_the_segments() -> None:
    samples = as_samples(vowels(SPANS, 11.0))
    assert_are_near(speech_segments(samples, min_pause_seconds=0.6), [(1.0, 6.0), (8.0, 9.5)])
    assert_are_near(speech_segments(samples, min_speech_seconds=1.2), [SPANS[0], SPANS[1], SPANS[3]])
    bare = spans_of(speech_segments(samples, pad_seconds=0.0))
    padded = spans_of(speech_segments(samples, pad_seconds=0.05))
    assert padded == [pytest.approx((start - 0.05, stop + 0.05)) for start, stop in bare]
    wide = spans_of(speech_segments(samples, pad_seconds=60.0))
    middles = [(stop + start) / 2 for (_, stop), (start, _) in pairwise(bare)]
    assert wide == [pytest.approx(pair) for pair in zip([0.0, *middles], [*middles, 11.0], strict=True)]
    few, many = (speech_segments(samples, threshold=threshold) for threshold in (0.97, 0.3))
    assert sum(one.duration_seconds for one in few) < sum(one.duration_seconds for one in many) - 0.2


def noise(num_samples: int) -> Any:
    return 0.1 * np.random.default_rng(0).standard_normal(num_samples).astype(np.float32)


def chords(num_samples: int) -> Any:
    t = np.arange(num_samples) / RATE
    pitches = 220 * 2 ** (np.array([0, 5, 7, 0])[(t // 0.5).astype(int) % 4, None] / 12) * [1, 1.25, 1.5]
    return (0.1 * np.sin(2 * np.pi * np.cumsum(pitches, 0) / RATE).sum(1) * np.exp(-4 * (t % 0.5))).astype(np.float32)


@pytest.mark.parametrize("make", [lambda length: np.zeros(length, np.float32), noise, chords])
def test_audio_without_speech_has_no_segments(make: Callable[[int], Any]) -> None:
    assert speech_segments(as_samples(make(20 * RATE))) == []


@pytest.mark.parametrize("num_samples", [0, 1, 100, 511])
def test_audio_shorter_than_a_window_has_no_segments(num_samples: int) -> None:
    assert speech_segments(as_samples(np.zeros((2, num_samples), np.float32), 44_100)) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -1e30])
def test_samples_that_are_not_audio_do_not_hide_the_speech_after_them(value: float) -> None:
    sound = vowels(SPANS, 11.0)
    sound[100:2000] = value
    assert_are_near(speech_segments(as_samples(sound)), SPANS)


def test_segments_do_not_depend_on_settings_of_torch() -> None:
    samples = as_samples(vowels(SPANS, 11.0))
    expected = speech_segments(samples)
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.autocast("cpu", torch.bfloat16), torch.device("meta"):
            assert speech_segments(samples) == expected
    finally:
        torch.set_default_dtype(dtype)


def test_segments_of_real_speech_match_silero() -> None:
    """The times come from Silero's own rule, which counts pauses as one window longer."""
    path = TEST_DATA / "media" / "whisper__jfk.flac"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    segments = speech_segments(AudioDecoder(path), min_pause_seconds=0.15)
    expected = [(0.322, 2.27), (3.266, 4.446), (5.378, 7.678), (8.162, 10.622)]
    assert np.array(spans_of(segments)) == pytest.approx(np.array(expected), abs=0.033)


def test_segments_are_rows_of_a_dataset(tmp_path: Path) -> None:
    path = write_pieces(tmp_path / "talk.wav", vowels(SPANS, 11.0), [(0, 0, 11)])
    rows = [{"path": str(path), **asdict(segment)} for segment in speech_segments(AudioDecoder(path))]
    clips = AudioClips(rows, seconds_per_clip=0.6, seed=3)
    assert len(clips) == len(SPANS)
    for row, (start, stop) in enumerate(SPANS):
        audio = clips[row].audio
        assert start - TOLERANCE <= audio.pts_seconds <= stop + TOLERANCE - 0.6
        assert audio.data.square().mean() > 1e-4


def test_bad_audio_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_pieces(tmp_path / "talk.wav", vowels(SPANS, 11.0), [(0, 0, 11)])
    for wrong in (str(path), path, np.zeros(RATE), torch.zeros(1, RATE), VideoDecoder):
        with pytest.raises(SourceTypeError, match="AudioDecoder"):
            speech_segments(wrong)  # type: ignore[arg-type]
    whole_numbers = AudioSamples(torch.zeros(1, 100, dtype=torch.int16), 0.0, 0.1, 1000)
    with pytest.raises(InvalidArgumentError, match=r"must be floats between -1 and 1 \(got torch.int16\)"):
        speech_segments(whole_numbers)
    with pytest.raises(InvalidArgumentError, match="16000"):
        speech_segments(as_samples(np.zeros(100, np.float32), 4))
    decoder = AudioDecoder(path)
    decoder.close()
    with pytest.raises(ClosedError):
        speech_segments(decoder)
    flac = tmp_path / "cut.flac"
    AudioEncoder(torch.from_numpy(noise(4 * RATE))[None], sample_rate=RATE).to_file(flac)
    flac.write_bytes(flac.read_bytes()[:-200])
    with pytest.raises(DecodeError):
        speech_segments(AudioDecoder(flac))
    (tmp_path / "weights.npz").write_bytes(b"PK")
    _speech._load_weights.cache_clear()
    monkeypatch.setattr(_speech, "WEIGHTS_FILE", tmp_path / "weights.npz")
    with pytest.raises(WeightsError, match=r"weights\.npz is damaged"):
        speech_segments(as_samples(np.zeros(RATE, np.float32)))
