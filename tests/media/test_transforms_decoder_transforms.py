"""Decoder transforms as plain data: resolution, random draws, and types that a decoder accepts."""

from __future__ import annotations

import enum
import math
import sys
import types
from collections import Counter
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from mediatensor.errors import InvalidArgumentError
from mediatensor.transforms import (
    CenterCrop,
    CropStep,
    DecoderTransform,
    Letterbox,
    Normalize,
    PadStep,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    ResizeStep,
)
from mediatensor.transforms._decoder_transforms import resolve_transforms

SIZED = [Resize, CenterCrop, RandomCrop, RandomResizedCrop, Letterbox]


@pytest.mark.parametrize("transform_type", SIZED)
@pytest.mark.parametrize(
    "size", [5, (5,), (1, 2, 3), (), None, "57", (5, 0), (-1, 5), (5.0, 6.0), (True, 5), {5: 6}, np.ones(2)], ids=repr
)
def test_size_must_be_a_height_width_pair(transform_type: type[DecoderTransform], size: object) -> None:
    with pytest.raises(
        InvalidArgumentError, match=rf"{transform_type.__name__} transform must have a \(height, width\)"
    ):
        transform_type(size)  # type: ignore[call-arg]


@pytest.mark.parametrize("transform_type", SIZED)
@pytest.mark.parametrize(
    "size", [(5, 7), [5, 7], torch.Size([5, 7]), (np.int64(5), np.int32(7)), np.array([5, 7])], ids=repr
)
def test_size_accepts_sequences_of_whole_numbers(transform_type: Any, size: object) -> None:
    assert transform_type(size).size == (5, 7)


def test_errors_have_torchcodecs_types() -> None:
    with pytest.raises(ValueError, match="height, width"):
        Resize((5,))
    with pytest.raises(RuntimeError, match="smaller than the crop size"):
        RandomCrop((5, 5)).resolve(4, 8)


def test_resize_resolves_to_one_step() -> None:
    assert Resize((5, 7)).resolve(100, 200) == (ResizeStep(5, 7, fast=False),)
    assert Resize((5, 7), fast=True).resolve(100, 200) == (ResizeStep(5, 7, fast=True),)


@pytest.mark.parametrize(
    ("frame", "size", "top", "left"),
    [
        ((10, 10), (10, 10), 0, 0),
        ((10, 10), (4, 6), 3, 2),
        ((10, 10), (9, 7), 0, 2),  # 0.5 -> 0, 1.5 -> 2: half to even
        ((10, 10), (5, 3), 2, 4),  # 2.5 -> 2, 3.5 -> 4
        ((7, 9), (4, 4), 2, 2),  # 1.5 -> 2, 2.5 -> 2
        ((1080, 1920), (1, 1), 540, 960),  # 539.5 -> 540, 959.5 -> 960
    ],
)
def test_center_crop_offsets(frame: tuple[int, int], size: tuple[int, int], top: int, left: int) -> None:
    assert CenterCrop(size).resolve(*frame) == (CropStep(top, left, *size),)


@pytest.mark.parametrize("transform_type", [CenterCrop, RandomCrop])
@pytest.mark.parametrize("frame", [(4, 100), (100, 6), (1, 1)])
def test_a_crop_larger_than_the_frame_is_an_error(transform_type: Any, frame: tuple[int, int]) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"Input dimensions \({frame[0]}, {frame[1]}\) are smaller"):
        transform_type((5, 7)).resolve(*frame)


@pytest.mark.parametrize("size", [(20, 30), (90, 30), (20, 160), (90, 160)])
@pytest.mark.parametrize("seed", range(5))
def test_random_crop_draws_top_then_left(seed: int, size: tuple[int, int]) -> None:
    """torchcodec draws a number for an axis without choice, too."""
    torch.manual_seed(seed)
    (step,) = RandomCrop(size).resolve(90, 160)
    next_draw = torch.rand(1)

    torch.manual_seed(seed)
    top = int(torch.randint(0, 90 - size[0] + 1, ()))
    left = int(torch.randint(0, 160 - size[1] + 1, ()))
    assert step == CropStep(top, left, *size)
    assert torch.equal(next_draw, torch.rand(1)), "it drew more numbers, or fewer"


