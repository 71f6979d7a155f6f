"""`write_shards`: webdataset, pyarrow and the library read its shards; interrupted runs give the same bytes."""

from __future__ import annotations

import hashlib
import io
import math
import pickle
import signal
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from forked import run_program
from mediatensor.datasets import (
    DataLoader,
    Item,
    LeRobotClips,
    TarItems,
    VideoAudioClips,
    VideoClips,
    as_items,
    write_shards,
)
from mediatensor.datasets._sources.dispatch import references_of
from mediatensor.errors import InvalidArgumentError, OpenError, ReadError, SourceNotFoundError
from training_set import make_videos

SUBTITLES = "1\n00:00:00,500 --> 00:00:01,200\nFirst.\n\n2\n00:00:02,000 --> 00:00:02,300\nSecond.\n"


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two videos of 2.4 s with a key frame every 0.8 s, the first with subtitles, and a list of segments."""
    folder = tmp_path_factory.mktemp("videos")
    make_videos(folder, 2)
    (folder / "000.srt").write_text(SUBTITLES)
    rows = ["path,start,end,label,place", "000.mp4,0.8,1.6,run,Oslo", "000.mp4,0.9,1.3,jump,", "001.mp4,,,run,Rome"]
    (folder / "moments.csv").write_text("\n".join(rows))
    return folder


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("extension", ["tar", "parquet"])
def test_datasets_over_shards_have_the_same_rows(extension: str, videos: Path, tmp_path: Path) -> None:
    dataset = VideoClips(videos / "moments.csv", num_frames_per_clip=3, seed=4)
    (shard,) = write_shards(dataset, tmp_path / f"{{:02d}}.{extension}", num_workers=2)
    again = VideoClips(shard, num_frames_per_clip=3, seed=4)
    assert len(again) == 3
    assert again.class_names == ["jump", "run"]
    for first, second in zip(dataset, again, strict=True):
        assert torch.equal(first.frames.data, second.frames.data)
        assert (first.label, first.extra["place"] or "") == (second.label, second.extra["place"])
        start = second.extra.get("clip_pts_seconds") or 0.0
        assert torch.allclose(first.frames.pts_seconds, second.frames.pts_seconds + start)
    extras = [again.spec(row).item.extra for row in range(3)]
    assert [extra.get("clip_is_copied") for extra in extras] == [True, False, None]
    assert [extra.get("clip_duration_seconds") for extra in extras] == [pytest.approx(0.8), pytest.approx(0.4), None]
    captions = VideoAudioClips(shard, seconds_per_clip=0.4, captions="any", missing="pad", sample_rate=8000)
    texts = [[(one.text, one.start_seconds) for one in captions[row].captions] for row in (0, 1)]
    assert all(text == "First." for clip in texts for text, _ in clip)
    assert texts[1] == [("First.", pytest.approx(captions[1].frames.pts_seconds[0].item(), abs=0.11))]


def test_whole_files_and_subtitles_are_copied_unchanged(videos: Path, tmp_path: Path) -> None:
    (shard,) = write_shards([Item(videos / "000.mp4", 3), Item(b"%PDF-", name="x")], tmp_path / "{}.tar")
    with tarfile.open(shard) as archive:
        contents = {member.name: archive.extractfile(member).read() for member in archive}
    assert contents == {
        "000000000.mp4": (videos / "000.mp4").read_bytes(),
        "000000000.srt": SUBTITLES.encode(),
        "000000000.cls": b"3",
        "000000001.pdf": b"%PDF-",
    }


def rows(count: int) -> Iterator[dict[str, Any]]:
    """Rows with a value of every kind, as a generator."""
    for number in range(count):
        yield {
            "__key__": "ignored",
            "png": Image.new("RGB", (4, 3), (number, 1, 2)),
            "thumb": {"bytes": b"\x89PNG" + bytes([number]), "path": None},
            "depth": torch.full((2, 3), number / 2),
            "cls": number,
            "txt": f"text {number}",
            "score": np.float32(0.5),
            "tags": ["a", number],
            "size": {"width": 4},
        }


def test_webdataset_reads_tar_shards(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset", reason="needs the webdataset package")
    shards = write_shards(rows(5), tmp_path / "{:03d}.tar", rows_per_shard=2, num_workers=1)
    assert [Path(shard).name for shard in shards] == ["000.tar", "001.tar", "002.tar"]
    samples = list(webdataset.WebDataset(shards, shardshuffle=False).decode("rgb8", only=["png", "cls", "npy", "json"]))
    assert [sample["__key__"] for sample in samples] == [f"{number:09d}" for number in range(5)]
    for number, sample in enumerate(samples):
        assert sample["png"][0, 0].tolist() == [number, 1, 2]
        assert sample["thumb.png"] == b"\x89PNG" + bytes([number])
        array = (
            np.load(io.BytesIO(sample["depth.npy"])) if isinstance(sample["depth.npy"], bytes) else sample["depth.npy"]
        )
        assert array.tolist() == [[number / 2] * 3] * 2
        assert sample["cls"] == number
        assert sample["txt"] == f"text {number}".encode()
        assert sample["json"] == {"score": 0.5, "tags": ["a", number], "size": {"width": 4}}


@pytest.mark.parametrize("extension", ["tar", "parquet"])
def test_values_that_are_not_finite_stay(extension: str, tmp_path: Path) -> None:
    written = {"pdf": b"%PDF-", "a": math.nan, "b": -math.inf, "c": {"d": [math.inf]}, "label": math.nan}
    (shard,) = write_shards([written], tmp_path / f"{{}}.{extension}")
    (item,) = as_items(shard, kind="document")
    assert repr([item.extra["a"], item.extra["b"], item.extra["c"], item.label]) == repr([*written.values()][1:])


def test_bfloat16_is_stored_as_float32(tmp_path: Path) -> None:
    (shard,) = write_shards([{"x": torch.tensor([1.5, -3e38]).bfloat16()}], tmp_path / "{}.tar")
    with tarfile.open(shard) as archive:
        stored = np.load(io.BytesIO(archive.extractfile("000000000.x.npy").read()))
    assert torch.equal(torch.from_numpy(stored), torch.tensor([1.5, -3e38]).bfloat16().float())


def test_rows_with_paths_give_the_file_or_an_error(videos: Path, tmp_path: Path) -> None:
    path = videos / "000.mp4"
    given = [{"video": {"bytes": None, "path": one}} for one in (str(path), f"file:{path}")]
    (shard,) = write_shards(given, tmp_path / "{}.tar")
    with tarfile.open(shard) as archive:
        for number in range(2):
            assert archive.extractfile(f"00000000{number}.video.mp4").read() == path.read_bytes()
    for row in ({"path": str(path), "start": 1, "end": 2}, {"video": path}):
        with pytest.raises(InvalidArgumentError, match=r"row 0 has the path .* as_items\(rows, kind='video'\)"):
            write_shards([row], tmp_path / "a{}.tar")
    with pytest.raises(SourceNotFoundError):
        write_shards([{"video": {"bytes": None, "path": "missing.mp4"}}], tmp_path / "b{}.tar")


def test_types_of_parquet_shards_can_be_unified(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    pyarrow, dataset = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.dataset")
    written = [{"n": 1, "s": None}, {"n": 1.5, "s": "x"}]
    shards = write_shards(iter(written), tmp_path / "{}.parquet", rows_per_shard=1)
    schema = pyarrow.unify_schemas([parquet.read_schema(shard) for shard in shards], promote_options="permissive")
    table = dataset.dataset(shards, schema=schema).to_table()
    assert table.drop_columns("key").to_pylist() == written


def test_parquet_shards_of_a_list_are_one_table(tmp_path: Path) -> None:
    """With types that no shard knows from its own rows: of empty values, of integers and floats, of empty lists."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    written = [
        {"n": None, "x": 1, "tags": [], "json": {"a": {"b": 1}}},
        {"n": 3, "x": np.float32(1.5), "tags": ["q"], "cls": 1},
        {"n": 4, "x": torch.tensor(2), "tags": [], "txt": "new", "jpg": None},
        {"n": 4, "x": 2, "tags": [], "jpg": b"\xff\xd8\xff", "path": Path("a")},
    ]
    expected = [
        {"n": None, "x": 1.0, "tags": [], "a": {"b": 1}, "label": None, "txt": None, "path": None},
        {"n": 3, "x": 1.5, "tags": ["q"], "a": None, "label": 1, "txt": None, "path": None},
        {"n": 4, "x": 2.0, "tags": [], "a": None, "label": None, "txt": "new", "path": None},
        {"n": 4, "x": 2.0, "tags": [], "a": None, "label": None, "txt": None, "path": "a"},
    ]
    shards = write_shards(written, tmp_path / "{}.parquet", rows_per_shard=1)
    assert parquet.read_table(shards, columns=[*expected[0]]).to_pylist() == expected
    with pytest.raises(InvalidArgumentError, match="'n' do not have one type"):
        write_shards([{"n": 1}, {"n": "x"}], tmp_path / "mixed" / "{}.parquet", rows_per_shard=1)
    assert not (tmp_path / "mixed").exists()


