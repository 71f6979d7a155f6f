"""Read video and audio for Hugging Face transformers.

`register` makes transformers' processors and chat templates read video and audio with this library. `load_video` and
`load_audio` can also be called directly. transformers has functions of the same names, with the same arguments and
results. The page "Coming from transformers and vLLM" lists the differences.

>>> from mediatensor.compat import transformers
>>> frames, metadata = transformers.load_video("video.mp4", fps=2)
>>> frames.shape, metadata["fps"], metadata["frames_indices"][:3].tolist()
(torch.Size([20, 3, 360, 640]), 30.0, [0, 15, 30])
"""

from __future__ import annotations

import base64
import binascii
import importlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, fields
from functools import partial, wraps
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .._engine.common.checks import check_choice, finite_number, function, items_of, shown, whole_number
from .._engine.common.locks import ForkSafeLock
from .._engine.sources.source import read_to_end
from ..decoders import AudioDecoder, VideoDecoder
from ..errors import InvalidArgumentError, MissingDependencyError, SourceNotFoundError, SourceTypeError
from ..isolate._worker import BoundedCalls, check_timeout, run_bounded

__all__ = ["VideoMetadata", "load_audio", "load_video", "read_video", "register", "unregister"]

_NAME = "mediatensor"
#: Layout of frames by name of backend: NCHW for backends that return tensors, NHWC for numpy arrays.
_LAYOUTS = {
    _NAME: "NCHW",
    "torchcodec": "NCHW",
    "torchvision": "NCHW",
    "pyav": "NHWC",
    "decord": "NHWC",
    "opencv": "NHWC",
}
#: Backends that compute rate and duration from the frames, as in torchcodec. The others read the header.
_BY_CONTENT = frozenset((_NAME, "torchcodec"))
#: Whether a backend mixes audio to the mean of all channels. FFmpeg mixes stereo to 0.707 times the sum.
_IS_MEAN = {
    _NAME: False,
    "auto": False,
    "torchcodec": False,
    "soundfile": True,
    "librosa": True,
    "torchaudio": True,
}
_URLS = ("http://", "https://")


@dataclass
class VideoMetadata(Mapping[str, Any]):
    """Metadata of a video, like transformers' ``VideoMetadata``. It is also a mapping from attribute names to values.

    Attributes:
        total_num_frames: Number of frames in the whole video, including frames that were not read.
        fps: Frames per second of the video; ``None`` if unknown.
        width: Displayed width in pixels; ``None`` if unknown.
        height: Displayed height in pixels; ``None`` if unknown.
        duration: Duration of the video in seconds; ``None`` if unknown.
        video_backend: Name of the backend that was requested, such as ``"mediatensor"``.
        frames_indices: Indices of the frames that were read, as a list or an array; ``None`` if unknown.

    Example:
        >>> from mediatensor.compat.transformers import VideoMetadata
        >>> metadata = VideoMetadata(total_num_frames=300, fps=30.0, frames_indices=[0, 15, 30])
        >>> metadata["fps"], metadata.timestamps, round(metadata.sampled_fps, 2)
        (30.0, [0.0, 0.5, 1.0], 0.3)
    """

    total_num_frames: int
    fps: float | None = None
    width: int | None = None
    height: int | None = None
    duration: float | None = None
    video_backend: str | None = None
    frames_indices: Any = None

    def __iter__(self) -> Iterator[str]:
        return (field.name for field in fields(self))

    def __len__(self) -> int:
        return len(fields(self))

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except (AttributeError, TypeError):
            raise KeyError(name) from None

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    @property
    def timestamps(self) -> list[float]:
        """Time in seconds of each frame that was read: its index divided by ``fps``.

        Raises:
            ValueError: if the frame rate or the indices are unknown.
        """
        if self.fps is None or self.frames_indices is None:
            raise ValueError("The times of frames need fps and frames_indices (one of them is None).")
        return [index / self.fps for index in self.frames_indices]

    @property
    def sampled_fps(self) -> float:
        """Number of frames that were read, per second of the video.

        If ``frames_indices`` is ``None``, the value is ``fps``. If ``fps`` is ``None``, the value is 24.
        """
        if self.frames_indices is None or self.fps is None:
            return self.fps or 24
        return len(self.frames_indices) / self.total_num_frames * self.fps

    def update(self, values: Mapping[str, Any]) -> None:
        """Set attributes to the values of a mapping from attribute names to values. Other names are ignored.

        Example:
            >>> from mediatensor.compat.transformers import VideoMetadata
            >>> metadata = VideoMetadata(30)
            >>> metadata.update({"fps": 25.0})
            >>> metadata.fps
            25.0
        """
        for name, value in values.items():
            if name in list(self):
                setattr(self, name, value)


