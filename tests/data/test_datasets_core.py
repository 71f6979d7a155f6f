"""Rows that depend on nothing but their specification: whoever reads them, and how often."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from torch import Tensor

from mediatensor import FrameBatch
from mediatensor.datasets import (
    AudioClips,
    DataLoader,
    DocumentPages,
    Item,
    MediaDataset,
    Recipe,
    RowBatches,
    RowKey,
    Sample,
    Shuffle,
    Skipped,
    VideoAudioClips,
    VideoClips,
    VideoTextClips,
    WordCrops,
    stack,
)
from mediatensor.decoders import AudioDecoder, VideoDecoder
from mediatensor.errors import (
    InvalidArgumentError,
    OpenError,
    OutOfRangeError,
    SourceNotFoundError,
    TooManyFailuresError,
)
from mediatensor.samplers import (
    audio_clips_at_random_timestamps,
    audio_clips_at_regular_timestamps,
    audio_video_clips_at_random_timestamps,
    clips_at_random_indices,
    clips_at_random_timestamps,
    clips_at_regular_indices,
    clips_at_regular_timestamps,
    clips_at_scenes,
    sample_frames,
)
from mediatensor.transforms import LogMelSpectrogram, RandomCrop, Resize, ToFloat
from training_set import FPS, count_openings, linear_decode, make_videos


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_videos(tmp_path_factory.mktemp("videos"), 6)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory, videos: list[Path]) -> list[Path]:
    """Files that cannot be read: not media, cut off, empty, missing."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "text.mp4").write_text("not a video")
    (folder / "cut.mp4").write_bytes(videos[0].read_bytes()[:600])
    (folder / "empty.mp4").touch()
    return [folder / "text.mp4", folder / "cut.mp4", folder / "empty.mp4", folder / "missing.mp4"]


def noisy(frames: FrameBatch) -> Tensor:
    """A transform that draws from all three generators."""
    noise = torch.randint(0, 2, frames.data.shape, dtype=torch.uint8)
    return frames.data + noise + np.random.randint(0, 2) + random.randint(0, 2)


def dataset(paths: list[Path], **options: Any) -> VideoClips:
    options = {"num_frames_per_clip": 4, "num_indices_between_frames": 2, "rows_per_file": 3, "seed": 7, **options}
    return VideoClips(paths, transform=noisy, decoder_options={"transforms": [RandomCrop((16, 20))]}, **options)


def bits_by_row(loader: Any) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for batch in loader:
        for row, data, times in zip(
            batch.row.tolist(), batch.frames.data, batch.frames.pts_seconds.numpy(), strict=True
        ):
            assert row not in found
            found[row] = data.contiguous().numpy().tobytes() + times.tobytes()
    return found


# One row


