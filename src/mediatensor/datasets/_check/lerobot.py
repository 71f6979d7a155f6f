"""Checks of a LeRobot dataset: the table rows, and the camera frames."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import ReadError
from .._sources.items import Item
from .._sources.lerobot import Episode, EpisodeFiles, LeRobotFormat, open_lerobot
from .._sources.lerobot_tables import seconds_of_rows, table_rows
from .findings import Finding
from .pictures import spans_of

# Maximum distance of a frame from the time of its row, as in LeRobot's own reader and `LeRobotClips`.
_TOLERANCE_SECONDS = 1e-4
# A smaller drift over an episode counts as rounding.
_MIN_DRIFT_SECONDS = 2e-3
_EPISODES_NAMED = 5


class EpisodeTimes(NamedTuple):
    """The times of an episode in the video of a camera.

    Attributes:
        episode: Number of the episode.
        first_row: Number of the episode's first row in the dataset.
        seconds: Times of the episode's rows in the video, float64 (frames,).
        fps: Frames per second of the dataset.
    """

    episode: int
    first_row: int
    seconds: NDArray[np.float64]
    fps: float


class LeRobotVideos(NamedTuple):
    """The videos of a dataset, and the times in its tables.

    Attributes:
        items: The videos, with camera, episodes and their times in ``extra``.
        episodes: The episodes of each video.
        findings: Findings in the tables themselves.
    """

    items: list[Item]
    episodes: list[tuple[EpisodeTimes, ...]]
    findings: list[Finding]


def is_lerobot(source: Any) -> bool:
    """Return whether a source is the folder of a LeRobot dataset."""
    return isinstance(source, (str, os.PathLike)) and os.path.isfile(
        os.path.join(os.fsdecode(source), "meta/info.json")
    )


def videos_of(source: Any) -> LeRobotVideos:
    """List the videos of a dataset, and check its tables; raise errors like `open_lerobot`."""
    known, all_episodes = open_lerobot(source)
    times: dict[tuple[str, str], list[EpisodeTimes]] = defaultdict(list)
    findings: list[Finding] = []
    for item in all_episodes:
        files, episode = item.source, item.extra["episode"]
        assert isinstance(files, EpisodeFiles)
        frames = np.arange(episode.num_frames)
        seconds = frames / known.fps
        try:
            _, columns, gaps = table_rows(files, episode, known.table_columns)
        except ReadError as error:
            findings.append(Finding("table-rows", str(error), episode=episode.index))
        else:
            wrong = list(_find_wrong_rows(known, episode, columns, gaps, files.table))
            findings += wrong
            if not wrong:
                seconds = seconds_of_rows(columns, frames, known.fps)
        for camera, path in files.videos:
            begin = episode.begin_seconds[camera]
            times[camera, path].append(EpisodeTimes(episode.index, episode.first_index, begin + seconds, known.fps))
    items = [
        Item(
            path,
            extra={
                "camera": camera,
                "episodes": [one.episode for one in own],
                "begin_seconds": [float(one.seconds[0]) if len(one.seconds) else 0.0 for one in own],
                "end_seconds": [float(one.seconds[-1]) + 1 / one.fps if len(one.seconds) else 0.0 for one in own],
            },
        )
        for (camera, path), own in times.items()
    ]
    return LeRobotVideos(items, [tuple(own) for own in times.values()], findings)


def _find_wrong_rows(
    known: LeRobotFormat,
    episode: Episode,
    columns: Mapping[str, Any],
    gaps: Mapping[str, NDArray[np.bool_]],
    path: str,
) -> Iterator[Finding]:
    frames = np.arange(episode.num_frames)
    wanted = {
        "frame_index": frames,
        "index": episode.first_index + frames,
        "episode_index": np.full(len(frames), episode.index),
    }
    for name, column in columns.items():
        values = np.asarray(column)
        if name in gaps:
            is_wrong, should = gaps[name], ""
        elif name in wanted:
            is_wrong, should = values != wanted[name], "should be {:d}"
        elif name == "timestamp":
            wanted[name] = frames / known.fps
            # Times are float32, which is off by a tenth of a millisecond after an hour.
            is_wrong = ~(np.abs(values - wanted[name]) <= _TOLERANCE_SECONDS + 1e-7 * wanted[name])
            should = "should be {:.4f}, by its frame_index"
        elif name == "task_index":
            is_wrong, should = ~np.isin(values, list(known.tasks)), "is in no table of tasks"
        elif values.dtype.kind == "f":
            is_wrong, should = ~np.isfinite(values).reshape(len(values), -1).all(1), "has to be finite"
        else:
            continue
        if is_wrong.any():
            first = int(np.argmax(is_wrong))
            value = np.array2string(values[first], threshold=8)
            should = should.format(wanted[name][first]) if name in wanted else should
            reason = f"is wrong; it is {value}, and {should}" if should else "is missing, or has another shape"
            text = f"{path}: {name} of {int(is_wrong.sum())} of {len(frames)} rows {reason}"
            yield Finding(
                "table-rows", text, start_frame=first, end_frame=first + 1, episode=episode.index,
                row=episode.first_index + first,
            )  # fmt: skip


def compare_with_table(episodes: Sequence[EpisodeTimes], pts_seconds: NDArray[np.float64]) -> list[Finding]:
    """Return findings for rows without a frame at their time, wrong numbers of frames, and drifting cameras.

    ``pts_seconds`` are the times of the video's frames, ascending.
    """
    late, drifting = [], []
    for one in episodes:
        if not len(one.seconds):
            continue
        right = np.searchsorted(pts_seconds, one.seconds).clip(1, max(len(pts_seconds) - 1, 1))
        left = right - 1
        right = right.clip(0, len(pts_seconds) - 1)
        is_left = np.abs(pts_seconds[left] - one.seconds) <= np.abs(pts_seconds[right] - one.seconds)
        nearest = np.where(is_left, left, right)
        off = np.abs(pts_seconds[nearest] - one.seconds)
        is_late = off > _TOLERANCE_SECONDS
        if not is_late.any():
            continue
        first = int(np.argmax(is_late))
        place = {"start_seconds": float(one.seconds[first]), "end_seconds": float(one.seconds[-1])}
        place |= {"start_frame": int(nearest[first]), "episode": one.episode, "row": one.first_row + first}
        text = (
            f"{int(is_late.sum())} of {len(off)} rows of episode {one.episode} have no frame at their time; the "
            f"nearest is up to {off.max():.4f} s away"
        )
        late.append(Finding("table-times", text, **place))  # type: ignore[arg-type]
        drifting += _find_drift(one, pts_seconds, int(nearest[0]), place)
    found = []
    for findings in (late, drifting, list(_compare_frame_counts(episodes, pts_seconds))):
        found += findings[:_EPISODES_NAMED]
        if len(findings) > _EPISODES_NAMED:
            found += [
                replace(more, message=f"episode {more.episode}, as those before") for more in findings[_EPISODES_NAMED:]
            ]
    return found


def _find_drift(
    one: EpisodeTimes, pts_seconds: NDArray[np.float64], first_frame: int, place: Mapping[str, Any]
) -> list[Finding]:
    """Return a finding if the distance between frames and rows grows over an episode."""
    pts = pts_seconds[first_frame : first_frame + len(one.seconds)]
    ahead = one.seconds[: len(pts)] - pts
    if len(pts) < 3:
        return []
    line = np.linspace(ahead[0], ahead[-1], len(ahead))
    grown = float(ahead[-1] - ahead[0])
    if abs(grown) < _MIN_DRIFT_SECONDS or np.abs(ahead - line).max() > 0.2 * abs(grown):
        return []
    rate = (len(pts) - 1) / float(pts[-1] - pts[0])
    text = (
        f"episode {one.episode} runs at {rate:.4g} frames/s where the table has {one.fps:g}: {abs(grown):.3f} s apart "
        "at its end"
    )
    return [Finding("camera-drift", text, **place)]


def _compare_frame_counts(episodes: Sequence[EpisodeTimes], pts_seconds: NDArray[np.float64]) -> Iterator[Finding]:
    """Yield a finding for each episode whose numbers of frames and rows differ, and for frames outside all episodes."""
    if not episodes or len(pts_seconds) == sum(len(one.seconds) for one in episodes):
        return
    in_episodes = np.zeros(len(pts_seconds), bool)
    for one in episodes:
        if not len(one.seconds):
            continue
        half = 0.5 / one.fps
        begin, end = float(one.seconds[0]) - half, float(one.seconds[-1]) + half
        first, last = np.searchsorted(pts_seconds, (begin, end)).tolist()
        in_episodes[first:last] = True
        if last - first != len(one.seconds):
            text = f"the table has {len(one.seconds)} frames of episode {one.episode}, and there are {last - first}"
            yield Finding("frame-count", text, begin + half, end + half, first, last, one.episode)
    for first, last in spans_of(~in_episodes)[:_EPISODES_NAMED]:
        text = f"{last - first} of {len(pts_seconds)} frames are of no episode of the table"
        yield Finding("frame-count", text, float(pts_seconds[first]), float(pts_seconds[last - 1]), first, last)
