"""Draw single lines of text, cropped as tightly or loosely as a text detector would crop them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw

from mediatensor.errors import InvalidArgumentError

from ._damage import STYLES, Color, chosen_style, damaged, near, papered, random_damage
from ._faces import Face, is_shaped, random_face
from ._texts import random_text


@dataclass(frozen=True)
class LineLook:
    """The look of a drawn line.

    Attributes:
        em_px: Font size: the em in pixels.
        ink: Colour of the text, (red, green, blue) from 0 to 255.
        paper: Colour of the background, in the same form.
        texture: Maximum variation of the paper's brightness, in levels from 0 to 255.
        slant: How far the top of letters leans to the right, as a share of their height.
        tracking: Space to add after every letter, in em.
        weight_px: How much to thicken strokes, in pixels.
        stretch: Width of the letters, as a share of their natural width.
        margins: Space (left, top, right, bottom) between the ink and the edges of the crop, in em. A negative value
            cuts off ink.
        turn: Rotation, counter-clockwise, in degrees.
        curl: How much higher the middle of the line is than its ends, in em.
        above: The text of the line above. Parts of its letters may be visible at the top of the image.
        below: The text of the line below. Parts of its letters may be visible at the bottom of the image.
        leading: Distance between the baselines of consecutive lines, in em.
        rule: Lines to add: ``""`` (none), ``"underline"``, ``"strike"``, ``"box"`` or ``"dotted"``.
        damage: Damage to apply to the drawn image, as a sequence of pairs (name, amount). Names are blur, contrast,
            fax, jpeg, motion, noise, shadow, sharpen, small, streaks, thermal and video. The unit of an amount depends
            on the name: ``("jpeg", 40)`` is JPEG quality 40, and ``("blur", 0.7)`` is a Gaussian blur with a radius of
            0.7 pixels.

    Example:
        >>> import random
        >>> from mediatensor.ocr.drawing import LineLook, draw_line
        >>> look = LineLook(em_px=24, ink=(20, 40, 120), rule="underline", damage=(("blur", 0.7), ("jpeg", 40)))
        >>> draw_line("Paid in full", random.Random(0), look=look).image.shape[0] < 48
        True
    """

    em_px: float = 32
    ink: Color = (0, 0, 0)
    paper: Color = (255, 255, 255)
    texture: float = 0.0
    slant: float = 0.0
    tracking: float = 0.0
    weight_px: int = 0
    stretch: float = 1.0
    margins: tuple[float, float, float, float] = (0.15, 0.15, 0.15, 0.15)
    turn: float = 0.0
    curl: float = 0.0
    above: str = ""
    below: str = ""
    leading: float = 1.25
    rule: str = ""
    damage: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, eq=False)
class DrawnLine:
    """A drawn line with its ground truth.

    Attributes:
        image: uint8 (H, W, 3), RGB.
        text: The text of the line.
        face: The font face of the text.
        look: The look of the line.
    """

    image: NDArray[np.uint8]
    text: str
    face: Face
    look: LineLook


def as_random(rng: random.Random | np.random.Generator) -> random.Random:
    """Return ``rng``, or a new `random.Random` with a seed from the NumPy Generator ``rng``."""
    return rng if isinstance(rng, random.Random) else random.Random(int(rng.integers(2**63)))


def draw_line(
    text: str,
    rng: random.Random | np.random.Generator,
    *,
    face: Face | None = None,
    look: LineLook | None = None,
    style: str = "mixed",
    faces: Sequence[Face] | None = None,
) -> DrawnLine:
    """Draw a line of text, and return its image and ground truth as a `DrawnLine`.

    The same arguments and the same state of ``rng`` give the same line, on a machine with the same fonts.

    Args:
        text: The text, without line breaks.
        rng: The random generator. If it is a NumPy Generator, it only supplies a seed.
        face: The font face; ``None`` picks one of ``faces`` that has all characters of the text.
        look: The look of the line; ``None`` picks a random look of the style.
        style: One of `STYLES`, such as ``"scan"``. Used only if ``look`` is ``None``.
        faces: The faces to choose from if ``face`` is ``None``. ``None`` means all faces of the machine, as
            `find_faces` returns them.

    Raises:
        InvalidArgumentError: if the text is empty, no face has its characters, or the style is unknown.

    Example:
        >>> import random
        >>> from mediatensor.ocr.drawing import draw_line
        >>> line = draw_line("Total 12.50", random.Random(0), style="clean")
        >>> line.text, line.image.shape[2]
        ('Total 12.50', 3)
    """
    if not text.strip() or "\n" in text:
        raise InvalidArgumentError(f"text is {text!r}; a line has characters, and no line break")
    rng = as_random(rng)
    if face is None:
        face = random_face(rng, text, faces)
        if face is None:
            raise InvalidArgumentError(
                f"no face has all characters of {text!r}; install a font that has them, or name it"
            )
    elif not face.has(text):
        raise InvalidArgumentError(f"the face {face.name} lacks characters of {text!r}; see Face.has")
    if look is None:
        look = random_look(rng, style)
    image = _render(text, face, look, rng)
    return DrawnLine(np.array(damaged(image, look.damage, rng)), text, face, look)


def draw_random_line(
    rng: random.Random | np.random.Generator,
    *,
    languages: Sequence[str] = ("en",),
    characters: str | None = None,
    faces: Sequence[Face] | None = None,
    style: str = "mixed",
    texts: Sequence[str] = (),
) -> DrawnLine:
    """Draw a random line, and return it as a `DrawnLine`: a plausible text in a random face and with a random look.

    The same arguments and the same state of ``rng`` give the same line, on a machine with the same fonts.

    Args:
        rng: The random generator. If it is a NumPy Generator, it only supplies a seed.
        languages: Keys of `TEXTS`, such as ``"de"``. The line is in one of these languages, all equally likely.
        characters: The characters that the text may contain, in addition to spaces; ``None`` means all characters.
        faces: The faces to choose from; ``None`` means all faces of the machine, see `find_faces`.
        style: One of `STYLES`, such as ``"scan"``; ``"mixed"`` picks a random style.
        texts: Your own lines of text. Parts of them are drawn instead of the built-in texts; see `read_texts`.

    Raises:
        InvalidArgumentError: if no face has the characters of the text, or an argument is invalid.

    Example:
        >>> import random
        >>> from mediatensor.ocr.drawing import draw_random_line
        >>> line = draw_random_line(random.Random(0), characters="0123456789")
        >>> set(line.text) <= set("0123456789 ")
        True
    """
    rng = as_random(rng)
    for _ in range(20):
        text = random_text(rng, languages, characters, texts)
        face = random_face(rng, text, faces) if text else None
        if face is not None:
            break
    else:
        raise InvalidArgumentError(f"no face has all characters of {text!r}; install a font that has them, or name it")
    look = random_look(rng, style)
    if rng.random() < 0.3 and style != "clean":
        above, below = (random_text(rng, languages, characters, texts) for _ in range(2))
        look = replace(look, above=above if face.has(above) else text, below=below if face.has(below) else text)
        look = replace(look, leading=rng.uniform(1.0, 1.4))
    return draw_line(text, rng, face=face, look=look)


def _text_mask(text: str, face: Face, look: LineLook) -> tuple[Image.Image, tuple[int, int]]:
    """Draw a text, and return its mask, which is 255 where there is ink, and the (left, top) of the mask.

    The mask is cropped to the ink. Its position is relative to the point where the baseline starts.
    """
    font = face.at(look.em_px)
    if look.tracking and not is_shaped(text):
        x, places = 0.0, []
        for character in text:
            places.append(round(x))
            x += font.getlength(character) + look.tracking * look.em_px
        border = math.ceil(look.em_px)
        mask = Image.new("L", (max(1, math.ceil(x) + 2 * border), 4 * border))
        pen = ImageDraw.Draw(mask)
        for place, character in zip(places, text, strict=True):
            pen.text((border + place, 2 * border), character, fill=255, font=font, anchor="ls")
        left, top = -border, -2 * border
    else:
        box = font.getbbox(text, anchor="ls")
        left, top = round(box[0]) - 1, round(box[1]) - 1
        mask = Image.new("L", (max(1, round(box[2]) + 1 - left), max(1, round(box[3]) + 1 - top)))
        ImageDraw.Draw(mask).text((-left, -top), text, fill=255, font=font, anchor="ls")
    edges = mask.getbbox() or (0, 0, 1, 1)
    return mask.crop(edges), (left + edges[0], top + edges[1])


def _render(text: str, face: Face, look: LineLook, rng: random.Random) -> Image.Image:
    """Draw the line on paper, cropped as a text detector would crop it. Damage is not applied yet."""
    em = look.em_px
    mask, (left, top) = _text_mask(text, face, look)
    border = math.ceil(0.7 * em) + 2
    canvas = Image.new("L", (mask.width + 2 * border, mask.height + 2 * border))
    origin = (border - left, border - top)
    canvas.paste(mask, (border, border))
    for neighbour, step in ((look.above, -1), (look.below, 1)):
        if neighbour:
            other, (x, y) = _text_mask(neighbour, face, look)
            place = (origin[0] + x, origin[1] + y + round(step * look.leading * em))
            layer = Image.new("L", canvas.size)
            layer.paste(other, place)
            canvas = ImageChops.lighter(canvas, layer)
    pen, thickness = ImageDraw.Draw(canvas), max(1, round(em / 18))
    start, end = (border, border + mask.width)
    if look.rule in ("underline", "strike", "dotted"):
        y = origin[1] + round((-0.3 if look.rule == "strike" else 0.14) * em)
        if look.rule == "dotted":
            for x in range(0, canvas.width, max(3, round(em / 5))):
                pen.rectangle((x, y, x + thickness - 1, y + thickness - 1), fill=255)
        else:
            pen.line((start, y, end, y), fill=255, width=thickness)
    elif look.rule == "box":
        pad = round(0.12 * em)
        pen.rectangle(
            (start - 2 * pad, border - pad, end + 2 * pad, border + mask.height + pad), outline=255, width=thickness
        )
    if look.weight_px:
        size = 2 * look.weight_px + 1
        spread = ImageChops.lighter(canvas, ImageChops.offset(canvas, look.weight_px, 0))
        canvas = spread if size == 3 else ImageChops.lighter(spread, ImageChops.offset(canvas, 0, 1))
    canvas = _warp(canvas, look, origin[1])
    before, over, after, under = (margin * em for margin in look.margins)
    lean = abs(look.slant) * em * 0.8
    left, top = round(border - before - lean * 0.3), round(border - over)
    right, bottom = round(border + mask.width + after + lean), round(border + mask.height + under)
    # The margins may be negative, and a row of dashes is hardly higher than they are.
    canvas = canvas.crop((left, top, max(right, left + 8), max(bottom, top + 8)))
    if look.stretch != 1:
        canvas = canvas.resize((max(8, round(canvas.width * look.stretch)), canvas.height), Image.Resampling.BILINEAR)
    paper = papered(canvas.size, look.paper, look.texture, rng)
    paper.paste(look.ink, (0, 0), canvas)
    return paper


def _warp(canvas: Image.Image, look: LineLook, baseline: int) -> Image.Image:
    """Slant, rotate and curl the line that is drawn on ``canvas``. ``baseline`` is the y of the line's baseline."""
    if look.slant or look.turn:
        turn, middle = math.tan(math.radians(look.turn)), canvas.width / 2
        # Map from the result to the source: x depends on the row (slant), y on the column (turn).
        leaning = (1, look.slant, -look.slant * baseline, turn, 1, -turn * middle)
        canvas = canvas.transform(canvas.size, Image.Transform.AFFINE, leaning, Image.Resampling.BILINEAR)
    if look.curl:
        parts, width, height = 12, canvas.width, canvas.height
        edges = [round(width * part / parts) for part in range(parts + 1)]
        rise = [look.curl * look.em_px * ((2 * x / width - 1) ** 2 - 0.5) for x in edges]
        mesh = [
            ((x0, 0, x1, height), (x0, -y0, x0, height - y0, x1, height - y1, x1, -y1))
            for x0, x1, y0, y1 in zip(edges, edges[1:], rise, rise[1:], strict=False)
            if x1 > x0
        ]
        canvas = canvas.transform(canvas.size, Image.Transform.MESH, mesh, Image.Resampling.BILINEAR)
    return canvas


