"""Datasets of media files for training: any file, any sampler, the same sample wherever and whenever it is read."""

from __future__ import annotations

from ._base import MediaDataset, RowKey
from ._batches import RowBatches
from ._collate import stack
from ._failure_report import FailureReport
from ._items import Item
from ._loader import DataLoader
from ._order import Shuffle, shuffle_quality
from ._recipe import Recipe
from ._samples import Batch, Failure, Sample, Skipped, Timing
from ._sources import as_items
from ._spec import RowSpec
from ._video_clips import VideoClips

__all__ = [
    "Batch",
    "DataLoader",
    "Failure",
    "FailureReport",
    "Item",
    "MediaDataset",
    "Recipe",
    "RowBatches",
    "RowKey",
    "RowSpec",
    "Sample",
    "Shuffle",
    "Skipped",
    "Timing",
    "VideoClips",
    "as_items",
    "shuffle_quality",
    "stack",
]
