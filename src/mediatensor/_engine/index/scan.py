"""Read a whole stream once: its packets without decoding, or its frames without converting them.

For proven codecs (`PROVEN_CODECS`), reading packets is enough to make an index. Streams of other codecs are decoded. A
proven codec meets three conditions. First, each packet gives one frame, unless a parser finds that it contains none.
Second, decoding can start at every packet that both the file and the decoder flag as a key frame. Third, the decoder
does flag key frames. A codec is added only with evidence::

    encoded    `tests/media/test_proven_codecs.py` encodes moving and still pictures, and decodes from each key frame
    sample     a file that the test does not encode itself, decoded in the same way

Codecs that fail one of these conditions, as of FFmpeg 8.1::

    vmnc                              file and decoder flag changes of a part of the picture as key frames
    tscc, cinepak                     packets of a few bytes give no frame
    rv10, rv20                        if frames are reordered, the last one does not come out
    roq                               key frames need the two frames before them
    cfhd, flashsv, flashsv2, msrle,
    msvideo1, qtrle, rpza, smc, tscc  the decoder flags no frame as a key frame
    webp                              an animation is one packet, which gives no frame
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from struct import Struct
from typing import Any

import numpy as np

from ...errors import ReadError
from ..bitstreams.content import packet_inspector, refreshes_gradually
from ..bitstreams.order import picture_order
from ..bitstreams.units import HEAD_BYTES, PacketContent
from ..containers.sample_tables import NO_PTS, Int64Array, PacketTable
from ..pyav.pixels import fingerprint
from ..pyav.reading import PacketDecoder, UndecodablePacketError, VideoReader, is_key_frame
from ..sources.readers import SourceFaultError
from .building import FrameRecord
from .frame_index import MAX_DELAY_PACKETS

# Codecs that this library has a parser for. Evidence: encoded, with dozens of clips of each.
_PARSED = frozenset(("av1", "h264", "hevc", "mpeg1video", "mpeg2video", "mpeg4", "vp8", "vp9"))

# Evidence: encoded, except for theora (libtheora), rv30 and vc1, which have samples.
_WITH_KEY_FRAMES = frozenset((
    "apng", "cinepak", "ffv1", "flv1", "gif", "h261", "h263", "msmpeg4v2", "msmpeg4v3", "png", "rv30", "snow", "svq1",
    "theora", "vc1", "wmv1", "wmv2", "zmbv",
))  # fmt: skip

# Evidence: encoded. Each packet is a key frame. Formats of single images are left out, because one is decoded quickly.
_INTRA = frozenset((
    "amv", "asv1", "asv2", "avrp", "cljr", "dnxhd", "dpx", "dvvideo", "dxv", "exr", "ffvhuff", "huffyuv", "jpeg2000",
    "jpegls", "magicyuv", "mjpeg", "prores", "sgi", "targa", "tiff", "utvideo", "zlib",
))  # fmt: skip
_UNCOMPRESSED = frozenset(("r10k", "r210", "rawvideo", "v210", "wrapped_avframe", "y41p", "yuv4"))

PROVEN_CODECS = _PARSED | _WITH_KEY_FRAMES | _INTRA | _UNCOMPRESSED
_OF_ANY_SIZE = _PARSED | _UNCOMPRESSED

# A packet up to this size may stand for an unchanged picture, for which some decoders give no frame: 2 bytes in tscc,
# up to 10 in cinepak. In the codecs above, a repeat of a 176x144 picture takes 9 bytes (zmbv) or at least 14 (wmv1,
# h261).
_SMALL_PACKET_BYTES = 10

# Number of packets in which properties are checked that hold for the whole stream. For codecs that are not proven,
# decoding is tried from this many key frames; each attempt opens the source once.
_NUM_SPREAD = 16


def is_proven(codec: str | None) -> bool:
    """Return whether an index for this codec (FFmpeg's name) can be made from packets, without decoding.

    >>> is_proven("h264"), is_proven("vmnc")
    (True, False)
    """
    return codec in PROVEN_CODECS


def has_packets_too_small(codec: str | None, size: Int64Array) -> bool:
    """Return whether some packet has so few bytes that the decoder possibly gives no frame for it.

    The result is ``False`` for codecs whose packets this library parses.

    >>> has_packets_too_small("cinepak", np.array([900, 8]))
    True
    """
    return codec not in _OF_ANY_SIZE and bool((size <= _SMALL_PACKET_BYTES).any())


def spread(numbers: Int64Array) -> list[int]:
    """Choose up to 16 of ``numbers``, evenly spread, with the first and the last one."""
    places = np.unique(np.linspace(0, max(0, len(numbers) - 1), _NUM_SPREAD).astype(np.int64))
    chosen: list[int] = numbers[places[: len(numbers)]].tolist()
    return chosen


class PacketScan:
    """Lists the packets of a stream from its beginning. Reading can stop after some packets, and continue later."""

    def __init__(self, reader: VideoReader) -> None:
        self._reader = reader
        self._codec = reader.stream_info().codec
        self._inspector = packet_inspector(self._codec, reader.extradata)
        self._order = picture_order(self._codec, reader.extradata, reader.reorder_depth)
        self._is_order_known = self._order is None
        self._has_picture = False
        self._pts: list[int | None] = []
        self._dts: list[int | None] = []
        self._duration: list[int | None] = []
        self._size: list[int] = []
        self._position: list[int | None] = []
        # By property: the numbers of the packets that have it
        self._numbers: dict[str, list[int]] = {name: [] for name in ("key", "discard", "hidden", "broken", "field")}
        self._last_packet: Any = None
        self._last_not_coded = -1
        self._reasons_to_decode: dict[str, None] = {}
        self._read_error: str | None = None
        #: Whether reading reached the end of the stream or an error.
        self.is_complete = False

    def __len__(self) -> int:
        return len(self._size)

    @property
    def may_be_fields(self) -> bool:
        """Whether packets of the stream can contain single fields, according to the packets read so far."""
        return self._inspector.may_be_fields

    def read(self, num_packets: int | None = None) -> None:
        """Read packets until ``num_packets`` have been read in total. By default, read to the end of the stream."""
        if self.is_complete:
            return
        try:
            self.take(islice(self._reader.packets(), None if num_packets is None else max(0, num_packets - len(self))))
        except SourceFaultError:
            raise
        except ReadError as error:
            self._read_error = str(error)
        self.is_complete = num_packets is None or len(self) < num_packets
        if self.is_complete and self._last_not_coded == len(self) - 1 >= 0:
            self._reasons_to_decode.setdefault("a last picture that is not coded")

    def take(self, packets: Iterable[Any]) -> None:
        """Add packets to the table. For most of them, only the first bytes are inspected; see `PacketInspector`."""
        add_pts, add_dts, add_duration = self._pts.append, self._dts.append, self._duration.append
        add_size, add_position, add_key = self._size.append, self._position.append, self._numbers["key"].append
        pass_plain = self._inspector.pass_plain if self._has_picture else _not_plain
        needs_whole = self._inspector.needs_whole_packets
        may_be_encrypted = self._reader.may_be_encrypted
        order = None if self._is_order_known else self._order
        number, before = len(self), self._last_packet
        for packet in packets:
            size = packet.size
            pts = packet.pts
            add_size(size)
            add_pts(pts)
            add_dts(packet.dts)
            add_duration(packet.duration)
            add_position(packet.pos)
            if packet.is_keyframe:
                add_key(number)
                # This check is slow. Encryption starts at a key frame, so other packets are not checked.
                if may_be_encrypted and packet.has_sidedata("encryption_info"):
                    self._numbers["broken"].append(number)
            if packet.is_discard:
                self._numbers["discard"].append(number)
            if packet.is_corrupt:
                self._numbers["broken"].append(number)
            if needs_whole:
                head: Any = memoryview(packet)
            else:
                head = _head_of(packet)[0] if size >= HEAD_BYTES else memoryview(packet).tobytes()
            if not pass_plain(head, size):
                self._inspect(number, packet, before)
                if self._has_picture:
                    pass_plain = self._inspector.pass_plain
            if order is not None and not order.take(memoryview(packet), head, pts):
                self._is_order_known, order = True, None
            number += 1
            before = packet
        self._last_packet = before

    def _inspect(self, number: int, packet: Any, before: Any | None) -> None:
        """Record the content of packet ``number``, for which `PacketInspector.pass_plain` returned False."""
        data = memoryview(packet)
        content, is_whole, follows, is_field, break_reason = self._inspector.inspect(
            data, None if before is None else memoryview(before)
        )
        if break_reason is not None:
            self._reasons_to_decode.setdefault(break_reason)
        if content is PacketContent.PICTURE:
            if not self._has_picture:
                self._has_picture = True
                if packet.is_keyframe and refreshes_gradually(self._codec, self._reader.extradata, data):
                    self._reasons_to_decode.setdefault("pictures that are not refreshed yet at the beginning")
        elif content is PacketContent.UNCERTAIN:
            self._reasons_to_decode.setdefault("packets that do not show how many frames come of them")
        elif content is not PacketContent.FOREIGN:
            if is_whole:
                self._numbers["hidden"].append(number)
            if content is PacketContent.NOT_CODED:
                self._last_not_coded = number
        if not (is_whole and follows):
            self._numbers["broken"].append(number)
        if is_field:
            self._numbers["field"].append(number)

    def table(self) -> PacketTable:
        """Return a table of the packets read so far, in decode order."""
        count = len(self)
        size = np.array(self._size, np.int64)
        reasons = list(self._reasons_to_decode)
        if not is_proven(self._codec):
            reasons.append("a codec whose packets need not be frames")
        elif has_packets_too_small(self._codec, size):
            reasons.append("packets too small for a picture")
        if self._order is not None and self._order.reason is not None:
            reasons.append(self._order.reason)
        return PacketTable(
            pts=_column(self._pts, NO_PTS),
            dts=_column(self._dts, NO_PTS),
            duration=_column(self._duration, 0),
            size=size,
            position=_column(self._position, -1),
            **{f"is_{name}": _flags(numbers, count) for name, numbers in self._numbers.items()},
            reasons_to_decode=tuple(reasons),
            read_error=self._read_error,
            changes_palette=self._reader.changes_palette,
        )


_head_of = Struct(f"{HEAD_BYTES}s").unpack_from


def _not_plain(head: bytes, size: int) -> bool:
    """Replace `PacketInspector.pass_plain` until the first picture, so that every packet is inspected."""
    return False


def _column(values: Sequence[int | None], unknown: int) -> np.ndarray:
    try:
        return np.array(values, np.int64)
    except TypeError:
        return np.array([unknown if value is None else value for value in values], np.int64)


def _flags(numbers: list[int], count: int) -> np.ndarray:
    flags = np.zeros(count, bool)
    flags[numbers] = True
    return flags


def scan_packets(reader: VideoReader) -> PacketTable:
    """Read all packets. The reader must be at the beginning."""
    scan = PacketScan(reader)
    scan.read()
    return scan.table()


def scan_frames(reader: VideoReader, probed: Collection[int]) -> tuple[list[FrameRecord], list[int], bool]:
    """Decode a whole stream from its beginning with one thread. The reader can be at any position.

    ``probed`` has the numbers of some key frame packets. Return (the frames in the codec's output order, the numbers of
    the packets that the codec refused, whether decoding from each probed packet gives the same frame as the linear
    decode).
    """
    reader.decode_leniently()
    reader.rewind()
    records: list[FrameRecord] = []
    refused: list[int] = []
    probes: list[_Probe] = []
    num_packets, codec = 0, reader.stream_info().codec
    while True:
        try:
            packet = reader.read_packet()
        except SourceFaultError:
            raise
        except ReadError:
            packet = None
        if num_packets in probed and packet is not None:
            probes.append(_Probe(reader, packet.pts))
        for probe in probes:
            probe.feed(packet)
        num_packets += packet is not None
        pictures = _decode(reader, packet)
        if pictures is None and packet is not None:
            refused.append(num_packets - 1)
        for picture in pictures or ():
            records.append(
                FrameRecord(
                    pts=picture.pts,
                    dts=picture.dts,
                    duration=picture.duration or 0,
                    num_packets=num_packets,
                    fingerprint=fingerprint(picture),
                    is_corrupt=bool(picture.is_corrupt),
                    is_key=is_key_frame(picture, codec),
                )
            )
        if packet is None:
            decoded = {(record.pts, record.fingerprint) for record in records}
            return records, refused, all(probe.result in decoded for probe in probes)


class _Probe:
    """Starts decoding at a key frame packet, and stops when the picture with the packet's pts comes out."""

    def __init__(self, reader: VideoReader, pts: int | None) -> None:
        self._decoder: PacketDecoder | None = reader.open_another_decoder()
        self._pts = pts
        self._num_left = MAX_DELAY_PACKETS
        #: (pts, fingerprint) of the picture; ``None`` as long as it has not come out.
        self.result: tuple[int | None, int] | None = None

    def feed(self, packet: Any | None) -> None:
        if self._decoder is None:
            return
        pictures = _decode(self._decoder, packet) or ()
        self.result = next(((one.pts, fingerprint(one)) for one in pictures if one.pts == self._pts), None)
        self._num_left -= 1
        if self.result is not None or packet is None or not self._num_left:
            self._decoder.close()
            self._decoder = None


def first_picture(reader: VideoReader) -> Any | None:
    """Decode and return the first picture of the stream. Feed more packets than the first one only if needed."""
    for numbers in (range(1), itertools.count()):
        reader.rewind()
        for _ in numbers:
            packet = reader.read_packet()
            if packet is None:
                break
            if pictures := _decode(reader, packet):
                return pictures[0]
        if pictures := _decode(reader, None):
            return pictures[0]
    return None


def _decode(decoder: VideoReader | PacketDecoder, packet: Any | None) -> Sequence[Any] | None:
    """Feed a packet to the codec; return the pictures that come out, or ``None`` if the codec refuses the packet."""
    try:
        return decoder.decode(packet)
    except UndecodablePacketError:
        return None
