"""Open documents with PDFium when a page is needed, and read pages as plain data: pixels, and characters with boxes.

PDFium is not thread-safe, not even for different documents. All calls of PDFium, even to close a document, therefore
hold a global lock, `pdfium_lock`. A document stays open until its object is freed, or until `_MAX_OPEN` other documents
have been used more recently.

This module also runs in the separate PDF process. It imports neither torch nor numpy, so that the process can start in
0.2 seconds.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import importlib
import itertools
import math
import os
import weakref
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from os import PathLike
from typing import Any, BinaryIO, NamedTuple

from ...._engine.common.interrupts import interrupts_kept
from ...._engine.common.locks import ForkSafeLock
from ...._engine.images.formats import NUM_SNIFFED_BYTES, check_pixels, look_like, sniff
from ....errors import DecodeError, MissingDependencyError, OpenError, SourceNotFoundError

# Maximum number of documents that stay open. Each may hold an open file, and what PDFium has read of it.
_MAX_OPEN = 4

_PASSWORD_ERROR = 4  # FPDF_ERR_PASSWORD

# The signature of a PDF file may come after up to this many other bytes.
_SIGNATURE_WITHIN = 1024

#: Maximum number of objects (paths, images, pieces of text) on a page that can be rendered.
MAX_PAGE_OBJECTS = 2_000_000

#: Maximum number of characters in the text layer of a page.
MAX_PAGE_CHARACTERS = 1_000_000

# A box that is thinner than this share of its length is not ink: for glyphs without outlines, PDFium reports lines.
_MIN_INK = 0.01

# Flags of annotations (ISO 32000-2, 12.5.3).
_INVISIBLE, _HIDDEN, _NO_VIEW = 1, 2, 32

# Number of device units across a page. PDFium rounds device coordinates to whole units.
_STEPS = 1 << 20

#: Held during every call of PDFium.
pdfium_lock = ForkSafeLock()
_documents: OrderedDict[int, Any] = OrderedDict()
_keys = itertools.count()
# Documents of the parent of this forked process. They share file positions with the parent, so they are closed only at
# exit.
_inherited: list[Any] = []


def import_pdfium() -> Any:
    """Import pypdfium2. Raise `MissingDependencyError` if it is not installed."""
    try:
        return importlib.import_module("pypdfium2")
    except ImportError:
        raise MissingDependencyError('Reading PDF needs pypdfium2: pip install "mediatensor[ocr]".') from None


def is_pdf(file: str | PathLike[str] | bytes) -> bool:
    """Return whether a file starts like a PDF file. ``file`` is its path, or its bytes.

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
    """Save a pypdfium2 document to ``file``. If writing to ``file`` fails, its error is raised.

    The caller must hold `pdfium_lock`.
    """
    kept = _KeepingErrors(file)
    with interrupts_kept():
        document.save(kept)
    if kept.error is not None:
        raise kept.error


