"""Limits on the size of dataset sources. A larger source is rejected, so that none can fill memory or disk."""

from __future__ import annotations

#: Maximum number of files in a source. It stops endless iterables, and manifests made to fill the memory.
MAX_ITEMS = 10_000_000

#: Maximum nesting of folders.
MAX_FOLDER_DEPTH = 64
#: Maximum number of folders to search. Links between folders could make any number of paths.
MAX_FOLDERS = 1_000_000

#: Bytes of a manifest that is read line by line.
MAX_TEXT_BYTES = 4 << 30
#: Bytes of a JSON manifest, which is read as a whole.
MAX_JSON_BYTES = 256 << 20
#: Bytes of a line of a manifest. (The `csv` module limits the fields of a line, by default to 128 KiB.)
MAX_LINE_BYTES = 16 << 20

#: Bytes of a file with the labels of words.
MAX_LABELS_BYTES = 1 << 30
#: Pages of a document.
MAX_PAGES = 1 << 20

#: Bytes of a decoded page that a worker keeps for the words on it. A larger page is decoded again for each word.
MAX_KEPT_PAGE_BYTES = 1 << 26

#: Bytes of a Parquet file. Media in it are read only when they are needed.
MAX_PARQUET_BYTES = 1 << 40
#: Bytes in memory of the columns of a Parquet file, without media.
MAX_PARQUET_COLUMN_BYTES = 1 << 30
#: Bytes of the media in one row group of a Parquet file, which are in memory at the same time.
MAX_ROW_GROUP_BYTES = 4 << 30

#: Columns of a LeRobot dataset.
MAX_COLUMNS = 10_000
#: Frames of an episode of a LeRobot dataset: a day at 1,000 frames per second.
MAX_EPISODE_FRAMES = 86_400_000
#: Bytes of LeRobot tables that a process keeps in memory.
MAX_KEPT_TABLE_BYTES = 1 << 29

#: Number of tar shards that one name with braces may mean.
MAX_SHARDS = 1_000_000
#: Bytes of a tar header that holds a long name. A name of 4096 bytes, times and permissions take far less.
MAX_TAR_HEADER_BYTES = 1 << 20
#: Bytes of a .cls, .json or .txt member, or of a subtitle file in a stream of shards.
MAX_COLUMN_BYTES = 1 << 24
#: Bytes of a media member in a stream of shards, which is read into memory as a whole.
MAX_MEDIA_MEMBER_BYTES = 1 << 31
