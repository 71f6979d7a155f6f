"""Checkpoints: a trained network in one file, with its architecture, its characters, and what it was trained on."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...._engine.common.checks import shown
from ...._engine.sources.atomic_files import write_file
from ....errors import InvalidArgumentError, WeightsError
from .registry import list_models, model_card, network_factory
from .transfers import plain
from .weights import checksum_in_name, compare_checksum, given_file, read_safely

__all__ = ["Checkpoint", "chosen_network", "is_checkpoint", "load_checkpoint", "read_checkpoint", "save_checkpoint"]

_FORMAT = "mediatensor.ocr.checkpoint"
_VERSION = 1
_SUFFIXES = (".pt", ".pth")
# Predictors make pictures of this size: four times the largest of the architectures, 1024.
_MAX_INPUT_SIZE = 4096


@dataclass(frozen=True)
class Checkpoint:
    """A trained network, as a file holds it.

    Attributes:
        arch: The architecture, a name of :func:`~mediatensor.ocr.models.list_models`.
        state_dict: The parameters by name.
        characters: What the classes of a recogniser stand for, in their order; empty for other networks.
        options: Further arguments of the function that makes the network, such as ``class_names``.
        input_shape: Channels, height and width that predictors bring pictures to; empty for those of the architecture.
        card: Plain facts: the data, the scores, the settings of the training.
    """

    arch: str
    state_dict: Mapping[str, Tensor]
    characters: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    input_shape: Sequence[int] = ()
    card: Mapping[str, Any] = field(default_factory=dict)

    def network(self) -> Any:
        """The network, in evaluation mode.

        Raises:
            WeightsError: if there is no such architecture, or the parameters do not fit it.
        """
        if self.arch not in list_models():
            raise WeightsError(
                f"The checkpoint is of the architecture {shown(self.arch)}; there are {', '.join(list_models())}."
            )
        options = dict(self.options)
        if self.characters:
            options["vocab"] = _vocab(self.characters)
        factory = network_factory(self.arch)
        try:
            # Options can ask for any size: without memory for its parameters, the network shows whether they fit.
            with torch.device("meta"):
                shapes = {
                    name: value.shape for name, value in factory(pretrained=False, **options).state_dict().items()
                }
            if shapes != {name: value.shape for name, value in self.state_dict.items()}:
                raise ValueError(f"its parameters have other names or shapes than with options {shown(self.options)}")
            model: Any = factory(pretrained=False, **options)
            model.load_state_dict(dict(self.state_dict))
        except (RuntimeError, TypeError, ValueError) as error:
            raise WeightsError(f"The checkpoint does not fit {self.arch}: {error}") from error
        if self.input_shape:
            model.cfg = {**model.cfg, "input_shape": tuple(self.input_shape)}
        model.eval()
        return model


def _vocab(characters: Sequence[str]) -> str | list[str]:
    """Characters as factories take them: docTR's networks want a string, and a class may stand for several signs."""
    return "".join(characters) if all(len(character) == 1 for character in characters) else list(characters)


def is_checkpoint(name: str | os.PathLike[str]) -> bool:
    """Whether a name of an architecture is meant as the path of a checkpoint."""
    return isinstance(name, os.PathLike) or (isinstance(name, str) and name.lower().endswith(_SUFFIXES))


def save_checkpoint(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint, whole or not at all.

    Raises:
        WriteError: if it cannot be written.
    """
    state = {name: value.detach().cpu().contiguous() for name, value in checkpoint.state_dict.items()}
    stored = {
        "format": _FORMAT,
        "version": _VERSION,
        "sha256": _checksum(state),
        "arch": checkpoint.arch,
        "state_dict": state,
        "characters": list(checkpoint.characters),
        "options": dict(checkpoint.options),
        "input_shape": list(checkpoint.input_shape),
        "card": dict(checkpoint.card),
    }
    buffer = io.BytesIO()
    torch.save(stored, buffer)
    write_file(path, buffer.getvalue())


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint. Tensors and plain values alone are read, and no code is run.

    Raises:
        WeightsNotFoundError: if there is no such file.
        WeightsError: if it is damaged, or no checkpoint.
    """
    return _as_checkpoint(*_stored(path))


def _stored(path: str | os.PathLike[str]) -> tuple[Path, Any]:
    """A file, and what it holds."""
    file = given_file(path)
    compare_checksum(file, checksum_in_name(file))
    return file, read_safely(file)


def _as_checkpoint(file: Path, stored: Any) -> Checkpoint:
    if not isinstance(stored, dict) or stored.get("format") != _FORMAT:
        raise WeightsError(
            f"{file} is no checkpoint of mediatensor, which names its architecture. A bare state dict is loaded into a "
            "network of the right architecture: model.from_pretrained(path)."
        )
    if stored.get("version") != _VERSION:
        raise WeightsError(
            f"{file} is a checkpoint of version {shown(stored.get('version'))}; this mediatensor reads {_VERSION}."
        )
    types = {"arch": str, "state_dict": dict, "characters": list, "options": dict, "input_shape": list, "card": dict}
    if any(not isinstance(stored.get(name), type_) for name, type_ in types.items()) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in stored["state_dict"].items()
    ):
        raise WeightsError(f"{file} is damaged: it lacks parts of a checkpoint.")
    shape = stored["input_shape"]
    if shape and not (len(shape) == 3 and all(type(size) is int and 0 < size <= _MAX_INPUT_SIZE for size in shape)):
        raise WeightsError(
            f"{file} asks for pictures of shape {shown(shape)}: channels, height and width must be from 1 to "
            f"{_MAX_INPUT_SIZE}."
        )
    if _checksum(stored["state_dict"]) != stored.get("sha256"):
        raise WeightsError(f"{file} is damaged: its parameters have another checksum.")
    return Checkpoint(**{name: stored[name] for name in types})


