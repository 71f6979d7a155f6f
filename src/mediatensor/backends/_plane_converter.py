"""Pictures on a device, or on the way to one, as RGB there: colour, orientation, resize, crop with torch alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._common.devices import on_device
from .._common.orientation import Orientation
from .._pyav import FrameConverter, is_frame, orientation_of
from ..errors import DeviceError
from ..transforms._steps import CropStep, PixelStep, ResizeStep, output_size
from ._colour import Layout, coefficients_of, layout_of
from ._interface import Surface
from ._plane_colours import Components, PlaneColours

__all__ = ["PlaneConverter"]

_FULL_RANGE = 2
_ALIGNMENT_BYTES = 16  # of planes in the memory that they are uploaded in
_HARDWARE_FORMAT = "nv12"


class PlaneConverter:
    """Writes pictures as RGB into tensors on a device; one for each thread, because it keeps filters there.

    The result is what `mediatensor._pyav.FrameConverter` makes of the same picture on the CPU, in the arithmetic of
    libswscale on x86 processors (FFmpeg 8.1; on others it may round differently). uint8 is the same to the bit without
    resize, and with one in the same pass that makes pictures smaller; with any other resize it is within 1 level of
    255. float32 is within 0.2 / 255. These are not met, because there the CPU is wrong:

    - float32 of 8-bit 4:2:0 or 4:2:2 with an odd width and an even height: libswscale leaves the last column undefined,
      so that on the CPU it is that of uint8, up to 3 levels off.
    - float32 of 4:2:0 resized in the same pass to an odd width and the same height: libswscale overflows.
    - Interlaced 4:2:0 resized in the same pass, or with a matrix that libswscale refuses (8 and 10 of H.273): on the
      CPU the fields are then converted one by one, here the picture is taken as a whole. Up to 255 levels in noise.

    Nor are these:

    - 4:2:0 resized in the same pass, if the surface leaves out its ``chroma_location`` (pictures of H.264 and HEVC have
      their chroma on the left, if they do not say otherwise): in real clips 0.1 to 0.6 levels on average, and up to
      40, or 80 at odd ratios, at edges of colour.
    - A picture made more than 120 times lower or narrower: libswscale then takes two passes by way of 4:2:0, here it is
      one. Up to 30 levels in noise.

    Surfaces in nv12 are converted like yuv420p, because that is what a software decoder makes of the same packets;
    libswscale would interpolate the chroma of the one and repeat that of the other. A PyAV frame in nv12 in the memory
    of the CPU is converted as libswscale converts it.

    PyAV frames in formats that are not known here, or whose planes cannot be had, are converted on the CPU, and RGB is
    uploaded.

    Args:
        surface: Makes planes of a picture on a device; see `DecodeBackend.surface`.
        device: Where the tensors are. Planes that are elsewhere are uploaded.
        steps: What to do with the upright RGB picture, in order.
        is_float: float32 in [0, 1] instead of uint8.
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
        self._is_float = is_float
        self._colours = PlaneColours(device, is_float=is_float)
        self._software = FrameConverter(steps, is_float=is_float)

    @property
    def dtype(self) -> torch.dtype:
        """Of the tensors that it fills."""
        return torch.float32 if self._is_float else torch.uint8

    def orientation_of(self, picture: Any) -> Orientation:
        """How the picture is to be turned."""
        if is_frame(picture):
            return orientation_of(picture)
        return getattr(picture, "orientation", None) or Orientation()

    def output_size(self, picture: Any, orientation: Orientation) -> tuple[int, int]:
        """(height, width) after turning and all steps."""
        return output_size(self._steps, *orientation.size(picture.height, picture.width))

    def empty(self, num_rows: int, height: int, width: int) -> Tensor:
        """A tensor (num_rows, height, width, 3) of undefined values on the device."""
        return torch.empty((num_rows, height, width, 3), dtype=self.dtype, device=self._device)

    def here(self) -> Callable[[], AbstractContextManager[object]]:
        """Makes contexts in which another thread converts on the stream that is current now."""
        if self._device.type != "cuda":
            return nullcontext
        return partial(torch.cuda.stream, torch.cuda.current_stream(self._device))

    def write(self, picture: Any, orientation: Orientation, out: Tensor) -> None:
        """Convert a picture into ``out``, of shape (height, width, 3); of another size, it is scaled to fit.

        Raises:
            DeviceError: if the planes of a surface are not those of a format that is known here.
        """
        surface = self._surface(picture, self._device)
        layout = layout_of(surface.pixel_format)
        # A frame on the GPU has a format of its own, which says nothing of the planes.
        is_software = is_frame(picture) and picture.format.name == surface.pixel_format
        if layout is None or not _has_planes_of(surface, layout):
            if not is_software:
                raise DeviceError(_unknown(surface, self._device))
            self._write_from_cpu(picture, orientation, out)
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
        for step in steps:
            if isinstance(step, CropStep):
                pixels = pixels[step.top : step.top + step.height, step.left : step.left + step.width]
            elif pixels.shape[:2] != (step.height, step.width):
                pixels = self._colours.resized(pixels, step.height, step.width)
        out.copy_(pixels)

    def _write_from_cpu(self, frame: Any, orientation: Orientation, out: Tensor) -> None:
        """Convert a PyAV frame on the CPU, and upload RGB."""
        staging = _staging(out.shape, out.dtype, self._device)
        self._software.write(frame, orientation, staging.numpy())
        out.copy_(on_device(staging, self._device))


_FORMATS_WITH_FAST_PATH = frozenset({"yuv420p", "yuvj420p", "yuv422p", "yuvj422p"})


def _unknown(surface: Surface, device: torch.device) -> str:
    shapes = [tuple(plane.shape) for plane in surface.planes]
    return (
        f"Pictures of {surface.width}x{surface.height} in {surface.pixel_format!r} with planes of {shapes} cannot be "
        f"converted on {device}; 8 to 16 bits of 4:2:0, 4:2:2, 4:4:0 and 4:4:4, and 8-bit gray can. Decode them with "
        "decode_backend='cpu'."
    )


def _has_planes_of(surface: Surface, layout: Layout) -> bool:
    """Whether the planes have the shapes and the type that the format says."""
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
    """Luma and, unless it is gray, Cb and Cr as int32."""
    if layout.is_interleaved:
        planes = (planes[0], planes[1][..., 0], planes[1][..., 1])
    samples = (plane.to(torch.int32) for plane in planes)
    return tuple(plane >> layout.shift if layout.shift else plane for plane in samples)


def _planes_on(planes: tuple[Tensor, ...], device: torch.device) -> tuple[Tensor, ...]:
    """The planes on a device; those in the memory of the CPU go there in one copy."""
    if all(_is_on(plane, device) for plane in planes):
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


def _is_on(plane: Tensor, device: torch.device) -> bool:
    return plane.device.type == device.type and device.index in (None, plane.device.index)


def _placed(memory: Tensor, start: int, plane: Tensor) -> Tensor:
    """The part of a uint8 tensor that has the plane's size, as a tensor of its shape and type."""
    return memory[start : start + plane.nbytes].view(plane.dtype).reshape(plane.shape)


def _staging(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Memory of the CPU that copies to the device without waiting.

    Pinned memory is given back while it may still be read: torch hands it out again only once the copies that it knows
    of are done.
    """
    return torch.empty(shape, dtype=dtype, pin_memory=device.type == "cuda", device="cpu")
