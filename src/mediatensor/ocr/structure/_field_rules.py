"""Rules for finding fields on a page, rule sets for receipts and invoices, and functions that parse printed values."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, TypeAlias, get_args

from ..._engine.common.checks import shown
from ...errors import InvalidArgumentError

#: Kinds of values.
FieldKind: TypeAlias = Literal[
    "text", "amount", "date", "number", "percent", "code", "iban", "email", "phone", "company", "address"
]
FIELD_KINDS: tuple[FieldKind, ...] = get_args(FieldKind)

_SIGN = r"(?:[$€£¥₹] ?)"
CURRENCY = r"(?:RM|MYR|US\$|S\$|A\$|C\$|\$|€|£|¥|₹|USD|EUR|GBP|CHF|CAD|AUD|SGD|INR|JPY|Rs\.?|kr\.?|R\$)"
# Characters that are printed as a minus sign, for a regular expression's set.
MINUS = "\\-\u2013\u2212"
# Groups of three digits; or, as in India, of two digits and at the end of three.
_GROUPED = r"(?:\d{1,3}(?:[.,'\u2019 \u00a0]\d{3}){1,4}|\d{1,2}(?:,\d{2}){1,3},\d{3})"
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
# Letters of any alphabet; the parser decides whether they name a month.
_MONTH = r"[^\W\d_]{3,10}\.?"
# A time may follow a year without a space.
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
            rf"(?<![\w.,])(?:\( ?)?[{MINUS}+]?(?:{_SIGN}|{CURRENCY})?[{MINUS}]?"
            rf"(?:{_GROUPED}(?:[.,]\d{{2}})|\d{{0,9}}[.,]\d{{2}})"
            rf"(?![\d%]|[.,]\d)(?: ?(?:{CURRENCY}|-(?!\w)))?"
        ),
        # Whole amounts are accepted only with a currency.
        rf"(?<![\w.,]){CURRENCY} ?[{MINUS}]?(?:{_GROUPED}|\d{{1,9}})(?![\d%]|[.,]\d)",
        rf"(?<![\w.,])[{MINUS}]?(?:{_GROUPED}|\d{{1,9}}) ?(?:€|£|EUR|USD|CHF|GBP)(?!\w)",
    ),
    "date": tuple(rf"(?<![\d./-]){date}" for date in _DATES),
    "number": (rf"(?<![\w.,])[{MINUS}]?(?:{_GROUPED}|\d{{1,12}})(?:[.,]\d{{1,6}})?(?![\w]|[.,]\d)",),
    "percent": (rf"(?<![\w.,])[{MINUS}]?\d{{1,3}}(?:[.,]\d{{1,3}})? ?%",),
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
    return _COMPILED[kind]


def parse_value(
    kind: FieldKind, value: str, *, day_first: bool | None = None, decimal_mark: Literal[".", ","] | None = None
) -> Decimal | datetime.date | str | None:
    """Convert a printed value, such as an amount or a date, to a Python object or a normalised text.

    Args:
        kind: Kind of the value: ``"text"``, ``"amount"``, ``"date"``, ``"number"``, ``"percent"``, ``"code"``,
            ``"iban"``, ``"email"``, ``"phone"``, ``"company"`` or ``"address"``.
        value: Printed value, such as ``"RM 1,250.00"`` or ``"5. März 2024"``.
        day_first: Whether the day comes first in numeric dates, so that 03/04/2024 is in April rather than in March. By
            default, the day comes first, unless the date is valid only with the month first. `find_day_first` finds the
            order that a page uses.
        decimal_mark: The decimal mark of amounts, numbers and percents. By default, if a number has both commas and
            dots, the last mark is the decimal mark. A single mark is the decimal mark, unless it can separate
            thousands: 1.250 is 1250, but 0.125 and 1234.567 have decimals. If a number has several commas but no dot,
            or several dots but no comma, it has no decimals.

    Returns:
        A ``Decimal`` for amounts, numbers and percents, and a ``datetime.date`` for dates. For IBANs and phones, a text
        of letters and digits without spaces. For all other kinds, the text without spaces at its ends. None if
        ``value`` is not a value of this kind. Years with two digits are taken as 1970 to 2069.

    Raises:
        InvalidArgumentError: ``kind`` or ``decimal_mark`` is unknown, or ``value`` is not a str.

    Example:
        >>> from mediatensor.ocr.structure import parse_value
        >>> parse_value("amount", "1.250,00 €"), parse_value("amount", "$8.20")
        (Decimal('1250.00'), Decimal('8.20'))
        >>> parse_value("number", "1.250"), parse_value("number", "1.250", decimal_mark=".")
        (Decimal('1250'), Decimal('1.250'))
        >>> parse_value("date", "14 MAR 2018"), parse_value("date", "03/04/24", day_first=False)
        (datetime.date(2018, 3, 14), datetime.date(2024, 3, 4))
    """
    if kind not in FIELD_KINDS:
        raise InvalidArgumentError(f"kind is {kind!r}; accepted: {', '.join(FIELD_KINDS)}")
    if not isinstance(value, str):
        raise InvalidArgumentError(f"value is {shown(value)}; accepted: the printed value, a str")
    if decimal_mark not in (None, ".", ","):
        raise InvalidArgumentError(f"decimal_mark is {decimal_mark!r}; accepted: '.', ',' or None")
    if kind in ("amount", "number", "percent"):
        # The dot of "Rs." and "kr." is not a decimal mark.
        text = re.sub(r"(?i)\b(?:rs|kr)\.", "", value[:200]) if kind == "amount" else value[:200]
        return _number(text, decimal_mark)
    parse = _PARSERS.get(kind)
    if parse is not None:
        return parse(value[:200])
    if kind == "date":
        return _date(value[:200], day_first)
    return value.strip() or None


def find_day_first(texts: Iterable[str]) -> bool | None:
    """Find out whether the numeric dates of a page have the day before the month.

    Args:
        texts: Texts of the page, such as its lines. Only the first 1,000 characters of each text are searched.

    Returns:
        The order of most dates that are valid in only one order: True if the day is first, False if the month is first.
        None if there are no such dates, or as many of one order as of the other.

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
    """Return whether a value is valid. The value must already have the printed form of its kind.

    A date must exist, and the check digits of an IBAN must be right. A code must have at least two characters, because
    a single character is probably a quantity, and it must not be a date.
    """
    if kind == "iban":
        return _iban(value) is not None
    if kind == "code":
        is_date = any(sign in value for sign in "./") and parse_value("date", value) is not None
        return len(value.strip()) > 1 and not is_date
    return parse_value(kind, value) is not None  # type: ignore[arg-type]


