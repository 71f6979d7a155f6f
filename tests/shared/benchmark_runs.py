"""Run a benchmark as a command, on tiny data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def run_quickly(name: str, folder: Path, *options: str, report: str = "", has_to_succeed: bool = True) -> Any:
    """What ``python -m benchmarks.NAME --quick`` prints, and the document of that name, or another, that it writes."""
    command = [sys.executable, "-m", f"benchmarks.{name}", "--quick", "-o", str(folder), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 or not has_to_succeed, done.stderr
    document = folder / f"{report or name.rpartition('.')[2]}.json"
    return done.stdout, json.loads(document.read_text(encoding="utf-8"))
