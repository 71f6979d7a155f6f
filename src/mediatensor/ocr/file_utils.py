"""Names that modules of :mod:`mediatensor.ocr` share, and a question that code written for docTR asks."""

from __future__ import annotations

import importlib.metadata

from ..errors import MissingDependencyError

__all__ = ["CLASS_NAME", "requires_package"]

CLASS_NAME: str = "words"
"""What a detector with a single class calls it."""


def requires_package(name: str, extra_message: str | None = None) -> None:
    """Make sure that a package is installed; it is not imported.

    Args:
        name: The package, as pip knows it.
        extra_message: What the error says first.

    Raises:
        MissingDependencyError: The package is not installed; it is an :class:`ImportError`.

    Example:
        >>> from mediatensor.ocr.file_utils import requires_package
        >>> requires_package("numpy")
    """
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        message = "" if extra_message is None else f"{extra_message} "
        raise MissingDependencyError(f"{message}{name} is not installed: pip install {name}.") from None
