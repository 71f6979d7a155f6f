"""How large the sources of a dataset may be. Whatever is larger is refused, so that no source fills memory or disk."""

from __future__ import annotations

#: Files of a source. An endless iterable, or a manifest made to fill the memory, ends at this number.
MAX_ITEMS = 10_000_000

#: Folders within each other.
MAX_FOLDER_DEPTH = 64
#: Folders that are searched for files. Links that lead to each other could make any number of paths.
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

#: Bytes of a page with words. A larger page is decoded anew for each word, because a worker keeps several pages.
MAX_KEPT_PAGE_BYTES = 1 << 26

#: Bytes of a Parquet file. The media in it are read when they are needed.
MAX_PARQUET_BYTES = 1 << 40
#: Bytes in memory of the columns of a Parquet file, without its media.
MAX_PARQUET_COLUMN_BYTES = 1 << 30
#: Bytes of the media of one row group of a Parquet file, which are in memory together.
MAX_ROW_GROUP_BYTES = 4 << 30

#: Columns of a LeRobot dataset.
MAX_COLUMNS = 10_000
#: Frames of an episode of a LeRobot dataset: a day at 1,000 a second.
MAX_EPISODE_FRAMES = 86_400_000
#: Bytes of the tables of LeRobot datasets that a process keeps in memory.
MAX_KEPT_TABLE_BYTES = 1 << 29

#: Tar shards that the braces of a name stand for.
MAX_SHARDS = 1_000_000
#: Bytes of a tar header that holds a long name. A name of 4096 bytes, times and rights take far less.
MAX_TAR_HEADER_BYTES = 1 << 20
#: Bytes of a .cls, .json or .txt member, or of a subtitle file in a stream of shards.
MAX_COLUMN_BYTES = 1 << 24
#: Bytes of a media member of a stream of shards, which is in memory as a whole.
MAX_MEDIA_MEMBER_BYTES = 1 << 31