def _colors(rng: random.Random, style: str) -> tuple[Color, Color]:
    """Return random colours (ink, paper) that suit a style and contrast enough for the text to be readable."""
    if style == "clean":
        return (0, 0, 0), (255, 255, 255)
    if style in ("screen", "video"):
        for _ in range(20):
            ink, paper = (tuple(rng.randrange(256) for _ in range(3)) for _ in range(2))
            if rng.random() < 0.3:
                ink = (255, 255, 255)
            if abs(_luma(ink) - _luma(paper)) > 70:
                break
        return (ink[0], ink[1], ink[2]), (paper[0], paper[1], paper[2])
    paper_level = rng.randint(205, 255) if style != "camera" else rng.randint(130, 245)
    paper = near(rng, (paper_level, paper_level, max(0, paper_level - rng.choice([0, 0, 8, 25]))), 4)
    dark = rng.choice([0, 10, 20, 40, 60, 90])
    if rng.random() < 0.15:
        ink = near(rng, rng.choice([(20, 40, 130), (150, 20, 30), (10, 80, 40), (90, 50, 20)]), 25)
    else:
        ink = near(rng, (dark, dark, dark), 6)
    if rng.random() < 0.06:
        return paper, ink
    return ink, paper


def _luma(color: Sequence[int]) -> float:
    return 0.3 * color[0] + 0.59 * color[1] + 0.11 * color[2]


