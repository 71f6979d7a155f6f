"""Ranges of bare MP3 files are exact, whether or not the position of a frame can be computed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_bytes_read import CountingFile

import media_audio
from audio_oracles import linear_decode_samples
from media_audio_surgery import ape_tag, id3_size, mp3_frames, with_id3_picture, without_first_mp3_frame
from media_audio_writing import SoundSpec
from mediatensor.decoders import AudioDecoder
from mediatensor.errors import DecodeError
from range_server import serve
from sharing import take_or_write

# Number of bytes that FFmpeg reads at once.
_WINDOW = 32_768

_ID3V1 = b"TAG" + b"Title".ljust(30) + bytes(95)


def _mp3(bit_rate: str, seconds: float, rate: int = 44100, num_channels: int = 1, **changes: Any) -> SoundSpec:
    spec = SoundSpec("", "libmp3lame", "mp3", "", rate, num_channels, num_samples=round(seconds * rate))
    return replace(spec, **{"options": {"b": bit_rate}, **changes})


_LONG = _mp3("128k", 40)
_VARIABLE = _mp3("", 30, options={"flags": "+qscale", "global_quality": "118"})

CONSTANT: dict[str, SoundSpec] = {
    "mono_44k": _LONG,
    "stereo_48k": _mp3("320k", 9, 48000, 2),
    "joint_stereo_44k": _mp3("192k", 14, 44100, 2, options={"b": "192k", "joint_stereo": "1"}),
    "separate_stereo_32k": _mp3("128k", 20, 32000, 2, options={"b": "128k", "joint_stereo": "0"}),
    "mpeg_2": _mp3("160k", 16, 22050, 2),
    "mpeg_2_short_frames": _mp3("32k", 72, 22050),
    "mpeg_2_5": _mp3("64k", 36, 11025),
    "picture": replace(_LONG, patch=with_id3_picture),
    "no_tag_in_front": replace(_LONG, patch=lambda data: data[id3_size(data) :]),
    "tag_at_the_end": replace(_LONG, patch=lambda data: data + _ID3V1),
    "two_tags_at_the_end": replace(_LONG, patch=lambda data: data + ape_tag(bytes(100)) + _ID3V1),
    "no_header": replace(_LONG, muxer_options={"write_xing": "0"}),
    "no_header_begins_padded": replace(
        _LONG, muxer_options={"write_xing": "0"}, patch=lambda data: data[mp3_frames(data)[17][0] :]
    ),
    "no_header_joined": replace(
        _LONG, muxer_options={"write_xing": "0"}, patch=lambda data: data + data[id3_size(data) :]
    ),
    "no_header_cut": replace(_LONG, muxer_options={"write_xing": "0"}, patch=lambda data: data[:-12345]),
}


def _with_one_frame_less(data: bytes) -> bytes:
    position, size = mp3_frames(data)[700]
    return data[:position] + data[position + size :]


UNCERTAIN: dict[str, SoundSpec] = {
    "variable": _VARIABLE,
    "variable_no_header": replace(_VARIABLE, patch=without_first_mp3_frame),
    "variable_said_to_be_constant": replace(_VARIABLE, patch=lambda data: data.replace(b"Xing", b"Info", 1)),
    "cut": replace(_LONG, patch=lambda data: data[:-12345]),
    "a_frame_lost": replace(_LONG, patch=_with_one_frame_less),
}
ALL = {**CONSTANT, **UNCERTAIN}


@pytest.fixture(scope="module")
def path_of(sound_folder: Path) -> Callable[[str], Path]:
    def locate(name: str) -> Path:
        spec = ALL[name]
        if (patch := spec.patch) is None:
            return media_audio.make_as(spec, f"mp3_seek_{name}", sound_folder)
        # Encoding takes longest: variants of the same file are encoded together.
        unpatched = replace(spec, patch=None)
        source = locate(next(other for other in ALL if ALL[other] == unpatched))
        return take_or_write(
            sound_folder / f"mp3_seek_{name}.mp3", lambda path: path.write_bytes(patch(source.read_bytes()))
        )

    return locate


def assert_ranges_are_exact(open_decoder: Callable[[], AudioDecoder], whole: NDArray[np.float32], salt: str) -> None:
    draw = random.Random(salt)
    with open_decoder() as decoder:
        begin = decoder.metadata.begin_stream_seconds or 0.0
        rate = decoder.metadata.sample_rate or 0
        num_samples = whole.shape[1]
        ranges = [(first, first + 3000) for first in (draw.randrange(num_samples) for _ in range(8))]
        ranges += [(num_samples - back, num_samples + 100) for back in (1, 300, 1500, 2 * rate)]
        for first, last in ranges:
            got = decoder.get_samples_played_in_range(begin + first / rate, begin + last / rate)
            np.testing.assert_array_equal(got.data.numpy(), whole[:, first:last], f"{first} to {last}")
        got = decoder.get_samples_played_in_range(begin + (num_samples - 5000) / rate)
        np.testing.assert_array_equal(got.data.numpy(), whole[:, -5000:])


@pytest.mark.parametrize("name", ALL)
def test_a_range_is_the_samples_of_the_whole(name: str, path_of: Callable[[str], Path]) -> None:
    path = path_of(name)
    assert_ranges_are_exact(lambda: AudioDecoder(path), linear_decode_samples(path).data, name)


@pytest.mark.parametrize("name", CONSTANT)
def test_a_range_does_not_cost_what_lies_before_it(name: str, path_of: Callable[[str], Path]) -> None:
    path = path_of(name)
    num_picture_bytes = id3_size(path.read_bytes())
    file = CountingFile(path)
    with AudioDecoder(file) as decoder:
        end = decoder.metadata.end_stream_seconds or 0.0
        num_opening = file.num_read
        decoder.get_samples_played_in_range(end - 1.0, end - 0.9)
        first = file.num_read - num_opening
        decoder.get_samples_played_in_range(end - 2.0, end - 1.9)
        second = file.num_read - num_opening - first
    assert num_opening < 140_000 + 2 * num_picture_bytes
    # The first range also reads headers at the beginning and at a few more places.
    assert first < 70_000 + 2 * _WINDOW
    assert second <= 2 * _WINDOW


def test_sources_in_memory_and_bare_file_objects(path_of: Callable[[str], Path]) -> None:
    path = path_of("mono_44k")
    whole = linear_decode_samples(path).data
    assert_ranges_are_exact(lambda: AudioDecoder(path.read_bytes()), whole, "bytes")
    with path.open("rb") as file:
        assert_ranges_are_exact(lambda: AudioDecoder(file), whole, "file")


def test_a_file_on_a_server(path_of: Callable[[str], Path]) -> None:
    path = path_of("mono_44k")
    whole = linear_decode_samples(path).data
    with serve(path.parent) as server:
        assert_ranges_are_exact(lambda: AudioDecoder(f"{server.url}/{path.name}"), whole, "server")


def _frame(kilobits_number: int, size: int) -> bytes:
    """Return a padded frame of silence, mono at 44.1 kHz."""
    return bytes((0xFF, 0xFB, kilobits_number << 4 | 2, 0xC4)) + bytes(size - 4)


def _spliced(data: bytes) -> bytes:
    """Insert frames of 64, 256 and 192 kbit/s at places that the search for constant bit rates does not examine.

    The number of frames and of bytes stays the same.
    """
    frames = mp3_frames(data)[1:]

    def replaced(first: int, last: int, by: bytes) -> None:
        nonlocal data
        begin, end = frames[first][0], frames[last][0]
        data = data[:begin] + by + data[end:]

    assert [size for _, size in frames[_FAST : _FAST + 3]] == [418] * 3
    assert [size for _, size in frames[_SLOW : _SLOW + 2]] == [418] * 2
    replaced(_FAST, _FAST + 3, _frame(13, 836) + _frame(11, 627))
    replaced(_SLOW, _SLOW + 2, _frame(5, 209) * 3)
    return data


_SLOW, _FAST = 230, 290


def test_frames_of_other_bit_rates_that_no_look_finds(path_of: Callable[[str], Path], tmp_path: Path) -> None:
    data = path_of("mono_44k").read_bytes()
    path = tmp_path / "spliced.mp3"
    path.write_bytes(_spliced(data))
    assert path.stat().st_size == len(data)
    whole = linear_decode_samples(path).data
    rate, delay = 44100, 1105
    with AudioDecoder(path) as decoder:
        begin = decoder.metadata.begin_stream_seconds or 0.0
        for number in [*range(_SLOW - 20, _FAST + 40), 500]:
            first = number * 1152 - delay
            got = decoder.get_samples_played_in_range(begin + first / rate, begin + (first + 3000) / rate)
            np.testing.assert_array_equal(got.data.numpy(), whole[:, first : first + 3000], str(number))
    file = CountingFile(path)
    with AudioDecoder(file) as decoder:
        begin = decoder.metadata.begin_stream_seconds or 0.0
        num_read = []
        for number in (_SLOW - 20, 500, _SLOW - 20, _SLOW + 40):
            before, start = file.num_read, begin + (number * 1152 - delay) / rate
            decoder.get_samples_played_in_range(start, start + 0.05)
            num_read.append(file.num_read - before)
    assert max(num_read[1:3]) <= 2 * _WINDOW, "one before the ranges and one after them: computed"
    assert num_read[3] > 3 * _WINDOW, "between them, the frames from the beginning on are read"


def test_ranges_after_damage_keep_their_times(path_of: Callable[[str], Path], tmp_path: Path) -> None:
    intact_path = path_of("mono_44k")
    intact = linear_decode_samples(intact_path).data
    data = bytearray(intact_path.read_bytes())
    begin = mp3_frames(bytes(data))[_SLOW][0] + 50
    data[begin : begin + 3000] = bytes(3000)
    path = tmp_path / "damaged.mp3"
    path.write_bytes(data)
    rate = 44100
    damage = (_SLOW * 1152 - 1105) / rate
    with AudioDecoder(path) as decoder:
        start = decoder.metadata.begin_stream_seconds or 0.0
        for _ in range(2):  # before and after the damage was met
            for seconds in (damage - 1.0, damage + 1.0, 30.0):
                first = round(seconds * rate)
                got = decoder.get_samples_played_in_range(start + first / rate, start + (first + 3000) / rate)
                np.testing.assert_array_equal(got.data.numpy(), intact[:, first : first + 3000], str(seconds))
            with pytest.raises(DecodeError):
                decoder.get_samples_played_in_range(start + damage - 0.5, start + damage + 0.5)
