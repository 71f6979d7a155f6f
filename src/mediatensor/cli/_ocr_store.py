"""Pages of a document that were read so far: a folder beside the output, so that a second run goes on from there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .._atomic_files import write_file

__all__ = ["PageStore"]

_KEY_FILE = "key.json"


class PageStore:
    """Pages by index, a file or two each. A page is there whole, or it is not there.

    Nothing is written before the first page is put.

    Args:
        folder: Where they are kept.
        key: What they depend on: the source and the options. Pages that were kept for another key are thrown away.
    """

    def __init__(self, folder: Path, key: Mapping[str, Any]) -> None:
        self._folder = folder
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
        write_file(self._page(number), json.dumps(page).encode())

    def get(self, number: int) -> dict[str, Any]:
        """A page that was put."""
        page: dict[str, Any] = json.loads(self._page(number).read_bytes())
        return page

    def pdf(self, number: int) -> Path:
        """The PDF file that was put with a page."""
        return self._folder / f"{number:08d}.pdf"

    def clear(self) -> None:
        """Throw everything away."""
        if self._folder.is_dir():
            for path in [self._folder / _KEY_FILE, *self._folder.glob("*.json"), *self._folder.glob("*.pdf")]:
                path.unlink(missing_ok=True)
            with suppress(OSError):  # something else lies there: leave it
                self._folder.rmdir()

    def _page(self, number: int) -> Path:
        return self._folder / f"{number:08d}.json"
