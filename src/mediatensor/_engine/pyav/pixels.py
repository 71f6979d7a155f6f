"""Convert decoded pictures to arrays of RGB, luma or stored planes; apply orientation, resize, crop and pad."""

from __future__ import annotations

import ctypes
import re
import struct
import sys
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import av
import numpy as np
from av.codec.hwaccel import HWAccel, hwdevices_available
from av.sidedata.sidedata import SideDataContainer, Type
from av.video.reformatter import Interpolation, VideoReformatter
from numpy.typing import NDArray

from ...errors import DecodeError
from ..common.buffers import empty
from ..common.pictures import (
    MAX_FRAME_PIXELS,
    CropStep,
    Orientation,
    PadStep,
    PixelStep,
    ResizeStep,
    Surface,
    fill_margins,
    output_size,
)
from .opening import error_text
from .rgb_rows import RGBRows

if TYPE_CHECKING:
    from torch import Tensor

_UNSPECIFIED = 2  # matrix, primaries and transfer characteristics of H.273
_UNSPECIFIED_RANGE, _LIMITED_RANGE, _FULL_RANGE = 0, 1, 2  # FFmpeg's
# Matrix coefficients of H.273 that swscale accepts. Frames with other numbers are converted as BT.601, as in the ffmpeg
# program, and those with BT.2020 constant luminance as BT.2020.
_ACCEPTED_MATRICES = frozenset((0, 1, 2, 4, 5, 6, 7, 9))
_BT601, _BT2020, _BT2020_CONSTANT_LUMINANCE = 5, 9, 10
_NAMES_IN_FILTERS = {_BT601: "smpte170m", _BT2020: "bt2020nc"}
# Primaries and transfer characteristics of H.273 that the scale filter accepts. They do not change RGB pixels.
_ACCEPTED_PRIMARIES = frozenset((1, 2, *range(4, 13), 22))
_ACCEPTED_TRANSFERS = frozenset((1, 2, *range(4, 9), *range(11, 19)))

# ``picture.side_data`` would make a reference cycle. The codec would then get the picture's memory back only at garbage
# collection, and damaged pictures would show other stale memory. ``Any``, because its type hints have no constructor.
_list_side_data: Any = SideDataContainer
_UPRIGHT = Orientation()
_MAX_LEVEL = 65535  # of frames that are converted to float32
# Pixel formats of the PNG codec. Only this codec adds metadata (the name of a colour profile) to side data. PyAV frees
# this metadata when it lists side data, and the picture would free it a second time.
_FORMATS_OF_PNG = frozenset((
    "gray", "gray16be", "monoblack", "pal8", "rgb24", "rgb48be", "rgba", "rgba64be", "ya16be", "ya8",
))  # fmt: skip
_NUM_KINDS_OF_SIDE_DATA = 48
# FFmpeg's numbers for colour profiles, and for all types that PyAV has no name for, including types of later versions.
_UNLISTED_SIDE_DATA = (
    Type.ICC_PROFILE.value,
    *sorted(set(range(_NUM_KINDS_OF_SIDE_DATA)) - {kind.value for kind in Type}),
)
# Memory of larger blocks goes back to the system when freed, so new blocks would cost a page fault per 4 KiB.
_MAX_OWN_BYTES = 1 << 19
# Numbers instead of enum members, which PyAV looks up more slowly.
_AREA, _BICUBIC, _BILINEAR = int(Interpolation.AREA), int(Interpolation.BICUBIC), int(Interpolation.BILINEAR)


def orientation_of(picture: Any) -> Orientation:
    """Return the orientation of a picture, which describes how to turn it upright."""
    try:
        matrix = side_data_of(picture, Type.DISPLAYMATRIX)
    except DecodeError:
        return Orientation.from_rotation(float(picture.rotation) or None)
    return _UPRIGHT if matrix is None else Orientation.from_display_matrix(bytes(matrix))


def side_data_of(picture: Any, kind: Type) -> Any | None:
    """Return a picture's side data of one kind, a key of ``_filters``, or ``None`` if there is none.

    For some types of side data, listing would crash or raise an error. A filter removes these types first.
    """
    try:
        side_data = None if picture.format.name in _FORMATS_OF_PNG else _list_side_data(picture)
    except ValueError:  # PyAV 18 has no name for a type of this picture's side data, such as EXIF
        side_data = None
    if side_data is None:
        try:
            selected = _filters[kind].select(picture)
        except av.FFmpegError as error:
            raise DecodeError(f"The side data of a frame cannot be read: {error_text(error)}.") from error
        if selected is None:
            return None
        side_data = _list_side_data(selected)
    # ``side_data.get`` raises and catches an error. PyAV could drop a signal's exception at this point.
    for item in side_data:
        if item.type is kind:
            return item
    return None


