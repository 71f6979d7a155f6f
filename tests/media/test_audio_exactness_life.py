"""Audio decoders: sources, copies, processes, threads, closing, and errors."""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import multiprocessing
import pickle
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import media_audio
from audio_exactness import Truth, assert_range, find_truth
from file_sources import SOURCES
from mediatensor.decoders import AudioDecoder
from mediatensor.encoders import AudioEncoder
from mediatensor.errors import (
    ClosedError,
    DecodeError,
    InvalidArgumentError,
    MediaTensorError,
    OpenError,
    OutOfRangeError,
    SourceNotFoundError,
    SourceTypeError,
    StreamError,
)
from places import needs_proc, num_open_files
from range_server import serve

# `WavDecoder` and `VideoDecoder` are sent to new processes in the same way.
START_METHODS = [
    pytest.param(method, marks=[pytest.mark.slow] if method == "spawn" else [])
    for method in ("fork", "spawn")
    if method in multiprocessing.get_all_start_methods()
]
_RANGES = [(1.2, 1.4), (0.0, 0.1), (1.9, 2.0), (1.2, 1.4), (0.6, 0.9)]


@pytest.fixture(scope="module", params=["flac", "mp3_vbr", "aac_m4a", "opus_ogg", "pcm_s16_wav"])
def truth(request: pytest.FixtureRequest, sound_folder: Path) -> Truth:
    return find_truth(request.param, sound_folder)


@pytest.fixture(scope="module")
def flac(sound_folder: Path) -> Truth:
    return find_truth("flac", sound_folder)


class Pieces(Dataset[torch.Tensor]):
    """A dataset with one decoder, as users write it."""

    def __init__(self, decoder: AudioDecoder) -> None:
        self.decoder = decoder

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> torch.Tensor:
        return self.decoder.get_samples_played_in_range(0.2 * i + 0.05, 0.2 * i + 0.25).data


class Unseekable(io.RawIOBase):
    def __init__(self, data: bytes) -> None:
        self._inner = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(size)

    def seekable(self) -> bool:
        return False


@pytest.mark.parametrize("kind", list(SOURCES))
def test_sources(kind: str, truth: Truth) -> None:
    with AudioDecoder(SOURCES[kind](truth.path)) as decoder:
        for start, stop in _RANGES:
            start, stop = start + truth.whole.pts_seconds, stop + truth.whole.pts_seconds
            assert_range(truth, decoder.get_samples_played_in_range(start, stop), start, stop)
        assert np.array_equal(decoder.get_all_samples().data.numpy(), truth.data)


def test_url(truth: Truth) -> None:
    with serve(truth.path.parent) as server, AudioDecoder(f"{server.url}/{truth.path.name}") as decoder:
        start, stop = truth.seconds(50_000), truth.seconds(52_000)
        assert_range(truth, decoder.get_samples_played_in_range(start, stop), start, stop)
        assert np.array_equal(decoder.get_all_samples().data.numpy(), truth.data)


def test_results_do_not_share_memory(truth: Truth) -> None:
    with truth.open() as decoder:
        begin = truth.seconds(0)
        first = decoder.get_samples_played_in_range(begin, begin + 0.5)
        first.data.fill_(7)
        whole = decoder.get_all_samples()
        assert np.array_equal(whole.data.numpy(), truth.data)
        whole.data.fill_(7)
        one, other = decoder.get_samples_played_in_ranges([(begin, begin + 0.5)] * 2)
        one.data.fill_(7)
        assert_range(truth, other, begin, begin + 0.5)


def test_close_and_with(flac: Truth) -> None:
    with flac.open() as decoder:
        decoder.get_samples_played_in_range(0.0, 0.1)
    for call in (
        decoder.get_all_samples,
        lambda: decoder.get_samples_played_in_range(0.0, 0.1),
        lambda: decoder.get_samples_played_in_ranges([(0.0, 0.1)]),
        lambda: next(decoder.chunks()),
    ):
        with pytest.raises(ClosedError):
            call()
    assert decoder.metadata.sample_rate == 44100, "known values stay readable"
    decoder.close()


