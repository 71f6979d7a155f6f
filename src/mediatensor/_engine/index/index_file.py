"""Write and read files that contain a `FrameIndex`. They are compact and portable. Untrusted ones are safe to read.

Numbers are stored as columns, one for each field of the index::

    magic (8)  version (4)  header size (4)  payload size (8)     whole numbers are little-endian
    header     JSON: numbers of frames, of key frames (num_entries) and of holes, flags, anomalies, the identity of the
               source, and for each int64 column its first value and the width of its steps in bytes (0: constant)
    payload    zlib: one column after the other; an int64 column starts with the lowest bytes of all its steps
    checksum   BLAKE2b (16) of everything before it

An int64 column is stored as its steps, the differences between neighbours. Times and packet numbers grow in small,
nearly equal steps, which take little space and are fast to unpack.
"""

from __future__ import annotations

import json
import os
import stat
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import asdict, dataclass
from fractions import Fraction
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import FrameIndexError, MediaTensorError, WriteError
from ..common.checks import path_text
from ..containers.sample_tables import NO_PTS
from ..pyav.opening import PYAV_VERSION, ContainerInfo, StreamInfo
from ..pyav.reading import VideoReader
from ..sources.output_files import write_file
from ..sources.readers import Reader
from ..sources.source import Source

#: Lends a reader of the stream for a ``with`` block.
LendReader = Callable[[], AbstractContextManager[VideoReader]]

# Number of bytes at each end of the source that are compared. Most formats have their headers and tables there.
_END_BYTES = 1 << 16


@dataclass(frozen=True)
class SourceIdentity:
    """Identifies a source by its size and content, and not by its name and time, to match indexes with files."""

    stream_index: int  # which stream of the source
    header: str  # digest of values from the headers of the container and the stream
    num_bytes: int | None  # size of the source; None if its bytes cannot be read here (URLs that FFmpeg opens)
    head: str | None  # digests of the first and the last 64 KiB
    tail: str | None
    pyav_version: str  # version of PyAV that made the index

    def differences(self, other: SourceIdentity, *, is_decoded: bool) -> list[str]:
        """Describe the differences from another source. Return an empty list if there are none.

        Headers are compared only if the bytes of a source cannot be read, because versions of FFmpeg can differ in the
        fields that they read from a header. The version of PyAV matters only for an index that was made by decoding
        (``is_decoded``), because such an index depends on decoded pixels.
        """
        found = []
        if self.stream_index != other.stream_index:
            found.append(f"the stream ({self.stream_index}, not {other.stream_index})")
        if self.num_bytes is None or other.num_bytes is None:
            if self.header != other.header:
                found.append("the header (format, codec, picture size, start or duration)")
        elif self.num_bytes != other.num_bytes:
            found.append(f"the size ({self.num_bytes} bytes, not {other.num_bytes})")
        else:
            if self.head != other.head:
                found.append(f"the first {_END_BYTES >> 10} KiB")
            if self.tail != other.tail:
                found.append(f"the last {_END_BYTES >> 10} KiB")
        if is_decoded and self.pyav_version != other.pyav_version:
            found.append(f"the version of PyAV ({self.pyav_version}, not {other.pyav_version})")
        return found

    def key(self, salt: str) -> str | None:
        """Return a name under which data about the source can be stored, or ``None`` if its bytes cannot be read.

        Data of different kinds need different values of ``salt``, which becomes part of the name.
        """
        if self.num_bytes is None:
            return None
        parts = (salt, self.stream_index, self.num_bytes, self.head, self.tail, self.pyav_version)
        return _digest(repr(parts).encode())


# Times up to this limit can be added and subtracted without overflow.
MAX_TICKS = 1 << 61
# More packets than a month of video at 25 frames per second.
_MAX_PACKETS = 1 << 26


def find_inconsistency(index: Mapping[str, Any]) -> str | None:
    """Describe the first fault of an index, as the end of a sentence that begins with "it"; ``None`` if it is valid.

    ``index`` maps field names to values, whose types and lengths must have been checked.
    """
    return next(_faults(index), None)


