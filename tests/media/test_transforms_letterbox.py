"""`Letterbox`: place, pixels, mask and boxes, against published formulas, Pillow, torch's pad and PyAV."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from av.video.reformatter import Interpolation, VideoReformatter
from numpy.typing import NDArray
from PIL import Image, ImageOps

import media
from media_writing import ClipSpec, write_clip
from mediatensor.datasets import DataLoader, VideoAudioClips, VideoClips, pad
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import InvalidArgumentError
from mediatensor.frames import FrameBatch
from mediatensor.transforms import CenterCrop, DecoderTransform, Letterbox, Pad, Resize

HEIGHT, WIDTH, NUM_FRAMES = 96, 144, 6
CLIP = ClipSpec("letterbox", size=(WIDTH, HEIGHT), num_frames=NUM_FRAMES)
SIZES = [(64, 64), (96, 144), (99, 121), (200, 150), (31, 300), (96, 1), (1, 50), (97, 145)]


def as_in_yolo(height: int, width: int, size: tuple[int, int]) -> tuple[int, int, int, int, int, int]:
    """The formulas of Ultralytics' ``LetterBox``: new height and width, and margins top, bottom, left and right."""
    ratio = min(size[0] / height, size[1] / width)
    new_width, new_height = round(width * ratio), round(height * ratio)
    dw, dh = (size[1] - new_width) / 2, (size[0] - new_height) / 2
    return new_height, new_width, round(dh - 0.1), round(dh + 0.1), round(dw - 0.1), round(dw + 0.1)


def image_sizes() -> NDArray[Any]:
    return np.random.default_rng(0).integers(1, 3000, (2000, 2))


@pytest.mark.parametrize("size", [(224, 224), (640, 640), (33, 100), (384, 15), (1080, 1920)])
def test_place_matches_yolo(size: tuple[int, int]) -> None:
    letterbox, num_odd = Letterbox(size), 0
    for height, width in image_sizes().tolist():
        new_height, new_width, top, bottom, left, right = as_in_yolo(height, width, size)
        if not new_height or not new_width:  # YOLO cannot handle these sizes
            continue
        place = letterbox.place(height, width)
        assert (place.top, place.left, place.height, place.width) == (top, left, new_height, new_width), (height, width)
        assert (top + new_height + bottom, left + new_width + right) == size
        num_odd += bottom > top or right > left
    assert num_odd > 100, "no margins of an odd number of pixels were tested"


def test_sizes_match_pillow() -> None:
    for height, width in image_sizes()[:400].tolist():
        contained = ImageOps.contain(Image.new("1", (width, height)), (224, 200))
        if min(contained.size):  # Pillow's result can be empty
            place = Letterbox((200, 224)).place(height, width)
            assert (place.width, place.height) == contained.size


@pytest.mark.parametrize(
    ("image", "size", "expected"),
    [
        ((360, 640), (224, 224), (49, 0, 126, 224)),
        ((640, 360), (224, 224), (0, 49, 224, 126)),
        ((100, 100), (224, 320), (0, 48, 224, 224)),  # enlarged
        ((112, 160), (224, 320), (0, 0, 224, 320)),  # no padding
        ((10, 100), (50, 51), (22, 0, 5, 51)),  # 5.1 rows; a margin of 45 is 22 and 23
        ((2, 3000), (64, 64), (31, 0, 1, 64)),  # 0.04 rows: a pixel
        ((3000, 2), (64, 64), (0, 31, 64, 1)),
    ],
)
def test_place_worked_out_by_hand(
    image: tuple[int, int], size: tuple[int, int], expected: tuple[int, int, int, int]
) -> None:
    place = Letterbox(size).place(*image)
    assert (place.top, place.left, place.height, place.width) == expected
    assert (place.scale_y, place.scale_x) == (expected[2] / image[0], expected[3] / image[1])


# On tensors


