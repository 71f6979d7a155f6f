"""Commands and `fit` overwrite neither their inputs nor files of another source or program."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tarfile
import wave
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import mediatensor.ocr
from lerobot_files import write_lerobot
from mediatensor._engine.pyav.encoding import write_test_pattern
from mediatensor._engine.sources.output_files import check_outputs
from mediatensor.cli import build_parser, main
from mediatensor.datasets import check_dataset
from mediatensor.errors import InvalidArgumentError, WriteError
from mediatensor.ocr import models
from mediatensor.ocr.io import Block, Document, Line, Page, Word
from mediatensor.ocr.models._networks.weights import Checkpoint, save_checkpoint
from mediatensor.ocr.models.predictor import CutLine
from mediatensor.ocr.models.video_predictor import predictor as video_predictor
from mediatensor.ocr.video import TextTrack, VideoReading


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


def test_inputs_by_url_or_standard_input_are_protected(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "a b.png"
    shutil.copy(clip, own)
    monkeypatch.chdir(tmp_path)
    for source in ("file:a b.png", f"file:{own}", f"file://{own}", f"FILE:{own.as_posix().replace(' ', '%20')}"):
        assert main(["sheet", source, "-o", str(own), "--overwrite"]) == 2
        assert "is a file that is read" in capsys.readouterr().err
    standard_input = os.dup(0)
    try:
        with open(own, "rb") as file:
            os.dup2(file.fileno(), 0)
        assert main(["sheet", "-", "-o", str(own), "--overwrite"]) == 2
        assert "is a file that is read" in capsys.readouterr().err
    finally:
        os.dup2(standard_input, 0)
        os.close(standard_input)
    assert own.read_bytes() == clip.read_bytes()


_CLOSED = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")


@pytest.mark.parametrize("folder", ["missing", "file", pytest.param("closed", marks=_CLOSED)])
def test_unwritable_outputs_are_found_before_work(
    folder: str, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "closed").mkdir(mode=0o500)
    monkeypatch.setattr("mediatensor.cli._check.check_dataset", lambda *_, **__: pytest.fail("the work began"))
    output = tmp_path / folder / "good.csv"
    assert main(["check", str(clip), "--workers", "0", "--fix", str(output)]) == 2
    assert "cannot be written" in capsys.readouterr().err
    if folder == "missing":  # which other commands make
        check_outputs([output], makes_folders=True)
    else:
        with pytest.raises(WriteError, match="cannot be written"):
            check_outputs([output], makes_folders=True)
    with pytest.raises(WriteError, match="not the name of a file"):
        check_outputs([tmp_path / "a\0b.csv"])


def test_existing_files_match_in_any_case(tmp_path: Path) -> None:
    (tmp_path / "Scan.txt").write_text("x")
    for name in ("Scan.txt", "scan.TXT"):
        with pytest.raises(InvalidArgumentError, match=r"Scan\.txt' exists already; --overwrite replaces it"):
            check_outputs([tmp_path / name], overwrite=False)
        check_outputs([tmp_path / name], overwrite=True)
        check_outputs([tmp_path / name], overwrite=False, is_own=lambda output, existing: existing.endswith("Scan.txt"))
    (tmp_path / "away.txt").symlink_to(tmp_path / "nothing")
    with pytest.raises(InvalidArgumentError, match="exists already"):
        check_outputs([tmp_path / "away.txt"], overwrite=False)
    with pytest.raises(InvalidArgumentError, match="is a folder"):
        check_outputs([tmp_path])
    check_outputs([os.devnull, tmp_path / "new.txt"], overwrite=False)


# Every command and option that writes a file


class _FakeReader:
    """Reads one word on every page, cuts out one line, and finds one caption in every video."""

    def to(self, device: object) -> _FakeReader:
        return self

    def __call__(self, images: Any) -> Any:
        if hasattr(images, "frame_index"):
            box = ((0.3, 0.85), (0.7, 0.95))
            tracks = (TextTrack("Error 503", "caption", 0.5, 1.5, 5, 9, box, 0.9),)
            return VideoReading("v.mp4", 48, 64, 10, 0.0, 1.0, tracks, (), ())
        upright = {"value": 0, "confidence": None}
        words = [Word("read", 0.9, ((0.1, 0.2), (0.2, 0.3)), 0.8, upright)]
        return Document([Page(images[0], [Block([Line(words)])], 0, images[0].shape[:2])])

    def cut_lines(self, image: Any) -> list[CutLine]:
        return [CutLine(np.zeros((12, 40, 3), np.uint8), "read", 0.5, ((0.1, y), (0.4, 0.3)), None) for y in (0.1, 0.2)]

    def stream(self, video: Any) -> Any:
        return _FakeStream(self(video))


class _FakeStream:
    problems = ()

    def __init__(self, reading: VideoReading) -> None:
        self._tracks = iter(reading.tracks)

    def __iter__(self) -> Any:
        return self._tracks

    def close(self) -> None:
        pass


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a video, a sound file, subtitles, a page, a model and a manifest of lines."""
    reader = _FakeReader()
    monkeypatch.setattr(models, "ocr_predictor", lambda **_: reader)
    monkeypatch.setattr(mediatensor.ocr, "video_text_predictor", lambda **_: reader)
    monkeypatch.setattr(video_predictor, "read_resumably", lambda _, video, *__: reader(video))
    folder = tmp_path / "in"
    folder.mkdir()
    write_test_pattern(folder / "v.mp4", width=64, height=48, fps=10, num_frames=10)
    with wave.open(str(folder / "s.wav"), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", "not compressed"))
        file.writeframes(bytes(1600))
    (folder / "t.srt").write_text("1\n00:00:00,000 --> 00:00:01,000\nHello\n")
    Image.new("RGB", (120, 80), "white").save(folder / "p.tif")
    Image.new("RGB", (60, 32), "white").save(folder / "line.png")
    (folder / "lines.jsonl").write_text(json.dumps({"path": "line.png", "text": "012"}) + "\n")
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    return folder


@dataclass(frozen=True)
class _Writing:
    """A command and its option that writes a file."""

    command: str
    option: str
    output: str  # in the folder ``out``
    source: str  # in the folder ``in``
    arguments: str  # all except ``--overwrite``

    def run(self, *more: str) -> int:
        return main([self.command, *self.arguments.split(), *more])


_TRAIN = (
    "recognition --start crnn_mobilenet_v3_small --random-weights --vocab 012 --epochs 1 --batch-size 1 --device cpu "
    "--train in/lines.jsonl --validation in/lines.jsonl -o out/m.pt"
)
_EVALUATE = "recognition in/lines.jsonl --model in/m.pt"
_CHECK = "in/v.mp4 --no-decode --workers 0"
WRITINGS = (
    _Writing("sheet", "--output", "sheet.png", "v.mp4", "in/v.mp4 --frames 2 -o out/sheet.png"),
    _Writing("sheet", "--output", "v.png", "v.mp4", "in/v.mp4 in/w.mp4 --frames 2 -o out"),
    _Writing("scenes", "--output", "rows.csv", "v.mp4", "in/v.mp4 -o out/rows.csv"),
    _Writing("scenes", "--sheet", "sheet.png", "v.mp4", "in/v.mp4 --sheet out/sheet.png"),
    _Writing("speech", "--output", "rows.csv", "s.wav", "in/s.wav -o out/rows.csv"),
    _Writing("find", "--sheet", "sheet.png", "v.mp4", "error in/v.mp4 --sheet out/sheet.png"),
    _Writing("extract", "--output", "v_000001_0.100s.png", "v.mp4", "in/v.mp4 --frames 0,1,2 -o out"),
    _Writing("extract", "--audio", "s.wav", "s.wav", "in/s.wav --audio -o out"),
    _Writing("extract", "--subtitles", "t.srt", "t.srt", "in/t.srt --subtitles -o out"),
    _Writing("ocr", "--output", "p.txt", "p.tif", "in/p.tif -o out"),
    _Writing("ocr", "--output", "v.srt", "v.mp4", "in/v.mp4 -o out"),
    _Writing("ocr", "--overlay", "p.page0001.png", "p.tif", "in/p.tif -o out --overlay"),
    _Writing("ocr", "--export-lines", "images/p-0001.png", "p.tif", "in/p.tif --export-lines out"),
    _Writing("ocr", "--export-lines", "correct.html", "p.tif", "in/p.tif --export-lines out"),
    _Writing("train", "--output", "m.pt", "line.png", _TRAIN),
    _Writing("train", "--output", "m.state.pt", "line.png", _TRAIN),
    _Writing("train", "--output", "m.jsonl", "lines.jsonl", _TRAIN),
    _Writing("train", "--output", "m.png", "line.png", _TRAIN),
    _Writing("evaluate", "--json", "scores.json", "lines.jsonl", f"{_EVALUATE} --json out/scores.json"),
    _Writing("evaluate", "--picture", "worst.png", "line.png", f"{_EVALUATE} --picture out/worst.png"),
    _Writing("check", "--html", "page.html", "v.mp4", f"{_CHECK} --html out/page.html"),
    _Writing("check", "--fix", "good.csv", "v.mp4", f"{_CHECK} --fix out/good.csv"),
    _Writing("check", "--state", "a.state", "v.mp4", f"{_CHECK} --state out/a.state"),
    _Writing("demo", "--output", "sheet.png", "v.mp4", "in/v.mp4 -o out"),
)
#: Options with an input, or with a file that no other program writes.
NOT_WRITTEN = {("evaluate", "--images"), ("serve", "--folder")}


def test_table_has_all_options_that_write() -> None:
    (commands,) = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    found = set()
    for name, parser in commands.choices.items():
        for action in parser._actions:
            if action.option_strings and action.metavar in ("PATH", "FILE", "FOLDER"):
                found.add((name, action.option_strings[-1]))
    table = {(one.command, one.option) for one in WRITINGS}
    assert found - NOT_WRITTEN <= table
    for name in {one.command for one in WRITINGS}:
        assert "--overwrite" in commands.choices[name].format_help()


def _state_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("demo_without_workers")
@pytest.mark.parametrize(
    "writing",
    # Of the files that training writes, two are enough: it takes longest.
    [
        pytest.param(one, marks=[pytest.mark.slow] if one.output in ("m.state.pt", "m.jsonl") else [])
        for one in WRITINGS
    ],
    ids=lambda one: f"{one.command} {one.option} {one.output}",
)
def test_commands_replace_no_input_and_no_unrelated_file(
    writing: _Writing, inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], training_seed: int
) -> None:
    shutil.copy(inputs / "v.mp4", inputs / "w.mp4")
    if writing.command == "evaluate":
        network = models.crnn_mobilenet_v3_small(pretrained=False, vocab="012")
        save_checkpoint(inputs / "m.pt", Checkpoint("crnn_mobilenet_v3_small", network.state_dict(), "012"))
    output = tmp_path / "out" / writing.output
    output.parent.mkdir(exist_ok=True)

    os.link(inputs / writing.source, output)
    before = _state_of(tmp_path)
    for more in ((), ("--overwrite",)):
        assert writing.run(*more) == 2
        assert "is a file that is read" in capsys.readouterr().err
        assert _state_of(tmp_path) == before

    output.unlink()
    output.write_text("precious\n")
    before = _state_of(tmp_path)
    assert writing.run() == 2
    assert "--overwrite" in capsys.readouterr().err
    assert _state_of(tmp_path) == before
    assert writing.run("--overwrite") == 0
    assert not output.exists() or output.read_bytes() != b"precious\n"
    assert _state_of(inputs) == {path: data for path, data in before.items() if path.startswith(str(inputs))}


