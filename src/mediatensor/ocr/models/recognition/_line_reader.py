"""Reading text lines where they are on a page: cut out, recognised in batches of one width, split into words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._crops import LineBatch, cut_lines, network_input
from .._line_words import LineCharacters, LineWord, ink_map, split_line
from ._ctc import CtcCharacters
from .ppocr import PPOCRRecognizer

__all__ = ["MAX_LINE_WIDTH", "LineReading", "read_batch", "read_lines"]

MAX_LINE_WIDTH = 4096
"""In pixels at the height of the recogniser: some 200 characters. Longer lines are squeezed."""


@dataclass(frozen=True)
class LineReading:
    """What was read in one line.

    Attributes:
        words: With boxes as fractions of the line.
        confidence: Mean of the characters', 0 without any.
    """

    words: list[LineWord]
    confidence: float


def read_lines(
    model: PPOCRRecognizer, page: Tensor, quads: npt.NDArray[np.floating], split_after: str = ""
) -> list[LineReading]:
    """Read the lines of a page.

    Args:
        model: The recogniser; lines go to its device.
        page: (3, H, W), uint8 or floats in [0, 1].
        quads: (N, 4, 2) corners in pixels, top left first, in the direction of reading.
        split_after: Characters that end a word, besides spaces.

    Returns:
        One reading for each line.
    """
    readings: list[LineReading] = [LineReading([], 0.0)] * len(quads)
    for batch in cut_lines(page, quads, model.cfg["input_shape"][1], MAX_LINE_WIDTH):
        for index, reading in zip(batch.indices, read_batch(model, batch, split_after), strict=True):
            readings[index] = reading
    return readings


def read_batch(model: PPOCRRecognizer, batch: LineBatch, split_after: str = "") -> Iterator[LineReading]:
    """Read lines of one padded width."""
    parameter = model.head.weight
    inputs = network_input(batch.data, model.cfg["mean"], model.cfg["std"], parameter)
    characters = model.decode(model.features(inputs.contiguous(memory_format=torch.channels_last)))
    grays = batch.data.mean(1).cpu().numpy()
    for position, width in enumerate(batch.widths):
        yield _to_reading(model, characters.sequence(position), grays[position, :, :width], width, split_after)


def _to_reading(
    model: PPOCRRecognizer, found: CtcCharacters, gray: npt.NDArray[np.floating], width: int, split_after: str
) -> LineReading:
    if not len(found.labels):
        return LineReading([], 0.0)
    step = model.step_pixels / width
    characters = LineCharacters(
        [model.characters[label - 1] for label in found.labels],
        np.minimum(found.start_steps * step, 1.0),
        np.minimum(found.stop_steps * step, 1.0),
        found.confidences.astype(np.float64),
    )
    return LineReading(split_line(characters, ink_map(gray), split_after), float(found.confidences.mean()))
