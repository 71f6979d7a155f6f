"""The log levels of decord, which have no effect in this library.

>>> from mediatensor.compat import decord
>>> decord.logging.set_level(decord.logging.QUIET)
"""

from __future__ import annotations

from ..._engine.common.checks import whole_number

__all__ = [
    "CRITICAL",
    "DEBUG",
    "ERROR",
    "FATAL",
    "INFO",
    "PANIC",
    "QUIET",
    "TRACE",
    "VERBOSE",
    "WARNING",
    "set_level",
]

QUIET = -8
PANIC = 0
FATAL = 8
ERROR = 16
WARNING = 24
INFO = 32
VERBOSE = 40
DEBUG = 48
TRACE = 56
CRITICAL = FATAL


def set_level(lvl: int = ERROR) -> None:
    """Do nothing except check the argument. This library does not log: it raises exceptions and issues warnings.

    Args:
        lvl: One of decord's log levels, such as ``ERROR``; any whole number is accepted.

    Raises:
        InvalidArgumentError: if ``lvl`` is not a whole number.

    Example:
        >>> from mediatensor.compat import decord
        >>> decord.logging.set_level(decord.logging.ERROR)
    """
    whole_number("lvl", lvl)
