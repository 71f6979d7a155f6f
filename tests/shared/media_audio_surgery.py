"""Files of sound that no muxer at hand writes, made by working on the bytes."""

from __future__ import annotations

import random
import struct

_MP3_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
_MP3_KILOBITS = {
    3: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    2: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_PICTURE_SIZE = 300_000
OGG_POLYNOMIAL = 0x104C11DB7


def id3_size(data: bytes) -> int:
    """Bytes of the ID3v2 tag at the start, 0 without one."""
    if data[:3] != b"ID3":
        return 0
    a, b, c, d = data[6:10]
    return 10 + (a << 21 | b << 14 | c << 7 | d)


def mp3_frame_size(header: bytes) -> int:
    """Bytes of the layer III frame that begins with ``header``.

    >>> mp3_frame_size(bytes.fromhex("fffb9000"))
    417
    """
    version, rate_index = header[1] >> 3 & 3, header[2] >> 2 & 3
    rate = _MP3_RATES[version][rate_index]
    kilobits = _MP3_KILOBITS[3 if version == 3 else 2][header[2] >> 4]
    return (144 if version == 3 else 72) * kilobits * 1000 // rate + (header[2] >> 1 & 1)


def mp3_frames(data: bytes) -> list[tuple[int, int]]:
    """(position, size) of every frame of an MP3 file that is whole."""
    at, frames = id3_size(data), []
    while at + 4 <= len(data) and data[at] == 0xFF:
        size = mp3_frame_size(data[at : at + 4])
        frames.append((at, size))
        at += size
    return frames


def without_first_mp3_frame(data: bytes) -> bytes:
    """Without tag and first frame, which is the one that says how many there are, and where."""
    position, size = mp3_frames(data)[0]
    assert b"Xing" in data[position : position + size] or b"Info" in data[position : position + size]
    return data[position + size :]


def with_id3_picture(data: bytes) -> bytes:
    """Replace the leading tag by one with an image. The image is full of data that look like frames."""
    picture = b"\xff\xd8\xff\xe0" + bytes.fromhex("fffb9000") * (_PICTURE_SIZE // 4)
    return id3_tag(b"\0image/jpeg\0\3\0" + picture) + data[id3_size(data) :]


def id3_tag(picture: bytes) -> bytes:
    """A tag with only a frame for a picture, of which these are the contents."""
    frame = b"APIC" + struct.pack(">IH", len(picture), 0) + picture
    return b"ID3\3\0\0" + bytes(len(frame) >> shift & 0x7F for shift in (21, 14, 7, 0)) + frame


def ape_tag(content: bytes) -> bytes:
    """An APE tag, version 2, around the bytes of one item."""
    head, foot = (
        b"APETAGEX" + struct.pack("<IIII", 2000, len(content) + 32, 1, flags) + bytes(8)
        for flags in (0xA0000000, 0x80000000)
    )
    return head + content + foot


def flac_with_seek_table(data: bytes, seconds: float = 0.5) -> bytes:
    """A seek point for every half second, each at the frame in which it lies; blocks must be of one size below 4096."""
    at, blocks = 4, []
    while True:
        size = int.from_bytes(data[at + 1 : at + 4], "big")
        blocks.append(data[at : at + 4 + size])
        at += 4 + size
        if blocks[-1][0] & 0x80:
            break
    information = blocks[0][4:]
    block_size = int.from_bytes(information[:2], "big")
    rate = int.from_bytes(information[10:13], "big") >> 4
    starts = _flac_frame_starts(data, at)
    points = b""
    step = max(1, round(seconds * rate / block_size))
    for number in range(0, len(starts), step):
        points += struct.pack(">QQH", number * block_size, starts[number] - at, block_size)
    table = b"\3" + len(points).to_bytes(3, "big") + points
    return data[:4] + blocks[0][:1].replace(b"\x80", b"\0") + blocks[0][1:] + table + b"".join(blocks[1:]) + data[at:]


def _flac_frame_starts(data: bytes, at: int) -> list[int]:
    """Positions of the frames: sync code, then the frame's own number in the coding of UTF-8, then a checksum."""
    starts: list[int] = []
    while True:
        at = data.find(b"\xff\xf8", at)
        if at < 0:
            return starts
        number = len(starts)
        coded = chr(number).encode("utf-8", "surrogatepass")
        extra = {6: 1, 7: 2}.get(data[at + 2] >> 4, 0) + {12: 1, 13: 2, 14: 2}.get(data[at + 2] & 15, 0)
        end = at + 4 + len(coded) + extra
        if data[at + 4 : at + 4 + len(coded)] == coded and crc(data[at:end], 0x107) == data[end]:
            starts.append(at)
        at += 2


def crc(data: bytes, polynomial: int) -> int:
    """A checksum that begins at 0, with nothing reflected; the polynomial has the bit of its degree.

    >>> hex(crc(b"123456789", OGG_POLYNOMIAL)), crc(b"123456789", 0x107)
    ('0x89a1897f', 244)
    """
    degree, value = polynomial.bit_length() - 1, 0
    for byte in data:
        value ^= byte << degree - 8
        for _ in range(8):
            value = value << 1 ^ polynomial * (value >> degree - 1)
    return value


def adts_frames(data: bytes) -> list[bytes]:
    """The frames of a file of bare AAC, each with its header."""
    frames, at = [], 0
    while at + 7 <= len(data):
        size = (data[at + 3] & 3) << 11 | data[at + 4] << 3 | data[at + 5] >> 5
        frames.append(data[at : at + size])
        at += size
    return frames


def adts_with_prediction(data: bytes, profile: int, first_frame: int = 0) -> bytes:
    """AAC of low complexity as Main (profile 0) or LTP (3), where frames are predicted from those before.

    The encoded signal becomes the residual of the prediction: other audio, but the same in every decoder.

    The data are mono at 44100 Hz, without a frame that begins with anything but the sound. The lowest 12
    bands are predicted.
    """
    frames = adts_frames(data)
    changed = (_predicted(frame, profile) for frame in frames[first_frame:])
    return b"".join([*frames[:first_frame], *changed])


def _predicted(frame: bytes, profile: int) -> bytes:
    header, bits = bytearray(frame[:7]), f"{int.from_bytes(frame[7:], 'big'):0{8 * len(frame[7:])}b}"
    is_sound, is_short = bits[:3] == "000", bits[16:18] == "10"
    if is_sound and not is_short:
        num_used = min(int(bits[19:25], 2), 40)
        used = ("1" * 12).ljust(num_used, "0")[:num_used]
        # Main: no reset. LTP: from 1500 samples before, by 0.57.
        prediction = "1" + ("0" if profile == 0 else f"1{1500:011b}000") + used
        bits = bits[:25] + prediction + bits[26:]
        bits += "0" * (-len(bits) % 8)
    size = 7 + len(bits) // 8
    header[2] = header[2] & 0x3F | profile << 6
    header[3:6] = (header[3] & 0xFC) | size >> 11, size >> 3 & 0xFF, (size & 7) << 5 | header[5] & 0x1F
    return bytes(header) + int(bits, 2).to_bytes(len(bits) // 8, "big")


def ogg_page(packets: list[bytes], granule: int, serial: int, number: int, flags: int = 0) -> bytes:
    """A page of whole packets. Flags: 2 begins the stream, 4 ends it."""
    lacing = b"".join(b"\xff" * (len(packet) // 255) + bytes([len(packet) % 255]) for packet in packets)
    head = b"OggS" + struct.pack("<BBqIIIB", 0, flags, granule, serial, number, 0, len(lacing)) + lacing
    page = head + b"".join(packets)
    return page[:22] + struct.pack("<I", crc(page, OGG_POLYNOMIAL)) + page[26:]


def speex_ogg(num_seconds: int, seed: int) -> bytes:
    """Speech that says nothing: frames of random bits of the lowest rate, where the decoder makes up the excitation.

    As encoders do, the first 40 samples are in front of time 0, and the last page ends a frame earlier than it could.
    """
    rate, frame_length, delay = 8000, 160, 40
    header = b"Speex   " + b"1.2".ljust(20, b"\0")
    header += struct.pack("<13i", 1, 80, rate, 0, 4, 1, 2150, frame_length, 0, 1, 0, 0, 0)
    comment = struct.pack("<I", 4) + b"test" + struct.pack("<I", 0)
    draw = random.Random(seed)
    pages = [ogg_page([header], 0, seed, 0, 2), ogg_page([comment], 0, seed, 1)]
    for second in range(num_seconds):
        # Narrow band (a zero), mode 1 of four bits, what there is to say, and the mark that no more follows.
        frames = [(1 << 43 | draw.getrandbits(38) << 5 | 0b01111).to_bytes(6) for _ in range(rate // frame_length)]
        is_last = second + 1 == num_seconds
        granule = (second + 1) * rate - delay - frame_length * is_last
        pages.append(ogg_page(frames, granule, seed, second + 2, 4 if is_last else 0))
    return b"".join(pages)
