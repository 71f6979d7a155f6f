"""What everything that holds files or processes shares: use in a ``with`` statement."""

from __future__ import annotations

from abc import abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["Closing"]


class Closing:
    """Closes itself at the end of a ``with`` block."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
