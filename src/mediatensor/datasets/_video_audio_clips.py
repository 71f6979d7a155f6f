"""`VideoAudioClips`: clips of videos with their sound and their captions."""

from __future__ import annotations

import io
import math
import wave
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from .._engine.audio.plan import check_downmix, check_output_format
from .._engine.audio.sample_grid import sample_grid
from .._engine.common import stages
from .._engine.common.checks import check_choice, function, options_dict
from .._engine.pyav.audio import Downmix
from ..decoders import AudioDecoder, AudioVideoDecoder, VideoDecoder
from ..errors import InvalidArgumentError, StreamError
from ..frames import AudioSamples, AudioSamplesBatch, AudioVideoClip, FrameBatch
from ..samplers import ClipPolicy, audio_video_clips_at_random_timestamps, check_audio_video_clips
from ._rows.captions import CaptionPlace, CaptionTrack, Tokenizer, check_caption_places, find_captions, with_token_ids
from ._rows.clips import (
    Sound,
    apply_frames_transform,
    check_is_one,
    check_rows_differ,
    effective_fps,
    first_request,
    ready_for_rows,
    sound_fields,
)
from ._rows.dataset import MediaDataset, check_dataset_options
from ._rows.recipe import LeftOut, Recipe
from ._rows.samples import SILENT_SPANS, Sample
from ._rows.segments import segment_of
from ._sources.dispatch import as_items
from ._sources.items import Item, checked_classes
from ._sources.sidecars import CAPTIONS_COLUMN

__all__ = ["VideoAudioClips", "VideoAudioRecipe"]

MissingPolicy: TypeAlias = Literal["error", "pad", "skip"]


Clips = AudioVideoClip | Sequence[AudioVideoClip]