def test_random_crop_positions_are_uniform() -> None:
    torch.manual_seed(0)
    crop = RandomCrop((6, 4))
    counts = Counter((step.top, step.left) for step in (crop.resolve(9, 8)[0] for _ in range(4000)))
    assert set(counts) == {(top, left) for top in range(4) for left in range(5)}
    # 20 positions: 200 each, standard deviation 13.8; five of them.
    assert all(abs(count - 200) < 69 for count in counts.values())


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("frame", "scale", "ratio"),
    [
        ((90, 160), (0.08, 1.0), (3 / 4, 4 / 3)),
        ((160, 90), (0.3, 0.8), (0.5, 2.0)),  # often needs several attempts
        ((50, 50), (0.25, 0.25), (1.0, 1.0)),
    ],
)
def test_random_resized_crop_draws_as_documented(
    seed: int, frame: tuple[int, int], scale: tuple[float, float], ratio: tuple[float, float]
) -> None:
    height, width = frame
    torch.manual_seed(seed)
    window, resize = RandomResizedCrop((5, 7), scale, ratio).resolve(height, width)
    next_draw = torch.rand(1)

    torch.manual_seed(seed)
    low, high = torch.log(torch.tensor(ratio))
    expected = None
    for _attempt in range(10):
        area = height * width * torch.empty(1).uniform_(*scale).item()
        aspect = torch.exp(torch.empty(1).uniform_(low, high)).item()
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if w <= width and h <= height:
            top = torch.randint(0, height - h + 1, (1,)).item()
            left = torch.randint(0, width - w + 1, (1,)).item()
            expected = CropStep(int(top), int(left), h, w)
            break
    assert expected is not None, "choose another seed: this one ends in the fallback, which has its own test"
    assert window == expected
    assert resize == ResizeStep(5, 7)
    assert torch.equal(next_draw, torch.rand(1))


@pytest.mark.parametrize(
    ("frame", "scale", "ratio", "window"),
    [
        ((10, 100), (1.0, 1.0), (3 / 4, 4 / 3), CropStep(0, 43, 10, 13)),  # too wide: 10 * 4 / 3 = 13.3
        ((100, 10), (1.0, 1.0), (3 / 4, 4 / 3), CropStep(43, 0, 13, 10)),  # too tall: 10 / (3 / 4) = 13.3
        ((10, 10), (2.0, 2.0), (1.0, 1.0), CropStep(0, 0, 10, 10)),  # in range, but the area never fits
        (
            (100, 1),
            (1.0, 1.0),
            (5.0, 5.0),
            CropStep(49, 0, 1, 1),
        ),  # 1 / 5 rounds to 0, but one row is the minimum
    ],
)
def test_random_resized_crop_falls_back_to_the_middle(
    frame: tuple[int, int], scale: tuple[float, float], ratio: tuple[float, float], window: CropStep
) -> None:
    torch.manual_seed(0)
    assert RandomResizedCrop((5, 7), scale, ratio).resolve(*frame)[0] == window
    next_draw = torch.rand(1)

    torch.manual_seed(0)
    for _ in range(2 * 10):  # an area and an aspect ratio for each of ten attempts
        torch.empty(1).uniform_()
    assert torch.equal(next_draw, torch.rand(1))


def test_random_resized_crop_windows_keep_to_their_ranges() -> None:
    torch.manual_seed(0)
    crop = RandomResizedCrop((5, 7), scale=(0.2, 0.6), ratio=(0.5, 2.0))
    for _ in range(500):
        window = crop.resolve(600, 800)[0]
        assert 0.19 <= window.height * window.width / (600 * 800) <= 0.61
        assert 0.49 <= window.width / window.height <= 2.02
        assert 0 <= window.top <= 600 - window.height
        assert 0 <= window.left <= 800 - window.width


@pytest.mark.parametrize("transform", [RandomCrop((20, 30)), RandomResizedCrop((5, 7))], ids=repr)
def test_one_object_draws_again_for_each_call(transform: DecoderTransform) -> None:
    torch.manual_seed(0)
    assert len({transform.resolve(90, 160)[0] for _ in range(10)}) == 10


# --- sequences of transforms


