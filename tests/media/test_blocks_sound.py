"""Decoding blocks return the samples of a plain decode and of `AudioDecoder`, at any rate."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
import torch
from torch import Tensor

import media
import media_audio
from mediatensor.decoders import (
    AudioConverter,
    AudioDecoder,
    AudioPacketDecoder,
    AudioStream,
    Demuxer,
    RawAudioSamples,
    VideoStream,
)
from mediatensor.errors import InvalidArgumentError

# Clips whose containers do not trim audio, so `AudioDecoder` returns all samples of the codec.
WHOLE = ["pcm_u8_wav", "pcm_s16_wav", "pcm_s24_wav", "pcm_f64_wav", "pcm_s16_wav_71", "flac", "flac_s24", "flac_71"]
WHOLE += ["wavpack_s16", "tta", "mp3_cbr"]
DTYPES = {"u8": torch.uint8, "s16": torch.int16, "s32": torch.int32, "flt": torch.float32, "dbl": torch.float64}


def sound(demuxer: Demuxer) -> AudioPacketDecoder:
    (stream,) = [stream for stream in demuxer.streams if isinstance(stream, AudioStream)]
    return stream.make_decoder()


def raw_samples(path: Path) -> list[RawAudioSamples]:
    with Demuxer(path, streams="audio") as demuxer, sound(demuxer) as decoder:
        return [raw for packet in demuxer for raw in decoder.decode(packet)] + decoder.drain()


def converted(raw: list[RawAudioSamples], converter: AudioConverter) -> Tensor:
    return torch.cat([*(converter.convert(samples).data for samples in raw), converter.drain().data], dim=1)


@pytest.mark.parametrize("name", WHOLE)
def test_samples_match_decoder(name: str, folder: Path) -> None:
    path = media_audio.make(name, folder)
    raw = raw_samples(path)
    expected = AudioDecoder(path).get_all_samples()
    assert torch.equal(converted(raw, AudioConverter()), expected.data)
    assert raw[0].pts_seconds == pytest.approx(expected.pts_seconds)
    rate, channels = expected.sample_rate // 2, 1
    resampled = AudioDecoder(path, sample_rate=rate, num_channels=channels).get_all_samples()
    assert torch.equal(converted(raw, AudioConverter(sample_rate=rate, num_channels=channels)), resampled.data)


@pytest.mark.parametrize("name", ["pcm_u8_wav", "pcm_s24_wav", "pcm_f64_wav", "flac", "mp3_cbr", "pcm_s16_wav_71"])
def test_raw_samples_match_the_codec(name: str, folder: Path) -> None:
    path = media_audio.make(name, folder)
    found = raw_samples(path)
    with av.open(str(path)) as container:
        for raw, frame in zip(found, container.decode(audio=0), strict=True):
            assert raw.data.dtype is DTYPES[frame.format.name.removesuffix("p")]
            assert raw.data.shape == (raw.num_channels, raw.num_samples) == (frame.layout.nb_channels, frame.samples)
            assert raw.data.is_contiguous()
            first = np.frombuffer(frame.planes[0], raw.data.numpy().dtype, frame.samples)
            step = 1 if frame.format.is_planar else frame.layout.nb_channels
            assert np.array_equal(raw.data[0].numpy()[: len(first) // step], first[::step][: len(first) // step])
            assert raw.duration_seconds == pytest.approx(frame.samples / frame.sample_rate)


def test_times_of_converted_samples_follow_each_other(folder: Path) -> None:
    converter = AudioConverter(sample_rate=8000)
    parts = [converter.convert(raw) for raw in raw_samples(media_audio.make("flac", folder))] + [converter.drain()]
    ends = [part.pts_seconds + part.duration_seconds for part in parts]
    assert [part.pts_seconds for part in parts[1:]] == pytest.approx(ends[:-1])
    assert {part.sample_rate for part in parts} == {8000}
    assert converter.drain().data.shape == (parts[0].data.shape[0], 0)


def test_audio_after_a_seek_is_unchanged(folder: Path) -> None:
    path = media_audio.make("flac", folder)
    whole = AudioDecoder(path).get_all_samples()
    with Demuxer(path, streams="audio") as demuxer, sound(demuxer) as decoder:
        first, converter = next(demuxer), AudioConverter()
        converter.convert(decoder.decode(first)[0])
        demuxer.seek(0.5)
        late = next(demuxer)
        with pytest.raises(InvalidArgumentError, match=r"seeked since the last reset\(\) of this decoder"):
            decoder.decode(late)
        decoder.reset()
        raw = decoder.decode(late)[0]
        assert 0 < raw.pts_seconds <= 0.5
        with pytest.raises(InvalidArgumentError, match=r"seeked since the last reset\(\) of this converter"):
            converter.convert(raw)
        converter.reset()
        samples = converter.convert(raw)
    begin = round((samples.pts_seconds - whole.pts_seconds) * whole.sample_rate)
    assert torch.equal(samples.data, whole.data[:, begin : begin + raw.num_samples])


def test_audio_and_video_of_one_file(folder: Path) -> None:
    path = media.make("audio_beside_video", folder)
    with Demuxer(path, streams="all") as demuxer:
        kinds = {stream.index: stream for stream in demuxer.streams}
        assert {type(stream) for stream in kinds.values()} == {AudioStream, VideoStream}
        decoders = {index: stream.make_decoder() for index, stream in kinds.items()}
        counts = dict.fromkeys(kinds, 0)
        for packet in demuxer:
            counts[packet.stream_index] += len(decoders[packet.stream_index].decode(packet))
        for index, decoder in decoders.items():
            counts[index] += len(decoder.drain())
    with av.open(str(path)) as container:
        expected = dict.fromkeys(kinds, 0)
        for packet in container.demux():
            expected[packet.stream.index] += len(packet.decode())
    assert counts == expected


def test_wrong_use_of_the_converter(folder: Path) -> None:
    raw = raw_samples(media_audio.make("pcm_s16_wav", folder))
    converter = AudioConverter()
    with pytest.raises(RuntimeError, match="nothing to drain"):
        converter.drain()
    converter.convert(raw[0])
    other = RawAudioSamples(raw[0].data, raw[0].sample_rate + 1, 0.0, 0.0)
    with pytest.raises(InvalidArgumentError, match="The samples change from"):
        converter.convert(other)
    converter.drain()
    with pytest.raises(RuntimeError, match="has been drained"):
        converter.convert(raw[0])
    converter.reset()
    assert converter.convert(raw[0]).data.shape == raw[0].data.shape
    for arguments in ({"sample_rate": 0}, {"num_channels": 0}, {"sample_rate": 1.5}, {"num_channels": 100}):
        with pytest.raises(RuntimeError, match=next(iter(arguments))):
            AudioConverter(**arguments)
    with pytest.raises(RuntimeError, match="Couldn't initialize SwrContext"):
        AudioConverter(num_channels=15).convert(raw[0])
    with pytest.raises(InvalidArgumentError, match="must be RawAudioSamples"):
        AudioConverter().convert(raw[0].data)
