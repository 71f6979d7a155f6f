"""``mediatensor scenes``: its output, the rows that datasets read, and the sheet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from mediatensor.cli import main
from mediatensor.datasets import VideoClips
from scene_films import Shot, draw, write_film

SHOTS = [Shot(30, 1), Shot(45, 6, pan=2), Shot(25, 3)]


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    folder = tmp_path / "videos"
    folder.mkdir()
    write_film(folder / "film, one.mp4", draw(SHOTS), options={"preset": "ultrafast"})
    write_film(folder / "still.mp4", draw([Shot(30, 4)]), options={"preset": "ultrafast"})
    return folder


def test_lines_and_json(videos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    film = str(videos / "film, one.mp4")
    assert main(["scenes", film]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("frames ")[2].partition(",")[0] for line in lines] == ["0 to 29", "30 to 74", "75 to 99"]
    assert lines[1].startswith(f"{film}: 0:01.200 to 0:03.000, ")
    assert ["score" in line for line in lines] == [False, True, True]  # no cut leads to the first
    assert main(["scenes", film, "--json", "--min-seconds", "1.1"]) == 0
    scenes = json.loads("[" + capsys.readouterr().out.replace("}\n{", "},{") + "]")
    assert [(scene["scene"], scene["first_frame"], scene["end_seconds"]) for scene in scenes] == [
        (0, 0, 1.2),
        (1, 30, 4.0),  # the last cut would leave a scene of a second
    ]
    assert scenes[0]["score"] is None
    assert scenes[1]["score"] > 10


@pytest.mark.parametrize("name", ["scenes.csv", "scenes.jsonl"])
def test_rows_are_what_datasets_read(name: str, videos: Path, tmp_path: Path) -> None:
    files = sorted(map(str, videos.glob("*.mp4")))
    for manifest in (videos / name, tmp_path / name):  # next to the videos, and in their parent folder
        assert main(["scenes", *files, "-o", str(manifest)]) == 0
        dataset = VideoClips(str(manifest), lambda decoder: decoder.get_all_frames())
        assert [len(dataset[row].frames) for row in range(len(dataset))] == [30, 45, 25, 30]
        assert dataset.items[1].extra["first_frame"] in (30, "30")
        has_score = [bool(item.extra["score"]) for item in dataset.items]
        assert has_score == [False, True, True, False]  # the first of each file has none


def test_rows_are_written_to_standard_output_with_a_sheet(
    videos: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(videos)
    assert main(["scenes", "still.mp4", "-o", "-", "--sheet", str(tmp_path / "sheet.png")]) == 0
    rows = b"path,start_seconds,end_seconds,first_frame,last_frame,score\nstill.mp4,0.0,1.2,0,29,\n"
    assert capfdbinary.readouterr().out == rows
    assert (tmp_path / "sheet.png").exists()
    assert not Path("-").exists()
    assert main(["scenes", "still.mp4", "-o", "-", "--sheet", "-"]) == 2
    assert main(["scenes", "still.mp4", "-o", "-", "--json"]) == 2


def test_sheet_has_a_frame_of_each_scene(videos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sheet = tmp_path / "sheet.png"
    assert main(["scenes", str(videos / "film, one.mp4"), "--sheet", str(sheet)]) == 0
    assert "3 frames" in capsys.readouterr().out
    assert Image.open(sheet).width > 300


def test_what_cannot_be_read_or_written(videos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.mp4").write_bytes(b"")
    still = str(videos / "still.mp4")
    assert main(["scenes", str(tmp_path / "empty.mp4"), still, "-o", str(tmp_path / "rows.csv")]) == 2
    errors = capsys.readouterr().err
    assert "empty.mp4" in errors
    assert errors.splitlines()[-1].endswith("1 of 2 files could not be read")
    assert (tmp_path / "rows.csv").read_text().count("\n") == 2  # the other file is there
    for arguments, message in (
        ([still, "-o", str(tmp_path / "rows.txt")], "must end in .csv or .jsonl"),
        (["-", "-o", str(tmp_path / "rows.csv")], "standard input has none"),
        ([still, "-o", str(tmp_path / "no" / "rows.csv")], "there is no folder"),
        ([still, "--sheet", str(tmp_path / "sheet.gif")], "must end in one of .png"),
        ([still, "--sheet", "-"], "must end in one of .png"),
    ):
        assert main(["scenes", *arguments]) == 2
        assert message in capsys.readouterr().err
