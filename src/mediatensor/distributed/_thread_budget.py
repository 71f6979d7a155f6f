"""The threads of an actor: as many as the engine gave it CPUs."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

from .._threads import ENVIRONMENT_VARIABLE, set_num_threads

__all__ = ["keep_to_assigned_cpus"]


def keep_to_assigned_cpus() -> None:
    """In an actor or a task of Ray, use as many threads as it was given CPUs; elsewhere change nothing.

    Whoever sets ``MEDIATENSOR_NUM_THREADS`` has decided, there as elsewhere.
    """
    num_cpus = None if ENVIRONMENT_VARIABLE in os.environ else _assigned_cpus(sys.modules.get("ray"))
    if num_cpus is None:
        return
    set_num_threads(num_cpus)
    if torch.get_num_threads() != num_cpus:
        torch.set_num_threads(num_cpus)


def _assigned_cpus(ray: Any) -> int | None:
    """Whole CPUs that Ray gave this process, at least 1; ``None`` in a process that Ray has not started."""
    if ray is None or not ray.is_initialized():
        return None
    try:
        resources = ray.get_runtime_context().get_assigned_resources()
    except AssertionError:  # how Ray says that this is the program that uses it, and no worker
        return None
    return max(1, int(resources.get("CPU", 1)))
