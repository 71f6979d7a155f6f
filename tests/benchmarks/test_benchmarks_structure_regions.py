"""The measures of regions and of their order, against cases that were counted by hand."""

from __future__ import annotations

import ast

import numpy as np
import pytest
from benchmarks.text.rules import changed, changes_of, conditions_of
from benchmarks.text.structure_regions import average_precision, count_right, in_columns, kendall_tau
from benchmarks.text.structure_rules import rule_modules

A, B = (0.0, 0.0, 10.0, 10.0), (100.0, 0.0, 110.0, 10.0)
# An IoU with A of 2/3.
WIDE = (0.0, 0.0, 15.0, 10.0)


def test_regions_count_once_and_by_kind() -> None:
    wanted = [("text", A), ("title", B)]
    found = [("text", WIDE, 0.9), ("text", A, 0.5), ("text", B, 0.9)]
    assert count_right(wanted, found) == {"text": 1}
    assert count_right(wanted, found, 0.7) == {"text": 1}
    assert count_right(wanted, found[:1], 0.7) == {}


def test_average_precision() -> None:
    wanted = [("text", A), ("text", B)]
    # A wrong one between two right ones: precision 1 up to a recall of 1/2, 2/3 beyond.
    found = [("text", A, 0.9), ("text", (50.0, 50.0, 60.0, 60.0), 0.8), ("text", B, 0.7)]
    assert average_precision([(wanted, found)], "text", 0.5) == pytest.approx((51 + 50 * 2 / 3) / 101)
    # Half of the true regions, on two pages.
    assert average_precision([([("text", A)], found[:1]), ([("text", B)], [])], "text", 0.5) == pytest.approx(51 / 101)
    assert average_precision([(wanted, [])], "text", 0.5) == 0


def test_tau() -> None:
    assert kendall_tau([0, 1, 2, 3]) == 1
    assert kendall_tau([3, 2, 1, 0]) == -1
    # One of six pairs is the wrong way round.
    assert kendall_tau([0, 2, 1, 3]) == pytest.approx(1 - 2 / 6)
    assert kendall_tau([0]) == 1


def test_words_of_two_columns() -> None:
    rows = [(450, 20, 550, 30), (50, 90, 100, 99), (600, 90, 700, 99), (50, 110, 90, 119), (60, 900, 90, 909)]
    labels = ["paragraph"] * 4 + ["footer"]
    assert in_columns(np.array(rows, float), labels, 50).tolist() == [0, 1, 3, 2, 4]


def test_conditions_are_named_with_the_value_that_leaves_them_out() -> None:
    code = ast.parse("if a > 1 and b:\n    found = [x for x in a if x] or 0.5 * small\nmask &= c | d")
    found = [(label, neutral) for node in ast.walk(code) for label, _, neutral in conditions_of(node)]
    assert sorted(found, key=str) == [
        ("0.5 * small", False), ("0.5 * small", 0.0), ("[x for x in a if x]", False), ("a > 1", True), ("b", True),
        ("c", False), ("d", False), ("if a > 1 and b", False), ("mask &= c | d", True), ("x", True),
    ]  # fmt: skip


@pytest.mark.slow
def test_changes_leave_conditions_out() -> None:
    (module,) = rule_modules(["region_kinds"])
    (change,) = [change for rule, change in changes_of(module, conditions=True) if change[0] == "without greek"]
    assert not module._is_math("αβγδε")
    with changed(change):
        assert module._is_math("abcd")
    assert not module._is_math("abcd")
