"""Packets of a media file in another order, twice, lost or damaged, in a container that is whole."""

from __future__ import annotations

import io
import random
from typing import Any

import av

from media_surgery import with_data

__all__ = ["rearrange_packets"]

_MUXERS = {"mov,mp4,m4a,3gp,3g2,mj2": "mp4", "matroska,webm": "matroska", "mpegvideo": "mpeg2video", "obu": "obu"}


def rearrange_packets(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Rewrite the file with some of its packets changed; return it unchanged if FFmpeg cannot write it."""
    try:
        with av.open(io.BytesIO(data), metadata_errors="replace") as source:
            packets = [packet for packet in source.demux() if packet.size]
            return _written(source, _rearranged(rng, packets)) or data
    except (av.FFmpegError, ValueError, IndexError, MemoryError, OverflowError):
        return data


def _rearranged(rng: random.Random, packets: list[Any]) -> list[Any]:
    if not packets:
        return packets
    count = len(packets)
    at, length = rng.randrange(count), rng.randint(1, 5)
    change = rng.choice(("drop", "drop", "double", "swap", "damage", "damage", "start late", "times", "key"))
    if change == "drop":
        return packets[:at] + packets[at + length :]
    if change == "double":
        return packets[: at + length] + packets[at:]
    if change == "start late":
        return packets[at:]
    chosen = packets[at]
    if change == "swap":
        other = packets[rng.randrange(count)]
        one, two = bytes(chosen), bytes(other)
        return [_like(p, two) if p is chosen else _like(p, one) if p is other else p for p in packets]
    if change == "damage":
        spoiled = bytearray(bytes(chosen))
        for _ in range(rng.choice((1, 4, 30))):
            spoiled[rng.randrange(len(spoiled))] = rng.randrange(256)
        kept = rng.choice((None, rng.randrange(1, 30)))
        return [*packets[:at], _like(chosen, bytes(spoiled)[:kept]), *packets[at + 1 :]]
    if change == "times":
        chosen.pts = rng.choice((None, 0, -1, (chosen.pts or 0) * 1000, 1 << 40, chosen.dts, packets[0].pts))
    else:
        chosen.is_keyframe = not chosen.is_keyframe
    return packets


def _like(packet: Any, data: bytes) -> Any:
    copy = with_data(packet, data)
    copy.stream = packet.stream
    return copy


def _written(source: Any, packets: list[Any]) -> bytes:
    target = io.BytesIO()
    muxer = _MUXERS.get(source.format.name, source.format.name.split(",")[0])
    with av.open(target, "w", format=muxer, options={"fflags": "bitexact"}) as output:
        streams = {}
        for stream in source.streams:
            if stream.type in ("video", "audio", "subtitle"):
                streams[stream.index] = output.add_stream_from_template(stream)
        for packet in packets:
            if packet.stream.index in streams:
                packet.stream = streams[packet.stream.index]
                output.mux_one(packet)
    return target.getvalue()
