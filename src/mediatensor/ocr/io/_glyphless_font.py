"""A font of boxes, for text that is there to be found and copied but not seen.

The font file has the same glyph for everything, a box as large as a glyph may be: programs that find text by where its
ink would be, as PDFium does, leave out what has none. What a code of the text stands for, one character or a whole
word, is said by the map to Unicode that goes into the PDF with it (PDF 32000-1, 9.10.3), so that any script can be
written, whatever fonts there are.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

__all__ = ["ASCENT", "GLYPH_WIDTH", "MAX_CODES", "MAX_UNITS", "SPACE_CODE", "FontCodes", "font_file"]

_UNITS_PER_EM = 1000
# Programs that extract text take the height of a glyph from the font; a descent of 0 they do not believe.
_ASCENT, _DESCENT = 800, -200
_SPACE_WIDTH = 50

ASCENT = _ASCENT / _UNITS_PER_EM
GLYPH_WIDTH = 1.0
SPACE_CODE = 1
# A code takes two bytes.
MAX_CODES = 65_000
# In UTF-16; an entry of the map may have 512 bytes.
MAX_UNITS = 200
_FIRST_FREE = 2
_ENTRIES_PER_SECTION = 100


def _table_checksum(table: bytes) -> int:
    padded = table + bytes(-len(table) % 4)
    words: tuple[int, ...] = struct.unpack(f">{len(padded) // 4}I", padded)
    return sum(words) & 0xFFFFFFFF


def _name_table(name: str) -> bytes:
    """The name as that of the family and as the one for PostScript."""
    text = name.encode("utf-16-be")
    records = b"".join(struct.pack(">6H", 3, 1, 0x409, kind, len(text), 0) for kind in (1, 6))
    return struct.pack(">HHH", 0, 2, 6 + len(records)) + records + text


def _tables(name: str) -> dict[bytes, bytes]:
    """The tables of a TrueType file with three glyphs: for what is missing, for text (the box), for spaces."""
    widths = (_UNITS_PER_EM, _UNITS_PER_EM, _SPACE_WIDTH)
    count = len(widths)
    box = (0, _DESCENT, _UNITS_PER_EM, _ASCENT)
    head = struct.pack(
        ">IIIIHHqqhhhhHHhhh", 0x10000, 0x10000, 0, 0x5F0F3CF5, 0, _UNITS_PER_EM, 0, 0, *box, 0, 8, 2, 0, 0
    )
    # One segment, the one that every table of format 4 ends with; it maps nothing.
    characters = struct.pack(">HHHHI12H", 0, 1, 3, 1, 12, 4, 24, 0, 2, 2, 0, 0, 0xFFFF, 0, 0xFFFF, 1, 0)
    metrics = struct.pack(
        ">HhHHH11h10s4I4sHHHhhhHH",
        *(1, _UNITS_PER_EM, 400, 5, 0, *[0] * 11, bytes(10), *[0] * 4, b"    "),
        *(64, 0, 0xFFFF, _ASCENT, _DESCENT, 0, _ASCENT, -_DESCENT),
    )
    left, bottom, right, top = box
    # One contour of four points, their coordinates as words of 16 bits, each the way from the one before.
    outline = struct.pack(
        ">5hHH4B8h", 1, *box, 3, 0, *[1] * 4, left, 0, right, 0, bottom, top - bottom, 0, bottom - top
    )
    outline += bytes(-len(outline) % 4)
    return {
        b"OS/2": metrics,
        b"cmap": characters,
        b"glyf": outline,
        b"head": head,
        b"hhea": struct.pack(">I3hH11hH", 0x10000, _ASCENT, _DESCENT, 0, max(widths), *[0] * 3, 1, *[0] * 7, count),
        b"hmtx": b"".join(struct.pack(">Hh", width, 0) for width in widths),
        b"loca": struct.pack(">4H", 0, 0, len(outline) // 2, len(outline) // 2),
        b"maxp": struct.pack(">I14H", 0x10000, count, 4, 1, 0, 0, 1, *[0] * 8),
        b"name": _name_table(name),
        b"post": struct.pack(">IIhh5I", 0x30000, 0, 0, 0, 1, *[0] * 4),
    }


def font_file(name: str) -> bytes:
    """The font as a TrueType file (OpenType 1.9, chapter 'OpenType font file').

    Args:
        name: Its name. PDFium takes fonts of one name on one page for one font.
    """
    tables = _tables(name)
    directory, data = b"", b""
    start = 12 + 16 * len(tables)
    for tag, table in sorted(tables.items()):
        directory += struct.pack(">4sIII", tag, _table_checksum(table), start + len(data), len(table))
        data += table + bytes(-len(table) % 4)
    return struct.pack(">IHHHH", 0x10000, len(tables), 128, 3, 16 * len(tables) - 128) + directory + data


class FontCodes:
    """The codes of one font and what they stand for."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._codes)

    def encode(self, texts: Sequence[str]) -> list[int]:
        """A code for each text, a space after the last of them.

        Args:
            texts: What each glyph stands for: at least one character, at most `MAX_UNITS` in UTF-16.
        """
        codes = [self._codes.setdefault(text, len(self._codes) + _FIRST_FREE) for text in texts]
        return [*codes, SPACE_CODE]

    def unicode_map(self) -> bytes:
        """What the codes stand for, as a CMap."""
        entries = [f"<{SPACE_CODE:04X}> <0020>"]
        entries += [f"<{code:04X}> <{text.encode('utf-16-be').hex()}>" for text, code in self._codes.items()]
        sections = [
            entries[start : start + _ENTRIES_PER_SECTION] for start in range(0, len(entries), _ENTRIES_PER_SECTION)
        ]
        return "\n".join(
            [
                "/CIDInit /ProcSet findresource begin",
                "12 dict begin",
                "begincmap",
                "/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def",
                "/CMapName /Adobe-Identity-UCS def",
                "/CMapType 2 def",
                "1 begincodespacerange",
                "<0000> <FFFF>",
                "endcodespacerange",
                *("\n".join([f"{len(section)} beginbfchar", *section, "endbfchar"]) for section in sections),
                "endcmap",
                "CMapName currentdict /CMap defineresource pop",
                "end",
                "end",
            ]
        ).encode("ascii")

    def glyph_map(self) -> bytes:
        """The glyph of each code: none, that of spaces, and for all others the same."""
        return struct.pack(f">{_FIRST_FREE + len(self._codes)}H", 0, 2, *[1] * len(self._codes))
