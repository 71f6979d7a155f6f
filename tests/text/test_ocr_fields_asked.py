"""Fields extracted by rules: receipts, invoices, custom rules, and the parsing of printed values."""

from __future__ import annotations

import datetime
import random
import time
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.structure import (
    FIELD_KINDS,
    FieldRule,
    extract_fields,
    find_day_first,
    find_structure,
    find_tables,
    parse_value,
)
from ocr_field_pages import page_beside, page_of

RECEIPT = (
    "      BLUE HARBOUR TRADING SDN BHD (734512-K)",
    "          NO. 8, JALAN KENARI 12,",
    "        47100 PUCHONG, SELANGOR",
    "            TEL: 03-5551 2233",
    "         GST ID : 000123456789",
    "              TAX INVOICE",
    "INV NO: 20311        DATE: 23/07/2018 14:02",
    "ITEM                  QTY      TOTAL",
    "GREEN TEA 500ML         2      11.80",
    "PAPER CUPS              1     125.00",
    "TOTAL QTY:              3",
    "SUB TOTAL                     136.80",
    "T0TAL (EXCLUDING GST)         129.06",
    "TOTAL GST 6%                    7.74",
    "ROUNDING ADJUSTMENT             0.02",
    "T0TAL INCL. GST               136.82",
    "CASH                          150.00",
    "CHANGE                         13.18",
    "GST SUMMARY   AMOUNT(RM)     TAX(RM)",
    "TOTAL            129.06         7.74",
)


def values_of(lines: tuple[str, ...], rules: str | list[FieldRule]) -> dict[str, str]:
    return {field.name: field.value for field in extract_fields(page_of(*lines), rules)}


def test_receipt_fields_are_extracted() -> None:
    assert values_of(RECEIPT, "receipt") == {
        "company": "BLUE HARBOUR TRADING SDN BHD",
        "date": "23/07/2018",
        "address": "NO. 8, JALAN KENARI 12, 47100 PUCHONG, SELANGOR",
        "total": "136.82",
    }


def test_fields_have_the_words_of_key_and_value() -> None:
    page = page_of(*RECEIPT)
    total = {field.name: field for field in extract_fields(page, "receipt")}["total"]
    assert [page.texts[word] for word in total.value_words] == ["136.82"]
    assert [page.texts[word] for word in total.key_words][:1] == ["T0TAL"]
    assert 0.5 < total.confidence <= 1


@pytest.mark.parametrize("cash", [False, True])
def test_cash_is_not_the_total(cash: bool) -> None:
    """Cash is more than the total, and is printed below it. With change, the difference is the amount due."""
    lines = ["CORNER SHOP", "MILK      2.40", "TOTAL     2.40", "CASH      5.00", *(["CHANGE    2.60"] if cash else [])]
    assert values_of(tuple(lines), "receipt")["total"] == "2.40"


@pytest.mark.parametrize(
    ("cash", "change", "total"), [("20.00", "11.45", "8.55"), ("8.55", ".00", "8.55"), ("20.00", "9.00", "8.53")]
)
def test_the_total_is_rounded_as_it_was_paid(cash: str, change: str, total: str) -> None:
    """Cash is rounded to 5 cents. A difference that is no rounding (11.00) decides nothing."""
    lines = (
        "CORNER SHOP",
        "MILK       8.53",
        "TOTAL      8.53",
        "ROUNDED    8.55",
        f"CASH    {cash}",
        f"CHANGE    {change}",
    )
    assert values_of(lines, "receipt")["total"] == total


@pytest.mark.parametrize(
    ("top", "company"),
    [
        (("Big Fun", "Fun'n Play Mall", "Play Marketing Sdn Bhd (616227-D)"), "Play Marketing Sdn Bhd"),
        (("buy class", "shop@corner", "Muster & Söhne GmbH"), "Muster & Söhne GmbH"),
        (("CORNER CAFE", "KG.BATU"), "CORNER CAFE"),
        (("Muster und Söhne", "Rechnung an: Beispiel GmbH"), "Muster und Söhne"),
    ],
)
def test_a_name_with_a_legal_form_is_the_companys(top: tuple[str, ...], company: str) -> None:
    lines = (*top, "12, Long Street, 50450 Town", "Tel: 03-2163 2706", "TOTAL    2.40")
    assert values_of(lines, "receipt")["company"] == company


@pytest.mark.parametrize("after", ["TAXINVOICE", "T: 03-2093 7358 | F: 03-2093 7359"])
def test_an_address_ends_before_what_is_no_part_of_it(after: str) -> None:
    lines = ("BLUE HARBOUR SDN BHD", "Lot 6, Jalan Batai,", "50490 Kuala Lumpur", after, "TOTAL    2.40")
    assert values_of(lines, "receipt")["address"] == "Lot 6, Jalan Batai, 50490 Kuala Lumpur"


