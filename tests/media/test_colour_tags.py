"""Frames are converted whatever number a stream has for its matrix, primaries and transfer."""

from __future__ import annotations

import io
import re
from fractions import Fraction
from functools import cache

import av
import numpy as np
import pytest
import torch

from mediatensor.decoders import VideoDecoder
from mediatensor.samplers import find_scenes

UNSPECIFIED = 2
# All numbers of ITU-T H.273, its reserved numbers, and some outside its tables.
NUMBERS = [*range(24), 100, 255]
# libswscale has no coefficients for other matrices, so frames are converted with these instead.
BT601, BT2020 = 6, 9
SUBSTITUTES = {number: BT601 for number in NUMBERS if number not in (0, 1, 2, 4, 5, 6, 7, 9)} | {10: BT2020}


# Codec, pixel format, container, a mark in the stream, and the distance from the mark to the three numbers.
KINDS = {
    # Headers of ProRes frames have the three numbers as bytes, and so has MPEG-2's sequence display extension.
    "10 bit 4:2:2": ("prores_ks", "yuv422p10le", "mov", b"icpf", 18),
    "8 bit 4:2:2": ("mpeg2video", "yuv422p", "mpegts", b"\x00\x00\x01\xb5\x2b", 5),
    "8 bit 4:2:0": ("mpeg2video", "yuv420p", "mpegts", b"\x00\x00\x01\xb5\x2b", 5),
}


@cache
def encoded(kind: str) -> bytes:
    """Return three frames of noise with colour tags that can be found in the stream."""
    codec, pixel_format, extension, _, _ = KINDS[kind]
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=extension) as output:
        stream = output.add_stream(codec, rate=Fraction(25))
        stream.width, stream.height, stream.pix_fmt = 64, 48, pixel_format
        stream.codec_context.color_primaries = stream.codec_context.color_trc = 1
        stream.codec_context.colorspace = 5
        for number in range(3):
            noise = np.random.default_rng(number).integers(0, 256, (6, 8, 3), np.uint8)
            frame = av.VideoFrame.from_ndarray(noise.repeat(8, 0).repeat(8, 1)).reformat(format=pixel_format)
            frame.pts, frame.time_base = number, Fraction(1, 25)
            frame.color_primaries = frame.color_trc = 1
            frame.colorspace = 5
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return buffer.getvalue()


def tagged(kind: str, primaries: int, transfer: int, matrix: int) -> bytes:
    changed = bytearray(encoded(kind))
    *_, mark, distance = KINDS[kind]
    places = [found.start() + distance for found in re.finditer(re.escape(mark), changed)]
    assert places
    for place in places:
        assert changed[place + 2] == 5
        changed[place : place + 3] = bytes((primaries, transfer, matrix))
    return bytes(changed)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("kind", KINDS)
def test_every_number_of_primaries_and_transfer_leaves_the_pixels(kind: str, dtype: torch.dtype) -> None:
    def rgb(primaries: int, transfer: int) -> torch.Tensor:
        return VideoDecoder(tagged(kind, primaries, transfer, 1), output_dtype=dtype)[:]

    expected = rgb(UNSPECIFIED, UNSPECIFIED)
    assert expected.float().std() > 0
    for number in NUMBERS:
        assert torch.equal(rgb(number, UNSPECIFIED), expected), number
        assert torch.equal(rgb(UNSPECIFIED, number), expected), number
        if number or KINDS[kind][0] != "mpeg2video":  # the bytes 0, 0, 1 would be a start code there
            assert torch.equal(rgb(number, number), expected), number


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_of_a_matrix_is_converted(kind: str) -> None:
    def rgb(matrix: int) -> torch.Tensor:
        return VideoDecoder(tagged(kind, UNSPECIFIED, UNSPECIFIED, matrix), output_dtype=torch.float32)[:]

    supported = {number: rgb(number) for number in (1, BT601, BT2020)}
    assert not torch.equal(supported[1], supported[BT601])
    assert not torch.equal(supported[BT2020], supported[BT601])
    for number, substitute in SUBSTITUTES.items():
        assert torch.equal(rgb(number), supported[substitute]), number
    assert torch.equal(rgb(0), supported[BT601])


@pytest.mark.parametrize("matrix", [3, 8, 10, 14, 17, 255])
def test_scenes_are_found_with_every_matrix(matrix: int) -> None:
    kind = "8 bit 4:2:0"
    with VideoDecoder(tagged(kind, UNSPECIFIED, UNSPECIFIED, matrix)) as decoder:
        scenes = find_scenes(decoder)
    with VideoDecoder(tagged(kind, UNSPECIFIED, UNSPECIFIED, SUBSTITUTES[matrix])) as decoder:
        assert scenes == find_scenes(decoder)
