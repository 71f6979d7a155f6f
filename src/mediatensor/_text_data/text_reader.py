"""`TextReader`: read the text of documents and videos into columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._engine.common import stages
from .._engine.common.checks import TIME_TOLERANCE, function, options_dict, real_number
from .._engine.common.devices import checked_device
from .._engine.common.locks import Closing, ForkSafeLock, cached_property
from .._engine.index.frame_index import clock_of_index
from ..datasets._rows.recipe import Recipe
from ..datasets._rows.samples import Sample
from ..datasets._sources.items import Item
from ..decoders import VideoDecoder
from ..distributed._columns import AnyColumn, Column, ListColumn, RowMapper, TextColumn, number_or_none
from ..errors import InvalidArgumentError, OutOfRangeError, PageError
from .documents import DEFAULT_DPI, Document, DocumentOptions

_MAX_FRAMES = 100_000

# Number of frames to decode at a time, so that a video need not fit in memory.
_FRAMES_AT_A_TIME = 4


class LazyPredictor:
    """Loads a predictor and its models when it is first used. Pickling does not include the models."""

    def __init__(self, options: dict[str, Any], make: Callable[[], Any] | None, device: str) -> None:
        self._options = options
        self._make = make
        self._device = device
        self._loaded: Any = None
        self._lock = ForkSafeLock()

    def load(self) -> Any:
        with self._lock:
            if self._loaded is None:
                if self._make is not None:
                    predictor = self._make()
                else:
                    # Imported late, because the OCR package is large and clips do not need it.
                    from ..ocr import ocr_predictor

                    predictor = ocr_predictor(**{"pretrained": True, **self._options})
                has_device = hasattr(predictor, "to")
                self._loaded = predictor.to(checked_device(self._device)) if has_device else predictor
            return self._loaded

    def __reduce__(self) -> tuple[type[LazyPredictor], tuple[Any, ...]]:
        return LazyPredictor, (self._options, self._make, self._device)


# The separator of `Document.render`.
_PAGE_BREAK = "\n\n\n\n"


class TextReader(RowMapper):
    """Detects and recognises the text in each file of a batch. Each row has one file: an image, a PDF file, or a video.

    Call the reader with a batch, a mapping from column names to columns. It returns the batch with these new columns:

    * ``text``: the whole text in reading order, with blank lines between blocks and pages.
    * ``words``: a list of strings, the recognised words. The next four columns have one value for each word.
    * ``confidences``: float32 (words,), in [0, 1].
    * ``boxes``: float32 (words, 4): (xmin, ymin, xmax, ymax) as fractions of the page's width and height. The box of a
      rotated word is axis-aligned and encloses the word.
    * ``pages``: int64 (words,): for each word, the index of its page, from 0. For a video, it is the index of the frame
      among the frames that are read.
    * ``pts_seconds``: float64 (words,): for each word, the time of its frame in the video in seconds; NaN for pages of
      documents.
    * ``source``: the path, or another name of the file.
    * ``error``: why the file, or some of its pages, could not be read; empty if there was no error. The other columns
      have the text of all pages that could be read.
    * ``n_replaced``: number of damaged frames that were replaced because of ``decoder_options={"on_error":
      "nearest"}``.

    If a batch has an input column ``page``, only the page or frame with the index in this column is read. The models
    are loaded when a process gets its first batch.

    Args:
        every_seconds: For videos, the interval in seconds between the frames whose text is read. ``None`` for images
            and PDF files.
        dpi: Resolution in pixels per inch at which pages of PDF files are rendered.
        predictor_options: Arguments of `mediatensor.ocr.ocr_predictor`: ``det_arch``, ``reco_arch`` ... Unlike there,
            ``pretrained`` is ``True`` by default.
        make_predictor: Function that takes no arguments and returns your own predictor. Like an `OCRPredictor`, the
            predictor must take a list of pages, uint8 arrays (H, W, 3), and return a document with these pages.
            ``None`` means the predictor of `mediatensor.ocr.ocr_predictor`.
        device: Torch device of the models, such as ``"cuda"``.
        pdf_options: Further arguments of `read_pdf`: ``password`` ..., and ``timeout_seconds`` (default 60), the time
            limit in seconds for a page. If a page takes longer, reading it fails, and the column ``error``
            says so. ``timeout_seconds=None`` means no limit; use it only for trusted files.
        decoder_options: For videos, arguments of `VideoDecoder`: ``on_error``, ``stream_index`` ...
        page_column: Name of the input column with page or frame indices.
        options: Arguments of `RowMapper`: ``path_column``, ``bytes_column``, ``prefix``, ``keep_bytes``,
            ``max_open_files`` ...

    Raises:
        InvalidArgumentError: if an argument is invalid.

    Example:
        >>> import ray  # doctest: +SKIP
        >>> texts = ray.data.read_binary_files("scans", include_paths=True).map_batches(
        ...     TextReader, batch_size=8, num_cpus=2, compute=ray.data.ActorPoolStrategy(size=4)
        ... )  # doctest: +SKIP
        >>> texts.select_columns(["source", "text", "error"]).write_parquet("texts")  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        every_seconds: float | None = None,
        dpi: float = DEFAULT_DPI,
        predictor_options: Mapping[str, Any] | None = None,
        make_predictor: Callable[[], Any] | None = None,
        device: str = "cpu",
        pdf_options: Mapping[str, Any] | None = None,
        decoder_options: Mapping[str, Any] | None = None,
        page_column: str = "page",
        **options: Any,
    ) -> None:
        if every_seconds is not None and not 0 < real_number("every_seconds", every_seconds) < math.inf:
            raise InvalidArgumentError(f"every_seconds must be a positive number or None (got {every_seconds!r}).")
        if every_seconds is None and decoder_options:
            raise InvalidArgumentError("decoder_options are only for videos, which also need every_seconds.")
        self._predictor = LazyPredictor(
            options_dict("predictor_options", predictor_options), function("make_predictor", make_predictor), device
        )
        recipe = TextRecipe(
            self._predictor,
            every_seconds,
            DocumentOptions(dpi, pdf_options=options_dict("pdf_options", pdf_options)),
            options_dict("decoder_options", decoder_options, VideoDecoder),
            page_column,
        )
        columns: list[AnyColumn] = [
            TextColumn("text"),
            ListColumn("words"),
            Column("confidences", "float32", (None,)),
            Column("boxes", "float32", (None, 4)),
            Column("pages", "int64", (None,)),
            Column("pts_seconds", "float64", (None,)),
        ]
        super().__init__(recipe, columns, used_columns=(page_column,), **options)

    def prepare(self) -> None:
        self._predictor.load()

    def values(self, sample: Sample) -> dict[str, Any]:
        values: dict[str, Any] = sample.extra[_TEXT_KEY]
        return values