def load_video(
    video: Any,
    num_frames: int | None = None,
    fps: float | None = None,
    backend: str = _NAME,
    sample_indices_fn: Callable[..., Any] | None = None,
    *,
    timeout_seconds: float | None = None,
    **kwargs: Any,
) -> tuple[Any, Any]:
    """Read frames of a video, like ``transformers.video_utils.load_video``.

    Args:
        video: A path or URL, the bytes of a file, or a file object. From a URL, only the bytes that are needed are
            fetched. Frames that are already decoded (arrays, tensors, lists of images) are returned unchanged.
        num_frames: Number of frames to read, spread evenly over the video. If ``num_frames``, ``fps`` and
            ``sample_indices_fn`` are all ``None``, all frames are read.
        fps: Number of frames to read per second of video. Pass either ``fps`` or ``num_frames``, not both.
        backend: ``"mediatensor"``, or a backend of transformers. It determines the type of the frames: tensors for
            ``"mediatensor"``, ``"torchcodec"`` and ``"torchvision"``; numpy arrays for ``"pyav"``, ``"decord"`` and
            ``"opencv"``. The decoder is always this library.
        sample_indices_fn: Function that is called as ``sample_indices_fn(metadata=..., **kwargs)`` and returns the
            indices of the frames to read. If it is given, ``num_frames`` and ``fps`` have no effect.
        timeout_seconds: Time limit in seconds for each of two steps: reading the header, and decoding. With a limit,
            both run in a separate process. ``None`` means no limit. transformers does not have this argument.
        **kwargs: Arguments for ``sample_indices_fn``. If they include ``device="cuda"``, frames are also decoded on a
            GPU.

    Returns:
        A pair: the frames, as a uint8 tensor (N, 3, H, W) or numpy array (N, H, W, 3), and a `VideoMetadata`. If
        transformers has been imported, the metadata is an instance of transformers' own class. If the frames in
        ``video`` are already decoded, the pair is ``video`` and a list with ``None`` for each frame.

    Raises:
        InvalidArgumentError: if an argument is invalid, ``num_frames`` and ``fps`` are both given, or the video has
            fewer frames than ``num_frames``.
        OutOfRangeError: if ``sample_indices_fn`` returns an index that the video does not have.
        OpenError, ReadError, StreamError: if the video cannot be read.
        DecodeError: if one of the frames cannot be decoded.
        IsolatedWorkerError: if a step takes longer than ``timeout_seconds``.

    Example:
        >>> from mediatensor.compat.transformers import load_video
        >>> frames, metadata = load_video("video.mp4", num_frames=4)
        >>> frames.shape, metadata.frames_indices.tolist()
        (torch.Size([4, 3, 360, 640]), [0, 75, 150, 225])
        >>> load_video("video.mp4", num_frames=4, backend="pyav")[0].shape
        (4, 360, 640, 3)
    """
    check_choice("backend", backend, tuple(_LAYOUTS))
    if sample_indices_fn is None:
        if fps is not None and num_frames is not None:
            raise InvalidArgumentError(
                "Pass only one of num_frames, fps and sample_indices_fn "
                f"(got num_frames={shown(num_frames)} and fps={shown(fps)})."
            )
        if num_frames is not None:
            num_frames = whole_number("num_frames", num_frames, at_least=1)
        if fps is not None and not finite_number("fps", fps) > 0:
            raise InvalidArgumentError(f"fps must be positive (got {fps}).")
        sample_indices_fn = partial(_evenly, num_frames=num_frames, fps=fps)
    if not isinstance(video, str | os.PathLike | bytes | bytearray | io.IOBase):
        if not hasattr(video, "__len__"):
            raise SourceTypeError(f"video must be a path, a URL, bytes, a file or frames (got {shown(video)}).")
        return video, [None] * len(video)
    return read_video(video, sample_indices_fn, backend=backend, timeout_seconds=timeout_seconds, **kwargs)


