"""`VideoClips`: clips of videos. `VideoTextClips`: clips of videos with their captions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from .._engine.common import stages
from .._engine.common.checks import finite_number, function, options_dict
from .._engine.common.messages import progress
from ..decoders import VideoDecoder
from ..decoders._access import access_to
from ..errors import InvalidArgumentError, ReadError, StreamError
from ..frames import FrameBatch
from ..samplers._index_clips import check_clip_length
from ..samplers._random import starts_reading_at, uses_row_random
from ..transforms._decoder_transforms import check_decoder_transforms
from ._rows.captions import CaptionPlace, FileCaption, check_caption_places, find_captions
from ._rows.clips import (
    apply_frames_transform,
    box_column,
    call_sampler,
    check_rows_differ,
    check_sampler,
    effective_fps,
    frames_sampler,
    position_of,
    ready_for_rows,
    redraw_transforms,
    without_clip_dimension,
)
from ._rows.dataset import MediaDataset, check_dataset_options
from ._rows.recipe import Recipe
from ._rows.samples import Sample
from ._sources.dispatch import as_items
from ._sources.items import Item, checked_classes
from ._sources.tables import CAPTIONS_COLUMN


class VideoClips(MediaDataset):
    """A dataset of clips of videos. Each row is a `Sample` with one clip.

    ``dataset[index].frames`` is a `FrameBatch` with ``data`` (T, C, H, W) and the times of the frames. ``data`` is
    uint8, or float32 if ``decoder_options`` include ``output_dtype=torch.float32``.

    Args:
        source: Paths, a folder, a manifest, or rows of a Hugging Face dataset; see `as_items`.
        sampler: Function that takes a `VideoDecoder` and returns a `FrameBatch` of clips: one of `mediatensor.samplers`
            with its arguments bound by ``functools.partial``, or your own function. The default is
            `clips_at_random_indices` with ``num_frames_per_clip``. To make reading faster, your sampler can have a
            method ``first_position(decoder)``, which returns the position in the file at which the sampler will start
            to read, for example as a frame index. Rows of one file are then read in the order of these positions. The
            method must draw the same random numbers as the sampler.
        num_frames_per_clip: Number of frames in a clip, for the default sampler.
        num_indices_between_frames: Difference between the indices of consecutive frames of a clip, for the default
            sampler.
        keep_clip_dimension: If ``False``, the sampler must return one clip, and a sample has frames (T, C, H, W). If
            ``True``, the sampler may return several clips, and a sample has frames (clips, T, C, H, W).
        transform: Function that takes the `FrameBatch` of a sample, and returns a new `FrameBatch`, or a tensor that
            replaces ``data``. Random transforms draw new values for each row.
        label: Function that returns the label of an `Item`; by default ``Item.label``.
        classes: Class names in the order of their numbers, for labels that are text and for sub-folders. For validation
            data, pass ``class_names`` of the training dataset. A class that is not in the list is an error. By default,
            the classes of this source are numbered in order of name.
        rows_per_file: Number of rows of each file in an epoch. Each row calls the sampler again, so a number above 1 is
            useful only with a random sampler or a random transform.
        decoder_options: Dict of arguments of `VideoDecoder`: ``transforms`` (random transforms draw new values for each
            row), ``stream_index``, ``dimension_order``, ``output_dtype``, ``seek_mode``, ``device`` ... A row whose
            clip has damaged frames counts as unreadable, and ``on_error`` of the dataset applies. If these options
            include ``on_error``, the decoder handles damaged frames instead. Without ``device``, files are decoded on
            the CPU, even if torch's default device is a GPU; use `ToDevice` to move batches to a GPU. With ``{"device":
            "cuda"}``, samples and batches are on the GPU. Decoding then runs in the training process
            (``num_workers=0``), or in spawned workers (``multiprocessing_context="spawn"``). If the transforms include
            a `Letterbox`, ``extra["frame_box"]`` of a sample is the box (left, top, right, bottom) of the frame inside
            its padding. The box does not take ``transform`` into account. `Batch.pixel_mask` is false outside the box.
        dataset_options: Arguments of `MediaDataset`: ``seed``, ``on_error``, ``max_consecutive_failures``,
            ``max_open_files``.

    Raises:
        InvalidArgumentError: if there are no files or an argument is invalid.

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
    """The `Recipe` with which `VideoClips` makes clips of a video; see there for the arguments."""

    sampler: Callable[[Any], FrameBatch]
    keep_clip_dimension: bool = False
    transform: Callable[[FrameBatch], FrameBatch | Tensor] | None = None
    decoder_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_sampler(self.sampler)
        function("transform", self.transform)
        check_decoder_transforms(self.decoder_options.get("transforms"))

    def open(self, item: Item) -> VideoDecoder:
        decoder = VideoDecoder(item.source, **{**self.decoder_options, "transforms": None})
        return ready_for_rows(decoder, self.decoder_options)

    @uses_row_random
    def read(self, opened: VideoDecoder, item: Item, part: int) -> Sample:
        with stages.DECODE:
            redraw_transforms(opened, self.decoder_options)
            sampled = call_sampler(self.sampler, opened, item)
            clips = without_clip_dimension(sampled, keep=self.keep_clip_dimension)
        return Sample(
            frames=apply_frames_transform(self.transform, clips),
            frame_indices=access_to(opened).frame_indices_of(clips),
            effective_fps=effective_fps(clips),
            extra=box_column(opened),
        )

    @uses_row_random
    def position(self, opened: VideoDecoder, item: Item, part: int) -> float:
        redraw_transforms(opened, self.decoder_options)
        return position_of(self.sampler, opened, item, part)