def load_checkpoint(path: str | os.PathLike[str], task: str | None = None, archs: Sequence[str] = ()) -> Any:
    """The network of a checkpoint file, in evaluation mode.

    Args:
        path: A file that training wrote.
        task: What it must be for: ``"recognition"``, ``"detection"``, ``"classification"``, ``"layout"`` or
            ``"table_structure"``; ``None`` for any.
        archs: Architectures that a bare state dict, as docTR publishes them, may be of, as they are made by default.

    Returns:
        The network: a module, as the factory of its architecture makes it.

    Raises:
        WeightsNotFoundError: if there is no such file.
        WeightsError: if it is damaged, no checkpoint, of an architecture that is not known, or for another task.

    Example:
        >>> from mediatensor.ocr.models import load_checkpoint, ocr_predictor
        >>> reader = load_checkpoint("fraktur.pt")  # doctest: +SKIP
        >>> ocr_predictor(reco_arch=reader, pretrained=True)  # doctest: +SKIP
    """
    file, stored = _stored(path)
    if archs and isinstance(stored, dict) and "format" not in stored:
        return _bare_network(file, stored, archs)
    checkpoint = _as_checkpoint(file, stored)
    model = checkpoint.network()
    if task is not None and (own := model_card(checkpoint.arch).task) != task:
        raise WeightsError(f"{os.fspath(path)} is a network of {own}, {checkpoint.arch}; one of {task} is needed.")
    return model


def chosen_network(
    arch: str | os.PathLike[str] | nn.Module, pretrained: bool, archs: Sequence[str], kind: type[nn.Module]
) -> Any:
    """The network that a name, a file or the network itself stands for.

    Args:
        arch: A name of ``archs``; the path of a checkpoint, also of a bare state dict; or a network, which may be
            compiled.
        pretrained: Load the weights of a name.
        archs: The architectures of one task.
        kind: What their networks are.

    Raises:
        InvalidArgumentError: if there is no such architecture, or the network is of another kind.
        WeightsNotFoundError, WeightsError: as `load_checkpoint`.
    """
    if isinstance(arch, nn.Module):
        if not isinstance(plain(arch), kind):
            raise InvalidArgumentError(f"unknown architecture: {type(arch)} is no {kind.__name__}.")
        return arch
    if is_checkpoint(arch):
        return load_checkpoint(arch, model_card(archs[0]).task, archs)
    if arch not in archs:
        raise InvalidArgumentError(f"unknown architecture {arch!r}: choose one of {', '.join(archs)}, or a .pt file.")
    return network_factory(os.fspath(arch))(pretrained=pretrained)


def _bare_network(file: Path, stored: dict[Any, Any], archs: Sequence[str]) -> Any:
    """The network that a state dict fits, of those that are named."""
    shapes = {name: getattr(value, "shape", None) for name, value in stored.items()}
    for arch in archs:
        model = network_factory(arch)(pretrained=False)
        if shapes == {name: value.shape for name, value in model.state_dict().items()}:
            model.load_state_dict(stored)
            return model.eval()
    raise WeightsError(
        f"{file} fits none of {', '.join(archs)} with their own classes. Make the network, and load the file into it: "
        "model.from_pretrained(path)."
    )


def _checksum(state: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(state):
        value = state[name].detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data if value.numel() else b"")
    return digest.hexdigest()
