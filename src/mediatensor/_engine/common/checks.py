"""Check arguments that users pass. Each function returns the argument as a plain type, or raises an error.

An argument of the wrong type or outside its bounds raises `InvalidArgumentError`. A frame index or time outside the
video raises `OutOfRangeError`. A source or destination of the wrong type raises `SourceTypeError`.

The number of frames, samples and pixels that a call can return is also limited, because a damaged file can make a call
large: if a header states a duration of years, a request for 30 frames per second has very many frames. Limits on file
contents are checked where the file is read; `docs/limits.md` lists all limits.
"""

from __future__ import annotations

import inspect
import math
import operator
import os
import reprlib
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from numbers import Integral
from typing import TYPE_CHECKING, Any, ParamSpec, SupportsIndex, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidArgumentError, OutOfRangeError, SourceTypeError
from .messages import suggestion

if TYPE_CHECKING:
    from torch import Tensor

#: FFmpeg's limit for threads, channels, pixels and rates.
MAX_INT = 2**31 - 1

#: Times at most this many seconds apart count as equal. The finest unit of times in files is a nanosecond. Up to a
#: million seconds, the rounding error of ``start + k / fps`` in float64 is smaller than the tolerance.
TIME_TOLERANCE = 0.5e-9

#: Largest number of frames that one call may request by rate or in clips: ten hours at 29 frames per second.
MAX_FRAMES_PER_CALL = 1 << 20

#: Largest number of audio samples that one call may allocate, over all channels and clips: 8 GiB as float32.
MAX_SAMPLES_PER_CALL = 1 << 31

F = TypeVar("F", bound=Callable[..., Any] | None)
P = ParamSpec("P")
T = TypeVar("T")

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 200

# Larger integers may not fit into a float for the message.
_MOST_SHOWN = 1e300


def is_tensor(value: object) -> TypeGuard[Tensor]:
    """Return whether ``value`` is a tensor, without importing torch.

    As long as nothing has imported torch, no value can be a tensor.
    """
    # While torch is being imported, it may not have the name ``Tensor`` yet.
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return tensor is not None and isinstance(value, tensor)


def shown(value: object) -> str:
    """Describe a value in an error message. The text is short, however large the value is.

    >>> shown("clip.mp4"), shown(b"many bytes"), shown(list(range(100)))
    ("'clip.mp4'", 'bytes of length 10', '[0, 1, 2, 3, 4, 5, ...]')
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{type(value).__name__} of length {len(value)}"
    if is_tensor(value) or isinstance(value, np.ndarray):
        return f"{type(value).__name__} of shape {tuple(value.shape)} and dtype {value.dtype}"
    return _SHORT.repr(value)


def whole_number(
    name: str, value: Any, *, at_least: int | None = None, at_most: int | None = None, or_none: bool = False
) -> int:
    """Return ``value`` as an int.

    Raise unless it is an integer from ``at_least`` to ``at_most``. Integers of NumPy and other libraries are accepted,
    but a bool is not. ``name`` names the argument in the error message. With ``or_none``, the message also states that
    ``None`` is accepted. The caller must handle ``None`` itself, because this function rejects it.

    >>> whole_number("batch_size", 4, at_least=1)
    4
    """
    try:
        if not isinstance(value, bool | np.bool_):
            integer = operator.index(value)
            if (at_least is None or integer >= at_least) and (at_most is None or integer <= at_most):
                return integer
    except TypeError:
        pass
    lowest = {None: "a whole number", 1: "a positive whole number"}.get(at_least, f"a whole number from {at_least} on")
    highest = "" if at_most is None else f", at most {at_most}"
    accepted = f"{lowest}{highest}{', or None' if or_none else ''}"
    raise InvalidArgumentError(f"{name} must be {accepted} (got {shown(value)}).")


def real_number(name: str, value: Any) -> float:
    """Return ``value``, a number of Python, NumPy or another library, as a float. Infinity and NaN are accepted.

    A bool is rejected, because it is likely to be meant for another argument.
    """
    try:
        if not isinstance(value, bool | np.bool_ | str | bytes | bytearray):
            return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # torch raises RuntimeError
        pass
    raise InvalidArgumentError(f"{name} must be a number (got {shown(value)}).")


def finite_number(name: str, value: Any) -> float:
    as_float = real_number(name, value)
    if not math.isfinite(as_float):
        raise InvalidArgumentError(f"{name} must be a finite number (got {shown(value)}).")
    return as_float


def finite_numbers(values: object) -> tuple[float, ...]:
    """Return ``values`` as a tuple of floats, or an empty tuple if they are not a series of finite numbers.

    >>> finite_numbers([1, 0.5]), finite_numbers(1), finite_numbers([float("nan")])
    ((1.0, 0.5), (), ())
    """
    if not isinstance(values, Iterable) or isinstance(values, bytes | bytearray):
        return ()
    try:
        return tuple(finite_number("", value) for value in values)
    except (TypeError, InvalidArgumentError):  # a TypeError for tensors and arrays without dimensions
        return ()


def is_integer(value: object) -> bool:
    """Return whether ``value`` is an integer of Python, NumPy or any other library. A bool does not count."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def path_text(name: str, value: Any) -> str:
    if isinstance(value, (str, os.PathLike)):
        return os.fsdecode(value)
    raise SourceTypeError(f"{name} must be a path, a str or a pathlib.Path (got {shown(value)}).")


