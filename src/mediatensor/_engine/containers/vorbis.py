"""Locate the samples of Vorbis packets in Ogg, from the sizes of their blocks and the positions in page headers.

A page header states the sample at which the page's last packet ends. FFmpeg miscounts the samples of a short block
after a long block, in reading and in writing, so many packets have wrong times. The first byte of a packet determines
the size of its block. A packet has a quarter of the samples of its own block and the previous block::

    block            2048   256   256  2048  2048
    samples          1024   576   128   576  1024
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from .boxes import ReadAt

_PAGE = struct.Struct("<4sBBqIIIB")
_SIGN, _CONTINUES, _ENDS = b"OggS", 1, 4
_USUAL_PAGE_BYTES = 8192

# Number of bytes in which two pages with consistent positions must be found.
_MAX_BYTES = 1 << 20

_IDENTIFICATION, _SETUP = b"\x01vorbis", b"\x05vorbis"
_BLOCK_SIZES_AT = 28
_MODE_BITS, _COUNT_BITS = 41, 6
_MAX_MAPPING = 63


@dataclass(frozen=True)
class VorbisModes:
    """The block size in samples of each mode. A packet starts with the number of its mode."""

    block_sizes: tuple[int, ...]

    def block_size(self, first_byte: int) -> int | None:
        """Return the size of a packet's block in samples; ``None`` if the packet is not audio.

        >>> modes = VorbisModes((256, 2048))
        >>> [modes.block_size(byte) for byte in (0b00, 0b10, 0b01)]
        [256, 2048, None]
        """
        number = first_byte >> 1 & (1 << (len(self.block_sizes) - 1).bit_length()) - 1
        return None if first_byte & 1 or number >= len(self.block_sizes) else self.block_sizes[number]


def vorbis_modes(extradata: bytes) -> VorbisModes | None:
    """Return the modes of a stream from its three headers, as FFmpeg stores them; ``None`` if they are invalid."""
    headers = _split_headers(extradata)
    if headers is None or not headers[0].startswith(_IDENTIFICATION) or not headers[2].startswith(_SETUP):
        return None
    if len(headers[0]) <= _BLOCK_SIZES_AT:
        return None
    exponents = headers[0][_BLOCK_SIZES_AT]
    sizes = 1 << (exponents & 15), 1 << (exponents >> 4)
    # The modes are the last part of a header whose other parts cannot be skipped. So they are read backwards from the
    # end of the header, which is a set bit. The number of modes comes before the first mode.
    bits = int.from_bytes(headers[2], "little")
    at = bits.bit_length() - 1
    blocks: list[int] = []
    modes: tuple[int, ...] | None = None
    while at >= _MODE_BITS + _COUNT_BITS and len(blocks) < 1 << _COUNT_BITS:
        at -= _MODE_BITS
        mode = bits >> at & (1 << _MODE_BITS) - 1
        if mode >> 1 & (1 << 32) - 1 or mode >> 33 > _MAX_MAPPING:
            break
        blocks.insert(0, sizes[mode & 1])
        if bits >> at - _COUNT_BITS & (1 << _COUNT_BITS) - 1 == len(blocks) - 1:
            modes = tuple(blocks)
    return None if modes is None else VorbisModes(modes)


def _split_headers(extradata: bytes) -> list[bytes] | None:
    """Split the three headers. Before them are their count and two lengths, encoded as in a page."""
    if not extradata.startswith(b"\x02"):
        return None
    at, lengths = 1, []
    for _ in range(2):
        length = 0
        while at < len(extradata) and extradata[at] == 255:
            length, at = length + 255, at + 1
        if at >= len(extradata):
            return None
        lengths.append(length + extradata[at])
        at += 1
    ends = at + lengths[0], at + sum(lengths)
    return [extradata[at : ends[0]], extradata[ends[0] : ends[1]], extradata[ends[1] :]]


def first_packet_end(read_at: ReadAt, position: int, modes: VorbisModes) -> tuple[int, int] | None:
    """Return the size of the first packet that starts on a page, and the sample at which it ends.

    Return ``None`` unless two pages agree about this sample. ``modes`` are the modes of the stream.
    """
    stop = position + _MAX_BYTES
    serial: int | None = None
    first_size: int | None = None
    # For each packet: its block size, and the sample at which it ends if the first packet ends at sample 0.
    blocks: list[int] = []
    ends: list[int] = []
    size = 0
    is_open = False
    # The end of the first packet according to each page. In files by FFmpeg, the stated end of a short block may be too
    # late by `lateness`. The stated end of a long block is always right.
    certain: list[int] = []
    uncertain: list[int] = []
    longest = max(modes.block_sizes)
    lateness = (longest - min(modes.block_sizes)) // 4
    while position < stop:
        page = read_at(position, _USUAL_PAGE_BYTES)
        if len(page) < _PAGE.size or not page.startswith(_SIGN):
            return None
        _, _, flags, granule, page_serial, _, _, num_lengths = _PAGE.unpack_from(page)
        at = _PAGE.size + num_lengths
        lengths = page[_PAGE.size : at]
        end = at + sum(lengths)
        if end > len(page):
            page = read_at(position, end)
        position += end
        serial = page_serial if serial is None else serial
        if page_serial != serial:
            continue
        # On the last page, the stated end may exclude the encoder's padding.
        if flags & _ENDS:
            return None
        is_skipped = bool(flags & _CONTINUES) and not is_open
        last_complete: int | None = None
        for length in lengths:
            if not is_open and not is_skipped:
                block = modes.block_size(page[at]) if length and at < len(page) else None
                if block is None:
                    return None
                ends.append(ends[-1] + (blocks[-1] + block) // 4 if ends else 0)
                blocks.append(block)
                is_open, size = True, 0
            size, at = size + length, at + length
            if length < 255:
                if is_open:
                    last_complete = len(blocks) - 1
                    first_size = size if first_size is None else first_size
                is_open = is_skipped = False
        if last_complete is not None and granule >= 0:
            stated_end = granule - ends[last_complete]
            if blocks[last_complete] == longest:
                certain.append(stated_end)
            else:
                uncertain.append(stated_end)
        if certain and first_size is not None and len(certain) + len(uncertain) > 1:
            agree = len({*certain}) == 1 and {*uncertain} <= {certain[0], certain[0] + lateness}
            return (first_size, certain[0]) if agree else None
    return None
