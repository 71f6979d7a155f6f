"""The benchmark of readers: truth comes from folders, readers run and are compared, missing ones are left out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.text import ocr as ocr_benchmark
from benchmarks.text import ocr_running, ocr_stages, ocr_truth
from benchmarks.text.ocr_readers import READERS, cut_line
from benchmarks.text.ocr_running import Effort, run_readers
from benchmarks.text.ocr_scores import Word
from PIL import Image

pytest.importorskip("scipy", reason="pairs of boxes are chosen by scipy")

FUNSD = {
    "form": [
        {"text": "FAX: 12", "words": [{"text": "FAX:", "box": [1, 2, 30, 9]}, {"text": "12", "box": [33, 2, 40, 9]}]},
        {"text": "", "words": [{"text": "", "box": [1, 20, 9, 29]}]},
    ]
}
SROIE = {"width": 50, "height": 40, "lines": [{"text": "TAX INVOICE", "box": [1, 2, 40, 9]}], "fields": {}}


def write_set(folder: Path, annotations: dict[str, Any]) -> Path:
    for kind in ("images", "annotations"):
        (folder / kind).mkdir(parents=True)
    for name, annotation in annotations.items():
        Image.new("RGB", (50, 40), "white").save(folder / "images" / f"{name}.png")
        (folder / "annotations" / f"{name}.json").write_text(json.dumps(annotation))
    return folder


def test_folders_of_both_layouts(tmp_path: Path) -> None:
    write_set(tmp_path / "forms", {"b": FUNSD, "a": FUNSD})
    write_set(tmp_path / "receipts", {"c": SROIE})
    sets = ocr_truth.load_sets([tmp_path])
    assert [page.image.name for page in sets["forms"]] == ["a.png", "b.png"]
    form, receipt = sets["forms"][0], sets["receipts"][0]
    assert form.words == (Word("FAX:", (1, 2, 30, 9)), Word("12", (33, 2, 40, 9)))
    assert (form.has_word_boxes, receipt.has_word_boxes) == (True, False)
    assert receipt.lines == (Word("TAX INVOICE", (1, 2, 40, 9)),)
    assert [word.text for word in receipt.words] == ["TAX", "INVOICE"]
    assert len(ocr_truth.load_sets([tmp_path / "forms"], limit=1)["forms"]) == 1
    (tmp_path / "known.txt").write_text("forms/images/b.png\nforms/images/c.png\n")
    split = ocr_truth.load_sets([tmp_path], known=tmp_path / "known.txt")
    assert {name: [page.image.name for page in pages] for name, pages in split.items()} == {
        "forms, unseen": ["a.png"],
        "forms, known": ["b.png"],
        "receipts, unseen": ["c.png"],
    }


def test_folders_that_hold_no_truth(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="annotations"):
        ocr_truth.load_sets([tmp_path])
    write_set(tmp_path / "other", {"a": {"words": []}})
    with pytest.raises(ValueError, match=r"a\.json is not a FUNSD or SROIE annotation"):
        ocr_truth.load_sets([tmp_path])


def test_lines_are_cut_in_proportion() -> None:
    words = cut_line(Word("to  be  to", (0, 5, 100, 9)))
    assert words == [Word("to", (0, 5, 20, 9)), Word("be", (40, 5, 60, 9)), Word("to", (80, 5, 100, 9))]
    assert cut_line(Word(" ", (0, 0, 9, 9))) == []


def answers_of(pages: Sequence[Sequence[Word]], wall: float) -> list[dict[str, Any]]:
    read = [{"words": words, "wall": wall, "cpu": 2 * wall, "stages": {"det": wall / 2}} for words in pages]
    return [{"first": True}, *json.loads(json.dumps(read)), {"rss_mib": 10.0, "versions": {"x": "1"}}]


def test_rounds_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    word = Word("a", (0.0, 0.0, 1.0, 1.0))
    rounds = iter([answers_of([[word], []], 1.0), answers_of([[word], [word]], 3.0)])
    monkeypatch.setattr(ocr_running, "_answers", lambda *_: iter(next(rounds)))
    runs, notes = run_readers(["tesseract"], [Path("a"), Path("b")], Effort(2), lambda _: None)
    run = runs["tesseract"]
    assert run.words == [[word], []]
    assert run.wall_seconds == [[1.0, 1.0], [3.0, 3.0]]
    assert run.cpu_seconds[1] == [6.0, 6.0]
    assert run.stages == {"det": 0.5}
    assert not run.is_stable
    assert notes == []


def test_a_reader_that_fails_is_left_out_with_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no program is found there
    runs, notes = run_readers(["tesseract"], [tmp_path / "page.png"], Effort(1), lambda _: None)
    assert runs == {}
    assert len(notes) == 1
    assert "tesseract: left out" in notes[0]
    assert "FileNotFoundError" in notes[0]


@pytest.mark.slow
def test_a_quick_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("tesseract") is None:
        pytest.skip("needs the program tesseract")
    ocr_benchmark.main(["--quick", "--readers", "tesseract", "-o", str(tmp_path)])
    document = json.loads((tmp_path / "ocr.json").read_text())
    (accuracy,), (speed,) = document["accuracy"], document["speed"]
    raw = accuracy["words"]["end_to_end"]["raw"]
    assert raw["truth"] > 200
    assert raw["right"] / raw["truth"] > 0.9  # a clean page is read, and its boxes are where the truth has them
    assert speed["reader"] == "tesseract"
    assert 0 < speed["wall_median"] < speed["first_result_median"] + 60
    assert "words" not in document["runs"]["tesseract"]
    assert capsys.readouterr().out == (tmp_path / "ocr.md").read_text() + "\n"


def test_every_reader_has_a_name_for_the_command_line() -> None:
    assert next(iter(READERS)) == "mediatensor"
    for name in ("unknown", "rapidocr, side=3", "mediatensor, dtype"):
        with pytest.raises(SystemExit):
            ocr_benchmark.main(["--readers", name])


@pytest.mark.slow
def test_stages_of_a_page_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = {"pages": 1, "wall": 3.0, "cpu": 2.0, "stages": {"detection": [1.0, 0.5], "words": [0.5, 0.25]}}
    together = {"pages": 2, "wall": 4.0, "cpu": 3.0, "stages": {}}
    monkeypatch.setattr(ocr_stages, "_calls_of_ours", lambda num_threads, files: [alone, alone, together])
    ocr_stages.main(["a.png", "b.png", "--threads", "1", "--repeats", "3", "-o", str(tmp_path)])
    document = json.loads((tmp_path / "ocr_stages.json").read_text(encoding="utf-8"))
    rows = {row["stage"]: (row["wall"], row["cpu"]) for row in document["stages"]}
    assert rows["detection"] == (1.0, 0.5)
    assert rows["rest"] == (None, 1.25)
    assert rows["page by page"] == (3.0, 2.0)
    assert rows["all in one call"] == (2.0, 1.5)
    assert "| 1 | mediatensor | detection | 1.000 | 0.500 |" in (tmp_path / "ocr_stages.md").read_text(encoding="utf-8")
