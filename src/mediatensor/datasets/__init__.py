"""Datasets of media files for training: any file, any sampler, the same sample wherever and whenever it is read."""

from __future__ import annotations

from ._audio_clips import AudioClips, AudioRecipe
from ._batches.collate import pad, ragged, stack
from ._batches.loader import DataLoader
from ._batches.order import RowBatches, Shuffle, shuffle_quality
from ._batches.tar_samples import TarSamples
from ._batches.to_device import ToDevice
from ._document_pages import DocumentPages
from ._rows.dataset import MediaDataset, RowKey
from ._rows.recipe import Recipe, RowSpec
from ._rows.samples import Batch, Failure, FailureReport, Sample, Skipped, Timing
from ._sources.items import MEDIA_EXTENSIONS, Item
from ._sources.sources import as_items
from ._sources.tar_items import TarItems
from ._stalls.facts import StallFacts
from ._stalls.meter import StallMeter
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
