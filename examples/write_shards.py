"""Cut a film into its scenes, write them to a tar shard, and read the shard as a dataset.

    python examples/write_shards.py                       a video that it makes
    python examples/write_shards.py film.mkv --output shards/film-{:04d}.tar

Frames are not encoded again where key frames allow.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import sample_media
from mediatensor.datasets import VideoClips, as_items, write_shards
from mediatensor.decoders import VideoDecoder
from mediatensor.samplers import find_scenes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video", nargs="?", type=Path)
    parser.add_argument("--output", default="example-shards/scenes-{:04d}.tar", metavar="PATTERN")
    args = parser.parse_args()
    for shard in write_scenes(args.video or sample_media.talk(Path("example-pictures")), args.output):
        # Each sample is a separate file, so any sampler can take clips of it.
        for sample in VideoClips(shard, num_frames_per_clip=8):
            start, how = sample.extra["clip_pts_seconds"], "copied" if sample.extra["clip_is_copied"] else "encoded"
            print(f"{sample.source}: scene {sample.label}, from {start:.2f} s, {how}, {len(sample.frames)} frames")


def write_scenes(video: Path, pattern: str) -> list[str]:
    """Write each scene of a video as a sample, with its number as the label, and return the paths of the shards."""
    with VideoDecoder(video) as decoder:
        scenes = find_scenes(decoder)
    rows = [
        {"path": str(video), "start": scene.begin_seconds, "end": scene.end_seconds, "label": number}
        for number, scene in enumerate(scenes)
    ]
    return write_shards(as_items(rows, kind="video"), pattern, resume=True)


if __name__ == "__main__":
    main()
