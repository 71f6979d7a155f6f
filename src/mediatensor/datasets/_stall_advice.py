"""What to change where a training loop waits for its input: rules on the facts of a stall meter. Pure; no I/O.

::

    too few batches ─────────────────────────────────► nothing can be said
    the loop hardly waits ───────────────────────────► not input-bound; fewer workers, if they idle
    no worker ───────────────────────────────────────► have workers
    times of rows not known ─────────────────────────► how to have them
    workers busy ────────────────────────────────────► more of them, and what makes their main stages cheaper
    workers idle  ├ copying in the loop ─────────────► pinned memory
                  ├ batches read, but not here ──────► a lighter hand-over
                  ├ one slow batch holds others up ──► evener batches
                  └ else ────────────────────────────► read further ahead
"""

from __future__ import annotations

import math

from ._stall_facts import StallFacts

__all__ = ["advice"]

# Fewer batches than this say more about the start than about what follows.
MIN_BATCHES = 5
# A loop that waits less than this part of its time is as fast as it would be with any input.
WAITS_LITTLE = 0.05
# Workers that read this part of the time have no time left: the rest is sending batches, and waiting for a core.
BUSY = 0.8
# Workers that read less than this part of the time are more than it takes.
IDLE = 0.5
# A stage, or a cause of waiting, is worth a word from this part on.
WORTH_A_WORD = 0.25
# So are first batches that take this part of all the time.
LONG_START = 0.2

# Stages that the same remedies help with.
_GROUPS = {
    "open": ("open", "index"),
    "decode": ("seek", "decode"),
    "convert": ("convert",),
    "transform": ("transform",),
    "collate": ("collate",),
    "copy": ("copy",),
    "other": ("other",),
}
_REMEDIES = {
    "open": "take more rows of each file that is opened (rows_per_file, Shuffle(rows_together=4)), keep indexes "
    "(mediatensor.set_index_cache), keep more files open (max_open_files)",
    "decode": "fewer or smaller frames, Shuffle(rows_together=4), videos with key frames closer together",
    "convert": "let the decoder make the frames small (decoder_options={'transforms': [Resize(...)]}), and leave "
    "float32 to the device",
    "transform": "transform on the device, behind ToDevice, and crop and resize in the decoder",
    "collate": "bring samples to one shape in the decoder, so that they need no padding",
    "copy": "pinned memory (pin_memory=True), smaller frames, uint8 until they are on the device",
    "other": "look at what the sampler and functions of your own do, with a profiler",
}


def advice(facts: StallFacts) -> list[str]:
    """What to change, one sentence each, the most important first.

    Example:
        >>> advice(StallFacts(num_batches=100, num_workers=2, elapsed_seconds=10.0, waited_seconds=0.1))
        ['not input-bound: the loop waited 1 % of its time, so that more workers would not make it faster']
    """
    if facts.num_batches < MIN_BATCHES:
        return [f"too few batches to say anything ({facts.num_batches}; at least {MIN_BATCHES})"]
    return [*_about_waiting(facts), *_about_the_start(facts)]


def _about_waiting(facts: StallFacts) -> list[str]:
    waited = f"the loop waited {_percent(facts.wait_share)} of its time"
    if facts.wait_share < WAITS_LITTLE:
        return [f"not input-bound: {waited}, so that more workers would not make it faster", *_about_surplus(facts)]
    if facts.num_workers == 0:
        return [_about_no_workers(facts, waited), *_about_stages(facts, "", skip=0)]
    if facts.busy_share is None:
        how = (
            "if batches were a Batch of mediatensor.datasets (collate_fn=stack, ragged, pad), it could be said what for"
        )
        return [f"input-bound: {waited}; {how}"]
    return _about_workers(facts, facts.busy_share) if facts.busy_share >= BUSY else _about_idle_workers(facts, waited)


def _about_surplus(facts: StallFacts) -> list[str]:
    needed = max(1, math.ceil(sum(facts.worker_busy_shares.values()) / BUSY))
    if facts.busy_share is None or facts.busy_share >= IDLE or not facts.num_workers or needed >= facts.num_workers:
        return []
    return [f"workers are busy {_percent(facts.busy_share)}: num_workers={needed} would do"]


