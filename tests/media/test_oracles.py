"""The oracles themselves, against the reference frames, hand-made data and each other."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import media
import oracles


def test_times_are_those_of_frames_unless_they_fall(folder: Path) -> None:
    plain, by_decoding = media.make("h264_b_pyramid", folder), media.make("h264_asf", folder)
    assert oracles.times_shown(plain, None, [0, 1, 1, None, 2]) == [0, 1, 1, None, 2]
    assert oracles.times_shown(plain, None, [0, 2, 1]) == [None] * 3
    assert oracles.times_shown(by_decoding, None, [0, 2, 1]) == [0, 1, 2]
    assert oracles.times_shown(by_decoding, None, [0, None, 2, 1]) == [None] * 4


@pytest.mark.parametrize("name", ["h264_b_pyramid", "h264_asf"])
def test_bar_code_survives_encoding(name: str, folder: Path) -> None:
    """The number that is painted on each picture is read back, so frames come in the order of painting."""
    pts, rgb = oracles.linear_decode_rgb(media.make(name, folder))
    assert all(earlier <= later for earlier, later in pairwise(pts))
    middles = (np.arange(10) * 2 + 1) * rgb.shape[2] // 20
    bits = rgb[:, 2:6, middles].mean(axis=(1, 3)) > 125
    assert (bits @ (1 << np.arange(9, -1, -1))).tolist() == list(range(40))


@pytest.mark.parametrize(
    ("a", "b", "c", "d", "expected"),
    [
        (1, 0, 0, 1, [[1, 2, 3], [4, 5, 6]]),
        (-1, 0, 0, 1, [[3, 2, 1], [6, 5, 4]]),
        (1, 0, 0, -1, [[4, 5, 6], [1, 2, 3]]),
        (-1, 0, 0, -1, [[6, 5, 4], [3, 2, 1]]),
        (0, 1, -1, 0, [[4, 1], [5, 2], [6, 3]]),  # clockwise
        (0, -1, 1, 0, [[3, 6], [2, 5], [1, 4]]),  # counter-clockwise
        (0, 1, 1, 0, [[1, 4], [2, 5], [3, 6]]),
    ],
)
def test_display_matrix(a: int, b: int, c: int, d: int, expected: list[list[int]]) -> None:
    picture = np.array([[1, 2, 3], [4, 5, 6]], np.uint8)[..., None].repeat(3, axis=2)
    matrix = struct.pack("=9i", *(value << 16 for value in (a, b, 0, c, d, 0, 0, 0)), 1 << 30)
    assert oracles._upright(picture, matrix)[..., 0].tolist() == expected


def test_padding_is_no_part_of_the_checksum(folder: Path) -> None:
    """Rows of 161 pixels are padded with bytes that were in memory, which differ between two decodes."""
    path = media.make("vp9", folder)
    assert oracles.linear_decode_planes(path) == oracles.linear_decode_planes(path)