def luminance_data(picture: Any) -> tuple[bytes, bytes]:
    """Return the side data with the content light level and the mastering display, empty if there is none."""
    data = []
    for kind in (Type.CONTENT_LIGHT_LEVEL, Type.MASTERING_DISPLAY_METADATA):
        item = None
        with suppress(DecodeError):
            item = side_data_of(picture, kind)
        data.append(b"" if item is None else bytes(item))
    return data[0], data[1]


def peak_luminance_of(picture: Any) -> float | None:
    """Return the peak luminance in cd/m² from a picture's metadata: of its content, else of the mastering display.

    Return ``None`` if the picture has no such metadata.
    """
    light_level, mastering_display = luminance_data(picture)
    if light_level and (peak := struct.unpack("=I", light_level[:4])[0]) > 0:
        return float(peak)
    if mastering_display:
        # 8 rational numbers of chromaticities, the lowest and highest luminance, and whether each of these is known
        numerator, denominator, _, is_known = struct.unpack("=4i", mastering_display[72:88])
        if is_known and denominator and numerator / denominator > 0:
            return float(numerator / denominator)
    return None


class _SideDataFilter(threading.local):
    """A filter of FFmpeg that makes it safe to read one kind of side data of a picture.

    It removes the types of side data that PyAV cannot list safely, and drops pictures without side data of ``kind``.
    """

    def __init__(self, kind: Type) -> None:
        self._kind = kind
        self._graph: Any = None
        self._configured_for: tuple[object, ...] | None = None

    def select(self, picture: Any) -> Any | None:
        """Return the picture without the unsafe types of side data, or ``None`` if it has no side data of ``kind``."""
        kind = (picture.width, picture.height, picture.format.name)
        if kind != self._configured_for:
            removed = [f"mode=delete:type={number}" for number in _UNLISTED_SIDE_DATA]
            self._graph = _filter_graph(
                picture, [("sidedata", options) for options in (f"mode=select:type={self._kind.value}", *removed)]
            )
        self._configured_for = None  # an error leaves the graph unusable
        self._graph.push(picture)
        try:
            selected = self._graph.pull()
        except av.BlockingIOError:
            selected = None
        self._configured_for = kind
        return selected


_filters = {
    kind: _SideDataFilter(kind)
    for kind in (
        Type.DISPLAYMATRIX,
        Type.MOTION_VECTORS,
        Type.VIDEO_ENC_PARAMS,
        Type.CONTENT_LIGHT_LEVEL,
        Type.MASTERING_DISPLAY_METADATA,
    )
}


def _filter_graph(picture: Any, filters: Iterable[tuple[str, str]]) -> Any:
    """Build an FFmpeg filter graph for pictures with the size and format of ``picture``.

    ``filters`` has the (name, options) of each filter, in the order in which they are applied.
    """
    graph: Any = av.filter.Graph()
    graph.threads = 1
    source = graph.add_buffer(
        width=picture.width, height=picture.height, format=picture.format.name, time_base=Fraction(1, 1000)
    )
    chain = [source, *(graph.add(name, options) for name, options in filters), graph.add("buffersink")]
    for one, other in pairwise(chain):
        one.link_to(other)
    graph.configure()
    return graph


class Converter:
    """The methods that all converters share, because they do not depend on the output format."""

    _steps: tuple[PixelStep, ...]

    orientation_of = staticmethod(orientation_of)

    def here(self) -> Callable[[], AbstractContextManager[object]]:
        """Return a function that makes a context manager. Other threads must use this converter in its ``with`` block.

        On the CPU, the context manager does nothing.
        """
        return nullcontext

    def output_size(self, picture: Any, orientation: Orientation) -> tuple[int, int]:
        """Return the (height, width) of a picture after it is turned upright, resized, cropped and padded."""
        size = (picture.width, picture.height) if orientation.transposed else (picture.height, picture.width)
        return output_size(self._steps, *size) if self._steps else size


