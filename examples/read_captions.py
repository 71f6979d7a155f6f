"""Read the captions that are drawn into a video, and save them as subtitles.

    python examples/read_captions.py                      a film that it makes
    python examples/read_captions.py film.mp4 --output captions.png

The picture is the timeline of all text in the video; subtitles of the same name are saved next to it.

Needs OCR (``pip install "mediatensor[ocr]"``).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

import sample_media
from mediatensor.encoders import PngEncoder
from mediatensor.ocr import video_text_predictor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video", nargs="?", type=Path)
    parser.add_argument("--output", type=Path, default=Path("example-pictures/read_captions.png"), metavar="PNG")
    args = parser.parse_args()
    args.output.parent.mkdir(parents=True, exist_ok=True)
    reading = video_text_predictor(pretrained=True)(args.video or sample_media.film(args.output.parent))
    for track in reading.tracks:
        text = track.text.replace("\n", " / ")
        print(f"{track.start_seconds:7.2f} to {track.end_seconds:5.2f} s  {track.kind:7}  {text}")
    subtitles = args.output.with_suffix(".srt")
    reading.captions.save(subtitles)  # only captions: no logo, no clock
    print(f"subtitles: {subtitles}")
    picture = reading.synthesize_timeline(width=960)
    PngEncoder(torch.tensor(picture).permute(2, 0, 1)).to_file(args.output)
    print(f"picture: {args.output}")


if __name__ == "__main__":
    main()
