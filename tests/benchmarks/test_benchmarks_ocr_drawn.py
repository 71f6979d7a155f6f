"""Pages of the OCR benchmarks: the ink is where the truth says, numbers keep their rules, tables agree."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("matplotlib", reason="faces are looked up by matplotlib")

from benchmarks.text import ocr as ocr_benchmark
from benchmarks.text.ocr_by_language import LEAST_WORDS, LanguagePage, LanguageRow, languages_table, measure
from benchmarks.text.ocr_drawn import Look, find_face
from benchmarks.text.ocr_holes import draw_page, lost
from benchmarks.text.ocr_holes import measure as measure_holes
from benchmarks.text.ocr_languages import TEXTS
from benchmarks.text.ocr_numbers import KINDS, InvoicePage, Value, draw_invoice, numbers_table, score_values
from benchmarks.text.ocr_scores import Word

from mediatensor.ocr.models import ocr_predictor, ppocr_v6_small_reco
from ocr_onnx_sessions import require_weights
from ocr_reading import reader

SANS = find_face("DejaVuSans")
assert SANS is not None
ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def remainder_of_97(number: str) -> int:
    """Digit by digit, as one does it by hand."""
    rest = 0
    for character in number[4:] + number[:4]:
        for digit in str("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ".index(character)):
            rest = (10 * rest + int(digit)) % 97
    return rest


def test_invoices_keep_the_rules() -> None:
    page, values = draw_invoice(Look(SANS, 16, seed=3))
    assert {value.kind for value in values} == set(KINDS)
    assert all(remainder_of_97(value.text.replace(" ", "")) == 1 for value in values if value.kind == "IBAN")
    assert all(value.text.count("@") == 1 for value in values if value.kind == "e-mail")
    again = draw_invoice(Look(SANS, 16, seed=3))
    assert again[1] == values
    assert (again[0].image == page.image).all()
    height, width = page.image.shape[:2]
    for value in values:
        x0, y0, x1, y1 = map(int, value.box)
        assert 0 <= x0 < x1 <= width
        assert 0 <= y0 < y1 <= height
        assert (page.image[y0:y1, x0:x1] < 128).any()
    for one, other in itertools.combinations(values, 2):
        a, b = one.box, other.box
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (one, other)


def test_values_are_exact_or_not() -> None:
    values = (Value("IBAN", "DE89 3704", (10, 10, 90, 20)), Value("amount", "1.50", (10, 40, 50, 50)))
    found = [Word("3704", (60, 10, 90, 20)), Word("DE89", (10, 10, 50, 20)), Word("1,50", (10, 40, 50, 50))]
    assert [text for _, text in score_values(values, found)] == ["DE89 3704", "1,50"]
    table, document = numbers_table([InvoicePage(Path("x"), "Face", values)], [found])
    assert "| Face | 0.0 (0/1) |  | 100.0 (1/1) |  |  |  | 50.0 (1/2) |" in table
    assert document["mistakes"] == [{"face": "Face", "kind": "amount", "truth": "1.50", "read": "1,50"}]


def test_measures_of_a_language() -> None:
    lines = (Word("ab cd", (0, 0, 50, 10)), Word("efg hi", (0, 20, 50, 30)))
    page = LanguagePage("de", "Face", Path("x"), lines)
    # "cd" and "efg" are lost: one by a wrong letter, the other by a space within.
    found = [("ab", 0, 1), ("cx", 30, 0), ("e", 0, 20), ("fg", 10, 21), ("hi", 30, 19)]
    words = [Word(text, (x, y, x + 9, y + 10)) for text, x, y in found]
    (row,) = measure([page], [words], "abcdefghi")
    assert (row.exact, row.words, row.edits, row.characters, row.space_edits, row.spaces) == (2, 4, 1, 9, 1, 3)
    assert set(row.mistakes) == {"cd", "efg"}
    assert "ß" in row.unknown
    assert "German (not claimed) | de | 50.0 | 11.11 | 33.33 |" in languages_table([row])


def saved_rows() -> list[LanguageRow]:
    saved = json.loads((RESULTS / "ocr_languages.json").read_text(encoding="utf-8"))["languages"]
    return [
        LanguageRow(**{key: tuple(value) if isinstance(value, list) else value for key, value in row.items()})
        for row in ({key: value for key, value in row.items() if key != "is_read"} for row in saved)
    ]


def test_the_published_table_is_that_of_the_results() -> None:
    rows = saved_rows()
    assert {row.code for row in rows} == set(TEXTS)
    assert languages_table(rows) in (ROOT / "docs" / "languages.md").read_text(encoding="utf-8")


def test_claimed_languages_are_those_that_were_read() -> None:
    require_weights()
    claimed = ppocr_v6_small_reco(pretrained=True).languages
    shares = {row.code: row.exact / row.words for row in saved_rows()}
    assert len(claimed) > 40
    assert min(shares[code] for code in claimed) >= LEAST_WORDS
    page = (ROOT / "docs" / "languages.md").read_text(encoding="utf-8")
    sentence = re.search(r"It reads generated\s+pages\s+in\s+(.*?)\.\n", page, re.DOTALL)
    assert sentence is not None
    assert re.split(r", | and ", " ".join(sentence[1].split())) == sorted(claimed.values())


def test_characters_in_no_box_are_lost() -> None:
    characters = [character for character in draw_page(4, ["sans"]).characters if character.line == 0]
    assert lost(characters, []) == characters
    first, last = characters[10], characters[19]
    box = (first.x - 1, first.y - 20, last.x + 1, last.y + 20)
    assert lost(characters, [box]) == characters[:10] + characters[20:]


def test_holes_are_counted() -> None:
    require_weights()

    def cut(pages: list[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        """Boxes end in the middle of the page."""
        return [np.concatenate([np.minimum(boxes[:, :4], [[0.5, 1, 0.5, 1]]), boxes[:, 4:]], axis=1) for boxes in pages]

    whole = reader(shorter_side=320)
    sums, holes = measure_holes(whole, [4], ["sans"])
    assert (sums["all", "all"].lost, sums["all", "all"].unread, holes) == (0, 0, [])
    half = ocr_predictor(pretrained=True, shorter_side=320)
    half.add_hook(cut)
    sums, holes = measure_holes(half, [4], ["sans"])
    assert 0.3 < sums["all", "all"].lost / sums["all", "all"].drawn < 0.6
    assert {hole["picture"] for hole in holes} == {"single lines"}


@pytest.mark.slow
def test_no_characters_vanish(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require_weights()
    ocr_benchmark.main(["--holes", "--quick", "-o", str(tmp_path)])
    document = json.loads((tmp_path / "ocr_holes.json").read_text(encoding="utf-8"))
    counts = document["counts"]["all"]["all"]
    assert counts["drawn"] > 1000
    assert counts["lost"] == 0, document["holes"]
    assert f"| all | {counts['drawn']} | 0 | 0.0 |" in capsys.readouterr().out


@pytest.mark.slow
def test_languages_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require_weights()
    ocr_benchmark.main(["--languages", "sv", "--limit", "1", "--side", "640", "-o", str(tmp_path)])
    (row,) = json.loads((tmp_path / "ocr_languages.json").read_text(encoding="utf-8"))["languages"]
    assert row["code"] == "sv"
    assert row["is_read"]
    assert row["exact"] / row["words"] > 0.93
    assert "| Swedish | sv |" in capsys.readouterr().out