class FrameConverter(Converter):
    """Converts decoded pictures to RGB arrays. Use one converter per thread, because it keeps swscale's context.

    Colours are converted by swscale with bicubic interpolation of chroma and one thread, like ``format=rgb24`` in the
    ``ffmpeg`` program. The picture is then turned upright, and ``steps`` resize, crop and pad it. A resize is bilinear.
    If the first step is a resize with ``fast``, colour conversion and resize are one pass; otherwise the resize is a
    second pass.

    With ``is_float``, values are float32 in [0, 1], converted from 16 bits per component. Otherwise they are uint8.
    """

    def __init__(self, steps: tuple[PixelStep, ...] = (), *, is_float: bool = False) -> None:
        self._steps = steps
        self._is_float = is_float
        #: Whether `rgb_of` can be used: the output is uint8 and has the size of the picture.
        self.is_uint8_without_steps = not steps and not is_float
        self._format = "rgb48le" if is_float else "rgb24"
        self._output_format = av.VideoFormat(self._format)  # PyAV takes longer to look up names
        self._dtype: type[np.generic] = np.uint16 if is_float else np.uint8
        # A reformatter keeps one context. If its sizes alternated, it would rebuild the context for every picture.
        self._to_rgb, self._to_components = VideoReformatter(), VideoReformatter()
        self._filter = ScaleFilter(self._format)
        self._narrow_filter = ScaleFilter("rgb24")
        self._resizers: dict[int, VideoReformatter] = {}
        self._rows = RGBRows(_convert_afresh)

    def empty(self, num_rows: int, height: int, width: int) -> NDArray[Any]:
        return empty((num_rows, height, width, 3), np.float32 if self._is_float else np.uint8)

    def write(self, picture: Any, orientation: Orientation, out: NDArray[Any]) -> None:
        """Convert a picture and write it to ``out`` (height, width, 3); scale it if its size differs.

        Raises `DecodeError` if FFmpeg cannot convert the picture's colours.
        """
        try:
            steps = self._steps
            if (
                self.is_uint8_without_steps
                and orientation is _UPRIGHT
                and self._rows.write(picture, _matrix_of(picture), out)
            ):
                return
            if out.shape[:2] != self.output_size(picture, orientation):
                steps = (*steps, ResizeStep(*out.shape[:2]))
            if steps and isinstance(steps[0], ResizeStep) and steps[0].fast:
                height, width = orientation.size(steps[0].height, steps[0].width)
                rgb = self._reformat(self._to_rgb, picture, _BILINEAR, width=width, height=height)
                steps = steps[1:]
            else:
                rgb = self._convert(picture)
            pixels = _view_pixels(rgb, self._dtype)
            if orientation is not _UPRIGHT:
                pixels = orientation.apply(pixels)
            if steps and isinstance(steps[0], ResizeStep) and not orientation.turns:
                is_own = rgb is not picture and not rgb.interlaced_frame  # the tag would affect scaling
                if is_own:  # avoid a copy of the large picture
                    pixels = self._resize(steps[0], rgb, 0)
            padding = None
            if steps and isinstance(steps[-1], PadStep):  # write the frame directly to its place in ``out``
                padding, steps = steps[-1], steps[:-1]
            for number, step in enumerate(steps):
                pixels = self._apply(step, pixels, number)
        except av.FFmpegError as error:
            raise _conversion_error(picture, error) from error
        if padding is not None:
            out = fill_margins(padding, out, *pixels.shape[:2])
        if self._is_float:
            np.divide(pixels, np.float32(_MAX_LEVEL), out=out, dtype=np.float32)
        else:
            out[...] = pixels

    def rgb_of(self, picture: Any) -> NDArray[Any] | None:
        """Convert a picture to uint8 RGB (H, W, 3) in new memory. Only for converters to uint8 without ``steps``.

        Return ``None`` if the picture is rotated, or if its format needs the slower conversion of `write`.
        """
        if not _takes_the_fast_path(picture) or orientation_of(picture) is not _UPRIGHT:
            return None
        if picture.width * picture.height * 3 >= _MAX_OWN_BYTES:
            pixels = empty((picture.height, picture.width, 3), np.uint8)
            self.write(picture, _UPRIGHT, pixels)
            return pixels
        try:
            rgb = self._reformat(self._to_rgb, picture, _BICUBIC)
        except av.FFmpegError as error:
            raise _conversion_error(picture, error) from error
        pixels = _view_pixels(rgb, np.uint8)
        return pixels if rgb is not picture and pixels.flags.c_contiguous else pixels.copy()

    def components_of(self, picture: Any, size: tuple[int, int]) -> NDArray[np.uint8]:
        """Return luma and both chroma planes of a picture as (3, height, width), scaled to ``size`` but not rotated.

        Luma is converted to limited range (16 to 235).
        """
        options = {"dst_colorspace": _matrix_of(picture), "dst_color_range": _LIMITED_RANGE}
        planes = _scaled_planes(self._to_components, picture, size, "yuv444p", _AREA, **options)
        return np.stack(planes)

    def _convert(self, picture: Any) -> Any:
        if _takes_the_fast_path(picture):
            return self._reformat(self._to_rgb, picture, _BICUBIC)
        rgb = self._filter.convert(picture)
        if self._is_float and _lacks_last_column(picture):
            last = _view_pixels(self._narrow_filter.convert(picture), np.uint8)[:, -1]
            _view_pixels(rgb, np.uint16)[:, -1] = last * np.uint16(257)
        return rgb

    def _apply(self, step: PixelStep, pixels: NDArray[Any], number: int) -> NDArray[Any]:
        if isinstance(step, CropStep):
            return pixels[step.top : step.top + step.height, step.left : step.left + step.width]
        if isinstance(step, PadStep):
            scale = _MAX_LEVEL if self._is_float else 1
            return _padded(replace(step, fill=tuple(round(value * scale) for value in step.fill)), pixels)
        if pixels.shape[:2] == (step.height, step.width):
            return pixels
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format=self._format)
        return self._resize(step, frame, number)

    def _resize(self, step: ResizeStep, frame: Any, number: int) -> NDArray[Any]:
        """Resize an RGB frame whose colours are interleaved.

        Its colour tags are removed first, because they still describe the picture before it was converted to RGB.
        ``number`` is the position of the step; each position has its own resizer.
        """
        frame.colorspace = frame.color_primaries = frame.color_trc = _UNSPECIFIED
        frame.color_range = _UNSPECIFIED_RANGE
        resizer = self._resizers.setdefault(number, VideoReformatter())
        size = {"width": step.width, "height": step.height}
        return _view_pixels(self._reformat(resizer, frame, _BILINEAR, **size), self._dtype)

    def _reformat(self, reformatter: Any, picture: Any, interpolation: int, **size: int) -> Any:
        return reformatter.reformat(
            picture,
            format=self._output_format,
            src_colorspace=_matrix_of(picture),
            interpolation=interpolation,
            threads=1,
            **size,
        )


