"""Checks of the contents of a file: frame times, key frames, images, audio, and the lengths stated in the header.

All of them are pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._engine.common.messages import counted
from .findings import Finding

# Shorter still or black spans are normal in films, for example pauses and fades.
_MIN_SPAN_SECONDS = 2.0
# Differences out of 255 in small frames. Encoded repeats of a frame differ by less, two frames of any sensor by more.
_FROZEN_MEAN, _FROZEN_MOST = 0.05, 2.0
_BLACK_MEAN, _BLACK_MOST = 12.0, 24.0
# In a still, an encoder refreshes one or two frames at each key frame. A texture and a slide with text were encoded as
# H.264 (crf 23 and 38), MPEG-2 and VP9. Refreshed frames changed by up to 1.2 levels on average, and by 7 at most. With
# crf 48, they changed by 3.5 and 27, which counts as another still. One more line on a slide changes it by 91 at most.
_REFRESH_FRAMES, _MIN_REFRESH_DISTANCE = 2, 8
_REFRESH_MEAN, _REFRESH_MOST = 2.0, 16.0
_MIN_GAP_SECONDS, _GAP_STEPS = 0.5, 5.0
# x264 writes a key frame at least every 250 frames, so that a random frame requires decoding 125.5 frames on average.
_MOST_RANDOM_ACCESS_FRAMES = 150.0
# An encoder refines a repeated frame slightly. A repeat therefore changes by less than this share of its neighbours'
# change. If the neighbours hardly move, as in stills, no frame counts as a repeat.
_REPEATED_SHARE, _MIN_MOVING_MEAN = 0.1, 1.0
_NEIGHBOURS, _LEAST_STEP = 12, 0.3
# Longer runs of repeats are pauses of the scene. A single run does not make a pattern.
_MOST_REPEATED_SECONDS, _MIN_REPEATED_PLACES = 0.5, 2
# After a lost frame, the video jumps by two steps. After an inserted frame, it moves on by one.
_JUMP = 1.4
# Repeats are regular if there are this many, this share is at the same distance to within a frame, and they span this
# share of the file.
_MIN_REGULAR, _REGULAR_SHARE, _REGULAR_SPREAD = 5, 0.9, 0.5
_FRAMES_NAMED = _FINDINGS_NAMED = 5


@dataclass(frozen=True)
class Times:
    """The times of N frames, which never decrease, and the number of frames in each group of pictures.

    The container counts time in steps of ``tick_seconds``. ``has_own_pace`` means that each frame has its own duration,
    as in a GIF.
    """

    pts_seconds: NDArray[np.float64]
    end_seconds: float
    tick_seconds: float
    gop_lengths: NDArray[np.int64]
    has_own_pace: bool = False
    stated_fps: float | None = None


@dataclass(frozen=True)
class PictureStatistics:
    """The brightness of each of N frames, and how much it changed from the previous frame.

    All fields have shape (N,) and values from 0 to 255. ``mean`` and ``most`` are the mean and the maximum of the
    pixels in a small gray copy. ``mean_change`` and ``most_change`` are the mean and the maximum of the absolute
    differences of these pixels from the previous frame. For the first frame, both are infinite.
    """

    mean: NDArray[np.float32]
    most: NDArray[np.float32]
    mean_change: NDArray[np.float32]
    most_change: NDArray[np.float32]


def check_times(times: Times) -> list[Finding]:
    found = []
    pts, steps = times.pts_seconds, np.diff(times.pts_seconds)
    usual = float(np.median(steps)) if len(steps) else 0.0
    repeated = np.flatnonzero(steps <= 0)
    if len(repeated):
        first, last = int(repeated[0]) + 1, int(repeated[-1]) + 1
        text = f"{counted(len(repeated), 'frame')} at the same time as the previous frame"
        found.append(Finding("repeated-times", text, **place_of(times, first, last + 1)))
    least = np.inf if times.has_own_pace else max(_MIN_GAP_SECONDS, _GAP_STEPS * usual)
    for number in np.flatnonzero(steps > least):
        start, end = float(pts[number]), float(pts[number + 1])
        text = f"no frame for {end - start:.2f} s; frames are usually {usual:.3f} s apart"
        found.append(Finding("gap", text, start, end, int(number), int(number) + 2))
    uneven = np.abs(steps - usual) > max(2.0 * times.tick_seconds, 0.05 * usual)
    if uneven.any():
        text = (
            f"{int(uneven.sum())} of {len(steps)} steps between frames are not {usual:.4f} s, but from "
            f"{steps.min():.4f} s to {steps.max():.4f} s"
        )
        found.append(Finding("variable-rate", text))
    cost = random_access_frames(times.gop_lengths)
    if cost > _MOST_RANDOM_ACCESS_FRAMES:
        longest = int(times.gop_lengths.max())
        found.append(
            Finding(
                "sparse-key-frames",
                f"on average, {cost:.0f} frames are decoded to get a random one; up to {longest} are in a group",
            )
        )
    return found


def random_access_frames(gop_lengths: NDArray[np.int64]) -> float:
    """Return how many frames must be decoded on average to get a random frame.

    Decoding starts at the beginning of a group of pictures, so k frames must be decoded to get frame k of a group.

    >>> random_access_frames(np.array([1, 1])), random_access_frames(np.array([9]))
    (1.0, 5.0)
    """
    total = int(gop_lengths.sum())
    return float((gop_lengths * (gop_lengths + 1) / 2).sum() / total) if total else 0.0


def find_still_and_black(statistics: PictureStatistics, times: Times) -> list[Finding]:
    if times.has_own_pace:
        return []
    is_black = (statistics.mean < _BLACK_MEAN) & (statistics.most < _BLACK_MOST)
    found = []
    for kind, spans in (("frozen", _still_spans(statistics, is_black)), ("black", spans_of(is_black))):
        for first, last in spans:
            seconds = _seconds(times, first, last)
            if seconds >= _MIN_SPAN_SECONDS:
                found.append(Finding(kind, f"{kind} for {seconds:.2f} s", **place_of(times, first, last)))
    return found


def _still_spans(statistics: PictureStatistics, is_black: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the ranges [first, last) of frames in which the video shows a still image.

    Frames that change slightly, because the encoder refines the still, do not end the range.
    """
    change, most = statistics.mean_change, statistics.most_change
    is_same = (change < _FROZEN_MEAN) & (most <= _FROZEN_MOST) & ~is_black
    spans: list[tuple[int, int]] = []
    length_before = 0
    for first, last in spans_of(is_same):
        between = slice(spans[-1][1], first) if spans else slice(0, 0)
        is_refreshed = (
            0 < between.stop - between.start <= _REFRESH_FRAMES
            and min(length_before, last - first) >= _MIN_REFRESH_DISTANCE
            and change[between].max() <= _REFRESH_MEAN
            and most[between].max() <= _REFRESH_MOST
            and not is_black[between].any()
        )
        if is_refreshed:
            spans[-1] = spans[-1][0], last
        else:
            # The still begins one frame before the first unchanged frame.
            spans.append((first if is_black[first - 1] else first - 1, last))
        length_before = last - first
    return spans


