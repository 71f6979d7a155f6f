"""`AudioClips`: clips of audio. `VideoAudioClips`: clips of videos with their audio and captions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from .._engine.audio.plan import check_downmix, check_output_format
from .._engine.common import stages
from .._engine.common.checks import check_choice, function, options_dict
from .._engine.common.display import wav_file
from .._engine.pyav.audio import Downmix
from ..decoders import AudioDecoder, AudioVideoDecoder, VideoDecoder
from ..decoders._access import access_to, sample_grid
from ..errors import InvalidArgumentError, StreamError
from ..frames import AudioSamples, AudioSamplesBatch, AudioVideoClip, FrameBatch
from ..samplers import audio_clips_at_random_timestamps, audio_video_clips_at_random_timestamps
from ..samplers._audio_clips import ClipPolicy
from ..samplers._random import uses_row_random
from ..transforms._decoder_transforms import check_decoder_transforms
from ._rows.captions import CaptionPlace, CaptionTrack, Tokenizer, add_token_ids, check_caption_places, find_captions
from ._rows.clips import (
    Sound,
    apply_frames_transform,
    box_column,
    call_sampler,
    check_is_one,
    check_rows_differ,
    check_sampler,
    effective_fps,
    position_of,
    ready_for_rows,
    redraw_transforms,
    sound_fields,
)
from ._rows.dataset import MediaDataset, check_dataset_options
from ._rows.recipe import LeftOut, Recipe, errors_as_misuse, misuse
from ._rows.samples import SILENT_SPANS, Sample
from ._sources.dispatch import as_items
from ._sources.items import Item, checked_classes
from ._sources.tables import CAPTIONS_COLUMN

MissingPolicy: TypeAlias = Literal["error", "pad", "skip"]

Clips = AudioVideoClip | Sequence[AudioVideoClip]


class AudioClips(MediaDataset):
    """A dataset of clips from audio files, or from the audio of videos. Each row is a `Sample` with one clip.

    Args:
        source: Paths, a folder, a manifest, or rows of a Hugging Face dataset; see `as_items`.
        sampler: Function that takes an `AudioDecoder` and returns an `AudioSamplesBatch` of clips: one of
            `mediatensor.samplers` with its arguments bound by ``functools.partial``, or your own function. Your own
            function may also return `AudioSamples`. The sampler ``AudioDecoder.get_all_samples`` reads the whole file,
            or the whole part of it that a row names. The default is `audio_clips_at_random_timestamps` with
            ``seconds_per_clip``. A file that is shorter than a clip is padded with silence;
            ``Sample.num_valid_samples`` is then the number of samples before the padding.
        seconds_per_clip: Length of a clip in seconds, for the default sampler.
        sample_rate: Sample rate of the clips in Hz. With ``None``, each clip has the sample rate of its file, so clips
            of equal duration may have different numbers of samples.
        num_channels: Number of channels of the clips; ``None`` keeps the channels of each file.
        downmix: How to mix to fewer channels. ``"mean"`` takes the mean. ``"sum"`` mixes like torchcodec, where the
            mono mix of stereo is 1.414 times the mean. See `AudioDecoder`.
        keep_clip_dimension: If ``False``, the sampler must return one clip, and ``Sample.audio`` is an `AudioSamples`
            with ``data`` of shape (channels, time). If ``True``, the sampler may return several clips, and
            ``Sample.audio`` is an `AudioSamplesBatch` with ``data`` of shape (clips, channels, time).
        transform: Function that takes the audio of a sample and returns new audio or a tensor. A tensor of the same
            shape replaces the samples. A tensor of another shape, such as (channels, mels, frames) from
            `LogMelSpectrogram`, counts as features, which are stored in ``Sample.features``. ``Sample.audio`` is then
            ``None``, and ``Sample.extra`` has ``audio_pts_seconds``, ``audio_duration_seconds`` and
            ``num_valid_samples``. Random transforms draw new values for each row.
        label: Function that returns the label of an `Item`; by default ``Item.label``.
        classes: Class names in the order of their numbers; see `VideoClips`.
        rows_per_file: Number of rows of each file in an epoch; see `VideoClips`.
        decoder_options: Further arguments of `AudioDecoder`: ``stream_index``, ``num_ffmpeg_threads``.
        dataset_options: Arguments of `MediaDataset`: ``seed``, ``on_error``, ``max_consecutive_failures``,
            ``max_open_files``.

    Raises:
        InvalidArgumentError: if there are no files or an argument is invalid.

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
            sampler = partial(audio_clips_at_random_timestamps, seconds_per_clip=seconds_per_clip)
        form = {"sample_rate": sample_rate, "num_channels": num_channels, "downmix": downmix}
        options = form | options_dict("decoder_options", decoder_options, AudioDecoder)
        recipe = AudioRecipe(sampler, keep_clip_dimension, transform, options)
        check_rows_differ(rows_per_file, sampler, transform)
        items = as_items(source, kind="audio", label=label, classes=classes)
        self._classes = checked_classes(classes)
        super().__init__(items, recipe, rows_per_file=rows_per_file, **dataset_options)


