"""Run tests in several processes, which are forked after the collection: ``pytest --processes 3``.

Processes that start anew would each import and collect all tests, which takes longer than most files of tests. A
process runs all tests of a file, so that what they share is made once, and then takes the next file.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn

import pytest

__all__: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", type=int, default=1, metavar="N", help="run the tests in this many processes")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    options = session.config.option
    if options.processes < 2 or options.collectonly or session.testsfailed or not hasattr(os, "fork"):
        return None
    _Run(session).run(options.processes)
    return True


class _Process:
    """A forked process, and the numbers of the tests that it has not run yet."""

    def __init__(self, session: pytest.Session, number: int, others: Sequence[_Process]) -> None:
        self.todo: deque[int] = deque()
        self.connection, theirs = Pipe()
        self.pid = os.fork()
        if self.pid == 0:
            for each in (*others, self):
                each.connection.close()
            _run_in_child(session, theirs, number)
        theirs.close()

    def take_messages(self) -> list[tuple[str, Any]] | None:
        """Return what the process has told, or None at its end."""
        messages: list[tuple[str, Any]] = []
        try:
            while self.connection.poll():
                messages.append(self.connection.recv())
        except (EOFError, ConnectionResetError):
            return messages or None
        # Processes that a test forked may keep the connection open.
        return messages or (None if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) else [])

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class _Run:
    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._hook = session.config.hook
        files: dict[object, list[int]] = {}
        for number, item in enumerate(session.items):
            files.setdefault(item.path, []).append(number)
        self._files = deque(files.values())
        self._processes: list[_Process] = []
        self._num_started = 0

    def run(self, num_processes: int) -> None:
        reporter = self._session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.showfspath = False  # since tests of several files end in turn
        self._session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        try:
            for _ in range(min(num_processes, len(self._files))):
                self._start()
            while self._processes:
                wait([process.connection for process in self._processes], timeout=1)
                for process in list(self._processes):
                    self._follow(process)
        finally:
            for process in self._processes:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)

    def _start(self) -> None:
        self._num_started += 1
        self._processes.append(_Process(self._session, self._num_started, self._processes))

    def _follow(self, process: _Process) -> None:
        messages = process.take_messages()
        if messages is None:
            self._processes.remove(process)
            self._end(process, process.wait())
        for kind, value in messages or []:
            if kind == "file":
                file = self._files.popleft() if self._files and not self._is_over() else []
                process.todo.extend(file)
                process.connection.send(file)
            elif kind == "warning":
                self._hook.pytest_warning_recorded.call_historic(kwargs=value)
            elif kind == "error":
                raise RuntimeError(value)
            else:
                convert = self._hook.pytest_report_from_serializable
                self._report(
                    process.todo.popleft(), [convert(config=self._session.config, data=each) for each in value]
                )

    def _is_over(self) -> bool:
        return bool(self._session.shouldfail or self._session.shouldstop)

    def _report(self, number: int, reports: list[pytest.TestReport]) -> None:
        item = self._session.items[number]
        for report in reports:
            self._hook.pytest_runtest_logreport(report=report)
        self._hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if self._is_over():
            for process in self._processes:
                with suppress(OSError):
                    process.connection.send([])

    def _end(self, process: _Process, status: int) -> None:
        """Report the test in which a process died, and run what is left in another one."""
        if not process.todo or self._is_over():
            return
        number = process.todo.popleft()
        item = self._session.items[number]
        text = f"the process ended in this test with status {status}"
        self._report(number, [pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")])
        if process.todo:
            self._files.appendleft(list(process.todo))
        if self._files:
            self._start()


class _Relay:
    """Collects what a test reports in its process."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection
        self._reports: list[Any] = []
        self.is_told = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_runtest_logfinish(self) -> None:
        self._connection.send(("reports", self._reports))
        self._reports = []

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        # pytest tells this plugin what it recorded before, too.
        if self.is_told:
            # A warning with its arguments need not be picklable, nor a class in a function.
            kept = sys.modules.get(warning_message.category.__module__)
            is_known = getattr(kept, warning_message.category.__name__, None) is warning_message.category
            told = warnings.WarningMessage(
                str(warning_message.message),
                warning_message.category if is_known else UserWarning,
                warning_message.filename,
                warning_message.lineno,
            )
            value = {"warning_message": told, "when": when, "nodeid": nodeid, "location": location}
            self._connection.send(("warning", value))


def _run_in_child(session: pytest.Session, connection: Connection, number: int) -> NoReturn:
    status = 1
    try:
        _separate(session, number)
        relay = _Relay(session.config, connection)
        session.config.pluginmanager.register(relay)
        relay.is_told = True
        _run_files(session, connection)
        status = 0
    except KeyboardInterrupt:
        pass  # which the parent gets, too
    except BaseException:
        connection.send(("error", traceback.format_exc()))
    finally:
        for file in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                file.flush()
        # What was to happen at the end of the parent must not happen here.
        os._exit(status)


def _separate(session: pytest.Session, number: int) -> None:
    """Give this process files for captured output, and a folder for temporary files, of its own."""
    config: Any = session.config
    if capture := config.pluginmanager.get_plugin("capturemanager"):
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()
    if reporter := config.pluginmanager.get_plugin("terminalreporter"):
        reporter._tw._file = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
    config._tmp_path_factory._basetemp = config._tmp_path_factory.mktemp(f"process-{number}", numbered=False)


def _run_files(session: pytest.Session, connection: Connection) -> None:
    def next_file() -> list[int]:
        connection.send(("file", None))
        file: list[int] = connection.recv()
        return file

    todo = deque(next_file())
    while todo:
        item = session.items[todo.popleft()]
        if not todo:
            # The test must know whether others use what it used.
            todo.extend(next_file())
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=session.items[todo[0]] if todo else None)
        if session.shouldfail or session.shouldstop or connection.poll():
            session._setupstate.teardown_exact(None)
            return
