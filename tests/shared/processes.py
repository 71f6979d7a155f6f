"""Shared by tests of programs and processes: running processes, and waiting for them."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

WAIT_SECONDS = 20


def find_program(name: str, package: str = "poppler-utils") -> str:
    """The path of a program; the test is skipped where it is missing."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"needs the {name} program (on Debian: apt-get install {package})")
    return path


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def wait_until(is_so: Callable[[], object], seconds: float = 60, trouble: str = "it took too long") -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, trouble
        time.sleep(0.01)


def wait_until_gone(pid: int) -> None:
    wait_until(lambda: not is_running(pid), WAIT_SECONDS, f"process {pid} still runs")


def wait_for_pid(file: Path, program: subprocess.Popen[bytes] | None = None) -> int:
    """The number that a process writes into a file, as long as the program that has it written runs."""

    def is_written() -> bool:
        assert program is None or program.poll() is None, "the program ended"
        return file.exists() and bool(file.read_text())

    wait_until(is_written, WAIT_SECONDS, "the process did not begin")
    return int(file.read_text())