def _about_no_workers(facts: StallFacts, waited: str) -> str:
    num_workers = min(max(1, _num_workers_needed(1, facts.wait_share)), max(1, facts.num_cores))
    return (
        f"read by the loop itself (num_workers=0): {waited}; with num_workers={num_workers} ({_cores(facts)}) reading "
        "goes on while it works"
    )


def _about_workers(facts: StallFacts, busy_share: float) -> list[str]:
    num_workers = facts.num_workers or len(facts.worker_busy_shares)
    num_busy = sum(share >= BUSY for share in facts.worker_busy_shares.values())
    needed = min(_num_workers_needed(num_workers, facts.wait_share), facts.num_cores)
    more = f"num_workers={needed} ({_cores(facts)})" if needed > num_workers else ""
    busy = f"{num_busy} of {num_workers} workers busy {_percent(busy_share)}"
    main, share = _shares(facts)[0]
    remedies = ", ".join(part for part in (more, _REMEDIES[main]) if part)
    full = "" if more else f" on {facts.num_cores} {'core' if facts.num_cores == 1 else 'cores'}"
    first = f"{main}-bound: {busy}{full}, {_percent(share)} of it with {_named(main)}: try {remedies}"
    return [first, *_about_stages(facts, "then ", skip=1)]


def _about_stages(facts: StallFacts, lead: str, *, skip: int) -> list[str]:
    return [
        f"{lead}{name}: {_percent(share)} of reading goes into {_named(name)}: {_REMEDIES[name]}"
        for name, share in _shares(facts)[skip:]
        if share >= WORTH_A_WORD
    ]


def _about_idle_workers(facts: StallFacts, waited: str) -> list[str]:
    assert facts.busy_share is not None
    idle = f"{waited} although workers were busy only {_percent(facts.busy_share)}"
    handover = "it waited for batches that had been read, and were being collated and sent"
    uneven = "it waited for one slow batch while later ones were ready"
    causes = {
        f"copy-bound: {idle}; the loop copies meanwhile: {_REMEDIES['copy']}": facts.loop_stage_seconds.get("copy", 0),
        f"collate-bound: {idle}; {handover}: smaller batches or frames, a lighter collate_fn": facts.handover_seconds,
        f"uneven batches: {idle}; {uneven}: prefetch_factor=4, bucket_by, files of like cost": facts.uneven_seconds,
    }
    largest = max(causes, key=causes.__getitem__)
    if causes[largest] >= WORTH_A_WORD * facts.waited_seconds:
        return [largest]
    return [f"workers idle: {idle}: let them read further ahead (prefetch_factor=4), or give them cores of their own"]


def _about_the_start(facts: StallFacts) -> list[str]:
    first = sum(facts.first_batch_seconds)
    share = first / (first + facts.elapsed_seconds) if first else 0.0
    if share < LONG_START:
        return []
    mean = first / len(facts.first_batch_seconds)
    remedies = "persistent_workers=True, fewer workers, mediatensor.set_index_cache"
    return [f"long start: the first batch of an epoch takes {mean:.2g} s, {_percent(share)} of all: {remedies}"]


def _shares(facts: StallFacts) -> list[tuple[str, float]]:
    """Groups of stages and their parts of all reading, the largest first."""
    seconds = facts.reading
    total = sum(seconds.values()) or 1.0
    groups = {name: sum(seconds.get(stage, 0.0) for stage in stages) / total for name, stages in _GROUPS.items()}
    return sorted(groups.items(), key=lambda item: -item[1])


def _num_workers_needed(num_workers: int, wait_share: float) -> int:
    """How many would read as fast as the loop works, if each reads as fast as those that there are."""
    return math.ceil(num_workers / max(1e-3, 1 - wait_share))


def _named(group: str) -> str:
    return " and ".join(_GROUPS[group])


def _cores(facts: StallFacts) -> str:
    return f"{facts.num_cores} {'core' if facts.num_cores == 1 else 'cores'} here"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
