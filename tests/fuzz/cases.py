"""One case: a damaged file made from a kind and a seed, and what came of reading it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from .answers import Answers
from .corpus import seed_file, seed_names
from .mutations import mutated
from .reading import READERS

__all__ = ["Case", "Damaged", "damaged_file", "read_case"]


@dataclass(frozen=True)
class Case:
    """A kind of `corpus.KINDS` and a seed; the same file on every machine with the same encoders."""

    kind: str
    seed: int

    def __str__(self) -> str:
        return f"{self.kind} {self.seed}"


@dataclass(frozen=True)
class Damaged:
    """A damaged file: its bytes, the name of the intact file, and the changes."""

    data: bytes
    name: str
    done: list[str] = field(default_factory=list)


def damaged_file(case: Case, folder: Path) -> Damaged:
    """The file of a case; ``folder`` keeps the sound ones."""
    rng = random.Random(str(case))
    name, other = rng.choice(seed_names(case.kind)), rng.choice(seed_names(case.kind))
    sound = seed_file(case.kind, name, folder)
    data, done = mutated(case.kind, rng, sound, seed_file(case.kind, other, folder))
    return Damaged(data, name, done)


def read_case(case: Case, path: Path, folder: Path) -> Answers:
    """Read the file in ``path`` as programs do; the calls are chosen by the case as well."""
    answers = Answers()
    READERS[case.kind](answers, random.Random(f"questions {case}"), path, folder)
    return answers
