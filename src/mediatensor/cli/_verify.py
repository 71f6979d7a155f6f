"""``mediatensor verify``: compare frames that are fetched in any order with a linear decode of the file."""

from __future__ import annotations

import argparse
import hashlib
import math
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import groupby
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .._engine.common.messages import counted, progress
from .._engine.index.holes import describe_holes
from .._engine.pyav.whole_files import LinearFrame, linear_decode
from ..decoders import VideoDecoder
from ..decoders._access import access_to
from ..errors import DamageWarning, DecodeError, MediaTensorError, OutOfRangeError
from ..frames import Frame, FrameBatch
from . import _text
from ._console import emit_json, emit_lines, for_each_file, shown_name

Kind = Literal["one by one", "by time", "pairs", "batches", "clips", "backwards"]

_BATCH_SIZE = 12
_CLIP_LENGTH = 8
_RUN_LENGTH = 24
_NUM_MISMATCHES_KEPT = 5
# Numbers of frames that are kept in turn to find undetermined frames. One number could by chance give the same pixels.
_NUMS_KEPT = (2, 5)


@dataclass(frozen=True)
class ReferenceFrame:
    """A frame of the linear decode. ``pts_seconds`` is ``None`` if the frame has no valid time."""

    pts_seconds: float | None
    shape: tuple[int, ...]
    digest: bytes


Reference = list[ReferenceFrame]
Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Request:
    """One call of the decoder: the kind of call, and the indices of the frames that it fetches."""

    kind: Kind
    indices: tuple[int, ...]


@dataclass(frozen=True)
class Mismatch:
    """A fetched frame that differs from the same frame of the linear decode.

    Attributes:
        expected_pts_seconds: The time of the frame in the linear decode; ``None`` if unknown.
        pts_seconds: The time of the frame that the call returned; ``None`` if the call failed.
        max_abs_difference: The largest pixel difference, 0 to 255; ``None`` if pixels cannot be compared.
        is_frame: The index of a frame of the linear decode with the returned pixels; ``None`` if there is none.
    """

    kind: Kind
    frame_index: int
    expected_pts_seconds: float | None
    pts_seconds: float | None
    max_abs_difference: int | None
    is_frame: int | None
    reason: str


@dataclass(frozen=True)
class CheckResult:
    """The totals of all requests of one kind. Undetermined frames do not count as mismatches; see `Comparison`."""

    kind: Kind
    num_requests: int
    num_frames: int
    num_mismatches: int
    num_undetermined: int = 0


@dataclass(frozen=True)
class Comparison:
    """The result of comparing the frames that a decoder returns with a linear decode.

    A frame is undetermined if the file does not determine its pixels: where data are missing, some codecs leave in the
    frame whatever its memory contained before. Such a frame differs even between two linear decodes. Only its time is
    compared.

    Attributes:
        num_frames_at_open: Number of frames according to the packets, before decoding.
        num_frames: Number of frames after the checks. It can differ from ``num_frames_at_open``, because the decoder
            counts again if a packet cannot be decoded.
        mismatches: The first few mismatches. `num_mismatches` counts all of them.
        damage: Descriptions of the frames that the codec flags as damaged, and of the places where frames are missing.
    """

    file: str
    stream_index: int
    seed: int
    num_frames_at_open: int
    num_frames: int
    num_frames_linear: int
    checks: tuple[CheckResult, ...]
    mismatches: tuple[Mismatch, ...]
    damage: tuple[str, ...] = ()

    @property
    def num_mismatches(self) -> int:
        return sum(check.num_mismatches for check in self.checks)

    @property
    def num_undetermined(self) -> int:
        return sum(check.num_undetermined for check in self.checks)

    @property
    def identical(self) -> bool:
        return self.num_frames == self.num_frames_linear and self.num_mismatches == 0


def digest(pixels: Pixels) -> bytes:
    """Return a hash of the shape and the pixels of an array, however it is stored in memory."""
    state = hashlib.blake2b(repr(pixels.shape).encode(), digest_size=16)
    state.update(np.ascontiguousarray(pixels).data)
    return state.digest()


def read_reference(file: str, stream_index: int | None) -> Reference:
    """Decode ``file`` linearly, in the codec's output order. If the times do not ascend, all times become ``None``."""
    frames = [
        ReferenceFrame(frame.pts_seconds, frame.rgb.shape, digest(frame.rgb))
        for frame in progress(linear_decode(file, stream_index), "linear decode")
    ]
    times = [frame.pts_seconds for frame in frames if frame.pts_seconds is not None]
    if times != sorted(times):
        return [replace(frame, pts_seconds=None) for frame in frames]
    return frames