class LumaConverter(Converter):
    """Copies the stored luma values of decoded pictures. The colour range of the stream is ignored.

    A resize takes the nearest sample and never averages, because the values may represent something other than
    brightness, such as depth.
    """

    def __init__(self, steps: tuple[PixelStep, ...], num_bits: int) -> None:
        self._steps = steps
        self._num_bits = num_bits

    def empty(self, num_rows: int, height: int, width: int) -> NDArray[Any]:
        return empty((num_rows, height, width, 1), np.uint16)

    def write(self, picture: Any, orientation: Orientation, out: NDArray[Any]) -> None:
        """Copy a picture's luma to ``out`` (height, width, 1); scale the luma if its size differs.

        Raises `DecodeError` unless the picture has luma with the number of bits that was given to the constructor.
        """
        pixel_format = picture.format
        has_luma = pixel_format.name.startswith(("gray", "yuv4", "yuvj4"))
        if not has_luma or pixel_format.components[0].bits != self._num_bits:
            raise DecodeError(
                f"A frame has the pixel format {pixel_format.name}, and should have luma of {self._num_bits} bits."
            )
        try:
            luma: NDArray[Any] = component_planes(picture)[0].numpy()
        except ValueError as error:
            raise DecodeError(f"The luma of a frame cannot be read: {error}.") from error
        pixels = orientation.apply(luma[..., None])
        for step in (*self._steps, ResizeStep(*out.shape[:2])):
            if isinstance(step, CropStep):
                pixels = pixels[step.top : step.top + step.height, step.left : step.left + step.width]
            elif isinstance(step, PadStep):
                pixels = _padded(step, pixels)
            elif pixels.shape[:2] != (step.height, step.width):
                rows, columns = (
                    (np.arange(wanted) * 2 + 1) * stored // (2 * wanted)
                    for wanted, stored in ((step.height, pixels.shape[0]), (step.width, pixels.shape[1]))
                )
                pixels = pixels[rows[:, None], columns]
        out[...] = pixels


