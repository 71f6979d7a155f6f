"""`VideoTextClips`: clips of videos with their captions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from .._common.checks import finite_number, function, options_dict, shown
from .._common.messages import progress
from ..decoders import SubtitleDecoder, VideoDecoder
from ..errors import InvalidArgumentError, MediaTensorError, ReadError
from ..frames import FrameBatch
from ..samplers import check_clip_length
from ._rows import MediaDataset, Sample, check_dataset_options
from ._sources import Item, as_items
from ._video_clips import VideoRecipe

__all__ = ["VideoTextClips", "VideoTextRecipe"]

#: The column of a file that has its captions, or says where they are.
_CAPTIONS = "captions"


class _Caption(NamedTuple):
    """One caption: its text, its times, and further columns of its row."""

    text: str
    start_seconds: float
    end_seconds: float
    columns: dict[str, Any]


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
        captions: Gives the captions of an `Item`: a `VideoReading`, or the path of one that was saved as JSON, of
            which the captions are taken; the path of a subtitle file; or any series of objects that have ``text``,
            ``start_seconds`` and ``end_seconds``, such as `Captions` and `SubtitleDecoder`. By default they come from
            the column ``captions``, which has one of these, or else from the subtitles within the video.
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
        captions: Callable[[Item], Any] | None = None,
        num_frames_per_clip: int = 16,
        context_seconds: float = 0.0,
        keep_clip_dimension: bool = False,
        transform: Callable[[FrameBatch], FrameBatch | Tensor] | None = None,
        decoder_options: Mapping[str, Any] | None = None,
        **dataset_options: Any,
    ) -> None:
        check_dataset_options(self, dataset_options)
        function("captions", captions)
        if sampler is None:
            sampler = partial(_spread_evenly, num_frames=check_clip_length(num_frames_per_clip))
        options = options_dict("decoder_options", decoder_options, VideoDecoder)
        recipe = VideoTextRecipe(sampler, keep_clip_dimension, transform, options, context_seconds)
        files = as_items(source, kind="video")
        watched = progress(files, "reading captions", total=len(files), unit="file") if len(files) > 1 else files
        items = [_with_captions(item, captions) for item in watched]
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

    used_columns: ClassVar[frozenset[str]] = frozenset((_CAPTIONS,))

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
        }
        return replace(sample, label=caption.text, extra={**sample.extra, **own, **caption.columns})

    def position(self, opened: VideoDecoder, item: Item, part: int) -> float:
        return super().position(opened, self._segment(item, _caption(item, part)), part)

    def _segment(self, item: Item, caption: _Caption) -> Item:
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


def _caption(item: Item, part: int) -> _Caption:
    """The caption of a row.

    Raises:
        ReadError: if the captions of the file could not be read.
    """
    captions: Sequence[_Caption] | _Unreadable = item.extra[_CAPTIONS]
    if isinstance(captions, _Unreadable):
        raise ReadError(captions.reason)
    return captions[part]


def _num_rows(item: Item) -> int:
    captions = item.extra[_CAPTIONS]
    return 1 if isinstance(captions, _Unreadable) else len(captions)


def _with_captions(item: Item, captions: Callable[[Item], Any] | None) -> Item:
    """The item with its captions in place of where they are."""
    try:
        if captions is not None:
            found = _read(captions(item), item)
        elif item.extra.get(_CAPTIONS) is not None:
            found = _read(item.extra[_CAPTIONS], item)
        else:
            with SubtitleDecoder(item.source) as decoder:
                found = _read(list(decoder), item)
    except (MediaTensorError, OSError) as error:
        reason = f"The captions of {item.name!r} cannot be read: {error}"
        return replace(item, extra={**item.extra, _CAPTIONS: _Unreadable(reason)})
    return replace(item, extra={**item.extra, _CAPTIONS: found})


def _read(given: Any, item: Item) -> tuple[_Caption, ...]:
    """The captions that start within an item and last for some time.

    Raises:
        InvalidArgumentError: if this is nothing that captions are taken from.
        MediaTensorError, OSError: if a file cannot be read.
    """
    if isinstance(given, str | os.PathLike):
        given = _read_file(Path(given))
    given = getattr(given, "captions", given)  # of a VideoReading
    if not isinstance(given, Iterable) or isinstance(given, bytes):
        raise InvalidArgumentError(
            f"captions must be a VideoReading, a path, or a series of captions (got {shown(given)})."
        )
    found = []
    for one in given:
        try:
            text, start, end = one.text, one.start_seconds, one.end_seconds
        except AttributeError:
            raise InvalidArgumentError(
                f"A caption must have text, start_seconds and end_seconds (got {shown(one)})."
            ) from None
        start, end = finite_number("start_seconds", start), finite_number("end_seconds", end)
        begins_within = (item.start_seconds is None or start >= item.start_seconds) and (
            item.end_seconds is None or start < item.end_seconds
        )
        if begins_within and start < end and text.strip():
            found.append(_Caption(text, start, end, {"caption_geometry": getattr(one, "geometry", None)}))
    return tuple(found)


def _read_file(path: Path) -> Any:
    """What a file has of captions: a reading that was saved, or subtitles."""
    if path.suffix.lower() != ".json":
        with SubtitleDecoder(path) as decoder:
            return list(decoder)
    # Reading text is a large part of the package, which those who have no such files need not wait for.
    from ..ocr.video import VideoReading

    return VideoReading.load(path)
