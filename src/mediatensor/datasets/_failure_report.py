"""`FailureReport`: which files failed, why, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from ._samples import Failure

__all__ = ["FailureReport"]


class FailureReport:
    """Which files failed, why, and how often. Failures travel with the batches, so they arrive from every worker.

    Attributes:
        failures: All of them, in the order in which their batches came. A row that was to stand in for several others
            is there for each; printing counts it once.

    Example:
        >>> from mediatensor.datasets import Failure, FailureReport
        >>> report = FailureReport()
        >>> report.add([Failure("cut.mp4", 3, 0, "DecodeError", "Frame 9 could not be decoded.", "skipped")])
        >>> print(report)
        1 row could not be read (1 skipped, 0 replaced), of 1 file:
          cut.mp4: 1 row, DecodeError: Frame 9 could not be decoded.
    """

    def __init__(self) -> None:
        self.failures: list[Failure] = []

    def add(self, failures: Iterable[Failure]) -> None:
        """Add those of a batch (``batch.failures``)."""
        self.failures.extend(failures)

    def __len__(self) -> int:
        return len(self.failures)

    def by_file(self) -> dict[str, list[Failure]]:
        """The failures of each file, those with most of them first.

        Example:
            >>> from mediatensor.datasets import FailureReport
            >>> FailureReport().by_file()
            {}
        """
        return _by_file(self.failures)

    def as_dict(self) -> dict[str, Any]:
        """Numbers by action, and for each file how often it failed and why, for JSON.

        Example:
            >>> from mediatensor.datasets import FailureReport
            >>> FailureReport().as_dict()
            {'num_failures': 0, 'actions': {}, 'files': {}}
        """
        return {
            "num_failures": len(self.failures),
            "actions": dict(Counter(failure.action for failure in self.failures)),
            "files": {
                name: {"num_failures": len(failures), "reasons": _reasons(failures)}
                for name, failures in self.by_file().items()
            },
        }

    def __str__(self) -> str:
        # A row that was to stand in for others fails for each of them.
        rows = list({(failure.epoch, failure.row): failure for failure in self.failures}.values())
        actions = Counter(failure.action for failure in rows)
        files = _by_file(rows)
        head = (
            f"{_count(len(rows), 'row')} could not be read ({actions['skipped']} skipped, {actions['replaced']} "
            f"replaced), of {_count(len(files), 'file')}"
        )
        lines = [
            f"  {name}: {_count(len(failures), 'row')}, {'; '.join(_reasons(failures))}"
            for name, failures in files.items()
        ]
        text = "\n".join([head + (":" if lines else "."), *lines])
        # Names of files need not be text; what is none cannot be printed.
        return text.encode(errors="backslashreplace").decode()


def _by_file(failures: Iterable[Failure]) -> dict[str, list[Failure]]:
    files: dict[str, list[Failure]] = {}
    for failure in failures:
        files.setdefault(failure.source, []).append(failure)
    return dict(sorted(files.items(), key=lambda entry: -len(entry[1])))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _reasons(failures: list[Failure]) -> list[str]:
    return list(dict.fromkeys(f"{failure.error}: {failure.message}" for failure in failures))