def _faults(index: Mapping[str, Any]) -> Iterator[str]:
    if not (_are_ticks(index["pts"]) and _are_ticks(index["duration"])):
        yield "has times that are out of range"
    if (index["duration"] < 0).any():
        yield "has negative durations"
    if (np.diff(index["pts"]) < 0).any():
        yield "has times that are not in order"
    if not _lies_within(index["packet"], -1, _MAX_PACKETS):
        yield "has packet numbers that are out of range"
    if not _lies_within(index["disposable"], -1, 1):
        yield "has invalid marks of disposable frames"
    packets = index["key_frame_packet"]
    if len(packets) == 0:
        if len(index["pts"]):
            yield "has frames, but no packet to start decoding at"
    else:
        if index["is_authoritative"]:
            # An index from a user's table has no packet numbers, except possibly for the first packet.
            if not (packets == -1).all() and packets.tolist() != [0]:
                yield "has unknown packets to start decoding at"
        elif packets[0] != 0 or (np.diff(packets) <= 0).any() or packets[-1] > _MAX_PACKETS:
            yield "has packets to start decoding at that are not in order"
        if not (_are_ticks_or_unknown(index["key_frame_pts"]) and _are_ticks_or_unknown(index["key_frame_dts"])):
            yield "has times of key frames that are out of range"
        if min(index["key_frame_position"].min(), index["key_frame_bytes"].min()) < -1:
            yield "has key frames with a negative position or size"
    if not index["settled"]:
        return
    if not _lies_within(index["num_packets"], 0, _MAX_PACKETS) or (np.diff(index["num_packets"]) < 0).any():
        yield "has numbers of decoded packets that are out of range or not in order"
    if not _are_ticks_or_unknown(index["codec_pts"]):
        yield "has decoded times that are out of range"
    frames, begins, ends = index["hole_frame"], index["hole_pts"], index["hole_end_pts"]
    if not _lies_within(frames, 0, len(index["pts"])) or (np.diff(frames) <= 0).any():
        yield "has holes that are not in order"
    if not (_are_ticks(begins) and _are_ticks(ends)):
        yield "has times of holes that are out of range"
    elif (ends < begins).any():
        yield "has holes that end before they begin"
    if not _lies_within(index["hole_num_packets"], 1, _MAX_PACKETS):
        yield "has holes whose numbers of packets are out of range"


def _lies_within(values: NDArray[Any], lowest: int, highest: int) -> bool:
    return len(values) == 0 or bool(values.min() >= lowest and values.max() <= highest)


def _are_ticks(values: NDArray[np.int64]) -> bool:
    return _lies_within(values, -MAX_TICKS, MAX_TICKS)


def _are_ticks_or_unknown(values: NDArray[np.int64]) -> bool:
    return _are_ticks(values[values != NO_PTS])


INT64 = "<i8"

#: Possible widths of a step in bytes.
WIDTHS = (0, 1, 2, 4, 8)


class PackedNumbers(NamedTuple):
    """A column of integers, packed as the differences between neighbours."""

    first: int  # first number; 0 if the column is empty
    width: int  # bytes per step; 0 if all numbers are equal
    steps: bytes  # signed steps between neighbours: the lowest byte of every step, then the second bytes, and so on


def pack_numbers(numbers: NDArray[np.int64]) -> PackedNumbers:
    """Pack a column of integers; `unpack_numbers` does the reverse.

    >>> import numpy as np
    >>> pack_numbers(np.array([100, 101, 100]))
    PackedNumbers(first=100, width=1, steps=b'\\x01\\xff')
    """
    if len(numbers) == 0:
        return PackedNumbers(0, 0, b"")
    steps = numbers[1:] - numbers[:-1]  # may wrap around, and unpacking wraps back
    width = next(width for width in WIDTHS if _fits_into_width(steps, width))
    if width == 0:
        return PackedNumbers(int(numbers[0]), 0, b"")
    by_bytes = np.ascontiguousarray(steps, f"<i{width}").view(np.uint8).reshape(-1, width)
    return PackedNumbers(int(numbers[0]), width, by_bytes.T.tobytes())


def unpack_numbers(steps: bytes, first: int, width: int, count: int) -> NDArray[np.int64]:
    """Return the column of ``count`` integers that `pack_numbers` packed. ``steps`` has ``width * (count - 1)`` bytes.

    >>> unpack_numbers(b"\\x01\\xff", 100, 1, 3)
    array([100, 101, 100])
    """
    numbers = np.full(count, first, np.int64)
    if width and count > 1:
        by_bytes = np.frombuffer(steps, np.uint8).reshape(width, count - 1)
        numbers[1:] = np.ascontiguousarray(by_bytes.T).view(f"<i{width}").ravel()
        np.cumsum(numbers, out=numbers)
    return numbers


def _fits_into_width(steps: NDArray[np.int64], width: int) -> bool:
    if len(steps) == 0:
        return True
    limit = 1 << (8 * width - 1) if width else 0
    return bool(steps.min() >= -limit and steps.max() <= max(0, limit - 1))


