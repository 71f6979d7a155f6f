"""Measure which near copies ``check_dataset`` finds: ``python -m benchmarks.data.near_copies [--quick] [-o FOLDER]``.

Films are generated, five for each set-up, or read from files. A file of at least eight seconds becomes two films,
its halves, which are recordings of one set-up. Variants of films are made, such as trimmed or mirrored ones. A variant
is joined to a film if it is reported as its near copy. The report has the share of variants that are joined to their
own film, and all pairs of different films that are joined.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from mediatensor.datasets import check_dataset
from mediatensor.errors import MediaTensorError

from ..shared.machine import machine_stamp
from ..shared.options import add_output, check_counts, make_parser
from ..shared.reports import fact_list, markdown_table, say, write_report
from .near_copies_films import HELD_OUT_VARIANTS, KINDS, VARIANTS, Film, make_films, read_film, write_film

_MIN_SECONDS = 3.0


class Row(NamedTuple):
    """How many variants of one kind were found, and how many were joined to another film."""

    variant: str
    is_held_out: bool
    num_films: int
    num_found: int
    num_wrong: int


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, report."""
    parser = make_parser("benchmarks.data.near_copies", __doc__)
    parser.add_argument("--films", type=Path, nargs="+", default=[], metavar="FILE", help="use these films as well")
    parser.add_argument("--per-kind", type=int, default=5, help="generated films of a set-up (default: %(default)s)")
    parser.add_argument("--varied", type=int, default=1, help="films of a set-up with variants (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of generated films (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=200, help="of generated films (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="smoke test: two short films and three variants")
    add_output(parser)
    options = parser.parse_args(arguments)
    check_counts(parser, options, "per_kind", "varied")
    torch.set_num_threads(1)
    if options.quick:
        films = make_films(["street", "shots"], 2, 4.0, options.seed)
    else:
        films = make_films(list(KINDS), options.per_kind, options.seconds, options.seed)
    notes = ["Thresholds were chosen with other generated films, but with the same real ones."]
    for path in options.films:
        try:
            films += [film for film in read_film(path) if len(film.frames) >= _MIN_SECONDS * film.rate]
        except MediaTensorError as error:
            notes.append(f"{path.name} was left out: {error}")
    variants = dict(list(VARIANTS.items())[:3]) if options.quick else VARIANTS | HELD_OUT_VARIANTS
    with tempfile.TemporaryDirectory() as folder:
        pairs, rows, missed = measure(films, variants, options.varied, Path(folder))
    document: dict[str, Any] = {
        "machine": machine_stamp(),
        "films": [film.name for film in films],
        "joined": pairs,
        "variants": [row._asdict() for row in rows],
        "missed": missed,
    }
    title = "Near copies"
    text = f"{title}\n\n{fact_list(document['machine'], notes)}\n\n{to_markdown(films, pairs, rows, missed)}\n"
    write_report(options.output, "near_copies", document, text)


def measure(
    films: Sequence[Film], variants: dict[str, Any], num_varied: int, folder: Path
) -> tuple[list[str], list[Row], dict[str, list[str]]]:
    """Return the joined pairs of different films, a row for each variant, and the variants missed of each film."""
    state = folder / "state"
    originals = {str(folder / f"{number}.mp4"): film for number, film in enumerate(films)}
    for path, film in originals.items():
        write_film(Path(path), film.frames, film.rate, crf=20)
    report = check_dataset(list(originals), num_workers=0, state_file=state)
    pairs = [
        f"{originals[file.name].name}, {originals[finding.other_name].name}: {finding.message.rpartition('from ')[2]}"
        for file in report.files
        for finding in file.findings
        if finding.kind == "near-duplicate" and finding.other_name in originals
    ]
    counts: Counter[str] = Counter()
    varied = {}
    for path, film in originals.items():
        counts[film.group] += 1
        if film.group not in KINDS or (KINDS[film.group][1] and counts[film.group] <= num_varied):
            varied[path] = film
    rows = []
    missed: dict[str, list[str]] = {}
    for name, change in variants.items():
        begin = time.perf_counter()
        changed = {}
        for path, film in varied.items():
            frames, rate, encoder_options = change(film)
            height, width = frames.shape[1] // 2 * 2, frames.shape[2] // 2 * 2
            changed[f"{path}.changed.mp4"] = path
            write_film(Path(f"{path}.changed.mp4"), frames[:, :height, :width], rate, **encoder_options)
        report = check_dataset([*originals, *changed], num_workers=0, state_file=state)
        num_found = num_wrong = 0
        for file in report.files[len(originals) :]:
            others = {finding.other_name for finding in file.findings if finding.kind == "near-duplicate"}
            num_found += changed[file.name] in others
            num_wrong += bool(others - {changed[file.name]})
            if changed[file.name] not in others:
                missed.setdefault(originals[changed[file.name]].name, []).append(name)
        rows.append(Row(name, name in HELD_OUT_VARIANTS, len(changed), num_found, num_wrong))
        say(f"{name}: {num_found} of {len(changed)}, {time.perf_counter() - begin:.0f} s")
    return pairs, rows, missed


def to_markdown(films: Sequence[Film], pairs: list[str], rows: Sequence[Row], missed: dict[str, list[str]]) -> str:
    """Return the tables of a report."""
    lines = [
        [f"{row.variant}{' (held out)' * row.is_held_out}", str(row.num_films), str(row.num_found), str(row.num_wrong)]
        for row in rows
    ]
    head = ["variant", "films", "found", "joined to another film"]
    names = [[name, ", ".join(variants)] for name, variants in missed.items()]
    return "\n\n".join(
        [
            f"Pairs of different films that were joined, of {len(films)} films: {len(pairs)}",
            "\n".join(f"- {pair}" for pair in pairs),
            markdown_table(head, lines),
            "Missed variants:",
            markdown_table(["film", "variants"], names, 2),
        ]
    )


if __name__ == "__main__":
    main()
