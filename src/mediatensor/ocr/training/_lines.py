"""Pictures of lines with their texts, from files."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..._engine.common.checks import path_text
from ...datasets import Item, MediaDataset, Sample, WordCrops, as_items
from ...datasets._sources.items import ListedItems
from ...datasets._sources.references import files_of
from ...errors import InvalidArgumentError, ReadError
from ._learning import random_number

__all__ = ["LineDataset", "changed_line", "changed_picture", "characters_of"]

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
              ``0001.txt``, as OCR-D, Kraken and Tesseract have them; pictures without one are left out;
            * a file ``labels.json``, ``{file: text}``, beside a folder ``images``, as docTR has it;
            * anything else that `WordCrops` takes: pages with the boxes and texts of their lines, items, mappings.
        images: The folder that the files of a manifest are in. By default it is the folder of the manifest, or one
            beside it that is called like the manifest.
        options: Arguments of `WordCrops`: ``transform``, ``box_unit``, ``max_pixels``, ``on_error``, ``seed``...

    Raises:
        InvalidArgumentError: if there are no lines, one has no text or one that is not UTF-8, or an argument is not
            among the accepted ones.
        SourceNotFoundError: if there is no such folder or manifest.
        ReadError: if a file of texts cannot be read.

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
        other = Path(source).with_suffix("") if images is None else Path(path_text("images", images))
        if images is not None or (other.is_dir() and not os.path.exists(_path(items[0]))):
            items = ListedItems([_moved(item, folder, other) for item in items], [source])
    read_from = items.read_from if isinstance(items, ListedItems) else files_of(items)
    return ListedItems([_with_text(item) for item in items], read_from)


def _items_of_folder(folder: Path) -> ListedItems:
    pictures = sorted(file for file in folder.rglob("*") if file.suffix.lower() in _IMAGES)
    items, texts = [], []
    for picture in pictures:
        stem = picture.with_suffix("")
        beside = [text for suffix in _TEXT_SUFFIXES if (text := stem.with_name(stem.name + suffix)).is_file()]
        if beside:
            items.append(Item(picture, label=_text_in(beside[0])))
            texts.append(beside[0])
    if not items:
        raise InvalidArgumentError(
            f"There are no lines in {str(folder)!r}: it has {len(pictures)} pictures, and none with a text beside it, "
            "NAME.gt.txt or NAME.txt. Is there a manifest? Give its path."
        )
    return ListedItems(items, texts)


def _text_in(file: Path) -> str:
    try:
        if (size := file.stat().st_size) > _MAX_TEXT_BYTES:
            raise InvalidArgumentError(f"{str(file)!r} has {size} bytes, too many for the text of a line.")
        return file.read_text(encoding="utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{str(file)!r} is no text in UTF-8 ({error}).") from None
    except OSError as error:
        raise ReadError(f"{str(file)!r} cannot be read ({error.strerror}).") from error


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


def changed_picture(sample: Sample) -> Sample:
    """A sample whose picture is changed at random; see `changed_line`."""
    return sample if sample.image is None else replace(sample, image=changed_line(sample.image))


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

    if random_number() < 0.7:
        # From a place of the result to one of the picture, both from -1 to 1: a line 20 times as wide as high is
        # turned by few degrees, or its ends leave the picture.
        rise = random_number(-0.12, 0.12)
        slant = random_number(-0.35, 0.35) * height / width
        across, along = 1 / random_number(0.82, 1.06), 1 / random_number(0.96, 1.02)
        right, down = random_number(-0.01, 0.01), random_number(-0.08, 0.08)
        matrix = torch.tensor([[along, slant, right], [rise * 0.5, across, down]])
        grid = F.affine_grid(matrix[None], [1, 1, height, width], align_corners=False)
        shade = F.grid_sample(picture - ground.view(1, 3, 1, 1), grid, mode="bilinear", align_corners=False)
        picture = shade + ground.view(1, 3, 1, 1)
    if random_number() < 0.3:
        # Thicker or thinner strokes: the least or greatest of neighbours, mixed in.
        sign = 1.0 if random_number() < 0.5 else -1.0
        spread = sign * F.max_pool2d(sign * picture, 3, 1, 1)
        share = random_number(0.2, 0.8)
        picture = picture * (1 - share) + spread * share
    if random_number() < 0.3:
        factor = random_number(0.35, 0.8)
        small = F.interpolate(picture, (max(1, int(height * factor)), max(1, int(width * factor))), mode="area")
        picture = F.interpolate(small, (height, width), mode="bilinear", align_corners=False)
    if random_number() < 0.6:
        mean, contrast, light = picture.mean(), random_number(0.5, 1.3), random_number(-0.15, 0.15)
        picture = ((picture - mean) * contrast + mean + light).clamp(0, 1) ** random_number(0.7, 1.4)
    if random_number() < 0.3:
        picture = picture + random_number(0.01, 0.08) * torch.randn_like(picture[:, :1])
    return (picture[0] * 255).round().clamp(0, 255).to(torch.uint8)