def test_reports_of_check_overwrite_no_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    video = tmp_path / "v.mp4"
    write_test_pattern(video, width=64, height=48, num_frames=5)
    before = video.read_bytes()
    one, other = str(tmp_path / "new.csv"), str(tmp_path / "New.csv")
    assert main(["check", str(video), "--html", one, "--fix", other, "--workers", "0", "--no-decode"]) == 2
    assert "choose" in capsys.readouterr().err
    report = check_dataset([video], num_workers=0, decode=False)
    (tmp_path / "linked.csv").symlink_to(video)
    with pytest.raises(InvalidArgumentError, match="is a file that is read"):
        report.save_manifest(tmp_path / "linked.csv", overwrite=True)
    (tmp_path / "notes.csv").write_text("mine")
    with pytest.raises(InvalidArgumentError, match=r"notes\.csv' exists already; overwrite=True replaces it"):
        report.save_manifest(tmp_path / "notes.csv")
    assert (tmp_path / "notes.csv").read_text() == "mine"
    assert report.save_manifest(tmp_path / "notes.csv", overwrite=True) == 1
    assert video.read_bytes() == before


def _line_of(folder: Path) -> tuple[Path, Path]:
    """Write the picture of a line, and its label."""
    picture, labels = folder / "a.png", folder / "plates.jsonl"
    Image.new("RGB", (60, 32), "white").save(picture)
    labels.write_text(json.dumps({"path": "a.png", "text": "abc"}) + "\n")
    return picture, labels


