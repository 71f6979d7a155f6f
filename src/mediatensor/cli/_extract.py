"""``mediatensor extract``: frames to images, sound to WAV, subtitles to SubRip."""

from __future__ import annotations

import argparse
import re
from contextlib import suppress
from typing import Any

from ..errors import DecodeError, InvalidArgumentError
from ._console import emit
from ._extract_files import Job, TimeRange, output_stem, prepare_folder
from ._extract_frames import FrameOptions, FramesJob
from ._extract_sound import SoundJob, SoundOptions
from ._extract_subtitles import SubtitlesJob
from ._options import add_file, add_folder, add_stream, add_time_range, positive_int, positive_number

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "extract",
        help="frames to images, sound to WAV, subtitles to SubRip",
        description=(
            "Write what is in a file as files of their own: frames as images (the default), sound as WAV, subtitles\n"
            "as SubRip. PNG images are the frames bit for bit. Nothing is overwritten without --force, and a file\n"
            "is whole or it is not there."
        ),
        epilog=(
            "examples:\n"
            "  mediatensor extract talk.mp4 -o frames --every 10      one image for each 10 seconds\n"
            "  mediatensor extract talk.mp4 -o frames --frames 0,10,-1\n"
            "  mediatensor extract talk.mp4 -o frames --images jpg --fps 1 --start 1:00 --stop 2:00 --size 320x180\n"
            "  mediatensor extract talk.mp4 -o sound --audio --sample-rate 16000 --num-channels 1\n"
            "  mediatensor extract talk.mkv -o talk --audio --subtitles --images png --fps 1\n"
            "\n"
            "Images are named NAME_INDEX_TIMEs.png, so that sorting them by name sorts them by time; sound and\n"
            "subtitles NAME.wav and NAME.srt. WAV is 16 bit: samples are rounded to the nearest step, and clipped\n"
            "where they are beyond full scale. A WAV begins at --start, or where the sound begins; holes in the sound\n"
            "are closed. The times of subtitles are those of the file. A frame that does not decode is left out, and\n"
            "the exit code is 2.\n"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_file(parser, "media")
    add_folder(parser, "extracted")
    parser.add_argument("--force", action="store_true", help="replace files that are there")
    add_time_range(parser)
    _add_image_options(parser.add_argument_group("images"))
    sound = parser.add_argument_group("sound")
    sound.add_argument("--audio", action="store_true", help="write NAME.wav")
    sound.add_argument("--sample-rate", type=positive_int, metavar="HZ", help="resample (default: as it is)")
    sound.add_argument("--num-channels", type=positive_int, metavar="N", help="mix down or up (default: as it is)")
    add_stream(sound, "--audio-stream", "the stream's index (default: best)")
    subtitles = parser.add_argument_group("subtitles")
    subtitles.add_argument("--subtitles", action="store_true", help="write NAME.srt, as plain text")
    add_stream(subtitles, "--subtitle-stream", "the stream's index (default: best)")
    subtitles.add_argument(
        "--encoding", metavar="NAME", help="of subtitles that are not UTF-8, such as cp1252 (default: utf-8)"
    )
    parser.set_defaults(run=run)


def _add_image_options(group: Any) -> None:
    group.add_argument(
        "--images", choices=("png", "jpg"), metavar="png|jpg",
        help="format of the images (default: png); with --audio or --subtitles, asks for images, too",
    )  # fmt: skip
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "--every", type=positive_number, metavar="SECONDS", help="the frame shown every so often, from the start on"
    )
    which.add_argument("--fps", type=positive_number, metavar="RATE", help="as many frames per second")
    which.add_argument(
        "--frames",
        type=frame_indices,
        metavar="I,J,...",
        help="these frames; negative ones count from the end (--frames=-2,-1)",
    )
    group.add_argument("--size", type=picture_size, metavar="WxH", help="scale to this size in pixels")
    add_stream(group)


def run(args: argparse.Namespace) -> int:
    jobs = _jobs(args)
    is_new = not args.output.exists()
    try:
        prepare_folder(args.output, [path for job in jobs for path in job.outputs()], args.file, force=args.force)
        failures = []
        for job in jobs:
            try:
                emit(job.write())
            except DecodeError as failure:  # what is damaged is no reason to leave out the rest
                failures.append(failure)
        if failures:
            raise failures[0]
    finally:
        for job in jobs:
            job.close()
        if is_new:
            with suppress(OSError):  # not empty, as it should be
                args.output.rmdir()
    return 0


def _jobs(args: argparse.Namespace) -> list[Job]:
    """What is to be written; every stream is opened before anything is written."""
    picks_images = (args.images, args.every, args.fps, args.frames, args.size, args.stream)
    wants_images = any(option is not None for option in picks_images) or not (args.audio or args.subtitles)
    if (args.sample_rate or args.num_channels or args.audio_stream is not None) and not args.audio:
        raise InvalidArgumentError("--sample-rate, --num-channels and --audio-stream go with --audio.")
    if (args.encoding or args.subtitle_stream is not None) and not args.subtitles:
        raise InvalidArgumentError("--encoding and --subtitle-stream go with --subtitles.")
    span = TimeRange(args.start, args.stop)
    if args.frames is not None and span != TimeRange(None, None):
        raise InvalidArgumentError("--frames names the frames; it does not go with --start and --stop.")
    target = args.output / output_stem(args.file)
    jobs: list[Job] = []
    try:
        if wants_images:
            options = FrameOptions(args.images or "png", args.every, args.fps, args.frames, args.size, args.stream)
            jobs.append(FramesJob(args.file, target, options, span))
        if args.audio:
            sound = SoundOptions(args.sample_rate, args.num_channels, args.audio_stream)
            jobs.append(SoundJob(args.file, target, sound, span))
        if args.subtitles:
            jobs.append(SubtitlesJob(args.file, target, args.subtitle_stream, args.encoding, span))
    except BaseException:
        for job in jobs:
            job.close()
        raise
    return jobs


def frame_indices(text: str) -> tuple[int, ...]:
    """Argument type: whole numbers, separated by commas.

    >>> frame_indices("0,10,-1")
    (0, 10, -1)
    """
    if not re.fullmatch(r"-?\d{1,18}(,-?\d{1,18})*", text):
        raise argparse.ArgumentTypeError(f"expected frame indices such as 0,10,20 (got {text!r})")
    return tuple(int(part) for part in text.split(","))


def picture_size(text: str) -> tuple[int, int]:
    """Argument type: (width, height).

    >>> picture_size("640x360")
    (640, 360)
    """
    match = re.fullmatch(r"(\d{1,5})x(\d{1,5})", text)
    size = (int(match[1]), int(match[2])) if match else (0, 0)
    if 0 in size:
        raise argparse.ArgumentTypeError(f"expected a width and a height such as 640x360 (got {text!r})")
    return size
