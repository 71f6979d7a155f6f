"""Convert the texts of a table to numbers, amounts of money, percentages and dates, if it is certain what they mean."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Literal, cast

from ...structure._field_rules import CURRENCY, MINUS, parse_value, value_pattern

# Marks that are printed in place of a number.
_NO_NUMBER = re.compile(r"[-\u2013\u2014.\u2026/]*|n\.?/?a\.?|x", re.IGNORECASE)
# Groups of three digits, separated by points, commas, spaces or apostrophes.
_SEPARATOR = "[., \u00a0\u2009\u202f'\u2019]"
_DIGITS = re.compile(
    rf"(?P<whole>[1-9]\d{{0,2}}(?:(?P<separator>{_SEPARATOR})\d{{3}})(?:(?P=separator)\d{{3}})*|0|[1-9]\d*)"
    r"(?:(?P<mark>[.,])(?P<decimals>\d+))?"
)
_QUANTITY = re.compile(
    rf"(?P<before>\(?(?P<sign>[{MINUS}+])?\s?(?P<currency>{CURRENCY})?\s?(?(currency)[{MINUS}]?))"
    rf"(?P<digits>{_DIGITS.pattern})"
    rf"(?P<after>(?P<percent>\s?%)?(?:\s?(?P<unit>{CURRENCY}))?(?P<trailing>\s?[{MINUS}])?\)?)",
    re.IGNORECASE,
)
# Longer texts are not values, and only the end of a longer head is looked at: matching takes time on hostile pages.
_MAX_LENGTH = 60
# Spreadsheet programs store 15 digits of a number.
_MAX_DIGITS = 15
_NUMERIC_DATE = re.compile(r"(\d{1,2}) ?([-/.]) ?(\d{1,2}) ?\2 ?((?:19|20)\d{2})")
_HAS_YEAR = re.compile(r"(?<!\d)(?:19|20)\d{2}(?!\d)")
# Heads of columns whose numbers are codes rather than quantities: these numbers stay text.
_CODE_HEAD = re.compile(
    r"(?:^|.*[\W_])(?:no|nr|n[\u00b0\u00ba]|num|number|num[e\u00e9]ro|\w*nummer|\w+nr|id|codes?|ref|reference|sku|ean|gtin|isbn|"
    r"issn|zip|plz|phone|tel|telefon|t[e\u00e9]l[e\u00e9]fono?|telephone|fax|iban|bic|hs|section|chapter|kapitel|version)\W*"
    r"|\W*(?:years?|jahre?|ann[e\u00e9]es?|a\u00f1os?|anno|n[\u00b0\u00ba]\W.*)\W*",
    re.IGNORECASE,
)
# Numbers without separators are codes if they all have the same number of digits, at least this many.
_MIN_CODE_DIGITS = 5


@dataclass(frozen=True)
class CellValue:
    """The value of a cell: a number or a date. Amounts of money also have a ``currency``.

    ``number_format`` is the workbook format that shows the value as it is printed, in the syntax of ECMA-376, 18.8.31.
    It is empty for the default format.
    """

    value: int | Decimal | datetime.date
    number_format: str = ""
    currency: str = ""

    @property
    def plain_text(self) -> str:
        """The value without separators of thousands, and with a decimal point; or the date in ISO 8601."""
        return self.value.isoformat() if isinstance(self.value, datetime.date) else format(Decimal(self.value), "f")


@dataclass(frozen=True)
class _Quantity:
    """A text with the form of a number, an amount or a percentage."""

    before: str
    digits: str
    after: str
    separator: str
    num_groups: int
    decimals: int
    currency: str
    is_percent: bool
    is_negative: bool
    mark: str | None  # the decimal mark that the text proves
    is_ambiguous: bool  # whether its separator can be a decimal mark

    @property
    def is_plain(self) -> bool:
        return not (self.separator or self.decimals or self.currency or self.is_percent)

    @property
    def has_brackets(self) -> bool:
        return self.before.startswith("(")


def cell_values(grid: Sequence[Sequence[str]], num_header_rows: int) -> list[list[CellValue | None]]:
    """Return the value of each cell of a table, or None for cells that stay text.

    A text becomes a value only if the other texts of its column allow it. If a point or comma is ambiguous, the column
    or the rest of the table must show which of them is the decimal mark: 1.284 on its own may also mean 1284. Codes,
    telephone numbers and years look like numbers, but stay text.

    Args:
        grid: The texts, row by row. All rows have the same length.
        num_header_rows: The number of rows at the top that stay text.

    Example:
        >>> from mediatensor.ocr.io._elements.values import cell_values
        >>> [row[0] and row[0].value for row in cell_values([["Price"], ["1.284,50 \\u20ac"], ["12,00 \\u20ac"]], 1)]
        [None, Decimal('1284.50'), Decimal('12.00')]
    """
    values: list[list[CellValue | None]] = [[None] * len(row) for row in grid]
    columns = [
        _Column([row[number].strip() for row in grid], num_header_rows) for number in range(len(grid[0]) if grid else 0)
    ]
    proven = set().union(*(column.marks for column in columns)) if columns else set()
    table_mark = proven.pop() if len(proven) == 1 else None
    for number, column in enumerate(columns):
        for row, value in column.values(table_mark).items():
            values[row][number] = value
    return values


class _Column:
    """One column of a table: the texts of its cells, and those texts that are quantities, by row.

    The head, and cells without content such as "-", are left out.
    """

    def __init__(self, texts: Sequence[str], num_header_rows: int) -> None:
        body = {
            row: text for row, text in enumerate(texts) if row >= num_header_rows and not _NO_NUMBER.fullmatch(text)
        }
        self.quantities = {row: found for row, text in body.items() if (found := _quantity(text)) is not None}
        # A table whose head is not known may have it in its first row.
        first = min(body, default=0)
        if not num_header_rows and first == 0 and first in body and first not in self.quantities:
            del body[first]
            num_header_rows = 1
        self.texts = body
        self.head = " ".join(text for text in texts[:num_header_rows] if text)[-_MAX_LENGTH:]
        self.marks = {found.mark for found in self.quantities.values() if found.mark is not None}

    def values(self, table_mark: str | None) -> dict[int, CellValue]:
        return self._dates() | self._numbers(table_mark)

    def _numbers(self, table_mark: str | None) -> dict[int, CellValue]:
        found = list(self.quantities.values())
        mark = next(iter(self.marks), table_mark)
        if len(self.marks) > 1 or (mark is None and any(one.is_ambiguous for one in found)):
            return {}
        # Separators that contradict the decimal mark, as in 1.284.50.
        if any(one.separator == mark for one in found if not one.is_ambiguous):
            return {}
        is_accounting = any(one.separator or one.currency for one in found)
        if any(one.has_brackets for one in found) and not is_accounting:
            return {}  # Standard errors and numbers of notes are also in brackets.
        only_quantities = len(found) == len(self.texts) and not self._are_codes(found)
        return {
            row: _value_of(one, cast(Literal[".", ","] | None, mark))
            for row, one in self.quantities.items()
            if only_quantities or one.currency or one.is_percent
        }

    def _are_codes(self, found: Sequence[_Quantity]) -> bool:
        if _CODE_HEAD.fullmatch(self.head):
            return True
        lengths = {len(one.digits) for one in found}
        if all(one.is_plain for one in found):
            are_years = all(1900 <= int(one.digits) < 2100 for one in found)
            return are_years or (len(lengths) == 1 and lengths.pop() >= _MIN_CODE_DIGITS)
        # Groups of digits with spaces, as in telephone numbers, differ in length if they are quantities.
        spaced = [one for one in found if one.separator.isspace()]
        return bool(spaced) and len(lengths) == 1 and not any(one.decimals or one.currency for one in found)

    def _dates(self) -> dict[int, CellValue]:
        numeric = {row: match for row, text in self.texts.items() if (match := _NUMERIC_DATE.fullmatch(text))}
        orders = {_is_day_first(match) for match in numeric.values()} - {None}
        has_points = all(match[2] == "." for match in numeric.values())
        are_ambiguous = any(_is_day_first(match) is None and match[1] != match[3] for match in numeric.values())
        # With points, the day comes first in all countries.
        day_first = next(iter(orders), True if has_points else None)
        is_undecided = len(orders) > 1 or (are_ambiguous and day_first is None)
        values = {}
        for row, text in self.texts.items():
            if (row in numeric and is_undecided) or len(text) > _MAX_LENGTH or not _HAS_YEAR.search(text):
                continue
            if any(pattern.fullmatch(text) for pattern in value_pattern("date")):
                date = parse_value("date", text, day_first=day_first)
                if isinstance(date, datetime.date):
                    values[row] = CellValue(date, _date_format(text, day_first is not False))
        return values


def _is_day_first(date: re.Match[str]) -> bool | None:
    """Return whether a numeric date has the day first, or None if both orders or neither are possible."""
    first, second = int(date[1]), int(date[3])
    return None if (first > 12) == (second > 12) else first > 12


def _quantity(text: str) -> _Quantity | None:
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        return None
    whole, separator, decimals = match["whole"], match["separator"] or "", match["decimals"] or ""
    currency = (match["currency"] or match["unit"] or "").strip()
    groups = whole.count(separator) if separator else 0
    has_brackets = text.startswith("(")
    signs = (
        bool(match["sign"]) + bool(match["trailing"]) + has_brackets + bool(re.search(rf".[{MINUS}]$", match["before"]))
    )
    if signs > 1 or has_brackets != text.endswith(")") or (match["currency"] and match["unit"]):
        return None
    # Not a quantity: an address of a network, and a code such as USD500.
    if (separator == "." and groups > 2) or sum(map(str.isdigit, match["digits"])) > _MAX_DIGITS:
        return None
    is_plain = not (separator or decimals)
    if is_plain and (re.search(r"[A-Z]$", match["before"], re.IGNORECASE) or (match["trailing"] and not currency)):
        return None
    # A country code of a telephone number: +49 30.
    if match["sign"] == "+" and not decimals and not match["percent"] and len(match["digits"]) >= _MIN_CODE_DIGITS:
        return None
    mark = match["mark"]
    # A mark before three digits may separate thousands, except after 0 and after four digits.
    is_ambiguous = separator in (".", ",") and groups == 1 and not mark
    if mark and mark == separator:
        return None
    if separator in (".", ",") and not is_ambiguous:
        mark = "," if separator == "." else "."
    return _Quantity(
        match["before"], match["digits"], match["after"], separator, groups, len(decimals), currency,
        is_percent=bool(match["percent"]), is_negative=signs > 0 and match["sign"] != "+", mark=mark,
        is_ambiguous=is_ambiguous,
    )  # fmt: skip


def _value_of(found: _Quantity, mark: Literal[".", ","] | None) -> CellValue:
    is_decimal = found.is_ambiguous and found.separator == mark
    separator, decimals = ("", 3) if is_decimal else (found.separator, found.decimals)
    number = parse_value("number", re.sub(rf"[^\d{mark or ''}]", "", found.digits), decimal_mark=mark)
    # The pattern of quantities has digits.
    number = -cast(Decimal, number) if found.is_negative else cast(Decimal, number)
    number = number / 100 if found.is_percent else number
    is_whole = not (decimals or found.is_percent)
    digits = _digits_format(separator, found.num_groups, decimals)
    return CellValue(int(number) if is_whole else number, _number_format(found, digits), found.currency)


def _digits_format(separator: str, num_groups: int, decimals: int) -> str:
    """Return the workbook format of the digits.

    In the format, the decimal mark is a point, and the separator of thousands is a comma. Spreadsheet programs show the
    marks of their user's country instead.
    """
    whole = "0"
    if separator in (".", ","):
        whole = "#,##0"
    elif separator:
        whole = "#" + f'"{separator}"###' * (num_groups - 1) + f'"{separator}"##0'
    return whole + (f".{'0' * decimals}" if decimals else "")


def _number_format(found: _Quantity, digits: str) -> str:
    before = re.sub(rf"[({MINUS}]", "", found.before)
    after = re.sub(rf"\s?[{MINUS}]|\)", "", found.after)
    shown = _quoted(before) + digits + _quoted(after)
    if shown == "0":
        return ""
    # A format of one part writes a hyphen before negative numbers.
    if found.is_negative and not (found.before == f"-{before}" and after == found.after):
        shown += ";" + _quoted(found.before) + digits + _quoted(found.after)
    return shown


def _quoted(text: str) -> str:
    """Quote the text around a number, except percent signs: a format needs an unquoted % to show 0.15 as 15 %."""
    return "%".join(f'"{part}"' if part else "" for part in text.replace('"', "").split("%"))


def _date_format(text: str, day_first: bool) -> str:
    """Return the format that shows a date as it is printed. Month names are in the spreadsheet program's language."""
    tokens = re.findall(r"\d+|[^\W\d_]+|[\W_]+", text)
    numbers = [token for token in tokens if token.isdigit()]
    has_name = len(numbers) < 3
    kinds = iter("ymd" if len(numbers[0]) == 4 else "dmy" if day_first else "mdy")
    shown = ""
    for token, following in pairwise([*tokens, ""]):
        if token.isdigit():
            kind = ("y" if len(token) == 4 else "d") if has_name else next(kinds)
            shown += kind * len(token)
        elif has_name and token.isalpha() and len(token) > 2:
            # Most names of four letters, such as "June", are not abbreviations.
            is_short = len(token) < 4 or (len(token) == 4 and (following[:1] == "." or token.lower() == "sept"))
            shown += "mmm" if is_short else "mmmm"
        else:
            shown += f'"{token}"' if token != "-" else token
    return shown
