# ruff: noqa: RUF001 - letters of many scripts
"""Texts to draw: sentences in many languages, and random lines that look plausible."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path

from mediatensor.errors import InvalidArgumentError


def _load() -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    names: dict[str, str] = {}
    texts: dict[str, tuple[str, ...]] = {}
    code = ""
    for line in (Path(__file__).parent / "languages.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            code, _, name = line[1:].partition("] ")
            names[code], texts[code] = name, ()
        elif line:
            texts[code] += (line,)
    return names, texts


_LOADED = _load()

#: English language names by ISO 639 code. A language with two scripts has a key for each, such as ``"zh-Hant"``.
LANGUAGES: dict[str, str] = _LOADED[0]

#: Sentences of each language, by the same code.
TEXTS: dict[str, tuple[str, ...]] = _LOADED[1]


def is_spaced(language: str) -> bool:
    """Return whether a language separates words by spaces.

    Args:
        language: A key of `TEXTS`.

    Example:
        >>> from mediatensor.ocr.drawing import is_spaced
        >>> is_spaced("de"), is_spaced("ja")
        (True, False)
    """
    return language.partition("-")[0] not in {"zh", "ja"}


def texts_of(language: str) -> tuple[str, ...]:
    """Return a tuple of all built-in sentences in a language.

    Args:
        language: A key of `TEXTS`, such as ``"de"``.

    Raises:
        InvalidArgumentError: if there are no sentences in this language.

    Example:
        >>> from mediatensor.ocr.drawing import texts_of
        >>> texts_of("sv")[1]
        'Beloppet 1 284,50 kr ska betalas inom trettio dagar till vårt bankgiro.'
    """
    if language not in TEXTS:
        raise InvalidArgumentError(f"no texts of the language {language!r}; there are {', '.join(TEXTS)}")
    return TEXTS[language]


def read_texts(path: str | os.PathLike[str]) -> tuple[str, ...]:
    r"""Return a tuple of the lines of a text file, for the argument ``texts`` of functions such as `draw_random_page`.

    Empty lines, and spaces at the ends of lines, are left out.

    Args:
        path: A UTF-8 file.

    Example:
        >>> from pathlib import Path
        >>> from mediatensor.ocr.drawing import read_texts
        >>> _ = Path("own.txt").write_text("Zug nach Ulm\n\nGleis 7\n", encoding="utf-8")
        >>> read_texts("own.txt")
        ('Zug nach Ulm', 'Gleis 7')
    """
    return tuple(line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip())


_AROUND = "«»„“”‚‘’'\"(),.;:!?·–—…、。「」"


@cache
def words_of(language: str) -> tuple[str, ...]:
    """Return the words that occur in the built-in sentences of a language, without the punctuation around them."""
    text = " ".join(texts_of(language))
    parts = text.split() if is_spaced(language) else [text[at : at + 3] for at in range(0, len(text) - 2, 2)]
    return tuple(dict.fromkeys(word for part in parts if (word := part.strip(_AROUND))))


@cache
def letters_of(language: str) -> str:
    """Return the letters that occur in the built-in sentences of a language, both as small and as capital letters."""
    text = "".join(texts_of(language))
    return "".join(sorted({c for c in text + text.upper() + text.lower() if c.isalpha() and len(c) == 1}))


@cache
def _followers(language: str) -> dict[str, str]:
    """Return the letters that follow each pair of letters in words of the language. Frequent letters are repeated.

    Spaces stand for the start and the end of words.
    """
    followers: dict[str, str] = {}
    for word in words_of(language):
        if word.isalpha():
            padded = f"  {_small_letters(word, language)} "
            for at in range(len(padded) - 2):
                followers[padded[at : at + 2]] = followers.get(padded[at : at + 2], "") + padded[at + 2]
    return followers


def _invent_word(rng: random.Random, language: str) -> str:
    """Invent a word that looks like one of the language, or in one case out of five has entirely random letters."""
    followers, word = _followers(language), "  "
    if rng.random() < 0.2 or "  " not in followers:
        return "".join(rng.choices(letters_of(language), k=rng.randint(2, 8)))
    while len(word) < 14:
        letter = rng.choice(followers[word[-2:]])
        if letter == " ":
            break
        word += letter
    return word.strip()


# In these languages, I has a small letter without a dot. Python returns i for I, and for İ i with a mark.
_WITH_DOTTED_CAPITALS = ("tr", "az")


def capitals(text: str, language: str) -> str:
    """Return the text in capital letters. In Turkish and Azerbaijani, i becomes İ, with a dot."""
    return (text.replace("i", "İ") if language in _WITH_DOTTED_CAPITALS else text).upper()


def _small_letters(text: str, language: str) -> str:
    return (text.replace("I", "ı").replace("İ", "i") if language in _WITH_DOTTED_CAPITALS else text).lower()


def _with_capital(text: str, language: str) -> str:
    return capitals(text[:1], language) + text[1:]


def _title(text: str, language: str) -> str:
    """Return the text with a capital letter at the start of each word."""
    if language not in _WITH_DOTTED_CAPITALS:
        return text.title()
    return re.sub(r"[^\W\d_]+", lambda word: _with_capital(_small_letters(word[0], language), language), text)


def _digits(rng: random.Random, count: int) -> str:
    return "".join(rng.choices("0123456789", k=count))


_MARKS = {"en": (",", "."), "fr": (" ", ","), "cs": (" ", ","), "sv": (" ", ","), "fi": (" ", ","), "ru": (" ", ",")}
_CURRENCY = {
    "en": "£$€",
    "cs": ("Kč",),
    "pl": ("zł",),
    "sv": ("kr",),
    "da": ("kr.",),
    "hu": ("Ft",),
    "tr": ("₺", "TL"),
    "ru": ("₽", "руб."),
    "uk": ("₴", "грн"),
    "bg": ("лв.",),
    "sr": ("дин.", "РСД"),
    "vi": ("₫", "đ"),
    "zh": "¥",
    "ja": "¥円",
}


def _amount(rng: random.Random, language: str) -> str:
    thousands, point = _MARKS.get(language, (".", ","))
    number = f"{rng.randint(0, 10 ** rng.choice([1, 2, 2, 3, 3, 4, 6])):,}".replace(",", thousands)
    return f"{number}{point}{_digits(rng, 2)}" if rng.random() < 0.8 else number


def _price(rng: random.Random, language: str) -> str:
    currency = rng.choice(_CURRENCY.get(language.partition("-")[0], ("€", "EUR")))
    amount = _amount(rng, language)
    if language == "en":
        return rng.choice([f"{currency}{amount}", f"{currency} {amount}", f"-{amount}", f"{amount} USD"])
    return rng.choice([f"{amount} {currency}", f"{amount} {currency}", f"{currency} {amount}", f"-{amount}"])


def _date(rng: random.Random, language: str) -> str:
    day, month, year = rng.randint(1, 28), rng.randint(1, 12), rng.randint(1950, 2035)
    time = f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}"
    return rng.choice(
        [
            f"{day:02}.{month:02}.{year}",
            f"{day}.{month}.{year % 100:02}",
            f"{month:02}/{day:02}/{year}",
            f"{year}-{month:02}-{day:02}",
            f"{day:02}.{month:02}.{year} {time}",
            f"{time}:{rng.randint(0, 59):02}",
            time,
        ]
    )


def _number(rng: random.Random, language: str) -> str:
    digits = _digits
    return rng.choice(
        [
            str(rng.randint(0, 99999)),
            digits(rng, rng.randint(2, 14)),
            f"{_amount(rng, language)} %",
            f"{rng.randint(1, 99)} x",
            f"{digits(rng, 3)}-{digits(rng, 4)}",
            f"({digits(rng, 3)}) {digits(rng, 3)}-{digits(rng, 4)}",
            f"+{rng.randint(1, 99)} {digits(rng, 3)} {digits(rng, 6)}",
            f"{rng.randint(1, 40)}/{rng.randint(41, 99)}",
            f"{rng.randint(-20, 40)} °C",
            f"§ {rng.randint(1, 300)} ({rng.randint(1, 9)})",
            f"{rng.randint(1, 12)}.{rng.randint(1, 9)}",
            f"{rng.uniform(0, 100):.3f}",
            f"{_amount(rng, language)} × {rng.randint(2, 9)} = {_amount(rng, language)}",
        ]
    )


def _code(rng: random.Random, language: str) -> str:
    letters, digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", _digits
    capitals = "".join(rng.choices(letters, k=rng.randint(2, 4)))
    iban = f"{rng.choice(['DE', 'FR', 'ES', 'IT', 'PL', 'NL'])}{digits(rng, 20)}"
    return rng.choice(
        [
            " ".join(iban[at : at + 4] for at in range(0, 22, 4)),
            f"{capitals}-{digits(rng, 5)}",
            f"{capitals}{digits(rng, 6)}",
            "".join(rng.choices(letters + "0123456789", k=rng.randint(5, 12))),
            f"#{digits(rng, 6)}",
            f"{capitals} {digits(rng, 3)}/{digits(rng, 2)}",
        ]
    )


def _address(rng: random.Random, language: str) -> str:
    plain = words_of("en")
    first, second = (rng.choice(plain).lower().strip("0123456789.:,£'") or "info" for _ in range(2))
    end = rng.choice(["com", "org", "net", "de", "fr", "eu", "co.uk", "info"])
    return rng.choice(
        [
            f"{first}.{second}@{rng.choice(plain).lower()}.{end}",
            f"{first}{rng.randint(1, 99)}@{second}.{end}",
            f"www.{first}-{second}.{end}",
            f"https://{first}.{end}/{second}?id={rng.randint(1, 999)}",
            f"{first}_{second}.pdf",
        ]
    )


def _sentence_part(rng: random.Random, language: str) -> str:
    sentence = rng.choice(texts_of(language))
    if not is_spaced(language):
        start = rng.randrange(max(1, len(sentence) - 4))
        return sentence[start : start + rng.randint(2, 24)].strip()
    words = sentence.split()
    start = rng.randrange(len(words))
    return " ".join(words[start : start + rng.randint(1, 10)])


def _recombine_words(rng: random.Random, language: str) -> str:
    words, joint = words_of(language), " " if is_spaced(language) else ""
    parts = [rng.choice(words) if rng.random() < 0.7 else _invent_word(rng, language) for _ in range(rng.randint(1, 8))]
    for at in range(len(parts)):
        chance = rng.random()
        if chance < 0.08:
            parts[at] += rng.choice(",;:,")
        elif chance < 0.1:
            parts[at] = rng.choice(["({})", '"{}"', "{}/", "{}-", "'{}'", "[{}]"]).format(parts[at])
        elif chance < 0.16:
            parts[at] = _with_capital(parts[at], language)
    text = joint.join(parts)
    chance = rng.random()
    if chance < 0.12:
        return capitals(text, language)
    if chance < 0.2:
        return _title(text, language)
    if chance < 0.4:
        return _with_capital(text, language) + rng.choice("...!?")
    return text


_VALUES: dict[str, Callable[[random.Random, str], str]] = {
    "address": _address,
    "amount": _amount,
    "code": _code,
    "date": _date,
    "number": _number,
    "price": _price,
}


def random_value(rng: random.Random, kind: str, language: str) -> str:
    """Return a random value of the given ``kind``: address, amount, code, date, number or price."""
    return _VALUES[kind](rng, language)


def sentence_of(rng: random.Random, language: str, texts: Sequence[str]) -> str:
    """Return a random element of ``texts`` or, if it is empty, a built-in or random sentence in the language."""
    if texts:
        return rng.choice(texts)
    if rng.random() < 0.4:
        return rng.choice(texts_of(language))
    words, joint = words_of(language), " " if is_spaced(language) else ""
    parts = rng.choices(words, k=rng.randint(4, 16))
    if rng.random() < 0.3:
        parts[len(parts) // 2] += ","
    text = joint.join(parts)
    return _with_capital(text, language) + rng.choice("....!?")


def _label_value(rng: random.Random, language: str) -> str:
    value = rng.choice([_price, _date, _number, _code])(rng, language)
    label = _with_capital(_small_letters(rng.choice(words_of(language)), language), language)
    return f"{label}{rng.choice([':', ':', '', '.', ' -'])} {value}"


_KINDS: tuple[tuple[int, Callable[[random.Random, str], str]], ...] = (
    (30, _sentence_part),
    (34, _recombine_words),
    (7, _price),
    (5, _date),
    (7, _number),
    (4, _code),
    (3, _address),
    (8, _label_value),
)


@lru_cache(64)
def _allowed_words(languages: tuple[str, ...], characters: frozenset[str]) -> tuple[str, ...]:
    return tuple(word for language in languages for word in words_of(language) if characters.issuperset(word))


def random_text(
    rng: random.Random,
    languages: Sequence[str] = ("en",),
    characters: str | None = None,
    texts: Sequence[str] = (),
) -> str:
    """Return a plausible line: part of a sentence, random words, a price, a date, a number, a code or an address.

    Args:
        rng: The random generator.
        languages: Keys of `TEXTS`, such as ``"de"``. The line is in one of these languages, all equally likely.
        characters: The characters that the line may contain, in addition to spaces; ``None`` means all characters.
        texts: Your own lines of text. If given, a part of one of them is returned instead of a built-in text.

    Raises:
        InvalidArgumentError: if a language is unknown, or ``languages`` or ``characters`` is empty.

    Example:
        >>> import random
        >>> from mediatensor.ocr.drawing import random_text
        >>> set(random_text(random.Random(0), characters="01")) <= {"0", "1", " "}
        True
    """
    if not languages and not texts:
        raise InvalidArgumentError("languages is empty; name at least one, such as languages=['en']")
    weights, kinds = zip(*_KINDS, strict=True)
    allowed = frozenset(characters) | {" "} if characters is not None else None
    if allowed is not None and not allowed - {" "}:
        raise InvalidArgumentError("characters has nothing to draw; give the characters that lines may have")
    for _ in range(6):
        if texts:
            words = rng.choice(texts).split()
            start = rng.randrange(max(1, len(words))) if rng.random() < 0.5 else 0
            text = " ".join(words[start : start + rng.randint(1, 10)])
        else:
            language = rng.choice(languages)
            text = rng.choices(kinds, weights)[0](rng, language).strip()
        if allowed is None or allowed.issuperset(text):
            return text
    assert allowed is not None
    # Few lines have only these characters. Combine words made of them with random strings of them.
    whole = _allowed_words(tuple(languages), allowed)
    solid = sorted(allowed - {" "})
    return " ".join(
        rng.choice(whole) if whole and rng.random() < 0.5 else "".join(rng.choices(solid, k=rng.randint(1, 8)))
        for _ in range(rng.randint(1, 5))
    )
