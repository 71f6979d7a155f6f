"""Sentences of our own in the languages that the default reader may claim: ``TEXTS`` and ``LANGUAGES``.

``ocr_languages.txt`` beside this module has them: a heading ``[code] Name`` and one sentence a line. They are of
everyday kinds: a letter, a bill, news, instructions, direct speech, opening hours, words with rare letters.

>>> LANGUAGES["sv"], TEXTS["sv"][1]
('Swedish', 'Beloppet 1 284,50 kr ska betalas inom trettio dagar till vårt bankgiro.')
>>> is_spaced("ja")
False
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["LANGUAGES", "TEXTS", "is_spaced"]


def _load() -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    names: dict[str, str] = {}
    texts: dict[str, tuple[str, ...]] = {}
    code = ""
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            code, _, name = line[1:].partition("] ")
            names[code], texts[code] = name, ()
        elif line:
            texts[code] += (line,)
    return names, texts


#: English names by ISO 639 code, with the script where a language has two; and the sentences by the same codes.
LANGUAGES, TEXTS = _load()


def is_spaced(code: str) -> bool:
    """Whether the language parts its words by spaces."""
    return code.partition("-")[0] not in {"zh", "ja"}
