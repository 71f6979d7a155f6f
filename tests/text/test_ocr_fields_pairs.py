"""Keys and values of forms, paired by position and appearance, without rules for fields."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import numpy as np
import pytest

from mediatensor.ocr.structure import find_fields
from ocr_field_pages import page_of


def pairs_of(*lines: str, **options: list[list[float]]) -> set[tuple[str, str]]:
    return {(field.key, field.value) for field in find_fields(page_of(*lines, **options))}


PAIRED: dict[str, tuple[str, set[tuple[str, str]]]] = {
    "values right of keys": (
        "Name: Ada Lovelace     Date: 10/12/1815\n\nCompany:     Analytical Engines\n\nFax No.      305 400-6107",
        {
            ("Name:", "Ada Lovelace"),
            ("Date:", "10/12/1815"),
            ("Company:", "Analytical Engines"),
            ("Fax No.", "305 400-6107"),
        },
    ),
    "leaders are left out": (
        "Amount: ........ 12.50\n\nTotal ________ $40.00",
        {("Amount:", "12.50"), ("Total", "$40.00")},
    ),
    "a value of several lines": (
        "Address:   12 Harbour Street\n           Springfield\n           Ohio\n\nFax:       12-34-56",
        {("Address:", "12 Harbour Street Springfield Ohio"), ("Fax:", "12-34-56")},
    ),
    "a value below its key": ("CHARGEBACK:\n4162/158", {("CHARGEBACK:", "4162/158")}),
    "a key without a value": ("Name:          Date: 10/12/1815", {("Date:", "10/12/1815")}),
    "heads of columns": (
        "Item        Quantity      Price\n\nPaper              5      11.80\n\nInk               12      99.10",
        {
            ("Item", "Paper"),
            ("Item", "Ink"),
            ("Quantity", "5"),
            ("Quantity", "12"),
            ("Price", "11.80"),
            ("Price", "99.10"),
        },
    ),
    # The same positions as in a table of two columns, but with colons at the values.
    "a list row by row": (
        "Brand        : Blue Harbour\nColour       : Green\nCirculation  : 1,200\nTheme        : Sea",
        {("Brand", "Blue Harbour"), ("Colour", "Green"), ("Circulation", "1,200"), ("Theme", "Sea")},
    ),
    "columns of addresses are no table": (
        "200 Park Lane       12 Main Street\nSpringfield 3       Ogdenville 4\n\nDate: 1/2/1999",
        {("Date:", "1/2/1999")},
    ),
    "a cross beside its text": ("X Approved         Rejected", {("Approved", "X")}),
    "answers below a heading": (
        "Delivery:\n☑ Express\n☐ Standard\n\nName: Ada",
        {("Express", "☑"), ("Name:", "Ada")},
    ),
    "boxes between words": ("Yes ☐ No ☑", {("No", "☑")}),
    "a number far from an empty box": ("☐                    12.50", set()),
    "answers beside each other": ("☑ Cash    ☐ Post\n☐ Card    ☑ Courier", {("Cash", "☑"), ("Courier", "☑")}),
}


@pytest.mark.parametrize("case", PAIRED)
def test_keys_are_paired_with_their_values(case: str) -> None:
    text, pairs = PAIRED[case]
    assert pairs_of(*text.split("\n")) == pairs


@pytest.mark.parametrize("lines", [(), ("",), ("word",), ("Name:",), (":",), ("____",), ("x",), ("\u200b",)])
def test_nearly_empty_pages_have_no_pairs(lines: tuple[str, ...]) -> None:
    assert pairs_of(*lines) == set()


def test_pairs_have_words_and_confidences() -> None:
    page = page_of("Name: Ada Lovelace")
    (field,) = find_fields(page)
    assert (field.name, field.key_words, field.value_words) == ("", (0,), (1, 2))
    assert 0.5 < field.confidence <= 1


def test_time_is_bounded_for_ten_thousand_words() -> None:
    rng = random.Random(0)
    words = ["Total:", "Invoice", "No", "12.50", "03/04/2024", "  ", "amount", "x", "___", "7"]
    page = page_of(*(" ".join(rng.choices(words, k=22)) for _ in range(500)))
    assert len(page.texts) > 9_500
    before = time.process_time()
    find_fields(page)
    assert time.process_time() - before < 15


def test_labels_in_the_corner_of_boxes_are_keys() -> None:
    page = page_of("NAME", "      Ada Lovelace", "COMMENTS", "   none of them so far")
    boxed = replace(
        page,
        horizontal_rules=np.array([[-4, y, 300, y + 1] for y in (-3, 27, 57)], float),
        vertical_rules=np.array([[x, -3, x + 1, 57] for x in (-4, 300)], float),
    )
    assert {(field.key, field.value) for field in find_fields(boxed)} == {
        ("NAME", "Ada Lovelace"),
        ("COMMENTS", "none of them so far"),
    }
