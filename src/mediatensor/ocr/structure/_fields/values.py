"""What values of fields look like as they are printed, and what they mean: amounts, dates, numbers, accounts."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Literal, TypeAlias

from mediatensor.errors import InvalidArgumentError

__all__ = ["FIELD_KINDS", "FieldKind", "find_day_first", "is_valid", "parse_value", "plain", "value_pattern"]

#: What a value can be.
FieldKind: TypeAlias = Literal[
    "text", "amount", "date", "number", "percent", "code", "iban", "email", "phone", "company", "address"
]
FIELD_KINDS: tuple[FieldKind, ...] = (
    "text", "amount", "date", "number", "percent", "code", "iban", "email", "phone", "company", "address",
)  # fmt: skip

_SIGN = r"(?:[$€£¥₹] ?)"
_CURRENCY = r"(?:RM|MYR|US\$|S\$|A\$|C\$|\$|€|£|¥|₹|USD|EUR|GBP|CHF|CAD|AUD|SGD|INR|JPY|Rs\.?|kr\.?|R\$)"
_GROUPED = r"\d{1,3}(?:[.,'\u2019 \u00a0]\d{3}){1,4}"
_MONTHS = (
    "jan janv januar january janvier enero ene gennaio gen janeiro januari jaenner janner",
    "feb fev febr fevr februar february fevrier febrero febbraio fevereiro februari",
    "mar mars marz maerz march marzo marco mrz maart mrt",
    "apr avr abr april avril abril aprile",
    "may mai mayo maggio mag maio mei",
    "jun juin june juni junio giugno giu junho",
    "jul juil july juli juillet julio luglio lug julho",
    "aug aou aout august agosto ago augustus",
    "sep sept september septembre septiembre settembre set setembro",
    "oct okt out october oktober octobre octubre ottobre ott outubro",
    "nov november novembre noviembre novembro",
    "dec dez dic december dezember decembre diciembre dicembre dezembro",
)
_MONTH_NUMBERS = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
# Letters of any alphabet: which of them are months is decided when the value is parsed.
_MONTH = r"[^\W\d_]{3,10}\.?"
# A year may touch the time that follows it.
_YEAR = r"(?:(?:19|20)\d{2}(?:(?=\d{1,2}:\d{2})|(?!\d))|\d{2}(?!\d))"
_DAY = r"(?:3[01]|[12]\d|0?[1-9])"
_DATES = (
    rf"(?:19|20)\d{{2}} ?[-/.] ?\d{{1,2}} ?[-/.] ?{_DAY}(?!\d)",
    rf"\d{{1,2}} ?([-/.]) ?\d{{1,2}} ?\1 ?{_YEAR}",
    rf"{_DAY}(?:st|nd|rd|th|er|\.|º)?[ \-/.]{{0,2}}(?:de )?{_MONTH}[ \-/.,']{{0,2}}(?:de )?{_YEAR}",
    rf"{_MONTH} ?{_DAY}(?:st|nd|rd|th)?[ ,.]{{1,2}}{_YEAR}",
    rf"(?:19|20)\d{{2}}[ \-/.]{{1,2}}{_MONTH}[ \-/.]{{1,2}}{_DAY}(?!\d)",
)
_PATTERNS: dict[str, tuple[str, ...]] = {
    "amount": (
        (
            rf"(?<![\w.,])(?:\( ?)?[-\u2212+]?(?:{_SIGN}|{_CURRENCY})?[-\u2212]?"
            rf"(?:{_GROUPED}(?:[.,]\d{{2}})|\d{{1,9}}[.,]\d{{2}})"
            rf"(?![\d%]|[.,]\d)(?: ?(?:{_CURRENCY}|-(?!\w)))?"
        ),
        # Whole amounts have to show that they are money.
        rf"(?<![\w.,]){_CURRENCY} ?[-\u2212]?(?:{_GROUPED}|\d{{1,9}})(?![\d%]|[.,]\d)",
        rf"(?<![\w.,])[-\u2212]?(?:{_GROUPED}|\d{{1,9}}) ?(?:€|£|EUR|USD|CHF|GBP)(?!\w)",
    ),
    "date": tuple(rf"(?<![\d./-]){date}" for date in _DATES),
    "number": (rf"(?<![\w.,])[-\u2212]?(?:{_GROUPED}|\d{{1,12}})(?:[.,]\d{{1,6}})?(?![\w]|[.,]\d)",),
    "percent": (r"(?<![\w.,])[-\u2212]?\d{1,3}(?:[.,]\d{1,3})? ?%",),
    "code": (r"(?<!\w)(?=[^\s]{0,30}\d)[^\W_](?:[\w\-/.#]{0,30}\w)?",),
    "iban": (r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)",),
    "email": (r"(?<![\w.])[\w.+\-]{1,64}@[\w\-]{1,63}(?:\.[\w\-]{1,63}){1,4}",),
    "phone": (r"(?<![\w.,/-])\+?(?:\(\+?\d{1,5}\)|\d)(?:[ \-/.()]{0,2}\d){6,14}(?!\w)",),
    "text": (r"\S(?:.{0,198}\S)?",),
}
_PATTERNS["company"] = _PATTERNS["address"] = _PATTERNS["text"]
_COMPILED = {
    kind: tuple(re.compile(pattern, re.IGNORECASE if kind != "iban" else 0) for pattern in patterns)
    for kind, patterns in _PATTERNS.items()
}


def value_pattern(kind: str) -> tuple[re.Pattern[str], ...]:
    """The forms in which values of a kind are printed, the surest first."""
    return _COMPILED[kind]


def parse_value(kind: FieldKind, value: str, *, day_first: bool | None = None) -> Decimal | datetime.date | str | None:
    """The normal form of a printed value.

    Args:
        kind: One of `FIELD_KINDS`.
        value: What is printed, such as ``"RM 1,250.00"`` or ``"5. März 2024"``.
        day_first: Whether 03/04/2024 is in April rather than in March; ``None`` takes the day first unless only the
            other order is a date. `find_day_first` tells it from the other dates of the page.

    Returns:
        A ``Decimal`` for amounts, numbers and percents, a ``datetime.date`` for dates, letters and digits without
        spaces for IBANs and phones, and the text without spaces at its ends for all else; ``None`` where the value is
        none of its kind. Years of two digits are those from 1970 to 2069.

    Raises:
        InvalidArgumentError: There is no such kind.

    Example:
        >>> from mediatensor.ocr.structure import parse_value
        >>> parse_value("amount", "1.250,00 €"), parse_value("amount", "$8.20")
        (Decimal('1250.00'), Decimal('8.20'))
        >>> parse_value("date", "14 MAR 2018"), parse_value("date", "03/04/24", day_first=False)
        (datetime.date(2018, 3, 14), datetime.date(2024, 3, 4))
    """
    if kind not in _PATTERNS:
        raise InvalidArgumentError(f"kind is {kind!r}; accepted: {', '.join(FIELD_KINDS)}")
    parse = _PARSERS.get(kind)
    if parse is not None:
        return parse(value[:200])
    if kind == "date":
        return _date(value[:200], day_first)
    return value.strip() or None


def find_day_first(texts: Iterable[str]) -> bool | None:
    """Whether days stand before months in the numeric dates of texts; ``None`` where no date tells.

    Example:
        >>> from mediatensor.ocr.structure import find_day_first
        >>> find_day_first(["Date 03/04/2024", "due 17/04/2024"]), find_day_first(["03/04/2024"])
        (True, None)
    """
    votes = 0
    for text in texts:
        for first, second in re.findall(r"(?<![\d./-])(\d{1,2})[-/.](\d{1,2})[-/.](?:\d{4}|\d{2})(?!\d)", text[:1000]):
            votes += (int(first) > 12 >= int(second)) - (int(second) > 12 >= int(first))
    return votes > 0 if votes else None


def is_valid(kind: str, value: str) -> bool:
    """Whether a value of the right form also means something: a day that exists, an account with its check digits.

    A code of one character is rather a quantity, and one with points or strokes between its digits may be a date.
    """
    if kind == "iban":
        return _iban(value) is not None
    if kind == "code":
        is_date = any(sign in value for sign in "./") and parse_value("date", value) is not None
        return len(value.strip()) > 1 and not is_date
    return parse_value(kind, value) is not None  # type: ignore[arg-type]


def plain(text: str) -> str:
    """Small letters without accents; ligatures and letters of full width as the usual ones."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKD", text.casefold())
    return "".join(character for character in text if not unicodedata.combining(character))


