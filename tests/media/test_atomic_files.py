"""Files appear complete or not at all, even if writing is interrupted at any line."""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from mediatensor import encoders
from mediatensor._engine.sources.output_files import AtomicFile, write_file, writing

# Private modules, so that interrupts hit every line of the code that writes a file, and nothing else.
from mediatensor.cli import _extract, build_parser
from mediatensor.cli._extract import SoundJob, SubtitlesJob
from mediatensor.decoders import AudioDecoder, SubtitleDecoder
from mediatensor.encoders import AudioEncoder, JpegEncoder, VideoEncoder
from mediatensor.errors import SourceTypeError, WriteError
from mediatensor.ocr.io import Page
from mediatensor.ocr.io._documents import pdfium as _pdfium
from places import in_child, interrupted_at_line, needs_fork, needs_unix, read_pipe

IMAGE = torch.randint(0, 256, (3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
FRAMES = IMAGE.repeat(2, 1, 4, 4)
SUBTITLES = "1\n00:00:01,000 --> 00:00:02,000\nHello\n"


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("before", [None, b"before"])
def test_failed_block_keeps_old_file(before: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "file"
    if before is not None:
        path.write_bytes(before)

    def write(error: BaseException | None) -> None:
        with writing(path) as file:
            file.write(b"after" * 10_000)
            assert (path.read_bytes() if path.exists() else None) == before
            if error is not None:
                raise error

    for error in (KeyError("mine"), KeyboardInterrupt(), WriteError("mine")):
        with pytest.raises(type(error)):
            write(error)
        assert [path.read_bytes() for path in tmp_path.iterdir()] == ([] if before is None else [before])
    with pytest.raises(WriteError, match=r"Could not write to '.*file': mine\."):
        write(OSError("mine"))
    write(None)
    assert path.read_bytes() == b"after" * 10_000
    assert names(tmp_path) == ["file"]


def test_dropped_file_leaves_nothing(tmp_path: Path) -> None:
    new = AtomicFile(tmp_path / "file")
    assert len(names(tmp_path)) == 1
    del new
    assert names(tmp_path) == []


@needs_unix
def test_permissions_and_links_stay(tmp_path: Path) -> None:
    path, link, ordinary = tmp_path / "file", tmp_path / "link", tmp_path / "ordinary"
    link.symlink_to(path)
    ordinary.touch()
    write_file(link, b"first")
    assert path.stat().st_mode == ordinary.stat().st_mode
    path.chmod(0o640)
    write_file(link, b"second")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert link.is_symlink()
    assert path.read_bytes() == b"second"
    assert names(tmp_path) == ["file", "link", "ordinary"]


@needs_unix
def test_pipes_are_written_directly(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    with read_pipe(path) as received:
        write_file(path, b"all of it" * 50_000)
    assert received == [b"all of it" * 50_000]
    assert stat.S_ISFIFO(path.stat().st_mode)


@needs_fork
@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="needs /dev/stdout")
def test_standard_output_is_written_directly(tmp_path: Path) -> None:
    output = tmp_path / "output"

    def write() -> None:
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT), 1)
        identity = output.stat().st_ino
        write_file("/dev/stdout", b"all of it")
        assert output.stat().st_ino == identity

    in_child(tmp_path, write)
    assert output.read_bytes() == b"all of it"


@pytest.mark.parametrize("name", ["n" * 255, "€" * 85, "𝄞" * 63], ids=["1 byte each", "3 bytes", "4 bytes"])
def test_longest_names_are_written(name: str, tmp_path: Path) -> None:
    write_file(tmp_path / name, b"all of it")
    assert names(tmp_path) == [name]


def test_unwritable_destination_is_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none" / "file", f"{tmp_path}/nul\0byte"):
        with pytest.raises(WriteError, match="must be a valid path") as caught:
            write_file(path, b"")
        assert f"Could not write to {str(path)!r}" in str(caught.value)
        assert ".part" not in str(caught.value)
    no_path: Any = 1
    with pytest.raises(SourceTypeError, match="must be a path"):
        write_file(no_path, b"")
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["folder/", "", "loop", "n" * 256])
def test_invalid_names_are_refused_before_writing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(WriteError):
        AtomicFile(name)
    assert [path.name for path in tmp_path.iterdir()] == ["loop"]
    assert (tmp_path / "loop").is_symlink()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_owner_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"old")
    os.chown(path, 12345, 23456)
    write_file(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid, path.read_bytes()) == (12345, 23456, b"new")


def test_concurrent_writers_do_not_interfere(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = [bytes([number]) * 200_000 for number in range(4)]
    write_file(path, contents[0])

    def write(data: bytes) -> None:
        for _ in range(20):
            write_file(path, data)

    threads = [threading.Thread(target=write, args=(data,)) for data in contents]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert path.read_bytes() in contents
    assert names(tmp_path) == ["file"]


def write_pdf(path: Path) -> None:
    pytest.importorskip("pypdfium2")
    Page(np.zeros((8, 8, 3), np.uint8), [], 0, (8, 8)).save_pdf(path)


OPTIONS = build_parser().parse_args(["extract", "file"])


def write_subtitles(path: Path) -> None:
    (source := path.parents[1] / "source.srt").write_text(SUBTITLES)
    with SubtitleDecoder(source) as decoder:
        SubtitlesJob(decoder, path.with_suffix(""), OPTIONS).write()


def write_sound(path: Path) -> None:
    source = path.parents[1] / "source.wav"
    if not source.exists():
        AudioEncoder(torch.zeros(1, 100), sample_rate=8000).to_file(source)
    with AudioDecoder(source) as decoder:
        SoundJob(decoder, path.with_suffix(""), OPTIONS).write()


ATOMIC_FILES = sys.modules[AtomicFile.__module__]

#: Functions that write a file, and the modules whose lines are interrupted, in addition to `ATOMIC_FILES`.
WRITERS: dict[str, tuple[Callable[[Path], object], list[ModuleType]]] = {
    "block": (lambda path: write_file(path, b"all of it"), []),
    "image.jpg": (lambda path: JpegEncoder(IMAGE).to_file(path), [sys.modules[JpegEncoder.__module__]]),
    "page.pdf": (write_pdf, [_pdfium]),
    "text.srt": (write_subtitles, [_extract]),
    "sound.wav": (write_sound, [_extract]),
    "video.mp4": (lambda path: VideoEncoder(FRAMES, frame_rate=25).to_file(path, codec="mpeg4"), [encoders]),
}


@needs_fork
@pytest.mark.parametrize("name", WRITERS)
def test_interrupt_at_any_line_leaves_one_whole_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "output").mkdir()
    path, (write, modules) = tmp_path / "output" / name, WRITERS[name]
    write(path)
    size = path.stat().st_size

    def write_until_none_comes() -> int:
        number = 1
        path.write_bytes(b"before")
        while interrupted_at_line(number, [ATOMIC_FILES, *modules], lambda: write(path)):
            assert names(path.parent) == [name], number
            assert path.read_bytes() == b"before" or path.stat().st_size == size, number
            path.write_bytes(b"before")
            number += 1
        assert path.stat().st_size == size
        return number

    # In a process of its own, because objects that tracing keeps alive must not be freed in forks of other tests.
    assert in_child(tmp_path, write_until_none_comes) > 20
