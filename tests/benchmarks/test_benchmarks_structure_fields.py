"""The measures of fields, against cases that were counted by hand."""

from __future__ import annotations

from benchmarks.text.ocr_scores import Count
from benchmarks.text.structure_fields import score_links, score_values

A, B, C, D = ((float(x), 0.0, x + 10.0, 10.0) for x in (0, 100, 200, 300))


def test_links_that_meet_count_once() -> None:
    # Half as wide again: an IoU of 2/3. Twice as wide and more: less than 1/2.
    wide, wider = (100.0, 0.0, 115.0, 10.0), (100.0, 0.0, 125.0, 10.0)
    assert score_links([(A, B), (C, D)], [(A, wide), (A, B), (C, B)]) == Count(right=1, truth=2, found=3)
    assert score_links([(A, B)], [(A, wide)]).right == 1
    assert score_links([(A, B)], [(A, wider)]).right == 0
    # A key is not a value.
    assert score_links([(A, B)], [(B, A)]).right == 0


def test_values_of_receipts() -> None:
    wanted = {"company": "A B SDN BHD", "date": "1/2/2018", "total": "5.00", "address": "12, LANE."}
    found = {"company": "a b sdn bhd", "date": "01/02/2018", "address": "12 Lane"}
    assert score_values(wanted, found) == {
        "company": (True, True),
        "date": (False, False),
        "total": (False, False),
        "address": (False, True),
    }