@dataclass(frozen=True)
class AudioRecipe(Recipe):
    """Opens audio files and reads clips from them, for the dataset `AudioClips`.

    The arguments have the same meaning as in `AudioClips`. ``decoder_options`` can also have ``sample_rate``,
    ``num_channels`` and ``downmix``.
    """

    sampler: Callable[[Any], Sound]
    keep_clip_dimension: bool = False
    transform: Callable[[Any], Sound | Tensor] | None = None
    decoder_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_sampler(self.sampler)
        function("transform", self.transform)
        check_output_format(self.decoder_options.get("sample_rate"), self.decoder_options.get("num_channels"))
        check_downmix(self.decoder_options.get("downmix", "sum"))

    def open(self, item: Item) -> AudioDecoder:
        return AudioDecoder(item.source, **self.decoder_options)

    @uses_row_random
    def read(self, opened: AudioDecoder, item: Item, part: int) -> Sample:
        with stages.DECODE:
            clips = call_sampler(self.sampler, opened, item)
        if isinstance(clips, AudioSamples):
            return Sample(**sound_fields(self.transform, clips))
        if not isinstance(clips, AudioSamplesBatch):
            raise misuse(f"The sampler must return an AudioSamplesBatch or AudioSamples (got {type(clips).__name__}).")
        if self.keep_clip_dimension:
            return Sample(**sound_fields(self.transform, clips))
        check_is_one(len(clips))
        return Sample(**sound_fields(self.transform, clips[0], int(clips.num_valid_samples[0])))

    @uses_row_random
    def position(self, opened: AudioDecoder, item: Item, part: int) -> float:
        return position_of(self.sampler, opened, item, part)


# Frames with their audio


