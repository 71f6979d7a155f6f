"""Datasets of text lines and of pages with text boxes, read from files, and functions that change images at random."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from ..._engine.common.checks import path_text, shown
from ..._engine.images.reading import MAX_PIXELS
from ..._text_data.documents import (
    DEFAULT_DPI,
    WORD_COLUMNS,
    Document,
    DocumentOptions,
    page_index_of,
    read_labels,
    words_of,
)
from ...datasets import Item, MediaDataset, Recipe, RowKey, Sample, WordCrops, as_items
from ...datasets._rows.dataset import check_dataset_options
from ...datasets._sources.dispatch import files_of
from ...datasets._sources.items import ListedItems
from ...errors import InvalidArgumentError, ReadError

_IMAGES = frozenset((".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp"))
# Suffixes of text files next to line images, as transcription programs write them.
_TEXT_SUFFIXES = (".gt.txt", ".txt")
_MAX_TEXT_BYTES = 1 << 20
_LABELS = "labels.json"


class LineDataset(WordCrops):
    """Dataset of images of text lines with their texts. Each item is a `Sample` with one line.

    ``Sample.image`` is a tensor uint8 (3, H, W), in the size of the image file. ``Sample.label`` is the text in Unicode
    form NFC.

    Args:
        source: One of

            * a manifest (``.jsonl``, ``.csv``, ``.tsv``, ``.json`` or ``.parquet``) with a column ``file`` (or
              ``path``, ``file_name``, ``image``) and a column ``text``;
            * a folder of images, each with a text file next to it: ``0001.png`` with ``0001.gt.txt`` or ``0001.txt``,
              as in OCR-D, Kraken and Tesseract. Images without a text are left out;
            * a file ``labels.json``, ``{file: text}``, next to a folder ``images``, as in docTR;
            * any other source of `WordCrops`: items, mappings, or pages with the boxes and texts of their lines.
        images: Folder in which the image files of a manifest or of ``labels.json`` are. By default, this is the folder
            of the manifest, or a folder next to the manifest that has the same name without the suffix. Other sources
            do not have this argument.
        options: Arguments of `WordCrops`: ``transform``, ``box_unit``, ``max_pixels``, ``on_error``, ``seed``...

    Raises:
        InvalidArgumentError: There are no lines, a text is missing or not UTF-8, or an argument is invalid.
        SourceNotFoundError: The folder or manifest does not exist.
        ReadError: A text file cannot be read.

    Example:
        >>> from mediatensor.ocr.training import LineDataset
        >>> lines = LineDataset("lines/train.jsonl")  # doctest: +SKIP
        >>> lines[0].image.shape, lines[0].label  # doctest: +SKIP
        (torch.Size([3, 60, 911]), 'Leute Mund und ergriff die Welt')
    """

    def __init__(self, source: Any, *, images: str | os.PathLike[str] | None = None, **options: Any) -> None:
        super().__init__(_line_items(source, images), **options)


def _line_items(source: Any, images: str | os.PathLike[str] | None) -> Sequence[Item]:
    folder = None if images is None else Path(path_text("images", images))
    if not isinstance(source, str | os.PathLike):
        items: Sequence[Item] = as_items(source, kind="image")
    elif Path(source).is_dir():
        items = _items_of_folder(Path(source))
    elif Path(source).name == _LABELS:
        items = WordCrops.from_labels(folder or Path(source).parent / "images", source).items
    else:
        items = as_items(source, kind="image")
        other = folder or Path(source).with_suffix("")
        if folder is not None or (other.is_dir() and not os.path.exists(_path(items[0]))):
            items = ListedItems([_move_to_folder(item, Path(source).parent, other) for item in items], [source])
    if folder is not None and not any(folder in Path(_path(item)).parents for item in items):
        raise InvalidArgumentError(
            f"images is the folder of the image files of a manifest or of {_LABELS} (got {shown(images)} for "
            f"{shown(source)}). Leave it out, because this source has no such files."
        )
    read_from = items.read_from if isinstance(items, ListedItems) else files_of(items)
    return ListedItems([_normalize_text(item) for item in items], read_from)


def _items_of_folder(folder: Path) -> ListedItems:
    pictures = sorted(file for file in folder.rglob("*") if file.suffix.lower() in _IMAGES)
    items, texts = [], []
    for picture in pictures:
        stem = picture.with_suffix("")
        files = [text for suffix in _TEXT_SUFFIXES if (text := stem.with_name(stem.name + suffix)).is_file()]
        if files:
            items.append(Item(picture, label=_text_in(files[0])))
            texts.append(files[0])
    if not items:
        raise InvalidArgumentError(
            f"There are no lines in {str(folder)!r}: it has {len(pictures)} pictures, and none with a text next to it, "
            "NAME.gt.txt or NAME.txt. Is there a manifest? Give its path."
        )
    return ListedItems(items, texts)


def _text_in(file: Path) -> str:
    try:
        if (size := file.stat().st_size) > _MAX_TEXT_BYTES:
            raise InvalidArgumentError(f"{str(file)!r} has {size} bytes, too many for the text of a line.")
        return file.read_text(encoding="utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{str(file)!r} is not text in UTF-8 ({error}).") from None
    except OSError as error:
        raise ReadError(f"{str(file)!r} cannot be read ({error.strerror}).") from error


def _path(item: Item) -> str:
    """Return the path of an item's file, or an empty string if the item is not a file on this machine."""
    path = os.fspath(item.source) if isinstance(item.source, str | os.PathLike) else ""
    return "" if "://" in path else path


