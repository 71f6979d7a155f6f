"""A sheet of paper to draw a page on. It records the ground truth: the words, lines, regions and tables drawn on it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate

from PIL import Image, ImageDraw, ImageFont

from ._damage import Color, near
from ._faces import Face, bold_of
from ._texts import capitals, is_spaced, random_value, sentence_of, words_of
from ._truth import (
    DrawnCell,
    DrawnField,
    DrawnPageLine,
    DrawnRegion,
    DrawnTable,
    DrawnWord,
    Polygon,
    around,
    box_polygon,
)

Font = ImageFont.FreeTypeFont


class Sheet:
    """A sheet of paper on which a random page is drawn. All lengths are in pixels.

    Attributes:
        em: Font size of the running text.
        body, strong, fixed: Font faces of the running text, of headings, and of typed or machine-printed values.
        accent: A colour for headings, rules and fills.
    """

    def __init__(
        self,
        paper: Image.Image,
        em: float,
        rng: random.Random,
        *,
        body: Face,
        fixed: Face,
        faces: tuple[Face, ...],
        ink: Color,
        language: str,
        texts: Sequence[str],
    ) -> None:
        self.canvas, self.em, self.rng = paper, em, rng
        self.width, self.height = paper.size
        self.body, self.strong, self.fixed = body, bold_of(body, faces), fixed
        self.ink, self.language, self.texts = ink, language, texts
        self.accent = near(rng, rng.choice([ink, ink, (30, 60, 120), (120, 30, 40), (30, 90, 60)]), 20)
        self.regions: list[DrawnRegion] = []
        self.fields: list[DrawnField] = []
        self._lines: list[DrawnPageLine] = []
        self._boxes: list[Polygon] = []
        self._pen = ImageDraw.Draw(paper)

    def fitting(self, make: Callable[[], str]) -> str:
        """Return the first result of ``make`` that the face `body` can draw.

        After six calls, return the last text without the characters that the face cannot draw.
        """
        for _ in range(6):
            text = make().strip()
            if text and self.body.has(text):
                return text
        return "".join(letter for letter in text if self.body.has(letter)).strip() or "0"

    def sentence(self) -> str:
        """Return a random line of the user's own texts or, if there are none, a sentence in the sheet's language."""
        return self.fitting(lambda: sentence_of(self.rng, self.language, self.texts))

    def phrase(self, low: int, high: int) -> str:
        """Return ``low`` to ``high`` random words of the user's texts or, without texts, of the sheet's language."""
        words = self.rng.choice(self.texts).split() if self.texts else words_of(self.language)
        joint = " " if self.texts or is_spaced(self.language) else ""
        count = self.rng.randint(low, high)
        text = self.fitting(lambda: joint.join(self.rng.choices(words, k=count)))
        first = capitals(text[:1], self.language)
        return first + text[1:] if self.body.has(first) else text

    def value(self, *kinds: str) -> str:
        """Return a random value of one of these kinds, such as a date; see `random_value`."""
        return self.fitting(lambda: random_value(self.rng, self.rng.choice(kinds), self.language))

    @contextmanager
    def region(self, kind: str, table: Callable[[], DrawnTable | None] = lambda: None) -> Iterator[None]:
        """Record everything drawn in the ``with`` block as one region, with the ``table`` that is made at its end."""
        lines, boxes, self._lines, self._boxes = self._lines, self._boxes, [], []
        yield
        polygons = [line.polygon for line in self._lines] + self._boxes
        if polygons:
            self.regions.append(DrawnRegion(kind, around(polygons), tuple(self._lines), table()))
        self._lines, self._boxes = lines, boxes

    def belongs(self, left: float, top: float, right: float, bottom: float) -> None:
        """Enlarge the current region so that it includes this box, even if the box contains no text."""
        self._boxes.append(box_polygon(left, top, right, bottom))

    def write(
        self,
        x: float,
        y: float,
        text: str,
        font: Font,
        *,
        ink: Color | None = None,
        align: str = "left",
        width: float = 0.0,
        outlined: bool = False,
    ) -> DrawnPageLine:
        """Write a line of text with its baseline at ``y``, and return its ground truth.

        ``x`` is the left end of the line, its centre or its right end, depending on ``align``. If ``width`` is given,
        the spaces are widened, within limits, to fill it. If ``outlined``, letters have black edges.
        """
        parts = text.split(" ")
        lengths = [font.getlength(part) for part in parts]
        space = font.getlength(" ")
        total = sum(lengths) + space * (len(parts) - 1)
        if width and len(parts) > 1:
            space += max(0.0, min(width - total, 0.4 * self.em * len(parts))) / (len(parts) - 1)
        x -= {"left": 0.0, "centre": total / 2, "right": total}[align]
        words = []
        for part, length in zip(parts, lengths, strict=True):
            if part:
                words.append(DrawnWord(part, self._stamp(x, y, part, font, ink or self.ink, outlined)))
            x += length + space
        line = DrawnPageLine(tuple(words), around([word.polygon for word in words]))
        self._lines.append(line)
        return line

    def _stamp(self, x: float, y: float, word: str, font: Font, ink: Color, outlined: bool) -> Polygon:
        box = font.getbbox(word, anchor="ls")
        left, top = math.floor(box[0]) - 1, math.floor(box[1]) - 1
        mask = Image.new("L", (math.ceil(box[2]) + 2 - left, math.ceil(box[3]) + 2 - top))
        ImageDraw.Draw(mask).text((-left, -top), word, fill=255, font=font, anchor="ls")
        edges = mask.getbbox() or (0, 0, 1, 1)
        place = (round(x) + left, round(y) + top)
        if outlined:
            stroke = max(1, round(font.size / 18))
            edge = Image.new("L", (mask.width + 2 * stroke, mask.height + 2 * stroke))
            where = (stroke - left, stroke - top)
            ImageDraw.Draw(edge).text(where, word, fill=255, font=font, anchor="ls", stroke_width=stroke)
            self.canvas.paste((0, 0, 0), (place[0] - stroke, place[1] - stroke), edge)
        self.canvas.paste(ink, place, mask)
        return box_polygon(place[0] + edges[0], place[1] + edges[1], place[0] + edges[2], place[1] + edges[3])

    def broken(self, text: str, width: float, font: Font) -> list[str]:
        """Break a text into lines that are at most ``width`` wide. A word that is wider than a line is cut off."""
        spaced = is_spaced(self.language) or " " in text
        joint, lines, line = " " if spaced else "", list[str](), ""
        for part in text.split() if spaced else text:
            while font.getlength(part) > width and len(part) > 1:
                part = part[:-1]
            if line and font.getlength(line + joint + part) > width:
                lines.append(line)
                line = part
            else:
                line += (joint if line else "") + part
        return [*lines, line]

    def cut(self, text: str, width: float, font: Font) -> str:
        """Return the beginning of a text, as far as it fits into one line of this width."""
        return self.broken(text, width, font)[0]

    def paragraph(
        self,
        x: float,
        y: float,
        width: float,
        text: str,
        font: Font,
        *,
        leading: float = 1.35,
        align: str = "left",
        stop: float = math.inf,
        ink: Color | None = None,
        indent: float = 0.0,
    ) -> float:
        """Write a text in lines that are at most ``width`` wide, and return the baseline for the next line.

        ``align`` is left, right, centre or justify. Lines whose baseline would be below ``stop`` are left out.
        ``indent`` is the extra margin on the left of all lines but the first.
        """
        step = leading * font.size
        lines = self.broken(text, width - indent, font)
        for number, line in enumerate(lines):
            if y > stop:
                break
            if align in ("left", "justify"):
                full = width - indent if align == "justify" and number < len(lines) - 1 else 0.0
                self.write(x + (indent if number else 0), y, line, font, ink=ink, width=full)
            else:
                self.write(x + (width / 2 if align == "centre" else width), y, line, font, ink=ink, align=align)
            y += step
        return y

    def rule(self, x0: float, y0: float, x1: float, y1: float, width: float = 1, color: Color | None = None) -> None:
        edges = (round(x0), round(y0), round(x1), round(y1))
        self._pen.line(edges, fill=color or self.ink, width=max(1, round(width)))

    def dots(self, x0: float, x1: float, y: float) -> None:
        """Draw a dotted line, like those on forms that are to be filled in by hand."""
        step = max(3, round(self.em / 5))
        for x in range(round(x0), round(x1), step):
            self._pen.rectangle((x, round(y), x + step // 4, round(y) + step // 4), fill=self.ink)

    def box(
        self, x0: float, y0: float, x1: float, y1: float, *, fill: Color | None = None, outline: Color | None = None
    ) -> None:
        edges = (round(x0), round(y0), round(x1), round(y1))
        self._pen.rectangle(edges, fill=fill, outline=outline, width=max(1, round(self.em / 16)))

    def dot(self, x: float, y: float, radius: float, color: Color) -> None:
        self._pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=color)

    def bars(self, x0: float, y0: float, x1: float, y1: float) -> None:
        self.belongs(x0, y0, x1, y1)
        x, unit = x0, max(1, round((x1 - x0) / 95))
        while x < x1 - 4 * unit:
            thick = unit * self.rng.randint(1, 3)
            self._pen.rectangle((round(x), round(y0), round(x) + thick - 1, round(y1)), fill=self.ink)
            x += thick + unit * self.rng.randint(1, 3)

    def scribble(self, x: float, y: float, width: float) -> None:
        points, height, angle = [], width / 5, 0.0
        for step in range(120):
            angle += self.rng.uniform(0.05, 0.4)
            across = x + width * step / 120 + height / 2 * math.cos(angle)
            points.append((across, y + height * math.sin(angle) * (0.4 + 0.6 * math.cos(angle / 9) ** 2)))
        self._pen.line(points, fill=near(self.rng, (25, 35, 110), 20), width=max(1, round(self.em / 10)), joint="curve")

    def tinted(self, share: float) -> Color:
        """Mix the colour of the paper with `accent`. ``share`` is the share of `accent`, from 0 to 1."""
        pixel = self.canvas.getpixel((self.width // 2, min(3, self.height - 1)))
        paper = pixel if isinstance(pixel, tuple) else (255, 255, 255)
        red, green, blue = (round(p + (a - p) * share) for p, a in zip(paper[:3], self.accent, strict=True))
        return red, green, blue

    def picture(self, x0: float, y0: float, x1: float, y1: float, *, chart: bool | None = None) -> None:
        """Draw a random photograph or, if ``chart`` is true, a chart without text. ``None`` chooses at random."""
        left, top, width, height = round(x0), round(y0), max(8, round(x1 - x0)), max(8, round(y1 - y0))
        rng = self.rng
        self.belongs(left, top, left + width, top + height)
        if rng.random() < 0.4 if chart is None else chart:
            self.box(left, top, left + width - 1, top + height - 1, outline=self.ink)
            base, tall, count = top + height * 0.9, height * 0.8, rng.randint(4, 12)
            self.rule(left + width * 0.06, base, left + width * 0.96, base)
            self.rule(left + width * 0.06, base, left + width * 0.06, base - tall)
            step, color = width * 0.88 / count, rng.choice([self.accent, self.tinted(0.6)])
            heights = [rng.uniform(0.1, 0.95) * tall for _ in range(count)]
            if rng.random() < 0.5:
                for bar, high in enumerate(heights):
                    start = left + width * 0.08 + step * bar
                    self.box(start, base - high, start + step * 0.7, base, fill=color)
            else:
                points = [(left + width * 0.08 + step * bar, base - high) for bar, high in enumerate(heights)]
                self._pen.line(points, fill=color, width=max(1, round(self.em / 8)))
            return
        photo = Image.new("RGB", (width, height))
        shades = [near(rng, (level, level, level), 50) for level in rng.choices(range(30, 230), k=3)]
        for cells, share in ((2, 1.0), (6, 0.35), (40, 0.08)):
            low = [near(rng, rng.choice(shades), 30) for _ in range(cells * cells)]
            layer = Image.new("RGB", (cells, cells))
            layer.putdata(low)
            photo = Image.blend(photo, layer.resize(photo.size, Image.Resampling.BICUBIC), share)
        pen = ImageDraw.Draw(photo)
        for _ in range(rng.randint(0, 4)):
            x, y, size = rng.uniform(0, width), rng.uniform(height * 0.3, height), rng.uniform(0.05, 0.3) * width
            pen.ellipse((x - size, y - size / 2, x + size, y + size), fill=near(rng, (110, 100, 90), 90))
        self.canvas.paste(photo, (left, top))


# Kinds of columns of a table, and their weights.
_COLUMNS = {"words": 4, "sentence": 1, "number": 3, "price": 3, "date": 1, "code": 1, "mark": 1}


@dataclass(frozen=True)
class _Cell:
    text: str = ""
    row_span: int = 1
    column_span: int = 1
    align: str = "left"
    header: bool = False


def draw_random_table(sheet: Sheet, left: float, y: float, width: float, stop: float, max_rows: int) -> float:
    """Draw a table with random content from y to at most ``stop``, and return the y of its bottom."""
    rng = sheet.rng
    num_columns = max(2, min(rng.randint(2, 7), int(width / (5 * sheet.em))))
    kinds = ["words", *rng.choices(list(_COLUMNS), list(_COLUMNS.values()), k=num_columns - 1)]
    aligns = [{"number": "right", "price": "right", "mark": "centre"}.get(kind, "left") for kind in kinds]
    shares = [{"words": 1.4, "sentence": 2.4}.get(kind, 1.0) * rng.uniform(0.85, 1.2) for kind in kinds]
    edges = list(accumulate((width * share / sum(shares) for share in shares), initial=left))

    rows: list[dict[int, _Cell]] = []
    grouped = num_columns >= 4 and rng.random() < 0.35
    heads = {at: _Cell(sheet.phrase(1, 2), align=aligns[at], header=True) for at in range(num_columns)}
    if grouped:
        # Group columns under common heads. The head of the first column spans both rows.
        split = rng.randint(2, num_columns - 1)
        top = {0: _Cell(sheet.phrase(1, 1), 2, header=True)}
        top[1] = _Cell(sheet.phrase(1, 2), 1, split - 1, align="centre", header=True)
        if split < num_columns:
            top[split] = _Cell(sheet.phrase(1, 2), 1, num_columns - split, align="centre", header=True)
        rows.append(top)
        del heads[0]
    rows.append(heads)
    body, covered = rng.randint(2, max_rows), 0
    for number in range(body):
        row = {}
        for at, kind in enumerate(kinds):
            if at == 0 and covered:
                covered -= 1
                continue
            span = 1
            if at == 0 and rng.random() < 0.08 and number + 2 <= body:
                span, covered = 2, 1
            row[at] = _Cell(_content(sheet, kind), span, align=aligns[at])
        rows.append(row)
    if rng.random() < 0.25 and not covered and num_columns > 2:
        total = _Cell(sheet.phrase(1, 2), 1, num_columns - 1)
        rows.append({0: total, num_columns - 1: _Cell(sheet.value("price"), align="right")})
    return draw_grid(sheet, edges, y, rows, stop, look=rng.choice(["ruled", "ruled", "rows", "open", "zebra", "book"]))


def _content(sheet: Sheet, kind: str) -> str:
    if kind == "words":
        return sheet.phrase(1, 4)
    if kind == "sentence":
        return sheet.sentence()
    if kind == "mark":
        return sheet.rng.choice(["x", "-", "1", "2", "", ""])
    return sheet.value(kind) if sheet.rng.random() > 0.06 else ""


def draw_grid(
    sheet: Sheet,
    edges: list[float],
    y: float,
    rows: list[dict[int, _Cell]],
    stop: float,
    *,
    look: str = "open",
    font: Font | None = None,
    head: Font | None = None,
) -> float:
    """Draw the rows of a table, and return the y of the bottom of the last row that was drawn.

    ``edges`` are the x positions of the left and right edges of all columns. ``y`` is the top. Rows that would end
    below ``stop`` are left out. Each of ``rows`` maps column indices to the cells that start in these columns.

    ``look`` is one of: ``"ruled"`` (lines around all cells), ``"rows"`` (lines between rows), ``"book"`` (lines at the
    top, at the bottom and under the head), ``"zebra"`` (every other row filled), ``"open"`` (no lines).
    """
    rng = sheet.rng
    font = font or sheet.body.at(sheet.em * 0.92)
    head = head or sheet.strong.at(sheet.em * 0.92)
    pad, step = sheet.em * rng.uniform(0.3, 0.6), font.size * 1.25

    def space(at: int, cell: _Cell) -> float:
        return edges[at + cell.column_span] - edges[at] - 2 * pad

    texts = [
        {at: sheet.broken(cell.text, space(at, cell), head if cell.header else font)[:3] for at, cell in row.items()}
        for row in rows
    ]
    heights = [
        max([len(lines) for at, lines in row.items() if rows[number][at].row_span == 1] or [1]) * step + 2 * pad * 0.8
        for number, row in enumerate(texts)
    ]
    tops = list(accumulate(heights, initial=y))
    count = sum(bottom <= stop for bottom in tops[1:])
    if count < 2:
        return y
    num_heads = sum(any(cell.header for cell in row.values()) for row in rows)
    fill = sheet.tinted(0.18) if look in ("zebra", "ruled") and rng.random() < 0.6 else None
    for number in range(count):
        if fill and (number < num_heads or (look == "zebra" and number % 2 == 0)):
            sheet.box(edges[0], tops[number], edges[-1], tops[number + 1], fill=fill)
    cells: list[DrawnCell] = []
    with sheet.region("Table", lambda: DrawnTable(count, len(edges) - 1, look == "ruled", tuple(cells))):
        sheet.belongs(edges[0], tops[0], edges[-1], tops[count])
        for number in range(count):
            for at, cell in sorted(rows[number].items()):
                last, right = min(count, number + cell.row_span), at + cell.column_span
                x0, y0, x1, y1 = edges[at], tops[number], edges[right], tops[last]
                lines, used = [], head if cell.header else font
                texts_of_cell = [text for text in texts[number][at] if text]
                baseline = (y0 + y1 - step * len(texts_of_cell)) / 2 + step * 0.78
                for text in texts_of_cell:
                    x = {"left": x0 + pad, "centre": (x0 + x1) / 2, "right": x1 - pad}[cell.align]
                    lines.append(sheet.write(x, baseline, text, used, align=cell.align))
                    baseline += step
                if look == "ruled":
                    sheet.box(x0, y0, x1, y1, outline=sheet.ink)
                elif look == "rows" or (look == "book" and cell.header):
                    sheet.rule(x0, y1, x1, y1)
                polygon = box_polygon(x0, y0, x1, y1)
                spans = (last - number, cell.column_span)
                cells.append(DrawnCell(number, at, *spans, cell.header, tuple(lines), polygon))
        if look in ("book", "rows"):
            for edge in (tops[0], tops[count]):
                sheet.rule(edges[0], edge, edges[-1], edge, sheet.em / 10)
    return tops[count]


def plain_row(texts: list[str], aligns: list[str]) -> dict[int, _Cell]:
    """Return a row for `draw_grid` with one cell in each column. ``aligns`` are the alignments of the cells."""
    return {at: _Cell(text, align=align) for at, (text, align) in enumerate(zip(texts, aligns, strict=True))}
