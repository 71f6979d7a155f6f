"""Manifests as sources: compared with the csv and json modules and pyarrow, and errors of damaged ones."""

from __future__ import annotations

import csv
import io
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from manifests import write_manifest
from mediatensor._engine.pyav.encoding import write_test_pattern
from mediatensor.datasets import CheckedFile, DatasetReport, Item, VideoClips, as_items
from mediatensor.datasets._sources import manifests, parquet
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import InvalidArgumentError, MissingDependencyError, ReadError

ROWS: list[dict[str, Any]] = [
    {"path": "clips/a.mp4", "label": "run", "note": "plain"},
    {"path": "/elsewhere/b.mp4", "label": "jump", "note": 'with "quotes", commas,\ttabs and\nlines'},
    {"path": "https://host/c.mp4?x=1", "label": "run", "note": "é 中"},
    {"path": "s3://bucket/d.mp4", "label": "", "note": ""},
    {"path": "concat:e.mp4|f.mp4", "label": "jump", "note": "no URL"},
]
NAMES = ["clips/a.mp4", "/elsewhere/b.mp4", "https://host/c.mp4?x=1", "s3://bucket/d.mp4", "concat:e.mp4|f.mp4"]


MANIFESTS = ["rows.csv", "ROWS.CSV", "rows.tsv", "rows.jsonl", "rows.json", "rows.parquet"]


def located(folder: Path, name: str) -> str:
    return name if name.startswith(("/", "https:", "s3:")) else f"{folder}/{name}"


@pytest.mark.parametrize("name", MANIFESTS)
def test_written_files_are_read(name: str, tmp_path: Path) -> None:
    write_manifest(tmp_path / name, ROWS)
    if name == "rows.jsonl":  # empty lines are passed over
        (tmp_path / name).write_text((tmp_path / name).read_text("utf-8").replace("\n", "\n\n"), "utf-8")
    items = as_items(str(tmp_path / name), kind="video")
    assert [item.source for item in items] == [located(tmp_path, path) for path in NAMES]
    assert [item.name for item in items] == [item.source for item in items]
    assert [item.label for item in items] == [1, 0, 1, None, 0]
    for item, row in zip(items, ROWS, strict=True):
        assert item.extra == {"note": row["note"]} | ({"class_name": row["label"]} if row["label"] else {})
    assert [item.label for item in pickle.loads(pickle.dumps(items))] == [1, 0, 1, None, 0]


def test_typed_manifests_keep_types(tmp_path: Path) -> None:
    rows = [{"video": f"{i}.mp4", "label": i, "boxes": [[i, 0.5]], "start": i / 2} for i in range(3)]
    for name in ("rows.jsonl", "rows.json", "rows.parquet"):
        write_manifest(tmp_path / name, rows)
        items = as_items(tmp_path / name, kind="video")
        assert [(i.label, i.extra) for i in items] == [
            (row["label"], {"boxes": row["boxes"], "start": row["start"]}) for row in rows
        ]
    write_manifest(tmp_path / "rows.csv", rows)
    items = as_items(tmp_path / "rows.csv", kind="video")
    assert [(i.label, i.extra) for i in items] == [
        (row["label"], {"boxes": str(row["boxes"]), "start": str(row["start"])}) for row in rows
    ]


def test_paths_are_relative_to_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    write_manifest(tmp_path / "sub" / "rows.csv", ROWS)
    monkeypatch.chdir(tmp_path)
    assert as_items("sub/rows.csv", kind="video")[0].source == "sub/clips/a.mp4"
    monkeypatch.chdir(tmp_path / "sub")
    items = as_items("rows.csv", kind="video")
    assert items[0].source == "clips/a.mp4"
    # A name with a colon must not turn into one of FFmpeg's protocols.
    assert items[4].source == "./concat:e.mp4|f.mp4"


