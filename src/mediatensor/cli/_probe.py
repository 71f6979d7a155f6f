"""``mediatensor probe``: what is in a file, exact where the headers only guess."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from . import _text
from ._console import emit, emit_json
from ._file_facts import collect
from ._options import add_file, add_json, add_stream
from ._probe_text import describe

__all__ = ["add_parser"]

_JSON_HELP = """\
The JSON of --json (a key is always there; null means unknown; times in seconds; fractions as "a/b"):

  file, file_size_bytes, container, duration_seconds, bit_rate
  tags        what the file says of itself: {"title": "Lesson 1"}; the names are the container's
  chapters[]  start_seconds, end_seconds, title, tags
  streams[]   index, media_type, codec, duration_seconds, bit_rate, width, height, average_fps,
              sample_rate, num_channels, channel_layout, language, disposition[], tags
                                                what the headers say of every stream
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
  audio       the chosen audio stream by its header, or null:
    stream_index, codec, profile, sample_rate, num_channels, channel_layout, sample_format
    bit_rate, language, begin_seconds, duration_seconds
  subtitles   the chosen stream of subtitles, or null:
    stream_index, codec, language, is_text      is_text: characters (true) or pictures of them (false)
    scanned, num_subtitles, begin_seconds, end_seconds, anomalies[]
  error       why there is no "video", or null
"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "probe",
        help="what is in a file: streams, exact frame count, key frames, audio, subtitles, chapters, tags",
        description=(
            "Print what is in a media file. The video stream is scanned from its first packet to its last, so the\n"
            "frame count, the frame rate and the key frames are those of the content, not what the headers claim.\n"
            "Subtitles are read and counted; of audio the header is shown."
        ),
        epilog=(
            "examples:\n"
            "  mediatensor probe talk.mp4\n"
            "  mediatensor probe talk.mp4 --json | jq .video.num_frames\n"
            "  mediatensor probe recording.mkv --stream 2\n\n" + _JSON_HELP
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_file(parser, "media")
    add_json(parser)
    add_stream(parser, what="index of a stream to describe, instead of the best of its kind")
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
