"""`fit`: training in one plain loop, which may be stopped at any moment and goes on where it was."""

from __future__ import annotations

import io
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ... import __version__
from ..._engine.common.checks import finite_number, path_text, shown, whole_number
from ..._engine.common.devices import checked_device
from ..._engine.common.messages import progress
from ..._engine.sources.atomic_files import write_file
from ..._engine.sources.output_files import check_outputs
from ...datasets import DataLoader, MediaDataset
from ...datasets._sources.references import files_of
from ...errors import InvalidArgumentError, TrainingError, WeightsError
from ..models import find_weights, list_models, model_card
from ..models._networks.registry import network_factory
from ..models._networks.weights import Checkpoint, is_checkpoint, read_checkpoint, read_safely, save_checkpoint
from ._detection import Detection
from ._drawn import DrawnLines
from ._history import write_curves, write_history
from ._learning import Learner, first_rows
from ._lines import characters_of
from ._orientation import Orientation
from ._recognition import Recognition, look_alikes

__all__ = ["Fit", "fit"]

_STATE_FORMAT = "mediatensor.ocr.training"
_STATE_VERSION = 1
_TASKS = ("recognition", "detection", "classification")

#: How many batches are read together, and made of rows that are about as wide as each other.
_POOL_BATCHES = 8
#: Steps in a row without a finite gradient, after which training ends.
_MAX_BAD_STEPS = 10
#: Learning rates of networks that begin with random weights, and with others.
_RATES = {False: 1e-3, True: 2e-4}
#: The learning rate of the last layer of a network that is not new, in rates of the others.
_HEAD_RATE = 5.0
#: The learning rate at the end, as a share of the greatest one.
_LAST_RATE = 0.01
#: How many of the lines to keep are read after each epoch.
_NUM_KEPT_SCORED = 200


@dataclass(frozen=True)
class Fit:
    """A training that is done.

    Attributes:
        path: The checkpoint with the best weights.
        scores: Those of the best weights on the validation rows, by name.
        epochs: A dictionary for each epoch, as in the log: losses, scores, learning rate, seconds. The first one,
            epoch 0, has the scores before training.
        best_epoch: The epoch that the weights are of; 0 if none was better than the network at the start.

    Example:
        >>> from mediatensor.ocr.training import LineDataset, fit
        >>> lines = LineDataset("lines/train.jsonl")  # doctest: +SKIP
        >>> done = fit("ppocr_v6_small_reco", lines, validation=lines, out="mine.pt")  # doctest: +SKIP
        >>> done.best_epoch, done.epochs[0]["validation"]["exact"], done.scores["exact"]  # doctest: +SKIP
        (18, 0.12, 0.97)
    """

    path: Path
    scores: Mapping[str, float]
    epochs: tuple[Mapping[str, Any], ...]
    best_epoch: int


@dataclass(frozen=True)
class _Settings:
    """What the weights depend on, beside the rows. A training goes on only with the same settings."""

    arch: str
    pretrained: bool
    vocab: str | None
    extend_vocab: bool
    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    warmup: float
    ema_decay: float
    clip_norm: float
    keep_weight: float
    blend: float
    patience: int | None
    augment: bool
    page_size: int | None
    crop_size: int | None
    seed: int
    num_rows: int
    num_kept_rows: int