class VideoAudioClips(MediaDataset):
    """A dataset of clips of videos, with the audio and captions of the same time range. Each row is a `Sample`.

    By default, a clip starts at a random time. All times at which the whole clip fits into the video are equally
    likely. ``Sample.frames`` and ``Sample.audio`` start together: the audio of a frame starts at sample
    ``(frame.pts_seconds - audio.pts_seconds) * sample_rate``. If the audio of the file starts late, ends early or has
    gaps, the clip has silence there. ``Sample.extra["silent_spans"]`` lists these silent ranges, as pairs (index of the
    first sample, one past the index of the last). ``Sample.sample_mask`` and ``Batch.sample_mask`` are false for
    samples in these ranges.

    If the argument ``captions`` is given, ``Sample.captions`` has a `ClipCaption` for each caption of the clip: its
    text, its times, and its ranges of frames and audio samples within the clip. A clip without captions has an empty
    tuple.

    Args:
        source: Paths, a folder, a manifest, or rows of a Hugging Face dataset; see `as_items`.
        sampler: Function that takes an `AudioVideoDecoder` and returns an `AudioVideoClip`, or a list of clips that
            have the same shape. The default returns clips of ``seconds_per_clip`` at random times.
        seconds_per_clip: Length of a clip in seconds, for the default sampler.
        fps: Frames per second, for the default sampler. Every clip then has ``seconds_per_clip * fps`` frames
            (rounded), at intervals of 1 / fps seconds. With ``None``, a clip has all frames of the file in its time
            range, so clips can differ in their number of frames.
        num_clips: Number of clips in a sample, for the default sampler. If it is greater than 1,
            ``keep_clip_dimension`` must be ``True``.
        policy: What the default sampler does with a video that is shorter than a clip. ``"pad"`` repeats the last frame
            (if ``fps`` is given) and adds silence. ``"error"`` raises an error.
        sample_rate: Sample rate of the audio in Hz; ``None`` keeps the sample rate of each file.
        num_channels: Number of channels of the audio; ``None`` keeps the channels of each file.
        downmix: How to mix to fewer channels: ``"sum"`` or ``"mean"``; see `AudioClips`.
        keep_clip_dimension: If ``False``, the sampler must return one clip, and a sample has frames (T, C, H, W) and
            `AudioSamples`. If ``True``, frames are (clips, T, C, H, W) and the audio is an `AudioSamplesBatch`.
        transform: Function that takes the `FrameBatch` of a sample, and returns a new `FrameBatch`, or a tensor that
            replaces ``data``; see `VideoClips`.
        audio_transform: Function that takes the audio of a sample and returns new audio, or a tensor of samples or
            features; see ``transform`` of `AudioClips`.
        captions: Where to find captions. With ``None``, the default, samples have no captions. Other values:

            * ``"subtitles"``: a text stream in the file;
            * ``"sidecar"``: a subtitle file with the same name next to the file (``talk.srt``, ``talk.en.vtt``), or in
              the same sample of a tar shard;
            * ``"column"``: the row's column ``captions``. It has the path or the text of a subtitle file, a series of
              mappings with ``start``, ``end`` and ``text`` (or the same as JSON), or a `VideoReading` or the path of a
              saved `VideoReading`;
            * ``"any"``: the first of ``"column"``, ``"sidecar"`` and ``"subtitles"`` that exists;
            * a function that takes an `Item` and returns a `SubtitleDecoder`, or any value that the column ``captions``
              accepts.
        captions_language: Preferred language of captions, or several languages in order of preference: ``("en",
            "eng")``. Use the same codes as the names of subtitle files and the language tags of streams. Captions
            without a language are used only if there are none in a preferred language.
        tokenizer: Function that takes a text, and returns its token ids or a mapping with the token ids as
            ``"input_ids"``. Captions then have ``token_ids``, and batches have ``caption_ids`` and ``caption_mask``.
        missing: What to do with a file that has no decodable audio, or no captions in the place that ``captions``
            names. ``"error"`` raises `StreamError`, which ``on_error`` of `MediaDataset` handles. ``"pad"`` uses
            silence in place of the audio, and leaves the captions empty. ``"skip"`` leaves out the rows of the file,
            whatever ``on_error`` is. ``"pad"`` needs ``sample_rate``. If ``num_channels`` is ``None``, the silence has
            one channel.
        label: Function that returns the label of an `Item`; by default ``Item.label``.
        classes: Class names in the order of their numbers; see `VideoClips`.
        rows_per_file: Number of rows of each file in an epoch; see `VideoClips`.
        decoder_options: Further arguments of `AudioVideoDecoder`: ``transforms`` of frames (random transforms draw new
            values for each row), ``video_stream_index``, ``audio_stream_index``, ``seek_mode``, ``device`` of the
            frames (see `VideoClips`) ...
        dataset_options: Arguments of `MediaDataset`: ``seed``, ``on_error``, ``max_consecutive_failures``,
            ``max_open_files``.

    Raises:
        InvalidArgumentError: if there are no files or an argument is invalid.

    Example:
        >>> from mediatensor.datasets import VideoAudioClips
        >>> dataset = VideoAudioClips(
        ...     ["video.mp4"], seconds_per_clip=2.0, fps=8, sample_rate=16_000, num_channels=1
        ... )
        >>> dataset[0].frames.data.shape, dataset[0].audio.data.shape
        (torch.Size([16, 3, 360, 640]), torch.Size([1, 32000]))
        >>> row = {"path": "video.mp4", "captions": [{"start": 0.0, "end": 10.0, "text": "The bar moves."}]}
        >>> dataset = VideoAudioClips([row], seconds_per_clip=2.0, fps=8, sample_rate=16_000, captions="column")
        >>> caption = dataset[0].captions[0]
        >>> caption.text, caption.first_frame, caption.last_frame, caption.start_sample, caption.stop_sample
        ('The bar moves.', 0, 15, 0, 32000)
    """

    def __init__(
        self,
        source: Any,
        sampler: Callable[[Any], Clips] | None = None,
        *,
        seconds_per_clip: float = 2.0,
        fps: float | None = None,
        num_clips: int = 1,
        policy: ClipPolicy = "pad",
        sample_rate: int | None = None,
        num_channels: int | None = None,
        downmix: Downmix = "sum",
        keep_clip_dimension: bool = False,
        transform: Callable[[FrameBatch], FrameBatch | Tensor] | None = None,
        audio_transform: Callable[[Any], AudioSamples | AudioSamplesBatch | Tensor] | None = None,
        captions: CaptionPlace | Callable[[Item], Any] | None = None,
        captions_language: str | Sequence[str] | None = None,
        tokenizer: Tokenizer | None = None,
        missing: MissingPolicy = "error",
        label: Callable[[Item], Any] | None = None,
        classes: Sequence[str] | None = None,
        rows_per_file: int = 1,
        decoder_options: Mapping[str, Any] | None = None,
        **dataset_options: Any,
    ) -> None:
        check_dataset_options(self, dataset_options)
        if sampler is None:
            sampler = partial(
                audio_video_clips_at_random_timestamps,
                seconds_per_clip=seconds_per_clip,
                fps=fps,
                num_clips=num_clips,
                policy=policy,
            )
        form = {"sample_rate": sample_rate, "num_channels": num_channels, "downmix": downmix}
        options = form | options_dict("decoder_options", decoder_options, AudioVideoDecoder, VideoDecoder)
        recipe = VideoAudioRecipe(
            sampler, keep_clip_dimension, transform, audio_transform, options, captions, captions_language, tokenizer,
            missing,
        )  # fmt: skip
        check_rows_differ(rows_per_file, sampler, transform, audio_transform, options.get("transforms"))
        items = as_items(source, kind="video", label=label, classes=classes)
        self._classes = checked_classes(classes)
        super().__init__(items, recipe, rows_per_file=rows_per_file, **dataset_options)


