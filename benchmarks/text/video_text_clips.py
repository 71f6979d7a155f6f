"""Clips with burnt-in text, and their truth, generated for ``python -m benchmarks.text.video_text``.

Captions are our own sentences (`ocr_languages`), rendered in the installed fonts onto generated moving backgrounds, or
onto the user's videos. Some clips have text that is not a caption: a logo, a clock, a score, a ticker, a sign in the
scene. Each NAME.mp4 has a NAME.json::

    {"fps": 25, "seconds": 12.0, "style": "outline",
     "events": [{"text", "start", "end", "first_frame", "num_frames"}],      the captions
     "decoys": [{"text", "kind", "box"}],                                    text that is not a caption
     "slides": [{"text", "start", "end", "first_frame", "num_frames"}]}

``end`` is the time of the first frame without the caption. The box of a decoy is relative to the frame, and null if
it moves. The same plan gives the same clip, with the same versions of FFmpeg, Pillow and the fonts.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from .ocr_drawn import Face, find_face
from .ocr_languages import TEXTS

Picture = NDArray[np.uint8]

_CLOCK_RATE = 90_000
_WHITE, _YELLOW, _BLACK = (255, 255, 255), (255, 235, 60), (0, 0, 0)
_SIGN, _LOGO = "HARBOUR GATE 24", "RIVER TV"
_TICKER = "Ferries run every hour   Museum open until nine   Rain from the west   "


@dataclass(frozen=True)
class ClipPlan:
    """The appearance of a clip.

    Attributes:
        name: Name of its files.
        style: ``outline``, ``yellow``, ``boxed``, ``shadow`` (no outline), ``small``, ``top`` (bottom and top in turn),
            ``two lines``, ``fast`` (0.4 to 0.8 s, back to back), ``fade`` (over four frames), ``italic``, ``words``
            (word by word), ``slides``, or ``none`` (no caption).
        language: Language of the sentences: a key of ``TEXTS``.
        faces: Names of fonts; the first installed one that has the letters is used.
        size: Width and height in pixels.
        ground: Background: ``pan``, ``shapes``, ``gradient``, ``grain``, ``cuts`` or ``footage``.
        fps: Frames a second.
        seconds: How long it is.
        is_variable: Whether the steps between frames differ.
        decoys: ``logo``, ``clock``, ``score``, ``ticker``, ``sign``.
        seed: Seed of everything random.
    """

    name: str
    style: str = "outline"
    language: str = "en"
    faces: tuple[str, ...] = ("DejaVuSans-Bold",)
    size: tuple[int, int] = (854, 480)
    ground: str = "pan"
    fps: float = 25
    seconds: float = 12
    is_variable: bool = False
    decoys: tuple[str, ...] = ()
    seed: int = 0


#: The default set.
PLANS = (
    ClipPlan("outline_en", faces=("Roboto-Bold", "DejaVuSans-Bold"), size=(1280, 720), fps=29.97),
    ClipPlan("yellow_de", "yellow", "de", ("OpenSans-Bold", "DejaVuSans-Bold"), ground="shapes"),
    ClipPlan("boxed_fr_vfr", "boxed", "fr", ("Lato-Regular", "DejaVuSans"), (640, 480), "cuts", is_variable=True),
    ClipPlan("shadow_es", "shadow", "es", ("Carlito-Bold", "DejaVuSans-Bold"), (960, 540), "gradient", 24),
    ClipPlan("small_it", "small", "it", ("NotoSans-Regular", "DejaVuSans"), (1280, 720), "cuts"),
    ClipPlan("top_pl", "top", "pl", ("LiberationSans-Bold", "DejaVuSans-Bold"), ground="grain"),
    ClipPlan("two_lines_pt_vfr", "two lines", "pt", ("DejaVuSans",), (720, 576), "shapes", 30, is_variable=True),
    ClipPlan("fast_en", "fast", "en", ("DejaVuSans-Bold",), (640, 360), "cuts", 30, 8),
    ClipPlan("fade_sv", "fade", "sv", ("LiberationSerif-Bold", "DejaVuSerif-Bold"), (960, 540), "pan"),
    ClipPlan("italic_nl", "italic", "nl", ("Lato-BoldItalic", "DejaVuSans-BoldOblique"), ground="grain"),
    ClipPlan("words_en", "words", "en", ("Roboto-Bold", "DejaVuSans-Bold"), ground="gradient", fps=30),
    ClipPlan("decoys_en", faces=("LiberationSans-Bold", "DejaVuSans-Bold"), size=(1280, 720), ground="cuts",
             decoys=("logo", "clock", "sign")),
    ClipPlan("news_tr", "boxed", "tr", ("DejaVuSans",), (960, 540), "pan", decoys=("logo", "score", "ticker")),
    ClipPlan("portrait_cs", "outline", "cs", ("DejaVuSans-Bold",), (480, 854), "shapes", 30, is_variable=True,
             decoys=("clock",)),
    ClipPlan("slides_en", "slides", "en", ("Roboto-Regular", "DejaVuSans"), (960, 540), "gradient", seconds=16),
    ClipPlan("no_text", "none", ground="cuts"),
    ClipPlan("no_caption", "none", "en", ground="pan", decoys=("logo", "clock", "score", "sign")),
)  # fmt: skip


def drawn_plans(*, has_footage: bool = False) -> list[ClipPlan]:
    """Return the default set with seeds. With the user's footage, every third clip keeps its generated background."""
    return [
        replace(plan, seed=number, ground="footage" if has_footage and number % 3 else plan.ground)
        for number, plan in enumerate(PLANS, 1)
    ]