def test_parquet_shards_of_a_dataset_are_one_table(videos: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs datasets")
    files = [{"path": videos / "000.mp4", "score": 1}, {"path": videos / "001.mp4", "label": "b", "score": 1.5}]
    shards = write_shards(VideoClips(files), tmp_path / "{}.parquet", rows_per_shard=1)
    table = datasets.load_dataset("parquet", data_files=shards, split="train", cache_dir=str(tmp_path / "cache"))
    assert table["score"][:] == [1.0, 1.5]
    assert table["label"][:] == [None, 0]


def test_pyarrow_reads_parquet_shards(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    mixed = ({**row, "tags": [1.5]} for row in rows(5))
    shards = write_shards(mixed, tmp_path / "{:03d}.parquet", rows_per_shard=3)
    table = parquet.read_table(tmp_path)
    assert len(shards) == 2
    assert table.column("key").to_pylist() == [f"{number:09d}" for number in range(5)]
    assert table.column("label").to_pylist() == list(range(5))
    assert table.column("txt")[4].as_py() == "text 4"
    assert table.column("depth")[3].as_py() == [[1.5] * 3] * 2
    assert table.column("size")[0].as_py() == {"width": 4}
    assert table.column("thumb")[2].as_py() == {"bytes": b"\x89PNG\x02", "path": "000000002.thumb.png"}
    assert Image.open(io.BytesIO(table.column("png")[4].as_py()["bytes"])).getpixel((0, 0)) == (4, 1, 2)
    metadata = parquet.ParquetFile(shards[0]).metadata.row_group(0)
    assert {metadata.column(i).compression for i in range(metadata.num_columns)} == {"UNCOMPRESSED"}


def test_several_parquet_shards_are_one_source(videos: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    names = ["run", "jump", "run"]
    items = [
        {"video": {"bytes": (videos / "000.mp4").read_bytes()}, "label": name, "n": n} for n, name in enumerate(names)
    ]
    write_shards(items, tmp_path / "{:02d}.parquet", rows_per_shard=1)
    for pattern in ("*.parquet", "{00..02}.parquet"):
        dataset = VideoClips(str(tmp_path / pattern), num_frames_per_clip=2)
        assert dataset.class_names == ["jump", "run"]
        assert [sample.label for sample in dataset] == [1, 0, 1]
        assert [pickle.loads(pickle.dumps(item)).extra["n"] for item in dataset.items] == [0, 1, 2]
    references = list(references_of(dataset.items))
    assert [(Path(row["path"]).name, row["table_row"]) for row in references] == [
        (f"0{n}.parquet", 0) for n in range(3)
    ]
    loader = DataLoader(dataset, batch_size=1, num_workers=1)
    assert [int(batch.label[0]) for batch in loader] == [1, 0, 1]
    assert loader.state_dict()
    with pytest.raises(SourceNotFoundError):
        VideoClips(str(tmp_path / "{03..04}.parquet"))


# Interrupted and shared runs


KILLED_RUN = """
import os, signal, sys
from mediatensor.datasets import write_shards

def rows():
    for number in range(8):
        if number == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        yield {"txt": str(number), "n": number}

write_shards(rows(), sys.argv[1], rows_per_shard=2)
"""


@pytest.mark.parametrize("extension", ["tar", "parquet"])
def test_killed_run_resumes_with_the_same_bytes(extension: str, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    numbers = [{"txt": str(number), "n": number} for number in range(8)]
    write_shards(numbers, whole / f"{{}}.{extension}", rows_per_shard=2)
    pattern = killed / f"{{}}.{extension}"
    assert run_program(KILLED_RUN, pattern).returncode == -signal.SIGKILL
    complete = [path for path in killed.iterdir() if path.suffix == f".{extension}"]
    assert len(complete) == 2
    times = {path: path.stat().st_mtime_ns for path in complete}
    assert [path.name[:-18] for path in killed.glob(".*.part")] == [f".2.{extension}"]
    others = [killed / name for name in (f".22.{extension}.0123456789ab.part", f".2.{extension}.part", "2.part")]
    for path in others:
        path.touch()
    assert len(write_shards(iter(numbers), pattern, rows_per_shard=2, resume=True)) == 4
    assert {path: path.stat().st_mtime_ns for path in complete} == times
    for path in others:
        path.unlink()
    assert digests(killed) == digests(whole)


def test_bytes_do_not_depend_on_workers_and_ranks(videos: Path, tmp_path: Path) -> None:
    items = [*as_items(videos / "moments.csv", kind="video")] * 2
    write_shards(items, tmp_path / "one" / "{}.tar", rows_per_shard=1)
    for rank in (1, 0):
        shards = write_shards(
            items, tmp_path / "two" / "{}.tar", rows_per_shard=1, num_workers=3, rank=rank, num_ranks=2
        )
        assert [Path(shard).name for shard in shards] == [f"{number}.tar" for number in range(rank, 6, 2)]
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


class _Indexed:
    """Rows that note which of them are read."""

    def __init__(self, num_rows: int) -> None:
        self.num_rows = num_rows
        self.read: list[int] = []

    def __len__(self) -> int:
        return self.num_rows

    def __getitem__(self, row: int) -> dict[str, Any]:
        self.read.append(row)
        return {"n": row}


def test_indexed_rows_of_other_shards_are_not_read(tmp_path: Path) -> None:
    rows, pattern = _Indexed(7), tmp_path / "{}.tar"
    write_shards(rows, pattern, rows_per_shard=2, rank=1, num_ranks=2)
    assert rows.read == [2, 3, 6]
    rows.read.clear()
    assert len(write_shards(rows, pattern, rows_per_shard=2, resume=True)) == 4
    assert rows.read == [0, 1, 3, 4, 5, 6]  # of shards that are kept only the last row
    assert [item.extra["n"] for shard in range(4) for item in TarItems(tmp_path / f"{shard}.tar")] == list(range(7))


def test_tables_are_refused_with_advice(tmp_path: Path) -> None:
    pyarrow, pandas = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    columns = {"n": [1, 2]}
    for table, advice in ((pandas.DataFrame(columns), "to_dict"), (pyarrow.table(columns), "to_pylist")):
        with pytest.raises(InvalidArgumentError, match=f"a table of type {type(table).__name__}.*{advice}"):
            write_shards(table, tmp_path / "{}.tar")
    assert not list(tmp_path.iterdir())


def test_rows_that_are_none_do_not_end_the_rows(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="row 2 is of type NoneType"):
        write_shards([{"n": 0}, {"n": 1}, None, {"n": 3}], tmp_path / "{}.tar", rows_per_shard=2)


def test_labels_of_any_size_stay_numbers(tmp_path: Path) -> None:
    labels = [3, -(2**63), 2**63, 10**30]
    (shard,) = write_shards([{"mp4": b"x", "label": label} for label in labels], tmp_path / "{}.tar")
    assert [item.label for item in TarItems(shard)] == labels


def test_resume_rejects_other_or_incomplete_shards(tmp_path: Path) -> None:
    numbers = [{"n": number} for number in range(4)]
    pattern = tmp_path / "{}.tar"
    write_shards(numbers, pattern, rows_per_shard=2)
    with pytest.raises(InvalidArgumentError, match=r"exists already; resume=True keeps"):
        write_shards(numbers, pattern, rows_per_shard=2)
    with pytest.raises(InvalidArgumentError, match="does not have the rows 000000000 to 000000000"):
        write_shards(numbers, pattern, rows_per_shard=1, resume=True)
    with pytest.raises(InvalidArgumentError, match=r"1\.tar' is a shard of other rows"):
        write_shards(numbers[:2], pattern, rows_per_shard=2, resume=True)
    first = tmp_path / "0.tar"
    first.write_bytes(first.read_bytes()[:700])
    with pytest.raises(InvalidArgumentError, match=r"0\.tar is not a complete shard"):
        write_shards(numbers, pattern, rows_per_shard=2, resume=True)
    first.unlink()
    first.mkdir()
    with pytest.raises(InvalidArgumentError, match=r"0\.tar is not a complete shard"):
        write_shards(numbers, pattern, rows_per_shard=2, resume=True)


@pytest.mark.parametrize("extension", ["tar", "parquet"])
def test_resume_rejects_shards_of_rows_that_have_changed(extension: str, videos: Path, tmp_path: Path) -> None:
    pattern = tmp_path / f"{{}}.{extension}"
    (tmp_path / "a.pdf").write_bytes(b"%PDF-a")
    segment = Item(videos / "000.mp4", start_seconds=0.9, end_seconds=1.3)
    png = Image.new("RGB", (4, 3))
    originals: list[Any] = [
        {"pdf": b"0", "n": 1.5},
        {"pdf": b"1", "n": math.nan, "x": np.ones(2), "png": png},
        {"pdf": b"2", "n": 2},
        segment,
        {"pdf": b"4"},
        Item(tmp_path / "a.pdf", 3),
    ]
    written = write_shards(originals, pattern, rows_per_shard=2)

    def resume(rows: Any) -> list[str]:
        return write_shards(rows, pattern, rows_per_shard=2, resume=True)

    for number, change in (
        (1, {"pdf": b"1", "n": math.nan, "x": np.zeros(2), "png": png}),
        (1, {"pdf": b"1", "n": 3, "x": np.ones(2), "png": png}),
        (3, Item(videos / "000.mp4", start_seconds=0.8, end_seconds=1.3)),
        (5, Item(tmp_path / "a.pdf", 4)),
        (5, Item(tmp_path / "a.pdf")),
        (5, Item(b"%PDF-b", 3)),
    ):
        changed = [*originals[:number], change, *originals[number + 1 :]]
        for rows in (changed, iter(changed)):
            with pytest.raises(InvalidArgumentError, match=f"{number // 2}.{extension}.*00{number}.*rows have changed"):
                resume(rows)
    with pytest.raises(InvalidArgumentError, match=r"0\..*rows have changed"):
        resume([originals[0], originals[2], originals[1], *originals[3:]])
    # Encoders of other versions give other bytes, and files of finished shards may have been deleted.
    originals[1] = {**originals[1], "png": Image.new("RGB", (5, 5))}
    (tmp_path / "a.pdf").unlink()
    for rows in (originals, iter(originals)):
        assert resume(rows) == written


# Unreadable rows and invalid arguments


def test_unreadable_rows_are_skipped_or_raise(videos: Path, tmp_path: Path) -> None:
    cut_short = tmp_path / "short.tar"
    write_shards([Item(videos / "000.mp4"), Item(videos / "001.mp4")], tmp_path / "{}.tar")
    cut_short.write_bytes((tmp_path / "0.tar").read_bytes()[:-12_000])
    items = [*TarItems(cut_short), Item("missing.mp4"), Item(videos / "001.mp4", start_seconds=9.0)]
    with pytest.raises(ReadError):
        write_shards(items, tmp_path / "a{}.tar")
    with pytest.raises(SourceNotFoundError):
        write_shards(items[2:], tmp_path / "b{}.tar")
    with pytest.warns(UserWarning, match=r"3 rows could not be read.*row 1.*row 2 \(missing\.mp4\)"):
        (shard,) = write_shards(items, tmp_path / "c{}.tar", on_error="skip", num_workers=1)
    assert [Path(item.name).name for item in TarItems(shard)] == ["000000000.mp4"]
    with pytest.raises(ReadError, match="No row could be read"):
        write_shards(items[1:], tmp_path / "d{}.tar", on_error="skip")
    assert [path.name for path in tmp_path.iterdir() if path.name[0] in "abd."] == []


def test_shards_without_readable_rows_are_left_out(tmp_path: Path) -> None:
    items = [{"n": 1}, Item("missing.mp4"), {"n": 3}]
    for resume in (False, True):
        with pytest.warns(UserWarning, match=r"1 row could not be read.*1 shard .*1\.tar"):
            shards = write_shards(items, tmp_path / "{}.tar", rows_per_shard=1, on_error="skip", resume=resume)
        assert [Path(shard).name for shard in shards] == ["0.tar", "2.tar"]
    (tmp_path / "missing.mp4").write_bytes(b"now it exists")
    items[1] = Item(tmp_path / "missing.mp4")
    assert len(write_shards(items, tmp_path / "{}.tar", rows_per_shard=1, on_error="skip", resume=True)) == 3


@pytest.mark.parametrize("row", [3, {"n": object()}, {"a/b": b""}, {1: b""}])
def test_on_error_does_not_hide_rows_of_a_wrong_form(row: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="row 1"):
        write_shards([{"n": 1}, row], tmp_path / "{}.tar", on_error="skip")


def test_rows_with_damaged_captions_are_skipped(videos: Path, tmp_path: Path) -> None:
    rows = [{"n": 1}, Item(videos / "000.mp4", extra={"captions": "[{"})]
    with pytest.raises(ReadError, match="captions"):
        write_shards(rows, tmp_path / "a{}.tar")
    with pytest.warns(UserWarning, match=r"1 row could not be read.*row 1"):
        assert len(write_shards(rows, tmp_path / "b{}.tar", on_error="skip")) == 1


@pytest.mark.parametrize("extension", ["tar", "parquet"])
def test_captions_are_a_series_or_an_empty_cell(extension: str, tmp_path: Path) -> None:
    texts = [{"start": 0.0, "end": 1.0, "text": "one"}, {"start": 1.0, "end": 2.0, "text": "two"}]
    cells = (np.array(texts, object), math.nan, " ", None)
    items = [Item(b"%PDF-", extra={"captions": captions}) for captions in cells]
    (shard,) = write_shards(items, tmp_path / f"{{}}.{extension}")
    found = [item.extra.get("captions") for item in as_items(shard, kind="document")]
    assert [[one["text"] for one in captions or ()] for captions in found] == [["one", "two"], [], [], []]


def test_sources_that_only_ffmpeg_can_open_are_named(tmp_path: Path) -> None:
    with pytest.raises(OpenError, match=r"rtmp://example\.invalid/a\.mp4: only FFmpeg can open it"):
        write_shards([{"a": {"bytes": None, "path": "rtmp://example.invalid/a.mp4"}}], tmp_path / "{}.tar")
    with pytest.raises(OpenError, match=r"rtmp://example\.invalid/meta/info\.json: only FFmpeg can open it"):
        LeRobotClips("rtmp://example.invalid")


@pytest.mark.parametrize(
    ("source", "pattern", "message"),
    [
        ([], "{}.tar", "There are no rows"),
        (iter([]), "{}.parquet", "There are no rows"),
        ("videos", "{}.tar", "as_items"),
        ([{"n": 1}], "shard.tar", "one field"),
        ([{"n": 1}], "{}.zip", "ending"),
        ([{"n": 1}], "{a}.tar", "one field"),
        ([3], "{}.tar", "row 0 is of type int"),
        ([{"n": object()}], "{}.tar", "in the column 'n'"),
        ([{"a/b": b""}], "{}.tar", "ending of a file name"),
        ([{"jpg": b"", "obs/state": np.zeros(1)}], "{}.tar", "an array in the column 'obs/state'"),
        ([{1: b""}], "{}.tar", "must be text"),
        ({3}, "{}.tar", "ordered"),
        ([Item(b"%PDF-", extra={"pdf": b""})], "{}.tar", "two files with the ending 'pdf'"),
        ([{"json": b"{}", "n": 1}], "{}.tar", "two files with the ending 'json'"),
        ([{"json": b"{}", "n": 1}], "{}.tar", "'json', 'n'"),
        ([{"json": {"n": 1}, "n": 1}], "{}.tar", r"\"json\['n'\]\" and 'n'"),
        ([{"cls": 5, "label": 3}], "{}.tar", "'cls' and 'label'"),
        ([{"cls": b"5", "label": 3}], "{}.tar", "'cls', 'label'"),
        ([{"cls": b"5", "label": "a"}], "{}.tar", "'label', 'cls'"),
        ([{"a": np.zeros(1), "A.npy": np.ones(1)}], "{}.tar", "'a', 'A.npy'"),
        ([Item(b"%PDF-", extra={"document": b""})], "{}.parquet", "two values for the column 'document'"),
        ([{"x": torch.zeros(2, 2).to_sparse()}], "{}.tar", "to_dense"),
        (LeRobotClips.__new__(LeRobotClips), "{}.tar", "Pass its rows"),
        ([{"n": 1}, {"n": "a"}], "{}.parquet", "do not have one type"),
        ([{"key": 1}], "{}.parquet", "the name 'key'"),
        ([{"txt": "a\udcff"}], "{}.tar", "'txt' that is not valid Unicode"),
        ([{"n": ["a\udcff"]}], "{}.parquet", r"'n' has the text 'a\\udcff', which is not valid Unicode"),
        ([{"a\udcff": 1}], "{}.parquet", r"'a\\udcff', which is not valid Unicode"),
    ],
)
def test_invalid_sources_name_the_problem(source: Any, pattern: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        write_shards(source, tmp_path / pattern)
    assert list(tmp_path.iterdir()) == []
