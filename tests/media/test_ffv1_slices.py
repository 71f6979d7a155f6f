"""Checksums in FFV1 packets: damage is detected, and intact packets pass."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from mediatensor._engine.bitstreams.content import slices_are_intact

# Encoder options, and whether slices then have checksums.
STREAMS = {
    "version 3": ({"level": "3", "g": "4"}, True),
    "one slice": ({"level": "3", "slices": "1"}, True),
    "range coder": ({"level": "3", "coder": "1", "slices": "24"}, True),
    "version 4": ({"level": "4", "strict": "-2", "g": "4"}, True),
    "version 3 without checksums": ({"level": "3", "slicecrc": "0"}, False),
    "version 1": ({"level": "1"}, False),
}


def encode(options: dict[str, str], path: Path) -> list[bytes]:
    noise = np.random.default_rng(7)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        packets = []
        for _ in range(8):
            picture = noise.integers(0, 255, (64, 96, 3), np.uint8)
            packets += stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24"))
        return [bytes(packet) for packet in packets + stream.encode()]


def with_byte_changed(packet: bytes, at: int) -> memoryview:
    return memoryview(packet[:at] + bytes([packet[at] ^ 0x10]) + packet[at + 1 :])


@pytest.mark.parametrize("name", STREAMS)
def test_intact_packets_pass(name: str, tmp_path: Path) -> None:
    packets = encode(STREAMS[name][0], tmp_path / "clip.mkv")
    assert len(packets) == 8
    assert all(slices_are_intact(memoryview(packet)) for packet in packets)


@pytest.mark.parametrize("name", [name for name, (_, has_checksums) in STREAMS.items() if has_checksums])
def test_changed_byte_before_last_trailer_is_detected(name: str, tmp_path: Path) -> None:
    """A change that is not detected breaks the chain of lengths, and the codec refuses the packet."""
    packet = encode(STREAMS[name][0], tmp_path / "clip.mkv")[5]
    places = range(0, len(packet) - 8, max(1, len(packet) // 97))
    unnoticed = [at for at in places if slices_are_intact(with_byte_changed(packet, at))]
    assert len(unnoticed) <= len(places) // 30


@pytest.mark.parametrize("name", [name for name, (_, has_checksums) in STREAMS.items() if not has_checksums])
def test_packets_without_checksums_pass(name: str, tmp_path: Path) -> None:
    packet = encode(STREAMS[name][0], tmp_path / "clip.mkv")[5]
    assert slices_are_intact(with_byte_changed(packet, len(packet) // 2))


@pytest.mark.parametrize("packet", [b"", b"\0", bytes(7), bytes(8), bytes(100), b"\xff" * 100])
def test_random_bytes_raise_nothing(packet: bytes) -> None:
    assert slices_are_intact(memoryview(packet)) in (True, False)
