"""Convert the input of predictors to page tensors and network inputs, and detect the language of a text."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import PIL.Image
import torch
from torch import Tensor, nn

from ...._engine.common.checks import finite_numbers, whole_number
from ....errors import DecodeError, InvalidArgumentError, MissingDependencyError, PageError
from ....frames import Frame, FrameBatch
from ...io._documents.images import page_of_pillow
from ...io._documents.pages import Pages
from ...io.reader import open_document
from ...transforms import Resize
from ...utils._page_images import Letterbox, resized
from .transfers import constant, download, upload_images

Image: TypeAlias = "npt.NDArray[Any] | Tensor | Frame | PIL.Image.Image"
"""A page or a crop: an array (H, W, 3), a tensor (3, H, W) or (H, W, 3), a decoded frame, or a Pillow image."""
_FILES = (str, os.PathLike, bytes, bytearray)
_FLOATS = (torch.float16, torch.bfloat16, torch.float32)
# Texts up to this length, in characters, get a language only if its probability is high, as in docTR.
_SHORT_TEXT = 5
_SHORT_TEXT_CONFIDENCE = 0.2
LEAST_SCALE = 0.6  # strips that would be scaled by less than this are cut into tiles
TILE_OVERLAP = 0.25  # overlap of two tiles, as a share of their length
# Greatest factor by which pages are enlarged. Large letters, as in small video frames, get blurred edges, which mislead
# detectors.
MAX_ENLARGEMENT = 2.0


def page_sources(pages: Any) -> Sequence[Any]:
    """Return the pages of a predictor's input as a sequence; see `OCRPredictor.forward` for the accepted inputs.

    Pages of documents are loaded only when they are accessed. If a list has documents and images, the item for each
    page of a document is a document of this one page.
    """
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
    return [
        page
        for document in documents
        for page in (map(document.select, range(len(document))) if isinstance(document, Pages) else [document])
    ]


def single_images(images: Any) -> Iterator[Image]:
    """Yield the images in a list, a batch, a `FrameBatch` or a document."""
    if isinstance(images, FrameBatch):
        images = images.data
    if isinstance(images, Frame) or (isinstance(images, Tensor | np.ndarray) and images.ndim == 3):
        raise InvalidArgumentError("got one image instead of several: put it into a list, as in [page].")
    if isinstance(images, Tensor | np.ndarray) and images.ndim != 4:
        raise InvalidArgumentError(
            f"incorrect input shape: {tuple(images.shape)}; a batch of images is (N, H, W, 3) or (N, 3, H, W)."
        )
    if isinstance(images, (str, bytes)) or not hasattr(images, "__iter__"):
        raise InvalidArgumentError(
            f"images of type {type(images).__name__}: give a list of arrays or tensors, a FrameBatch, or a document "
            "from DocumentFile.from_pdf or DocumentFile.from_images."
        )
    yield from images


def as_images(images: Iterable[Image] | FrameBatch | Tensor | npt.NDArray[Any]) -> list[Tensor]:
    """Convert a list or batch of images to tensors (3, H, W) with `as_tensor`, and check the range of their values."""
    tensors = [as_tensor(image) for image in single_images(images)]
    check_values(tensors)
    return tensors


def as_tensor(image: Image) -> Tensor:
    """Return an image as a tensor (3, H, W) on its device, without a copy if possible. Its values are not checked.

    Images are (H, W, 3) or (3, H, W). If both fit, arrays are read as (H, W, 3) and tensors as (3, H, W).
    """
    if isinstance(image, Frame):
        image = image.data
    if isinstance(image, PIL.Image.Image):
        image = pixels_of_pillow(image)
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


def pixels_of_pillow(image: PIL.Image.Image) -> npt.NDArray[np.uint8]:
    """Convert a Pillow image to an array (H, W, 3), in the same way as image files: transparent parts become white.

    Pillow decodes a file only when its pixels are needed. If it cannot decode the file, raise `PageError`.
    """
    try:
        image.load()
    except Exception as error:  # for damaged data, Pillow raises almost any exception
        raise PageError(f"A Pillow image cannot be read: {error}.") from error
    try:
        return page_of_pillow(image)
    except DecodeError as error:
        raise InvalidArgumentError(f"a Pillow image of mode {image.mode!r}: {error}; convert it to 'L'.") from None


def check_values(images: Sequence[Tensor]) -> None:
    """Raise an error if an image of floats has values far outside [0, 1]. The host waits once for each device."""
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
    """Load langdetect's profiles into a separate factory, because its shared factory belongs to other code."""
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
    """Detect the language of a text. The same text always gives the same result.

    Returns:
        The ISO 639 code of the language, and its confidence in [0, 1]. The result is ``("unknown", 0.0)`` if the text
        has no letters or only one character, or if it is short and no language is likely.

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


@dataclass(frozen=True)
class Placement:
    """The position and size of an image within the padded input of a network.

    Attributes:
        left: Distance from the left edge of the input to the image, as a fraction of the input's width.
        top: Distance from the top edge of the input to the image, as a fraction of the input's height.
        width: Width of the image, as a fraction of the input's width.
        height: Height of the image, as a fraction of the input's height.
    """

    left: float
    top: float
    width: float
    height: float

    def restore(self, boxes: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        """Convert boxes relative to the network's input to boxes relative to the image, and clip them to [0, 1].

        Args:
            boxes: Axis-aligned boxes (N, 4), as xmin, ymin, xmax, ymax; or four corners (x, y) for each box, (N, 4, 2).
                Scores can follow the coordinates, as in (N, 5) and (N, 5, 2): the fifth value, or the fifth pair, of
                each box is returned unchanged.

        Returns:
            A new array of the same shape.
        """
        restored = boxes.copy()
        corners = restored[:, :4].reshape(-1, 2, 2) if boxes.ndim == 2 else restored[:, :4]
        moved = (corners - (self.left, self.top)) / (self.width, self.height)
        restored[:, :4] = moved.clip(0, 1).reshape(restored[:, :4].shape)
        return restored


@dataclass(frozen=True)
class PageBatch:
    """A batch of network inputs that have the same size.

    Attributes:
        data: The normalised inputs, a float tensor (N, 3, H, W).
        indices: For each input, the index of its image in the list from which the batch was made.
        placements: For each input, the `Placement` of its image within the input.
    """

    data: Tensor
    indices: list[int]
    placements: list[Placement]

    def padding_masks(self) -> Tensor:
        """Return bool masks (N, H, W) of the inputs, on their device: True in the image and False in the padding."""
        height, width = self.data.shape[-2:]
        masks = torch.zeros(len(self.data), height, width, dtype=torch.bool, device=self.data.device)
        for mask, place in zip(masks, self.placements, strict=True):
            top, left = round(place.top * height), round(place.left * width)
            mask[top : top + round(place.height * height), left : left + round(place.width * width)] = True
        return masks


def to_float(picture: Tensor) -> Tensor:
    """Convert a picture to float32 in [0, 1]. Floating-point values are not scaled."""
    return picture.float().div_(255) if picture.dtype == torch.uint8 else picture.float()


def _stacked(pictures: Sequence[Tensor]) -> Tensor:
    """Stack pictures of the same size. If some are uint8 and others floats, all become floats in [0, 1]."""
    has_one_dtype = len({picture.dtype for picture in pictures}) == 1
    return torch.stack(list(pictures if has_one_dtype else map(to_float, pictures)))


def normalize_pixels(data: Tensor, mean: Sequence[float], std: Sequence[float], dtype: torch.dtype) -> Tensor:
    """Subtract the mean of each channel and divide by its standard deviation.

    ``data`` (N, 3, H, W) is uint8 in [0, 255] or floats in [0, 1]. ``mean`` and ``std`` refer to values in [0, 1].
    """
    scale = 255.0 if data.dtype == torch.uint8 else 1.0
    shape = (1, len(mean), 1, 1)
    factor = constant(tuple(1 / (scale * value) for value in std), data.device).view(shape)
    offset = constant(tuple(-m / s for m, s in zip(mean, std, strict=True)), data.device).view(shape)
    return (data.float() * factor + offset).to(dtype)


def _check_scales(mean: Any, std: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    scales = finite_numbers(mean), finite_numbers(std)
    if [len(values) for values in scales] != [3, 3] or not all(scales[1]):
        raise InvalidArgumentError(f"mean={mean!r}, std={std!r}: give three numbers for each, and no std of 0.")
    return scales


class Normalize(nn.Module):
    """Normalises images with `normalize_pixels`."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.mean, self.std = tuple(mean), tuple(std)

    def extra_repr(self) -> str:
        return f"mean={self.mean}, std={self.std}"

    def forward(self, data: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        return normalize_pixels(data, self.mean, self.std, dtype)


class PreProcessor(nn.Module):
    """Resizes images of any size to one size, normalises them, and puts them into batches, as docTR does.

    Args:
        output_size: Height and width in pixels of the network's input, or one number for both.
        batch_size: Maximum number of images in a batch.
        mean: Mean of each channel, for values in [0, 1]. It is subtracted from the pixels.
        std: Standard deviation of each channel, for values in [0, 1]. Pixels are divided by it.
        preserve_aspect_ratio: Scale both sides of an image equally, and pad it with black; otherwise stretch it.
        symmetric_pad: Pad equally on opposite sides; otherwise only on the right and below.
        return_padding_mask: Return bool masks along with the images. They are True in the image and False in the
            padding.

    Raises:
        InvalidArgumentError: ``output_size`` or ``batch_size`` is not a positive integer.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.models.preprocessor import PreProcessor
        >>> batches = PreProcessor((32, 128), batch_size=2)([np.zeros((16, 20, 3), np.uint8)] * 3)
        >>> [tuple(batch.shape) for batch in batches]
        [(2, 3, 32, 128), (1, 3, 32, 128)]
    """

    def __init__(
        self,
        output_size: int | Sequence[int],
        batch_size: int,
        mean: Sequence[float] = (0.5, 0.5, 0.5),
        std: Sequence[float] = (1.0, 1.0, 1.0),
        preserve_aspect_ratio: bool = False,
        symmetric_pad: bool = False,
        return_padding_mask: bool = False,
    ) -> None:
        super().__init__()
        self.batch_size = whole_number("batch_size", batch_size, at_least=1)
        self.resize = Resize(
            output_size,
            preserve_aspect_ratio=preserve_aspect_ratio,
            symmetric_pad=symmetric_pad,
            return_padding_mask=return_padding_mask,
        )
        self.normalize = Normalize(*_check_scales(mean, std))

    def forward(
        self, x: Iterable[Image] | FrameBatch | Tensor | npt.NDArray[Any]
    ) -> list[Tensor] | tuple[list[Tensor], list[Tensor]]:
        """Resize and normalise images, and return them in batches.

        Args:
            x: A list or batch of images. An image is an array (H, W, 3) or a tensor (3, H, W) or (H, W, 3), with uint8
                values or floats in [0, 1]; or a `Frame` or Pillow image. All images of a NumPy array (N, H, W, 3) are
                put into one batch, and are stretched to the output size without padding.

        Returns:
            A list of float32 tensors (N, 3, H, W), one for each batch. If ``return_padding_mask`` is true, a pair of
            this list and a list of masks: bool tensors (N, H, W), True in the image and False in the padding.

        Raises:
            InvalidArgumentError: ``x`` is a single image, or an item is not an image.
        """
        images = as_images(x)
        if isinstance(x, np.ndarray):
            height, width = self.resize.size
            stretched = [resized(image, (height, width)) for image in images]
            batches = [self.normalize(torch.stack(stretched))] if stretched else []
            masks = [torch.ones((len(batch), height, width), dtype=torch.bool) for batch in batches]
        else:
            batches = [batch.data for batch in self.batches(images)]
            masks = self._make_batches([self._letterbox().padding_mask(image) for image in images])
        return (batches, masks) if self.resize.return_padding_mask else batches

    def sample_transforms(self, x: Image) -> Tensor | tuple[Tensor, Tensor]:
        """Resize one image without normalising it.

        Args:
            x: An image, as in `forward`.

        Returns:
            The image as a tensor (3, H, W), float32 in [0, 1]. If ``return_padding_mask`` is true, a pair of this
            tensor and its mask: a bool tensor (H, W), True in the image and False in the padding.

        Raises:
            InvalidArgumentError: ``x`` is not an image.

        Example:
            >>> import numpy as np
            >>> from mediatensor.ocr.models.preprocessor import PreProcessor
            >>> PreProcessor((32, 128), batch_size=2).sample_transforms(np.zeros((16, 20, 3), np.uint8)).shape
            torch.Size([3, 32, 128])
        """
        (image,) = as_images([x])
        picture = self._letterbox().fit(image)
        sample = to_float(picture)
        return (sample, self._letterbox().padding_mask(image)) if self.resize.return_padding_mask else sample

    def batch_inputs(
        self, samples: Sequence[Tensor] | Sequence[tuple[Tensor, Tensor]]
    ) -> list[Tensor] | tuple[list[Tensor], list[Tensor]]:
        """Stack tensors of the same shape into batches.

        Args:
            samples: Tensors of the same shape, or pairs of a tensor and its mask, as returned by `sample_transforms`.

        Returns:
            A list of stacked tensors, with at most ``batch_size`` tensors in each. For pairs, two such lists: the
            stacked tensors and the stacked masks.

        Example:
            >>> import torch
            >>> from mediatensor.ocr.models.preprocessor import PreProcessor
            >>> batches, masks = PreProcessor((32, 128), 2).batch_inputs([(torch.zeros(3, 8, 8), torch.ones(8, 8))] * 3)
            >>> [tuple(batch.shape) for batch in batches], [tuple(mask.shape) for mask in masks]
            ([(2, 3, 8, 8), (1, 3, 8, 8)], [(2, 8, 8), (1, 8, 8)])
        """
        if samples and isinstance(samples[0], tuple):
            tensors, masks = zip(*samples, strict=True)
            return self._make_batches(tensors), self._make_batches(masks)
        return self._make_batches(cast("Sequence[Tensor]", samples))

    def batches(
        self, images: Sequence[Tensor], device: torch.device | None = None, dtype: torch.dtype = torch.float32
    ) -> Iterator[PageBatch]:
        """Yield a `PageBatch` for every ``batch_size`` images, resized, padded and normalised.

        The placements in a batch convert boxes relative to the network's input to boxes relative to the images.

        Args:
            images: Tensors (3, H, W) of any size, uint8 or floats in [0, 1].
            device: The device to which images are moved before resizing; ``None`` leaves them where they are.
            dtype: Type of the normalised data.
        """
        letterbox = self._letterbox()
        full_height, full_width = letterbox.size
        for start in range(0, len(images), self.batch_size):
            chunk = images[start : start + self.batch_size]
            data = _stacked([letterbox.fit(image) for image in (upload_images(chunk, device) if device else chunk)])
            places = [letterbox.place(image) for image in chunk]
            yield PageBatch(
                self.normalize(data, dtype),
                list(range(start, start + len(chunk))),
                [
                    Placement(left / full_width, top / full_height, width / full_width, height / full_height)
                    for top, left, height, width in places
                ],
            )

    def _letterbox(self) -> Letterbox:
        # Evaluated on each call, because programs may change the size of `resize` later.
        return Letterbox(self.resize.size, self.resize.preserve_aspect_ratio, self.resize.symmetric_pad)

    def _make_batches(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        return [
            torch.stack(tuple(tensors[start : start + self.batch_size]))
            for start in range(0, len(tensors), self.batch_size)
        ]


class FlexiblePreProcessor(nn.Module):
    """Scales pages without padding, and batches pages of equal size, for a network that takes any size.

    Args:
        shorter_side: Minimum length in pixels of the shorter side of a scaled page. Smaller pages are enlarged, but at
            most twofold.
        longer_side: Maximum length in pixels of the longer side of a scaled page. This limit takes precedence over
            ``shorter_side``.
        batch_size: Maximum number of pages in a batch. All pages of a batch have the same size after scaling. On the
            CPU, every batch has one page.
        mean: Mean of each channel, for values in [0, 1].
        std: Standard deviation of each channel, for values in [0, 1].
        multiple: Both sides of a scaled page are rounded to multiples of this number, in pixels.

    Example:
        >>> from mediatensor.ocr.models.preprocessor import FlexiblePreProcessor
        >>> FlexiblePreProcessor(960, 2000, batch_size=2).size_for(1000, 754)
        (1280, 960)
    """

    def __init__(
        self,
        shorter_side: int,
        longer_side: int,
        batch_size: int,
        mean: Sequence[float] = (0.5, 0.5, 0.5),
        std: Sequence[float] = (1.0, 1.0, 1.0),
        multiple: int = 32,
    ) -> None:
        super().__init__()
        self.shorter_side = whole_number("shorter_side", shorter_side, at_least=1)
        self.longer_side = whole_number("longer_side", longer_side, at_least=1)
        self.batch_size = whole_number("batch_size", batch_size, at_least=1)
        self.mean, self.std = _check_scales(mean, std)
        self.multiple = whole_number("multiple", multiple, at_least=1)

    def extra_repr(self) -> str:
        """Return ``shorter_side``, ``longer_side`` and ``batch_size`` as text for ``repr``."""
        return f"shorter_side={self.shorter_side}, longer_side={self.longer_side}, batch_size={self.batch_size}"

    def size_for(self, height: int, width: int) -> tuple[int, int]:
        """Return the height and width, in pixels, to which a page of this ``height`` and ``width`` is scaled."""
        scale = min(max(1.0, self.shorter_side / min(height, width)), MAX_ENLARGEMENT)
        scale = min(scale, self.longer_side / max(height, width))
        return self._round_length(height * scale), self._round_length(width * scale)

    def tiles_for(self, height: int, width: int) -> list[tuple[int, int]]:
        """Divide a long strip, such as a till receipt, into overlapping tiles along its longer side.

        Without tiles, the strip would be shrunk until its longer side is at most ``longer_side``. Its letters would
        then be too small to detect.

        Args:
            height: Height of the page in pixels.
            width: Width of the page in pixels.

        Returns:
            For each tile, a pair of start and stop, in pixels along the longer side of the page. The list is empty for
            pages that need no tiles.
        """
        shorter, longer = min(height, width), max(height, width)
        is_long = longer * self.shorter_side > 2 * shorter * self.longer_side
        if not is_long or self.longer_side >= LEAST_SCALE * longer:
            return []
        scale = min(max(1.0, self.shorter_side / shorter), MAX_ENLARGEMENT)
        length = math.ceil(max(self.longer_side / scale, 2 * shorter))
        if length >= longer:
            return []
        number = math.ceil((longer - TILE_OVERLAP * length) / ((1 - TILE_OVERLAP) * length))
        starts = [round(position * (longer - length) / max(number - 1, 1)) for position in range(number)]
        return [(start, start + length) for start in starts]

    def batches(
        self, images: Sequence[Tensor], device: torch.device | None = None, dtype: torch.dtype = torch.float32
    ) -> Iterator[PageBatch]:
        """Scale and normalise pages, and yield a `PageBatch` for pages that have the same size after scaling.

        Pages are grouped by size, so batches do not follow the order of ``images``.

        Args:
            images: Tensors (3, H, W) of any size, uint8 or floats in [0, 1].
            device: The device to which pages are moved before scaling. With ``None``, they stay on their device, and
                each batch has one page.
            dtype: Type of the normalised data.
        """
        # Batches are not faster on one CPU core, and need more memory.
        at_once = 1 if device is None or device.type == "cpu" else self.batch_size
        groups: dict[tuple[int, int], list[int]] = {}
        for index, image in enumerate(images):
            groups.setdefault(self.size_for(image.shape[1], image.shape[2]), []).append(index)
        for size, members in groups.items():
            for start in range(0, len(members), at_once):
                indices = members[start : start + at_once]
                chunk = [images[index] for index in indices]
                pages = upload_images(chunk, device) if device else chunk
                data = _stacked([resized(page, size) for page in pages])
                whole = Placement(0, 0, 1, 1)
                yield PageBatch(normalize_pixels(data, self.mean, self.std, dtype), indices, [whole] * len(indices))

    def _round_length(self, length: float) -> int:
        return max(self.multiple, round(length / self.multiple) * self.multiple)


def part_of_page(
    page: Tensor,
    size: Sequence[int],
    box: tuple[int, int, int, int],
    scale: float,
    levels: tuple[float, float],
    preprocessor: FlexiblePreProcessor,
    dtype: torch.dtype,
) -> Tensor:
    """Cut a part out of a page (3, H, W), and return it as a network input (1, 3, h, w).

    ``size`` is the height and width of the network input for the whole page. ``box`` is the part to cut, in pixels of
    that input: left, top, right, bottom. In the result, the part is larger by the factor ``scale``. The contrast is
    stretched: ``levels`` are two brightness values in [0, 1], which become 0 and 1. Values outside this range are
    clipped.
    """
    down, right = page.shape[1] / size[0], page.shape[2] / size[1]
    x0, x1 = int(box[0] * right), max(math.ceil(box[2] * right), int(box[0] * right) + 1)
    y0, y1 = int(box[1] * down), max(math.ceil(box[3] * down), int(box[1] * down) + 1)
    multiple = preprocessor.multiple
    height, width = (
        max(multiple, round((high - low) * scale / multiple) * multiple)
        for low, high in ((box[1], box[3]), (box[0], box[2]))
    )
    picture = resized(page[:, y0:y1, x0:x1], (height, width))
    picture = ((to_float(picture) - levels[0]) / (levels[1] - levels[0])).clamp(0, 1)
    return normalize_pixels(picture[None], preprocessor.mean, preprocessor.std, dtype)


def make_pre_processor(
    cfg: Mapping[str, Any] | None,
    batch_size: int,
    preserve_aspect_ratio: bool,
    symmetric_pad: bool,
    options: Mapping[str, Any],
) -> PreProcessor:
    """Create a preprocessor for ``cfg``. ``mean`` and ``std`` in ``options`` take precedence unless they are None."""
    if not cfg:
        raise InvalidArgumentError("the model has no cfg: set it to a dict of input_shape, mean and std.")
    given = {name: options.get(name) for name in ("mean", "std")}
    scales = {name: cfg[name] if value is None else value for name, value in given.items()}
    return PreProcessor(
        cfg["input_shape"][1:],
        batch_size,
        preserve_aspect_ratio=preserve_aspect_ratio,
        symmetric_pad=symmetric_pad,
        **scales,
    )
