"""The reader of scripts is scored on lines that it did not learn, and a tiny training ships and scores weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.calibration import script_reader
from benchmarks.calibration.script_reader import SCRIPTS, main, parted_faces, texts_of_kind

from mediatensor.ocr.drawing import LANGUAGES, Face, find_faces, texts_of
from mediatensor.ocr.models import load_checkpoint
from ocr_onnx_sessions import require_weights


def faces() -> tuple[Face, ...]:
    matplotlib = pytest.importorskip("matplotlib", reason="brings fonts")
    return find_faces([Path(matplotlib.get_data_path(), "fonts", "ttf")])


def test_what_is_scored_is_not_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    learnt, scored = texts_of_kind("learn"), texts_of_kind("scored")
    assert set(learnt) == set(scored) == {language for languages in SCRIPTS.values() for language in languages}
    for language, texts in scored.items():
        known = {*learnt[language], *(texts_of(language) if language in LANGUAGES else ())}
        assert len(texts) >= 4
        assert not known.intersection(texts)
    monkeypatch.setattr(script_reader, "HELD_OUT", "DejaVuSerif")
    to_learn, to_score = parted_faces(faces(), "жщЯψ")
    assert {Path(file).stem.split("-")[0] for file in to_score} == {"DejaVuSerif"}
    assert to_learn
    assert not any("DejaVuSerif" in file for file in to_learn)


@pytest.mark.slow
def test_a_tiny_training_ships_and_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_weights()
    monkeypatch.setattr(script_reader, "HELD_OUT", "DejaVuSerif")
    out, shipped = ["-o", str(tmp_path)], tmp_path / "shipped.pt"
    assert main(["train", *out, "--lines", "16", "--epochs", "1"]) == 0
    assert main(["ship", *out, "--to", str(shipped)]) == 0
    assert {"ж", "Ω", "ế", "A", "7"} <= set(load_checkpoint(shipped).characters)
    assert main(["score", *out, "--model", str(shipped), "--scored", "1"]) == 0
    rows = json.loads((tmp_path / "ocr_script_reader.json").read_text("utf-8"))["rows"]
    assert {row["language"] for row in rows} == set(texts_of_kind("scored"))
