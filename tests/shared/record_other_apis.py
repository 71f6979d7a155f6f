"""Write which names and parameters torchcodec or docTR have: ``python tests/shared/record_other_apis.py torchcodec``.

It needs that library (for docTR with its extra ``viz``), and nothing of mediatensor: run it where that is installed.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

DATA = Path(__file__).parents[1] / "records"
# Duplicates of other modules.
LEFT_OUT = re.compile(
    r"\b_|\.(pytorch|base|layers|core|modules|mobile)\b|\.lib|^doctr\.(cli|contrib|datasets\.|version)"
)


def main(library: str) -> None:
    package = importlib.import_module(library)
    modules = [package, *(importlib.import_module(name) for name in module_names(package))]
    modules.sort(key=lambda module: module.__name__.count("."))
    has_members: set[type] = set()
    lines = sorted({line for module in modules for line in lines_of(module, has_members)})
    version = importlib.metadata.version({"doctr": "python-doctr"}.get(library, library))
    path = DATA / f"{library}_api.txt"
    path.write_text("\n".join([f"# {library} {version}", *lines]) + "\n", encoding="utf-8")
    print(f"wrote {path}, {len(lines)} names")


def module_names(package: ModuleType) -> Iterator[str]:
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not LEFT_OUT.search(info.name):
            yield info.name


def lines_of(module: ModuleType, has_members: set[type]) -> Iterator[str]:
    """Yield a line for each name, and, at its first place, for each member of a class."""
    library = module.__name__.partition(".")[0]
    for name in getattr(module, "__all__", dir(module)):
        value = getattr(module, name)
        is_theirs = getattr(value, "__module__", "").startswith(library)
        if name.startswith("_") or not is_theirs or not (inspect.isclass(value) or inspect.isroutine(value)):
            continue
        path = f"{module.__name__}.{name}"
        yield f"{path}{parameters(value)}"
        if inspect.isclass(value) and value not in has_members:
            has_members.add(value)
            yield from members(path, value)


def members(path: str, owner: type) -> Iterator[str]:
    library = owner.__module__.partition(".")[0]
    found = dict(getattr(owner, "__dataclass_fields__", {}))
    for base in reversed(owner.__mro__):
        if base.__module__.startswith(library):
            found |= {name: member for name, member in vars(base).items() if is_api(member)}
    for name in found:
        if not name.startswith("_"):
            is_called = callable(getattr(owner, name, None))
            yield f"{path}.{name}{parameters(getattr(owner, name), is_method=True) if is_called else ''}"


def is_api(member: object) -> bool:
    return inspect.isroutine(member) or isinstance(member, property)


def parameters(value: object, *, is_method: bool = False) -> str:
    """Names, kinds and defaults, as a ``def`` would have them; what Python cannot spell is ``...``."""
    found = inspect.signature(value)
    kept = [
        parameter.replace(annotation=parameter.empty, default=spelled(parameter.default))
        for parameter in found.parameters.values()
        if not (is_method and parameter.name == "self")
    ]
    return str(found.replace(parameters=kept, return_annotation=found.empty))


class _Spelled:
    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def spelled(default: object) -> object:
    if default is inspect.Parameter.empty:
        return default
    text = repr(default)
    return _Spelled("..." if "<" in text or len(text) > 100 else text)


if __name__ == "__main__":
    main(*sys.argv[1:])
