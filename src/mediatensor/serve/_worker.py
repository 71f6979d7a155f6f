"""A process that does one thing at a time for the server, and can be ended at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from ..errors import ClosedError, IsolatedWorkerError
from ..isolate import IsolatedWorker

__all__ = ["Worker"]

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class Worker:
    """Calls functions in an isolated process, which is replaced when it was ended.

    Args:
        max_seconds: Most seconds of any call.
        max_memory_bytes: Most memory of a call.
    """

    def __init__(self, max_seconds: float, max_memory_bytes: int) -> None:
        self._max_seconds = max_seconds
        self._max_memory_bytes = max_memory_bytes
        self._thread = ThreadPoolExecutor(1, "mediatensor-serve")
        self._process = self._new_process()
        self._is_busy = False

    def _new_process(self) -> IsolatedWorker:
        return IsolatedWorker(timeout_seconds=self._max_seconds, max_memory_bytes=self._max_memory_bytes)

    @property
    def is_busy(self) -> bool:
        """Whether a call runs."""
        return self._is_busy

    async def call(
        self,
        function: Callable[_Parameters, _Result],
        seconds: float,
        /,
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> _Result:
        """Call a function; one call runs at a time.

        When this task is cancelled, the process is ended.

        Raises:
            IsolatedWorkerError: if it takes longer, crashes, needs too much memory, or was ended by `end`.
            Exception: whatever the function raises.
        """
        process, loop = self._process, asyncio.get_running_loop()
        running = loop.run_in_executor(self._thread, lambda: process.run(function, *args, **kwargs))
        self._is_busy = True
        try:
            done, _ = await asyncio.wait({running}, timeout=seconds)
            if not done:
                self.end()
                await asyncio.wait({running})
                running.exception()  # it is no news
                raise IsolatedWorkerError(f"The isolated process did not finish within {seconds:g} seconds.", "timeout")
            return running.result()
        except ClosedError as error:
            raise IsolatedWorkerError("The isolated process was ended.", "crash") from error
        except asyncio.CancelledError:
            self.end()
            # Whoever cancels wants to delete the files with which the process works.
            await asyncio.wait({running})
            running.exception()
            raise
        finally:
            self._is_busy = False

    def end(self) -> None:
        """End the process now; a call that runs in it fails, and the next one has a new process."""
        ended, self._process = self._process, self._new_process()
        ended.close()

    def close(self) -> None:
        """End the process, and have no other."""
        self._process.close()
        self._thread.shutdown(wait=False, cancel_futures=True)
