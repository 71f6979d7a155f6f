"""The public API equals the record, so every change of it is visible and intended."""

from __future__ import annotations

import dataclasses
import difflib
import enum
import types

import pytest

from public_api import RECORD, base_names, describe_api, describe_object

ADVICE = "The public API differs from its record. If that is meant, run tests/shared/record_public_api.py, and commit."


def test_the_public_api_is_as_recorded() -> None:
    recorded = RECORD.read_text(encoding="utf-8").splitlines()
    diff = list(difflib.unified_diff(recorded, describe_api().splitlines(), "recorded", "now", lineterm="", n=0))
    if diff:
        pytest.fail("\n".join([ADVICE, *diff]), pytrace=False)


class _Hidden(ValueError):
    """A base that has no public name."""


class _Error(_Hidden): ...


class _Mode(enum.Enum):
    FAST = "fast"


@dataclasses.dataclass(frozen=True)
class _Found:
    place: int
    names: list[str] = dataclasses.field(default_factory=list, kw_only=True)

    def first(self, *, default: str | None = None, **options: int) -> str | None:
        return next(iter(self.names), default)

    @property
    def size(self) -> int:
        return len(self.names)

    def _helper(self) -> None: ...


def described(value: object) -> list[str]:
    return list(describe_object("Name", value, {}))


def test_the_record_has_what_callers_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for of_ours in (_Hidden, _Error, _Mode, _Found):
        monkeypatch.setattr(of_ours, "__module__", "mediatensor.module")
    assert described(_Found) == [
        "frozen dataclass Name",
        "    place: int",
        "    names: list[str] = list()  (by keyword)",
        "    def first(self, *, default: str | None = None, **options: int) -> str | None",
        "    property size: int",
    ]
    assert described(_Mode) == ["class Name(enum.Enum)", "    FAST = 'fast'"]
    assert described(_Error) == ["class Name(ValueError)"]
    assert list(base_names(_Error, {id(_Hidden): "mediatensor.Hidden"})) == ["mediatensor.Hidden"]

    def function(first, /, second: types.ModuleType, *rest: int, third=(1, 2)): ...

    assert described(function) == ["def Name(first, /, second: types.ModuleType, *rest: int, third = (1, 2))"]