# Text


@dataclass
class _Event:
    text: str
    start: float
    end: float
    is_top: bool = False
    frames: list[int] = field(default_factory=list)


def _pieces(sentences: Sequence[str], most: int, num_lines: int) -> list[str]:
    """Split sentences like subtitles: captions of at most ``num_lines`` lines of at most ``most`` characters."""
    captions = []
    for sentence in sentences:
        lines = [""]
        for word in sentence.split():
            if lines[-1] and len(lines[-1]) + 1 + len(word) > most:
                lines.append(word)
            else:
                lines[-1] = f"{lines[-1]} {word}".strip()
        captions += ["\n".join(lines[first : first + num_lines]) for first in range(0, len(lines), num_lines)]
    return captions


def _events(plan: ClipPlan, rng: random.Random) -> list[_Event]:
    sentences = list(TEXTS[plan.language])
    rng.shuffle(sentences)
    most = 22 if plan.size[1] > plan.size[0] else 30 if plan.style == "fast" else 36
    texts = _pieces(sentences, most, 1 if plan.style in ("fast", "words") else 2)
    if plan.style == "two lines":
        texts = [text for text in texts if "\n" in text]
    events, at = list[_Event](), rng.uniform(0.3, 1.0)
    for number, text in enumerate(texts):
        lasts = rng.uniform(0.4, 0.8) if plan.style == "fast" else rng.uniform(1.0, 2.8)
        lasts = max(lasts, 0.25 * len(text.split()) + 0.5) if plan.style == "words" else lasts
        if at + lasts > plan.seconds - 0.3:
            break
        events.append(_Event(text, at, at + lasts, plan.style == "top" and number % 2 == 1))
        at += lasts + (0 if plan.style == "fast" or rng.random() < 0.3 else rng.uniform(0.15, 1.5))
    return events


class _Patch(NamedTuple):
    """A rendered text: its image with alpha, and the position of its corner."""

    picture: Image.Image
    x: int
    y: int


