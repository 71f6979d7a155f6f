"""Train the reader of lines in Cyrillic, Greek and Vietnamese letters, and score it on texts and fonts it has not seen.

``python -m benchmarks.calibration.script_reader train -o FOLDER``

The network starts from the default recogniser, without the classes of Chinese and Japanese characters, and learns lines
that are drawn in the fonts of this machine: the sentences of ``script_reader.txt`` and of `mediatensor.ocr.drawing`,
words of these in any order, invented words, numbers and dates, and some Latin lines. The same command resumes an
interrupted training. ``ship`` writes the trained weights in half precision to the file that the library loads.

``score`` reads other sentences in font families that were not used for training, with the shipped reader.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mediatensor.datasets import MediaDataset
from mediatensor.ocr.drawing import LANGUAGES, Face, find_faces, random_text, texts_of
from mediatensor.ocr.models import ppocr_v6_small_reco
from mediatensor.ocr.models._networks.weights import Checkpoint, read_checkpoint, save_checkpoint
from mediatensor.ocr.models.recognition.onnx_lines import SCRIPT_FILE, built_in_readers
from mediatensor.ocr.training import drawn_lines, evaluate, fit

from ..shared.machine import machine_stamp
from ..shared.reports import fact_list, markdown_table, write_report

#: Font families only used for scoring, never for training.
HELD_OUT = "EBGaramond|Roboto|Carlito|CourierPrime|Libertine|Biolinum|OpenSans|texgyre|PTSans|Tinos|NotoSerif|Cousine"
ARCH = "ppocr_v6_small_reco"
SCRIPTS = {
    "Cyrillic": ("ru", "uk", "bg", "sr", "be", "mk"),
    "Greek": ("el",),
    "Vietnamese": ("vi",),
}
_SIGNS = " !\"#$%&'()*+,-./0123456789:;<=>?@[\\]^_`{|}~«»„“”‚‘’–—…№§°€£₽₴₫·×•±"  # noqa: RUF001


def texts_of_kind(kind: str) -> dict[str, list[str]]:
    """Return the sentences of ``script_reader.txt`` to ``"learn"`` or to be ``"scored"``, by language."""
    parts = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split("[")[1:]
    named = {heading: body.strip().splitlines() for heading, _, body in (part.partition("]\n") for part in parts)}
    return {heading.split()[0]: lines for heading, lines in named.items() if heading.split()[1] == kind}


def letters_of(texts: Sequence[str]) -> set[str]:
    """Return all letters of texts, as capitals and as small letters."""
    return {sign for text in texts for form in (text, text.upper(), text.lower()) for sign in form if sign.isalpha()}


def _has_ink(face: Face, character: str) -> bool:
    # EBGaramond08-Italic has Greek letters that are blank.
    return face.at(32).getmask(character).getbbox() is not None


def parted_faces(faces: Sequence[Face], letters: str) -> tuple[list[str], list[str]]:
    """Return font files with these letters: files to learn from, and held-out files."""
    files = sorted({str(face.file) for face in faces if face.has(letters) and all(_has_ink(face, c) for c in letters)})
    return (
        [file for file in files if not re.search(HELD_OUT, file)],
        [file for file in files if re.search(HELD_OUT, file)],
    )


def files_to_learn(faces: Sequence[Face], alphabets: Iterable[str]) -> list[str]:
    """Return font files to learn from: those with all letters of at least one alphabet."""
    return sorted({file for letters in alphabets for file in parted_faces(faces, letters)[0]})


def english_words(path: Path) -> list[str]:
    """Return the ASCII words of a word list, or no words if the file does not exist."""
    return [w for w in path.read_text(encoding="utf-8").split() if w.isascii()] if path.exists() else []


def _mixed_words(source: random.Random, words: Sequence[str], most: int) -> str:
    line = " ".join(source.choice(words) for _ in range(source.randint(1, most)))
    return source.choice([str, str, str.title, str.upper])(line)


def _new_texts(texts: Mapping[str, Sequence[str]], num_texts: int) -> list[str]:
    """Return lines in the new scripts: sentences, their words in any order, invented words and random lines."""
    source = random.Random(3)
    weights = [2 if language in ("ru", "el", "vi") else 1 for language in texts]
    lines = []
    for language in source.choices(list(texts), weights, k=num_texts):
        known = [*texts[language], *(texts_of(language) if language in LANGUAGES else ())]
        chance = source.random()
        if chance < 0.35 and language in LANGUAGES:
            line = random_text(source, [language])
        elif chance < 0.6:
            line = _mixed_words(source, " ".join(known).split(), 8)
        elif chance < 0.72:
            letters = sorted(letters_of(known))
            words = ["".join(source.choices(letters, k=source.randint(2, 9))) for _ in range(source.randint(1, 4))]
            line = " ".join(words)
        else:
            line = source.choice(known)
        lines.append(line.upper() if source.random() < 0.1 else line)
    return lines


def latin_texts(words: Sequence[str], num_texts: int, seed: int = 4) -> list[str]:
    """Return lines in Latin letters: English words, numbers and codes, and random lines in all languages."""
    source = random.Random(seed)
    latin = [language for language in LANGUAGES if "".join(texts_of(language)) and _is_latin(texts_of(language))]
    lines = []
    for _ in range(num_texts):
        chance = source.random()
        if words and chance < 0.45:
            line = _mixed_words(source, words, 7)
            if source.random() < 0.3:
                line += source.choice([": ", " ", " - ", ". ", ", "]) + random_text(
                    source, ["en"], "0123456789.,:/-$%#()"
                )
        else:
            line = random_text(source, ["en"] if chance < 0.75 else latin)
        lines.append(line)
    return lines


def _is_latin(texts: Sequence[str]) -> bool:
    return all(sign < "\u0250" for text in texts for sign in text if sign.isalpha())


def _train(args: argparse.Namespace) -> None:
    texts = texts_of_kind("learn")
    languages = {
        language: letters_of([*texts[language], *scored]) for language, scored in texts_of_kind("scored").items()
    }
    model = ppocr_v6_small_reco(pretrained=True)
    kept = {c for c in model.characters if len(c) == 1 and (c in _SIGNS or (c.isalpha() and c < "\u0250"))}
    model.restrict_vocab("".join(sorted(kept)))
    start = args.output / "start.pt"
    save_checkpoint(start, Checkpoint(ARCH, model.state_dict(), list(model.characters)))
    allowed = kept.union(_SIGNS, *languages.values())
    drawn = _new_texts(texts, 30_000) + latin_texts(english_words(args.words), 20_000)
    lines = [line for line in drawn if allowed.issuperset(line)]
    # A face draws a line only if it has all of its characters. Faces without Cyrillic draw Greek, and the reverse.
    to_learn = files_to_learn(find_faces(), map("".join, languages.values()))
    print(f"{len(lines)} texts, {len(to_learn)} faces, {len(allowed)} characters", flush=True)
    fit(
        start,
        drawn_lines(args.lines, texts=lines, fonts=to_learn, seed=1),
        validation=drawn_lines(200, texts=lines, fonts=to_learn, seed=2),
        extend_vocab=True,
        out=args.output / "script_reader.pt",
        epochs=args.epochs,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        amp=True,
        report=print_epoch,
    )


def print_epoch(epoch: Mapping[str, Any]) -> None:
    """Print the score after an epoch of a training."""
    rate = 100 * epoch["validation"]["character_error_rate"]
    print(f"epoch {epoch['epoch']}: {rate:.2f} % of the characters wrong, {time.process_time():.0f} s CPU", flush=True)


# Small layers by which classifiers of scripts are found; they stay exact.
FROZEN = ("norm.weight", "norm.bias", "head.bias")


def half_weights(weights: Mapping[str, Tensor], unchanged: Collection[str] = ()) -> dict[str, Tensor]:
    """Return weights in half precision, except integers and those named in ``unchanged``."""
    return {
        name: value.half() if value.is_floating_point() and name not in unchanged else value
        for name, value in weights.items()
    }


def model_card(module: str, trained: Checkpoint, **facts: object) -> dict[str, object]:
    """Return the card of weights that a module of this package trained from the default recogniser."""
    return {
        "base": f"{ARCH}, by the PaddlePaddle authors, Apache-2.0",
        "texts": "sentences of mediatensor, English words of SCOWL",
        "made by": f"python -m benchmarks.calibration.{module}",
        **facts,
        **{name: trained.card[name] for name in ("task", "epoch", "scores", "torch")},
    }


def _ship(args: argparse.Namespace) -> None:
    trained = read_checkpoint(args.output / "script_reader.pt")
    card = model_card("script_reader", trained)
    save_checkpoint(args.to, replace(trained, state_dict=half_weights(trained.state_dict), card=card))
    print(f"{args.to}: {args.to.stat().st_size / 1e6:.1f} MB")


def _score(args: argparse.Namespace) -> None:
    readers, texts, faces = built_in_readers(args.model), texts_of_kind("scored"), find_faces()
    rows = []
    for script, languages in SCRIPTS.items():
        for language in languages:
            fonts = parted_faces(faces, "".join(letters_of(texts[language])))[1]
            lines = drawn_lines(args.scored, texts=texts[language], fonts=fonts, seed=11)
            compared = {"default": ARCH, "reader of scripts": readers[script]}
            rows += score_readers(language, len(fonts), lines, compared)
    report_scores(args, "ocr_script_reader", rows)


def score_readers(
    language: str, num_faces: int, lines: MediaDataset, readers: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return a row of scores for each recogniser, in percent of the characters and of the lines."""
    rows = []
    for name, model in readers.items():
        found = evaluate(model, lines, task="recognition")
        row = {"language": language, "reader": name, "faces": num_faces}
        rows.append({**row, "characters wrong": 100 * (found.cer or 0), "lines right": 100 * (found.exact or 0)})
        print(rows[-1], flush=True)
    return rows


