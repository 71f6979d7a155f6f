"""Audio decoders: sources, memory, threads of the codec, and errors."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import media_audio
from audio_exactness import Truth, assert_range, find_truth
from file_sources import SOURCES
from mediatensor.decoders import AudioDecoder, Demuxer
from mediatensor.encoders import AudioEncoder, Encoder
from mediatensor.errors import (
    DecodeError,
    InvalidArgumentError,
    MediaTensorError,
    OpenError,
    OutOfRangeError,
    StreamError,
)
from range_server import serve

_RANGES = [(1.2, 1.4), (0.0, 0.1), (1.9, 2.0), (1.2, 1.4), (0.6, 0.9)]


@pytest.fixture(scope="module", params=["flac", "mp3_vbr", "aac_m4a", "opus_ogg", "pcm_s16_wav"])
def truth(request: pytest.FixtureRequest, sound_folder: Path) -> Truth:
    return find_truth(request.param, sound_folder)


@pytest.fixture(scope="module")
def flac(sound_folder: Path) -> Truth:
    return find_truth("flac", sound_folder)


@pytest.mark.parametrize("kind", list(SOURCES))
def test_sources(kind: str, truth: Truth) -> None:
    with AudioDecoder(SOURCES[kind](truth.path)) as decoder:
        for start, stop in _RANGES:
            start, stop = start + truth.whole.pts_seconds, stop + truth.whole.pts_seconds
            assert_range(truth, decoder.get_samples_played_in_range(start, stop), start, stop)
        assert np.array_equal(decoder.get_all_samples().data.numpy(), truth.data)


def test_url(truth: Truth) -> None:
    with serve(truth.path.parent) as server, AudioDecoder(f"{server.url}/{truth.path.name}") as decoder:
        start, stop = truth.seconds(50_000), truth.seconds(52_000)
        assert_range(truth, decoder.get_samples_played_in_range(start, stop), start, stop)
        assert np.array_equal(decoder.get_all_samples().data.numpy(), truth.data)


def test_results_do_not_share_memory(truth: Truth) -> None:
    with truth.open() as decoder:
        begin = truth.seconds(0)
        first = decoder.get_samples_played_in_range(begin, begin + 0.5)
        first.data.fill_(7)
        whole = decoder.get_all_samples()
        assert np.array_equal(whole.data.numpy(), truth.data)
        whole.data.fill_(7)
        one, other = decoder.get_samples_played_in_ranges([(begin, begin + 0.5)] * 2)
        one.data.fill_(7)
        assert_range(truth, other, begin, begin + 0.5)


@pytest.mark.parametrize("num_threads", [0, 1, 4])
def test_codec_threads_do_not_matter(num_threads: int, truth: Truth) -> None:
    with truth.open(num_ffmpeg_threads=num_threads) as decoder:
        assert np.array_equal(decoder.get_all_samples().data.numpy(), truth.data)


# Errors


@pytest.mark.parametrize("num_threads", [None, 0, 1, 2, 3, 8])
def test_damage_at_the_end_is_reported_with_any_number_of_threads(num_threads: int | None, tmp_path: Path) -> None:
    path = tmp_path / "sound.flac"
    # Long enough for several threads by default.
    noise = torch.rand(1, 96_000, generator=torch.Generator().manual_seed(0)) - 0.5
    AudioEncoder(noise, sample_rate=8000).to_file(path)
    with AudioDecoder(path, num_ffmpeg_threads=num_threads) as decoder:
        assert decoder.get_all_samples().data.shape == (1, 96_000)
    path.write_bytes(path.read_bytes()[:-200])
    with AudioDecoder(path, num_ffmpeg_threads=num_threads) as decoder, pytest.raises(DecodeError):
        decoder.get_all_samples()


@pytest.mark.parametrize("num_threads", [1, 2, 8])
@pytest.mark.parametrize("number", [0, 9, -1])
def test_packets_without_samples_are_damage(number: int, num_threads: int, tmp_path: Path) -> None:
    """Set all bits of a packet of ALAC, so that it has no element, which the codec does not report."""
    path = tmp_path / "sound.m4a"
    noise = torch.rand(1, 96_000, generator=torch.Generator().manual_seed(0)) - 0.5
    encoder = Encoder()
    audio = encoder.add_audio(sample_rate=8000, num_channels=1, codec="alac")
    with encoder.open_file(path):
        audio.add_samples(noise)
    packet = list(Demuxer(path, streams="audio"))[number]
    damaged = path.read_bytes().replace(packet.data, b"\xff" * len(packet.data))
    assert AudioDecoder(path, num_ffmpeg_threads=num_threads).get_all_samples().data.shape == (1, 96_000)
    with AudioDecoder(damaged, num_ffmpeg_threads=num_threads) as decoder:
        with pytest.raises(DecodeError, match="no samples"):
            decoder.get_all_samples()
        assert decoder.get_samples_played_in_range(2.0, 2.5).data.shape == (1, 4000)


@pytest.mark.parametrize("sample_rate", [22050, 48000])
def test_joined_files_of_other_rates_and_channels_are_whole(sample_rate: int) -> None:
    parts = [(22050, 2), (44100, 2), (44100, 1)]
    sounds = [AudioEncoder(torch.full((channels, 11520), 0.5), sample_rate=rate) for rate, channels in parts]
    joined = torch.cat([sound.to_tensor("mp3") for sound in sounds])
    length = AudioDecoder(joined, sample_rate=sample_rate).get_all_samples().data.shape[1]
    least = sum(11520 * sample_rate // rate for rate, _ in parts)
    padding = sum(4 * 1152 * sample_rate // rate for rate, _ in parts)
    assert least <= length <= least + padding


def write_flac(path: Path) -> list[bytes]:
    """Write 12 s of noise, and return the frames of the file."""
    noise = torch.rand(1, 96_000, generator=torch.Generator().manual_seed(0)) - 0.5
    AudioEncoder(noise, sample_rate=8000).to_file(path)
    return [packet.data for packet in Demuxer(path, streams="audio")]


@pytest.mark.parametrize("num_threads", [1, 4])
@pytest.mark.parametrize("number", [0, 2, 11, -5, -3, -2, -1])
@pytest.mark.parametrize("is_emptied", [True, False])
def test_frames_that_ffmpeg_leaves_out_are_damage(
    number: int, num_threads: int, is_emptied: bool, tmp_path: Path
) -> None:
    """FFmpeg's parser of FLAC returns a damaged frame as a part of other packets, or not at all."""
    path = tmp_path / "sound.flac"
    frames = write_flac(path)
    spoiled = bytes(len(frames[number])) if is_emptied else bytes([frames[number][0] ^ 1]) + frames[number][1:]
    damaged = path.read_bytes().replace(frames[number], spoiled)
    whole = AudioDecoder(path).get_all_samples().data
    with AudioDecoder(damaged, num_ffmpeg_threads=num_threads) as decoder:
        with pytest.raises(DecodeError):
            decoder.get_all_samples()
        for start in range(0, 96_000, 3000):
            with contextlib.suppress(DecodeError):
                samples = decoder.get_samples_played_in_range(start / 8000, (start + 3000) / 8000).data
                assert torch.equal(samples, whole[:, start : start + 3000])


