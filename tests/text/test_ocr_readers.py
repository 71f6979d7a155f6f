"""Image files as documents: pages of several files and of files of several pictures, and unreadable files."""

from __future__ import annotations

import io
import pickle
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

import images
from mediatensor.errors import (
    InvalidArgumentError,
    OpenError,
    OutOfRangeError,
    PageError,
    SourceNotFoundError,
    SourceTypeError,
)
from mediatensor.ocr.io import DocumentFile, Pages, read_img_as_numpy

PICTURE = images.picture()
PNG = images.encoded(PICTURE, "PNG")


def test_every_source_and_lists_of_sources_are_read(tmp_path: Path) -> None:
    path = tmp_path / "no extension: it is not looked at"
    path.write_bytes(PNG)
    with path.open("rb") as file:
        sources = [
            path,
            str(path),
            PNG,
            bytearray(PNG),
            io.BytesIO(PNG),
            file,
            torch.frombuffer(bytearray(PNG), dtype=torch.uint8),
        ]
        for files in (*sources, sources, tuple(sources), (source for source in sources)):
            pages = DocumentFile.from_images(files)
            assert isinstance(pages, Pages)
            assert len(pages) == (len(sources) if isinstance(files, (list, tuple)) or len(pages) > 1 else 1)
            assert all(np.array_equal(page, PICTURE) for page in pages)


def frames(count: int = 7) -> list[NDArray[np.uint8]]:
    return [np.full((6, 8, 3), 30 * number, np.uint8) for number in range(count)]


def animation(kind: str = "GIF", **options: bool) -> bytes:
    first, *others = (Image.fromarray(frame) for frame in frames())
    return images.encoded(first, kind, save_all=True, append_images=others, **options)


@pytest.mark.parametrize("kind", ["TIFF", "GIF", "PNG", "WEBP"])
def test_every_picture_of_a_file_is_a_page(kind: str, tmp_path: Path) -> None:
    data = animation(kind, **({"lossless": True} if kind == "WEBP" else {}))
    path = tmp_path / "pages"
    path.write_bytes(data)
    for source in (data, path):
        pages = DocumentFile.from_images(source)
        assert len(pages) == 7
        for number in [0, 1, 2, 6, 3, 3, 4, 0, -1]:  # in order, and not
            assert np.array_equal(pages[number], frames()[number])
        copy = pickle.loads(pickle.dumps(pages))
        assert np.array_equal(copy[5], frames()[5])
        assert np.array_equal(read_img_as_numpy(source), frames()[0])
    several = DocumentFile.from_images([PNG, path, PNG], pages=range(1, 9, 2))
    assert [page.shape for page in several] == [(6, 8, 3)] * 3 + [(6, 8, 3)][:1]
    assert several.origin(1) == (str(path), 2)
    assert several.text_layer(0) == []


def test_an_animation_that_is_read_in_order_is_decoded_once(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.gif" for number in range(6)]
    for path in paths:
        path.write_bytes(animation())
    documents = [DocumentFile.from_images(path) for path in paths]
    for document in documents:  # none is read to its end: the first ones are forgotten
        document[0]
    for path in paths:
        path.unlink()

    # Only continued reading needs no file.
    for document in documents[2:]:
        assert [int(document[number][0, 0, 0]) for number in range(1, 7)] == [30 * number for number in range(1, 7)]
    for document in documents:
        with pytest.raises(PageError, match="does not exist"):
            document[1]


def test_threads_share_an_animation() -> None:
    pages = DocumentFile.from_images(animation())
    order = np.random.default_rng(0).integers(0, 7, 200).tolist()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # other threads get on everywhere
    try:
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(pages.__getitem__, order))
    finally:
        sys.setswitchinterval(interval)
    assert [int(page[0, 0, 0]) for page in found] == [30 * number for number in order]


def long_tiff(count: int) -> bytes:
    """Pages of one pixel, written by hand: page n is n % 251."""
    file = bytearray(b"II*\0" + struct.pack("<I", 8))
    for number in range(count):
        tags = [(256, 1), (257, 1), (258, 8), (259, 1), (262, 1), (273, len(file) + 2 + 8 * 12 + 4), (277, 1), (279, 1)]
        file += struct.pack("<H", len(tags))
        for tag, value in tags:
            file += struct.pack("<HHII", tag, 4, 1, value)
        file += struct.pack("<I", 0 if number + 1 == count else len(file) + 4 + 2)
        file += bytes([number % 251, 0])
    return bytes(file)


def test_a_long_tiff_is_read_page_by_page(tmp_path: Path) -> None:
    path = tmp_path / "long.tif"
    path.write_bytes(long_tiff(2000))
    with Image.open(path) as image:
        assert image.n_frames == 2000
    pages = DocumentFile.from_images(path)
    assert len(pages) == 2000
    # Spoil the tags of the first 1,990 pages, each 104 bytes: a reader that goes over them would notice.
    with path.open("r+b") as file:
        for number in range(1990):
            file.seek(8 + 104 * number + 2)
            file.write(bytes(8 * 12))
    assert [int(page[0, 0, 0]) for page in pages[1990:]] == [number % 251 for number in range(1990, 2000)]
    with pytest.raises(PageError):
        pages[1989]


