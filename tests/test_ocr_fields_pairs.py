"""Keys and values of forms that nobody named: pairs by their places and looks."""

from __future__ import annotations

import random
import time

import pytest

from mediatensor.ocr.structure import find_fields
from ocr_field_pages import page_of


def pairs_of(*lines: str, **options: list[list[float]]) -> set[tuple[str, str]]:
    return {(field.key, field.value) for field in find_fields(page_of(*lines, **options))}


def test_values_beside_their_keys() -> None:
    pairs = pairs_of(
        "Name: Ada Lovelace     Date: 10/12/1815",
        "",
        "Company:     Analytical Engines",
        "",
        "Fax No.      305 400-6107",
    )
    assert pairs == {
        ("Name:", "Ada Lovelace"),
        ("Date:", "10/12/1815"),
        ("Company:", "Analytical Engines"),
        ("Fax No.", "305 400-6107"),
    }


def test_dots_lead_to_values() -> None:
    assert pairs_of("Amount: ........ 12.50", "", "Total ________ $40.00") == {
        ("Amount:", "12.50"),
        ("Total", "$40.00"),
    }


def test_a_value_of_several_lines() -> None:
    pairs = pairs_of(
        "Address:   12 Harbour Street", "           Springfield", "           Ohio", "", "Fax:       12-34-56"
    )
    assert pairs == {("Address:", "12 Harbour Street Springfield Ohio"), ("Fax:", "12-34-56")}


def test_a_value_below_its_key() -> None:
    assert pairs_of("CHARGEBACK:", "4162/158") == {("CHARGEBACK:", "4162/158")}


def test_a_key_without_a_value_takes_none() -> None:
    assert pairs_of("Name:          Date: 10/12/1815") == {("Date:", "10/12/1815")}


@pytest.mark.parametrize("lines", [(), ("",), ("word",), ("Name:",), (":",), ("____",), ("x",), ("\u200b",)])
def test_next_to_nothing(lines: tuple[str, ...]) -> None:
    assert pairs_of(*lines) == set()


def test_words_and_confidences() -> None:
    page = page_of("Name: Ada Lovelace")
    (field,) = find_fields(page)
    assert (field.name, field.key_words, field.value_words) == ("", (0,), (1, 2))
    assert 0.5 < field.confidence <= 1


def test_twenty_thousand_words() -> None:
    rng = random.Random(0)
    words = ["Total:", "Invoice", "No", "12.50", "03/04/2024", "  ", "amount", "x", "___", "7"]
    page = page_of(*(" ".join(rng.choices(words, k=22)) for _ in range(1000)))
    assert len(page.texts) > 19_000
    before = time.process_time()
    find_fields(page)
    assert time.process_time() - before < 60
