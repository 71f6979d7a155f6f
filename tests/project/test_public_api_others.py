"""The names of torchcodec and docTR exist with the same arguments; exceptions are listed."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "records"
OURS = {"torchcodec": "mediatensor", "doctr": "mediatensor.ocr"}
# The exceptions of docs/coming-from, as patterns of their names. Each must be needed.
NOT_HERE = {
    "doctr.utils.data.*": "downloads",
    "doctr.utils.download_from_url": "downloads",
    "doctr.utils.multithreading.*": "a helper of docTR's own",
    "doctr.utils.repr.*": "a helper of docTR's own",
    "doctr.models.*factory*": "model hubs",
    "doctr.models.*to*_hub": "model hubs",
    "doctr.models.DBNet.compute_distance": "a step inside",
    "doctr.models.DBNet.draw_thresh_map": "a step inside",
    "doctr.models.LWDETR.build_target": "a step inside",
    "doctr.models.LWDETR.compute_loss": "a step inside",
    "doctr.models.LWDETR.gen_encoder_output_proposals": "a step inside",
    "doctr.models.MASTER.make_source_and_target_mask": "a step inside",
    "doctr.models.PARSeq.generate_permutations*": "a step inside",
    "doctr.models.TableCenterNet.build_target": "a step inside",
    "doctr.models.TableCenterNet.compute_loss": "a step inside",
    "doctr.models.kie_predictor.KIEPredictor.get_text": "a step inside",
}
DIFFERENT = {
    "doctr.datasets.CharacterGenerator": "its arguments have names",
    "torchcodec.decoders.*VideoDecoder": "num_ffmpeg_threads: the budget of the process",
    "torchcodec.decoders.*Metadata": "made by the library only; more fields",
    "torchcodec.decoders.FrameIndex": "made by the library only; more fields",
    "torchcodec.encoders.*Stream": "made by the library only",
    "doctr.io.*export_as_xml": "names the program that wrote it",
    "doctr.io.*export_page": "names the program that wrote it",
    "doctr.io.*ExportsMixin": "made through pages only",
    "doctr.models.*_predictor": "other models by default",
    "doctr.models.*KIEPredictor": "made by kie_predictor; options by name",
    "doctr.models.*TextNet": "made by the functions of its sizes",
    "doctr.models.*VIPNet": "made by the functions of its sizes",
    "doctr.models.*compute_loss": "constants are not arguments",
    "doctr.models.*.decode": "a step inside",
    "doctr.models.*FAST": "cfg: None is the same as {}",
    "doctr.models.utils.conv_sequence_pt": "activation: created for each layer",
    "doctr.models.utils.load_pretrained_params": "weights must be named",
}


@cache
def names_of(library: str) -> dict[str, ast.arguments | None]:
    """The paths of a record, each with its parameters if it is called."""
    found: dict[str, ast.arguments | None] = {}
    for line in (DATA / f"{library}_api.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        path, bracket, rest = line.partition("(")
        definition = ast.parse(f"def f({rest}: ...").body[0] if bracket else None
        found[path] = definition.args if isinstance(definition, ast.FunctionDef) else None
    return found


def ours(path: str) -> object:
    """Return our object for their name; an error if it is missing."""
    library, _, rest = path.partition(".")
    parts = f"{OURS[library]}.{rest}".split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            fields = getattr(value, "__dataclass_fields__", {})
            value = fields[part] if part in fields else getattr(value, part)
        return value
    raise AttributeError(f"nothing stands for {path}")


def complaints(theirs: ast.arguments, mine: Callable[..., object]) -> list[str]:
    """Return reasons why a call that they accept would fail here, and defaults that differ."""
    parameters = {name: value for name, value in inspect.signature(mine).parameters.items() if name != "self"}
    takes_rest = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    positional = [name for name, parameter in parameters.items() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    in_order = [*theirs.posonlyargs, *theirs.args]
    defaults = [*[None] * (len(in_order) - len(theirs.defaults)), *theirs.defaults, *theirs.kw_defaults]
    found = []
    for place, (argument, default) in enumerate(zip([*in_order, *theirs.kwonlyargs], defaults, strict=True)):
        parameter = parameters.pop(argument.arg, None)
        if parameter is None:
            found += [] if takes_rest else [f"takes no {argument.arg}"]
            continue
        if place < len(in_order) and positional[place : place + 1] != [argument.arg]:
            found.append(f"{argument.arg} is not at place {place}")
        if default is not None:
            found += default_complaint(parameter, ast.unparse(default))
    needed = [name for name, value in parameters.items() if value.default is value.empty and "*" not in str(value)]
    return found + [f"wants {name}, too" for name in needed]


def default_complaint(parameter: inspect.Parameter, theirs: str) -> list[str]:
    if parameter.default is parameter.empty:
        return [f"wants {parameter.name}"]
    # A default that is a tuple here may be a list there.
    mine = list(parameter.default) if isinstance(parameter.default, tuple) and "[" in theirs else parameter.default
    return [] if theirs in ("...", repr(mine)) else [f"{parameter.name} is {mine!r} by default, not {theirs}"]


def is_here(path: str) -> bool:
    try:
        ours(path)
    except AttributeError:
        return False
    return True


def unexplained(found: Iterable[str], explained: dict[str, str], library: str) -> tuple[list[str], list[str]]:
    """What no pattern explains, and the patterns that explain nothing."""
    found = list(found)
    patterns = [pattern for pattern in explained if pattern.startswith(f"{library}.")]
    return (
        [path for path in found if not any(fnmatchcase(path, pattern) for pattern in patterns)],
        [pattern for pattern in patterns if not any(fnmatchcase(path, pattern) for path in found)],
    )


@pytest.mark.parametrize("library", OURS)
def test_their_names_are_here(library: str) -> None:
    missing = [path for path in names_of(library) if not is_here(path)]
    assert unexplained(missing, NOT_HERE, library) == ([], [])


@pytest.mark.parametrize("library", OURS)
def test_their_calls_work_here(library: str) -> None:
    found = {}
    for path, arguments in names_of(library).items():
        if arguments is not None and is_here(path):
            mine = ours(path)
            found[path] = complaints(arguments, mine) if callable(mine) else ["is not called"]
    differing = [path for path, problems in found.items() if problems]
    left, needless = unexplained(differing, DIFFERENT, library)
    assert {path: found[path] for path in left} == {}
    assert needless == []


@pytest.mark.parametrize(
    ("theirs", "problems"),
    [
        ("source, *, size=1", []),
        ("source, size=1", ["size is not at place 1"]),
        ("source, *, size=2", ["size is 1 by default, not 2"]),
        ("*, size=1", ["wants source, too"]),
        ("source=None", ["wants source"]),
        ("source, *, other", ["takes no other"]),
    ],
)
def test_a_difference_is_seen(theirs: str, problems: list[str]) -> None:
    def mine(source: str, *, size: int = 1) -> None: ...

    definition = ast.parse(f"def f({theirs}): ...").body[0]
    assert isinstance(definition, ast.FunctionDef)
    assert complaints(definition.args, mine) == problems
