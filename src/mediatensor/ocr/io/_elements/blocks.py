"""Lines of words and blocks of lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from .base import Element, Geometry, enclosing_geometry, mean_score, stored
from .leaves import Artefact, Word

__all__ = ["Block", "Line"]


class Line(Element):
    """A line of words.

    Args:
        words: The words, in order.
        geometry: The position on the page, in relative coordinates. By default it encloses the words: a box, or the
            rectangle of least area, in reading direction, if words have four points.
        objectness_score: The confidence of the detector, in [0, 1]; by default the mean of the words, 0.0 without
            words.

    Example:
        >>> from mediatensor.ocr.io import Line, Word
        >>> turn = {"value": 0, "confidence": None}
        >>> line = Line([Word("two", 0.9, ((0.1, 0.1), (0.2, 0.2)), 0.8, turn),
        ...              Word("words", 0.9, ((0.3, 0.1), (0.5, 0.2)), 0.6, turn)])
        >>> line.render(), line.geometry
        ('two words', ((0.1, 0.1), (0.5, 0.2)))
    """

    _exported_keys: ClassVar[list[str]] = ["geometry", "objectness_score"]
    _children_names: ClassVar[list[str]] = ["words"]
    words: list[Word]

    def __init__(
        self, words: list[Word], geometry: Geometry | None = None, objectness_score: float | None = None
    ) -> None:
        super().__init__(words=words)
        self.geometry = enclosing_geometry([word.geometry for word in words]) if geometry is None else geometry
        self.objectness_score = (
            mean_score(word.objectness_score for word in words) if objectness_score is None else objectness_score
        )

    def render(self) -> str:
        """The words, separated by spaces."""
        return " ".join(word.render() for word in self.words)

    @classmethod
    def from_dict(cls, save_dict: dict[str, Any], **kwargs: Any) -> Self:
        """Restore a line from the result of `export`."""
        values = {key: stored(save_dict, key, cls) for key in cls._exported_keys}
        return cls(words=[Word.from_dict(word) for word in stored(save_dict, "words", cls)], **values)


class Block(Element):
    """A block of lines and artefacts that belong together, such as a paragraph.

    Args:
        lines: The lines, in order.
        artefacts: The parts that are not text.
        geometry: The position on the page, in relative coordinates. By default it encloses the words and artefacts; it
            is an empty box without any.
        objectness_score: The confidence of the detector, in [0, 1]; by default the mean of the words, 0.0 without
            words.

    Example:
        >>> from mediatensor.ocr.io import Block, Line, Word
        >>> word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> block = Block([Line([word])])
        >>> block.geometry, block.render()
        (((0.1, 0.1), (0.3, 0.2)), 'Total')
    """

    _exported_keys: ClassVar[list[str]] = ["geometry", "objectness_score"]
    _children_names: ClassVar[list[str]] = ["lines", "artefacts"]
    lines: list[Line]
    artefacts: list[Artefact]

    def __init__(
        self,
        lines: Sequence[Line] = (),
        artefacts: Sequence[Artefact] = (),
        geometry: Geometry | None = None,
        objectness_score: float | None = None,
    ) -> None:
        super().__init__(lines=list(lines), artefacts=list(artefacts))
        words = [word for line in self.lines for word in line.words]
        if geometry is None:
            members = [word.geometry for word in words] + [artefact.geometry for artefact in self.artefacts]
            geometry = enclosing_geometry(members or [line.geometry for line in self.lines])
        self.geometry = geometry
        self.objectness_score = (
            mean_score(word.objectness_score for word in words) if objectness_score is None else objectness_score
        )

    def render(self, line_break: str = "\n") -> str:
        """The lines, separated by ``line_break``."""
        return line_break.join(line.render() for line in self.lines)

    @classmethod
    def from_dict(cls, save_dict: dict[str, Any], **kwargs: Any) -> Self:
        """Restore a block from the result of `export`."""
        values = {key: stored(save_dict, key, cls) for key in cls._exported_keys}
        return cls(
            lines=[Line.from_dict(line) for line in stored(save_dict, "lines", cls)],
            artefacts=[Artefact.from_dict(artefact) for artefact in stored(save_dict, "artefacts", cls)],
            **values,
        )
