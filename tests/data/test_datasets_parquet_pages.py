"""Media in Parquet files, each read separately: in all encodings of pyarrow, and the bytes that they cost."""

from __future__ import annotations

import pickle
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lazy_modules import import_on_use
from mediatensor._engine.pyav.encoding import write_test_pattern
from mediatensor._engine.sources.readers import RangeReader
from mediatensor._engine.sources.source import Source, make_source
from mediatensor.datasets import AudioClips, VideoClips, as_items, check_dataset
from mediatensor.datasets._sources.dispatch import item_alone
from mediatensor.datasets._sources.parquet import MediaColumn, parquet_file
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import InvalidArgumentError, OpenError, ReadError

pa = import_on_use("pyarrow", reason="needs pyarrow")
parquet = import_on_use("pyarrow.parquet", reason="needs pyarrow")

LARGE = 70_000


def contents(value: Any) -> bytes | None:
    """Return all bytes of a value of a column."""
    if not isinstance(value, Source):
        return value  # type: ignore[no-any-return]
    reader = value.open()
    assert not isinstance(reader, str)
    data = reader.read(10 * LARGE)
    reader.close()
    return data


def drawn_values(count: int, seed: int) -> list[bytes | None]:
    rng = random.Random(seed)
    sizes = [rng.choice((0, 1, 100, LARGE, 2 * LARGE)) for _ in range(count)]
    values: list[bytes | None] = [rng.randbytes(size) for size in sizes]
    # Some are missing, and some are there twice, as dictionaries are for.
    return [None if rng.random() < 0.2 else rng.choice(values[:3]) if rng.random() < 0.3 else one for one in values]


WRITERS: dict[str, dict[str, Any]] = {
    "plain": {"compression": "none", "use_dictionary": False},
    "plain, small pages": {"compression": "none", "use_dictionary": False, "data_page_size": 1, "write_batch_size": 2},
    "plain, version 2": {"compression": "none", "use_dictionary": False, "data_page_version": "2.0"},
    "dictionary": {"compression": "none"},
    "dictionary, given up": {"compression": "none", "dictionary_pagesize_limit": LARGE, "write_batch_size": 3},
    "snappy": {"compression": "snappy", "use_dictionary": False},
    "snappy and dictionary": {},
    "snappy, version 2": {"data_page_version": "2.0", "data_page_size": 1, "write_batch_size": 2},
    "zstd": {"compression": "zstd", "data_page_version": "2.0"},
    "gzip": {"compression": "gzip", "write_page_index": True},
    "brotli": {"compression": "brotli"},
    "lz4": {"compression": "lz4"},
    "checksums": {"compression": "none", "use_dictionary": False, "write_page_checksum": True},
    "lengths apart": {"compression": "none", "use_dictionary": False, "column_encoding": "DELTA_LENGTH_BYTE_ARRAY"},
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("is_struct", [True, False])
def test_values_match_the_written_ones(writer: str, is_struct: bool, tmp_path: Path) -> None:
    values = drawn_values(23, seed=len(writer))
    rows = [{"video": {"bytes": one, "path": f"{i}.mp4"} if is_struct else one} for i, one in enumerate(values)]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())]) if is_struct else pa.large_binary()
    path, options = tmp_path / "rows.parquet", dict(WRITERS[writer])
    leaf = "video.bytes" if is_struct else "video"
    if "column_encoding" in options:
        options["column_encoding"] = {leaf: options["column_encoding"]}
    table = pa.Table.from_pylist(rows, pa.schema([("video", kind)]))
    parquet.write_table(table, path, row_group_size=9, **options)
    with parquet_file(str(path)) as file:
        column = MediaColumn(str(path), leaf, file)
    order = [22, 0, 9, 8, 17, 18, *range(23)]
    for copy in (column, pickle.loads(pickle.dumps(column))):
        assert [contents(copy[i]) for i in order] == [values[i] for i in order]
    is_read_in_parts = writer.startswith(("plain", "dictionary", "checksums"))
    large = [i for i, one in enumerate(values) if one is not None and len(one) >= LARGE]
    assert all(isinstance(column[i], Source) == is_read_in_parts for i in large)


