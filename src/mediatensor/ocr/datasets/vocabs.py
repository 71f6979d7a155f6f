"""The character sets that recognition networks are trained on: :data:`VOCABS`.

Names, characters and their order are those of docTR, so that class ``i`` of a network that was trained there is
``vocab[i]``. There are also the parts of which languages consist (``"digits"``, ``"hebrew_vowels"``, ...).

>>> from mediatensor.ocr.datasets.vocabs import VOCABS
>>> len(VOCABS["french"]), VOCABS["french"][:12]
(126, '0123456789ab')
"""

from __future__ import annotations

import re
import string

from ._characters import JOYO_KANJI, LATIN_LANGUAGES, SCRIPT_LANGUAGES, SCRIPT_PARTS

__all__ = ["VOCABS"]

_CODE_POINTS = re.compile("([0-9A-F]{4,6})(?:-([0-9A-F]{4,6}))?")

# The languages whose characters make the multilingual vocabulary, besides those in Latin letters.
_MULTILINGUAL_SCRIPTS = (
    "russian belarusian ukrainian tatar tajik kazakh kyrgyz bulgarian macedonian mongolian yakut serbian_cyrillic "
    "uzbek_cyrillic greek hebrew"
)


def _from_recipe(recipe: str, known: dict[str, str]) -> str:
    """The characters of a recipe: names of known vocabularies, code points, and ranges of code points."""
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
    """All vocabularies by name; later ones refer to earlier ones."""
    vocabs = {
        "latex": "".join(sorted(set(string.ascii_letters + string.digits + "\\{}^_=+-<>()[]/.,| "))),
        "digits": string.digits,
        "ascii_letters": string.ascii_letters,
        "punctuation": string.punctuation,
        "currency": "£€¥¢฿",
    }
    for name, recipe in SCRIPT_PARTS.items():
        vocabs[name] = _from_recipe(recipe, vocabs)
    vocabs["latin"] = vocabs["digits"] + vocabs["ascii_letters"] + vocabs["punctuation"]
    vocabs["english"] = vocabs["latin"] + "°" + vocabs["currency"]
    for name, (lacking, added) in LATIN_LANGUAGES.items():
        vocabs[name] = vocabs["english"].translate(dict.fromkeys(map(ord, lacking))) + added
    known = vocabs | {"joyo_kanji": JOYO_KANJI}
    for name, recipe in SCRIPT_LANGUAGES.items():
        known[name] = vocabs[name] = _from_recipe(recipe, known)
    vocabs["multilingual"] = _without_repetitions(
        "".join(vocabs[name] for name in ("english", *LATIN_LANGUAGES))
        + "§"
        + _from_recipe(_MULTILINGUAL_SCRIPTS, vocabs)
    )
    return vocabs


def _without_repetitions(characters: str) -> str:
    """Each character once, at its first position."""
    return "".join(dict.fromkeys(characters))


VOCABS: dict[str, str] = _build_vocabs()
"""Every vocabulary by name: the characters in the order of a network's classes."""
