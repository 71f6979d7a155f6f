"""One budget of threads for the whole process.

Every decoder that is not told how many threads to use takes its number from here, so that decoders,
codec threads and DataLoader workers do not multiply into more threads than there are cores.
"""

from __future__ import annotations

import os

import torch.utils.data

from .errors import InvalidArgumentError

__all__ = ["get_num_threads", "set_num_threads"]

ENVIRONMENT_VARIABLE = "MEDIATENSOR_NUM_THREADS"

_num_threads: int | None = None


def get_num_threads() -> int:
    """Number of threads that a decoder may use here.

    Inside a DataLoader worker it is 1: there the workers are the parallelism. Elsewhere it is what
    `set_num_threads` or the environment variable ``MEDIATENSOR_NUM_THREADS`` says, else the number of CPU
    cores this process may run on.

    Returns:
        A positive number.

    Raises:
        InvalidArgumentError: if the environment variable is not a positive whole number.

    Example:
        >>> set_num_threads(2)
        >>> get_num_threads()
        2
        >>> set_num_threads(None)
    """
    if torch.utils.data.get_worker_info() is not None:
        return 1
    if _num_threads is not None:
        return _num_threads
    text = os.environ.get(ENVIRONMENT_VARIABLE)
    if text is None:
        return _available_cores()
    if not text.isdecimal() or int(text) < 1:
        raise InvalidArgumentError(
            f"The environment variable {ENVIRONMENT_VARIABLE} must be a positive whole number (got {text!r})."
        )
    return int(text)


def set_num_threads(num_threads: int | None) -> None:
    """Set the budget of threads of this process; ``None`` goes back to the default.

    Decoders that are already open keep their threads.

    Args:
        num_threads: A positive number, or ``None``.

    Raises:
        InvalidArgumentError: if the number is not positive.

    Example:
        >>> set_num_threads(4)
        >>> set_num_threads(None)
    """
    global _num_threads
    if num_threads is not None and (not isinstance(num_threads, int) or num_threads < 1):
        raise InvalidArgumentError(f"num_threads must be a positive whole number or None (got {num_threads!r}).")
    _num_threads = num_threads


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
