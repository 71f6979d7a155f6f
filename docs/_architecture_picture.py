"""Draw the picture of docs/architecture.md: the wings of the library, each above the wings that it imports from.

python docs/_architecture_picture.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.sax.saxutils import escape

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "tests" / "shared"))

import structure  # noqa: E402

PICTURE = DOCS / "architecture.svg"

_LABEL = "The wings of mediatensor: each imports from those below it"
_WIDTH, _MARGIN, _GAP = 980, 20, 12
_TITLE_HEIGHT, _BOX_HEIGHT = 30, 54
# The wings of each row, and of each wing its fill and outline and how many boxes it has side by side.
_ROWS = (("apps",), ("data and text",), ("data", "text"), ("media",))
_LOOKS = {
    "apps": ("#f1eee6", "#8d8570", 4),
    "data and text": ("#f7e6ea", "#b06a7c", 4),
    "data": ("#fbe9d0", "#bd8430", 2),
    "text": ("#efe3f5", "#8c62a3", 2),
    "media": ("#e3f0e1", "#5d9457", 4),
}


def draw() -> str:
    """The picture as SVG, the highest wing at the top."""
    parts, top = [], float(_MARGIN)
    for row in _ROWS:
        width = (_WIDTH - 2 * _MARGIN - _GAP * (len(row) - 1)) / len(row)
        height = max(map(_height, row))
        for place, wing in enumerate(row):
            parts += _wing(wing, _MARGIN + place * (width + _GAP), top, width, height)
        top += height + _GAP
    height = top - _GAP + _MARGIN
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-label="{_LABEL}">',
        "<!-- Drawn by docs/_architecture_picture.py. Boxes bring their background, for dark pages. -->",
        "<style>",
        "text { font-family: system-ui, sans-serif; text-anchor: middle; fill: #1d2733 }",
        ".w { font-size: 15px; font-weight: 600; text-anchor: start }",
        ".t { font-size: 14px; font-weight: 600 }",
        ".s { font-size: 11.5px }",
        "</style>",
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


def _height(wing: str) -> int:
    num_rows = -(-len(structure.WINGS[wing]) // _LOOKS[wing][2])
    return _TITLE_HEIGHT + num_rows * (_BOX_HEIGHT + _GAP)


def _wing(wing: str, left: float, top: float, width: float, height: float) -> list[str]:
    fill, outline, num_columns = _LOOKS[wing]
    packages = structure.WINGS[wing]
    parts = [
        _frame(left, top, width, height, fill, outline),
        f'<text x="{left + _GAP:g}" y="{top + 20:g}" class="w">{escape(wing)}</text>',
    ]
    for number, (package, purpose) in enumerate(packages.items()):
        row, column = divmod(number, num_columns)
        num_in_row = min(num_columns, len(packages) - row * num_columns)
        box_width = (width - _GAP * (num_in_row + 1)) / num_in_row
        box_left = left + _GAP + column * (box_width + _GAP)
        box_top = top + _TITLE_HEIGHT + row * (_BOX_HEIGHT + _GAP)
        path = structure.SOURCES / structure.PACKAGE / package.replace(".", "/")
        name = package.replace(".", "/") + ("/" if path.is_dir() else ".py")
        middle = box_left + box_width / 2
        parts += [
            _frame(box_left, box_top, box_width, _BOX_HEIGHT, "#ffffff", outline),
            f'<text x="{middle:.1f}" y="{box_top + 23:g}" class="t">{escape(name)}</text>',
            f'<text x="{middle:.1f}" y="{box_top + 42:g}" class="s">{escape(purpose)}</text>',
        ]
    return parts


def _frame(left: float, top: float, width: float, height: float, fill: str, outline: str) -> str:
    place = f'x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} rx="6" fill="{fill}" stroke="{outline}"/>'


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
    print(f"wrote {PICTURE}")
