"""The content of a page that is a picture: its words are known, its rules, pictures and heavy type are found here.

Everything is measured in ems, the height of most words, so that the resolution does not matter. Large pictures are
reduced first: a rule that can be seen is seen in two megapixels as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from ....errors import InvalidArgumentError
from .._content import Boxes, PageContent
from .bold import bold_words
from .pictures import find_pictures, outside
from .rules import find_rules

__all__ = ["content_of_picture"]

# Pixels of the picture that is looked at.
_MAX_PIXELS = 2_600_000
# Pictures with words lower than this, in pixels, are enlarged, as then rules are no wider than the gaps in letters.
_MIN_EM = 16
# The height of words as a share of the longer side, where there are none.
_USUAL_HEIGHT = 0.012


def content_of_picture(
    image: NDArray[np.uint8],
    boxes: ArrayLike,
    texts: Sequence[str],
    line_ids: ArrayLike,
    confidences: ArrayLike,
    *,
    turns: ArrayLike | None = None,
) -> PageContent:
    """What is on an upright picture of a page.

    Rules are solid, dashed or dotted lines in any colour, and the edges of filled cells, bands and alternating rows;
    two that are closer together than a third of the height of words count as one. They may be skewed by about one
    degree. A line under a word is a rule as well: it is not much longer than that word, and within half a word's height
    below its box. What lies inside of pictures is not reported.

    Pictures are areas that are neither words nor rules: photographs, drawings, logos, signatures; a chart with the
    words in it is one picture.

    Args:
        image: uint8 (H, W, 3), or (H, W) in gray.
        boxes: (N, 4), in pixels: xmin, ymin, xmax, ymax of each word.
        texts: The N words.
        line_ids: (N,): the line of text that each word was found in.
        confidences: (N,), in [0, 1].
        turns: (N,): by how many degrees each word is turned clockwise: 0, 90, 180 or 270. By default 0.

    Returns:
        The content, in pixels of ``image``. The sizes of type are not known.

    Raises:
        InvalidArgumentError: if the picture is of another shape or type, or the numbers of words do not agree.
        MissingDependencyError: if SciPy is not installed.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.structure import content_of_picture
        >>> image = np.full((200, 300, 3), 255, np.uint8)
        >>> image[99:101, 20:280] = 0
        >>> content = content_of_picture(image, [(30, 60, 90, 80)], ["word"], [0], [1.0])
        >>> content.horizontal_rules.round().tolist(), content.vertical_rules.shape
        ([[20.0, 99.0, 280.0, 101.0]], (0, 4))
    """
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] != 3):
        raise InvalidArgumentError(
            f"image is {image.dtype} of shape {image.shape}; accepted: uint8 of shape (H, W, 3) or (H, W)"
        )
    placed = np.asarray(boxes, np.float64).reshape(-1, 4)
    lines, sure = np.asarray(line_ids, np.int64).ravel(), np.asarray(confidences, np.float64).ravel()
    quarters = np.zeros(len(placed), np.int64) if turns is None else np.asarray(turns, np.int64).ravel()
    if not len(placed) == len(texts) == len(lines) == len(sure) == len(quarters):
        raise InvalidArgumentError(
            f"there are {len(placed)} boxes, {len(texts)} texts, {len(lines)} line_ids, {len(sure)} confidences and "
            f"{len(quarters)} turns; there should be one of each for every word"
        )
    if not np.isin(quarters, (0, 90, 180, 270)).all():
        raise InvalidArgumentError(f"turns has {quarters.tolist()}; accepted: 0, 90, 180 and 270 degrees")
    height, width = image.shape[:2]
    rules: tuple[Boxes, Boxes] = np.zeros((0, 4)), np.zeros((0, 4))
    pictures, is_bold = np.zeros((0, 4)), np.zeros(len(placed), bool)
    if min(width, height) >= 16:
        heights = np.clip(placed[:, 3] - placed[:, 1], 0, None)
        em = float(np.median(heights)) if len(heights) else _USUAL_HEIGHT * max(height, width)
        ink, factor = _ink_of(image, em)
        small, em = placed / factor, em / factor
        em = float(np.clip(em, 8, max(8, min(ink.shape) / 4)))
        found = find_rules(ink, small, em)
        drawn = find_pictures(ink, small, found, em)
        rules = outside(found[0], drawn, em) * factor, outside(found[1], drawn, em) * factor
        pictures = drawn * factor
        is_bold = bold_words(ink, small, texts, lines)
    limits = np.array([width, height, width, height], np.float64)
    return PageContent(
        width=float(width),
        height=float(height),
        boxes=placed,
        texts=tuple(texts),
        line_ids=lines,
        confidences=sure,
        font_sizes=np.full(len(placed), np.nan),
        is_bold=is_bold,
        horizontal_rules=rules[0].clip(0, limits),
        vertical_rules=rules[1].clip(0, limits),
        pictures=pictures.clip(0, limits),
        turns=quarters,
    )


def _ink_of(image: NDArray[np.uint8], em: float) -> tuple[NDArray[np.uint8], float]:
    """How much each pixel differs from bright paper, uint8 (H, W), of dark paper how bright it is; and the reduction.

    Small words are enlarged to twice their size, which is a reduction by one half.

    A pixel is as dark as its darkest channel, so that colours count as much as black does.
    """
    height, width = image.shape[:2]
    factor: float = max(1, int(np.ceil((height * width / _MAX_PIXELS) ** 0.5)))
    if factor > 1:
        image = np.asarray(Image.fromarray(image).reduce(int(factor)))
    elif em < _MIN_EM and 4 * height * width <= _MAX_PIXELS:
        image = np.asarray(Image.fromarray(image).resize((2 * width, 2 * height), Image.Resampling.BICUBIC))
        factor = 0.5
    is_dark = float(np.median(image[::7, ::7])) < 100
    if image.ndim == 2:
        return (image.copy() if is_dark else 255 - image), factor
    mixed = np.maximum if is_dark else np.minimum
    channel = mixed(mixed(image[..., 0], image[..., 1]), image[..., 2])
    return (channel if is_dark else 255 - channel), factor