def _tar_of(archive: Path, files: dict[str, Path]) -> Path:
    with tarfile.open(archive, "w") as opened:
        for name, file in files.items():
            opened.add(file, name)
    return archive


def _parquet_of(table: Path, column: dict[str, Any]) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    pyarrow.parquet.write_table(pyarrow.table(column), table)
    return table


@pytest.mark.parametrize("kind", ["folder", "manifest", "tar", "parquet", "parquet paths", "lerobot"])
def test_check_compares_outputs_with_all_dataset_files_before_decoding(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "videos").mkdir()
    video = read = tmp_path / "videos" / "v.mp4"
    write_test_pattern(video, width=64, height=48, num_frames=5)
    if kind == "folder":
        source = video.parent
    elif kind == "manifest":
        source = tmp_path / "m.csv"
        source.write_text("path\nvideos/v.mp4\n")
    elif kind == "tar":
        source = read = _tar_of(tmp_path / "a.tar", {"v.mp4": video})
    elif kind == "parquet":
        source = read = _parquet_of(tmp_path / "a.parquet", {"video": [video.read_bytes()]})
    elif kind == "parquet paths":
        source = _parquet_of(tmp_path / "a.parquet", {"video": [{"bytes": None, "path": "videos/v.mp4"}]})
    else:
        pytest.importorskip("pyarrow")
        source = write_lerobot(tmp_path / "robot", has_still=False)
        read = next(source.rglob("*.mp4"))
    for option, name in (("--html", "page.html"), ("--fix", "good.csv"), ("--state", "a.state")):
        os.link(read, tmp_path / name)
        work = [] if option == "--state" else ["--state", str(tmp_path / "work.state")]
        assert main(["check", str(source), option, str(tmp_path / name), "--overwrite", *work]) == 2
        printed = capsys.readouterr()
        assert "is a file that is read" in printed.err
        assert not printed.out
        assert not (tmp_path / "work.state").exists()  # the check had not begun
        assert os.path.samefile(read, tmp_path / name)


