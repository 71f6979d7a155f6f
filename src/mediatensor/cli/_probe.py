"""``mediatensor probe``: describe a file. Values that the header does not state exactly are counted or measured."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from textwrap import wrap

from .._engine.common.messages import clock, counted
from ..decoders import Chapter
from ..decoders._media_info import AudioInfo, FileInfo, StreamSummary, SubtitleInfo, VideoInfo, collect
from . import _text
from ._console import EXIT_ERROR, emit_error, emit_json, emit_lines, file_error, for_each_file, shown_name

# Longer lists are truncated. ``--json`` prints all items.
_NUM_TAGS_SHOWN = 12
_NUM_CHAPTERS_SHOWN = 30
_TAG_LENGTH = 90

# Tags that repeat the name of the container.
_HIDDEN_TAGS = frozenset(("compatible_brands", "major_brand", "minor_version"))


def describe(info: FileInfo) -> list[str]:
    container = [
        info.container or "unknown",
        _text.seconds(info.duration_seconds),
        _text.byte_size(info.file_size_bytes),
    ]
    if info.bit_rate is not None:
        container.append(_text.bit_rate(info.bit_rate))
    lines = [info.file, *_text.columns([("container", ", ".join(container))]), "", "streams"]
    described = [part.stream_index for part in (info.video, info.audio, info.subtitles) if part is not None]
    lines += _text.columns([_stream_row(stream, is_chosen=stream.index in described) for stream in info.streams])
    if info.video is not None:
        lines += ["", f"video stream {info.video.stream_index}", *_text.columns(_video_rows(info.video))]
    elif info.error is None:
        lines += ["", "no video stream"]
    if info.audio is not None:
        lines += ["", f"audio stream {info.audio.stream_index}", *_text.columns(_audio_rows(info.audio))]
    if info.subtitles is not None:
        rows = _subtitle_rows(info.subtitles)
        lines += ["", f"subtitle stream {info.subtitles.stream_index}", *_text.columns(rows)]
    if info.chapters:
        lines += ["", "chapters", *_text.columns(_chapter_rows(info.chapters))]
    tags = _tag_rows(info.tags)
    if tags:
        lines += ["", "tags", *_text.columns(tags)]
    return lines


def _stream_row(stream: StreamSummary, *, is_chosen: bool) -> tuple[str, ...]:
    details = []
    if stream.width and stream.height:
        details.append(f"{stream.width}x{stream.height}")
    if stream.average_fps is not None:
        details.append(f"{_text.decimal(stream.average_fps)} fps")
    if stream.sample_rate is not None:
        details.append(f"{stream.sample_rate} Hz")
    if stream.channel_layout or stream.num_channels is not None:
        details.append(stream.channel_layout or counted(stream.num_channels or 0, "channel"))
    if stream.duration_seconds is not None:
        details.append(_text.seconds(stream.duration_seconds))
    if stream.bit_rate is not None:
        details.append(_text.bit_rate(stream.bit_rate))
    if stream.language:
        details.append(_text.one_line(stream.language))
    title = next((value for name, value in stream.tags.items() if name.lower() == "title"), None)
    if title:
        details.append(f'"{_clean(title)}"')
    details += [name.replace("_", " ") for name in stream.disposition if name not in ("default", "timed_thumbnails")]
    marker = "*" if is_chosen else " "
    return (f"{marker} {stream.index}", stream.media_type, stream.codec or "unknown", ", ".join(details))


def _video_rows(video: VideoInfo) -> list[tuple[str, str]]:
    rows = [
        ("codec", f"{video.codec or 'unknown'}{f' ({video.profile})' if video.profile else ''}"),
        ("size", _size_text(video)),
        ("pixel format", video.pixel_format or "unknown"),
        ("colour", _colour_text(video)),
    ]
    if video.rotation:
        direction = "counter-clockwise" if video.rotation > 0 else "clockwise"
        rows.append(("rotation", f"{_text.decimal(abs(video.rotation))} degrees {direction}"))
    if not video.scanned:
        rows.append(("frames", "unknown" if video.num_frames is None else f"{video.num_frames} by the header"))
        rows.append(
            ("frame rate", f"{_text.decimal(video.average_fps)} fps by the header" if video.average_fps else "unknown")
        )
        rows.append(("duration", f"{_text.seconds(video.duration_seconds)} by the header"))
        return rows
    begin, end = _text.seconds(video.begin_seconds), _text.seconds(video.end_seconds)
    rows += [
        ("frames", str(video.num_frames)),
        ("frame rate", _frame_rate_text(video)),
        ("key frames", _key_frames_text(video)),
        ("shown", f"from {begin} to {end}, {_text.seconds(video.duration_seconds)}"),
    ]
    return rows + _anomaly_rows(video.anomalies)


def _audio_rows(audio: AudioInfo) -> list[tuple[str, str]]:
    channels = "unknown" if audio.num_channels is None else str(audio.num_channels)
    rows = [
        ("codec", f"{audio.codec or 'unknown'}{f' ({audio.profile})' if audio.profile else ''}"),
        ("sample rate", "unknown" if audio.sample_rate is None else f"{audio.sample_rate} Hz"),
        ("channels", f"{channels} ({audio.channel_layout})" if audio.channel_layout else channels),
        ("sample format", audio.sample_format or "unknown"),
        ("duration", f"{_text.seconds(audio.duration_seconds)} by the header"),
    ]
    if audio.begin_seconds:
        rows.append(("begin", _text.seconds(audio.begin_seconds)))
    if audio.language:
        rows.append(("language", _text.one_line(audio.language)))
    return rows


def _subtitle_rows(subtitles: SubtitleInfo) -> list[tuple[str, str]]:
    kinds = {True: "text", False: "pictures", None: "no decoder"}
    rows = [("codec", f"{subtitles.codec or 'unknown'} ({kinds[subtitles.is_text]})")]
    if subtitles.language:
        rows.append(("language", _text.one_line(subtitles.language)))
    if subtitles.num_subtitles is not None:
        rows.append(("subtitles", str(subtitles.num_subtitles)))
    if subtitles.num_subtitles:
        begin, end = _text.seconds(subtitles.begin_seconds), _text.seconds(subtitles.end_seconds)
        rows.append(("shown", f"from {begin} to {end}"))
    return rows + (_anomaly_rows(subtitles.anomalies) if subtitles.anomalies else [])


def _chapter_rows(chapters: Sequence[Chapter]) -> list[tuple[str, ...]]:
    shown = [
        (clock(chapter.start_seconds), clock(chapter.end_seconds), _clean(chapter.title or ""))
        for chapter in chapters[:_NUM_CHAPTERS_SHOWN]
    ]
    return shown + _rest(len(chapters) - len(shown))


def _tag_rows(tags: dict[str, str]) -> list[tuple[str, ...]]:
    visible = [(name, value) for name, value in tags.items() if name.lower() not in _HIDDEN_TAGS and value.strip()]
    rows: list[tuple[str, ...]] = [(_clean(name), _clean(value)) for name, value in visible[:_NUM_TAGS_SHOWN]]
    return rows + _rest(len(visible) - len(rows))


def _rest(number: int) -> list[tuple[str, ...]]:
    return [(f"and {number} more (--json has all)",)] if number > 0 else []


def _clean(text: str) -> str:
    line = " ".join(_text.one_line(text[: _TAG_LENGTH * 4]).split())
    return line if len(line) <= _TAG_LENGTH else f"{line[: _TAG_LENGTH - 3]}..."


def _anomaly_rows(anomalies: Sequence[str]) -> list[tuple[str, str]]:
    lines = [line for sentence in anomalies for line in wrap(sentence, 96, subsequent_indent="  ")] or ["none"]
    return [("anomalies" if i == 0 else "", line) for i, line in enumerate(lines)]


def _size_text(video: VideoInfo) -> str:
    size = (video.width or video.stored_width, video.height or video.stored_height)
    parts = [f"{size[0]}x{size[1]}"]
    if size != (video.stored_width, video.stored_height):
        parts.append(f"stored as {video.stored_width}x{video.stored_height}")
    if video.pixel_aspect_ratio not in (None, 1):
        displayed = f", shown as {video.display_width}x{video.display_height}" if video.display_width else ""
        parts.append(f"pixel aspect ratio {_text.ratio(video.pixel_aspect_ratio)}{displayed}")
    return ", ".join(parts)


def _colour_text(video: VideoInfo) -> str:
    named = [
        ("primaries", video.color_primaries),
        ("transfer", video.color_transfer),
        ("matrix", video.color_space),
        ("range", video.color_range),
    ]
    return ", ".join(f"{name} {value}" for name, value in named if value) or "not stated"


def _frame_rate_text(video: VideoInfo) -> str:
    rate = f"{_text.decimal(video.average_fps)} fps" if video.average_fps else "unknown"
    if video.is_constant_frame_rate is None:
        return rate
    if video.is_constant_frame_rate:
        return f"{rate}, constant"
    steps = (video.min_frame_step_seconds, video.max_frame_step_seconds)
    return f"{rate} on average, variable (frames {_text.seconds(steps[0])} to {_text.seconds(steps[1])} apart)"


def _key_frames_text(video: VideoInfo) -> str:
    if not video.num_key_frames or video.gop_length_median is None:
        return "none"
    if video.gop_length_min == video.gop_length_max:
        lengths = f"GOP of {counted(video.gop_length_max or 0, 'frame')}"
    else:
        shortest, longest = video.gop_length_min, video.gop_length_max
        lengths = f"GOPs of {shortest} to {longest} frames, median {_text.decimal(video.gop_length_median, 1)}"
    return f"{video.num_key_frames}, {lengths}"


def run(args: argparse.Namespace) -> int:
    is_first = True

    def probe(path: str, file: str) -> int:
        nonlocal is_first
        info = replace(collect(path, args.stream, scan=not args.no_scan), file=shown_name(file))
        if args.json:
            emit_json(info)
        else:
            emit_lines(describe(info) if is_first else ["", *describe(info)])
        is_first = False
        if info.error is None:
            return 0
        emit_error(file_error(file, path, Exception(info.error)))
        return EXIT_ERROR  # part of the file cannot be decoded

    return for_each_file(args.files, probe)
