"""Helpers for networks: load weights and repositories, export to ONNX, restrict the characters of a recogniser."""

from __future__ import annotations

import copy
import importlib.util
import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from ..._engine.common.checks import path_text, shown
from ..._engine.sources.output_files import writing
from ...errors import InvalidArgumentError, MissingDependencyError, WeightsError, WeightsNotFoundError
from ..utils._scores import to_ascii
from ._networks.blocks import conv_sequence_pt
from ._networks.transfers import uncompiled_module
from ._networks.weights import Checkpoint, check_file, check_input_shape, load_pretrained_params, read_safely

__all__ = [
    "WhitelistHandle",
    "add_whitelist",
    "conv_sequence_pt",
    "export_model_to_onnx",
    "from_hub",
    "load_pretrained_params",
    "set_device_and_dtype",
]

logger = logging.getLogger(__name__)

_STRATEGIES = ("mask", "nearest")
_MAPPINGS = ("anyascii", "weights")
Module = TypeVar("Module", bound=nn.Module)


def from_hub(
    repo_id: str | os.PathLike[str],
    revision: str = "main",
    cache_dir: str | os.PathLike[str] | None = None,
    **kwargs: Any,
) -> Any:
    """Create a network from a docTR repository of the Hugging Face hub that is stored on this machine.

    The repository has two files: ``config.json`` and ``pytorch_model.bin``. Nothing is downloaded, and no code from
    the files is run.

    Args:
        repo_id: The name of a repository in the cache of ``huggingface_hub``, such as ``"owner/name"``, or the path of
            a folder with the two files.
        revision: The branch, tag or commit of a repository in the cache.
        cache_dir: The folder of the cache; by default ``HF_HUB_CACHE``, or the folder ``hub`` in ``HF_HOME``, or
            ``~/.cache/huggingface/hub``.
        **kwargs: Other arguments of ``hf_hub_download`` concern downloads, and have no effect.

    Returns:
        The network in evaluation mode, for the arguments ``det_arch`` and ``reco_arch`` of predictors.

    Raises:
        WeightsNotFoundError: The repository, or a file of it, is not on this machine.
        WeightsError: A file is damaged, is not from docTR, or names an unknown architecture.

    Example:
        >>> from mediatensor.ocr.models import from_hub, ocr_predictor
        >>> reader = from_hub("Felix92/doctr-torch-parseq-multilingual-v1")  # doctest: +SKIP
        >>> predictor = ocr_predictor(reco_arch=reader, pretrained=True)  # doctest: +SKIP
    """
    name = path_text("the repository", repo_id)
    folder = Path(name) if os.path.isdir(name) else _cached_repository(name, revision, cache_dir)
    file = folder / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        arch, _, shape = config.pop("arch"), config.pop("task"), tuple(config.pop("input_shape"))
        if not isinstance(vocab := config.get("vocab", ""), str):
            raise TypeError("vocab is not a text")
    except FileNotFoundError:
        raise WeightsNotFoundError(
            f"{folder} has no config.json: it is not a repository of docTR's networks."
        ) from None
    except (OSError, AttributeError, KeyError, TypeError, RecursionError, ValueError) as error:
        raise WeightsError(f"{file} does not describe a network of docTR: {type(error).__name__}: {error}.") from None
    check_input_shape(file, shape)
    state = read_safely(check_file(folder / "pytorch_model.bin"))
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise WeightsError(f"{folder / 'pytorch_model.bin'} is not a state dict.")
    options = {key: config[key] for key in ("classes", "num_classes", "class_names") if key in config}
    if vocab:
        options["input_shape"] = shape
    model = Checkpoint(arch, state, vocab, options, shape).network()
    model.cfg = {**config, **model.cfg, **{key: config[key] for key in ("mean", "std") if key in config}}
    return model


def _cached_repository(name: str, revision: str, cache_dir: str | os.PathLike[str] | None) -> Path:
    """Return the folder of a repository's revision in the cache of ``huggingface_hub``."""
    home = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
    cache = Path(cache_dir or os.environ.get("HF_HUB_CACHE") or home / "hub")
    repository = cache / f"models--{name.replace('/', '--')}"
    try:
        commit = (repository / "refs" / revision).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        commit = revision  # a commit has no file in refs
    folder = repository / "snapshots" / commit
    if not folder.is_dir():
        raise WeightsNotFoundError(
            f"There is no repository {name} of revision {revision} in {cache}, and no such folder. Nothing is "
            "downloaded here: download it with huggingface_hub's command, hf download."
        )
    return folder


