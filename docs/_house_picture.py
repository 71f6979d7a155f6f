"""Draw the picture of docs/architecture.md from the imports of the library: each room stands on what it imports from.

python docs/_house_picture.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.sax.saxutils import escape

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "tests"))

import house  # noqa: E402

PICTURE = DOCS / "architecture.svg"

_LABEL = "The rooms of mediatensor: each imports from the floors below it"
_WIDTH, _MARGIN, _GAP = 980, 20, 14
_BOX_HEIGHT, _FLOOR_HEIGHT = 54, 74
# Fill and outline by what a room works with.
_COLORS = {
    "text": ("#efe3f5", "#8c62a3"),
    "training": ("#fbe9d0", "#bd8430"),
    "media": ("#e3f0e1", "#5d9457"),
    "base": ("#dbe7f6", "#5b7fb0"),
}
_TRAINING = ("cli", "distributed", "datasets", "samplers", "encoders")
_BASE = ("_common", "errors", "_sources", "_pyav", "isolate")


def draw() -> str:
    """The picture as SVG, the highest floor at the top."""
    rows = house.floors()[::-1]
    height = _MARGIN * 2 + _FLOOR_HEIGHT * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{_LABEL}">',
        "<!-- Drawn by docs/_house_picture.py. Boxes bring their background: it reads on light and on dark pages. -->",
        "<style>",
        "text { font-family: system-ui, sans-serif; text-anchor: middle; fill: #1d2733 }",
        ".t { font-size: 14px; font-weight: 600 }",
        ".s { font-size: 11.5px }",
        ".l { font-size: 12px; text-anchor: start; fill: #7d8791; font-style: italic }",
        ".f { stroke: #7d8791; stroke-width: 1; stroke-dasharray: 3 5 }",
        "</style>",
    ]
    for number, row in enumerate(rows):
        top = _MARGIN + number * _FLOOR_HEIGHT
        width = (_WIDTH - 2 * _MARGIN - _GAP * (len(row) - 1)) / len(row)
        box_width = min(width, 230)
        left = (_WIDTH - box_width * len(row) - _GAP * (len(row) - 1)) / 2
        for place, room in enumerate(row):
            parts += _box(room, left + place * (box_width + _GAP), top, box_width)
        line = top + _BOX_HEIGHT + (_FLOOR_HEIGHT - _BOX_HEIGHT) / 2
        parts.append(f'<path d="M{_MARGIN} {line:g} L{_WIDTH - _MARGIN} {line:g}" class="f"/>')
    return "\n".join([*parts, "</svg>", ""])


def _box(room: str, left: float, top: float, width: float) -> list[str]:
    fill, outline = _COLORS[_kind(room)]
    place = f'x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_BOX_HEIGHT}"'
    middle = f"{left + width / 2:.1f}"
    path = house.SOURCES / house.PACKAGE / room.replace(".", "/")
    # A box is too narrow for a path of three names.
    name = "/".join(room.split(".")[-2:]) + ("/" if path.is_dir() else ".py")
    return [
        f'<rect {place} rx="6" fill="{fill}" stroke="{outline}"/>',
        f'<text x="{middle}" y="{top + 23}" class="t">{escape(name)}</text>',
        f'<text x="{middle}" y="{top + 42}" class="s">{escape(house.ROOMS[room])}</text>',
    ]


def _kind(room: str) -> str:
    if room.startswith("ocr"):
        return "text"
    if room in _TRAINING:
        return "training"
    return "base" if room in _BASE else "media"


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
    print(f"wrote {PICTURE}")
