"""`DocumentPages`: a dataset of document pages; and open documents for recipes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from .._engine.common import stages
from .._engine.common.checks import function, options_dict, real_number, whole_number
from .._engine.common.messages import progress
from .._engine.images.decoding import MAX_PIXELS
from ..datasets._rows.dataset import MediaDataset, check_dataset_options
from ..datasets._rows.recipe import Recipe
from ..datasets._rows.samples import Sample
from ..datasets._sources import limits
from ..datasets._sources.dispatch import as_items
from ..datasets._sources.items import Item, checked_classes
from ..errors import InvalidArgumentError, MediaTensorError, MissingDependencyError, OpenError
from ..samplers._random import global_random, sampling_generator, uses_row_random

if TYPE_CHECKING:
    from ..ocr.io import Pages

PageChoice: TypeAlias = Literal["all", "first", "random"]

_NUM_PAGES = "num_pages"


#: Default pixels per inch of pages of PDF files, as in `read_pdf`.
DEFAULT_DPI = 144.0


@dataclass(frozen=True)
class DocumentOptions:
    """Options for opening documents.

    Attributes:
        dpi: Pixels per inch of the pages of a PDF file.
        max_pixels: Pages with more pixels fail; ``None`` for no limit.
        pdf_options: Further arguments of `read_pdf`. The default ``timeout_seconds`` is 60 for each page.
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
    """An open document of a recipe: a PDF file or an image.

    Raises:
        MediaTensorError: if it cannot be opened, or has more than `limits.MAX_PAGES` pages.
    """

    def __init__(self, source: object, options: DocumentOptions) -> None:
        self.pages = _open_pages(source, options)
        if len(self.pages) > limits.MAX_PAGES:
            raise OpenError(
                f"The document has {len(self.pages)} pages, more than the {limits.MAX_PAGES} that are read."
            )

    def close(self) -> None:
        # The file is released with the last reference to its pages.
        del self.pages


def _open_pages(source: object, options: DocumentOptions) -> Pages:
    # Imported late, because the OCR package is large and only documents need it.
    from ..ocr.io._documents.pdf import DEFAULT_TIMEOUT_SECONDS
    from ..ocr.io.reader import open_document

    pdf_options = {"dpi": options.dpi, "timeout_seconds": DEFAULT_TIMEOUT_SECONDS, **options.pdf_options}
    return open_document(source, **{"max_pixels": options.max_pixels, **pdf_options})


def apply_image_transform(transform: Callable[[Tensor], Tensor] | None, image: Tensor) -> Tensor:
    """Apply a user's transform to an image, and check that it returns a tensor (C, H, W)."""
    if transform is None:
        return image
    with stages.TRANSFORM, global_random():
        result = transform(image)
    if not isinstance(result, Tensor) or result.ndim != 3:
        got = f"of shape {tuple(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
        raise InvalidArgumentError(f"The transform must return a tensor (C, H, W) (got {got}).")
    return result


class DocumentPages(MediaDataset):
    """A dataset of document pages, one page a row: PDF (needs the extra ``ocr``), images, and TIFF with several pages.

    A page is read or rendered when its row is read. ``Sample.image`` is upright RGB, uint8 (3, H, W), with transparent
    parts over white. ``extra["page_index"]`` is the page's index in the document, from 0. A document that cannot be
    opened has one row, which fails.

    Args:
        source: The documents: paths, a folder, a manifest, rows of a Hugging Face dataset; see `as_items`.
        pages: Pages of a document that become rows. ``"all"``: one row a page. To count pages, the constructor opens
            every document without a column ``num_pages`` in the manifest. ``"first"``: the first page. ``"random"``:
            each row draws a page.
        dpi: Pixels per inch at which pages of PDF files are rendered.
        max_pixels: A page with more pixels fails; ``None`` for no limit.
        transform: Takes an image, uint8 (3, H, W), and returns a tensor (C, H, W). Random transforms draw for each row.
        label, classes: As for `VideoClips`.
        rows_per_file: For ``"random"``: number of rows of each document in an epoch.
        pdf_options: Further arguments of `read_pdf`: ``password``, ``rotation``, ``grayscale`` ..., and
            ``timeout_seconds`` (default 60), after which a page fails. ``None``, no limit, is for trusted files.
        dataset_options: Arguments of `MediaDataset`: ``seed``, ``on_error``, ``max_consecutive_failures``,
            ``max_open_files``.

    Raises:
        InvalidArgumentError: if there are no documents, or an argument is not among the accepted ones.
        MissingDependencyError: if pages are counted and a package to open the documents is missing.

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
                f"rows_per_file goes with pages='random' (got {rows_per_file!r} with pages={pages!r})."
            )
        recipe = PageRecipe(
            pages, DocumentOptions(dpi, max_pixels, options_dict("pdf_options", pdf_options)), transform
        )
        items = as_items(source, kind="document", label=label, classes=classes)
        self._classes = checked_classes(classes)
        num_rows = _page_counts(items, recipe) if pages == "all" else rows_per_file
        super().__init__(items, recipe, rows_per_file=num_rows, **dataset_options)


@dataclass(frozen=True)
class PageRecipe(Recipe):
    """Makes images of the pages of a document; see `DocumentPages`."""

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


def _page_counts(items: Sequence[Item], recipe: PageRecipe) -> list[int]:
    watched = progress(items, "counting pages", total=len(items), unit="file") if len(items) > 1 else items
    return [_num_pages(item, recipe) for item in watched]


def _num_pages(item: Item, recipe: PageRecipe) -> int:
    if _NUM_PAGES in item.extra:
        return _stated_num_pages(item)
    try:
        document = recipe.open(item)
    except MissingDependencyError:
        raise
    except (MediaTensorError, OSError):  # reading the row raises this error
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
    if not 1 <= number <= limits.MAX_PAGES:
        raise InvalidArgumentError(
            f"The column num_pages of {item.name} must be a whole number from 1 to {limits.MAX_PAGES} "
            f"(got {item.extra[_NUM_PAGES]!r})."
        )
    return number
