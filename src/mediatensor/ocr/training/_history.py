"""What a training did, epoch by epoch: as JSON lines, and as a picture of its curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..._engine.common.plain_values import json_bytes
from ..._engine.sources.atomic_files import write_file, writing

__all__ = ["write_curves", "write_history"]


def write_history(path: Path, epochs: Sequence[Mapping[str, Any]]) -> None:
    """Write one JSON object a line, one line an epoch.

    Raises:
        WriteError: if it cannot be written.
    """
    write_file(path, b"".join(json_bytes(epoch) + b"\n" for epoch in epochs))


def write_curves(path: Path, title: str, epochs: Sequence[Mapping[str, Any]]) -> None:
    """Draw losses above and errors below, over the epochs. Nothing is drawn where matplotlib is not installed.

    Args:
        path: A PNG file.
        title: What stands above.
        epochs: As `write_history` takes them, with ``epoch``, ``loss``, and dictionaries ``validation`` and ``keep``.

    Raises:
        WriteError: if it cannot be written.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator, PercentFormatter
    except ImportError:
        return
    figure = Figure(figsize=(8, 5.6), dpi=120, layout="constrained")
    losses, errors = figure.subplots(2, 1, sharex=True)
    figure.suptitle(title, fontsize=13, fontweight="bold")
    trained = [epoch for epoch in epochs if epoch["loss"] is not None]
    losses.plot([epoch["epoch"] for epoch in trained], [epoch["loss"] for epoch in trained], label="new")
    kept = [epoch for epoch in trained if epoch["keep_loss"] is not None]
    if kept:
        losses.plot([epoch["epoch"] for epoch in kept], [epoch["keep_loss"] for epoch in kept], label="to keep")
        losses.legend(frameon=False)
    losses.set_ylabel("loss")
    for name, label in (("validation", "validation"), ("keep", "to keep")):
        scored = [epoch for epoch in epochs if epoch.get(name)]
        if scored:
            shares = [1 - epoch[name]["score"] for epoch in scored]
            named = f"{label}, {shares[-1]:.2%} in the end"
            errors.plot([epoch["epoch"] for epoch in scored], shares, marker="o", markersize=3, label=named)
    errors.set(ylabel="errors", xlabel="epoch", ylim=(0, None))
    errors.yaxis.set_major_formatter(PercentFormatter(1.0))
    errors.xaxis.set_major_locator(MaxNLocator(integer=True))
    errors.legend(frameon=False)
    for axes in (losses, errors):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
    with writing(path) as file:
        figure.savefig(file, format="png")
