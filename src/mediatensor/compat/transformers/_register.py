"""`register`, which makes transformers read video and audio with this library."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial, wraps
from typing import Any

from ..._engine.common.checks import check_choice, items_of
from ..._engine.common.locks import ForkSafeLock
from ...errors import MissingDependencyError
from .. import check_timeout
from ._loading import NAME, load_audio, load_video, read_video

__all__ = ["register", "unregister"]

#: Callbacks that undo the changes to transformers; guarded by the lock.
_changes = ExitStack()
_lock = ForkSafeLock()

_VIDEO_BACKENDS = ("torchcodec", "pyav", "decord", "opencv", "torchvision")
_VIDEO_MODULES = ("video_utils", "video_processing_utils")
_AUDIO_MODULES = ("audio_utils", "processing_utils", "feature_extraction_sequence_utils")


def register(
    *, in_processors: bool = True, in_place_of: Sequence[str] = (), timeout_seconds: float | None = None
) -> None:
    """Make transformers read video and audio with this library in this process, until `unregister` is called.

    ``transformers.video_utils.load_video(..., backend="mediatensor")`` and ``VIDEO_DECODERS["mediatensor"]`` then work.
    Another call replaces the arguments of the previous call.

    Args:
        in_processors: Whether video processors, feature extractors and chat templates read paths and URLs with this
            library. Then torchcodec and soundfile need not be installed.
        in_place_of: Backends of ``load_video`` that this library replaces: ``"torchcodec"``, ``"pyav"``, ``"decord"``,
            ``"opencv"``, ``"torchvision"``. They need not be installed; results have the type that the
            replaced backend returns.
        timeout_seconds: Time limit of each step of reading a file, as for `load_video`.

    Raises:
        InvalidArgumentError: if an argument is invalid.
        MissingDependencyError: if transformers or a package that its video processors need is not installed.

    Example:
        >>> from mediatensor.compat import transformers
        >>> transformers.register(timeout_seconds=60)  # doctest: +SKIP
        >>> processor.apply_chat_template(messages, tokenize=True, return_dict=True)  # doctest: +SKIP
    """
    names = items_of("in_place_of", in_place_of, of="names of backends")
    for name in names:
        check_choice("in_place_of", name, _VIDEO_BACKENDS)
    check_timeout(timeout_seconds)
    try:
        modules = {name: importlib.import_module(f"transformers.{name}") for name in (*_VIDEO_MODULES, *_AUDIO_MODULES)}
        base = modules["video_processing_utils"].BaseVideoProcessor
    except (ImportError, AttributeError) as error:
        raise MissingDependencyError(
            "register() needs transformers with video processors, and their dependencies: pip install -U transformers "
            f"torchvision ({error})."
        ) from error
    ours = (NAME, *names)
    with _lock:
        _changes.close()
        for name in ours:
            reader = partial(read_video, backend=name, timeout_seconds=timeout_seconds)
            _put(modules["video_utils"].VIDEO_DECODERS, name, reader)
        for name in _VIDEO_MODULES:
            _replace(modules[name], "load_video", partial(_video_loader, ours, timeout_seconds))
        if not in_processors:
            return
        owner = next(one for one in base.__mro__ if "fetch_videos" in vars(one))
        _replace(owner, "fetch_videos", lambda original: _fetch_videos(timeout_seconds))
        for name in _AUDIO_MODULES:
            _replace(modules[name], "load_audio", partial(_audio_loader, timeout_seconds))


def unregister() -> None:
    """Undo the changes of `register`.

    Example:
        >>> from mediatensor.compat import transformers
        >>> transformers.unregister()
    """
    with _lock:
        _changes.close()


def _put(mapping: dict[str, Any], key: str, value: Any) -> None:
    if key in mapping:
        _changes.callback(mapping.__setitem__, key, mapping[key])
    else:
        _changes.callback(mapping.pop, key, None)
    mapping[key] = value


def _replace(owner: Any, name: str, made: Callable[[Any], Any]) -> None:
    """Replace a function of a class or module by ``made(original)``, if the function exists."""
    if name in vars(owner):
        original = vars(owner)[name]
        _changes.callback(setattr, owner, name, original)
        setattr(owner, name, made(original))


def _video_loader(names: Sequence[str], timeout_seconds: float | None, original: Any) -> Any:
    @wraps(original)
    def load(
        video: Any,
        num_frames: int | None = None,
        fps: float | None = None,
        backend: str = "pyav",
        sample_indices_fn: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        if backend not in names:
            return original(video, num_frames, fps, backend, sample_indices_fn, **kwargs)
        options = {"timeout_seconds": timeout_seconds, **kwargs}
        return load_video(video, num_frames, fps, backend, sample_indices_fn, **options)

    return load


def _audio_loader(timeout_seconds: float | None, original: Any) -> Any:
    @wraps(original)
    def load(
        audio: Any, sampling_rate: int = 16_000, timeout: float | None = None, backend: str = "auto", **kwargs: Any
    ) -> Any:
        if backend in (NAME, "auto"):
            return load_audio(audio, sampling_rate, timeout_seconds if timeout is None else timeout)
        return original(audio, sampling_rate, timeout, backend, **kwargs)

    return load


def _fetch_videos(timeout_seconds: float | None) -> Any:
    def fetch_videos(self: Any, video_url_or_urls: Any, sample_indices_fn: Callable[..., Any] | None = None) -> Any:
        """Return the frames and metadata of a path or URL, or of each path or URL in a list."""
        if isinstance(video_url_or_urls, list):
            videos = [self.fetch_videos(video, sample_indices_fn=sample_indices_fn) for video in video_url_or_urls]
            return list(zip(*videos, strict=True))
        return load_video(video_url_or_urls, sample_indices_fn=sample_indices_fn, timeout_seconds=timeout_seconds)

    return fetch_videos
