"""What is particular about training classifiers of directions: pictures that are turned, and how many are told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...datasets import MediaDataset, Sample, Skipped
from ..models._pages.preprocessing import PreProcessor
from ._learning import first_rows, random_number, with_changes
from ._lines import changed_picture

__all__ = ["Orientation"]

_SCORED_AT_ONCE = 32


@dataclass(frozen=True)
class TurnedBatch:
    """Pictures and their directions, as numbers of classes."""

    data: Tensor
    classes: Tensor


@dataclass(frozen=True)
class _TurnedBatches:
    """Makes batches of pictures of one size."""

    batch_size: int
    pre_processor: PreProcessor
    flips_channels: bool

    def __call__(self, samples: list[Sample | Skipped]) -> list[TurnedBatch]:
        rows = [sample for sample in samples if isinstance(sample, Sample) and sample.image is not None]
        batches = []
        for start in range(0, len(rows), self.batch_size):
            chosen = rows[start : start + self.batch_size]
            (data,) = self.pre_processor([sample.image for sample in chosen if sample.image is not None])
            classes = torch.tensor([sample.extra["turn"] for sample in chosen])
            batches.append(TurnedBatch(data.flip(1) if self.flips_channels else data, classes))
        return batches


@dataclass(frozen=True)
class _Turning:
    """Turns the picture of a sample by the degrees of one of the classes.

    Attributes:
        degrees: Those of the classes, clockwise, multiples of 90.
    """

    degrees: tuple[int, ...]

    def __call__(self, sample: Sample) -> Sample:
        number = int(random_number(0, len(self.degrees)))
        image = None if sample.image is None else sample.image.rot90(-self.degrees[number] // 90, (1, 2)).contiguous()
        return replace(sample, image=image, extra={**sample.extra, "turn": number})


@dataclass(frozen=True)
class OrientationScores:
    """How well directions are told.

    Attributes:
        num_pictures: How many pictures were looked at.
        score: The share of them whose direction was told.
    """

    num_pictures: int
    score: float

    def as_dict(self) -> dict[str, float]:
        """The scores by name."""
        return {"num_pictures": self.num_pictures, "score": self.score}


class Orientation:
    """A classifier of directions in training; see `Learner`."""

    task = "classification"

    def __init__(self, model: Any) -> None:
        self.model = model
        self._degrees = tuple(int(degrees) for degrees in model.cfg["classes"])

    def check(self, datasets: Iterable[MediaDataset]) -> None:
        """Any picture will do that is upright."""

    def prepared(self, dataset: MediaDataset, augment: bool) -> MediaDataset:
        """The rows, turned anew in each epoch."""
        changed = with_changes(dataset, changed_picture) if augment else dataset
        return with_changes(changed, _Turning(self._degrees))

    def collator(self, batch_size: int) -> _TurnedBatches:
        """Makes batches of samples."""
        cfg = self.model.cfg
        size = cfg["input_shape"][1:]
        pre_processor = PreProcessor(
            size, batch_size, cfg["mean"], cfg["std"], preserve_aspect_ratio=True, symmetric_pad=True
        )
        return _TurnedBatches(batch_size, pre_processor, cfg.get("color_order") == "BGR")

    def loss(self, model: Any, batch: TurnedBatch, share: float = 1.0) -> Tensor:
        """The cross-entropy of a network like this one for a batch."""
        device = next(model.parameters()).device
        return F.cross_entropy(model(batch.data.to(device)).float(), batch.classes.to(device))

    def keeping_loss(self, batch: TurnedBatch) -> Tensor:
        """The same for pictures that were known."""
        return self.loss(self.model, batch)

    def chosen_options(self, model: Any, dataset: MediaDataset) -> dict[str, Any]:
        """All there is is learnt."""
        return {}

    @torch.no_grad()
    def scores(self, model: Any, dataset: MediaDataset, num_rows: int | None = None) -> OrientationScores:
        """Classify the pictures of a dataset, or the first of them, with a network like this one."""
        turned = self.prepared(dataset, augment=False)
        collate = self.collator(_SCORED_AT_ONCE)
        device = next(model.parameters()).device
        model.eval()
        num_pictures = num_right = 0
        for samples in first_rows(turned, num_rows, _SCORED_AT_ONCE):
            for batch in collate([*samples]):
                found = model(batch.data.to(device)).argmax(1).cpu()
                num_pictures, num_right = num_pictures + len(found), num_right + int((found == batch.classes).sum())
        return OrientationScores(num_pictures, num_right / max(num_pictures, 1))
