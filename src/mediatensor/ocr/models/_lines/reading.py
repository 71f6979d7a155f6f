"""Reading text lines where they are on a page: cut out, recognised in batches of one width, split into words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from .._networks.spreading import spread, spreads
from .._networks.transfers import download, plain, with_open_sizes
from .characters import BLANK, CtcCharacters, ctc_best_path, with_zeros
from .cutting import LineBatch, line_cuts, network_input
from .right_to_left import in_reading_order
from .scripts import script_of
from .spaces import missing_spaces
from .spelling import SURE, spelled
from .words_of_lines import LineCharacters, LineWord, ink_of_line, inks_of_lines, leaves_ink_over, split_line

__all__ = ["MAX_LINE_WIDTH", "LineReading", "LineRecognizer", "SeenBatch", "read_lines", "readings_of", "see_batch"]

MAX_LINE_WIDTH = 4096
"""The greatest width of a line in pixels, at the height of the recogniser: some 200 characters. Longer lines are
squeezed."""


class LineRecognizer(Protocol):
    """A network that reads whole lines.

    Attributes:
        cfg: Has ``input_shape``, ``mean`` and ``std``.
        characters: The characters that the classes after the blank stand for.
        step_pixels: How many columns of a line one step stands for.
        head: Its last layer, on the network's device and of its type.
        right_to_left: The characters come from left to right, in a script that is read from right to left.

    A model that knows scripts that it cannot read has a `ScriptClassifier` as ``script_classifier``, and returns its
    scores as ``"scripts"`` beside the steps.
    """

    cfg: dict[str, Any]
    characters: Sequence[str]
    step_pixels: int
    head: nn.Linear
    right_to_left: bool

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def __call__(self, lines: Tensor, *, return_steps: bool) -> Any: ...


@dataclass(frozen=True)
class LineReading:
    """The text of one line.

    Attributes:
        words: With boxes as fractions of the line.
        confidence: The mean of its characters' confidences; 0 without any. By it readings of one line are compared.
        has_gaps: Whether there is ink that none of the characters accounts for.
        script: The script of the line, if the recogniser cannot read it and its words are look-alikes: a name of
            ISO 15924 such as "Cyrillic", or "Vietnamese", see ``scripts``. None for lines that can be read.
    """

    words: list[LineWord]
    confidence: float
    has_gaps: bool = False
    script: str | None = None

    @property
    def share_right(self) -> float:
        """The share of its words that are expected to be right; 0 without any."""
        return sum(word.confidence for word in self.words) / max(len(self.words), 1)


def read_lines(
    model: LineRecognizer, page: Tensor, quads: npt.NDArray[np.floating], split_after: str = ""
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
    cuts = line_cuts(page, quads, model.cfg["input_shape"][1], MAX_LINE_WIDTH)

    def see(cut: Callable[[], LineBatch]) -> SeenBatch:
        return see_batch(model, cut())

    # Wide batches come last, and would leave threads without work at the end.
    wide_first, num_workers = cuts[::-1], min(torch.get_num_threads(), len(cuts))
    may_spread = num_workers > 1 and page.device.type == "cpu" and spreads(model)
    seen = list(spread(see, wide_first, num_workers) if may_spread else map(see, cuts))
    return readings_of(model, seen, len(quads), split_after)


@dataclass(frozen=True)
class SeenBatch:
    """The output of the network for a batch of lines, still on its device.

    Attributes:
        indices: Which lines.
        widths: How many columns of each are picture.
        probabilities: (N, T), see `CtcLineRecognizer.best_of_steps`.
        classes: (N, T), int32.
        spaces: Probabilities of a space, (N, T).
        inks: See `inks_of_lines`.
        scores: Of alternatives, (N, T, K), see `CtcLineRecognizer.alternatives`; K is 0 for models that have none.
        others: The classes of the alternatives, (N, T, K), int16, or int32 where there are too many.
        scripts: See `ScriptClassifier`; (N, 0) of models without one.
    """

    indices: list[int]
    widths: list[int]
    probabilities: Tensor
    classes: Tensor
    spaces: Tensor
    inks: Tensor
    scores: Tensor
    others: Tensor
    scripts: Tensor


def see_batch(model: LineRecognizer, batch: LineBatch) -> SeenBatch:
    """Run the network on lines of one padded width, without waiting for the device."""
    parameter = model.head.weight
    inputs = network_input(batch.data, model.cfg["mean"], model.cfg["std"], parameter)
    inputs = with_open_sizes(model, inputs.contiguous(memory_format=torch.channels_last), 0, 3)
    # The model is called as a whole, as it may be compiled.
    found = model(inputs, return_steps=True)
    probabilities, classes, spaces = found["steps"]
    scores, others = found.get("alternatives") or (probabilities[..., None][..., :0], classes[..., None][..., :0])
    scripts = found.get("scripts", probabilities[:, :0])
    narrow = others.to(torch.int16 if len(model.characters) < 1 << 15 else torch.int32)
    inks = inks_of_lines(batch.data)
    return SeenBatch(batch.indices, batch.widths, probabilities, classes.int(), spaces, inks, scores, narrow, scripts)


def readings_of(
    model: LineRecognizer, seen: Sequence[SeenBatch], number: int, split_after: str = ""
) -> list[LineReading]:
    """Decode the output of the network. All of it comes from the device in one copy, and is decoded on the host.

    Args:
        model: The recogniser.
        seen: Results of :func:`see_batch`.
        number: How many lines there are; those that are in no batch are empty.
        split_after: Characters that end a word, besides spaces.

    Returns:
        One reading for each line.
    """
    readings: list[LineReading] = [LineReading([], 0.0)] * number
    arrays = download(
        *(
            part
            for batch in seen
            for part in (
                batch.probabilities,
                batch.classes,
                batch.spaces,
                batch.inks,
                batch.scores,
                batch.others,
                batch.scripts,
            )
        )
    )
    classifier = getattr(plain(model), "script_classifier", None)
    names = () if classifier is None else classifier.names
    for place, batch in enumerate(seen):
        probabilities, classes, spaces, inks, scores, others, scripts = arrays[7 * place : 7 * place + 7]
        found = ctc_best_path((torch.from_numpy(probabilities), torch.from_numpy(classes)), BLANK)
        for position, (index, width) in enumerate(zip(batch.indices, batch.widths, strict=True)):
            ink = ink_of_line(inks, position, width)
            own = found.sequence(position)
            values = _texts_of(model, own, scores[position], others[position])
            reading = _to_reading(model, own, values, spaces[position], ink, width, split_after)
            if names:
                num_steps = -(-width // model.step_pixels)
                reading = replace(reading, script=script_of(names, scripts[position], num_steps, reading.share_right))
            readings[index] = reading
    return readings


def _texts_of(
    model: LineRecognizer,
    found: CtcCharacters,
    scores: npt.NDArray[np.floating],
    others: npt.NDArray[np.integer],
) -> list[str]:
    """The characters of a line. Doubtful ones are those that fit in with the rest."""
    values = [model.characters[label - 1] for label in found.labels]
    doubtful = np.flatnonzero(found.confidences < SURE) if scores.shape[-1] else ()
    alternatives = {
        int(place): [
            (model.characters[label - 1], float(score))
            for label, score in zip(others[found.peak_steps[place]], scores[found.peak_steps[place]], strict=True)
        ]
        for place in doubtful
    }
    return with_zeros(spelled(values, found.confidences.tolist(), alternatives))


def _to_reading(
    model: LineRecognizer,
    found: CtcCharacters,
    values: list[str],
    spaces: npt.NDArray[np.floating],
    ink: npt.NDArray[np.bool_],
    width: int,
    split_after: str,
) -> LineReading:
    if not len(found.labels):
        return LineReading([], 0.0)
    step = model.step_pixels / width
    starts, stops = np.minimum(found.start_steps * step, 1.0), np.minimum(found.stop_steps * step, 1.0)
    confidences = found.confidences.astype(np.float64)
    # Spaces come after spelling: a doubtful letter beside a space that is put in wrongly would lack its word.
    missing = missing_spaces(values, found.peak_steps, (starts + stops) / 2 * width, spaces, ink)
    if missing:
        places = [space.index for space in missing]
        steps = np.array([space.step for space in missing])
        values = np.insert(np.array(values, dtype=object), places, " ").tolist()
        starts = np.insert(starts, places, np.minimum(steps * step, 1.0))
        stops = np.insert(stops, places, np.minimum((steps + 1) * step, 1.0))
        confidences = np.insert(confidences, places, [space.probability for space in missing])
    if any(len(value) != 1 for value in values):
        # A class may stand for several code points, as in a flag: each of them is a character at the same place.
        counts = [len(value) for value in values]
        starts, stops, confidences = (np.repeat(numbers, counts) for numbers in (starts, stops, confidences))
        values = list("".join(values))
    characters = LineCharacters(values, starts, stops, confidences)
    words = split_line(characters, ink, split_after)
    if model.right_to_left:
        words = in_reading_order(words)
    return LineReading(words, float(found.confidences.mean()), bool(words) and leaves_ink_over(characters, ink))
