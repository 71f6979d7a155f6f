"""Captions: find the captions that belong to a file, and select the captions of a clip."""

from __future__ import annotations

import codecs
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from torch import Tensor

from ..._engine.common.checks import finite_number, fits_int64, function, is_integer, items_of, shown
from ..._engine.common.messages import seconds_from_text
from ..._engine.metadata import SubtitleStreamHeaderMetadata
from ..._engine.sources.source import url_scheme
from ...decoders import SubtitleDecoder, get_container_metadata
from ...errors import InvalidArgumentError, MediaTensorError, ReadError, StreamError
from ...frames import AudioSamples, AudioSamplesBatch
from ...samplers._random import global_random
from .._sources import manifests
from .._sources.items import Item
from .._sources.tables import CAPTIONS_COLUMN, is_empty_cell, sidecars_of

Sound: TypeAlias = AudioSamples | AudioSamplesBatch
Box: TypeAlias = tuple[tuple[float, float], tuple[float, float]]
CaptionPlace: TypeAlias = Literal["any", "column", "sidecar", "subtitles"]
#: Function that returns the token ids of a text, or a mapping that has them as ``input_ids``.
Tokenizer: TypeAlias = Callable[[str], Any]

#: The order in which ``"any"`` tries the places. Captions supplied with a file take precedence over its own subtitles.
_ANY: tuple[CaptionPlace, ...] = ("column", "sidecar", "subtitles")

#: Extensions of formats in which the first frame may have any time. Players count subtitle times from the first frame.
_MPEG_EXTENSIONS = frozenset((".m2p", ".m2t", ".m2ts", ".mpeg", ".mpg", ".mts", ".tp", ".trp", ".ts", ".vob"))
_MPEG_FORMATS = frozenset(("mpeg", "mpegts"))
#: Maximum duration of the priming samples that an encoder puts before audio.
_MAX_PRIMING_SECONDS = 0.1

#: Subtitle files round times, often to milliseconds. A frame that starts up to this much before a time counts as after.
_ROUNDING_SECONDS = 0.0005

#: Larger subtitle files are not blank.
_MAX_BLANK_BYTES = 64

# Patterns that SubRip, WebVTT or ASS text contains.
_SUBTITLES = re.compile(r"-->|^\ufeff?\s*(WEBVTT\b|\[Script Info\])")
# Accepted keys of a mapping for each field.
_FIELD_NAMES = {
    "start_seconds": ("start_seconds", "start", "begin"),
    "end_seconds": ("end_seconds", "end"),
    "text": ("text",),
}


class FileCaption(NamedTuple):
    """A caption of a media file, with times that are comparable with the file's time stamps.

    ``geometry`` is the box of the text if OCR read the caption in the frames.
    """

    text: str
    start_seconds: float
    end_seconds: float
    speaker: str | None = None
    geometry: Box | None = None


@dataclass(frozen=True)
class ClipCaption:
    """A caption, cut to the time range of a clip. ``Sample.captions`` of `VideoAudioClips` is a tuple of these objects.

    Attributes:
        text: The whole text, even if the clip contains only part of the caption.
        start_seconds: Start of the caption or of the clip, whichever is later, in seconds. It is a time in the file,
            comparable with ``pts_seconds`` of frames and audio.
        end_seconds: End of the caption or of the clip, whichever is earlier, in seconds.
        first_frame: Index in the clip of the first frame that begins during the caption. If none does, it is
            the index of the frame that is shown when the caption starts.
        last_frame: Index in the clip of the last frame that begins during the caption. If none does, it equals
            ``first_frame``.
        start_sample: Index in the clip of the caption's first audio sample; the audio of the caption is
            ``sample.audio.data[:, start_sample:stop_sample]``.
        stop_sample: One past the index of the caption's last audio sample.
        is_cut: Whether the caption begins before the clip or ends after it.
        speaker: Name of the speaker; ``None`` if the captions do not state it.
        geometry: Box ((xmin, ymin), (xmax, ymax)) of the text, if it was read in the frames by OCR. Coordinates are
            fractions of the width and height of the upright frame. ``None`` for captions from other sources.
        token_ids: Tuple of the token ids of the text; ``None`` if the dataset has no ``tokenizer``.

    Example:
        >>> from mediatensor.datasets import ClipCaption
        >>> caption = ClipCaption("A beep.", 1.0, 1.5, 8, 11, 16_000, 24_000)
        >>> caption.stop_sample - caption.start_sample
        8000
    """

    text: str
    start_seconds: float
    end_seconds: float
    first_frame: int
    last_frame: int
    start_sample: int
    stop_sample: int
    is_cut: bool = False
    speaker: str | None = None
    geometry: Box | None = None
    token_ids: tuple[int, ...] | None = None