def fit(
    arch: str | os.PathLike[str],
    train: MediaDataset,
    *,
    validation: MediaDataset,
    out: str | os.PathLike[str],
    keep: MediaDataset | None = None,
    pretrained: bool = True,
    vocab: str | None = None,
    extend_vocab: bool = False,
    epochs: int = 20,
    batch_size: int = 16,
    learning_rate: float | None = None,
    weight_decay: float = 0.01,
    warmup: float = 0.05,
    ema_decay: float = 0.998,
    clip_norm: float = 5.0,
    keep_weight: float = 2.0,
    blend: float = 1.0,
    patience: int | None = None,
    augment: bool = True,
    page_size: int | None = None,
    crop_size: int | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    amp: bool | None = None,
    num_workers: int = 0,
    save_seconds: float = 120.0,
    resume: bool = True,
    overwrite: bool = False,
    report: Callable[[Mapping[str, Any]], None] | None = None,
) -> Fit:
    """Train a recogniser, a detector or a classifier of directions, and keep its best weights.

    After each epoch the validation rows are looked at. The weights that do best on them are written to ``out``, which
    predictors take by its path: ``ocr_predictor(reco_arch=out)``, ``det_arch=out``. Beside it stand a log, ``.jsonl``,
    a picture of the curves, ``.png``, where matplotlib is installed, and until the training is done ``.state.pt``.
    With that file a training that was stopped goes on, when it is called again with the same arguments, as if nothing
    had happened: on one device, and with as many threads, the weights are the same to the bit.

    Started by ``torchrun``, all processes train together, each on its share of every batch.

    The thresholds of a detector are those that do best on the validation pages, and go with its weights.

    The optimiser is AdamW (Loshchilov and Hutter, 2019, https://arxiv.org/abs/1711.05101); the learning rate rises, and
    falls as a cosine. What is scored and written is a moving average of the weights.

    Args:
        arch: The network: a name of `list_models`, or the path of a checkpoint to go on from. It decides what is
            learnt.
        train: For a recogniser, rows with a picture, ``Sample.image``, and its text, ``Sample.label``, such as a
            `LineDataset`. For a detector, pages and the boxes of their words or lines, ``extra["boxes"]``, such as a
            `PageDataset`. For a classifier of directions, pictures that are upright; they are turned here. Any
            `MediaDataset` will do.
        validation: Such rows, which are looked at and not learnt.
        out: The file of the checkpoint, ``.pt``.
        keep: Rows of what the network does well, and shall go on doing well. As many of them as of ``train`` are in
            every step. The default recogniser is also held to what it saw in them before.
        pretrained: Start with the weights of this machine, and with the statistics of its normalisation, which stay;
            else with random ones.
        vocab: The characters of a recogniser that starts with random weights.
        extend_vocab: Learn characters of ``train`` and ``validation`` that the recogniser has no class for.
        epochs: How often all rows of ``train`` are used.
        batch_size: Rows of a step, of each process.
        learning_rate: The greatest one; by default 2e-4, or 1e-3 for random weights. That of the last layer of a
            recogniser that knows something is five times as high: it is where names of shapes change.
        weight_decay: Of matrices; not of biases, scales and the last layer.
        warmup: The share of all steps in which the learning rate rises.
        ema_decay: How much of the average stays in each step; smaller at the start.
        clip_norm: The greatest norm of the gradients of a step.
        keep_weight: The weight of the loss of ``keep``.
        blend: The share of the learnt weights in those that are scored and written. The rest are the weights that
            training began with, except for new characters. Less than 1 forgets less (Wortsman et al., "Robust
            fine-tuning of zero-shot models", 2022, https://arxiv.org/abs/2109.01903).
        patience: End after so many epochs without a better score.
        augment: Change the pictures of ``train`` at random, see `changed_line` and `changed_page`.
        page_size: For detectors and classifiers: pictures are brought to squares of so many pixels, a multiple of 32,
            here and by predictors; by default what the architecture is made for.
        crop_size: For detectors: learn from squares of so many pixels, a multiple of 32, that are cut out of pages of
            that size, each time at another place. A step takes less time and memory by as much as they are smaller.
        seed: Decides the order of rows, how they are changed, and random weights.
        device: By default ``"cuda"`` where there is one, else ``"cpu"``.
        amp: Compute in half precision where that is safe; by default on CUDA alone.
        num_workers: Processes that read pictures; 0 for none.
        save_seconds: The state is saved when so much time has passed, and after each epoch.
        resume: Go on with a training that was stopped; a checkpoint of one that is done stays. Else begin anew, and
            replace it.
        overwrite: Begin anew, and replace files that exist even if no training wrote them. Files that are read are
            never replaced.
        report: Called after each epoch with its line of the log.

    Returns:
        The scores, the log, and where the weights are.

    Raises:
        InvalidArgumentError: if an argument is not among the accepted ones, texts have characters that the recogniser
            does not know, the state beside ``out`` is that of another training, there is a checkpoint already, or a
            file of the training would replace one that is read, or that no training wrote.
        TrainingError: if the gradients are not finite any more; the best weights so far stay where they are.
        WeightsNotFoundError: if there are no weights to start with.
        WriteError: if a file cannot be written; what was written before stays.

    Example:
        >>> from mediatensor.ocr.training import LineDataset, fit
        >>> lines = LineDataset("lines/train.jsonl")  # doctest: +SKIP
        >>> validation = LineDataset("lines/validation.jsonl")  # doctest: +SKIP
        >>> fit("ppocr_v6_small_reco", lines, validation=validation, out="fraktur.pt").scores  # doctest: +SKIP
        {'num_lines': 120, 'exact': 0.62, 'character_error_rate': 0.011, 'score': 0.989}
    """
    path = Path(path_text("out", out))
    if path.suffix not in (".pt", ".pth"):
        raise InvalidArgumentError(f"out must be a file that ends in .pt (got {str(path)!r}).")
    _check_files(path, arch, (train, validation, keep), overwrite=overwrite)
    settings = _Settings(
        arch=os.fspath(arch),
        pretrained=pretrained,
        vocab=vocab,
        extend_vocab=extend_vocab,
        epochs=whole_number("epochs", epochs, at_least=1),
        batch_size=whole_number("batch_size", batch_size, at_least=1),
        learning_rate=_RATES[pretrained] if learning_rate is None else finite_number("learning_rate", learning_rate),
        weight_decay=finite_number("weight_decay", weight_decay),
        warmup=finite_number("warmup", warmup),
        ema_decay=finite_number("ema_decay", ema_decay),
        clip_norm=finite_number("clip_norm", clip_norm),
        keep_weight=finite_number("keep_weight", keep_weight),
        blend=finite_number("blend", blend),
        patience=patience if patience is None else whole_number("patience", patience, at_least=1),
        augment=augment,
        page_size=page_size if page_size is None else whole_number("page_size", page_size, at_least=32),
        crop_size=crop_size if crop_size is None else whole_number("crop_size", crop_size, at_least=32),
        seed=whole_number("seed", seed),
        num_rows=_num_rows("train", train),
        num_kept_rows=0 if keep is None else _num_rows("keep", keep),
    )
    _num_rows("validation", validation)
    for name, high in (("learning_rate", 1), ("warmup", 1), ("ema_decay", 1), ("blend", 1), ("weight_decay", 10)):
        if not 0 <= getattr(settings, name) <= high:
            raise InvalidArgumentError(f"{name} must be from 0 to {high} (got {getattr(settings, name)}).")
    if blend != 1 and not pretrained:
        raise InvalidArgumentError(f"blend must be 1 for random weights, which know nothing to keep (got {blend}).")
    _join_processes()
    torch.manual_seed(settings.seed)
    checkpoint, num_new = _start(settings, [train, validation])
    training = _Training(
        settings, checkpoint, num_new, train, validation, keep, path, _device(device), amp, num_workers
    )
    if resume and not overwrite:
        training.resume()
    if _num_ranks() > 1:
        dist.barrier()  # all have looked for files before the first process writes some
    return training.run(finite_number("save_seconds", save_seconds), report)


