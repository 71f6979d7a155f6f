"""Check whether a decoder returns pictures in the order of their packets' time stamps. Pure functions on bytes.

Decoders reorder pictures. Time stamps of packets should be presentation times, but some files store decode times
instead::

    packets                    I0  P3  B1  B2
    presentation times          0   3   1   2     right: the order of times is the order of the frames
    decode times                0   1   2   3     wrong: the codec returns I0, B1, B2, P3

In MPEG-1, 2 and 4, only a B picture can be shown earlier than a picture that comes before it in the file. So the types
of the pictures determine their order. In H.264 and HEVC, each picture has a number in presentation order (picture order
count). If the time stamp and this number both decrease from one packet to the next, the time stamps are certainly
presentation times, and no further check is needed.

References are to ISO/IEC 11172-2, 13818-2 and 14496-2, and to ITU-T H.264 and H.265.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

from .h264 import H264Parser
from .mpeg import MPEG2_PICTURE, MPEG4_PICTURE, Mpeg4Content, is_packed
from .units import (
    BitReader,
    hevc_length_size,
    hevc_parameter_units,
    spans_within,
    unit_spans,
    without_emulation_prevention,
)

#: Codecs for which `order_guard` returns a guard.
GUARDED_CODECS = frozenset(("h264", "hevc"))

_TIMES_OF_DECODING = "packets with decoding times instead of presentation times"

# Largest offset of a picture's first slice in a packet; parameter sets and messages come before it.
_MAX_SLICE_START = 4096
_SLICE_BYTES = 64


class PictureOrder(Protocol):
    """Checks, packet by packet, whether time stamps agree with the order in which the decoder returns pictures.

    ``reason`` states why they can disagree. It is ``None`` as long as they agree.
    """

    reason: str | None

    def take(self, packet: memoryview, head: bytes, pts: int | None) -> bool:
        """Check the next packet. Return whether later packets can still change `reason`.

        ``head`` has the first `HEAD_BYTES` of the packet, and ``pts`` is its time stamp.
        """


def picture_order(codec: str | None, extradata: bytes, reorder_depth: int) -> PictureOrder | None:
    """Return a `PictureOrder` for checking a stream from its first packet, or ``None`` if its codec does not reorder.

    ``reorder_depth`` is the number of pictures that the decoder holds back for reordering, according to FFmpeg.
    """
    if codec in ("mpeg1video", "mpeg2video"):
        return _Mpeg2Order()
    if codec == "mpeg4":
        return _Mpeg4Order(extradata)
    if codec == "h264":
        return _CountedOrder(_H264Counts(extradata))
    if not reorder_depth:
        return None
    return _CountedOrder(_HevcCounts(extradata)) if codec == "hevc" else _UnknownOrder()


def order_guard(codec: str | None, extradata: bytes) -> OrderGuard | None:
    """Return an `OrderGuard`, which can start at any key frame, or ``None`` for a codec without picture order counts.

    A guard checks packets while they are decoded. It is needed if the time stamps of a stream never decrease and its
    packets have not been checked with `PictureOrder`.
    """
    if codec == "h264":
        return OrderGuard(_H264Counts(extradata), step=2)
    return OrderGuard(_HevcCounts(extradata), step=1) if codec == "hevc" else None


# MPEG


class _MpegOrder:
    """Checks the order of MPEG pictures, which depends on which of them are B pictures.

    The decoder returns a B picture immediately, and any other picture only when the next non-B picture arrives::

        packets         I0  P3  B1  B2  P6  B4  B5
        returned            I0  B1  B2  P3  B4  B5  P6
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self._num_references = 0
        # Time stamp of the picture that is held back, and of the last returned picture.
        self._waiting: int | None = None
        self._last: int | None = None

    def _add_picture(self, pts: int, *, is_b: bool) -> bool:
        """Process the next picture. Return whether all time stamps so far can be presentation times."""
        if is_b:
            if self._num_references < 2:
                self.reason = "pictures that refer to others before the start"
                return False
            shown: int | None = pts
            is_right = self._waiting is None or pts <= self._waiting
        else:
            self._num_references += 1
            shown, self._waiting = self._waiting, pts
            is_right = True
        if shown is not None:
            is_right = is_right and (self._last is None or shown >= self._last)
            self._last = shown
        if not is_right:
            self.reason = _TIMES_OF_DECODING
        return is_right


class _Mpeg2Order(_MpegOrder):
    """Checks the order of MPEG-1 and MPEG-2 pictures by picture_coding_type (11172-2, 2.4.3.4; 13818-2, 6.3.9)."""

    def take(self, packet: memoryview, head: bytes, pts: int | None) -> bool:
        if pts is None:
            return False
        start = 0 if head.startswith(MPEG2_PICTURE) else bytes(packet).find(MPEG2_PICTURE)
        if start < 0 or start + 5 >= len(packet):
            return True
        return self._add_picture(pts, is_b=packet[start + 5] >> 3 & 7 == 3)


