"""Read tar shards, manifests, and the saved state of an epoch."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from mediatensor.datasets import Item, TarItems, TarSamples, VideoClips, as_items

from .answers import Answers, WrongAnswerError
from .corpus_datasets import NUM_ROWS, BytesRecipe, row_loader, stream_loader

__all__ = ["read_rows", "read_state", "read_tar"]

_MAX_ROWS = 50
_MAX_BATCHES = 20
# Keys that a state and its loader must have in common.
_IDENTITY = ("version", "seed", "order", "num_shards", "shards")


def read_tar(answers: Answers, rng: random.Random, path: Path, folder: Path) -> None:
    answers.ask("stream", lambda: [sample.extra["data"] for sample in TarSamples(path, BytesRecipe())])
    answers.ask("skip", lambda: [type(one).__name__ for one in TarSamples(path, BytesRecipe(), on_error="skip")])
    items = answers.ask("items", lambda: TarItems(path))
    if items is not None:
        answers.ask("names", lambda: [repr(items[number].name) for number in range(min(_MAX_ROWS, len(items)))])


def read_rows(answers: Answers, rng: random.Random, path: Path, folder: Path) -> None:
    kind = rng.choice(("video", "video", "video", "audio", "document"))
    columns = rng.choice(({}, {}, {"label_column": "label"}, {"media_column": "path"}))
    items = answers.ask("items", lambda: as_items(path, kind=kind, **columns))
    if items is None:
        return
    for number in range(min(_MAX_ROWS, len(items))):
        answers.ask(f"item {number}", partial(_facts_of, items, number))
    answers.ask("sent", lambda: len(pickle.loads(pickle.dumps(items))))
    if kind != "video":
        return
    clips = answers.ask("clips", lambda: VideoClips(items, num_frames_per_clip=2, on_error="skip"))
    if clips is not None:
        answers.ask("row", lambda: type(clips[rng.randrange(len(clips))]).__name__)
        answers.ask("classes", lambda: clips.class_names)
        clips.close()


def _facts_of(items: Sequence[Item], number: int) -> list[str]:
    item = items[number]
    source = item.source if isinstance(item.source, bytes) else str(item.source)
    return [repr(item.name), repr(item.label), repr(dict(item.extra)), f"{type(source).__name__} of {len(source)}"]


def read_state(answers: Answers, rng: random.Random, path: Path, folder: Path) -> None:
    try:
        state = json.loads(path.read_bytes())["state"]
    except (ValueError, RecursionError, KeyError, TypeError):
        answers.errors["no JSON"] += 1  # not for the library to read
        return
    is_stream = isinstance(state, list) or (isinstance(state, dict) and "given" in state)
    loader = stream_loader(folder) if is_stream else row_loader(rng.choice((2, 3)))
    if rng.random() < 0.7:
        _claim(state, loader)
    if answers.ask("load", partial(_loaded, loader, state)):
        rows = answers.ask("read", partial(_rows_of, loader))
        if rows is not None and not is_stream:
            _check_rows(rows)
        answers.ask("state", partial(_stored, loader))


def _claim(state: Any, loader: Any) -> None:
    """Make a state claim to belong to the loader, as an attacker would."""
    facts = loader.state_dict()
    for one in state if isinstance(state, list) else [state]:
        if isinstance(one, dict):
            one |= {name: facts[name] for name in _IDENTITY if name in facts}


def _rows_of(loader: Any) -> list[int]:
    return [sample.row for batch in islice(loader, _MAX_BATCHES) for sample in batch]


def _stored(loader: Any) -> str:
    return json.dumps(loader.state_dict())


def _loaded(loader: Any, state: Any) -> bool:
    loader.load_state_dict(state)
    return True


def _check_rows(rows: list[int]) -> None:
    if len(set(rows)) != len(rows) or not set(rows) <= set(range(NUM_ROWS)):
        raise WrongAnswerError(f"the rest of an epoch has the rows {rows}")
