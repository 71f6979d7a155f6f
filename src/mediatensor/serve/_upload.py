"""Receive uploads within size and time limits.

An upload is a multipart form with one file. The other fields of the form are options.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import IO, Any

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from ._errors import ServeError
from ._jobs import Arrival

#: Size limit of a form without its file: boundaries, headers and options.
MAX_FORM_BYTES = 1 << 18

_MAX_OPTIONS = 64
_MAX_OPTION_BYTES = 1 << 14
_MAX_HEADER_BYTES = 4096
_MAX_NAME_CHARACTERS = 200
_UNNAMED = "upload"

# A client occupies a connection and a place in the queue. It is disconnected if it sends nothing for _SILENT_SECONDS,
# is slower than _MIN_BYTES_PER_SECOND after _PATIENT_SECONDS, or takes longer than _MAX_SECONDS in total.
_SILENT_SECONDS = 20.0
_PATIENT_SECONDS = 30.0
_MIN_BYTES_PER_SECOND = 4096
_MAX_SECONDS = 3600.0

# Characters that are removed from displayed names: control characters, surrogates, and bidirectional controls.
_UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass
class Upload:
    """A form that a client has sent: the displayed name of its file, the size of the file, and all other fields."""

    name: str = _UNNAMED
    size_bytes: int = 0
    options: dict[str, str] = field(default_factory=dict)


async def receive(request: Request, arrival: Arrival, max_upload_bytes: int) -> Upload:
    """Receive a form, and write its file to ``arrival.folder / "upload"``.

    Raise `ServeError` 400 if the form is invalid, 408 if it is slow, 413 if it is too large, 429 or 503 without space.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > max_upload_bytes + MAX_FORM_BYTES:
        raise _too_large(max_upload_bytes)
    kind, parameters = parse_options_header(request.headers.get("content-type"))
    if kind != b"multipart/form-data" or not parameters.get(b"boundary"):
        raise ServeError(
            400, "BadRequest", 'Send a form, multipart/form-data, with the file as "file" and options as other fields.'
        )
    # Reserve storage as bytes arrive. Otherwise, a client could block storage with a large Content-Length.
    with open(arrival.folder / "upload", "xb", buffering=0) as file:
        form = _Form(file, max_upload_bytes)
        try:
            parser = MultipartParser(parameters[b"boundary"], form.callbacks(), max_header_size=_MAX_HEADER_BYTES)
            received = 0
            async for chunk in _chunks(request):
                received += len(chunk)
                parser.write(chunk)
                if received - form.upload.size_bytes > MAX_FORM_BYTES:
                    raise ServeError(
                        413, "TooLarge", f"The form has more than {MAX_FORM_BYTES} bytes in addition to its file."
                    )
                if form.pieces:
                    arrival.reserve(form.upload.size_bytes)
                    pieces, form.pieces = form.pieces, []
                    await asyncio.to_thread(_write, file, pieces)
            if not form.is_whole:
                raise ServeError(
                    400, "BadRequest", "The form was cut short: it ends before its last boundary; send it again."
                )
        except FormParserError as error:
            raise ServeError(400, "BadRequest", f"The form cannot be read: {error}") from error
        except OSError as error:
            raise ServeError(503, "StorageFull", f"The upload cannot be stored: {error.strerror}.") from error
    if not form.has_file:
        raise ServeError(400, "BadRequest", 'The form has no file: send it as the field "file".')
    return form.upload


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    """Yield the body of a request in parts. Raise `ServeError` if the client sends it too slowly, or disconnects."""
    begin, received = time.monotonic(), 0
    stream = request.stream()
    while True:
        try:
            chunk = await asyncio.wait_for(anext(stream), _SILENT_SECONDS)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise _too_slow() from None
        except ClientDisconnect as error:
            raise ServeError(400, "Disconnected", "The client went away.") from error
        received += len(chunk)
        seconds = time.monotonic() - begin
        is_slow = seconds > _PATIENT_SECONDS and received < seconds * _MIN_BYTES_PER_SECOND
        if is_slow or seconds > _MAX_SECONDS:
            raise _too_slow()
        yield chunk


def _write(file: IO[bytes], pieces: list[bytes]) -> None:
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            rest = rest[file.write(rest) :]


class _Form:
    """Collects the parts of a form while a parser reads it: `callbacks` returns the functions that the parser calls."""

    def __init__(self, file: IO[bytes], max_upload_bytes: int) -> None:
        self.upload = Upload()
        self.pieces: list[bytes] = []
        self.has_file = False
        self.is_whole = False
        self._max_upload_bytes = max_upload_bytes
        self._header = b""
        self._value = b""
        self._disposition = b""
        self._field = ""
        self._is_file = False
        self._num_options = 0
        self._text = bytearray()

    def callbacks(self) -> Any:
        return {
            "on_part_begin": self._begin_part,
            "on_header_field": self._add_header,
            "on_header_value": self._add_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._end_headers,
            "on_part_data": self._add_data,
            "on_part_end": self._end_part,
            "on_end": self._end,
        }

    def _begin_part(self) -> None:
        self._disposition = b""
        self._text = bytearray()

    def _add_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _add_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header, self._value = b"", b""

    def _end_headers(self) -> None:
        _, parameters = parse_options_header(self._disposition)
        self._field = parameters.get(b"name", b"").decode(errors="replace")
        self._is_file = b"filename" in parameters or self._field == "file"
        if self._is_file:
            if self.has_file:
                raise ServeError(400, "BadRequest", "The form has two files; send each file in its own request.")
            self.has_file = True
            self.upload.name = shown_name(parameters.get(b"filename", b"").decode(errors="replace"))
            return
        self._num_options += 1
        if self._num_options > _MAX_OPTIONS:
            raise ServeError(400, "BadRequest", f"The form has more than {_MAX_OPTIONS} options.")

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self.upload.size_bytes += end - start
            if self.upload.size_bytes > self._max_upload_bytes:
                raise _too_large(self._max_upload_bytes)
            self.pieces.append(data[start:end])
            return
        self._text += data[start:end]
        if len(self._text) > _MAX_OPTION_BYTES:
            raise ServeError(400, "BadRequest", f"The option {self._field[:40]!r} is too long.")

    def _end_part(self) -> None:
        if self._is_file:
            return
        text = self._text.decode(errors="replace")
        given = self.upload.options
        # If a field is repeated, which is how forms send lists, join its values.
        given[self._field] = f"{given[self._field]},{text}" if self._field in given else text

    def _end(self) -> None:
        self.is_whole = True


def shown_name(name: str) -> str:
    r"""Return the name of a file for display: without its folders, and without invisible characters.

    The result is never a path, even if a client sends one.

    >>> shown_name("../../etc/passwd"), shown_name("C:\\scans\\page 1.png"), shown_name("..")
    ('passwd', 'page 1.png', 'upload')
    """
    name = _UNSHOWN.sub("", re.split(r"[/\\]", name)[-1]).strip()
    return name[:_MAX_NAME_CHARACTERS] if name.strip(".") else _UNNAMED


def _too_large(most: int) -> ServeError:
    return ServeError(413, "TooLarge", f"The upload is larger than {most} bytes, which is the limit.")


def _too_slow() -> ServeError:
    return ServeError(408, "TooSlow", "The upload was sent too slowly.", {"Connection": "close"})
