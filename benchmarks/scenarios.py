"""What is measured: a scenario says what is prepared, what runs under the clock, and which frames come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from .case import Case
from .libraries import Library

__all__ = ["KINDS", "Kind", "See"]

# Takes (path, indices of frames, batch of them) as they are decoded. While the clock runs it does next to nothing.
See = Callable[[str, Sequence[int], Any], None]


@dataclass(frozen=True)
class Kind:
    """How to run cases of one kind.

    Attributes:
        run: Runs a case on what ``prepare`` gave: this is timed.
        prepare: What comes before, with the clock stopped.
        num_frames: How many frames a run returns.
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
    """Open every file and get some frames in one call."""
    for path in case.paths:
        see(path, case.indices, library.fetch(library.open(path, case.size), case.indices))


def _loader(library: Library, case: Case, _: Any, see: See) -> None:
    """Open the file many times from several threads, and get the same frames each time."""
    path = case.paths[0]

    def decode(_: int) -> None:
        see(path, case.indices, library.fetch(library.open(path, case.size), case.indices))

    with ThreadPoolExecutor(case.num_threads) as pool:
        list(pool.map(decode, range(case.num_decodes)))


def _opened(library: Library, case: Case) -> Any:
    """A decoder that knows how many frames there are."""
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


def _step(library: Library, case: Case, decoder: Any, see: See) -> None:
    """Get frames one by one, each with a call of its own."""
    for i in case.indices:
        see(case.paths[0], [i], library.fetch(decoder, [i]))


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
    return Case("fetch", case.paths, case.indices, case.size)


def _num_indices(case: Case) -> int:
    return len(case.indices)


#: Every kind of scenario by its name.
KINDS: dict[str, Kind] = {
    "count": Kind(_count, lambda case: 0),
    "fetch": Kind(_fetch, lambda case: len(case.paths) * len(case.indices)),
    "loader": Kind(_loader, lambda case: case.num_decodes * len(case.indices), rehearsal=_one_decode),
    "again": Kind(_fetch_from, _num_indices, _opened_and_fetched),
    "step": Kind(_step, _num_indices, _opened),
    "twice": Kind(_fetch_twice, lambda case: 2 * len(case.indices)),
    "iterate": Kind(_iterate, _num_indices),
    "iterate backwards": Kind(_iterate_backwards, _num_indices),
}
