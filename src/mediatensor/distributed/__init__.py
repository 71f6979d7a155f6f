"""Media in the engines that run on many machines: callable classes for Ray Data and Daft; columns in, columns out."""

from __future__ import annotations

from ._columns import Column, ListColumn, TextColumn, clip_rows
from ._lerobot_reader import LeRobotReader
from ._media_readers import AudioReader, ClipDecoder
from ._row_mapper import RowMapper
from ._text_reader import TextReader

__all__ = [
    "AudioReader",
    "ClipDecoder",
    "Column",
    "LeRobotReader",
    "ListColumn",
    "RowMapper",
    "TextColumn",
    "TextReader",
    "clip_rows",
]
