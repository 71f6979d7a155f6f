"""Track each line of text in a video from the first to the last frame that shows it."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import lru_cache
from statistics import median

import numpy as np
import numpy.typing as npt

from ._watching import (
    WIDE_PITCH,
    Band,
    Box,
    Brightness,
    ChangeWatch,
    FrameReader,
    Gray,
    Picture,
    Reading,
    Shift,
    Template,
    difference,
    has_moved_to,
    is_in_line,
    is_sung,
    is_within,
    join_pieces,
    lines_overlap,
    pitch_of,
    union,
)

# For the effect of each number and predicate, see benchmarks/results/video_text_rules.md.
SECONDS_BETWEEN_COMPARISONS = 0.1
REMEMBERED_SECONDS = 1.5  # time span before the detection in which the first frame of a text is searched
FEWEST_REMEMBERED = 12
# Limit on the memory for buffered frames; large frames are buffered for less time.
REMEMBERED_BYTES = 192 * 2**20
MIN_VISIBLE_STROKES = 0.4  # least share of a text's strokes that is readable during a fade
SUDDEN_LOSS = 0.4  # a text that loses more than this share of its strokes between two frames was replaced
WHOLE_STROKES = 0.9  # a text with this share of its strokes has completely faded in
# If the visible strokes increase by this factor after detection, the text was still fading in.
FADE_IN_GROWTH = 1.2
# Time after detection at which the strokes are measured again, because the text may have been fading in.
SETTLED_SECONDS = 0.2
FADE_STEP_SECONDS = 0.08  # interval between the frames used to distinguish fades from motion
LEAST_FADE = 2.5  # least mean change of fading strokes in one such interval, of 255
# Least cosine between the changes in two intervals of a fade; motion has varying directions.
MIN_FADE_COSINE = 0.6
FADED_STEPS = 3  # a text detected within this many intervals after a fade has faded in
LONGEST_FADE_SECONDS = 1.5  # longest time after detection in which a text can still be fading in
# Most consecutive frames without the text, due to flashes or damage, after which the track continues.
MAX_GAP = 2
# A text counts as moving if the boxes of its joined tracks differ by at least this, in line heights. On generated
# clips, they differed by 0.0 for still texts, by 0.8 for a text that moved by half a pixel per frame, and by more for
# credits.
LEAST_DRIFT = 0.4
FEWEST_AT_REST = 3  # least frames at one position of a still text
LEAST_ADDED = 0.4  # least additional length of a text that has grown, in line heights
# Number of samples used to decide whether the words of a text change their colour one by one.
MOST_MOMENTS = 200
# Readings of at least this many letters agree if this share of the letters is equal.
FEWEST_LETTERS_TO_AGREE, MOSTLY_EQUAL = 10, 0.9
MAX_READINGS = 2  # number of readings of a still text; one more reading uses its mean frame
# Horizontal stretch of the line for each reading; readings that agree at different stretches are more reliable.
STRETCH_FACTORS = (1.0, 1.15)
SECOND_READING_SECONDS = 0.35
KNOWN_CONFIDENCE = 0.8  # lines read with this confidence are neither read nor detected again while they are shown
FEWEST_FOR_MEAN = 8  # least number of frames for a mean frame that is better to read than a single frame
# Greatest distance, in line heights, that a text moves between two comparisons.
FASTEST_MOVE = 1.5
MOVED_GAIN = 0.2  # least gain of this share by a slow motion
LEAST_MOVED_SHARE = 0.6  # least visible share of a text at the place to which it has moved
MOVING_SECONDS = 0.4  # longest time after detection in which a slow motion begins
RESTING_SECONDS = 0.3  # a moving text that stays at one place for this long has come to rest
# A text that enters the frame from the side is read again when it has moved by this share of the frame's width.
MOVE_BETWEEN_PIECES = 0.4
REREAD_PLACES = (1, 4, 8, 12)  # position numbers at which a moving text is read again
MAX_LOST_SECONDS = 0.7  # longest time without detection after which a moving text continues
NUM_BACKGROUNDS = 4  # number of frames used to separate strokes from a moving background
TIME_TOLERANCE = 1e-6
CUT_ROWS = 60  # number of frame rows that are compared to detect cuts
MOST_CUTS = 256  # number of recent cuts to keep: enough for the duration of a caption
CUT_DIFFERENCE = 14.0  # least mean difference between the frames before and after a cut, of 255


@dataclass(eq=False)
class LineTrack:
    """A line of text: the frames that show it, and everything that was read and measured in these frames."""

    box: Box  # for a moving text, the last position
    template: Template
    first_frame: int
    last_frame: int
    shares: list[float]  # visible share of the strokes in each frame
    found_seconds: float  # time of the detection
    readings: list[Reading] = field(default_factory=list)
    first_read: int | None = None  # frame of the first reading
    read_seconds: float = 0.0  # time of the last reading or, before the first reading, of the detection
    is_settled: bool = False  # whether the strokes were measured again after the detection
    is_fading: bool = False  # whether the line is still fading in
    # The frame in which the line began to fade in or got its last word; `first_frame` is never earlier.
    earliest_frame: int = 0
    num_missed: int = 0  # consecutive frames up to now that do not show the line
    grew_from: LineTrack | None = None  # the shorter text that this line continues
    rolled_from: LineTrack | None = None  # the same text one line lower, before the text rolled up
    continued_by: LineTrack | None = None  # the longer text, or the same text one line higher
    # A shorter text that this line replaced, directly or after other texts that were not read.
    follows: LineTrack | None = None
    places: list[tuple[int, Box]] = field(default_factory=list)  # of a moving text: first frame and box of each
    speed: tuple[float, float] | None = None  # of a text that is followed as it moves: right and down, pixels a second
    shift: Shift = (0, 0)  # of a moving text: the distance from the place of `template`
    placed_seconds: float = 0.0  # time of the frame of `template`
    moved_seconds: float = 0.0  # time of the last motion
    is_entering: bool = False  # whether a moving text has not completely entered the frame
    # First frame and box of this track and of each absorbed track. A slowly moving text looks still for a while.
    absorbed_places: list[tuple[int, Box]] = field(default_factory=list)
    _course: list[Brightness] = field(default_factory=list)
    _gauge: Template | None = None
    _sum: npt.NDArray[np.float32] | None = None
    _num_summed: int = 0

    @property
    def num_frames(self) -> int:
        return self.last_frame - self.first_frame + 1

    @property
    def whole_frames(self) -> range:
        """Return the range of frames in which the text is completely visible, without fades."""
        whole = [number for number, share in enumerate(self.shares) if share > WHOLE_STROKES]
        if not whole:
            return range(self.first_frame, self.last_frame + 1)
        return range(self.first_frame + whole[0], self.last_frame + 1 - (len(self.shares) - 1 - whole[-1]))

    @property
    def is_level(self) -> bool:
        """Whether a moving line moves to the left or to the right."""
        return self.speed is not None and _is_level(self.speed)

    def moves_steadily(self, seconds: float) -> bool:
        """Return whether the line was followed up to a time, as it moved, long enough to be no chance."""
        return self.speed is not None and seconds - self.found_seconds >= SETTLED_SECONDS

    @property
    def is_at_rest(self) -> bool:
        """Whether the line stayed at one position for at least `FEWEST_AT_REST` frames."""
        return self.num_frames >= FEWEST_AT_REST

    @property
    def stages(self) -> list[LineTrack]:
        """The earlier tracks that this line continues, which have its first words or are one line lower, and itself."""
        earlier = self.grew_from or self.rolled_from
        return [self] if earlier is None else [*earlier.stages, self]

    @property
    def has_drifted(self) -> bool:
        """Whether the tracks that were absorbed show that the line moves slowly."""
        if not self.absorbed_places:
            return False
        sides = zip(*(box for _, box in self.absorbed_places), strict=True)
        height = self.box[3] - self.box[1]
        return any(max(side) - min(side) >= LEAST_DRIFT * height for side in sides)

    @property
    def root(self) -> LineTrack:
        return self.stages[0]

    @property
    def text(self) -> str:
        """The text that got the most votes from the readings."""
        return self.vote()[0][0]

    @property
    def confidence(self) -> float:
        """The highest confidence of the readings whose text is `text`; 0 if its script cannot be read."""
        best = self.text
        return max(reading.confidence * reading.is_readable for reading in self.readings if reading.text == best)

    @property
    def is_known(self) -> bool:
        """Whether the line was read with so much confidence that it need not be read again."""
        return any(reading.confidence >= KNOWN_CONFIDENCE for reading in self.readings)

    @property
    def legibility(self) -> float:
        """The probability that the letters of `text` are right, assuming that its readings are independent.

        Punctuation is ignored. Readings of long lines count as equal even if about one letter in ten differs, because
        the recogniser reads music notes at the ends of lines as letters.
        """
        best = letters_of(self.text)
        wrong = [1 - one.confidence * one.is_readable for one in self.readings if _agree(letters_of(one.text), best)]
        return 1 - math.prod(wrong)

    @property
    def script(self) -> str | None:
        """The most frequent ``script`` of the readings: a script that the recogniser cannot read, or None."""
        scripts = [reading.script for reading in self.readings]
        return max(scripts, key=scripts.count, default=None)

    def vote(self) -> list[tuple[str, float]]:
        """Return the different texts that were read, each with its share of the votes. The best text comes first.

        Each reading votes with its confidence as the weight. Texts are sorted by the votes for their letters. Texts
        with the same letters are then sorted by the votes for the whole text. Recognisers drop dots of an ellipsis, so
        votes for texts that differ only in rows of dots are added, and the text with most dots comes first.
        """
        votes: dict[str, float] = {}
        by_letters: dict[str, float] = {}
        by_signs: dict[str, float] = {}
        for reading in self.readings:
            letters, signs = letters_of(reading.text), _squeeze_dots(reading.text)
            weight = max(reading.confidence, 1e-3)
            votes[reading.text] = votes.get(reading.text, 0.0) + weight
            by_letters[letters] = by_letters.get(letters, 0.0) + weight
            by_signs[signs] = by_signs.get(signs, 0.0) + weight
        total = sum(votes.values())
        ranked = sorted(
            votes, key=lambda text: (-by_letters[letters_of(text)], -by_signs[_squeeze_dots(text)], -text.count("."))
        )
        return [(text, votes[text] / total) for text in ranked]

    def add(self, picture: Picture, share: float) -> None:
        """Extend the track by a frame that shows the line. ``share`` is the visible share of the line's strokes."""
        self.last_frame, self.num_missed = picture.frame, 0
        self.shares.append(share)
        if share > WHOLE_STROKES and not self.is_known and self.speed is None:
            part = self.template.part(picture.luma)
            self._sum = part.astype(np.float32) if self._sum is None else self._sum + part
            self._num_summed += 1

    def note_brightness(self, picture: Picture) -> None:
        """Record how bright each part of the line is in a frame, to find out whether the words change their colour."""
        if self.is_settled and not self.num_missed and len(self._course) < MOST_MOMENTS:
            self._gauge = self._gauge or self.template
            self._course.append(self._gauge.brightness(picture.luma))

    @property
    def is_sung(self) -> bool:
        return is_sung(self._course)

    def absorb(self, other: LineTrack) -> None:
        """Add the frames and readings of another track of the same line to this track."""
        self.absorbed_places = sorted(
            place for track in (self, other) for place in (track.absorbed_places or [(track.first_frame, track.box)])
        )
        if other.first_frame < self.first_frame:
            self.first_frame, self.shares = other.first_frame, other.shares + self.shares
        else:
            self.shares = self.shares + other.shares
        self.last_frame = max(self.last_frame, other.last_frame)
        self.readings += other.readings
        self.grew_from = self.grew_from or other.grew_from
        if other.grew_from is not None:
            other.grew_from.continued_by = self

    def add_piece(self, piece: Reading) -> None:
        """Add a reading of a part of a moving line, of which the frame never shows all letters."""
        if not self.readings or not piece.text or not self.is_level:
            self.readings += [piece]
            return
        assert self.speed is not None
        (whole,) = self.readings[:1]
        texts = (whole.text, piece.text) if self.speed[0] < 0 else (piece.text, whole.text)
        self.readings = [whole._replace(text=join_pieces(*texts), confidence=max(whole.confidence, piece.confidence))]

    def take_mean(self) -> Gray | None:
        """Return the mean of the frames with the line, which blurs a moving background; None if they are too few."""
        total, self._sum = self._sum, None
        if total is None or self._num_summed < FEWEST_FOR_MEAN:
            return None
        left, top = self.template.box[:2]
        line = total[self.box[1] - top : self.box[3] - top, self.box[0] - left : self.box[2] - left]
        return (line / self._num_summed).round().astype(np.uint8)

    def begin(self, frame: int) -> None:
        """Move the start of the track to ``frame``, because earlier frames do not show all words of the line."""
        del self.shares[: frame - self.first_frame]
        self.first_frame = self.earliest_frame = frame

    def show(self, template: Template, shares: Sequence[float], first_frame: int, last_frame: int) -> None:
        """Replace the strokes by a ``template`` that was measured again, with its shares and its range of frames."""
        self.template, self.shares = template, list(shares)
        self.first_frame, self.last_frame, self.num_missed = first_frame, last_frame, 0
        self._sum, self._num_summed = None, 0


