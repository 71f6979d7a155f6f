"""Find problems by comparing files with each other, with their rows, and with the tables of LeRobot datasets.

Comparing files with each other shows duplicates, cameras of an episode that drift apart, and files that differ from
nearly all others. Comparing rows with their files shows wrong labels, wrong segments, and columns that contradict the
file. In a LeRobot dataset, the rows of the tables are checked, and then compared with the times of the camera frames.
"""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._engine.common.messages import counted
from ...errors import ReadError
from .._sources.items import Item
from .._sources.lerobot import Episode, EpisodeFiles, LeRobotFormat, open_lerobot
from .._sources.lerobot_tables import seconds_of_rows, table_rows
from .contents import spans_of
from .copies import SharedPart, find_shared_parts
from .findings import CheckedFile, Finding, MediaFacts

# With fewer files, no file counts as "odd". With more, at least this share of files must agree.
_MIN_FILES, _MIN_SHARE = 10, 0.9
# Two rows are near copies if their common part is at least this share of the shorter row. Episodes of a series have
# shorter parts in common, such as titles.
_MIN_SHARED = 0.2
# A part is reported once: another finding is left out if earlier findings cover more than this share of its part.
_MAX_REPORTED = 0.5
# Files with the same value in one of these columns are cameras of one episode. They start and stop up to two frames
# apart.
_EPISODE_COLUMNS = ("episode", "episode_index", "episode_id")
_MIN_APART_SECONDS, _MAX_STEPS_APART = 0.1, 2.0
# Labels count as classes if they have at least this many rows on average.
_MIN_ROWS_OF_A_CLASS = 3.0
# If a smaller share of rows has no label, this counts as a mistake; otherwise rows are unlabelled on purpose.
_MAX_UNLABELLED = 0.5
# If a smaller share of labels is fractional, this counts as a mistake; otherwise labels are not classes.
_MAX_FRACTIONAL = 0.1
_LABELS_NAMED = 5
_MAX_SECONDS_APART, _MAX_SHARE_APART = 0.5, 0.02
_MAX_FRAMES_APART = 2


class Row(NamedTuple):
    """The columns of a row, and a ``key`` that stands for its file. Rows of the same file have equal keys.

    ``segment`` has the start and end of the row's segment in seconds. ``None`` means the start or the end of the file.
    """

    label: Any = None
    segment: tuple[float | None, float | None] = (None, None)
    extra: Mapping[str, Any] = {}
    key: str = ""

    @property
    def number(self) -> float | None:
        if not isinstance(self.label, Real):
            return None
        try:
            return float(self.label)
        except OverflowError:  # an integer of hundreds of digits
            return math.inf

    @property
    def label_text(self) -> str:
        name = self.extra.get("class_name")
        return f"{self.label}" if name is None else f"{self.label} ({name!r})"


class _Findings(defaultdict[int, list[Finding]]):
    def add(self, number: int, kind: str, message: str, start: float | None = None, end: float | None = None) -> None:
        self[number].append(Finding(kind, message, start, end))


def compare_files(
    files: Sequence[CheckedFile], rows: Sequence[Row], num_classes: int | None
) -> tuple[list[CheckedFile], list[Finding]]:
    added = _Findings(list)
    for number, (file, row) in enumerate(zip(files, rows, strict=True)):
        _compare_row_with_file(number, row, file.facts, added)
    together = _check_labels(rows, files, num_classes, added)
    copies = _find_duplicates(files, rows, added)
    _find_near_duplicates(files, rows, copies, added)
    _find_camera_drift(files, rows, added)
    _find_odd_files(files, added)
    finished = [
        replace(file, findings=(*file.findings, *added[number])) if number in added else file
        for number, file in enumerate(files)
    ]
    return finished, together


