"""The life of a WAV decoder: closing, copying, threads, other processes, files that change."""

from __future__ import annotations

import copy
import gc
import io
import multiprocessing
import os
import pickle
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from file_sources import BareFile
from mediatensor.decoders import WavDecoder
from mediatensor.errors import ClosedError, OpenError, ReadError
from places import needs_proc, num_open_files
from range_server import serve
from wav_files import noise, wav

START_METHODS = [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()]
# Decoders of video are spawned in each run, and copies by `pickle` are tested here.
METHODS = [pytest.param(m, marks=[pytest.mark.slow] if m == "spawn" else []) for m in START_METHODS]
SOUND = wav("pcm_s16le", noise(200_000, 2))
WHOLE = WavDecoder(SOUND).get_all_samples().data
# Ranges of a quarter of a second, throughout the file.
STARTS = [20.0, 0.125, 12.5, 3.0, 3.0, 24.5]


def part(start: float) -> torch.Tensor:
    return WHOLE[:, int(start * 8000) : int(start * 8000) + 2000]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "sound.wav"
    path.write_bytes(SOUND)
    return path


class Parts(Dataset[torch.Tensor]):
    """A dataset with one decoder, as users write it."""

    def __init__(self, decoder: WavDecoder, starts: list[float]) -> None:
        self.decoder = decoder
        self.starts = starts

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, i: int) -> torch.Tensor:
        return self.decoder.get_samples_played_in_range(self.starts[i], self.starts[i] + 0.25).data


def test_close_and_with(path: Path) -> None:
    for source in (path, SOUND):
        with WavDecoder(source) as decoder:
            decoder.get_samples_played_in_range(0, 1)
        with pytest.raises(ClosedError, match="closed"):
            decoder.get_samples_played_in_range(0, 1)
        assert decoder.metadata.num_channels == 2, "known values stay readable"
        decoder.close()


@needs_proc
def test_files_are_released_by_close_by_collection_and_by_errors(path: Path, tmp_path: Path) -> None:
    gc.collect()  # closes files of other tests that are not collected yet
    before = num_open_files()
    decoder = WavDecoder(path)
    decoder.get_all_samples()
    assert num_open_files() == before + 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        decoder.close()
    assert num_open_files() == before
    assert not caught, "closed, not left to collection"
    decoder = WavDecoder(path)
    del decoder
    gc.collect()
    assert num_open_files() == before
    broken = tmp_path / "broken.wav"
    broken.write_bytes(SOUND[:30])
    for _ in range(3):
        with pytest.raises(OpenError):
            WavDecoder(broken)
    assert num_open_files() == before


@pytest.mark.parametrize("through", [copy.copy, copy.deepcopy, lambda decoder: pickle.loads(pickle.dumps(decoder))])
@pytest.mark.parametrize("of", [Path, Path.read_bytes], ids=["path", "bytes"])
def test_copies_decode_the_same(through: Any, of: Callable[[Path], Any], path: Path) -> None:
    decoder = WavDecoder(of(path))
    other = through(decoder)
    assert torch.equal(other.get_all_samples().data, WHOLE)
    assert other.metadata == decoder.metadata
    other.close()
    assert torch.equal(decoder.get_all_samples().data, WHOLE), "a copy has its own handles"


# One process is enough, because each new one imports everything first.
@pytest.mark.parametrize("method", METHODS)
def test_dataloader_workers(method: str, path: Path) -> None:
    num_workers = 2 if method == "fork" else 1
    decoder = WavDecoder(path)
    decoder.get_samples_played_in_range(1, 2)
    loader = DataLoader(Parts(decoder, STARTS), num_workers=num_workers, multiprocessing_context=method, timeout=120)
    for start, samples in zip(STARTS, loader, strict=True):
        assert torch.equal(samples[0], part(start))
    assert torch.equal(decoder.get_all_samples().data, WHOLE), "the parent's handle still works"


@pytest.mark.skipif("fork" not in START_METHODS, reason="no fork here")
@pytest.mark.parametrize("kind", ["buffered", "memory"])
def test_file_objects_after_a_fork(kind: str, path: Path) -> None:
    with path.open("rb") if kind == "buffered" else io.BytesIO(SOUND) as file:
        decoder = WavDecoder(file)
        loader = DataLoader(Parts(decoder, STARTS * 4), num_workers=2, multiprocessing_context="fork", timeout=120)
        for start, samples in zip(STARTS * 4, loader, strict=True):
            assert torch.equal(samples[0], part(start))
        assert torch.equal(decoder.get_all_samples().data, WHOLE)


def bare(path: Path) -> BareFile:
    return BareFile(io.BytesIO(path.read_bytes()), most=5000)


@pytest.mark.parametrize("of", [Path, Path.read_bytes, bare], ids=["path", "bytes", "file object"])
def test_threads_share_a_decoder(of: Callable[[Path], Any], path: Path) -> None:
    decoder = WavDecoder(of(path))
    starts = [float(start) / 8 for start in torch.randperm(190, generator=torch.Generator().manual_seed(0))]
    with ThreadPoolExecutor(4) as executor:
        parts = list(executor.map(Parts(decoder, starts).__getitem__, range(len(starts))))
    for start, samples in zip(starts, parts, strict=True):
        assert torch.equal(samples, part(start))


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
