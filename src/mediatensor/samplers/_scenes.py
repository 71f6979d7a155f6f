"""Scenes: `find_scenes`, and clips within them, `clips_at_scenes`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import torch

from .._engine.common.checks import check_choice, finite_number, shown
from .._engine.common.limits import check_frames, frames_of_clips
from .._engine.common.messages import progress
from ..errors import InvalidArgumentError, StreamError
from ..frames import FrameBatch
from ._common import (
    as_clips,
    check_clip_length,
    check_decoder,
    check_num_frames,
    check_positive_integer,
)
from ._cuts import SMALL_SIZE, Cut, CutFinder, CutRule, Seen, difference
from ._policies import Policy, check_policy, complete

if TYPE_CHECKING:
    from ..decoders import VideoDecoder

__all__ = ["Scene", "clips_at_scenes", "find_scenes"]

# A flash lasts at most so many frames, whatever the least length of a scene.
_LONGEST_FLASH = 15
_NO_FRAME = "Not one frame of the video can be decoded, so that it has no scenes."


@dataclass(frozen=True)
class Scene:
    """The frames from one cut to the next.

    Attributes:
        first_frame: Index of its first frame.
        last_frame: Index of its last frame; the next scene begins with the frame behind it.
        begin_seconds: When the first frame is shown.
        end_seconds: When the last frame is no longer shown: the ``begin_seconds`` of the next scene.
        score: How much the first frame differs from the one before it, in levels of 255; 0.0 for the first scene. Of a
            fade, how much the picture changed until it was black.

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
        """Number of its frames."""
        return self.last_frame - self.first_frame + 1

    @property
    def duration_seconds(self) -> float:
        """How long it lasts."""
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
    """Finds the cuts of a video, and with them its scenes.

    Every frame is decoded once, in order, and compared with the one before it: a *score* is the mean absolute
    difference of luma plus those of both chroma, over pictures scaled to 128x72, in limited range (luma from 16 to
    235); black bars at the sides do not count. RGB is never made. A frame is the first of a scene if its score reaches
    ``threshold``, and ``ratio`` times the mean of the four scores around it (frames that repeat the one before them
    are passed over). This is the rule of PySceneDetect's ``AdaptiveDetector``, with other components. In addition:

    * Something that lasts fewer than ``min_frames`` frames, and at most 15, before what was shown before it comes back
      is a *flash* and no cut.
    * Where the picture fades to black and comes back out of it, the first black frame is the first of a scene.
    * Dissolves and wipes are not found, unless they are over in a frame or two.

    It does not depend on how the video was encoded: a cut may lie anywhere between key frames. Nor on the decoder's
    transforms, device, or output. Memory does not grow with the length of the video. On a terminal there is a progress
    bar, if tqdm is installed.

    Args:
        decoder: The video.
        threshold: The least score of a cut, from 0 to 765. A usual cut has 40 to 120.
        ratio: The least ratio of the score of a cut to the mean of those around it; 0 for any, which makes it the rule
            of PySceneDetect's ``ContentDetector``: quick motion then counts as cuts.
        min_frames: The fewest frames of a scene. A cut that would make a shorter one is passed over: of several cuts in
            quick succession the first counts.
        min_seconds: The shortest scene in seconds; both this and ``min_frames`` must hold.
        key_frames_only: Decode no other frames, which is many times as quick. A scene then begins at each key frame
            whose score against the key frame before it reaches ``threshold * ratio``: at the cut itself, if the encoder
            put a key frame there, and else at the next one. A cut that is undone before that is missed, and quick
            motion may pass for a cut. It takes a `VideoDecoder` of a whole file, in exact mode.

    Returns:
        The scenes in order. Together they have all frames that can be decoded; a video without cuts is one scene. No
        scene is shorter than asked for, unless the whole video is.

    Raises:
        InvalidArgumentError: if an argument is not as described.
        SourceTypeError: if ``decoder`` is no decoder, but a path, for example.
        StreamError: if not one frame can be decoded.
        DecodeError: if a frame cannot be decoded. With a decoder whose ``on_error`` is ``"skip"`` or ``"nearest"`` such
            frames are passed over, and belong to the scene around them.

    Example:
        >>> from mediatensor.decoders import VideoDecoder
        >>> from mediatensor.samplers import find_scenes
        >>> scenes = find_scenes(VideoDecoder("video.mp4"))
        >>> len(scenes), scenes[0].num_frames
        (1, 300)
    """
    for name, value in (("threshold", threshold), ("ratio", ratio), ("min_seconds", min_seconds)):
        _check_not_negative(name, value)
    min_frames = check_positive_integer("min_frames", min_frames)
    check_decoder(decoder, "_pictures", made_by="VideoDecoder")
    rule = CutRule(threshold, ratio, min(min_frames - 1, _LONGEST_FLASH))
    first, cuts, end = (_cuts_at_key_frames if key_frames_only else _cuts)(decoder, rule)
    starts = [*_far_apart([first, *cuts], end, min_frames, min_seconds), end]
    return [
        Scene(start.frame, stop.frame - 1, start.seconds, stop.seconds, start.score) for start, stop in pairwise(starts)
    ]


