"""Our docstrings as mkdocstrings wants them, as an extension of griffe, which parses them (see ``mkdocs.yml``)."""

from __future__ import annotations

import re
from typing import Any

import griffe
from _reference import public_modules, with_linked_names

EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)
# A session outside that section, up to the next empty line.
SESSION = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Names link to the reference; sessions are code; the section that we call "Example" is griffe's "Examples"."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = for_mkdocstrings(obj.docstring.value)

    def on_class(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        # Private bases do not help the reader.
        cls.bases = [base for base in cls.bases if not is_private(base)]

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        # griffe goes through the members of a package, and not to the package itself.
        self.on_object(obj=pkg)


def is_private(base: str | griffe.Expr) -> bool:
    path = base if isinstance(base, str) else base.canonical_path
    name = path.rpartition(".")[2]
    return path.startswith("mediatensor.") and not any(name in names for names in public_modules().values())


def for_mkdocstrings(docstring: str) -> str:
    return EXAMPLE.sub("Examples:", SESSION.sub(r"```pycon\n\g<0>\n```", with_linked_names(docstring)))
