"""`Item`: one file of a dataset, with its label and other columns."""

from __future__ import annotations

import dataclasses
import operator
import os
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Never, SupportsIndex, get_args, overload
from weakref import WeakValueDictionary

from ..._engine.common.checks import finite_number, shown
from ..._engine.sources.source import Source
from ...errors import InvalidArgumentError, OutOfRangeError, ReadError

__all__ = [
    "FEATURE_TYPES",
    "LABEL_COLUMNS",
    "MEDIA_COLUMNS",
    "MEDIA_EXTENSIONS",
    "SEGMENT_COLUMNS",
    "Item",
    "LabelCoding",
    "LabelledItems",
    "LazyItems",
    "ListedItems",
    "MediaKind",
    "UnreadableSource",
    "check_are_classes",
    "check_kind",
    "checked_classes",
    "class_number",
    "with_coded_labels",
]


@dataclass(frozen=True)
class Item:
    """One file of a dataset, with its label.

    Attributes:
        source: A path or URL, the bytes of a file, or a part of a file (`TarItems` give these).
        label: Its label, of any type; ``None`` if it has none.
        name: Its name in batches and reports; by default its path.
        extra: The other columns of its row in a manifest.
        start_seconds: Clips of video and sound begin at or after this time of the file; ``None`` is its begin.
        end_seconds: Clips end before this time; ``None``, or a later time, is the end of the file.
        sidecars: Subtitle files that belong to it, by suffix: ``{"srt": ..., "en.vtt": ...}``, each a path, bytes or a
            part of a file. Samples of tar shards have these; those of a file in a folder are found beside it.

    Example:
        >>> from mediatensor.datasets import Item
        >>> Item("videos/jump/1.mp4", label=0).name
        'videos/jump/1.mp4'
        >>> Item(b"RIFF....", name="first").name
        'first'
        >>> Item("lecture.mp4", label=3, start_seconds=61.5, end_seconds=64.0).end_seconds
        64.0
    """

    source: str | os.PathLike[str] | bytes | Source = field(repr=False)  # its bytes would fill pages
    label: Any = None
    name: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    start_seconds: float | None = None
    end_seconds: float | None = None
    sidecars: Mapping[str, str | bytes | Source] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in ("start_seconds", "end_seconds"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, finite_number(name, getattr(self, name)))
        start, end = self.start_seconds, self.end_seconds
        if start is not None and end is not None and not start < end:
            raise InvalidArgumentError(f"end_seconds ({end}) must be above start_seconds ({start}).")
        if not self.name:
            object.__setattr__(self, "name", _name_of(self.source))


def _name_of(source: str | os.PathLike[str] | bytes | Source) -> str:
    if isinstance(source, Source):
        return source.describe()
    return f"<{len(source)} bytes>" if isinstance(source, bytes) else os.fspath(source)


@dataclass(frozen=True)
class UnreadableSource(Source):
    """Stands for what cannot be read, so that it fails where the error policy of a dataset sees it.

    Attributes:
        reason: The message of the error.
    """

    reason: str

    def open(self) -> Never:
        """Say why it cannot be read.

        Raises:
            ReadError: always.
        """
        raise ReadError(self.reason)

    def describe(self) -> str:
        return self.reason


def count_files(items: Sequence[Item]) -> int:
    """Count the distinct files: segments of one file count once. Each of `LazyItems` counts as a file.

    >>> count_files([Item("a.mp4", start_seconds=0), Item("a.mp4", start_seconds=5), Item("b.mp4")])
    2
    """
    if not isinstance(items, list):
        return len(items)
    sources = (item.source for item in items)
    return len({id(one) if isinstance(one, (bytes, Source)) else os.fspath(one) for one in sources})


class ListedItems(list[Item]):
    """A list of items that knows which files it was read from, so that nobody writes over these.

    Args:
        items: The items.
        read_from: A manifest, or files with the texts or labels of the items; not the items' own files.
    """

    def __init__(self, items: Iterable[Item] = (), read_from: Iterable[str | os.PathLike[str]] = ()) -> None:
        super().__init__(items)
        self.read_from = tuple(os.fspath(file) for file in read_from)


