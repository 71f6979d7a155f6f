"""Keep interrupts that would otherwise be lost.

A signal's exception, usually `KeyboardInterrupt`, is raised in the Python code that runs next. If that code is a
callback from a C library, the library may drop the exception. PyAV drops exceptions while it raises its own error (the
end of a file included) or calls a file object, and NumPy while it looks up attributes. The work would then continue
without the data that the callback failed to read or write, and the user would have to press Ctrl-C again. Python itself
drops, and reports, exceptions that are raised while an object is deleted.
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
    """A signal handler that calls the user's handler, and stores the exception that this raises."""

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
    """A ``with`` block at whose end a signal handler's exception is raised again if a library has swallowed it.

    `raise_kept_interrupt` raises the exception earlier. The user's handlers are restored as soon as one of them raises.
    A handler may raise while the block is being entered or left, and then no other code of this class runs.
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
            # If the interrupt left a generator inside its block, the generator is closed with the traceback.
            if error is not kept and kind is not GeneratorExit:
                raise kept

    def _keep(self, error: BaseException) -> None:
        global interrupted
        if _open is self:
            self._kept, interrupted = error, self
            self._end()

    def _end(self) -> None:
        """Restore the user's handlers, except handlers that the user has replaced since."""
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
    """Raise the exception that `interrupts_kept` keeps, if any. Long loops within its block call this."""
    if interrupted is not None and threading.current_thread() is threading.main_thread():
        kept = interrupted._kept
        if kept is not None:
            raise kept


def call_of_user(function: Callable[..., _Result], *args: Any) -> _Result:
    """Call a user's function, without keeping an interrupt that the function handles itself (its own timeout)."""
    global interrupted
    before = interrupted
    result = function(*args)
    handled = interrupted
    if handled is not None and handled is not before and threading.current_thread() is threading.main_thread():
        handled._kept = interrupted = None
        handled.__enter__()  # install the handlers again for the rest of the block
    return result


def _forget() -> None:
    """End the open block in a forked process, because the only thread there may be outside the block."""
    global interrupted, _main_thread
    _main_thread = threading.main_thread().ident
    if _open is not None:
        _open._end()
    interrupted = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
