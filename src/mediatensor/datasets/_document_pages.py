"""`DocumentPages`: pages of documents."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from .._common import stages
from .._common.checks import function, options_dict, real_number, whole_number
from .._common.messages import progress
from .._images import MAX_PIXELS
from ..errors import InvalidArgumentError, MediaTensorError, MissingDependencyError, OpenError
from ._rows.dataset import MediaDataset, check_dataset_options
from ._rows.recipe import Recipe
from ._rows.samples import Sample
from ._sources.items import Item
from ._sources.sources import as_items

if TYPE_CHECKING:
    from ..ocr.io import Pages

__all__ = [
    "DEFAULT_DPI",
    "MAX_PAGES",
    "Document",
    "DocumentOptions",
    "DocumentPages",
    "PageChoice",
    "PageRecipe",
    "apply_image_transform",
]

#: Pixels per inch that pages of PDF files are rendered at, if nothing else is said: that of `read_pdf`.
DEFAULT_DPI = 144.0

#: Most pages of a document.
MAX_PAGES = 1 << 20


@dataclass(frozen=True)
class DocumentOptions:
    """How documents are opened.

    Attributes:
        dpi: Pixels per inch of the pages of a PDF file.
        max_pixels: Pages with more pixels fail; ``None`` for no limit.
        pdf_options: Further arguments of `read_pdf`; without ``timeout_seconds`` among them, PDFium has a minute for
            each page.

    Raises:
        InvalidArgumentError: if a value is not accepted.
    """

    dpi: float = DEFAULT_DPI
    max_pixels: int | None = MAX_PIXELS
    pdf_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.dpi, bool) or not 0 < real_number("dpi", self.dpi) < math.inf:
            raise InvalidArgumentError(f"dpi must be a positive number (got {self.dpi!r}).")
        if self.max_pixels is not None:
            whole_number("max_pixels", self.max_pixels, at_least=1, or_none=True)


class Document:
    """A document that was opened, as a recipe keeps it.

    Args:
        source: Whatever `make_source` takes: a PDF file or an image.
        options: How to open it.

    Raises:
        MediaTensorError: if it cannot be opened, or has more than `MAX_PAGES` pages.
    """

    def __init__(self, source: object, options: DocumentOptions) -> None:
        self.pages = _open_pages(source, options)
        if len(self.pages) > MAX_PAGES:
            raise OpenError(f"The document has {len(self.pages)} pages, more than the {MAX_PAGES} that are read.")

    def close(self) -> None:
        """Release the file."""
        # What holds it does so until nobody has it.
        del self.pages


def _open_pages(source: object, options: DocumentOptions) -> Pages:
    # Reading text is a large part of the package, which those who have no documents need not wait for.
    from ..ocr.io._documents import DEFAULT_TIMEOUT_SECONDS
    from ..ocr.io.reader import open_document

    pdf_options = {"dpi": options.dpi, "timeout_seconds": DEFAULT_TIMEOUT_SECONDS, **options.pdf_options}
    return open_document(source, **{"max_pixels": options.max_pixels, **pdf_options})


def apply_image_transform(transform: Callable[[Tensor], Tensor] | None, image: Tensor) -> Tensor:
    """What a user's transform makes of an image.

    Raises:
        InvalidArgumentError: if that is no tensor (C, H, W).
    """
    if transform is None:
        return image
    with stages.TRANSFORM:
        result = transform(image)
    if not isinstance(result, Tensor) or result.ndim != 3:
        got = f"of shape {tuple(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
        raise InvalidArgumentError(f"The transform must return a tensor (C, H, W) (got {got}).")
    return result


PageChoice: TypeAlias = Literal["all", "first", "random"]

_NUM_PAGES = "num_pages"


class DocumentPages(MediaDataset):
    """Pages of documents, one sample a row: of PDF files (which need the extra ``ocr``), images, TIFFs of many pages.

    A page is read or rendered when its row is. ``Sample.image`` is uint8 (3, H, W), upright, RGB, transparent parts
    over white; ``extra["page_index"]`` is its number in the document, from 0.

    Args:
        source: The documents: paths, a folder, a manifest, rows of a Hugging Face dataset; see `as_items`.
        pages: Which pages of a document are rows. ``"all"``: each is one; to count them every document is opened here,
            but for those whose manifest has a column ``num_pages``. ``"first"``: the first. ``"random"``: each row
            draws one.
        dpi: Pixels per inch that pages of PDF files are rendered at.
        max_pixels: A page with more pixels fails; ``None`` for no limit.
        transform: Takes an image, uint8 (3, H, W), and gives another tensor (C, H, W); random ones draw anew for each
            row.
        label: Gives the label of an `Item`; by default its own.
        rows_per_file: For ``"random"``: how many rows each document has in an epoch.
        pdf_options: What else `read_pdf` takes: ``password``, ``rotation``, ``grayscale`` ..., and ``timeout_seconds``,
            which is 60 here: a page that takes longer fails. ``None`` is for files that are trusted.
        dataset_options: What `MediaDataset` takes: ``seed``, ``on_error``, ``max_consecutive_failures``,
            ``max_open_files``.

    A document that cannot be opened has one row, which fails.

    Raises:
        InvalidArgumentError: if there are no documents, or an argument is not among the accepted ones.
        MissingDependencyError: if pages are to be counted and a package for that is missing.

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
        rows_per_file: int = 1,
        pdf_options: Mapping[str, Any] | None = None,
        **dataset_options: Any,
    ) -> None:
        check_dataset_options(self, dataset_options)
        if pages not in get_args(PageChoice):
            raise InvalidArgumentError(f"pages must be 'all', 'first' or 'random' (got {pages!r}).")
        if pages != "random" and rows_per_file != 1:
            raise InvalidArgumentError(
                f"rows_per_file goes with pages='random' (got {rows_per_file!r} with pages={pages!r})."
            )
        recipe = PageRecipe(
            pages, DocumentOptions(dpi, max_pixels, options_dict("pdf_options", pdf_options)), transform
        )
        items = as_items(source, kind="document", label=label)
        num_rows = _page_counts(items, recipe) if pages == "all" else rows_per_file
        super().__init__(items, recipe, rows_per_file=num_rows, **dataset_options)