@dataclass(frozen=True)
class VideoAudioRecipe(Recipe):
    """Opens videos and reads clips with audio and captions, for the dataset `VideoAudioClips`.

    The arguments have the same meaning as in `VideoAudioClips`. ``decoder_options`` can also have ``sample_rate``,
    ``num_channels`` and ``downmix``.
    """

    sampler: Callable[[Any], Clips]
    keep_clip_dimension: bool = False
    transform: Callable[[FrameBatch], FrameBatch | Tensor] | None = None
    audio_transform: Callable[[Any], AudioSamples | AudioSamplesBatch | Tensor] | None = None
    decoder_options: dict[str, Any] = field(default_factory=dict)
    captions: CaptionPlace | Callable[[Item], Any] | None = None
    captions_language: str | Sequence[str] | None = None
    tokenizer: Tokenizer | None = None
    missing: MissingPolicy = "error"

    def __post_init__(self) -> None:
        check_sampler(self.sampler)
        function("transform", self.transform)
        function("audio_transform", self.audio_transform)
        function("tokenizer", self.tokenizer)
        check_output_format(self.decoder_options.get("sample_rate"), self.decoder_options.get("num_channels"))
        check_downmix(self.decoder_options.get("downmix", "sum"))
        check_decoder_transforms(self.decoder_options.get("transforms"))
        check_caption_places(self.captions, self.captions_language)
        check_choice("missing", self.missing, get_args(MissingPolicy))
        if self.missing == "pad" and self.decoder_options.get("sample_rate") is None:
            raise InvalidArgumentError(
                "missing='pad' needs sample_rate, because silence has no sample rate of its own."
            )
        if self.captions is not None:
            object.__setattr__(self, "used_columns", frozenset((CAPTIONS_COLUMN,)))

    def open(self, item: Item) -> _OpenVideo:
        opened = _OpenVideo(item.source, self.missing, {**self.decoder_options, "transforms": None})
        return ready_for_rows(opened, self.decoder_options)

    @uses_row_random
    def read(self, opened: _OpenVideo, item: Item, part: int) -> Sample:
        with stages.OPEN:
            track = self._captions_of(opened, item)  # before decoding, because the row may be left out
        with stages.DECODE:
            redraw_transforms(opened.video, self.decoder_options)
            clips = _check_clips(call_sampler(self.sampler, opened, item))
        if opened.is_mute:
            clips = [replace(clip, silent_spans=((0, clip.samples.data.shape[1]),)) for clip in clips]
        if self.keep_clip_dimension:
            frames = _stack_frames(clips)
            fields = sound_fields(self.audio_transform, _stack_sound(clips))
        else:
            check_is_one(len(clips))
            frames = clips[0].frames
            fields = sound_fields(self.audio_transform, clips[0].samples, _num_valid_samples(clips[0]))
        transformed, sound = apply_frames_transform(self.transform, frames), fields.get("audio")
        silent_spans: Any = [_rescale_silent_spans(clip, sound) for clip in clips]
        captions: Any = None
        if track is not None:
            times = transformed.pts_seconds.reshape(len(clips), -1)
            with errors_as_misuse():
                captions = tuple(
                    add_token_ids(track.of_clip(clip_times, clip.samples, sound, item.end_seconds), self.tokenizer)
                    for clip_times, clip in zip(times, clips, strict=True)
                )
        if not self.keep_clip_dimension:
            silent_spans, captions = silent_spans[0], None if captions is None else captions[0]
        return Sample(
            frames=transformed,
            frame_indices=access_to(opened.video).frame_indices_of(frames),
            effective_fps=effective_fps(frames),
            captions=captions,
            extra={SILENT_SPANS: silent_spans, **box_column(opened.video), **fields.pop("extra", {})},
            **fields,
        )

    def _captions_of(self, opened: _OpenVideo, item: Item) -> CaptionTrack | None:
        """Return the captions of an item, which ``opened`` keeps for the next clip; ``None`` if none were requested."""
        if self.captions is None:
            return None
        if opened.captions is None or opened.captions[0] is not item:
            try:
                captions = find_captions(item, self.captions, self.captions_language)
            except StreamError as error:
                if self.missing == "skip":
                    raise LeftOut(error) from None
                if self.missing == "error":
                    raise
                captions = ()
            opened.captions = (item, CaptionTrack(captions))
        return opened.captions[1]

    @uses_row_random
    def position(self, opened: _OpenVideo, item: Item, part: int) -> float:
        redraw_transforms(opened.video, self.decoder_options)
        return position_of(self.sampler, opened, item, part)


