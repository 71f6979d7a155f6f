"""Films and their variants for the benchmark of near copies. Frames are arrays (N, H, W, 3) of bytes."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from mediatensor.decoders import VideoDecoder
from mediatensor.encoders import VideoEncoder
from mediatensor.transforms import Resize

Frames = NDArray[np.uint8]

WIDTH, HEIGHT, RATE = 256, 144, 30
MAX_SECONDS = 16.0
_WORDS = (
    *("gradient", "sample", "theory", "measure", "energy", "model", "under", "river", "seven", "linear", "where"),
    *("figure", "result", "mountain", "index", "camera", "letter", "window", "station", "carbon", "between", "method"),
)


class Film(NamedTuple):
    """The frames of a film. Films of one ``group`` are recordings of one set-up, or parts of one recording."""

    name: str
    group: str
    frames: Frames
    rate: float


def read_film(path: Path) -> list[Film]:
    """Read the first seconds of a file. A film of at least eight seconds becomes two films: its halves."""
    with VideoDecoder(path, on_error="nearest", on_size_change="scale") as decoder:
        width, height = decoder.metadata.width or WIDTH, decoder.metadata.height or HEIGHT
        rate = min(decoder.metadata.average_fps or RATE, 60.0)
    side = min(WIDTH / width, HEIGHT / height, 1.0)
    size = [max(round(length * side / 2) * 2, 16) for length in (height, width)]
    with VideoDecoder(path, on_error="nearest", on_size_change="scale", transforms=[Resize(size)]) as decoder:
        batch = decoder.get_frames_in_range(0, min(len(decoder), round(MAX_SECONDS * rate)))
    frames = batch.data.permute(0, 2, 3, 1).contiguous().numpy()
    if len(frames) < 8 * rate:
        return [Film(path.name, path.name, frames, rate)]
    middle = len(frames) // 2
    return [
        Film(f"{path.name}, first half", path.name, frames[:middle], rate),
        Film(f"{path.name}, second half", path.name, frames[middle:], rate),
    ]


def write_film(path: Path, frames: Frames, rate: float, **options: Any) -> None:
    """Encode frames as H.264."""
    data = torch.from_numpy(np.ascontiguousarray(frames.transpose(0, 3, 1, 2)))
    VideoEncoder(data, frame_rate=round(rate, 3)).to_file(
        path, codec="libx264", preset="veryfast", pixel_format="yuv420p", **options
    )


# Generated films


def _smooth(rng: np.random.Generator, count: int, steps: int, dimensions: int = 1) -> NDArray[np.float64]:
    """Random smooth courses (count, dimensions) with values from -1 to 1, with a new goal every ``steps`` frames."""
    goals = rng.uniform(-1, 1, (count // steps + 4, dimensions))
    at = np.arange(count) / steps
    left = at.astype(int)
    share = (1 - np.cos(np.pi * (at - left)))[:, None] / 2
    result: NDArray[np.float64] = goals[left] * (1 - share) + goals[left + 1] * share
    return result


def _texture(
    rng: np.random.Generator, height: int = HEIGHT, width: int = WIDTH, detail: int = 5
) -> NDArray[np.float32]:
    """A random picture (H, W, 3) with structure at several sizes."""
    total = np.zeros((height, width, 3), np.float32)
    for octave in range(detail):
        cells = 2 ** (octave + 1)
        small = rng.uniform(0, 255, (cells, 2 * cells, 3)).astype(np.uint8)
        large = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
        total += np.asarray(large, np.float32) / 2**octave
    total -= total.min()
    return total * (255 / total.max())


def _noisy(rng: np.random.Generator, frames: NDArray[np.float32], size: float = 2.0) -> Frames:
    noise = rng.standard_normal(frames.shape[1:], np.float32) * size
    shifts = rng.integers(0, frames.shape[1], len(frames))
    noised = np.stack([frame + np.roll(noise, shift, 0) for frame, shift in zip(frames, shifts, strict=True)])
    return np.clip(noised, 0, 255).astype(np.uint8)


def _pan(rng: np.random.Generator, seconds: float, setup: int) -> Frames:
    """A camera that moves over a picture."""
    large = _texture(rng, 2 * HEIGHT, 2 * WIDTH, 6)
    count = round(seconds * RATE)
    course = (_smooth(rng, count, 2 * RATE, 2) + 1) / 2
    places = (course * (HEIGHT, WIDTH)).astype(int)
    return _noisy(rng, np.stack([large[y : y + HEIGHT, x : x + WIDTH] for y, x in places]))


def _steady_pan(rng: np.random.Generator, seconds: float, setup: int) -> Frames:
    """A camera that moves from left to right at the same speed in every film."""
    large = _texture(rng, HEIGHT, 2 * WIDTH, 6)
    count = round(seconds * RATE)
    return _noisy(rng, np.stack([large[:, x : x + WIDTH] for x in np.linspace(0, WIDTH, count).astype(int)]))


def _arm(rng: np.random.Generator, seconds: float, setup: int) -> Frames:
    """A robot arm in front of a fixed camera. It leaves its home, and picks something up at another place each time."""
    back = _texture(np.random.default_rng(setup), detail=4) * 0.5 + 60
    count = round(seconds * RATE)
    start = np.array([0.2, 0.5])
    goals = [start]
    while len(goals) < seconds / 1.5 + 2:
        goals += [np.array([-0.5, 0.9]) + rng.uniform(-0.35, 0.35, 2), start + rng.uniform(-0.1, 0.1, 2)]
    pace = np.cumsum(rng.uniform(0.8, 1.2, count)) / (1.5 * RATE)
    left = np.minimum(pace.astype(int), len(goals) - 2)
    share = (1 - np.cos(np.pi * np.clip(pace - left, 0, 1)))[:, None] / 2
    course = np.array(goals)[left] * (1 - share) + np.array(goals)[left + 1] * share
    frames = []
    for angles in course:
        image = Image.fromarray(back.astype(np.uint8))
        draw = ImageDraw.Draw(image)
        foot = np.array([WIDTH / 2, HEIGHT])
        elbow = foot + 80 * np.array([np.sin(angles[0]), -np.cos(angles[0])])
        hand = elbow + 70 * np.array([np.sin(angles[0] + angles[1] + 0.8), -np.cos(angles[0] + angles[1] + 0.8)])
        draw.line([*foot, *elbow, *hand], fill=(230, 230, 225), width=14)
        draw.ellipse([*(hand - 9), *(hand + 9)], fill=(30, 30, 40))
        frames.append(np.asarray(image, np.float32))
    return _noisy(rng, np.stack(frames))


def _head(rng: np.random.Generator, seconds: float, setup: int) -> Frames:
    """A person who talks in front of a wall, always in the same place."""
    back = _texture(np.random.default_rng(setup), detail=3) * 0.3 + 100
    count = round(seconds * RATE)
    place = _smooth(rng, count, RATE, 2) * (8, 4)
    mouth = np.abs(_smooth(rng, count, 4)[:, 0])
    frames = []
    for (dx, dy), gap in zip(place, mouth, strict=True):
        image = Image.fromarray(back.astype(np.uint8))
        draw = ImageDraw.Draw(image)
        x, y = WIDTH / 2 + dx, HEIGHT / 2 + dy
        draw.ellipse([x - 70, y + 40, x + 70, y + 180], fill=(60, 60, 110))
        draw.ellipse([x - 32, y - 45, x + 32, y + 45], fill=(220, 180, 160))
        draw.ellipse([x - 18, y - 14, x - 8, y - 6], fill=(30, 30, 30))
        draw.ellipse([x + 8, y - 14, x + 18, y - 6], fill=(30, 30, 30))
        draw.ellipse([x - 14, y + 20 - 7 * gap, x + 14, y + 20 + 7 * gap], fill=(120, 40, 40))
        frames.append(np.asarray(image, np.float32))
    return _noisy(rng, np.stack(frames))


def _text(rng: np.random.Generator, num_words: int) -> str:
    return " ".join(rng.choice(_WORDS, num_words))


def _slides(rng: np.random.Generator, seconds: float, setup: int) -> Frames:
    """Slides with one template, another text on each, and a new slide every four seconds in every film."""
    frames: list[NDArray[np.float32]] = []
    per_slide = 4 * RATE
    while len(frames) < seconds * RATE:
        image = Image.new("RGB", (WIDTH, HEIGHT), (250, 250, 250))
        draw = ImageDraw.Draw(image)
        draw.rectangle([0, 0, WIDTH, 22], fill=(30, 60, 120))
        draw.text((8, 4), _text(rng, 3), fill=(255, 255, 255), font=ImageFont.load_default(13))
        for line in range(int(rng.integers(3, 8))):
            draw.text((14, 30 + 14 * line), "- " + _text(rng, int(rng.integers(2, 6))), fill=(20, 20, 20),
                      font=ImageFont.load_default(11))  # fmt: skip
        frames += [np.asarray(image, np.float32)] * per_slide
    return np.stack(frames[: round(seconds * RATE)]).astype(np.uint8)


def _titles(rng: np.random.Generator, seconds: float, setup: int) -> Frames:
    """Title cards on black, each of which fades in and out in every film at the same times."""
    frames: list[NDArray[np.float32]] = []
    fade = np.clip(np.minimum(np.arange(3 * RATE), np.arange(3 * RATE)[::-1]) / (RATE / 2), 0, 1)
    while len(frames) < seconds * RATE:
        image = Image.new("RGB", (WIDTH, HEIGHT))
        draw = ImageDraw.Draw(image)
        for line in range(int(rng.integers(1, 4))):
            text, font = _text(rng, int(rng.integers(1, 3))), ImageFont.load_default(22)
            width = draw.textlength(text, font=font)
            draw.text(((WIDTH - width) / 2, 40 + 26 * line), text, fill=(240, 240, 240), font=font)
        frames += [np.asarray(image, np.float32) * share for share in fade]
    return np.stack(frames[: round(seconds * RATE)]).astype(np.uint8)


def _stills(rng: np.random.Generator, seconds: float, setup: int) -> Frames:
    """Stills that fade in from black and out again, at the same times in every film."""
    fade = np.clip(np.minimum(np.arange(4 * RATE), np.arange(4 * RATE)[::-1]) / RATE, 0, 1).astype(np.float32)
    frames: list[NDArray[np.float32]] = []
    while len(frames) < seconds * RATE:
        still = _texture(rng)
        frames += [still * share for share in fade]
    return np.stack(frames[: round(seconds * RATE)]).astype(np.uint8)


def _colours(rng: np.random.Generator, seconds: float, setup: int) -> Frames:
    """A new plain colour every two seconds."""
    colours = rng.integers(0, 256, (int(seconds / 2) + 1, 1, 1, 3)).repeat(2 * RATE, 0)[: round(seconds * RATE)]
    return np.broadcast_to(colours, (len(colours), HEIGHT, WIDTH, 3)).astype(np.uint8)


def _black(rng: np.random.Generator, seconds: float, setup: int) -> Frames:
    """Black with a little noise."""
    return _noisy(rng, np.full((round(seconds * RATE), HEIGHT, WIDTH, 3), 4, np.float32), 1.5)


def _street(rng: np.random.Generator, seconds: float, setup: int) -> Frames:
    """Cars that pass a fixed camera in two lanes at one speed, at random times."""
    back = _texture(np.random.default_rng(setup), detail=5) * 0.6 + 40
    count = round(seconds * RATE)
    cars = [(rng.uniform(-40, count), lane, rng.integers(0, 256, 3)) for lane in (0, 1) for _ in range(int(seconds))]
    frames = []
    for number in range(count):
        image = Image.fromarray(back.astype(np.uint8))
        draw = ImageDraw.Draw(image)
        for begin, lane, colour in cars:
            x = (number - begin) * 5 - 50
            x, y = (x, 80) if lane == 0 else (WIDTH - x, 105)
            if -60 < x < WIDTH + 60:
                draw.rectangle([x - 24, y, x + 24, y + 20], fill=tuple(colour.tolist()))
        frames.append(np.asarray(image, np.float32))
    return _noisy(rng, np.stack(frames))


def _typing(rng: np.random.Generator, seconds: float, setup: int) -> Frames:
    """A screen on which somebody types, with the pauses of a person."""
    text, font = _text(rng, 200), ImageFont.load_default(11)
    times = np.cumsum(rng.lognormal(-2.2, 0.8, len(text)))
    frames = []
    for number in range(round(seconds * RATE)):
        shown = text[: int(np.searchsorted(times, number / RATE))]
        image = Image.new("RGB", (WIDTH, HEIGHT), (24, 26, 30))
        lines = textwrap.wrap(shown, 40)[-9:]
        ImageDraw.Draw(image).text((6, 6), "\n".join(lines), fill=(200, 220, 200), font=font)
        frames.append(np.asarray(image, np.uint8))
    return np.stack(frames)


def _cuts(rng: np.random.Generator, seconds: float, setup: int) -> Frames:
    """Shots of one to three seconds, each a camera that moves over another picture."""
    shots: list[Frames] = []
    while sum(map(len, shots)) < seconds * RATE:
        shots.append(_pan(rng, float(rng.uniform(1, 3)), 0))
    return np.concatenate(shots)[: round(seconds * RATE)]


def _intro(rng: np.random.Generator, seconds: float, setup: int) -> Frames:
    """Films that begin with the same two seconds."""
    return np.concatenate([_pan(np.random.default_rng(setup), 2.0, 0), _cuts(rng, seconds - 2, 0)])


#: Kinds of generated films, and whether a film of this kind changes enough to be recognised.
KINDS: dict[str, tuple[Callable[[np.random.Generator, float, int], Frames], bool]] = {
    "camera moves over a picture": (_pan, True),
    "steady camera, one speed": (_steady_pan, True),
    "robot arm": (_arm, True),
    "talking head": (_head, True),
    "street": (_street, True),
    "shots": (_cuts, True),
    "shots after one intro": (_intro, True),
    "slides": (_slides, False),
    "screen with typing": (_typing, False),
    "title cards": (_titles, False),
    "stills that fade": (_stills, False),
    "plain colours": (_colours, False),
    "black": (_black, False),
}


def make_films(kinds: Sequence[str], num_films: int, seconds: float, seed: int) -> list[Film]:
    """Generate films of some kinds. Those of one kind have the same set-up."""
    films = []
    for place, kind in enumerate(kinds):
        make, _ = KINDS[kind]
        for number in range(num_films):
            rng = np.random.default_rng([seed, place, number])
            films.append(Film(f"{kind} {number}", kind, make(rng, seconds, 1000 * seed + place), RATE))
    return films


# Variants


def _pad(frames: Frames, top: int, left: int) -> Frames:
    return np.pad(frames, ((0, 0), (top, top), (left, left), (0, 0)), constant_values=0)


def _levels(frames: Frames, change: Callable[[NDArray[np.float32]], NDArray[np.float32]]) -> Frames:
    table = np.clip(change(np.arange(256, dtype=np.float32)), 0, 255).astype(np.uint8)
    return table[frames]


def _draw_over(frames: Frames, draw_on: Callable[[ImageDraw.ImageDraw, float], None]) -> Frames:
    drawn = []
    for number, frame in enumerate(frames):
        image = Image.fromarray(frame)
        draw_on(ImageDraw.Draw(image), number / len(frames))
        drawn.append(np.asarray(image))
    return np.stack(drawn)


def _caption(frames: Frames, top: float = 0.82) -> Frames:
    height, width = frames.shape[1:3]
    rng = np.random.default_rng(int(frames[::10].sum()))  # each film has its own captions
    texts = [_text(rng, 4) if number % 4 else "" for number in range(6)]
    font = ImageFont.load_default(max(height * 0.09, 8))

    def draw_on(draw: ImageDraw.ImageDraw, share: float) -> None:
        text = texts[int(share * 6)]
        x = (width - draw.textlength(text, font=font)) / 2
        draw.text((x, top * height), text, fill=(255, 255, 255), font=font, stroke_width=1, stroke_fill=(0, 0, 0))

    return _draw_over(frames, draw_on)


def _logo(frames: Frames) -> Frames:
    height, width = frames.shape[1:3]
    box = [0.84 * width, 0.05 * height, 0.96 * width, 0.17 * height]
    return _draw_over(frames, lambda draw, share: draw.ellipse(box, fill=(220, 30, 30), outline=(255, 255, 255)))


def _scale(frames: Frames, height: int, width: int) -> Frames:
    size = (max(width // 2 * 2, 16), max(height // 2 * 2, 16))
    return np.stack([np.asarray(Image.fromarray(frame).resize(size, Image.Resampling.BILINEAR)) for frame in frames])


def _crop(frames: Frames, share: float) -> Frames:
    height, width = frames.shape[1:3]
    y, x = round(share * height), round(share * width)
    return _scale(frames[:, y : height - y, x : width - x], height, width)


def _cut(frames: Frames, *parts: tuple[float, float]) -> Frames:
    count = len(frames)
    return np.concatenate([frames[round(first * count) : round(last * count)] for first, last in parts])


def _at_rate(film: Film, rate: float) -> Frames:
    count = round(len(film.frames) / film.rate * rate)
    return film.frames[np.minimum((np.arange(count) * film.rate / rate).astype(int), len(film.frames) - 1)]


#: Variants of films: frames, frames per second, and options of the encoder.
VARIANTS: dict[str, Callable[[Film], tuple[Frames, float, dict[str, Any]]]] = {
    "encoded again, low bit rate": lambda film: (film.frames, film.rate, {"crf": 38}),
    "half the size": lambda film: (
        _scale(film.frames, film.frames.shape[1] // 2, film.frames.shape[2] // 2), film.rate, {}),
    "first 20 % removed": lambda film: (_cut(film.frames, (0.2, 1)), film.rate, {}),
    "last 20 % removed": lambda film: (_cut(film.frames, (0, 0.8)), film.rate, {}),
    "middle 20 % removed": lambda film: (_cut(film.frames, (0, 0.4), (0.6, 1)), film.rate, {}),
    "mirrored": lambda film: (film.frames[:, :, ::-1], film.rate, {}),
    "bars at top and bottom": lambda film: (_pad(film.frames, film.frames.shape[1] // 6, 0), film.rate, {}),
    "bars at the sides": lambda film: (_pad(film.frames, 0, film.frames.shape[2] // 6), film.rate, {}),
    "brightness +30 %": lambda film: (_levels(film.frames, lambda levels: levels * 1.3), film.rate, {}),
    "brightness -30 %": lambda film: (_levels(film.frames, lambda levels: levels * 0.7), film.rate, {}),
    "contrast +30 %": lambda film: (
        _levels(film.frames, lambda levels: (levels - 128) * 1.3 + 128), film.rate, {}),
    "contrast -30 %": lambda film: (
        _levels(film.frames, lambda levels: (levels - 128) * 0.7 + 128), film.rate, {}),
    "gamma 0.7": lambda film: (_levels(film.frames, lambda levels: 255 * (levels / 255) ** 0.7), film.rate, {}),
    "gamma 1.4": lambda film: (_levels(film.frames, lambda levels: 255 * (levels / 255) ** 1.4), film.rate, {}),
    "captions": lambda film: (_caption(film.frames), film.rate, {}),
    "logo": lambda film: (_logo(film.frames), film.rate, {}),
    "5 % cropped on each side": lambda film: (_crop(film.frames, 0.05), film.rate, {}),
    "5/6 of the frame rate": lambda film: (_at_rate(film, film.rate * 5 / 6), film.rate * 5 / 6, {}),
    "mirrored, first 20 % removed, bars, low bit rate": lambda film: (
        _pad(_cut(film.frames, (0.2, 1))[:, :, ::-1], film.frames.shape[1] // 8, 0), film.rate, {"crf": 34}),
    "only the middle third": lambda film: (_cut(film.frames, (1 / 3, 2 / 3)), film.rate, {}),
}  # fmt: skip

#: Variants that were not used to choose thresholds. Films with a few of them were only looked at before.
HELD_OUT_VARIANTS: dict[str, Callable[[Film], tuple[Frames, float, dict[str, Any]]]] = {
    "captions at the top": lambda film: (_caption(film.frames, 0.06), film.rate, {}),
    "captions, brightness +30 %, half the size": lambda film: (
        _scale(_levels(_caption(film.frames), lambda levels: levels * 1.3),
               film.frames.shape[1] // 2, film.frames.shape[2] // 2), film.rate, {}),
    "gray": lambda film: (film.frames.mean(3, keepdims=True).repeat(3, 3).astype(np.uint8), film.rate, {}),
    "8 % cropped on each side": lambda film: (_crop(film.frames, 0.08), film.rate, {}),
    "mirrored, logo, 3/4 of the frame rate": lambda film: (
        _logo(_at_rate(film, film.rate * 0.75)[:, :, ::-1]), film.rate * 0.75, {}),
    "stretched to a square": lambda film: (
        _scale(film.frames, film.frames.shape[1], film.frames.shape[1]), film.rate, {}),
}  # fmt: skip