def find_repeats(statistics: PictureStatistics, times: Times) -> list[Finding]:
    """Return a finding if some frames of a moving video repeat the previous frame.

    After a repeat that replaces a lost frame, the video jumps, because the lost frame contained motion. After a repeat
    that was inserted to raise the frame rate, the video does not jump. Repeats at regular intervals do not indicate
    lost frames.
    """
    if times.has_own_pace or len(statistics.mean) < 3:
        return []
    is_same, usual = _find_unchanged(statistics)
    change = statistics.mean_change

    def is_amid_motion(first: int, last: int) -> bool:
        around = [at for at in (first - 1, last) if at < len(change)]
        return all(usual[at] >= _MIN_MOVING_MEAN and _LEAST_STEP * usual[at] <= change[at] < np.inf for at in around)

    runs = [
        (first, last)
        for first, last in spans_of(is_same)
        if _seconds(times, first, last) < _MOST_REPEATED_SECONDS and is_amid_motion(first, last)
    ]
    if len(runs) < _MIN_REPEATED_PLACES:
        return []
    numbers = np.array([number for first, last in runs for number in range(first, last)], np.int64)
    jumps = [change[last] / usual[last] for _, last in runs if last < len(change)]
    jump = float(np.median(jumps)) if jumps else 0.0
    named = ", ".join(map(str, numbers[:_FRAMES_NAMED])) + (" ..." if len(numbers) > _FRAMES_NAMED else "")
    place = place_of(times, int(numbers[0]), int(numbers[-1]) + 1)
    is_regular, step = _measure_regularity(numbers, len(change))
    if jump >= _JUMP and not (is_regular and step < 3):
        text = f"{len(numbers)} of {len(change)} frames repeat the previous frame, and then the video jumps"
        return [Finding("dropped-frames", f"{text}: frames {named}", **place)]
    text = f"{len(numbers)} of {len(change)} frames repeat the previous frame, without a jump after it"
    if is_regular:
        seconds = times.end_seconds - float(times.pts_seconds[0])
        rate = len(change) * (1 - 1 / step) / seconds if seconds > 0 else 0.0
        text += f"; without these repeats (one in {step:.3g} frames), the video has about {rate:.4g} frames/s"
    return [Finding("repeated-frames", f"{text}: frames {named}", **place)]


