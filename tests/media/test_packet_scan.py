"""The packet scan recognises plain packets by their first bytes, as if it parsed every packet whole."""

from __future__ import annotations

import random
import sys
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import media
from mediatensor._engine.bitstreams.content import packet_inspector
from mediatensor._engine.bitstreams.units import HEAD_BYTES, PacketContent
from mediatensor._engine.index.scan import PacketScan, scan_packets
from mediatensor._engine.pyav.reading import VideoReader
from mediatensor._engine.pyav.whole_files import linear_decode
from mediatensor._engine.sources.source import make_source
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import MediaTensorError, StreamError

_SMALL_FILE_BYTES = 1 << 20
# Clips in which most packets are plain pictures, one for each codec with its own rule.
_PLAIN_CLIPS = ("ts", "raw_h264", "flv", "mkv", "hevc_open_gop_ts", "hevc_open_gop_mkv", "mpeg2_ts", "mpeg4_avi")
_PLAIN_CLIPS += ("mjpeg_avi", "av1_ivf", "vp8_ivf", "vp9", "raw_avi", "dirac" if "dirac" in media.CLIPS else "snow")


def compare_ways(source: object, *, is_damaged: bool = False) -> tuple[int, int]:
    """Inspect each packet both ways, and return the packets and the number of plain ones.

    In packets that are damaged inside, fragments of pictures count in one way only: then a loss need not be detected at
    the same packet.
    """
    reader = VideoReader(make_source(source), None, 1)
    num_packets = num_passed = 0
    try:
        codec = reader.stream_info().codec
        by_head, by_all = (packet_inspector(codec, reader.extradata) for _ in range(2))
        before, has_picture = None, False
        for packet in reader.packets():
            data = memoryview(packet)
            whole = by_all.inspect(data, None)
            whole = whole._replace(follows=True) if is_damaged else whole
            num_packets += 1
            head = bytes(data if by_head.needs_whole_packets else data[:HEAD_BYTES])
            if has_picture and by_head.pass_plain(head, packet.size):
                assert whole == (PacketContent.PICTURE, True, True, False, None), f"packet {num_packets - 1}"
                num_passed += 1
            else:
                found = by_head.inspect(data, before)
                assert (found._replace(follows=True) if is_damaged else found) == whole, f"packet {num_packets - 1}"
            has_picture |= whole.content is PacketContent.PICTURE
            before = data
            assert by_head.may_be_fields == by_all.may_be_fields
    except MediaTensorError:
        pass  # damaged so that reading ends early
    finally:
        reader.close()
    return num_packets, num_passed


@pytest.mark.parametrize("name", media.CLIPS)
def test_first_bytes_match_whole_packet(name: str, folder: Path) -> None:
    try:
        compare_ways(media.make(name, folder))
    except StreamError:
        assert name == "audio_only"


@pytest.mark.parametrize("name", _PLAIN_CLIPS)
def test_most_packets_are_plain(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = media.make(name, folder)
    num_packets, num_passed = compare_ways(path)
    assert num_packets / 2 < num_passed < num_packets
    inspected, inspect = [], PacketScan._inspect
    monkeypatch.setattr(PacketScan, "_inspect", lambda *args: inspected.append(args[1]) or inspect(*args))
    with closing(VideoReader(make_source(path), None, 1)) as reader:
        scan_packets(reader)
    assert len(inspected) == num_packets - num_passed


def damaged(data: bytes, seed: int) -> Iterator[bytes]:
    """Return copies with changed bytes, a run of zeros, a missing packet, and a packet from elsewhere."""
    chance = random.Random(seed)
    place = lambda: chance.randrange(len(data) // 10, len(data))  # noqa: E731
    copy = bytearray(data)
    for _ in range(8):
        copy[place()] = chance.randrange(256)
    yield bytes(copy)
    start, size = place(), chance.choice((40, 2000))
    yield data[:start] + bytes(size) + data[start + size :]
    start, size = place() // 188 * 188, 188 * chance.choice((1, 5, 20))
    yield data[:start] + data[start + size :]
    start, other = place(), place()
    yield data[:start] + data[other : other + 1880] + data[start + 1880 :]


@pytest.mark.parametrize("name", media.CLIPS)
def test_first_bytes_match_whole_packet_in_damaged_files(name: str, folder: Path) -> None:
    data = media.make(name, folder).read_bytes()
    if len(data) > _SMALL_FILE_BYTES:
        pytest.skip("a large clip")
    for copy in damaged(data, zlib.crc32(name.encode())):
        try:
            compare_ways(copy, is_damaged=True)
        except MediaTensorError:
            continue  # too damaged to open


def test_units_inside_a_unit_are_proven_without_decoding(folder: Path) -> None:
    decoder = VideoDecoder(media.make("h264_prefix_units", folder))
    assert (len(decoder), decoder.frame_index.settled) == (40, False)


def test_stream_without_shown_packets_is_decoded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(codec: str | None, extradata: bytes) -> Any:
        inspector = packet_inspector(codec, extradata)
        inspect = inspector.inspect
        inspector.inspect = lambda *packets: inspect(*packets)._replace(content=PacketContent.NO_PICTURE)
        return inspector

    path = media.make("mkv", folder)
    expected = [frame.pts for frame in linear_decode(path)]
    monkeypatch.setattr(sys.modules[scan_packets.__module__], "packet_inspector", mistaken)
    decoder = VideoDecoder(path)
    assert decoder.frame_index.pts.tolist() == expected
    assert decoder.frame_index.settled