LAYOUTS: dict[str, Any] = {
    "view": getattr(pa, "binary_view", pa.binary)(),
    "dictionary": pa.dictionary(pa.int32(), pa.binary()),
    "large dictionary": pa.dictionary(pa.int8(), pa.large_binary()),
    "fixed size": pa.binary(LARGE),
    "small fixed size": pa.binary(7),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_bytes_in_every_layout_are_read_by_themselves(layout: str, compression: str, tmp_path: Path) -> None:
    values = drawn_values(20, seed=3)
    if "fixed" in layout:
        size = LAYOUTS[layout].byte_width
        values = [None if one is None else random.Random(i).randbytes(size) for i, one in enumerate(values)]
    array = pa.array(values, pa.binary() if "fixed" not in layout else LAYOUTS[layout])
    array = array if "fixed" in layout else array.cast(LAYOUTS[layout])
    path = tmp_path / "rows.parquet"
    options = {"compression": compression, "use_dictionary": "dictionary" in layout}
    parquet.write_table(pa.table({"video": array, "label": list(range(20))}), path, row_group_size=9, **options)
    items = as_items(path, kind="video")
    for number in (19, 0, *range(20)):
        source = items[number].source
        if values[number] is None:
            with pytest.raises(ReadError, match="names no file"):
                make_source(source).open()
            continue
        assert contents(source) == values[number]
        is_large = len(values[number] or b"") >= LARGE
        assert isinstance(source, Source) == (is_large and compression == "none")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bytes_in_every_layout_of_a_table_in_memory_are_not_copied(layout: str) -> None:
    datasets = pytest.importorskip("datasets", reason="needs datasets")
    size = LAYOUTS[layout].byte_width if "fixed" in layout else None
    values = [random.Random(i).randbytes(size or (LARGE, 5, 100)[i % 3]) for i in range(6)]
    array = pa.array(values, LAYOUTS[layout] if size else pa.binary()).cast(LAYOUTS[layout])
    for number, item in enumerate(as_items(datasets.Dataset(pa.table({"video": array})), kind="video")):
        assert contents(item.source) == values[number]
        assert isinstance(item.source, Source) == (len(values[number]) >= LARGE)


def test_required_values_are_checked(tmp_path: Path) -> None:
    values = [bytes([i]) * LARGE for i in range(5)]
    path = str(tmp_path / "rows.parquet")
    schema = pa.schema([pa.field("video", pa.binary(), nullable=False)])
    parquet.write_table(pa.table({"video": values}, schema), path, compression="none", use_dictionary=False)
    with parquet_file(path) as file:
        column = MediaColumn(path, "video", file)
    assert [contents(column[i]) for i in range(5)] == values


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("videos") / "a.mp4"
    write_test_pattern(path, width=320, height=240, num_frames=300)
    return path


def write_rows(path: Path, video: Path, count: int, **options: Any) -> None:
    data = video.read_bytes()
    rows = [{"video": {"bytes": data, "path": f"{i}.mp4"}, "label": i} for i in range(count)]
    parquet.write_table(pa.Table.from_pylist(rows), path, compression="none", **options)


def test_rows_are_decoded_as_files_are(video: Path, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.parquet", video, 3)
    items = as_items(tmp_path / "rows.parquet", kind="video")
    assert [item.name for item in items] == ["0.mp4", "1.mp4", "2.mp4"]
    assert all(isinstance(item.source, Source) for item in items)
    with VideoDecoder(items[1].source) as ours, VideoDecoder(video) as theirs:
        assert ours[250].equal(theirs[250])
    clips, plain = (VideoClips(one, num_frames_per_clip=4) for one in (tmp_path / "rows.parquet", [video] * 3))
    for row in range(3):
        ours, theirs = clips.spec(row).load(), plain[row]
        assert ours.label == row
        assert ours.frames.data.equal(theirs.frames.data)
        assert pickle.loads(pickle.dumps(clips.spec(row))).load().frames.data.equal(theirs.frames.data)


def test_a_frame_costs_what_it_costs_in_a_file(video: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec")
    folder = fsspec.filesystem("memory")
    folder.pipe("/costs/a.mp4", video.read_bytes())
    with folder.open("/costs/rows.parquet", "wb") as file:
        rows = [{"video": {"bytes": video.read_bytes(), "path": f"{i}.mp4"}} for i in range(40)]
        parquet.write_table(pa.Table.from_pylist(rows), file, compression="none")
    fetched: list[int] = []
    fetch = RangeReader._fetch

    def counted(self: RangeReader, start: int, stop: int) -> bytes:
        data = fetch(self, start, stop)
        fetched.append(len(data))
        return data

    monkeypatch.setattr(RangeReader, "_fetch", counted)

    def cost(source: Any) -> int:
        fetched.clear()
        with VideoDecoder(source) as decoder:
            decoder[200]
        return sum(fetched)

    items = as_items("memory://costs/rows.parquet", kind="video")
    size = video.stat().st_size
    alone = cost("memory://costs/a.mp4")
    fetched.clear()
    source = items[30].source
    finding = sum(fetched)
    assert finding < 5 * size  # of 40 values; it fetches the blocks that their lengths are in
    assert cost(source) <= alone + 2 * (1 << 16)


def test_columns_of_audio_have_their_types(tmp_path: Path) -> None:
    write_test_pattern(tmp_path / "a.mp4", num_frames=60, width=64, height=64)
    rows = [{"audio": {"bytes": (tmp_path / "a.mp4").read_bytes(), "path": None}}]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet", compression="none")
    ours, theirs = (
        AudioClips(source, seconds_per_clip=1.0)[0] for source in (tmp_path / "rows.parquet", [tmp_path / "a.mp4"])
    )
    assert ours.audio.data.equal(theirs.audio.data)


def test_damage_is_an_error_or_reads_like_pyarrow(tmp_path: Path) -> None:
    values = [bytes([i]) * 90_000 for i in range(6)]
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"video": values}), path, compression="none", use_dictionary=False, data_page_size=1)
    sound = path.read_bytes()
    rng = random.Random(7)
    for _ in range(60):
        data = bytearray(sound)
        for _ in range(rng.choice((1, 3))):
            # Mostly where headers and lengths are, which is in front of values.
            head = sound.index(bytes([rng.randrange(6)]) * 100) - rng.randrange(40)
            data[rng.choice((head, rng.randrange(len(data))))] = rng.randrange(256)
        path.write_bytes(data)
        items: Any = ()
        with suppress(InvalidArgumentError, ReadError):
            items = as_items(path, kind="video")
        for item in items:
            with suppress(ReadError, OpenError):
                assert len(contents(item.source) or b"") <= len(sound)


