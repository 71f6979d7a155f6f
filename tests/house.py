"""The house as its imports show it: modules, rooms (folders), circles, and which doors are used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"
PACKAGE = "mediatensor"

Graph = Mapping[str, frozenset[str]]


@cache
def modules() -> dict[str, Path]:
    """Every module of the library by its dotted name."""
    return {module_name(path): path for path in sorted((SOURCES / PACKAGE).rglob("*.py"))}


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(tree: ast.AST, package: str, known: Iterable[str]) -> set[str]:
    """The modules of ours that a file imports, wherever it does so: inside functions and for type checkers, too.

    Args:
        tree: The parsed file.
        package: The package that its relative imports start from.
        known: Names of all modules.
    """
    known, found = set(known), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in known}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                name = f"{base}.{alias.name}"
                found |= {name} if name in known else {base} & known
    return found


@cache
def module_graph() -> Graph:
    """Which modules each module imports."""
    graph = {}
    for name, path in modules().items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        imported = imported_modules(ast.parse(path.read_text(encoding="utf-8")), package, modules())
        graph[name] = frozenset(imported - {name})
    return graph


def room_of(module: str) -> str:
    """The folder that a module is in.

    Modules beside the rooms, such as ``errors``, stand for themselves, and so do the faces of packages that hold other
    packages: they stand above what they gather, although the modules beside them may be below it.
    """
    if modules()[module].name == "__init__.py":
        holds_rooms = any(path.name == "__init__.py" for path in modules()[module].parent.glob("*/__init__.py"))
        return f"{module}.__init__" if holds_rooms else module
    package = module.rpartition(".")[0]
    return module if package == PACKAGE else package


def room_graph() -> Graph:
    """Which rooms each room imports from."""
    graph: dict[str, set[str]] = {room_of(module): set() for module in modules()}
    for module, imported in module_graph().items():
        graph[room_of(module)] |= {room_of(other) for other in imported} - {room_of(module)}
    return {room: frozenset(others) for room, others in graph.items()}


def circles(graph: Graph) -> list[list[str]]:
    """The groups in which everything imports everything else, by however many steps: Tarjan's components."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in graph[node]:
            if other not in number:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], number[other])
        if lowest[node] == number[node]:
            group = [stack.pop()]
            while group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for node in graph:
        if node not in number:
            visit(node)
    return sorted(found)


def is_behind_a_face(module: str, other: str) -> bool:
    """Whether a module imports another that only the room of that one should know.

    A room's face is its package. The modules of ``_common``, and those beside the rooms, are faces themselves. A room
    within a room knows what is beside it.
    """
    room = room_of(other)
    if room == room_of(module).rpartition(".")[0] and other.rpartition(".")[0] == room:
        return False
    is_own = room == room_of(module) or room == module  # a package knows the modules that are directly in it
    if is_own or modules()[other].name == "__init__.py" or room in (other, f"{PACKAGE}._common"):
        return False
    if offers(*other.rpartition(".")[::2]):
        return False
    return _is_private(other)


def offers(package: str, name: str) -> bool:
    """Whether a face has a name, which may be a whole module, in its ``__all__``."""
    names = modules()[package].read_text(encoding="utf-8").partition("__all__ = [")[2].partition("]")[0]
    return f'"{name}"' in names


def _is_private(module: str) -> bool:
    package, _, name = module.rpartition(".")
    return name.startswith("_") or package.rpartition(".")[2].startswith("_")


def names_behind_faces(text: str) -> list[str]:
    """What a test file takes from behind faces: modules that it imports, and such as it names in strings."""
    known = modules()
    named = set(re.findall(rf"\b{PACKAGE}(?:\.\w+)+", text))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module in known:
            named |= {f"{node.module}.{alias.name}" for alias in node.names if not offers(node.module, alias.name)}
    behind = []
    for name in named:
        while name and name not in known:
            name = name.rpartition(".")[0]
        if name and known[name].name != "__init__.py" and room_of(name) not in (name, f"{PACKAGE}._common"):
            behind += [name] if _is_private(name) else []
    return sorted(set(behind))


#: The rooms of the picture in docs/architecture.md, by their path, and what each is for.
ROOMS = {
    "cli": "the command",
    "serve": "a service and its page",
    "ocr.training": "training, scores",
    "distributed": "columns in and out",
    "datasets": "rows, samples, batches",
    "samplers": "which clips",
    "ocr.video": "text in video, subtitles",
    "ocr.models": "networks, predictors",
    "ocr.io": "documents in and out",
    "ocr.models.reading_order": "what is read first",
    "ocr.structure": "tables, regions, fields",
    "ocr.utils": "geometry, scores, drawing",
    "ocr.datasets": "data sets, vocabularies",
    "ocr.transforms": "pictures with their truth",
    "ocr.drawing": "pages, drawn with their truth",
    "compat": "calls of other libraries",
    "isolate": "calls in other processes",
    "encoders": "tensors to files",
    "decoders": "the public classes",
    "_video": "index to batch of frames",
    "_audio": "ranges to samples",
    "_images": "bytes to pixels",
    "_index": "which frames exist",
    "_containers": "bytes to tables",
    "_bitstreams": "what packets say",
    "backends": "packets to RGB: cpu, cuda",
    "transforms": "crops, sizes, spectra",
    "_pyav": "all that touches PyAV",
    "_sources": "where bytes come from",
    "frames": "what decoding returns",
    "_media_info": "what is in a file",
    "_metadata": "what a stream is",
    "_common": "checks, limits, threads, locks",
    "errors": "one type a condition",
}


def drawn_room(module: str) -> str | None:
    """The room of the picture that a module is in: the longest path that fits; ``None`` for the packages above them."""
    name = module.removeprefix(f"{PACKAGE}.")
    fits = [room for room in ROOMS if name == room or name.startswith(f"{room}.")]
    return max(fits, key=len, default=None)


def floors() -> list[list[str]]:
    """The rooms of the picture, lowest floor first: every room imports from floors below its own only.

    Raises:
        ValueError: Rooms import from each other in a circle, so that none can be the lower one.
    """
    graph: dict[str, set[str]] = {room: set() for room in ROOMS}
    for module, imported in module_graph().items():
        room = drawn_room(module)
        if room is not None:
            graph[room] |= {other for one in imported if (other := drawn_room(one)) is not None and other != room}
    rows: list[list[str]] = []
    placed: set[str] = set()
    while len(placed) < len(graph):
        row = [room for room in ROOMS if room not in placed and graph[room] <= placed]
        if not row:
            groups = circles({room: frozenset(others) for room, others in graph.items()})
            raise ValueError(f"these rooms import from each other in a circle: {groups}")
        rows.append(row)
        placed |= set(row)
    return rows
