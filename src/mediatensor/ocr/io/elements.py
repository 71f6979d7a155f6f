"""Elements of a recognised document: a tree of pages, blocks, lines and words, or pages of predictions.

Names, arguments and exported dictionaries are the same as in docTR, so code written for docTR and stored exports keep
working. Geometries are in fractions of the page's width and height. A geometry is ((xmin, ymin), (xmax, ymax)), or four
corners (x, y), clockwise, starting at the top left of the text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..._engine.common.checks import items_of, shown
from ...errors import InvalidArgumentError
from ..utils.reconstitution import synthesize_kie_page, synthesize_page
from ..utils.visualization import visualize_kie_page, visualize_page
from ._elements.elements import (
    Artefact,
    Block,
    Character,
    Element,
    Line,
    Prediction,
    UnreadLine,
    Word,
    stored,
    stored_list,
)
from ._elements.pages import Field, LayoutElement, PageBase, PageImage, Table, TableCell, page_pixels
from ._redaction import Reader, RedactedRegions, TextMatch, find_texts, redact_document
from .exporters import DocumentExportsMixin, KIEPageExportsMixin, PageExportsMixin

__all__ = [
    "Artefact",
    "Block",
    "Character",
    "Document",
    "Element",
    "Field",
    "KIEDocument",
    "KIEPage",
    "LayoutElement",
    "Line",
    "Page",
    "Prediction",
    "Table",
    "TableCell",
    "TextMatch",
    "UnreadLine",
    "Word",
]

# Maximum number of pages that a notebook shows of a document.
_MAX_PAGES_SHOWN = 5


class Page(PageExportsMixin):
    """A page of a document, with its image and all text that was recognised on it.

    Args:
        page: The image, an array (H, W, 3) or a tensor (3, H, W) on any device, uint8. It is not exported.
        blocks: The blocks of text.
        page_idx: The index of the page in its document, from 0.
        dimensions: Height and width in pixels.
        orientation: How far the page is rotated clockwise, in degrees, and the confidence, such as
            ``{"value": 90, "confidence": None}``.
        language: The language of the text, and the confidence: ``{"value": "en", "confidence": 0.9}``.
        layout: The layout regions of the page.
        tables: The tables. The words of their cells are not in ``blocks``.
        error: The reason why the page could not be read. Such a page has no text. ``None`` for all other pages.
            Exported only if set.
        unread: Lines that were detected, but not read or only partly read. Exported only if there are any.
        fields: The fields of a form, an invoice or a receipt: keys with their values (experimental). Their words are
            also in ``blocks`` or ``tables``. Exported only if there are any.
        in_reading_order: Whether blocks, lines and layout regions are already in reading order, as on pages that a
            predictor returns. If not, export methods compute the order. Exported only if true.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import Page
        >>> page = Page(np.zeros((20, 30, 3), np.uint8), [], 0, (20, 30))
        >>> page.export()["dimensions"], page.render(), page.synthesize().shape
        ((20, 30), '', (20, 30, 3))
        >>> Page.from_dict(page.export(), page=page.page).dimensions
        (20, 30)
    """

    _children_names: ClassVar[Sequence[str]] = ["blocks", "layout", "tables"]

    def __init__(
        self,
        page: PageImage,
        blocks: list[Block],
        page_idx: int,
        dimensions: tuple[int, int],
        orientation: dict[str, Any] | None = None,
        language: dict[str, Any] | None = None,
        layout: list[LayoutElement] | None = None,
        tables: list[Table] | None = None,
        *,
        error: str | None = None,
        unread: Sequence[UnreadLine] = (),
        fields: Sequence[Field] = (),
        in_reading_order: bool = False,
    ) -> None:
        shared = page, page_idx, dimensions, orientation, language, error, unread, fields
        layout, tables = [] if layout is None else layout, [] if tables is None else tables
        super().__init__(*shared, blocks=blocks, layout=layout, tables=tables)
        self.in_reading_order = bool(in_reading_order)

    def _visualize(self, **options: Any) -> None:
        visualize_page(self.export(), page_pixels(self.page), **options)

    def synthesize(self, **kwargs: Any) -> NDArray[np.uint8]:
        """Draw the recognised text on a blank page.

        Args:
            **kwargs: Arguments of `mediatensor.ocr.utils.synthesize_page`: ``draw_proba``, ``font_family``, sizes and
                colours.

        Returns:
            The drawing, an RGB array (H, W, 3), uint8, of the same size as the page.
        """
        return synthesize_page(self.export(), **kwargs)

    @classmethod
    def from_dict(cls, save_dict: dict[str, Any], page: PageImage | None = None, **kwargs: Any) -> Self:
        """Restore a page from the dictionary that `export` returned, in this library or in docTR.

        Args:
            save_dict: The dictionary. "layout" and "tables" are optional, because docTR before 1.1 does not export
                them.
            page: The image, which is not part of the dictionary. Without it, the page can neither be shown nor written
                as PDF.
            **kwargs: Ignored.

        Raises:
            InvalidArgumentError: if a required key is missing, or its value has the wrong type. The message names the
                key.
        """
        return cls(
            blocks=[Block.from_dict(block) for block in stored(save_dict, "blocks", cls)],
            tables=[Table.from_dict(table) for table in stored_list(save_dict, "tables", cls)],
            **cls._stored_page(save_dict, page),
        )


class KIEPage(KIEPageExportsMixin):
    """A page with the result of key information extraction: its image, and predictions grouped by class.

    Args:
        predictions: A dictionary from the name of each class to its list of predictions.
        page, page_idx, dimensions, orientation, language, layout, error, unread, fields: The image and properties of
            the page, as for `Page`.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import KIEPage, Prediction
        >>> found = Prediction("12.50", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = KIEPage(np.full((80, 120, 3), 255, np.uint8), {"total": [found]}, 0, (80, 120))
        >>> page.render()
        'total: 12.50'
    """

    _children_names: ClassVar[Sequence[str]] = ["predictions", "layout"]

    def __init__(
        self,
        page: PageImage,
        predictions: dict[str, list[Prediction]],
        page_idx: int,
        dimensions: tuple[int, int],
        orientation: dict[str, Any] | None = None,
        language: dict[str, Any] | None = None,
        layout: list[LayoutElement] | None = None,
        *,
        error: str | None = None,
        unread: Sequence[UnreadLine] = (),
        fields: Sequence[Field] = (),
    ) -> None:
        if not isinstance(predictions, Mapping):
            raise InvalidArgumentError(f"predictions must be a dict from classes to lists (got {shown(predictions)}).")
        shared = page, page_idx, dimensions, orientation, language, error, unread, fields
        super().__init__(*shared, predictions=predictions, layout=[] if layout is None else layout)

    def _visualize(self, **options: Any) -> None:
        visualize_kie_page(self.export(), page_pixels(self.page), **options)

    def synthesize(self, **kwargs: Any) -> NDArray[np.uint8]:
        """Draw the predictions on a blank page, and return the drawing as an array (H, W, 3), uint8.

        See `Page.synthesize` for the arguments.
        """
        return synthesize_kie_page(self.export(), **kwargs)

    @classmethod
    def from_dict(cls, save_dict: dict[str, Any], page: PageImage | None = None, **kwargs: Any) -> Self:
        """Restore a page of predictions from the dictionary that `export` returned.

        See `Page.from_dict` for the arguments and errors.
        """
        predictions = {
            class_name: [Prediction.from_dict(prediction) for prediction in group]
            for class_name, group in stored(save_dict, "predictions", cls).items()
        }
        return cls(predictions=predictions, **cls._stored_page(save_dict, page))


class Document(DocumentExportsMixin):
    """The result of reading a document: a sequence of pages with their text.

    Args:
        pages: The pages, each a `Page`.

    Example:
        >>> from mediatensor.ocr.io import Document
        >>> Document.from_dict(Document([]).export())
        Document(
          (pages): []
        )
    """

    _children_names: ClassVar[Sequence[str]] = ["pages"]
    _page_cls: ClassVar[type[PageBase]] = Page
    pages: list[Any]

    def __init__(self, pages: Sequence[PageBase]) -> None:
        super().__init__(pages=items_of("pages", pages, of="pages"))

    def show(self, **kwargs: Any) -> None:
        """Show the pages one after the other with matplotlib. See `Page.show` for the arguments."""
        for page in self.pages:
            page.show(**kwargs)

    def _repr_html_(self) -> str:
        shown = []
        for page in self.pages[:_MAX_PAGES_SHOWN]:
            png = page._repr_png_()
            picture = "" if png is None else f'<img src="data:image/png;base64,{base64.b64encode(png).decode()}"><br>'
            shown.append(f"<div>{picture}<small>page {page.page_idx + 1}</small></div>")
        more = len(self.pages) - len(shown)
        return "".join(shown) + (f"<small>and {more} more pages</small>" if more else "")

    def synthesize(self, **kwargs: Any) -> list[NDArray[np.uint8]]:
        """Draw the text of each page on a blank page, and return a list of arrays (H, W, 3), uint8.

        See `Page.synthesize` for the arguments.
        """
        return [page.synthesize(**kwargs) for page in self.pages]

    def find(self, *texts: str | re.Pattern[str]) -> list[TextMatch]:
        """Find words, phrases and regular expressions in the text.

        Words and phrases are compared as follows:

        * Case and line breaks are ignored, and parts of words match: ``"Meyer"`` is also found in "Meyers".
        * Any apostrophe matches all kinds of apostrophes. The same applies to quotes and dashes, and "ss" matches "ß".
        * Several whole words match without the spaces between them: ``"DE893704"`` is found in "DE89 3704", and
          ``"12"`` in two neighbouring cells "1" and "2".

        Regular expressions are applied as they are, to text whose lines are separated by line breaks. In both cases,
        neighbouring texts, such as the cells of a row, are also searched as one text with spaces between them, and a
        word that is divided at a line end is also searched as one word. The search includes tables, fields, and lines
        that were only partly read (`Page.unread`).

        Args:
            *texts: Words or phrases as ``str``, or regular expressions from ``re.compile``.

        Returns:
            A list with a `TextMatch` for each place: first all matches of the first of ``texts``, then of the second,
            and so on.

        Raises:
            InvalidArgumentError: if there are no texts, a text is empty, or a regular expression matches the empty
                text.

        Example:
            >>> import re
            >>> import numpy as np
            >>> from mediatensor.ocr.io import Block, Document, Line, Page, Word
            >>> upright = {"value": 0, "confidence": None}
            >>> words = [Word(text, 0.9, ((x, 0.1), (x + 0.2, 0.2)), 0.9, upright) for text, x in
            ...          [("Anna", 0.1), ("Meyer,", 0.4), ("1987", 0.7)]]
            >>> document = Document([Page(np.full((80, 120, 3), 255, np.uint8), [Block([Line(words)])], 0, (80, 120))])
            >>> [match.text for match in document.find("anna meyer", re.compile("[0-9]{4}"))]
            ['Anna Meyer,', '1987']
        """
        return find_texts(self, texts)

    def redact(
        self,
        *texts: str | re.Pattern[str],
        regions: RedactedRegions | None = None,
        predictor: Reader | None = None,
    ) -> Self:
        """Return a copy of the document in which texts and regions are black, and their words are removed.

        The result does not refer to the original files. `save_pdf` stores all of its pages as images, with the
        remaining words as invisible text. Pages keep their size, rounded up to whole pixels. Nothing else of a PDF file
        is kept: its own text, metadata, attachments, annotations, form fields and bookmarks are lost.

        Words are redacted as a whole, even if only a part of a word matches, or touches a region. Text that was not
        read or was misread is not redacted. Look at the result, and redact regions where necessary.

        Args:
            *texts: Words, phrases or regular expressions, as for `find`.
            regions: Lists of regions by page, such as ``{0: [(0.1, 0.1, 0.5, 0.2)]}``, or one list for all pages. A
                region is a box (xmin, ymin, xmax, ymax), a pair of corners, or four points, in fractions of the page's
                width and height. Parts outside of the page are ignored, but the region must overlap the page, and its
                numbers must be from -1 to 2. Pages are counted from 0; negative numbers count from the end.
            predictor: A predictor, such as one from `ocr_predictor`, with which the result is read again. It must not
                straighten pages, because its positions must fit the original pages. If this second reading finds text
                to redact, that text is redacted as well. By default, the result is not read again.

        Returns:
            A new document. This document is not changed.

        Raises:
            InvalidArgumentError: if there is nothing to redact, a text is empty, a regular expression matches the empty
                text, or a region is invalid.
            OutOfRangeError: if ``regions`` has the number of a page that does not exist.
            PageError: if the image of a page can no longer be read from its file.
            RedactionError: if text to redact can still be read in the result.

        Warns:
            UserWarning: if a text matches nothing.

        Example:
            >>> import numpy as np
            >>> from mediatensor.ocr.io import Block, Document, Line, Page, Word
            >>> upright = {"value": 0, "confidence": None}
            >>> words = [Word(text, 0.9, ((x, 0.1), (x + 0.2, 0.2)), 0.9, upright) for text, x in
            ...          [("by", 0.1), ("Anna", 0.4), ("Meyer", 0.7)]]
            >>> document = Document([Page(np.full((80, 120, 3), 255, np.uint8), [Block([Line(words)])], 0, (80, 120))])
            >>> redacted = document.redact("Anna Meyer")
            >>> redacted.render(), redacted.pages[0].page[12, 60].tolist()
            ('by', [0, 0, 0])
        """
        return redact_document(self, texts, regions, predictor)

    @classmethod
    def from_dict(cls, save_dict: dict[str, Any], pages: Sequence[PageImage] | None = None, **kwargs: Any) -> Self:
        """Restore a document from the dictionary that `export` returned, in this library or in docTR.

        Args:
            save_dict: The dictionary, which has a list of exported pages under "pages".
            pages: The images of all pages, one for each page, which are not part of the dictionary. Without them, the
                document can neither be shown nor written as PDF.
            **kwargs: Ignored.

        Raises:
            InvalidArgumentError: if a key is missing, or the number of images differs from the number of pages.
        """
        exports = stored(save_dict, "pages", cls)
        if pages is not None and len(pages) != len(exports):
            raise InvalidArgumentError(
                f"The stored document has {len(exports)} pages, but {len(pages)} images were passed."
            )
        return cls(
            [
                cls._page_cls.from_dict(export, page=None if pages is None else pages[index])
                for index, export in enumerate(exports)
            ]
        )


class KIEDocument(Document):
    """The result of key information extraction on a document: a sequence of pages.

    Args:
        pages: The pages, each a `KIEPage`.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import KIEDocument, KIEPage, Prediction
        >>> found = Prediction("12.50", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = KIEPage(np.full((80, 120, 3), 255, np.uint8), {"total": [found]}, 0, (80, 120))
        >>> KIEDocument([page]).export()["pages"][0]["predictions"]["total"][0]["value"]
        '12.50'
    """

    _page_cls: ClassVar[type[PageBase]] = KIEPage
