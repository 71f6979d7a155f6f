"""Lines of many scripts, rendered to fit and to measure the classifier of scripts that a recogniser cannot read.

A line is common words of its script in any order, words made of its letters, or both, with digits and a Latin word
here and there; in any installed face that has its letters, as it is or stretched, slanted, thicker or thinner; small or
large, sharp or blurred, noisy, low in contrast or slightly skewed; underlined, framed, or with a bit of the next line;
cut out as loosely or closely as a detector of lines cuts. Readable lines are drawn in the same way.
"""

from __future__ import annotations

import io
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from mediatensor.ocr.datasets import VOCABS

READABLE = ""
"""Represents all lines that the default recogniser can read."""


def _sections(kind: str) -> dict[str, str]:
    """Return the sections of ``script_lines.txt`` of one kind, by name."""
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    parts = (part.split("]\n", 1) for part in text.split("[")[1:])
    named = {heading: " ".join(body.split()) for heading, body in parts}
    return {name.partition(" ")[2]: body for name, body in named.items() if name.startswith(kind + " ")}


WORDS = {script: words.split() for script, words in _sections("words").items()}
LATIN_WORDS = WORDS.pop("Latin")
"""Words of many languages in Latin letters; ``WORDS`` keeps common words of scripts that cannot be read."""

LETTERS = {
    "Cyrillic": "russian ukrainian serbian_cyrillic bulgarian kazakh",
    "Greek": "greek greek_extended",
    "Arabic": "arabic persian",
    "Hebrew": "hebrew_consonants",
    "Devanagari": "devanagari_consonants devanagari_matras",
    "Bengali": "bengali_consonants bengali_matras",
    "Tamil": "tamil_consonants tamil_matras",
    "Thai": "thai",
    "Hangul": "korean",
    "Georgian": "georgian",
    "Armenian": "armenian",
    "Gujarati": "gujarati_consonants gujarati_matras",
    "Gurmukhi": "punjabi_consonants punjabi_matras",
    "Telugu": "telugu_consonants telugu_matras",
    "Kannada": "kannada_consonants kannada_matras",
    "Malayalam": "malayalam_consonants malayalam_matras",
    "Sinhala": "sinhala_consonants sinhala_matras",
    "Khmer": "khmer_consonants khmer_matras",
    "Lao": "lao",
    "Myanmar": "burmese_consonants burmese_vowels",
    "Ethiopic": "ethiopic",
}
"""Vocabularies with the letters of each script."""

MORE_WORDS = tuple(script for script in LETTERS if script not in WORDS)
"""Scripts with letters but no words here: rendered less often."""
SCRIPTS = (*WORDS, *MORE_WORDS)

KANA = "".join(map(chr, [*range(0x3041, 0x3094), *range(0x30A1, 0x30F7)]))
COMMON_HANZI = bytes(value for row in range(0xB0, 0xD7) for cell in range(0xA1, 0xFA) for value in (row, cell)).decode(
    "gb2312"
)


@dataclass(frozen=True)
class ScriptLine:
    """A rendered line.

    Attributes:
        script: Its script, or `READABLE`.
        kind: Kind of text: a script's name, "Latin", "Chinese", "upside down", ...
        text: Its text.
        face: The file of its face.
        picture: RGB, uint8 (H, W, 3), cut out as a detector would.
    """

    script: str
    kind: str
    text: str
    face: str
    picture: np.ndarray


@dataclass(frozen=True)
class Face:
    """An installed font: its file, its number in the file, its family, and its characters."""

    path: str
    index: int
    family: str
    characters: frozenset[int]


@cache
def installed_faces(folders: tuple[str, ...]) -> tuple[Face, ...]:
    """Return the fonts below these folders, without symbol fonts."""
    from fontTools.ttLib import TTCollection, TTFont  # type: ignore[import-untyped]

    faces = []
    paths = sorted(path for folder in folders for path in Path(folder).rglob("*") if path.suffix in SUFFIXES)
    for path in paths:
        try:
            fonts = TTCollection(path, lazy=True).fonts if path.suffix == ".ttc" else [TTFont(path, lazy=True)]
            for index, font in enumerate(fonts):
                family = font["name"].getDebugName(16) or font["name"].getDebugName(1) or path.stem
                if any(
                    part in family for part in ("Symbol", "Emoji", "Music", "Math", "Mono CJK", "Blank", "D050000L")
                ):
                    continue
                faces.append(Face(str(path), index, family, frozenset(font.getBestCmap() or {})))
        except Exception as error:  # a font that fontTools cannot read is useless here
            print(f"{path}: {error}")
    return tuple(faces)


