"""Transforms against what docTR answers to the same calls, against formulas, and with odd input."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr import transforms as T
from mediatensor.ocr.transforms import Resize, functional
from mediatensor.ocr.transforms.functional.base import create_shadow_mask, expand_line
from mediatensor.ocr.utils import Sample
from ocr_records import read_record
from ocr_transform_cases import BOXES, POLYGONS, cases, picture, printed, seeded, shadows, summary

RECORDED = read_record("transforms")
CASES = cases(T, functional, Sample)
MOVING = {
    "resize": T.Resize((48, 60), preserve_aspect_ratio=True, symmetric_pad=True),
    "random resize": T.RandomResize((0.4, 0.8), preserve_aspect_ratio=True, p=1.0),
    "flip": T.RandomHorizontalFlip(1.0),
    "rotate": T.RandomRotate(20.0),
    "rotate and expand": T.RandomRotate(90.0, expand=True),
    "crop": T.RandomCrop((0.5, 0.9)),
}
COLOURS = {
    "inversion": T.ColorInversion(),
    "noise": T.GaussianNoise(0.0, 0.1),
    "blur": T.GaussianBlur((0.1, 3.0)),
    "shuffle": T.ChannelShuffle(),
    "shadow": T.RandomShadow((0.1, 0.5)),
}
ALL = {**MOVING, **COLOURS}


def same(mine: Any, theirs: Any) -> None:
    """Whether two summaries agree, numbers up to rounding."""
    if isinstance(theirs, dict):
        assert mine.keys() == theirs.keys()
        for name, value in theirs.items():
            same(mine[name], value)
    elif isinstance(theirs, list) and theirs and isinstance(theirs[0], float):
        assert mine == pytest.approx(theirs, abs=2e-5)
    elif isinstance(theirs, list):
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs, strict=True):
            same(one, other)
    else:
        assert mine == theirs


@pytest.mark.parametrize("name", dict.fromkeys(name.partition(" ")[0] for name in CASES))
def test_calls_give_what_doctr_gives(name: str) -> None:
    assert RECORDED["cases"].keys() == CASES.keys()
    calls = {case: call for case, call in CASES.items() if case.partition(" ")[0] == name}
    assert calls
    for case, call in calls.items():
        same(json.loads(json.dumps(summary(call()))), RECORDED["cases"][case])


def test_shadows_lie_where_those_of_doctr_do() -> None:
    # OpenCV draws their edges otherwise; blurred, as they are used, that makes no difference.
    for name, mask in shadows(create_shadow_mask).items():
        squares = mask.reshape(mask.shape[0] // 10, 10, -1, 10).mean((1, 3))
        differences = np.abs(squares - RECORDED["shadows"][name])
        assert differences.max() < 0.05, name
        assert differences.mean() < 0.004, name


def test_they_are_shown_as_in_doctr() -> None:
    assert printed(T) == RECORDED["printed"]


def test_they_are_found_where_doctr_has_them() -> None:
    assert Resize is T.Resize is T.modules.Resize
    assert T.functional.rotate_sample is functional.rotate_sample
    assert expand_line(np.array([[63, 1], [42, 1]], np.int32), (100, 100)) == (100, 1)
    assert expand_line(np.array([[1, 63], [12, 41]], np.int32), (100, 100)) == (0, 65)
    assert expand_line(np.array([[0, 63], [12, 41]], np.int32), (100, 100)) == (0, 63)


def test_interpolations_are_named_as_in_torchvision_and_numbered_as_in_pillow() -> None:
    class Mode(Enum):
        CUBIC = "bicubic"

    page = Sample(picture(20, 30))
    cubic = T.Resize((10, 12), interpolation="bicubic")(page).image
    assert (cubic - T.Resize((10, 12))(page).image).abs().max() > 0.01
    for mode in (Mode.CUBIC, 3):
        assert (T.Resize((10, 12), mode)(page).image == cubic).all()
    rows, columns = np.arange(10) * 20 // 10, np.arange(12) * 30 // 12
    assert (T.Resize((10, 12), "nearest")(page).image == page.image[:, rows][..., columns]).all()


# Marks on a page are at their boxes after every transform.


def page_with_marks(boxes: np.ndarray) -> Tensor:
    """Black paper on which each box is filled, each in its own channel."""
    image = torch.zeros(len(boxes), 200, 240)
    for number, (left, top, right, bottom) in enumerate(boxes * [240, 200, 240, 200]):
        image[number, round(top) : round(bottom), round(left) : round(right)] = 1
    return image


@pytest.mark.parametrize("name", MOVING)
@pytest.mark.parametrize("kind", ["boxes", "polygons"])
def test_boxes_stay_on_what_they_enclose(name: str, kind: str) -> None:
    boxes = np.array([[0.2, 0.3, 0.45, 0.4], [0.6, 0.6, 0.8, 0.7], [0.4, 0.8, 0.5, 0.9]], np.float32)
    page = page_with_marks(boxes)
    given = boxes if kind == "boxes" else functional.rotate_sample(page, boxes, 0)[1]
    seen = 0
    for seed in range(5):
        before = given.copy()
        sample = Sample(page, page.amax(0) > 0, {"boxes": given, "labels": [0, 1, 2]})
        moved = seeded(seed, lambda sample=sample: MOVING[name](sample))
        assert (given == before).all()
        height, width = moved.image.shape[1:]
        # The mask goes with the image.
        assert moved.mask.shape == (height, width)
        assert ((moved.image.amax(0) > 0.5) == moved.mask).float().mean() > 0.97
        assert len(moved.target["boxes"]) == len(moved.target["labels"])
        for box, label in zip(moved.target["boxes"], moved.target["labels"], strict=True):
            corners = box.reshape(-1, 2)
            rows, columns = (moved.image[label] > 0.5).nonzero(as_tuple=True)
            found = [columns.min() / width, rows.min() / height, (columns.max() + 1) / width, (rows.max() + 1) / height]
            enclosing = [float(value) for value in (*corners.min(0), *corners.max(0))]
            assert enclosing == pytest.approx([float(value) for value in found], abs=0.03)
            seen += 1
    assert seen > 8


def test_labels_of_lost_boxes_are_lost_with_them() -> None:
    boxes = np.array([[0.0, 0.0, 0.02, 0.02], [0.4, 0.4, 0.6, 0.6]])
    for labels in (["corner", "middle"], ("corner", "middle"), np.array(["corner", "middle"])):
        turned = seeded(
            0,
            lambda labels=labels: T.RandomRotate(45)(Sample(picture(40, 40), None, {"boxes": boxes, "labels": labels})),
        )
        assert list(turned.target["labels"]) == ["middle"]
        assert turned.target["boxes"].shape == (1, 4)


# Colours, against formulas.


def test_noise_is_normally_distributed() -> None:
    image = torch.full((3, 200, 200), 0.5)
    noise = seeded(0, lambda: T.GaussianNoise(0.05, 0.1)(Sample(image))).image - image
    assert noise.mean() == pytest.approx(0.05, abs=0.002)
    assert noise.std() == pytest.approx(0.1, abs=0.002)
    # Even noise of any strength has a kurtosis of 1.8.
    assert ((noise - noise.mean()) ** 4).mean() / noise.var() ** 2 == pytest.approx(3, abs=0.1)
    in_bytes = seeded(0, lambda: T.GaussianNoise(0.05, 0.1)(Sample((image * 255).round().to(torch.uint8)))).image
    assert (in_bytes.float() / 255 - (image + noise)).abs().max() < 0.005
    strong = T.GaussianNoise(0.0, 5.0)(Sample(image)).image
    assert (strong.min(), strong.max()) == (0, 1)


@pytest.mark.parametrize(("height", "width", "sigma"), [(23, 31, 1.3), (5, 40, 2.6), (1, 3, 2.0), (8, 8, 0.05)])
def test_blur_is_a_gaussian_over_mirrored_edges(height: int, width: int, sigma: float) -> None:
    image = picture(height, width)
    radius = int(4 * sigma + 0.5)
    weights = np.exp(-(np.arange(-radius, radius + 1) ** 2) / (2 * sigma**2))
    kernel = np.outer(weights, weights) / weights.sum() ** 2
    wide = np.pad(image.double().numpy(), ((0, 0), (radius, radius), (radius, radius)), mode="symmetric")
    windows = np.lib.stride_tricks.sliding_window_view(wide, kernel.shape, axis=(1, 2))
    expected = (windows * kernel).sum((-2, -1))
    mine = T.GaussianBlur((sigma, sigma))(Sample(image)).image
    assert np.abs(mine.numpy() - expected).max() < 1e-5
    assert (T.GaussianBlur((sigma, sigma))(Sample(torch.ones_like(image))).image <= 1).all()
    in_bytes = T.GaussianBlur((sigma, sigma))(Sample((image * 255).round().to(torch.uint8))).image
    assert np.abs(in_bytes.numpy() / 255 - expected).max() < 0.005


def test_blur_keeps_channels_apart() -> None:
    red = torch.zeros(3, 20, 20)
    red[0, 10, 10] = 1
    blurred = T.GaussianBlur((1.5, 1.5))(Sample(red)).image
    assert blurred[0].sum() == pytest.approx(1)
    assert not blurred[1:].any()


def test_shadows_darken_by_their_opacity() -> None:
    for seed in range(10):
        white = torch.ones(3, 60, 80)
        shadowed = seeded(seed, lambda white=white: T.RandomShadow((0.4, 0.4))(Sample(white))).image
        assert 0.6 - 1e-6 <= shadowed.min() < 0.95
        assert shadowed.max() <= 1
        assert (shadowed[0] == shadowed[1]).all()


def test_chances_are_as_given() -> None:
    torch.manual_seed(0)
    image = torch.arange(6.0).reshape(1, 2, 3)
    flips = sum(bool(T.RandomHorizontalFlip(0.3)(Sample(image)).image[0, 0, 0] == 2) for _ in range(1000))
    assert 240 < flips < 360
    drawn = seeded(1, lambda: [T.OneOf([lambda _: 0, lambda _: 1, lambda _: 2])(image) for _ in range(900)])
    assert all(240 < drawn.count(number) < 360 for number in range(3))
    applied = seeded(1, lambda: [T.RandomApply(lambda _: True, 0.1)(False) for _ in range(1000)])
    assert 60 < sum(applied) < 140
    sizes = seeded(
        0,
        lambda: [
            T.RandomResize((0.5, 1.5), p=1.0)(Sample(torch.zeros(1, 100, 100))).image.shape[1:] for _ in range(300)
        ],
    )
    heights, widths = (np.array(sides) for sides in zip(*sizes, strict=True))
    assert 95 < heights.mean() < 105
    assert abs(np.corrcoef(heights, widths)[0, 1]) < 0.2
    areas = seeded(
        0, lambda: [T.RandomCrop((0.2, 0.8))(Sample(torch.zeros(1, 100, 100))).image.numel() for _ in range(300)]
    )
    assert 0.45 < np.mean(areas) / 10_000 < 0.55


# Any image, any target.


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float16, torch.float64])
def test_transforms_accept_any_size_and_dtype(name: str, dtype: torch.dtype) -> None:
    for height, width in ((1, 1), (1, 40), (40, 1), (2, 3), (33, 50)):
        for channels in (1, 3):
            image = picture(height, width, channels).mul(255 if dtype == torch.uint8 else 1).to(dtype)
            sample = seeded(3, lambda image=image: ALL[name](Sample(image, target=BOXES.copy())))
            assert sample.image.dtype == dtype
            assert sample.image.ndim == 3
            assert sample.image.numel() > 0
            assert sample.target.dtype == np.float32
            assert sample.target.shape[1:] == (4,)
            if dtype.is_floating_point:
                assert 0 <= sample.image.min() <= sample.image.max() <= 1


@pytest.mark.parametrize("name", ALL)
def test_integers_of_any_dtype_have_the_range_of_bytes(name: str) -> None:
    image = picture(33, 50, 3).mul(255).to(torch.uint8)
    small, large = (
        seeded(3, lambda dtype=dtype: ALL[name](Sample(image.to(dtype)))).image for dtype in (torch.uint8, torch.int32)
    )
    assert large.dtype == torch.int32
    assert (small.int() - large).abs().max() <= 1


def test_pictures_that_fit_are_not_made_narrower() -> None:
    # 32 / (32 / 117) is a little less than 117.
    line = Sample(torch.ones(1, 32, 117))
    assert T.Resize((32, 128), preserve_aspect_ratio=True)(line).image.sum() == 32 * 117


def test_bytes_that_become_one_pixel_wide() -> None:
    # PyTorch's byte kernels fail at this width.
    image = torch.arange(60, dtype=torch.uint8).reshape(3, 5, 4) * 4
    for size in ((1, 1), (3, 1), (9, 1)):
        narrow, exact = (T.Resize(size)(Sample(given)).image for given in (image, image.float()))
        assert (narrow - exact).abs().max() <= 0.5


EMPTY = [
    np.zeros((0, 4), np.float32),
    np.zeros((0, 4, 2)),
    np.zeros(0),
    {"words": np.zeros((0, 4))},
    {},
    {"boxes": np.zeros((0, 4)), "labels": []},
]


@pytest.mark.parametrize("name", ALL)
def test_transforms_keep_targets_without_boxes(name: str) -> None:
    for target in EMPTY:
        sample = seeded(1, lambda target=target: ALL[name](Sample(picture(20, 30), target=target)))
        same(summary(sample.target), summary(target))


def test_turned_pages_without_boxes_are_turned_too() -> None:
    for target in (None, *EMPTY, np.array([1]), "Total"):
        page = Sample(picture(20, 30), picture(20, 30, 1)[0] > 0.5, target)
        turned = seeded(1, lambda page=page: T.RandomRotate(40)(page))
        assert (turned.image != page.image).any()
        assert turned.mask.shape == page.mask.shape


def test_texts_and_classes_stay_as_they_are() -> None:
    for name, transform in ALL.items():
        number = np.array([2])
        assert transform(Sample(picture(20, 30), target=number)).target is number
        if name in ("flip", "crop"):
            with pytest.raises(InvalidArgumentError, match="'Total'"):
                transform(Sample(picture(20, 30), target="Total"))
        else:
            assert transform(Sample(picture(20, 30), target="Total")).target == "Total"


def test_crops_that_would_lose_all_boxes_are_not_made() -> None:
    corner = np.array([[0.0, 0.0, 0.01, 0.01]])
    page = Sample(picture(100, 100), None, corner)
    kept = [seeded(seed, lambda: T.RandomCrop((0.1, 0.2))(page)) is page for seed in range(20)]
    assert 10 < sum(kept) <= 20


def test_boxes_in_pixels_are_cropped_in_pixels() -> None:
    pixels = np.array([[15, 20, 35, 30]])
    cropped = seeded(2, lambda: T.RandomCrop((0.5, 0.6))(Sample(picture(50, 50), None, pixels)))
    relative = seeded(2, lambda: T.RandomCrop((0.5, 0.6))(Sample(picture(50, 50), None, pixels / 50)))
    height, width = cropped.image.shape[1:]
    assert cropped.image.shape == relative.image.shape
    assert np.abs(cropped.target - relative.target * [width, height, width, height]).max() <= 1.5
    assert pixels.tolist() == [[15, 20, 35, 30]]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_boxes_in_pixels_of_any_dtype_are_clipped_to_the_crop(dtype: Any) -> None:
    pixels = np.array([[5, 5, 60, 40], [100, 20, 250, 190]])
    image = torch.zeros(3, 200, 300)
    expected, cropped = (
        seeded(1, lambda boxes=boxes: T.RandomCrop((0.2, 0.5))(Sample(image, None, boxes))).target
        for boxes in (pixels, pixels.astype(dtype))
    )
    assert cropped.dtype == dtype
    assert cropped.tolist() == expected.tolist() != pixels.tolist()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: T.Resize((10, 0)), "size must be"),
        (lambda: T.Resize(10, interpolation="lanczos"), "nearest-exact"),
        (lambda: T.GaussianBlur((2.0, 1.0)), "least, greatest"),
        (lambda: T.GaussianBlur(1.0), "two finite numbers"),  # type: ignore[arg-type]
        (lambda: T.RandomResize((0.0, 1.0)), "positive"),
        (lambda: T.RandomCrop(scale=(-1.0, 1.0)), "positive"),
        (lambda: T.RandomShadow(0.5), "opacity_range"),  # type: ignore[arg-type]
        (lambda: T.Resize(10)(Sample(np.zeros((10, 10, 3)))), "tensor"),
        (lambda: T.ChannelShuffle()(Sample(torch.zeros(10, 10))), "tensor"),
        (lambda: T.RandomRotate()(Sample(torch.zeros(3, 10, 10), target=np.ones((2, 5)))), "N, 4"),
        (lambda: T.RandomRotate()(Sample(torch.zeros(3, 10, 10), target=np.ones(4))), "N, 4"),
        (lambda: T.RandomRotate()(Sample(torch.zeros(3, 10, 10), target=[[0, 0, 1, 1]])), "array"),
        (lambda: T.RandomRotate()(Sample(torch.zeros(3, 10, 10), target={"boxes": torch.ones(2, 4)})), "array"),
        (lambda: functional.invert_colors(torch.zeros(2, 10, 10)), "1 or 3"),
        (lambda: functional.rotate_sample(torch.zeros(3, 10, 10), np.ones((1, 1, 4)), 90), "geoms"),
        (lambda: functional.crop_detection(torch.zeros(3, 10, 10), BOXES, (2, 6, 24, 56)), "relative"),
        (lambda: functional.crop_boxes(BOXES, (2, 6, 24, 56)), "both"),
        (lambda: expand_line(np.array([[3, 3], [3, 3]]), (9, 9)), "two points"),
    ],
)
def test_wrong_arguments_raise(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        call()


def test_image_transforms_take_what_callables_return() -> None:
    sample = Sample(torch.ones(3, 4, 4), None, "Total")
    for transform in (
        T.ImageTransform(lambda given: given.image / 2),
        T.ImageTorchvisionTransform(lambda image: image / 2),
    ):
        halved = transform(sample)
        assert (halved.image == 0.5).all()
        assert halved.target == "Total"
    assert T.ImageTransform(T.GaussianNoise())(sample).image.shape == (3, 4, 4)


# In training.


class Pages(Dataset[Sample]):
    def __init__(self) -> None:
        self.transform = T.SampleCompose(
            [
                T.OneOf([T.ColorInversion(), T.GaussianBlur((0.5, 1.5))]),
                T.RandomApply(T.RandomShadow(), 0.5),
                T.RandomResize(p=0.5),
                T.RandomRotate(10),
                T.GaussianNoise(std=0.1),
                T.Resize((32, 32), preserve_aspect_ratio=True, return_padding_mask=True),
            ]
        )

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Sample:
        return self.transform(Sample(picture(30 + index, 40), target={"words": BOXES, "stamps": POLYGONS}))


def as_lists(samples: list[Sample]) -> list[Any]:
    return [(sample.image.sum().item(), summary(sample.target)) for sample in samples]


@pytest.mark.slow
def test_workers_repeat_what_a_seed_gave() -> None:
    def epoch(seed: int) -> list[Any]:
        loader = DataLoader(Pages(), batch_size=2, num_workers=2, collate_fn=as_lists)
        return seeded(seed, lambda: [row for batch in loader for row in batch])

    first = epoch(0)
    assert epoch(0) == first
    assert epoch(1) != first
    assert len({row[0] for row in first}) == 8


def test_they_are_picklable() -> None:
    for transform in (*ALL.values(), Pages().transform):
        again = pickle.loads(pickle.dumps(transform))
        assert repr(again) == repr(transform)
        results = [seeded(5, lambda one=one: one(Sample(picture(20, 30), None, BOXES))) for one in (transform, again)]
        assert summary(results[0]) == summary(results[1])
