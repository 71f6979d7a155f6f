"""Images as videos of one frame."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms

import images
from mediatensor.decoders import VideoDecoder, decode_image
from mediatensor.errors import OpenError, StreamError

LOSSLESS = {"PNG": {}, "WEBP": {"lossless": True}, "TIFF": {}}


@pytest.fixture(scope="module")
def profile() -> bytes:
    """Return a colour profile, to which PNG files give a name."""
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
    # Another decoder converts the colours.
    assert (frame.int() - decode_image(data).int()).abs().max() <= 8
    np.testing.assert_array_equal(frame, VideoDecoder(data)[0])


@pytest.mark.parametrize("compression", [None, "tga_rle"])
@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA"])
def test_a_tga_opens_by_its_path(tmp_path: Path, mode: str, compression: str | None) -> None:
    image = Image.fromarray(images.picture()).convert(mode)
    path = tmp_path / "scan.TGA"
    image.save(path, "TGA", **({} if compression is None else {"compression": compression}))
    decoder = VideoDecoder(path, dimension_order="NHWC")
    assert len(decoder) == 1
    assert decoder.metadata.codec == "targa"
    np.testing.assert_array_equal(decoder[0].numpy(), np.asarray(image.convert("RGB")))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(decoder))[-1].numpy(), decoder[0].numpy())
    # A name with a pattern is never a sequence of files.
    pattern = path.with_name("scan%01d.tga")
    for name in (pattern.name, "scan1.tga"):
        (tmp_path / name).write_bytes(path.read_bytes())
    with pytest.raises(OpenError, match="A TGA image is opened only by the path"):
        VideoDecoder(pattern)


def test_a_file_that_is_only_called_tga_is_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.tga").write_bytes(images.encoded(images.picture(), "PNG"))
    assert VideoDecoder(tmp_path / "a.tga").metadata.codec == "png"
    (tmp_path / "b.tga").write_text("#EXTM3U\n#EXTINF:1,\na.tga\n")
    with pytest.raises(OpenError):
        VideoDecoder(tmp_path / "b.tga")


def test_the_error_names_decode_image_for_an_animation_that_is_not_a_video() -> None:
    first, second = (Image.fromarray(np.roll(images.picture(), shift, axis=1)) for shift in (0, 9))
    animation = images.encoded(first, "WEBP", save_all=True, append_images=[second])
    with pytest.raises(StreamError, match="decode_image"):
        VideoDecoder(animation)[0]
    assert len(decode_image(animation)) == 2
