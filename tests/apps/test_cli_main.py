"""The command as a program: help, usage errors, unreadable files, interruption, broken pipes."""

from __future__ import annotations

import errno
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import av
import pytest

import places
from mediatensor.cli import main

COMMANDS = ("probe", "sheet", "scenes", "speech", "extract", "ocr", "find", "verify", "demo")


def assert_one_error_line(text: str) -> None:
    assert text.startswith("mediatensor: error: ")
    assert text.count("\n") == 1
    assert text.endswith("\n")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    own = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "version"
    ]
    av, torch = importlib.metadata.version("av"), importlib.metadata.version("torch")
    assert re.fullmatch(
        rf"mediatensor {re.escape(own)} \(av {re.escape(av)}, torch {re.escape(torch.partition('+')[0])}\S*\)\n",
        capsys.readouterr().out,
    )


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"mediatensor {command}" in text for command in COMMANDS)
    assert "exit codes:" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"examples:\n  mediatensor {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["play"],
        ["probe"],
        ["probe", "x.mp4", "--stream", "-1"],
        ["probe", "x.mp4", "--stream", "one"],
        ["sheet", "x.mp4", "--frames", "0"],
        ["sheet", "x.mp4", "--columns", "0"],
        ["sheet", "x.mp4", "--width", "1.5"],
        ["sheet", "x.mp4", "--start", "1:2:3:4"],
        ["sheet", "x.mp4", "--stop", "nan"],
        ["extract", "x.mp4", "--every", "0"],
        ["extract", "x.mp4", "--fps", "1/0"],
        ["extract", "x.mp4", "--every", "1", "--fps", "1"],
        ["extract", "x.mp4", "--frames", "1,,2"],
        ["extract", "x.mp4", "--frames", "1.5"],
        ["extract", "x.mp4", "--size", "640"],
        ["extract", "x.mp4", "--size", "0x360"],
        ["extract", "x.mp4", "--images", "bmp"],
        ["extract", "x.mp4", "--audio", "--sample-rate", "0"],
        ["verify", "x.mp4", "--frames", "5", "--all"],
        ["verify", "x.mp4", "--seed", "x"],
        ["ocr"],
        ["ocr", "x.png", "--format", "docx"],
        ["ocr", "x.png", "--pages", "0"],
        ["ocr", "x.png", "--pages", "3-1"],
        ["ocr", "x.png", "--pages", "1,,2"],
        ["ocr", "x.png", "--dpi", "-1"],
        ["ocr", "x.png", "--every", "0"],
        ["demo", "x.mp4", "y.mp4"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert_one_error_line(captured.err)
    command = "".join(f"{word} " for word in arguments[:1] if word in COMMANDS)
    assert captured.err.endswith(f"(see `mediatensor {command}--help`)\n")


@pytest.mark.parametrize(("command", "name"), [*((command, "file.mp4") for command in COMMANDS), ("ocr", "file.png")])
@pytest.mark.parametrize("kind", ["missing", "empty", "text", "folder", "line break in its name"])
def test_unreadable_file_is_one_line_and_exit_code_2(
    command: str,
    name: str,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / (f"some\n{name}" if kind.startswith("line break") else name)
    if kind == "empty":
        path.touch()
    elif kind == "text":
        path.write_text("This is a letter and not a video.\n" * 200)
    elif kind == "folder":
        path.mkdir()
    assert main([command, *(["text"] if command == "find" else []), str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert_one_error_line(captured.err)
    assert name in captured.err
    assert [entry for entry in tmp_path.iterdir() if entry != path] == []


def test_interruption_says_what_is_done(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    second = tmp_path / "second.mp4"
    second.write_bytes(clip.read_bytes())
    plain_open = av.open

    def interrupt_second(file: Any, *arguments: Any, **options: Any) -> Any:
        if "second.mp4" in str(file):
            raise KeyboardInterrupt
        return plain_open(file, *arguments, **options)

    monkeypatch.setattr(av, "open", interrupt_second)
    assert main(["probe", str(clip), str(second), "third.mp4"]) == 130
    captured = capsys.readouterr()
    assert captured.out.startswith(f"{clip}\n")
    assert captured.err == "mediatensor: interrupted; 1 of 3 files done, second.mp4 is the next\n"
    assert main(["probe", str(second)]) == 130
    assert capsys.readouterr() == ("", "mediatensor: interrupted\n")


def test_what_reads_no_media_loads_neither_torch_nor_ffmpeg() -> None:
    program = (
        "import sys; from mediatensor.cli import main\n"
        "for line in ('--version', '--help', 'ocr --help', 'probe --what'):\n"
        "    main(line.split())\n"
        "    loaded = {'torch', 'av', 'numpy', 'PIL'} & set(sys.modules)\n"
        "    if loaded: sys.exit(f'{line}: {loaded}')"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "mediatensor ocr" in result.stdout
    assert_one_error_line(result.stderr)


def test_several_files_come_one_after_the_other(clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", str(clip), str(tmp_path / "missing.mp4"), str(clip), "--json"]) == 2
    captured = capsys.readouterr()
    first, end = json.JSONDecoder().raw_decode(captured.out)
    second, _ = json.JSONDecoder().raw_decode(captured.out[end:].lstrip())
    assert first == second
    assert first["file"] == str(clip)
    assert_one_error_line(captured.err)
    assert str(tmp_path / "missing.mp4") in captured.err
    assert main(["verify", str(clip), str(clip), "--frames", "5"]) == 0
    assert capsys.readouterr().out.count("bit for bit") == 2


def write_and_close(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


@contextmanager
def piped_input(data: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let standard input be a pipe, which cannot seek, with this content."""
    reading_end, writing_end = os.pipe()
    with os.fdopen(reading_end) as pipe, ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr("sys.stdin", pipe)
        pool.submit(write_and_close, writing_end, data)
        yield


@pytest.mark.parametrize("command", ["probe", "verify"])
def test_standard_input_is_a_file(
    command: str, clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with piped_input(clip.read_bytes(), monkeypatch):
        assert main([command, "-"]) == 0
    printed = capsys.readouterr().out
    assert "standard input" in printed.splitlines()[0]
    assert "tmp" not in printed


def test_nothing_on_standard_input_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with piped_input(b"", monkeypatch):
        assert main(["probe", "-"]) == 2
    message = capsys.readouterr().err
    assert_one_error_line(message)
    assert "standard input" in message
    assert "/tmp" not in message


def test_reader_that_goes_away_is_no_error(clip: Path) -> None:
    # The reading end is closed before the program has printed anything.
    reading_end, writing_end = os.pipe()
    os.close(reading_end)
    with os.fdopen(writing_end, "wb") as pipe:
        program = subprocess.run(
            [sys.executable, "-m", "mediatensor", "probe", str(clip)],
            stdout=pipe,
            stderr=subprocess.PIPE,
            timeout=120,
            check=False,
        )
    assert (program.returncode, program.stderr) == (141, b"")


def test_terminal_that_lacks_letters_gets_them_escaped(clip: Path, tmp_path: Path) -> None:
    path = tmp_path / "k\u016f\u0148.mp4"
    path.write_bytes(clip.read_bytes())
    program = subprocess.run(
        [sys.executable, "-m", "mediatensor", "probe", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert (program.returncode, program.stderr) == (0, "")
    assert "k\\u016f\\u0148.mp4" in program.stdout


@pytest.mark.parametrize(
    ("arguments", "closed", "code"),
    [
        (["probe", "{clip}"], "stdout", 0),
        (["verify", "{clip}", "--frames", "3"], "stdout", 0),
        (["extract", "{clip}", "--frames", "0", "-o", "-"], "stdout", 2),
        (["probe", "-"], "stdin", 2),
        (["probe", "missing.mp4"], "stderr", 2),
    ],
)
def test_closed_streams_are_no_crash(
    arguments: list[str],
    closed: str,
    code: int,
    clip: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(f"sys.{closed}", None)  # as Python sets it if the shell has closed the stream
        assert main([argument.format(clip=clip) for argument in arguments]) == code
    printed = capsys.readouterr()
    assert "error" not in printed.out
    assert "AttributeError" not in printed.err
    if closed == "stdin":
        assert "error: Standard input is closed; give a file" in printed.err


@places.needs_full_device
@pytest.mark.parametrize(
    "arguments", [["probe", "--no-scan", "{clip}", "{clip}"], ["extract", "{clip}", "--frames", "0", "-o", "-"]]
)
def test_full_standard_output_ends_the_run_with_its_name(
    arguments: list[str], clip: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with places.full_stream("stdout"):
        assert main([argument.format(clip=clip) for argument in arguments]) == 2
    reason = os.strerror(errno.ENOSPC)
    assert capsys.readouterr().err == f"mediatensor: error: Could not write to standard output: {reason}.\n"


@places.needs_full_device
def test_missing_temporary_folder_is_one_line_without_a_number(
    clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")  # as tempfile raises

    monkeypatch.setattr("tempfile.gettempdir", fail)
    assert main(["sheet", str(clip), "-o", "-"]) == 2
    assert capsys.readouterr().err == f"mediatensor: error: {clip}: No usable temporary directory found in ['/tmp']\n"


@places.needs_full_device
def test_full_standard_error_does_not_change_the_exit_code() -> None:
    with places.full_stream("stderr"):
        assert main(["probe", "missing.mp4"]) == 2


def test_names_of_files_do_not_control_the_terminal(
    clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "red\x1b[31m\x07.mp4"
    path.write_bytes(clip.read_bytes())
    assert main(["probe", "--no-scan", str(path)]) == 0
    printed = capsys.readouterr().out
    assert r"red\x1b[31m\x07.mp4" in printed
    assert not {"\x1b", "\x07"} & set(printed)


def test_state_of_check_stays_a_link_if_its_target_is_replaced(clip: Path, tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("another file\n")
    link.symlink_to(target)
    arguments = ["check", str(clip), "--state", str(link), "--no-decode", "--workers", "0"]
    assert main(arguments) == 2
    assert target.read_text() == "another file\n"
    assert main([*arguments, "--overwrite"]) in (0, 1)
    assert link.is_symlink()
    assert clip.name in target.read_text()


COMMANDS_ON_A_FILE = [
    ["probe"],
    ["verify"],
    ["check", "--workers", "0"],
    ["scenes"],
    ["sheet", "-o", "sheet.png"],
    ["extract", "--frames", "0", "-o", "frames"],
    ["extract", "--every", "1", "-o", "frames"],
]


@pytest.mark.parametrize("arguments", COMMANDS_ON_A_FILE, ids=" ".join)
def test_no_command_shows_a_traceback_for_a_video_without_frames(
    arguments: list[str], clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    data = clip.read_bytes()
    with av.open(str(clip)) as container:
        packets = [(packet.pos, packet.size) for packet in container.demux(video=0) if packet.size]
    for position, size in packets:
        data = data[:position] + bytes(size) + data[position + size :]
    Path("empty.mp4").write_bytes(data)
    assert main([arguments[0], "empty.mp4", *arguments[1:]]) in (1, 2)
    printed = capfd.readouterr()
    assert "Traceback" not in printed.out + printed.err
    assert "Unexpected" not in printed.out + printed.err


def test_a_fault_of_the_library_is_one_line_and_the_other_files_follow(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.mp4"
    other.write_bytes(clip.read_bytes())
    opens = av.open

    def fail_once(file: Any, *args: Any, **options: Any) -> Any:
        return {}["no such key"] if str(clip) in str(file) else opens(file, *args, **options)

    monkeypatch.setattr(av, "open", fail_once)
    assert main(["probe", str(clip), str(other)]) == 2
    printed = capsys.readouterr()
    assert "40" in printed.out
    assert_one_error_line(printed.err)
    assert all(text in printed.err for text in (str(clip), "KeyError", "pyav/opening.py:", "report"))
