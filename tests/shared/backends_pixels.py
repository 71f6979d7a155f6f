"""Pictures for the tests of conversion on a device, and what swscale makes of them on the CPU."""

from __future__ import annotations

import platform
from fractions import Fraction
from typing import Any

import av
import numpy as np
import torch
from numpy.typing import NDArray

from mediatensor._engine.common.pictures import PixelStep
from mediatensor._engine.pyav.pixels import FrameConverter, surface_of
from mediatensor.backends import DecodeBackend, PictureDecoder, StreamParameters, Surface

__all__ = [
    "EXACT_LEVELS",
    "OtherBackend",
    "bars",
    "convert",
    "differences",
    "expected",
    "gradient",
    "interlaced",
    "nested",
    "noise",
]

# swscale's own results hold for one family of processors; between families they may differ by this much.
EXACT_LEVELS = 0 if platform.machine().lower() in ("x86_64", "amd64") else 2
CPU = torch.device("cpu")


def noise(pixel_format: str, height: int, width: int, *, matrix: int = 1, color_range: int = 1) -> Any:
    """A frame of independent samples over the whole range of their type, allowed or not."""
    frame = av.VideoFrame(width, height, pixel_format)
    random = np.random.default_rng([height, width, len(pixel_format)])
    bits = max(component.bits for component in frame.format.components)
    for plane in frame.planes:
        samples = random.integers(0, 1 << bits, plane.buffer_size // (1 if bits == 8 else 2))
        shifted = samples << 6 if pixel_format == "p010le" else samples
        plane.update(shifted.astype(np.uint8 if bits == 8 else "<u2").tobytes())
    return _tagged(frame, matrix, color_range)


def bars(pixel_format: str, height: int, width: int, *, matrix: int = 1, color_range: int = 1) -> Any:
    """Hard edges between saturated colours, in both directions, three pixels apart."""
    colours = np.array(
        [(255, 0, 0), (0, 255, 255), (0, 0, 255), (255, 255, 0), (0, 255, 0), (255, 0, 255), (0, 0, 0), (255, 255, 255)]
    )
    rows, columns = np.arange(height)[:, None] // 3, np.arange(width)[None] // 3
    return _from_rgb(colours[(5 * rows + 3 * columns) % 8], pixel_format, matrix, color_range)


def gradient(pixel_format: str, height: int, width: int, *, matrix: int = 1, color_range: int = 1) -> Any:
    """Red from left to right, green from top to bottom, blue against both."""
    rows, columns = np.linspace(0, 255, height)[:, None], np.linspace(0, 255, width)[None]
    rgb = np.stack(np.broadcast_arrays(columns, rows, 255 - (rows + columns) / 2), axis=-1)
    return _from_rgb(rgb, pixel_format, matrix, color_range)


def _from_rgb(rgb: NDArray[Any], pixel_format: str, matrix: int, color_range: int) -> Any:
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(rgb.astype(np.uint8)), format="rgb24")
    return _tagged(frame.reformat(format=pixel_format), matrix, color_range)


def _tagged(frame: Any, matrix: int, color_range: int) -> Any:
    frame.colorspace, frame.color_range = matrix, color_range
    return frame


def interlaced(frame: Any) -> Any:
    """The same frame, flagged as two fields."""
    graph = av.filter.Graph()
    time_base = Fraction(1, 1000)
    source = graph.add_buffer(width=frame.width, height=frame.height, format=frame.format.name, time_base=time_base)
    fields, sink = graph.add("setfield", "tff"), graph.add("buffersink")
    source.link_to(fields)
    fields.link_to(sink)
    graph.configure()
    matrix, color_range = frame.colorspace, frame.color_range
    graph.push(frame)
    flagged = graph.pull()
    assert flagged.interlaced_frame
    return _tagged(flagged, matrix, color_range)


def nested(frame: Any, pixel_format: str, shift: int = 0) -> Surface:
    """A planar 4:2:0 frame as a hardware decoder would give it: chroma interleaved, samples in the high bits."""
    surface = surface_of(frame)
    luma, cb, cr = (torch.from_numpy(plane.numpy() << shift) for plane in surface.planes)
    surface.planes = (luma, torch.stack((cb, cr), dim=-1))
    surface.pixel_format = pixel_format
    return surface


def expected(frame: Any, steps: tuple[PixelStep, ...] = (), *, is_float: bool = False) -> NDArray[Any]:
    """What swscale gives, in levels of 255."""
    return _written(FrameConverter(steps, is_float=is_float), frame, 255 if is_float else 1)


def _written(converter: Any, picture: Any, scale: int) -> NDArray[Any]:
    orientation = converter.orientation_of(picture)
    out = converter.empty(1, *converter.output_size(picture, orientation))[0]
    converter.write(picture, orientation, out)
    return np.asarray(out, np.float64) * scale


class OtherBackend(DecodeBackend):
    """A third-party backend with surfaces or PyAV's frames: torch converts them on any device."""

    name = "other"

    def why_not(self, stream: StreamParameters, device: torch.device) -> str | None:
        raise NotImplementedError

    def open(self, stream: StreamParameters, device: torch.device) -> PictureDecoder:
        raise NotImplementedError

    def surface(self, picture: Any, device: torch.device) -> Surface:
        return picture if isinstance(picture, Surface) else surface_of(picture)


def convert(picture: Any, steps: tuple[PixelStep, ...] = (), *, is_float: bool = False) -> NDArray[Any]:
    """What torch gives of a frame or a surface, in levels of 255."""
    return _written(OtherBackend().converter(CPU, steps, is_float=is_float), picture, 255 if is_float else 1)


def differences(frame: Any, steps: tuple[PixelStep, ...] = (), *, is_float: bool = False) -> NDArray[Any]:
    """Levels between the two, (H, W, 3)."""
    return np.abs(convert(frame, steps, is_float=is_float) - expected(frame, steps, is_float=is_float))
