"""Recognise postal addresses by their text: streets, house numbers and postal codes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ._field_rules import plain
from ._page import Box

__all__ = [
    "REGISTRATION",
    "adjacent_addresses",
    "ends_address",
    "is_address",
    "is_address_block",
    "is_customer_heading",
]

# A block of text is an address if at least this many of its lines look like part of one. On 80 generated pairs of
# addresses, 1 and 2 find 77 addresses of suppliers, and 3 finds none. The values of 150 receipts stay the same.
_MIN_ADDRESS_LINES = 2
_MAX_ADDRESS_LINES = 8
_MIN_LETTERS = 3
# Two addresses are next to each other if they overlap vertically by this share of the smaller height. On the same
# pages, 0.1 and 0.25 find 80 addresses of suppliers, 0.5 finds 77, and 0.8 finds 45.
_MIN_LEVEL = 0.25

_STREETS = re.compile(
    r"\b(?:jalan|jln|lorong|lrg|persiaran|taman|tmn|lot|blok|block|level|floor|unit|bandar|kampung|kg|seksyen|"
    r"street|st|road|rd|avenue|ave|lane|drive|boulevard|blvd|suite|square|plaza|mall|building|p\.?o\.? ?box|"
    r"\w*strasse|\w*str|\w*weg|\w*platz|\w*allee|rue|place|chemin|bp|calle|avenida|avda|plaza|paseo|via|piazza|"
    r"straat|\w*straat)\b|\b\d{4,6}\b|\b[a-z]{1,2}\d[a-z\d]? \d[a-z]{2}\b"
)
REGISTRATION = re.compile(
    r"^\W*(?:\(?(?:co(?:mpany)?\W{1,3}reg|co\W{1,3}no|reg|roc|brn|gst|sst)\b.*\d.*|\(?[\w-]*\d{4,}[ -]*\w{0,2}\W*)$"
)

# Words that follow an address, such as other contact details or the kind of document.
_ENDS = re.compile(
    r"\b(?:tel|telephone|phone|fax|hp|mobile|email|e-mail|gst|sst|vat|tax|ust|iva|tva|siret|invoice|receipt|bill|date|"
    r"datum|fecha|cashier|www|http|https|rechnung|facture|factura|telefon|website|reg|roc|brn|customer|order|table|"
    r"doc|hotline|inv|quittung|recu|ticket|welcome|thank|member|counter|terminal|pos|time|salesperson)\b|@|\bwww\."
)

# A line that heads the address of a customer, not of the writer.
_CUSTOMERS = re.compile(
    r"^\W*(?:(?:bill(?:ed)?|sold|invoiced?|ship(?:ped)?|deliver(?:ed|y)?|customer|client)\b(?: address)?(?: to)?|to|an|"
    r"kunde|(?:rechnungs|liefer)(?:anschrift|adresse|empfaenger|empfanger)|adresse de (?:facturation|livraison)|"
    r"facture a|cliente|facturar a|destinataire|destinatario)\W*$"
)


def ends_address(text: str) -> bool:
    """Return whether a line, normalised by `plain`, comes after an address, for example a line of contact details."""
    return _ENDS.search(text) is not None


def is_customer_heading(text: str) -> bool:
    """Return whether a line, normalised by `plain`, is the heading of a customer's address, such as "Bill to:"."""
    return _CUSTOMERS.match(text) is not None


def is_address(text: str) -> bool:
    """Return whether a line, normalised by `plain`, looks like part of an address."""
    return (bool(_STREETS.search(text)) and not REGISTRATION.match(text)) or bool(
        re.match(r"^\W*(?:no\W{0,3}[a-z]?\d|\d{1,5}[a-z]?\s?[,&]|\d{1,5}[a-z]?\s+[a-z]{3,})", text)
    )


def is_address_block(lines: Sequence[str]) -> bool:
    """Return whether lines, one below the other, begin with a postal address, with or without a heading and a name."""
    texts = [plain(line) for line in lines]
    if texts and (texts[0].rstrip().endswith(":") or is_customer_heading(texts[0])):
        del texts[0]
    length = next((number for number, text in enumerate(texts) if ends_address(text)), len(texts))
    texts = texts[: min(length, _MAX_ADDRESS_LINES + 1)]
    if len(texts) > _MAX_ADDRESS_LINES or any(sum(map(str.isalpha, text)) < _MIN_LETTERS for text in texts):
        return False
    return sum(map(is_address, texts)) >= _MIN_ADDRESS_LINES


def adjacent_addresses(boxes: Sequence[Box], texts: Sequence[Sequence[str]]) -> list[list[int]]:
    """Find address blocks that are next to each other, such as those of a supplier and a customer.

    Args:
        boxes: The box of each block of text on the page.
        texts: The lines of each block.

    Returns:
        For each group of such addresses, from top to bottom, the indices of its blocks from left to right.
    """
    found = [index for index, lines in enumerate(texts) if is_address_block(lines)]
    groups: list[list[int]] = []
    for index in sorted(found, key=lambda index: boxes[index][0]):
        left, top, _, bottom = boxes[index]
        for group in groups:
            _, y0, x1, y1 = boxes[group[-1]]
            if left >= x1 and min(bottom, y1) - max(top, y0) > _MIN_LEVEL * min(bottom - top, y1 - y0):
                group.append(index)
                break
        else:
            groups.append([index])
    return sorted((group for group in groups if len(group) > 1), key=lambda group: boxes[group[0]][1])