def plain(text: str) -> str:
    """Convert text to lower case, remove accents, and convert ligatures and full-width characters to plain ones."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKD", text.casefold())
    return "".join(character for character in text if not unicodedata.combining(character))


# A number with its separators. A mark before the first digit belongs to the number in "$.50", but not in "Fr.50".
_NUMERAL = re.compile(r"(?<![\w/.,])[.,]\d+|\d(?:[\d.,'\u2019\s]*\d)?")


def _number(value: str, decimal_mark: str | None) -> Decimal | None:
    numerals = list(_NUMERAL.finditer(value))
    if len(numerals) != 1:
        return None
    (numeral,) = numerals
    digits = re.sub(r"[^\d.,]", "", numeral[0])
    marks = re.findall(r"[.,]", digits)
    last = max(digits.rfind("."), digits.rfind(","))
    # If there are two different separators, the last one is the decimal mark.
    is_grouped = len(set(marks)) == 1 and (len(marks) > 1 or re.fullmatch(r"(?!0)\d{1,3}[.,]\d{3}", digits) is not None)
    if last == 0:
        decimal_mark = digits[0]
    elif decimal_mark is None and marks and not is_grouped:
        decimal_mark = digits[last]
        digits = digits[:last].replace(decimal_mark, "") + digits[last:]
    whole, mark, decimals = digits.partition(decimal_mark) if decimal_mark else (digits, "", "")
    if re.search(r"[.,]", decimals):
        return None
    digits = re.sub(r"[.,]", "", whole) + ("." if mark else "") + decimals
    before, after = value[: numeral.start()], value[numeral.end() :]
    # The dash in "25.-" and "25:-" stands for decimals.
    is_negative = (
        re.search(rf"[{MINUS}]\s*\D{{0,4}}$", before) is not None
        or re.search(rf"^(?![.,:]).*[{MINUS}]\s*$", after) is not None
        or (before.lstrip().startswith("(") and after.rstrip().endswith(")"))
    )
    return -Decimal(digits) if is_negative else Decimal(digits)


def _date(value: str, day_first: bool | None) -> datetime.date | None:
    # "mar" is also Tuesday, in Spanish, French and Italian.
    rest = re.sub(r"(?i)^\W*mar\b\W*", "", value)
    is_weekday = rest != value and any(pattern.match(rest) for pattern in value_pattern("date"))
    if is_weekday and (date := _date(rest, day_first)) is not None:
        return date
    words = re.findall(r"\d+|[^\W\d_]+", plain(value))
    numbers = [word for word in words if word.isdecimal()]
    months = [_MONTH_NUMBERS[word] for word in words if word in _MONTH_NUMBERS]
    if months and len(numbers) >= 2:
        first, second = numbers[:2]
        # After a leading four-digit year comes the month, then the day.
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
    if len(year) in (1, 3):
        return None
    number = int(year[:4])
    if len(year) <= 2:
        number += 2000 if number < 70 else 1900
    try:
        return datetime.date(number, month, day)
    except (ValueError, OverflowError):
        return None


def _iban(value: str) -> str | None:
    """Return an IBAN without spaces, or None if it is not 1 modulo 97 as a number (ISO 13616)."""
    account = re.sub(r"\W", "", value).upper()
    if not re.fullmatch(r"[A-Z]{2}\d{2}[A-Z0-9]{8,30}", account, re.ASCII):
        return None
    return account if int("".join(str(int(sign, 36)) for sign in account[4:] + account[:4])) % 97 == 1 else None


def _phone(value: str) -> str | None:
    digits = re.sub(r"\D", "", value)
    return ("+" if value.strip().startswith("+") else "") + digits if len(digits) >= 5 else None


_PARSERS: dict[str, Callable[[str], str | None]] = {"iban": _iban, "phone": _phone}


# Lines are cut to this length before patterns are matched, because the text of a page is untrusted.
MAX_LINE = 200
_WHERE = ("right", "below", "any")
_PREFERRED = ("first", "last", "largest")


@dataclass(frozen=True)
class FieldRule:
    """A rule for `extract_fields` that describes how to find one field, such as the total, on a page.

    Args:
        name: Name of the field in results.
        labels: Texts that may be printed next to the value, in order of preference. Case, accents and punctuation are
            ignored. Long labels are found even with one or two misread letters. If there are no labels, the value is
            found only by its form.
        kind: Form in which the value is printed, one of `FIELD_KINDS`, such as ``"amount"`` or ``"date"``. ``"code"``
            is letters and digits without spaces, such as an invoice number; ``"number"`` is a quantity. If there are no
            labels, ``"company"`` finds the name at the top of the page, and ``"address"`` finds the lines after the
            name.
        pattern: Regular expression that the value must match. It replaces the form given by ``kind``. Case is ignored.
            The value is the first group that matched, or the whole match if the expression has no groups.
        where: Position of the value relative to its label: ``"right"``, ``"below"``, or ``"any"``. With ``"any"``, a
            value below the label is used only if there is no value to the right.
        prefer: The value to choose if several are about equally likely: the ``"first"`` or ``"last"`` on the page, or
            the ``"largest"`` amount.
        needs_label: Whether the value must be next to a label. If false, and there is no value next to a label, the
            rule accepts a value elsewhere on the page, with lower confidence.
        not_labels: Texts that rule out a label in the same row. For example, a rule for the total has "sub total" here.

    Raises:
        InvalidArgumentError: An argument has an unknown value, a rule of the kind ``"text"`` has neither labels nor a
            pattern, or the pattern is not a regular expression.

    Note:
        Patterns are matched row by row, against the first 200 characters of each row. Python's ``re`` has no time
        limit: a pattern with nested repetitions, such as ``(a+)+$``, can take very long on a hostile page. Write
        ``a+$``, or use possessive repetitions (``(a++)+$``). Do not accept patterns from untrusted users.

    Example:
        >>> from mediatensor.ocr.structure import FieldRule
        >>> FieldRule("customer", labels=("Customer No", "Kundennummer"), pattern=r"K-\\d{5}").where
        'any'
    """

    name: str
    labels: tuple[str, ...] = ()
    kind: FieldKind = "text"
    pattern: str | None = None
    where: Literal["right", "below", "any"] = "any"
    prefer: Literal["first", "last", "largest"] = "first"
    needs_label: bool = True
    not_labels: tuple[str, ...] = ()
    compiled: re.Pattern[str] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidArgumentError(f"name is {self.name!r}; a field needs a name, such as 'total'")
        for argument, value, accepted in (
            ("kind", self.kind, FIELD_KINDS), ("where", self.where, _WHERE), ("prefer", self.prefer, _PREFERRED),
        ):  # fmt: skip
            if value not in accepted:
                raise InvalidArgumentError(f"{argument} of {self.name!r} is {value!r}; accepted: {', '.join(accepted)}")
        for argument in ("labels", "not_labels"):
            values = getattr(self, argument)
            is_series = isinstance(values, Iterable) and not isinstance(values, str)
            if not is_series or not all(isinstance(label, str) and label.strip() for label in values):
                raise InvalidArgumentError(
                    f"{argument} of {self.name!r} is {values!r}; give several texts, such as ('Total', 'Summe')"
                )
            object.__setattr__(self, argument, tuple(values))
        if not self.labels and self.pattern is None and self.kind == "text":
            raise InvalidArgumentError(f"{self.name!r} needs labels, a pattern or a kind other than 'text'")
        if self.pattern is not None:
            object.__setattr__(self, "compiled", _compile_pattern(self.name, self.pattern))


def rules_of(rules: str | FieldRule | Iterable[str | FieldRule]) -> tuple[FieldRule, ...]:
    """Replace names of rule sets by the rules of these sets.

    Args:
        rules: A `FieldRule`, the name of a set in `FIELD_SETS` (``"receipt"`` or ``"invoice"``), or several of these.

    Returns:
        A tuple of `FieldRule`, in the given order. `extract_fields` tries rules with the same name in this order.

    Raises:
        InvalidArgumentError: An item is neither a rule nor the name of a set.

    Example:
        >>> from mediatensor.ocr.structure import rules_of
        >>> [rule.name for rule in rules_of("receipt")]
        ['company', 'date', 'address', 'total']
    """
    if isinstance(rules, str | FieldRule) or not isinstance(rules, Iterable):
        rules = (rules,)
    found: list[FieldRule] = []
    for rule in rules:
        if isinstance(rule, FieldRule):
            found.append(rule)
        elif isinstance(rule, str) and rule in FIELD_SETS:
            found += FIELD_SETS[rule]
        else:
            raise InvalidArgumentError(
                f"fields has {rule!r}; accepted: a FieldRule, or the name of a set: {', '.join(FIELD_SETS)}"
            )
    return tuple(found)


def _compile_pattern(name: str, pattern: str) -> re.Pattern[str]:
    if not isinstance(pattern, str):
        raise InvalidArgumentError(f"pattern of {name!r} is {pattern!r}; give a regular expression as text")
    try:
        return re.compile(pattern, re.IGNORECASE)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidArgumentError(
            f"pattern of {name!r} is {pattern!r}, which is not a regular expression: {error}"
        ) from error


_DATE_LABELS = (
    "invoice date", "date of invoice", "date of issue", "issue date", "bill date", "tax date", "receipt date",
    "rechnungsdatum", "ausstellungsdatum", "belegdatum", "date de facture", "date de la facture", "date facture",
    "date d'émission", "fecha de factura", "fecha factura", "fecha de emisión", "fecha de expedición", "data fattura",
    "factuurdatum", "date", "dated", "datum", "fecha", "le",
)  # fmt: skip
_TOTAL_LABELS = (
    "grand total", "total amount due", "total due", "amount due", "balance due", "total amount payable",
    "total payable", "amount payable", "total to pay", "amount to be paid", "invoice total", "total amount",
    "total inclusive of gst", "total incl gst", "total incl vat", "total sales inclusive", "nett total", "net total",
    "total amt", "total rounded", "total sales", "gross total", "gross amount", "invoice amount",
    "rechnungsbetrag", "gesamtbetrag", "gesamtsumme", "endbetrag", "zahlbetrag", "bruttobetrag", "rechnungssumme",
    "gesamt", "zu zahlen", "summe", "total ttc", "montant total ttc", "net à payer", "montant ttc", "montant total",
    "total à payer", "total factura", "importe total", "total a pagar", "totale", "totaal", "total", "importe", "ttl",
)  # fmt: skip
_NOT_TOTALS = (
    "sub total", "subtotal", "zwischensumme", "nettosumme", "sous total", "base imponible", "total ht",
    "total qty", "total quantity", "total item", "total items", "total pcs", "total discount", "total savings",
    "total saving", "total tax", "total gst", "total vat", "total iva", "total tva", "total points", "total net",
    "total disc", "total includes", "excluding", "excl", "exclude", "exclusive", "before tax", "before gst",
    "without tax", "taxable", "summe netto", "gesamt netto", "gesamtbetrag netto", "netto", "hors taxes", "sin iva",
    "rounding adjustment", "tendered", "change", "supplies",
)  # fmt: skip

#: Ready-made rules by the name of their set.
FIELD_SETS: dict[str, tuple[FieldRule, ...]] = {
    "receipt": (
        FieldRule("company", kind="company"),
        FieldRule("date", _DATE_LABELS, "date", needs_label=False, not_labels=("due date", "delivery date")),
        FieldRule("address", kind="address"),
        FieldRule("total", _TOTAL_LABELS, "amount", prefer="largest", needs_label=False, not_labels=_NOT_TOTALS),
    ),
    "invoice": (
        FieldRule("supplier", kind="company"),
        FieldRule("supplier_address", kind="address"),
        FieldRule(
            "number",
            (
                "invoice number", "invoice no", "invoice num", "invoice nr", "invoice id", "tax invoice no",
                "inv no", "bill no", "bill number", "rechnungsnummer", "rechnungs nr", "rechnung nr", "rechnungsnr",
                "re nr", "belegnummer", "numéro de facture", "n° de facture", "facture n°", "facture no",
                "numéro facture", "número de factura", "nº de factura", "n° factura", "factura nº", "factura no",
                "num factura", "numero fattura", "factuurnummer", "invoice", "rechnung", "facture", "factura",
            ),
            "code",
            not_labels=("invoice date", "date de facture", "fecha de factura", "invoice total", "total factura"),
        ),
        FieldRule("date", _DATE_LABELS, "date", needs_label=False, not_labels=("due date", "delivery date")),
        FieldRule(
            "due_date",
            (
                "due date", "payment due", "date due", "pay by", "due by", "payable by", "fälligkeitsdatum",
                "fällig am", "zahlbar bis", "fälligkeit", "date d'échéance", "échéance", "fecha de vencimiento",
                "vencimiento", "scadenza", "vervaldatum", "due",
            ),
            "date",
        ),
        FieldRule(
            "order_number",
            (
                "order number", "order no", "purchase order", "po number", "po no", "your order", "bestellnummer",
                "auftragsnummer", "bestell nr", "auftrags nr", "numéro de commande", "commande n°", "n° de commande",
                "número de pedido", "nº de pedido", "pedido",
            ),
            "code",
        ),
        FieldRule(
            "customer_number",
            (
                "customer number", "customer no", "customer id", "account number", "account no", "client no",
                "kundennummer", "kunden nr", "kd nr", "numéro client", "n° client", "code client",
                "número de cliente", "nº de cliente", "cliente nº",
            ),
            "code",
        ),
        FieldRule(
            "net",
            (
                "sub total", "subtotal", "net amount", "total net", "total excluding", "total excl", "amount excluding",
                "nettobetrag", "zwischensumme", "nettosumme", "summe netto", "gesamt netto", "netto", "total ht",
                "montant ht", "sous total", "total hors taxes", "base imponible", "subtotal sin iva", "imponibile",
            ),
            "amount",
            prefer="last",
        ),
        FieldRule(
            "tax",
            (
                "total vat", "total gst", "total tax", "vat amount", "tax amount", "gst amount", "sales tax", "vat",
                "gst", "tax", "mehrwertsteuer", "umsatzsteuer", "mwst", "ust", "montant tva", "total tva", "tva",
                "cuota iva", "total iva", "importe iva", "iva", "btw",
            ),
            "amount",
            prefer="last",
            not_labels=(
                "incl", "including", "inclusive", "excl", "excluding", "exclusive", "before tax", "vat no", "vat id",
                "vat reg", "gst no", "gst reg", "gst id", "tax id", "ust id", "ust idnr", "no iva", "sin iva",
                "base imponible", "netto", "brutto",
            ),
        ),
        FieldRule("total", _TOTAL_LABELS, "amount", prefer="largest", not_labels=_NOT_TOTALS),
        FieldRule("iban", ("iban", "bank account", "konto"), "iban", needs_label=False),
        FieldRule(
            "bic", ("bic", "swift", "swift code", "bic swift", "swift bic"), "text",
            pattern=r"\b([A-Z]{6}[A-Z0-9]{2}(?:[A-Z0-9]{3})?)\b",
        ),
        FieldRule(
            "vat_id",
            (
                "vat reg no", "vat registration", "vat number", "vat no", "vat id", "gst reg no", "gst id no", "gst id",
                "gst no", "tax id", "ust idnr", "ust id nr", "ust id", "umsatzsteuer id", "steuernummer", "steuer nr",
                "tva intracommunautaire", "n° tva", "numéro de tva", "siret", "nif", "cif", "partita iva", "p iva",
                "btw nummer", "vat", "tva",
            ),
            "code",
            pattern=(
                r"\b([A-Z]{2,3} ?[A-Z0-9]{2,4}(?:[ .]?[0-9]{2,4}){2,3}[A-Z0-9]{0,3}|[0-9][0-9 /.-]{7,14}[0-9]|"
                r"[A-Z]-?[0-9]{8}|[0-9]{8}-?[A-Z])\b"
            ),
        ),
        FieldRule("email", ("e-mail", "email", "mail", "courriel", "correo"), "email", needs_label=False),
        FieldRule("phone", ("phone", "tel", "telephone", "telefon", "téléphone", "teléfono", "tel no"), "phone"),
    ),
}  # fmt: skip
