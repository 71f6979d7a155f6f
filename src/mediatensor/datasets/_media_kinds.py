"""What there is to read: kinds of media, the extensions of their files, and the columns that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

from .._checks import shown
from ..errors import InvalidArgumentError

__all__ = [
    "FEATURE_TYPES",
    "LABEL_COLUMNS",
    "MEDIA_COLUMNS",
    "MEDIA_EXTENSIONS",
    "SEGMENT_COLUMNS",
    "MediaKind",
    "check_kind",
]

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
        "video": ("path", "file_name", "video", "url"),
        "audio": ("path", "file_name", "audio", "video", "url"),
        "image": ("path", "file_name", "image", "url"),
        "document": ("path", "file_name", "document", "pdf", "image", "url"),
    }
)

#: The columns that a label is looked for in, first to last.
LABEL_COLUMNS = ("label", "labels")

#: What says from which part of a file of video or sound clips come: the field of an `Item`, and where it is looked for.
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
