"""The facts of a stall meter as a table of text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from ._stall_facts import StallFacts
from ._stall_records import OTHER_THREAD

__all__ = ["counted", "table"]

_BAR_WIDTH = 30
_LINE_LENGTH = 100


def table(facts: StallFacts, advice: Sequence[str]) -> str:
    """A table of text, to be printed."""
    if not facts.num_batches:
        return "No batch was watched."
    return "\n".join(_lines(facts, advice))


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "batch"), counted(3, "batch"), counted(0, "worker")
    ('1 batch', '3 batches', 'no workers')
    """
    ending = "" if number == 1 else "es" if noun == "batch" else "s"
    return f"{number or 'no'} {noun}{ending}"


def _lines(facts: StallFacts, advice: Sequence[str]) -> Iterator[str]:
    readers = "" if facts.num_workers is None else f", {counted(facts.num_workers, 'worker')} on"
    yield (
        f"The loop waited {100 * facts.wait_share:.0f} % of {_seconds(facts.elapsed_seconds)}: "
        f"{counted(facts.num_batches, 'batch')} in {counted(facts.num_epochs, 'epoch')}"
        f"{readers or ','} {counted(facts.num_cores, 'core')}."
    )
    firsts = ", ".join(map(_seconds, facts.first_batch_seconds[:5])) + (", ..." if facts.num_epochs > 5 else "")
    yield f"First {'batch' if facts.num_epochs == 1 else 'batches'}, not counted in it: {firsts}"
    elapsed = facts.elapsed_seconds
    loop = {"working": elapsed - facts.waited_seconds, "waiting": facts.waited_seconds}
    yield from _bars("loop", loop, elapsed)
    if facts.worker_busy_shares:
        causes = {"for an uneven batch": facts.uneven_seconds, "for a hand-over": facts.handover_seconds}
        yield from (f"    {name:<19} {_share(spent, elapsed)}  {_seconds(spent)}" for name, spent in causes.items())
        busy = {_worker(number): share * elapsed for number, share in facts.worker_busy_shares.items()}
        yield from _bars("workers, busy", busy, elapsed)
    if facts.mean_num_ready is not None:
        yield f"  batches ready, on average: {facts.mean_num_ready:.1f}"
    if facts.stage_seconds:
        yield from _bars("reading, all workers", facts.stage_seconds, facts.read_seconds)
    if facts.loop_stage_seconds:
        yield from _bars("in the loop, while it waits", facts.loop_stage_seconds, None)
    yield ""
    for sentence in advice:
        yield textwrap.fill(sentence, _LINE_LENGTH, initial_indent="* ", subsequent_indent="  ")


def _bars(title: str, seconds: Mapping[str, float], total: float | None) -> Iterator[str]:
    total = sum(seconds.values()) if total is None else total
    yield ""
    yield title
    for name, spent in seconds.items():
        bar = "#" * round(_BAR_WIDTH * spent / total) if total else ""
        yield f"  {name:<10} {bar:<{_BAR_WIDTH}} {_share(spent, total)}  {_seconds(spent)}"


def _worker(number: int) -> str:
    return "thread" if number == OTHER_THREAD else f"worker {number}"


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole if whole else 0:3.0f} %"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
