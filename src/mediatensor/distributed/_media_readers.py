"""`ClipDecoder` and `AudioReader`: clips of videos and sound as columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import methodcaller
from typing import Any

import torch

from .._engine.common.checks import options_dict
from .._engine.pyav.audio import Downmix
from ..datasets._audio_clips import AudioRecipe
from ..datasets._rows.clips import frames_sampler, sound_sampler
from ..datasets._rows.samples import Sample
from ..datasets._video_clips import VideoRecipe
from ..decoders import AudioDecoder, VideoDecoder
from ..errors import InvalidArgumentError
from ..frames import AudioSamples, AudioSamplesBatch, FrameBatch
from ._columns import Column
from ._row_mapper import RowMapper

__all__ = ["AudioReader", "ClipDecoder"]


class ClipDecoder(RowMapper):
    """Decodes a clip for each row of a batch.

    Columns that come out, beside those that came in:

    * ``frames``: uint8 (T, C, H, W) for each row.
    * ``pts_seconds``, ``duration_seconds``: float64 (T,), the times of the frames; NaN in a row with an error.
    * ``source``: the path, or another name of the file.
    * ``error``: why the row could not be read; empty if it could.
    * ``n_replaced``: how many frames were replaced by another, with ``decoder_options={"on_error": "nearest"}``.

    Args:
        sampler: Takes a `VideoDecoder` and gives a `FrameBatch` of one clip: one of `mediatensor.samplers` with its
            arguments bound by ``functools.partial``, or a function of your own. By default `clips_at_random_indices`
            with ``num_frames_per_clip``.
        num_frames_per_clip: For the default sampler.
        num_indices_between_frames: For the default sampler.
        clip_shape: The shape (T, C, H, W) that all clips have. The columns are then plain arrays, (rows, T, C, H, W)
            and (rows, T): a row that cannot be read has zeros, and a clip of another shape is an error of its row.
            ``None``: each row has an array of its own shape, which is empty if it cannot be read.
        decoder_options: Arguments of `VideoDecoder`: ``transforms`` (random ones draw anew for each row), ``on_error``
            (by default a clip that touches damage is an error of its row), ``stream_index``, ``dimension_order``,
            ``seek_mode``, ``output_dtype`` (``torch.float32`` makes ``frames`` float32), ``device`` (for actors with a
            GPU; what was decoded there is copied back for the column) ...
        options: Arguments of `RowMapper`: ``path_column``, ``bytes_column``, ``row_column``, ``prefix``,
            ``keep_bytes``, ``seed``, ``epoch``, ``max_open_files``.

    Raises:
        InvalidArgumentError: if an argument is not among the accepted ones.

    Example:
        >>> import ray  # doctest: +SKIP
        >>> from mediatensor.distributed import ClipDecoder, clip_rows
        >>> from mediatensor.transforms import Resize
        >>> clips = ray.data.from_items(clip_rows(["a.mp4", "b.mp4"], rows_per_file=4)).map_batches(
        ...     ClipDecoder,
        ...     fn_constructor_kwargs={
        ...         "num_frames_per_clip": 8,
        ...         "clip_shape": (8, 3, 112, 112),
        ...         "decoder_options": {"transforms": [Resize((112, 112))]},
        ...     },
        ...     batch_size=16,
        ...     num_cpus=2,
        ...     compute=ray.data.ActorPoolStrategy(size=4),
        ... )  # doctest: +SKIP
        >>> ClipDecoder(num_frames_per_clip=8)({"path": ["missing.mp4"]})["error"][0][:19]
        'SourceNotFoundError'
    """

    def __init__(
        self,
        sampler: Callable[[Any], FrameBatch] | None = None,
        *,
        num_frames_per_clip: int = 16,
        num_indices_between_frames: int = 1,
        clip_shape: tuple[int, int, int, int] | None = None,
        decoder_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        shape = _checked_shape(clip_shape, ("frames", "channels", "height", "width"))
        if sampler is None:
            if clip_shape is not None and clip_shape[0] != num_frames_per_clip:
                raise InvalidArgumentError(
                    f"clip_shape must begin with num_frames_per_clip (got {clip_shape!r} and {num_frames_per_clip!r})."
                )
            sampler = frames_sampler(num_frames_per_clip, num_indices_between_frames)
        decoder = options_dict("decoder_options", decoder_options, VideoDecoder)
        times = (shape[0],)
        columns = [
            Column("frames", _frame_dtype(decoder), shape),
            Column("pts_seconds", "float64", times, math.nan),
            Column("duration_seconds", "float64", times, math.nan),
        ]
        super().__init__(VideoRecipe(sampler, decoder_options=decoder), columns, **options)

    def values(self, sample: Sample) -> dict[str, Any]:
        frames = sample.frames
        if frames is None:
            raise InvalidArgumentError("The sample has no frames.")
        return {
            "frames": frames.data.cpu().numpy(),
            "pts_seconds": frames.pts_seconds.numpy(),
            "duration_seconds": frames.duration_seconds.numpy(),
            "n_replaced": sum(not report.num_missing for report in frames.replaced),
        }


class AudioReader(RowMapper):
    """Reads the sound of each row of a batch: whole files, or clips of them; of audio files and of videos.

    Columns that come out, beside those that came in:

    * ``audio``: float32 (channels, samples) for each row.
    * ``pts_seconds``: float64, the time of the first sample; ``duration_seconds``: float64, the length. NaN in a row
      with an error.
    * ``sample_rate``: int64, samples per second; 0 in a row with an error.
    * ``source``: the path, or another name of the file.
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
        downmix: ``"sum"`` or ``"mean"``: how to mix to fewer channels, as of `AudioDecoder`.
        clip_shape: The shape (channels, samples) that all clips have. The column is then a plain array, (rows,
            channels, samples): a row that cannot be read has zeros, and sound of another shape is an error of its row.
            ``None``: each row has an array of its own shape, which is empty if it cannot be read.
        decoder_options: Further arguments of `AudioDecoder`: ``stream_index``, ``num_ffmpeg_threads``.
        options: Arguments of `RowMapper`: ``path_column``, ``bytes_column``, ``row_column``, ``prefix``,
            ``keep_bytes``, ``seed``, ``epoch``, ``max_open_files``.

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
        downmix: Downmix = "sum",
        clip_shape: tuple[int, int] | None = None,
        decoder_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if sampler is None:
            sampler = methodcaller("get_all_samples") if seconds_per_clip is None else sound_sampler(seconds_per_clip)
        form = {"sample_rate": sample_rate, "num_channels": num_channels, "downmix": downmix}
        decoder = form | options_dict("decoder_options", decoder_options, AudioDecoder)
        columns = [
            Column("audio", "float32", _checked_shape(clip_shape, ("channels", "samples"))),
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


def _checked_shape(shape: tuple[int, ...] | None, dimensions: tuple[str, ...]) -> tuple[int | None, ...]:
    """The shape of a column's values: of a clip, or with sizes that differ.

    Raises:
        InvalidArgumentError: if a shape is given that has not a positive whole number for each dimension.
    """
    if shape is None:
        return (None,) * len(dimensions)
    sizes = tuple(shape) if isinstance(shape, Sequence) else ()
    if len(sizes) != len(dimensions) or not all(type(size) is int and size > 0 for size in sizes):
        raise InvalidArgumentError(
            f"clip_shape must be ({', '.join(dimensions)}), positive whole numbers, or None (got {shape!r})."
        )
    return sizes


def _frame_dtype(decoder_options: Mapping[str, Any]) -> str:
    dtype = decoder_options.get("output_dtype", torch.uint8)
    if dtype not in (torch.uint8, torch.float32):
        raise InvalidArgumentError(
            f"output_dtype must be torch.uint8 or torch.float32 (got {dtype!r}): a column has one type for all files."
        )
    return "uint8" if dtype is torch.uint8 else "float32"
