"""A video loader for vLLM that implements the protocol of its ``VIDEO_LOADER_REGISTRY``.

If this library is installed, vLLM calls `register`. ``VLLM_VIDEO_LOADER_BACKEND=mediatensor`` then selects the loader.
Videos are untrusted, so they are decoded in separate processes with time and memory limits.

>>> from pathlib import Path
>>> from mediatensor.compat.vllm import VideoLoader
>>> data = Path("video.mp4").read_bytes()
>>> frames, metadata = VideoLoader.load_bytes(data, num_frames=4, timeout_seconds=None)
>>> frames.shape, metadata["frames_indices"], metadata["do_sample_frames"]
((4, 360, 640, 3), [0, 99, 199, 299], False)
"""

from __future__ import annotations

import importlib
import inspect
import math
import os
import threading
import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from types import new_class
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._engine.common.checks import items_of, real_number, shown, whole_number
from .._engine.common.messages import warn_user
from ..decoders import VideoDecoder
from ..errors import (
    DecodeError,
    InvalidArgumentError,
    IsolatedWorkerError,
    MissingDependencyError,
    OpenError,
    ReadError,
)
from ..frames import FrameBatch
from ..isolate import IsolatedWorker
from ..isolate._worker import check_timeout

__all__ = ["DEFAULT_TIMEOUT_SECONDS", "VideoLoader", "VideoSource", "VideoTarget", "register"]

#: Default time limit for each step of reading a video.
DEFAULT_TIMEOUT_SECONDS = 60.0

_NAME = "mediatensor"

#: Largest number of processes: vLLM's default number of media files that it loads in parallel.
_MAX_PROCESSES = 8


class VideoSource(NamedTuple):
    """Metadata of a video, with the fields of vLLM's ``VideoSourceMetadata``.

    Attributes:
        total_frames_num: Exact number of frames.
        original_fps: Frames per second of the video; 0 if unknown, for example for a single frame.
        duration: Duration of the video in seconds.

    Example:
        >>> from mediatensor.compat.vllm import VideoSource
        >>> VideoSource(300, 30.0, 10.0).duration
        10.0
    """

    total_frames_num: int
    original_fps: float
    duration: float


class VideoTarget(NamedTuple):
    """Limits on the frames to read from a video, with the fields of vLLM's ``VideoTargetMetadata``.

    Attributes:
        num_frames: Largest number of frames to read; -1 means no limit.
        fps: Largest number of frames to read per second of video; -1 means no limit.
        max_duration: Limit on the duration in seconds, for vLLM's own loaders. `VideoLoader` ignores this limit, unless
            `register` was called with one of vLLM's loaders as ``sampling``.

    Example:
        >>> from mediatensor.compat.vllm import VideoTarget
        >>> VideoTarget(num_frames=32, fps=2, max_duration=300).num_frames
        32
    """

    num_frames: int
    fps: float
    max_duration: float


