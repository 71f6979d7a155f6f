"""Decode JPEG and PNG from memory and compare libraries: ``python -m benchmarks.media.images [--quick]``.

The libraries take turns, run by run, so that disturbances affect all of them. Every result is compared with Pillow.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from PIL import Image

from mediatensor import get_num_threads
from mediatensor.decoders import decode_image, decode_png
from mediatensor.encoders import PngEncoder

from ..shared.machine import machine_stamp
from ..shared.options import add_output, check_counts, make_parser
from ..shared.reports import fact_list, markdown_table, write_report
from ..shared.results import quartiles
from .chart import draw_chart

# Decodes the bytes of files to images (C, H, W).
Decode = Callable[[Sequence[bytes]], list[torch.Tensor]]


@dataclass(frozen=True)
class Case:
    """Files, and decode functions by name; the first function is the reference for the pixels."""

    clip: str
    scenario: str
    files: list[bytes]
    ways: dict[str, Decode]


@dataclass(frozen=True)
class ImageRow:
    """One library on the files of one case.

    Attributes:
        clip, scenario, library: Which.
        num_images: Images that a run decodes.
        wall_seconds: Of every timed run, in order.
        wall_median, wall_first_quartile, wall_third_quartile, cpu_median: In seconds; CPU of all threads.
        times_as_fast: The median of Pillow with numpy, divided by this one.
        identical: Images that were equal to the reference in every bit.
        largest_difference: Largest difference of the other images, in levels.
        is_contiguous: Whether channels lie one after the other in memory.
    """

    clip: str
    scenario: str
    library: str
    num_images: int
    wall_seconds: tuple[float, ...]
    wall_median: float
    wall_first_quartile: float
    wall_third_quartile: float
    cpu_median: float
    times_as_fast: float
    identical: int
    largest_difference: int
    is_contiguous: bool


def photo(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Return an image with the spectrum of a photograph: noise at every scale, stronger at coarse scales."""
    rng = np.random.default_rng(seed)
    total = np.full((height, width, 3), 128.0, np.float32)
    for step in (256, 128, 64, 32, 16, 8, 4, 2, 1):
        noise = rng.normal(0, 1, (height // step + 2, width // step + 2, 3)).clip(-3, 3)
        small = Image.fromarray(((noise + 3) * 42).astype(np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
        total += (np.asarray(small, np.float32) - 126) * (0.16 * step**0.4)
    return total.clip(0, 255).astype(np.uint8)


def encoded(pixels: np.ndarray, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


def one_by_one(decode: Callable[[bytes], torch.Tensor]) -> Decode:
    return lambda files: [decode(file) for file in files]


def by_pillow(file: bytes) -> torch.Tensor:
    with Image.open(io.BytesIO(file)) as image:
        return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)


def by_pillow_contiguous(file: bytes) -> torch.Tensor:
    return by_pillow(file).contiguous()


def in_a_pool(files: Sequence[bytes]) -> list[torch.Tensor]:
    with ThreadPoolExecutor(get_num_threads()) as pool:
        return list(pool.map(by_pillow, files))


def ways_of_others(depth: int = 8) -> dict[str, Decode]:
    """Return installed peers; they decode one file after the other."""
    found: dict[str, Decode] = {}
    with contextlib.suppress(ImportError):
        import cv2

        def by_opencv(file: bytes) -> torch.Tensor:
            pixels = cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR if depth == 8 else -1)
            return torch.from_numpy(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)).permute(2, 0, 1)

        found[f"OpenCV {cv2.__version__}"] = one_by_one(by_opencv)
    with contextlib.suppress(ImportError, RuntimeError, OSError):  # not there, too old, or its FFmpeg is not there
        from torchcodec.decoders import decode_image as by_torchcodec

        found[f"torchcodec {version('torchcodec')}"] = one_by_one(by_torchcodec)
    return found


def cases(is_quick: bool) -> list[Case]:
    """Return the cases to measure."""
    large = (3000, 4000) if not is_quick else (300, 400)
    num_small = 200 if not is_quick else 4
    pillow = {"Pillow, numpy": one_by_one(by_pillow)}
    contiguous = {"Pillow, numpy, contiguous": one_by_one(by_pillow_contiguous)}
    ours = {"mediatensor": one_by_one(decode_image)}
    single = {**pillow, **contiguous, **ours, **ways_of_others()}
    big = encoded(photo(*large), "JPEG", quality=88)
    small = [encoded(photo(375, 500, seed), "JPEG", quality=88) for seed in range(num_small)]
    listed = {**pillow, f"Pillow, {get_num_threads()} threads": in_a_pool, "mediatensor, list": decode_image}
    screen = photo(*((1080, 1920) if not is_quick else (108, 192)))
    wide = torch.from_numpy(screen.astype(np.uint16)).permute(2, 0, 1) * 257
    sixteen: dict[str, Decode] = {"mediatensor": one_by_one(partial(decode_png, output_dtype="auto"))}
    size = f"{large[1]}x{large[0]}"
    return [
        Case(f"JPEG {size}", "one", [big], single),
        Case("JPEG 500x375", f"{num_small}, one by one", small, single),
        Case("JPEG 500x375", f"{num_small}, as a list", small, listed),
        Case(f"PNG {screen.shape[1]}x{screen.shape[0]}", "one", [encoded(screen, "PNG")], single),
        Case(
            f"PNG {screen.shape[1]}x{screen.shape[0]}, 16 bits",
            "one",
            [bytes(PngEncoder(wide).to_tensor().numpy())],
            {**sixteen, **ways_of_others(16)},
        ),
    ]


def measure(case: Case, repeats: int) -> list[ImageRow]:
    """Measure each way and return its row; the first run is not counted."""
    results = {name: decode(case.files) for name, decode in case.ways.items()}
    reference = next(iter(results.values()))
    accuracy = {name: compared(found, reference) for name, found in results.items()}
    is_contiguous = {name: all(image.is_contiguous() for image in found) for name, found in results.items()}
    results.clear()
    wall: dict[str, list[float]] = {name: [] for name in case.ways}
    cpu: dict[str, list[float]] = {name: [] for name in case.ways}
    for _ in range(repeats):
        for name, decode in case.ways.items():
            wall_begin, cpu_begin = time.perf_counter(), time.process_time()
            decode(case.files)
            wall[name].append(time.perf_counter() - wall_begin)
            cpu[name].append(time.process_time() - cpu_begin)
    pillow = statistics.median(wall.get("Pillow, numpy", next(iter(wall.values()))))
    rows = []
    for name, seconds in wall.items():
        first, middle, third = quartiles(seconds)
        times = (tuple(seconds), middle, first, third, statistics.median(cpu[name]), pillow / middle)
        about = (*accuracy[name], is_contiguous[name])
        rows.append(ImageRow(case.clip, case.scenario, name, len(case.files), *times, *about))
    return rows


def compared(found: Sequence[torch.Tensor], reference: Sequence[torch.Tensor]) -> tuple[int, int]:
    """Return (identical images, largest difference)."""
    differences = [int((one.int() - other.int()).abs().max()) for one, other in zip(found, reference, strict=True)]
    return differences.count(0), max(differences)


def table(rows: Sequence[ImageRow]) -> str:
    head = ["files", "what", "library", "median ms", "quartiles ms", "CPU ms", "x Pillow", "identical", "contiguous"]
    lines = []
    for row in rows:
        off = f", off by up to {row.largest_difference}" if row.identical < row.num_images else ""
        quarter = f"{row.wall_first_quartile * 1e3:.1f}-{row.wall_third_quartile * 1e3:.1f}"
        line = [row.clip, row.scenario, row.library, f"{row.wall_median * 1e3:.1f}", quarter]
        line += [f"{row.cpu_median * 1e3:.1f}", f"{row.times_as_fast:.2f}"]
        lines.append([*line, f"{row.identical} of {row.num_images}{off}", "yes" if row.is_contiguous else "no"])
    return markdown_table(head, lines, 3)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, report."""
    parser = make_parser("benchmarks.media.images", __doc__)
    parser.add_argument("--quick", action="store_true", help="smoke test: tiny images and one run")
    parser.add_argument("--repeats", type=int, help="timed runs of each library (default: 15)")
    add_output(parser)
    options = parser.parse_args(arguments)
    check_counts(parser, options, "repeats")
    stamp = machine_stamp() | {name: version(name) for name in ("torch", "pillow", "numpy")}
    stamp["thread budget"] = str(get_num_threads())
    repeats = options.repeats or (1 if options.quick else 15)
    rows = [row for case in cases(options.quick) for row in measure(case, repeats)]
    text = f"{fact_list(stamp)}\n\n{table(rows)}\n"
    document = {"machine": stamp, "rows": [asdict(row) for row in rows]}
    write_report(options.output, "images", document, text, partial(draw_chart, "Decoding images", rows))


if __name__ == "__main__":
    main()