def _find_duplicates(files: Sequence[CheckedFile], rows: Sequence[Row], added: _Findings) -> set[int]:
    """Add a finding to each file with the same bytes as an earlier file. Return the indices of all such files."""
    first: dict[str, int] = {}
    copies = set()
    for number, file in enumerate(files):
        digest = file.facts.digest
        if digest is None:
            continue
        original = first.setdefault(digest, number)
        # Rows that are parts of one file are not copies.
        if original != number and rows[original].key != rows[number].key:
            copies.add(number)
            added.add(number, "duplicate", f"the same bytes as {files[original].name}")
    return copies


def _find_near_duplicates(
    files: Sequence[CheckedFile], rows: Sequence[Row], copies: set[int], added: _Findings
) -> None:
    """Add a finding for each part of a file that is also in an earlier file. Longer parts come first."""
    rows_of: dict[str, list[int]] = defaultdict(list)
    for number, (file, row) in enumerate(zip(files, rows, strict=True)):
        if file.facts.picture_signature and number not in copies:
            rows_of[row.key].append(number)
    videos = list(rows_of.values())
    reported: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for part in find_shared_parts([files[numbers[0]].facts.picture_signature or "" for numbers in videos]):
        for number in videos[part.later]:
            for other in videos[part.earlier]:
                found = _describe_copy(part, files[number], rows[number], files[other], rows[other])
                if found is None:
                    continue
                start, end = found.start_seconds or 0.0, found.end_seconds or 0.0
                known = sum(max(min(end, b) - max(start, a), 0.0) for a, b in reported[number])
                if known <= _MAX_REPORTED * (end - start):
                    reported[number].append((start, end))
                    added[number].append(found)
                break


def _describe_copy(part: SharedPart, file: CheckedFile, row: Row, other: CheckedFile, other_row: Row) -> Finding | None:
    """Return a finding about a part that two files share; ``None`` if it is outside the rows, or too short."""
    row_start, row_end = _span_of(file, row)
    other_start, other_end = _span_of(other, other_row)
    begin = (file.facts.begin_seconds or 0.0) + part.start_seconds
    shift = (other.facts.begin_seconds or 0.0) + part.earlier_start_seconds - begin
    start = max(begin, row_start, other_start - shift)
    end = min(begin + part.end_seconds - part.start_seconds, row_end, other_end - shift)
    shorter = min(row_end - row_start, other_end - other_start)
    if end <= start or end - start < _MIN_SHARED * shorter:
        return None
    text = f"copy of {other.name} from {start + shift:.1f} s to {end + shift:.1f} s"
    return Finding(
        "near-duplicate",
        f"{text}, mirrored" if part.is_mirrored else text,
        start,
        end,
        other_name=other.name,
        other_start_seconds=start + shift,
        other_end_seconds=end + shift,
    )


def _span_of(file: CheckedFile, row: Row) -> tuple[float, float]:
    """Return the (start, end) in seconds of the part of a file that a row stands for."""
    begin = file.facts.begin_seconds or 0.0
    end = begin + (file.facts.duration_seconds or 0.0)
    start, stop = row.segment
    return begin if start is None else max(begin, start), end if stop is None else min(end, stop)


