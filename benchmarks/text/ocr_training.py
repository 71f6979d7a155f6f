"""Accuracy and duration of training: ``python -m benchmarks.text.ocr_training plates|script -o DIR``.

``plates``: a small recogniser with random weights learns drawn lines of digits and capitals.

``script``: the default recogniser gets classes for the characters of languages that it cannot read, and learns them
only from generated lines, mixed with lines that it can read. It is scored on texts and font families that it was not
trained on, before and after training.

Each writes DIR/NAME.pt, its log and its curves, and DIR/ocr_training_NAME.json and .md with the scores. The same
command resumes an interrupted training; a finished training is scored again.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from mediatensor.ocr.drawing import Face, find_faces, random_text, read_texts, texts_of
from mediatensor.ocr.training import drawn_lines, evaluate, fit

from ..shared.machine import machine_stamp
from ..shared.reports import fact_list, markdown_table, write_report

_CAPITALS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#: Languages that the default recogniser reads, to check whether it still does.
_KNOWN = ("en", "de", "fr", "es", "pl", "it", "zh-Hans", "ja")
_SCORED_KNOWN = ("en", "de", "zh-Hans", "ja")
#: Font families only used for scoring, never for training.
HELD_OUT = "EBGaramond|Roboto|Carlito|CourierPrime|Libertine|Biolinum|OpenSans|texgyre|PTSans|Tinos|NotoSerif|Cousine"


def parted_texts(texts: Sequence[str], num_held_out: int) -> tuple[list[str], list[str]]:
    """Split texts for training and for scoring, in an order that only depends on the texts."""
    mixed = sorted(set(texts))
    random.Random(1).shuffle(mixed)
    return mixed[num_held_out:], mixed[:num_held_out]


def parted_faces(faces: Sequence[Face], letters: str, held_out: str) -> tuple[list[str], list[str]]:
    """Return font files with these letters: files to learn from, and held-out files whose names match an expression."""
    files = sorted({str(face.file) for face in faces if face.has(letters)})
    return (
        [file for file in files if not re.search(held_out, file)],
        [file for file in files if re.search(held_out, file)],
    )


def _plates(args: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    source = random.Random(0)
    texts = ["".join(source.choices(_CAPITALS, k=source.randint(1, 6))) for _ in range(4000)]

    def lines(num_lines: int, seed: int) -> Any:
        return drawn_lines(num_lines, texts=texts, style="clean", fonts=args.font, seed=seed)

    path = args.output / "plates.pt"
    if not _is_trained(path):
        fit(
            "crnn_mobilenet_v3_small",
            lines(args.lines or 3000, 0),
            validation=lines(200, 1),
            out=path,
            pretrained=False,
            vocab=_CAPITALS,
            epochs=args.epochs or 6,
            batch_size=8,
            learning_rate=args.learning_rate or 1e-3,
            ema_decay=0.98,
            augment=False,
            report=_print,
        )
    return [_row("digits and capitals", path, lines(5 * args.scored, 2))], {"epochs": _epochs(path)}


def _script(args: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    learnt: list[str] = []
    scored: dict[str, list[str]] = {}
    for language in args.languages:
        if args.texts is None:
            train, scored[language] = parted_texts(texts_of(language), 2)
        else:
            train, scored[language] = (
                list(read_texts(args.texts / name)) for name in (f"{language}.txt", f"{language}.scored.txt")
            )
        learnt += train
    source = random.Random(3)
    learnt += [text.upper() for text in source.sample(learnt, len(learnt) // 8)]
    learnt += [random_text(source, [source.choice(args.languages)]) for _ in range(len(learnt) // 4)]
    letters = "".join(sorted({sign for texts in scored.values() for text in texts for sign in text if sign.isalpha()}))
    to_learn, to_score = parted_faces(find_faces(args.font), letters, args.held_out)
    arch, path = "ppocr_v6_small_reco", args.output / "script.pt"
    if not _is_trained(path):
        fit(
            arch,
            drawn_lines(args.lines or 2400, texts=learnt, fonts=to_learn, seed=1),
            validation=drawn_lines(120, texts=[t for texts in scored.values() for t in texts], fonts=to_learn, seed=2),
            keep=drawn_lines(args.lines or 2400, languages=_KNOWN, seed=3),
            extend_vocab=True,
            out=path,
            epochs=args.epochs or 5,
            learning_rate=args.learning_rate or 3e-4,
            amp=True,
            report=_print,
        )
    rows = []
    for language in (*args.languages, *_SCORED_KNOWN):
        own = {"texts": scored[language], "fonts": to_score} if language in scored else {"languages": [language]}
        for model in (arch, path):
            rows.append(_row(language, model, drawn_lines(args.scored, seed=11, **own)))
            print(rows[-1], flush=True)
    return rows, {
        "epochs": _epochs(path),
        "faces learnt": len(to_learn),
        "faces scored": [Path(f).stem for f in to_score],
    }


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
    parser.add_argument("what", choices=("plates", "script"))
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--lines", type=int, metavar="N", help="drawn lines of an epoch (default: 3000; script: 2400)")
    parser.add_argument(
        "--scored", type=int, default=100, metavar="N", help="lines to score; plates: five times as many"
    )
    parser.add_argument("--epochs", type=int, metavar="N", help="default: 6; script: 5")
    parser.add_argument("--learning-rate", type=float, metavar="X", help="default: 1e-3; script: 3e-4")
    parser.add_argument("--font", type=Path, action="append", metavar="FILE", help="default: all of the machine")
    parser.add_argument("--languages", nargs="+", default=["ru", "uk", "bg", "sr", "el"], metavar="CODE")
    parser.add_argument(
        "--texts",
        type=Path,
        metavar="DIR",
        help="with CODE.txt to learn and CODE.scored.txt to score, a text a line (default: our few sentences)",
    )
    parser.add_argument("--held-out", default=HELD_OUT, metavar="REGEX", help="names of fonts that are only scored")
    args = parser.parse_args(arguments)
    args.output.mkdir(parents=True, exist_ok=True)
    began, cpu = time.monotonic(), time.process_time()
    rows, details = (_plates if args.what == "plates" else _script)(args)
    epochs = details["epochs"]
    notes = {
        "training": f"{epochs[-1]['steps']} steps, {sum(epoch['seconds'] for epoch in epochs):.0f} seconds",
        "seconds of this call": f"{time.monotonic() - began:.0f}, of CPU {time.process_time() - cpu:.0f}",
        "threads": str(torch.get_num_threads()),
        **machine_stamp(),
    }
    report = {"rows": rows, "notes": notes, **details}
    write_report(args.output, f"ocr_training_{args.what}", report, _markdown(rows, notes))
    print(_markdown(rows, notes))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
