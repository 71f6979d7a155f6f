"""Where the rows of datasets come from: folders, manifests, Parquet, Hugging Face, tar shards, streams.

`items` has the data type, `Item`: one file, with its label. `dispatch` makes items of whatever users have: it
asks `manifests` (also for folders), `parquet` (also for Hugging Face) and `tar_shards`. `streams` gives items that can
only be read forward. `limits` bounds all of them. Nothing in this room decodes a file, or knows what a sample is.
"""

from __future__ import annotations

from . import limits
from .dispatch import as_items
from .items import MEDIA_EXTENSIONS, Item, MediaKind, check_kind
from .streams import MAX_SHARD_ROWS, GivenRows, IterableRows, RowsToSkip, ShardRows, Share, row_number
from .tar_format import TarReader
from .tar_shards import TarItems, opened_shard

__all__ = [
    "MAX_SHARD_ROWS",
    "MEDIA_EXTENSIONS",
    "GivenRows",
    "Item",
    "IterableRows",
    "MediaKind",
    "RowsToSkip",
    "ShardRows",
    "Share",
    "TarItems",
    "TarReader",
    "as_items",
    "check_kind",
    "limits",
    "opened_shard",
    "row_number",
]
