"""Packet tables from headers, compared with tables from reading all packets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields

import numpy as np

from mediatensor._engine.containers.sample_tables import PacketTable
from mediatensor._engine.index.header_table import header_table
from mediatensor._engine.index.scan import scan_packets
from mediatensor._engine.pyav.reading import VideoReader
from mediatensor._engine.sources.source import make_source
from mediatensor.errors import MediaTensorError


def tables_of(
    source: object, stream_index: int | None = None, *, small_file_bytes: int = 0
) -> tuple[PacketTable | None, PacketTable]:
    """Return the tables from headers and from reading all packets."""
    reader = VideoReader(make_source(source), stream_index, 1)
    try:
        from_headers = header_table(reader, small_file_bytes=small_file_bytes)
        assert reader.is_fresh
        return from_headers, scan_packets(reader)
    finally:
        reader.close()


def assert_equal(from_headers: PacketTable, scanned: PacketTable, *, besides: Sequence[str] = ()) -> None:
    assert scanned.read_error is None
    assert len(from_headers) == len(scanned)
    for spec in fields(PacketTable):
        if spec.name not in ("read_error", *besides):
            ours, true = (np.asarray(getattr(table, spec.name)) for table in (from_headers, scanned))
            assert ours.dtype == true.dtype
            different = np.flatnonzero(ours != true)
            assert not len(different), f"{spec.name} of packets {different[:5]}"


def mutated(data: bytes, where: Sequence[int], values: Sequence[int], *, seed: int, num_copies: int) -> Iterator[bytes]:
    """Make copies with one to three bytes changed at some of the places, to one of the values or to any byte."""
    random = np.random.default_rng(seed)
    for _ in range(num_copies):
        copy = bytearray(data)
        for at in random.choice(where, random.integers(1, 4)):
            copy[at] = random.choice([*values, random.integers(0, 256)])
        yield bytes(copy)


def assert_right_or_none(copies: Iterable[bytes], *, besides: Sequence[str]) -> None:
    """Check that each copy fails to open, has no table or a right one, and that some have none and some a right one."""
    believed = refused = 0
    for copy in copies:
        try:
            from_headers, scanned = tables_of(copy)
        except MediaTensorError:
            continue
        if from_headers is None:
            refused += 1
        else:
            assert_equal(from_headers, scanned, besides=besides)
            believed += 1
    assert believed
    assert refused
