"""One isolated process as its parent sees it: started, called, killed."""

from __future__ import annotations

import pickle
import sys
from typing import Any

from ..errors import InvalidArgumentError, IsolatedWorkerError
from . import _channel
from ._child_main import Kind, Settings
from ._confinement import MEMORY_EXIT_STATUS
from ._failures import raised
from ._process import MAX_TEXT_BYTES, Process, TimeLimit
from ._result_types import ResultTypes
from ._values import decode

__all__ = ["Child"]

_PROGRAM = """\
import sys
descriptors = [int(text) for text in sys.argv[1:3]]
sys.path[:] = sys.argv[3:]
del sys.argv[1:]
from mediatensor.isolate._child_main import main
main(*descriptors)
"""


class Child(Process):
    """A process that serves calls, one at a time. It is started at once; the first call waits until it is ready.

    Args:
        settings: The limits of the process.
        types: The classes whose objects may come back.
    """

    def __init__(self, settings: Settings, types: ResultTypes) -> None:
        super().__init__(_PROGRAM, sys.path)
        self._settings = settings
        self._types = types
        self.num_calls = 0

    def call(self, call: bytes) -> Any:
        """Return the result of the function.

        Every exception but one of the function itself ends the process.

        Args:
            call: A pickle of (function, arguments, keywords).

        Raises:
            IsolatedWorkerError: if the process does not start, does not finish the call, or returns something invalid.
            Exception: whatever the function raises.
        """
        self.num_calls += 1
        try:
            answer = self._answer(call)
            value = self._decoded(answer)
        except BaseException:
            # Ctrl-C, too: nobody waits for the result any more, and it would be taken for the result of the next call.
            self._end()
            raise
        if answer.kind == Kind.VALUE:
            return value
        raise value

    def _answer(self, call: bytes) -> _channel.Message:
        seconds, max_bytes = self._settings.timeout_seconds, self._settings.max_memory_bytes
        if self.num_calls == 1:
            self.send(Kind.SETTINGS, [memoryview(pickle.dumps(self._settings))], TimeLimit.of_start())
            self.receive(TimeLimit.of_start(), Kind.READY)
        # A process that has served calls may hang or be stopped: loading has no more time than the call itself.
        time_of_call = TimeLimit.of_call(seconds)
        time_to_load = TimeLimit.of_start() if self.num_calls == 1 or seconds is None else time_of_call
        self.send(Kind.CALL, [memoryview(call)], time_to_load)
        loaded = self.receive(time_to_load, Kind.LOADED, Kind.NOT_LOADED, max_bytes=max_bytes)
        if loaded.kind == Kind.NOT_LOADED:
            return loaded
        if self.num_calls == 1:
            time_of_call = TimeLimit.of_call(seconds)
        return self.receive(time_of_call, Kind.VALUE, Kind.FAILURE, Kind.OUT_OF_MEMORY, max_bytes=max_bytes)

    def _decoded(self, answer: _channel.Message) -> Any:
        is_value = answer.kind == Kind.VALUE
        try:
            value = decode(answer.body, answer.contents, self._types if is_value else ResultTypes())
            if is_value:
                return value
            if answer.kind != Kind.OUT_OF_MEMORY:
                failure = raised(value)
                return failure if answer.kind == Kind.FAILURE else _not_loaded(failure)
            text = f"{value['type']}: {value['text']}"[:MAX_TEXT_BYTES]
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"[:MAX_TEXT_BYTES]
            raise self.error(f"sent a result that cannot be read: {reason}", "result") from None
        limit = self._settings.max_memory_bytes
        raise self.error(f"needed more than max_memory_bytes = {limit} bytes of memory ({text})", "memory")

    def ended(self, limit: TimeLimit) -> IsolatedWorkerError:
        error = super().ended(limit)
        if self.exit_status == MEMORY_EXIT_STATUS:
            most = self._settings.max_memory_bytes
            return self.error(f"needed more than max_memory_bytes = {most} bytes of memory", "memory")
        return error


def _not_loaded(failure: Exception) -> InvalidArgumentError:
    error = InvalidArgumentError(
        "The isolated process cannot find the function, its arguments or a class of result_types: they must be at the "
        f"top of a module that it can import, or of the program's file ({type(failure).__name__}: {failure})."
    )
    error.__cause__ = failure
    return error