def test_cells_lose_the_spaces_that_the_header_loses(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('path, label , note,place\na.mp4, 1 , "x, y", Oslo\nb.mp4,10,z,Rome \n\nc.mp4, 2, , \n')
    items = as_items(path, kind="video")
    assert [item.source for item in items] == [f"{tmp_path}/{name}.mp4" for name in "abc"]
    assert [item.label for item in items] == [1, 10, 2]
    assert [item.extra["note"] for item in items] == ["x, y", "z", ""]
    assert items[1].extra["place"] == "Rome "
    path.write_text("path, label\na.mp4, run\nb.mp4, jump\n\nc.mp4\n")
    with pytest.raises(InvalidArgumentError, match=r"line 5 of .* has 1 fields"):
        as_items(path, kind="video")
    # Numbers and names with spaces around them, under a header without.
    for written, labels, names in (
        ("1, 10, 2", [1, 10, 2], [None] * 3),
        ("run, jump,run ", [1, 0, 1], ["run", "jump", "run"]),
    ):
        path.write_text("path,label\n" + "".join(f"a.mp4,{label}\n" for label in written.split(",")))
        items = as_items(path, kind="video")
        assert [item.label for item in items] == labels
        assert [item.extra.get("class_name") for item in items] == names


def test_columns_are_found_by_name_and_empty_fields_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("\ufeffpath,url,clip,class\n,https://host/a.mp4,x.mp4,1\nb.mp4,,y.mp4,0\n", "utf-8")
    assert [item.source for item in as_items(path, kind="video")] == ["https://host/a.mp4", f"{tmp_path}/b.mp4"]
    chosen = as_items(path, kind="video", media_column="clip", label_column="class")
    assert [(os.path.basename(item.name), item.label) for item in chosen] == [("x.mp4", 1), ("y.mp4", 0)]


DAMAGED: list[tuple[str, bytes, str]] = [
    ("rows.csv", b"", "it has no rows"),
    ("rows.csv", b"path,label\n", "it has no rows"),
    ("rows.csv", b"name,label\na.mp4,1\n", "line 2 of .*rows.csv names no file.*its columns: name, label"),
    ("rows.csv", b"path,label\na.mp4,1\n,2\n", "line 3 of .*rows.csv names no file"),
    ("rows.csv", b"path,label\na.mp4\n", "line 2 of .*rows.csv has 1 fields, but there are 2 columns: path, label"),
    ("rows.csv", b"path,label\na.mp4,1,2\n", "line 2 of .*rows.csv has 3 fields"),
    ("rows.csv", b"path,path\na.mp4,1\n", "line 1 of .*rows.csv names the column 'path' more than once"),
    ("rows.csv", b'path,label\n"a.mp4,1\nb.mp4,2\n', "rows.csv cannot be parsed .unexpected end of data"),
    ("rows.csv", b'path,label\n"a"b.mp4,1\n', "line 2 of .*rows.csv cannot be parsed"),
    ("rows.csv", b"path\n" + b"a" * 200_000 + b"\n", "line 2 of .*rows.csv cannot be parsed .field larger"),
    ("rows.csv", b"path\na.mp4\n\xff.mp4\n", "line 3 of .*rows.csv is not text in UTF-8"),
    ("rows.csv", "path\na.mp4\n".encode("utf-16"), "line 1 of .*rows.csv is not text in UTF-8"),
    ("rows.tsv", b"path,label\na.mp4,1\n", "line 2 of .*rows.tsv names no file"),
    ("rows.jsonl", b"\n \n", "it has no rows"),
    ("rows.jsonl", b'{"path": "a.mp4"}\n{"path": \n', "line 2 of .*rows.jsonl is not JSON"),
    ("rows.jsonl", b'{"path": "a.mp4"}\n["b.mp4"]\n', "line 2 of .*rows.jsonl must be an object.*got list"),
    ("rows.jsonl", b'{"path": 5}', "line 1 of .*rows.jsonl is of type int"),
    ("rows.jsonl", b'{"path": "a", "label": "x"}\n{"path": "a", "label": 1}\n', "Some labels are text .'x'."),
    ("rows.jsonl", b'{"path": "a", "label": ' + b"9" * 5000 + b"}", "line 1 of .*rows.jsonl is not JSON"),
    ("rows.jsonl", b'{"path":' * 50_000, "line 1 of .*rows.jsonl is not JSON"),
    ("rows.jsonl", b'{"path":' * 300 + b"1" + b"}" * 300, "line 1 of .*rows.jsonl is of type dict"),
    ("rows.jsonl", b'{"path": {"bytes": "UklGRg==", "path": null}}', "line 1 of .*rows.jsonl names no file"),
    ("rows.json", b"[", "rows.json is not JSON .*line 1"),
    ("rows.json", b"[" * 100_000, "rows.json is not JSON"),
    ("rows.json", b'{"path": "a.mp4"}', "rows.json must hold a list of objects .got dict"),
    ("rows.json", b'[{"path": "a.mp4"}, "b.mp4"]', "entry 1 of .*rows.json must be an object"),
    ("rows.json", b"[]", "it has no rows"),
    ("rows.parquet", b"", "rows.parquet is not a Parquet file, or damaged"),
    ("rows.parquet", b"PAR1" + bytes(50) + b"PAR1", "rows.parquet is not a Parquet file, or damaged"),
]


@pytest.mark.parametrize(("name", "content", "message"), DAMAGED)
def test_damaged_manifests_name_the_line(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidArgumentError, match=message):
        as_items(tmp_path / name, kind="video")


def test_sources_over_the_limits_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_manifest(tmp_path / "rows.csv", ROWS)
    write_manifest(tmp_path / "rows.json", ROWS)
    write_manifest(tmp_path / "few.json", ROWS[:4])
    monkeypatch.setattr(manifests, "MAX_ITEMS", 4)
    with pytest.raises(InvalidArgumentError, match=r"line 7 of .*rows.csv exceeds the limit of 4 rows"):
        as_items(tmp_path / "rows.csv", kind="video")
    monkeypatch.setattr(manifests, "MAX_LINE_BYTES", 20)
    with pytest.raises(InvalidArgumentError, match=r"line 2 of .*rows.csv is longer than 20 bytes"):
        as_items(tmp_path / "rows.csv", kind="video")
    assert len(as_items(tmp_path / "few.json", kind="video")) == 4, "the json module writes all rows in one line"
    monkeypatch.setattr(manifests, "MAX_TEXT_BYTES", 100)
    monkeypatch.setattr(manifests, "MAX_JSON_BYTES", 101)
    for name, limit in (("rows.csv", 100), ("rows.json", 101)):
        with pytest.raises(InvalidArgumentError, match=rf"{name} has \d+ bytes, more than the limit of {limit}"):
            as_items(tmp_path / name, kind="video")


@pytest.mark.timeout(30)
def test_pipes_do_not_block(tmp_path: Path) -> None:
    for name in MANIFESTS:
        os.mkfifo(tmp_path / name)
        with pytest.raises(InvalidArgumentError, match="not an ordinary file"):
            as_items(tmp_path / name, kind="video")


@pytest.mark.parametrize("name", ["good.csv", "good.jsonl"])
def test_saved_manifests_keep_the_text_of_every_column(name: str, tmp_path: Path) -> None:
    notes = ["a\rb", "a\nb", "\r\n", "\r", ' "quoted", ', "\u2028é", "\0", "", "=1"]
    items = [Item(f"{tmp_path}/{number}.mp4", extra={"note": note}) for number, note in enumerate(notes)]
    report = DatasetReport(tuple(CheckedFile(item.name) for item in items), items=items)
    assert report.save_manifest(tmp_path / name) == len(notes)
    assert [item.extra["note"] for item in as_items(tmp_path / name, kind="video")] == notes
    items[1].extra["note"] = "x" * (csv.field_size_limit() + 1)  # type: ignore[index]
    if name == "good.csv":
        with pytest.raises(InvalidArgumentError, match=r"column 'note' has a value of 131073 .*Write a \.jsonl"):
            report.save_manifest(tmp_path / name, overwrite=True)


def test_lines_that_a_user_sees_are_those_of_an_editor(tmp_path: Path) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerows([["path", "note"], ["a.mp4", "two\nlines"], ["", "line four"]])
    (tmp_path / "rows.csv").write_text(text.getvalue(), newline="")
    with pytest.raises(InvalidArgumentError, match="line 4 of"):
        as_items(tmp_path / "rows.csv", kind="video")


def test_parquet_needs_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"mediatensor\[parquet\]"):
        as_items(tmp_path / "rows.parquet", kind="video")


