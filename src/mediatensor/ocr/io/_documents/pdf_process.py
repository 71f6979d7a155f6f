"""PDFium in a separate process, which is ended when a page takes too long.

PDFium cannot be interrupted while it reads the content of a page or draws a pattern, and a thread would have to wait
for it. One process serves all documents of this process. It starts when the first document is opened.
"""

from __future__ import annotations

import itertools
import json
import mmap
import os
import pickle
import sys
import weakref
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np

from ...._engine.common.locks import ForkSafeLock
from ....errors import DecodeError, IsolatedWorkerError, OpenError
from ....isolate import Process, TimeLimit, common_memory
from .pdf_drawing import MAX_DRAWN_LINES, NUM_STYLE_VALUES, DrawnPage
from .pdf_page import MAX_PAGE_CHARACTERS, Characters, PdfOptions, Pixels
from .pdf_process_main import FAILURE, READY, VALUE, Request

#: Maximum seconds that PDFium works on a page in datasets and the command, where files are usually untrusted.
DEFAULT_TIMEOUT_SECONDS = 60

# Memory that both processes see: an A4 page at 450 dpi.
_SHARED_BYTES = 64 << 20

# Documents that the process keeps open; each may hold a file, or all its bytes.
_MAX_OPEN = 4

# Stub packages replace the packages of this library, so that their ``__init__`` is not run: importing torch takes
# seconds. The list has every package of which the process imports a module.
_PROGRAM = """\
import sys, types
descriptors = [int(text) for text in sys.argv[1:4]]
folder = sys.argv[4]
sys.path[:] = sys.argv[5:]
del sys.argv[1:]
for name in ("", "._engine", "._engine.common", "._engine.images", ".isolate", ".ocr", ".ocr.io", ".ocr.io._documents"):
    package = types.ModuleType("mediatensor" + name)
    package.__path__ = [folder + name.replace(".", "/")]
    sys.modules[package.__name__] = package
from mediatensor.ocr.io._documents.pdf_process_main import main
main(*descriptors)
"""
_FOLDER = str(Path(__file__).resolve().parents[3])

_keys = itertools.count()
_lock = ForkSafeLock()
_process: _PdfProcess | None = None
# Keys of documents that were freed. Finalizers run at any time, even during a request, so they only append a key.
_forgotten: list[int] = []


class _PdfProcess(Process):
    """The separate process in which PDFium runs.

    ``known`` has the keys of its documents, the most recently used last. The process draws pages into the shared
    memory ``page``, uint8, which is empty if the system has no shared memory. It sends pages that do not fit.
    """

    def __init__(self) -> None:
        self.known: OrderedDict[int, None] = OrderedDict()
        self.page = np.empty(0, np.uint8)
        descriptor = common_memory(_SHARED_BYTES)
        if descriptor is None:
            super().__init__(_PROGRAM, ["-1", _FOLDER, *sys.path])
        else:
            try:
                super().__init__(_PROGRAM, [str(descriptor), _FOLDER, *sys.path], [descriptor])
                self.page = np.frombuffer(mmap.mmap(descriptor, _SHARED_BYTES), np.uint8)
            finally:
                os.close(descriptor)
        self.receive(TimeLimit.of_start(), READY)