@needs_proc
def test_files_are_released(flac: Truth, tmp_path: Path) -> None:
    broken = tmp_path / "broken.flac"
    broken.write_bytes(b"fLaC" + bytes(100))
    assert flac.whole.data.shape
    gc.collect()
    before = num_open_files()
    decoder = flac.open()
    decoder.get_samples_played_in_range(0.0, 0.1)
    decoder.close()
    assert num_open_files() == before
    decoder = flac.open()
    decoder.get_samples_played_in_range(0.0, 0.1)
    del decoder
    for _ in range(5):
        with pytest.raises(ValueError, match=r".+"):
            AudioDecoder(broken)
        with pytest.raises(StreamError):
            AudioDecoder(flac.path, stream_index=7)
    gc.collect()
    assert num_open_files() == before


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("through", [copy.copy, copy.deepcopy, lambda decoder: pickle.loads(pickle.dumps(decoder))])
def test_copies_decode_the_same(through: Any, used: bool, truth: Truth) -> None:
    decoder = truth.open(sample_rate=16000, num_channels=1)
    expected = truth.open(sample_rate=16000, num_channels=1).get_samples_played_in_range(1.0, 1.5)
    if used:
        decoder.get_samples_played_in_range(0.1, 0.2)
    other = through(decoder)
    assert torch.equal(other.get_samples_played_in_range(1.0, 1.5).data, expected.data)
    other.close()
    assert torch.equal(decoder.get_samples_played_in_range(1.0, 1.5).data, expected.data), "a copy has its own handles"
    decoder.close()


@pytest.mark.parametrize("method", START_METHODS)
def test_dataloader_workers(method: str, sound_folder: Path) -> None:
    truth = find_truth("mp3_vbr", sound_folder)
    pieces = Pieces(truth.open())
    expected = [pieces[i] for i in range(len(pieces))]  # so that a fork meets open handles
    loader = DataLoader(pieces, batch_size=None, num_workers=2, multiprocessing_context=method, timeout=120)
    for got, each in zip(loader, expected, strict=True):
        assert torch.equal(got, each)
    assert torch.equal(pieces[3], expected[3]), "the parent's handles still work"


@pytest.mark.skipif("fork" not in START_METHODS, reason="no fork here")
@pytest.mark.parametrize("kind", ["buffered file", "bytesio"])
def test_file_objects_after_a_fork(kind: str, sound_folder: Path) -> None:
    truth = find_truth("flac", sound_folder)
    pieces = Pieces(AudioDecoder(SOURCES[kind](truth.path)))
    expected = [pieces[i] for i in range(len(pieces))]
    loader = DataLoader(pieces, batch_size=None, num_workers=3, multiprocessing_context="fork", timeout=120)
    assert all(torch.equal(got, each) for got, each in zip(loader, expected, strict=True))
    assert torch.equal(pieces[3], expected[3])


def test_threads_share_a_decoder(truth: Truth) -> None:
    draw = random.Random(0)
    starts = [truth.seconds(draw.randrange(truth.num_samples - 3000)) for _ in range(48)]
    with truth.open() as decoder, ThreadPoolExecutor(8) as executor:
        width = 2500 / truth.linear.rate
        calls = [(start, start + width) for start in starts]
        for (start, stop), got in zip(
            calls, executor.map(lambda call: decoder.get_samples_played_in_range(*call), calls), strict=True
        ):
            assert_range(truth, got, start, stop)


@pytest.mark.parametrize("num_threads", [0, 1, 4])
def test_codec_threads_do_not_matter(num_threads: int, truth: Truth) -> None:
    with truth.open(num_ffmpeg_threads=num_threads) as decoder:
        assert np.array_equal(decoder.get_all_samples().data.numpy(), truth.data)


# Errors


@pytest.mark.parametrize("num_threads", [None, 0, 1, 2, 3, 8])
def test_damage_at_the_end_is_reported_with_any_number_of_threads(num_threads: int | None, tmp_path: Path) -> None:
    path = tmp_path / "sound.flac"
    # Long enough for several threads by default.
    noise = torch.rand(1, 96_000, generator=torch.Generator().manual_seed(0)) - 0.5
    AudioEncoder(noise, sample_rate=8000).to_file(path)
    with AudioDecoder(path, num_ffmpeg_threads=num_threads) as decoder:
        assert decoder.get_all_samples().data.shape == (1, 96_000)
    path.write_bytes(path.read_bytes()[:-200])
    with AudioDecoder(path, num_ffmpeg_threads=num_threads) as decoder, pytest.raises(DecodeError):
        decoder.get_all_samples()


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match=r"nothing\.wav"):
        AudioDecoder(tmp_path / "nothing.wav")


