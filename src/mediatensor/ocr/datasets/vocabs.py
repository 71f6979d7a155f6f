"""The character sets of recognition networks: `VOCABS`.

`VOCABS` maps the name of each vocabulary to its characters. Names, characters and their order are the same as in docTR.
Class ``i`` of a network that was trained with docTR is therefore the character ``vocab[i]``. `VOCABS` also has the
parts that make up the vocabularies of languages, such as ``"digits"`` and ``"hebrew_vowels"``.

`languages_of` and `scripts_of` determine what a recogniser can read, from the characters in its vocabulary.

>>> from mediatensor.ocr.datasets.vocabs import VOCABS
>>> len(VOCABS["french"]), VOCABS["french"][:12]
(126, '0123456789ab')
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from pathlib import Path

__all__ = ["VOCABS"]

_CODE_POINTS = re.compile("([0-9A-F]{4,6})(?:-([0-9A-F]{4,6}))?")

# Languages in the multilingual vocabulary that are not written in Latin script.
_MULTILINGUAL_SCRIPTS = (
    "russian belarusian ukrainian tatar tajik kazakh kyrgyz bulgarian macedonian mongolian yakut serbian_cyrillic "
    "uzbek_cyrillic greek hebrew"
)

# Hiragana and katakana, except two kana that modern Japanese does not use.
_KANA = "".join(chr(code) for code in [*range(0x3041, 0x3094), *range(0x30A1, 0x30F7)] if chr(code) not in "ゐゑヰヱヮ")
_HAN = "的一是不了人我在有他这中大来上国和说们为"
_HAN_TRADITIONAL = "的一是不了人我在有他這中大來上國和說們為"

LANGUAGES: dict[str, tuple[str, str]] = {
    "af": ("Afrikaans", "áèéêëîïôöûü"),
    "az": ("Azerbaijani", "çəğıöşüİ"),
    "bs": ("Bosnian", "čćđšž"),
    "br": ("Breton", "êñùü"),
    "ca": ("Catalan", "àçèéíïòóúü·"),
    "cs": ("Czech", "áčďéěíňóřšťúůýž"),
    "cy": ("Welsh", "áàâäéèêëíìîïóòôöúùûüẃẁŵẅýỳŷÿ"),
    "da": ("Danish", "åæéø"),
    "de": ("German", "äöüß"),
    "en": ("English", ""),
    "eo": ("Esperanto", "ĉĝĥĵŝŭ"),
    "es": ("Spanish", "áéíñóúü"),
    "et": ("Estonian", "äõöüšž"),
    "eu": ("Basque", "çñü"),
    "fi": ("Finnish", "åäöšž"),
    "fo": ("Faroese", "áæðíóøúý"),
    "fr": ("French", "àâæçèéêëîïôœùûüÿ"),
    "fy": ("Western Frisian", "âäéêëïôöúûü"),
    "ga": ("Irish", "áéíóú"),
    "gd": ("Scottish Gaelic", "àèìòù"),
    "gl": ("Galician", "áéíïñóúü"),
    "ha": ("Hausa", "ɓɗƙƴ"),
    "hr": ("Croatian", "čćđšž"),
    "ht": ("Haitian Creole", "èòà"),
    "hu": ("Hungarian", "áéíóöőúüű"),
    "id": ("Indonesian", "é"),
    "is": ("Icelandic", "áæðéíóöúýþ"),
    "it": ("Italian", "àèéìîòóù"),
    "ja": ("Japanese", _KANA + "一日人年大十二本中長"),
    "ku": ("Kurdish (Kurmanji)", "çêîşû"),
    "la": ("Latin", ""),
    "lb": ("Luxembourgish", "äéëöü"),
    "lt": ("Lithuanian", "ąčęėįšųūž"),
    "lv": ("Latvian", "āčēģīķļņšūž"),
    "mg": ("Malagasy", "àèìòô"),
    "mi": ("Maori", "āēīōū"),
    "ms": ("Malay", ""),
    "mt": ("Maltese", "àċèġħìòùż"),
    "nb": ("Norwegian Bokmål", "åæéø"),
    "nl": ("Dutch", "áäéèëíïóöúü"),
    "oc": ("Occitan", "áàçéèíïóòúü"),
    "pl": ("Polish", "ąćęłńóśźż"),
    "pt": ("Portuguese", "áàâãçéêíóôõúü"),
    "rm": ("Romansh", "àéèìòùü"),
    "ro": ("Romanian", "ăâîșț"),
    "se": ("Northern Sami", "áčđŋšŧž"),
    "sk": ("Slovak", "áäčďéíĺľňóôŕšťúýž"),
    "sl": ("Slovenian", "čšž"),
    "so": ("Somali", ""),
    "sq": ("Albanian", "çë"),
    "sv": ("Swedish", "åäéö"),
    "sw": ("Swahili", ""),
    "tk": ("Turkmen", "äçňöşüýž"),
    "tl": ("Tagalog", "ñ"),
    "tr": ("Turkish", "âçğıîöşûüİ"),
    "uz": ("Uzbek", "\u2018\u2019"),
    "vi": ("Vietnamese", "ăâđêôơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ"),
    "yo": ("Yoruba", "ẹọṣ"),
    "zh-Hans": ("Chinese (simplified)", _HAN),
    "zh-Hant": ("Chinese (traditional)", _HAN_TRADITIONAL),
    "zu": ("Zulu", ""),
    "bg": ("Bulgarian", "абвгдежзийклмнопрстуфхцчшщъьюя"),
    "el": ("Greek", "αβγδεζηθικλμνξοπρστυφχψωςάέήίόύώ"),
    "ru": ("Russian", "абвгдеёжзийклмнопрстуфхцчшщъыьэюя"),
    "uk": ("Ukrainian", "абвгґдеєжзиіїйклмнопрстуфхцчшщьюя"),
}
"""Language names by ISO 639 code, with the letters needed in addition to English: lower case, and capitals that
``str.upper`` does not produce. For Chinese and Japanese these are the most frequent characters.
"""

NOT_CLAIMED = frozenset({"ha", "uz"})
"""Languages excluded although the vocabulary has their letters: less than 90 % of their words are read exactly on the
pages of ``python -m benchmarks.text.ocr --languages``.
"""

_SCRIPTS: dict[str, tuple[str, str]] = {
    "Latn": ("Latin", "en"),
    "Cyrl": ("Cyrillic", "ru"),
    "Grek": ("Greek", "el"),
    "Hani": ("Han", "zh-Hans"),
    "Hira": ("Hiragana", "ja"),
    "Kana": ("Katakana", "ja"),
}
"""Script names by ISO 15924 code, each with a language whose letters a recogniser of the script must have."""


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


def languages_of(characters: Iterable[str]) -> dict[str, str]:
    """Return the ISO 639 codes and English names of the languages that can be written with ``characters``."""
    known = set(characters)
    return {
        code: name
        for code, (name, letters) in LANGUAGES.items()
        if code not in NOT_CLAIMED and known.issuperset(_all_letters(code, letters))
    }


def scripts_of(characters: Iterable[str]) -> dict[str, str]:
    """Return the ISO 15924 codes and English names of the scripts that can be written with ``characters``."""
    languages = languages_of(characters)
    return {code: name for code, (name, language) in _SCRIPTS.items() if language in languages}


def _all_letters(code: str, letters: str) -> set[str]:
    if code in ("ja", "zh-Hans", "zh-Hant"):
        return set(letters)
    is_latin = all(letter < "\u0370" or letter > "\u1e00" for letter in letters)
    own = set(letters) | set(string.ascii_letters if is_latin else "")
    capitals = {letter.upper() for letter in letters if letter not in "ßı"}
    return own | {capital for capital in capitals if len(capital) == 1}
