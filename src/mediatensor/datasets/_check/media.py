"""The check of a single file."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, replace
from typing import Any, Literal

import numpy as np
import torch

from ..._engine.containers.truncated_files import breaks_off, stated_audio_seconds
from ..._engine.index.holes import describe_hole
from ..._engine.metadata import container_metadata
from ..._engine.pyav.opening import ContainerInfo, read_container_info
from ..._engine.sources.readers import Reader
from ..._engine.sources.source import make_source
from ...decoders import AudioDecoder, ContainerMetadata, Demuxer, FrameIndex, VideoDecoder
from ...decoders._access import access_to
from ...errors import DecodeError, InvalidArgumentError, MediaTensorError, OutOfRangeError, ReadError, StreamError
from ...frames import FrameBatch, ReplacedFrame
from ...transforms import Resize
from . import contents
from .comparing import EpisodeTimes, compare_with_table
from .contents import (
    PictureStatistics,
    SoundStatistics,
    Times,
    missing_audio,
    missing_end,
    missing_frames,
    stated_lengths,
)
from .copies import SignatureMaker
from .findings import CheckedFile, Finding, MediaFacts

_HASHED_BYTES_AT_A_TIME = 1 << 20
_HEIGHT, _WIDTH = 36, 64
_FRAMES_AT_A_TIME = 64
_SECONDS_AT_A_TIME = 30.0
# Precision in seconds with which damaged audio is located; packets last 20 to 100 ms.
_SOUND_PLACE_SECONDS = 0.02
_THUMBNAIL_SIDE = 160
_SPANS_NAMED = 5
# The text of this anomaly in a `FrameIndex`.
_BEGINS_BETWEEN_KEY_FRAMES = "the first packet is not a key frame"
# The headers of these formats state the length of the audio. For others, FFmpeg may estimate it from the size.
_STATES_AUDIO_LENGTH = ("aiff", "ape", "au", "flac", "mov", "tta", "wv")
_IMAGE_FORMATS = ("gif", "apng", "webp_pipe", "webp_anim")


def check_file(
    source: Any, name: str, kind: Literal["video", "audio"], decodes: bool, episodes: Sequence[EpisodeTimes] = ()
) -> dict[str, Any]:
    """Check one file. ``episodes`` has the rows of a LeRobot video. Return a `CheckedFile` as a dict, to be pickled."""
    findings: list[Finding] = []
    facts = MediaFacts()
    try:
        num_bytes, digest, is_cut, audio_seconds = _bytes_of(source)
        facts = replace(facts, num_bytes=num_bytes, digest=digest)
        if is_cut:
            findings.append(Finding("cut-off", f"the container states more bytes than the {num_bytes} of the file"))
        facts = _check_streams(source, facts, findings, kind, decodes, episodes, audio_seconds)
    except MediaTensorError as error:
        findings.append(Finding("unreadable", str(error)))
    file = CheckedFile(name, tuple(findings), facts)
    return asdict(replace(file, thumbnail=thumbnail_of(source, file)) if findings and decodes else file)


def call_alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a worker process, with one torch thread, because each core already has a worker."""
    torch.set_num_threads(1)
    return function(*arguments)


def hash_bytes(reader: Reader) -> tuple[int, str]:
    """Return the number of bytes that a reader has, and their digest."""
    state, size = hashlib.blake2b(digest_size=16), 0
    while data := reader.read(_HASHED_BYTES_AT_A_TIME):
        state.update(data)
        size += len(data)
    return size, state.hexdigest()


def _bytes_of(source: Any) -> tuple[int | None, str | None, bool, float | None]:
    """Return the number of bytes, their digest, whether the end of the file is missing, and the stated audio length.

    If only FFmpeg can read the source, these are unknown.
    """
    reader = make_source(source).open_bytes()
    if reader is None:
        return None, None, False, None
    with closing(reader):
        size, digest = hash_bytes(reader)
        is_cut, audio_seconds = breaks_off(reader.read_at, size), stated_audio_seconds(reader.read_at, size)
        return size, digest, is_cut, audio_seconds


