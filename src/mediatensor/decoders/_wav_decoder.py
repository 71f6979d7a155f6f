"""`WavDecoder`: reads the samples of WAV files directly from their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from .._engine.audio.plan import check_range, check_ranges, no_samples_error, sample_range
from .._engine.audio.wav import WavFile, convert_samples, num_lead_bytes
from .._engine.common import buffers, stages
from .._engine.common.handle_pool import HandlePool
from .._engine.common.locks import Closing
from .._engine.containers.wav import WavHeader, layout_name, parse_wav_header
from .._engine.metadata import AudioStreamMetadata
from ..errors import StreamError
from ..frames import AudioSamples

# Bytes to read and convert at a time. Together with the converted samples they fit into a core's L2 cache.
_BLOCK_BYTES = 1 << 17


class WavDecoder(Closing):
    """Decodes the samples of an uncompressed WAV file to float32 in [-1, 1], without FFmpeg.

    A range reads only its own bytes. The decoder reads PCM of 8 (unsigned), 16, 24 and 32 bits and float of 32 and 64
    bits, in RIFF, RIFX, RF64, BW64 and W64 files, including WAVE_FORMAT_EXTENSIBLE. The samples are bit-identical to
    those of `AudioDecoder`. Use `AudioDecoder` for compressed audio, and to resample or mix.

    The complete samples of a truncated file are returned. If the header does not state the length, as in a file written
    to a pipe, the audio lasts to the end of the file.

    A decoder can be pickled, used after a fork, and called from several threads at a time.

    Args:
        source: A path or URL, the ``bytes`` of a file, a 1-D uint8 tensor of them (neither is copied), or an open
            binary file.

    Attributes:
        metadata: `AudioStreamMetadata`.
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
        self.metadata = _metadata(self._header)
        self.stream_index = 0

    def get_all_samples(self) -> AudioSamples:
        """Return all samples of the file: float32 of shape (channels, samples) in [-1, 1].

        Returns:
            `AudioSamples`: ``data`` float32 (channels, samples) at full scale 1, and the time of the first sample.

        Raises:
            StreamError: if the file has no samples.
            ReadError: if reading fails, or the file was cut short after it was opened.
            ClosedError: after `close`.
        """
        return self.get_samples_played_in_range()

    def get_samples_played_in_range(
        self, start_seconds: float = 0.0, stop_seconds: float | None = None
    ) -> AudioSamples:
        """Return the samples that are played in the half-open range [start, stop), float32 (channels, samples).

        Adjacent ranges have no gap and no overlap.

        Args:
            start_seconds: Start of the range; a time before 0 counts as 0.
            stop_seconds: End of the range, exclusive; ``None``, or a time after the end, for the end of the file. If it
                equals the start, the result is empty.

        Returns:
            `AudioSamples`: ``data`` float32 (channels, samples) at full scale 1, and the time of the first sample.

        Raises:
            InvalidArgumentError: if a time is not finite, or start is greater than stop.
            StreamError: if the file has no samples.
            OutOfRangeError: if start lies at or after the end of the file, or less than half a sample before the end.
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
        """Return the samples of several ranges, in the order of the ranges.

        Args:
            ranges: Pairs of (start, stop) in seconds, see `get_samples_played_in_range`.

        Returns:
            A list of `AudioSamples`, one for each range: ``data`` float32 (channels, samples).

        Raises:
            InvalidArgumentError: before reading, if an item is not such a pair.
            StreamError, OutOfRangeError, ReadError, ClosedError: as for a single range.

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
        """Return samples [first, last) of all channels, read block by block to save memory."""
        header = self._header
        samples: NDArray[np.float32] = buffers.empty((header.num_channels, last - first), np.float32)
        start = header.data_offset - num_lead_bytes(header.encoding)
        with stages.DECODE, self._pool.borrow() as handle:
            handle.reader.will_need(start + first * header.frame_bytes, header.data_offset + last * header.frame_bytes)
            for block in _blocks(last - first, header.frame_bytes):
                position = start + (first + block.start) * header.frame_bytes
                stop = header.data_offset + (first + block.stop) * header.frame_bytes
                raw = handle.view(position, stop - position)
                convert_samples(raw, header.encoding, samples[:, block.start : block.stop])
        return samples

    # Lifetime

    def close(self) -> None:
        """Release the source. The metadata stays available; later decoding raises `ClosedError`.

        Example:
            >>> import torch
            >>> from mediatensor.decoders import WavDecoder
            >>> from mediatensor.encoders import AudioEncoder
            >>> decoder = WavDecoder(AudioEncoder(torch.zeros(1, 800), sample_rate=8_000).to_tensor("wav"))
            >>> decoder.close()
        """
        self._pool.close()

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_pool"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._pool = HandlePool(self._file.open)

    def __repr__(self) -> str:
        return f"WavDecoder({self._file.name})"


def _blocks(num_samples: int, frame_bytes: int) -> Iterator[range]:
    step = max(1, _BLOCK_BYTES // frame_bytes)
    for first in range(0, num_samples, step):
        yield range(first, min(first + step, num_samples))


def _metadata(header: WavHeader) -> AudioStreamMetadata:
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