@pytest.mark.parametrize("image", [(60, 100), (100, 60), (30, 30), (80, 120), (200, 20)])
def test_tensor_is_within_a_level_of_pillow(image: tuple[int, int]) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (*image, 3), np.uint8)
    size, fill = (81, 120), (10, 200, 30)
    expected = ImageOps.contain(Image.fromarray(pixels), size[::-1], Image.Resampling.BILINEAR)
    canvas = Image.new("RGB", size[::-1], fill)
    canvas.paste(expected, ((size[1] - expected.width) // 2, (size[0] - expected.height) // 2))
    boxed = Letterbox(size, fill=fill)(torch.from_numpy(pixels).permute(2, 0, 1))
    difference = boxed.permute(1, 2, 0).numpy().astype(int) - np.asarray(canvas).astype(int)
    assert np.abs(difference).max() <= 1
    assert not difference[~Letterbox(size).mask(*image).numpy()].any()


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [(torch.uint8, 255), (torch.uint16, 40_000), (torch.float16, -0.5), (torch.bfloat16, 2), (torch.float64, 1 / 3)],
    ids=str,
)
def test_every_dtype_of_images_is_padded(dtype: torch.dtype, fill: float) -> None:
    images = torch.ones(2, 5, 1, 10, 30).to(dtype)
    boxed = Letterbox((30, 30), fill=fill)(images)
    assert boxed.dtype == dtype
    assert boxed.shape == (2, 5, 1, 30, 30)
    assert (boxed[..., 10:20, :].double() == 1).all()
    value = torch.tensor(fill, dtype=torch.float64).to(dtype)
    assert (boxed[..., :10, :] == value).all()
    assert (boxed[..., 20:, :] == value).all()


def test_each_image_of_a_sample_has_its_own_place() -> None:
    sample = Letterbox((20, 20), fill=9)({"wide": torch.zeros(3, 10, 20), "tall": [torch.zeros(1, 40, 10)], "label": 7})
    assert sample["label"] == 7
    assert torch.equal(sample["wide"][0] == 0, Letterbox((20, 20)).mask(10, 20))
    assert torch.equal(sample["tall"][0][0] == 0, Letterbox((20, 20)).mask(40, 10))


# In the decoder


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(CLIP, tmp_path_factory.mktemp("letterbox") / "clip.mp4")


@pytest.fixture(scope="module")
def rotated_clip(clip: Path) -> Path:
    path = clip.with_name("rotated.mp4")
    write_clip(replace(CLIP, configure=lambda stream: stream.set_display_rotation(90)), path)
    return path


@pytest.fixture(scope="module")
def deep_clip(clip: Path) -> Path:
    path = clip.with_name("deep.mkv")
    write_clip(replace(CLIP, codec="ffv1", container="matroska", pix_fmt="yuv420p10le"), path)
    return path


@pytest.fixture(scope="module")
def white_clip(clip: Path) -> Path:
    path = clip.with_name("white.mp4")
    write_clip(replace(CLIP, paint=lambda number, width, height: np.full((height, width, 3), 255, np.uint8)), path)
    return path


def frames_of(path: Path, *transforms: object, **options: Any) -> torch.Tensor:
    return VideoDecoder(path, transforms=transforms, **options).get_all_frames().data


def padded_by_torch(
    path: Path, size: tuple[int, int], fill: tuple[float, ...], *, fast: bool = False, **options: Any
) -> torch.Tensor:
    """Decode with `Resize`, and pad to ``size`` with torch's own pad."""
    metadata = VideoDecoder(path).metadata
    assert metadata.height is not None
    assert metadata.width is not None
    new_height, new_width, top, bottom, left, right = as_in_yolo(metadata.height, metadata.width, size)
    if not new_height or not new_width:
        new_height, new_width = max(new_height, 1), max(new_width, 1)
        top, left = (size[0] - new_height) // 2, (size[1] - new_width) // 2
        bottom, right = size[0] - new_height - top, size[1] - new_width - left
    frames = frames_of(path, Resize((new_height, new_width), fast=fast), **options)
    values = fill * (3 // len(fill))
    channels = [
        torch.nn.functional.pad(frames[:, i], (left, right, top, bottom), value=value) for i, value in enumerate(values)
    ]
    return torch.stack(channels, dim=1)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_decoder_pads_its_resized_frames(clip: Path, size: tuple[int, int]) -> None:
    boxed = frames_of(clip, Letterbox(size, fill=114))
    assert boxed.dtype == torch.uint8
    assert torch.equal(boxed, padded_by_torch(clip, size, (114,)))


@pytest.mark.parametrize("size", [(64, 64), (99, 121), (60, 200)], ids=str)
@pytest.mark.parametrize("fill", [(0.0,), (1.0,), (0.447,), (0.5, 1 / 3, 0.25)], ids=str)
def test_float_frames_have_the_exact_fill(
    clip: Path, deep_clip: Path, size: tuple[int, int], fill: tuple[float, ...]
) -> None:
    for path, dtype in ((clip, torch.float32), (deep_clip, "auto")):
        boxed = frames_of(path, Letterbox(size, fill=fill), output_dtype=dtype)
        assert boxed.dtype == torch.float32
        assert torch.equal(boxed, padded_by_torch(path, size, fill, output_dtype=dtype))


def test_10_bit_frames_as_uint8(deep_clip: Path) -> None:
    assert torch.equal(
        frames_of(deep_clip, Letterbox((64, 64), fill=(1, 2, 3))), padded_by_torch(deep_clip, (64, 64), (1, 2, 3))
    )


@pytest.mark.parametrize("size", [(64, 64), (100, 40), (200, 210)], ids=str)
@pytest.mark.parametrize("fast", [False, True])
def test_rotated_frames_are_upright_before_they_are_placed(
    rotated_clip: Path, size: tuple[int, int], fast: bool
) -> None:
    boxed = frames_of(rotated_clip, Letterbox(size, fill=(7, 8, 9), fast=fast))
    assert Letterbox(size).place(WIDTH, HEIGHT).height > Letterbox(size).place(HEIGHT, WIDTH).height
    assert torch.equal(boxed, padded_by_torch(rotated_clip, size, (7, 8, 9), fast=fast))


def test_every_method_and_layout(clip: Path) -> None:
    expected = padded_by_torch(clip, (70, 64), (1, 2, 3))
    letterbox = Letterbox((70, 64), fill=[1, 2, 3])
    decoder = VideoDecoder(clip, transforms=[letterbox], dimension_order="NHWC")
    assert torch.equal(decoder[2].permute(2, 0, 1), expected[2])
    assert torch.equal(decoder[1:5:2].permute(0, 3, 1, 2), expected[1:5:2])
    assert torch.equal(decoder.get_frames_at([4, 4, 0]).data.permute(0, 3, 1, 2), expected[[4, 4, 0]])
    assert torch.equal(pickle.loads(pickle.dumps(decoder))[5].permute(2, 0, 1), expected[5])
    assert torch.equal(torch.stack(list(VideoDecoder(clip, transforms=[letterbox]))), expected)


def scaled_by_pyav(pixels: torch.Tensor, height: int, width: int) -> torch.Tensor:
    frame = av.VideoFrame.from_ndarray(pixels.permute(1, 2, 0).contiguous().numpy(), format="rgb24")
    scaled = VideoReformatter().reformat(frame, width, height, interpolation=Interpolation.BILINEAR, threads=1)
    return torch.from_numpy(scaled.to_ndarray()).permute(2, 0, 1)


def test_later_transforms_see_the_padding(clip: Path) -> None:
    letterbox, crop = Letterbox((120, 100), fill=(200, 100, 50)), CenterCrop((110, 40))
    padded = padded_by_torch(clip, (120, 100), (200, 100, 50))
    assert torch.equal(frames_of(clip, letterbox, crop), padded[..., 5:115, 30:70])
    resized = frames_of(clip, letterbox, Resize((61, 50)))
    assert torch.equal(resized[3], scaled_by_pyav(padded[3], 61, 50))
    twice = frames_of(clip, letterbox, Letterbox((61, 90), fill=5))
    assert torch.equal(twice[3, :, :, 19:70], scaled_by_pyav(padded[3], 61, 51))
    assert (twice[..., :19] == 5).all()

    as_float = frames_of(clip, Letterbox((120, 100), fill=(0.2, 0.7, 0.1)), crop, output_dtype=torch.float32)
    expected = padded_by_torch(clip, (120, 100), (0.2, 0.7, 0.1), output_dtype=torch.float32)[..., 5:115, 30:70]
    assert (as_float - expected).abs().max() <= 0.5 / 65535 + 1e-7  # as precise as 16 bits


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_mask_shows_where_a_white_clip_is_white(white_clip: Path, size: tuple[int, int]) -> None:
    letterbox = Letterbox(size)
    for frames in (frames_of(white_clip, letterbox), letterbox(frames_of(white_clip))):
        mask = letterbox.mask(HEIGHT, WIDTH)
        assert mask.dtype == torch.bool
        assert torch.equal((frames > 128).all(1), mask.expand(NUM_FRAMES, -1, -1))
        assert torch.equal((frames > 0).any(1), mask.expand(NUM_FRAMES, -1, -1))


def test_frames_of_another_size_fill_the_same_place(tmp_path: Path) -> None:
    path = media.make("size_change_mkv", tmp_path)
    letterbox = Letterbox((80, 80), fill=255)
    single = [frame.data for frame in map(VideoDecoder(path).get_frame_at, range(len(VideoDecoder(path))))]
    assert len({frame.shape for frame in single}) > 1
    boxed = frames_of(path, letterbox)
    place = letterbox.place(*single[0].shape[1:])
    inside = boxed[..., place.top : place.top + place.height, place.left : place.left + place.width]
    assert torch.equal(inside, frames_of(path, Resize((place.height, place.width))))
    assert (boxed[..., ~letterbox.mask(*single[0].shape[1:])] == 255).all()


# In datasets


def clips_of(*paths: Path, transforms: Sequence[object], order: str = "NCHW", **options: Any) -> VideoClips:
    decoder_options = {"transforms": list(transforms), "dimension_order": order}
    return VideoClips([str(path) for path in paths], num_frames_per_clip=2, decoder_options=decoder_options, **options)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_clips_of_different_shapes_make_a_batch_with_a_mask(clip: Path, rotated_clip: Path, num_workers: int) -> None:
    letterbox = Letterbox((48, 48))
    (batch,) = DataLoader(clips_of(clip, rotated_clip, transforms=[letterbox]), batch_size=2, num_workers=num_workers)
    assert isinstance(batch.frames, FrameBatch)
    assert batch.frames.data.shape == (2, 2, 3, 48, 48)
    assert batch.extra["frame_box"] == [(0, 8, 48, 40), (8, 0, 40, 48)]
    assert batch.pixel_mask is not None
    assert torch.equal(batch.pixel_mask, torch.stack((letterbox.mask(HEIGHT, WIDTH), letterbox.mask(WIDTH, HEIGHT))))
    assert not batch.frames.data[:, 0].movedim(1, -1)[~batch.pixel_mask].any()
    channels_last = clips_of(clip, rotated_clip, transforms=[letterbox], order="NHWC")
    (last,) = DataLoader(channels_last, batch_size=2, num_workers=num_workers)
    assert last.frames.data.shape == (2, 2, 48, 48, 3)
    assert torch.equal(last.pixel_mask, batch.pixel_mask)
    with pytest.raises(InvalidArgumentError, match="dimension_order='NCHW'"):
        pad([channels_last[0], channels_last[1]])


def test_the_mask_follows_later_transforms_of_the_decoder(white_clip: Path) -> None:
    sequences: list[list[DecoderTransform]] = [
        [Letterbox((96, 96)), CenterCrop((80, 60)), Letterbox((40, 50))],
        [CenterCrop((40, 80)), Letterbox((70, 70)), CenterCrop((30, 66))],  # the crop shows no padding at the top
        [Letterbox((60, 178)), Resize((120, 89))],
        [Letterbox((96, 144))],
    ]
    for transforms in sequences:
        (batch,) = DataLoader(clips_of(white_clip, transforms=transforms))
        assert batch.pixel_mask is not None
        assert torch.equal(batch.pixel_mask, (batch.frames.data[:, 0] > 128).all(1)), transforms


def test_without_padding_there_is_no_box(white_clip: Path) -> None:
    (batch,) = DataLoader(clips_of(white_clip, transforms=[Resize((40, 50))]))
    assert "frame_box" not in batch.extra
    assert batch.pixel_mask is not None
    assert batch.pixel_mask.all()


def test_masks_of_clips_that_are_padded_again(white_clip: Path, clip: Path) -> None:
    samples = [
        clips_of(white_clip, transforms=[Letterbox((50, 60))])[0],
        clips_of(white_clip, transforms=[Letterbox((70, 30))])[0],
        clips_of(white_clip, transforms=[Resize((20, 20))])[0],
    ]
    batch = pad(samples)
    assert isinstance(batch.frames, FrameBatch)
    assert batch.pixel_mask is not None
    assert torch.equal(batch.pixel_mask, (batch.frames.data[:, 0] > 128).all(1))


def test_video_with_audio_has_a_mask(tmp_path: Path) -> None:
    path = media.make("audio_beside_video", tmp_path)
    letterbox = Letterbox((40, 40))
    clips = VideoAudioClips([str(path)], seconds_per_clip=0.4, fps=10, decoder_options={"transforms": [letterbox]})
    (batch,) = DataLoader(clips)
    metadata = VideoDecoder(path).metadata
    assert batch.pixel_mask is not None
    assert torch.equal(batch.pixel_mask[0], letterbox.mask(metadata.height, metadata.width))  # type: ignore[arg-type]


# Boxes


def test_boxes_of_a_bright_rectangle_are_found_again(tmp_path: Path) -> None:
    left, top, right, bottom = 30, 20, 110, 60

    def paint(number: int, width: int, height: int) -> NDArray[np.uint8]:
        picture = np.zeros((height, width, 3), np.uint8)
        picture[top:bottom, left:right] = 255
        return picture

    write_clip(replace(CLIP, paint=paint), tmp_path / "box.mp4")
    box = torch.tensor([left, top, right, bottom])
    for size in ((64, 64), (300, 200), (97, 333)):
        letterbox = Letterbox(size)
        place = letterbox.place(HEIGHT, WIDTH)
        rows, columns = torch.nonzero(
            frames_of(tmp_path / "box.mp4", letterbox)[0].float().mean(0) > 128, as_tuple=True
        )
        seen = torch.stack((columns.min(), rows.min(), columns.max() + 1, rows.max() + 1))
        assert (place.move_boxes(box) - seen).abs().max() <= 1
        assert (place.restore_boxes(seen) - box).abs().max() <= 1 / min(place.scale_x, place.scale_y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_boxes_and_points_come_back(dtype: torch.dtype) -> None:
    place = Letterbox((224, 320)).place(333, 257)
    for shape in ((5, 7, 4), (6, 2), (4,)):
        values = torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=dtype) * 250
        moved = place.move_boxes(values)
        assert moved.dtype == dtype
        assert torch.allclose(place.restore_boxes(moved), values)
    corners = place.move_boxes(torch.tensor([[0, 0], [257, 333]]))
    expected = [[place.left, place.top], [place.left + place.width, place.top + place.height]]
    assert torch.allclose(corners, torch.tensor(expected, dtype=torch.float32))


@pytest.mark.parametrize("boxes", [[1, 2, 3, 4], torch.zeros(3), torch.zeros(2, 5), torch.tensor(1.0), None], ids=repr)
def test_other_boxes_are_errors(boxes: Any) -> None:
    place = Letterbox((8, 8)).place(4, 8)
    for convert in (place.move_boxes, place.restore_boxes):
        with pytest.raises(InvalidArgumentError, match="boxes must be a tensor"):
            convert(boxes)


# Errors


@pytest.mark.parametrize("length", [0, -3, 2.5, None, True], ids=repr)
def test_image_sizes_must_be_positive_whole_numbers(length: Any) -> None:
    letterbox = Letterbox((5, 5))
    functions: list[Callable[..., object]] = [letterbox.place, letterbox.mask, letterbox.resolve]
    for function in functions:
        with pytest.raises(InvalidArgumentError, match="height must be"):
            function(length, 5)
        with pytest.raises(InvalidArgumentError, match="width must be"):
            function(5, length)


@pytest.mark.parametrize(
    ("fill", "options", "message"),
    [
        (256, {}, r"fill of torch.uint8 images must be whole numbers from 0 to 255 \(got \(256.0,\)\)"),
        (0.5, {}, "whole numbers from 0 to 255"),
        (-1, {}, "whole numbers from 0 to 255"),
        (114, {"output_dtype": torch.float32}, r"fill of torch.float32 images must be numbers from 0 to 1 \(got"),
        (-0.1, {"output_dtype": torch.float32}, "numbers from 0 to 1"),
        ((1, 2), {}, "1 value or one for each of 3 channels"),
        ((1, 2, 3, 4), {}, "1 value or one for each of 3 channels"),
    ],
)
def test_a_fill_that_frames_cannot_have_is_an_error_at_construction(
    clip: Path, fill: Any, options: dict[str, Any], message: str
) -> None:
    for size in ((64, 64), (HEIGHT, WIDTH)):  # whether there is padding or not
        with pytest.raises(InvalidArgumentError, match=message):
            VideoDecoder(clip, transforms=[Letterbox(size, fill=fill)], **options)


def test_a_size_that_is_too_large_is_an_error(clip: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="are too large"):
        VideoDecoder(clip, transforms=[Letterbox((2**15, 2**14))])
    for transform in (Letterbox((2**15, 2**14)), Pad(2**14)):
        with pytest.raises(InvalidArgumentError, match="are too large"):
            transform(torch.zeros(3, 4, 6, dtype=torch.uint8))


def test_repr_shows_the_arguments() -> None:
    assert repr(Letterbox((5, 7), fill=3)) == "Letterbox(size=(5, 7), fill=(3.0,), fast=False)"
