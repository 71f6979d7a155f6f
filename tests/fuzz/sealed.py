"""Change data that have a checksum or length, and update it."""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile
import zlib
from hashlib import blake2b
from typing import Any

from .containers import EXTREMES
from .tables import changed_parquet

__all__ = ["change_sealed"]

# Errors of an earlier change that is noticed at once.
_NOTICED = (ValueError, KeyError, OSError, EOFError, RuntimeError, struct.error, zlib.error, zipfile.BadZipFile)
# What text of a stranger may be, to whom writes it into XML, HTML, tables or a terminal.
_TEXTS = (
    " ", "\0", "\x1b[2J", "\ud800", "\u202e", "\ufffe", "]]>", "<b>&amp;", "a\tb\r\nc",
    "\u0627\u0644", "x" * 9999,
)  # fmt: skip
_INDEX_PREFIX = struct.Struct("<8sIIQ")


def change_sealed(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Change an index, an archive of weights, a tar file, a table or JSON, so that it is not noticed at once."""
    try:
        if data[:4] == b"\x89MTI":
            return _changed_index(rng, data)
        if data[:2] == b"PK":
            return _changed_archive(rng, data)
        if data[:1] in (b"{", b"["):
            return _changed_json(rng, data)
        if data[:4] == data[-4:] == b"PAR1":
            return changed_parquet(rng, data)
        if data[257:262] == b"ustar":
            return _changed_tar(rng, data)
    except _NOTICED:
        return data
    return data


def _changed_index(rng: random.Random, data: bytes) -> bytes:
    magic, version, header_size, payload_size = _INDEX_PREFIX.unpack(data[: _INDEX_PREFIX.size])
    body = data[_INDEX_PREFIX.size :]
    header = json.loads(body[:header_size])
    columns = bytearray(zlib.decompress(body[header_size : header_size + payload_size]))
    if rng.random() < 0.5:
        _change_value(rng, header)
    else:
        for _ in range(rng.choice((1, 5)) if columns else 0):
            columns[rng.randrange(len(columns))] = rng.randrange(256)
    text, payload = json.dumps(header).encode(), zlib.compress(bytes(columns))
    sealed = _INDEX_PREFIX.pack(magic, version, len(text), len(payload)) + text + payload
    return sealed + blake2b(sealed, digest_size=16).digest()


def _change_value(rng: random.Random, container: Any) -> None:
    """Another value somewhere in a structure of JSON."""
    keys = list(container) if isinstance(container, dict) else range(len(container))
    if not keys:
        return
    key = rng.choice(keys)
    value = container[key]
    if isinstance(value, dict | list) and value and rng.random() < 0.9:
        _change_value(rng, value)
    elif isinstance(value, str) and rng.random() < 0.7:
        container[key] = rng.choice((*_TEXTS, value + rng.choice(_TEXTS)))
    elif isinstance(value, int | float) and rng.random() < 0.5:
        container[key] = rng.choice((value + 1, value - 1, value * 2, -value, float(value), str(value)))
    else:
        number = rng.choice(EXTREMES)
        container[key] = rng.choice((number, -number, None, True, False, "", [], {}, 0.5, "x" * 100, [number, 1]))


def _changed_json(rng: random.Random, data: bytes) -> bytes:
    if data[:2] == b'{"' and b"}\n{" in data:  # an object in each line
        lines = data.split(b"\n")
        number = rng.randrange(len(lines))
        return b"\n".join((*lines[:number], _changed_json(rng, lines[number]), *lines[number + 1 :]))
    values = json.loads(data)
    for _ in range(rng.choice((1, 1, 4))):
        _change_value(rng, values)
    return json.dumps(values).encode()


def _changed_archive(rng: random.Random, data: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    name = rng.choice(sorted(members))
    spoiled = bytearray(members[name])
    for _ in range(rng.choice((1, 1, 3)) if spoiled else 0):
        spoiled[rng.randrange(len(spoiled))] = rng.randrange(256)
    members[name] = bytes(spoiled)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for member, content in members.items():
            archive.writestr(zipfile.ZipInfo(member), content)
    return file.getvalue()


def _changed_tar(rng: random.Random, data: bytes) -> bytes:
    """A field of a header, whose checksum is made right."""
    headers = [at for at in range(0, len(data) - 511, 512) if data[at + 257 : at + 262] == b"ustar"]
    if not headers:
        return data
    at = rng.choice(headers)
    header = bytearray(data[at : at + 512])
    start, length = rng.choice(((0, 100), (124, 12), (156, 1), (257, 8), (345, 155), (124, 12), (100, 8)))
    numbers = (b"777777777777", b"-1", b"\x80" + b"\xff" * 11, b"\xff" * 12, b"00000000000", b"")
    texts = (*numbers, b"g", b"x", b"L", b"S", b"5")
    header[start : start + length] = rng.choice((*texts, rng.randbytes(length)))[:length].ljust(length, b"\0")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return data[:at] + bytes(header) + data[at + 512 :]
