"""Extensions of mkdocs, as a hook (see ``mkdocs.yml``).

* The pages of the reference are made here.
* Pages may link to files of the repository that lie outside ``docs/``, as is right on a code host: they become part of
  the site.
* Notebooks and scripts that pages link to become pages themselves.
* Public names in running text link to the reference.
* Dead links in the built site, and addresses of other hosts that a page would load, are warnings, and thereby errors.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from _built_site import problems
from _notebooks import notebook_page
from _reference import CODE_FENCE, PAGES, reference_page, with_linked_names

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
REFERENCE = "reference"
# Where files from outside docs/ are in the site.
OUTSIDE = "repository"
LINK_TARGET = re.compile(r"(?<=\]\()([^)\s#:]+)(?=[)#])")


def outside_files(path: Path) -> set[Path]:
    """Files of the repository, outside docs/, that a Markdown file links to, directly or through these."""
    found: set[Path] = set()
    waiting = [path]
    while waiting:
        page = waiting.pop()
        text = notebook_page(page).markdown if page.suffix == ".ipynb" else page.read_text(encoding="utf-8")
        for target in LINK_TARGET.findall(CODE_FENCE.sub("", text)):
            file = (page.parent / target).resolve()
            is_outside = file.is_relative_to(ROOT) and not file.is_relative_to(ROOT / "docs")
            if is_outside and file.is_file() and file not in found:
                found.add(file)
                waiting += [file] if file.suffix in (".md", ".ipynb") else []
    return found


def on_files(files: Files, config: MkDocsConfig) -> Files:
    from mkdocs.structure.files import File

    for page in PAGES:
        files.append(File.generated(config, f"{REFERENCE}/{page}.md", content=reference_page(page)))
    linked = {file for page in Path(config.docs_dir).rglob("*.md") for file in outside_files(page)}
    for file in sorted(linked):
        uri = f"{OUTSIDE}/{file.relative_to(ROOT).as_posix()}"
        if file.suffix == ".ipynb":
            page = notebook_page(file)
            files.append(File.generated(config, shown_as(uri), content=page.markdown))
            files.append(File.generated(config, uri, abs_src_path=str(file)))
            for name, picture in page.pictures.items():
                files.append(File.generated(config, f"{posixpath.dirname(uri)}/{name}", content=picture))
        elif file.suffix == ".py":
            script = f"# {file.name}\n\n```python\n{file.read_text(encoding='utf-8')}```\n"
            files.append(File.generated(config, shown_as(uri), content=script))
        else:
            files.append(File.generated(config, uri, abs_src_path=str(file)))
    return files


def shown_as(uri: str) -> str:
    """The page that shows a notebook or a script; any other file is shown as it is."""
    stem, suffix = posixpath.splitext(uri)
    return f"{stem}.md" if suffix in (".ipynb", ".py") else uri


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    uri = page.file.src_uri
    if uri.startswith(f"{REFERENCE}/"):
        return markdown
    here = ROOT / (uri.removeprefix(f"{OUTSIDE}/") if uri.startswith(f"{OUTSIDE}/") else f"docs/{uri}")

    def rewritten(match: re.Match[str]) -> str:
        file = (here.parent / match[1]).resolve()
        if not file.is_relative_to(ROOT):
            return match[1]
        in_docs = file.is_relative_to(ROOT / "docs")
        target = shown_as(file.relative_to(ROOT / "docs" if in_docs else ROOT).as_posix())
        return posixpath.relpath(target if in_docs else f"{OUTSIDE}/{target}", posixpath.dirname(uri) or ".")

    return with_linked_names(LINK_TARGET.sub(rewritten, markdown))


def on_post_build(config: MkDocsConfig) -> None:
    for problem in problems(Path(config.site_dir)):
        logging.getLogger("mkdocs.site").warning(problem)
