"""Every audio clip as a whole equals a linear decode, the output of the ``ffmpeg`` program, and the encoded samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import media_audio
import sound
from audio_exactness import Truth, find_truth, spec_of
from audio_oracles import ffmpeg_samples, linear_decode_samples
from media_audio import SOUND_CLIPS, SoundSpec
from media_audio_writing import as_float
from mediatensor.decoders import AudioDecoder

# Tolerance for metadata, and for time bases of milliseconds.
_A_TICK = 1.5e-3
# Length of the longest frame of all codecs. A frame of padding can remain if the file does not signal it.
_LONGEST_FRAME = 4608

_LOSSLESS = [name for name, spec in SOUND_CLIPS.items() if spec.is_lossless]
_LOSSY = [name for name, spec in SOUND_CLIPS.items() if not spec.is_lossless]


@pytest.fixture(scope="module", params=SOUND_CLIPS)
def truth(request: pytest.FixtureRequest, sound_folder: Path) -> Truth:
    return find_truth(request.param, sound_folder)


@pytest.mark.every_clip
def test_plain_decode(truth: Truth) -> None:
    """The samples are bit-identical. Only padding is left out that FFmpeg 8 reports, but does not trim."""
    expected, got = truth.linear, truth.whole
    assert got.data.dtype == torch.float32
    assert got.sample_rate == expected.rate
    assert got.data.shape[0] == expected.data.shape[0]
    num_trimmed = expected.num_samples - truth.num_samples
    assert 0 <= num_trimmed < _LONGEST_FRAME
    assert np.array_equal(truth.data, expected.data[:, : truth.num_samples])


def test_times(truth: Truth) -> None:
    got = truth.whole
    assert got.pts_seconds == pytest.approx(truth.linear.begin_seconds, abs=_A_TICK)
    assert got.duration_seconds == pytest.approx(truth.num_samples / truth.linear.rate, abs=1e-9)


def test_length(truth: Truth) -> None:
    spec = spec_of(truth)
    excess = truth.num_samples - spec.decoded_length - spec.delay
    if spec.excess:
        assert abs(excess) < _LONGEST_FRAME
        assert truth.num_samples == truth.linear.num_samples
    else:
        assert excess == 0


def test_metadata(truth: Truth) -> None:
    spec, got = spec_of(truth), truth.whole
    with truth.open() as decoder:
        metadata = decoder.metadata
        assert metadata.sample_rate == truth.linear.rate
        assert metadata.num_channels == spec.num_channels
        assert metadata.begin_stream_seconds == pytest.approx(got.pts_seconds, abs=_A_TICK)
        if metadata.duration_seconds is not None:
            # Only some containers count the delay, and bit rates of elementary streams are a guess.
            gap = 0.5 if truth.path.name.startswith("gap_") else 0.0
            assert metadata.duration_seconds == pytest.approx(got.duration_seconds + gap, abs=0.25)


@pytest.mark.parametrize("name", _LOSSLESS)
def test_lossless_is_what_was_encoded(name: str, sound_folder: Path) -> None:
    truth, spec = find_truth(name, sound_folder), SOUND_CLIPS[name]
    encoded = as_float(media_audio.encoded_samples(spec))
    length = min(truth.num_samples, spec.length)
    assert length > spec.length - _LONGEST_FRAME
    assert np.array_equal(truth.data[:, :length], encoded[:, :length])


@pytest.mark.parametrize("name", _LOSSY)
def test_every_channel_is_in_its_place_and_on_time(name: str, sound_folder: Path) -> None:
    """Each channel correlates most with the same encoded channel, after the delay that the file does not signal."""
    truth, spec = find_truth(name, sound_folder), SOUND_CLIPS[name]
    if name.startswith(("silence", "tiny")):
        pytest.skip("too little to correlate")
    drawn = replace(spec, rate=truth.linear.rate, num_samples=spec.decoded_length)
    if spec.decoded_rate:
        pytest.skip("the chirp of another rate is another chirp")
    source = drawn.signal()
    for channel in range(spec.num_channels):
        delay = sound.delay_of(truth.data[channel], source[channel], 3000)
        # Waves of the lowest frequencies are hundreds of samples long: their crests are flat.
        blur = 10 if channel == 3 and spec.num_channels >= 6 else 0
        assert abs(delay - spec.delay - spec.shift) <= blur, f"channel {channel}"
    if spec.num_channels > 1:
        shifted = np.roll(source, spec.delay, axis=1)[:, : truth.num_samples]
        data = truth.data[:, : shifted.shape[1]]
        shifted = shifted[:, : data.shape[1]]
        assert (np.corrcoef(data, shifted)[: len(data), len(data) :].argmax(axis=1) == np.arange(len(data))).all()


@pytest.mark.parametrize("name", SOUND_CLIPS)
def test_ffmpeg_program(name: str, sound_folder: Path, ffmpeg_program: str) -> None:
    truth, spec = find_truth(name, sound_folder), SOUND_CLIPS[name]
    if spec.no_program:
        pytest.skip(spec.no_program)
    theirs, rate = ffmpeg_samples(ffmpeg_program, truth.path, decoder=_decoder(spec))
    assert rate == truth.linear.rate
    theirs = theirs[:, spec.program_delay :]
    # Padding that only our decoder trims at the end.
    assert 0 <= theirs.shape[1] - truth.num_samples < _LONGEST_FRAME
    if not spec.excess and spec.container not in ("mp4", "mov", "ipod", "3gp"):
        assert theirs.shape[1] == truth.num_samples
    theirs = theirs[:, : truth.num_samples]
    if spec.program_snr_db is None:
        assert np.array_equal(truth.data, theirs)
    else:
        assert sound.snr_db(theirs, truth.data) >= spec.program_snr_db


def _decoder(spec: SoundSpec) -> str:
    # The Vorbis decoder of FFmpeg 5.1 decodes files of FFmpeg 8.1's encoder in another way than libvorbis.
    return "libvorbis" if spec.codec == "vorbis" else ""


_PEAKS = np.array([5000, 17003, 30011, 44444, 60000, 80001])


def _draw_impulses(rate: int, num_channels: int, num_samples: int) -> Any:
    signal = np.zeros((num_channels, num_samples))
    for channel in range(num_channels):
        signal[channel, _PEAKS + 100 * channel] = 0.9
    return signal


def _draw_sine(rate: int, num_channels: int, num_samples: int) -> Any:
    return np.stack([sound.sine(997.0, rate, num_samples, phase=1.0 + c) for c in range(num_channels)])


# One for every codec, in a file that signals the delay.
_TELLING = [
    "pcm_s16_wav", "flac", "alac_m4a", "wavpack_s16", "mp3_cbr_320k", "mp3_vbr", "mp3_mkv", "aac_m4a", "aac_mkv",
    "opus_ogg", "opus_webm", "opus_mp4", "vorbis_ogg", "vorbis_mkv", "ac3_mp4", "eac3_mkv", "adpcm_ima_mov",
]  # fmt: skip


@pytest.mark.parametrize("name", _TELLING)
def test_impulses_are_at_the_samples_where_they_were(name: str, sound_folder: Path) -> None:
    spec = replace(SOUND_CLIPS[name], draw=_draw_impulses, num_samples=0)
    with AudioDecoder(media_audio.make_as(spec, f"impulses_{name}", sound_folder)) as decoder:
        data = decoder.get_all_samples().data.numpy()
    for channel in range(spec.num_channels):
        for peak in _PEAKS:
            at = peak + 100 * channel
            assert 900 + int(np.abs(data[channel, at - 900 : at + 900]).argmax()) - 900 == 900


@pytest.mark.parametrize("name", _TELLING)
def test_phase_and_level_of_a_sine(name: str, sound_folder: Path) -> None:
    spec = replace(SOUND_CLIPS[name], draw=_draw_sine)
    with AudioDecoder(media_audio.make_as(spec, f"sine_{name}", sound_folder)) as decoder:
        data = decoder.get_all_samples().data.numpy()
    middle = slice(spec.rate // 2, 3 * spec.rate // 2)  # sudden onsets cost encoders bits
    for channel in range(spec.num_channels):
        amplitude, phase, snr_db = sound.sine_fit(data[channel, middle], 997.0, spec.rate)
        expected = 1.0 + channel + 2 * np.pi * 997.0 * middle.start / spec.rate
        assert (phase - expected + np.pi) % (2 * np.pi) - np.pi == pytest.approx(0, abs=0.02), "a sample is 0.14"
        assert amplitude == pytest.approx(0.5, rel=0.055), "LAME turns down by a twentieth"
        assert snr_db > 20


@pytest.mark.parametrize(
    ("name", "stream_index", "rate", "num_channels"),
    [
        ("two_streams_mkv", 1, 44100, 2),
        ("two_streams_mkv", 2, 48000, 1),
        ("two_streams_mp4", 1, 44100, 2),
        ("two_streams_mp4", 2, 48000, 1),
    ],
)
def test_every_stream_can_be_chosen(
    name: str, stream_index: int, rate: int, num_channels: int, sound_folder: Path
) -> None:
    path = media_audio.make(name, sound_folder)
    expected = linear_decode_samples(path, stream_index)
    with AudioDecoder(path, stream_index=stream_index) as decoder:
        assert decoder.stream_index == stream_index
        got = decoder.get_all_samples()
        assert (got.sample_rate, got.data.shape[0]) == (rate, num_channels)
        assert np.array_equal(got.data.numpy(), expected.data)


def test_the_default_stream_is_that_of_ffmpeg(sound_folder: Path) -> None:
    path = media_audio.make("two_streams_mkv", sound_folder)
    best = linear_decode_samples(path)
    with AudioDecoder(path) as decoder:
        assert decoder.metadata.sample_rate == best.rate
        assert np.array_equal(decoder.get_all_samples().data.numpy(), best.data)
