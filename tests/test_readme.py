"""Every example of the README runs, and prints what the README says it prints."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import numpy as np
import pytest

from mediatensor._pyav.writing import write_test_pattern
from mediatensor.cli import main
from mediatensor.cli._demo_text import draw_page
from mediatensor.ocr.io import Block, Document, Line, Page, Word

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[tuple[int, str]]:
    """(line number, text) of every fenced block of a language."""
    found = re.finditer(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [(README.count("\n", 0, match.start(1)) + 1, match[1]) for match in found]


def promised_output(block: str) -> list[str]:
    """The comments after ``print(...)``."""
    return re.findall(r"^ *print\(.*\) +# (.*)$", block, re.MULTILINE)


UPRIGHT = {"value": 0, "confidence": None}
SNIPPETS = blocks("python")
COMMANDS = re.findall(r"^mediatensor (.*?)(?: +#.*)?$", "".join(text for _, text in blocks("sh")), re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the examples name."""
    folder = tmp_path_factory.mktemp("readme")
    write_test_pattern(folder / "video.mp4")
    (folder / "videos").mkdir()
    for name in ("a.mp4", "b.mp4", "c.mp4"):
        write_test_pattern(folder / "videos" / name, width=160, height=120, num_frames=30)
    damaged = bytearray((folder / "video.mp4").read_bytes())
    middle = len(damaged) // 2
    damaged[middle : middle + 3000] = bytes(3000)
    (folder / "damaged.mp4").write_bytes(damaged)
    write_documents(folder)
    return folder


def write_documents(folder: Path) -> None:
    """A page as an image, and a PDF file that has it three times, with its words as text."""
    image, written = draw_page()
    image.save(folder / "page.png")
    words = [
        Word(text, 1.0, ((x0 / image.width, y0 / image.height), (x1 / image.width, y1 / image.height)), 1.0, UPRIGHT)
        for text, (x0, y0, x1, y1) in written
    ]
    pages = [Page(np.array(image), [Block([Line(words)])], number, (image.height, image.width)) for number in range(3)]
    Document(pages).save_pdf(folder / "report.pdf")


@pytest.mark.parametrize(("line", "snippet"), SNIPPETS, ids=[f"line {line}" for line, _ in SNIPPETS])
def test_snippet(
    line: int,
    snippet: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    script = folder / f"readme_{line}.py"
    # Empty lines before it, so that a traceback shows the line of the README.
    script.write_text("\n" * (line - 1) + snippet, encoding="utf-8")
    monkeypatch.chdir(folder)
    runpy.run_path(str(script), run_name="__main__")
    printed = capfd.readouterr().out
    promised = promised_output(snippet)
    if promised:
        assert printed.splitlines() == promised
    else:
        assert re.match(r"frame \d+ was replaced by frame \d+: ", printed)


@pytest.mark.parametrize("arguments", COMMANDS)
def test_command(arguments: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert main(shlex.split(arguments)) == 0


def test_the_readme_has_examples() -> None:
    assert len(SNIPPETS) >= 6
    assert len(COMMANDS) >= 3


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)]+)\)", README))))
def test_link_leads_somewhere(target: str) -> None:
    if target.startswith("#"):
        headings = [heading.lower().replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", README, re.MULTILINE)]
        assert target[1:] in headings
    elif not target.startswith("https://"):
        assert (Path(__file__).parents[1] / target).is_file()
