"""`AudioReader` without an engine: sound as columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mediatensor.datasets import AudioClips
from mediatensor.distributed import AudioReader, clip_rows
from wav_files import wav


def not_media(folder: Path) -> str:
    path = folder / "broken.wav"
    path.write_bytes(b"no sound")
    return str(path)


def ramp(path: Path, num_samples: int, rate: int = 8000) -> str:
    """A WAV file of one channel whose k-th sample is k / 32768."""
    path.write_bytes(wav("pcm_s16le", np.arange(num_samples)[:, None] / 32768, rate))
    return str(path)


def test_whole_audio_files_are_read(tmp_path: Path) -> None:
    broken = not_media(tmp_path)
    paths = [ramp(tmp_path / "a.wav", 4000), broken, ramp(tmp_path / "b.wav", 1000, 16_000)]
    result = AudioReader()({"path": paths})
    assert list(result) == [
        *("path", "audio", "pts_seconds", "duration_seconds", "sample_rate", "source", "error", "n_replaced")
    ]
    assert [sound.shape for sound in result["audio"]] == [(1, 4000), (0, 0), (1, 1000)]
    assert all(sound.dtype == np.float32 for sound in result["audio"])
    assert np.array_equal(result["audio"][0][0] * 32768, np.arange(4000))
    assert np.array_equal(result["duration_seconds"], [0.5, np.nan, 0.0625], equal_nan=True)
    assert np.array_equal(result["pts_seconds"], [0.0, np.nan, 0.0], equal_nan=True)
    assert (result["sample_rate"].tolist(), result["n_replaced"].tolist()) == ([8000, 0, 16_000], [0, 0, 0])
    assert [bool(error) for error in result["error"]] == [False, True, False]


def test_clips_of_audio_match_a_dataset_and_count_padding(tmp_path: Path) -> None:
    broken = not_media(tmp_path)
    paths = [ramp(tmp_path / "long.wav", 8000), ramp(tmp_path / "short.wav", 1000), broken]
    rows = clip_rows(paths, 2)
    reader = AudioReader(seconds_per_clip=0.25, sample_rate=8000, num_channels=1, clip_shape=(1, 2000), seed=4)
    result = reader({"path": [row["path"] for row in rows], "row": [row["row"] for row in rows]})
    dataset = AudioClips(paths, rows_per_file=2, seconds_per_clip=0.25, sample_rate=8000, num_channels=1, seed=4)
    assert (result["audio"].shape, result["audio"].dtype) == ((6, 1, 2000), np.float32)
    for row in range(4):
        expected = dataset[row].audio  # type: ignore[union-attr]
        assert expected is not None
        assert np.array_equal(result["audio"][row], expected.data)
        assert result["pts_seconds"][row] == expected.pts_seconds
    first = result["audio"][0, 0] * 32768
    assert np.array_equal(first, first[0] + np.arange(2000))
    assert result["n_replaced"].tolist() == [0, 0, 1000, 1000, 0, 0]
    assert not result["audio"][2, 0, 1000:].any()
    assert not result["audio"][4:].any()
    assert [bool(error) for error in result["error"]] == [False] * 4 + [True] * 2
