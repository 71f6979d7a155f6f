"""Run the examples of docstrings in a folder with the files of the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

import forked_isolation
from mediatensor.cli._demo import write_files
from mediatensor.isolate import _process

# There is another module of this name in the tests.
collect_ignore = ["conftest.py"]


@pytest.fixture(scope="session")
def folder_of_examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    write_files(folder)
    return folder


@pytest.fixture(autouse=True)
def in_folder_of_examples(folder_of_examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder_of_examples)


@pytest.fixture(autouse=True)
def forked_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork isolated processes: new ones spend two seconds on imports."""
    monkeypatch.setattr(_process, "_start", forked_isolation.start_process)
