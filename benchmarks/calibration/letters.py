"""Count sequences of letters, digits and signs, for ``spelling`` of the reader of lines.

``python -m benchmarks.calibration.letters FILE.npz`` reads the manual pages of a Debian system in eighteen languages
(packages ``manpages``, ``manpages-de`` and so on), takes the same amount of prose from each, and numbers that it makes
up. The file has the symbols, and for sequences of three and four symbols their keys, as differences, and eight times
the binary logarithm of how often they occurred.

``python -m benchmarks.calibration.letters --words FILE.txt.gz`` writes the list of English words instead. It reads the
lists of the Debian package ``scowl``: words up to size 35 that have at least four letters, and names up to size 50 that
have at least five, all of them in ASCII. Shorter names, such as ``Depp`` and ``Tate``, are often misread words.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mediatensor.ocr.models._lines.characters import FEWEST_LETTERS_OF_ENGLISH, fold_character, shape_of

_PAGES = Path("/usr/share/man")
_SCOWL = Path("/usr/share/dict/scowl")
_KINDS = re.compile(
    r"(?:(?:english|american|variant_[12])-(words|upper|proper-names|abbreviations)|special-(roman)-numerals)[.](\d+)"
)
_SIZE_OF_WORDS, _SIZE_OF_NAMES, _FEWEST_LETTERS_OF_NAME = 35, 50, 5
_LANGUAGES = ("", "de", "fr", "es", "it", "pl", "cs", "nl", "pt*", "sv", "da", "ro", "tr", "hu", "fi", "id", "hr", "sl")
_LETTERS_EACH, _LETTERS_ENGLISH = 250_000, 900_000
_NUMBERS = 30_000
_LEAST_COUNT = 3
_LEAST_OF_SYMBOL = 30
_SIGNS = "!\"#$%&'()*+,-./:;<=>?@[]^_{|}~"
_CAPITALS, _TITLES = 0.4, 0.3
"""The weights of the same lines in capitals, and with capitals at the beginning of words, as on forms."""
_ORDER, _SYMBOL_BITS = 4, 7


def english_words() -> list[str]:
    """Return English words and names of SCOWL in lower case, in order."""
    words = set()
    for path in _SCOWL.iterdir():
        if (kind := _KINDS.fullmatch(path.name)) is None or int(kind[3]) > _SIZE_OF_NAMES:
            continue
        is_common = int(kind[3]) <= _SIZE_OF_WORDS
        if is_common or kind[1] != "words":
            fewest = FEWEST_LETTERS_OF_ENGLISH if is_common else _FEWEST_LETTERS_OF_NAME
            words |= {word.lower() for word in path.read_text(encoding="latin-1").split() if len(word) >= fewest}
    return sorted(word for word in words if word.isascii() and word.isalpha())


def prose(language: str, most: int) -> list[str]:
    """Return lines of running text of a language's manual pages, in random order."""
    paths = sorted(_PAGES.glob(f"{language}/man*/*.gz" if language else "man[1578]/*.gz"))
    random.shuffle(paths)
    lines: list[str] = []
    for path in paths[:1500]:
        try:
            page = gzip.decompress(path.read_bytes()).decode()
        except (OSError, EOFError, UnicodeDecodeError):
            continue
        for line in page.split("\n"):
            plain = re.sub(r"\\f\(?[A-Z]{1,2}|\\f\[.*?\]|\\&", "", line).replace(r"\-", "-").replace(r"\(aq", "'")
            if len(plain) >= 30 and not plain.startswith((".", "'")) and "\\" not in plain:
                lines.append(" ".join(plain.split()))
        if sum(map(len, lines)) > most:
            break
    random.shuffle(lines)
    kept = int(np.searchsorted(np.cumsum([len(line) for line in lines]), most)) if lines else 0
    return lines[: kept + 1]


