"""Arguments for builders and reading order: what docTR was asked when its answers were recorded, and what we are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from ocr_word_pages import HEIGHT, PAGES, WIDTH, shuffled

LABELS = ["Title", "Text", "Picture", "Caption", "Page-footer"]
REGIONS = [
    ((0.0, 0.0), (1.0, 0.1)),
    ((0.0, 0.1), (0.5, 0.5)),
    ((0.5, 0.1), (1.0, 0.3)),
    ((0.4, 0.3), (1.0, 0.5)),
    ((0.0, 0.5), (1.0, 1.0)),
]

# A map with lines of text, rotated clockwise by an angle, and the known orientation of the page.
MAP_CASES: dict[str, tuple[float, tuple[int, float] | None]] = {
    "upright": (0, None),
    "clockwise 7": (7, None),
    "counter-clockwise 20": (-20, None),
    "known upright": (4, (0, 0.9)),
    "known side": (94, (90, 0.9)),
    "known other side": (-87, (-90, 0.9)),
    "known head": (176, (180, 0.9)),
    "not believed": (3, (180, 0.1)),
}


def arguments_of(boxes: np.ndarray, texts: list[str], shape: tuple[int, int] = (HEIGHT, WIDTH)) -> dict[str, Any]:
    """The arguments of a builder for one page, whose scores identify the words."""
    number = len(texts)
    return {
        "pages": [np.zeros((8, 8, 3), np.uint8)],
        "boxes": [boxes],
        "objectness_scores": [np.arange(number) / max(number, 1)],
        "text_preds": [[(text, 1 - index / 1000) for index, text in enumerate(texts)]],
        "page_shapes": [shape],
        "crop_orientations": [[{"value": 0, "confidence": index / 1000} for index in range(number)]],
    }


def kie_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """The same for a builder of predictions, with one class."""
    per_class = ("boxes", "objectness_scores", "text_preds", "crop_orientations")
    return {name: [{"words": value[0]}] if name in per_class else value for name, value in arguments.items()}


def builder_cases() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """``(name, settings, arguments)``; the words come in no order."""
    for name, page in PAGES.items():
        words = page()
        mixed = shuffled(len(words.texts))
        texts = [words.texts[index] for index in mixed]
        yield name, {}, arguments_of(words.boxes[mixed], texts)
        yield f"{name}, no lines", {"resolve_lines": False}, arguments_of(words.boxes[mixed], texts)
        yield f"{name}, small break", {"paragraph_break": 0.012}, arguments_of(words.boxes[mixed], texts)
        yield f"{name}, turned by 5", {}, arguments_of(words.quads(5)[mixed], texts)
        yield f"{name}, turned by -12", {}, arguments_of(words.quads(-12)[mixed], texts)
        # As detectors do on turned pages, some boxes are not turned; at this break, that decides.
        quads = words.quads(25)
        level = np.array([len(text) <= 3 for text in words.texts])
        quads[level] = words.quads()[level] + (quads - words.quads()).mean(axis=1, keepdims=True)[level]
        yield f"{name}, partly turned", {"paragraph_break": 0.0045}, arguments_of(quads[mixed], texts)


def order_cases() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """``(name, geometries, options)``: the lines of the pages in no order, and scattered boxes."""
    for name, page in PAGES.items():
        words = page()
        numbers = range(int(words.lines.max()) + 1)
        lows = np.stack([words.boxes[words.lines == number, :2].min(axis=0) for number in numbers])
        highs = np.stack([words.boxes[words.lines == number, 2:].max(axis=0) for number in numbers])
        lines = np.concatenate((lows, highs), axis=1)[shuffled(len(lows))]
        for direction in ("ltr", "rtl", "ttb-rtl", "ttb-ltr"):
            yield f"{name} {direction}", lines, {"direction": direction}
        corners = [((left, top), (right, bottom)) for left, top, right, bottom in lines.tolist()]
        labels = [LABELS[index % len(LABELS)] for index in range(len(lines))]
        yield f"{name} labelled", corners, {"labels": labels, "caption_max_distance": 0.2}
    generator = np.random.default_rng(3)
    for case in range(20):
        lows = generator.random((24, 2)) * (0.7, 0.95)
        sizes = generator.random((24, 2)) * ((0.3, 0.04), (0.9, 0.04))[case % 2]
        scattered = np.concatenate((lows, lows + sizes), axis=1)
        yield f"scattered {case}", scattered, {"direction": ("ltr", "rtl")[case % 3 % 2]}


def turned_map(angle: float) -> np.ndarray:
    """uint8 ``(480, 480, 1)``: bars as long as lines of text, turned clockwise."""
    image = Image.new("L", (480, 480))
    draw = ImageDraw.Draw(image)
    for row, length in enumerate((300, 260, 300, 180, 290, 240, 300, 90)):
        draw.rectangle((90, 100 + 36 * row, 90 + length, 112 + 36 * row), fill=255)
    turned = np.asarray(image.rotate(-angle, resample=Image.Resampling.BILINEAR))
    return (turned > 127).astype(np.uint8)[..., None] * 255
