"""Compare pixels and random draws with the real torchvision, if it is installed."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from mediatensor import transforms
from mediatensor.transforms._decoder_transforms import resolve_transforms

v2: Any = pytest.importorskip("torchvision.transforms.v2", reason="torchvision is not installed")


def cases() -> list[tuple[int, int, int, int]]:
    """(height, width) of the images and of the result, including every kind of rounding tie.

    No image or window is one pixel high or wide, because torch's uint8 kernel, which torchvision calls, is wrong then.
    """
    numbers = random.Random(0)
    drawn = []
    for k in range(60):
        height, width = numbers.randint(16, 60), numbers.randint(16, 60)
        new_height = height if k % 5 == 0 else numbers.randint(2, height)
        new_width = width if k % 7 == 0 else numbers.randint(2, width)
        drawn.append((height, width, new_height, new_width))
    return drawn


def assert_same(ours: Any, theirs: Any, images: torch.Tensor) -> None:
    torch.manual_seed(1)
    expected, next_draw = theirs(images), torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(ours(images), expected)
    assert torch.equal(torch.rand(1), next_draw)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("name", ["Resize", "CenterCrop", "RandomCrop", "RandomResizedCrop"])
def test_sized_transforms(name: str, dtype: torch.dtype) -> None:
    for height, width, new_height, new_width in cases():
        if name == "RandomCrop" and (height == new_height or width == new_width):
            continue  # torchvision draws no number for such an axis, but torchcodec does
        images = torch.randint(0, 256, (2, 3, height, width)).to(dtype)
        size = (new_height, new_width)
        assert_same(getattr(transforms, name)(size), getattr(v2, name)(size), images)


@pytest.mark.parametrize("padding", [2, (1, 2), (1, 2, 3, 4)])
def test_pad(padding: Any) -> None:
    assert_same(transforms.Pad(padding, 7), v2.Pad(padding, 7), torch.randint(0, 256, (2, 3, 5, 6)).to(torch.uint8))


@pytest.mark.parametrize("p", [0.0, 0.2, 0.8, 1.0])
def test_flip(p: float) -> None:
    assert_same(transforms.RandomHorizontalFlip(p), v2.RandomHorizontalFlip(p), torch.rand(2, 3, 5, 6))


def test_normalize_and_to_float() -> None:
    images = torch.randint(0, 256, (2, 3, 5, 6)).to(torch.uint8)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    ours = torch.nn.Sequential(transforms.ToFloat(), transforms.Normalize(mean, std))
    theirs = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)])
    torch.testing.assert_close(ours(images), theirs(images), rtol=1e-6, atol=1e-6)


def test_torchvision_objects_resolve_as_ours() -> None:
    theirs = [v2.Resize((40, 50)), v2.RandomCrop(20), v2.CenterCrop((9, 10)), v2.RandomResizedCrop(7)]
    ours = [
        transforms.Resize((40, 50)),
        transforms.RandomCrop((20, 20)),
        transforms.CenterCrop((9, 10)),
        transforms.RandomResizedCrop((7, 7)),
    ]
    torch.manual_seed(0)
    expected = resolve_transforms(ours, 100, 100)
    torch.manual_seed(0)
    assert resolve_transforms(theirs, 100, 100) == expected
