"""The benchmarks of sound, speech, encoding and scenes: as commands, on tiny data, they run with the right results.

That of images is in test_benchmarks_images.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.media import audio as audio_benchmark
from benchmarks.media import sounds, speech_segments

from benchmark_runs import run_quickly


@pytest.mark.slow
def test_sound(tmp_path: Path) -> None:
    printed, document = run_quickly(
        "media.audio", tmp_path, "--formats", "mp3", "wav", "--clips", str(tmp_path / "clips")
    )
    assert {"CPU", "av", "thread budget"} <= set(document["machine"])
    ours = [row for row in document["rows"] if row["library"].startswith("mediatensor")]
    assert len(ours) == 5 + 8, "three scenarios: 2 + 2 + 1 ways, and 3 + 3 + 2 with WavDecoder"
    for row in ours:
        assert row["identical"] == row["compared"] == row["num_items"] > 0, row
        assert row["samples_missing"] == 0
        assert 0 < row["wall_median"] == row["wall_seconds"][0]
    (floor,) = (row for row in document["rows"] if row["library"].startswith("PyAV") and row["clip"].startswith("mp3"))
    assert floor["compared"] == 0
    rivals = {row["library"] for row in document["rows"]} & {"torchcodec", "soundfile"}
    assert {ratio["rival"] for ratio in document["ratios"]} == rivals
    assert printed == (tmp_path / "audio.md").read_text(encoding="utf-8") + "\n"


@pytest.mark.slow
def test_speech(tmp_path: Path) -> None:
    printed, document = run_quickly("media.speech", tmp_path)
    ours = [row for row in document["results"] if row["way"].startswith("mediatensor")]
    assert {row["clip"].partition(",")[0] for row in ours} == {"wav", "flac", "mp3", "aac", "opus"}
    for row in ours:
        assert row["samples_missing"] == 0, row
        assert row["largest_difference"] < 1e-2, row
    assert "times real time" in printed


@pytest.mark.slow
def test_encoding(tmp_path: Path) -> None:
    printed, document = run_quickly("media.encoding", tmp_path)
    rows = document["rows"]
    ours = [row for row in rows if row["encoder"] == "mediatensor"]
    assert len(ours) == 8, "four of video and four of sound"
    assert all(row["psnr_decibels"] > 20 and row["num_bytes"] > 0 for row in ours)
    for row in rows:
        (beside,) = (other for other in ours if other["case"] == row["case"])
        assert row["psnr_decibels"] < beside["psnr_decibels"] + 3 or row["psnr_decibels"] == float("inf")
    assert "| mediatensor |" in printed


@pytest.mark.slow
def test_scenes(tmp_path: Path) -> None:
    printed, document = run_quickly("media.scenes", tmp_path)
    ours = [row for row in document["results"] if row["way"] == "mediatensor"]
    assert len(ours) == 4, "a row for each film"
    for row in ours:
        assert (row["num_frames"], row["num_cuts"], row["found"], row["extra"]) == (50, 1, 1, 0), row
    assert "| PyAV, decoding only |" in printed


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng speaks the sentences")
def test_speech_segments(tmp_path: Path) -> None:
    printed, document = run_quickly("media.speech_segments", tmp_path)
    ours = {row["sound"]: row for row in document["scores"] if row["way"] == "mediatensor"}
    assert ours["clean"]["f1"] > 0.9
    assert ours["white noise, 5 dB"]["f1"] > 0.9
    assert ours["music alone"]["false_per_minute"] < 5
    assert len(document["speed"]) == 4
    assert "| min_pause_seconds | 0.1 |" in printed


def test_scores_of_speech() -> None:
    truth = [(1.0, 2.0), (3.0, 4.0)]
    score = speech_segments.score("", "", [(0.9, 2.1), (8.0, 9.0)], truth, 10 * speech_segments.RATE)
    assert (score.precision, score.recall) == (pytest.approx(1 / 2.2), 0.5)
    assert (score.start_error, score.end_error) == (pytest.approx(-100), pytest.approx(100))
    assert score.edges_missed == 0.5
    assert score.false_per_minute == pytest.approx(60 * 1.2 / 8)
    frames = speech_segments.frames_of(truth, 1000)
    assert speech_segments.spans_of(frames) == truth


def test_comparison_tells_wrong_sound() -> None:
    sound = torch.rand(2, 1000, generator=torch.Generator().manual_seed(0)) - 0.5
    changed = sound.clone()
    changed[1, 7] += 0.25
    identical, items, missing, largest, snr = audio_benchmark.compared([sound, changed[:, :999]], [sound, sound])
    assert (identical, items, missing) == (1, 2, 1)
    assert largest == pytest.approx(0.25)
    signal = float(2 * sound.square().sum() - sound[:, 999].square().sum())
    assert snr == pytest.approx(10 * torch.log10(torch.tensor(signal / 0.25**2)).item(), abs=1e-3)
    assert audio_benchmark.compared([], [])[1] == 0


def test_samples_of_a_linear_decode_are_those_of_the_file(tmp_path: Path) -> None:
    """Compared with the bytes of a WAV file after its header."""
    clip = sounds.SoundClip("wav", "pcm_s16le", "wav", 8000, seconds=2)
    path = sounds.make_sounds([clip], tmp_path)[clip]
    written = torch.frombuffer(bytearray(path.read_bytes()[-4 * clip.num_samples :]), dtype=torch.int16)
    expected = written.reshape(-1, 2).T / 32768
    whole, middle = sounds.linear_samples(path, clip, [(0, 16_000), (1500, 9000)])
    assert torch.equal(whole, expected)
    assert torch.equal(middle, expected[:, 1500:9000])
    assert 0.01 < whole.std() < 0.5
    assert sounds.begin_seconds(path) == 0


def test_no_target_is_reached_with_wrong_samples() -> None:
    def row(library: str, wall: float, scenario: str, *accuracy: Any) -> audio_benchmark.SoundRow:
        return audio_benchmark.SoundRow(
            "clip", scenario, library, 1, (wall,), (wall,), wall, wall, wall, wall, *accuracy
        )

    def is_met(scenario: str, *accuracy: Any, wall: float = 1.0) -> bool | None:
        rows = [row("mediatensor", wall, scenario, *accuracy), row("torchcodec", 3.5, scenario, 1, 1, 0, 0.0, None)]
        (ratio,) = audio_benchmark.ratios(rows)
        assert ratio.wall_ratio == pytest.approx(3.5 / wall)
        return ratio.is_met

    right, close, short, wrong = (1, 1, 0, 0.0, None), (0, 1, 0, 0.1, 25.0), (0, 1, 5, 0.0, None), (0, 1, 0, 1.0, 3.0)
    ranges, whole = audio_benchmark.RANDOM, audio_benchmark.WHOLE
    assert [is_met(ranges, *accuracy) for accuracy in (right, close, short, wrong)] == [True, True, False, False]
    assert [is_met(whole, *accuracy) for accuracy in (right, close, short, wrong)] == [True, False, False, False]
    assert not is_met(ranges, *right, wall=1.25)