class CaptionTrack:
    """The captions of a file, sorted by start."""

    def __init__(self, captions: Iterable[FileCaption]) -> None:
        self._captions = sorted(captions, key=lambda caption: caption.start_seconds)
        self._starts = np.array([caption.start_seconds for caption in self._captions], np.float64)
        self._ends = np.array([caption.end_seconds for caption in self._captions], np.float64)

    def of_clip(
        self, pts_seconds: Tensor, clip: AudioSamples, sound: Sound | None, end_seconds: float | None
    ) -> tuple[ClipCaption, ...]:
        """Return the captions of a clip, cut to the time range of the clip.

        ``pts_seconds`` are the times of the clip's frames, (T,). ``clip``, the audio before transforms, determines the
        time range. Sample indices in the results refer to ``sound``, the audio after transforms. Frames and samples
        after ``end_seconds`` are padding.
        """
        sound = clip if sound is None else sound
        begin, length = clip.pts_seconds, sound.data.shape[-1]
        end = begin + clip.data.shape[-1] / clip.sample_rate
        if end_seconds is not None:
            end = min(end, end_seconds)
        times = _begin_times(pts_seconds.cpu().numpy())
        captions = []
        for number in np.flatnonzero((self._starts < end) & (self._ends > begin)).tolist():
            caption = self._captions[number]
            start, stop = max(caption.start_seconds, begin), min(caption.end_seconds, end)
            first_frame, last_frame = _frames_between(times, caption.start_seconds, caption.end_seconds)
            start_sample, stop_sample = (
                min(length, math.floor((seconds - begin) * sound.sample_rate + 0.5)) for seconds in (start, stop)
            )
            captions.append(
                ClipCaption(
                    caption.text, start, stop, first_frame, last_frame, start_sample, stop_sample,
                    is_cut=caption.start_seconds < begin or caption.end_seconds > end,
                    speaker=caption.speaker, geometry=caption.geometry,
                )
            )  # fmt: skip
        return tuple(captions)


def _begin_times(times: Any) -> Any:
    """Return the start times of a clip's frames.

    If the last frame is repeated as padding, each repetition gets a later time.

    >>> _begin_times(np.array([0.0, 0.5, 1.0, 1.0, 1.0])).tolist()
    [0.0, 0.5, 1.0, 1.5, 2.0]
    """
    (steps,) = np.nonzero(np.diff(times))
    if not len(steps) or steps[-1] == len(times) - 2:
        return times
    last = int(steps[-1]) + 1
    step = times[last] - times[last - 1]
    return np.concatenate([times[:last], times[last] + step * np.arange(len(times) - last)])


def _frames_between(times: Any, start: float, end: float) -> tuple[int, int]:
    """Return the indices of the first and the last frame that begin in [start, end).

    If no frame begins there, both are the index of the frame that is shown at ``start``.

    >>> _frames_between(np.array([0.0, 0.1, 0.2, 0.3]), 0.1, 0.3), _frames_between(np.array([0.0, 0.1]), 0.04, 0.06)
    ((1, 2), (0, 0))
    """
    (within,) = np.nonzero((times >= start - _ROUNDING_SECONDS) & (times < end - _ROUNDING_SECONDS))
    if len(within):
        return int(within[0]), int(within[-1])
    (before,) = np.nonzero(times <= start)
    frame_at_start = int(before[-1]) if len(before) else 0
    return frame_at_start, frame_at_start


