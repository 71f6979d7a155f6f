"""PDF files as documents: pages rendered on access, and the words that the file stores for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...._engine.common.threads import working
from ....errors import DecodeError
from ...structure import PageContent, content_of_drawing
from ...utils.geometry import box_around, boxes_around, to_corners
from .._elements.leaves import Character, Word
from .images import blend_over_white
from .pages import PageSource, keep_source, raising_page_error
from .pdf_drawing import NUM_STYLE_VALUES, DrawnPage, drawn_page
from .pdf_page import Characters, PdfOptions, Pixels, characters, rendered
from .pdf_process import IsolatedPdf
from .pdfium import OpenPdf, import_pdfium

# PDFium's code for a hyphen at the end of a line, where the word continues on the next line.
_BROKEN_HYPHEN = 0x02
# Codes of characters for which the font defines no Unicode value.
_UNKNOWN = (0x0, 0xFFFE, 0xFFFF)
_REPLACEMENT = 0xFFFD


class PageCharacters(NamedTuple):
    """Characters in the order of the file.

    Codes (N,) are uint32: Unicode code points, or halves of surrogate pairs. Boxes (N, 4) are float64: xmin, ymin,
    xmax, ymax relative to the page; NaN for a character without a box.
    """

    codes: NDArray[np.uint32]
    boxes: NDArray[np.float64]


def words_of(characters: PageCharacters) -> list[Word]:
    """Split characters into words at spaces and line ends; words that lie entirely outside the page are left out."""
    return [word for _, _, word in places_of_words(characters)]


def places_of_words(characters: PageCharacters) -> list[tuple[int, int, Word]]:
    """Return (index of the first character, index after the last character, word) for each word of `words_of`."""
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
    """Return the text of each character; for a surrogate pair, its text for the first half and "" for the second."""
    letters = [chr(code) for code in codes.tolist()]
    for number in range(len(letters) - 1):
        if "\ud800" <= letters[number] <= "\udbff" and "\udc00" <= letters[number + 1] <= "\udfff":
            pair = letters[number] + letters[number + 1]
            letters[number], letters[number + 1] = pair.encode("utf-16", "surrogatepass").decode("utf-16"), ""
    return ["\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in letters]


class PdfDocument(PageSource):
    """One PDF file. A document that was opened by path keeps only the path; any other document keeps all bytes.

    Args:
        source: Whatever `make_source` takes.
        password: The password of an encrypted file.
        options: How to render pages.
        timeout_seconds: Maximum seconds that PDFium may work on a page, in a separate process; ``None`` for this
            process and no limit.

    Raises:
        SourceTypeError, SourceNotFoundError, ReadError: if the source cannot be read.
        OpenError: if it is not a PDF file, is damaged, has no pages, or the password is missing or wrong.
        MissingDependencyError: if pypdfium2 is not installed.
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
    """Return characters with their boxes relative to the page."""
    boxes = np.asarray(characters.boxes, np.float64).reshape(-1, 4)
    return PageCharacters(np.asarray(characters.codes, np.uint32), _moved(boxes, _matrix_of(characters)))


def _matrix_of(characters: Characters) -> NDArray[np.float64]:
    return np.asarray(characters.matrix, np.float64).reshape(3, 2)


def _moved(boxes: NDArray[np.float64], matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Map boxes (N, 4) of left, right, bottom, top by ``matrix`` to boxes of xmin, ymin, xmax, ymax."""
    corners = boxes[:, [[0, 2], [1, 2], [1, 3], [0, 3]]] @ matrix[:2] + matrix[2]
    return boxes_around(corners)


def _content_of(drawn: DrawnPage) -> PageContent:
    """Return the content of a page. Coordinates are points from its top left corner."""
    characters = _placed(drawn.characters)
    size = np.array([drawn.width, drawn.height])
    matrix = _matrix_of(drawn.characters) * size
    styles = np.asarray(drawn.styles, np.float64).reshape(-1, NUM_STYLE_VALUES)
    lines, fills = (np.asarray(values, np.float64).reshape(-1, 5) for values in (drawn.lines, drawn.fills))
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
        areas=_moved(np.asarray(drawn.areas, np.float64).reshape(-1, 4)[:, [0, 2, 1, 3]], matrix),
        pictures=_moved(np.asarray(drawn.pictures, np.float64).reshape(-1, 4)[:, [0, 2, 1, 3]], matrix),
    )


def _usual_style(styles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the style of the character with the median size among those of a word; NaN if no size is known."""
    known = styles[np.isfinite(styles[:, 0])]
    if not len(known):
        return np.full(NUM_STYLE_VALUES, np.nan)
    usual: NDArray[np.float64] = known[np.argsort(known[:, 0], kind="stable")[len(known) // 2]]
    return usual


def _page_of(pixels: Pixels) -> NDArray[np.uint8]:
    """Return a rendered page as a contiguous array (H, W, 3); `DecodeError` if the sizes of picture and data differ."""
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
