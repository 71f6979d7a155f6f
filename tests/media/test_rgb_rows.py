"""Frames that libswscale writes directly into a batch equal those of FFmpeg's filter, and nothing else is written."""

from __future__ import annotations

import platform
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from media_writing import ClipSpec, write_clip
from mediatensor._engine.pyav import rgb_rows
from mediatensor._engine.pyav.pixels import _convert_afresh
from mediatensor.decoders import VideoDecoder
from oracles import linear_decode_rgb

# Multiples of 16, for which libswscale needs no padding, and widths that it would write too far or not to the end.
SIZES = [(16, 2), (18, 10), (24, 8), (32, 34), (40, 6), (64, 48), (66, 50), (340, 256), (640, 288), (854, 480)]


@pytest.mark.parametrize("pixel_format", sorted(rgb_rows._FORMATS))
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_neighbouring_rows_equal_the_filters_frames(size: tuple[int, int], pixel_format: str, tmp_path: Path) -> None:
    codec = "mjpeg" if "j" in pixel_format else "ffv1"
    path = tmp_path / "clip.mkv"
    write_clip(ClipSpec("", codec, "matroska", "mkv", pix_fmt=pixel_format, size=size, num_frames=4), path)
    _, expected = linear_decode_rgb(path)
    decoder = VideoDecoder(path, dimension_order="NHWC")
    with ThreadPoolExecutor(10) as pool:
        batches = list(pool.map(lambda _: decoder[:], range(12)))
    for batch in batches:
        np.testing.assert_array_equal(batch.numpy(), expected)
    if size[0] % 16 == 0 and platform.system() == "Linux":
        assert any(is_same for kind, is_same in rgb_rows._checked.items() if kind[:2] == (pixel_format, size[0]))
    np.testing.assert_array_equal(torch.stack([decoder[i] for i in range(4)]).numpy(), expected)


def test_frames_are_the_same_without_the_library(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = VideoDecoder(clip)[:]
    monkeypatch.setattr(rgb_rows, "_library", lambda: None)
    assert torch.equal(VideoDecoder(clip)[:], expected)


@pytest.mark.skipif(platform.system() != "Linux", reason="other systems may not find the functions")
def test_only_kinds_that_equal_pyavs_pixels_are_written() -> None:
    library = rgb_rows._library()
    assert library is not None

    def is_same(width: int, matrix: int, tagged: int, color_range: int = 1) -> bool:
        context = rgb_rows._Context(library, "yuv420p", width, 16, matrix, color_range)
        return rgb_rows._is_same(context, _convert_afresh, "yuv420p", width, tagged, 1)

    assert is_same(640, 1, 1)
    assert is_same(640, 9, 9)
    assert not is_same(640, 1, 9)
    assert not is_same(640, 1, 1, color_range=2)
    if platform.machine() == "x86_64":
        assert not is_same(24, 1, 1), "bytes after the last line were written"
        assert not is_same(18, 1, 1), "the last pixels were not written"
