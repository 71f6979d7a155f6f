"""Convert texts to class numbers and back, and prepare the images and boxes of datasets."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ...errors import InvalidArgumentError
from ..io import get_img_shape, read_img_as_numpy
from ..utils import convert_to_relative_coords, extract_crops, extract_rcrops
from .vocabs import VOCABS

__all__ = [
    "convert_target_to_relative",
    "crop_bboxes_from_image",
    "decode_sequence",
    "encode_sequences",
    "encode_string",
    "pre_transform_multiclass",
    "translate",
]


def translate(input_string: str, vocab_name: str, unknown_char: str = "■") -> str:
    """Rewrite a string with the characters of a vocabulary.

    White space that is not in the vocabulary is dropped. Accents are removed from any other character that is not in
    the vocabulary. If the character without accents is not in the vocabulary either, it is replaced by
    ``unknown_char``.

    Args:
        input_string: the text.
        vocab_name: a key of `VOCABS`.
        unknown_char: replacement for characters that are not in the vocabulary.

    Returns:
        The text, with only characters of the vocabulary and ``unknown_char``.

    Raises:
        KeyError: no vocabulary has this name.

    >>> from mediatensor.ocr.datasets import translate
    >>> translate("Gdańsk 2 ₧", "french")
    'Gdansk2■'
    """
    if vocab_name not in VOCABS:
        raise KeyError(f"no vocabulary {vocab_name!r}; the names are the keys of VOCABS")
    characters = frozenset(VOCABS[vocab_name])
    return "".join(_translate_character(char, characters, unknown_char) for char in input_string)


def _translate_character(char: str, characters: frozenset[str], unknown_char: str) -> str:
    if char in characters:
        return char
    if char in string.whitespace:
        return ""
    bare = unicodedata.normalize("NFD", char).encode("ascii", "ignore").decode("ascii")
    return bare if bare in characters else unknown_char


@lru_cache(maxsize=32)
def _class_of(vocab: str) -> dict[str, int]:
    """Return the class of each character: its first position in the vocabulary."""
    return {char: index for index, char in reversed(list(enumerate(vocab)))}


def encode_string(input_string: str, vocab: str) -> list[int]:
    """Return the class index of each character of a string: its position in the vocabulary.

    Args:
        input_string: the text.
        vocab: the characters of the vocabulary, in the order of their class indices.

    Returns:
        A list with one class index for each character.

    Raises:
        InvalidArgumentError: characters of the text are not in the vocabulary.

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
    """Convert a sequence of class indices to a string.

    Args:
        input_seq: the class indices: a sequence of integers or an integer array, with values in ``[0, len(mapping))``.
        mapping: the characters of the vocabulary, in the order of their class indices.

    Returns:
        The text.

    Raises:
        InvalidArgumentError: ``input_seq`` is not a sequence of integers, or a class index is outside ``[0,
            len(mapping))``.

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
    """Encode strings as an array of class indices, with one row for each string, and with start and end markers.

    A row has ``sos`` (if given), the class indices of the string, ``eos``, and padding with ``pad`` (by default
    ``eos``). If this exceeds the width, the end of the row, including ``eos``, is cut off.

    Args:
        sequences: the N strings.
        vocab: the characters of the vocabulary, in the order of their class indices.
        target_size: the width of rows. By default, the width that the longest string needs, including the markers.
        eos: the number that marks the end of a string. It must not be the class index of a character.
        sos: the number that marks the start of a string. It must not be the class index of a character.
        pad: the number that fills up a row. It must not be the class index of a character.
        dynamic_seq_length: whether rows are only as wide as the longest string needs. ``target_size`` is then the
            maximum width.

    Returns:
        An int32 array (N, width).

    Raises:
        InvalidArgumentError: ``eos``, ``sos`` or ``pad`` is the class index of a character, or a character is not in
            the vocabulary.

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


