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

import mediatensor
from mediatensor.cli import main

ROOT = Path(__file__).parents[2]
# Extras for contributors, and the extra that contains all.
NOT_FOR_USERS = {"all", "bench", "dev", "docs", "test"}


def test_what_it_says_is_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["facts"]["versions"]["torch"] == torch.__version__
    assert told["facts"]["ffmpeg_libraries"]["libavcodec"] == ".".join(map(str, av.library_versions["libavcodec"]))
    # FFmpeg's own table of releases.
    releases = {59: 5, 60: 6, 61: 7, 62: 8, 63: 9}
    assert mediatensor.ffmpeg_major_version == releases[av.library_versions["libavcodec"][0]]
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
    "broken",
    [
        # The import of pillow raises, so the next one is tried.
        {
            "PIL": ("raise ImportError('libfoo.so.1: cannot open shared object file')", "ImportError: libfoo.so.1"),
            "torch": ("import os; os._exit(3)", "exit code 3"),
        },
        {"PIL": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "signal SIGSEGV")},
    ],
    ids=["exit code", "signal"],
)
def test_a_package_that_breaks_is_named(tmp_path: Path, broken: dict[str, tuple[str, str]]) -> None:
    """Broken packages are found first; the installed ones are intact."""
    for module, (code, _) in broken.items():
        (tmp_path / module).mkdir()
        (tmp_path / module / "__init__.py").write_text(code)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    command = [sys.executable, "-m", "mediatensor", "doctor"]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert ended.returncode == 1, ended.stderr
    for module, (_, said) in broken.items():
        package = {"PIL": "pillow"}.get(module, module)
        (line,) = [line for line in ended.stdout.splitlines() if f"import {package}" in line]
        assert "FAILED" in line
        assert said in line
    assert "Traceback" not in ended.stderr