def _find_unchanged(statistics: PictureStatistics) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """Return a mask of the frames that change far less than the frames near them.

    The second result is the median change of the moving frames near each frame.
    """
    change, most = statistics.mean_change, statistics.most_change
    is_moving = change > _FROZEN_MEAN
    is_moving[0] = False
    usual, usual_most = (_median_around(values, is_moving) for values in (change, most))
    is_same = (change <= np.maximum(_FROZEN_MEAN, _REPEATED_SHARE * usual)) & (
        most <= np.maximum(_FROZEN_MOST, _REPEATED_SHARE * usual_most)
    )
    # Compute the median again, without repeats that were taken for motion because the encoder refined them.
    return is_same, _median_around(change, is_moving & ~is_same)


def _median_around(values: NDArray[np.float32], is_wanted: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return the median of the wanted values near each frame; 0 if fewer than a third of them are wanted."""
    width = 2 * _NEIGHBOURS + 1
    padded = np.pad(np.where(is_wanted, values, np.inf), _NEIGHBOURS, constant_values=np.inf)
    inside = np.pad(np.ones(len(values), bool), _NEIGHBOURS)
    ordered = np.sort(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1)
    counts = np.isfinite(ordered).sum(1)
    present = np.lib.stride_tricks.sliding_window_view(inside, width).sum(1)
    medians = ordered[np.arange(len(values)), np.maximum(counts - 1, 0) // 2]
    result: NDArray[np.float32] = np.where(3 * counts >= present, medians, 0.0).astype(np.float32)
    return result


def _measure_regularity(numbers: NDArray[np.int64], num_frames: int) -> tuple[bool, float]:
    """Return whether the repeated frames ``numbers`` are evenly spaced over the whole file, and their mean distance."""
    if len(numbers) < _MIN_REGULAR:
        return False, float(num_frames)
    steps = np.diff(numbers)
    lowest = int(np.floor(steps.mean()))
    is_usual = (steps >= lowest) & (steps <= lowest + 1)
    is_all_over = numbers[-1] - numbers[0] >= _REGULAR_SPREAD * num_frames
    return bool(is_all_over and is_usual.mean() >= _REGULAR_SHARE), float(steps.mean())


def shorten(found: Sequence[Finding], rest: str) -> list[Finding]:
    """Return the first five findings, and one for all later ones, with the message ``rest``."""
    if len(found) <= _FINDINGS_NAMED:
        return list(found)
    first, last = found[_FINDINGS_NAMED], found[-1]
    joined = replace(first, message=rest, end_seconds=last.end_seconds, end_frame=last.end_frame)
    return [*found[:_FINDINGS_NAMED], joined]


def place_of(times: Times, first: int, last: int) -> dict[str, Any]:
    start = float(times.pts_seconds[first])
    return {"start_seconds": start, "end_seconds": _end_of(times, last), "start_frame": first, "end_frame": last}


def _seconds(times: Times, first: int, last: int) -> float:
    return _end_of(times, last) - float(times.pts_seconds[first])


def _end_of(times: Times, last: int) -> float:
    return times.end_seconds if last >= len(times.pts_seconds) else float(times.pts_seconds[last])


def spans_of(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the ranges [first, last) of consecutive true values.

    >>> spans_of(np.array([True, False, True, True]))
    [(0, 1), (2, 4)]
    """
    return [(first, last) for first, last in _edges_of(flags).tolist()]


def _edges_of(flags: NDArray[np.bool_]) -> NDArray[np.intp]:
    return np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8))).reshape(-1, 2)


# Audio

# -80 dB of full scale. The quietest 16-bit sample that is not zero has -90 dB.
_SILENT_PEAK = 1e-4
_FULL_SCALE, _CLIPPED_RUN, _CLIPPED_SHARE = 0.999, 3, 1e-3
_MOST_SECONDS_APART = 0.5
# A viewer sees if lips and voice are a tenth of a second apart.
_MOST_DRIFT = _MOST_BEGINS_APART = 0.1
_LEAST_STRETCH = 0.002
_MIN_PACKETS = 8
# Ratios of rates that are often confused, and the tolerance for `check_alignment`.
_MIX_UPS = {
    1.001: "30 and 29.97 frames/s",
    25 / 24: "25 and 24 frames/s",
    25.025 / 24: "25 and 23.98 frames/s",
    30 / 25: "30 and 25 frames/s",
    48000 / 44100: "48 and 44.1 kHz",
}
_MIX_UP_SECONDS, _MIX_UP_SHARE = 0.06, 5e-4


