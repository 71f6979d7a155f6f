"""Random clips and crops in torch's own loaders: other ones in each epoch, the same ones for the same seed of torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils.data

from dataset_samples import WORKERS, Drawing
from mediatensor.datasets import DataLoader, Item, MediaDataset, TarSamples, VideoClips, stack
from mediatensor.transforms import RandomCrop
from tar_files import TextRecipe, number_shards
from training_set import make_videos

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

SIZES = (4, 3, 5, 4)
NUM_ROWS = sum(SIZES)


def rows(**options: Any) -> MediaDataset:
    return MediaDataset([Item(f"{number}.mp4", label=number) for number in range(NUM_ROWS)], Drawing(), **options)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return number_shards(tmp_path_factory.mktemp("shards"), SIZES)


@pytest.fixture(params=["rows", "stream"])
def make(request: pytest.FixtureRequest, shards: list[Path]) -> Callable[..., Any]:
    """Makes datasets with indices, and streams."""
    if request.param == "rows":
        return rows
    return lambda **options: TarSamples(shards, TextRecipe(), shuffle_buffer=3, **options)


def drawn(loader: Any) -> dict[str, int]:
    """Return the random value of each file in an epoch, in the order of files."""
    found = {sample.extra["text"]: sample.extra["drawn"] for batch in loader for sample in batch}
    assert len(found) == NUM_ROWS
    return found


def torch_loader(dataset: Any, **options: Any) -> Any:
    return torch.utils.data.DataLoader(dataset, 2, collate_fn=list, **options)


@pytest.mark.slow
@pytest.mark.parametrize("workers", WORKERS.values(), ids=WORKERS)
def test_every_epoch_draws_other_numbers_and_the_seed_of_torch_repeats_them(
    make: Callable[..., Any], workers: dict[str, Any]
) -> None:
    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        loader = torch_loader(make(), **workers)
        runs.append([drawn(loader) for _ in range(3)])
    assert runs[0] == runs[1]
    numbers = [number for epoch in runs[0] + runs[2] for number in epoch.values()]
    assert len(set(numbers)) == 6 * NUM_ROWS
    if isinstance(loader.dataset, TarSamples):  # the order of a stream is drawn as well
        assert len({tuple(epoch) for epoch in runs[0]}) == 3


@pytest.mark.slow
@pytest.mark.parametrize("workers", WORKERS.values(), ids=WORKERS)
def test_a_seed_and_set_epoch_decide_whatever_the_loader(make: Callable[..., Any], workers: dict[str, Any]) -> None:
    ours = [drawn(DataLoader(make(), 2, collate_fn=list, **workers)) for _ in range(2)]
    assert ours[0] == ours[1]
    seeded = torch_loader(make(seed=0), **workers)
    assert [drawn(seeded), drawn(seeded)] == [ours[0], ours[0]]
    dataset = make()
    loader = torch_loader(dataset, **workers)
    assert drawn(loader) != ours[0]
    dataset.set_epoch(0)
    assert [drawn(loader), drawn(loader)] == [ours[0], ours[0]]
    dataset.set_epoch(1)
    assert not set(drawn(loader).values()) & set(ours[0].values())


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_generator_of_the_loader_and_datasets_around_ours(num_workers: int) -> None:
    part = torch.utils.data.Subset(rows(), range(4, NUM_ROWS))
    joined: Any = torch.utils.data.ConcatDataset([torch.utils.data.Subset(rows(), range(4)), part])
    loader = torch_loader(joined, num_workers=num_workers, shuffle=True, generator=torch.Generator().manual_seed(3))
    first, second = drawn(loader), drawn(loader)
    assert not set(first.values()) & set(second.values())
    one_by_one = torch.utils.data.DataLoader(rows(), None, num_workers=num_workers)
    epochs = [{sample.extra["drawn"] for sample in one_by_one} for _ in range(2)]
    assert not epochs[0] & epochs[1]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_torchdatas_loader_draws_as_torchs_does(num_workers: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    loader = stateful(rows(), batch_size=2, collate_fn=list, num_workers=num_workers)
    first, second = drawn(loader), drawn(loader)
    assert not set(first.values()) & set(second.values())


def test_rows_that_are_read_by_index_stay_the_same_and_draw_nothing() -> None:
    dataset = rows()
    state = torch.get_rng_state()
    first = [sample.extra["drawn"] for sample in map(dataset.__getitem__, range(NUM_ROWS))]
    assert first == [dataset.spec(row).load().extra["drawn"] for row in range(NUM_ROWS)]
    assert torch.equal(torch.get_rng_state(), state)
    assert list(drawn(DataLoader(dataset, 2, collate_fn=list)).values()) == first
    assert torch.equal(torch.get_rng_state(), state)


def test_the_row_that_replaces_another_is_drawn_as_well() -> None:
    items = [Item("broken.mp4", label="broken"), *(Item(f"{number}.mp4", label=number) for number in range(3))]
    loader = torch.utils.data.DataLoader(MediaDataset(items, Drawing(), on_error="replace"), None)
    numbers = [next(iter(loader)).extra["drawn"] for _ in range(4)]
    assert len(set(numbers)) == 4


def test_ranks_share_the_shards_of_a_stream_whatever_they_draw(shards: list[Path]) -> None:
    given = []
    for rank in range(2):
        torch.manual_seed(rank)
        samples = TarSamples(shards, TextRecipe(), shuffle_buffer=3, rank=rank, num_ranks=2)
        given += [sample.extra["text"] for batch in torch_loader(samples) for sample in batch]
    assert len(set(given)) == len(given) == NUM_ROWS


def test_crops_of_videos_differ_between_epochs(tmp_path: Path) -> None:
    clips = VideoClips(
        make_videos(tmp_path, 1),
        num_frames_per_clip=2,
        rows_per_file=4,
        decoder_options={"transforms": [RandomCrop((8, 8))]},
    )
    loader = torch.utils.data.DataLoader(clips, 4, collate_fn=stack)
    torch.manual_seed(0)
    epochs = [batch.frames.data for _ in range(2) for batch in loader]
    torch.manual_seed(0)
    assert torch.equal(next(iter(loader)).frames.data, epochs[0])
    assert not torch.equal(epochs[0], epochs[1])
