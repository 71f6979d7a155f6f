"""The pixels of the tensor transforms, against Pillow, numpy and slow references."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from mediatensor.errors import InvalidArgumentError
from mediatensor.transforms import functional

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
DTYPES = [torch.uint8, torch.uint16, *FLOATS]


def random_images(*shape: int, dtype: torch.dtype = torch.uint8, seed: int = 0) -> torch.Tensor:
    values = np.random.default_rng(seed).random(shape)
    if dtype.is_floating_point:
        return torch.from_numpy(values).to(dtype)
    return torch.from_numpy((values * (torch.iinfo(dtype).max + 1)).astype(np.int64)).to(dtype)


def resample(lines: NDArray[Any], length: int) -> NDArray[Any]:
    """Scale the last axis bilinearly, one output at a time, with a triangle as wide as the reduction."""
    old = lines.shape[-1]
    scale = old / length
    support = max(scale, 1.0)
    result = np.empty((*lines.shape[:-1], length))
    for i in range(length):
        center = (i + 0.5) * scale
        weights = np.array([max(0.0, 1 - abs((k + 0.5 - center) / support)) for k in range(old)])
        result[..., i] = lines @ (weights / weights.sum())
    return result


def slow_resize(images: torch.Tensor, height: int, width: int) -> NDArray[Any]:
    wide = resample(images.to(torch.float64).numpy(), width)
    return resample(wide.swapaxes(-1, -2), height).swapaxes(-1, -2)


# The same pixels in different memory layouts. torch's kernels had errors for some of them.
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda images: images,
    "channels_last": lambda images: images.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2),
    "transposed": lambda images: images.mT.contiguous().mT,
    "transposed_channels_last": lambda images: images.permute(0, 3, 2, 1).contiguous().permute(0, 3, 2, 1),
    "window": lambda images: torch.nn.functional.pad(images, (1, 2, 1, 2))[..., 1:-2, 1:-2],
    "every_other": lambda images: images.repeat_interleave(2, -1)[..., ::2],
}


@given(
    height=st.integers(1, 24),
    width=st.integers(1, 24),
    new_height=st.integers(1, 24),
    new_width=st.integers(1, 24),
    channels=st.integers(1, 4),
    layout=st.sampled_from(sorted(LAYOUTS)),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=300, deadline=None)
def test_resize_of_uint8_is_within_one_level_of_the_slow_reference(
    height: int, width: int, new_height: int, new_width: int, channels: int, layout: str, seed: int
) -> None:
    images = LAYOUTS[layout](random_images(2, channels, height, width, seed=seed))
    resized = functional.resize(images, (new_height, new_width))
    assert resized.dtype == torch.uint8
    assert resized.shape == (2, channels, new_height, new_width)
    # Half a level for each of the two passes that round.
    assert np.abs(resized.numpy() - slow_resize(images, new_height, new_width)).max() <= 1.02


@pytest.mark.parametrize("size", [(24, 40), (48, 64), (100, 90), (10, 128), (37, 1)])
@pytest.mark.parametrize("channels_last", [False, True])
def test_resize_of_uint8_is_within_one_level_of_pillow(size: tuple[int, int], channels_last: bool) -> None:
    images = random_images(3, 3, 48, 64)
    if channels_last:
        images = images.contiguous(memory_format=torch.channels_last)
    resized = functional.resize(images, size)
    for image, result in zip(images, resized, strict=True):
        reference = Image.fromarray(image.permute(1, 2, 0).contiguous().numpy()).resize(size[::-1], Image.BILINEAR)
        difference = result.permute(1, 2, 0).to(torch.int16).numpy() - np.asarray(reference, np.int16)
        assert np.abs(difference).max() <= 1


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [
        (torch.float64, 1e-6),  # torch computes the weights in single precision
        (torch.float32, 1e-5),
        (torch.float16, 5e-4),  # half an ulp at 1
        (torch.bfloat16, 4e-3),
        (torch.uint16, 0.6),  # half a level, and single precision
    ],
)
@pytest.mark.parametrize("size", [(8, 11), (31, 40), (17, 1)])
def test_resize_of_other_dtypes_against_the_slow_reference(
    dtype: torch.dtype, tolerance: float, size: tuple[int, int]
) -> None:
    images = random_images(2, 3, 17, 23, dtype=dtype)
    resized = functional.resize(images, size)
    assert resized.dtype == dtype
    assert np.abs(resized.to(torch.float64).numpy() - slow_resize(images, *size)).max() <= tolerance


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16])
def test_resize_rounds_and_does_not_wrap(dtype: torch.dtype) -> None:
    highest = torch.iinfo(dtype).max
    checkerboard = torch.tensor([[0, highest], [highest, 0]]).repeat(4, 4).to(dtype)[None]
    resized = functional.resize(checkerboard, (31, 29)).to(torch.float64)
    reference = slow_resize(checkerboard, 31, 29)
    assert np.abs(resized.numpy() - reference).max() <= 1.02, "a value that wrapped would be a whole range away"
    white = torch.full((3, 9, 9), highest).to(dtype)
    assert (functional.resize(white, (20, 5)).to(torch.int64) == highest).all()


def test_resize_to_the_same_size_returns_its_argument() -> None:
    images = random_images(3, 4, 6)
    assert functional.resize(images, (4, 6)) is images


@pytest.mark.parametrize("dtype", DTYPES)
def test_crop_is_the_window(dtype: torch.dtype) -> None:
    images = random_images(2, 3, 9, 12, dtype=dtype)
    cropped = functional.crop(images, 2, 5, 4, 6)
    for row in range(4):
        for column in range(6):
            assert torch.equal(cropped[..., row, column], images[..., 2 + row, 5 + column])


@pytest.mark.parametrize("window", [(0, 0, 10, 5), (7, 0, 3, 5), (0, 8, 5, 5), (-1, 0, 2, 2), (0, 0, 0, 1)])
def test_crop_outside_the_images_is_an_error(window: tuple[int, int, int, int]) -> None:
    with pytest.raises(InvalidArgumentError, match="is not inside"):
        functional.crop(random_images(3, 9, 12), *window)


def test_center_crop_by_hand() -> None:
    image = torch.arange(35, dtype=torch.uint8).view(1, 5, 7)
    assert functional.center_crop(image, (2, 3)).tolist() == [[[16, 17, 18], [23, 24, 25]]]
    with pytest.raises(InvalidArgumentError, match="smaller than the crop size"):
        functional.center_crop(image, (6, 3))


def test_resized_crop_is_a_crop_then_a_resize() -> None:
    images = random_images(3, 20, 30)
    expected = functional.resize(images[:, 3:13, 5:25], (7, 9))
    assert torch.equal(functional.resized_crop(images, 3, 5, 10, 20, (7, 9)), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("padding", "sides"),
    [
        (2, (2, 2, 2, 2)),
        (np.int64(1), (1, 1, 1, 1)),
        ((1, 2), (1, 2, 1, 2)),
        ([1, 2, 3, 4], (1, 2, 3, 4)),
        (0, (0, 0, 0, 0)),
    ],
    ids=str,
)
def test_pad_equals_numpy(dtype: torch.dtype, padding: Any, sides: tuple[int, int, int, int]) -> None:
    images = random_images(2, 3, 4, 5, dtype=dtype)
    left, top, right, bottom = sides
    reference = np.pad(
        images.to(torch.float64).numpy(), ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=1
    )
    padded = functional.pad(images, padding, fill=1)
    assert padded.dtype == dtype
    assert np.array_equal(padded.to(torch.float64).numpy(), reference)


def test_pad_fills_each_channel_with_its_own_value() -> None:
    padded = functional.pad(torch.zeros(2, 3, 1, 1, dtype=torch.uint8), (1, 0), fill=(10, 20, 255))
    assert padded.tolist() == [[[[10, 0, 10]], [[20, 0, 20]], [[255, 0, 255]]]] * 2
    exact = functional.pad(torch.zeros(1, 1, 1, dtype=torch.float64), 1, fill=0.1)
    assert exact[0, 0, 0].item() == 0.1


@pytest.mark.parametrize("dtype", DTYPES)
def test_flip_mirrors_columns(dtype: torch.dtype) -> None:
    images = random_images(2, 3, 4, 5, dtype=dtype)
    flipped = functional.horizontal_flip(images)
    assert flipped.dtype == dtype
    assert np.array_equal(flipped.to(torch.float64).numpy(), images.to(torch.float64).numpy()[..., ::-1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normalize_equals_the_formula(dtype: torch.dtype) -> None:
    images = random_images(2, 3, 4, 5, dtype=dtype)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    normalized = functional.normalize(images, mean, std)
    assert normalized.dtype == dtype
    for channel in range(3):
        expected = (images[:, channel].numpy() - mean[channel]) / std[channel]
        np.testing.assert_allclose(normalized[:, channel].numpy(), expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(
    ("mean", "std"),
    [
        ((0.5, 0.5), (0.5, 0.5, 0.5)),
        ((0.5,) * 3, (0.5, 0.0, 0.5)),
        ((0.5,) * 3, (0.5, -1.0, 0.5)),
        ((0.5, float("inf"), 0.5), (0.5,) * 3),
        ((), ()),
        (0.5, 0.5),
        ("abc", (0.5,) * 3),
        (None, None),
    ],
    ids=repr,
)
def test_normalize_checks_its_statistics(mean: Any, std: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="mean and std"):
        functional.normalize(torch.zeros(3, 4, 5), mean, std)


def test_normalize_checks_the_images() -> None:
    with pytest.raises(InvalidArgumentError, match=r"float images \(got torch.uint8\)"):
        functional.normalize(random_images(3, 4, 5), (0.5,) * 3, (0.5,) * 3)
    with pytest.raises(InvalidArgumentError, match="3 means but the images have 1 channels"):
        functional.normalize(torch.zeros(1, 4, 5), (0.5,) * 3, (0.5,) * 3)


@pytest.mark.parametrize(("dtype", "highest"), [(torch.uint8, 255), (torch.uint16, 65535)])
@pytest.mark.parametrize("out", FLOATS)
def test_to_float_maps_the_full_range_to_one(dtype: torch.dtype, highest: int, out: torch.dtype) -> None:
    levels = torch.arange(256) * (highest // 255)
    result = functional.to_float(levels.to(dtype).view(1, 16, 16), out)
    assert result.dtype == out
    # The quotient correctly rounded to float32 (float64 for float64), then to the result's dtype.
    exact = levels.numpy().astype(np.float64 if out == torch.float64 else np.float32) / highest
    assert torch.equal(result.flatten(), torch.from_numpy(exact).to(out))
    assert result.flatten()[-1] == 1


def test_to_float_leaves_float_values_alone() -> None:
    images = torch.tensor([[[-1.0, 0.5, 300.0]]])
    assert torch.equal(functional.to_float(images, torch.float64), images.to(torch.float64))
    assert functional.to_float(images) is images


def test_gradients_flow() -> None:
    images = torch.rand(2, 3, 8, 8, requires_grad=True)
    cropped = functional.center_crop(functional.pad(functional.horizontal_flip(images), 1), (8, 8))
    result = functional.normalize(functional.resize(cropped, (4, 4)), (0.5,) * 3, (0.25,) * 3)
    result.sum().backward()
    # Every output is a weighted mean of inputs, divided by 0.25: the weights of all 96 outputs sum to 4 each.
    assert images.grad.sum().item() == pytest.approx(2 * 3 * 4 * 4 * 4, rel=0.05)
