"""`register`: this library as a loader of vLLM."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import new_class
from typing import Any

from ..._engine.common.checks import shown
from ...errors import InvalidArgumentError, MissingDependencyError
from .. import check_timeout
from ._loader import DEFAULT_TIMEOUT_SECONDS, NAME, VideoLoader

__all__ = ["register"]


def register(
    name: str = NAME,
    *,
    sampling: str | None = None,
    video_processor: str | Sequence[str] | None = None,
    timeout_seconds: float | None = DEFAULT_TIMEOUT_SECONDS,
    registry: Any = None,
) -> type[VideoLoader]:
    """Make this library a loader of videos of vLLM: ``VLLM_VIDEO_LOADER_BACKEND=mediatensor`` then chooses it.

    vLLM calls it by itself, as a plugin, with these defaults. Call it in a plugin of your own for others.

    Args:
        name: The name of the loader.
        sampling: A loader of vLLM that is to choose the frames, such as ``"qwen3_vl"``; ``None`` for evenly many.
        video_processor: Processors of transformers for which vLLM is to take it, unless it is told otherwise.
        timeout_seconds: Most seconds of each step of reading a video, as of `VideoLoader.load_bytes`.
        registry: vLLM's ``VIDEO_LOADER_REGISTRY``, which is found if this is ``None``.

    Returns:
        The class that is registered.

    Raises:
        MissingDependencyError: if vLLM is not installed.
        InvalidArgumentError: if there is no such loader, or an argument is not accepted.

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
