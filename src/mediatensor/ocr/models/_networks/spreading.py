"""Work on networks spread over threads of Python, where PyTorch would divide each of its calls among cores.

A call that is divided ends when its last part does, and those that are done spin until then: hundreds of small calls a
page make that dear, and where other programs use the cores, too, ten times as dear as the work. Pages, and batches of
lines, need not wait for each other.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from ...._engine.common.locks import ForkSafeLock
from .transfers import is_compiled

__all__ = ["spread", "spreads"]

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

_starting = ForkSafeLock()


def spreads(*models: Any) -> bool:
    """Whether work on these networks may be spread: on the CPU, with no setting that threads do not share."""
    return (
        torch.get_num_threads() > 1
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not any(is_compiled(model) for model in models)
        and all(parameter.device.type == "cpu" for model in models for parameter in model.parameters())
    )


def spread(work: Callable[[ItemT], ResultT], items: Iterable[ItemT], num_workers: int) -> Iterator[ResultT]:
    """Results of ``work`` in the order of the items, from threads that share PyTorch's number of threads evenly.

    Args:
        work: Called in a thread of its own, in inference mode.
        items: Taken in the calling thread, at most two for each thread ahead of the results.
        num_workers: How many threads.

    Yields:
        A result for each item.
    """
    with _workers(num_workers) as pool:
        waiting: deque[Future[ResultT]] = deque()
        for item in items:
            waiting.append(pool.submit(_without_gradients, work, item))
            if len(waiting) > 2 * num_workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _without_gradients(work: Callable[[ItemT], ResultT], item: ItemT) -> ResultT:
    with torch.inference_mode():
        return work(item)


@contextmanager
def _workers(number: int) -> Iterator[ThreadPoolExecutor]:
    all_there = threading.Barrier(number)

    def prepare(num_threads: int) -> None:
        torch.get_num_threads()  # the first question of a thread takes the number that was set last
        torch.set_num_threads(num_threads)
        all_there.wait()

    with ThreadPoolExecutor(number, "mediatensor-ocr") as pool:
        # The number belongs to a thread, and threads that are new to PyTorch begin with the one that was set last: set
        # the caller's again before others start.
        with _starting:
            num_threads = torch.get_num_threads()
            ready = [pool.submit(prepare, max(1, num_threads // number)) for _ in range(number)]
            for worker in ready:
                worker.result()
            torch.set_num_threads(num_threads)
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)
