"""``mediatensor speech``: its output, and the rows that datasets read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from mediatensor.cli import main
from mediatensor.datasets import AudioClips
from mediatensor.encoders import AudioEncoder
from mediatensor.errors import InvalidArgumentError
from spoken_formulas import RATE, vowels

SPANS = [(1.0, 2.5), (4.0, 5.0)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files with speech, one of silence, and one that cannot be read."""
    folder = tmp_path_factory.mktemp("speech")
    for name, spans in (("talk, one.flac", SPANS), ("two.flac", [(2.0, 3.0)]), ("silent.flac", [])):
        AudioEncoder(torch.from_numpy(vowels(spans, 6.0))[None], sample_rate=RATE).to_file(folder / name)
    (folder / "empty.flac").write_bytes(b"")
    return folder


def test_segments_are_printed_as_lines_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    talk = str(folder / "talk, one.flac")
    assert main(["speech", talk, str(folder / "silent.flac")]) == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{talk}: 0:00.9")
    assert "probability 0." in second
    assert third.endswith("silent.flac: no speech")
    assert main(["speech", talk, "--json", "--min-pause-seconds", "3", "--pad-seconds", "0"]) == 0
    segment = json.loads(capsys.readouterr().out)
    assert segment.keys() == {"file", "start_seconds", "end_seconds", "probability"}
    assert (segment["start_seconds"], segment["end_seconds"]) == pytest.approx((1.0, 5.0), abs=0.2)


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl"])
def test_rows_are_read_by_datasets(name: str, folder: Path, tmp_path: Path) -> None:
    files = [str(folder / file) for file in ("talk, one.flac", "empty.flac", "silent.flac", "two.flac")]
    assert main(["speech", *files, "-o", str(tmp_path / name)]) == 2  # one file is empty
    clips = AudioClips(str(tmp_path / name), seconds_per_clip=0.5)
    starts = [clips[row].audio.pts_seconds for row in range(len(clips))]
    assert len(starts) == 3
    for start, (first, last) in zip(starts, [*SPANS, (2.0, 3.0)], strict=True):
        assert first - 0.2 <= start <= last + 0.2 - 0.5
    assert 0.5 < float(clips.items[0].extra["probability"]) <= 1


def test_rows_are_found_through_symbolic_links(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / "deep" / "er" / "x"
    deep.mkdir(parents=True)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    Path("link").symlink_to(deep, target_is_directory=True)
    Path("rows.csv").symlink_to(deep / "other.csv")
    Path("a.flac").write_bytes((folder / "two.flac").read_bytes())
    (deep / "b.flac").write_bytes((folder / "two.flac").read_bytes())
    for file, output, others in (
        ("a.flac", "link/rows.csv", [str(deep / "rows.csv")]),  # through the link, and without it
        ("link/b.flac", "link/b.csv", [str(deep / "b.csv")]),
        ("link/b.flac", "all.csv", []),
        ("a.flac", "rows.csv", [str(deep / "other.csv")]),
    ):
        assert main(["speech", file, "-o", output, "--overwrite"]) == 0
        for manifest in (output, *others):
            assert AudioClips(manifest, seconds_per_clip=0.5)[0].audio.pts_seconds > 1.5
    assert "\nb.flac," in Path("link/b.csv").read_text()
    assert "\nlink/b.flac," in Path("all.csv").read_text()


@pytest.mark.parametrize(
    ("name", "content"), [("rows.csv", "path,start_seconds,end_seconds,probability\n"), ("rows.jsonl", "")]
)
def test_output_without_speech_replaces_old_rows(name: str, content: str, folder: Path, tmp_path: Path) -> None:
    output = tmp_path / name
    assert main(["speech", str(folder / "two.flac"), "-o", str(output)]) == 0
    assert len(output.read_text()) > len(content)
    assert main(["speech", str(folder / "empty.flac"), "-o", str(output), "--overwrite"]) == 2
    assert len(output.read_text()) > len(content), "no file was read"
    assert main(["speech", str(folder / "silent.flac"), "-o", str(output), "--overwrite"]) == 0
    assert output.read_text() == content
    with pytest.raises(InvalidArgumentError, match="has no rows"):
        AudioClips(str(output), seconds_per_clip=0.5)


def test_bad_files_and_options_are_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    silent = str(folder / "silent.flac")
    for arguments, code, message in (
        ([str(folder / "empty.flac")], 2, "empty.flac"),
        ([silent, "--threshold", "1"], 2, "a number above 0 and below 1 (got '1')"),
        ([silent, "--threshold", "1.5"], 2, "a number above 0 and below 1 (got '1.5')"),
        ([silent, "--pad-seconds", "-1"], 2, "--pad-seconds"),
    ):
        assert main(["speech", *arguments]) == code
        printed = capsys.readouterr()
        assert message in printed.out + printed.err
        assert "Traceback" not in printed.err
