"""``mediatensor probe``: what is in a file, exact where the headers only guess."""

from __future__ import annotations

import argparse
import sys
from textwrap import wrap
from typing import Any

from . import _text
from ._console import emit, emit_json, non_negative_int
from ._file_facts import FileFacts, StreamSummary, VideoFacts, collect

__all__ = ["add_parser", "describe"]

_JSON_HELP = """\
The JSON of --json (a key is always there; null means unknown; times in seconds; fractions as "a/b"):

  file, file_size_bytes, container, duration_seconds, bit_rate
  streams[]   index, media_type, codec, duration_seconds, bit_rate, width, height, average_fps,
              sample_rate, num_channels         what the headers say of every stream
  video       the chosen video stream; null if there is none or it cannot be decoded:
    stream_index, codec, profile, pixel_format
    width, height                               of the frames you get, after rotation
    stored_width, stored_height                 as stored in the file, before rotation
    display_width, display_height               with the pixel aspect ratio applied
    pixel_aspect_ratio, rotation                rotation in degrees, counter-clockwise
    color_primaries, color_transfer, color_space, color_range
    scanned                                     false with --no-scan: the numbers below are the headers'
    num_frames, average_fps, is_constant_frame_rate, min_frame_step_seconds, max_frame_step_seconds
    num_key_frames, gop_length_min, gop_length_median, gop_length_max
    begin_seconds, end_seconds, duration_seconds
    anomalies[]                                 sentences about what is odd in the stream
  error       why there is no "video", or null
"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "probe",
        help="what is in a file: streams, exact frame count, frame rate, key frames, colour, anomalies",
        description=(
            "Print what is in a media file. The video stream is scanned from its first packet to its last, so the\n"
            "frame count, the frame rate and the key frames are those of the content, not what the headers claim."
        ),
        epilog=(
            "examples:\n"
            "  mediatensor probe talk.mp4\n"
            "  mediatensor probe talk.mp4 --json | jq .video.num_frames\n"
            "  mediatensor probe recording.mkv --stream 2\n\n" + _JSON_HELP
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", help="a media file or an URL")
    parser.add_argument("--json", action="store_true", help="print JSON (described below)")
    parser.add_argument("--stream", type=non_negative_int, metavar="N", help="the video stream's index (default: best)")
    parser.add_argument(
        "--no-scan", action="store_true", help="read the headers only: quick, and no more exact than they are"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    facts = collect(args.file, args.stream, scan=not args.no_scan)
    if args.json:
        emit_json(facts)
    else:
        emit(describe(facts))
    if facts.error is None:
        return 0
    emit(f"mediatensor: error: {_text.one_line(facts.error)}", sys.stderr)
    return 2  # a file that cannot be decoded


def describe(facts: FileFacts) -> str:
    """The facts as text for people."""
    container = [
        facts.container or "unknown",
        _text.seconds(facts.duration_seconds),
        _text.byte_size(facts.file_size_bytes),
    ]
    if facts.bit_rate is not None:
        container.append(_text.bit_rate(facts.bit_rate))
    lines = [facts.file, *_text.columns([("container", ", ".join(container))]), "", "streams"]
    chosen = facts.video.stream_index if facts.video else None
    lines += _text.columns([_stream_row(stream, is_chosen=stream.index == chosen) for stream in facts.streams])
    if facts.video is not None:
        lines += ["", f"video stream {facts.video.stream_index}", *_text.columns(_video_rows(facts.video))]
    elif facts.error is None:
        lines += ["", "no video stream"]
    return "\n".join(lines)


def _stream_row(stream: StreamSummary, *, is_chosen: bool) -> tuple[str, ...]:
    details = []
    if stream.width and stream.height:
        details.append(f"{stream.width}x{stream.height}")
    if stream.average_fps is not None:
        details.append(f"{_text.decimal(stream.average_fps)} fps")
    if stream.sample_rate is not None:
        details.append(f"{stream.sample_rate} Hz")
    if stream.num_channels is not None:
        details.append(_text.count(stream.num_channels, "channel"))
    if stream.duration_seconds is not None:
        details.append(_text.seconds(stream.duration_seconds))
    if stream.bit_rate is not None:
        details.append(_text.bit_rate(stream.bit_rate))
    marker = "*" if is_chosen else " "
    return (f"{marker} {stream.index}", stream.media_type, stream.codec or "unknown", ", ".join(details))


def _video_rows(video: VideoFacts) -> list[tuple[str, str]]:
    rows = [
        ("codec", f"{video.codec or 'unknown'}{f' ({video.profile})' if video.profile else ''}"),
        ("size", _size_text(video)),
        ("pixel format", video.pixel_format or "unknown"),
        ("colour", _colour_text(video)),
    ]
    if video.rotation:
        direction = "counter-clockwise" if video.rotation > 0 else "clockwise"
        rows.append(("rotation", f"{_text.decimal(abs(video.rotation))} degrees {direction}"))
    if not video.scanned:
        rows.append(("frames", "unknown" if video.num_frames is None else f"{video.num_frames} by the header"))
        rows.append(
            ("frame rate", f"{_text.decimal(video.average_fps)} fps by the header" if video.average_fps else "unknown")
        )
        rows.append(("duration", f"{_text.seconds(video.duration_seconds)} by the header"))
        return rows
    rows += [
        ("frames", str(video.num_frames)),
        ("frame rate", _frame_rate_text(video)),
        ("key frames", _key_frames_text(video)),
        ("shown", _shown_text(video)),
    ]
    anomalies = [line for sentence in video.anomalies for line in wrap(sentence, 96, subsequent_indent="  ")] or [
        "none"
    ]
    rows += [("anomalies" if i == 0 else "", line) for i, line in enumerate(anomalies)]
    return rows


def _size_text(video: VideoFacts) -> str:
    size = (video.width or video.stored_width, video.height or video.stored_height)
    parts = [f"{size[0]}x{size[1]}"]
    if size != (video.stored_width, video.stored_height):
        parts.append(f"stored as {video.stored_width}x{video.stored_height}")
    if video.pixel_aspect_ratio not in (None, 1):
        displayed = f", shown as {video.display_width}x{video.display_height}" if video.display_width else ""
        parts.append(f"pixel aspect ratio {_text.ratio(video.pixel_aspect_ratio)}{displayed}")
    return ", ".join(parts)


def _colour_text(video: VideoFacts) -> str:
    named = [
        ("primaries", video.color_primaries),
        ("transfer", video.color_transfer),
        ("matrix", video.color_space),
        ("range", video.color_range),
    ]
    return ", ".join(f"{name} {value}" for name, value in named if value) or "not stated"


def _frame_rate_text(video: VideoFacts) -> str:
    rate = f"{_text.decimal(video.average_fps)} fps" if video.average_fps else "unknown"
    if video.is_constant_frame_rate is None:
        return rate
    if video.is_constant_frame_rate:
        return f"{rate}, constant"
    steps = (video.min_frame_step_seconds, video.max_frame_step_seconds)
    return f"{rate} on average, variable (frames {_text.seconds(steps[0])} to {_text.seconds(steps[1])} apart)"


def _key_frames_text(video: VideoFacts) -> str:
    if not video.num_key_frames or video.gop_length_median is None:
        return "none"
    if video.gop_length_min == video.gop_length_max:
        lengths = f"GOP of {_text.count(video.gop_length_max or 0, 'frame')}"
    else:
        shortest, longest = video.gop_length_min, video.gop_length_max
        lengths = f"GOPs of {shortest} to {longest} frames, median {_text.decimal(video.gop_length_median, 1)}"
    return f"{video.num_key_frames}, {lengths}"


def _shown_text(video: VideoFacts) -> str:
    begin, end = _text.seconds(video.begin_seconds), _text.seconds(video.end_seconds)
    return f"from {begin} to {end}, {_text.seconds(video.duration_seconds)}"
