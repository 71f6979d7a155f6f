"""The pages of the reference: which public names there are, where each is documented, and links to them.

Names are read from the source; nothing is imported.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
# Public modules with separate pages; other modules are on the page of the nearest one above.
PAGES = (
    "mediatensor",
    "mediatensor.decoders",
    "mediatensor.samplers",
    "mediatensor.transforms",
    "mediatensor.encoders",
    "mediatensor.datasets",
    "mediatensor.distributed",
    "mediatensor.ocr",
    "mediatensor.ocr.io",
    "mediatensor.ocr.models",
    "mediatensor.ocr.models.detection",
    "mediatensor.ocr.models.recognition",
    "mediatensor.ocr.models.classification",
    "mediatensor.ocr.training",
    "mediatensor.ocr.video",
    "mediatensor.ocr.utils",
    "mediatensor.ocr.datasets",
    "mediatensor.ocr.transforms",
    "mediatensor.ocr.drawing",
    "mediatensor.backends",
    "mediatensor.compat.decord",
    "mediatensor.compat.torchvision_io",
    "mediatensor.compat.transformers",
    "mediatensor.compat.vllm",
    "mediatensor.isolate",
    "mediatensor.serve",
    "mediatensor.errors",
)
CODE_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_NAME_IN_TEXT = re.compile(r"(?<![\[`\w])`([A-Za-z_][\w.]*)`(?![\]`])")
_NOT_TEXT = re.compile(rf"({CODE_FENCE.pattern}|^ *(?:#|>>>|\.\.\.)[^\n]*$)", re.MULTILINE | re.DOTALL)
# As in Sphinx: :class:`~package.module.Name` shows "Name".
_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`(~?)([\w.]+)`")


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse(file_of(module).read_text(encoding="utf-8"))


def file_of(module: str) -> Path:
    path = SOURCE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def public_modules() -> dict[str, list[str]]:
    """The names in ``__all__`` of every module whose path has no part that starts with an underscore."""
    found = {}
    for path in sorted((SOURCE / "mediatensor").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if not any(part.startswith("_") for part in module.split(".")):
            found[module] = exported_names(module)
    return found


@cache
def exported_names(module: str) -> list[str]:
    for node in parsed(module).body:
        if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == "__all__" for to in node.targets):
            return list(ast.literal_eval(node.value))
    return []


@cache
def imports_from(module: str) -> list[ast.ImportFrom]:
    """The imports of names in a module, at any depth: some are only for type checkers, and the names loaded on use."""
    return [node for node in ast.walk(parsed(module)) if isinstance(node, ast.ImportFrom)]


def defining_module(module: str, name: str) -> tuple[str, str]:
    """The module in which a name is made, and its name there, found by following imports."""
    package = module if file_of(module).name == "__init__.py" else module.rpartition(".")[0]
    for node in imports_from(module):
        for alias in node.names:
            if (alias.asname or alias.name) == name:
                above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
                origin = ".".join([*above, *([node.module] if node.module else [])])
                return defining_module(origin, alias.name) if origin.startswith("mediatensor.") else (module, name)
    return module, name


@cache
def reference_plan() -> dict[str, dict[str, str]]:
    """For each public module, its names and the full name by which the reference has them: by the shortest path."""
    modules = public_modules()
    documented: dict[tuple[str, str], str] = {}
    plan: dict[str, dict[str, str]] = {}
    for module in sorted(modules, key=lambda name: (name.count("."), name)):
        plan[module] = {
            name: documented.setdefault(defining_module(module, name), f"{module}.{name}")
            for name in modules[module]
            if not name.startswith("__") and f"{module}.{name}" not in modules
        }
    return plan


def page_of(module: str) -> str:
    """The module on whose page a module is."""
    return max((page for page in PAGES if f"{module}.".startswith(f"{page}.")), key=len)


def reference_page(page: str) -> str:
    """The Markdown of a page: its own module, then modules below it with their own or re-exported names."""
    plan = reference_plan()
    modules = sorted((module for module in plan if page_of(module) == page), key=lambda name: (name != page, name))
    # Who searches finds the pages of tasks first.
    parts = [f"---\ntitle: {page}\nsearch:\n  boost: 0.3\n---\n"]
    for module in modules:
        own = [name for name, full in plan[module].items() if full == f"{module}.{name}"]
        elsewhere = [full for name, full in plan[module].items() if full != f"{module}.{name}"]
        level = 1 if module == page else 2
        members = "\n".join(f"        - {name}" for name in own)
        parts.append(
            f"::: {module}\n    options:\n      show_root_heading: true\n      show_root_full_path: true\n"
            f"      heading_level: {level}\n      members:" + (f"\n{members}\n" if own else " false\n")
        )
        if elsewhere:
            parts.append("Also here: " + ", ".join(f"[`{full.split('.')[-1]}`][{full}]" for full in elsewhere) + ".\n")
    return "\n".join(parts)


@cache
def linked_names() -> dict[str, str]:
    """What running text may call a public name, and its full name; a short name must belong to one thing only."""
    full_names = {full for names in reference_plan().values() for full in names.values()}
    short = Counter(full.rpartition(".")[2] for full in full_names)
    unique = {full.rpartition(".")[2]: full for full in full_names if short[full.rpartition(".")[2]] == 1}
    other_paths = {
        f"{module}.{name}": full for module, names in reference_plan().items() for name, full in names.items()
    }
    # One word in small letters may be anything, such as a value: the kind `overlay` is not the function.
    telling = {name: full for name, full in unique.items() if len(name) > 4 and not (name.islower() and name.isalpha())}
    return other_paths | telling


def with_linked_names(text: str) -> str:
    """Markdown in which every public name in backquotes links to the reference; code stays as it is."""
    names = linked_names()

    def plain(match: re.Match[str]) -> str:
        return f"[`{match[1]}`][{names[match[1]]}]" if match[1] in names else match[0]

    def role(match: re.Match[str]) -> str:
        shown = match[2].rpartition(".")[2] if match[1] else match[2]
        return f"[`{shown}`][{names[match[2]]}]" if match[2] in names else f"`{shown}`"

    pieces = _NOT_TEXT.split(text)
    pieces[::2] = [_ROLE.sub(role, _NAME_IN_TEXT.sub(plain, piece)) for piece in pieces[::2]]
    return "".join(pieces)
