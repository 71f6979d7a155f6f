"""Convert pictures to RGB on a device with torch: colours, orientation, resize, crop and pad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._engine.common.devices import on_device
from .._engine.common.pictures import (
    CropStep,
    Orientation,
    PadStep,
    PixelStep,
    ResizeStep,
    Surface,
    fill_margins,
    output_size,
)
from .._engine.pyav.pixels import FrameConverter, is_frame, orientation_of
from ..errors import DeviceError
from ._colour import (
    CENTRE,
    Arithmetic,
    Coefficients,
    DeepArithmetic,
    FullArithmetic,
    Kernel,
    Layout,
    LineArithmetic,
    TableArithmetic,
    Taps,
    coefficients_of,
    compute_pair_taps,
    compute_taps,
    layout_of,
    resample,
)

_FULL_RANGE = 2
_ALIGNMENT_BYTES = 16  # alignment of planes in the memory for uploads
_FORMATS_WITH_FAST_PATH = frozenset({"yuv420p", "yuvj420p", "yuv422p", "yuvj422p"})
_HARDWARE_FORMAT = "nv12"
_ALONG_BITS, _ACROSS_BITS = 14, 12  # bits of the weights of libswscale's filters along and across lines
_MAX_CACHED_FILTERS = 64
_MAX_LEVEL = 256 - 1 / 2048  # the limit of an overshooting kernel, with 8 bits and 11 fractional bits
_LUMA_WEIGHTS = (0.299, 0.587, 0.114)  # weights of the Y'CbCr in which libswscale scales RGB
# Position of chroma in 1/256 of a luma sample (right, down), by FFmpeg's number of the chroma location.
_CHROMA_OFFSETS = {1: (0, 128), 2: (128, 128), 3: (0, 0), 4: (128, 0), 5: (0, 256), 6: (128, 256)}


class PlaneConverter:
    """A `PictureConverter` on a device. Each thread needs its own converter, because a converter caches filters.

    This class uses the arithmetic of libswscale on x86 processors (FFmpeg 8.1; other processors may round differently).
    So the result is equal to the result of `FrameConverter` on the CPU, or close to it. A resize is "in the same pass"
    if it is part of the colour conversion (a ``fast`` step). Results in uint8 are bit-identical if there is no resize,
    or if a resize in the same pass makes the picture smaller. After any other resize, they differ by at most 1 level of
    255. Results in float32 differ by at most 0.2 / 255.

    Results differ by more in these three cases, because of errors in libswscale:

    - float32 of 8-bit 4:2:0 or 4:2:2 with an odd width and an even height: libswscale leaves the last column undefined.
      On the CPU, this column is therefore converted from uint8, with an error of up to 3 levels.
    - float32 of 4:2:0 that is resized in the same pass to an odd width and the same height: numbers in libswscale
      overflow.
    - Interlaced 4:2:0 that is resized in the same pass, or has a matrix that libswscale rejects (8 and 10 of H.273):
      the CPU converts the two fields separately, and a device converts the whole picture. If the picture is noise,
      results differ by up to 255 levels.

    Results also differ by more in these two cases:

    - 4:2:0 that is resized in the same pass, if the surface does not state its ``chroma_location``. (In H.264 and HEVC,
      the default location is left.) Real clips differ by 0.1 to 0.6 levels on average. Colour edges differ by up to 40
      levels; at unusual scaling ratios, by up to 80.
    - A picture that is scaled to less than 1/120 of its height or width. libswscale then uses two passes through 4:2:0,
      and a device one pass. If the picture is noise, results differ by up to 30 levels.

    libswscale repeats the chroma of yuv420p, but interpolates the chroma of nv12. Surfaces in nv12 are converted like
    yuv420p, because software decoders return yuv420p for the same packets; PyAV frames in nv12 are converted as in
    libswscale.

    If a PyAV frame has a format that is not supported here, or planes that cannot be accessed, it is converted to RGB
    on the CPU, and the RGB is uploaded.

    ``surface`` returns the planes of a picture, as `DecodeBackend.surface` does. Planes on another device are copied.
    """

    def __init__(
        self,
        surface: Callable[[Any, torch.device], Surface],
        device: torch.device,
        steps: tuple[PixelStep, ...] = (),
        *,
        is_float: bool = False,
    ) -> None:
        self._surface = surface
        self._device = device
        self._steps = steps
        self._dtype = torch.float32 if is_float else torch.uint8
        self._colours = PlaneColours(device, is_float=is_float)
        self._software = FrameConverter(steps, is_float=is_float)

    def interpolate_chroma(self) -> None:
        """From now on, interpolate chroma for each pixel, as libswscale does for planar RGB. Only for float32."""
        self._colours = PlaneColours(self._device, is_float=True, interpolates_chroma=True)

    def orientation_of(self, picture: Any) -> Orientation:
        if is_frame(picture):
            return orientation_of(picture)
        return getattr(picture, "orientation", None) or Orientation()

    def output_size(self, picture: Any, orientation: Orientation) -> tuple[int, int]:
        return output_size(self._steps, *orientation.size(picture.height, picture.width))

    def empty(self, num_rows: int, height: int, width: int) -> Tensor:
        return torch.empty((num_rows, height, width, 3), dtype=self._dtype, device=self._device)

    def here(self) -> Callable[[], AbstractContextManager[object]]:
        if self._device.type != "cuda":
            return nullcontext
        return partial(torch.cuda.stream, torch.cuda.current_stream(self._device))

    def write(self, picture: Any, orientation: Orientation, out: Tensor) -> None:
        surface = self._surface(picture, self._device)
        layout = layout_of(surface.pixel_format)
        # The format of a frame on the GPU is "cuda", whatever its planes are.
        is_software = is_frame(picture) and picture.format.name == surface.pixel_format
        if layout is None or not _has_planes_of(surface, layout):
            if not is_software:
                shapes = [tuple(plane.shape) for plane in surface.planes]
                raise DeviceError(
                    f"Pictures of {surface.width}x{surface.height} in {surface.pixel_format!r} with planes of {shapes} "
                    f"cannot be converted on {self._device}. Only 4:2:0, 4:2:2, 4:4:0 and 4:4:4 of 8 to 16 bits, and "
                    "8-bit gray, can be. Decode other formats with decode_backend='cpu'."
                )
            staging = _staging(out.shape, out.dtype, self._device)
            self._software.write(picture, orientation, staging.numpy())
            out.copy_(on_device(staging, self._device))
            return
        repeats_chroma = surface.pixel_format in _FORMATS_WITH_FAST_PATH or (
            surface.pixel_format == _HARDWARE_FORMAT and not is_software
        )
        with surface.reading():
            self._write_planes(surface, layout, repeats_chroma, orientation, out)

    def _write_planes(
        self, surface: Surface, layout: Layout, repeats_chroma: bool, orientation: Orientation, out: Tensor
    ) -> None:
        height, width = out.shape[:2]
        steps = self._steps
        if (height, width) != self.output_size(surface, orientation):
            steps = (*steps, ResizeStep(height, width))
        size = None
        if steps and isinstance(steps[0], ResizeStep) and steps[0].fast:
            size, steps = orientation.size(steps[0].height, steps[0].width), steps[1:]
        luma, *chroma = _samples(_planes_on(surface.planes, self._device), layout)
        is_full_range = layout.is_full_range or surface.color_range == _FULL_RANGE
        coefficients = coefficients_of(surface.matrix, is_full_range=is_full_range)
        picture = Components(luma, tuple(chroma), layout, coefficients, repeats_chroma, surface.chroma_location)
        pixels = orientation.apply_to_tensor(self._colours.to_rgb(picture, size))
        apply_steps(self._colours, steps, pixels, out)


def apply_steps(colours: PlaneColours, steps: tuple[PixelStep, ...], pixels: Tensor, out: Tensor) -> None:
    for number, step in enumerate(steps, start=1):
        if isinstance(step, CropStep):
            pixels = pixels[step.top : step.top + step.height, step.left : step.left + step.width]
        elif isinstance(step, PadStep):
            canvas = out if number == len(steps) else pixels.new_empty((step.height, step.width, 3))
            fill_margins(step, canvas, *pixels.shape[:2]).copy_(pixels)
            pixels = canvas
        elif pixels.shape[:2] != (step.height, step.width):
            pixels = colours.resized(pixels, step.height, step.width)
    if pixels is not out:
        out.copy_(pixels)


def _has_planes_of(surface: Surface, layout: Layout) -> bool:
    shapes: list[tuple[int, ...]] = [(surface.height, surface.width)]
    if layout.chroma_shift is not None:
        across, down = layout.chroma_shift
        chroma = (-(-surface.height >> down), -(-surface.width >> across))
        shapes += [(*chroma, 2)] if layout.is_interleaved else [chroma, chroma]
    dtype = torch.uint8 if layout.bits == 8 else torch.uint16
    return [tuple(plane.shape) for plane in surface.planes] == shapes and all(
        plane.dtype == dtype for plane in surface.planes
    )


def _samples(planes: tuple[Tensor, ...], layout: Layout) -> tuple[Tensor, ...]:
    """Return luma, Cb and Cr of a picture as int32; only luma if the picture is gray."""
    if layout.is_interleaved:
        planes = (planes[0], planes[1][..., 0], planes[1][..., 1])
    samples = (plane.to(torch.int32) for plane in planes)
    return tuple(plane >> layout.shift if layout.shift else plane for plane in samples)


def _planes_on(planes: tuple[Tensor, ...], device: torch.device) -> tuple[Tensor, ...]:
    """Move planes to a device. Planes in CPU memory are uploaded together, in one copy."""
    if all(plane.device.type == device.type and device.index in (None, plane.device.index) for plane in planes):
        return planes
    if any(plane.device.type != "cpu" for plane in planes):
        return tuple(on_device(plane, device) for plane in planes)
    ends = np.cumsum([-(-plane.nbytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES for plane in planes]).tolist()
    starts = [0, *ends[:-1]]
    staging = _staging((ends[-1],), torch.uint8, device)
    for start, plane in zip(starts, planes, strict=True):
        np.copyto(_placed(staging, start, plane).numpy(), plane.numpy())
    uploaded = on_device(staging, device)
    return tuple(_placed(uploaded, start, plane) for start, plane in zip(starts, planes, strict=True))


def _placed(memory: Tensor, start: int, plane: Tensor) -> Tensor:
    return memory[start : start + plane.nbytes].view(plane.dtype).reshape(plane.shape)


def _staging(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return CPU memory for asynchronous copies to a device, which is pinned for CUDA.

    The caller can drop it during a copy, because torch reuses the memory only when all copies from it are done.
    """
    return torch.empty(shape, dtype=dtype, pin_memory=device.type == "cuda", device="cpu")


