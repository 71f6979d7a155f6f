"""The separate PDF process, in which PDFium opens and renders documents, and the drawing of a page as plain data.

PDF files are untrusted, and might take over the process. It therefore answers with JSON and raw bytes only, never with
pickles, which could run code in the parent process. It must start fast, so this module imports neither torch nor numpy.

The drawing of a page is the style of its characters, and its lines, areas and images. If there is no time limit, it is
extracted without the process.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import math
import mmap
import os
import pickle
import re
import signal
import socket
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from ....isolate import _child
from .pdfium import (
    Characters,
    OpenPdf,
    PdfOptions,
    characters,
    characters_of,
    import_pdfium,
    page_as_shown,
    picture_size,
    relative_matrix,
    rendered,
)

#: Maximum number of lines on a page, and of filled rectangles, of areas and of images. Further ones are left out.
MAX_DRAWN_LINES = 50_000

#: Number of values for each character in `DrawnPage.styles`.
NUM_STYLE_VALUES = 7

# Maximum number of objects that are read on a page, including objects in forms; and maximum depth of forms in forms.
_MAX_OBJECTS = 200_000
_MAX_DEPTH = 8
# Maximum number of points of a path. Maps and outlines of scans have more, but are not tables.
_MAX_POINTS = 2000
# A filled area is taken for a line if it is thinner, in points.
_MAX_THICKNESS = 3.0
# Maximum rise of a level line, as a share of its length.
_MAX_SLOPE = 0.02
# Maximum number of filled areas to remember. White lines are visible on them.
_MAX_TINTED = 1000
# Maximum number of images under which words are searched.
_MAX_COVERS = 64
# A colour is white if every channel is at least this bright.
_WHITE = 250

_HEAVY_NAME = re.compile(r"bold|black|heavy|demi|[-,]bd\b|^(?:\w+\+)?cm\w*bx", re.IGNORECASE)
_OTHER_NAME = re.compile(r"regular|light|book|roman\b|italic|oblique", re.IGNORECASE)
_HEAVY_WEIGHT = 600
_FORCE_BOLD = 1 << 18
_INVISIBLE_TEXT = 3  # FPDF_TEXTRENDERMODE_INVISIBLE
_STROKED_TEXT = 2  # FPDF_TEXTRENDERMODE_FILL_STROKE: a way to embolden a font that has no bold face

# a, b, c, d, e, f, where (x, y) becomes (ax + cy + e, bx + dy + f)
_Matrix = tuple[float, float, float, float, float, float]
# left, bottom, right, top
_Box = tuple[float, float, float, float]

READY, VALUE, FAILURE = b"R", b"V", b"F"


class DrawnPage(NamedTuple):
    """The characters, lines, areas and images on a page.

    Lengths are in points. Positions are in the PDF page's own coordinates.

    Attributes:
        width, height: Size of the page as it is shown, that is, after rotation and cropping.
        characters: The text layer.
        styles: float64 (N, 7), a row for each character. A row has the font size; 1 if the character is bold; x and y
            of its origin on the baseline; x and y of the direction of the baseline; and 1 if the character is invisible
            or lies under an image. All values are NaN for characters that are not drawn, such as most spaces.
        lines: float64 (M, 5): x and y of the start, x and y of the end, and the thickness of each line. The edges of
            areas are lines of thickness 0.
        fills: float64 (F, 5): left, bottom, right, top and colour of each filled rectangle. The colour is encoded as a
            single number.
        areas: float64 (K, 4): left, bottom, right, top of each drawing with curves, slanting lines or shades.
        pictures: float64 (P, 4): left, bottom, right, top of each embedded image.
    """

    width: float
    height: float
    characters: Characters
    styles: array[float]
    lines: array[float]
    fills: array[float]
    areas: array[float]
    pictures: array[float]


def drawn_page(pdf: Any, number: int, options: PdfOptions, copy: OpenPdf) -> DrawnPage:
    """Return the characters, lines, areas and images on page ``number``, including form fields and annotations.

    `page_as_shown` explains the arguments.
    """
    with page_as_shown(pdf, number, options, copy) as (page, shown):
        width, height = picture_size(page, options)
        found, matrix = _Found(page.get_bbox()), relative_matrix(page, options)
        places: dict[int | None, int] = {}
        covers: list[tuple[int, _Box]] = []
        for place, (item, to_page) in enumerate(_objects(shown)):
            found.add(item, to_page)
            places[_address(item)] = place
            if len(covers) < len(found.pictures) // 4 <= _MAX_COVERS:
                left, bottom, right, top = found.pictures[-4:]
                covers.append((place, (left, bottom, right, top)))
        with closing(shown.get_textpage()) as text:
            codes, boxes = characters_of(text)
            styles = _styles(text, len(codes), places, covers)
    scale = options.scale
    drawn = (found.lines, found.fills, found.areas, found.pictures)
    return DrawnPage(width / scale, height / scale, Characters(codes, boxes, matrix), styles, *drawn)


def _styles(
    text: Any, count: int, places: Mapping[int | None, int], covers: Sequence[tuple[int, _Box]]
) -> array[float]:
    """Return the style of each of the ``count`` characters of a text page, as described in `DrawnPage`.

    Text is hidden by an image that is drawn later at the same place. To detect this, ``places`` maps the address of an
    object to its position in the drawing order, and ``covers`` lists (position in the drawing order, box) for each
    image.
    """
    raw = import_pdfium().raw
    styles = array("d")
    matrix, x, y = raw.FS_MATRIX(), ctypes.c_double(), ctypes.c_double()
    fonts: dict[int | None, bool] = {}
    for index in range(count):
        item = raw.FPDFText_GetTextObject(text, index)
        if not (item and raw.FPDFText_GetMatrix(text, index, matrix) and raw.FPDFText_GetCharOrigin(text, index, x, y)):
            styles.extend([math.nan] * NUM_STYLE_VALUES)
            continue
        font = raw.FPDFTextObj_GetFont(item)
        key = _address(font)
        if key not in fonts:
            fonts[key] = _is_heavy(font)
        mode = raw.FPDFTextObj_GetTextRenderMode(item)
        is_heavy = fonts[key] or mode == _STROKED_TEXT
        size = raw.FPDFText_GetFontSize(text, index) * math.hypot(matrix.c, matrix.d)
        # Text of negative size is rotated by 180 degrees.
        a, b = (matrix.a, matrix.b) if size >= 0 else (-matrix.a, -matrix.b)
        is_hidden = mode == _INVISIBLE_TEXT or any(
            place > places.get(_address(item), 0) and left <= x.value <= right and bottom <= y.value <= top
            for place, (left, bottom, right, top) in covers
        )
        styles.extend([abs(size), float(is_heavy), x.value, y.value, a, b, float(is_hidden)])
    return styles


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


def _is_heavy(font: Any) -> bool:
    """Return whether a font is bold, judged by its name and flags. If they are inconclusive, its weight decides."""
    raw = import_pdfium().raw
    buffer = ctypes.create_string_buffer(256)
    raw.FPDFFont_GetBaseFontName(font, buffer, len(buffer))
    name = buffer.value.decode("latin-1")
    if _HEAVY_NAME.search(name) or raw.FPDFFont_GetFlags(font) & _FORCE_BOLD:
        return True
    return raw.FPDFFont_GetWeight(font) >= _HEAVY_WEIGHT and not _OTHER_NAME.search(name)


def _objects(page: Any) -> Iterator[tuple[Any, _Matrix]]:
    """Yield the objects of a page, and the objects inside its form objects (PDF's term for reusable drawings).

    Each comes with the matrix that converts its coordinates to page coordinates.
    """
    raw = import_pdfium().raw
    counted = 0
    # For each container: the number of its next object, its number of objects, a function to get one, and the matrix.
    pending: list[list[Any]] = [
        [0, raw.FPDFPage_CountObjects(page), partial(raw.FPDFPage_GetObject, page), (1, 0, 0, 1, 0, 0)]
    ]
    while pending and counted < _MAX_OBJECTS:
        top = pending[-1]
        number, count, get, matrix = top
        if number >= count:
            pending.pop()
            continue
        top[0] += 1
        counted += 1
        item = get(number)
        if not item:
            continue
        if raw.FPDFPageObj_GetType(item) == raw.FPDF_PAGEOBJ_FORM:
            if len(pending) < _MAX_DEPTH:
                get_inner, inner = partial(raw.FPDFFormObj_GetObject, item), _multiplied(_matrix_of(item), matrix)
                pending.append([0, raw.FPDFFormObj_CountObjects(item), get_inner, inner])
        else:
            yield item, matrix


def _matrix_of(item: Any) -> _Matrix:
    raw = import_pdfium().raw
    matrix = raw.FS_MATRIX()
    if not raw.FPDFPageObj_GetMatrix(item, matrix):
        return (1, 0, 0, 1, 0, 0)
    return matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f


def _multiplied(first: _Matrix, second: _Matrix) -> _Matrix:
    """Return the matrix that applies ``first`` and then ``second``."""
    a, b, c, d, e, f = first
    p, q, r, s, t, u = second
    return a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s, e * p + f * r + t, e * q + f * s + u


def _moved(matrix: _Matrix, x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return a * x + c * y + e, b * x + d * y + f


def _moved_box(matrix: _Matrix, box: _Box) -> _Box:
    points = [_moved(matrix, x, y) for x in box[::2] for y in box[1::2]]
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


class _Found:
    """Collects the lines, areas and images that are drawn within ``page``, the box of the visible part of the page."""

    def __init__(self, page: _Box) -> None:
        self.lines, self.fills, self.areas, self.pictures = (array("d") for _ in range(4))
        self._page = page
        self._raw = import_pdfium().raw
        self._sides = [ctypes.c_float() for _ in range(4)]
        self._color = [ctypes.c_uint() for _ in range(4)]
        self._mode, self._stroke = ctypes.c_int(), ctypes.c_int()
        self._x, self._y, self._width = ctypes.c_float(), ctypes.c_float(), ctypes.c_float()
        self._tinted: list[_Box] = []

    def add(self, item: Any, matrix: _Matrix) -> None:
        """Add the lines, areas and images of a page object. ``matrix`` converts its coordinates to page coordinates."""
        raw = self._raw
        kind = raw.FPDFPageObj_GetType(item)
        if kind not in (raw.FPDF_PAGEOBJ_PATH, raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_SHADING):
            return
        if not raw.FPDFPageObj_GetBounds(item, *self._sides):
            return
        left, bottom, right, top = (side.value for side in self._sides)
        clip = self._clip(item, matrix)
        box = _moved_box(matrix, (left, bottom, right, top))
        seen = _shared(box, clip)
        if seen is None:
            return
        if kind == raw.FPDF_PAGEOBJ_PATH:
            self._add_path(item, _multiplied(_matrix_of(item), matrix), seen, clip)
        elif kind == raw.FPDF_PAGEOBJ_SHADING:
            self._add_box(self.areas, seen)
        elif not self._add_thin(seen):
            self._add_box(self.pictures, seen)

    def _clip(self, item: Any, matrix: _Matrix) -> _Box:
        """Return the box to which an object is clipped: the only part of the page where it can be visible."""
        raw, clip = self._raw, self._page
        path = raw.FPDFPageObj_GetClipPath(item)
        for number in range(min(8, raw.FPDFClipPath_CountPaths(path)) if path else 0):
            points = []
            for index in range(min(64, raw.FPDFClipPath_CountPathSegments(path, number))):
                segment = raw.FPDFClipPath_GetPathSegment(path, number, index)
                if segment and raw.FPDFPathSegment_GetPoint(segment, self._x, self._y):
                    points.append((self._x.value, self._y.value))
            if points:
                xs, ys = zip(*points, strict=True)
                clip = _shared(clip, _moved_box(matrix, (min(xs), min(ys), max(xs), max(ys)))) or (0, 0, 0, 0)
        return clip

    def _add_path(self, item: Any, matrix: _Matrix, box: _Box, clip: _Box) -> None:
        raw = self._raw
        if not raw.FPDFPath_GetDrawMode(item, self._mode, self._stroke):
            return
        is_filled = self._mode.value != 0 and self._is_seen(item, raw.FPDFPageObj_GetFillColor, box)
        color = float(sum(channel.value << 8 * place for place, channel in enumerate(self._color)))
        is_stroked = self._stroke.value != 0 and self._is_seen(item, raw.FPDFPageObj_GetStrokeColor, box)
        if not is_filled and not is_stroked:
            return
        count = raw.FPDFPath_CountSegments(item)
        if count > _MAX_POINTS:
            self._add_box(self.areas, box)
            return
        thickness = 0.0
        if is_stroked and raw.FPDFPageObj_GetStrokeWidth(item, self._width):
            thickness = max(0.1, self._width.value * math.sqrt(abs(matrix[0] * matrix[3] - matrix[1] * matrix[2])))
        for points, is_line in self._pieces(item, count, matrix, close=is_filled):
            xs, ys = zip(*points, strict=True)
            piece = _shared((min(xs), min(ys), max(xs), max(ys)), clip)
            if piece is None or (is_filled and not is_stroked and self._add_thin(piece)):
                continue
            steps = list(pairwise(points))
            is_level = [line and _is_level(*start, *end) for line, (start, end) in zip(is_line, steps, strict=True)]
            if not all(is_level):
                self._add_box(self.areas, piece)
            if is_filled and len(self._tinted) < _MAX_TINTED:
                self._tinted.append(piece)
            if is_filled and not is_stroked and all(is_level) and len(steps) == 4:
                if len(self.fills) < 5 * MAX_DRAWN_LINES:
                    self.fills.extend([*piece, color])
                continue
            for level, (start, end) in zip(is_level, steps, strict=True):
                if level:
                    self._add_line(*start, *end, thickness, clip)

    def _is_seen(self, item: Any, get_color: Any, box: _Box) -> bool:
        """Return whether an object in ``box`` has a visible colour.

        Transparent objects are not visible, and neither are white objects on a white background. ``get_color`` is
        PDFium's function that reads the colour of the lines or of the fill.
        """
        if not get_color(item, *self._color):
            return True
        *channels, alpha = (channel.value for channel in self._color)
        if alpha == 0:
            return False
        if min(channels) < _WHITE:
            return True
        return any(_shared(box, area) is not None for area in reversed(self._tinted))

    def _pieces(
        self, item: Any, count: int, matrix: _Matrix, *, close: bool
    ) -> Iterator[tuple[list[tuple[float, float]], list[bool]]]:
        """Split a path into its connected parts, and yield (points, is_line) for each.

        ``points`` are the N points of a part. ``is_line`` has N - 1 values. Each is true if the step from a point to
        the next is a straight line. ``close`` connects the last point of each part to the first.
        """
        raw = self._raw
        points: list[tuple[float, float]] = []
        is_line: list[bool] = []
        for index in range(count + 1):
            segment = raw.FPDFPath_GetPathSegment(item, index) if index < count else None
            kind = raw.FPDFPathSegment_GetType(segment) if segment else raw.FPDF_SEGMENT_MOVETO
            if kind == raw.FPDF_SEGMENT_MOVETO:
                if len(points) > 1:
                    if close and points[0] != points[-1]:
                        points.append(points[0])
                        is_line.append(True)
                    yield points, is_line
                points, is_line = [], []
            if not segment or not raw.FPDFPathSegment_GetPoint(segment, self._x, self._y):
                continue
            if points:
                is_line.append(kind == raw.FPDF_SEGMENT_LINETO)
            points.append(_moved(matrix, self._x.value, self._y.value))
            if raw.FPDFPathSegment_GetClose(segment) and points[0] != points[-1]:
                points.append(points[0])
                is_line.append(True)

    def _add_thin(self, box: _Box) -> bool:
        """Add a box as a line if it is thin enough to look like one. Return whether it was added."""
        left, bottom, right, top = box
        width, height = right - left, top - bottom
        if min(width, height) > _MAX_THICKNESS or max(width, height) < 3 * min(width, height):
            return False
        if width >= height:
            self._add_line(left, (bottom + top) / 2, right, (bottom + top) / 2, height, self._page)
        else:
            self._add_line((left + right) / 2, bottom, (left + right) / 2, top, width, self._page)
        return True

    def _add_line(self, x0: float, y0: float, x1: float, y1: float, thickness: float, clip: _Box) -> None:
        if len(self.lines) >= 5 * MAX_DRAWN_LINES or (x0, y0) == (x1, y1):
            return
        seen = _shared((min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)), clip)
        if seen is not None:
            left, bottom, right, top = seen
            middle_x, middle_y = (left + right) / 2, (bottom + top) / 2
            if right - left >= top - bottom:
                self.lines.extend([left, middle_y, right, middle_y, thickness])
            else:
                self.lines.extend([middle_x, bottom, middle_x, top, thickness])

    def _add_box(self, boxes: array[float], box: _Box) -> None:
        if len(boxes) < 4 * MAX_DRAWN_LINES:
            boxes.extend(box)


def _is_level(x0: float, y0: float, x1: float, y1: float) -> bool:
    """Return whether a line is nearly horizontal or nearly vertical."""
    across, down = abs(x1 - x0), abs(y1 - y0)
    return min(across, down) <= max(0.3, _MAX_SLOPE * max(across, down))


def _shared(one: _Box, other: _Box) -> _Box | None:
    """Return the intersection of two boxes, or ``None`` if they do not touch. Boxes can have width or height 0."""
    left, bottom = max(one[0], other[0]), max(one[1], other[1])
    right, top = min(one[2], other[2]), min(one[3], other[3])
    return (left, bottom, right, top) if left <= right and bottom <= top else None


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
    _child.no_core_dumps()
    faulthandler.enable(fault_descriptor)
    import_pdfium()
    connection = socket.socket(fileno=descriptor)
    _child.end_with_parent(connection)
    # Each document has a second copy, which `page_as_shown` changes.
    documents: dict[int, tuple[OpenPdf, OpenPdf]] = {}
    memory = mmap.mmap(memory_descriptor, 0) if memory_descriptor >= 0 else None
    try:
        _child.send(connection, READY, b"")
        with connection.makefile("rb") as requests:
            while True:
                request: Request = pickle.load(requests)
                # A watchdog thread ends the process, even while PDFium works or after the parent has ended.
                faulthandler.dump_traceback_later(request.timeout_seconds, exit=True, file=fault_descriptor)
                _child.send(connection, *_respond(request, documents, memory))
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