def _padded(step: PadStep, pixels: NDArray[Any]) -> NDArray[Any]:
    canvas = np.empty((step.height, step.width, pixels.shape[2]), pixels.dtype)
    fill_margins(step, canvas, *pixels.shape[:2])[...] = pixels
    return canvas


def _scaled_planes(
    reformatter: Any, picture: Any, size: tuple[int, int], pixel_format: str, interpolation: int, **options: Any
) -> list[NDArray[np.uint8]]:
    """Scale a picture and convert it to ``pixel_format``; return a view (height, width) of each of its planes.

    All planes of this format must have the full size, so chroma must not be subsampled.
    """
    height, width = size
    try:
        scaled = reformatter.reformat(
            picture,
            width=width,
            height=height,
            format=pixel_format,
            src_colorspace=_matrix_of(picture),
            interpolation=interpolation,
            threads=1,
            **options,
        )
    except av.FFmpegError as error:
        raise _conversion_error(picture, error) from error
    return [np.frombuffer(plane, np.uint8).reshape(height, -1)[:, :width] for plane in scaled.planes]


def _conversion_error(picture: Any, error: av.FFmpegError) -> DecodeError:
    return DecodeError(
        f"A frame could not be converted to RGB from format {picture.format.name} with matrix "
        f"{int(picture.colorspace)}: {error_text(error)}. The file may be damaged."
    )


class ScaleFilter:
    """Converts the colours of pictures with libavfilter's ``scale`` filter, as the ``ffmpeg`` program does.

    PyAV's ``reformat`` is faster. But it treats chroma location and interlacing in another way, so its pixels differ
    from those of the ``ffmpeg`` program if chroma is interpolated.
    """

    def __init__(self, pixel_format: str) -> None:
        self._pixel_format = pixel_format
        self._graph: Any = None
        self._configured_for: tuple[object, ...] | None = None

    def convert(self, picture: Any) -> Any:
        is_accepted = picture.color_primaries in _ACCEPTED_PRIMARIES and picture.color_trc in _ACCEPTED_TRANSFERS
        kind = (
            picture.width,
            picture.height,
            picture.format.name,
            picture.colorspace,
            picture.color_range,
            is_accepted,
        )
        if kind != self._configured_for:
            matrix = _matrix_of(picture)
            tags = [] if is_accepted else ["color_primaries=unknown", "color_trc=unknown"]
            tags += [] if matrix == picture.colorspace else [f"colorspace={_NAMES_IN_FILTERS[matrix]}"]
            filters = [("setparams", ":".join(tags))] if tags else []
            self._graph = _filter_graph(picture, [*filters, ("scale", "flags=bicubic"), ("format", self._pixel_format)])
        self._configured_for = None  # an error leaves the graph unusable
        self._graph.push(picture)
        rgb = self._graph.pull()
        self._configured_for = kind
        return rgb


def _convert_afresh(picture: Any) -> NDArray[np.uint8]:
    """Return the pixels (H, W, 3) that PyAV gives without `RGBRows`, as a reference, with a new converter."""
    return np.array(_view_pixels(FrameConverter()._convert(picture), np.uint8))


def _matrix_of(picture: Any) -> int:
    """Return the number of a picture's colour matrix. If swscale rejects it, return the number of a replacement."""
    number = int(picture.colorspace)
    if number in _ACCEPTED_MATRICES:
        return number
    return _BT2020 if number == _BT2020_CONSTANT_LUMINANCE else _BT601


def _takes_the_fast_path(picture: Any) -> bool:
    """Return whether PyAV's ``reformat`` gives the same RGB pixels as the slower `ScaleFilter`.

    It does if chroma is not interpolated, and for progressive 4:2:0 pictures with an even width and height.
    """
    name = picture.format.name
    if name in ("yuv420p", "yuvj420p"):
        return not (picture.width % 2 or picture.height % 2 or picture.interlaced_frame)
    return bool(picture.format.is_rgb or name.startswith(("gray", "pal8", "mono")))


def white_of(picture: Any, num_bits: int) -> float:
    """Return the value of white in [0, 1] after libswscale's conversion of a picture or `Surface` to 16 bits.

    libswscale shifts full-range samples to the left, and converts limited range as if it had 8 bits. ``num_bits`` is
    used for pictures that do not state their number of bits.
    """
    pixel_format = getattr(picture, "format", None)
    is_full_range = getattr(picture, "color_range", _UNSPECIFIED_RANGE) == _FULL_RANGE
    if pixel_format is not None and pixel_format.components:
        num_bits = max(component.bits for component in pixel_format.components)
        is_full_range |= pixel_format.is_rgb or pixel_format.name.startswith(("yuvj", "gray", "ya"))
    if not is_full_range:
        num_bits = 8
    return (((1 << num_bits) - 1) << (16 - num_bits)) / _MAX_LEVEL if num_bits <= 16 else 1.0