class VideoAudioClips(MediaDataset):
    """Clips of videos with the sound and the captions of the same time, one sample a row.

    By default a clip starts at a random time, uniform over all from which it fits. ``Sample.frames`` and
    ``Sample.audio`` begin together: the sound of a frame begins at sample
    ``(frame.pts_seconds - audio.pts_seconds) * sample_rate``. Where the file has no sound, because its sound begins
    later or ends earlier or has a gap, silence stands in, and ``extra["silent_spans"]`` tells which samples
    [first, last) that are, as ``sample_mask`` does of a sample and of a batch.

    With ``captions``, ``Sample.captions`` has the captions of the clip, each a `ClipCaption` with its text, its times,
    and its place among the frames and the samples of the clip. A clip in which nothing is said has none.

    Args:
        source: The videos: paths, a folder, a manifest, rows of a Hugging Face dataset; see `as_items`.
        sampler: Takes an `AudioVideoDecoder` and gives an `AudioVideoClip`, or several of one shape; by default at
            random times, of ``seconds_per_clip``.
        seconds_per_clip: Length of a clip, for the default sampler.
        fps: Frames per second, for the default sampler: every clip then has ``seconds_per_clip * fps`` frames,
            rounded, at times 1 / fps apart. ``None``: the frames that the file has in that time, of which there may be
            more in one clip than in another.
        num_clips: How many clips a sample has, for the default sampler; more than one needs ``keep_clip_dimension``.
        policy: For the default sampler: what to do with a video that is shorter than a clip. ``"pad"`` repeats the
            last frame (with ``fps``) and fills up with silence, ``"error"`` fails.
        sample_rate: Samples per second of the sound; ``None`` for those of each file.
        num_channels: Channels of the sound; ``None`` for those of each file.
        downmix: ``"sum"`` or ``"mean"``: how to mix to fewer channels, as of `AudioDecoder`.
        keep_clip_dimension: ``False``: the sampler gives one clip, and a sample has frames (T, C, H, W) and
            `AudioSamples`. ``True``: frames are (clips, T, C, H, W) and the sound is an `AudioSamplesBatch`.
        transform: Transforms the frames, as in `VideoClips`.
        audio_transform: Transforms the sound, as ``transform`` does in `AudioClips`; it may give features.
        captions: Where captions are: ``"subtitles"``, a stream of text in the file; ``"sidecar"``, a subtitle file of
            the same name beside it (``talk.srt``, ``talk.en.vtt``), or in the same sample of a tar shard;
            ``"column"``, the column ``captions`` of its row; ``"any"``, the first of column, sidecar and subtitles that
            there is. A column has the path or the text of a subtitle file, a series of mappings with ``start``,
            ``end`` and ``text`` (or JSON of one), a `VideoReading` or the path of one that was saved. A function of
            an `Item` may give the same, or a `SubtitleDecoder`. ``None``: samples have no captions.
        captions_language: Which captions are wanted where there are several: a language as the suffix of a file or
            the tag of a stream has it, or several in the order of preference: ``("en", "eng")``. Those that name no
            language come last.
        tokenizer: Gives the whole numbers of the tokens of a text, or a mapping with ``"input_ids"``. Captions then
            have ``token_ids``, and batches ``caption_ids`` and ``caption_mask``.
        missing: What to do with a file that has no sound that can be decoded, or no captions where they are looked for:
            ``"error"`` raises `StreamError` (for ``on_error``); ``"pad"`` gives silence, and no captions; ``"skip"``
            leaves its rows out, whatever ``on_error`` is. ``"pad"`` needs ``sample_rate``; without ``num_channels``,
            such silence has one channel.
        label: Gives the label of an `Item`; by default its own.
        classes: The names of the classes in the order of their numbers, for labels that are text and for sub-folders,
            such as ``class_names`` of the dataset that a model is trained with. A class that is not among them is an
            error. By default the classes of this source, by name.
        rows_per_file: How many rows each file has in an epoch; each draws its own clip. More than one needs a random
            sampler or a random transform.
        decoder_options: Further arguments of `AudioVideoDecoder`: ``transforms`` of frames (random ones draw anew for
            each row), ``video_stream_index``, ``audio_stream_index``, ``seek_mode``, ``device`` (of the frames; as in
            `VideoClips`) ...
        dataset_options: Arguments of `MediaDataset`: ``seed``, ``on_error``, ``max_consecutive_failures``,
            ``max_open_files``.

    Raises:
        InvalidArgumentError: if there are no files, or an argument is not among the accepted ones.

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
            check_audio_video_clips(seconds_per_clip, fps, num_clips, policy)
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
    """How a clip with sound is made of a video; see `VideoAudioClips`."""

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
        function("sampler", self.sampler)
        function("transform", self.transform)
        function("audio_transform", self.audio_transform)
        function("tokenizer", self.tokenizer)
        check_output_format(self.decoder_options.get("sample_rate"), self.decoder_options.get("num_channels"))
        check_downmix(self.decoder_options.get("downmix", "sum"))
        check_caption_places(self.captions, self.captions_language)
        check_choice("missing", self.missing, get_args(MissingPolicy))
        if self.missing == "pad" and self.decoder_options.get("sample_rate") is None:
            raise InvalidArgumentError("missing='pad' needs sample_rate: silence has no rate of its own.")
        if self.captions is not None:
            object.__setattr__(self, "used_columns", frozenset((CAPTIONS_COLUMN,)))

    def open(self, item: Item) -> _OpenVideo:
        opened = _OpenVideo(item.source, self.missing, {**self.decoder_options, "transforms": None})
        return ready_for_rows(opened, self.decoder_options)

    def read(self, opened: _OpenVideo, item: Item, part: int) -> Sample:
        with stages.OPEN:
            track = self._captions_of(opened, item)  # before decoding, because the row may be left out
        with stages.DECODE:
            opened.video._transform_with(self.decoder_options.get("transforms"))
            clips = _checked(self.sampler(segment_of(opened, item)))
        if opened.is_mute:
            clips = [replace(clip, silent_spans=((0, clip.samples.data.shape[1]),)) for clip in clips]
        if self.keep_clip_dimension:
            frames = _stacked_frames(clips)
            fields = sound_fields(self.audio_transform, _stacked_sound(clips))
        else:
            check_is_one(len(clips))
            frames = clips[0].frames
            fields = sound_fields(self.audio_transform, clips[0].samples, _num_valid_samples(clips[0]))
        transformed, sound = apply_frames_transform(self.transform, frames), fields.get("audio")
        silent_spans: Any = [_spans_within(sound, clip) for clip in clips]
        captions: Any = None
        if track is not None:
            times = transformed.pts_seconds.reshape(len(clips), -1)
            captions = tuple(
                with_token_ids(track.of_clip(own_times, clip.samples, sound, item.end_seconds), self.tokenizer)
                for own_times, clip in zip(times, clips, strict=True)
            )
        if not self.keep_clip_dimension:
            silent_spans, captions = silent_spans[0], None if captions is None else captions[0]
        return Sample(
            frames=transformed,
            frame_indices=opened.video._frames_of(frames),
            effective_fps=effective_fps(frames),
            captions=captions,
            extra={SILENT_SPANS: silent_spans, **fields.pop("extra", {})},
            **fields,
        )

    def _captions_of(self, opened: _OpenVideo, item: Item) -> CaptionTrack | None:
        """The captions of a file, which stay with it for its next row; ``None`` if none are asked for.

        Raises:
            StreamError: if there are none, and that is not padded.
            ReadError: if they cannot be read.
        """
        if self.captions is None:
            return None
        if opened.captions is None or opened.captions[0] is not item:
            try:
                found = find_captions(item, self.captions, self.captions_language)
            except StreamError as error:
                if self.missing == "skip":
                    raise LeftOut(error) from None
                if self.missing == "error":
                    raise
                found = ()
            opened.captions = (item, CaptionTrack(found))
        return opened.captions[1]

    def position(self, opened: _OpenVideo, item: Item, part: int) -> float:
        opened.video._transform_with(self.decoder_options.get("transforms"))
        return first_request(segment_of(opened, item), self.sampler)


class _OpenVideo(AudioVideoDecoder):
    """A video and its sound, which may be missing, and its captions.

    Args:
        source: The file.
        missing: What to do without sound.
        options: Of `AudioVideoDecoder`.

    Attributes:
        is_mute: Whether silence stands in for the sound of the whole file.
        captions: The captions that were read last, and for which row of the file.

    Raises:
        LeftOut: if there is no sound, and such files are skipped.
    """

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
                sample_grid(audio)  # there may be a stream with nothing in it
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
        silence = _silent_wav(options["sample_rate"], options["num_channels"] or 1)
        return AudioDecoder(silence, num_ffmpeg_threads=options["num_ffmpeg_threads"])


def _silent_wav(sample_rate: int, num_channels: int) -> bytes:
    """A WAV file of one silent sample: what `AudioDecoder` can be asked about, wherever there is no sound."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(num_channels)
        writer.setsampwidth(2)
        writer.setframerate(sample_rate)
        writer.writeframes(bytes(2 * num_channels))
    return file.getvalue()


