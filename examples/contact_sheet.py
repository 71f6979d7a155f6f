"""Frames spread over a video, in one picture, each with its time.

    python examples/contact_sheet.py                      of a video that it makes
    python examples/contact_sheet.py film.mkv --frames 20 --columns 5

(`mediatensor sheet film.mkv` does this as well.)
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from PIL import Image, ImageDraw

import sample_media
from mediatensor.decoders import VideoDecoder
from mediatensor.transforms import Resize


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video", nargs="?", type=Path)
    parser.add_argument("--frames", type=int, default=12)
    parser.add_argument("--columns", type=int, default=4)
    parser.add_argument("--output", type=Path, default=Path("example-pictures/contact_sheet.png"), metavar="PNG")
    args = parser.parse_args()
    contact_sheet(args.video or sample_media.talk(args.output.parent), args.frames, args.columns).save(args.output)
    print(f"picture: {args.output}")


def contact_sheet(video: Path, num_frames: int, num_columns: int, width: int = 160) -> Image.Image:
    """The middles of `num_frames` equal parts of a video, from left to right and from top to bottom."""
    with VideoDecoder(video) as decoder:
        begin, end = decoder.metadata.begin_stream_seconds, decoder.metadata.end_stream_seconds
        height = round(width * decoder.metadata.height / decoder.metadata.width)
    times = begin + (torch.arange(num_frames) + 0.5) / num_frames * (end - begin)
    # Resized as they are decoded: no frame of the full size is kept.
    with VideoDecoder(video, transforms=[Resize((height, width))], dimension_order="NHWC") as decoder:
        batch = decoder.get_frames_played_at(times)

    num_rows = -(-num_frames // num_columns)
    sheet = Image.new("RGB", (num_columns * (width + 4) + 4, num_rows * (height + 4) + 4), "white")
    for number, frame in enumerate(batch):
        row, column = divmod(number, num_columns)
        picture = Image.fromarray(frame.data.numpy())
        ImageDraw.Draw(picture).text((4, 2), f"{frame.pts_seconds.item():.2f} s", fill="white")
        sheet.paste(picture, (4 + column * (width + 4), 4 + row * (height + 4)))
    return sheet


if __name__ == "__main__":
    main()
