"""GIF: composition, palettes and interlacing, compared with a slow version of the standard and with other programs."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
from PIL import Image

import images
from images import hwc
from images_gif import GifPicture, gif, random_pictures, shown
from mediatensor.decoders import decode_gif, decode_image

SIZE = (12, 15)
PALETTE = np.random.default_rng(0).integers(0, 256, (16, 3))


def nhwc(data: bytes, mode: str) -> np.ndarray:
    image = decode_gif(data, mode=mode)
    return hwc(image if image.ndim == 4 else image[None])


@pytest.mark.parametrize("seed", range(40))
def test_pictures_are_drawn_as_the_standard_says(seed: int) -> None:
    pictures = random_pictures(seed, SIZE)
    data = gif(SIZE, pictures, PALETTE, background=3)
    expected = shown(SIZE, pictures, PALETTE, background=3)
    np.testing.assert_array_equal(nhwc(data, "RGBA"), expected)
    np.testing.assert_array_equal(nhwc(data, "RGB"), expected[..., :3])


@pytest.mark.parametrize("seed", range(4))
def test_pictures_are_those_of_the_ffmpeg_program(seed: int, ffmpeg_program: str) -> None:
    # All have a transparent colour, because the program shows uncovered pixels in the background colour.
    pictures = [picture._replace(transparent=picture.transparent or 0) for picture in random_pictures(seed, SIZE)]
    data = gif(SIZE, pictures, PALETTE)
    command = [ffmpeg_program, "-v", "error", "-f", "gif", "-i", "pipe:0", "-f", "rawvideo", "-fps_mode", "passthrough"]
    run = subprocess.run([*command, "-pix_fmt", "rgba", "pipe:1"], input=data, capture_output=True, check=True)
    theirs, ours = np.frombuffer(run.stdout, np.uint8).reshape(-1, *SIZE, 4), nhwc(data, "RGBA")
    np.testing.assert_array_equal(ours[..., 3], theirs[..., 3])
    np.testing.assert_array_equal(ours * (ours[..., 3:] > 0), theirs * (theirs[..., 3:] > 0))


@pytest.mark.parametrize("options", [{}, {"interlace": 1}, {"interlace": 0, "optimize": True}])
def test_stills_are_those_of_pillow(options: dict[str, int]) -> None:
    data = images.encoded(Image.fromarray(images.picture(61, 83)).quantize(200), "GIF", **options)
    with Image.open(images.io.BytesIO(data)) as image:
        expected = np.asarray(image.convert("RGB"))
    decoded = decode_image(data, mode="UNCHANGED")
    assert decoded.shape == (3, 61, 83)
    np.testing.assert_array_equal(hwc(decoded), expected)


def test_alpha_only_where_something_can_be_transparent() -> None:
    whole = GifPicture(np.zeros(SIZE, int))
    part = GifPicture(np.zeros((2, 2), int), 1, 1)
    channels = {
        "covers": ([whole, part], 3),
        "transparent colour": ([whole, part._replace(transparent=5)], 4),
        "bare canvas": ([part, whole], 4),
        "bared canvas": ([whole._replace(disposal=2), part], 4),
        "bared at the end": ([whole, part._replace(disposal=2)], 3),
        "back to nothing": ([whole._replace(disposal=3), part], 4),
    }
    for name, (pictures, expected) in channels.items():
        assert decode_gif(gif(SIZE, pictures, PALETTE), mode="UNCHANGED").shape[1] == expected, name


def test_transparency_and_disposal_are_those_of_one_picture() -> None:
    first = GifPicture(np.full(SIZE, 2), transparent=5, disposal=3)
    second = GifPicture(np.full((2, 2), 5))
    data = gif(SIZE, [first, second], PALETTE)
    control = data.rindex(b"\x21\xf9\x04")
    image = decode_gif(data[:control] + data[control + 8 :], mode="RGBA")
    expected = shown(SIZE, [first, second], PALETTE)
    np.testing.assert_array_equal(hwc(image), expected)


def test_a_picture_beyond_the_canvas_extends_it_only_if_it_is_the_first() -> None:
    large = GifPicture(np.full((20, 20), 2))
    small = GifPicture(np.full((4, 4), 7))
    assert decode_gif(gif((4, 4), [large, small], PALETTE)).shape == (2, 3, 20, 20)
    image = decode_gif(gif((4, 4), [small, large], PALETTE))
    assert image.shape == (2, 3, 4, 4)
    assert image[1, :, 0, 0].tolist() == PALETTE[2].tolist()
