"""The processes of `IsolatedWorker`, from outside: their ends, waiting callers, and hostile messages.

The tests use the process `quick_child`, which starts quickly. No test waits long if something is broken.
"""

from __future__ import annotations

import gc
import linecache
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import quick_child
from mediatensor.errors import ClosedError, IsolatedWorkerError

# Private: a process that starts at once replaces the real one, whose start takes seconds.
from mediatensor.isolate import IsolatedWorker, _child, _process, _worker
from mediatensor.isolate._values import MAX_NUM_VALUES
from places import traced
from processes import is_running, wait_for_pid, wait_until_gone

WAIT_SECONDS = 10
WORKER_FILE = str(sys.modules[IsolatedWorker.__module__].__file__)


@pytest.fixture(autouse=True)
def quick_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_worker, "_PROGRAM", quick_child.PROGRAM)
    monkeypatch.setattr(_process, "START_SECONDS", WAIT_SECONDS)


@pytest.fixture
def worker() -> Iterator[IsolatedWorker]:
    with IsolatedWorker(timeout_seconds=WAIT_SECONDS) as worker:
        yield worker


def children_of_this_process() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def what_is_held() -> tuple[int, int]:
    gc.collect()
    return len(os.listdir("/dev/fd")), threading.active_count()


@contextmanager
def killed_after(pid: int, seconds: float) -> Iterator[None]:
    """Kill a process after some seconds, so that a caller does not wait for it forever."""
    timer = threading.Timer(seconds, os.kill, (pid, signal.SIGKILL))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


# Ends


def test_many_calls_from_threads_and_the_end() -> None:
    before = what_is_held()
    with IsolatedWorker(num_processes=2) as worker, ThreadPoolExecutor(4) as pool:
        pids = set(pool.map(lambda _: worker.run(quick_child.process_id, 0.1), range(8)))
        assert len(pids) == 2
        assert list(pool.map(lambda number: worker.run(quick_child.give, number), range(300))) == list(range(300))
        waiting = [pool.submit(worker.run, quick_child.process_id, 1000) for _ in range(3)]
        while not all(future.running() for future in waiting):
            time.sleep(0.01)
        worker.close()
        for future in waiting:
            with pytest.raises(ClosedError):
                future.result(WAIT_SECONDS)
    with pytest.raises(ClosedError):
        worker.run(quick_child.give, 0)
    assert not any(map(is_running, pids))
    assert what_is_held() == before


def test_closing_ends_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_worker, "_PROGRAM", quick_child.HANGING_PROGRAM)
    monkeypatch.setattr(_process, "START_SECONDS", 3)
    before = what_is_held()
    with IsolatedWorker() as worker, ThreadPoolExecutor(1) as pool:
        starting = pool.submit(worker.run, quick_child.give, 0)
        time.sleep(0.1)
        worker.close()
        with pytest.raises(ClosedError):
            starting.result(1)
    assert what_is_held() == before


def test_a_process_is_replaced_after_max_calls() -> None:
    with IsolatedWorker(max_calls=2) as worker:
        pids = [worker.run(os.getpid) for _ in range(5)]
    assert [pids.index(pid) for pid in pids] == [0, 0, 2, 2, 4]


def test_crashes_leave_nothing(worker: IsolatedWorker) -> None:
    before = what_is_held()
    pids = []
    for _ in range(10):
        pids.append(worker.run(os.getpid))
        with pytest.raises(IsolatedWorkerError, match="SIGABRT") as caught:
            worker.run(os.abort)
        assert caught.value.reason == "crash"
    del caught
    assert len(set(pids)) == 10
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)  # not as zombies, either
    assert what_is_held() == before