class LazyItems(Sequence[Item]):
    """Items that are made on request.

    While an item is in use, the same index gives the same object. Its bytes are then in memory only once, and they
    identify the file while it is open.
    """

    def __init__(self) -> None:
        self._held: WeakValueDictionary[int, Item] = WeakValueDictionary()

    @property
    def is_fork_safe(self) -> bool:
        """Whether the items can be read in a forked process."""
        return True

    def _portable_names(self) -> list[str] | None:
        """Names of all items that are the same on every machine; ``None`` if they are not known without reading."""
        return None

    @abstractmethod
    def _make(self, index: int) -> Item:
        """The item of an index from 0 on."""

    @overload
    def __getitem__(self, index: SupportsIndex) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = operator.index(index)
        if not -len(self) <= number < len(self):
            raise OutOfRangeError(f"item {number} is out of range: there are {len(self)} items.")
        number %= len(self)
        item = self._held.get(number)
        if item is None:
            item = self._held[number] = self._make(number)
        return item

    def __getstate__(self) -> dict[str, Any]:
        # The items in memory are of no use to another process.
        return {name: value for name, value in vars(self).items() if name != "_held"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _held=WeakValueDictionary())


class LabelledItems(LazyItems):
    """The items of another sequence, with labels from a function."""

    def __init__(self, items: Sequence[Item], label: Callable[[Item], Any]) -> None:
        super().__init__()
        self._items = items
        self._label = label

    @property
    def unlabelled(self) -> Sequence[Item]:
        """The items with the labels of their source."""
        return self._items

    @property
    def is_fork_safe(self) -> bool:
        return getattr(self._items, "is_fork_safe", True)

    def _portable_names(self) -> list[str] | None:
        return self._items._portable_names() if isinstance(self._items, LazyItems) else None

    def __len__(self) -> int:
        return len(self._items)

    def _make(self, index: int) -> Item:
        item = self._items[index]
        return dataclasses.replace(item, label=self._label(item))


# Eighteen digits fit into int64.
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[+-]?([0-9]{1,300}\.?[0-9]{0,300}|\.[0-9]{1,300})([eE][+-]?[0-9]{1,2})?")


@dataclass(frozen=True)
class LabelCoding:
    """The numbers of labels that are text; other labels stay as they are.

    Attributes:
        number_of: For each text its number.
        are_class_names: Whether the texts are names of classes, and not numbers in writing.

    Example:
        >>> LabelCoding.of(["run", "jump", None, "run"]).number_of
        {'jump': 0, 'run': 1}
        >>> LabelCoding.of(["10", "9"]).number_of
        {'10': 10, '9': 9}
    """

    number_of: dict[str, float] = field(default_factory=dict)
    are_class_names: bool = False

    @classmethod
    def of(cls, labels: Iterable[Any], classes: Sequence[str] | None = None) -> LabelCoding:
        """The coding of all labels of a source.

        Args:
            labels: Them; ``None`` stands for no label.
            classes: The names of the classes in the order of their numbers; by default those of the labels, by name.

        Raises:
            InvalidArgumentError: if some labels are text, and others are not; or if ``classes`` has not all of them.
        """
        texts: set[str] = set()
        other: Any = None
        for label in labels:
            if isinstance(label, str):
                texts.add(label)
            elif label is not None and other is None:
                other = label
        if texts and other is not None:
            raise InvalidArgumentError(
                f"Some labels are text ({min(texts)!r}), and some are of type {type(other).__name__} ({other!r}): let "
                "them all be class names, or all be numbers."
            )
        # Spaces around a label, as after the comma of a manifest, are not a part of it.
        names = sorted({text.strip() for text in texts})
        if classes is not None:
            if other is not None:
                raise InvalidArgumentError(
                    f"classes= goes with labels that are names, but a label is {other!r} ({type(other).__name__}): "
                    "leave it out, and the labels stay as they are."
                )
            check_are_classes(names, classes)
            number = {name: number for number, name in enumerate(classes)}
            return cls({text: number[text.strip()] for text in sorted(texts)}, are_class_names=True)
        if all(map(_WHOLE.fullmatch, names)):
            return cls({text: int(text) for text in sorted(texts)})
        if all(map(_DECIMAL.fullmatch, names)):
            return cls({text: float(text) for text in sorted(texts)})
        number = {name: number for number, name in enumerate(names)}
        return cls({text: number[text.strip()] for text in sorted(texts)}, are_class_names=True)

    def apply(self, item: Item) -> Item:
        """The item with its label as a number, and the name of its class in ``extra["class_name"]``."""
        label = item.label
        if not isinstance(label, str):
            return item
        extra = {**item.extra, "class_name": label.strip()} if self.are_class_names else item.extra
        return dataclasses.replace(item, label=self.number_of[label], extra=extra)


def with_coded_labels(items: Sequence[Item], classes: Sequence[str] | None = None) -> list[Item]:
    """Items of rows, whose labels that are text are coded together.

    Raises:
        InvalidArgumentError: as `LabelCoding.of`.
    """
    coding = LabelCoding.of((item.label for item in items), classes)
    return [coding.apply(item) for item in items]