@pytest.mark.parametrize("kind", ["jsonl", "tar", "parquet", "items", "labels.json", "folder"])
def test_fit_overwrites_no_file_of_any_dataset(kind: str, tmp_path: Path) -> None:
    from mediatensor.datasets import Item, TarItems, WordCrops
    from mediatensor.ocr.training import LineDataset, fit

    (tmp_path / "images").mkdir()
    picture, label = tmp_path / "images" / "a.png", tmp_path / "a.txt"
    Image.new("RGB", (60, 32), "white").save(picture)
    label.write_text("abc")
    if kind == "jsonl":
        _, read = _line_of(tmp_path)
        lines = LineDataset(read)
    elif kind == "tar":
        read = _tar_of(tmp_path / "a.tar", {"a.png": picture, "a.cls": label})
        lines = WordCrops(TarItems(read, kind="image"))
    elif kind == "parquet":
        read = _parquet_of(tmp_path / "a.parquet", {"image": [picture.read_bytes()], "text": ["abc"]})
        lines = LineDataset(read)
    elif kind == "items":
        read, lines = picture, WordCrops([Item(picture, label="abc")])
    elif kind == "labels.json":
        read = tmp_path / "labels.json"
        read.write_text(json.dumps({"a.png": "abc"}))
        lines = WordCrops.from_labels(tmp_path / "images")
    else:
        read = picture.with_suffix(".gt.txt")
        label.rename(read)
        lines = LineDataset(tmp_path / "images")
    before = read.read_bytes()
    for name in ("out.pt", "out.png", "out.jsonl", "out.state.pt"):
        os.link(read, tmp_path / name)
        with pytest.raises(InvalidArgumentError, match="is a file that is read"):
            fit("ppocr_v6_small_reco", lines, validation=lines, out=tmp_path / "out.pt", overwrite=True)
        (tmp_path / name).unlink()
    assert read.read_bytes() == before


