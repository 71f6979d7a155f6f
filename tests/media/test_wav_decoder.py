"""Samples of WAV files are bit-identical to the ffmpeg program, Python's wave module, and numbers packed by hand."""

from __future__ import annotations

import io
import struct
import subprocess
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from file_sources import SOURCES
from mediatensor.decoders import AudioDecoder, Demuxer, WavDecoder, get_container_metadata
from mediatensor.errors import OpenError, StreamError
from range_server import serve
from wav_files import CODECS, chunk, extensible, fmt, noise, pack, riff, w64, wav


def decoded(data: bytes) -> NDArray[np.float32]:
    """Return all samples (channels, samples)."""
    return WavDecoder(data).get_all_samples().data.numpy()


def by_ffmpeg(program: str, path: Path, num_channels: int) -> NDArray[np.float32]:
    command = [program, "-v", "error", "-i", str(path), "-f", "f32le", "-"]
    output = subprocess.run(command, check=True, capture_output=True).stdout
    return np.frombuffer(output, "<f4").reshape(-1, num_channels).T


# fmt: off
LAYOUTS = [
    0x4, 0x3, 0xB, 0x7, 0x103, 0x107, 0x33, 0x603, 0xF, 0x37, 0x607, 0x10F, 0x3F, 0x60F, 0x707, 0x6C3, 0x137, 0x70F,
    0x13F, 0x6CB, 0x637, 0x6C7, 0x63F, 0xFF, 0x6CF, 0x737, 0x500F, 0x560F, 0x503F, 0x2D60F, 0x563F, 0x2D033,
]
# fmt: on


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("num_channels", [1, 2, 7])
def test_equals_the_ffmpeg_program(codec: str, num_channels: int, ffmpeg_program: str, tmp_path: Path) -> None:
    path = tmp_path / "sound.wav"
    path.write_bytes(wav(codec, noise(3001, num_channels)))
    samples = WavDecoder(path).get_all_samples()
    assert samples.data.dtype == torch.float32
    assert samples.data.is_contiguous()
    assert (samples.pts_seconds, samples.duration_seconds, samples.sample_rate) == (0.0, 3001 / 8000, 8000)
    np.testing.assert_array_equal(samples.data, by_ffmpeg(ffmpeg_program, path, num_channels))


def test_odd_floats_equal_the_ffmpeg_program(ffmpeg_program: str, tmp_path: Path) -> None:
    values = np.array([0.1, 1e300, -1e300, 1e-46, 1e-40, np.inf, -np.inf, np.nan, 3.5, 1 + 2**-24, 1 + 2**-23])
    for codec in ("pcm_f64le", "pcm_f32le"):
        path = tmp_path / f"{codec}.wav"
        with np.errstate(over="ignore"):
            stored = values.astype("<f8" if codec == "pcm_f64le" else "<f4")
        path.write_bytes(riff(fmt(*CODECS[codec]), chunk(b"data", stored.tobytes())))
        np.testing.assert_array_equal(WavDecoder(path).get_all_samples().data, by_ffmpeg(ffmpeg_program, path, 1))


def test_rounding_of_32_bits_equals_the_ffmpeg_program(ffmpeg_program: str, tmp_path: Path) -> None:
    edges = [sign * (2**power + add) for sign in (1, -1) for power in range(31) for add in (-1, 0, 1, 2, 3)]
    path = tmp_path / "edges.wav"
    path.write_bytes(riff(fmt(1, 32), chunk(b"data", np.array([*edges, 2**31 - 1, -(2**31)], "<i4").tobytes())))
    np.testing.assert_array_equal(WavDecoder(path).get_all_samples().data, by_ffmpeg(ffmpeg_program, path, 1))