def checked_classes(classes: Any) -> tuple[str, ...] | None:
    """The names of classes in the order of their numbers, if they are that; ``None`` for ``None``.

    >>> checked_classes(["run", "jump"])
    ('run', 'jump')

    Raises:
        InvalidArgumentError: if they are not.
    """
    if classes is None:
        return None
    names = tuple(classes) if isinstance(classes, list | tuple) else ()
    named = [name for name in names if name != ""]  # numbers that no row has are called ""
    if not named or not all(isinstance(name, str) for name in named) or len(set(named)) < len(named):
        raise InvalidArgumentError(
            "classes must be a list of different names in the order of their numbers, such as class_names of the "
            f"dataset that a model is trained with (got {shown(classes)})."
        )
    return names


def check_are_classes(names: Iterable[str], classes: Sequence[str]) -> None:
    """Raise unless all names are among the classes.

    Raises:
        InvalidArgumentError: names the first that is not.
    """
    missing = sorted(set(names) - set(classes))
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InvalidArgumentError(
            f"The class {missing[0]!r}{others} is not among classes, which are {shown(list(classes))}: add it to the "
            "classes of all datasets, or leave its files out."
        )


def class_number(label: Any, classes: Sequence[str]) -> Any:
    """The number of a class; a label that is not text stays as it is.

    >>> class_number("jump", ["run", "jump"]), class_number(7, ["run", "jump"])
    (1, 7)

    Raises:
        InvalidArgumentError: if there is no such class.
    """
    if not isinstance(label, str):
        return label
    check_are_classes([label.strip()], classes)
    return list(classes).index(label.strip())


MediaKind = Literal["video", "audio", "image", "document"]

# fmt: off
_IMAGES = frozenset((
    ".apng", ".avif", ".bmp", ".gif", ".heic", ".heif", ".jfif", ".jpe", ".jpeg", ".jpg", ".png", ".tif", ".tiff",
    ".webp",
))
#: By kind: the extensions, in lower case, of the files that are looked for in a folder.
MEDIA_EXTENSIONS: Mapping[MediaKind, frozenset[str]] = MappingProxyType({
    "video": frozenset((
        ".3g2", ".3gp", ".asf", ".avi", ".dv", ".f4v", ".flv", ".ivf", ".m2ts", ".m2v", ".m4v", ".mkv", ".mov", ".mp4",
        ".mpeg", ".mpg", ".mts", ".mxf", ".nut", ".ogv", ".ts", ".vob", ".webm", ".wmv", ".y4m",
    )),
    "audio": frozenset((
        ".aac", ".ac3", ".aif", ".aifc", ".aiff", ".amr", ".ape", ".au", ".caf", ".eac3", ".flac", ".m4a", ".m4b",
        ".mka", ".mp2", ".mp3", ".oga", ".ogg", ".opus", ".rf64", ".tta", ".w64", ".wav", ".weba", ".wma", ".wv",
    )),
    "image": _IMAGES,
    "document": _IMAGES | {".pdf"},
})
# fmt: on

#: By kind: the columns that a file is looked for in, first to last.
MEDIA_COLUMNS: Mapping[MediaKind, tuple[str, ...]] = MappingProxyType(
    {
        "video": ("path", "file_name", "video", "url", "file"),
        "audio": ("path", "file_name", "audio", "video", "url", "file"),
        "image": ("path", "file_name", "image", "url", "file"),
        "document": ("path", "file_name", "document", "pdf", "image", "url", "file"),
    }
)

#: The columns that a label is looked for in, first to last.
LABEL_COLUMNS = ("label", "labels")

#: The bounds of a segment of video or sound: for each field of `Item` the columns that it is looked for in.
SEGMENT_COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"start_seconds": ("start_seconds", "start"), "end_seconds": ("end_seconds", "end")}
)

#: By kind: the types of Hugging Face features that hold it, first to last.
FEATURE_TYPES: Mapping[MediaKind, tuple[str, ...]] = MappingProxyType(
    {"video": ("Video",), "audio": ("Audio", "Video"), "image": ("Image",), "document": ("Pdf", "Image")}
)


def check_kind(kind: object) -> None:
    """Raise unless this is a kind of media.

    >>> check_kind("video")
    """
    kinds = get_args(MediaKind)
    if kind not in kinds:
        raise InvalidArgumentError(f"kind must be one of {', '.join(kinds)} (got {shown(kind)}).")