def add_token_ids(captions: tuple[ClipCaption, ...], tokenizer: Tokenizer | None) -> tuple[ClipCaption, ...]:
    if tokenizer is None:
        return captions
    with global_random():
        return tuple(replace(caption, token_ids=_token_ids(tokenizer(caption.text))) for caption in captions)


def _token_ids(given: Any) -> tuple[int, ...]:
    ids = given["input_ids"] if isinstance(given, Mapping) and "input_ids" in given else given
    if isinstance(ids, Tensor | np.ndarray):
        ids = ids.tolist()
    is_list = isinstance(ids, Sequence) and not isinstance(ids, str)
    if is_list and all(is_integer(value) and fits_int64(value) for value in ids):
        return tuple(map(int, ids))
    raise InvalidArgumentError(
        "The tokenizer must return a list of token ids, or a mapping with this list as 'input_ids' "
        f"(got {shown(given)})."
    )


# Places of captions


def check_caption_places(captions: Any, captions_language: Any) -> None:
    if isinstance(captions, str):
        if captions not in get_args(CaptionPlace):
            raise InvalidArgumentError(
                f"captions must be one of {', '.join(get_args(CaptionPlace))}, or a function of an Item "
                f"(got {captions!r})."
            )
    else:
        function("captions", captions)
    for language in _languages(captions_language):
        if not isinstance(language, str) or not language:
            raise InvalidArgumentError(
                f"captions_language must be a code such as 'en', or a list (got {shown(captions_language)})."
            )


def _languages(captions_language: str | Sequence[str] | None) -> list[str]:
    if captions_language is None or isinstance(captions_language, str):
        return [] if captions_language is None else [captions_language]
    return items_of("captions_language", captions_language, of="str")


def find_captions(
    item: Item, captions: CaptionPlace | Callable[[Item], Any], captions_language: str | Sequence[str] | None
) -> tuple[FileCaption, ...]:
    """Find the captions of a file, and return them in the order in which they are stored.

    Captions without text, and captions whose duration is not positive, are left out.

    Raises:
        StreamError: if there are no captions in the place that ``captions`` names.
        ReadError: if the captions cannot be read or understood.
    """
    try:
        if isinstance(captions, str):
            reasons = []
            for place in _ANY if captions == "any" else (captions,):
                found = _FINDERS[place](item, _languages(captions_language))
                if not isinstance(found, str):
                    return found
                reasons.append(found)
            raise StreamError(f"{item.name!r} has no captions: {'; '.join(reasons)}.")
        with global_random():
            given = captions(item)
        if given is None:
            raise StreamError(f"{item.name!r} has no captions: the function passed as captions returned None.")
        return read_captions(given, item)
    except StreamError:
        raise
    except (MediaTensorError, OSError) as error:
        raise ReadError(f"The captions of {item.name!r} cannot be read: {error}") from error


#: The captions of a file; a text with the reason if it has none.
_CaptionsOrReason: TypeAlias = tuple[FileCaption, ...] | str


def _find_in_column(item: Item, languages: Sequence[str]) -> _CaptionsOrReason:
    value = item.extra.get(CAPTIONS_COLUMN)
    if is_empty_cell(value):
        return f"the column {CAPTIONS_COLUMN!r} is empty"
    return read_captions(value, item)


