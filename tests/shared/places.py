"""Doing something in a forked process, in which limits can be set and which can be interrupted like a program."""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from processes import wait_until

if TYPE_CHECKING:
    from _typeshed import TraceFunction

__all__ = [
    "file_size_limit",
    "full_stream",
    "in_child",
    "interrupted",
    "interrupted_at_line",
    "left_in_group",
    "needs_fork",
    "needs_full_device",
    "needs_proc",
    "needs_unix",
    "num_open_files",
    "open_files",
    "read_pipe",
    "traced",
]

T = TypeVar("T")

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
needs_full_device = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is full")
needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc to list open files")
needs_unix = pytest.mark.skipif(sys.platform == "win32", reason="needs pipes, links and devices with paths")

_TIMEOUT_SECONDS = 60


def num_open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def open_files(place: Path) -> list[str]:
    """The files that this process has open in a folder, or the one at a path, as often as it is open."""
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    targets = [os.readlink(link) for link in links if os.path.islink(link)]
    return [target for target in targets if target.startswith(str(place))]


def in_child(folder: Path, work: Callable[[], T]) -> T:
    """The result of a function in a forked process, which has a minute; exceptions become an ``AssertionError``."""
    process = _fork(folder / "result", work)
    status = os.waitpid(process, 0)[1]
    assert status == 0, f"the process ended with {status}"
    return _result(folder / "result")


def interrupted(folder: Path, work: Callable[[Callable[[], object]], object], seconds: float) -> int:
    """Have a function in a forked process be interrupted as by Ctrl-C, and see that it ends by that.

    It calls its argument as soon as it may be interrupted, ``seconds`` later. Returns the number of its process, and
    process group.
    """
    begun = folder / "begun"
    begun.unlink(missing_ok=True)
    process = _fork(folder / "result", lambda: work(begun.touch))
    wait_until(begun.exists, _TIMEOUT_SECONDS)
    time.sleep(seconds)
    # Python loses the exception if it comes while an object is finalised: then one presses the keys once more.
    for _ in range(5):
        os.killpg(process, signal.SIGINT)
        if _ends(process, 2):
            break
    else:
        os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
    assert (folder / "result").exists(), "Ctrl-C did not end it"
    with pytest.raises(AssertionError, match="KeyboardInterrupt"):
        _result(folder / "result")
    return process


def _ends(process: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if os.waitpid(process, os.WNOHANG)[0]:
            return True
        time.sleep(0.01)
    return False


def interrupted_at_line(number: int, where: ModuleType | Sequence[ModuleType], work: Callable[[], object]) -> bool:
    """Interrupt a function when it comes to a line of some modules, or packages, for the ``number``-th time.

    Returns whether it came there. Then it must have ended by that, wherever the line is called from.
    """
    modules = [where] if isinstance(where, ModuleType) else where
    sources = tuple(os.path.dirname(str(m.__file__)) if hasattr(m, "__path__") else str(m.__file__) for m in modules)
    left = number

    def trace(frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        nonlocal left
        if not frame.f_code.co_filename.startswith(sources):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                signal.raise_signal(signal.SIGINT)
        return trace

    # Python loses an exception that comes while an object is finalised, so no garbage of other tests may be collected.
    was_enabled = gc.isenabled()
    gc.disable()
    # A shell lets programs in the background ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with traced(trace):
            work()
    except KeyboardInterrupt:
        return True
    finally:
        signal.signal(signal.SIGINT, before)
        if was_enabled:
            gc.enable()
    assert left > 0, f"the interrupt at line {number} was lost"
    return False


@contextmanager
def traced(trace: TraceFunction) -> Iterator[None]:
    """Report the calls of this thread to a function, see `sys.settrace`."""
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def read_pipe(path: Path) -> Iterator[list[bytes]]:
    """Read a new named pipe within the block; the data are available after the block."""
    os.mkfifo(path)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()))
    reader.start()
    yield received
    reader.join()


def left_in_group(group: int) -> bool:
    """Whether processes of a group are there, which get two seconds to end."""
    end = time.monotonic() + 2
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.02)
    return True


@contextmanager
def file_size_limit(num_bytes: int) -> Iterator[None]:
    """No file of this process, shared memory and semaphores included, can be longer: as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def full_stream(name: str) -> Iterator[None]:
    """Let ``sys.stdout`` or ``sys.stderr`` be a device that is full within the block."""
    full = open("/dev/full", "w")  # noqa: SIM115 - closing it fails
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, name, full)
        yield
    with suppress(OSError):
        full.close()


def _fork(result: Path, work: Callable[[], Any]) -> int:
    result.unlink(missing_ok=True)
    process = os.fork()
    if process == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_TIMEOUT_SECONDS)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        status = 1
        try:
            result.write_bytes(_answer(work))
            status = 0
        finally:
            os._exit(status)
    # By both, so that it is so whoever comes first.
    os.setpgid(process, process)
    return process


def _answer(work: Callable[[], Any]) -> bytes:
    try:
        answer = (True, work())
    except BaseException as error:
        answer = (False, f"{type(error).__name__}: {error}")
    if not answer[0]:  # as at the end of a program
        gc.collect()
    return pickle.dumps(answer)


def _result(path: Path) -> Any:
    is_well, answer = pickle.loads(path.read_bytes())
    assert is_well, answer
    return answer
