"""Datasets of media files for training: any file, any sampler, the same sample wherever and whenever it is read."""

from __future__ import annotations

from ._audio_clips import AudioClips, AudioRecipe
from ._batches import (
    BatchIterator,
    DataLoader,
    RowBatches,
    Shuffle,
    ToDevice,
    pad,
    ragged,
    shuffle_quality,
    stack,
    stack_columns,
)
from ._check import FINDING_KINDS, CheckedFile, DatasetReport, Finding, FindingKind, MediaFacts, check_dataset
from ._document_pages import DocumentPages
from ._lerobot_clips import LeRobotClips, LeRobotRecipe
from ._rows import (
    Batch,
    ClipCaption,
    ColumnDict,
    Failure,
    FailureReport,
    MediaDataset,
    Recipe,
    RowKey,
    RowSpec,
    Sample,
    Skipped,
    TarSamples,
    Timing,
)
from ._sources import MEDIA_EXTENSIONS, Item, TarItems, as_items
from ._stall_meter import StallFacts, StallMeter
from ._video_audio_clips import VideoAudioClips, VideoAudioRecipe
from ._video_clips import VideoClips, VideoRecipe
from ._video_text_clips import VideoTextClips, VideoTextRecipe
from ._word_crops import WORD_COLUMNS as WORD_COLUMNS  # for datasets of other rooms, as those below
from ._word_crops import WordCrops
from ._word_crops import page_index_of as page_index_of
from ._word_crops import read_labels as read_labels
from ._word_crops import words_of as words_of

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
]
