"""Whatever a user calls has an example in its docstring, and examples bring all that they use.

pytest's doctests check that they run and print their documented output.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import inspect
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache

import pytest

from public_api import public_modules, public_paths

# Patterns of public names without an example, and why. Each must be needed.
NEEDS_NONE = {
    "mediatensor.errors.*": "raised, and not called",
    "mediatensor.backends.UndecodablePacketError": "raised, and not called",
    "*.extra_repr": "called by repr()",
    "*.pin_memory": "needs an accelerator, and is called by loaders",
    "mediatensor.backends.DecodeBackend*": "for authors of backends; register_backend has one",
    "mediatensor.backends.Picture*": "for authors of backends",
    "mediatensor.backends.S*": "for authors of backends",
    "mediatensor.datasets.*Recipe*": "for authors of datasets; Recipe has one",
    "mediatensor.datasets.RowKey": "passed by samplers of rows to a dataset",
    "mediatensor.datasets.RowBatches.take_position": "called by loaders",
    "mediatensor.datasets.RowSpec.position": "called by datasets",
    "mediatensor.datasets.TarSamples.*": "called by loaders",
    "mediatensor.datasets.Timing": "read by StallMeter",
    "mediatensor.distributed.RowMapper*": "the base of the readers, which show it",
    "mediatensor.distributed.*Column*": "containers of rows",
    "mediatensor.distributed.*.prepare": "called by the readers",
    "mediatensor.distributed.*.values": "called by the readers",
    "mediatensor.ocr.datasets.[CIMS]*": "need published files; FUNSD shows the error without them",
    "mediatensor.ocr.datasets.*.format_polygons": "called by data sets, when they are made",
    "mediatensor.ocr.datasets.RecognitionDataset.merge_dataset": "one line, which the docs have",
    "mediatensor.decoders.*StreamHeaderMetadata": "in what get_container_metadata gives",
    "mediatensor.decoders.StreamMetadata": "in what get_container_metadata gives",
    "mediatensor.decoders.Chapter": "in what get_container_metadata gives",
    "mediatensor.decoders.FrameIndex.*": "called by decoders, where it has none",
    "mediatensor.decoders.decode_avif": "not every FFmpeg and Pillow writes such files",
    "mediatensor.decoders.decode_heic": "needs another package to write such files",
    "mediatensor.encoders.*Stream*": "what Encoder.add_video and add_audio give, which show it",
    "mediatensor.ocr.io.*Exporter.*": "steps of exporters",
    "mediatensor.ocr.io.*Mixin": "inherited by documents and pages",
    "mediatensor.ocr.io.*.export_as*": "of the mixins, which show them, or the same for pages and documents",
    "mediatensor.ocr.io.*.show": "opens a window",
    "mediatensor.ocr.io.*.save_pdf": "export_as_pdf into a file; the README has it",
    "mediatensor.ocr.io.*.items_in_reading_order": "page_reading_order as a method",
    "mediatensor.ocr.models.[!A-Z]*.*": "parts of networks and of predictors, which functions make",
    "mediatensor.ocr.models.[A-Z]*.*": "steps of networks",
    "mediatensor.ocr.models.[A-Z]*": "networks, which functions make",
    "mediatensor.ocr.models.[!A-Z]*": "networks in their sizes; list_models and one of each kind show them",
    "mediatensor.ocr.structure.Found*": "in what find_structure gives",
    "mediatensor.ocr.structure.PageStructure": "what find_structure gives",
    "mediatensor.ocr.structure.PageContent": "what content_of_picture gives, which shows it",
    "mediatensor.ocr.structure.content_of_drawing": "called by Pages.page_content, which shows it",
    "mediatensor.ocr.structure.join_tables": "called by Document.joined_tables",
    "mediatensor.ocr.training.*Score": "part of the result of evaluate",
    "mediatensor.ocr.training.Latency": "part of the result of evaluate",
    "mediatensor.ocr.training.Worst*": "part of the result of evaluate",
    "mediatensor.ocr.drawing.Drawn*": "results of functions that draw, which show it",
    "mediatensor.transforms.*.make_params": "called by forward",
    "mediatensor.transforms.*.transform": "called by forward",
}


@cache
def public_objects() -> dict[str, object]:
    """Public classes and functions by the path where they are described, and the methods of classes."""
    modules = public_modules()
    paths = public_paths(modules)
    found: dict[str, object] = {}
    for module in modules:
        for value in (getattr(module, name) for name in module.__all__):
            if path := paths.get(id(value)):
                found[path] = value
                found |= dict(methods(path, value)) if inspect.isclass(value) else {}
    return found


def bases_of_ours(owner: type) -> list[type]:
    return [base for base in owner.__mro__ if base.__module__.startswith("mediatensor")]


def methods(path: str, owner: type) -> Iterator[tuple[str, object]]:
    for name in {name for base in bases_of_ours(owner) for name in vars(base)}:
        member = inspect.getattr_static(owner, name)
        # What forward does, calling the object shows.
        is_called = inspect.isroutine(member) and not isinstance(member, property) and name != "forward"
        if is_called and not name.startswith("_"):
            yield f"{path}.{name}", getattr(owner, name)


def examples_of(value: object) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(inspect.getdoc(value) or "")


@cache
def calls_shown(owner: type) -> str:
    """The examples of a class, of its bases, and of their subclasses, which have the same methods."""
    family = set(bases_of_ours(owner))
    family |= {value for value in public_objects().values() if inspect.isclass(value) and family & {*value.__mro__}}
    return "".join(example.source for member in family for example in examples_of(member))


def is_shown(path: str) -> bool:
    value, above = public_objects()[path], path.rpartition(".")[0]
    owner = public_objects().get(above)
    in_the_family = inspect.isclass(owner) and f".{path.rpartition('.')[2]}(" in calls_shown(owner)
    return bool(examples_of(value)) or in_the_family


def test_whatever_users_call_has_an_example() -> None:
    without = sorted(path for path in public_objects() if not is_shown(path))
    assert [path for path in without if not any(fnmatchcase(path, pattern) for pattern in NEEDS_NONE)] == []


def test_no_exception_is_needless() -> None:
    without = [path for path in public_objects() if not is_shown(path)]
    assert [pattern for pattern in NEEDS_NONE if not any(fnmatchcase(path, pattern) for path in without)] == []


def missing_names(source: str) -> set[str]:
    """Names that some code uses and does not make."""
    made, used = set(dir(builtins)), set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else made).add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            made |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            made.add(node.name)
        elif isinstance(node, ast.arg):
            made.add(node.arg)
    return used - made


def test_examples_bring_what_they_use() -> None:
    found = {}
    for path, value in {**public_objects(), **{module.__name__: module for module in public_modules()}}.items():
        # Skipped examples may use code of the reader.
        run = [example.source for example in examples_of(value) if not example.options.get(doctest.SKIP)]
        if names := missing_names("".join(run)):
            found[path] = names
    assert found == {}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import numpy as np\nx = np.zeros(2)\nprint(x)", set()),
        ("x = np.zeros(2)", {"np"}),
        ("for a in range(3):\n    b(a)", {"b"}),
        ("def f(a): return a + c\nf(1)", {"c"}),
    ],
)
def test_a_missing_name_is_seen(source: str, names: set[str]) -> None:
    assert missing_names(source) == names
