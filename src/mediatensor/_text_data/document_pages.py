"""`DocumentPages`: pages of documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from .._engine.common import stages
from .._engine.common.checks import function, options_dict
from .._engine.common.messages import progress
from .._engine.images.decoding import MAX_PIXELS
from ..datasets._rows.dataset import MediaDataset, check_dataset_options
from ..datasets._rows.recipe import Recipe
from ..datasets._rows.samples import Sample
from ..datasets._sources import limits
from ..datasets._sources.dispatch import as_items
from ..datasets._sources.items import Item, checked_classes
from ..errors import InvalidArgumentError, MediaTensorError, MissingDependencyError
from ..samplers._random import sampling_generator, uses_row_random
from .documents import DEFAULT_DPI, Document, DocumentOptions, apply_image_transform

__all__ = ["DocumentPages", "PageChoice", "PageRecipe"]

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
        classes: The names of the classes in the order of their numbers, for labels that are text and for sub-folders,
            such as ``class_names`` of the dataset that a model is trained with. A class that is not among them is an
            error. By default the classes of this source, by name.
        rows_per_file: For ``"random"``: how many rows each document has in an epoch.
        pdf_options: Further arguments of `read_pdf`: ``password``, ``rotation``, ``grayscale`` ..., and
            ``timeout_seconds``, which is 60 by default: a page that takes longer fails. ``None``, no limit, is for
            trusted files.
        dataset_options: Arguments of `MediaDataset`: ``seed``, ``on_error``, ``max_consecutive_failures``,
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
    """How a page is made of a document; see `DocumentPages`."""

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
    if not 1 <= number <= limits.MAX_PAGES:
        raise InvalidArgumentError(
            f"The column num_pages of {item.name} must be a whole number from 1 to {limits.MAX_PAGES} "
            f"(got {item.extra[_NUM_PAGES]!r})."
        )
    return number