@dataclass
class SoundStatistics:
    """Statistics of the audio of a file. `add` updates them with the next samples, (channels, N).

    ``num_samples`` counts the samples of one channel. ``num_values`` counts the samples of all channels.
    ``num_clipped`` counts the samples in runs of consecutive samples at full scale.
    """

    num_samples: int = 0
    peak: float = 0.0
    num_clipped: int = 0
    num_values: int = 0

    def add(self, samples: NDArray[np.float32]) -> None:
        size = np.abs(samples)
        self.num_samples += samples.shape[1]
        self.num_values += samples.size
        self.peak = max(self.peak, float(size.max(initial=0.0)))
        for is_full in size >= _FULL_SCALE:
            edges = _edges_of(is_full)
            runs = edges[:, 1] - edges[:, 0]
            self.num_clipped += int(runs[runs >= _CLIPPED_RUN].sum())


def check_loudness(statistics: SoundStatistics) -> list[Finding]:
    if statistics.num_samples and statistics.peak < _SILENT_PEAK:
        return [Finding("silent", f"the largest sample is {statistics.peak:.1e} of full scale")]
    share = statistics.num_clipped / max(statistics.num_values, 1)
    if share > _CLIPPED_SHARE:
        return [Finding("clipped", f"{100 * share:.1f} % of the samples are in runs at full scale")]
    return []


def check_alignment(video: tuple[float, float], audio: tuple[float, float], stretch: float) -> list[Finding]:
    """Return findings if video and audio start or end at different times, or drift apart.

    ``video`` and ``audio`` are (begin, end) in seconds. ``stretch`` is the frame rate in the header divided by the
    actual frame rate. If it is not 1, it can explain a drift.
    """
    begins, ends = audio[0] - video[0], audio[1] - video[1]
    seen, listened = video[1] - video[0], audio[1] - audio[0]
    if abs(begins) <= _MOST_BEGINS_APART and min(seen, listened) > 0:
        ratio = seen / listened
        reason = None
        if abs(stretch - 1) > _LEAST_STRETCH and abs(ratio / stretch - 1) < 0.25 * abs(stretch - 1):
            reason = f"and the frames come at {1 / stretch:.4f} of the frame rate in the header"
        if abs(ends) > _MOST_SECONDS_APART:
            tolerance = min(_MIX_UP_SECONDS / seen, _MIX_UP_SHARE)
            for known, names in _MIX_UPS.items():
                if min(abs(ratio - known), abs(1 / ratio - known)) < tolerance:
                    reason = f"as if {names} had been confused"
        if reason is not None and abs(ends) > _MOST_DRIFT:
            share = 100 * abs(listened / seen - 1)
            word = "longer" if ends > 0 else "shorter"
            text = f"the audio is {share:.2f} % {word} than the video, {abs(ends):.2f} s at the end, {reason}"
            return [Finding("sound-drift", text, min(video[1], audio[1]), max(video[1], audio[1]))]
    found = []
    for text, apart, at in (("begins", begins, (video[0], audio[0])), ("ends", ends, (video[1], audio[1]))):
        if abs(apart) > _MOST_SECONDS_APART:
            text = f"the audio {text} {abs(apart):.2f} s {'after' if apart > 0 else 'before'} the video"
            found.append(Finding("sound-length", text, min(at), max(at)))
    return found


def check_packet_times(packet_seconds: NDArray[np.float64], begin: float, counted_seconds: float) -> list[Finding]:
    """Return findings if the times of audio packets disagree with the number of decoded samples.

    ``packet_seconds`` are the start times of the packets, followed by the end of the last packet. ``begin`` is the time
    of the first sample, and ``counted_seconds`` the total duration of all samples.
    """
    pts = packet_seconds[packet_seconds >= begin - _MOST_DRIFT]
    if len(pts) < _MIN_PACKETS:
        return []
    apart = float(pts[-1]) - begin - counted_seconds
    if abs(apart) <= _MOST_DRIFT:
        return []
    steps = np.diff(pts)
    usual = float(np.median(steps))
    leaps = np.flatnonzero(steps > usual + _MOST_DRIFT)
    if len(leaps):
        spans = [(float(pts[number]) + usual, float(pts[number + 1])) for number in leaps]
        gaps = [Finding("sound-gap", f"no audio for {b - a:.2f} s", a, b) for a, b in spans]
        return shorten(gaps, f"all remaining gaps, of {len(gaps)} in total")
    word = "slower" if apart > 0 else "faster"
    share = 100 * abs(apart) / counted_seconds
    text = f"samples come {share:.2f} % {word} than the sample rate states, {abs(apart):.2f} s at the end"
    return [Finding("sound-drift", text, begin, float(pts[-1]))]


