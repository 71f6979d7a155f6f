"""B pictures of MPEG-1, 2 and 4, which no other picture refers to. Pure functions on bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from .bits import BitReader, start_codes

__all__ = ["Mpeg2Pictures", "Mpeg4Layer", "Mpeg4Pictures", "layers", "parse_layer"]

_PICTURE, _EXTENSION, _USER_DATA = 0x00, 0xB5, 0xB2
_SLICES = range(0x01, 0xB0)
_B_PICTURE = 3
_PICTURE_CODING, _PICTURE_DISPLAY, _COPYRIGHT = 8, 7, 4  # extensions that concern one picture
_FRAME, _TOP_FIELD, _BOTTOM_FIELD = 3, 1, 2

_VOL = range(0x20, 0x30)
_VOP = 0xB6
_B_VOP = 2
_EXTENDED_ASPECT_RATIO = 15
_GRAYSCALE = 3  # video_object_layer_shape
_DIVX_PACKED = re.compile(rb"DivX\d{1,9}(Build|b)\d{1,9}p")


class Mpeg2Pictures:
    """Tells disposable MPEG-1 and MPEG-2 packets: all pictures in them are B pictures.

    ISO/IEC 11172-2, 2.4.3.4 and 13818-2, 6.3.9 (picture_coding_type), 6.3.10 (picture_structure): one field of a frame
    is not disposable without the other, so both must be in the packet. Nor may anything be there that outlasts the
    picture, as sequence and GOP headers and quantiser matrices do.
    """

    def is_disposable(self, packet: memoryview) -> bool:
        """Whether the pictures in a packet can be left out; ``ValueError`` or ``IndexError`` if it does not add up."""
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


class Mpeg4Pictures:
    """Tells disposable MPEG-4 part 2 packets: one B-VOP and nothing else (ISO/IEC 14496-2, 6.3.5, vop_coding_type).

    FFmpeg's decoder keeps more than pictures from packet to packet, and then nothing is disposable:

    * in interlaced video, the time step that its first B-VOP had (for field direct mode);
    * where the layer's header does not say whether there are B-VOPs (low_delay), that one was seen;
    * of "packed" streams, the second VOP of a packet, which it decodes when the next packet comes.

    Args:
        extradata: The headers before the first VOP. If one in a packet is different, nothing is disposable from there
            on.
    """

    def __init__(self, extradata: bytes) -> None:
        self._layers = layers(extradata)
        self._is_plain = len(self._layers) == 1 and all(parse_layer(layer).reorders_frames for layer in self._layers)
        self._is_plain &= not _is_packed(extradata)

    def is_disposable(self, packet: memoryview) -> bool:
        """Whether the pictures in a packet can be left out; ``ValueError`` or ``IndexError`` if it does not add up."""
        if not self._is_plain:
            return False
        data = bytes(packet)
        codes = list(start_codes(data))
        if any(code != _VOP for code, _ in codes):
            self._is_plain = layers(data) <= self._layers and not _is_packed(data)
            return False
        kinds = [data[position] >> 6 for _, position in codes]
        if len(kinds) > 1:
            self._is_plain = False
        return kinds == [_B_VOP]


def layers(headers: bytes) -> set[bytes]:
    """The headers of video object layers (6.2.3) among others, without start codes."""
    codes = [*start_codes(headers), (0, len(headers) + 4)]
    return {headers[start : after - 4] for (code, start), (_, after) in pairwise(codes) if code in _VOL}


def _is_packed(headers: bytes) -> bool:
    """Whether user data names DivX as the encoder and marks the stream as packed, as in "DivX503b1393p"."""
    return any(code == _USER_DATA and _DIVX_PACKED.match(headers, position) for code, position in start_codes(headers))


@dataclass(frozen=True)
class Mpeg4Layer:
    """What the header of a video object layer (6.2.3) says about its pictures.

    Attributes:
        is_low_delay: Whether there are no B-VOPs; ``None`` where it is not said.
        is_rectangular: Whether pictures have no shape of their own.
        is_interlaced: Whether fields may be predicted one by one.
        time_increment_bits: Size of vop_time_increment.
    """

    is_low_delay: bool | None
    is_rectangular: bool
    is_interlaced: bool
    time_increment_bits: int

    @property
    def reorders_frames(self) -> bool:
        """Whether it is plain progressive video that says that it is not without B-VOPs."""
        return self.is_rectangular and self.is_low_delay is False and not self.is_interlaced


def parse_layer(layer: bytes) -> Mpeg4Layer:
    """Read the header of a video object layer, without its start code; ``ValueError`` if it ends early."""
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
    return Mpeg4Layer(is_low_delay, shape == 0, is_interlaced, time_increment_bits)
