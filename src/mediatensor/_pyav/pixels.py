"""From a decoded frame to RGB pixels in an array: colour, orientation, resize, crop."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from itertools import pairwise
from typing import Any

import av
import numpy as np
from av.sidedata.sidedata import SideDataContainer
from av.video.reformatter import Interpolation, VideoReformatter
from numpy.typing import NDArray

from .._common.buffers import empty
from .._common.orientation import Orientation
from .._common.pixel_steps import CropStep, PixelStep, ResizeStep, output_size
from ..errors import DecodeError
from .opening import error_text

__all__ = ["FrameConverter", "fingerprint", "orientation_of"]

_YCGCO, _BT2020_CONSTANT_LUMINANCE = 8, 10  # matrix coefficients of H.273
_UNSPECIFIED = 2  # matrix, primaries and transfer characteristics of H.273
_UNSPECIFIED_RANGE = 0  # FFmpeg's
# swscale refuses matrices that it has no coefficients for, those numbered 3 and 11 to 14 too; the program falls back in
# the same way.
_UNSUPPORTED_MATRICES = dict.fromkeys((3, _YCGCO, 11, 12, 13, 14), "ITU601") | {_BT2020_CONSTANT_LUMINANCE: "BT2020"}

_make_side_data: Any = SideDataContainer  # its type hints know no constructor
_UPRIGHT = Orientation()
# As numbers: PyAV takes longer to look up members of its enumerations.
_BICUBIC, _BILINEAR = int(Interpolation.BICUBIC), int(Interpolation.BILINEAR)


def orientation_of(frame: Any) -> Orientation:
    """How a decoded frame is to be turned."""
    rotation = float(frame.rotation) or None
    try:
        # ``frame.side_data`` makes a cycle: the codec would not get the picture's memory back until garbage is
        # collected. And where damage lets memory show through, it would show something else.
        side_data = _make_side_data(frame)
        matrix = side_data.get("DISPLAYMATRIX") if len(side_data) else None
    except ValueError:  # PyAV 18 cannot list side data of a type that it has no name for
        return Orientation.from_rotation(rotation)
    return _UPRIGHT if matrix is None else Orientation.from_display_matrix(bytes(matrix), rotation)


class FrameConverter:
    """Writes decoded frames as RGB into arrays; one per thread, because it keeps swscale's context.

    The conversion is swscale's with bicubic chroma and one thread, which is what the ``ffmpeg`` program's
    ``format=rgb24`` gives; a resize is a second, bilinear pass over the RGB picture unless the step allows one pass.

    Args:
        steps: What to do with the upright RGB picture, in order.
        is_float: float32 values in [0, 1] by way of 16 bits a component, instead of uint8.
    """

    def __init__(self, steps: tuple[PixelStep, ...] = (), *, is_float: bool = False) -> None:
        self._steps = steps
        self._is_float = is_float
        self._format = "rgb48le" if is_float else "rgb24"
        self._dtype: type[np.generic] = np.uint16 if is_float else np.uint8
        # Each keeps one context: alternating sizes in one would rebuild it for every frame.
        self._to_rgb = VideoReformatter()
        self._filter = _ScaleFilter(self._format)
        self._narrow_filter = _ScaleFilter("rgb24")
        self._resizers: dict[int, VideoReformatter] = {}

    #: How a frame is to be turned.
    orientation_of = staticmethod(orientation_of)

    def empty(self, num_rows: int, height: int, width: int) -> NDArray[Any]:
        """An array (num_rows, height, width, 3) of undefined values."""
        return empty((num_rows, height, width, 3), np.float32 if self._is_float else np.uint8)

    def here(self) -> Callable[[], AbstractContextManager[object]]:
        """Makes contexts for other threads; these convert like any."""
        return nullcontext

    def output_size(self, picture: Any, orientation: Orientation) -> tuple[int, int]:
        """(height, width) that ``write`` needs for this frame."""
        size = (picture.width, picture.height) if orientation.transposed else (picture.height, picture.width)
        return output_size(self._steps, *size) if self._steps else size

    def write(self, picture: Any, orientation: Orientation, out: NDArray[Any]) -> None:
        """Convert a frame into ``out``, of shape (height, width, 3); of another size, it is scaled to fit.

        Raises:
            DecodeError: if FFmpeg cannot convert from the colours that the frame says it has.
        """
        try:
            self._write(picture, orientation, out)
        except av.FFmpegError as error:
            raise DecodeError(
                f"A frame could not be converted to RGB from format {picture.format.name} with matrix "
                f"{int(picture.colorspace)}: {error_text(error)}. The file may be damaged."
            ) from error

    def _write(self, picture: Any, orientation: Orientation, out: NDArray[Any]) -> None:
        steps = self._steps
        is_plain = not steps and orientation is _UPRIGHT
        size = (picture.height, picture.width) if is_plain else self.output_size(picture, orientation)
        if out.shape[:2] != size:
            steps = (*steps, ResizeStep(*out.shape[:2]))
        if steps and isinstance(steps[0], ResizeStep) and steps[0].fast:
            height, width = orientation.size(steps[0].height, steps[0].width)
            rgb = self._reformat(self._to_rgb, picture, _BILINEAR, width=width, height=height)
            steps = steps[1:]
        else:
            rgb = self._convert(picture)
        pixels = _pixels(rgb, self._dtype)
        if orientation is not _UPRIGHT:
            pixels = orientation.apply(pixels)
        if steps and isinstance(steps[0], ResizeStep) and not orientation.turns and _is_own_and_plain(rgb, picture):
            pixels = self._resize(steps[0], rgb, 0)  # spares a copy of the large picture
        for number, step in enumerate(steps):
            pixels = self._apply(step, pixels, number)
        if self._is_float:
            np.divide(pixels, np.float32(65535), out=out, dtype=np.float32)
        else:
            out[...] = pixels

    def _convert(self, frame: Any) -> Any:
        if _takes_the_fast_path(frame) or frame.colorspace in _UNSUPPORTED_MATRICES:
            return self._reformat(self._to_rgb, frame, _BICUBIC)
        rgb = self._filter.convert(frame)
        if self._is_float and _lacks_last_column(frame):
            last = _pixels(self._narrow_filter.convert(frame), np.uint8)[:, -1]
            _pixels(rgb, np.uint16)[:, -1] = last * np.uint16(257)
        return rgb

    def _apply(self, step: PixelStep, pixels: NDArray[Any], number: int) -> NDArray[Any]:
        if isinstance(step, CropStep):
            return pixels[step.top : step.top + step.height, step.left : step.left + step.width]
        if pixels.shape[:2] == (step.height, step.width):
            return pixels
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format=self._format)
        return self._resize(step, frame, number)

    def _resize(self, step: ResizeStep, picture: Any, number: int) -> NDArray[Any]:
        """The resized pixels of a packed RGB frame, whatever it says of the colours that it was converted from."""
        picture.colorspace = picture.color_primaries = picture.color_trc = _UNSPECIFIED
        picture.color_range = _UNSPECIFIED_RANGE
        resizer = self._resizers.setdefault(number, VideoReformatter())
        size = {"width": step.width, "height": step.height}
        return _pixels(self._reformat(resizer, picture, _BILINEAR, **size), self._dtype)

    def _reformat(self, reformatter: VideoReformatter, frame: Any, interpolation: int, **size: int) -> Any:
        options: dict[str, Any] = {"format": self._format, "interpolation": interpolation, "threads": 1, **size}
        matrix = _UNSUPPORTED_MATRICES.get(frame.colorspace)
        return reformatter.reformat(frame, src_colorspace=matrix, **options)  # type: ignore[arg-type]


class _ScaleFilter:
    """Converts colours with libavfilter's ``scale``, as the ``ffmpeg`` program does.

    Where chroma is really interpolated, a plain reformat honours what the program does not look at: the chroma
    location, and that a frame is interlaced.

    Args:
        pixel_format: The format of the result.
    """

    def __init__(self, pixel_format: str) -> None:
        self._pixel_format = pixel_format
        self._graph: Any = None
        self._configured_for: tuple[object, ...] | None = None

    def convert(self, frame: Any) -> Any:
        kind = (frame.width, frame.height, frame.format.name, frame.colorspace, frame.color_range)
        if kind != self._configured_for:
            self._configure(frame)
        self._configured_for = None  # after an error, the graph is of no more use
        self._graph.push(frame)
        rgb = self._graph.pull()
        self._configured_for = kind
        return rgb

    def _configure(self, frame: Any) -> None:
        self._graph = av.filter.Graph()
        self._graph.threads = 1
        source = self._graph.add_buffer(
            width=frame.width, height=frame.height, format=frame.format.name, time_base=Fraction(1, 1000)
        )
        chain = [source, self._graph.add("scale", "flags=bicubic"), self._graph.add("format", self._pixel_format)]
        for one, other in pairwise([*chain, self._graph.add("buffersink")]):
            one.link_to(other)
        self._graph.configure()


def _takes_the_fast_path(frame: Any) -> bool:
    """Whether swscale repeats chroma samples instead of interpolating them, or there is nothing to interpolate."""
    name = frame.format.name
    if name in ("yuv420p", "yuvj420p"):
        return not (frame.width % 2 or frame.height % 2 or frame.interlaced_frame)
    return bool(frame.format.is_rgb or name.startswith(("gray", "pal8", "mono")))


def _lacks_last_column(frame: Any) -> bool:
    """Whether swscale, making 16 bits of 8, converts pairs of pixels and leaves an odd one as its memory was."""
    is_paired = frame.format.name in ("yuv420p", "yuvj420p", "yuv422p", "yuvj422p")
    return bool(is_paired and frame.width % 2 and not frame.height % 2)


def _is_own_and_plain(picture: Any, frame: Any) -> bool:
    """Whether an RGB picture is not the codec's frame itself, and nothing but its pixels tells how it is scaled."""
    return picture is not frame and not picture.interlaced_frame


