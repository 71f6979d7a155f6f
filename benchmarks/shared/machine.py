"""Facts about the machine that affect the numbers."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path


def machine_stamp() -> dict[str, str]:
    """Hardware, system and load, in words."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    stamp = {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "platform": f"{platform.system()} {platform.machine()}",
        "CPU": _processor(),
        "cores": f"{os.cpu_count()}, of which {usable} can be used",
        "memory": _memory(),
        "Python": platform.python_version(),
    }
    if hasattr(os, "getloadavg"):
        stamp["load average at the start"] = " ".join(f"{load:.2f}" for load in os.getloadavg())
    return stamp


def package_versions(*packages: str) -> dict[str, str]:
    """Return the versions of the installed packages."""
    found = {}
    for package in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or "unknown"


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (AttributeError, ValueError, OSError):
        return "unknown"
