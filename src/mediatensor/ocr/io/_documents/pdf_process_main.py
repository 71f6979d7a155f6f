"""The program of the separate PDF process, in which PDFium opens and renders documents.

PDF files are untrusted, and might take over this process. It therefore answers with JSON and raw bytes only, never with
pickles, which could run code in the parent process.
"""

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
from .pdf_drawing import drawn_page
from .pdfium import OpenPdf, PdfOptions, characters, import_pdfium, rendered

READY, VALUE, FAILURE = b"R", b"V", b"F"


class Request(NamedTuple):
    """A request that the parent process sends to this process.

    Attributes:
        key: The parent's number for the document.
        opening: The pickled arguments of `OpenPdf` if this process does not have the document open, or else ``None``.
        forgotten: Keys of documents that this process should close.
        task: ``"open"``, ``"render"``, ``"characters"`` or ``"drawing"``.
        number: The number of the page, from 0.
        options: The pickled `PdfOptions`.
        timeout_seconds: Time after which this process ends itself if the task is not finished.
    """

    key: int
    opening: bytes | None
    forgotten: tuple[int, ...]
    task: str
    number: int
    options: bytes
    timeout_seconds: float


def main(descriptor: int, fault_descriptor: int, memory_descriptor: int) -> None:
    """Serve requests of the parent process until it closes the connection.

    Args:
        descriptor: File descriptor of the socket that is connected to the parent.
        fault_descriptor: File descriptor to which Python writes a traceback if this process crashes.
        memory_descriptor: File descriptor of the memory that is shared with the parent, or -1 if there is none.
    """
    # Output of this process must not reach the standard output of the parent.
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    no_core_dumps()
    faulthandler.enable(fault_descriptor)
    import_pdfium()
    connection = socket.socket(fileno=descriptor)
    end_with_parent(connection)
    # Each document has a second copy, which `page_as_shown` changes.
    documents: dict[int, tuple[OpenPdf, OpenPdf]] = {}
    memory = mmap.mmap(memory_descriptor, 0) if memory_descriptor >= 0 else None
    try:
        _channel.send(connection, READY, b"")
        with connection.makefile("rb") as requests:
            while True:
                request: Request = pickle.load(requests)
                # A watchdog thread ends the process, even while PDFium works or after the parent has ended.
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
        options: PdfOptions = pickle.loads(request.options)
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
                    found = characters(pdf, request.number, options, copy)
                    return VALUE, _json(len(found.codes)), _parts(found.boxes, found.matrix, found.codes)
    except Exception as error:
        return FAILURE, _json(type(error).__name__, str(error).rstrip(".") or type(error).__name__), []


def _rendered(
    pdf: Any, number: int, options: PdfOptions, memory: mmap.mmap | None
) -> tuple[bytes, bytes, list[memoryview]]:
    """Render a page for the parent. If it fits into the shared memory, it is drawn there, and only its size is sent."""
    is_shared = False

    def new_bitmap(width: int, height: int, format: int, rev_byteorder: bool = False) -> Any:
        nonlocal is_shared
        pdfium = import_pdfium()
        num_bytes = width * height * pdfium.internal.BitmapTypeToNChannels[format]
        is_shared = memory is not None and num_bytes <= len(memory)
        buffer = (ctypes.c_ubyte * num_bytes).from_buffer(memory) if memory is not None and is_shared else None
        return pdfium.PdfBitmap.new_native(width, height, format, rev_byteorder, buffer=buffer)

    *values, data = rendered(pdf, number, options, new_bitmap)
    return VALUE, _json(*values, is_shared), [] if is_shared else [memoryview(data).cast("B")]


def _drawn(pdf: Any, number: int, options: PdfOptions, copy: OpenPdf) -> tuple[bytes, bytes, list[memoryview]]:
    width, height, text, *drawings = drawn_page(pdf, number, options, copy)
    numbers = [text.boxes, text.matrix, *drawings]
    return VALUE, _json(width, height, len(text.codes), *map(len, numbers)), _parts(*numbers, text.codes)


def _parts(*arrays: array[Any]) -> list[memoryview]:
    """Return the bytes of each array. Arrays of 64-bit numbers come first, so that all numbers are aligned."""
    return [memoryview(part).cast("B") for part in arrays if part]


def _json(*values: Any) -> bytes:
    return json.dumps(values).encode()
