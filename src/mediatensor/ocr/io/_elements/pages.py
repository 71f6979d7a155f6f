"""Pages, with their image, size and orientation; and the layout regions, tables and fields on a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from ...._engine.common.display import png_of
from ....errors import InvalidArgumentError, MissingDependencyError
from ...utils.visualization import overlay
from .elements import (
    Block,
    Element,
    Geometry,
    Prediction,
    TextElement,
    TypedRegion,
    UnreadLine,
    Word,
    stored_list,
)
from .values import cell_values

if TYPE_CHECKING:
    import pandas


# Maximum number of positions in the grid of a table. A stored export may state any number of rows and columns.
_MAX_GRID_SIZE = 1_000_000


class LayoutElement(TypedRegion):
    """A region in the layout of a page.

    Args:
        layout_type: The class of the region, such as 'Title', 'Text', 'Table' or 'Page-header'.
        confidence: The confidence that the class is right, in [0, 1].
        geometry: Position in fractions of the page's width and height: ((xmin, ymin), (xmax, ymax)), or four corners
            (x, y).
        level: The level of a section header: 1 for sections directly under the title, 2 for their subsections, and so
            on. It is 0 if the level is unknown, and for regions that are not section headers. `export` leaves out a
            level of 0.

    Example:
        >>> from mediatensor.ocr.io import LayoutElement
        >>> LayoutElement("Title", 0.8, ((0.1, 0.1), (0.9, 0.2))).export()["type"]
        'Title'
    """

    _optional_keys: ClassVar[Mapping[str, type[Element] | None]] = {"level": None}

    def __init__(self, layout_type: str, confidence: float, geometry: Geometry, *, level: int = 0) -> None:
        super().__init__(layout_type, confidence, geometry)
        self.level = level

    def extra_repr(self) -> str:
        return super().extra_repr() + (f", level={self.level}" if self.level else "")


class TableCell(TextElement):
    """One cell of a table.

    Args:
        value: The text of the cell.
        confidence: The mean confidence of the words, in [0, 1].
        geometry: Position in fractions of the page's width and height: ((xmin, ymin), (xmax, ymax)), or four corners
            (x, y).
        row_start: First row that the cell spans, from 0.
        row_end: Last row that the cell spans, inclusive.
        col_start: First column that the cell spans, from 0.
        col_end: Last column that the cell spans, inclusive.
        is_header: Whether the cell belongs to the head of the table. Exported only if true.
        words: The words with their positions, in reading order. Exported only if there are any. Cells that docTR
            exported have no words.

    Example:
        >>> from mediatensor.ocr.io import TableCell
        >>> cell = TableCell("Total", 0.9, ((0.0, 0.0), (0.5, 0.1)), 0, 0, 0, 1)
        >>> cell.col_span, cell.row_span, cell.render(), len(cell.words)
        (2, 1, 'Total', 0)
    """

    _exported_keys: ClassVar[list[str]] = [
        *("geometry", "value", "confidence", "row_start", "row_end", "col_start", "col_end")
    ]
    _optional_keys: ClassVar[Mapping[str, type[Element] | None]] = {"is_header": None, "words": Word}

    def __init__(
        self,
        value: str,
        confidence: float,
        geometry: Geometry,
        row_start: int,
        row_end: int,
        col_start: int,
        col_end: int,
        *,
        is_header: bool = False,
        words: Sequence[Word] = (),
    ) -> None:
        super().__init__()
        self.value = value
        self.confidence = confidence
        self.geometry = geometry
        self.row_start = row_start
        self.row_end = row_end
        self.col_start = col_start
        self.col_end = col_end
        self.is_header = bool(is_header)
        self.words = list(words)

    @property
    def row_span(self) -> int:
        """The number of rows that the cell spans."""
        return self.row_end - self.row_start + 1

    @property
    def col_span(self) -> int:
        """The number of columns that the cell spans."""
        return self.col_end - self.col_start + 1

    def extra_repr(self) -> str:
        return f"value='{self.value}', rows=({self.row_start}, {self.row_end}), cols=({self.col_start}, {self.col_end})"


class Table(Element):
    """A table on a page, as a grid of cells. The words in the cells are not repeated in the blocks of the page.

    Args:
        cells: The cells, in any order.
        num_rows: Number of rows.
        num_cols: Number of columns.
        geometry: Position of the whole table, in fractions of the page's width and height: ((xmin, ymin), (xmax,
            ymax)), or four corners (x, y).
        confidence: The confidence that rows, columns and cells were found correctly, in [0, 1].

    Example:
        >>> from mediatensor.ocr.io import Table, TableCell
        >>> box = ((0.0, 0.0), (1.0, 1.0))
        >>> Table([TableCell("sum", 1.0, box, 0, 0, 0, 0)], 1, 2, box).to_grid()
        [['sum', '']]
    """

    _exported_keys: ClassVar[list[str]] = ["geometry", "num_rows", "num_cols", "confidence"]
    _children_names: ClassVar[Sequence[str]] = ["cells"]
    _children_types: ClassVar[Mapping[str, type[Element]]] = {"cells": TableCell}
    cells: list[TableCell]

    def __init__(
        self, cells: list[TableCell], num_rows: int, num_cols: int, geometry: Geometry, confidence: float = 1.0
    ) -> None:
        super().__init__(cells=cells)
        self.num_rows = num_rows
        self.num_cols = num_cols
        self.geometry = geometry
        self.confidence = confidence

    def to_grid(self) -> list[list[str]]:
        """Return the texts of the cells as a list of rows; ``pandas.DataFrame`` accepts it directly.

        Returns:
            ``num_rows`` lists of ``num_cols`` texts. If a cell spans several rows or columns, its text is only at its
            first row and column. All other positions are empty texts.

        Raises:
            InvalidArgumentError: if ``num_rows`` times ``num_cols`` is more than a million.
        """
        check_grid_size(self)
        grid = [[""] * self.num_cols for _ in range(self.num_rows)]
        for cell in self.cells:
            if 0 <= cell.row_start < self.num_rows and 0 <= cell.col_start < self.num_cols:
                grid[cell.row_start][cell.col_start] = cell.value
        return grid

    @property
    def num_header_rows(self) -> int:
        """The number of rows at the top of the table that consist only of header cells (``is_header``)."""
        bodies = [cell.row_start for cell in self.cells if not cell.is_header]
        heads = [cell.row_end + 1 for cell in self.cells if cell.is_header]
        return max(0, min(min(bodies, default=self.num_rows), max(heads, default=0), self.num_rows))

    def to_dataframe(self) -> pandas.DataFrame:
        """Return the table as a ``pandas.DataFrame`` of texts.

        The header rows become the column names. If there are several header rows, their texts in a column are joined
        from top to bottom. If there are none, columns are numbered from 0.

        Returns:
            A DataFrame of ``num_rows - num_header_rows`` rows and ``num_cols`` columns.

        Raises:
            InvalidArgumentError: if ``num_rows`` times ``num_cols`` is more than a million.
            MissingDependencyError: if pandas is not installed.

        Example:
            >>> from mediatensor.ocr.io import Table, TableCell
            >>> box = ((0.0, 0.0), (1.0, 1.0))
            >>> head = [TableCell(name, 1.0, box, 0, 0, i, i, is_header=True) for i, name in enumerate(["item", "sum"])]
            >>> row = [TableCell(text, 1.0, box, 1, 1, i, i) for i, text in enumerate(["Tea", "2.50"])]
            >>> frame = Table(head + row, 2, 2, box).to_dataframe()
            >>> list(frame.columns), frame["sum"][0]
            (['item', 'sum'], '2.50')
        """
        try:
            import pandas
        except ImportError as error:
            raise MissingDependencyError(
                'Table.to_dataframe() needs pandas: pip install "mediatensor[tables]" (to_grid() and to_csv() do '
                "without)."
            ) from error
        head = self.num_header_rows
        return pandas.DataFrame(self.to_grid()[head:], columns=self.column_names() if head else None)

    def column_names(self) -> list[str]:
        """Return a list of column names: the texts of the header cells from top to bottom, or "" if there are none.

        Example:
            >>> from mediatensor.ocr.io import Table, TableCell
            >>> box = ((0.0, 0.0), (1.0, 1.0))
            >>> head = TableCell("Price", 1.0, box, 0, 0, 0, 1, is_header=True)
            >>> below = [TableCell(text, 1.0, box, 1, 1, i, i, is_header=True) for i, text in enumerate(["net", "all"])]
            >>> Table([head, *below], 2, 2, box).column_names()
            ['Price net', 'Price all']
        """
        num_rows = self.num_header_rows
        texts: list[list[str]] = [[] for _ in range(self.num_cols)]
        for cell in sorted(self.cells, key=lambda cell: cell.row_start):
            if cell.row_start < num_rows and cell.value:
                for column in range(max(cell.col_start, 0), min(cell.col_end + 1, self.num_cols)):
                    texts[column].append(" ".join(cell.value.split()))
        return [" ".join(above) for above in texts]

    def to_csv(self, *, values: bool = False) -> str:
        """Return the table as CSV text (RFC 4180). Rows end with ``"\\r\\n"``; line ends within cells become spaces.

        Args:
            values: Whether to write numbers, amounts, percentages and dates as plain values, if it is certain what they
                mean: 1284.50 for "1.284,50 €", 0.15 for "15 %", 2024-03-05 for "5. März 2024". Other texts stay as they
                are. Amounts in a column with several currencies also stay as they are.

        Example:
            >>> from mediatensor.ocr.io import Table, TableCell
            >>> box = ((0.0, 0.0), (1.0, 1.0))
            >>> table = Table([TableCell("1,5 kg", 1.0, box, 0, 0, 0, 0), TableCell("$1,284.50", 1.0, box, 0, 0, 1, 1)],
            ...               1, 2, box)
            >>> table.to_csv(), table.to_csv(values=True)
            ('"1,5 kg","$1,284.50"\\r\\n', '"1,5 kg",1284.50\\r\\n')
        """
        rows = [[" ".join(text.split()) for text in row] for row in self.to_grid()]
        if values:
            found = cell_values(rows, self.num_header_rows)
            currencies = [{value.currency for value in column if value} - {""} for column in zip(*found, strict=True)]
            for row, row_values in zip(rows, found, strict=True):
                for column, value in enumerate(row_values):
                    if value is not None and not (value.currency and len(currencies[column]) > 1):
                        row[column] = value.plain_text
        text = io.StringIO()
        csv.writer(text).writerows(rows)
        return text.getvalue()

    def render(self, row_break: str = "\n", col_break: str = "\t") -> str:
        """Return the texts of all cells as a text, joined by ``col_break`` in a row and ``row_break`` between rows."""
        return row_break.join(col_break.join(row) for row in self.to_grid())

    def extra_repr(self) -> str:
        return f"num_rows={self.num_rows}, num_cols={self.num_cols}, confidence={float(self.confidence):.2}"


def check_grid_size(table: Table) -> None:
    """Raise `InvalidArgumentError` if a table has too many positions, or a negative number of rows or columns."""
    sides = table.num_rows, table.num_cols
    if min(sides) < 0 or max(sides) > _MAX_GRID_SIZE or sides[0] * sides[1] > _MAX_GRID_SIZE:
        raise InvalidArgumentError(
            f"A table of {table.num_rows} x {table.num_cols} positions is more than the {_MAX_GRID_SIZE} accepted."
        )


class Field(Element):
    """A key with its value on a form, an invoice or a receipt.

    Args:
        key: The printed label, such as "Invoice No.". It is empty if the value was recognised by its pattern, without a
            label.
        value: The value as printed.
        confidence: The confidence that key and value belong together, in [0, 1].
        geometry: Position of the value, in fractions of the page's width and height: ((xmin, ymin), (xmax, ymax)), or
            four corners (x, y).
        key_geometry: Position of the key, in the same form, or ``None`` if there is no key.
        name: The name of the field, such as "total", if you asked for fields by name. If you did not, it is empty.

    Example:
        >>> from mediatensor.ocr.io import Field
        >>> Field("Total", "21.49", 0.9, ((0.6, 0.8), (0.7, 0.85)), ((0.1, 0.8), (0.2, 0.85)), "total").render()
        'Total: 21.49'
    """

    _exported_keys: ClassVar[list[str]] = ["name", "key", "value", "confidence", "geometry", "key_geometry"]

    def __init__(
        self,
        key: str,
        value: str,
        confidence: float,
        geometry: Geometry,
        key_geometry: Geometry | None = None,
        name: str = "",
    ) -> None:
        super().__init__()
        self.name = name
        self.key = key
        self.value = value
        self.confidence = confidence
        self.geometry = geometry
        self.key_geometry = key_geometry

    def render(self) -> str:
        """Return the key and the value, such as "Total: 21.49". If there is no key, the name is used instead."""
        key = self.key.rstrip().removesuffix(":") or self.name
        return f"{key}: {self.value}" if key else self.value

    def extra_repr(self) -> str:
        name = f"name='{self.name}', " if self.name else ""
        return f"{name}key='{self.key}', value='{self.value}', confidence={float(self.confidence):.2}"


# uint8: (H, W, 3) as an array, (3, H, W) or (H, W, 3) as a tensor on any device.
PageImage: TypeAlias = NDArray[Any] | torch.Tensor

# Maximum size of a page in notebooks.
_SHOWN_SIZE = (900, 900)

_SHOW_OPTIONS = ("words_only", "display_artefacts", "display_layout")


def page_pixels(image: PageImage) -> NDArray[np.uint8]:
    """Return the image of a page as a contiguous RGB array, (H, W, 3) uint8.

    Raises:
        InvalidArgumentError: if the page has no image, for example because it was restored by ``from_dict`` without
            one, or if the image has another shape or dtype.
    """
    if isinstance(image, torch.Tensor):
        if image.ndim == 3 and image.shape[0] == 3 and image.shape[2] != 3:
            image = image.permute(1, 2, 0)
        image = image.detach().cpu().numpy()
    if not isinstance(image, np.ndarray) or image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        kind = f"{image.dtype} {tuple(image.shape)}" if hasattr(image, "shape") else type(image).__name__
        raise InvalidArgumentError(f"The image of a page is uint8 (H, W, 3), or a tensor (3, H, W); got {kind}.")
    if image.size == 0:
        raise InvalidArgumentError(
            "The page has no image, as after from_dict without one. Pass it: "
            "Page.from_dict(export, page=image), Document.from_dict(export, pages=images)."
        )
    return np.ascontiguousarray(image)


def page_origin(page: PageBase) -> Callable[[], PageImage] | None:
    """Return the function that reads the image of a page on each access, or ``None`` if the image is in memory."""
    return page._page if callable(page._page) else None


class PageBase(Element):
    """Base class of pages.

    It holds the image, size, orientation and language, and the error if the page could not be read.
    """

    _exported_keys: ClassVar[list[str]] = ["page_idx", "dimensions", "orientation", "language"]
    _optional_keys: ClassVar[Mapping[str, type[Element] | None]] = {
        "error": None,
        "unread": UnreadLine,
        "fields": Field,
    }
    layout: list[LayoutElement]
    fields: list[Field]

    def __init__(
        self,
        page: PageImage | Callable[[], PageImage],
        page_idx: int,
        dimensions: tuple[int, int],
        orientation: dict[str, Any] | None,
        language: dict[str, Any] | None,
        error: str | None,
        unread: Sequence[UnreadLine],
        fields: Sequence[Field],
        **children: Any,
    ) -> None:
        super().__init__(**children)
        self._page = page
        self.page_idx = page_idx
        self.dimensions = dimensions
        self.orientation = orientation if isinstance(orientation, dict) else {"value": None, "confidence": None}
        self.language = language if isinstance(language, dict) else {"value": None, "confidence": None}
        self.error = error
        self.unread = list(unread)
        self.fields = list(fields)

    @property
    def page(self) -> PageImage:
        """The image of the page.

        If it comes from a file, each access reads it again, so a long document does not fill the memory.
        """
        return self._page() if callable(self._page) else self._page

    @page.setter
    def page(self, page: PageImage | Callable[[], PageImage]) -> None:
        self._page = page

    def extra_repr(self) -> str:
        error = f"\nerror={self.error!r}" if self.error is not None else ""
        return f"dimensions={self.dimensions}{error}" + (f"\nunread={len(self.unread)}" if self.unread else "")

    def show(self, interactive: bool = True, preserve_aspect_ratio: bool = False, **kwargs: Any) -> None:
        """Show the page with its text drawn over it.

        Args:
            interactive: Whether a word's text pops up when you move the mouse pointer over the word.
            preserve_aspect_ratio: Accepted for compatibility with docTR.
            **kwargs: ``words_only``, ``display_artefacts`` and ``display_layout`` select what to draw. All other
                arguments are passed to ``matplotlib.pyplot.show``.

        Raises:
            InvalidArgumentError: if the page has no image.
            MissingDependencyError: if matplotlib is not installed.
        """
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise MissingDependencyError(
                'Showing a page needs matplotlib: pip install "mediatensor[plot]" (page.synthesize() does without).'
            ) from error

        options = {name: kwargs.pop(name) for name in _SHOW_OPTIONS if name in kwargs}
        self._visualize(interactive=interactive, preserve_aspect_ratio=preserve_aspect_ratio, **options)
        plt.show(**kwargs)

    def _visualize(self, **options: Any) -> None:
        raise NotImplementedError

    def _repr_png_(self) -> bytes | None:
        try:
            picture = Image.fromarray(overlay(self))
        except InvalidArgumentError:  # the page has no image, or one that is not uint8
            return None
        picture.thumbnail(_SHOWN_SIZE)
        return png_of(picture)

    @classmethod
    def _stored_page(cls, save_dict: dict[str, Any], page: PageImage | None) -> dict[str, Any]:
        """Convert ``save_dict`` to those constructor arguments that `TextPage` and `PredictionPage` have in common."""
        values = cls._stored_values(save_dict)
        values["layout"] = [LayoutElement.from_dict(region) for region in stored_list(save_dict, "layout", cls)]
        values["page"] = np.zeros((0, 0, 3), dtype=np.uint8) if page is None else page
        return values


class TextPage(PageBase):
    """Base class of pages whose content is text: blocks of lines, tables, and layout regions."""

    _optional_keys: ClassVar[Mapping[str, type[Element] | None]] = {
        **PageBase._optional_keys,
        "in_reading_order": None,
    }

    blocks: list[Block]
    tables: list[Table]
    in_reading_order: bool


class PredictionPage(PageBase):
    """Base class of pages whose content is predictions of key information extraction, grouped by class."""

    predictions: dict[str, list[Prediction]]


class DocumentBase(Element):
    """Base class of documents: a sequence of pages, either of text or of predictions."""

    pages: list[Any]
