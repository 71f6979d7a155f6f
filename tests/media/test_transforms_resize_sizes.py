"""Sizes that keep the aspect ratio: `Resize` against formulas written from the published descriptions.

Published rules: torchvision's ``Resize`` (https://docs.pytorch.org/vision/main, ``size`` as an int, ``max_size``) and
``smart_resize`` of Qwen-VL (https://github.com/QwenLM/Qwen2.5-VL, ``qwen_vl_utils/vision_process.py``).
"""

from __future__ import annotations

import itertools
import math
import pickle
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch

from media_writing import ClipSpec, write_clip
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import InvalidArgumentError
from mediatensor.transforms import CenterCrop, Resize, ResizeStep

_EDGES = (1, 2, 3, 9, 13, 14, 15, 27, 28, 29, 42, 100, 239, 240, 360, 640, 1079, 1080, 1920, 4096)


def image_sizes() -> list[tuple[int, int]]:
    """(height, width): all pairs of edge cases, random sizes, and very long images."""
    numbers = random.Random(0)
    drawn = [(numbers.randint(1, 3000), numbers.randint(1, 3000)) for _ in range(600)]
    return [*itertools.product(_EDGES, _EDGES), *drawn, (1, 16000), (16000, 1), (20, 9000), (9000, 31)]


def resized(height: int, width: int, **arguments: int) -> tuple[int, int]:
    (step,) = Resize(**arguments).resolve(height, width)  # type: ignore[arg-type]
    assert isinstance(step, ResizeStep)
    return step.height, step.width


def rounded_down(number: Fraction) -> int:
    return max(1, math.floor(number))


def sides_as_in_torchvision(height: int, width: int, short: int | None, long: int | None) -> tuple[int, int]:
    """Scale the short side to ``short`` and round the other down, then limit the long side; in exact fractions."""
    if short is None:
        assert long is not None
        ratio = Fraction(min(height, width), max(height, width))
        of_short, of_long = rounded_down(long * ratio), long
    else:
        of_short, of_long = short, rounded_down(short * Fraction(max(height, width), min(height, width)))
        if long is not None and of_long > long:
            of_short, of_long = rounded_down(Fraction(long * of_short, of_long)), long
    return (of_short, of_long) if height < width else (of_long, of_short)


@pytest.mark.parametrize(
    ("short", "long"), [(256, None), (1, None), (224, 225), (7, 100), (480, 854), (None, 512), (None, 1), (None, 333)]
)
def test_sides_match_torchvision(short: int | None, long: int | None) -> None:
    arguments = {name: value for name, value in (("short_side", short), ("long_side", long)) if value is not None}
    for height, width in image_sizes():
        expected = sides_as_in_torchvision(height, width, short, long)
        assert resized(height, width, **arguments) == expected, (height, width)


def test_sides_match_an_installed_torchvision() -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2", reason="torchvision is not installed")
    for height, width in [(36, 64), (64, 36), (33, 33), (35, 90), (101, 17)]:
        images = torch.zeros(1, height, width)
        assert resized(height, width, short_side=24) == tuple(v2.Resize(24)(images).shape[1:])
        assert resized(height, width, long_side=50) == tuple(v2.Resize(None, max_size=50)(images).shape[1:])
        expected = tuple(v2.Resize(24, max_size=30)(images).shape[1:])
        assert resized(height, width, short_side=24, long_side=30) == expected


