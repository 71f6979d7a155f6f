"""The sound of a file as speech models get it: 16 kHz, mono, in pieces with their times, as log-mel spectrograms.

    python examples/see_sound.py                          of a video that it makes
    python examples/see_sound.py interview.mp3 --seconds 30

Needs matplotlib (``pip install "mediatensor[plot]"``).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from matplotlib.figure import Figure

import sample_media
from mediatensor.decoders import AudioDecoder
from mediatensor.transforms import LogMelSpectrogram


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sound", nargs="?", type=Path)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each piece")
    parser.add_argument("--output", type=Path, default=Path("example-pictures/see_sound.png"), metavar="PNG")
    args = parser.parse_args()
    draw(args.sound or sample_media.talk(args.output.parent), args.seconds, args.output)
    print(f"picture: {args.output}")


def draw(sound: Path, seconds: float, output: Path) -> None:
    to_mels = LogMelSpectrogram(num_mels=80)
    times, waves, mels = [], [], []
    with AudioDecoder(sound) as decoder:
        # Never more than a piece in memory, however long the file is.
        for chunk in decoder.chunks(seconds=seconds):
            data, rate = chunk.data, chunk.sample_rate
            print(f"{chunk.pts_seconds:6.2f} s: {data.shape[1]} samples, {data.square().mean().sqrt():.3f} loud")
            times.append(chunk.pts_seconds + torch.arange(data.shape[1]) / rate)
            waves.append(data[0])
            mels.append(to_mels(chunk)[0])

    figure = Figure(figsize=(7, 4), layout="constrained")
    wave, spectrogram = figure.subplots(2, sharex=True)
    wave.plot(torch.cat(times).numpy(), torch.cat(waves).numpy(), linewidth=0.3)
    wave.set(ylabel="sound", ylim=(-1, 1))
    end = float(times[-1][-1])
    spectrogram.imshow(torch.cat(mels, dim=1).numpy(), aspect="auto", origin="lower", extent=(0, end, 0, 80))
    spectrogram.set(xlabel="seconds", ylabel="mel band")
    for start in times[1:]:
        spectrogram.axvline(float(start[0]), color="white", linestyle=":", linewidth=1)
    figure.savefig(output, dpi=80)


if __name__ == "__main__":
    main()
