"""hOCR 1.2: HTML with positions (https://github.com/kba/hocr-spec/blob/master/1.2/spec.md)."""

from __future__ import annotations

import math
import re
from typing import Any, ClassVar
from xml.etree import ElementTree

from .reading import one_line
from .regions import Place, Region, TextRow, Token, language_tag, page_regions, percent, tool_version

__all__ = ["DEFAULT_TITLE", "XMLExporter"]

DEFAULT_TITLE = "mediatensor - XML export (hOCR)"

# Up to this angle, in degrees, text counts as skewed and its baseline gets a slope, which tesseract writes and all
# readers understand. Beyond it, text counts as rotated and gets a textangle.
_MAX_SKEW = 5.0


def _bbox(place: Place) -> str:
    return "bbox {} {} {} {}".format(*place.box)


def _number(value: float) -> str:
    text = f"{value:.4f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _line_title(row: TextRow) -> str:
    """The position, the slope or rotation, and the size of a line as hOCR properties."""
    parts = [_bbox(row.place)]
    angle = row.place.angle
    if abs(angle) > _MAX_SKEW:
        parts.append(f"textangle {_number(round(angle, 2))}")
    else:
        start, (left, _, _, bottom) = row.baseline[0], row.place.box
        slope = math.tan(math.radians(-angle))
        parts.append(f"baseline {_number(slope)} {_number(round(start[1] + slope * (left - start[0]) - bottom, 2))}")
    parts.append(f"x_size {_number(round(row.place.size, 2))}")
    return "; ".join(parts)


def _add(parent: ElementTree.Element, tag: str, kind: str, identifier: str, title: str) -> ElementTree.Element:
    return ElementTree.SubElement(parent, tag, {"class": kind, "id": identifier, "title": title})


class XMLExporter:
    """Export to hOCR.

    White space separates words and lines, so that the text content of the file is the text of the page. The file names
    the language of the page if it is known.

    Rotated text is exported as well: ``bbox`` is its enclosing box, ``baseline`` has the slope of a skewed line, and
    ``textangle`` the angle of any other.

    A line that was not read is an area whose line has no words. The property ``x_unread`` of the area has the reason,
    and ``x_script`` a script that could not be read, as in ``x_unread "script"; x_script "Cyrillic"``.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import Block, Line, Page, Word, XMLExporter
        >>> word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = Page(np.full((80, 120, 3), 255, np.uint8), [Block([Line([word])])], 0, (80, 120))
        >>> XMLExporter().export_page(page)[0][:5]
        b'<html'
    """

    ocr_capabilities: ClassVar[str] = "ocr_page ocr_carea ocr_par ocr_line ocrx_word"

    def export_page(
        self, page: Any, file_title: str = DEFAULT_TITLE, direction: str = "auto", reading_order: bool = True
    ) -> tuple[bytes, ElementTree.ElementTree]:
        """Export a page.

        Args:
            page: A `Page` or `KIEPage`.
            file_title: Title of the file.
            direction: Reading direction: 'auto', 'ltr', 'rtl', 'ttb-rtl' or 'ttb-ltr'.
            reading_order: Whether the content is put into reading order; otherwise it stays as stored.

        Returns:
            The file in UTF-8 and its tree.
        """
        root, body = self._new_file(file_title, language_tag(page))
        height, width = page.dimensions
        title = f"bbox 0 0 {width} {height}; ppageno {page.page_idx}"
        page_node = _add(body, "div", "ocr_page", f"page_{page.page_idx + 1}", title)
        counters = {"block": 0, "line": 0, "word": 0, "table": 0, "prediction": 0, "unread": 0}
        for region in page_regions(page, direction, reading_order):
            counters[region.kind] += 1
            _add_region(page_node, region, counters)
        return ElementTree.tostring(root, encoding="utf-8", method="xml"), ElementTree.ElementTree(root)

    def export_kie_page(self, page: Any, **kwargs: Any) -> tuple[bytes, ElementTree.ElementTree]:
        """Export a page of predictions; arguments and result as for `export_page`."""
        return self.export_page(page, **kwargs)

    def export_document(self, document: Any, **kwargs: Any) -> list[tuple[bytes, ElementTree.ElementTree]]:
        """Export each page of a document; arguments and results as for `export_page`."""
        return [self.export_page(page, **kwargs) for page in document.pages]

    def _new_file(self, title: str, language: str | None) -> tuple[ElementTree.Element, ElementTree.Element]:
        """The root with its head, and the body."""
        root = ElementTree.Element("html", {"xmlns": "http://www.w3.org/1999/xhtml"})
        if language is not None:
            # XML readers use the first, browsers the second.
            root.attrib.update({"xml:lang": language, "lang": language})
        head = ElementTree.SubElement(root, "head")
        ElementTree.SubElement(head, "title").text = one_line(title)
        content_type = {"http-equiv": "Content-Type", "content": "text/html; charset=utf-8"}
        ElementTree.SubElement(head, "meta", content_type)
        system = {"ocr-system": f"mediatensor {tool_version()}", "ocr-capabilities": self.ocr_capabilities}
        for name, content in system.items():
            ElementTree.SubElement(head, "meta", {"name": name, "content": content})
        return root, ElementTree.SubElement(root, "body")


