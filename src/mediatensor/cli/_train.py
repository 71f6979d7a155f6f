"""``mediatensor train`` and ``mediatensor evaluate``: train or evaluate a model on your lines or pages."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._engine.common.messages import json_bytes
from .._engine.sources.output_files import check_outputs
from ..datasets._sources.dispatch import files_of
from ..errors import InvalidArgumentError
from ._console import EXIT_ERROR, STANDARD, emit, emit_bytes, emit_lines

if TYPE_CHECKING:
    from ..datasets import MediaDataset

_DEFAULTS = {
    "recognition": "ppocr_v6_small_reco_tuned",
    "detection": "ppocr_v6_small_det",
    "orientation": "ppocr_mobile_v2_line_orientation",
}
#: Largest number of generated validation rows. Below it, they are a tenth of the number of training rows.
_MAX_DRAWN_VALIDATION = 100


def run(args: argparse.Namespace) -> int:
    return _evaluate(args) if args.command == "evaluate" else _train(args)


def _train(args: argparse.Namespace) -> int:
    from ..ocr.training import fit

    rows = {"on_error": args.on_error}
    if (args.train is None) == (args.train_languages is None):
        raise InvalidArgumentError("Give --train or --train-languages, one of them.")
    if args.train is not None and args.validation is None:
        raise InvalidArgumentError("--train needs --validation: other data, which select the best weights.")
    if args.keep is not None and args.keep_languages:
        raise InvalidArgumentError("Give --keep or --keep-languages, not both.")
    if args.train is not None:
        train = _dataset(args.task, args.train, rows)
    else:
        train = _generate(args, args.num_drawn, args.train_languages, args.seed)
    if args.validation is not None:
        validation = _dataset(args.task, args.validation, rows)
    else:
        num_rows = min(max(args.num_drawn // 10, 1), _MAX_DRAWN_VALIDATION)
        validation = _generate(args, num_rows, args.train_languages, args.seed + 1)
    keep = None if args.keep is None else _dataset(args.task, args.keep, rows)
    if args.keep_languages:
        keep = _generate(args, len(train), args.keep_languages, args.seed + 2)
    done = fit(
        args.start or _DEFAULTS[args.task],
        train,
        validation=validation,
        keep=keep,
        out=args.output,
        pretrained=not args.random_weights,
        vocab=args.vocab,
        extend_vocab=args.extend_vocab,
        epochs=args.epochs,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        ema_decay=args.ema_decay,
        blend=args.blend,
        patience=args.patience,
        augment=not args.no_augment,
        page_size=args.page_size,
        crop_size=args.crop_size,
        seed=args.seed,
        device=args.device,
        amp=True if args.half else None,
        num_workers=args.workers,
        resume=not args.no_resume,
        overwrite=args.overwrite,
        report=_report,
    )
    emit(f"{done.path}: epoch {done.best_epoch} is the best. {_scores(done.scores)}.")
    return 0


def _dataset(task: str, path: Path, options: Mapping[str, Any]) -> MediaDataset:
    from ..ocr.training import LineDataset, PageDataset

    return PageDataset(path, **options) if task == "detection" else LineDataset(path, **options)


def _generate(args: argparse.Namespace, num_rows: int, languages: str, seed: int) -> MediaDataset:
    """Generate a dataset: pages for text detectors and page classifiers, lines for all other tasks."""
    from ..ocr.models import detection_predictor
    from ..ocr.training import drawn_lines, drawn_pages

    language_names = languages.split(",")
    start = args.start or _DEFAULTS[args.task]
    if args.task == "detection":
        text_unit = args.text_unit or ("line" if detection_predictor(start).finds_lines else "word")
        return drawn_pages(num_rows, languages=language_names, text_unit=text_unit, seed=seed)
    if "page_orientation" in start:
        return drawn_pages(num_rows, languages=language_names, seed=seed)
    return drawn_lines(num_rows, languages=language_names, characters=args.vocab, seed=seed)


def _report(epoch: Mapping[str, Any]) -> None:
    parts = [f"epoch {epoch['epoch']:>3}"]
    if epoch["loss"] is not None:
        parts.append(f"loss {epoch['loss']:.4f}")
    parts.append(_scores(epoch["validation"]))
    if epoch["keep"] is not None:
        parts.append(f"rehearsal: {_scores(epoch['keep'])}")
    parts.append(f"{epoch['seconds']:.0f} s")
    emit("  ".join(parts))


def _scores(scores: Mapping[str, Any]) -> str:
    if "character_error_rate" in scores:
        return f"characters wrong {scores['character_error_rate']:.2%}, lines exact {scores['exact']:.1%}"
    if "recall" in scores:
        return f"recall {scores['recall']:.1%}, precision {scores['precision']:.1%}"
    return f"directions right {scores['score']:.1%}"


def _evaluate(args: argparse.Namespace) -> int:
    from ..ocr.training import evaluate, picture_format

    if args.picture is not None:
        picture_format(args.picture)  # raises before the dataset is read
    outputs = [path for path in (args.picture, args.json) if path not in (None, STANDARD)]
    # Report every row that fails.
    options: dict[str, Any] = {"on_error": "skip", "max_consecutive_failures": 1 << 30}
    if args.task == "recognition":
        options["images"] = args.images
    elif args.images is not None:
        raise InvalidArgumentError("--images is for recognition; a manifest of pages has their paths.")
    dataset = _dataset(args.task, args.data, options)
    check_outputs(outputs, [args.model, *files_of(dataset.items)], overwrite=args.overwrite)
    evaluation = evaluate(
        args.model or _DEFAULTS[args.task],
        dataset,
        task=args.task,
        device=args.device,
        num_worst=args.worst,
        iou_threshold=args.iou,
        batch_size=args.batch_size,
    )
    # Write files before printing, because a pipe may close early (`head`).
    if args.picture is not None:
        evaluation.save_picture(args.picture)
    if args.json not in (None, STANDARD):
        evaluation.save_json(args.json)
    if args.json == STANDARD:
        emit_bytes(json_bytes(evaluation.to_dict(), indent=1) + b"\n")
    else:
        emit_lines(evaluation.render().split("\n"))
    return EXIT_ERROR if evaluation.failures else 0
