"""Pages with the boxes of their lines or words, from files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..._engine.images.decoding import MAX_PIXELS
from ..._text_data.documents import DEFAULT_DPI, Document, DocumentOptions
from ..._text_data.word_crops import WORD_COLUMNS, page_index_of, read_labels, words_of
from ...datasets import Item, MediaDataset, Recipe, Sample, as_items
from ...datasets._rows.dataset import check_dataset_options
from ...datasets._sources.items import ListedItems
from ...errors import InvalidArgumentError

__all__ = ["PageDataset"]

_LABELS = "labels.json"


class PageDataset(MediaDataset):
    """Pages with the boxes of the text on them, one sample a row.

    ``Sample.image`` is uint8 (3, H, W), and ``extra["boxes"]`` has the boxes, float64, in shares of the page: (N, 4) as
    (xmin, ymin, xmax, ymax), or (N, 4, 2), four points from the top left one on in reading direction; or a dict of
    them by class. A page may have none.

    Args:
        source: One of

            * a manifest, ``.jsonl``, ``.json``, ``.csv``, ``.tsv`` or ``.parquet``, with the columns ``file`` and
              ``boxes``; where it has ``texts``, boxes whose text is blank are left out; ``page_index`` says which page
              of a document is meant, from 0;
            * a folder with ``labels.json`` beside a folder ``images``, or that file, as docTR has it:
              ``{name: {"polygons": [[[x, y], ...], ...]}}``, in pixels, or with a dict of polygons by class;
            * anything else that `as_items` takes, with the same columns.
        dpi: Pixels per inch that a page of a PDF file is rendered at (needs the extra ``ocr``).
        max_pixels: A page with more pixels fails; ``None`` for no limit.
        dataset_options: Arguments of `MediaDataset`: ``seed``, ``on_error``, ``max_consecutive_failures``,
            ``max_open_files``.

    A page whose boxes are not as described fails when it is read.

    Raises:
        InvalidArgumentError: if there are no pages, none has boxes, or an argument is not among the accepted ones.
        SourceNotFoundError: if there is no such file.

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
        items = _items(source)
        if items and not any(item.extra.get("boxes") is not None for item in items):
            raise InvalidArgumentError(
                "There are no boxes: a manifest of pages has the columns 'file' and 'boxes', and docTR's pages have a "
                f"file {_LABELS} with 'polygons'."
            )
        super().__init__(items, _PageRecipe(DocumentOptions(dpi, max_pixels)), **dataset_options)


@dataclass(frozen=True)
class _PageRecipe(Recipe):
    """How a page with its boxes is read; see `PageDataset`."""

    used_columns: ClassVar[frozenset[str]] = WORD_COLUMNS

    options: DocumentOptions = field(default_factory=DocumentOptions)

    def open(self, item: Item) -> Document:
        return Document(item.source, self.options)

    def read(self, opened: Document, item: Item, part: int) -> Sample:
        image = opened.pages.tensor(page_index_of(item))
        size = np.array([image.shape[2], image.shape[1]], dtype=np.float64)
        boxes = item.extra.get("boxes")
        if isinstance(boxes, Mapping):
            by_class = {key: _relative({"boxes": own}, item.name, size) for key, own in boxes.items()}
            return Sample(image=image, extra={"boxes": by_class})
        return Sample(image=image, extra={"boxes": _relative(item.extra, item.name, size)})


def _relative(columns: Mapping[str, Any], name: str, size: NDArray[np.float64]) -> NDArray[np.float64]:
    """Boxes in shares of the page, those without text left out."""
    words = words_of(columns, name, "auto")
    if words is None:
        return np.zeros((0, 4))
    boxes: NDArray[np.float64] = words.boxes[list(words.numbers)]
    if words.is_relative:
        return boxes
    return boxes / (size if boxes.ndim == 3 else np.tile(size, 2))


def _items(source: Any) -> Sequence[Item]:
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
