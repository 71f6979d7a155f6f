"""Open PDF files as pages, with a function of the same name as in docTR."""

from __future__ import annotations

import math
import pickle
import threading
from collections.abc import Mapping
from typing import Any

from ..._engine.common.checks import check_max_pixels, real_number, refuse_unknown
from ..._engine.images.reading import MAX_PIXELS
from ...errors import InvalidArgumentError
from ._documents.pages import PageNumbers, Pages
from ._documents.pdf import PdfDocument
from ._documents.pdfium import PdfOptions

__all__ = ["read_pdf"]

_POINTS_PER_INCH = 72

# Arguments of ``PdfPage.render``, except scale and order of channels.
_RENDER_ARGUMENTS = frozenset((
    "bitmap_maker", "color_scheme", "crop", "draw_annots", "extra_flags", "fill_color", "fill_to_stroke",
    "force_bitmap_format", "force_halftone", "grayscale", "limit_image_cache", "may_draw_forms", "maybe_alpha",
    "no_smoothimage", "no_smoothpath", "no_smoothtext", "optimize_mode", "prefer_bgrx", "rotation",
))  # fmt: skip


def read_pdf(
    file: Any,
    scale: float = 2,
    rgb_mode: bool = True,
    password: str | None = None,
    *,
    pages: PageNumbers = None,
    dpi: float | None = None,
    max_pixels: int | None = MAX_PIXELS,
    timeout_seconds: float | None = None,
    **kwargs: Any,
) -> Pages:
    """Open a PDF file. Each page is rendered when it is accessed. Needs the extra ``ocr``.

    Rendered pages include annotations and filled-in form fields. A process renders only one page at a time, even if
    several threads access pages.

    A small malicious file can keep PDFium busy almost forever, despite limits on the number of pixels and objects of a
    page. Set ``timeout_seconds`` for files of unknown origin.

    Args:
        file: A path (``str`` or ``Path``), the ``bytes`` of a file, or a binary file object, which is read completely.
        scale: Resolution in pixels per point (1/72 inch); a scale of 2 is 144 dpi.
        rgb_mode: Return pages with channels in the order RGB; otherwise BGR.
        password: The password of an encrypted file.
        pages: The pages to open: a number, a range, a slice or a sequence of numbers. Numbers start from 0; negative
            ones count from the end. ``None`` opens all pages.
        dpi: Resolution in pixels per inch, to use instead of ``scale``.
        max_pixels: Limit on height times width of a rendered page, by default about 179 million. Accessing a larger
            page raises `PageError`; ``None`` means no limit.
        timeout_seconds: Maximum time in seconds for opening the file, and for rendering each page. If it is given,
            PDFium runs in a separate process, which all documents share. If a page takes too long or crashes this
            process, accessing the page raises `PageError`; the other pages can still be accessed. With ``None``, PDFium
            runs in the current process without a time limit.
        **kwargs: Further arguments of pypdfium2's ``PdfPage.render``, such as ``rotation``, ``crop``, ``grayscale``,
            ``draw_annots`` and ``fill_color``.

    Returns:
        A `Pages` sequence. Each item is rendered on access, as a NumPy array (H, W, 3), uint8.

    Raises:
        SourceTypeError, SourceNotFoundError, ReadError: if the source cannot be read.
        OpenError: if the file is not a PDF, is damaged, has no pages, or the password is missing or wrong.
        OutOfRangeError: if a number in ``pages`` is out of range.
        InvalidArgumentError: if another argument is invalid.
        MissingDependencyError: if pypdfium2 is not installed.

    Example:
        >>> from mediatensor.ocr.io import read_pdf
        >>> pages = read_pdf("report.pdf", dpi=100, pages=range(2))
        >>> pages[0].shape, pages.text_layer(0)[0].value
        ((389, 556, 3), 'Delivery')
    """
    kwargs = _check_render_arguments(kwargs)
    if password is not None and not isinstance(password, str):
        raise InvalidArgumentError(f"password should be a str, or None (got {type(password).__name__}).")
    options = PdfOptions(_check_scale(scale, dpi), bool(rgb_mode), check_max_pixels(max_pixels), kwargs)
    if timeout_seconds is not None:
        timeout_seconds = _check_timeout(timeout_seconds, options)
    return Pages([PdfDocument(file, password, options, timeout_seconds)]).select(pages)


def _check_timeout(value: Any, options: PdfOptions) -> float:
    seconds = real_number("timeout_seconds", value)
    if not 0 < seconds <= threading.TIMEOUT_MAX:
        raise InvalidArgumentError(
            f"timeout_seconds = {value!r} should be a positive number up to {threading.TIMEOUT_MAX:.0f}, or None."
        )
    try:
        pickle.dumps(options)
    except Exception as error:  # pickling may raise almost any exception
        raise InvalidArgumentError(
            f"With timeout_seconds pages are rendered in another process, and {options.render!r} cannot be sent there "
            f"({error}): pass arguments that can be pickled, or timeout_seconds=None."
        ) from None
    return seconds


def _check_scale(scale: Any, dpi: Any) -> float:
    name, value = ("scale", scale) if dpi is None else ("dpi", dpi)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, (bool, str)) or not 0 < number < math.inf:
        raise InvalidArgumentError(f"{name} = {value!r} should be a positive number.")
    return number if dpi is None else number / _POINTS_PER_INCH


def _check_render_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments, with the rotation as an int, because PDFium takes no other numbers."""
    refuse_unknown("read_pdf", arguments, sorted(_RENDER_ARGUMENTS))
    rotation = real_number("rotation", arguments.get("rotation", 0))
    if rotation not in (0, 90, 180, 270):
        raise InvalidArgumentError(f"rotation = {arguments['rotation']!r} should be 0, 90, 180 or 270.")
    crop = arguments.get("crop", (0, 0, 0, 0))
    try:
        is_crop = len(crop) == 4 and all(0 <= float(side) < math.inf for side in crop)
    except (TypeError, ValueError):
        is_crop = False
    if not is_crop:
        raise InvalidArgumentError(
            f"crop = {crop!r} should be the widths to cut off at left, bottom, right and top, in points of at least 0."
        )
    return {**arguments, "rotation": int(rotation)} if "rotation" in arguments else dict(arguments)
