"""``mediatensor evaluate``: its output for lines and pages, and its errors for invalid data."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from mediatensor.cli import main
from mediatensor.ocr.models import detection_predictor
from ocr_onnx_sessions import require_weights
from ocr_reading import text_page

TEXTS = ("Invoice 2041 of the firm", "Total due: 1,250.00 EUR", "Thank you very much!")


@cache
def crops() -> list[NDArray[np.uint8]]:
    """Drawn lines that the default recogniser reads without an error."""
    require_weights()
    page = text_page(*TEXTS)
    corners = [(line.quad.min(axis=0).astype(int), line.quad.max(axis=0).astype(int)) for line in page.lines]
    return [page.image[top - 4 : bottom + 4, left - 4 : right + 4] for (left, top), (right, bottom) in corners]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, crop in enumerate(crops()):
        Image.fromarray(crop).save(tmp_path / f"{number}.png")
    return tmp_path


def write_manifest(folder: Path, *texts: str) -> Path:
    rows = [{"file": f"{number}.png", "text": text} for number, text in enumerate(texts)]
    (folder / "lines.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder / "lines.jsonl"


def run(*arguments: str | Path) -> int:
    return main(["evaluate", *map(str, arguments)])


def test_a_manifest_of_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = write_manifest(folder, "lnvoice 2041 of the firm", *TEXTS[1:])
    scores, picture = folder / "scores.json", folder / "worst.png"
    assert run("recognition", manifest, "--json", scores, "--picture", picture) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("ppocr_v6_small_reco_tuned: 3 lines, compared as NFC\n")
    rows = [line.split() for line in out.splitlines()]
    assert ["lines", "read", "exactly", "66.67", "%", "2", "of", "3"] in rows
    assert ["l", "1", "2", "I", "1"] in rows
    stored = json.loads(scores.read_text(encoding="utf-8"))
    assert (stored["num_edits"], stored["num_characters"]) == (1, sum(map(len, TEXTS)))
    with Image.open(picture) as drawn:
        assert drawn.height > 100

    assert run("recognition", manifest, "--json", "-", "--worst", "1") == 0
    assert json.loads(capsys.readouterr().out)["cer"] == stored["cer"] == 1 / sum(map(len, TEXTS))


@pytest.mark.slow
def test_other_forms_of_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*arguments: str | Path) -> str:
        assert run("recognition", *arguments) == 0
        return capsys.readouterr().out.splitlines()[2]

    for number, text in enumerate(TEXTS):
        (folder / f"{number}{'.gt' * (number % 2)}.txt").write_text(f"{text}\n")
    assert printed(folder).split()[-3:] == ["3", "of", "3"]

    # A manifest whose pictures are elsewhere, and docTR's layout.
    (folder / "sets").mkdir()
    manifest = write_manifest(folder, *TEXTS).rename(folder / "sets" / "lines.jsonl")
    assert printed(manifest, "--images", folder).split()[-3:] == ["3", "of", "3"]
    (folder / "doctr" / "images").mkdir(parents=True)
    for number in range(3):
        (folder / f"{number}.png").rename(folder / "doctr" / "images" / f"{number}.png")
    labels = {f"{number}.png": text for number, text in enumerate(TEXTS)}
    (folder / "doctr" / "labels.json").write_text(json.dumps(labels))
    assert printed(folder / "doctr" / "labels.json").split()[-3:] == ["3", "of", "3"]


def test_rows_that_cannot_be_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = write_manifest(folder, *TEXTS)
    (folder / "1.png").write_bytes(b"torn")
    assert run("recognition", manifest) == 2
    out = capsys.readouterr().out
    assert "2 of 2" in out
    assert ["rows", "that", "failed", "1"] in [line.split() for line in out.splitlines()]
    assert str(folder / "1.png") in out


def test_pages(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = text_page(*TEXTS)
    Image.fromarray(page.image).save(folder / "page.png")
    # The truth consists of the detector's own result, and a box that it does not find.
    (found,) = detection_predictor(pretrained=True)([page.image])
    boxes = [*found["words"][:, :4].tolist(), [0.0, 0.0, 0.05, 0.02]]
    (folder / "pages.jsonl").write_text(json.dumps({"file": "page.png", "boxes": boxes}) + "\n")
    scores = folder / "scores.json"
    assert run("detection", folder / "pages.jsonl", "--json", scores, "--picture", folder / "worst.jpg") == 0
    out = capsys.readouterr().out
    assert "recall: 3 of 4, at an overlap of at least 0.5" in out
    stored = json.loads(scores.read_text(encoding="utf-8"))
    assert (stored["recall"], stored["precision"], stored["num_pages"]) == (0.75, 1.0, 1)
    with Image.open(folder / "worst.jpg") as drawn:
        assert drawn.width > 500


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing", "lines.jsonl"), "invalid choice: 'nothing'"),
        (("recognition", "none.jsonl"), "none.jsonl"),
        (("recognition", "lines.jsonl", "--picture", "worst.gif"), ".png, .jpg"),
        (("recognition", "lines.jsonl", "--model", "no_such"), "unknown architecture 'no_such'"),
        (
            ("recognition", "lines.jsonl", "--model", "ppocr_v6_small_det"),
            "a model for detection, and task is 'recognition'",
        ),
        (("detection", "lines.jsonl"), "There are no boxes"),
        (("detection", "lines.jsonl", "--images", "."), "--images is for recognition"),
        (("detection", "lines.jsonl", "--iou", "2"), "at most 1"),
        (("recognition", "lines.jsonl", "--device", "abacus"), "abacus"),
    ],
)
def test_what_is_refused(
    folder: Path,
    arguments: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_manifest(folder, *TEXTS)
    monkeypatch.chdir(folder)
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""
