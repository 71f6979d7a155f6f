"""A range equals the same part of the whole stream, for every codec that can be encoded here."""

from __future__ import annotations

import math
import struct
import subprocess
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from test_bytes_read import CountingFile

import media_audio
import sound
from audio_oracles import linear_decode_samples
from media_audio import SOUND_CLIPS, SoundSpec
from media_audio_surgery import OGG_POLYNOMIAL, crc
from media_audio_writing import add_stream, encode
from media_writing import open_output
from mediatensor.decoders import AudioDecoder
from real_files import TEST_DATA
from wav_files import chunk

Sound = NDArray[np.float32]

# Largest difference from the whole stream, for codecs whose state fades.
_TOLERANCE = 1e-4

# Formats for encoders, tried in this order: samples per second, channels.
_FORMS = ((44_100, 2), (48_000, 2), (22_050, 1), (16_000, 1), (8_000, 1))
_CONTAINERS = ("matroska", "mov", "avi", "ogg", "asf", "flv", "mpegts", "nut")
_NUM_SECONDS = 3

# Second encoders of codecs that are tested already.
_TWINS = ("ac3_fixed", "mp2fixed", "mp3")

# FFmpeg's muxer states a gap of a second after the first packet.
_GAPS = {("flac", "asf")}

# AAC's noise substitution is random (docs/exact.md), so it is turned off.
_OPTIONS = {"aac": {"aac_pns": "0"}, "wmav1": {"b": "64k"}, "wmav2": {"b": "64k"}}


def _encoders() -> list[str]:
    names = []
    for name in sorted(av.codecs_available):
        try:
            codec = av.Codec(name, "w")
        except ValueError:
            continue
        is_pcm = name.startswith("pcm_")
        if codec.type == "audio" and codec.audio_formats and not is_pcm and name not in _TWINS:
            names.append(name)
    return names


