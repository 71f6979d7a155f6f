"""The lower bound: libavcodec only, decoding exactly the packets that mediatensor feeds, without converting frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import av

from mediatensor._engine.pyav.reading import PacketDecoder
from mediatensor.decoders import VideoDecoder

from .case import Case, Image, Library, Size

# Identity of a packet within its stream: dts, pts and size.
FedPacket = tuple[int | None, int | None, int]


@contextmanager
def fed_packets() -> Iterator[list[FedPacket]]:
    """Record every packet that mediatensor feeds to a codec within the block, in order.

    Example:
        >>> with fed_packets() as fed:  # doctest: +SKIP
        ...     decoder.get_frame_at(100)
        >>> len(fed)  # doctest: +SKIP
        17
    """
    fed: list[FedPacket] = []
    decoder: Any = PacketDecoder
    original = decoder.decode

    def counting(self: PacketDecoder, packet: Any | None) -> list[Any]:
        if packet is not None:
            fed.append((packet.dts, packet.pts, packet.size))
        frames: list[Any] = original(self, packet)
        return frames

    decoder.decode = counting
    try:
        yield fed
    finally:
        decoder.decode = original


class FloorLibrary(Library):
    """Run the packets of a case through a codec. Choosing packets and reading them from the file is not timed.

    Args:
        num_threads: Codec threads; 0 for one per core.
    """

    gives_frames = False

    def __init__(self, num_threads: int) -> None:
        self._num_threads = num_threads
        self._packets: dict[str, dict[tuple[int, ...], tuple[Any, list[list[Any]]]]] = {}

    def prepare(self, case: Case) -> None:
        for path, calls in case.calls():
            decoder = VideoDecoder(path)
            self._packets[path] = {}
            for call in calls:
                with fed_packets() as fed:
                    decoder.get_frames_at(list(call))
                self._packets[path][tuple(call)] = _read_packets(path, fed)

    def open(self, path: str, size: Size | None) -> Any:
        return self._packets[path]

    def count(self, decoder: Any) -> int:
        raise NotImplementedError("libavcodec decodes, and does not count")

    def fetch(self, decoder: Any, indices: Sequence[int]) -> Any:
        stream, runs = decoder[tuple(indices)]
        return _decode_packets(stream, runs, self._num_threads)

    def images(self, batch: Any) -> Iterable[Image]:
        raise NotImplementedError("libavcodec's pictures are not converted")

    def versions(self) -> dict[str, str]:
        return {}


def _read_packets(path: str, wanted: list[FedPacket]) -> tuple[Any, list[list[Any]]]:
    """(stream, runs): the wanted packets of a file in runs, each of which starts with an empty codec.

    A new run begins at a key frame before which packets were left out.
    """
    needed = Counter(wanted)
    stream: Any = av.open(path).streams.video[0]
    runs: list[list[Any]] = []
    is_gap = True
    for packet in stream.container.demux(stream):
        times = needed[(packet.dts, packet.pts, packet.size)]
        if times and (not runs or (is_gap and packet.is_keyframe)):
            runs.append([])
        is_gap = not times
        # A packet that the library fed several times is decoded as often here.
        runs[-1:] = [runs[-1] + [packet] * times] if times else runs[-1:]
    return stream, runs


def _decode_packets(stream: Any, runs: list[list[Any]], num_threads: int) -> int:
    """Decode runs of packets with a new codec, drop the frames, and return their number."""
    context: Any = av.CodecContext.create(stream.codec_context.codec.name, "r")
    context.extradata = stream.codec_context.extradata
    context.thread_count = num_threads
    context.thread_type = "NONE" if num_threads == 1 else "AUTO"
    num_frames = 0
    for run in runs:
        for packet in [*run, None]:
            num_frames += len(context.decode(packet))
        context.flush_buffers()
    return num_frames
