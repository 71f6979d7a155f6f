"""The training loop. It can be interrupted at any time and resumed from its saved state."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ... import __version__
from ..._engine.common.checks import shown
from ..._engine.common.messages import json_bytes, progress
from ..._engine.sources.output_files import write_file, writing
from ...datasets import DataLoader, MediaDataset, RowBatches
from ...errors import InvalidArgumentError, TrainingError, WeightsError
from ..models import model_card
from ..models._networks.weights import Checkpoint, read_safely, save_checkpoint
from ._detection import Detection, Orientation
from ._drawn import DrawnLines
from ._recognition import Learner, Recognition
from ._rows import first_rows

_STATE_FORMAT = "mediatensor.ocr.training"
_STATE_VERSION = 1
# The parts of a training that have a state of their own.
_STATEFUL = ("model", "averaged", "optimizer", "scaler", "loader", "validation_order")

# This many batches are read together, then split into batches of similar width.
_POOL_BATCHES = 8
# Training stops after this many consecutive steps without finite gradients.
_MAX_BAD_STEPS = 10
# The learning rate of the last layer of a pretrained network, relative to the other layers.
_HEAD_RATE = 5.0
# The learning rate at the end, as a share of its peak.
_LAST_RATE = 0.01
# Number of ``keep`` rows that are scored after each epoch.
_NUM_KEPT_SCORED = 200


@dataclass(frozen=True)
class Fit:
    """The result of a completed training.

    Attributes:
        path: Path of the checkpoint with the best weights.
        scores: Scores of the best weights on the validation data, by name. ``"score"`` decides which weights are best:
            1 minus the character error rate (recogniser), F1 (detector) or the share of right classes (classifier).
        epochs: The log: a dict for each epoch. Its keys are ``epoch``, ``steps``, ``loss``, ``keep_loss``,
            ``learning_rate``, ``seconds``, ``validation`` and ``keep``. ``validation`` and ``keep`` are scores by name,
            on the validation data and on the rehearsal data (``None`` without such data). ``keep_loss`` is the loss on
            the rehearsal data. Epoch 0 has the scores before training.
        best_epoch: Number of the epoch after which the weights were best; 0 if the initial network was never surpassed.

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
class FitSettings:
    """The arguments of `fit` that affect the weights, and the numbers of rows. A resumed training needs the same."""

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
    num_validation_rows: int
    num_kept_rows: int