def assert_ranges(path: Path, num_ranges: int = 4) -> None:
    """Check that ranges of a file, each from a new decoder, are parts of a linear decode of the file."""
    linear = linear_decode_samples(path)
    with AudioDecoder(path) as decoder:
        all_samples = decoder.get_all_samples()
    data, begin, rate = all_samples.data.numpy(), all_samples.pts_seconds, linear.rate
    assert np.array_equal(data, linear.data[:, : data.shape[1]])
    assert linear.num_samples - data.shape[1] < 2048, "no more than padding is missing"
    for number in range(1, num_ranges + 1):
        first = data.shape[1] * number // (num_ranges + 1) + 37 * number
        last = min(data.shape[1], first + rate // 5)
        with AudioDecoder(path) as decoder:
            got = decoder.get_samples_played_in_range(begin + first / rate, begin + last / rate).data.numpy()
        assert got.shape == (data.shape[0], last - first), f"{path.name} from sample {first}"
        difference = float(np.abs(got - data[:, first:last]).max())
        assert difference <= _TOLERANCE, f"{path.name} from sample {first}: off by {difference}"


def _write(codec: str, container: str, path: Path) -> bool:
    """Write a clip, and return whether the container supports the encoder."""
    for rate, num_channels in _FORMS:
        options = _OPTIONS.get(codec, {})
        spec = SoundSpec("", codec, container, "", rate, num_channels, num_samples=_NUM_SECONDS * rate, options=options)
        try:
            with open_output(spec, path) as output:
                stream = add_stream(output, spec)
                output.mux(encode(stream, spec))
            with av.open(str(path)) as file:
                return bool(file.streams.audio) and sum(frame.samples for frame in file.decode(audio=0)) > rate
        except (av.FFmpegError, ValueError, KeyError):
            continue
    return False


def check_encoder(codec: str, containers: Sequence[str], folder: Path, max_files: int = len(_CONTAINERS)) -> None:
    num_files = 0
    for container in containers:
        path = folder / f"ranges_{codec}.{container}"
        if (codec, container) not in _GAPS and _write(codec, container, path):
            num_files += 1
            assert_ranges(path, num_ranges=3)
        path.unlink(missing_ok=True)
        if num_files == max_files:
            return
    if not num_files:
        pytest.skip(f"no container of the list takes {codec}")


@pytest.mark.parametrize("codec", _encoders())
def test_ranges_equal_the_whole_for_each_encoder(codec: str, sound_folder: Path) -> None:
    """In a container that varies by codec."""
    containers = sorted(_CONTAINERS, key=lambda name: zlib.crc32(f"{codec} {name}".encode()))
    check_encoder(codec, containers, sound_folder, max_files=1)


@pytest.mark.slow
@pytest.mark.parametrize("codec", _encoders())
def test_ranges_equal_the_whole_in_every_container(codec: str, sound_folder: Path) -> None:
    check_encoder(codec, _CONTAINERS, sound_folder)


_PROGRAM_CODECS = {
    "libgsm": ("mov", 8_000, 1, ()),
    "dca": ("mkv", 48_000, 2, ("-strict", "-2")),
    "dca_predicted": ("mkv", 48_000, 2, ("-strict", "-2", "-dca_adpcm", "1")),
    "truehd": ("mkv", 48_000, 2, ("-strict", "-2")),
    "s302m": ("ts", 48_000, 2, ("-strict", "-2")),
    "libtwolame": ("mkv", 48_000, 2, ()),
}


@pytest.mark.parametrize("name", list(_PROGRAM_CODECS))
def test_ranges_equal_the_whole_for_encoders_of_the_program(name: str, sound_folder: Path, ffmpeg_program: str) -> None:
    extension, rate, num_channels, options = _PROGRAM_CODECS[name]
    path = sound_folder / f"ranges_{name}.{extension}"
    tones = "|".join(["0.2*sin(500*PI*t*(1+0.1*t))+0.05*random(0)"] * num_channels)
    command = [ffmpeg_program, "-v", "error", "-y", "-f", "lavfi", "-i", f"aevalsrc={tones}:d=3:s={rate}"]
    command += ["-c:a", name.removesuffix("_predicted"), *options, str(path)]
    if subprocess.run(command, check=False, timeout=60).returncode:
        pytest.skip(f"this program has no encoder {name}")
    assert_ranges(path)


# Samples of FFmpeg's regression suite. Their extensions do not match their contents.
_ODD_FILES = {
    "HE-AAC": ("al_sbr_cm_48_5.1.wav", "tones_afconvert_44100_stereo_aac_he.wav"),
    "HE-AAC v2": ("sbr_bc-ps_i.wav", "al_sbr_ps_06_new.wav", "tones_nero_16000_stereo_aac_he2.wav"),
    "AAC LD and ELD": ("er_ad6000np_44_ep0.wav", "er_eld1001np_44_ep0.wav"),
    "WMA": ("ergon.wav", "streaming_CBR-7K.wav"),
    "AMR-WB": ("seed-12k65.wav",),
    "QuickTime's ADPCM": ("surge-2-16-B-ima4.wav",),
    "Opus": ("testvector12.wav",),
    "AC-3": ("csi_miami_5.1_256_spx_small.wav", "millers_crossing_4.0.wav"),
}


@pytest.mark.parametrize("name", [name for names in _ODD_FILES.values() for name in names])
def test_ranges_equal_the_whole_for_samples_of_ffmpeg(name: str) -> None:
    path = TEST_DATA / "odd" / name
    if not path.is_file():
        pytest.skip(f"needs {path}")
    assert_ranges(path, num_ranges=5)


def _num_bytes_read(path: Path, seconds: float) -> int:
    """Return how many bytes a new decoder reads to decode half a second at ``seconds``."""
    file = CountingFile(path)
    with AudioDecoder(file) as decoder:
        decoder.get_samples_played_in_range(seconds, seconds + 0.5)
    return file.num_read


def _xwma(packets: list[bytes], extradata: bytes, rate: int, bytes_per_second: int) -> bytes:
    """Return an XWMA file, whose header states a byte rate, with these packets of WMA."""
    form = struct.pack("<HHIIHHH", 0x161, 1, rate, bytes_per_second, len(packets[0]), 16, len(extradata)) + extradata
    return chunk(b"RIFF", b"XWMA" + chunk(b"fmt ", form) + chunk(b"data", b"".join(packets)))


def test_times_made_up_from_a_byte_rate_are_not_followed(sound_folder: Path) -> None:
    """FFmpeg computes times of XWMA from the byte rate. Times that are a quarter too long look like gaps."""
    spec = replace(SOUND_CLIPS["wmav1_asf"], codec="wmav2", num_samples=22_050 * 4)
    with av.open(str(media_audio.make_as(spec, "wmav2_for_xwma", sound_folder))) as file:
        extradata = bytes(file.streams.audio[0].codec_context.extradata or b"")
        packets = [bytes(packet) for packet in file.demux(audio=0) if packet.size]
    path = sound_folder / "made_up_times.xwma"
    path.write_bytes(_xwma(packets, extradata, spec.rate, 64_000 // 8 * 4 // 5))
    assert_ranges(path)


def _speech(rate: int, num_channels: int, num_samples: int) -> NDArray[np.float64]:
    """Draw notes that change three times a second, with a pause of a third of a second after every five notes."""
    seconds = np.arange(num_samples) / rate
    number = np.floor(3 * seconds)
    tone = 0.3 * np.sin(2 * np.pi * seconds * (150 + 37 * (number % 7))) * (number % 6 < 5)
    return np.stack([tone * (1 - 0.3 * channel) for channel in range(num_channels)])


def _note(rate: int, num_channels: int, num_samples: int) -> NDArray[np.float64]:
    return np.stack([sound.sine(220.0, rate, num_samples)] * num_channels)


def _opus(name: str, sound_folder: Path, draw: Callable[..., Any], seconds: int, **options: str) -> list[bytes]:
    """Return packets of speech in Opus."""
    spec = replace(
        SOUND_CLIPS["opus_mkv"], num_channels=1, num_samples=48_000 * seconds, draw=draw,
        options={"application": "voip", **options},
    )  # fmt: skip
    with av.open(str(media_audio.make_as(spec, f"opus_packets_{name}", sound_folder))) as file:
        return [bytes(packet) for packet in file.demux(audio=0) if packet.size]


def _write_opus(packets: list[bytes], path: Path, container: str) -> None:
    with av.open(str(path), "w", format=container) as output:
        stream = output.add_stream("libopus", rate=48_000, layout="mono")
        for number, data in enumerate(packets):
            packet = av.Packet(data)
            packet.pts = packet.dts = 960 * number
            packet.duration, packet.time_base, packet.stream = 960, Fraction(1, 48_000), stream
            output.mux(packet)


@pytest.mark.parametrize("container", ["matroska", "ogg"])
@pytest.mark.parametrize(
    "bit_rates",
    [("6k", "24k"), ("24k", "6k"), ("14k", "64k", "14k"), ("64k", "14k"), ("6k", "14k", "64k", "24k")],
    ids="-".join,
)
def test_opus_that_changes_its_mode(bit_rates: tuple[str, ...], container: str, sound_folder: Path) -> None:
    """Narrow band comes out 24 samples early, but its time stamps do not. A change of mode resets the decoder."""
    packets = [packet for rate in bit_rates for packet in _opus(rate, sound_folder, _note, 4, b=rate)]
    path = sound_folder / f"opus_changes_{'_'.join(bit_rates)}.{container}"
    _write_opus(packets, path, container)
    assert_ranges(path, num_ranges=9)


def test_opus_is_read_from_the_last_pause(sound_folder: Path) -> None:
    packets = 6 * _opus("pauses", sound_folder, _speech, 20, b="12k", cutoff="8000")
    assert {packet[0] >> 3 for packet in packets} <= set(range(12)), "all of it is the speech mode"
    path = sound_folder / "opus_pauses.mkv"
    _write_opus(packets, path, "matroska")
    assert_ranges(path)
    assert _num_bytes_read(path, 110.0) < _num_bytes_read(path, 10.0) + 80_000 < path.stat().st_size


@pytest.fixture(scope="module")
def vorbis_file(sound_folder: Path, ffmpeg_program: str) -> Iterator[Path]:
    """Yield a minute of Vorbis with blocks of two sizes, which PyAV's own encoder does not write."""
    path = sound_folder / "two_block_sizes.ogg"
    bursts = "0.3*sin(880*PI*t*(1+0.01*t))*lt(mod(t,0.3),0.15)|0.2*sin(500*PI*t)*lt(mod(t*3,1),0.2)+0.01*random(0)"
    bursts = bursts.replace(",", "\\,")
    command = [ffmpeg_program, "-v", "error", "-y", "-f", "lavfi", "-i", f"aevalsrc={bursts}:d=60:s=44100"]
    if subprocess.run([*command, "-c:a", "libvorbis", "-q:a", "5", str(path)], check=False, timeout=60).returncode:
        pytest.skip("this program has no encoder libvorbis")
    yield path
    path.unlink()


@pytest.mark.slow
def test_ogg_vorbis_of_two_block_sizes(vorbis_file: Path) -> None:
    assert_ranges(vorbis_file, num_ranges=5)
    assert _num_bytes_read(vorbis_file, 50.0) < _num_bytes_read(vorbis_file, 10.0) + 300_000


def test_ogg_vorbis_to_the_end(vorbis_file: Path) -> None:
    with AudioDecoder(vorbis_file) as decoder:
        whole = decoder.get_all_samples().data.numpy()
    for seconds in (0.01, 0.5, 3.0):
        first = whole.shape[1] - round(seconds * 44_100)
        with AudioDecoder(vorbis_file) as decoder:
            got = decoder.get_samples_played_in_range(first / 44_100).data.numpy()
        assert np.array_equal(got, whole[:, first:])


@pytest.mark.slow
def test_ogg_vorbis_with_pages_that_disagree(vorbis_file: Path, sound_folder: Path) -> None:
    """If the position of a page is wrong, samples are counted as in a linear decode."""
    data = bytearray(vorbis_file.read_bytes())
    for at, end in [(at, end) for at, end in _pages(data) if at > len(data) // 3][:40:3]:
        (granule,) = struct.unpack_from("<q", data, at + 6)
        struct.pack_into("<q", data, at + 6, granule + 200)
        data[at + 22 : at + 26] = bytes(4)
        struct.pack_into("<I", data, at + 22, crc(data[at:end], OGG_POLYNOMIAL))
    path = sound_folder / "pages_disagree.ogg"
    path.write_bytes(data)
    assert_ranges(path, num_ranges=11)


def _pages(data: bytes | bytearray) -> Iterator[tuple[int, int]]:
    """Yield the begin and the end of each page of an Ogg file."""
    at = 0
    while at < len(data):
        begin, content = at, at + 27 + data[at + 26]
        at = content + sum(data[begin + 27 : content])
        yield begin, at


@pytest.mark.slow
@pytest.mark.parametrize("name", ["amr_nb", "adpcm_ima_mov", "g722_wav"])
def test_sequential_ranges_go_on_from_where_the_decoder_stands(name: str, sound_folder: Path) -> None:
    """Codecs that are decoded from the beginning read a file only once for small consecutive ranges."""
    spec = replace(SOUND_CLIPS[name], num_samples=SOUND_CLIPS[name].rate * 20)
    path = media_audio.make_as(spec, f"sequential_{name}", sound_folder)
    with AudioDecoder(path) as decoder:
        whole = decoder.get_all_samples()
    file = CountingFile(path)
    with AudioDecoder(file) as decoder:
        pieces = [
            decoder.get_samples_played_in_range(whole.pts_seconds + k / 8, whole.pts_seconds + (k + 1) / 8).data
            for k in range(math.floor(whole.data.shape[1] / spec.rate * 8))
        ]
    joined = np.concatenate(pieces, axis=1)
    assert np.array_equal(joined, whole.data.numpy()[:, : joined.shape[1]])
    assert file.num_read < 3 * path.stat().st_size + 200_000


def test_ac3_differs_from_a_decode_without_options_by_noise_alone(sound_folder: Path) -> None:
    """Noise depends on the frame instead of FFmpeg's generator, so it differs from FFmpeg's, but is as loud."""
    spec = replace(
        SOUND_CLIPS["ac3_ts"], container="ac3", extension="ac3", options={"b": "96k"}, num_samples=48_000 * 4,
        draw=lambda rate, num_channels, n: np.stack([sound.noise(n, seed=channel) for channel in range(num_channels)]),
    )  # fmt: skip
    path = media_audio.make_as(spec, "ac3_of_noise", sound_folder)
    with av.open(str(path)) as file:
        plain = np.concatenate([frame.to_ndarray() for frame in file.decode(audio=0)], axis=1)
    with AudioDecoder(path) as decoder:
        ours = decoder.get_all_samples().data.numpy()
    assert ours.shape == plain.shape
    assert not np.array_equal(ours, plain), "the encoder left bands to noise"
    for first in range(0, 12_000, 1_000):
        loudness = [_loudness(each, first, first + 1_000) for each in (ours, plain)]
        assert loudness[0] == pytest.approx(loudness[1], rel=0.05)


def _loudness(data: Sound, low: float, high: float) -> float:
    """Return the power between two frequencies of a signal at 48 kHz."""
    spectrum = np.abs(np.fft.rfft(data, axis=1)) ** 2
    frequencies = np.fft.rfftfreq(data.shape[1], 1 / 48_000)
    return float(spectrum[:, (frequencies >= low) & (frequencies < high)].sum())
