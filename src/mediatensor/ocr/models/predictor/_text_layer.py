"""Use the words that pages of PDF files have, and find what is left to be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ...io.elements import Character, Word
from ...structure import PageContent
from ...utils.geometry import boxes_around
from .._lines.cutting import signed_turn
from .._lines.page_lines import ClassWords
from .._pages.straightening import Straightening, map_boxes

__all__ = ["joined", "outside_pictures", "set_upright", "with_words", "words_of_layer"]

# A picture that is smaller than this share of the page has no relevant text: logos, rules, bullets.
_MIN_PICTURE = 0.005
# The box of a word that was added to a scan is enlarged by this share of its smaller side before it is left out.
_MARGIN = 0.2


def words_of_layer(
    stored: Sequence[Word], content: PageContent, ignored: npt.NDArray[np.float64]
) -> tuple[ClassWords, npt.NDArray[np.intp]]:
    """Return the words of a text layer as if they had been read, and the index of each in the layer.

    Words whose middle lies in one of the boxes ``ignored`` (R, 4) are left out.
    """
    boxes = np.array([np.ravel(word.geometry) for word in stored], dtype=np.float64).reshape(-1, 4)
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2
    is_in = np.logical_and(middles[:, None] >= ignored[None, :, :2], middles[:, None] <= ignored[None, :, 2:])
    kept = np.flatnonzero(~np.any(np.all(is_in, axis=2), axis=1))
    chosen = [stored[index] for index in kept.tolist()]
    words = ClassWords(
        boxes[kept],
        np.ones(len(kept)),
        [(word.value, word.confidence) for word in chosen],
        [{"value": signed_turn(turn), "confidence": None} for turn in content.turns[kept].tolist()],
        content.line_ids[kept],
        [word.characters for word in chosen],
    )
    return words, kept


def set_upright(words: ClassWords, content: PageContent, plan: Straightening) -> tuple[ClassWords, PageContent]:
    """Move the words and the content of a page turned by 90, 180 or 270 degrees to its upright form."""

    def moved(boxes: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        return np.asarray(map_boxes(np.asarray(boxes, dtype=np.float64), plan.forward))

    letters = [letter for own in words.characters or [] for letter in own]
    places = iter(moved(np.array([np.ravel(letter.geometry) for letter in letters]).reshape(-1, 4)).tolist())
    characters: list[Sequence[Character]] = [
        [
            Character(letter.value, letter.confidence, ((left, top), (right, bottom)))
            for letter, (left, top, right, bottom) in zip(own, places, strict=False)
        ]
        for own in words.characters or []
    ]
    quarter_turn = round(plan.angle)
    own_turns = [(orientation["value"] - quarter_turn) % 360 for orientation in words.orientations]
    upright = replace(
        words,
        boxes=moved(words.boxes),
        orientations=[{"value": signed_turn(turn), "confidence": None} for turn in own_turns],
        characters=characters,
    )
    return upright, content.turned_back(quarter_turn)


def outside_pictures(content: PageContent) -> npt.NDArray[np.float64] | None:
    """Return boxes (R, 4) that need not be read: all but the pictures without words of the file.

    If the whole page is such a picture, these are the words that were added to it. ``None``: no picture has to be read.
    """
    size = np.array([content.width, content.height] * 2)
    if content.is_unread_scan:
        sides = content.boxes[:, 2:] - content.boxes[:, :2]
        margins = _MARGIN * sides.min(axis=1, keepdims=True)
        around: npt.NDArray[np.float64] = (content.boxes + margins * np.array([-1, -1, 1, 1])) / size
        return around.clip(0, 1)
    middles = (content.boxes[:, :2] + content.boxes[:, 2:]) / 2
    unread = [
        box / size
        for box in content.pictures
        if np.prod(box[2:] - box[:2]) >= _MIN_PICTURE * content.width * content.height
        and not ((middles >= box[:2]) & (middles <= box[2:])).all(axis=1).any()
    ]
    if not unread:
        return None
    # Cut along all sides, so that each piece is in a picture or outside of all.
    pictures = np.clip(np.array(unread), 0, 1)
    across = np.unique([0.0, 1.0, *pictures[:, [0, 2]].ravel().tolist()])
    down = np.unique([0.0, 1.0, *pictures[:, [1, 3]].ravel().tolist()])
    left, top = np.meshgrid(across[:-1], down[:-1])
    right, bottom = np.meshgrid(across[1:], down[1:])
    pieces = np.stack([left, top, right, bottom], axis=-1).reshape(-1, 4)
    centres = (pieces[:, None, :2] + pieces[:, None, 2:]) / 2
    is_in = ((centres >= pictures[None, :, :2]) & (centres <= pictures[None, :, 2:])).all(axis=2).any(axis=1)
    outside: npt.NDArray[np.float64] = pieces[~is_in]
    return outside


def joined(words: ClassWords, more: ClassWords) -> ClassWords:
    """Join the words of a text layer and those read in pictures, whose lines get further numbers."""
    if not more.texts:
        return replace(words, unread=more.unread, found=more.found)
    known = np.zeros(0, np.int64) if words.line_ids is None else words.line_ids
    lines = np.arange(len(more.texts)) if more.line_ids is None else more.line_ids
    return ClassWords(
        np.concatenate([words.boxes, more.boxes[:, :4] if more.boxes.ndim == 2 else boxes_around(more.boxes[:, :4])]),
        np.concatenate([words.scores, more.scores]),
        [*words.texts, *more.texts],
        [*words.orientations, *more.orientations],
        np.concatenate([known, lines + known.max(initial=-1) + 1]),
        [*(words.characters or []), *(more.characters or [()] * len(more.texts))],
        more.unread,
        more.found,
    )


def with_words(content: PageContent, words: ClassWords, kept: npt.NDArray[np.intp]) -> PageContent:
    """Return the content of a page with its final words: those ``kept`` of the file, then those read."""
    num_read = len(words.texts) - len(kept)
    return replace(
        content,
        boxes=np.asarray(words.boxes, dtype=np.float64) * np.array([content.width, content.height] * 2),
        texts=tuple(text for text, _ in words.texts),
        line_ids=np.zeros(0, np.int64) if words.line_ids is None else words.line_ids,
        confidences=np.array([confidence for _, confidence in words.texts], dtype=np.float64),
        font_sizes=np.concatenate([content.font_sizes[kept], np.full(num_read, np.nan)]),
        is_bold=np.concatenate([content.is_bold[kept], np.zeros(num_read, np.bool_)]),
        turns=np.concatenate([content.turns[kept], np.zeros(num_read, np.int64)]),
    )