def _find_in_sidecar(item: Item, languages: Sequence[str]) -> _CaptionsOrReason:
    sidecars = sidecars_of(item)
    if not sidecars and isinstance(item.source, str) and url_scheme(item.source) is not None:
        return (
            f"no subtitle files are searched for next to a URL (put the URL of one into the column {CAPTIONS_COLUMN!r})"
        )
    # The suffix is "srt", or has a language before it: "en.srt".
    suffix = _choose_by_language([(one, one.rpartition(".")[0].partition(".")[0]) for one in sidecars], languages)
    if suffix is None:
        return _add_languages("there is no subtitle file next to it", languages if sidecars else ())
    return _read_subtitles(sidecars[suffix], item)


def _find_in_streams(item: Item, languages: Sequence[str]) -> _CaptionsOrReason:
    metadata = get_container_metadata(item.source)
    streams = [
        (stream.stream_index, stream.language or "")
        for stream in metadata.streams
        if isinstance(stream, SubtitleStreamHeaderMetadata) and stream.is_text
    ]
    best = metadata.best_subtitle_stream_index
    streams.sort(key=lambda stream: stream[0] != best)
    stream_index = _choose_by_language(streams, languages)
    if stream_index is None:
        return _add_languages("it has no text subtitle stream", languages if streams else ())
    with SubtitleDecoder(item.source, stream_index=stream_index) as decoder:
        return _check_captions(decoder, 0.0)


_FINDERS: Mapping[str, Callable[[Item, Sequence[str]], _CaptionsOrReason]] = {
    "column": _find_in_column,
    "sidecar": _find_in_sidecar,
    "subtitles": _find_in_streams,
}


def _add_languages(reason: str, languages: Sequence[str]) -> str:
    return f"{reason} in {' or '.join(languages)}" if languages else reason


def _choose_by_language(choices: Sequence[tuple[Any, str]], languages: Sequence[str]) -> Any:
    """Return the value whose language comes first in ``languages``; of several such values, return the first.

    If there is no such value, return the first value without a language, or ``None`` if every value has a language.

    >>> _choose_by_language([("a", "de"), ("b", "en-GB"), ("c", "")], ["fr", "en"])
    'b'
    """
    if not languages:
        return choices[0][0] if choices else None
    for language in (language.lower().replace("_", "-") for language in languages):
        for choice, tag in choices:
            if f"{tag.lower().replace('_', '-')}-".startswith(f"{language}-"):
                return choice
    return next((choice for choice, tag in choices if not tag), None)


# Forms of captions


def read_captions(given: Any, item: Item) -> tuple[FileCaption, ...]:
    if isinstance(given, str) and (given.lstrip()[:1] in ("[", "{") or "\n" in given or "-->" in given):
        if not _SUBTITLES.search(given):
            try:
                series = json.loads(given)
            except (ValueError, RecursionError) as error:
                raise InvalidArgumentError(
                    "captions given as text must have the format of a subtitle file, or be JSON (got "
                    f"{shown(given)}: {error})."
                ) from None
            return _check_captions(_as_series(series), 0.0)
        given = given.encode("utf-8", "surrogatepass")  # invalid text stays invalid
    if isinstance(given, bytes | bytearray | memoryview):
        return _read_subtitles(bytes(given), item)
    if isinstance(given, str | os.PathLike):
        if os.fspath(given).lower().endswith(".json"):
            return _check_captions(_read_json(Path(given)), 0.0)
        return _read_subtitles(given, item)
    return _check_captions(_as_series(given), 0.0)


def _read_subtitles(source: Any, item: Item) -> tuple[FileCaption, ...]:
    """Read the captions in a subtitle file, and convert their times to time stamps of the video."""
    if isinstance(source, str) and url_scheme(source) is None:
        source = Path(source)
    if _is_blank(source):
        return ()
    with SubtitleDecoder(source) as decoder:
        subtitles = list(decoder)
    return _check_captions(subtitles, _begin_of_clock(item))


def _is_blank(source: Any) -> bool:
    """Return whether a subtitle file is blank. FFmpeg would not recognise a blank file as subtitles."""
    if isinstance(source, Path) and source.is_file() and source.stat().st_size <= _MAX_BLANK_BYTES:
        source = source.read_bytes()
    return isinstance(source, bytes) and not source.removeprefix(codecs.BOM_UTF8).strip()


