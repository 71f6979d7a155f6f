"""Parse MPEG-1, 2 and 4 packets to find those without pictures, disposable pictures, and changes of picture size.

References are to ISO/IEC 11172-2 (MPEG-1), 13818-2 (MPEG-2) and 14496-2 (MPEG-4 part 2).
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from .units import BitReader, PacketContent, start_codes

_PICTURE, _EXTENSION, _USER_DATA = 0x00, 0xB5, 0xB2
_SLICES = range(0x01, 0xB0)
_B_PICTURE = 3
_PICTURE_CODING, _PICTURE_DISPLAY, _COPYRIGHT = 8, 7, 4  # extensions that apply to one picture
_FRAME, _TOP_FIELD, _BOTTOM_FIELD = 3, 1, 2

_VOL = range(0x20, 0x30)
_VOP = 0xB6
_B_VOP = 2
_EXTENDED_ASPECT_RATIO = 15
_GRAYSCALE = 3  # video_object_layer_shape
_DIVX_PACKED = re.compile(rb"DivX\d{1,9}(Build|b)\d{1,9}p")

_ANY_START_CODE = re.compile(rb"\x00\x00\x01(.)", re.DOTALL)
# MPEG-1 and 2: any start code except user data, a sequence or its end, an extension, and a group of pictures.
_DECISIVE = re.compile(rb"\x00\x00\x01([^\xb2\xb3\xb5\xb7\xb8])")
# MPEG-4: start codes of objects, layers, the ends of both, and user data.
_NO_PICTURE = frozenset((*range(0x30), 0xB0, 0xB1, 0xB2, 0xB3, 0xB5))
# A VOP that is not coded consists of its time and is shorter than this.
_NOT_CODED_BYTES = 32

#: Start codes at the start of packets that contain only pictures.
MPEG2_PICTURE, MPEG4_PICTURE = b"\0\0\1\0", b"\0\0\1\xb6"
#: MPEG-4 packets below this size may be VOPs that are not coded.
MPEG4_CODED_BYTES = len(MPEG4_PICTURE) + _NOT_CODED_BYTES

_SEQUENCE_OR_PICTURE = re.compile(rb"\x00\x00\x01([\x00\xb3])")
_LAYER_OR_PICTURE = re.compile(rb"\x00\x00\x01([\x20-\x2f\xb6])")
_PICTURE_CODES = frozenset((b"\x00", b"\xb6"))
_SEQUENCE_EXTENSION = re.compile(rb"\x00\x00\x01\xb5([\x10-\x1f].{5})", re.DOTALL)
# Numbers of bytes of the sizes in a sequence header, and of a whole header with quantiser matrices and extension.
_FORMAT_BYTES, _SEQUENCE_BYTES = 3, 8 + 2 * 64 + 10
_MPEG2_END = b"\0\0\1\xb7"


def mpeg2_content(packet: memoryview) -> PacketContent:
    """Determine the content of an MPEG-1 or MPEG-2 packet.

    The result is `PacketContent.FOREIGN` if a slice or an unknown unit comes before the first picture header, because
    slices only occur after a picture header (6.2.1, start codes).
    """
    match = _DECISIVE.search(packet)
    if match is not None:
        return PacketContent.FOREIGN if match[1][0] else PacketContent.PICTURE
    return PacketContent.NO_PICTURE if _ANY_START_CODE.search(packet) else PacketContent.PICTURE


def mpeg2_is_disposable(packet: memoryview) -> bool:
    """Return whether decoding can skip an MPEG-1 or MPEG-2 packet, because all its pictures are B pictures.

    See ISO/IEC 11172-2, 2.4.3.4 and 13818-2, 6.3.9 (picture_coding_type), 6.3.10 (picture_structure). Two fields of a
    frame are disposable only together, so both must be in the packet. The packet must not contain units that apply to
    later pictures: sequence and GOP headers, and quantiser matrices. Raises ValueError or IndexError for an invalid
    packet.
    """
    data = bytes(packet)
    num_pictures = 0
    structures: list[int] = []
    for code, position in start_codes(data):
        if code == _PICTURE:
            # temporal_reference u(10), picture_coding_type u(3).
            if data[position + 1] >> 3 & 7 != _B_PICTURE:
                return False
            num_pictures += 1
        elif code == _EXTENSION:
            kind = data[position] >> 4
            if kind == _PICTURE_CODING:
                # 4 bits of identifier, four f_codes of 4 bits, intra_dc_precision u(2), picture_structure u(2).
                structures.append(data[position + 2] & 3)
            elif kind not in (_PICTURE_DISPLAY, _COPYRIGHT):
                return False
        elif code != _USER_DATA and code not in _SLICES:
            return False
    fields = [structure for structure in structures if structure != _FRAME]
    return num_pictures > 0 and len(structures) in (0, num_pictures) and _are_paired(fields)


def _are_paired(fields: list[int]) -> bool:
    pairs = zip(fields[::2], fields[1::2], strict=False)
    return len(fields) % 2 == 0 and all({*pair} == {_TOP_FIELD, _BOTTOM_FIELD} for pair in pairs)


class Mpeg4Content:
    """Determines whether an MPEG-4 part 2 packet has a VOP (a picture), and whether the VOP is coded (6.2.5).

    A VOP that is not coded repeats the previous VOP. FFmpeg returns a frame for it only at the end of a stream. In a
    stream with B-VOPs, such a VOP can also make FFmpeg lose other frames, so the number of frames is uncertain.
    """

    def __init__(self, extradata: bytes) -> None:
        self._header = b""
        self._layer: _Layer | None = None
        for layer in _find_layers(extradata):
            self._learn(layer)

    def _learn(self, header: bytes) -> None:
        if header != self._header:
            self._header, self._layer = header, None
            with suppress(ValueError):
                self._layer = _parse_layer(header)

    @property
    def announces_b_pictures(self) -> bool:
        """Whether the stream can contain B-VOPs, according to the current header."""
        return self._layer is not None and self._layer.is_low_delay is False

    def content(self, packet: memoryview) -> PacketContent:
        start = bytes(packet[:4])
        if start[:3] != b"\0\0\1":  # short headers, as in H.263
            return PacketContent.PICTURE
        if start == MPEG4_PICTURE and len(packet) >= MPEG4_CODED_BYTES:  # most packets
            return PacketContent.PICTURE
        layer_start = 0
        for match in _ANY_START_CODE.finditer(packet):
            if layer_start:
                self._learn(bytes(packet[layer_start : match.start()]))
            code = match[1][0]
            if code == _VOP:
                return self._vop_content(bytes(packet[match.end() : match.end() + _NOT_CODED_BYTES]))
            if code not in _NO_PICTURE:
                return PacketContent.FOREIGN
            layer_start = match.end() if 0x20 <= code < 0x30 else 0
        return PacketContent.NO_PICTURE

    def _vop_content(self, vop: bytes) -> PacketContent:
        if self._layer is None or len(vop) == _NOT_CODED_BYTES:
            return PacketContent.PICTURE
        bits = BitReader(vop)
        with suppress(ValueError):
            bits.read(2)  # vop_coding_type
            while bits.flag():  # modulo_time_base
                pass
            bits.read(1 + self._layer.time_increment_bits + 1)
            if not bits.flag():
                return PacketContent.NOT_CODED if self._layer.is_low_delay else PacketContent.UNCERTAIN
        return PacketContent.PICTURE


class Mpeg4Pictures:
    """Detects disposable MPEG-4 part 2 packets. Such a packet consists of one B-VOP (14496-2, 6.3.5, vop_coding_type).

    FFmpeg's decoder keeps some state from packet to packet in addition to pictures. So the following streams have no
    disposable packets:

    * interlaced video: the decoder keeps the time step of the first B-VOP (for field direct mode);
    * video whose layer header does not state whether there are B-VOPs (low_delay): the decoder notes the first B-VOP;
    * "packed" video: the decoder decodes the second VOP of a packet when it gets the next packet.

    ``extradata`` has the headers before the first VOP. After a packet with a different header, no packet is disposable.
    """

    def __init__(self, extradata: bytes) -> None:
        self._layers = _find_layers(extradata)
        self._is_plain = len(self._layers) == 1 and all(_parse_layer(layer).reorders_frames for layer in self._layers)
        self._is_plain &= not is_packed(extradata)

    def is_disposable(self, packet: memoryview) -> bool:
        """Return whether no other picture needs this packet. Raise ValueError or IndexError if it is invalid."""
        if not self._is_plain:
            return False
        data = bytes(packet)
        codes = list(start_codes(data))
        if any(code != _VOP for code, _ in codes):
            self._is_plain = _find_layers(data) <= self._layers and not is_packed(data)
            return False
        kinds = [data[position] >> 6 for _, position in codes]
        if len(kinds) > 1:
            self._is_plain = False
        return kinds == [_B_VOP]


class MpegBreaks:
    """Finds packets at which the decoder drops or damages pictures, because the stream changes in the middle.

    If a header in a packet changes the picture size, the decoder drops a picture that it has not returned yet. After a
    packet that contains only the end of a sequence, B pictures of MPEG-1 and 2 lack a reference picture.

    ``extradata`` has headers in the same form as in packets. ``is_at_start`` means that the first packet passed to
    `find` is the first packet of the stream. The headers in this packet can differ from ``extradata``.
    """

    def __init__(self, extradata: bytes, *, is_mpeg4: bool, is_at_start: bool) -> None:
        self._is_mpeg4 = is_mpeg4
        self._header_or_picture = _LAYER_OR_PICTURE if is_mpeg4 else _SEQUENCE_OR_PICTURE
        self._format = None if is_at_start else self._stated_format(memoryview(extradata))
        #: Whether the previous packet contained only the end of a sequence.
        self.has_ended = False

    def find(self, packet: memoryview) -> str | None:
        has_ended, self.has_ended = self.has_ended, packet == _MPEG2_END
        stated = self._stated_format(packet)
        if stated is not None:
            before, self._format = self._format, stated
            if before not in (None, stated):
                return "a picture size that changes midway"
        return "the end of a sequence midway" if has_ended else None

    def _stated_format(self, headers: memoryview) -> tuple[bytes, ...] | None:
        match = self._header_or_picture.search(headers)
        if match is None or match[1] in _PICTURE_CODES:
            return None
        start = match.end()
        if self._is_mpeg4:
            after = _ANY_START_CODE.search(headers, start)
            return (bytes(headers[start : None if after is None else after.start()]),)
        sequence = bytes(headers[start : start + _FORMAT_BYTES])
        extension = _SEQUENCE_EXTENSION.search(headers, start, start + _SEQUENCE_BYTES)
        if extension is None:
            return (sequence,)
        # progressive_sequence, chroma_format and the upper bits of the sizes; low_delay.
        return sequence, bytes([extension[1][1] & 0x0F, extension[1][2] & 0xE0, extension[1][5] & 0x80])


def _find_layers(headers: bytes) -> set[bytes]:
    """Return the headers of all video object layers (6.2.3 of ISO/IEC 14496-2), without start codes."""
    codes = [*start_codes(headers), (0, len(headers) + 4)]
    return {headers[start : after - 4] for (code, start), (_, after) in pairwise(codes) if code in _VOL}


def is_packed(headers: bytes) -> bool:
    """Return whether DivX packed several pictures into one packet, according to user data such as "DivX503b1393p"."""
    return any(code == _USER_DATA and _DIVX_PACKED.match(headers, position) for code, position in start_codes(headers))


@dataclass(frozen=True)
class _Layer:
    is_low_delay: bool | None  # whether there are no B-VOPs; `None` if not stated
    is_rectangular: bool  # whether pictures have no shape data
    is_interlaced: bool  # whether fields may be predicted separately
    time_increment_bits: int

    @property
    def reorders_frames(self) -> bool:
        """Whether the layer is progressive, rectangular video whose header allows B-VOPs."""
        return self.is_rectangular and self.is_low_delay is False and not self.is_interlaced


def _parse_layer(layer: bytes) -> _Layer:
    """Parse the header of a video object layer, without its start code. Raise ValueError if it ends early."""
    bits = BitReader(layer)
    bits.read(1 + 8)  # random_accessible_vol, video_object_type_indication
    verid = 1
    if bits.flag():  # is_object_layer_identifier
        verid = bits.read(4)
        bits.read(3)  # priority
    if bits.read(4) == _EXTENDED_ASPECT_RATIO:
        bits.read(16)
    is_low_delay = None
    if bits.flag():  # vol_control_parameters
        bits.read(2)  # chroma_format
        is_low_delay = bits.flag()
        if bits.flag():  # vbv_parameters
            bits.read(79)
    shape = bits.read(2)
    if shape == _GRAYSCALE and verid != 1:
        bits.read(4)  # extension of the shape
    bits.read(1)  # marker
    time_resolution = bits.read(16)
    time_increment_bits = max(1, (time_resolution - 1).bit_length())
    bits.read(1)  # marker
    if bits.flag():  # fixed_vop_rate
        bits.read(time_increment_bits)
    is_interlaced = False
    if shape == 0:
        bits.read(1 + 13 + 1 + 13 + 1)  # width and height between markers
        is_interlaced = bits.flag()
    return _Layer(is_low_delay, shape == 0, is_interlaced, time_increment_bits)