def _move_to_folder(item: Item, folder: Path, images: Path) -> Item:
    path = _path(item)
    if not path:
        return item
    moved = images / os.path.relpath(path, folder)
    return replace(item, source=str(moved), name=str(moved))


def _normalize_text(item: Item) -> Item:
    """Set the label of an item to its text in Unicode form NFC, so that each character has only one encoding."""
    if "boxes" in item.extra:
        texts = item.extra.get("texts")
        if isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts):
            own = [unicodedata.normalize("NFC", text) for text in texts]
            return replace(item, extra={**item.extra, "texts": own})
        return item
    text = item.extra.get("text", item.label)
    if not isinstance(text, str):
        raise InvalidArgumentError(
            f"The line {item.name} has no text (got {text!r}): put it into the column 'text' of a manifest."
        )
    normal = unicodedata.normalize("NFC", text)
    return replace(item, label=normal, extra={**item.extra, "text": normal})


def characters_of(dataset: MediaDataset) -> frozenset[str] | None:
    """Return the characters in the texts of a dataset, or None if finding them would require reading all rows."""
    known = getattr(dataset, "characters", None)
    if known is not None:
        return frozenset(known)
    if not isinstance(dataset, WordCrops):
        return None
    found: set[str] = set()
    for item in dataset.items:
        texts = item.extra.get("texts", ()) if "boxes" in item.extra else (item.label,)
        for text in texts:
            found.update(text if isinstance(text, str) else ())
    return frozenset(found)


def change_picture(sample: Sample) -> Sample:
    """Return the sample with its image changed at random; see `changed_line`."""
    return sample if sample.image is None else replace(sample, image=changed_line(sample.image))


