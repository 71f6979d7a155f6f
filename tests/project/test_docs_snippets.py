"""Every Python snippet and every command of README and docs runs, and prints its documented output."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import torch

from documentation import (
    PAGES,
    ROOT,
    Snippet,
    commands,
    page_text,
    run_snippet,
    snippets,
    write_small_files,
)
from mediatensor.cli import main

PAGES_WITH_SNIPPETS = [page for page in PAGES if snippets(page)]
# They take more than two seconds, and what they call is called by other pages and tests.
SLOW_PAGES = {
    ROOT / "docs" / f"{page}.md"
    for page in (
        "check", "coming-from/doctr", "distributed", "languages", "models", "read-frames", "read-pdf", "read-text",
        "redact", "structure", "train-reader",
    )
}  # fmt: skip
# `demo --files` writes the files of these pages: the fixture `folder` runs it. Tests of the command run `doctor`.
RUN_ELSEWHERE = ("demo --files", "doctor")
COMMANDS = sorted({line for page in PAGES for line in commands(page) if not line.startswith(RUN_ELSEWHERE)})


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that `mediatensor demo --files` writes, as a reader of the documentation has them."""
    folder = tmp_path_factory.mktemp("snippets")
    assert main(["demo", "--files", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def small_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commands")
    write_small_files(folder)
    return folder


# The pages of the documentation read the same image again and again, each with a new predictor.
@pytest.mark.usefixtures("features_remembered_in_module", "forked_processes")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] * (page in SLOW_PAGES), id=name(page))
        for page in PAGES_WITH_SNIPPETS
    ],
)
def test_page(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(folder)
    for snippet in snippets(page):
        run_snippet(snippet, folder, lambda: capfd.readouterr().out)


@pytest.mark.usefixtures("forked_processes")
@pytest.mark.parametrize("arguments", COMMANDS)
def test_command(arguments: str, small_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small_folder)
    # Tests of the command run its demo with workers, which take two seconds of imports.
    loader = torch.utils.data.DataLoader
    monkeypatch.setattr(torch.utils.data, "DataLoader", lambda dataset, batch_size, **_: loader(dataset, batch_size))
    assert main(shlex.split(arguments.partition(" | ")[0])) == 0


def test_there_is_something_to_run() -> None:
    assert len(PAGES_WITH_SNIPPETS) >= 15
    assert set(PAGES_WITH_SNIPPETS) >= SLOW_PAGES
    assert len(COMMANDS) >= 6


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_python_block_escapes(page: Path) -> None:
    fences = re.findall(r"^[ >\t]*(?:```|~~~) *(?:py|python|pycon)\b.*$", page_text(page), re.MULTILINE | re.IGNORECASE)
    assert len(fences) == len(snippets(page))


def test_a_broken_promise_is_seen(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kept = Snippet(ROOT / "README.md", "python", 3, 'print("a 1 b")  # a ... b\n')
    broken = Snippet(ROOT / "README.md", "python", 3, 'print("a")  # b\n')
    run_snippet(kept, tmp_path, lambda: capfd.readouterr().out)
    with pytest.raises(AssertionError, match=r"README\.md, line 3 printed\na\n"):
        run_snippet(broken, tmp_path, lambda: capfd.readouterr().out)
