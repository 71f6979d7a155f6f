"""`VideoClips`: clips of videos."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from .._engine.common import stages
from .._engine.common.checks import function, options_dict
from ..decoders import VideoDecoder
from ..frames import FrameBatch
from ._rows.clips import (
    apply_frames_transform,
    check_rows_differ,
    effective_fps,
    first_request,
    frames_sampler,
    ready_for_rows,
    without_clip_dimension,
)
from ._rows.dataset import MediaDataset, check_dataset_options
from ._rows.recipe import Recipe
from ._rows.samples import Sample
from ._rows.segments import segment_of
from ._sources.dispatch import as_items
from ._sources.items import Item, checked_classes

__all__ = ["VideoClips", "VideoRecipe"]


class VideoClips(MediaDataset):
    """Clips of videos, one sample a row.

    Args:
        source: The videos: paths, a folder, a manifest, rows of a Hugging Face dataset; see `as_items`.
        sampler: Takes a `VideoDecoder` and gives a `FrameBatch` of clips: one of `mediatensor.samplers` with its
            arguments bound by ``functools.partial``, or a function of your own. By default
            `clips_at_random_indices` with ``num_frames_per_clip``.
        num_frames_per_clip: For the default sampler.
        num_indices_between_frames: For the default sampler.
        keep_clip_dimension: ``False``: the sampler gives one clip, and a sample has frames (T, C, H, W). ``True``:
            it may give several, and a sample has (clips, T, C, H, W).
        transform: Takes the `FrameBatch` of a sample and gives another, or a tensor in place of its data; random ones
            draw anew for each row.
        label: Gives the label of an `Item`; by default its own.
        classes: The names of the classes in the order of their numbers, for labels that are text and for sub-folders,
            such as ``class_names`` of the dataset that a model is trained with. A class that is not among them is an
            error. By default the classes of this source, by name.
        rows_per_file: How many rows each file has in an epoch; each draws its own clip. More than one needs a random
            sampler or a random transform.
        decoder_options: Arguments of `VideoDecoder`: ``transforms`` (random ones draw anew for each row),
            ``stream_index``, ``dimension_order``, ``output_dtype``, ``seek_mode``, ``device`` ... Without ``on_error``
            among them, a clip that touches damage is a row that cannot be read, for ``on_error`` of the dataset. By
            default files are decoded on the CPU, whatever torch's default device is, and `ToDevice` moves batches. With
            ``{"device": "cuda"}`` they are decoded for a GPU, and samples and batches are there: in the process of the
            training (``num_workers=0``), or in workers that are spawned (``multiprocessing_context="spawn"``).
        dataset_options: Arguments of `MediaDataset`: ``seed``, ``on_error``, ``max_consecutive_failures``,
            ``max_open_files``.

    Raises:
        InvalidArgumentError: if there are no files, or an argument is not among the accepted ones.

    Example:
        >>> from functools import partial
        >>> from mediatensor.datasets import VideoClips
        >>> from mediatensor.samplers import clips_at_random_timestamps
        >>> from mediatensor.transforms import RandomResizedCrop
        >>> dataset = VideoClips(
        ...     "videos",  # a folder of files, or of one folder for each class
        ...     partial(clips_at_random_timestamps, num_frames_per_clip=8, seconds_between_frames=0.1),
        ...     decoder_options={"transforms": [RandomResizedCrop((112, 112))]},
        ... )
        >>> dataset[0].frames.data.shape, len(dataset)
        (torch.Size([8, 3, 112, 112]), 3)
    """

    def __init__(
        self,
        source: Any,
        sampler: Callable[[Any], FrameBatch] | None = None,
        *,
        num_frames_per_clip: int = 16,
        num_indices_between_frames: int = 1,
        keep_clip_dimension: bool = False,
        transform: Callable[[FrameBatch], FrameBatch | Tensor] | None = None,
        label: Callable[[Item], Any] | None = None,
        classes: Sequence[str] | None = None,
        rows_per_file: int = 1,
        decoder_options: Mapping[str, Any] | None = None,
        **dataset_options: Any,
    ) -> None:
        check_dataset_options(self, dataset_options)
        if sampler is None:
            sampler = frames_sampler(num_frames_per_clip, num_indices_between_frames)
        options = options_dict("decoder_options", decoder_options, VideoDecoder)
        recipe = VideoRecipe(sampler, keep_clip_dimension, transform, options)
        check_rows_differ(rows_per_file, sampler, transform, options.get("transforms"))
        items = as_items(source, kind="video", label=label, classes=classes)
        self._classes = checked_classes(classes)
        super().__init__(items, recipe, rows_per_file=rows_per_file, **dataset_options)


@dataclass(frozen=True)
class VideoRecipe(Recipe):
    """How a clip is made of a video; see `VideoClips`."""

    sampler: Callable[[Any], FrameBatch]
    keep_clip_dimension: bool = False
    transform: Callable[[FrameBatch], FrameBatch | Tensor] | None = None
    decoder_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        function("sampler", self.sampler)
        function("transform", self.transform)

    def open(self, item: Item) -> VideoDecoder:
        decoder = VideoDecoder(item.source, **{**self.decoder_options, "transforms": None})
        return ready_for_rows(decoder, self.decoder_options)

    def read(self, opened: VideoDecoder, item: Item, part: int) -> Sample:
        with stages.DECODE:
            opened._transform_with(self.decoder_options.get("transforms"))
            clips = without_clip_dimension(self.sampler(segment_of(opened, item)), keep=self.keep_clip_dimension)
        return Sample(
            frames=apply_frames_transform(self.transform, clips),
            frame_indices=opened._frames_of(clips),
            effective_fps=effective_fps(clips),
        )

    def position(self, opened: VideoDecoder, item: Item, part: int) -> float:
        opened._transform_with(self.decoder_options.get("transforms"))
        return first_request(segment_of(opened, item), self.sampler)
