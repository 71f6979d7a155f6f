"""Encoders by name, which options they have, and whether values fit them."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import av

from ..errors import InvalidArgumentError

__all__ = ["NumericOption", "check_numeric", "find_encoder", "numeric_options", "unused_options"]

# Of FFmpeg's AVOptionType.
_NUMERIC_TYPES = ("INT", "INT64", "UINT", "UINT64", "FLOAT", "DOUBLE")
# FFmpeg's own notation: 2M, 1.5k, 64Ki. It checks those itself.
_WITH_SUFFIX = re.compile(r"[-+]?[\d.]+[a-zA-Z]{1,3}")


def find_encoder(kind: str, wanted: str | None, default: str, container: str, *, known: str) -> Any:
    """The encoder of a name, as PyAV's ``Codec``.

    Args:
        kind: ``"video"`` or ``"audio"``.
        wanted: The name that the user gave; ``None`` for the default.
        default: The name of the container's default.
        container: Name of the format.
        known: Encoders that FFmpeg has, for the message.

    Raises:
        InvalidArgumentError: if there is no such encoder, or it is for something else.
    """
    name = wanted or default
    try:
        codec = av.Codec(name, "w")
    except (ValueError, av.FFmpegError):
        if wanted is None:
            raise InvalidArgumentError(
                f"The format {container} has no default {kind} codec that can be encoded here; use another format."
            ) from None
        raise InvalidArgumentError(
            f"{kind.capitalize()} codec {name} not found: FFmpeg has no encoder of this name. {known} are some that it "
            "has."
        ) from None
    if codec.type != kind:
        raise InvalidArgumentError(f"{kind.capitalize()} codec {name} not found: it is a codec for {codec.type}.")
    return codec


class NumericOption(NamedTuple):
    """The range of a number, and the words that FFmpeg takes in its place."""

    lowest: float
    highest: float
    words: frozenset[str]


@lru_cache(maxsize=64)
def numeric_options(codec_name: str) -> dict[str, NumericOption] | None:
    """The options of an encoder that are numbers, by name; ``None`` if this version of PyAV does not list options."""
    context: Any = av.CodecContext.create(codec_name, "w")
    supported = getattr(context, "supported_options", None)
    if supported is None:
        return None
    return {
        option.name: NumericOption(option.min, option.max, frozenset(choice.name for choice in option.choices))
        for option in (*supported.generic, *supported.private)
        if getattr(option.type, "name", "") in _NUMERIC_TYPES and not option.is_array
    }


def check_numeric(codec_name: str, name: str, value: str) -> None:
    """Raise unless a value fits an option of a codec; names that are no numeric option are passed over."""
    option = (numeric_options(codec_name) or {}).get(name)
    if option is None or value in option.words or _WITH_SUFFIX.fullmatch(value):
        return
    try:
        number = float(value)
    except ValueError:
        words = f" or one of {', '.join(sorted(option.words))}" if option.words else ""
        raise InvalidArgumentError(
            f"Option {name} expects a numeric value but got {value!r}; it must be from {option.lowest:g} to "
            f"{option.highest:g}{words}."
        ) from None
    if not option.lowest <= number <= option.highest:
        raise InvalidArgumentError(
            f"{name}={value} is out of valid range [{option.lowest:g}, {option.highest:g}] of the {codec_name} encoder."
        )


@contextmanager
def unused_options(options: dict[str, str]) -> Iterator[set[str]]:
    """Collects which options the container does not have, while its header is written.

    PyAV tells it only by a log record, which is kept from the user's log.
    """
    unused: set[str] = set()
    thread = threading.get_ident()

    def catch(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if record.thread != thread or "not used" not in message:
            return True
        unused.update(name for name in options if repr(name) in message)
        return False

    logger = logging.getLogger("av.container.output")
    logger.addFilter(catch)
    try:
        yield unused
    finally:
        logger.removeFilter(catch)
