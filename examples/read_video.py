"""Read the text in a video, a frame a second; say when it changes, and when the words are there that you look for.

    python examples/read_video.py                         a video that it makes
    python examples/read_video.py talk.mp4 --find "low water" --every 2

The picture has the first frame of each text; of those in which the words were found, the boxes are drawn.

Needs what reads text (``pip install "mediatensor[ocr]"``).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import sample_media
from mediatensor.decoders import VideoDecoder
from mediatensor.encoders import PngEncoder
from mediatensor.ocr import ocr_predictor
from mediatensor.ocr.io import Page
from mediatensor.ocr.utils import overlay


@dataclass
class Passage:
    """A text, from when on it is to be seen, and the first frame that has it."""

    seconds: float
    text: str
    page: Page
    frame: Tensor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video", nargs="?", type=Path)
    parser.add_argument("--find", default="water", metavar="WORDS")
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--output", type=Path, default=Path("example-pictures/read_video.png"), metavar="PNG")
    args = parser.parse_args()
    passages = list(read(args.video or sample_media.talk(args.output.parent), args.every))
    pictures = []
    for passage in passages:
        is_found = args.find.casefold() in passage.text.casefold()
        print(f"{passage.seconds:7.2f} s {'*' if is_found else ' '} {passage.text}")
        pictures.append(with_boxes(passage) if is_found else passage.frame)
    # Two beside each other, and a black one where there are not two.
    pictures += [torch.zeros_like(pictures[0])] * (len(pictures) % 2)
    rows = [torch.cat(pictures[first : first + 2], dim=2) for first in range(0, len(pictures), 2)]
    PngEncoder(torch.cat(rows, dim=1)).to_file(args.output)
    print(f"picture: {args.output}")


def with_boxes(passage: Passage) -> Tensor:
    return torch.from_numpy(overlay(passage.page, text="none", line_width=2)).permute(2, 0, 1)


def read(video: Path, every_seconds: float, batch_size: int = 4) -> Iterator[Passage]:
    """The texts of a video, each when it is first seen."""
    predictor = ocr_predictor(pretrained=True)
    text = None
    with VideoDecoder(video) as decoder:
        begin, end = decoder.metadata.begin_stream_seconds, decoder.metadata.end_stream_seconds
        # A few frames at a time: a long video does not fit into memory.
        for times in torch.arange(begin, end, every_seconds, dtype=torch.float64).split(batch_size):
            frames = decoder.get_frames_played_at(times)
            for frame, page in zip(frames, predictor(frames).pages, strict=True):
                lines = [" ".join(word.value for word in line.words) for block in page.blocks for line in block.lines]
                if lines != text:
                    text = lines
                    yield Passage(frame.pts_seconds.item(), " / ".join(lines), page, frame.data)


if __name__ == "__main__":
    main()
