"""Implements `fit`: check the arguments and files of a training, create the network, and train it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from ..._engine.common.checks import finite_number, function, path_text, shown, whole_number
from ..._engine.common.devices import checked_device
from ..._engine.sources.output_files import check_outputs
from ...datasets import MediaDataset
from ...datasets._sources.dispatch import files_of
from ...errors import InvalidArgumentError, WeightsError
from ..models import find_weights, list_models, model_card
from ..models._networks.registry import network_factory
from ..models._networks.weights import Checkpoint, is_checkpoint, read_checkpoint
from ._loop import Fit, FitSettings, Training, num_ranks
from ._recognition import look_alikes
from ._rows import characters_of

_TASKS = ("recognition", "detection", "classification")
# Default learning rates for random (``False``) and for pretrained weights (``True``).
_RATES = {False: 1e-3, True: 2e-4}


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
    """Train a text recogniser, a text detector or an orientation classifier, and keep its best weights.

    After each epoch, the network is scored on ``validation``. The best weights so far are written to ``out``, a file
    that predictors accept, as in ``ocr_predictor(reco_arch=out)`` or ``ocr_predictor(det_arch=out)``. Next to ``out``,
    `fit` writes a log (``.jsonl``) and, if matplotlib is installed, a plot of the curves (``.png``). A third
    file, ``.state.pt``, exists until training is complete. If training is interrupted, call `fit` again with the same
    arguments to resume it from this file. If training uses one device and the same number of threads, the resulting
    weights are bit-identical to the weights of an uninterrupted training.

    If ``torchrun`` starts several processes, they train one network together, and each takes its own batch in every
    step.

    For a detector, the thresholds that convert its probability maps to boxes are also chosen on ``validation``, and
    stored with the weights.

    The optimiser is AdamW (Loshchilov and Hutter, 2019, https://arxiv.org/abs/1711.05101). The learning rate first
    rises linearly, and then falls like half a cosine wave. The weights that are scored and written are moving averages
    over the steps.

    Args:
        arch: Name of a network from `list_models`, or path of a checkpoint to start from. The network determines what
            is trained: a recogniser, a detector or a classifier.
        train: Any `MediaDataset`. A recogniser needs samples with an image, ``Sample.image``, and its text,
            ``Sample.label``, such as a `LineDataset`. A detector needs pages with the boxes of words or lines,
            ``Sample.extra["boxes"]``, such as a `PageDataset`. An orientation classifier needs upright images, which
            `fit` rotates.
        validation: Dataset with samples of the same kind as ``train``. The network is scored on them, and not trained
            on them.
        out: Path of the checkpoint, ``.pt``.
        keep: Rehearsal data: a dataset of samples that the network must still handle well after training. Each step
            uses as many samples of ``keep`` as of ``train``. The default recogniser is also trained to compute about
            the same features for these samples as it did before training.
        pretrained: Whether to start from the weights on this machine and freeze the statistics of normalisation layers.
            If false, training starts from random weights.
        vocab: The characters of a recogniser, if it starts from random weights.
        extend_vocab: Whether the recogniser learns the characters in ``train`` and ``validation`` that it does not know
            yet.
        epochs: Number of passes over ``train``.
        batch_size: Number of samples (lines or pages) per step in each process.
        learning_rate: Peak learning rate (default 2e-4, or 1e-3 for random weights). The last layer of a pretrained
            recogniser learns five times as fast, because it maps shapes to characters.
        weight_decay: Weight decay of weight matrices. Biases, scales and the last layer do not have weight decay.
        warmup: Share of all steps in which the learning rate rises.
        ema_decay: In each step, the averaged weights keep this share of their previous value. The share is smaller at
            the start.
        clip_norm: Gradients with a larger norm are scaled down to this norm.
        keep_weight: Weight of the loss for ``keep``, relative to the loss for ``train``.
        blend: Share of the trained weights in the written weights. The rest is the share of the initial weights.
            Characters added by ``extend_vocab`` are not blended. With a value below 1, the network forgets less
            (Wortsman et al., "Robust fine-tuning of zero-shot models", 2022, https://arxiv.org/abs/2109.01903).
        patience: Training stops when this number of epochs has passed without a better score. By default, it never
            stops early.
        augment: Whether to change the images of ``train`` at random; see `changed_line` and `changed_page`.
        page_size: For detectors and orientation classifiers: images are resized to squares with this side in pixels, a
            multiple of 32, both in training and in predictors. By default, the size of the architecture.
        crop_size: For detectors: train on random square crops of pages with this side in pixels, a multiple of 32.
            Smaller crops need less time and memory per step. By default, whole pages are used.
        seed: Seed for the order of the samples, their random changes, and the initial weights if they are random.
        device: Device on which to train, by default ``"cuda"`` if available, else ``"cpu"``.
        amp: Whether to use automatic mixed precision; by default only on CUDA.
        num_workers: Number of processes that read images; 0 reads them in this process.
        save_seconds: Interval in seconds at which the state is saved. It is also saved after each epoch.
        resume: Whether to resume an interrupted training. If true and the training is already complete, an error is
            raised. If false, training starts again and replaces the checkpoint.
        overwrite: Whether to start again and replace existing files, even if they do not come from a training. Input
            files are never replaced.
        report: Function that is called after each epoch with the log entry of the epoch, a dict; see `Fit.epochs`.

    Returns:
        A `Fit` with the scores of the best weights, the log, and the path of the checkpoint.

    Raises:
        InvalidArgumentError: An argument is invalid, or a text contains a character that the recogniser does not know.
            Or the training is already complete, or the saved state belongs to a training with other arguments. Or
            training would replace an input file or a file that does not come from a training.
        TrainingError: The gradients are no longer finite. The best weights so far remain in ``out``.
        WeightsError: The saved state is damaged, or the weights that belong to it are missing.
        WeightsNotFoundError: The pretrained weights to start from are not on this machine.
        WriteError: A file cannot be written. Existing files are kept.

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
    rate = _RATES[bool(pretrained)] if learning_rate is None else learning_rate
    settings = FitSettings(
        arch=path_text("arch", arch),
        pretrained=pretrained,
        vocab=vocab,
        extend_vocab=extend_vocab,
        epochs=whole_number("epochs", epochs, at_least=1),
        batch_size=whole_number("batch_size", batch_size, at_least=1),
        learning_rate=_check_number("learning_rate", rate, 1),
        weight_decay=_check_number("weight_decay", weight_decay, 10),
        warmup=_check_number("warmup", warmup, 1),
        ema_decay=_check_number("ema_decay", ema_decay, 1),
        clip_norm=_check_number("clip_norm", clip_norm),
        keep_weight=_check_number("keep_weight", keep_weight),
        blend=_check_number("blend", blend, 1),
        patience=patience if patience is None else whole_number("patience", patience, at_least=1),
        augment=augment,
        page_size=page_size if page_size is None else whole_number("page_size", page_size, at_least=32),
        crop_size=crop_size if crop_size is None else whole_number("crop_size", crop_size, at_least=32),
        seed=whole_number("seed", seed, at_least=-(2**63), at_most=2**64 - 1),  # the range of torch's seeds
        num_rows=_num_rows("train", train),
        num_validation_rows=_num_rows("validation", validation),
        num_kept_rows=0 if keep is None else _num_rows("keep", keep),
    )
    save_seconds, report = _check_number("save_seconds", save_seconds), function("report", report)
    if settings.clip_norm == 0:
        raise InvalidArgumentError("clip_norm must be above 0, because gradients that are scaled to 0 train nothing.")
    if blend != 1 and not pretrained:
        raise InvalidArgumentError(f"blend must be 1 for random weights (got {blend}).")
    _join_processes()
    torch.manual_seed(settings.seed)
    checkpoint, num_new = _start(settings, [train, validation])
    training = Training(settings, checkpoint, num_new, train, validation, keep, path, _device(device), amp, num_workers)
    if resume and not overwrite:
        training.resume()
    if num_ranks() > 1:
        dist.barrier()  # all processes check for files before the first one writes
    return training.run(save_seconds, report)


def _check_number(name: str, value: float, at_most: float = math.inf) -> float:
    """Return ``value`` as a float. Raise an error unless it is a finite number from 0 to ``at_most``."""
    number = finite_number(name, value)
    if not 0 <= number <= at_most:
        accepted = "at least 0" if at_most == math.inf else f"from 0 to {at_most}"
        raise InvalidArgumentError(f"{name} must be {accepted} (got {number}).")
    return number


def _num_rows(name: str, dataset: Any) -> int:
    if not isinstance(dataset, MediaDataset):
        raise InvalidArgumentError(
            f"{name} must be a MediaDataset, such as LineDataset or drawn_lines (got {shown(dataset)})."
        )
    return len(dataset)


def _device(device: str | torch.device | None) -> torch.device:
    if device is None:
        device = f"cuda:{int(os.environ.get('LOCAL_RANK', 0))}" if torch.cuda.is_available() else "cpu"
    return checked_device(device)


def _join_processes() -> None:
    """Initialise ``torch.distributed`` if ``torchrun`` started this process and the caller has not done it yet."""
    if "TORCHELASTIC_RUN_ID" in os.environ and dist.is_available() and not dist.is_initialized():
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")


def _start(settings: FitSettings, datasets: list[MediaDataset]) -> tuple[Checkpoint, int]:
    """Return the network from which training starts, and the number of characters added to its vocabulary."""
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
            f"{arch} is a network for {task}, and fit trains networks for {', '.join(_TASKS)}: call it with a target, "
            'model(pages, target=...)["loss"], in your own training loop.'
        )
    if settings.crop_size is not None and (task != "detection" or settings.crop_size % 32):
        reason = "is for detectors" if task != "detection" else "must be a multiple of 32"
        raise InvalidArgumentError(f"crop_size {reason} (got {settings.crop_size} for {arch}).")
    if settings.page_size is not None and settings.page_size % 32:
        raise InvalidArgumentError(f"page_size must be a multiple of 32 (got {settings.page_size}).")
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


def training_files(out: str | os.PathLike[str]) -> list[Path]:
    """Return the files that a training writes: the checkpoint, its state, the log and the plot of the curves."""
    path = Path(out)
    return [path, *(path.with_suffix(suffix) for suffix in (".state.pt", ".jsonl", ".png"))]


def _check_files(
    path: Path, arch: str | os.PathLike[str], datasets: Sequence[MediaDataset | None], *, overwrite: bool
) -> None:
    """Raise an error if training would replace an input file, or a file that does not come from a training."""
    sources: list[Any] = [arch]
    for dataset in datasets:
        if isinstance(dataset, MediaDataset):
            sources += files_of(dataset.items)
    checkpoint, state, log, _ = files = training_files(path)

    def is_from_training(output: str, existing: str) -> bool:
        if output == str(checkpoint):
            return _is_checkpoint(existing)
        if output == str(log):
            return _is_log(existing)
        if output == str(state):
            return _is_archive(existing)  # resuming checks its contents
        return any(map(Path.exists, (checkpoint, state, log)))  # curves only come with one of these

    check_outputs(files, sources, overwrite=overwrite, is_own=is_from_training, how="overwrite=True (--overwrite)")


def _is_checkpoint(path: str) -> bool:
    try:
        read_checkpoint(path)
    except WeightsError:
        return False
    return True


def _is_archive(path: str) -> bool:
    """Return whether a file starts like a ``torch.save`` file. The rest is not checked and can be missing."""
    with open(path, "rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _is_log(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            first = json.loads(file.readline(1 << 20))
    except (OSError, ValueError):
        return False
    return isinstance(first, dict) and {"epoch", "loss", "validation"} <= first.keys()