def test_each_transform_gets_the_size_after_the_preceding_transforms() -> None:
    steps = resolve_transforms([Resize((20, 30)), CenterCrop((10, 10)), Resize((40, 40)), CenterCrop((40, 30))], 5, 5)
    assert steps == (ResizeStep(20, 30), CropStep(5, 10, 10, 10), ResizeStep(40, 40), CropStep(0, 5, 40, 30))
    with pytest.raises(InvalidArgumentError, match=r"Input dimensions \(10, 10\)"):
        resolve_transforms([CenterCrop((10, 10)), RandomCrop((11, 5))], 100, 100)


@pytest.mark.parametrize("transforms", [[], (), torch.nn.Sequential()], ids=repr)
def test_no_transforms_are_no_steps(transforms: Any) -> None:
    assert resolve_transforms(transforms, 10, 10) == ()


def test_transforms_can_be_a_sequential() -> None:
    assert resolve_transforms(torch.nn.Sequential(Resize((5, 7))), 10, 10) == (ResizeStep(5, 7),)


@pytest.mark.parametrize("transforms", [Resize((5, 7)), 5], ids=repr)
def test_a_single_transform_is_not_a_sequence(transforms: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="must be a sequence"):
        resolve_transforms(transforms, 10, 10)


@pytest.mark.parametrize(
    "transform", [Normalize((0.5,), (0.5,)), RandomHorizontalFlip(), torch.nn.Identity(), len, "resize", None], ids=repr
)
def test_an_unsupported_transform_is_named(transform: object) -> None:
    with pytest.raises(InvalidArgumentError, match="Unsupported transform") as caught:
        resolve_transforms([Resize((5, 7)), transform], 10, 10)
    assert repr(transform) in str(caught.value)
    assert "Resize, CenterCrop, RandomCrop" in str(caught.value)


class _Custom(DecoderTransform):
    is_random = False

    def __init__(self, *steps: Any) -> None:
        super().__init__()
        self.steps = steps

    def resolve(self, height: int, width: int) -> Any:
        return self.steps


def test_a_custom_transform_may_take_several_steps() -> None:
    steps = (CropStep(1, 2, 3, 4), ResizeStep(8, 8))
    assert resolve_transforms([_Custom(*steps), CenterCrop((8, 8))], 10, 10) == (*steps, CropStep(0, 0, 8, 8))
    crop_and_pad = CropStep(1, 2, 3, 4), PadStep(1, 2, 6, 7, (9.0,))
    assert resolve_transforms([_Custom(*crop_and_pad), Resize((5, 5))], 10, 10) == (*crop_and_pad, ResizeStep(5, 5))
    images = torch.arange(100, dtype=torch.uint8).view(1, 10, 10)
    expected = torch.nn.functional.pad(images[:, 1:4, 2:6], (2, 1, 1, 2), value=9)
    assert torch.equal(_Custom(*crop_and_pad)(images), expected)


@pytest.mark.parametrize(
    "step",
    [
        CropStep(0, 0, 11, 5),
        CropStep(6, 0, 5, 5),
        CropStep(-1, 0, 5, 5),
        CropStep(0, 0, 0, 5),
        CropStep(0.5, 0, 5, 5),  # type: ignore[arg-type]
        ResizeStep(0, 5),
        PadStep(0, 0, 9, 10),
        PadStep(0, 0, 10, 9),
        PadStep(2, 0, 11, 20),
        PadStep(-1, 0, 20, 20),
        PadStep(0, 0.5, 20, 20),  # type: ignore[arg-type]
        PadStep(0, 0, 20, 20.5),  # type: ignore[arg-type]
        PadStep(0, 0, 20, 20, ()),
        PadStep(0, 0, 20, 20, (float("nan"),)),
        PadStep(0, 0, 2**15, 2**14),
        (5, 5),
        "hflip",
    ],
    ids=repr,
)
def test_impossible_steps_of_a_custom_transform_are_refused(step: object) -> None:
    with pytest.raises(InvalidArgumentError):
        resolve_transforms([_Custom(step)], 10, 10)


def test_a_decoder_transform_must_resolve() -> None:
    with pytest.raises(TypeError, match="abstract"):
        DecoderTransform()  # type: ignore[abstract]


# --- torchvision's, as replacements with the public attributes of the real classes


class InterpolationMode(enum.Enum):
    NEAREST = "nearest"
    BILINEAR = "bilinear"