def test_a_clip_matches_a_linear_decode(videos: list[Path]) -> None:
    rows = VideoClips(videos, num_frames_per_clip=4, num_indices_between_frames=2, rows_per_file=5)
    for row in range(len(rows)):
        sample = rows[row]
        assert isinstance(sample, Sample)
        assert sample.frames is not None
        assert sample.frame_indices is not None
        assert sample.source == str(videos[row // 5])
        assert (sample.row, sample.epoch) == (row, 0)
        assert torch.equal(sample.frames.data, linear_decode(videos[row // 5])[sample.frame_indices])
        assert torch.diff(sample.frame_indices).tolist() == [2, 2, 2]
        assert sample.frames.pts_seconds.tolist() == pytest.approx((sample.frame_indices / FPS).tolist())
        assert sample.effective_fps == pytest.approx(FPS / 2)


def test_rows_epochs_and_seeds_draw_differently(videos: list[Path]) -> None:
    def firsts(**options: Any) -> list[int]:
        rows = VideoClips(videos, num_frames_per_clip=1, rows_per_file=20, **options)
        rows.set_epoch(options.get("seed", 0))
        return [int(rows[row].frame_indices[0]) for row in range(20)]  # type: ignore[union-attr, index]

    first = firsts()
    assert len(set(first)) > 5
    assert first == firsts() != firsts(seed=1)
    rows = VideoClips(videos, num_frames_per_clip=1, rows_per_file=20)
    rows.set_epoch(1)
    assert first != [int(rows[row].frame_indices[0]) for row in range(20)]  # type: ignore[union-attr, index]


def test_random_rows_are_uniform_over_the_video(videos: list[Path]) -> None:
    """Chi-squared of 24 equally likely first frames, 23 degrees of freedom."""
    rows = VideoClips(videos[:1], num_frames_per_clip=1, rows_per_file=1200)
    samples = rows.__getitems__(range(1200))
    counts = np.bincount([int(sample.frame_indices[0]) for sample in samples], minlength=24)  # type: ignore[union-attr, index]
    assert ((counts - 50) ** 2 / 50).sum() < 59.0  # exceeded by chance less than once in 10,000


def test_a_spec_gives_the_same_anywhere(videos: list[Path]) -> None:
    rows = dataset(videos)
    for row in (0, 4, 17):
        spec = pickle.loads(pickle.dumps(rows.spec(row, epoch=3)))
        alone, again, keyed = spec.load(), spec.load(), rows[RowKey(row, 3)]
        assert torch.equal(alone.frames.data, again.frames.data)
        assert torch.equal(alone.frames.data, keyed.frames.data)  # type: ignore[union-attr]
        assert (alone.row, alone.epoch, alone.source) == (row, 3, str(videos[row // 3]))


def test_a_row_does_not_depend_on_the_types_of_its_numbers(videos: list[Path]) -> None:
    rows = VideoClips(videos, num_frames_per_clip=2, seed=np.int16(5))
    row, epoch, visit = np.int64(1), np.int32(2), np.uint8(3)
    starts = [
        float(sample.frames.pts_seconds[0])
        for sample in (
            rows.spec(1, 2, 3).load(),
            rows.spec(row, epoch, visit).load(),
            rows[RowKey(row, epoch, visit)],  # type: ignore[arg-type]
        )
    ]
    assert len(set(starts)) == 1
    counts = np.arange(len(videos), dtype=np.uint8)
    assert len(VideoClips(videos, rows_per_file=counts)) == counts.sum()  # type: ignore[arg-type]
    for wrong in ((1, -1), (1, 0.5), (1, 0, -1)):
        with pytest.raises(InvalidArgumentError, match="must be a whole number"):
            rows.spec(*wrong)  # type: ignore[arg-type]


def test_reading_leaves_the_generators_alone(videos: list[Path]) -> None:
    rows = dataset(videos)

    def draws() -> tuple[float, float, float]:
        return torch.rand(()).item(), np.random.random(), random.random()

    torch.manual_seed(0), np.random.seed(0), random.seed(0)
    expected = draws()
    torch.manual_seed(0), np.random.seed(0), random.seed(0)
    rows[0]
    assert draws() == expected


def test_any_sampler_gives_clips_with_labels(videos: list[Path]) -> None:
    sampler = partial(clips_at_random_timestamps, num_frames_per_clip=3, seconds_between_frames=0.4)
    rows = VideoClips(videos, sampler, label=lambda item: Path(item.name).stem)
    sample = rows[2]
    assert sample.frames.data.shape == (3, 3, 32, 48)  # type: ignore[union-attr]
    assert sample.label == "002"  # type: ignore[union-attr]
    assert sample.effective_fps == pytest.approx(2.5)  # type: ignore[union-attr]

    regular = partial(clips_at_regular_indices, num_clips=5, num_frames_per_clip=2)
    with pytest.raises(InvalidArgumentError, match="keep_clip_dimension"):
        VideoClips(videos, regular)[0]
    several = VideoClips(videos, regular, keep_clip_dimension=True)[0]
    assert several.frames.data.shape == (5, 2, 3, 32, 48)  # type: ignore[union-attr]
    assert several.frame_indices.shape == (5, 2)  # type: ignore[union-attr]


def test_random_transforms_of_the_decoder_draw_for_each_row(videos: list[Path]) -> None:
    """A crop's position shows in the rows above the blue half's end and differs although the decoder is the same."""
    rows = VideoClips(
        videos[:1], num_frames_per_clip=1, rows_per_file=30, decoder_options={"transforms": [RandomCrop((16, 16))]}
    )
    samples = rows.__getitems__(range(30))
    heights = {int((sample.frames.data[0, 2, :, 0] > 100).sum()) for sample in samples}  # type: ignore[union-attr]
    assert len(heights) > 5


def test_transforms_that_do_not_fit_are_errors(videos: list[Path]) -> None:
    with pytest.raises(InvalidArgumentError, match="times"):
        VideoClips(videos, transform=lambda frames: frames.data[:3])[0]
    with pytest.raises(InvalidArgumentError, match="FrameBatch or a tensor"):
        VideoClips(videos, transform=lambda frames: "no")[0]  # type: ignore[arg-type, return-value]


def test_rows_out_of_range_are_refused(videos: list[Path]) -> None:
    rows = VideoClips(videos)
    assert rows.spec(-1).row == 5
    for row in (6, -7):
        with pytest.raises(OutOfRangeError, match=f"row {row}"):
            rows[row]


@pytest.mark.parametrize(
    "options",
    [
        {"rows_per_file": 0},
        {"rows_per_file": [1, 2]},
        {"rows_per_file": 1.5},
        {"rows_per_file": True},
        {"on_error": "ignore"},
        {"max_open_files": 0},
        {"max_open_files": "many"},
        {"max_consecutive_failures": 0},
    ],
    ids=str,
)
def test_bad_arguments_are_refused(videos: list[Path], options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        VideoClips(videos, **options)


# Workers

CONTEXTS = [(1, "fork"), (4, "fork"), pytest.param(1, "forkserver", marks=pytest.mark.slow), (1, "spawn")]


@pytest.mark.parametrize(("num_workers", "context"), CONTEXTS)
def test_workers_give_the_same_bits(videos: list[Path], broken: list[Path], num_workers: int, context: str) -> None:
    rows = dataset([*videos, *broken[:1]], on_error="replace")
    expected = bits_by_row(DataLoader(rows, 4, shuffle=True))
    assert sorted(expected) == list(range(len(rows)))
    rows[0]  # so that a fork finds a decoder open
    # Workers that are not forked import everything again: they persist for all epochs.
    options = {"multiprocessing_context": context, "persistent_workers": context != "fork"}
    loader = DataLoader(rows, 4, shuffle=True, num_workers=num_workers, **options)
    assert bits_by_row(loader) == expected
    assert bits_by_row(loader) != expected  # another epoch
    loader.set_epoch(0)
    assert bits_by_row(loader) == expected


def test_plain_indices_follow_set_epoch_in_running_workers(videos: list[Path]) -> None:
    rows = dataset(videos)
    loader = torch.utils.data.DataLoader(rows, 3, collate_fn=stack, num_workers=2, persistent_workers=True)
    first = bits_by_row(loader)
    rows.set_epoch(1)
    second = bits_by_row(loader)
    rows.set_epoch(0)
    assert bits_by_row(loader) == first != second


def test_grouping_of_rows_changes_nothing(videos: list[Path]) -> None:
    rows = dataset(videos)
    one_by_one = {row: rows[row].frames.data.contiguous().numpy().tobytes() for row in range(18)}  # type: ignore[union-attr]
    for shuffle, batch_size in ((Shuffle(rows_together=3), 6), (Shuffle(window=6), 5), (True, 18)):
        for batch in DataLoader(rows, batch_size, shuffle=shuffle):
            for row, data in zip(batch.row.tolist(), batch.frames.data, strict=True):
                assert data.contiguous().numpy().tobytes() == one_by_one[row]


def test_files_are_opened_once_and_kept_within_the_bound(videos: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    opened = count_openings(monkeypatch)
    rows = VideoClips(videos, num_frames_per_clip=2, rows_per_file=4, max_open_files=3)
    rows.__getitems__(range(12))
    assert len(opened) == 3
    rows.__getitems__(range(12))
    assert len(opened) == 3
    rows.__getitems__(range(24))
    assert len(opened) == 6  # the three that were open, and three more


class _RandomFrame:
    """One random frame; counts the frames that were decoded."""

    def __init__(self) -> None:
        self.decoded: list[int] = []

    def draw(self, decoder: Any) -> int:
        return int(torch.randint(len(decoder), ()))

    def __call__(self, decoder: Any) -> FrameBatch:
        first = self.draw(decoder)
        self.decoded.append(first)
        return decoder.get_frames_at([first])  # type: ignore[no-any-return]


class _RandomFrameWithPosition(_RandomFrame):
    def first_position(self, decoder: Any) -> float:
        return self.draw(decoder)


def test_rows_of_one_file_are_read_in_order_of_a_samplers_positions(videos: list[Path]) -> None:
    """So that each group of pictures is decoded once, going forward. A sampler without positions still works."""
    with_positions, without = _RandomFrameWithPosition(), _RandomFrame()
    frames = []
    for sampler in (with_positions, without):
        samples = VideoClips(videos[:1], sampler, rows_per_file=10).__getitems__(range(10))
        frames.append([int(sample.frame_indices[0]) for sample in samples])  # type: ignore[union-attr, index]
    assert frames[0] == frames[1] == without.decoded
    assert with_positions.decoded == sorted(without.decoded) != without.decoded


@pytest.mark.parametrize(
    "sampler",
    [
        partial(clips_at_random_indices, num_frames_per_clip=2),
        partial(clips_at_random_timestamps, num_frames_per_clip=2, seconds_between_frames=0.1),
    ],
)
def test_rows_are_read_in_order_of_the_positions_of_our_samplers(
    videos: list[Path], monkeypatch: pytest.MonkeyPatch, sampler: Any
) -> None:
    begins = []
    original = VideoClips([videos[0]]).recipe.read.__func__  # type: ignore[attr-defined]

    def recording(self: Any, opened: Any, item: Any, part: int) -> Sample:
        sample: Sample = original(self, opened, item, part)
        begins.append(float(sample.frames.pts_seconds[0]))  # type: ignore[union-attr]
        return sample

    rows = VideoClips(videos[:1], sampler, rows_per_file=10)
    expected = [rows[row].frames.pts_seconds[0] for row in range(10)]  # type: ignore[union-attr]
    monkeypatch.setattr(type(rows.recipe), "read", recording)
    samples = rows.__getitems__(range(10))
    assert begins == sorted(begins)
    assert [sample.frames.pts_seconds[0] for sample in samples] == expected != begins  # type: ignore[union-attr]


# Random numbers of a row


def _draw_everywhere(frames: Any) -> FrameBatch:
    drawn = torch.tensor([float(torch.rand(())), np.random.random(), random.random()], dtype=torch.float64)
    return FrameBatch(torch.zeros(3, 3, 1, 1), drawn, drawn)


def _global_sampler(decoder: Any) -> FrameBatch:
    return clips_at_random_indices(decoder, num_frames_per_clip=4)


def test_a_row_draws_the_numbers_of_seeded_global_generators(videos: list[Path]) -> None:
    """Whether a sampler draws from its row or, as a user's function, from the global generators."""
    options = {"transforms": [RandomCrop((16, 16))]}
    for sampler in (partial(clips_at_random_indices, num_frames_per_clip=4), _global_sampler):
        rows = VideoClips(videos, sampler, rows_per_file=3, transform=_draw_everywhere, decoder_options=options)
        for row in (0, 7):
            spec, sample = rows.spec(row), rows[row]
            torch.manual_seed(spec.random_seed)
            np.random.seed(spec.random_seed & 0xFFFFFFFF)
            random.seed(spec.random_seed)
            with VideoDecoder(spec.item.source, transforms=[RandomCrop((16, 16))]) as decoder:
                clip = _global_sampler(decoder)[0]
            assert torch.equal(sample.frame_indices, (clip.pts_seconds * FPS).round().long())  # type: ignore[union-attr]
            expected = [float(torch.rand(())), np.random.random(), random.random()]
            assert sample.frames.pts_seconds.tolist() == expected  # type: ignore[union-attr]


def test_threads_decode_at_the_same_time(videos: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows meet within decoding, which they cannot do if one waits for the other."""
    meeting = threading.Barrier(2, timeout=30)
    original = VideoDecoder.get_frames_at

    def meet(self: VideoDecoder, indices: Any) -> FrameBatch:
        meeting.wait()
        return original(self, indices)

    rows = VideoClips(videos, num_frames_per_clip=2, transform=_draw_everywhere)
    expected = [rows[row].frames.pts_seconds for row in range(4)]  # type: ignore[union-attr]
    monkeypatch.setattr(VideoDecoder, "get_frames_at", meet)
    with ThreadPoolExecutor(2) as threads:
        times = list(threads.map(lambda row: rows[row].frames.pts_seconds, range(4)))  # type: ignore[union-attr]
    assert all(map(torch.equal, times, expected))


# Ranks


def _read_as_rank(rank: int, num_ranks: int, store: str, paths: list[Path], queue: Any) -> None:
    torch.distributed.init_process_group("gloo", f"file://{store}", rank=rank, world_size=num_ranks)
    try:
        queue.put((rank, bits_by_row(DataLoader(dataset(paths), 4, shuffle=True, num_workers=1))))
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")
def test_two_ranks_of_torch_distributed_share_rows(videos: list[Path], tmp_path: Path) -> None:
    context = torch.multiprocessing.get_context("fork")  # a new Python would import everything again
    queue = context.SimpleQueue()
    arguments = (2, str(tmp_path / "store"), videos, queue)
    processes = [context.Process(target=_read_as_rank, args=(rank, *arguments)) for rank in range(2)]
    for process in processes:
        process.start()
    parts = dict(queue.get() for _ in processes)
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert parts[0].keys().isdisjoint(parts[1])
    assert {**parts[0], **parts[1]} == bits_by_row(DataLoader(dataset(videos), 4, shuffle=True))


# Resuming


@pytest.mark.parametrize("num_given", [0, 1, 3])
@pytest.mark.parametrize(("num_workers", "new_workers"), [(0, 2), (2, 0), (2, 4)])
def test_resuming_in_the_middle_of_an_epoch(
    videos: list[Path], num_given: int, num_workers: int, new_workers: int
) -> None:
    loader = DataLoader(dataset(videos), 4, shuffle=True)
    expected = [bits_by_row(loader), bits_by_row(loader)]

    loader = DataLoader(
        dataset(videos), 4, shuffle=True, num_workers=num_workers, prefetch_factor=4 if num_workers else None
    )
    batches = iter(loader)
    before = bits_by_row([next(batches) for _ in range(num_given)])
    state = pickle.loads(pickle.dumps(loader.state_dict()))
    del batches

    other = DataLoader(dataset(videos), 4, shuffle=True, num_workers=new_workers)
    other.load_state_dict(state)
    after = bits_by_row(other)
    assert before.keys().isdisjoint(after)
    assert {**before, **after} == expected[0]
    assert bits_by_row(other) == expected[1]


def test_state_between_epochs_resumes(videos: list[Path]) -> None:
    loader = DataLoader(dataset(videos), 4, shuffle=True)
    bits_by_row(loader)
    other = DataLoader(dataset(videos), 4, shuffle=True)
    other.load_state_dict(loader.state_dict())
    assert bits_by_row(other) == bits_by_row(loader)
    assert other.epoch == loader.epoch == 2


def test_leaving_an_epoch_begins_another(videos: list[Path]) -> None:
    """A training loop with a fixed number of steps per epoch must not read the same first rows again and again."""
    loader = DataLoader(dataset(videos), 4, shuffle=True)
    rows = [next(iter(loader)).row.tolist() for _ in range(3)]
    assert rows[0] != rows[1] != rows[2]
    assert loader.epoch == 2


@pytest.mark.parametrize("num_workers", [0, 2])
def test_torchdata_stateful_dataloader_resumes(videos: list[Path], num_workers: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="needs torchdata")
    rows = dataset(videos)
    whole = bits_by_row(DataLoader(rows, 4, shuffle=True))

    def make() -> Any:
        batches = RowBatches(rows, 4, shuffle=True)
        return stateful.StatefulDataLoader(rows, batch_sampler=batches, collate_fn=stack, num_workers=num_workers)

    loader = make()
    iterator = iter(loader)
    before = bits_by_row([next(iterator), next(iterator)])
    state = loader.state_dict()
    other = make()
    other.load_state_dict(state)
    after = bits_by_row(other)
    assert before.keys().isdisjoint(after)
    assert {**before, **after} == whole


# Broken files


@pytest.mark.parametrize("num_workers", [0, 2])
def test_on_error_skip_skips_rows(videos: list[Path], broken: list[Path], num_workers: int) -> None:
    loader = DataLoader(dataset([*videos, *broken], on_error="skip"), 4, shuffle=True, num_workers=num_workers)
    assert sorted(bits_by_row(loader)) == list(range(18))
    assert sorted(failure.row for failure in loader.failures.failures) == list(range(18, 30))
    assert set(loader.failures.by_file()) == set(map(str, broken))
    assert {failure.action for failure in loader.failures.failures} == {"skipped"}
    report = loader.failures.as_dict()["files"]
    assert [report[str(path)]["num_failures"] for path in broken] == [3] * 4
    assert [report[str(path)]["reasons"][0].split(":")[0] for path in broken] == [
        "OpenError",
        "OpenError",
        "OpenError",
        "SourceNotFoundError",
    ]
    assert str(loader.failures).startswith("12 rows could not be read (12 skipped, 0 replaced), of 4 files:")


@pytest.mark.parametrize("num_workers", [0, 2])
def test_on_error_replace_replaces_rows(videos: list[Path], broken: list[Path], num_workers: int) -> None:
    rows = dataset([*videos, *broken], on_error="replace")
    loader = DataLoader(rows, 4, shuffle=True, num_workers=num_workers)
    sources: dict[int, str] = {}
    for batch in loader:
        assert len(batch) in (4, 2)
        sources.update(zip(batch.row.tolist(), batch.source, strict=True))
    assert sorted(sources) == list(range(30))
    assert set(sources.values()) <= set(map(str, videos))
    assert {failure.row for failure in loader.failures.failures} == set(range(18, 30))
    for failure in loader.failures.failures:
        assert failure.action == "replaced"
        assert failure.replaced_by == sources[failure.row]
    # Failed rows that were meant as replacements count once.
    assert str(loader.failures).startswith("12 rows could not be read (0 skipped, 12 replaced), of 4 files:")


def test_rows_of_a_damaged_file_do_not_depend_on_those_before(clip: Path, tmp_path: Path) -> None:
    path = tmp_path / "damaged.mp4"
    data = bytearray(clip.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 400] = bytes(400)
    # An empty box of 64 KiB: the index of a larger file comes from its header, and packets are not inspected.
    data += (1 << 16).to_bytes(4, "big") + b"free" + bytes((1 << 16) - 8)
    path.write_bytes(data)
    options = {"on_error": "keep"}
    rows = VideoClips([path], num_frames_per_clip=2, rows_per_file=20, seed=3, decoder_options=options)
    alone = [rows.spec(row).load() for row in range(20)]
    decoder = VideoDecoder(path)
    assert (len(decoder), len(decoder[:]) < 40, len(decoder) < 40) == (40, True, True)  # decoding detects the damage
    for order in (range(20), range(19, -1, -1)):
        for row in order:
            sample = rows[row]
            assert torch.equal(sample.frames.pts_seconds, alone[row].frames.pts_seconds), row
            assert torch.equal(sample.frames.data, alone[row].frames.data), row


def test_on_error_raise_raises(videos: list[Path], broken: list[Path]) -> None:
    rows = dataset([*broken, *videos])
    with pytest.raises(OpenError):
        rows[0]
    with pytest.raises(SourceNotFoundError, match=r"missing\.mp4"):
        rows[9]
    with pytest.raises(OpenError, match="Caught OpenError in DataLoader worker"):
        list(DataLoader(rows, 4, num_workers=1))
    assert isinstance(dataset([*broken, *videos], on_error="skip")[0], Skipped)


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_too_many_failures_raise(videos: list[Path], broken: list[Path], on_error: Any) -> None:
    rows = dataset(broken, on_error=on_error, max_consecutive_failures=3, rows_per_file=1)
    with pytest.raises(TooManyFailuresError, match="max_consecutive_failures") as caught:
        list(DataLoader(rows, 4))
    assert isinstance(caught.value.__cause__, OpenError)
    mixed = [path for pair in zip(broken, videos, strict=False) for path in pair]
    assert len(list(DataLoader(dataset(mixed, on_error=on_error, max_consecutive_failures=3, rows_per_file=1), 2))) == 4


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_empty_epoch_is_an_error(broken: list[Path], num_workers: int) -> None:
    """Each single worker sees too few failures to stop: a training without rows must not succeed."""
    loader = DataLoader(dataset(broken, on_error="skip"), 2, num_workers=num_workers)
    with pytest.raises(TooManyFailuresError, match="Not one row"):
        list(loader)
    assert len(loader.failures) == 12


@pytest.mark.parametrize("option", ["sampler", "batch_sampler"])
def test_the_order_cannot_be_given_twice(videos: list[Path], option: str) -> None:
    with pytest.raises(InvalidArgumentError, match=option):
        DataLoader(dataset(videos), 2, **{option: range(3)})


def test_mistakes_of_the_user_are_not_broken_files(videos: list[Path]) -> None:
    def wrong(frames: FrameBatch) -> FrameBatch:
        raise KeyError("typo")

    with pytest.raises(KeyError, match="typo"):
        VideoClips(videos, transform=wrong, on_error="skip")[0]


def not_a_clip(_: Any) -> str:
    return "not a clip"


@pytest.mark.parametrize("on_error", ["skip", "replace"])
@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (VideoClips, {"decoder_options": {"tone_mapping": "nope"}}, "tone_mapping"),
        (VideoClips, {"decoder_options": {"device": "nope"}}, "device"),
        (VideoClips, {"decoder_options": {"stream_index": "first"}}, "stream_index"),
        (VideoClips, {"decoder_options": {"transforms": [ToFloat()]}}, "Unsupported transform"),
        (VideoClips, {"decoder_options": {"transforms": 5}}, "transforms must be"),
        (VideoClips, {"decoder_options": {"nope": 5}}, "'nope'"),
        (VideoClips, {"sampler": not_a_clip}, "sampler must return"),
        (VideoClips, {"transform": not_a_clip}, "transform must return"),
        (
            VideoTextClips,
            {"captions": lambda item: [{"start": 0, "end": 1, "text": "a"}], "transform": not_a_clip},
            "transform must return",
        ),
        (AudioClips, {"decoder_options": {"num_ffmpeg_threads": "two"}}, "num_ffmpeg_threads"),
        (VideoAudioClips, {"decoder_options": {"seek_mode": "fast"}}, "seek mode"),
    ],
)
def test_on_error_does_not_hide_invalid_arguments(
    make: Any, options: Any, message: str, on_error: Any, videos: list[Path]
) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        make(videos, on_error=on_error, **options)[0]
    assert caught.type in (InvalidArgumentError, TypeError)


@pytest.mark.parametrize(
    ("make", "sampler", "options", "message"),
    [
        (VideoClips, clips_at_random_indices, {"num_frames_per_clip": 0}, "num_frames_per_clip"),
        (VideoClips, clips_at_regular_indices, {"sampling_range_start": 0.5}, "sampling_range_start"),
        (VideoClips, clips_at_random_timestamps, {"policy": "nope"}, "policy"),
        (VideoClips, clips_at_random_timestamps, {"seconds_between_frames": 0}, "seconds_between_frames"),
        (
            VideoClips,
            clips_at_regular_timestamps,
            {"seconds_between_clip_starts": 1, "num_frames_per_clip": -1},
            "num_frames_per_clip",
        ),
        (VideoClips, clips_at_regular_timestamps, {}, "seconds_between_clip_starts"),
        (VideoClips, clips_at_scenes, {"placement": "nope"}, "placement"),
        (VideoClips, sample_frames, {}, "at least one limit"),
        (VideoClips, sample_frames, {"fps": 0}, "fps"),
        (VideoClips, sample_frames, {"max_frames": 2, "multiple_of": 4}, "max_frames"),
        (VideoClips, sample_frames, {"max_tokens": 2, "tokens_per_frame": 4}, "max_tokens"),
        (VideoClips, VideoDecoder.get_all_frames, {"fps": -1}, "fps"),
        (AudioClips, audio_clips_at_random_timestamps, {"seconds_per_clip": 0}, "seconds_per_clip"),
        (
            AudioClips,
            audio_clips_at_regular_timestamps,
            {
                "seconds_between_clip_starts": 1,
                "seconds_per_clip": 1,
                "sampling_range_start": 2,
                "sampling_range_end": 1,
            },
            "sampling_range_start",
        ),
        (VideoAudioClips, audio_video_clips_at_random_timestamps, {"seconds_per_clip": 1, "fps": -1}, "fps"),
        (VideoAudioClips, audio_video_clips_at_random_timestamps, {"seconds_per_clip": 1, "typo": 1}, "typo"),
    ],
)
def test_datasets_check_arguments_of_their_samplers_before_reading(
    make: Any, sampler: Any, options: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(TypeError, match=message):
        make([tmp_path / "missing.mp4"], partial(sampler, **options), on_error="skip")


def test_on_error_skips_files_that_do_not_fit_the_arguments(videos: list[Path]) -> None:
    too_long = partial(clips_at_regular_indices, num_frames_per_clip=1000, policy="error", sampling_range_end=1)
    assert isinstance(VideoClips(videos, too_long, on_error="skip")[0], Skipped)
    too_large = {"transforms": [RandomCrop((1000, 1000))]}
    assert isinstance(VideoClips(videos, decoder_options=too_large, on_error="skip")[0], Skipped)


def test_a_recipe_that_returns_no_sample_is_an_error(videos: list[Path]) -> None:
    class FirstFrame(Recipe):
        def open(self, item: Item) -> VideoDecoder:
            return VideoDecoder(item.source)

        def read(self, opened: VideoDecoder, item: Item, part: int) -> Any:
            return opened[0]

    with pytest.raises(TypeError, match="Sample"):
        MediaDataset([Item(str(videos[0]))], FirstFrame(), on_error="skip")[0]


# Life of the object


def test_pickling_and_copying_leave_open_files_behind(videos: list[Path]) -> None:
    rows = dataset(videos)
    expected = rows[0].frames.data  # type: ignore[union-attr]
    for other in (pickle.loads(pickle.dumps(rows)), copy.deepcopy(rows)):
        assert isinstance(other, MediaDataset)
        assert torch.equal(other[0].frames.data, expected)  # type: ignore[union-attr]
    rows.close()
    assert torch.equal(rows[0].frames.data, expected)  # type: ignore[union-attr]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files through /proc")
def test_files_are_closed_with_the_dataset(videos: list[Path]) -> None:
    """At once, and not when garbage is collected."""
    gc.collect()
    gc.disable()
    try:
        before = len(os.listdir("/proc/self/fd"))
        rows = dataset(videos)
        list(DataLoader(rows, 4))
        assert len(os.listdir("/proc/self/fd")) > before
        del rows
        assert len(os.listdir("/proc/self/fd")) <= before
    finally:
        gc.enable()


def test_threads_read_the_same_rows(videos: list[Path]) -> None:
    rows = dataset(videos)
    expected = [rows[row].frames.data for row in range(18)]  # type: ignore[union-attr]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda row: rows[row % 18].frames.data, range(72)))  # type: ignore[union-attr]
    assert all(torch.equal(data, expected[row % 18]) for row, data in enumerate(found))


def test_iterating_leaves_torchs_generator_alone(videos: list[Path]) -> None:
    """A training that resumes begins one iteration more: its dropout must not differ for that."""
    before = torch.get_rng_state()
    for num_workers in (0, 1):
        next(iter(DataLoader(dataset(videos), 2, num_workers=num_workers)))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("make", "sampler", "options"),
    [
        (VideoClips, partial(clips_at_regular_indices, num_clips=1), {}),
        (
            VideoClips,
            partial(partial(clips_at_regular_timestamps), seconds_between_clip_starts=1),
            {"transform": ToFloat()},
        ),
        (VideoClips, partial(clips_at_scenes, num_frames_per_clip=2), {"keep_clip_dimension": True}),
        (VideoClips, VideoDecoder.get_all_frames, {"decoder_options": {"transforms": [Resize((8, 8))]}}),
        (
            AudioClips,
            partial(audio_clips_at_regular_timestamps, seconds_between_clip_starts=1, seconds_per_clip=0.1),
            {},
        ),
        (AudioClips, AudioDecoder.get_all_samples, {"transform": LogMelSpectrogram()}),
    ],
)
def test_equal_rows_of_a_file_are_refused(make: Any, sampler: Any, options: Any, videos: list[Path]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"rows_per_file=3 would make 3 equal rows.*random"):
        make(videos, sampler, rows_per_file=3, **options)
    assert len(make(videos, sampler, **options)) == len(videos)


def test_rows_of_a_file_differ_by_a_random_transform(videos: list[Path]) -> None:
    """One for each kind: in the decoder, our transform, a user's, a sequence."""
    sampler = partial(clips_at_regular_indices, num_clips=1, num_frames_per_clip=2)
    for options in (
        {"decoder_options": {"transforms": [Resize((30, 30)), RandomCrop((8, 8))]}},
        {"transform": torch.nn.Sequential(RandomCrop((8, 8)), ToFloat())},
        {"transform": noisy},
    ):
        clips = VideoClips(videos[:1], sampler, rows_per_file=8, **options)
        data = [clips[row].frames.data for row in range(8)]
        assert not all(torch.equal(one, data[0]) for one in data)
    scenes = partial(clips_at_scenes, num_frames_per_clip=2, placement="random")
    assert len(VideoClips(videos, scenes, rows_per_file=3)) == 18


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_loader_of_torch_stacks_samples(num_workers: int, videos: list[Path], broken: list[Path]) -> None:
    files = [videos[0], broken[0], videos[1], videos[2]]
    dataset = VideoClips(files, num_frames_per_clip=4, on_error="skip", seed=0)
    batches = list(torch.utils.data.DataLoader(dataset, batch_size=2, num_workers=num_workers))
    ours = list(DataLoader(dataset, batch_size=2))
    assert [batch.source for batch in batches] == [[str(videos[0])], [str(videos[1]), str(videos[2])]]
    assert all(torch.equal(a.frames.data, b.frames.data) for a, b in zip(batches, ours, strict=True))
    assert len(batches[0].failures) == 1


@pytest.mark.parametrize("dataset", [VideoClips, AudioClips, VideoAudioClips, VideoTextClips, DocumentPages, WordCrops])
def test_an_unknown_argument_is_an_error_of_the_class_that_received_it(dataset: Any) -> None:
    with pytest.raises(TypeError, match=rf"^{dataset.__name__}\(\) got an unexpected .* 'colour'.*max_open_files"):
        dataset(["missing.mp4"], colour="red")


def test_repr_counts_segments_of_a_file_once(clip: Path) -> None:
    items = [Item(source, start_seconds=0.1 * number) for number in range(3) for source in (clip, "other.mp4")]
    assert repr(VideoClips(items, num_frames_per_clip=4, rows_per_file=5)) == "VideoClips(2 files, 30 rows)"