class _OpenVideo(AudioVideoDecoder):
    """An open video with its audio, which is silence if the file has none and ``missing`` is ``"pad"``."""

    def __init__(self, source: Any, missing: MissingPolicy, options: Mapping[str, Any]) -> None:
        self._missing = missing
        self.is_mute = False
        self.captions: tuple[Item, CaptionTrack] | None = None
        super().__init__(source, **options)

    def _open_audio(self, **options: Any) -> AudioDecoder:
        try:
            audio = super()._open_audio(**options)
            if self._missing == "error":
                return audio
            try:
                sample_grid(audio)  # the stream may be empty
            except BaseException:
                audio.close()
                raise
            return audio
        except StreamError as error:
            if self._missing == "error":
                raise
            if self._missing == "skip":
                raise LeftOut(error) from None
        self.is_mute = True
        # A file of one silent sample stands for the missing audio.
        silence = wav_file(torch.zeros(options["num_channels"] or 1, 1), options["sample_rate"])
        return AudioDecoder(silence, num_ffmpeg_threads=options["num_ffmpeg_threads"])


def _rescale_silent_spans(clip: AudioVideoClip, sound: Sound | None) -> tuple[tuple[int, int], ...]:
    before = clip.samples.sample_rate
    if sound is None or sound.sample_rate == before:
        return clip.silent_spans
    spans = [[math.ceil(place * sound.sample_rate / before) for place in span] for span in clip.silent_spans]
    length = sound.data.shape[-1]
    return tuple((min(first, length), min(last, length)) for first, last in spans)


