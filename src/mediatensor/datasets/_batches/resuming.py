"""Resuming a stream: which rows of each shard were given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..._common.checks import shown
from ...errors import InvalidArgumentError
from .._rows import Sample, Skipped, TarSamples, checked_epoch
from .._sources import MAX_SHARD_ROWS, GivenRows

__all__ = ["StreamProgress", "WithRows"]

_STATE_VERSION = 1
# Greater numbers cannot be numbers of ranks or of epochs.
_MAX_NUMBER = 1 << 62


class WithRows:
    """A collate function that tells beside its batch which rows went into it, rows that were left out included."""

    def __init__(self, collate: Callable[[list[Any]], Any]) -> None:
        self.collate = collate

    def __call__(self, samples: list[Sample | Skipped]) -> tuple[Any, list[int]]:
        rows = [sample.row if isinstance(sample, Sample) else sample.failures[0].row for sample in samples]
        return self.collate(samples), rows


class StreamProgress:
    """The rows of an epoch that a stream has given; for `DataLoader`, as `RowBatches` for datasets with indices.

    Args:
        stream: Where the rows come from.

    Attributes:
        epoch: The epoch of the next iteration.
    """

    def __init__(self, stream: TarSamples) -> None:
        self.epoch = stream.epoch
        self._stream = stream
        self._given = GivenRows()
        # One rank may finish its share of an epoch before the others. The rows that it gave remain part of their state.
        self._last_epoch: tuple[int, GivenRows] = (-1, GivenRows())

    @property
    def is_resumed(self) -> bool:
        """Whether a part of the epoch was read before, and is left out of the next iteration."""
        return bool(self._given.intervals())

    def set_epoch(self, epoch: int) -> None:
        """Have the next iteration begin an epoch."""
        self._last_epoch = (self.epoch, self._given)
        self.epoch, self._given = epoch, GivenRows()
        self._stream.set_epoch(epoch)

    def take(self, batch_and_rows: tuple[Any, Sequence[int]]) -> Any:
        """The batch of what `WithRows` made, which is now given."""
        batch, rows = batch_and_rows
        for row in rows:
            self._given.add(row)
        return batch

    def state_dict(self) -> dict[str, Any]:
        """The state to load in order to go on behind what was given.

        Raises:
            InvalidArgumentError: if the rows have no places that stay the same.
        """
        self._check_resumable()
        return {
            "version": _STATE_VERSION,
            **self._stream.facts,
            "epoch": self.epoch,
            "rank": self._stream.rank,
            "num_ranks": self._stream.num_ranks,
            "given": self._given.intervals(),
            "last_epoch": self._last_epoch[0],
            "given_in_last_epoch": self._last_epoch[1].intervals(),
            "num_rows": [[shard, count] for shard, count in self._stream.num_rows().items()],
        }

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Have the next iteration go on where `state_dict` was taken.

        Args:
            state: That of this rank; or those of all ranks, and then the number of ranks may be another now.

        Raises:
            InvalidArgumentError: if these are not such states, or belong to another stream, or some are missing.
        """
        self._check_resumable()
        states = [state] if isinstance(state, Mapping) else state
        if not isinstance(states, Sequence) or not all(isinstance(one, Mapping) for one in states):
            raise InvalidArgumentError(f"A state is a mapping such as state_dict() gives (got {shown(state)}).")
        self._check_origin(states)
        try:
            saved = [_saved_progress(one, self._stream.facts["num_shards"]) for one in states]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(f"The state is damaged ({type(error).__name__}: {error}).") from None
        self._check_ranks(saved)
        epoch = min(one.epoch for one in saved)
        intervals = [interval for one in saved for interval in _given_in(epoch, one)]
        num_rows = {shard: count for one in saved for shard, count in one.num_rows}
        self.epoch, self._given = epoch, GivenRows(intervals)
        if len(saved) == 1:
            self._last_epoch = (saved[0].last_epoch, GivenRows(saved[0].given_in_last_epoch))
        self._stream.resume(self.epoch, GivenRows(intervals), num_rows)

    def _check_resumable(self) -> None:
        if not self._stream.can_resume:
            raise InvalidArgumentError(
                f"{self._stream!r} cannot tell which rows were given: an IterableDataset divides its rows among "
                "workers itself. Resume it by its own means, or read shards with TarSamples."
            )

    def _check_origin(self, states: Sequence[Mapping[str, Any]]) -> None:
        own = {"version": _STATE_VERSION, **self._stream.facts}
        for state in states:
            for name, value in own.items():
                if state.get(name) != value:
                    raise InvalidArgumentError(
                        f"The state has {name}={shown(state.get(name))}, but here it is {value!r}: it does not belong "
                        "to this stream."
                    )

    def _check_ranks(self, states: Sequence[_Progress]) -> None:
        if len({state.num_ranks for state in states}) != 1:
            raise InvalidArgumentError("The states must be of one number of ranks, and there must be at least one.")
        num_ranks = states[0].num_ranks
        ranks = sorted(state.rank for state in states)
        is_own = [(state.rank, num_ranks) for state in states] == [(self._stream.rank, self._stream.num_ranks)]
        if not is_own and not (len(set(ranks)) == num_ranks and set(ranks) <= set(range(num_ranks))):
            raise InvalidArgumentError(
                f"There are states of the ranks {ranks} of {num_ranks}: each rank knows what it gave itself. Load the "
                f"list of the states of all of them, or on rank {self._stream.rank} of {self._stream.num_ranks} the "
                "state of the same rank."
            )


class _Progress(NamedTuple):
    """A saved state, in plain numbers."""

    epoch: int
    rank: int
    num_ranks: int
    given: list[list[int]]
    last_epoch: int
    given_in_last_epoch: list[list[int]]
    num_rows: list[list[int]]


def _saved_progress(state: Mapping[str, Any], num_shards: int) -> _Progress:
    """The progress that a state describes.

    Raises:
        KeyError, TypeError, ValueError, OverflowError: if it is damaged.
    """
    end = num_shards * MAX_SHARD_ROWS
    return _Progress(
        checked_epoch(state["epoch"]),
        _number("rank", state["rank"], 0),
        _number("num_ranks", state["num_ranks"], 1),
        _pairs("given", state["given"], lambda start, stop: 0 <= start <= stop <= end),
        _number("last_epoch", state["last_epoch"], -1),
        _pairs("given_in_last_epoch", state["given_in_last_epoch"], lambda start, stop: 0 <= start <= stop <= end),
        _pairs("num_rows", state["num_rows"], lambda shard, n: 0 <= shard < num_shards and 0 <= n <= MAX_SHARD_ROWS),
    )


def _number(name: str, value: Any, lowest: int) -> int:
    number = int(value)
    if not lowest <= number < _MAX_NUMBER:
        raise ValueError(f"{name} is {shown(value)}")
    return number


def _pairs(name: str, pairs: Any, is_possible: Callable[[int, int], bool]) -> list[list[int]]:
    found = [[int(number) for number in pair] for pair in pairs]
    if not all(len(pair) == 2 and is_possible(*pair) for pair in found):
        raise ValueError(f"{name} is {shown(pairs)}")
    return found


def _given_in(epoch: int, state: _Progress) -> list[list[int]]:
    """The intervals of rows that a rank has given of an epoch, which may be the one before the one that it is in."""
    if state.epoch == epoch:
        return state.given
    if state.last_epoch == epoch and not state.given:
        return state.given_in_last_epoch
    raise InvalidArgumentError(
        f"One rank is in epoch {epoch}, and rank {state.rank} has given rows of epoch {state.epoch}: the states "
        "must be of the same moment."
    )
