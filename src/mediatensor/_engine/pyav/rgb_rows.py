"""Let libswscale write RGB pixels to the row of a batch, without a frame of PyAV in between.

PyAV's reformatter and filters allocate a frame, whose pixels must then be copied. For large frames, this can take
longer than the conversion itself. This module calls the libswscale that PyAV has loaded. The functions of libswscale
take plain addresses, so this module does not access FFmpeg's structures. For each kind of frame, each process checks
that libswscale writes the same pixels as PyAV, and writes nothing else. If this check fails, PyAV converts frames of
this kind.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import av
import numpy as np
from av.video import reformatter
from av.video.reformatter import Interpolation
from numpy.typing import NDArray

# The functions below have had the same arguments in all these major versions of libswscale (FFmpeg 7 and 8).
_VERSIONS = frozenset((8, 9))
_FORMATS = frozenset((
    "yuv420p", "yuv422p", "yuv444p", "yuvj420p", "yuvj422p", "yuvj444p", "yuv420p10le", "yuv422p10le", "yuv444p10le",
))  # fmt: skip
_FULL_RANGE = 2  # FFmpeg's
# libswscale converts this many pixels at once. For widths in between, it needs padding after each line: without it, the
# last pixels are not written, or bytes after the last line are (measured on x86 for all even widths up to 140).
_WIDTH_MULTIPLE = 16
# Lines of the picture that is converted in both ways, and bytes before and after it that must not change.
_CHECKED_LINES, _GUARD_BYTES, _GUARD = 16, 256, 0xA5
_ONE = 1 << 16  # in libswscale's fixed-point numbers

_Addresses, _Strides = ctypes.c_void_p * 4, ctypes.c_int * 4


@lru_cache(maxsize=1)
def _library() -> Any | None:
    """Return the libswscale that PyAV has loaded, or ``None`` if it cannot be called."""
    if av.library_versions.get("libswscale", (0,))[0] not in _VERSIONS:
        return None
    try:
        # A symbol that the module does not define itself is looked up in the libraries that it was linked with.
        library = ctypes.CDLL(reformatter.__file__)
        library.sws_getContext.argtypes = [ctypes.c_int] * 7 + [ctypes.c_void_p] * 3
        library.sws_getContext.restype = ctypes.c_void_p
        library.sws_getCoefficients.argtypes = [ctypes.c_int]
        library.sws_getCoefficients.restype = ctypes.c_void_p
        library.sws_setColorspaceDetails.argtypes = [
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, *[ctypes.c_int] * 4,
        ]  # fmt: skip
        library.sws_scale.argtypes = [
            ctypes.c_void_p, _Addresses, _Strides, ctypes.c_int, ctypes.c_int, _Addresses, _Strides,
        ]  # fmt: skip
        library.sws_freeContext.argtypes = [ctypes.c_void_p]
        library.sws_freeContext.restype = None
        library.av_get_pix_fmt.argtypes = [ctypes.c_char_p]
    except (OSError, AttributeError):  # on Windows, only the module's own symbols are found
        return None
    return library


class _Context:
    """A context of libswscale, which converts pictures of one size, colour matrix and range."""

    def __init__(self, library: Any, name: str, width: int, height: int, matrix: int, color_range: int) -> None:
        self._free = library.sws_freeContext
        self._scale = library.sws_scale
        self._height = height
        # The formats "yuvj" are those without "j" in full range.
        formats = [library.av_get_pix_fmt(name) for name in (name.replace("j", "").encode(), b"rgb24")]
        size = (width, height)
        bicubic = int(Interpolation.BICUBIC)
        self._context = library.sws_getContext(*size, formats[0], *size, formats[1], bicubic, None, None, None)
        if not self._context:
            return
        table = library.sws_getCoefficients(matrix)
        is_full_range = color_range == _FULL_RANGE or "j" in name
        library.sws_setColorspaceDetails(self._context, table, is_full_range, table, 0, 0, _ONE, _ONE)
        self._sources, self._source_strides = _Addresses(), _Strides()
        self._target, self._target_strides = _Addresses(), _Strides(3 * width)

    def write(self, picture: Any, address: int) -> bool:
        """Write the RGB pixels of ``picture`` to memory without padding. Return whether all lines were written."""
        if not self._context:
            return False
        for number, plane in enumerate(picture.planes):
            self._sources[number], self._source_strides[number] = plane.buffer_ptr, plane.line_size
        self._target[0] = address
        source = (self._sources, self._source_strides, 0, self._height)
        return bool(self._scale(self._context, *source, self._target, self._target_strides) == self._height)

    def __del__(self) -> None:
        if context := getattr(self, "_context", None):
            self._free(context)


class RGBRows:
    """Writes decoded pictures as RGB to memory that the caller gives. Use one object per thread.

    ``convert`` returns the reference pixels (H, W, 3) of a picture. The result is compared with them once per kind of
    picture.
    """

    def __init__(self, convert: Callable[[Any], NDArray[np.uint8]]) -> None:
        self._convert = convert
        self._kind: tuple[object, ...] | None = None
        self._context: _Context | None = None

    def write(self, picture: Any, matrix: int, out: NDArray[np.uint8]) -> bool:
        """Write the pixels of a picture to ``out`` (height, width, 3).

        ``matrix`` is the number of the colour matrix in H.273. Return ``False`` if the picture has another size or must
        be converted in another way; ``out`` is then undefined.
        """
        kind = (
            picture.format.name,
            picture.width,
            picture.height,
            matrix,
            picture.color_range,
            picture.interlaced_frame,
        )
        if kind != self._kind:
            self._context, self._kind = _make_context(self._convert, *kind), kind
        return (
            self._context is not None
            and out.shape[:2] == (picture.height, picture.width)
            and out.flags.c_contiguous
            and self._context.write(picture, _address_of(out))
        )


def _address_of(pixels: NDArray[np.uint8]) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(pixels.data))  # in a third of the time of ``pixels.ctypes.data``


def _make_context(
    convert: Callable[[Any], NDArray[np.uint8]],
    name: str,
    width: int,
    height: int,
    matrix: int,
    color_range: int,
    is_interlaced: bool,
) -> _Context | None:
    """Return a context for pictures of one kind, or ``None`` if its pixels could differ from the reference."""
    library = _library()
    if library is None or name not in _FORMATS or width % _WIDTH_MULTIPLE or height % 2 or is_interlaced:
        return None
    kind = (name, width, matrix, color_range)
    if kind not in _checked:
        context = _Context(library, name, width, _CHECKED_LINES, matrix, color_range)
        _checked[kind] = _is_same(context, convert, *kind)
    return _Context(library, name, width, height, matrix, color_range) if _checked[kind] else None


_checked: dict[tuple[object, ...], bool] = {}  # in this process


def _is_same(
    context: _Context,
    convert: Callable[[Any], NDArray[np.uint8]],
    name: str,
    width: int,
    matrix: int,
    color_range: int,
) -> bool:
    """Return whether ``context`` writes the same pixels as the reference, and nothing else.

    A picture of a few lines, with values of all kinds, is converted in both ways.
    """
    picture: Any = av.VideoFrame(width, _CHECKED_LINES, name)
    picture.colorspace, picture.color_range = matrix, color_range
    num_bits = picture.format.components[0].bits
    for plane in picture.planes:
        # Multiplicative hashing (Knuth) of the position
        hashes = np.arange(plane.buffer_size, dtype=np.uint32) * np.uint32(2654435761) >> np.uint32(32 - num_bits)
        plane.update(hashes.astype("<u2" if num_bits > 8 else np.uint8).tobytes()[: plane.buffer_size])
    right = convert(picture).reshape(-1)
    memory = np.full(right.size + 2 * _GUARD_BYTES, _GUARD, np.uint8)
    pixels = memory[_GUARD_BYTES:-_GUARD_BYTES]
    np.invert(right, out=pixels)
    is_written = context.write(picture, _address_of(pixels))
    guards = (memory[:_GUARD_BYTES], memory[-_GUARD_BYTES:])
    return is_written and np.array_equal(pixels, right) and all((guard == _GUARD).all() for guard in guards)
