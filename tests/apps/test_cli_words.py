"""The words of the command: help of 80 columns, suggestions, and errors without names of Python, before any work."""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path

import pytest
from PIL import Image

import wav_files
from mediatensor._engine.pyav.encoding import write_test_pattern
from mediatensor.cli import build_parser, main
from mediatensor.cli._console import in_command_words, naming_options

(_COMMANDS,) = (action.choices for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
assert _COMMANDS is not None

# Names of Python: words with an underscore, None, True, keyword arguments, calls.
_PYTHON = re.compile(r"\b[a-z]+_[a-z_]+\b|\bNone\b|\bTrue\b|\bFalse\b|\w=\w|\w\(\)|Traceback|Unexpected")


def _help(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", ["", *_COMMANDS])
def test_help_has_80_columns(command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = _help(capsys, *command.split())
    assert [line for line in text.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("command", _COMMANDS)
def test_every_option_has_a_text(command: str) -> None:
    for action in _COMMANDS[command]._actions:
        assert action.help, action.dest
        text = action.help.replace("\n", " ")
        # A noun phrase or an imperative, followed by the default in brackets.
        assert not text.startswith(("(", "of ", "what ", "how ")), (action.dest, text)
        assert not text.endswith("."), action.dest
        has_default = action.default not in (None, False, argparse.SUPPRESS, [])
        assert not has_default or action.metavar is None or "default" in text, (action.dest, text)


def test_help_of_a_task_shows_only_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    everything = _help(capsys, "train")
    recognition, detection = _help(capsys, "train", "recognition"), _help(capsys, "train", "detection")
    assert "train TASK --help" in " ".join(everything.split())
    for option, tasks in (
        ("--vocab", "recognition"),
        ("--crop-size", "detection"),
        ("--epochs", "recognition detection"),
    ):
        assert option in everything
        assert (option in recognition, option in detection) == ("recognition" in tasks, "detection" in tasks)
    assert recognition.startswith("usage: mediatensor train recognition")
    assert "train detection" not in recognition
    assert "--iou" not in _help(capsys, "evaluate", "recognition")
    assert "--iou" in _help(capsys, "evaluate", "detection")


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        ("prob x.mp4", "there is no command 'prob'; did you mean probe?"),
        ("shet x.mp4", "did you mean sheet?"),
        ("zzz", "there is no command 'zzz' (see"),
        ("sheet x.mp4 --framez 3", "no option --framez; did you mean --frames? (see `mediatensor sheet --help`)"),
        ("train recognition -o m.pt --batchsize=4", "did you mean --batch-size?"),
        ("probe x.mp4 --zzz", "there is no option --zzz (see"),
    ],
)  # fmt: skip
def test_mistyped_names_are_corrected(arguments: str, suggestion: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments.split()) == 2
    assert suggestion in capsys.readouterr().err


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("words")
    write_test_pattern(folder / "v.mp4", width=64, height=48, fps=10, num_frames=10)
    (folder / "s.wav").write_bytes(wav_files.riff(wav_files.fmt(1, 16), wav_files.chunk(b"data", bytes(1600))))
    (folder / "t.srt").write_text("1\n00:00:00,000 --> 00:00:01,000\nHello\n")
    Image.new("RGB", (60, 32), "white").save(folder / "line.png")
    (folder / "lines.jsonl").write_text(json.dumps({"path": "line.png", "text": "012"}) + "\n")
    (folder / "m.csv").write_text("path,label\nv.mp4,1\n")
    (folder / "bad.csv").write_text("a,b\n1,2\n")
    (folder / "x.txt").write_text("hello")
    (folder / "bad.json").write_text('{"a": 1}')
    return folder


_TRAIN = "train recognition --train lines.jsonl --validation lines.jsonl"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("sheet v.mp4 --start 0.8 --stop 0.5 -o o.png", "--start must be before --stop (got 0.8 s and 0.5 s)"),
        ("extract s.wav --audio --start 5 -o o", "There is nothing from 5 s on"),
        ("extract s.wav --audio --start 5 --stop 5 -o o", "There is nothing from 5 s on"),
        ("extract s.wav --audio --start 0.05 --stop 0.01 -o o", "--start must be before --stop"),
        ("extract s.wav --audio --start 0.05 --stop 0.05 -o o", "--start must be before --stop"),
        ("extract t.srt --subtitles --start 5 --stop 3 -o o", "--start must be before --stop"),
        ("extract s.wav --audio --sample-rate 100000000 -o o", "--sample-rate must be > 0 and at most 1536000"),
        ("extract s.wav --audio --num-channels 1000 -o o", "--num-channels must be > 0 and at most 64 (got 1000)"),
        ("extract s.wav --audio --sample-rate 1 -o o", "no audio sample"),
        ("extract s.wav -o o", "s.wav: The source has no video stream that can be decoded"),
        ("extract t.srt --subtitles --encoding nope -o o", "--encoding must be the name of a Python encoding"),
        ("extract v.mp4 --size 99999x99999 -o o", "Frames of 99999x99999 pixels are too large"),
        ("check bad.csv", "Give the name of the right column with --media-column."),
        ("check m.csv --media-column nope", "with --media-column."),
        ("check x.txt", "neither a folder nor a manifest"),
        ("check v.mp4 --timeout 1e-300 --workers 1", "--timeout must be from 0.001 to"),
        ("serve --timeout 1e300 --port 0", "--timeout must be more than 0 seconds"),
        ("serve --jobs 100000 --port 0", "--jobs must be a positive whole number"),
        ("find error bad.json", "ocr VIDEO --format json"),
        ("find error v.mp4 --languages klingon", "--languages must name languages (got 'klingon')"),
        ("ocr line.png --fields nope -o o", "accepted: all, receipt, invoice"),
        (f"{_TRAIN} -o m.txt", "-o must be a file that ends in .pt (got 'm.txt')"),
        (f"{_TRAIN} --learning-rate 5 -o m.pt", "--learning-rate must be from 0 to 1 (got 5.0)"),
        (f"{_TRAIN} --crop-size 33 -o m.pt", "expected a multiple of 32 (got '33')"),
        ("train recognition --train bad.csv --validation lines.jsonl -o m.pt", "Rename the column"),
        ("train recognition --train-languages klingon -o m.pt", "--train-languages must name languages"),
        ("evaluate recognition x.txt", "neither a folder nor a manifest"),
    ],
)
def test_errors_name_options_and_no_python(
    arguments: str, words: str, files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("fastapi")
    monkeypatch.chdir(files)
    before = sorted(files.rglob("*"))
    assert main(arguments.split()) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert words in message
    assert not _PYTHON.search(re.sub(r"'[^']*'|file_name", "", message)), message  # names of files and columns
    assert sorted(files.rglob("*")) == before


def test_command_words_replace_only_arguments_of_the_library() -> None:
    with naming_options({"out": "-o", "page_size": "--page-size", "password": "--password"}):
        for text in (
            "without a way out",
            "'page_size.png' is damaged",
            "/data/page_size/a.mp4",
            "a password must match",
        ):
            assert in_command_words(text) == text
        assert in_command_words("a.pdf is encrypted; pass password=.") == "a.pdf is encrypted; give --password."
        assert in_command_words("x.pt: out must end in .pt") == "x.pt: -o must end in .pt"
        assert in_command_words("page_size = 3 is too small") == "--page-size 3 is too small"
        limit = "more than max_pixels = 9; if you trust the file, pass a larger max_pixels, or None for no limit."
        assert in_command_words(limit) == "more than the limit of 9."


# Outputs that cannot be written are found before the work


def test_check_refuses_an_unwritable_manifest_before_it_decodes(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mediatensor.cli._check.check_dataset", lambda *_, **__: pytest.fail("the work began"))
    try:
        name = b"caf\xe9.mp4".decode("utf-8", "surrogateescape")
        shutil.copy(files / "v.mp4", tmp_path / name)
    except OSError:
        pytest.skip("the file system takes only names in UTF-8")
    monkeypatch.chdir(tmp_path)
    assert main(["check", str(files / "v.mp4"), "--fix", "good.txt"]) == 2
    assert "A manifest must end in .csv or .jsonl (got 'good.txt')" in capsys.readouterr().err
    assert main(["check", ".", "--fix", "good.csv"]) == 2
    assert "write a .jsonl" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", [".mediatensor-ocr.jsonl", ".mediatensor-lines.jsonl", ".line.pages"])
def test_ocr_checks_its_hidden_files_before_it_reads(
    name: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mediatensor.ocr.models.ocr_predictor", lambda **_: pytest.fail("the models were loaded"))
    out = tmp_path / "out"
    out.mkdir()
    if name == ".line.pages":
        (out / name).write_text("a file")
    else:
        (out / name).mkdir()
    option = "--export-lines" if "lines" in name else "-o"
    assert main(["ocr", str(files / "line.png"), option, str(out)]) == 2
    assert name in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == [name]
