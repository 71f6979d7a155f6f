"""Joined files: every method returns the result of a linear decode of the whole file."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import media_audio
import sound
from audio_exactness import Truth, assert_range
from audio_oracles import frame_samples, linear_decode_samples
from media_audio import ALL_CLIPS
from media_audio_surgery import ape_tag, id3_size, speex_ogg, with_id3_picture, without_first_mp3_frame
from mediatensor._engine.containers.joined_files import time_restarts
from mediatensor.datasets import AudioClips
from mediatensor.decoders import AudioDecoder, AudioVideoDecoder
from mediatensor.errors import DecodeError, OutOfRangeError, ReadError

_NUM_SECONDS = 4
_ID3V1 = b"TAG" + b"x" * 125
_APE = ape_tag(struct.pack("<II", 5, 0) + b"Title\0hello")
_GARBAGE = b"garbage" * 100


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return media_audio.sound_folder(tmp_path_factory)


def _other(rate: int, num_channels: int, num_samples: int) -> NDArray[np.float64]:
    return sound.programme(rate, num_channels, num_samples)[:, ::-1]


def part(name: str, folder: Path, *, is_second: bool = False, seconds: float = _NUM_SECONDS, **changes: Any) -> Path:
    spec = replace(ALL_CLIPS[name], **changes)
    spec = replace(spec, num_samples=round(seconds * spec.rate), draw=_other if is_second else spec.draw)
    label = "_".join(str(value) for value in (seconds, *changes.values()))
    return media_audio.make_as(spec, f"part_{name}_{'ab'[is_second]}_{label}", folder)


def _id3_tag(data: bytes) -> bytes:
    """Put a tag at the start, in place of any existing one."""
    return b"ID3\3\0\0\0\0\2\0TIT2" + bytes(252) + data[id3_size(data) :]


def assert_joined(path: Path, linear: Any = None, range_snr_db: float | None = None) -> Truth:
    """Compare everything in one piece, ranges in odd order with a used and a new decoder, and all at once."""
    truth = Truth(path, linear or linear_decode_samples(path), range_snr_db)
    with truth.open() as decoder:
        if linear is None:
            assert np.array_equal(decoder.get_all_samples().data.numpy(), truth.linear.data)
        ranges = [
            (truth.seconds(share * truth.num_samples), truth.seconds(share * truth.num_samples) + 0.2)
            for share in (0.8, 0.15, 0.49, 0.42, 0.95, 0.6)
        ]
        for start, stop in ranges:
            assert_range(truth, decoder.get_samples_played_in_range(start, stop), start, stop)
        with truth.open() as fresh:
            assert_range(truth, fresh.get_samples_played_in_range(*ranges[0]), *ranges[0])
        with truth.open() as fresh:
            for (start, stop), samples in zip(ranges, fresh.get_samples_played_in_ranges(ranges), strict=True):
                assert_range(truth, samples, start, stop)
        end = truth.seconds(truth.num_samples)
        with pytest.raises(OutOfRangeError):
            decoder.get_samples_played_in_range(end + 1.0, end + 2.0)
        tail = decoder.get_samples_played_in_range(end - 0.1, None)
        assert_range(truth, tail, end - 0.1, None)
    return truth


_JOINS: dict[str, Callable[[bytes, bytes], bytes]] = {
    "nothing": lambda a, b: a + b,
    "id3": lambda a, b: a + _id3_tag(b),
    "picture": lambda a, b: a + with_id3_picture(b),
    "id3v1": lambda a, b: a + _ID3V1 + b,
    "ape": lambda a, b: a + _APE + _ID3V1 + b,
    "garbage": lambda a, b: a + _GARBAGE + b,
    "zeros": lambda a, b: a + bytes(5000) + b,
    "no_tag": lambda a, b: a + without_first_mp3_frame(b),
    "three": lambda a, b: a + b + a,
}


@pytest.mark.parametrize("join", ["nothing", "id3", "picture", "id3v1", "ape", "garbage", "zeros", "no_tag", "three"])
@pytest.mark.parametrize("name", ["mp3_cbr", "mp3_vbr"])
def test_joined_mp3_is_read_whole(name: str, join: str, folder: Path) -> None:
    path = folder / f"joined_{name}_{join}.mp3"
    path.write_bytes(_JOINS[join](*(part(name, folder, is_second=b).read_bytes() for b in (False, True))))
    assert_joined(path)


@pytest.mark.parametrize(
    ("name", "join"),
    [
        *(("flac", join) for join in ("nothing", "id3", "garbage", "three")),
        *(("aac_adts", join) for join in ("nothing", "id3", "garbage")),
        *(("opus_ogg", join) for join in ("nothing", "three", "garbage")),
        *(("vorbis_ogg", join) for join in ("nothing", "three")),
        *(("wavpack_s16", join) for join in ("nothing", "three")),
        *((name, "nothing") for name in ("mp2", "aac_ts", "mp2_ts", "tta", "ac3_51", "pcm_s16_wav")),
    ],
)
def test_other_joined_formats_are_read_whole(name: str, join: str, folder: Path) -> None:
    first, second = (part(name, folder, is_second=b) for b in (False, True))
    path = folder / f"joined_{name}_{join}{first.suffix}"
    path.write_bytes(_JOINS[join](first.read_bytes(), second.read_bytes()))
    truth = assert_joined(path, range_snr_db=ALL_CLIPS[name].range_snr_db)
    if name in ("flac", "opus_ogg", "vorbis_ogg", "wavpack_s16"):
        with truth.open() as decoder:
            expected = truth.num_samples / truth.linear.rate
            assert decoder.metadata.duration_seconds == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize("tags", [_ID3V1, _APE, _APE + _ID3V1], ids=["id3v1", "ape", "both"])
def test_wavpack_with_tags_at_the_end_is_read(tags: bytes, folder: Path) -> None:
    data = part("wavpack_s16", folder).read_bytes()
    with AudioDecoder(data) as plain, AudioDecoder(data + tags) as tagged:
        assert torch.equal(tagged.get_all_samples().data, plain.get_all_samples().data)


@pytest.mark.parametrize("join", ["id3", "id3v1", "ape", "garbage", "zeros"])
def test_wavpack_parts_with_tags_are_read(join: str, folder: Path) -> None:
    """FFmpeg gives up at the first tag, but reads the same parts without the tag."""
    first, second = (part("wavpack_s16", folder, is_second=b).read_bytes() for b in (False, True))
    plain, path = folder / "plain_for_tags.wv", folder / f"joined_wavpack_s16_{join}.wv"
    plain.write_bytes(first + first + second + second)
    path.write_bytes(_JOINS[join](first + first, second) + _JOINS[join](b"", second) + _APE + _ID3V1)
    truth = assert_joined(path, linear_decode_samples(plain))
    with truth.open() as decoder:
        assert np.array_equal(decoder.get_all_samples().data.numpy(), truth.linear.data)
        assert decoder.metadata.duration_seconds == pytest.approx(4 * _NUM_SECONDS, abs=0.1)


def test_damage_in_wavpack_part_raises(folder: Path) -> None:
    first, second = (part("wavpack_s16", folder, is_second=b).read_bytes() for b in (False, True))
    place = second.index(b"wvpk", len(second) // 2)
    path = folder / "joined_wavpack_damaged.wv"
    path.write_bytes(first + _ID3V1 + second[:place] + _GARBAGE + second[place:])
    with AudioDecoder(path) as decoder:
        assert decoder.get_samples_played_in_range(1.0, 5.0).data.shape[1] == 4 * 44100
        with pytest.raises((DecodeError, ReadError)):
            decoder.get_all_samples()


def test_joined_flac_and_speex_in_ogg_are_read(folder: Path) -> None:
    parts = [part("flac", folder, is_second=b, container="ogg", extension="oga") for b in (False, True)]
    for name, data in (
        ("flac", b"".join(each.read_bytes() for each in parts)),
        ("speex", speex_ogg(_NUM_SECONDS, 1) + speex_ogg(_NUM_SECONDS, 2)),
    ):
        path = folder / f"joined_{name}.oga"
        path.write_bytes(data)
        assert_joined(path)


def test_short_part_before_long_part_is_found(folder: Path) -> None:
    """All probes may hit the second part, which the header of the first part does not mention."""
    for name in ("flac", "vorbis_ogg"):
        first, second = part(name, folder, seconds=0.3), part(name, folder, is_second=True, seconds=6)
        path = folder / f"joined_short_{name}{first.suffix}"
        path.write_bytes(first.read_bytes() + second.read_bytes())
        assert_joined(path)


@pytest.mark.slow
def test_many_equal_parts_are_found(folder: Path) -> None:
    """Each probe hits a part, and no header is wrong."""
    for name in ("flac", "vorbis_ogg"):
        first, second = (part(name, folder, is_second=b).read_bytes() for b in (False, True))
        path = folder / f"joined_many_{name}{part(name, folder).suffix}"
        path.write_bytes((first + second) * 4)
        truth = assert_joined(path)
        assert truth.num_samples / truth.linear.rate == pytest.approx(8 * _NUM_SECONDS, abs=0.3)


_OGG_OF_OTHER_FORM = {
    "opus_mono": (("opus_ogg", {}), ("opus_ogg", {"num_channels": 1})),
    "vorbis_48k": (("vorbis_ogg", {}), ("vorbis_48k_ogg", {})),
    "opus_behind_vorbis": (("vorbis_ogg", {}), ("opus_ogg", {})),
}
_OF_OTHER_FORM: dict[str, tuple[tuple[str, dict[str, Any]], tuple[str, dict[str, Any]]]] = {
    **_OGG_OF_OTHER_FORM,
    "flac_48k": (("flac", {}), ("flac", {"rate": 48000})),
    "adts_48k": (("aac_adts", {}), ("aac_adts", {"rate": 48000})),
    "mp3_22k": (("mp3_cbr", {}), ("mp3_cbr", {"rate": 22050})),
    "mp3_mono": (("mp3_cbr", {}), ("mp3_cbr", {"num_channels": 1})),
}


@pytest.mark.parametrize("name", list(_OF_OTHER_FORM))
def test_parts_of_another_form_are_converted(name: str, folder: Path) -> None:
    """As in players, the rate and channels are those of the first part, and each part is in its place."""
    (first_name, first_changes), (second_name, second_changes) = _OF_OTHER_FORM[name]
    first = part(first_name, folder, **first_changes)
    second = part(second_name, folder, is_second=True, **second_changes)
    path = folder / f"joined_{name}{first.suffix}"
    path.write_bytes(first.read_bytes() + second.read_bytes() + first.read_bytes())
    alone = linear_decode_samples(first)
    converted = _converted(second, alone.rate, len(alone.data))
    truth = assert_joined(path, alone)
    begin, end = alone.num_samples, alone.num_samples + converted.shape[1]
    assert truth.num_samples == pytest.approx(end + begin, abs=8000), "encoders' delays, and roundings"
    assert np.array_equal(truth.data[:, : begin - 4000], alone.data[:, : begin - 4000])
    middle = slice(begin + 8000, end - 8000)
    shift = sound.delay_of(truth.data[0, middle], converted[0, 8000:-8000], 3000)
    got = truth.data[:, middle.start + shift : middle.stop + shift][:, : converted.shape[1] - 16000]
    assert sound.snr_db(converted[:, 8000:-8000][:, : got.shape[1]], got) > 30
    with truth.open(sample_rate=16000, num_channels=1) as decoder:
        whole = decoder.get_all_samples().data
        for start in (1.1, _NUM_SECONDS + 1.3, 2 * _NUM_SECONDS + 1.7):
            first_sample = round((start - truth.seconds(0)) * 16000)
            piece = decoder.get_samples_played_in_range(start, start + 0.5).data
            assert torch.equal(piece, whole[:, first_sample : first_sample + 8000])


def _converted(path: Path, rate: int, num_channels: int) -> NDArray[np.float32]:
    """Convert an audio file with FFmpeg's decoder and resampler."""
    resampler = av.AudioResampler(format="fltp", layout={1: "mono", 2: "stereo"}[num_channels], rate=rate)
    with av.open(str(path)) as container:
        blocks = [block for frame in container.decode(audio=0) for block in resampler.resample(frame)]
    return np.concatenate([frame_samples(block) for block in [*blocks, *resampler.resample(None)]], axis=1)