@pytest.mark.parametrize(
    ("codec", "stored", "expected"),
    [
        ("pcm_u8", b"\x00\x80\xff\x81", [-1.0, 0.0, 127 / 128, 1 / 128]),
        ("pcm_s16le", b"\x00\x80\x00\x00\xff\x7f\x01\x00", [-1.0, 0.0, 32767 / 32768, 1 / 32768]),
        ("pcm_s24le", b"\x00\x00\x80\xff\xff\x7f\x01\x00\x00\xff\xff\xff", [-1.0, 1 - 2**-23, 2**-23, -(2**-23)]),
        ("pcm_s32le", struct.pack("<3i", -(2**31), 2**30, 1), [-1.0, 0.5, 2**-31]),
        ("pcm_f32le", struct.pack("<3f", 1.5, -0.25, 1e-30), [1.5, -0.25, np.float32(1e-30)]),
        ("pcm_f64le", struct.pack("<3d", 1.5, -0.25, 1 / 3), [1.5, -0.25, np.float32(1 / 3)]),
    ],
)
def test_numbers_packed_by_hand(codec: str, stored: bytes, expected: list[float]) -> None:
    samples = decoded(riff(fmt(*CODECS[codec]), chunk(b"data", stored)))
    np.testing.assert_array_equal(samples, np.array([expected], np.float32))


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_files_of_pythons_wave_module_can_be_read(width: int) -> None:
    file = io.BytesIO()
    stored = np.random.default_rng(1).integers(0, 256, 300 * 2 * width, np.uint8).tobytes()
    with wave.open(file, "wb") as writer:
        writer.setparams((2, width, 22_050, 0, "NONE", ""))
        writer.writeframes(stored)
    numbers = [stored[i : i + width] for i in range(0, len(stored), width)]
    levels = [n[0] - 128 if width == 1 else int.from_bytes(n, "little", signed=True) for n in numbers]
    expected = np.array(levels, np.float64).reshape(300, 2).T / 2 ** (8 * width - 1)
    samples = WavDecoder(file.getvalue()).get_all_samples()
    assert samples.sample_rate == 22_050
    np.testing.assert_array_equal(samples.data, expected.astype(np.float32))


