"""Draw lines that are hard to read: bitonal scans, faxes, thermal prints, typewriters, dot matrix printers and stamps.

`draw_hard_line` also returns the same line in clean print, with the letters in the same places. `form_texts` makes up
the texts of forms and receipts. `rare_texts` makes up texts that neither these nor sentences resemble. `draw_separator`
draws a row of dashes or other signs, which has no text.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from mediatensor.ocr.drawing import Face, LineLook, draw_line, random_look
from mediatensor.ocr.drawing._damage import damaged, papered, random_damage
from mediatensor.ocr.drawing._faces import random_face

#: Kinds of print with their weights.
KINDS = {"bitonal": 49, "receipt": 17, "scan": 14, "camera": 6, "dots": 6, "screen": 5, "stamp": 3}
# Signs whose rows separate the parts of a receipt.
_SEPARATORS = ("-", "-", "-", "-", "-", "=", "=", "_", ".", "~", "-=", "--", "-.", "==", "-_", ".-")
# Words of forms and receipts, and signs.
_FORM_WORDS, _SIGNS = map(str.split, Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split("\n\n"))
_CAPITALS = string.ascii_uppercase
_TYPEWRITER = re.compile(r"mono|courier|typewriter|cursor|cousine|consol|fixed", re.IGNORECASE)
_STAMP_INKS = ((40, 60, 150), (160, 30, 50), (90, 40, 130), (30, 90, 70))
_RESAMPLING = (Image.Resampling.BOX, Image.Resampling.BILINEAR, Image.Resampling.BICUBIC)


@dataclass(frozen=True, eq=False)
class HardLine:
    """A hard line.

    Attributes:
        image: uint8 (H, W, 3), RGB.
        clean: uint8 (h, w, 3), the same line in black on white, larger, without damage, rules and other lines.
        text: The text of both.
        kind: One of `KINDS`.
        face: The font face of the text.
    """

    image: NDArray[np.uint8]
    clean: NDArray[np.uint8]
    text: str
    kind: str
    face: Face


def form_texts(words: Sequence[str], num_texts: int, seed: int) -> list[str]:
    """Return lines of forms and receipts: names of fields, values, items with prices, numbers, codes and signs."""
    rng = random.Random(seed)
    kinds = {_field: 25, _item: 25, _words: 22, _value: 20, _values_and_signs: 8}
    return [kind(rng, words) for kind in rng.choices([*kinds], [*kinds.values()], k=num_texts)]


def _words(rng: random.Random, words: Sequence[str], most: int = 4) -> str:
    chosen = [rng.choice(words if words and rng.random() < 0.5 else _FORM_WORDS) for _ in range(rng.randint(1, most))]
    return rng.choice([str, str, str.title, str.upper, str.capitalize])(" ".join(chosen))


def _field(rng: random.Random, words: Sequence[str]) -> str:
    name = _words(rng, words) + rng.choice([":", ":", ":", "", ".", " -", " #", "(s):", "?"])
    return f"{name} {_value(rng, words)}" if rng.random() < 0.45 else name


def _item(rng: random.Random, words: Sequence[str]) -> str:
    name, other, number = _words(rng, words, 3), _words(rng, words, 1), rng.randint(1, 30)
    forms = (
        f"{number} {name}", f"{name} {_value(rng, words)}", f"{number} x {_price(rng)}", f"{number}. {name}",
        f"({rng.choice('abcdefgh12345')}) {name}", f"{name} @ {number}%", f"{name} & {other}", f"{name}/{other}",
        f"{name} ({other})", f"{name}-{other}", f"{_digits(rng, 6, 13)} {name.upper()}", f"{name}, {other}",
        f"{other.capitalize()} {rng.choice(_CAPITALS)}. {name.title()}",
        f"{_price(rng)} {rng.choice(['SR', 'S', 'Z'])}",
    )  # fmt: skip
    return rng.choice(forms)


def _value(rng: random.Random, words: Sequence[str]) -> str:
    return rng.choice([_number, _number, _price, _price, _day, _phone, _code])(rng)


def _values_and_signs(rng: random.Random, words: Sequence[str]) -> str:
    parts = [rng.choice(_SIGNS) if rng.random() < 0.3 else _value(rng, words) for _ in range(rng.randint(1, 3))]
    return " ".join(parts)


def _digits(rng: random.Random, fewest: int, most: int) -> str:
    return "".join(rng.choices("0123456789", k=rng.randint(fewest, most)))


def _number(rng: random.Random) -> str:
    whole = rng.randint(0, 10 ** rng.randint(1, 5))
    forms = (
        f"{whole}", f"{whole:,}.{_digits(rng, 2, 2)}", f"{rng.uniform(0, 100):.{rng.randint(1, 4)}f}",
        f"{whole % 101}%",
        f"{whole % 9 + 1}/{rng.randint(2, 16)}", _digits(rng, 4, 10), f"{rng.choice('+-')}{whole % 100}",
        f"{_digits(rng, 1, 3)}-{_digits(rng, 1, 4)}",
    )  # fmt: skip
    return rng.choice(forms)


def _price(rng: random.Random) -> str:
    currency = rng.choice(["$", "$", "$ ", "RM", "RM ", "£", "€", "USD ", ""])
    cents = rng.choice([f".{_digits(rng, 2, 2)}"] * 4 + ["", ".00"])
    return f"{rng.choice(['', '', '', '-'])}{currency}{rng.randint(0, 10 ** rng.randint(1, 5)):,}{cents}"


def _day(rng: random.Random) -> str:
    when = datetime(1950, 1, 1) + timedelta(minutes=rng.randrange(80 * 365 * 24 * 60))
    forms = (
        "%m/%d/%y", "%m/%d/%Y", "%d/%m/%Y", "%m-%d-%y", "%d-%m-%y", "%B %d, %Y", "%b. %d, %Y", "%d %b %Y", "%m/%y",
        "%d/%m/%Y %I:%M %p", "%H:%M:%S", "%I:%M%p", "%Y-%m-%d",
    )  # fmt: skip
    text = when.strftime(rng.choice(forms))
    return rng.choice([text, text, text.upper(), text.lower(), text.lstrip("0")])


def _phone(rng: random.Random) -> str:
    area, first, last = _digits(rng, 3, 3), _digits(rng, 3, 3), _digits(rng, 4, 4)
    forms = (
        f"({area}) {first}-{last}", f"{area}-{first}-{last}", f"{area}/{first}-{last}", f"{first}-{last}",
        f"({area}){first}-{last}", f"0{first[0]}-{last} {last[::-1]}", f"+{area[:2]} {first}{last}",
        f"{area} {first} {last}",
    )  # fmt: skip
    return rng.choice(forms)


def _code(rng: random.Random) -> str:
    letters, digits = "".join(rng.choices(_CAPITALS, k=rng.randint(1, 4))), _digits(rng, 1, 6)
    forms = (
        f"{letters}-{digits}", f"{letters}{digits}", f"#{digits}", f"{digits}{letters[0]}", f"No. {digits}", letters,
        f"{digits}-{letters[0]}", f"{letters} {digits}", f"({letters})", f"{letters[0]}{digits}{letters[-1]}",
    )  # fmt: skip
    return rng.choice(forms)


def rare_texts(words: Sequence[str], num_texts: int, seed: int) -> list[str]:
    """Return lines of code, captions between musical notes, lone signs and words, compounds, and lines of forms."""
    rng = random.Random(seed)
    kinds = {_code_line: 40, _song: 12, _lone: 22, _compounds: 11, _item: 5, _number: 5, _price: 5}
    texts = [
        kind(rng) if kind in (_number, _price) else kind(rng, words or _FORM_WORDS)
        for kind in rng.choices([*kinds], [*kinds.values()], k=num_texts)
    ]
    return [text for text in texts if text.isprintable()]


def _code_line(rng: random.Random, words: Sequence[str]) -> str:
    a, b, c = (_identifier(rng, words) for _ in range(3))
    number, other = rng.randint(0, 99), rng.randint(0, 9)
    operator, compare = rng.choice("+-*/%&|^"), rng.choice(["<", ">", "<=", ">=", "==", "!="])
    letters = rng.sample(string.ascii_letters, 4)
    forms = (
        f"if ({a} {compare} {number}) {{ {b} {operator}= {c}; }}", f"while ({a} {compare} {b}) {{ {a}++; }}",
        f"for ({a} = {other}; {a} {compare} {b}; {a}++) {{", f"{a} {operator}= {b}[{other}] {operator} {c};",
        f"{a} = ({b} {operator} {c}) {operator} {number};", f"{a}[{b}] = {c} {operator} {number}",
        f"return {a}({b}, {c}) {operator} {other}", f"def {a}({b}: int, *{c}) -> bool:",
        f"usage: {a} [-{letters[0]}] [-{letters[1]} {b}] [-{letters[2]} {c}] [--{letters[3]}]",
        f"{a}: {a} [-{letters[0]} {b} {c}] {a} ...", f"$ {a} -{letters[0]} {b}.{c} | {a} > {b}",
        f"{{ {a}: {number}, {b}: [{other}, {number}] }}", f"{a} && {b} || !{c}", f"{a} ? {b} : {c};",
        f'<{a} {b}="{c}"> ... </{a}>', f"{a}.{b}({c}) // {b} {c}", f"}} else if ({a}) {{", f"{a} -> {b} => {c}",
        f"# {a} {b}: {c}", f"({a}) ( {b} ) [ {c} ]", f"{a} := {b} :: {c};", f"{a} = {b} = {c}; }}",
    )  # fmt: skip
    return rng.choice(forms)


def _identifier(rng: random.Random, words: Sequence[str]) -> str:
    word = re.sub(r"\W", "", rng.choice(words)).lower()[:9] or "x"
    letter, suffix = rng.choice(string.ascii_lowercase), rng.choice("abcxyz012")
    return rng.choice([letter, word, word, f"{word}_{suffix}", word.upper()])


def _song(rng: random.Random, words: Sequence[str]) -> str:
    note = rng.choice("\N{EIGHTH NOTE}\N{EIGHTH NOTE}\N{EIGHTH NOTE}\N{BEAMED EIGHTH NOTES}#*")
    line = ", ".join(_words(rng, words, 5) for _ in range(rng.randint(1, 2)))
    return rng.choice([f"{note} {line} {note}", f"{note} {line} {note}", f"{note} {line}", f"- {line}", f"[{line}]"])


def _lone(rng: random.Random, words: Sequence[str]) -> str:
    forms = (
        rng.choice(_SIGNS), rng.choice(_SIGNS), rng.choice(string.punctuation), rng.choice(string.ascii_letters),
        _digits(rng, 1, 2), rng.choice(words), _number(rng), _code(rng),
        f"{rng.choice(string.punctuation)} {_number(rng)}",
    )  # fmt: skip
    return rng.choice(forms)


def _compounds(rng: random.Random, words: Sequence[str]) -> str:
    def compound() -> str:
        parts = (re.sub(r"\W", "", rng.choice(words)) for _ in range(rng.randint(2, 3)))
        return rng.choice(["", "", "-"]).join(parts)

    return " ".join(rng.choice([str, str.lower, str.capitalize])(compound()) for _ in range(rng.randint(1, 2)))


def draw_hard_line(rng: random.Random, texts: Sequence[str], faces: Sequence[Face]) -> HardLine:
    """Draw one of the texts in one of the faces. At least one face must have ASCII letters."""
    kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
    is_typed = kind == "dots" or rng.random() < 0.4
    typed = [face for face in faces if _TYPEWRITER.search(face.name)] if is_typed else []
    face = None
    while face is None:
        text = rng.choice(texts)
        face = random_face(rng, text, typed or faces)
    em_px = 2 ** rng.uniform(3.3, 4.9)
    drawn_em_px = round(max(40, min(64, 3 * em_px)))
    plain = _plain_look(rng, drawn_em_px, is_typed)
    clean = draw_line(text, rng, face=face, look=plain).image
    crowded = _crowded_look(rng, plain, kind, [other for other in rng.choices(texts, k=2) if face.has(other)])
    drawn = Image.fromarray(draw_line(text, rng, face=face, look=crowded).image)
    ink = _add_rules(ImageChops.invert(drawn.convert("L")), rng)
    if kind == "dots":
        ink = _dot_matrix(ink, drawn_em_px, rng)
    elif kind == "stamp" or (is_typed and rng.random() < 0.5):
        ink = _uneven(ink, drawn_em_px, rng)
    size = (max(8, round(ink.width * em_px / drawn_em_px)), max(8, round(ink.height * em_px / drawn_em_px)))
    image = _bitonal(ink, size, rng) if kind == "bitonal" else _printed(ink, size, kind, em_px, rng)
    return HardLine(np.array(image), clean, text, kind, face)


def draw_separator(rng: random.Random, faces: Sequence[Face], aspect: float) -> NDArray[np.uint8]:
    """Draw a row of signs that separates the parts of a receipt, such as dashes, cropped as closely as detectors do.

    Args:
        rng: Random numbers.
        faces: At least one must have ASCII signs.
        aspect: Greatest width relative to the height.
    """
    signs, spaces = rng.choice(_SEPARATORS), " " * rng.choice([0, 0, 0, 1, 2])
    # Thermal printers often leave out dots.
    share_worn = rng.choice([0, 0, 0.1, 0.3])
    parts = [rng.choice(".- ") if rng.random() < share_worn else signs for _ in range(rng.randint(6, 40))]
    line = draw_hard_line(rng, [spaces.join(["-", *parts, "-"])], faces)
    height, width = line.image.shape[:2]
    rows = np.flatnonzero((line.clean < 128).any((1, 2))) * (height / line.clean.shape[0])
    first, last = (rows[0], rows[-1]) if len(rows) else (0, height)
    space = rng.uniform(0.2, 1.5) * (last - first) + rng.uniform(1, 4)
    top, bottom = max(round(first - space), 0), min(round(last + space) + 1, height)
    across = min(width, max(round(aspect * (bottom - top)), 8))
    left = rng.randint(0, width - across)
    return line.image[top:bottom, left : left + across]


def _plain_look(rng: random.Random, em_px: float, is_typed: bool) -> LineLook:
    across, down = ([rng.triangular(-0.04, high, 0.13) for _ in range(2)] for high in (0.5, 0.38))
    return LineLook(
        em_px=em_px,
        margins=(across[0], down[0], across[1], down[1]),
        tracking=rng.uniform(-0.04, 0.12) if is_typed and rng.random() < 0.5 else 0.0,
        slant=rng.choice([0.1, 0.18, -0.06]) if rng.random() < 0.05 else 0.0,
        stretch=rng.uniform(0.8, 1.25) if rng.random() < 0.25 else 1.0,
        turn=rng.gauss(0, 0.5),
    )


def _crowded_look(rng: random.Random, plain: LineLook, kind: str, others: Sequence[str]) -> LineLook:
    """Add a rule and the lines above and below. Neither moves the letters."""
    above, below = (rng.choice(others) if others and rng.random() < 0.2 else "" for _ in range(2))
    return replace(
        plain,
        above=above,
        below=below,
        leading=rng.uniform(1.0, 1.35),
        rule=rng.choice(["underline", "dotted", "strike"]) if rng.random() < 0.12 else "",
        weight_px=rng.choice([1, 1, 2]) if kind == "bitonal" and rng.random() < 0.3 else 0,
    )


def _add_rules(ink: Image.Image, rng: random.Random) -> Image.Image:
    """Add the rules of a form: lines across the whole image below, above, before or after the text."""
    width, height, thickness = ink.width, ink.height, max(1, round(rng.uniform(0.02, 0.07) * ink.height))
    pen = ImageDraw.Draw(ink)
    for chance, first, last in ((0.17, 0.72, 1.0), (0.12, 0.0, 0.15)):
        if rng.random() < chance:
            y = round(rng.uniform(first, last) * height)
            pen.line((0, y, width, y + rng.choice([0, 0, 1])), fill=255, width=thickness)
    if rng.random() < 0.08:
        x = round(rng.uniform(0, 0.1) * height)
        x = rng.choice([x, width - 1 - x])
        pen.line((x, 0, x, height), fill=255, width=thickness)
    return ink


def _levels(ink: Image.Image) -> NDArray[np.float32]:
    return np.asarray(ink, np.float32)


def _as_image(levels: NDArray[np.float32]) -> Image.Image:
    return Image.fromarray(levels.clip(0, 255).astype(np.uint8))


def _lumps(size: tuple[int, int], cell_px: float, rng: random.Random) -> NDArray[np.float32]:
    """Return noise of standard deviation 1 that varies smoothly over ``cell_px`` pixels."""
    cells = [max(2, round(length / cell_px)) for length in reversed(size)]
    noise = np.random.default_rng(rng.getrandbits(32)).standard_normal(cells, dtype=np.float32)
    return _levels(Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC))


def _uneven(ink: Image.Image, em_px: float, rng: random.Random) -> Image.Image:
    """Imitate a stamp or a worn ribbon: parts of the letters have less ink."""
    shares = 0.85 + rng.uniform(0.1, 0.4) * _lumps(ink.size, em_px * rng.uniform(0.2, 0.8), rng)
    return _as_image(_levels(ink) * shares.clip(0.15, 1))


def _dot_matrix(ink: Image.Image, em_px: float, rng: random.Random) -> Image.Image:
    pitch = max(2, round(em_px / rng.uniform(7, 11)))
    y, x = np.mgrid[: ink.height, : ink.width] % pitch - (pitch - 1) / 2
    dots = 1.25 - np.hypot(x, y) / (pitch * rng.uniform(0.5, 0.75))
    return _as_image(_levels(ink) * dots.clip(rng.uniform(0, 0.6), 1).astype(np.float32))


def _bitonal(ink: Image.Image, size: tuple[int, int], rng: random.Random) -> Image.Image:
    """Imitate a fax or a scan with 1 bit per pixel, often at a higher resolution than the page's image."""
    step = rng.choice([1, 1, 1.3, 1.5, 2, 2, 3])
    fine = (round(size[0] * step), round(size[1] * step))
    if rng.random() < 0.2:
        ink = ink.filter(ImageFilter.MinFilter(3))
    levels = _levels(
        ink.resize(fine, rng.choice(_RESAMPLING[:2])).filter(ImageFilter.GaussianBlur(rng.uniform(0, 0.7)))
    )
    levels = levels + rng.triangular(0, 30, 4) * _lumps(fine, 1, rng) + rng.triangular(0, 40, 8) * _lumps(fine, 5, rng)
    is_black = levels > rng.triangular(55, 150, 95)
    if rng.random() < 0.3:
        is_black |= np.random.default_rng(rng.getrandbits(32)).random(levels.shape) < rng.uniform(0.001, 0.012)
    page = Image.fromarray(np.where(is_black, 0, 255).astype(np.uint8)).resize(size, rng.choice(_RESAMPLING))
    if rng.random() < 0.05:
        page = ImageChops.invert(page)
    steps = (("jpeg", rng.uniform(30, 80)),) if rng.random() < 0.1 else ()
    return damaged(page.convert("RGB"), steps, rng)


def _printed(ink: Image.Image, size: tuple[int, int], kind: str, em_px: float, rng: random.Random) -> Image.Image:
    """Print the ink on paper, then damage the image as suits the kind."""
    style = "scan" if kind in ("dots", "stamp") else kind
    look = random_look(rng, style)
    page = papered(size, look.paper, look.texture, rng)
    page.paste(
        rng.choice(_STAMP_INKS) if kind == "stamp" else look.ink, (0, 0), ink.resize(size, rng.choice(_RESAMPLING))
    )
    return damaged(page, random_damage(rng, style, 1.3 * em_px), rng)
