"""Labels that are written as text."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import InvalidArgumentError
from ._items import Item

__all__ = ["LabelCoding", "with_coded_labels"]

# Eighteen digits fit into int64.
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[+-]?([0-9]{1,300}\.?[0-9]{0,300}|\.[0-9]{1,300})([eE][+-]?[0-9]{1,2})?")


@dataclass(frozen=True)
class LabelCoding:
    """How labels that are text become numbers; other labels stay as they are.

    Attributes:
        number_of: For each text its number.
        are_class_names: Whether the texts are names of classes, and not numbers in writing.

    Example:
        >>> LabelCoding.of(["run", "jump", None, "run"]).number_of
        {'jump': 0, 'run': 1}
        >>> LabelCoding.of(["10", "9"]).number_of
        {'10': 10, '9': 9}
    """

    number_of: dict[str, float] = field(default_factory=dict)
    are_class_names: bool = False

    @classmethod
    def of(cls, labels: Iterable[Any]) -> LabelCoding:
        """The coding of all labels of a source; ``None`` stands for no label.

        Raises:
            InvalidArgumentError: if some labels are text, and others are not.
        """
        texts: set[str] = set()
        other: Any = None
        for label in labels:
            if isinstance(label, str):
                texts.add(label)
            elif label is not None and other is None:
                other = label
        if texts and other is not None:
            raise InvalidArgumentError(
                f"Some labels are text ({min(texts)!r}), and some are of type {type(other).__name__} ({other!r}): let "
                "them all be class names, or all be numbers."
            )
        if all(map(_WHOLE.fullmatch, texts)):
            return cls({text: int(text) for text in sorted(texts)})
        if all(map(_DECIMAL.fullmatch, texts)):
            return cls({text: float(text) for text in sorted(texts)})
        return cls({text: number for number, text in enumerate(sorted(texts))}, are_class_names=True)

    def apply(self, item: Item) -> Item:
        """The item with its label as a number, and the name of its class in ``extra["class_name"]``."""
        label = item.label
        if not isinstance(label, str):
            return item
        extra = {**item.extra, "class_name": label} if self.are_class_names else item.extra
        return dataclasses.replace(item, label=self.number_of[label], extra=extra)


def with_coded_labels(items: Sequence[Item]) -> list[Item]:
    """Items of rows, whose labels that are text are coded together.

    Raises:
        InvalidArgumentError: if some labels are text, and others are not.
    """
    coding = LabelCoding.of(item.label for item in items)
    return [coding.apply(item) for item in items]
