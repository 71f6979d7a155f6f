"""Iterations over a loader: each has its own position, and `Iterations` knows whose position the loader reports."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any, Generic, Protocol, TypeVar

from ...errors import InvalidArgumentError

__all__ = ["BatchIterator", "Iterations", "Position"]

B = TypeVar("B", covariant=True)


class Position(Protocol):
    """Where an iteration is.

    Attributes:
        has_begun: Whether a batch was asked for.
    """

    has_begun: bool

    @property
    def epoch(self) -> int | None: ...

    def state_dict(self) -> dict[str, Any]: ...


P = TypeVar("P", bound=Position)


class BatchIterator(Iterator[B], Generic[B]):
    """One iteration over a `DataLoader` or over `ToDevice`; ``iter(loader)`` makes it.

    Several iterations over one loader do not disturb each other. Each has its own position.

    Example:
        >>> from mediatensor.datasets import DataLoader, VideoClips
        >>> loader = DataLoader(VideoClips("videos", num_frames_per_clip=4), batch_size=1)
        >>> first, second = iter(loader), iter(loader)  # each iteration is another epoch
        >>> batch = next(first)
        >>> first.epoch, second.epoch
        (0, 1)
        >>> loader.load_state_dict(first.state_dict())
        >>> len(list(loader))
        2
    """

    def __init__(self, batches: Generator[B, None, None], position: Position, leave: Callable[[], object]) -> None:
        # The generator must not refer to this object: it is closed as soon as nothing refers to this object any more.
        self._batches = batches
        self._position = position
        self._leave = leave

    def __next__(self) -> B:
        return next(self._batches)

    @property
    def epoch(self) -> int | None:
        """The epoch of its batches; ``None`` if the loader does not count epochs."""
        return self._position.epoch

    def state_dict(self) -> dict[str, Any]:
        """The position after the last batch that this iteration gave, for ``load_state_dict`` of the loader.

        Raises:
            InvalidArgumentError: if the loader cannot resume.
        """
        return self._position.state_dict()

    def close(self) -> None:
        """End the iteration, and its workers unless they are persistent.

        Example:
            >>> from mediatensor.datasets import DataLoader, VideoClips
            >>> batches = iter(DataLoader(VideoClips("videos", num_frames_per_clip=4), batch_size=1))
            >>> batches.close()
            >>> list(batches)
            []
        """
        self._batches.close()
        self._leave()  # a generator that was never started does not do so itself

    def __del__(self) -> None:
        if hasattr(self, "_leave"):
            self.close()


class Iterations(Generic[P]):
    """The iterations over one loader that are under way, from the oldest to the newest.

    Attributes:
        left: The last one that was left before its end, if none has begun since; else ``None``.
    """

    def __init__(self) -> None:
        self._open: list[P] = []
        self.left: P | None = None

    @property
    def newest(self) -> P | None:
        """The newest iteration that is under way."""
        return self._open[-1] if self._open else None

    def begin(self, position: P) -> None:
        """Note that an iteration begins."""
        self._open.append(position)
        self.left = None

    def end(self, position: P, *, is_over: bool) -> bool:
        """Note that an iteration ended; returns whether it was noted as under way.

        Args:
            position: Its position.
            is_over: Whether it gave all of its batches.
        """
        # Compared by identity: positions of several iterations may be equal.
        if not any(one is position for one in self._open):
            return False
        self._open = [one for one in self._open if one is not position]
        self.left = None if is_over or self._open else position
        return True

    def forget(self) -> None:
        """Take no more notice of the iterations that are under way. They continue with their own positions."""
        self._open, self.left = [], None

    def current(self) -> P | None:
        """The position that the loader reports; ``None`` if the next iteration begins an epoch.

        Raises:
            InvalidArgumentError: if several iterations have begun and are under way: each has its own position.
        """
        begun = [position for position in self._open if position.has_begun]
        if len(begun) > 1:
            epochs = ", ".join(str(position.epoch) for position in begun)
            raise InvalidArgumentError(
                f"{len(begun)} iterations over this loader are under way (in the epochs {epochs}), so it has several "
                "positions. Each iteration has its own: write batches = iter(loader), and call batches.state_dict(). "
                "An iteration ends after its last batch, with close(), or when nothing refers to it any more."
            )
        return begun[0] if begun else self.left
