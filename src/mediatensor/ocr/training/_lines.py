"""Pictures of lines with their texts, from files."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..._common.checks import path_text
from ...datasets import Item, MediaDataset, Recipe, Sample, WordCrops, as_items
from ...errors import InvalidArgumentError

__all__ = ["LineDataset", "augmented", "changed_line", "characters_of"]

_IMAGES = frozenset((".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp"))
#: What the files with the texts of pictures of lines end in, as programs that transcribe write them.
_TEXT_SUFFIXES = (".gt.txt", ".txt")
_MAX_TEXT_BYTES = 1 << 20


class LineDataset(WordCrops):
    """Pictures of lines with their texts, one sample a row.

    ``Sample.image`` is uint8 (3, H, W), of the size of the file; ``Sample.label`` is the text, in Unicode's form C.

    Args:
        source: One of

            * a manifest, ``.jsonl``, ``.csv``, ``.tsv``, ``.json`` or ``.parquet``, with a column ``file`` (or
              ``path``, ``file_name``, ``image``) and a column ``text``;
            * a folder of pictures, each with a file of its text beside it: ``0001.png`` with ``0001.gt.txt`` or
              ``0001.txt``, as OCR-D, Kraken and Tesseract have them;
            * a file ``labels.json``, ``{file: text}``, beside a folder ``images``, as docTR has it;
            * anything else that `WordCrops` takes: pages with the boxes and texts of their lines, items, mappings.
        images: The folder that the files of a manifest are in. By default it is the folder of the manifest, or one
            beside it that is called like the manifest.
        options: Arguments of `WordCrops`: ``transform``, ``box_unit``, ``max_pixels``, ``on_error``, ``seed``...

    Raises:
        InvalidArgumentError: if there are no lines, one has no text, or an argument is not among the accepted ones.
        SourceNotFoundError: if there is no such folder or manifest.

    Example:
        >>> from mediatensor.ocr.training import LineDataset
        >>> lines = LineDataset("lines/train.jsonl")  # doctest: +SKIP
        >>> lines[0].image.shape, lines[0].label  # doctest: +SKIP
        (torch.Size([3, 60, 911]), 'Leute Mund und ergriff die Welt')
    """

    def __init__(self, source: Any, *, images: str | os.PathLike[str] | None = None, **options: Any) -> None:
        super().__init__(_items(source, images), **options)


def _items(source: Any, images: str | os.PathLike[str] | None) -> Sequence[Item]:
    if not isinstance(source, str | os.PathLike):
        items: Sequence[Item] = as_items(source, kind="image")
    elif Path(source).is_dir():
        items = _items_of_folder(Path(source))
    elif Path(source).name == "labels.json":
        folder = Path(source).parent / "images" if images is None else Path(path_text("images", images))
        items = WordCrops.from_labels(folder, source).items
    else:
        items = as_items(source, kind="image")
        folder = Path(source).parent
        if images is not None:
            items = [_moved(item, folder, Path(path_text("images", images))) for item in items]
        elif Path(source).with_suffix("").is_dir() and not os.path.exists(_path(items[0])):
            items = [_moved(item, folder, Path(source).with_suffix("")) for item in items]
    return [_with_text(item) for item in items]


def _items_of_folder(folder: Path) -> list[Item]:
    pictures = sorted(file for file in folder.rglob("*") if file.suffix.lower() in _IMAGES)
    items = []
    for picture in pictures:
        stem = picture.with_suffix("")
        beside = [text for suffix in _TEXT_SUFFIXES if (text := stem.with_name(stem.name + suffix)).is_file()]
        if beside and beside[0].stat().st_size <= _MAX_TEXT_BYTES:
            items.append(Item(picture, label=beside[0].read_text(encoding="utf-8-sig").rstrip("\r\n")))
    if not items:
        raise InvalidArgumentError(
            f"There are no lines in {str(folder)!r}: it has {len(pictures)} pictures, and none with a text beside it, "
            "NAME.gt.txt or NAME.txt. Is there a manifest? Give its path."
        )
    return items


def _path(item: Item) -> str:
    return os.fspath(item.source) if isinstance(item.source, str | os.PathLike) else ""


def _moved(item: Item, folder: Path, images: Path) -> Item:
    path = _path(item)
    if not path or "://" in path:
        return item
    moved = images / os.path.relpath(path, folder)
    return replace(item, source=str(moved), name=str(moved))


def _with_text(item: Item) -> Item:
    """The item with its text as its label, in form C, so that one character is written in one way."""
    if "boxes" in item.extra:
        texts = item.extra.get("texts")
        if isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts):
            own = [unicodedata.normalize("NFC", text) for text in texts]
            return replace(item, extra={**item.extra, "texts": own})
        return item
    text = item.extra.get("text", item.label)
    if not isinstance(text, str):
        raise InvalidArgumentError(
            f"The line {item.name} has no text (got {text!r}): it stands in the column 'text' of a manifest."
        )
    normal = unicodedata.normalize("NFC", text)
    return replace(item, label=normal, extra={**item.extra, "text": normal})


def characters_of(dataset: MediaDataset) -> frozenset[str] | None:
    """The characters of the texts of a dataset; ``None`` if they are known only when the rows are read."""
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


@dataclass(frozen=True)
class _Augmented(Recipe):
    """The samples of another recipe, whose pictures are changed at random.

    Attributes:
        recipe: The other recipe.
        change: Takes a picture, uint8 (3, H, W), and gives another one; it draws from the global generators, which the
            dataset seeds for each row.
    """

    recipe: Recipe
    change: Callable[[Tensor], Tensor]

    def open(self, item: Item) -> Any:
        return self.recipe.open(item)

    def read(self, opened: Any, item: Item, part: int) -> Sample:
        sample = self.recipe.read(opened, item, part)
        return sample if sample.image is None else replace(sample, image=self.change(sample.image))

    def position(self, opened: Any, item: Item, part: int) -> float:
        return self.recipe.position(opened, item, part)


def augmented(dataset: MediaDataset) -> MediaDataset:
    """The same rows, whose pictures are changed anew in each epoch; see `changed_line`."""
    other = copy(dataset)
    other.recipe = _Augmented(dataset.recipe, changed_line)
    return other


def changed_line(image: Tensor) -> Tensor:
    """A line as it might have been printed, scanned or photographed otherwise.

    It is turned, slanted, stretched and moved a little, and its contrast, sharpness and noise change. All of it is
    drawn from torch's global generator.

    Args:
        image: uint8 (3, H, W).

    Returns:
        uint8 (3, H, W).

    Example:
        >>> import torch
        >>> from mediatensor.ocr.training import changed_line
        >>> changed_line(torch.full((3, 40, 300), 200, dtype=torch.uint8)).shape
        torch.Size([3, 40, 300])
    """
    height, width = image.shape[1:]
    picture = image.float()[None] / 255
    ground = picture.flatten(2).median(dim=2).values[0]

    def uniform(low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand(()))

    if float(torch.rand(())) < 0.7:
        # From a place of the result to one of the picture, both from -1 to 1: a line 20 times as wide as high is
        # turned by few degrees, or its ends leave the picture.
        rise = uniform(-0.12, 0.12)
        slant = uniform(-0.35, 0.35) * height / width
        across, along = 1 / uniform(0.82, 1.06), 1 / uniform(0.96, 1.02)
        matrix = torch.tensor([[along, slant, uniform(-0.01, 0.01)], [rise * 0.5, across, uniform(-0.08, 0.08)]])
        grid = F.affine_grid(matrix[None], [1, 1, height, width], align_corners=False)
        shade = F.grid_sample(picture - ground.view(1, 3, 1, 1), grid, mode="bilinear", align_corners=False)
        picture = shade + ground.view(1, 3, 1, 1)
    if float(torch.rand(())) < 0.3:
        # Thicker or thinner strokes: the least or greatest of neighbours, mixed in.
        sign = 1.0 if float(torch.rand(())) < 0.5 else -1.0
        spread = sign * F.max_pool2d(sign * picture, 3, 1, 1)
        share = uniform(0.2, 0.8)
        picture = picture * (1 - share) + spread * share
    if float(torch.rand(())) < 0.3:
        factor = uniform(0.35, 0.8)
        small = F.interpolate(picture, scale_factor=factor, mode="area")
        picture = F.interpolate(small, (height, width), mode="bilinear", align_corners=False)
    if float(torch.rand(())) < 0.6:
        mean = picture.mean()
        picture = ((picture - mean) * uniform(0.5, 1.3) + mean + uniform(-0.15, 0.15)).clamp(0, 1) ** uniform(0.7, 1.4)
    if float(torch.rand(())) < 0.3:
        picture = picture + uniform(0.01, 0.08) * torch.randn_like(picture[:, :1])
    return (picture[0] * 255).round().clamp(0, 255).to(torch.uint8)
