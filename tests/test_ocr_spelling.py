"""Characters that a network is in doubt about: what fits in with the rest of the word, and what must stay."""

from __future__ import annotations

import math

import pytest

from mediatensor.ocr.models._lines import is_spelled, spelled


def decided(line: str, doubts: dict[int, dict[str, float]]) -> str:
    """``line`` as it is spelled if the characters at some places have these probabilities, and all others 0.99."""
    confidences = [doubts[place][value] if place in doubts else 0.99 for place, value in enumerate(line)]
    likely = {place: [(value, math.log(share)) for value, share in own.items()] for place, own in doubts.items()}
    return "".join(spelled(list(line), confidences, likely))


@pytest.mark.parametrize(
    ("line", "place", "other", "meant"),
    [
        ("messago", 6, "e", "message"),
        ("INVDICE NO", 3, "O", "INVOICE NO"),
        ("ltem", 0, "I", "Item"),
        ("Fotal 3", 0, "T", "Total 3"),
        ("Tax<RM)", 3, "(", "Tax(RM)"),
        ("Total: 1O4.50", 8, "0", "Total: 104.50"),
        ("12.0l.2024", 4, "1", "12.01.2024"),
        ("G5T ID", 1, "S", "GST ID"),
        ("AVENuE", 4, "U", "AVENUE"),
        ("möglichkcit", 8, "e", "möglichkeit"),
    ],
)
def test_a_doubtful_character_becomes_what_fits_in(line: str, place: int, other: str, meant: str) -> None:
    assert decided(line, {place: {line[place]: 0.5, other: 0.35}}) == meant
    # The same word, clearly seen; or the other character hardly.
    assert decided(line, {place: {line[place]: 0.92, other: 0.07}}) == line
    assert decided(line, {place: {line[place]: 0.8, other: 0.002}}) == line


@pytest.mark.parametrize(
    ("line", "place", "other"),
    [
        ("A0O1", 2, "0"),  # the number of a part: letters and digits
        ("X5S", 2, "5"),
        ("anna1@example.com", 4, "l"),  # an address
        ("O", 0, "0"),  # a word that has nothing else
        ("U.S", 1, ","),  # stops stand for each other nearly everywhere
        ("漢字O", 2, "0"),  # letters that were not counted
    ],
)
def test_a_word_that_does_not_say_stays(line: str, place: int, other: str) -> None:
    assert decided(line, {place: {line[place]: 0.5, other: 0.45}}) == line


def test_two_doubts_are_decided_together() -> None:
    assert decided("lnvolce", {0: {"l": 0.5, "I": 0.4}, 5: {"c": 0.6, "o": 0.3}, 4: {"l": 0.5, "i": 0.4}}) == "Invoice"


def test_only_latin_letters_digits_and_plain_signs_take_part() -> None:
    assert all(map(is_spelled, "aZéßł09$%&"))
    assert not any(map(is_spelled, ["\u041e", "Σ", "漢", "\uff1a", " ", "→", "ab"]))
