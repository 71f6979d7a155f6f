"""A process that reads damaged files, one after the other: a case in each line of its input, a report in each line out.

``python -m fuzz.worker FOLDER``, where the folder keeps sound files.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

from .answers import Answers, WrongAnswerError
from .cases import Case, damaged_file, read_case
from .limits import MAX_GROWTH_BYTES, forget_peak, holdings, limit_memory, peak_bytes, resident_bytes
from .reading_video import is_left_to_memory

__all__ = ["main"]

# One in this many cases is read twice.
_TWICE = 4


def main() -> None:
    reports = _take_output()
    faulthandler.enable()
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    limit_memory()
    gc.collect()
    gc.freeze()  # skip objects made at import in the collection after each case
    folder = Path(sys.argv[1])
    scratch = Path(tempfile.gettempdir())
    for line in sys.stdin:
        case = Case(**json.loads(line))
        reports.write(json.dumps(_report(case, folder, scratch)) + "\n")
        reports.flush()


def _take_output() -> Any:
    """Reserve standard output for reports; redirect prints of libraries to standard error."""
    reports = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return reports


def _report(case: Case, folder: Path, scratch: Path) -> dict[str, Any]:
    damaged = damaged_file(case, folder)
    path = scratch / f"case.{damaged.name.rsplit('_', 1)[-1]}"
    path.write_bytes(damaged.data)
    facts = {"file": damaged.name, "done": damaged.done, "size": len(damaged.data)}
    try:
        return facts | _tried(case, path, folder)
    finally:
        path.unlink()


def _tried(case: Case, path: Path, folder: Path) -> dict[str, Any]:
    try:
        return _judged(case, path, folder)
    except WrongAnswerError as error:
        return {"failure": "wrong answer", "detail": str(error)}
    except Exception as error:
        return {"failure": f"exception: {type(error).__name__}", "detail": _where(error)}


def _judged(case: Case, path: Path, folder: Path) -> dict[str, Any]:
    before, resident = holdings(), resident_bytes()
    forget_peak()
    answers = read_case(case, path, folder)
    growth = peak_bytes() - resident
    if growth > MAX_GROWTH_BYTES:
        return {"failure": "memory", "detail": f"{growth >> 20} MiB at most, {resident >> 20} MiB before"}
    leak = _leak(case, path, folder, before)
    if leak:
        return {"failure": "leak", "detail": leak}
    if case.seed % _TWICE == 0:
        again = read_case(case, path, folder)
        answers.is_left_to_codec |= again.is_left_to_codec
        changed = _change(answers, again)
        if changed and not answers.is_left_to_codec and not is_left_to_memory(case.kind, path):
            return {"failure": "not repeatable", "detail": changed}
    outcome = "left to codec" if answers.is_left_to_codec else answers.outcome
    return {"outcome": outcome, "growth": growth, "resident": resident_bytes()}


def _leak(case: Case, path: Path, folder: Path, before: Any) -> str:
    """Return what every reading of the file leaks; objects made once per process do not count."""
    found: list[str] = []
    for _ in range(3):
        if holdings().more_than(before):
            gc.collect()  # uncollected garbage is not a leak
        after = holdings()
        found = after.more_than(before)
        if not found:
            return ""
        before = after
        read_case(case, path, folder)
    return "; ".join(found)


def _change(first: Answers, second: Answers) -> str:
    if first.lines == second.lines:
        return ""
    pairs = zip(first.lines, second.lines, strict=False)
    return next((f"{one}, then {two}" for one, two in pairs if one != two), "another number of answers")[:500]


def _where(error: Exception) -> str:
    lines = traceback.format_exception(error)
    return "".join(lines)[-2500:]


if __name__ == "__main__":
    main()
