"""Fit and measure the classifier of lines in scripts that the default recogniser cannot read.

::

    python -m benchmarks.calibration.scripts table          # flagged and falsely flagged lines, in held-out faces
    python -m benchmarks.calibration.scripts fit --scale 1  # the numbers in models/_lines/scripts.npz
    python -m benchmarks.calibration.scripts stamp          # only the fingerprints of the weights that they belong to

The first two render lines in the installed fonts (``--fonts``, folders); the table uses fonts that are held out from
fitting. The features do not depend on the recogniser's last layer, so a new ``accents.npz`` needs only ``stamp``. Then
copy the printed SHA-256 into ``models/_lines/reading.py``. The stored file comes from ``fit --scale 1`` with the seed
0: the same fonts, PyTorch and kind of processor give the same bytes, and other ones nearly the same numbers.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.calibration.script_lines import MORE_WORDS, READABLE, READABLE_KINDS, WORDS, LinePainter, ScriptLine
from benchmarks.calibration.signs import published_reader
from benchmarks.shared.reports import markdown_table
from mediatensor.ocr.models import ppocr_v6_small_reco, ppocr_v6_small_reco_tuned
from mediatensor.ocr.models._lines.cutting import cut_lines, network_input
from mediatensor.ocr.models._lines.reading import ScriptClassifier, fingerprint, read_lines

COUNTS = {
    **dict.fromkeys(WORDS, 700),
    **dict.fromkeys(MORE_WORDS, 200),
    "Cyrillic": 1100,
    "Greek": 900,
    "Vietnamese": 1500,
    "Latin": 3000,
    "Plain": 2500,
    "Numbers": 700,
    "Codes": 900,
    "Marks": 500,
    "Blots": 500,
    "Greek signs": 500,
    "Chinese": 900,
    "Japanese": 700,
    "upside down": 800,
}
"""Return how many lines of each kind are rendered at scale 1."""
HIDDEN = 64
EPOCHS = 12
BATCH = 128


def drawn(fonts: Sequence[str], *, held_out: bool, scale: float, seed: int) -> Iterator[ScriptLine]:
    """Render lines of all kinds."""
    painter = LinePainter(fonts, held_out=held_out, seed=seed)
    return painter.lines({kind: round(count * scale) for kind, count in COUNTS.items()})


def _page(line: ScriptLine) -> tuple[Tensor, np.ndarray]:
    """Return the line as a separate page, and its corners."""
    page = torch.from_numpy(line.picture.copy()).permute(2, 0, 1)
    height, width = page.shape[1:]
    return page, np.array([[[0, 0], [width, 0], [width, height], [0, height]]], dtype=np.float64)


@dataclass(frozen=True)
class Sample:
    """The input of the recogniser's head for a line, float16 (T, 120), and the script and kind of the line."""

    features: Tensor
    script: str
    kind: str


