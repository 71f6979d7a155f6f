"""Parsers that are functions of bytes return, or raise intended exceptions, for any bytes."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from .corpus import KINDS
from .mutations import mutated
from .parsers import PARSERS, seeds_of

_NUM_EXAMPLES = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parsers")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some parsers read files; side by side, each has its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.parametrize("name", PARSERS)
def test_no_bytes_do_harm(name: str, folder: Path) -> None:
    parse, kind = PARSERS[name]
    seeds = seeds_of(name, folder)
    for seed in seeds:
        parse(seed)

    @example(b"")
    @given(st.one_of(st.binary(max_size=200), st.integers(0, 1 << 32)))
    @settings(max_examples=_NUM_EXAMPLES, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def run(drawn: bytes | int) -> None:
        if isinstance(drawn, int):  # a seed: it is shorter to print than the file
            rng = random.Random(drawn)
            drawn = mutated(kind, rng, rng.choice(seeds), rng.choice(seeds))[0]
        parse(drawn)

    run()


def test_every_parser_has_files_of_a_kind() -> None:
    assert {kind for _, kind in PARSERS.values()} <= set(KINDS)
