"""Process untrusted files in a separate process, whose crash does not end your program.

>>> from mediatensor.isolate import IsolatedWorker
>>> with IsolatedWorker(timeout_seconds=10, max_memory_bytes=2 << 30) as worker:  # doctest: +SKIP
...     frames = worker.run(first_frames, "upload.mp4")
"""

from __future__ import annotations

from ._child import MEMORY_EXIT_STATUS as MEMORY_EXIT_STATUS
from ._child import can_deny_network as can_deny_network

# Names that are imported "as" themselves are for other packages of this library. They are not public.
from ._child import common_memory as common_memory
from ._child import limited_memory as limited_memory
from ._process import Process as Process
from ._process import TimeLimit as TimeLimit
from ._worker import DEFAULT_MAX_MEMORY_BYTES, DEFAULT_TIMEOUT_SECONDS, IsolatedWorker

__all__ = ["DEFAULT_MAX_MEMORY_BYTES", "DEFAULT_TIMEOUT_SECONDS", "IsolatedWorker"]
