"""Detect pages that are shown without motion, and decide by their lines of text which of them are slides.

Pages are detected on downscaled luma frames. The ink of a page is its strong edges. A page lasts as long as most of its
initial ink and at least half of all its ink are visible. Bullet points that are added therefore do not start a new
page. Regions that keep moving, such as a speaker's window, are excluded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ....decoders import VideoDecoder
from ....decoders._access import access_to
from ....errors import OutOfRangeError
from ._tracking import MAX_GAP, LineTrack
from ._watching import CELL_SIZE, EDGE_CONTRAST, REST_DIFFERENCE, Box, Gray, Mask, count_in_cells, difference

# For the effect of each number and predicate, see benchmarks/results/video_text_rules.md.
SMALL_HEIGHT = 120  # approximate height in pixels of the downscaled frames
MAX_INK_CHANGE = 24  # greatest change of an ink pixel while its page is shown
FEWEST_INK = 40
MAX_MOVING_SHARE = 0.2  # greatest share of the frame that may keep moving
# Least shares of the initial ink and of all ink that must still be visible.
MIN_SHOWN_CORE, MIN_SHOWN_INK = 0.7, 0.5
MIN_SHARED_INK = 0.9  # least share of an earlier state's ink that a page must contain
FEWEST_SECONDS = 1.5
REMEMBERED_SECONDS = 3.5
SECONDS_BETWEEN_UPDATES = 0.2
# A frame is at rest if nothing changed for this long. Successive frames are not compared, because slow fades change
# little between two frames.
REST_SECONDS = 0.12
# Number of pixels of downscaled frames that may change at rest, because of blinking cursors and coding noise.
MAX_CHANGED_PIXELS = 8
FEWEST_LINES = 3
# Least height of large text, as a share of the frame's height; one such line makes a page a slide. The lines of usual
# captions have up to 0.11.
LARGE_TEXT_HEIGHT = 0.12
LARGE_TEXT_BOTTOM = 0.7  # greatest height of its center, as a share of the frame's height; captions are lower
# At least two lines of a slide have their centers above this share of the frame's height; captions are lower.
BODY_BOTTOM = 0.78
TOGETHER_FRAMES = 3


@dataclass(eq=False)
class StillPage:
    """A page that is shown without motion, and its range of frames.

    ``small`` and ``first_small`` are downscaled frames that show it. A page is established once it has been shown for
    `FEWEST_SECONDS`.
    """

    first_frame: int
    last_frame: int
    first_seconds: float
    small: Gray  # the last state
    calm: Mask  # the pixels that never kept moving
    core: Mask  # the initial ink
    ink: Mask  # all ink, including ink that was added later
    is_established: bool = False  # whether the page was shown long enough
    grown_frame: int = 0  # the last frame in which ink was added
    rest_frame: int = -1  # the last frame at rest, before the page fades out
    first_small: Gray = field(default_factory=lambda: np.zeros((0, 0), np.uint8))


class SlideWatch:
    """Detects pages shown without motion, given every frame. ``height`` is the height of the frames in pixels."""

    def __init__(self, height: int) -> None:
        self._step = max(1, round(height / SMALL_HEIGHT))
        self._before: Gray | None = None
        self._recent: deque[tuple[int, float, Gray]] = deque()
        self._activity: npt.NDArray[np.float32] | None = None
        self._updated_at = -np.inf
        self._rested: Gray | None = None
        self._ended_at = -1
        self._is_clear = False
        self.page: StillPage | None = None  # shown now, perhaps not for long enough

    def see(self, frame: int, seconds: float, luma: Gray) -> StillPage | None:
        """Process the next frame. Return the previous page if it is no longer shown, but was shown for long enough."""
        small = luma[self._step // 2 :: self._step, self._step // 2 :: self._step].copy()
        before, self._before = self._before, small
        self._recent.append((frame, seconds, small))
        while seconds - self._recent[0][1] > REMEMBERED_SECONDS:
            self._recent.popleft()
        if before is None or before.shape != small.shape:
            self._activity, self._rested, self._recent = None, None, deque([(frame, seconds, small)])
            return self._turn(frame, seconds, small)
        page = self.page
        changed = difference(small, before) > REST_DIFFERENCE
        has_changed = bool(changed.any())
        self._note_activity(changed, has_changed)
        if page is None:
            return self._turn(frame, seconds, small)
        if has_changed or not self._is_clear:
            self._is_clear = self._is_shown(page, small)
        if self._is_clear:
            page.last_frame = frame
            if self._is_at_rest(small, seconds):
                page.rest_frame = frame
        elif frame - page.last_frame > MAX_GAP or not page.is_established:
            return self._turn(frame, seconds, small)
        if seconds - self._updated_at >= SECONDS_BETWEEN_UPDATES:
            self._updated_at = seconds
            if self._is_clear:
                self._update(page, small, seconds)
            self._rested = small
        return None

    def finish(self) -> StillPage | None:
        """Return the page shown at the end of the video, or None if there is none or it was shown too briefly."""
        page, self.page = self.page, None
        return page if page is not None and page.is_established else None

    def _note_activity(self, changed: Mask, has_changed: bool) -> None:
        if self._activity is None:
            self._activity = np.zeros(count_in_cells(changed).shape, np.float32)
        self._activity *= 0.9
        if has_changed:
            self._activity += count_in_cells(changed) > 3

    def _pixels_at_rest(self, shape: tuple[int, ...]) -> Mask:
        """Return a mask of the pixels that are not in or near regions that keep moving."""
        if self._activity is None:
            return np.ones(shape, bool)
        calm = self._activity <= 1.5
        resting: Mask = calm.repeat(CELL_SIZE, 0).repeat(CELL_SIZE, 1)[: shape[0], : shape[1]]
        return resting

    def _is_shown(self, page: StillPage, small: Gray) -> bool:
        if self._activity is not None and (self._activity > 1.5).mean() > MAX_MOVING_SHARE:
            return False
        resting = self._pixels_at_rest(small.shape)
        core, ink = page.core & resting, page.ink & resting
        if core.sum() < FEWEST_INK:
            return False
        is_same = difference(small, page.small) <= MAX_INK_CHANGE
        was_same = difference(small, page.first_small) <= MAX_INK_CHANGE
        kept = (was_same & core).sum() / core.sum()
        return bool(kept >= MIN_SHOWN_CORE and (is_same & ink).sum() >= MIN_SHOWN_INK * ink.sum())

    def _is_at_rest(self, small: Gray, seconds: float) -> bool:
        """Return whether the video has not changed for `REST_SECONDS`, except in regions that keep moving."""
        earlier = next((one for _, shown_at, one in reversed(self._recent) if seconds - shown_at >= REST_SECONDS), None)
        if earlier is None:
            return False
        unrest = (difference(small, earlier) > REST_DIFFERENCE) & self._pixels_at_rest(small.shape)
        return bool(unrest.sum() <= MAX_CHANGED_PIXELS)

    def _turn(self, frame: int, seconds: float, small: Gray) -> StillPage | None:
        """Start a new page. Return the previous page, or None if it was shown for too short a time."""
        ended = self.finish()
        if ended is not None:
            self._ended_at = ended.last_frame
        ink = _ink(small)
        calm = np.ones(small.shape, bool)
        self.page = StillPage(frame, frame, seconds, small, calm, ink, ink, grown_frame=frame, first_small=small)
        self._rested, self._updated_at, self._is_clear = small, seconds, True
        return ended

    def _update(self, page: StillPage, small: Gray, seconds: float) -> None:
        """Add new still content to the page, such as bullet points; after a while, establish it and find its start."""
        if self._rested is not None:
            calm = self._pixels_at_rest(small.shape)
            if page.is_established:  # earlier, the page may be fading in
                page.calm = page.calm & calm
            at_rest = (difference(small, self._rested) <= REST_DIFFERENCE) & calm
            state = np.where(at_rest, small, page.small)
            if (difference(state, page.small) > MAX_INK_CHANGE).any():
                ink = _ink(state)
                if (ink & ~page.ink).sum() > CELL_SIZE:
                    page.grown_frame = page.last_frame
                page.ink = ink
            page.small = state
        if not page.is_established and seconds - page.first_seconds >= FEWEST_SECONDS:
            page.is_established = True
            page.core = (
                page.core & self._pixels_at_rest(small.shape) & (difference(small, page.first_small) <= MAX_INK_CHANGE)
            )
            for frame, shown_at, earlier in reversed(self._recent):
                if frame >= page.first_frame:
                    continue
                is_same = difference(earlier, page.first_small) <= MAX_INK_CHANGE
                if frame <= self._ended_at or (is_same & page.core).sum() < MIN_SHOWN_CORE * page.core.sum():
                    break
                page.first_frame, page.first_seconds = frame, shown_at


def is_slide(page: StillPage, lines: Sequence[LineTrack], top: int, height: int) -> bool:
    """Return whether a page is a slide: apart from captions, it must show several lines or one large line.

    ``top`` is the first pixel row of the region of the video that is read. ``height`` is the height of the whole frame
    in pixels.
    """
    own = [line for line in lines if line.readings and not line.places and is_on_page(line, page)]
    rows = {round(((line.box[1] + line.box[3]) / 2 + top) / height, 2): line for line in own}
    body = [middle for middle in rows if middle < BODY_BOTTOM]
    is_large = any(
        middle < LARGE_TEXT_BOTTOM and line.box[3] - line.box[1] >= LARGE_TEXT_HEIGHT * height
        for middle, line in rows.items()
    )
    return is_large or (len(rows) >= FEWEST_LINES and len(body) >= FEWEST_LINES - 1)


def is_on_page(line: LineTrack, page: StillPage) -> bool:
    """Return whether a line belongs to a page: it appears when the page appears, or stays until the page disappears.

    A caption does neither of the two. All frames that show the line must be frames of the page, except frames in which
    the line fades.
    """
    first, last = line.root.first_frame, line.last_frame
    if last < page.first_frame or first > page.last_frame:
        return False
    whole_first, whole_last = line.root.whole_frames[0], line.whole_frames[-1]
    if whole_first < page.first_frame - TOGETHER_FRAMES or whole_last > page.last_frame + TOGETHER_FRAMES:
        return False
    return first <= page.first_frame + TOGETHER_FRAMES or last >= page.last_frame - TOGETHER_FRAMES


def is_part_of_page(page: StillPage, other: StillPage) -> bool:
    """Return whether ``page`` shows only a part of ``other``, such as a slide without its last bullet point."""
    if page.small.shape != other.small.shape:
        return False
    ink = page.ink & page.calm & other.calm
    is_same = difference(page.small, other.small) <= MAX_INK_CHANGE
    return bool(ink.sum() >= FEWEST_INK and (is_same & ink & other.ink).sum() >= MIN_SHARED_INK * ink.sum())


def _ink(small: Gray) -> Mask:
    ink = np.zeros(small.shape, bool)
    ink[:, 1:] |= difference(small[:, 1:], small[:, :-1]) > EDGE_CONTRAST
    ink[:, :-1] |= ink[:, 1:]
    return ink


@dataclass(frozen=True)
class SlidePicture:
    """Function that decodes the image of a slide, (H, W, 3). The image is not kept, so each call decodes it again."""

    video: Any
    frame: int
    size: tuple[int, int]
    part: Box

    def __call__(self) -> npt.NDArray[np.uint8]:
        left, top, right, bottom = self.part
        is_open = isinstance(self.video, VideoDecoder)
        with (
            nullcontext(self.video) if is_open else closing(VideoDecoder(self.video)) as decoder,
            closing(access_to(decoder).pictures(self.frame)) as pictures,
        ):
            for picture in pictures:
                return np.ascontiguousarray(picture.rgb(self.size)[top:bottom, left:right])
        raise OutOfRangeError(f"Frame {self.frame}, which shows the slide, is no longer there.")