def _caption_patch(text: str, plan: ClipPlan, font: ImageFont.FreeTypeFont, is_top: bool) -> _Patch:
    style, (width, height), em = plan.style, plan.size, round(font.size)
    stroke = 0 if style in ("boxed", "shadow") else max(1, em // 12)
    spacing = em // 4
    probe = ImageDraw.Draw(Image.new("L", (1, 1)))
    left, top, right, bottom = (
        round(edge)
        for edge in probe.multiline_textbbox(
            (0, 0), text, font=font, align="center", stroke_width=stroke, spacing=spacing
        )
    )
    pad = em // 3 + 2
    picture = Image.new("RGBA", (right - left + 2 * pad, bottom - top + 2 * pad))
    draw = ImageDraw.Draw(picture)
    at = (pad - left, pad - top)
    if style == "boxed":
        draw.rectangle((2, 2, picture.width - 3, picture.height - 3), fill=(*_BLACK, 170))
    if style == "shadow":
        shadow = (at[0] + 2, at[1] + 2)
        draw.multiline_text(shadow, text, font=font, fill=(*_BLACK, 200), align="center", spacing=spacing)
    draw.multiline_text(
        at, text, font=font, fill=(*(_YELLOW if style == "yellow" else _WHITE), 255), align="center",
        stroke_width=stroke, stroke_fill=(*_BLACK, 255), spacing=spacing,
    )  # fmt: skip
    # All captions of a clip are on the same line, whatever letters they have.
    y = round(height * 0.06) if is_top else round(height * 0.92) - (bottom - top)
    return _Patch(picture, (width - (right - left)) // 2 - pad, y - pad)


def _word_patches(text: str, plan: ClipPlan, font: ImageFont.FreeTypeFont) -> list[_Patch]:
    """Yield the caption with one word, with two, and so on; words keep their positions."""
    words = text.split()
    whole = _caption_patch(text, plan, font, False)
    patches = []
    for count in range(1, len(words) + 1):
        part = _caption_patch(" ".join(words[:count]), plan, font, False)
        # The line grows to the right from the start of the full line.
        patches.append(part._replace(x=whole.x))
    return patches


def _paste(picture: Image.Image, patch: _Patch, opacity: float = 1.0) -> None:
    mask = patch.picture.getchannel("A")
    if opacity < 1:
        mask = mask.point(lambda level: int(level * opacity))
    picture.paste(patch.picture.convert("RGB"), (patch.x, patch.y), mask)


def _decoy_truths(plan: ClipPlan, small: ImageFont.FreeTypeFont) -> list[dict[str, Any]]:
    em = small.size / plan.size[1]
    places = {
        "logo": (_LOGO, "overlay", (0.0, 0.0, 0.3, 0.05 + 2 * em)),
        "clock": ("20:14:00", "overlay", (0.7, 0.0, 1.0, 0.05 + 2 * em)),
        "score": ("BLUE 1:0 RED", "overlay", (0.3, 0.0, 0.7, 0.05 + 2 * em)),
        "ticker": (_TICKER.strip(), "overlay", (0.0, 0.94, 1.0, 1.0)),
        "sign": (_SIGN, "scene", None),
    }
    return [dict(zip(("text", "kind", "box"), places[name], strict=True)) for name in plan.decoys]


def _draw_decoys(picture: Image.Image, plan: ClipPlan, small: ImageFont.FreeTypeFont, now: float, shift: float) -> None:
    """Draw text that is not a caption; ``shift`` is the background's shift to the right, in pixels."""
    width, height = plan.size
    draw, grey = ImageDraw.Draw(picture), (235, 235, 235)
    if "logo" in plan.decoys:
        draw.text((width * 0.03, height * 0.04), _LOGO, font=small, fill=grey)
    if "clock" in plan.decoys:
        clock = f"20:{14 + int(now) // 60:02d}:{int(now) % 60:02d}"
        draw.text((width * 0.97, height * 0.04), clock, font=small, fill=grey, anchor="ra")
    if "score" in plan.decoys:
        score = f"BLUE {1 + (now > plan.seconds / 2)}:0 RED"
        box = draw.textbbox((width / 2, height * 0.04), score, font=small, anchor="ma")
        draw.rectangle((box[0] - 8, box[1] - 4, box[2] + 8, box[3] + 4), fill=(120, 20, 30))
        draw.text((width / 2, height * 0.04), score, font=small, fill=grey, anchor="ma")
    if "ticker" in plan.decoys:
        draw.rectangle((0, height * 0.945, width, height), fill=(20, 30, 90))
        tiny = small.font_variant(size=round(height * 0.038))
        length = draw.textlength(_TICKER, font=tiny)
        x = width - now * width * 0.12
        while x < width:
            draw.text((x, height * 0.972), _TICKER, font=tiny, fill=grey, anchor="lm")
            x += length
    if "sign" in plan.decoys:
        x, y, length = width * 0.55 + shift, height * 0.42, draw.textlength(_SIGN, font=small)
        draw.rectangle((x, y, x + length + 20, y + small.size * 1.8), fill=(20, 90, 40))
        draw.text((x + 10, y + small.size * 0.9), _SIGN, font=small, fill=(240, 240, 240), anchor="lm")


# Backgrounds: endless frames, with their shift to the right.


def _ground(plan: ClipPlan, footage: Sequence[Path]) -> Iterator[tuple[Picture, float]]:
    rng = np.random.default_rng(plan.seed)
    if plan.ground == "footage":
        first = plan.seed % len(footage)
        return _footage([*footage[first:], *footage[:first]], plan)
    if plan.ground == "cuts":
        return _cuts(plan, rng)
    return _GROUNDS[plan.ground](plan.size, rng)


def _texture(width: int, height: int, rng: np.random.Generator) -> Picture:
    """Generate coloured clouds of several sizes, with a few edges."""
    total = np.zeros((height, width, 3), np.float32)
    for cells, weight in ((4, 110), (12, 60), (40, 35), (160, 20)):
        small = rng.uniform(-1, 1, (max(2, cells * height // width), cells, 3)).astype(np.float32)
        for channel in range(3):
            cloud = Image.fromarray(small[:, :, channel], "F").resize((width, height), Image.Resampling.BICUBIC)
            total[:, :, channel] += weight * np.asarray(cloud)
    picture = Image.fromarray(np.clip(total + 128, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(picture)
    for _ in range(30):
        x, y, reach = rng.uniform(0, width), rng.uniform(0, height), rng.uniform(0.02, 0.15) * height
        colour = tuple(int(level) for level in rng.integers(0, 256, 3))
        box = (x, y, x + reach * rng.uniform(0.4, 3), y + reach)
        (draw.rectangle if rng.random() < 0.5 else draw.ellipse)(box, fill=colour)
    return np.asarray(picture)


def _pan(size: tuple[int, int], rng: np.random.Generator) -> Iterator[tuple[Picture, float]]:
    """Move a camera over a large picture and back."""
    width, height = size
    whole = _texture(2 * width, height * 3 // 2, rng)
    phase, number = float(rng.uniform(0, 1)), 0
    while True:
        x = round((width - 1) * (0.5 + 0.5 * math.sin(0.012 * number + phase)))
        y = round((height // 2 - 1) * (0.5 + 0.5 * math.sin(0.007 * number)))
        yield whole[y : y + height, x : x + width], -float(x)
        number += 1


def _shapes(size: tuple[int, int], rng: np.random.Generator) -> Iterator[tuple[Picture, float]]:
    """Move discs and bars across a gradient."""
    width, height = size
    places, speeds = rng.uniform(0, 1, (14, 2)), rng.uniform(-0.012, 0.012, (14, 2))
    reaches, colours = rng.uniform(0.03, 0.2, 14), rng.integers(0, 256, (14, 3))
    ground, number = Image.fromarray(next(_gradient(size, rng))[0]), 0
    while True:
        picture = ground.copy()
        draw = ImageDraw.Draw(picture)
        for index, (place, speed) in enumerate(zip(places, speeds, strict=True)):
            x, y = ((place + speed * number) % 1.2 - 0.1) * size
            reach = reaches[index] * height
            form = draw.ellipse if index % 2 else draw.rectangle
            form((x - reach, y - reach, x + reach, y + reach), fill=tuple(colours[index].tolist()))
        yield np.asarray(picture), 0.1 * width * math.sin(0.03 * number)
        number += 1


def _gradient(size: tuple[int, int], rng: np.random.Generator) -> Iterator[tuple[Picture, float]]:
    """Colours that flow."""
    width, height = size
    across = np.linspace(0, 1, width, dtype=np.float32)[None, :, None]
    down = np.linspace(0, 1, height, dtype=np.float32)[:, None, None]
    slopes, offsets = rng.uniform(1, 5, (2, 3)).astype(np.float32), rng.uniform(0, 6, 3).astype(np.float32)
    number = 0
    while True:
        waves = np.sin(across * slopes[0] + down * slopes[1] + offsets + np.float32(0.03 * number))
        yield (127 + 110 * waves).astype(np.uint8), 0.1 * width * math.sin(0.03 * number)
        number += 1


def _grain(size: tuple[int, int], rng: np.random.Generator) -> Iterator[tuple[Picture, float]]:
    """Zoom slowly into a picture, with sensor noise."""
    width, height = size
    whole = Image.fromarray(_texture(width, height, rng))
    noise, number = rng.normal(0, 10, (height + 64, width + 64, 1)).astype(np.int16), 0
    while True:
        margin = 0.15 * (1 + math.sin(0.01 * number)) / 2
        box = (margin * width, margin * height, (1 - margin) * width, (1 - margin) * height)
        picture = np.asarray(whole.resize(size, Image.Resampling.BILINEAR, box)).astype(np.int16)
        y, x = rng.integers(0, 64, 2)
        yield np.clip(picture + noise[y : y + height, x : x + width], 0, 255).astype(np.uint8), -float(2 * number)
        number += 1


_GROUNDS = {"pan": _pan, "shapes": _shapes, "gradient": _gradient, "grain": _grain}


def _cuts(plan: ClipPlan, rng: np.random.Generator) -> Iterator[tuple[Picture, float]]:
    """Show scenes of 1.5 to 3 s. Every second scene has a sign, which ends with the scene."""
    kinds = list(_GROUNDS)
    number = 0
    while True:
        scene = _GROUNDS[kinds[(number + plan.seed) % len(kinds)]](plan.size, rng)
        for _ in range(round(plan.fps * rng.uniform(1.5, 3))):
            picture, shift = next(scene)
            # Outside of the frame in scenes without it.
            yield picture, shift if number % 2 == 0 else -4.0 * plan.size[0]
        number += 1


def _footage(paths: Sequence[Path], plan: ClipPlan) -> Iterator[tuple[Picture, float]]:
    """Play videos forwards and backwards, so that the only cuts are between videos."""
    pictures = list[Picture]()
    for path in paths[:2]:
        with av.open(str(path)) as container:
            for number, frame in enumerate(container.decode(video=0)):
                if number == 200:
                    break
                image = frame.to_image().resize(plan.size, Image.Resampling.BICUBIC)
                pictures.append(np.asarray(image))
    if not pictures:
        raise ValueError(f"no video frame could be decoded from {', '.join(map(str, paths[:2]))}")
    order = [*range(len(pictures)), *range(len(pictures) - 2, 0, -1)]
    number = 0
    while True:
        yield pictures[order[number % len(order)]], plan.size[0] * (0.4 - (number % 220) / 160)
        number += 1


def _slide(text: str, number: int, plan: ClipPlan, face: Face) -> Image.Image:
    width, height = plan.size
    picture = Image.new("RGB", plan.size, ((250, 250, 246), (28, 40, 64))[number % 2])
    ink = ((25, 25, 30), (240, 240, 235))[number % 2]
    draw = ImageDraw.Draw(picture)
    title, *lines = text.split("\n")
    draw.text((width * 0.08, height * 0.1), title, font=face.at(height * 0.075), fill=ink)
    for place, line in enumerate(lines):
        y = height * (0.3 + 0.1 * place)
        draw.ellipse((width * 0.08, y + height * 0.018, width * 0.09, y + height * 0.036), fill=(200, 90, 40))
        draw.text((width * 0.11, y), line, font=face.at(height * 0.045), fill=ink)
    return picture


def _slides(plan: ClipPlan, rng: random.Random) -> list[_Event]:
    texts = _pieces(rng.sample(TEXTS[plan.language], 4), 44, 4)
    titles = ["What we measured", "How it was done", "Results so far", "Next steps"]
    bounds = [plan.seconds * share for share in (0, 0.3, 0.5, 0.8, 1.01)]
    return [
        _Event(f"{title}\n{text}", start, end)
        for title, text, (start, end) in zip(titles, texts, pairwise(bounds), strict=False)
    ]


# Clips


def draw_clip(plan: ClipPlan, folder: Path, footage: Sequence[Path] = ()) -> Path:
    """Write a clip and its truth, and return the path of the clip.

    Args:
        plan: The appearance.
        folder: The output folder.
        footage: Videos for the ground of that name.
    """
    rng = random.Random(plan.seed)
    letters = "".join(TEXTS[plan.language])
    face = next((face for name in plan.faces if (face := find_face(name)) and face.has(letters)), None)
    if face is None:
        raise ValueError(f"{plan.name}: no installed font has its letters; install one of {', '.join(plan.faces)}")
    width, height = plan.size
    font = face.at(min(height, width * 3 // 4) / (26 if plan.style == "small" else 15))
    small = face.at(height / 22)
    times = _times(plan, rng)
    events, slides = list[_Event](), list[_Event]()
    if plan.style == "slides":
        slides = _slides(plan, rng)
    elif plan.style != "none":
        events = _events(plan, rng)
    for event in events + slides:
        event.frames = [number for number, time in enumerate(times) if event.start <= time < event.end]
    at = {number: event for event in events for number in event.frames}
    grounds = _ground(plan, footage)
    path = folder / f"{plan.name}.mp4"
    with av.open(str(path), "w") as container:
        rate = Fraction(plan.fps).limit_denominator(1001)
        stream = container.add_stream("libx264", rate=rate, options={"crf": "22", "preset": "veryfast", "g": "120"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.time_base = stream.codec_context.time_base = Fraction(1, _CLOCK_RATE)
        pages = [_slide(event.text, number, plan, face) for number, event in enumerate(slides)]
        patches = dict[str, list[_Patch]]()
        for number, now in enumerate(times):
            if slides:
                index = next(index for index, event in enumerate(slides) if number in event.frames)
                picture = pages[index].copy()
            else:
                ground, shift = next(grounds)
                picture = Image.fromarray(np.ascontiguousarray(ground))
                _draw_decoys(picture, plan, small, now, shift)
            if shown := at.get(number):
                if shown.text not in patches:
                    drawn = _word_patches(shown.text, plan, font) if plan.style == "words" else None
                    patches[shown.text] = drawn or [_caption_patch(shown.text, plan, font, shown.is_top)]
                _draw_event(picture, shown, patches[shown.text], number, now, plan)
            frame = av.VideoFrame.from_image(picture)
            frame.pts, frame.time_base = round(now * _CLOCK_RATE), Fraction(1, _CLOCK_RATE)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    ends = [*times, times[-1] + 1 / plan.fps]
    truth = {
        "fps": plan.fps,
        "seconds": ends[-1],
        "style": plan.style,
        "events": [_truth(event, ends) for event in events if event.frames],
        "decoys": _decoy_truths(plan, small),
        "slides": [_truth(event, ends) for event in slides],
    }
    path.with_suffix(".json").write_text(json.dumps(truth, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return path


def _times(plan: ClipPlan, rng: random.Random) -> list[float]:
    times, now = list[float](), 0.0
    while now < plan.seconds:
        times.append(now)
        now += (rng.choice((0.5, 1, 1, 1.5, 3)) if plan.is_variable else 1) / plan.fps
    return times


def _draw_event(
    picture: Image.Image, event: _Event, patches: Sequence[_Patch], number: int, now: float, plan: ClipPlan
) -> None:
    place, count = number - event.frames[0], len(event.frames)
    if len(patches) > 1:
        _paste(picture, patches[min(len(patches) - 1, int((now - event.start) / 0.25))])
    else:
        is_fading = plan.style == "fade"
        _paste(picture, patches[0], min(1, (place + 1) / 4, (count - place) / 4) if is_fading else 1)


def _truth(event: _Event, ends: Sequence[float]) -> dict[str, Any]:
    first, last = event.frames[0], event.frames[-1]
    times = {"start": ends[first], "end": ends[last + 1], "first_frame": first, "num_frames": len(event.frames)}
    return {"text": event.text, **times}
