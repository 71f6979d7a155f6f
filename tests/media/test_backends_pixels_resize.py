"""Resizing, cropping and rotation with torch equal the CPU's converter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

import media
from backends_pixels import (
    EXACT_LEVELS,
    OtherBackend,
    bars,
    convert,
    differences,
    expected,
    gradient,
    interlaced,
    noise,
)
from mediatensor._engine.pyav.pixels import FrameConverter, surface_of

# Private: no image shows whether the weights of a filter sum to one.
from mediatensor.backends._colour import compute_taps
from mediatensor.transforms import CropStep, PadStep, ResizeStep

RESIZE_LEVELS = max(1, EXACT_LEVELS)
FORMATS = ["yuv420p", "nv12", "yuv444p", "yuv420p10le", "gray"]
TARGETS = [(16, 24), (16, 23), (40, 60), (32, 25), (7, 11), (64, 13), (31, 49), (2, 2)]


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize(("height", "width"), [(32, 48), (31, 47)])
def test_resize(pixel_format: str, height: int, width: int) -> None:
    for target in TARGETS:
        for paint in (noise, bars, gradient):
            found = differences(paint(pixel_format, height, width), (ResizeStep(*target),))
            assert found.max() <= RESIZE_LEVELS, (target, paint.__name__)
            assert found.mean() < 0.1 + EXACT_LEVELS
        found = differences(noise(pixel_format, height, width), (ResizeStep(*target),), is_float=True)
        assert found.max() < 0.2, target


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize(("height", "width"), [(32, 48), (31, 47)])
def test_resize_in_one_pass(pixel_format: str, height: int, width: int) -> None:
    for target in TARGETS:
        for paint in (noise, bars):
            found = differences(paint(pixel_format, height, width), (ResizeStep(*target, fast=True),))
            shrinks = target[0] < height and target[1] < width and pixel_format != "gray"
            assert found.max() <= (EXACT_LEVELS if shrinks else RESIZE_LEVELS), (target, paint.__name__)
        if target[0] == height and target[1] % 2 and pixel_format not in ("yuv444p", "gray"):
            continue  # swscale overflows: see below
        found = differences(noise(pixel_format, height, width), (ResizeStep(*target, fast=True),), is_float=True)
        assert found.max() < 0.02, target


def test_one_pass_of_float_to_an_odd_width_does_not_overflow() -> None:
    steps = (ResizeStep(32, 61, fast=True),)
    for pixel_format in ("yuv420p", "nv12"):
        frame = noise(pixel_format, 32, 48)
        by_uint8 = np.abs(convert(frame, steps, is_float=True) * 257 / 256 - expected(frame, steps))
        assert by_uint8.mean() < 1
        assert by_uint8.max() < 4


def test_chroma_location_counts_in_one_pass(clip: Path) -> None:
    """The location of chroma: H.264 decoders report left, but PyAV's frames do not contain it."""
    steps = (ResizeStep(50, 70, fast=True),)
    with av.open(clip) as container:
        frame = next(container.decode(video=0))
    surface = surface_of(frame)
    centred = np.abs(convert(surface, steps) - expected(frame, steps))
    surface.chroma_location = 1
    assert np.abs(convert(surface, steps) - expected(frame, steps)).max() <= EXACT_LEVELS
    assert 0 < centred.mean() < 2
    assert centred.max() > EXACT_LEVELS
    # It has no effect without scaling in the same pass.
    assert np.abs(convert(surface) - expected(frame)).max() <= EXACT_LEVELS


def test_only_swscale_scales_fields_separately_in_one_pass() -> None:
    steps = (ResizeStep(16, 24, fast=True),)
    assert differences(interlaced(gradient("yuv420p", 64, 48)), steps).max() < 8
    frame = interlaced(noise("yuv420p", 64, 48))
    assert differences(frame, steps).mean() > 10
    # A resize in a separate pass does not separate fields on the CPU either.
    assert differences(frame, (ResizeStep(16, 24),)).max() <= RESIZE_LEVELS


def test_shrinking_a_lot_takes_swscale_two_passes() -> None:
    assert differences(noise("yuv444p", 16, 960), (ResizeStep(8, 8),)).max() <= RESIZE_LEVELS
    assert differences(gradient("yuv444p", 16, 960), (ResizeStep(8, 6),)).max() < 8
    found = differences(noise("yuv444p", 16, 960), (ResizeStep(8, 6),))
    assert 2 < found.max() < 40


