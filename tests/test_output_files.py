"""What is read is never written, and what another source or program wrote is not replaced: commands and `fit`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from PIL import Image

from mediatensor._pyav import write_test_pattern
from mediatensor._sources import check_outputs
from mediatensor.cli import main
from mediatensor.datasets import check_dataset
from mediatensor.errors import InvalidArgumentError


def test_outputs_are_compared_as_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = tmp_path / "read.csv"
    read.write_text("x")
    os.link(read, tmp_path / "hard.csv")
    (tmp_path / "soft.csv").symlink_to(read)
    (tmp_path / "folder").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    for output in ("read.csv", "./read.csv", "hard.csv", "soft.csv", "folder/read.csv"):
        with pytest.raises(InvalidArgumentError, match="is a file that is read"):
            check_outputs([output], [read])
    check_outputs(["a.png", "b.png"], [read, "https://host/a.png", b"bytes", "-", None])
    for one, other in (("a.png", "A.PNG"), ("a.png", "folder/a.png"), ("read.csv", "hard.csv")):
        with pytest.raises(InvalidArgumentError, match="would be written into one file"):
            check_outputs([one, other])


def test_check_writes_over_nothing_that_it_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    video, manifest = tmp_path / "v.mp4", tmp_path / "m.csv"
    write_test_pattern(video, width=64, height=48, num_frames=5)
    manifest.write_text("path,label\nv.mp4,1\naway.mp4,2\n")
    before = video.read_bytes(), manifest.read_bytes()
    common = ["--workers", "0", "--no-decode"]
    for arguments in (
        [str(video), "--html", str(video)],
        [str(manifest), "--fix", str(manifest)],
        [str(manifest), "--html", str(video)],
        [str(manifest), "--html", str(tmp_path / "new.csv"), "--fix", str(tmp_path / "New.csv")],
    ):
        assert main(["check", *arguments, *common]) == 2
        assert "choose" in capsys.readouterr().err
    report = check_dataset([video], num_workers=0, decode=False)
    (tmp_path / "linked.csv").symlink_to(video)
    with pytest.raises(InvalidArgumentError, match="is a file that is read"):
        report.save_manifest(tmp_path / "linked.csv")
    assert before == (video.read_bytes(), manifest.read_bytes())


def test_evaluate_and_train_write_over_nothing_that_they_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture, labels = tmp_path / "a.png", tmp_path / "plates.jsonl"
    Image.new("RGB", (60, 32), "white").save(picture)
    labels.write_text(json.dumps({"path": "a.png", "text": "abc"}) + "\n")
    before = picture.read_bytes(), labels.read_bytes()
    for arguments in (
        ["evaluate", "recognition", str(labels), "--json", str(labels)],
        ["evaluate", "recognition", str(labels), "--picture", str(picture)],
        [
            "train", "recognition", "--train", str(labels), "--validation", str(labels), "-o",
            str(tmp_path / "plates.pt"),
        ],
        ["train", "recognition", "--train", str(labels), "--validation", str(labels), "-o", str(tmp_path / "a.pt")],
    ):  # fmt: skip
        assert main(arguments) == 2, arguments
        assert "is a file that is read" in capsys.readouterr().err
    assert before == (picture.read_bytes(), labels.read_bytes())


def test_fit_replaces_no_labels(tmp_path: Path) -> None:
    from mediatensor.ocr.training import LineDataset, fit

    Image.new("RGB", (60, 32), "white").save(tmp_path / "a.png")
    labels = tmp_path / "plates.jsonl"
    labels.write_text(json.dumps({"path": "a.png", "text": "abc"}) + "\n")
    lines = LineDataset(labels)
    for out, message in (("plates.pt", "is not the log of a training"), ("a.pt", "is a file that is read")):
        with pytest.raises(InvalidArgumentError, match=message):
            fit("ppocr_v6_small_reco", lines, validation=lines, out=tmp_path / out, resume=False)
    assert json.loads(labels.read_text())["text"] == "abc"
