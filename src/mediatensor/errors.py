"""The exceptions of mediatensor. There is one type for each condition.

Each type is also derived from the built-in exceptions that other libraries raise for the same condition. So existing
``except`` clauses keep working:

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
    "RedactionError",
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
    """Base class of all exceptions that mediatensor raises deliberately."""


class InvalidArgumentError(MediaTensorError, ValueError, TypeError, AssertionError, RuntimeError):
    """The value or the type of an argument is not accepted. The message names the argument and the accepted values.

    For such arguments, torchcodec raises ValueError, TypeError or RuntimeError, and docTR raises ValueError, TypeError
    or AssertionError.
    """


class OutOfRangeError(MediaTensorError, IndexError, ValueError, RuntimeError):
    """A frame index or a time is outside the stream."""


class SourceTypeError(MediaTensorError, TypeError, RuntimeError):
    """A source, image or destination has an unsupported type, or lacks a method such as ``read`` or ``write``."""


class OpenError(MediaTensorError, ValueError, RuntimeError):
    """The source exists, but cannot be opened, for example because its format is unknown or its header is damaged."""

    # Whether the source was read, and is not an image.
    _is_not_image = False


class SourceNotFoundError(OpenError, FileNotFoundError):
    """The path of the source does not exist."""


class ReadError(MediaTensorError, OSError, RuntimeError):
    """Reading the source failed, for example because of an I/O error, a closed file, or a faulty ``read`` method."""


class StreamError(MediaTensorError, ValueError, RuntimeError):
    """The requested stream does not exist, is of another type, or has nothing that can be decoded."""


class DecodeError(MediaTensorError, IndexError, RuntimeError):
    """A frame, audio samples or other data could not be decoded. For a frame, the message states which one."""


class DeviceError(MediaTensorError, RuntimeError):
    """A device cannot decode a stream, or failed while decoding. The message states the reason and an alternative."""


class EncodeError(MediaTensorError, RuntimeError):
    """Encoding failed: a codec or container rejected data, or methods of an encoder were called in the wrong order."""


class WriteError(MediaTensorError, OSError, RuntimeError):
    """Encoded media or another file could not be written: an unusable path, a full disk, a ``write`` that raised."""


class PageError(MediaTensorError, ValueError, RuntimeError):
    """A page of a document cannot be read or rendered. The message names the page. Other pages can still be read."""


class RedactionError(MediaTensorError, RuntimeError):
    """Text that was to be redacted can still be read in the result. The message names the pages or times."""


class WeightsError(MediaTensorError, ValueError, RuntimeError):
    """A file of model weights is damaged, is not the expected file, or does not fit the model."""


class WeightsNotFoundError(WeightsError, FileNotFoundError):
    """Model weights are missing on this machine. The message names the package to install or the file to add."""


class TooManyFailuresError(MediaTensorError, RuntimeError):
    """More consecutive files of a dataset failed than allowed, or not one row of an epoch could be read.

    The limit is the dataset's argument ``max_consecutive_failures``. The message names the last failure.
    """


class TrainingError(MediaTensorError, RuntimeError):
    """Training cannot continue, because the gradients of several steps in a row are not finite.

    The best weights so far are kept; the message names their file.
    """


class SizeChangeError(DecodeError, ValueError):
    """Frames of one batch have different sizes, or a later frame of the stream is too small for a decoder's crop.

    The message names the first frame whose size differs.
    """


class FrameIndexError(MediaTensorError, ValueError, RuntimeError):
    """A saved frame index cannot be read or written, is damaged, or belongs to another source or stream."""


class ClosedError(MediaTensorError, ValueError, RuntimeError):
    """A decoder, encoder or other object was used after ``close()``, or a demuxer was used in a forked process."""


class IsolatedWorkerError(MediaTensorError, RuntimeError):
    """A process of an `IsolatedWorker` did not finish a call. The next call gets a new process.

    Attributes:
        reason: ``"crash"`` (the process ended), ``"timeout"`` or ``"memory"`` (the call exceeded a limit),
            ``"exception"`` (the function raised an exception whose type is neither in ``mediatensor.errors`` nor built
            in) or ``"result"`` (the process sent a malformed result).

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
    """An optional package is missing. The message names the extra that installs it."""


class DamageWarning(UserWarning):
    """A video is damaged. Its frames are returned as the codec decodes them; see ``on_error`` of `VideoDecoder`."""