# Lengths in headers

# AVI headers count empty chunks as well.
_MAX_FRAMES_APART, _MAX_SHARE_APART = 2, 0.01
# A stream seems too short if its last block has no duration. In our Matroska and WebM files, the difference is at most
# 0.1 s for an intact stream.
_MAX_SECONDS_APART, _MAX_SHARE_OF_SECONDS_APART = 0.5, 0.02
# Other audio files state their length exactly, except that some encoders of MP3 count the frame that contains the tag.
MAX_AUDIO_SECONDS_APART = 0.1
_CLOCK = re.compile(r"(\d{1,4}):(\d\d):(\d\d(?:\.\d{1,9})?)")


def missing_audio(begin: float, stated_seconds: float, packet_seconds: NDArray[np.float64]) -> list[Finding]:
    """Return a finding if the audio is shorter than its header states.

    The audio starts at ``begin`` and should last ``stated_seconds``. ``packet_seconds`` are the start times of the
    packets, followed by the end of the last packet.
    """
    end = float(packet_seconds.max())
    apart = begin + stated_seconds - end
    if apart <= MAX_AUDIO_SECONDS_APART:
        return []
    text = (
        f"the header states {stated_seconds:.2f} s of audio, but {max(stated_seconds - apart, 0):.2f} s can be decoded"
    )
    return [Finding("cut-off", text, end, begin + stated_seconds)]


class StatedLength(NamedTuple):
    """The number of packets and the end of a stream according to its header; ``None`` for values that it lacks."""

    num_frames: int | None = None
    end_seconds: float | None = None


def stated_lengths(tags: Mapping[str, str], container_tags: Mapping[str, str]) -> StatedLength:
    """Return the length of a Matroska stream according to its tags.

    mkvmerge writes tags such as ``NUMBER_OF_FRAMES-eng``. FFmpeg copies these tags without correcting them, even when
    it cuts a file. FFmpeg itself writes only the tag ``DURATION``, so in a file from FFmpeg, only this tag is used.

    >>> stated_lengths({"NUMBER_OF_FRAMES-eng": "141", "DURATION-eng": "00:00:05.64"}, {"encoder": "libebml v1.4.2"})
    StatedLength(num_frames=141, end_seconds=5.64)
    >>> stated_lengths({"NUMBER_OF_FRAMES-eng": "141", "DURATION": "00:00:05.64"}, {"ENCODER": "Lavf61.1.100"})
    StatedLength(num_frames=None, end_seconds=5.64)
    """
    encoder = next((value for name, value in container_tags.items() if name.lower() == "encoder"), "")
    is_copied = encoder.startswith("Lavf")
    named: dict[str, str] = {}
    for name, value in tags.items():
        if not is_copied or name == "DURATION":
            named.setdefault(name.partition("-")[0].upper(), value)
    clock = _CLOCK.match(named.get("DURATION", ""))
    seconds = None if clock is None else int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3])
    count = named.get("NUMBER_OF_FRAMES", "")
    return StatedLength(int(count) if re.fullmatch(r"[1-9]\d{0,17}", count) else None, seconds)


def missing_frames(stated: int | None, count: int) -> list[Finding]:
    if stated is None or abs(stated - count) <= max(_MAX_FRAMES_APART, _MAX_SHARE_APART * stated):
        return []
    return [Finding("frame-count", f"the header states {stated} frames, but there are {count}")]


def missing_end(kind: str, stated_seconds: float | None, end_seconds: float, longest_step: float) -> list[Finding]:
    """Return a finding if a stream ends earlier than its header states, by more than ``longest_step`` seconds.

    ``kind`` names the stream in the message. ``longest_step`` is the longest time from one frame to the next.
    """
    if stated_seconds is None:
        return []
    apart = stated_seconds - end_seconds
    if apart <= max(_MAX_SECONDS_APART, _MAX_SHARE_OF_SECONDS_APART * stated_seconds, longest_step):
        return []
    text = f"according to the header, the {kind} ends at {stated_seconds:.2f} s, but it ends at {end_seconds:.2f} s"
    return [Finding("cut-off", text, end_seconds, stated_seconds)]
