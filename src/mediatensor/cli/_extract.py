"""``mediatensor extract``: write frames, audio and subtitles of a file as separate files."""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import wave
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import TypeAlias

from torch import Tensor

from .._engine.common.display import pcm16
from .._engine.common.messages import counted, progress, subrip, text_lines
from .._engine.sources.output_files import check_outputs, write_file, writing
from ..decoders import AudioDecoder, FrameIndex, SubtitleDecoder, VideoDecoder
from ..encoders import JpegEncoder, PngEncoder
from ..errors import DecodeError, InvalidArgumentError, OutOfRangeError
from ..frames import AudioSamples
from ..transforms import Resize
from . import _text
from ._arguments import grid_frames
from ._console import STANDARD, check_folder, emit, emit_bytes, for_each_file, output_stem
from ._sheet import choose_frames, range_within

# Largest size in bytes and largest number of decoded frames in memory.
_BATCH_BYTES = 64 << 20
_MAX_BATCH = 32

# Number of threads that write images. Encoding an image takes longer than decoding a frame, and releases the GIL.
_NUM_WRITERS = min(4, os.cpu_count() or 1)

_JPEG_QUALITY = 95

# Options that write files with a suffix.
_OPTIONS_OF_SUFFIXES = {
    ".png": "--images png", ".jpg": "--images jpg", ".jpeg": "--images jpg", ".wav": "--audio", ".srt": "--subtitles",
}  # fmt: skip

# Largest size of decoded float audio in memory. Decoding a piece starts earlier than the piece, so small pieces are
# slow.
_PIECE_BYTES = 64 << 20
_FLOAT_BYTES = 4

# Largest length of a gap in the audio, in pieces.
_MAX_EMPTY_PIECES = 20

_SAMPLE_BYTES = 2
# WAV files store lengths in 32 bits. The RIFF length includes 36 bytes of headers.
_MAX_DATA_BYTES = (1 << 32) - 1 - 36


