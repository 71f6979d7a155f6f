"""PDFium, used by one thread at a time, with few documents open.

PDFium is not thread-safe, not even for different documents, so every call, closing included, holds one lock. A document
is opened when a page is needed. It stays open until enough other documents were used, or until it is freed.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import itertools
import os
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from os import PathLike
from typing import Any, BinaryIO

from ...._engine.common.interrupts import interrupts_kept
from ...._engine.common.locks import ForkSafeLock
from ...._engine.images.formats import NUM_SNIFFED_BYTES, look_like, sniff
from ....errors import MissingDependencyError, OpenError, SourceNotFoundError

# Documents that stay open; each may hold a file and what PDFium has read of it.
_MAX_OPEN = 4

_PASSWORD_ERROR = 4  # FPDF_ERR_PASSWORD

# Other bytes may come before the signature of a PDF file, but not more than these.
_SIGNATURE_WITHIN = 1024

#: Held during every call of PDFium.
pdfium_lock = ForkSafeLock()
_documents: OrderedDict[int, Any] = OrderedDict()
_keys = itertools.count()
# Documents of the parent of a forked process. They share file positions with the parent, and are not closed here before
# the end.
_inherited: list[Any] = []


def import_pdfium() -> Any:
    """Import pypdfium2; `MissingDependencyError` if it is not installed."""
    try:
        return importlib.import_module("pypdfium2")
    except ImportError:
        raise MissingDependencyError('Reading PDF needs pypdfium2: pip install "mediatensor[ocr]".') from None


def is_pdf(file: str | PathLike[str] | bytes) -> bool:
    """Return whether a file, given as a path or as bytes, is a PDF according to its first bytes.

    >>> is_pdf(b"%PDF-1.7 ..."), is_pdf(b"GIF89a")
    (True, False)
    """
    if isinstance(file, bytes):
        beginning = file[:_SIGNATURE_WITHIN]
    else:
        with open(file, "rb") as stream:
            beginning = stream.read(_SIGNATURE_WITHIN)
    return b"%PDF" in beginning


def save_document(document: Any, file: BinaryIO) -> None:
    """Write a document of pypdfium2, and raise what writing to the file raises. The caller holds the lock."""
    kept = _KeepingErrors(file)
    with interrupts_kept():
        document.save(kept)
    if kept.error is not None:
        raise kept.error


class _KeepingErrors:
    """A file that keeps its first error, because PDFium ignores errors and would leave an incomplete file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: Exception | None = None

    def write(self, data: Any) -> None:
        if self.error is None:
            try:
                self._file.write(data)
            except Exception as error:
                self.error = error


class OpenPdf:
    """A PDF file, given as a path or as bytes, that is opened when needed: picklable, and safe to use after a fork."""

    def __init__(self, source: str | bytes, name: str, password: str | None) -> None:
        self._source = source
        self._name = name
        self._password = password
        self._start()

    def _start(self) -> None:
        self._key = next(_keys)
        finalizer = weakref.finalize(self, _close, self._key)
        finalizer.atexit = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_key"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._start()

    @contextmanager
    def __call__(self) -> Iterator[Any]:
        """The document of pypdfium2, for a ``with`` block that holds the lock.

        Raises:
            OpenError: if PDFium cannot open it.
        """
        with pdfium_lock:
            document = _documents.get(self._key)
            if document is None:
                document = self._open()
                _documents[self._key] = document
                while len(_documents) > _MAX_OPEN:
                    _documents.popitem(last=False)[1].close()
            _documents.move_to_end(self._key)
            yield document

    def _open(self) -> Any:
        _close_at_exit()
        document = self.opened()
        # Without this, filled-in form fields are not drawn.
        document.init_forms()
        return document

    def opened(self) -> Any:
        """Return a new document of pypdfium2, which the caller may change and must close. The caller holds the lock.

        Raises `SourceNotFoundError` if the file is gone, and `OpenError` if PDFium cannot open it.
        """
        pdfium = import_pdfium()
        with ExitStack() as if_refused:
            source: Any = self._source
            if isinstance(source, str):
                # PDFium does not close every file that it refuses.
                try:
                    source = if_refused.enter_context(open(source, "rb"))
                except FileNotFoundError:
                    raise SourceNotFoundError(f"No such file or directory: {source!r}.") from None
            try:
                document = pdfium.PdfDocument(source, password=self._password, autoclose=True)
            except pdfium.PdfiumError as error:
                raise OpenError(f"Could not open {self._name} as a PDF document: {self._reason(error)}.") from None
            if_refused.pop_all()
        return document

    def _reason(self, error: Any) -> str:
        if getattr(error, "err_code", None) == _PASSWORD_ERROR:
            return "it is encrypted; pass password=" if self._password is None else "the password is not the right one"
        if is_pdf(self._source):
            return "it is damaged or has no pages"
        if isinstance(self._source, str):
            with open(self._source, "rb") as file:
                beginning = file.read(NUM_SNIFFED_BYTES)
        else:
            beginning = self._source[:NUM_SNIFFED_BYTES]
        hint = "; use DocumentFile.from_images" if sniff(beginning) or beginning[:2] in (b"II", b"MM") else ""
        return f"it looks like {look_like(beginning)}{hint}"


def _close(key: int) -> None:
    with pdfium_lock:
        document = _documents.pop(key, None)
        if document is not None:
            document.close()


@functools.cache
def _close_at_exit() -> None:
    """Close all documents at exit, before pypdfium2's own exit handler, which was registered earlier and runs later."""
    atexit.register(_close_all)


def _close_all() -> None:
    with pdfium_lock:
        for document in (*_documents.values(), *_inherited):
            document.close()
        _documents.clear()
        _inherited.clear()


def _before_fork() -> None:
    # No thread may be inside PDFium during a fork: the child would inherit it in the middle of a call.
    pdfium_lock.__enter__()


def _after_fork_in_parent() -> None:
    pdfium_lock.__exit__(None, None, None)


def _after_fork_in_child() -> None:
    _inherited.extend(_documents.values())
    _documents.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
