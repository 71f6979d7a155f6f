"""Decode audio with mediatensor, torchcodec, soundfile and a PyAV loop: ``python -m benchmarks.media.audio``.

Measures a whole file of each format, 100 random seconds of an open file of one hour, and one of its last seconds with
opening included. Libraries take turns, in another order each round. Their samples are compared with a plain decode of
the whole file.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from mediatensor import get_num_threads

from ..shared.machine import machine_stamp, package_versions
from ..shared.options import add_folders, check_counts, make_parser
from ..shared.reports import fact_list, markdown_table, say, write_report
from ..shared.results import quartiles
from .chart import draw_chart
from .sound_ways import OURS, TORCHCODEC, Way, ways_to_get_all, ways_to_get_seconds
from .sounds import FORMATS, SoundClip, begin_seconds, linear_samples, make_sounds

WHOLE, RANDOM, FIRST = "whole file", "random seconds", "open and get a second near the end"
#: Required speed relative to torchcodec.
TARGETS = {WHOLE: 1.0, RANDOM: 3.0}

#: Samples with a lower SNR, in dB, are wrong. FFmpeg's AAC decoder generates new noise after a seek if the encoder
#: asks for it, which gives more than 20 dB. Audio that is one sample late gives less.
MIN_SNR = 20.0

NOTE = (
    "torchcodec decodes from the last range, or from the start of the file, to each range. It gets few of them, from "
    "every part of the file, in the same order as the other libraries. Times are per range."
)

#: Instead of the start of a range.
WHOLE_FILE = -1.0
#: A library that has taken this long in a scenario is not run again.
SECONDS_PER_WAY = 8.0


@dataclass(frozen=True)
class Effort:
    """Amount of work: lengths of the files in seconds, random ranges, timed runs of each library."""

    short_seconds: int = 600
    long_seconds: int = 3600
    num_ranges: int = 100
    repeats: int = 5


QUICK = Effort(short_seconds=3, long_seconds=8, num_ranges=3, repeats=1)


@dataclass(frozen=True)
class SoundRow:
    """One library in one scenario on one file; ``wall_...`` and ``cpu_...`` are for each item, not for the run.

    Attributes:
        clip, scenario, library: Which.
        num_items: Ranges, or files, that a run returns.
        wall_seconds, cpu_seconds: Of every timed run, in order, divided by the items; CPU of all threads.
        wall_median, wall_first_quartile, wall_third_quartile, cpu_median: In seconds.
        identical, compared: Items that were equal to the reference in every bit, and all; ``compared`` is 0 for ways
            that return no samples.
        samples_missing: Expected samples that were not returned; negative for surplus samples.
        largest_difference: Largest difference of a sample; full scale is 1.
        snr_decibels: SNR against the reference; ``None`` if all samples are identical or none were compared.
    """

    clip: str
    scenario: str
    library: str
    num_items: int
    wall_seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    wall_median: float
    wall_first_quartile: float
    wall_third_quartile: float
    cpu_median: float
    identical: int
    compared: int
    samples_missing: int
    largest_difference: float
    snr_decibels: float | None


@dataclass(frozen=True)
class SoundRatio:
    """Our speed relative to a rival; a target is not met with wrong samples."""

    clip: str
    scenario: str
    ours: str
    rival: str
    wall_ratio: float
    cpu_ratio: float
    at_least: float | None
    is_met: bool | None


def measure(
    clip: str, scenario: str, ways: dict[str, Way], references: Mapping[float, Tensor], repeats: int
) -> list[SoundRow]:
    """Measure each way and return its row; the first run is untimed, and its samples are compared.

    Args:
        clip: Name of the file in reports.
        scenario: Name of the work in reports.
        ways: Ways by library name.
        references: The right samples by the start of the range; for a whole file, by `WHOLE_FILE`.
        repeats: Timed runs of each, fewer if they take long.
    """
    accuracy, wall, cpu = {}, {}, {}
    for name, way in ways.items():
        accuracy[name] = compared(way.begin()(), [references[start] for start in way.starts or [WHOLE_FILE]])
        wall[name], cpu[name] = list[float](), list[float]()
    for number in range(repeats):
        # Random order: the memory left by one library makes the next one up to twice as slow.
        for name in random.Random(number).sample(list(ways), len(ways)):
            if sum(wall[name]) > SECONDS_PER_WAY:
                continue
            run = ways[name].begin()
            wall_begin, cpu_begin = time.perf_counter(), time.process_time()
            found = run()
            wall[name].append(time.perf_counter() - wall_begin)
            cpu[name].append(time.process_time() - cpu_begin)
            del found, run
    rows = []
    for name, way in ways.items():
        num_items = max(1, len(way.starts))
        each, cpu_each = ([value / num_items for value in values] for values in (wall[name], cpu[name]))
        first, middle, third = quartiles(each)
        times = (tuple(each), tuple(cpu_each), middle, first, third, statistics.median(cpu_each))
        rows.append(SoundRow(clip, scenario, name, num_items, *times, *accuracy[name]))
    return rows


def compared(found: Sequence[Tensor], expected: Sequence[Tensor]) -> tuple[int, int, int, float, float | None]:
    """Return (identical items, items, samples missing, largest difference, SNR in dB)."""
    if not found:
        return 0, 0, 0, 0.0, None
    identical = missing = 0
    largest = signal = noise = 0.0
    for one, other in zip(found, expected, strict=True):
        missing += other.shape[1] - one.shape[1]
        length = min(one.shape[1], other.shape[1])
        wrong = one[:, :length] - other[:, :length]
        identical += torch.equal(one, other)
        largest = max(largest, float(wrong.abs().max())) if length else largest
        signal += float(other[:, :length].double().square().sum())
        noise += float(wrong.double().square().sum())
    snr = 10 * math.log10(signal / noise) if noise and signal else None
    return identical, len(found), missing, largest, snr


def lengths(clip: SoundClip, effort: Effort) -> tuple[SoundClip, SoundClip]:
    """Return the short and the long file of a format."""
    return replace(clip, seconds=effort.short_seconds), replace(clip, seconds=effort.long_seconds)


def measure_format(clip: SoundClip, paths: dict[SoundClip, Path], effort: Effort) -> list[SoundRow]:
    """The three scenarios with one format."""
    short, long = lengths(clip, effort)
    (whole,) = linear_samples(paths[short], short, [(0, short.num_samples)])
    ways = ways_to_get_all(clip, str(paths[short]))
    rows = measure(short.description, WHOLE, ways, {WHOLE_FILE: whole}, effort.repeats)
    del whole
    begin = begin_seconds(paths[long])
    # Multiples of a quarter of a second, so that rounding does not matter.
    quarters = [*random.Random(0).sample(range(4 * long.seconds - 4), effort.num_ranges), 4 * long.seconds - 9]
    *starts, last = [begin + quarter / 4 for quarter in quarters]
    spans = [(quarter * long.rate // 4, (quarter + 4) * long.rate // 4) for quarter in quarters]
    references = dict(zip([*starts, last], linear_samples(paths[long], long, spans), strict=True))
    ways = ways_to_get_seconds(long, str(paths[long]), starts, begin, is_open=True)
    rows += measure(long.description, RANDOM, ways, references, effort.repeats)
    ways = ways_to_get_seconds(long, str(paths[long]), [last], begin, is_open=False)
    return rows + measure(long.description, FIRST, ways, references, effort.repeats)


def ratios(rows: Sequence[SoundRow]) -> list[SoundRatio]:
    """Compare our rows with all rivals for the same file and scenario; only torchcodec is a target."""
    found = []
    for ours in rows:
        for rival in rows:
            beside = (ours.clip, ours.scenario) == (rival.clip, rival.scenario)
            if not beside or not ours.library.startswith(OURS) or rival.library not in (TORCHCODEC, "soundfile"):
                continue
            ratio = rival.wall_median / ours.wall_median
            at_least = TARGETS.get(ours.scenario) if rival.library == TORCHCODEC else None
            is_met = None if at_least is None else ratio >= at_least and is_right(ours)
            cpu_ratio = rival.cpu_median / max(ours.cpu_median, 1e-6)
            place = (ours.clip, ours.scenario, ours.library, rival.library)
            found.append(SoundRatio(*place, round(ratio, 3), round(cpu_ratio, 3), at_least, is_met))
    return found


def is_right(row: SoundRow) -> bool:
    """Whether the samples match the reference within the decoder's noise."""
    if row.scenario == WHOLE:
        return row.identical == row.compared
    return row.samples_missing == 0 and (row.snr_decibels is None or row.snr_decibels >= MIN_SNR)


