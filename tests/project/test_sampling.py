"""By default, a run leaves out most of the large grids of clips and slow tests, and reports it."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Sequence

import pytest

import media
import sampling

pytest_plugins = ["pytester"]

WAYS = ("first", "backwards", "random", "slices")
CLIPS = media.VIDEO_CLIPS[:60]
SUITE = f"""
import pytest

@pytest.mark.parametrize("clip", {CLIPS})
@pytest.mark.parametrize("way", {WAYS})
def test_large_grid(clip, way):
    pass

@pytest.mark.parametrize("clip", {CLIPS})
def test_of_the_same_grid(clip):
    pass

@pytest.mark.parametrize("clip", {CLIPS[:2]})
@pytest.mark.parametrize("way", {WAYS})
def test_small_grid(clip, way):
    pass

@pytest.mark.parametrize("first", range(16))
@pytest.mark.parametrize(("second", "third"), [(1, 1), (1, 2), (2, 1)])
def test_product(first, second, third):
    pass

@pytest.fixture(params=range(3))
def way(request):
    return request.param

@pytest.mark.parametrize("first", range(4))
def test_product_with_a_fixture(first, way):
    pass

@pytest.mark.parametrize("first", [{CLIPS[0]!r}, "no clip", "nor this", "nor that"])
@pytest.mark.parametrize("way", {WAYS})
def test_product_with_a_name_of_a_clip(first, way):
    pass

@pytest.mark.parametrize("first", range(5))
@pytest.mark.parametrize("second", [1])
def test_small_product(first, second):
    pass

@pytest.mark.parametrize("first", range(100))
def test_cases(first):
    pass

@pytest.mark.slow
def test_slow():
    pass
"""
NUM_TESTS = (60 + 2) * len(WAYS) + 60 + 16 * 3 + 4 * 3 + 4 * len(WAYS) + 5 + 100 + 1


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini("[pytest]\nmarkers = slow")
    pytester.makepyfile(test_suite=SUITE)
    return pytester


def run_suite(suite: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return suite.runpytest_inprocess("-p", "sampling", "-p", "no:cacheprovider", *arguments)


def cells_of(ways: Sequence[str]) -> dict[str, tuple[list[str], str]]:
    return {f"test[{clip}-{way}]": ([clip], way) for clip in media.VIDEO_CLIPS for way in ways}


def kind_of(clip: str) -> tuple[str, str]:
    return media.CLIPS[clip].container, media.CLIPS[clip].codec


def test_sample_has_a_sixth_of_the_ways_on_every_kind_of_clip() -> None:
    ways = [f"way {number}" for number in range(11)]
    cells = cells_of(ways)
    chosen = sampling.choose_cells(cells)
    pairs = {(kind_of(cells[name][0][0]), cells[name][1]) for name in chosen}
    kinds = {kind_of(clip) for clip in media.VIDEO_CLIPS}
    assert Counter(kind for kind, _ in pairs) == dict.fromkeys(kinds, 2)
    assert {way for _, way in pairs} == set(ways)
    assert len(chosen) == 2 * len(kinds) < len(cells) / 6


def test_sample_has_every_clip_if_that_is_asked_for() -> None:
    cells = cells_of(WAYS)
    chosen = sampling.choose_cells(cells, every_clip=True)
    assert chosen >= sampling.choose_cells(cells)
    assert {cells[name][0][0] for name in chosen} == set(media.VIDEO_CLIPS)
    assert len(chosen) < len(cells) / 2


def test_sample_of_a_product_has_each_value() -> None:
    cells = {f"test[{a}-{b}]": {("a", a), ("b", b)} for a, b in itertools.product(range(7), range(5))}
    chosen = sampling.choose_values(cells)
    assert set().union(*(cells[name] for name in chosen)) == set().union(*cells.values())
    assert len(chosen) == 7


def test_sample_does_not_depend_on_the_order_of_tests() -> None:
    cells = cells_of(WAYS)
    names = list(cells)
    random.Random(0).shuffle(names)
    assert sampling.choose_cells({name: cells[name] for name in names}) == sampling.choose_cells(cells)


def test_only_large_grids_and_slow_tests_are_left_out(suite: pytest.Pytester) -> None:
    result = run_suite(suite, "--collect-only", "-q")
    num_run = Counter(re.findall(r"^test_suite\.py::(\w+)", result.stdout.str(), re.MULTILINE))
    num_kinds = len({kind_of(clip) for clip in CLIPS})
    of_grid = [num_run.pop(name) for name in ("test_large_grid", "test_of_the_same_grid")]
    assert sum(of_grid) == num_kinds < 60 * len(WAYS)
    assert min(of_grid) > 0
    assert num_run == {
        "test_small_grid": 2 * len(WAYS),
        "test_product": 16,
        "test_product_with_a_fixture": 4,
        "test_product_with_a_name_of_a_clip": 4,
        "test_small_product": 5,
        "test_cases": 100,
    }


@pytest.mark.parametrize("processes", [(), ("-p", "xdist", "-n", "1")], ids=["one", "xdist"])
def test_summary_says_how_many_tests_are_left_out(suite: pytest.Pytester, processes: tuple[str, ...]) -> None:
    result = run_suite(suite, "-q", *processes)
    num_cells = NUM_TESTS - 1 - result.parseoutcomes()["passed"]
    assert num_cells > 0
    line = f"tests left out: {num_cells} of large grids and 1 slow; --all (make test-all) runs them"
    assert line in result.outlines


def test_all_runs_everything(suite: pytest.Pytester) -> None:
    result = run_suite(suite, "--all", "-q", "--collect-only")
    assert f"{NUM_TESTS} tests collected" in result.stdout.str()
    assert "left out" not in result.stdout.str()


def test_tests_named_by_their_identifier_always_run(suite: pytest.Pytester) -> None:
    run_suite(suite, "test_suite.py::test_slow").assert_outcomes(passed=1)
    result = run_suite(suite, "--collect-only", "-q", "test_suite.py::test_large_grid")
    assert f"{60 * len(WAYS)} tests collected" in result.stdout.str()