def _lacks_last_column(picture: Any) -> bool:
    """Return whether swscale leaves the last column uninitialised when it converts to 16 bits per component.

    For some formats, swscale converts columns in pairs, so it leaves out the last one if the width is odd.
    """
    is_paired = picture.format.name in ("yuv420p", "yuvj420p", "yuv422p", "yuvj422p")
    return bool(is_paired and picture.width % 2 and not picture.height % 2)


def _view_pixels(frame: Any, dtype: type[np.generic]) -> NDArray[Any]:
    """Return a view (H, W, 3) of an RGB frame whose colours are interleaved. The padding of the lines is left out."""
    plane = frame.planes[0]
    line_bytes, height, width = plane.line_size, frame.height, frame.width
    if line_bytes == width * 3 and dtype is np.uint8:
        return np.frombuffer(plane, dtype, height * line_bytes).reshape(height, width, 3)
    is_upside_down = line_bytes < 0
    stride = (-line_bytes if is_upside_down else line_bytes) // np.dtype(dtype).itemsize
    lines = np.frombuffer(plane, dtype, count=height * stride).reshape(height, stride)
    pixels = lines[:, : width * 3].reshape(height, width, 3)
    return pixels[::-1] if is_upside_down else pixels


def frame_of_rgb(pixels: NDArray[Any]) -> Any:
    """Return a frame with the pixels (H, W, 3), uint8 or float32 in [0, 1]."""
    if pixels.dtype == np.uint8:
        return av.VideoFrame.from_ndarray(pixels, format="rgb24")
    return av.VideoFrame.from_ndarray((pixels * _MAX_LEVEL).round().astype(np.uint16), format="rgb48le")


def fingerprint(picture: Any) -> int:
    """Return the CRC-32 of the pixels of a decoded picture. The padding of the lines is not included."""
    checksum = 0
    for number, plane in enumerate(picture.planes):
        stride, row = abs(plane.line_size), _row_bytes(picture.format, number, plane)
        lines = np.frombuffer(plane, np.uint8)
        if 0 < row < stride:
            height = len(lines) // stride
            lines = np.ascontiguousarray(lines[: height * stride].reshape(height, stride)[:, :row])
        checksum = zlib.crc32(lines.data, checksum)
    return checksum


