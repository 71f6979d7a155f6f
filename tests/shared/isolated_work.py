"""Functions that tests run in isolated processes. Imports little, so a process starts fast."""

from __future__ import annotations

import ctypes
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch

from mediatensor.decoders import VideoDecoder
from mediatensor.frames import FrameBatch
from quick_child import give as give
from quick_child import process_id as process_id
from quick_child import sleep_after_writing


class Point(NamedTuple):
    x: int
    y: int


class OwnError(Exception):
    pass


class NoTextError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raise_one_without_text() -> None:
    raise NoTextError


def raise_one_with_much(number: int) -> None:
    raise ValueError([0] * number)


def open_video(source: object) -> VideoDecoder:
    return VideoDecoder(source)


def first_frames(source: object, num_frames: int) -> FrameBatch:
    return VideoDecoder(source).get_frames_in_range(0, num_frames)


def crash() -> None:
    ctypes.string_at(0)


def sleep_with_damaged_names() -> None:
    """Sleep in a function whose name and file are not objects, so that nobody can write a stack trace."""

    def wait() -> None:
        time.sleep(1000)

    code = wait.__code__
    names = id(code.co_filename), id(code.co_name)
    words = (ctypes.c_size_t * (sys.getsizeof(code) // ctypes.sizeof(ctypes.c_size_t))).from_address(id(code))
    for number, word in enumerate(words):
        if word in names:
            words[number] = 8
    wait()


def hang_holding_the_interpreter(pid_file: Path) -> None:
    """Start a program, write its number to the file, and never give the lock of the interpreter to another thread."""
    program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    pid_file.write_text(str(program.pid))
    re.match("(a+)+$", "a" * 64 + "b")


def take_memory(num_bytes: int) -> int:
    return len(torch.ones(num_bytes, dtype=torch.uint8))


def say_much() -> str:
    print("printed")
    os.write(1, b"written")
    return "returned"


def raise_own_error() -> None:
    raise OwnError("no more")


def connect(port: int) -> None:
    socket.create_connection(("127.0.0.1", port), timeout=10).close()


def start_in_a_session() -> None:
    subprocess.run([sys.executable, "-c", ""], start_new_session=True, check=True)


def start_in_a_group() -> None:
    subprocess.run([sys.executable, "-c", ""], process_group=0, check=True)


class DatasetOfFrames(torch.utils.data.Dataset[torch.Tensor]):
    def __init__(self, worker: Any, path: str) -> None:
        self._worker = worker
        self._path = path

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> torch.Tensor:
        frames: torch.Tensor = self._worker.run(first_frames, self._path, index + 1).data
        return frames[index]


if __name__ == "__main__":
    # A program that is killed while it waits for an isolated process.
    from mediatensor.isolate import IsolatedWorker

    IsolatedWorker(timeout_seconds=None).run(sleep_after_writing, Path(sys.argv[1]))


def size_of_page(path: Path, timeout_seconds: float) -> tuple[int, ...]:
    """The shape of the first page of a PDF file, which a process of that process renders."""
    from mediatensor.ocr.io import read_pdf

    return tuple(read_pdf(path, timeout_seconds=timeout_seconds)[0].shape)


def fork_and_answer(number: int) -> tuple[str, int]:
    """Return in two processes, in the forked one first."""
    child = os.fork()
    if child == 0:
        return "child", number
    os.waitpid(child, 0)
    return "parent", number
