"""Small PDF files, written without a library, and what poppler's programs make of them."""

from __future__ import annotations

import hashlib
import html
import re
import subprocess
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from processes import find_program

__all__ = [
    "TURNS",
    "Annotation",
    "PdftotextWord",
    "annotated",
    "assembled",
    "document",
    "encrypted",
    "endless",
    "pdftoppm",
    "pdftotext",
    "poppler_text",
    "stream",
    "text_page",
]

# Entries of pages that are turned, or cropped.
TURNS = ["", "/CropBox[50 80 600 780]", "/Rotate 90", "/Rotate 180/CropBox[50 80 600 780]", "/Rotate 270"]
_PADDING = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")


def assembled(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """A file of numbered objects, the first of which is its catalogue."""
    file, offsets = bytearray(b"%PDF-1.7\n"), []
    for number, content in enumerate(objects, 1):
        offsets.append(len(file))
        file += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    start = len(file)
    file += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    file += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    file += b"trailer<</Size %d/Root 1 0 R%b>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, start)
    return bytes(file)


def stream(data: bytes, entries: bytes = b"") -> bytes:
    """A compressed stream."""
    packed = zlib.compress(data)
    return b"<</Length %d/Filter/FlateDecode%b>>stream\n%b\nendstream" % (len(packed), entries, packed)


def document(contents: Sequence[bytes], *, box: str = "0 0 612 792", entries: str = "", resources: str = "") -> bytes:
    """A file with a page for each of the contents; font /F is Helvetica."""
    kids = b" ".join(b"%d 0 R" % (4 + 2 * number) for number in range(len(contents)))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[%b]/Count %d>>" % (kids, len(contents)),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
    ]
    for number, content in enumerate(contents):
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[{box}]{entries}/Contents {5 + 2 * number} 0 R"
            f"/Resources<</Font<</F 3 0 R>>{resources}>>>>".encode()
        )
        objects.append(stream(content))
    return assembled(objects)


def text_page(*lines: tuple[int, int, str], size: int = 24) -> bytes:
    """Content that shows lines of text, each from a point (x, y) on."""
    shown = [f"BT /F {size} Tf {x} {y} Td ({text}) Tj ET" for x, y, text in lines]
    return "\n".join(shown).encode("cp1252")


class Annotation(NamedTuple):
    """An annotation of 400 by 60 points that shows one word, or a field of a form with the subtype ``Widget``."""

    text: str
    left: int
    bottom: int
    subtype: str = "FreeText"
    flags: int = 4
    has_appearance: bool = True


def annotated(
    content: bytes,
    annotations: Sequence[Annotation],
    *,
    box: str = "0 0 612 792",
    entries: str = "",
    form_entries: str = "",
) -> bytes:
    """A page with annotations and fields; the size of the page is inherited, as in many files."""
    objects: list[bytes] = []
    fields = []
    for number, (text, left, bottom, subtype, flags, has_appearance) in enumerate(annotations):
        name = 6 + 2 * number
        is_field = subtype == "Widget"
        if is_field:
            fields.append(f"{name} 0 R")
        kind = f"/FT/Tx/T(field {number})/V({text})/DA(/F 40 Tf)" if is_field else ""
        look = f"/AP<</N {name + 1} 0 R>>" if has_appearance else ""
        objects += [
            f"<</Type/Annot/Subtype/{subtype}{kind}/Rect[{left} {bottom} {left + 400} {bottom + 60}]/P 3 0 R/F {flags}"
            f"{look}>>".encode(),
            stream(
                f"BT /F 40 Tf 10 15 Td ({text}) Tj ET".encode(),
                b"/Type/XObject/Subtype/Form/BBox[0 0 400 60]/Resources<</Font<</F 4 0 R>>>>",
            ),
        ]
    listed = " ".join(f"{6 + 2 * number} 0 R" for number in range(len(annotations)))
    form = f"/AcroForm<</Fields[{' '.join(fields)}]/DR<</Font<</F 4 0 R>>>>/DA(/F 40 Tf){form_entries}>>"
    return assembled([
        f"<</Type/Catalog/Pages 2 0 R{form if fields else ''}>>".encode(),
        f"<</Type/Pages/Kids[3 0 R]/Count 1/MediaBox[{box}]>>".encode(),
        f"<</Type/Page/Parent 2 0 R{entries}/Contents 5 0 R/Resources<</Font<</F 4 0 R>>>>/Annots[{listed}]>>".encode(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        stream(content),
        *objects,
    ])  # fmt: skip


def endless() -> bytes:
    """A page that PDFium draws for years, a pattern repeated every hundred-thousandth of a point, and an empty page."""
    pattern = stream(
        b"0 0 1 1 re f",
        b"/Type/Pattern/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 1 1]/XStep 0.00001/YStep 0.00001/Resources<<>>",
    )
    return assembled([
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R 6 0 R]/Count 2>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Pattern<</P 5 0 R>>>>>>",
        stream(b"/Pattern cs /P scn 0 0 612 792 re f"),
        pattern,
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 61 79]>>",
    ])  # fmt: skip


