"""Lost H.264 pictures are detected from the remaining packets, and intact streams have none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import pytest

import media
from media_surgery import BitWriter
from mediatensor._engine.bitstreams.h264 import H264Parser

# Clips with dropped packets or changed bytes; all other clips are intact.
_SOUND = [name for name, spec in media.CLIPS.items() if name not in media.DAMAGED_CLIPS and spec.expect != "no video"]
_REAL_BUT_BROKEN = {
    "decord__corrupted.mp4", "file-type__fixture-corrupt.mkv", "mp4parse-rust__short-cenc.mp4"  # the last is encrypted
}  # fmt: skip


def read_streams(path: Path) -> list[tuple[bytes, list[bytes]]]:
    """Return (extradata, packets in decode order) of each H.264 stream of a file."""
    options = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
    with av.open(str(path), **options) as container:
        streams = [stream for stream in container.streams.video if _codec_name(stream) == "h264"]
        read: dict[int, list[bytes]] = {stream.index: [] for stream in streams}
        for packet in container.demux(streams) if streams else ():
            if packet.size:
                read[packet.stream_index].append(bytes(packet))
        return [(bytes(stream.codec_context.extradata or b""), read[stream.index]) for stream in streams]


def _codec_name(stream: Any) -> str | None:
    return None if stream.codec_context is None else stream.codec_context.name


def alarms(extradata: bytes, packets: list[bytes]) -> list[int]:
    """Return the numbers of packets that cannot follow the previous ones."""
    return [number for number, follows in enumerate(numbers_follow(H264Parser(extradata), packets)) if not follows]


def numbers_follow(parser: H264Parser, packets: Iterable[bytes]) -> list[bool]:
    """Return for each packet whether it can follow the previous ones."""
    found = []
    for packet in packets:
        parser.read(memoryview(packet))
        found.append(parser.follows)
    return found


@pytest.mark.parametrize("name", [name for name in _SOUND if "x264" in media.CLIPS[name].codec])
def test_intact_clips_have_no_losses(name: str, folder: Path) -> None:
    for extradata, packets in read_streams(media.make(name, folder)):
        assert alarms(extradata, packets) == []


def test_real_files_have_no_losses(media_data: Callable[[str], Path]) -> None:
    num_packets = 0
    for entry in json.loads(media_data("manifest.json").read_text())["files"]:
        if entry["file"] in _REAL_BUT_BROKEN or not entry["expect"].startswith("decodes"):
            continue
        for extradata, packets in read_streams(media_data(entry["file"])):
            assert alarms(extradata, packets) == [], entry["file"]
            num_packets += len(packets)
    assert num_packets > 1000


@pytest.mark.parametrize(
    "name",
    ["h264_b_pyramid", "h264_mbaff", "mkv_open_gop", "ts", "raw_h264", "h264_slices", "h264_444", "h264_weighted"],
)
def test_lost_reference_is_detected_at_next_packet(name: str, folder: Path) -> None:
    [(extradata, packets)] = read_streams(media.make(name, folder))
    kinds = [first_slice(packet, extradata) for packet in packets]
    for lost in range(1, len(packets)):
        is_reference = bool(kinds[lost] >> 5)
        following_kinds = [kind & 31 for kind in kinds[lost + 1 :]]
        # No picture after an IDR picture, of type 5, refers to one before it.
        is_missed = is_reference and following_kinds[:1] not in ([], [5])
        found = alarms(extradata, packets[:lost] + packets[lost + 1 :])
        assert found[:1] == ([lost] if is_missed else []), f"without packet {lost}"


def first_slice(packet: bytes, extradata: bytes) -> int:
    """Find the header byte of the first slice by brute force: lengths of four bytes, or start codes."""
    if extradata[:1] == b"\1":
        position = 0
        while True:
            if packet[position + 4] & 31 in (1, 5):
                return packet[position + 4]
            position += 4 + int.from_bytes(packet[position : position + 4], "big")
    return next(unit[0] for unit in packet.split(b"\0\0\1")[1:] if unit[0] & 31 in (1, 5))


# Hand-made streams: parameter sets and slice headers, without pictures


@dataclass(frozen=True)
class Stream:
    """Fields of parameter sets; ``unit`` writes a matching slice header."""

    frame_num_bits: int = 4
    allows_gaps: bool = False
    allows_fields: bool = False
    weights: int = 0
    profile: int = 77

    def sps(self, identifier: int = 0) -> bytes:
        bits = BitWriter().bits(self.profile, 8).bits(30, 16).ue(identifier).ue(self.frame_num_bits - 4)
        bits.ue(0).ue(4).ue(4).bits(self.allows_gaps, 1).ue(5).ue(3).bits(not self.allows_fields, 1)
        return b"\x67" + bits.bits(0, 1 + self.allows_fields).bits(0b100, 3).trailing()

    def pps(self, identifier: int = 0, sequence: int = 0) -> bytes:
        bits = BitWriter().ue(identifier).ue(sequence).bits(0, 2).ue(0).ue(0).ue(0).bits(self.weights << 2, 3)
        return b"\x68" + bits.se(0).se(0).se(0).bits(0b100, 3).trailing()

    def unit(
        self, frame_num: int, *, reference: int = 2, idr: bool = False, field: int | None = None,
        marking: tuple[int, ...] = (), macroblock: int = 0, pps: int = 0,
    ) -> bytes:  # fmt: skip
        """Write a P slice, or an I slice of an IDR picture; ``marking`` lists operations with their operands."""
        bits = BitWriter().ue(macroblock).ue(7 if idr else 5).ue(pps).bits(frame_num, self.frame_num_bits)
        if self.allows_fields:
            bits.bits(field is not None, 1).bits(field or 0, 0 if field is None else 1)
        if idr:
            bits.ue(0)
        bits.bits(frame_num * 2, 8)
        if not idr:
            bits.bits(0b0, 1).bits(0, 1)
            if self.weights:
                bits.ue(5).ue(5).bits(1, 1).se(-40).se(9).bits(0, 1)
        if idr:
            bits.bits(0, 2)
        elif reference:
            bits.bits(bool(marking), 1)
            for number in marking:
                bits.ue(number)
        return bytes([reference << 5 | (5 if idr else 1)]) + bits.se(3).trailing()


def annex_b(*units: bytes) -> bytes:
    return b"".join(b"\0\0\0\1" + unit for unit in units)


def follow(stream: Stream, *packets: bytes | tuple[bytes, ...]) -> list[bool]:
    """Check packets twice: with sets after start codes, and with a record and lengths of two bytes."""
    parts = [packet if isinstance(packet, tuple) else (packet,) for packet in packets]
    parser = H264Parser(annex_b(stream.sps(), stream.pps()))
    found = numbers_follow(parser, (annex_b(*units) for units in parts))
    sets = [len(unit).to_bytes(2, "big") + unit for unit in (stream.sps(), stream.pps())]
    parser = H264Parser(b"\1\x4d\0\x1e\xfd\xe1" + sets[0] + b"\1" + sets[1])
    lengths = [b"".join(len(unit).to_bytes(2, "big") + unit for unit in units) for units in parts]
    assert numbers_follow(parser, lengths) == found
    return found


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((0, 1, 2, 3), (True,) * 4),
        ((0, 2), (True, False)),
        ((0, 2, 3), (True, False, True)),
        ((7, 8), (True, True)),  # nothing before
        ((14, 15, 0, 1), (True,) * 4),  # modulo 16
        ((14, 0), (True, False)),
        ((15, 1), (True, False)),
        ((5, 4), (True, False)),
        ((5, 0), (True, False)),
    ],
)
def test_frame_num_of_references_must_continue(numbers: tuple[int, ...], expected: tuple[bool, ...]) -> None:
    stream = Stream()
    assert follow(stream, *map(stream.unit, numbers)) == list(expected)


def test_non_reference_pictures_do_not_count() -> None:
    stream = Stream()
    bystander = stream.unit(2, reference=0)
    packets = [stream.unit(1), bystander, bystander, stream.unit(2), stream.unit(4, reference=0), stream.unit(3)]
    assert follow(stream, *packets) == [True, True, True, True, False, True]


def test_idr_pictures_restart_numbers() -> None:
    stream = Stream()
    assert follow(stream, stream.unit(6), stream.unit(0, idr=True), stream.unit(1)) == [True] * 3
    assert follow(stream, stream.unit(6), stream.unit(1)) == [True, False]


@pytest.mark.parametrize("weights", [0, 1])
@pytest.mark.parametrize("stream_number", range(2))
def test_operation_5_restarts_numbers(weights: int, stream_number: int) -> None:
    stream = Stream(weights=weights, allows_fields=bool(stream_number))
    resetting = stream.unit(6, marking=(1, 0, 3, 1, 1, 5, 0))
    assert follow(stream, resetting, stream.unit(1)) == [True, True]
    assert follow(stream, resetting, stream.unit(2)) == [True, False]
    unsuspicious = stream.unit(6, marking=(1, 5, 4, 5, 2, 5, 6, 5, 0))
    assert follow(stream, unsuspicious, stream.unit(1)) == [True, False]


def test_allowed_gaps_are_not_losses() -> None:
    stream = Stream(allows_gaps=True)
    assert follow(stream, *map(stream.unit, (0, 3, 9, 1))) == [True] * 4


def test_fields_share_frame_num() -> None:
    stream = Stream(allows_fields=True)
    fields = [stream.unit(number, field=field) for number in (3, 4) for field in (0, 1)]
    assert follow(stream, *fields) == [True] * 4
    assert follow(stream, *fields, stream.unit(6, field=0), stream.unit(6, field=1)) == [True] * 4 + [False, True]
    assert follow(stream, tuple(fields[:2]), tuple(fields[2:]), stream.unit(5)) == [True] * 3


def test_packets_of_many_units_are_parsed() -> None:
    stream = Stream()
    slices = [(stream.unit(number), stream.unit(number, macroblock=9)) for number in (1, 2, 4)]
    assert follow(stream, *slices) == [True, True, False]
    # Slices of other layers and views, delimiters, and a redundant picture.
    others = (b"\x09\xf0", b"\x6e\x40\x00\x07", stream.unit(2), b"\x74\x40\x00\x07\x80", stream.unit(2))
    assert follow(stream, stream.unit(1), others, stream.unit(3)) == [True] * 3
    assert follow(stream, stream.unit(1), (stream.unit(2), stream.unit(3)), stream.unit(4)) == [True] * 3
    assert follow(stream, stream.unit(1), (stream.unit(2), stream.unit(4)), stream.unit(5)) == [True, False, True]


def test_parameter_sets_change_within_the_stream() -> None:
    stream, other = Stream(), Stream(frame_num_bits=7)
    packets = [
        stream.unit(5),
        (other.sps(3), other.pps(2, 3), other.unit(0, idr=True, pps=2)),
        *(other.unit(number, pps=2) for number in (1, 2, 40)),
        (stream.unit(0, idr=True)),
        stream.unit(1),
    ]
    assert follow(stream, *packets) == [True, True, True, True, False, True, True]


def test_uncertain_packets_count_as_intact() -> None:
    stream = Stream()
    assert numbers_follow(H264Parser(b""), (annex_b(stream.unit(number)) for number in (1, 5, 9))) == [True] * 3
    assert follow(stream, stream.unit(1), b"\x41", stream.unit(5), stream.unit(8)) == [True, True, True, False]
    for extradata in (b"\1", b"\1\x4d\0\x1e\xff\xe1\0\xff", annex_b(b"\x67"), annex_b(b"\x68\0\0\0\0\0\0"), b"\0" * 50):
        assert numbers_follow(H264Parser(extradata), (b"", annex_b(stream.unit(3)))) == [True, True]


def test_restart_restores_parameter_sets_of_configuration() -> None:
    """Later parameter sets would give a wrong number of bits for earlier frame_nums."""
    stream, other = Stream(), Stream(frame_num_bits=7)
    parser = H264Parser(annex_b(stream.sps(), stream.pps()))
    change = annex_b(other.sps(), other.pps(), other.unit(0, idr=True))
    assert numbers_follow(parser, [annex_b(stream.unit(5)), change, annex_b(other.unit(1))]) == [True] * 3
    parser.restart()
    assert numbers_follow(parser, [annex_b(stream.unit(number)) for number in (5, 6, 8)]) == [True, True, False]
