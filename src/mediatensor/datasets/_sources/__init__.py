"""Where the rows of datasets come from: folders, manifests, Parquet, Hugging Face, tar shards, streams.

`items` has the data type, `Item`: one file, with its label. `dispatch` makes items of whatever users have: it
asks `manifests` (also for folders), `parquet` (also for Hugging Face), `lance` and `tar_shards`. `tables` has the rows
of tables with media in them: `parquet_pages` finds single values in Parquet files, `arrow` those in memory. `sidecars`
has subtitle files beside media, `lerobot` the episodes of robots, which are in several files each. `streams` gives
items that can only be read forward. `references` names items by plain columns, for rows that travel to other machines.
`order` names the files of a dataset in their order, for states that go to other machines. `limits` bounds all of them.
Nothing in this room decodes a file, or knows what a sample is.
"""

from __future__ import annotations

from . import limits
from .dispatch import as_items
from .items import (
    LABEL_COLUMNS,
    MEDIA_EXTENSIONS,
    Item,
    ListedItems,
    MediaKind,
    UnreadableSource,
    check_kind,
    checked_classes,
    class_number,
    count_files,
)
from .lerobot import (
    DepthScale,
    Episode,
    EpisodeFiles,
    EpisodeItems,
    LeRobotFormat,
    TableRows,
    is_structured,
    open_lerobot,
    seconds_of_rows,
    structured_values,
    table_rows,
)
from .order import FileOrder, file_order_of
from .parquet import MediaColumn, parquet_file
from .parquet_pages import Chunk, UnknownPagesError, data_pages, values_of_page
from .references import REFERENCE_COLUMNS, alone, files_of, place_of, references_of, source_of_reference
from .rows import advice_on_segments, segment_columns
from .sidecars import CAPTIONS_COLUMN, is_captions_path, sidecars_of
from .streams import MAX_SHARD_ROWS, GivenRows, IterableRows, RowsToSkip, ShardRows, Share, row_number
from .tar_format import TarReader
from .tar_shards import TarItems, opened_shard

__all__ = [
    "CAPTIONS_COLUMN",
    "LABEL_COLUMNS",
    "MAX_SHARD_ROWS",
    "MEDIA_EXTENSIONS",
    "REFERENCE_COLUMNS",
    "Chunk",
    "DepthScale",
    "Episode",
    "EpisodeFiles",
    "EpisodeItems",
    "FileOrder",
    "GivenRows",
    "Item",
    "IterableRows",
    "LeRobotFormat",
    "ListedItems",
    "MediaColumn",
    "MediaKind",
    "RowsToSkip",
    "ShardRows",
    "Share",
    "TableRows",
    "TarItems",
    "TarReader",
    "UnknownPagesError",
    "UnreadableSource",
    "advice_on_segments",
    "alone",
    "as_items",
    "check_kind",
    "checked_classes",
    "class_number",
    "count_files",
    "data_pages",
    "file_order_of",
    "files_of",
    "is_captions_path",
    "is_structured",
    "limits",
    "open_lerobot",
    "opened_shard",
    "parquet_file",
    "place_of",
    "references_of",
    "row_number",
    "seconds_of_rows",
    "segment_columns",
    "sidecars_of",
    "source_of_reference",
    "structured_values",
    "table_rows",
    "values_of_page",
]
