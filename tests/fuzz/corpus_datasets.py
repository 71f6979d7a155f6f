"""Sound manifests and saved states of datasets."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import media
from mediatensor.datasets import DataLoader, Item, MediaDataset, Recipe, Sample, Shuffle, TarSamples
from tar_files import tar_bytes

from .arguments import fixed

__all__ = ["NUM_ROWS", "BytesRecipe", "manifest_seeds", "row_loader", "state_seeds", "stream_loader"]

#: Number of rows of the dataset for saved states.
NUM_ROWS = 11
_SHARD_ROWS = (3, 4)

Make = Callable[[Path], bytes]


@dataclass(frozen=True)
class BytesRecipe(Recipe):
    """Its samples have the bytes of the file."""

    def open(self, item: Item) -> Any:
        if not isinstance(item.source, bytes):
            item.source.open()  # type: ignore[union-attr]
        return io.BytesIO(item.source)  # type: ignore[arg-type]

    def read(self, opened: Any, item: Item, part: int) -> Sample:
        return Sample(extra={"data": opened.getvalue()})


def manifest_seeds() -> dict[str, Make]:
    """Manifests by name, whose last word is the extension."""
    rows = [{"path": f"{name}.mp4", "label": label, "place": "Oslo, N", "bytes": None} for name, label in _LABELLED]
    header = "path,label,place,seconds"
    lines = [f'{row["path"]},{row["label"]},"{row["place"]}",{number}.5' for number, row in enumerate(rows)]
    made = {
        "rows_csv": "\n".join([header, *lines, ""]),
        "numbers_csv": "file_name,labels\r\na.mp4,3\r\nb.mp4,-4\r\n",
        "rows_tsv": "\n".join([header, *lines]).replace(",", "\t"),
        "rows_jsonl": "\n".join(json.dumps(row) for row in rows),
        "nested_jsonl": json.dumps({"video": {"path": "a.mp4", "bytes": None}, "label": [1, {"a": None}]}),
        "rows_json": json.dumps(rows),
    }
    seeds: dict[str, Make] = {name: fixed(text.encode()) for name, text in made.items()}
    if find_spec("pyarrow"):
        seeds |= dict(_parquet_seeds())
    return seeds


_LABELLED = (("a", "run"), ("b", "jump"), ("c", "run"))


def _parquet_seeds() -> Iterator[tuple[str, Make]]:
    paths = {"path": ["a.mp4", "b.mp4", None], "label": ["run", "jump", "run"]}
    numbers = {"file_name": ["a.mp4"] * 3, "label": [1, 2, 3], "many": [[1], [], None], "when": [0.5, None, 1e300]}
    yield "paths_parquet", lambda folder: _parquet(paths)
    yield "numbers_parquet", lambda folder: _parquet(numbers, compression="zstd", use_dictionary=False)
    yield "media_parquet", lambda folder: _parquet(_media_columns(folder), row_group_size=2)
    yield "bytes_parquet", lambda folder: _parquet({"bytes": [_clip(folder)] * 2, "label": [0, 1]}, compression="none")


def _media_columns(folder: Path) -> dict[str, list[Any]]:
    return {"video": [{"bytes": _clip(folder), "path": f"{name}.mp4"} for name, _ in _LABELLED], "label": [0, 1, 0]}


def _clip(folder: Path) -> bytes:
    return media.make("mp4", folder).read_bytes()


def _parquet(columns: dict[str, list[Any]], **options: Any) -> bytes:
    import pyarrow
    import pyarrow.parquet

    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), file, **options)
    return file.getvalue()


def row_loader(batch_size: int = 2) -> DataLoader:
    """A loader of rows with indices."""
    items = [Item(b"%d" % number, number % 3) for number in range(NUM_ROWS)]
    return DataLoader(MediaDataset(items, BytesRecipe(), seed=5), batch_size, Shuffle(), collate_fn=list)


def stream_loader(folder: Path, rank: int = 0, num_ranks: int = 1) -> DataLoader:
    """A loader of rows of two shards, which it writes if they are not there."""
    for shard, count in enumerate(_SHARD_ROWS):
        path = folder / f"states-{shard}.tar"
        if not path.exists():
            draft = path.with_suffix(f".{rank}-of-{num_ranks}")
            draft.write_bytes(tar_bytes([(f"{shard}-{number}.mp4", b"%d" % number) for number in range(count)]))
            draft.replace(path)
    shards = str(folder / "states-{0..1}.tar")
    return DataLoader(TarSamples(shards, BytesRecipe(), rank=rank, num_ranks=num_ranks), batch_size=2, collate_fn=list)


def state_seeds() -> dict[str, Make]:
    """Saved states as JSON: of rows, of rows resumed with another batch size, of a stream, of the ranks of a stream."""
    return {
        "rows": lambda folder: _state_of(row_loader(), 2),
        "resumed_rows": _resumed_rows,
        "stream": lambda folder: _state_of(stream_loader(folder), 1),
        "ranks": _states_of_ranks,
    }


def _state_of(loader: DataLoader, num_batches: int) -> bytes:
    return json.dumps({"state": _read(loader, num_batches)}).encode()


def _read(loader: DataLoader, num_batches: int) -> Any:
    batches = iter(loader)
    for _ in range(num_batches):
        next(batches)
    return loader.state_dict()


def _resumed_rows(folder: Path) -> bytes:
    loader = row_loader(3)
    loader.load_state_dict(_read(row_loader(), 2))
    return _state_of(loader, 1)


def _states_of_ranks(folder: Path) -> bytes:
    states = [_read(stream_loader(folder, rank, 2), 1) for rank in range(2)]
    return json.dumps({"state": states}).encode()
