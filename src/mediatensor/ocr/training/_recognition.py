"""Learners, each of which trains one kind of network: the base class, and the learner for text recognisers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ...datasets import MediaDataset, RowKey, Sample, Skipped
from ...errors import InvalidArgumentError
from ..models import recognition_predictor
from ..models._lines.cutting import network_input, padded_width
from ..models._lines.reading import MAX_LINE_WIDTH
from ..models._networks.preprocessing import Placement, to_float
from ..models.recognition import CTCPostProcessor
from ..models.recognition.ppocr import CtcLineRecognizer
from ..utils._page_images import resized
from ..utils._scores import CharacterErrorRate, aligned
from ._rows import change_picture, characters_of, first_rows, with_changes

_SCORED_AT_ONCE = 64
_MAX_NAMED = 40
# Each new character is compared with this many readings, which are searched in at most the second number of rows.
_ENOUGH_SEEN = 5
_MOST_LOOKED_AT = 1000
# The weight of the flat-start loss relative to CTC, and the share of the steps in which it falls to 0.
_FLAT_WEIGHT, _FLAT_SHARE = 2.0, 0.5


class Learner(ABC):
    """Base class of learners: the parts of training and scoring that depend on the task, as named in model cards."""

    task: ClassVar[str]

    def __init__(self, model: Any) -> None:
        self.model = model

    def check(self, datasets: Iterable[MediaDataset]) -> None:  # noqa: B027, most learners accept all rows
        """Raise `InvalidArgumentError` if the network cannot learn the rows of these datasets."""

    @abstractmethod
    def prepared(self, dataset: MediaDataset, augment: bool) -> MediaDataset:
        """Return the dataset in the form needed for training. With ``augment``, its images are changed at random."""

    @abstractmethod
    def collator(self, batch_size: int) -> Callable[[list[Sample | Skipped]], list[Any]]:
        """Return a picklable function that puts samples in batches for `loss`."""

    @abstractmethod
    def loss(self, model: Any, batch: Any, share: float = 1.0) -> Tensor:
        """Return the loss of ``model`` for a batch. ``share`` is the progress of the training, from 0 to 1."""

    def keeping_loss(self, batch: Any) -> Tensor:
        """Return the loss for a batch of rehearsal data, which the network must not forget."""
        return self.loss(self.model, batch)

    def chosen_options(self, model: Any, dataset: MediaDataset) -> dict[str, Any]:
        """Choose the options of ``model``, such as thresholds, that are best on a dataset. Set and return them."""
        return {}

    @abstractmethod
    def scores(self, model: Any, dataset: MediaDataset, num_rows: int | None = None) -> dict[str, float]:
        """Score ``model`` on the first ``num_rows`` rows, or on all. The best weights have the highest "score"."""


@dataclass(frozen=True)
class TextBatch:
    """A batch of images, (N, 3, H, W), with their texts.

    For networks that read lines, images are RGB from 0 to 1, padded with NaN. For networks that read words, images are
    already normalised, and ``placements`` has their positions in the network input.
    """

    data: Tensor
    texts: list[str]
    placements: list[Placement] | None = None


@dataclass(frozen=True)
class TextBatches:
    """Puts images with their texts in batches. Rows that the dataset skips are left out.

    For networks that read lines, images are resized to ``height``, and images of similar width are put in the same
    batch. For networks that read words, ``height`` is None, and ``pre_processor`` makes the batches.
    """

    batch_size: int
    height: int | None
    pre_processor: Any

    def __call__(self, samples: list[Sample | Skipped]) -> list[TextBatch]:
        rows = [sample for sample in samples if isinstance(sample, Sample) and sample.image is not None]
        images = [sample.image for sample in rows if sample.image is not None]
        texts = [_text_of(sample) for sample in rows]
        starts = range(0, len(rows), self.batch_size)
        if self.height is None:
            return [self._words(images[start : start + self.batch_size], texts[start:]) for start in starts]
        height = self.height
        widths = [min(max(round(height * image.shape[2] / image.shape[1]), 8), MAX_LINE_WIDTH) for image in images]
        by_width = sorted(range(len(rows)), key=widths.__getitem__)
        batches = []
        for start in starts:
            chosen = by_width[start : start + self.batch_size]
            padded = padded_width(widths[chosen[-1]])
            lines = [to_float(resized(images[index], (height, widths[index]))) for index in chosen]
            data = torch.stack([F.pad(line, (0, padded - line.shape[2]), value=torch.nan) for line in lines])
            batches.append(TextBatch(data, [texts[index] for index in chosen]))
        return batches

    def _words(self, images: list[Tensor], texts: list[str]) -> TextBatch:
        made = list(self.pre_processor.batches(images))
        order = [index for part in made for index in part.indices]
        placements = [place for part in made for place in part.placements]
        return TextBatch(torch.cat([part.data for part in made]), [texts[index] for index in order], placements)


@torch.no_grad()
def look_alikes(model: Any, characters: str, dataset: MediaDataset) -> dict[str, str]:
    """Return, for each new character, the known character that a recogniser most often reads in its place."""
    predictor = recognition_predictor(model)
    seen: dict[str, Counter[str]] = {character: Counter() for character in characters}
    missing = set(characters)
    for row in range(min(len(dataset), _MOST_LOOKED_AT)):
        if not missing:
            break
        sample = dataset[RowKey(row, 0)]
        if not isinstance(sample, Sample) or sample.image is None or missing.isdisjoint(_text_of(sample)):
            continue
        ((text, _),) = predictor.read([sample.image])
        for true, read in aligned(_text_of(sample), text):
            if true in seen and read and not read.isspace():
                seen[true][read] += 1
        missing = {character for character in missing if seen[character].total() < _ENOUGH_SEEN}
    return {character: counts.most_common(1)[0][0] for character, counts in seen.items() if counts}


class Recognition(Learner):
    """Learner that trains a text recogniser.

    If ``distils`` is true, a copy of an initial model that reads lines is kept for `keeping_loss`. If ``is_new`` is
    true, the weights are random, and training needs a flat start; see `loss`.
    """

    task = "recognition"

    def __init__(self, model: Any, distils: bool, is_new: bool = False) -> None:
        super().__init__(model)
        self._is_new = is_new
        self._predictor = recognition_predictor(model)
        self._reads_lines = isinstance(model, CtcLineRecognizer)
        self._teacher: Any = None
        if distils and self._reads_lines:
            self._teacher = deepcopy(model).eval().requires_grad_(False)

    def check(self, datasets: Iterable[MediaDataset]) -> None:
        known = set(self.model.vocab)
        for dataset in datasets:
            if unknown := sorted((characters_of(dataset) or frozenset()) - known):
                signs = [sign if sign.isprintable() and not sign.isspace() else repr(sign) for sign in unknown]
                shown = " ".join(signs[:_MAX_NAMED]) + (" ..." if len(unknown) > _MAX_NAMED else "")
                raise InvalidArgumentError(
                    f"The texts of {dataset!r} have {len(unknown)} characters that the recogniser does not know: "
                    f"{shown}. Correct the texts, or pass extend_vocab=True (--extend-vocab), which gives each "
                    "character of train and validation a class."
                )

    def hold_classes(self, train: MediaDataset, others: Iterable[MediaDataset]) -> None:
        """Freeze the weights of the last layer for characters that do not occur in any text of the datasets.

        Adam moves a parameter by about the learning rate even if its gradients are tiny. Therefore the weights of these
        characters would drift away, although they are never trained.
        """
        learned = characters_of(train)
        if learned is None:
            return
        learned = learned.union(*(characters_of(dataset) or () for dataset in others))
        head, first = self.model.score_layer()
        is_learned = torch.ones(head.out_features, dtype=torch.bool, device=head.weight.device)
        names = getattr(self.model, "characters", self.model.vocab)
        is_learned[first : first + len(names)] = torch.tensor([not learned.isdisjoint(name) for name in names])
        head.weight.register_hook(lambda gradient: gradient * is_learned[:, None])
        head.bias.register_hook(lambda gradient: gradient * is_learned)

    def prepared(self, dataset: MediaDataset, augment: bool) -> MediaDataset:
        return with_changes(dataset, change_picture) if augment else dataset

    def collator(self, batch_size: int) -> TextBatches:
        height = self.model.cfg["input_shape"][1] if self._reads_lines else None
        return TextBatches(batch_size, height, self._predictor.pre_processor)

    def loss(self, model: Any, batch: TextBatch, share: float = 1.0) -> Tensor:
        """Return the mean loss over the lines of a batch.

        A CTC network with random weights learns nothing for thousands of steps. A flat start helps, as in speech
        recognition (Young et al., "The HTK Book", 2006). A second term of the loss expects each character where it
        would be if all characters had the same width. The weight of this term falls to 0 in the first half of the
        training.
        """
        weight = _FLAT_WEIGHT * (1 - share / _FLAT_SHARE)
        if not self._is_new or weight <= 0 or not isinstance(getattr(model, "postprocessor", None), CTCPostProcessor):
            loss: Tensor = model(self._inputs(batch), batch.texts)["loss"]
            return loss
        made = model(self._inputs(batch), batch.texts, return_model_output=True)
        flat = _flat_classes(batch, made["out_map"].shape[1], model.vocab).to(made["out_map"].device)
        total: Tensor = made["loss"] + weight * F.cross_entropy(made["out_map"].float().flatten(0, 1), flat.flatten())
        return total

    def keeping_loss(self, batch: TextBatch) -> Tensor:
        """Return the loss for a batch of rehearsal data, which the network must not forget.

        If a copy of the initial model was kept, the loss has two terms: the usual loss for the texts, and how much the
        features before the last layer have changed since the start. The change is the squared difference relative to
        the variance of the initial features. The second term also preserves characters that do not occur in the
        rehearsal data (Romero et al., "FitNets", 2015, https://arxiv.org/abs/1412.6550).
        """
        if self._teacher is None:
            return self.loss(self.model, batch)
        inputs = self._inputs(batch)
        features = self.model.features(inputs)
        with torch.no_grad():
            known = self._teacher.features(inputs)
        distance = F.mse_loss(features.float(), known.float()) / known.float().var()
        loss: Tensor = self.model.compute_loss(features, batch.texts) + distance
        return loss

    def _inputs(self, batch: TextBatch) -> Tensor:
        head, _ = self.model.score_layer()
        if not self._reads_lines:
            return batch.data.to(head.weight.device)
        data = network_input(
            batch.data.to(head.weight.device), self.model.cfg["mean"], self.model.cfg["std"], head.weight
        )
        return data.contiguous(memory_format=torch.channels_last)

    @torch.no_grad()
    def scores(self, model: Any, dataset: MediaDataset, num_rows: int | None = None) -> dict[str, float]:
        """Return the share of lines read without error, the character error rate, and a score: one minus this rate."""
        predictor, errors = recognition_predictor(model), CharacterErrorRate()
        num_lines = num_exact = 0
        for samples in first_rows(dataset, num_rows, _SCORED_AT_ONCE):
            truths = [_text_of(sample) for sample in samples]
            images = [sample.image for sample in samples if sample.image is not None]
            read = [text for text, _ in predictor.read(images)]
            errors.update(truths, read)
            num_lines += len(truths)
            num_exact += sum(true == text for true, text in zip(truths, read, strict=True))
        rate = errors.summary()
        if rate is None:
            raise InvalidArgumentError(f"{dataset!r} has no line with a text to compare with.")
        exact = num_exact / num_lines
        return {"num_lines": num_lines, "exact": exact, "character_error_rate": rate, "score": 1 - rate}


def _flat_classes(batch: TextBatch, num_steps: int, vocab: str) -> Tensor:
    """Return the class of each step, (N, num_steps), as if all characters of a word had the same width.

    Steps outside the word have the class -100, which the loss ignores.
    """
    classes = torch.full((len(batch.texts), num_steps), -100)
    for row, (text, place) in enumerate(zip(batch.texts, batch.placements or (), strict=True)):
        first = round(place.left * num_steps)
        width = max(round(place.width * num_steps), 1)
        for step in range(width if text else 0):
            classes[row, min(first + step, num_steps - 1)] = vocab.index(text[step * len(text) // width])
    return classes


def _text_of(sample: Sample) -> str:
    if not isinstance(sample.label, str):
        raise InvalidArgumentError(
            f"Row {sample.row}, {sample.source!r}, has no text: Sample.label must be one (got {sample.label!r})."
        )
    return sample.label
