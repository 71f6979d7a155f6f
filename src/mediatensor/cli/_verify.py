"""``mediatensor verify``: the user's own proof that random access gives the frames of a linear decode."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from . import _text
from ._comparison import CheckResult, Comparison, Mismatch, compare
from ._console import emit, emit_json, for_each_file, shown_name

__all__ = ["describe", "report", "run"]


def run(args: argparse.Namespace) -> int:
    def verify(path: str, file: str) -> int:
        num_singles = None if args.all else args.frames
        comparison = compare(path, args.stream, num_singles=num_singles, seed=args.seed)
        comparison = replace(comparison, file=shown_name(file))
        if args.json:
            emit_json(report(comparison))
        else:
            emit(describe(comparison))
        return 0 if comparison.identical else 1

    return for_each_file(args.files, verify)


def report(comparison: Comparison) -> dict[str, Any]:
    """What ``--json`` prints."""
    totals = {"identical": comparison.identical, "num_mismatches": comparison.num_mismatches}
    return {**vars(comparison), **totals}


def describe(comparison: Comparison) -> str:
    """The comparison as text for people."""
    rows = [
        ("linear decode", _text.count(comparison.num_frames_linear, "frame")),
        ("decoder", _count_text(comparison)),
        *((check.kind, _check_text(check)) for check in comparison.checks),
    ]
    lines = [f"{comparison.file}, video stream {comparison.stream_index}", *_text.columns(rows)]
    if comparison.mismatches:
        lines.append(f"first mismatches (of {comparison.num_mismatches})")
        lines += [f"  {_mismatch_text(mismatch)}" for mismatch in comparison.mismatches]
    if comparison.identical:
        fetched = sum(check.num_frames for check in comparison.checks)
        lines.append(f"identical: {_text.count(fetched, 'fetched frame')}, bit for bit, each at its time")
    else:
        lines.append("NOT identical")
    return "\n".join(lines)


def _count_text(comparison: Comparison) -> str:
    text = _text.count(comparison.num_frames, "frame")
    if comparison.num_frames_at_open != comparison.num_frames:
        text += f" ({comparison.num_frames_at_open} before it met what does not decode)"
    if comparison.num_frames != comparison.num_frames_linear:
        text += ", DIFFERENT"
    return text


def _check_text(check: CheckResult) -> str:
    frames = _text.count(check.num_frames, "frame")
    calls = "" if check.num_requests == check.num_frames else f" in {_text.count(check.num_requests, 'call')}"
    verdict = "all identical" if check.num_mismatches == 0 else f"{check.num_mismatches} DIFFERENT"
    return f"{frames}{calls}, {verdict}"


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
    # To the microsecond, for neighbouring frames may be less than a millisecond apart.
    return "none" if value is None else f"{_text.decimal(value, 6)} s"
