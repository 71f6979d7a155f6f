"""Encoding strings as the class numbers of a vocabulary, and decoding them."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InvalidArgumentError
from .vocabs import VOCABS

__all__ = ["decode_sequence", "encode_sequences", "encode_string", "translate"]


def translate(input_string: str, vocab_name: str, unknown_char: str = "■") -> str:
    """Rewrite a string with characters of a vocabulary.

    A character that is not in the vocabulary is dropped if it is white space, loses its accents if the vocabulary has
    the plain letter, and otherwise becomes ``unknown_char``.

    Args:
        input_string: the text.
        vocab_name: a key of :data:`~mediatensor.ocr.datasets.VOCABS`.
        unknown_char: the replacement of other characters.

    Returns:
        The text in characters of the vocabulary and ``unknown_char``.

    Raises:
        KeyError: no vocabulary has this name.

    >>> from mediatensor.ocr.datasets import translate
    >>> translate("Gdańsk 2 ₧", "french")
    'Gdansk2■'
    """
    if vocab_name not in VOCABS:
        raise KeyError(f"no vocabulary {vocab_name!r}; the names are the keys of VOCABS")
    characters = frozenset(VOCABS[vocab_name])
    return "".join(_translated(char, characters, unknown_char) for char in input_string)


def _translated(char: str, characters: frozenset[str], unknown_char: str) -> str:
    """One character as :func:`translate` writes it."""
    if char in characters:
        return char
    if char in string.whitespace:
        return ""
    bare = unicodedata.normalize("NFD", char).encode("ascii", "ignore").decode("ascii")
    return bare if bare in characters else unknown_char


@lru_cache(maxsize=32)
def _class_of(vocab: str) -> dict[str, int]:
    """The class of each character: its first position."""
    return {char: index for index, char in reversed(list(enumerate(vocab)))}


def encode_string(input_string: str, vocab: str) -> list[int]:
    """The class of each character of a string.

    Args:
        input_string: the text.
        vocab: the characters of the vocabulary, in the order of the classes.

    Returns:
        One class per character.

    Raises:
        InvalidArgumentError: characters of the text are not in the vocabulary; the message names them.

    >>> from mediatensor.ocr.datasets import encode_string
    >>> encode_string("cab", "abc")
    [2, 0, 1]
    """
    table = _class_of(vocab)
    try:
        return [table[char] for char in input_string]
    except KeyError:
        missing = "".join(sorted({char for char in input_string if char not in table}))
        raise InvalidArgumentError(
            f"{input_string!r} has characters that the vocabulary of {len(vocab)} lacks: {missing!r}; "
            "translate() replaces them"
        ) from None


def decode_sequence(input_seq: npt.NDArray[Any] | Sequence[int], mapping: str) -> str:
    """The string of a sequence of classes.

    Args:
        input_seq: the classes: a sequence of int or an integer array, each in ``[0, len(mapping))``.
        mapping: the characters of the vocabulary, in the order of the classes.

    Returns:
        The text.

    Raises:
        InvalidArgumentError: ``input_seq`` is not a sequence of integers, or a class is outside the vocabulary.

    >>> from mediatensor.ocr.datasets import decode_sequence
    >>> decode_sequence([2, 0, 1], "abc")
    'cab'
    """
    if not isinstance(input_seq, Sequence | np.ndarray):
        raise InvalidArgumentError(f"input_seq is a {type(input_seq).__name__}; expected a sequence of int or an array")
    classes = np.asarray(input_seq)
    if classes.size and not np.issubdtype(classes.dtype, np.integer):
        raise InvalidArgumentError(f"input_seq of dtype {classes.dtype}; expected integers")
    if classes.size and (classes.min() < 0 or classes.max() >= len(mapping)):
        raise InvalidArgumentError(
            f"input_seq has classes from {classes.min()} to {classes.max()}; "
            f"the vocabulary has {len(mapping)} characters"
        )
    return "".join(mapping[index] for index in classes.tolist())


def encode_sequences(
    sequences: list[str],
    vocab: str,
    target_size: int | None = None,
    eos: int = -1,
    sos: int | None = None,
    pad: int | None = None,
    dynamic_seq_length: bool = False,
) -> npt.NDArray[np.int32]:
    """Encode strings as rows of equal width, with the marks that sequence networks need.

    A row consists of ``sos`` if given, the classes of the string, ``eos``, and ``pad`` (``eos`` if not given) up to the
    width. A string that is too long is cut off at the width.

    Args:
        sequences: the N strings.
        vocab: the characters of the vocabulary, in the order of the classes.
        target_size: the width; by default that of the longest string.
        eos: the class that marks the end; outside the vocabulary.
        sos: the class that marks the start; outside the vocabulary.
        pad: the class that fills the row; outside the vocabulary.
        dynamic_seq_length: whether rows are only as wide as the longest string needs, at most ``target_size``.

    Returns:
        (N, width) array of int32.

    Raises:
        InvalidArgumentError: ``eos``, ``sos`` or ``pad`` is the class of a character, or a string has characters that
            the vocabulary lacks.

    >>> from mediatensor.ocr.datasets import encode_sequences
    >>> encode_sequences(["ab", "c"], "abc", eos=3).tolist()
    [[0, 1, 3], [2, 3, 3]]
    """
    for name, mark in (("eos", eos), ("sos", sos), ("pad", pad)):
        if mark is not None and 0 <= mark < len(vocab):
            raise InvalidArgumentError(
                f"{name}={mark} is the class of {vocab[mark]!r}; expected one outside [0, {len(vocab)})"
            )
    marks = 1 + (sos is not None) + (pad is not None)
    longest = max(map(len, sequences), default=0) + marks
    width = longest if target_size is None else target_size
    if dynamic_seq_length:
        width = min(width, longest)
    rows = np.full((len(sequences), width), eos if pad is None else pad, dtype=np.int32)
    for row, text in zip(rows, sequences, strict=True):
        encoded = [] if sos is None else [sos]
        encoded += [*encode_string(text, vocab), eos]
        row[: len(encoded)] = encoded[:width]
    return rows
