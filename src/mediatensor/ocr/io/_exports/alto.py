"""ALTO 4: the XML of digital libraries (https://www.loc.gov/standards/alto/)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import SubElement

from .reading import one_line, unread_lines
from .regions import Place, Region, TextRow, Token, document_pages, language_tag, page_regions, percent, tool_version

__all__ = ["AltoExporter"]

_NAMESPACE = "http://www.loc.gov/standards/alto/ns-v4#"
_SCHEMA = "http://www.loc.gov/standards/alto/v4/alto-4-2.xsd"


class AltoExporter:
    """Export to ALTO 4.2.

    Positions are in pixels. Rotated text has its enclosing box and its outline (``Shape``). Lines have a baseline, and
    words a confidence and, where they are known, characters (``Glyph``). A line that was not read is a ``TextBlock``
    without lines. Its tag (``OtherTag`` of the type "unread") has the reason as its label and a script as its
    description.

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
        """Export a page or a document into one file.

        Args:
            source: A `Page`, `KIEPage`, `Document` or `KIEDocument`.
            file_name: The name of the image or document, for the description in the file.
            direction: Reading direction: 'auto', 'ltr', 'rtl', 'ttb-rtl' or 'ttb-ltr'.
            reading_order: Whether the content is put into reading order; otherwise it stays as stored.

        Returns:
            The file in UTF-8 and its tree.
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
        _add_description(root, file_name)
        pages = document_pages(source)
        tags = _add_tags(root, pages)
        layout = SubElement(root, "Layout")
        for number, page in enumerate(pages, start=1):
            _add_page(layout, page, number, page_regions(page, direction, reading_order), tags)
        return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True), ElementTree.ElementTree(root)


def _add_description(root: ElementTree.Element, file_name: str | None) -> None:
    description = SubElement(root, "Description")
    SubElement(description, "MeasurementUnit").text = "pixel"
    if file_name is not None:
        source = SubElement(description, "sourceImageInformation")
        SubElement(source, "fileName").text = one_line(file_name)
    software = SubElement(SubElement(description, "Processing", {"ID": "processing_1"}), "processingSoftware")
    SubElement(software, "softwareName").text = "mediatensor"
    SubElement(software, "softwareVersion").text = tool_version()


def _add_tags(root: ElementTree.Element, pages: Sequence[Any]) -> dict[tuple[str, str | None], str]:
    """Add a tag for each reason and script of lines that were not read; returns their identifiers."""
    kinds = dict.fromkeys((line.reason, line.script) for page in pages for line in unread_lines(page))
    if not kinds:
        return {}
    node = SubElement(root, "Tags")
    names = {kind: f"unread_{index}" for index, kind in enumerate(kinds, start=1)}
    for (reason, script), name in names.items():
        description = {} if script is None else {"DESCRIPTION": one_line(script)}
        SubElement(node, "OtherTag", {"ID": name, "TYPE": "unread", "LABEL": one_line(reason), **description})
    return names


def _add_page(
    layout: ElementTree.Element, page: Any, number: int, regions: Any, tags: dict[tuple[str, str | None], str]
) -> None:
    height, width = page.dimensions
    size = {"WIDTH": str(width), "HEIGHT": str(height)}
    name = f"page_{number}"
    node = SubElement(layout, "Page", {"ID": name, "PHYSICAL_IMG_NR": str(page.page_idx + 1), **size})
    space = SubElement(node, "PrintSpace", {"HPOS": "0", "VPOS": "0", **size})
    tag = language_tag(page)
    language = {} if tag is None else {"LANG": tag}
    for index, region in enumerate(regions, start=1):
        attributes = language
        if region.unread is not None:
            attributes = {"TAGREFS": tags[region.unread.reason, region.unread.script]}
        _add_region(space, region, f"{name}_block_{index}", attributes, (width, height))


def _add_region(
    space: ElementTree.Element, region: Region, name: str, attributes: dict[str, str], size: tuple[int, int]
) -> None:
    parent = space
    if region.kind == "table":
        parent = _placed(space, "ComposedBlock", f"{name}_table", region.place, {"TYPE": "table"})
    rotation = {} if region.place.straight else {"ROTATION": f"{region.place.angle:.2f}"}
    block = _placed(parent, "TextBlock", name, region.place, {**rotation, **attributes})
    for index, row in enumerate((row for row in region.rows if row.tokens), start=1):
        _add_row(block, row, f"{name}_line_{index}", size)


def _add_row(block: ElementTree.Element, row: TextRow, name: str, size: tuple[int, int]) -> None:
    line = _placed(block, "TextLine", name, row.place, {"BASELINE": _points(row.baseline)})
    for index, token in enumerate(row.tokens, start=1):
        if index > 1:
            SubElement(line, "SP")
        _add_token(line, token, f"{name}_string_{index}", size)


def _add_token(line: ElementTree.Element, token: Token, name: str, size: tuple[int, int]) -> None:
    attributes = {"CONTENT": one_line(token.text), "WC": f"{percent(token.confidence) / 100:.4f}"}
    string = _placed(line, "String", name, token.place, attributes)
    glyphs = [(one_line(character.value), character) for character in token.characters]
    if any(len(text) != 1 for text, _ in glyphs):
        return  # The schema allows glyphs of exactly one character.
    for index, (text, character) in enumerate(glyphs, start=1):
        attributes = {"CONTENT": text, "GC": f"{percent(character.confidence) / 100:.4f}"}
        _placed(string, "Glyph", f"{name}_glyph_{index}", Place.of(character.geometry, *size), attributes)


def _placed(
    parent: ElementTree.Element, tag: str, name: str, place: Place, attributes: dict[str, str] | None = None
) -> ElementTree.Element:
    """Add an element with its box and, if it is rotated, its outline, which must be the first child."""
    left, top, right, bottom = place.box
    box = {"HPOS": left, "VPOS": top, "WIDTH": right - left, "HEIGHT": bottom - top}
    texts = {key: str(value) for key, value in box.items()}
    node = SubElement(parent, tag, {"ID": name, **texts, **(attributes or {})})
    if not place.straight:
        SubElement(SubElement(node, "Shape"), "Polygon", {"POINTS": _points(place.quad)})
    return node


def _points(points: Any) -> str:
    return " ".join(f"{round(float(x))},{round(float(y))}" for x, y in points)
