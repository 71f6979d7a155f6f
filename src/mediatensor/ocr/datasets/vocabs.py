"""The character sets of recognition networks: `VOCABS`.

`VOCABS` maps the name of each vocabulary to its characters. Names, characters and their order are the same as in docTR.
Class ``i`` of a network that was trained with docTR is therefore the character ``vocab[i]``. `VOCABS` also has the
parts that make up the vocabularies of languages, such as ``"digits"`` and ``"hebrew_vowels"``.

>>> from mediatensor.ocr.datasets.vocabs import VOCABS
>>> len(VOCABS["french"]), VOCABS["french"][:12]
(126, '0123456789ab')
"""

from __future__ import annotations

import re
import string
from pathlib import Path

__all__ = ["VOCABS"]

_CODE_POINTS = re.compile("([0-9A-F]{4,6})(?:-([0-9A-F]{4,6}))?")

# Languages in the multilingual vocabulary that are not written in Latin script.
_MULTILINGUAL_SCRIPTS = (
    "russian belarusian ukrainian tatar tajik kazakh kyrgyz bulgarian macedonian mongolian yakut serbian_cyrillic "
    "uzbek_cyrillic greek hebrew"
)


def _read_sections() -> dict[str, list[str]]:
    """Read ``vocabs.txt``, whose comments explain its sections, and return the lines of each section."""
    sections: dict[str, list[str]] = {}
    for line in Path(__file__).with_name("vocabs.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            rows = sections[line[1:-1]] = []
        elif line and not line.startswith("#"):
            rows.append(line)
    return sections


def _from_recipe(recipe: str, known: dict[str, str]) -> str:
    """Return the characters of a recipe: names in ``known``, code points and ranges of these, separated by spaces."""
    characters = []
    for word in recipe.split():
        code_points = _CODE_POINTS.fullmatch(word)
        if code_points is None:
            characters.append(known[word])
        else:
            first, last = code_points[1], code_points[2] or code_points[1]
            characters.extend(map(chr, range(int(first, 16), int(last, 16) + 1)))
    return "".join(characters)


def _build_vocabs() -> dict[str, str]:
    """Build all vocabularies, and return their characters by name. Some are unions of other vocabularies."""
    sections = _read_sections()
    vocabs = {
        "latex": "".join(sorted(set(string.ascii_letters + string.digits + "\\{}^_=+-<>()[]/.,| "))),
        "digits": string.digits,
        "ascii_letters": string.ascii_letters,
        "punctuation": string.punctuation,
        "currency": "£€¥¢฿",
    }
    for line in sections["parts"]:
        name, _, recipe = line.partition(" ")
        vocabs[name] = _from_recipe(recipe, vocabs)
    vocabs["latin"] = vocabs["digits"] + vocabs["ascii_letters"] + vocabs["punctuation"]
    latin = vocabs["english"] = vocabs["latin"] + "°" + vocabs["currency"]
    for line in sections["latin"]:
        name, lacking, added = (word.strip("-") for word in line.split())
        vocabs[name] = vocabs["english"].translate(dict.fromkeys(map(ord, lacking))) + added
        latin += vocabs[name]
    known = vocabs | {"joyo_kanji": "".join(sections["joyo_kanji"])}
    for line in sections["languages"]:
        name, _, recipe = line.partition(" ")
        known[name] = vocabs[name] = _from_recipe(recipe, known)
    # Keep each character once, at its first position.
    vocabs["multilingual"] = "".join(dict.fromkeys(latin + "§" + _from_recipe(_MULTILINGUAL_SCRIPTS, vocabs)))
    return vocabs


VOCABS: dict[str, str] = _build_vocabs()
"""Every vocabulary by name: the characters in the order of a network's classes."""