class WhitelistHandle:
    """Handle that removes a restriction set by `add_whitelist`: by `remove`, or at the end of a ``with`` statement.

    Args:
        hooks: Handles of the forward hooks to remove, as returned by ``register_forward_hook``.

    Example:
        >>> from mediatensor.ocr.models import crnn_mobilenet_v3_small
        >>> from mediatensor.ocr.models.utils import add_whitelist
        >>> model = crnn_mobilenet_v3_small(pretrained_backbone=False)
        >>> handle = add_whitelist(model, "0123456789")
        >>> handle.remove()
    """

    def __init__(self, hooks: Iterable[RemovableHandle]) -> None:
        self._hooks = tuple(hooks)

    def remove(self) -> None:
        """Remove the restriction from the model. Calling this again has no effect."""
        for hook in self._hooks:
            hook.remove()

    def __enter__(self) -> WhitelistHandle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


@dataclass(frozen=True)
class _Restriction:
    """Forward hook on the last layer of a recogniser that makes it avoid some characters; see `add_whitelist`.

    Each class in ``targets`` gets the score of the class at the same index in ``sources``, if this score is higher. The
    ``forbidden`` classes are never read.
    """

    forbidden: torch.Tensor
    sources: torch.Tensor
    targets: torch.Tensor
    _placed: dict[torch.device, tuple[torch.Tensor, ...]] = field(default_factory=dict, repr=False)

    def _to_device(self, device: torch.device) -> tuple[torch.Tensor, ...]:
        """Return ``forbidden``, ``sources`` and ``targets`` on a device. There is one cached copy per device."""
        if device not in self._placed:
            self._placed[device] = tuple(part.to(device) for part in (self.forbidden, self.sources, self.targets))
        return self._placed[device]

    def __call__(self, module: nn.Module, inputs: Any, scores: torch.Tensor) -> torch.Tensor:
        forbidden, sources, targets = self._to_device(scores.device)
        if len(sources):
            given = scores[..., sources]
            scores = scores.scatter_reduce(-1, targets.expand(given.shape), given, reduce="amax", include_self=True)
        return scores.masked_fill(forbidden, float("-inf"))


def add_whitelist(
    model: nn.Module,
    vocabs: str | Iterable[str],
    *,
    strategy: str = "mask",
    mapping: str | Mapping[str, str] | None = None,
    verbose: bool = False,
) -> WhitelistHandle:
    """Restrict a recogniser to some of the characters of its vocabulary.

    A forward hook on the last layer sets the scores of all other characters to minus infinity. The end-of-word token
    and the CTC blank are always allowed. Networks that decode one character after the other never continue from a
    forbidden character. The restriction affects all threads until it is removed, so set it before threads start.
    Several restrictions can be combined.

    Args:
        model: A recogniser whose ``score_layer()`` returns its last layer and the class index of ``vocab[0]``, as all
            of this package's recognisers do; or a predictor that has such a recogniser as ``reco_predictor.model`` or
            ``model``.
        vocabs: The allowed characters, a string or several strings. Characters that are not in the model's vocabulary
            are ignored.
        strategy: With ``"mask"``, the model returns the allowed character with the highest score. With ``"nearest"``,
            each forbidden character first passes its score to the closest allowed character, so that the model returns
            ``a`` for ``ä``.
        mapping: How ``"nearest"`` finds the closest character. ``"anyascii"`` (or ``None``) compares the ASCII forms of
            characters. If none is equal, the form in lower case is compared, then its first letter. ``"weights"``
            compares the directions of their weights in the last layer. A dict maps forbidden to allowed characters;
            ASCII forms are compared for characters that it lacks.
        verbose: Log how many characters are allowed, forbidden, and passed to another character.

    Returns:
        A `WhitelistHandle` that removes the restriction: call ``remove()``, or use it in a ``with`` statement.

    Raises:
        InvalidArgumentError: ``strategy`` or ``mapping`` is invalid, the model is not a recogniser, or none of the
            allowed characters is in its vocabulary.
        MissingDependencyError: ``mapping`` needs ASCII forms, and anyascii is not installed.

    Example::

        with add_whitelist(model, VOCABS["digits"]):
            model(crops)["preds"]
    """
    _check_strategy(strategy, mapping)
    recognizer = _recognizer_of(model)
    try:
        letters = frozenset("".join(vocabs))
    except TypeError:
        raise InvalidArgumentError(f"vocabs must be a string or several (got {shown(vocabs)}).") from None
    # A class of a recogniser of lines can have several characters.
    vocab: Sequence[str] = getattr(recognizer, "characters", recognizer.vocab)
    allowed = frozenset(filter(letters.issuperset, vocab))
    if not allowed:
        raise InvalidArgumentError(
            f"vocabs has none of the {len(vocab)} characters of {type(recognizer).__name__}; give at least one of them"
        )
    if not hasattr(recognizer, "score_layer"):
        raise InvalidArgumentError(
            f"{type(recognizer).__name__} has no score layer; expected a method "
            "score_layer() that returns the layer and the class of vocab[0]"
        )
    layer, offset = recognizer.score_layer()
    if strategy == "mask":
        closest: dict[str, str] = {}
    elif mapping == "weights":
        closest = _find_closest_weights(vocab, allowed, layer.weight.detach()[offset : offset + len(vocab)])
    else:
        closest = _find_closest_letters(vocab, allowed) | (dict(mapping) if isinstance(mapping, Mapping) else {})
    restriction = _make_restriction(vocab, allowed, closest, layer.out_features, offset)
    if verbose:
        num_forbidden, num_moved = int(restriction.forbidden.sum()), len(restriction.sources)
        logger.info(
            "%s: %d of %d characters are allowed, %d are forbidden, and %d of these are passed to another character",
            *(type(recognizer).__name__, len(vocab) - num_forbidden, len(vocab), num_forbidden, num_moved),
        )
    return WhitelistHandle([layer.register_forward_hook(restriction)])


