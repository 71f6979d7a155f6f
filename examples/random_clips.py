"""Clips at random times of a video, cropped at random as for training: a clip a row.

python examples/random_clips.py                       of a video that it makes
python examples/random_clips.py film.mkv --clips 6 --seed 1
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import nn

import sample_media
from mediatensor.decoders import VideoDecoder
from mediatensor.encoders import PngEncoder
from mediatensor.frames import FrameBatch
from mediatensor.samplers import clips_at_random_timestamps
from mediatensor.transforms import Pad, RandomResizedCrop


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video", nargs="?", type=Path)
    parser.add_argument("--clips", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0, help="torch's generator is the only source of chance")
    parser.add_argument("--output", type=Path, default=Path("example-pictures/random_clips.png"), metavar="PNG")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    clips = random_clips(args.video or sample_media.talk(args.output.parent), args.clips)
    for clip in clips:
        print(", ".join(f"{seconds:.2f}" for seconds in clip.pts_seconds.tolist()), "s")
    # (clips, frames, 3, rows, columns): clips in rows, frames in columns.
    picture = clips.data.permute(2, 0, 3, 1, 4).flatten(1, 2).flatten(2, 3)
    PngEncoder(picture).to_file(args.output)
    print(f"picture: {args.output}")


def random_clips(video: Path, num_clips: int) -> FrameBatch:
    """Clips of 6 frames, a fifth of a second apart, uint8 (num_clips, 6, 3, 116, 116)."""
    with VideoDecoder(video) as decoder:
        clips = clips_at_random_timestamps(
            decoder, num_clips=num_clips, num_frames_per_clip=6, seconds_between_frames=0.2
        )
    # One draw for all frames of a clip, another for each clip.
    augment = nn.Sequential(RandomResizedCrop((112, 112)), Pad(2, fill=255))
    augmented = [augment(clip) for clip in clips]
    return FrameBatch(torch.stack([clip.data for clip in augmented]), clips.pts_seconds, clips.duration_seconds)


if __name__ == "__main__":
    main()