SUFFIXES = {".ttf", ".otf", ".ttc"}


def family_of(face: Face) -> str:
    """Return the family without the words that distinguish near twins."""
    words = [word for word in face.family.split() if word not in TWINS]
    return " ".join(words)


TWINS = {"UI", "Display", "Looped", "Condensed", "SemiCondensed", "ExtraCondensed", "Light", "Thin", "Medium", "Black"}


def is_held_out(face: Face, families: Sequence[str]) -> bool:
    """Whether this font is only for measuring, not fitting: DejaVu, and every fourth family of a script."""
    family = family_of(face)
    return family.startswith("DejaVu") or (len(families) > 1 and sorted(families).index(family) % 4 == 1)


def _faces_for(characters: str, faces: Sequence[Face], held_out: bool) -> dict[str, list[Face]]:
    """Return the fonts with all of these characters, by family."""
    wanted = set(map(ord, characters))
    fitting = [face for face in faces if wanted <= face.characters]
    families = sorted({family_of(face) for face in fitting})
    chosen: dict[str, list[Face]] = {}
    for face in fitting:
        if is_held_out(face, families) == held_out:
            chosen.setdefault(family_of(face), []).append(face)
    return chosen


PROBES = {**_sections("face"), "Chinese": COMMON_HANZI[:1500]}
"""Characters that a font must have for a kind of line."""


