"""`DocumentPages` and `WordCrops`: datasets of document pages, and of word images for training text recognisers."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._engine.common import stages
from .._engine.common.checks import function, options_dict, path_text, real_number, whole_number
from .._engine.common.messages import progress
from .._engine.images.reading import MAX_PIXELS
from ..datasets._rows.dataset import MediaDataset, check_dataset_options
from ..datasets._rows.recipe import Recipe, misuse
from ..datasets._rows.samples import Sample
from ..datasets._sources.dispatch import as_items
from ..datasets._sources.items import Item, ListedItems, checked_classes
from ..datasets._sources.tables import is_empty_cell
from ..errors import InvalidArgumentError, MediaTensorError, MissingDependencyError, OpenError, SourceNotFoundError
from ..samplers._random import global_random, sampling_generator, uses_row_random

if TYPE_CHECKING:
    from ..ocr.io import Pages

#: Bytes of a file with the labels of words.
MAX_LABELS_BYTES = 1 << 30

#: Pages of a document.
MAX_PAGES = 1 << 20

#: Bytes of a decoded page that a worker keeps for the words on it. A larger page is decoded again for each word.
MAX_KEPT_PAGE_BYTES = 1 << 26

PageChoice: TypeAlias = Literal["all", "first", "random"]

_NUM_PAGES = "num_pages"

#: Default resolution in pixels per inch for pages of PDF files, as in `read_pdf`.
DEFAULT_DPI = 144.0


@dataclass(frozen=True)
class DocumentOptions:
    """Options for opening documents; see the arguments of `DocumentPages`."""

    dpi: float = DEFAULT_DPI
    max_pixels: int | None = MAX_PIXELS
    pdf_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < real_number("dpi", self.dpi) < math.inf:
            raise InvalidArgumentError(f"dpi must be a positive number (got {self.dpi!r}).")
        if self.max_pixels is not None:
            whole_number("max_pixels", self.max_pixels, at_least=1, or_none=True)


class Document:
    """An open document, which is a PDF file or an image file. It has at most `MAX_PAGES` pages."""

    def __init__(self, source: object, options: DocumentOptions) -> None:
        # Imported late, because the OCR package is large and only documents need it.
        from ..ocr.io._documents.pdf import DEFAULT_TIMEOUT_SECONDS
        from ..ocr.io.reader import open_document

        pdf_options = {"dpi": options.dpi, "timeout_seconds": DEFAULT_TIMEOUT_SECONDS, **options.pdf_options}
        self.pages: Pages = open_document(source, **{"max_pixels": options.max_pixels, **pdf_options})
        if len(self.pages) > MAX_PAGES:
            raise OpenError(f"The document has {len(self.pages)} pages, more than the limit of {MAX_PAGES}.")

    def close(self) -> None:
        # The file is closed when nothing refers to its pages any more.
        del self.pages


def apply_image_transform(transform: Callable[[Tensor], Tensor] | None, image: Tensor) -> Tensor:
    """Apply a user's transform to an image, and check that it returns a tensor (C, H, W)."""
    if transform is None:
        return image
    with stages.TRANSFORM, global_random():
        result = transform(image)
    if not isinstance(result, Tensor) or result.ndim != 3:
        got = f"of shape {tuple(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
        raise misuse(f"The transform must return a tensor (C, H, W) (got {got}).")
    return result


