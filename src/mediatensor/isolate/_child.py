"""One isolated process, as its parent has it: started, called, killed."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from typing import IO, Any, NamedTuple

from ..errors import InvalidArgumentError, IsolatedWorkerError
from . import _channel
from ._child_main import Kind, Settings
from ._confinement import MEMORY_EXIT_STATUS
from ._failures import raised
from ._result_types import ResultTypes
from ._values import decode

__all__ = ["START_SECONDS", "Child"]

#: Most seconds that a process may take to start, and to import what its first call needs.
START_SECONDS = 300.0

# The process ends itself at the time limit, and says where it was; if it does not, it is killed.
_GRACE_SECONDS = 1.0
_END_SECONDS = 5.0
_TIME_IS_UP = "Timeout ("  # how the trace of a process begins that ended itself at the limit
_MAX_FAULT_BYTES = 1 << 14
_LOOK_SECONDS = 0.005

_PROGRAM = """\
import sys
descriptors = [int(text) for text in sys.argv[1:3]]
sys.path[:] = sys.argv[3:]
del sys.argv[1:]
from mediatensor.isolate._child_main import main
main(*descriptors)
"""

# Those of this process; not those that a process had from which this one was forked.
_all: weakref.WeakSet[Child] = weakref.WeakSet()


class _Time(NamedTuple):
    """How long something may take."""

    deadline: float | None
    what_failed: str


class _Started(NamedTuple):
    """A process, the socket to it, and the file for what Python has to say of a crash."""

    process: subprocess.Popen[bytes]
    connection: socket.socket
    faults: IO[bytes]


class Child:
    """A process that waits for calls, one at a time. It starts at once, and is waited for by the first call.

    Args:
        settings: How it is to work.
        types: The classes that may come back.
    """

    def __init__(self, settings: Settings, types: ResultTypes) -> None:
        self._settings = settings
        self._types = types
        self.num_calls = 0
        self._process, self._connection, self._faults = _started_whole()
        self._end = weakref.finalize(self, _end, self._process, self._connection, self._faults)
        _all.add(self)

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return _is_running(self._process)

    def call(self, call: bytes) -> Any:
        """What the function returns.

        The process is dead after whatever is raised but an exception of the function itself.

        Args:
            call: A pickle of (function, arguments, keywords).

        Raises:
            IsolatedWorkerError: if the process does not start, the call is not finished, or what it returns is not what
                it may be.
            Exception: whatever the function raises.
        """
        self.num_calls += 1
        try:
            answer = self._answer(call)
            value = self._decoded(answer)
        except BaseException:
            # Ctrl-C too: nobody waits any longer for what it does, and its answer would be taken for the next one.
            self._end()
            raise
        if answer.kind == Kind.VALUE:
            return value
        raise value

    def kill(self) -> None:
        """End it, and all that it started, now. A call that it has in another thread notices, and cleans up."""
        _kill(self._process)

    def close(self) -> None:
        """End it as `kill` does, and clean up; not while it has a call."""
        self._end()

    def _answer(self, call: bytes) -> _channel.Message:
        if self.num_calls == 1:
            self._send(Kind.SETTINGS, pickle.dumps(self._settings), self._time_to_start())
            self._receive(self._time_to_start(), Kind.READY)
        # A process that has worked already may hang, or be stopped: it has no more time for this than for the call.
        time_of_call = self._time_of_call()
        time_to_load = self._time_to_start() if self.num_calls == 1 or time_of_call.deadline is None else time_of_call
        self._send(Kind.CALL, call, time_to_load)
        loaded = self._receive(time_to_load, Kind.LOADED, Kind.NOT_LOADED)
        if loaded.kind == Kind.NOT_LOADED:
            return loaded
        if self.num_calls == 1:
            time_of_call = self._time_of_call()
        return self._receive(time_of_call, Kind.VALUE, Kind.FAILURE, Kind.OUT_OF_MEMORY)

    def _time_to_start(self) -> _Time:
        return _Time(time.monotonic() + START_SECONDS, f"did not start within {START_SECONDS:g} seconds")

    def _time_of_call(self) -> _Time:
        seconds = self._settings.timeout_seconds
        if seconds is None:
            return _Time(None, "did not finish")
        return _Time(time.monotonic() + seconds + _GRACE_SECONDS, f"did not finish within {seconds:g} seconds")

    def _send(self, kind: bytes, data: bytes, time_left: _Time) -> None:
        try:
            _channel.send(self._connection, kind, b"", [memoryview(data)], deadline=time_left.deadline)
        except TimeoutError:
            raise self._error(time_left.what_failed, "timeout") from None
        except ConnectionError:
            raise self._ended() from None

    def _receive(self, time_left: _Time, *kinds: bytes) -> _channel.Message:
        try:
            message = _channel.receive(
                self._connection,
                deadline=time_left.deadline,
                max_bytes=self._settings.max_memory_bytes,
                is_alive=lambda: self.is_alive,
            )
        except TimeoutError:
            raise self._error(time_left.what_failed, "timeout") from None
        except EOFError:
            raise self._ended() from None
        except _channel.ChannelError as error:
            raise self._error(f"sent what it must not: {error}", "result") from error
        if message.kind not in kinds:
            raise self._error(f"sent {message.kind!r} out of turn", "result")
        return message

    def _decoded(self, answer: _channel.Message) -> Any:
        is_value = answer.kind == Kind.VALUE
        try:
            value = decode(answer.body, answer.contents, self._types if is_value else ResultTypes())
            if is_value:
                return value
            if answer.kind != Kind.OUT_OF_MEMORY:
                failure = raised(value)
                return failure if answer.kind == Kind.FAILURE else _not_loaded(failure)
            text = f"{value['type']}: {value['text']}"[:_MAX_FAULT_BYTES]
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"[:_MAX_FAULT_BYTES]
            raise self._error(f"sent what cannot be read: {reason}", "result") from None
        limit = self._settings.max_memory_bytes
        raise self._error(f"needed more than max_memory_bytes = {limit} bytes of memory ({text})", "memory")

    def _ended(self) -> IsolatedWorkerError:
        give_up = time.monotonic() + _GRACE_SECONDS
        while _is_running(self._process):
            if time.monotonic() > give_up:
                return self._error("closed its connection", "crash")
            time.sleep(_LOOK_SECONDS)
        _kill(self._process)  # what it started
        status = self._process.wait()
        if status == MEMORY_EXIT_STATUS:
            limit = self._settings.max_memory_bytes
            return self._error(f"needed more than max_memory_bytes = {limit} bytes of memory", "memory")
        if status >= 0:
            if self._trace().startswith(_TIME_IS_UP):
                return self._error(self._time_of_call().what_failed, "timeout")
            return self._error(f"ended with status {status}", "crash")
        hint = ", which the system does when memory runs out" if -status == signal.SIGKILL else ""
        return self._error(f"was ended by {_signal_name(-status)}{hint}", "crash")

    def _error(self, what: str, reason: str) -> IsolatedWorkerError:
        error = IsolatedWorkerError(f"The isolated process {what}.", reason)
        if trace := self._trace():
            error.add_note(f"Where it was:\n{trace}")
        return error

    def _trace(self) -> str:
        """What Python had to say when the process ended; the process may have written anything there."""
        try:
            self._faults.seek(0)
            trace = self._faults.read(_MAX_FAULT_BYTES).decode("ascii", "replace")
        except ValueError:  # it is closed: another error came first
            return ""
        text = trace.partition("\nExtension modules:")[0]
        return "".join(letter for letter in text if letter.isprintable() or letter == "\n").strip()


def _started_whole() -> _Started:
    """A process, by way of another thread.

    Ctrl-C is raised in the main thread, also between the start of a process and the note of its number, and nobody
    would ever wait for that one.
    """
    if threading.current_thread() is not threading.main_thread():
        return _started()
    starting: Future[_Started] = Future()

    def start() -> None:
        try:
            starting.set_result(_started())
        except BaseException as error:
            starting.set_exception(error)

    thread = threading.Thread(target=start, name="mediatensor-start")  # an executor has no more at the program's end
    thread.start()
    try:
        return starting.result()
    except BaseException:
        if starting.exception() is None:
            _end(*starting.result())
        raise
    finally:
        thread.join()


def _started() -> _Started:
    with ExitStack() as opened:
        faults = opened.enter_context(_file_without_name())
        connection, theirs = socket.socketpair()
        opened.enter_context(connection)
        with theirs:
            descriptors = (theirs.fileno(), faults.fileno())
            process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *map(str, descriptors), *sys.path],
                stdin=subprocess.DEVNULL,
                pass_fds=descriptors,
                start_new_session=True,  # not for it: signals of the terminal; a group, to be killed as one
            )
        opened.pop_all()
    return _Started(process, connection, faults)


def _file_without_name() -> IO[bytes]:
    """A file that is gone when nobody has it open any more, whoever ends first."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("mediatensor-faults"), "w+b")
    return tempfile.TemporaryFile()


