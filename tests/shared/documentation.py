"""The snippets of README and docs, their files, and a runner that compares their output."""

from __future__ import annotations

import doctest
import json
import re
import runpy
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mediatensor._engine.pyav.encoding import write_test_pattern

# The private page of `mediatensor demo`, which the documentation reads.
from mediatensor.cli._demo import draw_page, write_pdf

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [README, ROOT / "SECURITY.md", *DOCS]
FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Snippet:
    """A fenced block: the page it is on, its language, the line it begins at, and its text."""

    page: Path
    language: str
    line: int
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}, line {self.line}"

    @property
    def promised_output(self) -> str:
        """The comments after ``print(...)``, each a line; ``...`` stands for anything."""
        promises = re.findall(r"^ *print\(.*\) +# (.*)$", self.text, re.MULTILINE)
        return "".join(f"{promise}\n" for promise in promises)


@cache
def page_text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def snippets(page: Path, language: str = "python") -> list[Snippet]:
    """The fenced blocks of a language on a page, in their order."""
    text = page_text(page)
    return [
        Snippet(page, match[1], text.count("\n", 0, match.start(2)) + 1, match[2])
        for match in FENCE.finditer(text)
        if match[1] == language
    ]


def commands(page: Path) -> list[str]:
    """The arguments of every line of a shell block that runs the ``mediatensor`` command."""
    shell = "".join(snippet.text for snippet in snippets(page, "sh"))
    return re.findall(r"^mediatensor (.*?)(?: +#.*)?$", shell, re.MULTILINE)


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", page_text(page))


def run_snippet(snippet: Snippet, folder: Path, take_printed: Callable[[], str]) -> None:
    """Run a snippet as a script of the current folder, and compare its output with its comments.

    The script is written into ``folder``; ``take_printed`` returns the output since the last call. Errors of the
    snippet come through, with the line of its page.
    """
    script = folder / f"{snippet.page.stem.lower()}_{snippet.line}.py"
    # Empty lines before it, so that a traceback shows the line of the page.
    script.write_text("\n" * (snippet.line - 1) + snippet.text, encoding="utf-8")
    take_printed()
    runpy.run_path(str(script), run_name="__main__")
    printed = take_printed()
    same = doctest.OutputChecker().check_output(snippet.promised_output, printed, doctest.ELLIPSIS)
    assert same, f"{snippet.place} printed\n{printed}where it promises\n{snippet.promised_output}"


def write_small_files(folder: Path) -> None:
    """Write smaller files of the same names for the commands, whose output is not compared."""
    write_test_pattern(folder / "video.mp4", width=320, height=180, num_frames=90)
    shutil.copy(folder / "video.mp4", folder / "film.mp4")
    write_documents(folder, num_pages=2, height=120)
    image, written = draw_page()
    text, box = written[0]
    (folder / "lines").mkdir()
    image.crop(box).save(folder / "lines" / "title.png")
    (folder / "lines" / "lines.jsonl").write_text(json.dumps({"file": "title.png", "text": text}), encoding="utf-8")


def write_documents(folder: Path, num_pages: int, height: int) -> None:
    """The top of the page as an image, and a PDF file with it several times, with its words as text."""
    image, written = draw_page()
    image = image.crop((0, 0, image.width, height))
    image.save(folder / "page.png")
    write_pdf(folder / "report.pdf", image, [(text, box) for text, box in written if box[3] < height], num_pages)
