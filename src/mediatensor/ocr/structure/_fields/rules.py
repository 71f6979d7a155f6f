"""What to look for on a page: a name, its printed labels, the form of its value; and sets of them for usual papers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from mediatensor.errors import InvalidArgumentError

from .values import FIELD_KINDS, FieldKind

__all__ = ["FIELD_SETS", "MAX_LINE", "FieldRule", "rules_of"]

# Lines are cut to this length before patterns are matched: the text of a page is not trusted.
MAX_LINE = 200
_WHERE = ("right", "below", "any")
_PREFERRED = ("first", "last", "largest")


@dataclass(frozen=True)
class FieldRule:
    """How to find one field of a page.

    Args:
        name: What the field is called in results.
        labels: What may be printed beside its value, the best first, in any case and with or without accents and
            punctuation. Long labels may have been misread in a letter or two. Without labels the value is found by its
            form alone.
        kind: The form of the value, one of `FIELD_KINDS`. ``"code"`` is letters and digits without spaces, such as the
            number of an invoice; ``"number"`` is one to count with. ``"company"`` without labels is the name at the
            top of the page, and ``"address"`` the lines after it.
        pattern: A regular expression that the value has to match, in any case, instead of the form of the kind. If it
            has groups, the value is the first of them that took part.
        where: Where the value stands, as seen from its label: ``"right"``, ``"below"``, or ``"any"`` of both, the right
            first.
        prefer: Which of several values that are about equally likely is taken: the ``"first"`` or ``"last"`` on the
            page, or the ``"largest"`` amount.
        needs_label: Whether a value counts only beside one of its labels. If not, a value without a label is taken
            where none has one, with less confidence.
        not_labels: What must not be in the row of the label, such as "sub total" where the total is asked for.

    Raises:
        InvalidArgumentError: An argument is unknown or of no use, or the pattern is not a regular expression.

    Note:
        Patterns are matched row by row, against the first 200 characters of each. Python's ``re`` has no time limit: a
        pattern with repetitions in repetitions, such as ``(a+)+$``, can take very long on a page that was made for it.
        Write ``a+$``, or use possessive repetitions (``(a++)+$``). Do not accept patterns from others.

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
            if isinstance(values, str) or not all(isinstance(label, str) and label.strip() for label in values):
                raise InvalidArgumentError(
                    f"{argument} of {self.name!r} is {values!r}; give several texts, such as ('Total', 'Summe')"
                )
            object.__setattr__(self, argument, tuple(values))
        if not self.labels and self.pattern is None and self.kind == "text":
            raise InvalidArgumentError(f"{self.name!r} has no labels, no pattern and no kind: nothing tells its value")
        if self.pattern is not None:
            object.__setattr__(self, "compiled", _compiled(self.name, self.pattern))


def rules_of(rules: str | FieldRule | Iterable[str | FieldRule]) -> tuple[FieldRule, ...]:
    """Rules by the names of sets, or as they are.

    Args:
        rules: `FieldRule`, or names of `FIELD_SETS`; one or several.

    Returns:
        The rules, in their order: of several with the same name the first is tried first.

    Raises:
        InvalidArgumentError: Something is neither a rule nor the name of a set.

    Example:
        >>> from mediatensor.ocr.structure import rules_of
        >>> [rule.name for rule in rules_of("receipt")]
        ['company', 'date', 'address', 'total']
    """
    if isinstance(rules, str | FieldRule):
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


def _compiled(name: str, pattern: str) -> re.Pattern[str]:
    if not isinstance(pattern, str):
        raise InvalidArgumentError(f"pattern of {name!r} is {pattern!r}; give a regular expression as text")
    try:
        return re.compile(pattern, re.IGNORECASE)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidArgumentError(f"pattern of {name!r} is {pattern!r}, no regular expression: {error}") from error


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

#: Rules that are ready-made, by the names of their sets.
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