def _xml_name(text: str) -> str:
    """The text as an identifier: all characters but letters, digits, ``.``, ``-`` and ``_`` become ``_``."""
    return re.sub(r"[^\w.-]", "_", text)


def _area_title(region: Region) -> str:
    if region.unread is None:
        return _bbox(region.place)
    values = {"x_unread": region.unread.reason, "x_script": region.unread.script}
    quoted = [f'{name} "{_property(value)}"' for name, value in values.items() if value is not None]
    return "; ".join([_bbox(region.place), *quoted])


def _property(text: str) -> str:
    """The text as the value of a property: readers split titles at semicolons, and values at quotation marks."""
    return re.sub(r'[";]', "_", one_line(text))


def _add_region(page_node: ElementTree.Element, region: Region, counters: dict[str, int]) -> None:
    """Add an area with one paragraph and its lines; the identifiers are those of docTR."""
    number = counters[region.kind]
    prefix = _xml_name(region.class_name)
    names = {
        "block": (f"block_{number}", f"par_{number}"),
        "table": (f"table_{number}", f"table_par_{number}"),
        "prediction": (f"{prefix}_prediction_{number}", f"{prefix}_par_{number}"),
        "unread": (f"unread_{number}", f"unread_par_{number}"),
    }[region.kind]
    area = _add(page_node, "div", "ocr_carea", names[0], _area_title(region))
    paragraph = _add(area, "p", "ocr_par", names[1], _bbox(region.place))
    for row in region.rows:
        _add_row(paragraph, row, region, number, counters)
    area.tail = "\n"


def _add_row(
    paragraph: ElementTree.Element, row: TextRow, region: Region, number: int, counters: dict[str, int]
) -> None:
    counters["line"] += region.kind == "block"
    line_name = {
        "block": f"line_{counters['line']}",
        "table": f"table_{number}_row_{row.index + 1}",
        "prediction": f"{_xml_name(region.class_name)}_line_{number}",
        "unread": f"unread_line_{number}",
    }[region.kind]
    line = _add(paragraph, "span", "ocr_line", line_name, _line_title(row))
    if row.right_to_left:
        line.set("dir", "rtl")
    for index, token in enumerate(row.tokens):
        counters["word"] += region.kind == "block"
        cell, part = token.cell
        word_name = {
            "block": f"word_{counters['word']}",
            "table": f"table_{number}_cell_{row.index + 1}_{cell + 1}" + (f"_{part + 1}" if part else ""),
            "prediction": f"{_xml_name(region.class_name)}_word_{number}",
        }[region.kind]
        word = _add_word(line, token, word_name)
        word.tail = " " if index + 1 < len(row.tokens) else None
    line.tail = "\n"


def _add_word(line: ElementTree.Element, token: Token, name: str) -> ElementTree.Element:
    title = f"{_bbox(token.place)}; x_wconf {round(percent(token.confidence))}"
    word = _add(line, "span", "ocrx_word", name, title)
    word.text = one_line(token.text)
    return word
