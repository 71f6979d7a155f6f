"""The findings of `benchmarks.gpu_check`: checks, figures and targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

PASS, FAIL, NOT_RUN = "pass", "FAIL", "not run"


class NotRun(Exception):
    """A check or a figure is not available here; the message has the reason."""


@dataclass(frozen=True)
class Check:
    """A check that passes or fails.

    Attributes:
        name: Checked statement.
        status: `PASS`, `FAIL` or `NOT_RUN`.
        figure: Measurement, in words.
        reason: Why it failed or was not run.
        group: Group of the check; set when the step is run.
    """

    name: str
    status: str
    figure: str = ""
    reason: str = ""
    group: str = ""

    @classmethod
    def of(cls, name: str, is_right: bool, figure: str = "", reason: str = "") -> Check:
        """Return the check; the reason is dropped if it passed."""
        return cls(name, PASS if is_right else FAIL, figure, "" if is_right else reason)


@dataclass(frozen=True)
class Figure:
    """A row of a table: words, numbers or ``None``; rows of one table have the same columns."""

    table: str
    row: Mapping[str, Any]


@dataclass(frozen=True)
class Target:
    """An aim and its measurement. It is not a check, because machines differ.

    Attributes:
        name: Aim.
        is_met: Whether it is reached; ``None`` if it could not be measured.
        figure: Measurement, or the reason why there is none.
    """

    name: str
    is_met: bool | None
    figure: str


Found = Check | Figure | Target
_KINDS: dict[str, type[Check] | type[Figure] | type[Target]] = {"check": Check, "figure": Figure, "target": Target}


@dataclass(frozen=True)
class Step:
    """A unit of work: its failure, or the death of its process, does not affect the next step.

    Attributes:
        name: Unique within its group.
        run: Yields its findings.
    """

    name: str
    run: Callable[[], Iterable[Found]]


def contained(name: str, found: Iterable[Found]) -> Iterator[Found]:
    """Yield the findings, and a failed check of this name if they end with an exception.

    Example:
        >>> def broken():
        ...     yield Check("first", PASS)
        ...     raise NotRun("no device")
        >>> [(check.name, check.status) for check in contained("all", broken())]
        [('first', 'pass'), ('all', 'not run')]
    """
    try:
        yield from found
    except NotRun as reason:
        yield Check(name, NOT_RUN, reason=str(reason))
    except Exception as error:  # no failure may affect the next step
        yield Check(name, FAIL, reason=in_a_line(error))


def in_a_line(error: Exception) -> str:
    """Format the type and message of an error in one line.

    >>> in_a_line(ValueError("too large\\nby far"))
    'ValueError: too large by far'
    """
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]


def to_line(found: Found) -> dict[str, Any]:
    """Convert a finding to plain data that can be sent to another process."""
    (kind,) = (name for name, its_type in _KINDS.items() if type(found) is its_type)
    return {"kind": kind, **asdict(found)}


def from_line(line: dict[str, Any]) -> Found:
    """Restore a finding from `to_line`."""
    return _KINDS[line["kind"]](**{key: value for key, value in line.items() if key != "kind"})
