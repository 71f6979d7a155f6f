"""Reading bytes from anywhere, and writing files.

A `Source` describes a path, a URL, memory or a file object. It can be pickled, and opens a new reader for every handle.
Remote files are fetched in ranges. Files are written completely or not at all.
"""

from __future__ import annotations

from .atomic_files import AtomicFile, write_error, write_file, writing
from .http import TIMEOUT_SECONDS, has_ranges
from .output_files import check_outputs
from .ranges import BLOCK_BYTES, MIN_REQUEST_BYTES, RangeCache
from .readers import LOCAL_BLOCK_BYTES, DescriptorReader, MemoryReader, RangeReader, Reader, SourceFaultError
from .source import (
    FFMPEG_SCHEMES,
    MemorySource,
    PathSource,
    Source,
    SpanSource,
    UrlSource,
    make_source,
    stamp_of,
    url_scheme,
)

__all__ = [
    "BLOCK_BYTES",
    "FFMPEG_SCHEMES",
    "LOCAL_BLOCK_BYTES",
    "MIN_REQUEST_BYTES",
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
    "check_outputs",
    "has_ranges",
    "make_source",
    "stamp_of",
    "url_scheme",
    "write_error",
    "write_file",
    "writing",
]
