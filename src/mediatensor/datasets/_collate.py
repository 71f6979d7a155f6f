"""From samples to batches."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..frames import FrameBatch
from ._samples import Batch, Sample, Skipped

__all__ = ["stack"]


def stack(samples: Sequence[Sample | Skipped]) -> Batch:
    good = [sample for sample in samples if isinstance(sample, Sample)]
    frames = [sample.frames for sample in good]
    return Batch(
        frames=FrameBatch(
            torch.stack([one.data for one in frames]),
            torch.stack([one.pts_seconds for one in frames]),
            torch.stack([one.duration_seconds for one in frames]),
        )
        if good
        else None,
        source=[sample.source for sample in good],
        row=torch.tensor([sample.row for sample in good]),
        failures=tuple(failure for sample in samples for failure in sample.failures),
    )
