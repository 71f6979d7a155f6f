"""`Item`: one file of a dataset, with its label and other columns."""

from __future__ import annotations

import dataclasses
import hashlib
import operator
import os
import re
import zlib
from abc import abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Never, SupportsIndex, get_args, overload
from weakref import WeakValueDictionary

from ..._engine.common.checks import finite_number, fits_int64, path_text, shown
from ..._engine.sources.source import Source
from ...errors import InvalidArgumentError, OutOfRangeError, ReadError


@dataclass(frozen=True)
class Item:
    """One file of a dataset, or a segment of it, with its label.

    Attributes:
        source: A path or URL, the bytes of a file, or a part of a file (see `TarItems`).
        label: The label, of any type; ``None`` if the file has no label.
        name: Name of the file in batches and reports; by default, its path or URL.
        extra: For a manifest (a table with a row for each file), the other columns of the file's row: a mapping from
            column names to values.
        start_seconds: Start, in seconds, of the segment of the file from which clips are taken. ``None`` means the
            start of the file.
        end_seconds: End of this segment in seconds. ``None``, or a time after the end of the file, means the end of the
            file.
        sidecars: Subtitle files that belong to the file, by suffix: ``{"srt": ..., "en.vtt": ...}``. Each is a path,
            bytes or a part of a file. Only samples of tar shards need this attribute. For a file in a folder, subtitle
            files next to it are found without it.

    Example:
        >>> from mediatensor.datasets import Item
        >>> Item("videos/jump/1.mp4", label=0).name
        'videos/jump/1.mp4'
        >>> Item(b"RIFF....", name="first").name
        'first'
        >>> Item("lecture.mp4", label=3, start_seconds=61.5, end_seconds=64.0).end_seconds
        64.0
    """

    source: str | os.PathLike[str] | bytes | Source = field(repr=False)  # the bytes of a file would fill pages
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
            raise InvalidArgumentError(f"end_seconds ({end}) must be greater than start_seconds ({start}).")
        if not self.name:
            object.__setattr__(self, "name", _name_of(self.source))


def _name_of(source: str | os.PathLike[str] | bytes | Source) -> str:
    if isinstance(source, Source):
        return source.describe()
    return f"<{len(source)} bytes>" if isinstance(source, bytes) else path_text("source", source)


@dataclass(frozen=True)
class UnreadableSource(Source):
    """A placeholder for an unreadable source. Opening it raises the error, so that ``on_error`` applies."""

    reason: str

    def open(self) -> Never:
        raise ReadError(self.reason)

    def describe(self) -> str:
        return self.reason


def class_name_in(package: str, source: Any, names: Container[str]) -> str | None:
    """Return the first name in ``names`` among the classes of ``source`` that are from ``package``, or ``None``."""
    named = [(one.__module__.partition(".")[0], one.__name__) for one in type(source).__mro__]
    return next((name for module, name in named if module == package and name in names), None)


def count_files(items: Sequence[Item]) -> int:
    """Return the number of different files. Segments of a file count once; every item of `LazyItems` is one file."""
    if not isinstance(items, list):
        return len(items)
    sources = (item.source for item in items)
    return len({id(one) if isinstance(one, (bytes, Source)) else os.fspath(one) for one in sources})


class ListedItems(list[Item]):
    """A list of items that records the manifests and label files from which it was read, in ``read_from``.

    Output must not overwrite these files.
    """

    def __init__(self, items: Iterable[Item] = (), read_from: Iterable[str | os.PathLike[str]] = ()) -> None:
        super().__init__(items)
        self.read_from = tuple(os.fspath(file) for file in read_from)


class LazyItems(Sequence[Item]):
    """A sequence of items that are made only when they are requested.

    While an item is in use, its index returns the same object. So the item's bytes are in memory only once, and the
    identity of the bytes identifies an open file.
    """

    def __init__(self) -> None:
        self._held: WeakValueDictionary[int, Item] = WeakValueDictionary()

    @property
    def is_fork_safe(self) -> bool:
        return True

    def _portable_names(self) -> list[str] | None:
        """Return names of all items that are the same on every machine; ``None`` if this would read all items."""
        return None

    @abstractmethod
    def _make(self, index: int) -> Item: ...

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
        # Another process makes its own items.
        return {name: value for name, value in vars(self).items() if name != "_held"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _held=WeakValueDictionary())