class LinePainter:
    """Render random lines.

    Args:
        folders: Folders with fonts.
        held_out: Render in the fonts that are not used for fitting.
        seed: The same one draws the same lines on one machine.
        latin_words: More words in Latin letters.
    """

    def __init__(self, folders: Sequence[str], *, held_out: bool, seed: int, latin_words: Sequence[str] = ()) -> None:
        self.latin_words = [*LATIN_WORDS, *latin_words]
        faces = installed_faces(tuple(folders))
        self.random = random.Random(seed)
        self.noise = np.random.default_rng(seed)
        self.faces = {kind: _faces_for(probe, faces, held_out) for kind, probe in PROBES.items()}

    def lines(self, counts: dict[str, int]) -> Iterator[ScriptLine]:
        """Yield this many lines of each kind, one kind after the other; skip kinds without a font."""
        for kind, count in counts.items():
            if kind != "Blots" and not self.faces[_face_kind(kind)]:
                continue
            for _ in range(count):
                yield self.line(kind)

    def line(self, kind: str) -> ScriptLine:
        """Render a line of a kind: a script, or one of `READABLE_KINDS`."""
        while kind == "Blots":
            picture = self._degraded(self._blot())
            if picture is not None:
                return ScriptLine(READABLE, kind, "", "", picture)
        while True:
            families = self.faces[_face_kind(kind)]
            face = self.random.choice(families[self.random.choice(sorted(families))])
            text = self.text(kind)
            if not {ord(character) for character in text} - {0x200C} <= face.characters | {32}:
                text = "".join(c for c in text if ord(c) in face.characters or c == " ").strip()
            if sum(not character.isspace() for character in text) < 2:
                continue
            picture = self._degraded(self._drawn(text, face))
            if picture is None:
                continue
            if kind == "upside down":
                picture = np.ascontiguousarray(picture[::-1, ::-1])
            return ScriptLine(kind if kind in SCRIPTS else READABLE, kind, text, face.path, picture)

    def text(self, kind: str) -> str:
        """Return the text of a line."""
        rng = self.random
        number = rng.choice([1, 1, 2, 3, 4, 5, 6, 8])
        if kind in ("Latin", "Plain", "upside down"):
            words = [self._latin_word() for _ in range(number)]
            if rng.random() < 0.15:
                words.insert(rng.randrange(len(words) + 1), self._number())
            return self._cased(" ".join(words))
        if kind == "Numbers":
            return " ".join(self._number() for _ in range(min(number, 4)))
        if kind == "Codes":
            return " ".join(rng.choice([self._code, self._number, self._latin_word])() for _ in range(min(number, 5)))
        if kind == "Greek signs":
            words = [self._latin_word() if rng.random() < 0.6 else self._number() for _ in range(number + 1)]
            words.insert(
                rng.randrange(len(words) + 1), rng.choice(["\u03b1", "β", "μm", "Ω", "π", "Δt", "λ = 5", "Σ", "θ", "ω"])
            )
            return " ".join(words)
        if kind == "Marks":
            return self._marks()
        if kind == "Chinese":
            return self._east_asian(COMMON_HANZI, number)
        if kind == "Japanese":
            return self._east_asian(KANA * 4 + COMMON_HANZI[:1500], number)
        words = [self._script_word(kind) for _ in range(number)]
        if kind == "Vietnamese":
            # Many Vietnamese words have plain letters only: a line needs words with accents.
            while sum(0x1EA0 <= ord(character) < 0x1F00 for character in "".join(words)) < max(1, number // 2):
                words[rng.randrange(len(words))] = self._script_word(kind)
            if sum(map(len, words)) < 4:
                words.append(self._script_word(kind))
        while sum(map(len, words)) < 4:
            words.append(self._script_word(kind))
        # A line belongs to the script of most of its characters.
        num_letters = sum(map(len, words))
        if rng.random() < 0.3:
            more = rng.choice([self._number, self._number, self._latin_word])()
            if 2 * len(more) <= num_letters:
                words.insert(rng.randrange(len(words) + 1), more)
        return (
            self._cased(" ".join(words)) if kind in ("Cyrillic", "Greek", "Armenian", "Vietnamese") else " ".join(words)
        )

    def _cased(self, text: str) -> str:
        way = self.random.random()
        if way < 0.15:
            return text.upper()
        if way < 0.3:
            return text.title()
        text = text[:1].upper() + text[1:] if way < 0.7 else text
        return text + self.random.choice(["", "", ".", ",", ":", ";", "?", "!"])

    def _latin_word(self) -> str:
        rng = self.random
        if rng.random() < 0.7:
            return rng.choice(self.latin_words)
        letters = VOCABS["ascii_letters"][:26] + "aeioueaioaenrst" * 3
        if rng.random() < 0.3:
            letters += rng.choice(ACCENTED) * 2
        return "".join(rng.choice(letters) for _ in range(rng.randint(1, 11)))

    def _number(self) -> str:
        rng = self.random
        amount = rng.choice([rng.randrange(100), rng.randrange(10_000), rng.randrange(10_000_000)])
        return rng.choice(
            [
                str(amount),
                f"{amount / 100:.2f}",
                f"{amount / 100:,.2f} €",
                f"${amount / 100:.2f}",
                f"{rng.randint(1, 28):02}.{rng.randint(1, 12):02}.20{rng.randint(10, 30)}",
                f"{rng.randint(1, 12)}/{rng.randint(1, 28)}/{rng.randint(60, 99)}",
                f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}",
                f"{rng.randint(1, 100)}%",
                f"({rng.randrange(100, 999)}) {rng.randrange(100, 999)}-{rng.randrange(1000, 9999)}",
                f"No. {amount}",
            ]
        )

    def _code(self) -> str:
        rng = self.random
        letters = rng.choice([VOCABS["ascii_letters"][26:] + VOCABS["digits"] * 3, VOCABS["latin"], "IlO0-_./"])
        return "".join(rng.choice(letters) for _ in range(rng.randint(2, 14)))

    def _marks(self) -> str:
        """Return a rule of signs, a line to fill in, an empty box before a word, or dense signs."""
        rng = self.random
        rule = rng.choice(".-=*_~#+:/") * rng.randint(3, 40)
        return rng.choice(
            [
                rule,
                f"{self._latin_word()} {rule}",
                f"{self._latin_word()} {rule} {self._number()}",
                " ".join(rng.choice("*.-_=#") * rng.randint(1, 4) for _ in range(rng.randint(2, 8))),
                f"[{rng.choice(' xX')}] {self._latin_word()}",
                f"{rng.choice('*$@&%+')} {self._code()} {rng.choice('*#/|')}",
                f"<<{self._latin_word()}>> | {self._number()} |",
            ]
        )

    def _east_asian(self, letters: str, number: int) -> str:
        rng = self.random
        text = "".join(rng.choice(letters) for _ in range(rng.choice([2, 3, 4, 6, 8, 12, 20])))
        if rng.random() < 0.3:
            text += rng.choice(["", " ", "\uff1a"]) + self._number()
        if rng.random() < 0.1:
            text = self._latin_word() + text
        return text + rng.choice(["", "", "。", "\uff0c"])

    def _script_word(self, kind: str) -> str:
        rng = self.random
        if kind in WORDS and rng.random() < (0.8 if kind not in ("Hangul",) else 0.4):
            return rng.choice(WORDS[kind])
        if kind == "Vietnamese":
            return (
                "".join(rng.choice(["", "b", "ch", "đ", "ng", "th", "tr", "v"]))
                + rng.choice(PROBES["Vietnamese"])
                + rng.choice(["", "n", "ng", "t", "c", "m"])
            )
        parts = LETTERS[kind].split()
        length = rng.randint(2, 9)
        if len(parts) > 1 and parts[1].endswith(("matras", "vowels")):
            bases, marks = VOCABS[parts[0]], VOCABS[parts[1]]
            return "".join(rng.choice(bases) + (rng.choice(marks) if rng.random() < 0.5 else "") for _ in range(length))
        letters = "".join(c for c in VOCABS[rng.choice(parts)] if c.isalpha() and ord(c) > 0x24F)
        word = "".join(rng.choice(letters) for _ in range(length))
        return word.lower() if rng.random() < 0.8 else word

    def _drawn(self, text: str, face: Face) -> Image.Image:
        rng = self.random
        size = rng.choice([rng.randint(12, 24), rng.randint(18, 40), rng.randint(30, 64)])
        font = ImageFont.truetype(face.path, size, index=face.index)
        left, top, right, bottom = font.getbbox(text)
        pad = size
        canvas = Image.new("RGB", (int(right - left) + 2 * pad, int(bottom - top) + 2 * pad), self._paper())
        paper = np.asarray(canvas)[0, 0].astype(int)
        ink = self._ink(paper)
        ImageDraw.Draw(canvas).text((pad - left, pad - top), text, font=font, fill=ink)
        canvas = self._reshaped(canvas, paper, size)
        left, right = 0, canvas.width - 2 * pad
        if rng.random() < 0.15:
            self._crowd(canvas, (pad, pad + int(bottom - top)), ink, face, size)
        angle = rng.gauss(0, 0.6) if rng.random() < 0.4 else 0
        if angle:
            canvas = canvas.rotate(angle, Image.Resampling.BICUBIC, fillcolor=tuple(paper.tolist()))
        height = canvas.height - 2 * pad
        # A detector's box: some space around the ink, or slightly too tight.
        air = [rng.uniform(-0.02, 0.25) * height for _ in range(2)] + [rng.uniform(0.0, 0.5) * height for _ in range(2)]
        return canvas.crop(
            (
                int(pad - air[2]),
                int(pad - air[0]),
                int(canvas.width - pad + air[3]) + 1,
                int(canvas.height - pad + air[1]) + 1,
            )
        )

    def _reshaped(self, canvas: Image.Image, paper: np.ndarray, size: int) -> Image.Image:
        """Return the image unchanged, stretched, slanted, or with thicker or thinner strokes."""
        rng = self.random
        way = rng.random()
        if way < 0.12:
            width = max(8, round(canvas.width * rng.uniform(0.7, 1.35)))
            return canvas.resize((width, canvas.height), Image.Resampling.BICUBIC)
        if way < 0.18:
            slant = rng.uniform(-0.08, 0.3)
            shear = (1, slant, -slant * canvas.height / 2, 0, 1, 0)
            return canvas.transform(
                canvas.size, Image.Transform.AFFINE, shear, Image.Resampling.BICUBIC, fillcolor=tuple(paper.tolist())
            )
        if way < 0.26 and size >= 20:
            return canvas.filter(rng.choice([ImageFilter.MinFilter(3), ImageFilter.MaxFilter(3)]))
        return canvas

    def _crowd(
        self, canvas: Image.Image, rows: tuple[int, int], ink: tuple[int, int, int], face: Face, size: int
    ) -> None:
        """Add things often found next to text: a rule below it, a frame, or a bit of the next line."""
        rng = self.random
        draw = ImageDraw.Draw(canvas)
        top, bottom = rows
        thick = max(1, size // 16)
        way = rng.random()
        if way < 0.4:
            y = bottom + rng.randint(-1, max(1, size // 6))
            draw.line([(rng.randrange(size), y), (canvas.width - rng.randrange(size), y)], fill=ink, width=thick)
        elif way < 0.6:
            air = rng.randint(1, max(2, size // 4))
            draw.rectangle((size - 2 * air, top - air, canvas.width - size + 2 * air, bottom + air), None, ink, thick)
        else:
            words = " ".join(self._latin_word() for _ in range(6))
            font = ImageFont.truetype(face.path, size, index=face.index)
            y = (
                bottom + rng.randint(0, max(1, size // 5))
                if rng.random() < 0.5
                else top - rng.randint(size, 5 * size // 4)
            )
            draw.text((rng.randint(-size, size), y), words, font=font, fill=ink)

    def _blot(self) -> Image.Image:
        """Draw shapes that a detector mistakes for text: scrawls, bars, stains, corners of frames."""
        rng = self.random
        height = rng.randint(14, 56)
        canvas = Image.new("RGB", (int(height * rng.uniform(1, 10)), height), self._paper())
        paper = np.asarray(canvas)[0, 0].astype(int)
        ink, draw = self._ink(paper), ImageDraw.Draw(canvas)
        thick = max(1, rng.randint(height // 20, height // 6))
        way = rng.random()
        if way < 0.35:
            points = [(0.0, height / 2)]
            while points[-1][0] < canvas.width and len(points) < 80:
                x = points[-1][0] + rng.uniform(-0.3, 0.7) * height
                points.append((x, height * rng.gauss(0.5, 0.25)))
            draw.line(points, ink, thick, joint="curve")
        elif way < 0.55:
            x = 0
            while x < canvas.width:
                bar = rng.randint(1, thick + 1)
                draw.rectangle((x, 0, x + bar - 1, height), ink)
                x += bar + rng.randint(1, thick + 2)
        elif way < 0.8:
            stains = Image.fromarray(self.noise.integers(0, 256, (height, canvas.width), np.uint8))
            stains = stains.filter(ImageFilter.GaussianBlur(rng.uniform(1, height / 6)))
            values = np.asarray(stains)
            dark = values < np.quantile(values, rng.uniform(0.05, 0.4))
            canvas.paste(ink, mask=Image.fromarray(np.where(dark, 255, 0).astype(np.uint8)))
        else:
            for _ in range(rng.randint(1, 5)):
                corner = rng.randrange(canvas.width), rng.randrange(height)
                size = rng.randint(4, 4 * height), rng.randint(4, height)
                shape = draw.rectangle if rng.random() < 0.7 else draw.ellipse
                shape((*corner, corner[0] + size[0], corner[1] + size[1]), rng.choice([None, ink]), ink, thick)
        return canvas

    def _paper(self) -> tuple[int, int, int]:
        if self.random.random() < 0.5:
            return (255, 255, 255)
        if self.random.random() < 0.12:
            value = self.random.randint(0, 90)
            return (value, value, value)
        value = self.random.randint(200, 255)
        tint = [max(0, value - self.random.randint(0, 25)) for _ in range(3)]
        return (tint[0], tint[1], tint[2])

    def _ink(self, paper: np.ndarray) -> tuple[int, int, int]:
        rng = self.random
        if paper.mean() < 128:
            value = rng.randint(200, 255)
            return (value, value, value)
        if rng.random() < 0.6:
            return (0, 0, 0)
        value = rng.randint(0, 120)
        tint = [min(150, value + rng.randint(0, 60)) for _ in range(3)]
        return (tint[0], tint[1], tint[2])

    def _degraded(self, image: Image.Image) -> np.ndarray | None:
        rng = self.random
        if image.height < 8 or image.width < 8 or image.width > 60 * image.height:
            return None
        if rng.random() < 0.3:
            factor = max(rng.uniform(0.4, 0.9), 12 / image.height)
            if factor < 1:
                size = max(4, round(image.width * factor)), max(8, round(image.height * factor))
                image = image.resize(size, rng.choice([Image.Resampling.BILINEAR, Image.Resampling.BICUBIC]))
        if rng.random() < 0.3:
            image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0.3, 0.04 * image.height)))
        pixels = np.asarray(image)
        if rng.random() < 0.35:
            noise = self.noise.normal(0, rng.uniform(2, 22), (*pixels.shape[:2], rng.choice([1, 3])))
            pixels = (pixels + noise).clip(0, 255).astype(np.uint8)
        if rng.random() < 0.1:
            threshold = (int(pixels.min()) + int(pixels.max())) / 2
            pixels = np.where(pixels.mean(2, keepdims=True) > threshold, 255, 0).astype(np.uint8).repeat(3, 2)
        if rng.random() < 0.35:
            buffer = io.BytesIO()
            Image.fromarray(pixels).save(buffer, "JPEG", quality=rng.randint(20, 90))
            pixels = np.asarray(Image.open(buffer))
        return np.ascontiguousarray(pixels)


_LANGUAGES = """
french german spanish italian portuguese czech polish hungarian danish swedish turkish latvian lithuanian romanian
slovak icelandic maltese welsh croatian estonian catalan
"""
ACCENTED = [
    "".join(character for character in VOCABS[name] if character.isalpha() and "\x7f" < character < "\u0250")
    for name in _LANGUAGES.split()
]
"""Accented letters of languages that the recogniser can read."""
READABLE_KINDS = (
    "Latin",
    "Plain",
    "Numbers",
    "Codes",
    "Marks",
    "Blots",
    "Greek signs",
    "Chinese",
    "Japanese",
    "upside down",
)


def _face_kind(kind: str) -> str:
    return {"Numbers": "Plain", "Codes": "Plain", "Marks": "Plain", "Greek signs": "Latin", "upside down": "Latin"}.get(
        kind, kind
    )
