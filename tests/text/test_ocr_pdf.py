"""PDF files as pages: rendering compared with poppler, lazy reading, and misleading files."""

from __future__ import annotations

import gc
import io
import multiprocessing
import os
import pickle
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

import pdf_files
from forked import run_program
from mediatensor.errors import InvalidArgumentError, OpenError, OutOfRangeError
from mediatensor.ocr.io import Block, Document, DocumentFile, Line, Page, Pages, Word, read_pdf
from mediatensor.ocr.io._documents.pages import PageOfFile
from mediatensor.ocr.io._documents.pdf import PdfDocument
from processes import find_program

pypdfium2 = pytest.importorskip("pypdfium2", reason="needs pypdfium2")


def gray_page(level: float) -> bytes:
    return f"{level} g 0 0 612 792 re f".encode()


#: Three pages, gray of three levels.
THREE = pdf_files.document([gray_page(level) for level in (0, 0.4, 1)], box="0 0 61.2 79.2")
LEVELS = [0, 102, 255]


def levels(pages: Any) -> list[int]:
    return [int(page[5, 5, 0]) for page in pages]


# Rendering


@pytest.mark.parametrize("box", ["1000 1000 1200 1200", "612 0 700 100", "-50 -50 -10 900"])
@pytest.mark.parametrize("is_inherited", [False, True])
@pytest.mark.parametrize("turn", ["", "/Rotate 90"])
def test_a_page_with_a_crop_box_outside_of_it_shows_its_media_box(
    box: str, is_inherited: bool, turn: str, tmp_path: Path
) -> None:
    content = b"0.2 g 50 500 300 200 re f BT /F 40 Tf 60 300 Td (word) Tj ET"
    annotation = pdf_files.Annotation("note", 100, 100)
    crop = f"/CropBox[{box}]{turn}"

    def file(entries: str) -> bytes:
        if is_inherited:
            return pdf_files.annotated(content, [annotation], box="0 0 600 800", entries=entries)
        return pdf_files.document([content], box="0 0 600 800", entries=entries)

    path = tmp_path / "page.pdf"
    path.write_bytes(file(crop))
    pages, plain = read_pdf(path, dpi=72), read_pdf(file(turn), dpi=72)
    np.testing.assert_array_equal(pages[0], plain[0])
    words = pages.text_layer(0)
    assert [word.value for word in words] == ["word", "note"][: 1 + is_inherited]
    assert [word.geometry for word in words] == [word.geometry for word in plain.text_layer(0)]
    np.testing.assert_array_equal(pages.page_content(0).boxes, plain.page_content(0).boxes)
    # Poppler shows the media box, unless it is asked for the crop box.
    subprocess.run(
        [find_program("pdftoppm"), "-r", "72", "-singlefile", path, tmp_path / "p"], check=True, capture_output=True
    )
    with Image.open(tmp_path / "p.ppm") as theirs:
        assert np.abs(np.asarray(theirs, int) - pages[0]).mean() < 3
    # A searchable file has the words where they are read.
    (left, top), (right, bottom) = words[0].geometry
    read = Word("found", 0.9, ((left, top + 0.3), (right, bottom + 0.3)), 0.9, {"value": 0, "confidence": None})
    page = Page(pages[0], [Block([Line([read])])], 0, pages[0].shape[:2])
    page.page = PageOfFile(pages, 0)
    exported = read_pdf(Document([page]).export_as_pdf(), dpi=72)
    assert exported[0].shape == pages[0].shape
    (found,) = (word for word in exported.text_layer(0) if word.value == "found")
    np.testing.assert_allclose(found.geometry, read.geometry, atol=0.02)


@pytest.mark.parametrize(
    "entries", ["", "/Rotate 90", "/Rotate 270/CropBox[50 100 600 780]", "/CropBox[50 100 600 780]"]
)
def test_pages_look_as_poppler_renders_them(entries: str, tmp_path: Path) -> None:
    content = (
        pdf_files.text_page((72, 700, "Hello brave world"), (72, 300, "a second line")) + b" 1 0 0 rg 90 90 80 40 re f"
    )
    path = tmp_path / "page.pdf"
    path.write_bytes(pdf_files.document([content], entries=entries))
    ours, theirs = read_pdf(path)[0], pdf_files.pdftoppm(path, 144)
    assert ours.shape == theirs.shape
    assert ours.dtype == np.uint8
    assert ours.flags.c_contiguous
    # The two programs smooth letters differently. A shift by three pixels would make a larger difference.
    difference = np.abs(ours.astype(int) - theirs).mean()
    assert difference < 0.8
    assert difference < 0.6 * np.abs(np.roll(ours, (3, 3), axis=(0, 1)).astype(int) - theirs).mean()


@pytest.mark.parametrize(
    ("options", "size"), [({}, (1584, 1224)), ({"scale": 1}, (792, 612)), ({"dpi": 36}, (396, 306))]
)
def test_scale_and_dpi_set_the_size(options: dict[str, Any], size: tuple[int, int]) -> None:
    file = pdf_files.document([b""])
    assert DocumentFile.from_pdf(file, **options)[0].shape == (*size, 3)


