"""Reading rows under an error policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal

from ..errors import InvalidArgumentError, MediaTensorError, TooManyFailuresError
from ._open_files import OpenFiles
from ._samples import Failure, Sample, Skipped
from ._spec import RowSpec

__all__ = ["OnError", "RowReader"]

OnError = Literal["raise", "skip", "replace"]


class RowReader:
    """Reads rows, and does what the policy says about those that fail.

    Args:
        on_error: The policy.
        max_consecutive_failures: How many files may fail one after the other.
        files: Where open files are kept.
        substitute: Gives for a row's spec and the number of an attempt the spec to read instead.

    Raises:
        InvalidArgumentError: if an argument is not among the accepted ones.
    """

    def __init__(
        self,
        on_error: OnError,
        max_consecutive_failures: int,
        files: OpenFiles,
        substitute: Callable[[RowSpec, int], RowSpec],
    ) -> None:
        if on_error not in ("raise", "skip", "replace"):
            raise InvalidArgumentError(f"on_error must be 'raise', 'skip' or 'replace' (got {on_error!r}).")
        if max_consecutive_failures < 1:
            raise InvalidArgumentError(
                f"max_consecutive_failures must be a positive whole number (got {max_consecutive_failures!r})."
            )
        self.files = files
        self._on_error = on_error
        self._limit = max_consecutive_failures
        self._substitute = substitute
        self._failing: list[str] = []

    def read(self, spec: RowSpec) -> Sample | Skipped:
        """The sample of a row, or of what stands in for it.

        Raises:
            MediaTensorError, OSError: of a file that cannot be read, under ``on_error="raise"``.
            TooManyFailuresError: if too many files failed one after the other.
        """
        failures: list[Failure] = []
        trying, error = spec, None
        while True:
            try:
                sample = trying.load(self.files)
            except (MediaTensorError, OSError) as raised:
                if self._on_error == "raise":
                    raise
                error = raised
            else:
                self._failing.clear()
                used = sample.source
                return dataclasses.replace(
                    sample, failures=tuple(dataclasses.replace(failure, replaced_by=used) for failure in failures)
                )
            failures.append(_failure(trying, error, "skipped" if self._on_error == "skip" else "replaced"))
            self._count(trying.item.name, error)
            if self._on_error == "skip":
                return Skipped(tuple(failures))
            trying = self._substitute(spec, len(failures))

    def position(self, spec: RowSpec) -> float:
        """Where in its file a row begins; 0 if that cannot be told."""
        try:
            return spec.position(self.files)
        except (MediaTensorError, OSError):
            return 0.0

    def _count(self, name: str, error: Exception) -> None:
        # Rows of one file that stand together fail for one reason.
        if not self._failing or self._failing[-1] != name:
            self._failing.append(name)
        if len(self._failing) > self._limit:
            raise TooManyFailuresError(
                f"{len(self._failing)} files failed one after the other, more than max_consecutive_failures "
                f"({self._limit}); the last is {name!r}: {error}"
            ) from error


def _failure(spec: RowSpec, error: Exception, action: Literal["skipped", "replaced"]) -> Failure:
    return Failure(spec.item.name, spec.row, spec.epoch, type(error).__name__, str(error), action)
