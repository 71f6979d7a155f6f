"""Parse the header of a WAV file to find its sample format and the position of the samples.

The formats are RIFF, RIFX (big-endian), RF64 and BW64 (with 64-bit sizes in a chunk ``ds64``) and Sony's W64 (the same
chunks, named by GUIDs). If the header states more audio than the file has, the audio ends at the end of the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from ...errors import OpenError, StreamError
from .boxes import ReadAt

# Largest number of chunks before the audio. Usual files have a handful.
_MAX_CHUNKS = 10_000
# Number of bytes to read at once.
_WINDOW_BYTES = 4096
# Number of bytes to read of a chunk "fmt " or "ds64". Later bytes are not needed.
_MAX_CHUNK_BYTES = 64
_MAX_SAMPLE_RATE = 2**31 - 1

_UNKNOWN_SIZE = 0xFFFFFFFF
# Programs that write to a pipe state sizes near the limits of 32-bit numbers, or in W64 of signed 64-bit numbers.
_NEAR_LIMIT = 1 << 16
_EXTENSIBLE = 0xFFFE
_INTEGER, _FLOAT = 1, 3
# Bytes 4 to 16 of GUIDs that start with a format tag: the usual GUIDs, and the GUIDs of ambisonic audio.
_GUID_TAILS = (bytes.fromhex("00001000800000aa00389b71"), bytes.fromhex("2107d3118644c8c1ca000000"))
_TAG_NAMES = {
    0x0002: "Microsoft ADPCM", 0x0006: "A-law", 0x0007: "mu-law", 0x0011: "IMA ADPCM", 0x0031: "GSM 6.10",
    0x0050: "MPEG", 0x0055: "MP3", 0x00FF: "AAC", 0x2000: "AC-3",
}  # fmt: skip

_W64_RIFF = bytes.fromhex("726966662e91cf11a5d628db04c10000")
_W64_GUID_TAIL = bytes.fromhex("f3acd3118cd100c04f8edb8a")


@dataclass(frozen=True)
class SampleEncoding:
    codec: str  # FFmpeg's name, such as "pcm_s16le"
    sample_format: str  # FFmpeg's name, such as "s16"
    num_bytes: int
    is_float: bool
    is_big_endian: bool


@dataclass(frozen=True)
class WavHeader:
    encoding: SampleEncoding  # encoding of each sample
    num_channels: int  # at least 1; the samples of all channels are interleaved
    sample_rate: int  # samples per second, at least 1
    data_offset: int  # position of the first sample in the file
    num_samples: int  # whole samples (of all channels) that the file contains
    channel_mask: int  # a bit for each loudspeaker, in the order of the channels; 0 if not stated

    @property
    def frame_bytes(self) -> int:
        """Size in bytes of one sample of all channels."""
        return self.num_channels * self.encoding.num_bytes


class StatedAudio(NamedTuple):
    """The length of the audio of a WAV file according to its header, even if the file is shorter."""

    num_bytes: int
    num_seconds: float | None  # `None` if the audio is compressed: the header may then state a wrong bit rate


@dataclass(frozen=True)
class _Container:
    """The chunk layout of a WAV variant. ``byte_order`` is a prefix for `struct`.

    In W64, chunks are named by GUIDs, and the stated size of a chunk includes its header.
    """

    byte_order: str
    is_w64: bool = False

    @property
    def first_chunk(self) -> int:
        return 40 if self.is_w64 else 12

    @property
    def head_bytes(self) -> int:
        return 24 if self.is_w64 else 8

    def read_head(self, head: bytes) -> tuple[bytes, int]:
        """Parse the header of a chunk. Return (its name, the size of its content in bytes).

        In a damaged W64 file, the size can be negative.
        """
        if not self.is_w64:
            return head[:4], int(struct.unpack_from(f"{self.byte_order}I", head, 4)[0])
        name = head[:4] if head[4:16] == _W64_GUID_TAIL else head[:16]
        return name, int(struct.unpack_from("<Q", head, 16)[0]) - self.head_bytes

    def after(self, end: int) -> int:
        """Return the start of the next chunk if a chunk ends at ``end``. There can be padding between them."""
        alignment = 8 if self.is_w64 else 2
        return -(-end // alignment) * alignment


def parse_wav_header(read_at: ReadAt, file_size: int, name: str) -> WavHeader:
    """Find the format and the position of the samples of a WAV file. ``name`` is the file's name in error messages.

    ``read_at`` is only called for chunks before the samples. Raises `OpenError` if the file is not a WAV file, or if
    its header contradicts itself. Raises `StreamError` if the audio is compressed or has an unsupported format.
    """
    container, fmt, offset, size = _find_audio(read_at, file_size, name)
    order = container.byte_order
    encoding, num_channels, sample_rate = _parse_format(fmt, order, name)
    # Programs that write to a pipe state the size as 0 or as all ones.
    num_bytes = min(size if size > 0 else file_size, file_size - offset)
    num_samples = num_bytes // (num_channels * encoding.num_bytes)
    is_extensible = len(fmt) >= 40 and struct.unpack_from(f"{order}H", fmt)[0] == _EXTENSIBLE
    mask = int(struct.unpack_from(f"{order}I", fmt, 20)[0]) if is_extensible else 0
    return WavHeader(encoding, num_channels, sample_rate, offset, num_samples, mask)


def stated_wav_audio(read_at: ReadAt, file_size: int) -> StatedAudio | None:
    """Return the length of the audio according to the header; ``None`` if the file is not WAV or does not state it."""
    with suppress(OpenError):
        container, fmt, _, size = _find_audio(read_at, file_size, "")
        if size <= 0 or min(abs(size - (1 << bits)) for bits in (31, 32, 63)) <= _NEAR_LIMIT:
            return None
        try:
            encoding, num_channels, sample_rate = _parse_format(fmt, container.byte_order, "")
        except (OpenError, StreamError):
            return StatedAudio(size, None)
        return StatedAudio(size, size / (num_channels * encoding.num_bytes * sample_rate))
    return None


def _find_audio(read_at: ReadAt, file_size: int, name: str) -> tuple[_Container, bytes, int, int]:
    """Return (container, content of the chunk "fmt ", position of the audio, its stated size in bytes).

    The size is 0 or less if the header does not state it. Arguments and errors are as for `parse_wav_header`.
    """
    container = _detect_container(read_at(0, 40), name)
    found: dict[bytes, bytes] = {}
    data: tuple[int, int] | None = None
    for chunk, offset, size in _walk_chunks(read_at, file_size, container, name):
        if chunk in (b"fmt ", b"ds64") and chunk not in found:
            found[chunk] = read_at(offset, min(size, _MAX_CHUNK_BYTES))
        elif chunk == b"data" and data is None:
            data = offset, size
        if data is not None and b"fmt " in found:
            break
    if b"fmt " not in found or data is None:
        missing = "data" if b"fmt " in found else "fmt"
        raise OpenError(f"Chunk not found: {name} has no chunk '{missing}', or it is after the end of the file.")
    offset, size = data
    if not container.is_w64 and size == _UNKNOWN_SIZE:
        ds64 = found.get(b"ds64", b"")
        size = struct.unpack_from("<Q", ds64, 8)[0] if len(ds64) >= 16 else 0
    return container, found[b"fmt "], offset, size


def _detect_container(beginning: bytes, name: str) -> _Container:
    if beginning[:16] == _W64_RIFF:
        container, form = _Container("<", is_w64=True), beginning[24:28]
    elif beginning[:4] in (b"RIFF", b"RF64", b"BW64", b"RIFX"):
        container, form = _Container(">" if beginning[:4] == b"RIFX" else "<"), beginning[8:12]
    else:
        raise OpenError(
            f"Missing RIFF header: {name} begins with {beginning[:4]!r}. WavDecoder reads WAV files (RIFF, RIFX, RF64, "
            "BW64, W64); use AudioDecoder for other formats."
        )
    if form.upper() != b"WAVE":
        raise OpenError(f"{name} is a RIFF file of type {form!r}, not b'WAVE'; use AudioDecoder for it.")
    return container


def _walk_chunks(read_at: ReadAt, file_size: int, container: _Container, name: str) -> Iterator[tuple[bytes, int, int]]:
    """Yield (name, offset of the content, size of the content) of each chunk in file order."""
    position, start, window = container.first_chunk, 0, b""
    for _ in range(_MAX_CHUNKS):
        if position + container.head_bytes > file_size:
            return
        if not start <= position <= start + len(window) - container.head_bytes:
            start, window = position, read_at(position, _WINDOW_BYTES)
        head = window[position - start : position - start + container.head_bytes]
        if len(head) < container.head_bytes:
            return
        chunk, size = container.read_head(head)
        offset = position + container.head_bytes
        if size < 0 and chunk != b"data":
            raise OpenError(f"{name} is damaged: the chunk at byte {position} states a size smaller than its header.")
        yield chunk, offset, size
        if chunk == b"data" and size <= 0:  # the rest of the file is audio
            return
        position = container.after(offset + size)
    raise OpenError(f"{name} is damaged: it has more than {_MAX_CHUNKS} chunks without audio.")


def _parse_format(fmt: bytes, byte_order: str, name: str) -> tuple[SampleEncoding, int, int]:
    """Parse the content of a "fmt " chunk. Return (encoding, number of channels, samples per second)."""
    if len(fmt) < 16:
        raise OpenError(f"{name} is damaged: its chunk 'fmt' has {len(fmt)} bytes, at least 16 are needed.")
    tag, num_channels, sample_rate, _, block_align, num_bits = struct.unpack_from(f"{byte_order}HHIIHH", fmt)
    if tag == _EXTENSIBLE:
        # The field for valid bits is ignored, because valid bits are the highest bits of their bytes.
        if len(fmt) < 40:
            raise OpenError(f"{name} is damaged: its extensible chunk 'fmt' has {len(fmt)} bytes, 40 are needed.")
        if fmt[28:40] not in _GUID_TAILS:
            sub_format = fmt[24:40].hex()
            raise StreamError(f"{name} has audio of the unknown sub-format {sub_format}; use AudioDecoder for it.")
        tag = int(struct.unpack_from(f"{byte_order}I", fmt, 24)[0])
    if num_channels == 0 or not 1 <= sample_rate <= _MAX_SAMPLE_RATE:
        raise OpenError(f"{name} is damaged: it states {num_channels} channels and {sample_rate} samples per second.")
    # Samples with a number of bits that is not a multiple of 8 are stored in the upper bits of whole bytes.
    num_bytes = (num_bits + 7) // 8
    encoding = _find_encoding(tag, num_bytes, byte_order == ">")
    if encoding is None:
        kind = {_INTEGER: f"{num_bits}-bit PCM", _FLOAT: f"{num_bits}-bit float"}.get(tag)
        raise StreamError(
            f"{name} holds {kind or _TAG_NAMES.get(tag, f'audio of format {tag:#06x}')}. WavDecoder reads PCM of 8, "
            "16, 24 and 32 bits and float of 32 and 64; use AudioDecoder for it."
        )
    if block_align != num_channels * num_bytes:
        raise OpenError(
            f"{name} contradicts itself: {num_channels} channels of {num_bits} bits take {num_channels * num_bytes} "
            f"bytes, not {block_align} as its block align states; AudioDecoder may be able to read it."
        )
    return encoding, num_channels, sample_rate


def _find_encoding(tag: int, num_bytes: int, is_big_endian: bool) -> SampleEncoding | None:
    ending = "be" if is_big_endian else "le"
    names = {
        (_INTEGER, 1): ("pcm_u8", "u8"),
        (_INTEGER, 2): (f"pcm_s16{ending}", "s16"),
        (_INTEGER, 3): (f"pcm_s24{ending}", "s32"),
        (_INTEGER, 4): (f"pcm_s32{ending}", "s32"),
        (_FLOAT, 4): (f"pcm_f32{ending}", "flt"),
        (_FLOAT, 8): (f"pcm_f64{ending}", "dbl"),
    }.get((tag, num_bytes))
    return None if names is None else SampleEncoding(*names, num_bytes, tag == _FLOAT, is_big_endian)


# Loudspeaker names for the bits of the mask, lowest bit first.
# fmt: off
_SPEAKERS = ("FL", "FR", "FC", "LFE", "BL", "BR", "FLC", "FRC", "BC", "SL", "SR", "TC", "TFL", "TFC", "TFR", "TBL",
             "TBC", "TBR")
_NAMES = {
    "FC": "mono", "FL+FR": "stereo", "FL+FR+LFE": "2.1", "FL+FR+FC": "3.0", "FL+FR+BC": "3.0(back)",
    "FL+FR+FC+BC": "4.0", "FL+FR+BL+BR": "quad", "FL+FR+SL+SR": "quad(side)", "FL+FR+FC+LFE": "3.1",
    "FL+FR+FC+BL+BR": "5.0", "FL+FR+FC+SL+SR": "5.0(side)", "FL+FR+FC+LFE+BC": "4.1", "FL+FR+FC+LFE+BL+BR": "5.1",
    "FL+FR+FC+LFE+SL+SR": "5.1(side)", "FL+FR+FC+BC+SL+SR": "6.0", "FL+FR+FLC+FRC+SL+SR": "6.0(front)",
    "FL+FR+FC+LFE+TFL+TFR": "3.1.2", "FL+FR+FC+BL+BR+BC": "hexagonal", "FL+FR+FC+LFE+BC+SL+SR": "6.1",
    "FL+FR+FC+LFE+BL+BR+BC": "6.1(back)", "FL+FR+LFE+FLC+FRC+SL+SR": "6.1(front)", "FL+FR+FC+BL+BR+SL+SR": "7.0",
    "FL+FR+FC+FLC+FRC+SL+SR": "7.0(front)", "FL+FR+FC+LFE+BL+BR+SL+SR": "7.1",
    "FL+FR+FC+LFE+BL+BR+FLC+FRC": "7.1(wide)", "FL+FR+FC+LFE+FLC+FRC+SL+SR": "7.1(wide-side)",
    "FL+FR+FC+LFE+SL+SR+TFL+TFR": "5.1.2", "FL+FR+FC+LFE+BL+BR+TFL+TFR": "5.1.2(back)",
    "FL+FR+FC+BL+BR+BC+SL+SR": "octagonal", "FL+FR+BL+BR+TFL+TFR+TBL+TBR": "cube",
    "FL+FR+FC+LFE+SL+SR+TFL+TFR+TBL+TBR": "5.1.4", "FL+FR+FC+LFE+BL+BR+SL+SR+TFL+TFR": "7.1.2",
}
# fmt: on


def layout_name(mask: int, num_channels: int) -> str | None:
    """Return the name of a channel layout; ``None`` if the mask does not have one loudspeaker for each channel.

    >>> layout_name(0b11, 2), layout_name(0b110000, 2), layout_name(0, 2)
    ('stereo', '2 channels (BL+BR)', None)
    """
    if mask.bit_count() != num_channels or mask >> len(_SPEAKERS):
        return None
    speakers = "+".join(name for bit, name in enumerate(_SPEAKERS) if mask >> bit & 1)
    return _NAMES.get(speakers, f"{num_channels} channels ({speakers})")
