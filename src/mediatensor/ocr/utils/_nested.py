"""What is printed with its parts, one a line and indented, as docTR prints it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

__all__ = ["Nested"]


class Nested:
    """A base class: ``repr`` shows the attributes that ``_children_names`` lists, one a line and indented."""

    _children_names: ClassVar[Sequence[str]] = ()

    def extra_repr(self) -> str:
        """The part of ``repr`` that describes the object itself, without its children."""
        return ""

    def __repr__(self) -> str:
        lines = self.extra_repr().splitlines()
        if len(lines) == 1 and not self._children_names:
            return f"{type(self).__name__}({lines[0]})"
        lines += [f"({name}): {_indented(_shown(getattr(self, name)))}" for name in self._children_names]
        return f"{type(self).__name__}(" + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"


def _shown(children: object) -> str:
    if not isinstance(children, list) or not children:
        return repr(children)
    if len(children) == 1:
        return f"[{children[0]!r}]"
    return "[" + _indented("\n" + ",\n".join(map(repr, children)) + ",") + "\n]"


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")
