"""Inputs and outputs of transforms: tensors, frames, batches, nested samples; and one random draw for each clip."""

from __future__ import annotations

import collections
import copy
import math
import pickle
from typing import Any, NamedTuple

import pytest
import torch

from mediatensor.errors import InvalidArgumentError
from mediatensor.frames import Frame, FrameBatch, ReplacedFrame
from mediatensor.transforms import (
    CenterCrop,
    CropStep,
    DecoderTransform,
    Normalize,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    ToFloat,
    Transform,
    functional,
)

HEIGHT, WIDTH = 16, 24
DTYPES = [torch.uint8, torch.uint16, torch.float16, torch.bfloat16, torch.float32, torch.float64]

# The resulting (H, W) and dtype of each transform; None means the dtype of the input.
TRANSFORMS: list[tuple[Transform, tuple[int, int], torch.dtype | None]] = [
    (Resize((8, 10), fast=True), (8, 10), None),
    (CenterCrop((8, 10)), (8, 10), None),
    (RandomCrop((8, 10)), (8, 10), None),
    (RandomResizedCrop((8, 10), (0.3, 0.4)), (8, 10), None),
    (Pad((1, 2, 3, 4), fill=1), (HEIGHT + 6, WIDTH + 4), None),
    (RandomHorizontalFlip(), (HEIGHT, WIDTH), None),
    (Normalize((0.1, 0.2, 0.3), (0.4, 0.5, 0.6)), (HEIGHT, WIDTH), None),
    (ToFloat(), (HEIGHT, WIDTH), torch.float32),
    (ToFloat(torch.float16), (HEIGHT, WIDTH), torch.float16),
]
RANDOM = [RandomCrop((8, 10)), RandomResizedCrop((8, 10)), RandomHorizontalFlip()]
by_repr = pytest.mark.parametrize(
    ("transform", "size", "out_dtype"), TRANSFORMS, ids=[repr(row[0]) for row in TRANSFORMS]
)


def images(*leading: int, dtype: torch.dtype = torch.uint8) -> torch.Tensor:
    """Images (*leading, 3, HEIGHT, WIDTH) in which every pixel of a frame differs, and every frame is the same."""
    ramp = torch.arange(HEIGHT * WIDTH * 3).view(3, HEIGHT, WIDTH) % 251
    if dtype.is_floating_point:
        ramp = ramp / 256
    return ramp.to(dtype).expand(*leading, 3, HEIGHT, WIDTH).clone()


def batch(*leading: int) -> FrameBatch:
    times = torch.arange(math.prod(leading), dtype=torch.float64).view(leading)
    return FrameBatch(images(*leading), times, times + 0.5, replaced=(ReplacedFrame(3, "damaged", 1, 2),))


@by_repr
@pytest.mark.parametrize("dtype", DTYPES)
def test_shape_and_dtype(
    transform: Transform, size: tuple[int, int], out_dtype: torch.dtype | None, dtype: torch.dtype
) -> None:
    for leading in [(), (2,), (2, 3), (2, 1, 3), (0,), (0, 3), (2, 0)]:
        given = images(*leading, dtype=dtype)
        if isinstance(transform, Normalize) and not dtype.is_floating_point:
            with pytest.raises(InvalidArgumentError, match="float images"):
                transform(given)
            continue
        before = given.clone()
        result = transform(given)
        assert result.shape == (*leading, 3, *size)
        assert result.dtype == (out_dtype or dtype), leading
        assert torch.equal(given, before), f"the input {leading} was modified"


