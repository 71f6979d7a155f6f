"""Datasets of media files for training: any file, any sampler, the same sample wherever and whenever it is read."""

from __future__ import annotations

from ._audio_clips import AudioClips, AudioRecipe
from ._base import MediaDataset, RowKey
from ._batches import RowBatches
from ._collate import pad, ragged, stack
from ._document_pages import DocumentPages
from ._failure_report import FailureReport
from ._items import Item
from ._loader import DataLoader
from ._media_kinds import MEDIA_EXTENSIONS
from ._order import Shuffle, shuffle_quality
from ._recipe import Recipe
from ._samples import Batch, Failure, Sample, Skipped, Timing
from ._sources import as_items
from ._spec import RowSpec
from ._stall_facts import StallFacts
from ._stall_meter import StallMeter
from ._tar_items import TarItems
from ._tar_samples import TarSamples
from ._to_device import ToDevice
from ._video_audio_clips import VideoAudioClips, VideoAudioRecipe
from ._video_clips import VideoClips, VideoRecipe
from ._word_crops import WordCrops

__all__ = [
    "MEDIA_EXTENSIONS",
    "AudioClips",
    "AudioRecipe",
    "Batch",
    "DataLoader",
    "DocumentPages",
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
    "WordCrops",
    "as_items",
    "pad",
    "ragged",
    "shuffle_quality",
    "stack",
]
