"""Find faults of a built site: dead links, and whatever would make a browser ask another host.

Names are read from HTML and style sheets; no browser is needed. Scripts are the theme's, and are left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Elements that a browser fetches by itself when it shows a page; other addresses need a click.
LOADED = {("link", "href"), ("object", "data"), ("form", "action")}
LOADING_ATTRIBUTES = ("src", "srcset", "poster")
CSS_ADDRESS = re.compile(r"""(?:url\(\s*|@import\s+)["']?([^"')\s]+)""")


@dataclass
class BuiltPage:
    """The names of a page that links may end with, the addresses that it links to, and addresses that it loads."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = BuiltPage()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name in ("id", "name"):
                self.page.anchors.add(value)
            elif name in LOADING_ATTRIBUTES or (tag, name) in LOADED:
                self.page.loaded += [part.split()[0] for part in value.split(",")] if name == "srcset" else [value]
            elif name == "href":
                self.page.links.append(value)
            elif name == "style":
                self.page.loaded += CSS_ADDRESS.findall(value)


def read_page(path: Path) -> BuiltPage:
    text = path.read_text(encoding="utf-8")
    reader = _Reader()
    reader.feed(text)
    for style in re.findall(r"<style[^>]*>(.*?)</style>", text, re.DOTALL):
        reader.page.loaded += CSS_ADDRESS.findall(style)
    return reader.page


def is_foreign(address: str) -> bool:
    return bool(urlsplit(address).netloc)


def problems(site: Path) -> list[str]:
    """A line for each dead link, and for each address of another host that a page or a style sheet loads."""
    # The page of an error has addresses of a server's root.
    pages = {path: read_page(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    found = []
    dead: dict[str, str] = {}  # missing targets, and the first page that links to it: menus are on all pages
    for path, page in pages.items():
        shown = path.relative_to(site).as_posix()
        found += [f"{shown} loads {address}" for address in page.loaded if is_foreign(address)]
        for address in dict.fromkeys(page.links + page.loaded):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                dead.setdefault(str(target), f"{shown} links to {address}, which is not there")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{shown} links to {address}, and there is no such place on that page")
    for sheet in sorted(site.rglob("*.css")):
        shown = sheet.relative_to(site).as_posix()
        addresses = CSS_ADDRESS.findall(sheet.read_text(encoding="utf-8"))
        found += [f"{shown} loads {address}" for address in addresses if is_foreign(address)]
    return found + list(dead.values())
