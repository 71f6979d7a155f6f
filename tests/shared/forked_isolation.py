"""Isolated processes that are forked from their parent: new ones spend two seconds on imports.

They differ from real ones in what they have imported, and in the replacements of a test, which are there too.
"""

from __future__ import annotations

import os
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from subprocess import TimeoutExpired
from typing import Any

import pytest

from mediatensor.isolate import _child_main, _process, _worker

__all__ = ["forked_processes", "run_command"]

_start_new = _process._start


def run_command() -> None:
    """Run the ``mediatensor`` command of ``sys.argv`` with forked processes: ``python -c PROGRAM ARGUMENTS``."""
    from mediatensor.cli import main

    _process._start = _start_process
    if sys.argv[1] == "serve":
        from mediatensor.serve import _service, _work

        _work.warm_up(1, _service._WARM)  # each process would load these networks again
    sys.exit(main())


@pytest.fixture
def forked_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork isolated processes, in tests of their callers. Tests of `mediatensor.isolate` start real ones."""
    monkeypatch.setattr(_process, "_start", _start_process)


class _Forked:
    """A forked process, with the methods of `subprocess.Popen` that an isolated process needs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float = 60) -> int:
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise TimeoutExpired("forked", timeout)
            time.sleep(0.002)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, 9)


def _start_process(program: str, arguments: Sequence[str], inherited: Sequence[int]) -> Any:
    """Fork an isolated process: a replacement of ``mediatensor.isolate._process._start``."""
    if program != _worker._PROGRAM or not hasattr(os, "fork"):
        return _start_new(program, arguments, inherited)
    faults = _process._file_without_name()
    connection, theirs = (socket.socket(fileno=_process.above_standard(end.detach())) for end in socket.socketpair())
    pid = os.fork()
    if pid == 0:
        _serve(connection, theirs, faults.fileno())
    theirs.close()
    return _Forked(pid), connection, faults


def _let_go(kept: set[int]) -> None:
    """Replace the files that a new process would not inherit, such as a server's connections, which would stay open.

    Their numbers stay in use, because objects that are freed here close them.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/dev/fd")):
        with suppress(OSError):  # the folder itself is closed by now
            if number not in kept and not os.get_inheritable(number):
                os.dup2(nothing, number, inheritable=False)


def _serve(connection: socket.socket, theirs: socket.socket, faults: int) -> None:
    status = 1
    try:
        with suppress(PermissionError):  # as within an isolated process
            os.setsid()
        connection.close()
        _let_go({theirs.fileno(), faults})
        sys.stdout = open(1, "w", closefd=False, buffering=1)  # noqa: SIM115 - until the process ends
        sys.stderr = open(2, "w", closefd=False, buffering=1)  # noqa: SIM115
        _child_main.main(theirs.detach(), faults)
    except SystemExit:
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