class LabelledItems(LazyItems):
    def __init__(self, items: Sequence[Item], label: Callable[[Item], Any]) -> None:
        super().__init__()
        self.unlabelled = items
        self._label = label

    @property
    def is_fork_safe(self) -> bool:
        return getattr(self.unlabelled, "is_fork_safe", True)

    def _portable_names(self) -> list[str] | None:
        return self.unlabelled._portable_names() if isinstance(self.unlabelled, LazyItems) else None

    def __len__(self) -> int:
        return len(self.unlabelled)

    def labelled(self, item: Item) -> Item:
        return with_label(item, self._label)

    def _make(self, index: int) -> Item:
        return self.labelled(self.unlabelled[index])


def with_label(item: Item, label: Callable[[Item], Any]) -> Item:
    """Return the item with the label that a function of the user returns.

    An unreadable item may lack the columns that the function needs. If the function fails for such an item, the item
    keeps its label, because reading it raises the error that ``on_error`` is for.
    """
    try:
        return dataclasses.replace(item, label=label(item))
    except Exception:
        if isinstance(item.source, UnreadableSource):
            return item
        raise


_WHOLE = re.compile(r"[+-]?[0-9]{1,300}")
_DECIMAL = re.compile(r"[+-]?([0-9]{1,300}\.?[0-9]{0,300}|\.[0-9]{1,300})([eE][+-]?[0-9]{1,2})?")


def integer_of(text: str) -> int | None:
    """Return the integer that is written in ``text``, or ``None`` if it is another text or does not fit into int64."""
    number = int(text) if _WHOLE.fullmatch(text) else None
    return number if number is not None and fits_int64(number) else None


@dataclass(frozen=True)
class LabelCoding:
    """Converts labels that are text to numbers.

    The text is a class name or a written number. Other labels stay as they are.

    >>> LabelCoding.of(["run", "jump", None, "run"]).number_of, LabelCoding.of(["10", "9"]).number_of
    ({'jump': 0, 'run': 1}, {'10': 10, '9': 9})
    """

    number_of: dict[str, float] = field(default_factory=dict)
    are_class_names: bool = False

    @classmethod
    def of(cls, labels: Iterable[Any], classes: Sequence[str] | None = None) -> LabelCoding:
        """Make the coding from all labels of a source, where ``None`` and blank text stand for a missing label.

        Raise InvalidArgumentError if some labels are text and others are not, if a name is not among ``classes``, or if
        a whole number does not fit into int64 or would be rounded.
        """
        texts: set[str] = set()
        other: Any = None  # the first label that is not text
        for label in labels:
            if isinstance(label, str):
                if label.strip():
                    texts.add(label)
            elif label is not None:
                if isinstance(label, Integral) and not fits_int64(label):
                    raise _inexact_label_error(label)
                other = label if other is None else other
        if texts and other is not None:
            raise InvalidArgumentError(
                f"Some labels are text ({min(texts)!r}), and some are of type {type(other).__name__} ({other!r}). Use "
                "only class names, or only numbers."
            )
        # Spaces around a label, such as after a comma, are not part of the label.
        names = sorted({text.strip() for text in texts})
        if classes is not None:
            if other is not None:
                raise InvalidArgumentError(
                    f"classes= needs labels that are class names, but a label is {other!r} ({type(other).__name__}). "
                    "Leave out classes= to keep the labels as they are."
                )
            check_are_classes(names, classes)
        elif all(integer_of(name) is not None for name in names):
            return cls({text: int(text) for text in sorted(texts)})
        elif all(map(_DECIMAL.fullmatch, names)):
            for name in names:
                if _WHOLE.fullmatch(name) and (integer_of(name) is None or float(name) != int(name)):
                    raise _inexact_label_error(name)
            return cls({text: float(text) for text in sorted(texts)})
        number = {name: number for number, name in enumerate(names if classes is None else classes)}
        return cls({text: number[text.strip()] for text in sorted(texts)}, are_class_names=True)

    def apply(self, item: Item) -> Item:
        """Return the item with a number in place of a text label. A class name is kept in ``extra["class_name"]``."""
        label = item.label
        if not isinstance(label, str):
            return item
        if not label.strip():
            return dataclasses.replace(item, label=None)
        extra = {**item.extra, "class_name": label.strip()} if self.are_class_names else item.extra
        return dataclasses.replace(item, label=self.number_of[label], extra=extra)


def _inexact_label_error(label: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"A label is {shown(label)}, which would not stay exact: whole numbers must fit into int64 or, if other labels "
        "are fractions, into float64. If the labels are names, write them as text, and pass all names as classes=. If "
        "they are not labels, rename the column."
    )


def with_coded_labels(items: Sequence[Item], classes: Sequence[str] | None) -> list[Item]:
    """Return the items with numbers in place of text labels. The numbers are the same for all items."""
    coding = LabelCoding.of((item.label for item in items), classes)
    return [coding.apply(item) for item in items]


