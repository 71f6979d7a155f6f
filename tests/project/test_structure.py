"""Rules that no single module can keep: layers, public names, packaging."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import mediatensor
import structure
from forked import run_program
from public_api import public_modules

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "mediatensor").rglob("*.py"))
OPTIONAL = (
    "anyascii",
    "cv2",
    "daft",
    "datasets",
    "decord",
    "fastapi",
    "fsspec",
    "h5py",
    "lance",
    "langdetect",
    "matplotlib",
    "onnx",
    "onnxruntime",
    "pillow_heif",
    "pyarrow",
    "pydantic",
    "pypdfium2",
    "python_multipart",
    "ray",
    "scipy",
    "starlette",
    "torchcodec",
    "torchdata",
    "torchvision",
    "tqdm",
    "transformers",
    "uvicorn",
    "vllm",
    "weasyprint",
)


def imported_roots(path: Path) -> set[str]:
    """Return the top-level names of all imports in a file, at any depth."""
    roots = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            roots |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            roots.add((node.module or "").split(".")[0])
    return roots


def public_objects() -> Iterator[tuple[str, object]]:
    """Every public class and function, and the public methods and properties that our classes define."""
    for module in public_modules():
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                yield f"{module.__name__}.{name}", value
            if inspect.isclass(value):
                yield from public_members(f"{module.__name__}.{name}", value)


def public_members(class_name: str, owner: type) -> Iterator[tuple[str, object]]:
    for name, member in vars(owner).items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property | classmethod)):
            # getdoc also finds inherited docstrings.
            yield f"{class_name}.{name}", member if isinstance(member, property) else getattr(owner, name)


def test_only_one_package_imports_pyav() -> None:
    named = [path for path in SOURCES if re.search(r"\bav\b", path.read_text(encoding="utf-8"))]
    importing = [path for path in named if "av" in imported_roots(path)]
    assert importing
    assert {path.parent.name for path in importing} == {"pyav"}


def test_all_names_exist_once() -> None:
    for module in public_modules():
        # Their order is what ruff's RUF022 wants.
        assert len(set(module.__all__)) == len(module.__all__), module.__name__
        assert [name for name in module.__all__ if not hasattr(module, name)] == [], module.__name__


def test_everything_public_is_documented() -> None:
    documented = {name: bool(inspect.getdoc(value)) for name, value in public_objects()}
    assert "mediatensor.decoders.VideoDecoder.get_frame_at" in documented
    assert [name for name, has_doc in documented.items() if not has_doc] == []
    assert [module.__name__ for module in public_modules() if not module.__doc__] == []


def test_import_loads_nothing_optional() -> None:
    # torch itself imports some of these if they are installed: only our additions count.
    program = (
        "import sys, torch.utils.data, av, numpy, PIL.Image\n"
        "before = set(sys.modules)\n"
        "import mediatensor, mediatensor.cli\n"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))\n"
    )
    added = set(run_program(program).stdout.split())
    assert "mediatensor" in added
    assert added.isdisjoint(OPTIONAL)


def test_types_are_shipped() -> None:
    assert files("mediatensor").joinpath("py.typed").is_file()


def test_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert mediatensor.__version__ == project["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {mediatensor.__version__}" in changelog
    assert f"\nversion: {mediatensor.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 110


def test_the_map_names_what_is_there() -> None:
    page = ROOT / "docs" / "architecture.md"
    rows = re.findall(r"^\|.*\|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w/*]+(?:\.py|/|\*))`", row)} - {"src/mediatensor/"}
    assert len(named) > 20
    assert [name for name in sorted(named) if not any((ROOT / "src" / "mediatensor").rglob(name.rstrip("/")))] == []


def test_no_module_imports_itself_by_a_detour() -> None:
    assert structure.circles(structure.module_graph()) == []


def test_no_folder_imports_itself_by_a_detour() -> None:
    assert structure.circles(structure.folder_graph()) == []


def test_names_are_imported_from_where_they_are_defined() -> None:
    assert structure.borrowed_names() == []


def test_circles_are_found() -> None:
    graph = {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("a"), "d": frozenset("a"), "e": frozenset()}
    assert structure.circles(graph) == [["a", "b", "c"]]
    tree = ast.parse("def f():\n    from ..package import thing\n\nif TYPE_CHECKING:\n    from . import sibling")
    known = ["library.package.thing", "library.other.sibling", "library.other"]
    imported = structure.imported_modules(tree, "library.other", known)
    assert imported == {"library.package.thing", "library.other.sibling"}


def test_wings_import_from_those_below_them() -> None:
    assert structure.arrows_up() == []


def test_every_module_is_in_a_wing() -> None:
    drawn = [package for wing in structure.WINGS.values() for package in wing]
    tops = {module.split(".")[1] for module in structure.modules() if "." in module} - {"__main__"}
    assert tops == {package.split(".")[0] for package in drawn}


def test_the_picture_shows_the_wings() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    import _architecture_picture

    assert _architecture_picture.PICTURE.read_text(encoding="utf-8") == _architecture_picture.draw()


def test_locks_survive_a_fork() -> None:
    """A lock that another thread held stays taken in a forked child. Until Python 3.12 cached properties have one."""
    locks = r"threading\.R?Lock\(|from threading import .*\bR?Lock\b|from functools import .*cached_property"
    forbidden = re.compile(locks)
    own = ROOT / "src" / "mediatensor" / "_engine" / "common" / "locks.py"
    found = [path.name for path in SOURCES if path != own and forbidden.search(path.read_text(encoding="utf-8"))]
    assert found == []