def test_a_deleted_file_is_a_finding(video: Path, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.parquet", video, 2)
    clips = VideoClips(tmp_path / "rows.parquet", num_frames_per_clip=2, on_error="skip")
    (tmp_path / "rows.parquet").unlink()
    row = clips[0]
    assert "rows.parquet" in row.failures[0].message
    assert make_source(video).describe() == str(video)


def test_rows_of_a_table_that_was_replaced_are_refused(video: Path, tmp_path: Path) -> None:
    """Other media would get the old labels."""
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"video": [video.read_bytes()], "label": [1]}), path)
    items = as_items(path, kind="video")
    assert isinstance(items[0].source, bytes | Source)
    report = check_dataset(path, num_workers=0)
    reference = item_alone(items, 0).source
    travelling = pickle.dumps(reference)
    assert len(VideoDecoder(reference)) == len(VideoDecoder(video))
    other = pa.table({"video": [video.read_bytes()[:-1] + b"x"], "label": [2]})
    for table in (other, pa.table({"clip": [b"another"]})):
        parquet.write_table(table, path)
        for given in (items, pickle.loads(pickle.dumps(items))):
            with pytest.raises(ReadError, match="has changed since its table was read"):
                VideoDecoder(given[0].source)
        for source in (reference, pickle.loads(travelling), item_alone(report.items, 0).source):
            with pytest.raises(ReadError, match="has changed since its table was read"):
                VideoDecoder(source)