class IsolatedPdf:
    """A PDF file that the PDF process opens when it is needed: picklable, and safe to use after a fork."""

    def __init__(
        self, source: str | bytes, name: str, password: str | None, options: PdfOptions, timeout_seconds: float
    ) -> None:
        self._opening = (source, name, password)
        self._options = options
        self._timeout_seconds = timeout_seconds
        self._start()

    def _start(self) -> None:
        self._key = next(_keys)
        weakref.finalize(self, _forgotten.append, self._key).atexit = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_key"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._start()

    def num_pages(self) -> int:
        """Return the number of pages; `OpenError` if PDFium cannot open the file in time."""
        try:
            (count,), _ = self._call("open", 0)
        except (DecodeError, IsolatedWorkerError) as error:
            reason = str(error).rstrip(".")
            raise OpenError(f"Could not open {self._opening[1]} as a PDF document: {reason}.") from None
        return int(count)

    def rendered(self, number: int) -> Pixels:
        """Render a page like `pdf_page.rendered`. Raise `DecodeError` if rendering fails or times out."""
        (width, height, num_channels, row_bytes, has_alpha, _), data = self._call("render", number)
        return Pixels(int(width), int(height), int(num_channels), int(row_bytes), bool(has_alpha), data)

    def characters(self, number: int) -> Characters:
        """Return the text layer as from `pdf_page.characters`; `DecodeError` if it cannot be read in time."""
        (count,), data = self._call("characters", number)
        if not 0 <= count <= MAX_PAGE_CHARACTERS or len(data) != 36 * count + 48:
            raise DecodeError("its process sent data of the wrong size")
        numbers = data[: 32 * count + 48].view(np.float64)
        codes: Any = data[32 * count + 48 :].view(np.uint32)
        boxes: Any = numbers[: 4 * count]
        matrix: Any = numbers[4 * count :]
        return Characters(codes, boxes, matrix)

    def drawn(self, number: int) -> DrawnPage:
        """Return the drawing as from `pdf_drawing.drawn_page`; `DecodeError` if it cannot be read in time."""
        (width, height, count, *lengths), data = self._call("drawing", number)
        limits = (5 * MAX_DRAWN_LINES, 5 * MAX_DRAWN_LINES, 4 * MAX_DRAWN_LINES, 4 * MAX_DRAWN_LINES)
        if (
            not 0 <= count <= MAX_PAGE_CHARACTERS
            or lengths[:3] != [4 * count, 6, NUM_STYLE_VALUES * count]
            or not all(0 <= length <= limit for length, limit in zip(lengths[3:], limits, strict=True))
            or len(data) != 8 * sum(lengths) + 4 * count
        ):
            raise DecodeError("its process sent data of the wrong size")
        stops = np.cumsum(lengths)
        numbers: list[Any] = np.split(data[: 8 * stops[-1]].view(np.float64), stops[:-1])
        boxes, matrix, *drawn = numbers
        codes: Any = data[8 * stops[-1] :].view(np.uint32)
        return DrawnPage(float(width), float(height), Characters(codes, boxes, matrix), *drawn)

    def _call(self, task: str, number: int) -> tuple[Any, Any]:
        """Send a request; return the values of the response, and the bytes that come with them as uint8 (N,)."""
        options = pickle.dumps(self._options)
        with _lock:
            process = _running()
            try:
                response = self._exchange(process, task, number, options)
                values = json.loads(response.body)
                if response.kind == VALUE:
                    if task == "render" and values[-1]:
                        # The next page is drawn on the same memory.
                        return values, process.page[: int(values[1]) * int(values[3])].copy()
                    return values, response.contents.numpy()
            except IsolatedWorkerError as error:
                process.close()
                raise DecodeError(self._reason(error)) from error
            except BaseException:
                # Ctrl-C: the pending response would be taken for the response of the next call.
                process.close()
                raise
        kind, text = values
        raise {"OpenError": OpenError, "MemoryError": MemoryError}.get(kind, DecodeError)(str(text))

    def _exchange(self, process: _PdfProcess, task: str, number: int, options: bytes) -> Any:
        forgotten, known = list(_forgotten), process.known
        del _forgotten[: len(forgotten)]
        opening = None if self._key in known else pickle.dumps(self._opening)
        known[self._key] = None
        known.move_to_end(self._key)
        while len(known) > _MAX_OPEN:
            forgotten.append(known.popitem(last=False)[0])
        for key in forgotten:
            known.pop(key, None)
        limit = TimeLimit.of_call(self._timeout_seconds)
        process.write(
            pickle.dumps(Request(self._key, opening, tuple(forgotten), task, number, options, self._timeout_seconds)),
            limit,
        )
        return process.receive(limit, VALUE, FAILURE)

    def _reason(self, error: IsolatedWorkerError) -> str:
        if error.reason == "timeout":
            return (
                f"PDFium did not finish within timeout_seconds = {self._timeout_seconds:g} and was ended; "
                "if you trust the file, pass a larger one, or None for no limit"
            )
        return f"PDFium failed: {str(error).rstrip('.')}"


def _running() -> _PdfProcess:
    """Return the running process; start a process if none is running."""
    global _process
    if _process is None or not _process.is_alive:
        if _process is not None:
            _process.close()
        _process = _PdfProcess()
    return _process


def _after_fork_in_child() -> None:
    global _process
    _process = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