def pixels_as_in_qwen(height: int, width: int, unit: int, least: int, most: int) -> tuple[int, int]:
    """Round both sides to ``unit``; outside the limits, scale the image to the limit and round inwards.

    The published function divides by sqrt(pixels / most), or multiplies by sqrt(least / pixels).
    """
    nearest = [max(1, round(side / unit)) * unit for side in (height, width)]
    if math.prod(nearest) > most:
        factor = math.sqrt(height * width / most)
        nearest = [max(1, int((side / factor) / unit)) * unit for side in (height, width)]
    elif math.prod(nearest) < least:
        factor = math.sqrt(least / (height * width))
        nearest = [-(-(side * factor / unit) // 1) * unit for side in (height, width)]
    return int(nearest[0]), int(nearest[1])


@pytest.mark.parametrize(
    ("unit", "least", "most"),
    [
        (28, 56 * 56, 14 * 14 * 4 * 1280),  # Qwen2-VL, images
        (28, 128 * 28 * 28, 768 * 28 * 28),  # Qwen2.5-VL, frames of videos
        (32, 4 * 32 * 32, 16384 * 32 * 32),  # Qwen3-VL, images
        (28, 28 * 28, 28 * 28),
        (1, 1000, 5000),
    ],
)
def test_sizes_by_pixels_match_qwen(unit: int, least: int, most: int) -> None:
    arguments = {"multiple_of": unit, "min_pixels": least, "max_pixels": most}
    for height, width in image_sizes():
        new = resized(height, width, **arguments)
        assert new == pixels_as_in_qwen(height, width, unit, least, most), (height, width)
        assert new[0] % unit == new[1] % unit == 0
        if max(height, width) < 20 * min(height, width) and most > 1000 * unit:
            assert least <= math.prod(new) <= most, (height, width)


# Results of the published function.
@pytest.mark.parametrize(
    ("size", "arguments", "expected"),
    [
        ((1080, 1920), {"multiple_of": 28, "min_pixels": 3136, "max_pixels": 1003520}, (728, 1316)),
        ((360, 640), {"multiple_of": 28, "min_pixels": 100352, "max_pixels": 602112}, (364, 644)),
        ((100, 150), {"multiple_of": 28, "min_pixels": 100352, "max_pixels": 602112}, (280, 392)),
        ((14, 42), {"multiple_of": 28}, (28, 56)),  # 0.5 rounds to 0, 1.5 to 2; a side is at least 28
        ((1080, 1920), {"max_pixels": 1000000}, (750, 1333)),
        ((100, 100), {"min_pixels": 20000}, (142, 142)),
        ((100, 150), {"max_pixels": 15000}, (100, 150)),
    ],
)
def test_sizes_by_pixels_computed_by_hand(
    size: tuple[int, int], arguments: dict[str, int], expected: tuple[int, int]
) -> None:
    assert resized(*size, **arguments) == expected


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(ClipSpec("sizes", size=(176, 98), num_frames=5), tmp_path_factory.mktemp("sizes") / "clip.mp4")


@pytest.mark.parametrize(
    "arguments",
    [
        {"short_side": 49},
        {"long_side": 101},
        {"short_side": 64, "long_side": 100},
        {"max_pixels": 9000, "multiple_of": 14},
        {"min_pixels": 40_000, "multiple_of": 28},
    ],
    ids=str,
)
@pytest.mark.parametrize("fast", [False, True])
def test_decoder_and_tensor_have_the_same_shape(clip: Path, arguments: dict[str, Any], fast: bool) -> None:
    resize = Resize(**arguments, fast=fast)
    decoded = VideoDecoder(clip, transforms=[resize], on_size_change="scale").get_all_frames()
    scaled = resize(VideoDecoder(clip).get_all_frames())
    assert decoded.data.shape == scaled.data.shape == (5, 3, *resized(98, 176, **arguments))
    fixed = VideoDecoder(clip, transforms=[Resize(scaled.data.shape[-2:], fast=fast)]).get_all_frames()
    assert torch.equal(decoded.data, fixed.data)


def test_the_size_follows_the_preceding_transforms(clip: Path) -> None:
    decoder = VideoDecoder(clip, transforms=[CenterCrop((90, 60)), Resize(short_side=30), CenterCrop((30, 30))])
    assert decoder[0].shape == (3, 30, 30)
    assert pickle.loads(pickle.dumps(decoder))[0].shape == (3, 30, 30)


def test_each_image_of_a_sample_has_its_own_size() -> None:
    sample = Resize(short_side=10)({"wide": torch.zeros(3, 20, 60), "tall": torch.zeros(2, 3, 50, 20)})
    assert sample["wide"].shape == (3, 10, 30)
    assert sample["tall"].shape == (2, 3, 25, 10)


def test_repr_shows_the_given_arguments() -> None:
    assert repr(Resize((5, 7))) == "Resize(size=(5, 7), fast=False)"
    assert repr(Resize(max_pixels=784, multiple_of=28)) == "Resize(max_pixels=784, multiple_of=28, fast=False)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"\(height, width\) pair.*To keep the aspect ratio, pass one of short_side"),
        ({"size": 256}, r"got 256\).*To keep the aspect ratio, pass one of short_side"),
        ({"size": (5, 7), "short_side": 5}, r"either size, or short_side and long_side.*size=\(5, 7\), short_side=5"),
        ({"short_side": 5, "multiple_of": 28}, r"either size.*short_side=5, multiple_of=28"),
        ({"long_side": 5, "max_pixels": 28}, r"either size.*long_side=5, max_pixels=28"),
        ({"size": (5, 7), "min_pixels": 28}, r"either size.*size=\(5, 7\), min_pixels=28"),
        ({"short_side": 0}, r"short_side must be a positive whole number, or None \(got 0\)"),
        ({"long_side": 5.5}, r"long_side must be .* \(got 5.5\)"),
        ({"multiple_of": True}, r"multiple_of must be .* \(got True\)"),
        ({"max_pixels": -4}, r"max_pixels must be .* \(got -4\)"),
        ({"short_side": 9, "long_side": 9}, r"long_side \(9\) must be greater than short_side \(9\)"),
        ({"min_pixels": 9, "max_pixels": 8}, r"min_pixels \(9\) must be at most max_pixels \(8\)"),
        ({"multiple_of": 28, "max_pixels": 783}, r"max_pixels \(783\) must be at least 28 x 28 = 784"),
    ],
    ids=str,
)
def test_contradictions_are_errors(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Resize(**arguments)


def test_a_size_that_is_too_large_is_an_error(clip: Path) -> None:
    """A decoder and a call on tensors raise the same error: in both, the size can come from a file."""
    messages = []
    frame = VideoDecoder(clip)[0]
    for resize in (lambda one: VideoDecoder(clip, transforms=[one]), lambda one: one(frame)):
        with pytest.raises(InvalidArgumentError, match="are too large") as caught:
            resize(Resize(short_side=20_000))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