# Conversion of planes to RGB, and of RGB to another size, with the arithmetic of libswscale on the CPU


@dataclass(frozen=True, eq=False)
class Components:
    """The samples of a picture, and how to interpret them.

    Attributes:
        luma: The luma samples (H, W), int32 with ``layout.bits`` bits.
        chroma: The samples of Cb and Cr, int32; empty for gray.
        repeats_chroma: Whether libswscale has a fast conversion for this format, which repeats chroma samples instead
            of interpolating them.
        chroma_location: FFmpeg's number of the chroma location; 0 means centre. As in libswscale, it is used only if
            the picture is scaled during the conversion.
    """

    luma: Tensor
    chroma: tuple[Tensor, ...]
    layout: Layout
    coefficients: Coefficients
    repeats_chroma: bool
    chroma_location: int = 0


class PlaneColours:
    """Converts and scales pictures on one device, to RGB in float32 in [0, 1] or in uint8. It caches filters."""

    def __init__(self, device: torch.device, *, is_float: bool, interpolates_chroma: bool = False) -> None:
        self._device = device
        self._interpolates_chroma = interpolates_chroma
        self._is_float = is_float
        self._filters: dict[Taps, tuple[Tensor, Tensor]] = {}

    def to_rgb(self, picture: Components, size: tuple[int, int] | None = None) -> Tensor:
        """Convert luma and chroma to RGB (height, width, 3), scaled bilinearly to ``size`` if it is given."""
        height, width = size or picture.luma.shape
        coefficients, shift = picture.coefficients, picture.layout.chroma_shift
        samples = (picture.luma, *picture.chroma)
        repeats_chroma = picture.repeats_chroma and not self._interpolates_chroma
        if repeats_chroma and height % 2 == 0 and (height, width) == picture.luma.shape:
            fast = TableArithmetic(coefficients, is_float=True) if self._is_float else LineArithmetic(coefficients)
            return _merged(fast, samples, shift)
        # If the RGB width is even, two pixels share chroma, unless the source has separate chroma for each pixel.
        in_pairs = shift != (0, 0) and width % 2 == 0 and not self._interpolates_chroma
        filters = _filters(picture, height, width, in_pairs=in_pairs, kernel="bilinear" if size else "bicubic")
        scaled = [self._scaled(s, picture.layout.bits, *f) for s, f in zip(samples, filters, strict=True)]
        if self._is_float:
            return _merged(DeepArithmetic(coefficients), scaled, (int(in_pairs), 0))
        # Sums of products of 15 and 12 bits. If all filters have two lines, libswscale truncates instead of rounding.
        cuts_off = bool(picture.chroma) and all(across.weights.shape[1] == 2 for _, across in filters)
        if not in_pairs:
            scaled = [(s if cuts_off else s + (1 << 9)) >> 10 for s in scaled]
            return _merged(FullArithmetic(coefficients), scaled, (0, 0))
        luma, *chroma = [(s if cuts_off else s + (1 << 18)) >> 19 for s in scaled]
        chroma = [c.clamp_(0, 255) for c in chroma]  # the tables limit chroma, but not luma
        return _merged(TableArithmetic(coefficients, is_float=False), (luma, *chroma), (1, 0))

    def resized(self, rgb: Tensor, height: int, width: int) -> Tensor:
        """Scale RGB (H, W, 3) bilinearly, with antialiasing.

        The result is the same as in libswscale, which converts RGB to Y'CbCr to scale it. If the width shrinks to half
        or less, and the source width is even, libswscale first averages the chroma of neighbouring pixels.
        """
        source_height, source_width = rgb.shape[:2]
        values = rgb.to(torch.float32)
        values = self._filtered(values, compute_taps(source_height, height, "bilinear", _ACROSS_BITS), 0)
        scaled = self._filtered(values, compute_taps(source_width, width, "bilinear", _ALONG_BITS), 1)
        if width <= source_width // 2 and source_width % 2 == 0:
            in_pairs = self._filtered(values, compute_pair_taps(source_width, width, _ALONG_BITS), 1)
            difference = scaled - in_pairs
            red, green, blue = (weight * difference[..., channel] for channel, weight in enumerate(_LUMA_WEIGHTS))
            scaled = in_pairs + (red + green + blue).unsqueeze(-1)
        if self._is_float:
            return scaled.clamp(0, 1)
        return (scaled + 0.5).clamp_(0, 255).to(torch.uint8)

    def _scaled(self, samples: Tensor, bits: int, along: Taps, across: Taps) -> Tensor:
        """Scale one plane. If the output is float32, return float32 in levels; else int32 in units of 1/2**19 level."""
        if self._is_float:
            values = self._filtered(samples.to(torch.float32) * 2.0 ** (8 - bits), along, 1)
            return self._filtered(values.clamp_(max=_MAX_LEVEL), across, 0)
        values = (self._filtered(samples, along, 1) >> (bits - 1)).clamp_(max=(1 << 15) - 1)
        return self._filtered(values, across, 0)

    def _filtered(self, values: Tensor, taps: Taps, axis: int) -> Tensor:
        """Apply filters along an axis. float32 values keep their scale; int32 values are multiplied by ``taps.one``."""
        is_integer = values.dtype == torch.int32
        if taps.is_identity:
            return values * taps.one if is_integer else values
        if taps not in self._filters:
            if len(self._filters) >= _MAX_CACHED_FILTERS:
                self._filters.clear()
            indices, weights = torch.from_numpy(taps.indices), torch.from_numpy(taps.weights)
            self._filters[taps] = indices.to(self._device), weights.to(self._device)
        indices, weights = self._filters[taps]
        if self._device.type == "cuda":  # the tensors may be dropped while another stream reads them
            for tensor in (indices, weights):
                tensor.record_stream(torch.cuda.current_stream(self._device))
        filtered = resample(values, indices, weights.to(values.dtype), axis)
        return filtered if is_integer else filtered.div_(taps.one)


