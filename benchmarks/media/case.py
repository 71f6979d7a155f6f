"""A measurement as plain data that can be sent to another process, and the interface of the libraries that run it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# (height, width)
Size = tuple[int, int]
Image = NDArray[np.uint8]


@dataclass(frozen=True)
class Case:
    """A scenario on certain files.

    Attributes:
        kind: Key of `scenarios.KINDS`.
        paths: Files to decode.
        indices: Frames to decode of each file in one call. With a ``clip_length``, the first frames of clips: the files
            share these, each clip is one call.
        clip_length: Consecutive frames per clip; 0 for single frames.
        size: (height, width) to scale to, if any.
        num_decodes: Decoders opened for the same frames, by ``loader``.
        num_threads: Python threads that share this, by ``loader``.
    """

    kind: str
    paths: tuple[str, ...]
    indices: tuple[int, ...] = ()
    clip_length: int = 0
    size: Size | None = None
    num_decodes: int = 1
    num_threads: int = 1

    def calls(self) -> Iterator[tuple[str, list[Sequence[int]]]]:
        """Yield each file with the frames of each call; a clip is a ``range``.

        Example:
            >>> case = Case("fetch", ("a.mp4", "b.mp4"), (0, 40, 10), clip_length=16)
            >>> list(case.calls())
            [('a.mp4', [range(0, 16), range(10, 26)]), ('b.mp4', [range(40, 56)])]
        """
        for number, path in enumerate(self.paths):
            if self.clip_length:
                begins = self.indices[number :: len(self.paths)]
                yield path, [range(begin, begin + self.clip_length) for begin in begins]
            else:
                yield path, [self.indices]

    @property
    def num_frames(self) -> int:
        """Return the number of frames of all calls."""
        return sum(len(call) for _, calls in self.calls() for call in calls)

    def frames(self) -> dict[str, set[int]]:
        """Return the needed frames of each file."""
        needed: dict[str, set[int]] = {}
        for path, calls in self.calls():
            needed.setdefault(path, set()).update(*calls)
        return needed

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Case:
        """Restore a case from ``dataclasses.asdict`` and JSON."""
        tuples: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()
        }
        return cls(**tuples)


class Library(ABC):
    """One way to decode.

    A decoder is whatever `open` returns. Sizes are (height, width).

    Attributes:
        gives_frames: Whether there are frames to compare.
    """

    gives_frames = True

    def prepare(self, case: Case) -> None:  # noqa: B027 - most libraries need none
        """Prepare a case once, long before it is run."""

    @abstractmethod
    def open(self, path: str, size: Size | None) -> Any:
        """Open a decoder of a file that scales frames to ``size`` if it is given."""

    @abstractmethod
    def count(self, decoder: Any) -> int:
        """Return the number of frames."""

    @abstractmethod
    def fetch(self, decoder: Any, indices: Sequence[int]) -> Any:
        """Return a batch of the frames at these indices, in this order. A ``range`` is a clip."""

    def item(self, decoder: Any, index: int) -> Any:
        """Return a frame as a batch of one."""
        return self.fetch(decoder, [index])

    def iterate(self, decoder: Any) -> Iterator[Any]:
        """Yield every frame in order, each as a batch of one."""
        return (self.fetch(decoder, [i]) for i in range(self.count(decoder)))

    def iterate_backwards(self, decoder: Any) -> Iterator[Any]:
        """Yield every frame from the last to the first, each as a batch of one."""
        return (self.fetch(decoder, [i]) for i in reversed(range(self.count(decoder))))

    def images(self, batch: Any) -> Iterable[Image]:
        """Return the frames of a batch as (height, width, 3) RGB arrays."""
        return batch  # type: ignore[no-any-return]

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Return versions by the name of the software."""
