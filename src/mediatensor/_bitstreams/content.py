"""What a packet holds, as far as its first bits say: whether a frame will come out of it. Pure functions on bytes.

References are to ITU-T H.264 and H.265, ISO/IEC 13818-2 (MPEG-2) and 14496-2 (MPEG-4), the Dirac specification, RFC
6386 (VP8), and the VP9 and AV1 bitstream specifications.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import Enum
from functools import partial

from .av1 import av1_units
from .bits import BitReader
from .mpeg import Mpeg4Layer, layers, parse_layer

__all__ = ["PacketContent", "content_parser", "is_sound", "nal_length_size", "nal_units_are_sound", "slices_are_sound"]

# Codecs whose pictures may rightly begin with zeros.
_RAW = frozenset(("rawvideo", "v210", "v410", "r210", "wrapped_avframe"))

_ZEROS = bytes(16)

_START_CODE = re.compile(rb"\x00\x00\x01(.)", re.DOTALL)
_NO_MPEG4_PICTURE = frozenset((*range(0x30), 0xB0, 0xB1, 0xB2, 0xB3, 0xB5))  # objects, layers, their ends, user data
_VOP = 0xB6
# A VOP that is not coded ends after its time; what else is in the packet of one are headers.
_NOT_CODED_BYTES = 32
_AV1_SEQUENCE_HEADER, _AV1_FRAMES = 1, (3, 6)  # a frame header, and a frame in one unit


def _any_of(codes: Iterable[int]) -> bytes:
    return b"[" + re.escape(bytes(codes)) + b"]"


# Codes that show whether there is a picture: those that begin one, and those that the codec does not have.
_H264_SLICES = frozenset(reference << 5 | kind for reference in range(4) for kind in (1, 5))
_H264_TELLING = re.compile(
    rb"\x00\x00\x01("
    + _any_of(code for code in range(256) if code in _H264_SLICES or code & 128 or not 1 <= code & 31 <= 23)
    + rb")"
)
_HEVC_SLICES = frozenset(kind << 1 for kind in (*range(10), *range(16, 22)))  # of the base layer
_HEVC_TELLING = re.compile(
    rb"\x00\x00\x01([\x80-\xff].|."
    + _any_of(range(0, 256, 8))  # no temporal sub-layer
    + rb"|"
    + _any_of(_HEVC_SLICES)
    + rb"[\x01-\x07])",
    re.DOTALL,
)
# Not user data, a sequence, an extension, an end of a sequence or a group of pictures.
_MPEG2_TELLING = re.compile(rb"\x00\x00\x01([^\xb2\xb3\xb5\xb7\xb8])")


class PacketContent(Enum):
    """What comes of a packet."""

    PICTURE = "a picture that is shown"
    NO_PICTURE = "nothing that is shown: updates of references, parameters, the end of a sequence"
    NOT_CODED = "that the picture before stays, which is a frame only at the end of a stream"
    UNCERTAIN = "a number of frames that only decoding tells"
    FOREIGN = "what packets of the codec do not have"


def content_parser(codec: str | None, extradata: bytes) -> Callable[[memoryview], PacketContent]:
    """The function that tells what packets of ``codec`` hold; where it cannot tell, a picture.

    VP8, VP9 and AV1 have packets that only update references and show nothing ("alternate reference" frames). Of the
    others, the end of a sequence and what belongs to no picture can have packets of their own.

    The function is given packets in the order of the file, from the first one on.

    Args:
        codec: FFmpeg's name of the codec.
        extradata: The codec's configuration record, or its headers as they are in the stream.

    Example:
        >>> what_is_in = content_parser("mpeg2video", b"")
        >>> what_is_in(memoryview(b"\\0\\0\\1\\xb7"))  # sequence_end_code
        <PacketContent.NO_PICTURE: 'nothing that is shown: updates of references, parameters, the end of a sequence'>
    """
    if codec in ("h264", "hevc"):
        return partial(_h264 if codec == "h264" else _hevc, nal_length_size(codec, extradata))
    if codec in ("av1", "mpeg4"):
        return (_Av1 if codec == "av1" else _Mpeg4)(extradata).content
    return _PARSERS.get(codec or "", _picture)


_PICTURE = PacketContent.PICTURE


def _picture(_: memoryview) -> PacketContent:
    return _PICTURE


def _shown(is_shown: bool) -> PacketContent:
    return _PICTURE if is_shown else PacketContent.NO_PICTURE


def nal_length_size(codec: str | None, extradata: bytes) -> int | None:
    """Bytes of the length before each unit (ISO/IEC 14496-15), or ``None`` where units are not length-prefixed."""
    if codec == "h264" and len(extradata) > 4 and extradata[0] == 1:
        return (extradata[4] & 3) + 1
    if codec == "hevc" and len(extradata) > 21 and extradata[0] == 1:
        return (extradata[21] & 3) + 1
    return None


def _h264(length_size: int | None, packet: memoryview) -> PacketContent:
    """A picture begins with a slice, perhaps of an IDR picture (7.4.1); units without use in a stream are foreign."""
    if length_size is None:
        match = _H264_TELLING.search(packet)
        if match is None:
            return _without_telling_code(packet)
        return _PICTURE if match[1][0] in _H264_SLICES else PacketContent.FOREIGN
    position, end = length_size, len(packet)
    while position < end:
        if packet[position] in _H264_SLICES:
            return _PICTURE
        position += length_size + int.from_bytes(packet[position - length_size : position], "big")
    return PacketContent.NO_PICTURE


def _hevc(length_size: int | None, packet: memoryview) -> PacketContent:
    """A picture begins with a slice segment of the base layer, of a kind that is not reserved (7.4.2.2)."""
    if length_size is None:
        match = _HEVC_TELLING.search(packet)
        if match is None:
            return _without_telling_code(packet)
        return _PICTURE if match[1][0] in _HEVC_SLICES and match[1][1] & 7 else PacketContent.FOREIGN
    position, end = length_size, len(packet) - 1
    while position < end:
        if packet[position] in _HEVC_SLICES and packet[position + 1] < 8:
            return _PICTURE
        position += length_size + int.from_bytes(packet[position - length_size : position], "big")
    return PacketContent.NO_PICTURE


def _mpeg2(packet: memoryview) -> PacketContent:
    """MPEG-1 and 2: slices come behind the header of a picture (6.2.1, start codes)."""
    match = _MPEG2_TELLING.search(packet)
    if match is None:
        return _without_telling_code(packet)
    return PacketContent.FOREIGN if match[1][0] else _PICTURE


def _without_telling_code(packet: memoryview) -> PacketContent:
    """Of a packet in which no start code is that of a picture, or odd: it should have others."""
    return PacketContent.NO_PICTURE if _START_CODE.search(packet) else _PICTURE


class _Mpeg4:
    """MPEG-4 part 2: a VOP, unless its header says that it is not coded, and the one before it is to stay (6.2.5).

    FFmpeg gives no frame for those, but for the last one of a stream. Among B-VOPs it loses others, too, when their
    times are not what it expects.
    """

    def __init__(self, extradata: bytes) -> None:
        self._header = b""
        self._layer: Mpeg4Layer | None = None
        for layer in layers(extradata):
            self._learn(layer)

    def _learn(self, header: bytes) -> None:
        if header != self._header:
            self._header, self._layer = header, None
            with suppress(ValueError):
                self._layer = parse_layer(header)

    def content(self, packet: memoryview) -> PacketContent:
        start = bytes(packet[:4])
        if start[:3] != b"\0\0\1":  # as of short headers, which are those of H.263
            return _PICTURE
        if start[3:] == b"\xb6" and len(packet) >= 4 + _NOT_CODED_BYTES:  # as most packets are
            return _PICTURE
        layer_start = 0
        for match in _START_CODE.finditer(packet):
            if layer_start:
                self._learn(bytes(packet[layer_start : match.start()]))
            code = match[1][0]
            if code == _VOP:
                return self._vop(bytes(packet[match.end() : match.end() + _NOT_CODED_BYTES]))
            if code not in _NO_MPEG4_PICTURE:
                return PacketContent.FOREIGN
            layer_start = match.end() if 0x20 <= code < 0x30 else 0
        return PacketContent.NO_PICTURE

    def _vop(self, vop: bytes) -> PacketContent:
        if self._layer is None or len(vop) == _NOT_CODED_BYTES:
            return _PICTURE
        bits = BitReader(vop)
        with suppress(ValueError):
            bits.read(2)  # vop_coding_type
            while bits.flag():  # modulo_time_base
                pass
            bits.read(1 + self._layer.time_increment_bits + 1)
            if not bits.flag():
                return PacketContent.NOT_CODED if self._layer.is_low_delay else PacketContent.UNCERTAIN
        return _PICTURE


def _dirac(packet: memoryview) -> PacketContent:
    """A unit whose parse code has the bit of pictures (9.6.1)."""
    position = 0
    while bytes(packet[position : position + 4]) == b"BBCD" and len(packet) >= position + 13:
        if packet[position + 4] & 8:
            return _PICTURE
        size = int.from_bytes(packet[position + 5 : position + 9], "big")
        if not size:
            return PacketContent.NO_PICTURE
        position += size
    return _shown(position < len(packet) or not position)


class _Av1:
    """AV1: a frame that is shown, or shown again (5.9.2); how many come of more than one, decoding tells."""

    def __init__(self, extradata: bytes) -> None:
        self._has_still_headers = False
        is_record = extradata[:1] == b"\x81"
        self.content(memoryview(extradata)[4 if is_record else 0 :])

    def content(self, packet: memoryview) -> PacketContent:
        num_shown = 0
        try:
            for kind, spatial_id, payload in av1_units(packet):
                if kind == _AV1_SEQUENCE_HEADER:
                    self._has_still_headers = bool(payload[0] & 8)  # reduced_still_picture_header
                elif kind in _AV1_FRAMES and not spatial_id:
                    num_shown += self._has_still_headers or bool(payload[0] & 0x90)  # show_existing_frame, show_frame
        except (ValueError, IndexError):
            return _PICTURE
        return PacketContent.UNCERTAIN if num_shown > 1 else _shown(num_shown == 1)


def _vp8(packet: memoryview) -> PacketContent:
    # 9.1: bit 0 not-a-key-frame, bits 1-3 version, bit 4 show_frame.
    return _shown(len(packet) > 0 and bool(packet[0] & 16))


def _vp9(packet: memoryview) -> PacketContent:
    return _shown(any(map(_vp9_frame_is_shown, _vp9_superframe(packet))))


def _vp9_superframe(packet: memoryview) -> Iterator[memoryview]:
    """The frames in a packet: one, or those that the index at its end lists (VP9 bitstream specification, annex B)."""
    marker = packet[-1] if len(packet) else 0
    if marker >> 5 == 0b110:
        count, width = (marker & 7) + 1, ((marker >> 3) & 3) + 1
        index = packet[-(2 + count * width) :]
        if len(index) == 2 + count * width and index[0] == marker:
            start = 0
            for i in range(count):
                size = int.from_bytes(index[1 + i * width : 1 + (i + 1) * width], "little")
                yield packet[start : start + size]
                start += size
            return
    yield packet


def _vp9_frame_is_shown(frame: memoryview) -> bool:
    # Uncompressed header: frame_marker f(2), profile f(2) and a zero bit after profile 3,
    # show_existing_frame f(1); then frame_type f(1), show_frame f(1).
    if not len(frame):
        return False
    bits = int.from_bytes(bytes(frame[:2]).ljust(2, b"\0"), "big")
    position = 4 if (bits >> 12) & 3 != 3 else 5
    show_existing = (bits >> (15 - position)) & 1
    show_frame = (bits >> (15 - position - 2)) & 1
    return bool(show_existing or show_frame)


_PARSERS = {"dirac": _dirac, "mpeg1video": _mpeg2, "mpeg2video": _mpeg2, "vp8": _vp8, "vp9": _vp9}


def is_sound(codec: str | None, packet: memoryview) -> bool:
    """Whether a packet begins as packets of its codec do; a stretch of zeros is how files lose data most often.

    VP8 key frames have a start code (RFC 6386, 9.1), VP9 frames a marker (VP9 bitstream specification, 7.2).

    >>> is_sound("h263", memoryview(bytes(100))), is_sound("rawvideo", memoryview(bytes(100)))
    (False, True)
    """
    start = bytes(packet[:16])
    if start == _ZEROS and codec not in _RAW:
        return False
    if codec == "vp8" and start[:1] and not start[0] & 1:
        return start[3:6] == b"\x9d\x01\x2a"
    return codec != "vp9" or not start or start[0] >> 6 == 0b10


def nal_units_are_sound(packet: memoryview, length_size: int, *, is_hevc: bool = False) -> bool:
    """Whether the length-prefixed units of an H.264 or HEVC packet fill it exactly and have possible headers.

    Damage seldom leaves that so. Of H.264 headers (ITU-T H.264, 7.3.1) the first bit is 0 and the type neither 0 nor
    above 23; of HEVC headers (ITU-T H.265, 7.3.1.2) the first bit is 0 and the temporal layer plus 1 is not 0.

    >>> nal_units_are_sound(memoryview(bytes([0, 0, 0, 1, 65])), 4)
    True
    >>> nal_units_are_sound(memoryview(bytes([0, 0, 9, 1, 65])), 4)
    False
    """
    position, end = 0, len(packet)
    while position + length_size < end:
        size = int.from_bytes(packet[position : position + length_size], "big")
        position += length_size
        header = packet[position]
        if header & 128 or (size > 1 and is_hevc and position + 1 < end and not packet[position + 1] & 7):
            return False
        if not is_hevc and size and not 1 <= header & 31 <= 23:
            return False
        position += size
    return position == end


_TRAILER_BYTES = 8
_LENGTH_BYTES = 3

# FFV1's CRC-32 takes the highest bit of a byte first, zlib's the lowest.
_MIRRORED = bytes(sum((byte >> bit & 1) << 7 - bit for bit in range(8)) for byte in range(256))
_ALL_BITS = 0xFFFFFFFF
# The register before a slice, mirrored: 0 in versions up to 3, and FFmpeg's own in version 4. After a slice with its
# checksum it is the same again.
_REGISTERS = (0, 0x5E31029E)


def slices_are_sound(packet: memoryview) -> bool:
    """Whether the slices of an FFV1 packet agree with their checksums.

    True, too, if there are none: then nothing is known. If the lengths of the slices do not fill the packet, it is for
    the codec to complain.

    >>> slices_are_sound(memoryview(b"damaged" + bytes([0, 0, 7, 0, 1, 2, 3, 4])))
    False
    >>> slices_are_sound(memoryview(b"without a checksum"))
    True
    """
    spans = list(_slice_spans(packet))
    if not spans or spans[-1][0] != 0:
        return True
    mirrored = memoryview(bytes(packet).translate(_MIRRORED))
    return any(
        all(_crc32(mirrored[start:stop], register) == register for start, stop in spans) for register in _REGISTERS
    )


def _slice_spans(packet: memoryview) -> Iterator[tuple[int, int]]:
    """Where slices start and stop, from the last to the first, as far as their lengths lead."""
    stop = len(packet)
    while stop >= _TRAILER_BYTES:
        trailer = stop - _TRAILER_BYTES
        start = trailer - int.from_bytes(packet[trailer : trailer + _LENGTH_BYTES], "big")
        if start < 0:
            return
        yield start, stop
        stop = start


def _crc32(data: memoryview, register: int) -> int:
    """The register after the data, without the inversions at either end that zlib adds."""
    return zlib.crc32(data, register ^ _ALL_BITS) ^ _ALL_BITS
