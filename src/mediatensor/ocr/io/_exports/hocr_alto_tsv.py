"""Export to formats that store the position of each word: hOCR 1.2, ALTO 4 and tesseract's TSV.

hOCR is HTML with positions (https://github.com/kba/hocr-spec/blob/master/1.2/spec.md). ALTO is an XML format that
digital libraries use (https://www.loc.gov/standards/alto/).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar
from xml.etree import ElementTree
from xml.etree.ElementTree import SubElement

from .._elements.page_order import one_line, unread_lines
from .regions import Place, Region, TextRow, Token, document_pages, language_tag, page_regions, percent, tool_version

DEFAULT_TITLE = "mediatensor - XML export (hOCR)"

# Text rotated by up to this angle, in degrees, counts as skewed. Its baseline has a slope, which tesseract writes and
# all programs understand. Text with a larger angle has a textangle.
_MAX_SKEW = 5.0


def _box_on_page(place: Place) -> list[int]:
    # The numbers of a bbox must not be negative, but rotated words at the border of a page may extend beyond it.
    return [max(side, 0) for side in place.box]


def _bbox(place: Place) -> str:
    return "bbox {} {} {} {}".format(*_box_on_page(place))


def _number(value: float) -> str:
    return f"{value:z.4f}".rstrip("0").rstrip(".")


def _line_title(row: TextRow) -> str:
    parts = [_bbox(row.place)]
    angle = row.place.angle
    if abs(angle) > _MAX_SKEW:
        parts.append(f"textangle {_number(round(angle, 2))}")
    else:
        start, (left, _, _, bottom) = row.baseline[0], _box_on_page(row.place)
        slope = math.tan(math.radians(-angle))
        parts.append(f"baseline {_number(slope)} {_number(round(start[1] + slope * (left - start[0]) - bottom, 2))}")
    parts.append(f"x_size {_number(round(row.place.size, 2))}")
    return "; ".join(parts)


def _add(parent: ElementTree.Element, tag: str, kind: str, identifier: str, title: str) -> ElementTree.Element:
    return SubElement(parent, tag, {"class": kind, "id": identifier, "title": title})


class XMLExporter:
    """Export to hOCR 1.2: HTML that contains the position of each word.

    Words and lines are separated by white space, so if you remove all tags from the file, the text of the page remains.
    If the language of the page is known, the file states it.

    For rotated text, ``bbox`` is the axis-aligned box around it. For a line rotated by up to 5 degrees, the property
    ``baseline`` has its slope. For any other rotated line, ``textangle`` has its angle in degrees.

    A line that was detected but not read becomes an area that contains one line without words. The area's property
    ``x_unread`` states the reason. If the reason is an unknown script, ``x_script`` has the name of the script:
    ``x_unread "script"; x_script "Cyrillic"``.

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
        """Export a `Page` or `KIEPage`. Return the pair (hOCR file as UTF-8 ``bytes``, its ``ElementTree``).

        See `Page.export_as_xml` for the other arguments.
        """
        root, body = self._new_file(file_title, language_tag(page))
        height, width = page.dimensions
        title = f"bbox 0 0 {width} {height}; ppageno {page.page_idx}"
        page_node = _add(body, "div", "ocr_page", f"page_{page.page_idx + 1}", title)
        counters = {"block": 0, "line": 0, "word": 0, "table": 0, "prediction": 0, "unread": 0}
        for region in page_regions(page, direction, reading_order):
            counters[region.kind] += 1
            _add_area(page_node, region, counters)
        # HTML parsers ignore the slash of "<span />", and take all further elements for its children.
        data = ElementTree.tostring(root, encoding="utf-8", short_empty_elements=False)
        return data.replace(b"></meta>", b" />"), ElementTree.ElementTree(root)

    def export_kie_page(self, page: Any, **kwargs: Any) -> tuple[bytes, ElementTree.ElementTree]:
        """Export a `KIEPage`. This is the same as `export_page`, which also describes the arguments and the result."""
        return self.export_page(page, **kwargs)

    def export_document(self, document: Any, **kwargs: Any) -> list[tuple[bytes, ElementTree.ElementTree]]:
        """Export each page of a document as a separate file. Return a list with one pair (file, tree) for each page.

        See `export_page` for the pair and for the arguments.
        """
        return [self.export_page(page, **kwargs) for page in document.pages]

    def _new_file(self, title: str, language: str | None) -> tuple[ElementTree.Element, ElementTree.Element]:
        """Return the elements (root, body) of a new hOCR file. The head is complete, and the body is empty."""
        root = ElementTree.Element("html", {"xmlns": "http://www.w3.org/1999/xhtml"})
        if language is not None:
            # XML programs use the first, browsers the second.
            root.attrib.update({"xml:lang": language, "lang": language})
        head = SubElement(root, "head")
        SubElement(head, "title").text = one_line(title)
        content_type = {"http-equiv": "Content-Type", "content": "text/html; charset=utf-8"}
        SubElement(head, "meta", content_type)
        system = {"ocr-system": f"mediatensor {tool_version()}", "ocr-capabilities": self.ocr_capabilities}
        for name, content in system.items():
            SubElement(head, "meta", {"name": name, "content": content})
        return root, SubElement(root, "body")


