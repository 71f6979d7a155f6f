"""PDF files as documents: pages are rendered when they are accessed, and the words that the file stores can be read.

PDFium can be busy with a page for a very long time, and a thread that calls it cannot be stopped. If there is a time
limit, PDFium therefore runs in a separate process, which is killed when a page takes too long. A single such process
serves all documents. It is started when it is first needed.
"""

from __future__ import annotations

import json
import mmap
import os
import pickle
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...._engine.common.locks import ForkSafeLock
from ...._engine.common.threads import working
from ....errors import DecodeError, IsolatedWorkerError, OpenError
from ....isolate import Process, TimeLimit, common_memory
from ...structure import PageContent, content_of_drawing
from ...utils.geometry import box_around, boxes_around, to_corners
from .._elements.elements import Character, Word
from .images import blend_over_white
from .pages import PageSource, keep_source, raising_page_error
from .pdf_process import FAILURE, MAX_DRAWN_LINES, NUM_STYLE_VALUES, READY, VALUE, DrawnPage, Request, drawn_page
from .pdfium import (
    MAX_PAGE_CHARACTERS,
    Characters,
    KeyedPdf,
    OpenPdf,
    PdfOptions,
    Pixels,
    characters,
    import_pdfium,
    rendered,
)

# PDFium's code for a hyphen at the end of a line, if the word continues on the next line.
_BROKEN_HYPHEN = 0x02
# Codes of characters that the font does not map to Unicode.
_UNKNOWN = (0x0, 0xFFFE, 0xFFFF)
_REPLACEMENT = 0xFFFD


class PageCharacters(NamedTuple):
    """The text layer of a page as single characters, in the order of the file.

    ``codes`` (N,), uint32, are Unicode code points. A character beyond U+FFFF may be stored as two halves of a
    surrogate pair. ``boxes`` (N, 4), float64, are xmin, ymin, xmax, ymax in fractions of the page's size; NaN for a
    character without a box.
    """

    codes: NDArray[np.uint32]
    boxes: NDArray[np.float64]


def words_of(characters: PageCharacters) -> list[Word]:
    """Split characters into words at spaces and line ends. Words that lie entirely outside the page are left out."""
    return [word for _, _, word in places_of_words(characters)]


def places_of_words(characters: PageCharacters) -> list[tuple[int, int, Word]]:
    """Return (start, stop, word) for each word of `words_of`. Its characters are ``characters[start:stop]``."""
    codes = characters.codes.copy()
    codes[np.isin(codes, _UNKNOWN)] = _REPLACEMENT
    is_hyphen = codes == _BROKEN_HYPHEN
    codes[is_hyphen] = ord("-")
    is_space = np.array([code < 0x20 or chr(code).isspace() for code in codes.tolist()], bool)
    begins = np.ones(len(codes), bool)
    begins[1:] = is_space[:-1] | is_hyphen[:-1]
    begins &= ~is_space
    starts = np.flatnonzero(begins)
    ends = np.flatnonzero(is_space | np.append(begins[1:], True))
    stops = ends[np.searchsorted(ends, starts)]
    words = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        last = stop if is_space[stop] else stop + 1
        word = _word(codes[start:last], characters.boxes[start:last])
        if word is not None:
            words.append((start, last, word))
    return words


def _word(codes: NDArray[np.uint32], boxes: NDArray[np.float64]) -> Word | None:
    is_seen = np.isfinite(boxes).all(axis=1) & (boxes[:, :2] < 1).all(axis=1) & (boxes[:, 2:] > 0).all(axis=1)
    if not is_seen.any():
        return None
    on_page = boxes[is_seen].clip(0, 1)
    letters = [
        Character(letter, 1.0, ((box[0], box[1]), (box[2], box[3])))
        for letter, box in zip(_letters(codes[is_seen]), on_page.tolist(), strict=True)
        if letter
    ]
    value = "".join(letter.value for letter in letters)
    return Word(value, 1.0, to_corners(box_around(on_page)), 1.0, {"value": 0, "confidence": None}, characters=letters)


