"""`VideoTextClips`: clips of videos with their captions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from .._engine.common.checks import finite_number, options_dict
from .._engine.common.messages import progress
from ..decoders import VideoDecoder
from ..errors import InvalidArgumentError, ReadError, StreamError
from ..frames import FrameBatch
from ..samplers import check_clip_length
from ._rows.captions import CaptionPlace, FoundCaption, check_caption_places, find_captions
from ._rows.dataset import MediaDataset, check_dataset_options
from ._rows.samples import Sample
from ._sources.dispatch import as_items
from ._sources.items import Item
from ._sources.sidecars import CAPTIONS_COLUMN
from ._video_clips import VideoRecipe

__all__ = ["VideoTextClips", "VideoTextRecipe"]


class _Unreadable(NamedTuple):
    """Stands for captions that cannot be read; the row that stands for them fails with this reason."""

    reason: str


class VideoTextClips(MediaDataset):
    """Clips of videos with their captions, one caption a row, for those who train captioning models.

    ``Sample.frames`` are frames of the time of a caption, and ``Sample.label`` is its text. ``extra`` has
    ``caption_index``, ``caption_start_seconds``, ``caption_end_seconds``, and ``caption_geometry``: where text that was
    read in the pictures stands, ((xmin, ymin), (xmax, ymax)), relative to the upright frame; else ``None``.

    The captions of all videos are read at once, when the dataset is made. A video without any has no row. One whose
    captions cannot be read has one row, which fails.

    Args:
        source: The videos: paths, a folder, a manifest, rows of a Hugging Face dataset; see `as_items`.
        sampler: Takes a `VideoDecoder`, whose frames are those of a caption, and gives a `FrameBatch`: one of
            `mediatensor.samplers` with its arguments bound by ``functools.partial``, or a function of your own. By
            default ``num_frames_per_clip`` frames, spread evenly over the caption.
        captions: Where captions are, as of `VideoAudioClips`; by default ``"any"``: in the column ``captions``, or else
            in a file beside the video, or else within it. A function gives those of an `Item`: a `VideoReading`, or the
            path of one that was saved as JSON, of which the captions are taken; the path or the text of a subtitle
            file; or any series of objects that have ``text``, ``start_seconds`` and ``end_seconds``, such as `Captions`
            and `SubtitleDecoder`.
        captions_language: Which captions are wanted of several, as of `VideoAudioClips`.
        num_frames_per_clip: For the default sampler.
        context_seconds: How much earlier than its caption a clip may begin, and how much later it may end.
        keep_clip_dimension: As for `VideoClips`.
        transform: As for `VideoClips`.
        decoder_options: As for `VideoClips`.
        dataset_options: Arguments of `MediaDataset`: ``seed``, ``on_error``, ``max_consecutive_failures``,
            ``max_open_files``.

    Raises:
        InvalidArgumentError: if there are no captions, or an argument is not among the accepted ones.

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
        items = [_with_captions(item, captions or "any", captions_language) for item in watched]
        num_rows = [_num_rows(item) for item in items]
        if items and not sum(num_rows):
            raise InvalidArgumentError(
                f"There are no captions in {len(items)} files, the first of which is {items[0].name!r}. Say by "
                "captions= where they are."
            )
        super().__init__(items, recipe, rows_per_file=num_rows, **dataset_options)


@dataclass(frozen=True)
class VideoTextRecipe(VideoRecipe):
    """How a clip with its caption is made of a video; see `VideoTextClips`."""

    used_columns: ClassVar[frozenset[str]] = frozenset((CAPTIONS_COLUMN,))

    context_seconds: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if finite_number("context_seconds", self.context_seconds) < 0:
            raise InvalidArgumentError(f"context_seconds must be 0 or more (got {self.context_seconds!r}).")

    def read(self, opened: VideoDecoder, item: Item, part: int) -> Sample:
        caption = _caption(item, part)
        sample = super().read(opened, self._segment(item, caption), part)
        own = {
            "caption_index": part,
            "caption_start_seconds": caption.start_seconds,
            "caption_end_seconds": caption.end_seconds,
            "caption_geometry": caption.geometry,
        }
        return replace(sample, label=caption.text, extra={**sample.extra, **own})

    def position(self, opened: VideoDecoder, item: Item, part: int) -> float:
        return super().position(opened, self._segment(item, _caption(item, part)), part)

    def _segment(self, item: Item, caption: FoundCaption) -> Item:
        """The item of the time of a caption."""
        start, end = caption.start_seconds - self.context_seconds, caption.end_seconds + self.context_seconds
        return replace(
            item,
            start_seconds=start if item.start_seconds is None else max(start, item.start_seconds),
            end_seconds=end if item.end_seconds is None else min(end, item.end_seconds),
        )


def _spread_evenly(decoder: Any, *, num_frames: int) -> FrameBatch:
    """The frames in the middle of so many equal parts of a caption."""
    length = len(decoder)
    frames: FrameBatch = decoder.get_frames_at([(2 * k + 1) * length // (2 * num_frames) for k in range(num_frames)])
    return frames


def _caption(item: Item, part: int) -> FoundCaption:
    """The caption of a row.

    Raises:
        ReadError: if the captions of the file could not be read.
    """
    captions: Sequence[FoundCaption] | _Unreadable = item.extra[CAPTIONS_COLUMN]
    if isinstance(captions, _Unreadable):
        raise ReadError(captions.reason)
    return captions[part]


def _num_rows(item: Item) -> int:
    captions = item.extra[CAPTIONS_COLUMN]
    return 1 if isinstance(captions, _Unreadable) else len(captions)


def _with_captions(
    item: Item, captions: CaptionPlace | Callable[[Item], Any], captions_language: str | Sequence[str] | None
) -> Item:
    """The item with those of its captions that start within it, in place of where they are."""
    found: Any
    try:
        found = tuple(
            caption
            for caption in find_captions(item, captions, captions_language)
            if (item.start_seconds is None or caption.start_seconds >= item.start_seconds)
            and (item.end_seconds is None or caption.start_seconds < item.end_seconds)
        )
    except (ReadError, StreamError) as error:
        found = _Unreadable(str(error))
    return replace(item, extra={**item.extra, CAPTIONS_COLUMN: found})
