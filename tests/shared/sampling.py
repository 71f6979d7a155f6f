"""Select the tests of a run: a sample of the grids of clips, and no slow tests. ``pytest --all`` runs everything.

A grid consists of tests over clips of `media` or `media_audio`, or over real files, and perhaps over something else,
such as the ways to ask for frames. The large tests of a module are one grid. By default, a run tries a sixth of its
ways, which are tests with their other parameters, on each kind of clip, which is a container with a codec, and each
way on some kind. A test with the mark ``every_clip`` is a grid of its own, and also runs on each clip at least once.

Other grids are tests with several ``parametrize`` marks, or fixtures with parameters. Of those, a run takes cells in
which each value of each mark and fixture occurs once.

Small grids run whole. The sample depends only on the names of the tests, so that all processes and all runs choose the
same cells.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

import media
import media_audio

__all__ = ["choose_cells", "choose_values"]

# Of clips, by name.
_KINDS: dict[object, tuple[str, str]] = {
    name: (spec.container, spec.codec)
    for clips in (media.CLIPS, media_audio.SOUND_CLIPS, media_audio.DAMAGED_CLIPS)
    for name, spec in clips.items()
}
_REAL_FILE = re.compile(r"[\w.-]+__.+\.(\w+):\d+")
# Of the ways to use clips, this part is tried on each kind of clip.
_PART_OF_WAYS = 6
# Grids with fewer cells run whole.
_NUM_CELLS_OF_LARGE_GRID = 12
_NUM_CELLS_OF_LARGE_PRODUCT = 6
_GRID_CELLS, _SLOW_TESTS = "of large grids", "slow"
# The clips of a test, and the way to use them.
_Cell = tuple[Sequence[str], object]
# The processes of pytest-xdist each collect all tests, so the numbers of one are the numbers of the run.
_num_left_out_key = pytest.StashKey[dict[str, int]]()


def choose_cells(cells: Mapping[str, _Cell], *, every_clip: bool = False) -> set[str]:
    """Return the names of the cells of a grid that are run by default, with each clip if it must be ``every_clip``."""
    in_fixed_random_order = sorted(cells, key=lambda name: (zlib.crc32(name.encode()), name))
    chosen: set[str] = set()
    seen_cells: set[object] = set()
    seen_clips: set[object] = set()
    seen_ways: set[object] = set()
    kinds_of = {name: tuple(map(_kind_of_clip, clips)) for name, (clips, _) in cells.items()}
    most_ways = -(-len({way for _, way in cells.values()}) // _PART_OF_WAYS)
    num_ways: Counter[object] = Counter()

    def choose(is_needed: Callable[[object, object, set[object]], bool]) -> None:
        for name in in_fixed_random_order:
            kind, way, clips = kinds_of[name], cells[name][1], set(cells[name][0])
            if is_needed(kind, way, clips):
                chosen.add(name)
                num_ways[kind] += (kind, way) not in seen_cells
                seen_cells.add((kind, way))
                seen_ways.add(way)
                seen_clips.update(clips)

    def is_wanted(kind: object, way: object) -> bool:
        return num_ways[kind] < most_ways and (kind, way) not in seen_cells

    # Clips that are not in the sample yet come first, so that it has as many of them as possible.
    choose(lambda kind, way, clips: is_wanted(kind, way) and not clips <= seen_clips)
    choose(lambda kind, way, _: is_wanted(kind, way))
    choose(lambda _, way, __: way not in seen_ways)
    if every_clip:
        choose(lambda _, __, clips: not clips <= seen_clips)
    return chosen


def choose_values(cells: Mapping[str, Iterable[object]]) -> set[str]:
    """Return the names of cells in which each value occurs."""
    chosen: set[str] = set()
    seen: set[object] = set()
    left = {name: set(cells[name]) for name in sorted(cells, key=lambda name: (zlib.crc32(name.encode()), name))}
    for num_new in range(max(map(len, left.values())), 0, -1):
        for name, values in left.items():
            if len(values - seen) >= num_new:
                chosen.add(name)
                seen |= values
    return chosen


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the whole grids of clips, and slow tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # A test that is named by its identifier must run.
    if config.getoption("--all") or any("::" in argument for argument in config.args):
        return
    reasons = {item: _SLOW_TESTS for item in items if item.get_closest_marker("slow")}
    functions: defaultdict[tuple[Any, str], dict[str, Any]] = defaultdict(dict)
    for item in items:
        if hasattr(item, "callspec"):
            functions[item.parent, item.originalname][item.name] = item
    for cells in _find_grids(functions):
        every_clip = any(item.get_closest_marker("every_clip") for item, _ in cells.values())
        chosen = choose_cells({name: cell for name, (_, cell) in cells.items()}, every_clip=every_clip)
        reasons |= {item: _GRID_CELLS for name, (item, _) in cells.items() if name not in chosen}
    for tests in functions.values():
        values = {name: _values_of_marks(item) for name, item in tests.items()}
        is_product = len(values) >= _NUM_CELLS_OF_LARGE_PRODUCT and max(map(len, values.values())) > 1
        if is_product and not _parameters_of_clips(tests):
            chosen = choose_values(values)
            reasons |= {item: _GRID_CELLS for name, item in tests.items() if name not in chosen}
    # Without `pytest_deselected`, with which each process would keep the tests that are left out: 100 MB.
    items[:] = [item for item in items if item not in reasons]
    config.stash[_num_left_out_key] = Counter(reasons.values())
    if hasattr(config, "workeroutput"):  # a process of pytest-xdist
        config.workeroutput["num_left_out"] = dict(config.stash[_num_left_out_key])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    if num_left_out := getattr(node, "workeroutput", {}).get("num_left_out"):
        node.config.stash[_num_left_out_key] = num_left_out


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if num_left_out := config.stash.get(_num_left_out_key, {}):
        numbers = " and ".join(f"{number} {kind}" for kind, number in sorted(num_left_out.items()))
        terminalreporter.write_line(f"tests left out: {numbers}; --all (make test-all) runs them")


def _find_grids(functions: Mapping[tuple[Any, str], Mapping[str, Any]]) -> list[dict[str, tuple[Any, _Cell]]]:
    """Return the tests of each module that are of functions with many tests over clips, by name."""
    grids: defaultdict[object, dict[str, tuple[Any, _Cell]]] = defaultdict(dict)
    for (module, function), tests in functions.items():
        of_clips = _parameters_of_clips(tests)
        if of_clips and len(tests) >= _NUM_CELLS_OF_LARGE_GRID:
            has_mark = any(item.get_closest_marker("every_clip") for item in tests.values())
            for name, item in tests.items():
                parameters = sorted(item.callspec.params.items())
                clips = tuple(value for parameter, value in parameters if parameter in of_clips)
                others = (_key(value) for parameter, value in parameters if parameter not in of_clips)
                # The test is one of the parameters of its grid.
                grids[module, function if has_mark else None][name] = item, (clips, (function, *others))
    return list(grids.values())


def _parameters_of_clips(tests: Mapping[str, Any]) -> set[str]:
    """Return the parameters of a function that are clips, or real files, in each of its tests."""
    names = set.intersection(*(set(item.callspec.params) for item in tests.values()))
    return {name for name in names if all(_is_clip(item.callspec.params[name]) for item in tests.values())}


def _values_of_marks(item: Any) -> set[object]:
    """Return what each mark and each fixture gives a test: a mark may set several parameters at once."""
    names_of_marks = [
        tuple(name.strip() for name in mark.args[0].split(",")) if isinstance(mark.args[0], str) else mark.args[0]
        for mark in item.iter_markers("parametrize")
    ]
    parameters = item.callspec.params
    names_of_fixtures = [(name,) for name in parameters.keys() - {name for names in names_of_marks for name in names}]
    return {
        (names, *(_key(parameters[name]) for name in names if name in parameters))
        for names in names_of_marks + names_of_fixtures
    }


def _is_clip(value: object) -> bool:
    return isinstance(value, str) and (value in _KINDS or _REAL_FILE.fullmatch(value) is not None)


def _kind_of_clip(name: str) -> tuple[str, ...]:
    if name in _KINDS:
        return _KINDS[name]
    match = _REAL_FILE.fullmatch(name)
    assert match is not None
    return ("real file", match[1].lower())


def _key(value: object) -> object:
    # The tests of a function share the objects that they are given, which need not be hashable.
    return value if isinstance(value, str) else id(value)
