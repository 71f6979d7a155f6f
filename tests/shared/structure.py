"""The structure of the library, as its imports show it: modules, packages, wings and circles."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
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
    """Return the known modules that a file of a package imports, also inside functions and for type checkers."""
    known, found = set(known), set()
    for node in _walk_statements(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in known}
        elif isinstance(node, ast.ImportFrom):
            base = _source_of(node, package)
            for alias in node.names:
                name = f"{base}.{alias.name}"
                found |= {name} if name in known else {base} & known
    return found


def _walk_statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield a tree and its statements, as `ast.walk` does, but not their expressions, which are ten times as many."""
    todo = [tree]
    while todo:
        node = todo.pop()
        yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            todo += getattr(node, name, [])


def _source_of(node: ast.ImportFrom, package: str) -> str:
    """The dotted name of the module or package that ``from ... import`` names."""
    base = node.module or ""
    if node.level:
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*above, base] if base else above)
    return base


class _Outline(NamedTuple):
    """The parts of a module that are kept: whole trees of all modules would take 190 MB."""

    package: str  # that its relative imports start from
    imports: list[ast.Import | ast.ImportFrom]
    defined: set[str]  # the names of its functions and classes


@cache
def _outlines() -> dict[str, _Outline]:
    outlines = {}
    for name, path in modules().items():
        statements = list(_walk_statements(ast.parse(path.read_text(encoding="utf-8"))))
        outlines[name] = _Outline(
            name if path.name == "__init__.py" else name.rpartition(".")[0],
            [node for node in statements if isinstance(node, ast.Import | ast.ImportFrom)],
            {node.name for node in statements if isinstance(node, ast.FunctionDef | ast.ClassDef)},
        )
    return outlines


@cache
def module_graph() -> Graph:
    """Which modules each module imports."""
    return {
        name: frozenset(imported_modules(ast.Module(outline.imports), outline.package, modules()) - {name})
        for name, outline in _outlines().items()
    }


def borrowed_names() -> list[str]:
    """The names that are imported from a module that imports them itself, except in packages, which gather names."""
    found = []
    for name, outline in _outlines().items():
        for node in outline.imports:
            source = _source_of(node, outline.package) if isinstance(node, ast.ImportFrom) else ""
            if name != outline.package and source in modules() and modules()[source].name != "__init__.py":
                found += [f"{name}: {own} of {source}" for own in sorted(_imports_of(node) & _only_imported_by(source))]
    return found


def _only_imported_by(module: str) -> set[str]:
    outline = _outlines()[module]
    return set().union(*map(_imports_of, outline.imports)) - outline.defined


def _imports_of(node: ast.Import | ast.ImportFrom) -> set[str]:
    return {alias.asname or alias.name for alias in node.names}


def package_of(module: str) -> str:
    """The folder that a module is in.

    Modules next to the packages, such as ``errors``, count separately, and so do packages that contain packages: their
    public interface is above the packages that it gathers, although modules next to it may be below.
    """
    if modules()[module].name == "__init__.py":
        holds_packages = any(modules()[module].parent.glob("*/__init__.py")) or module in _GATHERING
        return f"{module}.__init__" if holds_packages else module
    package = module.rpartition(".")[0]
    return module if package == PACKAGE else package


def folder_graph() -> Graph:
    """Which folders the modules of each folder import from."""
    graph: dict[str, set[str]] = {package_of(module): set() for module in modules()}
    for module, imported in module_graph().items():
        graph[package_of(module)] |= {package_of(other) for other in imported} - {package_of(module)}
    return {folder: frozenset(others) for folder, others in graph.items()}


def circles(graph: Graph) -> list[list[str]]:
    """The groups in which everything imports everything else, by however many steps."""
    import networkx  # which torch needs

    components = networkx.strongly_connected_components(networkx.DiGraph(graph))
    return sorted(sorted(group) for group in components if len(group) > 1)


#: The wings of the library with their packages, the highest first. Imports go down; data and text do not import each
#: other, and packages that need both are above them.
WINGS: Mapping[str, Mapping[str, str]] = {
    "apps": {
        "cli": "the command",
        "serve": "a service and its page",
        "compat": "calls of other libraries",
    },
    "data and text": {
        "ocr.training": "training, scores",
        "_text_data": "datasets of documents and words",
    },
    "data": {
        "datasets": "rows, batches, checks",
        "distributed": "columns in and out",
    },
    "text": {
        "ocr.video": "text in video, subtitles",
        "ocr.models": "networks, predictors",
        "ocr.io": "documents in and out",
        "ocr.structure": "tables, regions, fields",
        "ocr._reading_order": "the order of boxes on a page",
        "ocr.datasets": "data sets, vocabularies",
        "ocr.drawing": "pages, drawn with their truth",
        "ocr.transforms": "pictures with their truth",
        "ocr.utils": "geometry, scores, drawing",
    },
    "media": {
        "samplers": "which clips",
        "decoders": "the public classes",
        "encoders": "tensors to files",
        "backends": "packets to RGB: cpu, cuda",
        "transforms": "crops, sizes, spectra",
        "isolate": "calls in other processes",
        "frames": "what decoding returns",
        "errors": "one type for each condition",
        "_engine": "from bytes to frames and samples",
    },
}

#: For each wing, the wings that it may import from.
_BELOW = {
    "apps": {"data and text", "data", "text", "media"},
    "data and text": {"data", "text", "media"},
    "data": {"media"},
    "text": {"media"},
    "media": set(),
}
#: These packages lazily re-export names that are defined above them.
_GATHERING = {f"{PACKAGE}.datasets", f"{PACKAGE}.distributed"}


def wing_of(module: str) -> str:
    """The wing that a module is in."""
    if module in _GATHERING:
        return "data and text"
    name = module.removeprefix(f"{PACKAGE}.")
    for wing, packages in WINGS.items():
        if any(name == package or name.startswith(f"{package}.") for package in packages):
            return wing
    top = name.partition(".")[0]
    return {"__main__": "apps", "ocr": "text"}.get(top, "media")


def arrows_up() -> list[str]:
    """The imports that lead from a wing into one that is not below it."""
    return sorted(
        f"{module} ({wing_of(module)}) imports {other} ({wing_of(other)})"
        for module, imported in module_graph().items()
        for other in imported
        if wing_of(other) != wing_of(module) and wing_of(other) not in _BELOW[wing_of(module)]
    )
