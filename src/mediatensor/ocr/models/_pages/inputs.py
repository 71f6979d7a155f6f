"""Convert the input of predictors to page tensors, and detect the language of text."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import PIL.Image
import torch
from torch import Tensor

from ....errors import InvalidArgumentError, MissingDependencyError
from ....frames import Frame, FrameBatch
from ...io.reader import Pages, open_document
from .._networks.transfers import download

Image: TypeAlias = "npt.NDArray[Any] | Tensor | Frame | PIL.Image.Image"
"""A page or a crop: an array (H, W, 3), a tensor (3, H, W) or (H, W, 3), a decoded frame, or a Pillow image."""
_FILES = (str, os.PathLike, bytes, bytearray)
_FLOATS = (torch.float16, torch.bfloat16, torch.float32)
# Texts up to this length, in characters, get a language only if its probability is high.
_SHORT_TEXT = 5
_SHORT_TEXT_CONFIDENCE = 0.2


def page_sources(pages: Any) -> Sequence[Any]:
    """Return the pages of a predictor's input as a sequence that loads pages on access; see `OCRPredictor.forward`."""
    if isinstance(pages, Pages):
        return pages
    if isinstance(pages, _FILES):
        return open_document(pages)
    if isinstance(pages, PIL.Image.Image):
        return [pages]
    images = list(single_images(pages))
    if not any(isinstance(image, (*_FILES, Pages)) for image in images):
        return images
    documents: list[Any] = [open_document(image) if isinstance(image, _FILES) else image for image in images]
    if all(isinstance(document, Pages) for document in documents):
        joined: Sequence[Any] = reduce(operator.add, documents)
        return joined
    return [page for document in documents for page in (document if isinstance(document, Pages) else [document])]


def single_images(images: Any) -> Iterator[Image]:
    """Yield the images of a list, a batch or a `FrameBatch`; documents are read page by page."""
    if isinstance(images, FrameBatch):
        images = images.data
    if isinstance(images, Frame) or (isinstance(images, Tensor | np.ndarray) and images.ndim == 3):
        raise InvalidArgumentError("one image was given where several belong: put it into a list, as in [page].")
    if isinstance(images, Tensor | np.ndarray) and images.ndim != 4:
        raise InvalidArgumentError(
            f"incorrect input shape: {tuple(images.shape)}; a batch of images is (N, H, W, 3) or (N, 3, H, W)."
        )
    if isinstance(images, (str, bytes)) or not hasattr(images, "__iter__"):
        raise InvalidArgumentError(
            f"images of type {type(images).__name__}: give a list of arrays or tensors, a FrameBatch, or what "
            "DocumentFile.from_pdf and DocumentFile.from_images return."
        )
    yield from images


def as_images(images: Iterable[Image] | FrameBatch | Tensor | npt.NDArray[Any]) -> list[Tensor]:
    """Return all images of a list or batch as tensors with valid values; see `as_tensor`."""
    tensors = [as_tensor(image) for image in single_images(images)]
    check_values(tensors)
    return tensors


def as_tensor(image: Image) -> Tensor:
    """Return an image as a tensor (3, H, W) on its device, if possible without a copy, and without checking values.

    Arrays (3, H, W) are accepted if the last dimension is not 3.
    """
    if isinstance(image, Frame):
        image = image.data
    if isinstance(image, PIL.Image.Image):
        image = np.asarray(image.convert("RGB"))
    if isinstance(image, np.ndarray):
        if image.dtype not in (np.uint8, np.float16, np.float32):
            raise _wrong_type(image.dtype)
        # torch warns about read-only arrays, such as those of Pillow, and cannot view negative strides.
        is_viewable = image.flags.writeable and min(image.strides, default=0) >= 0
        tensor = torch.from_numpy(image if is_viewable else image.copy())
        channels_last = tensor.ndim == 3 and tensor.shape[2] == 3
    elif isinstance(image, Tensor):
        tensor = image.detach()
        channels_last = tensor.ndim == 3 and tensor.shape[0] != 3
    else:
        raise InvalidArgumentError(f"an image of type {type(image).__name__}: give an array (H, W, 3) or a tensor.")
    if tensor.dtype != torch.uint8 and tensor.dtype not in _FLOATS:
        raise _wrong_type(tensor.dtype)
    if tensor.ndim != 3 or tensor.shape[2 if channels_last else 0] != 3:
        raise InvalidArgumentError(
            f"incorrect input shape: {tuple(tensor.shape)}; an image is (H, W, 3), or (3, H, W) as a tensor."
        )
    if 0 in tensor.shape:
        raise InvalidArgumentError(f"incorrect input shape: {tuple(tensor.shape)} has no pixels.")
    return tensor.permute(2, 0, 1) if channels_last else tensor


def check_values(images: Sequence[Tensor]) -> None:
    """Check that floats are approximately in [0, 1]; the host waits for the device only once for all images."""
    floating = [image for image in images if image.is_floating_point()]
    for device in {image.device for image in floating}:
        own = [image for image in floating if image.device == device]
        extremes = [torch.stack([image.amin(), image.amax()]).float() for image in own]
        for image, (least, greatest) in zip(own, download(torch.stack(extremes))[0].tolist(), strict=True):
            if not -0.5 <= least <= greatest <= 1.5:
                raise InvalidArgumentError(
                    f"an image of {image.dtype} with values from {least} to {greatest}: floats are in [0, 1]; give "
                    "uint8 for [0, 255]."
                )


def _wrong_type(dtype: Any) -> InvalidArgumentError:
    return InvalidArgumentError(f"an image of {dtype}: give uint8 in [0, 255], or float16 or float32 in [0, 1].")


@lru_cache(maxsize=1)
def _language_profiles() -> Any:
    """Load langdetect's profiles into a separate factory, because seeding the shared factory would be global."""
    try:
        from langdetect.detector_factory import PROFILES_DIRECTORY, DetectorFactory
    except ImportError:
        raise MissingDependencyError(
            'Detecting the language needs langdetect: pip install "mediatensor[language]".'
        ) from None
    factory = DetectorFactory()
    factory.load_profile(PROFILES_DIRECTORY)
    return factory


def get_language(text: str) -> tuple[str, float]:
    """Detect the language of a text; the result is deterministic.

    Returns:
        ISO 639 code and confidence in [0, 1]; ``("unknown", 0.0)`` for a text without letters, a single character, or
        a few characters without a likely language.

    Raises:
        MissingDependencyError: langdetect is not installed.
    """
    factory = _language_profiles()
    from langdetect.lang_detect_exception import LangDetectException

    detector = factory.create()
    detector.seed = 0
    detector.append(text.lower())
    try:
        best = detector.get_probabilities()[0]
    except (LangDetectException, IndexError):
        return "unknown", 0.0
    if len(text) <= 1 or (len(text) <= _SHORT_TEXT and best.prob <= _SHORT_TEXT_CONFIDENCE):
        return "unknown", 0.0
    return str(best.lang), float(best.prob)