def _num_rows(name: str, dataset: Any) -> int:
    if not isinstance(dataset, MediaDataset):
        raise InvalidArgumentError(
            f"{name} must be a MediaDataset, such as LineDataset or drawn_lines make (got {shown(dataset)})."
        )
    return len(dataset)


def _device(device: str | torch.device | None) -> torch.device:
    if device is None:
        device = f"cuda:{int(os.environ.get('LOCAL_RANK', 0))}" if torch.cuda.is_available() else "cpu"
    return checked_device(device)


def _join_processes() -> None:
    """Meet the other processes that ``torchrun`` started, unless the caller did."""
    if "TORCHELASTIC_RUN_ID" in os.environ and dist.is_available() and not dist.is_initialized():
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")


def _num_ranks() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def _is_first() -> bool:
    return _num_ranks() == 1 or dist.get_rank() == 0


def _start(settings: _Settings, datasets: list[MediaDataset]) -> tuple[Checkpoint, int]:
    """The network that training begins with: weights, characters, architecture; and how many characters are new."""
    first = Checkpoint("", {})
    if is_checkpoint(settings.arch):
        first = read_checkpoint(settings.arch)
        arch, model = first.arch, first.network()
    else:
        arch = settings.arch
        if arch not in list_models():
            raise InvalidArgumentError(
                f"unknown architecture {arch!r}: choose one of {', '.join(list_models())}, or a .pt file."
            )
        if settings.pretrained:
            find_weights(arch)
        options = {} if settings.pretrained or settings.vocab is None else {"vocab": settings.vocab}
        model = network_factory(arch)(pretrained=settings.pretrained, **options)
    task = model_card(arch).task
    if task not in _TASKS:
        raise InvalidArgumentError(
            f"{arch} is a network of {task}, and fit trains those of {', '.join(_TASKS)}: call it with a target, "
            'model(pages, target=...)["loss"], and go on from there.'
        )
    if settings.crop_size is not None and (task != "detection" or settings.crop_size % 32):
        reason = "is for detectors" if task != "detection" else "must be a multiple of 32"
        raise InvalidArgumentError(f"crop_size {reason} (got {settings.crop_size} for {arch}).")
    if task != "recognition":
        size = settings.page_size
        shape = first.input_shape if size is None else (3, size, size)
        return Checkpoint(arch, model.state_dict(), options=first.options, input_shape=shape), 0
    new: list[str] = []
    if settings.extend_vocab:
        new = sorted(set().union(*(characters_of(dataset) or () for dataset in datasets)) - set(model.vocab))
        if new and not hasattr(model, "extend_vocab"):
            raise InvalidArgumentError(
                f"{arch} cannot take further characters ({' '.join(new)}): train it from random weights, with vocab=."
            )
        if new:
            model.extend_vocab("".join(new), like=look_alikes(model.eval(), "".join(new), datasets[0]))
    characters = list(getattr(model, "characters", model.vocab))
    return Checkpoint(arch, model.state_dict(), characters), len(new)