def changed_line(image: Tensor) -> Tensor:
    """Change the image of a text line at random, as if it had been printed, scanned or photographed differently.

    The image is rotated, slanted, stretched and shifted slightly, and its contrast, sharpness and noise change. Random
    numbers come from torch's global generator.

    Args:
        image: The image, a tensor uint8 (3, H, W).

    Returns:
        The changed image, a tensor uint8 (3, H, W).

    Example:
        >>> import torch
        >>> from mediatensor.ocr.training import changed_line
        >>> changed_line(torch.full((3, 40, 300), 200, dtype=torch.uint8)).shape
        torch.Size([3, 40, 300])
    """
    height, width = image.shape[1:]
    picture = image.float()[None] / 255
    ground = picture.flatten(2).median(dim=2).values[0]

    if random_number() < 0.7:
        # The matrix maps the result to the image, both from -1 to 1. The rotation is small, because the ends of a line
        # that is 20 times as wide as high would otherwise leave the image.
        rise = random_number(-0.12, 0.12)
        slant = random_number(-0.35, 0.35) * height / width
        across, along = 1 / random_number(0.82, 1.06), 1 / random_number(0.96, 1.02)
        right, down = random_number(-0.01, 0.01), random_number(-0.08, 0.08)
        matrix = torch.tensor([[along, slant, right], [rise * 0.5, across, down]])
        grid = F.affine_grid(matrix[None], [1, 1, height, width], align_corners=False)
        shade = F.grid_sample(picture - ground.view(1, 3, 1, 1), grid, mode="bilinear", align_corners=False)
        picture = shade + ground.view(1, 3, 1, 1)
    if random_number() < 0.3:
        # Make strokes thicker or thinner: blend with the maximum or minimum of neighbours.
        sign = 1.0 if random_number() < 0.5 else -1.0
        spread = sign * F.max_pool2d(sign * picture, 3, 1, 1)
        share = random_number(0.2, 0.8)
        picture = picture * (1 - share) + spread * share
    if random_number() < 0.3:
        picture = soften(picture, random_number(0.35, 0.8))
    if random_number() < 0.6:
        mean, contrast, light = picture.mean(), random_number(0.5, 1.3), random_number(-0.15, 0.15)
        picture = ((picture - mean) * contrast + mean + light).clamp(0, 1) ** random_number(0.7, 1.4)
    if random_number() < 0.3:
        picture = picture + random_number(0.01, 0.08) * torch.randn_like(picture[:, :1])
    return (picture[0] * 255).round().clamp(0, 255).to(torch.uint8)


def soften(picture: Tensor, factor: float) -> Tensor:
    """Blur an image (1, C, H, W): scale it by ``factor``, which is below 1, and then back to its size."""
    height, width = picture.shape[2:]
    small = F.interpolate(picture, (max(1, int(height * factor)), max(1, int(width * factor))), mode="area")
    return F.interpolate(small, (height, width), mode="bilinear", align_corners=False)


class PageDataset(MediaDataset):
    """Dataset of page images with the boxes of their words or lines. Each item is a `Sample` with one page.

    ``Sample.image`` is a tensor uint8 (3, H, W). ``Sample.extra["boxes"]`` has the boxes, float64, relative to the
    page. Boxes are (N, 4) as (xmin, ymin, xmax, ymax), or (N, 4, 2) with four points clockwise from the top left in
    reading direction, or a dict of such arrays by class. Pages without boxes are allowed.

    Args:
        source: One of

            * a manifest (``.jsonl``, ``.json`` or ``.parquet``, because ``.csv`` cannot hold lists) with the columns
              ``file`` and ``boxes``. If there is a column ``texts``, boxes with blank texts are left out.
              ``page_index`` is the page of a document, from 0;
            * a folder with ``labels.json`` next to a folder ``images``, or the file ``labels.json``, as in docTR:
              ``{name: {"polygons": [[[x, y], ...], ...]}}``, in pixels, or with a dict of polygons by class;
            * any other source of `as_items` with the same columns.
        dpi: Resolution in pixels per inch at which pages of PDF files are rendered (needs the extra ``ocr``).
        max_pixels: Maximum number of pixels of a page. Reading a larger page raises an error. None means no limit.
        dataset_options: Arguments of `MediaDataset`: ``seed``, ``on_error``, ``max_consecutive_failures``,
            ``max_open_files``.

    Reading a page raises an error if its boxes have another form.

    Raises:
        InvalidArgumentError: There are no pages, no page has boxes, or an argument is invalid.
        SourceNotFoundError: The folder or file does not exist.

    Example:
        >>> from mediatensor.datasets import Item
        >>> from mediatensor.ocr.training import PageDataset
        >>> pages = PageDataset([Item("page.png", extra={"boxes": [[84, 109, 136, 119]]})])
        >>> pages[0].extra["boxes"].shape
        (1, 4)
    """

    def __init__(
        self, source: Any, *, dpi: float = DEFAULT_DPI, max_pixels: int | None = MAX_PIXELS, **dataset_options: Any
    ) -> None:
        check_dataset_options(self, dataset_options)
        items = _page_items(source)
        if items and not any(item.extra.get("boxes") is not None for item in items):
            raise InvalidArgumentError(
                "There are no boxes: a manifest of pages has the columns 'file' and 'boxes', and docTR's pages have a "
                f"file {_LABELS} with 'polygons'."
            )
        super().__init__(items, _PageRecipe(DocumentOptions(dpi, max_pixels)), **dataset_options)


