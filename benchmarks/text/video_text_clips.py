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
import random
from collections.abc import Sequence
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
from .video_text_grounds import make_ground

Picture = NDArray[np.uint8]

# Most characters of a line, in styles whose captions have one line each.
_LONGEST_LINES = {"fast": 30, "sung": 30, "rolling": 26, "spaced": 18, "notes": 30}
_ROLLING_LINES = 3
_CLOCK_RATE = 90_000
_WHITE, _YELLOW, _BLACK = (255, 255, 255), (255, 235, 60), (0, 0, 0)
_SIGN, _LOGO = "HARBOUR GATE 24", "RIVER TV"
_NAME, _TITLE = "ANNA HOLM", "THE LONG WAY"
_CREDITS = ("ANNA KOWALSKI", "PETER NG", "MIGUEL SANTOS", "CLARA HUANG", "PRIYA NAIR", "JONAS WEBER")
# Each question is shown next to its answer.
_TALKS = ("Are you coming?", "In a minute.", "Did it rain there?", "All day long.", "Who has the key?", "Ask the cook.")
# The states of a talk: slide, most lines of it, and start as a share of the clip. Slide 0 grows, and comes back.
_TALK = ((0, 2, 0.0), (0, 3, 0.09), (0, 9, 0.18), (1, 9, 0.28), (0, 9, 0.45), (2, 9, 0.6), (3, 9, 0.8))
_TALK_CAPTIONS = ((0.31, 0.38), (0.63, 0.7))
_FADE_SECONDS = 0.5
_TRACKING = 0.7  # space after each letter of letterspaced captions, in em
_WINDOW = "Harbour plan.txt"
_TICKER = "Ferries run every hour   Museum open until nine   Rain from the west   "


@dataclass(frozen=True)
class ClipPlan:
    """The appearance of a clip.

    Attributes:
        name: Name of its files.
        style: ``outline``, ``yellow``, ``boxed``, ``shadow`` (no outline), ``small``, ``top`` (bottom and top in turn),
            ``two lines``, ``fast`` (0.4 to 0.8 s, back to back), ``fade`` (over four frames), ``italic``, ``words``
            (word by word), ``sung`` (words change colour one by one), ``rolling`` (live captions, three lines),
            ``speakers`` (two captions side by side), ``spaced`` (letterspaced capitals), ``notes`` (between music
            notes), ``slides``, ``talk`` (slides that grow, fade in or come back, with
            a moving window and captions), or ``none`` (no caption).
        language: Language of the sentences: a key of ``TEXTS``.
        faces: Names of fonts; the first installed one that has the letters is used.
        size: Width and height in pixels.
        ground: Background: ``pan``, ``shapes``, ``gradient``, ``grain``, ``plain``, ``cuts`` or ``footage``.
        fps: Frames a second.
        seconds: How long it is.
        is_variable: Whether the steps between frames differ.
        decoys: ``logo``, ``clock``, ``score``, ``ticker``, ``sign``, ``name`` (in a corner), ``title``, ``credits``
            (names that run upwards), ``screen`` (lines that scroll), ``window`` (a title at the upper edge).
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
    ClipPlan("sung_en", "sung", faces=("DejaVuSans-Bold",), size=(640, 360), ground="gradient", seconds=8),
    ClipPlan("rolling_en", "rolling", faces=("DejaVuSans-Bold",), size=(640, 360), ground="pan", seconds=8),
    ClipPlan("speakers_en", "speakers", "en", ("DejaVuSans-Bold",), (854, 480), "shapes", seconds=8),
    ClipPlan("talk_en", "talk", faces=("DejaVuSans",), size=(640, 360), ground="gradient", fps=12, seconds=22),
    ClipPlan("credits_en", "none", size=(640, 360), ground="plain", seconds=8, decoys=("credits",)),
    ClipPlan("screen_en", "none", size=(640, 360), ground="plain", seconds=3, decoys=("screen",)),
    ClipPlan("film_fr", "outline", "fr", ("DejaVuSans-Bold",), ground="cuts", decoys=("title", "name")),
    ClipPlan("no_text", "none", ground="cuts"),
    ClipPlan("no_caption", "none", "en", ground="pan", decoys=("logo", "clock", "score", "sign")),
)  # fmt: skip


def drawn_plans(*, has_footage: bool = False) -> list[ClipPlan]:
    """Return the default set with seeds. With the user's footage, every third clip keeps its generated background."""
    return [
        replace(
            plan,
            seed=number,
            ground="footage" if has_footage and number % 3 and plan.ground != "plain" else plan.ground,
        )
        for number, plan in enumerate(PLANS, 1)
    ]


