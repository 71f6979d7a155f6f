"""Locate the values of a bytes column in a Parquet file, so that one value, or a part of it, can be read separately.

pyarrow reads only whole row groups. Therefore this module itself parses page headers (in Thrift's compact protocol),
the levels that mark the rows with a value, and the length before each value. See "Data Pages", "Encodings" and
``parquet.thrift`` in the description of the Apache Parquet format. All functions are pure, except for a function that
the caller passes to read bytes. An unknown format raises `UnknownPagesError`; the caller then lets pyarrow read the
whole row group.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Function that reads a number of bytes at a position; it returns fewer bytes at the end of the file.
ReadAt = Callable[[int, int], bytes]

_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_PLAIN, _PLAIN_DICTIONARY, _RLE_DICTIONARY = 0, 2, 8
#: Numbers of bytes in which to look for a header. It usually takes about 30, plus the smallest and the largest value,
#: which writers shorten or leave out.
_HEADER_BYTES = (1 << 10, 1 << 16, 1 << 20)
_MAX_DEPTH = 16
_MAX_EMPTY_PAGES = 1000
_LENGTH_BYTES = 4


class UnknownPagesError(Exception):
    """The pages of a column are damaged or have an unknown format."""


class _CutError(UnknownPagesError):
    """The page header continues after the bytes that were read."""


@dataclass(frozen=True)
class Chunk:
    """The values of a column in one row group: bytes ``start`` to ``stop`` of the file.

    ``num_values`` includes missing values. A row with the definition level ``max_level`` has a value; with a lower
    level, it has none. ``compression`` is pyarrow's name of the codec. If all values have the same size,
    ``value_bytes`` is this size, and no lengths are stored.
    """

    start: int
    stop: int
    num_values: int
    max_level: int
    compression: str | None
    value_bytes: int | None = None


class Page(NamedTuple):
    """A page of a chunk. ``first`` is the index of its first value in the chunk.

    ``num_values`` includes missing values. The contents after the header begin at ``start`` and take ``size`` bytes, or
    ``plain_size`` after decompression. In data pages of version 2, the contents begin with ``level_bytes`` bytes of
    levels, which are never compressed.
    """

    kind: int
    first: int
    num_values: int
    encoding: int
    start: int
    size: int
    plain_size: int
    level_bytes: int
    is_compressed: bool


# Headers


class _Compact:
    """Parser for data in Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def _byte(self) -> int:
        if self.position >= len(self._data):
            raise _CutError("the header of a page is cut")
        self.position += 1
        return self._data[self.position - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise UnknownPagesError("the header of a page has a number that is too long")

    def _skip(self, num_bytes: int) -> None:
        if num_bytes > len(self._data) - self.position:
            raise _CutError("the header of a page is cut")
        self.position += num_bytes

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Parse a struct, and return its numbers, booleans and structs by field number. Other fields are skipped."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            step, kind = head >> 4, head & 0x0F
            number = number + step if step else _signed(self._varint())
            value = kind == 1 if kind in (1, 2) else self._value(kind, depth)
            if value is not None:
                fields[number] = value
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise UnknownPagesError("the header of a page is nested too deeply")
        if kind in (1, 2, 3):  # each boolean in a list takes a byte
            self._skip(1)
        elif kind in (4, 5, 6):
            return _signed(self._varint())
        elif kind == 7:
            self._skip(8)
        elif kind == 8:
            self._skip(self._varint())
        elif kind in (9, 10):
            head = self._byte()
            count = self._varint() if head >> 4 == 15 else head >> 4
            for _ in range(count):  # each element takes at least a byte, so the loop ends with the data
                self._value(head & 0x0F, depth + 1)
        elif kind == 11:
            count = self._varint()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._value(kinds >> 4, depth + 1)
                self._value(kinds & 0x0F, depth + 1)
        elif kind == 12:
            return self.struct(depth + 1)
        else:
            raise UnknownPagesError(f"the header of a page has a field of type {kind}")
        return None


def _signed(number: int) -> int:
    return number >> 1 ^ -(number & 1)


def _page_header(data: bytes, position: int, first: int) -> Page:
    compact = _Compact(data)
    fields = compact.struct()
    kind = fields.get(1)
    own = fields.get(5 if kind == _DATA else 7 if kind == _DICTIONARY else 8 if kind == _DATA_V2 else -1)
    if not isinstance(own, dict):
        raise UnknownPagesError(f"a page is of type {kind}")
    is_second = kind == _DATA_V2
    size, plain_size, num_values = _number(fields, 3), _number(fields, 2), _number(own, 1)
    level_bytes = _number(own, 5) + _number(own, 6) if is_second else 0
    if level_bytes > min(size, plain_size):
        raise UnknownPagesError("a page is smaller than its levels")
    return Page(
        _number(fields, 1),
        first,
        num_values,
        _number(own, 4 if is_second else 2),
        position + compact.position,
        size,
        plain_size,
        level_bytes,
        not is_second or own.get(7, True) is True,
    )


def _number(fields: dict[int, Any], number: int) -> int:
    value = fields.get(number)
    if type(value) is not int or value < 0:
        raise UnknownPagesError("the header of a page lacks a number, or has a negative one")
    return value


def data_pages(read_at: ReadAt, chunk: Chunk) -> tuple[Page | None, list[Page]]:
    position, num_values = chunk.start, 0
    dictionary: Page | None = None
    pages: list[Page] = []
    while num_values < chunk.num_values:
        page = _page_at(read_at, position, chunk.stop, num_values)
        position = page.start + page.size
        if position > chunk.stop:
            raise UnknownPagesError("a page goes beyond its column")
        if page.kind == _DICTIONARY:
            if dictionary is not None or pages:
                raise UnknownPagesError("a dictionary follows data")
            dictionary = page
            continue
        num_values += page.num_values
        pages.append(page)
        if len(pages) > chunk.num_values + _MAX_EMPTY_PAGES:
            raise UnknownPagesError("a column has too many pages without a value")
    if num_values != chunk.num_values:
        raise UnknownPagesError("the pages of a column have more values than there are")
    return dictionary, pages


def _page_at(read_at: ReadAt, position: int, stop: int, first: int) -> Page:
    for size in _HEADER_BYTES:
        if position >= stop:
            break
        try:
            return _page_header(read_at(position, min(size, stop - position)), position, first)
        except _CutError:
            continue
    raise UnknownPagesError("the header of a page is cut")


# Values


def _present_rows(page: Page, levels: bytes, max_level: int) -> tuple[NDArray[np.bool_], int]:
    """Return a mask, bool (rows,), which is true for rows of a page that have a value.

    Parquet marks missing values by definition levels: a row has a value if its level is ``max_level``. ``levels`` are
    the bytes after the header, which must include all levels. The second result is the size of the levels in bytes. If
    ``max_level`` is 0, there are no levels, and all rows have a value.
    """
    if max_level == 0:
        return np.ones(page.num_values, np.bool_), page.level_bytes
    start, size = 0, page.level_bytes
    if page.kind == _DATA:
        start, size = _LENGTH_BYTES, int.from_bytes(levels[:_LENGTH_BYTES], "little")
    if start + size > len(levels):
        raise UnknownPagesError("the levels of a page are cut")
    row_levels = _hybrid(levels[start : start + size], max_level.bit_length(), page.num_values)
    return row_levels == max_level, start + size


def _hybrid(data: bytes, width: int, count: int) -> NDArray[np.int64]:
    """Decode ``count`` integers of ``width`` bits in Parquet's RLE / bit-packing hybrid.

    Each group of integers is stored as packed bits or, if all are equal, as one integer and a count.
    """
    numbers = np.zeros(count, np.int64)
    num_read, compact = 0, _Compact(data)
    while num_read < count:
        head = compact._varint()
        begin = compact.position
        if head & 1:
            compact._skip((head >> 1) * width)
            bits = np.unpackbits(np.frombuffer(data, np.uint8)[begin : compact.position], bitorder="little")
            if width:
                run = (bits.reshape(-1, width)[: count - num_read].astype(np.int64) << np.arange(width)).sum(axis=1)
            else:
                run = np.zeros(min((head >> 1) * 8, count - num_read), np.int64)
        else:
            compact._skip(-(-width // 8))
            value = int.from_bytes(data[begin : compact.position], "little")
            run = np.full(min(head >> 1, count - num_read), value)
        if not len(run):
            raise UnknownPagesError("a run of a page is empty")
        numbers[num_read : num_read + len(run)] = run
        num_read += len(run)
    return numbers


def _plain_spans(read_at: ReadAt, start: int, stop: int, count: int, value_bytes: int | None) -> list[tuple[int, int]]:
    """Return the byte range (start, stop) of each of ``count`` consecutive values.

    Each value is preceded by its length, unless all of them have ``value_bytes`` bytes.
    """
    if value_bytes is not None:
        if start + count * value_bytes > stop:
            raise UnknownPagesError("a value goes beyond its page")
        return [(at, at + value_bytes) for at in range(start, start + count * value_bytes, value_bytes)]
    spans = []
    for _ in range(count):
        head = read_at(start, _LENGTH_BYTES)
        begin = start + _LENGTH_BYTES
        start = begin + int.from_bytes(head, "little")
        if len(head) < _LENGTH_BYTES or start > stop:
            raise UnknownPagesError("a value goes beyond its page")
        spans.append((begin, start))
    return spans


#: The byte range of a value in the file, or the value itself; ``None`` for a row without value.
Place = tuple[int, int] | bytes | None


def values_of_page(
    read_at: ReadAt, page: Page, dictionary: Page | None, chunk: Chunk, unpack: Callable[[bytes, int], bytes]
) -> list[Place]:
    """Return the byte range in the file of each value of a page, or the values themselves if the page is compressed.

    ``unpack`` takes compressed bytes and their size after decompression, and returns the decompressed bytes.
    """
    is_plain = page.encoding == _PLAIN
    if not is_plain and (page.encoding not in (_PLAIN_DICTIONARY, _RLE_DICTIONARY) or dictionary is None):
        raise UnknownPagesError(f"a page has the encoding {page.encoding}")
    # In an uncompressed page of plain values, only the lengths before the values are read.
    body = None if is_plain and chunk.compression is None else _body(read_at, page, chunk, unpack)
    head = _level_part(read_at, page, chunk.max_level) if body is None else body
    present, size = _present_rows(page, head, chunk.max_level)
    count = int(present.sum())
    if is_plain or body is None:
        return _spread(present, _plain_values(read_at, page, chunk, body, size, count))
    numbers = _hybrid(body[size + 1 :], _width(body[size : size + 1]), count) if count else np.zeros(0, np.int64)
    words = _words(read_at, dictionary, chunk, unpack)  # type: ignore[arg-type]
    if count and not 0 <= numbers.max() < len(words):
        raise UnknownPagesError("a page has a number that is not in the dictionary")
    return _spread(present, [words[number] for number in numbers.tolist()])


def _words(read_at: ReadAt, page: Page, chunk: Chunk, unpack: Callable[[bytes, int], bytes]) -> list[Place]:
    if page.encoding not in (_PLAIN, _PLAIN_DICTIONARY):
        raise UnknownPagesError(f"a dictionary has the encoding {page.encoding}")
    body = None if chunk.compression is None else _body(read_at, page, chunk, unpack)
    return _plain_values(read_at, page, chunk, body, 0, page.num_values)


def _plain_values(read_at: ReadAt, page: Page, chunk: Chunk, body: bytes | None, start: int, count: int) -> list[Place]:
    """Return the byte range in the file of each of ``count`` values in plain encoding.

    From a compressed page, whose contents are ``body``, return the values themselves.
    """
    if body is None:
        return [*_plain_spans(read_at, page.start + start, page.start + page.size, count, chunk.value_bytes)]
    spans = _plain_spans(lambda at, size: body[at : at + size], start, len(body), count, chunk.value_bytes)
    return [body[begin:stop] for begin, stop in spans]


def _width(data: bytes) -> int:
    if not data or data[0] > 32:
        raise UnknownPagesError("the numbers of a page are too wide")
    return data[0]


def _level_part(read_at: ReadAt, page: Page, max_level: int) -> bytes:
    if max_level == 0 or page.kind == _DATA_V2:
        return read_at(page.start, page.level_bytes)
    size = _LENGTH_BYTES + int.from_bytes(read_at(page.start, _LENGTH_BYTES), "little")
    return read_at(page.start, min(size, page.size))


def _body(read_at: ReadAt, page: Page, chunk: Chunk, unpack: Callable[[bytes, int], bytes]) -> bytes:
    data = read_at(page.start, page.size)
    if len(data) < page.size:
        raise UnknownPagesError("a page is cut")
    if chunk.compression is None or not page.is_compressed:
        return data
    levels, packed = data[: page.level_bytes], data[page.level_bytes :]
    values = unpack(packed, page.plain_size - page.level_bytes) if packed else b""
    if len(values) != page.plain_size - page.level_bytes:
        raise UnknownPagesError("a page has another size than its header says")
    return levels + values


def _spread(present: NDArray[np.bool_], values: list[Place]) -> list[Place]:
    remaining = iter(values)
    return [next(remaining) if has_value else None for has_value in present.tolist()]


def page_of_row(pages: list[Page], row: int) -> int:
    """Return the index in ``pages`` of the page that contains a row. ``row`` counts within the chunk."""
    return bisect_right(pages, row, key=lambda page: page.first) - 1