class LineTracker:
    """Finds, reads and tracks the lines of text in a video. It must be given every frame."""

    def __init__(self) -> None:
        self._watch: ChangeWatch | None = None
        self._recent: deque[Picture] = deque()
        self._compared_at = -np.inf
        self.active: list[LineTrack] = []  # the still lines in the last frame
        self.moving: list[LineTrack] = []
        self._brightness: Gray | None = None
        self._differences: deque[float] = deque(maxlen=24)
        self.cuts: deque[int] = deque(maxlen=MOST_CUTS)  # the last frames directly after a cut, in order

    @property
    def remembered(self) -> range:
        """Indices of the frames that must be passed to `remember` again when a saved tracker is restored."""
        return range(self._recent[0].frame, self._recent[-1].frame + 1) if self._recent else range(0)

    def see(self, picture: Picture, reader: FrameReader) -> list[LineTrack]:
        """Process the next frame, in which ``reader`` reads new lines. Return the tracks of lines that have ended."""
        self.remember(picture)
        self._note_cut(picture)
        ended = self._follow(picture, reader)
        if picture.seconds - self._compared_at >= SECONDS_BETWEEN_COMPARISONS:
            self._compared_at = picture.seconds
            if self._watch is None:
                self._watch = ChangeWatch(len(picture.luma))
            for track in self.active:
                track.note_brightness(picture)
                if track.speed is not None and not track.num_missed:
                    track.places.append((picture.frame, track.box))
            # Lines with low confidence may be detected again, with a better box.
            known = [
                track.box
                for track in self.active
                if not track.num_missed and (track.is_known or track.moves_steadily(picture.seconds))
            ]
            if bands := self._watch.see(picture.luma, known):
                ended += self._take_new(picture, reader.find(bands), reader)
        self._read_again(picture, reader)
        return ended

    def finish(self, reader: FrameReader) -> list[LineTrack]:
        """Return the tracks of the lines that are still shown at the end of the video."""
        for track in self.active:
            self._read_last(track, reader)
        ended, self.active, self.moving = self.active + self.moving, [], []
        return [track for track in ended if track.readings]

    def remember(self, picture: Picture) -> None:
        """Keep a frame in a buffer, in which the first frame of a text is searched once the text is detected."""
        recent = self._recent
        recent.append(picture)
        at_most = max(FEWEST_REMEMBERED, REMEMBERED_BYTES // max(picture.luma.nbytes, 1))
        while len(recent) > FEWEST_REMEMBERED and (
            len(recent) > at_most or picture.seconds - recent[0].seconds > REMEMBERED_SECONDS
        ):
            recent.popleft()

    def _note_cut(self, picture: Picture) -> None:
        """Record a cut of the video if the frame differs from the previous frame by far more than usual."""
        step = max(1, len(picture.luma) // CUT_ROWS)
        before = self._brightness
        self._brightness = picture.luma[step // 2 :: step, min(step, picture.luma.shape[1]) // 2 :: step].copy()
        if before is None:
            return
        change = float(difference(self._brightness, before).mean())
        if change > CUT_DIFFERENCE and change > 3 * (median(self._differences) if self._differences else 0.0):
            self.cuts.append(picture.frame)
        self._differences.append(change)

    def _follow(self, picture: Picture, reader: FrameReader) -> list[LineTrack]:
        """Check which of the known lines the next frame still shows. Return the tracks of lines that have ended."""
        gone = []
        for track in self.active:
            if track.speed is not None:
                if not self._follow_moving(track, picture, reader):
                    gone.append(track)
                continue
            share = track.template.share(picture.luma)
            if share < WHOLE_STROKES and _begins_to_move(track, picture, share):
                continue
            if share >= MIN_VISIBLE_STROKES:
                age = picture.seconds - track.found_seconds
                if not track.is_settled:
                    # The text may be fading in over another text that fades out.
                    is_new = age < LONGEST_FADE_SECONDS
                    track.is_fading = is_new and _num_fading(track.template, list(self._recent)) > 0
                is_due = not track.is_settled and not track.is_fading and age >= SETTLED_SECONDS
                if (is_due or share > FADE_IN_GROWTH) and self._renew(track, picture):
                    continue
                if track.shares[-1] - share < SUDDEN_LOSS:
                    track.add(picture, share)
                    continue
            track.num_missed += 1
            if track.num_missed > MAX_GAP:
                gone.append(track)
        self._end(gone, picture, reader)
        lost = [track for track in self.moving if picture.seconds - track.read_seconds > MAX_LOST_SECONDS]
        self.moving = [track for track in self.moving if track not in lost]
        for track in gone:
            if not track.readings and track.speed is None:
                self._move(track, picture)
        return [track for track in gone + lost if track.readings and track not in self.moving]

    def _renew(self, track: LineTrack, picture: Picture) -> bool:
        """Measure the strokes of a text that may have been fading in again. Return whether the new ones can be used."""
        recent = [one for one in self._recent if one.frame >= track.earliest_frame]
        # While one text fades into another, pixels that stay the same belong to both texts.
        shown = [one.luma for one in recent if one.frame >= track.first_frame]
        others = [] if track.is_fading else shown[-NUM_BACKGROUNDS - 1 : -1]
        template = Template(picture.luma, track.box, others)
        if not template.is_usable:
            return False
        shares = _shares_before(template, recent)
        track.is_settled = not track.is_fading and picture.seconds - track.found_seconds >= SETTLED_SECONDS
        first = recent[len(recent) - len(shares)].frame
        if len(shares) == len(recent) and track.first_frame < first:
            # The text was already visible before the first buffered frame.
            shares, first = track.shares[: -len(shares)] + shares, track.first_frame
        track.show(template, shares, first, picture.frame)
        track.placed_seconds = picture.seconds
        return True

    def _follow_moving(self, track: LineTrack, picture: Picture, reader: FrameReader) -> bool:
        """Look for a moving text near the place where it should be. Return whether it is still shown and moves."""
        assert track.speed is not None
        passed = picture.seconds - track.placed_seconds
        share, shift = _find_moved(track.template, track.speed, picture, track.placed_seconds)
        if share < MIN_VISIBLE_STROKES or track.shares[-1] - share >= SUDDEN_LOSS:
            track.num_missed += 1
            return track.num_missed <= MAX_GAP
        if shift != track.shift:
            track.shift, track.moved_seconds = shift, picture.seconds
        elif picture.seconds - track.moved_seconds > RESTING_SECONDS:
            return False
        track.add(picture, share)
        height, width = picture.luma.shape
        track.box = _moved_box(track, width, height)
        if passed >= 2 * SECONDS_BETWEEN_COMPARISONS:
            track.speed = shift[0] / passed, shift[1] / passed
        enough = MOVE_BETWEEN_PIECES * width if track.is_level else track.box[3] - track.box[1]
        if track.is_entering and max(map(abs, shift)) >= enough:
            return self._detect_again(track, picture, reader)
        return True

    def _detect_again(self, track: LineTrack, picture: Picture, reader: FrameReader) -> bool:
        """Detect and read again a moving line that has entered the frame further. Return whether it was found."""
        assert track.speed is not None
        height, width = picture.luma.shape
        _, top, _, bottom = track.box
        band = Band(max(2 * top - bottom, 0) / height, min(2 * bottom - top, height) / height)
        boxes = [box for box in reader.find([band]) if lines_overlap(box, track.box)]
        if not boxes:
            return False
        if track.is_level:
            box = union(*boxes)
        else:
            box = max(boxes, key=lambda box: min(box[2], track.box[2]) - max(box[0], track.box[0]))
        template = Template(picture.luma, box)
        if not template.is_usable:
            return False
        track.template, track.box, track.shift, track.placed_seconds = template, box, (0, 0), picture.seconds
        track.moved_seconds = picture.seconds
        track.is_entering = _is_entering(box, track.speed, width, height)
        if track.is_level or not track.is_entering:
            (piece,) = reader.read([box], 1.0)
            track.add_piece(piece)
            track.first_read = picture.frame if track.first_read is None else track.first_read
        return True

    def _read_last(self, track: LineTrack, reader: FrameReader) -> None:
        """Read a line for the last time, from frames that are past."""
        if track.speed is None:
            _read_mean(track, reader)
        elif track.is_level and track.is_entering and track.readings:
            left, top, right, bottom = track.box
            last = next((one for one in self._recent if one.frame == track.last_frame), None)
            if last is not None and right - left > bottom - top:
                track.add_piece(reader.read_gray(last.luma[top:bottom, left:right], 1.0))

    def _end(self, ended: Sequence[LineTrack], picture: Picture, reader: FrameReader) -> None:
        height, width = picture.luma.shape
        for track in ended:
            self.active.remove(track)
            self._read_last(track, reader)
            left, top, right, bottom = track.template.box if track.speed is None else track.box
            if self._watch is not None and track.is_at_rest:
                self._watch.forget((left / width, top / height, right / width, bottom / height))

    def _take_new(self, picture: Picture, boxes: Iterable[Box], reader: FrameReader) -> list[LineTrack]:
        """Track each detected line that is not tracked yet. Return the tracks of shorter texts that it has replaced."""
        ended: list[LineTrack] = []
        for box in boxes:
            beside = [track for track in self.active if not track.num_missed and lines_overlap(track.box, box)]
            for other in beside:
                if other.speed is None and is_in_line(box, other.box):  # both are parts of one line
                    box = union(box, other.box)
            if any(is_within(box, other.box) or other.speed is not None for other in beside):
                continue
            track = self._begin_track(picture, box)
            if track is None:
                continue
            grown = [shorter for shorter in beside if is_within(shorter.box, box)]
            if came := max((self._frame_of_growth(shorter, track, picture) for shorter in grown), default=0):
                track.begin(came)
            self._end(grown, picture, reader)
            for shorter in grown:
                earlier = shorter.follows
                was_alone = shorter.first_read is not None and shorter.first_read < track.first_frame
                if track.is_at_rest and was_alone:
                    # While the longer text was shown, the shorter template matched a part of it.
                    shorter.last_frame = track.first_frame - 1
                    del shorter.shares[shorter.num_frames :]
                    shorter.continued_by, track.follows = track, shorter
                    ended.append(shorter)
                elif earlier is not None and earlier.continued_by is shorter:
                    earlier.continued_by, track.follows = track, earlier
                    track.grew_from = shorter.grew_from
            self.active.append(track)
            moving = self._find_moved_line(box)
            if not track.is_at_rest and moving is not None and len(moving.places) in REREAD_PLACES:
                moving.readings += reader.read([box], 1.0)
        return ended

    def _begin_track(self, picture: Picture, box: Box) -> LineTrack | None:
        template = Template(picture.luma, box)
        if not template.is_usable:
            return None
        recent = list(self._recent)
        if num_fading := _num_fading(template, recent, FADED_STEPS):
            # The text was not visible before its fade, although an earlier text may look similar.
            recent = recent[-num_fading:]
        shares = _shares_before(template, recent)
        # The frames that show the text are now known, and are used to separate strokes from a moving background.
        alike = [one.luma for one in recent[len(recent) - len(shares) : -1]]
        if alike and not num_fading:
            chosen = np.linspace(0, len(alike) - 1, min(NUM_BACKGROUNDS, len(alike))).round().astype(int)
            better = Template(picture.luma, box, [alike[index] for index in chosen])
            if better.is_usable:
                template = better
                shares = _shares_before(template, recent)
        first = recent[len(recent) - len(shares)].frame
        height, width = picture.luma.shape
        speed = None if num_fading else _speed_of(template, box, recent)
        is_entering = speed is not None and _is_entering(box, speed, width, height)
        if speed is not None and not is_entering and _is_entering(box, (-speed[0], -speed[1]), width, height):
            return None  # the rest of a line that leaves the frame
        return LineTrack(
            box,
            template,
            first,
            picture.frame,
            shares,
            found_seconds=picture.seconds,
            read_seconds=picture.seconds,
            is_fading=num_fading > 0,
            earliest_frame=recent[0].frame if num_fading else 0,
            speed=speed,
            placed_seconds=picture.seconds,
            moved_seconds=picture.seconds,
            is_entering=is_entering,
        )

    def _frame_of_growth(self, shorter: LineTrack, longer: LineTrack, picture: Picture) -> int:
        """Return the frame in which ``shorter``, after it was read, grew into ``longer``, or 0 if it did not.

        The two texts share most strokes, so the frames are searched only for the additional part of ``longer``.
        """
        left, top, right, bottom = longer.box
        end = max(shorter.box[2], left)
        if shorter.first_read is None or right - end < LEAST_ADDED * (bottom - top):
            return 0
        template = Template(picture.luma, (end, top, right, bottom))
        if not template.is_usable:
            return 0
        recent = list(self._recent)
        added = recent[len(recent) - len(_shares_before(template, recent))].frame
        alone = [one for one in recent if max(shorter.first_frame, longer.first_frame) <= one.frame < added]
        was_absent = all(template.share(one.luma) < MIN_VISIBLE_STROKES for one in alone)
        return added if shorter.first_read < added and len(alone) >= FEWEST_AT_REST and was_absent else 0

    def _find_moved_line(self, box: Box) -> LineTrack | None:
        return next((track for track in self.moving if has_moved_to(track.box, box)), None)

    def _move(self, passed: LineTrack, picture: Picture) -> None:
        """Add ``passed``, a line that never stayed at one position, to the track of a moving text, or start a track."""
        track = self._find_moved_line(passed.box)
        if track is None:
            track = passed
            self.moving.append(track)
        track.box, track.last_frame = passed.box, passed.last_frame
        track.places.append((passed.first_frame, passed.box))
        track.read_seconds = picture.seconds

    def _read_again(self, picture: Picture, reader: FrameReader) -> None:
        """Read each line that stays at one position. Read it again shortly afterwards if the reading is uncertain."""
        due = [
            track
            for track in self.active
            if track.is_at_rest
            and not track.is_fading
            and not track.num_missed
            and not track.is_known
            and len(track.readings) < (MAX_READINGS if track.speed is None else 1)
            and (not (track.readings or track.speed) or picture.seconds - track.read_seconds >= SECOND_READING_SECONDS)
            and (not track.is_entering or track.is_level)
        ]
        for track in due:
            track.readings += reader.read([track.box], STRETCH_FACTORS[len(track.readings)])
            track.first_read = picture.frame if track.first_read is None else track.first_read
            track.read_seconds = picture.seconds
        for track in due:
            if pitch_of(track.box, track.readings[-1].text) > WIDE_PITCH and len(track.readings) == 1:
                self._complete_letterspaced(track, picture, reader)

    def _complete_letterspaced(self, part: LineTrack, picture: Picture, reader: FrameReader) -> None:
        """Replace a part of a letterspaced line by the whole line, because detectors divide such lines."""
        box = reader.find_letterspaced(part.box, pitch_of(part.box, part.text))
        if box is None or box[2] - box[0] < part.box[2] - part.box[0] + part.box[3] - part.box[1]:
            return
        if any(track.speed is None and is_within(box, track.box) for track in self.active):
            return
        track = self._begin_track(picture, box)
        if track is not None and track.speed is None:
            self.active = [
                known for known in self.active if not is_within(known.box, box) or not lines_overlap(known.box, box)
            ]
            self.active.append(track)


@lru_cache(maxsize=4096)  # votes call this repeatedly with few texts
def letters_of(text: str) -> str:
    """Return only the letters and digits of a text, in lower case."""
    return re.sub(r"\W", "", text).casefold()


@lru_cache(maxsize=4096)
def _squeeze_dots(text: str) -> str:
    return re.sub(r"\.{2,}", ".", text)


@lru_cache(maxsize=4096)
def _agree(one: str, other: str) -> bool:
    """Return whether the letters of two readings are the same or, in long readings, nearly the same."""
    if min(len(one), len(other)) < FEWEST_LETTERS_TO_AGREE:
        return one == other
    return SequenceMatcher(None, one, other).ratio() >= MOSTLY_EQUAL


def _read_mean(track: LineTrack, reader: FrameReader) -> None:
    mean = track.take_mean()
    if mean is not None and not track.is_known and any(reading.text for reading in track.readings):
        track.readings.append(reader.read_gray(mean, STRETCH_FACTORS[min(len(track.readings), 1)]))


def _shares_before(template: Template, recent: Sequence[Picture]) -> list[float]:
    """Return the visible share of a text in each frame since it appeared; gaps get the share of the next frame."""
    shares: list[float] = []
    shows = 0
    for one in reversed(recent):
        share = template.share(one.luma)
        if not shares or (share >= MIN_VISIBLE_STROKES and shares[-1] - share < SUDDEN_LOSS):
            shares.append(share)
            shows = len(shares)
        else:
            shares.append(shares[-1])  # the text is hidden in this frame but visible in earlier ones
            if len(shares) - shows > MAX_GAP:
                break
    return shares[shows - 1 :: -1]


def _num_fading(template: Template, recent: Sequence[Picture], most_at_rest: int = 0) -> int:
    """Return the number of buffered frames over which a text faded in steadily, or 0 if there was no fade.

    Frames are counted back from the last one. Between the end of the fade and the last frame, there may be at most
    ``most_at_rest`` steps of `FADE_STEP_SECONDS`.
    """
    step = next(
        (
            number
            for number, one in enumerate(reversed(recent))
            if recent[-1].seconds - one.seconds >= FADE_STEP_SECONDS - TIME_TOLERANCE
        ),
        0,
    )
    if not step:
        return 0
    parts = (template.part(one.luma).astype(np.float32) for one in recent[::-1][::step])
    num_at_rest, number, part, later = 0, 0, next(parts), None
    for earlier in parts:
        difference = part - earlier
        part = earlier
        if template.change(difference) < LEAST_FADE:
            if later is not None or num_at_rest == most_at_rest:
                break
            num_at_rest += 1
            continue
        if later is not None:
            size = float(np.linalg.norm(difference) * np.linalg.norm(later))
            if float(np.vdot(difference, later)) < MIN_FADE_COSINE * size:
                break
            number += 1
        later = difference
    return (num_at_rest + number + 1) * step if number else 0


def _speed_of(template: Template, box: Box, recent: Sequence[Picture]) -> tuple[float, float] | None:
    """Return the speed of a text that moves up, down or to a side, in pixels a second; None if it does not move."""
    now = recent[-1].seconds
    back = next((n for n, one in enumerate(recent[::-1]) if now - one.seconds >= SECONDS_BETWEEN_COMPARISONS), 0)
    earlier, between = recent[-1 - back], recent[-1 - back // 2]
    if not back or template.share(earlier.luma) >= LEAST_MOVED_SHARE:
        return None
    most = round(FASTEST_MOVE * (box[3] - box[1]))
    shifts = [shift for d in range(-most, most + 1) if d for shift in ((d, 0), (0, d))]
    share, (x, y) = template.find(earlier.luma, shifts)
    passed = now - earlier.seconds
    speed = -x / passed, -y / passed
    if share < LEAST_MOVED_SHARE or _find_moved(template, speed, between, now)[0] < LEAST_MOVED_SHARE:
        return None
    return speed


def _find_moved(
    template: Template, speed: tuple[float, float], picture: Picture, seconds: float
) -> tuple[float, Shift]:
    """Find a moving text near its place. Return its share, and its shift since the time ``seconds``."""
    x, y = (round(one * (picture.seconds - seconds)) for one in speed)
    right, down = (2, 1) if _is_level(speed) else (1, 2)
    near = [(d, 0) for d in range(-right, right + 1)] + [(0, d) for d in range(-down, down + 1) if d]
    return template.find(picture.luma, [(x + dx, y + dy) for dx, dy in near])


def _begins_to_move(track: LineTrack, picture: Picture, share: float) -> bool:
    """Find out whether a line that was detected recently moves slowly. If so, start to follow it."""
    passed = picture.seconds - track.placed_seconds
    if track.is_fading or not 0 < passed <= picture.seconds - track.found_seconds <= MOVING_SECONDS:
        return False
    steps = [shift for d in (-3, -2, 2, 3) for shift in ((d, 0), (0, d))]
    best, shift = track.template.find(picture.luma, steps)
    if best < max(WHOLE_STROKES, share + MOVED_GAIN):
        return False
    track.speed, track.shift, track.moved_seconds = (shift[0] / passed, shift[1] / passed), shift, picture.seconds
    height, width = picture.luma.shape
    track.is_entering = _is_entering(track.box, track.speed, width, height)
    track.add(picture, best)
    track.box = _moved_box(track, width, height)
    track.places.append((picture.frame, track.box))
    return True


def _is_level(speed: tuple[float, float]) -> bool:
    return abs(speed[0]) > abs(speed[1])


def _is_entering(box: Box, speed: tuple[float, float], width: int, height: int) -> bool:
    """Return whether a moving line touches the edge of the frame from which it comes."""
    near = max(2, (box[3] - box[1]) // 4)
    if _is_level(speed):
        return box[0] < near if speed[0] > 0 else box[2] > width - near
    return box[1] < 3 if speed[1] > 0 else box[3] > height - 3


def _moved_box(track: LineTrack, width: int, height: int) -> Box:
    """Return the box of a moving line. A line that enters from a side extends to the edge of the frame."""
    left, top, right, bottom = track.template.box
    x, y = track.shift
    left, right = (min(max(side + x, 0), width) for side in (left, right))
    top, bottom = (min(max(side + y, 0), height) for side in (top, bottom))
    if track.is_entering and track.is_level and track.speed is not None:
        left, right = (0, right) if track.speed[0] > 0 else (left, width)
    return left, top, right, bottom
