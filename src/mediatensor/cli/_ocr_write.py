"""From the pages of a document to the file that was asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from .._atomic_files import write_file
from . import _text

if TYPE_CHECKING:
    from ..ocr.io import Document

__all__ = ["merge_hocr", "write_document"]

_XHTML = "http://www.w3.org/1999/xhtml"


def write_document(
    document: Document, kind: str, output: Path, name: str, times: Mapping[int, float], *, layout: bool = False
) -> None:
    """Write a document; the file is whole or it is not there.

    Args:
        document: Its pages know their index.
        kind: A key of `FORMATS`; for ``"pdf"`` the pages have their images.
        output: The file.
        name: Of the document, for titles.
        times: Seconds by page index, where the pages are frames of a video.
        layout: Whether plain text keeps the look of the pages.
    """
    data = _plain_text(document, times, layout) if kind == "txt" else _exported(document, kind, name, times)
    write_file(output, data if isinstance(data, bytes) else data.encode())


def _exported(document: Document, kind: str, name: str, times: Mapping[int, float]) -> str | bytes:
    match kind:
        case "json":
            return _json(document, times)
        case "md":
            return f"{document.export_as_markdown()}\n"
        case "html":
            title = escape(name)
            head = f'<!DOCTYPE html>\n<html>\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n</head>\n'
            return f"{head}<body>\n{document.export_as_html()}\n</body>\n</html>\n"
        case "hocr":
            return merge_hocr([content for content, _ in document.export_as_xml(file_title=name)])
        case "alto":
            content, _ = document.export_as_alto(file_name=name)
            return content
        case "pdf":
            return document.export_as_pdf()
        case _:
            return document.export_as_tsv()


def _json(document: Document, times: Mapping[int, float]) -> str:
    exported: dict[str, Any] = document.export()
    for page in exported["pages"]:
        if page["page_idx"] in times:
            page["pts_seconds"] = times[page["page_idx"]]
    return json.dumps(exported, ensure_ascii=False, indent=1) + "\n"


def _plain_text(document: Document, times: Mapping[int, float], layout: bool) -> str:
    if not times:
        return f"{document.render(layout=layout)}\n"
    texts = [f"[{_text.clock(times[page.page_idx])}]\n{page.render(layout=layout)}".rstrip() for page in document.pages]
    return "\n\n".join(texts) + "\n"


def merge_hocr(pages: Sequence[bytes]) -> bytes:
    """One hOCR file with all pages; what is inside a page gets names that begin with that of the page.

    Args:
        pages: A file each, at least one.
    """
    ElementTree.register_namespace("", _XHTML)
    root = ElementTree.fromstring(pages[0])
    body = _body(root)
    for content in pages[1:]:
        for page in _body(ElementTree.fromstring(content)):
            for element in page.iter():
                if element is not page and "id" in element.attrib:
                    element.set("id", f"{page.get('id')}_{element.get('id')}")
            body.append(page)
    merged: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return merged + b"\n"


def _body(root: ElementTree.Element) -> ElementTree.Element:
    body = root.find(f"{{{_XHTML}}}body")
    if body is None:
        raise ValueError("an hOCR file has a body")
    return body
