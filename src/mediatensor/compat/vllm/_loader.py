"""`VideoLoader`, and `register`, which adds it to vLLM."""

from __future__ import annotations

import importlib
import inspect
import math
import warnings
from collections.abc import Mapping, Sequence
from types import new_class
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._engine.common.checks import real_number, shown, whole_number
from ...errors import (
    DecodeError,
    InvalidArgumentError,
    IsolatedWorkerError,
    MissingDependencyError,
    OpenError,
    ReadError,
)
from .. import check_timeout
from ._decoding import OpenedVideo, VideoSource

__all__ = ["DEFAULT_TIMEOUT_SECONDS", "VideoLoader", "VideoTarget", "register"]

#: Default time limit of each step of reading a video.
DEFAULT_TIMEOUT_SECONDS = 60.0

_NAME = "mediatensor"


class VideoTarget(NamedTuple):
    """Limits that select frames, with the fields of vLLM's ``VideoTargetMetadata``.

    Attributes:
        num_frames: Maximum number of frames; -1 for no limit.
        fps: Maximum number of frames per second; -1 for no limit.
        max_duration: Maximum duration in seconds, which only some loaders use.

    Example:
        >>> from mediatensor.compat.vllm import VideoTarget
        >>> VideoTarget(num_frames=32, fps=2, max_duration=300).num_frames
        32
    """

    num_frames: int
    fps: float
    max_duration: float


class VideoLoader:
    """A video loader for vLLM, which `register` adds to vLLM. Its methods also work without vLLM.

    Example:
        >>> from pathlib import Path
        >>> from mediatensor.compat.vllm import VideoLoader
        >>> data = Path("video.mp4").read_bytes()
        >>> VideoLoader.load_bytes(data, fps=1, timeout_seconds=None)[0].shape
        (10, 360, 640, 3)
    """

    #: The loader of vLLM that selects the frames; ``None`` if this class selects them.
    _sampling: ClassVar[Any] = None
    _timeout_seconds: ClassVar[float | None] = DEFAULT_TIMEOUT_SECONDS

    @classmethod
    def compute_frames_index_to_sample(cls, source: VideoSource, target: VideoTarget, **kwargs: Any) -> list[int]:
        """Return frame indices spread evenly from the first to the last frame, like vLLM's loader "opencv".

        Args:
            source: The video.
            target: The limits. The number of frames is the lower of the limits by ``num_frames`` and ``fps``, but at
                least one.
            **kwargs: Arguments for the loader that `register` selected with ``sampling``.

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
            count = min(count, math.floor(source.duration * target.fps))
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
        """Read frames of a video.

        Args:
            data: The bytes of a file.
            num_frames: Maximum number of frames; -1 for no limit. Here and for ``fps`` and ``max_duration``,
                ``None`` means the default of the loader that selects the frames. The default of this class is -1.
            fps: Maximum number of frames per second; -1 (the default of this class) for no limit.
            max_duration: Maximum duration in seconds, which only some loaders use. The default of this class is 300.
            frame_recovery: Whether the nearest frame replaces a frame that cannot be decoded. Otherwise the frame is
                omitted, with a warning.
            timeout_seconds: Time limit of each of two steps, reading the header and decoding. ``None`` decodes in this
                process, which a damaged video may crash. ``"default"`` is the value given to `register`.
            backend: Has no effect; accepted because vLLM's other loaders have it.
            **kwargs: Arguments for the loader that selects the frames.

        Returns:
            Frames (N, H, W, 3) of uint8, and a dictionary for vLLM's processors: ``total_num_frames``, ``fps``,
            ``duration``, ``video_backend``, ``frames_indices``, and ``do_sample_frames``, true if these are all frames.

        Raises:
            OpenError: if the bytes are not a video, no frame can be decoded, or decoding exceeds a limit. It is a
                ``ValueError``, which vLLM expects.
            InvalidArgumentError: if another argument is invalid.

        Example:
            >>> from pathlib import Path
            >>> from mediatensor.compat.vllm import VideoLoader
            >>> data = Path("video.mp4").read_bytes()
            >>> VideoLoader.load_bytes(data, 2, timeout_seconds=None)[1]["duration"]
            10.0
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
            indices = [int(index) for index in cls.compute_frames_index_to_sample(source, target, **kwargs)]
            frames, read = opened.frames(indices)
        except (DecodeError, IsolatedWorkerError, ReadError) as error:
            raise OpenError(f"The video cannot be read: {error}") from error
        finally:
            opened.close()
        if indices and not read:
            raise OpenError(f"The video cannot be read: none of the {len(indices)} frames wanted can be decoded.")
        if len(read) < len(indices):
            warnings.warn(
                f"{len(indices) - len(read)} of {len(indices)} frames of a video cannot be decoded, and were left out; "
                "frame_recovery=True returns the nearest.",
                stacklevel=2,
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
    """Return the limits; missing values become the defaults of the loader that selects the frames."""
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
    """Make this library a video loader of vLLM, selected by ``VLLM_VIDEO_LOADER_BACKEND=mediatensor``.

    vLLM calls this function as a plugin with the default arguments. For other values, call it in your own plugin.

    Args:
        name: The name of the loader.
        sampling: A loader of vLLM that selects the frames, such as ``"qwen3_vl"``; ``None`` for evenly spaced frames.
        video_processor: Processors of transformers for which vLLM uses this loader by default.
        timeout_seconds: Time limit of each step of reading a video, as for `VideoLoader.load_bytes`.
        registry: vLLM's ``VIDEO_LOADER_REGISTRY``; ``None`` to find it.

    Returns:
        The registered class.

    Raises:
        MissingDependencyError: if vLLM is not installed.
        InvalidArgumentError: if the loader ``sampling`` does not exist, or an argument is invalid.

    Example:
        >>> from mediatensor.compat import vllm
        >>> vllm.register("mediatensor_qwen3_vl", sampling="qwen3_vl")  # doctest: +SKIP
    """
    check_timeout(timeout_seconds)
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
    options: dict[str, Any] = {}
    if video_processor is not None:
        options["video_processor"] = video_processor if isinstance(video_processor, str) else tuple(video_processor)
    registry.register(name, **options)(made)
    return made