def test_damage_is_not_taken_for_joined_parts(folder: Path) -> None:
    """No file starts after the damage, so audio was lost."""
    data = without_first_mp3_frame(part("mp3_vbr", folder).read_bytes())
    path = folder / "damaged_not_joined.mp3"
    path.write_bytes(data[: len(data) // 2] + _GARBAGE * 10 + data[len(data) // 2 :])
    with AudioDecoder(path) as decoder, pytest.raises(DecodeError):
        decoder.get_all_samples()


def _transport_packet(pid: int, pts: int) -> bytes:
    """Return a packet in which a unit of audio with this time starts (ISO 13818-1, 2.4.3)."""
    time = [pts >> 29 & 14 | 0x21, pts >> 22 & 255, pts >> 14 & 254 | 1, pts >> 7 & 255, pts << 1 & 254 | 1]
    packet = bytes([0x47, 0x40 | pid >> 8, pid & 255, 0x10, 0, 0, 1, 0xC0, 0, 0, 0x80, 0x80, 5, *time])
    return packet.ljust(188, b"\xff")


@pytest.mark.parametrize(("second_pid", "is_joined"), [(0x101, False), (0x200, False), (0x100, True)])
def test_clocks_of_two_streams_are_not_compared(second_pid: int, is_joined: bool) -> None:
    pairs = [_transport_packet(0x100, n) + _transport_packet(second_pid, n + 900_000) for n in range(0, 9000, 90)]
    data = b"".join(pairs)
    assert time_restarts("mpegts", lambda at, size: data[at : at + size], len(data)) == is_joined


@pytest.mark.parametrize("num_first", [300, 420, 510, 600, 900, 1500, 3000])
def test_time_restarts_after_a_part_of_any_length(num_first: int) -> None:
    """Most of these parts end before the second of the evenly spaced places, where the second part is further on."""
    first, second = ([_transport_packet(0x100, 9000 * n) for n in range(count)] for count in (num_first, 8000))
    for packets, is_joined in ((first + second, True), (second, False)):
        data = b"".join(packets)
        assert time_restarts("mpegts", lambda at, size, data=data: data[at : at + size], len(data)) == is_joined


def test_joined_audio_with_video_is_read(folder: Path) -> None:
    """Two recordings in one transport stream: audio for a frame of the second comes from the second."""
    changes = {"muxer_options": {}, "video": float(_NUM_SECONDS)}
    parts = [part("av_ts_at_ten_seconds", folder, is_second=b, **changes) for b in (False, True)]
    path = folder / "joined_pictures.ts"
    path.write_bytes(b"".join(each.read_bytes() for each in parts))
    assert_joined(path)
    linear = linear_decode_samples(path)
    with AudioVideoDecoder(path) as decoder:
        end = decoder.video.metadata.end_stream_seconds
        assert end is not None
        clip = decoder.get_played_in_range(linear.begin_seconds + 1.0, linear.begin_seconds + 1.5)
        first = linear.rate
        assert np.array_equal(clip.samples.data.numpy(), linear.data[:, first : first + first // 2])


@pytest.mark.parametrize(("name", "join"), [("opus_ogg", "nothing"), ("flac", "id3"), ("mp3_vbr", "id3")])
def test_dataset_clips_span_joined_parts(name: str, join: str, folder: Path) -> None:
    first, second = (part(name, folder, is_second=b) for b in (False, True))
    path = folder / f"clips_{name}{first.suffix}"
    path.write_bytes(_JOINS[join](first.read_bytes(), second.read_bytes()))
    linear = linear_decode_samples(path)
    rows = AudioClips([path], seconds_per_clip=0.5, rows_per_file=8)
    starts = []
    for row in range(len(rows)):
        clip = rows[row].audio
        at = round((clip.pts_seconds - linear.begin_seconds) * linear.rate)
        expected = linear.data[:, at : at + clip.data.shape[1]]
        assert np.abs(clip.data.numpy()[:, : expected.shape[1]] - expected).max() < 1e-3
        starts.append(clip.pts_seconds)
    assert min(starts) < _NUM_SECONDS < max(starts), "clips are drawn from both parts"