class _KeepingErrors:
    """A wrapper of a file that stores the first error of ``write``, which PDFium ignores while it saves."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: Exception | None = None

    def write(self, data: Any) -> None:
        if self.error is None:
            try:
                self._file.write(data)
            except Exception as error:
                self.error = error


class KeyedPdf:
    """Base class of PDF files that are opened when needed. ``_key`` is the key under which an open document is stored.

    Objects can be pickled, and used after a fork.
    """

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._key = next(_keys)
        weakref.finalize(self, self._forget, self._key).atexit = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_key"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._start()

    @staticmethod
    def _forget(key: int) -> None:
        """Close the document with this key.

        This is called when the document's owner is freed, which can happen at any time and in any thread.
        """
        raise NotImplementedError


class OpenPdf(KeyedPdf):
    """A PDF file that PDFium opens in this process. ``source`` is its path, or its bytes."""

    def __init__(self, source: str | bytes, name: str, password: str | None) -> None:
        super().__init__()
        self._source = source
        self._name = name
        self._password = password

    @contextmanager
    def __call__(self) -> Iterator[Any]:
        """Open the file if necessary, and return its pypdfium2 document for the duration of a ``with`` block.

        `pdfium_lock` is held until the end of the block.

        Raises:
            OpenError: if PDFium cannot open the file.
        """
        with pdfium_lock:
            document = _documents.get(self._key)
            if document is None:
                _close_at_exit()
                document = _documents[self._key] = self.opened()
                # Without this call, filled-in form fields are not drawn.
                document.init_forms()
                while len(_documents) > _MAX_OPEN:
                    _documents.popitem(last=False)[1].close()
            _documents.move_to_end(self._key)
            yield document

    def opened(self) -> Any:
        """Open the file again as a separate pypdfium2 document, which the caller may change.

        The caller must hold `pdfium_lock`, and must close the document.

        Raises:
            SourceNotFoundError: if the file no longer exists.
            OpenError: if PDFium cannot open it.
        """
        pdfium = import_pdfium()
        with ExitStack() as if_refused:
            source: Any = self._source
            if isinstance(source, str):
                # PDFium leaves some files open that it cannot read.
                try:
                    source = if_refused.enter_context(open(source, "rb"))
                except FileNotFoundError:
                    raise SourceNotFoundError(f"No such file or directory: {source!r}.") from None
                except OSError as error:
                    raise OpenError(f"Could not open {self._name} as a PDF document: {error}.") from None
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

    @staticmethod
    def _forget(key: int) -> None:
        with pdfium_lock:
            document = _documents.pop(key, None)
            if document is not None:
                document.close()


@functools.cache
def _close_at_exit() -> None:
    """Make sure that all documents are closed when Python exits, before pypdfium2's own exit handler runs.

    Python runs exit handlers in reverse order, and pypdfium2 registers its own when it is imported.
    """
    atexit.register(_close_all)


def _close_all() -> None:
    with pdfium_lock:
        for document in (*_documents.values(), *_inherited):
            document.close()
        _documents.clear()
        _inherited.clear()


def _after_fork_in_child() -> None:
    _inherited.extend(_documents.values())
    _documents.clear()


if hasattr(os, "register_at_fork"):
    # No thread may be inside PDFium during a fork, because the child would inherit an unfinished call.
    os.register_at_fork(
        before=pdfium_lock.acquire, after_in_parent=pdfium_lock.release, after_in_child=_after_fork_in_child
    )


class PdfOptions(NamedTuple):
    """Options for rendering pages.

    ``scale``, ``rgb_mode`` and ``max_pixels`` are arguments of `read_pdf`. ``render`` has further arguments of
    pypdfium2's ``PdfPage.render``.
    """

    scale: float
    rgb_mode: bool
    max_pixels: int | None
    render: Mapping[str, Any]


class Pixels(NamedTuple):
    """A rendered page.

    ``width`` and ``height`` are in pixels. ``data`` has the channels as uint8, with ``row_bytes`` bytes for each row of
    the image. If there are four channels but ``has_alpha`` is false, the fourth channel is unused.
    """

    width: int
    height: int
    num_channels: int
    row_bytes: int
    has_alpha: bool
    data: Any


class Characters(NamedTuple):
    """The text layer of a page.

    Attributes:
        codes: uint32 (N,): Unicode code points, or halves of surrogate pairs.
        boxes: float64 (N, 4): left, right, bottom, top of each character in points, in the coordinate system of the PDF
            page; NaN for a character that has no box.
        matrix: float64 (3, 2). It maps (x, y, 1) in this coordinate system to a position in the image, in fractions of
            the image size.
    """

    codes: array[int]
    boxes: array[float]
    matrix: array[float]


def rendered(pdf: Any, number: int, options: PdfOptions, new_bitmap: Callable[..., Any] | None = None) -> Pixels:
    """Render page ``number``, counted from 0, of a pypdfium2 document.

    ``new_bitmap`` creates the bitmap to draw on, in the same way as the argument ``bitmap_maker`` of
    ``PdfPage.render``. It is ignored if the options contain a ``bitmap_maker``.

    Raises:
        DecodeError: if the page has too many objects.
    """
    sides = pdf.get_page_size(number)
    if not all(sides):
        with opened_page(pdf, number):  # which gives the page a size
            sides = pdf.get_page_size(number)
    width, height = (side * options.scale for side in sides)
    if not (math.isfinite(width) and math.isfinite(height)):
        raise DecodeError(f"its size is {width}x{height}")
    check_pixels(math.ceil(width), math.ceil(height), options.max_pixels)
    with opened_page(pdf, number) as page:
        check_objects(page)
        arguments = dict(options.render)
        if new_bitmap is not None:
            arguments.setdefault("bitmap_maker", new_bitmap)
        bitmap = page.render(scale=options.scale, rev_byteorder=options.rgb_mode, **arguments)
        with closing(bitmap):
            # The memory of a user's bitmap may be freed when the bitmap is freed.
            data = bytearray(bitmap.buffer) if "bitmap_maker" in options.render else bitmap.buffer
            has_alpha = bitmap.mode.endswith("A")
            return Pixels(bitmap.width, bitmap.height, bitmap.n_channels, bitmap.stride, has_alpha, data)


def characters(pdf: Any, number: int, options: PdfOptions, copy: OpenPdf) -> Characters:
    """Return the text layer of a page, including the text of form fields and annotations.

    `page_as_shown` explains the arguments.
    """
    with page_as_shown(pdf, number, options, copy) as (page, shown), closing(shown.get_textpage()) as text:
        return Characters(*characters_of(text), relative_matrix(page, options))


@contextmanager
def opened_page(pdf: Any, number: int) -> Iterator[Any]:
    """Open a page of a pypdfium2 document for a ``with`` block.

    If the crop box of the page lies outside its media box, PDFium reports no size. The page then gets its media box as
    crop box, because Poppler and pdf.js also show the media box.
    """
    with closing(pdf[number]) as page:
        if not all(page.get_size()):
            page.set_cropbox(0, 0, 0, 0)  # an empty box means the media box, which may be inherited
            page.set_cropbox(*page.get_bbox())
        yield page


@contextmanager
def page_as_shown(pdf: Any, number: int, options: PdfOptions, copy: OpenPdf) -> Iterator[tuple[Any, Any]]:
    """Open a page twice: first as it is, then with form fields and annotations merged into its content.

    Form fields and annotations are separate from the content of a page, so functions that read the content miss them.
    PDFium can merge them into the content ("flatten" the page), but this changes the document and the boxes of the
    page. The merging is therefore done in a second copy of the document, which ``copy`` opens. Coordinates are the same
    in both pages. If no form fields or annotations are drawn on the page, both are the same object.

    Raises:
        DecodeError: if the page has too many objects.
    """
    with opened_page(pdf, number) as page:
        check_objects(page)
        if not _hide_unseen_annotations(page, options, change=False):
            yield page, page
            return
        raw = import_pdfium().raw
        with copy() as second:
            with opened_page(second, number) as changed:
                # An earlier call may have merged them.
                if _hide_unseen_annotations(changed, options, change=True):
                    raw.FPDFPage_Flatten(changed, raw.FLAT_NORMALDISPLAY)
            with opened_page(second, number) as merged:
                check_objects(merged)
                yield page, merged


def _hide_unseen_annotations(page: Any, options: PdfOptions, *, change: bool) -> bool:
    """Return whether any form fields or annotations are drawn on a page when it is rendered with these options.

    If ``change`` is true, also set the flags of all annotations so that PDFium merges only the visible ones.
    """
    raw = import_pdfium().raw
    draws_fields = options.render.get("may_draw_forms", True) and page.formenv is not None
    draws_others = options.render.get("draw_annots", True)
    is_any_drawn = False
    for index in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        kind, flags = raw.FPDFAnnot_GetSubtype(annotation), raw.FPDFAnnot_GetFlags(annotation)
        is_field = kind == raw.FPDF_ANNOT_WIDGET
        is_drawn = (
            (draws_fields if is_field else draws_others)
            and kind != raw.FPDF_ANNOT_POPUP
            and not flags & (_HIDDEN | _NO_VIEW | (_INVISIBLE if is_field else 0))
            # Most links are not drawn.
            and bool(raw.FPDFAnnot_HasKey(annotation, b"AP"))
        )
        if change:
            raw.FPDFAnnot_SetFlags(annotation, flags & ~_INVISIBLE if is_drawn else flags | _HIDDEN)
        raw.FPDFPage_CloseAnnot(annotation)
        is_any_drawn |= is_drawn
        if is_any_drawn and not change:
            return True
    return is_any_drawn


def characters_of(text: Any) -> tuple[array[int], array[float]]:
    """Read (codes, boxes), as described in `Characters`, from a text page of pypdfium2.

    Raises:
        DecodeError: if the page has more than `MAX_PAGE_CHARACTERS`.
    """
    raw = import_pdfium().raw
    count = text.count_chars()
    if count > MAX_PAGE_CHARACTERS:
        raise DecodeError(f"it has {count} characters, more than the {MAX_PAGE_CHARACTERS} that are read")
    codes, boxes = array("I"), array("d")
    left, right, bottom, top = sides = [ctypes.c_double() for _ in range(4)]
    loose = raw.FS_RECTF()
    for index in range(count):
        codes.append(raw.FPDFText_GetUnicode(text, index))
        is_known = raw.FPDFText_GetCharBox(text, index, left, right, bottom, top)
        box = [side.value for side in sides]
        sides_of_ink = sorted((box[1] - box[0], box[3] - box[2]))
        if not is_known or sides_of_ink[0] <= _MIN_INK * sides_of_ink[1]:
            # A character without ink, as in the text layer of a scan: take its box from the font.
            is_known = raw.FPDFText_GetLooseCharBox(text, index, loose)
            box = [loose.left, loose.right, loose.bottom, loose.top]
        boxes.extend(box if is_known else [math.nan] * 4)
    return codes, boxes


def picture_size(page: Any, options: PdfOptions) -> tuple[int, int]:
    """Return the size (width, height) in pixels that the page has when it is rendered."""
    left, bottom, right, top = (math.ceil(side * options.scale) for side in options.render.get("crop", (0, 0, 0, 0)))
    width, height = (math.ceil(side * options.scale) for side in page.get_size())
    if options.render.get("rotation", 0) % 180:
        width, height = height, width
    return width - left - right, height - bottom - top


def relative_matrix(page: Any, options: PdfOptions) -> array[float]:
    """Return the matrix (3, 2) that maps points of the PDF page to fractions of the rendered image's size."""
    raw = import_pdfium().raw
    rotation = options.render.get("rotation", 0)
    left, bottom, right, top = (math.ceil(side * options.scale) for side in options.render.get("crop", (0, 0, 0, 0)))
    seen_width, seen_height = picture_size(page, options)
    width, height = seen_width + left + right, seen_height + bottom + top
    column, row = ctypes.c_int(), ctypes.c_int()

    def place(x: float, y: float) -> tuple[float, float]:
        raw.FPDF_PageToDevice(page, 0, 0, _STEPS, _STEPS, rotation // 90, x, y, column, row)
        return (
            (column.value / _STEPS - left / width) * (width / seen_width),
            (row.value / _STEPS - top / height) * (height / seen_height),
        )

    # Points that are far apart, to reduce rounding, but within the page, to avoid overflow.
    unit = max(1.0, min(page.get_size()))
    (x0, y0), (x1, y1), (x2, y2) = place(0, 0), place(unit, 0), place(0, unit)
    return array("d", [(x1 - x0) / unit, (y1 - y0) / unit, (x2 - x0) / unit, (y2 - y0) / unit, x0, y0])


def check_objects(page: Any) -> None:
    """Raise `DecodeError` if a page has more than `MAX_PAGE_OBJECTS` objects."""
    num_objects = import_pdfium().raw.FPDFPage_CountObjects(page)
    if num_objects > MAX_PAGE_OBJECTS:
        raise DecodeError(f"it has {num_objects} objects, more than the {MAX_PAGE_OBJECTS} that are drawn")