def _begin_of_clock(item: Item) -> float:
    """Return the time stamp in a video that corresponds to time 0 in its subtitles.

    In MPEG formats, where time stamps can start at any value, this is the time of the first frame or audio sample.
    """
    if isinstance(item.source, str | os.PathLike):
        extension = os.path.splitext(item.source)[1]
        if str(extension).lower() not in _MPEG_EXTENSIONS:
            return 0.0
    metadata = get_container_metadata(item.source)
    if metadata.format_name not in _MPEG_FORMATS:
        return 0.0
    begins = {"video": math.inf, "audio": math.inf}
    for stream in metadata.streams:
        begin = stream.begin_stream_seconds_from_header
        if begin is not None and stream.media_type in begins:
            begins[stream.media_type] = min(begins[stream.media_type], begin)
    first = min(begins.values())
    if begins["video"] - first < _MAX_PRIMING_SECONDS:
        return begins["video"]
    return first if math.isfinite(first) else 0.0


def _read_json(path: Path) -> Any:
    size = path.stat().st_size
    if size > manifests.MAX_JSON_BYTES:
        raise ReadError(f"{path} has {size} bytes, more than the limit of {manifests.MAX_JSON_BYTES}.")
    try:
        return _as_series(json.loads(path.read_bytes()))
    except (ValueError, RecursionError) as error:
        raise ReadError(f"{path} is not JSON: {error}") from error


def _as_series(given: Any) -> Iterable[Any]:
    given = getattr(given, "captions", given)  # a VideoReading
    if isinstance(given, Mapping) and isinstance(given.get("tracks"), list):  # a saved VideoReading
        given = [track for track in given["tracks"] if not isinstance(track, Mapping) or track.get("kind") == "caption"]
    if isinstance(given, Mapping) and isinstance(given.get("segments"), list):  # a Whisper result
        given = given["segments"]
    if isinstance(given, Mapping):  # columns of structs, as in Hugging Face datasets
        columns = {name: values for name, values in given.items() if isinstance(values, Sequence | np.ndarray)}
        if len({len(values) for values in columns.values()}) == 1 and len(columns) == len(given):
            given = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping):
        raise InvalidArgumentError(
            "captions must be a VideoReading, a path, the text of a subtitle file, or a series of captions "
            f"(got {shown(given)})."
        )
    return given


def _check_captions(series: Iterable[Any], begin_seconds: float) -> tuple[FileCaption, ...]:
    """Return the captions that have text and a positive duration, with ``begin_seconds`` added to their times."""
    captions = []
    for one in series:
        text, start, end = (_value(one, name) for name in ("text", "start_seconds", "end_seconds"))
        if not isinstance(text, str):
            raise InvalidArgumentError(f"The text of a caption must be a str (got {shown(text)}).")
        start, end = _seconds("start_seconds", start), _seconds("end_seconds", end)
        if start < end and text.strip():
            speaker, geometry = (_value(one, name, None) for name in ("speaker", "geometry"))
            captions.append(FileCaption(text, start + begin_seconds, end + begin_seconds, speaker, geometry))
    return tuple(captions)


_REQUIRED = object()


def _value(caption: Any, name: str, default: Any = _REQUIRED) -> Any:
    if isinstance(caption, Mapping):
        value = next((caption[key] for key in _FIELD_NAMES.get(name, (name,)) if key in caption), default)
    else:
        value = getattr(caption, name, default)
    if value is _REQUIRED:
        raise InvalidArgumentError(
            "A caption must have the attributes text, start_seconds and end_seconds, or be a mapping with text, start "
            f"and end (got {shown(caption)})."
        )
    return value


def _seconds(name: str, value: Any) -> float:
    if isinstance(value, str):
        try:
            return seconds_from_text(value)
        except ValueError:
            pass
    return finite_number(name, value)
