"""Image files as documents: each image in a file is a page, which is decoded when it is accessed.

TIFF files are decoded by Pillow, which reaches a page only by stepping through all earlier pages. To avoid this, the
file is presented to Pillow with a changed header, so that the wanted page seems to be the first. All other formats are
read by this library's own image decoders.
"""

from __future__ import annotations

import io
import os
import struct
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, TiffImagePlugin

from ...._engine.common.locks import ForkSafeLock
from ...._engine.common.pictures import Orientation
from ...._engine.common.threads import working
from ...._engine.images.channels import Layout, Planes, convert
from ...._engine.images.formats import NUM_SNIFFED_BYTES, check_pixels, look_like, sniff
from ...._engine.images.reading import Bands, open_image
from ....errors import DecodeError, MissingDependencyError, OpenError
from .pages import PageSource, keep_source, raising_page_error
from .pdfium import is_pdf
from .picture_pdf import Picture, jpeg_picture, png_picture, tiff_picture

_WITH_ALPHA = frozenset(("LA", "La", "PA", "RGBA", "RGBa"))


def page_of_bands(bands: Bands, layout: Layout, width: int, height: int) -> NDArray[np.uint8]:
    """Assemble a page from ``bands``: horizontal strips, each as (index of its first row, colour planes).

    ``layout`` states the channel of each plane. ``width`` and ``height`` are the size before the image is turned
    upright. Transparent parts become white.
    """
    page = np.empty((height, width, 3), np.uint8)
    wanted = Layout.RGB_ALPHA if layout.has_alpha else Layout.RGB
    for top, planes in bands:
        converted = convert(planes, layout, wanted, np.uint8)
        if wanted.has_alpha:
            converted = blend_over_white(converted)
        rows = page[top : top + len(planes[0])]
        for channel, plane in enumerate(converted):
            rows[..., channel] = plane
    return page


