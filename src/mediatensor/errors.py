"""The exceptions of mediatensor: one type for one condition, everywhere.

Each type also derives from the built-in exceptions that other libraries raise for the same condition,
so that ``except`` clauses written for them keep working:

>>> from mediatensor.errors import OutOfRangeError
>>> issubclass(OutOfRangeError, IndexError) and issubclass(OutOfRangeError, RuntimeError)
True
"""

from __future__ import annotations

__all__ = [
    "ClosedError",
    "DamageWarning",
    "DecodeError",
    "DeviceError",
    "EncodeError",
    "FrameIndexError",
    "InvalidArgumentError",
    "IsolatedWorkerError",
    "MediaTensorError",
    "MissingDependencyError",
    "OpenError",
    "OutOfRangeError",
    "PageError",
    "ReadError",
    "SizeChangeError",
    "SourceNotFoundError",
    "SourceTypeError",
    "StreamError",
    "TooManyFailuresError",
    "TrainingError",
    "WeightsError",
    "WeightsNotFoundError",
    "WriteError",
]


class MediaTensorError(Exception):
    """Base class of every exception that mediatensor raises on purpose."""


class InvalidArgumentError(MediaTensorError, ValueError, TypeError, AssertionError, RuntimeError):
    """An argument has a value or a type that is not accepted; the message names it, and accepted values.

    torchcodec raises ValueError, TypeError or RuntimeError here, docTR ValueError, TypeError or AssertionError.
    """


class OutOfRangeError(MediaTensorError, IndexError, ValueError, RuntimeError):
    """A frame index or a time lies outside the stream."""


class SourceTypeError(MediaTensorError, TypeError, RuntimeError):
    """The source is of a type that cannot be read, or lacks a method that reading needs."""


class OpenError(MediaTensorError, ValueError, RuntimeError):
    """The source was found but is not media that FFmpeg can open."""


class SourceNotFoundError(OpenError, FileNotFoundError):
    """The path of the source does not exist."""


class ReadError(MediaTensorError, OSError, RuntimeError):
    """Reading the source failed: an I/O error, a closed file, or a ``read`` that breaks its contract."""


class StreamError(MediaTensorError, ValueError, RuntimeError):
    """The stream asked for does not exist, is of another type, or has nothing to decode."""


class DecodeError(MediaTensorError, IndexError, RuntimeError):
    """A frame that the index lists could not be decoded; the message names the frame."""


class DeviceError(MediaTensorError, RuntimeError):
    """A device cannot decode a stream, or stopped midway; the message has the reason and an alternative."""


class EncodeError(MediaTensorError, RuntimeError):
    """Encoding failed: a codec or a container refused, or methods of an encoder were called in the wrong order."""


class WriteError(MediaTensorError, OSError, RuntimeError):
    """The encoded media could not be written: a path that cannot be opened, a full disk, a ``write`` that raised."""


class PageError(MediaTensorError, ValueError, RuntimeError):
    """One page of a document cannot be read or rendered; the message names it. Other pages are not affected."""


class WeightsError(MediaTensorError, ValueError, RuntimeError):
    """A file of model weights is damaged, is not the expected one, or does not fit the model."""


class WeightsNotFoundError(WeightsError, FileNotFoundError):
    """No weights for a model on this machine; the message names the package to install or the file to add."""


class TooManyFailuresError(MediaTensorError, RuntimeError):
    """Files of a dataset failed one after the other, more than its error policy allows; the last is the cause."""


class TrainingError(MediaTensorError, RuntimeError):
    """A training cannot continue; its results so far are kept."""


class SizeChangeError(DecodeError, ValueError):
    """Frames of one batch have different sizes; the message names the first one that differs."""


class FrameIndexError(MediaTensorError, ValueError, RuntimeError):
    """A saved frame index cannot be read or written, is damaged, or belongs to another source or stream."""


class ClosedError(MediaTensorError, ValueError, RuntimeError):
    """A decoder or an encoder was used after ``close()``."""


class IsolatedWorkerError(MediaTensorError, RuntimeError):
    """The process of isolated work did not finish it; the next call gets a new one.

    Attributes:
        reason: ``"crash"`` (the process ended), ``"timeout"``, ``"memory"``, ``"exception"`` (the function raised one
            of a type that is neither of ``mediatensor.errors`` nor of Python) or ``"result"`` (the process sent a
            malformed result).

    Example:
        >>> from mediatensor.errors import IsolatedWorkerError
        >>> IsolatedWorkerError("The isolated process ended: SIGSEGV.", "crash").reason
        'crash'
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> tuple[type[IsolatedWorkerError], tuple[str, str]]:
        return type(self), (str(self), self.reason)


class MissingDependencyError(MediaTensorError, ImportError):
    """An optional package is needed; the message names the extra that installs it."""


class DamageWarning(UserWarning):
    """A video is damaged, and its frames are given as the codec makes them; see ``on_error`` of `VideoDecoder`."""
