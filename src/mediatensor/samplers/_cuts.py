"""Where the picture changes at once, and where it fades to black: small pictures in, cuts out.

The rule is that of PySceneDetect's ``AdaptiveDetector`` (https://www.scenedetect.com/docs/latest/api/detectors.html):
the mean absolute difference of two pictures in succession, compared with those around it, so that a camera that moves
is no cut. Here the components are luma and chroma, as they are stored.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["SMALL_SIZE", "Cut", "CutFinder", "CutRule", "Seen", "difference"]

#: (height, width) of the pictures that are compared.
SMALL_SIZE = (72, 128)

SmallPicture = NDArray[np.uint8]

# A score is compared with as many scores on either side: of pictures that changed, and no further away than this.
_NEIGHBOURS, _NEIGHBOUR_REACH = 2, 8
# Below this score a picture repeats the one before it, as in animation, or where a rate was raised.
_REPEATED = 1.0

# Luma of what is taken for black; 16 is black, and codecs add a little noise.
_DARK, _BLACK_MEAN, _BLACK_SPREAD = 32, 24.0, 4.0
# Black bars do not count, but what lies between them counts as at least this share of the picture.
_LEAST_SHARE = 0.25


@dataclass(frozen=True)
class Cut:
    """The first frame of a scene, when it is shown, and by how much it differs from what was before."""

    frame: int
    seconds: float
    score: float


@dataclass(frozen=True)
class CutRule:
    """What is a cut.

    Attributes:
        threshold: The least score of a cut, in levels of 255.
        ratio: How many times the mean score of its neighbours a cut has at least.
        max_flash: The most pictures of a flash: something else, and then what was shown before it.
    """

    threshold: float
    ratio: float
    max_flash: int

    @property
    def num_ahead(self) -> int:
        """How many pictures behind one must be known to judge it."""
        return max(_NEIGHBOUR_REACH, self.max_flash)

    def is_return(self, before: Seen, later: Seen, score: float) -> bool:
        """Whether a picture shows again what was seen before a change of this score."""
        return difference(before, later) < score / max(self.ratio, 2.0)


class Seen:
    """A picture that was seen, with its score against the one before it.

    Args:
        frame: Its index.
        seconds: When it is shown.
        picture: Luma and chroma (3, H, W).
    """

    def __init__(self, frame: int, seconds: float, picture: SmallPicture) -> None:
        self.frame, self.seconds, self.picture = frame, seconds, picture
        self.score = 0.0
        is_lit = picture[0] > _DARK
        self.rows, self.columns = is_lit.any(1), is_lit.any(0)


class CutFinder:
    """Takes the pictures of a video in order, and finds cuts. It holds a few of them.

    Args:
        rule: What is a cut.
    """

    def __init__(self, rule: CutRule) -> None:
        self._rule, self._ahead = rule, rule.num_ahead
        # The picture that is judged next lies ``_judged`` pictures behind the left end.
        self._held: deque[Seen] = deque()
        self._judged = 0
        # Where the picture became black.
        self._black: Cut | None = None

    def see(self, seen: Seen) -> list[Cut]:
        """Take the next picture.

        Returns:
            The cuts that are certain now, ascending.
        """
        if self._held:
            seen.score = difference(self._held[-1], seen)
        self._held.append(seen)
        return self._judge() if len(self._held) > self._judged + self._ahead else []

    def finish(self) -> list[Cut]:
        """The cuts that are certain now that there are no more pictures."""
        found = []
        while self._judged < len(self._held):
            found += self._judge()
        return found

    def _judge(self) -> list[Cut]:
        """Say what the next picture is, now that those behind it are known."""
        place, held = self._judged, self._held
        seen = held[place]
        is_abrupt = self._is_abrupt(place)
        found = [Cut(seen.frame, seen.seconds, seen.score)] if is_abrupt and not self._is_flash(place) else []
        # A fade: the picture becomes black, and comes back out of it, without anything abrupt at either end.
        if self._black is not None and (is_abrupt or not _is_black(seen)):
            found = found if is_abrupt else [self._black]
            self._black = None
        elif place > 0 and not is_abrupt and _is_black(seen) and not _is_black(held[place - 1]):
            self._black = Cut(seen.frame, seen.seconds, difference(held[max(0, place - self._ahead)], seen))
        if place > self._ahead:
            held.popleft()
        else:
            self._judged += 1
        return found

    def _is_abrupt(self, place: int) -> bool:
        score = self._held[place].score
        return score >= self._rule.threshold and score >= self._rule.ratio * self._mean_of_neighbours(place)

    def _mean_of_neighbours(self, place: int) -> float:
        """The mean of the scores around one. A score that is missing counts as 0, as does that of a still picture."""
        scores = [seen.score for seen in self._held]
        before = scores[max(0, place - _NEIGHBOUR_REACH) : place][::-1]
        after = scores[place + 1 : place + 1 + _NEIGHBOUR_REACH]
        changed = [[score for score in side if score >= _REPEATED][:_NEIGHBOURS] for side in (before, after)]
        return sum(map(sum, changed)) / (2 * _NEIGHBOURS)

    def _is_flash(self, place: int) -> bool:
        """Whether soon after the picture comes what was before it, or soon before it was what it shows."""
        held, rule, seen = self._held, self._rule, self._held[place]
        behind = (held[place + k] for k in range(1, rule.max_flash + 1) if place + k < len(held))
        ahead = (held[place - 1 - k] for k in range(1, rule.max_flash + 1) if place - 1 - k >= 0)
        return any(rule.is_return(held[place - 1], other, seen.score) for other in behind) or any(
            rule.is_return(other, seen, seen.score) for other in ahead
        )


def difference(one: Seen, other: Seen) -> float:
    """The score of two pictures: mean absolute difference of luma plus those of chroma, between black bars."""
    first, second = one.picture, other.picture
    total = (np.maximum(first, second) - np.minimum(first, second)).sum(dtype=np.uint32)
    share = _extent(one.rows | other.rows) * _extent(one.columns | other.columns)
    return float(total / (first[0].size * max(share, _LEAST_SHARE)))


def _extent(is_lit: NDArray[np.bool_]) -> float:
    """The share of rows or columns from the first lit one to the last."""
    first, last = is_lit.argmax(), is_lit[::-1].argmax()
    return float(len(is_lit) - first - last) / len(is_lit) if is_lit[first] else 0.0


def _is_black(seen: Seen) -> bool:
    luma = seen.picture[0]
    return not seen.rows.any() and bool(luma.mean() <= _BLACK_MEAN and luma.std() <= _BLACK_SPREAD)