def find_undetermined(file: str, stream_index: int | None, reference: Reference) -> frozenset[int]:
    """Return the numbers of the frames that change if earlier frames are kept, so that the codec uses other memory."""
    return frozenset(
        number
        for num_kept in _NUMS_KEPT
        for number, frame in enumerate(linear_decode(file, stream_index, num_kept=num_kept))
        if digest(frame.rgb) != reference[number].digest
    )


def plan_requests(num_frames: int, num_singles: int | None, seed: int) -> list[Request]:
    """Plan the decoder calls of a comparison. Calls of the same kind are next to each other.

    ``num_singles`` frames are fetched one by one, in random order and without repetition; ``None`` means all frames.
    The other kinds of calls together fetch about the same number of frames.
    """
    if num_frames == 0:
        return []
    draw = random.Random(seed)
    everything = range(num_frames)
    amount = num_frames if num_singles is None else min(num_singles, num_frames)
    share = max(amount // 5, 1)

    def some(count: int) -> tuple[int, ...]:
        return tuple(draw.choices(everything, k=count))

    def runs(length: int) -> Iterator[tuple[int, ...]]:
        for _ in range(math.ceil(share / length)):
            first = draw.randrange(max(num_frames - length, 0) + 1)
            yield tuple(everything[first : first + length])

    requests = [Request("one by one", (i,)) for i in draw.sample(everything, amount)]
    requests += [Request("by time", (i,)) for i in draw.sample(everything, share)]
    requests += [Request("pairs", some(2)) for _ in range(math.ceil(share / 2))]
    requests += [Request("batches", some(_BATCH_SIZE)) for _ in range(math.ceil(share / _BATCH_SIZE))]
    requests += [Request("clips", run) for run in runs(_CLIP_LENGTH)]
    requests += [Request("backwards", (i,)) for run in runs(_RUN_LENGTH) for i in reversed(run)]
    return requests


def compare(file: str, stream_index: int | None, *, num_singles: int | None, seed: int) -> Comparison:
    """Fetch frames with the calls of `plan_requests`, and compare them with a linear decode of the file."""
    with VideoDecoder(file, stream_index=stream_index, dimension_order="NHWC") as decoder:
        access_to(decoder).omit_hdr_warning()
        video_stream_index, num_frames_at_open = decoder.stream_index, len(decoder)
        reference = read_reference(file, video_stream_index)
        if num_frames_at_open > len(reference):
            # The decoder has also counted packets that cannot be decoded. It counts again when it decodes such a packet
            # for a request. If no packet can be decoded, this raises StreamError.
            for index in (num_frames_at_open - 1, *range(num_frames_at_open)):
                with suppress(DecodeError, OutOfRangeError):
                    decoder.get_frame_at(index)
                if len(decoder) <= len(reference):
                    break
        requests = plan_requests(min(num_frames_at_open, len(reference)), num_singles, seed)
        undetermined = cache(partial(find_undetermined, file, video_stream_index, reference))
        checks, mismatches_found = _Checker(decoder, reference, undetermined).run(requests)
        num_frames, index = len(decoder), decoder.frame_index
        num_flagged = int(index.is_damaged.sum())
        flagged = (f"{counted(num_flagged, 'frame')} that the codec flags as damaged",) if num_flagged else ()
    mismatches = _add_pixel_differences(mismatches_found, linear_decode(file, video_stream_index))
    return Comparison(
        file=file,
        stream_index=video_stream_index,
        seed=seed,
        num_frames_at_open=num_frames_at_open,
        num_frames=num_frames,
        num_frames_linear=len(reference),
        checks=checks,
        mismatches=mismatches,
        damage=(*flagged, *describe_holes(index.holes, len(index))),
    )


# A mismatch, and the returned pixels (`None` if the call failed).
_MismatchAndPixels = tuple[Mismatch, Pixels | None]
_Verdict = Literal["right", "undetermined"] | _MismatchAndPixels


class _Checker:
    """Makes decoder calls, and compares their frames with the linear decode ``reference``.

    ``undetermined`` returns the undetermined frames. It is called only if pixels differ.
    """

    def __init__(self, decoder: VideoDecoder, reference: Reference, undetermined: Callable[[], frozenset[int]]) -> None:
        self._decoder, self._reference, self._undetermined = decoder, reference, undetermined
        self._by_digest = {frame.digest: index for index, frame in reversed(list(enumerate(reference)))}

    def run(self, requests: Sequence[Request]) -> tuple[tuple[CheckResult, ...], list[_MismatchAndPixels]]:
        """Return the totals of each kind of call, and the first mismatches with their pixels."""
        checks: list[CheckResult] = []
        mismatches_found: list[_MismatchAndPixels] = []
        runnable = [
            request
            for request in requests
            if request.kind != "by time" or all(self._reference[i].pts_seconds is not None for i in request.indices)
        ]
        for kind, group in groupby(progress(runnable, "random access"), key=lambda request: request.kind):
            num_requests = num_frames = num_mismatches = num_undetermined = 0
            for request in group:
                num_requests += 1
                for verdict in self._check(request):
                    num_frames += 1
                    if isinstance(verdict, str):
                        num_undetermined += verdict == "undetermined"
                        continue
                    num_mismatches += 1
                    if len(mismatches_found) < _NUM_MISMATCHES_KEPT:
                        mismatches_found.append(verdict)
            checks.append(CheckResult(kind, num_requests, num_frames, num_mismatches, num_undetermined))
        return tuple(checks), mismatches_found

    def _check(self, request: Request) -> Iterator[_Verdict]:
        """Make a decoder call. Yield the verdict about each of its frames."""
        groups: dict[tuple[int, ...], list[int]] = {}  # all frames of a batch must have one size
        for index in request.indices:
            groups.setdefault(self._reference[index].shape, []).append(index)
        for indices in groups.values():
            try:
                fetched = list(_fetch(self._decoder, request.kind, indices, self._reference))
            except MediaTensorError as error:
                for index in indices:
                    expected = self._reference[index].pts_seconds
                    yield Mismatch(request.kind, index, expected, None, None, None, str(error)), None
                continue
            for index, (pixels, pts_seconds) in zip(indices, fetched, strict=True):
                yield self._judge(request.kind, index, pixels, pts_seconds)

    def _judge(self, kind: Kind, index: int, pixels: Pixels, pts_seconds: float) -> _Verdict:
        reference = self._reference
        if kind == "by time":
            # If several frames have the same time, the last of them is shown.
            while index + 1 < len(reference) and reference[index + 1].pts_seconds == reference[index].pts_seconds:
                index += 1
        expected = reference[index]
        actual_digest = digest(pixels)
        wrong_pixels = actual_digest != expected.digest
        wrong_time = expected.pts_seconds is not None and not math.isclose(
            pts_seconds, expected.pts_seconds, rel_tol=1e-12, abs_tol=1e-9
        )
        if not wrong_time:
            if not wrong_pixels:
                return "right"
            if pixels.shape == expected.shape and index in self._undetermined():
                return "undetermined"
        wrong = [name for name, is_wrong in (("other pixels", wrong_pixels), ("another time", wrong_time)) if is_wrong]
        if pixels.shape != expected.shape:
            wrong = [f"{pixels.shape[1]}x{pixels.shape[0]} pixels instead of {expected.shape[1]}x{expected.shape[0]}"]
        is_frame = self._by_digest.get(actual_digest) if wrong_pixels else index
        reason = " and ".join(wrong)
        return Mismatch(kind, index, expected.pts_seconds, pts_seconds, None, is_frame, reason), pixels


def _fetch(
    decoder: VideoDecoder, kind: Kind, indices: Sequence[int], reference: Reference
) -> Iterator[tuple[Pixels, float]]:
    result: Frame | FrameBatch
    if kind == "by time":
        pts_seconds = reference[indices[0]].pts_seconds
        assert pts_seconds is not None  # see _Checker.run
        result = decoder.get_frame_played_at(pts_seconds)
    elif kind in ("one by one", "backwards"):
        result = decoder.get_frame_at(indices[0])
    elif kind == "clips" and len(indices) == indices[-1] - indices[0] + 1:
        result = decoder.get_frames_in_range(indices[0], indices[-1] + 1)
    else:
        result = decoder.get_frames_at(list(indices))
    if isinstance(result, Frame):
        yield result.data.numpy(), result.pts_seconds
    else:
        yield from zip(result.data.numpy(), result.pts_seconds.tolist(), strict=True)


def _add_pixel_differences(
    mismatches_found: Sequence[_MismatchAndPixels], frames: Iterable[LinearFrame]
) -> tuple[Mismatch, ...]:
    """Compute ``max_abs_difference`` of each mismatch by ``frames``, another decode: the first one kept no pixels."""
    wanted_indices = {mismatch.frame_index for mismatch, pixels in mismatches_found if pixels is not None}
    expected: dict[int, Pixels] = {}
    for position, frame in enumerate(frames if wanted_indices else ()):
        if position in wanted_indices:
            expected[position] = frame.rgb
        if len(expected) == len(wanted_indices):
            break
    described = []
    for mismatch, pixels in mismatches_found:
        linear = expected.get(mismatch.frame_index)
        if pixels is not None and linear is not None and pixels.shape == linear.shape:
            difference = int(np.abs(pixels.astype(np.int16) - linear.astype(np.int16)).max(initial=0))
            mismatch = replace(mismatch, max_abs_difference=difference)
        described.append(mismatch)
    return tuple(described)


def run(args: argparse.Namespace) -> int:
    def verify(path: str, file: str) -> int:
        num_singles = None if args.all else args.frames
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DamageWarning)  # the result lists the damage
            comparison = compare(path, args.stream, num_singles=num_singles, seed=args.seed)
        comparison = replace(comparison, file=shown_name(file))
        if args.json:
            totals = {
                "identical": comparison.identical,
                "num_mismatches": comparison.num_mismatches,
                "num_undetermined": comparison.num_undetermined,
            }
            emit_json(vars(comparison) | totals)
        else:
            emit_lines(describe(comparison))
        return 0 if comparison.identical else 1

    return for_each_file(args.files, verify)


