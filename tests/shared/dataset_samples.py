"""Samples and datasets that are made of numbers, without any file."""

from __future__ import annotations

import os
import pickle
from typing import Any

import torch
from torch import Tensor

from mediatensor.datasets import DataLoader, Failure, Item, MediaDataset, Recipe, Sample
from mediatensor.errors import DecodeError
from mediatensor.frames import AudioSamples, FrameBatch


def clip(*shape: int, seed: int = 0, channels_last: bool = True, **options: Any) -> FrameBatch:
    """Frames (*shape, 3, H, W) as a decoder gives them, with times."""
    *leading, height, width = shape
    random = torch.Generator().manual_seed(seed + 1)
    data = torch.randint(1, 256, (*leading, height, width, 3), dtype=torch.uint8, generator=random).movedim(-1, -3)
    pts = torch.rand(leading, dtype=torch.float64, generator=random)
    return FrameBatch(data if channels_last else data.contiguous(), pts, pts / 10, **options)


def sound(length: int, channels: int = 2, rate: int = 16_000, seed: int = 0) -> AudioSamples:
    random = torch.Generator().manual_seed(seed)
    return AudioSamples(torch.rand(channels, length, generator=random) + 0.1, seed + 0.5, length / rate, rate)


def image(height: int, width: int, seed: int = 0) -> Tensor:
    return clip(1, height, width, seed=seed).data[0]


class Made(Recipe):
    """Clips that are made of the columns of an item; no file is opened."""

    def open(self, item: Item) -> Any:
        return open(os.devnull, "rb")

    def read(self, opened: Any, item: Item, part: int) -> Sample:
        length, side = item.extra["num_frames"], item.extra.get("side", 8)
        return Sample(frames=clip(length, side, side, seed=item.label), frame_indices=torch.arange(length))


class Drawing(Recipe):
    """The name of the file as a text, and a number that is drawn; a file of the label "broken" cannot be read."""

    def open(self, item: Item) -> Any:
        return open(os.devnull, "rb")

    def read(self, opened: Any, item: Item, part: int) -> Sample:
        if item.label == "broken":
            raise DecodeError("cut")
        return Sample(extra={"text": item.name, "drawn": int(torch.randint(1 << 40, ()))})


#: Options of loaders.
WORKERS: dict[str, dict[str, Any]] = {
    "no workers": {},
    "workers": {"num_workers": 2},
    "persistent workers": {"num_workers": 2, "persistent_workers": True},
}


def made_dataset(lengths: list[int], **columns: Any) -> MediaDataset:
    items = [Item(f"{i}.mp4", label=i, extra={"num_frames": length, **columns}) for i, length in enumerate(lengths)]
    return MediaDataset(items, Made())


def failure(row: int) -> Failure:
    return Failure(f"{row}.mp4", row, 2, "DecodeError", "cut", "skipped")


def sample_of(rows: MediaDataset, row: int = 0) -> Sample:
    """A row that can be read."""
    sample = rows[row]
    assert isinstance(sample, Sample)
    return sample


def contents_of(sample: Any) -> tuple[Any, ...]:
    """The bytes of all data of a sample, and its other contents."""
    data = (sample.image, *(getattr(one, "data", None) for one in (sample.frames, sample.audio)))
    times = [one.pts_seconds for one in (sample.frames, sample.audio) if one is not None]
    arrays = [torch.as_tensor(one).contiguous().numpy() for one in (*data, *times) if one is not None]
    return b"".join(array.tobytes() for array in arrays), sample.label, sample.captions, sample.extra


def check_rows_anywhere(rows: MediaDataset, num_rows: int) -> None:
    """Assert that all rows differ, and that each is the same in workers, and by a pickled specification."""
    expected = {row: contents_of(sample_of(rows, row)) for row in range(len(rows))}
    assert len({contents[0] for contents in expected.values()}) == len(rows) == num_rows
    loader = DataLoader(rows, 4, shuffle=True, num_workers=2, collate_fn=list)
    assert {sample.row: contents_of(sample) for batch in loader for sample in batch} == expected
    assert contents_of(pickle.loads(pickle.dumps(rows.spec(1))).load()) == expected[1]