def numbers() -> Iterator[str]:
    """Generate amounts, dates, times, telephone numbers and part numbers."""
    pick = random.randint
    for _ in range(_NUMBERS):
        amount = f"{pick(0, 10 ** pick(1, 6)):,}.{pick(0, 99):02}"
        day, month, year = pick(1, 31), pick(1, 12), pick(1950, 2030)
        yield random.choice(
            (
                amount,
                amount.translate(str.maketrans(",.", ".,")),
                random.choice("$€£") + amount,
                f"{day:02}/{month:02}/{year % 100:02}",
                f"{day}.{month}.{year}",
                f"{year}-{month:02}-{day:02}",
                f"{pick(0, 23):02}:{pick(0, 59):02}:{pick(0, 59):02}",
                f"({pick(100, 999)}) {pick(100, 999)}-{pick(1000, 9999)}",
                f"{pick(100, 999)}-{pick(100, 999)}-{pick(1000, 9999)}",
                f"{pick(0, 100)}%",
            )
        )
        if not pick(0, 5):
            letters = "".join(random.choices("ABCDEFGHKLMNPRSTUVWXYZ", k=pick(1, 3)))
            yield letters + random.choice(("", "-", " ")) + str(pick(10, 10 ** pick(2, 8)))


def main() -> None:
    parser = argparse.ArgumentParser(description="Count sequences of characters in manual pages.")
    parser.add_argument("file", type=Path, help="output file, .npz, or .txt.gz for --words")
    parser.add_argument("--words", action="store_true", help="write the list of English words instead")
    options = parser.parse_args()
    path = options.file
    if options.words:
        words = english_words()
        path.write_bytes(gzip.compress("".join(f"{word}\n" for word in words).encode(), mtime=0))
        print(len(words), "words,", path.stat().st_size, "bytes")
        return
    random.seed(0)
    lines = [line for name in _LANGUAGES for line in prose(name, _LETTERS_EACH if name else _LETTERS_ENGLISH)]
    frequent = Counter(fold_character(character) for line in lines for character in line)
    symbols = [s for s, n in frequent.items() if n >= _LEAST_OF_SYMBOL and ord(s) < 0x250 and s.isalnum()]
    symbols = sorted({*symbols, *_SIGNS, *"0€£ U"})
    if len(symbols) >= 1 << _SYMBOL_BITS:
        raise SystemExit(f"{len(symbols)} symbols; at most {(1 << _SYMBOL_BITS) - 1} have a number")
    number_of = {symbol: number for number, symbol in enumerate(symbols, 1)}
    letters: dict[int, Counter[int]] = {3: Counter(), 4: Counter()}
    shapes: dict[int, Counter[int]] = {4: Counter()}

    def count(text: str, tables: dict[int, Any], weight: float) -> None:
        numbered = [number_of.get(symbol, 0) for symbol in (" " * (_ORDER - 1) + text + " ")]
        for length, table in tables.items():
            for end in range(_ORDER, len(numbered) + 1):
                key = 0
                for number in numbered[end - length : end]:
                    key = key << _SYMBOL_BITS | number
                table[key] += weight

    for line in [*lines, *numbers()]:
        count("".join(map(fold_character, line)), letters, 1)
        count("".join(map(shape_of, line)), shapes, 1)
        count("".join(map(shape_of, line.upper())), shapes, _CAPITALS)
        count("".join(map(shape_of, line.title())), shapes, _TITLES)
    arrays: dict[str, Any] = {"symbols": np.array([ord(symbol) for symbol in symbols], np.uint32)}
    for name, tables in (("letters", letters), ("shapes", shapes)):
        for length, table in tables.items():
            kept = sorted((key, n) for key, n in table.items() if n >= _LEAST_COUNT)
            arrays[f"{name}_{length}_steps"] = np.diff([0, *(key for key, _ in kept)]).astype(np.uint32)
            arrays[f"{name}_{length}_counts"] = (
                np.round(8 * np.log2([n for _, n in kept])).clip(0, 255).astype(np.uint8)
            )
    np.savez_compressed(path, **arrays)
    print({name: len(array) for name, array in arrays.items()}, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