def test_tiff_with_too_many_pages_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pages.tif"
    count = (1 << 20) + 1
    # Directories without tags: no entries, and where the next one is.
    entries = np.zeros(count, np.dtype([("num_entries", "<u2"), ("next", "<u4")]))
    entries["next"] = 8 + 6 * np.arange(1, count + 1)
    entries["next"][-1] = 0
    path.write_bytes(b"II*\0" + struct.pack("<I", 8) + entries.tobytes())
    with pytest.raises(OpenError, match="more than 1048576 pages"):
        DocumentFile.from_images(path)


def test_big_tiff_is_read(tmp_path: Path) -> None:
    path = tmp_path / "big.tif"
    pictures = [Image.fromarray(frame) for frame in frames(3)]
    pictures[0].save(path, "TIFF", big_tiff=True, save_all=True, append_images=pictures[1:], compression="tiff_lzw")
    pages = DocumentFile.from_images(path)
    assert [int(page[0, 0, 0]) for page in pages[::-1]] == [60, 30, 0]
    assert [int(page[0, 0, 0]) for page in DocumentFile.from_images(path.read_bytes())] == [0, 30, 60]


# Unreadable files


def test_empty_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="files is empty"):
        DocumentFile.from_images([])
    with pytest.raises(SourceNotFoundError, match=r"nowhere\.png"):
        DocumentFile.from_images([PNG, tmp_path / "nowhere.png"])
    with pytest.raises(FileNotFoundError):
        read_img_as_numpy(str(tmp_path / "nowhere.png"))
    with pytest.raises(OpenError, match="directory"):
        DocumentFile.from_images(tmp_path)
    (tmp_path / "empty.png").touch()
    for empty in (b"", tmp_path / "empty.png", io.BytesIO()):
        with pytest.raises(OpenError, match="empty"):
            DocumentFile.from_images(empty)
    for wrong in (17, None, [PNG, None], PICTURE, [PICTURE]):
        with pytest.raises(SourceTypeError):
            DocumentFile.from_images(wrong)
    with pytest.raises(OpenError, match="looks like data that begins with b'hello'"):
        DocumentFile.from_images(b"hello")
    with pytest.raises(OpenError, match=r"looks like a PDF document; use DocumentFile\.from_pdf"):
        DocumentFile.from_images(b"%PDF-1.7\n...")
    with pytest.raises(OutOfRangeError):
        DocumentFile.from_images([PNG], pages=[1])
    with pytest.raises(TypeError, match="unexpected keyword argument 'dpi'"):
        DocumentFile.from_images(PNG, dpi=100)


def damaged() -> dict[str, bytes]:
    lines = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    cut = {kind: images.encoded(lines, kind) for kind in ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF")}
    files = {f"half a {kind}": data[: len(data) // 2] for kind, data in cut.items()}
    files["headers of a JPEG"] = cut["JPEG"][:20]
    files["TIFF that ends early"] = cut["TIFF"][:7] + b"\xff" + cut["TIFF"][8:]
    files["TIFF of 32 bits"] = images.encoded(Image.new("F", (4, 4)), "TIFF")
    files["claims"] = images.png_claiming(60000, 60000)
    return files


@pytest.mark.parametrize("name", damaged())
def test_a_bad_page_does_not_lose_the_others(name: str, tmp_path: Path) -> None:
    path = tmp_path / "bad"
    path.write_bytes(damaged()[name])
    for bad in (path, path.read_bytes()):
        pages = DocumentFile.from_images([PNG, bad, PNG])
        assert len(pages) == 3
        with pytest.raises(PageError, match=r"Page 0 \(counted from 0\) of .* cannot be read") as caught:
            pages[1]
        assert isinstance(caught.value, ValueError)
        assert "bad" in str(caught.value) or "bytes in memory" in str(caught.value)
        assert np.array_equal(pages[0], pages[2])
        with pytest.raises(PageError):
            read_img_as_numpy(bad)


def test_pages_before_the_end_of_a_truncated_tiff_are_read() -> None:
    whole = long_tiff(5)
    pages = DocumentFile.from_images(whole[: len(whole) * 3 // 5])
    assert [int(page[0, 0, 0]) for page in pages[:2]] == [0, 1]
    with pytest.raises(PageError):
        pages[len(pages) - 1]
    circle = bytearray(long_tiff(2))
    circle[-6:-2] = struct.pack("<I", 8)
    assert len(DocumentFile.from_images(bytes(circle))) == 2


def test_iterator_continues_after_a_bad_page() -> None:
    iterator = iter(DocumentFile.from_images([PNG, PNG[:60], PNG]))
    next(iterator)
    with pytest.raises(PageError):
        next(iterator)
    assert np.array_equal(next(iterator), PICTURE)
    with pytest.raises(StopIteration):
        next(iterator)


def test_too_large_pictures_are_refused() -> None:
    for kind in ("PNG", "JPEG", "TIFF", "GIF", "WEBP"):
        data = images.encoded(PICTURE, kind)
        with pytest.raises(PageError, match=r"37x23 = 851 pixels, more than max_pixels = 850"):
            DocumentFile.from_images(data, max_pixels=850)[0]
        assert read_img_as_numpy(data, max_pixels=851).shape == (23, 37, 3)


def test_missing_file_raises_when_a_page_is_read(tmp_path: Path) -> None:
    path = tmp_path / "page.png"
    path.write_bytes(PNG)
    pages = DocumentFile.from_images(path)
    path.unlink()
    with pytest.raises(PageError, match="does not exist"):
        pages[0]
