"""Mixing to fewer channels: FFmpeg's sum, as in torchcodec, or the mean, which never clips."""

from __future__ import annotations

import gc
import pickle
import wave
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import media_audio
from audio_oracles import ffmpeg_samples
from mediatensor.cli import main
from mediatensor.datasets import AudioClips, VideoAudioClips
from mediatensor.decoders import (
    AudioConverter,
    AudioDecoder,
    AudioStreamHeaderMetadata,
    AudioVideoDecoder,
    Demuxer,
    get_container_metadata,
)
from mediatensor.distributed import AudioReader
from mediatensor.encoders import AudioEncoder, Encoder
from mediatensor.errors import InvalidArgumentError

_RATE = 16_000


def _loud(num_channels: int) -> Tensor:
    """Return two seconds of tones at 0.95 of full scale, which are nearly the same in all channels."""
    seconds = torch.arange(2 * _RATE) / _RATE
    common, own = torch.sin(2 * torch.pi * 440 * seconds), torch.sin(2 * torch.pi * 100 * seconds)
    return torch.stack([0.9 * common + 0.05 * own * (-1) ** channel for channel in range(num_channels)])


@pytest.fixture(scope="module")
def stereo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("downmix") / "stereo.flac"
    AudioEncoder(_loud(2), sample_rate=_RATE).to_file(path)
    return path


def _decoded(path: Path, **arguments: Any) -> Tensor:
    with AudioDecoder(path, **arguments) as decoder:
        return decoder.get_all_samples().data


