"""Packets of mkv and webm files from the headers of their blocks equal a scan's, or are refused.

The reference is the packet scan, which reads with libavformat.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

import media
from exactness import assert_same, find_truth
from header_tables import assert_equal, assert_right_or_none, mutated, tables_of
from mediatensor._engine.containers.boxes import MalformedBoxError
from mediatensor._engine.containers.matroska import blocks_of_track
from mediatensor._engine.index.header_table import header_table
from mediatensor._engine.index.scan import scan_packets
from mediatensor._engine.pyav.reading import VideoReader
from mediatensor._engine.sources.source import make_source

CLIPS = [name for name, spec in media.CLIPS.items() if spec.container in ("matroska", "webm")]

# Clips whose block headers are not enough, and why. All other clips must be read from them, or the comparison would be
# empty.
NOT_FROM_HEADERS = {
    "begins_in_refresh_mkv": "pictures that are not refreshed yet",
    "h264_end_packets_mkv": "packets without pictures",
    "h264_field_pairs_mkv": "packets are single fields",
    "h264_field_pairs_unreferenced": "packets are single fields",
    "h264_lone_fields_mkv": "packets are single fields",
    "hevc_end_packets_mkv": "packets without pictures",
    "mpeg2_end_packets_mkv": "packets without pictures",
    "mpeg4_not_coded_b_frames_mkv": "packets without pictures",
    "size_change_mpeg1_mkv": "the codec is not one whose packets headers describe",
    "size_change_mpeg2_mkv": "sequence headers that differ",
    "snow": "the codec is not one whose packets headers describe",
    **{name: "the first packet is not a key frame" for name in CLIPS if name.startswith("begins_in_gop_")},
    **{
        f"{name}_mpeg2_mkv": "B pictures that lack a reference, or follow the wrong one"
        for name in ("lost_packets", "lost_key_frame", "begins_at_second_key")
    },
}
# Facts that only packets show, as with mp4's tables: decoding finds them.
IN_PACKETS = {
    "hevc_broken_link_mkv": ("reasons_to_decode",),
    "hevc_end_before_cra_mkv": ("reasons_to_decode",),
    **dict.fromkeys(media.DAMAGED_CLIPS, ("is_broken",)),
}
# libavformat computes decoding times, and other ones if frames are lost or the first ones lack references.
_DTS_DIFFER = frozenset(("begins_at_second_key_mkv_open_gop",))

_NUM_CUTS = 60


@pytest.mark.parametrize("name", CLIPS)
def test_block_headers_match_packet_scan(name: str, folder: Path) -> None:
    from_headers, scanned = tables_of(media.make(name, folder))
    assert (from_headers is None) == (name in NOT_FROM_HEADERS)
    if from_headers is not None:
        assert_equal(from_headers, scanned, besides=(*IN_PACKETS.get(name, ()), *(["dts"] * (name in _DTS_DIFFER))))


def test_block_headers_match_packet_scan_of_real_files(media_data: Callable[[str], Path]) -> None:
    folder = media_data("manifest.json").parent
    names = [path for path in folder.iterdir() if path.suffix in (".mkv", ".webm") and "corrupt" not in path.name]
    assert names
    for path in names:
        from_headers, scanned = tables_of(path)
        assert from_headers is not None, path.name
        assert_equal(from_headers, scanned)


# Hand-made files, with VP8 frames from an encoder

_NUM_PICTURES = 24
_MILLISECONDS = 1_000_000


def element(kind: int, *content: bytes, size_bytes: int = 0) -> bytes:
    """Make an EBML element; with ``size_bytes`` of -1 its size is unknown."""
    body = b"".join(content)
    name = kind.to_bytes((kind.bit_length() + 7) // 8, "big")
    if size_bytes < 0:
        return name + b"\x01" + b"\xff" * 7 + body
    length = size_bytes or next(n for n in range(1, 9) if len(body) < (1 << 7 * n) - 1)
    return name + (len(body) | 1 << 7 * length).to_bytes(length, "big") + body


def number(kind: int, value: int) -> bytes:
    return element(kind, value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big"))


def encoded() -> list[bytes]:
    """Encode packets of 24 frames; the first and the thirteenth are key frames."""
    encoder: Any = av.CodecContext.create("libvpx", "w")
    encoder.width, encoder.height, encoder.pix_fmt, encoder.time_base = 48, 32, "yuv420p", Fraction(1, 25)
    encoder.options = {"g": "12", "auto-alt-ref": "0", "lag-in-frames": "0", "deadline": "realtime"}
    random = np.random.default_rng(1)
    packets: list[bytes] = []
    for count in range(_NUM_PICTURES):
        frame = av.VideoFrame.from_ndarray(random.integers(0, 256, (32, 48, 3), np.uint8), format="rgb24")
        frame = frame.reformat(format="yuv420p")
        frame.pts, frame.time_base = count, Fraction(1, 25)
        packets += map(bytes, encoder.encode(frame))
    return packets + list(map(bytes, encoder.encode(None)))


PICTURES = encoded()
_INFO = element(0x1549A966, number(0x2AD7B1, _MILLISECONDS))
_HEADER = element(0x1A45DFA3, element(0x4282, b"webm"))


def track(*others: bytes, track_number: int = 1, kind: int = 1, codec: bytes = b"V_VP8") -> bytes:
    picture = element(0xE0, number(0xB0, 48), number(0xBA, 32))
    sound = element(0xE1, element(0xB5, b"\x45\xbb\x80\0"), number(0x9F, 1))
    return element(
        0xAE, number(0xD7, track_number), number(0x73C5, track_number), number(0x83, kind), element(0x86, codec),
        picture if kind == 1 else sound, *others,
    )  # fmt: skip


DURATION = number(0x23E383, 40 * _MILLISECONDS)
_TRACKS = element(0x1654AE6B, track(DURATION))


def block_body(data: bytes, time: int, flags: int, track_number: int = 1) -> bytes:
    return bytes([track_number | 0x80]) + (time & 0xFFFF).to_bytes(2, "big") + bytes([flags]) + data


def is_key(picture: bytes) -> bool:
    return not picture[0] & 1


def simple(count: int, time: int, size_bytes: int = 0) -> bytes:
    picture = PICTURES[count]
    return element(0xA3, block_body(picture, time, 0x80 * is_key(picture)), size_bytes=size_bytes)


def group(count: int, time: int, *others: bytes) -> bytes:
    reference = b"" if is_key(PICTURES[count]) else element(0xFB, (-40 & 0xFFFF).to_bytes(2, "big"))
    return element(0xA0, element(0xA1, block_body(PICTURES[count], time, 0)), reference, *others)


Block = Callable[[int, int], bytes]


def clusters(write: Block = simple, *, first: int = 0, size_bytes: int = 0, before: bytes = b"") -> Iterator[bytes]:
    """Write all frames, six in a cluster."""
    for begin in range(0, _NUM_PICTURES, 6):
        blocks = [write(begin + i, 40 * i) for i in range(6)]
        yield element(0x1F43B675, before, number(0xE7, first + 40 * begin), *blocks, size_bytes=size_bytes)


def film(*parts: bytes, tracks: bytes = _TRACKS, info: bytes = _INFO, size_bytes: int = 0) -> bytes:
    return _HEADER + element(0x18538067, info, tracks, *(parts or clusters()), size_bytes=size_bytes)


def laced(kind: int, count: int) -> Iterator[bytes]:
    """Write clusters of blocks with ``count`` laced frames each."""
    for begin in range(0, _NUM_PICTURES, count):
        pictures = PICTURES[begin : begin + count]
        if kind == 0x04:  # of one size
            pictures = [picture.ljust(max(map(len, pictures)), b"\0") for picture in pictures]
        sizes = [len(picture) for picture in pictures]
        if kind == 0x02:
            table = b"".join(b"\xff" * (size // 255) + bytes([size % 255]) for size in sizes[:-1])
        elif kind == 0x06:
            steps = np.diff(sizes[:-1])
            table = (sizes[0] | 0x4000).to_bytes(2, "big")
            table += b"".join((int(step) + 0x1FFF | 0x4000).to_bytes(2, "big") for step in steps)
        else:
            table = b""
        data = bytes([count - 1]) + table + b"".join(pictures)
        body = block_body(data, 0, kind | 0x80 * all(map(is_key, pictures)))
        yield element(0x1F43B675, number(0xE7, 40 * begin), element(0xA3, body))


def stripped(picture_bytes: int) -> bytes:
    """Write key frames without their first bytes, which the header has."""
    prefix = PICTURES[0][:picture_bytes]
    settings = element(0x5034, number(0x4254, 3), element(0x4255, prefix))
    tracks = element(0x1654AE6B, track(DURATION, element(0x6D80, element(0x6240, settings))))

    def write(count: int, time: int) -> bytes:
        picture = PICTURES[0]
        return element(0xA3, block_body(picture[picture_bytes:], time, 0x80))

    return film(*clusters(write), tracks=tracks)


def _mixed(count: int, time: int) -> bytes:
    return (simple if count % 3 else group)(count, time)


_ADDITIONS = element(0x75A1, element(0xA6, number(0xEE, 1), element(0xA5, bytes(9))))
_VOID, _CRC = element(0xEC, bytes(70)), element(0xBF, bytes(4))
_OPUS = track(track_number=2, kind=2, codec=b"A_PCM/INT/LIT")
_SOUND = element(0xA3, block_body(bytes(64), 3, 0x80, track_number=2))
_SEEK_HEAD, _CUES, _TAGS = element(0x114D9B74), element(0x1C53BB6B), element(0x1254C367)

BELIEVED = {
    "plain": film(),
    "long sizes": film(*clusters(lambda n, t: simple(n, t, 8), size_bytes=8), size_bytes=8),
    "sizes of three bytes": film(*clusters(lambda n, t: simple(n, t, 3))),
    "unknown sizes": film(*clusters(size_bytes=-1), size_bytes=-1),
    "unknown size of the segment": film(size_bytes=-1),
    "unknown sizes, cues at the end": film(*clusters(size_bytes=-1), _CUES, _TAGS, size_bytes=-1),
    "cues in front": film(_SEEK_HEAD, _CUES, _VOID, *clusters()),
    "cues behind": film(*clusters(), _CUES, _TAGS),
    "void and checksums": film(_VOID, *clusters(lambda n, t: _VOID + simple(n, t), before=_CRC)),
    "groups": film(*clusters(group)),
    "groups and simple blocks": film(*clusters(_mixed)),
    "groups with durations": film(*clusters(lambda n, t: group(n, t, number(0x9B, 20 + n)))),
    "groups with additions": film(*clusters(lambda n, t: group(n, t, _ADDITIONS))),
    "late": film(*clusters(first=1 << 33)),
    "other ticks": film(info=element(0x1549A966, number(0x2AD7B1, 10_000_000))),
    "no info": film(info=b""),
    "beside sound": film(
        *clusters(lambda n, t: _SOUND + simple(n, t)), tracks=element(0x1654AE6B, track(DURATION), _OPUS)
    ),
    "behind sound": film(
        *clusters(lambda n, t: _SOUND + simple(n, t)), tracks=element(0x1654AE6B, _OPUS, track(DURATION))
    ),
    "codec delay": film(
        *clusters(first=100), tracks=element(0x1654AE6B, track(DURATION, number(0x56AA, 6_500_001)))
    ),
    "laced like Xiph": film(*laced(0x02, 4)),
    "laced like EBML": film(*laced(0x06, 4)),
    "laced with one size": film(*laced(0x04, 4)),
    "stripped": stripped(5),
}  # fmt: skip

REFUSED = {
    "no durations": film(tracks=element(0x1654AE6B, track())),
    "negative times": film(*clusters(lambda n, t: simple(n, t - 30))),
    "a void of two bytes at the end": film() + element(0xEC),
    "two films": film() + film(),
    "something unknown in a cluster": film(*clusters(lambda n, t: number(0xFD, 1) + simple(n, t))),
    "an empty picture": film(*clusters(lambda n, t: element(0xA3, block_body(b"", t, 0)) + simple(n, t))),
    "compressed": film(tracks=element(0x1654AE6B, track(DURATION, element(0x6D80, element(0x6240, element(0x5034)))))),
    "clusters without time": film(*(element(0x1F43B675, simple(n, 40 * n)) for n in range(_NUM_PICTURES))),
    "a time of thousands of bytes": film(element(0x1F43B675, element(0xE7, b"\1" * 2048), simple(0, 0))),
    "its own time scale": film(tracks=element(0x1654AE6B, track(DURATION, element(0x23314F, b"\x40\0\0\0")))),
    "two tracks of one number": film(tracks=element(0x1654AE6B, track(DURATION), track(DURATION))),
}


@pytest.mark.parametrize("name", BELIEVED)
def test_all_block_layouts_are_parsed(name: str) -> None:
    stream_index = 1 if name == "behind sound" else 0
    from_headers, scanned = tables_of(BELIEVED[name], stream_index)
    assert len(scanned) == _NUM_PICTURES
    assert_equal(from_headers, scanned)


@pytest.mark.parametrize("name", REFUSED)
def test_unusual_files_are_scanned(name: str) -> None:
    assert tables_of(REFUSED[name])[0] is None


@pytest.mark.parametrize("name", ["plain", "groups and simple blocks", "laced like EBML", "beside sound", "long sizes"])
def test_mutated_files_give_right_blocks_or_none(name: str) -> None:
    """With changed bytes before and at payloads, the file is refused, or its table is right.

    Packets are parsed when they are fed, so the table need not mark damaged ones.
    """
    data = BELIEVED[name]
    where = [at for at in range(len(data)) if at < 400 or data[at] in (0xA0, 0xA1, 0xA3, 0xE7, 0x1F)]
    where += [at + step for at in where[400:] for step in range(1, 8) if at + step < len(data)]
    copies = mutated(data, where, [0, 1, 0x7F, 0x80, 0xFF, 0xA3], seed=7, num_copies=120)
    assert_right_or_none(copies, besides=("is_key", "is_broken", "is_hidden", "dts"))


@pytest.mark.parametrize("name", ["plain", "unknown sizes", "groups and simple blocks", "laced like Xiph"])
def test_truncated_files_give_right_blocks_or_none(name: str) -> None:
    data = BELIEVED[name]
    believed = 0
    for end in np.linspace(len(data) // 5, len(data) - 1, _NUM_CUTS).astype(int):
        from_headers, scanned = tables_of(data[:end])
        if from_headers is not None:
            assert_equal(from_headers, scanned)
            believed += 1
    assert believed


def test_endless_elements_take_no_time() -> None:
    """Millions of empty elements, and an element that contains itself."""
    empty = film(element(0x1F43B675, number(0xE7, 0), element(0xEC) * (1 << 12)), *clusters())
    reads = []

    def read_at(position: int, size: int) -> bytes:
        reads.append(size)
        return empty[position : position + size]

    assert len(blocks_of_track(read_at, len(empty), 0, window_bytes=64).time) == _NUM_PICTURES
    assert sum(reads) < 4 * len(empty)
    with pytest.raises(MalformedBoxError):
        blocks_of_track(lambda position, size: b"\xec\x80" * (size // 2), 1 << 40, 0, window_bytes=64)


# Decoders, on files so large that their packets are not read


@pytest.mark.parametrize(
    "name",
    ["mkv", "mkv_open_gop", "hevc_open_gop_mkv", "vp8_hidden_frames", "vp9_hidden_frames", "vp9_show_existing_frame",
     "av1_low_delay", "ffv1_gop", "mpeg2_mkv", "live_webm", "vfr_mkv", "audio_beside_video_mkv"],
)  # fmt: skip
def test_frames_match_linear_decode(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / f"large_{name}.{media.CLIPS[name].extension}"
    media.write_spec(replace(media.CLIPS[name], size=(320, 240)), path)
    truth = find_truth(path)
    with truth.open() as decoder:
        assert len(decoder) == len(truth)
        for index in truth.some(8):
            assert_same(truth, index, decoder[index])
        assert not decoder.frame_index.settled


def test_file_object_reads_little_more_than_headers() -> None:
    """Large payloads are skipped."""
    padding = element(0xEC, bytes(100_000))
    data = film(*clusters(lambda n, t: simple(n, t) + padding))
    counts = []

    class Counting(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            found = super().read(size)
            counts.append(len(found))
            return found

    reader = VideoReader(make_source(Counting(data)), None, 1)
    try:
        counts.clear()
        assert header_table(reader) is not None
        assert sum(counts) < len(data) / 5
        counts.clear()
        assert len(scan_packets(reader)) == _NUM_PICTURES
        assert sum(counts) > len(data) / 5, "or the count would say nothing"
    finally:
        reader.close()
