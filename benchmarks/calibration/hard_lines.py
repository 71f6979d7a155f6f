"""Train PP-OCRv6's small recogniser further on Latin lines that are hard to read, so that it forgets nothing.

``python -m benchmarks.calibration.hard_lines train -o FOLDER``

A third of the lines are hard (`hard_drawing`). Most others are usual drawn lines in all languages of the recogniser,
some of them with `rare_texts`. The network learns their texts with CTC. A second loss ties its scores to those of the
published recogniser: on usual lines strongly, and on hard lines to its scores for the same line in clean print. The
rest are rows of dashes and similar signs. Where the published recogniser reads letters in them, the network learns to
read nothing; otherwise, to read the same. The last layer and the last normalisation stay unchanged. The same command
resumes an interrupted training.

``blend`` writes the published weights plus a share of the difference, in half precision. With ``--start``, the mean of
the first and the trained weights takes the place of the trained ones. ``benchmarks.calibration.signs accents --model
FILE`` then fits its last layer to accents and quotation marks. ``score`` compares the blend with the published weights
on drawn lines in font families that were not used for training: usual lines in several languages, hard lines, and
usual lines with `rare_texts`, such as code. ``benchmarks.text.ocr`` scores it on pages, with the reader
``"mediatensor, reco_arch=FILE"``.
"""

from __future__ import annotations

import argparse
import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mediatensor.datasets import Item, MediaDataset, Sample, Skipped
from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.drawing import LANGUAGES, Face, draw_random_line, find_faces, texts_of
from mediatensor.ocr.models import load_checkpoint
from mediatensor.ocr.models._networks.weights import Checkpoint, read_checkpoint, save_checkpoint
from mediatensor.ocr.training import DrawnLines, drawn_lines
from mediatensor.ocr.training._drawn import _DrawnLineRecipe, _Faces
from mediatensor.ocr.training._loop import FitSettings, Training
from mediatensor.ocr.training._recognition import Recognition, TextBatch, TextBatches
from mediatensor.ocr.training._rows import first_rows
from mediatensor.ocr.utils._page_images import resized

from .hard_drawing import draw_hard_line, draw_separator, form_texts, rare_texts
from .script_reader import (
    ARCH,
    FROZEN,
    english_words,
    files_to_learn,
    half_weights,
    latin_texts,
    letters_of,
    model_card,
    parted_faces,
    print_epoch,
    report_scores,
    run_action,
    score_readers,
    training_parser,
)
from .signs import published_reader, with_published_layer

TRAINED, BLEND = "trained.pt", "blend.pt"
# Languages of usual lines: Chinese and Japanese, which hard lines do not have, are a third of them.
_EAST_ASIAN, _FREQUENT = ("zh-Hans", "zh-Hant", "ja", "ja"), ("de", "fr", "es", "it", "pt", "nl", "pl", "cs")
_SCORED = ("en", "de", "fr", "es", "it", "pl", "zh-Hans", "ja")
_LATIN = "AZaz09"
# Layers that stay unchanged: the classifier of scripts and the letter counts were fitted to them.
_UNCHANGED = (*FROZEN, "head.weight")
# Shares of hard lines, of rows of dashes, and of usual lines with rare texts. Wider lines are not used.
_HARD_SHARE, _SEPARATOR_SHARE, _RARE_SHARE, _MAX_WIDTH = 0.34, 0.12, 0.18, 544
# Weights of the losses on (usual, hard) lines. Weaker distillation forgets: Japanese and Italian became worse.
_CTC_WEIGHTS, _DISTILL_WEIGHTS = (0.5, 1.0), (8.0, 2.0)
# Lines with a greater loss per character are left out. They are usually unreadable.
_MAX_CTC = 1.5
_NUM_DISTILLED = 12
_NUM_VALIDATED, _NUM_AT_ONCE = 200, 20


@dataclass(frozen=True)
class _HardFaces(_Faces):
    latin: tuple[Face, ...]


