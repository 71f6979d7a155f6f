"""Datasets of media files for training. Reading a row gives the same sample in every process and at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._engine import lazy_names
from ._audio_clips import AudioClips, AudioRecipe, VideoAudioClips, VideoAudioRecipe
from ._batches.collate import pad, ragged, stack, stack_columns
from ._batches.loader import BatchIterator, DataLoader
from ._batches.order import Shuffle, shuffle_quality
from ._batches.row_batches import RowBatches
from ._batches.to_device import ToDevice
from ._check.checking import check_dataset
from ._check.findings import FINDING_KINDS, CheckedFile, Finding, FindingKind, MediaFacts
from ._check.report import DatasetReport
from ._lerobot_clips import LeRobotClips, LeRobotRecipe
from ._rows.captions import ClipCaption
from ._rows.dataset import MediaDataset, RowKey
from ._rows.recipe import Recipe, RowSpec
from ._rows.samples import Batch, ColumnDict, Failure, FailureReport, Sample, Skipped, Timing
from ._rows.tar_samples import TarSamples
from ._sources.dispatch import as_items
from ._sources.items import MEDIA_EXTENSIONS, Item
from ._sources.tar_shards import TarItems
from ._stall_meter import StallFacts, StallMeter
from ._video_clips import VideoClips, VideoRecipe, VideoTextClips, VideoTextRecipe

if TYPE_CHECKING:
    from .._text_data.documents import DocumentPages, WordCrops
    from ._shards import write_shards

__all__ = [
    "FINDING_KINDS",
    "MEDIA_EXTENSIONS",
    "AudioClips",
    "AudioRecipe",
    "Batch",
    "BatchIterator",
    "CheckedFile",
    "ClipCaption",
    "ColumnDict",
    "DataLoader",
    "DatasetReport",
    "DocumentPages",
    "Failure",
    "FailureReport",
    "Finding",
    "FindingKind",
    "Item",
    "LeRobotClips",
    "LeRobotRecipe",
    "MediaDataset",
    "MediaFacts",
    "Recipe",
    "RowBatches",
    "RowKey",
    "RowSpec",
    "Sample",
    "Shuffle",
    "Skipped",
    "StallFacts",
    "StallMeter",
    "TarItems",
    "TarSamples",
    "Timing",
    "ToDevice",
    "VideoAudioClips",
    "VideoAudioRecipe",
    "VideoClips",
    "VideoRecipe",
    "VideoTextClips",
    "VideoTextRecipe",
    "WordCrops",
    "as_items",
    "check_dataset",
    "pad",
    "ragged",
    "shuffle_quality",
    "stack",
    "stack_columns",
    "write_shards",
]

__getattr__ = lazy_names(
    __name__,
    {
        "DocumentPages": ".._text_data.documents",
        "WordCrops": ".._text_data.documents",
        "write_shards": "._shards",  # which imports the encoders
    },
)