def _spans_within(sound: Sound | None, clip: AudioVideoClip) -> tuple[tuple[int, int], ...]:
    """The silent spans of a clip, among the samples that a transform made of its own."""
    before = clip.samples.sample_rate
    if sound is None or sound.sample_rate == before:
        return clip.silent_spans
    places = [[math.ceil(place * sound.sample_rate / before) for place in span] for span in clip.silent_spans]
    length = sound.data.shape[-1]
    return tuple((min(first, length), min(last, length)) for first, last in places)


def _checked(given: Any) -> list[AudioVideoClip]:
    clips = [given] if isinstance(given, AudioVideoClip) else given
    if not isinstance(clips, list | tuple) or not all(isinstance(clip, AudioVideoClip) for clip in clips) or not clips:
        raise InvalidArgumentError(
            f"The sampler must return an AudioVideoClip or a list of them, at least one (got {type(given).__name__})."
        )
    return list(clips)


def _num_valid_samples(clip: AudioVideoClip) -> int:
    """How many samples there are up to the silence behind the end of the sound."""
    length = clip.samples.data.shape[1]
    if clip.silent_spans and clip.silent_spans[-1][1] >= length:
        return clip.silent_spans[-1][0]
    return length


def _stacked_frames(clips: Sequence[AudioVideoClip]) -> FrameBatch:
    """(clips, T, C, H, W)."""
    batches = [clip.frames for clip in clips]
    shapes = {tuple(batch.data.shape) for batch in batches}
    if len(shapes) > 1:
        raise InvalidArgumentError(
            f"The clips of the sampler have frames of different shapes, {sorted(shapes)}, and cannot lie side by side: "
            "give fps, so that all have the same number of frames."
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


def _stacked_sound(clips: Sequence[AudioVideoClip]) -> AudioSamplesBatch:
    """(clips, channels, samples)."""
    sounds = [clip.samples for clip in clips]
    forms = {(sound.sample_rate, *sound.data.shape) for sound in sounds}
    if len(forms) > 1:
        raise InvalidArgumentError(
            f"The clips of the sampler have sound of different rates, channels or lengths, {sorted(forms)}, and cannot "
            "lie side by side."
        )
    return AudioSamplesBatch(
        torch.stack([sound.data for sound in sounds]),
        torch.tensor([sound.pts_seconds for sound in sounds], dtype=torch.float64),
        torch.tensor([sound.duration_seconds for sound in sounds], dtype=torch.float64),
        sounds[0].sample_rate,
        torch.tensor([_num_valid_samples(clip) for clip in clips]),
    )
