"""Who wrote a receipt or an invoice: the name at the top of the page, and the address after it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .values import plain, value_pattern

__all__ = ["find_address", "find_company"]


@dataclass(frozen=True)
class Company:
    """A name: its row, how much of it, and how sure."""

    value: str
    row: int
    length: int
    confidence: float


@dataclass(frozen=True)
class Address:
    """An address: its rows, and how sure."""

    value: str
    rows: tuple[int, ...]
    confidence: float


_FIRMS = re.compile(
    r"\b(?:sdn|bhd|berhad|enterprise|trading|restoran|restaurant|store|stores|mart|market|supermarket|hardware|cafe|"
    r"bakery|bakeries|pharmacy|hotel|station|services|company|corporation|corp|inc|llc|ltd|limited|plc|gmbh|ag|kg|ohg|"
    r"sarl|sas|sa|sl|slu|srl|spa|bv|nv|group|holdings?|stationery|industries|co|s/b|pte)\b\.?"
)
_STREETS = re.compile(
    r"\b(?:jalan|jln|lorong|lrg|persiaran|taman|tmn|lot|blok|block|level|floor|unit|bandar|kampung|kg|seksyen|"
    r"street|st|road|rd|avenue|ave|lane|drive|boulevard|blvd|suite|square|plaza|mall|building|p\.?o\.? ?box|"
    r"\w*strasse|\w*str|\w*weg|\w*platz|\w*allee|rue|place|chemin|bp|calle|avenida|avda|plaza|paseo|via|piazza|"
    r"straat|\w*straat)\b|\b\d{4,6}\b"
)
# What ends an address: other ways to reach somebody, and what the paper is.
_ENDS = re.compile(
    r"\b(?:tel|telephone|phone|fax|hp|mobile|email|e-mail|gst|sst|vat|tax|ust|iva|tva|siret|invoice|receipt|bill|date|"
    r"datum|fecha|cashier|www|http|https|rechnung|facture|factura|telefon|website|reg|roc|brn|customer|order|table|"
    r"doc|hotline|inv|quittung|recu|ticket|welcome|thank|member|counter|terminal|pos|time|salesperson)\b|@|\bwww\."
)
_TITLES = re.compile(
    r"^\W*(?:(?:simplified |full )?(?:tax )?invoice|(?:official |sales |cash )?receipt|cash (?:bill|sales?)|rechnung|"
    r"facture|factura|quittung|kassenbon|ticket|welcome(?: to)?|copy|original|duplicate|page \d+|bill)\W*$|"
    r"\b(?:thank you|returnable|refund|exchange|come again)\b"
)
_REGISTRATION = re.compile(
    r"^\W*(?:\(?(?:co(?:mpany)?\W{1,3}reg|co\W{1,3}no|reg|roc|brn|gst|sst)\b.*\d.*|\(?[\w-]*\d{4,}[ -]*\w{0,2}\W*)$"
)
_REGISTRATION_AT_END = re.compile(
    r"\s*\(?\s*(?:(?:co\.?|reg\.?|no\.?)[ :]*)*\d{4,9}[-. ]{1,3}[A-Z0-9]{1,2}\s*\)?\s*$", re.I
)
_TOP_ROWS = 10


def find_company(texts: Sequence[str]) -> Company | None:
    """The first row that can be a name; one that names a kind of firm goes before the others."""
    found = _company_row(texts)
    if found is None:
        return None
    row, confidence = found
    name = _name(texts[row])
    # "SDN BHD", of all names of firms, is what readers get wrong.
    value = re.sub(r"\bS[O0D]N(\.?) [B8]H[DO0](?!\w)", r"SDN\1 BHD", re.sub(r" {2,}", " ", name))
    return Company(value, row, len(name), confidence)


def _name(text: str) -> str:
    """A row without the number of the firm at its end, and without specks far behind it."""
    name = text
    while (end := name.rfind("  ")) > 0 and sum(map(str.isalpha, name[end:])) < 3:
        name = name[:end]
    return _REGISTRATION_AT_END.sub("", name).rstrip() or text


def _company_row(texts: Sequence[str]) -> tuple[int, float] | None:
    names: list[tuple[int, bool]] = []
    for number, row in enumerate(texts[:_TOP_ROWS]):
        text = plain(_name(row))
        letters = sum(character.isalpha() for character in text)
        if names and (_ends(text) or _is_address(text)):
            break
        if letters < 3 or letters < 0.5 * len(text.replace(" ", "")):
            continue
        if _TITLES.search(text) or _ends(text) or _REGISTRATION.match(text) or _is_date(text):
            continue
        names.append((number, bool(_FIRMS.search(text))))
    if not names:
        return None
    firms = [number for number, is_firm in names[:4] if is_firm]
    return (firms[0], 0.9) if firms else (names[0][0], 0.6)


def find_address(texts: Sequence[str], spans: Sequence[tuple[float, float]]) -> Address | None:
    """The rows below the name that a street, a number of a house or a postcode is in, up to what is no address.

    ``spans`` are the tops and bottoms of the rows.
    """
    company = _company_row(texts)
    start = 0 if company is None else company[0] + 1
    taken: list[int] = []
    evidence = 0
    for number in range(start, min(start + _TOP_ROWS, len(texts))):
        text = plain(texts[number])
        if taken:
            top, bottom = spans[taken[-1]]
            if spans[number][0] - bottom > 1.5 * (bottom - top) or len(taken) >= 6:
                break
        if _ends(text) or _TITLES.search(text) or _is_date(text) or _is_phone(text):
            if taken:
                break
            continue
        if not taken and not _is_address(text):
            continue
        if taken and _REGISTRATION.match(text) and not re.search(r"\b\d{5}\b", text):
            break
        taken.append(number)
        evidence += _is_address(text)
    if not evidence:
        return None
    # Specks are read as quotation marks.
    value = " ".join(re.sub(r" {2,}", " ", texts[number].strip("\"'`|*~_ ")) for number in taken)
    return Address(value, tuple(taken), min(0.9, 0.4 + 0.2 * evidence))


def _ends(text: str) -> bool:
    return _ENDS.search(text) is not None


def _is_address(text: str) -> bool:
    return (bool(_STREETS.search(text)) and not _REGISTRATION.match(text)) or bool(
        re.match(r"^\W*(?:no\W{0,3}[a-z]?\d|\d{1,5}[a-z]?\s?[,&]|\d{1,5}[a-z]?\s+[a-z]{3,})", text)
    )


def _is_date(text: str) -> bool:
    return any(pattern.search(text) for pattern in value_pattern("date"))


def _is_phone(text: str) -> bool:
    return re.fullmatch(r"[\W\d]*", text) is not None and any(
        pattern.search(text) for pattern in value_pattern("phone")
    )