def _check_streams(
    source: Any,
    facts: MediaFacts,
    findings: list[Finding],
    kind: Literal["video", "audio"],
    decodes: bool,
    episodes: Sequence[EpisodeTimes],
    audio_seconds: float | None,
) -> MediaFacts:
    info = read_container_info(make_source(source))
    header = container_metadata(info)
    streams = {stream.stream_index: stream for stream in header.streams}
    video, audio = header.best_video_stream_index, header.best_audio_stream_index
    if video is not None and "attached_pic" in streams[video].disposition:
        video = None  # the cover image of an album
    kinds = ", ".join(stream.media_type for stream in header.streams) or "no stream"
    if video is None and audio is None:
        findings.append(Finding("nothing-decodes", f"there is no video and no audio, but {kinds}"))
        return facts
    if video is None and kind == "video":
        has_cover = header.best_video_stream_index is not None
        findings.append(Finding("no-video", f"there is no video, but {kinds}{' (a cover image)' if has_cover else ''}"))
    if audio is None and kind == "audio":
        findings.append(Finding("no-sound", f"there is no audio, but {kinds}"))
    if video is not None and kind == "audio" and _is_empty(source, video):
        video = None  # for an audio file, an empty video stream does not matter
    times = listened = None
    packets = np.empty(0)
    if video is not None:
        has_own_pace = any(name in header.format_name for name in _IMAGE_FORMATS)
        facts, times = _check_video(source, video, facts, findings, decodes, has_own_pace)
    if audio is not None:
        packets = _packet_seconds(source, audio)
        facts, listened = _check_sound(source, audio, facts, findings, kind, decodes, packets)
        findings += _find_missing_audio(info, audio, audio_seconds, packets)
    if "matroska" in header.format_name:
        # After a gap in the times, the packets end later than the samples that follow each other.
        heard = None if listened is None else (listened[0], max(listened[1], float(packets.max(initial=0.0))))
        findings += _compare_with_header(source, header, video, times, audio, heard)
    if times is not None:
        findings += compare_with_table(episodes, times.pts_seconds)
    if times is not None and listened is not None:
        stretch = times.stated_fps / facts.average_fps if times.stated_fps and facts.average_fps else 1.0
        findings += contents.check_alignment((float(times.pts_seconds[0]), times.end_seconds), listened, stretch)
    return facts


def _check_video(
    source: Any, stream_index: int, facts: MediaFacts, findings: list[Finding], decodes: bool, has_own_pace: bool
) -> tuple[MediaFacts, Times | None]:
    with VideoDecoder(
        source,
        stream_index=stream_index,
        on_error="nearest",
        on_size_change="scale",
        transforms=[Resize((_HEIGHT, _WIDTH))],
        num_ffmpeg_threads=1,
    ) as decoder:
        access_to(decoder).omit_hdr_warning()
        try:
            statistics, replaced, signature = _decode_all(decoder) if decodes else (None, {}, None)
            index = decoder.frame_index  # decoding has corrected the index
        except StreamError as error:
            findings.append(Finding("nothing-decodes", str(error)))
            return facts, None
        metadata = decoder.metadata
        times = Times(
            index.pts_seconds.numpy(),
            index.end_seconds,
            float(index.time_base),
            index.gop_lengths.numpy(),
            has_own_pace,
            metadata.average_fps_from_header,
        )
        count, promised = len(index), metadata.num_frames_from_header
        damaged = set(replaced) | set(np.flatnonzero(index.is_damaged).tolist())
        if damaged:
            findings += _describe_damage(damaged, replaced, times)
        findings += _describe_holes(index)
        # MP4 headers also count frames outside the edit list, and packets that contain half a frame.
        num_packets = None if index.num_packets is None else int(index.num_packets.max())
        is_explained = any("edit list" in text for text in index.anomalies) or promised == num_packets
        # The header of a fragmented MP4 file may count only the frames before the first fragment.
        if promised is not None and count > promised and metadata.average_fps_from_header:
            seconds = metadata.duration_seconds_from_header or 0.0
            is_explained |= abs(seconds * metadata.average_fps_from_header - count) < 1
        if not is_explained:
            findings += missing_frames(promised, count)
        if _BEGINS_BETWEEN_KEY_FRAMES in index.anomalies:
            lost = int(index.packet[0])
            text = f": the first {lost} packets have no frame" if lost > 0 else ""
            findings.append(Finding("first-frame-not-key", f"the first packet is not a key frame{text}"))
        findings += contents.check_times(times)
        if statistics is not None and len(statistics.mean) == count:
            findings += contents.find_still_and_black(statistics, times)
            findings += contents.find_repeats(statistics, times)
        undecodable = [text for text in index.anomalies if "cannot decode" in text]
        if undecodable and not damaged and not index.holes:
            findings.append(Finding("corrupt", "; ".join(undecodable)))
        # A decoder that scales frames does not report their original size.
        with VideoDecoder(source, stream_index=stream_index, frame_index=index, num_ffmpeg_threads=1) as upright:
            width, height = upright.metadata.width, upright.metadata.height
        sizes, lengths = index.gop_bytes.double(), index.gop_lengths.double()
        has_sizes = bool((sizes > 0).all())
        mean_bytes = int((sizes * lengths).sum() / lengths.sum()) if has_sizes else None
        facts = replace(
            facts,
            begin_seconds=index.begin_seconds,
            duration_seconds=index.end_seconds - index.begin_seconds,
            video_codec=metadata.codec,
            width=width,
            height=height,
            rotation=metadata.rotation,
            num_frames=count,
            average_fps=metadata.average_fps,
            num_key_frames=int(index.is_key.sum()),
            longest_gop=int(times.gop_lengths.max(initial=0)),
            random_access_frames=round(contents.random_access_frames(times.gop_lengths), 1),
            random_access_bytes=mean_bytes,
            picture_signature=signature,
        )
        return facts, times


