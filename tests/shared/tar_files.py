"""Tar shards for tests, and a recipe whose samples show the read text and the random value."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mediatensor.datasets import Item, Recipe, Sample
from mediatensor.errors import OpenError

Members = Iterable[tuple[str, bytes]]


def tar_bytes(members: Members, mode: str = "w", **options: Any) -> bytes:
    """An archive of members (name, bytes), as Python's tarfile writes it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode, **options) as archive:  # type: ignore[call-overload]
        for name, data in members:
            header = tarfile.TarInfo(name)
            header.size = len(data)
            archive.addfile(header, io.BytesIO(data))
    return buffer.getvalue()


def number_shards(folder: Path, sizes: Sequence[int], *, compressed: bool = False) -> list[Path]:
    """Shards of samples like ``2-0.mp4``, whose bytes are a text that `TextRecipe` reads: shard and position."""
    paths = []
    for shard, size in enumerate(sizes):
        members = [
            part
            for position in range(size)
            for part in ((f"{shard}-{position}.mp4", b"%d-%d" % (shard, position)), (f"{shard}-{position}.cls", b"7"))
        ]
        paths.append(folder / f"numbers-{shard:02}.tar{'.gz' if compressed else ''}")
        paths[-1].write_bytes(tar_bytes(members, "w:gz" if compressed else "w"))
    return paths


@dataclass(frozen=True)
class TextRecipe(Recipe):
    """Its samples have the bytes of the file as text in ``extra["text"]``, and a number that was drawn for them."""

    def open(self, item: Item) -> io.StringIO:
        if not isinstance(item.source, bytes):
            item.source.open()  # type: ignore[union-attr]
        assert isinstance(item.source, bytes)
        if item.source.startswith(b"bad"):
            raise OpenError(f"{item.name} is bad.")
        return io.StringIO(item.source.decode())

    def read(self, opened: io.StringIO, item: Item, part: int) -> Sample:
        return Sample(extra={"text": opened.getvalue(), "drawn": int(torch.randint(1 << 40, ()))})


def texts(samples: Iterable[Any]) -> list[str]:
    """Return the texts of samples except skipped ones, and of batches that are lists of samples."""
    found: list[str] = []
    for sample in samples:
        if isinstance(sample, list):
            found += texts(sample)
        elif isinstance(sample, Sample):
            found.append(sample.extra["text"])
    return found