class FramesJob:
    """Writes frames of a video as images.

    Each image name is ``target`` followed by a number, a time and a suffix. If decoding corrects the frame index, the
    names change. Then ``check`` is called with the new output paths, and raises an error if a file must not be
    overwritten.
    """

    def __init__(
        self, decoder: VideoDecoder, target: Path, args: argparse.Namespace, check: Callable[[Sequence[Path]], None]
    ) -> None:
        self._decoder, self._target, self._args, self._check = decoder, target, args, check
        self._plan(decoder.frame_index)

    def _plan(self, index: FrameIndex) -> None:
        self._index = index
        pts_seconds, suffix = index.pts_seconds.tolist(), self._args.images or "png"
        self._paths = {
            number: self._target.with_name(
                image_name(self._target.name, number, pts_seconds[number], len(index), suffix)
            )
            for number in _choose_frames(index, self._args)
        }
        self.outputs = list(self._paths.values())

    def write(self) -> str:
        self._damaged: list[int] = []
        num_written = sum(1 for _ in progress(self._write_all(), "images", total=len(self._paths)))
        if self._damaged:
            numbers = ", ".join(map(str, self._damaged[:10])) + (", ..." if len(self._damaged) > 10 else "")
            raise DecodeError(
                f"{counted(len(self._damaged), 'frame')} of {len(self._paths)} did not decode and "
                f"{'is' if len(self._damaged) == 1 else 'are'} missing in {str(self._target.parent)!r}: {numbers}."
            )
        return f"wrote {counted(num_written, 'image')} to {self._target.parent}{os.sep}"

    def _write_all(self) -> Iterator[Path]:
        """Write the planned images, and yield their paths. If decoding corrects the frame index, plan again."""
        metadata, written = self._decoder.metadata, dict[Path, None]()
        width, height = self._args.size or (metadata.width or 1, metadata.height or 1)
        batch_size = max(1, min(_MAX_BATCH, _BATCH_BYTES // (width * height * 3)))
        with ThreadPoolExecutor(_NUM_WRITERS) as pool:
            while True:
                remaining = [
                    number
                    for number, path in self._paths.items()
                    if path not in written and number not in self._damaged
                ]
                if not remaining:
                    break
                pictures = self._decode(remaining[:batch_size])
                if self._decoder.frame_index is not self._index:
                    self._damaged.clear()
                    self._plan(self._decoder.frame_index)
                    self._check([path for path in self._paths.values() if path not in written])
                    continue
                paths = [self._paths[number] for number in pictures]
                for path in pool.map(write_image, pictures.values(), paths):
                    written[path] = None
                    yield path
        for path in written.keys() - set(self._paths.values()):
            path.unlink(missing_ok=True)

    def _decode(self, numbers: list[int]) -> dict[int, Tensor]:
        """Decode frames; return a dict from frame index to image. Frames that cannot be decoded are left out.

        If decoding corrects the frame index, the dict can be empty, and the caller must plan again.
        """
        try:
            data = self._decoder.get_frames_at(numbers).data
            return dict(zip(numbers, data, strict=True))
        except (DecodeError, OutOfRangeError):
            if self._decoder.frame_index is not self._index:
                return {}
        pictures = {}
        for number in numbers:
            try:
                pictures[number] = self._decoder.get_frame_at(number).data
            except (DecodeError, OutOfRangeError):
                self._damaged.append(number)
        return pictures


def write_image(picture: Tensor, path: Path) -> Path:
    if path.suffix == ".jpg":
        JpegEncoder(picture).to_file(path, quality=_JPEG_QUALITY)
    else:
        PngEncoder(picture).to_file(path)
    return path


def image_name(stem: str, number: int, pts_seconds: float, num_frames: int, suffix: str) -> str:
    """Return the name of an image, such as talk_000225_7.500s.png. Alphabetical order is the order of times."""
    width = max(6, len(str(num_frames - 1)))
    return f"{stem}_{number:0{width}d}_{pts_seconds:.3f}s.{suffix}"


def _choose_frames(index: FrameIndex, args: argparse.Namespace) -> list[int]:
    if args.frames is not None:
        return list(dict.fromkeys(_valid_index(number, len(index)) for number in args.frames))
    start, stop = range_within(args.start, args.stop, index.begin_seconds, index.end_seconds)
    if args.every is None and args.fps is None:
        return choose_frames(index.pts_seconds.tolist(), start, stop, len(index))
    return grid_frames(index, start, stop, args.every, args.fps)


def _valid_index(number: int, num_frames: int) -> int:
    if not -num_frames <= number < num_frames:
        raise OutOfRangeError(f"There is no frame {number}: the video has {counted(num_frames, 'frame')}.")
    return number % num_frames


class SoundJob:
    def __init__(self, decoder: AudioDecoder, target: Path, args: argparse.Namespace) -> None:
        self.outputs = [target.with_name(f"{target.name}.wav")]
        self._decoder, self._args = decoder, args
        metadata = decoder.metadata
        self._start = metadata.begin_stream_seconds
        if args.start is not None or args.stop is not None:
            end = math.inf if metadata.end_stream_seconds is None else metadata.end_stream_seconds
            self._start, _ = range_within(args.start, args.stop, self._start, end)

    def write(self) -> str:
        (path,), pieces = self.outputs, self._pieces()
        first = next(pieces)  # raises for an empty range, before the file is created
        num_channels, num_samples = first.data.shape[0], 0
        with writing(path) as output:
            file = wave.open(output, "wb")  # noqa: SIM115 - closing it without parameters hides the error
            file.setparams((num_channels, _SAMPLE_BYTES, first.sample_rate, 0, "NONE", "not compressed"))
            with file:
                for samples in progress(chain([first], pieces), "audio", unit="piece"):
                    num_samples += samples.data.shape[1]
                    if num_samples * num_channels * _SAMPLE_BYTES > _MAX_DATA_BYTES:
                        raise InvalidArgumentError(
                            "The audio does not fit in a WAV file, which holds 4 GiB; take a part with --start and "
                            "--stop, or less with --sample-rate and --num-channels."
                        )
                    file.writeframesraw(pcm16(samples.data).numpy().tobytes())
        seconds = _text.seconds(num_samples / first.sample_rate)
        start = f" from {_text.seconds(first.pts_seconds)} on" if first.pts_seconds else ""
        channels = counted(num_channels, "channel")
        return f"wrote {path}: {seconds}{start}, {first.sample_rate} Hz, {channels}"

    def _pieces(self) -> Iterator[AudioSamples]:
        """Yield the audio as consecutive pieces. The first piece can be empty."""
        metadata, start, num_empty = self._decoder.metadata, self._start, 0
        rate = self._args.sample_rate or metadata.sample_rate or 48_000
        num_channels = self._args.num_channels or metadata.num_channels or 2
        seconds = float(max(1, _PIECE_BYTES // (rate * num_channels * _FLOAT_BYTES)))
        for number in count():
            piece_start, piece_stop = start + number * seconds, start + (number + 1) * seconds
            if self._args.stop is not None:
                piece_stop = min(piece_stop, self._args.stop)
                if number and piece_start >= piece_stop:
                    return
            try:
                samples = self._decoder.get_samples_played_in_range(piece_start, piece_stop)
            except OutOfRangeError:
                num_empty += 1
                is_gap = metadata.end_stream_seconds is not None and piece_stop < metadata.end_stream_seconds
                if number == 0:
                    raise OutOfRangeError(f"There is no audio sample from {_text.seconds(piece_start)} on.") from None
                if not is_gap or num_empty > _MAX_EMPTY_PIECES:
                    return
                continue
            num_empty = 0
            yield samples


class SubtitlesJob:
    def __init__(self, decoder: SubtitleDecoder, target: Path, args: argparse.Namespace) -> None:
        range_within(args.start, args.stop, -math.inf, math.inf)  # raises
        self.outputs = [target.with_name(f"{target.name}.srt")]
        self._decoder, self._start, self._stop = decoder, args.start, args.stop

    def write(self) -> str:
        subtitles = (
            self._decoder.get_all_subtitles()
            if self._start is None and self._stop is None
            else self._decoder.get_subtitles_played_in_range(self._start or 0.0, self._stop)
        )

        def milliseconds(seconds: float) -> int:  # SubRip has no negative times
            return max(round(seconds * 1000), 0)

        cues = (
            (milliseconds(one.start_seconds), milliseconds(one.end_seconds), text_lines(one.text)) for one in subtitles
        )
        (path,) = self.outputs
        write_file(path, subrip(cues).encode())
        return f"wrote {path}: {counted(len(subtitles), 'subtitle')}"


Job: TypeAlias = FramesJob | SoundJob | SubtitlesJob


def run(args: argparse.Namespace) -> int:
    check_folder(args.output, _OPTIONS_OF_SUFFIXES)

    def extract(path: str, _: str) -> int:
        if str(args.output) == STANDARD:
            _extract_to_standard_output(args, path)
        else:
            _extract(args, path)
        return 0

    return for_each_file([args.file], extract)


def _extract_to_standard_output(args: argparse.Namespace, path: str) -> None:
    def check(outputs: Sequence[Path]) -> None:
        if len(outputs) != 1:
            raise InvalidArgumentError(
                f"Standard output takes one file, and these are {len(outputs)}: ask for one image (--frames 0), "
                "--audio or --subtitles, or name a folder with -o."
            )

    with tempfile.TemporaryDirectory(prefix="mediatensor-") as folder:
        with _open_jobs(args, path, Path(folder), check) as jobs:
            check([output for job in jobs for output in job.outputs])
            jobs[0].write()
            (output,) = jobs[0].outputs  # its name can change while it is written
        emit_bytes(output.read_bytes())


def _extract(args: argparse.Namespace, path: str) -> None:
    def check(outputs: Sequence[Path]) -> None:
        check_outputs(outputs, [path], overwrite=args.overwrite, makes_folders=True)

    with _open_jobs(args, path, args.output, check) as jobs:
        is_new = not args.output.exists()
        try:
            check([output for job in jobs for output in job.outputs])
            args.output.mkdir(parents=True, exist_ok=True)
            failures = []
            for job in jobs:
                try:
                    emit(job.write())
                except DecodeError as failure:  # continue, because the remaining streams may be intact
                    failures.append(failure)
            if failures:
                raise DecodeError(" ".join(map(str, failures)))
        except KeyboardInterrupt as stop:
            outputs = [output for job in jobs for output in job.outputs]
            num_written = sum(output.exists() for output in outputs)
            stop.add_note(
                f"{num_written} of {counted(len(outputs), 'file')} are in {args.output}{os.sep}, whole; "
                "the same command with --overwrite starts over"
            )
            raise
        finally:
            if is_new:
                with suppress(OSError):  # keep the folder if it is not empty
                    args.output.rmdir()


@contextmanager
def _open_jobs(
    args: argparse.Namespace, path: str, folder: Path, check: Callable[[Sequence[Path]], None]
) -> Iterator[list[Job]]:
    """Open all requested streams, and yield their jobs. At the end of the block, the streams are closed."""
    picks_images = (args.images, args.every, args.fps, args.frames, args.size, args.stream)
    wants_images = any(option is not None for option in picks_images) or not (args.audio or args.subtitles)
    if (args.sample_rate or args.num_channels or args.audio_stream is not None) and not args.audio:
        raise InvalidArgumentError("--sample-rate, --num-channels and --audio-stream go with --audio.")
    if (args.encoding or args.subtitle_stream is not None) and not args.subtitles:
        raise InvalidArgumentError("--encoding and --subtitle-stream go with --subtitles.")
    if args.frames is not None and (args.start is not None or args.stop is not None):
        raise InvalidArgumentError("--frames names the frames; it does not go with --start and --stop.")
    target = folder / output_stem(args.file)
    with ExitStack() as stack:
        jobs: list[Job] = []
        if wants_images:
            resize = None if args.size is None else [Resize(args.size[::-1])]
            video = stack.enter_context(VideoDecoder(path, stream_index=args.stream, transforms=resize))
            jobs.append(FramesJob(video, target, args, check))
        if args.audio:
            sound = AudioDecoder(
                path,
                stream_index=args.audio_stream,
                sample_rate=args.sample_rate,
                num_channels=args.num_channels,
                downmix="mean",
            )
            jobs.append(SoundJob(stack.enter_context(sound), target, args))
        if args.subtitles:
            subtitles = SubtitleDecoder(path, stream_index=args.subtitle_stream, encoding=args.encoding)
            jobs.append(SubtitlesJob(stack.enter_context(subtitles), target, args))
        yield jobs
