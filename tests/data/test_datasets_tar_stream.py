"""Samples of shards, and of other rows, that are read forward."""

from __future__ import annotations

import bz2
import gc
import gzip
import lzma
import os
import pickle
import random
import tarfile
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.utils.data

from mediatensor.datasets import DataLoader, Item, Sample, Skipped, TarItems, TarSamples, VideoRecipe, as_items
from mediatensor.datasets._rows import tar_samples
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import (
    InvalidArgumentError,
    OpenError,
    ReadError,
    SourceNotFoundError,
    SourceTypeError,
    TooManyFailuresError,
)
from mediatensor.samplers import clips_at_random_indices, clips_at_regular_indices
from range_server import serve
from tar_files import TextRecipe, number_shards, tar_bytes, texts
from training_set import make_videos

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

SIZES = (3, 0, 5, 1, 4)
ALL = sorted(f"{shard}-{position}" for shard, size in enumerate(SIZES) for position in range(size))
WHOLE_VIDEO = VideoRecipe(partial(clips_at_regular_indices, num_clips=1, num_frames_per_clip=24))


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return number_shards(tmp_path_factory.mktemp("numbers"), SIZES)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_videos(tmp_path_factory.mktemp("videos"), 3)


@pytest.fixture(scope="module")
def video_tar(videos: list[Path]) -> bytes:
    return tar_bytes(
        part
        for number, video in enumerate(videos)
        for part in ((f"{number}.mp4", video.read_bytes()), (f"{number}.cls", b"%d" % number), (f"{number}.npy", b"?"))
    )


def check_videos(samples: TarSamples, videos: list[Path]) -> None:
    given = list(samples)
    assert [sample.label for sample in given] == [0, 1, 2]
    for sample, video in zip(given, videos, strict=True):
        torch.testing.assert_close(sample.frames.data, VideoDecoder(video)[:], rtol=0, atol=0)


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress])
def test_frames_match_plain_files(tmp_path: Path, videos: list[Path], video_tar: bytes, compress: Any) -> None:
    (tmp_path / "shard").write_bytes(compress(video_tar))
    check_videos(TarSamples(tmp_path / "shard", WHOLE_VIDEO), videos)


def test_a_pipe_is_read_once_and_forward(tmp_path: Path, videos: list[Path], video_tar: bytes) -> None:
    pipe = tmp_path / "pipe.tar"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(video_tar,), daemon=True)
    writer.start()
    check_videos(TarSamples(pipe, WHOLE_VIDEO), videos)
    writer.join(timeout=30)
    assert not writer.is_alive()


def test_a_url_is_read(tmp_path: Path, videos: list[Path], video_tar: bytes) -> None:
    (tmp_path / "shard-0.tar").write_bytes(video_tar)
    (tmp_path / "shard-1.tar.gz").write_bytes(gzip.compress(tar_bytes([])))
    with serve(tmp_path) as server:
        check_videos(TarSamples(f"{server.url}/shard-{{0.tar,1.tar.gz}}", WHOLE_VIDEO), videos)
        missing = list(TarSamples(f"{server.url}/missing.tar", WHOLE_VIDEO, on_error="skip"))
    assert [sample.failures[0].source for sample in missing] == [f"{server.url}/missing.tar"]
    assert "does not exist" in missing[0].failures[0].message


def test_labels_and_columns_are_those_of_tar_items(tmp_path: Path) -> None:
    members = [
        ("a.mp4", b"A"),
        ("a.json", b'{"label": 3, "x": [1]}'),
        ("b.mp4", b"B"),
        ("b.txt", b"t"),
        ("b.cls", b"4"),
    ]
    path = tmp_path / "columns.tar"
    path.write_bytes(tar_bytes(members))
    for sample, item in zip(TarSamples(path, TextRecipe()), TarItems(path), strict=True):
        assert (sample.label, sample.source) == (item.label, item.name)
        assert {**item.extra, "text": sample.source[-5].upper(), "drawn": sample.extra["drawn"]} == sample.extra
    named = TarSamples(path, TextRecipe(), label=lambda item: f"class {item.label}")
    assert [sample.label for sample in named] == ["class 3", "class 4"]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("num_workers", [0, 1, 2, 4])
def test_every_sample_once_whatever_the_workers(tmp_path: Path, num_workers: int, compressed: bool) -> None:
    shards = number_shards(tmp_path, SIZES, compressed=compressed)
    samples = TarSamples(shards, TextRecipe(), shuffle_buffer=3)
    # Torch's own loader as well.
    for loader_type in (DataLoader, torch.utils.data.DataLoader):
        loader = loader_type(samples, batch_size=2, num_workers=num_workers, collate_fn=list)
        assert sorted(texts(loader)) == ALL


def test_every_sample_once_whatever_the_ranks(numbers: list[Path]) -> None:
    for num_ranks in (2, 3, 7):
        given = []
        for rank in range(num_ranks):
            samples = TarSamples(numbers, TextRecipe(), shuffle_buffer=2, rank=rank, num_ranks=num_ranks)
            given += texts(DataLoader(samples, batch_size=2, num_workers=rank % 2, collate_fn=list))
        assert sorted(given) == ALL