def media_rows(num: int, column: str) -> list[dict[str, Any]]:
    return [
        {column: {"bytes": bytes([i]) * 1000 if i % 3 else None, "path": f"{i}.mp4"}, "label": f"{i % 2}", "n": i}
        for i in range(num)
    ]


@pytest.mark.parametrize("column", ["video", "any_name"])
def test_parquet_with_media_in_it_is_read(column: str, tmp_path: Path) -> None:
    rows = media_rows(20, column)
    write_manifest(tmp_path / "rows.parquet", rows, row_group_size=6)
    items = as_items(tmp_path / "rows.parquet", kind="video")
    assert len(items) == 20
    untouched = pickle.dumps(items)
    order = [19, 0, 6, 5, 12, 11, *range(20)]
    for i in order:
        item, row = items[i], rows[i]
        assert item.source == (row[column]["bytes"] or f"{tmp_path}/{i}.mp4")
        assert (item.label, item.extra) == (i % 2, {"n": i})
        assert item.name == (f"{i}.mp4" if i % 3 else f"{tmp_path}/{i}.mp4")
    copied = pickle.loads(pickle.dumps(items))
    assert list(copied) == list(items)
    assert len(pickle.dumps(items)) == len(untouched)  # the media stay in the file


def test_parquet_with_columns_of_bytes_is_read(tmp_path: Path) -> None:
    rows = [{"path": f"{i}.mp4", "bytes": bytes([i]), "label": i} for i in range(3)]
    write_manifest(tmp_path / "flat.parquet", rows)
    assert [(i.source, i.name, i.label) for i in as_items(tmp_path / "flat.parquet", kind="video")] == [
        (bytes([i]), f"{tmp_path}/{i}.mp4", i) for i in range(3)
    ]
    rows = [{"video": bytes([i]), "bytes": 1} for i in range(3)]
    write_manifest(tmp_path / "plain.parquet", rows)
    assert [(i.source, i.extra) for i in as_items(tmp_path / "plain.parquet", kind="video")] == [
        (bytes([i]), {"bytes": 1}) for i in range(3)
    ]


