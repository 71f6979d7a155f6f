"""Run the tests of a module over a copy of the source, in a process forked from one that has imported torch."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..shared import structure
from .mutations import Fault, plant

__all__ = ["Result", "path_of", "run_fault", "run_test", "tests_of"]

ROOT = Path(__file__).parents[2]
_SOURCES = ROOT / "src"
_NUM_FILES = 6
# Imports between a module and a test that is as good as unrelated.
_FAR = 5
_FOLDERS = ("media", "data", "text", "apps")


@dataclass(frozen=True)
class Result:
    """How a run of tests ended.

    Attributes:
        outcome: "found", "missed", "timed out", or "gone" if the place of the fault is not there any more.
        seconds: Wall time.
        test: The first test that failed.
    """

    outcome: str
    seconds: float = 0.0
    test: str = ""


def path_of(module: str, sources: Path = _SOURCES) -> Path:
    """Return the file of a module."""
    path = sources / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _test_imports() -> dict[Path, set[str]]:
    return {
        path: structure.imported_modules(ast.parse(path.read_text(encoding="utf-8")), "", structure.modules())
        for folder in _FOLDERS
        for path in sorted((ROOT / "tests" / folder).glob("test_*.py"))
    }


def tests_of(module: str, function: str) -> list[Path]:
    """Return the test files that concern a function, the nearest first.

    A file is near if it mentions the function or its class, has the name of the module or of its package, and if few
    imports lie between them.
    """
    distances = {module: 0}
    todo = [module]
    while todo:
        current = todo.pop(0)
        for name, imported in structure.module_graph().items():
            if current in imported and name not in distances:
                distances[name] = distances[current] + 1
                todo.append(name)
    wing = "text" if module.startswith("mediatensor.ocr.") else structure.wing_of(module)
    words = _words(".".join([*module.split(".")[1:], function.lower()]))
    names = [name for name in function.split(".") if len(name) > 4 and not name.startswith("_")]

    def rank(path: Path) -> tuple[int, int, str]:
        # Packages import some of their modules by name, so the list can be empty.
        distance = min((distances[name] for name in _test_imports()[path] if name in distances), default=_FAR)
        is_other_wing = path.parent.name != wing
        text = path.read_text(encoding="utf-8")
        num_mentions = sum(re.search(rf"\b{name}\b", text) is not None for name in names)
        rank = min(distance, _FAR) - 3 * len(words & _words(path.stem)) + 5 * is_other_wing - 4 * num_mentions
        return rank, path.stat().st_size, path.name

    return sorted(_test_imports(), key=rank)[:_NUM_FILES]


def _words(name: str) -> set[str]:
    return {word.removesuffix("s") for word in re.split(r"[._]+", name) if len(word) > 2}


@contextmanager
def _sources_with(fault: Fault | None) -> Iterator[Path | None]:
    if fault is None:
        yield _SOURCES
        return
    with tempfile.TemporaryDirectory(prefix="mediatensor-fault-") as folder:
        sources = Path(folder) / "src"
        shutil.copytree(_SOURCES, sources)  # with compiled modules, which are valid for files of the same time
        yield sources if plant(fault, path_of(fault.module, sources)) else None


def run_fault(fault: Fault, *, runs_all: bool, seconds: float) -> Result:
    """Plant a fault in a copy of the source. Run its own test, then the nearest test files, until a test fails."""
    with _sources_with(fault) as sources:
        if sources is None:
            return Result("gone")
        if fault.test:
            # A test named by its identifier would run whole instead of sampled.
            path, _, name = fault.test.partition("::")
            result = _run(sources, [path, "-k", name], runs_all=runs_all, seconds=seconds)
            if result.outcome == "found":
                return result
        return _run(
            sources, [str(path) for path in tests_of(fault.module, fault.function)], runs_all=runs_all, seconds=seconds
        )


def run_test(test: str, seconds: float) -> Result:
    """Run one test over the source as it is."""
    return _run(_SOURCES, [test], runs_all=True, seconds=seconds)


def _run(sources: Path, tests: list[str], *, runs_all: bool, seconds: float) -> Result:
    begin = time.monotonic()
    receive, send = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(receive)
        os.setsid()
        _run_pytest(sources, tests, send, runs_all=runs_all)
    os.close(send)
    signal.signal(signal.SIGALRM, lambda *_: None)
    answer = b""
    os.set_blocking(receive, False)
    while time.monotonic() < begin + seconds:
        with suppress(BlockingIOError):
            part = os.read(receive, 1 << 16)
            answer += part
            if not part:
                break
        time.sleep(0.05)
    is_over = time.monotonic() < begin + seconds
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    os.close(receive)
    spent = round(time.monotonic() - begin, 1)
    if not is_over:
        return Result("timed out", spent)
    told = json.loads(answer) if answer else {"code": -1, "test": "the process died"}
    return Result("missed" if told["code"] in (0, 5) else "found", spent, told["test"])


def _run_pytest(sources: Path, tests: list[str], answers: int, *, runs_all: bool) -> None:
    """Run pytest in this process, write how it ended, and end."""
    import pytest

    os.chdir(ROOT)
    os.environ["PYTHONPATH"] = str(sources)
    sys.path.insert(0, str(sources))
    options = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider", *(["--all"] if runs_all else [])]
    written = io.StringIO()
    code: int = 3
    try:
        with redirect_stdout(written), redirect_stderr(written):
            code = int(pytest.main([*options, *tests]))
    except BaseException as error:  # a fault may do anything
        written.write(f"\nERROR {type(error).__name__}: {error}\n")
    failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", written.getvalue(), re.MULTILINE)
    test = failed[1] if failed else written.getvalue().strip().rpartition("\n")[2]
    os.write(answers, json.dumps({"code": code, "test": test[:300]}).encode())
    os._exit(0)