def test_flac_that_was_cut_between_frames_has_a_gap(tmp_path: Path) -> None:
    """A copy of a stream keeps the numbers of frames."""
    path = tmp_path / "sound.flac"
    frames = write_flac(path)
    whole, data = AudioDecoder(path).get_all_samples().data, path.read_bytes()
    length = 576  # samples of a frame
    for first, stop in ((10, 14), (0, 5)):
        with AudioDecoder(data.replace(b"".join(frames[first:stop]), b"")) as decoder:
            missing = slice(first * length, stop * length)
            kept = [whole[:, : missing.start], whole[:, missing.stop :]]
            assert torch.equal(decoder.get_all_samples().data, torch.cat(kept, 1))
            after = decoder.get_samples_played_in_range((missing.stop + 99) / 8000, 11.0).data
            assert torch.equal(after, whole[:, missing.stop + 99 : 88_000])


def test_samples_after_a_lost_packet_keep_their_times(tmp_path: Path) -> None:
    spec = replace(
        media_audio.SOUND_CLIPS["mp3_mp4"], rewrite=lambda packets: [*packets[:30], *packets[31:]], is_damaged=True
    )
    lost = media_audio.make_as(spec, "lost_packet", tmp_path)
    whole = AudioDecoder(media_audio.make("mp3_mp4", tmp_path)).get_samples_played_in_range(1.5, 1.6)
    with AudioDecoder(lost) as decoder:
        for _, after in (
            decoder.get_samples_played_in_ranges([(0.2, 1.5), (1.5, 1.6)]),  # decoded as one range
            [None, decoder.get_samples_played_in_range(1.5, 1.6)],
        ):
            assert torch.equal(after.data, whole.data)