def _check_strategy(strategy: str, mapping: str | Mapping[str, str] | None) -> None:
    if strategy not in _STRATEGIES:
        raise InvalidArgumentError(f"strategy={strategy!r}; expected one of {_STRATEGIES}")
    if mapping is not None and strategy == "mask":
        raise InvalidArgumentError("mapping is for strategy='nearest' only")
    if not (mapping is None or isinstance(mapping, Mapping) or mapping in _MAPPINGS):
        raise InvalidArgumentError(f"mapping={mapping!r}; expected one of {_MAPPINGS}, a dict or None")


def _recognizer_of(model: nn.Module) -> Any:
    for candidate in (model, getattr(getattr(model, "reco_predictor", model), "model", None)):
        if isinstance(candidate, nn.Module) and isinstance(getattr(candidate, "vocab", None), str):
            return candidate
    raise InvalidArgumentError(
        f"model is a {type(model).__name__} without a recogniser; expected a recognition model or a predictor with one"
    )


def _make_restriction(
    vocab: Sequence[str], allowed: frozenset[str], closest: Mapping[str, str], classes: int, offset: int
) -> _Restriction:
    class_of = {char: offset + index for index, char in enumerate(vocab)}
    moved = [
        (class_of[char], class_of[target])
        for char, target in closest.items()
        if char not in allowed and target in allowed and char in class_of and target in class_of
    ]
    forbidden = torch.zeros(classes, dtype=torch.bool)
    forbidden[[class_of[char] for char in vocab if char not in allowed]] = True
    pairs = torch.tensor(moved, dtype=torch.int64).reshape(-1, 2)
    return _Restriction(forbidden, pairs[:, 0], pairs[:, 1])


def _find_closest_letters(vocab: Sequence[str], allowed: frozenset[str]) -> dict[str, str]:
    """Map each other character to the allowed one of the same ASCII form, its lower case or first letter, if any."""
    by_form: dict[str, str] = {}
    for char in vocab:
        # An ASCII character is preferred to others of its form; otherwise the first allowed one is used.
        if char in allowed and (char.isascii() or to_ascii(char) not in by_form):
            by_form[to_ascii(char)] = char
    closest = {}
    for char in vocab:
        if char in allowed:
            continue
        form = to_ascii(char)
        target = by_form.get(form) or by_form.get(form.lower()) or by_form.get(form[:1])
        if target is not None:
            closest[char] = target
    return closest


def _find_closest_weights(vocab: Sequence[str], allowed: frozenset[str], rows: torch.Tensor) -> dict[str, str]:
    """Map each character that is not allowed to the allowed one with the most similar ``rows`` of weights (cosine)."""
    kept = [index for index, char in enumerate(vocab) if char in allowed]
    dropped = [index for index, char in enumerate(vocab) if char not in allowed]
    directions = nn.functional.normalize(rows.float(), dim=1)
    nearest = (directions[dropped] @ directions[kept].T).argmax(dim=1).tolist()
    return {vocab[index]: vocab[kept[best]] for index, best in zip(dropped, nearest, strict=True)}


