"""Run a recogniser on the crops of lines, decode its output to words, and detect scripts that it cannot read.

A recogniser reads letters of an unknown script as similar letters, often with high confidence. Therefore a small
classifier, whose input is the recogniser's features, detects lines in such scripts. It was fitted on rendered lines
(``benchmarks/calibration/scripts.py``), and works only with the recogniser weights for which it was fitted; see
`script_classifier_for`. Scripts have their ISO 15924 names, such as "Cyrillic", "Greek", "Arabic", "Hebrew",
"Devanagari", "Bengali", "Tamil", "Thai", "Hangul", "Georgian" and "Armenian". One name is not from ISO 15924:
"Vietnamese" means Latin letters with two diacritics.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from .._networks.transfers import download, mark_open_sizes, spread, spreads, uncompiled_module
from .._networks.weights import stored_arrays
from .characters import (
    BLANK,
    CtcCharacters,
    Doubts,
    correct_spelling,
    ctc_best_path,
    doubts_of,
    others_at,
    replace_zeros,
    spell_degrees,
)
from .cutting import LineBatch, line_cuts, network_input, scale_to_pixels, turn_quads
from .ink import ink_of_line, inks_of_lines
from .words import (
    LeftOverInk,
    LineCharacters,
    LineWord,
    choose_case,
    find_left_over_ink,
    find_letterspaced_spaces,
    find_missing_spaces,
    replace_blanks,
    sort_words,
    split_line,
    word_confidence,
)

# For the effect of each number and predicate, see benchmarks/results/ocr_rules.md.
FILE = Path(__file__).with_name("scripts.npz")
FILE_SHA256 = "ca4f92bde45fc1dad6773a359e831c5fac038278fe0caa5dd9583373616b2d37"
SURE_OF_SCRIPT = 1.0
"""Lines are unreadable if the log odds of unreadable against readable scripts exceed this limit."""
SURE_OF_SHORT = 1.25
"""Limit on the same log odds for short lines, which give less evidence."""
SHORT_STEPS = 28
"""Lines with fewer steps (about seven characters) are short."""
READABLE_BONUS = 2.0
"""The limit rises by this number times the excess of the expected share of correct words over one half. This share is
rarely high if letters of another script are read as similar letters.
"""
FEWEST_STEPS = 12
"""Lines with fewer steps (about three characters) are always treated as readable."""
MAX_LINE_WIDTH = 4096
"""Maximum width of a line in pixels at the recogniser's height (about 200 characters); longer lines are compressed."""


class ScriptClassifier(nn.Module):
    """Classifier of the script of a line, from the features that the recogniser computes at each step along the line.

    A first layer is applied to the features of each step. Its outputs are reduced to their mean and maximum over all
    steps, which are the input of a second layer. The weights of the two layers are (hidden, features) and
    (classes, 2 x hidden). The first class, whose name is empty, stands for lines that the recogniser can read.
    """

    first: Tensor
    first_bias: Tensor
    second: Tensor
    second_bias: Tensor

    def __init__(
        self, names: Sequence[str], first: Tensor, first_bias: Tensor, second: Tensor, second_bias: Tensor
    ) -> None:
        super().__init__()
        self.names = tuple(names)
        layers = {"first": first, "first_bias": first_bias, "second": second, "second_bias": second_bias}
        for name, values in layers.items():
            # Excluded from the recogniser's state dict, which must have the published names.
            self.register_buffer(name, values, persistent=False)

    def forward(self, features: Tensor, is_picture: Tensor) -> Tensor:
        """Return log probabilities (N, classes) of scripts, from features (N, T, width) where ``is_picture``."""
        hidden = torch.relu(features.float() @ self.first.float().T + self.first_bias.float())
        hidden = hidden * is_picture[..., None]
        # Values are never negative, so the zeros after the end do not change the maximum.
        mean = hidden.sum(1) / is_picture.sum(1, keepdim=True).clamp(min=1)
        pooled = torch.cat([mean, hidden.amax(1)], 1)
        scores = pooled @ self.second.float().T + self.second_bias.float()
        return scores.log_softmax(1)


def script_of(names: Sequence[str], scores: npt.NDArray[np.floating], num_steps: int, share_right: float) -> str | None:
    """Return the script of a line if the recogniser cannot read it, or ``None`` if it can.

    ``names`` and ``scores`` (classes,) are the classes of a `ScriptClassifier` and their log probabilities.
    ``num_steps`` is the length of the line, and ``share_right`` the share of its words that is expected to be correct.
    Short lines, and lines with a high ``share_right``, only count as unreadable if the scores show it very clearly.
    Lines of about three characters or fewer always count as readable.
    """
    if num_steps < FEWEST_STEPS:
        return None
    others = scores[1:]
    highest = others.max()
    sure = SURE_OF_SCRIPT if num_steps >= SHORT_STEPS else SURE_OF_SHORT
    evidence = highest + np.log(np.exp(others - highest).sum()) - scores[0]
    sure += READABLE_BONUS * max(share_right - 0.5, 0.0)
    return names[1 + int(others.argmax())] if evidence > sure else None