@by_repr
def test_frames_keep_times_and_reports(
    transform: Transform, size: tuple[int, int], out_dtype: torch.dtype | None
) -> None:
    given = batch(2, 3).to(torch.float32)
    result = transform(given)
    assert type(result) is FrameBatch
    assert result.data.shape == (2, 3, 3, *size)
    assert torch.equal(result.pts_seconds, given.pts_seconds)
    assert torch.equal(result.duration_seconds, given.duration_seconds)
    assert result.replaced == given.replaced

    frame = Frame(images(dtype=torch.float32), 1.5, 0.04, replaced=given.replaced)
    torch.manual_seed(4)
    changed = transform(frame)
    torch.manual_seed(4)
    assert torch.equal(changed.data, transform(frame.data))
    assert (changed.pts_seconds, changed.duration_seconds, changed.replaced) == (1.5, 0.04, frame.replaced)
    assert frame.data.shape == (3, HEIGHT, WIDTH), "the frame that came in was modified"


class Pair(NamedTuple):
    left: Any
    right: Any


def test_nested_samples_keep_their_structure() -> None:
    flip = RandomHorizontalFlip(p=1.0)
    source = object()
    class_map = torch.zeros(5, 5, 5, dtype=torch.int64)
    sample = {
        "video": batch(2),
        "views": [images(), (images(4), "name")],
        "pair": Pair(images(), torch.tensor([1.0, 2.0])),
        "label": 7,
        "scores": torch.rand(2, 3),
        "class_map": class_map,
        "valid": torch.ones(2, 4, 4, dtype=torch.bool),
        "nothing": None,
        "source": source,
    }
    result = flip(sample)
    assert list(result) == list(sample)
    mirrored = images().flip(-1)
    assert torch.equal(result["video"].data, mirrored.expand(2, 3, HEIGHT, WIDTH))
    assert torch.equal(result["views"][0], mirrored)
    assert isinstance(result["views"][1], tuple)
    assert torch.equal(result["views"][1][0], mirrored.expand(4, 3, HEIGHT, WIDTH))
    assert result["views"][1][1] == "name"
    assert isinstance(result["pair"], Pair)
    assert torch.equal(result["pair"].left, mirrored)
    for key in ("label", "scores", "class_map", "valid", "nothing", "source"):
        assert result[key] is sample[key], key
    assert result["pair"].right is sample["pair"].right
    assert torch.equal(sample["video"].data[0], images()), "the sample that came in was modified"


@pytest.mark.parametrize("kind", [collections.OrderedDict, lambda items: collections.defaultdict(list, items)])
def test_dict_subclasses_stay_themselves(kind: Any) -> None:
    sample = kind([("b", images()), ("a", 1)])
    result = ToFloat()(sample)
    assert type(result) is type(sample)
    assert list(result) == ["b", "a"]
    if isinstance(sample, collections.defaultdict):
        assert result.default_factory is list


@pytest.mark.parametrize(
    "sample",
    [
        5,
        None,
        [],
        {"label": torch.tensor(3)},
        torch.zeros(4, 4),
        torch.zeros(3, 4, 4, dtype=torch.int64),
        torch.zeros(3, 4, 4, dtype=torch.bool),
    ],
    ids=str,
)
@pytest.mark.parametrize("transform", [ToFloat(), RandomHorizontalFlip()], ids=repr)
def test_a_sample_without_images_is_an_error(transform: Transform, sample: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"Found no images .*Accepted: a tensor \(..., C, H, W\)"):
        transform(sample)


def test_frames_of_another_dtype_are_an_error() -> None:
    with pytest.raises(InvalidArgumentError, match=r"got torch\.int64"):
        ToFloat()(Frame(torch.zeros(3, 4, 4, dtype=torch.int64), 0.0, 1.0))


# --- one draw for each clip


@pytest.mark.parametrize("transform", RANDOM, ids=repr)
@pytest.mark.parametrize("seed", range(6))
def test_all_frames_of_a_clip_get_the_same_numbers(transform: Transform, seed: int) -> None:
    torch.manual_seed(seed)
    result = transform(images(5))
    assert all(torch.equal(result[0], frame) for frame in result)


