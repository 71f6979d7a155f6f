"""What the header of a Matroska or WebM file says of its tracks. Pure functions on bytes.

References are to RFC 8794 (EBML) and RFC 9559 (Matroska). Anything unusual raises `MalformedBoxError`.
"""

from __future__ import annotations

from typing import NamedTuple

from .boxes import MalformedBoxError

__all__ = ["DEFAULT_TIMESTAMP_SCALE", "TrackEntry", "timestamp_scale", "track_entry"]

_TIMESTAMP_SCALE = 0x2AD7B1
_TRACK_ENTRY, _TRACK_NUMBER, _DEFAULT_DURATION, _TRACK_TIMESTAMP_SCALE = 0xAE, 0xD7, 0x23E383, 0x23314F
_TRACK_TYPE, _CODEC_DELAY, _CONTENT_ENCODINGS, _CONTENT_ENCODING = 0x83, 0x56AA, 0x6D80, 0x6240
_ENCODING_SCOPE, _ENCODING_TYPE, _COMPRESSION, _COMPRESSION_ALGORITHM = 0x5032, 0x5033, 0x5034, 0x4254
_COMPRESSION_SETTINGS = 0x4255

DEFAULT_TIMESTAMP_SCALE = 1_000_000
_MAX_CHILDREN = 1 << 12
_MAX_TRACK_NUMBER = 126  # one byte
# Of pictures, sound, subtitles and metadata the demuxer makes streams (5.1.4.1.3).
_VIDEO, _TYPES_OF_STREAMS = 1, frozenset((1, 2, 0x11, 0x21))
_MAX_NANOSECONDS = 1 << 60


class TrackEntry(NamedTuple):
    """What the header says that decides on the packets of a track.

    Attributes:
        number: Of the track.
        octets: What blocks begin with, of all tracks.
        default_duration, codec_delay: In nanoseconds.
        stripped: What every frame begins with that is not in the file.
    """

    number: int
    octets: tuple[int, ...]
    default_duration: int
    codec_delay: int
    stripped: bytes


#: (ID, content) of elements.
_Elements = list[tuple[int, bytes]]


def _children(data: bytes) -> _Elements:
    """The elements that lie in ``data`` one after the other."""
    found: _Elements = []
    at, end = 0, len(data)
    while at < end:
        id_bytes = 9 - data[at].bit_length()
        kind, at = int.from_bytes(data[at : at + id_bytes], "big"), at + id_bytes
        if id_bytes > 4 or at >= end or len(found) >= _MAX_CHILDREN:
            raise MalformedBoxError("elements that do not add up")
        size_bytes = 9 - data[at].bit_length()
        ones = (1 << 7 * size_bytes) - 1
        size, at = int.from_bytes(data[at : at + size_bytes], "big") & ones, at + size_bytes
        if size_bytes > 8 or size == ones or size > end - at:
            raise MalformedBoxError("an element that does not fit into what holds it")
        found.append((kind, data[at : at + size]))
        at += size
    return found


def _all(elements: _Elements, kind: int) -> list[bytes]:
    return [content for found, content in elements if found == kind]


def _unsigned(elements: _Elements, kind: int, default: int) -> int:
    """The number in the only element of a kind."""
    found = _all(elements, kind)
    if len(found) > 1 or any(len(content) > 8 for content in found):
        raise MalformedBoxError(f"more than one number {kind:X}")
    return int.from_bytes(found[0], "big") if found and found[0] else default


def timestamp_scale(info: bytes) -> int:
    """Nanoseconds of a tick (5.1.2.9)."""
    nanoseconds = _unsigned(_children(info), _TIMESTAMP_SCALE, DEFAULT_TIMESTAMP_SCALE)
    if not 0 < nanoseconds <= _MAX_NANOSECONDS:
        raise MalformedBoxError(f"ticks of {nanoseconds} nanoseconds")
    return nanoseconds


def track_entry(tracks: bytes, track_index: int) -> TrackEntry:
    """What decides on packets of a track, one of those of which the demuxer makes streams."""
    entries = [_children(content) for content in _all(_children(tracks), _TRACK_ENTRY)]
    numbers = [_unsigned(entry, _TRACK_NUMBER, 0) for entry in entries]
    streams = [entry for entry in entries if _unsigned(entry, _TRACK_TYPE, 0) in _TYPES_OF_STREAMS]
    if track_index >= len(streams) or len(set(numbers)) != len(numbers):
        raise MalformedBoxError(f"no track {track_index}, or several with one number")
    entry = streams[track_index]
    number = _unsigned(entry, _TRACK_NUMBER, 0)
    if not 0 < number <= _MAX_TRACK_NUMBER or _unsigned(entry, _TRACK_TYPE, 0) != _VIDEO:
        raise MalformedBoxError(f"a track with the number {number}, or without pictures")
    if _all(entry, _TRACK_TIMESTAMP_SCALE) not in ([], [b"\x3f\x80\0\0"], [b"\x3f\xf0" + bytes(6)]):
        raise MalformedBoxError("a track with a time of its own")
    return TrackEntry(
        number=number,
        octets=tuple(other | 0x80 for other in numbers if 0 < other <= _MAX_TRACK_NUMBER),
        default_duration=_unsigned(entry, _DEFAULT_DURATION, 0),
        codec_delay=_unsigned(entry, _CODEC_DELAY, 0),
        stripped=_stripped_header(entry),
    )


def _stripped_header(entry: _Elements) -> bytes:
    """What is missing at the beginning of every frame (5.1.4.1.31)."""
    encodings = [_children(content) for container in _all(entry, _CONTENT_ENCODINGS) for content in
                 _all(_children(container), _CONTENT_ENCODING)]  # fmt: skip
    if not encodings:
        return b""
    compressions = _all(encodings[0], _COMPRESSION)
    if len(encodings) > 1 or len(compressions) != 1:
        raise MalformedBoxError("frames that are encrypted, or encoded twice")
    compression = _children(compressions[0])
    settings = _all(compression, _COMPRESSION_SETTINGS)
    is_stripped = _unsigned(compression, _COMPRESSION_ALGORITHM, 0) == 3 and len(settings) == 1
    if (
        not is_stripped
        or _unsigned(encodings[0], _ENCODING_TYPE, 0)
        or _unsigned(encodings[0], _ENCODING_SCOPE, 1) != 1
    ):
        raise MalformedBoxError("frames that are compressed")
    return settings[0]