def read_video(
    video_path: Any,
    sample_indices_fn: Callable[..., Any],
    *,
    backend: str = _NAME,
    timeout_seconds: float | None = None,
    **kwargs: Any,
) -> tuple[Any, Any]:
    """Read the frames whose indices a function chooses.

    Arguments and results are those of the functions in ``transformers.video_utils.VIDEO_DECODERS``.

    Args:
        video_path: A path or URL, the bytes of a file, or a file object, which is read to its end.
        sample_indices_fn: Function that is called as ``sample_indices_fn(metadata=..., **kwargs)`` and returns the
            indices of the frames to read.
        backend: Name that determines the type of the frames, such as ``"mediatensor"`` for a tensor; see `load_video`.
        timeout_seconds: Time limit in seconds for each step, reading the header and decoding; see `load_video`.
        **kwargs: Arguments for ``sample_indices_fn``. ``device``, if given, also selects the device that decodes.

    Returns:
        A pair: the frames, as a uint8 tensor (N, 3, H, W) or numpy array (N, H, W, 3), depending on ``backend``, and
        a `VideoMetadata`.

    Raises:
        MediaTensorError: if the video cannot be read or an argument is invalid; see `load_video` for the subclasses.

    Example:
        >>> from mediatensor.compat.transformers import read_video
        >>> frames, metadata = read_video("video.mp4", lambda metadata, **_: [0, metadata.total_num_frames - 1])
        >>> frames.shape, metadata.timestamps[0]
        (torch.Size([2, 3, 360, 640]), 0.0)
    """
    check_choice("backend", backend, tuple(_LAYOUTS))
    function("sample_indices_fn", sample_indices_fn)
    source = read_to_end(video_path) if hasattr(video_path, "read") else video_path
    device = kwargs.get("device") or "cpu"
    with closing(BoundedCalls(partial(_decoder, source, str(device), _LAYOUTS[backend]), timeout_seconds)) as calls:
        # transformers checks the type of metadata. If it is imported, use its own class.
        metadata_type = getattr(sys.modules.get("transformers.video_utils"), "VideoMetadata", VideoMetadata)
        metadata = metadata_type(video_backend=backend, **calls.run(partial(_describe, backend in _BY_CONTENT)))
        indices = sample_indices_fn(metadata=metadata, **kwargs)
        frames = calls.run(methodcaller("get_frames_at", _as_list(indices))).data
    metadata.frames_indices = indices
    return (frames if _LAYOUTS[backend] == "NCHW" else frames.cpu().numpy()), metadata


def _evenly(metadata: Any, *, num_frames: int | None, fps: float | None, **_: Any) -> Any:
    """Return the indices of frames that are spread evenly over the video, rounded as in transformers."""
    total = metadata.total_num_frames
    if num_frames is None and fps is not None:
        if not metadata.fps:
            raise InvalidArgumentError(f"fps = {fps} needs the rate of the video, which is unknown. Pass num_frames.")
        num_frames = max(1, int(total / metadata.fps * fps))
    if num_frames is None:
        return np.arange(total)
    if num_frames > total:
        raise InvalidArgumentError(f"The video has {total} frames, fewer than num_frames = {num_frames}.")
    return np.arange(num_frames) * total // num_frames


def _as_list(indices: Any) -> list[int]:
    try:
        wanted = np.asarray(indices)
        if wanted.ndim == 1 and (wanted.dtype.kind in "iu" or not wanted.size):
            return [int(index) for index in wanted]
    except (TypeError, ValueError, RuntimeError):
        pass
    raise InvalidArgumentError(f"sample_indices_fn must return a list of whole numbers (got {shown(indices)}).")


def _decoder(source: Any, device: str, layout: Any) -> VideoDecoder:
    return VideoDecoder(source, dimension_order=layout, device=device)


def _describe(by_content: bool, decoder: VideoDecoder) -> dict[str, Any]:
    metadata, num_frames = decoder.metadata, len(decoder)
    fps, duration = metadata.average_fps, metadata.duration_seconds
    if not by_content:
        fps = metadata.average_fps_from_header or fps or 0.0
        duration = num_frames / fps if fps else 0.0
    return {
        "total_num_frames": num_frames,
        "fps": fps,
        "duration": duration,
        "height": metadata.height,
        "width": metadata.width,
    }


