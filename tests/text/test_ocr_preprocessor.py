"""Compare batches of images with formulas: shapes, padding and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.models.preprocessor import FlexiblePreProcessor, PreProcessor

SIZE = (40, 60)


def white(height: int, width: int, dtype: Any = np.uint8) -> np.ndarray:
    return np.full((height, width, 3), 255 if dtype == np.uint8 else 1, dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32])
def test_lists_are_cut_into_batches_and_arrays_are_one(dtype: Any) -> None:
    processor = PreProcessor(SIZE, batch_size=2)
    for images, counts in (([white(80, 30, dtype)] * 3, [2, 1]), (np.stack([white(80, 30, dtype)] * 3), [3])):
        batches = processor(images)
        assert [(tuple(batch.shape), batch.dtype) for batch in batches] == [
            ((count, 3, *SIZE), torch.float32) for count in counts
        ]
        # (1 - mean) / deviation, with 0.5 and 1.
        assert all((batch == 0.5).all() for batch in batches)


def test_images_of_a_batch_may_have_different_dtypes() -> None:
    images = [np.full((80, 30, 3), 51, np.uint8), np.full((80, 30, 3), 0.2, np.float32)]
    (batch,) = PreProcessor(SIZE, 2)(images)
    assert torch.allclose(batch, torch.tensor(0.2 - 0.5))


@pytest.mark.parametrize(
    ("height", "width", "symmetric", "rows", "columns"),
    [
        (20, 60, False, (0, 20), (0, 60)),
        (20, 60, True, (10, 30), (0, 60)),
        (80, 30, True, (0, 40), (23, 38)),  # 15 wide: 45 to spare, the greater half on the left
        (80, 30, False, (0, 40), (0, 15)),
        (20, 30, True, (0, 40), (0, 60)),
    ],
)
def test_masks_are_where_the_pictures_are(
    height: int, width: int, symmetric: bool, rows: tuple[int, int], columns: tuple[int, int]
) -> None:
    processor = PreProcessor(
        SIZE, 2, (0, 0, 0), (1, 1, 1), preserve_aspect_ratio=True, symmetric_pad=symmetric, return_padding_mask=True
    )
    expected = torch.zeros(SIZE, dtype=torch.bool)
    expected[slice(*rows), slice(*columns)] = True
    batches, masks = processor([white(height, width)] * 3)
    assert [tuple(mask.shape) for mask in masks] == [(2, *SIZE), (1, *SIZE)]
    for batch, mask in zip(batches, masks, strict=True):
        assert mask.dtype == torch.bool
        assert (mask == expected).all()
        assert torch.equal(batch > 0, mask[:, None].expand_as(batch))

    sample, own = processor.sample_transforms(white(height, width))
    assert torch.equal(own, expected)
    assert torch.equal(sample, expected.float().expand(3, -1, -1))
    joined, joined_masks = processor.batch_inputs([(sample, own)] * 3)
    assert all(torch.equal(*pair) for pair in zip(joined, batches, strict=True))
    assert all(torch.equal(*pair) for pair in zip(joined_masks, masks, strict=True))


def test_an_array_is_stretched_and_has_no_padding() -> None:
    processor = PreProcessor(SIZE, 2, preserve_aspect_ratio=True, return_padding_mask=True)
    [batch], [mask] = processor(np.stack([white(80, 30)] * 3))
    assert tuple(batch.shape) == (3, 3, *SIZE)
    assert mask.all()
    assert tuple(mask.shape) == (3, *SIZE)


def test_nothing_gives_no_batches() -> None:
    processor = PreProcessor(SIZE, 2)
    assert processor([]) == []
    assert processor.batch_inputs([]) == []
    assert processor(np.zeros((0, 8, 8, 3), np.uint8)) == []


@pytest.mark.parametrize(
    "images",
    [
        42,
        white(80, 30),
        [white(80, 30)[None]],
        [np.zeros((80, 30, 3), np.int32)],
        np.zeros((1, 80, 30, 3), np.int32),
        [np.zeros((80, 30, 3), np.float64)],
        ["page"],
    ],
)
def test_other_inputs_than_lists_of_images_are_rejected(images: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        PreProcessor(SIZE, 2)(images)


@pytest.mark.parametrize("size", [None, 0, 3.5, (32,), (32, 32, 3), (0, 32), (32, 1.5), "ab"])
def test_sizes_are_two_positive_integers(size: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="size must be"):
        PreProcessor(size, 2)
    assert PreProcessor(32, 2).resize.size == PreProcessor(np.array([32, 32]).tolist(), 2).resize.size == (32, 32)
    with pytest.raises(InvalidArgumentError, match="multiple"):
        FlexiblePreProcessor(32, 64, 2, multiple=0)


def test_what_it_does_is_shown_and_can_be_looked_up() -> None:
    processor = PreProcessor(SIZE, 2, preserve_aspect_ratio=True)
    resize = "Resize(output_size=(40, 60), interpolation='bilinear', preserve_aspect_ratio=True, symmetric_pad=False)"
    assert repr(processor).splitlines() == [
        "PreProcessor(",
        f"  (resize): {resize}",
        "  (normalize): Normalize(mean=(0.5, 0.5, 0.5), std=(1.0, 1.0, 1.0))",
        ")",
    ]
    assert (processor.resize.size, processor.normalize.std) == (SIZE, (1.0, 1.0, 1.0))
