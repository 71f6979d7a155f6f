"""Find the scenes of a video (`find_scenes`), and sample a clip from each scene (`clips_at_scenes`).

Scenes are separated by cuts, which are found by the rule of PySceneDetect's ``AdaptiveDetector``
(https://www.scenedetect.com/docs/latest/api/detectors.html). For each pair of consecutive frames, the rule computes the
mean absolute difference of their pixels, and compares it with the differences a few frames before and after. So the
steady differences that a moving camera causes do not count as cuts. Unlike in PySceneDetect, the rule is applied to
luma and chroma as they are stored in the video.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from .._engine.common.checks import check_choice, check_frames, finite_number, items_of, shown
from .._engine.common.messages import progress
from ..decoders._access import access_to, with_final_index
from ..errors import InvalidArgumentError, StreamError
from ..frames import FrameBatch
from ._index_clips import (
    IndexPlan,
    Policy,
    check_clip_length,
    check_decoder,
    check_num_frames,
    check_policy,
    check_positive_integer,
    complete,
)
from ._random import sampling_generator, starts_reading_at

if TYPE_CHECKING:
    from ..decoders import VideoDecoder

Placement: TypeAlias = Literal["start", "middle", "random"]

# Largest length of a flash in frames, even if scenes must be longer.
_MAX_FLASH_FRAMES = 15
_NO_FRAME = "No frame of the video can be decoded, so it has no scenes."

#: (height, width) to which frames are scaled for comparison.
_COMPARED_SIZE = (72, 128)
# A score is compared with the scores of this many changed frames on each side, at most this many frames away.
_NUM_NEIGHBOURS, _NEIGHBOUR_REACH = 2, 8
# A frame with a lower score is a repeat of the previous frame, as in animation or after frame rate conversion.
_MIN_CHANGED_SCORE = 1.0

# Largest luma of a black pixel. Black is 16, and codecs add a little noise.
_MAX_DARK_LUMA, _MAX_BLACK_MEAN, _MAX_BLACK_SPREAD = 32, 24.0, 4.0
# Black bars are ignored, but the area between them counts as at least this share of the frame.
_MIN_LIT_SHARE = 0.25


@dataclass(frozen=True)
class Scene:
    """A scene: the frames from one cut up to the next.

    Attributes:
        first_frame: Index of the first frame.
        last_frame: Index of the last frame. The next scene starts one frame later.
        begin_seconds: Start time of the first frame in seconds.
        end_seconds: End time of the last frame in seconds, which is the ``begin_seconds`` of the next scene.
        score: Difference of the first frame from the previous frame, from 0 to 765; see `find_scenes`. It is 0.0 for
            the first scene. If the scene starts with a fade through black, the score compares the first black frame
            with a frame shortly before it.

    Example:
        >>> from mediatensor.samplers import Scene
        >>> scene = Scene(first_frame=48, last_frame=95, begin_seconds=1.6, end_seconds=3.2, score=71.5)
        >>> scene.num_frames, scene.duration_seconds
        (48, 1.6)
    """

    first_frame: int
    last_frame: int
    begin_seconds: float
    end_seconds: float
    score: float = 0.0

    @property
    def num_frames(self) -> int:
        """Number of frames of the scene: ``last_frame - first_frame + 1``."""
        return self.last_frame - self.first_frame + 1

    @property
    def duration_seconds(self) -> float:
        """Duration of the scene in seconds: ``end_seconds - begin_seconds``."""
        return self.end_seconds - self.begin_seconds


def find_scenes(
    decoder: VideoDecoder,
    *,
    threshold: float = 20.0,
    ratio: float = 3.0,
    min_frames: int = 15,
    min_seconds: float = 0.0,
    key_frames_only: bool = False,
) -> list[Scene]:
    """Find the cuts of a video, and return the scenes between them.

    Every frame is decoded once, in order, and compared with the previous frame. Its *score* is the sum of the mean
    absolute differences of luma and both chroma components. Frames are compared at a size of 128x72, in limited range
    (luma from 16 to 235), without black bars. A frame starts a scene if its score is at least ``threshold``, and at
    least ``ratio`` times the mean score of four nearby frames. These are the two frames before it and the two frames
    after it, not counting frames that repeat the previous frame. PySceneDetect's ``AdaptiveDetector`` has the same
    rule, but compares hue, saturation and brightness. Some further rules apply:

    * A *flash* does not count as a cut. In a flash, the content changes, and the earlier content comes back after at
      most 15 frames and fewer than ``min_frames`` frames.
    * If the video fades to black and back, the first black frame starts a scene.
    * Dissolves and wipes are not found, unless they last only one or two frames.

    Cuts are found at any frame, not only at key frames. The result does not depend on the transforms, the device and
    the output options of the decoder. Memory use does not grow with the length of the video. On a terminal, a progress
    bar is shown if tqdm is installed.

    Args:
        decoder: The decoder of the video.
        threshold: Minimum score of a cut, from 0 to 765. A typical cut has a score of 40 to 120.
        ratio: Minimum ratio between the score of a cut and the mean score of the nearby frames. 0 disables this test,
            as in PySceneDetect's ``ContentDetector``, so fast motion counts as cuts.
        min_frames: Minimum number of frames of a scene. A cut that would make a shorter scene is ignored, so only the
            first of several close cuts counts.
        min_seconds: Minimum duration of a scene in seconds. Both this and ``min_frames`` must be satisfied.
        key_frames_only: Whether to decode only key frames, which is many times faster. Each key frame is compared with
            the previous key frame, and starts a scene if its score is at least ``threshold * ratio``. If the encoder
            did not put a key frame at a cut, the scene starts at the next key frame. A cut is missed if the earlier
            content comes back before the next key frame. Fast motion can be mistaken for a cut. Requires a
            `VideoDecoder` of a whole file in exact mode. The frames in between are not checked, so the decoder can
            correct its index later if they are damaged; see `VideoDecoder.frame_index`.

    Returns:
        A list of scenes in order. They contain all frames that can be decoded. A video without cuts is one scene. No
        scene is shorter than ``min_frames`` or ``min_seconds``, unless the whole video is shorter.

    Raises:
        InvalidArgumentError: if an argument is invalid.
        SourceTypeError: if ``decoder`` is not a decoder, for example a path.
        StreamError: if no frame can be decoded.
        DecodeError: if a frame cannot be decoded. If the decoder's ``on_error`` is ``"skip"`` or ``"nearest"``, such
            frames are ignored and belong to the scene around them.

    Example:
        >>> from mediatensor.decoders import VideoDecoder
        >>> from mediatensor.samplers import find_scenes
        >>> scenes = find_scenes(VideoDecoder("video.mp4"))
        >>> len(scenes), scenes[0].num_frames
        (1, 300)
    """
    for name, value in (("threshold", threshold), ("ratio", ratio), ("min_seconds", min_seconds)):
        if finite_number(name, value) < 0:
            raise InvalidArgumentError(f"{name} ({value}) must be 0 or more.")
    min_frames = check_positive_integer("min_frames", min_frames)
    check_decoder(decoder, "_access", made_by="VideoDecoder")
    rule = _CutRule(threshold, ratio, min(min_frames - 1, _MAX_FLASH_FRAMES))
    first, cuts, end = (_find_cuts_at_key_frames if key_frames_only else _find_cuts)(decoder, rule)
    starts = [*_drop_close_cuts([first, *cuts], end, min_frames, min_seconds), end]
    return [
        Scene(start.frame, stop.frame - 1, start.seconds, stop.seconds, start.score) for start, stop in pairwise(starts)
    ]


def _first_of_scenes(decoder: Any, *, scenes: Iterable[Scene] | None = None, **options: Any) -> float:
    if scenes is None:
        return 0.0  # finding scenes would decode the video
    return _plan_at_scenes(decoder, scenes=scenes, **options).first_position(decoder)


@starts_reading_at(_first_of_scenes)
def clips_at_scenes(
    decoder: VideoDecoder,
    *,
    scenes: Iterable[Scene] | None = None,
    num_frames_per_clip: int = 1,
    num_indices_between_frames: int = 1,
    placement: Placement = "middle",
    policy: Policy = "repeat_last",
) -> FrameBatch:
    """Decode one clip from each scene. A clip never has frames of two scenes.

    For example, if a clip has 3 frames and takes every 2nd frame of the video, two scenes of 8 and 3 frames have these
    clips::

        frame              0  1  2  3  4  5  6  7 | 8  9 10
        "start"            x     x     x          | x     x
        "middle"              x     x     x       | x     x
        "random", earliest x     x     x          | x     x
        "random", latest            x     x     x | x     x

    Args:
        decoder: The decoder of the video, opened with ``seek_mode="exact"``, because frame indices can differ in
            approximate mode.
        scenes: The scenes, such as a selection from the result of `find_scenes`. By default, all scenes are found
            first, which decodes the whole video.
        num_frames_per_clip: Number of frames of a clip, at least 1.
        num_indices_between_frames: Distance from one frame of a clip to the next, in frames of the video, at least 1.
        placement: Position of a clip in its scene: ``"start"``, ``"middle"`` or ``"random"``. A clip that is longer
            than its scene starts with the scene. Random numbers come from torch's global generator for the CPU.
        policy: How to handle a clip that reaches beyond the end of its scene: ``"repeat_last"`` repeats the clip's last
            frame in the scene, ``"wrap"`` repeats the clip from its first frame, and ``"error"`` raises an
            `InvalidArgumentError`.

    Returns:
        A `FrameBatch`. ``data`` has the shape (scenes, num_frames_per_clip, C, H, W), or (..., H, W, C) if this is the
        decoder's dimension order. The times have the shape (scenes, num_frames_per_clip).

    Raises:
        InvalidArgumentError: if an argument is invalid, ``scenes`` is empty or has frames that the video does not have,
            or a clip reaches beyond the end of its scene and ``policy`` is ``"error"``. This error is also a
            ValueError.
        SourceTypeError: if ``decoder`` is not a decoder, for example a path.
        DecodeError: if a frame cannot be decoded, or a decoder with ``on_error="skip"`` left it out.

    Example:
        >>> from mediatensor.decoders import VideoDecoder
        >>> from mediatensor.samplers import clips_at_scenes
        >>> clips_at_scenes(VideoDecoder("video.mp4"), num_frames_per_clip=16).data.shape
        torch.Size([1, 16, 3, 360, 640])
    """
    return _plan_at_scenes(decoder, scenes, num_frames_per_clip, num_indices_between_frames, placement, policy).decode(
        decoder
    )


def _plan_at_scenes(
    decoder: VideoDecoder,
    scenes: Iterable[Scene] | None,
    num_frames_per_clip: int = 1,
    num_indices_between_frames: int = 1,
    placement: Placement = "middle",
    policy: Policy = "repeat_last",
) -> IndexPlan:
    length = check_clip_length(num_frames_per_clip)
    step = check_positive_integer("num_indices_between_frames", num_indices_between_frames)
    check_choice("placement", placement, get_args(Placement))
    check_policy(policy)
    num_frames = check_num_frames(decoder, "get_frames_at")
    checked = find_scenes(decoder) if scenes is None else _check_scenes(scenes, num_frames)
    check_frames(len(checked) * length, f"{len(checked)} clips of {length} frames")
    span = step * (length - 1) + 1
    shares: Sequence[float] = ()
    if placement == "random":
        shares = torch.rand(len(checked), dtype=torch.float64, device="cpu", generator=sampling_generator()).tolist()
    indices: list[int] = []
    for number, scene in enumerate(checked):
        last_offset = max(0, scene.num_frames - span)  # start, within the scene, of the last clip that fits
        if placement == "random":
            offset = int(shares[number] * (last_offset + 1))
        else:
            offset = last_offset // 2 if placement == "middle" else 0
        first = scene.first_frame + offset
        indices += complete(range(first, min(first + span, scene.last_frame + 1), step), length, policy)
    return IndexPlan(indices, len(checked), length)


def _check_scenes(scenes: Iterable[Scene], num_frames: int) -> list[Scene]:
    checked = items_of("scenes", scenes, of="Scene objects")
    if not checked:
        raise InvalidArgumentError("scenes is empty. find_scenes(decoder) returns at least one scene of every video.")
    for scene in checked:
        if not isinstance(scene, Scene):
            raise InvalidArgumentError(f"scenes must be Scene objects, such as from find_scenes (got {shown(scene)}).")
        if not 0 <= scene.first_frame <= scene.last_frame < num_frames:
            raise InvalidArgumentError(
                f"The scene from frame {scene.first_frame} to {scene.last_frame} is not within this video of "
                f"{num_frames} frames. Pass scenes that find_scenes found in this video."
            )
    return checked


# Cuts


@dataclass(frozen=True)
class _Cut:
    """The first frame of a scene, or the end of the video."""

    frame: int
    seconds: float
    score: float


@dataclass(frozen=True)
class _CutRule:
    """The parameters of the rule that decides whether a frame is a cut, as in `find_scenes`."""

    threshold: float
    ratio: float
    max_flash: int  # maximum length of a flash in frames

    @property
    def num_ahead(self) -> int:
        """Number of following frames that are needed to decide whether a frame is a cut."""
        return max(_NEIGHBOUR_REACH, self.max_flash)

    def is_return(self, before: _SmallFrame, later: _SmallFrame, score: float) -> bool:
        """Return whether ``later`` shows the content of ``before`` again, so there was only a flash in between.

        ``score`` is the score of the change at the start or the end of this flash.
        """
        return _difference(before, later) < score / max(self.ratio, 2.0)


class _SmallFrame:
    """A scaled-down frame for comparison: luma and chroma (3, H, W), and the score against the previous frame."""

    def __init__(self, frame: int, seconds: float, components: NDArray[np.uint8]) -> None:
        self.frame, self.seconds, self.components = frame, seconds, components
        self.score = 0.0
        is_lit = components[0] > _MAX_DARK_LUMA
        self.rows, self.columns = is_lit.any(1), is_lit.any(0)

    def is_black(self) -> bool:
        luma = self.components[0]
        return not self.rows.any() and bool(luma.mean() <= _MAX_BLACK_MEAN and luma.std() <= _MAX_BLACK_SPREAD)


class _CutFinder:
    """Finds cuts while frames are added in order. Only the most recent frames are kept in memory."""

    def __init__(self, rule: _CutRule) -> None:
        self._rule, self._num_ahead = rule, rule.num_ahead
        self._frames: deque[_SmallFrame] = deque()
        self._place = 0  # position of the next frame to judge in ``_frames``
        self._black: _Cut | None = None  # the start of a fade to black

    def add(self, frame: _SmallFrame) -> list[_Cut]:
        """Add the next frame, and return the cuts that are now certain.

        A cut is certain only after some further frames, because the rule also compares it with them.
        """
        if self._frames:
            frame.score = _difference(self._frames[-1], frame)
        self._frames.append(frame)
        return self._judge_next() if len(self._frames) > self._place + self._num_ahead else []

    def finish(self) -> list[_Cut]:
        """Return the remaining cuts. Call this after the last frame."""
        cuts = []
        while self._place < len(self._frames):
            cuts += self._judge_next()
        return cuts

    def _judge_next(self) -> list[_Cut]:
        place, frames = self._place, self._frames
        frame = frames[place]
        is_abrupt = self._is_abrupt(place)
        cuts = [_Cut(frame.frame, frame.seconds, frame.score)] if is_abrupt and not self._is_flash(place) else []
        # A fade: the video turns black and comes back, without an abrupt change at either end.
        if self._black is not None and (is_abrupt or not frame.is_black()):
            cuts = cuts if is_abrupt else [self._black]
            self._black = None
        elif place > 0 and not is_abrupt and frame.is_black() and not frames[place - 1].is_black():
            score = _difference(frames[max(0, place - self._num_ahead)], frame)
            self._black = _Cut(frame.frame, frame.seconds, score)
        if place > self._num_ahead:
            frames.popleft()
        else:
            self._place += 1
        return cuts

    def _is_abrupt(self, place: int) -> bool:
        score = self._frames[place].score
        return score >= self._rule.threshold and score >= self._rule.ratio * self._mean_of_neighbours(place)

    def _mean_of_neighbours(self, place: int) -> float:
        """Return the mean score of the four frames near ``place``, not counting frames that repeat the previous frame.

        If there are fewer than four such frames, the missing scores count as 0.
        """
        scores = [frame.score for frame in self._frames]
        before = scores[max(0, place - _NEIGHBOUR_REACH) : place][::-1]
        after = scores[place + 1 : place + 1 + _NEIGHBOUR_REACH]
        changed = [
            [score for score in side if score >= _MIN_CHANGED_SCORE][:_NUM_NEIGHBOURS] for side in (before, after)
        ]
        return sum(map(sum, changed)) / (2 * _NUM_NEIGHBOURS)

    def _is_flash(self, place: int) -> bool:
        """Return whether the change at a frame is the start or the end of a flash.

        At the start of a flash, the content before the frame comes back soon. At the end of a flash, the content of the
        frame was already shown shortly before.
        """
        frames, rule, frame = self._frames, self._rule, self._frames[place]
        later = (frames[place + k] for k in range(1, rule.max_flash + 1) if place + k < len(frames))
        earlier = (frames[place - 1 - k] for k in range(1, rule.max_flash + 1) if place - 1 - k >= 0)
        return any(rule.is_return(frames[place - 1], other, frame.score) for other in later) or any(
            rule.is_return(other, frame, frame.score) for other in earlier
        )


def _difference(one: _SmallFrame, other: _SmallFrame) -> float:
    """Return the score of two frames: the sum of the mean absolute differences of luma and both chroma components.

    Black bars are left out of the mean.
    """
    first, second = one.components, other.components
    total = (np.maximum(first, second) - np.minimum(first, second)).sum(dtype=np.uint32)
    share = _lit_share(one.rows | other.rows) * _lit_share(one.columns | other.columns)
    return float(total / (first[0].size * max(share, _MIN_LIT_SHARE)))


def _lit_share(is_lit: NDArray[np.bool_]) -> float:
    """Return the fraction of rows (or columns) that remains after removing the black ones at both ends."""
    first, last = is_lit.argmax(), is_lit[::-1].argmax()
    return float(len(is_lit) - first - last) / len(is_lit) if is_lit[first] else 0.0


def _find_cuts(decoder: VideoDecoder, rule: _CutRule) -> tuple[_Cut, list[_Cut], _Cut]:
    """Compare every frame with the previous one, and return the first frame, the cuts, and the end of the video."""
    finder, cuts = _CutFinder(rule), list[_Cut]()
    first: _Cut | None = None
    end = _Cut(0, 0.0, 0.0)
    with closing(access_to(decoder).pictures(obeys_policy=True)) as pictures:
        for picture in progress(pictures, "finding scenes", total=len(decoder)):
            first = first or _Cut(picture.frame, picture.pts_seconds, 0.0)
            end = _Cut(picture.frame + 1, picture.pts_seconds + picture.duration_seconds, 0.0)
            cuts += finder.add(_SmallFrame(picture.frame, picture.pts_seconds, picture.components(_COMPARED_SIZE)))
    if first is None:
        raise StreamError(_NO_FRAME)
    return first, cuts + finder.finish(), end


def _find_cuts_at_key_frames(decoder: VideoDecoder, rule: _CutRule) -> tuple[_Cut, list[_Cut], _Cut]:
    """Compare every key frame with the previous one, and return the first frame, the cuts, and the end of the video."""
    check_decoder(decoder, "frame_index", made_by="VideoDecoder")
    index, (before, cuts) = with_final_index(
        decoder, lambda index: _compare_key_frames(decoder, index.gop_start_indices.tolist(), rule)
    )
    if before is None:
        raise StreamError(_NO_FRAME)
    return _Cut(0, index.begin_seconds, 0.0), cuts, _Cut(len(index), index.end_seconds, 0.0)


def _compare_key_frames(
    decoder: VideoDecoder, starts: list[int], rule: _CutRule
) -> tuple[_SmallFrame | None, list[_Cut]]:
    """Return the last of the frames ``starts`` that can be decoded, and the cuts among them."""
    before: _SmallFrame | None = None
    cuts: list[_Cut] = []
    pictures = access_to(decoder).pictures_at(starts)
    for picture in progress(pictures, "finding scenes", total=len(starts)):
        frame = _SmallFrame(picture.frame, picture.pts_seconds, picture.components(_COMPARED_SIZE))
        score = 0.0 if before is None else _difference(before, frame)
        if before is not None and score >= rule.threshold * max(rule.ratio, 1.0):
            cuts.append(_Cut(frame.frame, frame.seconds, score))
        before = frame
    return before, cuts


def _drop_close_cuts(cuts: Sequence[_Cut], end: _Cut, min_frames: int, min_seconds: float) -> list[_Cut]:
    """Drop cuts that would make a scene shorter than ``min_frames`` or ``min_seconds``. The first cut is always kept.

    >>> cuts = [_Cut(0, 0.0, 0.0), _Cut(10, 1.0, 50.0), _Cut(12, 1.2, 60.0), _Cut(28, 2.8, 40.0)]
    >>> [cut.frame for cut in _drop_close_cuts(cuts, _Cut(30, 3.0, 0.0), 5, 0.5)]
    [0, 10]
    """

    def is_far(start: _Cut, stop: _Cut) -> bool:
        return stop.frame - start.frame >= min_frames and stop.seconds - start.seconds >= min_seconds

    remaining = [cuts[0]]
    for cut in cuts[1:]:
        if is_far(remaining[-1], cut) and is_far(cut, end):
            remaining.append(cut)
    return remaining
