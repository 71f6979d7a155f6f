"""The oracles for audio agree with formulas and with each other, and the clips have the described properties."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest

import media_audio
import media_audio_surgery as surgery
import sound
from audio_exactness import find_truth
from audio_oracles import linear_decode_samples
from media_audio import ALL_CLIPS, SOUND_CLIPS
from media_audio_writing import as_float, quantised, sample_format

_LONGEST_FRAME = 4608


# Signals and comparisons


def test_snr() -> None:
    signal = sound.sine(100, 8000, 8000, amplitude=1.0)
    assert sound.snr_db(signal, signal) == float("inf")
    assert sound.snr_db(signal, signal * 1.1) == pytest.approx(20)
    assert sound.snr_db(signal, np.zeros(8000)) == pytest.approx(0)


def test_seconds_of_a_staircase_differ() -> None:
    signal = sound.staircase(8000, 60 * 8000)
    for second in (0, 7, 59):
        piece = signal[second * 8000 :][:8000]
        low, high = sound.staircase_tones(second)
        assert sound.sine_fit(piece, low, 8000)[0] == pytest.approx(0.3, rel=0.02)
        assert sound.sine_fit(piece, high, 8000)[0] == pytest.approx(0.15, rel=0.02)
    tones = [sound.staircase_tones(second) for second in range(24 * 24)]
    assert len(set(tones)) == len(tones)
    assert all(one[0] != other[0] for one, other in pairwise(tones))


@pytest.mark.parametrize("fmt", ["u8", "s16", "s32", "flt", "dbl"])
def test_rounding_is_within_half_a_level(fmt: str) -> None:
    signal = sound.noise(1000)[None]
    levels = {"u8": 128, "s16": 32768}.get(fmt, 2.0**24)
    assert sound.largest_difference(as_float(quantised(signal, fmt)), signal) <= 0.51 / levels


# The clips


@pytest.mark.parametrize("name", list(SOUND_CLIPS))
@pytest.mark.slow
def test_clips_hold_what_was_drawn(name: str, sound_folder: Path) -> None:
    """Clips have the length of the signal, except for delay and padding, and its level."""
    spec, linear = SOUND_CLIPS[name], find_truth(name, sound_folder).linear
    assert linear.num_failed == 0
    assert linear.rate == (spec.decoded_rate or spec.rate)
    assert len(linear.data) == spec.num_channels
    assert abs(linear.num_samples - spec.decoded_length - spec.delay) < _LONGEST_FRAME
    if spec.length > 1000 and spec.draw is sound.programme:
        levels = np.sqrt(np.mean(linear.data.astype(np.float64) ** 2, axis=1))
        assert ((levels > 0.1) & (levels < 0.4)).all()


def test_clips_are_cached(sound_folder: Path) -> None:
    path = media_audio.make("mp3_cbr", sound_folder)
    written = path.stat().st_mtime_ns
    assert media_audio.make("mp3_cbr", sound_folder) == path
    assert path.stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("name", "has_header"),
    [("mp3_cbr", True), ("mp3_vbr", True), ("mp3_vbr_no_header", False), ("mp3_cbr_no_header", False)],
)
def test_headers_of_mp3(name: str, has_header: bool, sound_folder: Path) -> None:
    data = media_audio.make(name, sound_folder).read_bytes()
    frames = surgery.mp3_frames(data)
    assert frames[-1][0] + frames[-1][1] == len(data), "frames lie next to each other up to the end"
    sizes = {size for _, size in frames[1:]}
    assert (len(sizes) > 2) == ("vbr" in name)
    start = data[frames[0][0] :][:200]
    assert (b"Xing" in start or b"Info" in start) == has_header


@pytest.mark.parametrize("name", ["mp3_reservoir_22k", "mp3_reservoir_16k", "mp3_vbr"])
def test_the_bit_reservoir_is_used(name: str, sound_folder: Path) -> None:
    """The first bits of the side information state how many bytes before the frame its data begin."""
    data = media_audio.make(name, sound_folder).read_bytes()
    frames = surgery.mp3_frames(data)
    is_version_1 = name == "mp3_vbr"
    reach = [data[at + 4] << 1 | data[at + 5] >> 7 if is_version_1 else data[at + 4] for at, _ in frames]
    assert max(reach) > (250 if is_version_1 else 150)


def test_the_picture_is_in_front(sound_folder: Path) -> None:
    data = media_audio.make("mp3_picture", sound_folder).read_bytes()
    assert surgery.id3_size(data) > 300_000
    with av.open(str(media_audio.make("mp3_picture", sound_folder))) as container:
        assert [stream.type for stream in container.streams] == ["audio", "video"]


def test_the_seek_table_points_at_frames(sound_folder: Path) -> None:
    plain = media_audio.make("flac_small_blocks", sound_folder).read_bytes()
    data = media_audio.make("flac_seek_table", sound_folder).read_bytes()
    added = len(data) - len(plain)
    assert data[42] == 3, "the second block is the table"
    assert added % 18 == 4
    assert (added - 4) // 18 == 5, "a point for every half second of two"
    with av.open(str(media_audio.make("flac_seek_table", sound_folder)), options={"fflags": "fastseek"}) as container:
        points = [(entry.timestamp, entry.pos) for entry in container.streams.audio[0].index_entries]
        packets = {packet.pts: packet.pos for packet in container.demux(audio=0) if packet.size}
    assert len(points) == 5
    assert all(packets[pts] == position for pts, position in points)
    with av.open(str(media_audio.make("flac_small_blocks", sound_folder))) as container:
        num_packets = sum(packet.size > 0 for packet in container.demux(audio=0))
    assert num_packets == -(-SOUND_CLIPS["flac"].length // 256)


@pytest.mark.parametrize(("name", "count"), [("opus_2ms_ogg", 120), ("opus_60ms_webm", 960 * 3)])
def test_opus_frames_are_of_the_length(name: str, count: int, sound_folder: Path) -> None:
    linear = linear_decode_samples(media_audio.make(name, sound_folder))
    assert {after - before for before, after in pairwise(linear.frame_starts[3:])} == {count}


@pytest.mark.parametrize("name", [name for name in SOUND_CLIPS if name.startswith("gap_")])
def test_gaps_are_in_the_times(name: str, sound_folder: Path) -> None:
    linear = linear_decode_samples(media_audio.make(name, sound_folder))
    times = [time for time in linear.frame_seconds if time is not None]
    lengths = np.diff(linear.frame_starts) / linear.rate
    jumps = np.diff(times) - lengths[: len(times) - 1]
    assert np.count_nonzero(np.abs(jumps) > 0.01) == 1
    assert jumps.max() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("name", [name for name in SOUND_CLIPS if "late" in name or "at_ten_seconds" in name])
def test_sound_begins_late(name: str, sound_folder: Path) -> None:
    linear, spec = linear_decode_samples(media_audio.make(name, sound_folder)), SOUND_CLIPS[name]
    seconds = 10.0 if "at_ten_seconds" in name else 0.7
    assert linear.begin_seconds + spec.delay / spec.rate == pytest.approx(seconds, abs=2e-3)


@pytest.mark.parametrize("name", [name for name, spec in ALL_CLIPS.items() if spec.is_damaged])
def test_damage_is_heard(name: str, sound_folder: Path) -> None:
    spec, damaged = ALL_CLIPS[name], linear_decode_samples(media_audio.make(name, sound_folder))
    sane = media_audio.make_as(replace(spec, rewrite=None, patch=None), f"sane_{name}", sound_folder)
    whole = linear_decode_samples(sane)
    assert damaged.num_samples < whole.num_samples or sound.snr_db(whole.data, damaged.data) < 40
    quarter = damaged.num_samples // 4
    assert np.array_equal(damaged.data[:, :quarter], whole.data[:, :quarter])


def test_sample_formats_are_those_asked_for() -> None:
    assert sample_format(SOUND_CLIPS["pcm_s24_wav"]) == "s32"
    assert sample_format(SOUND_CLIPS["aac_m4a"]) == "fltp"
