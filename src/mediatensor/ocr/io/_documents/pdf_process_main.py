"""The program of a process in which PDFium opens and renders documents; what it sends is data, and never code."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import mmap
import os
import pickle
import signal
import socket
from typing import Any, NamedTuple

from ....isolate import _channel
from ....isolate._confinement import end_with_parent, no_core_dumps
from . import pdf_page
from .pdfium import OpenPdf, import_pdfium

__all__ = ["FAILURE", "READY", "VALUE", "Request", "main"]

READY, VALUE, FAILURE = b"R", b"V", b"F"


class Request(NamedTuple):
    """What is asked for.

    Attributes:
        key: Of the document.
        opening: A pickle of the arguments of `OpenPdf`, the first time that there is something to do with it.
        forgotten: Keys of documents that are not wanted any more.
        task: ``"open"``, ``"render"`` or ``"characters"``.
        number: Of the page.
        options: A pickle of `PdfOptions`.
        timeout_seconds: When to give up.
    """

    key: int
    opening: bytes | None
    forgotten: tuple[int, ...]
    task: str
    number: int
    options: bytes
    timeout_seconds: float


def main(descriptor: int, fault_descriptor: int, memory_descriptor: int) -> None:
    """Serve requests until nobody is left to make them.

    Args:
        descriptor: Of the socket to the parent.
        fault_descriptor: Of a file for what Python has to say of a crash.
        memory_descriptor: Of memory that the parent sees, too; -1 for none.
    """
    # What is printed here is no business of the parent's standard output.
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    no_core_dumps()
    faulthandler.enable(fault_descriptor)
    import_pdfium()
    connection = socket.socket(fileno=descriptor)
    end_with_parent(connection)
    documents: dict[int, OpenPdf] = {}
    memory = mmap.mmap(memory_descriptor, 0) if memory_descriptor >= 0 else None
    try:
        _channel.send(connection, READY, b"")
        with connection.makefile("rb") as requests:
            while True:
                request: Request = pickle.load(requests)
                # Its thread ends the process even while PDFium works, or the parent is gone.
                faulthandler.dump_traceback_later(request.timeout_seconds, exit=True, file=fault_descriptor)
                _channel.send(connection, *_answer(request, documents, memory))
                faulthandler.cancel_dump_traceback_later()
    except (EOFError, ConnectionError):
        return


def _answer(
    request: Request, documents: dict[int, OpenPdf], memory: mmap.mmap | None
) -> tuple[bytes, bytes, list[memoryview]]:
    try:
        for key in request.forgotten:
            documents.pop(key, None)
        if request.opening is not None:
            documents[request.key] = OpenPdf(*pickle.loads(request.opening))
        options: pdf_page.PdfOptions = pickle.loads(request.options)
        with documents[request.key]() as pdf:
            match request.task:
                case "open":
                    return VALUE, _json(len(pdf)), []
                case "render":
                    return _rendered(pdf, request.number, options, memory)
                case _:
                    found = pdf_page.characters(pdf, request.number, options)
                    # Numbers of 64 bits first, so that all lie where such numbers may.
                    parts = (found.boxes, found.matrix, found.codes)
                    return VALUE, _json(len(found.codes)), [memoryview(part).cast("B") for part in parts if part]
    except Exception as error:
        return FAILURE, _json(type(error).__name__, str(error).rstrip(".") or type(error).__name__), []


def _rendered(
    pdf: Any, number: int, options: pdf_page.PdfOptions, memory: mmap.mmap | None
) -> tuple[bytes, bytes, list[memoryview]]:
    """A page; one that fits into the memory that the parent sees is drawn there, and not sent."""
    is_seen = False

    def new_bitmap(width: int, height: int, format: int, rev_byteorder: bool = False) -> Any:
        nonlocal is_seen
        pdfium = import_pdfium()
        num_bytes = width * height * pdfium.internal.BitmapTypeToNChannels[format]
        is_seen = memory is not None and num_bytes <= len(memory)
        buffer = (ctypes.c_ubyte * num_bytes).from_buffer(memory) if memory is not None and is_seen else None
        return pdfium.PdfBitmap.new_native(width, height, format, rev_byteorder, buffer=buffer)

    *facts, data = pdf_page.rendered(pdf, number, options, new_bitmap)
    return VALUE, _json(*facts, is_seen), [] if is_seen else [memoryview(data).cast("B")]


def _json(*values: Any) -> bytes:
    return json.dumps(values).encode()