@pytest.mark.parametrize("size", [0, 1 << 20])
def test_a_process_that_stops_between_calls_costs_the_time_of_one(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # A large call would fill the unread socket.
    monkeypatch.setattr(_child, "_HAS_SEALED_MEMORY", False)
    monkeypatch.setattr(_process, "GRACE_SECONDS", 0.5)
    with IsolatedWorker(timeout_seconds=0.3) as worker:
        before = worker.run(os.getpid)
        os.kill(before, signal.SIGSTOP)
        with (
            killed_after(before, WAIT_SECONDS),
            pytest.raises(IsolatedWorkerError, match=r"within 0\.3 seconds") as caught,
        ):
            worker.run(quick_child.give, "a" * size)
        assert caught.value.reason == "timeout"
        assert not is_running(before)
        assert worker.run(os.getpid) != before


# Ctrl-C


def test_ctrl_c_ends_the_call(worker: IsolatedWorker, tmp_path: Path) -> None:
    def interrupt() -> None:
        wait_for_pid(tmp_path / "pid")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    before = what_is_held()
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            worker.run(quick_child.sleep_after_writing, tmp_path / "pid")
    finally:
        thread.join()
        signal.signal(signal.SIGINT, handler)
    wait_until_gone(wait_for_pid(tmp_path / "pid"))
    del caught
    assert what_is_held() == before


def interrupted_at(line: int, function: Callable[[], Any]) -> bool:
    """Return whether a call executes this many lines of the worker's module; Ctrl-C arrives at the last line."""
    num_lines = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal num_lines
        if frame.f_code.co_filename != WORKER_FILE:
            return None
        text = linecache.getline(WORKER_FILE, frame.f_lineno).strip()
        # Lines between the end of a with block and the release of its lock are traced, but no signal is handled there.
        if event == "line" and not text.startswith("with "):
            num_lines += 1
            if num_lines == line:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    try:
        with traced(trace):
            function()
    except KeyboardInterrupt:
        return True
    return False


def test_ctrl_c_frees_the_slot_at_every_point(worker: IsolatedWorker) -> None:
    before = what_is_held()
    line = 1
    with ThreadPoolExecutor(1) as pool:
        while interrupted_at(line, lambda: worker.run(quick_child.give, 0)):
            line += 1
            future = pool.submit(worker.run, quick_child.give, line)
            try:
                assert future.result(WAIT_SECONDS) == line
            finally:
                if not future.done():
                    worker.close()  # waits forever
    assert line > 20
    worker.close()
    assert what_is_held() == before


# Python can only print an interrupt that comes while its list of threads forgets one.
@pytest.mark.filterwarnings("ignore:Exception ignored in.*WeakSet:pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_during_a_start_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A timer sends Ctrl-C at many points of the start. Threads end late, as on a busy machine."""

    def join_late(thread: threading.Thread, *limits: float) -> None:
        time.sleep(0.005)
        join(thread, *limits)

    join = threading.Thread.join
    monkeypatch.setattr(threading.Thread, "join", join_late)
    before = what_is_held()
    children = children_of_this_process()
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with IsolatedWorker(max_calls=1) as worker:
            for index in range(25):
                with suppress(KeyboardInterrupt):
                    signal.setitimer(signal.ITIMER_REAL, 0.0005 * (1 + index))
                    worker.run(quick_child.give, 0)
                    time.sleep(0.02)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    assert what_is_held() == before
    assert children_of_this_process() <= children


# Messages of a compromised process


class _Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("bomb",)


def test_code_is_not_run(worker: IsolatedWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(IsolatedWorkerError) as caught:
        worker.run(quick_child.send_and_sleep, quick_child.message(b"V", pickle.dumps(_Bomb())))
    assert caught.value.reason == "result"
    assert not (tmp_path / "bomb").exists()


def test_results_that_would_fill_the_memory_are_rejected(worker: IsolatedWorker) -> None:
    with pytest.raises(IsolatedWorkerError, match=f"values, of at most {MAX_NUM_VALUES}") as caught:
        worker.run(quick_child.send_brackets, 4 * MAX_NUM_VALUES)
    assert caught.value.reason == "result"


@pytest.mark.parametrize("data", [b"R", b"L", b"S", b"\xff"], ids=repr)
def test_messages_out_of_turn_are_rejected(worker: IsolatedWorker, data: bytes) -> None:
    with pytest.raises(IsolatedWorkerError, match="out of turn") as caught:
        worker.run(quick_child.send_and_sleep, quick_child.message(data, b""))
    assert caught.value.reason == "result"
    assert worker.run(quick_child.give, 1) == 1