def _pixels(picture: Any, dtype: type[np.generic]) -> NDArray[Any]:
    """A view (H, W, 3) of a packed RGB frame, without the padding at the end of its lines."""
    plane = picture.planes[0]
    line_bytes, height, width = plane.line_size, picture.height, picture.width
    is_upside_down = line_bytes < 0
    stride = (-line_bytes if is_upside_down else line_bytes) // np.dtype(dtype).itemsize
    lines = np.frombuffer(plane, dtype, count=height * stride).reshape(height, stride)
    pixels = lines[:, : width * 3].reshape(height, width, 3)
    return pixels[::-1] if is_upside_down else pixels


def fingerprint(frame: Any) -> int:
    """CRC-32 of the planes of a decoded frame as they are, without the padding at the end of their lines."""
    checksum = 0
    for number, plane in enumerate(frame.planes):
        stride, row = abs(plane.line_size), _row_bytes(frame.format, number, plane)
        lines = np.frombuffer(plane, np.uint8)
        if 0 < row < stride:
            height = len(lines) // stride
            lines = np.ascontiguousarray(lines[: height * stride].reshape(height, stride)[:, :row])
        checksum = zlib.crc32(lines.data, checksum)
    return checksum


def _row_bytes(pixel_format: Any, number: int, plane: Any) -> int:
    """Bytes of one line of a plane that bear pixels."""
    in_plane = [component for component in pixel_format.components if component.plane == number]
    if not in_plane:  # the palette of pal8
        return 0
    if all(component.plane == 0 for component in pixel_format.components):
        return -(-int(plane.width) * int(pixel_format.padded_bits_per_pixel) // 8)
    return int(plane.width) * sum((int(component.bits) + 7) // 8 for component in in_plane)