class DocumentPages(MediaDataset):
    """A dataset of document pages. Each row is a `Sample` with one page.

    Documents are PDF files, images, and TIFF files of several pages. PDF files need the extra ``ocr``. A page is
    rendered or decoded when its row is read. ``Sample.image`` is upright RGB, uint8 (3, H, W), with a white background
    under transparent parts. ``Sample.extra["page_index"]`` is the index of the page in the document, from 0. A document
    that cannot be opened has one row, and reading that row fails.

    Args:
        source: Paths, a folder, a manifest, or rows of a Hugging Face dataset; see `as_items`.
        pages: Which pages become rows. ``"all"``: every page is a row. To count the pages, the constructor opens every
            document that has no page count in a manifest column ``num_pages``. ``"first"``: each document has one row,
            its first page. ``"random"``: each reading of a row chooses a random page of the row's document.
        dpi: Resolution in pixels per inch at which pages of PDF files are rendered.
        max_pixels: Maximum number of pixels of a page; reading a larger page is an error. ``None`` means no limit.
        transform: Function that takes an image, uint8 (3, H, W), and returns a tensor (C, H, W). If it uses random
            numbers, they are different for each row.
        label: Function that returns the label of an `Item`; by default ``Item.label``.
        classes: Class names in the order of their numbers; see `VideoClips`.
        rows_per_file: With ``pages="random"``, the number of rows that each document has in an epoch.
        pdf_options: Further arguments of `read_pdf`: ``password``, ``rotation``, ``grayscale`` ..., and
            ``timeout_seconds`` (default 60), the time limit in seconds for a page. If a page takes longer, reading its
            row fails. ``timeout_seconds=None`` means no limit; use it only for trusted files.
        dataset_options: Arguments of `MediaDataset`: ``seed``, ``on_error``, ``max_consecutive_failures``,
            ``max_open_files``.

    Raises:
        InvalidArgumentError: if there are no documents or an argument is invalid.
        MissingDependencyError: if pages must be counted, and a package to open the documents is missing.

    Example:
        >>> from mediatensor.datasets import DocumentPages
        >>> dataset = DocumentPages(["report.pdf", "page.png"], pages="all", dpi=100, on_error="skip")
        >>> len(dataset), dataset[2].image.shape, dataset[2].source, dataset[2].extra["page_index"]
        (4, torch.Size([3, 389, 556]), 'report.pdf', 2)
    """

    def __init__(
        self,
        source: Any,
        *,
        pages: PageChoice = "all",
        dpi: float = DEFAULT_DPI,
        max_pixels: int | None = MAX_PIXELS,
        transform: Callable[[Tensor], Tensor] | None = None,
        label: Callable[[Item], Any] | None = None,
        classes: Sequence[str] | None = None,
        rows_per_file: int = 1,
        pdf_options: Mapping[str, Any] | None = None,
        **dataset_options: Any,
    ) -> None:
        check_dataset_options(self, dataset_options)
        if pages not in get_args(PageChoice):
            raise InvalidArgumentError(f"pages must be 'all', 'first' or 'random' (got {pages!r}).")
        if pages != "random" and rows_per_file != 1:
            raise InvalidArgumentError(
                f"rows_per_file needs pages='random' (got {rows_per_file!r} with pages={pages!r})."
            )
        recipe = PageRecipe(
            pages, DocumentOptions(dpi, max_pixels, options_dict("pdf_options", pdf_options)), transform
        )
        items = as_items(source, kind="document", label=label, classes=classes)
        self._classes = checked_classes(classes)
        num_rows: int | list[int] = rows_per_file
        if pages == "all":
            watched = progress(items, "counting pages", total=len(items), unit="file") if len(items) > 1 else items
            num_rows = [_num_pages(item, recipe) for item in watched]
        super().__init__(items, recipe, rows_per_file=num_rows, **dataset_options)