# With captions


class VideoTextClips(MediaDataset):
    """Clips of videos with their captions, for training captioning models. Each row is one caption with its clip.

    ``Sample.frames`` is a `FrameBatch` of frames that are shown during a caption, and ``Sample.label`` is the text of
    the caption. ``Sample.extra`` has ``caption_index``, ``caption_start_seconds``, ``caption_end_seconds`` and
    ``caption_geometry``. If the caption was read in the frames by OCR, ``caption_geometry`` is the box ((xmin, ymin),
    (xmax, ymax)) of the text, as fractions of the width and height of the upright frame. For captions from other
    sources, it is ``None``.

    The captions of all videos are read when the dataset is created. A video with an empty subtitle file has no rows. A
    video without captions, or with unreadable captions, has one row, and reading that row fails.

    Args:
        source: Paths, a folder, a manifest, or rows of a Hugging Face dataset; see `as_items`.
        sampler: Function that takes a `VideoDecoder`, which is limited to the frames of a caption, and returns a
            `FrameBatch`: one of `mediatensor.samplers` with its arguments bound by ``functools.partial``, or your own
            function. The default returns ``num_frames_per_clip`` frames that are spread evenly over the caption.
        captions: Where to find captions, as for `VideoAudioClips`. By default ``"any"``: the column ``captions``, then
            a file next to the video, then subtitles in the video. You can also pass a function that takes an `Item` and
            returns its captions: a `VideoReading` or the path of a saved one, the path or the text of a subtitle file,
            or any series of objects with ``text``, ``start_seconds`` and ``end_seconds``, such as `Captions` and
            `SubtitleDecoder`.
        captions_language: Preferred language of the captions, or several in order of preference: ``("en", "eng")``; see
            `VideoAudioClips`.
        num_frames_per_clip: Number of frames in a clip, for the default sampler.
        context_seconds: How many seconds before and after the caption a clip can include.
        keep_clip_dimension, transform, decoder_options, dataset_options: Shape of the frames, their transform, and
            arguments of `VideoDecoder` and `MediaDataset`; see `VideoClips`.

    Raises:
        InvalidArgumentError: if there are no captions or an argument is invalid.

    Example:
        >>> from pathlib import Path
        >>> from mediatensor.datasets import VideoTextClips
        >>> lines = ["1", "00:00:01,500 --> 00:00:03,000", "The bar moves to the right.", ""]
        >>> size = Path("video.srt").write_text("\\n".join(lines))
        >>> dataset = VideoTextClips([{"path": "video.mp4", "captions": "video.srt"}], num_frames_per_clip=8)
        >>> dataset[0].label, dataset[0].frames.data.shape
        ('The bar moves to the right.', torch.Size([8, 3, 360, 640]))
    """

    def __init__(
        self,
        source: Any,
        sampler: Callable[[Any], FrameBatch] | None = None,
        *,
        captions: CaptionPlace | Callable[[Item], Any] | None = None,
        captions_language: str | Sequence[str] | None = None,
        num_frames_per_clip: int = 16,
        context_seconds: float = 0.0,
        keep_clip_dimension: bool = False,
        transform: Callable[[FrameBatch], FrameBatch | Tensor] | None = None,
        decoder_options: Mapping[str, Any] | None = None,
        **dataset_options: Any,
    ) -> None:
        check_dataset_options(self, dataset_options)
        check_caption_places(captions, captions_language)
        if sampler is None:
            sampler = partial(_spread_evenly, num_frames=check_clip_length(num_frames_per_clip))
        options = options_dict("decoder_options", decoder_options, VideoDecoder)
        recipe = VideoTextRecipe(sampler, keep_clip_dimension, transform, options, context_seconds)
        files = as_items(source, kind="video")
        watched = progress(files, "reading captions", total=len(files), unit="file") if len(files) > 1 else files
        items = [_read_captions_of(item, captions or "any", captions_language) for item in watched]
        found = [item.extra[CAPTIONS_COLUMN] for item in items]
        num_rows = [1 if isinstance(one, _Unreadable) else len(one) for one in found]
        if items and not sum(num_rows):
            raise InvalidArgumentError(
                f"No captions were found in {len(items)} files, the first of which is {items[0].name!r}. State their "
                "place with captions=."
            )
        super().__init__(items, recipe, rows_per_file=num_rows, **dataset_options)