SOUND = noise(999, 2)
STORED = pack("pcm_s16le", SOUND)
PLAIN = fmt(1, 16, 2)
DS64 = struct.pack("<QQQI", 0, len(STORED), 999, 0)
UNKNOWN = b"data\xff\xff\xff\xff"
VARIANTS = {
    "extensible": riff(extensible(1, 16, 16, 2, mask=3), chunk(b"data", STORED)),
    "ambisonic": riff(extensible(1, 16, 16, 2), chunk(b"data", STORED)).replace(
        bytes.fromhex("00001000800000aa00389b71"), bytes.fromhex("2107d3118644c8c1ca000000")
    ),
    "fmt of 18 bytes": riff(chunk(b"fmt ", PLAIN[8:] + b"\0\0"), chunk(b"data", STORED)),
    "chunks around": riff(
        chunk(b"JUNK", bytes(5001)), chunk(b"bext", b"odd"), PLAIN, chunk(b"fact", DS64[:4]), chunk(b"LIST", b"INFO"),
        chunk(b"data", STORED), chunk(b"LIST", b"INFO"), chunk(b"id3 ", b"x"),
    ),
    "fmt after the sound": riff(chunk(b"data", STORED), PLAIN),
    "a second data chunk": riff(PLAIN, chunk(b"data", STORED), chunk(b"data", bytes(8))),
    "a second data chunk before fmt": riff(chunk(b"data", STORED), chunk(b"data", bytes(8)), PLAIN),
    "a length of 0": riff(PLAIN, b"data\0\0\0\0" + STORED),
    "an unknown length": riff(PLAIN, UNKNOWN + STORED),
    "a length beyond the end": riff(PLAIN, b"data\xf0\xff\xff\x7f" + STORED),
    "an incomplete last sample": riff(PLAIN, UNKNOWN + STORED + b"\x01\x02\x03"),
    "RIFX": riff(
        fmt(1, 16, 2, order=">"), chunk(b"data", np.frombuffer(STORED, "<i2").astype(">i2").tobytes(), ">"),
        magic=b"RIFX", order=">",
    ),
    "RF64": riff(chunk(b"ds64", DS64), PLAIN, UNKNOWN + STORED, chunk(b"LIST", b"INFO"), magic=b"RF64"),
    "BW64": riff(chunk(b"ds64", DS64), PLAIN, UNKNOWN + STORED, chunk(b"LIST", b"INFO"), magic=b"BW64"),
    "RF64 with a plain length": riff(chunk(b"ds64", bytes(28)), PLAIN, chunk(b"data", STORED), magic=b"RF64"),
    "RF64 that was not finished": riff(chunk(b"ds64", bytes(28)), PLAIN, UNKNOWN + STORED, magic=b"RF64"),
    "W64": w64((b"fmt ", PLAIN[8:]), (b"junk", b"12345"), (b"data", STORED), (b"list", b"x" * 9)),
    "W64 that was not finished": w64((b"fmt ", PLAIN[8:]), (b"data", b""))[:-8] + bytes(8) + STORED,
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_every_container_has_the_same_samples(name: str) -> None:
    expected = np.frombuffer(STORED, "<i2").reshape(-1, 2).T / np.float32(32768)
    np.testing.assert_array_equal(decoded(VARIANTS[name]), expected)


def test_audio_decoder_refuses_samples_that_ffmpeg_would_read_in_the_wrong_byte_order(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(VARIANTS["RIFX"])
    with open(tmp_path / "a.wav", "rb") as file:
        for source in (tmp_path / "a.wav", VARIANTS["RIFX"], file, io.BufferedReader(io.BytesIO(VARIANTS["RIFX"]))):
            for read in (AudioDecoder, Demuxer, get_container_metadata):
                with pytest.raises(StreamError, match="WavDecoder"):
                    read(source)
    with serve(tmp_path) as server:
        url = f"{server.url}/a.wav"
        # FFmpeg opens URLs with a password, and local files with the protocol "async".
        for source in (url, url.replace("//", "//user:password@"), f"async:{tmp_path / 'a.wav'}"):
            with pytest.raises(StreamError, match="WavDecoder"):
                AudioDecoder(source)
    mu_law = riff(fmt(7, 8, 2, order=">"), chunk(b"data", STORED, ">"), magic=b"RIFX", order=">")
    plain = riff(fmt(7, 8, 2), chunk(b"data", STORED))
    for source in (mu_law, io.BytesIO(mu_law)):  # bytes have no order
        samples = AudioDecoder(source).get_all_samples().data
        np.testing.assert_array_equal(samples, AudioDecoder(plain).get_all_samples().data)


def test_audio_decoder_says_that_samples_of_an_unknown_kind_cannot_be_decoded() -> None:
    data = riff(fmt(0x7777, 16), chunk(b"data", STORED))
    assert [stream.codec for stream in get_container_metadata(data).streams] == [None]
    with pytest.raises(StreamError, match="no audio stream that can be decoded"):
        AudioDecoder(data)


@pytest.mark.parametrize("width", [3, 4])
def test_big_endian_integers(width: int) -> None:
    levels = [0, 1, -1, 2 ** (8 * width - 1) - 1, -(2 ** (8 * width - 1)), 1 << 16]
    stored = b"".join(level.to_bytes(width, "big", signed=True) for level in levels)
    samples = decoded(riff(fmt(1, 8 * width, order=">"), chunk(b"data", stored, ">"), magic=b"RIFX", order=">"))
    np.testing.assert_array_equal(samples[0], np.array(levels, np.float32) / np.float32(2 ** (8 * width - 1)))


def test_valid_bits_do_not_change_the_scale() -> None:
    """24 valid bits in a container of 32 are its upper bits."""
    levels = np.array([2**30, -(2**31), 1 << 8], "<i4")
    samples = decoded(riff(extensible(1, 32, 24), chunk(b"data", levels.tobytes())))
    np.testing.assert_array_equal(samples[0], np.array([0.5, -1.0, 2**-23], np.float32))


def test_many_channels() -> None:
    levels = np.arange(3 * 1000, dtype="<i2").reshape(3, 1000)
    samples = decoded(riff(fmt(1, 16, 1000), chunk(b"data", levels.tobytes())))
    np.testing.assert_array_equal(samples, levels.T / np.float32(32768))


def test_more_than_a_block(tmp_path: Path) -> None:
    """Files are read and converted in blocks, whose ends must not show in the samples."""
    for codec in ("pcm_s16le", "pcm_s24le"):
        width = CODECS[codec][1] // 8
        stored = np.random.default_rng(2).integers(0, 256, 150_001 * 3 * width, np.uint8)
        path = tmp_path / f"{codec}.wav"
        path.write_bytes(riff(fmt(*CODECS[codec], channels=3), chunk(b"data", stored.tobytes())))
        padded = np.zeros((stored.size // width, 4), np.uint8)
        padded[:, 4 - width :] = stored.reshape(-1, width)
        expected = (padded.view("<i4").reshape(-1, 3).T / 2.0**31).astype(np.float32)
        np.testing.assert_array_equal(WavDecoder(path).get_all_samples().data, expected)
        np.testing.assert_array_equal(decoded(path.read_bytes()), expected)


@pytest.mark.parametrize(
    ("num_channels", "mask"),
    [(num_channels, 0) for num_channels in (1, 2, 6, 9)]
    # Every layout with a name, and some without.
    + [(mask.bit_count(), mask) for mask in LAYOUTS]
    + [(mask.bit_count(), mask) for mask in (0x1, 0x30, 0x600, 0x3FFFF, 0x20001)]
    + [(2, 0x7), (3, 0x3)],
)
def test_metadata_matches_the_audio_decoder(num_channels: int, mask: int) -> None:
    data = riff(extensible(1, 16, 16, num_channels, mask=mask), chunk(b"data", bytes(num_channels * 200)))
    assert WavDecoder(data).metadata == AudioDecoder(data).metadata


@pytest.mark.parametrize("codec", CODECS)
def test_metadata_matches_ffmpeg(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "sound.wav"
    path.write_bytes(wav(codec, noise(4001, 2), rate=22_050))
    metadata = WavDecoder(path).metadata
    with av.open(str(path)) as container:
        stream = container.streams.audio[0]
        context = stream.codec_context
        assert metadata.codec == context.codec.canonical_name == codec
        assert metadata.sample_format == context.format.name
        assert metadata.bit_rate == context.bit_rate
        assert metadata.sample_rate == context.sample_rate == 22_050
        assert metadata.num_channels == context.channels == 2
        assert metadata.duration_seconds == float(stream.duration * stream.time_base)
    assert (metadata.stream_index, metadata.media_type, metadata.begin_stream_seconds) == (0, "audio", 0.0)
    assert metadata.end_stream_seconds == metadata.duration_seconds == metadata.duration_seconds_from_header
    assert WavDecoder(path).stream_index == 0


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES.keys())
def test_every_source_gives_the_same_samples(make: Callable[[Path], Any], tmp_path: Path) -> None:
    path = tmp_path / "sound.wav"
    path.write_bytes(wav("pcm_s24le", noise(2000, 2)))
    expected = decoded(path.read_bytes())
    source = make(path)
    decoder = WavDecoder(source)
    np.testing.assert_array_equal(decoder.get_samples_played_in_range(0.1, 0.2).data, expected[:, 800:1600])
    np.testing.assert_array_equal(decoder.get_all_samples().data, expected)
    decoder.close()
    if hasattr(source, "close"):
        assert not source.closed, "the file is the user's to close"
        source.close()


def test_streams_are_left_to_the_audio_decoder() -> None:
    with pytest.raises(OpenError, match="use AudioDecoder"):
        WavDecoder("rtsp://localhost/sound")
