"""Text: characters, words, lines, blocks and their artefacts, and lines that were not read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

from .base import Element, Geometry, TypedRegion, enclosing_geometry, mean_score, stored, stored_list

# The odds that a line is right are the odds of its least sure word, times the product of the other words' confidences
# to this power, see `Line.confidence`. `benchmarks.calibration.confidences --fit` fits it.
OTHER_WORDS_EXPONENT = 1.6


def line_confidence(confidences: Iterable[float]) -> float:
    """Return the probability that a line was read exactly, from the confidences of its words; 0.0 without words."""
    known = sorted(min(max(confidence, 0.0), 1.0) for confidence in confidences)
    if not known or not known[0]:
        return 0.0
    # p / (1 - p) are the odds of p. Written so, a word of 1.0 divides by no zero.
    least, others = known[0], math.prod(known[1:]) ** OTHER_WORDS_EXPONENT
    return least * others / (least * others + 1 - least)


class Character(Element):
    """One character of a word.

    Args:
        value: The character.
        confidence: The confidence of the recogniser, in [0, 1].
        geometry: Its position, relative to the page: ((xmin, ymin), (xmax, ymax)), or four points in reading
            direction.

    Example:
        >>> from mediatensor.ocr.io import Character
        >>> Character("a", 0.9, ((0.1, 0.1), (0.2, 0.2)))
        Character(value='a', confidence=0.9)
    """

    _exported_keys: ClassVar[list[str]] = ["value", "confidence", "geometry"]

    def __init__(self, value: str, confidence: float, geometry: Geometry) -> None:
        super().__init__()
        self.value = value
        self.confidence = confidence
        self.geometry = geometry

    def render(self) -> str:
        """Return the character."""
        return self.value

    def extra_repr(self) -> str:
        return f"value='{self.value}', confidence={float(self.confidence):.2}"

    @classmethod
    def from_dict(cls, save_dict: dict[str, Any], **kwargs: Any) -> Self:
        """Restore a character from the result of `export`."""
        return cls(**{key: stored(save_dict, key, cls) for key in cls._exported_keys})


class Word(Element):
    """One word.

    Args:
        value: Its text.
        confidence: The confidence of the recogniser, in [0, 1].
        geometry: Its position, relative to the page: ((xmin, ymin), (xmax, ymax)), or four points in reading
            direction.
        objectness_score: The confidence of the detector, in [0, 1].
        crop_orientation: The rotation of the crop in degrees, with its confidence:
            ``{"value": 0, "confidence": None}``.
        characters: Its characters, if the recogniser reports them; `export` includes them on request only.

    Example:
        >>> from mediatensor.ocr.io._elements.leaves import Word
        >>> Word("hello", 0.99, ((0.1, 0.1), (0.3, 0.2)), 0.8, {"value": 0, "confidence": None})
        Word(value='hello', confidence=0.99)
    """

    _exported_keys: ClassVar[list[str]] = ["value", "confidence", "geometry", "objectness_score", "crop_orientation"]

    def __init__(
        self,
        value: str,
        confidence: float,
        geometry: Geometry,
        objectness_score: float,
        crop_orientation: dict[str, Any],
        *,
        characters: Sequence[Character] = (),
    ) -> None:
        super().__init__()
        self.value = value
        self.confidence = confidence
        self.geometry = geometry
        self.objectness_score = objectness_score
        self.crop_orientation = crop_orientation
        self.characters = tuple(characters)

    def render(self) -> str:
        """Return the text of the word."""
        return self.value

    def extra_repr(self) -> str:
        return f"value='{self.value}', confidence={float(self.confidence):.2}"

    def export(self, *, characters: bool = False) -> dict[str, Any]:
        """Export the word into a dictionary of plain types.

        Args:
            characters: Whether to include the characters, if these are known, under ``"characters"``.
        """
        exported = super().export()
        if characters and self.characters:
            exported["characters"] = [character.export() for character in self.characters]
        return exported

    @classmethod
    def from_dict(cls, save_dict: dict[str, Any], **kwargs: Any) -> Self:
        """Restore a word from the result of `export`, with its characters if they were exported."""
        values = {key: stored(save_dict, key, cls) for key in cls._exported_keys}
        characters = [Character.from_dict(character) for character in stored_list(save_dict, "characters", cls)]
        return cls(**values, characters=characters)


class Prediction(Word):
    """A word that key information extraction assigned to a class; arguments as for `Word`.

    Example:
        >>> from mediatensor.ocr.io import Prediction
        >>> Prediction("12.50", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None}).render()
        '12.50'
    """

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, bounding_box={self.geometry}"


class UnreadLine(Element):
    """A line of text that was found on a page, but not read, or not read completely.

    Args:
        geometry: Where it is, relative to the page: ((xmin, ymin), (xmax, ymax)) or four points in reading direction.
        reason: ``"no text"``: the model read no text, as in scripts that it does not know; ``"low confidence"``: the
            text that was read is not put on the page, see ``min_confidence``; ``"gaps"``: the text is on the page,
            but does not cover all ink of the line; ``"script"``: the model cannot read the script of the line.
        value: The text that was read. For ``"script"``, it is empty or consists of similar-looking characters.
        confidence: The confidence of ``value``, in [0, 1].
        script: The name of the script by ISO 15924, such as "Cyrillic", if ``reason`` is ``"script"``; "Vietnamese"
            for Latin letters with two marks.

    Example:
        >>> from mediatensor.ocr.io import UnreadLine
        >>> UnreadLine(((0.1, 0.1), (0.3, 0.2)), "no text")
        UnreadLine(reason='no text', value='', confidence=0.0)
    """

    _exported_keys: ClassVar[list[str]] = ["geometry", "reason", "value", "confidence"]

    def __init__(
        self, geometry: Geometry, reason: str, value: str = "", confidence: float = 0.0, script: str | None = None
    ) -> None:
        super().__init__()
        self.geometry = geometry
        self.reason = reason
        self.value = value
        self.confidence = confidence
        self.script = script

    def render(self) -> str:
        """Return the text that was recognised; it may be empty."""
        return self.value

    def extra_repr(self) -> str:
        script = "" if self.script is None else f", script={self.script!r}"
        return f"reason={self.reason!r}, value={self.value!r}, confidence={float(self.confidence):.2}{script}"

    def export(self, *, characters: bool = False) -> dict[str, Any]:
        """Return the line as a dictionary, with the key ``"script"`` if there is one; see `Element.export`."""
        exported = super().export(characters=characters)
        if self.script is not None:
            exported["script"] = self.script
        return exported

    @classmethod
    def from_dict(cls, save_dict: dict[str, Any], **kwargs: Any) -> Self:
        """Restore a line from the result of `export`."""
        values = {key: stored(save_dict, key, cls) for key in cls._exported_keys}
        if "script" in save_dict:
            values["script"] = stored(save_dict, "script", cls)
        return cls(**values)


class Artefact(TypedRegion):
    """Something on the page that is not text: a logo, a bar code, a photograph.

    Args:
        artefact_type: The type, such as "qr_code".
        confidence: The confidence of the type, in [0, 1].
        geometry: Its position, relative to the page.

    Example:
        >>> from mediatensor.ocr.io import Artefact
        >>> Artefact("qr_code", 0.8, ((0.1, 0.1), (0.2, 0.2))).export()["type"]
        'qr_code'
    """

    def __init__(self, artefact_type: str, confidence: float, geometry: Geometry) -> None:
        super().__init__(artefact_type, confidence, geometry)


class Line(Element):
    """A line of words.

    Args:
        words: The words, in order.
        geometry: The position on the page, in relative coordinates. By default it encloses the words: a box, or the
            rectangle of least area, in reading direction, if words have four points.
        objectness_score: The confidence of the detector, in [0, 1]; by default the mean over the words, 0.0
            without words.

    Example:
        >>> from mediatensor.ocr.io import Line, Word
        >>> turn = {"value": 0, "confidence": None}
        >>> line = Line([Word("two", 0.9, ((0.1, 0.1), (0.2, 0.2)), 0.8, turn),
        ...              Word("words", 0.9, ((0.3, 0.1), (0.5, 0.2)), 0.6, turn)])
        >>> line.render(), line.geometry
        ('two words', ((0.1, 0.1), (0.5, 0.2)))
    """

    _exported_keys: ClassVar[list[str]] = ["geometry", "objectness_score"]
    _children_names: ClassVar[Sequence[str]] = ["words"]
    words: list[Word]

    def __init__(
        self, words: list[Word], geometry: Geometry | None = None, objectness_score: float | None = None
    ) -> None:
        super().__init__(words=words)
        self.geometry = enclosing_geometry([word.geometry for word in words]) if geometry is None else geometry
        self.objectness_score = (
            mean_score(word.objectness_score for word in words) if objectness_score is None else objectness_score
        )

    @property
    def confidence(self) -> float:
        """The probability that the line was read exactly, in [0, 1]; 0.0 without words.

        It grows with the confidence of each word, and equals the confidence of a single word. Words of one line are
        right or wrong together more often than words of different lines, so that the result for several sure words is
        more than the product of their confidences. It is a probability only if the confidences of the
        words are probabilities, as with the default recogniser, but not with docTR's architectures.
        """
        return line_confidence(word.confidence for word in self.words)

    def render(self) -> str:
        """Return the words, separated by spaces."""
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
            is an empty box if there are none.
        objectness_score: The confidence of the detector, in [0, 1]; by default the mean over the words, 0.0
            without words.

    Example:
        >>> from mediatensor.ocr.io import Block, Line, Word
        >>> word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> block = Block([Line([word])])
        >>> block.geometry, block.render()
        (((0.1, 0.1), (0.3, 0.2)), 'Total')
    """

    _exported_keys: ClassVar[list[str]] = ["geometry", "objectness_score"]
    _children_names: ClassVar[Sequence[str]] = ["lines", "artefacts"]
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
        """Return the lines, separated by ``line_break``."""
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
