"""Work on files of strangers in a process of its own: what breaks there does not break here.

>>> from mediatensor.isolate import IsolatedWorker
>>> with IsolatedWorker(timeout_seconds=10, max_memory_bytes=2 << 30) as worker:  # doctest: +SKIP
...     frames = worker.run(first_frames, "upload.mp4")
"""

from __future__ import annotations

from ._worker import DEFAULT_MAX_MEMORY_BYTES, DEFAULT_TIMEOUT_SECONDS, IsolatedWorker

__all__ = ["DEFAULT_MAX_MEMORY_BYTES", "DEFAULT_TIMEOUT_SECONDS", "IsolatedWorker"]
