"""Which files may be written: never one that is read, and never two outputs into one.

All commands, `fit` and the reports decide this here, before any work starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ..errors import InvalidArgumentError

__all__ = ["check_outputs"]


def check_outputs(outputs: Iterable[str | os.PathLike[str]], sources: Iterable[Any] = ()) -> None:
    """Refuse outputs that are a file that is read, or the same file as another output.

    Paths are compared as the files that they lead to, through symbolic and hard links. Outputs whose names differ only
    in case are one file on some systems, and count as one everywhere.

    Args:
        outputs: Paths.
        sources: The files that are read. Whatever is not a path of this machine is left out.

    Raises:
        InvalidArgumentError: if one of these holds.

    Example:
        >>> from mediatensor._sources.output_files import check_outputs
        >>> check_outputs(["page.html", "good.csv"], ["rows.csv"])
    """
    read = {place for source in sources if isinstance(source, (str, os.PathLike)) for place in _places(source)}
    written: dict[object, str] = {}
    for output in outputs:
        name = os.fsdecode(output)
        places = _places(output)
        if not read.isdisjoint(places):
            raise InvalidArgumentError(
                f"{name!r} is a file that is read; choose another name or folder for the output."
            )
        for place in (*places, os.path.realpath(name).casefold()):
            if place in written:
                raise InvalidArgumentError(
                    f"{written[place]!r} and {name!r} would be written into one file; choose names that differ in more "
                    "than case."
                )
        written |= dict.fromkeys((*places, os.path.realpath(name).casefold()), name)


def _places(path: str | os.PathLike[str]) -> frozenset[object]:
    """Identify the file of a path: by its real path, and if it exists by its number on its device."""
    try:
        text = os.path.realpath(os.fsdecode(path))
        status = os.stat(text)
    except OSError:
        return frozenset((text,))
    except ValueError:  # a zero within the path, which no file has
        return frozenset()
    return frozenset((text, (status.st_dev, status.st_ino)))