# For each language: the labels of number, date, due date, net, tax and total, and a date.
INVOICES = {
    "en": ("Invoice No", "Invoice date", "Due date", "Subtotal", "VAT 20%", "Total due", "20 March 2024"),
    "de": ("Rechnungsnummer", "Rechnungsdatum", "Fällig am", "Nettobetrag", "MwSt. 19 %", "Gesamtbetrag",
           "20. März 2024"),
    "fr": ("Facture n°", "Date de facture", "Échéance", "Total HT", "TVA 20 %", "Total TTC", "20 mars 2024"),
    "es": ("Factura nº", "Fecha de factura", "Vencimiento", "Base imponible", "IVA 21%", "Importe total",
           "20 de marzo de 2024"),
}  # fmt: skip


@pytest.mark.parametrize("below", [False, True], ids=["right", "below"])
@pytest.mark.parametrize("language", list(INVOICES))
def test_invoice_fields_are_extracted(language: str, below: bool) -> None:
    number, date, due, net, tax, total, day = INVOICES[language]
    if below:
        head = (f"{number:26}{date:26}{due}", f"{'RE-2024/117':26}{day:26}19.04.2024")
    else:
        head = (f"{number}: RE-2024/117", f"{date}: {day}", f"{due}: 19.04.2024")
    lines = (
        "Weber & Sons GmbH", "12 Harbour Street, 20457 Hamburg", "", *head, "",
        f"{net:30}1.000,00", f"{tax:31}190,00", f"{total:30}1.190,00", "", "IBAN DE89 3704 0044 0532 0130 00",
        "mail@weber-sons.example",
    )  # fmt: skip
    values = values_of(lines, "invoice")
    wanted = {
        "supplier": "Weber & Sons GmbH",
        "number": "RE-2024/117",
        "date": day,
        "due_date": "19.04.2024",
        "net": "1.000,00",
        "tax": "190,00",
        "total": "1.190,00",
        "iban": "DE89 3704 0044 0532 0130 00",
        "email": "mail@weber-sons.example",
    }
    assert {name: values.get(name) for name in wanted} == wanted
    assert parse_value("date", values["date"]) == datetime.date(2024, 3, 20)


LEFT = ("Weber & Sons GmbH", "12 Harbour Street", "20457 Hamburg", "Germany")
RIGHT = ("Bluebird Trading Ltd", "48 Station Road", "Leeds LS1 4DY", "United Kingdom")
BODY = ("", "", "Invoice No: RE-2024/117", "Invoice date: 20 March 2024")


# The right address is level with the left one, between its lines, or higher.
@pytest.mark.parametrize("shift", [0.0, 0.3, 0.5, -0.5])
@pytest.mark.parametrize("head", [(), ("Bill to:",)], ids=["no heading", "heading"])
def test_adjacent_addresses_are_separate(shift: float, head: tuple[str, ...]) -> None:
    page = page_beside((*LEFT, *BODY), (*head, *RIGHT), shift - len(head))
    values = {field.name: field.value for field in extract_fields(page, "invoice")}
    assert values["supplier"] == "Weber & Sons GmbH"
    assert values["supplier_address"] == "12 Harbour Street 20457 Hamburg Germany"
    assert values["number"] == "RE-2024/117"
    assert not find_tables(page)
    texts = [" ".join(page.texts[word] for word in region.words) for region in find_structure(page).regions]
    own = texts.index(" ".join(LEFT))
    assert texts[own + 1].endswith(" ".join(RIGHT)), "the other address comes next, with its own lines only"


def test_address_headed_as_a_customers_is_not_the_suppliers() -> None:
    page = page_beside(("Bill to:", *RIGHT, *BODY), LEFT, 1.5)
    values = {field.name: field.value for field in extract_fields(page, "invoice")}
    assert values["supplier"] == "Weber & Sons GmbH"
    assert values["supplier_address"] == "12 Harbour Street 20457 Hamburg Germany"


def test_columns_of_words_and_years_are_a_table() -> None:
    """Its texts are as short as the lines of addresses, and as many of them have numbers."""
    rows = [("City", "Country"), ("Hamburg 2001", "Germany"), ("Leeds 2004", "England"), ("Lyon 2011", "France")]
    (table,) = find_tables(page_of(*(f"{city:40}{country}" for city, country in rows)))
    assert (table.num_rows, table.num_cols) == (4, 2)