def function(name: str, value: F) -> F:
    if value is None or callable(value):
        return value
    raise InvalidArgumentError(f"{name} must be a function, or None (got {shown(value)}).")


def options_dict(name: str, value: Any, *takers: Callable[..., object]) -> dict[str, Any]:
    """Return a copy of ``value``, a dictionary of keyword arguments.

    If ``value`` is ``None``, return an empty dictionary. With ``takers``, each keyword must be a keyword-only parameter
    of one of these functions.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidArgumentError(f"{name} must be a dict from names to values, or None (got {shown(value)}).")
    parameters = [parameter for taker in takers for parameter in inspect.signature(taker).parameters.values()]
    known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    unknown = [key for key in value if key not in known]
    if takers and unknown:
        raise InvalidArgumentError(f"{name} has {unknown[0]!r}, which is not one of {', '.join(known)}.")
    return dict(value)


def refuse_unknown(function_name: str, given: Iterable[str], accepted: Collection[str]) -> None:
    """Raise an error for the first of the ``given`` keyword arguments that is not among the ``accepted`` ones."""
    for name in given:
        if name not in accepted:
            others = ", ".join(accepted)
            hint = suggestion(name, accepted) or (f"; it also takes {others}." if others else ".")
            raise InvalidArgumentError(f"{function_name}() got an unexpected keyword argument {name!r}{hint}")


def optional_text(name: str, value: str | None) -> None:
    if value is not None and not isinstance(value, str):
        raise InvalidArgumentError(f"{name} must be a str, or None (got {shown(value)}).")


def items_of(name: str, values: Iterable[T], *, of: str) -> list[T]:
    """Return the items of ``values`` as a list. Raise if it is a string or not iterable.

    ``of`` is the word for the items in the error message, such as "paths".
    """
    # Arrays and tensors without dimensions have `__iter__`, but cannot be iterated.
    is_series = isinstance(values, Iterable) and getattr(values, "ndim", 1) != 0
    if is_series and not isinstance(values, (str, bytes, bytearray)):
        return list(values)
    raise InvalidArgumentError(f"{name} must be a series of {of} (got {shown(values)}).")


def fits_int64(number: SupportsIndex) -> bool:
    return -(2**63) <= operator.index(number) < 2**63


def number_array(name: str, value: Any) -> NDArray[Any]:
    """Return an array of numbers, or a list of numbers as an array. Raise for all other values."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):  # lists of different lengths; tensors on a device
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        raise InvalidArgumentError(f"{name} must be an array of numbers (got {shown(value)}).")
    return array


def image_size(name: str, value: Any) -> tuple[float, float]:
    """Return ``value`` as a tuple (height, width). Raise unless it has two numbers."""
    size = finite_numbers(value)
    if len(size) != 2:
        raise InvalidArgumentError(f"{name} must be (height, width) (got {shown(value)}).")
    return size[0], size[1]


