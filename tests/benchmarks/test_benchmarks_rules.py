"""Test changes of rules, one at a time, in a small module whose results were worked out by hand."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.text import ocr_rules
from benchmarks.text.ocr_readers import to_words
from benchmarks.text.rules import changed, changes_of, count_decisions, is_chosen, numbers_of, rule_table
from PIL import Image

from mediatensor.ocr import ocr_predictor
from ocr_onnx_sessions import require_weights

SOURCE = """
from __future__ import annotations
from functools import lru_cache
from string import whitespace as BLANKS

LIMIT, WIDTHS, NAME = 4, (1.0, 2.0), "name"

@lru_cache
def _is_long(text: str) -> bool:
    return len(text) > LIMIT and text != "hidden"

def _shorten(text: str, end: str) -> str:
    return text[:3] + end

class Line:
    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def is_wide(self) -> bool:
        return len(self.text) > WIDTHS[1]

    def _widen(self) -> None:
        self.text += "!"

def describe(text: str) -> tuple[bool, bool, str]:
    line = Line(text)
    line._widen()
    return _is_long(text), line.is_wide, _shorten(line.text, ".")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "small_rules.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("small_rules")
    del sys.modules["small_rules"]


def results(module: Any, text: str, **options: Any) -> dict[tuple[str, str], Any]:
    found = {}
    for rule, change in changes_of(module, **options):
        with changed(change):
            found[rule.removeprefix("small_rules."), change[0]] = module.describe(text)
    return found


def test_each_number_predicate_and_step_is_changed_alone(module: Any) -> None:
    plain = (True, True, "lon.")
    assert module.describe("longer") == plain
    steps = {"_shorten": 0, "Line._widen": None}
    found = results(module, "longer", steps=steps)
    # The result of the cached predicate is computed again after each change.
    assert {key for key, result in found.items() if result == plain} == {
        ("LIMIT", "0"), ("LIMIT", "x 0.7"), ("Line.is_wide", "true"), ("_is_long", "true"), ("Line._widen", "left out"),
        *(("WIDTHS[0]", label) for label in ("0", "x 0.7", "x 1.4", "x 10^6")),
        *(("WIDTHS[1]", label) for label in ("0", "x 0.7", "x 1.4")),
    }  # fmt: skip
    assert {key: result for key, result in found.items() if result != plain} == {
        ("LIMIT", "x 1.4"): (False, True, "lon."),
        ("LIMIT", "x 10^6"): (False, True, "lon."),
        ("WIDTHS[1]", "x 10^6"): (True, False, "lon."),
        ("Line.is_wide", "false"): (True, False, "lon."),
        ("_is_long", "false"): (False, True, "lon."),
        ("_shorten", "left out"): (True, True, "longer!"),
    }
    assert module.describe("longer") == plain  # nothing stays changed


def test_conditions_of_cached_functions_are_left_out(module: Any) -> None:
    assert module.describe("hidden")[0] is False
    found = results(module, "hidden", conditions=True)
    assert found["_is_long", "without text != 'hidden'"][0] is True


def test_decisions_are_counted(module: Any) -> None:
    texts = ("ab", "longer", "hidden")
    counts = count_decisions(module, [lambda: list(map(module.describe, texts))], conditions=True)
    # "ab!" is wide, and nothing is left to decide after a short text.
    assert counts == {
        ("_is_long", "false"): 1, ("_is_long", "true"): 2, ("Line.is_wide", "false"): 3,
        ("_is_long", "without len(text) > LIMIT"): 1, ("_is_long", "without text != 'hidden'"): 1,
    }  # fmt: skip
    assert module.describe("longer") == (True, True, "lon.")


def test_imported_numbers_belong_to_another_module(module: Any) -> None:
    assert hasattr(module, "BLANKS")
    assert numbers_of(module) == {"LIMIT", "WIDTHS", "NAME"}


def test_rules_are_chosen_by_name() -> None:
    rules = ["words.WEIGHTS[0]", "words.WEIGHTS[1]", "words.LEAST_GAP", "_kinds.LEAST_GAP", "words.GAP"]
    assert [rule for rule in rules if is_chosen(rule, None)] == rules
    assert [rule for rule in rules if is_chosen(rule, ["WEIGHTS", "GAP"])] == [*rules[:2], "words.GAP"]
    assert [rule for rule in rules if is_chosen(rule, ["words.LEAST_GAP", "words.WEIGHTS[1]"])] == rules[1:3]


def test_the_table_has_a_row_for_each_rule() -> None:
    rows = [("a", "0", ""), ("b", "true", "exact -1"), ("a", "x 1.4", "missed +2"), ("a", "x 0.7", "")]
    assert rule_table(rows)[2:] == ["| `a` | 0, x 0.7 | x 1.4: missed +2 |", "| `b` |  | true: exact -1 |"]


@pytest.mark.slow
def test_reading_with_memory_is_the_same_for_every_module(tmp_path: Path) -> None:
    require_weights()
    (page,) = ocr_rules.draw_pages(
        tmp_path, None, (("receipt", 12, {"rotation": 270, "dpi": 80, "size": (2.5, 1.5)}),)
    )["drawn"]
    image = np.array(Image.open(page.image).convert("RGB"))
    expected = to_words(ocr_predictor(pretrained=True)([image]).pages[0])
    reader = ocr_rules._Reader()
    try:
        for area in ("", *ocr_rules._AREAS):
            reader.area = area
            words, _ = reader.read(ocr_rules._Page(page, "drawn", torch.from_numpy(image).permute(2, 0, 1)))
            assert [word.text for word in words] == [word.text for word in expected]
    finally:
        reader.close()


@pytest.mark.slow
def test_videos_are_read_from_memory(tmp_path: Path) -> None:
    require_weights()
    options = ["predictor", "--only", "fast_en", "--rules", "FEWEST_FRAMES", "--changes", "large", "-o", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "benchmarks.text.video_text_rules", *options], check=True, timeout=600)
    report = json.loads((tmp_path / "video_text_rules.json").read_text(encoding="utf-8"))
    base = report["base"]["unseen"]
    assert base["captions"] == base["starts near"] > 2
    effects = {row["change"]: row["effect"] for row in report["rows"]}
    assert effects == {"0": {}, "x 10^6": {"unseen": {"differ": 1, "problems": 1}}}