def test_mono_is_the_sum_by_default_and_the_mean_if_asked_for(stereo: Path) -> None:
    mean = _decoded(stereo).mean(0, keepdim=True)
    torch.testing.assert_close(_decoded(stereo, num_channels=1), mean * 2**0.5, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(_decoded(stereo, num_channels=1, downmix="sum"), mean * 2**0.5, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(_decoded(stereo, num_channels=1, downmix="mean"), mean, rtol=1e-5, atol=1e-6)


def test_the_mean_is_resampled_and_cut_like_the_sum(stereo: Path) -> None:
    sums = AudioDecoder(stereo, num_channels=1, sample_rate=8_000)
    means = pickle.loads(pickle.dumps(AudioDecoder(stereo, num_channels=1, sample_rate=8_000, downmix="mean")))
    with sums, means:
        for start, stop in ((0.0, None), (0.5, 1.25)):
            one = sums.get_samples_played_in_range(start, stop).data
            other = means.get_samples_played_in_range(start, stop).data
            torch.testing.assert_close(other, one / 2**0.5, rtol=1e-5, atol=1e-6)
        for one_chunk, other_chunk in zip(sums.chunks(0.5), means.chunks(0.5), strict=True):
            torch.testing.assert_close(other_chunk.data, one_chunk.data / 2**0.5, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("clip", "num_channels"), [("pcm_s24_wav", 1), ("pcm_s24_wav", 2), ("pcm_s16_wav_71", 6)])
def test_the_mean_is_scaled_as_the_ffmpeg_program_does_for_whole_numbers(
    clip: str, num_channels: int, sound_folder: Path, ffmpeg_program: str
) -> None:
    path = media_audio.make(clip, sound_folder)
    sums, _ = ffmpeg_samples(ffmpeg_program, path, num_channels=num_channels)
    mean = _decoded(path, num_channels=num_channels, downmix="mean").numpy()
    loudest = float(_decoded(path).abs().max())
    ratio = float((sums * mean).sum() / (mean * mean).sum())
    assert ratio > 1.5, "the weights add up to more than 1"
    assert np.allclose(sums, ratio * mean, atol=1e-5), "and all channels are scaled alike"
    assert np.abs(mean).max() <= loudest + 1e-6


@pytest.mark.parametrize(("num_channels", "wanted"), [(2, None), (2, 2), (1, None), (1, 1), (1, 2)])
def test_other_channels_stay_as_they_are(num_channels: int, wanted: int | None, tmp_path: Path) -> None:
    AudioEncoder(_loud(num_channels), sample_rate=_RATE).to_file(tmp_path / "same.flac")
    sums = _decoded(tmp_path / "same.flac", num_channels=wanted)
    assert torch.equal(_decoded(tmp_path / "same.flac", num_channels=wanted, downmix="mean"), sums)


_MADE: dict[str, Callable[..., Any]] = {
    "AudioDecoder": AudioDecoder,
    "AudioVideoDecoder": AudioVideoDecoder,
    "AudioClips": lambda path, **options: AudioClips([path], **options),
    "VideoAudioClips": lambda path, **options: VideoAudioClips([path], **options),
    "AudioReader": lambda path, **options: AudioReader(**options)({"path": [str(path)]}),
    "AudioConverter": lambda path, **options: AudioConverter(**options),
}


@pytest.mark.parametrize("name", list(_MADE))
@pytest.mark.parametrize("downmix", ["average", "", None, 1])
def test_other_values_are_refused(name: str, downmix: Any, video: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"downmix.*sum.*mean"):
        _MADE[name](video, num_channels=1, downmix=downmix)


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("downmix") / "video.mkv"
    encoder = Encoder()
    pictures = encoder.add_video(height=32, width=32, frame_rate=10)
    sound = encoder.add_audio(sample_rate=_RATE, num_channels=2, codec="flac")
    with encoder.open_file(path):
        pictures.add_frames(torch.zeros(20, 3, 32, 32, dtype=torch.uint8))
        sound.add_samples(_loud(2))
    return path


def test_datasets_and_decoders_of_videos_take_it(video: Path, stereo: Path) -> None:
    mean = _decoded(stereo).mean(0, keepdim=True)
    form: dict[str, Any] = {"num_channels": 1, "downmix": "mean"}
    close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-4)
    whole = AudioClips([stereo], AudioDecoder.get_all_samples, **form)
    close(pickle.loads(pickle.dumps(whole))[0].audio.data, mean)
    clip = VideoAudioClips([video], seconds_per_clip=1.0, **form)[0].audio
    first = round(clip.pts_seconds * _RATE)
    close(clip.data, mean[:, first : first + _RATE])
    with AudioVideoDecoder(video, **form) as decoder:
        close(decoder.get_played_in_range(0.5, 1.5).samples.data, mean[:, _RATE // 2 : _RATE * 3 // 2])
    close(torch.from_numpy(AudioReader(**form)({"path": [str(stereo)]})["audio"][0]), mean)
    with Demuxer(stereo, streams="audio") as demuxer:
        packets, converter = demuxer.streams[0].make_decoder(), AudioConverter(**form)
        parts = [converter.convert(raw).data for packet in demuxer for raw in packets.decode(packet)]
    close(torch.cat(parts, dim=1), mean)


@pytest.mark.parametrize("num_channels", [2, 6])
def test_extracted_sound_is_not_clipped(num_channels: int, tmp_path: Path) -> None:
    AudioEncoder(_loud(num_channels), sample_rate=_RATE).to_file(tmp_path / "loud.flac")
    assert (
        main(["extract", str(tmp_path / "loud.flac"), "-o", str(tmp_path / "mono"), "--audio", "--num-channels", "1"])
        == 0
    )
    (path,) = (tmp_path / "mono").rglob("*.wav") if (tmp_path / "mono").is_dir() else [tmp_path / "mono.wav"]
    with wave.open(str(path)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    assert len(samples) == 2 * _RATE
    assert np.abs(samples.astype(int)).max() < 32_000
    if num_channels == 2:
        assert np.allclose(samples / 32768, _loud(2).mean(0).numpy(), atol=1e-4)


@pytest.mark.parametrize("extension", ["wav", "flac", "m4a", "mp3", "opus", "mka"])
@pytest.mark.parametrize(("num_channels", "wanted"), [(2, 1), (6, 2), (6, 1)])
def test_encoded_sound_is_mixed_to_the_mean(extension: str, num_channels: int, wanted: int, tmp_path: Path) -> None:
    """For encoders of floats, samples were once mixed 1.4 to 3.4 times as loud as for encoders of integers."""
    path = tmp_path / f"mixed.{extension}"
    AudioEncoder(_loud(num_channels), sample_rate=_RATE).to_file(path, num_channels=wanted)
    data = _decoded(path)
    assert data.shape[0] == wanted
    assert 0.8 < float(data.abs().max()) < 1.05, "as loud as one channel; lossy codecs overshoot a little"


def test_an_encoder_of_streams_mixes_to_the_mean(tmp_path: Path) -> None:
    encoder = Encoder()
    sound = encoder.add_audio(sample_rate=_RATE, num_channels=2, out_num_channels=1, codec="aac")
    with encoder.open_file(tmp_path / "stream.m4a"):
        sound.add_samples(_loud(2))
    assert float(_decoded(tmp_path / "stream.m4a").abs().max()) < 1.05


@pytest.fixture(scope="module")
def listed_channels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two mp4 files that list their eight channels: in the usual order, and in another one."""
    folder = tmp_path_factory.mktemp("listed")
    encoder = Encoder()
    sound = encoder.add_audio(sample_rate=8_000, num_channels=8, codec="pcm_s16le")
    with encoder.open_file(folder / "usual.mp4"):
        sound.add_samples(_LEVELS[:, None].expand(8, 4_000))
    content = (folder / "usual.mp4").read_bytes()
    box = content.index(b"chnl")
    listed = bytes([1, 0, 1, 0, 3, 2, 5, 4, 7, 6])  # there are channels, the position of each is listed
    (folder / "unusual.mp4").write_bytes(content[: box + 8] + listed + content[box + 8 + len(listed) :])
    return folder


_LEVELS = (torch.arange(8) + 1) / 16


@pytest.mark.parametrize(("name", "layout"), [("usual", "7.1"), ("unusual", None)])
def test_files_that_list_their_channels_are_read_again_and_again(
    listed_channels: Path, name: str, layout: str | None
) -> None:
    # The process crashed, since PyAV frees the list of channels that FFmpeg frees as well.
    path = listed_channels / f"{name}.mp4"
    for _ in range(20):
        with Demuxer(path, streams="audio") as demuxer:
            packets = demuxer.streams[0].make_decoder()
            blocks = [raw.data for packet in demuxer for raw in packets.decode(packet)]
        assert torch.equal(torch.cat(blocks, 1).float() / 2**15, _LEVELS[:, None].expand(8, 4_000))
        stream = get_container_metadata(path).streams[0]
        assert isinstance(stream, AudioStreamHeaderMetadata)
        assert (stream.num_channels, stream.channel_layout) == (8, layout)
        assert torch.equal(_decoded(path), _LEVELS[:, None].expand(8, 4_000))
        assert _decoded(path, num_channels=2).shape == (2, 4_000)
        gc.collect()