def _end(process: subprocess.Popen[bytes], connection: socket.socket, faults: IO[bytes]) -> None:
    _kill(process)
    connection.close()
    faults.close()
    # A file system that does not answer keeps even a killed process; it is waited for when the next one starts.
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)


def _kill(process: subprocess.Popen[bytes]) -> None:
    # Until it is waited for, the number of the process is that of its group and nobody else's.
    if process.returncode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            process.kill()


def _is_running(process: subprocess.Popen[bytes]) -> bool:
    """Whether it runs; if not, it is not waited for yet, so that what it started can still be ended."""
    if process.returncode is not None:
        return False
    if not hasattr(os, "waitid"):
        return process.poll() is None
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


def _not_loaded(failure: Exception) -> InvalidArgumentError:
    error = InvalidArgumentError(
        "The isolated process cannot find the function, its arguments or a class of result_types: they must be at the "
        f"top of a module that it can import, or of the program's file ({type(failure).__name__}: {failure})."
    )
    error.__cause__ = failure
    return error


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _leave_to_parent() -> None:
    """In a forked process: the children are the parent's, and are to notice when that one is gone."""
    for child in list(_all):
        child._end.detach()
        child._process.returncode = 0  # not for this process to wait for
        child._connection.close()
        child._faults.close()
    _all.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