def load_audio(
    audio: Any, sampling_rate: int = 16_000, timeout: float | None = None, backend: str = "mediatensor"
) -> NDArray[np.float32]:
    """Read the audio of a file as a single channel, like ``transformers.audio_utils.load_audio``.

    Args:
        audio: A path or URL of an audio or video file, its bytes, or its bytes in base64, with or without a ``data:``
            prefix. A numpy array is returned unchanged.
        sampling_rate: Sample rate of the result in Hz.
        timeout: Time limit in seconds for the whole call. With a limit, the call runs in a separate process. ``None``
            means no limit.
        backend: ``"mediatensor"``, or a backend of transformers. It determines only how channels are mixed. With
            ``"mediatensor"``, ``"torchcodec"`` and ``"auto"``, stereo becomes 0.707 times the sum of left and right, as
            in FFmpeg. With ``"soundfile"``, ``"librosa"`` and ``"torchaudio"``, it becomes the mean of the channels.
            The decoder is always this library.

    Returns:
        Samples, float32 numpy array (N,).

    Raises:
        InvalidArgumentError: if an argument is invalid.
        SourceNotFoundError: if ``audio`` is a string, but neither an existing file, an http(s) URL nor base64.
        OpenError, ReadError, StreamError: if the source cannot be read, or has no audio.
        DecodeError: if the audio cannot be decoded.
        IsolatedWorkerError: if the call takes longer than ``timeout``.

    Example:
        >>> from mediatensor.compat.transformers import load_audio
        >>> samples = load_audio("video.mp4", sampling_rate=16_000)
        >>> samples.shape, samples.dtype
        ((160000,), dtype('float32'))
    """
    check_choice("backend", backend, tuple(_IS_MEAN))
    sampling_rate = whole_number("sampling_rate", sampling_rate, at_least=1)
    if isinstance(audio, np.ndarray):
        return audio
    samples = run_bounded(partial(_mono, _source_of(audio), sampling_rate, _IS_MEAN[backend]), timeout)
    values: NDArray[np.float32] = samples.numpy()
    return values


def _source_of(audio: Any) -> Any:
    if isinstance(audio, bytes | bytearray):
        return bytes(audio)
    if isinstance(audio, os.PathLike):
        return os.fspath(audio)
    if not isinstance(audio, str):
        raise InvalidArgumentError(
            f"audio must be a path, a URL, base64, bytes or an array (got {shown(audio)} of {type(audio).__name__})."
        )
    if audio.startswith(_URLS) or os.path.exists(audio):
        return audio
    coded = audio.partition(",")[2] if audio.startswith("data:") else audio
    try:
        data = base64.b64decode("".join(coded.split()), validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if not data:
        raise SourceNotFoundError(f"audio must be an existing file, an http(s) URL, or base64 (got {shown(audio)}).")
    return data


def _mono(source: Any, sampling_rate: int, is_mean: bool) -> Tensor:
    if is_mean:
        return AudioDecoder(source, sample_rate=sampling_rate).get_all_samples().data.mean(0)
    return AudioDecoder(source, sample_rate=sampling_rate, num_channels=1).get_all_samples().data[0]


#: Callbacks that undo the changes to transformers. The lock guards them.
_changes = ExitStack()
_lock = ForkSafeLock()

_VIDEO_BACKENDS = ("torchcodec", "pyav", "decord", "opencv", "torchvision")
_VIDEO_MODULES = ("video_utils", "video_processing_utils")
_AUDIO_MODULES = ("audio_utils", "processing_utils", "feature_extraction_sequence_utils")


def register(
    *, in_processors: bool = True, in_place_of: Sequence[str] = (), timeout_seconds: float | None = None
) -> None:
    """Make transformers read video and audio with this library, in this process, until `unregister` is called.

    After this call, ``transformers.video_utils.load_video(..., backend="mediatensor")`` and
    ``VIDEO_DECODERS["mediatensor"]`` work. If `register` is called again, the new arguments replace the previous ones.

    Args:
        in_processors: Whether video processors, feature extractors and chat templates read paths and URLs with this
            library. If ``True``, torchcodec and soundfile need not be installed.
        in_place_of: Backends of ``load_video`` that this library replaces: ``"torchcodec"``, ``"pyav"``, ``"decord"``,
            ``"opencv"``, ``"torchvision"``. They need not be installed. The result has the same type as with the
            replaced backend.
        timeout_seconds: Time limit in seconds for each step of reading a file; ``None`` means no limit. See
            `load_video`.

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
    ours = (_NAME, *names)
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
    """Undo all changes that `register` has made to transformers.

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
    """Replace the function ``name`` of a class or module by ``made(original)``, if there is such a function."""
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
        if backend in (_NAME, "auto"):
            return load_audio(audio, sampling_rate, timeout_seconds if timeout is None else timeout)
        return original(audio, sampling_rate, timeout, backend, **kwargs)

    return load


def _fetch_videos(timeout_seconds: float | None) -> Any:
    def fetch_videos(self: Any, video_url_or_urls: Any, sample_indices_fn: Callable[..., Any] | None = None) -> Any:
        if isinstance(video_url_or_urls, list):
            videos = [self.fetch_videos(video, sample_indices_fn=sample_indices_fn) for video in video_url_or_urls]
            return list(zip(*videos, strict=True))
        return load_video(video_url_or_urls, sample_indices_fn=sample_indices_fn, timeout_seconds=timeout_seconds)

    return fetch_videos