@dataclass(frozen=True)
class PageRecipe(Recipe):
    """Opens documents and reads images of their pages, for the dataset `DocumentPages`."""

    used_columns: ClassVar[frozenset[str]] = frozenset((_NUM_PAGES,))

    pages: PageChoice = "all"
    options: DocumentOptions = field(default_factory=DocumentOptions)
    transform: Callable[[Tensor], Tensor] | None = None

    def __post_init__(self) -> None:
        function("transform", self.transform)

    def open(self, item: Item) -> Document:
        return Document(item.source, self.options)

    @uses_row_random
    def read(self, opened: Document, item: Item, part: int) -> Sample:
        number = self._page_index(opened, part)
        with stages.DECODE:
            image = opened.pages.tensor(number)
        return Sample(image=apply_image_transform(self.transform, image), extra={"page_index": number})

    @uses_row_random
    def position(self, opened: Document, item: Item, part: int) -> float:
        return self._page_index(opened, part)

    def _page_index(self, document: Document, part: int) -> int:
        if self.pages == "random":
            return int(torch.randint(len(document.pages), (), device="cpu", generator=sampling_generator()))
        return part if self.pages == "all" else 0


def _num_pages(item: Item, recipe: PageRecipe) -> int:
    stated = _whole_number_of(item, _NUM_PAGES)
    if stated is not None:
        if not 1 <= stated <= MAX_PAGES:
            raise InvalidArgumentError(
                f"The column num_pages of {item.name} must be a whole number from 1 to {MAX_PAGES} (got {stated})."
            )
        return stated
    try:
        document = recipe.open(item)
    except (MissingDependencyError, InvalidArgumentError):
        raise
    except (MediaTensorError, OSError):  # reading the row will raise this error
        return 1
    try:
        return len(document.pages)
    finally:
        document.close()


BoxUnit: TypeAlias = Literal["auto", "pixels", "relative"]

#: The columns with the words.
WORD_COLUMNS = frozenset(("boxes", "texts", "text"))

# Relative coordinates may lie slightly outside the page. A page with words has more pixels than this.
_MAX_RELATIVE = 2.0


@dataclass(frozen=True)
class Words:
    """The words of a page.

    ``boxes`` is float64: (N, 4) for boxes (xmin, ymin, xmax, ymax), or (N, 4, 2) for four corner points, of which the
    first is the top left of the word in reading direction. Coordinates are fractions of the page's width and height if
    ``is_relative``, otherwise pixels. ``numbers`` are the indices of the words whose text is not blank.
    """

    boxes: NDArray[np.float64]
    texts: tuple[str, ...] | None
    numbers: tuple[int, ...]
    is_relative: bool


def words_of(columns: Mapping[str, Any], name: str, unit: BoxUnit) -> Words | None:
    """Return the words from the columns ``boxes`` and ``texts`` of a page; ``None`` if there is no column ``boxes``.

    With the unit "auto", coordinates are pixels if they have an integer type, or if any of them is above 2. Otherwise
    they are fractions. ``name`` is the name of the page in error messages.

    >>> words_of({"boxes": [[8, 4, 20, 9], [0, 0, 3, 3]], "texts": ["Dear", " "]}, "page.png", "auto").numbers
    (0,)
    """
    if columns.get("boxes") is None:
        return None
    given = _array(columns["boxes"], name)
    texts = _texts(columns.get("texts"), len(given), name)
    numbers = tuple(i for i in range(len(given)) if texts is None or texts[i].strip())
    is_integer = np.issubdtype(given.dtype, np.integer)
    boxes = given.astype(np.float64)
    if not np.isfinite(boxes).all():
        raise InvalidArgumentError(f"The boxes of {name} must be finite.")
    is_small = not is_integer and bool((np.abs(boxes) <= _MAX_RELATIVE).all())
    return Words(boxes, texts, numbers, is_small if unit == "auto" else unit == "relative")


def _array(value: Any, name: str) -> NDArray[Any]:
    try:
        boxes = np.asarray(value)
    except (TypeError, ValueError):
        boxes = np.empty(0, dtype=object)
    if boxes.size == 0 and boxes.dtype != object:
        return np.empty((0, 4))
    if boxes.shape[1:] == (2, 2):
        boxes = boxes.reshape(-1, 4)
    if boxes.dtype.kind not in "iuf" or boxes.shape[1:] not in ((4,), (4, 2)):
        raise InvalidArgumentError(
            f"The boxes of {name} must be numbers of shape (N, 4), as (xmin, ymin, xmax, ymax), or (N, 4, 2), with "
            f"four points for each box (got {boxes.dtype} of shape {boxes.shape})."
        )
    return boxes