@pytest.mark.parametrize("is_float", [False, True])
def test_steps_in_order(is_float: bool) -> None:
    sequences: list[tuple[ResizeStep | CropStep | PadStep, ...]] = [
        (CropStep(3, 5, 20, 31),),
        (CropStep(3, 5, 20, 31), ResizeStep(9, 12)),
        (ResizeStep(24, 40), CropStep(1, 2, 20, 30)),
        (ResizeStep(20, 30, fast=True), CropStep(1, 2, 15, 20), ResizeStep(30, 40)),
        (ResizeStep(32, 48), ResizeStep(16, 24), ResizeStep(11, 9)),
        (ResizeStep(20, 30), PadStep(3, 5, 40, 50, (0.0, 1.0, 1.0))),
        (ResizeStep(20, 30, fast=True), PadStep(0, 5, 20, 50, (1.0,))),
        (PadStep(1, 2, 40, 60, (1.0, 0.0, 1.0)), CropStep(0, 1, 30, 50), ResizeStep(20, 40)),
    ]
    for steps in sequences:
        # Each further resize adds to the error of the previous one.
        assert differences(bars("yuv420p", 32, 48), steps, is_float=is_float).max() <= 2, steps


@pytest.mark.parametrize("name", ["rotated_90", "rotated_270_flipped", "flipped_vertically", "rotated_90_odd"])
def test_turned_pictures(name: str, tmp_path: Path) -> None:
    with av.open(media.make(name, tmp_path)) as container:
        frame = next(container.decode(video=0))
    assert differences(frame).max() <= EXACT_LEVELS
    for steps in ((ResizeStep(41, 30),), (CropStep(2, 3, 20, 30), ResizeStep(10, 12))):
        assert differences(frame, steps).max() <= RESIZE_LEVELS
    assert differences(frame, (ResizeStep(20, 30, fast=True),)).mean() < 2


def test_a_picture_of_another_size_is_scaled_to_fit() -> None:
    frame = bars("nv12", 32, 48)
    cpu, torch_ = FrameConverter(), OtherBackend().converter(torch.device("cpu"), (), is_float=False)
    by_cpu, by_torch = cpu.empty(1, 20, 30)[0], torch_.empty(1, 20, 30)[0]
    cpu.write(frame, cpu.orientation_of(frame), by_cpu)
    torch_.write(frame, torch_.orientation_of(frame), by_torch)
    assert np.abs(by_cpu.astype(int) - by_torch.numpy().astype(int)).max() <= RESIZE_LEVELS


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 5), (2, 1), (2, 2), (3, 4), (5, 3)])
@pytest.mark.parametrize("pixel_format", ["yuv420p", "nv12", "yuv444p10le"])
def test_tiny_pictures(pixel_format: str, height: int, width: int) -> None:
    frame = noise(pixel_format, height, width)
    steps: tuple[Any, ...]
    for steps in ((), (ResizeStep(7, 9),), (ResizeStep(1, 1),), (ResizeStep(7, 9, fast=True),)):
        assert differences(frame, steps).max() <= RESIZE_LEVELS, steps


@pytest.mark.parametrize(
    ("source", "target"), [(1, 1), (1, 9), (9, 1), (640, 224), (100, 1000), (1000, 3), (16384, 1), (37, 38)]
)
@pytest.mark.parametrize("kernel", ["bilinear", "bicubic"])
def test_taps_stay_within_the_line_and_sum_to_one(source: int, target: int, kernel: Any) -> None:
    taps = compute_taps(source, target, kernel, 14)
    assert taps.indices.shape == taps.weights.shape
    assert len(taps.indices) == target
    assert taps.indices.min() >= 0
    assert taps.indices.max() < source
    assert (taps.weights.sum(axis=1) == 1 << 14).all()
    # The first moment of the weights is the position of the target's centre.
    inner = slice(target // 4, -(target // 4)) if min(source, target) > 8 else slice(0, 0)
    places = (taps.indices * taps.weights).sum(axis=1)[inner] / (1 << 14)
    centres = ((np.arange(target) + 0.5) * source / target - 0.5)[inner]
    assert np.abs(places - centres).max(initial=0) < 0.06 * max(1, source / target)
