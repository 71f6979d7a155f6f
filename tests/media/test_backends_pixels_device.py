"""Conversion on another device: uploads, synchronisation, errors."""

from __future__ import annotations

from typing import Any

import av
import numpy as np
import pytest
import torch

from backends_pixels import EXACT_LEVELS, OtherBackend, bars, expected, nested, noise
from fake_device import crossings
from mediatensor._engine.common.pictures import PixelStep
from mediatensor.backends import Surface, get_backend
from mediatensor.errors import DeviceError
from mediatensor.transforms import CropStep, PadStep, ResizeStep


def _converter(device: torch.device, steps: tuple[PixelStep, ...] = (), *, is_float: bool = False) -> Any:
    """A converter for pictures that the CPU decodes and the device converts."""
    return get_backend("cpu").converter(device, steps, is_float=is_float)


def _write(converter: Any, picture: Any) -> torch.Tensor:
    orientation = converter.orientation_of(picture)
    out = converter.empty(1, *converter.output_size(picture, orientation))[0]
    converter.write(picture, orientation, out)
    return out


@pytest.mark.parametrize("is_float", [False, True])
def test_results_are_on_the_device(fake_device: torch.device, is_float: bool) -> None:
    for pixel_format in ("yuv420p", "nv12", "yuv420p10le", "gray"):
        frame = bars(pixel_format, 32, 48)
        out = _write(_converter(fake_device, (ResizeStep(20, 30), CropStep(1, 2, 10, 12)), is_float=is_float), frame)
        assert out.device == fake_device
        assert out.shape == (10, 12, 3)
        assert out.dtype == (torch.float32 if is_float else torch.uint8)
        wanted = expected(frame, (ResizeStep(20, 30), CropStep(1, 2, 10, 12)), is_float=is_float)
        assert np.abs(out.cpu().numpy() * (255.0 if is_float else 1.0) - wanted).max() <= 2


@pytest.mark.parametrize(
    ("pixel_format", "bytes_per_pixel"),
    [("yuv420p", 1.5), ("nv12", 1.5), ("yuv420p10le", 3), ("yuv422p", 2), ("gray", 1)],
)
def test_planes_are_uploaded_once_without_waiting(
    fake_device: torch.device, pixel_format: str, bytes_per_pixel: float
) -> None:
    converter = _converter(fake_device, (ResizeStep(20, 30), PadStep(2, 3, 30, 36, (1.0, 2.0, 3.0))))
    frame = noise(pixel_format, 32, 64)
    first = _write(converter, frame)  # filters are uploaded as well
    orientation, out = converter.orientation_of(frame), torch.empty_like(first)
    with crossings() as seen:
        converter.write(frame, orientation, out)
    assert seen.num_waits == 0, seen
    assert not seen.blocking_uploads, seen
    assert len(seen.uploads) == 1, seen
    assert seen.uploaded_bytes == 32 * 64 * bytes_per_pixel, seen
    assert not seen.downloads, seen
    assert torch.equal(out.cpu(), first.cpu())


def test_surfaces_on_the_device_stay_there(fake_device: torch.device) -> None:
    frame = noise("yuv420p", 32, 64)
    surface = nested(frame, "nv12")
    surface.planes = tuple(plane.to(fake_device) for plane in surface.planes)
    converter = OtherBackend().converter(fake_device, (), is_float=False)
    _write(converter, surface)
    with crossings() as seen:
        out = _write(converter, surface)
    assert not seen.uploads, seen
    assert not seen.downloads, seen
    assert np.abs(out.cpu().numpy() - expected(frame)).max() <= EXACT_LEVELS


def test_planes_are_read_within_the_surfaces_context(fake_device: torch.device) -> None:
    events = []

    class Reading:
        def __enter__(self) -> None:
            events.append("enter")

        def __exit__(self, *_: object) -> None:
            events.append("exit")

    surface = nested(noise("yuv420p", 16, 16), "nv12")
    surface.reading = Reading
    _write(OtherBackend().converter(fake_device, (), is_float=False), surface)
    assert events == ["enter", "exit"]


def test_a_converter_evicts_old_filters(fake_device: torch.device) -> None:
    converter = _converter(fake_device)
    frame = noise("gray", 8, 8)

    def count_uploads(side: int) -> int:
        with crossings() as seen:
            converter.write(frame, converter.orientation_of(frame), converter.empty(1, side, side)[0])
        return len(seen.uploads)

    first = count_uploads(9)
    assert count_uploads(9) == 1  # the planes
    for side in range(10, 50):
        count_uploads(side)
    assert count_uploads(49) == 1
    assert count_uploads(9) == first > 1


@pytest.mark.parametrize(
    "pixel_format", ["rgb24", "bgr24", "gbrp", "yuva420p", "yuyv422", "yuv411p", "gray10le", "rgb48le"]
)
@pytest.mark.parametrize("is_float", [False, True])
def test_formats_that_are_not_known_are_converted_on_the_cpu(
    fake_device: torch.device, pixel_format: str, is_float: bool
) -> None:
    frame = bars(pixel_format, 16, 24)
    out = _write(_converter(fake_device, (ResizeStep(9, 10),), is_float=is_float), frame)
    assert out.device == fake_device
    wanted = expected(frame, (ResizeStep(9, 10),), is_float=is_float)
    assert np.allclose(out.cpu().numpy() * (255.0 if is_float else 1.0), wanted, atol=1e-4)


def test_planes_that_pyav_cannot_export_are_converted_on_the_cpu(fake_device: torch.device) -> None:
    odd = noise("nv12", 15, 17)  # the last column of chroma is left out
    assert np.array_equal(_write(_converter(fake_device), odd).cpu().numpy(), expected(odd))
    palette = av.VideoFrame(16, 16, "pal8")
    for plane in palette.planes:
        plane.update(bytes(range(256)) * (plane.buffer_size // 256))
    assert np.array_equal(_write(_converter(fake_device), palette).cpu().numpy(), expected(palette))


@pytest.mark.parametrize(
    ("pixel_format", "shapes", "dtype"),
    [
        ("nv21", [(16, 16), (8, 8, 2)], torch.uint8),
        ("nv12", [(16, 16), (8, 7, 2)], torch.uint8),
        ("nv12", [(16, 16)], torch.uint8),
        ("nv12", [(16, 16), (8, 8, 2)], torch.uint16),
        ("p010le", [(16, 16), (8, 8, 2)], torch.uint8),
        ("yuv420p", [], torch.uint8),
    ],
)
def test_foreign_surfaces_are_refused(pixel_format: str, shapes: list[Any], dtype: torch.dtype) -> None:
    surface = Surface(tuple(torch.zeros(shape, dtype=dtype) for shape in shapes), pixel_format, 16, 16)
    converter = OtherBackend().converter(torch.device("cpu"), (), is_float=False)
    with pytest.raises(DeviceError, match=f"16x16 in '{pixel_format}'"):
        _write(converter, surface)


def test_other_threads_need_no_stream_without_cuda() -> None:
    converter = OtherBackend().converter(torch.device("cpu"), (), is_float=False)
    with converter.here()():
        assert converter.empty(2, 3, 4).shape == (2, 3, 4, 3)
