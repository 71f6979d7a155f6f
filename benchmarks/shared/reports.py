"""Reports of a run: facts, tables and files."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def say(line: str) -> None:
    """Print the progress of a run to stderr."""
    print(line, file=sys.stderr, flush=True)


def fact_list(stamp: Mapping[str, str], notes: Iterable[str] = ()) -> str:
    """Format the facts of a run, and notes on it, as a list."""
    return "\n".join([*(f"- {key}: {value}" for key, value in stamp.items()), *(f"- {note}" for note in notes)])


def markdown_table(head: Sequence[str], lines: Iterable[Sequence[object]], num_texts: int = 1) -> str:
    """Format a table whose first ``num_texts`` columns are words; all further columns are numbers."""
    rule = ["---"] * num_texts + ["---:"] * (len(head) - num_texts)
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in (head, rule, *lines))


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def write_report(
    folder: Path | None,
    name: str,
    document: Mapping[str, Any],
    text: str,
    draw: Callable[[Path], object] | None = None,
) -> None:
    """Print a report, and write ``NAME.json``, ``NAME.md`` and, if matplotlib is installed, ``NAME.png``.

    Args:
        folder: Made if missing; ``None`` writes nothing.
        name: Of the files, without extension.
        document: The numbers.
        text: The report in Markdown, which is printed.
        draw: Draws a chart into the file whose path it is given.
    """
    print(text)
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    if draw is not None and can_draw():
        draw(folder / f"{name}.png")
