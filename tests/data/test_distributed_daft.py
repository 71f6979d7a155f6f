"""`mediatensor.distributed` in Daft: rows of a shard and of a table, in its own process and types."""

from __future__ import annotations

import tarfile
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mediatensor.datasets import VideoClips
from mediatensor.distributed import ClipDecoder, clip_rows
from training_set import SIZE, make_videos

daft = pytest.importorskip("daft", reason="needs Daft: pip install daft")

CLIP_SHAPE = (4, 3, *SIZE)


def test_rows_of_daft_match_a_dataset(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "shard.tar", "w") as shard:
        for path in make_videos(tmp_path / "videos", 3):
            shard.add(path, path.name)
    (tmp_path / "broken").write_bytes(b"nothing")
    with tarfile.open(tmp_path / "shard.tar", "a") as shard:
        shard.add(tmp_path / "broken", "broken.mp4")
    clip = daft.DataType.struct(
        {"frames": daft.DataType.tensor(daft.DataType.uint8(), CLIP_SHAPE), "error": daft.DataType.string()}
    )

    @daft.cls
    class Clips:
        def __init__(self) -> None:
            self.decode = ClipDecoder(num_frames_per_clip=CLIP_SHAPE[0], clip_shape=CLIP_SHAPE, seed=5)

        @daft.method.batch(return_dtype=clip, batch_size=3)
        def __call__(self, *columns: Any) -> list[dict[str, Any]]:
            clips = self.decode({name: column.to_pylist() for name, column in zip(names, columns, strict=True)})
            return [
                {"frames": frames, "error": error}
                for frames, error in zip(clips["frames"], clips["error"], strict=True)
            ]

    rows = clip_rows(tmp_path / "shard.tar", 4)
    names = list(rows[0])
    table = daft.from_pylist(rows)
    found = table.with_column("clip", Clips()(*[table[name] for name in names])).to_pylist()
    dataset = VideoClips(tmp_path / "shard.tar", num_frames_per_clip=4, rows_per_file=4, seed=5)
    assert len(found) == len(dataset) == 16
    for row in sorted(found, key=itemgetter("row")):
        if row["row"] < 12:
            expected = dataset.spec(row["row"]).load().frames
            assert expected is not None
            assert np.array_equal(row["clip"]["frames"], expected.data)
        assert bool(row["clip"]["error"]) == (row["row"] >= 12)