def checked(**checks: Callable[[str, Any], Any]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function so that arguments are checked and converted before each call.

    Each item of ``checks`` is for the parameter of that name. It is a function such as `finite_number`, which takes the
    name and the value, and returns the value to pass on, or raises an error.

    >>> @checked(angle=finite_number)
    ... def doubled(angle: float) -> float:
    ...     return 2 * angle
    >>> doubled(1)
    2.0
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        names = list(inspect.signature(function).parameters)
        positions = [(names.index(name), name, check) for name, check in checks.items()]

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            given: list[Any] = list(args)
            named: dict[str, Any] = dict(kwargs)
            for position, name, check in positions:
                if position < len(given):
                    given[position] = check(name, given[position])
                elif name in named:
                    named[name] = check(name, named[name])
            return function(*given, **named)

        return call

    return decorate


def check_choice(name: str, value: object, accepted: Sequence[object]) -> None:
    if value not in accepted:
        supported = ", ".join(repr(choice) if choice == "auto" else str(choice) for choice in accepted)
        raise InvalidArgumentError(f"Invalid {name} ({value}). Supported values are {supported}.")


def check_num_threads(num_ffmpeg_threads: int | None) -> None:
    if num_ffmpeg_threads is None:
        return
    try:
        whole_number("num_ffmpeg_threads", num_ffmpeg_threads, at_least=0, at_most=MAX_INT)
    except InvalidArgumentError:
        raise InvalidArgumentError(
            f"num_ffmpeg_threads = {shown(num_ffmpeg_threads)} should be an int of at least 0 (0 lets FFmpeg decide), "
            "or None for the process's thread budget."
        ) from None


# Frames and times of a video


def valid_index(index: int, num_frames: int, stream_index: int) -> int:
    """Return a frame index from 0 to ``num_frames`` - 1. A negative ``index`` counts from the end, as in a list.

    Raises `OutOfRangeError` if the video does not have the frame. ``stream_index`` is only for the error message.
    """
    if index < -num_frames:
        raise OutOfRangeError(
            f"Invalid frame index={index} for stream_index={stream_index}; negative indices must have an absolute "
            f"value of at most the number of frames, {num_frames}."
        )
    if index >= num_frames:
        raise OutOfRangeError(
            f"Invalid frame index={index} for stream_index={stream_index}; must be less than {num_frames}."
        )
    return index + num_frames if index < 0 else index


def index_of(index: SupportsIndex) -> int:
    """Return a frame index as an int, or raise the same errors as `indices_of`.

    A float in a tensor is truncated, as in `indices_of`.
    """
    try:
        return operator.index(index)
    except TypeError:
        return indices_of(index if is_tensor(index) and index.numel() == 1 else [index])[0]


def indices_of(indices: Tensor | Sequence[SupportsIndex] | NDArray[Any]) -> list[int]:
    """Return frame indices as ints. A single index counts as a series of one, as in torchcodec.

    Floats in a tensor or an array are truncated, as in torchcodec. A list of floats is refused.
    """
    if (is_tensor(indices) or isinstance(indices, np.ndarray)) and str(indices.dtype) in ("torch.bool", "bool"):
        raise InvalidArgumentError(
            f"indices must be a series of whole numbers (got {shown(indices)}); pass the indices that a mask selects."
        )
    if is_tensor(indices):
        if indices.is_complex() or indices.is_meta:
            raise InvalidArgumentError(
                f"indices must be a series of whole numbers (got {shown(indices)} on {str(indices.device)!r})."
            )
        return [int(i) for i in (indices.long() if indices.is_floating_point() else indices).flatten().tolist()]
    if isinstance(indices, np.ndarray) and indices.dtype.kind in "iuf":
        return [int(i) for i in (indices.astype(np.int64) if indices.dtype.kind == "f" else indices).ravel().tolist()]
    series: Any = [indices] if is_integer(indices) else indices
    try:
        return [operator.index(i) for i in series]
    except TypeError as error:
        # Use torch's wording for a list of floats, because callers may match it.
        is_series = isinstance(indices, Iterable)
        kind = "Float" if is_series and any(isinstance(i, float) for i in indices) else "another type"
        raise InvalidArgumentError(
            f"indices must be a series of whole numbers (got {shown(indices)}: {error}); "
            f"expected Long but found {kind}."
        ) from None


def seconds_of(seconds: Tensor | Sequence[float] | NDArray[Any] | float) -> NDArray[np.float64]:
    """Return times as a 1-D float64 array, or as a float32 array if ``seconds`` is float32 of torch or NumPy."""
    import torch

    type_name = str(getattr(seconds, "dtype", type(seconds).__name__))
    is_single = type_name.endswith("float32")
    try:
        if type_name in ("bool", "torch.bool"):
            raise TypeError("a bool is not a number")
        dtype = torch.float32 if is_single else torch.float64
        return torch.as_tensor(seconds, dtype=dtype, device="cpu").numpy().ravel()
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InvalidArgumentError(
            f"Couldn't convert timestamps input to a tensor: seconds must be a number or a series of numbers "
            f"(got {shown(seconds)}: {error})."
        ) from None


def one_time(seconds: float) -> NDArray[np.float64]:
    """Return one time as an array with one element, as in `seconds_of`. Raise unless ``seconds`` is a single number."""
    times = seconds_of(seconds)
    if len(times) != 1:
        raise InvalidArgumentError(f"seconds must be one number (got {shown(seconds)}); other methods take several.")
    return times


def latest(seconds: NDArray[Any]) -> NDArray[np.float64]:
    """Return, for each of ``seconds``, the latest time that counts as equal to it.

    Times count as equal if they differ by at most `TIME_TOLERANCE` or by the precision of floats.

    >>> sum([0.1] * 10) < 1.0, bool(latest(np.array([sum([0.1] * 10)]))[0] >= 1.0)
    (True, True)
    """
    tolerance = np.fmax(TIME_TOLERANCE, 2 * np.spacing(np.abs(seconds)))  # the spacing at infinity is NaN
    times: NDArray[np.float64] = seconds.astype(np.float64) + tolerance
    return times


def check_seconds(seconds: NDArray[np.float64], begin: float, end: float) -> None:
    outside = ~((latest(seconds) >= begin) & (seconds < end))  # true for NaN
    if outside.any():
        raise OutOfRangeError(
            f"Invalid pts in seconds: {float(seconds[outside][0])}. It must be greater than or equal to {begin} "
            f"and less than {end}."
        )


def check_no_nan(seconds: NDArray[np.float64]) -> None:
    """Raise if one of ``seconds`` is NaN. This is for functions that accept times before and after the stream."""
    if np.isnan(seconds).any():
        raise InvalidArgumentError("seconds must not be NaN; give a time in seconds. Infinity is accepted.")


def bounds_of(start: int | None, stop: int | None, step: int | None) -> tuple[int | None, int | None, int | None]:
    """Return the ``start``, ``stop`` and ``step`` of a slice as ints or ``None``. Raise if one is another type."""
    named = (("start", start), ("stop", stop), ("step", step))
    try:
        start, stop, step = (None if value is None else operator.index(value) for _, value in named)
    except TypeError:
        for name, value in named:
            if value is not None:
                whole_number(name, value, or_none=True)
        raise
    return start, stop, step


def frame_range(start: int | None, stop: int | None, step: int | None, num_frames: int) -> range:
    """Return the indices that the slice ``start:stop:step`` selects from ``num_frames`` frames.

    >>> frame_range(-3, None, 1, 10), frame_range(8, 2, 1, 10)
    (range(7, 10), range(8, 2))
    """
    if step is not None and step <= 0:
        raise InvalidArgumentError(f"Step must be greater than 0; is {step}. Use reversed(decoder) to go backwards.")
    return range(*slice(start, stop, step).indices(num_frames))


def check_seconds_range(start: float, stop: float, begin: float, end: float) -> None:
    """Raise unless begin <= start < end and start <= stop <= end."""
    if not start <= stop:
        raise InvalidArgumentError(
            f"Invalid start seconds: {start}. It must be less than or equal to stop seconds ({stop})."
        )
    if not begin - TIME_TOLERANCE <= start < end:
        raise OutOfRangeError(
            f"Invalid start seconds: {start}. It must be greater than or equal to {begin} and less than {end}."
        )
    if not stop <= end + TIME_TOLERANCE:
        raise OutOfRangeError(f"Invalid stop seconds: {stop}. It must be less than or equal to {end}.")


def frame_rate_times(start: float, stop: float, fps: float) -> NDArray[np.float64]:
    """Return the times ``start + k / fps`` for k = 0, 1, 2 ..., up to ``stop``.

    The number of times is (stop - start) * fps, rounded; a half is rounded up.

    >>> frame_rate_times(0.0, 1.0, 4)
    array([0.  , 0.25, 0.5 , 0.75])
    """
    fps = real_number("fps", fps)
    if not (fps > 0 and math.isfinite(fps)):
        raise InvalidArgumentError(f"fps must be positive, got {fps}")
    check_frames((stop - start) * fps, f"fps ({fps}) over {stop - start} seconds")
    # Add slightly more than a half, because the product may be slightly too small from rounding.
    return start + np.arange(math.floor((stop - start) * fps + 0.5 + 1e-9)) / fps


def check_frames(count: float, asked_by: str) -> None:
    """Raise `InvalidArgumentError` if a call asks for more than `MAX_FRAMES_PER_CALL` frames.

    The error message starts with ``asked_by``, which names the argument that asks for ``count`` frames.
    """
    _check(count, MAX_FRAMES_PER_CALL, "frames", asked_by)


def check_samples(count: float, asked_by: str) -> None:
    """Raise like `check_frames` for more than `MAX_SAMPLES_PER_CALL` samples, in total over all channels and clips."""
    _check(count, MAX_SAMPLES_PER_CALL, "samples", asked_by)


def check_max_pixels(max_pixels: Any) -> int | None:
    """Return ``max_pixels`` as an int, or ``None``, which means no limit. Raise unless it is positive or ``None``."""
    if max_pixels is None:
        return None
    try:
        return whole_number("max_pixels", max_pixels, at_least=1)
    except InvalidArgumentError:
        raise InvalidArgumentError(
            f"max_pixels = {shown(max_pixels)} should be a positive int, or None for no limit."
        ) from None


def _check(count: float, most: int, unit: str, asked_by: str) -> None:
    if not count <= most:
        raise InvalidArgumentError(
            f"{asked_by} asks for {min(count, _MOST_SHOWN):.7g} {unit}, and one call gives {most} at most. "
            "Ask for fewer, in several calls."
        )
