"""The files that the Dockerfile copies exist, and its statements are right."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from mediatensor.cli import build_parser

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
INSTRUCTIONS = re.sub(r"\\\n", "", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE)).split("\n")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def instructions(name: str, lines: Sequence[str] = INSTRUCTIONS) -> list[str]:
    """Return the arguments of each instruction with this name."""
    return [line.partition(" ")[2] for line in lines if line.startswith(f"{name} ")]


def stage(name: str) -> list[str]:
    """The instructions of a stage."""
    begins = [number for number, line in enumerate(INSTRUCTIONS) if line.startswith("FROM ")]
    (begin,) = (number for number in begins if INSTRUCTIONS[number].endswith(f" AS {name}"))
    end = next((number for number in begins if number > begin), len(INSTRUCTIONS))
    return INSTRUCTIONS[begin:end]


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
    assert instructions("ENTRYPOINT", stage("command")) == ['["mediatensor"]']
    assert "mediatensor" in PROJECT["scripts"]
    (user,) = instructions("USER")
    assert user not in ("root", "0")
    command = stage("command")
    after_user = command[command.index(f"USER {user}") :]
    # The build ends with a run of everything by that user, without a network.
    assert any(line.startswith("RUN --network=none mediatensor demo ") for line in after_user)


def test_the_service_is_a_target_of_its_own() -> None:
    service = stage("service")
    assert service[0] == "FROM command AS service"  # with its user
    (entry,) = instructions("ENTRYPOINT", service)
    words = json.loads(entry)
    args = build_parser().parse_args([*words[1:], "--jobs", "2"])
    assert (words[0], args.command, args.host) == ("mediatensor", "serve", "0.0.0.0")
    (exposed,) = instructions("EXPOSE", service)
    (check,) = instructions("HEALTHCHECK", service)
    assert f"http://127.0.0.1:{args.port}/health" in check
    assert int(exposed) == args.port
    program = json.loads(check.partition("CMD ")[2])
    assert program[:2] == ["python", "-c"]
    compile(program[2], "HEALTHCHECK", "exec")
    # Without a target the command is built.
    assert [line for line in INSTRUCTIONS if line.startswith("FROM ")][-1] == "FROM command"


def test_what_the_service_stands_on_is_pinned() -> None:
    pinned = {line.partition("==")[0] for line in (ROOT / "constraints.txt").read_text().split("\n") if "==" in line}
    needed = {re.split(r"[>=<\[]", name)[0] for name in PROJECT["optional-dependencies"]["serve"]} - {"mediatensor"}
    assert needed
    assert needed <= pinned


@pytest.mark.parametrize("command", re.findall(r"^# +docker run (.*)$", DOCKERFILE, re.MULTILINE))
def test_commands_in_its_comments_are_accepted(command: str) -> None:
    words = shlex.split(command)
    image = next(index for index, word in enumerate(words) if re.fullmatch(r"mediatensor(:\w+)?", word))
    entry = json.loads(
        instructions("ENTRYPOINT", stage("service" if words[image].endswith(":service") else "command"))[0]
    )
    assert build_parser().parse_args([*entry[1:], *words[image + 1 :]])