def _filters(
    picture: Components, height: int, width: int, *, in_pairs: bool, kernel: Kernel
) -> list[tuple[Taps, Taps]]:
    """Return the filters for luma and for each chroma component, each as a pair (along lines, across lines)."""
    luma_height, luma_width = picture.luma.shape
    along = compute_taps(luma_width, width, kernel, _ALONG_BITS)
    filters = [(along, compute_taps(luma_height, height, kernel, _ACROSS_BITS))]
    if not picture.chroma:
        return filters
    chroma_height, chroma_width = picture.chroma[0].shape
    x_centre, y_centre = _chroma_centre(picture) if kernel == "bilinear" else (CENTRE, CENTRE)
    along = compute_taps(chroma_width, width // 2 if in_pairs else width, kernel, _ALONG_BITS, x_centre)
    across = compute_taps(chroma_height, height, kernel, _ACROSS_BITS, y_centre)
    return filters + [(along, across)] * 2


def _chroma_centre(picture: Components) -> tuple[int, int]:
    """Return the point of its area where a chroma sample was measured, as (x, y) in 1/256 of the area's size."""
    x_shift, y_shift = picture.layout.chroma_shift or (0, 0)
    x, y = _CHROMA_OFFSETS.get(picture.chroma_location, (128, 128))
    return (x + 128) >> 1 if x_shift else CENTRE, (y + 128) >> 1 if y_shift else CENTRE


def _merged(arithmetic: Arithmetic, samples: Sequence[Tensor], chroma_shift: tuple[int, int] | None) -> Tensor:
    """Repeat chroma until it has the size of luma, and convert both to RGB."""
    luma, *chroma = samples
    height, width = luma.shape
    luma = arithmetic.luma_term(luma)
    if not chroma:
        return arithmetic.combined(luma, 0).unsqueeze(-1).expand(height, width, 3)
    across, down = chroma_shift or (0, 0)
    components = []
    for term in arithmetic.chroma_terms(*chroma):
        repeated = _twice(term, 0) if down else term
        repeated = _twice(repeated, 1) if across else repeated
        components.append(arithmetic.combined(luma, repeated[:height, :width]))
    return torch.stack(components, dim=-1)


def _twice(samples: Tensor, axis: int) -> Tensor:
    """Repeat every line (axis 0) or every column (axis 1)."""
    return torch.stack((samples, samples), dim=axis + 1).flatten(axis, axis + 1)