@dataclass(frozen=True)
class _PageRecipe(Recipe):
    used_columns: ClassVar[frozenset[str]] = WORD_COLUMNS

    options: DocumentOptions = field(default_factory=DocumentOptions)

    def open(self, item: Item) -> Document:
        return Document(item.source, self.options)

    def read(self, opened: Document, item: Item, part: int) -> Sample:
        image = opened.pages.tensor(page_index_of(item))
        size = np.array([image.shape[2], image.shape[1]], dtype=np.float64)
        boxes = item.extra.get("boxes")
        if isinstance(boxes, Mapping):
            by_class = {key: _relative_boxes({"boxes": own}, item.name, size) for key, own in boxes.items()}
            return Sample(image=image, extra={"boxes": by_class})
        return Sample(image=image, extra={"boxes": _relative_boxes(item.extra, item.name, size)})


def _relative_boxes(columns: Mapping[str, Any], name: str, size: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the boxes in the columns of a page, relative to its ``size`` (width, height), without blank texts."""
    words = words_of(columns, name, "auto")
    if words is None:
        return np.zeros((0, 4))
    boxes: NDArray[np.float64] = words.boxes[list(words.numbers)]
    if words.is_relative:
        return boxes
    return boxes / (size if boxes.ndim == 3 else np.tile(size, 2))


def _page_items(source: Any) -> Sequence[Item]:
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if path.is_dir() and (path / _LABELS).is_file():
            path = path / _LABELS
        if path.name == _LABELS:
            return _items_of_labels(path)
        if path.is_dir():
            raise InvalidArgumentError(
                f"There is no file {_LABELS} in {str(path)!r}. Is there a manifest with columns 'file' and 'boxes'? "
                "Give its path."
            )
    return as_items(source, kind="document")


def _items_of_labels(file: Path) -> ListedItems:
    labels = read_labels(file)
    if not isinstance(labels, dict) or not all(
        isinstance(page, dict) and isinstance(page.get("polygons"), list | dict) for page in labels.values()
    ):
        raise InvalidArgumentError(f"{file} must hold one JSON object with 'polygons' for each name of a file.")
    folder = file.parent / "images"
    items = (Item(folder / name, extra={"boxes": page["polygons"]}) for name, page in labels.items())
    return ListedItems(items, [file])


class _ChangedRecipe(Recipe):
    def __init__(self, recipe: Recipe, change: Callable[[Sample], Sample]) -> None:
        self.recipe, self.change = recipe, change
        self.used_columns = recipe.used_columns  # type: ignore[misc]

    def open(self, item: Item) -> Any:
        return self.recipe.open(item)

    def read(self, opened: Any, item: Item, part: int) -> Sample:
        return self.change(self.recipe.read(opened, item, part))

    def position(self, opened: Any, item: Item, part: int) -> float:
        return self.recipe.position(opened, item, part)


def with_changes(dataset: MediaDataset, change: Callable[[Sample], Sample]) -> MediaDataset:
    """Return a dataset whose samples are changed by a function.

    The function must draw random numbers from torch's global generator, which the dataset seeds per row and epoch.
    """
    other = copy(dataset)
    other.recipe = _ChangedRecipe(dataset.recipe, change)
    return other


def first_rows(dataset: MediaDataset, num_rows: int | None, at_once: int, epoch: int = 0) -> Iterator[list[Sample]]:
    """Yield the first ``num_rows`` rows, or all, in lists of up to ``at_once``. Rows without an image are left out."""
    stop = len(dataset) if num_rows is None else min(num_rows, len(dataset))
    for start in range(0, stop, at_once):
        rows = dataset.__getitems__([RowKey(row, epoch) for row in range(start, min(start + at_once, stop))])
        yield [row for row in rows if isinstance(row, Sample) and row.image is not None]


def random_number(low: float = 0.0, high: float = 1.0) -> float:
    """Return a uniformly distributed number in [low, high) from torch's global generator."""
    return low + (high - low) * float(torch.rand(()))
