"""The default class name of text detectors, and a check that a package is installed, both named as in docTR."""

from __future__ import annotations

import importlib.metadata

from ..errors import MissingDependencyError

__all__ = ["CLASS_NAME", "requires_package"]

CLASS_NAME: str = "words"
"""The class name of a detector with a single class."""


def requires_package(name: str, extra_message: str | None = None) -> None:
    """Check that a package is installed, without importing it.

    Args:
        name: The name of the package, as used in ``pip install``.
        extra_message: Text to add at the beginning of the error message.

    Raises:
        MissingDependencyError: (an ImportError) The package is not installed.

    Example:
        >>> from mediatensor.ocr.file_utils import requires_package
        >>> requires_package("numpy")
    """
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        message = "" if extra_message is None else f"{extra_message} "
        raise MissingDependencyError(f"{message}{name} is not installed: pip install {name}.") from None
