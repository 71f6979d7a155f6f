"""Sources of images, and lists of images."""

from __future__ import annotations

import io
import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import images
from file_sources import SOURCES
from mediatensor import set_num_threads
from mediatensor.decoders import decode_image, decode_jpeg, decode_png, decode_webp
from mediatensor.errors import DecodeError, OpenError, SourceNotFoundError, SourceTypeError
from places import needs_unix

IMAGE_SOURCES: dict[str, Callable[[Path], Any]] = SOURCES | {
    "every other byte of a tensor": lambda path: torch.frombuffer(
        bytearray(byte for pair in zip(path.read_bytes(), path.read_bytes(), strict=True) for byte in pair),
        dtype=torch.uint8,
    )[::2]
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("images") / "no extension: it is not looked at"
    path.write_bytes(images.encoded(images.picture(), "PNG"))
    return path


@pytest.fixture(scope="module")
def files() -> list[bytes]:
    """Write fifty pictures of different sizes and formats."""
    kinds = ["JPEG", "PNG", "WEBP", "GIF", "BMP"]
    return [images.encoded(images.picture(30 + number, 41, 3), kinds[number % len(kinds)]) for number in range(50)]


@pytest.fixture
def eight_threads(own_limits: None) -> None:
    set_num_threads(8)


def same(images_found: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(images_found, expected, strict=True))


@pytest.mark.parametrize("make", IMAGE_SOURCES.values(), ids=IMAGE_SOURCES.keys())
def test_every_source_gives_the_same_picture(make: Callable[[Path], Any], path: Path) -> None:
    source = make(path)
    expected = torch.from_numpy(images.picture()).permute(2, 0, 1)
    assert torch.equal(decode_image(source), expected)
    assert torch.equal(decode_image(source), expected)  # a file object is read from its beginning again
    if hasattr(source, "close"):
        assert not source.closed
        source.close()


def test_a_file_system_of_fsspec(path: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec")
    fsspec.filesystem("memory").pipe("/image.png", path.read_bytes())
    assert decode_png("memory://image.png").shape == (3, 23, 37)


@needs_unix
def test_a_pipe_that_is_open_is_read_to_its_end(path: Path) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading), os.fdopen(writing, "wb") as pipe:
        pipe.write(path.read_bytes())
        pipe.close()
        assert torch.equal(decode_png(f"/dev/fd/{reading}"), decode_png(path))


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match=r"nowhere\.png"):
        decode_png(tmp_path / "nowhere.png")
    with pytest.raises(SourceTypeError, match="Unknown source type"):
        decode_png(17)
    with pytest.raises(OpenError, match=r"rtmp://127.0.0.1/image.png: only FFmpeg can open it"):
        decode_png("rtmp://127.0.0.1/image.png")
    (tmp_path / "empty.png").touch()
    with pytest.raises(OpenError, match="empty"):
        decode_png(tmp_path / "empty.png")


def test_a_file_that_never_ends_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    # This is private: with the real limit, a GiB of zeros would be read.
    monkeypatch.setattr("mediatensor._engine.images.reading.MAX_FILE_BYTES", 1000)
    for source in (path, path.open("rb"), "/dev/zero"):
        with pytest.raises(OpenError, match=r"as an image: .* bytes, more than the limit of 1000"):
            decode_png(source)


@pytest.mark.parametrize("sequence", [list, tuple])
def test_a_list_is_decoded_in_order(sequence: Any, files: list[bytes], eight_threads: None) -> None:
    expected = [decode_image(file) for file in files]
    found = decode_image(sequence(files))
    assert isinstance(found, list)
    assert same(found, expected)


def test_every_function_takes_a_list(files: list[bytes]) -> None:
    for number, decode in enumerate((decode_jpeg, decode_png, decode_webp)):
        ours = files[number::5]
        assert same(decode(ours, mode="gray"), [decode(file, mode="gray") for file in ours])
    assert decode_jpeg([]) == []


class ObservedFile(io.BytesIO):
    """A file that calls a function when it is first read."""

    def __init__(self, data: bytes, on_read: Callable[[], object]) -> None:
        super().__init__(data)
        self._on_read: Callable[[], object] | None = on_read

    def read(self, size: int | None = -1) -> bytes:
        on_read, self._on_read = self._on_read, None
        if on_read is not None:
            on_read()
        return super().read(size)


def test_a_list_is_decoded_side_by_side(eight_threads: None) -> None:
    # No file is read before four of them are requested.
    together = threading.Barrier(4, timeout=30)
    file = images.encoded(images.picture(), "PNG")
    assert len(decode_png([ObservedFile(file, together.wait) for _ in range(4)])) == 4


def test_no_more_threads_than_the_budget_has(files: list[bytes], own_limits: None) -> None:
    names = set()
    set_num_threads(1)
    decode_image([ObservedFile(file, lambda: names.add(threading.get_ident())) for file in files])
    assert names == {threading.get_ident()}


def test_an_error_in_a_list_says_which_one(files: list[bytes], eight_threads: None) -> None:
    broken = [*files[:7], files[1][:-20], *files[8:]]
    with pytest.raises(DecodeError) as raised:
        decode_image(broken)
    assert raised.value.__notes__ == ["This was source 7 of the list."]
    # The threads were returned to the budget.
    assert len(decode_image(files)) == 50


def test_many_threads_may_decode_lists(files: list[bytes], eight_threads: None) -> None:
    expected = [decode_image(file) for file in files]
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(decode_image, [files] * 8):
            assert same(found, expected)


class Images(Dataset[int]):
    """A dataset with sums of the pixels of lists of files."""

    def __init__(self, files: list[bytes]) -> None:
        self.files = files

    def __len__(self) -> int:
        return 6

    def __getitem__(self, number: int) -> int:
        return sum(int(image.long().sum()) for image in decode_image(self.files[number::6]))


def test_in_workers_of_a_data_loader(files: list[bytes], eight_threads: None) -> None:
    dataset = Images(files)
    expected = [dataset[number] for number in range(6)]  # with threads, before the fork
    assert [int(value) for value in DataLoader(dataset, batch_size=None, num_workers=2)] == expected


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_after_a_fork_while_others_decode(files: list[bytes], eight_threads: None) -> None:
    expected = Images(files)[0]
    context = multiprocessing.get_context("fork")
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            decode_image(files)

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        queue = context.SimpleQueue()
        child = context.Process(target=lambda: queue.put(Images(files)[0]))
        child.start()
        child.join(60)
        assert child.exitcode == 0
        assert queue.get() == expected
    finally:
        stop.set()
        thread.join()