def test_channels_are_rgb_or_bgr() -> None:
    file = pdf_files.document([b"1 0.4 0 rg 0 0 612 792 re f"])
    assert read_pdf(file, scale=0.1)[0][0, 0].tolist() == [255, 102, 0]
    assert read_pdf(file, scale=0.1, rgb_mode=False)[0][0, 0].tolist() == [0, 102, 255]
    assert read_pdf(file, 0.1, False)[0].flags.c_contiguous
    assert read_pdf(file, scale=0.1).tensor(0)[:, 0, 0].tolist() == [255, 102, 0]


@pytest.mark.parametrize(
    "options", [{"grayscale": True}, {"fill_color": (255, 255, 255, 0)}, {"prefer_bgrx": True}, {"maybe_alpha": True}]
)
def test_every_bitmap_format_gives_three_channels(options: dict[str, Any]) -> None:
    file = pdf_files.document([b"/G gs 0.5 g 0 0 612 400 re f"], resources="/ExtGState<</G<</ca 0.5>>>>")
    plain, page = read_pdf(file, scale=0.1)[0], read_pdf(file, scale=0.1, **options)[0]
    assert page.shape == (80, 62, 3)
    assert page.flags.c_contiguous
    assert np.abs(page.astype(int) - plain).max() <= 2


def test_filled_in_form_fields_are_drawn(tmp_path: Path) -> None:
    path = tmp_path / "form.pdf"
    path.write_bytes(pdf_files.annotated(b"", [pdf_files.Annotation("FILLED IN", 100, 600, "Widget")]))
    ours, theirs = read_pdf(path)[0], pdf_files.pdftoppm(path, 144)
    assert (theirs < 128).sum() > 1000
    assert np.abs(ours.astype(int) - theirs).mean() < 0.5
    assert read_pdf(path, may_draw_forms=False)[0].min() == 255


def test_page_is_returned_as_a_tensor() -> None:
    pages = read_pdf(THREE)
    tensor = pages.tensor(1)
    assert tensor.dtype == torch.uint8
    assert tensor.is_contiguous()
    assert torch.equal(tensor, torch.from_numpy(pages[1]).permute(2, 0, 1))


def test_files_are_closed_at_exit(tmp_path: Path) -> None:
    path = tmp_path / "three.pdf"
    path.write_bytes(THREE)
    program = (
        "import os, sys, warnings; warnings.simplefilter('ignore')\n"
        "from mediatensor.ocr.io import read_pdf; pages = read_pdf(sys.argv[1]); pages[0]\n"
        "child = os.fork() if hasattr(os, 'fork') else None\n"
        "child and os.waitpid(child, 0)\n"
    )
    run = run_program(program, path)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


# Which pages


@pytest.mark.parametrize("kind", ["path", "str", "bytes", "bytearray", "bytesio", "file"])
def test_every_source_gives_the_same_pages(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "no extension: it is not looked at"
    path.write_bytes(THREE)
    with path.open("rb") as file:
        source = {
            "path": path, "str": str(path), "bytes": THREE, "bytearray": bytearray(THREE),
            "bytesio": io.BytesIO(THREE), "file": file,
        }[kind]  # fmt: skip
        pages = DocumentFile.from_pdf(source)
        assert isinstance(pages, Pages)
        assert levels(pages) == LEVELS


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (range(1, 3), [1, 2]), ([2, 0, 0], [2, 0, 0]), (slice(None, None, -1), [2, 1, 0]), (-1, [2]), ((1,), [1]),
        (range(2, -1, -1), [2, 1, 0]), (np.array([2, 0]), [2, 0]), (np.int64(-1), [2]),
    ],
)  # fmt: skip
def test_pages_can_be_selected(selection: Any, expected: list[int]) -> None:
    assert levels(read_pdf(THREE, pages=selection)) == [LEVELS[number] for number in expected]


def test_pages_behave_as_a_sequence() -> None:
    pages = read_pdf(THREE)
    assert len(pages) == 3
    assert levels(pages[1:]) == LEVELS[1:]
    assert levels(pages[::-2][::-1]) == [LEVELS[0], LEVELS[2]]
    assert levels(reversed(pages)) == LEVELS[::-1]
    assert int(pages[np.int64(-2)][0, 0, 0]) == LEVELS[1]
    both = pages[1:] + pages[:2]
    assert isinstance(both, Pages)
    assert levels(both) == [*LEVELS[1:], *LEVELS[:2]]
    assert both.origin(2)[1] == 0
    frame = np.full((10, 10, 3), 7, np.uint8)
    assert levels(pages + [frame]) == [*LEVELS, 7]  # noqa: RUF005
    assert levels([frame] + pages) == [7, *LEVELS]  # noqa: RUF005
    assert "3 pages" in repr(pages)


