"""What one measurement is about, as plain data that can be sent to another process."""

from __future__ import annotations

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
        indices: Frames to decode of each.
        size: (height, width) to scale to, if any.
        num_decodes: How many decoders are opened for the same frames, by ``loader``.
        num_threads: Python threads that share this, by ``loader``.
    """

    kind: str
    paths: tuple[str, ...]
    indices: tuple[int, ...] = ()
    size: Size | None = None
    num_decodes: int = 1
    num_threads: int = 1

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Case:
        """A case from what became of ``dataclasses.asdict`` on its way through JSON."""
        tuples: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()
        }
        return cls(**tuples)
