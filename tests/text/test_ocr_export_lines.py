"""Lines cut out of pages to train on: `cut_lines`, `export_lines` and ``mediatensor ocr --export-lines``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

import pdf_files
from mediatensor._engine.pyav.encoding import write_test_pattern
from mediatensor.cli import main
from mediatensor.errors import InvalidArgumentError, PageError
from mediatensor.ocr import models
from mediatensor.ocr.models import recognition_predictor
from mediatensor.ocr.models.predictor import CutLine, OCRPredictor
from mediatensor.ocr.training import LineDataset, RecognitionEvaluation, evaluate, export_lines
from ocr_export_pages import HtmlParts
from ocr_reading import LINES, reader, text_page, words_of

pytestmark = pytest.mark.usefixtures("features_remembered_in_module")


class FakePredictor:
    """Finds two lines on a page, which say how bright its corner is; keeps count of pages."""

    on_error = "report"

    def __init__(self) -> None:
        self.levels_read: list[int] = []
        self.failing: set[int] = set()
        self.error: BaseException = PageError("it is torn")

    def to(self, device: str) -> FakePredictor:
        torch.empty(0, device=device)
        return self

    def cut_lines(self, image: NDArray[np.uint8]) -> list[CutLine]:
        level = int(image[0, 0, 0])
        if level in self.failing:
            raise self.error
        self.levels_read.append(level)
        crop = np.full((12, 40, 3), level, np.uint8)
        return [
            CutLine(crop, f"level {level}", level / 100, ((0.1, 0.2), (0.4, 0.3)), None),
            CutLine(crop // 2, "?", 0.0, ((0.1, 0.5), (0.4, 0.6)), "low confidence"),
        ]


@pytest.fixture
def predictor(monkeypatch: pytest.MonkeyPatch) -> FakePredictor:
    made = FakePredictor()
    monkeypatch.setattr(models, "ocr_predictor", lambda **_: made)
    return made


def write_tiff(path: Path, levels: Sequence[int]) -> Path:
    """A document with a page of each brightness."""
    path.parent.mkdir(exist_ok=True)
    first, *rest = (Image.new("L", (120, 80), level) for level in levels)
    first.save(path, save_all=True, append_images=rest)
    return path


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., int]:
    return lambda *arguments: main(["ocr", *map(str, arguments), "--export-lines", str(tmp_path / "lines")])


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "lines.jsonl").read_text(encoding="utf-8").splitlines()]


def rewrite(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Change rows as with an editor."""
    changed = [row for row in map(change, rows_of(folder)) if row is not None]
    (folder / "lines.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in changed), encoding="utf-8")


def test_lines_of_a_document_are_exported(
    tmp_path: Path, predictor: FakePredictor, run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    source, folder = write_tiff(tmp_path / "scan.tif", [90, 20]), tmp_path / "lines"
    assert run(source) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"wrote {folder / 'lines.jsonl'}: 2 pages, 4 lines of {source}",
        f"correct the texts in a browser: {folder / 'correct.html'}",
    ]
    assert err == ""
    rows = rows_of(folder)
    # The least certain lines come first.
    assert [(row["file"], row["text"], row["confidence"]) for row in rows] == [
        ("images/scan-p0001-0002.png", "?", 0.0),
        ("images/scan-p0002-0002.png", "?", 0.0),
        ("images/scan-p0002-0001.png", "level 20", 0.2),
        ("images/scan-p0001-0001.png", "level 90", 0.9),
    ]
    assert rows[0] == {
        "file": "images/scan-p0001-0002.png", "text": "?", "confidence": 0.0, "source": str(source), "page": 1,
        "box": [[0.1, 0.5], [0.4, 0.6]], "unread": "low confidence",
    }  # fmt: skip
    assert "unread" not in rows[2]
    with Image.open(folder / rows[2]["file"]) as picture:
        assert np.array_equal(np.asarray(picture), np.full((12, 40, 3), 20))
    assert sorted(path.name for path in folder.iterdir()) == [
        ".mediatensor-lines.jsonl", "correct.html", "images", "lines.jsonl",
    ]  # fmt: skip
    assert len(list((folder / "images").iterdir())) == 4


def test_corrections_survive_further_documents(
    tmp_path: Path, predictor: FakePredictor, run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "lines"
    first = write_tiff(tmp_path / "scans" / "a.tif", [50])
    assert run(tmp_path / "scans") == 0
    # One text is corrected, and a false line is deleted.
    rewrite(folder, lambda row: None if row["text"] == "?" else {**row, "text": "Level L"})
    write_tiff(tmp_path / "scans" / "b.tif", [20])
    # Another document of the same name must not replace its pictures.
    other = write_tiff(tmp_path / "more" / "a.tif", [30])
    assert run(tmp_path / "scans", other) == 0

    assert [(row["file"], row["text"]) for row in rows_of(folder)] == [
        ("images/a-0001.png", "Level L"),
        ("images/b-0002.png", "?"),
        ("images/a.2-0002.png", "?"),
        ("images/b-0001.png", "level 20"),
        ("images/a.2-0001.png", "level 30"),
    ]
    assert predictor.levels_read == [50, 20, 30]
    assert f"kept the lines of {first}: they are complete" in capsys.readouterr().out

    # In a separate run as well.
    third = write_tiff(tmp_path / "third" / "a.tif", [40])
    assert run(third) == 0
    assert {row["file"] for row in rows_of(folder) if row["source"] == str(third)} == {
        "images/a.3-0001.png", "images/a.3-0002.png",
    }  # fmt: skip
    with Image.open(folder / "images" / "a-0001.png") as picture:
        assert picture.getpixel((0, 0)) == (50, 50, 50)


def test_correction_page_has_all_lines(tmp_path: Path, predictor: FakePredictor, run: Callable[..., int]) -> None:
    folder = tmp_path / "lines"
    assert run(write_tiff(tmp_path / "a.tif", [50])) == 0
    rewrite(folder, lambda row: {**row, "text": "</script><b> \u017f \u2028 &amp; 'a' \"b\" \\n"})
    assert run(write_tiff(tmp_path / "b.tif", [20])) == 0
    page = (folder / "correct.html").read_text(encoding="utf-8")
    scripts = [(attributes, text) for tag, attributes, text in HtmlParts(page).found if tag == "script"]
    assert [attributes.get("id") for attributes, _ in scripts] == ["rows", None]
    rows = [json.loads(line) for line in (folder / "lines.jsonl").read_text(encoding="utf-8").split("\n") if line]
    assert json.loads(scripts[0][1]) == rows
    assert len(rows) == 4
    # Nothing is loaded from elsewhere.
    assert "http" not in page


def test_interrupted_export_resumes(
    tmp_path: Path, predictor: FakePredictor, run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    source, folder = write_tiff(tmp_path / "scan.tif", [10, 20, 30]), tmp_path / "lines"
    predictor.failing = {20}
    assert run(source) == 2
    assert "Page 2: it is torn" in capsys.readouterr().err
    assert sorted({row["page"] for row in rows_of(folder)}) == [1, 3]
    rewrite(folder, lambda row: {**row, "text": f"{row['text']}!"})

    predictor.failing, predictor.error = {20}, KeyboardInterrupt()
    assert run(source) == 130
    assert "run the same command again to resume" in capsys.readouterr().err
    predictor.failing = set()
    assert run(source) == 0
    assert predictor.levels_read == [10, 30, 20]
    assert sorted(row["text"] for row in rows_of(folder)) == ["?", "?!", "?!", "level 10!", "level 20", "level 30!"]
    assert not (folder / ".scan.pages").exists()


def test_changed_document_is_cut_again_only_on_request(
    tmp_path: Path, predictor: FakePredictor, run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    source, folder = write_tiff(tmp_path / "scan.tif", [10, 20]), tmp_path / "lines"
    assert run(source) == 0
    before = (folder / "lines.jsonl").read_bytes()
    write_tiff(source, [30])
    assert run(source) == 2
    assert "--overwrite cuts them again" in capsys.readouterr().err
    assert (folder / "lines.jsonl").read_bytes() == before

    assert run(source, "--overwrite") == 0
    assert [row["text"] for row in rows_of(folder)] == ["?", "level 30"]
    assert sorted(path.name for path in (folder / "images").iterdir()) == ["scan-0001.png", "scan-0002.png"]


def test_damaged_file_is_not_replaced(
    tmp_path: Path, predictor: FakePredictor, run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    source, folder = write_tiff(tmp_path / "scan.tif", [10]), tmp_path / "lines"
    assert run(source) == 0
    spoiled = (folder / "lines.jsonl").read_text() + '{"text": "no file"}\n'
    (folder / "lines.jsonl").write_text(spoiled)
    assert run(write_tiff(tmp_path / "other.tif", [20])) == 2
    assert "line 3, is not a JSON object with a file" in capsys.readouterr().err
    assert (folder / "lines.jsonl").read_text() == spoiled


def test_a_line_that_stays_in_a_video_is_written_once(
    tmp_path: Path,
    predictor: FakePredictor,
    run: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    video = tmp_path / "talk.mp4"
    write_test_pattern(video, width=96, height=64, num_frames=50, fps=25)
    crop = np.zeros((12, 40, 3), np.uint8)
    texts = iter(["one", "one", "two", "two"])

    def cut(self: FakePredictor, image: NDArray[np.uint8]) -> list[CutLine]:
        place = ((0.1, 0.2), (0.4, 0.3))
        return [CutLine(crop, next(texts), 0.5, place, None), CutLine(crop, "logo", 0.9, place, None)]

    monkeypatch.setattr(FakePredictor, "cut_lines", cut)
    assert run(video, "--every", "0.5") == 0
    rows = rows_of(tmp_path / "lines")
    assert [(row["text"], row["page"], row["pts_seconds"]) for row in rows] == [
        ("one", 1, 0.0),
        ("two", 3, 1.0),
        ("logo", 1, 0.0),
    ]
    pictures = {f"images/{path.name}" for path in (tmp_path / "lines" / "images").iterdir()}
    assert pictures == {row["file"] for row in rows}
    assert run(video) == 2
    assert "with --every SECONDS" in capsys.readouterr().err


def test_options_of_documents_are_rejected(
    tmp_path: Path, run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "scan.png", "--format", "json", "-o", tmp_path / "out") == 2
    assert "leave out --format, -o" in capsys.readouterr().err
    assert not (tmp_path / "lines").exists()


def as_pillow_cuts(page: NDArray[np.uint8], geometry: Any, size: tuple[int, int]) -> NDArray[np.float64]:
    """The parallelogram of a line, cut out by Pillow."""
    height, width = page.shape[:2]
    points = np.array(geometry) * (width, height)
    if len(points) == 2:
        (left, top), (right, bottom) = points
        points = np.array([[left, top], [right, top], [right, bottom], [left, bottom]])
    origin, along, down = points[0], (points[1] - points[0]) / size[0], (points[3] - points[0]) / size[1]
    matrix = (along[0], down[0], origin[0], along[1], down[1], origin[1])
    cut = Image.fromarray(page).transform(size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR)
    return np.asarray(cut, dtype=np.float64)


@pytest.mark.parametrize("quarter_turns", [0, 1])
def test_lines_are_cut_as_the_recogniser_saw_them(quarter_turns: int) -> None:
    page = np.ascontiguousarray(np.rot90(text_page().image, quarter_turns))
    lines = reader(assume_straight_pages=False).cut_lines(page)
    assert [line.value for line in lines] == list(LINES)
    assert [line.unread for line in lines] == [None] * 3
    for line in lines:
        height, width = line.image.shape[:2]
        assert width > 3 * height  # upright, however the page lies
        expected = as_pillow_cuts(page, line.geometry, (width, height))
        assert np.abs(line.image - expected)[1:-1, 1:-1].mean() < 3
    # They read as they did on the page.
    read = recognition_predictor(pretrained=True)([line.image for line in lines])
    assert [text for text, _ in read] == list(LINES)


def test_lines_of_every_kind_of_page_are_cut(tmp_path: Path) -> None:
    page = text_page().image
    expected = [(line.value, line.geometry) for line in reader().cut_lines(page)]
    tensor = torch.from_numpy(page).permute(2, 0, 1)
    Image.fromarray(page).save(tmp_path / "page.png")
    for other in (tensor, tensor.float() / 255, Image.fromarray(page), tmp_path / "page.png"):
        lines = reader().cut_lines(other)
        assert [(line.value, line.geometry) for line in lines] == expected
        assert all(line.image.dtype == np.uint8 for line in lines)
    assert [text for text, _ in expected] == list(LINES)
    assert reader().cut_lines(np.full((80, 120, 3), 255, np.uint8)) == []


def test_lines_of_pages_with_a_text_layer_are_recognised() -> None:
    lines = pdf_files.text_page((60, 700, LINES[0]), (60, 640, LINES[2]))
    page = pdf_files.document([lines], box="0 600 612 792")
    assert [line.value for line in reader(text_layer=True).cut_lines(page)] == [LINES[0], LINES[2]]


def test_lines_of_straightened_pages_have_their_places_on_the_given_page() -> None:
    page = np.ascontiguousarray(np.rot90(text_page().image, 2))
    made = reader(assume_straight_pages=False)
    predictor = OCRPredictor(
        made.det_predictor,
        made.reco_predictor,
        made.line_classifier,
        assume_straight_pages=False,
        straighten_pages=True,
        ignore_regions=[(0, 0.58, 1, 1)],
        script_readers=dict.fromkeys(made.script_readers),
    )
    lines = predictor.cut_lines(page)
    # The first line is at the bottom of the page, which is ignored.
    assert [line.value for line in lines] == list(LINES[1:])
    for line in lines:
        expected = as_pillow_cuts(page, line.geometry, line.image.shape[1::-1])
        assert np.abs(line.image - expected)[1:-1, 1:-1].mean() < 3


def test_recognisers_of_words_give_words() -> None:
    page = text_page()
    predictor = models.ocr_predictor(reader().det_predictor.model, "crnn_mobilenet_v3_small")
    cut = {line.geometry: line.value for line in predictor.cut_lines(page.image)}
    words = words_of(predictor([page.image]))
    assert len(words) > len(LINES)
    assert cut == {word.geometry: word.value for word in words}


def test_export_lines_writes_from_python(tmp_path: Path) -> None:
    Image.fromarray(text_page().image).save(tmp_path / "page.png")
    file = export_lines(tmp_path / "page.png", tmp_path / "lines", reader())
    assert file == tmp_path / "lines" / "lines.jsonl"
    rows = rows_of(tmp_path / "lines")
    assert sorted(row["text"] for row in rows) == sorted(LINES)
    assert [row["confidence"] for row in rows] == sorted(row["confidence"] for row in rows)
    assert {row["file"] for row in rows} == {f"images/page-000{number}.png" for number in (1, 2, 3)}

    rewrite(tmp_path / "lines", lambda row: {**row, "text": row["text"].upper()})
    export_lines([text_page().image] * 2, tmp_path / "lines", reader(), name="more")
    texts = [row["text"] for row in rows_of(tmp_path / "lines")]
    assert sorted(texts[:3]) == sorted(line.upper() for line in LINES)
    assert sorted(texts[3:]) == sorted(LINES * 2)
    assert rows_of(tmp_path / "lines")[3]["file"].startswith("images/more-p000")


def test_lines_keep_their_images_when_the_document_has_changed(tmp_path: Path) -> None:
    predictor: Any = FakePredictor()
    for level in (40, 80):
        file = export_lines([np.full((8, 8, 3), level, np.uint8)], tmp_path, predictor)
    row = rows_of(tmp_path)[-1]
    assert (row["text"], np.asarray(Image.open(file.parent / row["file"])).max()) == ("level 40", 40)


@pytest.mark.parametrize("name", ["correct.html", "images/page-0002.png"])
def test_export_lines_replaces_no_file_of_others(tmp_path: Path, name: str) -> None:
    page, folder = [np.full((8, 8, 3), 5, np.uint8)], tmp_path / "lines"
    (folder / "images").mkdir(parents=True)
    (folder / name).write_bytes(b"mine")
    with pytest.raises(InvalidArgumentError, match="exists already; overwrite=True replaces it"):
        export_lines(page, folder, FakePredictor())  # type: ignore[arg-type]
    assert [path.name for path in folder.rglob("*") if path.is_file()] == [(folder / name).name]
    for overwrite in (True, False):  # the second time, all files are its own
        export_lines(page, folder, FakePredictor(), overwrite=overwrite)  # type: ignore[arg-type]
    assert (folder / name).read_bytes() != b"mine"


def test_exported_lines_are_a_dataset(tmp_path: Path) -> None:
    file = export_lines([text_page().image], tmp_path / "lines", reader())
    rewrite(tmp_path / "lines", lambda row: {**row, "text": row["text"].replace("Invoice", "lnvoice")})
    lines = LineDataset(file)
    assert sorted(str(lines[row].label) for row in range(3)) == sorted(  # type: ignore[union-attr]
        line.replace("Invoice", "lnvoice") for line in LINES
    )
    found = evaluate(reader().reco_predictor, lines)
    assert isinstance(found, RecognitionEvaluation)
    assert found.num_edits == 1


def test_export_lines_rejects_invalid_arguments(tmp_path: Path) -> None:
    assert export_lines([], tmp_path / "none", FakePredictor()).read_text() == ""  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="name must be the start of a file name"):
        export_lines([], tmp_path / "none", FakePredictor(), name="a/b")  # type: ignore[arg-type]
    failing = FakePredictor()
    failing.failing = {7}
    pages = [np.full((8, 8, 3), level, np.uint8) for level in (5, 7, 9)]
    with pytest.warns(UserWarning, match="page 1 is left out: it is torn"):
        export_lines(pages, tmp_path / "lines", failing)  # type: ignore[arg-type]
    assert sorted(row["page"] for row in rows_of(tmp_path / "lines")) == [1, 1, 3, 3]
    failing.on_error = "raise"
    with pytest.raises(PageError, match="it is torn"):
        export_lines(pages, tmp_path / "lines", failing)  # type: ignore[arg-type]