def samples_of(model: Any, lines: Iterable[ScriptLine]) -> list[Sample]:
    """Compute the features of lines."""
    found = []
    for line in lines:
        (batch,) = cut_lines(*_page(line), 48, 4096)
        inputs = network_input(batch.data, model.cfg["mean"], model.cfg["std"], model.head.weight)
        features = model.features(inputs.contiguous(memory_format=torch.channels_last))
        own = features[0, : -(-batch.widths[0] // model.step_pixels)]
        found.append(Sample(own.half(), line.script, line.kind))
    return found


def kept_samples(file: Path | None, model: Any, lines: Iterable[ScriptLine]) -> list[Sample]:
    """Load the samples in a file, or compute them from the lines and store them if there is no file."""
    if file is not None and file.exists():
        with np.load(file, allow_pickle=False) as stored:
            features = torch.from_numpy(stored["features"]).split(stored["lengths"].tolist())
            return [
                Sample(*each)
                for each in zip(features, stored["scripts"].tolist(), stored["kinds"].tolist(), strict=True)
            ]
    with torch.inference_mode():
        samples = samples_of(model, lines)
    if file is not None:
        named = {"scripts": [each.script for each in samples], "kinds": [each.kind for each in samples]}
        lengths = [len(each.features) for each in samples]
        np.savez(file, features=torch.cat([each.features for each in samples]).numpy(), lengths=lengths, **named)
    return samples


def fit(samples: Sequence[Sample], seed: int) -> ScriptClassifier:
    """Train a classifier of these lines, with AdamW on the cross-entropy."""
    torch.manual_seed(seed)
    every = torch.cat([each.features for each in samples])
    lengths = torch.tensor([len(each.features) for each in samples])
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    some = every[::8].float()
    mean, deviation = some.mean(0), some.std(0)
    names = [READABLE, *sorted({each.script for each in samples} - {READABLE})]
    labels = torch.tensor([names.index(each.script) for each in samples])
    first, second = nn.Linear(every.shape[1], HIDDEN), nn.Linear(2 * HIDDEN, len(names))
    layers = nn.ModuleList([first, second])
    optimiser = torch.optim.AdamW(layers.parameters(), weight_decay=1e-2)
    num_batches = -(-len(samples) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 6e-3, total_steps=EPOCHS * num_batches)
    for _ in range(EPOCHS):
        for chosen in torch.split(torch.randperm(len(samples)), BATCH):
            # As in `ScriptClassifier`, without steps after the ends of lines.
            rows = torch.cat([every[offsets[index] : offsets[index + 1]] for index in chosen.tolist()])
            hidden = torch.relu(first((rows.float() - mean) / deviation))
            parts = hidden.split(lengths[chosen].tolist())
            pooled = torch.stack([torch.cat([part.mean(0), part.amax(0)]) for part in parts])
            loss = nn.functional.cross_entropy(second(pooled), labels[chosen], label_smoothing=0.01)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
    weight = (first.weight / deviation).detach()
    bias = first.bias.detach() - weight @ mean
    return ScriptClassifier(names, weight, bias, second.weight.detach(), second.bias.detach())


def save(network: ScriptClassifier, file: Path) -> str:
    """Write the numbers of a classifier, and return the SHA-256 of the file."""
    layers = {name: values.numpy() for name, values in network.named_buffers()}
    models = published_reader(), ppocr_v6_small_reco(pretrained=True), ppocr_v6_small_reco_tuned(pretrained=True)
    known_by = [fingerprint(model.norm.weight, model.norm.bias, model.head.bias) for model in models]
    np.savez(file, names=np.array(network.names), recognisers=np.array(known_by), **layers)  # type: ignore[arg-type]
    return hashlib.sha256(file.read_bytes()).hexdigest()


def table(model: Any, lines: Sequence[ScriptLine]) -> str:
    """Return the numbers of lines, flagged lines, and lines flagged with the right script, by kind of line."""
    rows = []
    scripts = {id(line): read_lines(model, *_page(line))[0].script for line in lines}
    for kind in [*WORDS, *MORE_WORDS, *READABLE_KINDS, "all readable"]:
        own = [line for line in lines if line.kind == kind or (kind == "all readable" and line.script == READABLE)]
        flagged = [scripts[id(line)] for line in own if scripts[id(line)] is not None]
        if own:
            named = f"{sum(name == kind for name in flagged) / max(len(flagged), 1):.1%}" if kind in COUNTS else ""
            right = named if own[0].script != READABLE else ""
            rows.append([kind, len(own), f"{len(flagged) / len(own):.1%}", right])
    return markdown_table(["lines", "drawn", "flagged", "by their script"], rows)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.calibration.scripts", description=__doc__.split("\n")[0]
    )
    parser.add_argument("action", choices=("table", "fit", "stamp"))
    parser.add_argument("--fonts", nargs="+", default=["/usr/share/fonts"], help="folders of fonts")
    parser.add_argument("--scale", type=float, default=0.25, help="number of lines; 1 is about 20,000")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--features", type=Path, help="a file that keeps the features for the next fit")
    parser.add_argument("-o", "--output", type=Path, help="the file for the table, or for the numbers: scripts.npz")
    args = parser.parse_args()
    model = ppocr_v6_small_reco(pretrained=True)
    if args.action == "stamp":
        print(save(published_reader().script_classifier, args.output or Path("scripts.npz")))
        return
    lines = drawn(args.fonts, held_out=args.action == "table", scale=args.scale, seed=args.seed)
    if args.action == "fit":
        torch.set_num_threads(1)  # Sums depend on the number of threads.
        samples = kept_samples(args.features, model, lines)
        print(save(fit(samples, args.seed), args.output or Path("scripts.npz")))
    else:
        with torch.inference_mode():
            text = table(model, list(lines))
        print(text)
        if args.output:
            args.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
