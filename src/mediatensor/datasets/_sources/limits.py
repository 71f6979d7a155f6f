"""Limits on the sources of a dataset. Larger sources are refused, so that no source fills memory or disk."""

from __future__ import annotations

#: Maximum number of files of a source; it stops endless iterables, and manifests made to fill the memory.
MAX_ITEMS = 10_000_000

#: Maximum nesting of folders.
MAX_FOLDER_DEPTH = 64
#: Maximum number of folders to search. Links that lead to each other could make any number of paths.
MAX_FOLDERS = 1_000_000

#: Bytes of a manifest that is read line by line.
MAX_TEXT_BYTES = 4 << 30
#: Bytes of a JSON manifest, which is read at once.
MAX_JSON_BYTES = 256 << 20
#: Bytes of a line of a manifest. (The `csv` module limits the fields of a line, by default to 128 KiB.)
MAX_LINE_BYTES = 16 << 20

#: Bytes of a file of labels of words.
MAX_LABELS_BYTES = 1 << 30
#: Pages of a document.
MAX_PAGES = 1 << 20

#: Maximum bytes of a page that a worker keeps decoded for its words. A larger page is decoded again for each word.
MAX_KEPT_PAGE_BYTES = 1 << 26

#: Bytes of a Parquet file. The media in it are read when they are needed.
MAX_PARQUET_BYTES = 1 << 40
#: Bytes in memory of the columns of a Parquet file, without media.
MAX_PARQUET_COLUMN_BYTES = 1 << 30
#: Bytes of media in one row group of a Parquet file, which are in memory together.
MAX_ROW_GROUP_BYTES = 4 << 30

#: Columns of a LeRobot dataset.
MAX_COLUMNS = 10_000
#: Frames of an episode of a LeRobot dataset: a day at 1,000 a second.
MAX_EPISODE_FRAMES = 86_400_000
#: Bytes of the tables of LeRobot datasets that a process keeps in memory.
MAX_KEPT_TABLE_BYTES = 1 << 29

#: Maximum number of tar shards in a name with braces.
MAX_SHARDS = 1_000_000
#: Bytes of a tar header that holds a long name. A name of 4096 bytes, times and permissions take far less.
MAX_TAR_HEADER_BYTES = 1 << 20
#: Bytes of a .cls, .json or .txt member, or of a subtitle file in a stream of shards.
MAX_COLUMN_BYTES = 1 << 24
#: Bytes of a media member in a stream of shards, which is read into memory as a whole.
MAX_MEDIA_MEMBER_BYTES = 1 << 31