def _cuts(decoder: VideoDecoder, rule: CutRule) -> tuple[Cut, list[Cut], Cut]:
    """The first frame, the cuts, and the end, of every frame."""
    finder, cuts = CutFinder(rule), list[Cut]()
    first: Cut | None = None
    end = Cut(0, 0.0, 0.0)
    with closing(decoder._pictures(obeys_policy=True)) as pictures:  # type: ignore[type-var]
        for picture in progress(pictures, "finding scenes", total=len(decoder)):
            first = first or Cut(picture.frame, picture.pts_seconds, 0.0)
            end = Cut(picture.frame + 1, picture.pts_seconds + picture.duration_seconds, 0.0)
            cuts += finder.see(Seen(picture.frame, picture.pts_seconds, picture.components(SMALL_SIZE)))
    if first is None:
        raise StreamError(_NO_FRAME)
    return first, cuts + finder.finish(), end


def _cuts_at_key_frames(decoder: VideoDecoder, rule: CutRule) -> tuple[Cut, list[Cut], Cut]:
    """The same of key frames alone: those that differ from the key frame before."""
    check_decoder(decoder, "frame_index", made_by="VideoDecoder")
    starts = decoder.frame_index.gop_start_indices.tolist()
    before: Seen | None = None
    cuts: list[Cut] = []
    for picture in progress(decoder._pictures_at(starts, obeys_policy=True), "finding scenes", total=len(starts)):
        seen = Seen(picture.frame, picture.pts_seconds, picture.components(SMALL_SIZE))
        score = 0.0 if before is None else difference(before, seen)
        if before is not None and score >= rule.threshold * max(rule.ratio, 1.0):
            cuts.append(Cut(seen.frame, seen.seconds, score))
        before = seen
    if before is None:
        raise StreamError(_NO_FRAME)
    index = decoder.frame_index
    return Cut(0, index.begin_seconds, 0.0), cuts, Cut(len(index), index.end_seconds, 0.0)


def _check_not_negative(name: str, value: Any) -> None:
    if finite_number(name, value) < 0:
        raise InvalidArgumentError(f"{name} ({value}) must be 0 or more.")


def _far_apart(cuts: Sequence[Cut], end: Cut, min_frames: int, min_seconds: float) -> list[Cut]:
    """The first cut, and those behind it that leave scenes of the least length before and behind them.

    >>> cuts = [Cut(0, 0.0, 0.0), Cut(10, 1.0, 50.0), Cut(12, 1.2, 60.0), Cut(28, 2.8, 40.0)]
    >>> [cut.frame for cut in _far_apart(cuts, Cut(30, 3.0, 0.0), 5, 0.5)]
    [0, 10]
    """

    def is_far(start: Cut, stop: Cut) -> bool:
        return stop.frame - start.frame >= min_frames and stop.seconds - start.seconds >= min_seconds

    kept = [cuts[0]]
    for cut in cuts[1:]:
        if is_far(kept[-1], cut) and is_far(cut, end):
            kept.append(cut)
    return kept


Placement: TypeAlias = Literal["start", "middle", "random"]


