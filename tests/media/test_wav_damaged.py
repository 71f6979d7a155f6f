"""Invalid WAV files raise an error that names the fault, or return the existing samples."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediatensor.decoders import WavDecoder
from mediatensor.errors import MediaTensorError, OpenError, StreamError
from wav_files import CODECS, chunk, extensible, fmt, noise, riff, w64, wav

SOUND = bytes(range(200))
DATA = chunk(b"data", SOUND)
PLAIN = fmt(1, 16)
HUGE = b"\xff\xff\xff\x7f"

NO_WAV = {
    "text": (b"no sound at all" * 10, "Missing RIFF header"),
    "a few bytes": (b"RI", "Missing RIFF header"),
    "avi": (riff(PLAIN, DATA).replace(b"WAVE", b"AVI "), "AVI"),
    "only a name": (b"RIFF\0\0\0\0WAVE", "Chunk not found.*'fmt'"),
    "no fmt": (riff(DATA), "Chunk not found.*'fmt'"),
    "no data": (riff(PLAIN), "Chunk not found.*'data'"),
    "data after the end": (riff(PLAIN, b"LIST" + HUGE, DATA), "Chunk not found.*'data'"),
    "half a chunk header": (riff(PLAIN, b"data\0"), "Chunk not found.*'data'"),
    "a short fmt": (riff(chunk(b"fmt ", PLAIN[8:20]), DATA), "12 bytes, at least 16"),
    "a short extensible fmt": (riff(fmt(0xFFFE, 16), DATA), "40 are needed"),
    "no channels": (riff(fmt(1, 16, 0, align=2), DATA), "0 channels"),
    "no rate": (riff(fmt(1, 16, 1, 0), DATA), "0 samples per second"),
    "a rate without end": (riff(fmt(1, 16, 1, 2**32 - 1), DATA), "4294967295 samples"),
    "a wrong block align": (riff(fmt(1, 16, 2, align=3), DATA), "take 4 bytes, not 3"),
    "no block align": (riff(fmt(1, 16, 2, align=0), DATA), "take 4 bytes, not 0"),
    "a block of 131070 bytes": (riff(fmt(1, 16, 65535), DATA), "take 131070 bytes"),
    "w64 chunk smaller than its header": (
        w64((b"junk", b""), (b"fmt ", PLAIN[8:]), (b"data", SOUND)).replace(struct.pack("<Q", 24), bytes(8), 1),
        "smaller than its header",
    ),
    "endless chunks": (riff(PLAIN, chunk(b"JUNK", b"") * 1_000_000, DATA), "more than 10000 chunks"),
}


@pytest.mark.parametrize("name", NO_WAV)
def test_invalid_files_are_refused(name: str) -> None:
    data, message = NO_WAV[name]
    with pytest.raises(OpenError, match=message):
        WavDecoder(data)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (fmt(2, 4, align=256), "Microsoft ADPCM"),
        (fmt(6, 8), "A-law"),
        (fmt(7, 8), "mu-law"),
        (fmt(0x55, 0), "MP3"),
        (fmt(0x1234, 16), "0x1234"),
        (fmt(1, 64), "64-bit PCM"),
        (fmt(1, 0), "0-bit PCM"),
        (fmt(3, 16), "16-bit float"),
        (extensible(7, 8, 8), "mu-law"),
        (extensible(1, 16, 16)[:-4] + b"junk", "sub-format"),
    ],
)
def test_other_audio_is_left_to_audio_decoder(header: bytes, message: str) -> None:
    with pytest.raises(StreamError, match=rf"{message}.*AudioDecoder"):
        WavDecoder(riff(header, DATA))


SOUND_OF_2 = noise(40, 2)


@pytest.mark.parametrize("codec", CODECS)
def test_truncated_file_keeps_its_whole_samples(codec: str) -> None:
    data = wav(codec, SOUND_OF_2)
    whole = WavDecoder(data).get_all_samples().data
    frame_bytes = 2 * CODECS[codec][1] // 8
    start = len(data) - 40 * frame_bytes
    for length in range(1, len(data)):
        if length < start:
            with pytest.raises(OpenError):
                WavDecoder(data[:length])
            continue
        num_samples = (length - start) // frame_bytes
        decoder = WavDecoder(data[:length])
        assert decoder.metadata.duration_seconds == num_samples / 8000
        if num_samples:
            assert decoder.get_all_samples().data.equal(whole[:, :num_samples])


SEEDS = [wav(codec, SOUND_OF_2) for codec in CODECS] + [
    riff(extensible(1, 16, 16, 2), DATA),
    riff(chunk(b"ds64", struct.pack("<QQQI", 0, 200, 50, 0)), PLAIN, b"data\xff\xff\xff\xff" + SOUND, magic=b"RF64"),
    w64((b"fmt ", PLAIN[8:]), (b"data", SOUND)),
]


@given(
    seed=st.sampled_from(SEEDS),
    changes=st.lists(
        st.tuples(st.integers(0, 120), st.sampled_from([b"\0", b"\xff", b"\x80", b"\xff" * 4, bytes(8), b"data"]))
    ),
    length=st.integers(0, 400),
)
def test_lying_headers_are_limited_by_file_size(seed: bytes, changes: list[tuple[int, bytes]], length: int) -> None:
    """For every header, the decoder raises one of our errors, or returns at most the samples that fit into the file."""
    data = bytearray(seed)
    for position, value in changes:
        data[position : position + len(value)] = value
    data = data[: max(1, length)]
    tracemalloc.start()
    try:
        samples = WavDecoder(bytes(data)).get_all_samples().data
        assert samples.numel() <= len(data)
    except MediaTensorError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 1_000_000


def test_lying_64_bit_length_is_limited_by_file_size() -> None:
    for size in (2**63, 2**64 - 1, 10**15):
        data = riff(
            chunk(b"ds64", struct.pack("<QQQI", 0, size, 0, 0)), PLAIN, b"data\xff\xff\xff\xff" + SOUND, magic=b"RF64"
        )
        assert WavDecoder(data).get_all_samples().data.shape == (1, 100)
