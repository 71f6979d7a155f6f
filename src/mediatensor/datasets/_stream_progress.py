"""How far a stream has come: which rows were given, shard by shard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import InvalidArgumentError
from ._given_rows import GivenRows
from ._samples import Sample, Skipped
from ._tar_samples import TarSamples

__all__ = ["StreamProgress", "WithRows"]

_STATE_VERSION = 1


class WithRows:
    """A collate function that tells beside its batch which rows went into it, rows that were left out included."""

    def __init__(self, collate: Callable[[list[Any]], Any]) -> None:
        self.collate = collate

    def __call__(self, samples: list[Sample | Skipped]) -> tuple[Any, list[int]]:
        rows = [sample.row if isinstance(sample, Sample) else sample.failures[0].row for sample in samples]
        return self.collate(samples), rows


class StreamProgress:
    """What of an epoch of a stream was given: for `DataLoader`, what `RowBatches` is for datasets with indices.

    Args:
        stream: Where the rows come from.

    Attributes:
        epoch: The epoch of the next iteration.
    """

    def __init__(self, stream: TarSamples) -> None:
        self.epoch = stream.epoch
        self._stream = stream
        self._given = GivenRows()
        # A rank may be through with its share of an epoch while others are not: what it gave is part of their state.
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
        states = [state] if isinstance(state, Mapping) else list(state)
        self._check(states)
        self.epoch = min(int(one["epoch"]) for one in states)
        intervals = [interval for one in states for interval in _given_in(self.epoch, one)]
        num_rows = {int(shard): int(count) for one in states for shard, count in one["num_rows"]}
        self._given = GivenRows(intervals)
        if len(states) == 1:
            self._last_epoch = (int(states[0]["last_epoch"]), GivenRows(states[0]["given_in_last_epoch"]))
        self._stream.resume(self.epoch, GivenRows(intervals), num_rows)

    def _check_resumable(self) -> None:
        if not self._stream.can_resume:
            raise InvalidArgumentError(
                f"{self._stream!r} cannot tell which rows were given: an IterableDataset divides its rows among "
                "workers itself. Resume it by its own means, or read shards with TarSamples."
            )

    def _check(self, states: Sequence[Mapping[str, Any]]) -> None:
        own = {"version": _STATE_VERSION, **self._stream.facts}
        for state in states:
            for name, value in own.items():
                if state.get(name) != value:
                    raise InvalidArgumentError(
                        f"The state has {name}={state.get(name)!r}, but here it is {value!r}: it does not belong to "
                        "this stream."
                    )
        if len({state["num_ranks"] for state in states}) != 1:
            raise InvalidArgumentError("The states must be of one number of ranks, and there must be at least one.")
        num_ranks = int(states[0]["num_ranks"])
        is_own = [(state["rank"], num_ranks) for state in states] == [(self._stream.rank, self._stream.num_ranks)]
        if not is_own and {int(state["rank"]) for state in states} != set(range(num_ranks)):
            raise InvalidArgumentError(
                f"There are states of the ranks {sorted(int(state['rank']) for state in states)} of {num_ranks}: each "
                f"rank knows what it gave itself. Load the list of the states of all of them, or on rank "
                f"{self._stream.rank} of {self._stream.num_ranks} the state of the same rank."
            )


def _given_in(epoch: int, state: Mapping[str, Any]) -> list[list[int]]:
    """The intervals of rows that a rank has given of an epoch, which may be the one before the one that it is in."""
    if state["epoch"] == epoch:
        return state["given"]  # type: ignore[no-any-return]
    if state["last_epoch"] == epoch and not state["given"]:
        return state["given_in_last_epoch"]  # type: ignore[no-any-return]
    raise InvalidArgumentError(
        f"One rank is in epoch {epoch}, and rank {state['rank']} has given rows of epoch {state['epoch']}: the states "
        "must be of the same moment."
    )
