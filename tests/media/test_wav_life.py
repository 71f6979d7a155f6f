"""WAV decoders whose source changes, is closed, is remote, or is not a file."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import torch

from mediatensor.decoders import WavDecoder
from mediatensor.errors import OpenError, ReadError
from range_server import serve
from wav_files import noise, wav

SOUND = wav("pcm_s16le", noise(200_000, 2))
WHOLE = WavDecoder(SOUND).get_all_samples().data


def part(start: float) -> torch.Tensor:
    return WHOLE[:, int(start * 8000) : int(start * 8000) + 2000]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "sound.wav"
    path.write_bytes(SOUND)
    return path


def test_results_do_not_change_with_the_source() -> None:
    source = torch.frombuffer(bytearray(SOUND), dtype=torch.uint8)
    decoder = WavDecoder(source)
    samples = decoder.get_all_samples().data
    source[-1000:] = 0
    assert torch.equal(samples, WHOLE)
    assert (decoder.get_all_samples().data[:, -250:] == 0).all(), "the tensor is not copied"


def test_a_file_that_is_cut_short_after_opening(path: Path) -> None:
    decoder = WavDecoder(path)
    os.truncate(path, len(SOUND) // 2)
    assert torch.equal(decoder.get_samples_played_in_range(1.0, 1.25).data, part(1.0))
    with pytest.raises(ReadError, match="cut short"):
        decoder.get_samples_played_in_range(20.0, 21.0)
    with pytest.raises(ReadError, match="cut short"):
        decoder.get_all_samples()
    assert WavDecoder(path).metadata.duration_seconds == pytest.approx(12.5, abs=0.01)


def test_copy_detects_replaced_file(path: Path) -> None:
    pickled = pickle.dumps(WavDecoder(path))
    path.write_bytes(wav("pcm_u8", noise(300_000, 2)))
    with pytest.raises(ReadError, match="has changed"):
        pickle.loads(pickled).get_all_samples()
    path.unlink()
    with pytest.raises(OpenError, match=r"sound\.wav"):
        pickle.loads(pickled).get_all_samples()


def test_a_closed_file_object(path: Path) -> None:
    with path.open("rb") as file:
        decoder = WavDecoder(file)
    with pytest.raises(ReadError, match="closed"):
        decoder.get_all_samples()


def test_a_url_is_read_by_ranges(tmp_path: Path) -> None:
    sound = wav("pcm_s16le", noise(1_500_000, 2))
    (tmp_path / "long.wav").write_bytes(sound)
    whole = WavDecoder(sound).get_all_samples().data
    with serve(tmp_path) as server:
        decoder = WavDecoder(f"{server.url}/long.wav")
        part = decoder.get_samples_played_in_range(100.0, 101.0).data
        assert torch.equal(part, whole[:, 800_000:808_000])
        assert server.num_bytes < len(sound) // 4
        assert torch.equal(pickle.loads(pickle.dumps(decoder)).get_all_samples().data, whole)
        decoder.close()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.wav")
    with pytest.raises(OpenError, match="any position"):
        WavDecoder(tmp_path / "pipe.wav")
