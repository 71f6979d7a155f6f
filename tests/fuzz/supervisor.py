"""Workers and who watches them: a case that kills its worker, or keeps it too long, is noted, and the next begins."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .cases import Case

__all__ = ["CASE_SECONDS", "Worker"]

#: Of processor time, which other work on the machine does not take from a case.
CASE_SECONDS = 30
# Somebody who waits takes no processor time.
_WALL_SECONDS = 240
_TESTS = Path(__file__).parents[1]
_MAX_CASES = 2000


class Worker:
    """A process that reads cases, and another one whenever it has died; several can share a folder of sound files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: Path | None = None
        self._num_cases = 0

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @property
    def process_id(self) -> int:
        """Of the process that reads the next case."""
        return self._started().pid

    def run(self, case: Case) -> dict[str, Any]:
        """Return the report on a case: ``outcome``, or ``failure`` and ``detail``; also ``file`` and ``done``."""
        process = self._started()
        assert process.stdin is not None
        began = time.monotonic()
        used = _processor_seconds(process.pid)
        try:
            process.stdin.write(json.dumps(asdict(case)).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._died()
        line = self._line(process, began, used)
        if line is None:
            return self._kept_too_long(process)
        if not line.endswith(b"\n"):
            return self._died()
        report: dict[str, Any] = json.loads(line)
        self._num_cases += 1
        if self._num_cases >= _MAX_CASES:
            self._stop()
        return report | {"seconds": time.monotonic() - began}

    def _line(self, process: subprocess.Popen[bytes], began: float, used: float) -> bytes | None:
        """Return the answer of the worker, even if incomplete; ``None`` if it takes too long."""
        assert process.stdout is not None
        answer = b""
        while not answer.endswith(b"\n"):
            if select.select([process.stdout], [], [], 1.0)[0]:
                part = os.read(process.stdout.fileno(), 1 << 16)
                if not part:
                    break
                answer += part
            elif time.monotonic() - began > _WALL_SECONDS or _processor_seconds(process.pid) - used > CASE_SECONDS:
                return None
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._num_cases = 0
            self._scratch = Path(tempfile.mkdtemp(prefix="fuzz-"))
            (self._scratch / "tmp").mkdir()
            paths = [str(_TESTS), str(_TESTS / "shared"), str(_TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")]
            environment = os.environ | {
                "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(self._scratch / "tmp"), "OMP_NUM_THREADS": "1",
                "SVT_LOG": "0", "PYTHONHASHSEED": "0",
            }  # fmt: skip
            with open(self._scratch / "errors", "wb") as errors:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "fuzz.worker", str(self._folder)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=environment,
                    cwd=self._scratch,
                )
        return self._process

    def _died(self) -> dict[str, Any]:
        assert self._process is not None
        status = self._process.wait(timeout=30)
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        report = {"failure": f"crash: {name}", "detail": self._last_words()}
        self._stop()
        return report

    def _kept_too_long(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        process.send_signal(signal.SIGABRT)  # its fault handler says where it is
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
        report = {"failure": "hang", "detail": self._last_words()}
        self._stop()
        return report

    def _last_words(self) -> str:
        assert self._scratch is not None
        errors = (self._scratch / "errors").read_bytes()
        # The fault handler writes the reason first, and long lists of modules last.
        start = errors.rfind(b"Fatal Python error")
        return (errors[-3000:] if start < 0 else errors[start:][:3000]).decode("utf-8", "replace")

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                try:
                    pipe.close()  # type: ignore[union-attr]
                except BrokenPipeError:
                    continue
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None


def _processor_seconds(process: int) -> float:
    try:
        numbers = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")
