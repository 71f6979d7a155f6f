"""Image files as documents: every picture of a file is a page, decoded on access."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...._engine.common.limits import check_pixels
from ...._engine.common.locks import ForkSafeLock
from ...._engine.common.threads import working
from ...._engine.images.formats import NUM_SNIFFED_BYTES, look_like, sniff
from ...._engine.images.reading import open_image
from ....errors import MissingDependencyError, OpenError
from .pages import PageSource, keep_source, raising_page_error
from .pdfium import is_pdf
from .picture_pdf import Picture, jpeg_picture, png_picture
from .tiff import is_tiff, page_of_bands, page_offsets, read_tiff_page, resized, stored_tiff_page, upright

__all__ = ["ImageDocument", "ImageOptions"]


# So many animations remember where they were read last.
_MAX_CURSORS = 4

# The chunk that makes a PNG an animation comes before its data. A file with neither in its first bytes is read whole.
_PNG_HEAD_BYTES = 1 << 16


class ImageOptions(NamedTuple):
    """How to decode pages.

    Attributes:
        output_size: (height, width) in pixels; ``None`` for the size of the file.
        rgb_output: Whether the channels are RGB; otherwise BGR.
        max_pixels: Maximum number of pixels of a picture; ``None`` for no limit.
    """

    output_size: tuple[int, int] | None
    rgb_output: bool
    max_pixels: int | None


class ImageDocument(PageSource):
    """One image file.

    A document that was opened by path keeps the path only; any other keeps the bytes.

    Args:
        source: Whatever `make_source` takes.
        options: How to decode pages.

    Raises:
        SourceTypeError, SourceNotFoundError, ReadError: if the source cannot be read.
        OpenError: if it is empty or no image of a known format.
        MissingDependencyError: if a package for the format is missing.
    """

    def __init__(self, source: object, options: ImageOptions) -> None:
        self._source = keep_source(source)
        self.name = self._source.name
        self._options = options
        beginning = self._beginning(NUM_SNIFFED_BYTES)
        self._is_tiff = is_tiff(beginning)
        self._kind = "tiff" if self._is_tiff else sniff(beginning) or ""
        if not self._kind:
            hint = "; use DocumentFile.from_pdf" if is_pdf(beginning) else ""
            raise OpenError(
                f"Could not open {self.name} as an image: it looks like {look_like(beginning)}{hint}. Supported are "
                "JPEG, PNG, WebP, GIF, AVIF, HEIC, BMP and TIFF."
            )
        self._offsets: tuple[int, ...] = ()
        self.num_pages = self._count_pages()
        self._start()

    def _start(self) -> None:
        self._lock = ForkSafeLock()
        self._cursor: _Cursor | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_lock", "_cursor")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._start()

    def read(self, number: int) -> NDArray[np.uint8]:
        with raising_page_error(number, self.name), working():
            page = self._page(number)
            if self._options.output_size is not None:
                page = resized(page, self._options.output_size)
            return page if self._options.rgb_output else np.ascontiguousarray(page[..., ::-1])

    def _page(self, number: int) -> NDArray[np.uint8]:
        if self._is_tiff:
            with self._source.open() as file:
                return read_tiff_page(file, self._offsets[number], self._options.max_pixels)
        if self.num_pages == 1:
            return next(_frames(self._source.read(), self._kind, self._options.max_pixels))
        with self._lock:
            return self._frame_of_animation(number)

    def stored(self, number: int) -> Picture | None:
        """The stored data of a page if PDF can show it as it is; ``None`` for scaled pages and animations too."""
        if self._options.output_size is not None:
            return None
        with raising_page_error(number, self.name):
            if self._is_tiff:
                with self._source.open() as file:
                    return stored_tiff_page(file, self._offsets[number])
            if self.num_pages > 1 or self._kind not in ("jpeg", "png"):
                return None
            data = self._source.read()
            orientation = open_image(self._kind, data, self._check_pixels).orientation
            return (jpeg_picture if self._kind == "jpeg" else png_picture)(data, orientation)

    @property
    def is_lossless(self) -> bool:
        """Whether the file keeps every pixel."""
        return self._kind in ("tiff", "png", "gif", "bmp")

    def _frame_of_animation(self, number: int) -> NDArray[np.uint8]:
        cursor = self._cursor
        if cursor is None or cursor.number > number:
            cursor = _Cursor(_frames(self._source.read(), self._kind, self._options.max_pixels))
        # After an error there is no cursor, and the next call starts from the beginning.
        self._cursor = None
        frame = cursor.frame_at(number)
        if number + 1 < self.num_pages:
            self._cursor = cursor
            _remember_cursor(self)
        return frame

    def forget_cursor(self) -> None:
        """Drop the decoder of an animation, which makes reading its next picture fast."""
        self._cursor = None

    def _count_pages(self) -> int:
        if self._is_tiff:
            try:
                with self._source.open() as file:
                    self._offsets = page_offsets(file)
            except OpenError as error:
                raise OpenError(f"Could not open {self.name} as a TIFF image: {error}.") from None
            return len(self._offsets)
        if not self._may_have_several_pictures():
            return 1
        try:
            return open_image(self._kind, self._source.read(), self._check_pixels).num_frames
        except (MissingDependencyError, MemoryError):
            raise
        except Exception:  # a damaged file is a document of one page that cannot be read
            return 1

    def _may_have_several_pictures(self) -> bool:
        if self._kind != "png":
            return self._kind not in ("jpeg", "bmp")
        head = self._beginning(_PNG_HEAD_BYTES)
        data_at = head.find(b"IDAT")
        return data_at < 0 or b"acTL" in head[:data_at]

    def _check_pixels(self, width: int, height: int) -> None:
        check_pixels(width, height, self._options.max_pixels)

    def _beginning(self, size: int) -> bytes:
        with self._source.open() as file:
            return file.read(size)


class _Cursor:
    """A decoder in the middle of an animation.

    Args:
        frames: All pictures of the animation.
    """

    def __init__(self, frames: Iterator[NDArray[np.uint8]]) -> None:
        self._frames = frames
        self.number = 0

    def frame_at(self, number: int) -> NDArray[np.uint8]:
        """The picture with this number, which must not be less than `number`."""
        while True:
            frame = next(self._frames, None)
            if frame is None:
                raise OpenError(f"the file ends after {self.number} pictures")
            self.number += 1
            if self.number > number:
                return frame


# Weak references, so that documents can be freed.
_with_cursor: deque[weakref.ref[ImageDocument]] = deque()
_cursors_lock = ForkSafeLock()


def _remember_cursor(document: ImageDocument) -> None:
    reference = weakref.ref(document)
    with _cursors_lock:
        if reference in _with_cursor:
            _with_cursor.remove(reference)
        _with_cursor.append(reference)
        oldest = _with_cursor.popleft()() if len(_with_cursor) > _MAX_CURSORS else None
    if oldest is not None:
        oldest.forget_cursor()


def _frames(data: bytes, kind: str, max_pixels: int | None) -> Iterator[NDArray[np.uint8]]:
    """Every picture of a file, upright, (H, W, 3) uint8."""

    def check(width: int, height: int) -> None:
        check_pixels(width, height, max_pixels)

    image = open_image(kind, data, check)
    check(image.width, max(image.height, -(-image.max_pixels // image.width)))
    layout = image.read_layout or image.layout
    for bands in image.read():
        yield upright(page_of_bands(bands, layout, image.width, image.height), image.orientation)
