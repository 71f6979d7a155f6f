"""Films rendered shot by shot, with known cuts, and a slow detector of cuts for comparison."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.frame import PictureType
from numpy.typing import NDArray

from oracles import linear_decode_rgb

__all__ = ["Shot", "draw", "first_frames", "slow_cuts", "slow_scores", "write_film"]

WIDTH, HEIGHT = 160, 96
_WORLD = (3 * HEIGHT, 3 * WIDTH)

Picture = NDArray[np.uint8]


@dataclass(frozen=True)
class Shot:
    """A part of a film with one picture, over which the camera may pan."""

    num_frames: int
    seed: int  # which picture
    pan: int = 0  # pixels to the right for each frame
    brightness: tuple[float, float] = (1.0, 1.0)  # of its first and its last frame
    bars: int = 0  # height of black bars above and below, in pixels


def draw(shots: Iterable[Shot]) -> Iterator[Picture]:
    """The frames of a film, (H, W, 3)."""
    for shot in shots:
        world = _world(shot.seed)
        for number, level in enumerate(np.linspace(*shot.brightness, shot.num_frames)):
            left = number * shot.pan % (_WORLD[1] - WIDTH)
            picture = world[HEIGHT : 2 * HEIGHT, left : left + WIDTH] * level
            if shot.bars:
                picture[: shot.bars] = picture[-shot.bars :] = 0
            yield picture.astype(np.uint8)


def _world(seed: int) -> NDArray[np.float64]:
    """Patches of colour with a different base colour for each image."""
    random = np.random.default_rng(seed)
    ground = np.array([60, 60, 60]) + 140 * ((seed >> np.arange(3)) & 1)  # neighbouring seeds differ in a component
    cells = np.clip(ground + random.normal(0, 40, (36, 60, 3)), 0, 255)
    return np.kron(cells, np.ones((_WORLD[0] // 36, _WORLD[1] // 60, 1)))


def first_frames(shots: Sequence[Shot]) -> list[int]:
    """Where each shot begins."""
    return [0, *np.cumsum([shot.num_frames for shot in shots])[:-1].tolist()]


def write_film(
    path: Path,
    pictures: Iterable[Picture],
    codec: str = "libx264",
    options: dict[str, str] | None = None,
    ticks: Sequence[int] | None = None,
    key_frames: Collection[int] = (),
) -> Path:
    """Encode a film at 25 frames a second, or with frames at ``ticks`` of 1/25 s; ``key_frames`` are asked for."""
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=25)
        stream.width, stream.height = WIDTH, HEIGHT
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.options = options or {}
        stream.codec_context.time_base = Fraction(1, 25)
        for number, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format=stream.pix_fmt)
            frame.pts, frame.time_base = ticks[number] if ticks else number, Fraction(1, 25)
            frame.pict_type = PictureType.I if number in key_frames else PictureType.NONE
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def slow_scores(path: Path) -> list[float]:
    """How much each frame differs from the one before it: of a full decode to RGB, by the formula in floats."""
    _, rgb = linear_decode_rgb(path)
    weights = np.array([[0.257, 0.504, 0.098], [-0.148, -0.291, 0.439], [0.439, -0.368, -0.071]])  # ITU-R BT.601
    scores, before = [0.0], None
    for picture in rgb:
        height, width = picture.shape[0] // 2, picture.shape[1] // 2
        cells = picture[: 2 * height, : 2 * width].reshape(height, 2, width, 2, 3).mean((1, 3)) @ weights.T
        if before is not None:
            scores.append(float(np.abs(cells - before).mean((0, 1)).sum()))
        before = cells
    return scores


def slow_cuts(scores: Sequence[float]) -> list[int]:
    """Return the frames whose score is high, and high compared with the two on either side.

    A cut is left out if a scene before or after it would have fewer than 15 frames.
    """
    padded = [0.0, 0.0, *scores, 0.0, 0.0]
    cuts = []
    for frame, score in enumerate(scores):
        around = padded[frame : frame + 2] + padded[frame + 3 : frame + 5]
        is_long_enough = min(frame - (cuts[-1] if cuts else 0), len(scores) - frame) >= 15
        if score >= 20 and score >= 3 * sum(around) / 4 and is_long_enough:
            cuts.append(frame)
    return cuts