def test_random_numbers_depend_only_on_seed_epoch_and_place(numbers: list[Path]) -> None:
    def drawn(epoch: int = 0, seed: int = 0, num_workers: int = 0, **options: Any) -> dict[str, int]:
        samples = TarSamples(numbers, TextRecipe(), seed=seed, **options)
        loader = DataLoader(samples, batch_size=3, num_workers=num_workers, collate_fn=list)
        loader.set_epoch(epoch)
        return {sample.extra["text"]: sample.extra["drawn"] for batch in loader for sample in batch}

    reference = drawn()
    assert sorted(reference) == ALL
    assert len(set(reference.values())) == len(ALL)
    assert drawn(num_workers=2, shuffle_buffer=4) == reference
    assert drawn(epoch=1) != reference
    assert drawn(epoch=1, num_workers=2) == drawn(epoch=1)
    assert drawn(seed=1) != reference


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_order_differs_in_each_epoch_and_is_reproducible(numbers: list[Path], num_workers: int) -> None:
    def epochs(seed: int = 0) -> list[list[str]]:
        samples = TarSamples(numbers, TextRecipe(), shuffle_buffer=4, seed=seed)
        loader = DataLoader(samples, batch_size=2, num_workers=num_workers, collate_fn=list)
        return [texts(loader) for _ in range(2)]

    first, second = epochs()
    assert first != second
    assert sorted(first) == sorted(second) == ALL
    assert ALL not in (first, second)
    assert epochs() == [first, second]
    assert epochs(seed=1)[0] != first


def test_without_a_shuffle_buffer_samples_come_in_order(numbers: list[Path]) -> None:
    assert texts(TarSamples(numbers, TextRecipe())) == ALL


def test_stream_batches_match_map_style_datasets(tmp_path: Path, video_tar: bytes) -> None:
    (tmp_path / "shard.tar").write_bytes(video_tar)
    recipe = VideoRecipe(partial(clips_at_random_indices, num_frames_per_clip=4))
    loader = DataLoader(TarSamples(tmp_path / "shard.tar", recipe), batch_size=2, num_workers=1)
    first, second = loader
    assert first.frames.data.shape == (2, 4, 3, 32, 48)
    assert first.label.tolist() == [0, 1]
    assert second.source == [f"{tmp_path}/shard.tar/2.mp4"]
    assert first.timings[0].worker == 0
    assert "decode" in first.timings[0].stage_seconds
    assert len(loader.failures) == 0


# Errors


