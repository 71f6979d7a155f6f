"""Clips of many videos, decoded in Daft.

    python examples/daft_clips.py                    generates videos, and one that is broken
    python examples/daft_clips.py videos.parquet     a folder, a manifest, tar shards, a Parquet file

Needs Daft (``pip install daft``). Daft also runs on Ray clusters: see ``daft.set_runner_ray``.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import daft
import numpy as np

from mediatensor.distributed import ClipDecoder, clip_rows
from mediatensor.transforms import Resize

NUM_FRAMES, SIZE = 8, 112
FRAMES = daft.DataType.tensor(daft.DataType.uint8(), (NUM_FRAMES, 3, SIZE, SIZE))
CLIP = daft.DataType.struct(
    {"frames": FRAMES, "start_seconds": daft.DataType.float64(), "error": daft.DataType.string()}
)


@daft.cls
class Clips:
    """Decodes batches of rows, and keeps files open in between."""

    def __init__(self) -> None:
        self.decode = ClipDecoder(
            num_frames_per_clip=NUM_FRAMES,
            clip_shape=(NUM_FRAMES, 3, SIZE, SIZE),
            decoder_options={"transforms": [Resize((SIZE, SIZE))]},
        )

    @daft.method.batch(return_dtype=CLIP, batch_size=16)
    def __call__(self, rows: daft.Series) -> list[dict[str, Any]]:
        batch = rows.to_pylist()
        # The columns of clip_rows, which name a file or a part of one.
        clips = self.decode({name: [row[name] for row in batch] for name in batch[0]})
        return [
            {"frames": frames, "start_seconds": float(times[0]), "error": error}
            for frames, times, error in zip(clips["frames"], clips["pts_seconds"], clips["error"], strict=True)
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="?", help="as every machine of the cluster finds it")
    parser.add_argument("--clips-per-video", type=int, default=2, metavar="N")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = clip_rows(args.source or generated_videos(Path(folder)), args.clips_per_video)
        print_table(decoded(rows).to_pylist())


def decoded(rows: list[dict[str, Any]]) -> daft.DataFrame:
    """One row a clip: where it begins, how bright it is, and why it could not be decoded, if it could not."""
    table = daft.from_pylist(rows)
    table = table.with_column("clip", Clips()(daft.functions.to_struct(*[daft.col(name) for name in rows[0]])))
    for name in ("frames", "start_seconds", "error"):
        table = table.with_column(name, daft.col("clip").get(name))
    return table.exclude("clip").with_column("brightness", mean_brightness(daft.col("frames"))).exclude("frames")


@daft.func(return_dtype=daft.DataType.float64())
def mean_brightness(frames: Any) -> float:  # in place of the model
    return float(np.asarray(frames).mean())


def print_table(rows: list[dict[str, Any]]) -> None:
    print(f"{'video':32} {'clip':>5} {'from':>8} {'bright':>7}  error")
    for row in sorted(rows, key=lambda row: row["row"]):
        name = "/".join(Path(row.get("source_name") or row["path"]).parts[-2:])
        if row["error"]:
            print(f"{name:32.32} {row['row']:5} {'-':>8} {'-':>7}  {row['error'].partition(':')[0]}")
        else:
            print(f"{name:32.32} {row['row']:5} {row['start_seconds']:7.2f}s {row['brightness']:7.2f}")
    num_errors = sum(bool(row["error"]) for row in rows)
    print(f"{len(rows) - num_errors} clips decoded, {num_errors} rows with an error")


def generated_videos(folder: Path) -> list[str]:
    """Four videos of moving shapes, and one that was cut short."""
    from moving_shapes import write_videos

    videos = sorted(str(path) for path in write_videos(folder, 1, seed=0).rglob("*.mp4"))
    broken = folder / "broken.mp4"
    broken.write_bytes(Path(videos[0]).read_bytes()[:500])
    return [*videos, str(broken)]


if __name__ == "__main__":
    main()
