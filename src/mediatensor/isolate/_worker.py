"""`IsolatedWorker`, which calls functions in separate processes, and calls of decoders with a time limit."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

from .._engine.common.checks import real_number, shown, whole_number
from .._engine.common.locks import Closing
from ..errors import ClosedError, InvalidArgumentError, IsolatedWorkerError
from . import _child
from ._child import MEMORY_EXIT_STATUS, can_deny_network
from ._child_main import Kind, Settings, is_importing_main, this_main
from ._process import MAX_TEXT_BYTES, Process, TimeLimit
from ._values import decode, rebuild_error

_PROGRAM = """\
import sys
descriptors = [int(text) for text in sys.argv[1:3]]
sys.path[:] = sys.argv[3:]
del sys.argv[1:]
from mediatensor.isolate._child_main import main
main(*descriptors)
"""

Decoder = TypeVar("Decoder")
Result = TypeVar("Result")


class Child(Process):
    """A process that serves calls one at a time. It starts immediately; the first call waits until it is ready."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(_PROGRAM, sys.path)
        self._settings = settings
        self.num_calls = 0

    def call(self, call: bytes) -> Any:
        """Return the result of a call, which is a pickled tuple (function, arguments, keywords).

        Any exception that does not come from the function ends the process.
        """
        self.num_calls += 1
        try:
            answer = self._answer(call)
            value = self._decode(answer)
        except BaseException:
            # Even after Ctrl-C, because an unread result would be mistaken for the result of the next call.
            self._end()
            raise
        if answer.kind == Kind.VALUE:
            return value
        raise value

    def _answer(self, call: bytes) -> _child.Message:
        seconds, max_bytes = self._settings.timeout_seconds, self._settings.max_memory_bytes
        if self.num_calls == 1:
            self.send(Kind.SETTINGS, [memoryview(pickle.dumps(self._settings))], TimeLimit.of_start())
            self.receive(TimeLimit.of_start(), Kind.READY)
        # A process that has served calls may hang or be stopped, so loading the call counts towards its time limit.
        time_of_call = TimeLimit.of_call(seconds)
        time_to_load = TimeLimit.of_start() if self.num_calls == 1 or seconds is None else time_of_call
        self.send(Kind.CALL, [memoryview(call)], time_to_load)
        loaded = self.receive(time_to_load, Kind.LOADED, Kind.NOT_LOADED, max_bytes=max_bytes)
        if loaded.kind == Kind.NOT_LOADED:
            return loaded
        if self.num_calls == 1:
            time_of_call = TimeLimit.of_call(seconds)
        return self.receive(time_of_call, Kind.VALUE, Kind.FAILURE, Kind.OUT_OF_MEMORY, max_bytes=max_bytes)

    def _decode(self, answer: _child.Message) -> Any:
        try:
            value = decode(answer.body, answer.contents)
            if answer.kind == Kind.VALUE:
                return value
            if answer.kind != Kind.OUT_OF_MEMORY:
                failure = rebuild_error(value)
                return failure if answer.kind == Kind.FAILURE else _load_error(failure)
            text = f"{value['type']}: {value['text']}"[:MAX_TEXT_BYTES]
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"[:MAX_TEXT_BYTES]
            raise self.error(f"sent a result that cannot be read: {reason}", "result") from None
        limit = self._settings.max_memory_bytes
        raise self.error(f"needed more than max_memory_bytes = {limit} bytes of memory ({text})", "memory")

    def end_error(self, limit: TimeLimit) -> IsolatedWorkerError:
        error = super().end_error(limit)
        if self._process.returncode == MEMORY_EXIT_STATUS:
            most = self._settings.max_memory_bytes
            return self.error(f"needed more than max_memory_bytes = {most} bytes of memory", "memory")
        return error


def _load_error(failure: Exception) -> InvalidArgumentError:
    error = InvalidArgumentError(
        "The isolated process cannot find the function or the classes of its arguments. Define them at the top level "
        f"of a module that it can import, or of the program's file ({type(failure).__name__}: {failure})."
    )
    error.__cause__ = failure
    return error


#: Default time limit of a call.
DEFAULT_TIMEOUT_SECONDS = 60.0

#: Default memory limit of a call.
DEFAULT_MAX_MEMORY_BYTES = 4 << 30

_MIN_SECONDS = 0.001
_MIN_MEMORY_BYTES = 1 << 20

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def check_timeout(timeout_seconds: float | None) -> float | None:
    """Return the time limit of a call as a float, or ``None``, which means no limit. Raise unless a worker accepts it.

    >>> check_timeout(20), check_timeout(None)
    (20.0, None)
    """
    if timeout_seconds is None:
        return None
    seconds = real_number("timeout_seconds", timeout_seconds)
    if not _MIN_SECONDS <= seconds <= threading.TIMEOUT_MAX:
        raise InvalidArgumentError(
            f"timeout_seconds must be from {_MIN_SECONDS} to {threading.TIMEOUT_MAX:.0f}, or None for no limit "
            f"(got {shown(timeout_seconds)})."
        )
    return seconds


