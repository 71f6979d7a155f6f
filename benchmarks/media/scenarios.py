"""Scenarios: each defines its preparation, its timed run, and the frames that it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from .case import Case, Library

# Receives (path, frame indices, batch) during decoding. In timed runs it does next to nothing.
See = Callable[[str, Sequence[int], Any], None]


@dataclass(frozen=True)
class Kind:
    """How to run cases of one kind.

    Attributes:
        run: Runs a case on what ``prepare`` gave: this is timed.
        prepare: Untimed preparation.
        num_frames: Number of frames that a run returns.
        rehearsal: A smaller case that shows the same frames, to compare them.
    """

    run: Callable[[Library, Case, Any, See], None]
    num_frames: Callable[[Case], int]
    prepare: Callable[[Library, Case], Any] = lambda library, case: None
    rehearsal: Callable[[Case], Case] = lambda case: case


def _count(library: Library, case: Case, _: Any, see: See) -> None:
    """Open every file and count its frames."""
    for path in case.paths:
        library.count(library.open(path, case.size))


def _fetch(library: Library, case: Case, _: Any, see: See) -> None:
    """Open every file and get the frames of each call together."""
    for path, calls in case.calls():
        decoder = library.open(path, case.size)
        for call in calls:
            see(path, call, library.fetch(decoder, call))


def _loader(library: Library, case: Case, _: Any, see: See) -> None:
    """Open the file many times from several threads, and get the same frames each time."""
    with ThreadPoolExecutor(case.num_threads) as pool:
        list(pool.map(lambda _: _fetch(library, case, None, see), range(case.num_decodes)))


def _opened(library: Library, case: Case) -> Any:
    """Return a decoder that has counted its frames."""
    decoder = library.open(case.paths[0], case.size)
    library.count(decoder)
    return decoder


def _opened_and_fetched(library: Library, case: Case) -> Any:
    decoder = _opened(library, case)
    library.fetch(decoder, case.indices)
    return decoder


def _fetch_from(library: Library, case: Case, decoder: Any, see: See) -> None:
    """Get some frames in one call, from a decoder that is already open."""
    see(case.paths[0], case.indices, library.fetch(decoder, case.indices))


def _up_to_the_last_call(library: Library, case: Case) -> Any:
    decoder = _opened(library, case)
    ((_, calls),) = case.calls()
    for call in calls[:-1]:
        library.fetch(decoder, call)
    return decoder


def _last_call(library: Library, case: Case, decoder: Any, see: See) -> None:
    """Get the frames of the last call, after the earlier calls."""
    ((path, calls),) = case.calls()
    see(path, calls[-1], library.fetch(decoder, calls[-1]))


def _step(library: Library, case: Case, decoder: Any, see: See) -> None:
    """Get frames one by one, from a decoder that is already open."""
    for i in case.indices:
        see(case.paths[0], [i], library.item(decoder, i))


def _open_and_step(library: Library, case: Case, _: Any, see: See) -> None:
    """Open the file and get frames one by one."""
    _step(library, case, library.open(case.paths[0], case.size), see)


def _fetch_twice(library: Library, case: Case, _: Any, see: See) -> None:
    """Open the file and get the same frames twice."""
    decoder = library.open(case.paths[0], case.size)
    for _ in range(2):
        see(case.paths[0], case.indices, library.fetch(decoder, case.indices))


def _iterate(library: Library, case: Case, _: Any, see: See) -> None:
    """Open the file and look at every frame, in order."""
    path = case.paths[0]
    for i, batch in zip(case.indices, library.iterate(library.open(path, case.size)), strict=True):
        see(path, [i], batch)


def _iterate_backwards(library: Library, case: Case, _: Any, see: See) -> None:
    """Open the file and look at every frame, from the last to the first."""
    path = case.paths[0]
    for i, batch in zip(case.indices, library.iterate_backwards(library.open(path, case.size)), strict=True):
        see(path, [i], batch)


def _one_decode(case: Case) -> Case:
    return replace(case, kind="fetch", num_decodes=1, num_threads=1)


def _num_indices(case: Case) -> int:
    return len(case.indices)


#: Every kind of scenario by its name.
KINDS: dict[str, Kind] = {
    "count": Kind(_count, lambda case: 0),
    "fetch": Kind(_fetch, lambda case: case.num_frames),
    "loader": Kind(_loader, lambda case: case.num_decodes * case.num_frames, rehearsal=_one_decode),
    "again": Kind(_fetch_from, _num_indices, _opened_and_fetched),
    "last call": Kind(_last_call, lambda case: case.clip_length, _up_to_the_last_call),
    "step": Kind(_step, _num_indices, _opened),
    "open and step": Kind(_open_and_step, _num_indices),
    "twice": Kind(_fetch_twice, lambda case: 2 * len(case.indices)),
    "iterate": Kind(_iterate, _num_indices),
    "iterate backwards": Kind(_iterate_backwards, _num_indices),
}
