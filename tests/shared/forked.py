"""Run programs in processes forked from one that has imported torch: a new process spends two seconds on imports.

The library itself is imported by the program, as in a new process. What must hold for imports, for options of Python or
for the memory of a process that has just started needs a new one.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["run_program"]


def run_program(program: str, *arguments: object, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run Python code as ``python -c PROGRAM ARGUMENTS`` would, and return its exit status and output."""
    if not hasattr(os, "fork"):
        command = [sys.executable, "-c", program, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    server = _server(os.getpid())
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        request = {
            "program": program, "arguments": [str(argument) for argument in arguments], "folder": folder,
            "environment": dict(os.environ), "directory": os.getcwd(), "path": sys.path,
        }  # fmt: skip
        print(json.dumps(request), file=server.stdin, flush=True)
        pid = int(server.stdout.readline())
        timer = threading.Timer(timeout, os.killpg, (pid, signal.SIGKILL))
        timer.start()
        try:
            status = int(server.stdout.readline())
        finally:
            timer.cancel()
        output, errors = ((Path(folder) / name).read_text(errors="replace") for name in ("1", "2"))
    return subprocess.CompletedProcess([program], status, output, errors)


@cache
def _server(_: int) -> subprocess.Popen[str]:
    """The process that forks; its parent's number is a key, since a forked test process needs one of its own."""
    server = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.kill)
    return server


def _serve() -> None:
    import av  # noqa: F401
    import numpy  # noqa: F401
    import torch  # noqa: F401
    from PIL import Image  # noqa: F401

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            answers.close()
            _become(request)
            return
        print(pid, file=answers)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), file=answers)


def _become(request: dict[str, Any]) -> None:
    """Run a program in this process, which ends as an interpreter does."""
    os.setsid()
    for number in (1, 2):
        written = os.open(f"{request['folder']}/{number}", os.O_WRONLY | os.O_CREAT)
        os.dup2(written, number)
        os.close(written)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    sys.argv, sys.path[:] = ["-c", *request["arguments"]], request["path"]
    namespace = {"__name__": "__main__", "__builtins__": __builtins__}
    # What the program leaves in its module is there when the interpreter ends.
    sys.modules["__main__"].__dict__.update(namespace)
    try:
        exec(compile(request["program"], "<string>", "exec"), sys.modules["__main__"].__dict__)
    except SystemExit:
        raise
    except BaseException:
        traceback.print_exc()
        raise SystemExit(1) from None


if __name__ == "__main__":
    _serve()
