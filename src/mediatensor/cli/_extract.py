"""``mediatensor extract``: frames, sound and subtitles of a file as files of their own."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ..errors import DecodeError, InvalidArgumentError, MediaTensorError
from . import _text
from ._console import EXIT_ERROR, STANDARD, emit, emit_bytes, emit_error, file_error, output_stem, reading
from ._extract_jobs import FrameOptions, FramesJob, Job, SoundJob, SoundOptions, SubtitlesJob, TimeRange

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    path = args.file
    try:
        with reading(args.file) as path:
            if str(args.output) == STANDARD:
                _extract_to_standard_output(args, path)
            else:
                _extract(args, path)
    except (MediaTensorError, OSError) as error:
        emit_error(file_error(args.file, path, error))
        return EXIT_ERROR
    return 0


def _extract_to_standard_output(args: argparse.Namespace, path: str) -> None:
    """Write the one file that is asked for to a folder that is thrown away, and from there to standard output."""
    with tempfile.TemporaryDirectory(prefix="mediatensor-") as folder:
        jobs = _jobs(args, path, Path(folder))
        try:
            outputs = [output for job in jobs for output in job.outputs()]
            if len(outputs) != 1:
                raise InvalidArgumentError(
                    f"Standard output takes one file, and these are {len(outputs)}: ask for one image (--frames 0), "
                    "--audio or --subtitles, or name a folder with -o."
                )
            jobs[0].write()
        finally:
            for job in jobs:
                job.close()
        emit_bytes(outputs[0].read_bytes())


def _extract(args: argparse.Namespace, path: str) -> None:
    jobs = _jobs(args, path, args.output)
    is_new = not args.output.exists()
    try:
        prepare_folder(args.output, [output for job in jobs for output in job.outputs()], path, force=args.force)
        failures = []
        for job in jobs:
            try:
                emit(job.write())
            except DecodeError as failure:  # damage in one stream is no reason to leave out the others
                failures.append(failure)
        if failures:
            raise failures[0]
    except KeyboardInterrupt as stop:
        outputs = [output for job in jobs for output in job.outputs()]
        num_written = sum(output.exists() for output in outputs)
        stop.add_note(
            f"{num_written} of {_text.count(len(outputs), 'file')} are in {args.output}{os.sep}, whole; "
            "the same command with --force starts over"
        )
        raise
    finally:
        for job in jobs:
            job.close()
        if is_new:
            with suppress(OSError):  # it has files in it
                args.output.rmdir()


def _jobs(args: argparse.Namespace, path: str, folder: Path) -> list[Job]:
    """The jobs that are asked for; every stream is opened before anything is written."""
    picks_images = (args.images, args.every, args.fps, args.frames, args.size, args.stream)
    wants_images = any(option is not None for option in picks_images) or not (args.audio or args.subtitles)
    if (args.sample_rate or args.num_channels or args.audio_stream is not None) and not args.audio:
        raise InvalidArgumentError("--sample-rate, --num-channels and --audio-stream go with --audio.")
    if (args.encoding or args.subtitle_stream is not None) and not args.subtitles:
        raise InvalidArgumentError("--encoding and --subtitle-stream go with --subtitles.")
    span = TimeRange(args.start, args.stop)
    if args.frames is not None and span != TimeRange(None, None):
        raise InvalidArgumentError("--frames names the frames; it does not go with --start and --stop.")
    target = folder / output_stem(args.file)
    jobs: list[Job] = []
    try:
        if wants_images:
            options = FrameOptions(args.images or "png", args.every, args.fps, args.frames, args.size, args.stream)
            jobs.append(FramesJob(path, target, options, span))
        if args.audio:
            sound = SoundOptions(args.sample_rate, args.num_channels, args.audio_stream)
            jobs.append(SoundJob(path, target, sound, span))
        if args.subtitles:
            jobs.append(SubtitlesJob(path, target, args.subtitle_stream, args.encoding, span))
    except BaseException:
        for job in jobs:
            job.close()
        raise
    return jobs


def prepare_folder(folder: Path, outputs: Sequence[Path], source: str, *, force: bool) -> None:
    """Make the folder, after checking that no file in it would be lost.

    Raises:
        InvalidArgumentError: if one of the files is there and ``force`` is not set, or is the source itself.
        OSError: if the folder cannot be made.
    """
    taken = [path for path in outputs if os.path.lexists(path)]
    for path in taken:
        if os.path.exists(source) and path.exists() and path.samefile(source):
            raise InvalidArgumentError(f"{str(path)!r} is the file that is read; choose another folder with -o.")
    if taken and not force:
        others = f" (and {len(taken) - 1} more)" if len(taken) > 1 else ""
        raise InvalidArgumentError(f"{str(taken[0])!r} exists already{others}; --force replaces what is there.")
    if folder.exists() and not folder.is_dir():
        raise InvalidArgumentError(f"The output must be a folder, and {str(folder)!r} is a file.")
    folder.mkdir(parents=True, exist_ok=True)
