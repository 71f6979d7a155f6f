"""Worker processes that answer requests: how benchmarks run a library, a reader or a group of checks by itself.

A module that calls `serve` is one side, and `WorkerProcess` is the other. Requests and answers are lines of JSON ::

    {"do": "start", "library": "OpenCV"}    calls worker.start(library="OpenCV")
    {"versions": {"opencv": "4.12"}}        is the returned value
    {"error": "ImportError: no cv2"}        is the raised exception

A crash ends the worker; the other side gets a `WorkerError` with its last output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def single_threaded(num_threads: int = 1) -> dict[str, str]:
    """Return the variables of an environment in which libraries use this many threads."""
    return dict.fromkeys(_THREAD_VARIABLES, str(num_threads))


class WorkerError(Exception):
    """A worker failed, crashed or does not answer."""


class WorkerProcess:
    """A process that runs a module with `serve`.

    It imports its libraries in the background; the first answer waits for this.

    Args:
        module: Name of the module.
        python: The Python program; mediatensor comes from this checkout unless the environment overrides it.
        environment: Variables in addition to the inherited ones.
        patience_seconds: A worker that does not answer for this long is ended.
    """

    def __init__(
        self,
        module: str,
        *,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
        patience_seconds: float = 1800,
    ) -> None:
        self._patience_seconds = patience_seconds
        self._is_given_up = False
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [python, "-m", module],
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def send(self, what: str, **arguments: Any) -> None:
        """Send a request."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the missing answer shows that the process is gone
            print(json.dumps({"do": what, **arguments}), file=self._process.stdin, flush=True)

    def receive(self) -> dict[str, Any]:
        """Wait for the next answer.

        Raises:
            WorkerError: if the request failed, or the process ended or was given up.
        """
        assert self._process.stdout is not None
        timer = threading.Timer(self._patience_seconds, self._give_up)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            code = self._process.wait()
            if self._is_given_up:
                raise WorkerError(f"its process said nothing for {self._patience_seconds:g} s and was ended")
            raise WorkerError(f"its process ended with {code}: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        """Send a request, and wait for its answer."""
        self.send(what, **arguments)
        return self.receive()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def _give_up(self) -> None:
        self._is_given_up = True
        self._process.kill()

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def close(self) -> None:
        """End the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # the worker has ended without reading everything
                pipe.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def running_service(
    folder: str, *options: str, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[int, int]]:
    """Run ``mediatensor serve`` with its files in a folder, and yield its port and its process id.

    ``environment`` has variables in addition to the inherited ones.
    """
    command = [sys.executable, "-m", "mediatensor", "serve", "--port", "0", "--folder", folder, *options]
    environment = {**os.environ, **(environment or {})}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().rstrip("/\n").rpartition(":")[2]), process.pid
        finally:
            process.terminate()


def serve(worker: Any) -> None:
    """Answer requests with the results of a worker's methods, until the input ends."""
    # Libraries print; the answers have their own channel.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(worker, request.pop("do"))(**request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(answer), file=answers)
