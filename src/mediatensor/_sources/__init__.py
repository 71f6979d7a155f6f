"""Where bytes come from and where they go.

A `Source` describes a path, a URL, memory or a file object, can be pickled, and gives a fresh reader to every handle.
Remote files are fetched in ranges. Files are written whole or not at all.
"""

from __future__ import annotations

from .atomic_files import AtomicFile, write_error, write_file, writing
from .http import TIMEOUT_SECONDS
from .readers import DescriptorReader, MemoryReader, RangeReader, Reader, SourceFaultError
from .source import MemorySource, PathSource, Source, SpanSource, UrlSource, make_source

__all__ = [
    "TIMEOUT_SECONDS",
    "AtomicFile",
    "DescriptorReader",
    "MemoryReader",
    "MemorySource",
    "PathSource",
    "RangeReader",
    "Reader",
    "Source",
    "SourceFaultError",
    "SpanSource",
    "UrlSource",
    "make_source",
    "write_error",
    "write_file",
    "writing",
]