class _Slot:
    """A running call and its child process.

    The worker limits the number of slots. It refers to them weakly, so the slot of an interrupted call is freed.
    """

    def __init__(self) -> None:
        self.child: Child | None = None


class IsolatedWorker(Closing):
    """Calls functions in a separate process, so that a crash, a hang or a lack of memory does not end your program.

    FFmpeg, PDFium and Pillow parse untrusted bytes in C. A crash ends only the worker's process: you get an
    `IsolatedWorkerError`, and the next call gets a new process.

    The first call starts a process, which takes some seconds to import torch. The process then also serves later calls.
    Several threads can use one worker; with ``num_processes=1``, their calls wait for each other. A worker can be
    pickled, for example as a part of a dataset. It can be used after a fork and in workers of a ``DataLoader``, because
    every process starts its own child processes. The child processes end when the program ends, even if it is killed.
    If a function starts processes of its own, they end together with the child process that runs the function. On Linux
    (x86-64 and AArch64), the kernel enforces this: no such process can leave the session and process group of the child
    process. On other systems, a process that leaves the group keeps running.

    Results are not unpickled, so only certain types can be returned: numbers, text, ``bytes``, ``None``, tensors, NumPy
    arrays, and frames, samples, metadata, subtitles or documents of this library. Lists, tuples and dictionaries of
    these are also accepted. The keys of a dictionary must be text, numbers or ``None``. To return an object of your own
    class, return its parts as a tuple or a dictionary. Tensors arrive on the CPU; large tensors arrive in shared memory
    without a copy. Exceptions of ``mediatensor.errors`` and built-in exceptions keep their types.

    This is not a sandbox. The process runs as the same user, and can read and write the same files. An attacker who
    takes over the process has your permissions until the process ends, but cannot open sockets (on Linux). The attacker
    can also falsify the results of later calls (see ``max_calls``).

    Args:
        timeout_seconds: Time limit of a call, including the transfer of its result; ``None`` means no limit. It does
            not include the start of a process and the imports for the first call of the process.
        max_memory_bytes: Limit on the private memory that a call allocates, and on the size of its result, in bytes;
            ``None`` means no limit. Shared memory and the memory of processes that the function starts do not count.
            Linux counts the memory that a call requests. Other systems check the memory in use twenty times a second.
        num_processes: Largest number of calls that run in parallel, each in its own process.
        max_calls: Number of calls after which a process is replaced; ``None`` means never. With 1, no call can affect
            another call, but each call waits for the start of a process.
        allow_network: Whether the function may open sockets. On Linux (x86-64 and AArch64), the kernel enforces
            ``False`` for sockets of every kind. On other systems, it is not enforced.

    Raises:
        InvalidArgumentError: if the value of an argument is not accepted.

    Example:
        >>> from mediatensor.decoders import VideoDecoder
        >>> def first_frames(path):
        ...     return VideoDecoder(path)[:16]
        >>> with IsolatedWorker(timeout_seconds=10, max_memory_bytes=2 << 30) as worker:  # doctest: +SKIP
        ...     frames = worker.run(first_frames, "upload.mp4")
    """

    def __init__(
        self,
        *,
        timeout_seconds: float | None = DEFAULT_TIMEOUT_SECONDS,
        max_memory_bytes: int | None = DEFAULT_MAX_MEMORY_BYTES,
        num_processes: int = 1,
        max_calls: int | None = None,
        allow_network: bool = False,
    ) -> None:
        timeout_seconds = check_timeout(timeout_seconds)
        if max_memory_bytes is not None:
            max_memory_bytes = whole_number(
                "max_memory_bytes", max_memory_bytes, at_least=_MIN_MEMORY_BYTES, or_none=True
            )
        if max_calls is not None:
            max_calls = whole_number("max_calls", max_calls, at_least=1, or_none=True)
        num_processes = whole_number("num_processes", num_processes, at_least=1)
        self._timeout_seconds = timeout_seconds
        self._max_memory_bytes = max_memory_bytes
        self._num_processes = num_processes
        self._max_calls = max_calls
        self._allow_network = allow_network
        self._is_closed = False
        self._begin()

    def _begin(self) -> None:
        """Set the state of a worker without child processes."""
        self._process_id = os.getpid()
        self._changed = threading.Condition()
        self._idle: list[Child] = []
        self._slots: weakref.WeakSet[_Slot] = weakref.WeakSet()

    def __getstate__(self) -> dict[str, Any]:
        of_process = ("_process_id", "_changed", "_idle", "_slots")
        return {name: value for name, value in vars(self).items() if name not in of_process}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin()

    def run(
        self, function: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Result:
        """Call a function in an isolated process.

        Args:
            function: A picklable function: a function that is defined at the top level of a module, or a
                ``functools.partial`` of it.
            *args, **kwargs: Arguments of the function. They are pickled.

        Returns:
            The result of the function, as a copy: lists, dictionaries and objects are new, and tensors are writable.

        Raises:
            IsolatedWorkerError: if the process crashed (``reason`` "crash"), took too much time ("timeout") or memory
                ("memory"), the function raised an exception whose type belongs to another library ("exception"), or the
                process sent an invalid result ("result").
            InvalidArgumentError: if the function or an argument cannot be pickled, or the result cannot be sent.
            ClosedError: if the worker is closed, even during the call.
            Exception: the exceptions of the function itself, if their types are in ``mediatensor.errors`` or built in.
        """
        if is_importing_main():
            raise InvalidArgumentError(
                "An isolated process imports the main module again to find the function in it, which would start "
                'another process. Put the code that calls run() under if __name__ == "__main__".'
            )
        if not callable(function):
            raise InvalidArgumentError(f"function must be callable (got {shown(function)}).")
        try:
            call = pickle.dumps((function, args, kwargs), protocol=pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, TypeError, AttributeError, ValueError, RuntimeError) as error:
            raise InvalidArgumentError(
                "The function and its arguments must be picklable, so the function must be defined at the top level of "
                f"a module ({error})."
            ) from error
        slot = _Slot()
        try:
            result: _Result = self._take(slot).call(call)
        except Exception as error:
            if self._is_closed and not isinstance(error, ClosedError):
                raise ClosedError("The worker was closed while the call ran.") from error
            raise
        finally:
            self._give_back(slot)
        return result

    def close(self) -> None:
        """End the processes. Calls that are still running raise `ClosedError`. A second call has no effect."""
        self._is_closed = True
        self._renew_after_fork()
        with self._changed:
            idle, self._idle = self._idle, []
            for slot in self._slots:
                if slot.child is not None:
                    slot.child.kill()
            self._changed.notify_all()
        for child in idle:
            child.close()

    def __repr__(self) -> str:
        return (
            f"IsolatedWorker(timeout_seconds={self._timeout_seconds}, max_memory_bytes={self._max_memory_bytes}, "
            f"num_processes={self._num_processes})"
        )

    def _renew_after_fork(self) -> None:
        if self._process_id != os.getpid():
            self._begin()

    def _take(self, slot: _Slot) -> Child:
        """Return an idle child or a new one. While ``num_processes`` calls are running, wait."""
        self._renew_after_fork()
        with self._changed:
            while len(self._slots) >= self._num_processes and not self._is_closed:
                self._changed.wait()
            self._check_open()
            self._slots.add(slot)
            while self._idle:
                slot.child = self._idle.pop()
                if slot.child.is_alive:
                    return slot.child
                slot.child.close()
        slot.child = child = Child(self._settings())
        self._check_open()  # close() in another thread may have missed this child
        return child

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("The worker is closed; make another IsolatedWorker.")

    def _give_back(self, slot: _Slot) -> None:
        child = slot.child
        with self._changed:
            self._slots.discard(slot)
            is_usable = child is not None and child.is_alive and not self._is_closed
            if child is not None and is_usable and (self._max_calls is None or child.num_calls < self._max_calls):
                self._idle.append(child)
                child = None
            self._changed.notify_all()  # not notify(), because the only thread that it wakes may be interrupted
        if child is not None:
            child.close()

    def _settings(self) -> Settings:
        return Settings(
            self._timeout_seconds,
            self._max_memory_bytes,
            not self._allow_network and can_deny_network(),
            this_main(),
        )


class BoundedCalls(Generic[Decoder]):
    """Opens a decoder with ``make``, and calls functions with it.

    With a time limit, this happens in a separate process, so ``make`` and the functions must be picklable.
    """

    def __init__(self, make: Callable[[], Decoder], timeout_seconds: float | None) -> None:
        self._make = make
        self._worker = _open_worker(timeout_seconds)
        self._decoder = make() if self._worker is None else None

    def run(self, function: Callable[[Decoder], Result]) -> Result:
        """Return ``function(decoder)``. After an `IsolatedWorkerError`, the next call starts a new process."""
        if self._worker is None:
            assert self._decoder is not None
            return function(self._decoder)
        # Send `make` only once to each process, because it may contain a file.
        result = self._worker.run(_run_on_kept, function)
        if result is None:
            result = self._worker.run(_run_on_kept, function, self._make)
        assert result is not None
        return result[0]

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()


def run_bounded(function: Callable[[], Result], timeout_seconds: float | None) -> Result:
    """Return ``function()``. With a time limit, a separate process calls it, so it must be picklable."""
    worker = _open_worker(timeout_seconds)
    if worker is None:
        return function()
    with worker:
        return worker.run(function)


def _open_worker(timeout_seconds: float | None) -> IsolatedWorker | None:
    if timeout_seconds is None:
        return None
    return IsolatedWorker(timeout_seconds=timeout_seconds, max_memory_bytes=None, allow_network=True)


# The open decoder in a separate process. Each process serves a single reader.
_kept_decoder: list[Any] = []


def _run_on_kept(function: Callable[[Any], Result], make: Callable[[], Any] | None = None) -> tuple[Result] | None:
    if make is not None:
        _kept_decoder[:] = [make()]
    return (function(_kept_decoder[0]),) if _kept_decoder else None