def test_missing_page_is_refused() -> None:
    pages = read_pdf(THREE)
    for wrong in (3, -4):
        with pytest.raises(OutOfRangeError, match="3 pages, from 0 to 2"):
            pages[wrong]
        with pytest.raises(IndexError):
            read_pdf(THREE, pages=[0, wrong])
        for stored in (pages.text_layer, pages.page_content, (pages[:2] + pages[2:]).page_content):
            with pytest.raises(OutOfRangeError):
                stored(wrong)
    for wrong_type in (1.0, None, "0", [0], np.array([0, 1])):
        with pytest.raises(TypeError, match="int and slice"):
            pages[wrong_type]  # type: ignore[index]
        with pytest.raises(InvalidArgumentError, match="should be an int"):
            pages.text_layer(wrong_type)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [[], range(0), slice(5, 9), "0", 1.5, [0.5], [True], slice("a", None), [[0, 1]]])
def test_invalid_selections_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        read_pdf(THREE, pages=wrong)


# Kept contents


def test_a_long_document_is_rendered_page_by_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "long.pdf"
    path.write_bytes(pdf_files.document([gray_page(number % 2) for number in range(2000)]))
    rendered = []
    original = PdfDocument.read

    def counting(self: Any, number: int) -> NDArray[np.uint8]:
        rendered.append(number)
        return original(self, number)

    monkeypatch.setattr(PdfDocument, "read", counting)
    pages = read_pdf(path, dpi=9)
    assert len(pages) == 2000
    assert len(pickle.dumps(pages)) < 5000
    assert not rendered
    assert levels(pages[1997:]) == [255, 0, 255]
    assert rendered == [1997, 1998, 1999]


def open_files(path: Path) -> int:
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        pytest.skip("needs /proc")
    found = 0
    for link in folder.iterdir():
        try:
            found += os.path.samefile(link, path)
        except OSError:
            continue  # the one that lists them
    return found


def test_files_are_closed(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.pdf" for number in range(7)]
    for path in paths:
        path.write_bytes(THREE)
    documents = [read_pdf(path) for path in paths]
    for _ in range(2):
        assert [levels(pages) for pages in documents] == [LEVELS] * 7
    assert sum(map(open_files, paths)) <= 4
    assert open_files(paths[-1]) == 1
    part = documents[-1][:1]
    del documents
    gc.collect()
    assert sum(map(open_files, paths)) == 1
    assert levels(part) == LEVELS[:1]
    del part
    gc.collect()
    assert sum(map(open_files, paths)) == 0


def test_files_that_cannot_be_opened_are_closed(tmp_path: Path) -> None:
    path = tmp_path / "locked.pdf"
    path.write_bytes(pdf_files.encrypted(b"", b"secret"))
    with pytest.raises(OpenError):
        read_pdf(path)
    assert open_files(path) == 0


def test_pages_can_be_pickled(tmp_path: Path) -> None:
    path = tmp_path / "three.pdf"
    path.write_bytes(THREE)
    for source in (path, THREE):
        pages = read_pdf(source, scale=1)
        pages[0]
        copy = pickle.loads(pickle.dumps(pages))
        del pages
        gc.collect()
        assert levels(copy) == LEVELS


def _levels_in_child(pages: Pages, path: Path, queue: Any) -> None:
    found = levels(pages.tensor(number).permute(1, 2, 0) for number in range(len(pages)))
    # The one of the parent, whose position is shared, and a separate one.
    queue.put((found, open_files(path)))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_processes_and_their_parent_read_the_same_file(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    path = tmp_path / "many.pdf"
    contents = [gray_page(number / 255) + b"\n%" + random.bytes(5000).hex().encode() for number in range(200)]
    path.write_bytes(pdf_files.document(contents, box="0 0 9 9"))
    pages = read_pdf(path)
    pages[0]
    assert open_files(path) == 1  # it is open when the processes fork
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            for number in range(200):
                pages[number]

    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    busy = threading.Thread(target=keep_busy)
    busy.start()
    try:
        children = [context.Process(target=_levels_in_child, args=(pages, path, queue)) for _ in range(3)]
        for child in children:
            child.start()
        found = [queue.get(timeout=60) for _ in children]
        for child in children:
            child.join(timeout=60)
    finally:
        stop.set()
        busy.join()
    assert found == [(list(range(200)), 2)] * 3
    assert [child.exitcode for child in children] == [0, 0, 0]


def test_threads_share_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    contents = [pdf_files.text_page((72, 400, f"page {number} " * 3)) for number in range(12)]
    busy: list[int] = []
    most_busy = []
    original = pypdfium2.PdfPage.render

    def watched(self: Any, **options: Any) -> Any:
        busy.append(1)
        time.sleep(0.001)  # whoever else is allowed to, renders now
        most_busy.append(len(busy))
        try:
            return original(self, **options)
        finally:
            busy.pop()

    monkeypatch.setattr(pypdfium2.PdfPage, "render", watched)
    pages = read_pdf(pdf_files.document(contents), scale=1) + read_pdf(pdf_files.document(contents[::-1]), scale=1)
    expected = [page.copy() for page in pages]
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(24), 4)).tolist()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: (pages[number], len(pages.text_layer(number))), order))
    for number, (page, num_words) in zip(order, found, strict=True):
        assert np.array_equal(page, expected[number])
        assert num_words == 6
    assert max(most_busy) == 1  # PDFium is not thread-safe