def table(rows: Sequence[SoundRow]) -> str:
    head = ["file", "what", "library", "median ms", "quartiles ms", "CPU ms", "runs", "identical", "otherwise"]
    lines = []
    for row in rows:
        what = row.scenario if row.scenario != RANDOM else f"{row.num_items} {row.scenario}, time per range"
        quarter = f"{row.wall_first_quartile * 1e3:.4g}-{row.wall_third_quartile * 1e3:.4g}"
        line = [row.clip, what, row.library, f"{row.wall_median * 1e3:.4g}", quarter, f"{row.cpu_median * 1e3:.4g}"]
        identical = f"{row.identical} of {row.compared}" if row.compared else ""
        lines.append([*line, str(len(row.wall_seconds)), identical, difference_in_words(row)])
    return markdown_table(head, lines, 3)


def difference_in_words(row: SoundRow) -> str:
    parts = []
    if row.snr_decibels is not None:
        parts = [f"off by up to {row.largest_difference:.1e}", f"SNR {row.snr_decibels:.0f} dB"]
    if row.samples_missing:
        parts.append(f"{abs(row.samples_missing)} samples too {'few' if row.samples_missing > 0 else 'many'}")
    return ", ".join(parts)


def ratio_table(found: Sequence[SoundRatio]) -> str:
    head = ["file", "what", "ours", "against", "times as fast", "CPU ratio", "at least", "reached"]
    lines = []
    for ratio in found:
        line = [
            ratio.clip,
            ratio.scenario,
            ratio.ours,
            ratio.rival,
            f"{ratio.wall_ratio:.2f}",
            f"{ratio.cpu_ratio:.2f}",
        ]
        line.append("" if ratio.at_least is None else f"{ratio.at_least:.2f}")
        lines.append([*line, {None: "", True: "yes", False: "**no**"}[ratio.is_met]])
    return markdown_table(head, lines, 4)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, report."""
    parser = make_parser("benchmarks.media.audio", __doc__)
    parser.add_argument("--quick", action="store_true", help="smoke test: tiny files and one run")
    parser.add_argument("--repeats", type=int, help=f"timed runs of each library (default: {Effort.repeats})")
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), choices=list(FORMATS), metavar="NAME")
    add_folders(parser)
    options = parser.parse_args(arguments)
    check_counts(parser, options, "repeats")
    effort = QUICK if options.quick else Effort()
    effort = replace(effort, repeats=options.repeats or effort.repeats)
    stamp = (
        machine_stamp()
        | package_versions("torch", "av", "torchcodec", "soundfile")
        | {"thread budget": str(get_num_threads())}
    )
    formats = [FORMATS[name] for name in dict.fromkeys(options.formats)]
    paths = make_sounds([clip for kind in formats for clip in lengths(kind, effort)], options.clips)
    rows = []
    for kind in formats:
        begin = time.perf_counter()
        rows += measure_format(kind, paths, effort)
        say(f"{kind.name}: took {time.perf_counter() - begin:.0f} s")
    text = f"{fact_list(stamp)}\n\n{ratio_table(ratios(rows))}\n\n{table(rows)}\n\n{NOTE}\n"
    document = {"machine": stamp, "rows": list(map(asdict, rows)), "ratios": list(map(asdict, ratios(rows)))}
    write_report(options.output, "audio", document, text, partial(draw_chart, "Sound to tensors", cast(Any, rows)))


if __name__ == "__main__":
    main()
