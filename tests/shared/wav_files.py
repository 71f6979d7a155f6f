"""WAV files written by hand, byte for byte, as the formats' descriptions have them."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

__all__ = ["CODECS", "chunk", "extensible", "fmt", "noise", "pack", "riff", "w64", "wav"]

# FFmpeg's codec name to (format tag, bits).
CODECS = {
    "pcm_u8": (1, 8),
    "pcm_s16le": (1, 16),
    "pcm_s24le": (1, 24),
    "pcm_s32le": (1, 32),
    "pcm_f32le": (3, 32),
    "pcm_f64le": (3, 64),
}
_GUID_TAIL = bytes.fromhex("00001000800000aa00389b71")
_W64_TAIL = bytes.fromhex("f3acd3118cd100c04f8edb8a")


def chunk(name: bytes, content: bytes, order: str = "<") -> bytes:
    """A chunk, padded to an even length."""
    return name + struct.pack(f"{order}I", len(content)) + content + bytes(len(content) % 2)


def riff(*chunks: bytes, magic: bytes = b"RIFF", order: str = "<") -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return magic + (b"\xff" * 4 if magic in (b"RF64", b"BW64") else struct.pack(f"{order}I", len(body))) + body


def fmt(tag: int, bits: int, channels: int = 1, rate: int = 8000, order: str = "<", align: int | None = None) -> bytes:
    """A chunk "fmt " of 16 bytes."""
    align = channels * ((bits + 7) // 8) if align is None else align
    content = struct.pack(f"{order}HHIIHH", tag, channels, rate, rate * align & 0xFFFFFFFF, align & 0xFFFF, bits)
    return chunk(b"fmt ", content, order)


def extensible(tag: int, bits: int, valid_bits: int, channels: int = 1, mask: int = 0) -> bytes:
    """A chunk "fmt " of 40 bytes, with a GUID in place of a tag."""
    plain = fmt(0xFFFE, bits, channels)[8:]
    return chunk(b"fmt ", plain + struct.pack("<HHII", 22, valid_bits, mask, tag) + _GUID_TAIL)


def w64(*chunks: tuple[bytes, bytes]) -> bytes:
    """Sony's container: GUIDs, 64-bit sizes that include the header, chunks at multiples of 8 bytes."""
    body = b"wave" + _W64_TAIL
    for name, content in chunks:
        body += name + _W64_TAIL + struct.pack("<Q", 24 + len(content)) + content + bytes(-len(content) % 8)
    return bytes.fromhex("726966662e91cf11a5d628db04c10000") + struct.pack("<Q", 24 + len(body)) + body


def wav(codec: str, samples: NDArray[np.float64], rate: int = 8000) -> bytes:
    """A plain file of (samples, channels) in [-1, 1)."""
    tag, bits = CODECS[codec]
    return riff(fmt(tag, bits, samples.shape[1], rate), chunk(b"data", pack(codec, samples)))


def pack(codec: str, samples: NDArray[np.float64]) -> bytes:
    """Samples as they are stored."""
    tag, bits = CODECS[codec]
    values = samples.flatten()
    if tag == 3:
        return values.astype(f"<f{bits // 8}").tobytes()
    levels = (values * 2 ** (bits - 1)).astype("<i8")
    if bits == 8:
        return (levels + 128).astype(np.uint8).tobytes()
    return levels.view(np.uint8).reshape(-1, 8)[:, : bits // 8].tobytes()


def noise(num_samples: int, num_channels: int = 1, seed: int = 0) -> NDArray[np.float64]:
    """(samples, channels) in [-1, 1); the first two are the ends of the range."""
    samples = np.random.default_rng(seed).uniform(-1, 1, (num_samples, num_channels))
    samples[:2] = np.array([[-1.0], [1 - 2**-31]])[: len(samples)]
    return samples
