"""Read media in Ray Data, Daft and other distributed engines, with classes that add columns to a batch of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._engine import lazy_names
from ._columns import Column, ListColumn, RowMapper, TextColumn, clip_rows
from ._readers import AudioReader, ClipDecoder, LeRobotReader

if TYPE_CHECKING:
    from .._text_data.text_reader import TextReader

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

__getattr__ = lazy_names(__name__, {"TextReader": ".._text_data.text_reader"})
