"""The main program of an isolated process, which serves calls from a socket until the socket is closed."""

from __future__ import annotations

import faulthandler
import io
import itertools
import os
import pickle
import runpy
import signal
import socket
import sys
import types
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple

from ..errors import InvalidArgumentError
from . import _child
from ._child import can_deny_network, deny_system_calls, end_with_parent, limited_memory, no_core_dumps
from ._values import MAX_NUM_VALUES, encode, extent_of, failure_of, ran_out_of_memory

#: Name of the main module in the child. As in ``multiprocessing``, ``__name__ == "__main__"`` must be false there.
CHILD_MAIN = "__mp_main__"

_state = {"is_importing": False, "is_imported": False}


class MainModule(NamedTuple):
    """The name of a main module that was started with ``python -m``, and its path; ``None`` in a notebook."""

    name: str | None
    path: str | None


def this_main() -> MainModule:
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    path = getattr(main, "__file__", None)
    if path is None or not os.path.isfile(path):
        return MainModule(None, None)
    return MainModule(spec.name if spec else None, os.path.abspath(path))


def is_importing_main() -> bool:
    """Return whether this process is a child that is importing the main module."""
    return _state["is_importing"]


def _import_main(main: MainModule) -> None:
    if _state["is_imported"] or main.path is None:
        return
    _state["is_importing"] = True
    try:
        if main.name is not None:
            found = runpy.run_module(main.name, run_name=CHILD_MAIN, alter_sys=True)
        else:
            found = runpy.run_path(main.path, run_name=CHILD_MAIN)
    finally:
        _state["is_importing"] = False
    module = types.ModuleType(CHILD_MAIN)
    vars(module).update(found)
    sys.modules["__main__"] = sys.modules[CHILD_MAIN] = module
    _state["is_imported"] = True


class Kind:
    """The kinds of messages. The parent sends ``SETTINGS`` and ``CALL``, the child sends the rest."""

    SETTINGS = b"S"
    CALL = b"C"
    READY = b"R"
    LOADED = b"L"
    VALUE = b"V"
    FAILURE = b"F"
    NOT_LOADED = b"N"
    OUT_OF_MEMORY = b"M"


class Settings(NamedTuple):
    timeout_seconds: float | None
    max_memory_bytes: int | None
    denies_network: bool
    main: MainModule


class _Unpickler(pickle.Unpickler):
    """Unpickles trusted data from the parent, and imports the parent's main module if the data refer to it."""

    def __init__(self, data: Any, main_module: MainModule) -> None:
        super().__init__(io.BytesIO(data))
        self._main = main_module

    def find_class(self, module: str, name: str) -> Any:
        if module == "__main__":
            _import_main(self._main)
        return super().find_class(module, name)


def main(descriptor: int, fault_descriptor: int) -> None:
    """Serve the parent's calls, which come from the socket ``descriptor``.

    If this process crashes, Python writes a stack trace to the file ``fault_descriptor``.
    """
    # Functions must not write to the parent's standard output.
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    no_core_dumps()
    faulthandler.enable(fault_descriptor)
    connection = socket.socket(fileno=descriptor)
    end_with_parent(connection)
    try:
        settings = _start(connection)
        for number in itertools.count():
            _serve(connection, fault_descriptor, settings, is_first=number == 0)
    except (EOFError, ConnectionError):
        sys.exit()


def _start(connection: socket.socket) -> Settings:
    settings: Settings = pickle.loads(_child.receive(connection).contents.numpy().data)
    if can_deny_network():
        # If the network is not to be denied, the filter only restricts process groups, so its failure is ignored.
        with nullcontext() if settings.denies_network else suppress(OSError):
            deny_system_calls(denies_network=settings.denies_network)
    _child.send(connection, Kind.READY, b"")
    return settings


def _serve(connection: socket.socket, fault_descriptor: int, settings: Settings, *, is_first: bool) -> None:
    def start_timer() -> None:
        if settings.timeout_seconds is not None:
            # The timer's thread ends the process even if a library holds the interpreter lock or the parent has ended.
            faulthandler.dump_traceback_later(settings.timeout_seconds, exit=True, file=fault_descriptor)

    call = _child.receive(connection).contents.numpy().data
    own_pid = os.getpid()
    try:
        if not is_first:
            start_timer()
        try:
            function, arguments, keywords = _Unpickler(call, settings.main).load()
        except Exception as error:
            _child.send(connection, Kind.NOT_LOADED, *encode(failure_of(error)))
            return
        del call
        _child.send(connection, Kind.LOADED, b"")
        if is_first:
            start_timer()
        with limited_memory(settings.max_memory_bytes):
            answer = _answer(function, arguments, keywords, is_limited=settings.max_memory_bytes is not None)
        if os.getpid() != own_pid:
            # The called function has forked, and this is the copy. The parent would mistake its answer for the answer
            # to the next call.
            os._exit(0)
        _child.send(connection, *answer)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _answer(function: Any, arguments: Any, keywords: Any, *, is_limited: bool) -> tuple[bytes, bytes, list[memoryview]]:
    try:
        value = function(*arguments, **keywords)
        return (Kind.VALUE, *_encode_result(value))
    except BaseException as error:
        kind = Kind.OUT_OF_MEMORY if is_limited and ran_out_of_memory(error) else Kind.FAILURE
        return (kind, *encode(failure_of(error)))


def _encode_result(value: Any) -> tuple[bytes, list[memoryview]]:
    try:
        structure, contents = encode(value)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"The function returned {error}, which cannot be sent from an isolated process. It can return numbers, "
            "text, bytes, lists, tuples, dictionaries with plain keys, tensors, arrays and results of mediatensor. "
            "Return the parts of the object that you need in this form."
        ) from None
    if len(structure) > _child.MAX_BODY_BYTES:
        raise InvalidArgumentError(
            f"The function returned {len(structure)} bytes in addition to tensors, arrays and bytes, but at most "
            f"{_child.MAX_BODY_BYTES} can be sent from an isolated process. Return long lists as arrays."
        )
    if (num_values := extent_of(structure).num_values) > MAX_NUM_VALUES:
        raise InvalidArgumentError(
            f"The function returned {num_values} values in addition to tensors, arrays and bytes, but at most "
            f"{MAX_NUM_VALUES} can be sent from an isolated process. Return long lists as arrays."
        )
    return structure, contents