def describe(comparison: Comparison) -> list[str]:
    rows = [
        ("linear decode", counted(comparison.num_frames_linear, "frame")),
        ("decoder", _count_text(comparison)),
        *(("damage", text) for text in comparison.damage),
        *((check.kind, _check_text(check)) for check in comparison.checks),
    ]
    lines = [f"{comparison.file}, video stream {comparison.stream_index}", *_text.columns(rows)]
    if comparison.mismatches:
        lines.append(f"first mismatches (of {comparison.num_mismatches})")
        lines += [f"  {_mismatch_text(mismatch)}" for mismatch in comparison.mismatches]
    if comparison.num_undetermined:
        frames = counted(comparison.num_undetermined, "fetched frame")
        lines.append(f"undetermined: {frames}; data are missing there, and the codec leaves old memory in the gaps")
    if comparison.identical:
        fetched = sum(check.num_frames for check in comparison.checks) - comparison.num_undetermined
        at_times = ", each at its time" if any(check.kind == "by time" for check in comparison.checks) else ""
        lines.append(f"identical: {counted(fetched, 'fetched frame')}, bit for bit{at_times}")
    else:
        lines.append("NOT identical")
    return lines


def _count_text(comparison: Comparison) -> str:
    text = counted(comparison.num_frames, "frame")
    if comparison.num_frames_at_open != comparison.num_frames:
        text += f" ({comparison.num_frames_at_open} before a packet did not decode)"
    if comparison.num_frames != comparison.num_frames_linear:
        text += ", DIFFERENT"
    return text


