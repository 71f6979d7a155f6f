"""`AudioDecoder` and `WavDecoder`, which decode audio to tensors."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._engine.audio.batch import AudioHandle, AudioHandleSpec, SampleRun
from .._engine.audio.plan import (
    OutputFormat,
    SamplePlan,
    check_downmix,
    check_output_format,
    check_range,
    check_ranges,
    group_ranges,
    no_samples_error,
    sample_range,
)
from .._engine.audio.pre_roll import is_exact_after_pre_roll
from .._engine.audio.reader import WavFile, convert_samples, num_lead_bytes
from .._engine.audio.stream import AudioStream
from .._engine.common import buffers, stages
from .._engine.common.checks import check_num_threads, real_number
from .._engine.common.handle_pool import HandlePool
from .._engine.common.locks import Closing
from .._engine.containers.wav import WavHeader, layout_name, parse_wav_header
from .._engine.metadata import AudioStreamMetadata, audio_stream_metadata
from .._engine.pyav.audio import Downmix
from .._engine.sources.source import make_source
from ..errors import DecodeError, InvalidArgumentError, OutOfRangeError, StreamError
from ..frames import AudioSamples

# Ranges with smaller gaps are decoded together, because a seek and its pre-roll take as long as decoding the gap.
_MAX_SECONDS_DECODED_THROUGH = 0.25

# Number of bytes of a WAV file that are read and converted at once. They and the samples fit into a core's L2 cache.
_WAV_BLOCK_BYTES = 1 << 17


class AudioDecoder(Closing):
    """Decodes the audio stream of an audio file or video to float32 samples in [-1, 1].

    Lossy codecs, resampling and mixing can give samples outside [-1, 1]. **``num_channels=1`` gives 1.414 times the
    mean of two channels**, as in torchcodec. ``downmix="mean"`` gives the mean itself.

    **Decoding a time range gives the same samples as decoding the whole stream.** Sample k of the stream is played ``k
    / sample_rate`` seconds after sample 0. The delay and padding that an encoder adds are removed. The start and end of
    a range are rounded to the nearest sample (halves are rounded up), so adjacent ranges have no gap and no overlap,
    even after resampling. The samples are bit-identical to a full decode, with two exceptions: Opus, MPEG layers I and
    II and DTS may differ by up to 1e-4, and noise that AAC synthesizes differs. The samples of a range do not depend on
    earlier calls.

    Some containers round time stamps: Matroska rounds to milliseconds. The time of a sample is then computed from the
    number of samples before it, not from the time stamps. If time stamps have gaps or jump, a range returns the samples
    whose time stamps are in it.

    In every format in which FFmpeg can seek, only the range and a short part before it are decoded, without scanning
    the file. In MP3 of variable bit rate, everything before the range is parsed but not decoded. The following must be
    decoded from the beginning: codecs whose decoder state depends on all earlier packets (HE-AAC, WMA, AMR, Speex,
    ...), MPEG program streams, compressed WAV, FLAC in Ogg, streams whose time stamps jitter, and files that were
    joined end to end (chained Ogg, ``cat a.flac b.flac``). For these, ranges in ascending order are fast, because
    decoding continues where it stopped. A joined file is treated as one recording with the sample rate and channels of
    its first part.

    A decoder can be pickled and copied, used after a fork and in spawned workers, and called from several threads at
    the same time. Concurrent calls open the file separately. The file stays open until `close` or the end of a ``with``
    statement.

    Args:
        source: A path or URL (``str``), a ``pathlib.Path``, the ``bytes`` of a file, these bytes as a 1-D uint8 tensor,
            or a binary file object with ``read(size)`` and ``seek(offset, whence)``. The decoder does not close a file
            object. URLs of other file systems (``s3://...``) are read through fsspec, if it is installed.
        stream_index: Index of the audio stream among all streams of the file. By default, FFmpeg chooses an audio
            stream.
        sample_rate: Sample rate of the result in Hz. FFmpeg resamples if the stream has another sample rate. ``None``
            keeps the sample rate of the stream.
        num_channels: Number of channels of the result. FFmpeg mixes the channels of the stream to FFmpeg's default
            layout for this number. ``None`` keeps the channels of the stream.
        num_ffmpeg_threads: Number of threads that FFmpeg's codec uses. Only FLAC, ALAC, WavPack and TTA can use
            several. By default, a long range is decoded with 1 thread in a DataLoader worker, and otherwise with all
            free threads within the limit of `mediatensor.set_num_threads`. 0 lets FFmpeg decide.
        downmix: How to mix to fewer channels. ``"sum"`` uses the weights of FFmpeg and torchcodec: stereo becomes 0.707
            times the sum of left and right, which may exceed [-1, 1]. ``"mean"`` divides by the sum of the weights:
            stereo becomes the mean of left and right, which is never louder than the loudest channel.

    Attributes:
        metadata: `AudioStreamMetadata` with the sample rate and channels before conversion.
        stream_index: Index of the audio stream among all streams of the file.

    Raises:
        SourceTypeError, SourceNotFoundError, OpenError, ReadError: if the source cannot be read.
        StreamError: if there is no such audio stream, or the source is a big-endian WAV file (see `WavDecoder`).
        InvalidArgumentError: if any other argument is invalid.

    Example:
        >>> from mediatensor.decoders import AudioDecoder
        >>> decoder = AudioDecoder("video.mp4", sample_rate=16_000, num_channels=1)
        >>> decoder.get_samples_played_in_range(5.0, 7.5).data.shape
        torch.Size([1, 40000])
    """

    def __init__(
        self,
        source: object,
        *,
        stream_index: int | None = None,
        sample_rate: int | None = None,
        num_channels: int | None = None,
        num_ffmpeg_threads: int | None = None,
        downmix: Downmix = "sum",
    ) -> None:
        check_downmix(downmix)
        self._downmix: Downmix = downmix
        self._sample_rate, self._num_channels = check_output_format(sample_rate, num_channels)
        check_num_threads(num_ffmpeg_threads)
        self._make_pool(AudioHandleSpec(make_source(source), stream_index, num_ffmpeg_threads))
        with stages.OPEN, self._pool.borrow() as handle:
            self.metadata: AudioStreamMetadata = _describe_stream(handle.stream)
        self.stream_index: int = self.metadata.stream_index
        self._spec = replace(self._spec, stream_index=self.stream_index)

    _spec: AudioHandleSpec
    _pool: HandlePool[AudioHandle]

    def _make_pool(self, spec: AudioHandleSpec) -> None:
        self._spec = spec
        self._pool = HandlePool(spec.open, spec.source.check_unchanged)

    def get_all_samples(self) -> AudioSamples:
        """Return all samples of the stream as `AudioSamples`: ``data`` is float32 (channels, samples) in [-1, 1].

        Raises:
            DecodeError: if the stream is damaged.
            StreamError: if no packet of the stream can be decoded.
            ReadError: if the source cannot be read.
            ClosedError: after `close`.

        Example:
            >>> from mediatensor.decoders import AudioDecoder
            >>> data, pts_seconds, duration_seconds, sample_rate = AudioDecoder("video.mp4").get_all_samples()
            >>> data.shape, sample_rate
            (torch.Size([1, 480000]), 48000)
        """
        with stages.DECODE, self._pool.borrow() as handle:
            output = self._output_format(handle)
            plan = SamplePlan.of_all(handle.stream.form.sample_rate, output)
            runs = handle.read(plan, self.metadata.duration_seconds)
            first = runs[0][0] if runs else 0
            return _join(runs, handle.stream.begin_seconds + first / output.sample_rate, output)

    def get_samples_played_in_range(
        self, start_seconds: float = 0.0, stop_seconds: float | None = None
    ) -> AudioSamples:
        """Return the samples that are played in the half-open range [start, stop).

        Args:
            start_seconds: Start of the range in seconds. If it is before the first sample, the result starts with the
                first sample.
            stop_seconds: End of the range, exclusive; ``None``, or a time after the end, means the end of the stream.
                If it equals the start, the result is empty.

        Returns:
            `AudioSamples`: ``data`` float32 (channels, samples) in [-1, 1], and the time of the first sample, which is
            later than the start if the range starts before the stream or in a gap of the time stamps.

        Raises:
            InvalidArgumentError: if a time is not finite, or start > stop.
            OutOfRangeError: if the range starts after the end of the stream.
            DecodeError: if the range is damaged.
            StreamError: if no packet of the stream can be decoded.
            ReadError: if the source cannot be read.
            ClosedError: after `close`.
        """
        start, stop = check_range(start_seconds, stop_seconds)
        with stages.DECODE, self._pool.borrow() as handle:
            return self._samples_in_ranges(handle, [(start, stop)])[0]

    def get_samples_played_in_ranges(self, ranges: Iterable[tuple[float, float | None]]) -> list[AudioSamples]:
        """Return the samples of several ranges, in the order of ``ranges``. Each result has its own memory.

        The ranges are decoded in order of time. Ranges that overlap or are close together are decoded as one range if
        this gives the same samples.

        Args:
            ranges: Pairs of (start, stop) in seconds, see `get_samples_played_in_range`.

        Returns:
            A list of `AudioSamples`, one for each range: ``data`` float32 (channels, samples).

        Raises:
            InvalidArgumentError: before decoding, if an item is not a valid pair, or if its start is greater than its
                stop.
            OutOfRangeError, DecodeError, StreamError, ReadError, ClosedError: see `get_samples_played_in_range`.

        Example:
            >>> from mediatensor.decoders import AudioDecoder
            >>> speaker_turns = [(0.0, 3.2), (7.5, 9.1)]
            >>> turns = AudioDecoder("video.mp4").get_samples_played_in_ranges(speaker_turns)
            >>> [turn.duration_seconds for turn in turns]
            [3.2, 1.6]
        """
        checked = check_ranges(ranges)
        with stages.DECODE, self._pool.borrow() as handle:
            return self._samples_in_ranges(handle, checked)

    def chunks(
        self,
        seconds: float = 30.0,
        overlap_seconds: float = 0.0,
        *,
        sample_rate: int | None = 16_000,
        num_channels: int | None = 1,
        pad_last: bool = False,
    ) -> Iterator[AudioSamples]:
        """Yield the samples of the stream in chunks of equal length for speech models, by default as 16 kHz mono.

        Chunk k starts ``k * (seconds - overlap_seconds)`` seconds after the start of the stream. The last chunk is the
        first one that reaches the end of the stream, so it can be shorter. Only one chunk is in memory at a time. A gap
        in the time stamps shortens the chunk that contains it, and empty chunks are left out.

        Args:
            seconds: Length of a chunk in seconds.
            overlap_seconds: Overlap of consecutive chunks in seconds; at least 0 and less than ``seconds``.
            sample_rate: Sample rate of the chunks in Hz; ``None`` keeps the sample rate of the stream.
            num_channels: Number of channels of the chunks, mixed according to the decoder's ``downmix``; ``None`` keeps
                the channels of the stream.
            pad_last: Pad short chunks (the last chunk, or a chunk with a gap) with silence at the end.
                ``duration_seconds`` does not include the padding.

        Returns:
            An iterator of `AudioSamples`: ``data`` float32 (channels, samples), and the start time of the chunk.

        Raises:
            InvalidArgumentError: before the first chunk, if an argument is invalid.
            DecodeError, StreamError, ReadError, ClosedError: see `get_samples_played_in_range`.

        Example:
            >>> from mediatensor.decoders import AudioDecoder
            >>> for chunk in AudioDecoder("video.mp4").chunks(seconds=4):
            ...     print(chunk.pts_seconds, chunk.data.shape)
            0.0 torch.Size([1, 64000])
            4.0 torch.Size([1, 64000])
            8.0 torch.Size([1, 32000])
        """
        seconds, overlap_seconds = real_number("seconds", seconds), real_number("overlap_seconds", overlap_seconds)
        if not 0 < seconds < math.inf:
            raise InvalidArgumentError(f"seconds = {seconds} must be greater than 0, and finite.")
        if not 0 <= overlap_seconds < seconds:
            raise InvalidArgumentError(
                f"overlap_seconds = {overlap_seconds} must be at least 0 and less than seconds ({seconds})."
            )
        sample_rate, num_channels = check_output_format(sample_rate, num_channels)
        return self._chunks(seconds, seconds - overlap_seconds, sample_rate, num_channels, pad_last=pad_last)

    def close(self) -> None:
        """Close the file. Later calls raise `ClosedError`; calls in progress finish."""
        self._pool.close()

    def _output_format(self, handle: AudioHandle) -> OutputFormat:
        form = handle.stream.form
        sample_rate, num_channels = self._sample_rate or form.sample_rate, self._num_channels or form.num_channels
        return OutputFormat(sample_rate, num_channels, self._downmix)

    def _samples_in_ranges(
        self, handle: AudioHandle, ranges: Sequence[tuple[float, float | None]]
    ) -> list[AudioSamples]:
        begin, output = handle.stream.begin_seconds, self._output_format(handle)
        results = []
        found = self._runs_in_ranges(handle, ranges, begin, output)
        for (start, stop), (first, runs, is_beyond) in zip(ranges, found, strict=True):
            if is_beyond:
                raise no_samples_error(start, stop, self.metadata.end_stream_seconds)
            starts_in_gap = bool(runs) and runs[0][0] > first
            pts_seconds = begin + runs[0][0] / output.sample_rate if starts_in_gap else max(begin, start)
            results.append(_join(runs, pts_seconds, output))
        return results

    def _runs_in_ranges(
        self, handle: AudioHandle, ranges: Sequence[tuple[float, float | None]], begin: float, output: OutputFormat
    ) -> list[tuple[int, list[SampleRun], bool]]:
        """Return the first sample and the runs of each range, and whether it starts after the end of the stream.

        Ranges that overlap or are close together are decoded as one range.
        """
        bounds = [sample_range(start, stop, begin, output.sample_rate) for start, stop in ranges]
        max_distance = _MAX_SECONDS_DECODED_THROUGH if is_exact_after_pre_roll(handle.stream.codec) else -1.0
        found: dict[int, tuple[int, list[SampleRun], bool]] = {}

        def read(group: Sequence[int]) -> None:
            firsts, lasts = zip(*(bounds[number] for number in group), strict=True)
            first, last = min(firsts), None if None in lasts else max(lasts)
            plan = SamplePlan.of_range(first, last, handle.stream.form.sample_rate, output)
            runs = [] if first == last else handle.read(plan, self.metadata.duration_seconds)
            end = runs[-1][0] + runs[-1][1].shape[1] if runs else first
            for number in group:
                first, last = bounds[number]
                is_beyond = first != last and handle.is_at_end and end <= first
                part = cut_runs(runs, first, last, copies=True) if len(group) > 1 else runs
                found[number] = first, part, is_beyond

        for group in group_ranges(list(ranges), max_distance):
            try:
                read(group)
            except DecodeError:
                if len(group) == 1:
                    raise
                for number in group:  # the damage may be between the ranges
                    read([number])
        return [found[number] for number in range(len(ranges))]

    def _existing_runs(self, ranges: Sequence[tuple[float, float | None]]) -> list[tuple[list[SampleRun], bool]]:
        """Return the samples of each range as runs without gaps, and whether it starts after the end of the stream."""
        with stages.DECODE, self._pool.borrow() as handle:
            begin, output = handle.stream.begin_seconds, self._output_format(handle)
            return [found[1:] for found in self._runs_in_ranges(handle, ranges, begin, output)]

    def _chunks(
        self, seconds: float, step: float, sample_rate: int | None, num_channels: int | None, *, pad_last: bool
    ) -> Iterator[AudioSamples]:
        with self._pool.borrow():  # raises `ClosedError` if this decoder is closed
            decoder = copy.copy(self)
        decoder._sample_rate, decoder._num_channels = sample_rate, num_channels
        with decoder:
            begin = decoder.metadata.begin_stream_seconds
            for number in count():
                start = begin + number * step
                with stages.DECODE, decoder._pool.borrow() as handle:
                    try:
                        (chunk,) = decoder._samples_in_ranges(handle, [(start, start + seconds)])
                    except OutOfRangeError:  # the previous chunk ended with the stream
                        return
                    is_last = handle.is_at_end
                chunk.pts_seconds = start
                first, last = sample_range(start, start + seconds, begin, chunk.sample_rate)
                length = chunk.data.shape[1]
                missing = (last or 0) - first - length
                if is_last and number > 0 and length <= round((seconds - step) * chunk.sample_rate):
                    return  # the previous chunk contains all of these samples
                if missing > 0 and pad_last:
                    chunk.data = torch.nn.functional.pad(chunk.data, (0, missing))
                if length:
                    yield chunk
                if is_last:
                    return

    def __repr__(self) -> str:
        return f"AudioDecoder({self._spec.source.describe()!r}, stream_index={self.stream_index})"

    def __getstate__(self) -> dict[str, Any]:
        # Handles belong to one process.
        return {name: value for name, value in self.__dict__.items() if name != "_pool"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_pool(self._spec)


def cut_runs(runs: Sequence[SampleRun], first: int, last: int | None, *, copies: bool = False) -> list[SampleRun]:
    """Return the samples [first, last) of runs."""
    parts = []
    for number, samples in runs:
        begin = max(first - number, 0)
        part = samples[:, begin : None if last is None else max(last - number, 0)]
        if part.shape[1]:
            parts.append((number + begin, part.clone() if copies else part))
    return parts


def _join(runs: Sequence[SampleRun], pts_seconds: float, output: OutputFormat) -> AudioSamples:
    if len(runs) == 1:
        data = runs[0][1]
    else:
        nothing = torch.empty((output.num_channels, 0), dtype=torch.float32, device="cpu")
        data = torch.cat([nothing, *(samples for _, samples in runs)], 1)
    return AudioSamples(data, pts_seconds, data.shape[1] / output.sample_rate, output.sample_rate)


def _describe_stream(stream: AudioStream) -> AudioStreamMetadata:
    reader = stream.reader
    info = reader.stream_info()
    begin, priming = info.start_seconds or 0.0, 0.0
    # If nothing can be decoded, requests for samples raise.
    with suppress(StreamError):
        begin, priming = stream.begin_seconds, stream.priming_seconds
    return audio_stream_metadata(info, reader.container_info(), begin, priming, reader.joined_seconds)


class WavDecoder(Closing):
    """Decodes the samples of an uncompressed WAV file to float32 in [-1, 1], without FFmpeg.

    For a time range, only the bytes of this range are read. The decoder supports PCM of 8 (unsigned), 16, 24 and 32
    bits and float of 32 and 64 bits, in RIFF, RIFX, RF64, BW64 and W64 files, including WAVE_FORMAT_EXTENSIBLE.
    `AudioDecoder` returns bit-identical samples, but refuses RIFX. Use `AudioDecoder` for compressed audio, and to
    resample or mix.

    For a truncated file, all complete samples are returned. If the header does not state the length, as in a file
    written to a pipe, the audio lasts until the end of the file.

    A decoder can be pickled, used after a fork, and called from several threads at the same time.

    Args:
        source: A path or URL, the ``bytes`` of a file, these bytes as a 1-D uint8 tensor, or a binary file object.
            Bytes and tensors are not copied.

    Attributes:
        metadata: `AudioStreamMetadata` with the sample rate, the number of channels and the duration.
        stream_index: Always 0.

    Raises:
        SourceTypeError, SourceNotFoundError, ReadError: if the source cannot be read.
        OpenError: if the source is not a WAV file, or is damaged.
        StreamError: if the audio is compressed or has an unsupported number of bits per sample.

    Example:
        >>> import struct
        >>> from mediatensor.decoders import WavDecoder
        >>> samples = struct.pack("<4h", 0, 16384, -32768, 8192)  # four samples, 2 a second
        >>> fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 2, 4, 2, 16)
        >>> decoder = WavDecoder(b"RIFF\\x2c\\0\\0\\0WAVE" + fmt + b"data\\x08\\0\\0\\0" + samples)
        >>> decoder.get_all_samples().data
        tensor([[ 0.0000,  0.5000, -1.0000,  0.2500]])
        >>> decoder.get_samples_played_in_range(1.0, 1.5)
        AudioSamples:
          data (shape): torch.Size([1, 1])
          pts_seconds: 1.0
          duration_seconds: 0.5
          sample_rate: 2
    """

    def __init__(self, source: object) -> None:
        self._file = WavFile.of(source)
        self._pool = HandlePool(self._file.open)
        with self._pool.borrow() as handle:
            assert self._file.size is not None
            self._header = parse_wav_header(handle.reader.read_at, self._file.size, self._file.name)
        self.metadata = _describe_wav(self._header)
        self.stream_index = 0

    def get_all_samples(self) -> AudioSamples:
        """Return all samples of the file as `AudioSamples`: ``data`` is float32 (channels, samples) in [-1, 1].

        Raises:
            StreamError: if the file has no samples.
            ReadError: if reading fails, or the file was cut short after it was opened.
            ClosedError: after `close`.
        """
        return self.get_samples_played_in_range()

    def get_samples_played_in_range(
        self, start_seconds: float = 0.0, stop_seconds: float | None = None
    ) -> AudioSamples:
        """Return the samples that are played in the half-open range [start, stop).

        The start and end are rounded to the nearest sample, so adjacent ranges have no gap and no overlap.

        Args:
            start_seconds: Start of the range in seconds; a time before 0 counts as 0.
            stop_seconds: End of the range, exclusive; ``None``, or a time after the end, means the end of the file. If
                it equals the start, the result is empty.

        Returns:
            `AudioSamples`: ``data`` float32 (channels, samples) in [-1, 1], and the time of the first sample.

        Raises:
            InvalidArgumentError: if a time is not finite, or start is greater than stop.
            StreamError: if the file has no samples.
            OutOfRangeError: if start is at or after the end of the file, or less than half a sample before the end.
            ReadError: if reading fails, or the file was cut short after it was opened.
            ClosedError: after `close`.
        """
        start_seconds, stop_seconds = check_range(start_seconds, stop_seconds)
        header = self._header
        if header.num_samples == 0:
            raise StreamError(f"{self._file.name} has no samples: its chunk 'data' is empty.")
        first, last = sample_range(start_seconds, stop_seconds, 0.0, header.sample_rate)
        if first >= header.num_samples and first != last:
            raise no_samples_error(start_seconds, stop_seconds, header.num_samples / header.sample_rate)
        last = header.num_samples if last is None else min(last, header.num_samples)
        data = self._read(min(first, last), last)
        return AudioSamples(
            torch.from_numpy(data), max(start_seconds, 0.0), data.shape[1] / header.sample_rate, header.sample_rate
        )

    def get_samples_played_in_ranges(self, ranges: Iterable[tuple[float, float | None]]) -> list[AudioSamples]:
        """Return the samples of several ranges, as `AudioDecoder.get_samples_played_in_ranges` does.

        Example:
            >>> import torch
            >>> from mediatensor.decoders import WavDecoder
            >>> from mediatensor.encoders import AudioEncoder
            >>> windows = [(second, second + 1) for second in range(3)]
            >>> AudioEncoder(torch.zeros(1, 24_000), sample_rate=8_000).to_file("speech.wav")
            >>> [samples.data.shape for samples in WavDecoder("speech.wav").get_samples_played_in_ranges(windows)]
            [torch.Size([1, 8000]), torch.Size([1, 8000]), torch.Size([1, 8000])]
        """
        return [self.get_samples_played_in_range(start, stop) for start, stop in check_ranges(ranges)]

    def _read(self, first: int, last: int) -> NDArray[np.float32]:
        """Return samples ``first`` to ``last``, exclusive, of all channels."""
        header = self._header
        samples: NDArray[np.float32] = buffers.empty((header.num_channels, last - first), np.float32)
        start = header.data_offset - num_lead_bytes(header.encoding)
        with stages.DECODE, self._pool.borrow() as handle:
            handle.reader.will_need(start + first * header.frame_bytes, header.data_offset + last * header.frame_bytes)
            step = max(1, _WAV_BLOCK_BYTES // header.frame_bytes)
            for block in range(first, last, step):
                block_end = min(block + step, last)
                position = start + block * header.frame_bytes
                stop = header.data_offset + block_end * header.frame_bytes
                raw = handle.view(position, stop - position)
                convert_samples(raw, header.encoding, samples[:, block - first : block_end - first])
        return samples

    def close(self) -> None:
        """Release the source. The metadata stays available; later decoding raises `ClosedError`."""
        self._pool.close()

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_pool"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._pool = HandlePool(self._file.open)

    def __repr__(self) -> str:
        return f"WavDecoder({self._file.name})"


def _describe_wav(header: WavHeader) -> AudioStreamMetadata:
    duration = header.num_samples / header.sample_rate
    return AudioStreamMetadata(
        duration_seconds_from_header=duration,
        begin_stream_seconds_from_header=None,
        bit_rate=8 * header.sample_rate * header.frame_bytes,
        codec=header.encoding.codec,
        stream_index=0,
        media_type="audio",
        sample_rate=header.sample_rate,
        num_channels=header.num_channels,
        sample_format=header.encoding.sample_format,
        duration_seconds=duration,
        begin_stream_seconds=0.0,
        end_stream_seconds=duration,
        channel_layout=layout_name(header.channel_mask, header.num_channels),
    )