def num_ranks() -> int:
    """Return the number of processes that train one network together; 1 without ``torch.distributed``."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def _is_first() -> bool:
    return num_ranks() == 1 or dist.get_rank() == 0


def _normalisations(model: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    return [layer for layer in model.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]


class Training:
    """A training in progress: its networks, optimiser and log, with methods that train, save and resume."""

    def __init__(
        self,
        settings: FitSettings,
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
            # The recogniser cannot forget characters that it never knew.
            keep = keep.limited_to(self.model.vocab)
        self.validation, self.keep = validation, keep
        self.learner: Learner
        if task == "recognition":
            distils = keep is not None and settings.pretrained
            self.learner = Recognition(self.model, distils=distils, is_new=not settings.pretrained)
        else:
            self.learner = Detection(self.model, settings.crop_size) if task == "detection" else Orientation(self.model)
        rows = [train, validation, *([keep] if keep is not None else [])]
        self.learner.check(rows)
        if isinstance(self.learner, Recognition) and settings.pretrained:
            self.learner.hold_classes(train, rows)
        self.averaged = deepcopy(self.model).requires_grad_(False)
        self.averaged.eval()
        # Learners create predictors, which set the network to evaluation mode.
        self.model.train()
        if settings.pretrained:
            # The statistics of the pretraining pages are better than the statistics of small batches.
            for layer in _normalisations(self.model):
                layer.eval()
        self.optimizer = torch.optim.AdamW(_parameter_groups(self.model, settings))
        half = torch.bfloat16 if device.type != "cuda" or torch.cuda.is_bf16_supported() else torch.float16
        self.half = half if (device.type == "cuda" if amp is None else amp) else None
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.half == torch.float16)
        self.train = self.learner.prepared(train, settings.augment)
        self.loader = self._loader(self.train, num_workers)
        self.validation_order = RowBatches(validation, 1)  # only for its state, which names the files
        self.keep_loader = None if keep is None else self._loader(self.learner.prepared(keep, False), num_workers)
        for name, rows_of, loader in (("train", train, self.loader), ("keep", keep, self.keep_loader)):
            if loader is not None and rows_of is not None and not len(loader):
                raise InvalidArgumentError(
                    f"{name} has {len(rows_of)} rows; {num_ranks()} processes take {_POOL_BATCHES} batches of "
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
            drop_last=num_ranks() > 1,
            num_workers=num_workers,
            persistent_workers=num_workers > 0,
        )

    def run(self, save_seconds: float, report: Callable[[Mapping[str, Any]], None] | None) -> Fit:
        self.report = report
        if not self.epochs:
            # Write the state first: a checkpoint without a state means that training is complete.
            self._save()
            self._end_epoch(time.monotonic())
        kept = None if self.keep_loader is None else chain.from_iterable(repeat(self.keep_loader))
        while self.epoch < self.settings.epochs and not self._has_stalled():
            began = saved = time.monotonic()
            num_rounds = self.round + len(self.loader)
            for batches in progress(self.loader, f"epoch {self.epoch + 1}", len(self.loader), "pool"):
                kept_batches = next(kept) if kept is not None else []
                for number in range(_least_of_processes(len(batches), self.device)):
                    share = (self.epoch + (self.round + number / len(batches)) / num_rounds) / self.settings.epochs
                    kept_batch = kept_batches[number % len(kept_batches)] if kept_batches else None
                    self._step(batches[number], kept_batch, share)
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

    def _step(self, batch: Any, kept: Any, share: float) -> None:
        """Take one training step.

        ``kept`` is a batch of rehearsal data, or None. ``share`` is the progress of the training, from 0 to 1.
        """
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
        # Half precision sometimes overflows. The scaler then skips the step. Without a scaler, the step is skipped
        # here, in case only this batch is invalid.
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
        """Update the moving average of the weights after a step (Polyak and Juditsky, 1992)."""
        decay = min(self.settings.ema_decay, (1 + self.num_steps) / (10 + self.num_steps))
        for mean, value in zip(self.averaged.parameters(), self.model.parameters(), strict=True):
            mean.lerp_(value, 1 - decay)

    @torch.no_grad()
    def _settle(self) -> None:
        """Recompute the statistics of batch normalisation for the averaged weights (Izmailov et al., 2018).

        The statistics of pretrained networks are frozen, so they are not recomputed.
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
    def _blend_weights(self) -> Any:
        """Return a network with the mean of averaged weights and initial weights; see ``blend`` in `fit`."""
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
        """Score the averaged weights, write them to the checkpoint if they are the best so far, and extend the log."""
        if _is_first():
            trained = time.monotonic()
            if self.num_steps:
                self._settle()
            network = self._blend_weights()
            chosen = self.learner.chosen_options(network, self.validation) if self.num_steps else {}
            scores = self.learner.scores(network, self.validation)
            entry: dict[str, Any] = {
                "epoch": self.epoch,
                "steps": self.num_steps,
                "loss": _mean(self.losses),
                "keep_loss": _mean(self.keep_losses),
                "learning_rate": self.optimizer.param_groups[0]["lr"] if self.losses else None,
                "seconds": round(trained - began, 1),
                "validation": scores,
                "keep": None,
            }
            if self.keep is not None:
                entry["keep"] = self.learner.scores(network, self.keep, _NUM_KEPT_SCORED)
            self.epochs.append(entry)
            if self.epoch == 0 or scores["score"] > self.epochs[self.best_epoch]["validation"]["score"]:
                self.best_epoch = self.epoch
                self._write_checkpoint(network, chosen)
            log = b"".join(json_bytes(epoch) + b"\n" for epoch in self.epochs)
            write_file(self.path.with_suffix(".jsonl"), log)
            if self.report is not None:
                self.report(entry)
            if self.epoch:
                _draw_curves(self.path.with_suffix(".png"), f"{self.path.stem}: {self.start.arch}", self.epochs)
        if num_ranks() > 1:
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
        if not _is_first():
            return
        state = {
            "format": _STATE_FORMAT,
            "version": _STATE_VERSION,
            "settings": asdict(self.settings),
            **{name: getattr(self, name).state_dict() for name in _STATEFUL},
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
        """Restore the saved state if it exists.

        Raise an error if the state is damaged or belongs to other settings, if its best weights are missing, or if the
        training is complete.
        """
        file = self._state_path
        if not file.exists():
            if self.path.exists():
                raise InvalidArgumentError(
                    f"{self.path} exists already, and its training is complete. Give another file, give its path as "
                    "the architecture to train it further, or replace it with resume=False (--no-resume)."
                )
            return
        state = read_safely(file)
        written = (state.get("format"), state.get("version")) if isinstance(state, dict) else None
        if written != (_STATE_FORMAT, _STATE_VERSION):
            raise WeightsError(
                f"{file} is not the state of a training that this mediatensor can read. Remove it to start again."
            )
        now, then = asdict(self.settings), state.get("settings", {})
        different = [
            f"{name}={shown(then.get(name))}, now {shown(now[name])}" for name in now if then.get(name) != now[name]
        ]
        if different:
            raise InvalidArgumentError(
                f"{file} is the state of another training ({'; '.join(different)}). Give the same arguments to "
                "resume it, or resume=False (--no-resume) to start again."
            )
        try:
            for name in _STATEFUL:
                getattr(self, name).load_state_dict(state[name])
            if self.keep_loader is not None:
                self.keep_loader.load_state_dict(state["keep_loader"])
            torch.set_rng_state(state["random"])
            self.epoch, self.round, self.num_steps, self.num_bad, self.best_epoch = state["counts"]
            self.losses, self.keep_losses = map(list, state["losses"])
            self.epochs = list(state["epochs"])
            if len(self.epochs) != self.epoch + 1 and (self.epochs or self.epoch):
                raise ValueError(f"{len(self.epochs)} log entries after epoch {self.epoch}")
            best = self.epochs[self.best_epoch]["validation"]["score"] if self.epochs else None
        except InvalidArgumentError as error:  # the rows are of other files
            raise InvalidArgumentError(
                f"{file} cannot be resumed. {error} Give the same arguments to resume it, or resume=False "
                "(--no-resume) to start again."
            ) from error
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise WeightsError(f"{file} is damaged ({error}). Remove it to start again.") from error
        if best is not None and not self.path.exists():
            raise WeightsError(
                f"{self.path} is missing, which has the best weights so far of the training that {file} resumes. "
                "Put it back, or pass resume=False (--no-resume) to start again."
            )


def _parameter_groups(model: nn.Module, settings: FitSettings) -> list[dict[str, Any]]:
    """Return the optimiser's parameter groups: matrices with weight decay, other parameters, and the last layer."""
    head = list(model.score_layer()[0].parameters()) if hasattr(model, "score_layer") else []  # type: ignore[operator]
    in_head = {id(parameter) for parameter in head}
    decayed = [value for value in model.parameters() if value.ndim > 1 and id(value) not in in_head]
    others = [value for value in model.parameters() if value.ndim <= 1 and id(value) not in in_head]
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
    """Return the learning rate relative to its peak. ``share`` is the progress of the training, from 0 to 1."""
    if share < warmup:
        return max(share / warmup, _LAST_RATE)
    falling = (1 + math.cos(math.pi * (share - warmup) / max(1 - warmup, 1e-9))) / 2
    return _LAST_RATE + (1 - _LAST_RATE) * falling


def _average_gradients(model: nn.Module) -> None:
    """Average the gradients over all processes. They are sent as one tensor, which is faster."""
    if num_ranks() == 1:
        return
    gradients = [value.grad for value in model.parameters() if value.grad is not None]
    joined = torch.cat([gradient.reshape(-1) for gradient in gradients]) / num_ranks()
    dist.all_reduce(joined)
    parts = torch.split(joined, [gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


def _least_of_processes(number: int, device: torch.device) -> int:
    """Return the minimum over all processes, which must take equally many steps, although rows can fail."""
    if num_ranks() == 1:
        return number
    shared: Tensor = torch.tensor(number, device=device)
    dist.all_reduce(shared, dist.ReduceOp.MIN)
    return int(shared)


def _mean(losses: list[float]) -> float | None:
    finite = [loss for loss in losses if math.isfinite(loss)]
    return sum(finite) / len(finite) if finite else None


def _draw_curves(path: Path, title: str, epochs: Sequence[Mapping[str, Any]]) -> None:
    """Plot losses and errors over the epochs into a PNG file, if matplotlib is installed."""
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
