"""The public API as text: every public module, name, signature, field and base class, one a line."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import importlib
import inspect
import pkgutil
import re
import types
from collections.abc import Callable, Iterable, Iterator, Sized
from functools import cached_property
from pathlib import Path
from typing import Any, ForwardRef

import mediatensor
from mediatensor.cli import build_parser

RECORD = Path(__file__).parents[1] / "records" / "public_api.txt"
INDENT = "    "
# Abilities of an object by syntax, which the names of its methods do not show.
SYNTAX = (
    "__add__",
    "__call__",
    "__contains__",
    "__enter__",
    "__exit__",
    "__getitem__",
    "__iter__",
    "__len__",
    "__next__",
    "__reversed__",
)
# Longer values are data: their type and length stand for them.
LONGEST_VALUE = 100


def describe_api() -> str:
    """The whole description: modules in the order of their names, then the command."""
    modules = sorted(public_modules(), key=lambda module: module.__name__)
    public = public_paths(modules)
    sections = ["\n".join(describe_module(module, public)) for module in modules]
    return "\n\n".join([*sections, "\n".join(describe_command())]) + "\n"


def public_paths(modules: Iterable[types.ModuleType]) -> dict[int, str]:
    """Where each class and function is described, by identity: under its own name, and where the path is shortest."""
    paths: dict[int, list[tuple[bool, int, str]]] = {}
    for module in modules:
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isroutine(value):
                rank = (value.__name__ != name, module.__name__.count("."), f"{module.__name__}.{name}")
                paths.setdefault(id(value), []).append(rank)
    return {identity: min(ranks)[-1] for identity, ranks in paths.items()}


def public_modules() -> list[types.ModuleType]:
    """The package and every module in it whose path has no part that starts with an underscore."""
    found = pkgutil.walk_packages(mediatensor.__path__, "mediatensor.")
    names = [info.name for info in found if not any(part.startswith("_") for part in info.name.split("."))]
    return [mediatensor, *map(importlib.import_module, names)]


def describe_module(module: types.ModuleType, public: dict[int, str]) -> Iterator[str]:
    yield f"module {module.__name__}"
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if name in ("__version__", "ffmpeg_major_version"):  # differ between releases and installations
            yield f"{INDENT}{name}"
        elif inspect.ismodule(value):
            yield f"{INDENT}module {name}"
        elif public.get(id(value), path := f"{module.__name__}.{name}") != path:
            yield f"{INDENT}{name} is {public[id(value)]}"
        elif id(value) in public:
            yield from indented(describe_object(name, value, public))
        else:
            yield f"{INDENT}{name} = {describe_value(value)}"


def indented(texts: Iterable[str]) -> Iterator[str]:
    yield from (INDENT + line for text in texts for line in text.split("\n"))


def describe_object(name: str, value: Any, public: dict[int, str]) -> Iterator[str]:
    if not inspect.isclass(value):
        yield f"def {name}{signature(value)}"
        return
    kind = "class"
    if dataclasses.is_dataclass(value):
        kind = "frozen dataclass" if value.__dataclass_params__.frozen else "dataclass"
    bases = ", ".join(dict.fromkeys(base_names(value, public)))
    yield f"{kind} {name}({bases})" if bases else f"{kind} {name}"
    if has_own_constructor(value):
        yield from indented([f"__init__{signature(value)}"])
    yield from indented(describe_members(value))


def has_own_constructor(owner: type) -> bool:
    """Whether a class of the library has a constructor other than by fields."""
    first = next(base for base in owner.__mro__ if "__init__" in vars(base))
    is_of_fields = dataclasses.is_dataclass(first) and first.__dataclass_params__.init
    is_protocol = getattr(owner, "_is_protocol", False)
    return first.__module__.startswith("mediatensor") and not is_of_fields and not is_protocol


def base_names(owner: type, public: dict[int, str]) -> Iterator[str]:
    """Yield the public bases; private bases are replaced by their own bases."""
    for base in owner.__bases__:
        package = base.__module__.partition(".")[0]
        if id(base) in public:
            yield public[id(base)]
        elif package == "mediatensor":
            yield from base_names(base, public)
        elif base is not object:
            # Where torch keeps its classes is not ours to freeze.
            yield base.__name__ if package == "builtins" else f"{package}.{base.__name__}"


def describe_members(owner: type) -> Iterator[str]:
    """Members and fields, then the members that this class and our bases define, by name."""
    fields = dict(fields_of(owner))
    yield from (f"{name}{text}" for name, text in fields.items() if not name.startswith("_"))
    members: dict[str, object] = {}
    for base in reversed(owner.__mro__):
        if base.__module__.startswith("mediatensor"):
            members |= vars(base)
    for name, member in sorted(members.items()):
        if name not in fields and (name in SYNTAX or not name.startswith("_")):
            yield describe_member(name, member)


def fields_of(owner: type) -> Iterator[tuple[str, str]]:
    """Yield the fields of instances, or the members of an enumeration."""
    if issubclass(owner, enum.Enum):
        yield from ((name, f" = {member.value!r}") for name, member in owner.__members__.items())
    elif dataclasses.is_dataclass(owner):
        yield from ((field.name, field_text(field)) for field in dataclasses.fields(owner))
    elif issubclass(owner, tuple) and hasattr(owner, "_fields"):
        yield from ((name, f": {as_written(owner.__annotations__[name])}") for name in owner._fields)


def field_text(field: dataclasses.Field[object]) -> str:
    text = f": {field.type}"
    if field.default is not dataclasses.MISSING:
        text += f" = {describe_value(field.default)}"
    elif field.default_factory is not dataclasses.MISSING:
        text += f" = {describe_value(field.default_factory)}()"
    return text + "  (not an argument)" * (not field.init) + "  (by keyword)" * field.kw_only


def describe_member(name: str, member: object) -> str:
    if isinstance(member, property):
        return f"property {name}: {as_written(inspect.signature(member.fget).return_annotation)}"
    if isinstance(member, cached_property):
        return f"property {name}: {as_written(inspect.signature(member.func).return_annotation)}"
    if isinstance(member, staticmethod | classmethod):
        return f"{type(member).__name__} {name}{signature(member.__func__)}"
    if inspect.isroutine(member):
        return f"def {name}{signature(member)}"
    return f"{name} = {describe_value(member)}"


def signature(value: Callable[..., object]) -> str:
    """Return parameters with annotations and defaults, and the result type, as in the source."""
    found = inspect.signature(value)
    texts: list[str] = []
    previous = None
    for parameter in found.parameters.values():
        if previous is inspect.Parameter.POSITIONAL_ONLY and parameter.kind is not previous:
            texts.append("/")
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and previous not in STARS:
            texts.append("*")
        previous = parameter.kind
        texts.append(parameter_text(parameter))
    if previous is inspect.Parameter.POSITIONAL_ONLY:
        texts.append("/")
    returns = found.return_annotation
    returns_nothing = inspect.isclass(value) or returns in (found.empty, None, "None")
    # A parameter a line, where they are many: a diff then shows the one that differs.
    one_line = ", ".join(texts)
    listed = (
        one_line if len(one_line) <= LONGEST_VALUE else "\n" + "\n".join(f"{INDENT}{text}," for text in texts) + "\n"
    )
    return f"({listed})" + ("" if returns_nothing else f" -> {as_written(returns)}")


STARS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.KEYWORD_ONLY)


def parameter_text(parameter: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = stars + parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {as_written(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        text += f" = {describe_value(parameter.default)}"
    return text


def as_written(annotation: object) -> str:
    if isinstance(annotation, ForwardRef):  # of a named tuple
        return annotation.__forward_arg__
    return annotation if isinstance(annotation, str) else describe_value(annotation)


def describe_value(value: object) -> str:
    if inspect.isroutine(value) or inspect.isclass(value):
        return "..." if "<lambda>" in value.__qualname__ else value.__qualname__
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(str(value) if isinstance(value, Path) else value))
    if len(text) <= LONGEST_VALUE and "\n" not in text:
        return text
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, Sized) else type(value).__name__


def describe_command() -> Iterator[str]:
    """Yield the subcommands of ``mediatensor`` with their arguments."""
    for name, parser in sorted(subcommands(build_parser()).items()):
        yield f"command mediatensor {name}"
        yield from indented(argument_text(action) for action in parser._actions if action.dest != "help")


def argument_text(action: argparse.Action) -> str:
    words = [", ".join(action.option_strings)] if action.option_strings else []
    if action.nargs != 0:
        words.append(str(action.metavar or action.dest))
    if action.nargs:
        words.append(f"({action.nargs})")
    if action.choices:
        words.append(f"of {', '.join(map(str, action.choices))}")
    if action.default not in (None, False):
        words.append(f"= {describe_value(action.default)}")
    return " ".join(words)


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (found,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(found.choices)
