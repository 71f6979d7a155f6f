"""Clips of sound whose times, streams or bytes are special."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import sound
from media_audio_codecs import AAC_CLIPS, LOSSLESS_CLIPS, MPEG_CLIPS, PCM_CLIPS, UNKNOWN_PADDING, XIPH_CLIPS
from media_audio_writing import (
    SoundSpec,
    add_pictures,
    add_stream,
    encode,
    encode_pictures,
)
from media_surgery import with_data
from media_writing import Packets, assign, mux_in_order, open_output

_AAC, _PCM, _OPUS, _FLAC = (
    AAC_CLIPS["aac_m4a"],
    PCM_CLIPS["pcm_s16_mkv"],
    XIPH_CLIPS["opus_mkv"],
    LOSSLESS_CLIPS["flac"],
)
_MP3, _VORBIS = MPEG_CLIPS["mp3_cbr"], XIPH_CLIPS["vorbis_ogg"]


def _aac(special: str, container: str, extension: str = "", **changes: Any) -> SoundSpec:
    return replace(_AAC, special=special, container=container, extension=extension or container, **changes)


def _skip(packets: Packets) -> Packets:
    """After a second, time jumps, as after a recorder lost its signal."""
    for packet in packets:
        if packet.pts * packet.time_base >= 1:
            packet.pts += round(0.5 / packet.time_base)
            packet.dts += round(0.5 / packet.time_base)
    return packets


def _damaged(packets: Packets) -> Packets:
    """Bits flipped in one packet half-way."""
    number = len(packets) // 2
    data = bytearray(bytes(packets[number]))
    for at in range(min(2, len(data) - 1), len(data), 3):
        data[at] ^= 0x5A
    return [*packets[:number], with_data(packets[number], bytes(data)), *packets[number + 1 :]]


def _lost(packets: Packets) -> Packets:
    """Four packets that are not there."""
    number = len(packets) // 2
    return packets[:number] + packets[number + 4 :]


def _damaged_bytes(data: bytes) -> bytes:
    """Zeros half-way, over more than one frame."""
    middle = len(data) // 2
    return data[:middle] + bytes(700) + data[middle + 700 :]


def _truncated(data: bytes) -> bytes:
    return data[: int(len(data) * 0.7)]


def _write_two_streams(spec: SoundSpec, path: Path) -> None:
    """FLAC at 44100 Hz in stereo, then AC-3 at 48000 Hz in mono, with pictures before them."""
    first = replace(_FLAC, num_samples=70001)
    second = SoundSpec("", "ac3", "", rate=48000, num_channels=1, num_samples=80001, draw=_high_programme)
    with open_output(spec, path) as output:
        pictures = add_pictures(output)
        streams = [(add_stream(output, each), each) for each in (first, second)]
        packets = encode_pictures(pictures, 2.0)
        for stream, each in streams:
            packets += assign(encode(stream, each), stream)
        mux_in_order(output, packets)


def _high_programme(rate: int, num_channels: int, num_samples: int) -> Any:
    return sound.programme(rate, num_channels, num_samples)[:, ::-1]


def _write_pictures_alone(spec: SoundSpec, path: Path) -> None:
    with open_output(spec, path) as output:
        stream = add_pictures(output)
        output.mux(encode_pictures(stream, 1.0))


_LATE = 30870  # samples: 0.7 s at 44100 Hz
_TS_AT_TEN_SECONDS = {"output_ts_offset": "10"}

CONTAINER_CLIPS: dict[str, SoundSpec] = {
    "av_mp4": _aac("with video", "mp4", video=2.0),
    "av_mp4_late": _aac("sound begins 0.7 s after the pictures", "mp4", start=_LATE, delay=1024, video=2.5),
    "av_mov_late_pcm": replace(
        PCM_CLIPS["pcm_s24_mov"], special="sound begins 0.7 s after the pictures", start=33600, video=2.5
    ),
    "av_mkv_late": _aac(
        "sound begins 0.7 s after the pictures",
        "matroska",
        "mkv",
        start=_LATE,
        video=2.5,
        program_delay=1024,
        excess=UNKNOWN_PADDING,
    ),
    "av_mkv_late_flac": replace(
        LOSSLESS_CLIPS["flac_mkv"], special="sound begins 0.7 s after the pictures", start=_LATE, video=2.5
    ),
    "av_ts_at_ten_seconds": _aac(
        "time begins at 10 s",
        "mpegts",
        "ts",
        video=2.0,
        muxer_options=_TS_AT_TEN_SECONDS,
        delay=1024,
        excess=UNKNOWN_PADDING,
    ),
    "av_ts_late": _aac(
        "sound begins 0.7 s after the pictures",
        "mpegts",
        "ts",
        start=_LATE,
        video=2.5,
        delay=1024,
        excess=UNKNOWN_PADDING,
    ),
    "av_avi": replace(MPEG_CLIPS["mp3_avi"], special="with video", video=2.0),
    "mp2_ts_at_ten_seconds": replace(
        MPEG_CLIPS["mp2_ts"], special="time begins at 10 s", muxer_options=_TS_AT_TEN_SECONDS
    ),
    "m4a_late": _aac("time begins at 0.7 s", "ipod", "m4a", start=_LATE, delay=1024),
    "mkv_late_opus": replace(_OPUS, special="time begins at 0.7 s", start=33600),
    "gap_pcm_mkv": replace(_PCM, special="half a second without samples", rewrite=_skip),
    "gap_flac_mkv": replace(LOSSLESS_CLIPS["flac_mkv"], special="half a second without samples", rewrite=_skip),
    "gap_aac_mp4": _aac("half a second without samples", "mp4", rewrite=_skip),
    "gap_opus_mkv": replace(_OPUS, special="half a second without samples", rewrite=_skip),
    "gap_mp3_mkv": replace(MPEG_CLIPS["mp3_mkv"], special="half a second without samples", rewrite=_skip),
    "gap_aac_ts": _aac(
        "half a second without samples",
        "mpegts",
        "ts",
        rewrite=_skip,
        delay=1024,
        excess=UNKNOWN_PADDING,
    ),
    "tiny_pcm_wav": replace(PCM_CLIPS["pcm_s16_wav"], special="one sample", num_samples=1),
    "tiny_aac_m4a": replace(_AAC, special="less than a frame", num_samples=100),
    "tiny_mp3": replace(_MP3, special="less than a frame", num_samples=100),
    "silence_opus": replace(
        XIPH_CLIPS["opus_ogg"],
        special="no sound",
        program_snr_db=None,
        draw=lambda rate, channels, n: np.zeros((channels, n)),
    ),
}

_BROKEN: dict[str, Any] = {"is_damaged": True, "is_lossless": False, "excess": "packets are damaged or missing"}

DAMAGED_CLIPS: dict[str, SoundSpec] = {
    "damaged_mp3": replace(_MP3, special="zeros half-way", patch=_damaged_bytes, **_BROKEN),
    "damaged_flac": replace(_FLAC, special="zeros half-way", patch=_damaged_bytes, **_BROKEN),
    "damaged_aac_m4a": replace(_AAC, special="bits flipped", rewrite=_damaged, **_BROKEN),
    "damaged_vorbis": replace(_VORBIS, special="zeros half-way", patch=_damaged_bytes, **_BROKEN),
    "damaged_opus_mkv": replace(_OPUS, special="bits flipped", rewrite=_damaged, **_BROKEN),
    "lost_mp3_mkv": replace(MPEG_CLIPS["mp3_mkv"], special="four packets lost", rewrite=_lost, **_BROKEN),
    "lost_aac_m4a": replace(_AAC, special="four packets lost", rewrite=_lost, **_BROKEN),
    "truncated_wav": replace(PCM_CLIPS["pcm_s16_wav"], special="ends too early", patch=_truncated, **_BROKEN),
    "truncated_mp3": replace(_MP3, special="ends too early", patch=_truncated, **_BROKEN),
    "truncated_flac": replace(_FLAC, special="ends too early", patch=_truncated, **_BROKEN),
    "truncated_opus": replace(XIPH_CLIPS["opus_ogg"], special="ends too early", patch=_truncated, **_BROKEN),
}

# Not for every test: more than one stream of sound, or none.
STREAM_CLIPS: dict[str, SoundSpec] = {
    "two_streams_mkv": SoundSpec("pictures and two streams", "", "matroska", "mkv", build=_write_two_streams),
    "two_streams_mp4": SoundSpec("pictures and two streams", "", "mp4", build=_write_two_streams),
    "no_sound_mp4": SoundSpec("video only", "", "mp4", build=_write_pictures_alone),
}
