"""Names, limits and calls in the documentation are right, and its links work."""

from __future__ import annotations

import functools
import importlib
import re
import runpy
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from documentation import DOCS, PAGES, README, ROOT, prose, snippets
from mediatensor import errors
from public_api import public_modules

COMING_FROM = [page for page in DOCS if page.parent.name == "coming-from"]
LINK = re.compile(r"\]\(([^)]+)\)")
QUESTIONS = ROOT / "docs" / "questions.md"


def part_of_the_build(name: str) -> SimpleNamespace:
    """A module that takes part in building the site; none of them needs a package for it."""
    return SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / f"{name}.py")))


@pytest.fixture(scope="module")
def reference() -> SimpleNamespace:
    return part_of_the_build("_reference")


def table_rows(page: Path, num_columns: int) -> list[list[str]]:
    rows = [row.split(" | ") for row in re.findall(r"^\| (.*) \|$", prose(page), re.MULTILINE)]
    return [row for row in rows if len(row) == num_columns]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_file(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(file), f"{page.name} links to {target}"


def test_every_page_is_in_the_navigation(reference: SimpleNamespace) -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    named = re.findall(r"([\w/.-]+\.md)$", navigation, re.MULTILINE)
    assert len(named) == len(set(named))
    assert {page.relative_to(ROOT / "docs").as_posix() for page in DOCS} <= set(named)
    assert {f"reference/{page}.md" for page in reference.PAGES} == {page for page in named if page[:10] == "reference/"}


def pages_linked_from(page: Path) -> set[Path]:
    return {(page.parent / target.partition("#")[0]).resolve() for target in LINK.findall(prose(page))} & set(DOCS)


def test_every_page_is_two_clicks_from_the_readme() -> None:
    first = pages_linked_from(README)
    assert set(DOCS) <= first.union(*map(pages_linked_from, first))


def test_reference_has_every_public_name_once(reference: SimpleNamespace) -> None:
    plan, page = reference.reference_plan(), functools.cache(reference.reference_page)
    exported = {module.__name__: module for module in public_modules()}
    assert set(plan) == set(exported)
    for module_name, module in exported.items():
        submodules = {name for name in module.__all__ if f"{module_name}.{name}" in exported}
        assert set(plan[module_name]) == {name for name in module.__all__ if name[:2] != "__"} - submodules
        for name, full in plan[module_name].items():
            home, _, short = full.rpartition(".")
            assert getattr(exported[home], short) is getattr(module, name)
            documented = page(reference.page_of(home))
            assert f"::: {home}\n" in documented
            assert f"        - {short}\n" in documented


def test_names_in_text_become_links(reference: SimpleNamespace) -> None:
    code = "# `VideoDecoder`\n```python\n`VideoDecoder`\n```\n>>> `VideoDecoder`\n"
    text = "`VideoDecoder`, `x`, `overlay`, ``VideoDecoder``, :class:`~mediatensor.frames.Frame`\n"
    linked = (
        "[`VideoDecoder`][mediatensor.decoders.VideoDecoder], `x`, `overlay`, ``VideoDecoder``, "
        "[`Frame`][mediatensor.Frame]\n"
    )
    assert reference.with_linked_names(code + text + code + text) == code + linked + code + linked


def test_limits_are_those_of_the_source() -> None:
    rows = [row for row in table_rows(ROOT / "docs" / "limits.md", 5) if row[1][0].isdigit()]
    assert len(rows) >= 15
    for what, limit, _, _, constant in rows:
        module, _, name = constant.strip("`").rpartition(".")
        assert getattr(importlib.import_module(f"mediatensor.{module}"), name) == int(limit.replace(",", "")), what


@pytest.mark.parametrize("page", COMING_FROM, ids=lambda page: page.stem)
def test_our_side_of_a_migration_table_is_run(page: Path) -> None:
    run = "".join(snippet.text for snippet in snippets(page))
    calls = [code for _, ours in table_rows(page, 2) for code in re.findall(r"`([^`]+)`", ours) if "(" in code]
    concrete = [call for call in calls if "path" not in call and "..." not in call]
    assert len(concrete) >= 4
    assert [call for call in concrete if call not in run] == []


def test_every_exception_is_in_the_table() -> None:
    rows = table_rows(ROOT / "docs" / "damaged.md", 3)
    described = {
        name.strip("`"): re.findall(r"`(\w+)`", bases) for name, bases, _ in rows if re.fullmatch(r"`\w+`", name)
    }
    assert set(described) == set(errors.__all__) - {"MediaTensorError"}
    for name, bases in described.items():
        inherited = {base.__name__ for base in getattr(errors, name).__mro__[1:]}
        assert set(bases) <= inherited, name


def test_the_table_of_extras_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for_contributors = {"all", "bench", "dev", "docs", "test"}
    rows = {row[0].strip("`"): row[2] for row in table_rows(ROOT / "docs" / "index.md", 3) if row[0][0] == "`"}
    assert set(rows) == set(extras) - for_contributors
    for extra, packages in rows.items():
        other_extras = [re.sub(r"mediatensor\[(\w+)\]", r"and those of `\1`", needed) for needed in extras[extra]]
        needs = [words if words[:4] == "and " else re.split(r"[^\w-]", words)[0] for words in other_extras]
        assert packages.split(", ") == sorted(needs, key=lambda words: (" " in words, words)), extra


def test_faults_of_a_built_site_are_seen(tmp_path: Path) -> None:
    built_site = part_of_the_build("_built_site")
    (tmp_path / "sound.html").write_text('<h1 id="sound">Sound</h1><a href="https://example.org">clicked</a>')
    (tmp_path / "index.html").write_text(
        '<a href="sound.html#sound">1</a><a href="sound.html#pitch">2</a><a href="gone.html">3</a>'
        '<a href="./gone.html#a">3</a><a href="#top">4</a>'
        '<img src="wave.png" style="background: url(//cdn.example/x.png)"><script src="https://example.org/a.js"></script>'
    )
    (tmp_path / "site.css").write_text('@import "https://fonts.example/a.css"; p { background: url(data:image/png,) }')
    assert built_site.problems(tmp_path) == [
        "index.html loads //cdn.example/x.png",
        "index.html loads https://example.org/a.js",
        "index.html links to sound.html#pitch, and there is no such place on that page",
        "index.html links to #top, and there is no such place on that page",
        "site.css loads https://fonts.example/a.css",
        "index.html links to gone.html, which is not there",
        "index.html links to wave.png, which is not there",
    ]


def test_a_warning_ends_the_build() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (options,) = re.findall(r"mkdocs build(.*)", makefile)
    # `--quiet` hides warnings from `--strict` as well.
    assert options.split() == ["--strict"]


def test_the_gallery_shows_every_example() -> None:
    page = ROOT / "docs" / "gallery.md"
    shown = {(page.parent / target).resolve() for target in LINK.findall(prose(page))}
    examples = ROOT / "examples"
    notebooks = set((examples / "notebooks").glob("*.ipynb"))
    assert set(examples.glob("*.py")) | notebooks | set((examples / "images").iterdir()) <= shown


def test_questions_are_many_and_lead_to_places() -> None:
    lines = re.findall(r"^\* (\*\*\.\.\. .*)$", prose(QUESTIONS), re.MULTILINE)
    assert len(lines) >= 50
    assert len({line.partition("?**")[0] for line in lines}) == len(lines)
    for line in lines:
        question, _, answer = line.partition("?**")
        assert question, line
        # The exact place, not only a page; that it is there is a test of all links.
        assert "#" in LINK.findall(answer)[-1], line


def test_answers_use_existing_names() -> None:
    recorded = (ROOT / "tests" / "records" / "public_api.txt").read_text(encoding="utf-8")
    known = set(re.findall(r"\w+", recorded)) | {"len", "mediatensor"}
    for code in re.findall(r"`([^`]+)`", prose(QUESTIONS)):
        without_strings = re.sub(r'"[^"]*"', "", code)
        if code.startswith("mediatensor "):
            assert code.split()[1] in known, code
        if code.startswith("mediatensor ") or (ROOT / code).is_file():
            continue
        called = re.findall(r"(\w+)\(", without_strings) + re.findall(r"(\w+)=", without_strings)
        members = re.findall(r"[a-z_]\w*\.(\w+)", without_strings) + re.findall(r"\b([A-Z]\w+)\b", without_strings)
        assert [name for name in called + members if name not in known] == [], code