def _find_camera_drift(files: Sequence[CheckedFile], rows: Sequence[Row], added: _Findings) -> None:
    """Add a finding to each file whose duration differs from the files of the same episode's other cameras."""
    episodes: dict[str, list[int]] = defaultdict(list)
    for number, (file, row) in enumerate(zip(files, rows, strict=True)):
        episode = next((text for name in _EPISODE_COLUMNS if (text := str(row.extra.get(name, "")))), "")
        if episode and row.extra.get("camera") and file.facts.num_frames and row.segment == (None, None):
            episodes[episode].append(number)
    for episode, numbers in episodes.items():
        lengths = {number: files[number].facts.duration_seconds or 0.0 for number in numbers}
        # If there are two cameras, the first is the reference.
        usual = sorted(lengths.values())[len(lengths) // 2] if len(lengths) > 2 else lengths[numbers[0]]
        other = next(number for number in numbers if lengths[number] == usual)
        for number in numbers:
            apart = lengths[number] - usual
            if abs(apart) <= max(_MIN_APART_SECONDS, _MAX_STEPS_APART / (files[other].facts.average_fps or np.inf)):
                continue
            num_frames, num_usual = (files[one].facts.num_frames for one in (number, other))
            text = (
                f"{abs(apart):.2f} s {'longer' if apart > 0 else 'shorter'} than {files[other].name} of episode "
                f"{episode} ({num_frames} frames, not {num_usual})"
            )
            added.add(number, "camera-drift", text, min(usual, lengths[number]), max(usual, lengths[number]))


def _find_odd_files(files: Sequence[CheckedFile], added: _Findings) -> None:
    for kind, describe in _COMPARED_FACTS.items():
        texts = {number: text for number, file in enumerate(files) if (text := describe(file.facts)) is not None}
        if len(texts) < _MIN_FILES:
            continue
        usual, count = Counter(texts.values()).most_common(1)[0]
        if count < _MIN_SHARE * len(texts):
            continue
        for number, text in texts.items():
            if text != usual:
                added.add(number, kind, f"{text}, while {count} of {len(texts)} files have {usual}")


def _describe_sound(facts: MediaFacts) -> str | None:
    if facts.sample_rate is None:
        return None if facts.num_frames is None else "no audio"
    return f"{facts.sample_rate} Hz, {counted(facts.num_channels or 0, 'channel')}"


#: For each kind of finding, a function that returns a text of the facts to compare; ``None`` if they are unknown.
_COMPARED_FACTS: dict[str, Callable[[MediaFacts], str | None]] = {
    "odd-size": lambda facts: None if facts.width is None else f"{facts.width}x{facts.height}",
    "odd-rotation": lambda facts: (
        None if facts.num_frames is None else f"a rotation of {facts.rotation or 0.0:g} degrees"
    ),
    "odd-rate": lambda facts: None if facts.average_fps is None else f"{facts.average_fps:.1f} frames/s",
    "odd-sound": _describe_sound,
    "odd-codec": lambda facts: " and ".join(filter(None, (facts.video_codec, facts.audio_codec))) or None,
}


# Rows and their files


def _check_labels(
    rows: Sequence[Row], files: Sequence[CheckedFile], num_classes: int | None, added: _Findings
) -> list[Finding]:
    _find_contradictory_labels(rows, files, added)
    values = {number: value for number, row in enumerate(rows) if (value := row.number) is not None}
    unlabelled = [number for number, row in enumerate(rows) if row.label is None]
    if unlabelled and len(unlabelled) < _MAX_UNLABELLED * len(rows):
        for number in unlabelled:
            added.add(number, "missing-label", f"{len(rows) - len(unlabelled)} of {len(rows)} rows have a label")
    not_finite = [number for number, value in values.items() if not math.isfinite(value)]
    for number in not_finite:
        added.add(number, "wrong-label", f"the label is {values.pop(number)}")
    fractional = [number for number, value in values.items() if value != math.floor(value)]
    if not values or len(fractional) > _MAX_FRACTIONAL * len(values):
        return []
    for number in fractional:
        added.add(number, "wrong-label", f"the label is {values.pop(number):g}, while other labels are whole numbers")
    for number, value in list(values.items()):
        if value < 0 or (num_classes is not None and value >= num_classes):
            del values[number]
            accepted = "of at least 0" if num_classes is None else f"from 0 to {num_classes - 1}"
            text = f"the label is {rows[number].label_text}, but labels must be whole numbers {accepted}"
            added.add(number, "wrong-label", text)
    counts = Counter(int(value) for value in values.values())
    if len(values) < _MIN_ROWS_OF_A_CLASS * len(counts):
        return []
    for number, value in values.items():
        if counts[int(value)] == 1:
            text = f"the only row of class {rows[number].label_text}, of {len(counts)} classes"
            added.add(number, "rare-label", text)
    return _find_label_gaps(counts, num_classes)


def _find_label_gaps(counts: Counter[int], num_classes: int | None) -> list[Finding]:
    present = sorted(counts)
    stop = num_classes if num_classes is not None else (present[-1] + 1 if present else 0)
    spans = []
    for before, after in zip([-1, *present], [*present, stop], strict=True):
        if after - before > 1:
            spans.append(f"{before + 1}" if after - before == 2 else f"{before + 1} to {after - 1}")
    if not spans:
        return []
    named = ", ".join(spans[:_LABELS_NAMED]) + (" ..." if len(spans) > _LABELS_NAMED else "")
    last = f"{present[0]} to {present[-1]}" if present else "none"
    return [Finding("label-gap", f"no row has the label {named}; there are {len(counts)} different labels, {last}")]


def _find_contradictory_labels(rows: Sequence[Row], files: Sequence[CheckedFile], added: _Findings) -> None:
    first: dict[Any, int] = {}
    for number, (row, file) in enumerate(zip(rows, files, strict=True)):
        if row.label is None:
            continue
        other = first.setdefault((file.facts.digest or file.name, row.segment), number)
        if repr(rows[other].label) != repr(row.label):
            text = f"the label is {row.label_text}, but {rows[other].label_text} in row {other}, {files[other].name}"
            added.add(number, "two-labels", text)


def label_counts(rows: Sequence[Row]) -> dict[str, int]:
    """Return the number of rows with each label, by class name or number; nothing if any label is fractional."""
    counts: Counter[str] = Counter()
    order: dict[str, float] = {}
    for row in rows:
        value = row.number
        if value is None or not math.isfinite(value):
            continue
        if value != math.floor(value):
            return {}
        name = str(row.extra.get("class_name", int(value)))
        counts[name] += 1
        order[name] = value
    return {name: counts[name] for name in sorted(counts, key=lambda name: order[name])}


def select_segment(file: CheckedFile, row: Row) -> CheckedFile:
    """Return ``file`` without the findings outside the segment of ``row``. Findings without a time are kept."""
    start = -math.inf if row.segment[0] is None else row.segment[0]
    end = math.inf if row.segment[1] is None else row.segment[1]

    def concerns(finding: Finding) -> bool:
        begins, ends = finding.start_seconds, finding.end_seconds
        if begins is None:
            return True
        return begins < end and (ends is None or ends > start or begins >= start)

    return replace(file, findings=tuple(filter(concerns, file.findings)))


def _compare_row_with_file(number: int, row: Row, facts: MediaFacts, added: _Findings) -> None:
    """Add a finding for each column that contradicts the file, or if the segment exceeds the file."""
    start, end = row.segment
    if facts.duration_seconds is not None:
        file_end = (facts.begin_seconds or 0.0) + facts.duration_seconds
        if start is not None and start >= file_end:
            text = f"the segment begins at {start:.2f} s, but the file ends at {file_end:.2f} s"
            added.add(number, "segment-outside", text, start, end)
        elif end is not None and end > file_end + _MAX_SECONDS_APART:
            text = f"the segment ends at {end:.2f} s, but the file ends at {file_end:.2f} s"
            added.add(number, "segment-cut", text, file_end, end)
    if start is not None or end is not None:
        return
    for column, (fact, apart, share_apart) in _FACT_COLUMNS.items():
        value, actual = _number(row.extra.get(column)), getattr(facts, fact)
        if value is None or actual is None:
            continue
        if abs(value - actual) > max(apart, share_apart * actual):
            added.add(number, "table-facts", f"{column} is {value:g}, but the file has {actual:g}")


def _number(value: Any) -> float | None:
    try:
        number = math.nan if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


#: Columns with facts about the file: for each, the fact, an absolute tolerance, and one as a share of the value.
_FACT_COLUMNS: dict[str, tuple[str, float, float]] = {
    "num_frames": ("num_frames", _MAX_FRAMES_APART, 0.01),
    "duration": ("duration_seconds", _MAX_SECONDS_APART, _MAX_SHARE_APART),
    "duration_seconds": ("duration_seconds", _MAX_SECONDS_APART, _MAX_SHARE_APART),
    "fps": ("average_fps", 0, _MAX_SHARE_APART),
    "width": ("width", 0, 0),
    "height": ("height", 0, 0),
    "sample_rate": ("sample_rate", 0, 0),
    "num_channels": ("num_channels", 0, 0),
}


# LeRobot datasets

# Maximum distance in seconds from the time of a row to its frame, as in LeRobot's own reader and `LeRobotClips`.
_TOLERANCE_SECONDS = 1e-4
# A smaller drift over an episode counts as rounding.
_MIN_DRIFT_SECONDS = 2e-3
_EPISODES_NAMED = 5


class EpisodeTimes(NamedTuple):
    """The rows of an episode, and the expected time of the frame of each row in the video, float64 (rows,)."""

    episode: int
    first_row: int
    seconds: NDArray[np.float64]
    fps: float


def is_lerobot(source: Any) -> bool:
    return isinstance(source, (str, os.PathLike)) and os.path.isfile(
        os.path.join(os.fsdecode(source), "meta/info.json")
    )


def videos_of(source: Any) -> tuple[list[Item], list[tuple[EpisodeTimes, ...]], list[Finding]]:
    """Return the videos of a LeRobot dataset, the episodes in each video, and findings about the tables."""
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
    return items, [tuple(own) for own in times.values()], findings


def _find_wrong_rows(
    known: LeRobotFormat, episode: Episode, columns: Mapping[str, Any], gaps: Mapping[str, NDArray[np.bool_]], path: str
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
            # Times are float32. After an hour, rounding is off by a tenth of a millisecond.
            is_wrong = ~(np.abs(values - wanted[name]) <= _TOLERANCE_SECONDS + 1e-7 * wanted[name])
            should = "should be {:.4f}, by its frame_index"
        elif name == "task_index":
            is_wrong, should = ~np.isin(values, list(known.tasks)), "is not in the table of tasks"
        elif values.dtype.kind == "f":
            is_wrong, should = ~np.isfinite(values).reshape(len(values), -1).all(1), "should be finite"
        else:
            continue
        if is_wrong.any():
            first = int(np.argmax(is_wrong))
            value = np.array2string(values[first], threshold=8)
            should = should.format(wanted[name][first]) if name in wanted else should
            reason = f"is wrong: the first is {value}, and {should}" if should else "is missing, or has a wrong shape"
            text = f"{path}: {name} of {int(is_wrong.sum())} of {len(frames)} rows {reason}"
            yield Finding(
                "table-rows", text, start_frame=first, end_frame=first + 1, episode=episode.index,
                row=episode.first_index + first,
            )  # fmt: skip


def compare_with_table(episodes: Sequence[EpisodeTimes], pts_seconds: NDArray[np.float64]) -> list[Finding]:
    """Compare the frames of a video with the rows of a LeRobot table, and return the differences as findings.

    There is a finding if a row has no frame at its time, an episode has a wrong number of frames, or a camera drifts
    from the table. ``pts_seconds`` has the times of all frames of the video, in ascending order.
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
                replace(more, message=f"episode {more.episode}, like the episodes before")
                for more in findings[_EPISODES_NAMED:]
            ]
    return found


def _find_drift(
    one: EpisodeTimes, pts_seconds: NDArray[np.float64], first_frame: int, place: Mapping[str, Any]
) -> list[Finding]:
    """Return a finding if the frames of an episode run faster or slower than its rows.

    ``first_frame`` is the index of the frame nearest to the first row. ``place`` has arguments for `Finding`.
    """
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
        f"episode {one.episode} runs at {rate:.4g} frames/s, but the table has {one.fps:g}: they are "
        f"{abs(grown):.3f} s apart at the end"
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
            text = f"the table has {len(one.seconds)} frames of episode {one.episode}, but the video has {last - first}"
            yield Finding("frame-count", text, begin + half, end + half, first, last, one.episode)
    for first, last in spans_of(~in_episodes)[:_EPISODES_NAMED]:
        text = f"{last - first} of {len(pts_seconds)} frames belong to no episode of the table"
        yield Finding("frame-count", text, float(pts_seconds[first]), float(pts_seconds[last - 1]), first, last)