def test_parquet_with_several_columns_of_media_needs_a_choice(tmp_path: Path) -> None:
    rows = [{"left": {"bytes": b"l", "path": "l"}, "right": {"bytes": b"r", "path": "r"}}]
    write_manifest(tmp_path / "rows.parquet", rows)
    with pytest.raises(InvalidArgumentError, match="several columns with media: left, right"):
        as_items(tmp_path / "rows.parquet", kind="video")
    (item,) = as_items(tmp_path / "rows.parquet", kind="video", media_column="right")
    assert (item.source, item.extra) == (b"r", {"left": {"path": "l"}})
    for options in ({"media_column": "x"}, {"media_column": "left", "label_column": "x"}):
        with pytest.raises(InvalidArgumentError, match="no column 'x'; it has left, right"):
            as_items(tmp_path / "rows.parquet", kind="video", **options)


def test_parquet_files_over_the_limits_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A dictionary page makes a file of a few hundred bytes out of a long text in many rows.
    write_manifest(tmp_path / "long.parquet", [{"path": "a" * 10_000}] * 2000)
    assert (tmp_path / "long.parquet").stat().st_size < 20_000
    monkeypatch.setattr(parquet, "MAX_PARQUET_COLUMN_BYTES", 10_000_000)
    with pytest.raises(InvalidArgumentError, match=r"long.parquet take more than 10000000 bytes"):
        as_items(tmp_path / "long.parquet", kind="video")
    write_manifest(tmp_path / "media.parquet", media_rows(20, "video"), row_group_size=10)
    monkeypatch.setattr(parquet, "MAX_ROW_GROUP_BYTES", 5000)
    items = as_items(tmp_path / "media.parquet", kind="video")
    with pytest.raises(ReadError, match=r"row 15 of .*row group 1 of .*media.parquet take more than 5000 bytes"):
        VideoDecoder(items[15].source)
    monkeypatch.setattr(manifests, "MAX_ITEMS", 19)
    with pytest.raises(InvalidArgumentError, match=r"has 20 rows; there must be 1 to 19"):
        as_items(tmp_path / "media.parquet", kind="video")


def test_clips_of_a_parquet_file_match_plain_files(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.mp4" for number in range(3)]
    for number, path in enumerate(paths):
        write_test_pattern(path, width=64, height=48, num_frames=10 + number)
    rows = [{"video": {"bytes": path.read_bytes(), "path": path.name}} for path in paths]
    write_manifest(tmp_path / "rows.parquet", [*rows, {"video": None}], row_group_size=2)
    of_parquet = VideoClips(tmp_path / "rows.parquet", num_frames_per_clip=4, rows_per_file=2, on_error="skip")
    of_paths = VideoClips(paths, num_frames_per_clip=4, rows_per_file=2)
    for row in range(6):
        assert torch.equal(of_parquet[row].frames.data, of_paths[row].frames.data)
    (failure,) = of_parquet[6].failures
    assert "row 3 of" in failure.source
    assert (failure.error, "names no file" in failure.message) == ("ReadError", True)
    # The rows of one file share its open handle.
    of_parquet.close()
    of_parquet.__getitems__([0, 1])
    assert len(of_parquet._reader.files) == 1


def test_damaged_row_groups_are_for_the_error_policy(tmp_path: Path) -> None:
    clip = tmp_path / "clip.mp4"
    write_test_pattern(clip, width=64, height=48, num_frames=8)
    path = tmp_path / "rows.parquet"
    rows = [{"video": {"bytes": clip.read_bytes(), "path": None}, "label": name} for name in ("run", "jump")]
    write_manifest(path, rows, row_group_size=1)
    content = bytearray(path.read_bytes())
    content[4:12] = bytes(8)  # where the first page begins
    path.write_bytes(content)
    dataset = VideoClips(path, num_frames_per_clip=4, on_error="replace")
    failure = dataset[0].failures[0]
    assert (failure.source, failure.error) == (f"row 0 of {path}", "ReadError")
    assert "damaged" in failure.message
    assert dataset[1].failures == ()
    assert [item.label for item in dataset.items] == [1, 0]
