"""Encode with mediatensor, ``ffmpeg`` and torchcodec at the same settings: ``python -m benchmarks.media.encoding``.

All get the same tensors and write a file. The ``ffmpeg`` program reads raw frames or samples from a pipe. PyAV decodes
the files, to compare their quality and size.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch

from mediatensor.encoders import AudioEncoder, VideoEncoder

from ..shared.machine import machine_stamp
from ..shared.options import add_output, make_parser
from ..shared.processes import cpu_seconds
from ..shared.reports import fact_list, markdown_table, say, write_report
from ..shared.results import quartiles, timing_row
from .chart import draw_chart

FRAME_RATE = 30
SAMPLE_RATE = 48_000
PROGRAM = "ffmpeg program, raw pipe"


@dataclass(frozen=True)
class Case:
    """Data to encode: frames (N, 3, H, W), or samples (C, N)."""

    name: str
    extension: str
    data: torch.Tensor
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def is_video(self) -> bool:
        return self.data.ndim == 4


@dataclass(frozen=True)
class Result:
    """One encoder on one case; times in seconds, CPU of all threads and of the program."""

    case: str
    encoder: str
    wall_seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    psnr_decibels: float
    num_bytes: int


def pan(num_frames: int, height: int, width: int) -> torch.Tensor:
    """A camera that moves over clouds, with grain: (N, 3, H, W) uint8, with the channels last in memory."""
    generator = torch.Generator().manual_seed(0)
    clouds = torch.zeros(1, 3, height + 128, width + 128)
    for cells in (4, 16, 64):
        noise = torch.rand(1, 3, cells, cells, generator=generator)
        clouds += torch.nn.functional.interpolate(noise, clouds.shape[2:], mode="bicubic") * (4 / cells) ** 0.5
    clouds = (clouds / clouds.max() * 230).clamp(8, 247).byte()[0]
    out = torch.empty(num_frames, height, width, 3, dtype=torch.uint8)
    for number, frame in enumerate(out):
        top, left = number * 2 % 128, number * 3 % 128
        window = clouds[:, top : top + height, left : left + width].permute(1, 2, 0)
        frame.copy_(window + torch.randint(0, 6, window.shape, generator=generator, dtype=torch.uint8))
    return out.permute(0, 3, 1, 2)


def tones(seconds: float) -> torch.Tensor:
    """Chords with noise, (2, N)."""
    times = torch.arange(round(seconds * SAMPLE_RATE), dtype=torch.float64) / SAMPLE_RATE
    chord = sum(torch.sin(2 * torch.pi * pitch * times * (1 + 0.1 * torch.sin(times))) for pitch in (220, 277, 330))
    noise = torch.rand(2, len(times), generator=torch.Generator().manual_seed(0)) * 0.05
    return (0.2 * chord).float() + noise


def cases(*, is_quick: bool) -> list[Case]:
    size = (120, 160) if is_quick else (720, 1280)
    num_frames = 10 if is_quick else 60
    large = pan(num_frames, *size)
    x264 = {"codec": "libx264", "crf": 23, "pixel_format": "yuv420p"}
    sound = tones(1 if is_quick else 300)
    name = f"{num_frames} frames of {size[1]}x{size[0]}"
    return [
        Case(f"{name}, x264 medium", "mp4", large, {**x264, "preset": "medium"}),
        Case(f"{name}, x264 ultrafast", "mp4", large, {**x264, "preset": "ultrafast"}),
        Case(f"{name}, x264 ultrafast, planar", "mp4", large.contiguous(), {**x264, "preset": "ultrafast"}),
        Case(f"{name}, FFV1 RGB", "mkv", large, {"codec": "ffv1", "pixel_format": "bgr0"}),
        *(Case(f"{sound.shape[1] / SAMPLE_RATE:g} s stereo, {kind}", kind, sound) for kind in ("wav", "flac", "mp3")),
        Case(f"{sound.shape[1] / SAMPLE_RATE:g} s stereo, AAC", "mp4", sound),
    ]


def by_mediatensor(case: Case, path: Path) -> None:
    if case.is_video:
        # The other encoders convert to BT.601 at every size, and other colours change the file size.
        same = {"colorspace": "smpte170m"} if case.options["pixel_format"] == "yuv420p" else {}
        VideoEncoder(case.data, frame_rate=FRAME_RATE).to_file(path, **case.options, extra_options=same)
    else:
        AudioEncoder(case.data, sample_rate=SAMPLE_RATE).to_file(path)


def by_program(case: Case, path: Path) -> None:
    """Return raw frames or samples with channels last, as the program reads them."""
    command = ["ffmpeg", "-v", "error", "-nostdin", "-y"]
    if case.is_video:
        height, width = case.data.shape[2:]
        command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(FRAME_RATE)]
        command += ["-i", "pipe:0"]
        for name, value in case.options.items():
            command += [{"codec": "-c:v", "pixel_format": "-pix_fmt"}.get(name, f"-{name}"), str(value)]
        pieces = iter(case.data)
    else:
        command += ["-f", "f32le", "-ar", str(SAMPLE_RATE), "-ac", str(len(case.data)), "-i", "pipe:0"]
        pieces = iter(case.data.split(SAMPLE_RATE, 1))
    with subprocess.Popen([*command, str(path)], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for piece in pieces:
            order = (1, 2, 0) if case.is_video else (1, 0)
            process.stdin.write(np.ascontiguousarray(piece.permute(*order).numpy()))
        process.stdin.close()
        if process.wait():
            raise RuntimeError(f"the program failed: {command}")


def by_torchcodec(encoders: Any) -> Callable[[Case, Path], None]:
    def encode(case: Case, path: Path) -> None:
        if case.is_video:
            encoders.VideoEncoder(case.data, frame_rate=FRAME_RATE).to_file(str(path), **case.options)
        else:
            encoders.AudioEncoder(case.data, sample_rate=SAMPLE_RATE).to_file(str(path))

    return encode


def ways() -> dict[str, Callable[[Case, Path], None]]:
    """Return the available encoders by name."""
    found: dict[str, Callable[[Case, Path], None]] = {"mediatensor": by_mediatensor}
    if shutil.which("ffmpeg"):
        found[PROGRAM] = by_program
    with contextlib.suppress(ImportError, RuntimeError, OSError):  # not there, or its FFmpeg is not
        import torchcodec
        from torchcodec import encoders

        found[f"torchcodec {torchcodec.__version__}"] = by_torchcodec(encoders)
    return found


def decoded(path: Path, *, is_video: bool) -> np.ndarray[Any, Any]:
    """Decode a file to frames (N, H, W, 3) or samples (C, N)."""
    with av.open(str(path)) as container:
        if is_video:
            return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
        resampler = av.AudioResampler("fltp")
        frames = [out for frame in container.decode(audio=0) for out in resampler.resample(frame)]
        return np.concatenate([frame.to_ndarray() for frame in [*frames, *resampler.resample(None)]], 1)


def psnr(case: Case, path: Path) -> float:
    """Return the PSNR of the file against the input, in dB; infinite if equal."""
    found = decoded(path, is_video=case.is_video)
    if case.is_video:
        squares = (
            float(np.mean((one.astype(np.float32) - other.permute(1, 2, 0).numpy()) ** 2))
            for one, other in zip(found, case.data, strict=True)
        )
        error, peak = float(np.mean(list(squares))), 255.0
    else:
        length = min(found.shape[1], case.data.shape[1])
        error, peak = float(np.mean((found[:, :length] - case.data[:, :length].numpy()) ** 2)), 1.0
    return float("inf") if error == 0 else float(10 * np.log10(peak**2 / error))


def measure(case: Case, repeats: int, folder: Path) -> list[Result]:
    """Run and check a warm-up of each encoder; then they take turns, in another order each round."""
    paths, quality, times = {}, {}, {}
    encoders = ways()
    for name, encode in list(encoders.items()):
        paths[name] = folder / f"{len(paths)}.{case.extension}"
        try:
            encode(case, paths[name])
        except Exception as error:
            print(f"{name} cannot do {case.name}: {error}", file=sys.stderr)
            del encoders[name]
            continue
        quality[name] = psnr(case, paths[name]), paths[name].stat().st_size
        times[name] = ([], []) if repeats else ([0.0], [0.0])
    order = random.Random(case.name)
    for _ in range(repeats):
        for name in order.sample(list(encoders), len(encoders)):
            wall, cpu = time.perf_counter(), cpu_seconds()
            encoders[name](case, paths[name])
            times[name][0].append(time.perf_counter() - wall)
            times[name][1].append(cpu_seconds() - cpu)
    return [Result(case.name, name, *map(tuple, times[name]), *quality[name]) for name in encoders]


def table(results: list[Result]) -> str:
    lines = []
    for result in results:
        first, median, third = (1e3 * value for value in quartiles(list(result.wall_seconds)))
        cpu = 1e3 * quartiles(list(result.cpu_seconds))[1]
        line = [result.case, result.encoder, f"{median:.0f}", f"{first:.0f} to {third:.0f}", f"{cpu:.0f}"]
        lines.append([*line, f"{result.psnr_decibels:.2f}", f"{result.num_bytes / 1e3:.0f}"])
    return markdown_table(["case", "encoder", "ms", "quartiles", "CPU ms", "PSNR, dB", "kB"], lines, 2)


def main() -> None:
    parser = make_parser("benchmarks.media.encoding", __doc__)
    parser.add_argument("--quick", action="store_true", help="smoke test: tiny data and one run")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each encoder (default 5)")
    add_output(parser)
    arguments = parser.parse_args()
    stamp, results = machine_stamp(), []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(is_quick=arguments.quick):
            results += measure(case, 1 if arguments.quick else arguments.repeats, Path(folder))
            say(f"{case.name}: done")
    document = {"machine": stamp, "rows": [asdict(result) for result in results]}
    rows = []
    for result in results:
        clip, _, scenario = result.case.partition(", ")
        rows.append(timing_row("encoding", clip, scenario, result.encoder, result.wall_seconds, result.cpu_seconds))
    text = f"{fact_list(stamp)}\n\n{table(results)}\n"
    write_report(arguments.output, "encoding", document, text, partial(draw_chart, "Encoding", rows))


if __name__ == "__main__":
    main()
