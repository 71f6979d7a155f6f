"""Find the font faces that are installed on this machine, and the characters that each face can draw."""

from __future__ import annotations

import os
import random
import re
import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

from PIL import ImageFont, features

# Faces whose glyphs are images, placeholders or parts of formulas.
_PICTURES = re.compile(
    r"emoji|symbol|dingbat|blank|webding|wingding|lastresort|barcode|signwriting|music|math|^cm(r|mi|sy|ex|b|ss|tt)10"
    r"|^stix.*(nonuni|siz)|d050000l|marlett|ornament|icons?$|awesome|keycap|initials",
    re.IGNORECASE,
)
#: Characters of scripts whose letters join or move: Hebrew marks, Arabic, Indic scripts, Thai to Tibetan, Khmer.
_SHAPED = re.compile(r"[\u0590-\u08ff\u0900-\u109f\u1780-\u18af\ufb1d-\ufdff\ufe70-\ufefc]")


@dataclass(frozen=True)
class Face:
    """A font face: a font file, and the index of a face in the file.

    Attributes:
        name: The file name without extension, such as ``"DejaVuSans-Bold"``.
        file: Path of the font file; empty for Pillow's built-in face.
        index: Index of the face in a collection (``.ttc``).

    Example:
        >>> from mediatensor.ocr.drawing import find_faces
        >>> face = find_faces()[0]
        >>> face.has("Total 12.50"), face.at(24).size
        (True, 24)
    """

    name: str
    file: str
    index: int = 0

    @property
    def family(self) -> str:
        """The part of ``name`` before its first hyphen, which regular, bold and italic faces of a design share."""
        return self.name.partition("-")[0]

    def at(self, pixels: float) -> ImageFont.FreeTypeFont:
        """Return the face as a Pillow font. Its size is ``pixels`` per em, rounded to a whole number of at least 4."""
        return _opened(self.file, self.index, max(4, round(pixels)))

    def has(self, text: str) -> bool:
        """Return whether the face has a glyph for every character of a text, ignoring white space.

        In scripts such as Arabic and Devanagari, letters join or change places. Pillow can draw them only with the Raqm
        library. Without Raqm, the result is ``False`` for text in these scripts.
        """
        wanted = {ord(character) for character in text if not character.isspace()}
        return wanted <= _characters(self.file, self.index) and (_can_shape() or not _SHAPED.search(text))


def is_shaped(text: str) -> bool:
    """Return whether the text has letters that join or change places, so that it cannot be drawn letter by letter."""
    return _SHAPED.search(text) is not None


@cache
def _can_shape() -> bool:
    return bool(features.check("raqm"))


@lru_cache(1024)
def _opened(file: str, index: int, pixels: int) -> ImageFont.FreeTypeFont:
    if not file:
        font = ImageFont.load_default(pixels)
        if isinstance(font, ImageFont.FreeTypeFont):
            return font
        raise OSError("Pillow was built without FreeType, which draws text; install a wheel of Pillow")
    return ImageFont.truetype(file, pixels, index)


@cache
def _characters(file: str, index: int) -> frozenset[int]:
    """Return the code points for which a face has glyphs, or an empty set if ``file`` is not a readable font."""
    if not file:
        return frozenset(range(0x21, 0x7F))
    try:
        with open(file, "rb") as stream:
            data = stream.read(12 + 4 * (index + 1))
            start = struct.unpack_from(">I", data, 12 + 4 * index)[0] if data[:4] == b"ttcf" else 0
            stream.seek(start)
            num_tables = struct.unpack(">4xH6x", stream.read(12))[0]
            directory = stream.read(16 * num_tables)
            for tag, offset, length in struct.iter_unpack(">4s4xII", directory):
                if tag == b"cmap":
                    stream.seek(offset)
                    return frozenset(_mapped(stream.read(length)))
    except (OSError, struct.error, IndexError):
        pass
    return frozenset()


def _mapped(table: bytes) -> Iterable[int]:
    """Yield the code points of a ``cmap`` table, from a subtable of format 12 (32 bits) or else 4 (16 bits)."""
    subtables = {}
    for number in range(struct.unpack_from(">H", table, 2)[0]):
        platform, encoding, offset = struct.unpack_from(">HHI", table, 4 + 8 * number)
        kind = struct.unpack_from(">H", table, offset)[0]
        if (platform == 0 and encoding != 5) or (platform, encoding) in ((3, 1), (3, 10)):
            subtables[kind] = offset
    if 12 in subtables:
        at = subtables[12]
        for group in range(struct.unpack_from(">I", table, at + 12)[0]):
            first, last, glyph = struct.unpack_from(">III", table, at + 16 + 12 * group)
            yield from range(first + (glyph == 0), min(last, 0x10FFFF) + 1)
    elif 4 in subtables:
        at = subtables[4]
        half = struct.unpack_from(">H", table, at + 6)[0] // 2
        ends = struct.unpack_from(f">{half}H", table, at + 14)
        starts = struct.unpack_from(f">{half}H", table, at + 16 + 2 * half)
        deltas = struct.unpack_from(f">{half}H", table, at + 16 + 4 * half)
        ranges_at = at + 16 + 6 * half
        for number, (first, last, delta) in enumerate(zip(starts, ends, deltas, strict=True)):
            shift = struct.unpack_from(">H", table, ranges_at + 2 * number)[0]
            for code in range(first, min(last, 0xFFFE) + 1):
                if shift:
                    place = ranges_at + 2 * number + shift + 2 * (code - first)
                    if place + 2 <= len(table) and struct.unpack_from(">H", table, place)[0]:
                        yield code
                elif (code + delta) & 0xFFFF:
                    yield code