def _check_clips(given: Any) -> list[AudioVideoClip]:
    clips = [given] if isinstance(given, AudioVideoClip) else given
    if not isinstance(clips, list | tuple) or not all(isinstance(clip, AudioVideoClip) for clip in clips) or not clips:
        raise misuse(
            f"The sampler must return an AudioVideoClip or a list of them, at least one (got {type(given).__name__})."
        )
    return list(clips)


def _num_valid_samples(clip: AudioVideoClip) -> int:
    """Return the number of samples up to the end of the file's audio. Later samples of the clip are silence."""
    length = clip.samples.data.shape[1]
    if clip.silent_spans and clip.silent_spans[-1][1] >= length:
        return clip.silent_spans[-1][0]
    return length


def _stack_frames(clips: Sequence[AudioVideoClip]) -> FrameBatch:
    batches = [clip.frames for clip in clips]
    shapes = {tuple(batch.data.shape) for batch in batches}
    if len(shapes) > 1:
        raise InvalidArgumentError(
            f"The sampler returned clips whose frames have different shapes, {sorted(shapes)}. Pass fps, so that all "
            "clips have the same number of frames."
        )
    return FrameBatch(
        torch.stack([batch.data for batch in batches]),
        torch.stack([batch.pts_seconds for batch in batches]),
        torch.stack([batch.duration_seconds for batch in batches]),
        replaced=tuple(
            replace(report, position=number * len(batch) + report.position)
            for number, batch in enumerate(batches)
            for report in batch.replaced
        ),
        is_damaged=torch.stack([batch.is_damaged for batch in batches]),
    )


def _stack_sound(clips: Sequence[AudioVideoClip]) -> AudioSamplesBatch:
    sounds = [clip.samples for clip in clips]
    forms = {(sound.sample_rate, *sound.data.shape) for sound in sounds}
    if len(forms) > 1:
        raise InvalidArgumentError(
            f"The sampler returned clips whose audio differs in rate, channels or length: {sorted(forms)}."
        )
    return AudioSamplesBatch(
        torch.stack([sound.data for sound in sounds]),
        torch.tensor([sound.pts_seconds for sound in sounds], dtype=torch.float64),
        torch.tensor([sound.duration_seconds for sound in sounds], dtype=torch.float64),
        sounds[0].sample_rate,
        torch.tensor([_num_valid_samples(clip) for clip in clips]),
    )