def _texts(value: Any, num_boxes: int, name: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    texts = tuple(value) if isinstance(value, list | tuple | np.ndarray) else ()
    if len(texts) != num_boxes or not all(isinstance(text, str) for text in texts):
        raise InvalidArgumentError(
            f"The texts of {name} must be a list of {num_boxes} strings, one for each box (got {len(texts)} in a "
            f"{type(value).__name__})."
        )
    return tuple(map(str, texts))


def crop_word(page: NDArray[np.uint8], words: Words, number: int, name: str) -> NDArray[np.uint8]:
    """Cut the word ``number`` out of a page; return its upright image, uint8 (h, w, 3).

    Raises `InvalidArgumentError` if the box has no pixel of the page, or is larger than the page.
    """
    from ..ocr.utils._page_images import extract_crops, extract_rcrops

    height, width = page.shape[:2]
    box = words.boxes[number]
    size = np.array([width, height], dtype=np.float64)
    if box.ndim == 2:
        quad = box if not words.is_relative else box * size
        along, down = math.dist(*quad[:2].tolist()), math.dist(*quad[1:3].tolist())
        # Only an invalid annotation has a box that is larger than the page.
        if not along * down <= height * width:
            raise InvalidArgumentError(
                f"A box of {name} measures {along:.0f}x{down:.0f} pixels, more than the page, which is {width} wide "
                f"and {height} high."
            )
        (crop,) = extract_rcrops(page, (quad / size)[None])
    elif words.is_relative:
        (crop,) = extract_crops(page, box[None])
    else:
        pixels = np.round(box).clip(0, [width, height, width, height]).astype(np.int64)
        (crop,) = extract_crops(page, pixels[None])
    if crop.size == 0:
        raise InvalidArgumentError(
            f"Box {number} of {name}, {box.tolist()}, contains no pixel of the page, which is {width} wide and "
            f"{height} high. Check the unit of the coordinates (box_unit)."
        )
    return crop


class WordCrops(MediaDataset):
    """A dataset of word images with their texts. Each row is a `Sample` with one word.

    The words come from two kinds of files. A file with a column ``boxes`` is an annotated page. ``boxes`` has the box
    of each word, and the column ``texts`` has the text of each word. The columns are in a manifest or in
    ``Item.extra``. Each word is a row, except words with blank text. ``Sample.image`` is the upright word, RGB uint8
    (3, h, w), in its size on the page. ``Sample.label`` is the text of the word, and ``Sample.extra["word_index"]`` is
    the index of the word in ``boxes``. A file without a column ``boxes`` is the image of a single word. Its text is in
    the column ``text`` or, without this column, in the label of the `Item`.

    Some rows cannot be read. A page with an invalid annotation has one row, and reading that row fails. Reading also
    fails for a word whose box contains no pixel of the page.

    If rows of the same page are read one after another, the page is decoded only once; see ``rows_together`` of
    `Shuffle`.

    Args:
        source: The files with pages or words: items, a manifest, or rows of a Hugging Face dataset; see `as_items`. For
            a folder in docTR's training layout, use `from_labels`.
        box_unit: Unit of the coordinates. A box is (xmin, ymin, xmax, ymax), or the four corner points of the word,
            starting at its top left as seen in reading direction. ``"pixels"``: pixels of the page. ``"relative"``:
            fractions of the page's width and height. ``"auto"``: pixels if the coordinates of a page have an integer
            type or any of them is above 2, else relative.
        max_pixels: Maximum number of pixels of a page; reading a larger page is an error. ``None`` means no limit.
        dpi: Resolution in pixels per inch at which pages of PDF files are rendered (needs the extra ``ocr``). If a
            document has several pages, the column ``page_index`` selects one. The default is 0, the first page.
        transform: Function that takes an image, uint8 (3, h, w), and returns a tensor (C, h, w). If it uses random
            numbers, they are different for each row.
        label: Function that takes the `Item` of a file and returns the label, for files without a column ``texts``. By
            default, the label is the column ``text`` or, without this column, ``Item.label``.
        dataset_options: Arguments of `MediaDataset`: ``seed``, ``on_error``, ``max_consecutive_failures``,
            ``max_open_files``.

    Raises:
        InvalidArgumentError: if there are no words, the text of a word is not a string, or an argument is invalid.

    Example:
        >>> from mediatensor.datasets import Item, WordCrops
        >>> page = Item("form.png", extra={"boxes": [[84, 109, 136, 119]], "texts": ["Total:"]})
        >>> dataset = WordCrops([page])
        >>> len(dataset)
        1
        >>> dataset[0].image.shape, dataset[0].label  # doctest: +SKIP
        (torch.Size([3, 10, 52]), 'Total:')
    """

    def __init__(
        self,
        source: Any,
        *,
        box_unit: BoxUnit = "auto",
        max_pixels: int | None = MAX_PIXELS,
        dpi: float = DEFAULT_DPI,
        transform: Callable[[Tensor], Tensor] | None = None,
        label: Callable[[Item], Any] | None = None,
        **dataset_options: Any,
    ) -> None:
        check_dataset_options(self, dataset_options)
        if box_unit not in get_args(BoxUnit):
            raise InvalidArgumentError(f"box_unit must be 'auto', 'pixels' or 'relative' (got {box_unit!r}).")
        recipe = WordRecipe(box_unit, DocumentOptions(dpi, max_pixels), transform)
        items = as_items(source, kind="image", label=_text_of_word if label is None else label)
        num_words = [_num_rows(item, box_unit) for item in items]
        if num_words and not any(num_words):
            raise InvalidArgumentError("There are no words: no page of the source has a box with a text.")
        super().__init__(items, recipe, rows_per_file=num_words, **dataset_options)

    @classmethod
    def from_labels(cls, images: str | os.PathLike[str], labels: Any = None, **options: Any) -> Self:
        """Make a dataset of single-word images from a folder in docTR's layout for training text recognisers.

        Args:
            images: The folder with the images.
            labels: A mapping ``{file name: text}``, or the path of a JSON file with such a mapping. By default, the
                file ``labels.json`` next to the folder is read.
            options: Further arguments of `WordCrops`.

        Returns:
            A `WordCrops` dataset with one row for each file name.

        Raises:
            SourceNotFoundError: if the folder or file does not exist.
            OpenError: if the file of labels is not JSON, or larger than 1 GiB.
            InvalidArgumentError: if ``labels`` is empty, or does not map names to texts.

        Example:
            >>> dataset = WordCrops.from_labels("train/images")  # doctest: +SKIP
            >>> dataset[0].label  # doctest: +SKIP
            'invoice'
        """
        folder = Path(path_text("images", images))
        read_from: list[Path] = []
        if not isinstance(labels, Mapping):
            read_from = [folder.parent / "labels.json" if labels is None else Path(path_text("labels", labels))]
            labels = _read_texts(read_from[0])
        return cls(
            ListedItems([Item(folder / name, label=text) for name, text in labels.items()], read_from), **options
        )


@dataclass(frozen=True)
class WordRecipe(Recipe):
    """Opens pages and reads images of their words, for the dataset `WordCrops`."""

    used_columns: ClassVar[frozenset[str]] = WORD_COLUMNS

    box_unit: BoxUnit = "auto"
    options: DocumentOptions = field(default_factory=DocumentOptions)
    transform: Callable[[Tensor], Tensor] | None = None

    def __post_init__(self) -> None:
        function("transform", self.transform)

    def open(self, item: Item) -> _Pages:
        return _Pages(item.source, self.options)

    @uses_row_random
    def read(self, opened: _Pages, item: Item, part: int) -> Sample:
        words = opened.words(item, self.box_unit)
        page = opened.page(page_index_of(item))
        if words is None:
            return Sample(image=apply_image_transform(self.transform, _tensor(page)))
        number = words.numbers[part]
        crop = _tensor(crop_word(page, words, number, item.name))
        return Sample(
            image=apply_image_transform(self.transform, crop),
            label=None if words.texts is None else words.texts[number],
            extra={"word_index": number},
        )


class _Pages(Document):
    """An open document that keeps in memory the page and the words that were read last."""

    def __init__(self, source: object, options: DocumentOptions) -> None:
        super().__init__(source, options)
        self._last_page: tuple[int, NDArray[np.uint8]] | None = None
        self._last_words: tuple[Item, Words | None] | None = None

    def words(self, item: Item, unit: BoxUnit) -> Words | None:
        # The next item may have other words on the same page.
        if self._last_words is None or self._last_words[0] is not item:
            self._last_words = (item, words_of(item.extra, item.name, unit))
        return self._last_words[1]

    def page(self, number: int) -> NDArray[np.uint8]:
        if self._last_page is not None and self._last_page[0] == number:
            return self._last_page[1]
        with stages.DECODE:
            page = self.pages[number]
        self._last_page = (number, page) if page.nbytes <= MAX_KEPT_PAGE_BYTES else None
        return page


def _tensor(image: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))


