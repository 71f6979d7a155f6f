"""Make sure that Ctrl-C stops a call, even if a C library drops the exception.

A signal handler raises an exception, usually `KeyboardInterrupt`, in the Python code that runs next. If this code is a
callback from a C library, the library can drop the exception. PyAV drops the exception while it raises its own error
(including the end of a file) or calls a file object. NumPy drops it while it looks up attributes. Without this module,
the work would continue without the data that the callback should have read or written, and the user would have to press
Ctrl-C again. Python itself also drops an exception, after printing it, if it is raised while an object is deleted.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, TypeVar

_Result = TypeVar("_Result")

# The signals for which programs install handlers that raise.
_SIGNALS = [int(getattr(signal, name)) for name in ("SIGINT", "SIGTERM", "SIGALRM") if hasattr(signal, name)]

# Only the main thread handles signals and changes these variables, so they need no lock.
_main_thread = threading.main_thread().ident
_open: interrupts_kept | None = None
#: The `interrupts_kept` block that holds an interrupt to raise, or ``None``.
interrupted: interrupts_kept | None = None


class _KeepingHandler:
    """A signal handler that calls the user's handler, and stores any exception that the user's handler raises."""

    def __init__(self, handler: Any, block: interrupts_kept) -> None:
        self.handler = handler
        self.block = block

    def __call__(self, signal_number: int, frame: FrameType | None) -> Any:
        try:
            return self.handler(signal_number, frame)
        except BaseException as error:
            self.block._keep(error)
            raise


class interrupts_kept:
    """A context manager that raises the exception of a signal handler even if a library has dropped it.

    It raises the exception at the end of the ``with`` block; `raise_kept_interrupt` raises it earlier. During the
    block, a `_KeepingHandler` replaces each of the user's handlers. As soon as one of the user's handlers has raised an
    exception, all of them are restored. An exception that a handler raises while the block is entered or left is raised
    immediately.
    """

    _handlers: dict[int, _KeepingHandler]
    _kept: BaseException | None = None

    def __enter__(self) -> None:
        global _open, interrupted
        self._handlers = {}
        if _open is not None or threading.get_ident() != _main_thread:
            return
        try:
            _open, interrupted = self, None
            for number in _SIGNALS:
                handler = signal.getsignal(number)
                if callable(handler):  # a Python handler
                    users_handler = handler.handler if isinstance(handler, _KeepingHandler) else handler
                    self._handlers[number] = _KeepingHandler(users_handler, self)
                    signal.signal(number, self._handlers[number])
        except BaseException:
            self._end()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        global interrupted
        if _open is self:
            self._end()
        if self._kept is not None:
            kept, self._kept = self._kept, None
            if interrupted is self:
                interrupted = None
            # If the interrupt occurred in a generator, the traceback holds the generator and closes it with
            # GeneratorExit.
            if error is not kept and kind is not GeneratorExit:
                raise kept

    def _keep(self, error: BaseException) -> None:
        global interrupted
        if _open is self:
            self._kept, interrupted = error, self
            self._end()

    def _end(self) -> None:
        """Restore the user's signal handlers, except where the user has installed another handler in the meantime."""
        global _open
        try:
            if _open is self:
                _open = None
            for number in self._handlers:
                keeping = self._handlers[number]
                if signal.getsignal(number) is keeping:
                    signal.signal(number, keeping.handler)
        except BaseException:  # a restored handler raised
            self._end()
            raise
        self._handlers = {}


def raise_kept_interrupt() -> None:
    """Raise the exception that an open `interrupts_kept` block has stored, if there is one. Call this in long loops."""
    if interrupted is not None and threading.current_thread() is threading.main_thread():
        kept = interrupted._kept
        if kept is not None:
            raise kept


def call_of_user(function: Callable[..., _Result], *args: Any) -> _Result:
    """Call a user's function while an `interrupts_kept` block is open, and return its result.

    If the function catches an interrupt itself, for example from its own timer, the block does not raise it again.
    """
    global interrupted
    before = interrupted
    result = function(*args)
    handled = interrupted
    if handled is not None and handled is not before and threading.current_thread() is threading.main_thread():
        handled._kept = interrupted = None
        handled.__enter__()  # install the handlers again for the rest of the block
    return result


def _forget() -> None:
    """End the open block in a forked child, because the block's thread does not necessarily exist there."""
    global interrupted, _main_thread
    _main_thread = threading.main_thread().ident
    if _open is not None:
        _open._end()
    interrupted = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