def test_custom_rules_extract_fields() -> None:
    lines = ("Projekt: Brücke Nord   Kennung: K-00421", "Betreuer", "Ada Byron", "Ref K-99999")
    rules = [
        FieldRule("project", ("Project", "Projekt")),
        FieldRule("mark", ("Kennung",), pattern=r"k-(\d{5})"),
        FieldRule("tutor", ("Betreuer",), where="below"),
        FieldRule("last", pattern=r"K-\d+", needs_label=False, prefer="last"),
        FieldRule("missing", ("Faxnummer",), kind="phone"),
    ]
    assert values_of(lines, rules) == {
        "project": "Brücke Nord",
        "mark": "00421",
        "tutor": "Ada Byron",
        "last": "K-99999",
    }
    # ``where`` selects the side, and the first matching rule of a name counts.
    assert values_of(lines, [FieldRule("tutor", ("Betreuer",), where="right")]) == {}
    assert values_of(lines, [FieldRule("a", ("Nada",)), FieldRule("a", ("Projekt",))]) == {"a": "Brücke Nord"}


def test_misread_labels_are_found() -> None:
    rule = [FieldRule("total", ("Total amount",), "amount")]
    for printed in ("T0TAL AMOUNT", "Total Arnount", "TOTALAMOUNT:", "Total amourt"):
        assert values_of((f"{printed}   12.50",), rule) == {"total": "12.50"}, printed
    for other in ("Total account due by", "Amount", "Local amulet"):
        assert values_of((f"{other}   12.50",), rule) == {}, other


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": ""}, "name"),
        ({"name": "a", "labels": ("A",), "kind": "colour"}, "colour"),
        ({"name": "a", "labels": "Total"}, "several texts"),
        ({"name": "a", "labels": 5}, "several texts"),
        ({"name": "a"}, "needs labels, a pattern or a kind"),
        ({"name": "a", "labels": ("A",), "where": "left"}, "left"),
        ({"name": "a", "pattern": "(["}, "not a regular expression"),
        ({"name": "a", "pattern": 5}, "as text"),
        ({"name": "a", "pattern": "(" * 3000}, "not a regular expression"),
    ],
)
def test_invalid_rules_are_rejected(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        FieldRule(**arguments)  # type: ignore[arg-type]


def test_error_names_an_unknown_set() -> None:
    with pytest.raises(InvalidArgumentError, match=r"'letter'.*receipt, invoice"):
        extract_fields(page_of("a"), "letter")
    with pytest.raises(InvalidArgumentError, match="fields has None"):
        extract_fields(page_of("a"), None)  # type: ignore[arg-type]


def test_patterns_can_use_all_of_re() -> None:
    rule = FieldRule("a", pattern=r"(\w)\1+-(?>\d+)", needs_label=False)
    assert values_of(("x-12", "aab aa-345"), [rule]) == {"a": "a"}
    long = FieldRule("a", pattern=r"\d+$", needs_label=False)
    assert values_of(("1" * 5000,), [long]) == {"a": "1" * 200}, "200 characters of a line are looked at"


@pytest.mark.parametrize("lines", [(), ("",), ("Total",), ("12.50",), (":",), ("\u200b \u0301",)])
def test_nearly_empty_pages_have_no_fields(lines: tuple[str, ...]) -> None:
    for rules in ("receipt", "invoice"):
        for field in extract_fields(page_of(*lines), rules):
            assert field.value in lines[0]


def test_time_is_bounded_for_ten_thousand_words() -> None:
    rng = random.Random(0)
    words = ["Total", "Invoice", "No", "12.50", "03/04/2024", "Date:", "amount", "x", "Rechnung", "7"]
    page = page_of(*(" ".join(rng.choices(words, k=20)) for _ in range(500)))
    assert len(page.texts) == 10_000
    before = time.process_time()
    found = extract_fields(page, ["receipt", "invoice"])
    # Some seconds; far less than reading them takes.
    assert time.process_time() - before < 15
    assert {"total", "date"} <= {field.name for field in found}


AMOUNTS = [
    ("1,234.56", "1234.56"), ("1.234,56 €", "1234.56"), ("1 234,56", "1234.56"), ("1'234.50", "1234.50"),
    ("RM3.00", "3.00"), ("$ 8.20", "8.20"), ("-5,00", "-5.00"), ("(12.00)", "-12.00"), ("12.00-", "-12.00"),
    ("1.234.567", "1234567"), ("12,5", "12.5"), ("1,000", "1000"), ("Rs. 500", "500"),
    ("\u20135,00 €", "-5.00"), ("CHF 25.-", "25"), ("25:-", "25"), ("$.50", "0.50"), ("Fr.50", "50"),
    ("0.125", "0.125"), ("1234.567", "1234.567"), ("₹1,00,000.50", "100000.50"),
]  # fmt: skip


@pytest.mark.parametrize(("printed", "meant"), AMOUNTS)
def test_amounts_are_parsed(printed: str, meant: str) -> None:
    assert parse_value("amount", printed) == Decimal(meant)


@pytest.mark.parametrize("printed", ["\u20135,00 €", "₹1,00,000.00", "Rs. 12,34,567"])
def test_amounts_are_extracted_as_printed(printed: str) -> None:
    rule = FieldRule("total", ("Total",), "amount")
    assert [field.value for field in extract_fields(page_of(f"Total: {printed}"), rule)] == [printed]


DATES = [
    ("2024-03-04", (2024, 3, 4)), ("04.03.2024", (2024, 3, 4)), ("4/3/24", (2024, 3, 4)), ("03/25/2024", (2024, 3, 25)),
    ("4. März 2024", (2024, 3, 4)), ("14 MAR 2018", (2018, 3, 14)), ("March 4th, 2024", (2024, 3, 4)),
    ("4 août 1999", (1999, 8, 4)), ("4 de enero de 2024", (2024, 1, 4)), ("05-02-70", (1970, 2, 5)),
    ("2024 Dec 31", (2024, 12, 31)),
]  # fmt: skip


@pytest.mark.parametrize(("printed", "meant"), DATES)
def test_dates_are_parsed(printed: str, meant: tuple[int, int, int]) -> None:
    assert parse_value("date", printed) == datetime.date(*meant)
    assert values_of((f"Date: {printed}",), "receipt")["date"] == printed


@pytest.mark.parametrize(
    ("printed", "month"),
    [("mar 5 nov 2024", 11), ("Mar. 05/11/2024", 11), ("mar 5 mar 2024", 3), ("Mar 5, 2024", 3), ("mar 5 24 10:30", 3)],
)
def test_mar_before_a_whole_date_is_a_tuesday(printed: str, month: int) -> None:
    assert parse_value("date", printed) == datetime.date(2024, month, 5)


@pytest.mark.parametrize("value", [None, 5, 1.5, b"5", ["5"]])
def test_parse_value_refuses_values_that_are_not_text(value: Any) -> None:
    for kind in FIELD_KINDS:
        with pytest.raises(InvalidArgumentError, match=r"value is .* accepted: the printed value, a str"):
            parse_value(kind, value)


def test_parse_value_returns_none_for_other_text() -> None:
    assert parse_value("date", "31/02/2024") is None
    assert parse_value("amount", "none") is None
    for printed in ("Room 5 Floor 3", "1e5", "2 x 40", "1/2", "12-34", "5:30", "2024-03-05", "\u0661\u066b\u0665"):
        assert parse_value("number", printed) is None
    assert parse_value("date", "3.5.2") is None
    assert parse_value("iban", "DE88 3704 0044 0532 0130 00") is None
    assert parse_value("iban", "DE89 3704 0044 0532 0130 00") == "DE89370400440532013000"
    assert [parse_value(kind, "") for kind in FIELD_KINDS] == [None] * len(FIELD_KINDS)
    with pytest.raises(InvalidArgumentError, match="accepted"):
        parse_value("money", "1.00")  # type: ignore[arg-type]


def test_dates_with_huge_numbers_or_numerals_without_a_decimal_value_are_not_parsed() -> None:
    for printed in ("1/99999999999/2024", "99999999999 May 2020", "፩/፪/2024", "5 ፩፪፫ 2024"):
        assert parse_value("date", printed) is None
        values_of((f"Date: {printed}",), "receipt")  # the text of a file must not raise an error


def test_order_of_days_and_months_is_found() -> None:
    assert find_day_first(["03/04/2024", "25/12/2023"]) is True
    assert find_day_first(["03/04/2024", "12/25/2023"]) is False
    assert find_day_first(["03/04/2024", "2024-25-12", "1.2.3.4"]) is None
    assert parse_value("date", "03/04/2024", day_first=False) == datetime.date(2024, 3, 4)


def test_confidence_depends_on_the_words() -> None:
    page = page_of("Total: 12.50")
    poor = page_of("Total: 12.50")
    poor.confidences[:] = 0.3
    rule = FieldRule("total", ("Total",), "amount")
    sure, unsure = (extract_fields(which, rule)[0].confidence for which in (page, poor))
    assert unsure == pytest.approx(0.3 * sure, abs=1e-3)
    assert np.isfinite(sure)
