"""Many cases, a table of what came of them, and a JSON file of failures with the commands that show them again."""

from __future__ import annotations

import argparse
import json
import queue
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

from .cases import Case, damaged_file
from .supervisor import Worker

__all__ = ["SHARES", "cases_of", "main"]

#: The number of cases of each kind among a hundred.
SHARES = {
    "video": 28, "audio": 14, "image": 9, "document": 6, "wav": 5, "subtitle": 5, "index": 4, "mappings": 2,
    "weights": 3, "tar": 3, "exports": 4, "still": 6, "rows": 4, "state": 2, "calls": 3, "command": 2,
}  # fmt: skip
_ORDER = [kind for turn in range(max(SHARES.values())) for kind, share in SHARES.items() if turn < share]


def cases_of(number: int, seed: int, kinds: Sequence[str] = ()) -> list[Case]:
    """The first ``number`` cases of a seed; the same prefix for every number."""
    chosen = [kind for kind in _ORDER if not kinds or kind in kinds]
    return [Case(chosen[at % len(chosen)], seed * 1_000_000 + at) for at in range(number)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 if a case failed."""
    options = _parser().parse_args(arguments)
    with _folder(options.corpus) as name:
        folder = Path(name)
        if options.case:
            return _show(Case(options.case[0], int(options.case[1])), folder, options.keep)
        cases = cases_of(options.cases, options.seed, options.kind or ())
        began = time.monotonic()
        reports = _run(cases, folder, options.processes)
        seconds = time.monotonic() - began
        print(_table(reports))
        failures = [_failure(case, report) for case, report in reports if "failure" in report]
        print(f"{len(reports)} cases in {seconds:.0f} s, {len(failures)} failures")
        result = {"cases": len(reports), "seed": options.seed, "seconds": round(seconds), "failures": failures,
                  "outcomes": {kind: dict(counts) for kind, counts in _outcomes(reports).items()}}  # fmt: skip
        options.output.write_text(json.dumps(result, indent=1))
        if options.keep:
            for failure in failures:
                _keep(Case(failure["kind"], failure["seed"]), folder, options.keep)
    return int(bool(failures))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=500, help="how many (default: 500)")
    parser.add_argument("--seed", type=int, default=0, help="of all cases (default: 0)")
    parser.add_argument("--kind", action="append", choices=sorted(SHARES), help="only this kind; may be repeated")
    parser.add_argument("--processes", type=int, default=2, help="workers side by side (default: 2)")
    parser.add_argument("--case", nargs=2, metavar=("KIND", "SEED"), help="one case, and everything about it")
    parser.add_argument("--keep", type=Path, help="write the damaged files of failures into this folder")
    parser.add_argument("--corpus", type=Path, help="folder that keeps sound files from one run to the next")
    parser.add_argument("--output", type=Path, default=Path("fuzz-failures.json"), help="the JSON file")
    return parser


def _folder(corpus: Path | None) -> Any:
    if corpus is None:
        return tempfile.TemporaryDirectory(prefix="fuzz-corpus-")
    corpus.mkdir(parents=True, exist_ok=True)
    return nullcontext(str(corpus))


def _run(cases: Sequence[Case], folder: Path, num_processes: int) -> list[tuple[Case, dict[str, Any]]]:
    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()

    def work(case: Case) -> tuple[Case, dict[str, Any]]:
        worker = idle.get()
        try:
            return case, worker.run(case)
        finally:
            idle.put(worker)

    with ExitStack() as stack, ThreadPoolExecutor(num_processes) as pool:
        for _ in range(num_processes):
            idle.put(stack.enter_context(Worker(folder)))
        return list(_with_progress(pool.map(work, cases), len(cases)))


def _with_progress(reports: Iterable[Any], number: int) -> Iterator[Any]:
    try:
        from tqdm import tqdm
    except ImportError:
        yield from reports
        return
    num_failures = 0
    with tqdm(reports, total=number, unit="case", smoothing=0, mininterval=5, file=sys.stderr) as bar:
        for report in bar:
            num_failures += "failure" in report[1]
            bar.set_postfix(failures=num_failures, refresh=False)
            yield report


def _outcomes(reports: Sequence[tuple[Case, dict[str, Any]]]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for case, report in reports:
        found[case.kind]["failed" if "failure" in report else report["outcome"].split(":")[0]] += 1
    return found


def _table(reports: Sequence[tuple[Case, dict[str, Any]]]) -> str:
    columns = ("result", "partly", "refused", "left to codec", "failed")
    lines = [f"{'kind':10}{'cases':>8}" + "".join(f"{column:>16}" for column in columns) + f"{'seconds':>10}{'MiB':>7}"]
    for kind, counts in sorted(_outcomes(reports).items()):
        mine = [report for case, report in reports if case.kind == kind]
        seconds = sum(report.get("seconds", 0.0) for report in mine)
        growth = max(report.get("growth", 0) for report in mine) >> 20
        cells = "".join(f"{counts[column]:16}" for column in columns)
        lines.append(f"{kind:10}{len(mine):8}{cells}{seconds:10.0f}{growth:7}")
    return "\n".join(lines)


def _failure(case: Case, report: dict[str, Any]) -> dict[str, Any]:
    return {"kind": case.kind, "seed": case.seed, "again": f"python -m tests.fuzz --case {case}", **report}


def _show(case: Case, folder: Path, keep: Path | None) -> int:
    with Worker(folder) as worker:
        report = worker.run(case)
    for name, value in report.items():
        print(f"{name}: {value}")
    if keep is not None:
        print("kept:", _keep(case, folder, keep))
    return int("failure" in report)


def _keep(case: Case, folder: Path, keep: Path) -> Path:
    damaged = damaged_file(case, folder)
    keep.mkdir(parents=True, exist_ok=True)
    path = keep / f"{case.kind}-{case.seed}-{damaged.name}"
    path.write_bytes(damaged.data)
    return path