def find_faces(fonts: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None) -> tuple[Face, ...]:
    """Find font faces, sorted by name.

    Args:
        fonts: A font file or folder, or several of them. ``None`` searches the font folders of Linux, macOS or Windows,
            and also matplotlib's fonts if it is installed. If no font is found there, the result is Pillow's built-in
            face.

    Returns:
        A tuple with one face for each TrueType or OpenType file (the first face of a collection). If ``fonts`` is
        ``None``, fonts of symbols and images are left out.

    Raises:
        FileNotFoundError: if a path does not exist or contains no fonts.

    Example:
        >>> from mediatensor.ocr.drawing import find_faces
        >>> len(find_faces()) > 0
        True
    """
    if fonts is None:
        return _installed()
    named = [Path(fonts)] if isinstance(fonts, str | os.PathLike) else [Path(path) for path in fonts]
    faces = []
    for path in named:
        files = _fonts_of(path) if path.is_dir() else [path] if path.is_file() else []
        if not files:
            raise FileNotFoundError(f"{path} is neither a font nor a folder with fonts (.ttf, .otf, .ttc)")
        faces += [Face(file.stem, str(file)) for file in files]
    return tuple(sorted(faces, key=lambda face: (face.name, face.file)))


@cache
def _installed() -> tuple[Face, ...]:
    home, folders = Path(os.path.expanduser("~")), []  # Path.home() raises for a user without a home folder
    if sys.platform == "win32":
        folders = [Path(os.environ.get("WINDIR", "C:/Windows")) / "Fonts"]
        folders.append(home / "AppData/Local/Microsoft/Windows/Fonts")
    elif sys.platform == "darwin":
        folders = [Path("/System/Library/Fonts"), Path("/Library/Fonts"), home / "Library/Fonts"]
    else:
        folders = [Path("/usr/share/fonts"), Path("/usr/local/share/fonts"), home / ".local/share/fonts"]
        folders.append(home / ".fonts")
    matplotlib = find_spec("matplotlib")
    if matplotlib is not None and matplotlib.origin is not None:
        folders.append(Path(matplotlib.origin).parent / "mpl-data" / "fonts" / "ttf")
    files = {file.stem: file for folder in folders for file in _fonts_of(folder) if not _PICTURES.search(file.stem)}
    faces = [Face(name, str(file)) for name, file in sorted(files.items())]
    return tuple(faces) or (Face("Pillow", ""),)


def _fonts_of(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(file for file in folder.rglob("*") if file.suffix.lower() in {".ttf", ".otf", ".ttc"})


@lru_cache(16)
def _families(faces: tuple[Face, ...]) -> tuple[tuple[Face, ...], ...]:
    families: dict[str, list[Face]] = {}
    for face in faces:
        families.setdefault(face.family, []).append(face)
    return tuple(map(tuple, families.values()))


@lru_cache(64)
def _faces_with(characters: str, faces: tuple[Face, ...]) -> tuple[Face, ...]:
    return tuple(face for face in faces if face.has(characters))


def random_face(rng: random.Random, text: str, faces: Sequence[Face] | None) -> Face | None:
    """Return a random face that has all characters of a text, or ``None`` if there is no such face.

    A family is chosen first, then one of its faces, so large families are not preferred.
    """
    known = _installed() if faces is None else tuple(faces)
    families = _families(known)
    for _ in range(40 if families else 0):
        face = rng.choice(rng.choice(families))
        if face.has(text):
            return face
    # Few faces have these characters. Try all faces, but only once for each set of characters.
    fitting = _faces_with("".join(sorted(set(text))), known)
    return rng.choice(rng.choice(_families(fitting))) if fitting else None


_WEIGHTS = re.compile(
    r"bold|black|heavy|thin|light|italic|oblique|condensed|narrow|semi|extra|display|caps|[-_]?sc$|slant|outline|swash|ital|it$|obl$|demi",
    re.IGNORECASE,
)
_BOLD = re.compile(r"bold(?!.*(italic|oblique|ital))", re.IGNORECASE)
_FIXED = re.compile(r"mono|courier|typewriter|consol|fixed|cursor", re.IGNORECASE)


def upright_face(rng: random.Random, text: str, faces: tuple[Face, ...], *, fixed: bool) -> Face | None:
    """Return a random face for a text, if possible upright, regular and, with ``fixed``, monospaced."""
    plain = tuple(face for face in faces if not _WEIGHTS.search(face.name)) or faces
    typed = tuple(face for face in plain if _FIXED.search(face.name) and face.has(text)) if fixed else ()
    return random_face(rng, text, typed or plain) or random_face(rng, text, faces)


def bold_of(face: Face, faces: tuple[Face, ...]) -> Face:
    """Return the bold face of the same family, or ``face`` itself if the family has no bold face."""
    bold_faces = [other for other in faces if other.family == face.family and _BOLD.search(other.name)]
    exact = [other for other in bold_faces if other.name.lower().endswith("-bold")]
    return min(exact or bold_faces or [face], key=lambda other: len(other.name))
