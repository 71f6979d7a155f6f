"""The words and signs that captions, headings, items, notes and formulas begin with or are made of."""
# ruff: noqa: RUF001, SIM905 - signs of many scripts, and lists of words

from __future__ import annotations

import re

__all__ = [
    "BULLETS",
    "CAPTION",
    "DECIMAL",
    "DECIMAL_MARK",
    "FIGURE",
    "FORMULA_NUMBER",
    "FUNCTIONS",
    "FURNITURE",
    "HEADINGS",
    "LABELLED",
    "MARK",
    "NOTE",
    "NUMBERED",
    "OPERATORS",
    "PAGE_NUMBER",
    "REFERENCES",
]

# What stands before an item of a list: a bullet, a number, a letter, a number in brackets.
BULLETS = frozenset("•‣◦▪■□●○–—-*·∙➢✓§")
MARK = re.compile(
    r"^(?:[•‣◦▪■□●○–—\-*·∙➢✓o§]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)]|\[[\w+\-]{1,12}\]"
    r"|\d{1,2}(?:\.\d{1,2}){1,3}\.?)$"
)
DECIMAL_MARK = re.compile(r"^\d+\.\d")

# A caption: what it is of, in some languages, and a number.
CAPTION = re.compile(
    r"^(?:supplementary |extended data |appendix )?"
    r"(?:fig(?:ure|s|ura)?|tab(?:le|leau|elle|la|ela|ella)?|abb(?:ildung)?|scheme|schema|chart|plate|box|exhibit|"
    r"illustration|photo|map|grafik|diagramm?|listing|algorithm|algorithmus|cuadro|quadro|gr[áa]fico|рис(?:унок)?|"
    r"табл(?:ица)?|εικόνα|πίνακας|şekil|tablo|rys|afbeelding|tabel|figuur|kuva|taulukko|图|表|圖|그림|표)"
    r"\.?\s{0,2}(?:\d{1,3}(?:[.\-]\d{1,3})*|[A-Z]\.?\d{1,3}|[IVXL]{1,6}|[A-Z])"
    r"(?P<rest>[a-z]?\)?\s?[.:|—–\-]|\s|$)",
    re.IGNORECASE,
)
FIGURE = re.compile(r"^(?:fig(?:ure|s|ura)?|abb(?:ildung)?|рис(?:унок)?|figuur|图|圖|그림)\b", re.IGNORECASE)
LABELLED = re.compile(r"^\S{2,20} \d{1,3} ?[.:]\s")

NUMBERED = re.compile(
    r"^(?:(?:\d{1,2}(?:\.\d{1,2}){0,4}|[IVX]{1,5}|[A-Z])[.)]?"
    r"|(?:appendix|chapter|section|part|teil|kapitel|chapitre|anhang|annexe?)\s\S{1,4})\s+\S",
    re.IGNORECASE,
)
DECIMAL = re.compile(r"^(\d{1,2}(?:\.\d{1,2}){0,4})\.?\s+\S")
HEADINGS = frozenset(
    "abstract acknowledgement acknowledgements acknowledgment acknowledgments appendix background "
    "bibliography conclusion conclusions contents discussion glossary introduction keywords literature "
    "method methods references results summary einleitung ergebnisse inhalt literatur zusammenfassung "
    "bibliographie introducción conclusiones referencias resumen références résumé sommaire".split()
)
REFERENCES = re.compile(
    r"^(?:[\dIVX]+\.?\s*)?(?:references?|bibliography|literatur(?:verzeichnis)?|literature(?: cited)?|références"
    r"|bibliographie|referencias|bibliografía|riferimenti|bibliografia|works cited)\W*$",
    re.IGNORECASE,
)

PAGE_NUMBER = re.compile(
    r"^\W{0,2}(?:(?:page|p\.|seite|s\.|página|pág\.)\s?)?(?:\d{1,4}|[ivxl]{1,6})"
    r"(?:\s?(?:/|of|von|de|sur)\s?\d{1,4})?\W{0,2}$",
    re.IGNORECASE,
)
# What stands in the margins of journals and reports.
FURNITURE = re.compile(r"\b(?:doi|https?:|www\.|issn|vol(?:ume)?\b|page \d+)|©|copyright", re.IGNORECASE)
NOTE = re.compile(r"^(?:[*†‡§¶#∗⋆★]+|\d{1,2}|[a-z])(?:\s|(?=[A-Z]))")

OPERATORS = frozenset("=<>+−±×÷·∑∏∫√≤≥≈≡∼∝∂∇∈∉∞→⇒↦∀∃⊂⊆∪∩∧∨⊗⊕≠≪≫⟨⟩|^")
FUNCTIONS = frozenset(
    "sin cos tan log ln exp max min lim sup inf det dim ker arg mod tr if for and otherwise where".split()
)
FORMULA_NUMBER = re.compile(r"^\(?[A-Z]{0,2}\.?\d{1,3}(?:\.\d{1,3})?[a-z]?\)$")