def _letters(codes: NDArray[np.uint32]) -> list[str]:
    """Return the text of each character code.

    For a surrogate pair, the first half gets the text of the whole character, and the second half gets "".
    """
    letters = [chr(code) for code in codes.tolist()]
    for number in range(len(letters) - 1):
        if "\ud800" <= letters[number] <= "\udbff" and "\udc00" <= letters[number + 1] <= "\udfff":
            pair = letters[number] + letters[number + 1]
            letters[number], letters[number + 1] = pair.encode("utf-16", "surrogatepass").decode("utf-16"), ""
    return ["\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in letters]


class PdfDocument(PageSource):
    """A PDF file as a document. For a file on disk, only its path is kept; for any other source, all its bytes.

    If ``timeout_seconds`` is given, PDFium runs in a separate process, which is killed if a page takes longer.
    Otherwise, PDFium runs in this process without a limit. Errors are raised as in `read_pdf`.
    """

    def __init__(
        self, source: object, password: str | None, options: PdfOptions, timeout_seconds: float | None = None
    ) -> None:
        import_pdfium()
        kept = keep_source(source)
        self.name = kept.name
        self.options = options
        self.file, self.copy = (OpenPdf(kept.source, self.name, password) for _ in range(2))
        self._isolated: IsolatedPdf | None = None
        if timeout_seconds is not None:
            self._isolated = IsolatedPdf(kept.source, self.name, password, options, timeout_seconds)
            self.num_pages = self._isolated.num_pages()
        else:
            with self.file() as pdf:
                self.num_pages = len(pdf)

    def read(self, number: int) -> NDArray[np.uint8]:
        with raising_page_error(number, self.name), working():
            if self._isolated is not None:
                return _page_of(self._isolated.rendered(number))
            with self.file() as pdf:
                return _page_of(rendered(pdf, number, self.options))

    def text_layer(self, number: int) -> list[Word]:
        with raising_page_error(number, self.name), working():
            if self._isolated is not None:
                text = self._isolated.characters(number)
            else:
                with self.file() as pdf:
                    text = characters(pdf, number, self.options, self.copy)
            return words_of(_placed(text))

    @property
    def pixels_per_point(self) -> float:
        return self.options.scale

    def page_content(self, number: int) -> PageContent:
        with raising_page_error(number, self.name), working():
            if self._isolated is not None:
                drawing = self._isolated.drawn(number)
            else:
                with self.file() as pdf:
                    drawing = drawn_page(pdf, number, self.options, self.copy)
            return _content_of(drawing)


def _placed(characters: Characters) -> PageCharacters:
    """Convert the boxes of characters from points to fractions of the page's size."""
    boxes = np.asarray(characters.boxes, np.float64).reshape(-1, 4)
    matrix = np.asarray(characters.matrix, np.float64).reshape(3, 2)
    return PageCharacters(np.asarray(characters.codes, np.uint32), _moved(boxes, matrix))


def _moved(boxes: NDArray[np.float64], matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Transform ``boxes`` (N, 4) by ``matrix`` (3, 2).

    The input is (left, right, bottom, top), as PDFium returns it. The output is (xmin, ymin, xmax, ymax).
    """
    corners = boxes[:, [[0, 2], [1, 2], [1, 3], [0, 3]]] @ matrix[:2] + matrix[2]
    return boxes_around(corners)


def _content_of(drawn: DrawnPage) -> PageContent:
    """Convert the output of `drawn_page` to a `PageContent`, in points from the top left corner of the page."""
    characters = _placed(drawn.characters)
    size = np.array([drawn.width, drawn.height])
    matrix = np.asarray(drawn.characters.matrix, np.float64).reshape(3, 2) * size
    styles = np.asarray(drawn.styles, np.float64).reshape(-1, NUM_STYLE_VALUES)
    lines, fills = (np.asarray(values, np.float64).reshape(-1, 5) for values in (drawn.lines, drawn.fills))
    areas, pictures = (np.asarray(values, np.float64).reshape(-1, 4) for values in (drawn.areas, drawn.pictures))
    words = places_of_words(characters)
    word_styles = np.array([_usual_style(styles[start:stop]) for start, stop, _ in words]).reshape(-1, NUM_STYLE_VALUES)
    return content_of_drawing(
        drawn.width,
        drawn.height,
        np.array([word.geometry for _, _, word in words]).reshape(-1, 4) * np.tile(size, 2),
        [word.value for _, _, word in words],
        font_sizes=word_styles[:, 0],
        is_bold=word_styles[:, 1] > 0,
        origins=word_styles[:, 2:4] @ matrix[:2] + matrix[2],
        directions=word_styles[:, 4:6] @ matrix[:2],
        is_hidden=word_styles[:, 6] > 0,
        lines=np.concatenate([_moved(lines[:, [0, 2, 1, 3]], matrix), lines[:, 4:]], axis=1),
        fills=np.concatenate([_moved(fills[:, [0, 2, 1, 3]], matrix), fills[:, 4:]], axis=1),
        areas=_moved(areas[:, [0, 2, 1, 3]], matrix),
        pictures=_moved(pictures[:, [0, 2, 1, 3]], matrix),
    )


def _usual_style(styles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the row of ``styles`` that has the median font size; NaN if no font size is known."""
    known = styles[np.isfinite(styles[:, 0])]
    if not len(known):
        return np.full(NUM_STYLE_VALUES, np.nan)
    usual: NDArray[np.float64] = known[np.argsort(known[:, 0], kind="stable")[len(known) // 2]]
    return usual


def _page_of(pixels: Pixels) -> NDArray[np.uint8]:
    """Convert a rendered page to a contiguous array (H, W, 3). Raise `DecodeError` if the number of bytes is wrong."""
    height, width, num_channels = pixels.height, pixels.width, pixels.num_channels
    data = np.frombuffer(pixels.data, np.uint8)
    if (
        num_channels not in (1, 3, 4)
        or pixels.row_bytes < width * num_channels
        or data.size != height * pixels.row_bytes
    ):
        raise DecodeError(f"its picture has {data.size} bytes, which do not match {width}x{height} pixels")
    rows = data.reshape(height, pixels.row_bytes)[:, : width * num_channels].reshape(height, width, num_channels)
    if num_channels == 1:
        return np.repeat(rows, 3, axis=2)
    if pixels.has_alpha:
        return np.stack(blend_over_white([rows[..., channel] for channel in range(4)]), axis=-1)
    return np.ascontiguousarray(rows[..., :3])


#: Maximum seconds per page in datasets and the command, where files are usually untrusted.
DEFAULT_TIMEOUT_SECONDS = 60

# Bytes of the memory that both processes share: enough for an A4 page at 450 dpi.
_SHARED_BYTES = 64 << 20

# Number of documents that the process keeps open. Each may hold an open file, or all its bytes.
_MAX_OPEN = 4

# Stub packages replace the packages of this library, so that their ``__init__`` does not run: importing torch takes
# seconds. The list must have every package from which the process imports a module.
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
from mediatensor.ocr.io._documents.pdf_process import main
main(*descriptors)
"""
_FOLDER = str(Path(__file__).resolve().parents[3])

_lock = ForkSafeLock()
_process: _PdfProcess | None = None
# Keys of freed documents. A document may be freed during a request, so its key is sent with the next request.
_forgotten: list[int] = []


class _PdfProcess(Process):
    """The separate process in which PDFium runs.

    ``known`` has the keys of the documents that are open in the process, the most recently used one last. ``page``,
    uint8, is memory that both processes share. A page that fits into it is drawn there. Any other page is sent over the
    connection. ``page`` is empty if the system has no shared memory.
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


class IsolatedPdf(KeyedPdf):
    """A PDF file that PDFium opens in the separate process."""

    def __init__(
        self, source: str | bytes, name: str, password: str | None, options: PdfOptions, timeout_seconds: float
    ) -> None:
        self._opening = (source, name, password)
        self._options = options
        self._timeout_seconds = timeout_seconds
        super().__init__()

    @staticmethod
    def _forget(key: int) -> None:
        _forgotten.append(key)

    def num_pages(self) -> int:
        """Open the file, and return its number of pages. Raise `OpenError` if PDFium fails or takes too long."""
        try:
            (count,), _ = self._call("open", 0)
        except (DecodeError, IsolatedWorkerError) as error:
            reason = str(error).rstrip(".")
            raise OpenError(f"Could not open {self._opening[1]} as a PDF document: {reason}.") from None
        return int(count)

    def rendered(self, number: int) -> Pixels:
        """Render a page as `pdfium.rendered` does. Raise `DecodeError` if PDFium fails or takes too long."""
        (*sizes, has_alpha, _), data = self._call("render", number)
        width, height, num_channels, row_bytes = map(int, sizes)
        return Pixels(width, height, num_channels, row_bytes, bool(has_alpha), data)

    def characters(self, number: int) -> Characters:
        """Return the text layer as `pdfium.characters` does. Raise `DecodeError` if PDFium fails or takes too long."""
        (count,), data = self._call("characters", number)
        characters, _ = _split_data(data, count, [4 * count, 6])
        return characters

    def drawn(self, number: int) -> DrawnPage:
        """Return the drawing of a page as `pdf_process.drawn_page` does.

        Raise `DecodeError` if PDFium fails or takes too long.
        """
        (width, height, count, *lengths), data = self._call("drawing", number)
        limits = (5 * MAX_DRAWN_LINES, 5 * MAX_DRAWN_LINES, 4 * MAX_DRAWN_LINES, 4 * MAX_DRAWN_LINES)
        if lengths[:3] != [4 * count, 6, NUM_STYLE_VALUES * count] or not all(
            0 <= length <= limit for length, limit in zip(lengths[3:], limits, strict=True)
        ):
            raise DecodeError("its process sent data of the wrong size")
        characters, drawn = _split_data(data, count, lengths)
        return DrawnPage(float(width), float(height), characters, *drawn)

    def _call(self, task: str, number: int) -> tuple[Any, Any]:
        """Let the process do ``task`` for page ``number``, and return its answer as (values, contents).

        ``values`` is a list of numbers and truth values. ``contents`` are all further data, as uint8 (N,).
        """
        options = pickle.dumps(self._options)
        with _lock:
            process = _running()
            try:
                response = self._exchange(process, task, number, options)
                values = json.loads(response.body)
                if response.kind == VALUE:
                    if task == "render" and values[-1]:
                        # The next page will be drawn into the same memory.
                        return values, process.page[: int(values[1]) * int(values[3])].copy()
                    return values, response.contents.numpy()
            except IsolatedWorkerError as error:
                process.close()
                raise DecodeError(self._reason(error)) from error
            except BaseException:
                # After Ctrl-C, the next call would take the pending response for its own.
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


def _split_data(data: NDArray[np.uint8], count: int, lengths: list[int]) -> tuple[Characters, list[Any]]:
    """Split the data that the process sent: float64 arrays of these ``lengths``, then the codes of the characters.

    The first two arrays are the boxes of the ``count`` characters, and their matrix.
    """
    if not 0 <= count <= MAX_PAGE_CHARACTERS or len(data) != 8 * sum(lengths) + 4 * count:
        raise DecodeError("its process sent data of the wrong size")
    stops = np.cumsum(lengths)
    numbers: list[Any] = np.split(data[: 8 * stops[-1]].view(np.float64), stops[:-1])
    codes: Any = data[8 * stops[-1] :].view(np.uint32)
    return Characters(codes, *numbers[:2]), numbers[2:]


def _running() -> _PdfProcess:
    """Return the separate PDF process. If it is not running, start it."""
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