#: Changes when the file format or the meaning of its values changes.
FORMAT_VERSION = 3

#: Largest number of frames, and of key frames, in an index file: a week at 25 frames per second. It limits the memory
#: that a malicious file can make this module allocate to about 2 GB.
MAX_FRAMES = 1 << 24

# As in PNG, the first and last bytes reveal damage from transfers in text mode.
_MAGIC = b"\x89MTI\r\n\x1a\n"
_PREFIX = struct.Struct("<8sIIQ")
_MAX_HEADER_BYTES = 1 << 20
_CHECKSUM_BYTES = 16
_LEVEL = 6

_FRAME_COLUMNS = {"pts": INT64, "duration": INT64, "is_key": "|b1", "is_damaged": "|b1", "packet": INT64}
_FRAME_COLUMNS |= {"disposable": "|i1"}
_KEY_FRAME_COLUMNS = {f"key_frame_{name}": INT64 for name in ("packet", "pts", "dts", "position", "bytes")}
_DECODED_COLUMNS = {"fingerprint": "<u4", "codec_pts": INT64, "num_packets": INT64}
_HOLE_COLUMNS = {f"hole_{name}": INT64 for name in ("frame", "pts", "end_pts", "num_packets")}
_FLAGS = ("settled", "is_cut_short", "is_authoritative")
_IDENTITY_TYPES = {"stream_index": int, "header": str, "num_bytes": int | None, "head": str | None, "tail": str | None}
_IDENTITY_TYPES |= {"pyav_version": str}


class _InvalidError(Exception):
    """The content of an index file is invalid. The message becomes part of a `FrameIndexError`."""


