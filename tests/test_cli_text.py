"""Formatting of the command: times, sizes, columns."""

from __future__ import annotations

import argparse
import json
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediatensor.cli import _text
from mediatensor.cli._console import to_json
from mediatensor.cli._parser import time_in_seconds


@given(st.floats(min_value=-1e6, max_value=1e6))
def test_clock_reads_back_to_the_millisecond(value: float) -> None:
    assert time_in_seconds(_text.clock(value)) == pytest.approx(value, abs=0.0005 + 1e-9)


@given(st.integers(min_value=0, max_value=10**9))
def test_clock_has_no_sixtieth_second(milliseconds: int) -> None:
    *_, minutes, seconds = _text.clock(milliseconds / 1000).split(":")
    assert int(minutes) < 60 or milliseconds < 3_600_000
    assert float(seconds) < 60
    assert len(seconds) == len("00.000")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0.0), ("83.5", 83.5), ("1:23.5", 83.5), ("1:00:00", 3600.0), ("-0:01", -1.0), ("90:00", 5400.0)],
)
def test_time_argument(text: str, seconds: float) -> None:
    assert time_in_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", ":", "1:", "a", "1:-5", "inf", "1:2:3:4", "--1"])
def test_time_argument_that_is_none(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected a time"):
        time_in_seconds(text)


@given(st.floats(min_value=1, max_value=1e15))
def test_sizes_keep_three_digits(value: float) -> None:
    number, unit = _text.byte_size(value).split(" ")
    scale = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[unit]
    assert float(number) * scale == pytest.approx(value, rel=0.005)
    assert float(number) < 1000 or unit == "TB"


@given(st.text(max_size=60), st.integers(min_value=5, max_value=70))
def test_shortened_text_fits_and_keeps_both_ends(text: str, length: int) -> None:
    short = _text.shorten(text, length)
    if len(text) <= length:
        assert short == text
    else:
        assert len(short) == length
        begin, _, end = short.partition("...")
        assert text.startswith(begin)
        assert text.endswith(end.removeprefix("."))


def test_columns_line_up() -> None:
    lines = _text.columns([("a", "long cell", "x"), ("longer", "b", "y"), ("c",)])
    assert lines == ["  a       long cell  x", "  longer  b          y", "  c"]


def test_one_line_has_no_control_characters() -> None:
    assert _text.one_line("\x1b[31mred\r\nline\ttab ") == "[31mred  line tab"


def test_json_has_fractions_as_text_and_no_number_that_json_lacks() -> None:
    value = to_json({"ratio": Fraction(4, 3), "rate": math.inf, "gap": math.nan, "times": (0.5, None), "n": 3})
    assert value == {"ratio": "4/3", "rate": None, "gap": None, "times": [0.5, None], "n": 3}
    json.dumps(value, allow_nan=False)
