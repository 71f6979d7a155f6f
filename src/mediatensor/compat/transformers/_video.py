"""`load_video` and `read_video`."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from torch import Tensor

from ..._engine.common.checks import check_choice, finite_number, function, shown, whole_number
from ...decoders import VideoDecoder
from ...errors import InvalidArgumentError, SourceTypeError
from .. import BoundedCalls
from ._metadata import metadata_type

__all__ = ["NAME", "load_video", "read_video"]

NAME = "mediatensor"
#: By name of a backend, how its frames are laid out: tensors are NCHW, and arrays of numpy NHWC.
_LAYOUTS: Mapping[str, str] = MappingProxyType(
    {NAME: "NCHW", "torchcodec": "NCHW", "torchvision": "NCHW", "pyav": "NHWC", "decord": "NHWC", "opencv": "NHWC"}
)
#: Backends that take rate and duration from the index of frames, as torchcodec does; others from the header.
_BY_CONTENT = frozenset((NAME, "torchcodec"))


def load_video(
    video: Any,
    num_frames: int | None = None,
    fps: float | None = None,
    backend: str = NAME,
    sample_indices_fn: Callable[..., Any] | None = None,
    *,
    timeout_seconds: float | None = None,
    **kwargs: Any,
) -> tuple[Any, Any]:
    """Read frames of a video, as ``transformers.video_utils.load_video`` does.

    Args:
        video: A path or URL; also the bytes of a file, a ``pathlib.Path`` or a file object. Of a URL only the bytes
            that the frames need are fetched. Arrays, tensors and lists of images are returned as they are.
        num_frames: How many frames, evenly over the whole video; ``None`` for all.
        fps: How many frames per second, in place of ``num_frames``.
        backend: ``"mediatensor"``, or the name of a backend of transformers whose kind of result is wanted:
            ``"torchcodec"`` and ``"torchvision"`` give tensors, ``"pyav"``, ``"decord"`` and ``"opencv"`` arrays of
            numpy. This library decodes in any case.
        sample_indices_fn: ``sample_indices_fn(metadata=..., **kwargs)`` gives the indices of the frames, in place of
            ``num_frames`` and ``fps``.
        timeout_seconds: Most seconds of reading the header, and of decoding; both are then done in a process of their
            own. ``None`` for no limit. transformers has no such argument.
        **kwargs: For ``sample_indices_fn``. ``device="cuda"`` decodes on a GPU, too.

    Returns:
        Frames of uint8, as a tensor (N, 3, H, W) or an array (N, H, W, 3), and a `VideoMetadata`: that of transformers
        in a program that has imported it. Of what is no file, itself and a list of ``None``.

    Raises:
        InvalidArgumentError: if arguments contradict each other, or there are fewer frames than ``num_frames``.
        OutOfRangeError: if ``sample_indices_fn`` gives an index that the video does not have.
        OpenError, ReadError, StreamError: if the video cannot be read.
        DecodeError: if one of its frames cannot be decoded.
        IsolatedWorkerError: if it took longer than ``timeout_seconds``.

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
                "num_frames, fps and sample_indices_fn exclude each other: give one "
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
    backend: str = NAME,
    timeout_seconds: float | None = None,
    **kwargs: Any,
) -> tuple[Any, Any]:
    """Read the frames that a function chooses: a reader as in ``transformers.video_utils.VIDEO_DECODERS``.

    Args:
        video_path: A path or URL, the bytes of a file, or a file object, which is read to its end.
        sample_indices_fn: ``sample_indices_fn(metadata=..., **kwargs)`` gives the indices of the frames.
        backend: Whose kind of result is wanted, as of `load_video`.
        timeout_seconds: Most seconds of each of the two steps, as of `load_video`.
        **kwargs: For the function; of these ``device`` is where frames are decoded.

    Returns:
        The frames and a `VideoMetadata`, as `load_video`.

    Raises:
        MediaTensorError: what `load_video` raises.

    Example:
        >>> from mediatensor.compat.transformers import read_video
        >>> frames, metadata = read_video("video.mp4", lambda metadata, **_: [0, metadata.total_num_frames - 1])
        >>> frames.shape, metadata.timestamps[0]
        (torch.Size([2, 3, 360, 640]), 0.0)
    """
    check_choice("backend", backend, tuple(_LAYOUTS))
    function("sample_indices_fn", sample_indices_fn)
    source = bytes(video_path.read()) if hasattr(video_path, "read") else video_path
    device = kwargs.get("device") or "cpu"
    with closing(BoundedCalls(partial(_decoder, source, str(device), _LAYOUTS[backend]), timeout_seconds)) as calls:
        metadata = metadata_type()(video_backend=backend, **calls.run(partial(_described, backend in _BY_CONTENT)))
        indices = sample_indices_fn(metadata=metadata, **kwargs)
        frames = calls.run(partial(_frames_at, _as_list(indices)))
    metadata.frames_indices = indices
    return (frames if _LAYOUTS[backend] == "NCHW" else frames.cpu().numpy()), metadata


def _evenly(metadata: Any, *, num_frames: int | None, fps: float | None, **_: Any) -> Any:
    """Indices spread over the whole video, as transformers spreads them."""
    total = metadata.total_num_frames
    if num_frames is None and fps is not None:
        if not metadata.fps:
            raise InvalidArgumentError(f"fps = {fps} needs the rate of the video, which is not known: give num_frames.")
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
    raise InvalidArgumentError(f"sample_indices_fn must give a list of whole numbers (got {shown(indices)}).")


def _decoder(source: Any, device: str, layout: Any) -> VideoDecoder:
    return VideoDecoder(source, dimension_order=layout, device=device)


def _described(by_content: bool, decoder: VideoDecoder) -> dict[str, Any]:
    """Fields of `VideoMetadata`."""
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


def _frames_at(indices: list[int], decoder: VideoDecoder) -> Tensor:
    return decoder.get_frames_at(indices).data