@dataclass(frozen=True)
class _Recipe(_DrawnLineRecipe):
    """Draws hard lines, rows of dashes, whose text is empty, and usual lines as in `drawn_lines`.

    ``Sample.extra["clean"]`` is the line in clean print.
    """

    hard_texts: tuple[str, ...]
    rare_texts: tuple[str, ...]
    latin_fonts: tuple[str, ...]
    shares: tuple[float, float, float]

    def open(self, item: Item) -> _HardFaces:
        return _HardFaces(super().open(item).faces, find_faces(self.latin_fonts))

    def read(self, opened: _HardFaces, item: Item, part: int) -> Sample:
        rng = random.Random(random.getrandbits(64))
        kinds = ("hard", "separator", "rare", "usual")
        kind = rng.choices(kinds, [*self.shares, 1 - sum(self.shares)])[0]
        while True:
            if kind == "hard":
                line = draw_hard_line(rng, self.hard_texts, opened.latin)
                image, clean, text = _as_tensor(line.image), _as_tensor(line.clean), line.text
            elif kind == "separator":
                image = clean = _as_tensor(draw_separator(rng, opened.latin, _MAX_WIDTH / 48))
                text = ""
            elif kind == "rare":
                rare = draw_random_line(rng, faces=opened.latin, texts=self.rare_texts)
                image = clean = _as_tensor(rare.image)
                text = rare.text
            else:
                usual = super().read(opened, item, part)
                image = clean = usual.image
                text = usual.label
            width = max(round(48 * image.shape[2] / image.shape[1]), 8)
            if width <= _MAX_WIDTH:
                image, clean = (resized(picture, (48, width)) for picture in (image, clean))
                return Sample(image=image, label=text, extra={"clean": clean})


def _as_tensor(image: np.ndarray) -> Tensor:
    return torch.from_numpy(image).permute(2, 0, 1).contiguous()


def hard_lines(
    num_lines: int,
    *,
    texts: Sequence[str],
    fonts: Sequence[str],
    languages: Sequence[str],
    characters: str,
    seed: int,
    rare: Sequence[str] = (),
    shares: tuple[float, float, float] = (1.0, 0.0, 0.0),
) -> DrawnLines:
    """Return a dataset of hard lines and other lines.

    Args:
        num_lines: Number of lines of an epoch.
        texts: Texts of the hard lines.
        fonts: Font files. Hard lines only use those with Latin letters.
        languages: Languages of the usual lines. A language that occurs twice is twice as frequent.
        characters: The characters that may occur.
        seed: Random seed.
        rare: Texts of the usual lines with rare texts.
        shares: Shares of hard lines, of rows of dashes, and of usual lines with rare texts.
    """
    latin = tuple(face.file for face in find_faces(fonts) if face.has(_LATIN))
    if not latin:
        raise InvalidArgumentError(f"fonts={[*fonts]} has no face with Latin letters; install fonts, or name them")
    known = frozenset(characters)
    hard, rare = (tuple(text for text in own if text.strip() and known.issuperset(text)) for own in (texts, rare))
    recipe = _Recipe(
        languages=tuple(languages), characters=None, texts=(), style="mixed", fonts=tuple(fonts),
        drawn_characters=known, hard_texts=hard, rare_texts=rare, latin_fonts=latin, shares=shares,
    )  # fmt: skip
    return DrawnLines(num_lines, recipe, seed=seed)


@dataclass(frozen=True)
class _PairedBatches:
    """Puts lines and the same lines in clean print in batches, in the same order."""

    batches: TextBatches

    def __call__(self, samples: list[Sample | Skipped]) -> list[tuple[TextBatch, TextBatch]]:
        rows = [sample for sample in samples if isinstance(sample, Sample)]
        clean = [replace(row, image=row.extra["clean"]) for row in rows]
        return list(zip(self.batches([*rows]), self.batches([*clean]), strict=True))


