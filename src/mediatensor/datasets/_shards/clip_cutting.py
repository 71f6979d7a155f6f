"""Cut a segment out of a video or audio file, into a new file with exactly the frames or samples of the segment.

Packets of video are copied if the segment begins at a key frame and its frames depend on no other frames. If the index
proves this, only the first frame of the copy is compared with the source, otherwise all frames. In all other cases,
frames are encoded without loss, and all are compared with the source.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
import torch

from ..._engine.audio.pre_roll import can_seek, pre_roll_length
from ..._engine.index.frame_index import FrameIndex
from ..._engine.pyav.clip_files import (
    COPIES,
    ENCODINGS,
    EXTENSIONS,
    CopiedTrack,
    EncodedTrack,
    in_storable_format,
    write_clip,
)
from ..._engine.pyav.pixels import fingerprint, orientation_of
from ...decoders import AudioDecoder, VideoDecoder
from ...decoders._access import access_to
from ...decoders._demuxer import packets_from
from ...encoders import Encoder
from ...errors import DecodeError, EncodeError, InvalidArgumentError, OpenError, ReadError, StreamError
from .._rows.clips import AudioSegment, VideoSegment
from .._sources.items import Item

# Codecs whose packets mean the same in every container. Other codecs lose settings with the container: ProRes loses its
# alpha channel. For the key frames of these codecs, see `PROVEN_CODECS` in ``_engine/index/scan.py``.
_PROVEN_CODECS = frozenset(("av1", "h264", "hevc", "mpeg1video", "mpeg2video", "mpeg4", "vp8", "vp9"))
# Codecs without a known pre-roll start this much earlier.
_PRE_ROLL_SECONDS = 1.0
# Times in Matroska files are rounded to milliseconds.
_ROUNDING_SECONDS = 0.001
# Container and codec, in order of preference. FLAC has up to 24 bits.
_AUDIO_FORMATS = (("flac", "flac"), ("wav", "pcm_f32le"))


@dataclass(frozen=True)
class CutClip:
    """A segment that was cut out into a new file, and the place of its first frame or sample in the source."""

    data: bytes
    extension: str
    pts_seconds: float
    duration_seconds: float
    is_copied: bool


# Video


def cut_video(item: Item) -> CutClip:
    """Cut an item's segment out of a video, with the audio of this time.

    Raises `StreamError` if there is no video stream, `EncodeError` if the frames cannot be stored exactly, and errors
    of decoders.
    """
    with VideoDecoder(item.source, num_ffmpeg_threads=1) as decoder:
        clip = _VideoClip(decoder, item)
        errors = []
        for container, encoder in (*COPIES, *ENCODINGS):
            is_copied = encoder is None
            with ExitStack() as opened:  # the streams of copied packets, until they are written
                try:
                    track = clip.copy(opened) if is_copied else clip.encode()
                    if track is None:
                        continue
                    data = write_clip(track, clip.audio(opened), container, encoder)
                    clip.check(data)
                except EncodeError as error:
                    errors.append(str(error))
                    continue
            return CutClip(data, EXTENSIONS[container], clip.start_seconds, clip.duration_seconds, is_copied)
    raise EncodeError(f"The segment of {item.name} could not be stored exactly: {' '.join(dict.fromkeys(errors))}")


class _VideoClip:
    """Frames ``first`` to ``stop - 1`` of a video."""

    def __init__(self, decoder: VideoDecoder, item: Item) -> None:
        segment = VideoSegment(decoder, item)
        self._decoder = decoder
        self._source = item.source
        self._index: FrameIndex = decoder.frame_index
        self._first, self._stop = segment.first_frame, segment.first_frame + len(segment)
        self._frames = np.arange(self._first, self._stop)
        begin = int(self._index.pts[self._first])
        self._begin = begin * self._index.time_base
        self._ticks = self._index.pts[self._frames] - begin
        end = int((self._index.pts + self._index.duration)[self._frames].max()) - begin
        self.start_seconds = float(self._begin)
        self.duration_seconds = float(end * self._index.time_base)
        self._fingerprints: list[int] = []

    # Copying packets

    def copy(self, opened: ExitStack) -> CopiedTrack | None:
        """Return the packets of the frames, or ``None`` if they cannot be copied, or only with other frames."""
        index, packets = self._index, self._index.packet[self._frames]
        begin, end = int(packets[0]), int(packets.max()) + 1
        key_frame = int(np.searchsorted(index.key_frame_packet, begin))
        is_start = index.is_key[self._first] and key_frame < len(index.key_frame_packet)
        if not is_start or index.key_frame_packet[key_frame] != begin or begin < 0 or packets.min() != begin:
            return None
        if index.settled or index.may_show_damage or index.times_restart:
            return None
        others = np.flatnonzero((index.packet > begin) & (index.packet < end))
        if (others >= self._stop).any():
            return None  # later frames to which frames of the clip refer
        self._left_out = set(index.packet[others[others < self._first]].tolist())
        # Without these frames, the rest of an open GOP may not decode as before. Packets without a frame may be fields.
        has_others = bool(self._left_out) or end - begin > len(packets)
        self._is_proven = self._decoder.metadata.codec in _PROVEN_CODECS and not has_others
        return self._read_packets(opened, key_frame, begin, end)

    def _read_packets(self, opened: ExitStack, key_frame: int, begin: int, end: int) -> CopiedTrack | None:
        index = self._index
        pts, first_tick = int(index.key_frame_pts[key_frame]), int(index.pts[self._first])
        frame_by_packet = dict(zip(index.packet[self._frames].tolist(), self._frames.tolist(), strict=True))
        seconds = float(pts * index.time_base)
        stream, packets = opened.enter_context(packets_from(self._source, self._decoder.stream_index, seconds))
        if stream.time_base != index.time_base or (index.key_frame_pts == pts).sum() != 1:
            return None
        number, copied = -1, []
        for packet in packets:
            if packet.pts is None:
                return None
            if number < 0:
                if packet.is_keyframe and packet.pts > pts:
                    return None
                if not packet.is_keyframe or packet.pts != pts:
                    continue
                number = begin
            frame = frame_by_packet.get(number)
            if frame is not None and index.pts[frame] != packet.pts:
                return None
            if number not in self._left_out:
                packet.duration = packet.duration if frame is None else int(index.duration[frame])
                packet.pts -= first_tick
                packet.dts = None if packet.dts is None else packet.dts - first_tick
                copied.append(packet)
            number += 1
            if number == end:
                _set_decoding_times(copied, are_consecutive=not self._left_out)
                return CopiedTrack(stream, copied)
        return None

    # Encoding frames

    def encode(self) -> EncodedTrack:
        self._fingerprints = []
        self._is_proven = False
        return EncodedTrack(
            self._timed_frames(),
            self._index.duration[self._frames].tolist(),
            self._index.time_base,
            orientation_of(next(self._pictures(1))),
            self._decoder.metadata.pixel_aspect_ratio,
        )

    def _timed_frames(self) -> Iterator[Any]:
        for picture, tick in zip(self._pictures(), self._ticks.tolist(), strict=True):
            frame = in_storable_format(picture)
            self._fingerprints.append(fingerprint(frame))
            frame.pts, frame.time_base, frame.pict_type = tick, self._index.time_base, 0
            yield frame

    def _pictures(self, count: int | None = None) -> Iterator[Any]:
        wanted = self._frames[:count].tolist()
        pictures = access_to(self._decoder).pictures_at(wanted, obeys_policy=True)
        for number, picture in zip(wanted, pictures, strict=True):
            if picture.frame != number:
                raise EncodeError(f"Frame {number} could not be decoded.")
            yield picture.decoded

    # Checking

    def check(self, data: bytes) -> None:
        """Raise `EncodeError` unless a file has the frames of the clip at their times, according to its index.

        Decode all frames and compare them with the frames of the source. If the index proves that packets can be
        copied, compare only the first frame, which shows whether the container has kept the settings of the codec.
        """
        if not self._fingerprints:
            compared = self._pictures(1 if self._is_proven else None)
            self._fingerprints = [fingerprint(in_storable_format(frame)) for frame in compared]
        try:
            with VideoDecoder(data, num_ffmpeg_threads=1) as decoder:
                times, expected = decoder.frame_index.pts_seconds.numpy(), self._ticks * float(self._index.time_base)
                if len(times) != len(expected) or np.abs(times - expected).max() > _ROUNDING_SECONDS:
                    raise EncodeError("The container changes frames or their times.")
                pictures = access_to(decoder).pictures_at(range(len(self._fingerprints)), obeys_policy=True)
                stored = [fingerprint(in_storable_format(picture.decoded)) for picture in pictures]
        except (StreamError, DecodeError, OpenError, ReadError) as error:
            raise EncodeError(f"The file does not decode ({error})") from error
        if stored != self._fingerprints:
            raise EncodeError("The frames of the file do not equal the frames of the source.")

    # Audio

    def audio(self, opened: ExitStack) -> CopiedTrack | None:
        """Return the audio packets of the clip, and earlier ones that the decoder needs; ``None`` if there are none."""
        try:
            with AudioDecoder(self._source) as decoder:
                metadata, stream_index = decoder.metadata, decoder.stream_index
        except StreamError:
            return None
        rate = metadata.sample_rate or 48_000
        pre_roll = _PRE_ROLL_SECONDS
        if can_seek("mov", metadata.codec or ""):
            pre_roll = pre_roll_length(metadata.codec or "", rate) / rate
        start, stop = self._begin - Fraction(pre_roll), self._begin + Fraction(self.duration_seconds)
        copied = []
        stream, packets = opened.enter_context(packets_from(self._source, stream_index, float(start)))
        time_base = Fraction(stream.time_base)
        offset = round(self._begin / time_base)
        for packet in packets:
            if packet.pts is None:
                return None
            if packet.pts * time_base >= stop:
                break
            if (packet.pts + (packet.duration or 0)) * time_base <= start:
                continue
            packet.pts, packet.dts = packet.pts - offset, packet.pts - offset
            copied.append(packet)
        return CopiedTrack(stream, copied) if copied else None


def _set_decoding_times(packets: list[Any], *, are_consecutive: bool) -> None:
    """Set the decoding times of packets. mp4 stores no durations, only the differences of these times.

    If the frames have gaps or overlap, keep the times of the source, unless packets in between were left out.
    """
    decoded = list(accumulate((packet.duration for packet in packets), initial=0))
    if decoded[-1] != max(packet.pts + packet.duration for packet in packets):
        if are_consecutive and all(packet.dts is not None for packet in packets):
            return
        decoded = sorted(packet.pts for packet in packets)
    delay = max(time - packet.pts for time, packet in zip(decoded, packets, strict=False))
    for time, packet in zip(decoded, packets, strict=False):
        packet.dts = time - delay


# Audio only


def cut_audio(item: Item) -> CutClip:
    """Cut an item's segment out of the audio of a file, without loss.

    Samples of up to 24 bits are stored as FLAC. Decoders of lossy formats return floats with more bits, which are
    stored as WAV.
    """
    with AudioDecoder(item.source) as decoder:
        samples = AudioSegment(decoder, item).get_all_samples()
    start, duration = samples.pts_seconds, samples.duration_seconds
    for extension, codec in _AUDIO_FORMATS:
        file = io.BytesIO()
        encoder = Encoder()
        with suppress(EncodeError, InvalidArgumentError):  # too many channels, or an unusual sample rate
            track = encoder.add_audio(sample_rate=samples.sample_rate, num_channels=samples.data.shape[0], codec=codec)
            with encoder.open_file_like(file, format=extension):
                track.add_samples(samples.data)
            with AudioDecoder(file.getvalue()) as stored:
                if torch.equal(stored.get_all_samples().data, samples.data):
                    return CutClip(file.getvalue(), extension, start, duration, is_copied=False)
    raise EncodeError(f"The audio of {item.name} could not be stored exactly.")