def clips_at_scenes(
    decoder: VideoDecoder,
    *,
    scenes: Iterable[Scene] | None = None,
    num_frames_per_clip: int = 1,
    num_indices_between_frames: int = 1,
    placement: Placement = "middle",
    policy: Policy = "repeat_last",
) -> FrameBatch:
    """Decodes a clip of each scene. No clip has frames of two scenes.

    Clips of 3 frames, every 2nd, of two scenes of 8 and of 3 frames::

        frame              0  1  2  3  4  5  6  7 | 8  9 10
        "start"            x     x     x          | x     x
        "middle"              x     x     x       | x     x
        "random", earliest x     x     x          | x     x
        "random", latest            x     x     x | x     x

    Args:
        decoder: The video, opened with ``seek_mode="exact"``: in approximate mode indices name other frames.
        scenes: The scenes, such as some of those that `find_scenes` gave; ``None`` finds them, which decodes the whole
            video before the clips.
        num_frames_per_clip: Number of frames of a clip, at least 1.
        num_indices_between_frames: Distance between two frames of a clip in frames, at least 1.
        placement: Where in its scene a clip lies: ``"start"``, ``"middle"`` or ``"random"``. A clip that does not fit
            begins with its scene. Random numbers come from torch's global generator for the CPU, in one draw.
        policy: What to do with a clip that runs past the end of its scene: ``"repeat_last"`` repeats the last frame of
            the scene that it has, ``"wrap"`` goes back to the clip's first frame, ``"error"`` raises.

    Returns:
        Frames of shape (scenes, num_frames_per_clip, C, H, W), or (..., H, W, C) as the decoder's dimension order is,
        with times of shape (scenes, num_frames_per_clip).

    Raises:
        InvalidArgumentError: if an argument is not as described, there are no scenes or they are not of this video,
            or a clip runs past the end of its scene and ``policy`` is ``"error"``. It is a ValueError.
        SourceTypeError: if ``decoder`` is no decoder, but a path, for example.
        DecodeError: if a frame cannot be decoded; with a decoder that skips such frames, too.

    Example:
        >>> from mediatensor.decoders import VideoDecoder
        >>> from mediatensor.samplers import clips_at_scenes
        >>> clips_at_scenes(VideoDecoder("video.mp4"), num_frames_per_clip=16).data.shape
        torch.Size([1, 16, 3, 360, 640])
    """
    length = check_clip_length(num_frames_per_clip)
    step = check_positive_integer("num_indices_between_frames", num_indices_between_frames)
    check_choice("placement", placement, get_args(Placement))
    check_policy(policy)
    num_frames = check_num_frames(decoder, "get_frames_at")
    chosen = find_scenes(decoder) if scenes is None else _checked_scenes(scenes, num_frames)
    check_frames(len(chosen) * length, f"{len(chosen)} clips of {length} frames")
    span = step * (length - 1) + 1
    shares = torch.rand(len(chosen), dtype=torch.float64, device="cpu").tolist() if placement == "random" else ()
    indices: list[int] = []
    for number, scene in enumerate(chosen):
        room = max(0, scene.num_frames - span)  # the last place, from the start of the scene, that a clip fits at
        offset = {"start": 0, "middle": room // 2}.get(placement)
        first = scene.first_frame + (int(shares[number] * (room + 1)) if offset is None else offset)
        there = range(first, min(first + span, scene.last_frame + 1), step)
        indices += complete(there, length, policy)
    with frames_of_clips(length):
        frames = decoder.get_frames_at(indices)
    return as_clips(frames, len(chosen), length)


def _checked_scenes(scenes: Iterable[Scene], num_frames: int) -> list[Scene]:
    chosen = list(scenes)
    if not chosen:
        raise InvalidArgumentError("scenes has no scene; find_scenes(decoder) gives at least one of every video.")
    for scene in chosen:
        if not isinstance(scene, Scene):
            raise InvalidArgumentError(f"scenes must be those that find_scenes gives (got {shown(scene)}).")
        if not 0 <= scene.first_frame <= scene.last_frame < num_frames:
            raise InvalidArgumentError(
                f"The scene from frame {scene.first_frame} to {scene.last_frame} does not lie in this video of "
                f"{num_frames} frames: give scenes that find_scenes found in it."
            )
    return chosen