@dataclass(frozen=True)
class PageRecipe(Recipe):
    """How a page is made of a document; see `DocumentPages`."""

    used_columns: ClassVar[frozenset[str]] = frozenset((_NUM_PAGES,))

    pages: PageChoice = "all"
    options: DocumentOptions = field(default_factory=DocumentOptions)
    transform: Callable[[Tensor], Tensor] | None = None

    def __post_init__(self) -> None:
        function("transform", self.transform)

    def open(self, item: Item) -> Document:
        return Document(item.source, self.options)

    def read(self, opened: Document, item: Item, part: int) -> Sample:
        number = self._page_index(opened, part)
        with stages.DECODE:
            image = opened.pages.tensor(number)
        return Sample(image=apply_image_transform(self.transform, image), extra={"page_index": number})

    def position(self, opened: Document, item: Item, part: int) -> float:
        return self._page_index(opened, part)

    def _page_index(self, document: Document, part: int) -> int:
        if self.pages == "random":
            return int(torch.randint(len(document.pages), (), device="cpu"))
        return part if self.pages == "all" else 0


def _page_counts(items: Sequence[Item], recipe: PageRecipe) -> list[int]:
    """How many rows each document has."""
    watched = progress(items, "counting pages", total=len(items), unit="file") if len(items) > 1 else items
    return [_num_pages(item, recipe) for item in watched]


def _num_pages(item: Item, recipe: PageRecipe) -> int:
    if _NUM_PAGES in item.extra:
        return _stated_num_pages(item)
    try:
        document = recipe.open(item)
    except MissingDependencyError:
        raise
    except (MediaTensorError, OSError):  # reading the row says what is wrong
        return 1
    try:
        return len(document.pages)
    finally:
        document.close()


def _stated_num_pages(item: Item) -> int:
    try:
        number = int(item.extra[_NUM_PAGES])
    except (TypeError, ValueError):
        number = 0
    if not 1 <= number <= MAX_PAGES:
        raise InvalidArgumentError(
            f"The column num_pages of {item.name} must be a whole number from 1 to {MAX_PAGES} "
            f"(got {item.extra[_NUM_PAGES]!r})."
        )
    return number
