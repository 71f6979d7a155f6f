"""Images as videos of one frame."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms

import images
from mediatensor.decoders import VideoDecoder, decode_image
from mediatensor.errors import StreamError

LOSSLESS = {"PNG": {}, "WEBP": {"lossless": True}, "TIFF": {}}


@pytest.fixture(scope="module")
def profile() -> bytes:
    """A colour profile, to which PNG files give a name."""
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


@pytest.mark.parametrize("orientation", images.ORIENTATIONS)
@pytest.mark.parametrize("kind", LOSSLESS)
def test_an_image_as_a_video_is_upright(kind: str, orientation: int, profile: bytes) -> None:
    exif = Image.Exif()
    exif[0x112] = orientation
    data = images.encoded(images.picture(), kind, exif=exif, icc_profile=profile, **LOSSLESS[kind])
    decoder = VideoDecoder(data, dimension_order="NHWC")
    assert len(decoder) == 1
    np.testing.assert_array_equal(decoder[0].numpy(), images.ORIENTATIONS[orientation](images.picture()))


@pytest.mark.parametrize("name", ["photo.jpg", "photo.jpeg", "scan%03d.jpg", "photo"])
def test_a_jpeg_opens_as_a_video_whatever_its_name_is(tmp_path: Path, name: str) -> None:
    data = images.encoded(images.picture(64, 80), "JPEG", subsampling=0)
    (tmp_path / name).write_bytes(data)
    frame = VideoDecoder(tmp_path / name)[0]
    # Another decoder converts the colours here.
    assert (frame.int() - decode_image(data).int()).abs().max() <= 8
    np.testing.assert_array_equal(frame, VideoDecoder(data)[0])


def test_the_error_names_decode_image_for_an_animation_that_is_not_a_video() -> None:
    first, second = (Image.fromarray(np.roll(images.picture(), shift, axis=1)) for shift in (0, 9))
    animation = images.encoded(first, "WEBP", save_all=True, append_images=[second])
    with pytest.raises(StreamError, match="decode_image"):
        VideoDecoder(animation)[0]
    assert len(decode_image(animation)) == 2
