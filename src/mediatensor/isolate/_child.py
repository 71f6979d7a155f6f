"""One isolated process, as its parent has it: started, called, killed."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from contextlib import suppress
from typing import IO, Any

from ..errors import InvalidArgumentError, IsolatedWorkerError
from . import _channel
from ._child_main import Kind, Settings
from ._confinement import MEMORY_EXIT_STATUS
from ._failures import raised
from ._result_types import ResultTypes
from ._values import decode

__all__ = ["START_SECONDS", "Child"]

#: Most seconds that a process may take to start, and to import what a call needs.
START_SECONDS = 300.0

# The process ends itself at the time limit, and says where it was; if it does not, it is killed.
_GRACE_SECONDS = 1.0
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


class Child:
    """A process that waits for calls, one at a time.

    Args:
        settings: How it is to work.
        types: The classes that may come back.

    Raises:
        IsolatedWorkerError: if it does not start.
    """

    def __init__(self, settings: Settings, types: ResultTypes) -> None:
        self._settings = settings
        self._types = types
        self.num_calls = 0
        self._faults = _file_without_name()
        self._connection, theirs = socket.socketpair()
        try:
            with theirs:
                descriptors = (theirs.fileno(), self._faults.fileno())
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _PROGRAM, *map(str, descriptors), *sys.path],
                    stdin=subprocess.DEVNULL,
                    pass_fds=descriptors,
                    start_new_session=True,  # not for it: signals of the terminal; a group, to be killed as one
                )
        except BaseException:
            self._connection.close()
            self._faults.close()
            raise
        self._end = weakref.finalize(self, _end, self._process, self._connection, self._faults)
        _all.add(self)
        try:
            self._send(Kind.SETTINGS, pickle.dumps(settings))
            self._receive(time.monotonic() + START_SECONDS, Kind.READY)
        except BaseException:
            self._end()
            raise

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
            IsolatedWorkerError: if the call is not finished, or what it returns is not what it may be.
            Exception: whatever the function raises.
        """
        self.num_calls += 1
        try:
            self._send(Kind.CALL, call)
            loaded = self._receive(time.monotonic() + START_SECONDS, Kind.LOADED, Kind.NOT_LOADED)
            answer = loaded if loaded.kind == Kind.NOT_LOADED else self._receive_answer()
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

    def _receive_answer(self) -> _channel.Message:
        timeout_seconds = self._settings.timeout_seconds
        if timeout_seconds is None:
            return self._receive(None, Kind.VALUE, Kind.FAILURE, Kind.OUT_OF_MEMORY)
        begin = time.monotonic()
        try:
            deadline = begin + timeout_seconds + _GRACE_SECONDS
            return self._receive(deadline, Kind.VALUE, Kind.FAILURE, Kind.OUT_OF_MEMORY)
        except IsolatedWorkerError as error:
            # It ended itself, or was too late.
            if error.reason not in ("crash", "timeout") or time.monotonic() < begin + timeout_seconds:
                raise
            raise self._error(f"did not finish within {timeout_seconds} seconds", "timeout") from None

    def _send(self, kind: bytes, data: bytes) -> None:
        try:
            _channel.send(self._connection, kind, b"", [memoryview(data)])
        except ConnectionError:
            raise self._ended() from None

    def _receive(self, deadline: float | None, *kinds: bytes) -> _channel.Message:
        try:
            message = _channel.receive(
                self._connection,
                deadline=deadline,
                max_bytes=self._settings.max_memory_bytes,
                is_alive=lambda: self.is_alive,
            )
        except TimeoutError:
            raise self._error(f"did not start within {START_SECONDS} seconds", "timeout") from None
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
            return self._error(f"ended with status {status}", "crash")
        hint = ", which the system does when memory runs out" if -status == signal.SIGKILL else ""
        return self._error(f"was ended by {_signal_name(-status)}{hint}", "crash")

    def _error(self, what: str, reason: str) -> IsolatedWorkerError:
        error = IsolatedWorkerError(f"The isolated process {what}.", reason)
        with suppress(ValueError):  # it is closed: another error came first
            self._faults.seek(0)
            trace = self._faults.read(_MAX_FAULT_BYTES).decode("ascii", "replace")
            if trace := trace.partition("\nExtension modules:")[0].strip():
                error.add_note(f"Where it was:\n{trace}")
        return error


def _file_without_name() -> IO[bytes]:
    """A file that is gone when nobody has it open any more, whoever ends first."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("mediatensor-faults"), "w+b")
    return tempfile.TemporaryFile()


def _end(process: subprocess.Popen[bytes], connection: socket.socket, faults: IO[bytes]) -> None:
    _kill(process)
    process.wait()
    connection.close()
    faults.close()


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