def convert_target_to_relative(
    img: Tensor, target: npt.NDArray[Any] | dict[str, Any]
) -> tuple[Tensor, npt.NDArray[Any] | dict[str, Any]]:
    """Convert the boxes of a target from pixels to fractions of the image size.

    Args:
        img: The image (C, H, W).
        target: The boxes in pixels: an array (N, 4) as (xmin, ymin, xmax, ymax), or corners (N, 4, 2). Or a dict with
            this array as ``boxes``.

    Returns:
        The pair (image, target). The image is unchanged. The boxes in the target are float32, in fractions of the
        image's width and height, clipped to [0, 1]. If the target is a dict, a new dict is returned.

    Raises:
        InvalidArgumentError: The boxes have another shape.

    >>> import numpy as np
    >>> import torch
    >>> from mediatensor.ocr.datasets import convert_target_to_relative
    >>> convert_target_to_relative(torch.zeros(3, 100, 200), np.array([[20, 50, 60, 75]]))[1].tolist()
    [[0.10000000149011612, 0.5, 0.30000001192092896, 0.75]]
    """
    if isinstance(target, np.ndarray):
        return img, convert_to_relative_coords(target, get_img_shape(img))
    return img, {**target, "boxes": convert_to_relative_coords(target["boxes"], get_img_shape(img))}


def crop_bboxes_from_image(img_path: str | Path, geoms: npt.NDArray[Any]) -> list[npt.NDArray[np.uint8]]:
    """Cut boxes out of an image file.

    Args:
        img_path: The image file.
        geoms: Upright boxes (N, 4) as (xmin, ymin, xmax, ymax), or polygons (N, 4, 2) clockwise from the top left of
            the text, in pixels. Coordinates are truncated to integers.

    Returns:
        A list of N RGB arrays, uint8 (h, w, 3). The content of polygons is rotated upright. If a box is outside the
        image, its array is empty.

    Raises:
        InvalidArgumentError: The boxes have another shape or are not finite.
        SourceNotFoundError, OpenError, PageError: The file cannot be read.

    >>> import numpy as np
    >>> from mediatensor.ocr.datasets import crop_bboxes_from_image
    >>> [crop.shape for crop in crop_bboxes_from_image("page.png", np.array([[10, 20, 110, 60]]))]
    [(40, 100, 3)]
    """
    if geoms.shape[1:] not in ((4,), (4, 2)):
        raise InvalidArgumentError(f"geoms must be of shape (N, 4) or (N, 4, 2), got {geoms.shape}")
    if not np.isfinite(geoms).all():
        raise InvalidArgumentError("geoms must be finite, got NaN or infinity")
    image = read_img_as_numpy(img_path)
    # Clip them first, because coordinates may exceed int64.
    pixels = geoms.clip(-1e9, 1e9).astype(np.int64)
    return extract_crops(image, pixels) if geoms.ndim == 2 else extract_rcrops(image, pixels)


def pre_transform_multiclass(
    img: Tensor, target: tuple[npt.NDArray[Any], list[str]]
) -> tuple[Tensor, dict[str, npt.NDArray[Any]]]:
    """Group the boxes of an image by class, and divide them by the size of the image.

    Args:
        img: The image (C, H, W).
        target: The N boxes in pixels, (N, 4) as (xmin, ymin, xmax, ymax) or (N, 4, 2), and a list with the class name
            of each.

    Returns:
        The pair (image, target). The image is unchanged. The target is a dict from each class name to its boxes,
        float32, in fractions of the image's width and height, clipped to [0, 1]. Class names are in alphabetical order.

    Raises:
        InvalidArgumentError: The numbers of classes and boxes differ, or the boxes have another shape.

    >>> import numpy as np
    >>> import torch
    >>> from mediatensor.ocr.datasets import pre_transform_multiclass
    >>> boxes = np.array([[20, 50, 60, 75], [0, 0, 100, 50]])
    >>> _, by_class = pre_transform_multiclass(torch.zeros(3, 100, 200), (boxes, ["words", "logo"]))
    >>> list(by_class), by_class["logo"].tolist()
    (['logo', 'words'], [[0.0, 0.0, 0.5, 0.5]])
    """
    boxes, classes = target
    if len(boxes) != len(classes):
        raise InvalidArgumentError(f"target has {len(boxes)} boxes and {len(classes)} classes")
    relative = convert_to_relative_coords(boxes, get_img_shape(img))
    return img, {name: relative[[own == name for own in classes]] for name in sorted(set(classes))}