def _number(value: str) -> Decimal | None:
    digits = re.sub(r"[^\d.,]", "", value).strip(".,")
    if not re.search(r"\d", digits):
        return None
    marks = re.findall(r"[.,]", digits)
    last = max(digits.rfind("."), digits.rfind(","))
    # A mark is decimal if it comes once, and groups are not what stands behind it; of two kinds, the last is.
    if marks and (len(set(marks)) > 1 or (len(marks) == 1 and len(digits) - last - 1 != 3)):
        digits = re.sub(r"[.,]", "", digits[:last]) + "." + digits[last + 1 :]
    else:
        digits = re.sub(r"[.,]", "", digits)
    is_negative = re.search(r"^\s*\(.*\)\s*$|[-\u2212]\s*(?:\D{0,4}\d|$)", value) is not None
    return -Decimal(digits) if is_negative else Decimal(digits)


def _amount(value: str) -> Decimal | None:
    # The dot of "Rs." and "kr." is no decimal mark.
    return _number(re.sub(r"(?i)\b(?:rs|kr)\.", "", value))


def _date(value: str, day_first: bool | None) -> datetime.date | None:
    words = re.findall(r"\d+|[^\W\d_]+", plain(value))
    numbers = [word for word in words if word.isdigit()]
    months = [_MONTH_NUMBERS[word] for word in words if word in _MONTH_NUMBERS]
    if months and len(numbers) >= 2:
        first, second = numbers[:2]
        # A date that begins with a year of four digits runs down.
        year, day = (first, second) if len(first) == 4 else (second, first)
        return _day(year, months[0], int(day))
    if months or len(numbers) < 3:
        return None
    first, second, third = numbers[:3]
    if len(first) == 4:
        return _day(first, int(second), int(third))
    day, month = int(first), int(second)
    orders = ((month, day), (day, month)) if day_first is not False else ((day, month), (month, day))
    return _day(third, *orders[0]) or _day(third, *orders[1])


def _day(year: str, month: int, day: int) -> datetime.date | None:
    number = int(year[:4])
    if len(year) <= 2:
        number += 2000 if number < 70 else 1900
    try:
        return datetime.date(number, month, day)
    except ValueError:
        return None


def _iban(value: str) -> str | None:
    """Without spaces, if its check digits are right (ISO 13616: its letters as numbers are 1 modulo 97)."""
    account = re.sub(r"\W", "", value).upper()
    if not re.fullmatch(r"[A-Z]{2}\d{2}[A-Z0-9]{8,30}", account, re.ASCII):
        return None
    return account if int("".join(str(int(sign, 36)) for sign in account[4:] + account[:4])) % 97 == 1 else None


def _phone(value: str) -> str | None:
    digits = re.sub(r"\D", "", value)
    return ("+" if value.strip().startswith("+") else "") + digits if len(digits) >= 5 else None


_PARSERS: dict[str, Callable[[str], Decimal | str | None]] = {
    "amount": _amount, "number": _number, "percent": _number, "iban": _iban, "phone": _phone,
}  # fmt: skip
