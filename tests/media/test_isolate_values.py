"""Results of an isolated process: encoding, decoding, and hostile messages."""

from __future__ import annotations

import fcntl
import json
import math
import mmap
import os
import random
import socket
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from mediatensor.decoders import DemuxerMetadata
from mediatensor.errors import InvalidArgumentError
from mediatensor.frames import AudioSamples, AudioVideoClip, FrameBatch, ReplacedFrame

# Private: messages of a compromised process. A real process would end after each case.
from mediatensor.isolate import _child, _values
from mediatensor.isolate._child import ChannelError, receive, send
from mediatensor.isolate._values import (
    MAX_DEPTH,
    MAX_NESTING,
    MAX_NUM_HASHED,
    decode,
    encode,
    extent_of,
    read_structure,
)
from mediatensor.ocr.io import Document


def round_trip(value: Any) -> Any:
    structure, pieces = encode(value)
    return decode(structure, torch.tensor(list(b"".join(pieces)), dtype=torch.uint8))


@pytest.mark.parametrize(
    "value",
    [
        [1, "a", None, True, 0.1, -math.inf, 1 << 80, "\ud800"],
        {"a": [(1, (2,))], 1: b"\0\xff", None: 2.5, "kind": {"tuple": 1}},
        (Fraction(1001, 30000), np.float32(1.5), np.complex64(1j)),
        [],
        b"",
    ],
)
def test_values_can_be_sent(value: Any) -> None:
    returned = round_trip(value)
    assert returned == value
    assert repr(returned) == repr(value)  # 1 is True, and a list of them is equal as well


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.bool, torch.bfloat16, torch.float64, torch.complex64, torch.uint16]
)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3, 4, 5)])
def test_tensors_keep_their_memory_layout(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = torch.arange(math.prod(shape)).reshape(shape).to(dtype)
    seen = tensor.permute(*reversed(range(tensor.ndim))) if tensor.ndim else tensor
    # Another value comes first, so that the bytes do not start at 0.
    _, returned = round_trip([b"abc", seen])
    assert (returned.dtype, returned.shape) == (dtype, seen.shape)
    assert returned.numel() == 0 or returned.stride() == seen.stride()
    assert returned.contiguous().flatten().tolist() == seen.contiguous().flatten().tolist()


def test_views_and_expanded_tensors_can_be_sent() -> None:
    base = torch.arange(24.0).reshape(4, 6)
    one = base[:1, ::6]  # torch counts it as contiguous, but its last stride is 6
    for tensor in (one, base[::2, 1::3], base[0].expand(3, 6), base.flip(0), base.requires_grad_()[1]):
        assert torch.equal(round_trip(tensor), tensor.detach())
    array = np.arange(24).reshape(4, 6)
    for part in (array[::2, ::-1], array.T, np.array(["ab", "c"]), np.array([True, False]), np.float32(1.5)):
        np.testing.assert_array_equal(round_trip(part), part, strict=True)


def test_a_shape_becomes_a_tuple() -> None:
    assert round_trip(torch.zeros(2, 3).shape) == (2, 3)


def test_results_of_the_library_can_be_sent() -> None:
    frames = FrameBatch(
        torch.zeros(1, 3, 2, 2), torch.zeros(1), torch.ones(1), replaced=(ReplacedFrame(0, "damaged", 0, 1),)
    )
    clip = AudioVideoClip(frames, AudioSamples(torch.ones(1, 4), 0.0, 0.5, 8), ((0, 2),))
    returned = round_trip(clip)
    assert repr(returned) == repr(clip)
    assert returned.frames.replaced == frames.replaced
    structure, pieces = encode(clip)
    contents = torch.zeros(sum(map(len, pieces)), dtype=torch.uint8)
    # Objects are built by their own constructors, which check their arguments.
    with pytest.raises(ValueError, match="3-dimensional"):
        decode(structure.replace(b"[1, 3, 2, 2], [", b"[1, 12], [").replace(b"[0, 1, 2, 3]", b"[0, 1]"), contents)


def test_metadata_of_a_demuxer_can_be_sent() -> None:
    metadata = DemuxerMetadata(10.0, None, 0, None)
    assert round_trip(metadata) == metadata


def test_documents_can_be_sent() -> None:
    page = {"page_idx": 0, "dimensions": [4, 6], "orientation": {}, "language": {}}
    page |= {key: [] for key in ("blocks", "layout", "tables")}
    document = Document.from_dict({"pages": [page]})
    document.pages[0].page = np.arange(72, dtype=np.uint8).reshape(4, 6, 3)
    returned = round_trip(document)
    assert returned.export() == document.export()
    np.testing.assert_array_equal(returned.pages[0].page, document.pages[0].page)


def test_values_that_cannot_be_sent_are_named() -> None:
    for value, named in (
        (object(), "builtins.object"),
        ([len], "builtin_function"),
        (np.array([None]), "dtype object"),
        (torch.zeros(2).to_sparse(), "sparse"),
    ):
        with pytest.raises(InvalidArgumentError, match=named):
            encode(value)
    itself: list[Any] = []
    itself.append(itself)
    with pytest.raises(InvalidArgumentError, match="deep"):
        encode(itself)


@pytest.mark.parametrize(
    "structure",
    [
        b"\x80\x04.",
        b'{"tensor": ["float32", [4], [0], 0, 16]}',
        b'{"tensor": ["float32", [1099511627776], [0], 0, 8]}',
        b'{"tensor": ["float32", [-1, -2], [0, 1], 0, 8]}',
        b'{"tensor": ["uint8", [8], [0], -8, 8]}',
        b'{"tensor": ["uint8", [4, 2], [0, 0], 0, 8]}',
        b'{"tensor": ["uint8", [8], [7], 0, 8]}',
        b'{"tensor": ["int32", [1], [0], 1, 4]}',
        b'{"tensor": ["__class__", [8], [0], 0, 8]}',
        b'{"array": ["O", [1], [0], 0, 8]}',
        b'{"array": [[["a", "O"]], [1], [0], 0, 8]}',
        b'{"array": ["V0", [8], [0], 0, 0]}',
        b'{"bytes": [0, 1000000000000]}',
        b'[{"bytes": [0, 8]}, {"bytes": [0, 8]}]',
        b'[{"tensor": ["bool", [8], [0], 0, 8]}, {"array": ["|b1", [8], [0], 0, 8]}]',
        json.dumps({"bytes": [0, 8]}).encode("utf-16"),
        b"1" * 5000,
        b"1." + b"1" * 5000,
        b'{"object": ["os:system", {"command": "true"}]}',
        b'{"object": ["mediatensor.decoders:VideoDecoder", {"source": "/etc/passwd"}]}',
        b'{"object": ["mediatensor.frames:Frame", {"__class__": 1}]}',
        b'{"object": ["mediatensor.frames:Frame.__init__", {}]}',
        b'{"dict": [[[], 1]]}',
        b'{"dict": [[1]]}',
        b'{"fraction": [1, 0]}',
        b'{"unknown": 1}',
        b"{}",
        b"[" * 1_000_000,
        b'{"tuple": [' * 500 + b"]}" * 500,
    ],
    ids=lambda structure: structure[:60].decode("latin-1"),
)
def test_malformed_structures_are_rejected(structure: bytes) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 - it is an IsolatedWorkerError for the caller
        decode(structure, torch.zeros(8, dtype=torch.uint8))


def test_bools_are_0_or_1_for_every_byte() -> None:
    contents = torch.tensor([0, 1, 2, 255, 0, 0, 0, 0], dtype=torch.uint8)
    tensor = decode(b'{"tensor": ["bool", [4], [0], 0, 4]}', contents)
    assert tensor.view(torch.uint8).tolist() == [0, 1, 1, 1]


# The channel


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    here, there = socket.socketpair()
    with here, there:
        yield here, there


def memory_of(num_bytes: int, *, flags: int = os.MFD_ALLOW_SEALING if hasattr(os, "MFD_ALLOW_SEALING") else 0) -> int:
    descriptor = os.memfd_create("test", flags)
    os.truncate(descriptor, num_bytes)
    return descriptor


@pytest.mark.parametrize("is_shared", [True, False])
def test_contents_are_sent_with_and_without_shared_memory(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch, is_shared: bool
) -> None:
    here, there = ends
    if not is_shared:
        monkeypatch.setattr(_child, "_HAS_SEALED_MEMORY", False)
    contents = bytes(range(256)) * 256
    send(there, b"V", b"body", [memoryview(contents)])
    message = receive(here)
    assert (message.kind, message.body) == (b"V", b"body")
    assert message.contents.numpy().tobytes() == contents
    message.contents[0] = 5  # the memory belongs to the receiver


def test_messages_that_announce_too_many_bytes_are_rejected(ends: tuple[socket.socket, socket.socket]) -> None:
    here, there = ends
    there.sendall(b"V" + (2).to_bytes(8) + (1 << 62).to_bytes(8) + b"\0{}")
    with pytest.raises(ChannelError, match="of at most 1000"):
        receive(here, max_bytes=1000)
    there.sendall(b"V" + (1 << 62).to_bytes(8) + bytes(9))
    with pytest.raises(ChannelError, match="of at most"):
        receive(here)
    with pytest.raises(TimeoutError):
        receive(here, deadline=0)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs Linux")
@pytest.mark.parametrize("trick", ["mapped", "unsealable", "short", "file", "none", "huge"])
def test_unsealed_memory_is_rejected(ends: tuple[socket.socket, socket.socket], trick: str) -> None:
    here, there = ends
    size = 1 << (60 if trick == "huge" else 20)  # that is more than there are addresses
    descriptor = memory_of(1 if trick == "short" else size, **({"flags": 0} if trick == "unsealable" else {}))
    mapped = mmap.mmap(descriptor, size) if trick == "mapped" else None
    if trick == "file":
        os.close(descriptor)
        descriptor = os.open(__file__, os.O_RDONLY)
    before = len(os.listdir("/dev/fd"))
    there.sendmsg([b"V"]) if trick == "none" else socket.send_fds(there, [b"V"], [descriptor])
    there.sendall((0).to_bytes(8) + size.to_bytes(8) + b"\1")
    with pytest.raises(ChannelError):
        receive(here)
    assert len(os.listdir("/dev/fd")) == before
    if mapped is not None:
        assert not fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        mapped.close()
    os.close(descriptor)


def test_the_number_of_hashed_numbers_is_bounded() -> None:
    """Numbers that are chosen to collide would take hours; text cannot be chosen to collide."""
    assert round_trip({str(i): i for i in range(2 * MAX_NUM_HASHED)})["5"] == 5
    assert len(round_trip(dict.fromkeys(range(MAX_NUM_HASHED)))) == MAX_NUM_HASHED
    with pytest.raises(InvalidArgumentError, match="dictionary keys that are not text"):
        encode([dict.fromkeys(range(MAX_NUM_HASHED)), {1: 2}])
    numbers = [i * ((1 << 61) - 1) for i in range(MAX_NUM_HASHED + 1)]
    large = [(number + 1) << 10_000 for number in range(MAX_NUM_HASHED // 9)]
    for keys in (numbers, large):
        structure = json.dumps({"dict": [[key, 0] for key in keys]}).encode()
        with pytest.raises(InvalidArgumentError, match="dictionary keys that are not text"):
            decode(structure, torch.empty(0, dtype=torch.uint8))


def test_names_of_dtypes_are_not_evaluated() -> None:
    structure = json.dumps({"array": ["(" + "1," * 4_000 + "1)f8", [0], [0], 0, 0]}).encode()
    with pytest.raises(ValueError, match="an array of dtype"):
        decode(structure, torch.empty(0, dtype=torch.uint8))
    for dtype in ("M8[ns]", "U3", "S2", "c16", ">i4", "?"):
        assert round_trip(np.zeros(2, dtype)).dtype == np.dtype(dtype)


def test_depth_is_bounded() -> None:
    value: Any = 0
    for _ in range(MAX_DEPTH):
        value = (value,)
    assert round_trip(value) == value
    deepest: Any = {0: 0}  # with the most lists and objects
    for _ in range(MAX_DEPTH - 1):
        deepest = {0: deepest}
    assert round_trip(deepest) == deepest
    assert extent_of(encode(deepest)[0]).nesting == MAX_NESTING
    with pytest.raises(InvalidArgumentError, match="301 levels"):
        read_structure(b"[" * 301 + b"]" * 301)


def nesting_of(value: Any) -> int:
    items = value if isinstance(value, list) else value.values() if isinstance(value, dict) else None
    return 0 if items is None else 1 + max(map(nesting_of, items), default=0)


def num_values_of(value: Any) -> int:
    items = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    return 1 + sum(map(num_values_of, items))


def test_values_are_counted_before_they_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare the counts with the values themselves. An empty list counts as a list of one value."""
    monkeypatch.setattr(_values, "_CHUNK_BYTES", 7)  # texts extend beyond the ends of chunks
    generator = random.Random(1)
    texts = ["[[[", '"', "\\", '\\"', '\\\\",{', "}]", ",,,", "", "\n\u1234"]

    def made(depth: int) -> Any:
        kind = generator.choice(["text", "number", "list", "dict"]) if depth else "text"
        if kind == "list":
            return [made(depth - 1) for _ in range(generator.randint(1, 4))]
        if kind == "dict":
            return {generator.choice(texts): made(depth - 1) for _ in range(generator.randint(1, 4))}
        return generator.choice(texts) if kind == "text" else generator.random()

    for _ in range(100):
        value = made(5)
        assert extent_of(json.dumps(value).encode()) == (num_values_of(value), nesting_of(value))


def test_too_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_values, "MAX_NUM_VALUES", 1000)
    assert read_structure(b"[" + b"0," * 998 + b"0]") == [0] * 999
    with pytest.raises(InvalidArgumentError, match="1001 values, of at most 1000"):
        read_structure(b"[" + b"0," * 999 + b"0]")
    assert read_structure(b'"' + b"[,{" * 1000 + b'"') == "[,{" * 1000