def _normalisations(model: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    return [layer for layer in model.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]


def _learner(model: Any, task: str, settings: _Settings, keeps: bool) -> Learner:
    if task == "recognition":
        return Recognition(model, distils=keeps and settings.pretrained, is_new=not settings.pretrained)
    return Detection(model, settings.crop_size) if task == "detection" else Orientation(model)


class _Training:
    """All that changes while a network is trained, and how it changes."""

    def __init__(
        self,
        settings: _Settings,
        start: Checkpoint,
        num_new: int,
        train: MediaDataset,
        validation: MediaDataset,
        keep: MediaDataset | None,
        path: Path,
        device: torch.device,
        amp: bool | None,
        num_workers: int,
    ) -> None:
        self.settings, self.start, self.path, self.device = settings, start, path, device
        self.num_new = num_new
        self.model = start.network().to(device)
        task = model_card(start.arch).task
        if task == "recognition" and isinstance(keep, DrawnLines):
            # Languages have signs that the recogniser never knew: there is nothing to keep of them.
            keep = keep.limited_to(self.model.vocab)
        self.validation, self.keep = validation, keep
        self.learner = _learner(self.model, task, settings, keep is not None)
        rows = [train, validation, *([keep] if keep is not None else [])]
        self.learner.check(rows)
        if isinstance(self.learner, Recognition) and settings.pretrained:
            self.learner.hold_classes(train, rows)
        self.averaged = deepcopy(self.model).requires_grad_(False)
        self.averaged.eval()
        # Predictors, which learners make, set a network to evaluate.
        self.model.train()
        if settings.pretrained:
            # Statistics of many pages are worth more than those of a small batch of few.
            for layer in _normalisations(self.model):
                layer.eval()
        self.optimizer = torch.optim.AdamW(_groups(self.model, settings))
        half = torch.bfloat16 if device.type != "cuda" or torch.cuda.is_bf16_supported() else torch.float16
        self.half = half if (device.type == "cuda" if amp is None else amp) else None
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.half == torch.float16)
        self.train = self.learner.prepared(train, settings.augment)
        self.loader = self._loader(self.train, num_workers)
        self.keep_loader = None if keep is None else self._loader(self.learner.prepared(keep, False), num_workers)
        if not len(self.loader):
            raise InvalidArgumentError(
                f"train has {len(train)} rows; {_num_ranks()} processes take {_POOL_BATCHES} batches of "
                f"{settings.batch_size} each at once. Use fewer processes, or a smaller batch_size."
            )
        self.epoch, self.round, self.num_steps, self.num_bad = 0, 0, 0, 0
        self.epochs: list[dict[str, Any]] = []
        self.best_epoch = 0
        self.losses: list[float] = []
        self.keep_losses: list[float] = []

    def _loader(self, dataset: MediaDataset, num_workers: int) -> DataLoader[Any]:
        return DataLoader(
            dataset,
            self.settings.batch_size * _POOL_BATCHES,
            shuffle=True,
            collate_fn=self.learner.collator(self.settings.batch_size),
            seed=self.settings.seed,
            drop_last=_num_ranks() > 1,
            num_workers=num_workers,
            persistent_workers=num_workers > 0,
        )

    def run(self, save_seconds: float, report: Callable[[Mapping[str, Any]], None] | None) -> Fit:
        """Train what is left of the epochs."""
        self.report = report
        if not self.epochs:
            # A checkpoint without a state is one of a training that is done, so that the state comes first.
            self._save()
            self._end_epoch(time.monotonic())
        kept = self._endless(self.keep_loader)
        while self.epoch < self.settings.epochs and not self._has_stalled():
            began = saved = time.monotonic()
            num_rounds = self.round + len(self.loader)
            for batches in progress(self.loader, f"epoch {self.epoch + 1}", len(self.loader), "pool"):
                others = next(kept) if kept is not None else []
                for number in range(_least(len(batches), self.device)):
                    share = (self.epoch + (self.round + number / len(batches)) / num_rounds) / self.settings.epochs
                    self._step(batches[number], others[number % len(others)] if others else None, share)
                self.round += 1
                if self.round < num_rounds and time.monotonic() - saved >= save_seconds:
                    self._save()
                    saved = time.monotonic()
            self.epoch, self.round = self.epoch + 1, 0
            self._end_epoch(began)
        if _is_first():
            self._state_path.unlink(missing_ok=True)
        best = self.epochs[self.best_epoch]
        return Fit(self.path, best["validation"], tuple(self.epochs), self.best_epoch)

    @staticmethod
    def _endless(loader: DataLoader[Any] | None) -> Iterator[Any] | None:
        def batches(loader: DataLoader[Any]) -> Iterator[Any]:
            while True:
                yield from loader

        return None if loader is None else batches(loader)

    def _step(self, batch: Any, kept: Any, share: float) -> None:
        """One step of the optimiser, ``share`` of the way from the first to the last."""
        for group in self.optimizer.param_groups:
            group["lr"] = group["greatest"] * _rate(share, self.settings.warmup)
        self.optimizer.zero_grad()
        with self._autocast():
            loss = self.learner.loss(self.model, batch, share)
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.losses.append(float(loss.detach()))
        if kept is not None:
            with self._autocast():
                keep_loss = self.learner.keeping_loss(kept)
            self.scaler.scale(keep_loss * self.settings.keep_weight).backward()  # type: ignore[no-untyped-call]
            self.keep_losses.append(float(keep_loss.detach()))
        _average_gradients(self.model)
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_norm)
        # Half precision overflows now and then, and then the scaler leaves the step out. Any other kind does not come
        # back from numbers that are not finite, unless one batch alone is to blame.
        self.num_bad = 0 if torch.isfinite(norm) else self.num_bad + 1
        if self.num_bad >= _MAX_BAD_STEPS:
            raise TrainingError(
                f"The gradients of {self.num_bad} steps in a row were not finite, in epoch {self.epoch + 1}. The best "
                f"weights so far are in {self.path}. Try a smaller learning_rate (it is "
                f"{self.settings.learning_rate:g}), and look for broken pictures among the rows."
            )
        if not self.num_bad or self.scaler.is_enabled():
            self.scaler.step(self.optimizer)
            self.scaler.update()
        if not self.num_bad:
            self.num_steps += 1
            self._average()

    def _autocast(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.half is None else torch.autocast(self.device.type, self.half)

    @torch.no_grad()
    def _average(self) -> None:
        """Move the averaged weights towards those of the network (Polyak and Juditsky, 1992)."""
        decay = min(self.settings.ema_decay, (1 + self.num_steps) / (10 + self.num_steps))
        for mean, value in zip(self.averaged.parameters(), self.model.parameters(), strict=True):
            mean.lerp_(value, 1 - decay)

    @torch.no_grad()
    def _settle(self) -> None:
        """Take the statistics of normalisation anew, for the averaged weights (Izmailov et al., 2018).

        Those of the network belong to other weights. After a few dozen steps some of them have hardly moved.
        """
        layers = _normalisations(self.averaged)
        if not layers or self.settings.pretrained:
            return
        num_rows = self.settings.batch_size * _POOL_BATCHES
        momenta = [layer.momentum for layer in layers]
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None  # the mean over all batches
            layer.train()
        for samples in first_rows(self.train, num_rows, num_rows, self.epoch):
            for batch in self.learner.collator(self.settings.batch_size)([*samples]):
                self.learner.loss(self.averaged, batch)
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
            layer.eval()

    @torch.no_grad()
    def _blended(self) -> Any:
        """The averaged network, part of the way back to the network at the start."""
        if self.settings.blend == 1:
            return self.averaged
        network = deepcopy(self.averaged)
        head = {id(value) for value in network.score_layer()[0].parameters()} if self.num_new else set()
        for name, value in network.named_parameters():
            num_known = len(value) - (self.num_new if id(value) in head else 0)
            before = self.start.state_dict[name].to(value.device)
            value[:num_known] = before.lerp(value, self.settings.blend)[:num_known]
        return network

    def _end_epoch(self, began: float) -> None:
        """Score the averaged weights, keep them if they are the best, and write down how it went."""
        if _is_first():
            trained = time.monotonic()
            if self.num_steps:
                self._settle()
            network = self._blended()
            chosen = self.learner.chosen_options(network, self.validation) if self.num_steps else {}
            scores = self.learner.scores(network, self.validation)
            entry: dict[str, Any] = {
                "epoch": self.epoch,
                "steps": self.num_steps,
                "loss": _mean(self.losses),
                "keep_loss": _mean(self.keep_losses),
                "learning_rate": self.optimizer.param_groups[0]["lr"] if self.losses else None,
                "seconds": round(trained - began, 1),
                "validation": scores.as_dict(),
                "keep": None,
            }
            if self.keep is not None:
                entry["keep"] = self.learner.scores(network, self.keep, _NUM_KEPT_SCORED).as_dict()
            self.epochs.append(entry)
            if self.epoch == 0 or scores.score > self.epochs[self.best_epoch]["validation"]["score"]:
                self.best_epoch = self.epoch
                self._write_checkpoint(network, chosen)
            self.losses, self.keep_losses = [], []
            write_history(self.path.with_suffix(".jsonl"), self.epochs)
            if self.report is not None:
                self.report(entry)
            if self.epoch:
                write_curves(self.path.with_suffix(".png"), f"{self.path.stem}: {self.start.arch}", self.epochs)
        if _num_ranks() > 1:
            shared: list[Any] = [self.epochs, self.best_epoch]
            dist.broadcast_object_list(shared, src=0)
            self.epochs, self.best_epoch = shared
            self.losses, self.keep_losses = [], []
        self._save()

    def _has_stalled(self) -> bool:
        patience = self.settings.patience
        return patience is not None and self.epoch - self.best_epoch >= patience

    def _write_checkpoint(self, network: Any, chosen: Mapping[str, Any]) -> None:
        card = {
            "task": self.learner.task,
            "started_from": self.settings.arch,
            "settings": {name: value for name, value in asdict(self.settings).items() if name != "vocab"},
            "train": repr(self.train),
            "validation": repr(self.validation),
            "keep": None if self.keep is None else repr(self.keep),
            "epoch": self.epoch,
            "scores_before": self.epochs[0]["validation"],
            "scores": self.epochs[-1]["validation"],
            "mediatensor": __version__,
            "torch": str(torch.__version__),
        }
        options = {**self.start.options, **chosen}
        weights = network.state_dict()
        save_checkpoint(self.path, replace(self.start, state_dict=weights, options=options, card=card))

    @property
    def _state_path(self) -> Path:
        return self.path.with_suffix(".state.pt")

    def _save(self) -> None:
        """Write all that it takes to go on from here."""
        if not _is_first():
            return
        state = {
            "format": _STATE_FORMAT,
            "version": _STATE_VERSION,
            "settings": asdict(self.settings),
            "model": self.model.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "keep_loader": None if self.keep_loader is None else self.keep_loader.state_dict(),
            "random": torch.get_rng_state(),
            "counts": [self.epoch, self.round, self.num_steps, self.num_bad, self.best_epoch],
            "losses": [self.losses, self.keep_losses],
            "epochs": self.epochs,
        }
        buffer = io.BytesIO()
        torch.save(state, buffer)
        write_file(self._state_path, buffer.getvalue())

    def resume(self) -> None:
        """Go on where the state beside the checkpoint was saved, if there is one.

        Raises:
            InvalidArgumentError: if it is that of a training with other settings, or there is a checkpoint without it.
            WeightsError: if it is damaged.
        """
        file = self._state_path
        if not file.exists():
            if self.path.exists():
                raise InvalidArgumentError(
                    f"{self.path} is there already, of a training that is done. Give another file, go on from it by "
                    "its path as the architecture, or replace it with resume=False (--no-resume)."
                )
            return
        state = read_safely(file)
        if (
            not isinstance(state, dict)
            or state.get("format") != _STATE_FORMAT
            or state.get("version") != _STATE_VERSION
        ):
            raise WeightsError(
                f"{file} is no state of a training that this mediatensor reads. Remove it to begin anew."
            )
        now, then = asdict(self.settings), state.get("settings", {})
        different = [
            f"{name}={shown(then.get(name))}, now {shown(now[name])}" for name in now if then.get(name) != now[name]
        ]
        if different:
            raise InvalidArgumentError(
                f"{file} is the state of another training ({'; '.join(different)}). Give the same arguments to go on "
                "with it, or resume=False (--no-resume) to begin anew."
            )
        try:
            self.model.load_state_dict(state["model"])
            self.averaged.load_state_dict(state["averaged"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.scaler.load_state_dict(state["scaler"])
            self.loader.load_state_dict(state["loader"])
            if self.keep_loader is not None:
                self.keep_loader.load_state_dict(state["keep_loader"])
            torch.set_rng_state(state["random"])
            self.epoch, self.round, self.num_steps, self.num_bad, self.best_epoch = state["counts"]
            self.losses, self.keep_losses = state["losses"]
            self.epochs = state["epochs"]
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise WeightsError(f"{file} is damaged ({error}). Remove it to begin anew.") from error


def training_files(out: str | os.PathLike[str]) -> list[Path]:
    """Return the files that a training writes: the checkpoint, its state, the log and the curves."""
    path = Path(out)
    return [path, *(path.with_suffix(suffix) for suffix in (".state.pt", ".jsonl", ".png"))]


def _check_files(
    path: Path, arch: str | os.PathLike[str], datasets: Sequence[MediaDataset | None], *, overwrite: bool
) -> None:
    """Refuse to write files that are read, and to replace files that no training wrote.

    Raises:
        InvalidArgumentError: if one of the files is.
    """
    sources: list[Any] = [arch]
    for dataset in datasets:
        if isinstance(dataset, MediaDataset):
            sources += files_of(dataset.items)
    checkpoint, state, log, _ = files = training_files(path)

    def is_own(output: str, existing: str) -> bool:
        if output == str(checkpoint):
            return _is_checkpoint(existing)
        if output == str(log):
            return _is_log(existing)
        if output == str(state):
            return _is_archive(existing)  # whether it is a state, and of what, shows when it is read
        return any(map(Path.exists, (checkpoint, state, log)))  # curves stand beside one of these

    check_outputs(files, sources, overwrite=overwrite, is_own=is_own, how="overwrite=True (--overwrite)")


def _is_checkpoint(path: str) -> bool:
    try:
        read_checkpoint(path)
    except WeightsError:
        return False
    return True


def _is_archive(path: str) -> bool:
    """Return whether a file begins as those do that torch writes, even if it is cut off."""
    with open(path, "rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _is_log(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            first = json.loads(file.readline(1 << 20))
    except (OSError, ValueError):
        return False
    return isinstance(first, dict) and {"epoch", "loss", "validation"} <= first.keys()


def _groups(model: nn.Module, settings: _Settings) -> list[dict[str, Any]]:
    """Parameters with and without decay, and the last layer."""
    head = list(model.score_layer()[0].parameters()) if hasattr(model, "score_layer") else []  # type: ignore[operator]
    own = {id(parameter) for parameter in head}
    decayed = [value for value in model.parameters() if value.ndim > 1 and id(value) not in own]
    others = [value for value in model.parameters() if value.ndim <= 1 and id(value) not in own]
    groups = (
        (decayed, settings.weight_decay, 1.0),
        (others, 0.0, 1.0),
        (head, 0.0, _HEAD_RATE if settings.pretrained else 1.0),
    )
    return [
        {"params": values, "weight_decay": decay, "greatest": settings.learning_rate * factor}
        for values, decay, factor in groups
        if values
    ]


def _rate(share: float, warmup: float) -> float:
    """The learning rate as a share of the greatest one, ``share`` of the way through the training.

    >>> _rate(0.0, 0.1) < _rate(0.05, 0.1) < _rate(0.1, 0.1), round(_rate(1.0, 0.1), 2)
    (True, 0.01)
    """
    if share < warmup:
        return max(share / warmup, _LAST_RATE)
    falling = (1 + math.cos(math.pi * (share - warmup) / max(1 - warmup, 1e-9))) / 2
    return _LAST_RATE + (1 - _LAST_RATE) * falling


def _average_gradients(model: nn.Module) -> None:
    """The mean of the gradients of all processes, in one message."""
    if _num_ranks() == 1:
        return
    gradients = [value.grad for value in model.parameters() if value.grad is not None]
    joined = torch.cat([gradient.reshape(-1) for gradient in gradients]) / _num_ranks()
    dist.all_reduce(joined)
    parts = torch.split(joined, [gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


def _least(number: int, device: torch.device) -> int:
    """The least of the numbers of all processes: each must make as many steps, even if some of its rows failed."""
    if _num_ranks() == 1:
        return number
    shared: Tensor = torch.tensor(number, device=device)
    dist.all_reduce(shared, dist.ReduceOp.MIN)
    return int(shared)


def _mean(losses: list[float]) -> float | None:
    finite = [loss for loss in losses if math.isfinite(loss)]
    return sum(finite) / len(finite) if finite else None