@pytest.mark.parametrize("transform", RANDOM, ids=repr)
def test_every_clip_has_its_own_draw(transform: Transform) -> None:
    torch.manual_seed(0)
    result = transform(images(12, 3))
    assert all(torch.equal(clip[0], frame) for clip in result for frame in clip)
    assert len({clip[0].numpy().tobytes() for clip in result}) > 1, "all clips were treated alike"
    # The random numbers are the same, in the same order, as for one clip at a time.
    torch.manual_seed(0)
    assert torch.equal(result, torch.stack([transform(clip) for clip in images(12, 3)]))


@pytest.mark.parametrize("transform", RANDOM, ids=repr)
def test_more_leading_dimensions_are_more_clips(transform: Transform) -> None:
    torch.manual_seed(0)
    nested = transform(images(2, 4, 3))
    torch.manual_seed(0)
    assert torch.equal(nested.flatten(0, 1), transform(images(8, 3)))


@pytest.mark.parametrize("transform", RANDOM, ids=repr)
def test_the_images_of_a_sample_share_the_draw(transform: Transform) -> None:
    for seed in range(6):
        torch.manual_seed(seed)
        left, right = transform({"left": batch(2), "right": [images()]}).values()
        assert torch.equal(left.data[0], right[0])
    clips, masks = transform([images(8, 3), images(8, 1)])
    assert torch.equal(clips[:, :1], masks)


@pytest.mark.parametrize("transform", RANDOM, ids=repr)
def test_a_draw_cannot_be_shared_by_different_numbers_of_clips(transform: Transform) -> None:
    with pytest.raises(InvalidArgumentError, match=r"same number of clips \(got \[1, 4\]"):
        transform([images(4, 2), images(4)])


@pytest.mark.parametrize("transform", [RandomCrop((8, 10)), RandomResizedCrop((8, 10))], ids=repr)
def test_a_random_window_needs_one_size(transform: Transform) -> None:
    with pytest.raises(InvalidArgumentError, match=r"\(16, 24\), \(20, 20\)"):
        transform([images(), torch.zeros(3, 20, 20)])


def test_transforms_without_a_random_window_accept_mixed_sizes() -> None:
    mixed = [images(2, 3), torch.zeros(3, 20, 20)]
    assert [tuple(image.shape) for image in CenterCrop((8, 10))(mixed)] == [(2, 3, 3, 8, 10), (3, 8, 10)]
    flipped = RandomHorizontalFlip(p=1.0)([images(), torch.zeros(3, 20, 20)])
    assert [tuple(image.shape) for image in flipped] == [(3, HEIGHT, WIDTH), (3, 20, 20)]


@pytest.mark.parametrize("transform", RANDOM, ids=repr)
def test_random_numbers_come_only_from_torchs_cpu_generator(transform: Transform) -> None:
    clips = images(6, 2)
    torch.manual_seed(5)
    expected = transform(clips)
    torch.manual_seed(5)
    with torch.device("meta"):  # as under torch.set_default_device("cuda")
        again = transform(clips)
    assert torch.equal(again, expected)


@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 1.0])
def test_flips_happen_with_probability_p(p: float) -> None:
    torch.manual_seed(0)
    clips = torch.tensor([0, 1], dtype=torch.uint8).expand(4000, 1, 1, 1, 2)
    flipped = RandomHorizontalFlip(p)(clips)[:, 0, 0, 0, 0].to(torch.int64).sum().item()
    assert abs(flipped - 4000 * p) <= 5 * math.sqrt(4000 * p * (1 - p))