def _decode_all(decoder: VideoDecoder) -> tuple[PictureStatistics, dict[int, ReplacedFrame], str | None]:
    replaced: dict[int, ReplacedFrame] = {}
    rows: list[np.ndarray[Any, Any]] = []
    before: torch.Tensor | None = None
    maker = SignatureMaker()
    for start, batch in _batches(decoder, replaced):
        gray = batch.data.float().mean(1)
        changes = (gray - torch.cat([gray[:1] if before is None else before, gray[:-1]])).abs()
        before = gray[-1:]
        mean_change, most_change = changes.mean((1, 2)), changes.amax((1, 2))
        if start == 0:
            mean_change[0] = most_change[0] = torch.inf
        rows.append(torch.stack([gray.mean((1, 2)), gray.amax((1, 2)), mean_change, most_change]).numpy())
        maker.add(batch.pts_seconds.numpy(), gray.numpy())
    if not rows:
        raise StreamError("no frame of the video can be decoded")
    return PictureStatistics(*np.concatenate(rows, 1)), replaced, maker.finish()


def _batches(decoder: VideoDecoder, replaced: dict[int, ReplacedFrame]) -> Iterator[tuple[int, FrameBatch]]:
    """Yield (index of its first frame, batch) for each batch of frames of a video.

    Reports on frames that could not be decoded are added to ``replaced``, by frame index. Decoding continues until no
    frame is left, because the number of frames in the index can be wrong.
    """
    start = 0
    while True:
        try:
            batch = decoder.get_frames_in_range(start, start + _FRAMES_AT_A_TIME)
        except OutOfRangeError:
            return
        if not len(batch.data):
            return
        replaced |= {report.index: report for report in batch.replaced if not report.num_missing}
        yield start, batch
        start += len(batch.data)


def _describe_damage(damaged: set[int], replaced: dict[int, ReplacedFrame], times: Times) -> list[Finding]:
    """Return findings for the runs of frames that could not be decoded."""
    flags = np.zeros(len(times.pts_seconds), bool)
    flags[[number for number in damaged if number < len(flags)]] = True
    spans = contents.spans_of(flags)
    found = []
    for first, last in spans:
        report = replaced.get(first)
        reason = f": {report.reason}" if report is not None else ""
        text = f"frame {first}" if last - first == 1 else f"frames {first} to {last - 1}"
        found.append(Finding("corrupt", f"{text} of {len(flags)}{reason}", **contents.place_of(times, first, last)))
    return contents.shorten(found, f"all remaining damaged frames, of {len(damaged)} in {len(spans)} places in total")