def test_new_training_overwrites_only_training_files(tmp_path: Path) -> None:
    from mediatensor.ocr.training import LineDataset, fit

    lines = LineDataset(_line_of(tmp_path)[1])
    for name in ("out.pt", "out.png", "out.jsonl"):
        (tmp_path / name).write_text("precious")
        with pytest.raises(InvalidArgumentError, match=rf"{name}' exists already; overwrite=True"):
            fit("ppocr_v6_small_reco", lines, validation=lines, out=tmp_path / "out.pt", resume=False)
        assert (tmp_path / name).read_text() == "precious"
        (tmp_path / name).unlink()


def test_ocr_checks_all_outputs_before_reading(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(inputs / "p.tif", inputs / "q.tif")
    out = inputs.parent / "out"
    (out / "q.txt").write_text("precious")
    command = ["ocr", str(inputs / "p.tif"), str(inputs / "q.tif"), "-o", str(out)]
    assert main(command) == 2
    assert "q.txt' exists already; --overwrite replaces it" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["q.txt"]
    (out / "q.txt").unlink()
    assert main(command) == main(command) == 0


def test_ocr_recognises_its_outputs_in_any_case(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = inputs.parent / "out"
    assert main(["ocr", str(inputs / "p.tif"), "-o", str(out), "--overlay"]) == 0
    (inputs / "other").mkdir()
    shutil.copy(inputs / "p.tif", inputs / "other" / "P.tif")
    before = _state_of(out)
    for more in ((), ("--overlay", "--format", "json")):
        assert main(["ocr", str(inputs / "other" / "P.tif"), "-o", str(out), *more]) == 2
        assert "--overwrite" in capsys.readouterr().err
    assert _state_of(out) == before


def test_images_of_interrupted_page_are_written_again(
    inputs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save = Image.Image.save

    def save_one(image: Image.Image, file: Any, kind: str) -> None:
        if (inputs.parent / "out" / "images" / "p-0001.png").exists():
            raise KeyboardInterrupt
        save(image, file, kind)

    command = ["ocr", str(inputs / "p.tif"), "--export-lines", str(inputs.parent / "out")]
    with monkeypatch.context() as patch:
        patch.setattr(Image.Image, "save", save_one)
        assert main(command) == 130
    assert [path.name for path in (inputs.parent / "out" / "images").iterdir()] == ["p-0001.png"]
    assert main(command) == 0
    # Unlisted images of a new document belong to another program.
    (inputs.parent / "out" / "images" / "Q-p0001-0007.PNG").write_text("precious")
    shutil.copy(inputs / "p.tif", inputs / "q.tif")
    assert main(["ocr", str(inputs / "q.tif"), *command[2:]]) == 2
    assert "Q-p0001-0007.PNG' exists already; --overwrite replaces it" in capsys.readouterr().err
