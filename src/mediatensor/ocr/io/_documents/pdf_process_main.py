"""The program of the PDF process, in which PDFium opens and renders documents. It sends plain data, never pickles."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import mmap
import os
import pickle
import signal
import socket
from array import array
from typing import Any, NamedTuple

from ....isolate import _channel
from ....isolate._confinement import end_with_parent, no_core_dumps
from . import pdf_drawing, pdf_page
from .pdfium import OpenPdf, import_pdfium

READY, VALUE, FAILURE = b"R", b"V", b"F"


class Request(NamedTuple):
    """A request of the parent process for the document ``key``.

    Attributes:
        opening: A pickle of the arguments of `OpenPdf`, in the first request for the document.
        forgotten: Keys of documents that are no longer needed.
        task: ``"open"``, ``"render"``, ``"characters"`` or ``"drawing"``.
        number: The number of the page.
        options: A pickle of `PdfOptions`.
        timeout_seconds: The process ends itself after this time.
    """

    key: int
    opening: bytes | None
    forgotten: tuple[int, ...]
    task: str
    number: int
    options: bytes
    timeout_seconds: float


def main(descriptor: int, fault_descriptor: int, memory_descriptor: int) -> None:
    """Serve requests until the parent closes the connection.

    Args:
        descriptor: File descriptor of the socket to the parent.
        fault_descriptor: File descriptor that Python writes a traceback to when the process crashes.
        memory_descriptor: File descriptor of the memory that is shared with the parent; -1 for none.
    """
    # Nothing that is printed in this process may reach the standard output of the parent.
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    no_core_dumps()
    faulthandler.enable(fault_descriptor)
    import_pdfium()
    connection = socket.socket(fileno=descriptor)
    end_with_parent(connection)
    # Each with a copy, for `page_as_shown`.
    documents: dict[int, tuple[OpenPdf, OpenPdf]] = {}
    memory = mmap.mmap(memory_descriptor, 0) if memory_descriptor >= 0 else None
    try:
        _channel.send(connection, READY, b"")
        with connection.makefile("rb") as requests:
            while True:
                request: Request = pickle.load(requests)
                # A watchdog thread, which ends the process even while PDFium works or after the parent has ended.
                faulthandler.dump_traceback_later(request.timeout_seconds, exit=True, file=fault_descriptor)
                _channel.send(connection, *_respond(request, documents, memory))
                faulthandler.cancel_dump_traceback_later()
    except (EOFError, ConnectionError):
        return


def _respond(
    request: Request, documents: dict[int, tuple[OpenPdf, OpenPdf]], memory: mmap.mmap | None
) -> tuple[bytes, bytes, list[memoryview]]:
    try:
        for key in request.forgotten:
            documents.pop(key, None)
        if request.opening is not None:
            opening = pickle.loads(request.opening)
            documents[request.key] = OpenPdf(*opening), OpenPdf(*opening)
        options: pdf_page.PdfOptions = pickle.loads(request.options)
        file, copy = documents[request.key]
        with file() as pdf:
            match request.task:
                case "open":
                    return VALUE, _json(len(pdf)), []
                case "render":
                    return _rendered(pdf, request.number, options, memory)
                case "drawing":
                    return _drawn(pdf, request.number, options, copy)
                case _:
                    found = pdf_page.characters(pdf, request.number, options, copy)
                    # 64-bit numbers first, so that all numbers are aligned.
                    parts = (found.boxes, found.matrix, found.codes)
                    return VALUE, _json(len(found.codes)), [memoryview(part).cast("B") for part in parts if part]
    except Exception as error:
        return FAILURE, _json(type(error).__name__, str(error).rstrip(".") or type(error).__name__), []


def _rendered(
    pdf: Any, number: int, options: pdf_page.PdfOptions, memory: mmap.mmap | None
) -> tuple[bytes, bytes, list[memoryview]]:
    """Render a page; a page that fits into the shared memory is drawn there instead of being sent."""
    is_shared = False

    def new_bitmap(width: int, height: int, format: int, rev_byteorder: bool = False) -> Any:
        nonlocal is_shared
        pdfium = import_pdfium()
        num_bytes = width * height * pdfium.internal.BitmapTypeToNChannels[format]
        is_shared = memory is not None and num_bytes <= len(memory)
        buffer = (ctypes.c_ubyte * num_bytes).from_buffer(memory) if memory is not None and is_shared else None
        return pdfium.PdfBitmap.new_native(width, height, format, rev_byteorder, buffer=buffer)

    *values, data = pdf_page.rendered(pdf, number, options, new_bitmap)
    return VALUE, _json(*values, is_shared), [] if is_shared else [memoryview(data).cast("B")]


def _drawn(pdf: Any, number: int, options: pdf_page.PdfOptions, copy: OpenPdf) -> tuple[bytes, bytes, list[memoryview]]:
    found = pdf_drawing.drawn_page(pdf, number, options, copy)
    text = found.characters
    # 64-bit numbers first, so that all numbers are aligned.
    numbers: list[array[float]] = [
        text.boxes,
        text.matrix,
        found.styles,
        found.lines,
        found.fills,
        found.areas,
        found.pictures,
    ]
    parts = [memoryview(part).cast("B") for part in numbers if part]
    parts += [memoryview(text.codes).cast("B")] if text.codes else []
    return VALUE, _json(found.width, found.height, len(text.codes), *map(len, numbers)), parts


def _json(*values: Any) -> bytes:
    return json.dumps(values).encode()