def fingerprint(*parameters: Tensor) -> str:
    """Return a checksum of a network's float32 parameters, to recognise published weights."""
    digest = hashlib.sha256()
    for parameter in parameters:
        digest.update(parameter.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def script_classifier_for(*parameters: Tensor) -> ScriptClassifier | None:
    """Return the script classifier that was fitted for exactly these parameters, or ``None`` if there is none."""
    if any(parameter.dtype != torch.float32 or parameter.device.type == "meta" for parameter in parameters):
        return None
    arrays = stored_arrays(FILE, FILE_SHA256)
    if fingerprint(*parameters) not in arrays["recognisers"].tolist():
        return None
    names = [str(name) for name in arrays["names"]]
    layers = (torch.tensor(arrays[name]) for name in ("first", "first_bias", "second", "second_bias"))
    return ScriptClassifier(names, *layers).to(parameters[0].device)


class LineRecognizer(Protocol):
    """A network that reads whole lines.

    Some models can detect scripts that they cannot read. They have an additional attribute ``script_classifier``, a
    `ScriptClassifier`, and their output also contains the classifier's scores, as ``"scripts"``.
    """

    cfg: dict[str, Any]  # with ``input_shape``, ``mean`` and ``std``
    characters: Sequence[str]  # of each class except class 0, the blank
    step_pixels: int  # number of pixel columns of the line's image that each output step covers
    head: nn.Linear  # the last layer, whose device and dtype are those of the whole network
    right_to_left: bool  # whether the model returns right-to-left text in visual order, from left to right

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def __call__(self, lines: Tensor, *, return_steps: bool) -> Any: ...


@dataclass(frozen=True)
class LineReading:
    """The recognised text of one line."""

    words: list[LineWord]  # with boxes relative to the line's image
    confidence: float  # mean of the characters, or 0 if there are none, to compare several readings of a line
    left_over: LeftOverInk | None = None
    # A script that the recogniser cannot read: ``words`` consist of letters that only look like the printed ones.
    script: str | None = None

    @property
    def text(self) -> str:
        return " ".join(word.value for word in self.words)

    @property
    def share_right(self) -> float:
        """The share of the words that is expected to be correct at a usual height of print; 0 if there are no words."""
        return sum(word.confidence for word in self.words) / max(len(self.words), 1)

    def confidences(self, height: float) -> list[float]:
        """Return the probability that each word is right, for a line that is ``height`` pixels high on the page."""
        heights = [word.box[3] - word.box[1] for word in self.words]
        usual = height * float(np.median(heights)) if heights else height
        return [word_confidence(word.confidences, usual) for word in self.words]

    @property
    def num_right(self) -> float:
        """How many characters are expected to be right; few if the model left out letters that it does not know."""
        return self.confidence * len(self.text)


def read_lines(
    model: LineRecognizer, page: Tensor, quads: npt.NDArray[np.floating], split_after: str = ""
) -> list[LineReading]:
    """Read lines of a page (3, H, W). ``quads`` (N, 4, 2) are in pixels, clockwise from the top left of the text."""
    cuts = line_cuts(page, quads, model.cfg["input_shape"][1], MAX_LINE_WIDTH)

    def see(cut: Callable[[], LineBatch]) -> SeenBatch:
        return see_batch(model, cut())

    # Wide batches come first, because a long batch at the end would leave other threads idle.
    wide_first, num_workers = cuts[::-1], min(torch.get_num_threads(), len(cuts))
    may_spread = num_workers > 1 and page.device.type == "cpu" and spreads(model)
    seen = list(spread(see, wide_first, num_workers) if may_spread else map(see, cuts))
    return readings_of(model, seen, len(quads), split_after)


def read_turned_lines(
    model: LineRecognizer,
    page: Tensor,
    quads: npt.NDArray[np.float64],
    turns: int | npt.NDArray[np.int64],
    split_after: str = "",
) -> list[LineReading]:
    """Read lines as `read_lines` does; ``quads`` are relative to the page, and ``turns`` are in degrees."""
    corners = turn_quads(quads, np.broadcast_to(turns, (len(quads),)))
    return read_lines(model, page, scale_to_pixels(corners, (page.shape[1], page.shape[2])), split_after)


@dataclass(frozen=True)
class SeenBatch:
    """Network output for a batch of lines, still on the device.

    Attributes:
        indices: Index of each line among the lines of the page.
        widths: Width of each line in columns, without padding.
        arrays: Seven tensors. The first three are the result of `CtcLineRecognizer.best_of_steps`, with int32 classes.
            The fourth is the ink from `inks_of_lines`. The next two are the result of `CtcLineRecognizer.alternatives`,
            with classes as int16 if they fit, or (N, T, 0) if the model has no alternatives. The last has the log
            probabilities of the `ScriptClassifier`, or is (N, 0) if the model has none.
    """

    indices: list[int]
    widths: list[int]
    arrays: tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def see_batch(model: LineRecognizer, batch: LineBatch) -> SeenBatch:
    """Run the network on a batch of lines. The call returns before the device has computed the result."""
    parameter = model.head.weight
    inputs = network_input(batch.data, model.cfg["mean"], model.cfg["std"], parameter)
    inputs = mark_open_sizes(model, inputs.contiguous(memory_format=torch.channels_last), 0, 3)
    # Call the model as a whole, because it may be compiled.
    found = model(inputs, return_steps=True)
    probabilities, classes, spaces = found["steps"]
    scores, others = found.get("alternatives") or (probabilities[..., None][..., :0], classes[..., None][..., :0])
    scripts = found.get("scripts", probabilities[:, :0])
    narrow = others.to(torch.int16 if len(model.characters) < 1 << 15 else torch.int32)
    arrays = (probabilities, classes.int(), spaces, inks_of_lines(batch.data), scores, narrow, scripts)
    return SeenBatch(batch.indices, batch.widths, arrays)


def readings_of(
    model: LineRecognizer, seen: Sequence[SeenBatch], number: int, split_after: str = ""
) -> list[LineReading]:
    """Copy the network outputs to the host in one transfer, and decode them to readings of ``number`` lines."""
    readings: list[LineReading] = [LineReading([], 0.0)] * number
    arrays = iter(download(*(array for batch in seen for array in batch.arrays)))
    classifier = getattr(uncompiled_module(model), "script_classifier", None)
    names = () if classifier is None else classifier.names
    for batch in seen:
        probabilities, classes, spaces, inks, scores, others, scripts = islice(arrays, 7)
        found = ctc_best_path((torch.from_numpy(probabilities), torch.from_numpy(classes)), BLANK)
        for position, (index, width) in enumerate(zip(batch.indices, batch.widths, strict=True)):
            ink = ink_of_line(inks, position, width)
            own = found.sequence(position)
            values, doubts = _texts_of(
                model, own, probabilities[position], classes[position], scores[position], others[position]
            )
            reading = _to_reading(model, own, values, doubts, spaces[position], ink, width, split_after)
            if names:
                num_steps = -(-width // model.step_pixels)
                reading = replace(reading, script=script_of(names, scripts[position], num_steps, reading.share_right))
            readings[index] = reading
    return readings


def _texts_of(
    model: LineRecognizer,
    found: CtcCharacters,
    probabilities: npt.NDArray[np.floating],
    classes: npt.NDArray[np.integer],
    scores: npt.NDArray[np.floating],
    others: npt.NDArray[np.integer],
) -> tuple[list[str], Doubts]:
    """Return the characters of a line; uncertain ones are corrected with the alternatives ``others`` and ``scores``.

    The second value has the steps of the uncertain ones.
    """
    values, confidences = [model.characters[label - 1] for label in found.labels], found.confidences.tolist()
    if not scores.shape[-1]:
        return spell_degrees(replace_zeros(values)), {}
    doubts = doubts_of(found, model.characters, probabilities, classes, scores, others)
    likely = {place: others_at(values[place], steps) for place, steps in doubts.items()}
    return spell_degrees(replace_zeros(correct_spelling(values, confidences, likely))), doubts


def _to_reading(
    model: LineRecognizer,
    found: CtcCharacters,
    values: list[str],
    doubts: Doubts,
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
    middles = (starts + stops) / 2 * width
    values = choose_case(replace_blanks(values, middles, ink), middles, ink)
    origins = np.arange(len(values))
    missing = find_letterspaced_spaces(values, found.peak_steps, middles, spaces, len(ink))
    if missing is not None:
        kept = [index for index, value in enumerate(values) if not value.isspace()]
        values = [values[index] for index in kept]
        starts, stops, confidences, origins = starts[kept], stops[kept], confidences[kept], origins[kept]
    else:
        # Insert spaces after the spelling correction, because a wrong space would cut an uncertain letter from its
        # word.
        missing = find_missing_spaces(values, found.peak_steps, middles, spaces, ink)
    if missing:
        places = [space.index for space in missing]
        steps = np.array([space.step for space in missing])
        values = np.insert(np.array(values, dtype=object), places, " ").tolist()
        starts = np.insert(starts, places, np.minimum(steps * step, 1.0))
        stops = np.insert(stops, places, np.minimum((steps + 1) * step, 1.0))
        confidences = np.insert(confidences, places, [space.probability for space in missing])
        origins = np.insert(origins, places, -1)
    if any(len(value) != 1 for value in values):
        # A class may have several code points, such as a flag. Each becomes a character at the same position.
        counts = [len(value) for value in values]
        parts = (starts, stops, confidences, origins)
        starts, stops, confidences, origins = (np.repeat(numbers, counts) for numbers in parts)
        values = list("".join(values))
    own = {place: doubts[origin] for place, origin in enumerate(origins.tolist()) if origin in doubts}
    characters = LineCharacters(values, starts, stops, confidences, own)
    words = split_line(characters, ink, split_after)
    if model.right_to_left:
        words = sort_words(words)
    return LineReading(words, float(found.confidences.mean()), find_left_over_ink(characters, ink))