@pytest.mark.parametrize("content", [b"", b"hello, world\n" * 100, b"fLaC" + bytes(200), b"RIFF\xff\xff\xff\x7fWAVE"])
def test_not_media(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "not_media"
    path.write_bytes(content)
    with pytest.raises((OpenError, StreamError)):
        AudioDecoder(path).get_all_samples()


def test_streams_that_are_not_sound(sound_folder: Path) -> None:
    with pytest.raises(StreamError, match=r"audio"):
        AudioDecoder(media_audio.make("no_sound_mp4", sound_folder))
    path = media_audio.make("two_streams_mp4", sound_folder)
    with pytest.raises(StreamError, match=r"0"):
        AudioDecoder(path, stream_index=0)
    with pytest.raises(StreamError, match=r"40"):
        AudioDecoder(path, stream_index=40)
    with pytest.raises((StreamError, InvalidArgumentError)):
        AudioDecoder(path, stream_index=-2)


@pytest.mark.parametrize(
    ("start", "stop"), [(1.0, 0.5), (float("nan"), 1.0), (0.0, float("nan")), (float("inf"), None), (0.0, float("inf"))]
)
def test_impossible_ranges(start: float, stop: float | None, flac: Truth) -> None:
    with flac.open() as decoder:
        with pytest.raises(InvalidArgumentError):
            decoder.get_samples_played_in_range(start, stop)
        with pytest.raises(InvalidArgumentError):
            decoder.get_samples_played_in_ranges([(0.0, 0.1), (start, stop)])


def test_empty_ranges_and_lists(flac: Truth) -> None:
    with flac.open() as decoder:
        assert decoder.get_samples_played_in_ranges([]) == []
        got = decoder.get_samples_played_in_range(0.5, 0.5)
        assert got.data.shape == (2, 0)
        assert got.duration_seconds == 0
        with pytest.raises(OutOfRangeError, match="1000"):
            decoder.get_samples_played_in_range(1000.0)
        with pytest.raises(OutOfRangeError):
            decoder.get_samples_played_in_ranges([(0.0, 0.1), (1000.0, 1001.0)])


def test_defaults_are_the_whole(flac: Truth) -> None:
    with flac.open() as decoder:
        assert np.array_equal(decoder.get_samples_played_in_range().data.numpy(), flac.data)


def test_sizes_in_headers_are_not_believed(sound_folder: Path) -> None:
    """If a header states hours for two seconds of audio, the existing samples are returned."""
    data = bytearray(media_audio.make("pcm_s16_wave_module", sound_folder).read_bytes())
    size = int.from_bytes(data[40:44], "little")
    for at in (4, 40):
        data[at : at + 4] = (0xFFFFFF00).to_bytes(4, "little")
    with AudioDecoder(bytes(data)) as decoder:
        assert decoder.get_all_samples().data.shape == (2, size // 4)
        assert decoder.get_samples_played_in_range(1.0, 5000.0).data.shape == (2, size // 4 - 44100)
        with pytest.raises(OutOfRangeError):
            decoder.get_samples_played_in_range(4000.0, 5000.0)


@pytest.mark.parametrize("name", list(media_audio.DAMAGED_CLIPS))
def test_damaged_bytes_never_crash(name: str, sound_folder: Path) -> None:
    """Decode or raise an error of this library, after more random damage in files that are damaged already."""
    data = bytearray(media_audio.make(name, sound_folder).read_bytes())
    draw = random.Random(name)
    for _ in range(4):
        for _ in range(30):
            data[draw.randrange(len(data))] = draw.randrange(256)
        with contextlib.suppress(MediaTensorError), AudioDecoder(bytes(data)) as decoder:
            decoder.get_samples_played_in_range(0.5, 0.6)
            decoder.get_all_samples()
