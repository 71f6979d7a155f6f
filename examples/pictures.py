"""Draw training clips and the accuracy by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

from mediatensor.datasets import VideoClips

CLIPS_PER_CLASS = 2


def draw_training(
    path: Path, dataset: VideoClips, accuracies: Mapping[str, Sequence[float]], *, stopped_in_epoch: float
) -> None:
    """Draw some clips with their labels, and the accuracy after each epoch; without matplotlib, say so.

    Args:
        path: The file to write.
        dataset: The clips.
        accuracies: For each training, by its name, the accuracy after each epoch, from 0 to 1.
        stopped_in_epoch: How many epochs were done when one of them was interrupted.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("(pip install matplotlib, and there is a picture to look at.)")
        return
    figure = Figure(figsize=(8, 10), layout="constrained")
    strips, curve = figure.subfigures(2, height_ratios=(3, 2))
    strips.suptitle("Where is it going? Clips as they are decoded, with their labels")
    rows = [row for rows in rows_by_class(dataset).values() for row in rows[:CLIPS_PER_CLASS]]
    for axes_of_clip, row in zip(strips.subplots(len(rows), 8), rows, strict=True):
        sample = dataset[row]
        for axes, frame in zip(axes_of_clip, sample.frames.data, strict=True):
            axes.imshow(frame.permute(1, 2, 0))
            axes.set(xticks=[], yticks=[])
        name = f"{sample.label}: {sample.extra['class_name']}"
        axes_of_clip[0].set_ylabel(name, rotation=0, ha="right", va="center")

    axes = curve.subplots()
    for (name, values), style in zip(accuracies.items(), cycle((("-", 4, "silver"), ("--o", 1.5, "tab:blue")))):
        line, width, colour = style
        axes.plot(range(1, len(values) + 1), values, line, linewidth=width, color=colour, label=name)
    axes.axvline(stopped_in_epoch, linestyle=":", color="tab:red", label="stopped here")
    axes.axhline(1 / len(rows_by_class(dataset)), linestyle=":", color="black", label="by chance")
    axes.set(xlabel="epoch", ylabel="accuracy, on videos held out", ylim=(0, 1.05))
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=80)
    print(f"picture: {path}")


def rows_by_class(dataset: VideoClips) -> dict[int, list[int]]:
    """The rows of each label."""
    rows: dict[int, list[int]] = {}
    for row in range(len(dataset)):
        rows.setdefault(dataset.spec(row).item.label, []).append(row)
    return rows