def set_device_and_dtype(
    model: Module,
    batches: Sequence[torch.Tensor] | tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]],
    device: str | torch.device,
    dtype: torch.dtype,
) -> tuple[Module, list[torch.Tensor] | list[tuple[torch.Tensor, torch.Tensor]]]:
    """Move a model and its input to one device and one floating-point type.

    Args:
        model: The model. It is moved in place, and only if the device or type of its first parameter differs.
        batches: A list of tensors of any shape; or a tuple of two lists of equal length, the tensors and their masks.
        device: The device.
        dtype: The floating-point type of model and tensors. Masks are converted to bool.

    Returns:
        A pair: the model, and the list of moved tensors. If there are masks, the list has pairs (tensor, mask).

    Raises:
        InvalidArgumentError: The numbers of masks and batches differ.

    >>> from torch import nn
    >>> import torch
    >>> from mediatensor.ocr.models.utils import set_device_and_dtype
    >>> _, batches = set_device_and_dtype(nn.Linear(2, 2), [torch.zeros(1, 2)], "cpu", torch.float64)
    >>> batches[0].dtype
    torch.float64
    """
    first = next(model.parameters(), None)
    if first is None or first.device != torch.device(device) or first.dtype != dtype:
        model = model.to(device=device, dtype=dtype)
    if not isinstance(batches, tuple):
        return model, [batch.to(device=device, dtype=dtype) for batch in batches]
    if len(batches) != 2 or len(batches[0]) != len(batches[1]):
        raise InvalidArgumentError(
            "batches: a tuple must have two lists of equal length, the batches and their masks "
            f"(got {' and '.join(str(len(part)) for part in batches)} items)."
        )
    return model, [
        (batch.to(device=device, dtype=dtype), mask.to(device=device, dtype=torch.bool))
        for batch, mask in zip(*batches, strict=True)
    ]


def export_model_to_onnx(
    model: nn.Module,
    model_name: str | os.PathLike[str],
    dummy_input: torch.Tensor | tuple[torch.Tensor, ...] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: dict[str, dict[int, str]] | None = None,
    **kwargs: Any,
) -> str:
    """Write a model to an ONNX file with torch's exporter. The file appears only when it is complete.

    A copy of the model in evaluation mode is exported. The exported network returns only scores, and has the type and
    device of ``dummy_input``. The model itself does not change, so other threads may use it at the same time.

    Args:
        model: A network, such as a detector, a recogniser, a classifier or the ``model`` of a predictor. It may be
            compiled with ``torch.compile``.
        model_name: Path of the file, without ``.onnx``.
        dummy_input: An example input of the model, or a tuple if the model has several inputs. By default, one image of
            the shape ``input_shape`` in the model's ``cfg``.
        input_names: Names of the inputs in the file. By default ``"input"``, and ``"masks"`` for a second input.
        output_names: Names of the outputs in the file. By default ``"logits"``, and also ``"pred_boxes"`` if there are
            two inputs.
        dynamic_axes: Axes of inputs and outputs whose size may vary: for each name, a dictionary of axes and their
            names, as for `torch.onnx.export`. By default, these are the first axis of each input and output, the height
            and width of pages for the default detector, and the width of lines for the default recogniser.
        **kwargs: Further options of `torch.onnx.export`.

    Returns:
        The path of the file, which ends in ``.onnx``.

    Raises:
        InvalidArgumentError: ``dummy_input`` is None, and the model does not have a ``cfg``.
        MissingDependencyError: The package ``onnx``, which torch's exporter needs, is not installed.
        WriteError: The file cannot be written.

    Example::

        predictor = ocr_predictor(pretrained=True)
        export_model_to_onnx(predictor.det_predictor.model, "detection")
    """
    network = uncompiled_module(model)
    if dummy_input is None:
        if not getattr(network, "cfg", None):
            raise InvalidArgumentError(f"dummy_input: give an input, since {type(network).__name__} has no cfg.")
        dummy_input = torch.zeros(1, *network.cfg["input_shape"])
    inputs = dummy_input if isinstance(dummy_input, tuple) else (dummy_input,)
    in_names = list(input_names or ("input", "masks")[: len(inputs)])
    out_names = list(output_names or ("logits", "pred_boxes")[: len(inputs)])
    axes = dynamic_axes
    if axes is None:
        axes = {name: {0: "batch_size"} for name in (*in_names, *out_names)}
        open_input, open_output = getattr(network, "open_axes", ({}, {}))
        axes[in_names[0]] |= open_input
        axes[out_names[0]] |= open_output
    if importlib.util.find_spec("onnx") is None:
        raise MissingDependencyError("Exporting to ONNX needs the package onnx: pip install onnx.")

    # Other threads may use the model at the same time.
    exported = copy.deepcopy(network).eval()
    if hasattr(exported, "exportable"):
        exported.exportable = True
    if inputs[0].is_floating_point():
        exported.to(inputs[0])
    path = f"{os.fspath(model_name)}.onnx"
    with writing(path) as file:
        torch.onnx.export(
            exported,
            inputs,
            file.name,
            input_names=in_names,
            output_names=out_names,
            dynamic_axes=axes,
            dynamo=False,
            **kwargs,
        )
    return path
