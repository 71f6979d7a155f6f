"""``mediatensor evaluate``: how well a model reads lines, or finds text on pages."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from ..errors import InvalidArgumentError
from ._console import EXIT_ERROR, STANDARD, emit, emit_bytes

if TYPE_CHECKING:
    from ..datasets import MediaDataset

__all__ = ["run"]

_DEFAULTS = {"recognition": "ppocr_v6_small_reco", "detection": "ppocr_v6_small_det"}


def run(args: argparse.Namespace) -> int:
    from ..ocr.training import evaluate, picture_format

    if args.picture is not None:
        picture_format(args.picture)  # before all is read
    dataset = _dataset(args)
    found = evaluate(
        args.model or _DEFAULTS[args.task],
        dataset,
        task=args.task,
        device=args.device,
        num_worst=args.worst,
        iou_threshold=args.iou,
        batch_size=args.batch_size,
    )
    # Files first: whoever reads the output may stop early, as `head` does.
    if args.picture is not None:
        found.save_picture(args.picture)
    if args.json not in (None, STANDARD):
        found.save_json(args.json)
    if args.json == STANDARD:
        emit_bytes((json.dumps(found.to_dict(), ensure_ascii=False, indent=1) + "\n").encode())
    else:
        emit(found.render())
    return EXIT_ERROR if found.failures else 0


def _dataset(args: argparse.Namespace) -> MediaDataset:
    from ..ocr.training import LineDataset, PageDataset

    # Every row that fails is reported, however many there are.
    options: dict[str, Any] = {"on_error": "skip", "max_consecutive_failures": 1 << 30}
    if args.task == "recognition":
        return LineDataset(args.data, images=args.images, **options)
    if args.images is not None:
        raise InvalidArgumentError("--images goes with recognition: a manifest of pages has their paths.")
    return PageDataset(args.data, **options)