def _text_of_word(item: Item) -> Any:
    """Return the column ``text`` of an item or, without this column, its label. For a single word, it must be text."""
    text = item.extra.get("text", item.label)
    if "boxes" not in item.extra and not isinstance(text, str | None):
        raise InvalidArgumentError(
            f"The text of the word {item.name} must be a string (got {text!r}). In a manifest, put texts into the "
            "column 'text', because labels are class names and become numbers."
        )
    return text


def _num_rows(item: Item, unit: BoxUnit) -> int:
    try:
        words = words_of(item.extra, item.name, unit)
    except InvalidArgumentError:  # reading the row will raise this error
        return 1
    return 1 if words is None else len(words.numbers)


def page_index_of(item: Item) -> int:
    """Return the index of the page to read, from the column ``page_index`` of an item; 0 if it has no value."""
    return _whole_number_of(item, "page_index") or 0


def _whole_number_of(item: Item, column: str) -> int | None:
    given: Any = item.extra.get(column)
    if is_empty_cell(given):
        return None
    try:
        number = int(given)
    except (TypeError, ValueError, OverflowError):
        number = None
    # A CSV file stores text, and a table with missing values stores floats.
    if number is None or isinstance(given, bool) or (isinstance(given, float) and given != number):
        raise InvalidArgumentError(f"The column {column} of {item.name} must be a whole number (got {given!r}).")
    return number


def read_labels(file: Path, hint: str = "") -> Any:
    """Read the labels from a JSON file of at most 1 GiB. ``hint`` is added to the error message of a missing file."""
    try:
        if file.stat().st_size > MAX_LABELS_BYTES:
            raise OpenError(f"Could not open {file}: it has more than {MAX_LABELS_BYTES} bytes, the limit.")
        with file.open(encoding="utf-8") as stream:
            return json.load(stream)
    except FileNotFoundError:
        raise SourceNotFoundError(f"Could not open {file}: this file of labels does not exist{hint}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise OpenError(f"Could not open {file} as JSON: {error}.") from None


def _read_texts(file: Path) -> dict[str, str]:
    labels = read_labels(file, "; pass labels=")
    if not isinstance(labels, dict) or not all(isinstance(text, str) for text in labels.values()):
        raise InvalidArgumentError(
            f"{file} must contain a JSON object that maps file names to texts, {{'1.png': 'invoice', ...}}."
        )
    return labels