def random_look(rng: random.Random | np.random.Generator, style: str = "mixed") -> LineLook:
    """Return a random look of a line: its size, colours, distortion and damage.

    Args:
        rng: The random generator. If it is a NumPy Generator, it only supplies a seed.
        style: ``"clean"`` (black on white without damage), ``"print"``, ``"scan"``, ``"fax"``, ``"receipt"``,
            ``"camera"``, ``"screen"``, ``"video"``, or ``"mixed"`` for a random style.

    Raises:
        InvalidArgumentError: if the style is unknown.

    Example:
        >>> import random
        >>> from mediatensor.ocr.drawing import random_look
        >>> random_look(random.Random(0), "clean").ink
        (0, 0, 0)
    """
    rng = as_random(rng)
    style = chosen_style(rng, style, dict(zip(STYLES, (6, 22, 24, 8, 10, 14, 10, 6), strict=False)))
    ink, paper = _colors(rng, style)
    em = 2 ** rng.triangular(3.9, 6.2, 5.0)
    if style == "clean":
        return LineLook(em_px=em, margins=(0.1, 0.1, 0.1, 0.1))
    texture = rng.uniform(0, 14)
    if style in ("screen", "fax"):
        texture = rng.choice([0, 0, texture, 2 * texture])
    bent = style == "camera" and rng.random() < 0.5
    return LineLook(
        em_px=em,
        ink=ink,
        paper=paper,
        texture=texture,
        slant=rng.choice([0.12, 0.2, 0.25, -0.08]) if rng.random() < 0.06 else 0.0,
        tracking=rng.uniform(-0.03, 0.25) if rng.random() < 0.12 else 0.0,
        weight_px=1 if rng.random() < 0.08 and em > 24 else 0,
        stretch=rng.uniform(0.75, 1.3) if rng.random() < 0.25 else 1.0,
        margins=tuple(rng.triangular(-0.03, 0.4, 0.12) for _ in range(4)),  # type: ignore[arg-type]
        turn=rng.gauss(0, 0.5) if not bent else rng.gauss(0, 1.2),
        curl=rng.uniform(-0.15, 0.15) if bent else 0.0,
        rule=rng.choice(["underline", "underline", "box", "dotted", "strike"]) if rng.random() < 0.07 else "",
        damage=random_damage(rng, style, em),
    )
