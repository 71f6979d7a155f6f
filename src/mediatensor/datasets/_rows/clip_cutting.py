"""Cut a segment out of a video or audio file, into a new file with exactly the frames or samples of the segment.

Packets of video are copied if the segment begins at a key frame and its frames depend on no other frames. If the index
proves this, only the first frame of the copy is compared with the source, otherwise all frames. All other segments are
encoded without loss, and all frames are compared with the source.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, chain
from typing import Any

import numpy as np
import torch

from ..._engine.audio.pre_roll import can_seek, has_unbounded_memory, pre_roll_length
from ..._engine.index.frame_index import FrameIndex
from ..._engine.pyav.clip_files import (
    COPIES,
    ENCODINGS,
    EXTENSIONS,
    CopiedTrack,
    EncodedAudio,
    EncodedTrack,
    in_storable_format,
    write_clip,
)
from ..._engine.pyav.opening import read_container_info
from ..._engine.pyav.pixels import fingerprint, orientation_of
from ..._engine.sources.source import make_source
from ...decoders import AudioDecoder, VideoDecoder
from ...decoders._access import access_to
from ...decoders._demuxer import packets_from
from ...encoders import Encoder
from ...errors import DecodeError, EncodeError, InvalidArgumentError, OpenError, OutOfRangeError, ReadError, StreamError
from ...frames import AudioSamples
from .._sources.items import Item
from .clips import AudioSegment, VideoSegment

# Codecs whose packets mean the same in every container. Other codecs lose settings with the container: ProRes loses its
# alpha channel. For the key frames of these codecs, see `PROVEN_CODECS` in ``_engine/index/scan.py``.
_PROVEN_CODECS = frozenset(("av1", "h264", "hevc", "mpeg1video", "mpeg2video", "mpeg4", "vp8", "vp9"))
# Codecs without a known pre-roll start this much earlier.
_PRE_ROLL_SECONDS = 1.0
# The packets of audio may be this much too early or too late. The largest delay measured was 17 ms, for Vorbis.
_MAX_DELAY_SECONDS = 0.05
_COMPARED_SECONDS = 1.0
# At the right place, squared differences are less than this share of the squared differences at the wrong place.
_ALIKE = 0.25
# Samples with smaller squared differences, relative to their squares, are at the right place.
_EQUAL = 1e-4
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
        for formats in (COPIES, ENCODINGS):
            failed: list[tuple[str, str | None]] = []
            # Containers without the codec of the audio are tried again with decoded samples.
            attempts = chain(((one, False) for one in formats), ((one, True) for one in failed))
            for (container, encoder), decodes_audio in attempts:
                is_copied, is_written, audio = encoder is None, False, None
                with ExitStack() as opened:  # the streams of copied packets, until they are written
                    try:
                        track = clip.copy(opened) if is_copied else clip.encode()
                        if track is None:
                            continue
                        audio = clip.decoded_audio() if decodes_audio else clip.audio(opened)
                        data = write_clip(track, audio, container, encoder)
                        is_written = True
                        clip.check(data)
                    except EncodeError as error:
                        errors.append(str(error))
                        if isinstance(audio, CopiedTrack) and not is_written:
                            failed.append((container, encoder))
                        continue
                return CutClip(data, EXTENSIONS[container], clip.start_seconds, clip.duration_seconds, is_copied)
    raise EncodeError(f"The segment of {item.name} cannot be stored exactly: {' '.join(dict.fromkeys(errors))}")


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
        self._delay: Fraction | None = None
        self._copies_audio = True

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
        pictures = access_to(self._decoder).pictures_at(wanted)
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
                pictures = access_to(decoder).pictures_at(range(len(self._fingerprints)))
                stored = [fingerprint(in_storable_format(picture.decoded)) for picture in pictures]
        except (StreamError, DecodeError, OpenError, ReadError) as error:
            raise EncodeError(f"The file cannot be decoded ({error}).") from error
        if stored != self._fingerprints:
            raise EncodeError("The frames of the file differ from the frames of the source.")

    # Audio

    def audio(self, opened: ExitStack) -> CopiedTrack | EncodedAudio | None:
        """Return the audio packets of the clip, and earlier ones that the decoder needs; ``None`` if there are none.

        If the packets have no times, or the decoded samples would not have the times of the source, return the samples.
        """
        if self._delay is None:
            self._delay = Fraction(0)
            self._delay = self._measure_delay()
            self._copies_audio = not self._delay or abs(self._measure_delay()) <= _ROUNDING_SECONDS
        track = self._read_packets_of_audio(opened) if self._copies_audio else None
        return track if self._copies_audio else self.decoded_audio()

    def _read_packets_of_audio(self, opened: ExitStack) -> CopiedTrack | None:
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
        time_base, sample = Fraction(stream.time_base), Fraction(1, rate)
        delay = (self._delay or 0) - self._begin
        for packet in packets:
            if packet.pts is None:
                self._copies_audio = False
                return None
            if packet.pts * time_base >= stop:
                break
            if (packet.pts + (packet.duration or 0)) * time_base <= start:
                continue
            # Ticks of the source may be longer than a sample: those of MP3 in AVI last 26 ms.
            pts, duration = packet.pts * time_base + delay, (packet.duration or 0) * time_base
            packet.time_base = sample
            packet.pts = packet.dts = round(pts / sample)
            packet.duration = round(duration / sample)
            copied.append(packet)
        return CopiedTrack(stream, copied) if copied else None

    def _measure_delay(self) -> Fraction:
        """Return the delay of packets that gives the decoded samples the times of the source.

        Times in Matroska and FLV are rounded to milliseconds, and the first Vorbis packet has no samples. Therefore,
        this function writes a file with only the audio, and compares its samples with the source. The delay is 0 if
        there is no audio, if no samples are alike, and for formats in which each range is decoded from the start.
        """
        with (
            ExitStack() as opened,
            suppress(EncodeError, StreamError, DecodeError, OpenError, OutOfRangeError, ReadError),
        ):
            decoder = opened.enter_context(AudioDecoder(self._source))
            codec = {"mp3": "mp3float"}.get(decoder.metadata.codec or "", decoder.metadata.codec or "")
            if not can_seek(read_container_info(make_source(self._source)).format_name, codec):
                return Fraction(0)
            track = self._read_packets_of_audio(opened)
            if track is None or has_unbounded_memory(codec, track.stream.codec_context.profile):
                return Fraction(0)
            length = min(self.duration_seconds, _COMPARED_SECONDS)
            with AudioDecoder(write_clip(None, track, *COPIES[0])) as written:
                stored = written.get_samples_played_in_range(0, length)
            begin = float(self._begin)
            first = max(begin - _MAX_DELAY_SECONDS, decoder.metadata.begin_stream_seconds)
            source = decoder.get_samples_played_in_range(first, begin + length + _MAX_DELAY_SECONDS)
            return _delay_of(stored, source, begin)
        return Fraction(0)

    def decoded_audio(self) -> EncodedAudio | None:
        """Return the samples of the clip, for containers that cannot hold the packets."""
        start = float(self._begin)
        try:
            with AudioDecoder(self._source) as decoder:
                samples = decoder.get_samples_played_in_range(start, start + self.duration_seconds)
                layout = decoder.metadata.channel_layout
        except (StreamError, OutOfRangeError):  # there are only earlier samples
            return None
        channels = samples.data.shape[0]
        layout = {1: "mono", 2: "stereo"}.get(channels, layout or f"{channels} channels")
        return EncodedAudio(samples.data.numpy(), samples.sample_rate, layout, samples.pts_seconds - start)


def _delay_of(stored: AudioSamples, source: AudioSamples, begin_seconds: float) -> Fraction:
    """Return how much later the stored samples must begin. Their time 0 is ``begin_seconds`` in the source."""
    rate, margin = stored.sample_rate, round(_MAX_DELAY_SECONDS * stored.sample_rate)
    ours, theirs = (one.data.mean(0).double().numpy() for one in (stored, source))
    wanted = (begin_seconds + stored.pts_seconds - source.pts_seconds) * rate
    first = round(wanted) - margin
    if source.sample_rate != rate or not len(ours):
        return Fraction(0)
    # Our samples may be anywhere in this part of the source. Outside the source is silence.
    area = np.zeros(len(ours) + 2 * margin)
    known = theirs[max(0, first) : max(0, first + len(area))]
    area[max(0, -first) :][: len(known)] = known
    size = 1 << (len(area) + len(ours)).bit_length()  # fast to transform
    products = np.fft.irfft(np.fft.rfft(area, size) * np.conj(np.fft.rfft(ours, size)), size)[: 2 * margin + 1]
    energies = np.concatenate([[0], (area**2).cumsum()])
    energy = (ours**2).sum()
    errors = energies[len(ours) :] - energies[: 2 * margin + 1] - 2 * products + energy
    if errors[margin] <= _EQUAL * energy or errors.min() > _ALIKE * errors[margin]:
        return Fraction(0)
    # A tone is alike at many places. Take the nearest one.
    places = np.flatnonzero(errors <= 1.5 * max(errors.min(), 0) + _EQUAL * energy)
    best = int(places[np.abs(places - margin).argmin()])
    return Fraction(round(first + best - wanted), rate)


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

    Samples of up to 24 bits are stored as FLAC, and floats from decoders of lossy formats, which have more bits, as
    WAV.
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
    raise EncodeError(f"The audio of {item.name} cannot be stored exactly.")