@dataclass(frozen=True)
class VideoTextRecipe(VideoRecipe):
    """The `Recipe` with which `VideoTextClips` makes a clip for each caption; see there for the arguments."""

    used_columns: ClassVar[frozenset[str]] = frozenset((CAPTIONS_COLUMN,))

    context_seconds: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if finite_number("context_seconds", self.context_seconds) < 0:
            raise InvalidArgumentError(f"context_seconds must be 0 or more (got {self.context_seconds!r}).")

    @uses_row_random
    def read(self, opened: VideoDecoder, item: Item, part: int) -> Sample:
        caption = _caption_of_row(item, part)
        sample = super().read(opened, self._segment(item, caption), part)
        caption_columns = {
            "caption_index": part,
            "caption_start_seconds": caption.start_seconds,
            "caption_end_seconds": caption.end_seconds,
            "caption_geometry": caption.geometry,
        }
        return replace(sample, label=caption.text, extra={**sample.extra, **caption_columns})

    @uses_row_random
    def position(self, opened: VideoDecoder, item: Item, part: int) -> float:
        return super().position(opened, self._segment(item, _caption_of_row(item, part)), part)

    def _segment(self, item: Item, caption: FileCaption) -> Item:
        start, end = caption.start_seconds - self.context_seconds, caption.end_seconds + self.context_seconds
        return replace(
            item,
            start_seconds=start if item.start_seconds is None else max(start, item.start_seconds),
            end_seconds=end if item.end_seconds is None else min(end, item.end_seconds),
        )


@starts_reading_at(lambda decoder, **_: getattr(decoder, "first_frame", 0))
def _spread_evenly(decoder: Any, *, num_frames: int) -> FrameBatch:
    """Decode the middle frame of each of ``num_frames`` equal parts of a caption."""
    length = len(decoder)
    frames: FrameBatch = decoder.get_frames_at([(2 * k + 1) * length // (2 * num_frames) for k in range(num_frames)])
    return frames


class _Unreadable(NamedTuple):
    """Stands for the captions of a video if they cannot be read. Reading the only row of this video raises an error."""

    reason: str


def _read_captions_of(
    item: Item, captions: CaptionPlace | Callable[[Item], Any], captions_language: str | Sequence[str] | None
) -> Item:
    captions_read: tuple[FileCaption, ...] | _Unreadable
    try:
        captions_read = tuple(
            caption
            for caption in find_captions(item, captions, captions_language)
            if (item.start_seconds is None or caption.start_seconds >= item.start_seconds)
            and (item.end_seconds is None or caption.start_seconds < item.end_seconds)
        )
    except (ReadError, StreamError) as error:
        captions_read = _Unreadable(str(error))
    return replace(item, extra={**item.extra, CAPTIONS_COLUMN: captions_read})


def _caption_of_row(item: Item, part: int) -> FileCaption:
    captions: Sequence[FileCaption] | _Unreadable = item.extra[CAPTIONS_COLUMN]
    if isinstance(captions, _Unreadable):
        raise ReadError(captions.reason)
    return captions[part]
