"""``mediatensor doctor``: its report is true, and it finds every kind of breakage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import av
import pytest
import torch

from mediatensor.cli import main

ROOT = Path(__file__).parents[2]
# Extras for contributors, and the extra that contains all.
NOT_FOR_USERS = {"all", "bench", "dev", "docs", "test"}


def test_what_it_says_is_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["facts"]["versions"]["torch"] == torch.__version__
    assert told["facts"]["ffmpeg_libraries"]["libavcodec"] == ".".join(map(str, av.library_versions["libavcodec"]))
    assert told["facts"]["usable_cores"] == len(os.sched_getaffinity(0))
    assert ("H.264" in told["facts"]["video_encoders"]) == ("libx264" in av.codecs_available)
    assert {step["name"]: step["is_right"] for step in told["steps"]} == dict.fromkeys(
        ("import numpy", "import pillow", "import torch", "import av", "FFmpeg", "GPU", "video", "workers", "text"),
        True,
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(told["extras"]) == set(project["optional-dependencies"]) - NOT_FOR_USERS
    assert told["extras"]["parquet"]["installed"]
    assert "pyarrow" in told["extras"]["parquet"]["packages"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ImportError('libfoo.so.1: cannot open shared object file')", "ImportError: libfoo.so.1"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "signal SIGSEGV"),
        ("import os; os._exit(3)", "exit code 3"),
    ],
)
def test_a_package_that_breaks_is_named(tmp_path: Path, code: str, said: str) -> None:
    """A broken PIL is found first; the installed one is intact."""
    (tmp_path / "PIL").mkdir()
    (tmp_path / "PIL" / "__init__.py").write_text(code)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    command = [sys.executable, "-m", "mediatensor", "doctor"]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert ended.returncode == 1, ended.stderr
    (line,) = [line for line in ended.stdout.splitlines() if "import pillow" in line]
    assert "FAILED" in line
    assert said in line
    assert "Traceback" not in ended.stderr