def _check_text(check: CheckResult) -> str:
    frames = counted(check.num_frames, "frame")
    calls = "" if check.num_requests == check.num_frames else f" in {counted(check.num_requests, 'call')}"
    verdicts = [f"{check.num_mismatches} DIFFERENT"] if check.num_mismatches else []
    verdicts += [f"{check.num_undetermined} undetermined"] if check.num_undetermined else []
    return f"{frames}{calls}, {', '.join(verdicts) or 'all identical'}"


def _mismatch_text(mismatch: Mismatch) -> str:
    parts = [f"frame {mismatch.frame_index} ({mismatch.kind}): {mismatch.reason}"]
    if mismatch.pts_seconds is not None:
        parts.append(f"pts {_pts(mismatch.pts_seconds)} (linear {_pts(mismatch.expected_pts_seconds)})")
    if mismatch.max_abs_difference is not None:
        parts.append(f"largest difference {mismatch.max_abs_difference}")
    if mismatch.is_frame not in (None, mismatch.frame_index):
        parts.append(f"these are the pixels of frame {mismatch.is_frame}")
    return ", ".join(parts)


def _pts(value: float | None) -> str:
    """Format a time with microseconds, because frames may be less than a millisecond apart."""
    return "none" if value is None else f"{_text.decimal(value, 6)} s"
