"""Encoders by name, which options they have, and whether values fit them."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, NamedTuple

import av

from ...errors import InvalidArgumentError

__all__ = ["WITHOUT_LOG", "encoder_options", "fault_in", "find_encoder", "options_of_all_encoders", "unused_options"]

#: For every encoder: its log is for nobody. Freeing or opening one waits for its threads, or for those that open
#: another, and holds the interpreter's lock, which they would want where the application has PyAV hand over FFmpeg's
#: log (``av.logging.set_level``). An encoder that is given up cannot be made to rest like a decoder (see
#: `packet_decoder.let_rest`).
WITHOUT_LOG = {"log_level_offset": str(1 << 30)}

# Numbers of FFmpeg's AVOptionType.
_NUMERIC_TYPES = ("INT", "INT64", "UINT", "UINT64", "FLOAT", "DOUBLE")
# FFmpeg's own notation: 2M, 1.5k, 64Ki, 0x10.
_NUMBER = re.compile(r"[-+]?(0x[\da-fA-F]+|(\d+\.?\d*|\.\d+)(e[-+]?\d+)?([yzafpnumcdhkKMGTPEZY]i?)?B?)")
_EXPRESSION = re.compile(r"[*/()^;]|[^e]\b[-+]")
_GENERAL_WORDS = ("default", "max", "min", "none", "all")
_BOOLEANS = frozenset(
    (
        "1",
        "0",
        "-1",
        "auto",
        "true",
        "y",
        "yes",
        "enable",
        "enabled",
        "on",
        "false",
        "n",
        "no",
        "disable",
        "disabled",
        "off",
    )
)


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


class EncoderOption(NamedTuple):
    """What FFmpeg tells of an option.

    Attributes:
        kind: FFmpeg's name of its type, such as ``"INT"`` or ``"FLAGS"``.
        lowest, highest: Bounds of a number.
        words: Named values.
    """

    kind: str
    lowest: float
    highest: float
    words: tuple[str, ...]


@lru_cache(maxsize=64)
def encoder_options(codec_name: str) -> dict[str, EncoderOption]:
    """The options of an encoder by name; those of its own go before FFmpeg's general ones, as FFmpeg takes them."""
    context: Any = av.CodecContext.create(codec_name, "w")
    supported = context.supported_options
    return {
        option.name: EncoderOption(
            "ARRAY" if option.is_array else getattr(option.type, "name", ""),
            option.min,
            option.max,
            tuple(choice.name for choice in option.choices),
        )
        for option in (*supported.generic, *supported.private)
    }


@lru_cache(maxsize=1)
def options_of_all_encoders() -> frozenset[str]:
    """Every option that some encoder has."""
    names: set[str] = set()
    for name in av.codecs_available:
        with suppress(ValueError, av.FFmpegError):  # decoders
            names.update(encoder_options(av.Codec(name, "w").name))
    return frozenset(names)


def fault_in(codec_name: str, options: dict[str, str]) -> str | None:
    """Which value an encoder cannot take, in words; ``None`` if it is none that FFmpeg's list of options tells.

    FFmpeg itself parses values (numbers, names, sums of flags, expressions, ratios, durations ...), and where it cannot
    says no more than that. This is for the message.

    >>> fault_in("libx264", {"crf": "-10"})
    'crf=-10 is out of valid range [-1, 3.40282e+38] of the libx264 encoder.'
    >>> fault_in("libx264", {"profile": "baseline", "g": "2*12", "flags": "+cgop"})
    """
    known = encoder_options(codec_name)
    return next(
        (fault for name in options if (fault := _fault(codec_name, name, options[name], known.get(name)))), None
    )


def _fault(codec_name: str, name: str, value: str, option: EncoderOption | None) -> str | None:
    if option is None:
        return None
    if option.kind == "BOOL" and value.lower() not in _BOOLEANS:
        return f"Option {name} expects true or false but got {value!r}."
    if option.kind == "FLAGS":
        parts = [part for part in re.split(r"[+-]", value) if part]
        wrong = [part for part in parts if part not in (*option.words, *_GENERAL_WORDS) and not _NUMBER.fullmatch(part)]
        if wrong:
            names = ", ".join(option.words)
            return f"Option {name} expects names joined by + or -, of {names}, but got {value!r}."
    if option.kind not in _NUMERIC_TYPES or value in (*option.words, *_GENERAL_WORDS):
        return None
    try:
        number = float(value)
    except ValueError:
        if _NUMBER.fullmatch(value) or _EXPRESSION.search(value):
            return None
        words = f" or one of {', '.join(sorted(option.words))}" if option.words else ""
        return (
            f"Option {name} expects a numeric value but got {value!r}; it must be from {option.lowest:g} to "
            f"{option.highest:g}{words}."
        )
    if not option.lowest <= number <= option.highest:
        bounds = f"[{option.lowest:g}, {option.highest:g}]"
        return f"{name}={value} is out of valid range {bounds} of the {codec_name} encoder."
    return None


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