# Text


@dataclass
class _Event:
    text: str
    start: float
    end: float
    is_top: bool = False
    shift: float = 0.0  # of its centre from that of the frame, as a share of the width
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
    most = 22 if plan.size[1] > plan.size[0] else _LONGEST_LINES.get(plan.style, 36)
    texts = _pieces(sentences, most, 1 if plan.style in (*_LONGEST_LINES, "words") else 2)
    if plan.style == "speakers":
        pairs = rng.sample(range(0, len(_TALKS), 2), len(_TALKS) // 2)
        texts = [text for number in pairs for text in _TALKS[number : number + 2]]
    if plan.style == "spaced":
        texts = [text.upper().rstrip(".") for text in texts]
    if plan.style == "notes":
        texts = [f"\N{EIGHTH NOTE} {text} \N{EIGHTH NOTE}" for text in texts]
    if plan.style == "rolling":
        starts = [0.5 + 0.9 * number for number in range(len(texts)) if 0.9 * (number + 2) < plan.seconds]
        ends = [*starts, *[plan.seconds - 0.3] * _ROLLING_LINES]
        return [_Event(text, *span) for text, *span in zip(texts, starts, ends[_ROLLING_LINES:], strict=False)]
    if plan.style == "two lines":
        texts = [text for text in texts if "\n" in text]
    events, at = list[_Event](), rng.uniform(0.3, 1.0)
    for number, text in enumerate(texts):
        lasts = rng.uniform(0.4, 0.8) if plan.style == "fast" else rng.uniform(1.0, 2.8)
        lasts = max(lasts, 0.25 * len(text.split()) + 0.5) if plan.style in ("words", "sung") else lasts
        if at + lasts > plan.seconds - 0.3:
            break
        if plan.style == "speakers" and number % 2:
            # Each second speaker answers while the first caption is still shown.
            first = events[-1]
            first.shift, at = -0.22, first.start + 0.5
            events.append(_Event(text, at, first.end, shift=0.22))
            at = first.end + 0.4
            continue
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


def _spaced_patch(text: str, plan: ClipPlan, font: ImageFont.FreeTypeFont) -> _Patch:
    """Render a line whose letters are far apart."""
    (width, height), em = plan.size, round(font.size)
    step = _TRACKING * em
    length = round(font.getlength(text) + step * (len(text) - 1))
    picture = Image.new("RGBA", (length + em, 2 * em))
    draw = ImageDraw.Draw(picture)
    for place, letter in enumerate(text):
        x = em / 2 + font.getlength(text[:place]) + step * place
        draw.text((x, em), letter, font=font, fill=(*_WHITE, 255), anchor="lm", stroke_width=max(1, em // 12),
                  stroke_fill=(*_BLACK, 255))  # fmt: skip
    return _Patch(picture, (width - picture.width) // 2, round(height * 0.9) - em)


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


def _sung_patches(text: str, plan: ClipPlan, font: ImageFont.FreeTypeFont) -> list[_Patch]:
    """Return the caption with one sung word, with two, and so on."""
    whole, words, stroke = _caption_patch(text, plan, font, False), text.split(), max(1, round(font.size) // 12)
    pad = round(font.size) // 3 + 2
    patches = []
    for count in range(1, len(words) + 1):
        picture = whole.picture.copy()
        left, top, *_ = ImageDraw.Draw(picture).textbbox((0, 0), text, font=font, stroke_width=stroke)
        ImageDraw.Draw(picture).text(
            (pad - round(left), pad - round(top)), " ".join(words[:count]), font=font, fill=(*_YELLOW, 255),
            stroke_width=stroke, stroke_fill=(*_BLACK, 255),
        )  # fmt: skip
        patches.append(whole._replace(picture=picture))
    return patches


def _paste(picture: Image.Image, patch: _Patch, opacity: float = 1.0) -> None:
    mask = patch.picture.getchannel("A")
    if opacity < 1:
        mask = mask.point(lambda level: int(level * opacity))
    picture.paste(patch.picture.convert("RGB"), (patch.x, patch.y), mask)


def _screen_lines(plan: ClipPlan) -> list[str]:
    sentences = list(TEXTS[plan.language])
    random.Random(plan.seed).shuffle(sentences)
    return _pieces(sentences, 38, 1)


def _decoy_truths(plan: ClipPlan, small: ImageFont.FreeTypeFont) -> list[dict[str, Any]]:
    em = small.size / plan.size[1]
    places = {
        "logo": ((_LOGO,), "overlay", (0.0, 0.0, 0.3, 0.05 + 2 * em)),
        "clock": (("20:14:00",), "overlay", (0.7, 0.0, 1.0, 0.05 + 2 * em)),
        "score": (("BLUE 1:0 RED",), "overlay", (0.3, 0.0, 0.7, 0.05 + 2 * em)),
        "ticker": ((_TICKER.strip(),), "overlay", (0.0, 0.94, 1.0, 1.0)),
        "sign": ((_SIGN,), "scene", None),
        "name": ((_NAME,), "overlay", (0.0, 0.0, 0.3, 0.05 + 2 * em)),
        "title": ((_TITLE,), "scene", None),
        "window": ((_WINDOW,), "overlay", (0.3, 0.0, 0.7, 0.07)),
        "credits": (_CREDITS, "scene", None),
        "screen": (_screen_lines(plan), "scene", None),
    }
    return [
        {"text": text, "kind": kind, "box": box}
        for texts, kind, box in (places[name] for name in plan.decoys)
        for text in texts
    ]


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
    if "window" in plan.decoys:
        draw.text((width / 2, height * 0.03), _WINDOW, font=small, fill=grey, anchor="mm")
    if "name" in plan.decoys and 0.2 < now / plan.seconds < 0.6:
        draw.text((width * 0.03, height * 0.04), _NAME, font=small, fill=grey, stroke_width=2, stroke_fill=_BLACK)
    if "title" in plan.decoys and 0.3 < now / plan.seconds < 0.5:
        large = small.font_variant(size=round(height * 0.12))
        draw.text((width / 2, height * 0.45), _TITLE, font=large, fill=_WHITE, anchor="mm")
    if "credits" in plan.decoys:
        for row, text in enumerate(_CREDITS):
            y = height * (1 + 0.23 * row - 0.17 * now)
            draw.text((width / 2, y), text, font=small.font_variant(size=height / 14), fill=_WHITE, anchor="mm")
    if "screen" in plan.decoys:
        for row, text in enumerate(reversed(_screen_lines(plan)[: 1 + int(now / 0.32)])):
            draw.text((width * 0.06, height * 0.97 - 1.4 * small.size * row), text, font=small, fill=grey, anchor="ls")


# Slides


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
    shares = (0, 0.28, 0.6, 0.8, 1.01) if plan.style == "talk" else (0, 0.3, 0.5, 0.8, 1.01)
    bounds = [plan.seconds * share for share in shares]
    events = [
        _Event(f"{title}\n{text}", start, end)
        for title, text, (start, end) in zip(titles, texts, pairwise(bounds), strict=False)
    ]
    if plan.style == "talk":
        events[1].end, events[3].start = plan.seconds * 0.45, events[3].start + _FADE_SECONDS
    return events


def _talk_page(
    slides: Sequence[_Event], now: float, plan: ClipPlan, face: Face, rng: np.random.Generator
) -> Image.Image:
    """Render the state of a talk at a time."""

    def page(state: int) -> Image.Image:
        number, most, _ = _TALK[state]
        return _slide("\n".join(slides[number].text.split("\n")[:most]), number, plan, face)

    state = max(state for state, (_, _, share) in enumerate(_TALK) if now >= share * plan.seconds)
    picture, since = page(state), now - _TALK[state][2] * plan.seconds
    if state == len(_TALK) - 1 and since < _FADE_SECONDS:
        picture = Image.blend(page(state - 1), picture, since / _FADE_SECONDS)
    elif _TALK[state][0] == 2:
        width, height = plan.size
        noise = Image.fromarray(rng.integers(0, 255, (12, 12, 3), dtype=np.uint8))
        window = noise.resize((round(0.2 * width), round(0.35 * height)), Image.Resampling.NEAREST)
        picture.paste(window, (round(0.78 * width), round(0.45 * height)))
    return picture


# Clips

# Styles whose captions change in steps.
_STEPWISE = {"words": _word_patches, "sung": _sung_patches}


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
    if plan.style in ("slides", "talk"):
        slides = _slides(plan, rng)
    elif plan.style != "none":
        events = _events(plan, rng)
    if plan.style == "talk":
        texts = _pieces(TEXTS[plan.language], 36, 1)
        spans = [(start * plan.seconds, end * plan.seconds) for start, end in _TALK_CAPTIONS]
        events = [_Event(text, *span) for text, span in zip(texts, spans, strict=False)]
    for event in events + slides:
        event.frames = [number for number, time in enumerate(times) if event.start <= time < event.end]
    noise = np.random.default_rng(plan.seed)
    grounds = make_ground(plan.ground, plan.size, plan.seed, plan.fps, footage)
    path = folder / f"{plan.name}.mp4"
    with av.open(str(path), "w") as container:
        rate = Fraction(plan.fps).limit_denominator(1001)
        stream = container.add_stream("libx264", rate=rate, options={"crf": "22", "preset": "veryfast", "g": "120"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.time_base = stream.codec_context.time_base = Fraction(1, _CLOCK_RATE)
        pages = [_slide(event.text, number, plan, face) for number, event in enumerate(slides)]
        patches = dict[str, list[_Patch]]()
        for number, now in enumerate(times):
            if plan.style == "talk":
                picture = _talk_page(slides, now, plan, face, noise)
            elif slides:
                index = next(index for index, event in enumerate(slides) if number in event.frames)
                picture = pages[index].copy()
            else:
                ground, shift = next(grounds)
                picture = Image.fromarray(np.ascontiguousarray(ground))
                _draw_decoys(picture, plan, small, now, shift)
            for shown in events:
                if number not in shown.frames:
                    continue
                if shown.text not in patches:
                    drawn = _STEPWISE[plan.style](shown.text, plan, font) if plan.style in _STEPWISE else None
                    if plan.style == "spaced":
                        drawn = [_spaced_patch(shown.text, plan, font)]
                    patches[shown.text] = drawn or [_caption_patch(shown.text, plan, font, shown.is_top)]
                if plan.style == "rolling":
                    row = sum(shown.start < other.start <= now for other in events)
                    (patch,) = patches[shown.text]
                    y = round(height * 0.92 - 1.5 * font.size * (row + 1))
                    _paste(picture, patch._replace(x=round(0.06 * width), y=y))
                else:
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
        patch = patches[0]._replace(x=patches[0].x + round(event.shift * plan.size[0]))
        _paste(picture, patch, min(1, (place + 1) / 4, (count - place) / 4) if is_fading else 1)


def _truth(event: _Event, ends: Sequence[float]) -> dict[str, Any]:
    first, last = event.frames[0], event.frames[-1]
    times = {"start": ends[first], "end": ends[last + 1], "first_frame": first, "num_frames": len(event.frames)}
    return {"text": event.text, **times}
