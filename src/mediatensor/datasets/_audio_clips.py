"""`AudioClips`: clips of sound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from .._engine.audio.plan import check_downmix, check_output_format
from .._engine.common import stages
from .._engine.common.checks import function, options_dict
from .._engine.pyav.audio import Downmix
from ..decoders import AudioDecoder
from ..errors import InvalidArgumentError
from ..frames import AudioSamples, AudioSamplesBatch
from ._rows.clips import Sound, check_is_one, check_rows_differ, first_request, sound_fields, sound_sampler
from ._rows.dataset import MediaDataset, check_dataset_options
from ._rows.recipe import Recipe
from ._rows.samples import Sample
from ._rows.segments import segment_of
from ._sources.dispatch import as_items
from ._sources.items import Item, checked_classes

__all__ = ["AudioClips", "AudioRecipe"]


class AudioClips(MediaDataset):
    """Clips of sound, one sample a row: of audio files, or of the sound of videos.

    Args:
        source: The files: paths, a folder, a manifest, rows of a Hugging Face dataset; see `as_items`.
        sampler: Takes an `AudioDecoder` and gives an `AudioSamplesBatch` of clips: one of `mediatensor.samplers` with
            its arguments bound by ``functools.partial``, or a function of your own, which may also give `AudioSamples`
            (``AudioDecoder.get_all_samples`` for whole files). By default `audio_clips_at_random_timestamps` with
            ``seconds_per_clip``: a file that is shorter is filled up with silence, and ``Sample.num_valid_samples``
            tells how many samples are its own.
        seconds_per_clip: For the default sampler.
        sample_rate: Samples per second of the clips; ``None`` for those of each file. Files of different rates give
            clips of different length.
        num_channels: Channels of the clips; ``None`` for those of each file.
        downmix: How to mix to fewer channels: ``"sum"`` as torchcodec does, so that the mix of stereo to mono is 1.414
            times the mean; ``"mean"`` to the mean. See `AudioDecoder`.
        keep_clip_dimension: ``False``: the sampler gives one clip, and a sample has `AudioSamples` (channels, samples).
            ``True``: it may give several, and a sample has `AudioSamplesBatch` (clips, channels, samples).
        transform: Takes the sound of a sample. It returns other sound, a tensor of the same shape, or a tensor of
            another shape, which counts as features. Features are in ``Sample.features``; then ``audio`` is ``None``,
            and ``extra`` has ``audio_pts_seconds``, ``audio_duration_seconds`` and ``num_valid_samples``.
            `LogMelSpectrogram` makes features (channels, mels, frames). Random ones draw anew for each row.
        label: Gives the label of an `Item`; by default its own.
        classes: The names of the classes in the order of their numbers, for labels that are text and for sub-folders,
            such as ``class_names`` of the dataset that a model is trained with. A class that is not among them is an
            error. By default the classes of this source, by name.
        rows_per_file: How many rows each file has in an epoch; each draws its own clip. More than one needs a random
            sampler or a random transform.
        decoder_options: Further arguments of `AudioDecoder`: ``stream_index``, ``num_ffmpeg_threads``.
        dataset_options: Arguments of `MediaDataset`: ``seed``, ``on_error``, ``max_consecutive_failures``,
            ``max_open_files``.

    Raises:
        InvalidArgumentError: if there are no files, or an argument is not among the accepted ones.

    Example:
        >>> from mediatensor.datasets import AudioClips
        >>> from mediatensor.transforms import LogMelSpectrogram
        >>> dataset = AudioClips(["video.mp4"], seconds_per_clip=2.0, sample_rate=16_000, num_channels=1)
        >>> dataset[0].audio.data.shape, dataset[0].num_valid_samples
        (torch.Size([1, 32000]), 32000)
        >>> dataset = AudioClips(
        ...     ["video.mp4"], seconds_per_clip=2.0, sample_rate=16_000, num_channels=1, transform=LogMelSpectrogram()
        ... )
        >>> dataset[0].features.shape
        torch.Size([1, 80, 200])
    """

    def __init__(
        self,
        source: Any,
        sampler: Callable[[Any], Sound] | None = None,
        *,
        seconds_per_clip: float = 2.0,
        sample_rate: int | None = None,
        num_channels: int | None = None,
        downmix: Downmix = "sum",
        keep_clip_dimension: bool = False,
        transform: Callable[[Any], Sound | Tensor] | None = None,
        label: Callable[[Item], Any] | None = None,
        classes: Sequence[str] | None = None,
        rows_per_file: int = 1,
        decoder_options: Mapping[str, Any] | None = None,
        **dataset_options: Any,
    ) -> None:
        check_dataset_options(self, dataset_options)
        if sampler is None:
            sampler = sound_sampler(seconds_per_clip)
        form = {"sample_rate": sample_rate, "num_channels": num_channels, "downmix": downmix}
        options = form | options_dict("decoder_options", decoder_options, AudioDecoder)
        recipe = AudioRecipe(sampler, keep_clip_dimension, transform, options)
        check_rows_differ(rows_per_file, sampler, transform)
        items = as_items(source, kind="audio", label=label, classes=classes)
        self._classes = checked_classes(classes)
        super().__init__(items, recipe, rows_per_file=rows_per_file, **dataset_options)


@dataclass(frozen=True)
class AudioRecipe(Recipe):
    """How a clip is made of a file with sound; see `AudioClips`."""

    sampler: Callable[[Any], Sound]
    keep_clip_dimension: bool = False
    transform: Callable[[Any], Sound | Tensor] | None = None
    decoder_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        function("sampler", self.sampler)
        function("transform", self.transform)
        check_output_format(self.decoder_options.get("sample_rate"), self.decoder_options.get("num_channels"))
        check_downmix(self.decoder_options.get("downmix", "sum"))

    def open(self, item: Item) -> AudioDecoder:
        return AudioDecoder(item.source, **self.decoder_options)

    def read(self, opened: AudioDecoder, item: Item, part: int) -> Sample:
        with stages.DECODE:
            clips = self.sampler(segment_of(opened, item))
        if isinstance(clips, AudioSamples):
            return Sample(**sound_fields(self.transform, clips))
        if not isinstance(clips, AudioSamplesBatch):
            raise InvalidArgumentError(
                f"The sampler must return an AudioSamplesBatch or AudioSamples (got {type(clips).__name__})."
            )
        if self.keep_clip_dimension:
            return Sample(**sound_fields(self.transform, clips))
        check_is_one(len(clips))
        return Sample(**sound_fields(self.transform, clips[0], int(clips.num_valid_samples[0])))

    def position(self, opened: AudioDecoder, item: Item, part: int) -> float:
        return first_request(segment_of(opened, item), self.sampler)
