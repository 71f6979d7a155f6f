"""``mediatensor extract``: frames to images, sound to WAV, subtitles to SubRip."""

from __future__ import annotations

import argparse
import os
import tempfile
import wave
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

import torch
from torch import Tensor

from .._sources import write_file, writing
from ..decoders import AudioDecoder, Subtitle, SubtitleDecoder
from ..errors import DecodeError, InvalidArgumentError, MediaTensorError, OutOfRangeError
from ..frames import AudioSamples
from . import _text
from ._console import EXIT_ERROR, STANDARD, emit, emit_bytes, emit_error, file_error, progress, reading
from ._extract_files import Job, TimeRange, output_stem, prepare_folder
from ._extract_frames import FrameOptions, FramesJob

__all__ = ["SoundJob", "SoundOptions", "SubtitlesJob", "pcm16", "run", "subrip"]

# How much sound is in memory at a time, as floats; ranges decode a lead-in each, so that they should not be short.
_PIECE_BYTES = 64 << 20
_FLOAT_BYTES = 4

# How many pieces without sound may lie in a hole of the stream.
_MAX_EMPTY_PIECES = 20

_SAMPLE_BYTES = 2
# Lengths in a WAV file are 32 bit; this many bytes are its headers.
_MAX_DATA_BYTES = (1 << 32) - 1 - 36


@dataclass(frozen=True)
class SoundOptions:
    """What becomes of the sound; ``None`` leaves it as it is."""

    sample_rate: int | None = None
    num_channels: int | None = None
    stream_index: int | None = None


class SoundJob(Job):
    """The sound of a file, to be written as WAV beside ``target``, under its name.

    Raises:
        MediaTensorError: if there is no sound that can be read.
    """

    def __init__(self, file: str, target: Path, options: SoundOptions, span: TimeRange) -> None:
        self._path = target.with_name(f"{target.name}.wav")
        self._options = options
        self._span = span
        self._decoder = AudioDecoder(
            file,
            stream_index=options.stream_index,
            sample_rate=options.sample_rate,
            num_channels=options.num_channels,
        )

    def outputs(self) -> Sequence[Path]:
        return [self._path]

    def write(self) -> str:
        pieces = self._pieces()
        first = next(pieces)  # an empty range is found before there is a file
        num_channels, num_samples = first.data.shape[0], 0
        with writing(self._path) as output:
            file = wave.open(output, "wb")  # noqa: SIM115 - closing it without parameters hides why they are missing
            file.setparams((num_channels, _SAMPLE_BYTES, first.sample_rate, 0, "NONE", "not compressed"))
            with file:
                for samples in progress(chain([first], pieces), "sound", unit="piece"):
                    num_samples += samples.data.shape[1]
                    if num_samples * num_channels * _SAMPLE_BYTES > _MAX_DATA_BYTES:
                        raise InvalidArgumentError(
                            "The sound does not fit in a WAV file, which holds 4 GiB; take a part with --start and "
                            "--stop, or less with --sample-rate and --num-channels."
                        )
                    file.writeframesraw(pcm16(samples.data).numpy().tobytes())
        seconds = _text.seconds(num_samples / first.sample_rate)
        begin = f" from {_text.seconds(first.pts_seconds)} on" if first.pts_seconds else ""
        channels = _text.count(num_channels, "channel")
        return f"wrote {self._path}: {seconds}{begin}, {first.sample_rate} Hz, {channels}"

    def _pieces(self) -> Iterator[AudioSamples]:
        """The sound in pieces that meet; the first may be empty.

        Raises:
            OutOfRangeError: if the first piece lies behind the end.
        """
        metadata = self._decoder.metadata
        start = metadata.begin_stream_seconds
        if self._span.start is not None:
            start = max(self._span.start, start)
        seconds, num_empty = self._piece_seconds(), 0
        for number in count():
            piece_start, piece_stop = start + number * seconds, start + (number + 1) * seconds
            if self._span.stop is not None:
                piece_stop = min(piece_stop, self._span.stop)
                if number and piece_start >= piece_stop:
                    return
            try:
                samples = self._decoder.get_samples_played_in_range(piece_start, piece_stop)
            except OutOfRangeError:
                num_empty += 1
                is_hole = metadata.end_stream_seconds is not None and piece_stop < metadata.end_stream_seconds
                if number == 0:
                    raise
                if not is_hole or num_empty > _MAX_EMPTY_PIECES:
                    return
                continue
            num_empty = 0
            yield samples

    def _piece_seconds(self) -> float:
        metadata = self._decoder.metadata
        rate = self._options.sample_rate or metadata.sample_rate or 48_000
        num_channels = self._options.num_channels or metadata.num_channels or 2
        return float(max(1, _PIECE_BYTES // (rate * num_channels * _FLOAT_BYTES)))

    def close(self) -> None:
        self._decoder.close()


def pcm16(data: Tensor) -> Tensor:
    """Float samples (C, N) as interleaved 16 bits (N, C): rounded to the nearest step, halves to even, and clipped.

    >>> import torch
    >>> pcm16(torch.tensor([[0.0, 0.5, 1.0, -1.0, 2.5 / 32768]])).flatten().tolist()
    [0, 16384, 32767, -32768, 2]
    """
    steps = torch.nan_to_num(data * 32768.0, nan=0.0).round_().clamp_(-32768, 32767)
    return steps.to(torch.int16).t().contiguous()


class SubtitlesJob(Job):
    """The subtitles of a file, to be written as SubRip beside ``target``, under its name.

    Raises:
        MediaTensorError: if there are no subtitles that can be read.
    """

    def __init__(
        self, file: str, target: Path, stream_index: int | None, encoding: str | None, span: TimeRange
    ) -> None:
        self._path = target.with_name(f"{target.name}.srt")
        self._decoder = SubtitleDecoder(file, stream_index=stream_index, encoding=encoding)
        self._span = span

    def outputs(self) -> Sequence[Path]:
        return [self._path]

    def write(self) -> str:
        start = 0.0 if self._span.start is None else self._span.start
        subtitles = (
            self._decoder.get_all_subtitles()
            if self._span == TimeRange(None, None)
            else self._decoder.get_subtitles_played_in_range(start, self._span.stop)
        )
        write_file(self._path, subrip(subtitles).encode())
        return f"wrote {self._path}: {_text.count(len(subtitles), 'subtitle')}"

    def close(self) -> None:
        self._decoder.close()


def subrip(subtitles: Iterable[Subtitle]) -> str:
    """Subtitles as the text of a SubRip file.

    >>> print(subrip([Subtitle("Hello", 1.0, 2.5)]), end="")
    1
    00:00:01,000 --> 00:00:02,500
    Hello
    """
    return "\n".join(
        f"{number}\n{_time(subtitle.start_seconds)} --> {_time(subtitle.end_seconds)}\n{_lines(subtitle.text)}\n"
        for number, subtitle in enumerate(subtitles, 1)
    )


def _time(seconds: float) -> str:
    """SubRip knows no time before 0."""
    minutes, milliseconds = divmod(max(round(seconds * 1000), 0), 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{milliseconds // 1000:02d},{milliseconds % 1000:03d}"


def _lines(text: str) -> str:
    """The text without blank lines, for one ends a subtitle."""
    return "\n".join(line for line in text.split("\n") if line.strip())


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
            except DecodeError as failure:  # what is damaged is no reason to leave out the rest
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
            with suppress(OSError):  # not empty, as it should be
                args.output.rmdir()


def _jobs(args: argparse.Namespace, path: str, folder: Path) -> list[Job]:
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