def _row_bytes(pixel_format: Any, number: int, plane: Any) -> int:
    """Return how many bytes of each line in plane ``number`` hold pixels. Return 0 for the palette of pal8."""
    in_plane = [component for component in pixel_format.components if component.plane == number]
    if not in_plane:  # the palette of pal8
        return 0
    if all(component.plane == 0 for component in pixel_format.components):
        return -(-int(plane.width) * int(pixel_format.padded_bits_per_pixel) // 8)
    return int(plane.width) * sum((int(component.bits) + 7) // 8 for component in in_plane)


_EXPORT_ERRORS = (NotImplementedError, TypeError, ValueError)


def is_frame(picture: object) -> bool:
    """Return whether an object is a PyAV frame, on any device."""
    return isinstance(picture, av.VideoFrame)


def surface_of(picture: Any) -> Surface:
    """Return a `Surface` whose tensors share the memory of a CPU picture. Do not write to the tensors.

    For formats with palettes or packed bits, and for pictures that are stored upside down, the surface has no planes,
    because DLPack cannot describe them.
    """
    planes: tuple[Tensor, ...] = ()
    with suppress(*_EXPORT_ERRORS):
        planes = _export_planes(picture)
    return _make_surface(picture, picture.format.name, planes, nullcontext)


def cuda_surface_of(picture: Any, reading: Callable[[], AbstractContextManager[object]]) -> Surface:
    """Return a `Surface` whose tensors share the GPU memory of a picture from a CUDA decoder.

    Read the tensors only in a context that ``reading`` returns. Raises ValueError if the format is not nv12, p010le or
    p016le, or if chroma samples are missing. PyAV drops the last chroma samples if the height or width is odd.
    """
    try:
        planes = _export_planes(picture)
    except _EXPORT_ERRORS as error:
        raise ValueError(f"the decoder's pictures cannot be handed over ({error})") from error
    expected = ((picture.height, picture.width), (-(-picture.height // 2), -(-picture.width // 2), 2))
    if tuple(tuple(plane.shape) for plane in planes) != expected:
        raise ValueError(f"the decoder's pictures have planes of {[tuple(plane.shape) for plane in planes]}")
    # Samples of 10, 12 and 16 bits are all stored in the high bits, so the name p016le fits all of them.
    return _make_surface(picture, "nv12" if planes[0].element_size() == 1 else "p016le", planes, reading)


def _export_planes(picture: Any) -> tuple[Tensor, ...]:
    from torch.utils.dlpack import from_dlpack

    # Pass the capsule instead of the plane. To the plane, torch would pass a stream, which PyAV does not support.
    return tuple(from_dlpack(plane.__dlpack__()) for plane in picture.planes)


def _make_surface(
    picture: Any,
    pixel_format: str,
    planes: tuple[Tensor, ...],
    reading: Callable[[], AbstractContextManager[object]],
) -> Surface:
    return Surface(
        planes,
        pixel_format,
        picture.width,
        picture.height,
        pts=picture.pts,
        duration=picture.duration,
        key_frame=bool(picture.key_frame),
        is_corrupt=picture.is_corrupt,
        matrix=int(picture.colorspace),
        color_range=int(picture.color_range),
        is_interlaced=bool(picture.interlaced_frame),
        chroma_location=int(getattr(picture, "chroma_location", 0)),  # from PyAV 19 on
        orientation=orientation_of(picture),
        reading=reading,
    )


# Formats whose first plane is luma: planar formats, and formats with interleaved chroma.
_FORMATS_WITH_LUMA = ("yuv4", "yuvj4", "yuva4", "nv12", "nv21", "nv16", "nv24", "p010", "p012", "p016", "gray")

# Formats in which components share a plane, with (first sample, step between samples) of each component.
_UV, _VU = ((0, 1), (0, 2), (1, 2)), ((0, 1), (1, 2), (0, 2))
_SHARED_PLANES = {
    **dict.fromkeys(
        ("nv12", "nv16", "nv24", "p010", "p012", "p016", "p210", "p212", "p216", "p410", "p412", "p416"), _UV
    ),
    **dict.fromkeys(("nv21", "nv42"), _VU),
    "yuyv422": ((0, 2), (1, 4), (3, 4)),
    "uyvy422": ((1, 2), (0, 4), (2, 4)),
    "yvyu422": ((0, 2), (3, 4), (1, 4)),
}
_PACKED = re.compile(r"(?P<letters>[0abgrxy]{2,4})(?:8|16|24|32|48|64)?")


def luma_of(picture: Any, size: tuple[int, int] | None = None) -> NDArray[np.uint8]:
    """Return the luma of a CPU picture as uint8 (H, W), not rotated. The array can be a read-only view.

    Luma keeps its stored range. If its samples have more than 8 bits, only their upper 8 bits are returned. A
    picture without luma is converted to gray. If ``size`` (height, width) is given, the luma is scaled to it.
    """
    pixel_format, plane = picture.format, picture.planes[0]
    component = pixel_format.components[0]
    is_integer = 8 <= component.bits <= 16 and "f16" not in pixel_format.name
    has_luma = component.plane == 0 and is_integer and pixel_format.name.startswith(_FORMATS_WITH_LUMA)
    is_as_asked = size is None or size == (picture.height, picture.width)
    if has_luma and is_as_asked and plane.line_size > 0 and not pixel_format.is_big_endian:
        if component.bits == 8:
            rows: NDArray[np.uint8] = np.frombuffer(plane, np.uint8).reshape(picture.height, -1)
            return rows[:, : picture.width]
        deep: NDArray[np.uint16] = np.frombuffer(plane, np.uint16).reshape(picture.height, -1)
        shift = 8 if pixel_format.name.startswith("p0") else int(component.bits) - 8
        return (deep[:, : picture.width] >> shift).astype(np.uint8)
    # Gray is full range. Luma that is taken for full range keeps its values.
    ranges = {"src_color_range": _FULL_RANGE, "dst_color_range": _FULL_RANGE}
    size = size or (picture.height, picture.width)
    return _scaled_planes(VideoReformatter(), picture, size, "gray", _BILINEAR, **ranges)[0]


def component_planes(picture: Any) -> tuple[Tensor, ...]:
    """Return each component of a CPU picture as a 2-D view (height, width) of uint8 or uint16, in FFmpeg's order.

    The views share the codec's memory. Only big-endian samples are copied. Raises ValueError if the components are not
    integers of whole bytes (palettes, packed bits, floats), or if the picture is stored upside down.
    """
    import torch

    pixel_format = picture.format
    name = pixel_format.name
    components = pixel_format.components
    places = _sample_places(name, [component.plane for component in components])
    bits = max(component.bits for component in components)
    if places is None or not 8 <= bits <= 16 or min(component.bits for component in components) < 8 or "f16" in name:
        raise ValueError(f"{name} has components that are not whole bytes, or are floats or indices into a palette")
    size = 1 if bits == 8 else 2
    planes, views = picture.planes, []
    for component, (first, step) in zip(components, places, strict=True):
        plane = planes[component.plane]
        if plane.line_size < 0:
            raise ValueError("the frame is stored upside down")
        samples = torch.frombuffer(plane, dtype=torch.uint8 if size == 1 else torch.uint16)
        shape, strides = (component.height, component.width), (plane.line_size // size, step)
        view = samples.as_strided(shape, strides, first)
        views.append(torch.from_numpy(view.numpy().byteswap()) if size == 2 and name.endswith("be") else view)
    return tuple(views)


def _sample_places(name: str, planes: list[int]) -> Sequence[tuple[int, int]] | None:
    """Return where the samples of each component lie in its plane, or ``None`` for an unknown format.

    Each place is (index of the first sample, step between consecutive samples). ``name`` is the name of the format, and
    ``planes`` has the plane number of each component.
    """
    if len(set(planes)) == len(planes) and not name.startswith(("pal8", "mono")):
        return [(0, 1)] * len(planes)
    stem = name.removesuffix("le").removesuffix("be")
    if stem in _SHARED_PLANES:
        return _SHARED_PLANES[stem]
    packed = _PACKED.fullmatch(stem)
    if packed is None or set(planes) != {0}:
        return None
    letters = packed["letters"]
    order = [letter for letter in ("ya" if "y" in letters else "rgba") if letter in letters]
    if len(order) != len(planes):
        return None
    return [(letters.index(letter), len(letters)) for letter in order]


#: Errors that creating or running a CUDA decoder can raise.
CUDA_DECODE_ERRORS = (av.FFmpegError, OSError, ValueError, NotImplementedError)


@lru_cache(maxsize=1)
def why_no_nvcuvid() -> str | None:
    """Return why FFmpeg cannot decode with NVDEC on this machine; ``None`` if no reason is known."""
    if "cuda" not in hwdevices_available():
        return "the FFmpeg that PyAV brings was built without CUDA"
    library = "nvcuvid.dll" if sys.platform == "win32" else "libnvcuvid.so.1"
    try:
        ctypes.CDLL(library)
    except OSError:
        return (
            f"the driver's video library {library} cannot be loaded (in containers, NVIDIA_DRIVER_CAPABILITIES must "
            "include 'video')"
        )
    return None


def create_cuda_context(codec: str, extradata: bytes, size: tuple[int, int], device_index: int) -> Any:
    """Create a codec context that decodes on a CUDA device and leaves the frames there.

    The context must get the packets of the stream from the beginning. The device's primary CUDA context, which torch
    uses, must be current in the calling thread, because FFmpeg does not make it current.

    ``codec`` is FFmpeg's name of a format, such as av1. The name of a decoder, such as libdav1d, may select a decoder
    that does not support devices. ``size`` is the (height, width) that the container states; the size in the codec's
    own headers is often rounded up to a multiple of 16.

    Raises `CUDA_DECODE_ERRORS` if there is no such decoder or device.
    """
    accelerator = HWAccel(
        "cuda",
        device=str(device_index),
        is_hw_owned=True,
        allow_software_fallback=False,
        options={"primary_ctx": "0", "current_ctx": "1"},
    )
    context: Any = av.CodecContext.create(codec, "r", hwaccel=accelerator)
    if not context.is_hwaccel:
        raise NotImplementedError(f"FFmpeg has no CUDA decoder of {codec}")
    if extradata:
        context.extradata = extradata
    context.height, context.width = size
    context.thread_count = 1  # each additional thread takes some of NVDEC's 32 surfaces
    context.options = {"max_pixels": str(MAX_FRAME_PIXELS)}
    return context
