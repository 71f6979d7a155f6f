"""Truncated files are recognised by the sizes that their containers state."""

from __future__ import annotations

import io
import random
from pathlib import Path

import av
import pytest

import media_audio
from media_writing import ClipSpec, write_clip
from mediatensor._engine.containers.truncated_files import breaks_off
from real_files import TEST_DATA

#: Names of muxers, their options, and codecs.
MUXERS: dict[str, tuple[str, dict[str, str], str]] = {
    "mp4": ("mp4", {}, "mpeg4"),
    "mp4 with its header in front": ("mp4", {"movflags": "faststart"}, "mpeg4"),
    "fragmented mp4": ("mp4", {"movflags": "frag_keyframe+empty_moov"}, "mpeg4"),
    "mov": ("mov", {}, "mpeg4"),
    "matroska": ("matroska", {}, "mpeg4"),
    "live matroska": ("matroska", {"live": "1"}, "mpeg4"),
    "webm": ("webm", {}, "libvpx"),
    "avi": ("avi", {}, "mpeg4"),
    "flv": ("flv", {}, "flv1"),
    "mpegts": ("mpegts", {}, "mpeg2video"),
    "m2ts": ("mpegts", {"mpegts_m2ts_mode": "1"}, "mpeg2video"),
}


def is_cut_off(data: bytes) -> bool:
    return breaks_off(lambda position, count: data[position : position + count], len(data))


def written(name: str, folder: Path) -> bytes:
    muxer, options, codec = MUXERS[name]
    path = write_clip(ClipSpec("", codec, muxer, options={"g": "8"}, muxer_options=options), folder / "video")
    return path.read_bytes()


def num_packets(data: bytes) -> list[int]:
    with av.open(io.BytesIO(data)) as source:
        return [packet.size for packet in source.demux(video=0) if packet.size]


@pytest.mark.parametrize("name", [name for name in MUXERS if name != "live matroska"])
def test_cuts_inside_parts_are_detected(name: str, tmp_path: Path) -> None:
    whole = written(name, tmp_path)
    assert not is_cut_off(whole)
    places = random.Random(0).sample(range(len(whole) // 4, len(whole)), 60)
    unseen = [place for place in places if not is_cut_off(whole[:place])]
    # All packets of such a file are whole, so it may not be truncated.
    packets = num_packets(whole)
    for place in unseen:
        assert num_packets(whole[:place]) == packets[: len(num_packets(whole[:place]))]
    assert len(unseen) <= 3


def test_live_recordings_count_as_whole(tmp_path: Path) -> None:
    whole = written("live matroska", tmp_path)
    assert not is_cut_off(whole)
    assert not is_cut_off(whole[: len(whole) // 2])


@pytest.mark.parametrize("name", ["pcm_s16_wav", "pcm_s16_rf64", "pcm_s16_w64", "adpcm_ima_wav"])
def test_cut_wav_files_are_detected(name: str, tmp_path: Path) -> None:
    whole = media_audio.make(name, tmp_path).read_bytes()
    assert not is_cut_off(whole)
    assert not is_cut_off(whole + bytes(100))
    assert is_cut_off(whole[: len(whole) * 9 // 10])


def test_streamed_w64_counts_as_whole(tmp_path: Path) -> None:
    whole = media_audio.make("pcm_s16_w64", tmp_path).read_bytes()
    at = whole.index(b"data\xf3\xac\xd3\x11") + 16
    streamed = whole[:at] + (2**63 - 1).to_bytes(8, "little") + whole[at + 8 :]  # as FFmpeg writes to a pipe
    assert not is_cut_off(streamed[: len(streamed) // 2])


@pytest.mark.parametrize("data", [b"", b"\0", b"RIFF", b"FLV", b"\x1a\x45\xdf\xa3", b"\0\0\0\x08ftyp", bytes(1000)])
def test_first_bytes_alone_count_as_whole(data: bytes) -> None:
    assert not is_cut_off(data)


def test_random_bytes_after_signature_end() -> None:
    chance = random.Random(1)
    for magic in (b"\x1a\x45\xdf\xa3", b"RIFF\0\0\0\0AVI ", b"FLV\1\5\0\0\0\x09", b"\0\0\0\x10ftypisom\0\0\0\0"):
        for _ in range(200):
            is_cut_off(magic + chance.randbytes(chance.randrange(100)))


@pytest.mark.skipif(not TEST_DATA.is_dir(), reason="needs the real media files")
def test_real_files_are_whole() -> None:
    suffixes = {".mp4", ".mov", ".m4v", ".3gp", ".mkv", ".webm", ".mka", ".avi", ".flv", ".ts", ".m2ts", ".mts", ".wav"}
    files = sorted(path for path in TEST_DATA.rglob("*") if path.suffix.lower() in suffixes)
    assert files
    assert [path.name for path in files if is_cut_off(path.read_bytes())] == []
