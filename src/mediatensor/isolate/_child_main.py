"""The program of an isolated process: it serves calls from a socket until the socket is closed."""

from __future__ import annotations

import faulthandler
import io
import os
import pickle
import signal
import socket
import sys
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple

from ..errors import InvalidArgumentError
from . import _channel
from ._confinement import can_deny_network, deny_system_calls, end_with_parent, limited_memory, no_core_dumps
from ._failures import failure_of, ran_out_of_memory
from ._result_types import MainModule, import_main
from ._values import MAX_NUM_VALUES, encode, extent_of

__all__ = ["Kind", "Settings", "main"]


class Kind:
    """The kinds of messages: two from the parent, the others from the child."""

    SETTINGS = b"S"
    CALL = b"C"
    READY = b"R"
    LOADED = b"L"
    VALUE = b"V"
    FAILURE = b"F"
    NOT_LOADED = b"N"
    OUT_OF_MEMORY = b"M"


class Settings(NamedTuple):
    """The limits of a child.

    Attributes:
        timeout_seconds: Most seconds of a call.
        max_memory_bytes: Most memory of a call.
        denies_network: Whether opening sockets is forbidden.
        main: The main module of the parent.
    """

    timeout_seconds: float | None
    max_memory_bytes: int | None
    denies_network: bool
    main: MainModule


class _Unpickler(pickle.Unpickler):
    """Reads what the parent sent, which is trusted. Functions of the parent's main module come from a copy of it."""

    def __init__(self, data: Any, main_module: MainModule) -> None:
        super().__init__(io.BytesIO(data))
        self._main = main_module

    def find_class(self, module: str, name: str) -> Any:
        if module == "__main__":
            import_main(self._main)
        return super().find_class(module, name)


def main(descriptor: int, fault_descriptor: int) -> None:
    """Serve calls.

    Args:
        descriptor: Descriptor of the socket to the parent.
        fault_descriptor: Descriptor of a file for Python's trace of a crash.
    """
    # Functions must not print to the parent's standard output.
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    no_core_dumps()
    faulthandler.enable(fault_descriptor)
    connection = socket.socket(fileno=descriptor)
    end_with_parent(connection)
    try:
        settings = _start(connection)
        _serve(connection, fault_descriptor, settings, is_first=True)
        while True:
            _serve(connection, fault_descriptor, settings, is_first=False)
    except (EOFError, ConnectionError):
        sys.exit()


def _start(connection: socket.socket) -> Settings:
    settings: Settings = pickle.loads(_channel.receive(connection).contents.numpy().data)
    if can_deny_network():
        # Denying process groups alone is an extra: the process goes on where the kernel refuses.
        with nullcontext() if settings.denies_network else suppress(OSError):
            deny_system_calls(denies_network=settings.denies_network)
    _channel.send(connection, Kind.READY, b"")
    return settings


def _serve(connection: socket.socket, fault_descriptor: int, settings: Settings, *, is_first: bool) -> None:
    def begin_time() -> None:
        if settings.timeout_seconds is not None:
            # Its thread ends the process even while a library holds the interpreter lock, or the parent is gone.
            faulthandler.dump_traceback_later(settings.timeout_seconds, exit=True, file=fault_descriptor)

    call = _channel.receive(connection).contents.numpy().data
    own_pid = os.getpid()
    try:
        if not is_first:
            begin_time()
        try:
            function, arguments, keywords = _Unpickler(call, settings.main).load()
        except Exception as error:
            _channel.send(connection, Kind.NOT_LOADED, *encode(failure_of(error)))
            return
        del call
        _channel.send(connection, Kind.LOADED, b"")
        if is_first:
            begin_time()
        with limited_memory(settings.max_memory_bytes):
            answer = _answer(function, arguments, keywords, is_limited=settings.max_memory_bytes is not None)
        if os.getpid() != own_pid:
            # The function forked, and this is its copy: a second answer would be taken for that of the next call.
            os._exit(0)
        _channel.send(connection, *answer)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _answer(function: Any, arguments: Any, keywords: Any, *, is_limited: bool) -> tuple[bytes, bytes, list[memoryview]]:
    try:
        value = function(*arguments, **keywords)
        return (Kind.VALUE, *_encoded(value))
    except BaseException as error:
        kind = Kind.OUT_OF_MEMORY if is_limited and ran_out_of_memory(error) else Kind.FAILURE
        return (kind, *encode(failure_of(error)))


def _encoded(value: Any) -> tuple[bytes, list[memoryview]]:
    try:
        structure, contents = encode(value)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"The function returned {error}, which cannot come back from an isolated process: numbers, text, bytes, "
            "lists, tuples, dictionaries with plain keys, tensors, arrays and the results of mediatensor can. Return "
            "the parts of it that you need as such values."
        ) from None
    if len(structure) > _channel.MAX_BODY_BYTES:
        raise InvalidArgumentError(
            f"The function returned {len(structure)} bytes beside tensors, arrays and bytes, and at most "
            f"{_channel.MAX_BODY_BYTES} come back from an isolated process. Return long lists as arrays."
        )
    if (num_values := extent_of(structure).num_values) > MAX_NUM_VALUES:
        raise InvalidArgumentError(
            f"The function returned {num_values} values beside those in tensors, arrays and bytes, and at most "
            f"{MAX_NUM_VALUES} come back from an isolated process. Return long lists as arrays."
        )
    return structure, contents
