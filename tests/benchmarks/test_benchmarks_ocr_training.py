# ruff: noqa: RUF001 - Greek
"""The benchmark of training: scored lines are not training lines, and a tiny run of each kind writes its report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.text.ocr_training import main, parted_faces, parted_texts

from mediatensor.ocr.drawing import find_faces
from ocr_onnx_sessions import require_weights


def fonts() -> Path:
    matplotlib = pytest.importorskip("matplotlib", reason="brings fonts")
    return Path(matplotlib.get_data_path(), "fonts", "ttf")


def test_what_is_scored_is_not_learnt() -> None:
    learnt, scored = parted_texts([f"text {number % 20}" for number in range(40)], 5)
    assert len(scored) == 5
    assert sorted(learnt + scored) == sorted(f"text {number}" for number in range(20))
    learnt, scored = parted_faces(find_faces([fonts()]), "жщЯψ", "DejaVuSerif")
    assert {Path(file).stem.split("-")[0] for file in scored} == {"DejaVuSerif"}
    assert learnt
    assert not set(learnt) & set(scored)
    assert not any("DejaVuSerif" in file for file in learnt)


@pytest.mark.slow
def test_plates(tmp_path: Path) -> None:
    assert (
        main(
            ["plates", "-o", str(tmp_path), *["--lines", "8", "--epochs", "1", "--scored", "4", "--font"], str(fonts())]
        )
        == 0
    )
    (row,) = json.loads((tmp_path / "ocr_training_plates.json").read_text("utf-8"))["rows"]
    assert (row["lines"], row["scored"]) == ("digits and capitals", 20)
    assert "| digits and capitals | trained |" in (tmp_path / "ocr_training_plates.md").read_text("utf-8")


@pytest.mark.slow
def test_script(tmp_path: Path) -> None:
    require_weights()
    options = ["--lines", "4", "--epochs", "1", "--scored", "4", "--languages", "el", "--held-out", "DejaVuSerif"]
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "el.txt").write_text("Καλημέρα\nΌλα καλά", encoding="utf-8")
    (texts / "el.scored.txt").write_text("Καλά", encoding="utf-8")
    assert main(["script", "-o", str(tmp_path), "--font", str(fonts()), "--texts", str(texts), *options]) == 0
    report = json.loads((tmp_path / "ocr_training_script.json").read_text("utf-8"))
    assert {(row["lines"], row["reader"]) for row in report["rows"]} == {
        (language, reader)
        for language in ("el", "en", "de", "zh-Hans", "ja")
        for reader in ("ppocr_v6_small_reco", "trained")
    }
    assert all(face.startswith("DejaVuSerif") for face in report["faces scored"])
