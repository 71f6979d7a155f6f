"""From the pages of a document to the file that was asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from .._sources import write_file
from ..errors import ReadError
from . import _text

if TYPE_CHECKING:
    from ..ocr.io import Document

__all__ = ["PageStore", "WrittenOutputs", "merge_hocr", "write_document"]

_XHTML = "http://www.w3.org/1999/xhtml"


def write_document(
    document: Document, kind: str, output: Path, name: str, times: Mapping[int, float], *, layout: bool = False
) -> None:
    """Write a document. The file appears whole or not at all.

    Args:
        document: Its pages know their index.
        kind: A key of `FORMATS`; for ``"pdf"`` the pages have their images.
        output: The file.
        name: The name of the document, for titles.
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


_KEY_FILE = "key.json"


class PageStore:
    """Pages by index, each in one or two files. A page is stored whole or not at all.

    Nothing is written before the first page is put.

    Args:
        folder: Where they are kept.
        key: The source and the options that the pages depend on. Pages that were kept for another key are deleted.
    """

    def __init__(self, folder: Path, key: Mapping[str, Any]) -> None:
        self._folder = folder
        # Another run of the same document may complete it first and clear the folder: the pages of this run.
        self._own: dict[int, dict[str, Any]] = {}
        self._key = json.dumps(key, sort_keys=True)
        try:
            is_ours = (folder / _KEY_FILE).read_text(encoding="utf-8") == self._key
        except (OSError, UnicodeDecodeError):
            is_ours = False
        if not is_ours:
            self.clear()

    def __contains__(self, number: int) -> bool:
        return self._page(number).exists()

    def put(self, number: int, page: dict[str, Any], pdf: bytes | None = None) -> None:
        """Keep a page, and with it the PDF file of that page."""
        if not self._folder.is_dir():
            self._folder.mkdir(parents=True)
        if not (self._folder / _KEY_FILE).exists():
            write_file(self._folder / _KEY_FILE, self._key.encode())
        if pdf is not None:
            write_file(self.pdf(number), pdf)
        self._own[number] = page
        write_file(self._page(number), json.dumps(page).encode())

    def get(self, number: int) -> dict[str, Any]:
        """A page that was put.

        Raises:
            ReadError: if another run removed it.
        """
        if number in self._own:
            return self._own[number]
        try:
            page: dict[str, Any] = json.loads(self._page(number).read_bytes())
        except FileNotFoundError as error:
            raise ReadError(
                f"Page {number + 1}, which an earlier run had read, is gone: another run works on this document in the "
                "same folder. Run it again."
            ) from error
        return page

    def pdf(self, number: int) -> Path:
        """The PDF file that was put with a page."""
        return self._folder / f"{number:08d}.pdf"

    def clear(self) -> None:
        """Delete everything."""
        if self._folder.is_dir():
            for path in [self._folder / _KEY_FILE, *self._folder.glob("*.json"), *self._folder.glob("*.pdf")]:
                path.unlink(missing_ok=True)
            with suppress(OSError):  # it has other files in it: keep it
                self._folder.rmdir()

    def _page(self, number: int) -> Path:
        return self._folder / f"{number:08d}.json"


class WrittenOutputs:
    """The record of the complete outputs in a folder: the source and options of each, and its state when written.

    A hidden file has a line of JSON for each. Lines are only ever added, and the last one of an output counts, so that
    several programs may write into one folder.
    """

    _FILE = ".mediatensor-ocr.jsonl"

    def __init__(self, folder: Path) -> None:
        self._path = folder / self._FILE
        self._entries: dict[str, dict[str, Any]] = {}
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return
        for line in lines:
            with suppress(ValueError, KeyError, TypeError):  # a line that was cut off does not count
                entry = json.loads(line)
                self._entries[entry["output"]] = entry

    def is_made_from(self, output: Path, key: Mapping[str, Any]) -> bool:
        """Whether an output was made from this; ``key`` is the source and the options."""
        entry = self._entries.get(output.name)
        return entry is not None and entry.get("key") == json.loads(json.dumps(key))

    def is_as_written(self, output: Path) -> bool:
        """Whether this command wrote an output, and it has not changed since."""
        entry = self._entries.get(output.name)
        return entry is not None and entry.get("state") == _file_state(output)

    def add(self, output: Path, key: Mapping[str, Any]) -> None:
        """Note an output that was written just now."""
        entry = {"output": output.name, "key": key, "state": _file_state(output)}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        self._entries[output.name] = json.loads(json.dumps(entry))


def _file_state(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]
