"""Samples of tar shards as files of map-style datasets."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import shutil
import subprocess
import tarfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from mediatensor._engine.sources.source import make_source
from mediatensor.datasets import (
    AudioClips,
    DataLoader,
    Item,
    Sample,
    Shuffle,
    Skipped,
    TarItems,
    TarSamples,
    VideoClips,
)
from mediatensor.datasets._rows.recipe import OpenFiles
from mediatensor.decoders import VideoDecoder, WavDecoder
from mediatensor.encoders import AudioEncoder, VideoEncoder
from mediatensor.errors import InvalidArgumentError, OpenError, ReadError, SourceNotFoundError, SourceTypeError
from mediatensor.samplers import clips_at_regular_indices
from tar_files import TextRecipe, tar_bytes
from training_set import count_openings, linear_decode, make_videos

NUM_VIDEOS = 6


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_videos(tmp_path_factory.mktemp("videos"), NUM_VIDEOS)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory, videos: list[Path]) -> Path:
    """A folder with two shards of three videos; labels in .cls in one, in .json in the other."""
    folder = tmp_path_factory.mktemp("shards")
    for shard in range(2):
        members = []
        for number in range(3 * shard, 3 * shard + 3):
            members.append((f"class/{number}.mp4", videos[number].read_bytes()))
            if shard == 0:
                members.append((f"class/{number}.cls", b" %d\n" % number))
            else:
                members.append((f"class/{number}.json", json.dumps({"label": number, "place": "Oslo"}).encode()))
            members.append((f"class/{number}.txt", f"video número {number}".encode()))
        (folder / f"train-{shard:03}.tar").write_bytes(tar_bytes(members))
    return folder


def by_system_tar(folder: Path, archive: Path, *options: str) -> None:
    program = shutil.which("tar")
    if program is None:
        pytest.skip("needs the tar program")
    command = [program, *options, "-cf", str(archive), "-C", str(folder), "."]
    result = subprocess.run(command, capture_output=True, timeout=60, check=False)
    if result.returncode:
        pytest.skip(f"this tar does not know {' '.join(options)}")


def test_items_have_the_frames_labels_and_columns_of_their_samples(shards: Path, videos: list[Path]) -> None:
    items = TarItems(shards / "train-{000..001}.tar")
    assert len(items) == NUM_VIDEOS
    assert [item.label for item in items] == list(range(NUM_VIDEOS))
    assert items[0].name == f"{shards}/train-000.tar/class/0.mp4"
    assert items[-1].extra == {"place": "Oslo", "txt": "video número 5"}
    assert items[0].extra == {"txt": "video número 0"}
    for item, video in zip(items, videos, strict=True):
        torch.testing.assert_close(VideoDecoder(item.source)[:], linear_decode(video), rtol=0, atol=0)


@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_give_every_row_once_and_resume(shards: Path, context: str) -> None:
    dataset = VideoClips(TarItems(shards / "*.tar"), num_frames_per_clip=2, rows_per_file=2)
    options = {"batch_size": 2, "shuffle": Shuffle(rows_together=2), "multiprocessing_context": context}
    loader = DataLoader(dataset, num_workers=2, **options)
    rows, batches = [], iter(loader)
    for _ in range(3):
        rows += next(batches).row.tolist()
    resumed = DataLoader(dataset, batch_size=3, shuffle=options["shuffle"])
    resumed.load_state_dict(loader.state_dict())
    for batch in resumed:
        rows += batch.row.tolist()
    assert sorted(rows) == list(range(2 * NUM_VIDEOS))


def test_an_open_decoder_serves_all_rows_of_its_file(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = count_openings(monkeypatch)
    dataset = VideoClips(TarItems(shards / "*.tar"), num_frames_per_clip=2, rows_per_file=5)
    for row in range(10):
        dataset[row]
    assert len(opened) == 2
    # Rows that come from another process name the same file.
    with OpenFiles(max_open=2) as files:
        for row in (0, 5, 1, 6):
            pickle.loads(pickle.dumps(dataset.spec(row))).load(files)
    assert len(opened) == 4


def test_a_clip_reads_a_part_of_its_file_only(tmp_path: Path) -> None:
    video = tmp_path / "noise.mp4"
    noise = torch.randint(0, 256, (60, 3, 128, 128), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    VideoEncoder(noise, frame_rate=25).to_file(video, preset="ultrafast", extra_options={"g": 10})
    archive = tmp_path / "one.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(video, "one.mp4")
    source = TarItems(archive)[0].source
    read: list[int] = []
    reader_type = type(source.open())
    original = reader_type._read_at

    def counting(self, position: int, size: int) -> bytes:
        data = original(self, position, size)
        read.append(len(data))
        return data

    reader_type._read_at = counting
    try:
        first = VideoDecoder(source)[0]
    finally:
        reader_type._read_at = original
    torch.testing.assert_close(first, VideoDecoder(video)[0], rtol=0, atol=0)
    assert 0 < sum(read) < video.stat().st_size / 4


def test_items_and_sources_can_be_pickled(shards: Path) -> None:
    items = TarItems([shards / "train-000.tar", shards / "train-001.tar"])
    copy = pickle.loads(pickle.dumps(items))
    assert [item.name for item in copy] == [item.name for item in items]
    assert pickle.loads(pickle.dumps(items[4].source)) == items[4].source
    assert len(pickle.dumps(items[4])) < 1000


@pytest.mark.parametrize("options", [[], ["--format=gnu"], ["--format=posix"], ["--format=ustar"], ["--format=v7"]])
def test_archives_of_the_tar_program_are_read(tmp_path: Path, videos: list[Path], options: list[str]) -> None:
    folder = tmp_path / "files"
    names = ["a.mp4", "sub.folder/b.front.mp4"]
    if options in ([], ["--format=gnu"], ["--format=posix"]):
        names += [f"{'long-' * 40}ü.mp4", f"{'deep/' * 30}c.mp4"]
    for name, video in zip(names, videos, strict=False):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(video, folder / name)
    (folder / "README").write_text("no sample")
    (folder / "link.mp4").symlink_to("a.mp4")
    by_system_tar(folder, tmp_path / "files.tar", *options)
    items = TarItems(tmp_path / "files.tar")
    expected = {**dict(zip(names, videos, strict=False)), "link.mp4": videos[0]}
    assert {item.name.removeprefix(f"{tmp_path}/files.tar/") for item in items} == set(expected)
    for item in items:
        video = expected[item.name.removeprefix(f"{tmp_path}/files.tar/")]
        torch.testing.assert_close(VideoDecoder(item.source)[:], linear_decode(video), rtol=0, atol=0)


def test_members_match_tarfile(tmp_path: Path) -> None:
    members = [(f"{'n' * length}/{length}.mp4", b"x" * length) for length in (1, 50, 98, 101, 255, 256, 3000)]
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        chosen = members[:3] if form == tarfile.USTAR_FORMAT else members
        path = tmp_path / f"{form}.tar"
        path.write_bytes(tar_bytes(chosen, format=form))
        with tarfile.open(path) as reference:
            expected = [(info.name, info.offset_data, info.size) for info in reference]
        found = [(item.name.removeprefix(f"{path}/"), item.source.offset, item.source.size) for item in TarItems(path)]
        assert found == expected


def linked_archive(path: Path, mode: str = "w") -> Path:
    """An archive with hard links, symbolic links over links and to later files, and links to nowhere."""
    entries = [
        ("0.txt", b"zero", None, None),
        ("0.cls", b"7", None, None),
        ("1.txt", b"", tarfile.LNKTYPE, "0.txt"),
        ("1.cls", b"", tarfile.LNKTYPE, "0.cls"),
        ("2.txt", b"", tarfile.SYMTYPE, "deep/3.txt"),
        ("2.cls", b"", tarfile.SYMTYPE, "1.cls"),
        ("deep/3.txt", b"three", None, None),
        ("deep/3.cls", b"", tarfile.SYMTYPE, "../0.cls"),
        ("4.txt", b"", tarfile.SYMTYPE, "../../etc/passwd"),
        ("5.txt", b"", tarfile.SYMTYPE, "5.txt"),
    ]
    with tarfile.open(path, mode) as archive:
        for name, data, kind, target in entries:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            if kind is not None:
                info.type, info.linkname = kind, target
            archive.addfile(info, io.BytesIO(data))
    return path


def read_text(item: Item) -> str:
    try:
        return make_source(item.source).open().read(99).decode()
    except ReadError as error:
        return str(error)


def streamed(archive: Path) -> list[tuple[str, Any]]:
    """(text or the reason why there is none, label) of each sample, read forward."""
    samples: Any = TarSamples(archive, TextRecipe(), media="txt", on_error="skip")
    return [
        (one.failures[0].message, None) if isinstance(one, Skipped) else (one.extra["text"], one.label)
        for one in samples
    ]


def test_links_have_the_bytes_and_labels_of_their_targets(tmp_path: Path) -> None:
    expected = [("zero", 7), ("zero", 7), ("three", 7), ("three", 7)]
    archive = linked_archive(tmp_path / "plain.tar")
    rows = [(read_text(item), item.label) for item in TarItems(archive, media="txt")]
    for found in (rows, streamed(archive)):
        assert found[:4] == expected
        assert len(found) == 6
        assert all("is a link to a file that cannot be read" in text for text, _ in found[4:])
    # Compressed archives are read forward only: no sample is lost without a word.
    packed = streamed(linked_archive(tmp_path / "packed.tar.gz", "w:gz"))
    assert [text for text, _ in packed if "file that cannot be read" not in text] == ["zero"]
    assert len(packed) == 6


def test_items_of_a_shard_that_was_replaced_are_refused(tmp_path: Path) -> None:
    """Other members at the same places would be taken for the media of the old labels."""
    path = tmp_path / "shard.tar"
    path.write_bytes(tar_bytes([("a.txt", b"old"), ("a.cls", b"1")]))
    (item,) = TarItems(path, media="txt")
    assert read_text(item) == "old"
    path.write_bytes(tar_bytes([("a.txt", b"new"), ("a.cls", b"2")]))
    os.utime(path, ns=(0, 0))
    for source in (item, pickle.loads(pickle.dumps(item))):
        assert "has changed since it was indexed" in read_text(source)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_items_of_a_pipe_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.tar")
    with pytest.raises(OpenError, match=r"not a regular file\. Use TarSamples"):
        TarItems(tmp_path / "pipe.tar")


def test_keys_end_at_the_first_dot_of_the_base_name(tmp_path: Path) -> None:
    names = ["v1.0/a.mp4", "v1.0/a.cls", "v1.0/b.left.MP4", "v1.0/b.right.mp4", "c.mp4", "a.mp4", "a.mp4", ".d.mp4"]
    path = tmp_path / "names.tar"
    path.write_bytes(tar_bytes([(name, b"1") for name in names]))
    names = [item.name.removeprefix(f"{path}/") for item in TarItems(path)]
    # A name that comes again is another sample: nothing is lost.
    assert names == ["v1.0/a.mp4", "v1.0/b.left.mp4", "c.mp4", "a.mp4", "a.mp4"]
    assert [item.label for item in TarItems(path)] == [1, None, None, None, None]
    right = TarItems(path, media="right.mp4")
    assert right[1].name == f"{path}/v1.0/b.right.mp4"


def test_audio_may_come_from_a_video(tmp_path: Path) -> None:
    sound = torch.linspace(-0.5, 0.5, 800)[None]
    wav = bytes(AudioEncoder(sound, sample_rate=8000).to_tensor("wav").numpy())
    path = tmp_path / "sound.tar"
    path.write_bytes(tar_bytes([("a.mp4", b"?"), ("a.wav", wav), ("b.wav", wav), ("c.mp4", b"?")]))
    items = TarItems(path, kind="audio")
    assert [item.name[-5:] for item in items] == ["a.wav", "b.wav", "c.mp4"]
    torch.testing.assert_close(
        WavDecoder(items[1].source).get_all_samples().data, WavDecoder(wav).get_all_samples().data, rtol=0, atol=0
    )
    dataset = AudioClips(items, on_error="skip")
    assert isinstance(dataset[0], Sample)
    assert isinstance(dataset[2], Skipped)


@pytest.mark.parametrize(
    ("name", "character", "length", "message"),
    [
        ("0.json", b"{", 1, "JSON"),
        ("0.json", b"[", 100_000, "JSON"),
        ("0.txt", b"\xff", 2, "UTF-8"),
        ("0.txt", b" ", (1 << 24) + 1, "more than the limit"),
    ],
)
def test_a_bad_column_is_an_error_of_its_row(
    tmp_path: Path, videos: list[Path], name: str, character: bytes, length: int, message: str
) -> None:
    path = tmp_path / "columns.tar"
    video, column = videos[0].read_bytes(), (name, character * length)
    path.write_bytes(tar_bytes([("0.mp4", video), column, ("1.mp4", video), ("1.cls", b"cat"), ("2.cls", b"1")]))
    items = TarItems(path)
    dataset = VideoClips(items, num_frames_per_clip=2, on_error="skip")
    skipped = dataset[0]
    assert isinstance(skipped, Skipped)
    assert skipped.failures[0].error == "ReadError"
    assert message in skipped.failures[0].message
    assert name in skipped.failures[0].message
    assert isinstance(dataset[1], Sample)
    assert items[1].label == "cat"
    without_video = dataset[2]
    assert isinstance(without_video, Skipped)
    assert "has no video, only cls" in without_video.failures[0].message


def damaged(kind: str, whole: bytes) -> bytes:
    """A shard of three samples, damaged in the third."""
    third = whole.index(b"2.mp4")
    if kind == "cut in a file":
        return whole[: third + 700]
    if kind == "cut in a header":
        return whole[: third + 100]
    if kind == "header overwritten":
        return whole[: third + 10] + b"\xff" * 30 + whole[third + 40 :]
    if kind == "no end marker":
        return whole[: whole.index(b"\0" * 1024, third + 600) // 512 * 512]
    size = {"size too large": b"77777777777\0", "size negative": b"\xff" * 12, "size huge": b"\x80" + b"\xff" * 11}[
        kind
    ]
    header = bytearray(whole[third : third + 512])
    header[124:136] = size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return whole[:third] + bytes(header) + whole[third + 512 :]


# How many samples are whole: a sample may have another member, until the name of the next one says that it has not.
DAMAGES = {
    "cut in a file": 2,
    "cut in a header": 1,
    "header overwritten": 1,
    "no end marker": 2,
    "size too large": 2,
    "size negative": 1,
    "size huge": 1,
}


@pytest.mark.parametrize("kind", list(DAMAGES))
def test_a_damaged_shard_gives_what_is_before_the_damage_and_one_failure(
    tmp_path: Path, videos: list[Path], kind: str
) -> None:
    num_whole = DAMAGES[kind]
    whole = tar_bytes([(f"{number}.mp4", videos[number].read_bytes()) for number in range(3)])
    (tmp_path / "bad.tar").write_bytes(damaged(kind, whole))
    (tmp_path / "good.tar").write_bytes(whole)
    dataset = VideoClips(TarItems(tmp_path / "{bad,good}.tar"), num_frames_per_clip=2, on_error="skip")
    samples = [dataset[row] for row in range(len(dataset))]
    assert [isinstance(sample, Sample) for sample in samples] == num_whole * [True] + [False] + 3 * [True]
    assert [failure.source for failure in samples[num_whole].failures] == [f"{tmp_path}/bad.tar"]
    assert "damaged" in samples[num_whole].failures[0].message
    with pytest.raises(ReadError, match=r"bad\.tar is damaged"):
        VideoClips(TarItems(tmp_path / "bad.tar"), num_frames_per_clip=2)[num_whole]


def test_headers_of_any_length_are_not_read(tmp_path: Path) -> None:
    header = tarfile.TarInfo("././@LongLink")
    header.type = tarfile.GNUTYPE_LONGNAME
    header.size = 1 << 30
    path = tmp_path / "long.tar"
    with path.open("wb") as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT))
        file.truncate(512 + (1 << 30))
    items = TarItems(path)
    assert len(items) == 1
    with pytest.raises(ReadError, match="header has 1073741824 bytes"):
        items[0].source.open()


def test_sparse_members_are_refused_and_not_given_wrong(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    with (tmp_path / "files" / "a.mp4").open("wb") as file:
        file.truncate(1 << 20)
        file.write(b"end")
    for form in ("gnu", "posix"):
        by_system_tar(tmp_path / "files", tmp_path / f"{form}.tar", "-S", f"--format={form}")
        with pytest.raises(ReadError, match="sparse"):
            TarItems(tmp_path / f"{form}.tar")[0].source.open()


def test_names_are_never_paths(tmp_path: Path, videos: list[Path]) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    path = folder / "evil.tar"
    names = ["../outside.mp4", "/etc/absolute.mp4", "a\nb.mp4"]
    path.write_bytes(tar_bytes([(name, videos[0].read_bytes()) for name in names]))
    dataset = VideoClips(TarItems(path), num_frames_per_clip=1)
    assert [dataset[row].source for row in range(3)] == [f"{path}/{name}" for name in names]
    assert {one.name for one in tmp_path.rglob("*")} == {"inside", "evil.tar"}


def test_a_shard_that_shrinks_or_goes_is_an_error_of_its_rows(tmp_path: Path, videos: list[Path]) -> None:
    path = tmp_path / "shard.tar"
    path.write_bytes(tar_bytes([("0.mp4", videos[0].read_bytes()), ("1.cls", b"1"), ("1.mp4", b"x")]))
    items = TarItems(path)
    source = items[0].source
    path.write_bytes(path.read_bytes()[:1024])
    with pytest.raises(ReadError, match="has changed"):
        VideoDecoder(source)
    path.unlink()
    with pytest.raises(SourceNotFoundError):
        VideoDecoder(source)
    with pytest.raises(ReadError, match="does not exist"):
        items[1].source.open()


def test_shards_without_index_are_refused(tmp_path: Path, shards: Path) -> None:
    compressed = tmp_path / "shard.tar.gz"
    compressed.write_bytes(gzip.compress((shards / "train-000.tar").read_bytes()))
    with pytest.raises(OpenError, match=r"compressed.*TarSamples"):
        TarItems(compressed)
    with pytest.raises(OpenError, match="TarSamples"):
        TarItems("https://example.org/a.tar")
    with pytest.raises(SourceNotFoundError, match="train-002"):
        TarItems(shards / "train-{000..002}.tar")
    with pytest.raises(InvalidArgumentError, match="twice"):
        TarItems([shards / "train-000.tar", shards / "train-{000..001}.tar"])
    with pytest.raises(InvalidArgumentError, match="neither a range"):
        TarItems(shards / "train-{000-001}.tar")
    with pytest.raises(InvalidArgumentError, match="no shards"):
        TarItems([])
    for given in (3, [3]):
        with pytest.raises(SourceTypeError, match=r"\(got 3\)"):
            TarItems(given)  # type: ignore[arg-type]


def test_files_that_are_not_archives_are_errors_of_one_row(tmp_path: Path) -> None:
    (tmp_path / "empty.tar").touch()
    (tmp_path / "text.tar").write_text("no archive" * 100)
    (tmp_path / "no-samples.tar").write_bytes(tar_bytes([]))
    items = TarItems(tmp_path / "*.tar")
    assert [Path(item.name).name for item in items] == ["empty.tar", "text.tar"]
    for item in items:
        with pytest.raises(ReadError, match="damaged at byte"):
            item.source.open()


def test_damaged_shard_may_have_a_name_that_is_not_unicode(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.tar")
    path.write_bytes(b"no archive")
    items = pickle.loads(pickle.dumps(TarItems(path)))
    assert [item.name for item in items] == [str(path)]
    with pytest.raises(ReadError, match="damaged at byte"):
        items[0].source.open()


def test_labels_come_from_a_function(shards: Path) -> None:
    def label(item: Item) -> str:
        return item.extra["txt"]

    sampler = partial(clips_at_regular_indices, num_clips=1, num_frames_per_clip=1)
    dataset = VideoClips(TarItems(shards / "*.tar"), sampler, label=label)
    assert dataset[3].label == "video número 3"
