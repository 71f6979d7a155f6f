"""Rows of clips in which pictures, sound and captions are of one time: flashes, beeps, and captions that name them.

    python examples/clips_in_step.py                                a generated film
    python examples/clips_in_step.py talk.mp4 --captions sidecar    with talk.srt or talk.vtt

Needs matplotlib (``pip install "mediatensor[plot]"``).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import sample_media
from mediatensor.datasets import Sample, VideoAudioClips


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video", nargs="?", type=Path)
    parser.add_argument("--captions", default="sidecar", choices=("any", "column", "sidecar", "subtitles"))
    parser.add_argument("--seconds", type=float, default=1.2, help="of the clip")
    parser.add_argument("--output", type=Path, default=Path("example-pictures/clips_in_step.png"), metavar="PNG")
    args = parser.parse_args()
    args.output.parent.mkdir(parents=True, exist_ok=True)
    rows = VideoAudioClips(
        [args.video or sample_media.flashes(args.output.parent)],
        seconds_per_clip=args.seconds,
        sample_rate=16_000,
        num_channels=1,
        captions=args.captions,
        missing="pad",  # a film without sound gives silence, one without captions none
        seed=20,
    )
    sample = rows[0]
    for caption in sample.captions:
        print(
            f"{caption.start_seconds:.3f} to {caption.end_seconds:.3f} s, "
            f"frames {caption.first_frame} to {caption.last_frame}, "
            f"samples {caption.start_sample} to {caption.stop_sample}: {' / '.join(caption.text.splitlines())}"
        )
    draw(sample, args.output)
    print(f"picture: {args.output}")


def draw(sample: Sample, output: Path) -> None:
    """Draw frames, sound and captions of a row above each other, on one axis of time."""
    frames, audio = sample.frames, sample.audio
    begin, end = audio.pts_seconds, audio.pts_seconds + audio.duration_seconds
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    pictures, wave, captions = figure.subplots(3, sharex=True, height_ratios=(2.2, 2, 0.9))

    # A frame is drawn at its time, as wide as its duration.
    for picture, start, length in zip(frames.data, frames.pts_seconds, frames.duration_seconds, strict=True):
        extent = (float(start), float(start + length), 0, 1)
        pictures.imshow(picture.permute(1, 2, 0).numpy(), extent=extent, aspect="auto")
        pictures.axvline(float(start), color="grey", linewidth=0.5)
    pictures.set(ylabel=f"{len(frames)} frames", ylim=(0, 1), yticks=[])

    seconds = begin + torch.arange(audio.data.shape[1]) / audio.sample_rate
    wave.plot(seconds.numpy(), audio.data[0].numpy(), linewidth=0.5)
    wave.set(ylabel=f"{audio.data.shape[1]} samples", ylim=(-1, 1))

    for caption in sample.captions:
        start, length = caption.start_seconds, caption.end_seconds - caption.start_seconds
        captions.add_patch(Rectangle((start, 0.1), length, 0.8, color="gold"))
        captions.text(start + length / 2, 0.5, caption.text, ha="center", va="center", fontsize=9, clip_on=True)
        for axes in (pictures, wave, captions):
            for place in (start, start + length):
                axes.axvline(place, color="tab:red", linewidth=0.8, linestyle=":")
    captions.set(ylabel="captions", xlabel="seconds", ylim=(0, 1), yticks=[], xlim=(begin, end))
    figure.savefig(output, dpi=100)


if __name__ == "__main__":
    main()
