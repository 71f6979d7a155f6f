"""Count turns of phrase that native readers stumble over, per 1,000 words of prose.

    python docs/_plain_english.py [PATH ...] [--show N] [--limit RATE]

Prose is Markdown outside of code, and in Python docstrings, comments and messages of at least four words. Each folder
with Python files, and each Markdown file, is a row. With ``--limit``, the exit code is 1 if a row with at least 400
words has more hits. The expressions and their advice are in ``_plain_english.txt``.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "docs", "examples", "benchmarks")
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
MIN_WORDS = 400
_CODE = re.compile(r"^\s*(?:>>>|\.\.\.) .*$|``[^`]*``|`[^`]*`|https?://\S+", re.MULTILINE)
_MARKDOWN_CODE = re.compile(r"`[^`]*`|\]\([^)]*\)|<[^>]*>|https?://\S+")
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
# The module tokenize takes ten times as long. Strings match whole, as they may have a "#" within.
_STRING_OR_COMMENT = re.compile(
    r'''"""(?:\\.|[^\\])*?"""|\'{3}(?:\\.|[^\\])*?\'{3}|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(#[^\n]*)''',
    re.DOTALL,
)


class Phrase(NamedTuple):
    """An expression to avoid, and the advice for it."""

    pattern: re.Pattern[str]
    advice: str


def read_phrases() -> list[Phrase]:
    """Read the expressions with their advice."""
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    pairs = [line.rpartition(" = ")[::2] for line in lines]
    return [Phrase(re.compile(pattern, re.MULTILINE), advice) for pattern, advice in pairs]


def python_prose(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) for docstrings, comments and strings of at least four words."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = _CODE.sub(" ", node.value)
            if len(_WORD.findall(text)) >= 4:
                yield node.lineno, text
    line, end = 1, 0
    for match in _STRING_OR_COMMENT.finditer(source):
        if (comment := match[1]) and not comment.startswith("#!"):
            line, end = line + source.count("\n", end, match.start()), match.start()
            yield line, _CODE.sub(" ", comment.lstrip("#: "))


def markdown_prose(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) for lines outside of code blocks."""
    is_code = False
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            is_code = not is_code
        elif not is_code:
            yield number, _MARKDOWN_CODE.sub(" ", line)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, help="files and folders (default: everything)")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print at most N hits of each row")
    parser.add_argument("--limit", type=float, metavar="RATE", help="fail if a row has more hits per 1,000 words")
    options = parser.parse_args()
    phrases = read_phrases()
    num_words: dict[str, int] = defaultdict(int)
    hits: dict[str, list[str]] = defaultdict(list)
    for top in options.paths or [ROOT / name for name in FOLDERS + PAGES]:
        paths = [top] if top.is_file() else sorted((*top.rglob("*.py"), *top.rglob("*.md")))
        for path in paths:
            place = path.resolve().relative_to(ROOT)
            row = str(place if path.suffix == ".md" else place.parent)
            read = markdown_prose if path.suffix == ".md" else python_prose
            for line, text in read(path.read_text(encoding="utf-8")):
                num_words[row] += len(_WORD.findall(text))
                for phrase in phrases:
                    for match in phrase.pattern.finditer(text):
                        around = " ".join(text[max(0, match.start() - 40) : match.end() + 40].split())
                        hits[row].append(f"  {place}:{line}: ... {around} ... ({phrase.advice})")
    rates = {row: 1000 * len(hits[row]) / count for row, count in num_words.items() if count}
    is_bad = False
    for row, rate in sorted(rates.items(), key=lambda pair: -pair[1]):
        is_above = options.limit is not None and rate > options.limit and num_words[row] >= MIN_WORDS
        is_bad |= is_above
        if is_above or options.limit is None:
            print(f"{rate:5.1f} per 1,000 of {num_words[row]} words: {row}", *hits[row][: options.show], sep="\n")
    total = 1000 * sum(map(len, hits.values())) / max(1, sum(num_words.values()))
    print(f"{total:.1f} per 1,000 words in all")
    return 1 if is_bad else 0


if __name__ == "__main__":
    sys.exit(main())