def test_flip_draws_one_number_a_clip() -> None:
    torch.manual_seed(9)
    flipped = RandomHorizontalFlip(0.4)(images(10, 2))
    torch.manual_seed(9)
    expected = [bool(torch.rand(1) < 0.4) for _ in range(10)]
    assert [not torch.equal(clip, images(2)) for clip in flipped] == expected


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan"), "0.5", None, True])
def test_flip_checks_its_probability(p: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^p must be a (probability|number)"):
        RandomHorizontalFlip(p)


# --- as modules


@by_repr
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_copies_transform_in_the_same_way(transform: Transform, size: Any, out_dtype: Any, duplicate: Any) -> None:
    given = images(2, 3, dtype=torch.float32)
    torch.manual_seed(2)
    expected = transform(given)
    torch.manual_seed(2)
    twin = duplicate(transform)
    assert repr(twin) == repr(transform)
    assert torch.equal(twin(given), expected)


def test_arguments_are_checked_at_construction() -> None:
    for construct in (
        lambda: Pad(-1),
        lambda: Pad(1, fill=float("inf")),
        lambda: Normalize((0.5,), (0.0,)),
        lambda: ToFloat(torch.uint8),
    ):
        with pytest.raises(InvalidArgumentError):
            construct()


@pytest.mark.parametrize(
    ("transform", "function"),
    [
        (Resize((8, 10)), lambda given: functional.resize(given, (8, 10))),
        (CenterCrop((8, 10)), lambda given: functional.center_crop(given, (8, 10))),
        (Pad((1, 2), fill=0.5), lambda given: functional.pad(given, (1, 2), fill=0.5)),
        (RandomHorizontalFlip(p=1.0), functional.horizontal_flip),
        (Normalize((0.5,) * 3, (0.25,) * 3), lambda given: functional.normalize(given, (0.5,) * 3, (0.25,) * 3)),
        (ToFloat(torch.float64), lambda given: functional.to_float(given, torch.float64)),
    ],
    ids=lambda value: repr(value) if isinstance(value, Transform) else "",
)
def test_functions_equal_transforms(transform: Transform, function: Any) -> None:
    sample = {"video": batch(3).to(torch.float32), "image": images(dtype=torch.float32), "label": 7}
    ours, theirs = function(sample), transform(sample)
    assert torch.equal(ours["video"].data, theirs["video"].data)
    assert torch.equal(ours["video"].pts_seconds, sample["video"].pts_seconds)
    assert torch.equal(ours["image"], theirs["image"])
    assert ours["label"] == 7


class RandomRow(DecoderTransform):
    """Crops a random row."""

    def resolve(self, height: int, width: int) -> tuple[CropStep, ...]:
        return (CropStep(int(torch.randint(0, height, ())), 0, 1, width),)


def test_a_custom_decoder_transform_works_on_tensors() -> None:
    torch.manual_seed(0)
    result = RandomRow()(images(20, 3))
    torch.manual_seed(0)
    rows = [int(torch.randint(0, HEIGHT, ())) for _ in range(20)]
    assert len(set(rows)) > 5
    assert all(torch.equal(clip, images(3)[..., row : row + 1, :]) for clip, row in zip(result, rows, strict=True))


class RandomGain(Transform):
    """Multiplies images by a random number."""

    is_random = True

    def make_params(self, images: Any) -> float:
        return torch.rand(1).item()

    def transform(self, images: torch.Tensor, params: float) -> torch.Tensor:
        return images * params


def test_a_custom_transform_draws_once_for_each_clip() -> None:
    torch.manual_seed(0)
    result = RandomGain()(torch.ones(4, 2, 3, 5, 5))
    torch.manual_seed(0)
    for clip in result:
        assert (clip == torch.rand(1)).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@by_repr
def test_on_cuda_as_on_cpu(transform: Transform, size: Any, out_dtype: Any) -> None:
    given = images(2, 3, dtype=torch.float32 if isinstance(transform, Normalize) else torch.uint8)
    torch.manual_seed(3)
    expected = transform(given)
    torch.manual_seed(3)
    result = transform(given.cuda())
    assert result.device.type == "cuda"
    tolerance = 1 if expected.dtype == torch.uint8 else 1e-5
    torch.testing.assert_close(result.cpu().to(torch.float64), expected.to(torch.float64), rtol=0, atol=tolerance)
