"""Exporters, one class for each format; and mixin classes that add export methods to pages and documents.

Pages and documents get a method for each format (`Page.export_as_html`, ...), and `export_as`, which takes the name of
the format. To change how a format is written, subclass its exporter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from os import PathLike
from typing import Any, Generic, Literal, TypeVar, overload
from xml.etree.ElementTree import ElementTree

from ..._engine.common.checks import shown
from ..._engine.sources.output_files import write_file
from ...errors import InvalidArgumentError
from ._elements.elements import Block, Element, to_json_safe
from ._elements.page_order import ordered_line_words, page_reading_order, predictions_in_reading_order
from ._elements.pages import DocumentBase, PredictionPage, Table, TextPage
from ._exports.chunks import Chunk, Tokenizer, document_chunks
from ._exports.hocr_alto_tsv import DEFAULT_TITLE, AltoExporter, TSVExporter, XMLExporter
from ._exports.markup import AsciiDocExporter, HTMLExporter, MarkdownExporter
from ._exports.searchable_pdf import PDFExporter
from ._exports.tables import joined_tables, tables_csv, tables_xlsx
from ._exports.text import TextExporter

__all__ = [
    "AltoExporter",
    "AsciiDocExporter",
    "Chunk",
    "DocumentExportsMixin",
    "HTMLExporter",
    "KIEPageExportsMixin",
    "MarkdownExporter",
    "PDFExporter",
    "PageExportsMixin",
    "TSVExporter",
    "TextExporter",
    "XMLExporter",
    "ordered_line_words",
    "page_reading_order",
    "predictions_in_reading_order",
    "to_json_safe",
]

_HocrType = TypeVar("_HocrType")

_METHODS = {
    "adoc": "export_as_asciidoc",
    "alto": "export_as_alto",
    "asciidoc": "export_as_asciidoc",
    "csv": "export_as_csv",
    "dict": "export",
    "hocr": "export_as_xml",
    "html": "export_as_html",
    "json": "export",
    "markdown": "export_as_markdown",
    "md": "export_as_markdown",
    "pdf": "export_as_pdf",
    "text": "render",
    "tsv": "export_as_tsv",
    "txt": "render",
    "xlsx": "export_as_xlsx",
    "xml": "export_as_xml",
}


class _Exports(Element, Generic[_HocrType]):
    """Export methods that `Page`, `KIEPage`, `Document` and `KIEDocument` have in common.

    Most methods return the same type for a page and for a document. hOCR returns one file for a page, and a list of
    files for a document.
    """

    @overload
    def export_as(self, format: Literal["json", "dict"], **kwargs: Any) -> dict[str, Any]: ...

    @overload
    def export_as(
        self, format: Literal["text", "txt", "markdown", "md", "asciidoc", "adoc", "html", "tsv", "csv"], **kwargs: Any
    ) -> str: ...

    @overload
    def export_as(self, format: Literal["xml", "hocr"], **kwargs: Any) -> _HocrType: ...

    @overload
    def export_as(self, format: Literal["alto"], **kwargs: Any) -> tuple[bytes, ElementTree]: ...

    @overload
    def export_as(self, format: Literal["pdf", "xlsx"], **kwargs: Any) -> bytes: ...

    @overload
    def export_as(self, format: str, **kwargs: Any) -> Any: ...

    def export_as(self, format: str, **kwargs: Any) -> Any:
        """Export the page or document in the format with this name.

        Args:
            format: One of the names listed under Returns, in lower or upper case.
            **kwargs: Arguments of the method for the format, such as `export_as_alto` for 'alto'.

        Returns:
            The type depends on the format:

            * 'json' or 'dict': a dictionary of plain types that ``json.dumps`` accepts;
            * 'text' or 'txt', 'markdown' or 'md', 'asciidoc' or 'adoc', 'html', 'tsv', 'csv': a ``str``;
            * 'xml' or 'hocr': for a page, a tuple of the file (UTF-8 ``bytes``) and its ``ElementTree``; for a
              document, a list with such a tuple for each page;
            * 'alto': a tuple of the file (UTF-8 ``bytes``) and its ``ElementTree``, for a page or for a whole document;
            * 'pdf' or 'xlsx': ``bytes``.

        Raises:
            InvalidArgumentError: if the format is unknown.

        Example:
            >>> import numpy as np
            >>> from mediatensor.ocr.io import Page
            >>> page = Page(np.full((80, 120, 3), 255, np.uint8), [], 0, (80, 120))
            >>> page.export_as("json")["dimensions"]
            (80, 120)
            >>> alto, tree = page.export_as("alto")
            >>> alto[:5]
            b'<?xml'
        """
        method = _METHODS.get(str(format).strip().lower())
        if method is None:
            raise InvalidArgumentError(f"unsupported export format {format!r}; supported are {', '.join(_METHODS)}")
        export: Callable[..., Any] = getattr(self, method)
        return export(**kwargs)

    def export_as_alto(
        self, file_name: str | None = None, direction: str = "auto", reading_order: bool = True
    ) -> tuple[bytes, ElementTree]:
        """Export as ALTO 4, an XML format that digital libraries use. All pages of a document are in one file.

        Args:
            file_name: The name of the image or document, to be stored in the file as a description of the source.
            direction: Reading direction: 'auto' (detected from the text), 'ltr', 'rtl', 'ttb-rtl' or 'ttb-ltr'.
            reading_order: Whether to sort the content into reading order. If ``False``, it keeps the stored order.

        Returns:
            The pair (file, tree): the file as UTF-8 ``bytes``, and the same content as an ``ElementTree``.
        """
        return AltoExporter().export(self, file_name=file_name, direction=direction, reading_order=reading_order)

    def export_as_tsv(self, direction: str = "auto", reading_order: bool = True) -> str:
        """Export as a table of 12 columns separated by tabs, like the output of ``tesseract image out tsv``.

        Args:
            direction, reading_order: As in `export_as_alto`.

        Returns:
            The table as a ``str``, with the column names in the first line.
        """
        return TSVExporter().export(self, direction=direction, reading_order=reading_order)

    def export_as_csv(self, *, values: bool = False, join_tables: bool = False) -> str:
        """Export the tables as CSV (RFC 4180), one after the other, with an empty line between them.

        If a cell spans several rows or columns, its text is only in the first of them. Texts are not escaped: a
        spreadsheet program that opens the file can take a text that begins with ``=`` for a formula. With
        `export_as_xlsx`, this cannot happen.

        Args:
            values: Whether to write numbers, amounts, percentages and dates as plain values, as in `Table.to_csv`.
            join_tables: Whether to join tables that continue on the next page, in a document.

        Returns:
            The CSV text; empty if there are no tables. Lines end with ``"\\r\\n"``.

        Example:
            >>> import numpy as np
            >>> from mediatensor.ocr.io import Page, Table, TableCell
            >>> box = ((0.0, 0.0), (1.0, 1.0))
            >>> table = Table([TableCell("Tea", 1.0, box, 0, 0, 0, 0), TableCell("2", 1.0, box, 0, 0, 1, 1)], 1, 2, box)
            >>> Page(np.zeros((8, 8, 3), np.uint8), [], 0, (8, 8), tables=[table]).export_as_csv()
            'Tea,2\\r\\n'
        """
        return tables_csv(self, values=values, join_tables=join_tables)

    def export_as_xlsx(
        self, path: str | PathLike[str] | None = None, *, values: bool = True, join_tables: bool = False
    ) -> bytes:
        """Export the tables as an Excel workbook, with a sheet for each table.

        Cells that span rows or columns are merged. Header rows are bold, and stay in view while you scroll. Numbers,
        amounts of money, percentages and dates are stored as values, with formats that show them as they are printed.
        All other cells stay text, even if they begin with ``=``.

        A text becomes a value only if it is certain what it means. For example, 3.597 can also mean 3597, and
        03/04/2024 can be in March or April. Such texts are converted only if the rest of the column shows the decimal
        mark or the order of day and month. For numbers, the rest of the table can also show this. In a column that also
        has other texts, numbers without a currency or a percent sign stay text. Codes, telephone numbers and years stay
        text. They are recognised by their form, and by heads such as "No.". Numbers in brackets stay text, unless the
        column has currencies or separators of thousands. Dates need a year of four digits.

        Args:
            path: The file to write, if any. It appears under this name only when it is complete.
            values: Whether to store values, as described above. If not, all cells are text.
            join_tables: Whether to join tables that continue on the next page, in a document.

        Returns:
            The contents of the file. If there are no tables, it has one empty sheet.

        Raises:
            MissingDependencyError: if openpyxl is not installed.
            WriteError: if the file cannot be written.

        Example:
            >>> import numpy as np
            >>> from mediatensor.ocr.io import Page
            >>> Page(np.zeros((8, 8, 3), np.uint8), [], 0, (8, 8)).export_as_xlsx()[:2]
            b'PK'
        """
        return _written(path, tables_xlsx(self, values=values, join_tables=join_tables))

    def export_as_pdf(self, path: str | PathLike[str] | None = None, **kwargs: Any) -> bytes:
        """Export as searchable PDF, in which every page has an invisible text layer.

        Pages that come from PDF files are copied, and only the text layer is added. All other pages become images.

        Painting over a name in ``page.page`` does not redact it. The text layer still contains all words that were
        recognised, and copied pages still contain their own text. `Document.redact` removes words from both.

        Args:
            path: The file to write, if any. It appears under this name only when it is complete.
            **kwargs: Arguments of `PDFExporter`: ``dpi``, ``quality``, ``lossless``, ``keep_pages``.

        Returns:
            The contents of the file.

        Raises:
            InvalidArgumentError: if a page has no image.
            MissingDependencyError: if pypdfium2 is not installed.
            WriteError: if the file cannot be written.
        """
        return _written(path, PDFExporter(**kwargs).export(self))

    def save_pdf(self, path: str | PathLike[str], **kwargs: Any) -> None:
        """Write a searchable PDF to ``path``. See `export_as_pdf` for the arguments."""
        self.export_as_pdf(path, **kwargs)


class _PageExports(_Exports[tuple[bytes, ElementTree]]):
    """Export methods that `Page` and `KIEPage` have in common."""

    def export_as_xml(
        self, file_title: str = DEFAULT_TITLE, direction: str = "auto", reading_order: bool = True
    ) -> tuple[bytes, ElementTree]:
        """Export the page as hOCR 1.2, that is, HTML with the positions of lines and words. Rotated text is included.

        Args:
            file_title: The title of the file.
            direction, reading_order: As in `export_as_alto`, which returns the same pair.
        """
        return XMLExporter().export_page(self, file_title=file_title, direction=direction, reading_order=reading_order)


class PageExportsMixin(_PageExports, TextPage):
    """The export methods of `Page`."""

    def render(
        self,
        block_break: str = "\n\n",
        direction: str = "auto",
        include_furniture: bool = True,
        *,
        layout: bool = False,
    ) -> str:
        """Return the text of the page in reading order.

        If texts are next to each other in columns, as on receipts and forms, the result has spaces that keep the
        columns aligned.

        Args:
            block_break: The separator between blocks.
            direction: Reading direction: 'auto' (detected from the text), 'ltr', 'rtl', 'ttb-rtl' or 'ttb-ltr'.
            include_furniture: Whether to include page headers, page footers and footnotes.
            layout: Whether to imitate the layout of the whole page with spaces and empty lines, so that columns of text
                stand next to each other.

        Example:
            >>> import numpy as np
            >>> from mediatensor.ocr.io import Block, Line, Page, Word
            >>> word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
            >>> page = Page(np.full((80, 120, 3), 255, np.uint8), [Block([Line([word])])], 0, (80, 120))
            >>> page.render()
            'Total'
        """
        return TextExporter().export_page(
            self, direction=direction, include_furniture=include_furniture, block_break=block_break, layout=layout
        )

    def export(self, reading_order: bool = True, *, characters: bool = False) -> dict[str, Any]:
        """Export the page, without its image, as nested dictionaries of plain types.

        Args:
            reading_order: Whether to sort the content into reading order, with a block for each paragraph. This is the
                default of all export methods. If ``False``, ``page.blocks`` are exported as they are.
            characters: Whether to include the characters of each word, if they are known, under ``"characters"``.

        Returns:
            A dictionary that ``json.dumps`` accepts and ``Page.from_dict`` reads. Its keys are "page_idx",
            "dimensions", "orientation", "language", "blocks", "layout" and "tables". If they apply, it also has
            "error", "unread", "fields" and "in_reading_order".
        """
        page = copy(self)
        if reading_order:
            blocks = [item for item in page_reading_order(self)[0] if isinstance(item, Block)]
            page.blocks = blocks or self.blocks
        return Element.export(page, characters=characters)

    def items_in_reading_order(self, direction: str = "auto") -> list[Block | Table]:
        """Return a list of the paragraphs (as `Block` objects) and tables of the page, in reading order.

        Args:
            direction: Reading direction: 'auto' (detected from the text), 'ltr', 'rtl', 'ttb-rtl' or 'ttb-ltr'.
        """
        return page_reading_order(self, direction)[0]

    def export_as_markdown(self, direction: str = "auto", escape: bool = True, include_furniture: bool = True) -> str:
        """Export the page as Markdown, in reading order.

        Args:
            direction: Reading direction: 'auto' (detected from the text), 'ltr', 'rtl', 'ttb-rtl' or 'ttb-ltr'.
            escape: Whether to escape the special characters of Markdown.
            include_furniture: Whether to include page headers, page footers and footnotes.

        Example:
            >>> import numpy as np
            >>> from mediatensor.ocr.io import Block, Line, Page, Word
            >>> word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
            >>> page = Page(np.full((80, 120, 3), 255, np.uint8), [Block([Line([word])])], 0, (80, 120))
            >>> page.export_as_markdown()
            'Total'
        """
        return MarkdownExporter().export_page(
            self, direction=direction, escape=escape, include_furniture=include_furniture
        )

    def export_as_asciidoc(self, direction: str = "auto", escape: bool = True, include_furniture: bool = True) -> str:
        """Export the page as AsciiDoc, in reading order. See `export_as_markdown` for the arguments."""
        return AsciiDocExporter().export_page(
            self, direction=direction, escape=escape, include_furniture=include_furniture
        )

    def export_as_html(self, direction: str = "auto", include_furniture: bool = True) -> str:
        """Export the page as an HTML fragment, in reading order. Text is always escaped.

        See `export_as_markdown` for the arguments.
        """
        return HTMLExporter().export_page(self, direction=direction, include_furniture=include_furniture)


class KIEPageExportsMixin(_PageExports, PredictionPage):
    """The export methods of `KIEPage`."""

    def render(self, prediction_break: str = "\n\n", direction: str = "auto") -> str:
        """Return a ``str`` with all predictions in the form ``class: text``, grouped by class.

        Within each class, predictions are in reading order.

        Args:
            prediction_break: The separator between predictions.
            direction: Reading direction: 'auto' (detected from the text), 'ltr', 'rtl', 'ttb-rtl' or 'ttb-ltr'.
        """
        return prediction_break.join(
            f"{class_name}: {prediction.render()}"
            for class_name, predictions in self.predictions.items()
            for prediction in predictions_in_reading_order(self, predictions, direction)
        )

    def export(self, reading_order: bool = True, *, characters: bool = False) -> dict[str, Any]:
        """Export the page, without its image, as nested dictionaries of plain types.

        Args:
            reading_order: Whether to sort the predictions of each class into reading order.
            characters: Whether to include the characters of each prediction, if they are known, under ``"characters"``.

        Returns:
            A dictionary that ``json.dumps`` accepts and ``KIEPage.from_dict`` reads. Its keys are "page_idx",
            "dimensions", "orientation", "language", "predictions" and "layout". If they apply, it also has "error",
            "unread" and "fields".
        """
        page = copy(self)
        if reading_order:
            page.predictions = {
                class_name: predictions_in_reading_order(self, predictions)
                for class_name, predictions in self.predictions.items()
            }
        return Element.export(page, characters=characters)

    def export_as_markdown(self, direction: str = "auto", escape: bool = True) -> str:
        """Export the page as Markdown, with a list of texts for each class.

        See `Page.export_as_markdown` for the arguments.
        """
        return MarkdownExporter().export_kie_page(self, direction=direction, escape=escape)

    def export_as_asciidoc(self, direction: str = "auto", escape: bool = True) -> str:
        """Export the page as AsciiDoc, with a list of texts for each class.

        See `Page.export_as_markdown` for the arguments.
        """
        return AsciiDocExporter().export_kie_page(self, direction=direction, escape=escape)

    def export_as_html(self, direction: str = "auto") -> str:
        """Export the page as an HTML fragment, with a list of texts for each class. Text is always escaped.

        See `Page.export_as_markdown` for ``direction``.
        """
        return HTMLExporter().export_kie_page(self, direction=direction)


class DocumentExportsMixin(_Exports[list[tuple[bytes, ElementTree]]], DocumentBase):
    """The export methods of `Document` and `KIEDocument`. Most of them export each page and join the results."""

    def joined_tables(self) -> list[Table]:
        """Return all tables of the document. A table that continues on the next page is returned as a single table.

        The last table of a page and the first table of the next page are joined if they have the same number of
        columns, at the same positions. If the second table repeats the header rows of the first, the copy is left out.
        If a page between the two is missing, according to ``page_idx``, the tables are not joined.

        Returns:
            A list of new `Table` objects, in page order. The geometry of each cell refers to the page that the cell
            comes from.

        Example:
            >>> from mediatensor.ocr.io import Document
            >>> Document([]).joined_tables()
            []
        """
        return joined_tables(self)

    def chunks(
        self,
        max_tokens: int = 512,
        tokenizer: Tokenizer | None = None,
        *,
        direction: str = "auto",
        include_headers_footers: bool = False,
        join_tables: bool = True,
    ) -> list[Chunk]:
        """Cut the text into chunks of limited length, for a search index or a language model.

        A heading starts a new chunk. Paragraphs of a section are merged up to the limit. A table is a chunk of its own,
        with its caption, as Markdown. Text that exceeds the limit is divided between list items, sentences or rows of a
        table. A sentence is divided only if it exceeds the limit by itself. Each further chunk of a table repeats its
        header rows. Apart from these, every word is in exactly one chunk. The words are in reading order, except that a
        footnote comes after a paragraph that continues on the next page.

        Args:
            max_tokens: The maximum number of tokens in a chunk. Words are never divided, so a single word with more
                tokens becomes a longer chunk.
            tokenizer: A function that takes a text, and returns its tokens or their number, such as the method
                ``encode`` of a tokenizer of Hugging Face or of tiktoken. By default, each word, each punctuation mark,
                and each Chinese or Japanese character counts as a token. Tokenizers of models usually count more.
            direction: Reading direction: 'auto' (detected from the text), 'ltr', 'rtl', 'ttb-rtl' or 'ttb-ltr'.
            include_headers_footers: Whether to include page headers and page footers. They are known only if the layout
                was detected. If it was not, their text is ordinary text.
            join_tables: Whether to join tables that continue on the next page, as `joined_tables` does.

        Returns:
            A list of `Chunk` objects in reading order. It is empty if the document has no text. On a `KIEPage`, each
            prediction is a line with its class.

        Raises:
            InvalidArgumentError: if ``max_tokens`` is not a positive whole number, or ``tokenizer`` is not a function
                that returns tokens.

        Example:
            >>> import numpy as np
            >>> from mediatensor.ocr.io import Block, Document, Line, Page, Word
            >>> upright = {"value": 0, "confidence": None}
            >>> boxes = [((0.1 * i, 0.1), (0.1 * i + 0.08, 0.2)) for i in range(1, 5)]
            >>> texts = ["Tea", "is", "ready.", "Come!"]
            >>> line = Line([Word(text, 0.9, box, 0.9, upright) for text, box in zip(texts, boxes)])
            >>> document = Document([Page(np.zeros((80, 120, 3), np.uint8), [Block([line])], 0, (80, 120))])
            >>> [(chunk.text, chunk.num_tokens) for chunk in document.chunks(max_tokens=4)]
            [('Tea is ready.', 4), ('Come!', 2)]
        """
        return document_chunks(
            self,
            max_tokens,
            tokenizer,
            direction=direction,
            include_headers_footers=include_headers_footers,
            join_tables=join_tables,
        )

    def render(self, page_break: str = "\n\n\n\n", **kwargs: Any) -> str:
        """Return the text of all pages as one ``str``.

        Args:
            page_break: The separator between pages.
            **kwargs: Arguments of `Page.render` or, for a `KIEDocument`, of `KIEPage.render`.
        """
        return _join_pages(page_break, (page.render(**kwargs) for page in self.pages))

    def export(self, reading_order: bool = True, *, characters: bool = False) -> dict[str, Any]:
        """Return the document as a dictionary ``{"pages": [...]}`` of plain types, which ``json.dumps`` accepts.

        The list has the result of `Page.export` or `KIEPage.export` for each page. See there for the arguments.
        """
        return {"pages": [page.export(characters=characters, reading_order=reading_order) for page in self.pages]}

    def export_as_xml(self, **kwargs: Any) -> list[tuple[bytes, ElementTree]]:
        """Export as hOCR 1.2, one file for each page.

        Args:
            **kwargs: Arguments of `Page.export_as_xml`.

        Returns:
            A list with a pair (file, tree) for each page: the file as UTF-8 ``bytes``, and the same content as an
            ``ElementTree``.
        """
        return XMLExporter().export_document(self, **kwargs)

    def export_as_markdown(self, page_break: str = "\n\n---\n\n", **kwargs: Any) -> str:
        """Export all pages as one Markdown text.

        Args:
            page_break: The separator between pages.
            **kwargs: Arguments of `Page.export_as_markdown`.
        """
        return _join_pages(page_break, (page.export_as_markdown(**kwargs) for page in self.pages))

    def export_as_asciidoc(self, page_break: str = "\n\n<<<\n\n", **kwargs: Any) -> str:
        """Export all pages as one AsciiDoc text.

        Args:
            page_break: The separator between pages.
            **kwargs: Arguments of `Page.export_as_asciidoc`.
        """
        return _join_pages(page_break, (page.export_as_asciidoc(**kwargs) for page in self.pages))

    def export_as_html(self, page_break: str = "<hr>", **kwargs: Any) -> str:
        """Export all pages as one HTML fragment.

        Args:
            page_break: The separator between pages.
            **kwargs: Arguments of `Page.export_as_html`.
        """
        return _join_pages(page_break, (page.export_as_html(**kwargs) for page in self.pages))


def _written(path: str | PathLike[str] | None, data: bytes) -> bytes:
    if path is not None:
        write_file(path, data)
    return data


def _join_pages(page_break: str, pages: Iterable[str]) -> str:
    if not isinstance(page_break, str):
        raise InvalidArgumentError(f"page_break must be a str (got {shown(page_break)}).")
    return page_break.join(pages)
