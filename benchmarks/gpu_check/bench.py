"""The context of the checks of the device: folder, amount of work, and the compared ways of decoding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mediatensor.backends import DecodeBackend, PictureDecoder, StreamParameters, Surface, get_backend, register_backend
from mediatensor.decoders import VideoDecoder

from .records import NotRun

CPU, HYBRID, NVDEC = "cpu", "hybrid", "nvdec"
WAYS = (CPU, HYBRID, NVDEC)
#: Largest accepted difference from the CPU path, in levels of 256.
MAX_LEVELS = 2.0

NO_CUDA = "no CUDA device"


@dataclass(frozen=True)
class Effort:
    """The amount of work.

    Attributes:
        size: (width, height) of the clips of the checks; codecs of GPUs refuse less than 144 rows.
        num_frames: Frames of each clip.
        repeats: Timed runs.
        clip_seconds: Longest part of a clip of the figures that is encoded.
        sizes: (width, height) at which the paths are compared.
        counts: Numbers of frames for this comparison.
        num_decoders: Decoders side by side.
        seconds: Duration of a throughput measurement.
        batch_sizes: Pages at a time.
        num_pages: Drawn pages that are read in the checks.
        num_decodes: Decodes in the scenario with threads.
    """

    size: tuple[int, int] = (320, 240)
    num_frames: int = 40
    repeats: int = 5
    clip_seconds: float = 70
    sizes: tuple[tuple[int, int], ...] = (
        (320, 180), (640, 360), (960, 540), (1280, 720), (1920, 1080), (3840, 2160),
    )  # fmt: skip
    counts: tuple[int, ...] = (1, 4, 16, 64)
    num_decoders: tuple[int, ...] = (1, 2, 4, 8)
    seconds: float = 5
    batch_sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    num_pages: int = 6
    num_decodes: int = 50


_QUICK = Effort(
    num_frames=24, repeats=3, clip_seconds=5, sizes=((320, 180), (960, 540), (1920, 1080)),
    num_decoders=(1, 4), seconds=3,
    batch_sizes=(1, 8, 64), num_pages=4,
)  # fmt: skip
EFFORTS = {
    "full": Effort(),
    "quick": _QUICK,
    "tiny": replace(
        _QUICK, size=(160, 144), num_frames=8, repeats=1, clip_seconds=0.5, sizes=((64, 48), (96, 64)), counts=(1, 4),
        num_decoders=(1, 2), seconds=0.1, batch_sizes=(1, 2), num_pages=1, num_decodes=3,
    ),
}  # fmt: skip


class _PlanesOnTheCpu(DecodeBackend):
    """The hybrid path without a device: decoded in software, and converted by the code for devices."""

    name = "gpu-check-planes"

    def why_not(self, stream: StreamParameters, device: torch.device) -> str | None:
        return None

    def open(self, stream: StreamParameters, device: torch.device) -> PictureDecoder:
        return get_backend("cpu").open(stream, device)

    def surface(self, picture: Any, device: torch.device) -> Surface:
        return get_backend("cpu").surface(picture, device)


@dataclass
class Bench:
    """The context of every step.

    Attributes:
        device: Torch device.
        effort: The amount of work.
        folder: Folder for the clips.
        cached: Values shared between steps.
    """

    device: torch.device
    effort: Effort
    folder: Path
    cached: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        register_backend(_PlanesOnTheCpu())

    @property
    def has_cuda(self) -> bool:
        return self.device.type == "cuda"

    def require_cuda(self) -> None:
        """
        Raises:
            NotRun: if the device is not CUDA's.
        """
        if not self.has_cuda:
            raise NotRun(NO_CUDA)

    def options(self, way: str) -> dict[str, Any]:
        """Return arguments that make `VideoDecoder` decode one way.

        Raises:
            NotRun: if there is no such way here.
        """
        if way == CPU:
            return {"device": "cpu"}
        if way == NVDEC:
            self.require_cuda()
            return {"device": self.device}
        return {"device": self.device, "decode_backend": "cpu" if self.has_cuda else _PlanesOnTheCpu.name}

    def open(self, path: Path | str, way: str, **options: Any) -> VideoDecoder:
        """Open a decoder of a file that decodes one way."""
        return VideoDecoder(str(path), **self.options(way), **options)

    def synchronize(self) -> None:
        """Wait for all queued work of the device."""
        if self.has_cuda:
            torch.cuda.synchronize(self.device)

    def once(self, key: str, make: Callable[[], Any]) -> Any:
        """Return the cached result of ``make`` for this key."""
        if key not in self.cached:
            self.cached[key] = make()
        return self.cached[key]


@dataclass(frozen=True)
class Difference:
    """Return the difference of values in levels of 256, whatever their type."""

    largest: float
    mean: float

    def __str__(self) -> str:
        return f"off by up to {self.largest:.3g}, {self.mean:.3g} on average"


def compare(found: Sequence[Tensor] | Tensor, expected: Sequence[Tensor] | Tensor) -> Difference:
    """Compare frames, on any devices; a different number or size gives the largest difference."""
    if len(found) != len(expected):
        return Difference(float("inf"), float("inf"))
    largest, means = 0.0, list[float]()
    for one, other in zip(found, expected, strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            return Difference(float("inf"), float("inf"))
        levels = (one.cpu().float() - other.cpu().float()).abs() * (255 if other.is_floating_point() else 1)
        largest, means = max(largest, float(levels.max())), [*means, float(levels.mean())]
    return Difference(largest, sum(means) / max(1, len(means)))
