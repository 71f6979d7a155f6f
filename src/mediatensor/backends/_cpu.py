"""Decoding in software. For other devices the planes are uploaded and converted there (the hybrid path)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from .._common.pixel_steps import PixelStep
from .._pyav import FrameConverter, PacketDecoder, surface_of
from ._interface import DecodeBackend, PictureConverter, PictureDecoder, StreamParameters, Surface

__all__ = ["CpuBackend"]


class CpuBackend(DecodeBackend):
    """FFmpeg's software decoders.

    On the CPU, swscale converts the pictures to RGB. For any other device their planes are uploaded (1.5 bytes a pixel
    for 8-bit 4:2:0, half the size of RGB), and converted, rotated, scaled and cropped there.
    """

    name = "cpu"
    device_types: ClassVar[tuple[str, ...]] = ("cpu",)

    def why_not(self, stream: StreamParameters, device: torch.device) -> str | None:
        return None

    def open(self, stream: StreamParameters, device: torch.device) -> PictureDecoder:
        return _SoftwareDecoder(stream.codec_context)

    def surface(self, picture: Any, device: torch.device) -> Surface:
        return surface_of(picture)

    def converter(self, device: torch.device, steps: tuple[PixelStep, ...], *, is_float: bool) -> PictureConverter:
        if device.type == "cpu":
            return FrameConverter(steps, is_float=is_float)
        return super().converter(device, steps, is_float=is_float)


class _SoftwareDecoder(PacketDecoder, PictureDecoder):
    """The codec that belongs to the demuxer's stream."""
