"""Clips of many videos, decoded by a pool of Ray actors.

    python examples/ray_clips.py                        generates videos, and one that is broken
    python examples/ray_clips.py videos/*.mp4 --actors 4 --cpus-per-actor 2

Needs Ray (``pip install "mediatensor[ray]"``). Without a cluster in ``RAY_ADDRESS``, Ray starts one on this machine.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import ray

from mediatensor.distributed import ClipDecoder, clip_rows
from mediatensor.transforms import Resize

NUM_FRAMES, SIZE = 8, 112


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="*", help="files, as every machine of the cluster finds them")
    parser.add_argument("--clips-per-video", type=int, default=2, metavar="N")
    parser.add_argument("--actors", type=int, default=1, metavar="N")
    parser.add_argument("--cpus-per-actor", type=float, default=1, metavar="N")
    args = parser.parse_args()
    ray.init(include_dashboard=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        with tempfile.TemporaryDirectory() as folder:
            videos = args.videos or generated_videos(Path(folder))
            print_table(decoded(videos, args.clips_per_video, args.actors, args.cpus_per_actor).take_all())
    finally:
        ray.shutdown()


def decoded(videos: list[str], clips_per_video: int, num_actors: int, cpus_per_actor: float) -> ray.data.Dataset:
    """One row a clip: how much moves in it, and why it could not be decoded, if it could not."""
    return (
        ray.data.from_items(clip_rows(videos, clips_per_video))
        .map_batches(
            ClipDecoder,
            fn_constructor_kwargs={
                "num_frames_per_clip": NUM_FRAMES,
                "clip_shape": (NUM_FRAMES, 3, SIZE, SIZE),
                "decoder_options": {"transforms": [Resize((SIZE, SIZE))], "on_error": "nearest"},
            },
            batch_size=16,
            num_cpus=cpus_per_actor,
            compute=ray.data.ActorPoolStrategy(size=num_actors),
        )
        .map_batches(measure_motion)  # in place of the model
    )


def measure_motion(batch: dict[str, Any]) -> dict[str, Any]:
    """The mean change of a pixel from frame to frame, out of 255, in place of the frames."""
    motion = np.abs(np.diff(batch.pop("frames").astype(np.float32), axis=1)).mean(axis=(1, 2, 3, 4))
    return {**batch, "motion": motion}


def print_table(rows: list[dict[str, Any]]) -> None:
    print(f"{'video':24} {'clip':>5} {'from':>8} {'motion':>7} {'replaced':>8}  error")
    for row in sorted(rows, key=itemgetter("row")):  # they come in any order
        name = Path(row["source"]).name
        if row["error"]:
            print(f"{name:24.24} {row['row']:5} {'-':>8} {'-':>7} {'-':>8}  {row['error'].partition(':')[0]}")
        else:
            start, motion = row["pts_seconds"][0], row["motion"]
            print(f"{name:24.24} {row['row']:5} {start:7.2f}s {motion:7.2f} {row['n_replaced']:8}")
    num_errors = sum(bool(row["error"]) for row in rows)
    print(f"{len(rows) - num_errors} clips decoded, {num_errors} rows with an error")


def generated_videos(folder: Path) -> list[str]:
    """Four videos of moving shapes, and one that was cut short."""
    from moving_shapes import write_videos

    videos = sorted(str(path) for path in write_videos(folder, 1, seed=0).rglob("*.mp4"))
    renamed = [str(Path(path).rename(folder / f"{Path(path).parent.name}.mp4")) for path in videos]
    broken = folder / "broken.mp4"
    broken.write_bytes(Path(renamed[0]).read_bytes()[:500])
    return [*renamed, str(broken)]


if __name__ == "__main__":
    main()