def blend_over_white(planes: Planes) -> Planes:
    """Blend RGBA planes (uint8) over white: (colour * alpha + 255 * (255 - alpha)) / 255, rounded.

    >>> import numpy as np
    >>> planes = [np.full((1, 1), value, np.uint8) for value in (0, 255, 100, 51)]
    >>> [int(plane[0, 0]) for plane in blend_over_white(planes)]
    [204, 255, 224]
    """
    alpha = planes[3].astype(np.uint32)
    white = 255 * (255 - alpha)
    return [((colour * alpha + white + 127) // 255).astype(np.uint8) for colour in planes[:3]]


def page_of_pillow(image: Image.Image, *, is_white_zero: bool = False) -> NDArray[np.uint8]:
    """Convert a loaded Pillow image to a page, (H, W, 3) uint8.

    ``is_white_zero`` means that in images with 16 bits per sample, the value 0 is white rather than black. Images with
    32 bits per sample raise `DecodeError`, because it is unknown which values stand for black and white.
    """
    if image.mode.startswith("I;16"):
        samples = np.asarray(image).astype(np.uint16)
        gray = convert([65535 - samples if is_white_zero else samples], Layout.GRAY, Layout.GRAY, np.uint8)[0]
        return np.repeat(gray[..., None], 3, axis=2)
    if image.mode in ("I", "F"):
        raise DecodeError("its samples have 32 bits, and the values of black and white are unknown")
    if image.mode in _WITH_ALPHA or "transparency" in image.info:
        opaque = image.convert("LA") if image.mode == "La" else image
        planes = _planes(opaque.convert("RGBA"))
        return np.stack(blend_over_white(planes), axis=-1)
    if image.mode == "CMYK":
        return np.stack(convert(_planes(image), Layout.CMYK, Layout.RGB, np.uint8), axis=-1)
    return np.array(image.convert("RGB"))


def _planes(image: Image.Image) -> Planes:
    pixels = np.asarray(image)
    return [pixels[..., channel] for channel in range(pixels.shape[2])]


def upright(page: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    """Turn a decoded image upright, as its EXIF orientation demands, and return it as a contiguous array.

    >>> import numpy as np
    >>> upright(np.arange(6, dtype=np.uint8).reshape(2, 3, 1), 6)[..., 0].tolist()
    [[3, 0], [4, 1], [5, 2]]
    """
    return np.ascontiguousarray(Orientation.from_exif(orientation).apply(page))


def resized(page: NDArray[np.uint8], size: Sequence[int]) -> NDArray[np.uint8]:
    """Resize a page to (height, width) bilinearly.

    If the page shrinks, pixels are averaged, so thin strokes stay visible.
    """
    height, width = size
    if page.shape[:2] == (height, width):
        return page
    return np.array(Image.fromarray(page).resize((width, height), Image.Resampling.BILINEAR))


#: Maximum number of pages in a file.
MAX_TIFF_PAGES = 1 << 20

_MAGIC = {b"II*\0": "<", b"MM\0*": ">", b"II+\0": "<", b"MM\0+": ">"}
_ORIENTATION, _PHOTOMETRIC, _WHITE_IS_ZERO = 274, 262, 0


def is_tiff(beginning: bytes) -> bool:
    """Return whether ``beginning``, the first bytes of a file, marks a TIFF or BigTIFF file in either byte order."""
    return beginning[:4] in _MAGIC


def page_offsets(file: BinaryIO) -> tuple[int, ...]:
    """Return the position in the file of each page's directory (a TIFF term for the page's header).

    Each directory stores the offset of the next one. The chain ends with 0 or, in damaged files, where it returns to an
    earlier page. An offset outside the file also counts as a page. Reading this page then raises an error about missing
    data.

    Raises:
        OpenError: if there are no pages, or more than `MAX_TIFF_PAGES`.
    """
    size = file.seek(0, os.SEEK_END)
    begin = _read(file, 0, 16)
    order, is_big = _MAGIC[begin[:4]], begin[2:4].strip(b"\0") == b"+"
    number, link, entry = (f"{order}Q", f"{order}Q", 20) if is_big else (f"{order}H", f"{order}I", 12)
    try:
        (offset,) = struct.unpack_from(link, begin, 8 if is_big else 4)
    except struct.error:
        raise OpenError("it ends within its header") from None
    offsets: dict[int, None] = {}
    while offset and offset not in offsets:
        offsets[offset] = None
        if len(offsets) > MAX_TIFF_PAGES:
            raise OpenError(f"it has more than {MAX_TIFF_PAGES} pages")
        if offset >= size:
            break
        try:
            (num_entries,) = struct.unpack(number, _read(file, offset, struct.calcsize(number)))
            at = offset + struct.calcsize(number) + entry * num_entries
            (offset,) = struct.unpack(link, _read(file, at, struct.calcsize(link)))
        except struct.error:
            break
    if not offsets:
        raise OpenError("it has no page")
    return tuple(offsets)


def _read(file: BinaryIO, at: int, size: int) -> bytes:
    if at >= 1 << 63:
        return b""
    file.seek(at)
    return file.read(size)


def read_tiff_page(file: BinaryIO, offset: int, max_pixels: int | None) -> NDArray[np.uint8]:
    """Decode the page whose directory is at ``offset``. Return it upright, (H, W, 3) uint8.

    Raises:
        DecodeError: if the page is damaged, or has more than ``max_pixels``.
    """
    image = _open_tiff(file, offset)
    check_pixels(image.width, image.height, max_pixels)
    is_white_zero = image.tag_v2.get(_PHOTOMETRIC) == _WHITE_IS_ZERO
    image.load()
    page = page_of_pillow(image, is_white_zero=is_white_zero)
    # Newer versions of Pillow rotate the image while loading it, and remove the tag. Older versions do neither.
    orientation = image.tag_v2.get(_ORIENTATION, 1)
    return upright(page, orientation if orientation in range(1, 9) else 1)


def stored_tiff_page(file: BinaryIO, offset: int) -> Picture | None:
    """Return the compressed data of the page at ``offset`` for use in a PDF, or ``None`` if PDF cannot hold them."""
    image = _open_tiff(file, offset)
    tags = {tag: value if isinstance(value, tuple) else (value,) for tag, value in image.tag_v2.items()}
    return tiff_picture(
        file, {tag: value for tag, value in tags.items() if value and all(isinstance(item, int) for item in value)}
    )


def _open_tiff(file: BinaryIO, offset: int) -> Any:
    """Open a TIFF file with Pillow as if the page whose directory is at ``offset`` were the first page."""
    begin = bytearray(_read(file, 0, 16))
    order = _MAGIC[bytes(begin[:4])]
    if begin[2:4].strip(b"\0") == b"+":
        struct.pack_into(f"{order}Q", begin, 8, offset)
    else:
        struct.pack_into(f"{order}I", begin, 4, offset)
        del begin[8:]
    patched: Any = _PatchedFile(file, bytes(begin))
    patched.seek(0)
    return TiffImagePlugin.TiffImageFile(patched)


class _PatchedFile(io.RawIOBase):
    """A view of ``file`` in which the first bytes are replaced by ``begin``. Closing the view leaves ``file`` open."""

    def __init__(self, file: BinaryIO, begin: bytes) -> None:
        self._file = file
        self._begin = begin

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        # libtiff reads from the file descriptor, and Pillow tells it the position of the page.
        return self._file.fileno()

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1, /) -> bytes:
        at = self._file.tell()
        data = self._file.read(size)
        return self._begin[at : at + len(data)] + data[max(0, len(self._begin) - at) :]


# Maximum number of animations whose decoder stays open.
_MAX_CURSORS = 4

# An animated PNG has the chunk ``acTL`` before its pixel data. If neither is in this many bytes at the beginning, the
# whole file is read.
_PNG_HEAD_BYTES = 1 << 16


class ImageOptions(NamedTuple):
    """Options for decoding pages; see the arguments of `read_img_as_numpy`."""

    output_size: tuple[int, int] | None
    rgb_output: bool
    max_pixels: int | None


class ImageDocument(PageSource):
    """An image file as a document. For a file on disk, only its path is kept; for any other source, all its bytes.

    Errors are raised as in `read_img_as_numpy`.
    """

    def __init__(self, source: object, options: ImageOptions) -> None:
        self._source = keep_source(source)
        self.name = self._source.name
        self._options = options
        self._check_pixels = partial(check_pixels, max_pixels=options.max_pixels)
        beginning = self._beginning(NUM_SNIFFED_BYTES)
        self._is_tiff = is_tiff(beginning)
        self._kind = "tiff" if self._is_tiff else sniff(beginning) or ""
        if not self._kind:
            hint = "; use DocumentFile.from_pdf" if is_pdf(beginning) else ""
            error = OpenError(
                f"Could not open {self.name} as an image: it looks like {look_like(beginning)}{hint}. Supported are "
                "JPEG, PNG, WebP, GIF, AVIF, HEIC, BMP and TIFF."
            )
            error._is_not_image = True
            raise error
        self._offsets: tuple[int, ...] = ()
        self.num_pages = self._count_pages()
        self._start()

    def _start(self) -> None:
        self._lock = ForkSafeLock()
        # The decoder of an animation after some of its images, and the number of the image that it yields next.
        self._cursor: tuple[Iterator[NDArray[np.uint8]], int] | None = None

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
            return next(_frames(self._source.read(), self._kind, self._check_pixels))
        with self._lock:
            return self._frame_of_animation(number)

    def stored(self, number: int) -> Picture | None:
        """Return the compressed data of a page as they are stored, to be copied into a PDF.

        Return ``None`` if PDF does not support such data, or if the page is to be resized.
        """
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
        """Whether the file is in a format that usually compresses without loss: TIFF, PNG, GIF or BMP."""
        return self._kind in ("tiff", "png", "gif", "bmp")

    def _frame_of_animation(self, number: int) -> NDArray[np.uint8]:
        frames, next_number = self._cursor or (None, 0)
        if frames is None or next_number > number:
            frames, next_number = _frames(self._source.read(), self._kind, self._check_pixels), 0
        # After an error there is no cursor, so the next call starts at the first image.
        self._cursor = None
        try:
            while next_number <= number:
                frame = next(frames)
                next_number += 1
        except StopIteration:
            raise OpenError(f"the file ends after {next_number} images") from None
        if next_number < self.num_pages:
            self._cursor = frames, next_number
            _remember_cursor(self)
        return frame

    def forget_cursor(self) -> None:
        """Free the open decoder, which is otherwise kept so that the next image of an animation can be read fast."""
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
        except Exception:  # a damaged file is a document of one page, which cannot be read
            return 1

    def _may_have_several_pictures(self) -> bool:
        if self._kind != "png":
            return self._kind not in ("jpeg", "bmp")
        head = self._beginning(_PNG_HEAD_BYTES)
        data_at = head.find(b"IDAT")
        return data_at < 0 or b"acTL" in head[:data_at]

    def _beginning(self, size: int) -> bytes:
        with self._source.open() as file:
            return file.read(size)


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


def _frames(data: bytes, kind: str, check: Callable[[int, int], None]) -> Iterator[NDArray[np.uint8]]:
    """Decode the images of a file one after the other. Yield each upright, (H, W, 3) uint8."""
    image = open_image(kind, data, check)
    check(image.width, max(image.height, -(-image.max_pixels // image.width)))
    layout = image.read_layout or image.layout
    for bands in image.read():
        yield upright(page_of_bands(bands, layout, image.width, image.height), image.orientation)
