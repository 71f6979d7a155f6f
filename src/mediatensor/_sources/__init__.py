"""Where bytes come from and where they go.

A `Source` describes a path, a URL, memory or a file object, can be pickled, and gives a fresh reader to every handle.
Remote files are fetched in ranges. Files are written whole or not at all.
"""

from __future__ import annotations

from .atomic_files import AtomicFile, write_error, write_file, writing
from .http import TIMEOUT_SECONDS, has_ranges
from .ranges import RangeCache
from .readers import DescriptorReader, MemoryReader, RangeReader, Reader, SourceFaultError
from .source import (
    FFMPEG_SCHEMES,
    MemorySource,
    PathSource,
    Source,
    SpanSource,
    UrlSource,
    make_source,
    url_scheme,
)

__all__ = [
    "FFMPEG_SCHEMES",
    "TIMEOUT_SECONDS",
    "AtomicFile",
    "DescriptorReader",
    "MemoryReader",
    "MemorySource",
    "PathSource",
    "RangeCache",
    "RangeReader",
    "Reader",
    "Source",
    "SourceFaultError",
    "SpanSource",
    "UrlSource",
    "has_ranges",
    "make_source",
    "url_scheme",
    "write_error",
    "write_file",
    "writing",
]