class _Mpeg4Order(_MpegOrder):
    """Checks the order of MPEG-4 part 2 pictures by vop_coding_type (14496-2, 6.3.5) and the layer's low_delay.

    `reason` is also set if a B-VOP comes although the header does not allow B-VOPs, because FFmpeg's decoder then
    returns a picture twice.
    """

    def __init__(self, extradata: bytes) -> None:
        super().__init__()
        self._content = Mpeg4Content(extradata)
        if is_packed(extradata):
            self.reason = "packets of several pictures"

    def take(self, packet: memoryview, head: bytes, pts: int | None) -> bool:
        if pts is None or self.reason is not None:
            return False
        data = bytes(packet)
        start = 0 if head.startswith(MPEG4_PICTURE) else data.find(MPEG4_PICTURE)
        if start < 0 or start + 4 >= len(data):
            return True
        if start:
            self._content.content(packet)
        if data.find(MPEG4_PICTURE, start + 4) >= 0:
            self.reason = "packets of several pictures"
            return False
        is_b = data[start + 4] >> 6 == 2
        if is_b and not self._content.announces_b_pictures:
            self.reason = "B pictures that no header has announced"
            return False
        return self._add_picture(pts, is_b=is_b)


# H.264 and HEVC


class _Counts:
    """Reads the picture order counts of packets, and compares each with the previous one.

    ``last`` is the count of the last picture, or ``None`` if the decoder returns pictures in decode order.
    ``has_restarted`` means that counts restarted at the last picture. The decoder returns this picture after all
    earlier pictures.
    """

    def __init__(self, length_size: int | None) -> None:
        self._length_size = length_size
        self._restart()
        self.has_restarted = False

    def _restart(self) -> None:
        self.last: int | None = None
        self._reference = 0  # the count that determines the next picture's upper bits
        self.has_restarted = True

    def grows(self, packet: memoryview) -> bool:
        """Read the next packet. Return whether its picture is certainly returned after the previous one."""
        self.has_restarted = False
        with suppress(ValueError, IndexError, KeyError):
            for unit in _first_units(packet, self._length_size):
                grows = self._take_unit(unit)
                if grows is not None:
                    return grows
        return False

    def _take_unit(self, unit: memoryview | bytes) -> bool | None:
        """Process a unit. Return whether the picture order count of a slice grows, and ``None`` for any other unit."""
        raise NotImplementedError

    def _add(self, low_bits: int, num_bits: int, *, is_reference: bool) -> bool:
        """Process the next picture. Return whether its count is higher than before.

        Slices store only the lower bits of the count. The upper bits follow from earlier pictures (H.264, 8.2.1.1;
        H.265, 8.3.1).
        """
        span = 1 << num_bits
        count = self._reference - self._reference % span + low_bits
        if self._reference - count >= span // 2:
            count += span
        elif count - self._reference > span // 2:
            count -= span
        before, self.last = self.last, count
        if is_reference:
            self._reference = count
        return before is None or count > before


class _CountedOrder:
    """Checks the order of pictures that have picture order counts.

    From each packet to the next, the time stamp and the count must both increase or both decrease. Once both have
    decreased, the time stamps are certainly presentation times.
    """

    def __init__(self, counts: _Counts) -> None:
        self.reason: str | None = None
        self._counts = counts
        self._last: int | None = None

    def take(self, packet: memoryview, head: bytes, pts: int | None) -> bool:
        if pts is None:
            return False
        grows, before, self._last = self._counts.grows(packet), self._last, pts
        if before is None:
            return True
        has_fallen = pts < before
        if has_fallen == grows:
            self.reason = _TIMES_OF_DECODING
        return not has_fallen and self.reason is None