class _Learner(Recognition):
    """Trains a recogniser with CTC and with distillation of the initial network; see the module."""

    def __init__(self, model: Any, teacher: Any) -> None:
        super().__init__(model, distils=False)
        self._teacher = teacher.requires_grad_(False)
        self._classes = {character: index + 1 for index, character in enumerate(model.characters)}
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name not in _UNCHANGED)

    def collator(self, batch_size: int) -> Callable[[list[Sample | Skipped]], list[Any]]:
        return _PairedBatches(super().collator(batch_size))

    def loss(self, model: Any, batch: tuple[TextBatch, TextBatch], share: float = 1.0) -> Tensor:
        line, clean = batch
        scores = self._scores(model, line)
        sums = scores.logsumexp(-1, keepdim=True)
        steps = (-(-(~line.data[:, 0, 0].isnan()).sum(1) // model.step_pixels)).to(scores.device)
        with torch.no_grad():
            known = self._scores(self._teacher, clean)
        same = line.data.nan_to_num() == clean.data.nan_to_num()
        is_usual = same.flatten(1).all(1).to(scores.device)
        read = [self._read(best[:stop]) for best, stop in zip(known.argmax(-1), steps.tolist(), strict=True)]
        is_known = torch.tensor([own == text for own, text in zip(read, line.texts, strict=True)], device=scores.device)
        # Rows of dashes have no text. Where the published recogniser reads only signs in them, they are not errors.
        is_empty = torch.tensor([not text for text in line.texts], device=scores.device)
        has_letters = torch.tensor([any(map(str.isalnum, own)) for own in read], device=scores.device)
        ctc = self._ctc(scores, sums, steps, line.texts)
        is_readable = torch.where(is_empty, has_letters, ctc.detach() < _MAX_CTC)
        # The published recogniser is no model for lines that it misreads even in clean print.
        is_taught = torch.where(is_empty, ~has_letters, is_usual | (is_known & is_readable))
        ctc_weights = torch.where(is_usual, *_CTC_WEIGHTS) * is_readable
        distill_weights = torch.where(is_usual, *_DISTILL_WEIGHTS) * is_taught
        return (ctc_weights * ctc + distill_weights * _divergence(scores - sums, known, steps)).mean()

    @torch.no_grad()
    def scores(self, model: Any, dataset: MediaDataset, num_rows: int | None = None) -> dict[str, float]:
        """Return the scores of a recogniser. The best weights have the least loss, which counts forgetting as well."""
        pools = first_rows(dataset, num_rows, _NUM_VALIDATED)
        batches = [batch for samples in pools for batch in self.collator(_NUM_AT_ONCE)([*samples])]
        losses = [float(self.loss(model, batch)) for batch in batches]
        return {**super().scores(model, dataset, num_rows), "score": -sum(losses) / len(losses)}

    def _scores(self, model: Any, batch: TextBatch) -> Tensor:
        features = model.features(self._inputs(batch))
        with torch.autocast(features.device.type, enabled=False):
            scores: Tensor = F.linear(features.float(), model.head.weight, model.head.bias)
        return scores

    def _read(self, classes: Tensor) -> str:
        return "".join(self.model.characters[number - 1] for number in classes.unique_consecutive().tolist() if number)

    def _ctc(self, scores: Tensor, sums: Tensor, steps: Tensor, texts: Sequence[str]) -> Tensor:
        """Return the CTC loss per character of each line, or per step of a line without text, (N,)."""
        used = sorted({self._classes[character] for text in texts for character in text})
        places = {number: index + 1 for index, number in enumerate(used)}
        classes = [places[self._classes[character]] for text in texts for character in text]
        labels = torch.tensor(classes, dtype=torch.int64, device=scores.device)
        lengths = torch.tensor([len(text) for text in texts], device=scores.device)
        logarithms = (scores[..., [0, *used]] - sums).transpose(0, 1)
        losses = F.ctc_loss(logarithms, labels, steps, lengths, reduction="none", zero_infinity=True)
        return losses / torch.where(lengths > 0, lengths, steps)


def _divergence(logarithms: Tensor, known: Tensor, steps: Tensor) -> Tensor:
    """Return the mean divergence of each line (Kullback and Leibler, 1951) from the scores ``known``, (N,).

    It compares the most probable classes one by one, and all other classes as one.
    """
    top = known.topk(_NUM_DISTILLED, -1)
    wanted = (top.values - known.logsumexp(-1, keepdim=True)).exp()
    found = logarithms.gather(-1, top.indices)
    others_wanted, others_found = ((1 - shares.sum(-1)).clamp_min(1e-6) for shares in (wanted, found.exp()))
    of_steps = (wanted * ((wanted + 1e-8).log() - found)).sum(-1) + others_wanted * (others_wanted / others_found).log()
    is_line = torch.arange(of_steps.shape[1], device=steps.device) < steps[:, None]
    return (of_steps * is_line).sum(1) / steps


class _Training(Training):
    def __init__(
        self,
        settings: FitSettings,
        start: Checkpoint,
        published: Any,
        train: DrawnLines,
        validation: DrawnLines,
        path: Path,
    ) -> None:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        super().__init__(settings, start, 0, train, validation, None, path, device, amp=None, num_workers=0)
        self.learner = _Learner(self.model, published.to(device))
        self.loader = self._loader(train, 0)


def _train(args: argparse.Namespace) -> None:
    model = published_reader()
    languages = sorted(set(model.languages) & set(LANGUAGES) - set(_EAST_ASIAN))
    alphabets = {language: "".join(letters_of(texts_of(language))) for language in (*languages, *set(_EAST_ASIAN))}
    fonts = files_to_learn(find_faces(args.fonts), [_LATIN, *alphabets.values()])
    # 35 % Chinese and Japanese, 15 % English; frequent languages and all languages are a quarter each.
    usual = [*17 * _EAST_ASIAN, *30 * ("en",), *6 * _FREQUENT, *languages]
    texts, rare = _hard_texts(args.words, 4), rare_texts(english_words(args.words), 20_000, 6)

    def lines(num_lines: int, seed: int) -> DrawnLines:
        return hard_lines(
            num_lines, texts=texts, fonts=fonts, languages=usual, characters=model.vocab, seed=seed, rare=rare,
            shares=(_HARD_SHARE, _SEPARATOR_SHARE, _RARE_SHARE),
        )  # fmt: skip

    settings = FitSettings(
        arch=ARCH, pretrained=True, vocab=None, extend_vocab=False, epochs=args.epochs, batch_size=args.batch_size,
        learning_rate=args.learning_rate, weight_decay=0.0, warmup=0.05, ema_decay=0.998, clip_norm=2.0,
        keep_weight=0.0, blend=1.0, patience=None, augment=False, page_size=None, crop_size=None, seed=args.seed,
        num_rows=args.lines, num_validation_rows=_NUM_VALIDATED, num_kept_rows=0,
    )  # fmt: skip
    torch.manual_seed(args.seed)
    first = with_published_layer(read_checkpoint(args.start)) if args.start else model
    start = Checkpoint(ARCH, first.state_dict(), list(model.characters))
    print(f"{len(fonts)} faces", flush=True)
    train, validation = lines(args.lines, 2 * args.seed), lines(_NUM_VALIDATED, 2 * args.seed + 1)
    training = _Training(settings, start, model, train, validation, args.output / TRAINED)
    training.resume()
    training.run(120, print_epoch)


def _hard_texts(word_list: Path, seed: int) -> list[str]:
    words = english_words(word_list)
    return latin_texts(words, 20_000, seed) + form_texts(words, 20_000, seed)


def _mean(first: dict[str, Tensor], second: dict[str, Tensor], share: float) -> dict[str, Tensor]:
    """Return ``first + share * (second - first)``; integers are those of the first."""
    return {
        name: value.lerp(second[name], share) if value.is_floating_point() else value for name, value in first.items()
    }


def blended(published: dict[str, Tensor], trained: dict[str, Tensor], alpha: float) -> dict[str, Tensor]:
    """Return ``published + alpha * (trained - published)``, in half precision except for the small frozen layers."""
    return half_weights(_mean(published, trained, alpha), unchanged=FROZEN)


def _blend(args: argparse.Namespace) -> None:
    model, trained = published_reader(), read_checkpoint(args.output / TRAINED)
    learnt = dict(trained.state_dict)
    if args.start:
        learnt = _mean(with_published_layer(read_checkpoint(args.start)).state_dict(), learnt, 0.5)
    weights = blended(model.state_dict(), learnt, args.alpha)
    card = model_card("hard_lines", trained, alpha=args.alpha, **{"mean with start": args.start is not None})
    file = args.model or args.output / BLEND
    save_checkpoint(file, replace(trained, state_dict=weights, card=card))
    checksum = hashlib.sha256(file.read_bytes()).hexdigest()
    print(f"{file}: epoch {card['epoch']}, {file.stat().st_size / 1e6:.1f} MB, SHA-256 {checksum}")


def _score(args: argparse.Namespace) -> None:
    readers = {
        "published": published_reader(),
        "blend": load_checkpoint(args.model or args.output / BLEND),
    }
    faces, rows = find_faces(args.fonts), []
    for language in _SCORED:
        fonts = parted_faces(faces, "".join(letters_of(texts_of(language))))[1]
        if not fonts:
            print(f"{language}: no held-out font has its letters", flush=True)
            continue
        lines = drawn_lines(args.scored, languages=[language], fonts=fonts, seed=11)
        rows += score_readers(language, len(fonts), lines, readers)
    fonts = parted_faces(faces, _LATIN)[1]
    texts = _hard_texts(args.words, 5)
    hard = hard_lines(
        args.scored, texts=texts, fonts=fonts, languages=["en"], characters=readers["published"].vocab, seed=11
    )
    rows += score_readers("hard lines", len(fonts), hard, readers)
    rare = drawn_lines(args.scored, texts=rare_texts(english_words(args.words), 20_000, 7), fonts=fonts, seed=11)
    report_scores(args, "ocr_hard_lines", rows + score_readers("rare texts", len(fonts), rare, readers))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    actions = {"train": _train, "blend": _blend, "score": _score}
    parser = training_parser("hard_lines", __doc__, actions, 2.3e-5)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the training (default: 0)")
    parser.add_argument(
        "--fonts", nargs="+", metavar="PATH", help="font files and folders (default: those of this machine)"
    )
    parser.add_argument(
        "--start",
        type=Path,
        metavar="FILE",
        help="checkpoint to train further and to blend (default: published)",
    )
    parser.add_argument("--alpha", type=float, default=0.5, metavar="X", help="share of the difference (default: 0.5)")
    parser.add_argument(
        "--model", type=Path, metavar="FILE", help=f"the blend to write or to score (default: {BLEND} in the folder)"
    )
    return run_action(parser, actions, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