class TorchvisionTransform(torch.nn.Module):
    """A transform with its arguments as attributes."""

    defaults: ClassVar[dict[str, Any]] = {}

    def __init__(self, size: Any, **options: Any) -> None:
        super().__init__()
        self.size = (size, size) if isinstance(size, int) else size
        vars(self).update(self.defaults | options)


class TorchvisionResize(TorchvisionTransform):
    defaults: ClassVar = {"interpolation": InterpolationMode.BILINEAR, "max_size": None, "antialias": True}

    def __init__(self, size: Any, **options: Any) -> None:
        super().__init__([size] if isinstance(size, int) else size, **options)


class TorchvisionRandomCrop(TorchvisionTransform):
    defaults: ClassVar = {"padding": None, "pad_if_needed": False, "fill": 0, "padding_mode": "constant"}


class TorchvisionRandomResizedCrop(TorchvisionTransform):
    defaults: ClassVar = {
        "scale": (0.08, 1.0), "ratio": (3 / 4, 4 / 3), "interpolation": InterpolationMode.BILINEAR, "antialias": True
    }  # fmt: skip


@pytest.fixture
def v2(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = types.ModuleType("torchvision.transforms.v2")
    # The real classes do not derive from one another.
    module.Resize = TorchvisionResize
    module.CenterCrop = type("CenterCrop", (TorchvisionTransform,), {})
    module.RandomCrop = TorchvisionRandomCrop
    module.RandomResizedCrop = TorchvisionRandomResizedCrop
    monkeypatch.setitem(sys.modules, "torchvision.transforms.v2", module)
    return module


def test_torchvision_objects_are_converted(v2: Any) -> None:
    transforms = [v2.Resize([20, 30]), v2.CenterCrop(10), v2.RandomCrop((5, 7)), v2.RandomResizedCrop(3, scale=(1, 1))]
    torch.manual_seed(0)
    steps = resolve_transforms(transforms, 100, 100)
    torch.manual_seed(0)
    ours = [Resize((20, 30)), CenterCrop((10, 10)), RandomCrop((5, 7)), RandomResizedCrop((3, 3), scale=(1, 1))]
    assert steps == resolve_transforms(ours, 100, 100)


def test_torchvision_resizes_that_keep_the_aspect_ratio_are_converted(v2: Any) -> None:
    steps = resolve_transforms([v2.Resize(256), v2.Resize(200, max_size=250), v2.Resize(None, max_size=100)], 360, 640)
    assert steps == (ResizeStep(256, 455), ResizeStep(140, 250), ResizeStep(56, 100))


@pytest.mark.parametrize(
    ("name", "arguments", "named"),
    [
        ("Resize", {"size": [5, 6], "max_size": 9}, r"size=\[5, 6\], long_side=9"),
        ("Resize", {"size": 9, "max_size": 9}, r"long_side \(9\) must be greater than short_side"),
        ("Resize", {"size": [5, 6], "interpolation": InterpolationMode.NEAREST}, "interpolation='bilinear'"),
        ("Resize", {"size": [5, 6], "antialias": False}, "antialias=True"),
        ("RandomCrop", {"size": 5, "padding": [1, 1, 1, 1]}, "padding=None"),
        ("RandomCrop", {"size": 5, "pad_if_needed": True}, "pad_if_needed=False"),
        ("RandomCrop", {"size": 5, "fill": 1}, "fill=0"),
        ("RandomCrop", {"size": 5, "padding_mode": "edge"}, "padding_mode='constant'"),
        ("RandomCrop", {"size": 101}, "smaller than the crop size"),
        ("RandomResizedCrop", {"size": 5, "interpolation": InterpolationMode.NEAREST}, "interpolation='bilinear'"),
        ("RandomResizedCrop", {"size": 5, "antialias": False}, "antialias=True"),
    ],
)
def test_torchvision_objects_that_a_decoder_cannot_run(
    v2: Any, name: str, arguments: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=named):
        resolve_transforms([getattr(v2, name)(**arguments)], 100, 100)


def test_torchvision_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torchvision.transforms.v2", raising=False)
    monkeypatch.setitem(sys.modules, "torchvision", None)  # makes an import of it fail
    assert resolve_transforms([Resize((5, 7))], 10, 10) == (ResizeStep(5, 7),)
    with pytest.raises(InvalidArgumentError, match="Unsupported transform"):
        resolve_transforms([TorchvisionResize([5, 7])], 10, 10)