# Key of the text in ``Sample.extra``.
_TEXT_KEY = "text"


@dataclass(frozen=True)
class PageImage:
    """A page or a frame from which to read text.

    ``number`` is the index of the page in the document, or of the frame among the frames to read. ``pixels`` is uint8
    (H, W, 3), or ``None`` if the image is missing for the reason in ``error``. ``num_replaced`` is 1 if the frame is
    damaged and another frame replaces it.
    """

    number: int
    pixels: NDArray[np.uint8] | None
    seconds: float = math.nan
    num_replaced: int = 0
    error: str = ""


class DocumentSource(Document, Closing):
    def images(self, number: int | None) -> Iterator[PageImage]:
        """Yield all pages of the document or, if ``number`` is given, only the page with this index."""
        for i in _select_numbers(number, len(self.pages), "page"):
            try:
                yield PageImage(i, self.pages[i])
            except PageError as error:
                yield PageImage(i, None, error=str(error))


class VideoSource(Closing):
    """Reads frames of a video at regular intervals."""

    def __init__(self, decoder: VideoDecoder, every_seconds: float) -> None:
        self._decoder = decoder
        self._every_seconds = every_seconds

    @cached_property
    def _indices(self) -> list[int]:
        index = self._decoder.frame_index
        clock = clock_of_index(index).for_steps(self._every_seconds)
        begin, end = clock.exact_start(index.begin_seconds), clock.exact_end(index.end_seconds)
        times = np.array(frame_times(begin, end, clock.exact_step(self._every_seconds)))
        return list(dict.fromkeys(clock.played_at(times).tolist()))

    def images(self, number: int | None) -> Iterator[PageImage]:
        """Yield all frames at the intervals. ``number``, if given, selects a single one of them, counted from 0."""
        numbers = _select_numbers(number, len(self._indices), "frame")
        for start in range(0, len(numbers), _FRAMES_AT_A_TIME):
            yield from self._decode_frames(numbers[start : start + _FRAMES_AT_A_TIME])

    def _decode_frames(self, numbers: Sequence[int]) -> Iterator[PageImage]:
        frames = self._decoder.get_frames_at([self._indices[i] for i in numbers]).to("cpu")
        left_out = {frame.position for frame in frames.replaced if frame.used_index is None}
        replaced = {frame.position for frame in frames.replaced if not frame.num_missing} - left_out
        present = [(k, i) for k, i in enumerate(numbers) if k not in left_out]
        for frame, (k, i) in zip(frames, present, strict=True):
            yield PageImage(i, frame.data.numpy(), float(frame.pts_seconds), int(k in replaced))

    def close(self) -> None:
        self._decoder.close()