def report_scores(args: argparse.Namespace, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows of `score_readers` as a table, and write them to the output folder."""
    notes = {"lines of each language": str(args.scored), "threads": str(torch.get_num_threads()), **machine_stamp()}
    table = markdown_table(
        ["language", "reader", "characters wrong", "lines without an error"],
        [(r["language"], r["reader"], f"{r['characters wrong']:.2f} %", f"{r['lines right']:.1f} %") for r in rows],
        2,
    )
    write_report(args.output, name, {"rows": rows, "notes": notes}, f"{table}\n\n{fact_list(notes)}\n")
    print(table)


def training_parser(
    module: str, description: str | None, actions: Iterable[str], rate: float
) -> argparse.ArgumentParser:
    """Return a parser with the options of trainings; ``rate`` is the default learning rate."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.calibration.{module}", description=description)
    parser.add_argument("what", choices=actions)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--lines", type=int, default=4000, metavar="N", help="drawn lines of an epoch")
    parser.add_argument("--epochs", type=int, default=12, metavar="N")
    parser.add_argument("--batch-size", type=int, default=16, metavar="N")
    parser.add_argument("--learning-rate", type=float, default=rate, metavar="X")
    parser.add_argument(
        "--words", type=Path, default=Path("/usr/share/dict/words"), metavar="FILE", help="English words to learn"
    )
    parser.add_argument("--scored", type=int, default=150, metavar="N", help="lines of each language to score")
    return parser


def run_action(
    parser: argparse.ArgumentParser,
    actions: Mapping[str, Callable[[argparse.Namespace], None]],
    arguments: Sequence[str] | None,
) -> int:
    """Parse the command line, make the output folder, and run the action that the command line names."""
    args = parser.parse_args(arguments)
    args.output.mkdir(parents=True, exist_ok=True)
    actions[args.what](args)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    actions = {"train": _train, "ship": _ship, "score": _score}
    parser = training_parser("script_reader", __doc__, actions, 4e-4)
    parser.add_argument("--model", type=Path, default=SCRIPT_FILE, metavar="FILE", help="the checkpoint to score")
    parser.add_argument("--to", type=Path, default=SCRIPT_FILE, metavar="FILE", help="where ship writes the weights")
    return run_action(parser, actions, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