class _UnknownOrder:
    """For codecs without a parser: if a time stamp is lower than the previous one, they are all presentation times."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._last: int | None = None

    def take(self, packet: memoryview, head: bytes, pts: int | None) -> bool:
        before, self._last = self._last, pts
        self.reason = None
        if pts is None or (before is not None and pts < before):
            return False
        if before is not None:
            self.reason = _TIMES_OF_DECODING
        return True


class OrderGuard:
    """Finds pictures whose count does not directly follow the count of the previous picture.

    Between two pictures with consecutive counts, no picture of a later packet can be shown::

        packets   I0  P2  P4  P6      right
        packets   I0  P6              wrong: a picture of count 2 or 4 comes later
    """

    def __init__(self, counts: _Counts, step: int) -> None:
        self._counts = counts
        self._step = step
        self._before: int | None = None

    def find(self, packet: memoryview) -> str | None:
        """Return why the decoder can return pictures in another order from this packet on, or ``None`` if it cannot."""
        grows, counts = self._counts.grows(packet), self._counts
        before, self._before = self._before, counts.last
        if not grows:
            return _TIMES_OF_DECODING
        if counts.has_restarted or counts.last is None or counts.last - self._step == before:
            return None
        return _TIMES_OF_DECODING


class _H264Counts(_Counts, H264Parser):
    """Reads picture order counts of H.264. `grows` is false for fields, and for pictures whose order is unknown."""

    def __init__(self, extradata: bytes) -> None:
        H264Parser.__init__(self, extradata)
        _Counts.__init__(self, self._length_size)

    def _take_unit(self, unit: memoryview | bytes) -> bool | None:
        kind = unit[0] & 31
        if kind in (7, 8):
            self._learn(bytes(unit))
        return self._reads_growing(unit, is_idr=kind == 5) if kind in (1, 5) else None

    def _reads_growing(self, unit: memoryview | bytes, *, is_idr: bool) -> bool:
        bits = BitReader(without_emulation_prevention(unit[1:_SLICE_BYTES]))
        if bits.exp_golomb():  # first_mb_in_slice
            return False
        bits.exp_golomb()  # slice_type
        picture = self._pictures[bits.exp_golomb()]
        if picture is None:
            return False
        sequence = self._sequences[picture.sequence]
        bits.read(sequence.frame_num_bits + sequence.plane_bits)
        if sequence.allows_fields and bits.flag():
            return False
        if is_idr:
            bits.exp_golomb()  # idr_pic_id
            self._restart()
        order_count = sequence.order_count
        if order_count.kind != 0:
            return order_count.kind == 2  # kind 2: output order is decode order
        return self._add(bits.read(order_count.num_bits), order_count.num_bits, is_reference=bool(unit[0] & 0x60))


class _HevcCounts(_Counts):
    _VCL = frozenset((*range(10), *range(16, 22)))

    def __init__(self, extradata: bytes) -> None:
        super().__init__(hevc_length_size(extradata))
        # Values: (bits of a count, whether slices state a plane), and (sequence, whether pictures may be hidden, extra
        # bits).
        self._sequences: dict[int, tuple[int, bool]] = {}
        self._pictures: dict[int, tuple[int, bool, int]] = {}
        with suppress(ValueError, IndexError):
            for unit in hevc_parameter_units(extradata):
                self._learn(unit)

    def _learn(self, unit: memoryview | bytes) -> None:
        kind = unit[0] >> 1 & 63
        if kind not in (33, 34) or unit[0] & 1 or unit[1] >> 3:
            return
        bits = BitReader(without_emulation_prevention(unit[2:]))
        if kind == 34:
            identifier, sequence = bits.exp_golomb(), bits.exp_golomb()
            bits.read(1)  # dependent slice segments
            self._pictures[identifier] = sequence, bits.flag(), bits.read(3)
            return
        bits.read(4)
        num_sub_layers = bits.read(3)
        bits.read(1 + 88 + 8)
        if num_sub_layers:
            has = [(bits.flag(), bits.flag()) for _ in range(num_sub_layers)]
            bits.read(2 * (8 - num_sub_layers))
            for has_profile, has_level in has:
                bits.read(88 * has_profile + 8 * has_level)
        identifier = bits.exp_golomb()
        has_separate_planes = bits.exp_golomb() == 3 and bits.flag()
        bits.exp_golomb(), bits.exp_golomb()  # width, height
        if bits.flag():
            for _ in range(4):
                bits.exp_golomb()  # conformance window
        bits.exp_golomb(), bits.exp_golomb()  # bit depths
        self._sequences[identifier] = bits.exp_golomb() + 4, has_separate_planes

    def _take_unit(self, unit: memoryview | bytes) -> bool | None:
        kind = unit[0] >> 1 & 63
        if kind in self._VCL and not unit[0] & 1 and not unit[1] >> 3:
            return self._reads_growing(unit, kind)
        self._learn(unit)
        return None

    def _reads_growing(self, unit: memoryview | bytes, kind: int) -> bool:
        bits = BitReader(without_emulation_prevention(unit[2:_SLICE_BYTES]))
        if not bits.flag():  # first_slice_segment_in_pic_flag
            return False
        if kind >= 16:
            bits.read(1)  # no_output_of_prior_pics_flag
        sequence, may_be_hidden, num_further_bits = self._pictures[bits.exp_golomb()]
        num_bits, has_separate_planes = self._sequences[sequence]
        bits.read(num_further_bits)
        bits.exp_golomb()  # slice_type
        if may_be_hidden and not bits.flag():  # pic_output_flag
            return False
        if kind in (19, 20):
            self._restart()
            return self._add(0, num_bits, is_reference=True)
        bits.read(2 if has_separate_planes else 0)
        # Leading pictures, sub-layer non-reference pictures and pictures of higher sub-layers are not references.
        is_reference = kind not in (0, 2, 4, 6, 7, 8, 9) and unit[1] & 7 == 1
        return self._add(bits.read(num_bits), num_bits, is_reference=is_reference)


def _first_units(packet: memoryview, length_size: int | None) -> Iterator[memoryview | bytes]:
    """Yield the units in the first bytes of a packet, up to about its first slice. The last unit can be cut off."""
    data = packet[: _MAX_SLICE_START + _SLICE_BYTES]
    if length_size is None:
        yield from filter(None, bytes(data).split(b"\0\0\1")[1:])
        return
    for span in unit_spans(data, length_size)[0]:
        for start, stop in spans_within(data, *span):
            if stop > start:
                yield data[start:stop]
