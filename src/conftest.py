"""Run the examples of docstrings in a folder with the files of the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from forked_isolation import forked_processes as forked_processes
from mediatensor.cli._demo import write_files
from remembered_features import features_remembered_in_test as features_remembered_in_test

# There is another module of this name in the tests.
collect_ignore = ["conftest.py"]


@pytest.fixture(scope="session")
def folder_of_examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    write_files(folder)
    return folder


@pytest.fixture(autouse=True)
def in_folder_of_examples(
    folder_of_examples: Path, forked_processes: None, features_remembered_in_test: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder_of_examples)
