"""Accuracy and duration of training: ``python -m benchmarks.text.ocr_training -o DIR``.

A small recogniser with random weights learns drawn lines of digits and capitals. The command writes DIR/plates.pt, its
log and its curves, and DIR/ocr_training_plates.json and .md with the scores. The same command resumes an interrupted
training; a finished training is scored again.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from mediatensor.ocr.training import drawn_lines, evaluate, fit

from ..shared.machine import machine_stamp
from ..shared.reports import fact_list, markdown_table, write_report

_CAPITALS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _plates(args: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    source = random.Random(0)
    texts = ["".join(source.choices(_CAPITALS, k=source.randint(1, 6))) for _ in range(4000)]

    def lines(num_lines: int, seed: int) -> Any:
        return drawn_lines(num_lines, texts=texts, style="clean", fonts=args.font, seed=seed)

    path = args.output / "plates.pt"
    if not _is_trained(path):
        fit(
            "crnn_mobilenet_v3_small",
            lines(args.lines, 0),
            validation=lines(200, 1),
            out=path,
            pretrained=False,
            vocab=_CAPITALS,
            epochs=args.epochs,
            batch_size=8,
            learning_rate=args.learning_rate,
            ema_decay=0.98,
            augment=False,
            report=_print,
        )
    return [_row("digits and capitals", path, lines(args.scored, 2))], {"epochs": _epochs(path)}


def _is_trained(path: Path) -> bool:
    return path.exists() and not path.with_suffix(".state.pt").exists()


def _epochs(path: Path) -> list[dict[str, Any]]:
    with path.with_suffix(".jsonl").open(encoding="utf-8") as log:
        return [json.loads(line) for line in log]


def _print(epoch: Mapping[str, Any]) -> None:
    scores = epoch["validation"]
    print(
        f"epoch {epoch['epoch']}: {100 * scores['character_error_rate']:.2f} % of the characters wrong, "
        f"{100 * scores['exact']:.1f} % of the lines right, {time.process_time():.0f} s CPU",
        flush=True,
    )


def _row(what: str, model: str | Path, lines: Any) -> dict[str, Any]:
    found = evaluate(model, lines, task="recognition")
    return {
        "lines": what,
        "reader": model if isinstance(model, str) else "trained",
        "characters wrong": round(100 * (found.cer or 0), 2),
        "lines right": round(100 * (found.exact or 0), 1),
        "scored": len(found.lines),
    }


def _markdown(rows: Sequence[Mapping[str, Any]], notes: Mapping[str, str]) -> str:
    lines = [
        (row["lines"], row["reader"], f"{row['characters wrong']:.2f} %", f"{row['lines right']:.1f} %") for row in rows
    ]
    table = markdown_table(["lines", "reader", "characters wrong", "lines without an error"], lines, 2)
    return f"{table}\n\n{fact_list(notes)}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.text.ocr_training", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--lines", type=int, metavar="N", default=3000, help="drawn lines of an epoch")
    parser.add_argument("--scored", type=int, default=500, metavar="N", help="lines to score")
    parser.add_argument("--epochs", type=int, metavar="N", default=6)
    parser.add_argument("--learning-rate", type=float, metavar="X", default=1e-3)
    parser.add_argument("--font", type=Path, action="append", metavar="FILE", help="default: all of the machine")
    args = parser.parse_args(arguments)
    args.output.mkdir(parents=True, exist_ok=True)
    began, cpu = time.monotonic(), time.process_time()
    rows, details = _plates(args)
    epochs = details["epochs"]
    notes = {
        "training": f"{epochs[-1]['steps']} steps, {sum(epoch['seconds'] for epoch in epochs):.0f} seconds",
        "seconds of this call": f"{time.monotonic() - began:.0f}, of CPU {time.process_time() - cpu:.0f}",
        "threads": str(torch.get_num_threads()),
        **machine_stamp(),
    }
    report = {"rows": rows, "notes": notes, **details}
    write_report(args.output, "ocr_training_plates", report, _markdown(rows, notes))
    print(_markdown(rows, notes))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