def encrypted(content: bytes, password: bytes) -> bytes:
    """A page that opens with a password only: the standard handler's revision 2 (RC4, 40 bits)."""
    identity = b"0123456789abcdef"
    padded = (password + _PADDING)[:32]
    owner = _rc4(hashlib.md5(padded).digest()[:5], padded)
    permissions = -4
    key = hashlib.md5(padded + owner + permissions.to_bytes(4, "little", signed=True) + identity).digest()[:5]
    content_key = hashlib.md5(key + (4).to_bytes(3, "little") + bytes(2)).digest()[:10]
    sealed = _rc4(content_key, content)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(sealed), sealed),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        b"<</Filter/Standard/V 1/R 2/P %d/O<%b>/U<%b>>>"
        % (permissions, owner.hex().encode(), _rc4(key, _PADDING).hex().encode()),
    ]
    return assembled(objects, b"/Encrypt 6 0 R/ID[<%b><%b>]" % ((identity.hex().encode(),) * 2))


def _rc4(key: bytes, data: bytes) -> bytes:
    state, j = list(range(256)), 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    out, i, j = bytearray(), 0, 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)


def pdftoppm(path: Path, dpi: int, *options: str) -> NDArray[np.uint8]:
    """A page as poppler renders it, (H, W, 3) uint8."""
    prefix = path.with_name(f"{path.stem}-{dpi}")
    command = [find_program("pdftoppm"), "-r", str(dpi), *_only_page(0), "-singlefile", *options, path, prefix]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    with Image.open(f"{prefix}.ppm") as image:
        return np.array(image)


def _only_page(number: int) -> list[str]:
    return ["-cropbox", "-f", str(number + 1), "-l", str(number + 1)]


class PdftotextWord(NamedTuple):
    """A word and its box, relative to the page."""

    value: str
    xmin: float
    ymin: float
    xmax: float
    ymax: float


def poppler_text(data: bytes, *options: str) -> str:
    """The output of ``pdftotext`` for a file."""
    command = [find_program("pdftotext"), *options, "-", "-"]
    return subprocess.run(command, input=data, capture_output=True, check=True, timeout=60).stdout.decode()


def pdftotext(path: Path, number: int = 0) -> list[PdftotextWord]:
    """The words of a page as poppler finds them."""
    text = poppler_text(path.read_bytes(), "-bbox", *_only_page(number))
    found = re.search(r'<page width="([\d.]+)" height="([\d.]+)"', text)
    assert found
    width, height = map(float, found.groups())
    words = re.findall(r'<word xMin="(\S+)" yMin="(\S+)" xMax="(\S+)" yMax="(\S+)">(.*?)</word>', text)
    return [
        PdftotextWord(
            html.unescape(value), float(x0) / width, float(y0) / height, float(x1) / width, float(y1) / height
        )
        for x0, y0, x1, y1, value in words
    ]