def checked_classes(classes: Any) -> tuple[str, ...] | None:
    """Return ``classes`` as a tuple. Raise InvalidArgumentError unless they are a list of unique names."""
    if classes is None:
        return None
    names = tuple(classes) if isinstance(classes, list | tuple) else ()
    used = [name for name in names if name != ""]  # a number without rows has the name ""
    if not used or not all(isinstance(name, str) for name in used) or len(set(used)) < len(used):
        raise InvalidArgumentError(
            "classes must be a list of different names in the order of their numbers, such as class_names of the "
            f"training dataset (got {shown(classes)})."
        )
    return names


def check_are_classes(names: Iterable[str], classes: Sequence[str]) -> None:
    missing = sorted(set(names) - set(classes))
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InvalidArgumentError(
            f"The class {missing[0]!r}{others} is not among classes, which are {shown(list(classes))}: add it to the "
            "classes of all datasets, or leave its files out."
        )


def class_number(label: Any, classes: Sequence[str]) -> Any:
    """Return the number of a class name, or any other label unchanged. An unknown name is an InvalidArgumentError."""
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
#: For each kind, the extensions of the files to find in a folder, in lower case.
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

#: For each kind, the columns that may have the file, in order of preference.
MEDIA_COLUMNS: Mapping[MediaKind, tuple[str, ...]] = MappingProxyType(
    {
        "video": ("path", "file_name", "video", "url", "file"),
        "audio": ("path", "file_name", "audio", "video", "url", "file"),
        "image": ("path", "file_name", "image", "url", "file"),
        "document": ("path", "file_name", "document", "pdf", "image", "url", "file"),
    }
)

#: The columns that may have the label, in order of preference.
LABEL_COLUMNS = ("label", "labels")

#: The bounds of a segment of video or audio: for each field of `Item`, the columns that may have it.
SEGMENT_COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"start_seconds": ("start_seconds", "start"), "end_seconds": ("end_seconds", "end")}
)

#: For each kind, the types of Hugging Face features that hold the file, in order of preference.
FEATURE_TYPES: Mapping[MediaKind, tuple[str, ...]] = MappingProxyType(
    {"video": ("Video",), "audio": ("Audio", "Video"), "image": ("Image",), "document": ("Pdf", "Image")}
)


def check_kind(kind: object) -> None:
    kinds = get_args(MediaKind)
    if kind not in kinds:
        raise InvalidArgumentError(f"kind must be one of {', '.join(kinds)} (got {shown(kind)}).")


# Names of files, for saved states that are loaded on other machines


class FileOrder(NamedTuple):
    """A summary of a dataset's files and their order, equal on every machine that has these files.

    ``files`` depends on the order of the files, and ``files_in_any_order`` does not.
    """

    files: str
    files_in_any_order: int
    first_file: str


def file_order_of(items: Sequence[Item]) -> FileOrder | None:
    """Return a summary of the file names and their order; ``None`` if this would require reading all items.

    The folder that all files have in common is left out, because it can differ between machines. If an item is a
    segment of a file, its start and end are part of its name.

    >>> one = file_order_of([Item("/data/run/a.mp4"), Item("/data/jump/a.mp4")])
    >>> one == file_order_of([Item("/mnt/x/run/a.mp4"), Item("/mnt/x/jump/a.mp4")])
    True
    >>> other = file_order_of([Item("/data/jump/a.mp4"), Item("/data/run/a.mp4")])
    >>> one.files == other.files, one.files_in_any_order == other.files_in_any_order
    (False, True)
    """
    names: list[str] | None
    if isinstance(items, list):
        names = _remove_common_folder([item.name.replace(os.sep, "/") for item in items])
        for number, item in enumerate(items):
            if item.start_seconds is not None or item.end_seconds is not None:
                names[number] += f" from {item.start_seconds} s to {item.end_seconds} s"
    else:
        names = items._portable_names() if isinstance(items, LazyItems) else None
    if names is None:
        return None
    encoded = [name.encode("utf-8", "backslashreplace") for name in names]
    digest = hashlib.blake2b(b"\n".join(encoded), digest_size=16).hexdigest()
    return FileOrder(digest, sum(map(zlib.crc32, encoded)), encoded[0].decode() if encoded else "")


def _remove_common_folder(names: list[str]) -> list[str]:
    # The common prefix of all names is the common prefix of the smallest and the largest name.
    common = os.path.commonprefix([min(names), max(names)]) if names else ""  # noqa: RUF071
    length = common.rfind("/") + 1
    return [name[length:] for name in names]