def _area_title(region: Region) -> str:
    if region.unread is None:
        return _bbox(region.place)
    values = {"x_unread": region.unread.reason, "x_script": region.unread.script}
    # In a value, programs would take these characters for the end of a property.
    texts = {name: re.sub(r'[";]', "_", one_line(value)) for name, value in values.items() if value is not None}
    quoted = [f'{name} "{text}"' for name, text in texts.items()]
    return "; ".join([_bbox(region.place), *quoted])


def _add_area(page_node: ElementTree.Element, region: Region, counters: dict[str, int]) -> None:
    """Add a region to the page as an area that contains one paragraph with all its lines.

    ``counters`` has the next number for each kind of identifier. Identifiers have the same form as in docTR.
    """
    number = counters[region.kind]
    # In identifiers, all characters except letters, digits, ".", "-" and "_" become "_".
    owner = re.sub(r"[^\w.-]", "_", region.class_name) + "_" if region.kind == "prediction" else ""
    prefix = owner or ("" if region.kind == "block" else f"{region.kind}_")
    area = _add(page_node, "div", "ocr_carea", f"{owner}{region.kind}_{number}", _area_title(region))
    paragraph = _add(area, "p", "ocr_par", f"{prefix}par_{number}", _bbox(region.place))
    for row in region.rows:
        _add_line(paragraph, row, (region.kind, prefix, number), counters)
    area.tail = "\n"


def _add_line(
    paragraph: ElementTree.Element, row: TextRow, area: tuple[str, str, int], counters: dict[str, int]
) -> None:
    """Add a line and its words to a paragraph.

    Identifiers are formed from ``area``: (kind, prefix, number) of the area that contains the paragraph.
    """
    kind, prefix, number = area
    counters["line"] += kind == "block"
    line_name = f"{prefix}line_{counters['line'] if kind == 'block' else number}"
    if kind == "table":
        line_name = f"table_{number}_row_{row.index + 1}"
    line = _add(paragraph, "span", "ocr_line", line_name, _line_title(row))
    if row.right_to_left:
        line.set("dir", "rtl")
    for index, token in enumerate(row.tokens):
        counters["word"] += kind == "block"
        word_name = f"{prefix}word_{counters['word'] if kind == 'block' else number}"
        if kind == "table":
            cell, part = token.cell
            word_name = f"table_{number}_cell_{row.index + 1}_{cell + 1}" + (f"_{part + 1}" if part else "")
        title = f"{_bbox(token.place)}; x_wconf {round(percent(token.confidence))}"
        word = _add(line, "span", "ocrx_word", word_name, title)
        word.text = one_line(token.text)
        word.tail = " " if index + 1 < len(row.tokens) else None
    line.tail = "\n"


_NAMESPACE = "http://www.loc.gov/standards/alto/ns-v4#"
_SCHEMA = "http://www.loc.gov/standards/alto/v4/alto-4-2.xsd"