def _compare_with_header(
    source: Any,
    header: ContainerMetadata,
    video: int | None,
    times: Times | None,
    audio: int | None,
    listened: tuple[float, float] | None,
) -> list[Finding]:
    """Return a finding for each stream that has fewer frames, or ends earlier, than the header of the file states.

    ``video`` and ``audio`` are stream indices, and ``listened`` is the (begin, end) of the audio in seconds.
    """
    findings: list[Finding] = []
    streams = {stream.stream_index: stream for stream in header.streams}
    longest_step = 0.0
    if times is not None and video is not None:
        longest_step = float(np.diff(times.pts_seconds).max(initial=0.0))
        stated = stated_lengths(streams[video].tags, header.tags)
        findings += missing_frames(stated.num_frames, len(times.pts_seconds))
        findings += missing_end("video", stated.end_seconds, times.end_seconds, longest_step)
    if listened is not None and audio is not None:
        findings += missing_end("audio", stated_lengths(streams[audio].tags, header.tags).end_seconds, listened[1], 0.0)
    seconds = header.duration_seconds_from_header
    ends = [part[1] for part in ((0.0, times.end_seconds) if times is not None else None, listened) if part is not None]
    is_all_known = all(stream.media_type in ("video", "audio") for stream in header.streams)
    if findings or not ends or not is_all_known or not missing_end("file", seconds, max(ends), longest_step):
        return findings
    # Another stream may be the longest one.
    with Demuxer(source, streams="all") as demuxer:
        last = max((packet.pts_seconds or 0.0) + (packet.duration_seconds or 0.0) for packet in demuxer)
    return missing_end("file", seconds, max(*ends, last), longest_step)


def _is_empty(source: Any, stream_index: int) -> bool:
    with Demuxer(source, streams=stream_index) as demuxer:
        return not any(packet.data for packet in demuxer)


def _describe_holes(index: FrameIndex) -> list[Finding]:
    """Return findings for the runs of packets without a frame."""
    found = [
        Finding("corrupt", describe_hole(hole, len(index)), hole.start_seconds, hole.end_seconds)
        for hole in index.holes
    ]
    num_packets = sum(hole.num_packets for hole in index.holes)
    return contents.shorten(
        found, f"all remaining packets without a frame, of {num_packets} in {len(found)} places in total"
    )


def _check_sound(
    source: Any,
    stream_index: int,
    facts: MediaFacts,
    findings: list[Finding],
    kind: Literal["video", "audio"],
    decodes: bool,
    packet_seconds: np.ndarray[Any, Any],
) -> tuple[MediaFacts, tuple[float, float] | None]:
    statistics = SoundStatistics()
    with AudioDecoder(source, stream_index=stream_index, num_ffmpeg_threads=1) as decoder:
        metadata = decoder.metadata
        facts = replace(
            facts, audio_codec=metadata.codec, sample_rate=metadata.sample_rate, num_channels=metadata.num_channels
        )
        if not decodes:
            return facts, None
        begin = metadata.begin_stream_seconds
        at = begin
        try:
            for samples in decoder.chunks(_SECONDS_AT_A_TIME, sample_rate=None, num_channels=None):
                if not statistics.num_samples:
                    begin = samples.pts_seconds
                statistics.add(samples.data.numpy())
                at = samples.pts_seconds + samples.duration_seconds
        except StreamError as error:
            if kind == "video" and _is_empty(source, stream_index):
                findings.append(Finding("silent", "there is an audio stream, but it is empty"))
            else:
                findings.append(Finding("nothing-decodes", str(error)))
            return facts, None
        except DecodeError as error:
            # If the header states an end that is too early, the damage can be after it.
            findings += _find_damaged_sound(decoder, at) or [Finding("corrupt-sound", str(error), at)]
            return facts, None
    findings += contents.check_loudness(statistics)
    counted = statistics.num_samples / metadata.sample_rate if metadata.sample_rate else 0.0
    # In a joined file, the times of packets start again with each part, and the header describes the first part.
    stated, whole = metadata.duration_seconds_from_header, metadata.duration_seconds
    if stated is None or whole is None or whole <= stated + contents.MAX_AUDIO_SECONDS_APART:
        findings += contents.check_packet_times(packet_seconds, begin, counted)
    if facts.duration_seconds is None:
        facts = replace(facts, begin_seconds=begin, duration_seconds=at - begin)
    return replace(facts, peak=round(statistics.peak, 6)), (begin, at)