def test_a_bad_sample_follows_the_error_policy(tmp_path: Path) -> None:
    path = tmp_path / "bad.tar"
    path.write_bytes(tar_bytes([("0.mp4", b"0-0"), ("1.mp4", b"bad"), ("2.mp4", b"0-2")]))
    loader = DataLoader(TarSamples(path, TextRecipe(), on_error="skip"), batch_size=3, num_workers=1, collate_fn=list)
    (batch,) = loader
    assert [type(sample) for sample in batch] == [Sample, Skipped, Sample]
    assert batch[1].failures[0].source == f"{path}/1.mp4"
    with pytest.raises(OpenError, match="is bad"):
        list(TarSamples(path, TextRecipe()))
    path.write_bytes(tar_bytes([(f"{number}.mp4", b"bad") for number in range(5)]))
    with pytest.raises(TooManyFailuresError):
        list(TarSamples(path, TextRecipe(), on_error="skip", max_consecutive_failures=3))


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_damaged_shard_gives_what_is_before_the_damage_and_one_failure(
    tmp_path: Path, num_workers: int, compressed: bool
) -> None:
    shards = number_shards(tmp_path, (40, 2), compressed=compressed)
    whole = shards[0].read_bytes()
    shards[0].write_bytes(whole[: len(whole) // 2])
    samples = TarSamples(shards, TextRecipe(), on_error="skip")
    loader = DataLoader(samples, batch_size=4, num_workers=num_workers, collate_fn=list)
    given = [sample for batch in loader for sample in batch]
    read = [text for text in texts(given) if text.startswith("0-")]
    assert read == [f"0-{position}" for position in range(len(read))]
    assert 10 < len(read) < 30
    assert {"1-0", "1-1"} < set(texts(given))
    (failed,) = [sample for sample in given if isinstance(sample, Skipped)]
    assert [(failure.source, failure.error) for failure in failed.failures] == [(str(shards[0]), "ReadError")]
    assert "damaged" in failed.failures[0].message
    with pytest.raises(ReadError, match="damaged"):
        list(TarSamples(shards, TextRecipe()))


def test_a_function_of_labels_need_not_expect_damage(tmp_path: Path) -> None:
    path = tmp_path / "cut.tar"
    whole = tar_bytes(
        part
        for number in range(3)
        for part in ((f"{number}.mp4", b"%d" % number), (f"{number}.json", b'{"level": %d}' % number))
    )
    path.write_bytes(whole[: whole.index(b"2.mp4") + 700])

    def level(item: Item) -> Any:
        return item.extra["level"]

    *samples, failed = TarSamples(path, TextRecipe(), label=level, on_error="skip")
    assert [sample.label for sample in samples if isinstance(sample, Sample)] == [0, 1]
    assert isinstance(failed, Skipped)
    assert "damaged" in failed.failures[0].message
    assert [item.label for item in as_items(path, kind="video", label=level)] == [0, 1, None]
    with pytest.raises(KeyError):
        list(TarSamples(path, TextRecipe(), label=lambda item: item.extra["Level"], on_error="skip"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"text" * 500, "no header of a file"),
        (lzma.compress(b"0" * 5000), "compressed with xz"),
        (gzip.compress(tar_bytes([("a.mp4", b"0")]))[:-20], "end-of-stream marker"),
    ],
    ids=["empty", "text", "xz", "cut gzip"],
)
def test_files_that_are_not_archives_are_one_failure(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "a.tar").write_bytes(data)
    (tmp_path / "b.tar").write_bytes(tar_bytes([("b.mp4", b"good")]))
    failed, good = TarSamples(tmp_path / "{a,b}.tar", TextRecipe(), on_error="skip")
    assert isinstance(failed, Skipped)
    assert failed.failures[0].source == f"{tmp_path}/a.tar"
    assert message in failed.failures[0].message
    assert texts([good]) == ["good"]


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_both_ways_of_reading_agree_on_damaged_files(tmp_path: Path, form: int) -> None:
    choose = random.Random(form)
    names = [f"{'long/' * 30 * (number % 2)}{number}.{suffix}" for number in range(5) for suffix in ("mp4", "cls")]
    whole = tar_bytes([(name, b"%d" % choose.randrange(1000)) for name in names], format=form)
    path = tmp_path / "shard.tar"
    num_damaged = 0
    for _ in range(150):
        data = bytearray(whole[: choose.randrange(1, len(whole))] if choose.random() < 0.3 else whole)
        for _ in range(choose.randrange(4)):
            data[choose.randrange(len(data))] = choose.randrange(256)
        path.write_bytes(data)
        items = TarItems(path)
        samples = list(TarSamples(path, TextRecipe(), on_error="skip", max_consecutive_failures=100))
        sources = [one.source if isinstance(one, Sample) else one.failures[0].source for one in samples]
        assert sources == [item.name for item in items]
        assert len(sources) <= len(names) + 1
        damages = [source for source in sources if source == str(path)]
        assert damages in ([], sources[-1:])
        num_damaged += len(damages)
    assert num_damaged > 50


def test_a_file_over_the_limit_is_passed_over_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_samples, "MAX_MEDIA_MEMBER_BYTES", 100)
    path = tmp_path / "large.tar"
    path.write_bytes(tar_bytes([("0.mp4", b"0" * 101), ("1.mp4", b"1" * 100)]))
    failed, good = TarSamples(path, TextRecipe(), on_error="skip")
    assert "101 bytes, more than the limit of 100" in failed.failures[0].message
    assert texts([good]) == ["1" * 100]


def test_arguments_are_checked(tmp_path: Path, numbers: list[Path]) -> None:
    with pytest.raises(SourceNotFoundError):
        TarSamples(tmp_path / "missing.tar", TextRecipe())
    with pytest.raises(InvalidArgumentError, match="no other rows"):
        TarSamples(numbers, TextRecipe(), on_error="replace")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="shuffle_buffer"):
        TarSamples(numbers, TextRecipe(), shuffle_buffer=0)
    with pytest.raises(InvalidArgumentError, match="kind"):
        TarSamples(numbers, TextRecipe(), kind="film")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="num_ranks"):
        TarSamples(numbers, TextRecipe(), rank=2, num_ranks=2)
    with pytest.raises(SourceTypeError):
        TarSamples(3, TextRecipe())  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="only once"):
        TarSamples((row for row in ()), TextRecipe())
    samples = TarSamples(numbers, TextRecipe())
    for batch_size in (None, 0, 1.5, True):
        with pytest.raises(InvalidArgumentError, match="batch_size must be a positive whole number"):
            DataLoader(samples, batch_size)
    assert len(list(DataLoader(samples, np.int64(13), collate_fn=list))) == 1
    for options in ({"shuffle": True}, {"seed": 0}, {"rank": 0, "num_ranks": 1}, {"bucket_by": len}):
        with pytest.raises(InvalidArgumentError, match=f"{next(iter(options))}.* cannot be given"):
            DataLoader(samples, **options)


def test_streams_can_be_pickled(numbers: list[Path]) -> None:
    samples = TarSamples(numbers, TextRecipe(), shuffle_buffer=2)
    samples.set_epoch(3)
    copy = pickle.loads(pickle.dumps(samples))
    assert copy.epoch == 3
    assert texts(copy) == texts(samples)


def test_nothing_is_left_open(numbers: list[Path], tmp_path: Path) -> None:
    gc.collect()  # what other tests left
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else pytest.skip("needs /proc")
    for compressed in (False, True):
        stream = iter(TarSamples(number_shards(tmp_path, (20,), compressed=compressed), TextRecipe()))
        next(stream)
        del stream
    assert len(os.listdir("/proc/self/fd")) == before