class VideoLoader:
    """A video loader for vLLM. `register` adds it to vLLM; its class methods also work without vLLM.

    Example:
        >>> from pathlib import Path
        >>> from mediatensor.compat.vllm import VideoLoader
        >>> data = Path("video.mp4").read_bytes()
        >>> VideoLoader.load_bytes(data, fps=1, timeout_seconds=None)[0].shape
        (10, 360, 640, 3)
    """

    #: The loader of vLLM that selects the frames; ``None`` if this class does.
    _sampling: ClassVar[Any] = None
    _timeout_seconds: ClassVar[float | None] = DEFAULT_TIMEOUT_SECONDS

    @classmethod
    def compute_frames_index_to_sample(cls, source: VideoSource, target: VideoTarget, **kwargs: Any) -> list[int]:
        """Return the indices of the frames to read, spread evenly from the first to the last frame.

        The result is the same as from vLLM's loader "opencv". If `register` was called with ``sampling``, the vLLM
        loader of that name chooses the indices instead.

        Args:
            source: Metadata of the video.
            target: Limits. At most ``target.num_frames`` indices and at most ``source.duration * target.fps`` indices
                are returned, but always at least one.
            **kwargs: Arguments for the vLLM loader that `register` was given as ``sampling``; ignored without one.

        Returns:
            List of frame indices.

        Example:
            >>> from mediatensor.compat.vllm import VideoLoader, VideoSource, VideoTarget
            >>> VideoLoader.compute_frames_index_to_sample(VideoSource(300, 30.0, 10.0), VideoTarget(-1, 0.3, 300))
            [0, 149, 299]
        """
        if cls._sampling is not None:
            return list(cls._sampling.compute_frames_index_to_sample(source, target, **kwargs))
        count = total = source.total_frames_num
        if target.num_frames > 0:
            count = min(count, target.num_frames)
        if target.fps > 0:
            count = math.floor(min(count, source.duration * target.fps))
        count = max(count, 1)
        return list(range(total)) if count == total else np.linspace(0, total - 1, count, dtype=int).tolist()

    @classmethod
    def load_bytes(
        cls,
        data: bytes,
        num_frames: int | None = None,
        fps: float | None = None,
        max_duration: float | None = None,
        frame_recovery: bool = False,
        *,
        timeout_seconds: float | str | None = "default",
        backend: str | None = None,
        **kwargs: Any,
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Read frames of a video from the bytes of its file.

        Args:
            data: The bytes of a video file.
            num_frames: Largest number of frames to read; -1 means no limit. If `register` was called with ``sampling``,
                ``None`` means the default of that vLLM loader. Without ``sampling``, ``None`` means no limit.
            fps: Largest number of frames to read per second of video; -1 and ``None`` have the same meaning as for
                ``num_frames``.
            max_duration: Limit on the duration in seconds for the vLLM loader that `register` was given as
                ``sampling``. ``None`` means the default of that loader. Without ``sampling``, the limit has no effect.
            frame_recovery: If ``True``, the nearest frame replaces a frame that cannot be decoded. If ``False``, such a
                frame is left out, with a warning.
            timeout_seconds: Time limit in seconds for each of two steps: reading the header, and decoding. With
                ``None``, there is no limit, and the video is decoded in this process, which a damaged video can crash.
                ``"default"`` means the value passed to `register` or, for `VideoLoader` itself, 60 seconds.
            backend: Has no effect. It is accepted because vLLM's other loaders have it.
            **kwargs: Arguments for the vLLM loader that `register` was given as ``sampling``; ignored without one.

        Returns:
            A pair: the frames, uint8 numpy array (N, H, W, 3), and a dict for vLLM's processors. The dict has
            ``total_num_frames`` and ``fps`` of the video, its ``duration`` in seconds, ``video_backend``
            (``"mediatensor"``), and the list ``frames_indices`` of the frames that were read. ``do_sample_frames`` is
            true if every frame of the video was read.

        Raises:
            OpenError: if the bytes are not a video, no frame can be decoded, or decoding exceeds a time or memory
                limit. It is a ``ValueError``, as vLLM expects.
            InvalidArgumentError: if any other argument is invalid.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidArgumentError(f"data must be the bytes of a file (got {shown(data)}).")
        limit: Any = cls._timeout_seconds if timeout_seconds == "default" else timeout_seconds
        check_timeout(limit)
        given = {"num_frames": num_frames, "fps": fps, "max_duration": max_duration}
        target = _target(given, cls._sampling)
        opened = OpenedVideo(bytes(data), limit, bool(frame_recovery))
        try:
            source = opened.source()
            while True:
                indices = [int(index) for index in cls.compute_frames_index_to_sample(source, target, **kwargs)]
                frames, read, corrected = opened.frames(indices)
                if corrected in (None, source):
                    break
                source = corrected  # choose again, among the frames that the video has
        except (DecodeError, IsolatedWorkerError, ReadError) as error:
            raise OpenError(f"The video cannot be read: {error}") from error
        finally:
            opened.close()
        if indices and not read:
            raise OpenError(f"The video cannot be read: none of the {len(indices)} requested frames can be decoded.")
        if len(read) < len(indices):
            warn_user(
                f"{len(indices) - len(read)} of {len(indices)} frames of a video cannot be decoded, and were left out; "
                "frame_recovery=True replaces them by the nearest frames."
            )
        return frames, {
            "total_num_frames": source.total_frames_num,
            "fps": source.original_fps,
            "duration": source.duration,
            "video_backend": _NAME,
            "frames_indices": read,
            "do_sample_frames": len(read) == source.total_frames_num,
        }


def _target(given: Mapping[str, Any], sampling: Any) -> VideoTarget:
    """Return limits, with the defaults of the loader ``sampling``, or of `VideoLoader`, in place of ``None``."""
    defaults: dict[str, Any] = {"num_frames": -1, "fps": -1, "max_duration": 300}
    if sampling is not None:
        parameters = inspect.signature(sampling.load_bytes).parameters
        of_sampling = {name: parameters[name].default for name in defaults if name in parameters}
        defaults |= {name: value for name, value in of_sampling.items() if value is not inspect.Parameter.empty}
    wanted = {name: defaults[name] if value is None else value for name, value in given.items()}
    num_frames = whole_number("num_frames", wanted["num_frames"])
    fps, max_duration = (real_number(name, wanted[name]) for name in ("fps", "max_duration"))
    if math.isnan(fps) or math.isnan(max_duration):
        raise InvalidArgumentError(f"fps and max_duration must be numbers (got {fps} and {max_duration}).")
    return VideoTarget(num_frames, fps, max_duration)


def register(
    name: str = _NAME,
    *,
    sampling: str | None = None,
    video_processor: str | Sequence[str] | None = None,
    timeout_seconds: float | None = DEFAULT_TIMEOUT_SECONDS,
    registry: Any = None,
) -> type[VideoLoader]:
    """Add a video loader that uses this library to vLLM.

    To select the loader, set the environment variable ``VLLM_VIDEO_LOADER_BACKEND`` to ``name``. This function is a
    vLLM plugin, so vLLM calls it with the default arguments. To pass other arguments, call it in your own plugin.

    Args:
        name: Name under which vLLM finds the loader.
        sampling: Name of one of vLLM's own loaders, such as ``"qwen3_vl"``, which selects the frames to read. With
            ``None``, the frames are evenly spaced.
        video_processor: Name, or several names, of video processors of Hugging Face transformers. For models with these
            processors, vLLM uses the new loader by default.
        timeout_seconds: Time limit in seconds for each step of reading a video; ``None`` means no limit. See
            `VideoLoader.load_bytes`.
        registry: The registry to add the loader to. With ``None``, it is ``VIDEO_LOADER_REGISTRY`` of vLLM.

    Returns:
        The registered class, a new subclass of `VideoLoader`.

    Raises:
        MissingDependencyError: if vLLM is not installed.
        InvalidArgumentError: if vLLM has no loader with the name ``sampling``, or another argument is invalid.

    Example:
        >>> from mediatensor.compat import vllm
        >>> vllm.register("mediatensor_qwen3_vl", sampling="qwen3_vl")  # doctest: +SKIP
    """
    check_timeout(timeout_seconds)
    options: dict[str, Any] = {}
    if isinstance(video_processor, str):
        options["video_processor"] = video_processor
    elif video_processor is not None:
        options["video_processor"] = tuple(items_of("video_processor", video_processor, of="names"))
    base: type[Any] = object
    if registry is None:
        try:
            module = importlib.import_module("vllm.multimodal.video")
        except ImportError as error:
            raise MissingDependencyError(f"register() needs vLLM: pip install vllm ({error}).") from error
        registry, base = module.VIDEO_LOADER_REGISTRY, module.VideoLoader
    chooser = None
    if sampling is not None:
        known = getattr(registry, "name2class", {})
        if sampling not in known or not hasattr(known[sampling], "compute_frames_index_to_sample"):
            raise InvalidArgumentError(
                f"sampling must be a loader of this vLLM that chooses frames: {', '.join(sorted(known))} "
                f"(got {shown(sampling)})."
            )
        chooser = known[sampling]
    bases = (VideoLoader,) if base is object else (VideoLoader, base)
    members = {"_sampling": chooser, "_timeout_seconds": timeout_seconds, "__module__": VideoLoader.__module__}
    made: type[VideoLoader] = new_class("VideoLoader", bases, exec_body=lambda namespace: namespace.update(members))
    registry.register(name, **options)(made)
    return made


# Decoding of untrusted videos in processes that all requests share


@cache
def _worker(timeout_seconds: float) -> IsolatedWorker:
    return IsolatedWorker(timeout_seconds=timeout_seconds, num_processes=min(_MAX_PROCESSES, os.cpu_count() or 1))


class OpenedVideo:
    """The video of one request to `VideoLoader.load_bytes`, opened once for both steps.

    If ``is_nearest``, the nearest frame replaces a frame that cannot be decoded.
    """

    def __init__(self, data: bytes, timeout_seconds: float | None, is_nearest: bool) -> None:
        self._call = uuid.uuid4().hex
        self._data = data
        self._is_nearest = is_nearest
        self._worker = None if timeout_seconds is None else _worker(timeout_seconds)

    def source(self) -> VideoSource:
        return VideoSource(*self._run(_describe, self._call, self._data, self._is_nearest))

    def frames(self, indices: list[int]) -> tuple[NDArray[np.uint8], list[int], VideoSource | None]:
        """Return the frames at ``indices``, and their indices. Both results leave out frames that cannot be decoded.

        The third result is ``None``, unless decoding has shown that the file has other frames than its packets show.
        Then it is the corrected description, and the video stays open for another call.
        """
        result = self._run(_frames_at, self._call, None, self._is_nearest, indices)
        if result is None:  # this process did not run the first step and has no open video
            result = self._run(_frames_at, self._call, self._data, self._is_nearest, indices)
        batch, read, corrected = result
        return batch.data.numpy(), read, None if corrected is None else VideoSource(*corrected)

    def close(self) -> None:
        """Close the video, if it is open in this process."""
        _kept.call = _kept.decoder = None

    def _run(self, function: Any, *arguments: Any) -> Any:
        return function(*arguments) if self._worker is None else self._worker.run(function, *arguments)


class _Kept(threading.local):
    """The video that this thread opened last, with the identifier of its request (``call``)."""

    call: str | None = None
    decoder: VideoDecoder | None = None


_kept = _Kept()


def _decoder(call: str, data: bytes | None, is_nearest: bool) -> VideoDecoder | None:
    if _kept.call != call:
        if data is None:
            return None
        decoder = VideoDecoder(data, dimension_order="NHWC", on_error="nearest" if is_nearest else "skip")
        _kept.call, _kept.decoder = call, decoder
    return _kept.decoder


def _describe(call: str, data: bytes, is_nearest: bool) -> tuple[int, float, float]:
    decoder = _decoder(call, data, is_nearest)
    assert decoder is not None
    return _source_of(decoder)


def _source_of(decoder: VideoDecoder) -> tuple[int, float, float]:
    metadata = decoder.metadata
    return len(decoder), float(metadata.average_fps or 0.0), float(metadata.duration_seconds or 0.0)


def _frames_at(
    call: str, data: bytes | None, is_nearest: bool, indices: list[int]
) -> tuple[FrameBatch, list[int], tuple[int, float, float] | None] | None:
    """Return the results of `OpenedVideo.frames`; ``None`` if the video is not open, and ``data`` is ``None``."""
    decoder = _decoder(call, data, is_nearest)
    if decoder is None:
        return None
    _kept.call = _kept.decoder = None
    num_frames = len(decoder)
    batch = decoder.get_frames_at(indices)
    left_out = {report.index for report in batch.replaced if report.used_index is None}
    corrected = None
    if len(decoder) != num_frames:
        corrected = _source_of(decoder)
        _kept.call, _kept.decoder = call, decoder
    return batch, [index for index in indices if index not in left_out], corrected
