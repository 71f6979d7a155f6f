"""Reading rows under the error policy: raise, skip or replace."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Hashable, Sequence
from typing import Literal

from ..._engine.common import stages
from ..._engine.common.checks import whole_number
from ..._engine.common.devices import has_lost_cuda
from ...errors import DeviceError, InvalidArgumentError, MediaTensorError, TooManyFailuresError
from .recipe import LeftOut, OpenFiles, RowSpec, file_key
from .samples import Failure, Sample, Skipped

__all__ = ["OnError", "RowReader"]

OnError = Literal["raise", "skip", "replace"]

#: Gives for a row's spec and the number of an attempt the spec to read instead.
Substitute = Callable[[RowSpec, int], RowSpec]


class RowReader:
    """Reads rows, and applies the error policy to those that fail.

    Args:
        on_error: The policy.
        max_consecutive_failures: How many files may fail one after the other.
        files: Where open files are kept.

    Raises:
        InvalidArgumentError: if an argument is not among the accepted ones.
    """

    def __init__(self, on_error: OnError, max_consecutive_failures: int, files: OpenFiles) -> None:
        if on_error not in ("raise", "skip", "replace"):
            raise InvalidArgumentError(f"on_error must be 'raise', 'skip' or 'replace' (got {on_error!r}).")
        self.files = files
        self._on_error = on_error
        self._limit = whole_number("max_consecutive_failures", max_consecutive_failures, at_least=1)
        self._num_failing = 0
        self._last_failing: Hashable = None

    def read(self, spec: RowSpec, substitute: Substitute | None = None) -> Sample | Skipped:
        """The sample of a row, or of its replacement.

        Args:
            spec: The row.
            substitute: Gives the row to read in its place, under ``on_error="replace"``.

        Raises:
            MediaTensorError, OSError: of a file that cannot be read, under ``on_error="raise"``.
            DeviceError: whatever the policy, if this process was forked and cannot use the CUDA device of the files.
            TooManyFailuresError: if too many files failed one after the other.
        """
        failures: list[Failure] = []
        trying = spec
        error: MediaTensorError | OSError
        while True:
            try:
                sample = trying.load(self.files)
            except LeftOut as left_out:
                if not failures:
                    return Skipped((_failure(trying, left_out.reason, "skipped"),))
                error = left_out.reason  # of a row that was to replace another
            except (MediaTensorError, OSError) as raised:
                if self._on_error == "raise" or (isinstance(raised, DeviceError) and has_lost_cuda()):
                    raise  # every other file would fail in this process as well
                error = raised
            else:
                self._num_failing, self._last_failing = 0, None
                used = sample.source
                return dataclasses.replace(
                    sample, failures=tuple(dataclasses.replace(failure, replaced_by=used) for failure in failures)
                )
            failures.append(_failure(trying, error, "skipped" if self._on_error == "skip" else "replaced"))
            self._count(trying, error, is_replacement=len(failures) > 1)
            if self._on_error == "skip" or substitute is None:
                return Skipped(tuple(failures))
            trying = substitute(spec, len(failures))

    def read_another(self, spec: RowSpec, substitute: Substitute) -> Sample:
        """A row of another file in place of one that was left out, whatever the policy.

        Args:
            spec: The row that was left out.
            substitute: Gives the row to read in its place.

        Raises:
            DeviceError: if this process was forked and cannot use the CUDA device of the files.
            TooManyFailuresError: if too many files failed one after the other.
        """
        # These files do not count among the failures of neighbouring rows, and do not end them either.
        own = RowReader("raise", self._limit, self.files)
        for attempt in itertools.count(1):
            trying = substitute(spec, attempt)
            try:
                return trying.load(self.files)
            except (MediaTensorError, OSError) as error:
                if isinstance(error, DeviceError) and has_lost_cuda():
                    raise
                own._count(trying, error, is_replacement=True)
        raise AssertionError  # counting has no end

    def read_all(self, specs: Sequence[RowSpec], substitute: Substitute | None = None) -> list[Sample | Skipped]:
        """The samples of several rows, in the order of the rows; each as `read` gives it.

        They are read file by file, and those of one file in the order in which they stand in it.
        """
        by_file: dict[Hashable, list[int]] = {}
        for i, spec in enumerate(specs):
            by_file.setdefault(file_key(spec.item), []).append(i)
        results: dict[int, Sample | Skipped] = {}
        for members in by_file.values():
            # One file after the other: a file may not stay open while positions in all others are found.
            for i in self._in_order_of_position(members, specs):
                results[i] = self.read(specs[i], substitute)
        return [results[i] for i in range(len(specs))]

    def _in_order_of_position(self, members: list[int], specs: Sequence[RowSpec]) -> list[int]:
        if len(members) < 2:
            return members
        with stages.SEEK:
            positions = {i: self._position(specs[i]) for i in members}
        return sorted(members, key=positions.__getitem__)

    def _position(self, spec: RowSpec) -> float:
        """Where in its file a row begins; 0 if that cannot be told."""
        try:
            return spec.position(self.files)
        except (MediaTensorError, OSError):
            return 0.0

    def _count(self, spec: RowSpec, error: Exception, *, is_replacement: bool) -> None:
        # Neighbouring rows of one file fail for one reason and count once. But each replacement counts, because with
        # few other files it may be the same one again and again.
        file = file_key(spec.item)
        if is_replacement or file != self._last_failing:
            self._num_failing += 1
        self._last_failing = file
        if self._num_failing > self._limit:
            raise TooManyFailuresError(
                f"{self._num_failing} files failed one after the other, more than max_consecutive_failures "
                f"({self._limit}); the last is {spec.item.name!r}: {error}"
            ) from error


def _failure(spec: RowSpec, error: Exception, action: Literal["skipped", "replaced"]) -> Failure:
    return Failure(spec.item.name, spec.row, spec.epoch, type(error).__name__, str(error), action)