def frame_times(begin_seconds: float, end_seconds: float, every_seconds: float) -> list[float]:
    """Return evenly spaced times in seconds, from the beginning of a video up to but not including its end.

    >>> frame_times(1.0, 2.0, 0.4)
    [1.0, 1.4, 1.8]
    """
    count = math.ceil((end_seconds - begin_seconds) / every_seconds)
    if count > _MAX_FRAMES:
        raise InvalidArgumentError(
            f"every_seconds = {every_seconds} selects {count} frames of this video, more than the limit of "
            f"{_MAX_FRAMES}. Pass a larger number."
        )
    times: list[Any] = [begin_seconds + k * every_seconds for k in range(max(count, 1))]
    return times[:1] + [time for time in times[1:] if time < end_seconds - TIME_TOLERANCE]


def _select_numbers(number: int | None, count: int, noun: str) -> Sequence[int]:
    if number is None:
        return range(count)
    if not 0 <= number < count:
        raise OutOfRangeError(f"There is no {noun} {number}: the {noun}s are numbered from 0 to {count - 1}.")
    return [number]


@dataclass(frozen=True)
class TextRecipe(Recipe):
    """Opens documents or videos and reads their text, for `TextReader`."""

    used_columns: ClassVar[frozenset[str]] = frozenset()

    predictor: LazyPredictor
    every_seconds: float | None = None
    document_options: DocumentOptions = field(default_factory=DocumentOptions)
    decoder_options: dict[str, Any] = field(default_factory=dict)
    page_column: str = "page"

    def open(self, item: Item) -> DocumentSource | VideoSource:
        if self.every_seconds is None:
            return DocumentSource(item.source, self.document_options)
        decoder = VideoDecoder(item.source, **{**self.decoder_options, "dimension_order": "NHWC"})
        return VideoSource(decoder, self.every_seconds)

    def read(self, opened: DocumentSource | VideoSource, item: Item, part: int) -> Sample:
        from ..ocr.utils.geometry import box_around

        texts: list[str] = []
        words: list[tuple[PageImage, Any]] = []
        errors: list[str] = []
        num_replaced = 0
        for image in opened.images(self._page(item)):
            error: str | None = image.error
            if image.pixels is not None:
                with stages.TRANSFORM:
                    # Predict one page at a time, so that the text of a page does not depend on other pages.
                    page = self.predictor.load()([image.pixels]).pages[0]
                error = page.error
            if error is not None:
                errors.append(f"PageError: Page {image.number} (counted from 0): {error}")
                continue
            num_replaced += image.num_replaced
            texts.append(page.render())
            words += [(image, word) for word in _words_of(page)]
        boxes = [box_around(word.geometry) for _, word in words]
        values = {
            "text": _PAGE_BREAK.join(texts),
            "words": [word.value for _, word in words],
            "confidences": np.array([word.confidence for _, word in words], np.float32),
            "boxes": np.array(boxes, np.float32).reshape(-1, 4),
            "pages": np.array([image.number for image, _ in words], np.int64),
            "pts_seconds": np.array([image.seconds for image, _ in words], np.float64),
            "error": "; ".join(errors),
            "n_replaced": num_replaced,
        }
        return Sample(extra={_TEXT_KEY: values})

    def position(self, opened: DocumentSource | VideoSource, item: Item, part: int) -> float:
        return self._page(item) or 0

    def _page(self, item: Item) -> int | None:
        return number_or_none(item.extra.get(self.page_column), self.page_column)


def _words_of(page: Any) -> list[Any]:
    words = [word for block in page.blocks for line in block.lines for word in line.words]
    # A custom predictor may return pages without tables, or cells without words.
    cells = [cell for table in getattr(page, "tables", ()) for cell in table.cells]
    return words + [word for cell in cells for word in getattr(cell, "words", ())]
