"""The rows of datasets of Hugging Face, read as they are stored.

A module of its own, because only what another library does can change it.
"""

from __future__ import annotations

from typing import Any

from .items import FEATURE_TYPES, Item, LabelCoding, LazyItems
from .rows import Columns, item_of_row

__all__ = ["HuggingFaceItems", "hugging_face_type"]

_TYPES = frozenset(("Column", "Dataset", "DatasetDict", "IterableColumn", "IterableDataset", "IterableDatasetDict"))


def hugging_face_type(source: Any) -> str | None:
    """The name of the class of ``datasets`` that an object belongs to; ``None`` if it is none of theirs.

    >>> hugging_face_type({"train": []}) is None
    True
    """
    for one in type(source).__mro__:
        if one.__module__.partition(".")[0] == "datasets" and one.__name__ in _TYPES:
            return one.__name__
    return None


class HuggingFaceItems(LazyItems):
    """The rows of a dataset, read when they are asked for, and as they are stored: nothing is decoded.

    The format and the transform of the dataset are not applied.

    Args:
        dataset: A ``datasets.Dataset``.
        columns: Which columns hold what. The one with the file is found by the type of its feature, or by name.

    Raises:
        InvalidArgumentError: if there is no such column, or several.
    """

    def __init__(self, dataset: Any, columns: Columns) -> None:
        super().__init__()
        features = dict(dataset.features or {})
        # As stored: a struct of bytes and path for media, numbers for classes.
        self._stored = dataset.with_format("arrow")
        self._columns = Columns(columns.kind, _hugging_face_column(features, columns), columns.label)
        label = next((name for name in columns.label_names if name in features), None)
        names = getattr(features.get(label), "names", None)
        self._class_names: tuple[str, ...] = () if names is None else tuple(names)
        is_text = getattr(features.get(label), "dtype", None) in ("string", "large_string")
        self._coding = LabelCoding.of(dataset.unique(label)) if is_text else LabelCoding()

    def __len__(self) -> int:
        return len(self._stored)

    def _make(self, index: int) -> Item:
        row = self._stored[index].to_pylist()[0]
        item = item_of_row(row, self._columns, place=f"row {index}", may_be_empty=True)
        return self._with_class_name(self._coding.apply(item))

    def _with_class_name(self, item: Item) -> Item:
        number = item.label
        # Rows without a label, of a test set, have -1.
        if not self._class_names or not isinstance(number, int) or not 0 <= number < len(self._class_names):
            return item
        return Item(item.source, number, item.name, {**item.extra, "class_name": self._class_names[number]})


def _hugging_face_column(features: dict[str, Any], columns: Columns) -> str | None:
    """The column with the files; ``None`` if it is to be looked for by name, row by row."""
    by_type: list[str] = []
    for feature_type in FEATURE_TYPES[columns.kind]:
        by_type = by_type or [name for name, feature in features.items() if type(feature).__name__ == feature_type]
    binary = {name for name, feature in features.items() if getattr(feature, "dtype", "").endswith("binary")}
    by_type = by_type or [name for name in columns.media_names if name in binary]
    return columns.choose(by_type, list(features), "The Hugging Face dataset", has_bytes="bytes" in binary)