@pytest.mark.parametrize("content", [b"", b"hello, world\n" * 100, b"fLaC" + bytes(200), b"RIFF\xff\xff\xff\x7fWAVE"])
def test_not_media(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "not_media"
    path.write_bytes(content)
    with pytest.raises((OpenError, StreamError)):
        AudioDecoder(path).get_all_samples()


@pytest.mark.parametrize("source", [None, 3, 1.5, object(), ["a"]])
def test_not_a_source(source: Any) -> None:
    with pytest.raises(SourceTypeError):
        AudioDecoder(source)


def test_text_files_and_streams_without_seek(sound_folder: Path) -> None:
    path = media_audio.make("pcm_s16_wav", sound_folder)
    with path.open("r", encoding="latin-1") as file, pytest.raises(SourceTypeError):
        AudioDecoder(file)
    with pytest.raises((SourceTypeError, OSError)):
        AudioDecoder(Unseekable(path.read_bytes())).get_all_samples()


def test_streams_that_are_not_sound(sound_folder: Path) -> None:
    with pytest.raises(StreamError, match=r"audio"):
        AudioDecoder(media_audio.make("no_sound_mp4", sound_folder))
    path = media_audio.make("two_streams_mp4", sound_folder)
    with pytest.raises(StreamError, match=r"0"):
        AudioDecoder(path, stream_index=0)
    with pytest.raises(StreamError, match=r"40"):
        AudioDecoder(path, stream_index=40)
    with pytest.raises((StreamError, InvalidArgumentError)):
        AudioDecoder(path, stream_index=-2)


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_channels": 0},
        {"num_channels": -1},
        {"num_channels": 15},
        {"num_channels": 10**6},
        {"sample_rate": 0},
        {"sample_rate": -1},
        {"sample_rate": 10**9},
        {"num_ffmpeg_threads": -1},
    ],
)
def test_impossible_arguments(arguments: dict[str, int], flac: Truth) -> None:
    (value,) = arguments.values()
    with pytest.raises(InvalidArgumentError, match=str(value)):
        flac.open(**arguments).get_samples_played_in_range(0.0, 0.1)


@pytest.mark.parametrize(
    ("start", "stop"), [(1.0, 0.5), (float("nan"), 1.0), (0.0, float("nan")), (float("inf"), None), (0.0, float("inf"))]
)
def test_impossible_ranges(start: float, stop: float | None, flac: Truth) -> None:
    with flac.open() as decoder:
        with pytest.raises(InvalidArgumentError):
            decoder.get_samples_played_in_range(start, stop)
        with pytest.raises(InvalidArgumentError):
            decoder.get_samples_played_in_ranges([(0.0, 0.1), (start, stop)])


def test_empty_ranges_and_lists(flac: Truth) -> None:
    with flac.open() as decoder:
        assert decoder.get_samples_played_in_ranges([]) == []
        got = decoder.get_samples_played_in_range(0.5, 0.5)
        assert got.data.shape == (2, 0)
        assert got.duration_seconds == 0
        with pytest.raises(OutOfRangeError, match="1000"):
            decoder.get_samples_played_in_range(1000.0)
        with pytest.raises(OutOfRangeError):
            decoder.get_samples_played_in_ranges([(0.0, 0.1), (1000.0, 1001.0)])


def test_defaults_are_the_whole(flac: Truth) -> None:
    with flac.open() as decoder:
        assert np.array_equal(decoder.get_samples_played_in_range().data.numpy(), flac.data)


def test_sizes_in_headers_are_not_believed(sound_folder: Path) -> None:
    """If a header states hours for two seconds of audio, the existing samples are returned."""
    data = bytearray(media_audio.make("pcm_s16_wave_module", sound_folder).read_bytes())
    size = int.from_bytes(data[40:44], "little")
    for at in (4, 40):
        data[at : at + 4] = (0xFFFFFF00).to_bytes(4, "little")
    with AudioDecoder(bytes(data)) as decoder:
        assert decoder.get_all_samples().data.shape == (2, size // 4)
        assert decoder.get_samples_played_in_range(1.0, 5000.0).data.shape == (2, size // 4 - 44100)
        with pytest.raises(OutOfRangeError):
            decoder.get_samples_played_in_range(4000.0, 5000.0)


@pytest.mark.parametrize("name", list(media_audio.DAMAGED_CLIPS))
def test_damaged_bytes_never_crash(name: str, sound_folder: Path) -> None:
    """Decode or raise an error of this library, after more random damage in files that are damaged already."""
    data = bytearray(media_audio.make(name, sound_folder).read_bytes())
    draw = random.Random(name)
    for _ in range(4):
        for _ in range(30):
            data[draw.randrange(len(data))] = draw.randrange(256)
        with contextlib.suppress(MediaTensorError), AudioDecoder(bytes(data)) as decoder:
            decoder.get_samples_played_in_range(0.5, 0.6)
            decoder.get_all_samples()