class AltoExporter:
    """Export to ALTO 4.2, an XML format that digital libraries use.

    Positions are in pixels. Rotated text has both an axis-aligned box and an outline (``Shape``). Lines have a
    baseline. Words have a confidence and, if known, their characters (``Glyph``).

    A line that was detected but not read becomes a ``TextBlock`` without lines. It refers to an ``OtherTag`` of type
    "unread", whose label states the reason. If the reason is an unknown script, the tag's description has the name of
    the script.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import AltoExporter, Block, Line, Page, Word
        >>> word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = Page(np.full((80, 120, 3), 255, np.uint8), [Block([Line([word])])], 0, (80, 120))
        >>> AltoExporter().export(page)[0][:5]
        b'<?xml'
    """

    def export(
        self, source: Any, file_name: str | None = None, direction: str = "auto", reading_order: bool = True
    ) -> tuple[bytes, ElementTree.ElementTree]:
        """Export a page or a whole document. Return the pair (ALTO file as UTF-8 ``bytes``, its ``ElementTree``).

        See `Page.export_as_alto` for the other arguments.
        """
        root = ElementTree.Element(
            "alto",
            {
                "xmlns": _NAMESPACE,
                "xmlns:xsi": "http://www.w3.org/2001/XMLSchema-instance",
                "xsi:schemaLocation": f"{_NAMESPACE} {_SCHEMA}",
                "SCHEMAVERSION": "4.2",
            },
        )
        description = SubElement(root, "Description")
        SubElement(description, "MeasurementUnit").text = "pixel"
        if file_name is not None:
            image = SubElement(description, "sourceImageInformation")
            SubElement(image, "fileName").text = one_line(file_name)
        software = SubElement(SubElement(description, "Processing", {"ID": "processing_1"}), "processingSoftware")
        SubElement(software, "softwareName").text = "mediatensor"
        SubElement(software, "softwareVersion").text = tool_version()
        pages = document_pages(source)
        tags = _add_tags(root, pages)
        layout = SubElement(root, "Layout")
        for number, page in enumerate(pages, start=1):
            height, width = page.dimensions
            size = {"WIDTH": str(width), "HEIGHT": str(height)}
            name = f"page_{number}"
            node = SubElement(layout, "Page", {"ID": name, "PHYSICAL_IMG_NR": str(page.page_idx + 1), **size})
            space = SubElement(node, "PrintSpace", {"HPOS": "0", "VPOS": "0", **size})
            tag = language_tag(page)
            language = {} if tag is None else {"LANG": tag}
            for index, region in enumerate(page_regions(page, direction, reading_order), start=1):
                attributes = language
                if region.unread is not None:
                    attributes = {"TAGREFS": tags[region.unread.reason, region.unread.script]}
                _add_block(space, region, f"{name}_block_{index}", attributes, (width, height))
        return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True), ElementTree.ElementTree(root)


def _add_tags(root: ElementTree.Element, pages: Sequence[Any]) -> dict[tuple[str, str | None], str]:
    """Add a tag for each (reason, script) of unread lines. Return the identifiers by (reason, script)."""
    kinds = dict.fromkeys((line.reason, line.script) for page in pages for line in unread_lines(page))
    if not kinds:
        return {}
    node = SubElement(root, "Tags")
    names = {kind: f"unread_{index}" for index, kind in enumerate(kinds, start=1)}
    for (reason, script), name in names.items():
        description = {} if script is None else {"DESCRIPTION": one_line(script)}
        SubElement(node, "OtherTag", {"ID": name, "TYPE": "unread", "LABEL": one_line(reason), **description})
    return names


def _add_block(
    space: ElementTree.Element, region: Region, name: str, attributes: dict[str, str], size: tuple[int, int]
) -> None:
    parent = space
    if region.kind == "table":
        parent = _placed(space, "ComposedBlock", f"{name}_table", region.place, {"TYPE": "table"})
    rotation = {} if region.place.straight else {"ROTATION": f"{region.place.angle:.2f}"}
    block = _placed(parent, "TextBlock", name, region.place, {**rotation, **attributes})
    for index, row in enumerate((row for row in region.rows if row.tokens), start=1):
        line_name = f"{name}_line_{index}"
        line = _placed(block, "TextLine", line_name, row.place, {"BASELINE": _points(row.baseline)})
        for number, token in enumerate(row.tokens, start=1):
            if number > 1:
                SubElement(line, "SP")
            _add_string(line, token, f"{line_name}_string_{number}", size)


