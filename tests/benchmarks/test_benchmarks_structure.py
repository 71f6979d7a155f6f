"""The measures of the structure of pages, against cases that were counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.text.ocr_scores import Count
from benchmarks.text.structure_adjacency import TextCell, relations_of, score_relations
from benchmarks.text.structure_forms import count_found
from benchmarks.text.structure_tables import read_truth

# A is the head of two columns, and below D there is an empty cell:
#
#   A   A   B
#   C   D   E
#   F       G
CELLS = [
    TextCell(0, 0, 0, 1, "A"),
    TextCell(0, 0, 2, 2, "B"),
    TextCell(1, 1, 0, 0, "C"),
    TextCell(1, 1, 1, 1, "D"),
    TextCell(1, 1, 2, 2, "E"),
    TextCell(2, 2, 0, 0, "F"),
    TextCell(2, 2, 1, 1, " "),
    TextCell(2, 2, 2, 2, "G."),
]
RIGHT = [("a", "b"), ("c", "d"), ("d", "e"), ("f", "g")]
BELOW = [("a", "c"), ("a", "d"), ("b", "e"), ("c", "f"), ("e", "g")]


def test_relations_are_those_counted_by_hand():
    wanted = [(*pair, "right") for pair in RIGHT] + [(*pair, "below") for pair in BELOW]
    assert sorted(relations_of(CELLS)) == sorted(wanted)


def test_tables_that_are_missed_and_invented_cost():
    wanted = relations_of(CELLS)
    found = [*relations_of(cell for cell in CELLS if cell.text != "D"), ("x", "y", "right")]
    # c-e took the place of c-d and d-e, and a-d is lost; x-y is invented.
    score = score_relations(wanted, found)
    assert score == Count(right=6, truth=9, found=8)
    assert (score.precision, score.recall, score.f1) == pytest.approx((6 / 8, 6 / 9, 12 / 17))
    assert score_relations([], []).f1 == 0


def test_texts_that_were_read_may_differ_by_a_fifth():
    wanted, found = [("numbers", "12345", "right")], [("nunbers", "12345", "right")]
    assert score_relations(wanted, found).right == 0
    assert score_relations(wanted, found, fuzzy=True).right == 1
    assert score_relations([("ab", "c", "right")], [("ad", "c", "right")], fuzzy=True).right == 0


def test_truth_is_read_with_its_spans(tmp_path: Path):
    cells = "".join(
        f'<cell start-row="{cell.top}" end-row="{cell.bottom}" start-col="{cell.left}" end-col="{cell.right}">'
        f"<content>{cell.text}</content></cell>"
        for cell in CELLS
    )
    file = tmp_path / "one-str.xml"
    file.write_text(f"<document><table><region>{cells}</region><region>{cells}</region></table></document>")
    assert sorted(read_truth(file)) == sorted(2 * relations_of(CELLS))


def test_found_boxes_are_counted_by_label():
    labelled = [
        ("table", (0.0, 0.0, 10.0, 10.0)),
        ("other", (20.0, 0.0, 30.0, 10.0)),
        ("other", (40.0, 0.0, 50.0, 10.0)),
    ]
    found = [(0.0, 0.0, 10.0, 8.0), (20.0, 0.0, 30.0, 4.0), (41.0, 0.0, 50.0, 10.0)]
    assert count_found(labelled, found) == {"table": 1, "other": 1, "new": 1}
    assert count_found([], found) == {"new": 3}
    assert count_found(labelled, []) == {"new": 0}
