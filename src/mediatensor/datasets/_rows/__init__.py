"""How a row of a dataset becomes a sample.

`samples` has the data types. A row is a `RowSpec` in `recipe`: its file, its seeds, and the `Recipe` that opens the
file and reads a sample of it. `reading` reads rows under the error policy, and `torch_loaders`
draws their seeds where torch's own loader reads them. `dataset` and `tar_samples` are datasets of
rows, with indices and as a stream. `clips`, `captions`, `segments` and `documents` are what recipes share, and
`transport` takes tensors from worker to trainer. Nothing in this room knows which rows make a batch.
"""

from __future__ import annotations

from .captions import (
    CaptionPlace,
    CaptionTrack,
    ClipCaption,
    FoundCaption,
    Tokenizer,
    check_caption_places,
    find_captions,
    with_token_ids,
)
from .clips import (
    Sound,
    apply_frames_transform,
    check_is_one,
    check_rows_differ,
    effective_fps,
    first_request,
    frames_sampler,
    ready_for_rows,
    sound_fields,
    sound_sampler,
    without_clip_dimension,
)
from .dataset import ColumnDataset, MediaDataset, RowKey, check_dataset_options, rank_and_number
from .documents import DEFAULT_DPI, Document, DocumentOptions, apply_image_transform
from .reading import RowReader
from .recipe import LeftOut, OpenFiles, Recipe, RowSpec, checked_epoch, derived_seed
from .samples import SILENT_SPANS, Batch, ColumnDict, Failure, FailureReport, Sample, Skipped, Timing
from .segments import segment_of
from .tar_samples import TarSamples
from .transport import side_by_side, why_no_workers

__all__ = [
    "DEFAULT_DPI",
    "SILENT_SPANS",
    "Batch",
    "CaptionPlace",
    "CaptionTrack",
    "ClipCaption",
    "ColumnDataset",
    "ColumnDict",
    "Document",
    "DocumentOptions",
    "Failure",
    "FailureReport",
    "FoundCaption",
    "LeftOut",
    "MediaDataset",
    "OpenFiles",
    "Recipe",
    "RowKey",
    "RowReader",
    "RowSpec",
    "Sample",
    "Skipped",
    "Sound",
    "TarSamples",
    "Timing",
    "Tokenizer",
    "apply_frames_transform",
    "apply_image_transform",
    "check_caption_places",
    "check_dataset_options",
    "check_is_one",
    "check_rows_differ",
    "checked_epoch",
    "derived_seed",
    "effective_fps",
    "find_captions",
    "first_request",
    "frames_sampler",
    "rank_and_number",
    "ready_for_rows",
    "segment_of",
    "side_by_side",
    "sound_fields",
    "sound_sampler",
    "why_no_workers",
    "with_token_ids",
    "without_clip_dimension",
]