def _add_string(line: ElementTree.Element, token: Token, name: str, size: tuple[int, int]) -> None:
    attributes = {"CONTENT": one_line(token.text), "WC": f"{percent(token.confidence) / 100:.4f}"}
    string = _placed(line, "String", name, token.place, attributes)
    glyphs = [(one_line(character.value), character) for character in token.characters]
    if any(len(text) != 1 for text, _ in glyphs):
        return  # The schema allows only glyphs of exactly one character.
    for index, (text, character) in enumerate(glyphs, start=1):
        attributes = {"CONTENT": text, "GC": f"{percent(character.confidence) / 100:.4f}"}
        _placed(string, "Glyph", f"{name}_glyph_{index}", Place.of(character.geometry, *size), attributes)


def _placed(
    parent: ElementTree.Element, tag: str, name: str, place: Place, attributes: dict[str, str] | None = None
) -> ElementTree.Element:
    """Add an element with a box. A rotated one has its outline as first child, as the schema demands."""
    left, top, right, bottom = place.box
    box = {"HPOS": left, "VPOS": top, "WIDTH": right - left, "HEIGHT": bottom - top}
    texts = {key: str(value) for key, value in box.items()}
    node = SubElement(parent, tag, {"ID": name, **texts, **(attributes or {})})
    if not place.straight:
        SubElement(SubElement(node, "Shape"), "Polygon", {"POINTS": _points(place.quad)})
    return node


def _points(points: Any) -> str:
    return " ".join(f"{round(float(x))},{round(float(y))}" for x, y in points)


_COLUMNS = (
    *("level", "page_num", "block_num", "par_num", "line_num", "word_num"),
    *("left", "top", "width", "height", "conf", "text"),
)


class TSVExporter:
    """Export to a table with the same columns as the output of ``tesseract image out tsv``.

    There is a row for each page (level 1), block (2), paragraph (3), line (4) and word (5). The columns ``page_num`` to
    ``word_num`` of a row are the numbers of the element and of the elements that contain it, counted from 1. Numbers
    that do not apply are 0: a line, for example, has the word number 0. The columns ``left``, ``top``, ``width`` and
    ``height`` are the axis-aligned box in pixels.

    Only rows of words have a text (without tabs and line breaks) and a confidence in percent. In all other rows, the
    text is empty and the confidence is -1. A line that was detected but not read has a row, but no words.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import Block, Line, Page, TSVExporter, Word
        >>> word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = Page(np.full((80, 120, 3), 255, np.uint8), [Block([Line([word])])], 0, (80, 120))
        >>> TSVExporter().export(page).split()[-1]
        'Total'
    """

    def export(self, source: Any, direction: str = "auto", reading_order: bool = True) -> str:
        """Export a page or a whole document. Return the table as a ``str``, with the column names in the first line.

        See `Page.export_as_tsv` for the other arguments.
        """
        rows = [row for page in document_pages(source) for row in _page_rows(page, direction, reading_order)]
        return "".join("\t".join(map(str, row)) + "\n" for row in [_COLUMNS, *rows])


def _page_rows(page: Any, direction: str, reading_order: bool) -> Iterator[tuple[Any, ...]]:
    height, width = page.dimensions
    number = page.page_idx + 1
    yield 1, number, 0, 0, 0, 0, 0, 0, width, height, -1, ""
    for block, region in enumerate(page_regions(page, direction, reading_order), start=1):
        yield 2, number, block, 0, 0, 0, *_extent(region.place), -1, ""
        yield 3, number, block, 1, 0, 0, *_extent(region.place), -1, ""
        for line, row in enumerate(region.rows, start=1):
            yield 4, number, block, 1, line, 0, *_extent(row.place), -1, ""
            for word, token in enumerate(row.tokens, start=1):
                confidence = f"{percent(token.confidence):.6f}"
                yield 5, number, block, 1, line, word, *_extent(token.place), confidence, one_line(token.text)


def _extent(place: Place) -> tuple[int, int, int, int]:
    left, top, right, bottom = place.box
    return left, top, right - left, bottom - top
