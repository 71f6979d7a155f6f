"""Transforms inside the decoder: against the plain frames, and against PyAV's own conversion."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from av.video.reformatter import Interpolation, VideoReformatter
from numpy.typing import NDArray

from media_writing import ClipSpec, write_clip
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import InvalidArgumentError
from mediatensor.transforms import CenterCrop, RandomCrop, RandomResizedCrop, Resize

HEIGHT, WIDTH, NUM_FRAMES = 96, 144, 20


def landscape(number: int, width: int, height: int) -> NDArray[np.uint8]:
    """A picture with the spectrum of nature: coarse structure strong, fine structure weak, moving slowly."""
    generator = np.random.default_rng(0)
    y, x = np.mgrid[:height, :width]
    picture = np.full((height, width, 3), 128.0)
    for _ in range(60):
        period = generator.uniform(8, 120)
        angle, phase = generator.uniform(0, 2 * np.pi, 2)
        colour = generator.normal(size=3) * 0.3 + 1
        wave = np.sin((x * np.cos(angle) + y * np.sin(angle) + 2 * number) * 2 * np.pi / period + phase)
        picture += wave[..., None] * colour * period / 12
    return picture.clip(0, 255).astype(np.uint8)


LANDSCAPE = ClipSpec(
    "a natural spectrum",
    options={"crf": "16", "g": "8", "bf": "2"},
    size=(WIDTH, HEIGHT),
    num_frames=NUM_FRAMES,
    paint=landscape,
)


@pytest.fixture(scope="module")
def landscape_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(LANDSCAPE, tmp_path_factory.mktemp("landscape") / "landscape.mp4")


@pytest.fixture(scope="module")
def rotated_clip(landscape_clip: Path) -> Path:
    """The same pictures with a quarter turn in the header: shown WIDTH high and HEIGHT wide."""
    path = landscape_clip.with_name("rotated.mp4")
    write_clip(replace(LANDSCAPE, configure=lambda stream: stream.set_display_rotation(90)), path)
    return path


def scaled_by_pyav(path: Path, height: int, width: int, *, one_pass: bool = False) -> torch.Tensor:
    """Return all frames (N, 3, height, width), converted to RGB and then scaled, or both in one pass."""
    to_rgb, scaler, frames = VideoReformatter(), VideoReformatter(), []
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            if not one_pass:
                frame = to_rgb.reformat(frame, format="rgb24", interpolation=Interpolation.BICUBIC, threads=1)
            frame = scaler.reformat(
                frame, width, height, format="rgb24", interpolation=Interpolation.BILINEAR, threads=1
            )
            frames.append(frame.to_ndarray())
    return torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2)


def scaled_array_by_pyav(pixels: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """One RGB frame (3, H, W), scaled."""
    frame = av.VideoFrame.from_ndarray(pixels.permute(1, 2, 0).contiguous().numpy(), format="rgb24")
    scaled = VideoReformatter().reformat(frame, width, height, interpolation=Interpolation.BILINEAR, threads=1)
    return torch.from_numpy(scaled.to_ndarray()).permute(2, 0, 1)


def frames_of(path: Path, *transforms: object, **options: Any) -> torch.Tensor:
    return VideoDecoder(path, transforms=transforms, **options).get_all_frames().data


def test_center_crop_is_the_window_of_the_plain_frames(landscape_clip: Path) -> None:
    plain = frames_of(landscape_clip)
    assert plain.shape == (NUM_FRAMES, 3, HEIGHT, WIDTH)
    # (96 - 31) / 2 = 32.5 -> 32, (144 - 50) / 2 = 47
    assert torch.equal(frames_of(landscape_clip, CenterCrop((31, 50))), plain[..., 32 : 32 + 31, 47 : 47 + 50])


def test_every_method_applies_the_transforms(landscape_clip: Path) -> None:
    plain = frames_of(landscape_clip)[..., 32:64, 42:102]
    decoder = VideoDecoder(landscape_clip, transforms=[CenterCrop((32, 60))])
    assert torch.equal(decoder[3], plain[3])
    assert torch.equal(decoder[4:15:3], plain[4:15:3])
    assert torch.equal(decoder.get_frame_at(7).data, plain[7])
    assert torch.equal(decoder.get_frames_at([9, 2, 9]).data, plain[[9, 2, 9]])
    assert torch.equal(decoder.get_frame_played_at(0.41).data, plain[10])
    assert torch.equal(decoder.get_frames_played_in_range(0.2, 0.4).data, plain[5:10])
    assert all(torch.equal(frame, expected) for frame, expected in zip(decoder, plain, strict=True))
    assert decoder[5:5].shape == (0, 3, 32, 60)


def test_a_crop_of_decoded_frames_equals_the_crop_in_the_decoder(landscape_clip: Path) -> None:
    crop = CenterCrop((31, 50))
    assert torch.equal(crop(VideoDecoder(landscape_clip).get_all_frames()).data, frames_of(landscape_clip, crop))


def test_metadata_describes_the_stream_not_the_result(landscape_clip: Path) -> None:
    metadata = VideoDecoder(landscape_clip, transforms=[Resize((10, 20))]).metadata
    assert (metadata.height, metadata.width) == (HEIGHT, WIDTH)


@pytest.mark.parametrize("size", [(64, 96), (48, 72), (33, 47), (150, 200), (96, 100), (224, 20)])
def test_resize_is_a_second_pass_over_rgb(landscape_clip: Path, size: tuple[int, int]) -> None:
    assert torch.equal(frames_of(landscape_clip, Resize(size)), scaled_by_pyav(landscape_clip, *size))


@pytest.mark.parametrize("size", [(64, 96), (80, 100), (96, 144), (150, 200)])
def test_resize_is_close_to_the_resize_of_tensors(landscape_clip: Path, size: tuple[int, int]) -> None:
    resize = Resize(size)
    difference = (
        frames_of(landscape_clip, resize).to(torch.int16) - resize(frames_of(landscape_clip)).to(torch.int16)
    ).abs()
    assert (difference <= 2).double().mean() >= 0.99


@pytest.mark.parametrize("size", [(64, 96), (48, 72), (150, 200)])
def test_fast_resize_is_one_pass(landscape_clip: Path, size: tuple[int, int]) -> None:
    fast = frames_of(landscape_clip, Resize(size, fast=True))
    assert torch.equal(fast, scaled_by_pyav(landscape_clip, *size, one_pass=True))
    difference = (fast.to(torch.int16) - frames_of(landscape_clip, Resize(size)).to(torch.int16)).abs().double()
    assert 0 < difference.mean() <= 3
    assert (difference <= 8).double().mean() >= 0.95


def test_transforms_apply_in_order(landscape_clip: Path) -> None:
    plain = frames_of(landscape_clip)
    crop_first = frames_of(landscape_clip, CenterCrop((48, 60)), Resize((40, 50)))
    resize_first = frames_of(landscape_clip, Resize((40, 50)), CenterCrop((30, 20)))
    assert torch.equal(crop_first[2], scaled_array_by_pyav(plain[2, :, 24:72, 42:102], 40, 50))
    assert torch.equal(resize_first, scaled_by_pyav(landscape_clip, 40, 50)[..., 5:35, 15:35])


def test_random_crop_is_drawn_once_for_a_decoder(landscape_clip: Path) -> None:
    plain = frames_of(landscape_clip)
    crop = RandomCrop((40, 60))
    windows = set()
    for seed in range(8):
        torch.manual_seed(seed)
        decoder = VideoDecoder(landscape_clip, transforms=[crop])
        torch.manual_seed(seed)
        top, left = int(torch.randint(0, HEIGHT - 40 + 1, ())), int(torch.randint(0, WIDTH - 60 + 1, ()))
        windows.add((top, left))
        for _ in range(2):
            assert torch.equal(decoder.get_all_frames().data, plain[..., top : top + 40, left : left + 60])
        assert torch.equal(pickle.loads(pickle.dumps(decoder))[5], decoder[5])
    assert len(windows) == 8, "one object must draw again for every decoder"


def test_random_resized_crop_is_a_crop_and_a_second_pass(landscape_clip: Path) -> None:
    transform = RandomResizedCrop((30, 40), scale=(0.2, 0.5))
    torch.manual_seed(1)
    frames = frames_of(landscape_clip, transform)
    torch.manual_seed(1)
    window = transform.resolve(HEIGHT, WIDTH)[0]
    rows, columns = slice(window.top, window.top + window.height), slice(window.left, window.left + window.width)
    for frame, plain in zip(frames, frames_of(landscape_clip), strict=True):
        assert torch.equal(frame, scaled_array_by_pyav(plain[:, rows, columns], 30, 40))


def test_frames_are_upright_before_they_are_transformed(rotated_clip: Path) -> None:
    # The stored frames, turned here, because encoding the pictures again can give other bits.
    upright = scaled_by_pyav(rotated_clip, HEIGHT, WIDTH).rot90(1, dims=(-2, -1))
    assert torch.equal(frames_of(rotated_clip), upright)
    # 120 rows fit only into the upright frames, 120 columns only into the stored frames.
    assert torch.equal(frames_of(rotated_clip, CenterCrop((120, 40))), upright[..., 12:132, 28:68])
    with pytest.raises(InvalidArgumentError, match=rf"\({WIDTH}, {HEIGHT}\) are smaller"):
        VideoDecoder(rotated_clip, transforms=[CenterCrop((40, 120))])

    resized = frames_of(rotated_clip, Resize((100, 50)))
    assert torch.equal(resized[3], scaled_array_by_pyav(upright[3], 100, 50))
    fast = frames_of(rotated_clip, Resize((100, 50), fast=True))
    assert fast.shape == resized.shape
    assert (fast.to(torch.int16) - resized.to(torch.int16)).abs().double().mean() <= 3


def test_channels_last_and_float_output(landscape_clip: Path) -> None:
    crop, resize = CenterCrop((32, 60)), Resize((64, 96))
    nhwc = frames_of(landscape_clip, crop, dimension_order="NHWC")
    assert torch.equal(nhwc.permute(0, 3, 1, 2), frames_of(landscape_clip, crop))
    plain = frames_of(landscape_clip, output_dtype=torch.float32)
    assert torch.equal(frames_of(landscape_clip, crop, output_dtype=torch.float32), plain[..., 32:64, 42:102])
    scaled = frames_of(landscape_clip, resize, output_dtype=torch.float32)
    assert scaled.dtype == torch.float32
    assert (scaled - resize(plain)).abs().max() <= 3 / 255


@pytest.mark.parametrize(
    "transforms",
    [
        [CenterCrop((97, 10))],
        [Resize((20, 20)), RandomCrop((10, 21))],
        ["resize"],
        Resize((5, 5)),
        [Resize((2**14, 2**15))],
    ],
    ids=str,
)
def test_impossible_transforms_are_errors_at_construction(landscape_clip: Path, transforms: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        VideoDecoder(landscape_clip, transforms=transforms)
