"""Run the `mediatensor` command on a file: the outcome is an answer or a readable error, and complete files or none."""

from __future__ import annotations

import io
import json
import random
import tempfile
import unicodedata
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NoReturn

from mediatensor.cli import main

from .answers import Answers, WrongAnswerError

__all__ = ["read_by_command"]


def read_by_command(answers: Answers, rng: random.Random, path: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        output = Path(name)
        commands = [
            ["probe", str(path), "--json"],
            ["probe", str(path), "--no-scan"],
            ["probe", str(path)],
            ["sheet", str(path), "-o", str(output / "sheet.png"), "--frames", "4", "--width", "64"],
            ["extract", str(path), "-o", str(output / "frames"), "--every", "0.7", "--stop", "4"],
            ["extract", str(path), "-o", str(output / "both"), "--audio", "--stop", "4", "--subtitles"],
            ["verify", str(path), "--frames", "5", "--json"],
        ]
        for command in rng.sample(commands, 3):
            _run(answers, command)
        _check_files(output)


def _run(answers: Answers, command: list[str]) -> None:
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        code = main(command)
    shown, said = output.getvalue(), errors.getvalue()
    if code not in (0, 1, 2) or (code == 1 and command[0] != "verify"):
        raise WrongAnswerError(f"{command[0]} ends with {code}")
    if code == 2 and "mediatensor: error: " not in said:
        raise WrongAnswerError(f"{command[0]} fails without a word: {said!r}")
    if "Traceback" in said:
        raise WrongAnswerError(f"{command[0]} shows a traceback: {said[-500:]!r}")
    for text in (shown, said):
        _check_text(command[0], text)
    if shown and "--json" in command:
        json.loads(shown, parse_constant=_refuse)
    if code == 2:
        answers.errors[f"{command[0]} refuses"] += 1
    else:
        answers.num_results += 1
    answers.lines.append(f"{command[0]}: {code if command[0] != 'verify' else code == 2}")


def _refuse(constant: str) -> NoReturn:
    raise WrongAnswerError(f"{constant} is not JSON")


def _check_text(command: str, text: str) -> None:
    """Text of a file must not move the cursor of a terminal, nor reverse later text."""
    strange = {unicodedata.category(char) for char in text if char not in "\n\r\t"} & {"Cc", "Cs"}
    if strange:
        raise WrongAnswerError(f"{command} prints control characters: {text[:300]!r}")


def _check_files(output: Path) -> None:
    unfinished = [path.name for path in output.rglob("*") if path.name.startswith(".") or path.name.endswith(".part")]
    if unfinished:
        raise WrongAnswerError(f"unfinished files are left: {unfinished}")