def _find_damaged_sound(decoder: AudioDecoder, start: float) -> list[Finding]:
    """Return findings for the first five runs of audio, from ``start`` on, that cannot be decoded."""
    end = decoder.metadata.end_stream_seconds or math.inf
    found: list[Finding] = []
    while start < end and len(found) < _SPANS_NAMED:
        stop = min(start + _SECONDS_AT_A_TIME, end)
        error = _sound_error(decoder, start, stop)
        if error is None:
            start = stop
            if math.isinf(end):
                break  # the end of the audio is not known
            continue
        good = start
        while stop - good > _SOUND_PLACE_SECONDS:
            middle = (good + stop) / 2
            wrong = _sound_error(decoder, start, middle)
            good, stop, error = (middle, stop, error) if wrong is None else (good, middle, wrong)
        wrong_until, after = stop, stop + _SOUND_PLACE_SECONDS
        while after < end and _sound_error(decoder, after, after + _SOUND_PLACE_SECONDS) is not None:
            wrong_until, after = after, after + min(2 * (after - stop), _SECONDS_AT_A_TIME)
        while after - wrong_until > _SOUND_PLACE_SECONDS:
            middle = (wrong_until + after) / 2
            is_wrong = _sound_error(decoder, middle, middle + _SOUND_PLACE_SECONDS) is not None
            wrong_until, after = (middle, after) if is_wrong else (wrong_until, middle)
        found.append(Finding("corrupt-sound", str(error), good, min(after, end)))
        start = after
    return found


def _sound_error(decoder: AudioDecoder, start: float, stop: float) -> DecodeError | None:
    """Return the error of decoding a range of audio, or ``None``. A range after the end of the audio has no error."""
    try:
        decoder.get_samples_played_in_range(start, stop)
    except DecodeError as error:
        return error
    except (OutOfRangeError, InvalidArgumentError):
        return None
    return None


def _find_missing_audio(
    info: ContainerInfo,
    stream_index: int,
    stated_seconds: float | None,
    packet_seconds: np.ndarray[Any, Any],
) -> list[Finding]:
    """Return a finding if the packets of the audio end earlier than the header states.

    If ``stated_seconds`` is ``None``, FFmpeg's duration is used for formats whose headers state it. The header of a
    fragmented MP4 file does not state it.
    """
    if not len(packet_seconds):
        return []
    begin = float(packet_seconds[0])
    if stated_seconds is None and info.format_name.startswith(_STATES_AUDIO_LENGTH):
        stream = info.streams[stream_index]
        if stream.num_frames or not info.format_name.startswith("mov"):
            # With an empty edit at the start, FFmpeg's duration may count from time 0.
            begin, stated_seconds = 0.0, stream.duration_seconds
    return [] if stated_seconds is None else missing_audio(begin, stated_seconds, packet_seconds)


def _packet_seconds(source: Any, stream_index: int) -> np.ndarray[Any, Any]:
    """Return the start of each packet of a stream, and the end of the last packet; nothing if any time is unknown."""
    pairs = []
    with Demuxer(source, streams=stream_index) as demuxer, suppress(ReadError):  # decoding reports the error
        for packet in demuxer:
            pairs.append((packet.pts_seconds, packet.duration_seconds))
    begins = [begin for begin, _ in pairs if begin is not None]
    if not pairs or len(begins) < len(pairs) or not pairs[-1][1]:
        return np.empty(0)
    return np.array([*begins, begins[-1] + pairs[-1][1]], np.float64)


def thumbnail_of(source: Any, file: CheckedFile) -> str | None:
    """Return an image of a checked file as JPEG in base64, or ``None`` if no frame can be decoded.

    It shows the frame at the first finding that has a time, otherwise the middle frame.
    """
    from ...encoders import JpegEncoder  # needed only for files with findings

    facts = file.facts
    if not facts.num_frames:
        return None
    try:
        with VideoDecoder(
            source, on_error="nearest", on_size_change="scale", num_ffmpeg_threads=1, tone_mapping="bt2390"
        ) as decoder:
            width, height = facts.width or _WIDTH, facts.height or _HEIGHT
            scale = _THUMBNAIL_SIDE / max(width, height)
            access_to(decoder).set_transforms([Resize((max(round(height * scale), 1), max(round(width * scale), 1)))])
            places = [finding.start_seconds for finding in file.findings if finding.start_seconds is not None]
            index = decoder.frame_index
            number = len(index) // 2
            if places and index.begin_seconds <= places[0] < index.end_seconds:
                number = index.frame_played_at(places[0])
            picture = decoder[min(number, len(decoder) - 1)]
    except MediaTensorError:
        return None  # the findings already include the error
    return base64.b64encode(JpegEncoder(picture).to_tensor(quality=70).numpy().tobytes()).decode()
