"""What the Dockerfile takes from the repository is there, and is what it says."""

from __future__ import annotations

import re
import shlex
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from mediatensor.cli import build_parser

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
INSTRUCTIONS = re.sub(r"\\\n", "", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE)).split("\n")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def instructions(name: str) -> list[str]:
    """What follows the name, of each instruction of that name."""
    return [line.partition(" ")[2] for line in INSTRUCTIONS if line.startswith(f"{name} ")]


def copied() -> list[str]:
    """The paths that are copied from the repository."""
    copies = [shlex.split(line) for line in instructions("COPY")]
    return [source for copy in copies if not copy[0].startswith("--from") for source in copy[:-1]]


def test_what_is_copied_is_there_and_not_ignored() -> None:
    rules = [
        line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n") if line[:1] not in ("", "#")
    ]
    assert rules[0] == "*"
    assert copied()
    for source in copied():
        assert (ROOT / source).exists()
        assert f"!{source}" in rules
    assert sorted(rule[1:] for rule in rules if rule.startswith("!")) == sorted(copied())


def test_what_building_needs_is_copied() -> None:
    needed = ["pyproject.toml", PROJECT["readme"], *PROJECT["license-files"], "src"]
    assert [name for name in needed if not any(fnmatchcase(name, source) for source in copied())] == []


def test_arguments_fit_the_project() -> None:
    arguments = dict(line.split("=", 1) for line in instructions("ARG"))
    assert set(arguments["EXTRAS"].split(",")) <= set(PROJECT["optional-dependencies"])
    assert "ocr" in arguments["EXTRAS"].split(",")  # brings the weights
    python = re.fullmatch(r"python:(3\.\d+)-slim", arguments["BASE"])
    assert python
    assert f"Programming Language :: Python :: {python[1]}" in PROJECT["classifiers"]
    (switch,) = (line for line in instructions("RUN") if line.startswith("case"))
    accepted = [name for name in re.findall(r"(\S+)\)", switch.partition("||")[0]) if name.isalpha()]
    assert accepted == ["cpu", "cuda"]
    assert arguments["ACCELERATOR"] in accepted
    assert set(re.findall(r"ACCELERATOR=(\w+)", DOCKERFILE)) == set(accepted)


def test_it_runs_the_command_as_an_ordinary_user() -> None:
    assert instructions("ENTRYPOINT") == ['["mediatensor"]']
    assert "mediatensor" in PROJECT["scripts"]
    (user,) = instructions("USER")
    assert user not in ("root", "0")
    last_stage = INSTRUCTIONS[max(i for i, line in enumerate(INSTRUCTIONS) if line.startswith("FROM")) :]
    after_user = last_stage[last_stage.index(f"USER {user}") :]
    # The build ends with a run of everything by that user, without a network.
    assert any(line.startswith("RUN --network=none mediatensor demo ") for line in after_user)


@pytest.mark.parametrize("command", re.findall(r"^# +docker run (.*)$", DOCKERFILE, re.MULTILINE))
def test_commands_in_its_comments_are_accepted(command: str) -> None:
    words = shlex.split(command)
    image = next(index for index, word in enumerate(words) if re.fullmatch(r"mediatensor(:\w+)?", word))
    assert build_parser().parse_args(words[image + 1 :])
