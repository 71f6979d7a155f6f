"""`AudioReader`: sound as columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from operator import methodcaller
from typing import Any

from .._common.checks import options_dict
from ..datasets import AudioRecipe, Sample
from ..datasets._rows import sound_sampler
from ..decoders import AudioDecoder
from ..errors import InvalidArgumentError
from ..frames import AudioSamples, AudioSamplesBatch
from ._clip_decoder import checked_shape
from ._columns import Column
from ._row_mapper import RowMapper

__all__ = ["AudioReader"]


class AudioReader(RowMapper):
    """Reads the sound of each row of a batch: whole files, or clips of them; of audio files and of videos.

    Columns that come out, beside those that came in:

    * ``audio``: float32 (channels, samples) for each row.
    * ``pts_seconds``: float64, the time of the first sample; ``duration_seconds``: float64, the length. NaN in a row
      with an error.
    * ``sample_rate``: int64, samples per second; 0 in a row with an error.
    * ``source``: the path, or what else the file is called.
    * ``error``: why the row could not be read; empty if it could.
    * ``n_replaced``: how many samples, the last ones, are not the file's own but were filled up by the sampler, because
      the file is shorter than a clip.

    Args:
        sampler: Takes an `AudioDecoder` and gives an `AudioSamplesBatch` of one clip, or `AudioSamples`: one of
            `mediatensor.samplers` with its arguments bound by ``functools.partial``, or a function of your own. By
            default whole files are read or, with ``seconds_per_clip``, a clip from a random place.
        seconds_per_clip: For the default sampler; ``None`` for whole files.
        sample_rate: Samples per second; ``None`` for those of each file.
        num_channels: Channels; ``None`` for those of each file.
        clip_shape: The shape (channels, samples) that all clips have. The column is then a plain array, (rows,
            channels, samples): a row that cannot be read has zeros, and sound of another shape is an error of its row.
            ``None``: each row has an array of its own shape, which is empty if it cannot be read.
        decoder_options: What else `AudioDecoder` takes: ``stream_index``, ``num_ffmpeg_threads``.
        options: What `RowMapper` takes: ``path_column``, ``bytes_column``, ``row_column``, ``prefix``, ``keep_bytes``,
            ``seed``, ``epoch``, ``max_open_files``.

    Raises:
        InvalidArgumentError: if an argument is not among the accepted ones.

    Example:
        >>> import io, wave
        >>> from mediatensor.distributed import AudioReader
        >>> file = io.BytesIO()
        >>> with wave.open(file, "wb") as writer:
        ...     writer.setparams((1, 2, 8000, 0, "NONE", ""))
        ...     _ = writer.writeframes(bytes(2 * 4000))
        >>> read = AudioReader()({"bytes": [file.getvalue(), b"no sound"]})
        >>> read["audio"][0].shape, read["duration_seconds"], read["audio"][1].shape
        ((1, 4000), array([0.5, nan]), (0, 0))
    """

    def __init__(
        self,
        sampler: Callable[[Any], AudioSamples | AudioSamplesBatch] | None = None,
        *,
        seconds_per_clip: float | None = None,
        sample_rate: int | None = None,
        num_channels: int | None = None,
        clip_shape: tuple[int, int] | None = None,
        decoder_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if sampler is None:
            sampler = methodcaller("get_all_samples") if seconds_per_clip is None else sound_sampler(seconds_per_clip)
        form = {"sample_rate": sample_rate, "num_channels": num_channels}
        decoder = form | options_dict("decoder_options", decoder_options, AudioDecoder)
        columns = [
            Column("audio", "float32", checked_shape(clip_shape, ("channels", "samples"))),
            Column("pts_seconds", "float64", missing=math.nan),
            Column("duration_seconds", "float64", missing=math.nan),
            Column("sample_rate", "int64"),
        ]
        super().__init__(AudioRecipe(sampler, decoder_options=decoder), columns, **options)

    def values(self, sample: Sample) -> dict[str, Any]:
        sound = sample.audio
        if not isinstance(sound, AudioSamples):
            raise InvalidArgumentError("The sample has no sound.")
        num_valid = sample.num_valid_samples
        return {
            "audio": sound.data.numpy(),
            "pts_seconds": sound.pts_seconds,
            "duration_seconds": sound.duration_seconds,
            "sample_rate": sound.sample_rate,
            "n_replaced": 0 if num_valid is None else sound.data.shape[1] - num_valid,
        }
