"""Time each stage of reading a page, and compare with RapidOCR: ``python -m benchmarks.text.ocr_stages FILE...``.

Every reader has its own process for each number of threads, and readers take turns. A stage's wall and CPU times are
sums over the threads that work on it. The detector's network runs while no other stage does, so it gets the CPU time of
the whole process. RapidOCR reports the wall time of its three networks including the work around them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ..shared.machine import machine_stamp
from ..shared.reports import fact_list, markdown_table, say, write_report
from ..shared.workers import WorkerProcess, single_threaded

_SAME_SIDE = 960
"""The shorter side to which the default predictor enlarges pages for its detector."""


class _Stages:
    """Return wall and CPU seconds since the last page, by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self._lock = threading.Lock()

    def watch(self, owner: Any, name: str, stage: str, cpu_clock: Callable[[], float] = time.thread_time) -> None:
        call = getattr(owner, name)

        def timed(*arguments: Any, **options: Any) -> Any:
            wall, cpu = time.perf_counter(), cpu_clock()
            try:
                return call(*arguments, **options)
            finally:
                wall, cpu = time.perf_counter() - wall, cpu_clock() - cpu
                with self._lock:
                    total = self.seconds.setdefault(stage, [0.0, 0.0])
                    total[0], total[1] = total[0] + wall, total[1] + cpu

        setattr(owner, name, timed)


def _watched_predictor(stages: _Stages) -> Any:
    from mediatensor.ocr.models import ocr_predictor
    from mediatensor.ocr.models._lines import cutting, reading
    from mediatensor.ocr.models._networks import preprocessing

    predictor = ocr_predictor(pretrained=True)
    for name in ("resized", "normalized"):
        stages.watch(preprocessing, name, "resize")
    stages.watch(predictor.det_predictor.model, "forward", "detection", time.process_time)
    stages.watch(predictor.det_predictor, "_rotated_boxes", "boxes")
    stages.watch(cutting, "_sample", "cut lines")
    stages.watch(reading, "network_input", "cut lines")
    stages.watch(reading, "inks_of_lines", "ink")
    stages.watch(predictor.reco_predictor.model, "features", "recognition")
    stages.watch(predictor.reco_predictor.model, "best_of_steps", "classes")
    stages.watch(reading, "ctc_best_path", "CTC")
    stages.watch(reading, "_to_reading", "words")
    return predictor


def measure_stages(threads: int, files: Sequence[str]) -> dict[str, Any]:
    """Time reading the files, one by one and then all in one call."""
    import torch

    torch.set_num_threads(threads)
    stages = _Stages()
    predictor = _watched_predictor(stages)
    pages = [np.asarray(Image.open(path).convert("RGB")) for path in files]
    predictor(pages[:1])
    calls = []
    for batch in [*([page] for page in pages), pages]:
        stages.seconds.clear()
        wall, cpu = time.perf_counter(), time.process_time()
        predictor(batch)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        calls.append({"pages": len(batch), "wall": wall, "cpu": cpu, "stages": dict(stages.seconds)})
    return {"calls": calls}


def _calls_of_ours(num_threads: int, files: Sequence[str]) -> list[dict[str, Any]]:
    environment = single_threaded(num_threads)
    with WorkerProcess("benchmarks.text.ocr_worker", environment=environment) as worker:
        calls: list[dict[str, Any]] = worker.ask("measure_stages", threads=num_threads, files=list(files))["calls"]
    return calls


def _of_ours(num_threads: int, files: Sequence[str]) -> list[dict[str, Any]]:
    *alone, together = _calls_of_ours(num_threads, files)
    names = list(dict.fromkeys(name for page in alone for name in page["stages"]))
    rows = {
        name: [sum(page["stages"].get(name, (0, 0))[k] for page in alone) / len(alone) for k in (0, 1)]
        for name in names
    }
    total = [sum(page[key] for page in alone) / len(alone) for key in ("wall", "cpu")]
    rows["rest"] = [float("nan"), total[1] - sum(cpu for _, cpu in rows.values())]
    rows["page by page"] = total
    rows["all in one call"] = [together[key] / together["pages"] for key in ("wall", "cpu")]
    return [{"reader": "mediatensor", "stage": name, "wall": wall, "cpu": cpu} for name, (wall, cpu) in rows.items()]


def _of_rapidocr(python: str, num_threads: int, files: Sequence[str], side: int | None) -> list[dict[str, Any]]:
    environment = single_threaded(num_threads)
    with WorkerProcess("benchmarks.text.ocr_worker", python=python, environment=environment) as worker:
        worker.ask("start", reader="rapidocr", threads=num_threads, side=side)
        _, *pages = [worker.ask("read", file=file) for file in (files[0], *files)]
    reader = f"rapidocr, {'its own size' if side is None else 'the same size'}"
    names = list(dict.fromkeys(name for page in pages for name in page["stages"]))
    rows = {name: (sum(page["stages"].get(name) or 0 for page in pages) / len(pages), float("nan")) for name in names}
    rows["page by page"] = tuple(sum(page[key] for page in pages) / len(pages) for key in ("wall", "cpu"))  # type: ignore[assignment]
    return [{"reader": reader, "stage": name, "wall": wall, "cpu": cpu} for name, (wall, cpu) in rows.items()]


def _medians(rounds: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [
        {
            **same[0],
            "wall": statistics.median(r["wall"] for r in same),
            "cpu": statistics.median(r["cpu"] for r in same),
        }
        for same in zip(*rounds, strict=True)
    ]


def _table(rows: Sequence[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        figures = ("" if np.isnan(row[key]) else f"{row[key]:.3f}" for key in ("wall", "cpu"))
        lines.append([str(row["threads"]), row["reader"], row["stage"], *figures])
    return markdown_table(["threads", "reader", "stage", "s a page", "CPU s a page"], lines, 3)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.text.ocr_stages")
    parser.add_argument("files", nargs="+", help="pictures of pages")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rapidocr", metavar="PYTHON", help="an interpreter that has rapidocr and onnxruntime")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="write ocr_stages.json and .md there")
    options = parser.parse_args(arguments)
    files = [str(Path(file).resolve()) for file in options.files]
    rounds: list[list[dict[str, Any]]] = []
    for number in range(options.repeats):
        rows: list[dict[str, Any]] = []
        for num_threads in options.threads:
            say(f"round {number + 1} of {options.repeats}, threads: {num_threads}")
            own = _of_ours(num_threads, files)
            for side in (None, _SAME_SIDE) if options.rapidocr else ():
                own += _of_rapidocr(options.rapidocr, num_threads, files, side)
            rows += [{"threads": num_threads, **row} for row in own]
        rounds.append(rows)
    result = _medians(rounds)
    stamp = machine_stamp() | {
        "pages": str(len(files)),
        "rounds": str(options.repeats),
        "load": f"{os.getloadavg()[0]:.1f}",
    }
    text = f"{fact_list(stamp)}\n\n{_table(result)}\n"
    clean = [{key: None if value != value else value for key, value in row.items()} for row in result]
    write_report(options.output, "ocr_stages", {"machine": stamp, "stages": clean}, text)


if __name__ == "__main__":
    main()