def save_index(index: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write an index to a file; see `FrameIndex.save`. ``index`` maps field names to values."""
    try:
        data = _encode(index)
    except _InvalidError as error:
        raise FrameIndexError(f"The frame index cannot be saved to {str(path)!r}: it {error}.") from None
    try:
        write_file(path, data)
    except WriteError as error:
        raise FrameIndexError(f"The frame index cannot be saved. {error}") from error


def load_index(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read an index from a file; see `FrameIndex.load`. The result maps field names to values."""
    try:
        header, payload = _read(path_text("path", path))
        return _decode(header, payload)
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        raise FrameIndexError(f"The frame index {str(path)!r} could not be read: {error}.") from error
    except _InvalidError as error:
        raise FrameIndexError(
            f"{str(path)!r} {error}. Give a file that FrameIndex.save wrote, or make a new one from the video."
        ) from None


# Bytes of the file


def _encode(index: Mapping[str, Any]) -> bytes:
    if problem := find_inconsistency(index):
        raise _InvalidError(problem)
    layout = _layout(len(index["pts"]), len(index["key_frame_packet"]), len(index["hole_frame"]), index["settled"])
    columns = [pack_numbers(index[name]) for name, dtype, _ in layout if dtype == INT64]
    packed = iter(columns)
    raw = b"".join(
        next(packed).steps if dtype == INT64 else np.ascontiguousarray(index[name], dtype).tobytes()
        for name, dtype, _ in layout
    )
    header = json.dumps(
        {
            "num_frames": len(index["pts"]),
            "num_entries": len(index["key_frame_packet"]),
            "num_holes": len(index["hole_frame"]),
            "time_base": [index["time_base"].numerator, index["time_base"].denominator],
            **{flag: index[flag] for flag in _FLAGS},
            "columns": [[column.first, column.width] for column in columns],
            "anomalies": list(index["anomalies"]),
            "made_from": None if index["made_from"] is None else asdict(index["made_from"]),
        }
    ).encode()
    _parse_header(header)  # check that the file can be loaded
    payload = zlib.compress(raw, _LEVEL)
    data = _PREFIX.pack(_MAGIC, FORMAT_VERSION, len(header), len(payload)) + header + payload
    return data + _checksum(data)


def _read(path: str | os.PathLike[str]) -> tuple[bytes, bytes]:
    """Read an index file. Return its header and its payload, after checking the size and the checksum."""
    # Opening a pipe would block until a writer opens it.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise _InvalidError("is not a regular file")
    with open(path, "rb") as file:
        prefix = file.read(_PREFIX.size)
        if prefix[: len(_MAGIC)] != _MAGIC:
            raise _InvalidError("is not a saved frame index")
        if len(prefix) < _PREFIX.size:
            raise _InvalidError("is truncated")
        _, format_version, header_size, payload_size = _PREFIX.unpack(prefix)
        if format_version != FORMAT_VERSION:
            raise _InvalidError(f"is a frame index of version {format_version}; this library reads {FORMAT_VERSION}")
        rest_size = header_size + payload_size + _CHECKSUM_BYTES
        if os.fstat(file.fileno()).st_size != _PREFIX.size + rest_size:
            raise _InvalidError("is truncated, or has bytes that do not belong to it")
        rest = file.read(rest_size)
    if len(rest) != rest_size or _checksum(prefix + rest[:-_CHECKSUM_BYTES]) != rest[-_CHECKSUM_BYTES:]:
        raise _InvalidError("is damaged: its checksum is wrong")
    return rest[:header_size], rest[header_size:-_CHECKSUM_BYTES]


def _decode(header: bytes, payload: bytes) -> dict[str, Any]:
    values = _parse_header(header)
    layout = _layout(values["num_frames"], values["num_entries"], values["num_holes"], values["settled"])
    numbers = iter(values["columns"])
    # Name, type and length of each column; for int64 columns, also the first number and the width of steps.
    plan = [(name, dtype, count, *(next(numbers) if dtype == INT64 else (0, 0))) for name, dtype, count in layout]
    sizes = [
        max(0, count - 1) * width if dtype == INT64 else np.dtype(dtype).itemsize * count
        for _, dtype, count, _, width in plan
    ]
    raw = _decompress(payload, sum(sizes))
    arrays: dict[str, Any] = {}
    offset = 0
    for (name, dtype, count, first, width), size in zip(plan, sizes, strict=True):
        data = raw[offset : offset + size]
        arrays[name] = unpack_numbers(data, first, width, count) if dtype == INT64 else _parse_array(data, dtype)
        offset += size
    index = {
        **arrays,
        "time_base": Fraction(*values["time_base"]),
        **{flag: values[flag] for flag in _FLAGS},
        "anomalies": tuple(values["anomalies"]),
        "made_from": None if values["made_from"] is None else SourceIdentity(**values["made_from"]),
    }
    if problem := find_inconsistency(index):
        raise _InvalidError(f"is not a valid frame index: it {problem}")
    return index


# Header


def _parse_header(header: bytes) -> dict[str, Any]:
    if len(header) > _MAX_HEADER_BYTES:
        raise _InvalidError(f"is not a valid frame index: its header is larger than {_MAX_HEADER_BYTES} bytes")
    try:
        values = json.loads(header)
    except (ValueError, RecursionError):
        raise _InvalidError("is not a valid frame index: its header is not JSON") from None
    if fault := next(_header_faults(values), None):
        raise _InvalidError(f"is not a valid frame index: its header {fault}")
    return values  # type: ignore[no-any-return]


def _header_faults(values: Any) -> Iterator[str]:
    keys = {"num_frames", "num_entries", "num_holes", "time_base", *_FLAGS, "columns", "anomalies", "made_from"}
    if not isinstance(values, dict) or set(values) != keys:
        yield "has other fields than expected"
        return
    for name in ("num_frames", "num_entries", "num_holes"):
        if not _is_number(values[name], 0):
            yield f"has no valid {name}"
            return
    num_frames, num_key_frames, num_holes = values["num_frames"], values["num_entries"], values["num_holes"]
    if num_holes > num_frames + 1:
        yield f"has {num_holes} holes between {num_frames} frames"
    if max(num_frames, num_key_frames) > MAX_FRAMES:
        counts = f"{num_frames} frames and {num_key_frames} key frames"
        yield f"has {counts}, more than the {MAX_FRAMES} that a file may hold"
    time_base = values["time_base"]
    if not (isinstance(time_base, list) and len(time_base) == 2 and all(_is_number(n, 1, 1 << 31) for n in time_base)):
        yield "has no valid time base"
    if not all(isinstance(values[flag], bool) for flag in _FLAGS) or (values["settled"] and values["is_authoritative"]):
        yield "has flags that are not valid"
        return
    if values["num_holes"] and not values["settled"]:
        yield "has holes that only decoding can find"
    num_columns = sum(dtype == INT64 for _, dtype, _ in _layout(0, 0, 0, values["settled"]))
    if not (isinstance(values["columns"], list) and [_is_column(c) for c in values["columns"]] == [True] * num_columns):
        yield "has columns that are not valid"
    if not (isinstance(values["anomalies"], list) and all(isinstance(text, str) for text in values["anomalies"])):
        yield "has anomalies that are not sentences"
    if values["made_from"] is not None and not _is_identity(values["made_from"]):
        yield "has no valid source"


def _is_column(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and _is_number(value[0], -(1 << 63), (1 << 63) - 1)
        and type(value[1]) is int
        and value[1] in WIDTHS
    )


def _is_number(value: object, lowest: int, highest: int = 1 << 62) -> bool:
    return type(value) is int and lowest <= value <= highest


def _is_identity(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == _IDENTITY_TYPES.keys()
        and all(isinstance(value[name], kind) and value[name] is not True for name, kind in _IDENTITY_TYPES.items())
    )


# Columns


def _layout(num_frames: int, num_key_frames: int, num_holes: int, settled: bool) -> list[tuple[str, str, int]]:
    """Return (name, dtype, length) of each column of an index file, in the order in which they are stored."""
    by_frame = {**_FRAME_COLUMNS, **(_DECODED_COLUMNS if settled else {})}
    frames = [(name, dtype, num_frames) for name, dtype in by_frame.items()]
    key_frames = [(name, dtype, num_key_frames) for name, dtype in _KEY_FRAME_COLUMNS.items()]
    holes = [(name, dtype, num_holes) for name, dtype in _HOLE_COLUMNS.items()] if settled else []
    return frames + key_frames + holes


def _parse_array(data: bytes, dtype: str) -> NDArray[Any]:
    if dtype == "|b1":
        # NumPy treats bools inconsistently if their byte is neither 0 nor 1.
        values = np.frombuffer(data, np.uint8)
        if (values > 1).any():
            raise _InvalidError("is not a valid frame index: it has flags that are neither true nor false")
        return values.astype(bool)
    return np.frombuffer(data, dtype).astype(np.dtype(dtype).newbyteorder("="))


def _decompress(payload: bytes, size: int) -> bytes:
    """Decompress a payload. Raise `_InvalidError` unless the result has exactly ``size`` bytes."""
    decompressor = zlib.decompressobj()
    try:
        raw = decompressor.decompress(payload, size + 1)
    except zlib.error:
        raise _InvalidError("is not a valid frame index: its columns cannot be decompressed") from None
    if len(raw) != size or not decompressor.eof or decompressor.unused_data:
        raise _InvalidError("is not a valid frame index: its columns do not have the length that its header says")
    return raw


def _checksum(data: bytes) -> bytes:
    return blake2b(data, digest_size=_CHECKSUM_BYTES).digest()


# The identity of a source


def identify(source: Source, container: ContainerInfo, stream: StreamInfo, lend_reader: LendReader) -> SourceIdentity:
    """Return the identity of an opened stream. This reads at most the first and the last 64 KiB of its source.

    If the bytes of the source cannot be read, the stream is identified by its headers only. If the source cannot be
    opened a second time, a reader from ``lend_reader`` is used, and its position is restored.
    """
    try:
        num_bytes, head, tail = _identify_bytes(source, lend_reader)
    except (OSError, MediaTensorError, ValueError):
        num_bytes = head = tail = None
    size = (stream.width, stream.height)
    times = (stream.time_base, stream.start_pts, stream.duration_pts, container.duration_seconds)
    header = repr((container.format_name, stream.codec, size, times, stream.num_frames))
    return SourceIdentity(
        stream_index=stream.index,
        header=_digest(header.encode()),
        num_bytes=num_bytes,
        head=head,
        tail=tail,
        pyav_version=PYAV_VERSION,
    )


def _identify_bytes(source: Source, lend_reader: LendReader) -> tuple[int | None, str | None, str | None]:
    """Return (size in bytes, digest of the first bytes, digest of the last bytes); ``None`` if FFmpeg reads it."""
    own = source.open_bytes()
    if own is not None:
        with closing(own):
            return _size_and_ends(own)
    with lend_reader() as reader:
        # The demuxer's reader may have fetched these bytes already.
        shared = reader.byte_reader
        if shared is None:
            return None, None, None
        position = shared.tell()
        try:
            return _size_and_ends(shared)
        finally:
            shared.seek(position)


def _size_and_ends(file: Reader) -> tuple[int, str, str]:
    num_bytes = file.seek(0, os.SEEK_END)
    head = file.read_at(0, min(_END_BYTES, num_bytes))
    tail_start = max(0, num_bytes - _END_BYTES)
    tail = head if tail_start == 0 else file.read_at(tail_start, num_bytes - tail_start)
    return num_bytes, _digest(head), _digest(tail)


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
