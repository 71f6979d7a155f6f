"""Read the text in a video, with positions and times, and find words in it.

    python examples/read_video.py                         a video that it makes, with four slides
    python examples/read_video.py talk.mp4 --find "low water"

The pictures show the distinct slides, and a timeline of all texts. Captions are saved as subtitles, and slides as a
searchable PDF file.

Needs OCR (``pip install "mediatensor[ocr]"``).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

import sample_media
from mediatensor.encoders import PngEncoder
from mediatensor.ocr import video_text_predictor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video", nargs="?", type=Path)
    parser.add_argument("--find", default="water", metavar="WORDS")
    parser.add_argument("--output", type=Path, default=Path("example-pictures/read_video.png"), metavar="PNG")
    args = parser.parse_args()
    reading = video_text_predictor(pretrained=True)(args.video or sample_media.talk(args.output.parent))
    for track in reading.tracks:
        mark = "*" if args.find.casefold() in track.text.casefold() else " "
        text = track.text.replace("\n", " / ")
        print(f"{track.start_seconds:7.2f} to {track.end_seconds:7.2f} s {mark} {track.kind}: {text}")
    files = [args.output.with_suffix(".srt")]
    reading.captions.save(files[0])
    picture = reading.synthesize_timeline(width=960)
    if reading.slides:
        files.append(args.output.with_suffix(".pdf"))
        reading.save(files[1])
        slides = reading.synthesize_slides()
        picture = np.concatenate([reading.synthesize_timeline(width=slides.shape[1]), slides])
    PngEncoder(torch.from_numpy(picture).permute(2, 0, 1)).to_file(args.output)
    print("files:", *files)
    print(f"picture: {args.output}")


if __name__ == "__main__":
    main()
