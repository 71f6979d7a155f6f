"""What one measurement is about, as plain data that can be sent to another process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Case", "Size"]

# (height, width)
Size = tuple[int, int]


@dataclass(frozen=True)
class Case:
    """A scenario on certain files.

    Attributes:
        kind: Key of `scenarios.KINDS`.
        paths: Files to decode.
        indices: Frames to decode of each file in one call. With a ``clip_length``, the first frames of clips: the files
            share these, each clip is one call.
        clip_length: How many frames in a row are a clip; 0 if there are none.
        size: (height, width) to scale to, if any.
        num_decodes: How many decoders are opened for the same frames, by ``loader``.
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
        """For each file, the frames of each call; a clip is a ``range``.

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
        """Frames of all calls."""
        return sum(len(call) for _, calls in self.calls() for call in calls)

    def frames(self) -> dict[str, set[int]]:
        """The frames that are needed of each file."""
        needed: dict[str, set[int]] = {}
        for path, calls in self.calls():
            needed.setdefault(path, set()).update(*calls)
        return needed

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Case:
        """A case from what became of ``dataclasses.asdict`` on its way through JSON."""
        tuples: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()
        }
        return cls(**tuples)
