"""Damage packets of a finished file, and decode it plainly."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter

from media_writing import copy_stream


def zeros(data: bytes) -> bytes:
    return bytes(len(data))


def garbage(data: bytes) -> bytes:
    return np.random.default_rng(len(data)).integers(0, 256, len(data), np.uint8).tobytes()


def flipped(data: bytes) -> bytes:
    """Bits flipped in the second half, which H.264 and MPEG-4 decoders notice and conceal."""
    changed = bytearray(data)
    for at in range(len(data) // 2, len(data) - 4, 9):
        changed[at] ^= 0x5A
    return bytes(changed)


def with_damage(data: bytes, change: Callable[[bytes], bytes], numbers: Sequence[int]) -> bytes:
    """The file with the payload of some packets changed, numbered in the order of the file."""
    changed = bytearray(data)
    with av.open(io.BytesIO(data)) as container:
        packets = [(packet.pos, bytes(packet)) for packet in container.demux(video=0) if packet.size]
    for number in numbers:
        position, payload = packets[number]
        start = data.index(payload, position)
        changed[start : start + len(payload)] = change(payload)
    return bytes(changed)


@functools.lru_cache(maxsize=2)
def plain_decode(data: bytes) -> list[tuple[int | None, bool, np.ndarray]]:
    """Return (pts, whether it is flagged, pixels) of the frames of a single-threaded codec, in its order.

    Packets that the codec refuses are passed over; an error in reading ends the stream.
    """
    found: list[tuple[int | None, bool, np.ndarray]] = []
    reformatter = VideoReformatter()
    with av.open(io.BytesIO(data), metadata_errors="ignore") as container:
        stream = container.streams.best("video")
        if stream is None:
            return found
        context = stream.codec_context
        context.thread_type, context.thread_count, context.options = "NONE", 1, {"err_detect": "0"}
        for packet in [*_packets_of(container, stream), None]:
            try:
                frames = context.decode(packet)
            except (av.FFmpegError, ValueError):
                continue
            for frame in frames:
                rgb = reformatter.reformat(frame, format="rgb24", interpolation=Interpolation.BICUBIC, threads=1)
                found.append((frame.pts, bool(frame.is_corrupt), rgb.to_ndarray()))
    return found


def _packets_of(container: Any, stream: Any) -> Iterator[Any]:
    while True:
        try:
            yield from (packet for packet in container.demux(stream) if packet.size)
            return
        except IndexError:
            continue  # PyAV raises this for packets of streams that appear midway
        except av.FFmpegError:
            return


def with_sound(source: Path, target: Path) -> Path:
    """The video of a file, packet by packet, with silence of the same length, as Matroska."""
    with av.open(str(source)) as file, av.open(str(target), "w", format="matroska") as output:
        video = copy_stream(file.streams.video[0], output)
        audio = output.add_stream("pcm_s16le", rate=8000, layout="mono")
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 8000 * 4), np.int16), "s16", "mono")
        sound.sample_rate, sound.pts = 8000, 0
        output.mux(video)
        output.mux(audio.encode(sound))
        output.mux(audio.encode(None))
    return target
