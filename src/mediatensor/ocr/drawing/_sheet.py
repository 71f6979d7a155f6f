"""A sheet that remembers what is written on it, and where: words, lines, and the regions that they belong to."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from PIL import Image, ImageDraw, ImageFont

from ._damage import Color, near
from ._faces import Face, bold_of
from ._texts import is_spaced, random_value, sentence_of, words_of
from ._truth import DrawnField, DrawnPageLine, DrawnRegion, DrawnTable, DrawnWord, Polygon, around, box_polygon

__all__ = ["Font", "Sheet"]

Font = ImageFont.FreeTypeFont


class Sheet:
    """A sheet of paper, on which layouts write. Lengths are pixels.

    Attributes:
        em: Size of the running text.
        body, strong, fixed: Faces of the text, of headings, and of what is typed or printed by a machine.
        accent: A color for headings, rules and fills.
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

    # What is written.

    def fitting(self, make: Callable[[], str], face: Face | None = None) -> str:
        """A text that the face has; characters that it lacks in every try are left out."""
        face = face or self.body
        for _ in range(6):
            text = make().strip()
            if text and face.has(text):
                return text
        return "".join(letter for letter in text if face.has(letter)).strip() or "0"

    def sentence(self) -> str:
        """A sentence, or a line of the user's texts."""
        return self.fitting(lambda: sentence_of(self.rng, self.language, self.texts))

    def phrase(self, low: int = 1, high: int = 3) -> str:
        """So many words of the language, or of the user's texts."""
        words = self.rng.choice(self.texts).split() if self.texts else words_of(self.language)
        joint = " " if self.texts or is_spaced(self.language) else ""
        count = self.rng.randint(low, high)
        text = self.fitting(lambda: joint.join(self.rng.choices(words, k=count)))
        return text[:1].upper() + text[1:] if self.body.has(text[:1].upper()) else text

    def value(self, *kinds: str) -> str:
        """A value of one of these kinds: price, date, number, code, address; see `random_value`."""
        return self.fitting(lambda: random_value(self.rng, self.rng.choice(kinds), self.language))

    # Regions.

    @contextmanager
    def region(self, kind: str, table: Callable[[], DrawnTable | None] = lambda: None) -> Iterator[None]:
        """What is written meanwhile is a region of this kind."""
        lines, boxes, self._lines, self._boxes = self._lines, self._boxes, [], []
        yield
        polygons = [line.polygon for line in self._lines] + self._boxes
        if polygons:
            self.regions.append(DrawnRegion(kind, around(polygons), tuple(self._lines), table()))
        self._lines, self._boxes = lines, boxes

    def belongs(self, left: float, top: float, right: float, bottom: float) -> None:
        """A box that the region goes around, too."""
        self._boxes.append(box_polygon(left, top, right, bottom))

    # Ink.

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
        """Write a line, so that ``y`` is its baseline and ``x`` where it starts, is centred or ends.

        With a width, spaces grow until the line fills it. Outlined letters have a black edge.
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
        """Paste the ink of a word, and say where it is."""
        box = font.getbbox(word, anchor="ls")
        left, top = math.floor(box[0]) - 1, math.floor(box[1]) - 1
        mask = Image.new("L", (math.ceil(box[2]) + 2 - left, math.ceil(box[3]) + 2 - top))
        ImageDraw.Draw(mask).text((-left, -top), word, fill=255, font=font, anchor="ls")
        edges = mask.getbbox() or (0, 0, 1, 1)
        place = (round(x) + left, round(y) + top)
        if outlined:
            room = max(1, round(font.size / 18))
            edge = Image.new("L", (mask.width + 2 * room, mask.height + 2 * room))
            where = (room - left, room - top)
            ImageDraw.Draw(edge).text(where, word, fill=255, font=font, anchor="ls", stroke_width=room)
            self.canvas.paste((0, 0, 0), (place[0] - room, place[1] - room), edge)
        self.canvas.paste(ink, place, mask)
        return box_polygon(place[0] + edges[0], place[1] + edges[1], place[0] + edges[2], place[1] + edges[3])

    def broken(self, text: str, width: float, font: Font) -> list[str]:
        """A text as lines that are at most so wide; words that are wider are cut."""
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
        """As much of a text as one line of this width holds."""
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
        """Write a text in lines of this width; returns the baseline of the line that would be next.

        ``align`` is left, right, centre or justify. Lines whose baseline is below ``stop`` are left out; ``indent`` is
        where all lines but the first begin.
        """
        step = leading * font.size
        lines = self.broken(text, width - indent, font)
        for number, line in enumerate(lines):
            if y > stop:
                break
            if align == "justify":
                full = width - indent if number < len(lines) - 1 else 0.0
                self.write(x + (indent if number else 0), y, line, font, ink=ink, width=full)
            elif align == "left":
                self.write(x + (indent if number else 0), y, line, font, ink=ink)
            else:
                self.write(x + (width / 2 if align == "centre" else width), y, line, font, ink=ink, align=align)
            y += step
        return y

    def rule(self, x0: float, y0: float, x1: float, y1: float, width: float = 1, color: Color | None = None) -> None:
        """A straight line."""
        edges = (round(x0), round(y0), round(x1), round(y1))
        self._pen.line(edges, fill=color or self.ink, width=max(1, round(width)))

    def dots(self, x0: float, x1: float, y: float) -> None:
        """A dotted line, to write on."""
        step = max(3, round(self.em / 5))
        for x in range(round(x0), round(x1), step):
            self._pen.rectangle((x, round(y), x + step // 4, round(y) + step // 4), fill=self.ink)

    def box(
        self, x0: float, y0: float, x1: float, y1: float, *, fill: Color | None = None, outline: Color | None = None
    ) -> None:
        """A rectangle."""
        edges = (round(x0), round(y0), round(x1), round(y1))
        self._pen.rectangle(edges, fill=fill, outline=outline, width=max(1, round(self.em / 16)))

    def dot(self, x: float, y: float, radius: float, color: Color) -> None:
        """A filled circle."""
        self._pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=color)

    def bars(self, x0: float, y0: float, x1: float, y1: float) -> None:
        """A bar code."""
        self.belongs(x0, y0, x1, y1)
        x, unit = x0, max(1, round((x1 - x0) / 95))
        while x < x1 - 4 * unit:
            thick = unit * self.rng.randint(1, 3)
            self._pen.rectangle((round(x), round(y0), round(x) + thick - 1, round(y1)), fill=self.ink)
            x += thick + unit * self.rng.randint(1, 3)

    def scribble(self, x: float, y: float, width: float) -> None:
        """A signature, which nobody can read."""
        points, height, angle = [], width / 5, 0.0
        for step in range(120):
            angle += self.rng.uniform(0.05, 0.4)
            points.append(
                (
                    x + width * step / 120 + height / 2 * math.cos(angle),
                    y + height * math.sin(angle) * (0.4 + 0.6 * math.cos(angle / 9) ** 2),
                )
            )
        self._pen.line(points, fill=near(self.rng, (25, 35, 110), 20), width=max(1, round(self.em / 10)), joint="curve")

    def tinted(self, share: float) -> Color:
        """A color between the paper and the accent."""
        pixel = self.canvas.getpixel((self.width // 2, min(3, self.height - 1)))
        paper = pixel if isinstance(pixel, tuple) else (255, 255, 255)
        red, green, blue = (round(p + (a - p) * share) for p, a in zip(paper[:3], self.accent, strict=True))
        return red, green, blue

    def picture(self, x0: float, y0: float, x1: float, y1: float, *, chart: bool | None = None) -> None:
        """A photograph, or a chart without words."""
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
